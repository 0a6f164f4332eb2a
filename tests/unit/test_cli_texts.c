/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts of the command that other programs read or have written: words that are pasted into a shell, which has to read
 * exactly the name, and JSON, of which every byte may be hostile.
 */
#include "block.h"
#include "cli_memory.h"
#include "cli_quote.h"
#include "json_document.h"
#include "json_tokens.h"
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
    assert_word("--include=a.b", "--include=a.b");
    assert_word("=a", "'=a'");
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

static void test_words_without_capacity(void **state)
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

/* ---- JSON ---- */

static void assert_string(const coffer__document *document, const coffer__json_node *node, const char *expected)
{
    size_t len = 0;
    char *string = coffer__document_string(document, node, &len);
    assert_non_null(string);
    assert_string_equal(string, expected);
    assert_int_equal(len, strlen(expected));
    assert_true(coffer__document_is(document, node, expected));
    coffer__block_free(string);
}

static const coffer__json_node *root_member(const coffer__document *document, const char *key)
{
    return coffer__document_member(document, coffer__document_root(document), key);
}

static void test_values(void **state)
{
    static const char text[] = "{\"a\": {\"b\": [1, {\"c\": \"x\\u0041\\ud83d\\ude00\\n\\/\"}, []], \"d.e\": null}, "
                               "\"n\": 4096, \"t\": true, \"r\": 1e3, \"m\": -1, \"\": {\"n\": 7}}";
    coffer__document document;
    uint64_t number = 0;
    (void)state;
    assert_true(coffer__document_read(&document, coffer_libc_allocator(), text, sizeof text - 1));
    assert_int_equal(document.count, 14);
    assert_false(document.loose);
    const coffer__json_node *items = coffer__document_member(&document, root_member(&document, "a"), "b");
    const coffer__json_node *item = coffer__document_first(&document, items);
    assert_true(coffer__document_u64(&document, item, &number) && number == 1);
    item = coffer__document_after(&document, items, item);
    assert_string(&document, coffer__document_member(&document, item, "c"), "xA\xF0\x9F\x98\x80\n/");
    item = coffer__document_after(&document, items, item);
    assert_int_equal(item->kind, '[');
    assert_null(coffer__document_first(&document, item));
    assert_null(coffer__document_after(&document, items, item));
    assert_int_equal(coffer__document_member(&document, root_member(&document, "a"), "d.e")->kind, 'n');
    assert_true(coffer__document_u64(&document, root_member(&document, "n"), &number) && number == 4096);
    assert_true(
        coffer__document_u64(&document, coffer__document_member(&document, root_member(&document, ""), "n"), &number));
    assert_int_equal(number, 7);
    assert_false(coffer__document_u64(&document, root_member(&document, "r"), &number));
    assert_false(coffer__document_u64(&document, root_member(&document, "m"), &number));
    assert_false(coffer__document_u64(&document, root_member(&document, "t"), &number));
    assert_null(root_member(&document, "absent"));
    assert_null(coffer__document_member(&document, root_member(&document, "n"), "n"));
    assert_false(coffer__document_is(&document, NULL, ""));
    coffer__document_free(&document);
    coffer__document_free(&document);
}

/* What loaders, which are written in Python, make of it. */
static void test_values_as_in_python(void **state)
{
    static const char text[] = "{\"a\":1,\"b\":\"\\ud800\\u0041\\udc00\",\"\\u0061\":2,\"c\":NaN,\"d\":-Infinity}";
    coffer__document document;
    uint64_t number = 0;
    (void)state;
    assert_true(coffer__document_read(&document, coffer_libc_allocator(), text, sizeof text - 1));
    assert_true(document.loose);
    assert_true(coffer__document_u64(&document, root_member(&document, "a"), &number) && number == 2);
    assert_string(&document, root_member(&document, "b"),
                  "\xEF\xBF\xBD"
                  "A\xEF\xBF\xBD");
    assert_false(coffer__document_u64(&document, root_member(&document, "c"), &number));
    assert_int_equal(root_member(&document, "d")->kind, '\0');
    coffer__document_free(&document);
}

