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
    /* From the beginning, too: of the header's table and a text of so many bytes, a quarter more, 1/32 more, and 512. */
    const uint64_t text = (((UINT64_C(1) << 34) - sizeof(coffer_table) - 512) / 41 + 1) * 32;
    for (uint64_t less = 0; less < 64; less++) {
        const uint64_t size = text - less;
        const uint64_t wanted = (sizeof(coffer_table) + size + size / 4 + size / 32 + 512 + 7) & ~UINT64_C(7);
        meter.requests = 0;
        meter.fail_at = 1;
        assert_int_equal(coffer__builder_init(&builder, &allocator, size, NULL), COFFER_ERR_MEMORY);
        assert_int_equal(meter.requests, wanted <= UINT64_C(1) << 34 ? 1 : 0);
    }
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
    for (int kind = -1; kind <= COFFER_NOTE_COUNT; kind += COFFER_NOTE_COUNT + 1) {
        const coffer_note none = coffer_table_note(table, (coffer_note_kind)kind);
        assert_true(none.count == 0 && none.offset == COFFER_NO_OFFSET);
    }
    coffer_table_free(table);
}

/* Header text of empty tensors, whose names come one after the other, a comma between them. */
static void empty_tensors(text_buffer *text, const char *names)
{
    text_begin(text);
    text_put(text, "{");
    while (*names != '\0') {
        char member[96];
        const size_t size = strcspn(names, ",");
        snprintf(member, sizeof member, "\"%.*s\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}%s", (int)size,
                 names, names[size] == ',' ? "," : "");
        text_put(text, member);
        names += size + (names[size] == ',');
    }
    text_put(text, "}");
    text_frame(text);
}

static coffer_table *table_of(const char *names, bool all_notes)
{
    static text_buffer text;
    coffer_table *table = NULL;
    coffer_error err;
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.all_notes = all_notes;
    empty_tensors(&text, names);
    assert_int_equal(coffer_parse(&table, NULL, text.bytes, text.size, coffer_libc_allocator(), &options, &err),
                     COFFER_OK);
    return table;
}

/* How many names differ only in case from another, among names that begin alike, in any order. */
static void test_which_case_is_noted(void **state)
{
    (void)state;
    static const char *const names[] = { "a", "ab", "A", "abc", "AB", "b", "ABC", "B", "aB" };
    const size_t count = sizeof names / sizeof names[0];
    for (size_t turn = 0; turn < count; turn++) {
        for (size_t step = 1; step < count; step++) {
            char list[128] = "";
            for (size_t i = 0; i < count && step % 3 != 0; i++) {
                strcat(list, i == 0 ? "" : ",");
                strcat(list, names[(turn + i * step) % count]);
            }
            coffer_table *table = table_of(list, true);
            assert_int_equal(coffer_table_note(table, COFFER_NOTE_CASE).count, step % 3 != 0 ? 5 : 0);
            coffer_table_free(table);
        }
    }
    /* Letters, from the first to the last, and no others. */
    coffer_table *letters = table_of("z,a,A,Z", true);
    assert_int_equal(coffer_table_note(letters, COFFER_NOTE_CASE).count, 2);
    coffer_table_free(letters);
    coffer_table *table = table_of("[,{,@,`,1,Q", true);
    assert_int_equal(coffer_table_note(table, COFFER_NOTE_CASE).count, 0);
    coffer_table_free(table);
}

/* Names end where they end, whatever lies behind them in memory: here the last's dimension, which is not 0, and NULs of a name that
   continues with them. */
static void test_case_of_names_with_nul(void **state)
{
    (void)state;
    static const char header[] =
        "{\"ABCDEFG\":{\"dtype\":\"U8\",\"shape\":[0,0,0],\"data_offsets\":[0,0]},"
        "\"abcdefg\\u0000\\u0000\\u0000\\u0000\\u0000\\u0000\\u0000\\u0000\\u0000\\u0000\":"
        "{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
        "\"abcdefg\":{\"dtype\":\"U8\",\"shape\":[72340172838076673,0],\"data_offsets\":[0,0]}}";
    uint8_t file[8 + sizeof header - 1] = { (sizeof header - 1) & 0xFF, (sizeof header - 1) >> 8 };
    memcpy(file + 8, header, sizeof header - 1);
    coffer_table *table = NULL;
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.all_notes = true;
    assert_int_equal(coffer_parse(&table, NULL, file, sizeof file, coffer_libc_allocator(), &options, NULL), COFFER_OK);
    assert_int_equal(coffer_table_note(table, COFFER_NOTE_CASE).count, 1);
    coffer_table_free(table);
}

