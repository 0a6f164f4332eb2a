/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Models of one or more files for tests, in the test's own directory (support_file.h): some tensors whose bytes follow from a
 * seed are saved by coffer_model_writer, and what lies there before and afterwards is kept, to be compared and put back.
 */
#ifndef COFFER_TESTS_SUPPORT_MODEL_H
#define COFFER_TESTS_SUPPORT_MODEL_H

#include "coffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SNAPSHOT_MAX_FILES 16

/* Every file of the directory with its bytes. */
typedef struct snapshot {
    size_t count;
    struct {
        char name[256];
        uint8_t *bytes;
        size_t size;
    } files[SNAPSHOT_MAX_FILES];
} snapshot;

snapshot snapshot_take(void);
void snapshot_free(snapshot *taken);
/* Whether it has a file of that name. */
bool snapshot_has(const snapshot *taken, const char *name);
/* Makes the directory have these files and no others. */
void snapshot_restore(const snapshot *taken);
/* Whether these files are all there with their bytes; others may be, too. */
bool snapshot_is_there(const snapshot *taken);

/* The model of that name, open to be read and not mapped. */
coffer *model_open(const char *name);
/* The tensor of that name, NULL when there is none; names with a NUL are coffer_find's. */
const coffer_tensor *tensor_named(const coffer *model, const char *name);

/* Declares `count` tensors, "t0" and so on, each of 40 bytes and one more than the one before. */
coffer_header *model_header(size_t count, const coffer_allocator *allocator);
/* Saves them as "model.safetensors", byte k of a tensor being seed + k; files hold at most `limit` bytes of tensors. */
coffer_status model_save(size_t count, uint8_t seed, uint64_t limit, const coffer_model_writer_options *options,
                         const coffer_allocator *allocator, coffer_error *err);
/* Fails unless the model of that name has so many tensors in so many files, each with the bytes of that seed, whatever it is called. */
void model_assert_whole(const char *name, size_t count, size_t shards, uint8_t seed);

#endif
