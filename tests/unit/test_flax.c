/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why: MessagePack has no magic and a hundred ways to write a length, and each length comes from the file. Heads of every first
 * byte, files with arrays as they are, in chunks and without a dtype, and files of which each byte in turn is another one.
 */
#include "support_input.h"

#include "msgpack.h"

#include <stdlib.h>

#define FLOATS                                                                                                         \
    "\x93\x92\x02\x03\xa7"                                                                                             \
    "float32\xc4\x18"                                                                                                  \
    "aaaabbbbccccddddeeeeffff"
#define HALF                                                                                                           \
    "\x93\x91\x03\xa7"                                                                                                 \
    "float32\xc4\x0c"

/* {"a": {"w": (2, 3), "n": 7}, "c": in chunks, "z": complex128, "s": of texts} */
static const char tree[] = "\x84\xa1"
                           "a\x82\xa1w\xc7\x26\x01" FLOATS "\xa1n\x07"
                           "\xa1"
                           "c\x83\xb9__msgpack_chunked_array__\xc3\xa5shape\x82\xa1"
                           "0\x02\xa1"
                           "1\x03"
                           "\xa6"
                           "chunks\x82\xa1"
                           "0\xc7\x19\x01" HALF "aaaabbbbcccc\xa1"
                           "1\xc7\x19\x01" HALF "ddddeeeeffff"
                           "\xa1z\xc7\x1f\x03\x93\x90\xaa"
                           "complex128\xc4\x10"
                           "0123456789abcdef"
                           "\xa1s\xc7\x0f\x01\x93\x91\x01\xa5"
                           "str32\xc4\x04"
                           "\x61\0\0\0";

/* Of each first byte: a head of 9 bytes is read without more, and one that is cut is none. */
static void test_heads(void **state)
{
    (void)state;
    uint8_t bytes[COFFER__MSGPACK_MAX_HEAD] = { 0 };
    for (unsigned first = 0; first < 256; first++) {
        bytes[0] = (uint8_t)first;
        const coffer__msgpack whole = coffer__msgpack_read(bytes, sizeof bytes);
        assert_int_equal(whole.kind == COFFER__MSGPACK_NONE, first == 0xc1);
        for (size_t size = 0; size < whole.size; size++) {
            assert_int_equal(coffer__msgpack_read(bytes, size).kind, COFFER__MSGPACK_NONE);
        }
        assert_true(whole.size <= sizeof bytes);
    }
}

static coffer__msgpack head_of(const char *bytes, size_t size)
{
    return coffer__msgpack_read((const uint8_t *)bytes, size);
}

static void test_numbers(void **state)
{
    (void)state;
    assert_int_equal(head_of("\x7f", 1).number, 127);
    assert_true(head_of("\xff", 1).number == UINT64_MAX && head_of("\xff", 1).negative);
    assert_true(head_of("\xe0", 1).number == UINT64_MAX - 31);
    assert_true((int64_t)head_of("\xd0\x80", 2).number == -128);
    assert_true((int64_t)head_of("\xd1\x7f\xff", 3).number == 32767);
    assert_true((int64_t)head_of("\xd2\x80\0\0\0", 5).number == INT32_MIN);
    assert_true((int64_t)head_of("\xd3\x80\0\0\0\0\0\0\0", 9).number == INT64_MIN);
    assert_true(head_of("\xcf\xff\xff\xff\xff\xff\xff\xff\xff", 9).number == UINT64_MAX);
    assert_false(head_of("\xcf\xff\xff\xff\xff\xff\xff\xff\xff", 9).negative);
    assert_int_equal(head_of("\xd8\x05", 2).length, 16);
    assert_int_equal(head_of("\xc9\0\1\0\0\x07", 6).length, 65536);
    assert_int_equal(head_of("\xc9\0\1\0\0\x07", 6).type, 7);
    assert_int_equal(head_of("\x8f", 1).length, 15);
    assert_int_equal(head_of("\xdf\xff\xff\xff\xff", 5).length, UINT32_MAX);
}

static void test_a_tree(void **state)
{
    (void)state;
    static const uint64_t shape[] = { 2, 3 };
    static const uint64_t pair[] = { 2 };
    static const uint64_t four[] = { 4 };
    const memory_file files[] = { { "m", tree, sizeof tree - 1 }, { NULL, NULL, 0 } };
    coffer_import_options options = COFFER_IMPORT_OPTIONS_INIT;
    memory_input memory;
    coffer_input *input = NULL;
    coffer_import *made = NULL;
    coffer_error err;
    char written[1024];
    options.complex128 = true;
    options.scalars = COFFER_SCALARS_METADATA;
    assert_int_equal(memory_import(&memory, files, &options, &input, &made, &err), COFFER_OK);
    assert_string_equal(coffer_import_summarize(made)->reader, "flax");
    expect_tensor(made, 0, "a.w", COFFER_F32, 2, shape, COFFER_FATE_WRITTEN);
    expect_tensor(made, 1, "c", COFFER_F32, 2, shape, COFFER_FATE_WRITTEN);
    expect_tensor(made, 2, "z", COFFER_F64, 1, pair, COFFER_FATE_WRITTEN);
    expect_tensor(made, 3, "s", COFFER_UNKNOWN_DTYPE, 1, four, COFFER_FATE_SKIPPED);
    const size_t size = write_to_memory(made, written, sizeof written);
    static const char data[] = "0123456789abcdef"
                               "aaaabbbbccccddddeeeeffff"
                               "aaaabbbbccccddddeeeeffff";
    assert_true(size > sizeof data);
    assert_memory_equal(written + size - (sizeof data - 1), data, sizeof data - 1);
    coffer_import_free(made);
    coffer_input_free(input);
}

/* Whatever a byte becomes, reading ends, and what is accepted can be written and is the same again. */
static void test_every_byte(void **state)
{
    (void)state;
    const memory_file files[] = { { "m.msgpack", tree, sizeof tree - 1 }, { NULL, NULL, 0 } };
    coffer_import_options options = COFFER_IMPORT_OPTIONS_INIT;
    size_t accepted = 0;
    size_t unwritten = 0;
    options.skip_unsupported = true;
    every_byte(files, &options, &accepted, &unwritten);
    assert_true(accepted > 100);
    assert_int_equal(unwritten, 0);
}

static void test_without_memory(void **state)
{
    (void)state;
    const memory_file files[] = { { "m.msgpack", tree, sizeof tree - 1 }, { NULL, NULL, 0 } };
    coffer_import_options options = COFFER_IMPORT_OPTIONS_INIT;
    options.skip_unsupported = true;
    options.scalars = COFFER_SCALARS_METADATA;
    without_memory(files, &options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads),      cmocka_unit_test(test_numbers),        cmocka_unit_test(test_a_tree),
        cmocka_unit_test(test_every_byte), cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
