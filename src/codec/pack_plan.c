/* SPDX-License-Identifier: Apache-2.0 */
/* Which planes are coded, and by which codes: decided by what each would cost, from counts alone. */
#include "pack.h"

#include "bytes.h"

/* A plane is coded if that saves at least a fiftieth of it: reading codes takes longer than copying. */
#define PACK_MIN_GAIN 50u
/* A segment has a code of its own if that saves at least one in 200 of its bits. */
#define PACK_OWN_SAVED 200u
#define PACK_TABLE_BITS ((uint64_t)8 * COFFER__PACKED_TABLE_SIZE)

uint64_t coffer__pack_segment_chunks(uint64_t elements)
{
    const uint64_t chunks = coffer__packed_chunk_count(elements);
    const uint64_t least = chunks / COFFER__PACK_SEGMENTS + (chunks % COFFER__PACK_SEGMENTS != 0);
    return least < COFFER__PACK_SEGMENT_CHUNKS ? COFFER__PACK_SEGMENT_CHUNKS : least;
}

size_t coffer__pack_segment_count(uint64_t elements)
{
    const uint64_t chunks = coffer__packed_chunk_count(elements);
    const uint64_t each = coffer__pack_segment_chunks(elements);
    return (size_t)(chunks / each + (chunks % each != 0));
}

void coffer__pack_count(coffer__packer *packer, coffer_dtype dtype, const uint8_t *elements, size_t count,
                        coffer__pack_counts *counts)
{
    const coffer__packed_layout layout = coffer__packed_layout_of(dtype);
    uint8_t *planes[COFFER__PLANES_MAX];
    for (unsigned plane = 0; plane < COFFER__PLANES_MAX; plane++) {
        planes[plane] = packer->planes[plane];
    }
    coffer__planes_split(&layout, elements, count, planes);
    for (unsigned plane = 0; plane < layout.element_size; plane++) {
        /* Four counters of each byte, since a byte often equals one before it, whose count is still on its way to memory. */
        memset(packer->counts, 0, sizeof packer->counts);
        size_t i = 0;
        for (; count - i >= 4; i += 4) {
            packer->counts[0][planes[plane][i]]++;
            packer->counts[1][planes[plane][i + 1]]++;
            packer->counts[2][planes[plane][i + 2]]++;
            packer->counts[3][planes[plane][i + 3]]++;
        }
        for (; i < count; i++) {
            packer->counts[0][planes[plane][i]]++;
        }
        for (size_t symbol = 0; symbol < COFFER__CODE_SYMBOLS; symbol++) {
            counts->planes[plane][symbol] += (uint64_t)packer->counts[0][symbol] + packer->counts[1][symbol] +
                                             packer->counts[2][symbol] + packer->counts[3][symbol];
        }
    }
}

/* The high halves of counted bytes. */
static void pack_high_halves(const uint64_t *bytes, uint64_t *halves)
{
    memset(halves, 0, COFFER__CODE_SYMBOLS * sizeof *halves);
    for (size_t symbol = 0; symbol < COFFER__CODE_SYMBOLS; symbol++) {
        halves[symbol >> 4] += bytes[symbol];
    }
}

static uint64_t pack_sum(const uint64_t *counts)
{
    uint64_t sum = 0;
    for (size_t symbol = 0; symbol < COFFER__CODE_SYMBOLS; symbol++) {
        sum += counts[symbol];
    }
    return sum;
}

/* Whether coding `count` symbols of `bits` bits each at the cost of `coded` bits, and of a table, saves enough. */
static bool pack_gains(uint64_t count, unsigned bits, uint64_t coded)
{
    const uint64_t raw = count * bits;
    return coded + PACK_TABLE_BITS < raw - raw / PACK_MIN_GAIN;
}

/* The cost of the best code, or that of none: symbols that are all equal cost nothing. */
static uint64_t pack_best_cost(const uint64_t *counts, uint8_t *lengths)
{
    return coffer__code_lengths(counts, lengths) ? coffer__code_cost(counts, lengths) : 0;
}

/* What a chunk's planes of one table, the top one or the others, have occurred in a segment. */
static void pack_joined(const coffer__pack_plan *plan, const coffer__pack_counts *segment, unsigned which,
                        uint64_t *counts)
{
    const unsigned planes = coffer__packed_plane_count(&plan->layout);
    memset(counts, 0, COFFER__CODE_SYMBOLS * sizeof *counts);
    if (plan->layout.nibbles) {
        if (which == 0) {
            pack_high_halves(segment->planes[0], counts);
        }
        return;
    }
    for (unsigned plane = 0; plane < planes; plane++) {
        if ((plane + 1 == planes) != (which == 0) || (plan->coded >> plane & 1) == 0) {
            continue;
        }
        for (size_t symbol = 0; symbol < COFFER__CODE_SYMBOLS; symbol++) {
            counts[symbol] += segment->planes[plane][symbol];
        }
    }
}

