/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding of quantised layers: see quant.h for what a layer is. A row is decoded in segments of at most 1024 columns, each
 * in three arrays of floats: the codes, their scales, and what is added or taken. So the places of codes, those of scales,
 * and the arithmetic are apart, and the arithmetic is loops that compilers make vectors of.
 */
#include "quant.h"

#include "bytes.h"
#include "dtype.h"
#include "floats.h"

#include <string.h>

#define QUANT_SEGMENT COFFER__FLOATS_MAX
#define QUANT_RUN 128     /* bytes of a line that are read at least */
#define QUANT_GROUPS 1024 /* of which the scales of a row are kept, where columns have groups in any order */

const float coffer__quant_e2m1[16] = { 0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                       -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f };

/* A tile that is being decoded. */
typedef struct quant_work {
    const coffer__quant *quant;
    const coffer__quant_tile *tile;
    const uint8_t *const *bytes;
    coffer__quant_read reads[COFFER__QUANT_ROLES];
    coffer_dtype dtype; /* of the result */
    coffer_dtype round; /* between steps */
    coffer__quant_odd *odd;
    bool indexed;     /* columns name their groups */
    float table[256]; /* of codes of a byte */
} quant_work;

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* Sign, exponent and mantissa of a byte as a float; what is special is the caller's. */
static float quant_small_float(uint32_t code, unsigned mantissa_bits, int bias)
{
    const uint32_t mantissa = code & ((1u << mantissa_bits) - 1);
    const uint32_t exponent = (code & 0x7F) >> mantissa_bits;
    const uint32_t sign = (code >> 7) << 31;
    if (exponent == 0) {
        /* Less than the least normal number: the mantissa counts units. */
        const uint32_t unit = (uint32_t)(127 + 1 - bias - (int)mantissa_bits) << 23;
        const float size = (float)mantissa * coffer__float_of_bits(unit);
        return coffer__float_of_bits(coffer__float_bits(size) | sign);
    }
    return coffer__float_of_bits(sign | (uint32_t)((int)exponent + 127 - bias) << 23 |
                                 mantissa << (23 - mantissa_bits));
}

static float quant_e4m3(uint32_t code)
{
    return (code & 0x7F) == 0x7F ? coffer__float_of_bits(UINT32_C(0x7FC00000)) : quant_small_float(code, 3, 7);
}

static float quant_e5m2(uint32_t code)
{
    if ((code & 0x7C) == 0x7C) {
        return coffer__float_of_bits((code & 0x80) << 24 |
                                     ((code & 3) != 0 ? UINT32_C(0x7FC00000) : COFFER__FLOATS_INFINITY));
    }
    return quant_small_float(code, 2, 15);
}

/* 2^(code - 127); the least is below the normal floats, and the last is NaN. */
static float quant_e8m0(uint32_t code)
{
    const uint32_t bits = code == 0 ? UINT32_C(0x00400000) : code == 255 ? UINT32_C(0x7FC00000) : code << 23;
    return coffer__float_of_bits(bits);
}

float coffer__quant_value(coffer_dtype dtype, const uint8_t *bytes)
{
    float value = 0;
    switch (dtype) {
    case COFFER_F8_E4M3:
        return quant_e4m3(*bytes);
    case COFFER_F8_E5M2:
        return quant_e5m2(*bytes);
    case COFFER_F8_E8M0:
        return quant_e8m0(*bytes);
    case COFFER_I8:
        return (float)(*bytes ^ 0x80) - 128.0f;
    case COFFER_U8:
        return (float)*bytes;
    default:
        coffer__floats_decode(dtype, bytes, 1, &value);
        return value;
    }
}

/* Rounds numbers to F16 or BF16. */
static void quant_round(coffer_dtype dtype, float *values, size_t count)
{
    uint8_t codes[QUANT_SEGMENT * 2];
    if (dtype != COFFER_F32) {
        coffer__floats_encode(dtype, values, count, codes, NULL);
        coffer__floats_decode(dtype, codes, count, values);
    }
}

