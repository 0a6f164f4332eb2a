/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of ranges [begin, end) that do not overlap: which bytes of a file were written. Ranges that touch become one,
 * so bytes that come in order cost one range however many pieces they are, and memory grows only with the number of
 * gaps. A skip list: adding takes O(log n) on average for any order, and what is allocated is one node for a range.
 */
#ifndef COFFER_WRITE_SPANS_H
#define COFFER_WRITE_SPANS_H

#include "coffer.h"

#define COFFER__SPANS_LEVELS 20 /* each has about a quarter of the nodes of the one below */

typedef struct coffer__span coffer__span;

typedef struct coffer__spans {
    coffer_allocator allocator;
    uint64_t seed;
    coffer__span *first[COFFER__SPANS_LEVELS];
} coffer__spans;

void coffer__spans_init(coffer__spans *spans, const coffer_allocator *allocator);
void coffer__spans_free(coffer__spans *spans);
/* Adds a range that is not empty. COFFER_ERR_WRITE_RANGE when a byte of it is in the set already, COFFER_ERR_MEMORY; in
   both cases the set is unchanged. It fills no error: the caller knows more. */
coffer_status coffer__spans_add(coffer__spans *spans, uint64_t begin, uint64_t end);
/* The first byte from `begin` on that is not in the set; `begin` must not lie after the start of the set's first
   range. */
uint64_t coffer__spans_gap(const coffer__spans *spans, uint64_t begin);
/* Bytes of [begin, end) that are in the set. Takes as long as there are ranges before `end`. */
uint64_t coffer__spans_covered(const coffer__spans *spans, uint64_t begin, uint64_t end);

#endif
