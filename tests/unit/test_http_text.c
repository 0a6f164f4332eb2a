/* SPDX-License-Identifier: Apache-2.0 */
/* Why: which bytes of a file an answer brings is known from the text of its fields alone. What is not exactly right there is
   not used. */
#include "support_cmocka.h"

#include "coffer.h"
#include "http_text.h"

#include <stdlib.h>
#include <string.h>

/* The text where its memory ends, so that a sanitizer sees a byte too many. */
static char *edge(const char *text)
{
    const size_t len = strlen(text);
    char *copy = malloc(len > 0 ? len : 1);
    assert_non_null(copy);
    memcpy(copy, text, len);
    return copy;
}

static bool range_of(const char *text, coffer__content_range *range)
{
    char *copy = edge(text);
    const bool fine = coffer__http_content_range(copy, strlen(text), range);
    free(copy);
    return fine;
}

static void ranges_are_read(void **state)
{
    (void)state;
    coffer__content_range range;
    assert_true(range_of("bytes 0-9/10", &range));
    assert_true(range.satisfied && range.first == 0 && range.last == 9 && range.size == 10);
    assert_true(range_of("Bytes 5-5/18446744073709551614", &range));
    assert_true(range.satisfied && range.first == 5 && range.last == 5 && range.size == UINT64_MAX - 1);
    assert_true(range_of("bytes 1-2/*", &range));
    assert_true(range.satisfied && range.size == COFFER__HTTP_UNKNOWN);
    assert_true(range_of("bytes */7", &range));
    assert_true(!range.satisfied && range.size == 7);
    assert_true(range_of("bytes */0", &range));
    assert_true(!range.satisfied && range.size == 0);
}

static void other_ranges_are_not(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "bytes",
        "bytes ",
        "bytes 0",
        "bytes 0-",
        "bytes 0-1",
        "bytes 0-1/",
        "bytes -1/2",
        "bytes 2-1/3",
        "bytes 0-3/3",
        "bytes 0-1/3 ",
        "bytes 0-1/3,",
        " bytes 0-1/3",
        "bytes  0-1/3",
        "byte 0-1/3",
        "items 0-1/3",
        "bytes 0 - 1/3",
        "bytes=0-1/3",
        "bytes +0-1/3",
        "bytes 0-1/**",
        "bytes */*",
        "bytes */",
        "bytes *",
        "bytes 0x0-1/3",
        "bytes 0-18446744073709551616/*",
        "bytes 0-1/18446744073709551616",
        "bytes 0-1/18446744073709551615",
        "bytes 99999999999999999999-1/3",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        coffer__content_range range;
        if (range_of(wrong[i], &range)) {
            fail_msg("accepted: %s", wrong[i]);
        }
    }
}

static void fields_have_a_name_and_a_value(void **state)
{
    (void)state;
    const char *value = NULL;
    size_t len = 0;
    static const char line[] = "ETag: \t\"a b\" \r\n";
    assert_true(coffer__http_field(line, strlen(line), "etag", &value, &len));
    assert_int_equal(len, 5);
    assert_memory_equal(value, "\"a b\"", len);
    assert_true(coffer__http_field("etag:", 5, "etag", &value, &len));
    assert_int_equal(len, 0);
    assert_false(coffer__http_field("etag", 4, "etag", &value, &len));
    assert_false(coffer__http_field("eta", 3, "etag", &value, &len));
    assert_false(coffer__http_field("x-etag: 1", 9, "etag", &value, &len));
    assert_false(coffer__http_field("etag : 1", 8, "etag", &value, &len));
    assert_false(coffer__http_field("etags: 1", 8, "etag", &value, &len));
}

static void numbers_are_digits(void **state)
{
    (void)state;
    uint64_t value = 0;
    assert_true(coffer__http_number("18446744073709551615", 20, &value));
    assert_true(value == UINT64_MAX);
    assert_true(coffer__http_number("007", 3, &value));
    assert_int_equal(value, 7);
    assert_false(coffer__http_number("18446744073709551616", 20, &value));
    assert_false(coffer__http_number("", 0, &value));
    assert_false(coffer__http_number("1 ", 2, &value));
    assert_false(coffer__http_number("-1", 2, &value));
}

static bool after(const char *text, uint64_t now, uint64_t *seconds)
{
    char *copy = edge(text);
    const bool fine = coffer__http_retry_after(copy, strlen(text), now, seconds);
    free(copy);
    return fine;
}

