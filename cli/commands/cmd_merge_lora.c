/* SPDX-License-Identifier: Apache-2.0 */
/* coffer merge-lora BASE ADAPTER... -o FILE: adapters added to the model that they were trained on. */
#include "cli_adapters.h"
#include "cli_mismatches.h"
#include "cli_options.h"
#include "cli_output.h"
#include "cli_report.h"
#include "cli_rewrite.h"

#include <stdio.h>

typedef struct merging {
    cli *app;
    cli_adapters all;
} merging;

/* ---- telling ---- */

static coffer_status plan_merge(void *ctx, coffer_rewrite **rewrite, const coffer *model,
                                const coffer_rewrite_options *options, coffer_error *err)
{
    const merging *run = ctx;
    cli_mismatches mismatches = { .app = run->app, .paths = run->all.paths, .between = ": " };
    coffer_merge_lora_options merge = COFFER_MERGE_LORA_OPTIONS_INIT;
    merge.misfit = cli_mismatches_tell;
    merge.misfit_ctx = &mismatches;
    const coffer_status status =
        coffer_merge_lora_plan(rewrite, model, run->all.adapters, run->all.count, &merge, options, err);
    cli_mismatches_finish(&mismatches);
    return status;
}

static void put_scale(cli_output *out, double scale)
{
    char text[32];
    snprintf(text, sizeof text, "%.6g", scale);
    cli_put_text(out, text);
}

/* What kinds are called: for people, who know what LoRA is, and for programs. */
static const struct {
    const char *text;
    const char *json;
} UPDATE_KINDS[] = {
    [COFFER_ADAPTER_WHOLE] = { "replaced", "whole" }, [COFFER_ADAPTER_LORA] = { "", "lora" },
    [COFFER_ADAPTER_DORA] = { "DoRA, ", "dora" },     [COFFER_ADAPTER_LOHA] = { "LoHa, ", "loha" },
    [COFFER_ADAPTER_LOKR] = { "LoKr, ", "lokr" },
};

/* "rank 16, scale 2"; "DoRA, rank 16, scale 2"; "replaced". Of several adapters each has its number. */
static void put_updates(const void *ctx, cli_output *out, const coffer_rewrite *rewrite, size_t i)
{
    const merging *run = ctx;
    const coffer_lora_update *update = NULL;
    for (size_t k = 0; (update = coffer_merge_lora_at(rewrite, i, k)) != NULL; k++) {
        cli_put_text(out, k > 0 ? "; " : "");
        if (run->all.count > 1) {
            cli_put_text(out, "adapter ");
            cli_put_number(out, update->adapter + 1);
            cli_put_text(out, ": ");
        }
        cli_put_text(out, UPDATE_KINDS[update->kind].text);
        if (update->kind == COFFER_ADAPTER_WHOLE) {
            continue;
        }
        if (update->rank > 0) {
            cli_put_text(out, "rank ");
            cli_put_number(out, update->rank);
            cli_put_text(out, ", ");
        }
        cli_put_text(out, "scale ");
        put_scale(out, update->scale);
        cli_put_text(out, update->transposed ? ", transposed" : "");
    }
}

static void json_updates(const void *ctx, cli_output *out, const coffer_rewrite *rewrite, size_t i)
{
    const merging *run = ctx;
    char scale[32];
    const coffer_lora_update *update = NULL;
    cli_json_key(out, "adapters");
    cli_json_open(out, '[', false);
    for (size_t k = 0; (update = coffer_merge_lora_at(rewrite, i, k)) != NULL; k++) {
        cli_json_open(out, '{', false);
        cli_json_key(out, "path");
        cli_json_string(out, run->all.paths[update->adapter]);
        cli_json_key(out, "kind");
        cli_json_string(out, UPDATE_KINDS[update->kind].json);
        cli_json_key(out, "rank");
        cli_json_number(out, update->rank);
        cli_json_key(out, "scale");
        snprintf(scale, sizeof scale, "%.17g", update->scale);
        cli_json_raw(out, scale);
        cli_json_close(out, '}');
    }
    cli_json_close(out, ']');
}

