/* SPDX-License-Identifier: Apache-2.0 */
/* Why: names come from strangers and go to terminals; what is escaped, and what counts as UTF-8, must be exact. */
#include "support_cmocka.h"

#include "scan.h"
#include "sort.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

static void expect_escaped(const char *text, size_t text_len, const char *expected)
{
    char out[256];
    assert_int_equal(coffer_escape(text, text_len, out, sizeof out), strlen(expected));
    assert_string_equal(out, expected);
}

static void test_escape(void **state)
{
    (void)state;
    expect_escaped("", 0, "");
    expect_escaped("model.layers.0", 14, "model.layers.0");
    expect_escaped("a\0b", 3, "a\\x00b");
    expect_escaped("\x1b[31m", 5, "\\x1b[31m");
    expect_escaped("tab\tnl\n\x7f", 8, "tab\\x09nl\\x0a\\x7f");
    expect_escaped("back\\slash", 10, "back\\\\slash");
    expect_escaped("gr\xC3\xBC\xC3\x9F", 6, "gr\xC3\xBC\xC3\x9F");
    expect_escaped("\xC2\x85", 2, "\\u{85}");
    expect_escaped("\xE2\x80\xAE"
                   "evil",
                   7, "\\u{202e}evil");
    expect_escaped("\xE2\x80\xA8", 3, "\\u{2028}");
    expect_escaped("\xE2\x81\xA6", 3, "\\u{2066}");
    expect_escaped("\xD8\x9C", 2, "\\u{61c}");
    expect_escaped("\xFF\xC3", 2, "\\xff\\xc3");
    expect_escaped("a b", 3, "a b");
    /* What stands after the text does not count. */
    expect_escaped("a\xC3\xBC", 2, "a\\xc3");
    expect_escaped("\xF0\x9F\x92\xBE", 4, "\xF0\x9F\x92\xBE");
}

/* What turns the direction of writing, or ends a line, and what stands beside it in Unicode and does not. */
static void test_what_misleads_a_terminal(void **state)
{
    (void)state;
    static const uint32_t misleading[] = { 0x061C, 0x200E, 0x200F, 0x2028, 0x202E, 0x2066, 0x2069 };
    static const uint32_t harmless[] = { 0x061B, 0x061D, 0x200D, 0x2010, 0x2027, 0x202F, 0x2065, 0x206A, 0xA0, 0x7E };
    char text[4];
    char out[16];
    for (size_t i = 0; i < sizeof misleading / sizeof misleading[0]; i++) {
        const size_t size = coffer__utf8_encode(text, misleading[i]);
        assert_int_equal(coffer_escape(text, size, out, sizeof out), misleading[i] < 0x1000 ? 7 : 8);
        assert_memory_equal(out, "\\u{", 3);
        assert_int_equal(strtoul(out + 3, NULL, 16), misleading[i]);
    }
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++) {
        const size_t size = coffer__utf8_encode(text, harmless[i]);
        assert_int_equal(coffer_escape(text, size, out, sizeof out), size);
        assert_memory_equal(out, text, size);
    }
}

static void test_escape_into_little_capacity(void **state)
{
    (void)state;
    char out[16];
    memset(out, 'x', sizeof out);
    assert_int_equal(coffer_escape("abc\ndef", 7, out, 0), 10);
    assert_int_equal(out[0], 'x');
    assert_int_equal(coffer_escape("abc\ndef", 7, NULL, 0), 10);
    /* An escape is written whole or not at all, and nothing behind one that did not fit. */
    for (size_t capacity = 1; capacity <= 11; capacity++) {
        char expected[16];
        memset(out, 'x', sizeof out);
        assert_int_equal(coffer_escape("abc\ndef", 7, out, capacity), 10);
        const size_t kept = capacity > 10 ? 10 : capacity > 7 ? capacity - 1 : capacity > 4 ? 3 : capacity - 1;
        memcpy(expected, "abc\\x0adef", kept);
        expected[kept] = '\0';
        assert_string_equal(out, expected);
        assert_int_equal(out[capacity], 'x');
    }
}

static void test_escape_cut_keeps_both_ends(void **state)
{
    (void)state;
    char out[40];
    coffer__escape_cut("short", 5, out, sizeof out);
    assert_string_equal(out, "short");
    const char *text = "model.layers.31.self_attn.q_proj.weight_scale_inv";
    for (size_t capacity = 16; capacity < 40; capacity++) {
        coffer__escape_cut(text, strlen(text), out, capacity);
        assert_true(strlen(out) < capacity);
        const size_t half = (capacity - 4) / 2;
        assert_memory_equal(out, text, half);
        assert_string_equal(out + strlen(out) - half, text + strlen(text) - half);
    }
    /* What stands after the text does not count. */
    coffer__escape_cut("a name of more than sixteen bytes\xC3\xBC", 34, out, 16);
    assert_string_equal(out, "a name\xE2\x80\xA6"
                             "es\\xc3");
}

