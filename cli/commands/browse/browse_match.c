/* SPDX-License-Identifier: Apache-2.0 */
/* What is found: see browse_match.h for the contract. */
#include "browse_match.h"

#include "coffer.h"

#include <string.h>

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool has_capital(const char *words, size_t words_len)
{
    for (size_t i = 0; i < words_len; i++) {
        if (words[i] != lower(words[i])) {
            return true;
        }
    }
    return false;
}

static bool same_words(const char *text, const char *words, size_t words_len, bool exact)
{
    for (size_t i = 0; i < words_len; i++) {
        if ((exact ? text[i] : lower(text[i])) != words[i]) {
            return false;
        }
    }
    return true;
}

bool browse_finds(const char *text, size_t text_len, const char *words, size_t words_len, size_t *at)
{
    const bool exact = has_capital(words, words_len);
    for (size_t i = 0; words_len > 0 && words_len <= text_len && i <= text_len - words_len; i++) {
        if (same_words(text + i, words, words_len, exact)) {
            if (at != NULL) {
                *at = i;
            }
            return true;
        }
    }
    return false;
}

bool browse_lets_through(const char *filter, size_t filter_len, const char *name, size_t name_len)
{
    if (filter_len == 0) {
        return true;
    }
    return strpbrk(filter, "*?[") != NULL ? coffer_match(filter, name, name_len)
                                          : browse_finds(name, name_len, filter, filter_len, NULL);
}
