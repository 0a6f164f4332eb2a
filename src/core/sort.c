/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heapsort: in place, O(n log n) for every input. What is compared lies somewhere in memory, so comparisons are what it costs; an
 * item sinks to the bottom first and climbs from there, which takes one for each level instead of two. A run that is in order is
 * seen first.
 */
#include "sort.h"

#include <string.h>

typedef bool sort_before(const void *ctx, uint32_t a, uint32_t b);

/* Of items that compare equal, the lesser number comes first. */
static bool sort_less(sort_before *before, const void *ctx, uint32_t a, uint32_t b)
{
    return a < b ? !before(ctx, b, a) : before(ctx, a, b);
}

/* Lets items[root] sink to its place in the heap of `count` items. */
static void sort_sink(uint32_t *items, size_t root, size_t count, sort_before *before, const void *ctx)
{
    const uint32_t item = items[root];
    size_t place = root;
    for (size_t child = 2 * place + 1; child < count; child = 2 * place + 1) {
        if (child + 1 < count && sort_less(before, ctx, items[child], items[child + 1])) {
            child++;
        }
        items[place] = items[child];
        place = child;
    }
    while (place > root && sort_less(before, ctx, items[(place - 1) / 2], item)) {
        items[place] = items[(place - 1) / 2];
        place = (place - 1) / 2;
    }
    items[place] = item;
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
