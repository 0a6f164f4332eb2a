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

/* The bytes of tensors may be damaged, which shows only when they are carried. */
static void write_import(coffer_import *made)
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
    if (coffer_import_carry(made, writer, false, &reading, &err) == COFFER_OK) {
        expect(coffer_writer_finish(writer, &err) == COFFER_OK, "writing ends");
        expect_written(made, memory, size);
    } else {
        expect(err.message[0] != '\0', "a failure says what it is");
    }
    coffer_writer_free(writer);
    coffer_header_free(header);
    free(memory);
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
            write_import(made);
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
