/* SPDX-License-Identifier: Apache-2.0 */
/* Why: what we write must be what others read: the canonical order and spelling, the layout, and every refusal in time. */
#include "support_cmocka.h"

#include "coffer.h"
#include "declared.h"
#include "support_header.h"
#include "support_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Builds and compares the text, without its padding, which must be spaces. */
static uint64_t expect_text(coffer_header *header, const coffer_header_options *options, const char *expected)
{
    const void *bytes = NULL;
    uint64_t size = 0;
    coffer_error err;
    assert_int_equal(coffer_header_build(header, options, &bytes, &size, NULL, &err), COFFER_OK);
    const char *text = (const char *)bytes + 8;
    assert_memory_equal(text, expected, strlen(expected));
    for (uint64_t at = 8 + strlen(expected); at < size; at++) {
        assert_int_equal(((const char *)bytes)[at], ' ');
    }
    assert_int_equal(((const unsigned char *)bytes)[0], (size - 8) & 0xFF);
    return size;
}

static void test_canonical_order_and_spelling(void **state)
{
    (void)state;
    coffer_header *header = new_header();
    assert_null(coffer_header_at(header, 0));
    add_tensor(header, "b", COFFER_F32, 2, 2, 2);
    add_tensor(header, "a", COFFER_U8, 1, 3, 0);
    add_tensor(header, "\xC3\xA9\x01\"\\\n\x7f/\b\f\r\t", COFFER_I64, 0, 0, 0);
    add_tensor(header, "B", COFFER_F32, 2, 0, 7);
    set_metadata(header, "k2", "x");
    set_metadata(header, "k", "old");
    set_metadata(header, "k", "v\x01\xE2\x80\xA8");
    const uint64_t size = expect_text(
        header, NULL,
        "{\"__metadata__\":{\"k\":\"v\\u0001\xE2\x80\xA8\",\"k2\":\"x\"},"
        "\"\xC3\xA9\\u0001\\\"\\\\\\n\x7f/\\b\\f\\r\\t\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
        "\"B\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[8,8]},"
        "\"b\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[8,24]},"
        "\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[24,27]}}");
    assert_int_equal(size % 8, 0);
    assert_int_equal(coffer_header_count(header), 4);
    assert_string_equal(coffer_header_at(header, 0)->name, "b");
    assert_int_equal(coffer_header_at(header, 0)->offset, size + 8);
    assert_string_equal(coffer_header_at(header, 1)->name, "a");
    assert_int_equal(coffer_header_at(header, 1)->offset, size + 24);
    assert_int_equal(coffer_header_at(header, 3)->size, 0);
    assert_null(coffer_header_at(header, 4));
    /* Built is built. */
    coffer_error err;
    assert_int_equal(coffer_header_add(header, "c", 1, COFFER_U8, NULL, 0, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_header_set_metadata(header, "c", 1, "", 0, &err), COFFER_ERR_ARGUMENT);
    const void *again = NULL;
    const coffer_table *table = NULL;
    assert_int_equal(coffer_header_build(header, NULL, &again, NULL, &table, NULL), COFFER_OK);
    assert_int_equal(coffer_table_count(table), 4);
    coffer_header_free(header);
    coffer_header_free(NULL);
}

/* Names that differ by one, and one that goes on where another ends. */
static void test_order_of_neighbours(void **state)
{
    (void)state;
    coffer_header *header = new_header();
    add_tensor(header, "w2", COFFER_U8, 0, 0, 0);
    add_tensor(header, "w1", COFFER_U8, 0, 0, 0);
    add_tensor(header, "w", COFFER_U8, 0, 0, 0);
    set_metadata(header, "k2", "");
    set_metadata(header, "k1", "");
    set_metadata(header, "k", "");
    expect_text(header, NULL,
                "{\"__metadata__\":{\"k\":\"\",\"k1\":\"\",\"k2\":\"\"},"
                "\"w\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},"
                "\"w1\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[1,2]},"
                "\"w2\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[2,3]}}");
    coffer_header_free(header);
}

static void test_little_headers(void **state)
{
    (void)state;
    coffer_header *header = new_header();
    assert_int_equal(expect_text(header, NULL, "{}"), 16);
    coffer_header_free(header);
    header = new_header();
    set_metadata(header, "", "");
    expect_text(header, NULL, "{\"__metadata__\":{\"\":\"\"}}");
    coffer_header_free(header);
    header = new_header();
    set_metadata(header, "k", "v");
    add_tensor(header, "a", COFFER_U8, 0, 0, 0);
    expect_text(header, NULL,
                "{\"__metadata__\":{\"k\":\"v\"},\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}");
    coffer_header_free(header);
    header = new_header();
    assert_int_equal(coffer_header_add(header, NULL, 0, COFFER_U8, NULL, 0, NULL), COFFER_OK);
    expect_text(header, NULL, "{\"\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}");
    coffer_header_free(header);
}

static void test_alignment_and_slack(void **state)
{
    (void)state;
    static const uint64_t alignments[] = { 0, 8, 16, 64, 4096, 1u << 20 };
    for (size_t i = 0; i < sizeof alignments / sizeof alignments[0]; i++) {
        coffer_header *header = new_header();
        add_tensor(header, "a", COFFER_U8, 1, 3, 0);
        coffer_header_options options = COFFER_HEADER_OPTIONS_INIT;
        options.alignment = alignments[i];
        options.slack = 100;
        const uint64_t size =
            expect_text(header, &options, "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}");
        assert_int_equal(size % (alignments[i] == 0 ? 8 : alignments[i]), 0);
        const coffer_table *table = NULL;
        assert_int_equal(coffer_header_build(header, NULL, NULL, NULL, &table, NULL), COFFER_OK);
        assert_true(coffer_table_slack(table) >= 100);
        assert_int_equal(coffer_table_data_offset(table), size);
        coffer_header_free(header);
    }
    static const uint64_t bad[] = { 1, 4, 12, 100, UINT64_MAX };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        coffer_header *header = new_header();
        coffer_header_options options = COFFER_HEADER_OPTIONS_INIT;
        options.alignment = bad[i];
        assert_int_equal(coffer_header_build(header, &options, NULL, NULL, NULL, NULL), COFFER_ERR_ARGUMENT);
        coffer_header_free(header);
    }
}

