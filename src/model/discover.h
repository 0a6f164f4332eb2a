/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which model a folder holds. The first of these that exists:
 *
 *   model.safetensors, else model.safetensors.index.json                                    as transformers looks
 *   diffusion_pytorch_model.safetensors, else its index                                     as diffusers does
 *   the only *.safetensors.index.json
 *   the only *.safetensors, or the only set of PREFIX-00001-of-00003.safetensors, complete, without an index
 *   beside model_index.json, a pipeline: the above of transformer/, else of unet/
 *
 * Names that begin with a dot are ignored. A folder in which more than one model could be meant is
 * refused, and so is a set without an index while traces of an interrupted save are beside it.
 */
#ifndef COFFER_MODEL_DISCOVER_H
#define COFFER_MODEL_DISCOVER_H

#include "coffer.h"
#include "names.h"
#include "paths.h"

/* What was found. Names of a set point into `names`, whose size is that of its block and may exceed
   what is used. */
typedef struct coffer__found {
    coffer__path path; /* of the one file or of the index; of a set, of its first file */
    bool is_index;
    size_t set_count;  /* files of a set; 0: there is none */
    coffer__name *set; /* their names, in order */
    char *names;       /* the text of every name that was seen */
    size_t names_size;
} coffer__found;

/* Looks into a folder: COFFER_ERR_NO_MODEL, COFFER_ERR_AMBIGUOUS, COFFER_ERR_UNFINISHED,
   COFFER_ERR_SHARD_MISSING. Failures carry the path. coffer__found_free follows in any case. After
   COFFER_ERR_SHARD_MISSING the set that was found is still in *found, for those who list files.
   `folder` may or may not end in a slash. */
coffer_status coffer__discover(coffer__found *found, const char *folder, const coffer_allocator *allocator,
                               coffer_error *err);
void coffer__found_free(coffer__found *found, const coffer_allocator *allocator);

#endif
