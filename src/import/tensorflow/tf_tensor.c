/* SPDX-License-Identifier: Apache-2.0 */
#include "tf_tensor.h"

#include "tf_table.h"
#include "wire.h"

#include <string.h>

/* ---- messages ---------------------------------------------------------------------------------------------------- */

bool coffer__tf_next_field(coffer__cursor *in, coffer__tf_field *field)
{
    coffer__wire_field found;
    const size_t left = coffer__left(in);
    if (!coffer__wire_read(in->base + in->position, left, 0, &found) || found.begin > left ||
        found.size > left - found.begin) {
        return false;
    }
    *field =
        (coffer__tf_field){ .number = found.number,
                            .wire = (unsigned)found.kind,
                            .value = found.value,
                            .bytes = { .base = in->base + in->position + found.begin, .length = (size_t)found.size } };
    if (found.kind == COFFER__WIRE_FOUR) {
        field->value = coffer__load_u32le(field->bytes.base);
    }
    in->position += (size_t)(found.begin + found.size);
    return true;
}

/* { size 1 }, which is a number without a sign: -1 is an unknown size. */
static bool tf_read_dimension(coffer__cursor in, coffer__tf_tensor *tensor)
{
    coffer__tf_field field;
    uint64_t size = 0;
    while (coffer__left(&in) > 0) {
        if (!coffer__tf_next_field(&in, &field)) {
            return false;
        }
        size = field.number == 1 && field.wire == 0 ? field.value : size;
    }
    if (tensor->rank == COFFER__PLAN_MAX_RANK || size > INT64_MAX) {
        return false;
    }
    tensor->shape[tensor->rank++] = size;
    return true;
}

static bool tf_read_shape(coffer__cursor in, coffer__tf_tensor *tensor)
{
    coffer__tf_field field;
    while (coffer__left(&in) > 0) {
        if (!coffer__tf_next_field(&in, &field)) {
            return false;
        }
        if (field.number == 2 && (field.wire != 2 || !tf_read_dimension(field.bytes, tensor))) {
            return false;
        }
        tensor->unknown_rank = tensor->unknown_rank || (field.number == 3 && field.value != 0);
    }
    return true;
}

/* The wire kinds of the fields 1 to 7. */
static const unsigned tf_wires[] = { 0, 0, 2, 0, 0, 0, 5, 2 };

/* A field that comes twice says two things, of which readers take different ones. Slices may. */
bool coffer__tf_tensor_read(coffer__cursor in, coffer__tf_tensor *tensor)
{
    unsigned seen = 0;
    *tensor = (coffer__tf_tensor){ .dtype = 0 };
    while (coffer__left(&in) > 0) {
        const coffer__cursor before = in;
        coffer__tf_field field;
        if (!coffer__tf_next_field(&in, &field)) {
            return false;
        }
        if (field.number > 7) {
            continue;
        }
        const unsigned bit = 1u << field.number;
        if (field.wire != tf_wires[field.number] || ((seen & bit) != 0 && field.number != 7)) {
            return false;
        }
        if (field.number == 7 && tensor->slice_count++ == 0) {
            tensor->slices = before;
        }
        if (field.number == 2 && !tf_read_shape(field.bytes, tensor)) {
            return false;
        }
        seen |= bit;
        tensor->dtype = field.number == 1 ? field.value : tensor->dtype;
        tensor->file = field.number == 3 ? field.value : tensor->file;
        tensor->offset = field.number == 4 ? field.value : tensor->offset;
        tensor->size = field.number == 5 ? field.value : tensor->size;
        tensor->crc = field.number == 6 ? coffer__tf_unmask((uint32_t)field.value) : tensor->crc;
    }
    tensor->has_crc = (seen & 1u << 6) != 0;
    return true;
}
/* ---- slices ------------------------------------------------------------------------------------------------------ */

