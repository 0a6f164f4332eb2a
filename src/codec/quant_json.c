/* SPDX-License-Identifier: Apache-2.0 */
/* A walk over JSON: see quant_json.h. */
#include "quant_json.h"

#include "bytes.h"
#include "json.h"

#include <string.h>

/* The walk: what is open, and where each of it began. */
typedef struct quant_json_walk {
    coffer__json json;
    coffer__walk_value value;
    coffer__walk_visit *visit;
    void *ctx;
    size_t depth; /* containers that are open */
    char open[COFFER__JSON_MAX_DEPTH + 1];
} quant_json_walk;

static const char *walk_at(const quant_json_walk *walk, size_t position)
{
    return (const char *)walk->json.in.base + position;
}

/* Visits a value, whose text is from `from` to `to`. */
static void walk_tell(quant_json_walk *walk, size_t depth, char kind, size_t from, size_t to)
{
    if (depth > COFFER__WALK_DEPTH) {
        return;
    }
    walk->value.depth = depth;
    walk->value.kind = kind;
    walk->value.text = (coffer__quant_span){ walk_at(walk, from), to - from };
    walk->visit(walk->ctx, &walk->value);
}

/* The key of a member, or nothing of an element. */
static coffer_status walk_key(quant_json_walk *walk)
{
    coffer__json *json = &walk->json;
    bool has_control = false;
    size_t len = 0;
    (void)coffer__json_peek(json);
    const size_t from = json->in.position;
    coffer__quant_span key = { "", 0 };
    if (walk->depth > 0 && walk->open[walk->depth] == '{') {
        coffer_status status = coffer__json_string(json, NULL, &len, &has_control);
        key = (coffer__quant_span){ walk_at(walk, from + 1), json->in.position - from - 2 };
        if (status == COFFER_OK) {
            status = coffer__json_expect(json, ':', "a colon should be here");
        }
        if (status != COFFER_OK) {
            return status;
        }
    }
    if (walk->depth > 0 && walk->depth <= COFFER__WALK_DEPTH) {
        walk->value.path[walk->depth - 1] = key;
    }
    return COFFER_OK;
}

static coffer_status walk_scalar(quant_json_walk *walk, uint8_t first)
{
    coffer__json *json = &walk->json;
    coffer__scratch none = { .allocator = NULL };
    bool has_control = false;
    size_t len = 0;
    const size_t from = json->in.position;
    if (first == '"') {
        const coffer_status status = coffer__json_string(json, NULL, &len, &has_control);
        if (status == COFFER_OK) {
            walk_tell(walk, walk->depth, '"', from + 1, json->in.position - 1);
        }
        return status;
    }
    const coffer_status status = coffer__json_skip(json, walk->depth, &none);
    if (status == COFFER_OK) {
        walk_tell(walk, walk->depth, first >= 'a' ? 'a' : '0', from, json->in.position);
    }
    return status;
}

/* A container begins. *empty: it ends at once. */
static coffer_status walk_open(quant_json_walk *walk, uint8_t first, bool *empty)
{
    coffer__json *json = &walk->json;
    const char close = first == '{' ? '}' : ']';
    if (walk->depth == COFFER__JSON_MAX_DEPTH) {
        return coffer__json_error(json, "it is nested too deeply");
    }
    walk_tell(walk, walk->depth, (char)first, json->in.position, json->in.position + 1);
    json->in.position++;
    walk->depth++;
    walk->open[walk->depth] = (char)first;
    *empty = coffer__json_peek(json) == (uint8_t)close;
    if (*empty) {
        json->in.position++;
    }
    return COFFER_OK;
}

/* After a value, and after each container that ends with it. */
static coffer_status walk_close(quant_json_walk *walk, bool ended)
{
    bool more = false;
    while (walk->depth > 0 && !more) {
        if (!ended) {
            const char close = walk->open[walk->depth] == '{' ? '}' : ']';
            const coffer_status status = coffer__json_next(&walk->json, close, &more);
            if (status != COFFER_OK || more) {
                return status;
            }
        }
        ended = false;
        walk->depth--;
    }
    return COFFER_OK;
}

