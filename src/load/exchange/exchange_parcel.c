/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of chunks in messages. A message has what the receiver's copy ops take of the sender's chunks: chunk after
 * chunk, copy op after copy op, each in the order of the file, without anything between them. That order depends on
 * which bytes a copy op takes, and not on where they go, so both sides come to it by themselves.
 */
#include "exchange.h"

/* Goes over what one host takes of the chunks of another in a round. */
typedef struct parcel_walk {
    const coffer_exchange *exchange;
    uint32_t to;
    const uint32_t *chunks;
    size_t count;
    size_t chunk; /* the current one's index in `chunks`, … */
    size_t part;  /* … and the part of it that is next */
} parcel_walk;

static parcel_walk parcel_begin(const coffer_exchange *exchange, uint64_t round, uint32_t from, uint32_t to)
{
    parcel_walk walk = { .exchange = exchange, .to = to };
    walk.chunks = coffer__exchange_reads(exchange, round, from, &walk.count);
    return walk;
}

/* The next part, and the chunk that it is of; NULL when there is none left. */
static const coffer__exchange_part *parcel_next(parcel_walk *walk, const coffer__host_chunk **chunk)
{
    for (; walk->chunk < walk->count; walk->chunk++, walk->part = 0) {
        *chunk = &walk->exchange->chunks[walk->chunks[walk->chunk]];
        while (walk->part < (*chunk)->part_count) {
            const coffer__exchange_part *part = &walk->exchange->parts[(*chunk)->first_part + walk->part++];
            if (part->host == walk->to) {
                return part;
            }
        }
    }
    return NULL;
}

static const coffer__copy_op *parcel_op(const coffer_exchange *exchange, const coffer__exchange_part *part)
{
    return &exchange->joined.copy_ops[part->op];
}

static uint64_t parcel_address(const coffer_exchange *exchange, const coffer__exchange_part *part,
                               const coffer_loaded *loaded)
{
    return loaded[parcel_op(exchange, part)->item - exchange->hosts[part->host].first_item].address;
}

void coffer__parcel_pack(const coffer__round_read *reading, uint64_t round, uint32_t host, uint32_t to,
                         uint64_t address)
{
    const coffer__host_chunk *chunk = NULL;
    const coffer__exchange_part *part = NULL;
    parcel_walk walk = parcel_begin(reading->exchange, round, host, to);
    while ((part = parcel_next(&walk, &chunk)) != NULL) {
        coffer__region_walk copies;
        coffer__strided_copy copy;
        coffer__region_walk_begin(&copies, &parcel_op(reading->exchange, part)->region, 0, part->within);
        while (coffer__region_walk_next(&copies, &copy)) {
            copy.to = address;
            copy.to_step = (int64_t)copy.width;
            coffer__copy_strided(&copy, reading->bytes + chunk->at + (copy.from - chunk->hull.begin));
            address += copy.width * copy.runs;
        }
    }
}

void coffer__parcel_unpack(const coffer_exchange *exchange, uint64_t round, uint32_t from, uint32_t host,
                           const uint8_t *message, const coffer_loaded *loaded)
{
    const coffer__host_chunk *chunk = NULL;
    const coffer__exchange_part *part = NULL;
    parcel_walk walk = parcel_begin(exchange, round, from, host);
    while ((part = parcel_next(&walk, &chunk)) != NULL) {
        coffer__region_walk copies;
        coffer__strided_copy copy;
        coffer__region_walk_begin(&copies, &parcel_op(exchange, part)->region, parcel_address(exchange, part, loaded),
                                  part->within);
        while (coffer__region_walk_next(&copies, &copy)) {
            copy.from_step = (int64_t)copy.width;
            coffer__copy_strided(&copy, message);
            message += copy.width * copy.runs;
        }
    }
}

void coffer__parcel_own(const coffer__round_read *reading, uint64_t round, uint32_t host, const coffer_loaded *loaded)
{
    const coffer__host_chunk *chunk = NULL;
    const coffer__exchange_part *part = NULL;
    parcel_walk walk = parcel_begin(reading->exchange, round, host, host);
    while ((part = parcel_next(&walk, &chunk)) != NULL) {
        coffer__region_walk copies;
        coffer__strided_copy copy;
        coffer__region_walk_begin(&copies, &parcel_op(reading->exchange, part)->region,
                                  parcel_address(reading->exchange, part, loaded), part->within);
        while (coffer__region_walk_next(&copies, &copy)) {
            coffer__copy_strided(&copy, reading->bytes + chunk->at + (copy.from - chunk->hull.begin));
        }
    }
}
