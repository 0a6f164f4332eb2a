/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passing over a JSON value that nobody asks for. It has to be JSON all the same, and the same JSON that
 * the reference accepts: containers nested to a limit, numbers that a double can hold; and, which is
 * stricter, no key twice in an object. Two readers could each believe another one of two members with
 * the same key.
 *
 * Nothing recurses. The containers that are open are a stack of fixed size, as deep as the limit. The
 * keys of the objects that are open lie in the scratch memory, those of an inner object after those of
 * the outer, each as
 *     length u32, position in the header u32, the unescaped bytes, padding to 4
 * and when an object closes they are sorted, compared and dropped. So the time is O(n log n) in the
 * number of keys whatever the keys are; a hash table would need a defence against collisions.
 */
#include "alloc.h"
#include "error.h"
#include "json.h"
#include "sort.h"

#include <float.h>

/* Bytes of the two numbers before a key. */
#define SKIP_KEY_HEAD 8u

/* The containers that are open within the value, the outermost first. About 1.2 KB on the stack of
   the caller. */
typedef struct skip_stack {
    size_t depth;
    bool is_object[COFFER__JSON_MAX_DEPTH];
    size_t keys_at[COFFER__JSON_MAX_DEPTH]; /* where in the scratch memory the keys of each begin */
} skip_stack;

void coffer__scratch_free(coffer__scratch *scratch)
{
    coffer__free(scratch->allocator, scratch->block, scratch->size);
    scratch->block = NULL;
    scratch->size = 0;
    scratch->used = 0;
}

/* Space for `size` bytes more after what is used. The block may move: distances are kept, pointers
   are not. It grows by half at least, so that many small keys cost few allocations. */
static coffer_status scratch_reserve(coffer__scratch *scratch, size_t size, coffer_error *err)
{
    if (size <= scratch->size - scratch->used) {
        return COFFER_OK;
    }
    /* Distances in the scratch memory are kept in 32 bits, so it never exceeds that. */
    const uint64_t wanted = (uint64_t)scratch->used + size;
    const uint64_t grown = wanted + wanted / 2 + 256;
    uint8_t *block = NULL;
    if (wanted <= UINT32_MAX && grown <= SIZE_MAX) {
        block = coffer__realloc(scratch->allocator, scratch->block, scratch->size, (size_t)grown);
    }
    if (block == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the keys of JSON objects (%z)", grown);
    }
    scratch->block = block;
    scratch->size = (size_t)grown;
    return COFFER_OK;
}

/* The field of a key's head that begins at byte `at`: its length at 0, its position at 4. */
static uint32_t skip_key_field(const uint8_t *key, size_t at)
{
    uint32_t value;
    memcpy(&value, key + at, sizeof value);
    return value;
}

/* A multiple of 4, so that all keys, and the array that sorts them, are aligned for 32 bits. */
static size_t skip_key_size(size_t key_len)
{
    return SKIP_KEY_HEAD + (key_len + 3) / 4 * 4;
}

static int skip_key_compare(const uint8_t *a, const uint8_t *b)
{
    return coffer__compare_names((const char *)a + SKIP_KEY_HEAD, skip_key_field(a, 0), (const char *)b + SKIP_KEY_HEAD,
                                 skip_key_field(b, 0));
}

/* Compares keys by their distances from the block's start, `ctx`. */
static bool skip_key_before(const void *ctx, uint32_t a, uint32_t b)
{
    const uint8_t *block = ctx;
    return skip_key_compare(block + a, block + b) < 0;
}

/*
 * Reads the key of a member into the scratch memory, and consumes the colon. The string is read
 * twice: measured first, then stored. The rest of the input would bound its length, too, but may be
 * a hundred megabytes, and there may be a million keys.
 */
