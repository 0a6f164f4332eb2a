/* SPDX-License-Identifier: Apache-2.0 */
#include "tile.h"

#include "gather.h"

/* Runs along each side of a block. Of 4 bytes each that are 16 KiB on both sides together, which the first cache holds. */
#define TILE_BLOCK 64u

static uint64_t tile_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- the source's order ------------------------------------------------------------------------------------------ */

/* Puts the numbers of the dimensions that lead anywhere in order, those whose indices lie closest together first; returns how many
   they are. There are few: a sort by insertion. */
static size_t tile_order(const int64_t *strides, size_t rank, size_t *order)
{
    size_t count = 0;
    for (size_t i = 0; i < rank; i++) {
        const uint64_t distance = coffer__box_distance(strides[i]);
        size_t at = count;
        if (distance == 0) {
            continue;
        }
        for (; at > 0 && coffer__box_distance(strides[order[at - 1]]) > distance; at--) {
            order[at] = order[at - 1];
        }
        order[at] = i;
        count++;
    }
    return count;
}

bool coffer__box_is_turned(const coffer__box *box, uint64_t gap)
{
    if (box->rank < 2) {
        return false;
    }
    const uint64_t last = coffer__box_distance(box->strides[box->rank - 1]);
    for (size_t i = 0; i + 1 < box->rank; i++) {
        const uint64_t distance = coffer__box_distance(box->strides[i]);
        if (distance > 0 && distance < last && (distance <= box->run_size || distance - box->run_size <= gap)) {
            return true;
        }
    }
    return false;
}

void coffer__tile_lines_plan(const coffer__tile *tile, coffer__tile_lines *lines)
{
    size_t order[COFFER__BOX_MAX_RANK];
    const size_t count = tile_order(tile->strides, tile->rank, order);
    bool together = true;
    *lines = (coffer__tile_lines){ .low = tile->start, .size = tile->run_size, .count = 1 };
    /* Dimensions whose neighbours lie close enough grow the line. From the first one on that does not, each index is a line. */
    for (size_t i = 0; i < count; i++) {
        const size_t d = order[i];
        const uint64_t distance = coffer__box_distance(tile->strides[d]);
        uint64_t in_memory = distance;
        if (tile->counts[d] == 1) {
            continue;
        }
        together = together && (distance <= lines->size || distance - lines->size <= tile->gap);
        if (together) {
            lines->size += (tile->counts[d] - 1) * distance;
        } else {
            in_memory = lines->size * lines->count;
            lines->counts[lines->rank] = tile->counts[d];
            lines->distances[lines->rank++] = distance;
            lines->count *= tile->counts[d];
        }
        lines->strides[d] = tile->strides[d] < 0 ? -(int64_t)in_memory : (int64_t)in_memory;
        if (tile->strides[d] < 0) {
            lines->low -= (tile->counts[d] - 1) * distance;
            lines->first += (tile->counts[d] - 1) * in_memory;
        }
    }
}

uint64_t coffer__tile_line(const coffer__tile_lines *lines, uint64_t k)
{
    uint64_t at = lines->low;
    for (size_t i = 0; i < lines->rank; i++) {
        at += k % lines->counts[i] * lines->distances[i];
        k /= lines->counts[i];
    }
    return at;
}

/* ---- cutting ----------------------------------------------------------------------------------------------------- */

static void tiling_count(coffer__tiling *tiling)
{
    tiling->count = 1;
    for (size_t i = 0; i < tiling->box->rank; i++) {
        tiling->count *= (tiling->box->counts[i] - 1) / tiling->extents[i] + 1;
    }
}

void coffer__tile_at(const coffer__tiling *tiling, uint64_t k, coffer__tile *tile)
{
    const coffer__box *box = tiling->box;
    uint64_t place = box->run_size;
    tile->gap = tiling->gap;
    tile->run_size = box->run_size;
    tile->rank = box->rank;
    tile->start = box->start;
    tile->to = 0;
    tile->size = box->run_size;
    for (size_t i = box->rank; i > 0; i--) {
        const size_t d = i - 1;
        const uint64_t tiles = (box->counts[d] - 1) / tiling->extents[d] + 1;
        const uint64_t first = k % tiles * tiling->extents[d];
        k /= tiles;
        tile->counts[d] = tile_min(tiling->extents[d], box->counts[d] - first);
        tile->strides[d] = box->strides[d];
        tile->places[d] = place;
        /* Where a stride is negative this wraps around, and sums up to the right place. */
        tile->start += first * (uint64_t)box->strides[d];
        tile->to += first * place;
        tile->size *= tile->counts[d];
        place *= box->counts[d];
    }
}

