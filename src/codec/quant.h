/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantised layers: tensors that together stand for one plain tensor. A layout (quant_layouts.h) recognises them and
 * describes them by a coffer__quant, which is all that decoding knows: where the code of an element is, where its scale
 * and its zero point are, and what is done with the three, in which order and with which roundings.
 *
 * The plain tensor is seen as matrices of `rows` by `columns`, row after row; with 1, 2 or 3 dimensions and more it is
 * only a question of names. Its rows are decoded in tiles. A tile needs certain bytes of each part:
 *
 *   by lines     the lines (rows of the part) that belong to the tile's rows: one line for each row, or for each 128, or
 *                3 lines for each 32 rows
 *   along lines  of every line the bytes that belong to the tile's rows: what is stored transposed
 *   whole        all of it: a scale of everything, an index of groups
 *
 * Pure: no I/O, no allocation, no libc. Every step is one operation of IEEE single precision, rounded as it stands.
 */
#ifndef COFFER_CODEC_QUANT_H
#define COFFER_CODEC_QUANT_H

#include "coffer.h"

#define COFFER__QUANT_MAX_RANK 8
/* Elements of a tile, but where a row has more, or 32 rows of what is transposed. */
#define COFFER__QUANT_TILE ((uint64_t)1 << 17)
/* Elements that the smallest tile may have: what has longer rows is refused. */
#define COFFER__QUANT_MAX_TILE ((uint64_t)1 << 23)
/* Rows of which tiles of transposed parts are multiples: so many take whole words of any number of bits. */
#define COFFER__QUANT_ALONG 32

typedef enum coffer__quant_role {
    COFFER__QUANT_CODES = 0,
    COFFER__QUANT_SCALES = 1,
    COFFER__QUANT_ZEROS = 2, /* or what is added; of scales that are quantised themselves: their own scales */
    COFFER__QUANT_INDEX = 3, /* the group of each column; of scales that are quantised: the map of their codes */
    COFFER__QUANT_ROLES = 4
} coffer__quant_role;

/* Which bytes of a part belong to rows. */
typedef struct coffer__quant_part {
    const char *ending; /* of the tensor's name; NULL: there is no such part */
    uint64_t line;      /* bytes of a line */
    uint64_t lines;     /* of each matrix */
    uint64_t size;      /* bytes of the tensor: its last line may be shorter */
    uint32_t rows;      /* so many rows … */
    uint32_t units;     /* … have so many lines, or bytes along each line */
    bool along;
    bool whole; /* rows and units do not count */
} coffer__quant_part;

typedef enum coffer__quant_codes {
    COFFER__CODES_E4M3,
    COFFER__CODES_E5M2,
    COFFER__CODES_I8,
    COFFER__CODES_U8,
    COFFER__CODES_PAIRS, /* two in a byte, which are indices of `values` */
    COFFER__CODES_RUN,   /* of `bits` bits, which run on through little-endian words of 32 bits */
    COFFER__CODES_WORDS, /* as many as fit into each word */
    COFFER__CODES_DOWN,  /* as COFFER__CODES_RUN down the lines: the words of a column of the part are a row */
    COFFER__CODES_MIXED, /* of 4 bits, in the order of AWQ's words along lines */
    COFFER__CODES_SLICE, /* a unit of `unit` bytes has one code of each of several slices of the rows */
    COFFER__CODES_TURNED /* pairs down the lines: the rows of the matrix are the columns of the part */
} coffer__quant_codes;

typedef enum coffer__quant_grid {
    COFFER__GRID_PLAIN,  /* a line for each row of scales */
    COFFER__GRID_ALONG,  /* a line for each group, and in it a scale for each row */
    COFFER__GRID_TILED,  /* tiles of 128 rows by 4 groups, as tensor cores take them */
    COFFER__GRID_TURNED, /* a line for each column, and in it a scale for each 32 rows */
    COFFER__GRID_NESTED  /* plain, of bytes that a map and scales of their own give their values */
} coffer__quant_grid;

/* What becomes of a scale as it is stored. */
typedef enum coffer__quant_scaling {
    COFFER__SCALE_AS_IS,
    COFFER__SCALE_ROUNDED,      /* to the dtype of the result */
    COFFER__SCALE_TIMES,        /* times the global one */
    COFFER__SCALE_OVER,         /* divided by it */
    COFFER__SCALE_TIMES_ROUNDED /* times the global one, which is rounded to the dtype of the result, as the product is */
} coffer__quant_scaling;

typedef enum coffer__quant_zeros {
    COFFER__ZEROS_NONE,
    COFFER__ZEROS_VALUES, /* on the grid of the scales */
    COFFER__ZEROS_DOWN,   /* packed as codes are, down the rows, less `offset` */
    COFFER__ZEROS_ALONG,  /* packed as codes are, along the rows of a transposed part */
    COFFER__ZEROS_MIXED   /* of 4 bits, in the order of AWQ's words */
} coffer__quant_zeros;

