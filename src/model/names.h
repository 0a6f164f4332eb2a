/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An index over names that lie elsewhere: items 0 to count - 1, each with a name that a function
 * returns. Look-ups take constant time. For names that were made to collide the index is a sorted
 * list, and look-ups take logarithmic time, so a hostile file cannot make them slow.
 */
#ifndef COFFER_MODEL_NAMES_H
#define COFFER_MODEL_NAMES_H

#include "coffer.h"

#define COFFER__NO_NAME UINT32_MAX

typedef struct coffer__name {
    /* Bytes, which need not be UTF-8 and have no NUL unless it is said. Borrowed. */
    const char *text;
    size_t len;
} coffer__name;

typedef struct coffer__names {
    const coffer_allocator *allocator;
    coffer__name (*name_of)(const void *ctx, uint32_t item);
    const void *ctx;
    size_t count;
    size_t slot_count; /* a power of two; 0: sorted */
    uint64_t *slots;   /* the hash in the high half, the item + 1 in the low one; 0 is empty */
    uint32_t *sorted;  /* items in byte order of their names */
} coffer__names;

/* Indexes the items. *twice becomes the lowest item that has the name of an earlier one, or
   COFFER__NO_NAME if all names differ. names->allocator, name_of, ctx and count are set by the
   caller; the rest is zero. coffer__names_free follows in any case. */
coffer_status coffer__names_build(coffer__names *names, uint32_t *twice, coffer_error *err);
/* The item of a name (of several, the first); COFFER__NO_NAME when there is none. */
uint32_t coffer__names_find(const coffer__names *names, const char *name, size_t name_len);
void coffer__names_free(coffer__names *names);

#endif
