/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The types of GGUF's tensors: plain ones, which are dtypes, and block types, whose rows are blocks of quantised elements.
 * One table lists both. Pure: no I/O, no allocation.
 */
#ifndef COFFER_CODEC_GGUF_BLOCKS_H
#define COFFER_CODEC_GGUF_BLOCKS_H

#include "coffer.h"

/* Most elements of one block. */
#define COFFER__GGUF_BLOCK_MAX 256
/* Numbers of types are below that. */
#define COFFER__GGUF_TYPES 43
/* The one type whose tensors may have factors beside them (gguf_scales.h). */
#define COFFER__GGUF_NVFP4 40u

typedef struct coffer__gguf_type {
    const char *name; /* "Q4_K" */
    /* The values of a block, exact in F32 up to one rounding; NULL for a plain type. */
    void (*decode)(const uint8_t *block, float *values);
    uint32_t number;    /* in files */
    uint32_t elements;  /* of a block; 1 for a plain type */
    uint32_t size;      /* bytes of a block */
    coffer_dtype dtype; /* of a plain type; COFFER_UNKNOWN_DTYPE for blocks */
} coffer__gguf_type;

/* The type of a number; NULL: none that is published and found in files. */
const coffer__gguf_type *coffer__gguf_type_of(uint32_t number);
/* Decodes `count` blocks to elements of F32, F16 or BF16, little-endian, rounded to nearest, ties to even. In F32 they
   are multiplied by `scale` first, which rounds once. */
void coffer__gguf_decode(const coffer__gguf_type *type, const uint8_t *blocks, size_t count, float scale,
                         coffer_dtype dtype, uint8_t *to);

#endif
