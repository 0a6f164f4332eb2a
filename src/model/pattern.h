/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns for names, like those of shells: `*` any characters, `?` any one, `[a-z]` one of a set,
 * `[!a-z]` one that is not in it; a backslash makes the next character stand for itself. Everything
 * else stands for itself; the whole name must match. Takes at most pattern times name steps.
 */
#ifndef COFFER_MODEL_PATTERN_H
#define COFFER_MODEL_PATTERN_H

#include "names.h"

/* `pattern` ends with a NUL, and any text is a valid one. Characters are those of UTF-8. Case
   matters. */
bool coffer__pattern_matches(const char *pattern, coffer__name name);
/* The same, and what each star matched, the first one first: the shortest text that works. There
   must be space for as many as the pattern has. */
bool coffer__pattern_captures(const char *pattern, coffer__name name, coffer__name *captures);

/* Whether a list of patterns takes a name, in any order: at least one of them matches, and none of those that a `!`
   precedes. A list of exclusions alone takes everything else, and an empty one everything. */
bool coffer__patterns_take(const char *const *patterns, size_t count, coffer__name name);

/* A pattern that is asked about many names. Most names differ from it at their end, which takes a comparison to find
   out. The text is the caller's, and stays where it is. */
typedef struct coffer__pattern {
    const char *text;
    coffer__name tail; /* with which every name that matches ends; it may be empty */
    bool tail_is_all;  /* the pattern is a star and the tail: a name with that end matches */
} coffer__pattern;

coffer__pattern coffer__pattern_prepare(const char *text);
bool coffer__pattern_fits(const coffer__pattern *pattern, coffer__name name);

#endif
