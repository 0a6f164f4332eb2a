/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule.h"

#include "alloc.h"
#include "engine.h"
#include "error.h"
#include "model.h"
#include "pace.h"
#include "sort.h"

/* ---- the order --------------------------------------------------------------------------------------------------- */

/* Where an item begins in its file. Copy ops of one item are of one tensor, and are added in the order of the file. So
   the first copy op begins before all others of the item. */
static uint64_t schedule_begin_of(const coffer_plan *plan, uint32_t item)
{
    return plan->copy_ops[plan->items[item].first_op].region.reach.begin;
}

static bool schedule_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer_plan *plan = ctx;
    if (plan->items[a].shard != plan->items[b].shard) {
        return plan->items[a].shard < plan->items[b].shard;
    }
    return schedule_begin_of(plan, a) < schedule_begin_of(plan, b);
}

/* Plans are mostly made in the order of the files, and then there is nothing to sort. */
static void schedule_sort(coffer__schedule *schedule)
{
    for (size_t i = 1; i < schedule->count; i++) {
        if (schedule_before(schedule->plan, schedule->order[i], schedule->order[i - 1])) {
            coffer__sort(schedule->order, schedule->count, schedule_before, schedule->plan);
            return;
        }
    }
}

/* Items without copy ops have nothing to read, and are ready before the load begins. `wanted` has space for all items,
   as each gets there once at most; so a caller that wants one cannot fail. */
coffer_status coffer__schedule_begin(coffer__schedule *schedule, const coffer_plan *plan, coffer_load_order order,
                                     const coffer_allocator *allocator, coffer_error *err)
{
    *schedule = (coffer__schedule){ .plan = plan,
                                    .allocator = allocator,
                                    .gap = { [false] = COFFER__PACE_NEAR, [true] = COFFER__PACE_FAR },
                                    .cell = COFFER__CELL };
    schedule->order = coffer__alloc_array(allocator, plan->item_count, sizeof *schedule->order, err);
    schedule->started = schedule->order == NULL ? NULL : coffer__alloc_array(allocator, plan->item_count, 1, err);
    schedule->wanted = schedule->started == NULL
                           ? NULL
                           : coffer__alloc_array(allocator, plan->item_count, sizeof *schedule->wanted, err);
    if (schedule->wanted == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < plan->item_count; i++) {
        if (plan->items[i].op_count > 0) {
            schedule->order[schedule->count++] = (uint32_t)i;
        }
    }
    if (order == COFFER_ORDER_FILE) {
        schedule_sort(schedule);
    }
    return COFFER_OK;
}

void coffer__schedule_end(coffer__schedule *schedule)
{
    const coffer_allocator *allocator = schedule->allocator;
    if (schedule->plan == NULL) {
        return;
    }
    const size_t count = schedule->plan->item_count;
    coffer__free_array(allocator, schedule->order, count, sizeof *schedule->order);
    coffer__free_array(allocator, schedule->started, count, 1);
    coffer__free_array(allocator, schedule->wanted, count, sizeof *schedule->wanted);
    coffer__free(allocator, schedule->usual.copy_ops, schedule->usual.capacity * sizeof *schedule->usual.copy_ops);
    coffer__free(allocator, schedule->urgent.copy_ops, schedule->urgent.capacity * sizeof *schedule->urgent.copy_ops);
    schedule->plan = NULL;
}

/* It stays in the usual order as well, and whichever sweep comes to it first takes it in; the other then passes
   over it. */
void coffer__schedule_want(coffer__schedule *schedule, uint32_t item)
{
    if (schedule->started[item] == COFFER__BEGUN_NOT) {
        schedule->started[item] = COFFER__BEGUN_WANTED;
        schedule->wanted[schedule->wanted_count++] = item;
    }
}

/* ---- taking items in --------------------------------------------------------------------------------------------- */

/* The next item of a sweep that was not begun; SIZE_MAX when there is none. What was begun stays begun, so the
   position in the list only moves forwards, and each list is gone over once in a load. */
static size_t schedule_peek(coffer__schedule *schedule, const coffer__sweep *sweep)
{
    const bool usual = sweep == &schedule->usual;
    const uint32_t *list = usual ? schedule->order : schedule->wanted;
    const size_t count = usual ? schedule->count : schedule->wanted_count;
    size_t *next = usual ? &schedule->next : &schedule->wanted_next;
    while (*next < count && schedule->started[list[*next]] == COFFER__BEGUN) {
        (*next)++;
    }
    return *next < count ? list[*next] : SIZE_MAX;
}

