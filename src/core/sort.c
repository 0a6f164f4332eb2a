/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heapsort: in place, O(n log n) for every input. What is sorted here is either short (metadata), nearly always in order
 * already and then not sorted at all (offsets), or asked for by the caller (names); a run that is in order is seen first.
 */
#include "sort.h"

#include <string.h>

typedef bool sort_before(const void *ctx, uint32_t a, uint32_t b);

static bool sort_less(sort_before *before, const void *ctx, uint32_t a, uint32_t b)
{
    return before(ctx, a, b) || (!before(ctx, b, a) && a < b);
}

/* Lets items[root] sink to its place in the heap of `count` items. */
static void sort_sink(uint32_t *items, size_t root, size_t count, sort_before *before, const void *ctx)
{
    const uint32_t item = items[root];
    for (size_t child = 2 * root + 1; child < count; child = 2 * root + 1) {
        if (child + 1 < count && sort_less(before, ctx, items[child], items[child + 1])) {
            child++;
        }
        if (!sort_less(before, ctx, item, items[child])) {
            break;
        }
        items[root] = items[child];
        root = child;
    }
    items[root] = item;
}

void coffer__sort(uint32_t *items, size_t count, sort_before *before, const void *ctx)
{
    size_t ordered = 1;
    while (ordered < count && sort_less(before, ctx, items[ordered - 1], items[ordered])) {
        ordered++;
    }
    if (ordered >= count) {
        return;
    }
    for (size_t root = count / 2; root > 0; root--) {
        sort_sink(items, root - 1, count, before, ctx);
    }
    for (size_t last = count - 1; last > 0; last--) {
        const uint32_t largest = items[0];
        items[0] = items[last];
        items[last] = largest;
        sort_sink(items, 0, last, before, ctx);
    }
}

int coffer__compare_names(const char *a, size_t a_len, const char *b, size_t b_len)
{
    const int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}
