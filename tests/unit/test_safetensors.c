/* SPDX-License-Identifier: Apache-2.0 */
/* Why: headers in a usual spelling are read by a way of their own, which gives what the other one gives, so that results do not
   tell which was taken. Space does: the other way makes space for whatever is left of the header. Here is what the usual way takes,
   what it leaves, and that nothing it remembers outlives its sense. */
#include "support_cmocka.h"

#include "coffer.h"
#include "parse.h"
#include "support_memory.h"
#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct header_text {
    uint8_t bytes[8192]; /* with 8 bytes for the length in front */
    size_t size;
    uint64_t covered; /* by the tensors so far */
} header_text;

static void text_begin(header_text *text)
{
    memset(text, 0, sizeof *text);
    text->size = 8;
}

static void text_put(header_text *text, const char *piece)
{
    const size_t size = strlen(piece);
    assert_true(size <= sizeof text->bytes - text->size);
    memcpy(text->bytes + text->size, piece, size);
    text->size += size;
}

/* A member in the usual spelling; `space` comes after its colon. */
static void put_member(header_text *text, const char *name, const char *space, const char *dtype, const char *shape,
                       uint64_t begin, uint64_t end)
{
    char member[512];
    snprintf(member, sizeof member, "%c\"%s\":%s{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%llu,%llu]}",
             text->size == 8 ? '{' : ',', name, space, dtype, shape, (unsigned long long)begin,
             (unsigned long long)end);
    text_put(text, member);
    text->covered = end;
}

static void put_next(header_text *text, const char *name, const char *dtype, const char *shape, uint64_t size)
{
    put_member(text, name, "", dtype, shape, text->covered, text->covered + size);
}

/* The next one as Python's json module spells it, with a space behind each colon and comma. */
static void put_next_spaced(header_text *text, const char *name, const char *dtype, const char *shape, uint64_t size)
{
    const size_t start = text->size;
    put_next(text, name, dtype, shape, size);
    char member[512];
    const size_t length = text->size - start;
    memcpy(member, text->bytes + start, length);
    text->size = start;
    for (size_t i = 0; i < length; i++) {
        const char piece[] = { member[i], member[i] == ':' || member[i] == ',' ? ' ' : '\0', '\0' };
        text_put(text, piece);
    }
}

/* Writes the length in front. */
static void text_set_length(header_text *text)
{
    text->bytes[0] = (uint8_t)(text->size - 8);
    text->bytes[1] = (uint8_t)((text->size - 8) >> 8);
}

/* Closes the header. */
static void text_end(header_text *text)
{
    text_put(text, "}");
    text_set_length(text);
}

/* Closes the header and pads it with so many spaces. */
static void text_end_padded(header_text *text, size_t padding)
{
    text_end(text);
    for (size_t i = 0; i < padding; i++) {
        text_put(text, " ");
    }
    text_set_length(text);
}

/* What a reading asked for. */
typedef struct supplied {
    const header_text *text;
    size_t reads;
    size_t largest;
} supplied;

static void supply_text(supplied *from, const coffer__wish *wish)
{
    assert_true(wish->offset <= from->text->size && wish->size <= from->text->size - wish->offset);
    memcpy(wish->to, from->text->bytes + wish->offset, wish->size);
    from->reads++;
    from->largest = wish->size > from->largest ? wish->size : from->largest;
}

/* An allocator that has one block to give. */
static void *one_alloc(void *ctx, size_t size)
{
    size_t *given = ctx;
    return (*given)++ == 0 ? malloc(size) : NULL;
}

static void *one_realloc(void *ctx, void *block, size_t old_size, size_t new_size)
{
    (void)block;
    (void)old_size;
    return one_alloc(ctx, new_size);
}

static void one_free(void *ctx, void *block, size_t size)
{
    (void)ctx;
    (void)size;
    free(block);
}

/* Parses a header that comes through a window. */
static coffer_status parse_supplied(supplied *from, size_t window_size, const coffer_allocator *allocator,
                                    coffer_table **table, coffer_error *err)
{
    const size_t here = from->text->size < window_size ? from->text->size : window_size;
    uint8_t *window = malloc(window_size);
    assert_non_null(window);
    memcpy(window, from->text->bytes, here);
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.format = COFFER_FORMAT_SAFETENSORS;
    memset(err, 0, sizeof *err);
    coffer__reading reading;
    coffer__wish wish;
    assert_int_equal(coffer__reading_begin(&reading, window, here, allocator, &options, err), COFFER_OK);
    coffer__reading_slide(&reading, window, window_size);
    coffer_status status = COFFER_OK;
    while ((status = coffer__reading_go_on(&reading, &wish, table, err)) == COFFER_NEED_MORE) {
        supply_text(from, &wish);
    }
    coffer__reading_free(&reading);
    free(window);
    if (status == COFFER_OK) {
        /* Nothing was wrong, be it only for a while. */
        assert_int_equal(err->code, COFFER_OK);
        assert_string_equal(err->tensor, "");
    }
    return status;
}

/* The same, with memory for the table alone. */
static coffer_status parse_frugally(supplied *from, size_t window_size, coffer_table **table, coffer_error *err)
{
    size_t given = 0;
    const coffer_allocator one = { one_alloc, one_realloc, one_free, &given };
    return parse_supplied(from, window_size, &one, table, err);
}

