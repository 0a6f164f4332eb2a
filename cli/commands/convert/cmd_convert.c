/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer convert PATH -o FILE: the same tensors in a file of another format, or those of another
 * program's file.
 *
 * Three conversions share the name, told apart by what PATH is and what FILE is to be:
 *
 *   file of tensors → file of tensors      cli_rewrite.h
 *   file of tensors → another program's    convert_export.c
 *   another program's → file of tensors    convert_import.c
 *
 * PATH is always opened as a file of tensors first. Only when that fails by what is in the file is
 * it offered to the readers of other programs' files, which run confined. An option that means
 * nothing for the conversion at hand is refused and not ignored.
 */
#include "cli_folder.h"
#include "cli_formats.h"
#include "cli_model_folder.h"
#include "cli_options.h"
#include "cli_recorded.h"
#include "cli_report.h"
#include "cli_rewrite.h"
#include "convert.h"

#include <stdio.h>

/* What --to says, or the name of the new file; COFFER_FORMAT_ANY when neither names a format that is written. */
static coffer_format wanted_format(const cli_arguments *arguments)
{
    const int to = cli_which(arguments, CLI_OPTION_TO);
    if (to >= 0) {
        return cli_written_format((size_t)to);
    }
    if (cli_names_folder(cli_value(arguments, CLI_OPTION_OUTPUT))) {
        return COFFER_FORMAT_SAFETENSORS;
    }
    return coffer_format_to_write(coffer_format_from_path(cli_value(arguments, CLI_OPTION_OUTPUT)));
}

/* The same of the formats of other programs; COFFER_EXPORT_NOTHING when neither names one. */
static coffer_export_format wanted_export(const cli_arguments *arguments)
{
    const int to = cli_which(arguments, CLI_OPTION_TO);
    const int formats = (int)cli_written_formats();
    if (to >= 0) {
        return to >= formats ? (coffer_export_format)(to - formats + 1) : COFFER_EXPORT_NOTHING;
    }
    return coffer_export_from_path(cli_value(arguments, CLI_OPTION_OUTPUT));
}

