/* SPDX-License-Identifier: Apache-2.0 */
/* Why: coffer_parse is the library's gate. The vectors hold its verdicts; here are its contracts: how many bytes it needs, what
   options do, what memory it takes, what happens when there is none, and names that someone made collide. */
#include "support_cmocka.h"

#include "coffer.h"
#include "support_memory.h"
#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct text_buffer {
    char *bytes; /* with 8 bytes for the length in front */
    size_t size;
    size_t capacity;
} text_buffer;

static void text_put(text_buffer *text, const char *piece)
{
    const size_t size = strlen(piece);
    if (text->size + size + 8 > text->capacity) {
        text->capacity = (text->size + size + 8) * 2;
        text->bytes = realloc(text->bytes, text->capacity);
        assert_non_null(text->bytes);
    }
    text->size = text->size == 0 ? 8 : text->size;
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
    text_buffer text = { 0 };
    text_put(&text, json);
    text_frame(&text);
    const coffer_status status =
        coffer_parse(table, NULL, text.bytes, text.size, coffer_libc_allocator(), options, err);
    free(text.bytes);
    return status;
}

static void test_arguments(void **state)
{
    (void)state;
    coffer_table *table = NULL;
    coffer_error err;
    assert_int_equal(coffer_parse(NULL, NULL, "", 0, coffer_libc_allocator(), NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_parse(&table, NULL, NULL, 8, coffer_libc_allocator(), NULL, &err), COFFER_ERR_ARGUMENT);
    uint64_t need = 0;
    assert_int_equal(coffer_parse(&table, &need, NULL, 0, coffer_libc_allocator(), NULL, &err), COFFER_NEED_MORE);
    assert_int_equal(need, 8);
    assert_int_equal(coffer_parse(&table, NULL, "\2\0\0\0\0\0\0\0{}", 10, NULL, NULL, NULL), COFFER_OK); /* libc's */
    coffer_table_free(table);
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.max_header_size = UINT64_C(4000000001);
    assert_int_equal(parse_text("{}", &options, &table, &err), COFFER_ERR_ARGUMENT);
    options.max_header_size = COFFER_LARGEST_MAX_HEADER_SIZE;
    assert_int_equal(parse_text("{}", &options, &table, &err), COFFER_OK);
    coffer_table_free(table);
    options.struct_size = 0;
    assert_int_equal(parse_text("{}", &options, &table, &err), COFFER_ERR_ARGUMENT);
    coffer_table_free(NULL);
}

static void test_how_much_it_needs(void **state)
{
    (void)state;
    text_buffer text = { 0 };
    text_put(&text, "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}");
    text_frame(&text);
    for (size_t size = 0; size <= text.size; size++) {
        char *exact = malloc(size + 1);
        assert_non_null(exact);
        memcpy(exact, text.bytes, size);
        uint64_t need = 0;
        coffer_table *table = (coffer_table *)(void *)exact;
        const coffer_status status = coffer_parse(&table, &need, exact, size, coffer_libc_allocator(), NULL, NULL);
        assert_int_equal(status, size < text.size ? COFFER_NEED_MORE : COFFER_OK);
        assert_int_equal(need, size < 8 ? 8 : text.size);
        assert_true((table != NULL) == (status == COFFER_OK));
        coffer_table_free(table);
        free(exact);
    }
    free(text.bytes);
}

static void test_limits(void **state)
{
    (void)state;
    coffer_table *table = NULL;
    coffer_error err;
    uint64_t need = 0;
    /* 100,000,000 is allowed, one more is not; the length alone decides. */
    assert_int_equal(coffer_parse(&table, &need, "\x00\xE1\xF5\x05\0\0\0\0", 8, coffer_libc_allocator(), NULL, &err),
                     COFFER_NEED_MORE);
    assert_int_equal(need, 100000008);
    assert_int_equal(coffer_parse(&table, &need, "\x01\xE1\xF5\x05\0\0\0\0", 8, coffer_libc_allocator(), NULL, &err),
                     COFFER_ERR_HEADER_TOO_LARGE);
    assert_int_equal(err.offset, 0);
    assert_int_equal(err.expected, 100000000);
    assert_int_equal(err.actual, 100000001);
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.max_header_size = 2;
    assert_int_equal(parse_text("{}", &options, &table, &err), COFFER_OK);
    coffer_table_free(table);
    assert_int_equal(parse_text("{} ", &options, &table, &err), COFFER_ERR_HEADER_TOO_LARGE);
}

static void test_everything_a_table_says(void **state)
{
    (void)state;
    coffer_table *table = NULL;
    coffer_error err;
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.file_size = 8 + 287 + 18;
    assert_int_equal(parse_text("{\"z\":{\"dtype\":\"I16\",\"shape\":[2,2],\"data_offsets\":[10,18]},"
                                "\"__metadata__\":{\"format\":\"pt\",\"\":\"e\\u0000f\",\"a\":\"1\"},"
                                "\"empty\":{\"shape\":[0,5],\"dtype\":\"F64\",\"data_offsets\":[2,2]},"
                                "\"b\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[2,10]},"
                                "\"n\\u0000ul\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}   \n",
                                &options, &table, &err),
                     COFFER_OK);
    assert_int_equal(coffer_table_count(table), 4);
    assert_int_equal(coffer_table_data_offset(table), 295);
    assert_int_equal(coffer_table_data_size(table), 18);
    assert_int_equal(coffer_table_slack(table), 4);
    static const char *const names[] = { "n\0ul", "empty", "b", "z" };
    static const uint32_t lengths[] = { 4, 5, 1, 1 };
    static const uint64_t offsets[] = { 295, 297, 297, 305 };
    static const uint64_t sizes[] = { 2, 0, 8, 8 };
    for (size_t i = 0; i < 4; i++) {
        const coffer_tensor *tensor = coffer_table_at(table, i);
        assert_int_equal(tensor->name_len, lengths[i]);
        assert_memory_equal(tensor->name, names[i], lengths[i] + 1);
        assert_int_equal(tensor->offset, offsets[i]);
        assert_int_equal(tensor->size, sizes[i]);
        assert_int_equal(tensor->shard, 0);
        assert_ptr_equal(coffer_table_find(table, names[i], lengths[i]), tensor);
    }
    assert_null(coffer_table_at(table, 4));
    assert_null(coffer_table_find(table, "n", 1));
    assert_null(coffer_table_find(table, "", 0));
    const coffer_tensor *z = coffer_table_find(table, "z", 1);
    assert_int_equal(z->dtype, COFFER_I16);
    assert_string_equal(coffer_tensor_dtype_name(z), "I16");
    assert_int_equal(z->rank, 2);
    assert_int_equal(z->shape[1], 2);
    assert_int_equal(coffer_tensor_elements(z), 4);
    assert_int_equal(coffer_tensor_elements(coffer_table_find(table, "b", 1)), 1);
    assert_int_equal(coffer_tensor_elements(coffer_table_find(table, "empty", 5)), 0);
    uint32_t order[4];
    coffer_table_sort_by_name(table, order);
    const uint32_t by_name[] = { 2, 1, 0, 3 };
    assert_memory_equal(order, by_name, sizeof order);
    /* Metadata comes in order of the keys. */
    coffer_pair pair;
    assert_int_equal(coffer_table_metadata_count(table), 3);
    assert_true(coffer_table_metadata_at(table, 0, &pair));
    assert_int_equal(pair.key_len, 0);
    assert_int_equal(pair.value_len, 3);
    assert_memory_equal(pair.value, "e\0f", 4);
    assert_true(coffer_table_metadata_at(table, 2, &pair));
    assert_string_equal(pair.key, "format");
    assert_false(coffer_table_metadata_at(table, 3, &pair));
    size_t length = 0;
    assert_string_equal(coffer_table_metadata_get(table, "a", 1, &length), "1");
    assert_int_equal(length, 1);
    assert_string_equal(coffer_table_metadata_get(table, "format", 6, NULL), "pt");
    assert_null(coffer_table_metadata_get(table, "formas", 6, NULL));
    assert_null(coffer_table_metadata_get(table, "zzz", 3, NULL));
    /* Notes. */
    assert_int_equal(coffer_table_note(table, COFFER_NOTE_CONTROL_NAME).count, 1);
    assert_int_equal(coffer_table_note(table, COFFER_NOTE_CONTROL_NAME).offset, 8 + 223);
    assert_int_equal(coffer_table_note(table, COFFER_NOTE_UNALIGNED).count, 3);
    assert_int_equal(coffer_table_note(table, COFFER_NOTE_UNALIGNED).offset, 297);
    assert_int_equal(coffer_table_note(table, COFFER_NOTE_PADDING).count, 1);
    assert_int_equal(coffer_table_note(table, COFFER_NOTE_CASE).count, 0);
    assert_true(coffer_table_note(table, COFFER_NOTE_CASE).offset == COFFER_NO_OFFSET);
    assert_int_equal(coffer_table_note(table, (coffer_note_kind)99).count, 0);
    for (int kind = 0; kind < COFFER_NOTE_COUNT; kind++) {
        assert_true(strlen(coffer_note_text((coffer_note_kind)kind)) > 5);
        const coffer_note note = coffer_table_note(table, (coffer_note_kind)kind);
        assert_true((note.count == 0) == (note.offset == COFFER_NO_OFFSET));
    }
    assert_string_equal(coffer_note_text((coffer_note_kind)COFFER_NOTE_COUNT), "");
    assert_string_equal(coffer_note_text((coffer_note_kind)-1), "");
    coffer_table_free(table);
}

static void test_file_size(void **state)
{
    (void)state;
    const char *json = "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}";
    const uint64_t exact = 8 + strlen(json) + 4;
    for (uint64_t size = exact - 2; size <= exact + 2; size++) {
        coffer_table *table = NULL;
        coffer_error err;
        coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
        options.file_size = size;
        const coffer_status status = parse_text(json, &options, &table, &err);
        if (size == exact) {
            assert_int_equal(status, COFFER_OK);
            coffer_table_free(table);
            continue;
        }
        assert_int_equal(status, size < exact ? COFFER_ERR_DATA_TRUNCATED : COFFER_ERR_TRAILING_BYTES);
        assert_int_equal(err.offset, size < exact ? size : exact);
        assert_int_equal(err.expected, exact);
        assert_int_equal(err.actual, size);
        assert_null(table);
    }
}

static void test_costly_notes_only_on_request(void **state)
{
    (void)state;
    const char *json = "{\"A.b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
                       "\"x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
                       "\"a.B\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
                       "\"a.Bc\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}";
    coffer_table *table = NULL;
    assert_int_equal(parse_text(json, NULL, &table, NULL), COFFER_OK);
    assert_int_equal(coffer_table_note(table, COFFER_NOTE_CASE).count, 0);
    coffer_table_free(table);
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.all_notes = true;
    assert_int_equal(parse_text(json, &options, &table, NULL), COFFER_OK);
    assert_int_equal(coffer_table_note(table, COFFER_NOTE_CASE).count, 1);
    assert_int_equal(coffer_table_note(table, COFFER_NOTE_CASE).offset, strstr(json, "\"a.B\"") - json + 8);
    coffer_table_free(table);
    assert_int_equal(parse_text("{}", &options, &table, NULL), COFFER_OK);
    coffer_table_free(table);
}

static void test_unknown_dtypes_on_request(void **state)
{
    (void)state;
    const char *json = "{\"q\":{\"dtype\":\"I3_\\u00e9\\u0000x\",\"shape\":[3,3],\"data_offsets\":[0,7]},"
                       "\"r\":{\"shape\":[1],\"data_offsets\":[7,9],\"dtype\":\"ANOTHER_VERY_LONG_NAME_OF_A_DTYPE\"},"
                       "\"s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[9,10]}}";
    coffer_table *table = NULL;
    coffer_error err;
    assert_int_equal(parse_text(json, NULL, &table, &err), COFFER_ERR_DTYPE);
    assert_int_equal(err.offset, strstr(json, "\"I3") - json + 8);
    assert_string_equal(err.tensor, "q");
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.unknown_dtypes = true;
    assert_int_equal(parse_text(json, &options, &table, &err), COFFER_OK);
    const coffer_tensor *q = coffer_table_find(table, "q", 1);
    assert_int_equal(q->dtype, COFFER_UNKNOWN_DTYPE);
    assert_int_equal(q->size, 7);
    assert_string_equal(coffer_tensor_dtype_name(q), "I3_\xC3\xA9");
    assert_string_equal(coffer_tensor_dtype_name(coffer_table_at(table, 1)), "ANOTHER_VERY_LONG_NAME_OF_A_DTYPE");
    assert_string_equal(coffer_tensor_dtype_name(coffer_table_at(table, 2)), "U8");
    assert_int_equal(coffer_table_note(table, COFFER_NOTE_UNKNOWN_DTYPE).count, 2);
    coffer_table_free(table);
}

/* A header of many tensors, with `name` called for each. */
static text_buffer many_tensors(size_t count, void (*name)(size_t i, char *out, size_t size))
{
    text_buffer text = { 0 };
    for (size_t i = 0; i < count; i++) {
        char label[160];
        char member[320];
        name(i, label, sizeof label);
        snprintf(member, sizeof member, "%c\"%s\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
                 i == 0 ? '{' : ',', label);
        text_put(&text, member);
    }
    text_put(&text, count == 0 ? "{}" : "}");
    text_frame(&text);
    return text;
}

static void name_plain(size_t i, char *out, size_t size)
{
    snprintf(out, size, "model.layers.%zu.mlp.experts.%zu.gate_proj.weight", i / 256, i % 256);
}

/* Names whose hashes end in the same bits, found by trying. */
static void name_colliding(size_t i, char *out, size_t size)
{
    static size_t next;
    static size_t last_i;
    if (i == 0 || i < last_i) {
        next = 0;
    }
    last_i = i;
    do {
        snprintf(out, size, "t%zu", next++);
    } while ((coffer__hash_name(out, strlen(out)) & 0x3FF) != 0);
}

static void expect_all_found(const coffer_table *table, size_t count, void (*name)(size_t i, char *out, size_t size))
{
    assert_int_equal(coffer_table_count(table), count);
    for (size_t i = 0; i < count; i++) {
        char label[160];
        name(i, label, sizeof label);
        const coffer_tensor *tensor = coffer_table_find(table, label, strlen(label));
        assert_non_null(tensor);
        assert_string_equal(tensor->name, label);
    }
    assert_null(coffer_table_find(table, "absent", 6));
    assert_null(coffer_table_find(table, "", 0));
    assert_null(coffer_table_find(table, "zzzz", 4));
}

static void test_counts_around_powers_of_two(void **state)
{
    (void)state;
    for (size_t count = 0; count < 70; count++) {
        text_buffer text = many_tensors(count, name_plain);
        coffer_table *table = NULL;
        assert_int_equal(coffer_parse(&table, NULL, text.bytes, text.size, coffer_libc_allocator(), NULL, NULL),
                         COFFER_OK);
        expect_all_found(table, count, name_plain);
        /* Names that do not collide have an index of slots, at most three quarters of which are taken. */
        assert_true(table->slot_count - table->slot_count / 4 >= count && table->slot_count <= 8 * count);
        coffer_table_free(table);
        free(text.bytes);
    }
}

static void test_names_that_collide(void **state)
{
    (void)state;
    const size_t count = 700;
    text_buffer text = many_tensors(count, name_colliding);
    coffer_table *table = NULL;
    coffer_error err;
    assert_int_equal(coffer_parse(&table, NULL, text.bytes, text.size, coffer_libc_allocator(), NULL, &err), COFFER_OK);
    assert_int_equal(table->slot_count, 0);
    expect_all_found(table, count, name_colliding);
    coffer_table_free(table);
    /* One of them a second time is found all the same. */
    char label[160];
    name_colliding(0, label, sizeof label);
    text.size--;
    char member[320];
    snprintf(member, sizeof member, ",\"%s\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", label);
    const size_t position = text.size + 1;
    text_put(&text, member);
    text_frame(&text);
    assert_int_equal(coffer_parse(&table, NULL, text.bytes, text.size, coffer_libc_allocator(), NULL, &err),
                     COFFER_ERR_DUPLICATE_NAME);
    assert_int_equal(err.offset, position);
    free(text.bytes);
}

static void expect_peak(const text_buffer *text, coffer_status expected, double most)
{
    memory_meter meter;
    const coffer_allocator allocator = metered_allocator(&meter);
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.unknown_dtypes = true;
    coffer_table *table = NULL;
    assert_int_equal(coffer_parse(&table, NULL, text->bytes, text->size, &allocator, &options, NULL), expected);
    assert_true((double)meter.peak < most * (double)text->size + 4096);
    coffer_table_free(table);
    assert_int_equal(meter.blocks, 0);
}

static text_buffer repeated(const char *start, const char *piece, size_t count, const char *end)
{
    text_buffer text = { 0 };
    text_put(&text, start);
    for (size_t i = 0; i < count; i++) {
        text_put(&text, piece);
    }
    text_put(&text, end);
    text_frame(&text);
    return text;
}

static void test_memory_is_bounded(void **state)
{
    (void)state;
    text_buffer real = many_tensors(20000, name_plain);
    expect_peak(&real, COFFER_OK, 3.0);
    free(real.bytes);
    const size_t n = 50000;
    text_buffer hostile[] = {
        repeated("{\"a\":{\"dtype\":\"U8\",\"shape\":[0", ",1", n, "],\"data_offsets\":[0,0]}}"),
        repeated("{\"__metadata__\":{\"\":\"\"", ",\"\":\"\"", n, "}}"),
        repeated("{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0],\"x\":{\"\":0", ",\"\":0", n, "}}}"),
        repeated("{\"\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}",
                 ",\"\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}", n, "}"),
        repeated("{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0],\"x\":[0", ",[]", n, "]}}"),
        repeated("{\"", "x", 10 * n, "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}"),
        repeated("{\"a\":{\"dtype\":\"", "X", 10 * n, "\",\"shape\":[0],\"data_offsets\":[0,0]}}"),
    };
    static const coffer_status verdicts[] = {
        COFFER_OK, COFFER_ERR_DUPLICATE_KEY, COFFER_ERR_DUPLICATE_KEY, COFFER_ERR_DUPLICATE_NAME, COFFER_OK, COFFER_OK,
        COFFER_OK
    };
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        expect_peak(&hostile[i], verdicts[i], 7.0);
        free(hostile[i].bytes);
    }
}

