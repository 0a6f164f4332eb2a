/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A window over a file of an input: for readers that follow small descriptions through a large file, each of which may lie
 * anywhere. What lies near what was read before costs no read.
 */
#ifndef COFFER_IMPORT_FILE_WINDOW_H
#define COFFER_IMPORT_FILE_WINDOW_H

#include "reader.h"

/* Bytes that are read at once. Descriptions between tensors are short, and at a URL all that is read beyond them is
   transferred for nothing. */
#define COFFER__FILE_WINDOW ((size_t)16 * 1024)

typedef struct coffer__file_window {
    const coffer__input_files *input;
    uint32_t file;
    uint64_t file_size;
    uint64_t at; /* of the first byte in the file */
    size_t size; /* bytes that are there */
    uint8_t bytes[COFFER__FILE_WINDOW];
} coffer__file_window;

/* A window, for coffer__file_window_free; NULL without memory. It is too large for a stack. */
coffer__file_window *coffer__file_window_new(const coffer__input_files *input, const coffer_allocator *allocator,
                                             coffer_error *err);
void coffer__file_window_free(coffer__file_window *window, const coffer_allocator *allocator);
/* `size` bytes at `at`, at most COFFER__FILE_WINDOW; valid until the next call. COFFER_ERR_DAMAGED for a range that is not
   within the file. */
coffer_status coffer__file_window_get(coffer__file_window *window, uint64_t at, size_t size, const uint8_t **bytes,
                                      coffer_error *err);
/* As many as there are before the byte `end` of the file, but at most `most`; *size says how many. */
coffer_status coffer__file_window_peek(coffer__file_window *window, uint64_t at, uint64_t end, size_t most,
                                       const uint8_t **bytes, size_t *size, coffer_error *err);

#endif
