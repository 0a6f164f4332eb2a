/* SPDX-License-Identifier: Apache-2.0 */
/* coffer convert PATH -o FILE: the same tensors and metadata in a file of another format. */
#include "cli_formats.h"
#include "cli_options.h"
#include "cli_report.h"
#include "cli_rewrite.h"

#include <stdio.h>

/* What --to says, or the name of the new file; COFFER_FORMAT_ANY when neither names a format that is written. */
static coffer_format wanted_format(const cli_arguments *arguments)
{
    const int to = cli_which(arguments, CLI_OPTION_TO);
    if (to >= 0) {
        return cli_written_format((size_t)to);
    }
    return coffer_format_to_write(coffer_format_from_path(cli_value(arguments, CLI_OPTION_OUTPUT)));
}

/* "neither in .safetensors nor in .bt" */
static void list_endings(char *text, size_t size)
{
    size_t used = 0;
    coffer_format format;
    for (size_t i = 0; (format = cli_written_format(i)) != COFFER_FORMAT_ANY && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s in %s", i > 0 ? " nor" : "neither",
                                 coffer_format_ending(format, 0));
    }
}

static int unknown_ending(cli *app)
{
    char endings[CLI_VALUES_SIZE];
    list_endings(endings, sizeof endings);
    return cli_usage_error(app, "the new file's name ends %s; give its format: --to", endings);
}

static int run_convert(cli *app, const cli_arguments *arguments)
{
    if (!cli_given(arguments, CLI_OPTION_OUTPUT)) {
        return cli_usage_error(app, "say where the new file goes: -o FILE");
    }
    const coffer_format format = wanted_format(arguments);
    if (format == COFFER_FORMAT_ANY) {
        return unknown_ending(app);
    }
    coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
    options.format = format;
    return cli_rewrite(app, arguments, &options, "");
}

static const cli_option CONVERT_OPTIONS[] = {
    { CLI_OPTION_OUTPUT, 'o', "output", "FILE", "the new file; its ending gives the format", NULL },
    { CLI_OPTION_TO, 0, "to", "FORMAT", "safetensors or bintensors, whatever the ending is", CLI_VALUES_FORMATS },
    CLI_OPTION_ROW_DRY_RUN,
    CLI_OPTION_ROW_FORCE,
    CLI_OPTION_ROW_DIGEST,
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_END,
};

static const cli_example CONVERT_EXAMPLES[] = {
    { "coffer convert model.safetensors -o model.bt", "to bintensors" },
    { "coffer convert model.bt -o model.safetensors", "and back" },
    { NULL, NULL },
};

const cli_command cli_convert = {
    .name = "convert",
    .run = run_convert,
    .summary = "write the tensors of a file to a file of another format",
    .usage = "PATH",
    .about =
        "Writes the same tensors and metadata to a file (-o) of another format, as that format's own writers would\n"
        "write it: safetensors (.safetensors) or bintensors (.bt, .bintensors). The format of PATH is detected by\n"
        "content. A dtype that the new format lacks is an error that names the tensor; nothing is written\n"
        "then.\n"
        "PATH is a file, or an index or folder, whose model becomes several files of safetensors.\n"
        "\n"
        "JSON: path, output, done (\"written\", \"dry_run\"), changes (none), tensors, size of the new file in\n"
        "bytes, seconds. A file that fails has path and error (see coffer help info).\n",
    .options = CONVERT_OPTIONS,
    .examples = CONVERT_EXAMPLES,
    .least_names = 1,
    .most_names = 1,
};
