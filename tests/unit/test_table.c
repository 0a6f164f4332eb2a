/* SPDX-License-Identifier: Apache-2.0 */
/* Why: the table is one block that grows while a header is read, with an index of hashes in it. Here is what whole headers
   seldom reach: growth that fails, in every place; keys and names that are equal, or nearly; two names of one hash. */
#include "support_cmocka.h"

#include "coffer.h"
#include "support_memory.h"
#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct text_buffer {
    char bytes[8192]; /* with 8 bytes for the length in front */
    size_t size;
} text_buffer;

static void text_begin(text_buffer *text)
{
    text->size = 8;
}

static void text_put(text_buffer *text, const char *piece)
{
    const size_t size = strlen(piece);
    assert_true(size <= sizeof text->bytes - text->size);
    memcpy(text->bytes + text->size, piece, size);
    text->size += size;
}

/* Writes the length in front. */
static void text_frame(text_buffer *text)
{
    const uint64_t length = text->size - 8;
    for (unsigned i = 0; i < 8; i++) {
        text->bytes[i] = (char)(length >> (8 * i) & 0xFF);
    }
}

static coffer_status parse_text(const char *json, const coffer_parse_options *options, coffer_table **table,
                                coffer_error *err)
{
    static text_buffer text;
    text_begin(&text);
    text_put(&text, json);
    text_frame(&text);
    return coffer_parse(table, NULL, text.bytes, text.size, coffer_libc_allocator(), options, err);
}

/* A header whose table grows in the middle: `n` is how much comes before and in the thing that makes it grow. */
static void growing_header(text_buffer *text, unsigned kind, unsigned n)
{
    static const char *const starts[] = { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1",
                                          "{ \"a\":{\"dtype\":\"U8\",\"shape\":[1", "{\"a\":{\"shape\":[1",
                                          "{\"__metadata__\":{\"k\":\"v" };
    static const char *const ends[] = { "],\"data_offsets\":[0,1]}", "],\"data_offsets\":[0,1]} ",
                                        "],\"dtype\":\"A NEW ONE\",\"data_offsets\":[0,1]}", "\"}" };
    text_begin(text);
    text_put(text, starts[kind]);
    for (unsigned i = 0; i < n; i++) {
        text_put(text, kind == 3 ? "" : ",1");
    }
    for (unsigned i = 0; kind == 3 && i < n; i++) {
        char pair[32];
        snprintf(pair, sizeof pair, "\",\"%u\":\"", i);
        text_put(text, pair);
    }
    text_put(text, ends[kind]);
    text_put(text, kind == 1 ? ",\"b\" :{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}"
                             : ",\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}");
    text_frame(text);
}

static size_t fail_each_allocation(const text_buffer *text, const coffer_parse_options *options)
{
    memory_meter meter;
    const coffer_allocator allocator = metered_allocator(&meter);
    for (size_t failures = 0;; failures++) {
        coffer_table *table = NULL;
        coffer_error err;
        meter.requests = 0;
        meter.fail_at = failures + 1;
        const coffer_status status = coffer_parse(&table, NULL, text->bytes, text->size, &allocator, options, &err);
        if (status == COFFER_OK) {
            coffer_table_free(table);
            assert_int_equal(meter.blocks, 0);
            return failures;
        }
        assert_int_equal(status, COFFER_ERR_MEMORY);
        assert_int_equal(err.code, COFFER_ERR_MEMORY);
        assert_null(table);
        assert_int_equal(meter.blocks, 0);
    }
}

/* Wherever the table grows, there may be no memory for it. */
static void test_growing_can_fail_anywhere(void **state)
{
    (void)state;
    static text_buffer text;
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.unknown_dtypes = true;
    for (unsigned kind = 0; kind < 4; kind++) {
        size_t most = 0;
        for (unsigned n = 0; n < 250; n++) {
            growing_header(&text, kind, n);
            const size_t failures = fail_each_allocation(&text, &options);
            most = failures > most ? failures : most;
        }
        assert_true(most >= 2);
    }
}