static bool same_updates(const void *ctx, const coffer_rewrite *rewrite, size_t i, size_t other)
{
    (void)ctx;
    for (size_t k = 0;; k++) {
        const coffer_lora_update *a = coffer_merge_lora_at(rewrite, i, k);
        const coffer_lora_update *b = coffer_merge_lora_at(rewrite, other, k);
        if (a == NULL || b == NULL) {
            return a == b;
        }
        if (a->adapter != b->adapter || a->kind != b->kind || a->rank != b->rank || a->scale != b->scale ||
            a->transposed != b->transposed) {
            return false;
        }
    }
}

/* ---- the whole ---- */

static int run_merge_lora(cli *app, const cli_arguments *arguments)
{
    merging run = { .app = app };
    const cli_rewrite_planner planner = {
        plan_merge, &run, { "merge", "merged", put_updates, json_updates, same_updates, &run }, false
    };
    int code = cli_rewrite_check_given(app, arguments);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    code = cli_adapters_open(&run.all, app, arguments, arguments->names + 1, arguments->name_count - 1);
    if (code == CLI_EXIT_OK) {
        code = cli_adapters_guard(&run.all, cli_value(arguments, CLI_OPTION_OUTPUT));
    }
    if (code == CLI_EXIT_OK) {
        code = cli_rewrite_planned(app, arguments, &planner);
    }
    cli_adapters_close(&run.all);
    return code;
}

static const cli_option MERGE_LORA_OPTIONS[] = {
    { CLI_OPTION_OUTPUT, 'o', "output", "FILE", "the new file; or FOLDER/, for a whole model", NULL },
    { CLI_OPTION_SCALE, 0, "scale", "X", "how much of an adapter to add, 1 unless given; repeatable, in their order",
      NULL },
    { CLI_OPTION_SELECT, 0, "select", "GLOB", "only tensors of the adapters whose names match; repeatable", NULL },
    CLI_OPTION_ROW_SHARD_SIZE,
    CLI_OPTION_ROW_DRY_RUN,
    CLI_OPTION_ROW_ALL_CHANGES,
    { CLI_OPTION_FORCE, 'f', "force", NULL, "overwrite FILE", NULL },
    CLI_OPTION_ROW_DIGEST,
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_END,
};

static const cli_example MERGE_LORA_EXAMPLES[] = {
    { "coffer merge-lora base.safetensors adapter/ -o merged.safetensors",
      "an adapter of PEFT, with its configuration" },
    { "coffer merge-lora base/ style.safetensors --scale 0.7 -o merged.safetensors", "seven tenths of an adapter" },
    { "coffer merge-lora base/ a/ b/ --scale 1 --scale 0.5 -o both.safetensors",
      "two adapters, the second one by half" },
    { "coffer merge-lora unet/ lora.safetensors --select 'lora_unet_*' -n -o new.safetensors",
      "what would be merged of an adapter for several models" },
    { NULL, NULL },
};

const cli_command cli_merge_lora = {
    .name = "merge-lora",
    .run = run_merge_lora,
    .summary = "add adapters (LoRA) to the model that they were trained on",
    .usage = "BASE ADAPTER...",
    .about = "Writes the model BASE with adapters of low rank added to its tensors, in the same layout, dtypes and\n"
             "metadata, to FILE (-o). ADAPTER is a file, or a folder or URL of one: of PEFT, whose\n"
             "adapter_config.json has to be next to it; of kohya's scripts, whose names have underscores for dots;\n"
             "or of diffusers. LoRA, DoRA, LoHa and LoKr are added, as PEFT and LyCORIS do it; of LoRA, to each\n"
             "tensor scale * alpha / rank * B A is added, in F32, and the sum is rounded once. --scale is given\n"
             "once for all adapters, or once for each; of DoRA it is how much of the product is added, while rows\n"
             "keep the lengths that were trained. Tensors that PEFT saved whole (modules_to_save, biases) replace\n"
             "those of the base. Every tensor of an adapter has to find its place and shape, or all that do not\n"
             "are listed and nothing is written. Other kinds are refused, and so are quantised models. Tensors\n"
             "that no adapter changes are copied as they are.\n"
             "\n"
             "JSON: as of coffer align; of changes [{name, change, adapters: [{path, kind, rank, scale}], from,\n"
             "to, overflowed, vanished}]. kind is lora, dora, loha, lokr, or whole for a tensor that is replaced.\n",
    .options = MERGE_LORA_OPTIONS,
    .examples = MERGE_LORA_EXAMPLES,
    .least_names = 2,
    .most_names = SIZE_MAX,
    .takes_apart = true,
};