/* Halves, unless whole bytes save a fiftieth more: codes of halves are read three to an entry. */
static void pack_choose_halves(coffer__pack_plan *plan, const coffer__pack_counts *total)
{
    uint64_t halves[COFFER__CODE_SYMBOLS];
    uint8_t lengths[COFFER__CODE_SYMBOLS];
    const uint64_t count = pack_sum(total->planes[0]);
    const uint64_t by_bytes = pack_best_cost(total->planes[0], lengths);
    pack_high_halves(total->planes[0], halves);
    const uint64_t by_halves = 4 * count + pack_best_cost(halves, lengths);
    plan->layout.nibbles = by_bytes + 8 * count / PACK_MIN_GAIN >= by_halves && pack_gains(count, 8, by_halves);
}

static void pack_choose_planes(coffer__pack_plan *plan, const coffer__pack_counts *total)
{
    uint8_t lengths[COFFER__CODE_SYMBOLS];
    if (plan->layout.nibbles) {
        plan->coded = 2;
        return;
    }
    for (unsigned plane = 0; plane < plan->layout.element_size; plane++) {
        const uint64_t *counts = total->planes[plane];
        if (coffer__code_lengths(counts, lengths) &&
            pack_gains(pack_sum(counts), 8, coffer__code_cost(counts, lengths))) {
            plan->coded |= 1u << plane;
        }
    }
}

/* A new table with these lengths; its number. */
static uint8_t pack_add_table(coffer__pack_plan *plan, const uint8_t *lengths)
{
    memcpy(plan->lengths[plan->tables], lengths, COFFER__CODE_SYMBOLS);
    return (uint8_t)plan->tables++;
}

/* The tables of the top plane or of the others: one for the tensor, which is made when a segment first needs it. */
static void pack_choose_tables(coffer__pack_plan *plan, const coffer__pack_counts *segments,
                               const coffer__pack_counts *total, unsigned which)
{
    uint64_t counts[COFFER__CODE_SYMBOLS];
    uint8_t common[COFFER__CODE_SYMBOLS];
    uint8_t own[COFFER__CODE_SYMBOLS];
    unsigned common_table = COFFER__PACKED_TABLES;
    pack_joined(plan, total, which, counts);
    if (!coffer__code_lengths(counts, common)) {
        return;
    }
    const size_t segment_count = coffer__pack_segment_count(plan->elements);
    for (size_t segment = 0; segment < segment_count; segment++) {
        pack_joined(plan, &segments[segment], which, counts);
        const uint64_t cost = coffer__code_cost(counts, common);
        const uint64_t best = coffer__code_lengths(counts, own) ? coffer__code_cost(counts, own) : cost;
        if (cost > best && cost - best > PACK_TABLE_BITS && cost - best >= cost / PACK_OWN_SAVED) {
            plan->segment_tables[segment][which] = pack_add_table(plan, own);
            plan->estimate += best / 8;
            continue;
        }
        if (common_table == COFFER__PACKED_TABLES) {
            common_table = pack_add_table(plan, common);
        }
        plan->segment_tables[segment][which] = (uint8_t)common_table;
        plan->estimate += cost / 8;
    }
}

/* The bytes of planes that are not coded. Constant ones take next to none. */
static uint64_t pack_uncoded_size(const coffer__pack_plan *plan, const coffer__pack_counts *total)
{
    if (plan->layout.nibbles) {
        return plan->elements / 2;
    }
    uint8_t lengths[COFFER__CODE_SYMBOLS];
    uint64_t size = 0;
    for (unsigned plane = 0; plane < plan->layout.element_size; plane++) {
        const bool coded = (plan->coded >> plane & 1) != 0;
        size += !coded && coffer__code_lengths(total->planes[plane], lengths) ? plan->elements : 0;
    }
    return size;
}

void coffer__pack_decide(coffer_dtype dtype, uint64_t elements, const coffer__pack_counts *segments,
                         coffer__pack_counts *total, coffer__pack_plan *plan)
{
    const size_t segment_count = coffer__pack_segment_count(elements);
    memset(plan, 0, sizeof *plan);
    memset(total, 0, sizeof *total);
    plan->layout = coffer__packed_layout_of(dtype);
    plan->elements = elements;
    plan->segment_chunks = coffer__pack_segment_chunks(elements);
    for (size_t segment = 0; segment < segment_count; segment++) {
        for (unsigned plane = 0; plane < plan->layout.element_size; plane++) {
            for (size_t symbol = 0; symbol < COFFER__CODE_SYMBOLS; symbol++) {
                total->planes[plane][symbol] += segments[segment].planes[plane][symbol];
            }
        }
    }
    if (plan->layout.element_size == 1) {
        pack_choose_halves(plan, total);
    }
    pack_choose_planes(plan, total);
    plan->estimate = pack_uncoded_size(plan, total);
    pack_choose_tables(plan, segments, total, 0);
    pack_choose_tables(plan, segments, total, 1);
    plan->estimate += coffer__pack_index_size(plan) + coffer__packed_chunk_count(elements) * COFFER__PACKED_STREAM_HEAD;
}