/* With memory for the table alone or without a limit. */
static coffer_status parse_window(const header_text *text, size_t window_size, bool one_block, coffer_table **table,
                                  coffer_error *err)
{
    supplied from = { text, 0, 0 };
    return one_block ? parse_frugally(&from, window_size, table, err)
                     : parse_supplied(&from, window_size, coffer_libc_allocator(), table, err);
}

static void expect_same_tables(const coffer_table *a, const coffer_table *b)
{
    assert_int_equal(coffer_table_count(a), coffer_table_count(b));
    for (size_t i = 0; i < coffer_table_count(a); i++) {
        const coffer_tensor *x = coffer_table_at(a, i);
        const coffer_tensor *y = coffer_table_at(b, i);
        assert_int_equal(x->name_len, y->name_len);
        assert_memory_equal(x->name, y->name, x->name_len + 1);
        assert_int_equal(x->dtype, y->dtype);
        assert_int_equal(x->offset, y->offset);
        assert_int_equal(x->size, y->size);
        assert_int_equal(x->rank, y->rank);
        assert_memory_equal(x->shape, y->shape, x->rank * sizeof *x->shape);
    }
}

/* Tensors that are only there so that something is still to come while what matters is read; their long names make the table
   large enough from the beginning. */
static void put_tail(header_text *text)
{
    for (int i = 0; i < 9; i++) {
        char name[256];
        snprintf(name, sizeof name, "%0250d", i);
        put_next(text, name, "U8", "0", 0);
    }
    text_end(text);
}

/* Whether such members are read without space for what is left of the header, which is much, where a tensor of many dimensions has
   left only a little. */
static bool is_usual(bool spaced, const char *dtype, const char *shape, uint64_t size)
{
    static header_text text;
    coffer_table *table = NULL;
    coffer_table *other = NULL;
    coffer_error err;
    text_begin(&text);
    text_put(&text, spaced ? "{\"f\": {" : "{\"f\":{");
    text_put(&text, "\"dtype\":\"U8\",\"shape\":[0");
    for (size_t i = 1; i < 660; i++) {
        text_put(&text, ",7");
    }
    text_put(&text, "],\"data_offsets\":[0,0]}");
    text.covered = 0;
    for (const char *name = "ab"; *name != '\0'; name++) {
        const char one[] = { *name, '\0' };
        (spaced ? put_next_spaced : put_next)(&text, one, dtype, shape, size);
    }
    text_end_padded(&text, 3000);
    assert_int_equal(parse_window(&text, text.size, false, &other, &err), COFFER_OK);
    const coffer_status status = parse_window(&text, text.size, true, &table, &err);
    if (status == COFFER_OK) {
        expect_same_tables(table, other);
    } else {
        assert_int_equal(status, COFFER_ERR_MEMORY);
    }
    coffer_table_free(table);
    coffer_table_free(other);
    return status == COFFER_OK;
}

static void test_what_is_usual(void **state)
{
    (void)state;
    static const struct {
        const char *dtype;
        const char *shape;
        uint64_t size;
        bool usual;
    } rows[] = {
        { "F32", "", 4, true },
        { "U8", "0", 0, true },
        { "U8", "7", 7, true },
        { "U8", "1,2,3,4,5,6,7,8", 40320, true },
        { "U8", "1,2,3,4,5,6,7,8,1", 40320, false },
        { "U8", "1234567", 1234567, true },
        { "U8", "12345678", 12345678, true },
        { "U8", "123456789", 123456789, true },
        { "U8", "1234567,100000001", UINT64_C(123456701234567), true },
        { "U8", "123456789012345", UINT64_C(123456789012345), true },
        { "U8", "400000000000000", UINT64_C(400000000000000), true },
        { "U8", "1000000000000000", UINT64_C(1000000000000000), false },
        { "F8_E4M3FNUZ", "3", 3, true },
        { "F6_E2M3", "4", 3, true },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int spaced = 0; spaced < 2; spaced++) {
            if (is_usual(spaced, rows[i].dtype, rows[i].shape, rows[i].size) != rows[i].usual) {
                fail_msg("%s of [%s] is%s usual, spaced %d", rows[i].dtype, rows[i].shape, rows[i].usual ? " not" : "",
                         spaced);
            }
        }
    }
}

static void test_every_dtype_is_usual(void **state)
{
    (void)state;
    for (int dtype = 1; dtype <= COFFER_DTYPE_COUNT; dtype++) {
        for (int spaced = 0; spaced < 2; spaced++) {
            assert_true(
                is_usual(spaced, coffer_dtype_name((coffer_dtype)dtype), "8", coffer_dtype_bits((coffer_dtype)dtype)));
        }
    }
}

