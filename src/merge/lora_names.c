/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of an adapter's tensors, taken apart by their ends. A name is MODULE MARKER [.ADAPTER] ENDING, as in
 *
 *     base_model.model.model.layers.0.q_proj | .lora_A | .default | .weight
 *     lora_unet_down_blocks_0_attn1_to_q     | .lora_down         | .weight
 *     down_blocks.0.attn1.processor.to_q     | _lora.down         | .weight
 *
 * What is left of a name that ends in none of them is a whole tensor, or a part of another kind of adapter, which is
 * known by a piece of text that only such parts have in their last components.
 */
#include "error.h"
#include "lora.h"
#include "text.h"

#include <string.h>

typedef struct lora_ending {
    const char *marker;
    const char *ending;
    unsigned part;
    coffer_adapter_kind kind;
    bool named; /* the name of the adapter may stand between the two */
    bool embedding;
} lora_ending;

static const lora_ending lora_endings[] = {
    { ".lora_A", ".weight", COFFER__LORA_DOWN, COFFER_ADAPTER_LORA, true, false },
    { ".lora_B", ".weight", COFFER__LORA_UP, COFFER_ADAPTER_LORA, true, false },
    { ".lora_embedding_A", "", COFFER__LORA_DOWN, COFFER_ADAPTER_LORA, true, true },
    { ".lora_embedding_B", "", COFFER__LORA_UP, COFFER_ADAPTER_LORA, true, true },
    { ".lora_magnitude_vector", "", COFFER__LORA_MAGNITUDE, COFFER_ADAPTER_LORA, true, false },
    { ".lora_down", ".weight", COFFER__LORA_DOWN, COFFER_ADAPTER_LORA, false, false },
    { ".lora_up", ".weight", COFFER__LORA_UP, COFFER_ADAPTER_LORA, false, false },
    { ".lora_mid", ".weight", COFFER__LORA_CORE, COFFER_ADAPTER_LORA, false, false },
    { ".lora.down", ".weight", COFFER__LORA_DOWN, COFFER_ADAPTER_LORA, false, false },
    { ".lora.up", ".weight", COFFER__LORA_UP, COFFER_ADAPTER_LORA, false, false },
    { ".lora_linear_layer.down", ".weight", COFFER__LORA_DOWN, COFFER_ADAPTER_LORA, false, false },
    { ".lora_linear_layer.up", ".weight", COFFER__LORA_UP, COFFER_ADAPTER_LORA, false, false },
    { "_lora.down", ".weight", COFFER__LORA_DOWN, COFFER_ADAPTER_LORA, false, false },
    { "_lora.up", ".weight", COFFER__LORA_UP, COFFER_ADAPTER_LORA, false, false },
    { ".hada_w1_a", "", COFFER__LORA_UP, COFFER_ADAPTER_LOHA, true, false },
    { ".hada_w1_b", "", COFFER__LORA_DOWN, COFFER_ADAPTER_LOHA, true, false },
    { ".hada_t1", "", COFFER__LORA_CORE, COFFER_ADAPTER_LOHA, true, false },
    { ".hada_w2_a", "", COFFER__LORA_SECOND + COFFER__LORA_UP, COFFER_ADAPTER_LOHA, true, false },
    { ".hada_w2_b", "", COFFER__LORA_SECOND + COFFER__LORA_DOWN, COFFER_ADAPTER_LOHA, true, false },
    { ".hada_t2", "", COFFER__LORA_SECOND + COFFER__LORA_CORE, COFFER_ADAPTER_LOHA, true, false },
    { ".lokr_w1", "", COFFER__LORA_FULL, COFFER_ADAPTER_LOKR, true, false },
    { ".lokr_w1_a", "", COFFER__LORA_UP, COFFER_ADAPTER_LOKR, true, false },
    { ".lokr_w1_b", "", COFFER__LORA_DOWN, COFFER_ADAPTER_LOKR, true, false },
    { ".lokr_w2", "", COFFER__LORA_SECOND + COFFER__LORA_FULL, COFFER_ADAPTER_LOKR, true, false },
    { ".lokr_w2_a", "", COFFER__LORA_SECOND + COFFER__LORA_UP, COFFER_ADAPTER_LOKR, true, false },
    { ".lokr_w2_b", "", COFFER__LORA_SECOND + COFFER__LORA_DOWN, COFFER_ADAPTER_LOKR, true, false },
    { ".lokr_t2", "", COFFER__LORA_SECOND + COFFER__LORA_CORE, COFFER_ADAPTER_LOKR, true, false },
    { ".alpha", "", COFFER__LORA_ALPHA, COFFER_ADAPTER_WHOLE, false, false },
};

