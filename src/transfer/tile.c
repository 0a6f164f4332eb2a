/* SPDX-License-Identifier: Apache-2.0 */
#include "tile.h"

#include "strided_copy.h"

/* Runs along each side of a block. With runs of 4 bytes that is 16 KiB of the source, which must
   stay in the first-level cache while the block is copied, and as much of the result. */
#define TILE_BLOCK 64u

static uint64_t tile_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- the source's order ------------------------------------------------------------------------------------------ */

/* Orders the dimensions by how far apart neighbouring indices are in the source, closest first, and
   leaves those out whose stride is 0, because all their indices are the same bytes. Returns how
   many are left. There are at most 64 and usually 2 or 3, so insertion sort is the right one. */
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

/* The innermost dimension is what runs would be read along. If another dimension has its neighbours
   closer together, and close enough to be read at once, then reading along that one needs fewer
   requests. */
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

/*
 * Builds lines from the inside out. `lines->size` is the contiguous range of the source that the
 * dimensions seen so far take, gaps included. As long as the next dimension's neighbours overlap
 * that range or are within a gap of it, the range grows to cover all of its indices. The first
 * dimension that lies farther apart, and all after it, make separate lines: each index is one
 * request, and in memory its lines follow those that are there already.
 *
 * For a negative stride the lowest byte belongs to the last index. `low` moves down by the
 * dimension's reach, and `first`, the place of index 0 in memory, moves up by as much.
 */
