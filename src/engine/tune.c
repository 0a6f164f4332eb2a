/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stretches of reading are compared, each with twice as many reads in progress as the one before:
 *
 *     stretch    warming up   depth d   depth 2d   depth 4d   settled at 2d
 *     rate                    r         > 1.03 r   no better
 *
 * A stretch is long enough when every read of that depth has been replaced several times and the clock's tick no longer
 * matters. The first one is not counted: caches of the device and the first allocation of pages disturb it.
 */
#include "tune.h"

#define TUNE_MS 40u
#define TUNE_TURNS 3u

/* Where there is no space to grow there is nothing to find out. */
void coffer__tune_begin(coffer__tune *tune, uint32_t depth, uint32_t most, uint64_t milliseconds)
{
    *tune = (coffer__tune){ .depth = depth < most ? depth : most, .most = most, .began = milliseconds };
    tune->settled = tune->depth == most;
}

/* Begins the next stretch. The count starts over as well, so that the first turn at the new depth is left out
   again. */
static void tune_restart(coffer__tune *tune, uint64_t milliseconds)
{
    tune->count = 0;
    tune->bytes = 0;
    tune->began = milliseconds;
}

/* What the stretch that has ended means. A gain below 3 % is within what two stretches of the same depth differ by,
   and a deeper queue costs memory and makes each read later; so the smaller depth is kept, at which the rate was as
   good. A depth that cannot be doubled any more is settled with the gain. */
static void tune_judge(coffer__tune *tune, uint64_t rate)
{
    if (tune->rate != 0 && rate < tune->rate + tune->rate / 100 * 3) {
        tune->depth /= 2;
        tune->settled = true;
        return;
    }
    tune->rate = rate;
    tune->settled = tune->depth > tune->most / 2;
    if (!tune->settled) {
        tune->depth *= 2;
    }
}

/* Bytes of a stretch are far below 2^53, so that a thousand of them fit. A depth whose first reads are still those of the
   stretch before counts only from its second turn on. */
void coffer__tune_note(coffer__tune *tune, uint64_t bytes, uint64_t milliseconds)
{
    if (tune->settled) {
        return;
    }
    tune->count++;
    if (tune->count == tune->depth) {
        tune->bytes = 0;
        tune->began = milliseconds;
        return;
    }
    tune->bytes += bytes;
    const uint64_t took = milliseconds - tune->began;
    if (tune->count / tune->depth > TUNE_TURNS && took >= TUNE_MS) {
        tune_judge(tune, tune->bytes * 1000 / took);
        tune_restart(tune, milliseconds);
    }
}
