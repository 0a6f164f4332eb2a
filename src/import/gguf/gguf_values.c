/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GGUF's values, by the numbers of their types:
 *
 *   0 u8   1 i8   2 u16   3 i16   4 u32   5 i32   6 f32   7 bool   8 text   9 array   10 u64   11 i64   12 f64
 *
 * An array is a u32 type, a u64 count, and so many values; arrays of arrays are not allowed. A value becomes JSON: integers
 * exactly, floats with as many digits as tell them from their neighbours, or as the texts "NaN", "Infinity" and "-Infinity".
 */
#include "gguf_values.h"

#include "checked.h"
#include "error.h"
#include "gguf_keys.h"
#include "real_text.h"
#include "text.h"

#include <stdio.h>
#include <string.h>

#define GGUF_MIN_INFO 32 /* bytes of the shortest description of a tensor: an empty name, no dimensions */
#define GGUF_MIN_PAIR 13 /* likewise of a key and a value of one byte */

/* ---- The window -------------------------------------------------------------------------------------------------- */

uint64_t coffer__gguf_at(const coffer__gguf_in *in)
{
    return in->at + in->position;
}

/* The place never goes beyond the file, which every function here sees to before it moves. */
uint64_t coffer__gguf_left(const coffer__gguf_in *in)
{
    return in->file_size - coffer__gguf_at(in);
}

/* The place is that of the next byte that would have been read. */
static coffer_status gguf_fail_at(const coffer__gguf_in *in, const char *what, coffer_error *err)
{
    return coffer__fail_at(err, COFFER_ERR_DAMAGED, coffer__gguf_at(in), "the GGUF file is damaged: %s", what);
}

/* One message for all ways in which a file can be too short: its place says which. */
static coffer_status gguf_fail_short(const coffer__gguf_in *in, coffer_error *err)
{
    return gguf_fail_at(in, "it ends within its keys or the list of its tensors; get the file again", err);
}

/* Has the next `size` bytes in the window, at most as many as it has space for. The window begins again at the place
   itself, so what is wanted lies in it as one piece and texts need no copy. All that is asked for is smaller than the
   window, whose bounds are constants; what is more than the file has fails before it is read. */
static coffer_status gguf_have(coffer__gguf_in *in, size_t size, coffer_error *err)
{
    if (size <= in->size - in->position) {
        return COFFER_OK;
    }
    const uint64_t left = coffer__gguf_left(in);
    if (size > left) {
        return gguf_fail_short(in, err);
    }
    in->at += in->position;
    in->position = 0;
    in->size = 0;
    const size_t want = left < COFFER__GGUF_WINDOW ? (size_t)left : COFFER__GGUF_WINDOW;
    const coffer_status status =
        coffer__input_files_read(in->input, in->file, in->file_size, in->at, in->window, want, err);
    in->size = status == COFFER_OK ? want : 0;
    return status;
}

/* A long skip reads nothing: the window is emptied, and filled again where the next value is. */
coffer_status coffer__gguf_skip(coffer__gguf_in *in, uint64_t size, coffer_error *err)
{
    const size_t here = in->size - in->position;
    if (size > coffer__gguf_left(in)) {
        return gguf_fail_short(in, err);
    }
    if (size <= here) {
        in->position += (size_t)size;
    } else {
        in->at += in->position + size;
        in->position = 0;
        in->size = 0;
    }
    return COFFER_OK;
}

/* By bytes, since a value may be at any address and in either order. */
coffer_status coffer__gguf_number(coffer__gguf_in *in, unsigned size, uint64_t *number, coffer_error *err)
{
    const coffer_status status = gguf_have(in, size, err);
    if (status != COFFER_OK) {
        return status;
    }
    *number = 0;
    for (unsigned i = 0; i < size; i++) {
        const unsigned place = in->swapped ? size - 1 - i : i;
        *number |= (uint64_t)in->window[in->position + i] << (8 * place);
    }
    in->position += size;
    return COFFER_OK;
}

/* The length is compared with the bound before it becomes a size_t, so that nothing of it is lost where that has 32
   bits. */