static bool quant_is_finite(float value)
{
    return (coffer__float_bits(value) & ~UINT32_C(0x80000000)) < COFFER__FLOATS_INFINITY;
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

static bool quant_is_along(const coffer__quant *quant)
{
    for (unsigned i = 0; i < COFFER__QUANT_ROLES; i++) {
        if (quant->parts[i].ending != NULL && quant->parts[i].along) {
            return true;
        }
    }
    return false;
}

/* What is transposed is read in short runs, one of each line, so its tiles have so many rows that the runs of its codes are
   not too short. An odd number of 32 rows: else runs would be powers of two, and those of all lines in the same few places
   of the processor's cache. */
static uint64_t quant_rows_along(const coffer__quant *quant)
{
    const coffer__quant_part *codes = &quant->parts[COFFER__QUANT_CODES];
    const uint64_t least = QUANT_RUN * codes->rows / codes->units;
    const uint64_t usual = COFFER__QUANT_TILE / quant->columns;
    const uint64_t many = (usual > least ? usual : least) / COFFER__QUANT_ALONG;
    return COFFER__QUANT_ALONG * (many | 1);
}

uint64_t coffer__quant_most_rows(const coffer__quant *quant)
{
    if (quant_is_along(quant)) {
        return quant_rows_along(quant);
    }
    const uint64_t rows = COFFER__QUANT_TILE / quant->columns;
    return rows < 1 ? 1 : rows;
}

coffer__quant_tile coffer__quant_tile_at(const coffer__quant *quant, uint64_t row)
{
    const uint64_t all = quant->count / quant->columns + (quant->count % quant->columns != 0);
    coffer__quant_tile tile = { .matrix = row / quant->rows, .row = row % quant->rows };
    uint64_t rows = coffer__quant_most_rows(quant);
    const uint64_t left = quant->rows - tile.row < all - row ? quant->rows - tile.row : all - row;
    rows = rows < left ? rows : left;
    if (quant->slice != 0) {
        const uint64_t in_slice = quant->slice - tile.row % quant->slice;
        rows = rows < in_slice ? rows : in_slice;
    }
    tile.rows = (size_t)rows;
    return tile;
}

uint64_t coffer__quant_tile_count(const coffer__quant *quant, const coffer__quant_tile *tile)
{
    const uint64_t first = (tile->matrix * quant->rows + tile->row) * quant->columns;
    const uint64_t all = tile->rows * quant->columns;
    return all < quant->count - first ? all : quant->count - first;
}

/* The first line that a row needs, in its matrix. */
static uint64_t quant_first_line(const coffer__quant *quant, const coffer__quant_part *part, uint64_t row, bool codes)
{
    const uint64_t at = codes && quant->slice != 0 ? row % quant->slice : row;
    return at / part->rows * part->units;
}

static coffer__quant_read quant_read_of(const coffer__quant *quant, const coffer__quant_tile *tile, unsigned role)
{
    const coffer__quant_part *part = &quant->parts[role];
    coffer__quant_read read = { .count = 1 };
    if (part->ending == NULL) {
        return read;
    }
    const uint64_t start = tile->matrix * part->lines * part->line;
    if (part->whole) {
        read.size = (size_t)(part->lines * part->line);
        return read;
    }
    if (part->along) {
        const uint64_t from = tile->row / part->rows * part->units;
        const uint64_t to = (tile->row + tile->rows + part->rows - 1) / part->rows * part->units;
        read.offset = start + from;
        read.size = (size_t)((to < part->line ? to : part->line) - from);
        read.stride = part->line;
        read.count = (size_t)part->lines;
        return read;
    }
    const uint64_t first = quant_first_line(quant, part, tile->row, role == COFFER__QUANT_CODES);
    const uint64_t last =
        quant_first_line(quant, part, tile->row + tile->rows - 1, role == COFFER__QUANT_CODES) + part->units;
    const uint64_t wanted = ((last < part->lines ? last : part->lines) - first) * part->line;
    read.offset = start + first * part->line;
    read.size = (size_t)(wanted < part->size - read.offset ? wanted : part->size - read.offset);
    return read;
}

void coffer__quant_reads(const coffer__quant *quant, const coffer__quant_tile *tile,
                         coffer__quant_read reads[COFFER__QUANT_ROLES])
{
    for (unsigned i = 0; i < COFFER__QUANT_ROLES; i++) {
        reads[i] = quant_read_of(quant, tile, i);
    }
}

/* The line of a part, by lines, that a row of the tile has. */
static const uint8_t *quant_line(const quant_work *work, unsigned role, uint64_t row)
{
    const coffer__quant_part *part = &work->quant->parts[role];
    if (part->whole) {
        return work->bytes[role];
    }
    const bool codes = role == COFFER__QUANT_CODES;
    const uint64_t first = quant_first_line(work->quant, part, work->tile->row, codes);
    return work->bytes[role] + (quant_first_line(work->quant, part, row, codes) - first) * part->line;
}

/* ---- codes ------------------------------------------------------------------------------------------------------- */

/* `bits` bits from bit `at` on, of little-endian words that are `stride` bytes apart. */
static uint32_t quant_bits(const uint8_t *words, uint64_t stride, uint64_t at, unsigned bits)
{
    const uint8_t *word = words + at / 32 * stride;
    const unsigned shift = (unsigned)(at % 32);
    uint64_t all = coffer__load_u32le(word);
    if (shift + bits > 32) {
        all |= (uint64_t)coffer__load_u32le(word + stride) << 32;
    }
    return (uint32_t)(all >> shift) & ((1u << bits) - 1);
}

/* The nibble of a word that AWQ gives to column `i` of 8. */
static unsigned quant_mixed_shift(uint64_t i)
{
    return (unsigned)(4 * ((i & 1) * 4 + i / 2 % 4));
}

static void quant_pairs(const quant_work *work, const uint8_t *line, uint64_t column, size_t count, float *values)
{
    const float *table = work->quant->values;
    const unsigned first = work->quant->high_first ? 4 : 0;
    const unsigned second = 4 - first;
    size_t i = 0;
    if (column % 2 != 0 && count > 0) {
        values[i++] = table[line[column / 2] >> second & 15];
    }
    const uint8_t *bytes = line + (column + 1) / 2;
    for (; i + 2 <= count; i += 2) {
        const unsigned byte = *bytes++;
        values[i] = table[byte >> first & 15];
        values[i + 1] = table[byte >> second & 15];
    }
    if (i < count) {
        values[i] = table[*bytes >> first & 15];
    }
}

/* Codes whose number of bits divides 32: whole words at a time, from a multiple of what a word has. */
static void quant_whole_words(const quant_work *work, const uint8_t *words, uint64_t stride, size_t count,
                              float *values)
{
    const unsigned bits = work->quant->bits;
    const uint32_t mask = (1u << bits) - 1;
    const size_t each = 32 / bits;
    for (size_t i = 0; i < count; i += each, words += stride) {
        const uint32_t word = coffer__load_u32le(words);
        const size_t here = count - i < each ? count - i : each;
        for (size_t k = 0; k < here; k++) {
            values[i + k] = (float)((int32_t)(word >> (k * bits) & mask) - work->quant->offset);
        }
    }
}

static void quant_run(const quant_work *work, const uint8_t *words, uint64_t stride, uint64_t column, size_t count,
                      float *values)
{
    const unsigned bits = work->quant->bits;
    if (32 % bits == 0) {
        quant_whole_words(work, words + column * bits / 32 * stride, stride, count, values);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)((int32_t)quant_bits(words, stride, (column + i) * bits, bits) - work->quant->offset);
    }
}