/* Names of every length and tensors of every rank and of changing dtypes, one after the other, through windows of many sizes. */
static void test_many_usual_tensors(void **state)
{
    (void)state;
    static const char *const dtypes[] = { "F32", "F32", "I64", "F32", "BF16", "U8", "BF16" };
    static const uint64_t sizes[] = { 4, 4, 8, 4, 2, 1, 2 };
    static header_text text;
    text_begin(&text);
    for (size_t i = 0; i < 28; i++) {
        char name[64] = "";
        char shape[32] = "";
        for (size_t k = 0; k < (i % 2 == 0 ? 1 + i : 60); k++) {
            name[k] = (char)('a' + (i + k) % 26);
        }
        for (size_t k = 0; k < i % 4; k++) {
            strcat(shape, k == 0 ? "1" : ",1");
        }
        name[0] = (char)('0' + i);
        put_next(&text, name, dtypes[i % 7], shape, sizes[i % 7]);
    }
    put_tail(&text);
    coffer_table *whole = NULL;
    coffer_error err;
    assert_int_equal(coffer_parse(&whole, NULL, text.bytes, text.size, coffer_libc_allocator(), NULL, &err), COFFER_OK);
    for (size_t window_size = 350; window_size < text.size; window_size += window_size < 600 ? 3 : 1) {
        coffer_table *table = NULL;
        assert_int_equal(parse_window(&text, window_size, true, &table, &err), COFFER_OK);
        expect_same_tables(table, whole);
        coffer_table_free(table);
    }
    /* A window moves when its end is reached, and not before. */
    supplied from = { &text, 0, 0 };
    coffer_table *table = NULL;
    assert_int_equal(parse_frugally(&from, 2000, &table, &err), COFFER_OK);
    assert_true(from.reads <= 3);
    coffer_table_free(table);
    coffer_table_free(whole);
}

/* A window that any member fits into is enough, with memory for the table alone. */
static void test_how_much_a_window_needs(void **state)
{
    (void)state;
    static header_text text;
    static const char member[] = "\"a.0\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
    const size_t needed = sizeof member - 1;
    for (int spaced = 0; spaced < 2; spaced++) {
        text_begin(&text);
        for (int i = 0; i < 9; i++) {
            char name[16];
            snprintf(name, sizeof name, "a.%d", i);
            (spaced ? put_next_spaced : put_next)(&text, name, "U8", "0", 0);
        }
        text_end(&text);
        const size_t spaces = spaced ? 7 : 0;
        for (size_t window_size = needed + spaces - 20; window_size < needed + spaces + 20; window_size++) {
            coffer_table *table = NULL;
            coffer_error err;
            const coffer_status status = parse_window(&text, window_size, true, &table, &err);
            assert_int_equal(status, window_size < needed + spaces ? COFFER_ERR_MEMORY : COFFER_OK);
            coffer_table_free(table);
        }
    }
}

/* That a tensor begins where the last one ended is seen by the digits, which lie elsewhere once the window has moved: there the
   names have the digits of another place. */
static void test_ends_are_forgotten_when_the_window_moves(void **state)
{
    (void)state;
    static header_text text;
    text_begin(&text);
    put_member(&text, "77777777777777777777777777777770", "", "U8", "5", 0, 5);
    char name[128];
    memset(name, '7', sizeof name);
    name[sizeof name - 1] = '\0';
    put_member(&text, name, "", "I8", "1", 7, 8);
    put_member(&text, "77777777777777777777777777777772", "", "U8", "2", 5, 7);
    put_member(&text, "77777777777777777777777777777773", "", "BOOL", "1", 8, 9);
    memset(name, '9', sizeof name - 1);
    put_member(&text, "99999999999999999999999999999995", "", "U8", "1", 10, 11);
    put_member(&text, name, "", "U8", "1", 9, 10);
    text.covered = 11;
    put_tail(&text);
    coffer_table *whole = NULL;
    coffer_error err;
    assert_int_equal(coffer_parse(&whole, NULL, text.bytes, text.size, coffer_libc_allocator(), NULL, &err), COFFER_OK);
    for (size_t window_size = 9; window_size < text.size; window_size++) {
        coffer_table *table = NULL;
        assert_int_equal(parse_window(&text, window_size, false, &table, &err), COFFER_OK);
        expect_same_tables(table, whole);
        coffer_table_free(table);
    }
    coffer_table_free(whole);
}

/* Nor do they count when another spelling stood between. */
static void test_ends_are_forgotten_behind_other_spellings(void **state)
{
    (void)state;
    static header_text text;
    coffer_table *table = NULL;
    coffer_error err;
    text_begin(&text);
    put_member(&text, "a", "", "U8", "5", 0, 5);
    put_member(&text, "b", " ", "U8", "4", 5, 9);
    put_member(&text, "c", "", "U8", "0", 5, 5);
    put_member(&text, "d", "", "U8", "0", 9, 9);
    text.covered = 9;
    put_tail(&text);
    assert_int_equal(coffer_parse(&table, NULL, text.bytes, text.size, coffer_libc_allocator(), NULL, &err), COFFER_OK);
    assert_int_equal(coffer_table_find(table, "c", 1)->offset, text.size + 5);
    assert_int_equal(coffer_table_find(table, "d", 1)->offset, text.size + 9);
    coffer_table_free(table);
}

/* Members in another spelling need no more of the header at once than the longest of them, and hardly any memory, be they
   many. */
static void test_a_window_for_other_spellings(void **state)
{
    (void)state;
    static header_text text;
    static const char member[] = "\"a.100\": {\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
    const size_t needed = sizeof member - 1;
    text_begin(&text);
    for (int i = 100; i < 220; i++) {
        char name[16];
        snprintf(name, sizeof name, "a.%d", i);
        put_member(&text, name, " ", "U8", "0", 0, 0);
    }
    text_end(&text);
    memory_meter whole;
    memory_meter meter;
    const coffer_allocator for_whole = metered_allocator(&whole);
    const coffer_allocator allocator = metered_allocator(&meter);
    coffer_table *table = NULL;
    coffer_error err;
    assert_int_equal(coffer_parse(&table, NULL, text.bytes, text.size, &for_whole, NULL, &err), COFFER_OK);
    coffer_table_free(table);
    for (size_t window_size = needed - 1; window_size < 4 * needed; window_size++) {
        supplied from = { &text, 0, 0 };
        meter.peak = 0;
        assert_int_equal(parse_supplied(&from, window_size, &allocator, &table, &err), COFFER_OK);
        coffer_table_free(table);
        assert_int_equal(from.largest <= window_size, window_size >= needed);
        assert_true(window_size < needed || meter.peak <= whole.peak + 1024);
    }
}

