/* SPDX-License-Identifier: Apache-2.0 */
/* Files of other programs: what convert and scan share. They are read in a sandbox (cli_sandbox.h) where there is one,
   and what it says is checked here again. */
#ifndef COFFER_CLI_IMPORT_H
#define COFFER_CLI_IMPORT_H

#include "cli_command.h"
#include "coffer.h"

#define CLI_OPTION_ROW_NO_SANDBOX                                                                                      \
    {                                                                                                                  \
        CLI_OPTION_NO_SANDBOX, 0, "no-sandbox", NULL, "read the file in this process, not in a confined one", NULL     \
    }

typedef struct cli_import {
    coffer_input *input;
    coffer_import *import;
} cli_import;

/* Opens a path or a URL and reads it, in the sandbox unless `confined` is false. Says nothing. Close in any case. */
coffer_status cli_import_open(cli_import *opened, const char *path, const coffer_import_options *options, bool confined,
                              coffer_error *err);
void cli_import_close(cli_import *opened);
/* A coffer_importer: has the input read in the sandbox, where this system has one. `ctx` is not used. */
coffer_status cli_import_confined(void *ctx, coffer_input *input, const coffer_import_options *options,
                                  coffer_import **imported, coffer_error *err);

/* Which exit code a failure means: names that cannot be written are the file's here, not the user's. */
int cli_import_fail(cli *app, const char *path, const coffer_error *err);

/* "danger", "opaque" or "note", for programs. */
const char *cli_import_weight_name(coffer_weight weight);
/* One finding as a line of text, without its end: "note: … (data.pkl, byte 12)". */
void cli_import_put_finding(cli_output *out, const coffer_import_finding *finding);
/* The same as a remark about `path`, on standard error. */
void cli_import_remark(cli *app, const char *path, const coffer_import_finding *finding);
/* The member "findings": an array of {weight, text, subject, file, member, offset}. */
void cli_json_import_findings(cli_output *out, coffer_import *import);

#endif
