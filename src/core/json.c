/* SPDX-License-Identifier: Apache-2.0 */
/* A strict pull reader and a writer for JSON (RFC 8259). json_skip.c passes over values that nobody
   asks for. */
#include "json.h"

#include "error.h"
#include "scan.h"
#include "text.h"

static uint64_t json_offset(const coffer__json *json)
{
    return json->origin + json->in.position;
}

/* The byte at the cursor; 0 at the end. A NUL in the input looks the same and is no token either. */
static uint8_t json_here(const coffer__json *json)
{
    return json->in.position < json->in.length ? json->in.base[json->in.position] : 0;
}

/*
 * How many spaces the next bytes begin with, as far as one load of eight tells; 0 near the end of
 * the input, where eight bytes cannot be read. Indented headers have runs of them. The lowest byte
 * that is no space makes the lowest bit that is set, whose number divided by 8 is that of the byte.
 */
static size_t json_spaces(const coffer__cursor *in)
{
    if (coffer__left(in) < 8) {
        return 0;
    }
    const uint64_t others = coffer__load_u64le(in->base + in->position) ^ UINT64_C(0x2020202020202020);
    return others == 0 ? 8 : (size_t)__builtin_ctzll(others) / 8;
}

/* The four bytes that JSON allows between tokens, and no others: neither a form feed nor Unicode's
   spaces. */
void coffer__json_space(coffer__json *json)
{
    for (uint8_t byte = json_here(json); byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
         byte = json_here(json)) {
        json->in.position++;
        json->in.position += json_spaces(&json->in);
    }
}

const char *coffer__json_noun(const coffer__json *json)
{
    return json->noun != NULL ? json->noun : "the header";
}

coffer_status coffer__json_error(const coffer__json *json, const char *what)
{
    if (coffer__left(&json->in) == 0) {
        return coffer__fail_at(json->err, COFFER_ERR_JSON, json_offset(json),
                               "%s is not valid JSON: it ends at byte %u, %s", coffer__json_noun(json),
                               json_offset(json), what);
    }
    const char found = (char)json_here(json);
    return coffer__fail_at(json->err, COFFER_ERR_JSON, json_offset(json),
                           "%s is not valid JSON: at byte %u, %s; found %q", coffer__json_noun(json), json_offset(json),
                           what, &found, (size_t)1);
}

/* The token's first byte tells its type. What begins no value is not of a wrong type but not JSON:
   then the other error is made. */
coffer_status coffer__json_type_error(coffer__json *json, const char *where, const char *wanted)
{
    const uint8_t next = coffer__json_peek(json);
    const char *found = NULL;
    switch (next) {
    case '{':
        found = "an object";
        break;
    case '[':
        found = "an array";
        break;
    case '"':
        found = "a string";
        break;
    case 't':
    case 'f':
        found = "a boolean";
        break;
    case 'n':
        found = "null";
        break;
    default:
        found = next == '-' || (next >= '0' && next <= '9') ? "a number" : NULL;
        break;
    }
    if (found == NULL) {
        return coffer__json_error(json, "a value should be here");
    }
    return coffer__fail_at(json->err, COFFER_ERR_TYPE, json_offset(json), "at byte %u, %s must be %s, not %s",
                           json_offset(json), where, wanted, found);
}

/* ---- strings ---- */

/* The value of the four hexadecimal digits that follow `skip` bytes after the cursor, or
   UINT32_MAX, which no four digits make. */
static uint32_t json_hex4(const coffer__json *json, size_t skip)
{
    if (coffer__left(&json->in) < skip + 4) {
        return UINT32_MAX;
    }
    uint32_t value = 0;
    for (size_t i = 0; i < 4; i++) {
        const uint8_t byte = json->in.base[json->in.position + skip + i];
        const uint8_t lower = byte | 0x20;
        if (byte >= '0' && byte <= '9') {
            value = value << 4 | (uint32_t)(byte - '0');
        } else if (lower >= 'a' && lower <= 'f') {
            value = value << 4 | (uint32_t)(lower - 'a' + 10);
        } else {
            return UINT32_MAX;
        }
    }
    return value;
}

