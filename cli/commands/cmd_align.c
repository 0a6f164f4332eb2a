/* SPDX-License-Identifier: Apache-2.0 */
/* coffer align PATH: a file whose tensors all stand where their dtypes want them. */
#include "cli_options.h"
#include "cli_report.h"
#include "cli_rewrite.h"

#include <stdlib.h>
#include <string.h>

#define ALIGN_MIN 8

/* A power of two from 8 on. */
static bool read_alignment(const char *text, uint64_t *alignment)
{
    const size_t digits = strspn(text, "0123456789");
    *alignment = strtoull(text, NULL, 10);
    return digits > 0 && digits < 19 && text[digits] == '\0' && *alignment >= ALIGN_MIN &&
           (*alignment & (*alignment - 1)) == 0;
}

static int run_align(cli *app, const cli_arguments *arguments)
{
    const char *to = cli_value(arguments, CLI_OPTION_TO);
    coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
    options.alignment = ALIGN_MIN;
    if (to != NULL && !read_alignment(to, &options.alignment)) {
        return cli_usage_error(app, "--to needs a power of two of at least 8: 64, 4096");
    }
    return cli_rewrite(app, arguments, &options, "its tensors are aligned already");
}

static const cli_option ALIGN_OPTIONS[] = {
    { CLI_OPTION_TO, 0, "to", "BYTES", "start the data at a multiple of BYTES; 8 if not given", NULL },
    CLI_OPTION_ROW_OUTPUT,
    CLI_OPTION_ROW_SHARD_SIZE,
    CLI_OPTION_ROW_DRY_RUN,
    CLI_OPTION_ROW_IN_PLACE,
    CLI_OPTION_ROW_FORCE,
    CLI_OPTION_ROW_DIGEST,
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_END,
};

static const cli_example ALIGN_EXAMPLES[] = {
    { "coffer align model.safetensors --in-place", "rewrite the file, if necessary" },
    { "coffer align model.safetensors --to 4096 -o paged.safetensors", "data that begin at a page" },
    { "coffer align model.safetensors --dry-run", "which tensors are not aligned?" },
    { NULL, NULL },
};

const cli_command cli_align = {
    .name = "align",
    .run = run_align,
    .summary = "rewrite a file so that its tensors are aligned in memory",
    .usage = "PATH",
    .about = "Rewrites a file with tensors that are not aligned for their dtypes, so that a mapped file can be\n"
             "used without copying. A file that is aligned already is not changed. The new file replaces the old\n"
             "one when it is complete; on a terminal the command asks first, otherwise --in-place allows it.\n"
             "Metadata and reserved slack are kept. PATH is a file, or an index or folder: then all files of the\n"
             "model are rewritten, and replaced together.\n"
             "\n"
             "JSON: path, output, done (\"written\", \"nothing\", \"dry_run\"), changes [{name, change, from, to}],\n"
             "from and to in bytes, tensors, size of the new file in bytes, seconds. A file that fails has path\n"
             "and error (see coffer help info).\n",
    .options = ALIGN_OPTIONS,
    .examples = ALIGN_EXAMPLES,
    .least_names = 1,
    .most_names = 1,
};
