/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory a model takes: see cli_memory.h for the contract. Every number comes from a file that nobody vouches
   for, so products are checked, and what is 0 or missing ends the estimate. */
#include "cli_memory.h"

#include "block.h"
#include "cli_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_SIZE 64
#define LARGEST_COUNT (UINT64_C(1) << 53) /* beyond it, other readers of JSON know no exact integers */

/* A configuration, and the part of it that is about the language model. */
typedef struct memory_source {
    const coffer__document *config;
    const coffer__json_node *part;
} memory_source;

/* Takes the first of `names`, which have spaces between them; false when none is left. */
static bool next_name(const char **names, char name[NAME_SIZE])
{
    const size_t len = strcspn(*names, " ");
    snprintf(name, NAME_SIZE, "%.*s", (int)len, *names);
    *names += len + ((*names)[len] == ' ');
    return len > 0;
}

/* The first of `names` that is a count. */
static bool first_count(const memory_source *source, const char *names, uint64_t *count)
{
    char name[NAME_SIZE];
    while (next_name(&names, name)) {
        if (coffer__document_u64(source->config, coffer__document_member(source->config, source->part, name), count) &&
            *count > 0 && *count <= LARGEST_COUNT) {
            return true;
        }
    }
    *count = 0;
    return false;
}

static bool is_true(const coffer__document *config, const coffer__json_node *part, const char *name)
{
    const coffer__json_node *member = coffer__document_member(config, part, name);
    return member != NULL && member->kind == 't';
}

static bool is_text(const coffer__json_node *node)
{
    return node != NULL && node->kind == '"';
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
    static const char *const parts[] = { "", "text_config", "llm_config", "language_config",
                                         "thinker_config text_config" };
    char name[NAME_SIZE];
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const char *names = parts[i];
        source->part = coffer__document_root(source->config);
        while (next_name(&names, name)) {
            source->part = coffer__document_member(source->config, source->part, name);
        }
        if (first_count(source, "num_hidden_layers n_layer n_layers num_layers", layers)) {
            return true;
        }
    }
    return false;
}

/* Whether it generates text token by token, with one stack of layers. */
static bool generates(const coffer__document *config)
{
    size_t len = 0;
    const coffer__json_node *root = coffer__document_root(config);
    const coffer__json_node *architectures = coffer__document_member(config, root, "architectures");
    char *first = coffer__document_string(config, coffer__document_first(config, architectures), &len);
    const bool text = first != NULL && !is_true(config, root, "is_encoder_decoder") &&
                      (cli_ends_in(first, "ForCausalLM") || cli_ends_in(first, "LMHeadModel") ||
                       cli_ends_in(first, "ForConditionalGeneration"));
    coffer__block_free(first);
    return text;
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
        pairs = is_true(source->config, source->part, "multi_query") ? 1 : heads;
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

/* Layers that keep a window, where the configuration does not list them: by its kind of model, as transformers builds
   it. */
static uint64_t count_sliding(const memory_source *source, uint64_t layers)
{
    const coffer__document *config = source->config;
    const coffer__json_node *type = coffer__document_member(config, source->part, "model_type");
    const coffer__json_node *uses = coffer__document_member(config, source->part, "use_sliding_window");
    uint64_t number = 0;
    if (uses != NULL && uses->kind == 'f') {
        return 0;
    }
    if (first_count(source, "sliding_window_pattern", &number)) { /* Gemma 3, Cohere 2: each n-th layer keeps all */
        return layers - layers / number;
    }
    if (!is_text(type)) {
        return 0;
    }
    if (coffer__document_is(config, type, "gemma3_text") || coffer__document_is(config, type, "gemma3")) {
        return layers - layers / 6;
    }
    if (coffer__document_is(config, type, "gemma2")) {
        return layers - layers / 2;
    }
    if (is_true(config, source->part, "use_sliding_window")) { /* Qwen 2: from layer number n on */
        (void)first_count(source, "max_window_layers", &number);
        return number < layers ? layers - number : 0;
    }
    return coffer__document_is(config, type, "mistral") || coffer__document_is(config, type, "mixtral") ||
                   coffer__document_is(config, type, "phi3") || coffer__document_is(config, type, "starcoder2")
               ? layers
               : 0;
}

/* Which layers keep what. */
static void sort_layers(const memory_source *source, cli_memory *memory)
{
    const coffer__document *config = source->config;
    const coffer__json_node *kinds = coffer__document_member(config, source->part, "layer_types");
    const coffer__json_node *kind = coffer__document_first(config, kinds);
    uint64_t full = 0;
    if (!is_text(kind)) {
        memory->sliding =
            first_count(source, "sliding_window", &memory->window) ? count_sliding(source, memory->layers) : 0;
        memory->layers -= memory->sliding;
        memory->window = memory->sliding > 0 ? memory->window : 0;
        return;
    }
    for (uint64_t i = 0; i < memory->layers && is_text(kind); i++) {
        full += coffer__document_is(config, kind, "full_attention");
        memory->sliding += coffer__document_is(config, kind, "sliding_attention");
        kind = coffer__document_after(config, kinds, kind);
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
    const coffer__document *config = source->config;
    const coffer__json_node *const parts[] = { source->part, coffer__document_root(config) };
    for (size_t i = 0; i < 2; i++) {
        const coffer__json_node *name = coffer__document_member(config, parts[i], "torch_dtype");
        name = is_text(name) ? name : coffer__document_member(config, parts[i], "dtype");
        if (is_text(name)) {
            return coffer__document_is(config, name, "float32") ? 4 : 2;
        }
    }
    return 2;
}

bool cli_memory_cache(const cli_memory *memory, uint64_t context, uint64_t *cache)
{
    uint64_t grown = memory->layers;
    uint64_t windows = memory->sliding;
    const uint64_t kept = memory->window < context ? memory->window : context;
    if (!multiply(&grown, context) || !multiply(&windows, kept) || windows > UINT64_MAX - grown) {
        return false;
    }
    *cache = grown + windows;
    return multiply(cache, memory->numbers) && multiply(cache, memory->number_size);
}

bool cli_memory_estimate(cli_memory *memory, const coffer__document *config, uint64_t context,
                         char why[CLI_MEMORY_WHY_SIZE])
{
    memory_source source = { .config = config };
    *memory = (cli_memory){ .layers = 0 };
    why[0] = '\0';
    if (!generates(config)) {
        snprintf(why, CLI_MEMORY_WHY_SIZE, "is not of a model that generates text by one stack of layers");
        return false;
    }
    if (!find_layers(&source, &memory->layers) || !find_numbers(&source, &memory->numbers)) {
        snprintf(why, CLI_MEMORY_WHY_SIZE, "does not say how many layers and heads there are");
        return false;
    }
    (void)first_count(&source, "max_position_embeddings n_positions n_ctx max_seq_len max_sequence_length seq_length",
                      &memory->most_context);
    memory->context = context != 0 ? context : memory->most_context;
    if (memory->context == 0) {
        snprintf(why, CLI_MEMORY_WHY_SIZE, "does not say how long a context can be: --context");
        return false;
    }
    memory->number_size = find_number_size(&source);
    sort_layers(&source, memory);
    if (!cli_memory_cache(memory, memory->context, &memory->cache)) {
        snprintf(why, CLI_MEMORY_WHY_SIZE, "has numbers that no model has");
        return false;
    }
    return true;
}
