/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors + metadata + names + name index in one live block, which moves while it grows and is immutable afterwards.
 *
 *   coffer_table | entries, in the order of the header | order: u32[count] | pair_order: u32[pair_count] | slots: u64[slot_count]
 *
 *   tensor entry (8-aligned)     entry struct, shape u64[rank], name, NUL, [dtype name, NUL when the dtype is unknown], pad
 *   pair entry (4-aligned)       key_len u32, value_len u32, key, NUL, value, NUL, pad
 *
 * `order` lists the tensor entries in order of offset, `pair_order` the metadata in order of keys; both hold distances from
 * the block's start in units of 8 and 4 bytes. A slot is a name's hash (high half) and the tensor's index in `order` plus
 * one (low half); 0 is an empty slot. When names collide beyond reason, on purpose that is, there are no slots: `by_name`
 * takes their place, the indices in byte order of names, and look-up is a binary search.
 */
#ifndef COFFER_CORE_TABLE_H
#define COFFER_CORE_TABLE_H

#include "coffer.h"

typedef struct coffer__entry {
    coffer_tensor tensor; /* name and shape are set when the block stands still */
    uint32_t hash;
    uint32_t position; /* of the name in the header, for errors that are found later */
} coffer__entry;

struct coffer_table {
    coffer_allocator allocator;
    size_t block_size; /* as allocated */
    size_t count;
    size_t pair_count;
    size_t slot_count;  /* a power of two, or 0: look up by `by_name` */
    size_t order_at;    /* byte distances from the block's start */
    size_t pair_order_at;
    size_t slots_at;    /* or by_name, when slot_count is 0 */
    size_t metadata_position;  /* of the __metadata__ member in the header, its key's quote; with end 0 when there is none */
    size_t metadata_end;       /* one past the member's value */
    uint64_t data_offset;
    uint64_t data_size;
    uint64_t slack;
    coffer_note notes[COFFER_NOTE_COUNT];
};

/*
 * Building: one growing block. `used` counts from the block's start. Pointers into the block die with every call that may
 * grow it; keep distances.
 */
typedef struct coffer__builder {
    coffer_table *table;
    size_t used;
    size_t entries_end;      /* of what belongs to the table; behind it the keys of open objects lie for a while */
    size_t first_tensor;     /* of the tensor entries before and after the metadata, see table.c */
} coffer__builder;

#endif