/* What is out of order stays it, whatever comes behind. */
static void test_out_of_order_with_another_dtype_last(void **state)
{
    (void)state;
    static header_text text;
    coffer_table *table = NULL;
    coffer_error err;
    text_begin(&text);
    put_member(&text, "a", "", "U8", "2", 5, 7);
    put_member(&text, "b", "", "U8", "5", 0, 5);
    put_member(&text, "c", "", "I8", "0", 5, 5);
    text.covered = 7;
    text_end(&text);
    assert_int_equal(coffer_parse(&table, NULL, text.bytes, text.size, coffer_libc_allocator(), NULL, &err), COFFER_OK);
    assert_int_equal(coffer_table_data_size(table), 7);
    assert_string_equal(coffer_table_at(table, 0)->name, "b");
    assert_string_equal(coffer_table_at(table, 1)->name, "c");
    assert_string_equal(coffer_table_at(table, 2)->name, "a");
    coffer_table_free(table);
}

/* Parses a header of these bytes, in memory that ends where they do. */
static coffer_status parse_bytes(const char *json, size_t size, coffer_table **table, coffer_error *err)
{
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.unknown_dtypes = true;
    uint8_t *exact = malloc(8 + size);
    assert_non_null(exact);
    memset(exact, 0, 8);
    exact[0] = (uint8_t)size;
    exact[1] = (uint8_t)(size >> 8);
    memcpy(exact + 8, json, size);
    memset(err, 0, sizeof *err);
    const coffer_status status = coffer_parse(table, NULL, exact, 8 + size, coffer_libc_allocator(), &options, err);
    free(exact);
    return status;
}

static coffer_status parse_json(const char *json, coffer_table **table, coffer_error *err)
{
    return parse_bytes(json, strlen(json), table, err);
}

/* Keys that nearly are the known ones are unknown, and what nearly is the metadata is a tensor. */
static void test_keys_that_are_nearly_known(void **state)
{
    (void)state;
    coffer_table *table = NULL;
    coffer_error err;
    assert_int_equal(
        parse_json("{\"__metadata_X\": {\"shapX\":0,\"dtypX\":0,\"data_offsetX\":0,\"dtype\":\"U8\",\"shape\":[1],"
                   "\"data_offsets\":[0,1]}}",
                   &table, &err),
        COFFER_OK);
    assert_int_equal(coffer_table_count(table), 1);
    assert_int_equal(coffer_table_note(table, COFFER_NOTE_UNKNOWN_KEY).count, 3);
    coffer_table_free(table);
}

static void test_messages_name_the_missing_field(void **state)
{
    (void)state;
    static const char *const fields[][2] = {
        { "\"shape\":[],\"data_offsets\":[0,1]", " has no dtype" },
        { "\"dtype\":\"U8\",\"data_offsets\":[0,1]", " has no shape" },
        { "\"dtype\":\"U8\",\"shape\":[]", " has no data_offsets" },
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        char json[128];
        coffer_table *table = NULL;
        coffer_error err;
        snprintf(json, sizeof json, "{\"a\":{%s}}", fields[i][0]);
        assert_int_equal(parse_json(json, &table, &err), COFFER_ERR_MISSING_FIELD);
        assert_int_equal(err.offset, 8 + strlen(json) - 2);
        assert_non_null(strstr(err.message, fields[i][1]));
    }
}

/* Names of dtypes of every length end where they should, with another tensor behind them. */
static void test_names_of_unknown_dtypes(void **state)
{
    (void)state;
    for (int length = 0; length < 40; length++) {
        char json[512];
        char name[64];
        coffer_table *table = NULL;
        coffer_error err;
        snprintf(name, sizeof name, "%.*s", length, "0123456789012345678901234567890123456789");
        snprintf(json, sizeof json,
                 "{\"a\":{\"dtype\":\"%s\",\"shape\":[],\"data_offsets\":[0,1]},\"b\":{\"dtype\":\"%sX\",\"shape\":[],"
                 "\"data_offsets\":[1,2]}}",
                 name, name);
        assert_int_equal(parse_json(json, &table, &err), COFFER_OK);
        assert_string_equal(coffer_tensor_dtype_name(coffer_table_at(table, 0)), name);
        coffer_table_free(table);
    }
}

/* A second object is looked for keys that come twice only where two are not known; a third key of a tensor may be anything. */
/* Only where there are several can one come twice: looking takes memory. */
static void test_one_unknown_key_takes_no_memory(void **state)
{
    (void)state;
    static const char *const fields[] = { "", "\"x\":1,", "\"x\":1,\"y\":2," };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        static header_text text;
        char member[256];
        memory_meter meter;
        const coffer_allocator allocator = metered_allocator(&meter);
        coffer_table *table = NULL;
        text_begin(&text);
        snprintf(member, sizeof member, "{\"a\":{%s\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", fields[i]);
        text_put(&text, member);
        text.bytes[0] = (uint8_t)(text.size - 8);
        assert_int_equal(coffer_parse(&table, NULL, text.bytes, text.size, &allocator, NULL, NULL), COFFER_OK);
        assert_int_equal(meter.requests, i < 2 ? 1 : 2);
        coffer_table_free(table);
    }
}