/* Appends an ending; once the text is full, nothing more. */
static size_t list_ending(char *text, size_t used, size_t size, const char *ending)
{
    return used >= size ? used
                        : used + (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", ending);
}

/* ".safetensors, .bt": the first ending of each format that can be written. */
static void list_endings(char *text, size_t size)
{
    size_t used = 0;
    coffer_format format;
    const char *ending = NULL;
    for (size_t i = 0; (format = cli_written_format(i)) != COFFER_FORMAT_ANY; i++) {
        used = list_ending(text, used, size, coffer_format_ending(format, 0));
    }
    for (int i = 1; (ending = coffer_export_ending((coffer_export_format)i, 0)) != NULL; i++) {
        used = list_ending(text, used, size, ending);
    }
}

/* The list comes from the library, so the message names a new format by itself. */
static int unknown_ending(cli *app)
{
    char endings[CLI_VALUES_SIZE];
    list_endings(endings, sizeof endings);
    return cli_usage_error(app, "the new file's name ends in none of %s: give its format by --to", endings);
}

/* What a file that is no safetensors file is converted with, and nothing else. */
static const cli_option_id IMPORT_OPTIONS[] = {
    CLI_OPTION_ROOT,       CLI_OPTION_TIED,         CLI_OPTION_SCALARS,        CLI_OPTION_STRIP_PREFIX,
    CLI_OPTION_STRICT,     CLI_OPTION_BYTES_AS,     CLI_OPTION_COMPLEX128,     CLI_OPTION_SKIP_UNSUPPORTED,
    CLI_OPTION_NO_VERIFY,  CLI_OPTION_ALLOW_EXPAND, CLI_OPTION_MAX_SHARD_SIZE, CLI_OPTION_BALANCED,
    CLI_OPTION_NO_SANDBOX, CLI_OPTION_NO_CRC,       CLI_OPTION_TENSOR,         CLI_OPTION_DEQUANTIZE,
    CLI_OPTION_RAW,        CLI_OPTION_PACKED,       CLI_OPTION_CONSTANTS,      CLI_OPTION_ARCH,
    CLI_OPTION_SIDECAR,    CLI_OPTION_SELECT,
};

/* Of these, what also says something of a file of another program that is written. */
static bool is_for_exports(cli_option_id id)
{
    return id == CLI_OPTION_BYTES_AS || id == CLI_OPTION_TENSOR || id == CLI_OPTION_TIED || id == CLI_OPTION_ARCH ||
           id == CLI_OPTION_SIDECAR;
}

/* A list of ids and not a flag of the options: the table of options is one for all commands. */
static bool is_for_imports(cli_option_id id)
{
    for (size_t i = 0; i < sizeof IMPORT_OPTIONS / sizeof IMPORT_OPTIONS[0]; i++) {
        if (IMPORT_OPTIONS[i] == id) {
            return true;
        }
    }
    return false;
}

/* An option that would do nothing here is a misunderstanding. */
static int check_own_format(cli *app, const cli_arguments *arguments, bool exports)
{
    for (size_t i = 0; i < arguments->choice_count; i++) {
        const cli_option *option = arguments->choices[i].option;
        if (exports && option->id == CLI_OPTION_DTYPE) {
            return cli_usage_error(app, "--dtype is for files of tensors: cast it first (coffer cast)");
        }
        if (exports && option->id == CLI_OPTION_DIGEST) {
            return cli_usage_error(app, "files of other programs have no place for digests");
        }
        if (!exports && option->id == CLI_OPTION_TENSOR) {
            return cli_usage_error(app, "--tensor is for npz, npy and pt; coffer split makes smaller files of tensors");
        }
        if (!exports && (option->id == CLI_OPTION_ARCH || option->id == CLI_OPTION_SIDECAR)) {
            return cli_usage_error(app, "--%s is for gguf", option->name);
        }
        if (is_for_imports(option->id) && !(exports && is_for_exports(option->id))) {
            return cli_usage_error(app, "--%s is for files of other programs, and this is a file of tensors already",
                                   option->name);
        }
    }
    return CLI_EXIT_OK;
}

/* Whether opening it failed by what is in the file, so that it may be another program's; a folder may be one of those. */
bool convert_may_be_foreign(const char *path, const coffer_error *err)
{
    return cli_is_folder(path) || (err->code >= COFFER_ERR_EMPTY && err->code < COFFER_ERR_NO_TENSOR);
}

/* Of a file of another program, what it is converted to has to be a file of tensors first. */
static int cannot_export(cli *app, const char *path, const coffer_error *err)
{
    if (!convert_may_be_foreign(path, err)) {
        return cli_fail(app, path, err);
    }
    cli_say_path(app, path,
                 "this is no file of tensors, from which such a file is written: convert it to safetensors "
                 "first");
    return CLI_EXIT_NOT_CONFORMING;
}

/* Closes the model, also when an option is refused. */
static int run_export(cli *app, const cli_arguments *arguments, coffer_export_format format, coffer *model)
{
    const int code = check_own_format(app, arguments, true);
    if (code != CLI_EXIT_OK) {
        coffer_close(model);
        return code;
    }
    return convert_export(app, arguments, format, model);
}

/* --dtype: every float is cast. `rule` is borrowed by the options. */
static int read_cast(cli *app, const cli_arguments *arguments, coffer_rewrite_options *options,
                     coffer_rewrite_rule *rule)
{
    const char *dtype = cli_value(arguments, CLI_OPTION_DTYPE);
    if (dtype == NULL) {
        return CLI_EXIT_OK;
    }
    *rule = (coffer_rewrite_rule){ COFFER_REWRITE_CAST, cli_rewrite_dtype(dtype), NULL, NULL };
    options->rules = rule;
    options->rule_count = 1;
    options->ignore_unmatched = true;
    return rule->dtype != COFFER_UNKNOWN_DTYPE ? CLI_EXIT_OK
                                               : cli_usage_error(app, "--dtype needs " CLI_REWRITE_DTYPES);
}

/* The output's format is decided before PATH is opened, which may be a download. */
static int run_convert(cli *app, const cli_arguments *arguments)
{
    coffer_error err;
    coffer *model = NULL;
    coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
    const char *path = arguments->names[0];
    const bool output = cli_given(arguments, CLI_OPTION_OUTPUT);
    if (!output && !cli_given(arguments, CLI_OPTION_DRY_RUN)) {
        return cli_usage_error(app, "say where the new file goes: -o FILE, or -o FOLDER/ for a whole model");
    }
    options.format = output ? wanted_format(arguments) : COFFER_FORMAT_SAFETENSORS;
    const coffer_export_format export = output ? wanted_export(arguments) : COFFER_EXPORT_NOTHING;
    if (options.format == COFFER_FORMAT_ANY && export == COFFER_EXPORT_NOTHING) {
        return unknown_ending(app);
    }
    const bool opened = cli_recorded_try(&model, path, &err) == COFFER_OK;
    if (arguments->name_count > 1 && (opened || export != COFFER_EXPORT_NOTHING)) {
        coffer_close(model);
        return cli_usage_error(app, "several files become one only if all are of other programs: coffer merge joins "
                                    "files of tensors");
    }
    if (export != COFFER_EXPORT_NOTHING) {
        return opened ? run_export(app, arguments, export, model) : cannot_export(app, path, &err);
    }
    if (!opened && convert_may_be_foreign(path, &err) && cli_given(arguments, CLI_OPTION_DTYPE)) {
        return cli_usage_error(app,
                               "--dtype is for files of tensors, and this is none: convert it without, and cast the "
                               "new file (coffer cast FILE DTYPE)");
    }
    if (!opened && convert_may_be_foreign(path, &err)) {
        return convert_import(app, arguments, options.format, &err);
    }
    coffer_rewrite_rule cast;
    options.unplaced = true;
    int code = check_own_format(app, arguments, false);
    code = code == CLI_EXIT_OK ? read_cast(app, arguments, &options, &cast) : code;
    if (code != CLI_EXIT_OK) {
        coffer_close(model);
        return code;
    }
    return cli_rewrite_model(app, arguments, &options, "", model);
}

static const cli_option CONVERT_OPTIONS[] = {
    { CLI_OPTION_OUTPUT, 'o', "output", "FILE",
      "the new file; its ending gives the format; or FOLDER/, for a whole model", NULL },
    { CLI_OPTION_TO, 0, "to", "FORMAT", "safetensors, bintensors, npz, npy, pt or gguf, regardless of the ending",
      CLI_VALUES_EXPORTS },
    { CLI_OPTION_DRY_RUN, 'n', "dry-run", NULL, "say what would be written, and write nothing", NULL },
    { CLI_OPTION_FORCE, 'f', "force", NULL, "replace an existing FILE", NULL },
    CLI_OPTION_ROW_DIGEST,
    { CLI_OPTION_DTYPE, 0, "dtype", "DTYPE", "of a file of tensors: cast its floats, as coffer cast", NULL },
    { CLI_OPTION_ROOT, 0, "root", "PART", "of a checkpoint, the dict with the tensors: model.ema; or all", NULL },
    { CLI_OPTION_SELECT, 0, "select", "GLOB", "only tensors whose new names match; repeatable", NULL },
    { CLI_OPTION_TIED, 0, "tied", "WAY", "names of the same tensor: hf writes one, keep writes all", "hf|keep" },
    { CLI_OPTION_SCALARS, 0, "scalars", "WAY", "plain numbers among the tensors: skip or metadata", "skip|metadata" },
    { CLI_OPTION_STRIP_PREFIX, 0, "strip-prefix", "PREFIX", "remove this from the beginning of names: module.", NULL },
    { CLI_OPTION_SKIP_UNSUPPORTED, 0, "skip-unsupported", NULL, "leave out tensors that safetensors lacks", NULL },
    { CLI_OPTION_STRICT, 0, "strict", NULL, "fail where an object of another program would be left out", NULL },
    { CLI_OPTION_COMPLEX128, 0, "complex128", "WAY", "f64x2: as F64 with a last dimension of 2", "f64x2" },
    { CLI_OPTION_BYTES_AS, 0, "bytes-as", "DTYPE", "what NumPy's V1 is: F8_E4M3; of npz, npy, pt: U8", NULL },
    { CLI_OPTION_DEQUANTIZE, 0, "dequantize", "DTYPE", "make numbers of GGUF's blocks: f32, f16 or bf16",
      "f32|f16|bf16" },
    { CLI_OPTION_RAW, 0, "raw", NULL, "keep GGUF's blocks of quantised elements, as bytes", NULL },
    { CLI_OPTION_PACKED, 0, "packed", NULL, "keep integers of less than a byte (INT4), as bytes", NULL },
    { CLI_OPTION_CONSTANTS, 0, "constants", NULL, "of ONNX: also the tensors in the attributes of nodes", NULL },
    { CLI_OPTION_ARCH, 0, "arch", "NAME", "to gguf: general.architecture, without one in the metadata", NULL },
    { CLI_OPTION_SIDECAR, 0, "sidecar", "FILE", "of gguf: write all its keys there; to gguf: read them there", NULL },
    { CLI_OPTION_TENSOR, 0, "tensor", "NAME", "to npz, npy or pt: this tensor only", NULL },
    { CLI_OPTION_ALLOW_EXPAND, 0, "allow-expand", NULL, "write tensors much larger than what they view", NULL },
    { CLI_OPTION_MAX_SHARD_SIZE, 0, "max-shard-size", "SIZE", "several files, of so many bytes of tensors", NULL },
    { CLI_OPTION_BALANCED, 0, "balanced", NULL, "as many files, but as even as the order allows", NULL },
    { CLI_OPTION_NO_VERIFY, 0, "no-verify", NULL, "do not compare what was written with what was read", NULL },
    { CLI_OPTION_NO_CRC, 0, "no-crc", NULL, "do not check the CRCs that an archive records", NULL },
    CLI_OPTION_ROW_NO_SANDBOX,
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_END,
};

static const cli_example CONVERT_EXAMPLES[] = {
    { "coffer convert pytorch_model.bin -o model.safetensors", "a checkpoint of PyTorch" },
    { "coffer convert -n checkpoint.pt", "what it holds, and what would become of it" },
    { "coffer convert checkpoint.pt --root model -o model.safetensors", "one of the dicts in it" },
    { "coffer convert step-1000 -o model.safetensors", "a folder of a distributed training" },
    { "coffer convert weights.bin heads.bin -o model.safetensors", "two files, one model" },
    { "coffer convert model.gguf --dequantize bf16 -o model.safetensors", "a quantised model, as numbers" },
    { "coffer convert model.safetensors -o model.bt", "to bintensors" },
    { "coffer convert model.bt -o model.safetensors", "and back" },
    { "coffer convert model.safetensors -o model.pt", "to a checkpoint of PyTorch" },
    { "coffer convert model.safetensors -o model.npz", "to an archive of NumPy's arrays" },
    { "coffer convert model.safetensors --arch llama -o model.gguf", "to GGUF, as it is: nothing is quantised" },
    { NULL, NULL },
};

const cli_command cli_convert = {
    .name = "convert",
    .run = run_convert,
    .summary = "turn a checkpoint, arrays or a file of another format into safetensors",
    .usage = "PATH...",
    .about = "Writes the tensors of PATH to a file: safetensors (.safetensors) or bintensors (.bt, .bintensors),\n"
             "or of those to .npz, .npy (one tensor: --tensor), .gguf (nothing is quantised) or .pt, which\n"
             "torch.load reads. PATH is a file or a URL, and its format is detected by content:\n"
             "\n"
             "  PyTorch       checkpoints of any age (.pt, .pth, .bin, .ckpt), or their index (.index.json)\n"
             "                the folders that distributed trainings save (.distcp, DeepSpeed's)\n"
             "  NumPy         .npy, .npz, and pickles of arrays\n"
             "  Paddle        .pdparams, .pdopt\n"
             "  GGUF          models of llama.cpp (.gguf); quantised ones with --dequantize or --raw\n"
             "  ONNX          .onnx, with external data\n"
             "  flax          MessagePack (.msgpack)\n"
             "  Keras         .h5, .weights.h5, .keras\n"
             "  TensorFlow    a checkpoint (.index) or its folder, or that of a SavedModel\n"
             "  Arrow         tensors, and columns of numbers (.arrow)\n"
             "  safetensors   also an index or a folder; and bintensors\n"
             "\n"
             "Several files of other programs become one model, as the shards of a checkpoint without an index: no\n"
             "tensor may be in two of them. Their order is that of the tensors.\n"
             "\n"
             "Nothing of a file is executed: it is read by a process that can do nothing but ask for bytes. What\n"
             "is an object of another program is left out and listed, or refused (--strict). A tensor with several\n"
             "names is written once, and its other names go into the metadata, as other tools expect (--tied).\n"
             "Afterwards both files are read and compared, except on the way back. There tied names return as\n"
             "names of one tensor, or are left out (--tied keep). SIZE is as for coffer split.\n"
             "\n"
             "Exit codes: 0 written, 1 cannot be converted as asked, 2 wrong usage, 3 not read or not written.\n"
             "\n"
             "JSON: path (of several files also paths), output, done (\"written\", \"dry_run\"), tensors and size of\n"
             "the new file, seconds; of safetensors and bintensors also changes (none) or to; of other files also\n"
             "from, verified, plan [{name, dtype, shape, size, fate (\"written\", \"alias\", \"skipped\"), alias_of,\n"
             "reason, storage, gathered, changed, decoded}], metadata, findings [{weight (\"note\", \"opaque\",\n"
             "\"danger\"), text, subject, file, member, offset}], unreferenced [{storage, size}] and account {total,\n"
             "written, aliased, skipped, unreferenced}, in bytes. A file that fails has path and error (see coffer\n"
             "help info).\n",
    .options = CONVERT_OPTIONS,
    .examples = CONVERT_EXAMPLES,
    .least_names = 1,
    .most_names = SIZE_MAX,
    .takes_apart = true,
};
