/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of a model changed by every kind of rule, and where only names change: in the header, without the tensors. What
 * comes of a rule is compared with names that were worked out by hand; tests/python compares expressions with sed and with
 * Python's.
 */
#include "support_cmocka.h"

#include "coffer.h"
#include "rewrite_layers.h"
#include "rewrite_maps.h"
#include "support_file.h"
#include "support_header.h"
#include "support_memory.h"
#include "support_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- a file, and what it becomes --------------------------------------------------------------------------------- */

/* Spelt as no writer here does: spaces, tensors that do not come in the order of their data, an escape in a name. */
static const char ODD[] =
    "{ \"b\\u002e1\" : {\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[2,5]} ,\n"
    "\"__metadata__\": {\"k\": \"v\"},  \"a.0\":{\"data_offsets\":[0,2], \"shape\":[2],\"dtype\":\"U8\"},"
    "\"c\\\"\\\\\": {\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[5,5]}}   ";

/* A file of that header, with `slack` more spaces, and of the bytes 1 to 5. */
static void write_odd(const char *name, size_t slack)
{
    const size_t size = 8 + sizeof ODD - 1 + slack + 5;
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    memset(bytes, ' ', size);
    const uint64_t header = sizeof ODD - 1 + slack;
    for (int i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(header >> (8 * i));
    }
    memcpy(bytes + 8, ODD, sizeof ODD - 1);
    memcpy(bytes + size - 5, "\1\2\3\4\5", 5);
    file_write(name, bytes, size);
    free(bytes);
}

static coffer *open_it(const char *name)
{
    coffer *model = NULL;
    coffer_error err;
    if (coffer_open(&model, work_path(name), NULL, &err) != COFFER_OK) {
        fail_msg("%s", err.message);
    }
    return model;
}

typedef struct outcome {
    coffer_status status;
    coffer_error err;
    coffer_rewrite_summary summary;
} outcome;

/* Plans and runs. */
static outcome rewrite_it(const char *name, const coffer_rewrite_options *options)
{
    outcome found;
    coffer_rewrite *rewrite = NULL;
    coffer *model = open_it(name);
    memset(&found, 0, sizeof found);
    found.status = coffer_rewrite_plan(&rewrite, model, options, &found.err);
    if (found.status == COFFER_OK) {
        found.status = coffer_rewrite_run(rewrite, NULL, &found.err);
        memcpy(&found.summary, coffer_rewrite_summarize(rewrite), sizeof found.summary);
    }
    coffer_rewrite_free(rewrite);
    coffer_close(model);
    return found;
}

static coffer_rewrite_options by_rules(const coffer_rewrite_rule *rules, size_t count)
{
    coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
    options.rules = rules;
    options.rule_count = count;
    return options;
}

/* The names in order of the data, with spaces between them. */
static void assert_names(const char *name, const char *expected)
{
    char text[1024];
    size_t used = 0;
    coffer *model = open_it(name);
    for (size_t i = 0; i < coffer_count(model); i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i > 0 ? " " : "", coffer_at(model, i)->name);
    }
    coffer_close(model);
    assert_string_equal(text, expected);
}

static void assert_data(const char *name)
{
    size_t size = 0;
    uint8_t *bytes = file_read(name, &size);
    assert_true(size > 5);
    assert_memory_equal(bytes + size - 5, "\1\2\3\4\5", 5);
    free(bytes);
}

#define RENAME(what, pattern, name)                                                                                    \
    {                                                                                                                  \
        COFFER_REWRITE_##what, COFFER_UNKNOWN_DTYPE, pattern, name                                                     \
    }

static void assert_renamed(const coffer_rewrite_rule *rules, size_t count, const char *expected)
{
    write_odd("model", 64);
    const coffer_rewrite_options options = by_rules(rules, count);
    const outcome found = rewrite_it("model", &options);
    if (found.status != COFFER_OK) {
        fail_msg("%s", found.err.message);
    }
    assert_names("model", expected);
    assert_data("model");
    assert_int_equal(work_dir_count(), 1);
}

static void assert_refused(const coffer_rewrite_rule *rules, size_t count, coffer_status expected, const char *message)
{
    write_odd("model", 0);
    const coffer_rewrite_options options = by_rules(rules, count);
    const outcome found = rewrite_it("model", &options);
    assert_int_equal(found.status, expected);
    if (strstr(found.err.message, message) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", found.err.message, message);
    }
    assert_names("model", "a.0 b.1 c\"\\");
}

/* ---- exact names ------------------------------------------------------------------------------------------------- */

