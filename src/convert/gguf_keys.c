/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A value is gone through twice: once to see of what type it is, which for an array depends on all of its elements, and
 * once to write it. Nothing that is no such value is an error, as metadata may be anybody's text.
 */
#include "gguf_keys.h"

#include "alloc.h"
#include "error.h"
#include "json.h"
#include "pickle_machine.h"
#include "sort.h"
#include "text.h"

#include <string.h>

/* The numbers of types; see gguf_values.c. Only these are written; what was of a smaller type in a file before comes
   back in one of them. */
enum { KEY_U32 = 4, KEY_I32 = 5, KEY_F32 = 6, KEY_BOOL = 7, KEY_TEXT = 8, KEY_ARRAY = 9, KEY_U64 = 10, KEY_I64 = 11 };

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
    bool bools;
    bool reals;
    bool integers;
    uint64_t largest; /* of the integers that are not negative … */
    uint64_t least;   /* … and the magnitude of the others */
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

/* Elements up to the bracket; `json` is after the one that opens. An empty array is one of F32, as the format has no
   array without a type. */
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

/* The type that holds all that was seen; 0 when none does. GGUF's programs write arrays of integers as i32, and
   single ones as u32, wherever they fit. Texts, bools and numbers do not mix. Integers among reals become reals. With
   a negative number the type has to be signed, and what is beyond it becomes real. */
