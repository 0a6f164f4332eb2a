/* SPDX-License-Identifier: Apache-2.0 */
/* Telling what went wrong: everything that is not data goes to standard error, through here. */
#ifndef COFFER_CLI_REPORT_H
#define COFFER_CLI_REPORT_H

#include "cli_command.h"
#include "coffer.h"

/* The one place that says which exit code a status means. */
int cli_exit_code(coffer_status status);
/* The one that counts of two files' exit codes: unreadable over not conforming over fine. */
int cli_worse(int a, int b);

/* Writes "coffer: ..." to standard error, after everything that standard output has to show so far. */
__attribute__((format(printf, 2, 3))) void cli_say(cli *app, const char *format, ...);
/* The same with "PATH: " (escaped) before it. */
__attribute__((format(printf, 3, 4))) void cli_say_path(cli *app, const char *path, const char *format, ...);
/* The same two for what is no error: "edited in place". Silent with --quiet. */
__attribute__((format(printf, 2, 3))) void cli_remark(cli *app, const char *format, ...);
__attribute__((format(printf, 3, 4))) void cli_remark_path(cli *app, const char *path, const char *format, ...);
/* Wrong usage: the message, then where to read on. Returns CLI_EXIT_USAGE. */
__attribute__((format(printf, 2, 3))) int cli_usage_error(cli *app, const char *format, ...);

/* Adds to `text` (of `size` bytes) what the error knows and its message does not say: " (tensor
   "a", byte 120)", the status's name first when `name` is set, and of a model at `path` which of
   its files it is. Empty when there is nothing to add. */
void cli_error_place(const coffer_error *err, const char *path, bool name, char *text, size_t size);
/* A file failed: a line on standard error and, with --json, an object {"path", "error"} on standard output. Returns the
   exit code. */
int cli_fail(cli *app, const char *path, const coffer_error *err);
/* The members "path" and "error" of such an object. */
void cli_json_error(cli *app, const char *path, const coffer_error *err);
/* No memory for the command's own work: fills the error and returns its status; reports it and
   returns the exit code. */
coffer_status cli_no_memory(coffer_error *err);
int cli_fail_memory(cli *app, const char *path);

/* Flushes standard output. Returns `code`, or CLI_EXIT_UNREADABLE, with a message, when the output could not be
   written. A closed pipe is no error: the reader has seen enough. After Ctrl-C it does not return. */
int cli_finish(cli *app, int code);

#endif
