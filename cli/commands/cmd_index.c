/* SPDX-License-Identifier: Apache-2.0 */
/* coffer index FOLDER: the index of a model of several files, from their headers. */
#include "cli_edit.h"
#include "cli_options.h"
#include "cli_report.h"
#include "cli_rewrite.h"
#include "cli_text.h"

#include <stdio.h>
#include <string.h>

static int tell_fixed(cli *app, const char *path, const coffer_fixed_index *fixed, bool dry_run, double seconds)
{
    char name[2 * sizeof fixed->name];
    char text[sizeof name + 160];
    char size[CLI_NUMBER_SIZE];
    const bool nothing = fixed->way == COFFER_EDITED_NOTHING;
    coffer_escape(fixed->name, strlen(fixed->name), name, sizeof name);
    cli_bytes_text(size, fixed->total_size);
    if (fixed->missing_count > 0) {
        cli_remark_path(app, path, "the old index names %zu tensors that no file has: %s", fixed->missing_count,
                        "files or index are of another model, or of another version of it");
    }
    snprintf(text, sizeof text, "%s %s: %zu file%s, %zu tensor%s, %s",
             nothing   ? "nothing to do, the files are as stated in"
             : dry_run ? "would have written"
                       : "written",
             name, fixed->file_count, fixed->file_count == 1 ? "" : "s", fixed->tensor_count,
             fixed->tensor_count == 1 ? "" : "s", size);
    return cli_report_change(app, path, nothing ? "nothing" : dry_run ? "dry_run" : "written", text, "", seconds);
}

static int run_index(cli *app, const cli_arguments *arguments)
{
    coffer_error err;
    coffer_fixed_index fixed = COFFER_FIXED_INDEX_INIT;
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    const char *path = arguments->names[0];
    const bool dry_run = cli_given(arguments, CLI_OPTION_DRY_RUN);
    const double start = cli_seconds();
    if (strcmp(path, "-") == 0 || strstr(path, "://") != NULL) {
        return cli_usage_error(app, "an index is written next to files: name a folder, an index or one of the files");
    }
    options.follow_links = cli_given(arguments, CLI_OPTION_FOLLOW_LINKS);
    const coffer_status status = coffer_fix_index(path, &options, dry_run, &fixed, &err);
    return status == COFFER_OK ? tell_fixed(app, path, &fixed, dry_run, cli_seconds() - start)
                               : cli_fail(app, err.path[0] != '\0' ? err.path : path, &err);
}

static const cli_option INDEX_OPTIONS[] = {
    CLI_OPTION_ROW_DRY_RUN,
    { CLI_OPTION_FOLLOW_LINKS, 'f', "force", NULL, "replace what a link points to", NULL },
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_END,
};

static const cli_example INDEX_EXAMPLES[] = {
    { "coffer index model/", "write or fix model/model.safetensors.index.json" },
    { "coffer index model/ --dry-run", "is it right?" },
    { "coffer index model/model-00001-of-00003.safetensors", "of these three files, even if others are there" },
    { NULL, NULL },
};

const cli_command cli_index = {
    .name = "index",
    .run = run_index,
    .summary = "write or fix the index of a sharded model",
    .usage = "FOLDER",
    .about = "Writes which file each tensor is in, and total_size, from the headers of the files. Nothing else is\n"
             "touched or copied. What else a readable index says in its metadata stays; one that is right stays as\n"
             "it is. FOLDER may also be the index, or one of several files that are named as a set.\n"
             "\n"
             "The files are those that the index names, if all of them are there, and with them the rest of a set\n"
             "that is complete (model-00001-of-00003.safetensors); else the only complete set. Where more than one\n"
             "model can be meant, or a tensor is in two files, nothing is written; the path of a file says that\n"
             "its set is meant. The new index takes its place when it is complete.\n"
             "\n"
             "JSON: path, done (\"written\", \"nothing\", \"dry_run\"), seconds. A path that fails has path and error\n"
             "(see coffer help info).\n",
    .options = INDEX_OPTIONS,
    .examples = INDEX_EXAMPLES,
    .least_names = 1,
    .most_names = 1,
};
