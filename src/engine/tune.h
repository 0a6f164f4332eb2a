/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many reads should be in progress at once: a number that doubles as long as that makes reading faster by 3 %, found
 * while reading. Pure: it is told what was read, and when.
 */
#ifndef COFFER_ENGINE_TUNE_H
#define COFFER_ENGINE_TUNE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct coffer__tune {
    uint32_t depth; /* the answer; 0: nothing was read so far */
    uint32_t most;
    bool settled;
    uint32_t count; /* reads of this stretch */
    uint64_t bytes; /* bytes of these reads */
    uint64_t began; /* when this stretch began, in milliseconds */
    uint64_t rate;  /* of the stretch before, in bytes per second; 0: there was none */
} coffer__tune;

/* `depth` is at least 1, and not above `most`. */
void coffer__tune_begin(coffer__tune *tune, uint32_t depth, uint32_t most, uint64_t milliseconds);
/* A read has brought `bytes`. */
void coffer__tune_note(coffer__tune *tune, uint64_t bytes, uint64_t milliseconds);

#endif