/*
 * The code point of the \u escape at the cursor, which is consumed; of a surrogate pair both halves
 * are. A half alone is JSON by its grammar (RFC 8259, section 8.2, leaves it open) but no
 * character: it could not be stored as UTF-8, and the reference refuses it. Nothing is consumed on
 * failure, so errors point to the backslash.
 */
static coffer_status json_unicode_escape(coffer__json *json, uint32_t *code_point)
{
    const uint32_t first = json_hex4(json, 2);
    if (first == UINT32_MAX) {
        return coffer__json_error(json, "\\u needs four hexadecimal digits");
    }
    *code_point = first;
    if (first < 0xD800 || first > 0xDFFF) {
        json->in.position += 6;
        return COFFER_OK;
    }
    const bool paired = first < 0xDC00 && coffer__left(&json->in) >= 12 &&
                        json->in.base[json->in.position + 6] == '\\' && json->in.base[json->in.position + 7] == 'u';
    const uint32_t second = paired ? json_hex4(json, 8) : UINT32_MAX;
    if (second < 0xDC00 || second > 0xDFFF) {
        return coffer__fail_at(json->err, COFFER_ERR_UTF8, json_offset(json),
                               "at byte %u, an escape is half of a surrogate pair without the other half",
                               json_offset(json));
    }
    *code_point = 0x10000 + ((first & 0x3FF) << 10 | (second & 0x3FF));
    json->in.position += 12;
    return COFFER_OK;
}

/* The code point of the escape at the cursor, which is consumed. `names` and `values` are in the
   same order. */
static coffer_status json_escape(coffer__json *json, uint32_t *code_point)
{
    static const char names[] = "\"\\/bfnrt";
    static const char values[] = "\"\\/\b\f\n\r\t";
    if (coffer__left(&json->in) < 2) {
        /* The error belongs at the end of the input, where the rest of the escape is missing. */
        json->in.position = json->in.length;
        return coffer__json_error(json, "within an escape");
    }
    const char name = (char)json->in.base[json->in.position + 1];
    if (name == 'u') {
        return json_unicode_escape(json, code_point);
    }
    for (size_t i = 0; i < sizeof names - 1; i++) {
        if (names[i] == name) {
            *code_point = (unsigned char)values[i];
            json->in.position += 2;
            return COFFER_OK;
        }
    }
    return coffer__json_error(json, "no such escape");
}

/* One character that coffer__scan_plain stopped at, other than the quote: an escape, UTF-8 beyond
   ASCII, DEL, or what must not be in a string. */
static coffer_status json_character(coffer__json *json, uint32_t *code_point)
{
    const uint8_t byte = json_here(json);
    if (byte == '\\') {
        return json_escape(json, code_point);
    }
    if (byte < 0x20) {
        return coffer__json_error(json, "a control character in a string must be escaped");
    }
    const char *text = (const char *)json->in.base + json->in.position;
    const size_t size = coffer__utf8_decode(text, coffer__left(&json->in), code_point);
    if (size == 0) {
        return coffer__fail_at(json->err, COFFER_ERR_UTF8, json_offset(json), "%s is not UTF-8 at byte %u",
                               coffer__json_noun(json), json_offset(json));
    }
    json->in.position += size;
    return COFFER_OK;
}

/*
 * Alternates between runs of plain bytes, which are copied as a block, and characters that need a
 * look each. `length` counts what was stored, or would have been: with `text` NULL characters are
 * encoded into `bytes` to learn their length.
 */
