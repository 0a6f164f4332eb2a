/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HDF5's datatypes and dataspaces:
 *
 *   datatype:        class, 4 low bits, and version, 4 high | bits 3 | bytes of an element 4 | of the class
 *     0 integers     bit offset 2 | bits 2;  bit 0: big-endian, bit 3: signed
 *     1 floats       bit offset 2 | bits 2 | exponent at 1, bits 1 | mantissa at 1, bits 1 | bias 4;  bits 0 and 6: order
 *     3 strings      nothing
 *     5 opaque       a tag, as many bytes as the lowest of `bits` says
 *     6 compound     members, as many as `bits` says: name | offset | datatype, by the version
 *     8 enumeration  the base's datatype | names | values, as many as `bits` says
 *     9 any length   the base's datatype;  bits 0 to 3: 1 for texts
 *   dataspace 1:     1 | rank 1 | flags 1 | 0 5 | sizes 8 each | the most of each, if flag 1
 *   dataspace 2:     2 | rank 1 | flags 1 | kind 1 | sizes 8 each | …;  kinds 0 one element, 1 an array, 2 nothing
 *
 * Only types that tensors have are looked at closely; of others, what they are called is enough. A type is never within
 * another one but in the two ways that are known: two floats are a complex number, and two names of an integer are BOOL.
 */
#include "hdf5.h"

#include "checked.h"
#include "text.h"

#include <string.h>

enum {
    HDF5_INTEGER = 0,
    HDF5_FLOAT = 1,
    HDF5_STRING = 3,
    HDF5_OPAQUE = 5,
    HDF5_COMPOUND = 6,
    HDF5_ENUMERATION = 8,
    HDF5_ANY = 9
};

/* What each class is called, by its number. */
static const char *const hdf5_classes[] = {
    "integers of an unusual kind",
    "floats of an unusual kind",
    "times",
    "strings",
    "bit fields",
    "opaque bytes",
    "structures",
    "references",
    "enumerations",
    "lists of any length",
    "arrays",
};

/* The eight bytes that every datatype begins with. */
typedef struct hdf5_head {
    unsigned number;
    unsigned version;
    uint32_t bits;
    uint32_t size;
} hdf5_head;

static bool hdf5_type_head(coffer__cursor *in, hdf5_head *head)
{
    uint64_t first = 0;
    uint64_t size = 0;
    if (!coffer__hdf5_take(in, 4, &first) || !coffer__hdf5_take(in, 4, &size)) {
        return false;
    }
    *head = (hdf5_head){ (unsigned)first & 15, (unsigned)first >> 4 & 15, (uint32_t)(first >> 8), (uint32_t)size };
    return head->version >= 1 && head->version <= 3 && size > 0;
}

static bool hdf5_integer(coffer__cursor *in, const hdf5_head *head, coffer__hdf5_type *type)
{
    static const coffer_dtype dtypes[2][4] = { { COFFER_U8, COFFER_U16, COFFER_U32, COFFER_U64 },
                                               { COFFER_I8, COFFER_I16, COFFER_I32, COFFER_I64 } };
    uint64_t offset = 0;
    uint64_t bits = 0;
    if (!coffer__hdf5_take(in, 2, &offset) || !coffer__hdf5_take(in, 2, &bits)) {
        return false;
    }
    for (unsigned i = 0; i < 4; i++) {
        if (head->size == 1u << i && bits == 8u << i && offset == 0) {
            type->class_ = COFFER__HDF5_NUMBER;
            type->dtype = dtypes[head->bits >> 3 & 1][i];
            type->swap = (head->bits & 1) && i > 0 ? (uint8_t)head->size : 0;
        }
    }
    return true;
}