static void test_every_allocation_can_fail(void **state)
{
    (void)state;
    text_buffer text = { 0 };
    text_put(&text, "{\"__metadata__\":{\"k\":\"v\"},\"a\":{\"dtype\":\"WHAT\",\"shape\":[1");
    for (size_t i = 0; i < 3000; i++) {
        text_put(&text, ",1");
    }
    text_put(&text, "],\"data_offsets\":[0,1],\"x\":{\"k\":1,\"l\":2},\"y\":0},");
    text_put(&text, "\"A\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}");
    text_frame(&text);
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.all_notes = true;
    options.unknown_dtypes = true;
    memory_meter meter;
    const coffer_allocator allocator = metered_allocator(&meter);
    size_t failures = 0;
    for (;;) {
        coffer_table *table = NULL;
        coffer_error err;
        meter.requests = 0;
        meter.fail_at = failures + 1;
        const coffer_status status = coffer_parse(&table, NULL, text.bytes, text.size, &allocator, &options, &err);
        if (status == COFFER_OK) {
            coffer_table_free(table);
            break;
        }
        assert_int_equal(status, COFFER_ERR_MEMORY);
        assert_int_equal(err.code, COFFER_ERR_MEMORY);
        assert_null(table);
        assert_int_equal(meter.blocks, 0);
        failures++;
    }
    assert_true(failures >= 5);
    assert_int_equal(meter.blocks, 0);
    free(text.bytes);
}

