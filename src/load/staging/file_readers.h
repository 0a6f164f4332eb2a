/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file readers of a load: for each file of the model, which engine reads it. A file reader is opened when the first
 * chunk of its file is read, or before to see whether that works, and those of files that nobody reads just now are
 * closed when there are many. Any number of threads may use them at once.
 */
#ifndef COFFER_LOAD_FILE_READERS_H
#define COFFER_LOAD_FILE_READERS_H

#include "chunk_source.h"
#include "engine.h"
#include "load_plan.h"

#define COFFER__FILE_READER_PROBES 64u

typedef struct coffer__file_readers_options {
    const coffer_allocator *allocator; /* any number of threads may use it at once */
    coffer_engine engine;
    bool uncached;
    bool unverified; /* digests that files record are not checked, unless the model was opened to verify */
    bool group;      /* several processes load together, as far as they can */
    const struct coffer__served
        *served; /* what a model cache server has of the model, until the file readers are freed; NULL: nothing */
} coffer__file_readers_options;

coffer_status coffer__file_readers_new(coffer__file_readers **file_readers, const coffer_plan *plan,
                                       const coffer__file_readers_options *options, coffer_error *err);
/* Other processes read the same bytes by themselves, and should find them in the page cache: file readers are opened so
   from now on. */
void coffer__file_readers_expect_others(coffer__file_readers *file_readers);
/* When nobody uses one. NULL is allowed. */
void coffer__file_readers_free(coffer__file_readers *file_readers);
/* The file reader of a file, until coffer__file_readers_leave. COFFER_ERR_ENGINE, with the file's path. */
coffer_status coffer__file_readers_use(coffer__file_readers *file_readers, size_t shard,
                                       const coffer__file_reader **file_reader, coffer_error *err);
void coffer__file_readers_leave(coffer__file_readers *file_readers, size_t shard);
/* The source of a file whose results are to be parts of a map of it; *source NULL: memory of their own. */
coffer_status coffer__file_readers_map(coffer__file_readers *file_readers, size_t shard,
                                       const coffer__byte_source **source, coffer_error *err);
/* Whether a model cache server has the file: it is read from there. */
bool coffer__file_readers_is_served(const coffer__file_readers *file_readers, size_t shard);
/* Where the bytes of a chunk are; COFFER__RESIDENCY_UNKNOWN where its file is not partly in the page cache, or not open. */
coffer__residency coffer__file_readers_residency(coffer__file_readers *file_readers, const coffer__chunk *chunk);
/* Whether a file is read to memory of a device by cuFile, and doing that: bytes of a file, of which the file reader is
   in use. */
bool coffer__file_readers_reach(const coffer__file_readers *file_readers, size_t shard, const coffer_device *device);
coffer_status coffer__file_readers_read_to(coffer__file_readers *file_readers, size_t shard, coffer_device *device,
                                           coffer__file_span bytes, uint64_t address, coffer_error *err);
/* Opens the file readers of all files of which something is wanted, to see whether the engine that was asked for
   serves; with COFFER_ENGINE_AUTO one of them. *threads becomes how many workers they want. */
coffer_status coffer__file_readers_try(coffer__file_readers *file_readers, uint32_t *threads, coffer_error *err);

#endif
