/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why: headers that are too large to be vectors, and those that somebody made to be slow: the limit on their length, nesting,
 * a hundred thousand tensors, a million dimensions, names that collide. They are read all the same, in little memory and time,
 * or refused at the right byte.
 */
#include "support_cmocka.h"

#include "coffer.h"
#include "parse.h"
#include "support_memory.h"
#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- large headers ---- */

static void store_length(uint8_t *file, size_t length)
{
    for (size_t i = 0; i < 8; i++) {
        file[i] = (uint8_t)((uint64_t)length >> (8 * i));
    }
}

/* A file whose header is `length` spaces, to be written over; freed by the caller. */
static uint8_t *new_file(size_t length)
{
    uint8_t *file = malloc(8 + length);
    assert_non_null(file);
    store_length(file, length);
    memset(file + 8, ' ', length);
    return file;
}

static coffer_status parse_file(const uint8_t *file, size_t length, uint64_t max_header_size, coffer_error *err)
{
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.file_size = 8 + length;
    options.max_header_size = max_header_size;
    coffer_table *table = NULL;
    const coffer_status status = coffer_parse(&table, NULL, file, 8 + length, coffer_libc_allocator(), &options, err);
    coffer_table_free(table);
    return status;
}

static void test_header_limit(void **state)
{
    (void)state;
    const size_t limit = COFFER_DEFAULT_MAX_HEADER_SIZE;
    coffer_error err;
    uint8_t *file = new_file(limit);
    memcpy(file + 8, "{}", 2);
    assert_int_equal(parse_file(file, limit, 0, &err), COFFER_OK);
    free(file);
    file = new_file(limit + 1);
    memcpy(file + 8, "{}", 2);
    assert_int_equal(parse_file(file, limit + 1, 0, &err), COFFER_ERR_HEADER_TOO_LARGE);
    assert_int_equal(err.offset, 0);
    assert_int_equal(parse_file(file, limit + 1, limit + 1, &err), COFFER_OK);
    free(file);
}

static void test_header_limit_can_be_lowered(void **state)
{
    (void)state;
    coffer_error err;
    uint8_t *file = new_file(64);
    memcpy(file + 8, "{}", 2);
    assert_int_equal(parse_file(file, 64, 64, &err), COFFER_OK);
    assert_int_equal(parse_file(file, 64, 63, &err), COFFER_ERR_HEADER_TOO_LARGE);
    assert_int_equal(err.offset, 0);
    free(file);
}

/* What may be read may be written: up to the limit, and beyond it when it is raised. */
static void test_header_limit_of_the_writer(void **state)
{
    (void)state;
    static const uint64_t limit = COFFER_DEFAULT_MAX_HEADER_SIZE;
    for (unsigned i = 0; i < 3; i++) {
        coffer_header *header = NULL;
        coffer_error err;
        uint64_t size = 0;
        coffer_header_options options = COFFER_HEADER_OPTIONS_INIT;
        options.slack = limit - 2 + (i > 0 ? 1 : 0);
        options.max_header_size = i == 2 ? limit + 8 : 0;
        assert_int_equal(coffer_header_new(&header, coffer_libc_allocator(), NULL), COFFER_OK);
        const coffer_status status = coffer_header_build(header, &options, NULL, &size, NULL, &err);
        assert_int_equal(status, i == 1 ? COFFER_ERR_HEADER_TOO_LARGE : COFFER_OK);
        if (i == 1) {
            assert_int_equal(err.expected, limit);
            assert_int_equal(err.actual, limit + 8);
        } else {
            assert_int_equal(size, 8 + limit + (i > 0 ? 8 : 0));
        }
        coffer_header_free(header);
    }
}

