/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the header of a shard. A header is read, never parsed from a map: so the bytes that were
 * validated are those that were parsed. Only memory that the caller lends is parsed where it is.
 */
#include "alloc.h"
#include "error.h"
#include "lazy_verify_marks.h"
#include "packed_file.h"
#include "parse.h"
#include "shard.h"
#include "table.h"

#include <string.h>

/* This much of a header is in memory at a time. One read of it holds the whole header of most
   files. It is on the stack, where a thread of 64 KiB has space for it, so reading a header needs no
   memory except its table's. */
#define SHARD_WINDOW_SIZE 16384u
/* How often a header is read that somebody changes in between. */
#define SHARD_MAX_ROUNDS 16u

/* A file_size of 0 says that the size is not known, so the end of the data is not compared
   with it. */
static coffer_parse_options shard_parse_options(const coffer_open_options *options, uint64_t file_size)
{
    coffer_parse_options parse = COFFER_PARSE_OPTIONS_INIT;
    parse.file_size = file_size;
    parse.max_header_size = options->max_header_size;
    parse.all_notes = options->all_notes;
    parse.unknown_dtypes = options->unknown_dtypes;
    parse.hidden_bytes = options->hidden_bytes;
    parse.format = options->format;
    return parse;
}

/* The 8 bytes are the least that any file could have. */
static coffer_status shard_empty(coffer_error *err)
{
    coffer__fail_at(err, COFFER_ERR_EMPTY, 0,
                    "the file is empty: a download or a copy may have failed before its first byte; fetch it again");
    return coffer__fail_sizes(err, COFFER_ERR_EMPTY, 8, 0);
}

/* One reading of a header: whether it took more than the first window, and what it read. */
typedef struct shard_reading {
    bool sharded;
    bool summed;
    uint64_t sum; /* of every piece, when it is `summed` */
} shard_reading;

/* A fast sum, eight bytes at a time. It tells one version of a header from another and protects
   against nobody. The bytes are read in the machine's order: sums are compared within one process
   only. */