static void test_unknown_keys_that_come_twice(void **state)
{
    (void)state;
    static const char *const fields[] = { "\"x\":1,\"y\":2", "\"x\":1,\"x\":2", "\"x\":1,\"y\":2,\"x\":3" };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        static header_text text;
        char member[256];
        coffer_table *table = NULL;
        coffer_error err;
        text_begin(&text);
        snprintf(member, sizeof member, "{\"a\":{%s,\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                 fields[i]);
        text_put(&text, member);
        text.bytes[0] = (uint8_t)(text.size - 8);
        const coffer_status status =
            coffer_parse(&table, NULL, text.bytes, text.size, coffer_libc_allocator(), NULL, &err);
        assert_int_equal(status, i == 0 ? COFFER_OK : COFFER_ERR_DUPLICATE_KEY);
        if (i > 0) {
            assert_int_equal(err.offset, 8 + 6 + strlen(fields[i]) - 5);
        }
        coffer_table_free(table);
    }
}

/* A header that ends too early is no JSON at its end, wherever that is: in a number, in a dtype, and where digits are compared
   with those of the tensor before. */
static void test_headers_cut_anywhere(void **state)
{
    (void)state;
    static const char *const headers[] = {
        "{\"a\":{\"dtype\":\"F8_E4M3FNUZ\",\"shape\":[12345678,123456789,0],\"data_offsets\":[0,0]}}",
        ("{\"a\":{\"dtype\":\"U8\",\"shape\":[400000000000000],\"data_offsets\":[0,400000000000000]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[400000000000000,400000000000001]}}"),
        "{\"a\":{\"dtype\":\"A_NAME_OF_TWENTY_FOUR_BYTES_OR_MORE\",\"shape\":[],\"data_offsets\":[0,1]}}",
    };
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        const size_t size = strlen(headers[i]);
        for (size_t cut = 2; cut < size; cut++) {
            coffer_table *table = NULL;
            coffer_error err;
            assert_int_equal(parse_bytes(headers[i], cut, &table, &err), COFFER_ERR_JSON);
            assert_int_equal(err.offset, 8 + cut);
        }
        coffer_table *table = NULL;
        coffer_error err;
        assert_int_equal(parse_bytes(headers[i], size, &table, &err), COFFER_OK);
        coffer_table_free(table);
    }
}

/* What is usual up to a place where it is not JSON is no JSON there. */
static void test_nearly_usual_is_refused_where_it_differs(void **state)
{
    (void)state;
    static const struct {
        const char *before;
        const char *behind;
        coffer_status status;
        const char *words;
    } cases[] = {
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[", ",0]}}               ", COFFER_ERR_JSON,
          "a value" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[", ",0],\"data_offsets\":[0,0]}}", COFFER_ERR_JSON, "a value" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[0,", "],\"data_offsets\":[0,0]}}", COFFER_ERR_JSON, "follow the comma" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},", "}                ", COFFER_ERR_JSON,
          "follow the comma" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[100],\"data_offsets\":[0,100]},"
          "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[",
          "{\"a,104]}}                    ", COFFER_ERR_TYPE, "an integer, not an object" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[", ",]}}", COFFER_ERR_JSON, "a value" },
        { "{", "a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}                    ", COFFER_ERR_JSON,
          "a key in quotes" },
        { "{", "U8\",\"shape\":[0],\"data_offsets\":[0,0]}}                    ", COFFER_ERR_JSON, "a key in quotes" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,0,1]", "}}                    ",
          COFFER_ERR_MISSING_FIELD, "data_offsets" },
        { "{\"__metadata__\":", "nulX}", COFFER_ERR_TYPE, "not null" },
        { "{\"a\":", "1", COFFER_ERR_TYPE, "a tensor must be an object, not a number" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char json[256];
        coffer_table *table = NULL;
        coffer_error err;
        snprintf(json, sizeof json, "%s%s", cases[i].before, cases[i].behind);
        assert_int_equal(parse_json(json, &table, &err), cases[i].status);
        assert_int_equal(err.offset, 8 + strlen(cases[i].before));
        assert_non_null(strstr(err.message, cases[i].words));
    }
}

/* Where metadata stand: from the quote of their key to one past their value. */
static void test_the_place_of_the_metadata(void **state)
{
    (void)state;
    static const char *const values[] = { "{}", "null", "{\"k\":\"v\"}", "{ \"\" : \"\" , \"l\" : \"\\n\" }" };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char json[256];
        coffer_table *table = NULL;
        coffer_error err;
        snprintf(json, sizeof json,
                 "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"__metadata__\":%s,"
                 "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
                 values[i]);
        assert_int_equal(parse_json(json, &table, &err), COFFER_OK);
        const char *member = strstr(json, "\"__metadata__");
        assert_int_equal(table->metadata_position, member - json);
        assert_int_equal(table->metadata_end, strstr(member, values[i]) + strlen(values[i]) - json);
        assert_string_equal(coffer_table_at(table, 1)->name, "b");
        coffer_table_free(table);
    }
}

