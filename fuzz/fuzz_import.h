/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing one kind of other programs' files through the public interface. What is accepted is written to memory, opened by the
 * parser, and compared with the input; reading writes nothing, and reads nothing outside of the files.
 *
 * Beside the input there is a file of every plain name: its first 4 KiB are numbers that count, and it has no more.
 */
#ifndef COFFER_FUZZ_IMPORT_H
#define COFFER_FUZZ_IMPORT_H

#define _DEFAULT_SOURCE /* guarded.h */

#include "coffer.h"
#include "fuzz_input.h"
#include "guarded.h"

#define FUZZ_BESIDE 4096u
#define FUZZ_MAX_OUTPUT ((uint64_t)1 << 20)

typedef struct fuzz_file {
    const uint8_t *bytes;
    size_t size;
    uint32_t beside; /* files that were opened */
} fuzz_file;

static coffer_status read_fuzz_file(void *ctx, uint32_t number, uint64_t offset, void *buffer, size_t size,
                                    coffer_error *err)
{
    const fuzz_file *file = ctx;
    const uint64_t file_size = number == 0 ? file->size : FUZZ_BESIDE;
    (void)err;
    expect(number <= file->beside, "the file was opened");
    expect(offset <= file_size && size <= file_size - offset, "a read is within the file");
    for (size_t i = 0; i < size; i++) {
        ((uint8_t *)buffer)[i] = number == 0 ? file->bytes[offset + i] : (uint8_t)(offset + i);
    }
    return COFFER_OK;
}

static coffer_status open_fuzz_file(void *ctx, const char *name, size_t name_len, uint64_t *size, coffer_error *err)
{
    fuzz_file *file = ctx;
    (void)name;
    (void)err;
    expect(name_len > 0 && name_len < 256, "the name is one of a file");
    file->beside++;
    *size = FUZZ_BESIDE;
    return COFFER_OK;
}

/* What was written is a file that the parser takes, and has the bytes that the input has. */
static void expect_written(coffer_import *made, const uint8_t *memory, size_t size)
{
    coffer *model = NULL;
    coffer_error err;
    coffer_read_options reading = COFFER_READ_OPTIONS_INIT;
    reading.threads = 1;
    expect(coffer_open_memory(&model, memory, size, NULL, &err) == COFFER_OK, "what was written can be opened");
    expect(coffer_import_verify(made, model, &reading, &err) == COFFER_OK, "what was written is what was read");
    coffer_close(model);
}

/* Numbers that look random, and are the same each time. */
static uint32_t next_number(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* A slice of a tensor, by one range along each dimension. */
static void expect_slice(const coffer *model, const coffer_tensor *tensor, const coffer *written,
                         const coffer_tensor *wanted, uint32_t *state)
{
    coffer_index indices[64] = { { 0 } };
    coffer_read_options reading = COFFER_READ_OPTIONS_INIT;
    coffer_error err;
    uint64_t size = 0;
    reading.threads = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        const int64_t end = (int64_t)(tensor->shape[i] < INT32_MAX ? tensor->shape[i] : INT32_MAX);
        indices[i].kind = COFFER_INDEX_RANGE;
        indices[i].has_start = true;
        indices[i].has_stop = true;
        indices[i].start = end == 0 ? 0 : next_number(state) % end;
        indices[i].stop = end == 0 ? 0 : indices[i].start + next_number(state) % (end + 1);
        indices[i].step = 1 + next_number(state) % 3;
    }
    if (coffer_slice_shape(tensor, indices, tensor->rank, NULL, NULL, &size, &err) != COFFER_OK) {
        return; /* of elements that fill no bytes */
    }
    uint8_t *bytes = malloc(2 * (size_t)size + 1);
    expect(bytes != NULL, "there is memory");
    expect(coffer_read_slice(model, tensor, indices, tensor->rank, bytes, size, &reading, &err) == COFFER_OK &&
               coffer_read_slice(written, wanted, indices, tensor->rank, bytes + size, size, &reading, &err) ==
                   COFFER_OK &&
               memcmp(bytes, bytes + size, (size_t)size) == 0,
           "a slice is that of what was written");
    free(bytes);
}

/* The tensor of the model is that which was written, as a whole, in part and as a slice, and where it lies. */
static void expect_tensor(const coffer *model, const coffer *written, const coffer_tensor *wanted, uint32_t *state)
{
    const size_t size = (size_t)wanted->size;
    const coffer_tensor *tensor = coffer_find(model, wanted->name, wanted->name_len);
    coffer_read_options reading = COFFER_READ_OPTIONS_INIT;
    coffer_stored_tensor stored;
    coffer_error err;
    reading.threads = 1;
    expect(tensor != NULL && tensor->dtype == wanted->dtype && tensor->size == size, "the tensor is there");
    expect(coffer_stored_tensor_of(model, tensor, &stored) && stored.type[0] != '\0', "its type is known");
    uint8_t *bytes = malloc(2 * size + 1);
    expect(bytes != NULL, "there is memory");
    expect(coffer_read(written, wanted, bytes + size, size, &reading, &err) == COFFER_OK, "what was written is read");
    expect(coffer_read(model, tensor, bytes, size, &reading, &err) == COFFER_OK &&
               memcmp(bytes, bytes + size, size) == 0,
           "it is read as it was written");
    const size_t from = size == 0 ? 0 : next_number(state) % size;
    const size_t part = size == 0 ? 0 : next_number(state) % (size - from);
    expect(coffer_read_part(model, tensor, from, bytes, part, &reading, &err) == COFFER_OK &&
               memcmp(bytes, bytes + size + from, part) == 0,
           "and so is a part of it");
    expect_slice(model, tensor, written, wanted, state);
    free(bytes);
}

