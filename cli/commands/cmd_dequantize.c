/* SPDX-License-Identifier: Apache-2.0 */
/* coffer dequantize MODEL -o OUT: a quantised model as a plain one. */
#include "cli_json.h"
#include "cli_options.h"
#include "cli_output.h"
#include "cli_report.h"
#include "cli_rewrite.h"

#include <stdlib.h>
#include <string.h>

typedef struct dequantizing {
    cli *app;
    const char *path;
    coffer_dequantize_options options;
    const char **layouts; /* of each tensor that has the codes of a layer, once the model is open; else NULL */
} dequantizing;

/* ---- telling ---- */

static void tell_warning(void *ctx, const coffer_tensor *tensor, const char *text)
{
    const dequantizing *run = ctx;
    (void)tensor;
    cli_remark_path(run->app, run->path, "warning: %s", text);
}

/* Layers are in the order of the model's tensors. Without memory none is told of. */
static void take_layouts(dequantizing *run, const coffer *model, const coffer_quantised *layers)
{
    const size_t count = coffer_count(model);
    size_t next = 0;
    run->layouts = calloc(count + 1, sizeof *run->layouts);
    for (size_t i = 0; run->layouts != NULL && i < count; i++) {
        const coffer_quantised_layer *layer = coffer_quantised_at(layers, next);
        if (layer != NULL && layer->codes == coffer_at(model, i)) {
            run->layouts[i] = layer->layout;
            next++;
        }
    }
}

static coffer_status plan_dequantize(void *ctx, coffer_rewrite **rewrite, const coffer *model,
                                     const coffer_rewrite_options *options, coffer_error *err)
{
    dequantizing *run = ctx;
    coffer_quantised *layers = NULL;
    const coffer_status status = coffer_quantised_open(&layers, model, NULL, 0, err);
    if (status == COFFER_OK) {
        take_layouts(run, model, layers);
    }
    coffer_quantised_close(layers);
    return status == COFFER_OK ? coffer_dequantize_plan(rewrite, model, &run->options, options, err) : status;
}

/* The layout of a layer, whose codes are tensor `i`. */
static const char *layout_of(const dequantizing *run, size_t i)
{
    return run->layouts != NULL && run->layouts[i] != NULL ? run->layouts[i] : "";
}

static void put_layout(const void *ctx, cli_output *out, const coffer_rewrite *rewrite, size_t i)
{
    (void)rewrite;
    cli_put_text(out, "from ");
    cli_put_text(out, layout_of(ctx, i));
}

static void json_layout(const void *ctx, cli_output *out, const coffer_rewrite *rewrite, size_t i)
{
    const coffer_rewrite_change *change = coffer_rewrite_at(rewrite, i);
    cli_json_key(out, "layout");
    cli_json_string(out, layout_of(ctx, i));
    cli_json_key(out, "tensor");
    cli_json_string_n(out, change->to->name, change->to->name_len);
    cli_json_put_number(out, "nan", change->nans);
    cli_json_put_number(out, "wrapped", change->wrapped);
}

static bool same_layout(const void *ctx, const coffer_rewrite *rewrite, size_t i, size_t other)
{
    (void)rewrite;
    return strcmp(layout_of(ctx, i), layout_of(ctx, other)) == 0;
}

/* ---- the whole ---- */

/* A dtype, in any case of letters. */
static int read_dtype(cli *app, const char *text, coffer_dtype *dtype)
{
    static const struct {
        const char *name;
        coffer_dtype dtype;
    } names[] = { { "bf16", COFFER_BF16 }, { "f16", COFFER_F16 }, { "f32", COFFER_F32 },
                  { "BF16", COFFER_BF16 }, { "F16", COFFER_F16 }, { "F32", COFFER_F32 } };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (text == NULL || strcmp(text, names[i].name) == 0) {
            *dtype = text != NULL ? names[i].dtype : COFFER_UNKNOWN_DTYPE;
            return CLI_EXIT_OK;
        }
    }
    return cli_usage_error(app, "--dtype is bf16, f16 or f32");
}