/* By another method than the decoder's: the ranges of the Unicode standard's table 3-7. */
static size_t utf8_by_table(const unsigned char *s, size_t n)
{
    static const unsigned char rows[][9] = {
        /* size, then low and high of each byte */
        { 1, 0x00, 0x7F },
        { 2, 0xC2, 0xDF, 0x80, 0xBF },
        { 3, 0xE0, 0xE0, 0xA0, 0xBF, 0x80, 0xBF },
        { 3, 0xE1, 0xEC, 0x80, 0xBF, 0x80, 0xBF },
        { 3, 0xED, 0xED, 0x80, 0x9F, 0x80, 0xBF },
        { 3, 0xEE, 0xEF, 0x80, 0xBF, 0x80, 0xBF },
        { 4, 0xF0, 0xF0, 0x90, 0xBF, 0x80, 0xBF, 0x80, 0xBF },
        { 4, 0xF1, 0xF3, 0x80, 0xBF, 0x80, 0xBF, 0x80, 0xBF },
        { 4, 0xF4, 0xF4, 0x80, 0x8F, 0x80, 0xBF, 0x80, 0xBF },
    };
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        size_t fits = 0;
        while (fits < rows[row][0] && fits < n && s[fits] >= rows[row][1 + 2 * fits] &&
               s[fits] <= rows[row][2 + 2 * fits]) {
            fits++;
        }
        if (fits == rows[row][0]) {
            return fits;
        }
    }
    return 0;
}

static void test_utf8_agrees_with_the_standard(void **state)
{
    (void)state;
    static const unsigned char tails[] = { 0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF };
    const size_t tail_count = sizeof tails;
    for (unsigned first = 0; first < 256; first++) {
        for (unsigned second = 0; second < 256; second++) {
            for (size_t third = 0; third < tail_count; third++) {
                for (size_t n = 1; n <= 4; n++) {
                    const unsigned char bytes[4] = { (unsigned char)first, (unsigned char)second, tails[third],
                                                     tails[(third * 7 + second) % tail_count] };
                    uint32_t code_point = 0;
                    const size_t size = coffer__utf8_decode((const char *)bytes, n, &code_point);
                    assert_int_equal(size, utf8_by_table(bytes, n));
                    char back[4];
                    if (size > 0) {
                        assert_int_equal(coffer__utf8_encode(back, code_point), size);
                        assert_memory_equal(back, bytes, size);
                    }
                }
            }
        }
    }
    assert_int_equal(coffer__utf8_valid_len("ok\xC3\xBC\xFF", 5), 4);
    assert_int_equal(coffer__utf8_valid_len("ok\xC3\xBC", 4), 4);
    assert_int_equal(coffer__utf8_valid_len("ok\xC3\xBC", 3), 2);
}

static void test_write_u64(void **state)
{
    (void)state;
    static const uint64_t values[] = { 0, 9, 10, 99, 100, 12345678901234567890u, UINT64_MAX };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char out[21] = { 0 };
        assert_int_equal(coffer__write_u64(NULL, values[i]), coffer__write_u64(out, values[i]));
        assert_true(strtoull(out, NULL, 10) == values[i]);
    }
}

/* Among plain bytes of any kind, before and behind as well. */
static void test_scan_agrees_with_its_twin(void **state)
{
    (void)state;
    static const char around[] = " #0AZa~";
    for (size_t k = 0; k < sizeof around - 1; k++) {
        for (unsigned special = 0; special < 256; special++) {
            for (size_t at = 0; at < 48; at++) {
                uint8_t memory[192];
                uint8_t *bytes = memory + 64;
                memset(memory, around[k], sizeof memory);
                bytes[at] = (uint8_t)special;
                bytes[at + 3] = (uint8_t)~special;
                for (size_t size = 0; size <= 64; size += 7) {
                    size_t plain = 0;
                    while (plain < size && coffer__is_plain(bytes[plain])) {
                        plain++;
                    }
                    assert_int_equal(coffer__scan_plain(bytes, size), plain);
                    assert_int_equal(coffer__scan_plain_scalar(bytes, size), plain);
                }
            }
        }
    }
}

/* Words that are right for a scan which takes some other constant for eight backslashes. */
static void test_scan_of_deceiving_words(void **state)
{
    (void)state;
    static const char *const texts[] = { "a4\\aaKaa", "a4a\\aKaa", "a4aa\\Kaa", "a4aaaK\\a", "a4aaaKa\\" };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const size_t plain = strcspn(texts[i], "\\");
        assert_int_equal(coffer__scan_plain((const uint8_t *)texts[i], 8), plain);
        assert_int_equal(coffer__scan_plain_scalar((const uint8_t *)texts[i], 8), plain);
    }
}

/* The twin of coffer__leading_digits. */
static size_t leading_digits_one_by_one(const uint8_t *bytes, uint64_t *value)
{
    size_t count = 0;
    *value = 0;
    while (count < 8 && bytes[count] >= '0' && bytes[count] <= '9') {
        *value = *value * 10 + (uint64_t)(bytes[count] - '0');
        count++;
    }
    return count;
}

