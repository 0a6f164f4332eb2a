/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header parser once more, on headers without an unknown byte: they are cheap, so there are many, each chosen for
 * statements that prove_parse.c does not come to. Each is read whole, and through windows that slide or stay. Memory is always
 * to be had, but for headers that are long: there it runs out at one request or another.
 */
#include "format.h"
#include "prove.h"
#include "prove_edit.h"
#include "prove_window.h"

#include <string.h>

/* In each way in which prove_text reads one. */
#define PROVE_THRICE(text) text, text, text
#define PROVE_SEVENTY_SPACES "                                                                      "

static const char *const prove_texts[] = {
    /* usual tensors that turn out unusual, piece by piece */
    "{\"a\":{\"dtype\":\"F32\",\"shape\":[01],\"data_offsets\":[0,4]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]},\"bc\":{\"dtype\":\"U8\",\"shape\":"
    "[1],"
    "\"data_offsets\":[1,2]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[1;1],\"data_offsets\":[0,1]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[1234567890123456],\"data_offsets\":[0,1234567890123456]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[123456789],\"data_offsets\":[0,123456789]},\"b\":{\"dtype\":\"U8\",\"shape\":["
    "1],"
    "\"data_offsets\":[123456789,123456790]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0;1]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,x]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[x,1]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,2]}}",
    "{\"a\":{\"dtype\":\"BF16\",\"shape\":[2,3,4],\"data_offsets\":[0,48]},\"b.c.d.e.f.g.h.i.j.k\":{\"dtype\":\"BF16\","
    "\"shape\":"
    "[],\"data_offsets\":[48,50]},\"c\":{\"dtype\":\"F8_E4M3\",\"shape\":[2],\"data_offsets\":[50,52]},\"d\":{"
    "\"dtype\":\"BF16\","
    "\"shape\":[1],\"data_offsets\":[52,54]},\"e\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[54,62]}}",
    "{\"__metadata__\":{\"dtype\":\"U8\"},\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
    /* the usual spelling with spaces, and what turns out to be another */
    "{\"a\": {\"dtype\": \"U8\", \"shape\": [1], \"data_offsets\": [0, 1]}, \"b\": {\"dtype\": \"U8\", \"shape\": "
    "[1, 2], \"data_offsets\": [1, 3]}, \"c\": {\"dtype\": \"I8\", \"shape\": [], \"data_offsets\": [3, 4]}}        ",
    "{\"a\": {\"dtype\": \"U8\", \"shape\": [1], \"data_offsets\": [0, 1]}, \"b\": {\"dtype\": \"U8\", \"shape\": "
    "[1,2], \"data_offsets\": [1, 3]}, \"c\": {\"dtype\": \"I8\", \"shape\":[], \"data_offsets\": [3, 4]}}",
    "{\"a\": {\"dtype\": \"U8\", \"shape\": [1], \"data_offsets\": [0, 1]}, \"b\":{\"dtype\":\"U8\",\"shape\":[1],"
    "\"data_offsets\":[1,2]},\"c\": {\"dtype\": \"U8\", \"shape\": [1],\"data_offsets\": [2,3]}}",
    "{\n          \"a\": {\n            \"dtype\": \"U8\",\n            \"shape\": [\n              1\n            ],\n"
    "            \"data_offsets\": [\n              0,\n              1\n            ]\n          }\n        }",
    /* dtype, shape and range that do not agree */
    "{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,2]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,1]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[99999999999,99999999999],\"data_offsets\":[0,1]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[18446744073709551615],\"data_offsets\":[0,18446744073709551615]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[0,99999999999,99999999999],\"data_offsets\":[0,0]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_"
    "offsets\":[0,2]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_"
    "offsets\":[2,4]}}",
    /* names that come twice, in either order of the data; that differ only in case */
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_"
    "offsets\":[1,2]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]},\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_"
    "offsets\":[0,1]}}",
    "{\"Ab\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},\"aB\":{\"dtype\":\"U8\",\"shape\":[1],\"data_"
    "offsets\":[0,1]},"
    "\"abc\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]},\"ab\":{\"dtype\":\"U8\",\"shape\":[1],\"data_"
    "offsets\":[2,3]}}",
    /* other spellings, and what may be wrong with them */
    "{\"a\":{\"dtype\":\"NOVEL\",\"shape\":[1],\"data_offsets\":[0,1]}}",
    "{\"a\":{\"dtype\":\"a name that is much longer than that of any dtype\",\"shape\":[1],\"data_offsets\":[0,1]}}",
    "{\"a\":{\"dtype\":\"\\u004e\\n\",\"shape\":[1],\"data_offsets\":[0,1]} }",
    "{ \"a\\u0000\\ud83d\\ude00\" : { \"shape\" : [ 1 , 2 ] , \"dtype\" : \"U8\" , \"data_offsets\" : [ 0 , 2 ] } }",
    "{\"a\":{ \"dtype\":\"U8\",\"dtype\":\"U8\"}}",
    "{\"a\":{ \"shape\":[],\"shape\":[]}}",
    "{\"a\":{ \"data_offsets\":[0,1],\"data_offsets\":[0,1]}}",
    "{\"a\":{ \"data_offsets\":[0,1],\"shape\":[]}}",
    "{\"a\":{ \"data_offsets\":[0,1],\"dtype\":\"U8\"}}",
    "{\"a\":{ \"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":{}}}",
    "{\"a\":{ \"dtype\":\"U8\",\"shape\":[1 1]}}",
    "{\"a\":{ \"dtype\":\"U8\",\"shape\":[-1]}}",
    "{\"a\":{ \"dtype\":\"U8\",\"shape\":[99999999999999999999]}}",
    "{\"a\":{ \"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1.5]}}",
    "{\"a\":{ \"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0 1]}}",
    "{\"a\":{ \"dtype\":\"U8\" \"shape\":[1]}}",
    "{\"a\":{ \"dtype\"}}",
    "{\"a\":{ dtype:1}}",
    "{\"a\":{ \"dtype\":\"U8}}",
    "{\"a\":{ \"dtype\":\"U8\",}}",
    "{\"a\" {}}",
    "{\"a\":{},}",
    "{\"a\\x\":{}}",
    "{\"a\":{ \"x\":{\"k\":1,\"k\":2},\"y\":[true,false,null,-1.5e+3,\"s\"]}}",
    "{\"a\":{ \"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":1,\"x\":2}}",
    "{\"a\":{ \"x\":1e999}}",
    "{\"a\":{ \"x\":01}}",
    "{\"a\":{ \"x\":-}}",
    "{\"a\":{ \"x\":123456789012345678901234567890.5e280}}",
    "{\"a\":{ \"x\":0e999,\"y\":{\"k\":1,\"k\":2,\"k\":3}}}",
    "{\"a\":{ \"dtype\":\"U8\",\"shape\":[1]}}",
    "{\"a\":{ \"data_offsetz\":1}}",
    "{\"abcdefghijkl\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
    "{\"a\\ud83dxxxxxxxxxxxx\":{}}",
    "{\"a\\ud83d\\nxxxxxxxxxx\":{}}",
    "{\"a\\udc00\\ud83dxxxxxxxxxx\":{}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"a name that goes on beyond the window\" {}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},x:{\"dtype\":\"U8\",\"shape\":[1]}}",
    /* ranges in another order than their tensors, empty ones among them */
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_"
    "offsets\":[1,1]},\"B\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_"
    "offsets\":[10,11]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[123456789],\"data_offsets\":[0,123456789]},\"b\":{\"dtype\":\"U8\",\"shape\":["
    "1],\"data_offsets\":[123456788,123456789]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[123456789],\"data_offsets\":[0,123456789]},\"b\":{\"dtype\":\"U8\",\"shape\":["
    "1],\"data_offsets\":[223456789,223456790]}}",
    "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4],\"shape\":[1]}}",
    "{\"\\ud83d\"}",
    /* metadata */
    "{\"__metadata__\":{\"k\":\"v\",\"a\":\"\\n\"},\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
    "{\"__metadata__\":{\"k\" \"v\"}}",
    "{\"__metadata__\":{\"k\":\"v}}",
    "{\"__metadata__\":{\"k:\"v\"}}",
    "{\"__metadata__\":{k:1}}",
    "{\"__metadata__\":{\"k\":\"v\" \"l\":\"w\"}}",
    "{\"__metadata__\":\"\"}",
    "{\"__metadata__\":{\"k\":1,\"l\":[1,{}],\"m\":NaN,\"n\":-Infinity}}",
    "{\"__metadata__\":{\"k\":Nan}}",
    /* behind the closing brace, and before the opening one */
    "{}  \n ",
    "{} x",
    PROVE_THRICE("{" PROVE_SEVENTY_SPACES "}"),
    PROVE_THRICE("{}" PROVE_SEVENTY_SPACES),
    PROVE_THRICE(PROVE_SEVENTY_SPACES "{}"),
    "  {}",
    "[]",
    "{1}",
    /* metadata behind the tensors, which go with the comma before them */
    "{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]} ,\t\"__metadata__\":{\"k\":\"v\"}\r\n}",
};

