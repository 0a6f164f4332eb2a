/* SPDX-License-Identifier: Apache-2.0 */
/* Names of tensors: see cli_names.h for the contracts. */
#include "cli_names.h"

#include "cli_text.h"

#include <string.h>

/* ---- Order ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t digits_at(const char *text, size_t text_len, size_t at)
{
    size_t len = 0;
    while (at + len < text_len && is_digit(text[at + len])) {
        len++;
    }
    return len;
}

/* Compares two runs of digits as numbers of any size; of equal ones, the one with fewer zeros before it comes first. */
static int compare_numbers(const char *a, size_t a_len, const char *b, size_t b_len)
{
    const size_t a_all = a_len;
    const size_t b_all = b_len;
    for (; a_len > 1 && *a == '0'; a_len--) {
        a++;
    }
    for (; b_len > 1 && *b == '0'; b_len--) {
        b++;
    }
    if (a_len != b_len) {
        return a_len < b_len ? -1 : 1;
    }
    const int order = memcmp(a, b, a_len);
    return order != 0 ? order : (a_all > b_all) - (a_all < b_all);
}

int cli_compare_names(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t i = 0;
    size_t k = 0;
    while (i < a_len && k < b_len) {
        const size_t a_digits = digits_at(a, a_len, i);
        const size_t b_digits = digits_at(b, b_len, k);
        if (a_digits > 0 && b_digits > 0) {
            const int order = compare_numbers(a + i, a_digits, b + k, b_digits);
            if (order != 0) {
                return order;
            }
            i += a_digits;
            k += b_digits;
        } else if (a[i] != b[k]) {
            return (unsigned char)a[i] < (unsigned char)b[k] ? -1 : 1;
        } else {
            i++;
            k++;
        }
    }
    return (i < a_len) - (k < b_len);
}

#define KEY_SIZE 8
#define KEY_DIGITS 9 /* of a number that a key has as a whole */

/* A number in a key: how many digits it has, since a longer one is larger, then these, then whether zeros come before it.
   It begins with a digit, so that beside anything else it is ordered as its first digit is. Returns the bytes; *last: the
   key tells nothing after it. */
static size_t put_number(unsigned char *key, const char *digits, size_t count, bool *last)
{
    size_t zeros = 0;
    while (zeros + 1 < count && digits[zeros] == '0') {
        zeros++;
    }
    const size_t len = count - zeros;
    *last = zeros > 0 || len > KEY_DIGITS;
    if (len > KEY_DIGITS) {
        key[0] = '9';
        return 1;
    }
    key[0] = (unsigned char)('0' + len - 1);
    memcpy(key + 1, digits + zeros, len);
    key[1 + len] = zeros > 0;
    return len + 2;
}

uint64_t cli_name_key(const char *name, size_t name_len)
{
    unsigned char bytes[KEY_SIZE + KEY_DIGITS + 2] = { 0 };
    uint64_t key = 0;
    size_t used = 0;
    bool last = false;
    for (size_t at = 0; at < name_len && used < KEY_SIZE && !last;) {
        const size_t digits = digits_at(name, name_len, at);
        if (digits > 0) {
            used += put_number(bytes + used, name + at, digits, &last);
            at += digits;
        } else {
            bytes[used++] = (unsigned char)name[at++];
        }
    }
    for (size_t i = 0; i < KEY_SIZE; i++) {
        key = key << 8 | bytes[i];
    }
    return key;
}

/* ---- Parts ---- */

size_t cli_part_end(const char *name, size_t name_len, size_t start)
{
    size_t end = start;
    while (end < name_len && name[end] != '.' && name[end] != '/') {
        end++;
    }
    return end;
}

/* What stands before or after a number: an underscore, or the edge of a part, which is a dot, a
   slash or the name's end. */
static bool is_edge(const char *name, size_t name_len, size_t at)
{
    return at >= name_len || name[at] == '.' || name[at] == '/';
}

size_t cli_number_at(const char *name, size_t name_len, size_t at)
{
    const size_t digits = digits_at(name, name_len, at);
    const size_t end = at + digits;
    if (digits == 0) {
        return 0;
    }
    const bool is_part = (at == 0 || is_edge(name, name_len, at - 1)) && is_edge(name, name_len, end);
    const bool is_word = at > 0 && name[at - 1] == '_' && end < name_len && name[end] == '_';
    return is_part || is_word ? digits : 0;
}

size_t cli_layer_end(const char *name, size_t name_len)
{
    size_t last = name_len;
    for (size_t at = 0; at < name_len; at++) {
        const size_t digits = cli_number_at(name, name_len, at);
        if (digits > 0) {
            return at + digits;
        }
        last = is_edge(name, name_len, at) ? at : last;
    }
    return last;
}
