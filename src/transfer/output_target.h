/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An output target: where ops go that are not for the program's memory. It has places, numbered by bytes from 0
 * on.
 *
 * place    gives memory of at least `size` bytes in which the next bytes are assembled. The memory that
 *          it gave before may be reused by it. An output target whose work continues after landed, as that of a
 *          device may, waits for it here
 * landed   is called, once or several times, for bytes of that memory that belong to `at` and the places
 *          after it. Each byte of a op lands exactly once
 * copy     is another way to land: it copies from a descriptor as coffer__os_copy does, and answers as
 *          that does, so that bytes of a file need not come into memory. Output targets that cannot do it
 *          have NULL there or answer EOPNOTSUPP; then bytes are placed
 *
 * All of them are called by the thread that calls coffer__land, so an output target needs no locks of its own; but
 * that of one that is `shared` is called by several threads, for places that do not overlap. A new output target is one file with these functions and a header that declares how it is made;
 * output_target_sink.c is one.
 */
#ifndef COFFER_TRANSFER_OUTPUT_TARGET_H
#define COFFER_TRANSFER_OUTPUT_TARGET_H

#include "coffer.h"
#include "sink.h"
#include "transfer.h"

typedef struct coffer__output_target coffer__output_target;

typedef struct coffer__output_target_ops {
    coffer_status (*place)(coffer__output_target *output_target, size_t size, uint8_t **memory, coffer_error *err);
    coffer_status (*landed)(coffer__output_target *output_target, uint64_t at, const uint8_t *bytes, size_t size,
                            coffer_error *err);
    int (*copy)(coffer__output_target *output_target, uint64_t at, int from, uint64_t from_offset, uint64_t size,
                uint64_t *done);
} coffer__output_target_ops;

struct coffer__output_target {
    const coffer__output_target_ops *ops;
    uint64_t most; /* the most bytes that it can give memory for at once; 0: no limit */
    bool in_order; /* it takes its places from the first to the last only */
    bool shared;   /* `landed` may be called by several threads at once, with any memory */
    const coffer_allocator *allocator;
    coffer__byte_sink *sink; /* of an output target of coffer__output_target_sink */
    void *state;             /* the kind's own */
    uint8_t
        *memory; /* what coffer__output_target_memory has given; the output target's until coffer__output_target_free */
    size_t memory_size;
};

/*
 * Carries out `count` ops, whose places on the output target ascend and do not overlap. They have no `to` and
 * no digest; their elements may be changed, and checksums computed, on the way. An output target whose memory is
 * bounded gives at least 16 bytes.
 *
 * The system copies a long run where it can. Short runs, and what the system cannot copy, are assembled in
 * memory, as many at a time as follow each other on the output target: so tens of thousands of small tensors
 * become a few writes. A transposed box lands tile by tile, or in bands where the output target takes its
 * places in order. Long runs that are read and written go chunk by chunk through several threads, each of
 * which does both, where the output target is shared (long_copies.h). Memory: at most 16 MiB besides that of the
 * transfer, and only when something has to be read.
 *
 * The options are those of a transfer. `failed` is set only when it was the reading that failed, so that
 * the caller can tell a bad source from a full disk. After a failure, what has landed can only be
 * discarded.
 */
coffer_status coffer__land(coffer__output_target *output_target, const coffer__transfer_op *ops, size_t count,
                           const coffer__transfer_options *options, coffer_error *err);

/* For output targets that put bytes together in memory of their own: gives the same memory again when it is large enough. */
coffer_status coffer__output_target_memory(coffer__output_target *output_target, size_t size, uint8_t **memory,
                                           coffer_error *err);
/* Frees that memory. */
void coffer__output_target_free(coffer__output_target *output_target);

/* An output target that writes to a sink. The sink stays the caller's, who publishes or discards it. */
coffer__output_target coffer__output_target_sink(coffer__byte_sink *sink, const coffer_allocator *allocator);
/* coffer__land on one, and its end. */
coffer_status coffer__land_in_sink(coffer__byte_sink *sink, const coffer__transfer_op *ops, size_t count,
                                   const coffer__transfer_options *options, coffer_error *err);
/* Reads the ops for their checksums alone: an output target where nothing stays. Sources that are in a file are read like all
   others. */
coffer_status coffer__discard(const coffer__transfer_op *ops, size_t count, const coffer__transfer_options *options,
                              coffer_error *err);

#endif
