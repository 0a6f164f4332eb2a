/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The known maps. Most are a list of steps: a text at the beginning of a name, at its end or anywhere in it, and what it
 * becomes. Names of kohya's LoRA files have underscores for the dots of a path, which cannot be undone in general; that map
 * takes a path apart by the words that diffusers' modules have, and is certain only where all of it consists of them.
 *
 * Only maps for which nothing but names differs are here. That of Llama's and Mistral's original files is not: the rows of
 * q and k are in another order there. docs/editing.md has the source of each map.
 */
#include "rewrite_maps.h"

#include "coffer.h"

#include <string.h>

/* Where a step looks. Of the steps for the beginning that follow each other, the first that fits counts; likewise of those
   for the end. */
typedef enum map_where { MAP_END_OF_STEPS = 0, MAP_BEGINNING, MAP_ENDING, MAP_ANYWHERE } map_where;

typedef struct map_step {
    map_where where;
    const char *from;
    const char *to;
} map_step;

#define MAP_LAST                                                                                                       \
    {                                                                                                                  \
        MAP_END_OF_STEPS, NULL, NULL                                                                                   \
    }

struct coffer__rewrite_map {
    const char *name;
    const char *about;
    const map_step *steps;
    bool by_words; /* the path before the ending is one of kohya's */
};

/* ---- what wraps a model ------------------------------------------------------------------------------------------ */

static const map_step MAP_UNWRAP[] = {
    { MAP_ANYWHERE, "_orig_mod.", "" },
    { MAP_ANYWHERE, "_fsdp_wrapped_module.", "" },
    { MAP_ANYWHERE, "_checkpoint_wrapped_module.", "" },
    { MAP_BEGINNING, "module.", "" },
    MAP_LAST,
};

/* ---- transformers: a model with and without its head ------------------------------------------------------------- */

static const map_step MAP_MODEL_STRIP[] = { { MAP_BEGINNING, "model.", "" }, MAP_LAST };
static const map_step MAP_MODEL_ADD[] = {
    { MAP_BEGINNING, "embed_tokens.", "model.embed_tokens." },
    { MAP_BEGINNING, "layers.", "model.layers." },
    { MAP_BEGINNING, "norm.", "model.norm." },
    MAP_LAST,
};
static const map_step MAP_GPT2_STRIP[] = { { MAP_BEGINNING, "transformer.", "" }, MAP_LAST };
static const map_step MAP_GPT2_ADD[] = {
    { MAP_BEGINNING, "wte.", "transformer.wte." },
    { MAP_BEGINNING, "wpe.", "transformer.wpe." },
    { MAP_BEGINNING, "h.", "transformer.h." },
    { MAP_BEGINNING, "ln_f.", "transformer.ln_f." },
    MAP_LAST,
};
static const map_step MAP_BERT_STRIP[] = { { MAP_BEGINNING, "bert.", "" }, MAP_LAST };
static const map_step MAP_BERT_ADD[] = {
    { MAP_BEGINNING, "embeddings.", "bert.embeddings." },
    { MAP_BEGINNING, "encoder.", "bert.encoder." },
    { MAP_BEGINNING, "pooler.", "bert.pooler." },
    MAP_LAST,
};
static const map_step MAP_LAYERNORM[] = {
    { MAP_ENDING, "LayerNorm.gamma", "LayerNorm.weight" },
    { MAP_ENDING, "LayerNorm.beta", "LayerNorm.bias" },
    MAP_LAST,
};

/* ---- transformers: where a language model is nested -------------------------------------------------------------- */

