/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A value is gone through twice: once to see what is in it, which for an array depends on all of its elements, and once
 * to write it. Nothing that is no such value is an error, as metadata may be anybody's text.
 */
#include "gguf_keys.h"

#include "json.h"
#include "pickle_text.h"
#include "text.h"

#include <math.h>
#include <string.h>

/* ---- types ------------------------------------------------------------------------------------------------------- */

const uint8_t coffer__gguf_sizes[COFFER__GGUF_VALUE_TYPES] = { 1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8 };

/* With their quotes, as all values in the metadata are JSON, and tools may show or parse them as such. */
static const char *const key_names[COFFER__GGUF_VALUE_TYPES] = {
    "\"u8\"",   "\"i8\"",   "\"u16\"",   "\"i16\"", "\"u32\"", "\"i32\"", "\"f32\"",
    "\"bool\"", "\"text\"", "\"array\"", "\"u64\"", "\"i64\"", "\"f64\"",
};

bool coffer__gguf_is_signed(uint32_t type)
{
    return type == COFFER__GGUF_I8 || type == COFFER__GGUF_I16 || type == COFFER__GGUF_I32 || type == COFFER__GGUF_I64;
}

static bool key_is_real(uint32_t type)
{
    return type == COFFER__GGUF_F32 || type == COFFER__GGUF_F64;
}

const char *coffer__gguf_value_name(uint32_t type)
{
    return key_names[type];
}

/* Thirteen comparisons for each key that has a type: no index is worth it. */
uint32_t coffer__gguf_value_type(const char *name, size_t name_len)
{
    uint32_t type = 0;
    while (type < COFFER__GGUF_VALUE_TYPES && !coffer__text_is(name, name_len, key_names[type])) {
        type++;
    }
    return type;
}

/* ---- one scalar -------------------------------------------------------------------------------------------------- */

typedef struct key_number {
    bool real; /* it has a point or an exponent, or is too large for an integer of 64 bits */
    bool negative;
    uint64_t magnitude; /* of an integer */
    double value;
} key_number;

/* What was seen of an array's elements, or of the one value. The bounds are enough to choose a type of integers, so
   the numbers themselves need not be kept. */
typedef struct key_facts {
    bool texts;
    bool others; /* texts that are no words for numbers */
    bool bools;
    bool reals;
    bool integers;
    uint64_t largest; /* of the integers that are not negative */
    uint64_t least;   /* the largest magnitude of the negative integers */
    uint64_t count;
} key_facts;

/* Digits with what else a number has, and nothing else of JSON. */
static bool key_is_of_number(uint8_t byte)
{
    return (byte >= '0' && byte <= '9') || byte == '-' || byte == '+' || byte == '.' || byte == 'e' || byte == 'E';
}

/* The magnitude is exact as long as it fits in 64 bits, which a double is not. A digit that does not fit makes the
   number a real one, whose value is taken from the text; the magnitude then means nothing. */
static bool key_read_number(coffer__json *json, key_number *number)
{
    const size_t start = json->in.position;
    const char *text = (const char *)json->in.base + start;
    *number = (key_number){ .negative = coffer__json_peek(json) == '-' };
    while (coffer__left(&json->in) > 0 && key_is_of_number(json->in.base[json->in.position])) {
        const uint8_t byte = json->in.base[json->in.position++];
        const unsigned digit = (unsigned)byte - '0';
        const bool sign = byte == '-' && json->in.position == start + 1;
        if (digit > 9 || number->magnitude > (UINT64_MAX - digit) / 10) {
            number->real = number->real || !sign;
        } else {
            number->magnitude = number->magnitude * 10 + digit;
        }
    }
    number->real = number->real || (number->negative && number->magnitude > (uint64_t)INT64_MAX + 1);
    return coffer__pickle_read_real(text, json->in.position - start, &number->value);
}

/* A string that stands for a number which JSON has not; it is gone past in any case. False: it is no such string, or
   none at all. */
static bool key_read_word(coffer__json *json, double *value)
{
    static const struct {
        const char *word;
        double value;
    } words[] = { { "\"NaN\"", NAN }, { "\"Infinity\"", HUGE_VAL }, { "\"-Infinity\"", -HUGE_VAL } };
    for (size_t i = 0; i < 3; i++) {
        const size_t len = strlen(words[i].word);
        if (coffer__next_is(&json->in, words[i].word, len)) {
            json->in.position += len;
            *value = words[i].value;
            return true;
        }
    }
    return false;
}