/* The item counts as begun last, when it has its memory and all of its copy ops are in the sweep. That a failure for
   want of memory leaves some of its copy ops there does no harm, since the load ends with it. */
static coffer_status schedule_take_in(coffer__schedule *schedule, coffer__sweep *sweep, uint32_t item,
                                      coffer_error *err)
{
    const coffer__load_item *taken = &schedule->plan->items[item];
    const coffer_status status = schedule->admit == NULL ? COFFER_OK : schedule->admit(schedule->ctx, item, err);
    if (status != COFFER_OK) {
        return status;
    }
    for (uint32_t i = 0; i < taken->op_count; i++) {
        uint32_t *copy_ops = coffer__grow_array(schedule->allocator, sweep->copy_ops, sweep->count, &sweep->capacity,
                                                sizeof *copy_ops, err);
        if (copy_ops == NULL) {
            return COFFER_ERR_MEMORY;
        }
        sweep->copy_ops = copy_ops;
        copy_ops[sweep->count++] = taken->first_op + i;
    }
    schedule->started[item] = COFFER__BEGUN;
    return COFFER_OK;
}

/* Begins a sweep that has no copy ops at its next item. COFFER_NEED_MORE when that has to wait; *over when there is
   none. The sweep's position is set before the item is admitted. If that has to wait, the sweep still has no copy ops,
   and begins again the next time, at whichever item is next then. */
static coffer_status schedule_start(coffer__schedule *schedule, coffer__sweep *sweep, bool *over, coffer_error *err)
{
    const size_t item = schedule_peek(schedule, sweep);
    *over = item == SIZE_MAX;
    if (*over) {
        return COFFER_OK;
    }
    sweep->shard = schedule->plan->items[item].shard;
    sweep->position = schedule_begin_of(schedule->plan, (uint32_t)item);
    return schedule_take_in(schedule, sweep, (uint32_t)item, err);
}

/* Takes in what else begins in the cell. An item that has to wait ends that, and is no failure while there is
   something to read. Only items from the sweep's position on are taken in: what lies before it was read, and an item
   that begins there needs a sweep of its own. The order of the plan may bring such items at any time. */
static coffer_status schedule_gather(coffer__schedule *schedule, coffer__sweep *sweep, const coffer__file_span *cell,
                                     coffer_error *err)
{
    for (;;) {
        const size_t item = schedule_peek(schedule, sweep);
        if (item == SIZE_MAX || schedule->plan->items[item].shard != sweep->shard) {
            return COFFER_OK;
        }
        const uint64_t begin = schedule_begin_of(schedule->plan, (uint32_t)item);
        if (begin < sweep->position || begin >= cell->end) {
            return COFFER_OK;
        }
        const coffer_status status = schedule_take_in(schedule, sweep, (uint32_t)item, err);
        if (status != COFFER_OK) {
            return status == COFFER_NEED_MORE ? COFFER_OK : status;
        }
    }
}

/* ---- chunks ------------------------------------------------------------------------------------------------------ */

void coffer__chunk_end(coffer__chunk *chunk, const coffer_allocator *allocator)
{
    coffer__free(allocator, chunk->spans, chunk->span_capacity * sizeof *chunk->spans);
    coffer__free(allocator, chunk->parts, chunk->part_capacity * sizeof *chunk->parts);
    *chunk = (coffer__chunk){ .shard = 0 };
}

/* The cell in which the sweep's next byte lies. It moves the sweep there, over what no copy op wants. The sweep has
   copy ops, none of which was read to its end, so some copy op wants a byte and `next` is one of the file. The search
   ends early when a copy op wants the very next byte, which is the usual case. */
static coffer__file_span schedule_cell(const coffer__schedule *schedule, coffer__sweep *sweep)
{
    const uint64_t size = schedule->plan->model->shards[sweep->shard].source.size;
    uint64_t next = UINT64_MAX;
    for (size_t i = 0; i < sweep->count && next > sweep->position; i++) {
        const uint64_t begin =
            coffer__region_next(&schedule->plan->copy_ops[sweep->copy_ops[i]].region, sweep->position);
        next = begin < next ? begin : next;
    }
    sweep->position = next;
    const uint64_t begin = next / schedule->cell * schedule->cell;
    return (coffer__file_span){ begin, size - begin < schedule->cell ? size : begin + schedule->cell };
}

