/* SPDX-License-Identifier: Apache-2.0 */
/* Why: what readers inflate decides what they see. Each kind of block, each way to be damaged, and input that comes byte by byte;
   that it agrees with zlib on anything, the readers' tests in Python and the fuzz target say. */
#include "support_cmocka.h"

#include "inflate.h"

#include <stdlib.h>
#include <string.h>

typedef struct chunk_source {
    const uint8_t *bytes;
    size_t size;
    size_t at;
    size_t step;      /* bytes at once */
    size_t fail_from; /* from here on the input fails; 0: it does not */
} chunk_source;

static coffer_status next(void *ctx, const uint8_t **bytes, size_t *size, coffer_error *err)
{
    chunk_source *in = ctx;
    if (in->fail_from > 0 && in->at >= in->fail_from) {
        *err = (coffer_error){ .code = COFFER_ERR_IO, .offset = COFFER_NO_OFFSET, .message = "no" };
        return COFFER_ERR_IO;
    }
    *bytes = in->bytes + in->at;
    *size = in->size - in->at < in->step ? in->size - in->at : in->step;
    in->at += *size;
    return COFFER_OK;
}

static coffer_status inflate(const void *bytes, size_t size, size_t step, void *out, size_t out_size, bool whole,
                             coffer_error *err)
{
    chunk_source in = { bytes, size, 0, step, 0 };
    const coffer__inflate_input input = { &in, next };
    return coffer__inflate(&input, out, out_size, whole, err);
}

#define DYNAMIC_SIZE 700
static const char dynamic[] =
    "\x3d\x52\x51\xa2\xc3\x30\x08\x3a\xab\xa0\x49\xbb\x77\xff\xff\x27\x98\x74\xdd\x32\xb5\xa8\x48\x4c"
    "\x06\x90\x0c\x82\xbf\xa8\x08\xf4\x93\x1d\x8a\xca\x08\xb9\xc1\xec\xf7\x44\x23\xda\xdf\x3a\xd1\xa1"
    "\x10\x66\x1e\xa1\x88\xb2\x5d\x48\xbd\x79\x1d\x65\x43\x62\x77\x51\x86\x7e\x4a\xe8\x4f\x3b\xc5\xd5"
    "\xb8\xb6\x5e\xf5\x60\xe9\x68\x68\x6e\xa1\x12\xcf\x12\x2e\x1c\xee\x28\x48\x93\x6a\x47\x85\xe2\xf0"
    "\xea\xa3\x44\x2f\x9e\x88\x65\x56\xdd\x8f\x2b\x9b\x83\xbe\xef\xa3\x1c\x56\x93\x35\xbc\x26\xed\x91"
    "\xed\xda\x7b\x02\x33\x89\x4c\x70\x1c\x51\x3b\x4d\xf2\x46\xab\x8b\x7f\xcd\xc3\x83\x48\x2c\x8e\xa7"
    "\x69\xe2\x2b\x97\x30\xeb\x51\xc8\xcd\xb1\x44\x45\x80\xe5\x41\x86\x4d\xba\x4b\x8e\x3c\xf8\x8a\x13"
    "\x1b\x71\x14\x71\x7b\x03\xd7\x60\x94\x3e\xe6\xb2\x1c\x40\xdc\xc2\x05\x0c\xa4\x4e\x7a\xaa\xc4\x51"
    "\xdf\x39\x4b\x52\xb3\xed\x66\x31\x4d\x18\xf7\xa2\x50\xa3\x4c\x9e\xe1\xc5\xbd\x0e\xaf\xb9\xe4\x72"
    "\x79\x48\x87\x75\xf4\x71\xc2\xdd\x81\x51\x4f\xcb\xf1\x0d\x83\x97\xb3\x15\x56\xec\x5c\xa7\x0e\xdc"
    "\x2b\x71\x54\xd7\x64\x8c\xf8\xe8\x5f\x1b\x61\x75\xfe\x46\x91\xf2\x46\x52\x0c\x19\x7b\x24\x6d\x3e"
    "\xff";

/* What `dynamic` holds. */
static void make_plain(uint8_t *plain)
{
    uint32_t seed = 1;
    for (size_t i = 0; i < DYNAMIC_SIZE; i++) {
        seed = (uint32_t)((seed * UINT64_C(1103515245) + 12345) & 0x7FFFFFFF);
        uint8_t ones = 0;
        for (uint32_t bits = seed >> 12; (bits & 1) != 0 && ones < 11; bits >>= 1) {
            ones++;
        }
        plain[i] = (uint8_t)('a' + ones);
    }
}