static void test_exact_names(void **state)
{
    const coffer_rewrite_rule turn[] = { RENAME(RENAME_EXACT, "a.0", "b.1"), RENAME(RENAME_EXACT, "b.1", "c\"\\"),
                                         RENAME(RENAME_EXACT, "c\"\\", "a.0") };
    const coffer_rewrite_rule nothing_special[] = { RENAME(RENAME_EXACT, "a.0", "*&\\1") };
    const coffer_rewrite_rule earlier[] = { RENAME(RENAME, "b*", "x"), RENAME(RENAME_EXACT, "b.1", "y"),
                                            RENAME(RENAME_EXACT, "a.0", "z"), RENAME(RENAME, "*", "*.w") };
    const coffer_rewrite_rule none[] = { RENAME(RENAME_EXACT, "a.0", "x"), RENAME(RENAME_EXACT, "a*", "y") };
    (void)state;
    assert_renamed(turn, 3, "b.1 c\"\\ a.0");
    assert_renamed(nothing_special, 1, "*&\\1 b.1 c\"\\");
    assert_renamed(earlier, 4, "z x c\"\\.w");
    assert_refused(none, 2, COFFER_ERR_NO_TENSOR, "no tensor is named \"a*\"");
}

static void test_rules_that_match_nothing_can_be_ignored(void **state)
{
    const coffer_rewrite_rule rules[] = { RENAME(RENAME_EXACT, "gone", "x"), RENAME(RENAME, "gone*", "y"),
                                          RENAME(RENAME_MAP, "gpt2-add", NULL), RENAME(RENAME_EXACT, "a.0", "z") };
    coffer_rewrite_options options = by_rules(rules, 4);
    (void)state;
    options.ignore_unmatched = true;
    write_odd("model", 0);
    assert_int_equal(rewrite_it("model", &options).status, COFFER_OK);
    assert_names("model", "z b.1 c\"\\");
    options.rule_count = 3;
    assert_int_equal(rewrite_it("model", &options).summary.way, COFFER_REWRITE_NOTHING);
}

/* ---- expressions ------------------------------------------------------------------------------------------------- */

#ifdef _WIN32

#define B_TO_Y RENAME(RENAME, "b*", "y*")

static void test_expressions(void **state)
{
    const coffer_rewrite_rule rule = RENAME(RENAME_REGEX, "^a", "x");
    (void)state;
    assert_refused(&rule, 1, COFFER_ERR_UNSUPPORTED, "regular expressions are not available");
}

#else

#define B_TO_Y RENAME(RENAME_REGEX, "^b", "y")

static void test_expressions(void **state)
{
    const coffer_rewrite_rule groups[] = { RENAME(RENAME_REGEX, "^([a-z])\\.([0-9]+)$", "\\2.\\1.&.\\0.\\&\\\\") };
    const coffer_rewrite_rule first[] = { RENAME(RENAME_REGEX, "[a.]", "-") };
    const coffer_rewrite_rule all[] = { RENAME(RENAME_REGEX_ALL, "[a.]", "-") };
    const coffer_rewrite_rule empty[] = { RENAME(RENAME_REGEX_ALL, "[0-9]*", "<&>") };
    const coffer_rewrite_rule two[] = { RENAME(RENAME_REGEX, "^a", "x"), RENAME(RENAME_REGEX, "\\.", "y") };
    (void)state;
    assert_renamed(groups, 1, "0.a.a.0.a.0.&\\ 1.b.b.1.b.1.&\\ c\"\\");
    assert_renamed(first, 1, "-.0 b-1 c\"\\");
    assert_renamed(all, 1, "--0 b-1 c\"\\");
    assert_renamed(empty, 1, "<>a<>.<0> <>b<>.<1> <>c<>\"<>\\<>");
    assert_renamed(two, 2, "x.0 by1 c\"\\");
}

static void test_expressions_that_cannot_be(void **state)
{
    const coffer_rewrite_rule open[] = { RENAME(RENAME_REGEX, "(", "x") };
    const coffer_rewrite_rule group[] = { RENAME(RENAME_REGEX, "(a)", "\\2") };
    const coffer_rewrite_rule none[] = { RENAME(RENAME_REGEX, "^z", "x") };
    const coffer_rewrite_rule unnamed[] = { RENAME(RENAME_REGEX, "a", NULL) };
    const coffer_rewrite_rule nothing[] = { RENAME(RENAME_REGEX_ALL, ".", "") };
    (void)state;
    assert_refused(open, 1, COFFER_ERR_ARGUMENT, "\"(\" is no regular expression: ");
    assert_refused(group, 1, COFFER_ERR_ARGUMENT, "asks for group 2, and \"(a)\" has 1");
    assert_refused(none, 1, COFFER_ERR_NO_TENSOR, "matches \"^z\"");
    assert_refused(unnamed, 1, COFFER_ERR_ARGUMENT, "needs a name");
    assert_refused(nothing, 1, COFFER_ERR_DUPLICATE_NAME, "\"a.0\" and \"b.1\" would both be named \"\"");
}

#endif

