/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule of an exchange: the plans of all hosts as one, cut into pieces, and who reads which of them when. */
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
/* Modulo which addresses agree with offsets, so that a lane can be read past the page cache. */
#define EXCHANGE_PAGE 4096u
/* How many pieces of a small model a host reads at least, if they are not below a page. */
#define EXCHANGE_PIECES 4u

/* ---- the plans as one -------------------------------------------------------------------------------------------- */

static void exchange_join_one(coffer_exchange *exchange, const coffer_plan *plan)
{
    coffer_plan *joined = &exchange->joined;
    for (size_t i = 0; i < plan->item_count; i++) {
        coffer__load_item *item = &joined->items[joined->item_count + i];
        *item = plan->items[i];
        item->first_row += (uint32_t)joined->row_count;
    }
    for (size_t i = 0; i < plan->row_count; i++) {
        coffer__load_row *row = &joined->rows[joined->row_count + i];
        *row = plan->rows[i];
        row->item += (uint32_t)joined->item_count;
    }
    joined->item_count += plan->item_count;
    joined->row_count += plan->row_count;
}

/* Items and rows have numbers of 32 bits, in a plan and here. */
static coffer_status exchange_join(coffer_exchange *exchange, coffer_error *err)
{
    size_t items = 0;
    size_t rows = 0;
    coffer_plan *joined = &exchange->joined;
    for (uint32_t i = 0; i < exchange->world; i++) {
        items += exchange->hosts[i].plan->item_count;
        rows += exchange->hosts[i].plan->row_count;
        if (items > INT32_MAX || rows > INT32_MAX) {
            return coffer__fail(err, COFFER_ERR_MEMORY, "the plans of %u hosts have too many items for one exchange",
                                (uint64_t)exchange->world);
        }
    }
    joined->allocator = exchange->allocator;
    joined->model = exchange->hosts[0].plan->model;
    joined->items = coffer__alloc_array(&exchange->allocator, items, sizeof *joined->items, err);
    joined->item_capacity = items;
    joined->rows =
        joined->items == NULL ? NULL : coffer__alloc_array(&exchange->allocator, rows, sizeof *joined->rows, err);
    joined->row_capacity = rows;
    if (joined->rows == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (uint32_t i = 0; i < exchange->world; i++) {
        exchange_join_one(exchange, exchange->hosts[i].plan);
        exchange->hosts[i + 1].first_item = (uint32_t)joined->item_count;
        exchange->hosts[i + 1].first_row = (uint32_t)joined->row_count;
    }
    return COFFER_OK;
}

/* Hosts without rows have the same beginning as the next one: the last of these has the row. */
static uint32_t exchange_host_of(const coffer_exchange *exchange, uint32_t row)
{
    uint32_t low = 0;
    uint32_t high = exchange->world;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (exchange->hosts[middle].first_row <= row) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

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
        parts[exchange->part_count++] =
            (coffer__exchange_part){ .row = chunk->parts[i].row,
                                     .host = exchange_host_of(exchange, chunk->parts[i].row),
                                     .within = chunk->parts[i].within };
    }
    return COFFER_OK;
}

static coffer_status exchange_add_piece(coffer_exchange *exchange, const coffer__chunk *chunk, coffer_error *err)
{
    coffer__exchange_chunk *pieces = coffer__grow_array(&exchange->allocator, exchange->pieces, exchange->piece_count,
                                                        &exchange->piece_capacity, sizeof *pieces, err);
    if (pieces == NULL) {
        return COFFER_ERR_MEMORY;
    }
    exchange->pieces = pieces;
    pieces[exchange->piece_count++] =
        (coffer__exchange_chunk){ .shard = (uint32_t)chunk->shard,
                                  .hull = { chunk->spans[0].begin, chunk->spans[chunk->span_count - 1].end },
                                  .first_span = exchange->span_count,
                                  .span_count = chunk->span_count,
                                  .first_part = exchange->part_count,
                                  .part_count = chunk->part_count };
    const coffer_status status = exchange_add_spans(exchange, chunk, err);
    return status == COFFER_OK ? exchange_add_parts(exchange, chunk, err) : status;
}

