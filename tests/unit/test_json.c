/* SPDX-License-Identifier: Apache-2.0 */
/* Why: the reader of JSON decides what is accepted at all, and every position that an error names comes from it. Its calls
   are tested one at a time here, with the place where each leaves the cursor; whole headers are the vectors' business. */
#include "support_cmocka.h"

#include "json.h"
#include "support_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ORIGIN 1000 /* what the tests' texts begin at in their file */

/* A reader of text that ends where its memory ends. */
typedef struct reading {
    coffer__json json;
    coffer_error err;
    char *text;
} reading;

static void begin_n(reading *in, const char *text, size_t size)
{
    memset(in, 0, sizeof *in);
    in->text = malloc(size > 0 ? size : 1);
    assert_non_null(in->text);
    memcpy(in->text, text, size);
    in->json.in.base = (const uint8_t *)in->text;
    in->json.in.length = size;
    in->json.origin = ORIGIN;
    in->json.err = &in->err;
}

static void begin(reading *in, const char *text)
{
    begin_n(in, text, strlen(text));
}

static void end(reading *in)
{
    free(in->text);
}

/* The call failed with `status`; the error says so, and where. */
static void expect_failed(const reading *in, coffer_status status, coffer_status expected, uint64_t at)
{
    char place[48];
    snprintf(place, sizeof place, " byte %llu", (unsigned long long)(ORIGIN + at));
    if (status != expected || in->err.code != expected || in->err.offset != ORIGIN + at ||
        strstr(in->err.message, place) == NULL) {
        fail_msg("\"%s\": %s at %llu: %s", in->text == NULL ? "" : in->text, coffer_status_name(status),
                 (unsigned long long)(in->err.offset - ORIGIN), in->err.message);
    }
}

/* ---- tokens ---- */

static void test_space_and_peek(void **state)
{
    (void)state;
    reading in;
    begin(&in, " \t\r\n\v");
    assert_int_equal(coffer__json_peek(&in.json), '\v');
    assert_int_equal(in.json.in.position, 4);
    in.json.in.position = 5;
    assert_int_equal(coffer__json_peek(&in.json), 0);
    end(&in);
    begin(&in, "  ");
    assert_int_equal(coffer__json_peek(&in.json), 0);
    assert_int_equal(in.json.in.position, 2);
    end(&in);
}

/* However many spaces come first, and with a line's end before them or not: what is next is no other byte than it is. */
static void test_every_byte_behind_spaces(void **state)
{
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        if (byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r') {
            continue;
        }
        for (size_t spaces = 0; spaces < 20; spaces++) {
            for (size_t behind = 0; behind < 10; behind += 9) {
                char text[40];
                memset(text, ' ', sizeof text);
                text[0] = behind == 0 ? ' ' : '\n';
                text[spaces] = (char)byte;
                reading in;
                begin_n(&in, text, spaces + 1 + behind);
                assert_int_equal(coffer__json_peek(&in.json), byte);
                assert_int_equal(in.json.in.position, spaces);
                end(&in);
            }
        }
    }
}

static void test_expect(void **state)
{
    (void)state;
    reading in;
    begin(&in, " :;");
    assert_int_equal(coffer__json_expect(&in.json, ':', "x"), COFFER_OK);
    assert_int_equal(in.json.in.position, 2);
    expect_failed(&in, coffer__json_expect(&in.json, ':', "a colon, please"), COFFER_ERR_JSON, 2);
    assert_non_null(strstr(in.err.message, "a colon, please; found \";\""));
    in.json.in.position = 3;
    expect_failed(&in, coffer__json_expect(&in.json, ':', "a colon, please"), COFFER_ERR_JSON, 3);
    assert_non_null(strstr(in.err.message, "it ends at byte 1003, a colon, please"));
    end(&in);
}

