/* SPDX-License-Identifier: Apache-2.0 */
/* Why: the vectors hold the reader's verdicts on bintensors; here are what it takes in memory, what a table says, and what is
   written: the bytes of the Rust package, every refusal in time, and nothing that its readers would refuse. */
#include "support_cmocka.h"

#include "coffer.h"
#include "dtype.h"
#include "support_header.h"
#include "support_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static coffer_header_options bintensors(void)
{
    coffer_header_options options = COFFER_HEADER_OPTIONS_INIT;
    options.format = COFFER_FORMAT_BINTENSORS;
    return options;
}

/* Builds, and compares the header behind the frame, without its padding, which must be spaces to a multiple of 8; it is freed. */
static void expect_bytes(coffer_header *header, bool empty_metadata, const char *expected, size_t size)
{
    const void *bytes = NULL;
    uint64_t built = 0;
    coffer_error err;
    coffer_header_options options = bintensors();
    options.empty_metadata = empty_metadata;
    assert_int_equal(coffer_header_build(header, &options, &bytes, &built, NULL, &err), COFFER_OK);
    assert_int_equal(built, 8 + (size + 7) / 8 * 8);
    assert_int_equal(*(const unsigned char *)bytes, built - 8);
    assert_memory_equal((const char *)bytes + 8, expected, size);
    assert_memory_equal((const char *)bytes + 8 + size, "       ", (size_t)built - 8 - size);
    coffer_header_free(header);
}

#define EXPECT(header, empty, text) expect_bytes(header, empty, text, sizeof(text) - 1)

/* ---- what is written ---- */

/* The examples of the format's description, which the Rust package wrote. */
static void test_the_bytes_of_the_rust_package(void **state)
{
    (void)state;
    coffer_header *header = new_header();
    add_tensor(header, "weight", COFFER_F32, 2, 2, 3);
    EXPECT(header, false, "\0\1\6weight\x0B\2\2\3\0\x18");
    header = new_header();
    add_tensor(header, "ln_f.weight", COFFER_F32, 2, 4, 4);
    add_tensor(header, "ln_f.bias", COFFER_F32, 1, 4, 0);
    set_metadata(header, "author", "x");
    EXPECT(header, false, "\1\1\6author\1x\2\x09ln_f.bias\x0B\1\4\0\x10\x0Bln_f.weight\x0B\2\4\4\x10P");
    EXPECT(new_header(), false, "\0\0");
    EXPECT(new_header(), true, "\1\0\0");
    header = new_header();
    set_metadata(header, "k", "v");
    EXPECT(header, false, "\1\1\1k\1v\0");
    header = new_header();
    set_metadata(header, "k", "v");
    EXPECT(header, true, "\1\1\1k\1v\0");
}

static void test_canonical_order(void **state)
{
    (void)state;
    coffer_header *header = new_header();
    add_tensor(header, "a", COFFER_BOOL, 1, 1, 0);
    add_tensor(header, "b", COFFER_F8_E4M3, 1, 1, 0);
    add_tensor(header, "a.9", COFFER_U64, 1, 1, 0);
    add_tensor(header, "a.10", COFFER_U64, 1, 1, 0);
    set_metadata(header, "z", "1");
    set_metadata(header, "a", "old");
    set_metadata(header, "a", "");
    set_metadata(header, "a", "new");
    EXPECT(header, false,
           "\1\2\1a\3new\1z\0011\4\4a.10\x0E\1\1\0\x08\3a.9\x0E\1\1\x08\x10\1b\4\1\1\x10\x11\1a\0\1\1\x11\x12");
}

static void test_numbers_of_every_width(void **state)
{
    (void)state;
    coffer_header *header = new_header();
    const uint64_t shape[] = { 0, 250, 251, 65535, 65536, UINT32_MAX, (uint64_t)UINT32_MAX + 1, UINT64_MAX };
    assert_int_equal(coffer_header_add(header, "a", 1, COFFER_U8, shape, 8, NULL), COFFER_OK);
    EXPECT(header, false,
           "\0\1\1a\1\x08\0\xFA\xFB\xFB\0\xFB\xFF\xFF\xFC\0\0\1\0\xFC\xFF\xFF\xFF\xFF\xFD\0\0\0\0\1\0\0\0"
           "\xFD\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\0\0");
}

