/* SPDX-License-Identifier: Apache-2.0 */
/* A header that is not in memory as a whole: it comes through a window, which slides over it, or stays where it begins. */
#ifndef COFFER_PROOFS_PROVE_WINDOW_H
#define COFFER_PROOFS_PROVE_WINDOW_H

#include "parse.h"
#include "prove.h"

/* What the window looks at. */
static const uint8_t *prove_behind;
static size_t prove_behind_size;
static size_t prove_fail_at; /* so many reads are granted before the one that fails */

static coffer_status prove_read(const coffer__wish *wish)
{
    //@ assert wish->offset <= prove_behind_size && wish->size <= prove_behind_size - wish->offset;
    if (prove_fail_at-- == 0) {
        return COFFER_ERR_IO;
    }
    memcpy(wish->to, prove_behind + wish->offset, wish->size);
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
    coffer__reading reading;
    coffer__wish wish;
    coffer_error err;
    coffer_table *table = NULL;
    coffer_status status = coffer__reading_begin(&reading, window, here, allocator, options, &err);
    if (slides) {
        coffer__reading_slide(&reading, window, window_size);
    }
    //@ loop unroll 200;
    while (status == COFFER_OK && coffer__reading_go_on(&reading, &wish, &table, &err) == COFFER_NEED_MORE) {
        status = prove_read(&wish);
    }
    coffer__reading_free(&reading);
    coffer_table_free(table);
    free(window);
}

#endif