coffer_status coffer__json_string(coffer__json *json, char *text, size_t *text_len, bool *has_control)
{
    const coffer_status opened = coffer__json_expect(json, '"', "a string should be here");
    if (opened != COFFER_OK) {
        return opened;
    }
    size_t length = 0;
    *has_control = false;
    for (;;) {
        const uint8_t *from = json->in.base + json->in.position;
        const size_t plain = coffer__scan_plain(from, coffer__left(&json->in));
        if (text != NULL) {
            memcpy(text + length, from, plain);
        }
        length += plain;
        json->in.position += plain;
        if (coffer__left(&json->in) == 0) {
            return coffer__json_error(json, "within a string");
        }
        if (json_here(json) == '"') {
            break;
        }
        /* Where one such character is, there are often more: names in Chinese have no plain byte.
           So the scan is not started again for each. */
        do {
            uint32_t code_point;
            char bytes[4];
            const coffer_status status = json_character(json, &code_point);
            if (status != COFFER_OK) {
                return status;
            }
            *has_control = *has_control || coffer__is_control(code_point);
            length += coffer__utf8_encode(text != NULL ? text + length : bytes, code_point);
        } while (json_here(json) >= 0x80 || json_here(json) == '\\');
    }
    json->in.position++;
    *text_len = length;
    return COFFER_OK;
}

/*
 * The reference's spelling of one byte in a string: itself, or an escape of 2 or 6 characters.
 * Returns its length. The slash is not escaped. Bytes from 0x80 on are parts of UTF-8 and stay as
 * they are.
 */
static size_t json_spell(uint8_t byte, char spelling[6])
{
    static const char values[] = "\"\\\b\f\n\r\t";
    static const char names[] = "\"\\bfnrt";
    for (size_t i = 0; i < sizeof names - 1; i++) {
        if (byte == (uint8_t)values[i]) {
            spelling[0] = '\\';
            spelling[1] = names[i];
            return 2;
        }
    }
    if (byte >= 0x20) {
        spelling[0] = (char)byte;
        return 1;
    }
    memcpy(spelling, "\\u00", 4);
    spelling[4] = (char)('0' + (byte >> 4));
    spelling[5] = "0123456789abcdef"[byte & 0xF];
    return 6;
}

/* Appends when there is a place for it; counts in any case. */
static size_t json_put(char *out, size_t used, const char *piece, size_t size)
{
    if (out != NULL) {
        memcpy(out + used, piece, size);
    }
    return used + size;
}

size_t coffer__json_write_string(char *out, const char *text, size_t text_len)
{
    char spelling[6];
    size_t used = json_put(out, 0, "\"", 1);
    for (size_t at = 0; at < text_len;) {
        const size_t plain = coffer__scan_plain((const uint8_t *)text + at, text_len - at);
        used = json_put(out, used, text + at, plain);
        at += plain;
        if (at < text_len) {
            used = json_put(out, used, spelling, json_spell((uint8_t)text[at++], spelling));
        }
    }
    return json_put(out, used, "\"", 1);
}

/* ---- numbers ---- */

static bool json_is_digit(uint8_t byte)
{
    return byte >= '0' && byte <= '9';
}

/*
 * The digits are consumed one by one; take_u64 in safetensors.c is the fast way for those that are
 * usual. `fits` ends the loop at the first digit that makes the number wrong: one after a leading
 * zero, or one that 64 bits have no space for. The error names the number's first byte.
 */
coffer_status coffer__json_u64(coffer__json *json, uint64_t *value)
{
    const uint8_t first = coffer__json_peek(json);
    if (!json_is_digit(first) && first != '-') {
        return coffer__json_type_error(json, "a dimension or offset", "an integer");
    }
    const uint64_t start = json_offset(json);
    uint64_t result = 0;
    size_t digits = 0;
    bool fits = first != '-';
    for (uint8_t byte = first; fits && json_is_digit(byte); byte = json_here(json)) {
        const uint64_t digit = (uint64_t)(byte - '0');
        /* result * 10 + digit <= UINT64_MAX, without computing what could overflow. */
        fits = result <= (UINT64_MAX - digit) / 10 && !(digits == 1 && first == '0');
        result = result * 10 + digit;
        digits++;
        json->in.position++;
    }
    const uint8_t after = json_here(json);
    if (!fits || after == '.' || after == 'e' || after == 'E') {
        return coffer__fail_at(json->err, COFFER_ERR_NUMBER, start,
                               "at byte %u, a dimension or offset must be written in plain digits, without a sign, a "
                               "leading zero, a point or an exponent, and be at most 2^64-1",
                               start);
    }
    *value = result;
    return COFFER_OK;
}
