/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A header's bytes as they come in. Either all of them are here from the beginning, or there is a supply, and then only some
 * are here at a time, in a window that slides over the header: a reader that goes over it once needs no more memory than that,
 * however long the header is. For what does not fit into the window, all that is left can be had at once.
 */
#ifndef COFFER_CORE_INTAKE_H
#define COFFER_CORE_INTAKE_H

#include "coffer.h"

/* Where more of a file comes from, and the memory that it may pass through. */
typedef struct coffer__supply {
    /* Reads the `size` bytes of the file from `offset` on, all of them, or fails. */
    coffer_status (*read)(const void *ctx, uint64_t offset, void *to, size_t size, coffer_error *err);
    const void *ctx;
    uint8_t *window;    /* has the file's first bytes at first */
    size_t window_size; /* 0: do not slide, have all that is left at once */
} coffer__supply;

typedef struct coffer__intake {
    const uint8_t *bytes; /* these are here, … */
    size_t size;
    uint64_t origin;              /* … from this byte of the file on */
    uint64_t end;                 /* of the header, in the file */
    const coffer__supply *supply; /* may be NULL when all is here */
    const coffer_allocator *allocator;
    uint8_t *block; /* with all that was left, once that was wanted */
    size_t block_size;
} coffer__intake;

/* Bytes of the header that are still to come. */
static inline size_t coffer__intake_missing(const coffer__intake *in)
{
    return (size_t)(in->end - in->origin) - in->size;
}

/* Drops the first `done` bytes of what is here, and fills the window up with what is missing, which must be something. */
coffer_status coffer__intake_slide(coffer__intake *in, size_t done, coffer_error *err);
/* Drops the first `done` bytes of what is here, and gets all that is missing. */
coffer_status coffer__intake_rest(coffer__intake *in, size_t done, coffer_error *err);
void coffer__intake_free(coffer__intake *in);

#endif
