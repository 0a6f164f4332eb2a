/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Working through tensors of any size with little memory: they are cut into pieces, which
 * cli_parallel hands to several threads. Where a piece begins depends on the tensor alone, so that
 * what is summed up piece by piece is the same with any number of threads.
 */
#ifndef COFFER_CLI_PIECES_H
#define COFFER_CLI_PIECES_H

#include "coffer.h"

/* Whole bytes of any dtype, and at most 2 MiB. */
#define CLI_PIECE_ELEMENTS ((uint64_t)1 << 18)
/* Elements that are worth decoding at a time: as doubles they stay in the processor's cache. */
#define CLI_BLOCK_ELEMENTS 4096

typedef struct cli_piece {
    size_t item; /* which tensor, as the caller counts them */
    uint64_t first;
    size_t count; /* of elements */
} cli_piece;

/* Cuts items of so many elements each, in order; NULL without memory, else to be freed. An item
   without elements is no piece. */
cli_piece *cli_cut(const uint64_t *elements, size_t items, size_t *count);
/* Bytes of that many elements, which fill whole ones. */
uint64_t cli_elements_size(coffer_dtype dtype, uint64_t elements);
/* Reads a piece of a tensor on the thread that calls, into memory to be freed; NULL, with *err
   filled, when it fails. */
void *cli_read_piece(const coffer *model, const coffer_tensor *tensor, const cli_piece *piece, coffer_error *err);

#endif