/* No table is larger than its distances can tell; the limit is far beyond every header that can be read. */
static void test_a_table_has_an_end(void **state)
{
    (void)state;
    coffer__builder builder;
    coffer_error err;
    assert_int_equal(coffer__builder_init(&builder, coffer_libc_allocator(), 100, &err), COFFER_OK);
    assert_int_equal(coffer__builder_reserve(&builder, SIZE_MAX / 2, 0, &err), COFFER_ERR_MEMORY);
    assert_int_equal(err.code, COFFER_ERR_MEMORY);
    coffer__builder_discard(&builder);
    assert_null(builder.table);
}

#if SIZE_MAX > UINT32_MAX
/* The largest is asked for; what is larger by eight bytes is not. */
static void test_the_largest_table(void **state)
{
    (void)state;
    coffer__builder builder;
    memory_meter meter;
    const coffer_allocator allocator = metered_allocator(&meter);
    assert_int_equal(coffer__builder_init(&builder, &allocator, 100, NULL), COFFER_OK);
    const size_t most = ((size_t)1 << 34) - builder.used - sizeof(coffer__mark);
    meter.fail_at = 2;
    assert_int_equal(coffer__builder_grow(&builder, most + 1, 0, NULL), COFFER_ERR_MEMORY);
    assert_int_equal(meter.requests, 1);
    assert_int_equal(coffer__builder_grow(&builder, most, 0, NULL), COFFER_ERR_MEMORY);
    assert_int_equal(meter.requests, 2);
    coffer__builder_discard(&builder);
    assert_int_equal(meter.blocks, 0);
}
#endif

/* Of several keys, or names, that come twice, the one whose second comes first in the header is named. */
static void test_the_first_of_two_duplicates(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"__metadata__\":{\"a\":\"\",\"a\":\"\",\"b\":\"\",\"b\":\"\"}}",
        "{\"__metadata__\":{\"b\":\"\",\"b\":\"\",\"a\":\"\",\"a\":\"\"}}",
        "{\"__metadata__\":{\"a\":\"\",\"a\":\"\",\"a\":\"\",\"b\":\"\"}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        coffer_table *table = NULL;
        coffer_error err;
        assert_int_equal(parse_text(texts[i], NULL, &table, &err), COFFER_ERR_DUPLICATE_KEY);
        assert_int_equal(err.offset, 8 + 24);
        assert_null(table);
    }
}

/* Of two names that differ in case, the one that comes later in the header is noted, whatever their order in the file. */
static void test_where_case_is_noted(void **state)
{
    (void)state;
    static const char first[] = "{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]},";
    static const char second[] = "\"B\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    char text[200];
    snprintf(text, sizeof text, "%s%s", first, second);
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.all_notes = true;
    coffer_table *table = NULL;
    assert_int_equal(parse_text(text, &options, &table, NULL), COFFER_OK);
    assert_int_equal(coffer_table_note(table, COFFER_NOTE_CASE).count, 1);
    assert_int_equal(coffer_table_note(table, COFFER_NOTE_CASE).offset, 8 + sizeof first - 1);
    const coffer_note none = coffer_table_note(table, (coffer_note_kind)-1);
    assert_true(none.count == 0 && none.offset == COFFER_NO_OFFSET);
    coffer_table_free(table);
}

static int compare_u64(const void *a, const void *b)
{
    const uint64_t first = *(const uint64_t *)a;
    const uint64_t second = *(const uint64_t *)b;
    return (first > second) - (first < second);
}

/* The index is only as good as its hash: every byte of a name counts, where it stands, and how many there are. */
static void test_what_a_hash_depends_on(void **state)
{
    (void)state;
    for (size_t size = 1; size <= 70; size++) {
        char name[80];
        for (size_t i = 0; i < sizeof name; i++) {
            name[i] = (char)('a' + i % 26);
        }
        const uint32_t hash = coffer__hash_name(name, size);
        assert_int_not_equal(coffer__hash_name(name, size - 1), hash);
        for (size_t at = 0; at < size; at++) {
            name[at] ^= 4;
            assert_int_not_equal(coffer__hash_name(name, size), hash);
            name[at] ^= 4;
        }
        for (size_t at = 8; at + 8 <= size; at += 8) {
            char swapped[80];
            memcpy(swapped, name, sizeof name);
            memcpy(swapped, name + at, 8);
            memcpy(swapped + at, name, 8);
            assert_int_not_equal(coffer__hash_name(swapped, size), hash);
        }
        /* What lies behind the name does not count. */
        name[size] = 'X';
        assert_int_equal(coffer__hash_name(name, size), hash);
    }
}

