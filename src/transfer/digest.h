/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bytes → digests, and where it is wanted the bytes into memory on the way, so that what is read and verified is gone over
 * once. A row is one tensor, and its digest cannot be split: it belongs to one worker. Workers take the longest row first, so
 * that none of them is left alone with it at the end. The thread that calls is a worker too, and the only one that calls
 * `progress`; when there are no rows left it waits for the others, and goes on telling. Memory: a hasher for each worker, and a
 * buffer of 256 KiB (2 MiB for sources that are far away) where bytes are read that nobody keeps.
 */
#ifndef COFFER_TRANSFER_DIGEST_H
#define COFFER_TRANSFER_DIGEST_H

#include "coffer.h"
#include "source.h"
#include "transfer.h"

typedef struct coffer__digest_row {
    const coffer__source *source;
    const uint8_t *map; /* the source's byte 0 in memory: looked at there instead of read; or NULL */
    uint64_t offset;    /* in the source */
    uint64_t size;
    uint8_t *to;                /* the bytes are stored there, too; NULL: nowhere */
    coffer_algorithm algorithm; /* COFFER_NO_ALGORITHM: the bytes only go to `to` */
    uint8_t *digest;            /* of the algorithm's size */
} coffer__digest_row;

/* Carries out `count` rows. The options are those of a transfer; on failure the digests are undefined. */
coffer_status coffer__digest(const coffer__digest_row *rows, size_t count, const coffer__transfer_options *options,
                             coffer_error *err);

#endif