static void quant_words(const quant_work *work, const uint8_t *line, uint64_t column, size_t count, float *values)
{
    const unsigned bits = work->quant->bits;
    const unsigned each = 32 / bits;
    for (size_t i = 0; i < count; i++) {
        const uint64_t at = column + i;
        const uint32_t word = coffer__load_u32le(line + at / each * 4);
        values[i] = (float)((int32_t)(word >> (at % each * bits) & ((1u << bits) - 1)) - work->quant->offset);
    }
}

static void quant_mixed(const quant_work *work, uint64_t row, uint64_t column, size_t count, float *values)
{
    const size_t line = work->reads[COFFER__QUANT_CODES].size;
    const uint64_t here = row - work->tile->row;
    const uint8_t *words = work->bytes[COFFER__QUANT_CODES] + column * line + here / 8 * 4;
    const unsigned shift = quant_mixed_shift(here);
    for (size_t i = 0; i < count; i++, words += line) {
        values[i] = (float)(coffer__load_u32le(words) >> shift & 15);
    }
}

static void quant_turned(const quant_work *work, uint64_t row, uint64_t column, size_t count, float *values)
{
    const size_t line = work->reads[COFFER__QUANT_CODES].size;
    const uint64_t here = row - work->tile->row;
    const uint8_t *bytes = work->bytes[COFFER__QUANT_CODES] + column * line + here / 2;
    const unsigned shift = here % 2 != 0 ? 4 : 0;
    for (size_t i = 0; i < count; i++, bytes += line) {
        values[i] = work->quant->values[*bytes >> shift & 15];
    }
}

