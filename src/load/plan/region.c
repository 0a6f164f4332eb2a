/* SPDX-License-Identifier: Apache-2.0 */
#include "region.h"

/* ---- making one -------------------------------------------------------------------------------------------------- */

/* The reach ends where it begins until coffer__region_finish knows better. */
void coffer__region_begin(coffer__region *region, coffer__region_dim *dims, uint64_t begin, uint64_t width, uint64_t to)
{
    *region = (coffer__region){ .reach = { begin, begin }, .width = width, .to = to, .dims = dims };
}

/* Whether a loop begins where the last one ends, in the file and in the place, so that both are one. */
static bool region_continues(const coffer__region_dim *last, uint64_t from, int64_t to)
{
    return from == last->from * last->count && (uint64_t)to == (uint64_t)last->to * last->count;
}

/* A loop that goes back in the file is turned around: it begins at its other end, and goes back in the place. Sums
   are those of unsigned numbers, which wrap around and come out right. A loop whose steps are just the width, in
   the file and in the place, only makes the runs longer. That is tried for the innermost one alone, since runs
   cannot grow once there are loops around them. This is what turns a whole tensor of any shape into one run. */
void coffer__region_push(coffer__region *region, uint64_t count, int64_t from, int64_t to)
{
    uint64_t step = (uint64_t)from;
    if (count < 2) {
        return;
    }
    if (from < 0) {
        region->reach.begin += (count - 1) * (uint64_t)from;
        region->to += (count - 1) * (uint64_t)to;
        step = coffer__box_distance(from);
        to = (int64_t)(0 - (uint64_t)to);
    }
    if (region->rank == 0 && step == region->width && to >= 0 && (uint64_t)to == region->width) {
        region->width *= count;
        return;
    }
    if (region->rank > 0 && region_continues(&region->dims[region->rank - 1], step, to)) {
        region->dims[region->rank - 1].count *= count;
        return;
    }
    region->dims[region->rank++] = (coffer__region_dim){ count, step, to };
}

/* Loops were pushed the innermost first and are walked the outermost first. The reach can be computed only now,
   when all loops are known. */
void coffer__region_finish(coffer__region *region)
{
    uint64_t last = region->reach.begin;
    for (uint32_t i = 0; i < region->rank / 2; i++) {
        const coffer__region_dim inner = region->dims[i];
        region->dims[i] = region->dims[region->rank - 1 - i];
        region->dims[region->rank - 1 - i] = inner;
    }
    for (uint32_t i = 0; i < region->rank; i++) {
        last += (region->dims[i].count - 1) * region->dims[i].from;
    }
    region->reach.end = last + region->width;
}

/* ---- strided copies ---------------------------------------------------------------------------------------------- */

/* Moves on to the run after the last of its innermost loop: the loops around it count on, as digits do. Going back
   to a loop's beginning undoes its steps by the index, so no position has to be remembered for each loop. */
static void region_carry(coffer__region_walk *copies)
{
    const coffer__region *region = copies->region;
    for (uint32_t i = region->rank; i > 0; i--) {
        const coffer__region_dim *dim = &region->dims[i - 1];
        if (copies->index[i - 1] + 1 < dim->count) {
            copies->index[i - 1]++;
            copies->at += dim->from;
            copies->to += (uint64_t)dim->to;
            return;
        }
        copies->at -= copies->index[i - 1] * dim->from;
        copies->to -= copies->index[i - 1] * (uint64_t)dim->to;
        copies->index[i - 1] = 0;
    }
    copies->over = true;
}

/*
 * Finds the first run that reaches beyond the span's beginning. Each loop takes as many steps as fit into the distance
 * that is left; the steps are long enough for that to be exact. What remains lies in the run, or in the gap after it,
 * and then the next run is the first.
 */
void coffer__region_walk_begin(coffer__region_walk *copies, const coffer__region *region, uint64_t address,
                               coffer__file_span within)
{
    uint64_t left = within.begin > region->reach.begin ? within.begin - region->reach.begin : 0;
    copies->region = region;
    copies->address = address;
    copies->within = within;
    copies->at = region->reach.begin;
    copies->to = region->to;
    copies->skip = 0;
    copies->over = within.begin >= region->reach.end || within.end <= region->reach.begin;
    for (uint32_t i = 0; i < region->rank; i++) {
        const coffer__region_dim *dim = &region->dims[i];
        const uint64_t steps = left / dim->from;
        copies->index[i] = steps < dim->count ? steps : dim->count - 1;
        left -= copies->index[i] * dim->from;
        copies->at += copies->index[i] * dim->from;
        copies->to += copies->index[i] * (uint64_t)dim->to;
    }
    if (left < region->width) {
        copies->skip = left;
    } else if (!copies->over) {
        region_carry(copies);
    }
}

/* A run that is cut at either end is a strided copy of its own; else as many runs of the innermost loop as end within
   the span. So most strided copies are many runs, which one call copies, and a cut run happens twice in a span at most.
   `capacity` counts the runs that end within the span; one does, as that was just asked. The position moves to the last
   of these runs, from which carrying finds the next. */
bool coffer__region_walk_next(coffer__region_walk *copies, coffer__strided_copy *copy)
{
    const coffer__region *region = copies->region;
    const uint64_t end = copies->within.end;
    if (copies->over || copies->at + copies->skip >= end) {
        return false;
    }
    *copy = (coffer__strided_copy){ .from = copies->at + copies->skip,
                                    .to = copies->address + copies->to + copies->skip,
                                    .width = region->width - copies->skip,
                                    .runs = 1 };
    if (copies->skip > 0 || region->width > end - copies->at || region->rank == 0) {
        copy->width = copy->width > end - copy->from ? end - copy->from : copy->width;
        copies->skip = 0;
        region_carry(copies);
        return true;
    }
    const coffer__region_dim *dim = &region->dims[region->rank - 1];
    uint64_t *index = &copies->index[region->rank - 1];
    const uint64_t capacity = (end - copies->at - region->width) / dim->from + 1;
    copy->runs = capacity < dim->count - *index ? capacity : dim->count - *index;
    copy->from_step = (int64_t)dim->from;
    copy->to_step = dim->to;
    copies->at += (copy->runs - 1) * dim->from;
    copies->to += (copy->runs - 1) * (uint64_t)dim->to;
    *index += copy->runs - 1;
    region_carry(copies);
    return true;
}

/* For a region without loops the answer is plain, and it is by far the most common, so it does not go through the
   strided copies. */
uint64_t coffer__region_next(const coffer__region *region, uint64_t from)
{
    coffer__region_walk copies;
    if (from <= region->reach.begin) {
        return region->reach.begin;
    }
    if (region->rank == 0) {
        return from < region->reach.end ? from : UINT64_MAX;
    }
    coffer__region_walk_begin(&copies, region, 0, (coffer__file_span){ from, UINT64_MAX });
    return copies.over ? UINT64_MAX : copies.at + copies.skip;
}
