/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan costs: the schedule of a load, made without loading. */
#include "error.h"
#include "model.h"
#include "schedule.h"

#include <string.h>

/* Gaps that are read with what lies around them are part of a span, so they count as read, as they will be. */
static void cost_add(coffer_plan_cost *cost, const coffer__chunk *chunk)
{
    for (size_t i = 0; i < chunk->span_count; i++) {
        cost->read += chunk->spans[i].end - chunk->spans[i].begin;
        cost->requests++;
    }
}

/* Items of one shard, or of all. Those of others are told to the schedule as begun, so that it leaves them out. */
static void cost_items(coffer__schedule *schedule, size_t shard, coffer_plan_cost *cost)
{
    const coffer_plan *plan = schedule->plan;
    for (size_t i = 0; i < plan->item_count; i++) {
        const bool counts = shard == SIZE_MAX || plan->items[i].shard == shard;
        cost->items += counts ? 1 : 0;
        cost->needed += counts ? plan->items[i].size : 0;
        schedule->started[i] = counts ? COFFER__BEGUN_NOT : COFFER__BEGUN;
    }
}

/* One chunk is filled again and again: its lists grow to what the largest needs. */
static coffer_status cost_chunks(coffer__schedule *schedule, coffer_plan_cost *cost, coffer_error *err)
{
    bool over = false;
    coffer__chunk chunk = { .shard = 0 };
    coffer_status status = coffer__schedule_next(schedule, &chunk, &over, err);
    while (status == COFFER_OK && !over) {
        cost_add(cost, &chunk);
        status = coffer__schedule_next(schedule, &chunk, &over, err);
    }
    coffer__chunk_free(&chunk, schedule->allocator);
    return status;
}

/* The schedule has no `admit`, so nothing waits for memory, and the order is that of the files, which budgets can
   only make worse. The result is written at the end, so a failure leaves the caller's struct as it was; no more of
   it is written than its size says. */
coffer_status coffer_plan_cost_of(const coffer_plan *plan, size_t shard, coffer_plan_cost *cost, coffer_error *err)
{
    if (plan == NULL || cost == NULL || cost->struct_size < sizeof cost->struct_size ||
        (shard != SIZE_MAX && shard >= plan->model->shard_count)) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT,
                            "coffer_plan_cost_of was called with a NULL, for a shard that the model does not have, or "
                            "with a struct_size that is not set");
    }
    coffer__schedule schedule;
    coffer_plan_cost sum = { .struct_size = cost->struct_size < sizeof sum ? cost->struct_size : sizeof sum };
    coffer_status status = coffer__schedule_begin(&schedule, plan, COFFER_ORDER_FILE, &plan->allocator, err);
    if (status == COFFER_OK) {
        cost_items(&schedule, shard, &sum);
        status = cost_chunks(&schedule, &sum, err);
    }
    coffer__schedule_free(&schedule);
    if (status == COFFER_OK) {
        memcpy(cost, &sum, sum.struct_size);
    }
    return status;
}
