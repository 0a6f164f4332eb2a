/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule of an exchange: the plans of all hosts as one, cut into chunks, and who reads which of them when. */
#include "exchange.h"

#include "alloc.h"
#include "bytes.h"
#include "error.h"
#include "fnv.h"
#include "model.h"
#include "options.h"
#include "pace.h"
#include "schedule.h"
#include "sort.h"

#define EXCHANGE_MEMORY ((uint64_t)256 << 20)
/* Modulo which addresses agree with offsets, so that a reading can be read past the page cache. */
#define EXCHANGE_PAGE 4096u
/* How many chunks of a small model a host reads at least, if they are not below a page. */
#define EXCHANGE_CHUNKS 4u

/* ---- the plans as one -------------------------------------------------------------------------------------------- */

static void exchange_join_one(coffer_exchange *exchange, const coffer_plan *plan)
{
    coffer_plan *joined = &exchange->joined;
    for (size_t i = 0; i < plan->item_count; i++) {
        coffer__load_item *item = &joined->items[joined->item_count + i];
        *item = plan->items[i];
        item->first_op += (uint32_t)joined->op_count;
    }
    for (size_t i = 0; i < plan->op_count; i++) {
        coffer__copy_op *op = &joined->copy_ops[joined->op_count + i];
        *op = plan->copy_ops[i];
        op->item += (uint32_t)joined->item_count;
    }
    joined->item_count += plan->item_count;
    joined->op_count += plan->op_count;
}

