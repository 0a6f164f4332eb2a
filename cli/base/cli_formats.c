/* SPDX-License-Identifier: Apache-2.0 */
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

const char *cli_option_values(const cli_option *option, char room[CLI_VALUES_SIZE])
{
    const char *mark = option->values == NULL ? NULL : strstr(option->values, CLI_VALUES_FORMATS);
    if (mark == NULL) {
        return option->values;
    }
    size_t used = (size_t)(mark - option->values);
    memcpy(room, option->values, used);
    coffer_format format;
    for (size_t i = 0; (format = cli_written_format(i)) != COFFER_FORMAT_ANY && used < CLI_VALUES_SIZE; i++) {
        used +=
            (size_t)snprintf(room + used, CLI_VALUES_SIZE - used, "%s%s", i > 0 ? "|" : "", coffer_format_id(format));
    }
    return room;
}