static coffer_status skip_read_key(coffer__json *json, coffer__scratch *scratch)
{
    if (coffer__json_peek(json) != '"') {
        return coffer__json_error(json, "a key in quotes should be here");
    }
    const uint32_t position = (uint32_t)json->in.position;
    bool has_control;
    size_t length;
    coffer__json measure = *json;
    coffer_status status = coffer__json_string(&measure, NULL, &length, &has_control);
    if (status == COFFER_OK) {
        status = scratch_reserve(scratch, skip_key_size(length), json->err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    uint8_t *key = scratch->block + scratch->used;
    const uint32_t length_field = (uint32_t)length;
    memcpy(key, &length_field, sizeof length_field);
    memcpy(key + 4, &position, sizeof position);
    /* The string that was just measured: it cannot fail. */
    (void)coffer__json_string(json, (char *)key + SKIP_KEY_HEAD, &length, &has_control);
    scratch->used += skip_key_size(length);
    return coffer__json_expect(json, ':', "a colon should be here");
}

static coffer_status skip_fail_duplicate(const coffer__json *json, const uint8_t *key)
{
    const uint64_t offset = json->origin + skip_key_field(key, 4);
    return coffer__fail_at(json->err, COFFER_ERR_DUPLICATE_KEY, offset,
                           "at byte %u, the key %q occurs a second time in its object", offset,
                           (const char *)key + SKIP_KEY_HEAD, (size_t)skip_key_field(key, 0));
}

/*
 * Compares the keys from `keys_at` on with each other, then drops them. They belong to one object:
 * those of objects within it were dropped when these closed. The array of distances that is sorted
 * lies after the keys and is never counted as used.
 *
 * Of several keys that come twice, the one named is the first second occurrence in the header. Keys
 * lie in the header's order, and the sort puts equal ones in the order of their distances, so a
 * lower address is an earlier byte.
 */
static coffer_status skip_close_object(coffer__json *json, size_t keys_at, coffer__scratch *scratch)
{
    size_t count = 0;
    for (size_t at = keys_at; at < scratch->used; at += skip_key_size(skip_key_field(scratch->block + at, 0))) {
        count++;
    }
    const coffer_status status = scratch_reserve(scratch, count * sizeof(uint32_t), json->err);
    if (status != COFFER_OK) {
        return status;
    }
    uint32_t *order = (uint32_t *)(void *)(scratch->block + scratch->used);
    size_t at = keys_at;
    for (size_t i = 0; i < count; i++) {
        order[i] = (uint32_t)at;
        at += skip_key_size(skip_key_field(scratch->block + at, 0));
    }
    coffer__sort(order, count, skip_key_before, scratch->block);
    const uint8_t *second = NULL;
    for (size_t i = 1; i < count; i++) {
        const uint8_t *key = scratch->block + order[i];
        if (skip_key_compare(scratch->block + order[i - 1], key) == 0 && (second == NULL || key < second)) {
            second = key;
        }
    }
    scratch->used = keys_at;
    return second == NULL ? COFFER_OK : skip_fail_duplicate(json, second);
}

/* ---- scalars ---- */

/*
 * Powers of ten that decide whether a significand of 64 bits, at most 1.8e19, goes beyond the
 * largest double, 1.8e308: below 1e289 none does, above 1e308 all do but 0. The table has those
 * between.
 */
#define SKIP_MIN_POWER 289
#define SKIP_LARGEST_POWER 308
static const double skip_powers[] = { 1e289, 1e290, 1e291, 1e292, 1e293, 1e294, 1e295, 1e296, 1e297, 1e298,
                                      1e299, 1e300, 1e301, 1e302, 1e303, 1e304, 1e305, 1e306, 1e307, 1e308 };

static bool skip_is_digit(uint8_t byte)
{
    return byte >= '0' && byte <= '9';
}

/* Appends a digit when 64 bits have space for it. */
static bool skip_append(uint64_t *significand, uint8_t digit)
{
    const uint64_t value = (uint64_t)(digit - '0');
    if (*significand > (UINT64_MAX - value) / 10) {
        return false;
    }
    *significand = *significand * 10 + value;
    return true;
}

/*
 * Whether a number, whose grammar is known to be right, is beyond a double. The reference takes the
 * first digits, as many as 64 bits hold, and multiplies them by a power of ten, which is not exact
 * to the last bit. This does the same, to agree about the last few numbers below the limit too.
 *
 * `power` counts the digits before the point that were dropped, less those after it that were kept.
 * A digit that did not fit makes all later ones dropped, whatever they are.
 */
static bool skip_number_overflows(const uint8_t *text, size_t text_len)
{
    uint64_t significand = 0;
    int64_t power = 0;
    bool full = false;
    size_t i = text[0] == '-' ? 1 : 0;
    for (; i < text_len && skip_is_digit(text[i]); i++) {
        full = full || !skip_append(&significand, text[i]);
        power += full ? 1 : 0;
    }
    for (i += i < text_len && text[i] == '.' ? 1 : 0; i < text_len && skip_is_digit(text[i]); i++) {
        full = full || !skip_append(&significand, text[i]);
        power -= full ? 0 : 1;
    }
    int64_t exponent = 0;
    const bool negative = i < text_len && text[i + 1] == '-';
    for (; i < text_len; i++) {
        /* The exponent stops growing long before int64_t overflows. By then it outweighs the
           number's digits, of which a text has fewer than that. */
        if (skip_is_digit(text[i]) && exponent < UINT32_MAX) {
            exponent = exponent * 10 + (text[i] - '0');
        }
    }
    power += negative ? -exponent : exponent;
    if (significand == 0 || power < SKIP_MIN_POWER) {
        return false;
    }
    return power > SKIP_LARGEST_POWER || (double)significand * skip_powers[power - SKIP_MIN_POWER] > DBL_MAX;
}

/* Consumes decimal digits, and tells how many there were. */
static void skip_digits(coffer__json *json, size_t *count)
{
    *count = 0;
    while (coffer__left(&json->in) > 0 && skip_is_digit(json->in.base[json->in.position])) {
        json->in.position++;
        (*count)++;
    }
}

/* Consumes a byte that is one of some characters, when it is next. */
static bool skip_one_of(coffer__json *json, const char *characters)
{
    for (; *characters != '\0'; characters++) {
        if (coffer__next_is(&json->in, characters, 1)) {
            json->in.position++;
            return true;
        }
    }
    return false;
}

/*
 * A number by JSON's grammar: a minus, digits without a leading zero, a point with digits, an
 * exponent with digits. `digits` is that of the last part read; a part without digits ends the
 * number and is the fault. A leading zero is reported where the number begins, other faults where
 * the digit is missing.
 */
static coffer_status skip_number(coffer__json *json)
{
    const size_t start = json->in.position;
    size_t digits;
    skip_one_of(json, "-");
    const bool zero = coffer__next_is(&json->in, "0", 1);
    skip_digits(json, &digits);
    if (digits == 0 || (zero && digits > 1)) {
        json->in.position = zero ? start : json->in.position;
        return coffer__json_error(json, zero ? "a number has a leading zero" : "a digit should be here");
    }
    if (skip_one_of(json, ".")) {
        skip_digits(json, &digits);
    }
    if (digits > 0 && skip_one_of(json, "eE")) {
        skip_one_of(json, "+-");
        skip_digits(json, &digits);
    }
    if (digits == 0) {
        return coffer__json_error(json, "a digit should be here");
    }
    if (skip_number_overflows(json->in.base + start, json->in.position - start)) {
        return coffer__fail_at(json->err, COFFER_ERR_NUMBER, json->origin + start,
                               "at byte %u, a number is beyond what a double can hold", json->origin + start);
    }
    return COFFER_OK;
}

/* What follows a word or number is not looked at here: whatever asks for the next token refuses it. */
static coffer_status skip_scalar(coffer__json *json)
{
    static const char *const words[] = { "true", "false", "null" };
    static const size_t lengths[] = { 4, 5, 4 };
    const uint8_t next = coffer__json_peek(json);
    if (next == '"') {
        size_t length;
        bool has_control;
        return coffer__json_string(json, NULL, &length, &has_control);
    }
    if (next == '-' || skip_is_digit(next)) {
        return skip_number(json);
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (coffer__next_is(&json->in, words[i], lengths[i])) {
            json->in.position += lengths[i];
            return COFFER_OK;
        }
    }
    return coffer__json_error(json, "a value should be here");
}

/* ---- the walk ---- */

/* Consumes the bracket at the cursor and, in an object, its first key. *empty tells that the
   container closed at once: it is not pushed, and the value is complete. */
static coffer_status skip_open(coffer__json *json, size_t depth, skip_stack *stack, coffer__scratch *scratch,
                               bool *empty)
{
    if (depth + stack->depth >= COFFER__JSON_MAX_DEPTH) {
        const uint64_t offset = json->origin + json->in.position;
        return coffer__fail_at(json->err, COFFER_ERR_DEPTH, offset, "at byte %u, %s nests values deeper than %u levels",
                               offset, coffer__json_noun(json), (uint64_t)COFFER__JSON_MAX_DEPTH);
    }
    const bool is_object = json->in.base[json->in.position] == '{';
    json->in.position++;
    *empty = coffer__json_peek(json) == (is_object ? '}' : ']');
    if (*empty) {
        json->in.position++;
        return COFFER_OK;
    }
    stack->is_object[stack->depth] = is_object;
    stack->keys_at[stack->depth] = scratch->used;
    stack->depth++;
    return is_object ? skip_read_key(json, scratch) : COFFER_OK;
}

/*
 * After a value that is complete: consumes the comma and, in an object, the next key; or closes the
 * container, which is then a value that is complete itself, and so on outwards. Ends when a value
 * has to follow, or when nothing is open any more.
 */
static coffer_status skip_advance(coffer__json *json, skip_stack *stack, coffer__scratch *scratch)
{
    while (stack->depth > 0) {
        const bool is_object = stack->is_object[stack->depth - 1];
        bool more;
        coffer_status status = coffer__json_next(json, is_object ? '}' : ']', &more);
        if (status != COFFER_OK) {
            return status;
        }
        if (more) {
            return is_object ? skip_read_key(json, scratch) : COFFER_OK;
        }
        stack->depth--;
        if (is_object) {
            status = skip_close_object(json, stack->keys_at[stack->depth], scratch);
            if (status != COFFER_OK) {
                return status;
            }
        }
    }
    return COFFER_OK;
}

/* One turn for each value: a scalar is complete at once, a container when it is empty; any other
   container is complete when skip_advance closes it. */
coffer_status coffer__json_skip(coffer__json *json, size_t depth, coffer__scratch *scratch)
{
    skip_stack stack;
    stack.depth = 0;
    coffer_status status = COFFER_OK;
    do {
        const uint8_t next = coffer__json_peek(json);
        bool complete = true;
        if (next == '{' || next == '[') {
            status = skip_open(json, depth, &stack, scratch, &complete);
        } else {
            status = skip_scalar(json);
        }
        if (status == COFFER_OK && complete) {
            status = skip_advance(json, &stack, scratch);
        }
    } while (status == COFFER_OK && stack.depth > 0);
    return status;
}