/* ---- a table, looked at from all sides ---- */

static void prove_walk(const coffer_table *table)
{
    uint32_t order[8] = { 0 };
    const size_t count = coffer_table_count(table);
    if (count <= 8) {
        coffer_table_sort_by_name(table, order);
    }
    for (size_t i = 0; i <= count; i++) {
        const coffer_tensor *tensor = coffer_table_at(table, i);
        if (tensor != NULL) {
            coffer_table_find(table, tensor->name, tensor->name_len);
            coffer_table_find(table, tensor->name, tensor->name_len - (tensor->name_len > 0 ? 1 : 0));
            coffer_tensor_dtype_name(tensor);
            coffer_tensor_elements(tensor);
            coffer_dtype_bits(tensor->dtype);
            coffer_dtype_kind(tensor->dtype);
            coffer_dtype_alignment(tensor->dtype);
        }
    }
    for (size_t i = 0; i <= coffer_table_metadata_count(table); i++) {
        coffer_pair pair;
        if (coffer_table_metadata_at(table, i, &pair)) {
            size_t value_len = 0;
            coffer_table_metadata_get(table, pair.key, pair.key_len, &value_len);
        }
    }
    for (int kind = -1; kind <= COFFER_NOTE_COUNT; kind++) {
        coffer_table_note(table, (coffer_note_kind)kind);
        coffer_note_text((coffer_note_kind)kind);
    }
    coffer_format_name(coffer_table_format(table));
    coffer_table_has_metadata(table);
    coffer_table_data_offset(table);
    coffer_table_data_size(table);
    coffer_table_slack(table);
}

