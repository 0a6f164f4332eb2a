/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON within the metadata, for eyes: programs like to put a whole configuration into one string.
 * Without recursion, so that no input can nest too deep for it, and with nothing that would steer a
 * terminal.
 */
#ifndef COFFER_CLI_PRETTY_H
#define COFFER_CLI_PRETTY_H

#include "cli_output.h"

/* Whether the text is a JSON object or array, by RFC 8259 and nested up to 64 deep. */
bool cli_is_json(const char *text, size_t text_len);
/* Writes such a text over several lines, those after the first indented by `indent`, and at most
   `most` of them (0: all); the last one ends no line. Returns how many lines were left out. */
size_t cli_put_json(cli_output *out, const char *text, size_t text_len, size_t indent, size_t most);

#endif