static const map_step MAP_VLM_NEW[] = {
    { MAP_BEGINNING, "language_model.model.", "model.language_model." },
    { MAP_BEGINNING, "language_model.lm_head.", "lm_head." },
    { MAP_BEGINNING, "vision_tower.", "model.vision_tower." },
    { MAP_BEGINNING, "multi_modal_projector.", "model.multi_modal_projector." },
    { MAP_BEGINNING, "image_newline", "model.image_newline" },
    MAP_LAST,
};
static const map_step MAP_VLM_OLD[] = {
    { MAP_BEGINNING, "model.language_model.", "language_model.model." },
    { MAP_BEGINNING, "lm_head.", "language_model.lm_head." },
    { MAP_BEGINNING, "model.vision_tower.", "vision_tower." },
    { MAP_BEGINNING, "model.multi_modal_projector.", "multi_modal_projector." },
    { MAP_BEGINNING, "model.image_newline", "image_newline" },
    MAP_LAST,
};
/* Names that are new already stay. */
static const map_step MAP_QWEN_VL_NEW[] = {
    { MAP_BEGINNING, "model.language_model.", "model.language_model." },
    { MAP_BEGINNING, "model.visual.", "model.visual." },
    { MAP_BEGINNING, "visual.", "model.visual." },
    { MAP_BEGINNING, "model.", "model.language_model." },
    MAP_LAST,
};
static const map_step MAP_QWEN_VL_OLD[] = {
    { MAP_BEGINNING, "model.language_model.", "model." },
    { MAP_BEGINNING, "model.visual.", "visual." },
    MAP_LAST,
};

/* ---- Whisper: OpenAI's names, and those of transformers ---------------------------------------------------------- */

static const map_step MAP_WHISPER_HF[] = {
    { MAP_ANYWHERE, ".blocks.", ".layers." },
    { MAP_ANYWHERE, ".mlp.0.", ".fc1." },
    { MAP_ANYWHERE, ".mlp.2.", ".fc2." },
    { MAP_ANYWHERE, ".mlp_ln.", ".final_layer_norm." },
    { MAP_ANYWHERE, ".cross_attn_ln.", ".encoder_attn_layer_norm." },
    { MAP_ANYWHERE, ".attn_ln.", ".self_attn_layer_norm." },
    { MAP_ANYWHERE, ".cross_attn.query.", ".encoder_attn.q_proj." },
    { MAP_ANYWHERE, ".cross_attn.key.", ".encoder_attn.k_proj." },
    { MAP_ANYWHERE, ".cross_attn.value.", ".encoder_attn.v_proj." },
    { MAP_ANYWHERE, ".cross_attn.out.", ".encoder_attn.out_proj." },
    { MAP_ANYWHERE, ".attn.query.", ".self_attn.q_proj." },
    { MAP_ANYWHERE, ".attn.key.", ".self_attn.k_proj." },
    { MAP_ANYWHERE, ".attn.value.", ".self_attn.v_proj." },
    { MAP_ANYWHERE, ".attn.out.", ".self_attn.out_proj." },
    { MAP_ENDING, ".positional_embedding", ".embed_positions.weight" },
    { MAP_ANYWHERE, ".token_embedding.", ".embed_tokens." },
    { MAP_BEGINNING, "decoder.ln.", "model.decoder.layer_norm." },
    { MAP_BEGINNING, "encoder.ln_post.", "model.encoder.layer_norm." },
    { MAP_BEGINNING, "decoder.", "model.decoder." },
    { MAP_BEGINNING, "encoder.", "model.encoder." },
    MAP_LAST,
};
static const map_step MAP_WHISPER_OPENAI[] = {
    { MAP_BEGINNING, "model.decoder.layer_norm.", "decoder.ln." },
    { MAP_BEGINNING, "model.encoder.layer_norm.", "encoder.ln_post." },
    { MAP_BEGINNING, "model.decoder.", "decoder." },
    { MAP_BEGINNING, "model.encoder.", "encoder." },
    { MAP_ANYWHERE, ".layers.", ".blocks." },
    { MAP_ANYWHERE, ".fc1.", ".mlp.0." },
    { MAP_ANYWHERE, ".fc2.", ".mlp.2." },
    { MAP_ANYWHERE, ".final_layer_norm.", ".mlp_ln." },
    { MAP_ANYWHERE, ".encoder_attn_layer_norm.", ".cross_attn_ln." },
    { MAP_ANYWHERE, ".self_attn_layer_norm.", ".attn_ln." },
    { MAP_ANYWHERE, ".encoder_attn.q_proj.", ".cross_attn.query." },
    { MAP_ANYWHERE, ".encoder_attn.k_proj.", ".cross_attn.key." },
    { MAP_ANYWHERE, ".encoder_attn.v_proj.", ".cross_attn.value." },
    { MAP_ANYWHERE, ".encoder_attn.out_proj.", ".cross_attn.out." },
    { MAP_ANYWHERE, ".self_attn.q_proj.", ".attn.query." },
    { MAP_ANYWHERE, ".self_attn.k_proj.", ".attn.key." },
    { MAP_ANYWHERE, ".self_attn.v_proj.", ".attn.value." },
    { MAP_ANYWHERE, ".self_attn.out_proj.", ".attn.out." },
    { MAP_ENDING, ".embed_positions.weight", ".positional_embedding" },
    { MAP_ANYWHERE, ".embed_tokens.", ".token_embedding." },
    MAP_LAST,
};