coffer_status coffer__walk_json(const char *text, size_t size, const char *noun, coffer__walk_visit *visit, void *ctx,
                                coffer_error *err)
{
    quant_json_walk walk = {
        .json = { .in = { .base = (const uint8_t *)text, .length = size }, .err = err, .noun = noun },
        .visit = visit,
        .ctx = ctx
    };
    coffer_status status = COFFER_OK;
    do {
        bool empty = false;
        status = walk_key(&walk);
        const uint8_t first = coffer__json_peek(&walk.json);
        const bool opens = first == '{' || first == '[';
        if (status == COFFER_OK) {
            status = opens ? walk_open(&walk, first, &empty) : walk_scalar(&walk, first);
        }
        if (status == COFFER_OK && (!opens || empty)) {
            status = walk_close(&walk, empty);
        }
    } while (status == COFFER_OK && walk.depth > 0);
    if (status == COFFER_OK && (coffer__json_peek(&walk.json) != 0 || walk.json.in.position != size)) {
        status = coffer__json_error(&walk.json, "nothing should follow");
    }
    return status;
}

bool coffer__span_is(coffer__quant_span span, const char *text)
{
    size_t i = 0;
    while (i < span.len && text[i] != '\0' && span.text[i] == text[i]) {
        i++;
    }
    return i == span.len && text[i] == '\0';
}

uint64_t coffer__span_number(coffer__quant_span span)
{
    uint64_t number = 0;
    for (size_t i = 0; i < span.len; i++) {
        const unsigned digit = (unsigned)(uint8_t)span.text[i] - '0';
        if (digit > 9 || number > (UINT64_MAX - digit) / 10) {
            return 0;
        }
        number = number * 10 + digit;
    }
    return number;
}

/* Digits with a point and an exponent, by doubles. What programs write here are F32, in full: the double that comes out may
   be a few units off, which is far less than half a unit of the F32 that is nearest. */
bool coffer__span_float(coffer__quant_span span, float *value)
{
    double number = 0;
    int scale = 0;
    size_t i = span.len > 0 && span.text[0] == '-' ? 1 : 0;
    bool point = false;
    for (; i < span.len && span.text[i] != 'e' && span.text[i] != 'E'; i++) {
        if (span.text[i] == '.') {
            point = true;
            continue;
        }
        if (span.text[i] < '0' || span.text[i] > '9') {
            return false;
        }
        number = number * 10 + (double)(span.text[i] - '0');
        scale -= point;
    }
    if (i < span.len) {
        const bool minus = i + 1 < span.len && span.text[i + 1] == '-';
        const bool plus = i + 1 < span.len && span.text[i + 1] == '+';
        const coffer__quant_span digits = { span.text + i + 1 + (minus || plus), span.len - i - 1 - (minus || plus) };
        const uint64_t exponent = coffer__span_number(digits);
        if (exponent > 400) {
            return false;
        }
        scale += minus ? -(int)exponent : (int)exponent;
    }
    double power = 1;
    for (int k = 0; k < (scale < 0 ? -scale : scale) && k < 400; k++) {
        power *= 10;
    }
    number = scale < 0 ? number / power : number * power;
    *value = (float)(span.text[0] == '-' ? -number : number);
    return number < 3.4e38;
}

coffer_dtype coffer__span_dtype(coffer__quant_span span)
{
    if (coffer__span_is(span, "bfloat16")) {
        return COFFER_BF16;
    }
    if (coffer__span_is(span, "float16")) {
        return COFFER_F16;
    }
    return coffer__span_is(span, "float32") ? COFFER_F32 : COFFER_UNKNOWN_DTYPE;
}

void coffer__span_copy(coffer__quant_span span, char *text, size_t size)
{
    const size_t len = span.len < size ? span.len : 0;
    memcpy(text, span.text, len);
    text[len] = '\0';
}
