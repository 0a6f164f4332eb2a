/* SPDX-License-Identifier: Apache-2.0 */
/* coffer pack MODEL -o FILE: the same tensors in fewer bytes. */
#include "cli_options.h"
#include "cli_packing.h"

static int run_pack(cli *app, const cli_arguments *arguments)
{
    return cli_packing(app, arguments, false);
}

static const cli_option PACK_OPTIONS[] = {
    { CLI_OPTION_OUTPUT, 'o', "output", "FILE", "the new file, or the folder for several", NULL },
    { CLI_OPTION_FORCE, 'f', "force", NULL, "overwrite FILE", NULL },
    { CLI_OPTION_DRY_RUN, 'n', "dry-run", NULL, "say how large it would be, and write nothing", NULL },
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_END,
};

static const cli_example PACK_EXAMPLES[] = {
    { "coffer pack model.safetensors -o packed.safetensors", "a third smaller" },
    { "coffer pack model.safetensors --dry-run", "how much would it be?" },
    { NULL, NULL },
};

const cli_command cli_pack = {
    .name = "pack",
    .run = run_pack,
    .summary = "write a model in fewer bytes, without loss",
    .usage = "MODEL",
    .about = "Writes a file of the same tensors, without loss, in fewer bytes: BF16 takes a third less. What opens\n"
             "files by Coffer opens it as the original; other programs refuse it by the shapes. Of a sharded\n"
             "model FILE is a folder, in which the files have their names; -o FOLDER/ is one for a single file,\n"
             "too. What goes with the model, such as its index, config.json and tokeniser, is copied. Every part\n"
             "is decoded and compared before it is written.\n"
             "\n"
             "JSON: path, output, original_size and packed_size in bytes. A file that fails has path and error\n"
             "(see coffer help info).\n",
    .options = PACK_OPTIONS,
    .examples = PACK_EXAMPLES,
    .least_names = 1,
    .most_names = 1,
};
