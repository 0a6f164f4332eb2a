/* SPDX-License-Identifier: Apache-2.0 */
#include "nest.h"

/* ---- making one -------------------------------------------------------------------------------------------------- */

/* The reach ends where it begins until coffer__nest_finish knows better. */
void coffer__nest_begin(coffer__nest *nest, coffer__nest_dim *dims, uint64_t begin, uint64_t width, uint64_t to)
{
    *nest = (coffer__nest){ .reach = { begin, begin }, .width = width, .to = to, .dims = dims };
}

/* Whether a loop begins where the last one ends, in the file and in the place, so that both are one. */
static bool nest_continues(const coffer__nest_dim *last, uint64_t from, int64_t to)
{
    return from == last->from * last->count && (uint64_t)to == (uint64_t)last->to * last->count;
}

/* A loop that goes back in the file is turned around: it begins at its other end, and goes back in the place. Sums
   are those of unsigned numbers, which wrap around and come out right. A loop whose steps are just the width, in
   the file and in the place, only makes the runs longer. That is tried for the innermost one alone, since runs
   cannot grow once there are loops around them. This is what turns a whole tensor of any shape into one run. */
void coffer__nest_push(coffer__nest *nest, uint64_t count, int64_t from, int64_t to)
{
    uint64_t step = (uint64_t)from;
    if (count < 2) {
        return;
    }
    if (from < 0) {
        nest->reach.begin += (count - 1) * (uint64_t)from;
        nest->to += (count - 1) * (uint64_t)to;
        step = coffer__box_distance(from);
        to = (int64_t)(0 - (uint64_t)to);
    }
    if (nest->rank == 0 && step == nest->width && to >= 0 && (uint64_t)to == nest->width) {
        nest->width *= count;
        return;
    }
    if (nest->rank > 0 && nest_continues(&nest->dims[nest->rank - 1], step, to)) {
        nest->dims[nest->rank - 1].count *= count;
        return;
    }
    nest->dims[nest->rank++] = (coffer__nest_dim){ count, step, to };
}

/* Loops were pushed the innermost first and are walked the outermost first. The reach can be computed only now,
   when all loops are known. */
void coffer__nest_finish(coffer__nest *nest)
{
    uint64_t last = nest->reach.begin;
    for (uint32_t i = 0; i < nest->rank / 2; i++) {
        const coffer__nest_dim inner = nest->dims[i];
        nest->dims[i] = nest->dims[nest->rank - 1 - i];
        nest->dims[nest->rank - 1 - i] = inner;
    }
    for (uint32_t i = 0; i < nest->rank; i++) {
        last += (nest->dims[i].count - 1) * nest->dims[i].from;
    }
    nest->reach.end = last + nest->width;
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

/* Moves on to the run after the last of its innermost loop: the loops around it count on, as digits do. Going back
   to a loop's beginning undoes its steps by the index, so no position has to be remembered for each loop. */
static void lines_carry(coffer__lines *lines)
{
    const coffer__nest *nest = lines->nest;
    for (uint32_t i = nest->rank; i > 0; i--) {
        const coffer__nest_dim *dim = &nest->dims[i - 1];
        if (lines->index[i - 1] + 1 < dim->count) {
            lines->index[i - 1]++;
            lines->at += dim->from;
            lines->to += (uint64_t)dim->to;
            return;
        }
        lines->at -= lines->index[i - 1] * dim->from;
        lines->to -= lines->index[i - 1] * (uint64_t)dim->to;
        lines->index[i - 1] = 0;
    }
    lines->over = true;
}

/*
 * Finds the first run that reaches beyond the span's beginning. Each loop takes as many steps as fit into the distance
 * that is left; the steps are long enough for that to be exact. What remains lies in the run, or in the gap after it,
 * and then the next run is the first.
 */
void coffer__lines_begin(coffer__lines *lines, const coffer__nest *nest, uint64_t address, coffer__file_span within)
{
    uint64_t left = within.begin > nest->reach.begin ? within.begin - nest->reach.begin : 0;
    lines->nest = nest;
    lines->address = address;
    lines->within = within;
    lines->at = nest->reach.begin;
    lines->to = nest->to;
    lines->skip = 0;
    lines->over = within.begin >= nest->reach.end || within.end <= nest->reach.begin;
    for (uint32_t i = 0; i < nest->rank; i++) {
        const coffer__nest_dim *dim = &nest->dims[i];
        const uint64_t steps = left / dim->from;
        lines->index[i] = steps < dim->count ? steps : dim->count - 1;
        left -= lines->index[i] * dim->from;
        lines->at += lines->index[i] * dim->from;
        lines->to += lines->index[i] * (uint64_t)dim->to;
    }
    if (left < nest->width) {
        lines->skip = left;
    } else if (!lines->over) {
        lines_carry(lines);
    }
}

/* A run that is cut at either end is a line of its own; else as many runs of the innermost loop as end within the
   span. So most lines are many runs, which one call copies, and a cut run happens twice in a span at most. `capacity`
   counts the runs that end within the span; one does, as that was just asked. The position moves to the last of
   these runs, from which carrying finds the next. */
bool coffer__lines_next(coffer__lines *lines, coffer__strided_copy *line)
{
    const coffer__nest *nest = lines->nest;
    const uint64_t end = lines->within.end;
    if (lines->over || lines->at + lines->skip >= end) {
        return false;
    }
    *line = (coffer__strided_copy){ .from = lines->at + lines->skip,
                                    .to = lines->address + lines->to + lines->skip,
                                    .width = nest->width - lines->skip,
                                    .runs = 1 };
    if (lines->skip > 0 || nest->width > end - lines->at || nest->rank == 0) {
        line->width = line->width > end - line->from ? end - line->from : line->width;
        lines->skip = 0;
        lines_carry(lines);
        return true;
    }
    const coffer__nest_dim *dim = &nest->dims[nest->rank - 1];
    uint64_t *index = &lines->index[nest->rank - 1];
    const uint64_t capacity = (end - lines->at - nest->width) / dim->from + 1;
    line->runs = capacity < dim->count - *index ? capacity : dim->count - *index;
    line->from_step = (int64_t)dim->from;
    line->to_step = dim->to;
    lines->at += (line->runs - 1) * dim->from;
    lines->to += (line->runs - 1) * (uint64_t)dim->to;
    *index += line->runs - 1;
    lines_carry(lines);
    return true;
}

/* For a nest without loops the answer is plain, and it is by far the most common, so it does not go through the
   lines. */
uint64_t coffer__nest_next(const coffer__nest *nest, uint64_t from)
{
    coffer__lines lines;
    if (from <= nest->reach.begin) {
        return nest->reach.begin;
    }
    if (nest->rank == 0) {
        return from < nest->reach.end ? from : UINT64_MAX;
    }
    coffer__lines_begin(&lines, nest, 0, (coffer__file_span){ from, UINT64_MAX });
    return lines.over ? UINT64_MAX : lines.at + lines.skip;
}
