/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts of the command that other programs read or have written: words that are pasted into a shell, which has to read
 * exactly the name, and config.json, of which every byte may be hostile.
 */
#include "cli_config.h"
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