/* ---- LoRA -------------------------------------------------------------------------------------------------------- */

static const map_step MAP_PEFT_UNET[] = { { MAP_BEGINNING, "base_model.model.", "unet." }, MAP_LAST };
static const map_step MAP_UNET_PEFT[] = { { MAP_BEGINNING, "unet.", "base_model.model." }, MAP_LAST };
static const map_step MAP_PEFT_TRANSFORMER[] = { { MAP_BEGINNING, "base_model.model.", "transformer." }, MAP_LAST };
static const map_step MAP_TRANSFORMER_PEFT[] = { { MAP_BEGINNING, "transformer.", "base_model.model." }, MAP_LAST };

/* What diffusers wrote before it used PEFT. */
static const map_step MAP_DIFFUSERS_OLD[] = {
    { MAP_ANYWHERE, ".processor.", "." },
    { MAP_ENDING, ".to_out_lora.down.weight", ".to_out.0.lora_A.weight" },
    { MAP_ENDING, ".to_out_lora.up.weight", ".to_out.0.lora_B.weight" },
    { MAP_ENDING, ".to_q_lora.down.weight", ".to_q.lora_A.weight" },
    { MAP_ENDING, ".to_q_lora.up.weight", ".to_q.lora_B.weight" },
    { MAP_ENDING, ".to_k_lora.down.weight", ".to_k.lora_A.weight" },
    { MAP_ENDING, ".to_k_lora.up.weight", ".to_k.lora_B.weight" },
    { MAP_ENDING, ".to_v_lora.down.weight", ".to_v.lora_A.weight" },
    { MAP_ENDING, ".to_v_lora.up.weight", ".to_v.lora_B.weight" },
    { MAP_ENDING, ".lora_linear_layer.down.weight", ".lora_A.weight" },
    { MAP_ENDING, ".lora_linear_layer.up.weight", ".lora_B.weight" },
    { MAP_ENDING, ".lora.down.weight", ".lora_A.weight" },
    { MAP_ENDING, ".lora.up.weight", ".lora_B.weight" },
    MAP_LAST,
};

/* The beginnings and endings alone; the path between them is spelt otherwise, too. Where kohya has two names for one part,
   the first is for models with one text encoder. */
static const map_step MAP_KOHYA_DIFFUSERS[] = {
    { MAP_BEGINNING, "lora_unet_", "unet." },
    { MAP_BEGINNING, "lora_te_", "text_encoder." },
    { MAP_BEGINNING, "lora_te1_", "text_encoder." },
    { MAP_BEGINNING, "lora_te2_", "text_encoder_2." },
    { MAP_ENDING, ".lora_down.weight", ".lora_A.weight" },
    { MAP_ENDING, ".lora_up.weight", ".lora_B.weight" },
    { MAP_ENDING, ".alpha", ".alpha" },
    MAP_LAST,
};
static const map_step MAP_DIFFUSERS_KOHYA[] = {
    { MAP_BEGINNING, "unet.", "lora_unet_" },
    { MAP_BEGINNING, "text_encoder.", "lora_te_" },
    { MAP_ENDING, ".lora_A.weight", ".lora_down.weight" },
    { MAP_ENDING, ".lora_B.weight", ".lora_up.weight" },
    { MAP_ENDING, ".alpha", ".alpha" },
    MAP_LAST,
};
static const map_step MAP_DIFFUSERS_KOHYA_XL[] = {
    { MAP_BEGINNING, "unet.", "lora_unet_" },
    { MAP_BEGINNING, "text_encoder.", "lora_te1_" },
    { MAP_BEGINNING, "text_encoder_2.", "lora_te2_" },
    { MAP_ENDING, ".lora_A.weight", ".lora_down.weight" },
    { MAP_ENDING, ".lora_B.weight", ".lora_up.weight" },
    { MAP_ENDING, ".alpha", ".alpha" },
    MAP_LAST,
};

