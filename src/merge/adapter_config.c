/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of adapter_config.json: see adapter_config.h for the contract. PEFT takes the keys of patterns for regular
 * expressions that match the end of a name; with `^` they are only for the whole one.
 */
#include "adapter_config.h"

#include "text.h"

static void adapter_write_number(coffer__writing *out, uint64_t number)
{
    char text[20];
    coffer__write(out, text, coffer__write_u64(text, number));
}

static void adapter_write_or_null(coffer__writing *out, coffer__name json)
{
    if (json.len > 0) {
        coffer__write(out, json.text, json.len);
    } else {
        coffer__write_text(out, "null");
    }
}

uint64_t coffer__adapter_config_rank(const coffer__adapter_config *config)
{
    uint64_t rank = 0;
    for (size_t i = 0; i < config->count; i++) {
        const coffer__adapter_module module = config->module(config->ctx, i);
        rank = module.rank > rank ? module.rank : rank;
    }
    return rank;
}

static void adapter_write_pattern(coffer__writing *out, const coffer__adapter_module *module)
{
    coffer__writing key = { .allocator = out->allocator };
    coffer__write_text(&key, "^");
    coffer__write(&key, module->name.text, module->name.len);
    coffer__write_text(&key, "$");
    if (key.failed) {
        out->failed = true;
    } else {
        coffer__write_json_n(out, key.text, key.used);
    }
    coffer__writing_free(&key);
    coffer__write_text(out, ": ");
    adapter_write_number(out, module->rank);
}

/* {"^name$": rank, …} of modules of another rank. */
static void adapter_write_patterns(coffer__writing *out, const coffer__adapter_config *config, uint64_t rank)
{
    bool first = true;
    coffer__write_text(out, "{");
    for (size_t i = 0; i < config->count; i++) {
        const coffer__adapter_module module = config->module(config->ctx, i);
        if (module.rank == 0 || module.rank == rank) {
            continue;
        }
        coffer__write_text(out, first ? "\n    " : ",\n    ");
        adapter_write_pattern(out, &module);
        first = false;
    }
    coffer__write_text(out, first ? "}" : "\n  }");
}

static void adapter_write_modules(coffer__writing *out, const coffer__adapter_config *config)
{
    bool first = true;
    coffer__write_text(out, "[");
    for (size_t i = 0; i < config->count; i++) {
        const coffer__adapter_module module = config->module(config->ctx, i);
        if (module.rank > 0) {
            coffer__write_text(out, first ? "\n    " : ",\n    ");
            coffer__write_json_n(out, module.name.text, module.name.len);
            first = false;
        }
    }
    coffer__write_text(out, "\n  ]");
}

void coffer__adapter_config_write(coffer__writing *out, const coffer__adapter_config *config)
{
    const uint64_t rank = coffer__adapter_config_rank(config);
    coffer__write_text(out, "{\n  \"alpha_pattern\": ");
    adapter_write_patterns(out, config, rank);
    coffer__write_text(out, ",\n  \"base_model_name_or_path\": ");
    adapter_write_or_null(out, config->base);
    coffer__write_text(out, ",\n  \"bias\": \"none\",\n  \"fan_in_fan_out\": ");
    coffer__write_text(out, config->fan_in_fan_out ? "true" : "false");
    coffer__write_text(out, ",\n  \"inference_mode\": true,\n  \"lora_alpha\": ");
    adapter_write_number(out, rank);
    coffer__write_text(out, ",\n  \"lora_dropout\": 0.0,\n  \"peft_type\": \"LORA\",\n  \"r\": ");
    adapter_write_number(out, rank);
    coffer__write_text(out, ",\n  \"rank_pattern\": ");
    adapter_write_patterns(out, config, rank);
    coffer__write_text(out, ",\n  \"target_modules\": ");
    adapter_write_modules(out, config);
    coffer__write_text(out, ",\n  \"task_type\": ");
    adapter_write_or_null(out, config->task);
    coffer__write_text(out, "\n}\n");
}