static void test_codes_of_the_block(void **state)
{
    (void)state;
    uint8_t plain[DYNAMIC_SIZE];
    uint8_t out[DYNAMIC_SIZE];
    coffer_error err;
    make_plain(plain);
    for (size_t step = 1; step <= sizeof dynamic; step += 3) {
        memset(out, 0, sizeof out);
        assert_int_equal(inflate(dynamic, sizeof dynamic - 1, step, out, sizeof out, true, &err), COFFER_OK);
        assert_memory_equal(out, plain, sizeof out);
    }
    for (size_t size = 0; size < sizeof out; size++) {
        memset(out, 0, sizeof out);
        assert_int_equal(inflate(dynamic, sizeof dynamic - 1, 5, out, size, false, &err), COFFER_OK);
        assert_memory_equal(out, plain, size);
        assert_int_equal(out[size], 0);
        assert_int_equal(inflate(dynamic, sizeof dynamic - 1, 5, out, size, true, &err), COFFER_ERR_DAMAGED);
    }
}

static void test_cut_at_every_byte(void **state)
{
    (void)state;
    uint8_t out[DYNAMIC_SIZE];
    coffer_error err;
    for (size_t size = 0; size < sizeof dynamic - 1; size++) {
        assert_int_equal(inflate(dynamic, size, 7, out, sizeof out, true, &err), COFFER_ERR_DAMAGED);
        assert_non_null(strstr(err.message, "too early"));
    }
}

/* Bytes that are handed over at the edge of their memory: a sanitizer sees one that is read or written beyond. */
static void test_every_bit_flipped(void **state)
{
    (void)state;
    uint8_t *bytes = malloc(sizeof dynamic - 1);
    uint8_t *out = malloc(DYNAMIC_SIZE);
    assert_non_null(bytes);
    assert_non_null(out);
    for (size_t bit = 0; bit < 8 * (sizeof dynamic - 1); bit++) {
        coffer_error err;
        memcpy(bytes, dynamic, sizeof dynamic - 1);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        const coffer_status status = inflate(bytes, sizeof dynamic - 1, 64, out, DYNAMIC_SIZE, true, &err);
        assert_true(status == COFFER_OK || status == COFFER_ERR_DAMAGED);
    }
    free(bytes);
    free(out);
}

static void test_stored_and_fixed(void **state)
{
    (void)state;
    uint8_t out[16];
    coffer_error err;
    assert_int_equal(inflate("\x01\x03\x00\xfc\xff"
                             "abc",
                             8, 3, out, 3, true, &err),
                     COFFER_OK);
    assert_memory_equal(out, "abc", 3);
    assert_int_equal(inflate("\x00\x01\x00\xfe\xff"
                             "a\x01\x01\x00\xfe\xff"
                             "b",
                             12, 3, out, 2, true, &err),
                     COFFER_OK);
    assert_memory_equal(out, "ab", 2);
    assert_int_equal(inflate("\xcb\x48\xcd\xc9\xc9\x07\x00", 7, 1, out, 5, true, &err), COFFER_OK);
    assert_memory_equal(out, "hello", 5);
    assert_int_equal(inflate("\x03\x00", 2, 1, out, 0, true, &err), COFFER_OK);
    /* A copy that overlaps itself repeats: two letters, then eight more. */
    assert_int_equal(inflate("\x4b\x4c\x84\x01\x00", 5, 1, out, 10, true, &err), COFFER_OK);
    assert_memory_equal(out, "aaaaaaaaaa", 10);
}

static void test_damages(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        const char *what;
    } rows[] = {
        { "\x07", 1, "an unknown kind" },
        { "\x01\x03\x00\xfc\xfe"
          "abc",
          8, "contradicts itself" },
        { "\x01\x03\x00\xfc\xff"
          "abcd",
          9, "something follows" },
        { "\x01\x04\x00\xfb\xff"
          "abcd",
          9, "more than the archive says" },
        { "\x01\x02\x00\xfd\xff"
          "ab",
          7, "fewer than the archive says" },
        { "\x03\x00", 2, "fewer than the archive says" },
        { "\x03\x02", 2, "from before the beginning" },
        { "\xfd\xff\xff", 3, "too many codes" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t out[3];
        coffer_error err;
        assert_int_equal(inflate(rows[i].bytes, rows[i].size, 2, out, sizeof out, true, &err), COFFER_ERR_DAMAGED);
        if (strstr(err.message, rows[i].what) == NULL) {
            fail_msg("%s: %s", rows[i].what, err.message);
        }
    }
}

static void test_an_input_that_fails(void **state)
{
    (void)state;
    for (size_t from = 1; from < sizeof dynamic - 1; from += 9) {
        uint8_t out[DYNAMIC_SIZE];
        coffer_error err;
        chunk_source in = { (const uint8_t *)dynamic, sizeof dynamic - 1, 0, 4, from };
        const coffer__inflate_input input = { &in, next };
        assert_int_equal(coffer__inflate(&input, out, sizeof out, true, &err), COFFER_ERR_IO);
        assert_string_equal(err.message, "no");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes_of_the_block),
        cmocka_unit_test(test_cut_at_every_byte),
        cmocka_unit_test(test_every_bit_flipped),
        cmocka_unit_test(test_stored_and_fixed),
        cmocka_unit_test(test_damages),
        cmocka_unit_test(test_an_input_that_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