/* By all of their numbers: IEEE's three, and bfloat16. Bit 6 says that it is neither order, as on a VAX. */
static bool hdf5_float(coffer__cursor *in, const hdf5_head *head, coffer__hdf5_type *type)
{
    static const struct {
        coffer_dtype dtype;
        uint32_t size;
        uint64_t fields; /* exponent at, its bits, mantissa at, its bits: the first is the lowest byte */
        uint64_t bias;
    } floats[] = {
        { COFFER_F16, 2, 0x0A00050A, 15 },
        { COFFER_BF16, 2, 0x07000807, 127 },
        { COFFER_F32, 4, 0x17000817, 127 },
        { COFFER_F64, 8, 0x34000B34, 1023 },
    };
    uint64_t offset = 0;
    uint64_t bits = 0;
    uint64_t fields = 0;
    uint64_t bias = 0;
    if (!coffer__hdf5_take(in, 2, &offset) || !coffer__hdf5_take(in, 2, &bits) || !coffer__hdf5_take(in, 4, &fields) ||
        !coffer__hdf5_take(in, 4, &bias)) {
        return false;
    }
    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++) {
        if (head->size == floats[i].size && offset == 0 && bits == (uint64_t)head->size * 8 && !(head->bits & 0x40) &&
            fields == floats[i].fields && bias == floats[i].bias) {
            type->class_ = COFFER__HDF5_NUMBER;
            type->dtype = floats[i].dtype;
            type->swap = head->bits & 1 ? (uint8_t)head->size : 0;
        }
    }
    return true;
}

/* Two bytes that are called V2 or nothing are bfloat16: h5py writes NumPy's voids so, and Keras has no others. */
static bool hdf5_opaque(coffer__cursor *in, const hdf5_head *head, coffer__hdf5_type *type)
{
    const size_t tag_len = head->bits & 0xff;
    const char *tag = (const char *)in->base + in->position;
    if (!coffer__hdf5_pass(in, tag_len)) {
        return false;
    }
    const char *end = memchr(tag, 0, tag_len);
    const size_t len = end == NULL ? tag_len : (size_t)(end - tag);
    if (head->size == 2 && (len == 0 || coffer__text_is(tag, len, "V2"))) {
        type->class_ = COFFER__HDF5_NUMBER;
        type->dtype = COFFER_BF16;
        type->from_opaque = true;
    }
    return true;
}

/* An integer or a float, and nothing else: so types do not nest. */
static bool hdf5_plain(coffer__cursor *in, coffer__hdf5_type *type)
{
    hdf5_head head;
    *type = (coffer__hdf5_type){ .class_ = COFFER__HDF5_OTHER };
    if (!hdf5_type_head(in, &head) || head.number > HDF5_FLOAT) {
        return false;
    }
    type->size = head.size;
    return head.number == HDF5_INTEGER ? hdf5_integer(in, &head, type) : hdf5_float(in, &head, type);
}

/* A name with its NUL; before version 3 filled up to a multiple of 8. */
static bool hdf5_type_name(coffer__cursor *in, unsigned version, const char **name, size_t *name_len)
{
    const char *text = (const char *)in->base + in->position;
    const char *end = memchr(text, 0, coffer__left(in));
    if (end == NULL) {
        return false;
    }
    *name = text;
    *name_len = (size_t)(end - text);
    const uint64_t size = *name_len + 1;
    return coffer__hdf5_pass(in, version < 3 ? (size + 7) & ~(uint64_t)7 : size);
}

/* One half of a complex number, which has to be at its place. A member of version 1 could be an array: 28 bytes say that
   it is none. */
static bool hdf5_half(coffer__cursor *in, const hdf5_head *head, const char *wanted, uint64_t place,
                      coffer__hdf5_type *half)
{
    const char *name = NULL;
    size_t name_len = 0;
    uint64_t offset = 0;
    uint64_t rank = 0;
    const bool is_first = head->version == 1;
    return hdf5_type_name(in, head->version, &name, &name_len) &&
           coffer__hdf5_take(in, head->version == 3 ? 1 : 4, &offset) &&
           (!is_first || (coffer__hdf5_take(in, 1, &rank) && coffer__hdf5_pass(in, 27) && rank == 0)) &&
           hdf5_plain(in, half) && coffer__text_is(name, name_len, wanted) && offset == place;
}