static void test_nesting_of_100000(void **state)
{
    (void)state;
    static const char begin[] = "{\"a\":{\"x\":";
    const size_t length = 100000 + sizeof begin - 1;
    uint8_t *file = new_file(length);
    coffer_error err;
    memcpy(file + 8, begin, sizeof begin - 1);
    memset(file + 8 + sizeof begin - 1, '[', 100000);
    assert_int_equal(parse_file(file, length, 0, &err), COFFER_ERR_DEPTH);
    assert_int_equal(err.offset, 8 + sizeof begin - 1 + 125);
    free(file);
}

/* The shortest tensors there can be, whose names are made so that none is another's. */
static uint8_t *many_tensors(size_t count, size_t *length)
{
    const size_t capacity = count * 64 + 2;
    uint8_t *file = new_file(capacity);
    char *text = (char *)file + 8;
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        used += (size_t)snprintf(text + used, capacity - used,
                                 "%c\"%zx\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
                                 i == 0 ? '{' : ',', i);
    }
    text[used++] = '}';
    store_length(file, used);
    *length = used;
    return file;
}

static void test_100000_tensors(void **state)
{
    (void)state;
    size_t length = 0;
    uint8_t *file = many_tensors(100000, &length);
    memory_meter meter;
    const coffer_allocator allocator = metered_allocator(&meter);
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.file_size = 8 + length;
    options.all_notes = true;
    coffer_table *table = NULL;
    assert_int_equal(coffer_parse(&table, NULL, file, 8 + length, &allocator, &options, NULL), COFFER_OK);
    assert_int_equal(coffer_table_count(table), 100000);
    assert_non_null(coffer_table_find(table, "1869f", 5));
    assert_null(coffer_table_find(table, "186a0", 5));
    assert_true(meter.peak <= 8 * length + 4096);
    coffer_table_free(table);
    assert_int_equal(meter.held, 0);
    free(file);
}

/* The last of 100,000 tensors repeats the first's name: found, and not by comparing each with each. */
static void test_duplicate_among_100000(void **state)
{
    (void)state;
    size_t length = 0;
    uint8_t *file = many_tensors(100000, &length);
    static const char tail[] = "\"1869f\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}";
    char *last = (char *)file + 8 + length - (sizeof tail - 1);
    assert_memory_equal(last, tail, sizeof tail - 1);
    memcpy(last, "\"11111\"", 7);
    coffer_error err;
    assert_int_equal(parse_file(file, length, 0, &err), COFFER_ERR_DUPLICATE_NAME);
    assert_int_equal(err.offset, (uint64_t)(last - (char *)file));
    free(file);
}

/* What a reading asked for. */
typedef struct supplied_text {
    const uint8_t *file;
    size_t largest;
    size_t reads;
} supplied_text;

static void supply_text(supplied_text *text, const coffer__wish *wish)
{
    memcpy(wish->to, text->file + wish->offset, wish->size);
    text->largest = wish->size > text->largest ? wish->size : text->largest;
    text->reads++;
}

/* A header that comes through a window is never here as a whole: what is asked for fits into the window, and the table is the
   only memory that is taken, but for the keys of one tensor. */
static void test_a_window_is_enough(void **state)
{
    (void)state;
    uint8_t window[512];
    size_t length = 0;
    uint8_t *file = many_tensors(5000, &length);
    memory_meter meter;
    memory_meter whole;
    coffer_table *table = NULL;
    coffer_allocator allocator = metered_allocator(&whole);
    assert_int_equal(coffer_parse(&table, NULL, file, 8 + length, &allocator, NULL, NULL), COFFER_OK);
    coffer_table_free(table);
    supplied_text text = { file, 0, 0 };
    const coffer_parse_options options = { sizeof options, .file_size = 8 + length, .max_header_size = length };
    allocator = metered_allocator(&meter);
    memcpy(window, file, sizeof window);
    coffer__reading reading;
    coffer__wish wish;
    assert_int_equal(coffer__reading_begin(&reading, window, sizeof window, &allocator, &options, NULL), COFFER_OK);
    coffer__reading_slide(&reading, window, sizeof window);
    coffer_status status = COFFER_OK;
    while ((status = coffer__reading_go_on(&reading, &wish, &table, NULL)) == COFFER_NEED_MORE) {
        supply_text(&text, &wish);
    }
    coffer__reading_free(&reading);
    assert_int_equal(status, COFFER_OK);
    assert_int_equal(coffer_table_count(table), 5000);
    assert_true(text.largest <= sizeof window);
    assert_true(text.reads <= 2 * length / sizeof window);
    assert_true(meter.peak <= whole.peak + 1024);
    coffer_table_free(table);
    assert_int_equal(meter.blocks, 0);
    free(file);
}

