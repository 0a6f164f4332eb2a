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
   must be room for as many as the pattern has. */
bool coffer__pattern_captures(const char *pattern, coffer__name name, coffer__name *captures);

#endif