static uint64_t shard_sum(uint64_t sum, const uint8_t *bytes, size_t size)
{
    uint64_t word = 0;
    size_t at = 0;
    for (; size - at >= sizeof word; at += sizeof word) {
        memcpy(&word, bytes + at, sizeof word);
        sum = (sum ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        sum ^= sum >> 32;
    }
    for (; at < size; at++) {
        sum = (sum ^ bytes[at]) * UINT64_C(0x9E3779B97F4A7C15);
    }
    return sum ^ size;
}

/* Pieces are summed in the order in which they are read, which is the same in every round. */
static coffer_status shard_read(const coffer__byte_source *source, shard_reading *reading, uint64_t offset, void *to,
                                size_t size, coffer_error *err)
{
    const coffer_status status = coffer__source_read(source, offset, to, size, err);
    if (status == COFFER_OK && reading->summed) {
        reading->sum = shard_sum(reading->sum, to, size);
    }
    return status;
}

/* Reads whatever the parser asks for, until it has its table. The parser says where its wish goes,
   in its own buffer or in the window; it checks everything that it gets. */
static coffer_status shard_feed(const coffer__byte_source *source, shard_reading *reading, coffer__reading *parsing,
                                coffer_table **table, coffer_error *err)
{
    for (;;) {
        coffer__wish wish;
        coffer_status status = coffer__reading_go_on(parsing, &wish, table, err);
        if (status != COFFER_NEED_MORE) {
            return status;
        }
        reading->sharded = true;
        status = shard_read(source, reading, wish.offset, wish.to, wish.size, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
}

/* What follows once the table of a file is there. A packed file becomes the one that was packed, unless it is to be
   fetched as it is. */
static coffer_status shard_take_table(coffer__shard *shard, const coffer_parse_options *parse,
                                      const coffer_allocator *allocator, const coffer_open_options *options,
                                      coffer_error *err)
{
    if (coffer__packed_file_is(shard->table) && !options->to_fetch) {
        if (options->partial && parse->file_size == 0) {
            return coffer__fail(err, COFFER_ERR_PACKED,
                                "the file is packed and does not end where its data do: it cannot be opened in part; "
                                "get the file again");
        }
        const coffer_status status =
            coffer__packed_file_open(&shard->source, &shard->table, parse, options->unpacked_limit, allocator, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return coffer__lazy_verify_begin(shard, options->verify, allocator, err);
}

/* Reads the header, with one read if it is of ordinary size. A longer one passes through the window
   if the source lends a descriptor: then small reads are cheap system calls. Any other source is
   asked only one more time, for all the rest. A `file_size` other than 0 is compared with where the
   data end. The reading is ended on every path, and the table belongs to the shard once it is made.
   Records and marks are read here as well, since they are of this version of the header. */
static coffer_status shard_read_header(coffer__shard *shard, shard_reading *reading, uint64_t file_size,
                                       const coffer_allocator *allocator, const coffer_open_options *options,
                                       coffer_error *err)
{
    const coffer__byte_source *source = &shard->source;
    uint8_t window[SHARD_WINDOW_SIZE];
    const size_t size = source->size < sizeof window ? (size_t)source->size : sizeof window;
    coffer_status status = shard_read(source, reading, 0, window, size, err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer__reading parsing;
    const coffer_parse_options parse = shard_parse_options(options, file_size);
    status = coffer__reading_begin(&parsing, window, size, allocator, &parse, err);
    /* Small reads are cheap here, so the rest of a long header passes through the window. */
    if (source->is.lends) {
        coffer__reading_slide(&parsing, window, sizeof window);
    }
    if (status == COFFER_OK) {
        status = shard_feed(source, reading, &parsing, &shard->table, err);
    }
    coffer__reading_free(&parsing);
    return status == COFFER_OK ? shard_take_table(shard, &parse, allocator, options, err) : status;
}

/* Whether a file that does not end where its data do may be read without regard to its size. Its
   header is whole, or the failure would be another. */
static bool shard_is_partial(coffer_status status, const coffer_open_options *options)
{
    return options->partial && (status == COFFER_ERR_DATA_TRUNCATED || status == COFFER_ERR_TRAILING_BYTES);
}

/* A file that ends early, or has more than its data, is read again without its size if the caller wants
   what is whole in it. Tensors beyond the end are then refused one by one (coffer__shard_check_whole). */
static coffer_status shard_read_once(coffer__shard *shard, shard_reading *reading, const coffer_allocator *allocator,
                                     const coffer_open_options *options, coffer_error *err)
{
    const uint64_t size = shard->source.size;
    if (size == 0) {
        return shard_empty(err);
    }
    const coffer_status status = shard_read_header(shard, reading, size, allocator, options, err);
    return shard_is_partial(status, options) ? shard_read_header(shard, reading, 0, allocator, options, err) : status;
}

/* Releases what was read of a header, so that it can be read again. Marks go first, as their number
   is that of the table. */
static void shard_forget_header(coffer__shard *shard, const coffer_allocator *allocator)
{
    coffer__lazy_verify_free(shard, allocator);
    coffer_table_free(shard->table);
    coffer__packed_file_close(&shard->source);
    shard->recorded = (coffer__recorded){ 0 };
    shard->trusted = NULL;
    shard->table = NULL;
}

static coffer_status shard_never_still(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_CHANGED,
                        "the file is changing all the time, and no two reads of its header agreed; open it again when "
                        "the program that writes it has finished");
}

/* A header that comes in several pieces may have been edited between two of them; the result would
   be one that never existed. If the file's times show that nobody has written since, it is right.
   Otherwise it is read again until nobody has, or until two readings in a row agree, by their sums.
   While an edit is seen to be in progress, no reading begins. The sum is not computed in a first
   round where the file's times can be relied on, so an ordinary file pays nothing for this. A
   header that came in one read is taken as it is, unless the source is doubted. */
coffer_status coffer__shard_read_header(coffer__shard *shard, const char *path, const coffer_allocator *allocator,
                                        const coffer_open_options *options, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    shard_reading last = { .summed = false };
    for (unsigned round = 1; round <= SHARD_MAX_ROUNDS; round++) {
        shard_reading reading = { .summed = round > 1 || coffer__source_is_fresh(&shard->source) };
        shard_forget_header(shard, allocator);
        status = round == 1 || path == NULL ? COFFER_OK : coffer__source_path_again(&shard->source, path, err);
        if (status != COFFER_OK) {
            return status;
        }
        status = shard_read_once(shard, &reading, allocator, options, err);
        /* One read, no write since, or the same sum twice in a row. */
        if ((!reading.sharded && !shard->source.is.untrusted) || coffer__source_is_still(&shard->source) ||
            (last.summed && reading.summed && last.sum == reading.sum)) {
            return status;
        }
        last = reading;
    }
    shard_forget_header(shard, allocator);
    return status == COFFER_OK ? shard_never_still(err) : status;
}

static coffer_status shard_parse_whole(coffer__shard *shard, const void *bytes, size_t size, uint64_t file_size,
                                       const coffer_allocator *allocator, const coffer_open_options *options,
                                       coffer_error *err)
{
    const coffer_parse_options parse = shard_parse_options(options, file_size);
    const coffer_status status = coffer__parse_header(&shard->table, NULL, bytes, size, allocator, &parse, err);
    return status == COFFER_OK ? shard_take_table(shard, &parse, allocator, options, err) : status;
}

/* The source of a shard in memory cannot change, so it is parsed once. */
coffer_status coffer__shard_parse(coffer__shard *shard, const void *bytes, size_t size,
                                  const coffer_allocator *allocator, const coffer_open_options *options,
                                  coffer_error *err)
{
    if (size == 0) {
        return shard_empty(err);
    }
    const coffer_status status = shard_parse_whole(shard, bytes, size, size, allocator, options, err);
    if (shard_is_partial(status, options)) {
        return shard_parse_whole(shard, bytes, size, 0, allocator, options, err);
    }
    return status;
}
