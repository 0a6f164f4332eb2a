/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the graph of a pickle to rows of a plan: which part of it is the model, what its tensors are called, and what
 * becomes of everything else.
 */
#ifndef COFFER_PICKLE_PICKLE_ROWS_H
#define COFFER_PICKLE_PICKLE_ROWS_H

#include "pickle_views.h"

/*
 * Puts a row for each tensor of the graph, which is prepared: those of the model are written under their names, all
 * others are skipped. wants->root says which part is the model. With "auto" it is, in this order, the one child that has
 * a usual name (model, state_dict, …) and tensors; the top, if some of its values are tensors; the only child with
 * tensors, in which the same is asked again.
 *
 * Names are keys joined by dots. Objects of other programs become findings, or COFFER_ERR_OPAQUE with wants->strict.
 * COFFER_ERR_ROOT when several parts could be the model, or none; COFFER_ERR_NO_EQUIVALENT for a tensor of the model
 * that safetensors cannot express, unless wants->skip_unsupported; COFFER_ERR_NAME for a key that cannot be part of a
 * name; and what coffer__view_of gives.
 */
coffer_status coffer__graph_put_rows(coffer__graph *graph, coffer_error *err);

/* Chooses the root; *start is the node. A part of its path is put into `path`, escaped, for people. */
coffer_status coffer__graph_find_root(coffer__graph *graph, coffer__value *start, char *path, size_t path_size,
                                      coffer_error *err);

/* Puts a row of a view that is a tensor of the model: written, or, when it lacks an equivalent, skipped or refused. Of the
   graph the wants and the plan are used. */
coffer_status coffer__graph_put_model_view(const coffer__graph *graph, coffer__view *view, const char *name,
                                           size_t name_len, coffer_error *err);
/* Puts a row of a view, with what becomes of it. */
coffer_status coffer__graph_put_view(const coffer__graph *graph, coffer__view *view, const char *name, size_t name_len,
                                     coffer_fate fate, uint32_t reason, coffer_error *err);

#endif