static void test_next(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        char close;
        coffer_status status;
        size_t at; /* of the error, or of the cursor */
        bool more;
    } cases[] = {
        { " , 1", ']', COFFER_OK, 3, true },       { ",\"", '}', COFFER_OK, 1, true },
        { " ]", ']', COFFER_OK, 2, false },        { "}", '}', COFFER_OK, 1, false },
        { "}", ']', COFFER_ERR_JSON, 0, false },   { "]", '}', COFFER_ERR_JSON, 0, false },
        { ", ]", ']', COFFER_ERR_JSON, 2, false }, { ",}", '}', COFFER_ERR_JSON, 1, false },
        { " 1", ']', COFFER_ERR_JSON, 1, false },  { "", ']', COFFER_ERR_JSON, 0, false },
        { ",", ']', COFFER_OK, 1, true },          { ",]", '}', COFFER_OK, 1, true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        reading in;
        bool more = false;
        begin(&in, cases[i].text);
        const coffer_status status = coffer__json_next(&in.json, cases[i].close, &more);
        if (cases[i].status == COFFER_OK) {
            assert_int_equal(status, COFFER_OK);
            assert_int_equal(in.json.in.position, cases[i].at);
            assert_int_equal(more, cases[i].more);
        } else {
            expect_failed(&in, status, cases[i].status, cases[i].at);
        }
        end(&in);
    }
    static const char *const expected[] = { "a comma or \"}\" should be here", "a comma or \"]\" should be here" };
    for (size_t i = 0; i < 2; i++) {
        reading in;
        bool more = false;
        begin(&in, "1");
        expect_failed(&in, coffer__json_next(&in.json, "}]"[i], &more), COFFER_ERR_JSON, 0);
        assert_non_null(strstr(in.err.message, expected[i]));
        end(&in);
    }
}

static void test_type_errors_name_what_is_there(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *found;
    } cases[] = {
        { "{", "not an object" }, { "[", "not an array" },  { "\"", "not a string" },
        { "t", "not a boolean" }, { "f", "not a boolean" }, { "n", "not null" },
        { "-", "not a number" },  { "0", "not a number" },  { "9", "not a number" },
    };
    reading in;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[8] = "  ";
        strcat(text, cases[i].text);
        begin(&in, text);
        expect_failed(&in, coffer__json_type_error(&in.json, "the thing", "a frog"), COFFER_ERR_TYPE, 2);
        assert_non_null(strstr(in.err.message, "the thing must be a frog"));
        assert_non_null(strstr(in.err.message, cases[i].found));
        end(&in);
    }
    static const char *const none[] = { "", "x", "/", ":", "}" };
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        begin(&in, none[i]);
        expect_failed(&in, coffer__json_type_error(&in.json, "the thing", "a frog"), COFFER_ERR_JSON, 0);
        end(&in);
    }
}

/* ---- strings ---- */

static void check_string(const char *text, const char *value, size_t value_len, bool has_control)
{
    reading in;
    char out[64];
    size_t length = 99;
    bool control = !has_control;
    begin(&in, text);
    assert_int_equal(coffer__json_string(&in.json, out, &length, &control), COFFER_OK);
    assert_int_equal(length, value_len);
    assert_memory_equal(out, value, value_len);
    assert_int_equal(control, has_control);
    assert_int_equal(in.json.in.position, strlen(text));
    in.json.in.position = 0;
    length = 99;
    assert_int_equal(coffer__json_string(&in.json, NULL, &length, &control), COFFER_OK);
    assert_int_equal(length, value_len);
    assert_int_equal(control, has_control);
    end(&in);
}

