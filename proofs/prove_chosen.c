/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header parser once more, on headers without an unknown byte: they are cheap, so there are many, each chosen for
 * statements that prove_parse.c does not come to. Each is read whole, and through windows that slide or stay. Memory is always
 * to be had here.
 */
#include "prove.h"

#include "format.h"

#include <string.h>

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
    "{\"a\":{ \"x\":123456789012345678901234567890.5e280}}",
    /* metadata */
    "{\"__metadata__\":{\"k\":\"v\",\"a\":\"\\n\"},\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
    "{\"__metadata__\":{\"k\" \"v\"}}",
    "{\"__metadata__\":{\"k\":\"v}}",
    "{\"__metadata__\":{\"k:\"v\"}}",
    "{\"__metadata__\":{k:1}}",
    "{\"__metadata__\":{\"k\":\"v\" \"l\":\"w\"}}",
    "{\"__metadata__\":\"\"}",
    /* more than the table's first size holds */
    "{\"a\":{ "
    "\"dtype\":\"U8\",\"data_offsets\":[0,1],\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
    "1,1,1,1,"
    "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
    "1,1,1,1,1,"
    "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}}",
    /* behind the closing brace, and before the opening one */
    "{}  \n ",
    "{} x",
    "  {}",
    "[]",
    "{1}",
};

/* ---- memory that is always there ---- */

static void *certain_alloc(void *ctx, size_t size)
{
    void *block = prove_alloc(ctx, size);
    if (block == NULL) {
        exit(1);
    }
    return block;
}

static void *certain_realloc(void *ctx, void *block, size_t old_size, size_t new_size)
{
    unsigned char *moved = certain_alloc(ctx, new_size);
    memcpy(moved, block, old_size < new_size ? old_size : new_size);
    prove_free(ctx, block, old_size);
    return moved;
}

static const coffer_allocator certain_allocator = { certain_alloc, certain_realloc, prove_free, NULL };

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
    coffer_table_data_offset(table);
    coffer_table_data_size(table);
    coffer_table_slack(table);
}

/* ---- ways to read it ---- */

static coffer_parse_options options_for(size_t i, uint64_t file_size)
{
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.all_notes = true;
    options.unknown_dtypes = (i & 1) == 0;
    options.file_size = file_size;
    options.format = COFFER_FORMAT_SAFETENSORS;
    return options;
}

static void prove_whole(const uint8_t *bytes, size_t size, const coffer_parse_options *options)
{
    coffer_error err;
    coffer_table *table = NULL;
    if (coffer_parse(&table, NULL, bytes, size, &certain_allocator, options, &err) == COFFER_OK) {
        prove_walk(table);
    }
    coffer_table_free(table);
}

static const uint8_t *prove_file;
static size_t prove_file_size;
static size_t prove_fail_at;

static coffer_status prove_read(const void *ctx, uint64_t offset, void *to, size_t size, coffer_error *err)
{
    (void)ctx;
    (void)err;
    //@ assert offset <= prove_file_size && size <= prove_file_size - offset;
    if (prove_fail_at-- == 0) {
        return COFFER_ERR_IO;
    }
    memcpy(to, prove_file + offset, size);
    return COFFER_OK;
}

static void prove_window(const uint8_t *bytes, size_t size, size_t window_size, bool slides, size_t fail_at,
                         const coffer_parse_options *options)
{
    const size_t here = size < window_size ? size : window_size;
    uint8_t *window = certain_alloc(NULL, window_size);
    memcpy(window, bytes, here);
    prove_file = bytes;
    prove_file_size = size;
    prove_fail_at = fail_at;
    const coffer__supply supply = { prove_read, NULL, window, slides ? window_size : 0 };
    coffer_error err;
    coffer_table *table = NULL;
    coffer__parse_supplied(&table, NULL, window, here, &supply, &certain_allocator, options, &err);
    coffer_table_free(table);
    free(window);
}

static void prove_text(const char *text, size_t i)
{
    const size_t size = 8 + strlen(text);
    uint8_t *bytes = prove_template(text, size - 8, 8);
    bytes[0] = (uint8_t)(size - 8);
    bytes[1] = (uint8_t)((size - 8) >> 8);
    const coffer_parse_options options = options_for(0, 0);
    const coffer_parse_options strict = options_for(1, size + i % 3);
    prove_whole(bytes, size, &options);
    prove_whole(bytes, size, &strict);
    prove_window(bytes, size, 40, true, 1000, &options);
    if (i % 3 == 0) {
        prove_window(bytes, size, 9, true, 1000, &options);
    } else {
        prove_window(bytes, size, 60, i % 3 == 1, i % 3 == 1 ? 0 : 1000, &options);
    }
    free(bytes);
}

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
    uint8_t *bytes = certain_alloc(NULL, size);
    memset(bytes, 0, 8);
    bytes[0] = (uint8_t)(size - 8);
    bytes[1] = (uint8_t)((size - 8) >> 8);
    uint8_t *at = bytes + 8;
    for (size_t i = 0; i < count; i++) {
        memcpy(at, i == 0 ? head : ",\"", 2);
        memcpy(at + 2, prove_colliding + i % PROVE_COLLIDING * 3, 3);
        memcpy(at + 5, tail, sizeof tail - 1);
        at += 5 + sizeof tail - 1;
    }
    *at = '}';
    const coffer_parse_options options = options_for(0, 0);
    prove_whole(bytes, size, &options);
    free(bytes);
}

#ifndef PROVE_FROM
#define PROVE_FROM 0
#define PROVE_TO 1000
#endif

int main(void)
{
    //@ loop unroll 100;
    for (size_t i = PROVE_FROM; i < PROVE_TO && i < sizeof prove_texts / sizeof prove_texts[0]; i++) {
        prove_text(prove_texts[i], i);
    }
    prove_collisions(PROVE_COLLIDING);
    prove_collisions(PROVE_COLLIDING + 1);
    return 0;
}
