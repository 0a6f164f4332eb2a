/* SPDX-License-Identifier: Apache-2.0 */
/* What commands that edit headers say of it. */
#ifndef COFFER_CLI_EDIT_H
#define COFFER_CLI_EDIT_H

#include "cli_command.h"
#include "coffer.h"

/* Says how a file was edited, how long it took and which changes were made ("": that goes without
   saying) and, with --json, shows {path, done, seconds}. Returns CLI_EXIT_OK. */
int cli_report_edit(cli *app, const char *path, coffer_edit_way way, const char *changes, double seconds);
/* The same for what was done in another way: `name` is for programs. */
int cli_report_change(cli *app, const char *path, const char *name, const char *text, const char *changes,
                      double seconds);

/* What came of headers that have no space for what is new or, unless a rewrite is `done`, what may: "; the new header is
   12 B longer than ...". `text` stays as it is where all of them have space. */
void cli_lacking_text(const coffer_rewrite_summary *summary, bool done, char *text, size_t size);

#endif