static void test_strings(void **state)
{
    (void)state;
    check_string("\"\"", "", 0, false);
    check_string(" \n\"plain text that is longer than sixteen\"", "plain text that is longer than sixteen", 38, false);
    check_string("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8, true);
    check_string("\"\\\"\\\\\\/\"", "\"\\/", 3, false);
    check_string("\"\\u0041\\u00e9\\u20AC\\uffff\"", "A\xC3\xA9\xE2\x82\xAC\xEF\xBF\xBF", 9, false);
    check_string("\"\\u0000\"", "\0", 1, true);
    check_string("\"\\u0020\\u001f\"", " \x1F", 2, true);
    check_string("\"\\u0020\"", " ", 1, false);
    check_string("\"\\ud83d\\ude00\"", "\xF0\x9F\x98\x80", 4, false);
    check_string("\"\\uD800\\uDC00\\uDBFF\\uDFFF\"", "\xF0\x90\x80\x80\xF4\x8F\xBF\xBF", 8, false);
    check_string("\"\\ud7ff\\ue000\"", "\xED\x9F\xBF\xEE\x80\x80", 6, false);
    check_string("\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80 a\"", "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80 a", 11, false);
    check_string("\"a\x7F\"", "a\x7F", 2, true);
    check_string("\"\\u007f\"", "\x7F", 1, true);
    check_string("\"\xC2\x9F\"", "\xC2\x9F", 2, true);
    check_string("\"\xC2\xA0\"", "\xC2\xA0", 2, false);
}

static void test_strings_that_are_none(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        coffer_status status;
        size_t at;
    } cases[] = {
        { "", COFFER_ERR_JSON, 0 },
        { " x\"", COFFER_ERR_JSON, 1 },
        { "\"", COFFER_ERR_JSON, 1 },
        { "\"ab", COFFER_ERR_JSON, 3 },
        { "\"a\\", COFFER_ERR_JSON, 3 },
        { "\"a\\x\"", COFFER_ERR_JSON, 2 },
        { "\"a\\U0041\"", COFFER_ERR_JSON, 2 },
        { "\"\\u", COFFER_ERR_JSON, 1 },
        { "\"\\u004", COFFER_ERR_JSON, 1 },
        { "\"\\u004\"", COFFER_ERR_JSON, 1 },
        { "\"\\u00g0\"", COFFER_ERR_JSON, 1 },
        { "\"\\u00`0\"", COFFER_ERR_JSON, 1 },
        { "\"\\u00/0\"", COFFER_ERR_JSON, 1 },
        { "\"\\u00:0\"", COFFER_ERR_JSON, 1 },
        { "\"a\n\"", COFFER_ERR_JSON, 2 },
        { "\"\x1F\"", COFFER_ERR_JSON, 1 },
        { "\"\\ud800\"", COFFER_ERR_UTF8, 1 },
        { "\"\\udbff.udc00\"", COFFER_ERR_UTF8, 1 },
        { "\"\\ud800\\n00000\"", COFFER_ERR_UTF8, 1 },
        { "\"\\ud800\\ud800\"", COFFER_ERR_UTF8, 1 },
        { "\"\\ud800\\udbff\"", COFFER_ERR_UTF8, 1 },
        { "\"\\ud800\\ue000\"", COFFER_ERR_UTF8, 1 },
        { "\"\\ud800\\u00zz\"", COFFER_ERR_UTF8, 1 },
        { "\"\\ud800\\udc0", COFFER_ERR_UTF8, 1 },
        { "\"\\udc00\\ud800\"", COFFER_ERR_UTF8, 1 },
        { "\"\\udc00\\udc00\"", COFFER_ERR_UTF8, 1 },
        { "\"\\ud800", COFFER_ERR_UTF8, 1 },
        { "\"\\ud800\\", COFFER_ERR_UTF8, 1 },
        { "\"\\ud800\\u", COFFER_ERR_UTF8, 1 },
        { "\"\\udfff\"", COFFER_ERR_UTF8, 1 },
        { "\"ab\xC3\"", COFFER_ERR_UTF8, 3 },
        { "\"ab\x80\"", COFFER_ERR_UTF8, 3 },
        { "\"\xED\xA0\x80\"", COFFER_ERR_UTF8, 1 },
        { "\"\xF0\x9F\x98", COFFER_ERR_UTF8, 1 },
        { "\"\\ud83d\\ude00", COFFER_ERR_JSON, 13 },
        { "\"\\u0041", COFFER_ERR_JSON, 7 },
        { "\"\\n", COFFER_ERR_JSON, 3 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t stored = 0; stored < 2; stored++) {
            reading in;
            char out[64];
            size_t length = 99;
            bool control = false;
            begin(&in, cases[i].text);
            const coffer_status status = coffer__json_string(&in.json, stored == 1 ? out : NULL, &length, &control);
            expect_failed(&in, status, cases[i].status, cases[i].at);
            assert_int_equal(length, 99);
            end(&in);
        }
    }
}

