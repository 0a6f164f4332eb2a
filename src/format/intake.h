/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A header's bytes as they come in. Some of them are here, and a format's reader asks for others: it
 * answers COFFER_NEED_MORE to its caller, and continues when it is called again, with the bytes that it
 * asked for. No function of the caller is called, so the caller may wait for them in any way.
 *
 * A reader that goes over the header once, in a window that slides over it, needs no more memory than
 * that window, however long the header is. For what does not fit into the window, all that is left can
 * be asked for at once.
 *
 *   file      |  frame  |  header ........................................ |  data
 *                           ^ origin          ^ origin + size              ^ end
 *   memory                  [ bytes: here ... )[ to: wanted ... )
 *
 * Always: origin + size <= end, once `end` is known. Every call that answers COFFER_NEED_MORE may move
 * the bytes that are here; pointers into them are stale, and positions count from the new `bytes`.
 */
#ifndef COFFER_FORMAT_INTAKE_H
#define COFFER_FORMAT_INTAKE_H

#include "coffer.h"

typedef struct coffer__intake {
    const uint8_t *bytes; /* the bytes that are here */
    size_t size;
    uint64_t origin; /* the byte of the file at which `bytes` begin */
    uint64_t end;    /* of the header, in the file; the format's reader sets it */
    bool at_once;    /* nothing is read before all of the header is here, and then its bytes stay where they are */
    uint8_t *window; /* has the file's first bytes at first; NULL: do not slide, ask for all that is left at once */
    size_t window_size;
    const coffer_allocator *allocator;
    uint8_t *block; /* with all that was left, once that was wanted */
    size_t block_size;
    uint8_t *to;   /* where the bytes that were asked for go, after those that are here */
    size_t wanted; /* how many bytes were asked for */
} coffer__intake;

/* Bytes of the header that are still to come. */
static inline size_t coffer__intake_missing(const coffer__intake *in)
{
    return (size_t)(in->end - in->origin) - in->size;
}

/*
 * Drops the first `done` bytes of what is here, at least one, and asks for what is missing, as much
 * as fits into the window: COFFER_NEED_MORE. There has to be a window, and something missing.
 * Dropping at least one byte makes space for at least one, so a reader that keeps sliding gets to
 * the end.
 */
coffer_status coffer__intake_slide(coffer__intake *in, size_t done);
/*
 * Drops the first `done` bytes of what is here, and asks for all that is missing: COFFER_NEED_MORE,
 * or COFFER_OK when all is here. Only this allocates: as much as is left of the header, whose
 * length was checked against the limit.
 */
coffer_status coffer__intake_rest(coffer__intake *in, size_t done, coffer_error *err);
/* The bytes that were asked for are here now. Harmless when none were asked for. */
void coffer__intake_given(coffer__intake *in);
void coffer__intake_free(coffer__intake *in);

#endif
