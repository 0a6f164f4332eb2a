/* SPDX-License-Identifier: Apache-2.0 */
/* The names of engines, for commands that say how files are read. */
#ifndef COFFER_CLI_LOAD_ENGINES_H
#define COFFER_CLI_LOAD_ENGINES_H

#include "cli_output.h"

#include <stdint.h>

#define LOAD_ENGINES_SIZE 64

/* The names of a set of engines, of which each is the bit of its number, with commas between; "" for none. */
void load_engines_text(char text[LOAD_ENGINES_SIZE], uint32_t engines);
/* The same as a list of JSON, with the key "engines". */
void load_engines_json(cli_output *out, uint32_t engines);

#endif
