/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cursor, integers, checked arithmetic, scanning, hashing: every content of up to BYTES_MAX bytes, every number. Arrays that grow,
 * where memory may run out; and what is sought in order, or put in order by the heap.
 */
#include "alloc.h"
#include "bytes.h"
#include "checked.h"
#include "prove.h"
#include "scan.h"
#include "sort.h"
#include "table.h"

#define BYTES_MAX 18

static void prove_checked(void)
{
    uint64_t result = 0;
    coffer__add_u64(prove_u64(), prove_u64(), &result);
    coffer__mul_u64(prove_u64(), prove_u64(), &result);
    coffer__round_up_u64(prove_u64(), UINT64_C(1) << prove_size(0, 63), &result);
}

static void prove_numbers(void)
{
    uint8_t *bytes = prove_bytes(8);
    uint64_t value = 0;
    coffer__store_u64le(bytes, coffer__load_u64le(bytes));
    const size_t digits = coffer__leading_digits(bytes, &value);
    //@ assert digits <= 8;
}

static void prove_cursor(size_t size)
{
    const coffer__cursor in = { prove_bytes(size), size, prove_each(0, size) };
    const size_t left = coffer__left(&in);
    //@ assert left <= size;
    coffer__next_is(&in, "\"shape\":[", 9);
}

static void prove_scan(size_t size)
{
    const size_t plain = coffer__scan_plain(prove_bytes(size), size);
    //@ assert plain <= size;
}

static void prove_texts(size_t size)
{
    const char *a = (const char *)prove_bytes(size);
    const char *b = (const char *)prove_bytes(size);
    coffer__compare_names(a, size, b, size / 2);
    coffer__hash_name(a, size);
}

static void *prove_no_alloc(void *ctx, size_t size)
{
    (void)ctx;
    (void)size;
    return NULL;
}

static const coffer_allocator prove_nothing_allocator = { prove_no_alloc, NULL, NULL, NULL };

/* Arrays of any number of items, which have no memory or too many bytes; and one that grows item by item. */
static void prove_arrays(void)
{
    coffer_error err;
    size_t capacity = (size_t)prove_u64();
    const size_t size = prove_each(1, 3);
    coffer__grow_array(&prove_nothing_allocator, NULL, capacity, &capacity, size, &err);
    coffer__free_array(&prove_allocator, coffer__alloc_array(&prove_allocator, prove_each(0, 3), size, &err), 3, size);
    coffer__alloc_array(&prove_allocator, SIZE_MAX, 2, &err);
    capacity = 0;
    coffer__grow_array(&prove_nothing_allocator, NULL, 0, &capacity, SIZE_MAX, &err);
    capacity = 2;
    coffer__grow_array(&prove_nothing_allocator, NULL, 2, &capacity, SIZE_MAX, &err);
    uint8_t *items = NULL;
    capacity = 0;
    //@ loop unroll 40;
    for (size_t count = 0; count < 40; count++) {
        uint8_t *grown = coffer__grow_array(&prove_allocator, items, count, &capacity, size, &err);
        if (grown == NULL) {
            break;
        }
        items = grown;
        items[count * size + size - 1] = 1;
    }
    coffer__free(&prove_allocator, items, capacity * size);
}

static int prove_compare(const void *ctx, size_t i, const void *wanted)
{
    (void)wanted;
    //@ assert i < *(const size_t *)ctx;
    return (int)prove_each(0, 2) - 1;
}

/* Whatever comparisons say. */
static void prove_find(void)
{
    const size_t count = prove_each(0, 9);
    size_t found;
    if (coffer__find_sorted(count, prove_compare, &count, NULL, &found)) {
        //@ assert found < count;
    }
}

/*
 * An order that is made up while it is asked for, so that every item that quicksort chooses turns out to be among the least (M. D.
 * McIlroy, A Killer Adversary for Quicksort, 1999): the rest is left to the heap.
 */
#define PROVE_SORTED 64
static uint32_t prove_places[PROVE_SORTED];
static uint32_t prove_placed;
static uint32_t prove_candidate;

static bool prove_before(const void *ctx, uint32_t a, uint32_t b)
{
    (void)ctx;
    if (prove_places[a] == PROVE_SORTED && prove_places[b] == PROVE_SORTED) {
        prove_places[a == prove_candidate ? a : b] = prove_placed++;
    }
    if (prove_places[a] == PROVE_SORTED) {
        prove_candidate = a;
    } else if (prove_places[b] == PROVE_SORTED) {
        prove_candidate = b;
    }
    return prove_places[a] < prove_places[b];
}

static void prove_sort(void)
{
    uint32_t items[PROVE_SORTED];
    //@ loop unroll 64;
    for (uint32_t i = 0; i < PROVE_SORTED; i++) {
        items[i] = PROVE_SORTED - 1 - i;
        prove_places[i] = PROVE_SORTED;
    }
    coffer__sort(items, PROVE_SORTED, prove_before, NULL);
}

int main(void)
{
    prove_checked();
    prove_arrays();
    prove_find();
    prove_sort();
    prove_numbers();
    coffer__alloc(&prove_allocator, 0);
    //@ loop unroll BYTES_MAX;
    for (size_t size = 1; size <= BYTES_MAX; size++) {
        prove_cursor(size);
        prove_scan(size);
        prove_texts(size);
    }
    return 0;
}
