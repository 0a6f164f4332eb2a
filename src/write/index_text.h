/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one spelling of index files that are written, in two spaces a level and in ASCII alone, as the ecosystem's other writers have it:
 *
 *     {
 *       "metadata": …,
 *       "weight_map": {
 *         "lm_head.weight": "model-00002-of-00002.safetensors",
 *         …
 *       }
 *     }
 *
 * What the metadata are is the caller's. Text is measured first (`out` NULL), and then written; `size` counts it either way.
 */
#ifndef COFFER_WRITE_INDEX_TEXT_H
#define COFFER_WRITE_INDEX_TEXT_H

#include "coffer.h"
#include "names.h"

typedef struct coffer__index_text {
    char *out;
    size_t size;
    bool has_weights;
} coffer__index_text;

/* Up to where the value of the metadata begins; from its end to the first weight; the rest. The last returns the size. */
void coffer__index_begin(coffer__index_text *text);
void coffer__index_begin_weights(coffer__index_text *text);
size_t coffer__index_end(coffer__index_text *text);
/* Which file, in UTF-8 as all names, a tensor is in. */
void coffer__index_put_weight(coffer__index_text *text, coffer__name tensor, const char *file);

void coffer__index_put(coffer__index_text *text, const char *piece, size_t size);
#define COFFER__INDEX_PUT(text, literal) coffer__index_put(text, literal, sizeof(literal) - 1)
void coffer__index_put_number(coffer__index_text *text, uint64_t value);
void coffer__index_put_string(coffer__index_text *text, const char *string, size_t length); /* of UTF-8, quoted */

#endif
