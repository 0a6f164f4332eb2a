/* SPDX-License-Identifier: Apache-2.0 */
/* coffer meta --mend: what keeps a file from being opened though all of its tensors are there. */
#include "cli_edit.h"
#include "cli_guard.h"
#include "cli_options.h"
#include "cli_progress.h"
#include "cli_report.h"
#include "cli_text.h"
#include "meta.h"

#include <stdio.h>
#include <string.h>

#define MENDED_SIZE 256

const char *meta_looks_like(const coffer_mended_file *mended)
{
    static const struct {
        coffer_status looks;
        const char *text;
    } kinds[] = {
        { COFFER_ERR_IS_HTML, "a web page" },
        { COFFER_ERR_IS_JSON, "JSON" },
        { COFFER_ERR_IS_ZIP, "a zip archive" },
        { COFFER_ERR_IS_PICKLE, "a pickle" },
        { COFFER_ERR_IS_GGUF, "a GGUF file" },
        { COFFER_ERR_IS_HDF5, "an HDF5 file" },
        { COFFER_ERR_IS_NUMPY, "a NumPy array" },
        { COFFER_ERR_IS_COMPRESSED, "compressed data" },
        { COFFER_ERR_IS_ZEROS, "zeros" },
        { COFFER_ERR_IS_TEXT, "text" },
        { COFFER_ERR_IS_TAR, "a tar archive" },
        { COFFER_ERR_IS_ELF, "a program or library" },
        { COFFER_ERR_IS_CONVERTIBLE, "a file of another format" },
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && !mended->tensors; i++) {
        if (mended->looks == kinds[i].looks) {
            return kinds[i].text;
        }
    }
    return mended->tensors ? "another file of tensors" : "";
}

/* "512 bytes after the tensors (zeros) cut off; values of the metadata made strings" */
static void mended_text(const coffer_mended_file *mended, bool dry_run, char text[MENDED_SIZE])
{
    char bytes[CLI_NUMBER_SIZE];
    size_t used = 0;
    const char *would = dry_run ? "would be " : "";
    const char *looks = meta_looks_like(mended);
    cli_number_text(bytes, mended->trailing, true);
    if (mended->trailing > 0) {
        used = (size_t)snprintf(text, MENDED_SIZE, "%s byte%s after the tensors%s%s%s %scut off%s", bytes,
                                mended->trailing == 1 ? "" : "s", looks[0] != '\0' ? " (" : "", looks,
                                looks[0] != '\0' ? ")" : "", would, mended->metadata ? "; " : "");
    }
    if (mended->metadata) {
        snprintf(text + used, MENDED_SIZE - used, "values of the metadata that are no strings %smade strings", would);
    }
}

int meta_mend(cli *app, const cli_arguments *arguments, const coffer_edit_options *asked)
{
    char text[MENDED_SIZE] = "nothing to mend";
    coffer_error err;
    cli_progress progress;
    cli_progress_part part = { &progress, 0 };
    coffer_edit_options options = *asked;
    coffer_mended_file mended = COFFER_MENDED_FILE_INIT;
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
    const coffer_status status = coffer_mend_file(path, &options, dry_run, &mended, &err);
    cli_progress_finish(&progress);
    if (status != COFFER_OK) {
        return cli_fail(app, path, &err);
    }
    const bool nothing = mended.trailing == 0 && !mended.metadata;
    mended_text(&mended, dry_run, text);
    return cli_report_change(app, path,
                             nothing   ? "nothing"
                             : dry_run ? "dry_run"
                                       : "mended",
                             text, "", cli_seconds() - start);
}
