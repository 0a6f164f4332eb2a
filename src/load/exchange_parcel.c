/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of pieces in messages. A message has what the receiver's rows take of the sender's pieces: piece after piece,
 * row after row, each in the order of the file, without anything between them. That order depends on which bytes a row takes,
 * and not on where they go, so both sides come to it by themselves.
 */
#include "exchange.h"

/* Goes over what one host takes of the pieces of another in a round. */
typedef struct parcel_walk {
    const coffer_exchange *exchange;
    uint32_t to;
    const uint32_t *pieces;
    size_t count;
    size_t piece; /* the current one's place in `pieces` */
    size_t part;  /* the part of the current piece that is next */
} parcel_walk;

static parcel_walk parcel_begin(const coffer_exchange *exchange, uint64_t round, uint32_t from, uint32_t to)
{
    parcel_walk walk = { .exchange = exchange, .to = to };
    walk.pieces = coffer__exchange_lane(exchange, round, from, &walk.count);
    return walk;
}

/* The next part, and the piece that it is of; NULL when there is none left. */
static const coffer__exchange_part *parcel_next(parcel_walk *walk, const coffer__exchange_chunk **piece)
{
    for (; walk->piece < walk->count; walk->piece++, walk->part = 0) {
        *piece = &walk->exchange->pieces[walk->pieces[walk->piece]];
        while (walk->part < (*piece)->part_count) {
            const coffer__exchange_part *part = &walk->exchange->parts[(*piece)->first_part + walk->part++];
            if (part->host == walk->to) {
                return part;
            }
        }
    }
    return NULL;
}

static const coffer__load_row *parcel_row(const coffer_exchange *exchange, const coffer__exchange_part *part)
{
    return &exchange->joined.rows[part->row];
}

static uint64_t parcel_address(const coffer_exchange *exchange, const coffer__exchange_part *part,
                               const coffer_loaded *loaded)
{
    return loaded[parcel_row(exchange, part)->item - exchange->hosts[part->host].first_item].address;
}

void coffer__parcel_pack(const coffer__lane *lane, uint64_t round, uint32_t host, uint32_t to, uint64_t address)
{
    const coffer__exchange_chunk *piece = NULL;
    const coffer__exchange_part *part = NULL;
    parcel_walk walk = parcel_begin(lane->exchange, round, host, to);
    while ((part = parcel_next(&walk, &piece)) != NULL) {
        coffer__lines lines;
        coffer__line line;
        coffer__lines_begin(&lines, &parcel_row(lane->exchange, part)->nest, 0, part->within);
        while (coffer__lines_next(&lines, &line)) {
            line.to = address;
            line.to_step = (int64_t)line.width;
            coffer__deliver_host(&line, lane->bytes + piece->at + (line.from - piece->hull.begin));
            address += line.width * line.runs;
        }
    }
}

void coffer__parcel_unpack(const coffer_exchange *exchange, uint64_t round, uint32_t from, uint32_t host,
                           const uint8_t *message, const coffer_loaded *loaded)
{
    const coffer__exchange_chunk *piece = NULL;
    const coffer__exchange_part *part = NULL;
    parcel_walk walk = parcel_begin(exchange, round, from, host);
    while ((part = parcel_next(&walk, &piece)) != NULL) {
        coffer__lines lines;
        coffer__line line;
        coffer__lines_begin(&lines, &parcel_row(exchange, part)->nest, parcel_address(exchange, part, loaded),
                            part->within);
        while (coffer__lines_next(&lines, &line)) {
            line.from_step = line.width;
            coffer__deliver_host(&line, message);
            message += line.width * line.runs;
        }
    }
}

void coffer__parcel_keep(const coffer__lane *lane, uint64_t round, uint32_t host, const coffer_loaded *loaded)
{
    const coffer__exchange_chunk *piece = NULL;
    const coffer__exchange_part *part = NULL;
    parcel_walk walk = parcel_begin(lane->exchange, round, host, host);
    while ((part = parcel_next(&walk, &piece)) != NULL) {
        coffer__lines lines;
        coffer__line line;
        coffer__lines_begin(&lines, &parcel_row(lane->exchange, part)->nest,
                            parcel_address(lane->exchange, part, loaded), part->within);
        while (coffer__lines_next(&lines, &line)) {
            coffer__deliver_host(&line, lane->bytes + piece->at + (line.from - piece->hull.begin));
        }
    }
}
