/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An index over names: see names.h. It is a hash table with linear probing, at most half full. A
 * slot has the hash beside the item, so most look-ups compare one name only. Names are not copied:
 * name_of returns them.
 *
 * The hash is fixed, and the writer of a file can choose names that collide. So building counts its
 * steps. If they exceed what names that were not chosen need by far, the table is given up for a
 * sorted list.
 */
#include "names.h"

#include "alloc.h"
#include "error.h"
#include "sort.h"
#include "table.h"

#include <string.h>

static bool names_same(coffer__name a, coffer__name b)
{
    return a.len == b.len && memcmp(a.text, b.text, a.len) == 0;
}

static coffer_status names_no_memory(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the index of names");
}

/* ---- for names that collide -------------------------------------------------------------------------------------- */

static int names_compare(const coffer__names *names, uint32_t a, uint32_t b)
{
    const coffer__name first = names->name_of(names->ctx, a);
    const coffer__name second = names->name_of(names->ctx, b);
    return coffer__compare_names(first.text, first.len, second.text, second.len);
}

static bool names_before(const void *ctx, uint32_t a, uint32_t b)
{
    return names_compare(ctx, a, b) < 0;
}

/* Replaces the table by a sorted list. coffer__sort orders equal names by number, so of two
   neighbours with the same name the second is the later item, and the lowest of these is *twice. It
   is called when the budget is used up, so the work until then is bounded, and this takes O(n log
   n) comparisons whatever the names are. */
static coffer_status names_sort(coffer__names *names, uint32_t *twice, coffer_error *err)
{
    coffer__free_array(names->allocator, names->slots, names->slot_count, sizeof *names->slots);
    names->slots = NULL;
    names->slot_count = 0;
    names->sorted = coffer__alloc_array(names->allocator, names->count, sizeof *names->sorted, err);
    if (names->sorted == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < names->count; i++) {
        names->sorted[i] = (uint32_t)i;
    }
    coffer__sort(names->sorted, names->count, names_before, names);
    for (size_t i = 1; i < names->count; i++) {
        const uint32_t item = names->sorted[i]; /* equal ones are ordered by number */
        if (item < *twice && names_compare(names, names->sorted[i - 1], item) == 0) {
            *twice = item;
        }
    }
    return COFFER_OK;
}

/* Finds the first of equal names, as the search does not stop at a match. An empty index has no
   list. Of equal names the list has the lowest item first, which is the one that the table would
   find. */
static uint32_t names_search(const coffer__names *names, coffer__name wanted)
{
    /* The lowest place whose name is not before the wanted one. */
    size_t low = 0;
    size_t high = names->sorted == NULL ? 0 : names->count;
    const size_t count = high;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const coffer__name name = names->name_of(names->ctx, names->sorted[middle]);
        if (coffer__compare_names(name.text, name.len, wanted.text, wanted.len) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    const bool found = low < count && names_same(names->name_of(names->ctx, names->sorted[low]), wanted);
    return found ? names->sorted[low] : COFFER__NO_NAME;
}

/* ---- for all others ---------------------------------------------------------------------------------------------- */

/* The slot of a name, or the empty one where it belongs. Every step is taken from *budget; the
   result means nothing once that is 0. The table is never full, so without a budget the loop ends,
   too. The whole hash is compared before the names, which are elsewhere in memory: a second cache
   miss is paid for real matches only. */
static size_t names_slot(const coffer__names *names, coffer__name name, uint32_t hash, uint64_t *budget)
{
    const size_t mask = names->slot_count - 1;
    size_t at = hash & mask;
    for (; names->slots[at] != 0 && *budget > 0; at = (at + 1) & mask, --*budget) {
        const uint64_t slot = names->slots[at];
        if ((uint32_t)(slot >> 32) == hash && names_same(names->name_of(names->ctx, (uint32_t)slot - 1), name)) {
            return at;
        }
    }
    return at;
}

/* The first of two equal names keeps its slot, so look-ups find the earlier item; the later one
   only becomes *twice. Building takes no lock, and the index must not be used before it is done;
   look-ups afterwards may run in any number of threads. */
coffer_status coffer__names_build(coffer__names *names, uint32_t *twice, coffer_error *err)
{
    *twice = COFFER__NO_NAME;
    if (names->count == 0) {
        return COFFER_OK;
    }
    if (names->count > UINT32_MAX / 2 || names->count > SIZE_MAX / 64) {
        return names_no_memory(err);
    }
    /* At most half of the slots are used. Items are stored as number + 1, in 32 bits, with 0 for an
       empty slot. */
    names->slot_count = 4;
    while (names->slot_count < 2 * names->count) {
        names->slot_count *= 2;
    }
    names->slots = coffer__alloc_array(names->allocator, names->slot_count, sizeof *names->slots, err);
    if (names->slots == NULL) {
        return COFFER_ERR_MEMORY;
    }
    /* Names that were not chosen to collide are found after one or two steps. */
    uint64_t budget = 16 * (uint64_t)names->count + 1024;
    for (size_t i = 0; i < names->count; i++) {
        const coffer__name name = names->name_of(names->ctx, (uint32_t)i);
        const uint32_t hash = coffer__hash_name(name.text, name.len);
        const size_t at = names_slot(names, name, hash, &budget);
        /* Somebody has chosen these names. The list takes O(n log n) for any names. */
        if (budget == 0) {
            return names_sort(names, twice, err);
        }
        if (names->slots[at] == 0) {
            names->slots[at] = (uint64_t)hash << 32 | (uint32_t)(i + 1);
        } else if (*twice == COFFER__NO_NAME) {
            *twice = (uint32_t)i;
        }
    }
    return COFFER_OK;
}

/* The budget is for building alone. The table that was kept is one in which names of the file are
   found quickly; a name from elsewhere that is not in it meets at most one run of full slots. */
uint32_t coffer__names_find(const coffer__names *names, const char *name, size_t name_len)
{
    const coffer__name wanted = { name_len > 0 ? name : "", name_len };
    if (names->slot_count == 0) {
        return names_search(names, wanted);
    }
    uint64_t budget = UINT64_MAX;
    const uint64_t slot = names->slots[names_slot(names, wanted, coffer__hash_name(wanted.text, name_len), &budget)];
    return slot == 0 ? COFFER__NO_NAME : (uint32_t)slot - 1;
}

void coffer__names_free(coffer__names *names)
{
    coffer__free_array(names->allocator, names->slots, names->slot_count, sizeof *names->slots);
    coffer__free_array(names->allocator, names->sorted, names->count, sizeof *names->sorted);
    names->slots = NULL;
    names->sorted = NULL;
    names->slot_count = 0;
}
