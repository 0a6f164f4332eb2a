/* SPDX-License-Identifier: Apache-2.0 */
/* Text without libc. UTF-8 by RFC 3629, table 3-7 of the Unicode standard. */
#include "text.h"

#include <string.h>

static const char hex_digits[] = "0123456789abcdef";

static bool is_continuation(char byte)
{
    return ((unsigned char)byte & 0xC0u) == 0x80u;
}

/*
 * Leads 0xC0 and 0xC1 could only begin overlong forms of two bytes, and those above 0xF4 only
 * numbers above U+10FFFF, so they are refused by the first byte. Other overlong forms, and
 * surrogates, show in the value.
 */
size_t coffer__utf8_decode(const char *text, size_t text_len, uint32_t *code_point)
{
    const unsigned char lead = (unsigned char)text[0];
    if (lead < 0x80) {
        *code_point = lead;
        return 1;
    }
    /* Continuation bytes, 0x80 to 0xBF, get size 2 here and are refused with the leads below 0xC2. */
    const size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || size > text_len) {
        return 0;
    }
    uint32_t value = lead & (0x7Fu >> size);
    for (size_t i = 1; i < size; i++) {
        if (!is_continuation(text[i])) {
            return 0;
        }
        value = value << 6 | ((unsigned char)text[i] & 0x3Fu);
    }
    const bool overlong = (size == 3 && value < 0x800) || (size == 4 && value < 0x10000);
    if (overlong || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
        return 0;
    }
    *code_point = value;
    return size;
}

/* `0xF00 >> size` puts as many ones as there are bytes at the top of the lead. */
size_t coffer__utf8_encode(char *text, uint32_t code_point)
{
    if (code_point < 0x80) {
        text[0] = (char)code_point;
        return 1;
    }
    const size_t size = code_point >= 0x10000 ? 4 : code_point >= 0x800 ? 3 : 2;
    for (size_t i = size - 1; i > 0; i--) {
        text[i] = (char)(0x80u | (code_point & 0x3Fu));
        code_point >>= 6;
    }
    text[0] = (char)((0xF00u >> size & 0xFFu) | code_point);
    return size;
}

size_t coffer__utf8_valid_len(const char *text, size_t text_len)
{
    size_t at = 0;
    while (at < text_len) {
        uint32_t code_point;
        const size_t size = coffer__utf8_decode(text + at, text_len - at, &code_point);
        if (size == 0) {
            break;
        }
        at += size;
    }
    return at;
}

bool coffer__is_control(uint32_t code_point)
{
    return code_point < 0x20 || (code_point >= 0x7F && code_point <= 0x9F);
}

/*
 * Control characters, which can move the cursor, recolour text or end a line; line and paragraph
 * separators; and the marks by which text can turn the direction of what stands beside it. A name
 * with one of them could show as another name.
 */
static bool misleads_a_terminal(uint32_t code_point)
{
    return coffer__is_control(code_point) || code_point == 0x061C || code_point == 0x200E || code_point == 0x200F ||
           (code_point >= 0x2028 && code_point <= 0x202E) || (code_point >= 0x2066 && code_point <= 0x2069);
}

/* At least two digits, and as many more as the value needs. */
static size_t write_hex(char *out, uint32_t value)
{
    size_t digits = 2;
    while (digits < 8 && value >> (4 * digits) != 0) {
        digits++;
    }
    for (size_t i = 0; i < digits; i++) {
        out[i] = hex_digits[value >> (4 * (digits - 1 - i)) & 0xF];
    }
    return digits;
}

/*
 * Escapes the first character of `text` into `out`; *out_len is what it takes there. Returns how
 * many bytes of `text` it was. 12 bytes of space are enough for every escape.
 *
 * Bytes that are no UTF-8, and ASCII's control characters, become \xNN, other characters \u{NNNN};
 * a backslash is doubled. So the result stands for exactly one text.
 */
static size_t escape_one(const char *text, size_t text_len, char *out, size_t *out_len)
{
    uint32_t code_point;
    const size_t size = coffer__utf8_decode(text, text_len, &code_point);
    if (size == 0 || (size == 1 && misleads_a_terminal(code_point))) {
        out[0] = '\\';
        out[1] = 'x';
        *out_len = 2 + write_hex(out + 2, (unsigned char)text[0]);
        return 1;
    }
    if (misleads_a_terminal(code_point)) {
        memcpy(out, "\\u{", 3);
        *out_len = 3 + write_hex(out + 3, code_point);
        out[(*out_len)++] = '}';
        return size;
    }
    memcpy(out, text, size);
    *out_len = size;
    if (code_point == '\\') {
        out[(*out_len)++] = '\\';
    }
    return size;
}

size_t coffer_escape(const char *text, size_t text_len, char *out, size_t out_size)
{
    size_t needed = 0;
    size_t written = 0;
    for (size_t at = 0; at < text_len;) {
        char piece[12];
        size_t piece_len;
        at += escape_one(text + at, text_len - at, piece, &piece_len);
        /* Once something did not fit, nothing more is written, so that what is there is a prefix. */
        if (written == needed && piece_len < out_size && needed < out_size - piece_len) {
            memcpy(out + written, piece, piece_len);
            written += piece_len;
        }
        needed += piece_len;
    }
    if (out_size > 0) {
        out[written] = '\0';
    }
    return needed;
}

/*
 * Two passes: the first measures the whole. The second keeps pieces as long as they fit into the
 * first half, and from the end those of which no more than half a space is left to come. sizeof
 * counts the NUL of the ellipsis, which is that of the result.
 */
void coffer__escape_cut(const char *text, size_t text_len, char *out, size_t out_size)
{
    static const char ellipsis[] = "\xE2\x80\xA6";
    const size_t needed = coffer_escape(text, text_len, out, out_size);
    if (needed < out_size) {
        return;
    }
    const size_t half = (out_size - sizeof ellipsis) / 2;
    size_t written = 0;
    size_t passed = 0;
    bool in_head = true;
    for (size_t at = 0; at < text_len;) {
        char piece[12];
        size_t piece_len;
        at += escape_one(text + at, text_len - at, piece, &piece_len);
        if (in_head && piece_len > half - written) {
            memcpy(out + written, ellipsis, sizeof ellipsis - 1);
            written += sizeof ellipsis - 1;
            in_head = false;
        }
        if (in_head || needed - passed <= half) {
            memcpy(out + written, piece, piece_len);
            written += piece_len;
        }
        passed += piece_len;
    }
    out[written] = '\0';
}

size_t coffer__write_u64(char *out, uint64_t value)
{
    char digits[20];
    size_t count = 0;
    do {
        digits[count++] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    for (size_t i = 0; out != NULL && i < count; i++) {
        out[i] = digits[count - 1 - i];
    }
    return count;
}

size_t coffer__text_len(const char *text)
{
    size_t length = 0;
    while (text[length] != '\0') {
        length++;
    }
    return length;
}

bool coffer__same_text(const char *a, const char *b)
{
    return coffer__text_is(a, coffer__text_len(a), b);
}

bool coffer__text_is(const char *text, size_t text_len, const char *word)
{
    return text_len == coffer__text_len(word) && memcmp(text, word, text_len) == 0;
}

bool coffer__text_ends(const char *text, size_t text_len, const char *ending)
{
    const size_t len = coffer__text_len(ending);
    return text_len >= len && memcmp(text + text_len - len, ending, len) == 0;
}

bool coffer__text_has_ending(const char *text, const char *ending)
{
    const size_t text_len = coffer__text_len(text);
    return text_len > coffer__text_len(ending) && coffer__text_ends(text, text_len, ending);
}