static void quant_slice(const quant_work *work, uint64_t row, uint64_t column, size_t count, float *values)
{
    const coffer__quant *quant = work->quant;
    const uint8_t *line = quant_line(work, COFFER__QUANT_CODES, row);
    const uint64_t number = row / quant->slice;
    const unsigned top = quant->unit == 4 ? 30 : 8;
    const unsigned shift = (unsigned)(quant->high_first ? top - quant->bits * (number + 1) : quant->bits * number);
    const uint32_t mask = (1u << quant->bits) - 1;
    for (size_t i = 0; i < count; i++) {
        const uint32_t unit = quant->unit == 4 ? coffer__load_u32le(line + (column + i) * 4) : line[column + i];
        values[i] = (float)((int32_t)(unit >> shift & mask) - quant->offset);
    }
}

static void quant_by_table(const quant_work *work, const uint8_t *codes, size_t count, float *values)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = work->table[codes[i]];
    }
}

static void quant_codes(const quant_work *work, uint64_t row, uint64_t column, size_t count, float *values)
{
    const uint64_t word = (row - work->tile->row) * 4;
    switch (work->quant->codes) {
    case COFFER__CODES_PAIRS:
        quant_pairs(work, quant_line(work, COFFER__QUANT_CODES, row), column, count, values);
        break;
    case COFFER__CODES_RUN:
        quant_run(work, quant_line(work, COFFER__QUANT_CODES, row), 4, column, count, values);
        break;
    case COFFER__CODES_WORDS:
        quant_words(work, quant_line(work, COFFER__QUANT_CODES, row), column, count, values);
        break;
    case COFFER__CODES_DOWN:
        quant_run(work, work->bytes[COFFER__QUANT_CODES] + word, work->reads[COFFER__QUANT_CODES].size, column, count,
                  values);
        break;
    case COFFER__CODES_MIXED:
        quant_mixed(work, row, column, count, values);
        break;
    case COFFER__CODES_SLICE:
        quant_slice(work, row, column, count, values);
        break;
    case COFFER__CODES_TURNED:
        quant_turned(work, row, column, count, values);
        break;
    default:
        quant_by_table(work, quant_line(work, COFFER__QUANT_CODES, row) + column, count, values);
        break;
    }
}

/* ---- scales and zero points -------------------------------------------------------------------------------------- */

static float quant_rounded(coffer_dtype dtype, float value)
{
    quant_round(dtype, &value, 1);
    return value;
}

/* As it is stored, times or over the global one. Every scale that is used comes here, and what is odd is counted. */
static float quant_scaled(const quant_work *work, float stored)
{
    const coffer__quant *quant = work->quant;
    float scale = stored;
    switch (quant->scaling) {
    case COFFER__SCALE_ROUNDED:
        scale = quant_rounded(work->dtype, stored);
        break;
    case COFFER__SCALE_TIMES:
        scale = stored * quant->global;
        break;
    case COFFER__SCALE_OVER:
        scale = stored / quant->global;
        break;
    case COFFER__SCALE_TIMES_ROUNDED:
        scale = quant_rounded(work->dtype, quant_rounded(work->dtype, quant->global) * stored);
        break;
    default:
        break;
    }
    work->odd->scales += !quant_is_finite(scale);
    work->odd->negative += scale < 0;
    return scale;
}

/* Where the scale of a row and a group is in a tile of 128 rows by 4 groups. */
static uint64_t quant_tiled_at(uint64_t row, uint64_t group)
{
    return group / 4 * 512 + row % 32 * 16 + row % 128 / 32 * 4 + group % 4;
}

/* Scales of a byte, which a map and scales of their own give their values. */
static float quant_nested(const quant_work *work, uint64_t at)
{
    const coffer__quant *quant = work->quant;
    const uint8_t *line = quant_line(work, COFFER__QUANT_SCALES, work->tile->row);
    const uint64_t first = work->reads[COFFER__QUANT_SCALES].offset;
    const float of_code =
        coffer__quant_value(COFFER_F32, work->bytes[COFFER__QUANT_INDEX] + 4 * (size_t)line[at - first]);
    const float scale =
        coffer__quant_value(COFFER_F32, work->bytes[COFFER__QUANT_ZEROS] + at / quant->nested_block * 4);
    const float product = of_code * scale;
    return product + quant->zero_nested;
}

