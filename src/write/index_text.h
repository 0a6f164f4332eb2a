/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one spelling of index files that this library writes, with two spaces a level and in ASCII alone, as the
 * ecosystem's other writers have it:
 *
 *       {
 *         "metadata": …,
 *         "weight_map": {
 *           "lm_head.weight": "model-00002-of-00002.safetensors",
 *           …
 *         }
 *       }
 *
 * The caller puts the value of the metadata. Text is measured first (`out` NULL) and then written; `size` counts it
 * either way, and the same calls must be made both times.
 */
#ifndef COFFER_WRITE_INDEX_TEXT_H
#define COFFER_WRITE_INDEX_TEXT_H

#include "coffer.h"
#include "names.h"

/* A text in progress. Begins as zeros, or with `out` set to memory of the size that was
   measured. */
typedef struct coffer__index_writer {
    char *out;
    size_t size;
    bool has_weights;
} coffer__index_writer;

/* The parts of the text around what the caller puts: up to the value of the metadata; from its end to the first
   weight; the rest. The last one returns the size. */
void coffer__index_begin(coffer__index_writer *text);
void coffer__index_begin_weights(coffer__index_writer *text);
size_t coffer__index_end(coffer__index_writer *text);
/* Puts a tensor and the name of its file, which is UTF-8 like all names. */
void coffer__index_put_weight(coffer__index_writer *text, coffer__name tensor, const char *file);

/* Puts the metadata of an older index (`len` bytes; 0: it had none), byte for byte, with another total_size: its value was the
   `total_len` bytes at `total_from`; 0: there was none. */
void coffer__index_put_metadata(coffer__index_writer *text, coffer__name metadata, size_t total_from, size_t total_len,
                                uint64_t total);

/* Puts bytes as they are; the caller answers for their being JSON. */
void coffer__index_put(coffer__index_writer *text, const char *piece, size_t size);
#define COFFER__INDEX_PUT(text, literal) coffer__index_put(text, literal, sizeof(literal) - 1)
void coffer__index_put_number(coffer__index_writer *text, uint64_t value);
void coffer__index_put_string(coffer__index_writer *text, const char *string, size_t length); /* of UTF-8, quoted */

#endif
