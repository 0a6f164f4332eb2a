/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a file's head as it comes in: a reading is given bytes, and answers which ones it needs next.
 *
 *     coffer__reading_begin(&reading, bytes, size, …);
 *     while ((status = coffer__reading_go_on(&reading, &wish, &table, err)) == COFFER_NEED_MORE) {
 *         … have the wish.size bytes of the file from wish.offset on at wish.to …
 *     }
 *     coffer__reading_free(&reading);
 *
 * Between two calls a reading is at rest: its caller may return, wait for an answer of a network, and
 * continue later, in another thread if it likes. It does no I/O, and calls nothing of the caller's but
 * the allocator. */
#ifndef COFFER_FORMAT_PARSE_H
#define COFFER_FORMAT_PARSE_H

#include "format.h"

/* Which bytes of the file are needed, and where in memory. `size` is at least 1. */
typedef struct coffer__wish {
    uint64_t offset;
    uint8_t *to;
    size_t size;
} coffer__wish;

typedef struct coffer__reading {
    coffer__intake in;
    coffer_parse_options options;
    coffer_format number; /* COFFER_FORMAT_ANY before the first step */
    const coffer__format_ops *format;
    union {
        uint64_t number;
        void *pointer;
        uint8_t bytes[COFFER__READER_SIZE];
    } reader; /* the format's; aligned for anything in it */
} coffer__reading;

/*
 * Begins with the first `size` bytes of the file, at least 16 unless the file is shorter: formats
 * are told by them. They stay where they are until the first wish, the allocator until the end.
 * Fails when the options are wrong; every reading has to be ended, also one that failed.
 */
coffer_status coffer__reading_begin(coffer__reading *reading, const void *bytes, size_t size,
                                    const coffer_allocator *allocator, const coffer_parse_options *options,
                                    coffer_error *err);
/*
 * Lets a header come in piece by piece: the bytes that it began with lie at the start of a window,
 * of `window_size` bytes, through which the others may pass. Without a window all that is missing
 * is wished for at once.
 */
void coffer__reading_slide(coffer__reading *reading, uint8_t *window, size_t window_size);
/* COFFER_NEED_MORE and *wish, all of which has to be there before the next call; or how the reading
   ended: COFFER_OK and *table, which is the caller's, or a failure. */
coffer_status coffer__reading_go_on(coffer__reading *reading, coffer__wish *wish, coffer_table **table,
                                    coffer_error *err);
/* Frees what the reading has but its table. The caller's window stays the caller's. */
void coffer__reading_free(coffer__reading *reading);

/* coffer_parse with an allocator that is not NULL. */
coffer_status coffer__parse_header(coffer_table **table, uint64_t *need, const void *bytes, size_t size,
                                   const coffer_allocator *allocator, const coffer_parse_options *options,
                                   coffer_error *err);

#endif
