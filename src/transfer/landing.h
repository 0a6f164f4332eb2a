/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A landing: where rows come down that are not for the program's memory. It has places, numbered by bytes from 0 on.
 *
 * place gives memory of `size` bytes in which the next bytes are put together; what it gave before is free again. Then landed is
 * called, once or several times, for bytes of that memory that belong to `at` and the places after it; each byte of a row lands once.
 * A landing whose work goes on afterwards, as that of a device may, waits for it in place.
 *
 * copy is another way to land: it copies from a descriptor as coffer__os_copy does, and answers as that does, so that bytes of a file
 * need not come into memory. Landings that cannot do it have NULL there or say EOPNOTSUPP; then bytes are placed.
 *
 * All of it is called by the thread that calls coffer__land. A new landing is one file with these functions, and one that declares
 * how it is made: landing_sink.c is one.
 */
#ifndef COFFER_TRANSFER_LANDING_H
#define COFFER_TRANSFER_LANDING_H

#include "coffer.h"
#include "sink.h"
#include "transfer.h"

typedef struct coffer__landing coffer__landing;

typedef struct coffer__landing_ops {
    coffer_status (*place)(coffer__landing *landing, size_t size, uint8_t **memory, coffer_error *err);
    coffer_status (*landed)(coffer__landing *landing, uint64_t at, const uint8_t *bytes, size_t size,
                            coffer_error *err);
    int (*copy)(coffer__landing *landing, uint64_t at, int from, uint64_t from_offset, uint64_t size, uint64_t *done);
} coffer__landing_ops;

struct coffer__landing {
    const coffer__landing_ops *ops;
    uint64_t most; /* bytes that it gives memory for at once; 0: any number */
    bool in_order; /* it takes its places from the first to the last only */
    const coffer_allocator *allocator;
    coffer__sink *sink; /* of a landing of coffer__landing_sink */
    void *state;        /* the kind's own */
    uint8_t *memory;    /* what coffer__landing_memory has given */
    size_t memory_size;
};

/* Carries out `count` rows, whose places on the landing ascend and do not overlap. They have no `to` and no digest. A long run is
   copied by the system where it can be. What is short, and what the system cannot copy, is put together in memory, as many runs at a
   time as follow each other on the landing: tens of thousands of small tensors are few writes. A box that is turned comes tile by
   tile, or in bands where the landing takes its places in order. Memory: at most 16 MiB besides that of the transfer, and that only
   when something has to be read.

   The options are those of a transfer; `failed` is set when it was the reading that failed. After a failure what has landed can only
   be discarded. */
coffer_status coffer__land(coffer__landing *landing, const coffer__row *rows, size_t count,
                           const coffer__transfer_options *options, coffer_error *err);

/* For landings that put bytes together in memory of their own: gives the same memory again when it is large enough. */
coffer_status coffer__landing_memory(coffer__landing *landing, size_t size, uint8_t **memory, coffer_error *err);
/* Frees that memory. */
void coffer__landing_end(coffer__landing *landing);

/* Bytes come down in a sink, which is made and ended by others. */
coffer__landing coffer__landing_sink(coffer__sink *sink, const coffer_allocator *allocator);
/* coffer__land on one, and its end. */
coffer_status coffer__land_in_sink(coffer__sink *sink, const coffer__row *rows, size_t count,
                                   const coffer__transfer_options *options, coffer_error *err);

#endif