static float quant_scale(const quant_work *work, uint64_t row, uint64_t group)
{
    const coffer__quant *quant = work->quant;
    const size_t size = coffer_dtype_bits(quant->scale_dtype) / 8;
    const coffer__quant_part *part = &quant->parts[COFFER__QUANT_SCALES];
    const uint8_t *bytes = work->bytes[COFFER__QUANT_SCALES];
    switch (quant->grid) {
    case COFFER__GRID_ALONG:
        bytes += group * work->reads[COFFER__QUANT_SCALES].size + (row - work->tile->row) * size;
        break;
    case COFFER__GRID_TILED:
        bytes = quant_line(work, COFFER__QUANT_SCALES, row) + quant_tiled_at(row, group);
        break;
    case COFFER__GRID_NESTED:
        return quant_scaled(work, quant_nested(work, (work->tile->matrix * quant->rows + row) * part->line + group));
    default:
        bytes = quant_line(work, COFFER__QUANT_SCALES, row) + group * size;
        break;
    }
    return quant_scaled(work, coffer__quant_value(quant->scale_dtype, bytes));
}

/* A zero point that is packed along rows: one is added to its whole word, carries and all, where it was stored less one. */
static float quant_zero_along(const quant_work *work, uint64_t row, uint64_t group)
{
    const coffer__quant *quant = work->quant;
    const unsigned bits = quant->zero_bits;
    const uint32_t mask = (1u << bits) - 1;
    const uint8_t *line = work->bytes[COFFER__QUANT_ZEROS] + group * work->reads[COFFER__QUANT_ZEROS].size;
    const uint64_t at = (row - work->tile->row) * bits;
    const uint32_t stored = quant_bits(line, 4, at, bits);
    if (!quant->zeros_plus_one) {
        return (float)stored;
    }
    work->odd->wrapped += stored == mask;
    if (32 % bits != 0) {
        return (float)((stored + 1) & mask);
    }
    const uint32_t ones = UINT32_MAX / mask;
    return (float)((coffer__load_u32le(line + at / 32 * 4) + ones) >> (at % 32) & mask);
}

/* A zero point that is packed down the rows of a group. */
static float quant_zero_down(const quant_work *work, uint64_t row, uint64_t group)
{
    const coffer__quant *quant = work->quant;
    const coffer__quant_part *part = &quant->parts[COFFER__QUANT_ZEROS];
    const unsigned bits = quant->zero_bits;
    const uint8_t *words = quant_line(work, COFFER__QUANT_ZEROS, row) + group * 4;
    const uint64_t at = row % part->rows * bits;
    return (float)((int32_t)quant_bits(words, part->line, at, bits) - quant->offset);
}

static float quant_zero(const quant_work *work, uint64_t row, uint64_t group)
{
    const coffer__quant *quant = work->quant;
    const uint8_t *bytes = work->bytes[COFFER__QUANT_ZEROS];
    const uint64_t here = row - work->tile->row;
    switch (quant->zeros) {
    case COFFER__ZEROS_VALUES:
        bytes = quant_line(work, COFFER__QUANT_ZEROS, row) + group * (coffer_dtype_bits(quant->zero_dtype) / 8);
        return coffer__quant_value(quant->zero_dtype, bytes);
    case COFFER__ZEROS_DOWN:
        return quant_zero_down(work, row, group);
    case COFFER__ZEROS_ALONG:
        return quant_zero_along(work, row, group);
    case COFFER__ZEROS_MIXED:
        bytes += group * work->reads[COFFER__QUANT_ZEROS].size + here / 8 * 4;
        return (float)(coffer__load_u32le(bytes) >> quant_mixed_shift(here) & 15);
    default:
        return 0;
    }
}

static void quant_fill(float *to, float value, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        to[i] = value;
    }
}

/* The scales and zero points of a segment, whose columns are in groups one after another. */
static void quant_expand(const quant_work *work, uint64_t row, uint64_t column, size_t count, float *scales,
                         float *zeros)
{
    const coffer__quant *quant = work->quant;
    for (size_t done = 0; done < count;) {
        const uint64_t group = (column + done) / quant->block_column;
        const uint64_t left = (group + 1) * quant->block_column - (column + done);
        const size_t same = left < count - done ? (size_t)left : count - done;
        quant_fill(scales + done, quant_scale(work, row, group), same);
        if (quant->zeros != COFFER__ZEROS_NONE) {
            quant_fill(zeros + done, quant_zero(work, row, group), same);
        }
        done += same;
    }
}

