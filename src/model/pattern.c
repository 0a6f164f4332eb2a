/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns for names: see pattern.h. When an item does not match, the last star met takes one more
 * character and matching resumes after it. Going back to earlier stars is never needed: whatever
 * they could take instead, the last star can take, too. So there is no recursion and no exponential
 * time.
 */
#include "pattern.h"

#include "text.h"

#include <string.h>

/* The first character of a text that is not empty, and its size; a byte that is not UTF-8 counts as
   a character. */
static size_t pattern_character(const char *text, size_t len, uint32_t *character)
{
    const size_t size = coffer__utf8_decode(text, len, character);
    if (size == 0) {
        *character = (unsigned char)text[0];
    }
    return size == 0 ? 1 : size;
}

/* A character of the pattern that stands for itself, with or without a backslash before it; returns
   what follows it. A backslash at the end of the pattern is an ordinary character. */
static const char *pattern_literal(const char *pattern, uint32_t *character)
{
    pattern += pattern[0] == '\\' && pattern[1] != '\0';
    return pattern + pattern_character(pattern, strlen(pattern), character);
}

/* Whether the set that begins after its bracket has the character. *rest is what follows the set,
   or NULL if it never ends; then the bracket stands for itself. A range whose ends are in the wrong
   order is empty. Characters are compared as code points, and a backslash within a set takes away a
   special meaning as it does elsewhere. */
static bool pattern_set_has(const char *set, uint32_t character, const char **rest)
{
    const bool inverted = *set == '!' || *set == '^';
    bool found = false;
    set += inverted;
    /* A closing bracket that comes first belongs to the set. */
    for (bool first = true; *set != '\0' && (first || *set != ']'); first = false) {
        uint32_t low = 0;
        set = pattern_literal(set, &low);
        /* One character, unless a hyphen makes it a range. */
        uint32_t high = low;
        if (set[0] == '-' && set[1] != '\0' && set[1] != ']') {
            set = pattern_literal(set + 1, &high);
        }
        found = found || (low <= character && character <= high);
    }
    *rest = *set == ']' ? set + 1 : NULL;
    return found != inverted;
}

/* Whether the pattern's next item, which is no star, matches the character. *rest is what follows
   the item. At the pattern's end nothing matches. *rest is only used after a match. */
static bool pattern_takes(const char *pattern, uint32_t character, const char **rest)
{
    uint32_t wanted = 0;
    *rest = pattern + 1;
    if (*pattern == '?' || *pattern == '\0') {
        return *pattern == '?';
    }
    if (*pattern == '[') {
        const bool found = pattern_set_has(pattern + 1, character, rest);
        if (*rest != NULL) {
            return found;
        }
    }
    *rest = pattern_literal(pattern, &wanted);
    return wanted == character;
}

/* The state of a match. */
typedef struct pattern_match {
    coffer__name name;
    size_t at;
    const char *star;       /* after the last star that was met; NULL: there was none */
    size_t resume;          /* where the text that this star has matched so far ends */
    coffer__name *captures; /* NULL: not needed */
} pattern_match;

/* A star begins by matching nothing. It becomes the one that is stretched from now on. Earlier
   captures are final by then: no earlier star is stretched again. */
static void pattern_meet_star(pattern_match *match, const char *star)
{
    if (match->captures != NULL) {
        match->captures += match->star != NULL;
        *match->captures = (coffer__name){ match->name.text + match->at, 0 };
    }
    match->star = star;
    match->resume = match->at;
}

/* The last star takes one more character, and the rest of the pattern is tried again after it. */
static void pattern_stretch_star(pattern_match *match)
{
    uint32_t character = 0;
    const size_t from = match->resume;
    match->resume += pattern_character(match->name.text + from, match->name.len - from, &character);
    match->at = match->resume;
    if (match->captures != NULL) {
        match->captures->len += match->resume - from;
    }
}

/* Consumes the name character by character. When the name ends, stars at the end of the pattern
   match nothing, and the pattern must end, too. Each round either consumes a character or stretches
   the star by one, so there are at most as many rounds as the pattern is long times the name. */
static bool pattern_run(const char *pattern, pattern_match *match)
{
    const coffer__name name = match->name;
    while (match->at < name.len) {
        uint32_t character = 0;
        const char *rest = NULL;
        const size_t size = pattern_character(name.text + match->at, name.len - match->at, &character);
        if (*pattern == '*') {
            pattern_meet_star(match, ++pattern);
        } else if (pattern_takes(pattern, character, &rest)) {
            pattern = rest;
            match->at += size;
            /* No match here: the last star takes one character more. */
        } else if (match->star != NULL) {
            pattern_stretch_star(match);
            pattern = match->star;
        } else {
            return false;
        }
    }
    while (*pattern == '*') {
        pattern_meet_star(match, ++pattern);
    }
    return *pattern == '\0';
}

bool coffer__pattern_matches(const char *pattern, coffer__name name)
{
    pattern_match match = { .name = name };
    return pattern_run(pattern, &match);
}

bool coffer__pattern_captures(const char *pattern, coffer__name name, coffer__name *captures)
{
    pattern_match match = { .name = name, .captures = captures };
    return pattern_run(pattern, &match);
}

bool coffer__patterns_take(const char *const *patterns, size_t count, coffer__name name)
{
    bool wanted = false;
    bool taken = false;
    for (size_t i = 0; i < count; i++) {
        const bool excludes = patterns[i][0] == '!';
        if (excludes && coffer__pattern_matches(patterns[i] + 1, name)) {
            return false;
        }
        wanted = wanted || !excludes;
        taken = taken || (!excludes && coffer__pattern_matches(patterns[i], name));
    }
    return taken || !wanted;
}

/* The tail is what follows the last special character, escaped or not: a character after a backslash stands for itself,
   too, and an open bracket that is never closed is followed by ordinary text. It is ASCII, where equal characters are
   equal bytes; a byte that is not UTF-8 may equal a character of two. */
coffer__pattern coffer__pattern_prepare(const char *text)
{
    const char *tail = text;
    const char *end = text;
    for (; *end != '\0'; end++) {
        const bool ordinary = (unsigned char)*end < 0x80 && strchr("*?[]\\", *end) == NULL;
        tail = ordinary ? tail : end + 1;
    }
    return (coffer__pattern){ .text = text,
                              .tail = { tail, (size_t)(end - tail) },
                              .tail_is_all = text[0] == '*' && tail == text + 1 };
}

bool coffer__pattern_fits(const coffer__pattern *pattern, coffer__name name)
{
    const coffer__name tail = pattern->tail;
    if (name.len < tail.len || memcmp(name.text + (name.len - tail.len), tail.text, tail.len) != 0) {
        return false;
    }
    return pattern->tail_is_all || coffer__pattern_matches(pattern->text, name);
}