static uint32_t key_type(const key_facts *facts, bool in_array)
{
    const int classes = facts->texts + facts->bools + (facts->reals || facts->integers);
    if (classes != 1) {
        return classes == 0 ? KEY_F32 : 0;
    }
    if (!facts->integers || facts->reals) {
        return facts->texts ? KEY_TEXT : facts->bools ? KEY_BOOL : KEY_F32;
    }
    /* The least number of a type has a magnitude one above its largest. */
    const bool is_i32 = facts->largest <= INT32_MAX && facts->least <= (uint64_t)INT32_MAX + 1;
    if (facts->least > 0) {
        return is_i32 ? KEY_I32 : facts->largest <= INT64_MAX ? KEY_I64 : KEY_F32;
    }
    if (in_array && is_i32) {
        return KEY_I32;
    }
    return facts->largest <= UINT32_MAX ? KEY_U32 : KEY_U64;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void key_write_text(coffer__writing *out, const char *text, size_t text_len)
{
    coffer__write_le(out, text_len, 8);
    coffer__write(out, text, text_len);
}

/* A string of JSON goes where its bytes will be, for which there is room as long as it is escaped; the rest is given
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

/* The type is that of the whole array, so an integer may have to be written as a real. Two's complement by unsigned
   numbers is defined also for the least one. */
static void key_write_scalar(coffer__writing *out, coffer__json *json, uint32_t type)
{
    key_number number;
    bool truth = false;
    const uint8_t first = coffer__json_peek(json);
    if (type == KEY_TEXT) {
        key_write_string(out, json);
    } else if (first == 't' || first == 'f') {
        key_read_bool(json, &truth);
        coffer__write_le(out, truth, 1);
    } else if (key_read_number(json, &number) && type == KEY_F32) {
        const float real = (float)number.value;
        uint32_t bits = 0;
        memcpy(&bits, &real, sizeof bits);
        coffer__write_le(out, bits, 4);
    } else {
        const uint64_t bits = number.negative ? ~number.magnitude + 1 : number.magnitude;
        coffer__write_le(out, bits, type == KEY_U32 || type == KEY_I32 ? 4 : 8);
    }
}

/* Failures are not looked at: the same text was gone through before without any. */
static void key_write_array(coffer__writing *out, coffer__json *json, uint32_t type, uint64_t count)
{
    coffer__write_le(out, KEY_ARRAY, 4);
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
    coffer__write_le(out, KEY_TEXT, 4);
    key_write_text(out, text, text_len);
}

/* The place after the bracket is kept, and the second pass begins there again. Errors of reading are not errors here,
   so they go to a variable that nobody looks at. */
void coffer__gguf_write_key(coffer__writing *out, const char *key, size_t key_len, const char *json, size_t json_len)
{
    coffer_error ignored;
    coffer__json in = { .in = { .base = (const uint8_t *)json, .length = json_len }, .err = &ignored };
    key_facts facts = { 0 };
    const bool is_array = coffer__json_peek(&in) == '[';
    in.in.position += is_array;
    const coffer__json begin = in;
    const bool seen = is_array ? key_see_array(&in, &facts) : key_see_scalar(&in, &facts);
    const uint32_t type =
        seen && coffer__json_peek(&in) == 0 && coffer__left(&in.in) == 0 ? key_type(&facts, is_array) : 0;
    if (type == 0) {
        coffer__gguf_write_text_key(out, key, key_len, json, json_len);
        return;
    }
    in = begin;
    key_write_text(out, key, key_len);
    if (is_array) {
        key_write_array(out, &in, type, facts.count);
    } else {
        coffer__write_le(out, type, 4);
        key_write_scalar(out, &in, type);
    }
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

/* One message for all that is wrong in shape: it shows how it should look, and the place says where it does not. */
static coffer_status key_record_fail(const coffer__json *json)
{
    return coffer__fail_at(
        json->err, COFFER_ERR_TYPE, json->in.position,
        "gguf.tensors is {\"NAME\": {\"type\": \"Q4_K\", \"shape\": [64, 256]}, ...} in the metadata, "
        "with types that GGUF has");
}

/* A string, added to the names; *at is where it begins there. An offset is given and not a pointer, since the text
   moves when it grows. Unescaped it is never longer than it is in JSON, so what is left of the input is room
   enough. */
static coffer_status key_record_read_string(coffer__gguf_records *records, coffer__json *json, size_t *at, size_t *len)
{
    bool has_control = false;
    *at = records->names.used;
    if (coffer__json_peek(json) != '"') {
        return key_record_fail(json);
    }
    char *text = coffer__write_space(&records->names, coffer__left(&json->in));
    if (text == NULL) {
        return coffer__fail(json->err, COFFER_ERR_MEMORY, "no memory for the types of tensors");
    }
    const coffer_status status = coffer__json_string(json, text, len, &has_control);
    records->names.used = *at + (status == COFFER_OK ? *len : 0);
    return status;
}

/* The name of the type is taken back out of the texts once it is known, so that only names of tensors stay there. */
static coffer_status key_record_read_type(coffer__gguf_records *records, coffer__json *json,
                                          coffer__gguf_record *record)
{
    size_t at = 0;
    size_t len = 0;
    const coffer_status status = key_record_read_string(records, json, &at, &len);
    if (status != COFFER_OK) {
        return status;
    }
    for (uint32_t i = 0; i < COFFER__GGUF_TYPES && record->type == NULL; i++) {
        const coffer__gguf_type *type = coffer__gguf_type_of(i);
        record->type = type != NULL && coffer__text_is(records->names.text + at, len, type->name) ? type : NULL;
    }
    records->names.used = at;
    return record->type != NULL ? COFFER_OK : key_record_fail(json);
}

/* The rank is checked before each number, as the array has room for four. */
static coffer_status key_record_read_shape(coffer__json *json, coffer__gguf_record *record)
{
    bool more = true;
    if (coffer__json_peek(json) != '[') {
        return key_record_fail(json);
    }
    json->in.position++;
    record->rank = 0;
    while (more) {
        if (record->rank == 4) {
            return key_record_fail(json);
        }
        coffer_status status = coffer__json_u64(json, &record->shape[record->rank++]);
        if (status == COFFER_OK) {
            status = coffer__json_next(json, ']', &more);
        }
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* {"type": …, "shape": …}, in either order, and nothing else. The text of a key is taken back at once; it is compared
   before that, while it is still there. */
static coffer_status key_record_read_value(coffer__gguf_records *records, coffer__json *json,
                                           coffer__gguf_record *record)
{
    bool more = true;
    coffer_status status = coffer__json_expect(json, '{', "an object should be here");
    while (status == COFFER_OK && more) {
        size_t at = 0;
        size_t len = 0;
        status = key_record_read_string(records, json, &at, &len);
        const char *key = records->names.text + at;
        const bool is_type = status == COFFER_OK && coffer__text_is(key, len, "type");
        if (status != COFFER_OK || (!is_type && !coffer__text_is(key, len, "shape"))) {
            return status != COFFER_OK ? status : key_record_fail(json);
        }
        records->names.used = at;
        status = coffer__json_expect(json, ':', "a colon should be here");
        if (status == COFFER_OK) {
            status = is_type ? key_record_read_type(records, json, record) : key_record_read_shape(json, record);
        }
        if (status == COFFER_OK) {
            status = coffer__json_next(json, '}', &more);
        }
    }
    return status == COFFER_OK && (record->type == NULL || record->rank == 0) ? key_record_fail(json) : status;
}

/* An item counts only when it is complete, so that a failure leaves none that is half filled. */
static coffer_status key_record_read(coffer__gguf_records *records, coffer__json *json)
{
    coffer__gguf_record *items = coffer__grow_array(records->allocator, records->items, records->count, &records->room,
                                                    sizeof *items, json->err);
    if (items == NULL) {
        return COFFER_ERR_MEMORY;
    }
    records->items = items;
    coffer__gguf_record *record = &items[records->count];
    *record = (coffer__gguf_record){ 0 };
    coffer_status status = key_record_read_string(records, json, &record->name, &record->name_len);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__json_expect(json, ':', "a colon should be here");
    if (status != COFFER_OK) {
        return status;
    }
    status = key_record_read_value(records, json, record);
    records->count += status == COFFER_OK;
    return status;
}

static bool key_record_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer__gguf_records *records = ctx;
    const coffer__gguf_record *x = &records->items[a];
    const coffer__gguf_record *y = &records->items[b];
    return coffer__compare_names(records->names.text + x->name, x->name_len, records->names.text + y->name,
                                 y->name_len) < 0;
}

/* The order is made once, so that finding the record of each tensor does not take a walk over all of them. */
static coffer_status key_record_sort(coffer__gguf_records *records, coffer_error *err)
{
    records->order = coffer__alloc_array(records->allocator, records->count, sizeof *records->order, err);
    if (records->order == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < records->count; i++) {
        records->order[i] = (uint32_t)i;
    }
    coffer__sort(records->order, records->count, key_record_before, records);
    return COFFER_OK;
}

/* The metadata may be anybody's text, so what follows the object is an error too. */
coffer_status coffer__gguf_read_records(coffer__gguf_records *records, const char *json, size_t json_len,
                                        coffer_error *err)
{
    bool more = true;
    coffer__json in = { .in = { .base = (const uint8_t *)json, .length = json_len },
                        .err = err,
                        .noun = "the metadata's gguf.tensors" };
    coffer_status status = coffer__json_expect(&in, '{', "an object should be here");
    while (status == COFFER_OK && more) {
        status = key_record_read(records, &in);
        if (status == COFFER_OK) {
            status = coffer__json_next(&in, '}', &more);
        }
    }
    if (status == COFFER_OK && (coffer__json_peek(&in) != 0 || coffer__left(&in.in) > 0)) {
        status = coffer__json_error(&in, "nothing should follow");
    }
    return status == COFFER_OK ? key_record_sort(records, err) : status;
}

/* A name that is asked for, with the records that it may be in. */
typedef struct key_record_wanted {
    const char *name;
    size_t name_len;
} key_record_wanted;

static int key_record_compare(const void *ctx, size_t i, const void *wanted)
{
    const coffer__gguf_records *records = ctx;
    const key_record_wanted *name = wanted;
    const coffer__gguf_record *record = &records->items[records->order[i]];
    return coffer__compare_names(records->names.text + record->name, record->name_len, name->name, name->name_len);
}

const coffer__gguf_record *coffer__gguf_find_record(const coffer__gguf_records *records, const char *name,
                                                    size_t name_len)
{
    size_t found = 0;
    const key_record_wanted wanted = { name, name_len };
    return coffer__find_sorted(records->count, key_record_compare, records, &wanted, &found)
               ? &records->items[records->order[found]]
               : NULL;
}

/* Also of what a failure left half made: pointers that were not set are NULL, and freeing these does nothing. */
void coffer__gguf_free_records(coffer__gguf_records *records)
{
    coffer__free_array(records->allocator, records->order, records->count, sizeof *records->order);
    coffer__free_array(records->allocator, records->items, records->room, sizeof *records->items);
    coffer__writing_free(&records->names);
}
