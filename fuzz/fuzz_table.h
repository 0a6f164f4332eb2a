/* SPDX-License-Identifier: Apache-2.0 */
/* What has to hold for every file that coffer_parse accepts or refuses, whatever its format: all that the API promises. */
#ifndef COFFER_FUZZ_TABLE_H
#define COFFER_FUZZ_TABLE_H

#include "bytes.h"
#include "coffer.h"
#include "fuzz_input.h"
#include "parse.h"

#include <stdlib.h>
#include <string.h>

#define PROMISED_REST 65536 /* that much may be held for the smallest of files */

/* ---- an allocator that counts ---- */

typedef struct counter {
    size_t live;
    size_t limit;
} counter;

static inline void *counted_realloc(void *ctx, void *block, size_t old_size, size_t new_size)
{
    counter *count = ctx;
    count->live = count->live - old_size + new_size;
    expect(count->live <= count->limit, "memory stays within what is promised");
    return realloc(block, new_size);
}

static inline void *counted_alloc(void *ctx, size_t size)
{
    return counted_realloc(ctx, NULL, 0, size);
}

static inline void counted_free(void *ctx, void *block, size_t size)
{
    counter *count = ctx;
    count->live -= size;
    free(block);
}

/* ---- what holds for every table ---- */

static inline void check_tensor(const coffer_table *table, const coffer_tensor *tensor, uint64_t begin)
{
    expect(tensor->offset == begin, "tensors follow each other");
    expect(tensor->name[tensor->name_len] == '\0', "a name ends with NUL");
    expect(coffer_table_find(table, tensor->name, tensor->name_len) == tensor, "a tensor is found by its name");
    const size_t bits = coffer_dtype_bits(tensor->dtype);
    if (bits == 0) {
        expect(tensor->dtype == COFFER_UNKNOWN_DTYPE, "a dtype is known or said to be unknown");
        expect(coffer_table_note(table, COFFER_NOTE_UNKNOWN_DTYPE).count > 0, "unknown dtypes are noted");
        return;
    }
    /* The product did not overflow, or it begins with a zero that hides what follows. */
    uint64_t elements = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        elements *= tensor->shape[i];
    }
    expect(elements == coffer_tensor_elements(tensor), "elements are the shape's product");
    expect(elements / 8 * bits + elements % 8 * bits / 8 == tensor->size, "a tensor is as large as its shape says");
}

static inline void check_cover(const coffer_table *table)
{
    uint64_t end = coffer_table_data_offset(table);
    for (size_t i = 0; i < coffer_table_count(table); i++) {
        const coffer_tensor *tensor = coffer_table_at(table, i);
        check_tensor(table, tensor, end);
        end = tensor->offset + tensor->size;
    }
    expect(end - coffer_table_data_offset(table) == coffer_table_data_size(table), "tensors cover the data");
    expect(coffer_table_at(table, coffer_table_count(table)) == NULL, "there is nothing behind the last tensor");
}

