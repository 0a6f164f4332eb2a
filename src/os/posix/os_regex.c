/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operating system: regular expressions by the C library. Its functions follow the locale of the thread, in which
 * [a-z] can mean other letters; so they run in one of their own, in the order of the C locale and with the characters of
 * UTF-8. A system that has no such locale takes every byte for a character, which makes no difference to ASCII.
 */
#include "os_posix.h"

#include <locale.h>
#include <regex.h>
#include <stdlib.h>

#ifdef __APPLE__
#include <xlocale.h>
#endif

struct coffer__os_regex {
    regex_t compiled;
    locale_t locale;
};

/* What newlocale was given as a base becomes a part of what it returns, unless it fails. */
static locale_t os_regex_locale(void)
{
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    const locale_t characters = plain == (locale_t)0 ? plain : newlocale(LC_CTYPE_MASK, "C.UTF-8", plain);
    return characters != (locale_t)0 ? characters : plain;
}

int coffer__os_regex_new(coffer__os_regex **regex, const char *pattern, char *why, size_t why_size)
{
    coffer__os_regex *made = malloc(sizeof *made);
    why[0] = '\0';
    *regex = NULL;
    if (made == NULL) {
        return ENOMEM;
    }
    made->locale = os_regex_locale();
    if (made->locale == (locale_t)0) {
        free(made);
        return ENOMEM;
    }
    const locale_t before = uselocale(made->locale);
    const int error = regcomp(&made->compiled, pattern, REG_EXTENDED);
    if (error != 0) {
        (void)regerror(error, &made->compiled, why, why_size);
    }
    (void)uselocale(before);
    if (error != 0) {
        freelocale(made->locale);
        free(made);
        return error == REG_ESPACE ? ENOMEM : EINVAL;
    }
    *regex = made;
    return 0;
}

size_t coffer__os_regex_groups(const coffer__os_regex *regex)
{
    return regex->compiled.re_nsub;
}

/* Groups that took nothing, and those that the expression lacks, have no place. */
bool coffer__os_regex_find(const coffer__os_regex *regex, const char *text, bool begins,
                           coffer__os_span spans[COFFER__OS_REGEX_SPANS])
{
    regmatch_t matches[COFFER__OS_REGEX_SPANS];
    const locale_t before = uselocale(regex->locale);
    const int error = regexec(&regex->compiled, text, COFFER__OS_REGEX_SPANS, matches, begins ? 0 : REG_NOTBOL);
    (void)uselocale(before);
    for (size_t i = 0; error == 0 && i < COFFER__OS_REGEX_SPANS; i++) {
        const bool took = matches[i].rm_so >= 0;
        spans[i].first = took ? (size_t)matches[i].rm_so : 0;
        spans[i].end = took ? (size_t)matches[i].rm_eo : 0;
    }
    return error == 0;
}

void coffer__os_regex_free(coffer__os_regex *regex)
{
    if (regex != NULL) {
        regfree(&regex->compiled);
        freelocale(regex->locale);
        free(regex);
    }
}
