/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why: an ONNX model says of its elements in four ways where they are, one of which is another file. Varints of every length,
 * numbers at the limits of their dtypes, a model with elements in all of these ways, and models of which each byte in turn is
 * another one.
 */
#include "support_input.h"

#include "decode_numbers.h"
#include "wire.h"

#include <stdlib.h>

/* Tensors: "r" raw F32 [2], "n" I8 [3] as packed numbers (-1, 127, -128), "s" F32 [2] as single numbers, "e" I16 [4] in the file
   "d" from byte 2 on, "q" INT4 [3]. Then a constant, "k". */
static const char model[] =
    "\x08\x0a:\xa4\x01"
    "*\x11\x08\x02\x10\x01"
    "B\x01rJ\x08"
    "abcdefgh"
    "*\x1e\x08\x03\x10\x03"
    "B\x01n*\x15\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x7f\x80\xff\xff\xff\xff\xff\xff\xff\xff\x01"
    "*\x11\x08\x02\x10\x01"
    "B\x01s%ABCD%EFGH"
    "*%\x08\x04\x10\x05"
    "B\x01"
    "ej\x0d\x0a\x08location\x12\x01"
    "dj\x0b\x0a\x06offset\x12\x01"
    "2p\x01"
    "*\x0b\x08\x03\x10\x16"
    "B\x01qJ\x02xy"
    "\x0a(\x12\x01k\x22\x08"
    "Constant*\x19\x0a\x05value*\x10\x08\x04\x10\x02"
    "B\x04noneJ\x04klmn";

static void test_varints(void **state)
{
    (void)state;
    static const uint8_t longest[] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x00 };
    uint8_t beyond[11];
    uint64_t value = 0;
    assert_int_equal(coffer__wire_varint(longest, sizeof longest, &value), 10);
    assert_true(value == UINT64_MAX);
    for (size_t size = 0; size < 10; size++) {
        assert_int_equal(coffer__wire_varint(longest, size, &value), 0);
    }
    memcpy(beyond, longest, sizeof beyond);
    beyond[9] = 2;
    assert_int_equal(coffer__wire_varint(beyond, sizeof beyond, &value), 0);
    beyond[9] = 0x81;
    assert_int_equal(coffer__wire_varint(beyond, sizeof beyond, &value), 0);
    assert_int_equal(coffer__wire_varint((const uint8_t *)"\x80\x80\x00", 3, &value), 3);
    assert_int_equal(value, 0);
}

static void test_fields(void **state)
{
    (void)state;
    coffer__wire_field field;
    assert_true(coffer__wire_read((const uint8_t *)"\x7a\x03", 2, 7, &field));
    assert_int_equal(field.number, 15);
    assert_int_equal(field.begin, 9);
    assert_int_equal(field.size, 3);
    assert_true(coffer__wire_read((const uint8_t *)"\xf8\xff\xff\xff\x0f\x05", 6, 0, &field));
    assert_int_equal(field.number, (1 << 29) - 1);
    assert_int_equal(field.value, 5);
    assert_false(coffer__wire_read((const uint8_t *)"\x80\x80\x80\x80\x10\x05", 6, 0, &field));
    assert_false(coffer__wire_read((const uint8_t *)"\x02\x00", 2, 0, &field));
    for (unsigned kind = 3; kind < 8; kind++) {
        const uint8_t tag[] = { (uint8_t)(8 | kind), 0, 0, 0, 0 };
        assert_int_equal(coffer__wire_read(tag, sizeof tag, 0, &field), kind == 5);
    }
}

/* Whether a number, as protobuf writes it, is one of the dtype. */
static bool fits(coffer_dtype dtype, int64_t number)
{
    const coffer__import_plan_piece piece = { .coding = COFFER__CODING_NUMBERS, .as.numbers.dtype = dtype };
    uint8_t bytes[10];
    uint8_t element[8] = { 0 };
    size_t size = 0;
    uint64_t left = (uint64_t)number;
    do {
        bytes[size++] = (uint8_t)((left & 0x7f) | (left > 0x7f ? 0x80 : 0));
        left >>= 7;
    } while (left > 0);
    const size_t taken = coffer__number_decode(&piece, bytes, size, element);
    assert_true(taken == 0 || taken == size);
    assert_int_equal(coffer__number_decode(&piece, bytes, size - 1, element), 0);
    return taken > 0;
}

static void test_limits_of_dtypes(void **state)
{
    (void)state;
    assert_true(fits(COFFER_I8, -128) && fits(COFFER_I8, 127) && !fits(COFFER_I8, -129) && !fits(COFFER_I8, 128));
    assert_true(fits(COFFER_U8, 255) && !fits(COFFER_U8, 256) && !fits(COFFER_U8, -1));
    assert_true(fits(COFFER_I16, -32768) && !fits(COFFER_I16, 32768) && fits(COFFER_U16, 65535));
    assert_true(!fits(COFFER_U16, 65536) && !fits(COFFER_U16, -1));
    assert_true(fits(COFFER_I32, INT32_MIN) && fits(COFFER_I32, INT32_MAX) &&
                !fits(COFFER_I32, (int64_t)INT32_MAX + 1));
    assert_true(!fits(COFFER_I32, (int64_t)INT32_MIN - 1) && fits(COFFER_U32, UINT32_MAX));
    assert_true(!fits(COFFER_U32, (int64_t)UINT32_MAX + 1) && fits(COFFER_I64, INT64_MIN) && fits(COFFER_U64, -1));
    assert_true(fits(COFFER_BOOL, 0) && fits(COFFER_BOOL, 1) && !fits(COFFER_BOOL, 2));
}

