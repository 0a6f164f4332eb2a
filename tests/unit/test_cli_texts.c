/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts of the command that other programs read or have written: words that are pasted into a shell, which has to read
 * exactly the name, and config.json, of which every byte may be hostile.
 */
#include "cli_config.h"
#include "cli_memory.h"
#include "cli_quote.h"
#include "support_cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Words ---- */

static void assert_word(const char *text, const char *expected)
{
    char word[128];
    assert_int_equal(cli_quote(text, strlen(text), word, sizeof word), strlen(expected));
    assert_string_equal(word, expected);
    assert_int_equal(cli_quote(text, strlen(text), NULL, 0), strlen(expected));
}

static void test_words(void **state)
{
    (void)state;
    assert_word("model.layers.0.weight", "model.layers.0.weight");
    assert_word("hf://owner/name@main:5", "hf://owner/name@main:5");
    assert_word("", "''");
    assert_word("two words", "'two words'");
    assert_word("it's", "'it'\\''s'");
    assert_word("~", "'~'");
    assert_word("*[a]?{b,c}$x`y`!#%&;|<>()=^\"\\", "'*[a]?{b,c}$x`y`!#%&;|<>()=^\"\\'");
    assert_word("h\xC3\xA9", "'h\xC3\xA9'");
    assert_word("\x1B[1m", "$'\\033[1m'");
    assert_word("a\nb'\\", "$'a\\012b\\'\\\\'");
    assert_word("\xFF"
                "7",
                "$'\\3777'");
    assert_word("\xE2\x80\xAE"
                "x",
                "$'\\342\\200\\256x'"); /* turns the direction of writing */
}

static void test_words_without_room(void **state)
{
    char word[8] = "xxxxxxx";
    (void)state;
    assert_int_equal(cli_quote("a b c d", 7, word, sizeof word), 9);
    assert_string_equal(word, "");
    assert_int_equal(cli_quote("a b c", 5, word, sizeof word), 7);
    assert_string_equal(word, "'a b c'");
    assert_int_equal(cli_quote("abcd", 4, word, 4), 4);
    assert_string_equal(word, "");
}

static void test_paths(void **state)
{
    char word[64];
    (void)state;
    assert_int_equal(cli_quote_path("-o x", word, sizeof word), 8);
    assert_string_equal(word, "./'-o x'");
    assert_int_equal(cli_quote_path("-", word, sizeof word), 1);
    assert_string_equal(word, "-");
    assert_int_equal(cli_quote_path("a/b", word, sizeof word), 3);
}

/* ---- config.json ---- */

static void assert_refused(const char *text, size_t text_len, const char *expected)
{
    cli_config config;
    char why[CLI_CONFIG_WHY_SIZE];
    assert_false(cli_config_read(&config, text, text_len, why));
    assert_string_equal(why, expected);
    assert_null(config.members);
    assert_null(cli_config_find(&config, "a"));
}

static void test_members(void **state)
{
    static const char text[] = "{\"a\": {\"b\": [1, {\"c\": \"x\\u0041\\ud83d\\ude00\\n\"}, []], \"d.e\": null}, "
                               "\"n\": 4096, \"t\": true, \"f\": false, \"r\": 1e3, \"m\": -1, \"\": {\"n\": 7}}";
    cli_config config;
    char why[CLI_CONFIG_WHY_SIZE];
    uint64_t count = 0;
    (void)state;
    assert_true(cli_config_read(&config, text, sizeof text - 1, why));
    assert_int_equal(config.count, 14);
    assert_string_equal(cli_config_text(&config, "a.b.1.c"), "xA\xF0\x9F\x98\x80\n");
    assert_int_equal(cli_config_find(&config, "a")->kind, CLI_CONFIG_OBJECT);
    assert_int_equal(cli_config_find(&config, "a.b.2")->kind, CLI_CONFIG_ARRAY);
    assert_int_equal(cli_config_find(&config, "a.d\\.e")->kind, CLI_CONFIG_NULL);
    assert_true(cli_config_count(&config, "a.b.0", &count) && count == 1);
    assert_true(cli_config_count(&config, "n", &count) && count == 4096);
    assert_true(cli_config_count(&config, ".n", &count) && count == 7);
    assert_false(cli_config_count(&config, "r", &count) || cli_config_count(&config, "m", &count));
    assert_false(cli_config_count(&config, "t", &count) || cli_config_count(&config, "absent", &count));
    assert_true(cli_config_is_true(&config, "t"));
    assert_false(cli_config_is_true(&config, "f") || cli_config_is_true(&config, "n"));
    assert_null(cli_config_text(&config, "n"));
    cli_config_free(&config);
    cli_config_free(&config);
}