/* ---- maps -------------------------------------------------------------------------------------------------------- */

static void assert_mapped(const char *map, const char *from, const char *to)
{
    coffer__writing out = { .allocator = coffer_libc_allocator() };
    const coffer__rewrite_map *found = coffer__rewrite_map_find(map);
    assert_non_null(found);
    const coffer__rewrite_mapped mapped = coffer__rewrite_map_name(found, (coffer__name){ from, strlen(from) }, &out);
    if (to == NULL) {
        assert_int_equal(mapped, COFFER__MAPPED_UNCLEAR);
    } else if (strcmp(from, to) == 0) {
        assert_int_equal(mapped, COFFER__MAPPED_NOT);
    } else {
        assert_int_equal(mapped, COFFER__MAPPED);
        if (out.used != strlen(to) || memcmp(out.text, to, out.used) != 0) {
            fail_msg("%s makes \"%.*s\" of \"%s\"", map, (int)out.used, out.text, from);
        }
    }
    coffer__writing_free(&out);
}

/* There and back. */
static void assert_both(const char *there, const char *back, const char *from, const char *to)
{
    assert_mapped(there, from, to);
    assert_mapped(back, to, from);
}

static void test_maps(void **state)
{
    (void)state;
    assert_mapped("unwrap", "module._orig_mod.layers.0._checkpoint_wrapped_module.w", "layers.0.w");
    assert_mapped("unwrap", "_orig_mod.module.x._orig_mod.module.w", "x.module.w");
    assert_mapped("unwrap", "submodule.w", "submodule.w");
    assert_both("model-strip", "model-add", "model.layers.3.mlp.w", "layers.3.mlp.w");
    assert_mapped("model-add", "lm_head.weight", "lm_head.weight");
    assert_both("gpt2-add", "gpt2-strip", "h.11.attn.c_attn.weight", "transformer.h.11.attn.c_attn.weight");
    assert_both("bert-add", "bert-strip", "pooler.dense.bias", "bert.pooler.dense.bias");
    assert_mapped("layernorm", "bert.embeddings.LayerNorm.gamma", "bert.embeddings.LayerNorm.weight");
    assert_mapped("layernorm", "x.LayerNorm.beta", "x.LayerNorm.bias");
    assert_mapped("layernorm", "x.beta", "x.beta");
    assert_both("vlm-new", "vlm-old", "language_model.model.layers.0.w", "model.language_model.layers.0.w");
    assert_both("vlm-new", "vlm-old", "language_model.lm_head.weight", "lm_head.weight");
    assert_both("vlm-new", "vlm-old", "vision_tower.x", "model.vision_tower.x");
    assert_both("qwen-vl-new", "qwen-vl-old", "model.layers.0.w", "model.language_model.layers.0.w");
    assert_both("qwen-vl-new", "qwen-vl-old", "visual.blocks.0.w", "model.visual.blocks.0.w");
}