void coffer__tile_box(const coffer__tile *tile, coffer__box *box)
{
    coffer__box_one_run(box, tile->run_size);
    box->start = tile->start;
    for (size_t i = tile->rank; i > 0; i--) {
        if (tile->counts[i - 1] > 1) {
            coffer__box_push(box, tile->counts[i - 1], tile->strides[i - 1]);
        }
    }
    coffer__box_reverse(box);
}

uint64_t coffer__tile_place(const coffer__tile *tile, uint64_t k)
{
    uint64_t at = tile->to;
    for (size_t i = tile->rank; i > 0; i--) {
        at += k % tile->counts[i - 1] * tile->places[i - 1];
        k /= tile->counts[i - 1];
    }
    return at;
}

uint64_t coffer__tile_stretch(const coffer__tile *tile, const coffer__box *box)
{
    uint64_t size = tile->run_size;
    for (size_t i = tile->rank; i > 0; i--) {
        size *= tile->counts[i - 1];
        if (tile->counts[i - 1] < box->counts[i - 1]) {
            return size;
        }
    }
    return size;
}

/* Bytes that the first tile takes in memory, which is as large as any. */
static uint64_t tiling_memory(const coffer__tiling *tiling)
{
    coffer__tile tile;
    coffer__tile_lines lines;
    coffer__tile_at(tiling, 0, &tile);
    coffer__tile_lines_plan(&tile, &lines);
    return lines.size * lines.count;
}

/* Bytes from the first to the last that a box takes. */
static uint64_t tiling_span(const coffer__box *box)
{
    uint64_t span = box->run_size;
    for (size_t i = 0; i < box->rank; i++) {
        span += (box->counts[i] - 1) * coffer__box_distance(box->strides[i]);
    }
    return span;
}

/* As many runs along the result's fastest dimensions as are worth a request. */
static void tiling_extend_result(coffer__tiling *tiling, uint64_t worth)
{
    uint64_t size = tiling->box->run_size;
    for (size_t i = tiling->box->rank; i > 0 && size < worth; i--) {
        const size_t d = i - 1;
        tiling->extents[d] = tile_min(tiling->box->counts[d], (worth - 1) / size + 1);
        size *= tiling->extents[d];
    }
}

/* The same along those of the source, as far as gaps are worth reading through. */
static void tiling_extend_source(coffer__tiling *tiling, uint64_t worth)
{
    size_t order[COFFER__BOX_MAX_RANK];
    const coffer__box *box = tiling->box;
    const size_t count = tile_order(box->strides, box->rank, order);
    uint64_t size = box->run_size;
    for (size_t i = 0; i < count && size < worth; i++) {
        const size_t d = order[i];
        const uint64_t distance = coffer__box_distance(box->strides[d]);
        if (distance > size && distance - size > tiling->gap) {
            return;
        }
        const uint64_t runs = tile_min(box->counts[d], (worth - size - 1) / distance + 2);
        tiling->extents[d] = runs > tiling->extents[d] ? runs : tiling->extents[d];
        size += (tiling->extents[d] - 1) * distance;
    }
}

/* Makes tiles smaller by halves, along their longest side, until they fit. */
static void tiling_shrink(coffer__tiling *tiling, uint64_t most)
{
    tiling->memory = tiling_memory(tiling);
    while (tiling->memory > most) {
        size_t longest = 0;
        for (size_t i = 1; i < tiling->box->rank; i++) {
            longest = tiling->extents[i] > tiling->extents[longest] ? i : longest;
        }
        if (tiling->extents[longest] == 1) {
            return;
        }
        tiling->extents[longest] = (tiling->extents[longest] + 1) / 2;
        tiling->memory = tiling_memory(tiling);
    }
}