/* Tensors that begin and end at one place stay in the header's order, behind what ends there and before what begins there. */
static void test_the_order_of_empty_tensors(void **state)
{
    (void)state;
    static text_buffer text;
    coffer_table *table = NULL;
    text_begin(&text);
    text_put(&text, "{\"last\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}");
    for (int i = 0; i < 20; i++) {
        char member[96];
        snprintf(member, sizeof member, ",\"%d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[1,1]}", i);
        text_put(&text, member);
    }
    text_put(&text, ",\"first\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}");
    text_frame(&text);
    assert_int_equal(coffer_parse(&table, NULL, text.bytes, text.size, coffer_libc_allocator(), NULL, NULL), COFFER_OK);
    assert_string_equal(coffer_table_at(table, 0)->name, "first");
    for (int i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        assert_string_equal(coffer_table_at(table, 1 + (size_t)i)->name, name);
    }
    assert_string_equal(coffer_table_at(table, 21)->name, "last");
    coffer_table_free(table);
}

/* Tensors that are declared in any order, in a header of their own. */
#define MANY 300u

typedef struct many_tensors {
    size_t count;
    uint64_t begin[MANY];
    uint64_t size[MANY];
} many_tensors;

static coffer_status parse_many(const many_tensors *many, coffer_table **table, coffer_error *err)
{
    static char text[8 + 128 * MANY];
    size_t size = 8;
    for (size_t i = 0; i < many->count; i++) {
        size +=
            (size_t)snprintf(text + size, sizeof text - size,
                             "%c\"%zu\":{\"dtype\":\"U8\",\"shape\":[%llu],\"data_offsets\":[%llu,%llu]}",
                             i == 0 ? '{' : ',', i, (unsigned long long)many->size[i],
                             (unsigned long long)many->begin[i], (unsigned long long)(many->begin[i] + many->size[i]));
    }
    text[size++] = '}';
    const uint64_t length = size - 8;
    for (unsigned i = 0; i < 8; i++) {
        text[i] = (char)(length >> (8 * i) & 0xFF);
    }
    return coffer_parse(table, NULL, text, size, coffer_libc_allocator(), NULL, err);
}

/* One after the other, of sizes that `scale` makes large; every third has no data, and of the others every fifth a byte. */
static void lay_many(many_tensors *many, size_t count, uint64_t scale)
{
    uint64_t covered = 0;
    many->count = count;
    for (size_t i = 0; i < count; i++) {
        many->begin[i] = covered;
        many->size[i] = i % 3 == 2 ? 0 : i % 5 == 4 ? 1 : (1 + i * 7919 % 1000) * scale;
        covered += many->size[i];
    }
}

static void swap_many(many_tensors *many, size_t a, size_t b)
{
    const uint64_t begin = many->begin[a];
    const uint64_t size = many->size[a];
    many->begin[a] = many->begin[b];
    many->size[a] = many->size[b];
    many->begin[b] = begin;
    many->size[b] = size;
}

/* In order of offset, what has no data first, else as the header has them: be they few or many, be the offsets so large that they
   leave no bits for anything else. */