/* Numbers of every length, where the header goes on behind them and where it does not, as shape, as begin and as end. */
static void test_numbers_of_every_length(void **state)
{
    (void)state;
    for (int digits = 1; digits <= 20; digits++) {
        char number[32];
        char text[512];
        snprintf(number, sizeof number, "%.*s", digits, "12345678901234567890");
        const uint64_t value = strtoull(number, NULL, 10);
        snprintf(text, sizeof text,
                 "{\"a\":{\"dtype\":\"U8\",\"shape\":[%s],\"data_offsets\":[0,%s]},"
                 "\"b\":{\"dtype\":\"F16\",\"shape\":[0,%s,7],\"data_offsets\":[%s,%s]},"
                 "\"c\":{\"dtype\":\"BF16\",\"shape\":[%s,0],\"data_offsets\":[%s,%s]}}",
                 number, number, number, number, number, number, number, number);
        coffer_table *table = NULL;
        coffer_error err;
        assert_int_equal(parse_text(text, NULL, &table, &err), digits == 20 ? COFFER_ERR_OVERFLOW : COFFER_OK);
        if (table == NULL) {
            continue;
        }
        const coffer_tensor *a = coffer_table_find(table, "a", 1);
        const coffer_tensor *b = coffer_table_find(table, "b", 1);
        const coffer_tensor *c = coffer_table_find(table, "c", 1);
        assert_true(a->rank == 1 && a->shape[0] == value && a->size == value && a->dtype == COFFER_U8);
        assert_true(b->rank == 3 && b->shape[0] == 0 && b->shape[1] == value && b->shape[2] == 7);
        assert_true(b->size == 0 && b->offset == coffer_table_data_offset(table) + value && b->dtype == COFFER_F16);
        assert_true(c->rank == 2 && c->shape[0] == value && c->offset == b->offset && c->dtype == COFFER_BF16);
        coffer_table_free(table);
    }
}