/* What is no string is its JSON text where that is accepted, and an error elsewhere. */
static void test_metadata_that_are_no_strings(void **state)
{
    (void)state;
    static const char *const values[] = { "1",         "-0.5e3", "true",    "null", "[]", "{\"a\": [\"\\n\", 2]}",
                                          "-Infinity", "NaN",    "Infinity" };
    static const size_t json_count = 7; /* the other two begin as nothing in JSON does */
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char json[64];
        size_t len = 0;
        coffer_table *table = NULL;
        coffer_error err;
        coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
        const int size = snprintf(json + 8, sizeof json - 8, "{\"__metadata__\":{\"\":%s}}", values[i]);
        memcpy(json, (const char[]){ (char)size, 0, 0, 0, 0, 0, 0, 0 }, 8);
        options.loose_metadata = true;
        assert_int_equal(coffer_parse(&table, NULL, json, (size_t)size + 8, NULL, &options, &err), COFFER_OK);
        assert_string_equal(coffer_table_metadata_get(table, "", 0, &len), values[i]);
        assert_int_equal(len, strlen(values[i]));
        coffer_table_free(table);
        options.loose_metadata = false;
        assert_int_equal(coffer_parse(&table, NULL, json, (size_t)size + 8, NULL, &options, &err),
                         i < json_count ? COFFER_ERR_TYPE : COFFER_ERR_JSON);
        assert_int_equal(err.offset, 8 + strlen("{\"__metadata__\":{\"\":"));
    }
}

/* Only a whole value of the metadata, and only in that spelling. */
static void test_numbers_that_are_none(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        uint64_t offset;
    } texts[] = {
        { "{\"__metadata__\":{\"\":NaNs}}", 23 },
        { "{\"__metadata__\":{\"\":nan}}", 20 },
        { "{\"__metadata__\":{\"\":[NaN]}}", 21 },
        { "{\"__metadata__\":{\"\":Na", 20 },
        { "{\"__metadata__\":{\"\":+Infinity}}", 20 },
        { "{\"__metadata__\":{\"\":-Infinit}}", 21 },
        { "{\"__metadata__\":NaN}", 16 },
        { "{\"__metadata__\":{\"\":NaN", 23 },
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char json[64] = { (char)strlen(texts[i].json) };
        coffer_table *table = NULL;
        coffer_error err;
        coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
        options.loose_metadata = true;
        memcpy(json + 8, texts[i].json, strlen(texts[i].json));
        assert_int_not_equal(coffer_parse(&table, NULL, json, strlen(texts[i].json) + 8, NULL, &options, &err),
                             COFFER_OK);
        assert_int_equal(err.offset, 8 + texts[i].offset);
    }
}

/* Of a tensor with keys that are not known, values may lie as deep as of any other. */
static void test_unknown_keys_with_deep_values(void **state)
{
    (void)state;
    for (size_t depth = 124; depth <= 127; depth++) {
        char json[1024] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":0,\"y\":";
        const size_t start = strlen(json);
        memset(json + start, '[', depth);
        memset(json + start + depth, ']', depth);
        memcpy(json + start + 2 * depth, "}}", 3);
        coffer_table *table = NULL;
        coffer_error err;
        const coffer_status status = parse_json(json, &table, &err);
        assert_int_equal(status, depth <= 125 ? COFFER_OK : COFFER_ERR_DEPTH);
        assert_int_equal(err.offset, depth <= 125 ? 0 : 8 + start + 125);
        coffer_table_free(table);
    }
}

/* A member that is as deep as any may be is here when its end is. */
static void test_a_window_for_deep_values(void **state)
{
    (void)state;
    static header_text text;
    text_begin(&text);
    for (int i = 0; i < 8; i++) {
        char member[512];
        snprintf(member, sizeof member,
                 "%c\"%d\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[%d,%d],\"x\":", i == 0 ? '{' : ',', i, i,
                 i + 1);
        const size_t start = strlen(member);
        memset(member + start, '[', 125);
        memset(member + start + 125, ']', 125);
        memcpy(member + start + 250, "}", 2);
        text_put(&text, member);
    }
    text_end(&text);
    coffer_table *table = NULL;
    coffer_error err;
    supplied from = { &text, 0, 0 };
    assert_int_equal(parse_supplied(&from, 400, coffer_libc_allocator(), &table, &err), COFFER_OK);
    assert_int_equal(coffer_table_count(table), 8);
    assert_true(from.largest <= 400);
    coffer_table_free(table);
}

