/* SPDX-License-Identifier: Apache-2.0 */
/* coffer convert PATH -o FILE: the same tensors and metadata in a file of another format. */
#include "cli_options.h"
#include "cli_report.h"
#include "cli_rewrite.h"

#include <string.h>

typedef struct convert_ending {
    const char *text;
    coffer_format format;
} convert_ending;

static const convert_ending CONVERT_ENDINGS[] = {
    { ".safetensors", COFFER_FORMAT_SAFETENSORS },
    { ".bt", COFFER_FORMAT_BINTENSORS },
    { ".bintensors", COFFER_FORMAT_BINTENSORS },
};

/* COFFER_FORMAT_ANY when the ending says none. */
static coffer_format format_of_ending(const char *path)
{
    const size_t path_len = strlen(path);
    for (size_t i = 0; i < sizeof CONVERT_ENDINGS / sizeof CONVERT_ENDINGS[0]; i++) {
        const size_t text_len = strlen(CONVERT_ENDINGS[i].text);
        if (path_len > text_len && strcmp(path + path_len - text_len, CONVERT_ENDINGS[i].text) == 0) {
            return CONVERT_ENDINGS[i].format;
        }
    }
    return COFFER_FORMAT_ANY;
}

/* What --to says, or the name of the new file. */
static coffer_format wanted_format(const cli_arguments *arguments)
{
    const char *to = cli_value(arguments, CLI_OPTION_TO);
    if (to == NULL) {
        return format_of_ending(cli_value(arguments, CLI_OPTION_OUTPUT));
    }
    return strcmp(to, coffer_format_name(COFFER_FORMAT_BINTENSORS)) == 0 ? COFFER_FORMAT_BINTENSORS
                                                                         : COFFER_FORMAT_SAFETENSORS;
}

static int run_convert(cli *app, const cli_arguments *arguments)
{
    if (!cli_given(arguments, CLI_OPTION_OUTPUT)) {
        return cli_usage_error(app, "say where the new file goes: -o FILE");
    }
    const coffer_format format = wanted_format(arguments);
    if (format == COFFER_FORMAT_ANY) {
        return cli_usage_error(app,
                               "the new file's name ends neither in .safetensors nor in .bt; give its format: --to");
    }
    coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
    options.format = format;
    return cli_rewrite(app, arguments, &options, "");
}

static const cli_option CONVERT_OPTIONS[] = {
    { CLI_OPTION_OUTPUT, 'o', "output", "FILE", "the new file; its ending gives the format", NULL },
    { CLI_OPTION_TO, 0, "to", "FORMAT", "safetensors or bintensors, whatever the ending is", "safetensors|bintensors" },
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
        "\n"
        "JSON: path, output, done (\"written\", \"dry_run\"), changes (none), tensors, size of the new file in\n"
        "bytes, seconds. A file that fails has path and error (see coffer help info).\n",
    .options = CONVERT_OPTIONS,
    .examples = CONVERT_EXAMPLES,
    .least_names = 1,
    .most_names = 1,
};
