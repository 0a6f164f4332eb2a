/* SPDX-License-Identifier: Apache-2.0 */
/* A header that is not in memory as a whole: it comes through a window, which slides over it, or stays where it begins. */
#ifndef COFFER_PROOFS_PROVE_WINDOW_H
#define COFFER_PROOFS_PROVE_WINDOW_H

#include "format.h"
#include "prove.h"

/* What the window looks at. */
static const uint8_t *prove_behind;
static size_t prove_behind_size;
static size_t prove_fail_at; /* so many reads are granted before the one that fails */

static coffer_status prove_read(const void *ctx, uint64_t offset, void *to, size_t size, coffer_error *err)
{
    (void)ctx;
    (void)err;
    //@ assert offset <= prove_behind_size && size <= prove_behind_size - offset;
    if (prove_fail_at-- == 0) {
        return COFFER_ERR_IO;
    }
    memcpy(to, prove_behind + offset, size);
    return COFFER_OK;
}

static void prove_window(const uint8_t *bytes, size_t size, size_t window_size, bool slides, size_t fail_at,
                         const coffer_allocator *allocator, const coffer_parse_options *options)
{
    const size_t here = size < window_size ? size : window_size;
    uint8_t *window = prove_certain_alloc(NULL, window_size);
    memcpy(window, bytes, here);
    prove_behind = bytes;
    prove_behind_size = size;
    prove_fail_at = fail_at;
    const coffer__supply supply = { prove_read, NULL, window, slides ? window_size : 0 };
    coffer_error err;
    coffer_table *table = NULL;
    coffer__parse_supplied(&table, NULL, window, here, &supply, allocator, options, &err);
    coffer_table_free(table);
    free(window);
}

#endif