/* Dimensions take the most memory of all that a header can say. */
static void test_a_million_dimensions(void **state)
{
    (void)state;
    static const char begin[] = "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,0],\"shape\":[0";
    static const char end[] = "]}}";
    const size_t rank = 1000001;
    const size_t length = sizeof begin - 1 + 2 * (rank - 1) + sizeof end - 1;
    uint8_t *file = new_file(length);
    char *text = (char *)file + 8;
    memcpy(text, begin, sizeof begin - 1);
    for (size_t i = 0; i + 1 < rank; i++) {
        memcpy(text + sizeof begin - 1 + 2 * i, ",9", 2);
    }
    memcpy(text + length - sizeof end + 1, end, sizeof end - 1);
    memory_meter meter;
    const coffer_allocator allocator = metered_allocator(&meter);
    coffer_table *table = NULL;
    assert_int_equal(coffer_parse(&table, NULL, file, 8 + length, &allocator, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_table_at(table, 0)->rank, rank);
    assert_int_equal(coffer_table_at(table, 0)->shape[rank - 1], 9);
    assert_true(meter.peak <= 8 * length + 4096);
    coffer_table_free(table);
    free(file);
}

/* ---- hostile keys and names ---- */

/* `begin`, then `count` members with keys that differ, then `end`; all of it a file of a header without data. */
static uint8_t *many_keys(size_t count, const char *begin, const char *value, const char *end, size_t *length)
{
    const size_t capacity = strlen(begin) + count * (16 + strlen(value)) + strlen(end) + 1;
    uint8_t *file = new_file(capacity);
    char *text = (char *)file + 8;
    size_t used = (size_t)snprintf(text, capacity, "%s", begin);
    for (size_t i = 0; i < count; i++) {
        used += (size_t)snprintf(text + used, capacity - used, "%s\"%zx\":%s", i == 0 ? "" : ",", i, value);
    }
    used += (size_t)snprintf(text + used, capacity - used, "%s", end);
    store_length(file, used);
    *length = used;
    return file;
}

static void check_many_keys(const char *begin, const char *value, const char *end)
{
    size_t length = 0;
    uint8_t *file = many_keys(200000, begin, value, end, &length);
    memory_meter meter;
    const coffer_allocator allocator = metered_allocator(&meter);
    coffer_table *table = NULL;
    assert_int_equal(coffer_parse(&table, NULL, file, 8 + length, &allocator, NULL, NULL), COFFER_OK);
    assert_true(meter.peak <= 8 * length + 4096);
    coffer_table_free(table);
    assert_int_equal(meter.held, 0);
    free(file);
}

static void test_many_keys(void **state)
{
    (void)state;
    static const char tensor[] = "\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]";
    char begin[128];
    check_many_keys("{\"__metadata__\":{", "\"\"", "}}");
    snprintf(begin, sizeof begin, "{\"a\":{%s,", tensor);
    check_many_keys(begin, "0", "}}");
    snprintf(begin, sizeof begin, "{\"a\":{%s,\"x\":{", tensor);
    check_many_keys(begin, "0", "}}}");
}

/* Names that all want the same few slots of the index, found by trying. */
#define COLLIDING 4096

static uint8_t *colliding_names(size_t *length)
{
    const size_t capacity = (size_t)COLLIDING * 80;
    uint8_t *file = new_file(capacity);
    char *text = (char *)file + 8;
    size_t used = 0;
    size_t found = 0;
    for (size_t i = 0; found < COLLIDING; i++) {
        char name[24];
        const int name_len = snprintf(name, sizeof name, "n%zu", i);
        if ((coffer__hash_name(name, (size_t)name_len) & (2 * COLLIDING - 1)) < 16) {
            used += (size_t)snprintf(text + used, capacity - used,
                                     "%c\"%s\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
                                     found == 0 ? '{' : ',', name);
            found++;
        }
    }
    text[used++] = '}';
    store_length(file, used);
    *length = used;
    return file;
}

/* They must not make the index slow: another takes its place, which finds them all the same. */
static void test_names_that_collide(void **state)
{
    (void)state;
    size_t length = 0;
    uint8_t *file = colliding_names(&length);
    coffer_table *table = NULL;
    assert_int_equal(coffer_parse(&table, NULL, file, 8 + length, coffer_libc_allocator(), NULL, NULL), COFFER_OK);
    assert_int_equal(table->slot_count, 0);
    assert_int_equal(coffer_table_count(table), COLLIDING);
    for (size_t i = 0; i < COLLIDING; i++) {
        const coffer_tensor *tensor = coffer_table_at(table, i);
        assert_ptr_equal(coffer_table_find(table, tensor->name, tensor->name_len), tensor);
    }
    assert_null(coffer_table_find(table, "n", 1));
    assert_null(coffer_table_find(table, "", 0));
    coffer_table_free(table);
    free(file);
}

static size_t name_size(const char *quote)
{
    size_t size = 1;
    while (quote[size] != '"') {
        size++;
    }
    return size + 1;
}

/* Where the name of a tensor begins that comes behind `from`; NULL when there is none. */
static char *next_name(char *from, const char *end)
{
    while (from < end && !(from[0] == '"' && from[1] == 'n')) {
        from++;
    }
    return from < end ? from : NULL;
}

/* Gives the name at `first` to the last other tensor whose name is as long, and expects that they are found. */
static void check_duplicate(uint8_t *file, size_t length, const char *first)
{
    const char *end = (char *)file + 8 + length;
    char *second = NULL;
    for (char *at = next_name((char *)file + 8, end); at != NULL; at = next_name(at + 1, end)) {
        second = at != first && name_size(at) == name_size(first) ? at : second;
    }
    assert_non_null(second);
    char kept[24];
    memcpy(kept, second, name_size(first));
    memcpy(second, first, name_size(first));
    coffer_error err;
    assert_int_equal(parse_file(file, length, 0, &err), COFFER_ERR_DUPLICATE_NAME);
    assert_int_equal(err.offset, (uint64_t)((second > first ? second : first) - (const char *)file));
    memcpy(second, kept, name_size(first));
}

static void test_duplicate_among_names_that_collide(void **state)
{
    (void)state;
    size_t length = 0;
    uint8_t *file = colliding_names(&length);
    const char *end = (char *)file + 8 + length;
    char *least = next_name((char *)file + 8, end);
    char *greatest = least;
    for (char *at = least; at != NULL; at = next_name(at + 1, end)) {
        least = strncmp(at, least, 10) < 0 ? at : least;
        greatest = strncmp(at, greatest, 10) > 0 ? at : greatest;
    }
    check_duplicate(file, length, least);
    check_duplicate(file, length, greatest);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header_limit),
        cmocka_unit_test(test_header_limit_can_be_lowered),
        cmocka_unit_test(test_header_limit_of_the_writer),
        cmocka_unit_test(test_nesting_of_100000),
        cmocka_unit_test(test_100000_tensors),
        cmocka_unit_test(test_duplicate_among_100000),
        cmocka_unit_test(test_a_window_is_enough),
        cmocka_unit_test(test_a_million_dimensions),
        cmocka_unit_test(test_many_keys),
        cmocka_unit_test(test_names_that_collide),
        cmocka_unit_test(test_duplicate_among_names_that_collide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