void coffer__tiling_plan(coffer__tiling *tiling, const coffer__box *box, const coffer__tile_limits *limits)
{
    const uint64_t span = tiling_span(box);
    tiling->box = box;
    const uint64_t size = box->run_size * box->run_count;
    /* Of what is read at once every fourth byte is wanted, at least, and none of them very often. */
    if (span <= limits->memory && span / 4 <= size && size / 4 <= limits->memory) {
        tiling->gap = UINT64_MAX;
        tiling->memory = span;
        for (size_t i = 0; i < box->rank; i++) {
            tiling->extents[i] = box->counts[i];
        }
    } else {
        tiling->gap = limits->gap;
        for (size_t i = 0; i < box->rank; i++) {
            tiling->extents[i] = 1;
        }
        tiling_extend_result(tiling, limits->write);
        tiling_extend_source(tiling, limits->read);
        tiling_shrink(tiling, limits->memory);
    }
    tiling_count(tiling);
}

void coffer__tiling_bands(coffer__tiling *tiling, const coffer__box *box, uint64_t most)
{
    uint64_t size = box->run_size;
    *tiling = (coffer__tiling){ .box = box };
    for (size_t i = box->rank; i > 0; i--) {
        const uint64_t fitting = size > 0 && size <= most ? most / size : 1;
        const uint64_t runs = tile_min(box->counts[i - 1], fitting);
        tiling->extents[i - 1] = runs;
        /* Once a dimension is cut, what lies outside of it goes one by one. */
        size = runs < box->counts[i - 1] ? UINT64_MAX : size * runs;
    }
    tiling_count(tiling);
}

/* ---- turning ----------------------------------------------------------------------------------------------------- */

/* The dimension besides the last along which a block reaches: that whose runs lie closest together where they come from. */
static size_t tile_across(const coffer__tile *tile, const int64_t *strides)
{
    size_t best = 0;
    for (size_t i = 0; i + 1 < tile->rank; i++) {
        const bool here = tile->counts[i] > 1 && strides[i] != 0;
        const bool closer = coffer__box_distance(strides[i]) < coffer__box_distance(strides[best]);
        if (here && (closer || tile->counts[best] == 1 || strides[best] == 0)) {
            best = i;
        }
    }
    return best;
}

/* Two dimensions of a tile, block by block: a line of each row of a block follows the other, so that what was fetched from memory for
   one serves the next ones. */
static void tile_turn_plane(const coffer__tile *tile, size_t across, uint8_t *to, const uint8_t *from,
                            const int64_t *strides)
{
    const size_t last = tile->rank - 1;
    for (uint64_t j = 0; j < tile->counts[across]; j += TILE_BLOCK) {
        const uint64_t rows = tile_min(TILE_BLOCK, tile->counts[across] - j);
        for (uint64_t i = 0; i < tile->counts[last]; i += TILE_BLOCK) {
            const uint64_t runs = tile_min(TILE_BLOCK, tile->counts[last] - i);
            for (uint64_t row = j; row < j + rows; row++) {
                const ptrdiff_t at =
                    (ptrdiff_t)row * (ptrdiff_t)strides[across] + (ptrdiff_t)i * (ptrdiff_t)strides[last];
                uint8_t *place = to + (size_t)(row * tile->places[across] + i * tile->places[last]);
                coffer__gather(place, from + at, (size_t)tile->run_size, strides[last], runs);
            }
        }
    }
}

void coffer__tile_turn(const coffer__tile *tile, uint8_t *to, const uint8_t *from, const int64_t *strides)
{
    const size_t across = tile_across(tile, strides);
    uint64_t index[COFFER__BOX_MAX_RANK] = { 0 };
    uint8_t *place = to + (size_t)tile->to;
    for (;;) {
        tile_turn_plane(tile, across, place, from, strides);
        /* On to the next plane: the other dimensions count like the digits of a number. */
        size_t d = tile->rank - 1;
        for (; d > 0; d--) {
            const size_t i = d - 1;
            if (i == across) {
                continue;
            }
            if (index[i] + 1 < tile->counts[i]) {
                index[i]++;
                from += (ptrdiff_t)strides[i];
                place += (size_t)tile->places[i];
                break;
            }
            from -= (ptrdiff_t)index[i] * (ptrdiff_t)strides[i];
            place -= (size_t)(index[i] * tile->places[i]);
            index[i] = 0;
        }
        if (d == 0) {
            return;
        }
    }
}