/* ---- ways to read it ---- */

/* Says in front of the header how long it is, in a file of `size` bytes. */
static void prove_set_length(uint8_t *bytes, size_t size)
{
    bytes[0] = (uint8_t)(size - 8);
    bytes[1] = (uint8_t)((size - 8) >> 8);
}

static coffer_parse_options options_for(size_t i, uint64_t file_size)
{
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.all_notes = true;
    options.unknown_dtypes = (i & 1) == 0;
    options.loose_metadata = options.unknown_dtypes;
    options.file_size = file_size;
    options.format = COFFER_FORMAT_SAFETENSORS;
    return options;
}

static void prove_whole(const uint8_t *bytes, size_t size, const coffer_allocator *allocator,
                        const coffer_parse_options *options)
{
    coffer_error err;
    coffer_table *table = NULL;
    if (coffer__parse_header(&table, NULL, bytes, size, allocator, options, &err) == COFFER_OK) {
        prove_walk(table);
        prove_edit(table, bytes);
    }
    coffer_table_free(table);
}

/* So far from the header's end everything that is spelt as usual is read so. */
#define PROVE_SPACES 24

static void prove_text(const char *text, size_t i)
{
    const coffer_allocator *allocator = &prove_certain_allocator;
    const size_t length = strlen(text);
    const size_t size = 8 + length;
    uint8_t *bytes = prove_certain_alloc(NULL, size + PROVE_SPACES);
    memset(bytes, 0, 8);
    memcpy(bytes + 8, text, length);
    memset(bytes + size, ' ', PROVE_SPACES);
    const coffer_parse_options options = options_for(0, 0);
    const coffer_parse_options strict = options_for(1, size + i % 3);
    prove_set_length(bytes, size);
    prove_whole(bytes, size, allocator, &strict);
    prove_window(bytes, size, 40, true, 1000, allocator, &options);
    if (i % 3 == 0) {
        prove_window(bytes, size, 9, true, 1000, allocator, &options);
    } else {
        prove_window(bytes, size, 60, i % 3 == 1, i % 3 == 1 ? 0 : 1000, allocator, &options);
    }
    prove_set_length(bytes, size + PROVE_SPACES);
    prove_whole(bytes, size + PROVE_SPACES, allocator, &options);
    free(bytes);
}