static void test_refusals_when_declaring(void **state)
{
    (void)state;
    coffer_header *header = new_header();
    coffer_error err;
    const uint64_t two[] = { UINT64_MAX, 2 };
    const uint64_t odd[] = { 3 };
    assert_int_equal(coffer_header_add(header, "__metadata__", 12, COFFER_U8, NULL, 0, &err), COFFER_ERR_NAME);
    assert_int_equal(coffer_header_add(header, "a\xFF", 2, COFFER_U8, NULL, 0, &err), COFFER_ERR_UTF8);
    assert_string_equal(err.tensor, "a\\xff");
    assert_int_equal(coffer_header_add(header, "a", 1, COFFER_UNKNOWN_DTYPE, NULL, 0, &err), COFFER_ERR_DTYPE);
    assert_string_equal(err.tensor, "a");
    assert_int_equal(coffer_header_add(header, "a", 1, (coffer_dtype)23, NULL, 0, &err), COFFER_ERR_DTYPE);
    assert_int_equal(coffer_header_add(header, "a", 1, COFFER_U8, two, 2, &err), COFFER_ERR_OVERFLOW);
    assert_int_equal(coffer_header_add(header, "a", 1, COFFER_F4, odd, 1, &err), COFFER_ERR_PARTIAL_BYTE);
    assert_int_equal(coffer_header_add(header, "a", 1, COFFER_F6_E2M3, odd, 1, &err), COFFER_ERR_PARTIAL_BYTE);
    assert_int_equal(coffer_header_add(NULL, "a", 1, COFFER_U8, NULL, 0, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_header_add(header, NULL, 1, COFFER_U8, NULL, 0, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_header_add(header, "a", 1, COFFER_U8, NULL, 1, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_header_set_metadata(header, "\xC0", 1, "", 0, &err), COFFER_ERR_UTF8);
    assert_int_equal(coffer_header_set_metadata(header, "k", 1, "\xC0", 1, &err), COFFER_ERR_UTF8);
    assert_int_equal(coffer_header_set_metadata(header, NULL, 1, "", 0, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_header_set_metadata(NULL, "", 0, "", 0, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_header_set_metadata(header, "k", 1, NULL, 1, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_header_add(header, NULL, 0, COFFER_UNKNOWN_DTYPE, NULL, 0, &err), COFFER_ERR_DTYPE);
    assert_string_equal(err.tensor, "");
    /* Longer than any header can be: not looked at. */
    const size_t endless = (size_t)COFFER_LARGEST_MAX_HEADER_SIZE + 1;
    assert_int_equal(coffer_header_set_metadata(header, "", endless, "", 0, &err), COFFER_ERR_HEADER_TOO_LARGE);
    assert_int_equal(coffer_header_set_metadata(header, "", 0, "", endless, &err), COFFER_ERR_HEADER_TOO_LARGE);
#if SIZE_MAX > UINT32_MAX
    const size_t rank = (size_t)UINT32_MAX + 1;
    assert_int_equal(coffer_header_add(header, "a", 1, COFFER_U8, odd, rank, &err), COFFER_ERR_OVERFLOW);
#endif
    assert_int_equal(coffer_header_build(NULL, NULL, NULL, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_header_new(NULL, coffer_libc_allocator(), &err), COFFER_ERR_ARGUMENT);
    /* Nothing of it was kept. */
    expect_text(header, NULL, "{}");
    coffer_header_free(header);
    assert_int_equal(coffer_header_new(&header, NULL, &err), COFFER_OK); /* by libc's allocator */
    expect_text(header, NULL, "{}");
    coffer_header_free(header);
}

/* A text as long as the longest header is looked at, and the first byte that is wrong ends that; a longer one is not. */
static void test_the_longest_text(void **state)
{
    (void)state;
    static const char bad[64] = "\xFF";
    const size_t longest = COFFER_LARGEST_MAX_HEADER_SIZE;
    coffer_header *header = new_header();
    assert_int_equal(coffer_header_add(header, bad, longest, COFFER_U8, NULL, 0, NULL), COFFER_ERR_UTF8);
    assert_int_equal(coffer_header_add(header, bad, longest + 1, COFFER_U8, NULL, 0, NULL),
                     COFFER_ERR_HEADER_TOO_LARGE);
    assert_int_equal(coffer_header_set_metadata(header, bad, longest, "", 0, NULL), COFFER_ERR_UTF8);
    assert_int_equal(coffer_header_set_metadata(header, "", 0, bad, longest, NULL), COFFER_ERR_UTF8);
    coffer_header_free(header);
}

static void test_refusals_when_building(void **state)
{
    (void)state;
    coffer_error err;
    coffer_header *header = new_header();
    add_tensor(header, "same", COFFER_U8, 0, 0, 0);
    add_tensor(header, "same", COFFER_F32, 0, 0, 0);
    assert_int_equal(coffer_header_build(header, NULL, NULL, NULL, NULL, &err), COFFER_ERR_DUPLICATE_NAME);
    assert_string_equal(err.tensor, "same");
    assert_null(coffer_header_at(header, 0));
    coffer_header_free(header);
    header = new_header();
    const uint64_t huge[] = { (UINT64_C(1) << 61) - 1 };
    /* Any eight of them have a sum. */
    for (char name = 'a'; name < 'a' + 9; name++) {
        assert_int_equal(coffer_header_add(header, &name, 1, COFFER_U8, huge, 1, NULL), COFFER_OK);
    }
    assert_int_equal(coffer_header_build(header, NULL, NULL, NULL, NULL, &err), COFFER_ERR_OVERFLOW);
    coffer_header_free(header);
    /* Eight of them and seven bytes more are 2^64-1, which has space in 64 bits, but not after a header. */
    header = new_header();
    for (char name = 'a'; name < 'a' + 8; name++) {
        assert_int_equal(coffer_header_add(header, &name, 1, COFFER_U8, huge, 1, NULL), COFFER_OK);
    }
    add_tensor(header, "rest", COFFER_U8, 1, 7, 0);
    assert_int_equal(coffer_header_build(header, NULL, NULL, NULL, NULL, &err), COFFER_ERR_RANGE);
    coffer_header_free(header);
    header = new_header();
    coffer_header_options options = COFFER_HEADER_OPTIONS_INIT;
    options.max_header_size = 100;
    add_tensor(header, "a name that is long enough for the header to be above the limit, or so it seems", COFFER_U8, 0,
               0, 0);
    assert_int_equal(coffer_header_build(header, &options, NULL, NULL, NULL, &err), COFFER_ERR_HEADER_TOO_LARGE);
    assert_int_equal(err.expected, 100);
    assert_true(err.actual > 100 && err.actual < 200);
    options.max_header_size = 0;
    options.slack = UINT64_MAX - 50;
    assert_int_equal(coffer_header_build(header, &options, NULL, NULL, NULL, &err), COFFER_ERR_HEADER_TOO_LARGE);
    options.slack = 0;
    assert_int_equal(coffer_header_build(header, &options, NULL, NULL, NULL, &err), COFFER_OK);
    coffer_header_free(header);
}

static void test_metadata_of_nothing(void **state)
{
    (void)state;
    coffer_header *header = new_header();
    assert_int_equal(coffer_header_set_metadata(header, NULL, 0, NULL, 0, NULL), COFFER_OK);
    expect_text(header, NULL, "{\"__metadata__\":{\"\":\"\"}}");
    coffer_header_free(header);
}

static void test_limits_of_the_layout(void **state)
{
    (void)state;
    coffer_error err;
    coffer_header *header = new_header();
    coffer_header_options options = COFFER_HEADER_OPTIONS_INIT;
    options.struct_size = 0;
    assert_int_equal(coffer_header_build(header, &options, NULL, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    /* The sum has space in 64 bits, its next multiple of 8 has none: 8 bytes of length, 2 of text. */
    options.struct_size = sizeof options;
    options.max_header_size = UINT64_MAX;
    options.slack = UINT64_MAX - 13;
    assert_int_equal(coffer_header_build(header, &options, NULL, NULL, NULL, &err), COFFER_ERR_HEADER_TOO_LARGE);
    assert_true(err.expected == UINT64_MAX && err.actual == UINT64_MAX);
    /* Within the limit that was set, and more than memory can hold. */
    options.slack = SIZE_MAX / 2;
    assert_int_equal(coffer_header_build(header, &options, NULL, NULL, NULL, &err), COFFER_ERR_HEADER_TOO_LARGE);
    assert_true(err.actual >= SIZE_MAX / 2 && err.actual < UINT64_MAX);
    assert_null(coffer_header_at(header, 0));
    /* One byte above the limit, and exactly at it. */
    options.slack = 0;
    options.max_header_size = 7;
    assert_int_equal(coffer_header_build(header, &options, NULL, NULL, NULL, &err), COFFER_ERR_HEADER_TOO_LARGE);
    assert_true(err.expected == 7 && err.actual == 8);
    assert_non_null(strstr(err.message, "the header would have 8 bytes, more than the limit of 7"));
    options.max_header_size = 8;
    assert_int_equal(coffer_header_build(header, &options, NULL, NULL, NULL, &err), COFFER_OK);
    coffer_header_free(header);
}

static coffer_status declare_and_build(const coffer_allocator *allocator, coffer_error *err)
{
    coffer_header *header = NULL;
    coffer_status status = coffer_header_new(&header, allocator, err);
    for (unsigned i = 0; status == COFFER_OK && i < 40; i++) {
        char name[32];
        const uint64_t shape[] = { i, 4 };
        snprintf(name, sizeof name, "layer.%u.weight", i);
        status = coffer_header_add(header, name, strlen(name), COFFER_BF16, shape, 2, err);
    }
    if (status == COFFER_OK) {
        status = coffer_header_set_metadata(header, "format", 6, "pt", 2, err);
    }
    if (status == COFFER_OK) {
        status = coffer_header_build(header, NULL, NULL, NULL, NULL, err);
    }
    coffer_header_free(header);
    return status;
}

static void test_every_allocation_can_fail(void **state)
{
    (void)state;
    memory_meter meter;
    const coffer_allocator allocator = metered_allocator(&meter);
    size_t failures = 0;
    for (;; failures++) {
        coffer_error err;
        meter.requests = 0;
        meter.fail_at = failures + 1;
        const coffer_status status = declare_and_build(&allocator, &err);
        assert_int_equal(meter.blocks, 0);
        if (status == COFFER_OK) {
            break;
        }
        assert_int_equal(status, COFFER_ERR_MEMORY);
    }
    assert_true(failures >= 8);
}

/* Memory grows by a part of what there is, not a little with each tensor, and not beyond a few times what is declared. */
static void test_many_tensors_are_few_allocations(void **state)
{
    (void)state;
    memory_meter meter;
    const coffer_allocator allocator = metered_allocator(&meter);
    coffer_header *header = NULL;
    assert_int_equal(coffer_header_new(&header, &allocator, NULL), COFFER_OK);
    for (unsigned i = 0; i < 10000; i++) {
        char name[32];
        const uint64_t shape[] = { i, 4 };
        snprintf(name, sizeof name, "layer.%u.weight", i);
        assert_int_equal(coffer_header_add(header, name, strlen(name), COFFER_BF16, shape, 2, NULL), COFFER_OK);
        assert_int_equal(coffer_header_set_metadata(header, name, strlen(name), "1", 1, NULL), COFFER_OK);
    }
    assert_true(meter.requests < 60);
    assert_true(meter.held < 2000000);
    coffer_header_free(header);
    assert_int_equal(meter.blocks, 0);
}

/* How memory grows: half of what is wanted on top of it, and 256 bytes; and not before it is full. What was measured; whoever
   changes it measures again. */
static void test_how_declarations_grow(void **state)
{
    (void)state;
    memory_meter meter;
    const coffer_allocator allocator = metered_allocator(&meter);
    coffer_header *header = NULL;
    assert_int_equal(coffer_header_new(&header, &allocator, NULL), COFFER_OK);
    const size_t tensor = sizeof(declared_tensor);
    const size_t pair = sizeof(declared_pair);
    size_t held = meter.held;
    const uint64_t shape[] = { 1, 2 };
    assert_int_equal(coffer_header_add(header, "a", 1, COFFER_U8, shape, 2, NULL), COFFER_OK);
    /* A name, a shape, and 16 bytes for what lies between them. */
    held += (33 + 33 / 2 + 256) + (tensor + tensor / 2 + 256);
    assert_int_equal(meter.held, held);
    /* 24 of 305 bytes are used: so much fits, and a byte more does not. */
    char text[300];
    memset(text, 't', sizeof text);
    assert_int_equal(coffer_header_set_metadata(header, text, 200, text, 65, NULL), COFFER_OK);
    held += pair + pair / 2 + 256;
    assert_int_equal(meter.held, held);
    /* The key at 24, the value behind it at a multiple of 8: 289 are used. */
    assert_int_equal(coffer_header_set_metadata(header, "", 0, "", 0, NULL), COFFER_OK);
    assert_int_equal(meter.held, held);
    assert_int_equal(coffer_header_set_metadata(header, "", 0, "", 0, NULL), COFFER_OK);
    held += (296 + 16) + (296 + 16) / 2 + 256 - 305;
    assert_int_equal(meter.held, held);
    coffer_header_free(header);
    assert_int_equal(meter.blocks, 0);
}

/* The padding is none where none is needed, and never eight bytes. */
static void test_the_least_padding(void **state)
{
    (void)state;
    char name[17] = "";
    for (size_t i = 0; i < 16; i++) {
        name[i] = 'n';
        coffer_header *header = new_header();
        char text[100];
        add_tensor(header, name, COFFER_U8, 0, 0, 0);
        const int length =
            snprintf(text, sizeof text, "{\"%s\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", name);
        assert_int_equal(expect_text(header, NULL, text), 8 + ((size_t)length + 7) / 8 * 8);
        coffer_header_free(header);
    }
}

/* A table of one thing of each dtype goes out and comes back. */
static void test_round_trip_of_every_dtype(void **state)
{
    (void)state;
    coffer_header *header = new_header();
    for (int dtype = 1; dtype <= COFFER_DTYPE_COUNT; dtype++) {
        add_tensor(header, coffer_dtype_name((coffer_dtype)dtype), (coffer_dtype)dtype, 2, 4, (uint64_t)dtype);
    }
    const coffer_table *table = NULL;
    assert_int_equal(coffer_header_build(header, NULL, NULL, NULL, &table, NULL), COFFER_OK);
    uint64_t end = coffer_table_data_offset(table);
    for (int dtype = COFFER_DTYPE_COUNT; dtype >= 1; dtype--) {
        const coffer_tensor *tensor = coffer_header_at(header, (size_t)dtype - 1);
        assert_ptr_equal(tensor, coffer_table_at(table, (size_t)(COFFER_DTYPE_COUNT - dtype)));
        assert_int_equal(tensor->dtype, dtype);
        assert_int_equal(tensor->offset, end);
        assert_int_equal(tensor->size * 8, 4u * (unsigned)dtype * coffer_dtype_bits((coffer_dtype)dtype));
        assert_int_equal(tensor->offset % coffer_dtype_alignment((coffer_dtype)dtype), 0);
        end += tensor->size;
    }
    coffer_header_free(header);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_canonical_order_and_spelling),
        cmocka_unit_test(test_order_of_neighbours),
        cmocka_unit_test(test_little_headers),
        cmocka_unit_test(test_alignment_and_slack),
        cmocka_unit_test(test_refusals_when_declaring),
        cmocka_unit_test(test_the_longest_text),
        cmocka_unit_test(test_refusals_when_building),
        cmocka_unit_test(test_metadata_of_nothing),
        cmocka_unit_test(test_limits_of_the_layout),
        cmocka_unit_test(test_every_allocation_can_fail),
        cmocka_unit_test(test_many_tensors_are_few_allocations),
        cmocka_unit_test(test_how_declarations_grow),
        cmocka_unit_test(test_the_least_padding),
        cmocka_unit_test(test_round_trip_of_every_dtype),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