static void test_digits_agree_with_their_twin(void **state)
{
    (void)state;
    uint32_t random = 1;
    for (unsigned special = 0; special < 256; special++) {
        for (size_t at = 0; at < 9 * 64; at++) {
            uint8_t bytes[9];
            for (size_t i = 0; i < sizeof bytes; i++) {
                random = random * 1664525u + 1013904223u;
                bytes[i] = (uint8_t)('0' + (random >> 16) % 10);
            }
            bytes[at % 9] = (uint8_t)special;
            bytes[(at + at / 9 + 1) % 9] = (uint8_t)(random >> 8);
            uint64_t value = 1;
            uint64_t expected = 2;
            assert_int_equal(coffer__leading_digits(bytes, &value), leading_digits_one_by_one(bytes, &expected));
            assert_true(value == expected);
        }
    }
}

static void test_short_texts(void **state)
{
    (void)state;
    for (size_t size = 1; size <= 16; size++) {
        /* What lies after the texts differs and must not matter. */
        uint8_t a[32];
        uint8_t b[32];
        memset(a, 'a', sizeof a);
        memset(b, 'b', sizeof b);
        memset(b, 'a', size);
        assert_true(coffer__short_equal(a, b, size));
        for (size_t at = 0; at < size; at++) {
            b[at] ^= 0x80;
            assert_false(coffer__short_equal(a, b, size));
            b[at] ^= 0x80;
        }
    }
    for (size_t size = 0; size <= 48; size++) {
        uint8_t from[64];
        uint8_t to[64];
        for (size_t i = 0; i < sizeof from; i++) {
            from[i] = (uint8_t)i;
        }
        memset(to, 0xFF, sizeof to);
        coffer__short_copy(to, from, size);
        assert_memory_equal(to, from, size);
        for (size_t i = size + 15; i < sizeof to; i++) {
            assert_int_equal(to[i], 0xFF);
        }
    }
}

static bool by_remainder(const void *ctx, uint32_t a, uint32_t b)
{
    const uint32_t modulus = *(const uint32_t *)ctx;
    return a % modulus < b % modulus;
}

static void test_sort(void **state)
{
    (void)state;
    uint32_t random = 1;
    for (size_t count = 0; count < 200; count++) {
        uint32_t items[200];
        const uint32_t modulus = (uint32_t)(count % 7) * 50 + 1;
        for (size_t i = 0; i < count; i++) {
            random = random * 1664525u + 1013904223u;
            items[i] = random >> 8;
        }
        coffer__sort(items, count, by_remainder, &modulus);
        for (size_t i = 1; i < count; i++) {
            const uint32_t a = items[i - 1] % modulus;
            const uint32_t b = items[i] % modulus;
            assert_true(a < b || (a == b && items[i - 1] <= items[i]));
        }
    }
    assert_true(coffer__compare_names("ab", 2, "abc", 3) < 0);
    assert_true(coffer__compare_names("b", 1, "abc", 3) > 0);
    assert_int_equal(coffer__compare_names("abc", 3, "abc", 3), 0);
    assert_true(coffer__compare_names("\xFF", 1, "a", 1) > 0);
}

static void test_endings(void **state)
{
    (void)state;
    assert_true(coffer__text_ends("w.npy", 5, ".npy") && coffer__text_ends(".npy", 4, ".npy"));
    assert_false(coffer__text_ends("npy", 3, ".npy") || coffer__text_ends("w.npy", 4, ".npy"));
    assert_true(coffer__text_ends("", 0, "") && coffer__text_ends("a", 1, ""));
    assert_true(coffer__text_has_ending("w.npy", ".npy"));
    assert_false(coffer__text_has_ending(".npy", ".npy") || coffer__text_has_ending("w.npz", ".npy"));
    assert_true(coffer__text_is("abc", 2, "ab") && coffer__text_is("", 0, ""));
    assert_false(coffer__text_is("abc", 3, "ab") || coffer__text_is("ab", 2, "abc"));
    assert_true(coffer__same_text("ab", "ab"));
    assert_false(coffer__same_text("ab", "a") || coffer__same_text("a", "ab") || coffer__same_text("ab", "ac"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_escape),
        cmocka_unit_test(test_what_misleads_a_terminal),
        cmocka_unit_test(test_escape_into_little_capacity),
        cmocka_unit_test(test_escape_cut_keeps_both_ends),
        cmocka_unit_test(test_utf8_agrees_with_the_standard),
        cmocka_unit_test(test_write_u64),
        cmocka_unit_test(test_scan_agrees_with_its_twin),
        cmocka_unit_test(test_scan_of_deceiving_words),
        cmocka_unit_test(test_digits_agree_with_their_twin),
        cmocka_unit_test(test_short_texts),
        cmocka_unit_test(test_sort),
        cmocka_unit_test(test_endings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
