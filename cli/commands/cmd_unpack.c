/* SPDX-License-Identifier: Apache-2.0 */
/* coffer unpack MODEL -o FILE: a packed file as it was. */
#include "cli_options.h"
#include "cli_packing.h"

static int run_unpack(cli *app, const cli_arguments *arguments)
{
    return cli_packing(app, arguments, true);
}

static const cli_option UNPACK_OPTIONS[] = {
    { CLI_OPTION_OUTPUT, 'o', "output", "FILE", "the new file, or the folder for several", NULL },
    { CLI_OPTION_FORCE, 'f', "force", NULL, "overwrite FILE", NULL },
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_END,
};

static const cli_example UNPACK_EXAMPLES[] = {
    { "coffer unpack packed.safetensors -o model.safetensors", "the original again" },
    { NULL, NULL },
};

const cli_command cli_unpack = {
    .name = "unpack",
    .run = run_unpack,
    .summary = "write the original of a packed model",
    .usage = "MODEL",
    .about = "Writes the original of a packed file, byte for byte, and compares its SHA-256 with the recorded one\n"
             "before the new file appears. Of a sharded model FILE is a folder, as for coffer pack.\n"
             "\n"
             "JSON: as of coffer pack.\n",
    .options = UNPACK_OPTIONS,
    .examples = UNPACK_EXAMPLES,
    .least_names = 1,
    .most_names = 1,
};
