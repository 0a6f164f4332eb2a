/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes plans that come from another process, over a file of which some bytes are stored, deflated and text. Whatever is accepted
 * gives a file that the parser accepts, whose bytes are those that verifying finds in the input.
 */
#define _DEFAULT_SOURCE /* guarded.h */

#include "coffer.h"
#include "fuzz_input.h"
#include "guarded.h"

#define FILE_SIZE 4096
#define MAX ((uint64_t)4 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* At byte 1024 a block of deflate with 512 bytes, at 2048 text of 512 characters of two bytes. */
static uint8_t byte_of(uint64_t at)
{
    static const uint8_t head[5] = { 1, 0, 2, 0xFF, 0xFD };
    if (at >= 1024 && at < 1024 + sizeof head) {
        return head[at - 1024];
    }
    if (at >= 2048 && at < 3072) {
        return at % 2 == 0 ? 0xC2 : (uint8_t)(0x80 | (at & 0x3F));
    }
    return (uint8_t)(at * 7);
}

static coffer_status read_file(void *ctx, uint32_t file, uint64_t offset, void *buffer, size_t size, coffer_error *err)
{
    uint8_t *to = buffer;
    (void)ctx;
    (void)err;
    expect(file == 0 && offset <= FILE_SIZE && size <= FILE_SIZE - offset, "a read is within the file");
    for (size_t i = 0; i < size; i++) {
        to[i] = byte_of(offset + i);
    }
    return COFFER_OK;
}

/* Carries an import into memory, and compares. */
static void carry(coffer_import *import, coffer_header *header, uint8_t *memory, uint64_t size)
{
    coffer_writer *writer = NULL;
    coffer *written = NULL;
    coffer_error err;
    expect(coffer_writer_open_memory(&writer, header, memory, (size_t)size, NULL, &err) == COFFER_OK, err.message);
    coffer_status status = coffer_import_carry(import, writer, false, NULL, &err);
    expect(status == COFFER_OK || status == COFFER_ERR_CHECKSUM || status == COFFER_ERR_DAMAGED ||
               status == COFFER_ERR_PICKLE,
           err.message);
    if (status == COFFER_OK) {
        expect(coffer_writer_finish(writer, &err) == COFFER_OK, err.message);
        expect(coffer_open_memory(&written, memory, (size_t)size, NULL, &err) == COFFER_OK, err.message);
        expect(coffer_import_verify(import, written, NULL, &err) == COFFER_OK, err.message);
        coffer_close(written);
    }
    coffer_writer_free(writer);
}

static void write_import(coffer_import *import)
{
    coffer_header *header = NULL;
    const coffer_table *table = NULL;
    coffer_error err;
    expect(coffer_header_new(&header, NULL, &err) == COFFER_OK, "a header begins");
    expect(coffer_import_declare(import, header, &err) == COFFER_OK, err.message);
    if (coffer_header_build(header, NULL, NULL, NULL, &table, &err) == COFFER_OK) {
        const uint64_t size = coffer_table_data_offset(table) + coffer_table_data_size(table);
        uint8_t *memory = malloc((size_t)size);
        if (memory != NULL) {
            carry(import, header, memory, size);
        }
        free(memory);
    }
    coffer_header_free(header);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    const coffer_input_functions functions = { .read = read_file, .size = FILE_SIZE };
    const uint8_t *edge = guarded_copy(bytes, size);
    coffer_input *input = NULL;
    coffer_import *import = NULL;
    coffer_error err;
    if (edge == NULL || coffer_input_open_functions(&input, &functions, NULL, &err) != COFFER_OK) {
        return 0;
    }
    const coffer_status status = coffer_import_load(&import, input, edge, size, NULL, &err);
    expect(status == COFFER_OK || (err.code == status && err.message[0] != '\0'), "a failure says what it is");
    if (status == COFFER_OK) {
        const coffer_import_summary *summary = coffer_import_summarize(import);
        expect(summary->total == summary->written + summary->aliased + summary->skipped + summary->unreferenced,
               "the bytes add up");
        if (summary->output <= MAX) {
            write_import(import);
        }
    }
    coffer_import_free(import);
    coffer_input_free(input);
    return 0;
}