static void test_the_order_of_many(void **state)
{
    (void)state;
    static many_tensors many;
    for (size_t count = 2; count <= MANY; count += count < 130 ? 1 : 17) {
        for (unsigned shift = 0; shift <= 44; shift += 4) {
            lay_many(&many, count, UINT64_C(1) << shift);
            for (size_t i = 0, more = 0; shift == 44 && i < count; i++) {
                many.begin[i] += more * (UINT64_C(1) << 59);
                many.size[i] += i < 24 && many.size[i] > 0 ? UINT64_C(1) << 59 : 0;
                more += i < 24 && many.size[i] > 0 ? 1 : 0;
            }
            for (size_t i = 0; i < count; i++) {
                swap_many(&many, i, (i * 31 + shift) % count);
            }
            coffer_table *table = NULL;
            coffer_error err;
            assert_int_equal(parse_many(&many, &table, &err), COFFER_OK);
            assert_int_equal(table->slot_count & (table->slot_count - 1), 0);
            assert_true(table->slot_count < 8 * count);
            const coffer_tensor *last = coffer_table_at(table, 0);
            for (size_t i = 1; i < count; i++) {
                const coffer_tensor *next = coffer_table_at(table, i);
                assert_int_equal(next->offset, last->offset + last->size);
                if (last->size == 0 && next->size == 0) {
                    assert_true(strtoul(last->name, NULL, 10) < strtoul(next->name, NULL, 10));
                }
                last = next;
            }
            for (size_t i = 0; i < count; i++) {
                char name[32];
                const int length = snprintf(name, sizeof name, "%zu", i);
                const coffer_tensor *tensor = coffer_table_find(table, name, (size_t)length);
                assert_int_equal(tensor->offset - coffer_table_data_offset(table), many.begin[i]);
                assert_int_equal(tensor->size, many.size[i]);
            }
            coffer_table_free(table);
        }
    }
}

/* What has no data stays behind what ends where it is, wherever in the file that is: a byte behind all that ends at every fourth. */
static void test_an_odd_end_among_many(void **state)
{
    (void)state;
    static many_tensors many;
    many.count = 100;
    for (size_t odd = 0; odd < 40; odd++) {
        for (size_t i = 0; i < many.count; i++) {
            const size_t place = many.count - 1 - i;
            many.begin[i] = (place == 0 ? 0 : odd) + (place < 99 ? 4 * place : 4 * 98 + 1);
            many.size[i] = (place == 0 ? odd : 0) + (place < 98 ? 4 : place == 98 ? 1 : 0);
        }
        coffer_table *table = NULL;
        coffer_error err;
        assert_int_equal(parse_many(&many, &table, &err), COFFER_OK);
        assert_string_equal(coffer_table_at(table, 98)->name, "1");
        assert_string_equal(coffer_table_at(table, 99)->name, "0");
        coffer_table_free(table);
    }
}

/* Of two whose data begin together the larger one overlaps, whichever comes first, be they few or many. */
static void test_many_of_which_two_begin_together(void **state)
{
    (void)state;
    static many_tensors many;
    for (size_t count = 6; count <= MANY; count += 58) {
        for (size_t place = 0; place < 4; place += 3) {
            for (size_t larger = 0; larger < 2; larger++) {
                coffer_table *table = NULL;
                coffer_error err;
                lay_many(&many, count, 1);
                swap_many(&many, place == 0 ? 4 : 0, count - 1);
                many.begin[place + 1] = many.begin[place];
                many.size[place + larger] = 2000;
                many.size[place + 1 - larger] = 1000;
                assert_int_equal(parse_many(&many, &table, &err), COFFER_ERR_OVERLAP);
                char name[8];
                snprintf(name, sizeof name, "%zu", place + larger);
                assert_string_equal(err.tensor, name);
            }
        }
    }
}

/* A name or a key of no bytes is looked up like any other, and may be NULL. */
static void test_empty_names(void **state)
{
    (void)state;
    static const char header[] = "{\"__metadata__\":{\"\":\"v\",\"k\":\"w\"},"
                                 "\"\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}     ";
    uint8_t file[8 + sizeof header - 1] = { sizeof header - 1 };
    memcpy(file + 8, header, sizeof header - 1);
    coffer_table *table = NULL;
    assert_int_equal(coffer_parse(&table, NULL, file, sizeof file, coffer_libc_allocator(), NULL, NULL), COFFER_OK);
    assert_ptr_equal(coffer_table_find(table, NULL, 0), coffer_table_at(table, 0));
    assert_ptr_equal(coffer_table_find(table, "x", 0), coffer_table_at(table, 0));
    assert_string_equal(coffer_table_metadata_get(table, NULL, 0, NULL), "v");
    assert_string_equal(coffer_table_metadata_get(table, "x", 0, NULL), "v");
    coffer_table_free(table);
    table = table_of("a,b", false);
    assert_null(coffer_table_find(table, NULL, 0));
    assert_null(coffer_table_metadata_get(table, NULL, 0, NULL));
    coffer_table_free(table);
}

