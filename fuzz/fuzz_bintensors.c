/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes coffer_parse with headers of bintensors, in both layouts. The input is a file, whole; the first byte of its header's
 * length also chooses the options, as in fuzz_parse. What is accepted must hold what the API promises, and can be written
 * anew as either format.
 */
#define _DEFAULT_SOURCE /* guarded.h */

#include "coffer.h"
#include "fuzz_table.h"
#include "guarded.h"

#define PROMISED_FACTOR 24 /* times the input's size is what a parse may hold at most */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static coffer_parse_options options_of(uint8_t first, size_t size)
{
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.file_size = (first & 0x01) != 0 ? 0 : size;
    options.all_notes = (first & 0x02) != 0;
    options.hidden_bytes = (first & 0x04) != 0;
    return options;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    const uint8_t *bytes = guarded_copy(input, size);
    if (bytes == NULL) {
        return 0;
    }
    coffer_parse_options options = options_of(size > 0 ? bytes[0] : 0, size);
    options.format = COFFER_FORMAT_BINTENSORS;
    check_parse(bytes, size, &options, PROMISED_FACTOR);
    options.format = COFFER_FORMAT_BINTENSORS_ALPHA;
    check_parse(bytes, size, &options, PROMISED_FACTOR);
    return 0;
}
