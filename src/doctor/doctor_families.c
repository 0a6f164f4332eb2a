/* SPDX-License-Identifier: Apache-2.0 */
/* The table of families: see doctor_family.h for how it is written. A family is one row, and its rules a list. */
#include "doctor_family.h"

#include "checkup.h"
#include "text.h"

#include <stdio.h>
#include <string.h>

static const coffer__doctor_rule LLAMA[] = {
    { "embed_tokens.weight", "V,H", false },
    { "layers.#.self_attn.q_proj.weight", "Q,H", true },
    { "layers.#.self_attn.k_proj.weight", "K,H", true },
    { "layers.#.self_attn.v_proj.weight", "K,H", true },
    { "layers.#.self_attn.o_proj.weight", "H,Q", true },
    { "layers.#.mlp.gate_proj.weight", "I,H", true },
    { "layers.#.mlp.up_proj.weight", "I,H", true },
    { "layers.#.mlp.down_proj.weight", "H,I", true },
    { "norm.weight", "H", false },
    { NULL, NULL, false },
};

static const coffer__doctor_rule MIXTRAL[] = {
    { "embed_tokens.weight", "V,H", false },
    { "layers.#.self_attn.q_proj.weight", "Q,H", true },
    { "layers.#.self_attn.k_proj.weight", "K,H", true },
    { "layers.#.self_attn.v_proj.weight", "K,H", true },
    { "layers.#.self_attn.o_proj.weight", "H,Q", true },
    { "layers.#.block_sparse_moe.gate.weight", "E,H", false },
    { "layers.#.block_sparse_moe.experts.@.w1.weight", "I,H", false },
    { "layers.#.block_sparse_moe.experts.@.w2.weight", "H,I", false },
    { "layers.#.block_sparse_moe.experts.@.w3.weight", "I,H", false },
    { "norm.weight", "H", false },
    { NULL, NULL, false },
};

static const coffer__doctor_rule QWEN_MOE[] = {
    { "embed_tokens.weight", "V,H", false },
    { "layers.#.self_attn.q_proj.weight", "Q,H", true },
    { "layers.#.self_attn.k_proj.weight", "K,H", true },
    { "layers.#.self_attn.v_proj.weight", "K,H", true },
    { "layers.#.self_attn.o_proj.weight", "H,Q", true },
    { "layers.#.mlp.gate.weight", "E,H", false },
    { "layers.#.mlp.experts.@.gate_proj.weight", "M,H", false },
    { "layers.#.mlp.experts.@.up_proj.weight", "M,H", false },
    { "layers.#.mlp.experts.@.down_proj.weight", "H,M", false },
    { "norm.weight", "H", false },
    { NULL, NULL, false },
};

static const coffer__doctor_rule GPT_OSS[] = {
    { "embed_tokens.weight", "V,H", false },
    { "layers.#.self_attn.q_proj.weight", "Q,H", true },
    { "layers.#.self_attn.k_proj.weight", "K,H", true },
    { "layers.#.self_attn.v_proj.weight", "K,H", true },
    { "layers.#.self_attn.o_proj.weight", "H,Q", true },
    { "layers.#.mlp.router.weight", "E,H", false },
    { "norm.weight", "H", false },
    { NULL, NULL, false },
};

/* Attention over a latent of its own, and experts after some dense layers: only the outline is the same in all of them. */
static const coffer__doctor_rule DEEPSEEK[] = {
    { "embed_tokens.weight", "V,H", false },
    { "layers.#.input_layernorm.weight", "H", true },
    { "layers.#.post_attention_layernorm.weight", "H", true },
    { "layers.#.mlp.gate.weight", "E,H", false },
    { "layers.#.mlp.experts.@.gate_proj.weight", "M,H", false },
    { "norm.weight", "H", false },
    { NULL, NULL, false },
};

static const coffer__doctor_rule STARCODER2[] = {
    { "embed_tokens.weight", "V,H", false },
    { "layers.#.self_attn.q_proj.weight", "Q,H", true },
    { "layers.#.self_attn.k_proj.weight", "K,H", true },
    { "layers.#.self_attn.v_proj.weight", "K,H", true },
    { "layers.#.mlp.c_fc.weight", "I,H", true },
    { "layers.#.mlp.c_proj.weight", "H,I", true },
    { NULL, NULL, false },
};

static const coffer__doctor_rule PHI[] = {
    { "embed_tokens.weight", "V,H", false },
    { "layers.#.self_attn.q_proj.weight", "Q,H", true },
    { "layers.#.self_attn.k_proj.weight", "K,H", true },
    { "layers.#.self_attn.v_proj.weight", "K,H", true },
    { "layers.#.mlp.fc1.weight", "I,H", true },
    { "layers.#.mlp.fc2.weight", "H,I", true },
    { NULL, NULL, false },
};

