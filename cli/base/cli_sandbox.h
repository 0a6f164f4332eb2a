/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of other programs are read by a process that can do no harm. It is the command itself, executed again with one
 * descriptor, a socket to this process; it gives up every right (cli_confine.h) before it sees the first byte. It asks
 * for what it needs, and this process answers from the file or the URL, and counts:
 *
 *   parent → child   WANTS, then what is wanted of the import
 *   child → parent   READ a range of a file | BESIDE, a file of that name | DONE, then the import as bytes | FAILED, then
 *                    why
 *   parent → child   an answer to READ and BESIDE: DONE, then the bytes | FAILED, then why
 *
 * Each message is a sandbox_message, and as many bytes as it says. Both ends are the same program, so they are sent as
 * they lie in memory; but of what the child sends nothing is believed.
 */
#ifndef COFFER_CLI_SANDBOX_H
#define COFFER_CLI_SANDBOX_H

#include "coffer.h"

/* Whether this system can do it; without, files are read by the process itself. */
bool cli_sandbox_possible(void);
/* Has the input read, as coffer_import_open would do: *bytes becomes memory for free(), for coffer_import_load. */
coffer_status cli_sandbox_read(coffer_input *input, const char *path, const coffer_import_options *options,
                               unsigned char **bytes, size_t *size, coffer_error *err);

/* For main: whether this process is such a child. */
bool cli_sandbox_is_child(int argc, char **argv);
/* All that such a child does; returns its exit code. */
int cli_sandbox_child(void);

#endif
