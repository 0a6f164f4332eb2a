/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a scan says of many files, which come from standard input one after another: a number of 32 bits, little-endian,
 * and so many bytes. For each a line with one letter:
 *
 *   c   clean                     o   findings of weight opaque
 *   u   nothing that is known     d   findings of weight danger
 *   e   it could not be read
 */
#include "coffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct verdict_file {
    const uint8_t *bytes;
    size_t size;
} verdict_file;

static coffer_status verdict_read(void *ctx, uint32_t number, uint64_t offset, void *buffer, size_t size,
                                  coffer_error *err)
{
    const verdict_file *file = ctx;
    (void)number;
    (void)err;
    if (offset > file->size || size > file->size - offset) {
        abort();
    }
    memcpy(buffer, file->bytes + offset, size);
    return COFFER_OK;
}

static char verdict_of(const uint8_t *bytes, size_t size)
{
    verdict_file file = { bytes, size };
    const coffer_input_functions functions = { .read = verdict_read, .ctx = &file, .size = size };
    coffer_import_options wants = COFFER_IMPORT_OPTIONS_INIT;
    coffer_error err;
    coffer_input *input = NULL;
    coffer_import *import = NULL;
    wants.scan = true;
    wants.skip_unsupported = true;
    coffer_status status = coffer_input_open_functions(&input, &functions, NULL, &err);
    if (status == COFFER_OK) {
        status = coffer_import_open(&import, input, &wants, &err);
    }
    char verdict = status == COFFER_ERR_UNKNOWN_INPUT ? 'u' : 'e';
    if (status == COFFER_OK) {
        const coffer_import_summary *summary = coffer_import_summarize(import);
        verdict = summary->danger_count > 0 ? 'd' : summary->opaque_count > 0 ? 'o' : 'c';
    }
    coffer_import_free(import);
    coffer_input_free(input);
    return verdict;
}

int main(void)
{
    uint8_t head[4];
    while (fread(head, sizeof head, 1, stdin) == 1) {
        const size_t size = (size_t)head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 | (size_t)head[3] << 24;
        uint8_t *bytes = malloc(size + 1);
        if (bytes == NULL || fread(bytes, 1, size, stdin) != size) {
            return 3;
        }
        putchar(verdict_of(bytes, size));
        putchar('\n');
        free(bytes);
    }
    return 0;
}