/* A tensor of every dtype and rank, among others that are spelt like it. */
static void test_every_dtype_and_rank(void **state)
{
    (void)state;
    text_buffer text = { 0 };
    char piece[256];
    uint64_t end = 0;
    for (int i = 0; i < 22 * 12; i++) {
        const coffer_dtype dtype = (coffer_dtype)(1 + i * 5 % COFFER_DTYPE_COUNT);
        const uint64_t size = coffer_dtype_bits(dtype) * (uint64_t)(1 + i % 3);
        snprintf(piece, sizeof piece, "%s\"%d\":{\"dtype\":\"%s\",\"shape\":[", i == 0 ? "{" : ",", i,
                 coffer_dtype_name(dtype));
        text_put(&text, piece);
        for (int k = 0; k < i / 22; k++) {
            text_put(&text, "1,");
        }
        snprintf(piece, sizeof piece, "%d,8],\"data_offsets\":[%llu,%llu]}", 1 + i % 3, (unsigned long long)end,
                 (unsigned long long)(end + size));
        text_put(&text, piece);
        end += size;
    }
    text_put(&text, "}");
    text_frame(&text);
    coffer_table *table = NULL;
    assert_int_equal(coffer_parse(&table, NULL, text.bytes, text.size, coffer_libc_allocator(), NULL, NULL), COFFER_OK);
    for (int i = 0; i < 22 * 12; i++) {
        const coffer_tensor *tensor = coffer_table_at(table, (size_t)i);
        assert_int_equal(strtol(tensor->name, NULL, 10), i);
        assert_int_equal(tensor->dtype, 1 + i * 5 % COFFER_DTYPE_COUNT);
        assert_int_equal(tensor->rank, 2 + i / 22);
        for (uint32_t k = 0; k < tensor->rank; k++) {
            assert_int_equal(tensor->shape[k], k + 1 == tensor->rank ? 8 : k + 2 == tensor->rank ? 1 + i % 3 : 1);
        }
    }
    coffer_table_free(table);
    free(text.bytes);
}