/* Items and copy ops have numbers of 32 bits, in a plan and here. */
static coffer_status exchange_join(coffer_exchange *exchange, coffer_error *err)
{
    size_t items = 0;
    size_t copy_ops = 0;
    coffer_plan *joined = &exchange->joined;
    for (uint32_t i = 0; i < exchange->world; i++) {
        items += exchange->hosts[i].plan->item_count;
        copy_ops += exchange->hosts[i].plan->op_count;
        if (items > INT32_MAX || copy_ops > INT32_MAX) {
            return coffer__fail(err, COFFER_ERR_MEMORY, "the plans of %u hosts have too many items for one exchange",
                                (uint64_t)exchange->world);
        }
    }
    joined->allocator = exchange->allocator;
    joined->model = exchange->hosts[0].plan->model;
    joined->items = coffer__alloc_array(&exchange->allocator, items, sizeof *joined->items, err);
    joined->item_capacity = items;
    joined->copy_ops = joined->items == NULL
                           ? NULL
                           : coffer__alloc_array(&exchange->allocator, copy_ops, sizeof *joined->copy_ops, err);
    joined->op_capacity = copy_ops;
    if (joined->copy_ops == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (uint32_t i = 0; i < exchange->world; i++) {
        exchange_join_one(exchange, exchange->hosts[i].plan);
        exchange->hosts[i + 1].first_item = (uint32_t)joined->item_count;
        exchange->hosts[i + 1].first_op = (uint32_t)joined->op_count;
    }
    return COFFER_OK;
}

/* Hosts without copy ops have the same beginning as the next one: the last of these has the copy op. */
static uint32_t exchange_host_of(const coffer_exchange *exchange, uint32_t op)
{
    uint32_t low = 0;
    uint32_t high = exchange->world;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (exchange->hosts[middle].first_op <= op) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* ---- chunks ------------------------------------------------------------------------------------------------------ */

static coffer_status exchange_add_spans(coffer_exchange *exchange, const coffer__chunk *chunk, coffer_error *err)
{
    for (size_t i = 0; i < chunk->span_count; i++) {
        coffer__file_span *spans = coffer__grow_array(&exchange->allocator, exchange->spans, exchange->span_count,
                                                      &exchange->span_capacity, sizeof *spans, err);
        if (spans == NULL) {
            return COFFER_ERR_MEMORY;
        }
        exchange->spans = spans;
        spans[exchange->span_count++] = chunk->spans[i];
    }
    return COFFER_OK;
}

static coffer_status exchange_add_parts(coffer_exchange *exchange, const coffer__chunk *chunk, coffer_error *err)
{
    for (size_t i = 0; i < chunk->part_count; i++) {
        coffer__exchange_part *parts = coffer__grow_array(&exchange->allocator, exchange->parts, exchange->part_count,
                                                          &exchange->part_capacity, sizeof *parts, err);
        if (parts == NULL) {
            return COFFER_ERR_MEMORY;
        }
        exchange->parts = parts;
        parts[exchange->part_count++] = (coffer__exchange_part){ .op = chunk->parts[i].op,
                                                                 .host = exchange_host_of(exchange, chunk->parts[i].op),
                                                                 .within = chunk->parts[i].within };
    }
    return COFFER_OK;
}

static coffer_status exchange_add_chunk(coffer_exchange *exchange, const coffer__chunk *chunk, coffer_error *err)
{
    coffer__host_chunk *chunks = coffer__grow_array(&exchange->allocator, exchange->chunks, exchange->chunk_count,
                                                    &exchange->chunk_capacity, sizeof *chunks, err);
    if (chunks == NULL) {
        return COFFER_ERR_MEMORY;
    }
    exchange->chunks = chunks;
    chunks[exchange->chunk_count++] =
        (coffer__host_chunk){ .shard = (uint32_t)chunk->shard,
                              .hull = { chunk->spans[0].begin, chunk->spans[chunk->span_count - 1].end },
                              .first_span = exchange->span_count,
                              .span_count = chunk->span_count,
                              .first_part = exchange->part_count,
                              .part_count = chunk->part_count };
    const coffer_status status = exchange_add_spans(exchange, chunk, err);
    return status == COFFER_OK ? exchange_add_parts(exchange, chunk, err) : status;
}

/* Chunks that are small enough for a host's part of the memory, and of which it reads several: so all hosts read about the
   same of a small model, too. Which bytes several hosts want is not known yet, so the model counts as what one host
   wants at most. */
static uint64_t exchange_cell(const coffer_exchange *exchange, uint64_t memory)
{
    uint64_t size = 0;
    uint64_t cell = COFFER__CELL;
    for (uint32_t i = 0; i < exchange->world; i++) {
        const uint64_t wanted = exchange->hosts[i].plan->size;
        size = wanted > size ? wanted : size;
    }
    const uint64_t share = size / EXCHANGE_CHUNKS < memory ? size / EXCHANGE_CHUNKS : memory;
    while (cell > EXCHANGE_PAGE && cell * exchange->world > share) {
        cell /= 2;
    }
    return cell;
}

/* Which gaps are read with what lies around them depends on the source, which may be another one on each host: a URL
   here, a file there. The chunks have to be the same, so here all sources are near. */
static coffer_status exchange_cut(coffer_exchange *exchange, uint64_t memory, coffer_error *err)
{
    coffer__schedule schedule;
    coffer__chunk chunk = { .shard = 0 };
    bool over = false;
    coffer_status status =
        coffer__schedule_begin(&schedule, &exchange->joined, COFFER_ORDER_FILE, &exchange->allocator, err);
    schedule.gap[true] = COFFER__PACE_NEAR;
    schedule.cell = exchange_cell(exchange, memory);
    while (status == COFFER_OK && !over) {
        status = coffer__schedule_next(&schedule, &chunk, &over, err);
        if (status == COFFER_OK && !over) {
            status = exchange_add_chunk(exchange, &chunk, err);
        }
    }
    coffer__chunk_free(&chunk, &exchange->allocator);
    coffer__schedule_free(&schedule);
    return status;
}

/* ---- who reads what ---------------------------------------------------------------------------------------------- */

/* The host that alone wants a chunk; the number of hosts when several do. */
static uint32_t exchange_only_host(const coffer_exchange *exchange, const coffer__host_chunk *chunk)
{
    const coffer__exchange_part *parts = &exchange->parts[chunk->first_part];
    for (size_t i = 1; i < chunk->part_count; i++) {
        if (parts[i].host != parts[0].host) {
            return exchange->world;
        }
    }
    return parts[0].host;
}

static uint32_t exchange_least(const uint64_t *loads, uint32_t world)
{
    uint32_t least = 0;
    for (uint32_t i = 1; i < world; i++) {
        least = loads[i] < loads[least] ? i : least;
    }
    return least;
}

/* A chunk that one host alone wants, it reads: that saves the way. Then the others go to whoever has the least, so that
   all read for about as long. */
static void exchange_assign(coffer_exchange *exchange, uint64_t *loads)
{
    for (int shared = 0; shared < 2; shared++) {
        for (size_t i = 0; i < exchange->chunk_count; i++) {
            coffer__host_chunk *chunk = &exchange->chunks[i];
            const uint32_t only = exchange_only_host(exchange, chunk);
            if ((only == exchange->world) == (shared == 1)) {
                chunk->host = only < exchange->world ? only : exchange_least(loads, exchange->world);
                loads[chunk->host] += chunk->hull.end - chunk->hull.begin;
            }
        }
    }
}

/* Each host takes its chunks in the order of the files, in each round as many as its reading holds, and at least one.
   */
static void exchange_rounds(coffer_exchange *exchange, uint64_t limit, uint64_t *used, uint64_t *rounds)
{
    for (size_t i = 0; i < exchange->chunk_count; i++) {
        coffer__host_chunk *chunk = &exchange->chunks[i];
        const uint64_t lead = chunk->hull.begin % EXCHANGE_PAGE;
        uint64_t *used_here = &used[chunk->host];
        uint64_t at = (*used_here + EXCHANGE_PAGE - 1) / EXCHANGE_PAGE * EXCHANGE_PAGE + lead;
        uint64_t end = at + chunk->hull.end - chunk->hull.begin;
        if (*used_here > 0 && end > limit) {
            rounds[chunk->host]++;
            at = lead;
            end = at + chunk->hull.end - chunk->hull.begin;
        }
        *used_here = end;
        chunk->at = at;
        chunk->round = rounds[chunk->host];
        exchange->rounds = chunk->round >= exchange->rounds ? chunk->round + 1 : exchange->rounds;
        exchange->reading_size = end > exchange->reading_size ? end : exchange->reading_size;
    }
}

static bool exchange_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer__host_chunk *chunks = ctx;
    return chunks[a].round != chunks[b].round ? chunks[a].round < chunks[b].round : chunks[a].host < chunks[b].host;
}

static coffer_status exchange_sort(coffer_exchange *exchange, coffer_error *err)
{
    const coffer_allocator *allocator = &exchange->allocator;
    exchange->order = coffer__alloc_array(allocator, exchange->chunk_count, sizeof *exchange->order, err);
    exchange->readings = exchange->order == NULL
                             ? NULL
                             : coffer__alloc_array(allocator, (size_t)exchange->rounds * exchange->world + 1,
                                                   sizeof *exchange->readings, err);
    if (exchange->readings == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < exchange->chunk_count; i++) {
        const coffer__host_chunk *chunk = &exchange->chunks[i];
        exchange->order[i] = (uint32_t)i;
        exchange->readings[chunk->round * exchange->world + chunk->host + 1]++;
    }
    coffer__sort(exchange->order, exchange->chunk_count, exchange_before, exchange->chunks);
    for (size_t i = 1; i <= exchange->rounds * exchange->world; i++) {
        exchange->readings[i] += exchange->readings[i - 1];
    }
    return COFFER_OK;
}

static coffer_status exchange_distribute(coffer_exchange *exchange, uint64_t memory, coffer_error *err)
{
    uint64_t *counts = coffer__alloc_array(&exchange->allocator, exchange->world, 3 * sizeof *counts, err);
    if (counts == NULL) {
        return COFFER_ERR_MEMORY;
    }
    exchange_assign(exchange, counts);
    exchange_rounds(exchange, memory / exchange->world, counts + exchange->world, counts + 2 * (size_t)exchange->world);
    coffer__free_array(&exchange->allocator, counts, exchange->world, 3 * sizeof *counts);
    return exchange_sort(exchange, err);
}

/* ---- what hosts have to agree on --------------------------------------------------------------------------------- */

/* Hosts of either byte order come to the same number. */
static uint64_t exchange_fold(uint64_t number, uint64_t value)
{
    uint8_t bytes[8];
    coffer__store_u64le(bytes, value);
    return coffer__fnv(number, bytes, sizeof bytes);
}

/* Only the host itself knows where its copy op goes, and that decides which loops are one. Here those are that are one
   in the file. */
static uint64_t exchange_fold_op(uint64_t number, const coffer__region *region)
{
    coffer__region plain;
    coffer__region_dim dims[COFFER__BOX_MAX_RANK];
    coffer__region_begin(&plain, dims, region->reach.begin, region->width, 0);
    for (uint32_t i = region->rank; i > 0; i--) {
        const coffer__region_dim *dim = &region->dims[i - 1];
        coffer__region_push(&plain, dim->count, (int64_t)dim->from, (int64_t)dim->from);
    }
    coffer__region_finish(&plain);
    number = exchange_fold(exchange_fold(number, plain.reach.begin), plain.width);
    for (uint32_t i = 0; i < plain.rank; i++) {
        number = exchange_fold(exchange_fold(number, dims[i].count), dims[i].from);
    }
    return number;
}

static uint64_t exchange_fold_item(uint64_t number, const coffer__load_item *item)
{
    const coffer_tensor *tensor = item->tensor;
    number = exchange_fold(coffer__fnv(number, tensor->name, tensor->name_len), (uint64_t)tensor->dtype);
    number = exchange_fold(exchange_fold(number, item->shard), item->op_count);
    for (size_t i = 0; i < tensor->rank; i++) {
        number = exchange_fold(number, tensor->shape[i]);
    }
    return number;
}

static void exchange_number(coffer_exchange *exchange, uint64_t memory)
{
    const coffer_plan *joined = &exchange->joined;
    uint64_t number = exchange_fold(exchange_fold(COFFER__FNV_START, exchange->world), memory);
    for (size_t i = 0; i < joined->model->shard_count; i++) {
        number = exchange_fold(number, joined->model->shards[i].source.size);
    }
    for (uint32_t i = 0; i <= exchange->world; i++) {
        number = exchange_fold(number, exchange->hosts[i].first_item);
    }
    for (size_t i = 0; i < joined->item_count; i++) {
        number = exchange_fold_item(number, &joined->items[i]);
    }
    for (size_t i = 0; i < joined->op_count; i++) {
        number = exchange_fold_op(number, &joined->copy_ops[i].region);
    }
    exchange->number = number;
}

/* ---- making one -------------------------------------------------------------------------------------------------- */

static coffer_status exchange_check(const coffer_plan *const *plans, uint32_t world, coffer_error *err)
{
    bool known = plans != NULL && world > 0;
    for (uint32_t i = 0; known && i < world; i++) {
        known = plans[i] != NULL && plans[i]->model == plans[0]->model;
    }
    return known ? COFFER_OK
                 : coffer__fail(err, COFFER_ERR_ARGUMENT,
                                "coffer_exchange_new was called with a NULL, for no hosts, or with plans of several "
                                "models");
}

static coffer_status exchange_make(coffer_exchange *exchange, const coffer_plan *const *plans, uint64_t memory,
                                   coffer_error *err)
{
    exchange->hosts =
        coffer__alloc_array(&exchange->allocator, (size_t)exchange->world + 1, sizeof *exchange->hosts, err);
    if (exchange->hosts == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (uint32_t i = 0; i < exchange->world; i++) {
        exchange->hosts[i].plan = plans[i];
    }
    coffer_status status = exchange_join(exchange, err);
    if (status == COFFER_OK) {
        status = exchange_cut(exchange, memory, err);
    }
    if (status == COFFER_OK) {
        status = exchange_distribute(exchange, memory, err);
    }
    if (status == COFFER_OK) {
        exchange_number(exchange, memory);
    }
    return status;
}

coffer_status coffer_exchange_new(coffer_exchange **exchange, const coffer_plan *const *plans, uint32_t world,
                                  const coffer_exchange_options *options, coffer_error *err)
{
    coffer_exchange_options how;
    coffer_status status = exchange == NULL ? COFFER_ERR_ARGUMENT : exchange_check(plans, world, err);
    if (exchange == NULL) {
        return coffer__fail(err, status, "coffer_exchange_new was called without a place for the exchange");
    }
    *exchange = NULL;
    if (status == COFFER_OK) {
        status = coffer__options_copy(&how, sizeof how, options, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    const coffer_allocator *allocator = how.allocator == NULL ? coffer_libc_allocator() : how.allocator;
    coffer_exchange *made = coffer__alloc_zeroed(allocator, sizeof *made);
    if (made == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for an exchange");
    }
    made->allocator = *allocator;
    made->world = world;
    status = exchange_make(made, plans, how.memory == 0 ? EXCHANGE_MEMORY : how.memory, err);
    if (status != COFFER_OK) {
        coffer_exchange_free(made);
        return status;
    }
    *exchange = made;
    return COFFER_OK;
}

void coffer_exchange_free(coffer_exchange *exchange)
{
    if (exchange == NULL) {
        return;
    }
    const coffer_allocator allocator = exchange->allocator;
    coffer_plan *joined = &exchange->joined;
    coffer__free_array(&allocator, exchange->hosts, (size_t)exchange->world + 1, sizeof *exchange->hosts);
    coffer__free_array(&allocator, joined->items, joined->item_capacity, sizeof *joined->items);
    coffer__free_array(&allocator, joined->copy_ops, joined->op_capacity, sizeof *joined->copy_ops);
    coffer__free(&allocator, exchange->parts, exchange->part_capacity * sizeof *exchange->parts);
    coffer__free(&allocator, exchange->spans, exchange->span_capacity * sizeof *exchange->spans);
    coffer__free_array(&allocator, exchange->order, exchange->chunk_count, sizeof *exchange->order);
    coffer__free_array(&allocator, exchange->readings, (size_t)exchange->rounds * exchange->world + 1,
                       sizeof *exchange->readings);
    coffer__free(&allocator, exchange->chunks, exchange->chunk_capacity * sizeof *exchange->chunks);
    coffer__free(&allocator, exchange, sizeof *exchange);
}

/* ---- looking at one ---------------------------------------------------------------------------------------------- */

const uint32_t *coffer__exchange_reads(const coffer_exchange *exchange, uint64_t round, uint32_t host, size_t *count)
{
    const size_t *reading = &exchange->readings[round * exchange->world + host];
    *count = reading[1] - reading[0];
    return &exchange->order[reading[0]];
}

uint64_t coffer_exchange_rounds(const coffer_exchange *exchange)
{
    return exchange == NULL ? 0 : exchange->rounds;
}

size_t coffer_exchange_count(const coffer_exchange *exchange)
{
    return exchange == NULL ? 0 : exchange->chunk_count;
}

bool coffer_exchange_at(const coffer_exchange *exchange, size_t chunk, coffer_exchange_chunk *out)
{
    if (exchange == NULL || out == NULL || chunk >= exchange->chunk_count) {
        return false;
    }
    const coffer__host_chunk *found = &exchange->chunks[exchange->order[chunk]];
    *out = (coffer_exchange_chunk){ .host = found->host,
                                    .round = found->round,
                                    .shard = found->shard,
                                    .begin = found->hull.begin,
                                    .end = found->hull.end };
    for (size_t i = 0; i < found->span_count; i++) {
        const coffer__file_span *span = &exchange->spans[found->first_span + i];
        out->read += span->end - span->begin;
    }
    return true;
}

/* Bytes of a copy op within a span: the strided copies know. */
uint64_t coffer__exchange_part_size(const coffer_exchange *exchange, const coffer__exchange_part *part)
{
    coffer__region_walk copies;
    coffer__strided_copy copy;
    uint64_t size = 0;
    coffer__region_walk_begin(&copies, &exchange->joined.copy_ops[part->op].region, 0, part->within);
    while (coffer__region_walk_next(&copies, &copy)) {
        size += copy.width * copy.runs;
    }
    return size;
}

uint64_t coffer_exchange_size(const coffer_exchange *exchange, uint64_t round, uint32_t from, uint32_t to)
{
    size_t count = 0;
    uint64_t size = 0;
    if (exchange == NULL || round >= exchange->rounds || from >= exchange->world || to >= exchange->world) {
        return 0;
    }
    const uint32_t *reading = coffer__exchange_reads(exchange, round, from, &count);
    for (size_t i = 0; i < count; i++) {
        const coffer__host_chunk *chunk = &exchange->chunks[reading[i]];
        for (size_t k = 0; k < chunk->part_count; k++) {
            const coffer__exchange_part *part = &exchange->parts[chunk->first_part + k];
            size += part->host == to ? coffer__exchange_part_size(exchange, part) : 0;
        }
    }
    return size;
}