/* Parts of other kinds, by a text that a name has, or with a `$` ends in; what the kind is called, and what merges it. */
static const struct {
    const char *text;
    const char *kind;
    const char *tool;
} lora_others[] = {
    { ".dora_scale", "DoRA as LyCORIS has it, of whose versions each has its own", "the program that made it" },
    { ".lora_E", "AdaLoRA", "PEFT (merge_and_unload)" },
    { ".lora_B.bias", "a LoRA with a bias of its own", "PEFT (merge_and_unload)" },
    { ".lokr_t1", "a LoKr with a core of its first matrix", "the program that made it" },
    { ".oft_", "OFT", "PEFT (merge_and_unload) or LyCORIS" },
    { ".boft_", "BOFT", "PEFT (merge_and_unload)" },
    { ".ia3_l", "IA3", "PEFT (merge_and_unload)" },
    { ".vera_lambda_", "VeRA", "PEFT (merge_and_unload)" },
    { ".trainable_tokens_", "an adapter of single tokens", "PEFT (merge_and_unload)" },
    { ".diff_b$", "differences of whole tensors", "the program that made it" },
    { ".diff$", "differences of whole tensors", "the program that made it" },
    { "prompt_embeddings", "prompt tuning", "nothing, since it adds tokens and not numbers" },
};

/* Beginnings of kohya's names: which of the models that they are for stands before the module. */
static const char *const lora_flat_beginnings[] = { "lora_unet_",     "lora_te_",         "lora_te1_",
                                                    "lora_te2_",      "lora_te3_",        "lora_transformer_",
                                                    "lora_prior_te_", "lora_prior_unet_", "lycoris_" };

static bool lora_ends(coffer__name name, const char *text)
{
    const size_t len = strlen(text);
    return name.len >= len && memcmp(name.text + name.len - len, text, len) == 0;
}

static bool lora_begins(coffer__name name, const char *text)
{
    const size_t len = strlen(text);
    return name.len >= len && memcmp(name.text, text, len) == 0;
}

static coffer__name lora_without_end(coffer__name name, const char *end)
{
    return (coffer__name){ name.text, name.len - strlen(end) };
}

static coffer__name lora_without_beginning(coffer__name name, const char *beginning)
{
    const size_t len = strlen(beginning);
    return (coffer__name){ name.text + len, name.len - len };
}

/* The name without its last component and the dot before it. */
static coffer__name lora_without_last(coffer__name name)
{
    while (name.len > 0 && name.text[name.len - 1] != '.') {
        name.len--;
    }
    name.len -= name.len > 0;
    return name;
}

/* Whether the name ends in that way; *module is what is before it. */
static bool lora_ends_as(coffer__name name, const lora_ending *ending, coffer__name *module)
{
    if (!lora_ends(name, ending->ending)) {
        return false;
    }
    name = lora_without_end(name, ending->ending);
    if (ending->named && !lora_ends(name, ending->marker)) {
        name = lora_without_last(name);
    }
    if (!lora_ends(name, ending->marker)) {
        return false;
    }
    const coffer__name found = lora_without_end(name, ending->marker);
    if (found.len > 0) {
        *module = found;
    }
    return found.len > 0;
}

static bool lora_has(coffer__name name, const char *text)
{
    size_t len = strlen(text);
    if (text[len - 1] == '$') {
        len--;
        return name.len >= len && memcmp(name.text + name.len - len, text, len) == 0;
    }
    for (size_t i = 0; name.len >= len && i <= name.len - len; i++) {
        if (memcmp(name.text + i, text, len) == 0) {
            return true;
        }
    }
    return false;
}

static coffer_status lora_refuse_other(coffer__name name, coffer_error *err)
{
    for (size_t i = 0; i < sizeof lora_others / sizeof lora_others[0]; i++) {
        if (lora_has(name, lora_others[i].text)) {
            coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                         "tensor %q is a part of %s, which cannot be merged here; what can: %s", name.text, name.len,
                         lora_others[i].kind, lora_others[i].tool);
            return coffer__fail_tensor(err, COFFER_ERR_UNSUPPORTED, name.text, name.len);
        }
    }
    return COFFER_OK;
}

/* What only adapters have before the name of a module. */
static void lora_cut_beginning(coffer__lora_said *said)
{
    said->beginning = (coffer__name){ said->module.text, 0 };
    for (size_t i = 0; i < sizeof lora_flat_beginnings / sizeof lora_flat_beginnings[0]; i++) {
        if (lora_begins(said->module, lora_flat_beginnings[i])) {
            said->beginning.len = strlen(lora_flat_beginnings[i]);
            said->module = lora_without_beginning(said->module, lora_flat_beginnings[i]);
            said->flat = true;
            return;
        }
    }
    said->prefixed = lora_begins(said->module, "base_model.model.");
    if (said->prefixed) {
        said->beginning.len = sizeof "base_model.model." - 1;
        said->module = lora_without_beginning(said->module, "base_model.model.");
    }
}

coffer_status coffer__lora_understand(coffer__name name, coffer__lora_said *said, coffer_error *err)
{
    *said = (coffer__lora_said){ .module = name, .part = COFFER__LORA_WHOLE };
    for (size_t i = 0; i < sizeof lora_endings / sizeof lora_endings[0]; i++) {
        if (lora_ends_as(name, &lora_endings[i], &said->module)) {
            said->part = lora_endings[i].part;
            said->kind = lora_endings[i].kind;
            said->embedding = lora_endings[i].embedding;
            break;
        }
    }
    said->below = lora_has(name, ".base_layer.");
    lora_cut_beginning(said);
    return said->part == COFFER__LORA_WHOLE ? lora_refuse_other(name, err) : COFFER_OK;
}
