/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans for tests, made here and loaded from bytes, whatever reader they might be of: over a file in memory that grows with
 * the plan, as an input of functions or as a file. What is written is compared with what a loop over the elements says.
 */
#ifndef COFFER_TESTS_SUPPORT_PLAN_H
#define COFFER_TESTS_SUPPORT_PLAN_H

#include "coffer.h"
#include "decode.h"
#include "plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MIB ((size_t)1 << 20)
#define MAX_ROWS 12

/* The bytes of the file, the plan of it, and the storages as they are when decoded. */
typedef struct made {
    uint8_t *file;
    size_t size;
    size_t capacity;
    coffer__import_plan plan;
    uint8_t *plain[MAX_ROWS];
    size_t plain_size[MAX_ROWS];
    uint32_t storages;
    uint32_t fails; /* reads from this one on fail; 0: none */
    uint32_t reads;
    int cancel_after;   /* calls of the progress callback */
    uint64_t cancel_at; /* bytes that it was told of; 0: never */
    uint64_t lies_from; /* bytes that were told of from which on reads give other bytes; 0: never */
    bool lies;
    uint64_t reported;
} made;

/* For cmocka: opens made_crcs, before all tests of a program that makes CRCs. */
extern coffer__crcs made_crcs;
int made_set_up(void **state);

uint32_t made_below(uint32_t limit);
void made_new(made *m);
void made_free(made *m);
void made_put(made *m, const void *bytes, size_t size);
/* A storage of random bytes in `pieces` pieces. */
uint32_t made_storage(made *m, coffer__coding coding, size_t size, uint32_t pieces);
void made_row(made *m, const char *name, coffer_dtype dtype, uint32_t storage, uint64_t offset, uint32_t rank,
              const coffer__import_plan_dimension *dimensions, uint8_t swap, coffer__sign sign);
void made_check_tensor(const made *m, const coffer__import_plan_row *row, const uint8_t *got);
void made_check(const made *m, const char *path);
/* The functions of made_input, for inputs that have others besides. */
coffer_status made_read(void *ctx, uint32_t file, uint64_t offset, void *buffer, size_t size, coffer_error *err);
coffer_input *made_input(made *m);
coffer_input *made_input_file(const made *m);
coffer_import *made_import(const made *m, coffer_input *input);
/* A plan with a tensor "w", an alias of it, a skipped one and one storage that nobody views. */
void made_small(made *m);
/* A plan of a tensor of each name, with an alias of the first; of a storage that is plain and one that is decoded. */
void made_named(made *m, const char *first, const char *second, const char *value);
/* Whether large members can be inflated here; without zlib they are refused. */
bool made_has_zlib(void);

/* The caller's own sink, which may be full. */
typedef struct made_sink {
    uint8_t *bytes;
    uint64_t capacity;
    bool finished;
} made_sink;

coffer_status made_sink_write(void *ctx, uint64_t offset, const void *bytes, size_t size, coffer_error *err);
coffer_status made_sink_finish(void *ctx, coffer_error *err);

#endif