static void test_numbers_have_a_limit(void **state)
{
    static const char text[] = "{\"a\":9007199254740992,\"b\":9007199254740993,\"c\":99999999999999999999}";
    cli_config config;
    char why[CLI_CONFIG_WHY_SIZE];
    uint64_t count = 0;
    (void)state;
    assert_true(cli_config_read(&config, text, sizeof text - 1, why));
    assert_true(cli_config_count(&config, "a", &count));
    assert_false(cli_config_count(&config, "b", &count) || cli_config_count(&config, "c", &count));
    cli_config_free(&config);
}

#define REFUSE(text, why) assert_refused(text, sizeof(text) - 1, why)

static void test_what_is_no_configuration(void **state)
{
    (void)state;
    REFUSE("", "is not a JSON object, at byte 0");
    REFUSE("[1]", "is not a JSON object, at byte 1");
    REFUSE("{\"a\":1", "is not JSON, at byte 6");
    REFUSE("{\"a\":1}}", "is not JSON, at byte 7");
    REFUSE("{\"a\":NaN}", "is not JSON, at byte 5");
    REFUSE("{\"a\":\"\\ud800\"}", "is not JSON, at byte 13");
    REFUSE("{\"a\":\"\\ud800\\u0041\"}", "is not JSON, at byte 19");
    REFUSE("{\"a\":1,\"a\":2}", "has the key \"a\" twice");
    REFUSE("{\"a\":{},\"a\":{\"b\":1}}", "has the key \"a\" twice");
    REFUSE("{\"a\\u001b\":1,\"a\\u001b\":2}", "has the key \"a\\x1b\" twice");
    REFUSE("{\"\xFF\":1}", "is not UTF-8");
}

static void test_limits(void **state)
{
    char *text = malloc(CLI_CONFIG_MOST_BYTES + 2);
    cli_config config;
    char why[CLI_CONFIG_WHY_SIZE];
    (void)state;
    assert_non_null(text);
    memset(text, ' ', CLI_CONFIG_MOST_BYTES + 1);
    assert_refused(text, CLI_CONFIG_MOST_BYTES + 1, "has more than 4 MiB");
    /* Containers in containers. */
    memset(text, '[', 100);
    memcpy(text, "{\"a\":", 5);
    assert_refused(text, 100, "is not JSON, at byte 68");
    /* Values. */
    size_t used = 5;
    text[used++] = '[';
    for (size_t i = 0; i <= CLI_CONFIG_MOST_MEMBERS; i++) {
        used += (size_t)snprintf(text + used, 4, "0,");
    }
    memcpy(text + used - 1, "]}", 3);
    assert_false(cli_config_read(&config, text, used + 1, why));
    assert_memory_equal(why, "has more values than", 20);
    /* A key that is too long is left out, with all below it. */
    used = (size_t)snprintf(text, 8, "{\"");
    memset(text + used, 'k', CLI_CONFIG_MOST_PATH + 1);
    used += CLI_CONFIG_MOST_PATH + 1;
    used += (size_t)snprintf(text + used, 64, "\":{\"x\":[1,2]},\"b\":5}");
    assert_true(cli_config_read(&config, text, used, why));
    assert_int_equal(config.count, 1);
    assert_string_equal(config.members[0].path, "b");
    cli_config_free(&config);
    free(text);
}

/* ---- The memory that a model takes ---- */

