/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A walk over JSON: every value is visited with the keys that lead to it. What describes quantised layers is small objects
 * of many programs, of which a few members count. Without memory of its own and without recursion; keys with escapes
 * match no name.
 */
#ifndef COFFER_CODEC_QUANT_JSON_H
#define COFFER_CODEC_QUANT_JSON_H

#include "coffer.h"

/* Keys of a path that are kept: values that lie deeper are not visited. */
#define COFFER__WALK_DEPTH 8

/* A piece of the text. */
typedef struct coffer__quant_span {
    const char *text;
    size_t len;
} coffer__quant_span;

typedef struct coffer__walk_value {
    coffer__quant_span path[COFFER__WALK_DEPTH]; /* of an element of a list: an empty key */
    size_t depth;
    char kind;               /* '"', '0' a number, 'a' a literal, '{' or '[' one that begins */
    coffer__quant_span text; /* of a string what is between the quotes */
} coffer__walk_value;

typedef void coffer__walk_visit(void *ctx, const coffer__walk_value *value);

/* COFFER_ERR_JSON and the like for what is no JSON; `noun` is what messages call it. */
coffer_status coffer__walk_json(const char *text, size_t size, const char *noun, coffer__walk_visit *visit, void *ctx,
                                coffer_error *err);

bool coffer__span_is(coffer__quant_span span, const char *text);
/* A decimal integer, or 0. */
uint64_t coffer__span_number(coffer__quant_span span);
/* A float; false for what is none, or beyond F32's range. */
bool coffer__span_float(coffer__quant_span span, float *value);
/* What PyTorch and transformers call F16, BF16 and F32; else COFFER_UNKNOWN_DTYPE. */
coffer_dtype coffer__span_dtype(coffer__quant_span span);
/* Copies it with a NUL; what does not fit becomes "". */
void coffer__span_copy(coffer__quant_span span, char *text, size_t size);

#endif