/* The parts of paths to modules of diffusers' UNet and of CLIP's text models. Of several that fit, the longest counts. */
static const char *const MAP_WORDS[] = {
    "add_embedding",
    "attentions",
    "attn1",
    "attn2",
    "class_embedding",
    "conv",
    "conv1",
    "conv2",
    "conv_in",
    "conv_out",
    "conv_shortcut",
    "down_blocks",
    "downsamplers",
    "embeddings",
    "encoder",
    "fc1",
    "fc2",
    "ff",
    "final_layer_norm",
    "k_proj",
    "layer_norm1",
    "layer_norm2",
    "layers",
    "linear_1",
    "linear_2",
    "mid_block",
    "mlp",
    "net",
    "out_proj",
    "position_embedding",
    "proj",
    "proj_in",
    "proj_out",
    "q_proj",
    "resnets",
    "self_attn",
    "text_model",
    "text_projection",
    "time_emb_proj",
    "time_embedding",
    "to_k",
    "to_out",
    "to_q",
    "to_v",
    "token_embedding",
    "transformer_blocks",
    "up_blocks",
    "upsamplers",
    "v_proj",
};

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const coffer__rewrite_map MAPS[] = {
    { "unwrap", "removes what DDP, FSDP, torch.compile and checkpointing add: module., _orig_mod. and others",
      MAP_UNWRAP, false },
    { "model-strip", "Llama and its like: without the prefix model.", MAP_MODEL_STRIP, false },
    { "model-add", "Llama and its like: with the prefix model.", MAP_MODEL_ADD, false },
    { "gpt2-strip", "GPT-2: without the prefix transformer.", MAP_GPT2_STRIP, false },
    { "gpt2-add", "GPT-2: with the prefix transformer.", MAP_GPT2_ADD, false },
    { "bert-strip", "BERT: without the prefix bert.", MAP_BERT_STRIP, false },
    { "bert-add", "BERT: with the prefix bert.", MAP_BERT_ADD, false },
    { "layernorm", "BERT of TensorFlow: LayerNorm.gamma and .beta become .weight and .bias", MAP_LAYERNORM, false },
    { "vlm-new", "LLaVA, Gemma 3, Mistral 3 for transformers from 4.52 on: model.language_model.", MAP_VLM_NEW, false },
    { "vlm-old", "the same for transformers before 4.52: language_model.model.", MAP_VLM_OLD, false },
    { "qwen-vl-new", "Qwen2-VL and 2.5-VL for transformers from 4.52 on: model.language_model.", MAP_QWEN_VL_NEW,
      false },
    { "qwen-vl-old", "the same for transformers before 4.52", MAP_QWEN_VL_OLD, false },
    { "whisper-hf", "Whisper: OpenAI's names to those of transformers", MAP_WHISPER_HF, false },
    { "whisper-openai", "Whisper: transformers' names to those of OpenAI", MAP_WHISPER_OPENAI, false },
    { "peft-unet", "LoRA: PEFT's names to those of diffusers, of a UNet", MAP_PEFT_UNET, false },
    { "unet-peft", "LoRA: diffusers' names of a UNet to those of PEFT", MAP_UNET_PEFT, false },
    { "peft-transformer", "LoRA: PEFT's names to those of diffusers, of a transformer", MAP_PEFT_TRANSFORMER, false },
    { "transformer-peft", "LoRA: diffusers' names of a transformer to those of PEFT", MAP_TRANSFORMER_PEFT, false },
    { "diffusers-old", "LoRA: diffusers' names from before PEFT to those of now", MAP_DIFFUSERS_OLD, false },
    { "kohya-diffusers", "LoRA: kohya's names to those of diffusers", MAP_KOHYA_DIFFUSERS, true },
    { "diffusers-kohya", "LoRA: diffusers' names to those of kohya, one text encoder", MAP_DIFFUSERS_KOHYA, true },
    { "diffusers-kohya-xl", "LoRA: diffusers' names to those of kohya, two text encoders", MAP_DIFFUSERS_KOHYA_XL,
      true },
};

