/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting in place, O(n log n) for every input, without recursion on input or memory of its own. */
#ifndef COFFER_CORE_SORT_H
#define COFFER_CORE_SORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Orders items by `before`, a strict weak order; items that are equal in it are ordered by their
 * value. So the result does not depend on how the items came, and a caller whose items count
 * upwards in some order gets a stable sort. `ctx` is handed to `before`.
 */
void coffer__sort(uint32_t *items, size_t count, bool (*before)(const void *ctx, uint32_t a, uint32_t b),
                  const void *ctx);

/*
 * Whether one of `count` items, which are in order, is `wanted`; *found is its place, of several the last one's.
 * `compare` is negative when item `i` comes before what is wanted, 0 when it is that, else positive; `ctx` is handed to
 * it.
 */
bool coffer__find_sorted(size_t count, int (*compare)(const void *ctx, size_t i, const void *wanted), const void *ctx,
                         const void *wanted, size_t *found);

/* Byte order of two strings, a shorter prefix first: negative, 0 or positive. Either may be NULL
   when its length is 0. */
int coffer__compare_names(const char *a, size_t a_len, const char *b, size_t b_len);

#endif
