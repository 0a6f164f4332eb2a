/* SPDX-License-Identifier: Apache-2.0 */
/* Why: the cursor and the little words under every reader, whose mistakes whole files show late: bytes beyond a text's end, and
   every length from 1 to 16. */
#include "support_cmocka.h"

#include "bytes.h"

#include <stdlib.h>
#include <string.h>

static void test_short_texts_are_equal_or_not(void **state)
{
    (void)state;
    static const uint8_t pattern[] = "\xF0\x81\x7F\x01\xFF\x20\x10\x80 is more";
    for (size_t size = 1; size <= 16; size++) {
        /* Eight bytes of both are looked at, or as many as they have: as large as they must be. */
        const size_t capacity = size < 8 ? 8 : size;
        uint8_t *a = malloc(capacity);
        uint8_t *b = malloc(capacity);
        assert_true(a != NULL && b != NULL);
        memcpy(a, pattern, capacity);
        memset(b, 0, capacity);
        memcpy(b, pattern, size);
        assert_true(coffer__short_equal(a, b, size));
        for (size_t at = 0; at < size; at++) {
            for (unsigned bit = 0; bit < 8; bit++) {
                b[at] ^= (uint8_t)(1u << bit);
                assert_false(coffer__short_equal(a, b, size));
                assert_false(coffer__short_equal(b, a, size));
                b[at] ^= (uint8_t)(1u << bit);
            }
        }
        free(a);
        free(b);
    }
}

static void test_short_texts_are_copied(void **state)
{
    (void)state;
    for (size_t size = 0; size <= 50; size++) {
        /* Up to 15 bytes after a text are read and overwritten, and no more. */
        const size_t capacity = (size + 15) / 16 * 16;
        uint8_t *from = malloc(capacity + 1);
        uint8_t *to = malloc(capacity + 1);
        assert_true(from != NULL && to != NULL);
        for (size_t i = 0; i <= capacity; i++) {
            from[i] = (uint8_t)(i + 1);
        }
        memset(to, 0xEE, capacity + 1);
        coffer__short_copy(to, from, size);
        assert_memory_equal(to, from, size);
        assert_int_equal(to[capacity], 0xEE);
        free(from);
        free(to);
    }
}

static void test_words_are_little_endian(void **state)
{
    (void)state;
    uint8_t bytes[9] = { 1, 2, 3, 4, 5, 6, 7, 0x88, 9 };
    assert_true(coffer__load_u64le(bytes) == UINT64_C(0x8807060504030201));
    memset(bytes, 0, sizeof bytes);
    coffer__store_u64le(bytes, UINT64_C(0x8807060504030201));
    static const uint8_t expected[] = { 1, 2, 3, 4, 5, 6, 7, 0x88, 0 };
    assert_memory_equal(bytes, expected, sizeof expected);
}

/* Every number of digits before every byte that is none. */
static void test_leading_digits(void **state)
{
    (void)state;
    for (size_t count = 0; count <= 8; count++) {
        for (unsigned next = 0; next < 256; next++) {
            if (count < 8 && next >= '0' && next <= '9') {
                continue;
            }
            uint8_t bytes[9] = "98765432";
            uint64_t expected = 0;
            for (size_t i = 0; i < count; i++) {
                expected = expected * 10 + (uint64_t)(bytes[i] - '0');
            }
            bytes[count] = (uint8_t)next;
            uint64_t value = 7;
            assert_int_equal(coffer__leading_digits(bytes, &value), count);
            assert_int_equal(value, expected);
        }
    }
    uint64_t value = 7;
    assert_int_equal(coffer__leading_digits((const uint8_t *)"00000000", &value), 8);
    assert_int_equal(value, 0);
    assert_int_equal(coffer__leading_digits((const uint8_t *)"99999999", &value), 8);
    assert_int_equal(value, 99999999);
}

static void test_what_comes_next(void **state)
{
    (void)state;
    coffer__cursor in = { (const uint8_t *)"abcd", 3, 1 };
    assert_int_equal(coffer__left(&in), 2);
    assert_true(coffer__next_is(&in, "bc", 2));
    assert_false(coffer__next_is(&in, "bcd", 3)); /* beyond the end */
    assert_false(coffer__next_is(&in, "c", 1));
    in.position = 3;
    assert_int_equal(coffer__left(&in), 0);
    assert_true(coffer__next_is(&in, "", 0));
    assert_false(coffer__next_is(&in, "d", 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_texts_are_equal_or_not),
        cmocka_unit_test(test_short_texts_are_copied),
        cmocka_unit_test(test_words_are_little_endian),
        cmocka_unit_test(test_leading_digits),
        cmocka_unit_test(test_what_comes_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