/* Sorting writes as many places as there are tensors. */
static void test_sorting_by_name(void **state)
{
    (void)state;
    coffer_table *table = table_of("b,c,a", false);
    uint32_t order[4] = { 9, 9, 9, 9 };
    coffer_table_sort_by_name(table, order);
    assert_true(order[0] == 2 && order[1] == 0 && order[2] == 1 && order[3] == 9);
    coffer_table_free(table);
}

/* Slots for names: at least a quarter is empty, and where there is space, a half. */
static void test_how_many_slots(void **state)
{
    (void)state;
    static const size_t slots[] = { 0, 4, 4, 8, 8, 16, 16, 16, 16, 32, 32, 32, 32, 32, 32, 32, 32 };
    char list[256] = "";
    for (size_t count = 0; count < sizeof slots / sizeof slots[0]; count++) {
        if (count > 0) {
            char name[16];
            snprintf(name, sizeof name, "%sname.%zu", count == 1 ? "" : ",", count);
            strcat(list, name);
        }
        coffer_table *table = table_of(list, false);
        assert_int_equal(table->slot_count, slots[count]);
        coffer_table_free(table);
    }
}

/* How much memory a table begins with, for a header of so many bytes: what was measured; whoever changes it measures again. */
static void test_the_first_size(void **state)
{
    (void)state;
    static const struct {
        size_t header;
        size_t capacity;
    } rows[] = {
        { 0, 512 }, { 1, 520 }, { 31, 552 }, { 32, 560 }, { 1000, 1800 }, { 4096, 5760 }, { 1000003, 1281768 }
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        coffer__builder builder;
        assert_int_equal(coffer__builder_init(&builder, coffer_libc_allocator(), rows[i].header, NULL), COFFER_OK);
        assert_int_equal(builder.table->block_size, (sizeof(coffer_table) + 7) / 8 * 8 + rows[i].capacity);
        assert_int_equal(builder.marks_at, builder.table->block_size);
        assert_int_equal(builder.used, (sizeof(coffer_table) + 7) / 8 * 8);
        assert_false(builder.moved);
        coffer__builder_discard(&builder);
    }
}

static void test_the_size_of_a_pair(void **state)
{
    (void)state;
    static const uint32_t rows[][3] = { { 0, 0, 16 }, { 1, 1, 16 }, { 2, 0, 16 },
                                        { 0, 3, 20 }, { 5, 5, 24 }, { 6, 5, 28 } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const coffer__text_pair pair = { rows[i][0], rows[i][1], 0 };
        assert_int_equal(coffer__pair_size(&pair), rows[i][2]);
    }
}

/* A name, a NUL, and then the shape at the next multiple of eight bytes. */
static void test_where_shapes_lie(void **state)
{
    (void)state;
    static const uint32_t rows[][2] = {
        { 0, 8 }, { 1, 8 }, { 7, 8 }, { 8, 16 }, { 15, 16 }, { 16, 24 }, { 1000, 1008 }
    };
    assert_int_equal(sizeof(coffer__entry) % 8, 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(coffer__entry_shape_at(rows[i][0]), sizeof(coffer__entry) + rows[i][1]);
    }
}

/* The hash itself: how well it spreads names was measured, and whoever changes it measures again. Of words that are the same in
   either byte order, and of names that are shorter on machines of the common one. */
