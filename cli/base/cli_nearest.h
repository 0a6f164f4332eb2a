/* SPDX-License-Identifier: Apache-2.0 */
/* What to say of a name or a pattern that no tensor has: the names that were probably meant. */
#ifndef COFFER_CLI_NEAREST_H
#define COFFER_CLI_NEAREST_H

#include "coffer.h"

/* Whether a text has what makes it a pattern. */
bool cli_is_pattern(const char *text);
/* Whether a tensor of the model has a name that matches the pattern. */
bool cli_has_match(const coffer *model, const char *pattern);
/* Writes the message about a name, or a pattern, that matches no tensor of the model, with the nearest names. */
void cli_nearest_say(const coffer *model, const char *name, size_t name_len, coffer_error *err);

#endif
