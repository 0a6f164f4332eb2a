/* SPDX-License-Identifier: Apache-2.0 */
/* What the readers of torch's containers share: containers within others, and storages within pickles. */
#ifndef COFFER_TORCH_TORCH_H
#define COFFER_TORCH_TORCH_H

#include "pickle_file.h"

/* The containers, in any file. */
coffer_status coffer__torch_read_zip(const coffer__reader_file *file, coffer_error *err);
/* An archive that stays open, with its storages in the plan and its graph prepared: one of several that are read together.
   Release it in any case. */
typedef struct coffer__torch_opened coffer__torch_opened;
coffer_status coffer__torch_open_zip(coffer__torch_opened **opened, const coffer__reader_file *file, coffer_error *err);
coffer__graph *coffer__torch_opened_graph(coffer__torch_opened *opened);
void coffer__torch_opened_free(coffer__torch_opened *opened);
/* An archive that is one tensor, the view of which is *view. Its storages are put, and are called `name`, a text. */
coffer_status coffer__torch_read_tensor(const coffer__reader_file *file, uint32_t name, coffer__view *view,
                                        coffer_error *err);
coffer_status coffer__torch_read_stream(const coffer__reader_file *file, coffer_error *err);
/* The storage that is all of an embedded checkpoint: *found is false for other bytes, and for a checkpoint of anything else.
   What was put into the plan stays there. With `text` (else NULL) the older kind is what that decodes. */
struct coffer__torch_text;
coffer_status coffer__torch_stream_storage(const coffer__reader_file *file, const struct coffer__torch_text *text,
                                           coffer__within *within, bool *found, coffer_error *err);
coffer_status coffer__torch_zip_storage(const coffer__reader_file *file, coffer__within *within, bool *found,
                                        coffer_error *err);
/* Finds the storages that a pickle has as checkpoints within bytes, before its rows are put. */
coffer_status coffer__torch_find_within(coffer__graph *graph, const coffer__reader_file *file, coffer_error *err);

#endif
