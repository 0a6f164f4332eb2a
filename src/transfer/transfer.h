/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan → bytes. A plan is rows: each takes one box of a source's bytes to a place in memory. One executor carries them
 * out, with a pool of threads for each call: it cuts the rows into pieces of a few MiB, which the workers take in
 * order. The thread that calls is a worker too, and the only one that calls `progress`. The first failure stops
 * everyone and is the answer. Memory: at most 256 KiB per worker (2 MiB for sources that are far away), and none where runs are
 * long or the source is in memory.
 */
#ifndef COFFER_TRANSFER_TRANSFER_H
#define COFFER_TRANSFER_TRANSFER_H

#include "coffer.h"
#include "crew.h"
#include "slice.h"
#include "source.h"
#include "tile.h"

typedef struct coffer__row {
    const coffer__source *source;
    const uint8_t *map;     /* the source's byte 0 in memory: copied from there instead of read; or NULL */
    uint64_t offset;        /* in the source, of the byte from which the box counts */
    const coffer__box *box; /* NULL: `size` bytes, one after the other */
    uint64_t size;          /* of the result: the box's runs one after the other */
    void *to;               /* `size` bytes */
} coffer__row;

typedef struct coffer__transfer_options {
    const coffer_allocator *allocator; /* called only by the thread that calls coffer__transfer */
    coffer_progress progress;          /* NULL: none */
    void *progress_ctx;
    uint32_t threads;                 /* 0: by size and processors */
    const coffer__tile_limits *tiles; /* of boxes that are turned; NULL: what serves a source best */
    size_t *failed; /* set to the number of the row that could not be moved, if that is the failure; may be NULL */
} coffer__transfer_options;

/* A crew that tells and fails as the options say. */
coffer__crew coffer__transfer_crew(const coffer__transfer_options *options, coffer_error *err);

/* Carries out `count` rows; their places must not overlap. On failure the places' contents are undefined. */
coffer_status coffer__transfer(const coffer__row *rows, size_t count, const coffer__transfer_options *options,
                               coffer_error *err);

#endif
