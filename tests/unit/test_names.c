/* SPDX-License-Identifier: Apache-2.0 */
/* Why: a pattern chooses what is read, dropped or cast, and a name alone tells an index; each has one meaning, wherever it is asked. */
#include "support_cmocka.h"

#include "coffer.h"
#include "pattern.h"

#include <string.h>

typedef struct match_case {
    const char *pattern;
    const char *name;
    bool matches;
} match_case;

static void patterns_match_whole_names(void **state)
{
    (void)state;
    static const match_case cases[] = {
        { "*", "", true },
        { "", "", true },
        { "", "a", false },
        { "a*c", "a.b/c", true },
        { "a*c", "a.b/cd", false },
        { "*.weight", "h.0.weight", true },
        { "h.?.w", "h.\xC3\xA4.w", true }, /* one character, however many bytes */
        { "h.?.w", "h..w", false },
        { "h.[0-2].w", "h.1.w", true },
        { "h.[!0-2].w", "h.1.w", false },
        { "h.[^0-2].w", "h.3.w", true },
        { "[]a]", "]", true }, /* a bracket that comes first belongs to the set */
        { "[a", "[a", true },  /* a set that never ends is none */
        { "\\*", "*", true },
        { "\\*", "a", false },
        { "a\\", "a\\", true }, /* a backslash before nothing stands for itself */
        { "\xFF?", "\xFF\xFE", true },
        { "*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const match_case *c = &cases[i];
        if (coffer_match(c->pattern, c->name, strlen(c->name)) != c->matches) {
            fail_msg("%s and %s", c->pattern, c->name);
        }
    }
}

/* The i-th text of at most four characters of an alphabet; false when there is none. */
static bool text_of(const char *alphabet, size_t i, char text[5])
{
    const size_t count = strlen(alphabet) + 1; /* the last one stands for no character */
    size_t length = 0;
    for (size_t k = 0; k < 4; k++, i /= count) {
        if (i % count < count - 1) {
            text[length++] = alphabet[i % count];
        }
    }
    text[length] = '\0';
    return i == 0;
}

/* What is prepared once for many names answers like what is not: all short patterns, all short names. */
static void a_prepared_pattern_means_the_same(void **state)
{
    (void)state;
    char text[5];
    char name[5];
    for (size_t i = 0; text_of("a-*?[]\\\xE9", i, text); i++) {
        const coffer__pattern pattern = coffer__pattern_prepare(text);
        for (size_t k = 0; text_of("a]\xC3\xA9", k, name); k++) {
            const coffer__name of = { name, strlen(name) };
            if (coffer__pattern_fits(&pattern, of) != coffer__pattern_matches(text, of)) {
                fail_msg("%s and %s", text, name);
            }
        }
    }
}

static void names_end_where_their_length_says(void **state)
{
    (void)state;
    assert_true(coffer_match("h.?", "h.0.weight", 3));
    assert_true(coffer_match("a?b", "a\0b", 3));
    assert_false(coffer_match("a", "a\0b", 3));
}

static void a_list_takes_what_matches_and_is_not_excluded(void **state)
{
    (void)state;
    static const char *const both[] = { "!*.bias", "h.*", "wte.*" };
    static const char *const excluding[] = { "!*.bias", "!h.*" };
    static const char *const literal[] = { "\\!a", "[!!]b" };
    assert_true(coffer_match_list(both, 3, "h.0.weight", 10));
    assert_true(coffer_match_list(both, 3, "wte.weight", 10));
    assert_false(coffer_match_list(both, 3, "h.0.bias", 8)); /* whatever the order */
    assert_false(coffer_match_list(both, 3, "lm_head", 7));
    assert_true(coffer_match_list(excluding, 2, "lm_head", 7));
    assert_false(coffer_match_list(excluding, 2, "lm_head.bias", 12));
    assert_false(coffer_match_list(excluding, 2, "h.0", 3));
    assert_true(coffer_match_list(literal, 2, "!a", 2));
    assert_true(coffer_match_list(literal, 2, "ab", 2));
    assert_false(coffer_match_list(literal, 2, "!b", 2));
    assert_true(coffer_match_list(NULL, 0, "anything", 8));
}

static void an_index_is_told_by_its_name(void **state)
{
    (void)state;
    assert_true(coffer_is_index("model.safetensors.index.json"));
    assert_true(coffer_is_index("here/.index.json"));
    assert_true(coffer_is_index("https://a/b.index.json?download=1"));
    assert_false(coffer_is_index("https://a/b?c=.index.json"));
    assert_false(coffer_is_index("model.index.json?"));
    assert_false(coffer_is_index("model.index.json/"));
    assert_false(coffer_is_index("index.json"));
    assert_false(coffer_is_index(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_match_whole_names),
        cmocka_unit_test(a_prepared_pattern_means_the_same),
        cmocka_unit_test(names_end_where_their_length_says),
        cmocka_unit_test(a_list_takes_what_matches_and_is_not_excluded),
        cmocka_unit_test(an_index_is_told_by_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
