/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Differences of two tensors, by several threads (data_scan.h). They are rounded once, to F32: where both tensors are F16,
 * BF16 or F32 they are computed so, else in F64. Of every block squares are summed up in F64.
 */
#include "alloc.h"
#include "compatible.h"
#include "data_scan.h"
#include "extract.h"
#include "floats.h"

#include <string.h>

#define EXTRACT_PIECE ((size_t)1 << 18) /* elements, or bytes of what are no numbers */
#define EXTRACT_ELEMENT_SIZE 8          /* bytes, at most */
#define EXTRACT_LANES 8                 /* sums beside each other, which make a vector */

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static void extract_wide(const coffer__extract_item *item, const uint8_t *base, const uint8_t *tuned, size_t first,
                         size_t count, float *to)
{
    double from[COFFER__FLOATS_MAX];
    double of[COFFER__FLOATS_MAX];
    (void)coffer_decode(item->base->dtype, base, first, count, from);
    (void)coffer_decode(item->tuned->dtype, tuned, first, count, of);
    for (size_t i = 0; i < count; i++) {
        to[i] = (float)(of[i] - from[i]);
    }
}

static void extract_narrow(const coffer__extract_item *item, const uint8_t *base, const uint8_t *tuned, size_t first,
                           size_t count, float *to)
{
    float from[COFFER__FLOATS_MAX];
    float of[COFFER__FLOATS_MAX];
    coffer__floats_decode(item->base->dtype, base + first * (coffer_dtype_bits(item->base->dtype) / 8), count, from);
    coffer__floats_decode(item->tuned->dtype, tuned + first * (coffer_dtype_bits(item->tuned->dtype) / 8), count, of);
    for (size_t i = 0; i < count; i++) {
        to[i] = of[i] - from[i];
    }
}

static double extract_square(const float *values, size_t count)
{
    double lanes[EXTRACT_LANES] = { 0 };
    double sum = 0;
    size_t i = 0;
    for (; count - i >= EXTRACT_LANES; i += EXTRACT_LANES) {
        for (size_t k = 0; k < EXTRACT_LANES; k++) {
            lanes[k] += (double)values[i + k] * (double)values[i + k];
        }
    }
    for (; i < count; i++) {
        sum += (double)values[i] * (double)values[i];
    }
    for (size_t k = 0; k < EXTRACT_LANES; k++) {
        sum += lanes[k];
    }
    return sum;
}