static const coffer__doctor_rule PHI3[] = {
    { "embed_tokens.weight", "V,H", false },
    { "layers.#.self_attn.qkv_proj.weight", "A,H", true },
    { "layers.#.self_attn.o_proj.weight", "H,Q", true },
    { "layers.#.mlp.gate_up_proj.weight", "2I,H", true },
    { "layers.#.mlp.down_proj.weight", "H,I", true },
    { "norm.weight", "H", false },
    { NULL, NULL, false },
};

/* Its matrices are those of a convolution of width 1, input first. */
static const coffer__doctor_rule GPT2[] = {
    { "wte.weight", "V,H", false },
    { "wpe.weight", "N,H", false },
    { "h.#.attn.c_attn.weight", "H,3H", true },
    { "h.#.attn.c_proj.weight", "H,H", true },
    { "h.#.mlp.c_fc.weight", "H,I", true },
    { "h.#.mlp.c_proj.weight", "I,H", true },
    { "ln_f.weight", "H", false },
    { NULL, NULL, false },
};

static const coffer__doctor_rule GPTJ[] = {
    { "wte.weight", "V,H", false },
    { "h.#.attn.q_proj.weight", "H,H", true },
    { "h.#.attn.k_proj.weight", "H,H", true },
    { "h.#.attn.v_proj.weight", "H,H", true },
    { "h.#.mlp.fc_in.weight", "I,H", true },
    { "h.#.mlp.fc_out.weight", "H,I", true },
    { NULL, NULL, false },
};

static const coffer__doctor_rule GPT_NEOX[] = {
    { "embed_in.weight", "V,H", false },
    { "layers.#.attention.query_key_value.weight", "3H,H", true },
    { "layers.#.attention.dense.weight", "H,H", true },
    { "layers.#.mlp.dense_h_to_4h.weight", "I,H", true },
    { "layers.#.mlp.dense_4h_to_h.weight", "H,I", true },
    { NULL, NULL, false },
};

static const coffer__doctor_rule BLOOM[] = {
    { "word_embeddings.weight", "V,H", false },
    { "h.#.self_attention.query_key_value.weight", "3H,H", true },
    { "h.#.self_attention.dense.weight", "H,H", true },
    { "h.#.mlp.dense_h_to_4h.weight", "4H,H", true },
    { NULL, NULL, false },
};

static const coffer__doctor_rule OPT[] = {
    { "embed_tokens.weight", "V,D", false },
    { "layers.#.self_attn.q_proj.weight", "H,H", true },
    { "layers.#.self_attn.k_proj.weight", "H,H", true },
    { "layers.#.self_attn.v_proj.weight", "H,H", true },
    { "layers.#.fc1.weight", "I,H", true },
    { "layers.#.fc2.weight", "H,I", true },
    { NULL, NULL, false },
};

static const coffer__doctor_rule BERT[] = {
    { "embeddings.word_embeddings.weight", "V,D", false },
    { "embeddings.position_embeddings.weight", "N,D", false },
    { "encoder.layer.#.attention.self.query.weight", "H,H", true },
    { "encoder.layer.#.attention.self.key.weight", "H,H", true },
    { "encoder.layer.#.attention.self.value.weight", "H,H", true },
    { "encoder.layer.#.intermediate.dense.weight", "I,H", true },
    { "encoder.layer.#.output.dense.weight", "H,I", true },
    { NULL, NULL, false },
};

static const coffer__doctor_rule DISTILBERT[] = {
    { "embeddings.word_embeddings.weight", "V,H", false },
    { "embeddings.position_embeddings.weight", "N,H", false },
    { "transformer.layer.#.attention.q_lin.weight", "H,H", true },
    { "transformer.layer.#.attention.k_lin.weight", "H,H", true },
    { "transformer.layer.#.attention.v_lin.weight", "H,H", true },
    { "transformer.layer.#.ffn.lin1.weight", "I,H", true },
    { "transformer.layer.#.ffn.lin2.weight", "H,I", true },
    { NULL, NULL, false },
};

static const coffer__doctor_rule T5[] = {
    { "shared.weight", "V,H", false },
    { "encoder.block.#.layer.0.SelfAttention.q.weight", "Q,H", true },
    { "encoder.block.#.layer.0.SelfAttention.k.weight", "Q,H", true },
    { "encoder.block.#.layer.0.SelfAttention.v.weight", "Q,H", true },
    { "encoder.block.#.layer.0.SelfAttention.o.weight", "H,Q", true },
    { "encoder.block.#.layer.1.DenseReluDense.wo.weight", "H,I", true },
    { "decoder.block.#.layer.0.SelfAttention.q.weight", "Q,H", true },
    { "decoder.block.#.layer.2.DenseReluDense.wo.weight", "H,I", true },
    { NULL, NULL, false },
};

