/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON reader's tokens, each from any position in any input of up to JSON_MAX bytes, and what writes strings. */
#include "json.h"
#include "prove.h"

#define JSON_MAX 5

static coffer__json prove_reader(size_t size, coffer_error *err)
{
    coffer__json json = { .in = { prove_bytes(size), size, prove_each(0, size) }, .origin = 8, .err = err };
    return json;
}

/* What every function must leave: a cursor within its input. */
static void prove_cursor(const coffer__json *json, size_t size)
{
    //@ assert json->in.position <= size;
    //@ assert json->in.length == size;
}

static void prove_space(size_t size)
{
    coffer_error err;
    coffer__json json = prove_reader(size, prove_bool() ? &err : NULL);
    coffer__json_peek(&json);
    prove_cursor(&json, size);
}

static void prove_expect(size_t size)
{
    coffer_error err;
    coffer__json json = prove_reader(size, &err);
    coffer__json_expect(&json, ':', "a colon");
    prove_cursor(&json, size);
}

static void prove_next(size_t size)
{
    coffer_error err;
    bool more = false;
    coffer__json json = prove_reader(size, &err);
    coffer__json_next(&json, prove_bool() ? '}' : ']', &more);
    prove_cursor(&json, size);
}

static void prove_type_error(size_t size)
{
    coffer_error err;
    coffer__json json = prove_reader(size, &err);
    json.noun = prove_bool() ? "the index" : NULL;
    coffer__json_type_error(&json, "it", "an array");
    prove_cursor(&json, size);
}

static void prove_u64_token(size_t size)
{
    coffer_error err;
    uint64_t value = 0;
    coffer__json json = prove_reader(size, &err);
    coffer__json_u64(&json, &value);
    prove_cursor(&json, size);
}

static void prove_string_measured(size_t size)
{
    coffer_error err;
    size_t length = 0;
    bool has_control = false;
    coffer__json json = prove_reader(size, &err);
    coffer__json_string(&json, NULL, &length, &has_control);
    prove_cursor(&json, size);
    //@ assert length <= size;
}

static void prove_string_stored(size_t size)
{
    coffer_error err;
    size_t length = 0;
    bool has_control = false;
    coffer__json json = prove_reader(size, &err);
    const size_t left = coffer__left(&json.in);
    char *text = (char *)prove_bytes(left > 0 ? left : 1);
    coffer__json_string(&json, text, &length, &has_control);
    prove_cursor(&json, size);
}

static void prove_write_string(size_t size)
{
    const char *text = (const char *)prove_bytes(size + 1);
    char *out = (char *)prove_bytes(6 * size + 2);
    coffer__json_write_string(NULL, text, size);
    coffer__json_write_string(out, text, size);
}

static void prove_escape(const char *text, size_t size)
{
    coffer_error err;
    char out[32];
    size_t length = 0;
    bool has_control = false;
    coffer__json json = { .in = { prove_template(text, size, 0), size, 0 }, .origin = 8, .err = &err };
    coffer__json_string(&json, out, &length, &has_control);
    prove_cursor(&json, size);
}

int main(void)
{
    prove_escape("\"\\u00?9\"", 8);
    prove_escape("\"\\ud83d\\ude00\"", 14);
    prove_escape("\"\\ud83d\\u0?00\"", 14);
    prove_escape("\"\\udc00?", 8);
    prove_escape("\"\\u00?", 6);
    //@ loop unroll JSON_MAX;
    for (size_t size = 1; size <= JSON_MAX; size++) {
        prove_space(size);
        prove_expect(size);
        prove_next(size);
        prove_type_error(size);
        prove_u64_token(size);
        prove_string_measured(size);
        prove_string_stored(size);
        prove_write_string(size);
    }
    return 0;
}