/* `there` is empty at the part's beginning, which is what the worker relies on when the chunk source reads nothing to
   its destination. */
static coffer_status schedule_add_part(const coffer__schedule *schedule, coffer__chunk *chunk, uint32_t op,
                                       coffer__file_span within, coffer_error *err)
{
    coffer__chunk_part *parts = coffer__grow_array(schedule->allocator, chunk->parts, chunk->part_count,
                                                   &chunk->part_capacity, sizeof *parts, err);
    if (parts == NULL) {
        return COFFER_ERR_MEMORY;
    }
    chunk->parts = parts;
    parts[chunk->part_count++] =
        (coffer__chunk_part){ .op = op, .within = within, .there = { within.begin, within.begin } };
    return COFFER_OK;
}

/* Makes parts of what the copy ops want of the cell, and forgets those that end in it. A copy op may have a gap over
   all of the cell; it makes no part then, and stays. */
static coffer_status schedule_parts(const coffer__schedule *schedule, coffer__sweep *sweep, coffer__chunk *chunk,
                                    coffer_error *err)
{
    size_t served = 0;
    coffer_status status = COFFER_OK;
    const coffer__file_span cell = chunk->cell;
    for (size_t i = 0; i < sweep->count && status == COFFER_OK; i++) {
        const uint32_t op = sweep->copy_ops[i];
        const coffer__region *region = &schedule->plan->copy_ops[op].region;
        const uint64_t begin = coffer__region_next(region, sweep->position);
        if (begin < cell.end) {
            const uint64_t end = region->reach.end < cell.end ? region->reach.end : cell.end;
            status = schedule_add_part(schedule, chunk, op, (coffer__file_span){ begin, end }, err);
        }
        if (region->reach.end > cell.end) {
            sweep->copy_ops[served++] = op;
        }
    }
    sweep->count = served;
    sweep->position = cell.end;
    return status;
}

/* Adds a span to the last one if it begins there or shortly after it, else as one of its own. A span that begins
   before the last one is left for schedule_merge, so adding takes one comparison. */
static coffer_status schedule_add_span(const coffer__schedule *schedule, coffer__chunk *chunk, coffer__file_span span,
                                       uint64_t gap, coffer_error *err)
{
    coffer__file_span *last = chunk->span_count == 0 ? NULL : &chunk->spans[chunk->span_count - 1];
    if (last != NULL && span.begin >= last->begin && (span.begin <= last->end || span.begin - last->end <= gap)) {
        last->end = span.end > last->end ? span.end : last->end;
        return COFFER_OK;
    }
    coffer__file_span *spans = coffer__grow_array(schedule->allocator, chunk->spans, chunk->span_count,
                                                  &chunk->span_capacity, sizeof *spans, err);
    if (spans == NULL) {
        return COFFER_ERR_MEMORY;
    }
    chunk->spans = spans;
    spans[chunk->span_count++] = span;
    return COFFER_OK;
}

/* The runs of a strided copy that lie apart, or all of it as one span. Runs whose gaps are read anyway are one span
   from the beginning: a column of a matrix has so many of them in a cell that listing each would take longer than
   reading. */
static coffer_status schedule_add_copy(const coffer__schedule *schedule, coffer__chunk *chunk,
                                       const coffer__strided_copy *copy, uint64_t gap, coffer_error *err)
{
    const uint64_t step = (uint64_t)copy->from_step; /* forwards, as a copy op's runs lie in the file */
    coffer__file_span span = { copy->from, copy->from + copy->width };
    if (copy->runs == 1 || step - copy->width <= gap) {
        span.end += copy->runs == 1 ? 0 : (copy->runs - 1) * step;
        return schedule_add_span(schedule, chunk, span, gap, err);
    }
    for (uint64_t i = 0; i < copy->runs; i++) {
        const coffer_status status = schedule_add_span(schedule, chunk, span, gap, err);
        if (status != COFFER_OK) {
            return status;
        }
        span.begin += step;
        span.end += step;
    }
    return COFFER_OK;
}