static void test_maps_of_whisper(void **state)
{
    static const char *const names[][2] = {
        { "encoder.blocks.3.attn.query.weight", "model.encoder.layers.3.self_attn.q_proj.weight" },
        { "encoder.blocks.3.attn.out.bias", "model.encoder.layers.3.self_attn.out_proj.bias" },
        { "decoder.blocks.0.cross_attn.key.weight", "model.decoder.layers.0.encoder_attn.k_proj.weight" },
        { "decoder.blocks.0.cross_attn_ln.bias", "model.decoder.layers.0.encoder_attn_layer_norm.bias" },
        { "decoder.blocks.0.attn_ln.weight", "model.decoder.layers.0.self_attn_layer_norm.weight" },
        { "decoder.blocks.0.mlp.0.weight", "model.decoder.layers.0.fc1.weight" },
        { "decoder.blocks.0.mlp.2.bias", "model.decoder.layers.0.fc2.bias" },
        { "decoder.blocks.0.mlp_ln.bias", "model.decoder.layers.0.final_layer_norm.bias" },
        { "decoder.ln.weight", "model.decoder.layer_norm.weight" },
        { "encoder.ln_post.weight", "model.encoder.layer_norm.weight" },
        { "decoder.token_embedding.weight", "model.decoder.embed_tokens.weight" },
        { "decoder.positional_embedding", "model.decoder.embed_positions.weight" },
        { "encoder.conv1.weight", "model.encoder.conv1.weight" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_both("whisper-hf", "whisper-openai", names[i][0], names[i][1]);
    }
}

static void test_maps_of_adapters(void **state)
{
    static const char kohya[] =
        "lora_unet_down_blocks_0_attentions_1_transformer_blocks_0_attn1_to_out_0.lora_down.weight";
    static const char diffusers[] = "unet.down_blocks.0.attentions.1.transformer_blocks.0.attn1.to_out.0.lora_A.weight";
    (void)state;
    assert_both("peft-unet", "unet-peft", "base_model.model.mid_block.w.lora_A.weight",
                "unet.mid_block.w.lora_A.weight");
    assert_mapped("diffusers-old", "unet.x.attn1.processor.to_out_lora.up.weight",
                  "unet.x.attn1.to_out.0.lora_B.weight");
    assert_mapped("diffusers-old", "text_encoder.x.q_proj.lora_linear_layer.down.weight",
                  "text_encoder.x.q_proj.lora_A.weight");
    assert_both("kohya-diffusers", "diffusers-kohya", kohya, diffusers);
    assert_both("kohya-diffusers", "diffusers-kohya",
                "lora_te_text_model_encoder_layers_11_self_attn_q_proj.lora_up.weight",
                "text_encoder.text_model.encoder.layers.11.self_attn.q_proj.lora_B.weight");
    assert_both("kohya-diffusers", "diffusers-kohya-xl", "lora_te2_text_model_encoder_layers_0_mlp_fc1.alpha",
                "text_encoder_2.text_model.encoder.layers.0.mlp.fc1.alpha");
    assert_mapped("kohya-diffusers", "lora_unet_input_blocks_4_1_proj_in.lora_up.weight", NULL);
    assert_mapped("kohya-diffusers", "lora_unet_mid_block_.lora_up.weight", NULL);
    assert_mapped("kohya-diffusers", "lora_unet_.lora_up.weight", NULL);
    assert_mapped("kohya-diffusers", "lora_unet_conv_in.hada_w1_a", NULL);
    assert_mapped("kohya-diffusers", "lora_te_.alpha", NULL);
    assert_mapped("kohya-diffusers", "other.weight", "other.weight");
    assert_mapped("diffusers-kohya", "unet.my_own_block.lora_A.weight", NULL);
}

/* A name of which every part grows or goes takes no more time than its length. */
static void test_maps_of_long_names(void **state)
{
    const size_t len = 10 * 200000;
    char *name = malloc(len + 1);
    coffer__writing out = { .allocator = coffer_libc_allocator() };
    (void)state;
    assert_non_null(name);
    for (size_t i = 0; i < len; i += 10) {
        memcpy(name + i, "_orig_mod.", 10);
    }
    name[len] = '\0';
    assert_int_equal(coffer__rewrite_map_name(coffer__rewrite_map_find("unwrap"), (coffer__name){ name, len }, &out),
                     COFFER__MAPPED);
    assert_int_equal(out.used, 0);
    coffer__writing_free(&out);
    free(name);
}

static void test_every_map_is_listed(void **state)
{
    const char *about = NULL;
    const char *name = NULL;
    size_t count = 0;
    (void)state;
    for (; (name = coffer_rewrite_map_at(count, &about)) != NULL; count++) {
        assert_non_null(coffer__rewrite_map_find(name));
        assert_non_null(about);
    }
    assert_true(count > 20);
    assert_null(coffer_rewrite_map_at(count, NULL));
    assert_null(coffer__rewrite_map_find("Unwrap"));
    const coffer_rewrite_rule none[] = { RENAME(RENAME_MAP, "unwrap", NULL) };
    const coffer_rewrite_rule unknown[] = { RENAME(RENAME_MAP, "nosuch", NULL) };
    assert_refused(none, 1, COFFER_ERR_NO_TENSOR, "the map unwrap");
    assert_refused(unknown, 1, COFFER_ERR_ARGUMENT, "no known map \"nosuch\"");
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

static void test_layers_in_names(void **state)
{
    static const struct {
        const char *name;
        size_t stack_len; /* 0: in no layer */
        uint32_t number;
    } cases[] = {
        { "model.layers.3.mlp.w", 12, 3 },
        { "h.0.w", 1, 0 },
        { "encoder.block.7.layer.0.w", 13, 7 },
        { "blk.65535.w", 3, 65535 },
        { "layers.65536.w", 6, COFFER__NO_LAYER },
        { "layers.99999999999999.w", 6, COFFER__NO_LAYER },
        { "layers.07.w", 0, 0 },
        { "layers.3", 0, 0 },
        { "layers..w", 0, 0 },
        { "layers.3x.w", 0, 0 },
        { "mylayers.3.w", 0, 0 },
        { "layers.x.h.2.w", 10, 2 },
        { "", 0, 0 },
        { ".", 0, 0 },
        { "layers.", 0, 0 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        coffer__layer_place place = { 0 };
        const bool found = coffer__layer_find((coffer__name){ cases[i].name, strlen(cases[i].name) }, &place);
        assert_int_equal(found, cases[i].stack_len > 0);
        assert_int_equal(place.stack_len, cases[i].stack_len);
        assert_true(!found || place.number == cases[i].number);
    }
}

static void assert_no_list(const char *text, const char *why)
{
    coffer_error err;
    coffer__layer_list list = { .allocator = coffer_libc_allocator() };
    assert_int_equal(coffer__layer_list_read(&list, text, &err), COFFER_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, why));
    coffer__layer_list_free(&list);
}

static void test_lists_of_layers(void **state)
{
    coffer__layer_list list = { .allocator = coffer_libc_allocator() };
    (void)state;
    assert_int_equal(coffer__layer_list_read(&list, "7,0-2,65535", NULL), COFFER_OK);
    assert_int_equal(list.count, 5);
    assert_int_equal(coffer__layer_new_number(&list, 7), 0);
    assert_int_equal(coffer__layer_new_number(&list, 0), 1);
    assert_int_equal(coffer__layer_new_number(&list, 65535), 4);
    assert_int_equal(coffer__layer_new_number(&list, 3), COFFER__NO_LAYER);
    assert_int_equal(coffer__layer_new_number(&list, COFFER__NO_LAYER), COFFER__NO_LAYER);
    coffer__layer_list_free(&list);
    assert_no_list("", "a number from 0 to 65535 is missing");
    assert_no_list("1,", "a number from 0 to 65535 is missing");
    assert_no_list("65536", "a number from 0 to 65535 is missing");
    assert_no_list("99999999999999999999", "a number from 0 to 65535 is missing");
    assert_no_list("3-1", "not below the first");
    assert_no_list("3-", "not below the first");
    assert_no_list("1 2", "commas");
    assert_no_list("0-3,2", "a layer is in it twice");
}

static coffer_status save_layers(const char *name, bool second)
{
    coffer_header *header = new_header();
    add_tensor(header, "m.layers.0.w", COFFER_U8, 1, 1, 0);
    add_tensor(header, "m.layers.1.w", COFFER_U8, 1, 2, 0);
    add_tensor(header, "m.layers.2.w", COFFER_U8, 1, 3, 0);
    add_tensor(header, second ? "v.layers.0.w" : "norm", COFFER_U8, 1, 4, 0);
    coffer_writer *writer = NULL;
    assert_int_equal(coffer_writer_open(&writer, header, work_path(name), NULL, NULL), COFFER_OK);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(coffer_writer_write(writer, i, 0, "abcd", i + 1, NULL), COFFER_OK);
    }
    const coffer_status status = coffer_writer_finish(writer, NULL);
    coffer_writer_free(writer);
    coffer_header_free(header);
    return status;
}

static void assert_elements(const char *file, const char *name, uint64_t elements)
{
    coffer *model = open_it(file);
    const coffer_tensor *tensor = coffer_find(model, name, strlen(name));
    assert_non_null(tensor);
    assert_int_equal(coffer_tensor_elements(tensor), elements);
    coffer_close(model);
}

static void test_layers_are_chosen(void **state)
{
    const coffer_rewrite_rule chosen = RENAME(LAYERS, "2,0", NULL);
    const coffer_rewrite_rule order = RENAME(LAYERS, "2,1,0", NULL);
    coffer_rewrite_options options = by_rules(&chosen, 1);
    (void)state;
    assert_int_equal(save_layers("model", false), COFFER_OK);
    outcome found = rewrite_it("model", &options);
    assert_int_equal(found.status, COFFER_OK);
    assert_int_equal(found.summary.way, COFFER_REWRITE_FILES);
    assert_int_equal(found.summary.reason, COFFER_REWRITE_FOR_DATA);
    assert_int_equal(found.summary.tensor_count, 3);
    assert_elements("model", "m.layers.0.w", 3);
    assert_elements("model", "m.layers.1.w", 1);
    assert_elements("model", "norm", 4);
    assert_int_equal(save_layers("model", false), COFFER_OK);
    options.rules = &order;
    assert_int_equal(rewrite_it("model", &options).summary.way, COFFER_REWRITE_HEADERS); /* none is left out */
    assert_elements("model", "m.layers.0.w", 3);
    assert_elements("model", "m.layers.1.w", 2);
}

static void test_layers_that_cannot_be(void **state)
{
    const coffer_rewrite_rule any = RENAME(LAYERS, "0", NULL);
    const coffer_rewrite_rule absent = RENAME(LAYERS, "0-3", NULL);
    const coffer_rewrite_rule stack = RENAME(LAYERS, "0", "v.layers");
    const coffer_rewrite_rule other = RENAME(LAYERS, "0", "v");
    const coffer_rewrite_rule both[] = { RENAME(LAYERS, "0", NULL), RENAME(RENAME, "m.*", "*") };
    coffer_rewrite_options options = by_rules(&any, 1);
    (void)state;
    assert_int_equal(save_layers("model", true), COFFER_OK);
    outcome found = rewrite_it("model", &options);
    assert_int_equal(found.status, COFFER_ERR_ARGUMENT);
    assert_non_null(strstr(found.err.message, "\"m.layers\" and \"v.layers\""));
    options.rules = &stack;
    found = rewrite_it("model", &options);
    assert_int_equal(found.summary.way, COFFER_REWRITE_NOTHING);
    options.rules = &other;
    assert_int_equal(rewrite_it("model", &options).status, COFFER_ERR_NO_TENSOR);
    assert_int_equal(save_layers("model", false), COFFER_OK);
    options.rules = &absent;
    found = rewrite_it("model", &options);
    assert_int_equal(found.status, COFFER_ERR_NO_TENSOR);
    assert_non_null(strstr(found.err.message, "there is no layer 3"));
    options = by_rules(both, 2);
    assert_int_equal(rewrite_it("model", &options).status, COFFER_ERR_ARGUMENT);
    assert_refused(&any, 1, COFFER_ERR_NO_TENSOR, "no tensor has a layer in its name");
}

/* ---- in the header ----------------------------------------------------------------------------------------------- */

/* Names and metadata together; every other byte of the header keeps its spelling. */
static void test_only_names_change(void **state)
{
    static const char expected[] =
        "{ \"x\" : {\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[2,5]} ,\n"
        "\"__metadata__\":{\"k\":\"v\",\"l\":\"w\"},  \"a.0\":{\"data_offsets\":[0,2], \"shape\":[2],\"dtype\":\"U8\"},"
        "\"\\\"\\u0007\": {\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[5,5]}}";
    const coffer_rewrite_rule rules[] = { RENAME(RENAME_EXACT, "b.1", "x"), RENAME(RENAME_EXACT, "c\"\\", "\"\a") };
    const coffer_edit edit = { "l", 1, "w", 1 };
    coffer_rewrite_options options = by_rules(rules, 2);
    size_t sizes[2];
    (void)state;
    options.edits = &edit;
    options.edit_count = 1;
    write_odd("model", 40);
    uint8_t *before = file_read("model", &sizes[0]);
    const outcome found = rewrite_it("model", &options);
    assert_int_equal(found.status, COFFER_OK);
    assert_int_equal(found.summary.way, COFFER_REWRITE_HEADERS);
    assert_true(found.summary.edited == COFFER_EDITED_IN_PLACE || found.summary.edited == COFFER_EDITED_CLONE);
    assert_int_equal(found.summary.copied, 0);
    assert_int_equal(found.summary.lacking, 0);
    uint8_t *after = file_read("model", &sizes[1]);
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(before, after, 8);
    assert_memory_equal(after + 8, expected, sizeof expected - 1);
    for (size_t i = 8 + sizeof expected - 1; i < sizes[1] - 5; i++) {
        assert_int_equal(after[i], ' ');
    }
    assert_data("model");
    free(before);
    free(after);
}

/* Without space the file is copied, and says how much there was too little; then there is space. */
static void test_names_that_are_too_long(void **state)
{
    const coffer_rewrite_rule longer = RENAME(RENAME_EXACT, "a.0", "a much longer name");
    const coffer_rewrite_rule longest = RENAME(RENAME, "*", "and another beginning.*");
    coffer_rewrite_options options = by_rules(&longer, 1);
    (void)state;
    write_odd("model", 0);
    outcome found = rewrite_it("model", &options);
    assert_int_equal(found.status, COFFER_OK);
    assert_true(found.summary.edited == COFFER_EDITED_REWRITE || found.summary.edited == COFFER_EDITED_CLONE);
    assert_int_equal(found.summary.lacking, 18 - 3 - 3 - 2); /* three spaces at the end, and two in the metadata */
    assert_data("model");
    options.rules = &longest;
    found = rewrite_it("model", &options);
    assert_true(found.summary.edited == COFFER_EDITED_IN_PLACE || found.summary.edited == COFFER_EDITED_CLONE);
    assert_names("model", "and another beginning.a much longer name and another beginning.b.1 and another "
                          "beginning.c\"\\");
    assert_data("model");
}

#define INDEX "model.safetensors.index.json"

static size_t size_of(const char *name)
{
    size_t size = 0;
    free(file_read(name, &size));
    return size;
}

static void save_sharded(void)
{
    coffer_model_writer_options sharded = COFFER_MODEL_WRITER_OPTIONS_INIT;
    assert_int_equal(model_save(6, 1, 90, &sharded, coffer_libc_allocator(), NULL), COFFER_OK);
}

/* The headers have space for names of the same length: no file becomes larger, and no other file stays. */
static void test_only_names_change_in_several_files(void **state)
{
    const coffer_rewrite_rule rule = RENAME(RENAME, "t*", "u*");
    const coffer_rewrite_rule back = RENAME(RENAME, "u*", "t*");
    const coffer_edit edit = { "made by", 7, "a test", 6 };
    coffer_rewrite_options options = by_rules(&rule, 1);
    (void)state;
    save_sharded();
    snapshot before = snapshot_take();
    const outcome found = rewrite_it(INDEX, &options);
    assert_int_equal(found.status, COFFER_OK);
    assert_int_equal(found.summary.way, COFFER_REWRITE_HEADERS);
    assert_true(found.summary.edited == COFFER_EDITED_IN_PLACE || found.summary.edited == COFFER_EDITED_CLONE);
    assert_int_equal(found.summary.lacking_count, 0);
    assert_int_equal(found.summary.copied, 0);
    assert_names(INDEX, "u0 u1 u2 u3 u4 u5");
    model_assert_whole(INDEX, 6, 3, 1);
    snapshot after = snapshot_take();
    assert_int_equal(after.count, before.count);
    for (size_t i = 0; i < before.count; i++) {
        assert_int_equal(size_of(before.files[i].name), before.files[i].size);
    }
    snapshot_free(&before);
    snapshot_free(&after);
    /* Metadata change with the names, in the index, too. */
    options.rules = &back;
    options.edits = &edit;
    options.edit_count = 1;
    assert_int_equal(rewrite_it(INDEX, &options).status, COFFER_OK);
    assert_names(INDEX, "t0 t1 t2 t3 t4 t5");
    model_assert_whole(INDEX, 6, 3, 1);
    char index[1024];
    size_t size = 0;
    uint8_t *bytes = file_read(INDEX, &size);
    snprintf(index, sizeof index, "%.*s", (int)size, (const char *)bytes);
    assert_non_null(strstr(index, "\"made by\": \"a test\""));
    free(bytes);
}

/* Each file goes its own way, and one whose names stay is not touched. */
static void test_one_of_several_files_lacks_capacity(void **state)
{
    const coffer_rewrite_rule rule = RENAME(RENAME_EXACT, "t0", "a name that the header of its file has no room for");
    coffer_rewrite_options options = by_rules(&rule, 1);
    (void)state;
    save_sharded();
    snapshot before = snapshot_take();
    const outcome found = rewrite_it(INDEX, &options);
    assert_int_equal(found.status, COFFER_OK);
    assert_int_equal(found.summary.way, COFFER_REWRITE_HEADERS);
    assert_true(found.summary.edited == COFFER_EDITED_REWRITE || found.summary.edited == COFFER_EDITED_CLONE);
    assert_true(found.summary.lacking > 0);
    assert_int_equal(found.summary.lacking_count, 1);
    model_assert_whole(INDEX, 6, 3, 1);
    for (size_t i = 0; i < before.count; i++) {
        size_t size = 0;
        const char *name = before.files[i].name;
        uint8_t *bytes = file_read(name, &size);
        const bool lacked = strstr(name, "00001") != NULL;
        const bool same = size == before.files[i].size && memcmp(bytes, before.files[i].bytes, size) == 0;
        assert_true(same != (lacked || strcmp(name, INDEX) == 0));
        assert_true(!lacked || found.summary.lacking_size == before.files[i].size);
        free(bytes);
    }
    snapshot_free(&before);
}

/* A file that is renamed in its place would be renamed under its other name as well, which is not of the model. */
static void test_other_names_of_files_keep_the_old_state(void **state)
{
    const coffer_rewrite_rule rule = RENAME(RENAME, "t*", "u*");
    coffer_rewrite_options options = by_rules(&rule, 1);
    (void)state;
    save_sharded();
    assert_int_equal(link(work_path("model-00001-of-00003.safetensors"), work_path("other")), 0);
    assert_int_equal(rewrite_it(INDEX, &options).status, COFFER_ERR_LINKED);
    options.follow_links = true;
    assert_int_equal(rewrite_it(INDEX, &options).status, COFFER_OK);
    assert_names(INDEX, "u0 u1 u2 u3 u4 u5");
    assert_names("other", "t0 t1");
    model_assert_whole(INDEX, 6, 3, 1);
}

/* A single-file model beside the index, which loaders would take. */
static void test_a_stranger_beside_the_index(void **state)
{
    const coffer_rewrite_rule rule = RENAME(RENAME, "t*", "u*");
    coffer_rewrite_options options = by_rules(&rule, 1);
    (void)state;
    save_sharded();
    write_odd("model.safetensors", 64);
    snapshot before = snapshot_take();
    assert_int_equal(rewrite_it(INDEX, &options).status, COFFER_ERR_SHADOWED);
    assert_true(snapshot_is_there(&before));
    snapshot_free(&before);
}

static void test_where_names_alone_need_new_files(void **state)
{
    const coffer_rewrite_rule rule = RENAME(RENAME, "*", "x.*");
    coffer_rewrite_options options = by_rules(&rule, 1);
    static const char index[] = "{\"weight_map\": {\"a.0\": \"some.coffer-st\", \"b.1\": \"some.coffer-st\", "
                                "\"c\\\"\\\\\": \"some.coffer-st\"}}";
    (void)state;
    options.output = work_path("new");
    write_odd("model", 64);
    assert_int_equal(rewrite_it("model", &options).summary.reason, COFFER_REWRITE_FOR_OUTPUT);
    options.output = NULL;
    options.format = COFFER_FORMAT_BINTENSORS;
    assert_int_equal(rewrite_it("model", &options).summary.reason, COFFER_REWRITE_FOR_FORMAT);
    options.format = COFFER_FORMAT_ANY;
    assert_int_equal(rewrite_it("model", &options).summary.reason, COFFER_REWRITE_FOR_FORMAT);
    write_odd("model", 64);
    options.digests = COFFER_SHA256;
    assert_int_equal(rewrite_it("model", &options).summary.reason, COFFER_REWRITE_FOR_DIGESTS);
    options.digests = COFFER_NO_ALGORITHM;
    assert_int_equal(rewrite_it("model", &options).summary.reason, COFFER_REWRITE_FOR_DIGESTS);
    /* Its file has no name that a commit accepts. */
    write_odd("some.coffer-st", 64);
    file_write(INDEX, index, sizeof index - 1);
    assert_int_equal(rewrite_it(INDEX, &options).summary.reason, COFFER_REWRITE_FOR_SHARDED);
    /* Neither has it for metadata. */
    const coffer_edit edit = { "made by", 7, "a test", 6 };
    assert_int_equal(unlink(work_path("model.safetensors")), 0);
    write_odd("some.coffer-st", 64);
    file_write(INDEX, index, sizeof index - 1);
    options.rule_count = 0;
    options.edits = &edit;
    options.edit_count = 1;
    assert_int_equal(rewrite_it(INDEX, &options).summary.reason, COFFER_REWRITE_FOR_SHARDED);
}

/* ---- collisions, and memory -------------------------------------------------------------------------------------- */

static void note_collision(void *ctx, const coffer_tensor *first, const coffer_tensor *second, const char *name,
                           size_t name_len)
{
    char *text = ctx;
    const size_t used = strlen(text);
    snprintf(text + used, 256 - used, "%s+%s=%.*s ", first->name, second->name, (int)name_len, name);
}

static void test_collisions_are_told(void **state)
{
    const coffer_rewrite_rule rule = RENAME(RENAME, "*", "one");
    coffer_rewrite_options options = by_rules(&rule, 1);
    char reported[256] = "";
    (void)state;
    options.collision = note_collision;
    options.collision_ctx = reported;
    write_odd("model", 0);
    assert_int_equal(rewrite_it("model", &options).status, COFFER_ERR_DUPLICATE_NAME);
    assert_string_equal(reported, "a.0+b.1=one a.0+c\"\\=one ");
}

static void test_without_memory(void **state)
{
    const coffer_rewrite_rule rules[] = { RENAME(RENAME_EXACT, "a.0", "x"), B_TO_Y, RENAME(RENAME, "c*", "z") };
    coffer_status status = COFFER_ERR_MEMORY;
    (void)state;
    for (size_t k = 1; status != COFFER_OK; k++) {
        memory_meter meter = { .fail_at = k };
        const coffer_allocator allocator = metered_allocator(&meter);
        coffer_rewrite_options options = by_rules(rules, 3);
        options.allocator = &allocator;
        write_odd("model", 64);
        status = rewrite_it("model", &options).status;
        assert_int_equal(meter.blocks, 0);
        assert_true(status == COFFER_OK || status == COFFER_ERR_MEMORY);
        assert_names("model", status == COFFER_OK ? "x y.1 z" : "a.0 b.1 c\"\\");
        assert_true(k < 1000);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, work_dir_set_up, work_dir_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_exact_names),
        TEST(test_rules_that_match_nothing_can_be_ignored),
        TEST(test_expressions),
#ifndef _WIN32
        TEST(test_expressions_that_cannot_be),
#endif
        TEST(test_maps),
        TEST(test_maps_of_whisper),
        TEST(test_maps_of_adapters),
        TEST(test_maps_of_long_names),
        TEST(test_every_map_is_listed),
        TEST(test_layers_in_names),
        TEST(test_lists_of_layers),
        TEST(test_layers_are_chosen),
        TEST(test_layers_that_cannot_be),
        TEST(test_only_names_change),
        TEST(test_names_that_are_too_long),
        TEST(test_only_names_change_in_several_files),
        TEST(test_one_of_several_files_lacks_capacity),
        TEST(test_other_names_of_files_keep_the_old_state),
        TEST(test_a_stranger_beside_the_index),
        TEST(test_where_names_alone_need_new_files),
        TEST(test_collisions_are_told),
        TEST(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