static void test_alignment_and_slack(void **state)
{
    (void)state;
    coffer_header *header = new_header();
    add_tensor(header, "a", COFFER_U8, 1, 3, 0);
    coffer_header_options options = bintensors();
    options.alignment = 64;
    options.slack = 100;
    const coffer_table *table = NULL;
    uint64_t size = 0;
    assert_int_equal(coffer_header_build(header, &options, NULL, &size, &table, NULL), COFFER_OK);
    assert_int_equal(size, 128);
    assert_int_equal(coffer_table_slack(table), 128 - 8 - 9);
    assert_int_equal(coffer_table_data_offset(table), 128);
    assert_int_equal(coffer_table_format(table), COFFER_FORMAT_BINTENSORS);
    assert_int_equal(coffer_header_at(header, 0)->offset, 128);
    coffer_header_free(header);
}

/* ---- what is not written ---- */

static coffer_status build_status(coffer_header *header, const coffer_header_options *options, coffer_error *err)
{
    const void *bytes = NULL;
    const coffer_status status = coffer_header_build(header, options, &bytes, NULL, NULL, err);
    assert_int_equal(bytes == NULL, status != COFFER_OK);
    coffer_header_free(header);
    return status;
}

/* Every dtype is written as itself or refused by name, and the numbers of both lists come in one order. */
static void test_every_dtype(void **state)
{
    (void)state;
    unsigned tags = 0;
    for (int dtype = 1; dtype <= COFFER_DTYPE_COUNT; dtype++) {
        coffer_header *header = new_header();
        add_tensor(header, "fine", COFFER_U64, 1, 1, 0);
        add_tensor(header, "odd\n", (coffer_dtype)dtype, 1, 8, 0);
        const coffer_header_options options = bintensors();
        const coffer_table *table = NULL;
        coffer_error err;
        const coffer_status status = coffer_header_build(header, &options, NULL, NULL, &table, &err);
        const unsigned tag = coffer__dtype_tag((coffer_dtype)dtype);
        if (tag == COFFER__TAG_COUNT) {
            assert_int_equal(status, COFFER_ERR_DTYPE);
            assert_string_equal(err.tensor, "odd\\x0a");
            assert_non_null(strstr(err.message, coffer_dtype_name((coffer_dtype)dtype)));
        } else {
            assert_int_equal(status, COFFER_OK);
            assert_int_equal(tag, tags++);
            assert_int_equal(coffer_table_find(table, "odd\n", 4)->dtype, dtype);
        }
        coffer_header_free(header);
    }
    assert_int_equal(tags, COFFER__TAG_COUNT);
    assert_int_equal(coffer__dtype_tag(COFFER_UNKNOWN_DTYPE), COFFER__TAG_COUNT);
}

static void test_formats_that_are_not_written(void **state)
{
    (void)state;
    coffer_error err;
    coffer_header_options options = bintensors();
    options.format = COFFER_FORMAT_BINTENSORS_ALPHA;
    assert_int_equal(build_status(new_header(), &options, &err), COFFER_ERR_ARGUMENT);
    options.format = (coffer_format)99;
    assert_int_equal(build_status(new_header(), &options, &err), COFFER_ERR_ARGUMENT);
    options.format = COFFER_FORMAT_ANY;
    assert_int_equal(build_status(new_header(), &options, &err), COFFER_OK);
}

/* A tensor of rank 0 is claimed with 72 bytes in advance, and with 36 and its name's when it is read: of the largest header
   that is read, to the byte. */