static void test_the_hash(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t hash;
    } rows[] = {
        { "aaaaaaaa", 0x22B5874B },
        { "aaaaaaaaa", 0xFAA25D8A },
        { "aaaaaaaaaaaaaaa", 0xBD6DA768 },
        { "aaaaaaaaaaaaaaaa", 0xC09104CD },
        { "aaaaaaaaaaaaaaaaa", 0x96E53D3D },
        { "aaaaaaaaaaaaaaaaaaaaaaaa", 0x83BC6468 },
        { "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 0x28707B3D },
        { "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 0x3270255A },
        { "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 0xA7AF1E44 },
        { "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 0xFD2DA401 },
        { "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 0xB0D6D712 },
        { "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 0x3E0FB359 },
        { "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 0x9B0A6979 },
        { "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 0x0522BE64 },
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        { "", 0x7D9396B5 },
        { "b", 0x2F40F67B },
        { "weight", 0xF914B5D7 },
        { "h.0.attn", 0xDBD90DBD },
        { "transformer.h.11.mlp.c_fc.weight", 0x0EC16E79 },
        { "model.layers.79.self_attn.q_proj.weight", 0xE12A9D82 },
        { "lm_head.bias15!", 0x463D35D3 },
        { "lm_head.weight16", 0xB8ADF8E3 },
#endif
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(coffer__hash_name(rows[i].name, strlen(rows[i].name)), rows[i].hash);
    }
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
        /* What lies after the name does not count. */
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

/* ---- tables built by hand: their block is as large as wanted ---- */

/* Adds a tensor without a shape at the builder's end; the block grows to what is needed and no more. */
static void add_entry(coffer__builder *builder, const char *name, uint64_t offset)
{
    const uint32_t name_len = (uint32_t)strlen(name);
    const size_t size = coffer__entry_shape_at(name_len);
    assert_int_equal(coffer__builder_reserve(builder, size, 0, NULL), COFFER_OK);
    coffer__entry *entry = coffer__builder_at(builder, builder->used);
    memset(entry, 0, size);
    memcpy(entry + 1, name, name_len);
    entry->tensor.name_len = name_len;
    entry->tensor.dtype = COFFER_U8;
    entry->tensor.offset = offset;
    entry->position = (uint32_t)builder->table->count;
    coffer__builder_add(builder, size);
}

static coffer_table *sealed(coffer__builder *builder)
{
    coffer_table *table = NULL;
    assert_int_equal(coffer__builder_seal(builder, true, 0, &table, NULL), COFFER_OK);
    assert_null(builder->table);
    return table;
}

/* In a block that has space for nothing else, a quarter of the slots is empty, or a little more. */
static void test_the_least_slots(void **state)
{
    (void)state;
    static const size_t slots[] = { 0, 4, 4, 4, 8, 8, 8, 16, 16, 16, 16, 16, 16, 32, 32, 32, 32 };
    for (size_t count = 0; count < sizeof slots / sizeof slots[0]; count++) {
        coffer__builder builder;
        assert_int_equal(coffer__builder_init(&builder, coffer_libc_allocator(), 0, NULL), COFFER_OK);
        /* What a table begins with is taken first. */
        builder.used = builder.marks_at;
        for (size_t i = 0; i < count; i++) {
            char name[16];
            snprintf(name, sizeof name, "name.%zu", i);
            add_entry(&builder, name, i);
        }
        coffer_table *table = sealed(&builder);
        assert_int_equal(table->slot_count, slots[count]);
        const size_t numbers = (count * sizeof(uint32_t) + 7) / 8 * 8;
        const size_t marks = count * sizeof(coffer__mark);
        assert_int_equal(table->block_size, table->order_at + numbers + slots[count] * sizeof(uint64_t) + marks);
        for (size_t i = 0; i < count; i++) {
            const coffer_tensor *tensor = coffer_table_at(table, i);
            assert_int_equal(tensor->offset, i);
            assert_ptr_equal(coffer_table_find(table, tensor->name, tensor->name_len), tensor);
        }
        coffer_table_free(table);
    }
}

/* Three tensors have four slots; eight where the block has space for them, without growing. */
static void test_slots_for_the_capacity_that_is_there(void **state)
{
    (void)state;
    for (size_t capacity = 0; capacity <= 96; capacity += 8) {
        coffer__builder builder;
        memory_meter meter;
        const coffer_allocator allocator = metered_allocator(&meter);
        assert_int_equal(coffer__builder_init(&builder, &allocator, 0, NULL), COFFER_OK);
        add_entry(&builder, "a", 0);
        add_entry(&builder, "b", 1);
        add_entry(&builder, "c", 2);
        const size_t size = builder.table->block_size;
        builder.used = builder.marks_at - 16 - capacity; /* order: three numbers, rounded up */
        coffer_table *table = sealed(&builder);
        assert_int_equal(table->slot_count, capacity < 64 ? 4 : 8);
        assert_int_equal(table->block_size, capacity < 32 ? size + 32 - capacity : size);
        assert_int_equal(meter.requests, capacity < 32 ? 2 : 1);
        for (size_t i = 0; i < 3; i++) {
            const coffer_tensor *tensor = coffer_table_at(table, i);
            assert_ptr_equal(tensor->name, (const coffer__entry *)(const void *)tensor + 1);
            assert_int_equal(tensor->name[0], 'a' + (int)i);
            assert_ptr_equal(coffer_table_find(table, tensor->name, 1), tensor);
        }
        coffer_table_free(table);
    }
}

/* A block grows to its double, or less: what is needed, and four bytes for each of the header that are still to come. */
static void test_how_a_table_grows(void **state)
{
    (void)state;
    enum { DOUBLED = 1 }; /* no number of bytes that is asked for */
    static const struct {
        size_t size;
        size_t header_left;
        size_t more; /* than is needed at once, or DOUBLED */
    } rows[] = { { 1000, 0, 0 },  { 1001, 0, 0 }, { 607, 100, 400 }, { 1000, 10, 40 }, { 1000, 1000000, DOUBLED },
                 { 100000, 3, 0 } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        coffer__builder builder;
        assert_int_equal(coffer__builder_init(&builder, coffer_libc_allocator(), 0, NULL), COFFER_OK);
        add_entry(&builder, "a", 0);
        const size_t before = builder.table->block_size;
        const size_t wanted = builder.used + rows[i].size + 2 * sizeof(coffer__mark) + rows[i].more;
        assert_int_equal(coffer__builder_reserve(&builder, rows[i].size, rows[i].header_left, NULL), COFFER_OK);
        assert_int_equal(builder.table->block_size, rows[i].more == DOUBLED ? 2 * before : (wanted + 7) / 8 * 8);
        assert_true(builder.moved);
        assert_int_equal(builder.marks_at, builder.table->block_size - sizeof(coffer__mark));
        coffer__builder_discard(&builder);
    }
}

/* Space is what an entry takes and its mark: to the byte. */
static void test_capacity_that_is_enough(void **state)
{
    (void)state;
    for (size_t capacity = 0; capacity < 64; capacity++) {
        for (size_t size = 0; size < 64; size++) {
            coffer__builder builder;
            assert_int_equal(coffer__builder_init(&builder, coffer_libc_allocator(), 0, NULL), COFFER_OK);
            builder.used = builder.marks_at - capacity;
            assert_int_equal(coffer__builder_reserve(&builder, size, 0, NULL), COFFER_OK);
            assert_int_equal(builder.moved, capacity < size + sizeof(coffer__mark));
            coffer__builder_discard(&builder);
        }
    }
}

/* ---- names that collide ---- */

/* Writes the next name after number *i whose hash has these low ten bits; ten, as there are fewer than 1024 slots. */
static void next_colliding(size_t *i, uint32_t low_bits, char *name, size_t capacity)
{
    do {
        snprintf(name, capacity, "n%zu", ++*i);
    } while ((coffer__hash_name(name, strlen(name)) & 1023) != low_bits);
}

/* A table of `colliding` names that want one slot, and `others` that each find theirs empty. */
static coffer_table *table_of_colliding(size_t colliding, size_t others)
{
    coffer__builder builder;
    char name[32];
    size_t number = 0;
    assert_int_equal(coffer__builder_init(&builder, coffer_libc_allocator(), 0, NULL), COFFER_OK);
    for (size_t i = 0; i < colliding; i++) {
        next_colliding(&number, 5, name, sizeof name);
        add_entry(&builder, name, i);
    }
    for (size_t i = 0; i < others; i++) {
        /* The names that collide take the slots from 5 on, one each. */
        number = 0;
        next_colliding(&number, (uint32_t)(5 + colliding + 2 + i), name, sizeof name);
        add_entry(&builder, name, colliding + i);
    }
    return sealed(&builder);
}

/* The index of slots is given up when more slots were looked at than 16 for each name, and 1024. */
static void test_when_the_slots_are_given_up(void **state)
{
    (void)state;
    static const struct {
        size_t colliding; /* the k-th of them looks at k - 1 slots that are taken */
        size_t others;
        bool given_up;
    } rows[] = {
        { 65, 1, true },   /* 65 * 64 / 2 = 2080 = 16 * 66 + 1024 */
        { 65, 2, false },  /* 2080 of 2096 */
        { 70, 17, false }, /* 2415 of 2416 */
        { 70, 16, true },  /* 2415 of 2400 */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        coffer_table *table = table_of_colliding(rows[i].colliding, rows[i].others);
        assert_int_equal(table->slot_count == 0, rows[i].given_up);
        for (size_t k = 0; k < coffer_table_count(table); k++) {
            const coffer_tensor *tensor = coffer_table_at(table, k);
            assert_int_equal(tensor->offset, k);
            assert_ptr_equal(coffer_table_find(table, tensor->name, tensor->name_len), tensor);
            char other[32] = "m"; /* all of them begin with n */
            memcpy(other + 1, tensor->name + 1, tensor->name_len - 1);
            assert_null(coffer_table_find(table, other, tensor->name_len));
        }
        assert_null(coffer_table_find(table, "~", 1));
        coffer_table_free(table);
    }
}

/* A second tensor of any of the names, be it the first or the last in their order, is found without slots, too. */
static void test_duplicates_without_slots(void **state)
{
    (void)state;
    enum { COUNT = 80 };
    static char names[COUNT][16];
    size_t number = 0;
    for (size_t i = 0; i < COUNT; i++) {
        next_colliding(&number, 5, names[i], sizeof names[i]);
    }
    for (size_t twice = 0; twice < COUNT; twice++) {
        coffer__builder builder;
        coffer_table *table = NULL;
        coffer_error err;
        assert_int_equal(coffer__builder_init(&builder, coffer_libc_allocator(), 0, NULL), COFFER_OK);
        for (size_t i = 0; i < COUNT; i++) {
            add_entry(&builder, names[i], i);
        }
        add_entry(&builder, names[twice], COUNT);
        assert_int_equal(coffer__builder_seal(&builder, true, 100, &table, &err), COFFER_ERR_DUPLICATE_NAME);
        assert_int_equal(err.offset, 100 + COUNT);
        assert_string_equal(err.tensor, names[twice]);
        assert_null(table);
        assert_null(builder.table);
    }
}

/* Keys that begin alike, and what is before, between and behind them. */
static void test_keys_that_begin_alike(void **state)
{
    (void)state;
    static const char *const keys[] = { "k", "ka", "kaa", "kab", "kb", "l", "la" };
    static const char *const none[] = { "", "j", "kaA", "kac", "kaaa", "kz", "lb", "zz" };
    const size_t most = sizeof keys / sizeof keys[0];
    for (size_t count = 0; count <= most; count++) {
        char text[256] = "{\"__metadata__\":{";
        for (size_t i = 0; i < count; i++) {
            char pair[32];
            snprintf(pair, sizeof pair, "%s\"%s\":\"=%s\"", i == 0 ? "" : ",", keys[i], keys[i]);
            strcat(text, pair);
        }
        strcat(text, "}}");
        coffer_table *table = NULL;
        assert_int_equal(parse_text(text, NULL, &table, NULL), COFFER_OK);
        for (size_t i = 0; i < most; i++) {
            size_t value_len = 99;
            const char *value = coffer_table_metadata_get(table, keys[i], strlen(keys[i]), &value_len);
            assert_int_equal(value != NULL, i < count);
            if (i < count) {
                assert_string_equal(value + 1, keys[i]);
                assert_int_equal(value_len, 1 + strlen(keys[i]));
                assert_ptr_equal(coffer_table_metadata_get(table, keys[i], strlen(keys[i]), NULL), value);
            } else {
                assert_int_equal(value_len, 99);
            }
        }
        for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
            assert_null(coffer_table_metadata_get(table, none[i], strlen(none[i]), NULL));
        }
        coffer_table_free(table);
    }
}

/* Pairs alone, of every number: their order may end where the block does. */
static void test_nothing_but_metadata(void **state)
{
    (void)state;
    static text_buffer text;
    for (unsigned count = 1; count <= 200; count++) {
        text_begin(&text);
        text_put(&text, "{\"__metadata__\":{");
        for (unsigned i = 0; i < count; i++) {
            char pair[32];
            snprintf(pair, sizeof pair, "%s\"%u\":\"\"", i == 0 ? "" : ",", i);
            text_put(&text, pair);
        }
        text_put(&text, "}}");
        text_frame(&text);
        coffer_table *table = NULL;
        assert_int_equal(coffer_parse(&table, NULL, text.bytes, text.size, coffer_libc_allocator(), NULL, NULL),
                         COFFER_OK);
        assert_int_equal(coffer_table_metadata_count(table), count);
        assert_int_equal(table->slot_count, 0);
        assert_null(coffer_table_find(table, "0", 1));
        assert_string_equal(coffer_table_metadata_get(table, "0", 1, NULL), "");
        coffer_table_free(table);
    }
}

/* ---- the frame ---- */

/* Bytes that look like another kind of file are one only where they cannot be a header's length, or nothing begins behind it. */
static void test_lengths_that_look_like_something_else(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        uint64_t limit;
        coffer_status status;
    } rows[] = {
        { "PK\3\4\0\0\0\0{", 9, 0x04034B50, COFFER_ERR_HEADER_TRUNCATED },
        { "PK\3\4\0\0\0\0{", 9, 0x04034B4F, COFFER_ERR_IS_ZIP },
        { "PK\3\4\0\0\0\0[", 9, 0x04034B50, COFFER_ERR_IS_ZIP },
        { "PK\3\4\0\0\0\0", 8, 0x04034B50, COFFER_ERR_IS_ZIP },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
        options.file_size = rows[i].size;
        options.max_header_size = rows[i].limit;
        coffer_table *table = NULL;
        coffer_error err;
        assert_int_equal(
            coffer_parse(&table, NULL, rows[i].bytes, rows[i].size, coffer_libc_allocator(), &options, &err),
            rows[i].status);
        assert_int_equal(err.offset, 0);
    }
}

/* bintensors begins with 0 or 1: a header that begins with 2 is no JSON. */
static void test_what_no_format_begins_with(void **state)
{
    (void)state;
    coffer_table *table = NULL;
    coffer_error err;
    assert_int_equal(coffer_parse(&table, NULL, "\2\0\0\0\0\0\0\0\2\0", 10, coffer_libc_allocator(), NULL, &err),
                     COFFER_ERR_JSON);
    assert_int_equal(err.offset, 8);
    assert_int_equal(coffer_parse(&table, NULL, NULL, 1, coffer_libc_allocator(), NULL, &err), COFFER_ERR_ARGUMENT);
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.max_header_size = UINT64_C(4000000001);
    assert_int_equal(coffer_parse(&table, NULL, "", 0, coffer_libc_allocator(), &options, &err), COFFER_ERR_ARGUMENT);
    assert_string_equal(err.message, "max_header_size is above 4000000000");
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
        cmocka_unit_test(test_which_case_is_noted),
        cmocka_unit_test(test_case_of_names_with_nul),
        cmocka_unit_test(test_the_order_of_empty_tensors),
        cmocka_unit_test(test_the_order_of_many),
        cmocka_unit_test(test_an_odd_end_among_many),
        cmocka_unit_test(test_many_of_which_two_begin_together),
        cmocka_unit_test(test_empty_names),
        cmocka_unit_test(test_sorting_by_name),
        cmocka_unit_test(test_how_many_slots),
        cmocka_unit_test(test_the_first_size),
        cmocka_unit_test(test_the_size_of_a_pair),
        cmocka_unit_test(test_where_shapes_lie),
        cmocka_unit_test(test_the_hash),
        cmocka_unit_test(test_what_a_hash_depends_on),
        cmocka_unit_test(test_two_names_of_one_hash),
        cmocka_unit_test(test_the_least_slots),
        cmocka_unit_test(test_slots_for_the_capacity_that_is_there),
        cmocka_unit_test(test_how_a_table_grows),
        cmocka_unit_test(test_capacity_that_is_enough),
        cmocka_unit_test(test_when_the_slots_are_given_up),
        cmocka_unit_test(test_duplicates_without_slots),
        cmocka_unit_test(test_keys_that_begin_alike),
        cmocka_unit_test(test_nothing_but_metadata),
        cmocka_unit_test(test_lengths_that_look_like_something_else),
        cmocka_unit_test(test_what_no_format_begins_with),
        cmocka_unit_test(test_short_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
