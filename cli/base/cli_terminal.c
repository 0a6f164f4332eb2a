/* SPDX-License-Identifier: Apache-2.0 */
/* The terminals: see cli_terminal.h for the contract. */
#include "cli_terminal.h"

#include "cli_host.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define USUAL_WIDTH 80
#define LARGEST_WIDTH 10000

static size_t width_from_environment(void)
{
    const char *text = getenv("COLUMNS");
    if (text == NULL || text[0] < '1' || text[0] > '9') {
        return 0;
    }
    const unsigned long width = strtoul(text, NULL, 10);
    return width <= LARGEST_WIDTH ? (size_t)width : 0;
}

size_t cli_terminal_width(int fd)
{
    if (!isatty(fd)) {
        return 0;
    }
    const size_t asked = width_from_environment();
    if (asked != 0) {
        return asked;
    }
    const size_t width = cli_host_width(fd);
    return width > 0 ? width : USUAL_WIDTH;
}

bool cli_terminal_capable(int fd)
{
    return cli_host_terminal(fd);
}

/* The name of a locale is LANGUAGE.ENCODING@VARIANT. C and POSIX are ASCII; of others without an encoding nothing is known. */
static bool names_utf8(const char *locale)
{
    const char *encoding = strchr(locale, '.');
    if (encoding == NULL) {
        return strcmp(locale, "C") != 0 && strcmp(locale, "POSIX") != 0;
    }
    return strncasecmp(encoding + 1, "UTF-8", 5) == 0 || strncasecmp(encoding + 1, "UTF8", 4) == 0;
}

bool cli_terminal_utf8(void)
{
    static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *locale = getenv(names[i]);
        if (locale != NULL && locale[0] != '\0') {
            return names_utf8(locale);
        }
    }
    return true;
}

bool cli_terminal_colour(int fd)
{
    const char *no_colour = getenv("NO_COLOR");
    return (no_colour == NULL || no_colour[0] == '\0') && cli_terminal_capable(fd);
}
