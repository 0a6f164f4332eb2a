/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of Protocol Buffers: see decode_numbers.h. */
#include "decode_numbers.h"

#include "bytes.h"
#include "checked.h"
#include "dtype.h"
#include "wire.h"

#include <string.h>

/* The dtypes that numbers become. Elements of other dtypes are numbers, too, by their bits. */
static bool numbers_are_floats(coffer_dtype dtype)
{
    return dtype == COFFER_F32 || dtype == COFFER_F64;
}

static bool numbers_are_known(coffer_dtype dtype)
{
    const coffer_kind kind = coffer__dtype_info_of(dtype)->kind;
    return dtype == COFFER_BOOL || numbers_are_floats(dtype) || kind == COFFER_KIND_SIGNED ||
           kind == COFFER_KIND_UNSIGNED;
}

bool coffer__numbers_fit(const coffer__import_plan_piece *piece)
{
    if ((unsigned)piece->as.numbers.dtype > COFFER_DTYPE_COUNT || !numbers_are_known(piece->as.numbers.dtype) ||
        piece->crc_kind != COFFER__CRC_NONE || piece->as.numbers.tag > 127) {
        return false;
    }
    const uint64_t width = coffer__dtype_info_of(piece->as.numbers.dtype)->bits / 8;
    const uint64_t count = piece->size / width;
    const unsigned kind = piece->as.numbers.tag & 7;
    if (piece->size % width != 0) {
        return false;
    }
    if (numbers_are_floats(piece->as.numbers.dtype)) {
        uint64_t stored = 0;
        return kind == (width == 4 ? COFFER__WIRE_FOUR : COFFER__WIRE_EIGHT) && piece->as.numbers.tag > 7 &&
               coffer__mul_u64(count, width + 1, &stored) && stored == piece->stored_size;
    }
    /* A varint has a byte at least, and ten at most; how many it has is found when it is decoded. Without numbers there are
       no bytes. */
    const uint64_t most = COFFER__NUMBER_MAX;
    return kind == COFFER__WIRE_VARINT && count <= piece->stored_size &&
           piece->stored_size / most + (piece->stored_size % most != 0) <= count;
}

/* Whether a varint is a number of an integer's dtype; negative ones are written with all 64 bits. */
static bool number_fits(coffer_dtype dtype, uint64_t value)
{
    const coffer__dtype_info *info = coffer__dtype_info_of(dtype);
    if (dtype == COFFER_BOOL) {
        return value <= 1;
    }
    if (info->bits == 64) {
        return true;
    }
    const uint64_t half = UINT64_C(1) << (info->bits - 1);
    return info->kind == COFFER_KIND_SIGNED ? value + half < 2 * half : value < 2 * half;
}

size_t coffer__number_decode(const coffer__import_plan_piece *piece, const uint8_t *bytes, size_t size,
                             uint8_t element[8])
{
    const size_t tag = piece->as.numbers.tag != 0 ? 1 : 0;
    const size_t width = coffer__dtype_info_of(piece->as.numbers.dtype)->bits / 8u;
    uint64_t value = 0;
    if (tag > 0 && (size == 0 || bytes[0] != piece->as.numbers.tag)) {
        return 0;
    }
    if (numbers_are_floats(piece->as.numbers.dtype)) {
        memcpy(element, bytes + tag, width <= size - tag ? width : 0);
        return width <= size - tag ? width + tag : 0;
    }
    const size_t taken = coffer__wire_varint(bytes + tag, size - tag, &value);
    if (taken == 0 || !number_fits(piece->as.numbers.dtype, value)) {
        return 0;
    }
    coffer__store_u64le(element, value);
    return taken + tag;
}
