/* SPDX-License-Identifier: Apache-2.0 */
/* coffer meta --fix: what keeps a file from being opened though all of its tensors are there. */
#include "cli_edit.h"
#include "cli_guard.h"
#include "cli_options.h"
#include "cli_progress.h"
#include "cli_report.h"
#include "cli_text.h"
#include "meta.h"

#include <stdio.h>
#include <string.h>

#define FIXED_SIZE 256

/* "512 bytes after the tensors (zeros) cut off; values of the metadata made strings" */
static void fixed_text(const coffer_fixed_file *fixed, bool dry_run, char text[FIXED_SIZE])
{
    char bytes[CLI_NUMBER_SIZE];
    size_t used = 0;
    const char *would = dry_run ? "would be " : "";
    const char *looks = coffer_fixed_looks(fixed);
    cli_number_text(bytes, fixed->trailing, true);
    if (fixed->trailing > 0) {
        used = (size_t)snprintf(text, FIXED_SIZE, "%s byte%s after the tensors%s%s%s %scut off%s", bytes,
                                fixed->trailing == 1 ? "" : "s", looks[0] != '\0' ? " (" : "", looks,
                                looks[0] != '\0' ? ")" : "", would, fixed->metadata ? "; " : "");
    }
    if (fixed->metadata) {
        snprintf(text + used, FIXED_SIZE - used, "values of the metadata that are no strings %smade strings", would);
    }
}

int meta_fix(cli *app, const cli_arguments *arguments, const coffer_edit_options *asked)
{
    char text[FIXED_SIZE] = "nothing to fix";
    coffer_error err;
    cli_progress progress;
    cli_progress_part part = { &progress, 0 };
    coffer_edit_options options = *asked;
    coffer_fixed_file fixed = COFFER_FIXED_FILE_INIT;
    const char *path = arguments->names[0];
    const double start = cli_seconds();
    const bool dry_run = cli_given(arguments, CLI_OPTION_DRY_RUN);
    const int code = cli_guard_read_only(app, path, options.read_only || dry_run);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    options.progress = cli_progress_call;
    options.progress_ctx = &part;
    cli_progress_begin(&progress, app, "rewriting", 0);
    const coffer_status status = coffer_fix_file(path, &options, dry_run, &fixed, &err);
    cli_progress_finish(&progress);
    if (status != COFFER_OK) {
        return cli_fail(app, path, &err);
    }
    const bool nothing = fixed.trailing == 0 && !fixed.metadata;
    fixed_text(&fixed, dry_run, text);
    return cli_report_change(app, path,
                             nothing   ? "nothing"
                             : dry_run ? "dry_run"
                                       : "fixed",
                             text, "", cli_seconds() - start);
}