/* What was read of a member that a window cuts leaves nothing behind: no note, no pair, no space that is taken, no memory. */
static void test_a_member_that_is_taken_back(void **state)
{
    (void)state;
    static header_text text;
    text_begin(&text);
    text_put(&text, "{\"a\\u0001\" : { \"x\":[1,{\"y\":2,\"z\":{}}],"
                    " \"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0] }");
    for (int i = 0; i < 20; i++) {
        char member[160];
        snprintf(member, sizeof member,
                 ",\"%d\":{\"a key of some length that is not known\":{\"x\":{\"y\":0}}, "
                 "\"z\":0,\"dtype\":\"U8\",\"shape\":[0],"
                 "\"data_offsets\":[0,0]}",
                 i);
        text_put(&text, i == 9 ? ",\"__metadata__\":{\"k\":\"v\",\"key\":\"value\"}" : "");
        text_put(&text, member);
    }
    text_end(&text);
    memory_meter meter;
    const coffer_allocator allocator = metered_allocator(&meter);
    coffer_table *whole = NULL;
    coffer_error err;
    assert_int_equal(coffer_parse(&whole, NULL, text.bytes, text.size, &allocator, NULL, &err), COFFER_OK);
    const size_t peak = meter.peak;
    assert_int_equal(coffer_table_note(whole, COFFER_NOTE_UNKNOWN_KEY).offset, 8 + 15);
    for (size_t window_size = 170; window_size < text.size; window_size++) {
        supplied from = { &text, 0, 0 };
        coffer_table *table = NULL;
        meter.peak = meter.held;
        const size_t held = meter.held;
        assert_int_equal(parse_supplied(&from, window_size, &allocator, &table, &err), COFFER_OK);
        assert_true(meter.peak - held <= peak);
        expect_same_tables(table, whole);
        assert_int_equal(coffer_table_metadata_count(table), 2);
        assert_int_equal(table->pairs_at, whole->pairs_at);
        assert_int_equal(table->order_at, whole->order_at);
        for (int kind = 0; kind < COFFER_NOTE_COUNT; kind++) {
            const coffer_note expected = coffer_table_note(whole, (coffer_note_kind)kind);
            const coffer_note note = coffer_table_note(table, (coffer_note_kind)kind);
            assert_int_equal(note.count, expected.count);
            assert_int_equal(note.offset, expected.offset);
        }
        coffer_table_free(table);
    }
    coffer_table_free(whole);
}

/* Memory that is not available fails at once, whatever of the header is still to come. */
static void test_memory_that_runs_out_within_a_window(void **state)
{
    (void)state;
    static header_text text;
    text_begin(&text);
    text_put(&text, "{\"a\": {\"dtype\":\"U8\",\"shape\":[0");
    for (size_t i = 0; i < 900; i++) {
        text_put(&text, ",1");
    }
    text_put(&text, "],\"data_offsets\":[0,0]}");
    put_tail(&text);
    for (size_t window_size = 1700; window_size < text.size; window_size += 500) {
        supplied from = { &text, 0, 0 };
        coffer_table *table = NULL;
        coffer_error err;
        assert_int_equal(parse_frugally(&from, window_size, &table, &err), COFFER_ERR_MEMORY);
        assert_int_equal(err.code, COFFER_ERR_MEMORY);
        assert_int_equal(from.reads, 0);
    }
}

/* Even a single byte that is missing comes through the window, not into memory of its own. */
static void test_the_last_byte_comes_through_the_window(void **state)
{
    (void)state;
    static header_text text;
    text_begin(&text);
    put_member(&text, "a", " ", "U8", "7", 0, 7);
    text_end(&text);
    for (size_t missing = 1; missing <= 2; missing++) {
        memory_meter meter;
        const coffer_allocator allocator = metered_allocator(&meter);
        coffer_table *table = NULL;
        coffer_error err;
        supplied from = { &text, 0, 0 };
        assert_int_equal(parse_supplied(&from, text.size - missing, &allocator, &table, &err), COFFER_OK);
        assert_int_equal(coffer_table_data_size(table), 7);
        coffer_table_free(table);
        assert_int_equal(from.reads, 1);
        assert_int_equal(meter.requests, 1); /* the table */
    }
}

/* ---- how tables grow ---- */

/* What comes behind a tensor of many dimensions. */
typedef struct growing {
    const char *members;
    size_t count;
    size_t pairs;
} growing;

static const growing growings[] = {
    /* The rank of the first is one that the usual way takes; the name of the second is longer than what dtypes need. */
    { "\"b\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]},"
      "\"a name that takes some room by itself\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1],\"data_offsets\":[1,2]}",
      2, 0 },
    { "\"b\": {\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},\"c\" "
      ":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}",
      2, 0 },
    { "\"__metadata__\":{\"key\":\"value\",\"a key that takes some room by itself\":\"and a value that does "
      "so\",\"\":\"\"},"
      "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}",
      1, 3 },
    { "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
      "\"__metadata__\":{\"\":\"a value of some length, by which the room for it is told\"}",
      1, 1 },
    { "\"__metadata__\":{\"a\":\"\",\"b\":\"\",\"c\":\"\",\"d\":\"\",\"e\":\"\",\"f\":\"\",\"g\":\"\",\"h\":\"\",\"i\":"
      "\"\",\"j\":\"\",\"k\":\"\",\"l\":\"\"},"
      "\"x\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}",
      1, 12 },
    { "\"b\":{\"dtype\":\"unknown, and of a name that takes some "
      "room\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]},"
      "\"c\":{\"dtype\":\"seven..\",\"shape\":[1],\"data_offsets\":[1,2]}",
      2, 0 },
};

/* A header of them, behind a tensor of `rank` dimensions and a name of some bytes. */
static void grow_text(header_text *text, const growing *what, size_t rank, size_t name_len)
{
    text_begin(text);
    text_put(text, "{\"");
    for (size_t i = 0; i < name_len; i++) {
        text_put(text, "n");
    }
    text_put(text, "\":{\"dtype\":\"U8\",\"shape\":[0");
    for (size_t i = 1; i < rank; i++) {
        text_put(text, ",7");
    }
    text_put(text, "],\"data_offsets\":[0,0]},");
    text_put(text, what->members);
    text_end(text);
}

static coffer_status parse_metered(const header_text *text, const coffer_allocator *allocator, coffer_table **table,
                                   coffer_error *err)
{
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.unknown_dtypes = true;
    return coffer_parse(table, NULL, text->bytes, text->size, allocator, &options, err);
}

