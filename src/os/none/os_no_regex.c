/* SPDX-License-Identifier: Apache-2.0 */
/* The operating system: what os_regex.c answers where the C library has no regular expressions. None is made, so the rest
   is never reached. */
#include "os.h"

#ifdef _WIN32

#include <errno.h>

int coffer__os_regex_new(coffer__os_regex **regex, const char *pattern, char *why, size_t why_size)
{
    (void)pattern;
    *regex = NULL;
    if (why_size > 0) {
        why[0] = '\0';
    }
    return EOPNOTSUPP;
}

size_t coffer__os_regex_groups(const coffer__os_regex *regex)
{
    (void)regex;
    return 0;
}

bool coffer__os_regex_find(const coffer__os_regex *regex, const char *text, bool begins,
                           coffer__os_span spans[COFFER__OS_REGEX_SPANS])
{
    (void)regex;
    (void)text;
    (void)begins;
    (void)spans;
    return false;
}

void coffer__os_regex_free(coffer__os_regex *regex)
{
    (void)regex;
}

#endif
