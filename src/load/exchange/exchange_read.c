/* SPDX-License-Identifier: Apache-2.0 */
/* What a host reads in a round: a plan whose items are the spans of its pieces, and a load of it. */
#include "exchange.h"

#include "alloc.h"
#include "error.h"

/* The most spans that the host has in a round. */
static size_t lane_most_spans(const coffer_exchange *exchange, uint32_t host)
{
    size_t most = 0;
    for (uint64_t round = 0; round < exchange->rounds; round++) {
        size_t count = 0;
        size_t spans = 0;
        const uint32_t *pieces = coffer__exchange_lane(exchange, round, host, &count);
        for (size_t i = 0; i < count; i++) {
            spans += exchange->pieces[pieces[i]].span_count;
        }
        most = spans > most ? spans : most;
    }
    return most;
}

coffer_status coffer__lane_begin(coffer__lane *lane, const coffer_exchange *exchange, uint32_t host, coffer_error *err)
{
    const coffer_allocator *allocator = &exchange->hosts[host].plan->allocator;
    const size_t most = lane_most_spans(exchange, host);
    coffer_plan *plan = &lane->plan;
    *lane = (coffer__lane){ .exchange = exchange };
    *plan = (coffer_plan){
        .allocator = *allocator, .model = exchange->joined.model, .item_capacity = most, .row_capacity = most
    };
    plan->items = coffer__alloc_array(allocator, most, sizeof *plan->items, err);
    plan->rows = plan->items == NULL ? NULL : coffer__alloc_array(allocator, most, sizeof *plan->rows, err);
    if (plan->rows == NULL) {
        return COFFER_ERR_MEMORY;
    }
    if (most == 0) {
        return COFFER_OK;
    }
    lane->bytes = coffer_buffer_new((size_t)exchange->lane_size);
    return lane->bytes != NULL ? COFFER_OK
                               : coffer__fail(err, COFFER_ERR_MEMORY,
                                              "no memory for the %z that a host reads in a round", exchange->lane_size);
}

void coffer__lane_close(coffer__lane *lane)
{
    if (lane->exchange == NULL) {
        return;
    }
    const coffer_plan *plan = &lane->plan;
    coffer_load_free(lane->load);
    coffer__free_array(&plan->allocator, plan->items, plan->item_capacity, sizeof *plan->items);
    coffer__free_array(&plan->allocator, plan->rows, plan->row_capacity, sizeof *plan->rows);
    coffer_buffer_free(lane->bytes, (size_t)lane->exchange->lane_size);
}

/* One contiguous span. The tensor is that of one of the rows which want it; messages name it. */
static void lane_add(coffer__lane *lane, const coffer__exchange_chunk *piece, const coffer__file_span *span)
{
    const coffer_exchange *exchange = lane->exchange;
    coffer_plan *plan = &lane->plan;
    const coffer__load_row *row = &exchange->joined.rows[exchange->parts[piece->first_part].row];
    const uint64_t size = span->end - span->begin;
    plan->rows[plan->row_count] =
        (coffer__load_row){ .nest = { .reach = *span, .width = size }, .item = (uint32_t)plan->item_count };
    plan->items[plan->item_count] =
        (coffer__load_item){ .tensor = exchange->joined.items[row->item].tensor,
                             .size = size,
                             .shard = piece->shard,
                             .first_row = (uint32_t)plan->row_count,
                             .row_count = 1,
                             .placed = true,
                             .address = (uintptr_t)lane->bytes + piece->at + (span->begin - piece->hull.begin) };
    plan->item_count++;
    plan->row_count++;
    plan->size += size;
}

/* Digests are of whole tensors, which no span needs to be. */
void coffer__lane_start(coffer__lane *lane, uint64_t round, uint32_t host, coffer_window *window)
{
    const coffer_exchange *exchange = lane->exchange;
    coffer_load_options options = COFFER_LOAD_OPTIONS_INIT;
    size_t count = 0;
    const uint32_t *pieces = coffer__exchange_lane(exchange, round, host, &count);
    options.unverified = true;
    lane->plan.item_count = 0;
    lane->plan.row_count = 0;
    lane->plan.size = 0;
    for (size_t i = 0; i < count; i++) {
        const coffer__exchange_chunk *piece = &exchange->pieces[pieces[i]];
        for (size_t k = 0; k < piece->span_count; k++) {
            lane_add(lane, piece, &exchange->spans[piece->first_span + k]);
        }
    }
    lane->status = coffer_load_start(&lane->load, &lane->plan, window, &options, &lane->err);
}

coffer_status coffer__lane_wait(coffer__lane *lane, coffer_error *err)
{
    if (lane->status == COFFER_OK) {
        lane->status = coffer_load_wait(lane->load, UINT64_MAX, &lane->err);
    }
    coffer_load_free(lane->load);
    lane->load = NULL;
    if (lane->status != COFFER_OK && err != NULL) {
        *err = lane->err;
    }
    return lane->status;
}