static void test_messages_with_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *message;
        uint64_t expected;
        uint64_t actual;
    } cases[] = {
        { "{\"a\":{\"dtype\":\"F128\",\"shape\":[1],\"data_offsets\":[0,16]}}",
          "at byte 22, the dtype \"F128\" is not one of the 22 that coffer " COFFER_VERSION_STRING " knows", 0, 0 },
        { "{\"a\":{\"dtype\":\"I16\",\"shape\":[7],\"data_offsets\":[8,21]}}",
          "dtype and shape give 14 bytes, but data_offsets [8, 21] span 13", 14, 13 },
        { "{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}",
          "elements of F4 that take 12 bits do not fill whole bytes", 0, 0 },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,1]}}",
          "data_offsets [2, 1] are not the beginning and end of a range", 0, 0 },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}",
          "bytes 0 to 2 of the data belong to no tensor; tensor \"a\" begins after them", 0, 2 },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
          "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
          "other tensors reach to byte 3 of the data, but at byte 1 begins tensor \"b\"", 3, 1 },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}",
          "at byte 54, data_offsets must be two integers, not 1", 0, 0 },
        { "{\"__metadata__\":{1:2}}",
          "the header is not valid JSON: at byte 25, a key in quotes should be here; found \"1\"", 0, 0 },
        { "{1:2}", "the header is not valid JSON: at byte 9, a key in quotes should be here; found \"1\"", 0, 0 },
        { "{\"a\":{1:2}}", "the header is not valid JSON: at byte 14, a key in quotes should be here; found \"1\"", 0,
          0 },
    };
    for (size_t i = 0; i < 2 * (sizeof cases / sizeof cases[0]); i++) {
        char text[256];
        coffer_table *table = NULL;
        coffer_error err;
        snprintf(text, sizeof text, "%s%s", cases[i / 2].text, i % 2 == 0 ? "" : "                                ");
        assert_int_not_equal(parse_text(text, NULL, &table, &err), COFFER_OK);
        assert_string_equal(err.message, cases[i / 2].message);
        assert_int_equal(err.expected, cases[i / 2].expected);
        assert_int_equal(err.actual, cases[i / 2].actual);
    }
}

