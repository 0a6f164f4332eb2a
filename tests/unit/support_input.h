/* SPDX-License-Identifier: Apache-2.0 */
/* Files of other programs from memory, read by whichever reader knows them; with files beside them. */
#ifndef COFFER_TESTS_SUPPORT_INPUT_H
#define COFFER_TESTS_SUPPORT_INPUT_H

#include "support_cmocka.h"

#include "coffer.h"
#include "support_memory.h"

#include <stdlib.h>
#include <string.h>

/* File 0 is the input; the others are found by their names. Ends with a file without bytes. */
typedef struct memory_file {
    const char *name;
    const void *bytes;
    size_t size;
} memory_file;

typedef struct memory_input {
    const memory_file *files;
    const memory_file *opened[8];
    uint32_t count;
} memory_input;

static inline coffer_status memory_input_read(void *ctx, uint32_t file, uint64_t offset, void *buffer, size_t size,
                                              coffer_error *err)
{
    const memory_input *input = ctx;
    (void)err;
    assert_in_range(file, 0, input->count - 1);
    assert_in_range(offset, 0, input->opened[file]->size);
    assert_in_range(size, 0, input->opened[file]->size - offset);
    memcpy(buffer, (const char *)input->opened[file]->bytes + offset, size);
    return COFFER_OK;
}

static inline coffer_status memory_input_beside(void *ctx, const char *name, size_t name_len, uint64_t *size,
                                                coffer_error *err)
{
    memory_input *input = ctx;
    for (const memory_file *file = input->files + 1; file->bytes != NULL; file++) {
        if (strlen(file->name) == name_len && memcmp(file->name, name, name_len) == 0) {
            input->opened[input->count++] = file;
            *size = file->size;
            return COFFER_OK;
        }
    }
    *err = (coffer_error){ .code = COFFER_ERR_SHARD_MISSING, .offset = COFFER_NO_OFFSET, .message = "no such file" };
    return COFFER_ERR_SHARD_MISSING;
}

/* Opens both; on failure *made is NULL, and only the input is to be freed. */
static inline coffer_status memory_import(memory_input *input, const memory_file *files,
                                          const coffer_import_options *options, coffer_input **opened,
                                          coffer_import **made, coffer_error *err)
{
    const coffer_input_functions functions = { .read = memory_input_read,
                                               .beside = memory_input_beside,
                                               .ctx = input,
                                               .size = files[0].size,
                                               .path = files[0].name };
    *input = (memory_input){ .files = files, .opened = { files }, .count = 1 };
    assert_int_equal(coffer_input_open_functions(opened, &functions, NULL, err), COFFER_OK);
    return coffer_import_open(made, *opened, options, err);
}

/* One tensor, by its number. */
static inline void expect_tensor(coffer_import *made, size_t i, const char *name, coffer_dtype dtype, size_t rank,
                                 const uint64_t *shape, coffer_fate fate)
{
    const coffer_import_tensor *tensor = coffer_import_at(made, i);
    assert_non_null(tensor);
    assert_string_equal(tensor->name, name);
    assert_int_equal(tensor->fate, fate);
    assert_int_equal(tensor->dtype, dtype);
    assert_int_equal(tensor->rank, rank);
    for (size_t d = 0; d < rank; d++) {
        assert_int_equal(tensor->shape[d], shape[d]);
    }
}

/* Writes all of it to memory, of `capacity` bytes, and compares it with the input; the table's bytes are expected after. */
static inline size_t write_to_memory(coffer_import *made, void *memory, size_t capacity)
{
    coffer_error err;
    uint64_t head = 0;
    coffer_header *header = NULL;
    coffer_writer *writer = NULL;
    coffer *model = NULL;
    assert_int_equal(coffer_header_new(&header, NULL, &err), COFFER_OK);
    assert_int_equal(coffer_import_declare(made, header, &err), COFFER_OK);
    assert_int_equal(coffer_header_build(header, NULL, NULL, &head, NULL, &err), COFFER_OK);
    const size_t size = (size_t)(head + coffer_import_summarize(made)->output);
    assert_in_range(size, 1, capacity);
    assert_int_equal(coffer_writer_open_memory(&writer, header, memory, size, NULL, &err), COFFER_OK);
    const coffer_status status = coffer_import_carry(made, writer, false, NULL, &err);
    if (status == COFFER_OK) {
        assert_int_equal(coffer_writer_finish(writer, &err), COFFER_OK);
        assert_int_equal(coffer_open_memory(&model, memory, size, NULL, &err), COFFER_OK);
        assert_int_equal(coffer_import_verify(made, model, NULL, &err), COFFER_OK);
        coffer_close(model);
    }
    coffer_writer_free(writer);
    coffer_header_free(header);
    return status == COFFER_OK ? size : 0;
}

/* Reads an input once for each of many values that each of its bytes can have instead. Reading ends, and a refusal says why;
   what is accepted is written and compared, if that takes less than 4 KiB. How many were is counted, and how many of them
   could not be written, as numbers of another dtype cannot. */
static inline void every_byte(const memory_file *files, const coffer_import_options *options, size_t *accepted,
                              size_t *unwritten)
{
    char written[8192];
    char *bytes = malloc(files[0].size);
    memory_file changed[8];
    for (size_t i = 0; i == 0 || files[i - 1].bytes != NULL; i++) {
        assert_in_range(i, 0, sizeof changed / sizeof *changed - 1);
        changed[i] = files[i];
    }
    assert_non_null(bytes);
    changed[0].bytes = bytes;
    for (size_t k = 0; k < files[0].size * 43; k++) {
        memory_input memory;
        coffer_input *input = NULL;
        coffer_import *made = NULL;
        coffer_error err;
        memcpy(bytes, files[0].bytes, files[0].size);
        bytes[k / 43] = (char)(bytes[k / 43] ^ (char)(1 + k % 43 * 6));
        if (memory_import(&memory, changed, options, &input, &made, &err) != COFFER_OK) {
            assert_true(err.message[0] != '\0');
        } else if (coffer_import_summarize(made)->output < 4096) {
            *unwritten += write_to_memory(made, written, sizeof written) == 0;
            ++*accepted;
        }
        coffer_import_free(made);
        coffer_input_free(input);
    }
    free(bytes);
}

/* Reads an input once for each request for memory that a read makes, of which another one fails each time: that is told, and
   nothing stays. */
static inline void without_memory(const memory_file *files, const coffer_import_options *options)
{
    memory_meter meter = { 0 };
    const coffer_allocator allocator = metered_allocator(&meter);
    coffer_status status = COFFER_ERR_MEMORY;
    for (size_t k = 1; status != COFFER_OK; k++) {
        coffer_import_options known = *options;
        memory_input memory;
        coffer_input *input = NULL;
        coffer_import *made = NULL;
        coffer_error err;
        meter.requests = 0;
        meter.fail_at = k;
        known.allocator = &allocator;
        status = memory_import(&memory, files, &known, &input, &made, &err);
        assert_true(status == COFFER_OK || status == COFFER_ERR_MEMORY);
        coffer_import_free(made);
        assert_int_equal(meter.held, 0);
        coffer_input_free(input);
        assert_in_range(k, 1, 1000);
    }
}

#endif