static void test_what_readers_would_refuse(void **state)
{
    (void)state;
    coffer_error err;
    coffer_header_options options = bintensors();
    /* 1 + 8 + 2 * 72 in advance. */
    for (uint64_t limit = 152; limit <= 153; limit++) {
        coffer_header *header = new_header();
        add_tensor(header, "a", COFFER_U8, 0, 0, 0);
        add_tensor(header, "b", COFFER_U8, 0, 0, 0);
        options.max_header_size = limit;
        assert_int_equal(build_status(header, &options, &err), limit == 153 ? COFFER_OK : COFFER_ERR_HEADER_TOO_LARGE);
    }
    /* 1 + 8 + (16 + 1 + 100) of metadata, then 8 + (36 + 50 + 2 * 8) of a tensor. */
    char text[101];
    memset(text, 'x', 100);
    text[100] = '\0';
    for (uint64_t limit = 235; limit <= 236; limit++) {
        coffer_header *header = new_header();
        set_metadata(header, "k", "replaced");
        set_metadata(header, "k", text);
        add_tensor(header, text + 50, COFFER_U8, 2, 1, 1);
        options.max_header_size = limit;
        assert_int_equal(build_status(header, &options, &err), limit == 236 ? COFFER_OK : COFFER_ERR_HEADER_TOO_LARGE);
    }
    assert_int_equal(err.code, COFFER_ERR_HEADER_TOO_LARGE);
    assert_int_equal(err.expected, 235);
    assert_int_equal(err.actual, 236);
    /* The claim in advance for two pairs, 1 + 8 + 2 * 48, is more than what they take. */
    for (uint64_t limit = 104; limit <= 105; limit++) {
        coffer_header *header = new_header();
        set_metadata(header, "a", "");
        set_metadata(header, "b", "");
        options.max_header_size = limit;
        assert_int_equal(build_status(header, &options, &err), limit == 105 ? COFFER_OK : COFFER_ERR_HEADER_TOO_LARGE);
    }
}

static void test_sums_and_duplicates(void **state)
{
    (void)state;
    coffer_error err;
    const coffer_header_options options = bintensors();
    coffer_header *header = new_header();
    for (int i = 0; i < 17; i++) {
        char name[2] = { (char)('a' + i), '\0' };
        add_tensor(header, name, COFFER_U8, 2, UINT64_C(1) << 30, UINT64_C(1) << 30);
    }
    assert_int_equal(build_status(header, &options, &err), COFFER_ERR_OVERFLOW);
    header = new_header();
    add_tensor(header, "a", COFFER_U8, 0, 0, 0);
    add_tensor(header, "a", COFFER_U8, 0, 0, 0);
    assert_int_equal(build_status(header, &options, &err), COFFER_ERR_DUPLICATE_NAME);
    assert_int_equal(err.offset, 8 + 2 + 6);
}

static coffer_status build_with(memory_meter *meter, size_t fail_at)
{
    const coffer_allocator allocator = metered_allocator(meter);
    meter->fail_at = fail_at;
    coffer_header *header = NULL;
    coffer_status status = coffer_header_new(&header, &allocator, NULL);
    if (status == COFFER_OK) {
        status = coffer_header_add(header, "a", 1, COFFER_U8, NULL, 0, NULL);
    }
    if (status == COFFER_OK) {
        status = coffer_header_set_metadata(header, "k", 1, "v", 1, NULL);
    }
    if (status == COFFER_OK) {
        const coffer_header_options options = bintensors();
        status = coffer_header_build(header, &options, NULL, NULL, NULL, NULL);
    }
    coffer_header_free(header);
    assert_int_equal(meter->blocks, 0);
    return status;
}

static void test_no_memory(void **state)
{
    (void)state;
    memory_meter meter;
    assert_int_equal(build_with(&meter, 0), COFFER_OK);
    const size_t requests = meter.requests;
    assert_true(requests >= 5);
    for (size_t i = 1; i <= requests; i++) {
        assert_int_equal(build_with(&meter, i), COFFER_ERR_MEMORY);
    }
}

/* ---- what is read ---- */

static coffer_table *parse(const char *header, size_t size, const coffer_parse_options *options)
{
    uint8_t file[512] = { (uint8_t)size };
    assert_true(size <= 255);
    memcpy(file + 8, header, size);
    coffer_table *table = NULL;
    coffer_error err;
    const coffer_status status = coffer_parse(&table, NULL, file, 8 + size, coffer_libc_allocator(), options, &err);
    memset(file, 0xAA, sizeof file); /* nothing points there any more */
    assert_int_equal(status, COFFER_OK);
    return table;
}

