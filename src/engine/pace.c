/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where all requests are alike, short or long, their times say nothing of what a request costs and what a byte. So both
 * groups begin with some requests as they usually are, which count less and less. All of the load counts and not only the
 * latest requests: else the long requests that come of a wide gap would make it forget why it is wide.
 */
#include "pace.h"

#define PACE_BRIEF ((uint64_t)128 << 10) /* shorter requests are brief */
#define PACE_FULL ((uint64_t)1 << 20)    /* requests from here on are full; those in between tell little */
#define PACE_BEGIN 16u                   /* requests that each group begins with, and that must come before they tell */
#define PACE_OUTLIER 64u                 /* times the average: what takes longer was held up by something else */

/* What is assumed before anything was read. */
typedef struct pace_usual {
    uint64_t request; /* nanoseconds of a request */
    uint64_t speed;   /* bytes in a microsecond */
    uint64_t gap;
    uint64_t least;
    uint64_t most;
} pace_usual;

static const pace_usual pace_near = { 5000, 3277, COFFER__PACE_NEAR, (uint64_t)4 << 10, (uint64_t)256 << 10 };
static const pace_usual pace_far = { 20000000, 52, COFFER__PACE_FAR, (uint64_t)64 << 10, (uint64_t)2 << 20 };

static coffer__pace_group pace_assume(const pace_usual *usual, uint64_t bytes)
{
    return (coffer__pace_group){ .count = PACE_BEGIN,
                                 .bytes = PACE_BEGIN * bytes,
                                 .nanoseconds = PACE_BEGIN * (usual->request + bytes * 1000 / usual->speed) };
}

void coffer__pace_begin(coffer__pace *pace, bool far)
{
    const pace_usual *usual = far ? &pace_far : &pace_near;
    *pace = (coffer__pace){ .least = usual->least,
                            .most = usual->most,
                            .usual = usual->gap,
                            .brief = pace_assume(usual, (uint64_t)4 << 10),
                            .full = pace_assume(usual, (uint64_t)2 << 20) };
}

/* An hour in one request would be an outlier of any group, so the sums stay far below 2^64. */
void coffer__pace_note(coffer__pace *pace, uint64_t bytes, uint64_t nanoseconds)
{
    coffer__pace_group *group = bytes < PACE_BRIEF ? &pace->brief : &pace->full;
    if (bytes >= PACE_BRIEF && bytes < PACE_FULL) {
        return;
    }
    const uint64_t most = group->nanoseconds / group->count * PACE_OUTLIER;
    group->count++;
    group->bytes += bytes;
    group->nanoseconds += nanoseconds < most ? nanoseconds : most;
    pace->noted++;
}

static uint64_t pace_between(uint64_t value, uint64_t least, uint64_t most)
{
    return value < least ? least : value > most ? most : value;
}

/* With the averages of both groups: a byte costs (full - brief) / (full bytes - brief bytes), and a request what is left
   of a brief one. The request's cost divided by the byte's is the time of a brief request in bytes, less those that it
   had. Full requests that take no longer than brief ones cost nothing but the request. The product stays below 2^64: a
   request has at most some MiB here, and an average of 2^40 nanoseconds is a quarter of an hour. */
uint64_t coffer__pace_gap(const coffer__pace *pace)
{
    const uint64_t brief = pace->brief.nanoseconds / pace->brief.count;
    const uint64_t full = pace->full.nanoseconds / pace->full.count;
    const uint64_t brief_bytes = pace->brief.bytes / pace->brief.count;
    const uint64_t full_bytes = pace->full.bytes / pace->full.count;
    if (pace->noted < PACE_BEGIN) {
        return pace->usual;
    }
    if (full <= brief || brief >= (uint64_t)1 << 40) {
        return pace->most;
    }
    const uint64_t reach = brief * (full_bytes - brief_bytes) / (full - brief);
    return pace_between(reach > brief_bytes ? reach - brief_bytes : 0, pace->least, pace->most);
}