static void retry_after_is_seconds_or_a_date(void **state)
{
    (void)state;
    uint64_t seconds = 0;
    assert_true(after("120", 5, &seconds));
    assert_int_equal(seconds, 120);
    /* What is too much to be counted is too much to be waited for, and not the same as nothing. */
    static const char *const endless[] = { "18446744073709551614", "18446744073709551615", "18446744073709551616",
                                           "99999999999999999999999999999999" };
    for (size_t i = 0; i < sizeof endless / sizeof endless[0]; i++) {
        assert_true(after(endless[i], 5, &seconds));
        assert_true(seconds == COFFER__HTTP_UNKNOWN - 1);
    }
    assert_true(after("18446744073709551613", 5, &seconds));
    assert_true(seconds == COFFER__HTTP_UNKNOWN - 2);
    assert_false(after("18446744073709551616x", 5, &seconds));
    assert_true(after("Sun, 06 Nov 1994 08:49:37 GMT", 784111777 - 30, &seconds));
    assert_int_equal(seconds, 30);
    assert_true(after("Sun, 06 Nov 1994 08:49:37 GMT", 784111777 + 30, &seconds));
    assert_int_equal(seconds, 0);
    assert_true(after("Thu, 29 Feb 2024 23:59:60 GMT", 0, &seconds));
    assert_int_equal(seconds, 1709251200);
    assert_true(after("Thu, 01 Jan 1970 00:00:01 GMT", 0, &seconds));
    assert_int_equal(seconds, 1);
    static const char *const wrong[] = {
        "",
        "soon",
        "-1",
        "1.5",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1969 08:49:37 GMT",
        "Sun, 06 Now 1994 08:49:37 GMT",
        "Sun, 32 Nov 1994 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:49:37 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, 06 Nov 1994 08.49.37 GMT",
        "Sun, xx Nov 1994 08:49:37 GMT",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (after(wrong[i], 0, &seconds)) {
            fail_msg("accepted: %s", wrong[i]);
        }
    }
}

static void only_strong_validators_are_for_ranges(void **state)
{
    (void)state;
    assert_true(coffer__http_is_strong("\"a\""));
    assert_true(coffer__http_is_strong("\"\""));
    assert_false(coffer__http_is_strong("W/\"a\""));
    assert_false(coffer__http_is_strong("\""));
    assert_false(coffer__http_is_strong(""));
    assert_false(coffer__http_is_strong("abc"));
    assert_false(coffer__http_is_strong("\"abc"));
    assert_true(coffer__http_is_strong("\"a b\xE4\""));
    assert_false(coffer__http_is_strong("\"a\rb\""));
    assert_false(coffer__http_is_strong("\"a\nX: y\""));
    assert_false(coffer__http_is_strong("\"a\x1F\""));
    assert_false(coffer__http_is_strong("\"a\x7F\""));
}

static void digests_are_read(void **state)
{
    (void)state;
    static const char hex[] = "\"000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F\"";
    char bare[65];
    memcpy(bare, hex + 1, 64);
    bare[64] = '\0';
    uint8_t digest[3][32];
    assert_true(coffer__http_sha256_hex(hex, digest[0]));
    assert_true(coffer__http_sha256_hex(bare, digest[1]));
    assert_true(coffer__http_sha256_base64("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", digest[2]));
    for (size_t i = 0; i < 32; i++) {
        assert_int_equal(digest[0][i], i);
        assert_int_equal(digest[1][i], i);
        assert_int_equal(digest[2][i], i);
    }
    static const char *const wrong[] = { "",
                                         "\"\"",
                                         "\"ab\"",
                                         "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9=",
                                         "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8-1",
                                         "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8x",
                                         "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHg==",
                                         "AAECAwQFBgcICQoLDA0 DxAREhMUFRYXGBkaGxwdHh8=" };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(coffer__http_sha256_hex(wrong[i], digest[0]));
        assert_false(coffer__http_sha256_base64(wrong[i], digest[0]));
    }
    bare[63] = 'g';
    assert_false(coffer__http_sha256_hex(bare, digest[0]));
}

static void refusals_have_a_reason(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *word; /* NULL: none */
    } cases[] = {
        { "<Error><Code>NoSuchKey</Code><Message>x</Message></Error>", "NoSuchKey" },
        { "<Code>a</Code>", "a" },
        { "<Code><Code>a</Code>", NULL },
        { "<Code>abcdefghijk</Code>", "abcdefghijk" },
        { "<Code>abcdefghijkl</Code>", NULL }, /* does not fit */
        { "<Code>no such key</Code>", NULL },
        { "<Code>\x1B[2J</Code>", NULL },
        { "<Code></Code>", NULL },
        { "<Code>cut", NULL },
        { "<Code>", NULL },
        { "<code>a</code>", NULL },
        { "", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char word[12] = "untouched";
        /* Without the NUL: a sanitizer sees what is read after the end. */
        const size_t len = strlen(cases[i].text);
        char *copy = malloc(len + (len == 0));
        assert_non_null(copy);
        memcpy(copy, cases[i].text, len);
        assert_int_equal(coffer__http_error_code(copy, len, word, sizeof word), cases[i].word != NULL);
        assert_string_equal(word, cases[i].word != NULL ? cases[i].word : "untouched");
        free(copy);
    }
    char word[12];
    assert_true(coffer__http_word("GatedRepo", 9, '\0', word, sizeof word));
    assert_string_equal(word, "GatedRepo");
    assert_false(coffer__http_word("Gated Repo", 10, '\0', word, sizeof word));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_read),
        cmocka_unit_test(other_ranges_are_not),
        cmocka_unit_test(fields_have_a_name_and_a_value),
        cmocka_unit_test(numbers_are_digits),
        cmocka_unit_test(retry_after_is_seconds_or_a_date),
        cmocka_unit_test(only_strong_validators_are_for_ranges),
        cmocka_unit_test(digests_are_read),
        cmocka_unit_test(refusals_have_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