static void expect_grown(const coffer_table *table, const growing *what, size_t rank, size_t name_len)
{
    assert_int_equal(coffer_table_count(table), 1 + what->count);
    const coffer_tensor *first = coffer_table_at(table, 0);
    assert_int_equal(first->name_len, name_len);
    assert_int_equal(strspn(first->name, "n"), name_len);
    assert_int_equal(first->rank, rank);
    for (size_t i = 0; i < rank; i++) {
        assert_int_equal(first->shape[i], i == 0 ? 0 : 7);
    }
    for (size_t i = 1; i <= what->count; i++) {
        const coffer_tensor *tensor = coffer_table_at(table, i);
        char name[64];
        snprintf(name, sizeof name, "\"%s\"", tensor->name);
        assert_non_null(strstr(what->members, name));
        assert_ptr_equal(coffer_table_find(table, tensor->name, tensor->name_len), tensor);
        snprintf(name, sizeof name, "\"%s\"", coffer_tensor_dtype_name(tensor));
        assert_non_null(strstr(what->members, name));
        for (size_t k = 0; k < tensor->rank; k++) {
            assert_int_equal(tensor->shape[k], 1);
        }
    }
    assert_int_equal(coffer_table_metadata_count(table), what->pairs);
    for (size_t i = 0; i < what->pairs; i++) {
        coffer_pair pair;
        char text[128];
        assert_true(coffer_table_metadata_at(table, i, &pair));
        snprintf(text, sizeof text, "\"%s\":\"%s\"", pair.key, pair.value);
        assert_non_null(strstr(what->members, text));
    }
}

/* Whatever is read makes the space that it needs: with the table filled up to any place by a first tensor, everything is in it
   afterwards, and nothing was written beside. Growing can fail, at each place. */
static void test_tables_grow_for_everything(void **state)
{
    (void)state;
    static header_text text;
    for (size_t i = 0; i < sizeof growings / sizeof growings[0]; i++) {
        size_t failures = 0;
        for (size_t rank = 20; rank < 300; rank++) {
            for (size_t name_len = 1; name_len <= 8; name_len += 3) {
                memory_meter meter;
                const coffer_allocator allocator = metered_allocator(&meter);
                coffer_table *table = NULL;
                coffer_error err;
                grow_text(&text, &growings[i], rank, name_len);
                assert_int_equal(parse_metered(&text, &allocator, &table, &err), COFFER_OK);
                expect_grown(table, &growings[i], rank, name_len);
                coffer_table_free(table);
                for (size_t fail_at = meter.requests; fail_at > 0; fail_at--) {
                    meter.requests = 0;
                    meter.fail_at = fail_at;
                    assert_int_equal(parse_metered(&text, &allocator, &table, &err), COFFER_ERR_MEMORY);
                    assert_int_equal(err.code, COFFER_ERR_MEMORY);
                    failures++;
                }
                assert_int_equal(meter.blocks, 0);
            }
        }
        assert_true(failures > 1000);
    }
}

/* How far a table grows is bounded by what the rest of the header can fill, be that rest here or still to come. */
static void test_tables_from_windows_are_no_larger(void **state)
{
    (void)state;
    static header_text text;
    for (size_t rank = 100; rank < 500; rank++) {
        coffer_table *whole = NULL;
        coffer_table *table = NULL;
        coffer_error err;
        grow_text(&text, &growings[0], rank, 1);
        text.size--;
        text_end_padded(&text, 100);
        assert_int_equal(parse_window(&text, text.size, false, &whole, &err), COFFER_OK);
        assert_int_equal(parse_window(&text, text.size - 100, false, &table, &err), COFFER_OK);
        assert_int_equal(table->block_size, whole->block_size);
        coffer_table_free(whole);
        coffer_table_free(table);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_usual),
        cmocka_unit_test(test_every_dtype_is_usual),
        cmocka_unit_test(test_many_usual_tensors),
        cmocka_unit_test(test_how_much_a_window_needs),
        cmocka_unit_test(test_ends_are_forgotten_when_the_window_moves),
        cmocka_unit_test(test_ends_are_forgotten_behind_other_spellings),
        cmocka_unit_test(test_a_window_for_other_spellings),
        cmocka_unit_test(test_out_of_order_with_another_dtype_last),
        cmocka_unit_test(test_keys_that_are_nearly_known),
        cmocka_unit_test(test_messages_name_the_missing_field),
        cmocka_unit_test(test_names_of_unknown_dtypes),
        cmocka_unit_test(test_one_unknown_key_takes_no_memory),
        cmocka_unit_test(test_unknown_keys_that_come_twice),
        cmocka_unit_test(test_headers_cut_anywhere),
        cmocka_unit_test(test_nearly_usual_is_refused_where_it_differs),
        cmocka_unit_test(test_the_place_of_the_metadata),
        cmocka_unit_test(test_metadata_that_are_no_strings),
        cmocka_unit_test(test_numbers_that_are_none),
        cmocka_unit_test(test_unknown_keys_with_deep_values),
        cmocka_unit_test(test_a_window_for_deep_values),
        cmocka_unit_test(test_a_member_that_is_taken_back),
        cmocka_unit_test(test_memory_that_runs_out_within_a_window),
        cmocka_unit_test(test_the_last_byte_comes_through_the_window),
        cmocka_unit_test(test_tables_grow_for_everything),
        cmocka_unit_test(test_tables_from_windows_are_no_larger),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
