/* SPDX-License-Identifier: Apache-2.0 */
/* Which tensors are wanted, by their names, and what they are called then. For checkpoints whose tensors have names only;
   in a pickle a part is found by its dict (pickle_root.c). */
#ifndef COFFER_IMPORT_SELECTION_H
#define COFFER_IMPORT_SELECTION_H

#include "plan.h"
#include "reader.h"

typedef struct coffer__selection {
    const coffer__wants *wants;
    const char *root; /* the path that names have to begin with, and lose; "": any */
    bool all;         /* the optimiser's, too */
    uint32_t outside; /* texts: why a tensor is left out */
    uint32_t optimiser;
    uint32_t unselected;
    size_t found; /* tensors below the root */
    size_t taken; /* tensors below the root that are wanted */
} coffer__selection;

/* `found` is the root that a reader has found, or "": what wants->root says goes first. COFFER_ERR_MEMORY. */
coffer_status coffer__selection_begin(coffer__selection *wanted, coffer__import_plan *plan, const coffer__wants *wants,
                                      const char *found, coffer_error *err);
/* What a tensor of `*name_len` bytes is called; NULL when it is not wanted, and *reason says why. */
const char *coffer__selection_name(coffer__selection *wanted, const char *name, size_t *name_len, uint32_t *reason);
/* When all tensors have been asked about: COFFER_ERR_ROOT if none is below the root, or none was selected. */
coffer_status coffer__selection_end(const coffer__selection *wanted, coffer_error *err);

/* Whether a name is selected, which every name is without patterns. */
bool coffer__selection_selects(const coffer__wants *wants, const char *name, size_t name_len);
/* Leaves out all rows of a plan whose names are not selected. An alias of one that is left out becomes a tensor itself.
   COFFER_ERR_ROOT when nothing would be written any more. */
coffer_status coffer__import_plan_select(coffer__import_plan *plan, const coffer__wants *wants, coffer_error *err);

#endif