/* Pieces that are small enough for a host's part of the memory, and of which it reads several: so all hosts read about the
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
    const uint64_t share = size / EXCHANGE_PIECES < memory ? size / EXCHANGE_PIECES : memory;
    while (cell > EXCHANGE_PAGE && cell > share / exchange->world) {
        cell /= 2;
    }
    return cell;
}

/* Which gaps are read with what lies around them depends on the source, which may be another one on each host: a URL
   here, a file there. The pieces have to be the same, so here all sources are near. */
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
            status = exchange_add_piece(exchange, &chunk, err);
        }
    }
    coffer__chunk_free(&chunk, &exchange->allocator);
    coffer__schedule_free(&schedule);
    return status;
}

/* ---- who reads what ---------------------------------------------------------------------------------------------- */

/* The host that alone wants a piece; the number of hosts when several do. */
static uint32_t exchange_only_host(const coffer_exchange *exchange, const coffer__exchange_chunk *piece)
{
    const coffer__exchange_part *parts = &exchange->parts[piece->first_part];
    for (size_t i = 1; i < piece->part_count; i++) {
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

/* A piece that one host alone wants, it reads: that saves the way. Then the others go to whoever has the least, so that
   all read for about as long. */
static void exchange_assign(coffer_exchange *exchange, uint64_t *loads)
{
    for (int shared = 0; shared < 2; shared++) {
        for (size_t i = 0; i < exchange->piece_count; i++) {
            coffer__exchange_chunk *piece = &exchange->pieces[i];
            const uint32_t only = exchange_only_host(exchange, piece);
            if ((only == exchange->world) == (shared == 1)) {
                piece->host = only < exchange->world ? only : exchange_least(loads, exchange->world);
                loads[piece->host] += piece->hull.end - piece->hull.begin;
            }
        }
    }
}

/* Each host takes its pieces in the order of the files, in each round as many as its lane holds, and at least one. */
static void exchange_rounds(coffer_exchange *exchange, uint64_t limit, uint64_t *used, uint64_t *rounds)
{
    for (size_t i = 0; i < exchange->piece_count; i++) {
        coffer__exchange_chunk *piece = &exchange->pieces[i];
        const uint64_t lead = piece->hull.begin % EXCHANGE_PAGE;
        uint64_t *used_here = &used[piece->host];
        uint64_t at = (*used_here + EXCHANGE_PAGE - 1) / EXCHANGE_PAGE * EXCHANGE_PAGE + lead;
        uint64_t end = at + piece->hull.end - piece->hull.begin;
        if (*used_here > 0 && end > limit) {
            rounds[piece->host]++;
            at = lead;
            end = at + piece->hull.end - piece->hull.begin;
        }
        *used_here = end;
        piece->at = at;
        piece->round = rounds[piece->host];
        exchange->rounds = piece->round >= exchange->rounds ? piece->round + 1 : exchange->rounds;
        exchange->lane_size = end > exchange->lane_size ? end : exchange->lane_size;
    }
}

static bool exchange_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer__exchange_chunk *pieces = ctx;
    return pieces[a].round != pieces[b].round ? pieces[a].round < pieces[b].round : pieces[a].host < pieces[b].host;
}

static coffer_status exchange_sort(coffer_exchange *exchange, coffer_error *err)
{
    const coffer_allocator *allocator = &exchange->allocator;
    exchange->order = coffer__alloc_array(allocator, exchange->piece_count, sizeof *exchange->order, err);
    exchange->lanes = exchange->order == NULL
                          ? NULL
                          : coffer__alloc_array(allocator, (size_t)exchange->rounds * exchange->world + 1,
                                                sizeof *exchange->lanes, err);
    if (exchange->lanes == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < exchange->piece_count; i++) {
        const coffer__exchange_chunk *piece = &exchange->pieces[i];
        exchange->order[i] = (uint32_t)i;
        exchange->lanes[piece->round * exchange->world + piece->host + 1]++;
    }
    coffer__sort(exchange->order, exchange->piece_count, exchange_before, exchange->pieces);
    for (size_t i = 1; i <= exchange->rounds * exchange->world; i++) {
        exchange->lanes[i] += exchange->lanes[i - 1];
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

/* Only the host itself knows where its row goes, and that decides which loops are one. Here those are that are one in the
   file. */
static uint64_t exchange_fold_row(uint64_t number, const coffer__nest *nest)
{
    coffer__nest plain;
    coffer__nest_dim dims[COFFER__BOX_MAX_RANK];
    coffer__nest_begin(&plain, dims, nest->reach.begin, nest->width, 0);
    for (uint32_t i = nest->rank; i > 0; i--) {
        const coffer__nest_dim *dim = &nest->dims[i - 1];
        coffer__nest_push(&plain, dim->count, (int64_t)dim->from, (int64_t)dim->from);
    }
    coffer__nest_finish(&plain);
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
    number = exchange_fold(exchange_fold(number, item->shard), item->row_count);
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
    for (size_t i = 0; i < joined->row_count; i++) {
        number = exchange_fold_row(number, &joined->rows[i].nest);
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
    coffer__free_array(&allocator, joined->rows, joined->row_capacity, sizeof *joined->rows);
    coffer__free(&allocator, exchange->parts, exchange->part_capacity * sizeof *exchange->parts);
    coffer__free(&allocator, exchange->spans, exchange->span_capacity * sizeof *exchange->spans);
    coffer__free_array(&allocator, exchange->order, exchange->piece_count, sizeof *exchange->order);
    coffer__free_array(&allocator, exchange->lanes, (size_t)exchange->rounds * exchange->world + 1,
                       sizeof *exchange->lanes);
    coffer__free(&allocator, exchange->pieces, exchange->piece_capacity * sizeof *exchange->pieces);
    coffer__free(&allocator, exchange, sizeof *exchange);
}

/* ---- looking at one ---------------------------------------------------------------------------------------------- */

const uint32_t *coffer__exchange_lane(const coffer_exchange *exchange, uint64_t round, uint32_t host, size_t *count)
{
    const size_t *lane = &exchange->lanes[round * exchange->world + host];
    *count = lane[1] - lane[0];
    return &exchange->order[lane[0]];
}

uint64_t coffer_exchange_rounds(const coffer_exchange *exchange)
{
    return exchange == NULL ? 0 : exchange->rounds;
}

size_t coffer_exchange_count(const coffer_exchange *exchange)
{
    return exchange == NULL ? 0 : exchange->piece_count;
}

bool coffer_exchange_at(const coffer_exchange *exchange, size_t piece, coffer_exchange_piece *out)
{
    if (exchange == NULL || out == NULL || piece >= exchange->piece_count) {
        return false;
    }
    const coffer__exchange_chunk *found = &exchange->pieces[exchange->order[piece]];
    *out = (coffer_exchange_piece){ .host = found->host,
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

/* Bytes of a row within a span: the lines know. */
uint64_t coffer__exchange_part_size(const coffer_exchange *exchange, const coffer__exchange_part *part)
{
    coffer__lines lines;
    coffer__strided_copy line;
    uint64_t size = 0;
    coffer__lines_begin(&lines, &exchange->joined.rows[part->row].nest, 0, part->within);
    while (coffer__lines_next(&lines, &line)) {
        size += line.width * line.runs;
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
    const uint32_t *lane = coffer__exchange_lane(exchange, round, from, &count);
    for (size_t i = 0; i < count; i++) {
        const coffer__exchange_chunk *piece = &exchange->pieces[lane[i]];
        for (size_t k = 0; k < piece->part_count; k++) {
            const coffer__exchange_part *part = &exchange->parts[piece->first_part + k];
            size += part->host == to ? coffer__exchange_part_size(exchange, part) : 0;
        }
    }
    return size;
}