/* The destination does not matter for what is read, so the strided copies are asked for with address 0. */
static coffer_status schedule_add_spans(const coffer__schedule *schedule, coffer__chunk *chunk,
                                        const coffer__chunk_part *part, uint64_t gap, coffer_error *err)
{
    coffer__region_walk copies;
    coffer__strided_copy copy;
    coffer_status status = COFFER_OK;
    const coffer__region *region = &schedule->plan->copy_ops[part->op].region;
    if (region->rank == 0) {
        return schedule_add_span(schedule, chunk, part->within, gap, err);
    }
    coffer__region_walk_begin(&copies, region, 0, part->within);
    while (status == COFFER_OK && coffer__region_walk_next(&copies, &copy)) {
        status = schedule_add_copy(schedule, chunk, &copy, gap, err);
    }
    return status;
}

/* Puts the spans in order and merges them. Those of one copy op are in order, so only copy ops that lie between each
   other leave something to do; inserting is fast for what is nearly in order. */
static void schedule_merge(coffer__chunk *chunk, uint64_t gap)
{
    size_t served = 0;
    for (size_t i = 1; i < chunk->span_count; i++) {
        const coffer__file_span span = chunk->spans[i];
        size_t at = i;
        for (; at > 0 && chunk->spans[at - 1].begin > span.begin; at--) {
            chunk->spans[at] = chunk->spans[at - 1];
        }
        chunk->spans[at] = span;
    }
    for (size_t i = 1; i < chunk->span_count; i++) {
        const coffer__file_span span = chunk->spans[i];
        coffer__file_span *last = &chunk->spans[served];
        if (span.begin <= last->end || span.begin - last->end <= gap) {
            last->end = span.end > last->end ? span.end : last->end;
        } else {
            chunk->spans[++served] = span;
        }
    }
    chunk->span_count = chunk->span_count == 0 ? 0 : served + 1;
}

/* Parts in the order in which they begin, as the spans: copy ops that were taken in in that order mostly have it. */
static void schedule_sort_parts(coffer__chunk *chunk)
{
    for (size_t i = 1; i < chunk->part_count; i++) {
        const coffer__chunk_part part = chunk->parts[i];
        size_t at = i;
        for (; at > 0 && chunk->parts[at - 1].within.begin > part.within.begin; at--) {
            chunk->parts[at] = chunk->parts[at - 1];
        }
        chunk->parts[at] = part;
    }
}

/* The cell is found before more is taken in, as it is what decides which items begin in it; the parts come after
   that, so that all of these items have theirs in this chunk. The chunk's lists are used again. */
static coffer_status schedule_chunk(coffer__schedule *schedule, coffer__sweep *sweep, coffer__chunk *chunk,
                                    coffer_error *err)
{
    const uint64_t gap = schedule->gap[coffer__source_is_dear(&schedule->plan->model->shards[sweep->shard].source)];
    chunk->shard = sweep->shard;
    chunk->gap = 0;
    chunk->cell = schedule_cell(schedule, sweep);
    chunk->alone = sweep == &schedule->urgent;
    chunk->span_count = 0;
    chunk->part_count = 0;
    coffer_status status = schedule_gather(schedule, sweep, &chunk->cell, err);
    if (status == COFFER_OK) {
        status = schedule_parts(schedule, sweep, chunk, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    schedule_sort_parts(chunk);
    for (size_t i = 0; i < chunk->part_count && status == COFFER_OK; i++) {
        status = schedule_add_spans(schedule, chunk, &chunk->parts[i], gap, err);
    }
    schedule_merge(chunk, gap);
    return status;
}

/* A sweep with copy ops is always finished before it begins at another item. The urgent one goes first with each chunk,
   so it interrupts the usual one in the middle, and that continues where it was. */
coffer_status coffer__schedule_next(coffer__schedule *schedule, coffer__chunk *chunk, bool *over, coffer_error *err)
{
    coffer__sweep *sweeps[] = { &schedule->urgent, &schedule->usual };
    for (int i = 0; i < 2; i++) {
        bool none = false;
        coffer_status status = COFFER_OK;
        if (sweeps[i]->count == 0) {
            status = schedule_start(schedule, sweeps[i], &none, err);
        }
        /* An urgent item that has to wait does not keep the others from being finished. */
        if (status == COFFER_NEED_MORE && i == 0) {
            continue;
        }
        if (status != COFFER_OK || !none) {
            *over = false;
            return status == COFFER_OK ? schedule_chunk(schedule, sweeps[i], chunk, err) : status;
        }
    }
    *over = true;
    return COFFER_OK;
}
