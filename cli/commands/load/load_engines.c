/* SPDX-License-Identifier: Apache-2.0 */
#include "load_engines.h"

#include "cli_json.h"

#include <stdio.h>

/* In the order of the public numbers. */
static const char *const LOAD_ENGINES[] = { "auto", "buffered", "direct", "ring", "cufile", "mapped" };
#define LOAD_ENGINE_COUNT (sizeof LOAD_ENGINES / sizeof LOAD_ENGINES[0])

/* What does not fit is left out; all of the names together do. */
void load_engines_text(char text[LOAD_ENGINES_SIZE], uint32_t engines)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < LOAD_ENGINE_COUNT; i++) {
        if ((engines >> i & 1) != 0 && used < LOAD_ENGINES_SIZE) {
            used +=
                (size_t)snprintf(text + used, LOAD_ENGINES_SIZE - used, "%s%s", used > 0 ? ", " : "", LOAD_ENGINES[i]);
        }
    }
}

/* A list, as a load of several files may use several. */
void load_engines_json(cli_output *out, uint32_t engines)
{
    cli_json_key(out, "engines");
    cli_json_open(out, '[', false);
    for (size_t i = 0; i < LOAD_ENGINE_COUNT; i++) {
        if ((engines >> i & 1) != 0) {
            cli_json_string(out, LOAD_ENGINES[i]);
        }
    }
    cli_json_close(out, ']');
}