/* The same where a scale belongs to a column and 32 rows. */
static void quant_expand_turned(const quant_work *work, uint64_t row, uint64_t column, size_t count, float *scales)
{
    const size_t line = work->reads[COFFER__QUANT_SCALES].size;
    const uint8_t *bytes = work->bytes[COFFER__QUANT_SCALES] + column * line + (row - work->tile->row) / 32;
    uint64_t not_finite = 0;
    for (size_t i = 0; i < count; i++, bytes += line) {
        not_finite += *bytes == 255;
        scales[i] = quant_e8m0(*bytes);
    }
    work->odd->scales += not_finite;
}

/* The groups of a row, as far as they are kept. */
typedef struct quant_kept {
    float scales[QUANT_GROUPS];
    float zeros[QUANT_GROUPS];
    uint64_t count;
} quant_kept;

/* The group of a column; those that are not there are found out before anything is decoded. */
static uint64_t quant_group(const quant_work *work, uint64_t column)
{
    return coffer__load_u32le(work->bytes[COFFER__QUANT_INDEX] + column * 4);
}

static uint64_t quant_groups(const coffer__quant *quant)
{
    const coffer__quant_part *scales = &quant->parts[COFFER__QUANT_SCALES];
    return scales->along ? scales->lines : scales->line / (coffer_dtype_bits(quant->scale_dtype) / 8);
}

static void quant_keep(const quant_work *work, uint64_t row, quant_kept *kept)
{
    for (uint64_t group = 0; group < kept->count; group++) {
        kept->scales[group] = quant_scale(work, row, group);
        kept->zeros[group] = quant_zero(work, row, group);
    }
}

/* The same where each column names its group. */
static void quant_expand_indexed(const quant_work *work, const quant_kept *kept, uint64_t row, uint64_t column,
                                 size_t count, float *scales, float *zeros)
{
    for (size_t i = 0; i < count; i++) {
        const uint64_t group = quant_group(work, column + i);
        const bool is_kept = group < kept->count;
        scales[i] = is_kept ? kept->scales[group] : quant_scale(work, row, group);
        zeros[i] = is_kept ? kept->zeros[group] : quant_zero(work, row, group);
    }
}

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

static void quant_multiply(float *values, const float *by, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = values[i] * by[i];
    }
}

static void quant_divide(float *values, const float *by, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = values[i] / by[i];
    }
}

static void quant_add(float *values, const float *more, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): a layout that adds has filled them */
        values[i] = values[i] + more[i];
    }
}

static void quant_subtract(float *values, const float *less, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): a layout that subtracts has filled them */
        values[i] = values[i] - less[i];
    }
}

/* Each loop is a step by itself, so that no compiler makes one operation of two. */
static void quant_combine(const quant_work *work, float *values, const float *scales, const float *zeros, size_t count)
{
    const coffer__quant *quant = work->quant;
    switch (quant->formula) {
    case COFFER__FORMULA_SHIFTED:
        quant_subtract(values, zeros, count);
        /* Differences of integers of at most 8 bits are exact in any of the dtypes. */
        if (quant->zeros == COFFER__ZEROS_VALUES && quant->zero_dtype != COFFER_I8) {
            quant_round(work->round, values, count);
        }
        quant_multiply(values, scales, count);
        break;
    case COFFER__FORMULA_ONCE:
        quant_subtract(values, zeros, count);
        quant_multiply(values, scales, count);
        break;
    case COFFER__FORMULA_ADDED:
    case COFFER__FORMULA_TAKEN:
        quant_multiply(values, scales, count);
        quant_round(work->round, values, count);
        (quant->formula == COFFER__FORMULA_ADDED ? quant_add : quant_subtract)(values, zeros, count);
        break;
    case COFFER__FORMULA_DIVIDED:
        quant_divide(values, scales, count);
        break;
    case COFFER__FORMULA_TWICE: {
        float factors[QUANT_SEGMENT];
        quant_multiply(values, scales, count);
        quant_fill(factors, quant->global, count);
        quant_multiply(values, factors, count);
        break;
    }
    default:
        quant_multiply(values, scales, count);
        break;
    }
    if (work->round != work->dtype) {
        quant_round(work->round, values, count);
    }
}