/* A string that ends with the text does so within a string, not with a control character. */
static void test_a_string_without_an_end(void **state)
{
    (void)state;
    static const char *const texts[] = { "\"", "\"ab", "\"a\\n", "\"\xC3\xA9" };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        reading in;
        size_t length = 0;
        bool control = false;
        begin(&in, texts[i]);
        expect_failed(&in, coffer__json_string(&in.json, NULL, &length, &control), COFFER_ERR_JSON, strlen(texts[i]));
        assert_non_null(strstr(in.err.message, "within a string"));
        end(&in);
    }
}

/* A NUL is no escape, though one ends the list of them. */
static void test_a_nul_is_no_escape(void **state)
{
    (void)state;
    reading in;
    size_t length = 0;
    bool control = false;
    begin_n(&in, "\"\\\0\"", 4);
    expect_failed(&in, coffer__json_string(&in.json, NULL, &length, &control), COFFER_ERR_JSON, 1);
    end(&in);
}

/* What is written is what the reference writes, and reads back as what it was. */
static void test_written_strings(void **state)
{
    (void)state;
    char all[128 + 3];
    for (size_t i = 0; i < 128; i++) {
        all[i] = (char)i;
    }
    memcpy(all + 128, "\xC3\xA9z", 3);
    char written[1024] = { 0 };
    const size_t size = coffer__json_write_string(written, all, sizeof all);
    assert_int_equal(coffer__json_write_string(NULL, all, sizeof all), size);
    static const char first[] =
        "\"\\u0000\\u0001\\u0002\\u0003\\u0004\\u0005\\u0006\\u0007\\b\\t\\n\\u000b\\f\\r\\u000e\\u000f\\u0010";
    assert_memory_equal(written, first, sizeof first - 1);
    assert_non_null(strstr(written, "\\u001e\\u001f !\\\"#"));
    assert_memory_equal(written + size - 5, "\x7F\xC3\xA9z\"", 5);
    reading in;
    begin_n(&in, written, size);
    char back[1024];
    size_t length = 0;
    bool control = false;
    assert_int_equal(coffer__json_string(&in.json, back, &length, &control), COFFER_OK);
    assert_int_equal(length, sizeof all);
    assert_memory_equal(back, all, sizeof all);
    assert_true(control);
    assert_int_equal(in.json.in.position, size);
    end(&in);
    assert_int_equal(coffer__json_write_string(written, NULL, 0), 2);
    assert_memory_equal(written, "\"\"", 2);
}

/* Of a text among other bytes just its own are written, wherever in it something has to be escaped. */
static void test_strings_written_from_among_others(void **state)
{
    (void)state;
    for (size_t first = 0; first < 24; first++) {
        for (size_t second = 0; second < 24; second++) {
            char memory[96];
            char *text = memory + 32;
            char written[256];
            char back[256];
            memset(memory, 'a', sizeof memory);
            text[first] = '\x01';
            text[second] = '"';
            const size_t size = coffer__json_write_string(written, text, 24);
            assert_int_equal(size, 2 + 24 + 1 + (first == second ? 0 : 5));
            reading in;
            size_t length = 0;
            bool control = false;
            begin_n(&in, written, size);
            assert_int_equal(coffer__json_string(&in.json, back, &length, &control), COFFER_OK);
            assert_int_equal(in.json.in.position, size);
            assert_int_equal(length, 24);
            assert_memory_equal(back, text, 24);
            end(&in);
        }
    }
}

/* ---- numbers ---- */