static const coffer__doctor_rule BART[] = {
    { "shared.weight", "V,H", false },
    { "decoder.embed_tokens.weight", "V,H", false },
    { "encoder.layers.#.self_attn.q_proj.weight", "H,H", true },
    { "decoder.layers.#.self_attn.q_proj.weight", "H,H", true },
    { "decoder.layers.#.encoder_attn.q_proj.weight", "H,H", true },
    { NULL, NULL, false },
};

static const coffer__doctor_rule WHISPER[] = {
    { "decoder.embed_tokens.weight", "V,H", false },
    { "encoder.layers.#.self_attn.q_proj.weight", "H,H", true },
    { "decoder.layers.#.self_attn.q_proj.weight", "H,H", true },
    { "decoder.layers.#.encoder_attn.q_proj.weight", "H,H", true },
    { NULL, NULL, false },
};

static const coffer__doctor_rule MAMBA[] = {
    { "embeddings.weight", "V,H", false },
    { "layers.#.norm.weight", "H", true },
    { "layers.#.mixer.in_proj.weight", "?,H", true },
    { NULL, NULL, false },
};

static const coffer__doctor_rule VIT[] = {
    { "encoder.layer.#.attention.attention.query.weight", "H,H", true },
    { "encoder.layer.#.attention.attention.key.weight", "H,H", true },
    { "encoder.layer.#.intermediate.dense.weight", "I,H", true },
    { "encoder.layer.#.output.dense.weight", "H,I", true },
    { NULL, NULL, false },
};

/* "transformer." is that of models for answering questions. */
#define DECODER "model. language_model.model. model.language_model. transformer. -"

static const coffer__doctor_family FAMILIES[] = {
    { "llama mistral ministral qwen2 qwen3 granite olmo stablelm seed_oss arcee helium", DECODER, "layers.", NULL,
      "lm_head.weight", false, true, LLAMA },
    { "gemma gemma2 gemma3 gemma3_text cohere cohere2 smollm3", DECODER, "layers.", NULL, "lm_head.weight", true, true,
      LLAMA },
    { "olmo2 olmo3", DECODER, "layers.", NULL, "lm_head.weight", false, true, LLAMA },
    { "mixtral", DECODER, "layers.", NULL, "lm_head.weight", false, true, MIXTRAL },
    { "qwen2_moe qwen3_moe olmoe", DECODER, "layers.", NULL, "lm_head.weight", false, true, QWEN_MOE },
    { "gpt_oss", DECODER, "layers.", NULL, "lm_head.weight", false, true, GPT_OSS },
    { "deepseek_v2 deepseek_v3", DECODER, "layers.", NULL, "lm_head.weight", false, true, DEEPSEEK },
    { "starcoder2", DECODER, "layers.", NULL, "lm_head.weight", true, true, STARCODER2 },
    { "phi", DECODER, "layers.", NULL, "lm_head.weight", false, true, PHI },
    { "phi3", DECODER, "layers.", NULL, "lm_head.weight", false, true, PHI3 },
    { "gpt2", "transformer. -", "h.", NULL, "lm_head.weight", true, true, GPT2 },
    { "gptj", "transformer. -", "h.", NULL, "lm_head.weight", false, true, GPTJ },
    { "gpt_neox", "gpt_neox. -", "layers.", NULL, "embed_out.weight", false, true, GPT_NEOX },
    { "bloom", "transformer. -", "h.", NULL, "lm_head.weight", true, true, BLOOM },
    { "opt", "model.decoder. decoder. -", "layers.", NULL, "lm_head.weight", true, true, OPT },
    { "bert roberta xlm-roberta camembert electra", "bert. roberta. electra. -", "encoder.layer.", NULL, NULL, true,
      false, BERT },
    { "distilbert", "distilbert. -", "transformer.layer.", NULL, NULL, true, false, DISTILBERT },
    { "t5 mt5 umt5", "- transformer.", "encoder.block.", "decoder.block.", "lm_head.weight", true, true, T5 },
    { "bart mbart", "model. -", "encoder.layers.", "decoder.layers.", "lm_head.weight", true, true, BART },
    { "whisper", "model. -", "encoder.layers.", "decoder.layers.", "proj_out.weight", true, true, WHISPER },
    { "mamba", "backbone. -", "layers.", NULL, "lm_head.weight", true, true, MAMBA },
    { "vit deit", "vit. deit. -", "encoder.layer.", NULL, NULL, true, false, VIT },
};

