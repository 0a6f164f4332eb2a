/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns for names, as shells have them: `*` any characters, `?` any one, `[a-z]` one of a set, `[!a-z]` one that is not in
 * it, and a backslash before a character that stands for itself. Everything else stands for itself; the whole name must match.
 * Takes at most pattern times name steps.
 */
#ifndef COFFER_MODEL_PATTERN_H
#define COFFER_MODEL_PATTERN_H

#include "names.h"

bool coffer__pattern_matches(const char *pattern, coffer__name name);
/* The same, and what each star took, the first one first: the shortest text that serves. There is room for as many as the pattern
   has. */
bool coffer__pattern_captures(const char *pattern, coffer__name name, coffer__name *captures);

#endif