static void test_numbers_have_a_limit(void **state)
{
    static const char text[] = "[18446744073709551615,18446744073709551616,99999999999999999999,0]";
    coffer__document document;
    uint64_t number = 0;
    (void)state;
    assert_true(coffer__document_read(&document, coffer_libc_allocator(), text, sizeof text - 1));
    assert_true(coffer__document_u64(&document, &document.nodes[1], &number) && number == UINT64_MAX);
    assert_false(coffer__document_u64(&document, &document.nodes[2], &number));
    assert_false(coffer__document_u64(&document, &document.nodes[3], &number));
    assert_true(coffer__document_u64(&document, &document.nodes[4], &number) && number == 0);
    coffer__document_free(&document);
}

static void assert_refused(const char *text, const char *what, size_t at)
{
    coffer__document document;
    assert_false(coffer__document_read(&document, coffer_libc_allocator(), text, strlen(text)));
    assert_string_equal(document.what, what);
    assert_int_equal(document.at, at);
    assert_null(coffer__document_root(&document));
    coffer__document_free(&document);
}

static void test_what_is_no_json(void **state)
{
    char deep[COFFER__TOKENS_DEPTH + 2];
    (void)state;
    assert_refused("", "it stops early", 0);
    assert_refused("{\"a\":1", "it stops early", 6);
    assert_refused("{\"a\":1}}", "something follows its end", 7);
    assert_refused("{\"a\":nan}", "a value is expected", 5);
    assert_refused("{\"\xFF\":1}", "it is not UTF-8", 2);
    memset(deep, '[', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    assert_refused(deep, "it nests too deep", COFFER__TOKENS_DEPTH);
}

/* ---- The memory that a model takes ---- */

static bool estimate_of(cli_memory *memory, const char *text, uint64_t context, char why[CLI_MEMORY_WHY_SIZE])
{
    coffer__document config;
    assert_true(coffer__document_read(&config, coffer_libc_allocator(), text, strlen(text)));
    const bool known = cli_memory_estimate(memory, &config, context, why);
    coffer__document_free(&config);
    assert_int_equal(known, why[0] == '\0');
    return known;
}

static void assert_cache(const char *text, uint64_t context, uint64_t expected)
{
    cli_memory memory;
    char why[CLI_MEMORY_WHY_SIZE];
    if (!estimate_of(&memory, text, context, why)) {
        fail_msg("%s", why);
    }
    assert_int_equal(memory.cache, expected);
}

static void assert_no_estimate(const char *text, const char *expected)
{
    cli_memory memory;
    char why[CLI_MEMORY_WHY_SIZE];
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
    /* The last of two members counts. */
    assert_cache("{\"architectures\":[\"QForConditionalGeneration\"],\"thinker_config\":{\"text_config\":{"
                 "\"num_hidden_layers\":9,\"num_hidden_layers\":3,\"num_attention_heads\":2,\"head_dim\":8,"
                 "\"dtype\":\"float32\"}}}",
                 5, UINT64_C(3) * 2 * 2 * 8 * 5 * 4);
}

static void test_configurations_without_an_estimate(void **state)
{
    (void)state;
    assert_no_estimate("{}", "generates text");
    assert_no_estimate("[1]", "generates text");
    assert_no_estimate("{\"architectures\":[\"TForCausalLM\"],\"n_layer\":9007199254740993,\"n_head\":1,\"n_embd\":8}",
                       "layers and heads");
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
        cmocka_unit_test(test_words_without_capacity),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_values_as_in_python),
        cmocka_unit_test(test_numbers_have_a_limit),
        cmocka_unit_test(test_what_is_no_json),
        cmocka_unit_test(test_estimates),
        cmocka_unit_test(test_configurations_without_an_estimate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
