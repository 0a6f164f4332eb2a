/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pickle machine's opcodes for values without items: None, truth, integers, doubles, text and bytes.
 *
 * Each pushes one node. Integers of up to 8 bytes keep their value; of longer ones only their being there
 * is kept, since no size, offset or stride is one. Text and bytes are a place in the stream, and are kept
 * in memory as well up to COFFER__PICKLE_INLINE bytes: names and numbers are short, and the payloads of
 * tensors are read from the file when they are moved.
 */
#include "pickle_machine.h"

#include <string.h>

/* ---- constants and numbers ---- */

coffer_status coffer__op_none(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    return coffer__pickle_push_shared(p, &p->none, COFFER__VALUE_NONE, 0);
}

/* NEWTRUE and NEWFALSE. */
coffer_status coffer__op_bool(coffer__pickle *p, unsigned truth)
{
    return coffer__pickle_push_shared(p, truth != 0 ? &p->yes : &p->no, COFFER__VALUE_BOOL, truth);
}

/* Small integers are shared as in Python: shapes and strides are full of them. */
static coffer_status pickle_push_integer(coffer__pickle *p, int64_t integer)
{
    if (integer >= 0 && integer < COFFER__PICKLE_SMALL) {
        return coffer__pickle_push_shared(p, &p->small[integer], COFFER__VALUE_INT, integer);
    }
    coffer__node *node = NULL;
    const coffer_status status = coffer__pickle_push_new(p, COFFER__VALUE_INT, &node);
    if (status == COFFER_OK) {
        node->as.integer = integer;
    }
    return status;
}

/* An integer beyond 8 bytes. No size or stride can be one, so only its being there is kept. */
static coffer_status pickle_push_big(coffer__pickle *p)
{
    coffer__node *node = NULL;
    return coffer__pickle_push_new(p, COFFER__VALUE_BIG, &node);
}

/* The integer whose two's complement has `width` bytes, of which `bits` has as many as there are. */
static int64_t pickle_signed(uint64_t bits, size_t width)
{
    const uint64_t sign = width == 0 ? 0 : UINT64_C(1) << (8 * width - 1);
    /* If the sign bit is set, all bits above it are, too. Of 8 bytes there are none above, and the expression
       leaves them as they are. */
    const uint64_t extended = (bits & sign) != 0 ? bits | ~(sign | (sign - 1)) : bits;
    int64_t value = 0;
    memcpy(&value, &extended, sizeof value);
    return value;
}

/* BININT is signed, the shorter two are not. */
coffer_status coffer__op_binint(coffer__pickle *p, unsigned width)
{
    uint64_t bits = 0;
    const coffer_status status = coffer__pickle_take_number(p, width, &bits);
    return status == COFFER_OK ? pickle_push_integer(p, width == 4 ? pickle_signed(bits, 4) : (int64_t)bits) : status;
}

/* LONG1 and LONG4: a length of `width` bytes, then an integer of that many. The length of LONG4 is signed. */
coffer_status coffer__op_binlong(coffer__pickle *p, unsigned width)
{
    uint64_t size = 0;
    uint64_t bits = 0;
    coffer_status status = coffer__pickle_take_number(p, width, &size);
    if (status != COFFER_OK) {
        return status;
    }
    /* The length of LONG1 cannot be above 255, so one comparison serves both widths. */
    if (size > INT32_MAX) {
        return coffer__pickle_fail(p, "the length of an integer is negative");
    }
    /* Too large for any size or offset: its bytes are skipped, not read. */
    if (size > 8) {
        status = coffer__pickle_skip(p, size);
        return status == COFFER_OK ? pickle_push_big(p) : status;
    }
    status = size == 0 ? COFFER_OK : coffer__pickle_take_number(p, (unsigned)size, &bits);
    return status == COFFER_OK ? pickle_push_integer(p, pickle_signed(bits, (size_t)size)) : status;
}

/* INT and LONG. Protocol 0 and 1 wrote truth as the integers 00 and 01. */
coffer_status coffer__op_integer_line(coffer__pickle *p, unsigned is_long)
{
    int64_t value = 0;
    bool fits = false;
    const uint64_t start = p->position;
    const coffer_status status = coffer__pickle_take_integer_line(p, is_long != 0, &value, &fits);
    if (status != COFFER_OK) {
        return status;
    }
    /* Two characters and the line's end. CPython decides by just these two things, the length and the value, so what is
       true for it, "+1" among others, is true here. */
    const bool truth = is_long == 0 && fits && (value == 0 || value == 1) && p->position - start == 3;
    if (truth) {
        return coffer__op_bool(p, value != 0);
    }
    return fits ? pickle_push_integer(p, value) : pickle_push_big(p);
}

static coffer_status pickle_push_real(coffer__pickle *p, double real)
{
    coffer__node *node = NULL;
    const coffer_status status = coffer__pickle_push_new(p, COFFER__VALUE_FLOAT, &node);
    if (status == COFFER_OK) {
        node->as.real = real;
    }
    return status;
}

/* BINFLOAT: a double, its highest byte first. */
coffer_status coffer__op_binfloat(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    uint64_t bits = 0;
    double real = 0;
    const coffer_status status = coffer__pickle_take_number(p, 8, &bits);
    if (status != COFFER_OK) {
        return status;
    }
    /* The number was taken as little-endian, whatever this machine is; the double's bytes come highest first. */
    bits = __builtin_bswap64(bits);
    memcpy(&real, &bits, sizeof real);
    return pickle_push_real(p, real);
}