static void test_everything_a_table_says(void **state)
{
    (void)state;
    static const char header[] = "\1\2\1z\1v\1a\2e\0\3\1b\x0B\2\2\3\0\x18\1x\x07\1\0\x18\x18\4n\0ul\1\0\x18\x19  ";
    coffer_table *table = parse(header, sizeof header - 1, NULL);
    assert_int_equal(coffer_table_format(table), COFFER_FORMAT_BINTENSORS);
    assert_int_equal(coffer_table_count(table), 3);
    assert_int_equal(coffer_table_data_offset(table), 8 + sizeof header - 1);
    assert_int_equal(coffer_table_data_size(table), 25);
    assert_int_equal(coffer_table_slack(table), 2);
    assert_true(coffer_table_has_metadata(table));
    assert_int_equal(coffer_table_metadata_count(table), 2);
    size_t value_len = 0;
    assert_memory_equal(coffer_table_metadata_get(table, "a", 1, &value_len), "e\0", 3);
    assert_int_equal(value_len, 2);
    const coffer_tensor *b = coffer_table_find(table, "b", 1);
    assert_int_equal(b->dtype, COFFER_F32);
    assert_int_equal(b->rank, 2);
    assert_int_equal(b->shape[0], 2);
    assert_int_equal(b->shape[1], 3);
    assert_int_equal(b->offset, coffer_table_data_offset(table));
    assert_int_equal(b->size, 24);
    assert_int_equal(b->shard, 0);
    const coffer_tensor *last = coffer_table_at(table, 2);
    assert_int_equal(last->name_len, 4);
    assert_memory_equal(last->name, "n\0ul", 5);
    assert_int_equal(last->rank, 0);
    assert_int_equal(coffer_table_note(table, COFFER_NOTE_CONTROL_NAME).count, 1);
    coffer_table_free(table);
}

static void test_no_metadata_and_none_in_it(void **state)
{
    (void)state;
    coffer_table *table = parse("\0\0", 2, NULL);
    assert_false(coffer_table_has_metadata(table));
    coffer_table_free(table);
    table = parse("\1\0\0", 3, NULL);
    assert_true(coffer_table_has_metadata(table));
    assert_int_equal(coffer_table_metadata_count(table), 0);
    coffer_table_free(table);
    table = parse("{\"__metadata__\":{}}", 19, NULL);
    assert_true(coffer_table_has_metadata(table));
    assert_int_equal(coffer_table_format(table), COFFER_FORMAT_SAFETENSORS);
    coffer_table_free(table);
    table = parse("{\"__metadata__\":null}", 21, NULL);
    assert_false(coffer_table_has_metadata(table));
    coffer_table_free(table);
}

static void test_long_numbers_are_counted(void **state)
{
    (void)state;
    static const char header[] = "\0\xFB\1\0\xFC\1\0\0\0a\xFB\1\0\xFD\1\0\0\0\0\0\0\0\xFB\0\0\0\0";
    coffer_table *table = parse(header, sizeof header - 1, NULL);
    assert_int_equal(coffer_table_note(table, COFFER_NOTE_LONG_NUMBER).count, 5);
    assert_int_equal(coffer_table_note(table, COFFER_NOTE_LONG_NUMBER).offset, 9);
    assert_int_equal(coffer_table_at(table, 0)->shape[0], 0);
    coffer_table_free(table);
}

static void test_hidden_bytes_are_counted(void **state)
{
    (void)state;
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.hidden_bytes = true;
    coffer_table *table = parse("\0\0 x y", 6, &options);
    assert_int_equal(coffer_table_note(table, COFFER_NOTE_PADDING).count, 2);
    assert_int_equal(coffer_table_note(table, COFFER_NOTE_PADDING).offset, 8 + 3);
    assert_int_equal(coffer_table_slack(table), 4);
    coffer_table_free(table);
}

