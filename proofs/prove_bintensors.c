/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header parser, whole, for bintensors: from the file's first byte to the table, which is walked and freed. Each of its inputs
 * is a header in which every question mark stands for any byte at all; in both layouts.
 */
#include "prove.h"

typedef struct prove_header {
    const char *bytes;
    size_t size;
} prove_header;

#define PROVE_HEADER(text)                                                                                             \
    {                                                                                                                  \
        text, sizeof(text) - 1                                                                                         \
    }

static const prove_header prove_headers[] = {
    PROVE_HEADER("?"),
    PROVE_HEADER("\0?"),
    PROVE_HEADER("\0\0 ?"),
    PROVE_HEADER("\1\1\1?\1v\0"),
    PROVE_HEADER("\1\2\1k\0\1k\0\0"),
    PROVE_HEADER("\0\1\1a?\1\1\0\1"),
    PROVE_HEADER("\0\1\1a\1\1\1\0?"),
    PROVE_HEADER("\0\1\2\xC3?\1\0\0"),
    PROVE_HEADER("\0\1\1a\x0B\2\2\1\0\x08 "),
    PROVE_HEADER("\0\2\1a\x06\1\0\0\0\1a\1\0\0\1"),
    PROVE_HEADER("\0\1\1a\1\1\xFB?\0\0\1"),
    PROVE_HEADER("\0\1\1a\1\1\xFC\1\0\0\0\0\1"),
    PROVE_HEADER("\0\1\0\1\1\xFD\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\0\1"),
    PROVE_HEADER("\0\1\1\0\0\1\1\1a\0"),
    PROVE_HEADER("\0\1\1\0\0\1\1\1a?"),
    PROVE_HEADER("\0\2\1\0\0\1\1\0\1\2\2\1b\1\1a\0 "),
};

static void prove_parse(const prove_header *header, coffer_format format)
{
    uint8_t *bytes = prove_template(header->bytes, header->size, 8);
    bytes[0] = (uint8_t)header->size;
    coffer_error err;
    coffer_table *table = NULL;
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.format = format;
    options.hidden_bytes = format == COFFER_FORMAT_BINTENSORS_ALPHA;
    if (coffer_parse(&table, NULL, bytes, 8 + header->size, &prove_allocator, &options, &err) == COFFER_OK) {
        for (size_t i = 0; i < coffer_table_count(table); i++) {
            const coffer_tensor *tensor = coffer_table_at(table, i);
            coffer_table_find(table, tensor->name, tensor->name_len);
        }
        coffer_table_metadata_get(table, "absent", 6, NULL);
    }
    coffer_table_free(table);
    free(bytes);
}

int main(void)
{
    //@ loop unroll 100;
    for (size_t i = 0; i < sizeof prove_headers / sizeof prove_headers[0]; i++) {
        prove_parse(&prove_headers[i], COFFER_FORMAT_BINTENSORS);
        prove_parse(&prove_headers[i], COFFER_FORMAT_BINTENSORS_ALPHA);
    }
    return 0;
}
