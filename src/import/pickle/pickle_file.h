/* SPDX-License-Identifier: Apache-2.0 */
/* One pickle in a file, and the storages next to it: what checkpoints are made of. */
#ifndef COFFER_PICKLE_PICKLE_FILE_H
#define COFFER_PICKLE_PICKLE_FILE_H

#include "pickle_follow.h"
#include "pickle_views.h"

/* Puts a storage that is one stored or deflated range of the file; what messages call it is `prefix`, then `key`. An
   empty one has no pieces. */
coffer_status coffer__pickle_file_put_storage(const coffer__reader_file *file, const coffer__import_plan_piece *piece,
                                              const char *prefix, const char *key, size_t key_len, uint32_t *number,
                                              coffer_error *err);
/*
 * Runs the pickle at `at`, of at most `size` bytes, and prepares the graph, whose `file`, `member` and so on are set.
 * With `bytes` (else NULL) the pickle is those, and the file has them packed. *end is the byte after it, counted from
 * `at`. Release with coffer__pickle_file_unload in any case.
 */
coffer_status coffer__pickle_file_load(coffer__graph *graph, const coffer__reader_file *file, const uint8_t *bytes,
                                       uint64_t at, uint64_t size, uint64_t *end, coffer_error *err);
/* The same without preparing the graph; after a failure it has what was built before, if there was memory. */
coffer_status coffer__pickle_file_run(coffer__graph *graph, const coffer__reader_file *file, const uint8_t *bytes,
                                      uint64_t at, uint64_t size, uint64_t *end, coffer_error *err);
void coffer__pickle_file_unload(coffer__graph *graph);
/* How far loaders get in what may be no pickle at all: coffer__pickle_follow of that range. */
coffer_status coffer__pickle_file_follow(coffer__followed *followed, const coffer__reader_file *file,
                                         const uint8_t *bytes, uint64_t at, uint64_t size, uint64_t from,
                                         coffer_error *err);
/* The metadata of every file that is made of a checkpoint. */
coffer_status coffer__pickle_file_put_format(coffer__import_plan *plan, coffer_error *err);

#endif