/* Negative, 0 or positive as the bytes of `a` come before, are, or come after those of `b`. */
static inline int compare(const char *a, size_t a_len, const char *b, size_t b_len)
{
    const int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

static inline void check_name_order(const coffer_table *table)
{
    const size_t count = coffer_table_count(table);
    uint32_t *order = calloc(count + 1, sizeof *order);
    expect(order != NULL, "there is memory");
    coffer_table_sort_by_name(table, order);
    for (size_t i = 1; i < count; i++) {
        const coffer_tensor *a = coffer_table_at(table, order[i - 1]);
        const coffer_tensor *b = coffer_table_at(table, order[i]);
        expect(compare(a->name, a->name_len, b->name, b->name_len) < 0, "names are in order, and none comes twice");
    }
    free(order);
}

static inline void check_metadata(const coffer_table *table)
{
    coffer_pair before = { NULL, NULL, 0, 0 };
    coffer_pair pair = before;
    for (size_t i = 0; coffer_table_metadata_at(table, i, &pair); i++) {
        expect(i == 0 || compare(before.key, before.key_len, pair.key, pair.key_len) < 0, "keys are in order");
        size_t value_len = 0;
        expect(coffer_table_metadata_get(table, pair.key, pair.key_len, &value_len) == pair.value, "a key is found");
        expect(value_len == pair.value_len && pair.value[value_len] == '\0', "a value has its length");
        before = pair;
    }
    expect(!coffer_table_metadata_at(table, coffer_table_metadata_count(table), &pair), "the metadata end");
}

/* ---- written anew ---- */

static inline void expect_same(const coffer_table *table, const coffer_table *copy)
{
    expect(coffer_table_count(table) == coffer_table_count(copy), "the copy has as many tensors");
    for (size_t i = 0; i < coffer_table_count(table); i++) {
        const coffer_tensor *a = coffer_table_at(table, i);
        const coffer_tensor *b = coffer_table_find(copy, a->name, a->name_len);
        expect(b != NULL && a->dtype == b->dtype && a->rank == b->rank && a->size == b->size, "tensors are the same");
        expect(a->rank == 0 || memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0, "shapes are the same");
    }
    expect(coffer_table_metadata_count(table) == coffer_table_metadata_count(copy), "the copy has as much metadata");
    coffer_pair a;
    coffer_pair b;
    for (size_t i = 0; coffer_table_metadata_at(table, i, &a) && coffer_table_metadata_at(copy, i, &b); i++) {
        expect(compare(a.key, a.key_len, b.key, b.key_len) == 0, "keys are the same");
        expect(compare(a.value, a.value_len, b.value, b.value_len) == 0, "values are the same");
    }
}

/* Bintensors reserves no name, but what is declared does. */
static inline bool can_be_declared(const coffer_table *table)
{
    return coffer_table_note(table, COFFER_NOTE_UNKNOWN_DTYPE).count == 0 &&
           coffer_table_find(table, "__metadata__", 12) == NULL;
}

static inline void check_rebuild(const coffer_table *table, coffer_format format)
{
    coffer_header *header = NULL;
    coffer_error err;
    expect(coffer_header_new(&header, coffer_libc_allocator(), &err) == COFFER_OK, "a header begins");
    for (size_t i = 0; i < coffer_table_count(table); i++) {
        const coffer_tensor *t = coffer_table_at(table, i);
        expect(coffer_header_add(header, t->name, t->name_len, t->dtype, t->shape, t->rank, &err) == COFFER_OK,
               "what was read can be declared");
    }
    coffer_pair pair;
    for (size_t i = 0; coffer_table_metadata_at(table, i, &pair); i++) {
        expect(coffer_header_set_metadata(header, pair.key, pair.key_len, pair.value, pair.value_len, &err) ==
                   COFFER_OK,
               "metadata that was read can be set");
    }
    const void *bytes = NULL;
    uint64_t size = 0;
    const coffer_table *built = NULL;
    coffer_header_options options = COFFER_HEADER_OPTIONS_INIT;
    options.format = format;
    options.empty_metadata = coffer_table_has_metadata(table);
    expect(coffer_header_build(header, &options, &bytes, &size, &built, &err) == COFFER_OK,
           "what was read can be written");
    expect_same(table, built);
    coffer_table *copy = NULL;
    expect(coffer_parse(&copy, NULL, bytes, (size_t)size, coffer_libc_allocator(), NULL, &err) == COFFER_OK,
           "what was written can be read");
    expect_same(table, copy);
    expect(coffer_table_format(copy) == format, "the content tells the format");
    expect(coffer_table_has_metadata(copy) == coffer_table_has_metadata(table), "no metadata stay none");
    coffer_table_free(copy);
    coffer_header_free(header);
}

/* ---- the verdict ---- */

static inline void check_failure(coffer_status status, const coffer_error *err, size_t size)
{
    expect(err->code == status && status != COFFER_OK, "the error has the code that was returned");
    expect(err->message[0] != '\0' && memchr(err->message, '\0', sizeof err->message) != NULL, "there is a message");
    expect(memchr(err->tensor, '\0', sizeof err->tensor) != NULL, "a tensor's name fits");
    expect(err->offset <= size || err->offset == COFFER_NO_OFFSET, "the error is within the file");
    expect(strcmp(coffer_status_name(status), "UNKNOWN") != 0, "the code has a name");
}

static inline void check_success(const coffer_table *table, uint64_t need, const coffer_parse_options *options,
                                 size_t size)
{
    expect(need == coffer_table_data_offset(table) && need <= size, "the header was there, whole");
    expect(options->file_size == 0 || need + coffer_table_data_size(table) == size, "the data end where the file does");
    expect(coffer_table_slack(table) <= need - 8 - 2, "slack is less than the header");
    check_cover(table);
    check_name_order(table);
    check_metadata(table);
    if (can_be_declared(table)) {
        check_rebuild(table, COFFER_FORMAT_SAFETENSORS);
    }
    if (can_be_declared(table) && coffer_table_format(table) != COFFER_FORMAT_SAFETENSORS) {
        check_rebuild(table, COFFER_FORMAT_BINTENSORS);
    }
}

/* ---- through a window ---- */

/* Reads a header that comes in piece by piece, of which the window has the first `here` bytes. */
static inline coffer_status parse_through(const uint8_t *bytes, size_t size, uint8_t *window, size_t here,
                                          size_t window_size, const coffer_allocator *allocator,
                                          const coffer_parse_options *options, coffer_table **table, coffer_error *err)
{
    coffer__reading reading;
    coffer__wish wish;
    coffer_status status = coffer__reading_begin(&reading, window, here, allocator, options, err);
    if (window_size > 0) {
        coffer__reading_slide(&reading, window, window_size);
    }
    while (status == COFFER_OK) {
        status = coffer__reading_go_on(&reading, &wish, table, err);
        if (status != COFFER_NEED_MORE) {
            break;
        }
        expect(wish.offset <= size && wish.size > 0 && wish.size <= size - wish.offset, "what is read is in the file");
        memcpy(wish.to, bytes + wish.offset, wish.size);
        status = COFFER_OK;
    }
    coffer__reading_free(&reading);
    return status;
}

/* A header that is here, whole, is read through a window with the same result. */
static inline void check_window(const uint8_t *bytes, size_t size, const coffer_allocator *allocator,
                                const coffer_parse_options *options, coffer_status whole, const coffer_error *whole_err,
                                const coffer_table *whole_table)
{
    const size_t window_size = 9 + (size_t)bytes[8];
    const size_t here = size < window_size ? size : window_size;
    uint8_t *window = malloc(window_size);
    expect(window != NULL, "there is memory");
    memcpy(window, bytes, here);
    coffer_table *table = NULL;
    coffer_error err;
    const coffer_status status =
        parse_through(bytes, size, window, here, (size & 1) != 0 ? window_size : 0, allocator, options, &table, &err);
    free(window);
    expect(status == whole, "a window changes nothing");
    if (status == COFFER_OK) {
        expect_same(whole_table, table);
        expect(coffer_table_slack(whole_table) == coffer_table_slack(table), "the slack is the same");
        for (int kind = 0; kind < COFFER_NOTE_COUNT; kind++) {
            const coffer_note a = coffer_table_note(whole_table, (coffer_note_kind)kind);
            const coffer_note b = coffer_table_note(table, (coffer_note_kind)kind);
            expect(a.count == b.count && a.offset == b.offset, "notes are the same");
        }
    } else {
        expect(err.offset == whole_err->offset && strcmp(err.message, whole_err->message) == 0 &&
                   strcmp(err.tensor, whole_err->tensor) == 0,
               "errors are the same");
    }
    coffer_table_free(table);
}

/* Whether the header's length is one that `size` bytes can have, so that nothing else may be sniffed. */
static inline bool has_header(const uint8_t *bytes, size_t size, const coffer_parse_options *options)
{
    if (size <= 8) {
        return false;
    }
    const uint64_t length = coffer__load_u64le(bytes);
    return length > 0 && length <= size - 8 && (options->max_header_size == 0 || length <= options->max_header_size);
}

/* Parses a file with options, and memory of `factor` times its size, and judges the answer. */
static inline void check_parse(const uint8_t *bytes, size_t size, const coffer_parse_options *options, size_t factor)
{
    counter count = { 0, factor * size + PROMISED_REST };
    const coffer_allocator allocator = { counted_alloc, counted_realloc, counted_free, &count };
    coffer_table *table = NULL;
    coffer_error err;
    uint64_t need = 0;
    const coffer_status status = coffer_parse(&table, &need, bytes, size, &allocator, options, &err);
    expect((table != NULL) == (status == COFFER_OK), "there is a table on success and on success only");
    if (status == COFFER_OK) {
        check_success(table, need, options, size);
    } else if (status == COFFER_NEED_MORE) {
        expect(need > size, "more is needed than is there");
    } else {
        check_failure(status, &err, size);
    }
    if (has_header(bytes, size, options)) {
        count.limit += count.live;
        check_window(bytes, size, &allocator, options, status, &err, table);
    }
    coffer_table_free(table);
    expect(count.live == 0, "all memory is given back");
}

#endif
