/* SPDX-License-Identifier: Apache-2.0 */
/* Names of tensors: see cli_names.h for the contracts. */
#include "cli_names.h"

#include "cli_text.h"

#include <string.h>

/* ---- Patterns ---- */

/* One character of text, or one byte of what is not UTF-8. */
static size_t read_any(const char *text, size_t text_len, uint32_t *code)
{
    const size_t size = cli_read_character(text, text_len, code);
    if (size == 0) {
        *code = (unsigned char)text[0];
    }
    return size > 0 ? size : 1;
}

/* A character of a set, which may be escaped. */
static const char *read_member(const char *set, uint32_t *code)
{
    if (set[0] == '\\' && set[1] != '\0') {
        set++;
    }
    return set + read_any(set, strlen(set), code);
}

/* Whether `code` is in the set whose text begins behind the bracket; *rest is what follows the set, or NULL when it never
   ends, so that the bracket is a plain one. */
static bool in_set(const char *set, uint32_t code, const char **rest)
{
    const bool inverted = *set == '!' || *set == '^';
    const char *next = set + inverted;
    bool found = false;
    /* A closing bracket that comes first belongs to the set. */
    for (bool first = true; *next != '\0' && (first || *next != ']'); first = false) {
        uint32_t low = 0;
        next = read_member(next, &low);
        uint32_t high = low;
        if (next[0] == '-' && next[1] != ']' && next[1] != '\0') {
            next = read_member(next + 1, &high);
        }
        found = found || (low <= code && code <= high);
    }
    *rest = *next == ']' ? next + 1 : NULL;
    return found != inverted;
}

/* Whether the pattern's next item, which is no star, takes the character; *rest is what follows the item. */
static bool takes(const char *glob, uint32_t code, const char **rest)
{
    uint32_t wanted = 0;
    if (*glob == '?') {
        *rest = glob + 1;
        return true;
    }
    if (*glob == '[') {
        const bool found = in_set(glob + 1, code, rest);
        if (*rest != NULL) {
            return found;
        }
    }
    if (*glob == '\0') {
        *rest = glob;
        return false;
    }
    *rest = read_member(glob, &wanted);
    return wanted == code;
}

bool cli_matches(const char *glob, const char *name, size_t name_len)
{
    const char *star = NULL; /* after the last star that was met, or NULL */
    size_t resume = 0;       /* where what that star takes ends so far */
    size_t at = 0;
    while (at < name_len) {
        uint32_t code = 0;
        const char *rest = NULL;
        const size_t size = read_any(name + at, name_len - at, &code);
        if (*glob == '*') {
            star = ++glob;
            resume = at;
        } else if (takes(glob, code, &rest)) {
            glob = rest;
            at += size;
        } else if (star != NULL) {
            resume += read_any(name + resume, name_len - resume, &code);
            at = resume;
            glob = star;
        } else {
            return false;
        }
    }
    while (*glob == '*') {
        glob++;
    }
    return *glob == '\0';
}

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

/* ---- Parts ---- */

size_t cli_part_end(const char *name, size_t name_len, size_t start)
{
    size_t end = start;
    while (end < name_len && name[end] != '.' && name[end] != '/') {
        end++;
    }
    return end;
}

/* What stands before or after a number: an underscore, or the edge of a part, which is a dot, a slash or the name's end. */
static bool is_edge(const char *name, size_t name_len, size_t at)
{
    return at >= name_len || name[at] == '.' || name[at] == '/';
}

size_t cli_number_at(const char *name, size_t name_len, size_t at)
{
    const size_t digits = digits_at(name, name_len, at);
    const size_t end = at + digits;
    const bool is_part = (at == 0 || is_edge(name, name_len, at - 1)) && is_edge(name, name_len, end);
    const bool is_word = at > 0 && name[at - 1] == '_' && end < name_len && name[end] == '_';
    return is_part || is_word ? digits : 0;
}