static void test_integers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
        size_t at;
    } good[] = {
        { "0", 0, 1 },
        { " 7,", 7, 2 },
        { "1234567890]", 1234567890, 10 },
        { "18446744073709551615", UINT64_MAX, 20 },
        { "18446744073709551609 ", UINT64_MAX - 6, 20 },
        { "10x", 10, 2 },
        { "10:", 10, 2 },
        { "10/", 10, 2 },
    };
    reading in;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        uint64_t value = 99;
        begin(&in, good[i].text);
        assert_int_equal(coffer__json_u64(&in.json, &value), COFFER_OK);
        assert_true(value == good[i].value);
        assert_int_equal(in.json.in.position, good[i].at);
        end(&in);
    }
    static const struct {
        const char *text;
        coffer_status status;
        size_t at;
    } bad[] = {
        { "18446744073709551616", COFFER_ERR_NUMBER, 0 },
        { "18446744073709551620", COFFER_ERR_NUMBER, 0 },
        { " 99999999999999999999", COFFER_ERR_NUMBER, 1 },
        { "00", COFFER_ERR_NUMBER, 0 },
        { "01", COFFER_ERR_NUMBER, 0 },
        { "-0", COFFER_ERR_NUMBER, 0 },
        { "-", COFFER_ERR_NUMBER, 0 },
        { "1.0", COFFER_ERR_NUMBER, 0 },
        { "1e3", COFFER_ERR_NUMBER, 0 },
        { "1E3", COFFER_ERR_NUMBER, 0 },
        { "+1", COFFER_ERR_JSON, 0 },
        { ":", COFFER_ERR_JSON, 0 },
        { "/", COFFER_ERR_JSON, 0 },
        { "", COFFER_ERR_JSON, 0 },
        { " \"1\"", COFFER_ERR_TYPE, 1 },
        { "null", COFFER_ERR_TYPE, 0 },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t value = 99;
        begin(&in, bad[i].text);
        expect_failed(&in, coffer__json_u64(&in.json, &value), bad[i].status, bad[i].at);
        assert_true(value == 99);
        end(&in);
    }
}

/* ---- values that nobody wants ---- */

static coffer_status skip_value(reading *in, size_t depth)
{
    memory_meter meter;
    const coffer_allocator allocator = metered_allocator(&meter);
    coffer__scratch scratch = { &allocator, NULL, 0, 0 };
    const coffer_status status = coffer__json_skip(&in->json, depth, &scratch);
    if (status == COFFER_OK) {
        assert_int_equal(scratch.used, 0);
    }
    coffer__scratch_free(&scratch);
    assert_int_equal(meter.blocks, 0);
    assert_null(scratch.block);
    assert_int_equal(scratch.size, 0);
    assert_int_equal(scratch.used, 0);
    return status;
}

static void test_skipped(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "true",
        "false",
        "null",
        "0",
        "-0",
        "12",
        "-1.5e+10",
        "0.25E-3",
        "1e5",
        "\"x\\n\"",
        "[]",
        "{}",
        "[ ]",
        "{ }",
        "[1,[2,{\"a\":[]}],3]",
        "{\"a\":{\"a\":{\"a\":1}},\"b\":{\"a\":1}}",
        "[{\"a\":1},{\"a\":1}]",
        "{\"\":1,\"a\":2,\"aa\":3}",
        "0.1234567890123456789012345678901234567890",
        "123456789012345678901234567890",
        "1e-99999999999999999999",
        "0e99999999999999999999",
        "1.7976931348623157e308",
        "1e288",
        "1797693134862315648e290",
        "1e308",
        "0.1e309",
        "1.0000000000000000000000000000000000000001e300",
        "-1.7976931348623157e308",
        "10000000000000000000000e286",
        "1e-400",
        "0.0000000000000000000000000000001e330",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char text[80] = " ";
        strcat(text, texts[i]);
        const size_t size = strlen(text);
        strcat(text, ",]");
        reading in;
        begin(&in, text);
        if (skip_value(&in, 0) != COFFER_OK || in.json.in.position != size) {
            fail_msg("%s: %s", text, in.err.message);
        }
        end(&in);
    }
}

