/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes coffer_parse. The input is a file, whole; its first byte (of the header's length, so that every vector is a
 * seed) also chooses the options. It lies at the edge of what may be touched. What is accepted must hold what the API
 * promises: an exact cover of the data, names that are found, orders that are orders, and a header that can be
 * written anew and read back as the same tensors. A header that comes through a small window is the same, or wrong in the
 * same way. Memory is counted.
 */
#define _DEFAULT_SOURCE /* guarded.h */

#include "coffer.h"
#include "fuzz_table.h"
#include "guarded.h"

#define PROMISED_FACTOR 8 /* times the input's size is what a parse may hold at most */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* ---- the target ---- */

/* Padding makes the low three bits of most lengths 0, so these are taken from the others. */
static coffer_parse_options options_of(uint8_t first, size_t size)
{
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.file_size = (first & 0x08) != 0 ? 0 : size;
    options.all_notes = (first & 0x10) != 0;
    options.unknown_dtypes = (first & 0x20) != 0;
    options.max_header_size = (first & 0x40) != 0 ? 4096 : 0;
    options.loose_metadata = (first & 0x80) != 0;
    options.format = COFFER_FORMAT_SAFETENSORS;
    return options;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    const uint8_t *bytes = guarded_copy(input, size);
    if (bytes == NULL) {
        return 0;
    }
    const coffer_parse_options options = options_of(size > 0 ? bytes[0] : 0, size);
    check_parse(bytes, size, &options, PROMISED_FACTOR);
    return 0;
}