static int run_dequantize(cli *app, const cli_arguments *arguments)
{
    dequantizing run = { .app = app, .path = arguments->names[0], .options = COFFER_DEQUANTIZE_OPTIONS_INIT };
    const cli_rewrite_planner planner = {
        plan_dequantize, &run, { "dequantize", "dequantized", put_layout, json_layout, same_layout, &run }, true
    };
    run.options.like = cli_value(arguments, CLI_OPTION_LIKE);
    run.options.allow_not_finite = cli_given(arguments, CLI_OPTION_ALLOW_NOT_FINITE);
    run.options.warning = tell_warning;
    run.options.warning_ctx = &run;
    if (run.options.like != NULL && strcmp(run.options.like, "modelopt") != 0) {
        return cli_usage_error(app, "--like is modelopt; all other layouts are decoded as their own programs do");
    }
    int code = read_dtype(app, cli_value(arguments, CLI_OPTION_DTYPE), &run.options.dtype);
    if (code == CLI_EXIT_OK) {
        code = cli_rewrite_planned(app, arguments, &planner);
    }
    free(run.layouts);
    return code;
}

static const cli_option DEQUANTIZE_OPTIONS[] = {
    { CLI_OPTION_OUTPUT, 'o', "output", "OUT", "the new model: a file, or FOLDER/ with all files of a model", NULL },
    { CLI_OPTION_DTYPE, 0, "dtype", "DTYPE", "of the layers: bf16, f16 or f32; else as the model states", NULL },
    { CLI_OPTION_LIKE, 0, "like", "TOOL", "where programs differ: modelopt rounds the scales of its FP8 first", NULL },
    { CLI_OPTION_ALLOW_NOT_FINITE, 0, "allow-not-finite", NULL, "decode scales that are infinite or NaN, too", NULL },
    CLI_OPTION_ROW_SHARD_SIZE,
    CLI_OPTION_ROW_DRY_RUN,
    CLI_OPTION_ROW_ALL_CHANGES,
    { CLI_OPTION_FORCE, 'f', "force", NULL, "overwrite OUT", NULL },
    CLI_OPTION_ROW_DIGEST,
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_END,
};

static const cli_example DEQUANTIZE_EXAMPLES[] = {
    { "coffer dequantize deepseek-fp8/ -o deepseek-bf16/", "a folder, with its tokenizer and configuration" },
    { "coffer dequantize flux-fp8.safetensors -o flux.safetensors --dtype bf16", "a file of ComfyUI" },
    { "coffer dequantize model-awq/ -o plain/ -n", "what would be written" },
    { NULL, NULL },
};

const cli_command cli_dequantize = {
    .name = "dequantize",
    .run = run_dequantize,
    .summary = "write a quantised model as a plain one",
    .usage = "MODEL",
    .about = "Writes MODEL (a file, an index, a folder or a URL) with each quantised layer as one tensor of\n"
             "floats, to the bit as the program that quantised it decodes it, to OUT (-o). What is not quantised\n"
             "is copied; scales, zero points and the like are left out, and so are scales of activations. In a\n"
             "folder, the companions come along, and config.json loses what it says of quantisation. Layers are\n"
             "decoded tile by tile, in memory that does not grow with the model.\n"
             "\n"
             "Decoded are the FP8 of DeepSeek and others, FP4 experts; compressed-tensors (FP8, int8, packed\n"
             "integers, NVFP4, MXFP4, MXFP8); ComfyUI (scaled FP8, NVFP4, MXFP8, int8); gpt-oss; GPTQ; AWQ\n"
             "(gemm); ModelOpt (FP8, NVFP4); bitsandbytes (NF4, FP4, int8); MLX; HQQ; torchao; quanto; BitNet.\n"
             "Others are refused by name. coffer convert --dequantize does the same for GGUF.\n"
             "\n"
             "JSON: as of coffer align; of changes [{name, change, layout, tensor, nan, wrapped, from, to,\n"
             "overflowed, vanished}]: tensor is the new name, nan counts numbers that are NaN, and wrapped zero\n"
             "points of GPTQ of which every bit is set.\n",
    .options = DEQUANTIZE_OPTIONS,
    .examples = DEQUANTIZE_EXAMPLES,
    .least_names = 1,
    .most_names = 1,
    .takes_apart = true,
};
