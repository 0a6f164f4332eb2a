/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a request costs beside its bytes, found while reading: the longest gap between wanted bytes that is better read
 * with them than left out by another request. It follows from how long short requests take, and how long long ones:
 *
 *     time
 *      ▲                 ● long
 *      │         ·  ˙
 *      ●  short           the slope is the time of a byte, and where the line meets the axis a request's own;
 *      └───────────────►  the gap is as many bytes as could be read in that
 *                  size
 *
 * Pure: it is told how long each request took.
 */
#ifndef COFFER_ENGINE_PACE_H
#define COFFER_ENGINE_PACE_H

#include <stdbool.h>
#include <stdint.h>

/* Before anything is known: some 5 us at 3 GB/s for a file, 20 ms at 50 MB/s for a server. */
#define COFFER__PACE_NEAR ((uint64_t)16 << 10)
#define COFFER__PACE_FAR ((uint64_t)1 << 20)

/* Requests of about one size. */
typedef struct coffer__pace_group {
    uint64_t count;
    uint64_t bytes;
    uint64_t nanoseconds;
} coffer__pace_group;

typedef struct coffer__pace {
    uint64_t least; /* bounds of the answer */
    uint64_t most;
    uint64_t usual;           /* the answer until enough is known */
    uint64_t noted;           /* requests of either group */
    coffer__pace_group brief; /* begins with requests as they usually are */
    coffer__pace_group full;  /* as `brief`: one group alone tells nothing */
} coffer__pace;

/* `far`: behind a network. */
void coffer__pace_begin(coffer__pace *pace, bool far);
/* A request has brought `bytes` in so long. */
void coffer__pace_note(coffer__pace *pace, uint64_t bytes, uint64_t nanoseconds);
/* The longest gap that is worth reading, in bytes. */
uint64_t coffer__pace_gap(const coffer__pace *pace);

#endif