/* FLOAT: a line as Python's repr writes a double, or nan, inf and -inf. */
coffer_status coffer__op_float_line(coffer__pickle *p, unsigned unused)
{
    (void)unused;
    uint64_t size = 0;
    uint32_t kept = 0;
    double real = 0;
    const coffer_status status = coffer__pickle_take_line(p, &size, &kept);
    if (status != COFFER_OK) {
        return status;
    }
    const bool good =
        kept != UINT32_MAX && coffer__pickle_read_real((const char *)p->texts.items + kept, (size_t)size, &real);
    p->texts.count = kept == UINT32_MAX ? p->texts.count : kept;
    return good ? pickle_push_real(p, real) : coffer__pickle_fail(p, "a number should be here");
}

/* ---- text and bytes ---- */

/* A length of `width` bytes and so many bytes. */
static coffer_status pickle_push_payload(coffer__pickle *p, coffer__value_kind kind, unsigned width,
                                         coffer__node **node)
{
    uint64_t size = 0;
    coffer_status status = coffer__pickle_take_number(p, width, &size);
    if (status != COFFER_OK) {
        return status;
    }
    /* The node comes before its bytes: should these be missing, the node is a text of no bytes, which is
       whole. */
    status = coffer__pickle_push_new(p, kind, node);
    return status == COFFER_OK ? coffer__pickle_take_payload(p, size, *node) : status;
}

/* SHORT_BINUNICODE, BINUNICODE, BINUNICODE8. Only kept text is checked; of longer text no one reads a byte. */
coffer_status coffer__op_text(coffer__pickle *p, unsigned width)
{
    coffer__node *node = NULL;
    const coffer_status status = pickle_push_payload(p, COFFER__VALUE_TEXT, width, &node);
    if (status != COFFER_OK) {
        return status;
    }
    /* Lone surrogates pass, as in Python with "surrogatepass": names with them are refused later, where it
       matters. */
    const bool good =
        node->as.bytes.kept == UINT32_MAX ||
        coffer__pickle_is_text((const char *)p->texts.items + node->as.bytes.kept, node->as.bytes.kept_size);
    if (!good) {
        node->as.bytes.kept = UINT32_MAX; /* what is looked at after a failure is text, too */
        return coffer__pickle_fail(p, "a text is not UTF-8");
    }
    return COFFER_OK;
}

/* SHORT_BINBYTES, BINBYTES, BINBYTES8, and BYTEARRAY8, of which nobody needs to know that it can be changed. */
coffer_status coffer__op_bytes(coffer__pickle *p, unsigned width)
{
    coffer__node *node = NULL;
    return pickle_push_payload(p, COFFER__VALUE_BYTES, width, &node);
}

/* Python 2's str. The length of BINSTRING is signed. */
coffer_status coffer__op_string(coffer__pickle *p, unsigned width)
{
    coffer__node *node = NULL;
    const coffer_status status = pickle_push_payload(p, COFFER__VALUE_BYTES, width, &node);
    if (status != COFFER_OK) {
        return status;
    }
    /* A str of Python 2 is text or bytes, and only its use tells. Keys accept it as text, arrays as bytes. */
    node->python2 = true;
    return node->as.bytes.size <= INT32_MAX ? COFFER_OK : coffer__pickle_fail(p, "the length of a string is negative");
}

/*
 * STRING and UNICODE: a line in which some bytes are escaped. It lies at the end of the texts; its value
 * is made after it and then moves into its place. Of a line that is too long to keep nobody will
 * know the value.
 */
coffer_status coffer__op_text_line(coffer__pickle *p, unsigned is_string)
{
    uint64_t size = 0;
    uint32_t kept = 0;
    const uint64_t at = p->position;
    coffer_status status = coffer__pickle_take_line(p, &size, &kept);
    if (status != COFFER_OK) {
        return status;
    }
    size_t len = 0;
    if (kept != UINT32_MAX) {
        /*
         * UNICODE's value can take twice as many bytes as its line, since a byte above 127 becomes two in
         * UTF-8; STRING's is never longer than its line. The reservation may move the texts, so pointers come
         * after it.
         */
        status = coffer__pickle_reserve(p, &p->texts, 1, 2 * (size_t)size + 1);
        if (status != COFFER_OK) {
            return status;
        }
        char *line = (char *)p->texts.items + kept;
        char *value = line + size;
        const bool good = is_string != 0 ? coffer__pickle_unquote(line, (size_t)size, value, &len)
                                         : coffer__pickle_unescape(line, (size_t)size, value, &len);
        if (!good) {
            return coffer__pickle_fail(p, "a text has a wrong escape, or quotes that do not match");
        }
        /* The value takes the line's place. It may be longer than the line, but no longer than what was
           reserved. */
        memmove(line, value, len);
        line[len] = '\0';
        p->texts.count = kept + len + 1;
    }
    coffer__node *node = NULL;
    status = coffer__pickle_push_new(p, is_string != 0 ? COFFER__VALUE_BYTES : COFFER__VALUE_TEXT, &node);
    if (status == COFFER_OK) {
        node->python2 = is_string != 0;
        node->as.bytes.at = at;
        node->as.bytes.size = size;
        node->as.bytes.kept = kept;
        node->as.bytes.kept_size = (unsigned)len & COFFER__PICKLE_KEPT_MASK;
        node->as.bytes.escaped = true;
    }
    return status;
}