/* The sizes that a file has, and should have. */
static void test_sizes_of_a_file_in_messages(void **state)
{
    (void)state;
    static const char header[] = "\x35\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}";
    static const struct {
        uint64_t file_size;
        coffer_status status;
        const char *words;
        uint64_t expected;
    } cases[] = {
        { 58, COFFER_ERR_HEADER_TRUNCATED, "it has 58 of at least 61 bytes", 61 },
        { 62, COFFER_ERR_DATA_TRUNCATED, "it lacks 3 bytes of 65 bytes", 65 },
        { 67, COFFER_ERR_TRAILING_BYTES,
          "all tensors are there, up to byte 65, and after it 2 bytes that belong to none", 65 },
    };
    assert_int_equal(sizeof header - 1, 61);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
        options.file_size = cases[i].file_size;
        coffer_table *table = NULL;
        coffer_error err;
        assert_int_equal(coffer_parse(&table, NULL, header, sizeof header - 1, coffer_libc_allocator(), &options, &err),
                         cases[i].status);
        assert_non_null(strstr(err.message, cases[i].words));
        assert_int_equal(err.expected, cases[i].expected);
        assert_int_equal(err.actual, cases[i].file_size);
    }
}

static void test_version(void **state)
{
    (void)state;
    char expected[32];
    snprintf(expected, sizeof expected, "%d.%d.%d", COFFER_VERSION_MAJOR, COFFER_VERSION_MINOR, COFFER_VERSION_PATCH);
    assert_string_equal(coffer_version(), expected);
    assert_string_equal(COFFER_VERSION_STRING, expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_how_much_it_needs),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_everything_a_table_says),
        cmocka_unit_test(test_file_size),
        cmocka_unit_test(test_costly_notes_only_on_request),
        cmocka_unit_test(test_unknown_dtypes_on_request),
        cmocka_unit_test(test_counts_around_powers_of_two),
        cmocka_unit_test(test_names_that_collide),
        cmocka_unit_test(test_memory_is_bounded),
        cmocka_unit_test(test_every_allocation_can_fail),
        cmocka_unit_test(test_numbers_of_every_length),
        cmocka_unit_test(test_every_dtype_and_rank),
        cmocka_unit_test(test_messages_with_numbers),
        cmocka_unit_test(test_sizes_of_a_file_in_messages),
        cmocka_unit_test(test_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
