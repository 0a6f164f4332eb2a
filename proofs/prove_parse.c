/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header parser, whole: from the file's first byte to the table, which is walked and freed. Each of its inputs is a
 * header in which every question mark stands for any byte at all.
 */
#include "format.h"
#include "parse.h"
#include "prove.h"

#include <stddef.h>
#include <string.h>

static const char *const prove_texts[] = {
    "{}",
    "?",
    "{x",
    "{}?",
    " {\"x",
    "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]}}",
    "{\"\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"I16\",\"shape\":[1],\"data_"
    "offsets\":[4,6]}}",
    "{\"__metadata__\":{\"a\":\"b\",\"c\":\"b\"},\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
    "{\"__metadata__\":null}",
    "{\"__metadata__\":1}",
    "{\"__metadata__\":null,\"__metadata__\":{}}",
    "{\"a\":{\"dtype\":\"?4\",\"shape\":[2],\"data_offsets\":[0,1]}}",
    "{\"a\":{ \"shape\":[1,1],\"data_offsets\":[0,1],\"dtype\":\"U8\"}}",
    "{\"a\":{\"dtype\":\"XXXX\",\"shape\":[1,2,3,4,5,6,7,8,9,10,11],\"data_offsets\":[0,100]}}",
    "{\"a\":{ \"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":{\"a\":1,\"b\":2},\"y\":[1,{}]}}",
    "{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]},\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_"
    "offsets\":[0,1]}}",
    "{\"a\":{ \"shape\":[18446744073709551615,2],\"data_offsets\":[0,1],\"dtype\":\"U8\"}}",
    "{\"a\":{ \"shape\":[1],\"data_offsets\":[1,0],\"dtype\":\"U8\"}}",
    "{\"a\":{ \"shape\":[1],\"data_offsets\":[1,0],\"dtype\":\"U8\",\"dtype\":1}}",
    "{\"a\":{ \"data_offsets\":[1,2,3]}}",
    "{\"a\":{ \"data_offsets\":[],\"dtype\":1}}",
    "{\"a\":{ \"data_offsets\" :[]}}",
    "{\"a\":{ \"shape\":{}}}",
    "{\"a\":1}",
    "{\"a\":{ \"shape\":[],\"dtype\":1}}",
    "{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
    "{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\",\"a\":\"3\"}}",
    "{\"__metadata__\":{\"a\":1}}",
    "{\"__metadata__\":{}}",
    "{\"A\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_"
    "offsets\":[1,2]}}",
    "{\"\\u0001\":{}}",
    "{\"a\":{}}",
};

static void prove_walk(const coffer_table *table)
{
    for (size_t i = 0; i < coffer_table_count(table); i++) {
        const coffer_tensor *tensor = coffer_table_at(table, i);
        coffer_table_find(table, tensor->name, tensor->name_len);
        coffer_tensor_dtype_name(tensor);
        coffer_tensor_elements(tensor);
    }
    for (size_t i = 0; i < coffer_table_metadata_count(table); i++) {
        coffer_pair pair;
        coffer_table_metadata_at(table, i, &pair);
        coffer_table_metadata_get(table, pair.key, pair.key_len, NULL);
    }
    coffer_table_find(table, "absent", 6);
    coffer_table_metadata_get(table, "absent", 6, NULL);
    coffer_table_note(table, COFFER_NOTE_CASE);
}

static void prove_text(const char *text)
{
    const size_t size = strlen(text);
    uint8_t *bytes = prove_template(text, size, 8);
    bytes[0] = (uint8_t)size;
    coffer_error err;
    coffer_table *table = NULL;
    uint64_t need = 0;
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.unknown_dtypes = true;
    options.format = COFFER_FORMAT_SAFETENSORS;
    options.all_notes = true;
    if (coffer__parse_header(&table, &need, bytes, 8 + size, &prove_allocator, &options, &err) == COFFER_OK) {
        prove_walk(table);
    }
    coffer_table_free(table);
    free(bytes);
}

/* Lengths that cannot be, files that stop early. */
static void prove_frame(uint8_t low, uint8_t high, size_t size, uint64_t file_size)
{
    coffer_error err;
    coffer_table *table = NULL;
    uint64_t need = 0;
    uint8_t bytes[12] = { low, 0, 0, 0, 0, 0, 0, high, '{', '}', 'x', 'x' };
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.file_size = file_size;
    options.format = COFFER_FORMAT_SAFETENSORS;
    coffer__parse_header(&table, &need, bytes, size, &prove_allocator, &options, &err);
    coffer_table_free(table);
}

static void prove_frames(void)
{
    coffer_error err;
    coffer_table *table = NULL;
    prove_frame(0, 0, 12, 0);
    prove_frame(0, 1, 12, 0);
    prove_frame(2, 0, 4, 0);
    prove_frame(2, 0, 9, 0);
    prove_frame(2, 0, 4, 4);
    prove_frame(2, 0, 12, 9);
    prove_frame(2, 0, 12, 10);
    prove_frame(2, 0, 12, 11);
    coffer__parse_header(&table, NULL, NULL, 1, &prove_allocator, NULL, &err);
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.struct_size = 0;
    coffer__parse_header(&table, NULL, "", 1, &prove_allocator, &options, &err);
    options.struct_size = sizeof options;
    options.max_header_size = UINT64_MAX;
    coffer__parse_header(&table, NULL, "", 1, &prove_allocator, &options, &err);
}

/* Other files, and nothing that is a file. */
static void prove_other(const char *file, size_t size, uint64_t file_size)
{
    coffer_error err;
    coffer_table *table = NULL;
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.file_size = file_size;
    options.max_header_size = 1000;
    coffer__parse_header(&table, NULL, file, size, &prove_allocator, &options, &err);
    coffer_table_free(table);
}

static void prove_others(void)
{
    coffer_error err;
    coffer_table *table = NULL;
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    prove_other("", 0, 4);
    prove_other("GGUF", 4, 4);
    prove_other("abcd", 4, 4);
    prove_other("GGUF\3\0\0\0\0\0\0\0", 12, 12);
    prove_other("abcdefgh{}", 10, 10);
    prove_other("\xFF\0\0\0\0\0\0\0x}", 10, 10);
    prove_other("\xFF\0\0\0\0\0\0\0", 8, 10);
    coffer__parse_header(NULL, NULL, "", 1, &prove_allocator, NULL, &err);
    coffer__parse_header(&table, NULL, NULL, 0, &prove_allocator, NULL, &err);
    /* of a caller who was built before the last options came */
    options.struct_size = offsetof(coffer_parse_options, unknown_dtypes);
    coffer__parse_header(&table, NULL, "", 1, &prove_allocator, &options, &err);
    options.struct_size = sizeof options;
    options.format = (coffer_format)99;
    coffer__parse_header(&table, NULL, "", 1, &prove_allocator, &options, &err);
}

/* The table of formats, by numbers, identifiers and paths; also of formats that there are not. */
static void prove_formats(void)
{
    //@ loop unroll 6;
    for (int number = -1; number < 5; number++) {
        const coffer_format format = (coffer_format)number;
        const char *id = coffer_format_id(format);
        coffer_format_name(format);
        coffer_format_from_id(id, strlen(id));
        coffer_format_to_write(format);
        const char *ending = coffer_format_ending(format, 0);
        for (size_t i = 0; i < 5; i++) {
            coffer_format_ending(format, i);
        }
        coffer_format_from_path(ending != NULL ? ending : "");
    }
    coffer_format_from_id("safetensor", 10);
    coffer_format_from_path("model.safetensors");
    coffer_format_from_path("model.bintensors");
    coffer_format_from_path("model");
}

int main(void)
{
    if (prove_is_mine(0)) {
        prove_frames();
        prove_others();
        prove_formats();
    }
    //@ loop unroll 100;
    for (size_t i = 0; i < sizeof prove_texts / sizeof prove_texts[0]; i++) {
        if (prove_is_mine(i)) {
            prove_text(prove_texts[i]);
        }
    }
    return 0;
}
