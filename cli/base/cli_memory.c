/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory a model takes: see cli_memory.h for the contract. Every number comes from a file that nobody vouches
   for, so products are checked, and what is 0 or missing ends the estimate. */
#include "cli_memory.h"

#include "cli_text.h"

#include <stdio.h>
#include <string.h>

#define PATH_SIZE 96

/* A configuration, and the part of it that is about the language model. */
typedef struct memory_source {
    const cli_config *config;
    const char *prefix; /* "" or "text_config." */
} memory_source;

/* The first of `names`, with spaces between them, that is a count. */
static bool first_count(const memory_source *source, const char *names, uint64_t *count)
{
    char path[PATH_SIZE];
    while (*names != '\0') {
        const size_t len = strcspn(names, " ");
        snprintf(path, sizeof path, "%s%.*s", source->prefix, (int)len, names);
        if (cli_config_count(source->config, path, count) && *count > 0) {
            return true;
        }
        names += len + (names[len] == ' ');
    }
    *count = 0;
    return false;
}

static const char *text_at(const memory_source *source, const char *name)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s%s", source->prefix, name);
    return cli_config_text(source->config, path);
}

static bool multiply(uint64_t *product, uint64_t factor)
{
    if (factor != 0 && *product > UINT64_MAX / factor) {
        return false;
    }
    *product *= factor;
    return true;
}

/* Models of several kinds of input keep what is about text in a part of its own. */
static bool find_layers(memory_source *source, uint64_t *layers)
{
    static const char *const prefixes[] = { "", "text_config.", "llm_config.", "language_config.",
                                            "thinker_config.text_config." };
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        source->prefix = prefixes[i];
        if (first_count(source, "num_hidden_layers n_layer n_layers num_layers", layers)) {
            return true;
        }
    }
    return false;
}

static bool ends_with(const char *text, const char *ending)
{
    const size_t len = strlen(text);
    const size_t ending_len = strlen(ending);
    return len >= ending_len && strcmp(text + len - ending_len, ending) == 0;
}

/* Whether it generates text token by token, with one stack of layers. */
static bool generates(const cli_config *config)
{
    const char *architecture = cli_config_text(config, "architectures.0");
    return architecture != NULL && !cli_config_is_true(config, "is_encoder_decoder") &&
           (ends_with(architecture, "ForCausalLM") || ends_with(architecture, "LMHeadModel") ||
            ends_with(architecture, "ForConditionalGeneration"));
}

/* Numbers of a token in a layer; false when that is not said. */
static bool find_numbers(const memory_source *source, uint64_t *numbers)
{
    uint64_t heads = 0;
    uint64_t pairs = 0;
    uint64_t width = 0;
    uint64_t size = 0;
    if (first_count(source, "kv_lora_rank", numbers)) {
        (void)first_count(source, "qk_rope_head_dim", &size);
        *numbers += size;
        return true;
    }
    if (!first_count(source, "num_attention_heads n_head n_heads num_heads", &heads)) {
        return false;
    }
    if (!first_count(source, "num_key_value_heads num_kv_heads n_head_kv num_query_groups multi_query_group_num",
                     &pairs)) {
        char path[PATH_SIZE];
        snprintf(path, sizeof path, "%smulti_query", source->prefix);
        pairs = cli_config_is_true(source->config, path) ? 1 : heads;
    }
    if (!first_count(source, "head_dim", &size)) {
        if (!first_count(source, "hidden_size n_embd d_model dim", &width) || width % heads != 0) {
            return false;
        }
        size = width / heads;
    }
    *numbers = 2;
    return multiply(numbers, pairs) && multiply(numbers, size);
}

/* Which layers keep what, where the configuration lists them. */
static void sort_layers(const memory_source *source, cli_memory *memory)
{
    char path[PATH_SIZE];
    const uint64_t all = memory->layers;
    uint64_t full = 0;
    const char *kind = NULL;
    if (text_at(source, "layer_types.0") == NULL) {
        return;
    }
    for (uint64_t i = 0; i < all; i++) {
        snprintf(path, sizeof path, "layer_types.%llu", (unsigned long long)i);
        kind = text_at(source, path);
        if (kind == NULL) {
            break;
        }
        full += strcmp(kind, "full_attention") == 0;
        memory->sliding += strcmp(kind, "sliding_attention") == 0;
    }
    memory->layers = full;
    if (!first_count(source, "sliding_window", &memory->window)) {
        memory->layers += memory->sliding;
        memory->sliding = 0;
    }
}

/* Caches have the dtype in which a model computes, which is that of its weights or, of packed ones, usually one of
   16 bits. */
static uint64_t find_number_size(const memory_source *source)
{
    const char *name = text_at(source, "torch_dtype");
    name = name != NULL ? name : text_at(source, "dtype");
    name = name != NULL ? name : cli_config_text(source->config, "torch_dtype");
    name = name != NULL ? name : cli_config_text(source->config, "dtype");
    return name != NULL && strcmp(name, "float32") == 0 ? 4 : 2;
}

static bool sum_up(cli_memory *memory)
{
    uint64_t grown = memory->layers;
    uint64_t windows = memory->sliding;
    const uint64_t kept = memory->window < memory->context ? memory->window : memory->context;
    if (!multiply(&grown, memory->context) || !multiply(&windows, kept) || windows > UINT64_MAX - grown) {
        return false;
    }
    memory->cache = grown + windows;
    return multiply(&memory->cache, memory->numbers) && multiply(&memory->cache, memory->number_size);
}

bool cli_memory_estimate(cli_memory *memory, const cli_config *config, uint64_t context, char why[CLI_CONFIG_WHY_SIZE])
{
    memory_source source = { .config = config, .prefix = "" };
    *memory = (cli_memory){ .layers = 0 };
    why[0] = '\0';
    if (!generates(config)) {
        snprintf(why, CLI_CONFIG_WHY_SIZE, "is not of a model that generates text by one stack of layers");
        return false;
    }
    if (!find_layers(&source, &memory->layers) || !find_numbers(&source, &memory->numbers)) {
        snprintf(why, CLI_CONFIG_WHY_SIZE, "does not say how many layers and heads there are");
        return false;
    }
    (void)first_count(&source, "max_position_embeddings n_positions n_ctx max_seq_len max_sequence_length seq_length",
                      &memory->most_context);
    memory->context = context != 0 ? context : memory->most_context;
    if (memory->context == 0) {
        snprintf(why, CLI_CONFIG_WHY_SIZE, "does not say how long a context can be: --context");
        return false;
    }
    memory->number_size = find_number_size(&source);
    sort_layers(&source, memory);
    if (!sum_up(memory)) {
        snprintf(why, CLI_CONFIG_WHY_SIZE, "has numbers that no model has");
        return false;
    }
    return true;
}
