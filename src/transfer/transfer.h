/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan → bytes: the one way to move them. A plan is rows: each takes bytes of a source, contiguous or a box of them, through stages
 *
 *   fill.h      brings them, and gathers what does not lie together
 *   digest.h    hashes them on the way, where that is wanted
 *
 * and they come down where they are wanted: in the program's memory, when the row has such a place, or through memory on a landing
 * (landing.h).
 *
 * One executor carries rows out, with a crew of threads for each call: it cuts the rows into pieces of a few MiB, which the workers
 * take in order; a row with a digest is one piece. Memory: at most 256 KiB per worker (2 MiB for sources that are far away), and none
 * where runs are long or the source is in memory; and 32 MiB for all tiles together, where rows are turned (tile.h).
 */
#ifndef COFFER_TRANSFER_TRANSFER_H
#define COFFER_TRANSFER_TRANSFER_H

#include "box.h"
#include "coffer.h"
#include "source.h"
#include "tile.h"

typedef struct coffer__row {
    const coffer__source *source;
    const uint8_t *map;         /* the source's byte 0 in memory: copied from there instead of read; or NULL */
    uint64_t offset;            /* in the source, of the byte from which the box counts */
    const coffer__box *box;     /* NULL: `size` bytes, one after the other */
    uint64_t size;              /* of the result: the box's runs one after the other */
    void *to;                   /* `size` bytes; may be NULL with a digest: the bytes are only hashed */
    uint64_t at;                /* on a landing, which has places instead of addresses */
    coffer_algorithm algorithm; /* COFFER_NO_ALGORITHM: no digest; else there is no box */
    uint8_t *digest;            /* of the algorithm's size */
} coffer__row;

typedef struct coffer__transfer_options {
    const coffer_allocator *allocator; /* called only by the thread that calls coffer__transfer */
    coffer_progress progress;          /* NULL: none */
    void *progress_ctx;
    uint32_t threads;                 /* 0: by size and processors */
    const coffer__tile_limits *tiles; /* of boxes that are turned; NULL: what serves a source best */
    size_t *failed; /* set to the number of the row that could not be moved, if that is the failure; may be NULL */
} coffer__transfer_options;

/* Carries out `count` rows; their places must not overlap. On failure the contents of places and digests are undefined. */
coffer_status coffer__transfer(const coffer__row *rows, size_t count, const coffer__transfer_options *options,
                               coffer_error *err);

#endif