#define MAP_COUNT (sizeof MAPS / sizeof MAPS[0])

const char *coffer_rewrite_map_at(size_t i, const char **about)
{
    if (about != NULL) {
        *about = i < MAP_COUNT ? MAPS[i].about : NULL;
    }
    return i < MAP_COUNT ? MAPS[i].name : NULL;
}

const coffer__rewrite_map *coffer__rewrite_map_find(const char *name)
{
    for (size_t i = 0; i < MAP_COUNT; i++) {
        if (strcmp(MAPS[i].name, name) == 0) {
            return &MAPS[i];
        }
    }
    return NULL;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static bool map_begins(coffer__name name, const char *with)
{
    const size_t len = strlen(with);
    return name.len >= len && memcmp(name.text, with, len) == 0;
}

static bool map_ends(coffer__name name, const char *with)
{
    const size_t len = strlen(with);
    return name.len >= len && memcmp(name.text + (name.len - len), with, len) == 0;
}

/* The text in `out` from `at` on, `len` bytes of it, becomes `to`. */
static void map_replace(coffer__writing *out, size_t at, size_t len, const char *to)
{
    const size_t to_len = strlen(to);
    if (to_len > len && coffer__write_space(out, to_len - len) == NULL) {
        return;
    }
    const size_t used = to_len > len ? out->used - (to_len - len) : out->used;
    memmove(out->text + at + to_len, out->text + at + len, used - at - len);
    memcpy(out->text + at, to, to_len);
    out->used = used - len + to_len;
}

/* How often `part` is in the text, each place counted once, from left to right. */
static size_t map_count(coffer__name text, const char *part, size_t part_len)
{
    size_t count = 0;
    for (size_t at = 0; text.len >= part_len && at <= text.len - part_len;) {
        const bool found = memcmp(text.text + at, part, part_len) == 0;
        count += found;
        at += found ? part_len : 1;
    }
    return count;
}

/* The new text is written after the old one and then takes its place, so that the time does not grow with the number of
   places: names come from files. What replaces a text is not looked at again. */
static bool map_replace_all(coffer__writing *out, const char *from, const char *to)
{
    const size_t from_len = strlen(from);
    const size_t to_len = strlen(to);
    const size_t old_len = out->used;
    const size_t count = map_count((coffer__name){ out->text, old_len }, from, from_len);
    if (count == 0) {
        return false;
    }
    const size_t len = old_len - count * from_len + count * to_len;
    char *next = len > 0 ? coffer__write_space(out, len) : out->text;
    for (size_t at = 0; next != NULL && at < old_len;) {
        const bool found = old_len - at >= from_len && memcmp(out->text + at, from, from_len) == 0;
        const size_t size = found ? to_len : 1;
        memcpy(next, found ? to : out->text + at, size);
        next += size;
        at += found ? from_len : 1;
    }
    if (next != NULL) {
        memmove(out->text, out->text + old_len, len);
        out->used = len;
    }
    return true;
}

/* Whether the step fits; then it is done. */
static bool map_do_step(const map_step *step, coffer__writing *out)
{
    const coffer__name name = { out->text, out->used };
    const size_t len = strlen(step->from);
    if (out->failed) {
        return false;
    }
    if (step->where == MAP_ANYWHERE) {
        return map_replace_all(out, step->from, step->to);
    }
    const bool fits = step->where == MAP_BEGINNING ? map_begins(name, step->from) : map_ends(name, step->from);
    if (fits) {
        map_replace(out, step->where == MAP_BEGINNING ? 0 : name.len - len, len, step->to);
    }
    return fits;
}

/* The steps in turn; after one for an end of the name, the others for the same end that follow it are passed over. */
static bool map_do_steps(const map_step *steps, coffer__writing *out)
{
    bool any = false;
    for (const map_step *step = steps; step->where != MAP_END_OF_STEPS;) {
        const map_where where = step->where;
        const bool done = map_do_step(step, out);
        any = any || done;
        for (step++; done && where != MAP_ANYWHERE && step->where == where;) {
            step++;
        }
    }
    return any;
}

/* ---- paths in words ---------------------------------------------------------------------------------------------- */

/* The length of the word or number that the path begins with, an underscore or its end after it; 0: there is none. */
static size_t map_word(coffer__name path)
{
    size_t longest = 0;
    for (size_t i = 0; i < sizeof MAP_WORDS / sizeof MAP_WORDS[0]; i++) {
        const size_t len = strlen(MAP_WORDS[i]);
        if (len > longest && map_begins(path, MAP_WORDS[i]) && (path.len == len || path.text[len] == '_')) {
            longest = len;
        }
    }
    size_t digits = 0;
    while (digits < path.len && path.text[digits] >= '0' && path.text[digits] <= '9') {
        digits++;
    }
    return digits > 0 && (digits == path.len || path.text[digits] == '_') ? digits : longest;
}

/* Dots for the underscores between words; false when not all of it consists of words. */
static bool map_path_to_dots(char *path, size_t path_len)
{
    for (size_t at = 0; at < path_len;) {
        const size_t len = map_word((coffer__name){ path + at, path_len - at });
        if (len == 0) {
            return false;
        }
        at += len;
        if (at < path_len) {
            path[at++] = '.';
            if (at == path_len) {
                return false;
            }
        }
    }
    return path_len > 0;
}

/* A path back: certain only where all of it consists of words, so that what comes of it leads back to the path. */
static bool map_path_to_underscores(char *path, size_t path_len)
{
    size_t begin = 0;
    for (size_t at = 0; at <= path_len; at++) {
        if (at < path_len && path[at] != '.') {
            continue;
        }
        if (at == begin || map_word((coffer__name){ path + begin, at - begin }) != at - begin) {
            return false;
        }
        begin = at + 1;
    }
    for (size_t at = 0; at < path_len; at++) {
        path[at] = path[at] == '.' ? '_' : path[at];
    }
    return true;
}

/* The step of that kind that fits the name; NULL: none does. */
static const map_step *map_fitting(const map_step *steps, map_where where, coffer__name name)
{
    for (const map_step *step = steps; step->where != MAP_END_OF_STEPS; step++) {
        if (step->where == where &&
            (where == MAP_BEGINNING ? map_begins(name, step->from) : map_ends(name, step->from))) {
            return step;
        }
    }
    return NULL;
}

/* Names without the beginning are none of the map's. With it, an ending that is not known, as of LoHa, is unclear. */
static coffer__rewrite_mapped map_by_words(const coffer__rewrite_map *map, coffer__name name, coffer__writing *out)
{
    const map_step *beginning = map_fitting(map->steps, MAP_BEGINNING, name);
    const map_step *ending = map_fitting(map->steps, MAP_ENDING, name);
    if (beginning == NULL) {
        return COFFER__MAPPED_NOT;
    }
    const size_t before = strlen(beginning->from);
    if (ending == NULL || name.len < before + strlen(ending->from)) {
        return COFFER__MAPPED_UNCLEAR;
    }
    const size_t path_len = name.len - before - strlen(ending->from);
    coffer__write_text(out, beginning->to);
    const size_t at = out->used;
    coffer__write(out, name.text + before, path_len);
    if (out->failed) {
        return COFFER__MAPPED;
    }
    const bool dots = beginning->to[strlen(beginning->to) - 1] == '.';
    if (!(dots ? map_path_to_dots : map_path_to_underscores)(out->text + at, path_len)) {
        return COFFER__MAPPED_UNCLEAR;
    }
    coffer__write_text(out, ending->to);
    return COFFER__MAPPED;
}

coffer__rewrite_mapped coffer__rewrite_map_name(const coffer__rewrite_map *map, coffer__name name, coffer__writing *out)
{
    if (map->by_words) {
        return map_by_words(map, name, out);
    }
    coffer__write(out, name.text, name.len);
    return map_do_steps(map->steps, out) ? COFFER__MAPPED : COFFER__MAPPED_NOT;
}
