/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long runs that have to come through memory on their way to somewhere that takes them from any thread: a thread pool takes chunks of them, and
 * each worker reads, checks, changes and lands its chunk by itself. So one thread reads while another one writes, and
 * CRCs cost no time of their own.
 *
 * A CRC does not need its bytes in order: each chunk adds its share (crc32.h).
 */
#ifndef COFFER_TRANSFER_LONG_COPIES_H
#define COFFER_TRANSFER_LONG_COPIES_H

#include "transfer.h"

/* Runs that are shorter are read together with others, into memory that lands with one call. */
#define COFFER__LONG_COPY ((uint64_t)1 << 20)

/* Bytes of each worker. Little enough that they are still in the processor's own cache when they are written. */
#define COFFER__LONG_CHUNK ((size_t)512 << 10)

/* Which ops go together, and where to. */
typedef struct coffer__long_copies {
    const coffer__transfer_op *ops; /* `count` of them without boxes, from near sources */
    size_t count;
    uint64_t skip; /* bytes of the first op to leave out */
    uint64_t size; /* of all together */
    /* Takes bytes that belong to `at`; called by several threads at once. */
    coffer_status (*land)(void *ctx, uint64_t at, const uint8_t *bytes, size_t size, coffer_error *err);
    void *ctx;
    uint8_t *memory; /* COFFER__LONG_CHUNK bytes for each worker */
} coffer__long_copies;

/* How many workers are worth starting; 1: this is not worth doing. */
size_t coffer__long_copies_workers(const coffer__long_copies *which, uint32_t threads);
/* Carries the ops out. Of the options, `progress` is told of these ops alone, with the end, and `failed` is set when
   reading failed, to a number of these ops. */
coffer_status coffer__long_copies_run(const coffer__long_copies *which, size_t workers,
                                      const coffer__transfer_options *options, coffer_error *err);

#endif