/* Two names of one hash are still two names: among enough of them there is such a pair, whatever the hash. */
static void test_two_names_of_one_hash(void **state)
{
    (void)state;
    const size_t count = 400000;
    uint64_t *hashes = malloc(count * sizeof *hashes);
    assert_non_null(hashes);
    char a[16];
    char b[16];
    for (size_t i = 0; i < count; i++) {
        hashes[i] = (uint64_t)coffer__hash_name(a, (size_t)snprintf(a, sizeof a, "%zu", i)) << 32 | i;
    }
    qsort(hashes, count, sizeof *hashes, compare_u64);
    size_t pairs = 0;
    for (size_t i = 1; i < count; i++) {
        if (hashes[i] >> 32 != hashes[i - 1] >> 32) {
            continue;
        }
        pairs++;
        snprintf(a, sizeof a, "%u", (unsigned)(hashes[i - 1] & UINT32_MAX));
        snprintf(b, sizeof b, "%u", (unsigned)(hashes[i] & UINT32_MAX));
        char text[200];
        snprintf(text, sizeof text, "{\"%s\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", a);
        coffer_table *table = NULL;
        assert_int_equal(parse_text(text, NULL, &table, NULL), COFFER_OK);
        assert_non_null(coffer_table_find(table, a, strlen(a)));
        assert_null(coffer_table_find(table, b, strlen(b)));
        coffer_table_free(table);
        snprintf(text, sizeof text,
                 "{\"%s\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},"
                 "\"%s\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[1,2]}}",
                 a, b);
        assert_int_equal(parse_text(text, NULL, &table, NULL), COFFER_OK);
        assert_ptr_equal(coffer_table_find(table, a, strlen(a)), coffer_table_at(table, 0));
        assert_ptr_equal(coffer_table_find(table, b, strlen(b)), coffer_table_at(table, 1));
        coffer_table_free(table);
    }
    assert_true(pairs > 0);
    free(hashes);
}

/* Files too short for a header's length, known whole: what they are, if that can be seen, else that they are short. */
static void test_short_files(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t known;
        uint64_t file_size;
        coffer_status status;
    } cases[] = {
        { "BZh", 3, 3, COFFER_ERR_IS_COMPRESSED }, { "<html>", 6, 6, COFFER_ERR_IS_HTML },
        { "[]", 2, 2, COFFER_ERR_IS_JSON },        { "\x01\0\0", 3, 3, COFFER_ERR_TOO_SHORT },
        { "", 0, 7, COFFER_ERR_TOO_SHORT },        { "<", 1, 1, COFFER_ERR_IS_HTML },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
        options.file_size = cases[i].file_size;
        coffer_table *table = NULL;
        coffer_error err;
        assert_int_equal(
            coffer_parse(&table, NULL, cases[i].bytes, cases[i].known, coffer_libc_allocator(), &options, &err),
            cases[i].status);
        assert_int_equal(err.code, cases[i].status);
        assert_true(err.offset == 0);
        if (err.code == COFFER_ERR_TOO_SHORT) {
            assert_int_equal(err.expected, 8);
            assert_int_equal(err.actual, cases[i].file_size);
        }
    }
    coffer_table *table = NULL;
    uint64_t need = 0;
    assert_int_equal(coffer_parse(&table, &need, NULL, 0, coffer_libc_allocator(), NULL, NULL), COFFER_NEED_MORE);
    assert_true(need == 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_growing_can_fail_anywhere),
        cmocka_unit_test(test_a_table_has_an_end),
#if SIZE_MAX > UINT32_MAX
        cmocka_unit_test(test_the_largest_table),
#endif
        cmocka_unit_test(test_the_first_of_two_duplicates),
        cmocka_unit_test(test_where_case_is_noted),
        cmocka_unit_test(test_what_a_hash_depends_on),
        cmocka_unit_test(test_two_names_of_one_hash),
        cmocka_unit_test(test_short_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
