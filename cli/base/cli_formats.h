/* SPDX-License-Identifier: Apache-2.0 */
/* The formats that can be written, as the library lists them, for the options that name one. */
#ifndef COFFER_CLI_FORMATS_H
#define COFFER_CLI_FORMATS_H

#include "cli_command.h"
#include "coffer.h"

/* Enough for what an option may be given, in words. */
#define CLI_VALUES_SIZE 256

/* Format `i` of those that are written; COFFER_FORMAT_ANY when there are fewer. */
coffer_format cli_written_format(size_t i);
/* How many there are. */
size_t cli_written_formats(void);
/* The values that an option may have, "name|offset|size", with the identifiers of the formats where the table has
   CLI_VALUES_FORMATS, and those of exports with CLI_VALUES_EXPORTS; NULL: any. They are in `capacity` or in the table. */
const char *cli_option_values(const cli_option *option, char capacity[CLI_VALUES_SIZE]);

#endif