/* Two equal floats, r and i, are how h5py writes complex numbers. Any other structure is one. */
static void hdf5_compound(coffer__cursor *in, const hdf5_head *head, coffer__hdf5_type *type)
{
    coffer__hdf5_type real;
    coffer__hdf5_type imaginary;
    const uint32_t half = head->size / 2;
    if ((head->bits & 0xffff) != 2 || (head->size != 8 && head->size != 16) || !hdf5_half(in, head, "r", 0, &real) ||
        !hdf5_half(in, head, "i", half, &imaginary)) {
        return;
    }
    const bool floats = real.dtype == COFFER_F32 || real.dtype == COFFER_F64;
    if (!floats || real.size != half || real.dtype != imaginary.dtype || real.swap != imaginary.swap) {
        return;
    }
    type->class_ = COFFER__HDF5_NUMBER;
    type->dtype = half == 4 ? COFFER_C64 : COFFER_F64;
    type->complex128 = half == 8;
    type->swap = real.swap;
}

/* FALSE and TRUE of one byte are how h5py writes BOOL. */
static void hdf5_enumeration(coffer__cursor *in, const hdf5_head *head, coffer__hdf5_type *type)
{
    coffer__hdf5_type base;
    const char *names[2];
    size_t lens[2];
    uint64_t values = 0;
    if (!hdf5_plain(in, &base) || base.size != 1 || (head->bits & 0xffff) != 2 ||
        !hdf5_type_name(in, head->version, &names[0], &lens[0]) ||
        !hdf5_type_name(in, head->version, &names[1], &lens[1]) || !coffer__hdf5_take(in, 2, &values)) {
        return;
    }
    if (coffer__text_is(names[0], lens[0], "FALSE") && coffer__text_is(names[1], lens[1], "TRUE") && values == 0x100) {
        type->class_ = COFFER__HDF5_NUMBER;
        type->dtype = COFFER_BOOL;
    }
}

bool coffer__hdf5_type_read(coffer__cursor *in, coffer__hdf5_type *type)
{
    hdf5_head head;
    hdf5_head base;
    *type = (coffer__hdf5_type){ .class_ = COFFER__HDF5_OTHER };
    if (!hdf5_type_head(in, &head) || head.number >= sizeof hdf5_classes / sizeof hdf5_classes[0]) {
        return false;
    }
    type->size = head.size;
    type->what = hdf5_classes[head.number];
    switch (head.number) {
    case HDF5_INTEGER:
        return hdf5_integer(in, &head, type);
    case HDF5_FLOAT:
        return hdf5_float(in, &head, type);
    case HDF5_STRING:
        type->class_ = COFFER__HDF5_TEXT;
        return true;
    case HDF5_OPAQUE:
        return hdf5_opaque(in, &head, type);
    case HDF5_COMPOUND:
        hdf5_compound(in, &head, type);
        return true;
    case HDF5_ENUMERATION:
        hdf5_enumeration(in, &head, type);
        return true;
    case HDF5_ANY:
        type->class_ = (head.bits & 15) == 1 && head.size == 16 ? COFFER__HDF5_TEXT_ANY : COFFER__HDF5_OTHER;
        type->what = (head.bits & 15) == 1 ? "strings" : type->what;
        type->any_bytes = (head.bits & 15) == 0 && hdf5_type_head(in, &base) && base.size == 1;
        return true;
    default:
        return true;
    }
}

/* The product is checked with every factor: no size of a file is believed, not even beside a zero. */
bool coffer__hdf5_space_read(coffer__cursor *in, coffer__hdf5_space *space)
{
    uint64_t version = 0;
    uint64_t rank = 0;
    uint64_t flags = 0;
    uint64_t kind = 1;
    *space = (coffer__hdf5_space){ .elements = 1 };
    const bool is_there = coffer__hdf5_take(in, 1, &version) && coffer__hdf5_take(in, 1, &rank) &&
                          coffer__hdf5_take(in, 1, &flags) &&
                          (version == 1 ? coffer__hdf5_pass(in, 5) : coffer__hdf5_take(in, 1, &kind));
    if (!is_there || (version != 1 && version != 2) || rank > COFFER__HDF5_MAX_RANK || kind > 2) {
        return false;
    }
    space->rank = (uint32_t)rank;
    for (uint32_t i = 0; i < space->rank; i++) {
        if (!coffer__hdf5_take(in, 8, &space->sizes[i]) ||
            !coffer__mul_u64(space->elements, space->sizes[i], &space->elements)) {
            return false;
        }
    }
    space->none = kind == 2;
    return coffer__hdf5_pass(in, flags & 1 ? rank * 8 : 0);
}
