/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan costs: the schedule of a load, made without loading, and the engines that it would choose. */
#include "error.h"
#include "file_readers.h"
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

/* ---- engines ----------------------------------------------------------------------------------------------------- */

/* File readers are opened as a load opens them, one file at a time, and say what was chosen. A shard of which nothing is
   wanted has none. */
static coffer_status cost_engines(coffer__file_readers *file_readers, const coffer_plan *plan, size_t shard,
                                  uint32_t *engines, coffer_error *err)
{
    size_t asked = SIZE_MAX;
    for (size_t i = 0; i < plan->item_count; i++) {
        const coffer__load_item *item = &plan->items[i];
        const coffer__file_reader *file_reader = NULL;
        if (item->size == 0 || item->shard == asked || (shard != SIZE_MAX && item->shard != shard)) {
            continue;
        }
        asked = item->shard;
        const coffer_status status = coffer__file_readers_use(file_readers, asked, &file_reader, err);
        if (status != COFFER_OK) {
            return status;
        }
        *engines |= UINT32_C(1) << (unsigned)coffer__file_reader_engine(file_reader);
        coffer__file_readers_leave(file_readers, asked);
    }
    return COFFER_OK;
}

/* The file readers are those of a load with this plan, so the choice is the same: it depends on how many bytes of a file are
   wanted, and the probes lie where those are. Nothing of a group or of a keeper is asked, as both are found only by
   taking part. */
coffer_status coffer_plan_engines_of(const coffer_plan *plan, size_t shard, uint32_t *engines, coffer_error *err)
{
    if (plan == NULL || engines == NULL || (shard != SIZE_MAX && shard >= plan->model->shard_count)) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT,
                            "coffer_plan_engines_of was called with a NULL, or for a shard that the model does not "
                            "have");
    }
    const coffer__file_readers_options options = { .allocator = &plan->allocator, .engine = COFFER_ENGINE_AUTO };
    coffer__file_readers *file_readers = NULL;
    uint32_t found = 0;
    coffer_status status = coffer__file_readers_new(&file_readers, plan, &options, err);
    if (status == COFFER_OK) {
        status = cost_engines(file_readers, plan, shard, &found, err);
    }
    coffer__file_readers_free(file_readers);
    if (status == COFFER_OK) {
        *engines = found;
    }
    return status;
}