static void test_not_skipped(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        coffer_status status;
        size_t at;
    } cases[] = {
        { "", COFFER_ERR_JSON, 0 },
        { "tru", COFFER_ERR_JSON, 0 },
        { "nulL", COFFER_ERR_JSON, 0 },
        { "+1", COFFER_ERR_JSON, 0 },
        { "-", COFFER_ERR_JSON, 1 },
        { "-x", COFFER_ERR_JSON, 1 },
        { "-/", COFFER_ERR_JSON, 1 },
        { "-:", COFFER_ERR_JSON, 1 },
        { "01", COFFER_ERR_JSON, 0 },
        { "-01", COFFER_ERR_JSON, 0 },
        { "-.5", COFFER_ERR_JSON, 1 },
        { "-e5", COFFER_ERR_JSON, 1 },
        { "1.", COFFER_ERR_JSON, 2 },
        { "1.e5", COFFER_ERR_JSON, 2 },
        { "1e", COFFER_ERR_JSON, 2 },
        { "1e+", COFFER_ERR_JSON, 3 },
        { "1e-]", COFFER_ERR_JSON, 3 },
        { ".5", COFFER_ERR_JSON, 0 },
        { " 1e309", COFFER_ERR_NUMBER, 1 },
        { "-1e309", COFFER_ERR_NUMBER, 0 },
        { "1.7976931348623159e308", COFFER_ERR_NUMBER, 0 },
        { "1e99999999999999999999", COFFER_ERR_NUMBER, 0 },
        { "0.01e311", COFFER_ERR_NUMBER, 0 },
        { "1.0000000000000000000000000000000000000001e309", COFFER_ERR_NUMBER, 0 },
        { "20000000000000000000e289", COFFER_ERR_NUMBER, 0 },
        /* Twenty digits that 64 bits hold, where nineteen of them would do. */
        { "17976931348623156485e289", COFFER_ERR_NUMBER, 0 },
        { "123456789012345678901234567890e280", COFFER_ERR_NUMBER, 0 },
        { "[1 2]", COFFER_ERR_JSON, 3 },
        { "[1,]", COFFER_ERR_JSON, 3 },
        { "[1}", COFFER_ERR_JSON, 2 },
        { "[", COFFER_ERR_JSON, 1 },
        { "{", COFFER_ERR_JSON, 1 },
        { "{1:2}", COFFER_ERR_JSON, 1 },
        { "{\"a\"}", COFFER_ERR_JSON, 4 },
        { "{\"a\" 1}", COFFER_ERR_JSON, 5 },
        { "{\"a\":}", COFFER_ERR_JSON, 5 },
        { "{\"a\":1,}", COFFER_ERR_JSON, 7 },
        { "{\"a\":1,2}", COFFER_ERR_JSON, 7 },
        { "{\"a\\q\":1}", COFFER_ERR_JSON, 3 },
        { "{\"a\xFF\":1}", COFFER_ERR_UTF8, 3 },
        { "[\"\xFF\"]", COFFER_ERR_UTF8, 2 },
        { "{\"a\":1,\"a\":2}", COFFER_ERR_DUPLICATE_KEY, 7 },
        { "{\"a\":1,\"\\u0061\":2}", COFFER_ERR_DUPLICATE_KEY, 7 },
        { "[{\"\":1, \"\":2}]", COFFER_ERR_DUPLICATE_KEY, 8 },
        /* Of several, the first in the header is named, whatever their order by name. */
        { "{\"a\":1,\"a\":2,\"b\":3,\"b\":4}", COFFER_ERR_DUPLICATE_KEY, 7 },
        { "{\"b\":1,\"b\":2,\"a\":3,\"a\":4}", COFFER_ERR_DUPLICATE_KEY, 7 },
        { "{\"a\":1,\"a\":2,\"a\":3}", COFFER_ERR_DUPLICATE_KEY, 7 },
        { "{\"a\":{\"b\":1,\"c\":2,\"b\":3},\"a\":4}", COFFER_ERR_DUPLICATE_KEY, 18 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        reading in;
        begin(&in, cases[i].text);
        const coffer_status status = skip_value(&in, 0);
        expect_failed(&in, status, cases[i].status, cases[i].at);
        end(&in);
    }
    reading in;
    begin(&in, "{\"ab\":1,\"cde\":2,\"ab\":3}");
    expect_failed(&in, skip_value(&in, 0), COFFER_ERR_DUPLICATE_KEY, 16);
    assert_non_null(strstr(in.err.message, "the key \"ab\" occurs a second time"));
    end(&in);
    begin(&in, "01");
    expect_failed(&in, skip_value(&in, 0), COFFER_ERR_JSON, 0);
    assert_non_null(strstr(in.err.message, "a number has a leading zero"));
    end(&in);
    begin(&in, "{1:2}");
    expect_failed(&in, skip_value(&in, 0), COFFER_ERR_JSON, 1);
    assert_non_null(strstr(in.err.message, "a key in quotes should be here"));
    end(&in);
    begin(&in, "-x");
    expect_failed(&in, skip_value(&in, 0), COFFER_ERR_JSON, 1);
    assert_non_null(strstr(in.err.message, "a digit should be here"));
    end(&in);
}