/* ---- tables that grow ---- */

#define USUAL_OF_EIGHT "\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}"
#define UNUSUAL_OF_EIGHT "\"a\":{\"shape\":[1,1,1,1,1,1,1,1],\"dtype\":\"U8\",\"data_offsets\":[0,1]}"

/* What takes more of the table than of the header, so that the table has to grow: dimensions, tensors, pairs, a dtype's name. */
static const prove_repetition prove_growing[] = {
    { PROVE_PIECE("{\"a\":{ \"dtype\":\"U8\",\"data_offsets\":[0,1],\"shape\":[1"), PROVE_PIECE(",1"), 140,
      PROVE_PIECE("]}}") },
    { PROVE_PIECE("{" USUAL_OF_EIGHT), PROVE_PIECE("," USUAL_OF_EIGHT), 14, PROVE_PIECE("}                ") },
    { PROVE_PIECE("{" UNUSUAL_OF_EIGHT), PROVE_PIECE("," UNUSUAL_OF_EIGHT), 14, PROVE_PIECE("}") },
    { PROVE_PIECE("{\"__metadata__\":{\"\":\"\""), PROVE_PIECE(",\"\":\"\""), 70, PROVE_PIECE("}}") },
    { PROVE_PIECE("{\"a\":{ \"dtype\":\"a name that no dtype has, and longer than any "
                  "dtype's\",\"data_offsets\":[0,1],\"shape\":[1"),
      PROVE_PIECE(",1"), 140, PROVE_PIECE("]}}") },
};

/* Whole and through a window, with memory for all of it, and with memory that runs out at a later request than the first. */
static void prove_growth(const prove_repetition *what)
{
    size_t size;
    uint8_t *bytes = prove_repeat(what, &size);
    const coffer_parse_options options = options_for(0, 0);
    //@ loop unroll 4;
    for (size_t granted = 1; granted <= 4; granted++) {
        prove_granted = granted < 4 ? granted : SIZE_MAX;
        prove_whole(bytes, size, &prove_failing_allocator, &options);
    }
    //@ loop unroll 3;
    for (size_t granted = 0; granted < 3; granted++) {
        prove_granted = granted;
        prove_window(bytes, size, 60, false, 1000, &prove_failing_allocator, &options);
    }
    free(bytes);
}

/* ---- names that collide ---- */

/* 70 names of three letters whose hashes agree in the bits that choose a slot, so that the index gives up its slots. */
static const char prove_colliding[] =
    "agzapsatdazwaAxaDnaETaGyaIbaLuaOkaZfa1Ka30a6Ea8ebgQbjjbknblVbC."
    "bFJbHRbIobJXbMIbPrbSNbS4bUFbUObZGb19cdNcpWcB9cTBc8BdfDd"
    "fIdkNdk5doedo7dsyduZdwidx9dyZdzTdJydLGdQvdTpdVFdWNd7AeemegnehKeqmetzeuGexEeyjeyGey3eAVeFPeOW";