static bool has_word(const char *words, const char *word, size_t word_len)
{
    while (*words != '\0') {
        const size_t len = strcspn(words, " ");
        if (len == word_len && memcmp(words, word, len) == 0) {
            return true;
        }
        words += len + strspn(words + len, " ");
    }
    return false;
}

const coffer__doctor_family *coffer__doctor_family_of(const char *type, size_t type_len)
{
    for (size_t i = 0; i < sizeof FAMILIES / sizeof FAMILIES[0] && type_len > 0; i++) {
        if (has_word(FAMILIES[i].types, type, type_len)) {
            return &FAMILIES[i];
        }
    }
    return NULL;
}

const coffer__doctor_family *coffer__doctor_family_at(size_t i)
{
    return i < sizeof FAMILIES / sizeof FAMILIES[0] ? &FAMILIES[i] : NULL;
}

/* ---- Names ---- */

size_t coffer__doctor_name_number(const char *name, size_t name_len, size_t at, uint64_t *number)
{
    size_t end = at;
    *number = 0;
    while (end < name_len && end - at < 18 && name[end] >= '0' && name[end] <= '9') {
        *number = *number * 10 + (uint64_t)(name[end] - '0');
        end++;
    }
    return end;
}

bool coffer__doctor_rule_fits(const char *rule, const char *name, size_t name_len, uint64_t *inner)
{
    size_t at = 0;
    uint64_t number = 0;
    *inner = COFFER__DOCTOR_NO_NUMBER;
    for (; *rule != '\0'; rule++) {
        if (*rule == '#' || *rule == '@') {
            const size_t end = coffer__doctor_name_number(name, name_len, at, &number);
            if (end == at) {
                return false;
            }
            *inner = *rule == '@' ? number : *inner;
            at = end;
        } else if (at == name_len || name[at++] != *rule) {
            return false;
        }
    }
    return at == name_len;
}

/* Spells the name as a text of letters has it, from `at` on; its end, or name_len + 1 where it is another name. */
static size_t spell(const char *text, const char *name, size_t name_len, size_t at, char *right)
{
    uint64_t number = 0;
    for (; *text != '\0'; text++) {
        if (*text == '#' || *text == '@') {
            const size_t end = coffer__doctor_name_number(name, name_len, at, &number);
            if (end == at) {
                return name_len + 1;
            }
            memcpy(right + at, name + at, end - at);
            at = end;
        } else if (at == name_len || coffer__text_lower(name[at]) != coffer__text_lower(*text)) {
            return name_len + 1;
        } else {
            right[at++] = *text;
        }
    }
    return at;
}

bool coffer__doctor_rule_spells(const char *prefix, const char *rule, const char *name, size_t name_len, char *right)
{
    const size_t at = spell(prefix, name, name_len, 0, right);
    const bool spells = at <= name_len && spell(rule, name, name_len, at, right) == name_len;
    right[name_len] = '\0';
    return spells;
}

bool coffer__doctor_has_prefix(const coffer_tensor *tensor, const char *prefix, const char **rest, size_t *rest_len)
{
    const size_t len = strlen(prefix);
    if (tensor->name_len < len || memcmp(tensor->name, prefix, len) != 0) {
        return false;
    }
    *rest = tensor->name + len;
    *rest_len = tensor->name_len - len;
    return true;
}

static bool any_fits(const coffer__doctor_family *family, const coffer *model, const char *prefix)
{
    const char *rest = NULL;
    size_t rest_len = 0;
    uint64_t inner = 0;
    for (size_t i = 0; i < coffer_count(model); i++) {
        if (!coffer__doctor_has_prefix(coffer_at(model, i), prefix, &rest, &rest_len)) {
            continue;
        }
        for (const coffer__doctor_rule *rule = family->rules; rule->name != NULL; rule++) {
            if (coffer__doctor_rule_fits(rule->name, rest, rest_len, &inner)) {
                return true;
            }
        }
    }
    return false;
}

bool coffer__doctor_choose_prefix(const coffer__doctor_family *family, const coffer *model,
                                  char prefix[COFFER__DOCTOR_PREFIX])
{
    const char *words = family->prefixes;
    while (*words != '\0') {
        const size_t len = strcspn(words, " ");
        snprintf(prefix, COFFER__DOCTOR_PREFIX, "%.*s", words[0] == '-' ? 0 : (int)len, words);
        if (any_fits(family, model, prefix)) {
            return true;
        }
        words += len + strspn(words + len, " ");
    }
    return false;
}
