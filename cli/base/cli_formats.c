/* SPDX-License-Identifier: Apache-2.0 */
/* The formats that can be written, asked of the library one by one, so that a new one needs no change here. */
#include "cli_formats.h"

#include <stdio.h>
#include <string.h>

coffer_format cli_written_format(size_t i)
{
    for (int number = 1; coffer_format_id((coffer_format)number)[0] != '\0'; number++) {
        const coffer_format format = (coffer_format)number;
        if (coffer_format_to_write(format) == format && i-- == 0) {
            return format;
        }
    }
    return COFFER_FORMAT_ANY;
}

size_t cli_written_formats(void)
{
    size_t count = 0;
    while (cli_written_format(count) != COFFER_FORMAT_ANY) {
        count++;
    }
    return count;
}

/* Puts a name after those that are in the space; `used` counts them. */
static void add_name(char capacity[CLI_VALUES_SIZE], size_t start, size_t *used, const char *name)
{
    if (*used < CLI_VALUES_SIZE) {
        *used += (size_t)snprintf(capacity + *used, CLI_VALUES_SIZE - *used, "%s%s", *used > start ? "|" : "", name);
    }
}

const char *cli_option_values(const cli_option *option, char capacity[CLI_VALUES_SIZE])
{
    const char *mark = option->values == NULL ? NULL : strstr(option->values, CLI_VALUES_FORMATS);
    if (mark == NULL) {
        return option->values;
    }
    const size_t start = (size_t)(mark - option->values);
    size_t used = start;
    memcpy(capacity, option->values, used);
    coffer_format format;
    for (size_t i = 0; (format = cli_written_format(i)) != COFFER_FORMAT_ANY; i++) {
        add_name(capacity, start, &used, coffer_format_id(format));
    }
    const bool exports = strcmp(mark, CLI_VALUES_EXPORTS) == 0;
    for (int i = 1; exports && coffer_export_name((coffer_export_format)i)[0] != '\0'; i++) {
        add_name(capacity, start, &used, coffer_export_name((coffer_export_format)i));
    }
    return capacity;
}