#define PROVE_COLLIDING (sizeof prove_colliding / 3)

/* `count` of them, one more than there are for the first one twice. */
static void prove_collisions(size_t count)
{
    static const char head[] = "{\"";
    static const char tail[] = "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
    const size_t size = 8 + count * (1 + 1 + 3 + sizeof tail - 1) + 1;
    uint8_t *bytes = prove_certain_alloc(NULL, size);
    memset(bytes, 0, 8);
    prove_set_length(bytes, size);
    uint8_t *at = bytes + 8;
    for (size_t i = 0; i < count; i++) {
        memcpy(at, i == 0 ? head : ",\"", 2);
        memcpy(at + 2, prove_colliding + i % PROVE_COLLIDING * 3, 3);
        memcpy(at + 5, tail, sizeof tail - 1);
        at += 5 + sizeof tail - 1;
    }
    *at = '}';
    const coffer_parse_options options = options_for(0, 0);
    prove_whole(bytes, size, &prove_certain_allocator, &options);
    free(bytes);
}

/* ---- many that are not in order ---- */

/* What comes behind 64 tensors of a byte each, the last one's first: what is before them; what begins where one of them does;
   what lies so far away that its offset leaves no space beside it. */
static const char *const prove_last[] = {
    ",\"a\":{\"dtype\":\"U8\",\"shape\":[10],\"data_offsets\":[0,10]}}",
    ",\"a\":{\"dtype\":\"U8\",\"shape\":[11],\"data_offsets\":[10,21]}}",
    ",\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[9223372036854775808,9223372036854775808]}}",
};

static void put_two_digits(uint8_t *at, size_t number)
{
    at[0] = (uint8_t)('0' + number / 10);
    at[1] = (uint8_t)('0' + number % 10);
}

static void prove_many(const char *last)
{
    static const char member[] = ",\"00\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[00,00]}";
    const size_t length = sizeof member - 1;
    const size_t size = 8 + 64 * length + strlen(last);
    uint8_t *bytes = prove_certain_alloc(NULL, size);
    memset(bytes, 0, 8);
    prove_set_length(bytes, size);
    uint8_t *at = bytes + 8;
    //@ loop unroll 64;
    for (size_t i = 0; i < 64; i++) {
        memcpy(at, member, length);
        put_two_digits(at + 2, 73 - i);
        put_two_digits(at + length - 7, 73 - i);
        put_two_digits(at + length - 4, 74 - i);
        at += length;
    }
    memcpy(at, last, strlen(last));
    bytes[8] = '{';
    const coffer_parse_options options = options_for(0, 0);
    prove_whole(bytes, size, &prove_certain_allocator, &options);
    free(bytes);
}

#define PROVE_COUNT(list) (sizeof(list) / sizeof(list)[0])

int main(void)
{
    //@ loop unroll 200;
    for (size_t i = 0; i < PROVE_COUNT(prove_texts); i++) {
        if (prove_is_mine(i)) {
            prove_text(prove_texts[i], i);
        }
    }
    //@ loop unroll 10;
    for (size_t i = 0; i < PROVE_COUNT(prove_growing); i++) {
        if (prove_is_mine(i)) {
            prove_growth(&prove_growing[i]);
        }
    }
    //@ loop unroll 2;
    for (size_t i = 0; i < 2; i++) {
        if (prove_is_mine(PROVE_COUNT(prove_growing) + i)) {
            prove_collisions(PROVE_COLLIDING + i);
        }
    }
    //@ loop unroll 3;
    for (size_t i = 0; i < PROVE_COUNT(prove_last); i++) {
        if (prove_is_mine(PROVE_COUNT(prove_growing) + 2 + i)) {
            prove_many(prove_last[i]);
        }
    }
    return 0;
}
