/* SPDX-License-Identifier: Apache-2.0 */
/*
 * custom_source: keeps a model in a store of its own, here scrambled bytes in memory, and reads a slice of it back.
 *
 * It shows the two structs by which Coffer meets the bytes of others: a coffer_sink that takes what is written and a
 * coffer_source that gives what is read. An encrypted file, a member of an archive, an object on a server or an engine's own
 * I/O fit in the same way. Coffer asks for the ranges that it needs and for no others, so reading a row of a tensor costs a
 * row's bytes, which the program counts. (The scrambling is no encryption.)
 */
#include "coffer.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 4096
#define COLUMNS 64

typedef struct store {
    uint8_t *bytes;
    uint64_t size;
    atomic_size_t bytes_read; /* read_at is called from several threads at once */
} store;

static uint8_t mask_at(uint64_t offset)
{
    return (uint8_t)(offset * 167 + 13);
}

static coffer_status store_write_at(void *ctx, uint64_t offset, const void *bytes, size_t size, coffer_error *err)
{
    (void)err; /* what is left unfilled the library fills, with the status */
    store *to = ctx;
    if (offset > to->size || size > to->size - offset) {
        return COFFER_ERR_WRITE_RANGE;
    }
    for (size_t i = 0; i < size; i++) {
        to->bytes[offset + i] = ((const uint8_t *)bytes)[i] ^ mask_at(offset + i);
    }
    return COFFER_OK;
}

static coffer_status store_read_at(void *ctx, uint64_t offset, void *buffer, size_t size, coffer_error *err)
{
    (void)err;
    store *from = ctx;
    for (size_t i = 0; i < size; i++) {
        ((uint8_t *)buffer)[i] = from->bytes[offset + i] ^ mask_at(offset + i);
    }
    atomic_fetch_add(&from->bytes_read, size);
    return COFFER_OK;
}

/* Makes the store large enough and writes a model of one tensor, whose value at [row, column] is row % 100. */
static coffer_status fill_store(store *to, coffer_header *header, coffer_error *err)
{
    static const uint64_t shape[] = { ROWS, COLUMNS };
    const coffer_table *table = NULL;
    coffer_status status = coffer_header_add(header, "rows", 4, COFFER_U8, shape, 2, err);
    if (status == COFFER_OK) {
        /* Building the header tells how large the file will be. */
        status = coffer_header_build(header, NULL, NULL, NULL, &table, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    to->size = coffer_table_data_offset(table) + coffer_table_data_size(table);
    to->bytes = calloc(1, (size_t)to->size);
    if (to->bytes == NULL) {
        snprintf(err->message, sizeof err->message, "no memory for the store");
        return COFFER_ERR_MEMORY;
    }
    const coffer_sink sink = { .write_at = store_write_at, .ctx = to };
    coffer_writer *writer = NULL;
    status = coffer_writer_open_sink(&writer, header, &sink, NULL, err);
    for (uint64_t row = 0; row < ROWS && status == COFFER_OK; row++) {
        uint8_t values[COLUMNS];
        memset(values, (int)(row % 100), sizeof values);
        status = coffer_writer_write(writer, 0, row * COLUMNS, values, COLUMNS, err);
    }
    if (status == COFFER_OK) {
        status = coffer_writer_finish(writer, err);
    }
    coffer_writer_free(writer);
    return status;
}

static coffer_status read_row(store *from, coffer_error *err)
{
    const coffer_source source = { .read_at = store_read_at, .ctx = from, .size = from->size };
    coffer *model = NULL;
    coffer_status status = coffer_open_source(&model, &source, NULL, err);
    if (status != COFFER_OK) {
        return status;
    }
    const uint64_t before = from->bytes_read;
    const coffer_tensor *tensor = coffer_find(model, "rows", strlen("rows"));
    const coffer_index last_row = { .kind = COFFER_INDEX_AT, .start = -1 };
    uint8_t values[COLUMNS];
    status = coffer_read_slice(model, tensor, &last_row, 1, values, sizeof values, NULL, err);
    if (status == COFFER_OK) {
        printf("the last row holds %d; it took %" PRIu64 " of %" PRIu64 " bytes\n", values[0],
               from->bytes_read - before, from->size);
    }
    coffer_close(model);
    return status;
}

int main(void)
{
    store own = { .bytes = NULL };
    coffer_header *header = NULL;
    coffer_error err;
    coffer_status status = coffer_header_new(&header, NULL, &err);
    if (status == COFFER_OK) {
        status = fill_store(&own, header, &err);
    }
    if (status == COFFER_OK) {
        status = read_row(&own, &err);
    }
    if (status != COFFER_OK) {
        fprintf(stderr, "custom_source: %s\n", err.message);
    }
    coffer_header_free(header);
    free(own.bytes);
    return status == COFFER_OK ? 0 : 1;
}
