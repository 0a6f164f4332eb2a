/* SPDX-License-Identifier: Apache-2.0 */
/* Why: the vectors hold the reader's verdicts on bintensors; here are what it takes in memory, what a table says, and what is
   written: the bytes of the Rust package, every refusal in time, and nothing that its readers would refuse. */
#include "support_cmocka.h"

#include "bintensors_write.h"
#include "coffer.h"
#include "dtype.h"
#include "support_header.h"
#include "support_memory.h"
#include "table.h"

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

/* The format's own list of dtypes, by number. */
static void test_the_numbers_of_dtypes(void **state)
{
    (void)state;
    static const char *const names[] = { "BOOL", "U8",  "I8",  "F8_E5M2", "F8_E4M3", "I16", "U16", "F16",
                                         "BF16", "I32", "U32", "F32",     "F64",     "I64", "U64" };
    assert_int_equal(sizeof names / sizeof names[0], COFFER__TAG_COUNT);
    for (unsigned tag = 0; tag < COFFER__TAG_COUNT; tag++) {
        const coffer_dtype dtype = coffer_dtype_from_name(names[tag], strlen(names[tag]));
        assert_int_equal(coffer__dtype_tags[tag], dtype);
        assert_int_equal(coffer__dtype_tag(dtype), tag);
    }
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

/* Every list is claimed whole, then each of its items exactly, from the first to the last. */
static void test_what_items_claim(void **state)
{
    (void)state;
    coffer_error err;
    coffer_header_options options = bintensors();
    char text[101];
    memset(text, 'x', 100);
    text[100] = '\0';
    /* Three tensors, of 36 + 100 and 36 + 99 and 36 + 98 instead of 72 each: 1 + 8 + 3 * 72 + 64 + 63 + 62. */
    for (uint64_t limit = 413; limit <= 414; limit++) {
        coffer_header *header = new_header();
        add_tensor(header, text, COFFER_U8, 0, 0, 0);
        add_tensor(header, text + 1, COFFER_U8, 0, 0, 0);
        add_tensor(header, text + 2, COFFER_U8, 0, 0, 0);
        options.max_header_size = limit;
        assert_int_equal(build_status(header, &options, &err), limit == 414 ? COFFER_OK : COFFER_ERR_HEADER_TOO_LARGE);
    }
    /* One pair: 1 + 8 + 16 + 1 + 100, then 8 for no tensors. */
    for (uint64_t limit = 133; limit <= 134; limit++) {
        coffer_header *header = new_header();
        set_metadata(header, "k", text);
        options.max_header_size = limit;
        assert_int_equal(build_status(header, &options, &err), limit == 134 ? COFFER_OK : COFFER_ERR_HEADER_TOO_LARGE);
    }
}

static void test_a_dtype_that_is_not_written_alone(void **state)
{
    (void)state;
    coffer_error err;
    const coffer_header_options options = bintensors();
    coffer_header *header = new_header();
    add_tensor(header, "only", COFFER_F8_E8M0, 1, 8, 0);
    assert_int_equal(build_status(header, &options, &err), COFFER_ERR_DTYPE);
    assert_string_equal(err.tensor, "only");
    /* Not what the reader would say of a header in which it is written all the same. */
    assert_non_null(strstr(err.message, "which bintensors lacks"));
}

/* Texts that callers give may be no text at all. */
static void test_an_empty_text(void **state)
{
    (void)state;
    char bytes[2] = { 'x', 'x' };
    coffer__header_text text = { bytes, 0 };
    coffer__bintensors_put_string(&text, NULL, 0);
    assert_int_equal(text.size, 1);
    assert_memory_equal(bytes, "\0x", 2);
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
    memset(&err, 0x5A, sizeof err);
    const coffer_status status = coffer_parse(&table, NULL, file, 8 + size, coffer_libc_allocator(), options, &err);
    memset(file, 0xAA, sizeof file); /* nothing points there any more */
    assert_int_equal(status, COFFER_OK);
    assert_int_equal(err.tensor[0], 0x5A); /* what succeeds says nothing of a failure */
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
static void expect_refusal(const char *header, size_t size, coffer_format format, coffer_status code, uint64_t offset,
                           const char *message)
{
    uint8_t file[512] = { (uint8_t)size };
    assert_true(size <= 255);
    memcpy(file + 8, header, size);
    coffer_table *table = NULL;
    coffer_error err;
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.format = format;
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

#define REFUSED(header, code, offset, message)                                                                         \
    expect_refusal(header, sizeof(header) - 1, COFFER_FORMAT_BINTENSORS, code, offset, message)
#define REFUSED_ALPHA(header, code, offset, message)                                                                   \
    expect_refusal(header, sizeof(header) - 1, COFFER_FORMAT_BINTENSORS_ALPHA, code, offset, message)

static void test_messages_with_numbers(void **state)
{
    (void)state;
    REFUSED("\0\1\1a\x0F\0\0\0", COFFER_ERR_DTYPE, 8 + 4, "at byte 12, 15 is not the number of one of the format's 15");
    REFUSED("\0\1\1a\x0B\2\2\3\0\x17", COFFER_ERR_SIZE, 8 + 2,
            "dtype and shape give 24 bytes, but the range from 0 to 23 has 23");
}

/* Only 251, 252 and 253 begin a number, and none of more bytes than its place allows. */
static void test_markers_that_are_none(void **state)
{
    (void)state;
    REFUSED("\0\xFE\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1", COFFER_ERR_NUMBER, 8 + 1,
            "at byte 9, 0xfe does not begin a number of at most 8 bytes");
    REFUSED("\0\xFF\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1", COFFER_ERR_NUMBER, 8 + 1,
            "at byte 9, 0xff does not begin a number of at most 8 bytes");
    REFUSED("\0\1\1a\xFD\1\0\0\0\0\0\0\0\0\0\0", COFFER_ERR_NUMBER, 8 + 4,
            "at byte 12, 0xfd does not begin a number of at most 4 bytes");
}

/* A list whose count says more than the rest of the header can hold is refused at its count; one that can be there is not. */
static void test_counts_that_cannot_be(void **state)
{
    (void)state;
    /* Two pairs of empty texts are five bytes with the count of tensors: they are read, and are twice the same. */
    REFUSED("\1\2\0\0\0\0\0", COFFER_ERR_DUPLICATE_KEY, 8 + 4, "a second time");
    REFUSED("\1\3\0\0\0\0\0", COFFER_ERR_HEADER_ENDS, 8 + 1, "the metadata that begins at byte 9");
    REFUSED("\0\2\0\1\0\0\0\0\1\0\0", COFFER_ERR_HEADER_ENDS, 8 + 1, "the list of tensors");
    REFUSED_ALPHA("\0\2\1\0\0\1\1\0\0", COFFER_ERR_HEADER_ENDS, 8 + 1, "the list of tensors");
    REFUSED_ALPHA("\0\1\1\0\0\1\3\0\0\0\0", COFFER_ERR_HEADER_ENDS, 8 + 6, "the list of names");
    REFUSED_ALPHA("\0\1\1\0\0\1\2\0\0\0\0", COFFER_ERR_MISSING_FIELD, 8 + 6, "2 names are given to 1 tensors");
}

static void test_names_in_layout_a(void **state)
{
    (void)state;
    REFUSED_ALPHA("\0\2\1\0\0\1\1\0\1\2\2\1a\0\1b\0", COFFER_ERR_MISSING_FIELD, 8 + 16,
                  "a second name is given to tensor 0 of 2");
    REFUSED_ALPHA("\0\1\1\0\0\1\1\1a\1", COFFER_ERR_MISSING_FIELD, 8 + 9,
                  "a name is given to tensor 1, but there are only 1");
    /* The least that there can be: a name without letters, of a tensor with more dimensions than bytes behind it. */
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.format = COFFER_FORMAT_BINTENSORS_ALPHA;
    static const char header[] = "\0\1\1\x0A\1\1\1\1\1\1\1\1\1\1\0\1\1\0\0";
    coffer_table *table = parse(header, sizeof header - 1, &options);
    assert_int_equal(coffer_table_at(table, 0)->rank, 10);
    assert_string_equal(coffer_table_at(table, 0)->name, "");
    coffer_table_free(table);
}

/* A character is whole within its text, whatever stands behind that. */
static void test_half_a_character_at_the_end(void **state)
{
    (void)state;
    REFUSED("\0\1\3ab\xC3\xA9\0\0\0", COFFER_ERR_UTF8, 8 + 5, "at byte 13, a text is not UTF-8");
    REFUSED("\1\1\1\xE2\x82\xAC\0", COFFER_ERR_UTF8, 8 + 3, "at byte 11, a text is not UTF-8");
}

static void test_where_the_metadata_end(void **state)
{
    (void)state;
    coffer_table *table = parse("\1\1\1k\1v\0  ", 9, NULL);
    assert_int_equal(table->metadata_end, 6);
    coffer_table_free(table);
    table = parse("\0\0", 2, NULL);
    assert_int_equal(table->metadata_end, 1);
    coffer_table_free(table);
}

/* The last byte that a file can have is number 2^64-1: eight tensors of nearly 2^61 bytes each, up to it and one beyond. */
static void test_the_end_of_the_largest_file(void **state)
{
    (void)state;
    const uint64_t most = (UINT64_C(1) << 61) - 1;
    uint64_t last = most - 1000;
    for (int turn = 0; turn < 3; turn++) {
        coffer_header *header = new_header();
        for (char name = 'a'; name < 'h'; name++) {
            assert_int_equal(coffer_header_add(header, &name, 1, COFFER_U8, &most, 1, NULL), COFFER_OK);
        }
        assert_int_equal(coffer_header_add(header, "h", 1, COFFER_U8, &last, 1, NULL), COFFER_OK);
        const coffer_header_options options = bintensors();
        uint64_t size = 0;
        coffer_error err;
        const coffer_status status = coffer_header_build(header, &options, NULL, &size, NULL, &err);
        assert_int_equal(status, turn < 2 ? COFFER_OK : COFFER_ERR_RANGE);
        coffer_header_free(header);
        last = turn == 0 ? UINT64_MAX - size - 7 * most : last + 1;
    }
}

/*
 * A tensor reads the same wherever it stands, though far from the header's end it is read by a way of its own: the same bytes
 * with as few and with many spaces behind them. Their names are of bytes that numbers are made of, too.
 */
static void expect_the_same_everywhere(const uint8_t *header, size_t size)
{
    enum { SPACES = 200 };
    coffer_table *tables[2] = { NULL, NULL };
    coffer_error errs[2];
    coffer_status status[2];
    for (size_t i = 0; i < 2; i++) {
        const size_t whole = size + (i == 0 ? 0 : SPACES);
        uint8_t *file = malloc(8 + whole); /* as large as it must be, so that a byte too many read is seen */
        assert_non_null(file);
        memset(file, 0, 8);
        file[0] = (uint8_t)whole;
        file[1] = (uint8_t)(whole >> 8);
        memcpy(file + 8, header, size);
        memset(file + 8 + size, ' ', whole - size);
        coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
        options.format = COFFER_FORMAT_BINTENSORS;
        status[i] = coffer_parse(&tables[i], NULL, file, 8 + whole, coffer_libc_allocator(), &options, &errs[i]);
        free(file);
    }
    if (status[0] == COFFER_ERR_HEADER_ENDS) {
        coffer_table_free(tables[1]); /* spaces are numbers as well */
        return;
    }
    assert_int_equal(status[0], status[1]);
    if (status[0] != COFFER_OK) {
        assert_int_equal(errs[0].offset, errs[1].offset);
        return;
    }
    assert_int_equal(coffer_table_count(tables[0]), coffer_table_count(tables[1]));
    for (size_t i = 0; i < coffer_table_count(tables[0]); i++) {
        const coffer_tensor *near = coffer_table_at(tables[0], i);
        const coffer_tensor *far = coffer_table_at(tables[1], i);
        assert_int_equal(near->name_len, far->name_len);
        assert_memory_equal(near->name, far->name, near->name_len + 1);
        assert_int_equal(near->dtype, far->dtype);
        assert_int_equal(near->rank, far->rank);
        assert_memory_equal(near->shape, far->shape, near->rank * sizeof(uint64_t));
        assert_int_equal(far->offset, near->offset + SPACES);
        assert_int_equal(near->size, far->size);
    }
    for (int kind = 0; kind < COFFER_NOTE_COUNT; kind++) {
        const coffer_note near = coffer_table_note(tables[0], (coffer_note_kind)kind);
        assert_int_equal(near.count, coffer_table_note(tables[1], (coffer_note_kind)kind).count);
        /* Where a tensor is not aligned is a place in the data. */
        if (kind != COFFER_NOTE_UNALIGNED) {
            assert_int_equal(near.offset, coffer_table_note(tables[1], (coffer_note_kind)kind).offset);
        }
    }
    coffer_table_free(tables[0]);
    coffer_table_free(tables[1]);
}

/* Puts a number of `width` bytes behind its marker, or alone for a width of 0; returns what follows. */
static uint8_t *put_number(uint8_t *out, uint64_t value, unsigned width)
{
    *out++ = width == 0 ? (uint8_t)value : width == 2 ? 251 : width == 4 ? 252 : 253;
    for (unsigned i = 0; i < width; i++) {
        *out++ = (uint8_t)(value >> (8 * i));
    }
    return out;
}

static uint8_t *put_least(uint8_t *out, uint64_t value)
{
    return put_number(out, value, value <= 250 ? 0 : value <= UINT16_MAX ? 2 : value <= UINT32_MAX ? 4 : 8);
}

static void test_tensors_read_the_same_everywhere(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {
        0, 1, 250, 251, 255, 256, 65535, 65536, UINT32_MAX, 1u << 24, (uint64_t)UINT32_MAX + 1, UINT64_C(1) << 40
    };
    static const char *const names[] = { "\0\0\0\0", "\1\0\0\1\1\0\0", "a", "", "\1\1\1\0\1" };
    static const size_t name_sizes[] = { 4, 7, 1, 0, 5 };
    const size_t count = sizeof sizes / sizeof sizes[0];
    for (size_t i = 0; i < count * 5; i++) {
        for (unsigned rank = 0; rank <= 10; rank++) {
            uint8_t header[256];
            uint8_t *out = header;
            *out++ = 0;
            *out++ = 2;
            uint64_t end = 0;
            for (size_t k = 0; k < 2; k++) {
                const size_t name = (i + 2 * k) % 5;
                const uint64_t size = sizes[(i + k * 7) % count];
                *out++ = (uint8_t)name_sizes[name];
                memcpy(out, names[name], name_sizes[name]);
                out += name_sizes[name];
                *out++ = 1; /* U8 */
                *out++ = (uint8_t)rank;
                for (unsigned d = 0; d < rank; d++) {
                    out = put_least(out, d == rank - 1 ? size : 1);
                }
                out = put_least(out, end);
                end += rank == 0 ? 1 : size;
                out = put_least(out, end);
            }
            const size_t length = (size_t)(out - header);
            expect_the_same_everywhere(header, length);
            /* One byte of it another: a number that is too long, a marker, a dtype, a rank that are none. */
            static const uint8_t others[] = { 0, 1, 8, 9, 14, 15, 250, 251, 252, 253, 254, 255 };
            for (size_t at = 2; at < length; at++) {
                const uint8_t kept = header[at];
                for (size_t o = 0; o < sizeof others; o++) {
                    header[at] = others[o];
                    expect_the_same_everywhere(header, length);
                }
                header[at] = kept;
            }
        }
    }
}

/* As many dimensions as usual tensors have, each number as long as it can be, and nothing behind them, or not all of them. */
static void test_long_numbers_at_the_very_end(void **state)
{
    (void)state;
    for (unsigned rank = 7; rank <= 9; rank++) {
        uint8_t header[256];
        uint8_t *out = header;
        memcpy(out, "\0\1\1a\1", 5);
        out += 5;
        *out++ = (uint8_t)rank;
        for (unsigned d = 0; d < rank + 2; d++) {
            out = put_number(out, UINT64_C(1) << 40 | d, 8);
        }
        for (const uint8_t *end = out; end > header + 10; end--) {
            expect_the_same_everywhere(header, (size_t)(end - header));
        }
    }
}

/* In layout A the last name ends where the header does, or just before. */
static void test_names_at_the_very_end(void **state)
{
    (void)state;
    for (size_t length = 150; length < 170; length++) {
        const size_t size = 2 + 4 + 1 + 1 + length + 1;
        uint8_t *file = malloc(8 + size); /* as large as it must be, so that a byte too many read is seen */
        assert_non_null(file);
        memset(file, 0, 8);
        file[0] = (uint8_t)size;
        memcpy(file + 8, "\0\1\1\0\0\1\1", 7);
        file[8 + 7] = (uint8_t)length;
        memset(file + 8 + 8, 'n', length);
        file[8 + size - 1] = 0;
        coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
        options.format = COFFER_FORMAT_BINTENSORS_ALPHA;
        coffer_table *table = NULL;
        assert_int_equal(coffer_parse(&table, NULL, file, 8 + size, coffer_libc_allocator(), &options, NULL),
                         COFFER_OK);
        assert_int_equal(coffer_table_at(table, 0)->name_len, length);
        assert_memory_equal(coffer_table_at(table, 0)->name, file + 8 + 8, length);
        coffer_table_free(table);
        free(file);
    }
}

/* Many tensors of as many dimensions as usual ones have, and of one more: wherever the table's block is full, each has its own. */
static void test_where_the_block_grows(void **state)
{
    (void)state;
    enum { COUNT = 60 };
    for (unsigned rank = 7; rank <= 9; rank++) {
        for (unsigned shift = 0; shift < 120; shift++) {
            static uint8_t file[8 + 2048];
            uint8_t *out = file + 8;
            *out++ = 0;
            *out++ = COUNT + 1;
            memcpy(out, "\0\1", 2);
            out = put_number(out + 2, shift, 0);
            memset(out, 1, shift);
            out += shift;
            out = put_number(out, 0, 0);
            out = put_number(out, 1, 0);
            for (unsigned i = 0; i < COUNT; i++) {
                const uint8_t name[] = { 2, (uint8_t)('a' + i / 10), (uint8_t)('a' + i % 10), 1, (uint8_t)rank };
                memcpy(out, name, sizeof name);
                out += sizeof name;
                for (unsigned d = 0; d < rank; d++) {
                    *out++ = (uint8_t)(d == 0 ? 0 : 100 + d);
                }
                out = put_number(out, 1, 0);
                out = put_number(out, 1, 0);
            }
            const size_t size = (size_t)(out - file) - 8;
            file[0] = (uint8_t)size;
            file[1] = (uint8_t)(size >> 8);
            memory_meter meter;
            const coffer_allocator allocator = metered_allocator(&meter);
            coffer_table *table = NULL;
            assert_int_equal(coffer_parse(&table, NULL, file, 8 + size, &allocator, NULL, NULL), COFFER_OK);
            assert_true(meter.requests > 1);
            for (unsigned i = 0; i < COUNT; i++) {
                const char name[] = { (char)('a' + i / 10), (char)('a' + i % 10) };
                const coffer_tensor *tensor = coffer_table_find(table, name, 2);
                assert_non_null(tensor);
                assert_int_equal(tensor->rank, rank);
                for (unsigned d = 0; d < rank; d++) {
                    assert_int_equal(tensor->shape[d], d == 0 ? 0 : 100 + d);
                }
            }
            coffer_table_free(table);
        }
    }
}

/* How much memory a table begins with: what was measured for usual headers, which is enough for them; whoever changes it
   measures again. */
static void test_the_first_size_of_a_table(void **state)
{
    (void)state;
    coffer_header *header = new_header();
    for (int i = 0; i < 500; i++) {
        char name[64];
        snprintf(name, sizeof name, "model.layers.%d.self_attn.q_proj.weight", i);
        add_tensor(header, name, COFFER_BF16, 2, 4096, 4096);
    }
    const void *bytes = NULL;
    uint64_t size = 0;
    const coffer_header_options options = bintensors();
    assert_int_equal(coffer_header_build(header, &options, &bytes, &size, NULL, NULL), COFFER_OK);
    memory_meter meter;
    const coffer_allocator allocator = metered_allocator(&meter);
    coffer_table *table = NULL;
    assert_int_equal(coffer_parse(&table, NULL, bytes, (size_t)size, &allocator, NULL, NULL), COFFER_OK);
    const size_t text = 3 * (size_t)(size - 8);
    assert_int_equal(table->block_size, (sizeof(coffer_table) + text + text / 4 + text / 32 + 512 + 7) & ~(size_t)7);
    assert_int_equal(meter.requests, 1);
    coffer_table_free(table);
    coffer_header_free(header);
}

/* Parses with each request for memory failing in turn; returns how many there are. */
static size_t fail_each_request(const uint8_t *file, size_t size, coffer_format format)
{
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.format = format;
    memory_meter meter;
    const coffer_allocator allocator = metered_allocator(&meter);
    coffer_table *table = NULL;
    assert_int_equal(coffer_parse(&table, NULL, file, 8 + size, &allocator, &options, NULL), COFFER_OK);
    coffer_table_free(table);
    const size_t requests = meter.requests;
    for (size_t i = 1; i <= requests; i++) {
        coffer_error err;
        meter.requests = 0;
        meter.fail_at = i;
        table = NULL;
        assert_int_equal(coffer_parse(&table, NULL, file, 8 + size, &allocator, &options, &err), COFFER_ERR_MEMORY);
        assert_int_equal(err.code, COFFER_ERR_MEMORY);
        assert_null(table);
        assert_int_equal(meter.blocks, 0);
    }
    return requests;
}

/* Reading can fail wherever memory is asked for: for tensors in the usual form, for others, and for places of names. */
static void test_no_memory_to_read(void **state)
{
    (void)state;
    static const char *const starts[] = { "\0\1\1a\1\1\1\0\1", "\0\1\1\1\1\0\1\1\1a\0" };
    for (size_t kind = 0; kind < 3; kind++) {
        const uint32_t rank = 2000;
        const size_t size = kind < 2 ? 400 : 1 + 1 + 2 + 1 + 3 + rank + 2;
        uint8_t *file = calloc(1, 8 + size);
        assert_non_null(file);
        file[0] = (uint8_t)size;
        file[1] = (uint8_t)(size >> 8);
        memset(file + 8, ' ', size);
        if (kind < 2) {
            memcpy(file + 8, starts[kind], kind == 0 ? 9 : 11);
        } else {
            memcpy(file + 8, "\0\1\1a\1\xFB\xD0\x07", 8);
            memset(file + 16, 1, rank);
            memcpy(file + 16 + rank, "\0\1", 2);
        }
        const size_t requests =
            fail_each_request(file, size, kind == 1 ? COFFER_FORMAT_BINTENSORS_ALPHA : COFFER_FORMAT_BINTENSORS);
        assert_int_equal(requests, kind == 0 ? 1 : 2);
        free(file);
    }
}

static uint8_t *put_length(uint8_t *out, uint16_t length)
{
    if (length > 250) {
        *out++ = 0xFB;
        out[1] = (uint8_t)(length >> 8);
        *out++ = (uint8_t)length;
        return out + 1;
    }
    *out++ = (uint8_t)length;
    return out;
}

/* The same of many short tensors, for which the block grows, and a last one with a name and dimensions, which what is left of
   it may be too small for. */
static void test_no_memory_for_the_last(void **state)
{
    (void)state;
    static const uint16_t lengths[] = { 0, 1, 2, 100, 1000 };
    size_t requests = 0;
    unsigned turn = 0;
    for (; turn < 1000; turn++) {
        const unsigned count = 20 + turn / 10;
        const uint16_t length = lengths[turn % 5];
        const uint8_t rank = turn / 5 % 2 == 0 ? 1 : 80;
        uint8_t file[8 + 4096] = { 0 };
        uint8_t *out = file + 8;
        *out++ = 0;
        *out++ = (uint8_t)(count + 1);
        for (unsigned i = 0; i < count; i++) {
            const uint8_t tensor[] = { 2, (uint8_t)('a' + i / 10), (uint8_t)('a' + i % 10), 1, 1, 0, 0, 0 };
            memcpy(out, tensor, sizeof tensor);
            out += sizeof tensor;
        }
        out = put_length(out, length);
        memset(out, 'n', length);
        out += length;
        *out++ = 1;
        *out++ = rank;
        out += rank; /* every one of them is 0 */
        out += 2;
        const size_t size = (size_t)(out - file) - 8;
        file[0] = (uint8_t)size;
        file[1] = (uint8_t)(size >> 8);
        requests += fail_each_request(file, size, COFFER_FORMAT_BINTENSORS);
    }
    assert_true(requests > turn); /* blocks do grow */
}

/* Metadata of every size: their end may be that of the block that they lie in. */
static void test_metadata_that_fill_the_block(void **state)
{
    (void)state;
    for (size_t length = 0; length <= 160; length++) {
        uint8_t file[8 + 512] = { 0 };
        uint8_t *out = file + 8;
        *out++ = 1;
        *out++ = 2;
        memcpy(out, "\1a", 2);
        out = put_number(out + 2, length, 0);
        memset(out, 'v', length);
        out += length;
        memcpy(out, "\1b\1w\1\1n\1\0\0\1", 11);
        out += 11;
        const size_t size = (size_t)(out - file) - 8;
        file[0] = (uint8_t)size;
        coffer_table *table = NULL;
        assert_int_equal(coffer_parse(&table, NULL, file, 8 + size, coffer_libc_allocator(), NULL, NULL), COFFER_OK);
        assert_int_equal((uintptr_t)coffer_table_at(table, 0)->shape % sizeof(uint64_t), 0);
        size_t value_len = 0;
        const char *value = coffer_table_metadata_get(table, "a", 1, &value_len);
        assert_int_equal(value_len, length);
        assert_int_equal(strlen(value), length);
        assert_string_equal(coffer_table_metadata_get(table, "b", 1, NULL), "w");
        coffer_table_free(table);
    }
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
        cmocka_unit_test(test_the_numbers_of_dtypes),
        cmocka_unit_test(test_formats_that_are_not_written),
        cmocka_unit_test(test_what_readers_would_refuse),
        cmocka_unit_test(test_what_items_claim),
        cmocka_unit_test(test_a_dtype_that_is_not_written_alone),
        cmocka_unit_test(test_an_empty_text),
        cmocka_unit_test(test_sums_and_duplicates),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_everything_a_table_says),
        cmocka_unit_test(test_no_metadata_and_none_in_it),
        cmocka_unit_test(test_long_numbers_are_counted),
        cmocka_unit_test(test_hidden_bytes_are_counted),
        cmocka_unit_test(test_messages_with_numbers),
        cmocka_unit_test(test_markers_that_are_none),
        cmocka_unit_test(test_counts_that_cannot_be),
        cmocka_unit_test(test_names_in_layout_a),
        cmocka_unit_test(test_half_a_character_at_the_end),
        cmocka_unit_test(test_where_the_metadata_end),
        cmocka_unit_test(test_the_end_of_the_largest_file),
        cmocka_unit_test(test_tensors_read_the_same_everywhere),
        cmocka_unit_test(test_long_numbers_at_the_very_end),
        cmocka_unit_test(test_names_at_the_very_end),
        cmocka_unit_test(test_where_the_block_grows),
        cmocka_unit_test(test_the_first_size_of_a_table),
        cmocka_unit_test(test_no_memory_to_read),
        cmocka_unit_test(test_no_memory_for_the_last),
        cmocka_unit_test(test_metadata_that_fill_the_block),
        cmocka_unit_test(test_numbers_far_from_the_end),
        cmocka_unit_test(test_a_name_that_comes_twice_far_from_the_end),
        cmocka_unit_test(test_names_of_formats),
        cmocka_unit_test(test_the_densest_headers),
        cmocka_unit_test(test_a_million_dimensions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
