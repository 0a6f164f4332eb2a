/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The window over an archive: bytes that were read together because several small reads of them follow. Where each read
 * is a round trip to a server, an archive of a thousand small members would otherwise cost thousands of them.
 *
 *   archive   member | member | member | member | … | directory | end
 *              [head]   [head]   [head]              the ranges that are wanted, one of each member
 *             [ window                ]              read at once, with the gaps between them
 *
 * Gaps are read for nothing, so they are bounded: each by COFFER__ZIP_MAX_GAP, and all of an archive by `spare`.
 */
#ifndef COFFER_ARCHIVE_ZIP_WINDOW_H
#define COFFER_ARCHIVE_ZIP_WINDOW_H

#include "reader.h"

#define COFFER__ZIP_WINDOW ((size_t)128 * 1024)
#define COFFER__ZIP_MAX_GAP ((uint64_t)64 * 1024)

typedef struct coffer__zip_window {
    uint32_t file;  /* its number in the input */
    uint64_t limit; /* the byte of the file that no range reaches past */
    uint64_t at;    /* of its first byte in the file */
    size_t size;    /* bytes that are there */
    uint64_t spare; /* bytes of gaps that may still be read */
    uint8_t bytes[COFFER__ZIP_WINDOW];
} coffer__zip_window;

/* A range of the file. */
typedef struct coffer__zip_range {
    uint64_t at;
    uint64_t size;
} coffer__zip_range;

/* Fills the window with a range of at most COFFER__ZIP_WINDOW bytes. */
coffer_status coffer__zip_window_fill(coffer__zip_window *window, const coffer__input_files *input,
                                      coffer__zip_range range, coffer_error *err);
/* Reads ahead what is `wanted` of member `first` of an archive, and of those after it, below `end`, that lie near it. Does
   nothing when the window has it, or there is nothing to read together. */
coffer_status coffer__zip_window_ahead(coffer__zip_window *window, const coffer__input_files *input, size_t first,
                                       size_t end, coffer__zip_range (*wanted)(const void *archive, size_t member),
                                       const void *archive, coffer_error *err);
/* Reads a range, from the window where that has all of it. */
coffer_status coffer__zip_window_read(const coffer__zip_window *window, const coffer__input_files *input, uint64_t at,
                                      void *bytes, size_t size, coffer_error *err);

#endif
