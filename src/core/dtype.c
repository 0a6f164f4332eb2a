/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the core knows of dtypes, made from the one table of them (dtype_table.h): two arrays that
 * the preprocessor fills, so that nothing is computed when the library is loaded and nothing can
 * disagree.
 */
#include "dtype.h"

#include <string.h>

/* A row of the table as an initialiser. It is placed by the dtype's number, so the order of rows
   does not matter. */
#define DTYPE_ROW(id, rank, bits, alignment, kind, exponent, mantissa, special, bias)                                  \
    [COFFER_##id] = { #id,      sizeof #id - 1, rank,                                                                  \
                      bits,     alignment,      COFFER_KIND_##kind,                                                    \
                      exponent, mantissa,       COFFER__SPECIAL_##special,                                             \
                      bias },
#define DTYPE_TAGGED_ROW(tag, ...) DTYPE_ROW(__VA_ARGS__)

const coffer__dtype_info coffer__dtype_rows[COFFER_DTYPE_COUNT + 1] = {
    [COFFER_UNKNOWN_DTYPE] = { "", 0, 0, 0, 0, COFFER_KIND_NONE, 0, 0, 0, 0 },
    COFFER__DTYPES(DTYPE_ROW, DTYPE_TAGGED_ROW)
};

/* From the number in bintensors back to the dtype; dtypes that bintensors lacks expand to nothing. */
#define DTYPE_OF_TAG(tag, id, ...) [tag] = COFFER_##id,

const uint8_t coffer__dtype_tags[COFFER__TAG_COUNT] = { COFFER__DTYPES(COFFER__NO_TAG, DTYPE_OF_TAG) };

/* A search of 15 entries. Only the writer needs this direction; the reader indexes coffer__dtype_tags. */
unsigned coffer__dtype_tag(coffer_dtype dtype)
{
    unsigned tag = 0;
    while (tag < COFFER__TAG_COUNT && coffer__dtype_tags[tag] != dtype) {
        tag++;
    }
    return tag;
}

const char *coffer_dtype_name(coffer_dtype dtype)
{
    return coffer__dtype_info_of(dtype)->name;
}

/* A search of all rows, and an exact comparison. Readers rarely come here: they try the dtypes of
   the last tensors first. */
coffer_dtype coffer_dtype_from_name(const char *name, size_t name_len)
{
    for (int dtype = 1; dtype <= COFFER_DTYPE_COUNT; dtype++) {
        if (coffer__dtype_rows[dtype].name_len == name_len &&
            memcmp(coffer__dtype_rows[dtype].name, name, name_len) == 0) {
            return (coffer_dtype)dtype;
        }
    }
    return COFFER_UNKNOWN_DTYPE;
}

uint32_t coffer_dtype_bits(coffer_dtype dtype)
{
    return coffer__dtype_info_of(dtype)->bits;
}

uint32_t coffer_dtype_alignment(coffer_dtype dtype)
{
    return coffer__dtype_info_of(dtype)->alignment;
}

coffer_kind coffer_dtype_kind(coffer_dtype dtype)
{
    return (coffer_kind)coffer__dtype_info_of(dtype)->kind;
}