static bool estimate_of(cli_memory *memory, const char *text, uint64_t context, char why[CLI_CONFIG_WHY_SIZE])
{
    cli_config config;
    assert_true(cli_config_read(&config, text, strlen(text), why));
    const bool known = cli_memory_estimate(memory, &config, context, why);
    cli_config_free(&config);
    assert_int_equal(known, why[0] == '\0');
    return known;
}

static void assert_cache(const char *text, uint64_t context, uint64_t expected)
{
    cli_memory memory;
    char why[CLI_CONFIG_WHY_SIZE];
    if (!estimate_of(&memory, text, context, why)) {
        fail_msg("%s", why);
    }
    assert_int_equal(memory.cache, expected);
}

static void assert_no_estimate(const char *text, const char *expected)
{
    cli_memory memory;
    char why[CLI_CONFIG_WHY_SIZE];
    assert_false(estimate_of(&memory, text, 0, why));
    assert_non_null(strstr(why, expected));
}

static void test_estimates(void **state)
{
    (void)state;
    /* Llama, GPT-2, Falcon with one head of keys, DeepSeek, a window in every second layer, parts of a larger model. */
    assert_cache("{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":2048,\"num_hidden_layers\":22,"
                 "\"num_attention_heads\":32,\"num_key_value_heads\":4,\"max_position_embeddings\":2048,"
                 "\"torch_dtype\":\"float32\"}",
                 0, UINT64_C(22) * 2 * 4 * 64 * 2048 * 4);
    assert_cache(
        "{\"architectures\":[\"GPT2LMHeadModel\"],\"n_embd\":768,\"n_layer\":12,\"n_head\":12,\"n_positions\":1024}",
        10, UINT64_C(12) * 2 * 768 * 10 * 2);
    assert_cache("{\"architectures\":[\"FalconForCausalLM\"],\"hidden_size\":64,\"num_hidden_layers\":2,"
                 "\"num_attention_heads\":8,\"multi_query\":true}",
                 3, UINT64_C(2) * 2 * 8 * 3 * 2);
    assert_cache("{\"architectures\":[\"DeepseekV3ForCausalLM\"],\"num_hidden_layers\":61,\"kv_lora_rank\":512,"
                 "\"qk_rope_head_dim\":64}",
                 100, UINT64_C(61) * 576 * 100 * 2);
    assert_cache(
        "{\"architectures\":[\"Gemma3ForConditionalGeneration\"],\"text_config\":{\"num_hidden_layers\":4,"
        "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"head_dim\":8,\"sliding_window\":10,\"layer_types\":["
        "\"sliding_attention\",\"full_attention\",\"sliding_attention\",\"linear_attention\"]}}",
        1000, (UINT64_C(1000) + 2 * 10) * 2 * 8 * 2);
}

static void test_configurations_without_an_estimate(void **state)
{
    (void)state;
    assert_no_estimate("{}", "generates text");
    assert_no_estimate("{\"architectures\":[\"BertModel\"],\"num_hidden_layers\":2}", "generates text");
    assert_no_estimate("{\"architectures\":[\"TForConditionalGeneration\"],\"is_encoder_decoder\":true}",
                       "generates text");
    assert_no_estimate("{\"architectures\":[\"TForCausalLM\"]}", "layers and heads");
    assert_no_estimate("{\"architectures\":[\"TForCausalLM\"],\"n_layer\":2,\"n_head\":3,\"n_embd\":64}",
                       "layers and heads");
    assert_no_estimate("{\"architectures\":[\"TForCausalLM\"],\"n_layer\":2,\"n_head\":0,\"n_embd\":64}",
                       "layers and heads");
    assert_no_estimate("{\"architectures\":[\"TForCausalLM\"],\"n_layer\":2,\"n_head\":4,\"n_embd\":64}", "--context");
    assert_no_estimate("{\"architectures\":[\"TForCausalLM\"],\"n_layer\":9007199254740992,\"n_head\":1,"
                       "\"n_embd\":9007199254740992,\"n_ctx\":9007199254740992}",
                       "no model has");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_words_without_room),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_numbers_have_a_limit),
        cmocka_unit_test(test_what_is_no_configuration),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_estimates),
        cmocka_unit_test(test_configurations_without_an_estimate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
