/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comparing bytes of tensors that were written with those that should be there, by a thread pool: each worker takes a stretch,
 * brings both sides into memory that stays in the processor's cache, and compares them there. Bytes are compared, never
 * numbers, since a NaN equals nothing.
 *
 * Memory: 2 blocks for each worker, 8 MiB at most and less for little, asked for once (coffer__verify_threads_open).
 */
#ifndef COFFER_IMPORT_VERIFY_THREADS_H
#define COFFER_IMPORT_VERIFY_THREADS_H

#include "coffer.h"
#include "plan.h"
#include "source.h"
#include "verify_parts.h"

/* A tensor that was written, and the row of the plan that it should be. */
typedef struct coffer__verify_row {
    const coffer__import_plan_row *row;
    const coffer__import_plan_dimension *dimensions;
    const coffer_tensor *tensor;
    const coffer__byte_source *source; /* has the row's storage */
    uint64_t at;                       /* the byte where the row's storage begins */
    bool sparse;                       /* there are holes in both files */
    const coffer__verify_array *array; /* the row is all of this array, which is assembled; else NULL */
} coffer__verify_row;

/* What is needed for all comparisons of one call. */
typedef struct coffer__verify_threads {
    const coffer *written;
    const coffer_read_options *options;
    const coffer_allocator *allocator;
    size_t workers; /* at most */
    size_t block;   /* bytes of each side that a worker has in memory */
    uint8_t *memory;
    uint64_t done;  /* bytes of tensors that are done, as `progress` of the options is told */
    uint64_t total; /* bytes of all tensors, as the thread pool is opened for */
} coffer__verify_threads;

/* One comparison: bytes from `from` to `to` of each of the rows. What should be there is where the first of these is
   that is not NULL; else it is read from the row's source, where its bytes lie one after another. */
typedef struct coffer__verify_task {
    const coffer__verify_row *rows;
    size_t count;
    uint64_t from;
    uint64_t to;            /* UINT64_MAX: the end of each */
    uint8_t *gathered;      /* the bytes of the only row, from `from` on; they are changed here */
    const uint8_t *storage; /* all of the storage of the rows, which are views of it */
    bool in_order;          /* the source can be read once, from its first byte to its last */
} coffer__verify_task;

/* Allocates the memory. `far`: the input is. coffer__verify_threads_close follows in any case. */
coffer_status coffer__verify_threads_open(coffer__verify_threads *thread_pool, bool far, coffer_error *err);
void coffer__verify_threads_close(coffer__verify_threads *thread_pool);
/* Compares; COFFER_ERR_NOT_EQUAL for bytes that are not what they should be. */
coffer_status coffer__verify_threads_run(coffer__verify_threads *thread_pool, const coffer__verify_task *task,
                                         coffer_error *err);

/* The failure of a tensor that was written and is not what it should be; `what` is said of the output. The one failure
   that speaks against the output: everything else that fails here says nothing about it. */
coffer_status coffer__verify_differs(const char *name, size_t name_len, const char *what, coffer_error *err);

#endif
