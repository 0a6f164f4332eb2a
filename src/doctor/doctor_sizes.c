/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes in config.json: see doctor_sizes.h for the contract. */
#include "doctor_sizes.h"

#include <stdio.h>
#include <string.h>

/* Families call the same thing by different names; the first that is there counts. */
static const struct {
    char letter;
    const char *keys;
    const char *name;
} SIZES[] = {
    { 'V', "vocab_size", "vocab_size" },
    { 'H', "hidden_size n_embd n_embed d_model dim", "hidden_size" },
    { 'h', "num_attention_heads n_head num_heads n_heads encoder_attention_heads", "num_attention_heads" },
    { 'k', "num_key_value_heads", "num_key_value_heads" },
    { 'd', "head_dim d_kv", "head_dim" },
    { 'I', "intermediate_size n_inner d_ff ffn_dim hidden_dim", "intermediate_size" },
    { 'M', "moe_intermediate_size", "moe_intermediate_size" },
    { 'E', "num_local_experts num_experts n_routed_experts", "the number of experts" },
    { 'N', "max_position_embeddings n_positions", "max_position_embeddings" },
    { 'D', "embedding_size word_embed_proj_dim", "embedding_size" },
    { 'L', "num_hidden_layers n_layer num_layers n_layers encoder_layers", "num_hidden_layers" },
    { 'X', "num_decoder_layers decoder_layers", "num_decoder_layers" },
    { 'P', "num_nextn_predict_layers", "num_nextn_predict_layers" },
};

const char *coffer__doctor_size_keys(size_t i)
{
    return i < sizeof SIZES / sizeof SIZES[0] ? SIZES[i].keys : NULL;
}

const char *coffer__doctor_size_name(char letter)
{
    for (size_t i = 0; i < sizeof SIZES / sizeof SIZES[0]; i++) {
        if (SIZES[i].letter == letter) {
            return SIZES[i].name;
        }
    }
    return letter == 'Q'   ? "num_attention_heads x head_dim"
           : letter == 'K' ? "num_key_value_heads x head_dim"
           : letter == 'A' ? "(num_attention_heads + 2 num_key_value_heads) x head_dim"
                           : "any";
}

static uint64_t product(uint64_t a, uint64_t b)
{
    return a != 0 && b > UINT64_MAX / a ? UINT64_MAX : a * b;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
    return b > UINT64_MAX - a ? UINT64_MAX : a + b;
}

/* The value of the first key that the object has; null is none. */
static uint64_t read_size(const coffer__doctor_folder *folder, const coffer__document *config,
                          const coffer__json_node *scope, const char *keys)
{
    char key[64];
    while (*keys != '\0') {
        const size_t len = strcspn(keys, " ");
        snprintf(key, sizeof key, "%.*s", (int)len, keys);
        const coffer__json_node *node = coffer__document_member(config, scope, key);
        uint64_t size = 0;
        if (coffer__document_u64(config, node, &size)) {
            return size;
        }
        if (node != NULL && node->kind != 'n') {
            coffer__finding *finding =
                coffer__doctor_add_in(folder, COFFER_SEVERITY_ERROR, "config_number", "config.json",
                                      "%s is not a whole number that a model can have", key);
            if (finding != NULL) {
                finding->offset = node->at;
            }
            return 0;
        }
        keys += len + strspn(keys + len, " ");
    }
    return 0;
}

/* What a configuration that lacks a size means by that. */
static void assume_sizes(const coffer__doctor_folder *folder, const char *type, uint64_t *of)
{
    if (of['I'] == 0 && (strcmp(type, "gpt2") == 0 || strcmp(type, "gptj") == 0)) {
        of['I'] = product(4, of['H']);
    }
    if (of['d'] == 0 && of['h'] > 0 && of['H'] % of['h'] == 0) {
        of['d'] = of['H'] / of['h'];
    } else if (of['d'] == 0 && of['h'] > 0) {
        coffer__doctor_add_in(
            folder, COFFER_SEVERITY_ERROR, "heads", "config.json",
            "the hidden size does not divide into that many attention heads, and no head_dim is stated");
    }
    of['k'] = of['k'] == 0 ? of['h'] : of['k'];
    of['M'] = of['M'] == 0 ? of['I'] : of['M'];
    of['D'] = of['D'] == 0 ? of['H'] : of['D'];
    of['X'] = of['X'] == 0 ? of['L'] : of['X'];
}

void coffer__doctor_read_sizes(const coffer__doctor_folder *folder, const coffer__document *config,
                               const coffer__json_node *scope, const char *type, bool nested,
                               coffer__doctor_sizes *sizes)
{
    *sizes = (coffer__doctor_sizes){ { 0 } };
    uint64_t *of = sizes->of;
    for (size_t i = 0; i < sizeof SIZES / sizeof SIZES[0]; i++) {
        of[(unsigned char)SIZES[i].letter] = read_size(folder, config, scope, SIZES[i].keys);
    }
    if (!nested) {
        assume_sizes(folder, type, of);
    }
    of['Q'] = product(of['h'], of['d']);
    of['K'] = product(of['k'], of['d']);
    of['A'] = of['Q'] > 0 && of['K'] > 0 ? sum(of['Q'], product(2, of['K'])) : 0;
}

uint64_t coffer__doctor_dimension(const coffer__doctor_sizes *sizes, const char *text, size_t len)
{
    const bool times = len > 1;
    const uint64_t size = sizes->of[(unsigned char)text[len - 1] & 127];
    return times ? product((uint64_t)(text[0] - '0'), size) : size;
}
