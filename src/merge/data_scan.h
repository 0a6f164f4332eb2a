/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A look at much of one or more tensors by several threads. Tensors are cut into pieces, which workers take in order.
 * What is summed up is kept for each piece and added up in the end in their order, so that the result is the same with
 * any number of threads.
 */
#ifndef COFFER_MERGE_DATA_SCAN_H
#define COFFER_MERGE_DATA_SCAN_H

#include "coffer.h"

/* A part of a tensor. */
typedef struct coffer__data_scan_part {
    size_t tensor;
    uint64_t first;
    size_t count;
    size_t number; /* of all pieces */
} coffer__data_scan_part;

/* What is looked at, and how. Lengths are in bytes or elements, as `look` wants them. */
typedef struct coffer__data_scan {
    const coffer_allocator *allocator;
    size_t tensor_count;
    uint64_t (*length)(const void *ctx, size_t tensor); /* 0: the tensor is passed over */
    coffer_status (*look)(void *ctx, const coffer__data_scan_part *piece, uint8_t *memory, coffer_error *err);
    void *ctx;
    uint64_t piece_length;
    size_t memory_size; /* of each worker, in bytes */
    uint64_t total;     /* of all lengths, as progress tells it; 0: the user is only asked */
} coffer__data_scan;

/* How many pieces a tensor has. */
uint64_t coffer__data_scan_parts(const coffer__data_scan *scan, size_t tensor);
/* How many all of them have. */
uint64_t coffer__data_scan_all_parts(const coffer__data_scan *scan);
/* Looks at all pieces. The failure is that of the first piece that has one. */
coffer_status coffer__data_scan_run(const coffer__data_scan *scan, const coffer_read_options *options,
                                    coffer_error *err);

#endif
