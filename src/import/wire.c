/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of Protocol Buffers' messages: see wire.h. */
#include "wire.h"

#include "error.h"

#define WIRE_MAX_NUMBER ((UINT64_C(1) << 29) - 1)

size_t coffer__wire_varint(const uint8_t *bytes, size_t size, uint64_t *value)
{
    uint64_t number = 0;
    for (size_t i = 0; i < size && i < COFFER__WIRE_MAX_VARINT; i++) {
        /* Of the tenth byte one bit is left. */
        if (i == COFFER__WIRE_MAX_VARINT - 1 && bytes[i] > 1) {
            return 0;
        }
        number |= (uint64_t)(bytes[i] & 0x7f) << (7 * i);
        if (bytes[i] < 0x80) {
            *value = number;
            return i + 1;
        }
    }
    return 0;
}

bool coffer__wire_read(const uint8_t *bytes, size_t size, uint64_t at, coffer__wire_field *field)
{
    uint64_t tag = 0;
    *field = (coffer__wire_field){ .at = at };
    const size_t head = coffer__wire_varint(bytes, size, &tag);
    if (head == 0 || tag >> 3 == 0 || tag >> 3 > WIRE_MAX_NUMBER) {
        return false;
    }
    field->number = (uint32_t)(tag >> 3);
    field->kind = (coffer__wire_kind)(tag & 7);
    field->begin = at + head;
    if (field->kind == COFFER__WIRE_EIGHT || field->kind == COFFER__WIRE_FOUR) {
        field->size = field->kind == COFFER__WIRE_EIGHT ? 8 : 4;
        return true;
    }
    if (field->kind != COFFER__WIRE_VARINT && field->kind != COFFER__WIRE_BYTES) {
        return false;
    }
    const size_t more = coffer__wire_varint(bytes + head, size - head, &field->value);
    if (field->kind == COFFER__WIRE_BYTES) {
        field->begin += more;
        field->size = field->value;
    } else {
        field->size = more;
    }
    return more > 0;
}

coffer_status coffer__wire_next(coffer__file_window *window, uint64_t at, uint64_t end, coffer__wire_field *field,
                                coffer_error *err)
{
    const uint8_t *bytes = NULL;
    size_t size = 0;
    const coffer_status status = coffer__file_window_peek(window, at, end, COFFER__WIRE_MAX_HEAD, &bytes, &size, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (!coffer__wire_read(bytes, size, at, field) || field->size > end - field->begin) {
        return coffer__fail_at(err, COFFER_ERR_DAMAGED, at,
                               end == window->file_size
                                   ? "the protobuf message is damaged: what is at byte %u is no field of it, or one "
                                     "that reaches past the end of the file; get the file again"
                                   : "the protobuf message is damaged: what is at byte %u is no field of it",
                               at);
    }
    return COFFER_OK;
}