/* `digits` digits and the exponent that makes them a number of 309. */
static void begin_large(reading *in, const char *twenty, int digits)
{
    char number[40];
    snprintf(number, sizeof number, "%.*se%d", digits, twenty, 309 - digits);
    begin(in, number);
}

/* The point can stand in every place; the largest double is 1.797...e308. */
static void test_the_largest_number_in_every_spelling(void **state)
{
    (void)state;
    for (int digits = 1; digits <= 20; digits++) {
        reading in;
        begin_large(&in, "17900000000000000000", digits);
        assert_int_equal(skip_value(&in, 0), COFFER_OK);
        assert_int_equal(coffer__left(&in.json.in), 0);
        end(&in);
        begin_large(&in, digits == 1 ? "2" : "18000000000000000000", digits);
        expect_failed(&in, skip_value(&in, 0), COFFER_ERR_NUMBER, 0);
        end(&in);
    }
}

static void test_depth(void **state)
{
    (void)state;
    for (size_t outside = 0; outside <= COFFER__JSON_MAX_DEPTH; outside += 127) {
        for (size_t inside = 126; inside <= 128; inside++) {
            char text[300];
            memset(text, '[', inside);
            memset(text + inside, ']', inside);
            reading in;
            begin_n(&in, text, 2 * inside);
            const coffer_status status = skip_value(&in, outside);
            if (outside + inside <= COFFER__JSON_MAX_DEPTH) {
                assert_int_equal(status, COFFER_OK);
                assert_int_equal(in.json.in.position, 2 * inside);
            } else {
                expect_failed(&in, status, COFFER_ERR_DEPTH, COFFER__JSON_MAX_DEPTH - outside);
                assert_non_null(strstr(in.err.message, "deeper than 127 levels"));
            }
            end(&in);
        }
    }
    /* Depth counts only what is open: many containers beside each other are none within each other. */
    reading in;
    begin(&in, "[[],{},[[]],{\"a\":{}}]");
    assert_int_equal(skip_value(&in, COFFER__JSON_MAX_DEPTH - 3), COFFER_OK);
    end(&in);
}

/* An object of `count` keys, each of 3 bytes. */
static size_t object_of(size_t count, char *text)
{
    size_t used = 0;
    text[used++] = '{';
    for (size_t i = 0; i < count; i++) {
        const char member[] = { '"', 'k', (char)('a' + i / 26), (char)('a' + i % 26), '"', ':', '1', ',' };
        memcpy(text + used, member, sizeof member);
        used += sizeof member;
    }
    text[used - 1] = '}';
    return used;
}

