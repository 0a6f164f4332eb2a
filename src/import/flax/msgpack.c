/* SPDX-License-Identifier: Apache-2.0 */
/* The heads of MessagePack's objects: see msgpack.h. */
#include "msgpack.h"

/* From 0xc0 to 0xdf: what it is, and the bytes of the number that follows. */
static const struct {
    uint8_t kind;
    uint8_t width;
} msgpack_rows[32] = {
    { COFFER__MSGPACK_NIL, 0 },       { COFFER__MSGPACK_NONE, 0 },      { COFFER__MSGPACK_BOOL, 0 },
    { COFFER__MSGPACK_BOOL, 0 },      { COFFER__MSGPACK_BYTES, 1 },     { COFFER__MSGPACK_BYTES, 2 },
    { COFFER__MSGPACK_BYTES, 4 },     { COFFER__MSGPACK_EXTENSION, 1 }, { COFFER__MSGPACK_EXTENSION, 2 },
    { COFFER__MSGPACK_EXTENSION, 4 }, { COFFER__MSGPACK_FLOAT, 4 },     { COFFER__MSGPACK_FLOAT, 8 },
    { COFFER__MSGPACK_INT, 1 },       { COFFER__MSGPACK_INT, 2 },       { COFFER__MSGPACK_INT, 4 },
    { COFFER__MSGPACK_INT, 8 },       { COFFER__MSGPACK_INT, 1 },       { COFFER__MSGPACK_INT, 2 },
    { COFFER__MSGPACK_INT, 4 },       { COFFER__MSGPACK_INT, 8 },       { COFFER__MSGPACK_EXTENSION, 0 },
    { COFFER__MSGPACK_EXTENSION, 0 }, { COFFER__MSGPACK_EXTENSION, 0 }, { COFFER__MSGPACK_EXTENSION, 0 },
    { COFFER__MSGPACK_EXTENSION, 0 }, { COFFER__MSGPACK_TEXT, 1 },      { COFFER__MSGPACK_TEXT, 2 },
    { COFFER__MSGPACK_TEXT, 4 },      { COFFER__MSGPACK_ARRAY, 2 },     { COFFER__MSGPACK_ARRAY, 4 },
    { COFFER__MSGPACK_MAP, 2 },       { COFFER__MSGPACK_MAP, 4 },
};

/* Those whose first byte says everything. */
static coffer__msgpack msgpack_short(uint8_t first)
{
    if (first < 0x80) {
        return (coffer__msgpack){ .kind = COFFER__MSGPACK_INT, .size = 1, .number = first };
    }
    if (first >= 0xe0) {
        return (coffer__msgpack){
            .kind = COFFER__MSGPACK_INT, .size = 1, .negative = true, .number = UINT64_MAX - (0xffu - first)
        };
    }
    if (first < 0xa0) {
        return (coffer__msgpack){ .kind = first < 0x90 ? COFFER__MSGPACK_MAP : COFFER__MSGPACK_ARRAY,
                                  .size = 1,
                                  .length = first & 15u };
    }
    return (coffer__msgpack){ .kind = COFFER__MSGPACK_TEXT, .size = 1, .length = first & 31u };
}

/* A signed number of 1, 2, 4 or 8 bytes is made one of 8; `log` is the logarithm of its bytes. */
static uint64_t msgpack_widen(uint64_t number, unsigned log)
{
    const uint64_t sign = UINT64_C(0x80) << (8 * ((1u << log) - 1));
    return (number ^ sign) - sign;
}

coffer__msgpack coffer__msgpack_read(const uint8_t *bytes, size_t size)
{
    const coffer__msgpack none = { .kind = COFFER__MSGPACK_NONE };
    if (size == 0) {
        return none;
    }
    const uint8_t first = bytes[0];
    if (first < 0xc0 || first >= 0xe0) {
        return msgpack_short(first);
    }
    const unsigned width = msgpack_rows[first - 0xc0].width;
    coffer__msgpack object = { .kind = (coffer__msgpack_kind)msgpack_rows[first - 0xc0].kind };
    const bool extension = object.kind == COFFER__MSGPACK_EXTENSION;
    object.size = (uint8_t)(1 + width + extension);
    if (size < object.size) {
        return none;
    }
    for (unsigned i = 0; i < width; i++) {
        object.number = object.number << 8 | bytes[1 + i];
    }
    object.length = object.number;
    if (first >= 0xd0 && first <= 0xd3) {
        object.number = msgpack_widen(object.number, first & 3u);
        object.negative = object.number >> 63 != 0;
    } else if (extension) {
        object.type = bytes[1 + width];
        object.length = width == 0 ? UINT64_C(1) << (first - 0xd4) : object.length;
    } else if (object.kind == COFFER__MSGPACK_BOOL) {
        object.number = first & 1u;
    }
    return object;
}