/* `to` may be NULL, where only the square is wanted. */
static double extract_numbers(const coffer__extract_item *item, const uint8_t *base, const uint8_t *tuned, size_t count,
                              float *to)
{
    float block[COFFER__FLOATS_MAX] = { 0 };
    const bool narrow = coffer__floats_have(item->base->dtype) && coffer__floats_have(item->tuned->dtype);
    double square = 0;
    for (size_t done = 0; done < count; done += COFFER__FLOATS_MAX) {
        const size_t now = count - done < COFFER__FLOATS_MAX ? count - done : COFFER__FLOATS_MAX;
        float *values = to != NULL ? to + done : block;
        if (narrow) {
            extract_narrow(item, base, tuned, done, now, values);
        } else {
            extract_wide(item, base, tuned, done, now, values);
        }
        square += extract_square(values, now);
    }
    return square;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static coffer_status extract_read(const coffer *model, const coffer_tensor *tensor, uint64_t first, size_t count,
                                  uint8_t *to, coffer_error *err)
{
    coffer_read_options alone = COFFER_READ_OPTIONS_INIT;
    const uint64_t size = coffer__compatible_numbers(tensor) ? coffer_dtype_bits(tensor->dtype) / 8 : 1;
    alone.threads = 1;
    return coffer_read_part(model, tensor, first * size, to, count * size, &alone, err);
}

/* A piece of both tensors: the base's comes first in memory. */
static coffer_status extract_read_both(const coffer_extraction *extraction, const coffer__extract_item *item,
                                       uint64_t first, size_t count, uint8_t *memory, coffer_error *err)
{
    const coffer_status status = extract_read(extraction->base, item->base, first, count, memory, err);
    return status == COFFER_OK ? extract_read(extraction->tuned, item->tuned, first, count,
                                              memory + EXTRACT_PIECE * EXTRACT_ELEMENT_SIZE, err)
                               : status;
}

/* ---- all items --------------------------------------------------------------------------------------------------- */

typedef struct extract_comparing {
    const coffer_extraction *extraction;
    double *squares; /* of each piece */
} extract_comparing;

static uint64_t extract_length(const void *ctx, size_t i)
{
    const extract_comparing *comparing = ctx;
    const coffer_tensor *tensor = comparing->extraction->items[i].base;
    return coffer__compatible_numbers(tensor) ? coffer_tensor_elements(tensor) : tensor->size;
}

/* Bytes that are the same need no numbers, and may well be NaNs. */
static coffer_status extract_look(void *ctx, const coffer__data_scan_part *piece, uint8_t *memory, coffer_error *err)
{
    const extract_comparing *comparing = ctx;
    const coffer__extract_item *item = &comparing->extraction->items[piece->tensor];
    const uint8_t *tuned = memory + EXTRACT_PIECE * EXTRACT_ELEMENT_SIZE;
    const bool numbers = coffer__compatible_numbers(item->base);
    const size_t size = piece->count * (numbers ? coffer_dtype_bits(item->base->dtype) / 8 : 1);
    const coffer_status status =
        extract_read_both(comparing->extraction, item, piece->first, piece->count, memory, err);
    if (status == COFFER_OK && (item->base->dtype != item->tuned->dtype || memcmp(memory, tuned, size) != 0)) {
        comparing->squares[piece->number] = numbers ? extract_numbers(item, memory, tuned, piece->count, NULL) : 1;
    }
    return status;
}

coffer_status coffer__extract_compare(coffer_extraction *extraction, const coffer_read_options *reading,
                                      coffer_error *err)
{
    extract_comparing comparing = { .extraction = extraction };
    coffer__data_scan scan = { .allocator = &extraction->allocator,
                               .tensor_count = extraction->count,
                               .length = extract_length,
                               .look = extract_look,
                               .ctx = &comparing,
                               .piece_length = EXTRACT_PIECE,
                               .memory_size = 2 * EXTRACT_PIECE * EXTRACT_ELEMENT_SIZE };
    for (size_t i = 0; i < extraction->count; i++) {
        scan.total += extract_length(&comparing, i);
    }
    const size_t pieces = (size_t)coffer__data_scan_all_parts(&scan);
    comparing.squares = coffer__alloc_array(&extraction->allocator, pieces, sizeof *comparing.squares, err);
    const coffer_status status =
        comparing.squares != NULL ? coffer__data_scan_run(&scan, reading, err) : COFFER_ERR_MEMORY;
    const double *square = comparing.squares;
    for (size_t i = 0; i < extraction->count && status == COFFER_OK; i++) {
        for (uint64_t left = coffer__data_scan_parts(&scan, i); left > 0; left--) {
            extraction->items[i].square += *square++;
        }
    }
    coffer__free_array(&extraction->allocator, comparing.squares, pieces, sizeof *comparing.squares);
    return status;
}

/* ---- a stretch of one -------------------------------------------------------------------------------------------- */

typedef struct extract_stretch {
    const coffer_extraction *extraction;
    const coffer__extract_item *item;
    uint64_t first;
    size_t count;
    float *to;
} extract_stretch;

static uint64_t extract_stretch_length(const void *ctx, size_t i)
{
    const extract_stretch *stretch = ctx;
    (void)i;
    return stretch->count;
}

static coffer_status extract_stretch_look(void *ctx, const coffer__data_scan_part *piece, uint8_t *memory,
                                          coffer_error *err)
{
    const extract_stretch *stretch = ctx;
    const coffer_status status =
        extract_read_both(stretch->extraction, stretch->item, stretch->first + piece->first, piece->count, memory, err);
    if (status == COFFER_OK) {
        (void)extract_numbers(stretch->item, memory, memory + EXTRACT_PIECE * EXTRACT_ELEMENT_SIZE, piece->count,
                              stretch->to + piece->first);
    }
    return status;
}

coffer_status coffer__extract_subtract(const coffer_extraction *extraction, const coffer__extract_item *item,
                                       uint64_t first, size_t count, float *to, const coffer_read_options *reading,
                                       coffer_error *err)
{
    extract_stretch stretch = { .extraction = extraction, .item = item, .first = first, .count = count };
    const coffer__data_scan scan = { .allocator = &extraction->allocator,
                                     .tensor_count = 1,
                                     .length = extract_stretch_length,
                                     .look = extract_stretch_look,
                                     .ctx = &stretch,
                                     .piece_length = EXTRACT_PIECE,
                                     .memory_size = 2 * EXTRACT_PIECE * EXTRACT_ELEMENT_SIZE };
    stretch.to = to;
    return coffer__data_scan_run(&scan, reading, err);
}