static uint64_t quant_count_nans(const float *values, size_t count)
{
    uint32_t nans = 0;
    for (size_t i = 0; i < count; i++) {
        nans += values[i] != values[i];
    }
    return nans;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static void quant_segment(const quant_work *work, const quant_kept *kept, uint64_t row, uint64_t column, size_t count,
                          uint8_t *to)
{
    float values[QUANT_SEGMENT];
    float scales[QUANT_SEGMENT];
    float zeros[QUANT_SEGMENT];
    coffer__floats_losses losses = { 0, 0 };
    quant_codes(work, row, column, count, values);
    if (work->quant->grid == COFFER__GRID_TURNED) {
        quant_expand_turned(work, row, column, count, scales);
    } else if (kept != NULL) {
        quant_expand_indexed(work, kept, row, column, count, scales, zeros);
    } else {
        quant_expand(work, row, column, count, scales, zeros);
    }
    quant_combine(work, values, scales, zeros, count);
    work->odd->nans += quant_count_nans(values, count);
    coffer__floats_encode(work->dtype, values, count, to, &losses);
    work->odd->too_large += losses.overflowed;
}

/* A row, of which `columns` are there: the last one may lack some. */
static void quant_row(const quant_work *work, uint64_t row, uint64_t columns, uint8_t *to)
{
    quant_kept kept;
    const size_t size = coffer_dtype_bits(work->dtype) / 8;
    if (work->indexed) {
        const uint64_t groups = quant_groups(work->quant);
        kept.count = groups < QUANT_GROUPS ? groups : 0;
        quant_keep(work, row, &kept);
    }
    for (uint64_t column = 0; column < columns; column += QUANT_SEGMENT) {
        const size_t count = columns - column < QUANT_SEGMENT ? (size_t)(columns - column) : QUANT_SEGMENT;
        quant_segment(work, work->indexed ? &kept : NULL, row, column, count, to + column * size);
    }
}

/* Looks at the group of every column: whether they count, and whether all are there. */
static void quant_look_at_index(quant_work *work)
{
    const coffer__quant *quant = work->quant;
    const uint64_t groups = quant_groups(quant);
    work->indexed = quant->parts[COFFER__QUANT_INDEX].ending != NULL && quant->grid != COFFER__GRID_NESTED;
    for (uint64_t column = 0; column < quant->columns && work->indexed; column++) {
        const uint64_t group = quant_group(work, column);
        work->indexed = !(quant->index_optional && group == UINT32_MAX);
        work->odd->index = work->odd->index || (work->indexed && group >= groups);
    }
    work->odd->index = work->odd->index && work->indexed;
}

static void quant_fill_table(quant_work *work)
{
    static const coffer_dtype dtypes[] = { COFFER_F8_E4M3, COFFER_F8_E5M2, COFFER_I8, COFFER_U8 };
    if (work->quant->codes > COFFER__CODES_U8) {
        return;
    }
    for (unsigned i = 0; i < 256; i++) {
        const uint8_t code = (uint8_t)i;
        work->table[i] = coffer__quant_value(dtypes[work->quant->codes], &code) - (float)work->quant->offset;
    }
}

void coffer__quant_decode(const coffer__quant *quant, const coffer__quant_tile *tile,
                          const uint8_t *const bytes[COFFER__QUANT_ROLES], coffer_dtype dtype, uint8_t *to,
                          coffer__quant_odd *odd)
{
    quant_work work = { .quant = quant, .tile = tile, .bytes = bytes, .dtype = dtype, .odd = odd };
    work.round = quant->round != COFFER_UNKNOWN_DTYPE ? quant->round : dtype;
    coffer__quant_reads(quant, tile, work.reads);
    quant_fill_table(&work);
    quant_look_at_index(&work);
    if (odd->index) {
        return;
    }
    uint64_t left = coffer__quant_tile_count(quant, tile);
    const size_t size = coffer_dtype_bits(dtype) / 8;
    for (size_t i = 0; i < tile->rows; i++) {
        const uint64_t columns = left < quant->columns ? left : quant->columns;
        quant_row(&work, tile->row + i, columns, to + i * quant->columns * size);
        left -= columns;
    }
}
