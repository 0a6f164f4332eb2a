/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slices as text: every text of up to three bytes, texts in which some bytes may be anything, and space for fewer indices than
 * there are.
 */
#include "prove.h"

#include <string.h>

static const char *const prove_texts[] = {
    "[0:10, :, -1, ..., ::2]",
    "...,...",
    "[1,2",
    "1]",
    "[1;",
    "1 2",
    " [ ] ",
    "+",
    "::0",
    "::-",
    ":-9223372036854775808:+9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "1:?:2",
    "[?,..?",
    "-?",
    "1,",
    "[1,]",
};

/* The text with nothing behind it, into `capacity` entries with nothing behind them. */
static void prove_parse(const uint8_t *bytes, size_t size, size_t capacity)
{
    coffer_error err;
    coffer_index *indices = malloc(capacity * sizeof *indices);
    if (indices == NULL) {
        exit(1);
    }
    size_t count = capacity;
    coffer_slice_parse((const char *)bytes, size, indices, &count, &err);
    free(indices);
}

int main(void)
{
    coffer_error err;
    size_t count = 0;
    coffer_slice_parse(NULL, 1, NULL, &count, &err);
    coffer_slice_parse(NULL, 0, NULL, NULL, &err);
    coffer_slice_parse(NULL, 0, NULL, &count, &err);
    //@ loop unroll 4;
    for (size_t size = 1; size <= 2; size++) {
        uint8_t *bytes = prove_still_bytes(size);
        prove_parse(bytes, size, 3);
        free(bytes);
    }
    //@ loop unroll 100;
    for (size_t i = 0; i < sizeof prove_texts / sizeof prove_texts[0]; i++) {
        const size_t size = strlen(prove_texts[i]);
        uint8_t *bytes = prove_template(prove_texts[i], size, 0);
        prove_parse(bytes, size, 5);
        prove_parse(bytes, size, 1);
        free(bytes);
    }
    return 0;
}
