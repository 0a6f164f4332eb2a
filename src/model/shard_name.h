/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of a model's files. One file of several:
 *
 *   PREFIX-00001-of-00003.safetensors   both numbers with 5 digits or both with 6; '-' or '_' before the first
 *
 * Their index ends in .index.json. A model without a name of its own gets the name that
 * transformers or diffusers use.
 */
#ifndef COFFER_MODEL_SHARD_NAME_H
#define COFFER_MODEL_SHARD_NAME_H

#include "coffer.h"
#include "names.h"
#include "paths.h"

#define COFFER__FILE_SUFFIX ".safetensors"
#define COFFER__INDEX_SUFFIX ".index.json" /* after the name that the model would have as one file */
/* Of what a save leaves when it is interrupted: the name of the index with one of these. pending_save.h says whether it counts. */
#define COFFER__PENDING_SAVE_NEW ".coffer-new"
#define COFFER__PENDING_SAVE_READY ".coffer-ready"
#define COFFER__PENDING_SAVE_OLD ".coffer-old"

/* What a name says, in numbers that were checked: at most six digits each. */
typedef struct coffer__shard_name {
    size_t prefix_len; /* includes the sign before the digits */
    size_t digits;
    uint32_t number; /* 1 to total */
    uint32_t total;
} coffer__shard_name;

/* Takes a name apart. False for any name that is not one of a shard. */
bool coffer__shard_name_read(coffer__shard_name *parts, const char *name, size_t name_len);
/* The same of names that end otherwise: ".gguf". */
bool coffer__shard_name_read_ending(coffer__shard_name *parts, const char *name, size_t name_len, const char *ending);
/* Makes name `number` of the set that the file `first` belongs to; `parts` are those of `first`.
   `number` has at most as many digits as the names of the set. `first` fits a path. */
void coffer__shard_name_make(coffer__path *name, const char *first, const coffer__shard_name *parts, uint32_t number);
/* Whether two names are of one set: the same prefix, total and number of digits. */
bool coffer__shard_name_same_set(coffer__name a, coffer__name b);

/* Whether `path` ends like the file of a model must: NAME.safetensors. */
bool coffer__shards_path_fits(const char *path);
/* The path of a shard, `path` being that of the model if it were one file; false when it is too
   long. */
bool coffer__shards_name(coffer__path *out, const char *path, size_t shard, size_t count);

/* Whether a name ends in the suffix, and has something before it. */
bool coffer__name_ends(coffer__name name, const char *suffix);

/* The names that loaders look for, in their order: a file, else its index, as transformers names
   them, then as diffusers does. */
#define COFFER__USUAL_NAMES 4u
extern const char *const coffer__usual_names[COFFER__USUAL_NAMES];

#endif