static void test_what_a_piece_can_be(void **state)
{
    (void)state;
    coffer__import_plan_piece piece = {
        .coding = COFFER__CODING_NUMBERS, .as.numbers.dtype = COFFER_I32, .stored_size = 3, .size = 12
    };
    assert_true(coffer__numbers_fit(&piece));
    piece.size = 16;
    assert_false(coffer__numbers_fit(&piece));
    piece.size = 11;
    assert_false(coffer__numbers_fit(&piece));
    piece = (coffer__import_plan_piece){ .as.numbers.dtype = COFFER_I64, .stored_size = 11, .size = 8 };
    assert_true(coffer__numbers_fit(&piece));
    piece.stored_size = 12;
    assert_false(coffer__numbers_fit(&piece));
    /* Without elements there are no bytes either. */
    piece = (coffer__import_plan_piece){ .as.numbers.dtype = COFFER_I32, .stored_size = 1 };
    assert_false(coffer__numbers_fit(&piece));
    piece.stored_size = 0;
    assert_true(coffer__numbers_fit(&piece));
    piece = (coffer__import_plan_piece){ .as.numbers = { 0x25, COFFER_F32 }, .stored_size = 10, .size = 8 };
    assert_true(coffer__numbers_fit(&piece));
    piece.as.numbers.tag = 0x21;
    assert_false(coffer__numbers_fit(&piece));
    piece.as.numbers.tag = 0x25;
    piece.stored_size = 9;
    assert_false(coffer__numbers_fit(&piece));
    piece = (coffer__import_plan_piece){ .as.numbers.dtype = COFFER_BF16, .stored_size = 8, .size = 4 };
    assert_false(coffer__numbers_fit(&piece));
    piece.as.numbers.dtype = (coffer_dtype)200;
    assert_false(coffer__numbers_fit(&piece));
}

static void test_every_way(void **state)
{
    (void)state;
    static const uint64_t two[] = { 2 };
    static const uint64_t three[] = { 3 };
    static const uint64_t four[] = { 4 };
    const memory_file files[] = { { "m.onnx", model, sizeof model - 1 },
                                  { "d", "--12345678--", 12 },
                                  { NULL, NULL, 0 } };
    coffer_import_options options = COFFER_IMPORT_OPTIONS_INIT;
    memory_input memory;
    coffer_input *input = NULL;
    coffer_import *made = NULL;
    coffer_error err;
    char written[2048];
    options.constants = true;
    options.packed = true;
    assert_int_equal(memory_import(&memory, files, &options, &input, &made, &err), COFFER_OK);
    assert_string_equal(coffer_import_summarize(made)->reader, "onnx");
    expect_tensor(made, 0, "r", COFFER_F32, 1, two, COFFER_FATE_WRITTEN);
    expect_tensor(made, 1, "n", COFFER_I8, 1, three, COFFER_FATE_WRITTEN);
    expect_tensor(made, 2, "s", COFFER_F32, 1, two, COFFER_FATE_WRITTEN);
    expect_tensor(made, 3, "e", COFFER_I16, 1, four, COFFER_FATE_WRITTEN);
    expect_tensor(made, 4, "q", COFFER_U8, 1, two, COFFER_FATE_WRITTEN);
    expect_tensor(made, 5, "k", COFFER_U8, 1, four, COFFER_FATE_WRITTEN);
    const size_t size = write_to_memory(made, written, sizeof written);
    static const char data[] = "abcdefghABCDEFGH12345678\xff\x7f\x80klmnxy";
    assert_true(size > sizeof data);
    assert_memory_equal(written + size - (sizeof data - 1), data, sizeof data - 1);
    coffer_import_free(made);
    coffer_input_free(input);
}

/* Whatever a byte becomes, reading ends, and what is accepted can be written, or says why it cannot. */
static void test_every_byte(void **state)
{
    (void)state;
    const memory_file files[] = { { "m.onnx", model, sizeof model - 1 },
                                  { "d", "--12345678--", 12 },
                                  { NULL, NULL, 0 } };
    coffer_import_options options = COFFER_IMPORT_OPTIONS_INIT;
    size_t accepted = 0;
    size_t unwritten = 0;
    options.skip_unsupported = true;
    options.constants = true;
    every_byte(files, &options, &accepted, &unwritten);
    options.packed = true;
    every_byte(files, &options, &accepted, &unwritten);
    assert_true(accepted > unwritten + 100);
}

static void test_without_memory(void **state)
{
    (void)state;
    const memory_file files[] = { { "m.onnx", model, sizeof model - 1 },
                                  { "d", "--12345678--", 12 },
                                  { NULL, NULL, 0 } };
    coffer_import_options options = COFFER_IMPORT_OPTIONS_INIT;
    options.constants = true;
    options.packed = true;
    without_memory(files, &options);
    options.packed = false;
    options.skip_unsupported = true;
    without_memory(files, &options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_varints),          cmocka_unit_test(test_fields),
        cmocka_unit_test(test_limits_of_dtypes), cmocka_unit_test(test_what_a_piece_can_be),
        cmocka_unit_test(test_every_way),        cmocka_unit_test(test_every_byte),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