/* What refuses a header, and where: parse it, and compare the error. */
static void expect_refusal(const char *header, size_t size, coffer_status code, uint64_t offset, const char *message)
{
    uint8_t file[512] = { (uint8_t)size };
    assert_true(size <= 255);
    memcpy(file + 8, header, size);
    coffer_table *table = NULL;
    coffer_error err;
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.format = COFFER_FORMAT_BINTENSORS;
    const coffer_status status = coffer_parse(&table, NULL, file, 8 + size, coffer_libc_allocator(), &options, &err);
    assert_int_equal(status, code);
    assert_int_equal(err.code, code);
    assert_int_equal(err.offset, offset);
    assert_non_null(strstr(err.message, message));
    if (code == COFFER_ERR_SIZE) {
        assert_int_equal(err.expected, 24);
        assert_int_equal(err.actual, 23);
    }
}

#define REFUSED(header, code, offset, message) expect_refusal(header, sizeof(header) - 1, code, offset, message)

static void test_messages_with_numbers(void **state)
{
    (void)state;
    REFUSED("\0\1\1a\x0F\0\0\0", COFFER_ERR_DTYPE, 8 + 4, "15");
    REFUSED("\0\1\1a\x0B\2\2\3\0\x17", COFFER_ERR_SIZE, 8 + 2,
            "dtype and shape make 24 bytes, but the range from 0 to 23 has 23");
}

/* Numbers of every width, of many tensors, so that most of them stand far from the header's end, where they are read by a way of
   their own. */
static void test_numbers_far_from_the_end(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {
        0, 250, 251, 252, 253, 254, 255, 256, 65535, 65536, UINT32_MAX, UINT64_C(1) << 32
    };
    const size_t count = sizeof sizes / sizeof sizes[0];
    coffer_header *header = new_header();
    for (size_t i = 0; i < 4 * count; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%02zu", i);
        add_tensor(header, name, COFFER_U8, 1, sizes[i % count], 0);
    }
    const void *bytes = NULL;
    uint64_t size = 0;
    const coffer_header_options options = bintensors();
    coffer_table *table = NULL;
    coffer_error err;
    assert_int_equal(coffer_header_build(header, &options, &bytes, &size, NULL, &err), COFFER_OK);
    assert_int_equal(coffer_parse(&table, NULL, bytes, (size_t)size, coffer_libc_allocator(), NULL, &err), COFFER_OK);
    coffer_header_free(header);
    assert_int_equal(coffer_table_count(table), 4 * count);
    uint64_t offset = size;
    for (size_t i = 0; i < 4 * count; i++) {
        const coffer_tensor *tensor = coffer_table_at(table, i);
        assert_int_equal(tensor->shape[0], sizes[i % count]);
        assert_int_equal(tensor->size, sizes[i % count]);
        assert_int_equal(tensor->offset, offset);
        offset += tensor->size;
    }
    assert_int_equal(coffer_table_note(table, COFFER_NOTE_LONG_NUMBER).count, 0);
    coffer_table_free(table);
}

/* Far from the header's end tensors are read by a way of their own: it knows where names are, too. */
static void test_a_name_that_comes_twice_far_from_the_end(void **state)
{
    (void)state;
    static uint8_t file[1024];
    coffer_header *header = new_header();
    for (int i = 10; i < 40; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        add_tensor(header, name, COFFER_U8, 1, 0, 0);
    }
    const void *bytes = NULL;
    uint64_t size = 0;
    const coffer_header_options options = bintensors();
    assert_int_equal(coffer_header_build(header, &options, &bytes, &size, NULL, NULL), COFFER_OK);
    assert_true(size <= sizeof file);
    memcpy(file, bytes, (size_t)size);
    coffer_header_free(header);
    for (size_t at = 8; at + 3 < size; at++) {
        if (memcmp(file + at, "n14", 3) != 0) {
            continue;
        }
        file[at + 2] = '1';
        coffer_table *table = NULL;
        coffer_error err;
        assert_int_equal(coffer_parse(&table, NULL, file, (size_t)size, coffer_libc_allocator(), NULL, &err),
                         COFFER_ERR_DUPLICATE_NAME);
        assert_int_equal(err.offset, at - 1);
        return;
    }
    fail();
}

