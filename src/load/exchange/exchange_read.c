/* SPDX-License-Identifier: Apache-2.0 */
/* What a host reads in a round: a plan whose items are the spans of its chunks, and a load of it. */
#include "exchange.h"

#include "alloc.h"
#include "error.h"

/* The most spans that the host has in a round. */
static size_t reading_max_spans(const coffer_exchange *exchange, uint32_t host)
{
    size_t most = 0;
    for (uint64_t round = 0; round < exchange->rounds; round++) {
        size_t count = 0;
        size_t spans = 0;
        const uint32_t *chunks = coffer__exchange_reads(exchange, round, host, &count);
        for (size_t i = 0; i < count; i++) {
            spans += exchange->chunks[chunks[i]].span_count;
        }
        most = spans > most ? spans : most;
    }
    return most;
}

coffer_status coffer__round_read_begin(coffer__round_read *reading, const coffer_exchange *exchange, uint32_t host,
                                       coffer_error *err)
{
    const coffer_allocator *allocator = &exchange->hosts[host].plan->allocator;
    const size_t most = reading_max_spans(exchange, host);
    coffer_plan *plan = &reading->plan;
    *reading = (coffer__round_read){ .exchange = exchange };
    *plan = (coffer_plan){
        .allocator = *allocator, .model = exchange->joined.model, .item_capacity = most, .op_capacity = most
    };
    plan->items = coffer__alloc_array(allocator, most, sizeof *plan->items, err);
    plan->copy_ops = plan->items == NULL ? NULL : coffer__alloc_array(allocator, most, sizeof *plan->copy_ops, err);
    if (plan->copy_ops == NULL) {
        return COFFER_ERR_MEMORY;
    }
    if (most == 0) {
        return COFFER_OK;
    }
    reading->bytes = coffer_buffer_new((size_t)exchange->reading_size);
    return reading->bytes != NULL
               ? COFFER_OK
               : coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the %z that a host reads in a round",
                              exchange->reading_size);
}

void coffer__round_read_close(coffer__round_read *reading)
{
    if (reading->exchange == NULL) {
        return;
    }
    const coffer_plan *plan = &reading->plan;
    coffer_load_free(reading->load);
    coffer__free_array(&plan->allocator, plan->items, plan->item_capacity, sizeof *plan->items);
    coffer__free_array(&plan->allocator, plan->copy_ops, plan->op_capacity, sizeof *plan->copy_ops);
    coffer_buffer_free(reading->bytes, (size_t)reading->exchange->reading_size);
}

/* One contiguous span. The tensor is that of one of the copy ops which want it; messages name it. */
static void reading_add(coffer__round_read *reading, const coffer__host_chunk *chunk, const coffer__file_span *span)
{
    const coffer_exchange *exchange = reading->exchange;
    coffer_plan *plan = &reading->plan;
    const coffer__copy_op *op = &exchange->joined.copy_ops[exchange->parts[chunk->first_part].op];
    const uint64_t size = span->end - span->begin;
    plan->copy_ops[plan->op_count] =
        (coffer__copy_op){ .region = { .reach = *span, .width = size }, .item = (uint32_t)plan->item_count };
    plan->items[plan->item_count] =
        (coffer__load_item){ .tensor = exchange->joined.items[op->item].tensor,
                             .size = size,
                             .shard = chunk->shard,
                             .first_op = (uint32_t)plan->op_count,
                             .op_count = 1,
                             .given = true,
                             .address = (uintptr_t)reading->bytes + chunk->at + (span->begin - chunk->hull.begin) };
    plan->item_count++;
    plan->op_count++;
    plan->size += size;
}

/* Digests are of whole tensors, which no span needs to be. */
void coffer__round_read_start(coffer__round_read *reading, uint64_t round, uint32_t host, coffer_staging *staging)
{
    const coffer_exchange *exchange = reading->exchange;
    coffer_load_options options = COFFER_LOAD_OPTIONS_INIT;
    size_t count = 0;
    const uint32_t *chunks = coffer__exchange_reads(exchange, round, host, &count);
    options.unverified = true;
    reading->plan.item_count = 0;
    reading->plan.op_count = 0;
    reading->plan.size = 0;
    for (size_t i = 0; i < count; i++) {
        const coffer__host_chunk *chunk = &exchange->chunks[chunks[i]];
        for (size_t k = 0; k < chunk->span_count; k++) {
            reading_add(reading, chunk, &exchange->spans[chunk->first_span + k]);
        }
    }
    reading->status = coffer_load_start(&reading->load, &reading->plan, staging, &options, &reading->err);
}

coffer_status coffer__round_read_wait(coffer__round_read *reading, coffer_error *err)
{
    if (reading->status == COFFER_OK) {
        reading->status = coffer_load_wait(reading->load, UINT64_MAX, &reading->err);
    }
    coffer_load_free(reading->load);
    reading->load = NULL;
    if (reading->status != COFFER_OK && err != NULL) {
        *err = reading->err;
    }
    return reading->status;
}