/* Keys and their order share the memory that grows, so it may run out with either. */
static void test_skipping_without_memory(void **state)
{
    (void)state;
    size_t failed_while_closing = 0;
    for (size_t count = 1; count < 60; count++) {
        char text[600];
        reading in;
        begin_n(&in, text, object_of(count, text));
        for (size_t fail_at = 1;; fail_at++) {
            memory_meter meter;
            const coffer_allocator allocator = metered_allocator(&meter);
            meter.fail_at = fail_at;
            coffer__scratch scratch = { &allocator, NULL, 0, 0 };
            in.json.in.position = 0;
            const coffer_status status = coffer__json_skip(&in.json, 0, &scratch);
            failed_while_closing += status != COFFER_OK && in.json.in.position == in.json.in.length;
            coffer__scratch_free(&scratch);
            assert_int_equal(meter.blocks, 0);
            if (status == COFFER_OK) {
                assert_int_equal(in.json.in.position, in.json.in.length);
                break;
            }
            assert_int_equal(status, COFFER_ERR_MEMORY);
            assert_int_equal(in.err.code, COFFER_ERR_MEMORY);
        }
        end(&in);
    }
    assert_true(failed_while_closing > 0);
}

/* Keys of every length and number fill the scratch memory to any place; two that are equal are found, wherever they lie. */
static void test_keys_of_every_length(void **state)
{
    (void)state;
    for (size_t key_len = 2; key_len < 24; key_len++) {
        for (size_t count = 1; count < 60; count++) {
            char text[60 * 32];
            size_t size = 0;
            for (size_t i = 0; i < count; i++) {
                size += (size_t)snprintf(text + size, sizeof text - size, "%c\"%0*zu\":1", i == 0 ? '{' : ',',
                                         (int)key_len, i);
            }
            text[size] = '}';
            reading in;
            begin_n(&in, text, size + 1);
            assert_int_equal(skip_value(&in, 0), COFFER_OK);
            assert_int_equal(in.json.in.position, size + 1);
            end(&in);
            /* The last is the same as the first: their last digits are. */
            memset(text + size - 3 - key_len, '0', key_len);
            begin_n(&in, text, size + 1);
            const coffer_status status = skip_value(&in, 0);
            if (count > 1) {
                expect_failed(&in, status, COFFER_ERR_DUPLICATE_KEY, size - 4 - key_len);
            }
            end(&in);
        }
    }
}

/* Places in the scratch memory have 32 bits; a header's keys can need more. They need no more than the last of these places. */
static void test_scratch_has_an_end(void **state)
{
    (void)state;
    for (size_t short_of = 11; short_of <= 12; short_of++) {
        memory_meter meter;
        const coffer_allocator allocator = metered_allocator(&meter);
        meter.fail_at = 1;
        coffer__scratch scratch = { &allocator, NULL, UINT32_MAX - short_of, UINT32_MAX - short_of };
        reading in;
        begin(&in, "{\"key\":1}"); /* takes twelve bytes */
        assert_int_equal(coffer__json_skip(&in.json, 0, &scratch), COFFER_ERR_MEMORY);
        assert_int_equal(in.err.code, COFFER_ERR_MEMORY);
        /* Where sizes have 32 bits, half as much again as these places is too much to ask for. */
        assert_int_equal(meter.requests, short_of == 12 && SIZE_MAX > UINT32_MAX ? 1 : 0);
        end(&in);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_space_and_peek),
        cmocka_unit_test(test_every_byte_behind_spaces),
        cmocka_unit_test(test_expect),
        cmocka_unit_test(test_next),
        cmocka_unit_test(test_type_errors_name_what_is_there),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_strings_that_are_none),
        cmocka_unit_test(test_a_string_without_an_end),
        cmocka_unit_test(test_a_nul_is_no_escape),
        cmocka_unit_test(test_written_strings),
        cmocka_unit_test(test_strings_written_from_among_others),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_skipped),
        cmocka_unit_test(test_not_skipped),
        cmocka_unit_test(test_the_largest_number_in_every_spelling),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_skipping_without_memory),
        cmocka_unit_test(test_keys_of_every_length),
        cmocka_unit_test(test_scratch_has_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