static void test_names_of_formats(void **state)
{
    (void)state;
    assert_string_equal(coffer_format_name(COFFER_FORMAT_ANY), "");
    assert_string_equal(coffer_format_name(COFFER_FORMAT_SAFETENSORS), "safetensors");
    assert_string_equal(coffer_format_name(COFFER_FORMAT_BINTENSORS), "bintensors");
    assert_string_equal(coffer_format_name(COFFER_FORMAT_BINTENSORS_ALPHA), "bintensors, layout A");
    assert_string_equal(coffer_format_name((coffer_format)4), "");
    assert_string_equal(coffer_format_name((coffer_format)-1), "");
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.format = (coffer_format)4;
    coffer_table *table = NULL;
    coffer_error err;
    assert_int_equal(coffer_parse(&table, NULL, "", 0, coffer_libc_allocator(), &options, &err), COFFER_ERR_ARGUMENT);
}

/* ---- memory ---- */

static uint8_t *framed(size_t size)
{
    uint8_t *file = calloc(1, 8 + size);
    assert_non_null(file);
    for (unsigned i = 0; i < 8; i++) {
        file[i] = (uint8_t)((uint64_t)size >> (8 * i));
    }
    return file;
}

static void expect_within_bound(const uint8_t *file, size_t size, size_t count)
{
    memory_meter meter = { 0 };
    const coffer_allocator allocator = metered_allocator(&meter);
    coffer_table *table = NULL;
    assert_int_equal(coffer_parse(&table, NULL, file, 8 + size, &allocator, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_table_count(table), count);
    for (size_t i = 0; i < count; i += 997) {
        const coffer_tensor *tensor = coffer_table_at(table, i);
        assert_ptr_equal(coffer_table_find(table, tensor->name, tensor->name_len), tensor);
    }
    assert_true(meter.peak <= 24 * size);
    coffer_table_free(table);
    assert_int_equal(meter.held, 0);
}

/* The shortest tensors there can be: three bytes of name, and as many as each can be told apart. */
static void test_the_densest_headers(void **state)
{
    (void)state;
    const size_t count = 200000;
    const size_t size = 1 + 5 + count * 9;
    uint8_t *file = framed(size);
    uint8_t *out = file + 8;
    memcpy(out, "\0\xFC\x40\x0D\3\0", 6);
    out += 6;
    for (size_t i = 0; i < count; i++) {
        const uint8_t entry[] = {
            3, (uint8_t)('0' + i / 4096), (uint8_t)('0' + i / 64 % 64), (uint8_t)('0' + i % 64), 1, 1, 0, 0, 0
        };
        memcpy(out, entry, sizeof entry);
        out += sizeof entry;
    }
    expect_within_bound(file, size, count);
    free(file);
}

static void test_a_million_dimensions(void **state)
{
    (void)state;
    const uint32_t rank = 1000000;
    const size_t size = 5 + 5 + rank + 2;
    uint8_t *file = framed(size);
    memcpy(file + 8, "\0\1\1a\1\xFC\x40\x42\x0F\0", 10);
    expect_within_bound(file, size, 1);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_bytes_of_the_rust_package),
        cmocka_unit_test(test_canonical_order),
        cmocka_unit_test(test_numbers_of_every_width),
        cmocka_unit_test(test_alignment_and_slack),
        cmocka_unit_test(test_every_dtype),
        cmocka_unit_test(test_formats_that_are_not_written),
        cmocka_unit_test(test_what_readers_would_refuse),
        cmocka_unit_test(test_sums_and_duplicates),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_everything_a_table_says),
        cmocka_unit_test(test_no_metadata_and_none_in_it),
        cmocka_unit_test(test_long_numbers_are_counted),
        cmocka_unit_test(test_hidden_bytes_are_counted),
        cmocka_unit_test(test_messages_with_numbers),
        cmocka_unit_test(test_numbers_far_from_the_end),
        cmocka_unit_test(test_a_name_that_comes_twice_far_from_the_end),
        cmocka_unit_test(test_names_of_formats),
        cmocka_unit_test(test_the_densest_headers),
        cmocka_unit_test(test_a_million_dimensions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
