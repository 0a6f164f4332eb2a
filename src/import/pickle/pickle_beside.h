/* SPDX-License-Identifier: Apache-2.0 */
/* What a pickle has beside tensors, and a file of tensors has no place for: numbers, texts, settings. */
#ifndef COFFER_PICKLE_PICKLE_BESIDE_H
#define COFFER_PICKLE_PICKLE_BESIDE_H

#include "pickle_classify.h"

/* Remembers one by its name. */
void coffer__beside_add(coffer__graph *graph, const char *name, size_t name_len);
/* Puts a number or a text into the metadata, as JSON spells numbers, as far as wants->scalars has it; *put says whether. */
coffer_status coffer__beside_put(coffer__graph *graph, coffer__value value, const char *name, size_t name_len,
                                 bool *put, coffer_error *err);
/* Remembers or puts what a container has without any tensor; `taken` is the entry that has the model, and `path` leads to the
   container. Bounded: of many containers without tensors only the first are found. */
coffer_status coffer__beside_level(coffer__graph *graph, coffer__value container, coffer__value taken, const char *path,
                                   coffer_error *err);
/* Puts a finding that lists them, if there are any. */
coffer_status coffer__beside_note(coffer__graph *graph, coffer_error *err);

#endif
