/* SPDX-License-Identifier: Apache-2.0 */
/* The rule for names of files that an index, a stranger's text, may lead to. */
#ifndef COFFER_MODEL_MODEL_DIR_NAME_H
#define COFFER_MODEL_MODEL_DIR_NAME_H

#include "coffer.h"

#define COFFER__MODEL_DIR_MAX_PATH 1000

/* Fails with COFFER_ERR_SHARD_NAME at `offset` unless a name may be joined to a place: it is not
   empty, "." or "..", has none of / \ : or control characters, and at most 255 bytes. The same must
   be true of every name that results from undoing its %XX escapes, however often. */
coffer_status coffer__model_dir_check_name(const char *name, size_t name_len, uint64_t offset, coffer_error *err);
/* The same for a shard that is read, which may also be in a folder below that of the index. */
coffer_status coffer__model_dir_check_shard(const char *path, size_t path_len, uint64_t offset, coffer_error *err);
/* The same for the path of a file in a folder or below it: names with slashes between them, each of which may be joined, and
   at most COFFER__MODEL_DIR_MAX_PATH bytes. */
coffer_status coffer__model_dir_check_path(const char *path, size_t path_len, uint64_t offset, coffer_error *err);

#endif