void coffer__tile_lines_plan(const coffer__tile *tile, coffer__tile_lines *lines)
{
    size_t order[COFFER__BOX_MAX_RANK];
    const size_t count = tile_order(tile->strides, tile->rank, order);
    bool together = true;
    *lines = (coffer__tile_lines){ .low = tile->start, .size = tile->run_size, .count = 1 };
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

/* The number is split into digits whose bases are the counts, the dimension with the closest lines
   first, so that lines come in the same order as coffer__tile_lines_plan placed them in memory. */
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

/* The product of tiles along each dimension, each rounded up. It is at most the box's run count,
   which fits in 64 bits. */
static void tiling_count(coffer__tiling *tiling)
{
    tiling->count = 1;
    for (size_t i = 0; i < tiling->box->rank; i++) {
        tiling->count *= (tiling->box->counts[i] - 1) / tiling->extents[i] + 1;
    }
}

/* Splits the number into one index per dimension, the innermost first, and adds up where the tile
   begins in the source and in the result. `place` is the distance in the result between neighbours
   of the current dimension: the result is dense, so it grows by the box's counts, not by the
   tile's. */
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

/* Dimensions with one index are left out, as every box has at least two along each dimension.
   Pushing may merge dimensions that continue each other, so the box may have fewer than the tile;
   its runs are in the same order. */
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

/* From the innermost dimension outwards, the tile's result equals the box's as long as the tile has
   all of a dimension. The first one that is cut still contributes its own indices, which are
   contiguous; what is outside of it is not. */
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

/* Bytes that the first tile takes in memory. Tile 0 has the full extents, so no tile takes more. */
static uint64_t tiling_memory(const coffer__tiling *tiling)
{
    coffer__tile tile;
    coffer__tile_lines lines;
    coffer__tile_at(tiling, 0, &tile);
    coffer__tile_lines_plan(&tile, &lines);
    return lines.size * lines.count;
}

/* Bytes from the first to the last that a box takes in the source. */
static uint64_t tiling_span(const coffer__box *box)
{
    uint64_t span = box->run_size;
    for (size_t i = 0; i < box->rank; i++) {
        span += (box->counts[i] - 1) * coffer__box_distance(box->strides[i]);
    }
    return span;
}

/* Gives tiles enough runs along the innermost dimensions that `worth` bytes are contiguous in the
   result. Outer dimensions are extended only when the inner ones are whole, since otherwise nothing
   more would become contiguous. */
static void tiling_extend_result(coffer__tiling *tiling, uint64_t worth)
{
    uint64_t size = tiling->box->run_size;
    for (size_t i = tiling->box->rank; i > 0 && size < worth; i--) {
        const size_t d = i - 1;
        tiling->extents[d] = tile_min(tiling->box->counts[d], (worth - 1) / size + 1);
        size *= tiling->extents[d];
    }
}

/* The same for the source: extends the dimensions with the closest neighbours until a line has
   `worth` bytes. It stops at the first gap that is too long to be read, because beyond it each
   index is a request of its own anyway. An extent that the result already made longer stays. */
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

/* Halves the longest side until a tile fits in memory. That keeps what is contiguous in the source
   and in the result in balance. A tile of a single run may still be too large; the caller has to
   live with that. */
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

/*
 * One tile is best where it can be: the source is read once and in order. It pays if the span fits
 * in memory, at least a quarter of the bytes that are read are wanted, and the result is at most
 * four times as large as a tile. The last condition is for strides of 0, with which a tiny span has
 * a huge result that one worker would copy alone. With such a tile every gap is read (UINT64_MAX).
 *
 * Otherwise tiles begin as single runs and grow in both directions.
 */
void coffer__tiling_plan(coffer__tiling *tiling, const coffer__box *box, const coffer__tile_limits *limits)
{
    const uint64_t span = tiling_span(box);
    tiling->box = box;
    const uint64_t size = box->run_size * box->run_count;
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

/* Bands are contiguous in the result and ascend, as output targets need that take their places in order.
   So all dimensions inside the cut one are whole, and all outside of it have one index. `size`
   becomes UINT64_MAX after the cut, so that nothing more fits. */
void coffer__tiling_bands(coffer__tiling *tiling, const coffer__box *box, uint64_t most)
{
    uint64_t size = box->run_size;
    *tiling = (coffer__tiling){ .box = box };
    for (size_t i = box->rank; i > 0; i--) {
        const uint64_t fitting = size > 0 && size <= most ? most / size : 1;
        const uint64_t runs = tile_min(box->counts[i - 1], fitting);
        tiling->extents[i - 1] = runs;
        size = runs < box->counts[i - 1] ? UINT64_MAX : size * runs;
    }
    tiling_count(tiling);
}

/* ---- turning ----------------------------------------------------------------------------------------------------- */

/* The second dimension of a block, besides the innermost one: that whose runs are closest together
   where they come from. Dimensions with one index or a stride of 0 are no candidates, unless there
   is nothing else. Tiles come from boxes that are turned, which have at least two dimensions. */
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

/* Transposes one plane of the tile, block by block. Within a block, a op of the result is gathered
   from as many cache lines as it has runs. The next op needs the bytes next to those in the same
   lines, which are still in the cache because a block is small. Without blocks, each line would be
   fetched from memory again for every op. `to` is an address. */
static void tile_turn_plane(const coffer__tile *tile, size_t across, uint64_t to, const uint8_t *from,
                            const int64_t *strides)
{
    const size_t last = tile->rank - 1;
    coffer__strided_copy copy = { .from_step = strides[last],
                                  .to_step = (int64_t)tile->run_size,
                                  .width = tile->run_size };
    for (uint64_t j = 0; j < tile->counts[across]; j += TILE_BLOCK) {
        const uint64_t ops = tile_min(TILE_BLOCK, tile->counts[across] - j);
        for (uint64_t i = 0; i < tile->counts[last]; i += TILE_BLOCK) {
            copy.runs = tile_min(TILE_BLOCK, tile->counts[last] - i);
            for (uint64_t op = j; op < j + ops; op++) {
                const ptrdiff_t at =
                    (ptrdiff_t)op * (ptrdiff_t)strides[across] + (ptrdiff_t)i * (ptrdiff_t)strides[last];
                copy.to = to + op * tile->places[across] + i * tile->places[last];
                coffer__copy_strided(&copy, from + at);
            }
        }
    }
}

/* Walks over all planes: the dimensions other than `across` and the last count like the digits of a
   number. A dimension that overflows returns to index 0, and the pointers with it, before the next
   one is incremented, so both pointers always belong to the index. */
void coffer__tile_turn(const coffer__tile *tile, uint8_t *to, const uint8_t *from, const int64_t *strides)
{
    const size_t across = tile_across(tile, strides);
    uint64_t index[COFFER__BOX_MAX_RANK] = { 0 };
    uint8_t *place = to + (size_t)tile->to;
    for (;;) {
        tile_turn_plane(tile, across, (uintptr_t)place, from, strides);
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
