/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The progress of several parts, told as that of the whole: the user sees one count that only rises.
 * Each part is carried out by a function that reports its own bytes, from 0 on.
 *
 *   coffer__parts parts = { .before = 0, .total = all };
 *   coffer__parts_begin(&parts, &options.progress, &options.progress_ctx);
 *   for each part:  carry it out with these options;  parts.before += its bytes
 *
 * Not for several threads: like the user's callback, it runs on the thread that called.
 */
#ifndef COFFER_WRITE_PARTS_H
#define COFFER_WRITE_PARTS_H

#include "coffer.h"

typedef struct coffer__parts {
    uint64_t before; /* bytes of the parts that are complete */
    uint64_t total;  /* of all parts */
    bool again;      /* what is read now is read once more later, and counts only then */
    coffer_progress progress;
    void *progress_ctx;
} coffer__parts;

/* Keeps the callback that the options have, and replaces it by one that tells of the whole. Without a
   callback the options stay as they are. The parts must outlive what is called with the options. */
void coffer__parts_begin(coffer__parts *parts, coffer_progress *progress, void **progress_ctx);

#endif