typedef enum coffer__quant_formula {
    COFFER__FORMULA_PRODUCT, /* R(code * scale) */
    COFFER__FORMULA_SHIFTED, /* R(R(code - zero) * scale) */
    COFFER__FORMULA_ONCE,    /* the same with one rounding */
    COFFER__FORMULA_ADDED,   /* R(R(code * scale) + zero) */
    COFFER__FORMULA_TAKEN,   /* R(R(code * scale) - zero) */
    COFFER__FORMULA_DIVIDED, /* R(code / scale) */
    COFFER__FORMULA_TWICE    /* R(R32(code * scale) * global) */
} coffer__quant_formula;

/* A layer. Plain data. */
typedef struct coffer__quant {
    const char *layout;    /* as people call it */
    uint64_t count;        /* elements; the last row may lack some */
    uint64_t rows;         /* of each matrix */
    uint64_t columns;      /* at least 1 */
    uint64_t slice;        /* rows of a slice; 0: there are none */
    uint64_t block_column; /* columns of a group: at least 1 */
    uint64_t shape[COFFER__QUANT_MAX_RANK];
    uint32_t rank;
    coffer__quant_part parts[COFFER__QUANT_ROLES];
    float values[16]; /* of pairs */
    float global;
    float zero_nested; /* what is added to scales that are quantised themselves */
    int32_t offset;    /* that codes of bits are more than they stand for */
    uint64_t nested_block;
    coffer__quant_codes codes;
    coffer__quant_grid grid;
    coffer__quant_scaling scaling;
    coffer__quant_zeros zeros;
    coffer__quant_formula formula;
    coffer_dtype scale_dtype;
    coffer_dtype zero_dtype;
    coffer_dtype round;  /* what R rounds to; COFFER_UNKNOWN_DTYPE: the dtype of the result */
    coffer_dtype usual;  /* that the tool makes of it, where it depends on nothing else; COFFER_UNKNOWN_DTYPE */
    uint8_t bits;        /* of a code that is not of bytes */
    uint8_t zero_bits;   /* the same of zero points that are packed */
    uint8_t unit;        /* bytes of a unit of slices */
    bool high_first;     /* of pairs and slices: the first one is in the high bits */
    bool zeros_in_words; /* packed zeros do not run on */
    bool zeros_plus_one; /* they are stored less one, by an addition to whole words */
    bool zeros_unclear;  /* it is not sure that they are stored less one */
    bool index_optional; /* one that has -1 anywhere does not count */
    bool padded;         /* its shape has rows or columns that the layer did not have, as its tool stores none other */
} coffer__quant;

/* Rows of a matrix that are decoded together. */
typedef struct coffer__quant_tile {
    uint64_t matrix;
    uint64_t row; /* in that matrix */
    size_t rows;
} coffer__quant_tile;

/* What a tile needs of a part: `count` times `size` bytes, each `stride` bytes after the one before. */
typedef struct coffer__quant_read {
    uint64_t offset; /* in the tensor's bytes */
    uint64_t stride;
    size_t size;
    size_t count;
} coffer__quant_read;

/* What was odd in a tile. */
typedef struct coffer__quant_odd {
    uint64_t scales;    /* that are not finite */
    uint64_t negative;  /* scales below zero */
    uint64_t nans;      /* elements that are NaN */
    uint64_t too_large; /* elements that became infinite */
    uint64_t wrapped;   /* zero points of which all bits were ones, so that one added to them carried */
    bool index;         /* a group that is not there: nothing was decoded */
} coffer__quant_odd;

/* The tile that begins at a row, counted through all matrices. */
coffer__quant_tile coffer__quant_tile_at(const coffer__quant *quant, uint64_t row);
/* The rows of the largest tile. */
uint64_t coffer__quant_most_rows(const coffer__quant *quant);
/* Elements of a tile. */
uint64_t coffer__quant_tile_count(const coffer__quant *quant, const coffer__quant_tile *tile);
/* The bytes of each part that a tile needs; `size` 0 where there is no such part. */
void coffer__quant_reads(const coffer__quant *quant, const coffer__quant_tile *tile,
                         coffer__quant_read reads[COFFER__QUANT_ROLES]);
/* Decodes a tile to F32, F16 or BF16, little-endian. `bytes` are those that it needs, of each part one after another. */
void coffer__quant_decode(const coffer__quant *quant, const coffer__quant_tile *tile,
                          const uint8_t *const bytes[COFFER__QUANT_ROLES], coffer_dtype dtype, uint8_t *to,
                          coffer__quant_odd *odd);

/* One value of F32, F16, BF16, F8_E4M3, F8_E5M2, F8_E8M0, or of I8, U8. */
float coffer__quant_value(coffer_dtype dtype, const uint8_t *bytes);
/* The values of 4-bit floats with 2 bits of exponent. */
extern const float coffer__quant_e2m1[16];

#endif