/* Only the first letter is known before, so the whole word is compared. */
static bool key_read_bool(coffer__json *json, bool *value)
{
    *value = coffer__next_is(&json->in, "true", 4);
    if (!*value && !coffer__next_is(&json->in, "false", 5)) {
        return false;
    }
    json->in.position += *value ? 4 : 5;
    return true;
}

/* False: this is no scalar that GGUF has. What is not one of these words, a string or a number, such as null or an
   object, ends the look at it: the value is then written as text. */
static bool key_see_scalar(coffer__json *json, key_facts *facts)
{
    key_number number;
    bool truth = false;
    bool has_control = false;
    size_t len = 0;
    const uint8_t first = coffer__json_peek(json);
    facts->count++;
    if (first == '"') {
        facts->texts = true;
        if (key_read_word(json, &number.value)) {
            return true;
        }
        facts->others = true;
        return coffer__json_string(json, NULL, &len, &has_control) == COFFER_OK;
    }
    if (first == 't' || first == 'f') {
        facts->bools = true;
        return key_read_bool(json, &truth);
    }
    if (!key_read_number(json, &number)) {
        return false;
    }
    facts->reals = facts->reals || number.real;
    facts->integers = facts->integers || !number.real;
    uint64_t *bound = number.negative ? &facts->least : &facts->largest;
    *bound = number.magnitude > *bound ? number.magnitude : *bound;
    return true;
}

/* Elements up to the bracket; `json` is after the one that opens. */
static bool key_see_array(coffer__json *json, key_facts *facts)
{
    bool more = coffer__json_peek(json) != ']';
    if (!more) {
        json->in.position++;
    }
    while (more) {
        if (!key_see_scalar(json, facts) || coffer__json_next(json, ']', &more) != COFFER_OK) {
            return false;
        }
    }
    return true;
}

/* Goes through a value, and moves to its first scalar. False: it is no value that GGUF has. */
static bool key_see(coffer__json *json, key_facts *facts, bool *is_array)
{
    *is_array = coffer__json_peek(json) == '[';
    json->in.position += *is_array;
    coffer__json at = *json;
    const bool seen = *is_array ? key_see_array(&at, facts) : key_see_scalar(&at, facts);
    return seen && coffer__json_peek(&at) == 0 && coffer__left(&at.in) == 0;
}

/* The type that holds all that was seen. GGUF's programs write arrays of integers as i32, and single ones as u32,
   wherever they fit; an empty array is one of F32, as the format has no array without a type. Texts, bools and numbers
   do not mix. Integers among reals become reals. With a negative number the type has to be signed, and what is beyond it
   becomes real. */
static uint32_t key_type(const key_facts *facts, bool in_array)
{
    const int classes = facts->texts + facts->bools + (facts->reals || facts->integers);
    if (classes != 1) {
        return classes == 0 ? COFFER__GGUF_F32 : COFFER__GGUF_VALUE_TYPES;
    }
    if (!facts->integers || facts->reals) {
        return facts->texts ? COFFER__GGUF_TEXT : facts->bools ? COFFER__GGUF_BOOL : COFFER__GGUF_F32;
    }
    /* The least number of a type has a magnitude one above its largest. */
    const bool is_i32 = facts->largest <= INT32_MAX && facts->least <= (uint64_t)INT32_MAX + 1;
    if (facts->least > 0) {
        return is_i32 ? COFFER__GGUF_I32 : facts->largest <= INT64_MAX ? COFFER__GGUF_I64 : COFFER__GGUF_F32;
    }
    if (in_array && is_i32) {
        return COFFER__GGUF_I32;
    }
    return facts->largest <= UINT32_MAX ? COFFER__GGUF_U32 : COFFER__GGUF_U64;
}

/* Whether all that was seen fits in a type. Metadata can be edited, so a type that is told beside a value need not be
   that of the value any more. */
static bool key_fits(const key_facts *facts, uint32_t type)
{
    if (type == COFFER__GGUF_TEXT || type == COFFER__GGUF_BOOL) {
        const bool numbers = facts->reals || facts->integers;
        return !numbers && !(type == COFFER__GGUF_TEXT ? facts->bools : facts->texts);
    }
    if (key_is_real(type)) {
        return !facts->others && !facts->bools;
    }
    if (type >= COFFER__GGUF_VALUE_TYPES || type == COFFER__GGUF_ARRAY || facts->texts || facts->bools ||
        facts->reals) {
        return false;
    }
    const unsigned bits = 8u * coffer__gguf_sizes[type];
    const uint64_t most = UINT64_MAX >> (64 - bits) >> coffer__gguf_is_signed(type);
    return facts->largest <= most && facts->least <= (coffer__gguf_is_signed(type) ? most + 1 : 0);
}

