/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quicksort, with heapsort for inputs that somebody has made so that they split badly: in place,
 * O(n log n) for every input. qsort of libc is not used: this room does without libc, and qsort has no
 * context and no bound on its time or its memory.
 *
 * What is compared lies somewhere in memory, so waiting for it is what comparisons cost. Quicksort
 * compares one item after the other with the same one, and the processor fetches many at once; heapsort
 * looks at the next item only when it knows the result of the comparison before. That is why heapsort is
 * only the last resort. Input that is in order already, which is usual, is recognised first.
 */
#include "sort.h"

#include <string.h>

/* Ranges of at most so many items are sorted by insertion: for them it needs the fewest steps. */
#define SORT_FEW 12
/*
 * Ranges that may wait at once. The longer part of a split waits and the shorter one is split next,
 * so each range that waits is at least as long as all that is sorted before its turn: there are at
 * most as many as a size has bits.
 */
#define SORT_WAITING (sizeof(size_t) * 8)

typedef bool sort_before(const void *ctx, uint32_t a, uint32_t b);

/* Items from `begin` up to `end`, which is one past the last. */
typedef struct sort_range {
    size_t begin;
    size_t end;
} sort_range;

/* `before`, made a total order: of items that compare equal, the lesser number comes first. One
   call decides: the lesser number comes first unless the other one is before it. */
static bool sort_less(sort_before *before, const void *ctx, uint32_t a, uint32_t b)
{
    return a < b ? !before(ctx, b, a) : before(ctx, a, b);
}

/*
 * Lets items[root] sink to its place in the heap of `count` items, whose largest is at the top. The
 * hole goes down to a leaf first, always along the larger child, and the item then climbs from
 * there. It came from a leaf, so it mostly belongs near one: this takes about half the comparisons
 * of comparing it at every step down.
 */
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

/* Makes a heap, then moves its largest item to the place that gets free after it, until it is
   empty. Not called for 0 items: `count - 1` would wrap. */
static void sort_by_heap(uint32_t *items, size_t count, sort_before *before, const void *ctx)
{
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

static void sort_by_insertion(uint32_t *items, size_t count, sort_before *before, const void *ctx)
{
    for (size_t i = 1; i < count; i++) {
        const uint32_t item = items[i];
        size_t place = i;
        for (; place > 0 && sort_less(before, ctx, item, items[place - 1]); place--) {
            items[place] = items[place - 1];
        }
        items[place] = item;
    }
}

static void sort_swap(uint32_t *items, size_t a, size_t b)
{
    const uint32_t item = items[a];
    items[a] = items[b];
    items[b] = item;
}

/* Which of three places has the item that is neither the least nor the largest. A median of three
   makes bad splits rare; the budget bounds those that somebody constructs. */
static size_t sort_middle_of(const uint32_t *items, size_t a, size_t b, size_t c, sort_before *before, const void *ctx)
{
    const size_t less = sort_less(before, ctx, items[b], items[a]) ? b : a;
    const size_t more = less == a ? b : a;
    if (sort_less(before, ctx, items[c], items[less])) {
        return less;
    }
    return sort_less(before, ctx, items[c], items[more]) ? c : more;
}

/*
 * Splits more than SORT_FEW items by one of them: those before its final place, which is returned,
 * are not greater, and those after it are not less.
 *
 * Hoare's scheme: the chosen item waits at place 0; `low` and `high` approach each other and swap
 * what is on the wrong side. `low` needs its bound, since nothing may be greater than the chosen
 * item; `high` stops at place 0 at the latest.
 */
static size_t sort_split(uint32_t *items, size_t count, sort_before *before, const void *ctx)
{
    /* The candidates are not at the ends: where a range was in order before an outer split, that
       split has put the largest or the least there. */
    const size_t half = count / 2;
    sort_swap(items, 0, sort_middle_of(items, half / 2, half, half + half / 2, before, ctx));
    const uint32_t chosen = items[0];
    size_t low = 0;
    size_t high = count;
    for (;;) {
        do {
            low++;
        } while (low < count && sort_less(before, ctx, items[low], chosen));
        do {
            high--;
        } while (high > 0 && sort_less(before, ctx, chosen, items[high]));
        if (low >= high) {
            sort_swap(items, 0, high);
            return high;
        }
        sort_swap(items, low, high);
    }
}

/*
 * Splits a range until few items are left of it, or until the budget does not allow another split;
 * the longer part waits each time. *range becomes what is left. Returns how many ranges were added
 * to `waiting`. *budget is how many items may still be looked at by splits.
 */
static size_t sort_split_all(uint32_t *items, sort_range *range, sort_range *waiting, uint64_t *budget,
                             sort_before *before, const void *ctx)
{
    size_t count = 0;
    while (range->end - range->begin > SORT_FEW && range->end - range->begin <= *budget) {
        *budget -= range->end - range->begin;
        const size_t at = range->begin + sort_split(items + range->begin, range->end - range->begin, before, ctx);
        const bool first = at - range->begin > range->end - at;
        waiting[count++] = first ? (sort_range){ range->begin, at } : (sort_range){ at + 1, range->end };
        *(first ? &range->begin : &range->end) = first ? at + 1 : at;
    }
    return count;
}

/*
 * How many items all splits together may look at before the rest is left to the heap: twice what
 * halving takes. Good choices take about 1.4 times as many as halving does, so only an input made
 * for it uses up the budget; then the sum of both ways is still O(n log n).
 */
static uint64_t sort_budget(size_t count)
{
    uint64_t budget = 0;
    for (size_t rest = count; rest > 0; rest /= 2) {
        budget += 2 * (uint64_t)count;
    }
    return budget;
}

void coffer__sort(uint32_t *items, size_t count, sort_before *before, const void *ctx)
{
    /* Headers list tensors in the order of their data, and keys are often sorted: then this pass is
       all. */
    size_t ordered = 1;
    while (ordered < count && sort_less(before, ctx, items[ordered - 1], items[ordered])) {
        ordered++;
    }
    if (ordered >= count) {
        return;
    }
    sort_range waiting[SORT_WAITING] = { { 0, count } };
    uint64_t budget = sort_budget(count);
    for (size_t held = 1; held > 0;) {
        sort_range range = waiting[--held];
        held += sort_split_all(items, &range, waiting + held, &budget, before, ctx);
        const size_t left = range.end - range.begin;
        (left > SORT_FEW ? sort_by_heap : sort_by_insertion)(items + range.begin, left, before, ctx);
    }
}

int coffer__compare_names(const char *a, size_t a_len, const char *b, size_t b_len)
{
    const size_t shorter = a_len < b_len ? a_len : b_len;
    const int order = shorter > 0 ? memcmp(a, b, shorter) : 0; /* a name of no bytes may be NULL */
    return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

/* Ends at the first item that comes after what is wanted, so the one before it is the only one to ask. */
bool coffer__find_sorted(size_t count, int (*compare)(const void *ctx, size_t i, const void *wanted), const void *ctx,
                         const void *wanted, size_t *found)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare(ctx, middle, wanted) <= 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *found = low > 0 ? low - 1 : 0;
    return low > 0 && compare(ctx, low - 1, wanted) == 0;
}