coffer_status coffer__gguf_text(coffer__gguf_in *in, uint64_t most, const char **text, size_t *text_len,
                                coffer_error *err)
{
    uint64_t len = 0;
    coffer_status status = coffer__gguf_number(in, 8, &len, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (len > most) {
        return gguf_fail_at(in, "a name or key is longer than 65,535 bytes", err);
    }
    status = gguf_have(in, (size_t)len, err);
    if (status != COFFER_OK) {
        return status;
    }
    *text = (const char *)in->window + in->position;
    *text_len = (size_t)len;
    in->position += (size_t)len;
    return COFFER_OK;
}

/* ---- The head ---------------------------------------------------------------------------------------------------- */

/* The counts are compared with the bytes that are left, so that nobody walks over 2^60 keys that are not there. The
   version is read before the byte order is known, and tells it: no version is so large that its low half is zero.
   Version 1 had lengths of 32 bits, which nothing below would read right. */
coffer_status coffer__gguf_head(coffer__gguf_in *in, uint64_t *tensors, uint64_t *pairs, coffer_error *err)
{
    uint64_t version = 0;
    coffer_status status = coffer__gguf_skip(in, 4, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__gguf_number(in, 4, &version, err);
    if (status != COFFER_OK) {
        return status;
    }
    /* The number was read as little-endian, since `swapped` was not known before; from here on all numbers are read
       in the file's order. */
    in->swapped = (version & 0xffff) == 0;
    version = in->swapped ? __builtin_bswap32((uint32_t)version) : version;
    if (version != 2 && version != 3) {
        return coffer__fail_at(err, COFFER_ERR_UNSUPPORTED, 4, "GGUF of version %u, of which only 2 and 3 are read",
                               version);
    }
    status = coffer__gguf_number(in, 8, tensors, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__gguf_number(in, 8, pairs, err);
    if (status != COFFER_OK) {
        return status;
    }
    /* Divided and not multiplied: a product with a count of the file's could wrap to a small number. */
    const uint64_t left = coffer__gguf_left(in);
    if (*tensors > left / GGUF_MIN_INFO || *pairs > left / GGUF_MIN_PAIR) {
        return gguf_fail_at(in, "it counts more tensors or keys than it has bytes for; get the file again", err);
    }
    return COFFER_OK;
}

/* ---- Values as JSON ---------------------------------------------------------------------------------------------- */

/* Both are made of the same bits, and the one that the type says is used; a cast of the number would change it. */
static void gguf_write_float(coffer__writing *out, uint64_t bits, bool single)
{
    const uint32_t low = (uint32_t)bits;
    float value = 0;
    double real = 0;
    memcpy(&value, &low, sizeof value);
    memcpy(&real, &bits, sizeof real);
    coffer__write_real(out, single ? (double)value : real, single);
}

static void gguf_write_integer(coffer__writing *out, uint64_t magnitude, bool negative)
{
    char digits[20];
    coffer__write(out, "-", negative);
    coffer__write(out, digits, coffer__write_u64(digits, magnitude));
}

/* A number of any type but text and array. The sign is the highest bit of the type's own width. The magnitude of the
   least number, too, fits in 64 bits without a sign. */
static void gguf_write_number(coffer__writing *out, uint32_t type, uint64_t number, coffer__gguf_value *value)
{
    const unsigned bits = 8u * coffer__gguf_sizes[type];
    const bool is_signed = coffer__gguf_is_signed(type);
    if (type == COFFER__GGUF_F32 || type == COFFER__GGUF_F64) {
        gguf_write_float(out, number, type == COFFER__GGUF_F32);
    } else if (type == COFFER__GGUF_BOOL) {
        coffer__write_text(out, number != 0 ? "true" : "false");
    } else {
        const bool negative = is_signed && (number >> (bits - 1)) != 0;
        const uint64_t magnitude = negative ? (~number & (UINT64_MAX >> (64 - bits))) + 1 : number;
        gguf_write_integer(out, magnitude, negative);
        value->is_unsigned = !negative;
        value->number = magnitude;
    }
}

/* A text that is too long, or that is not UTF-8, cannot be metadata: *fits becomes false, and it is skipped. Once
   something does not fit, the rest of an array is only walked over; its JSON is thrown away in the end. */
static coffer_status gguf_write_text(coffer__gguf_in *in, bool *fits, coffer_error *err)
{
    uint64_t len = 0;
    coffer_status status = coffer__gguf_number(in, 8, &len, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (!*fits || len > COFFER__GGUF_MAX_TEXT) {
        *fits = false;
        return coffer__gguf_skip(in, len, err);
    }
    status = gguf_have(in, (size_t)len, err);
    if (status != COFFER_OK) {
        return status;
    }
    const char *text = (const char *)in->window + in->position;
    *fits = coffer__utf8_valid_len(text, (size_t)len) == len;
    if (*fits) {
        coffer__write_json_n(&in->json, text, (size_t)len);
    }
    in->position += (size_t)len;
    return COFFER_OK;
}

/* The bytes are read in any case, as the next value begins after them. */
static coffer_status gguf_write_scalar(coffer__gguf_in *in, uint32_t type, coffer__gguf_value *value, bool *fits,
                                       coffer_error *err)
{
    uint64_t number = 0;
    if (type == COFFER__GGUF_TEXT) {
        return gguf_write_text(in, fits, err);
    }
    const coffer_status status = coffer__gguf_number(in, coffer__gguf_sizes[type], &number, err);
    if (status == COFFER_OK && *fits) {
        gguf_write_number(&in->json, type, number, value);
    }
    return status;
}

/* Long arrays are those of tokenizers, and are walked over: numbers at once, texts one by one. A product that
   overflows is more than the file has, and is told like that. */
static coffer_status gguf_skip_items(coffer__gguf_in *in, uint32_t type, uint64_t count, coffer_error *err)
{
    uint64_t bytes = 0;
    if (type != COFFER__GGUF_TEXT) {
        return coffer__mul_u64(count, coffer__gguf_sizes[type], &bytes) ? coffer__gguf_skip(in, bytes, err)
                                                                        : gguf_fail_short(in, err);
    }
    for (uint64_t i = 0; i < count; i++) {
        uint64_t len = 0;
        coffer_status status = coffer__gguf_number(in, 8, &len, err);
        if (status != COFFER_OK) {
            return status;
        }
        status = coffer__gguf_skip(in, len, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* The number that an element left behind is not the value of the key, which is an array. */
static coffer_status gguf_write_items(coffer__gguf_in *in, uint32_t type, uint64_t count, coffer__gguf_value *value,
                                      bool *fits, coffer_error *err)
{
    coffer__write(&in->json, "[", 1);
    for (uint64_t i = 0; i < count; i++) {
        coffer__write(&in->json, ",", i > 0);
        const coffer_status status = gguf_write_scalar(in, type, value, fits, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    coffer__write(&in->json, "]", 1);
    value->is_unsigned = false;
    return COFFER_OK;
}

/* Arrays of arrays would need a stack as deep as an attacker likes; the format has no use for them. */
static coffer_status gguf_read_type(coffer__gguf_in *in, bool in_array, uint32_t *type, coffer_error *err)
{
    uint64_t number = 0;
    const coffer_status status = coffer__gguf_number(in, 4, &number, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (number >= COFFER__GGUF_VALUE_TYPES || (in_array && number == COFFER__GGUF_ARRAY)) {
        return gguf_fail_at(in,
                            in_array ? "an array of arrays, or of a type that is not known"
                                     : "a key's value is of a type that is not known",
                            err);
    }
    *type = (uint32_t)number;
    return COFFER_OK;
}

/* The count is compared with what the file has left, at the least size of an element, before anything is done that
   often. */
static coffer_status gguf_read_array(coffer__gguf_in *in, coffer__gguf_value *value, bool *fits, coffer_error *err)
{
    uint32_t type = 0;
    uint64_t count = 0;
    coffer_status status = gguf_read_type(in, true, &type, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__gguf_number(in, 8, &count, err);
    if (status != COFFER_OK) {
        return status;
    }
    value->type = type;
    if (count > coffer__gguf_left(in) / coffer__gguf_sizes[type]) {
        return gguf_fail_short(in, err);
    }
    *fits = count <= COFFER__GGUF_MAX_ITEMS;
    return *fits ? gguf_write_items(in, type, count, value, fits, err) : gguf_skip_items(in, type, count, err);
}

/* The key is copied out of the window, which reading the value may move. A value that does not fit has no JSON, which
   is not a failure. */
coffer_status coffer__gguf_read_value(coffer__gguf_in *in, coffer__gguf_value *value, coffer_error *err)
{
    const char *key = NULL;
    uint32_t type = 0;
    bool fits = true;
    *value = (coffer__gguf_value){ 0 };
    coffer_status status = coffer__gguf_text(in, COFFER__GGUF_MAX_KEY, &key, &value->key_len, err);
    if (status != COFFER_OK) {
        return status;
    }
    memcpy(in->key, key, value->key_len);
    value->key = in->key;
    status = gguf_read_type(in, false, &type, err);
    if (status != COFFER_OK) {
        return status;
    }
    in->json.used = 0;
    value->type = type;
    value->at = coffer__gguf_at(in);
    status = type == COFFER__GGUF_ARRAY ? gguf_read_array(in, value, &fits, err)
                                        : gguf_write_scalar(in, type, value, &fits, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (in->json.failed) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the value of a key");
    }
    value->json = in->json.text;
    value->json_len = fits && in->json.used <= COFFER__GGUF_MAX_TEXT ? in->json.used : 0;
    return COFFER_OK;
}