uint32_t coffer__gguf_reported_type(const char *json, size_t json_len)
{
    coffer_error ignored;
    coffer__json in = { .in = { .base = (const uint8_t *)json, .length = json_len }, .err = &ignored };
    key_facts facts = { 0 };
    bool is_array = false;
    return key_see(&in, &facts, &is_array) ? key_type(&facts, is_array) : COFFER__GGUF_VALUE_TYPES;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void key_write_text(coffer__writing *out, const char *text, size_t text_len)
{
    coffer__write_le(out, text_len, 8);
    coffer__write(out, text, text_len);
}

/* A string of JSON goes where its bytes will be, for which there is space as long as it is escaped; the rest is given
   back. Its length is known only afterwards and is filled in then, byte by byte, as the format is little-endian on
   every machine. */
static void key_write_string(coffer__writing *out, coffer__json *json)
{
    size_t len = 0;
    bool has_control = false;
    const size_t at = out->used;
    coffer__write_le(out, 0, 8);
    char *text = coffer__write_space(out, coffer__left(&json->in));
    if (text == NULL) {
        return;
    }
    coffer__json_string(json, text, &len, &has_control);
    out->used = at + 8 + len;
    for (size_t i = 0; i < 8; i++) {
        out->text[at + i] = (char)(uint8_t)((uint64_t)len >> (8 * i));
    }
}

/* The bits of the number are its bytes on every machine, since they are written as an integer. What is beyond F32 becomes
   infinity there, as a cast makes it. */
static void key_write_real(coffer__writing *out, double value, uint32_t type)
{
    uint32_t low = 0;
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    if (type == COFFER__GGUF_F32) {
        const float single = (float)value;
        memcpy(&low, &single, sizeof low);
        bits = low;
    }
    coffer__write_le(out, bits, coffer__gguf_sizes[type]);
}

/* The type is that of the whole array, so an integer may have to be written as a real. Two's complement by unsigned
   numbers is defined also for the least one. */
static void key_write_scalar(coffer__writing *out, coffer__json *json, uint32_t type)
{
    key_number number = { .real = false };
    bool truth = false;
    const uint8_t first = coffer__json_peek(json);
    if (type == COFFER__GGUF_TEXT) {
        key_write_string(out, json);
    } else if (first == 't' || first == 'f') {
        key_read_bool(json, &truth);
        coffer__write_le(out, truth, 1);
    } else if ((first == '"' ? key_read_word(json, &number.value) : key_read_number(json, &number)) &&
               key_is_real(type)) {
        key_write_real(out, number.value, type);
    } else {
        const uint64_t bits = number.negative ? ~number.magnitude + 1 : number.magnitude;
        coffer__write_le(out, bits, coffer__gguf_sizes[type]);
    }
}

/* Failures are not looked at: the same text was gone through before without any. */
static void key_write_array(coffer__writing *out, coffer__json *json, uint32_t type, uint64_t count)
{
    coffer__write_le(out, COFFER__GGUF_ARRAY, 4);
    coffer__write_le(out, type, 4);
    coffer__write_le(out, count, 8);
    for (uint64_t i = 0; i < count; i++) {
        bool more = false;
        key_write_scalar(out, json, type);
        coffer__json_next(json, ']', &more);
    }
}

void coffer__gguf_write_text_key(coffer__writing *out, const char *key, size_t key_len, const char *text,
                                 size_t text_len)
{
    key_write_text(out, key, key_len);
    coffer__write_le(out, COFFER__GGUF_TEXT, 4);
    key_write_text(out, text, text_len);
}

/* The place of the first scalar is kept, and the second pass begins there. Errors of reading are not errors here, so they
   go to a variable that nobody looks at. */
void coffer__gguf_write_key(coffer__writing *out, const char *key, size_t key_len, const char *json, size_t json_len,
                            uint32_t type)
{
    coffer_error ignored;
    coffer__json in = { .in = { .base = (const uint8_t *)json, .length = json_len }, .err = &ignored };
    key_facts facts = { 0 };
    bool is_array = false;
    const bool seen = key_see(&in, &facts, &is_array);
    const uint32_t fitting = seen && key_fits(&facts, type) ? type : key_type(&facts, is_array);
    if (!seen || fitting == COFFER__GGUF_VALUE_TYPES) {
        coffer__gguf_write_text_key(out, key, key_len, json, json_len);
        return;
    }
    key_write_text(out, key, key_len);
    if (is_array) {
        key_write_array(out, &in, fitting, facts.count);
    } else {
        coffer__write_le(out, fitting, 4);
        key_write_scalar(out, &in, fitting);
    }
}