/* The import as a model, which takes over both. `memory` has what was written; NULL: the bytes of tensors are damaged, and
   reading them may fail. */
static void read_as_model(coffer_import *made, const uint8_t *memory, size_t size)
{
    coffer *model = NULL;
    coffer *written = NULL;
    coffer_error err = { 0 };
    uint32_t state = (uint32_t)size;
    const coffer_status status = coffer_open_import(&model, made, NULL, &err);
    /* Aliases are tensors here, and may have names that no other tensor may have. */
    expect(status == COFFER_OK || err.message[0] != '\0', "a failure says what it is");
    if (status == COFFER_OK && memory != NULL) {
        expect(coffer_open_memory(&written, memory, size, NULL, &err) == COFFER_OK, "what was written can be opened");
        for (size_t i = 0; i < coffer_count(written); i++) {
            expect_tensor(model, written, coffer_at(written, i), &state);
        }
    }
    for (size_t i = 0; status == COFFER_OK && memory == NULL && i < coffer_count(model); i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        uint8_t *bytes = tensor->size <= FUZZ_MAX_OUTPUT ? malloc((size_t)tensor->size + 1) : NULL;
        if (bytes != NULL) {
            (void)coffer_read(model, tensor, bytes, tensor->size, NULL, &err);
        }
        free(bytes);
    }
    coffer_close(written);
    coffer_close(model);
}

/* The bytes of tensors may be damaged, which shows only when they are carried: then there is no memory of them. */
static uint8_t *write_import(coffer_import *made, size_t *written)
{
    coffer_error err = { 0 };
    uint64_t head = 0;
    coffer_header *header = NULL;
    coffer_writer *writer = NULL;
    coffer_read_options reading = COFFER_READ_OPTIONS_INIT;
    reading.threads = 1;
    expect(coffer_header_new(&header, NULL, &err) == COFFER_OK, "a header begins");
    expect(coffer_import_declare(made, header, &err) == COFFER_OK, "what is accepted can be declared");
    expect(coffer_header_build(header, NULL, NULL, &head, NULL, &err) == COFFER_OK, "and is a file");
    const size_t size = (size_t)(head + coffer_import_summarize(made)->output);
    uint8_t *memory = malloc(size);
    expect(memory != NULL, "there is memory");
    expect(coffer_writer_open_memory(&writer, header, memory, size, NULL, &err) == COFFER_OK, "it can be written");
    const bool carried = coffer_import_carry(made, writer, false, &reading, &err) == COFFER_OK;
    if (carried) {
        expect(coffer_writer_finish(writer, &err) == COFFER_OK, "writing ends");
        expect_written(made, memory, size);
    } else {
        expect(err.message[0] != '\0', "a failure says what it is");
        free(memory);
    }
    coffer_writer_free(writer);
    coffer_header_free(header);
    *written = size;
    return carried ? memory : NULL;
}

static void import_bytes(const uint8_t *bytes, size_t size, const char *path, const coffer_import_options *options)
{
    fuzz_file file = { bytes, size, 0 };
    const coffer_input_functions functions = {
        .read = read_fuzz_file, .beside = open_fuzz_file, .ctx = &file, .size = size, .path = path
    };
    coffer_error err = { 0 };
    coffer_input *input = NULL;
    coffer_import *made = NULL;
    expect(coffer_input_open_functions(&input, &functions, NULL, &err) == COFFER_OK, "the input opens");
    const coffer_status status = coffer_import_open(&made, input, options, &err);
    expect(status == COFFER_OK || (err.code == status && err.message[0] != '\0'), "a failure says what it is");
    expect(status != COFFER_ERR_PLAN && status != COFFER_ERR_ARGUMENT, "readers make plans that their judge knows");
    if (status == COFFER_OK) {
        const coffer_import_summary *summary = coffer_import_summarize(made);
        expect(summary->total == summary->written + summary->aliased + summary->skipped + summary->unreferenced,
               "the bytes add up");
        if (!options->scan && summary->output <= FUZZ_MAX_OUTPUT) {
            size_t written = 0;
            uint8_t *memory = write_import(made, &written);
            read_as_model(made, memory, written);
            free(memory);
            return;
        }
    }
    coffer_import_free(made);
    coffer_input_free(input);
}

/* As it is read by default, with everything that can be asked for, and scanned. */
static void import_all_ways(const uint8_t *bytes, size_t size, const char *path)
{
    coffer_import_options plain = COFFER_IMPORT_OPTIONS_INIT;
    coffer_import_options all = COFFER_IMPORT_OPTIONS_INIT;
    coffer_import_options scan = COFFER_IMPORT_OPTIONS_INIT;
    const uint8_t *edge = guarded_copy(bytes, size);
    plain.max_metadata = (uint64_t)4 << 20;
    all.max_metadata = (uint64_t)4 << 20;
    all.scalars = COFFER_SCALARS_METADATA;
    all.ties = COFFER_TIES_KEEP;
    all.skip_unsupported = true;
    all.complex128 = true;
    all.packed = true;
    all.constants = true;
    scan.scan = true;
    if (edge != NULL) {
        import_bytes(edge, size, path, &plain);
        import_bytes(edge, size, path, &all);
        import_bytes(edge, size, path, &scan);
    }
}

#endif