static bool tf_read_extent(coffer__cursor in, coffer__tf_box *box)
{
    coffer__tf_field field;
    if (box->rank == COFFER__PLAN_MAX_RANK) {
        return false;
    }
    box->starts[box->rank] = 0;
    box->lengths[box->rank] = -1;
    while (coffer__left(&in) > 0) {
        if (!coffer__tf_next_field(&in, &field) || field.wire != 0 || field.value > INT64_MAX) {
            return false;
        }
        box->starts[box->rank] = field.number == 1 ? (int64_t)field.value : box->starts[box->rank];
        box->lengths[box->rank] = field.number == 2 ? (int64_t)field.value : box->lengths[box->rank];
    }
    box->rank++;
    return true;
}

bool coffer__tf_next_slice(coffer__cursor *in, coffer__tf_box *box)
{
    coffer__tf_field field;
    box->rank = 0;
    while (coffer__left(in) > 0) {
        if (!coffer__tf_next_field(in, &field)) {
            return false;
        }
        if (field.number != 7) {
            continue;
        }
        while (coffer__left(&field.bytes) > 0) {
            coffer__tf_field extent;
            if (!coffer__tf_next_field(&field.bytes, &extent) || extent.number != 1 || extent.wire != 2 ||
                !tf_read_extent(extent.bytes, box)) {
                return false;
            }
        }
        return true;
    }
    return false;
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

/* A number without a sign: how many bytes it has, and these, the highest first. */
static void tf_encode_number(coffer__writing *out, uint64_t number)
{
    char bytes[9];
    unsigned count = 0;
    for (unsigned shift = 64; shift > 0; shift -= 8) {
        const uint64_t rest = number >> (shift - 8);
        if (rest != 0) {
            bytes[1 + count++] = (char)rest;
        }
    }
    bytes[0] = (char)count;
    coffer__write(out, bytes, 1 + count);
}

/*
 * A number with a sign, the highest byte first. As many bits of the first bytes as it has bytes are ones, then a zero, then the
 * number; of a negative one all bits are the opposite. So it takes n bytes for 7 n - 1 bits.
 */
static void tf_encode_signed(coffer__writing *out, int64_t number)
{
    static const uint8_t heads[11][2] = { { 0, 0 },    { 0x80, 0 },    { 0xc0, 0 },   { 0xe0, 0 },
                                          { 0xf0, 0 }, { 0xf8, 0 },    { 0xfc, 0 },   { 0xfe, 0 },
                                          { 0xff, 0 }, { 0xff, 0x80 }, { 0xff, 0xc0 } };
    const uint64_t size = number < 0 ? ~(uint64_t)number : (uint64_t)number;
    uint8_t bytes[10];
    unsigned count = 1;
    while (count < 10 && size >> (7 * count - 1) != 0) {
        count++;
    }
    memset(bytes, number < 0 ? 0xff : 0, 2);
    for (unsigned i = 0; i < 8; i++) {
        bytes[9 - i] = (uint8_t)((uint64_t)number >> (8 * i));
    }
    bytes[10 - count] ^= heads[count][0];
    if (count > 1) {
        bytes[11 - count] ^= heads[count][1];
    }
    coffer__write(out, (const char *)bytes + 10 - count, count);
}

static void tf_encode_name(coffer__writing *out, const uint8_t *name, size_t name_len)
{
    for (size_t i = 0; i < name_len; i++) {
        coffer__write(out, (const char *)name + i, 1);
        if (name[i] == 0 || name[i] == 0xff) {
            coffer__write(out, name[i] == 0 ? "\xff" : "\0", 1);
        }
    }
    coffer__write(out, "\0\1", 2);
}

void coffer__tf_slice_key(coffer__writing *out, const uint8_t *name, size_t name_len, const coffer__tf_box *box)
{
    tf_encode_number(out, 0);
    tf_encode_name(out, name, name_len);
    tf_encode_number(out, box->rank);
    for (uint32_t i = 0; i < box->rank; i++) {
        tf_encode_signed(out, box->starts[i]);
        tf_encode_signed(out, box->lengths[i]);
    }
}
