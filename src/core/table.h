/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors + metadata + names + name index in one live block: it moves while it grows and is immutable afterwards.
 *
 *   coffer_table | entries, as the header has them | order u32[count] | pair_order u32[pair_count] | slots u64[slot_count]
 *
 *   tensor, 8-aligned   coffer__entry | name, NUL, padding to 8 | shape u64[rank] | of an unknown dtype: its name, NUL, padding
 *   pair, 4-aligned     coffer__pair | key, NUL | value, NUL, padding to 4; the pairs lie together, among the tensors
 *
 * `order` lists the tensors in order of offset and `pair_order` the pairs in order of keys, as distances from the block's
 * start in units of 8 and of 4 bytes. A slot is a name's hash (high half) and the tensor's index in `order` plus one (low
 * half); 0 is an empty slot. When names collide beyond reason (someone made them so), slot_count is 0 and in the place of the
 * slots lie indices in byte order of the names, u32[count]: then looking up is a binary search.
 */
#ifndef COFFER_CORE_TABLE_H
#define COFFER_CORE_TABLE_H

#include "coffer.h"

typedef struct coffer__entry {
    coffer_tensor tensor; /* name and shape are set when the block stands still */
    uint32_t hash;        /* of the name */
    uint32_t position;    /* of the name's quote in the header, for errors that are found later */
} coffer__entry;

typedef struct coffer__pair {
    uint32_t key_len;
    uint32_t value_len;
    uint32_t position; /* of the key's quote in the header */
} coffer__pair;

struct coffer_table {
    coffer_allocator allocator;
    size_t block_size; /* as allocated */
    size_t count;
    size_t pair_count;
    size_t pairs_at; /* this and what follows: distances from the block's start in bytes */
    size_t pairs_end;
    size_t order_at;
    size_t pair_order_at;
    size_t slots_at;
    size_t slot_count;        /* a power of two, or 0 */
    size_t metadata_position; /* of the __metadata__ member in the header: its key's quote, … */
    size_t metadata_end;      /* … and one past its value; 0 when there is none */
    uint64_t data_offset;
    uint64_t data_size;
    uint64_t slack;
    coffer_note notes[COFFER_NOTE_COUNT];
};

/* A table under construction. Entries are written at `used`, after room was reserved; every reservation may move the block,
   so distances are kept and pointers are not. */
typedef struct coffer__builder {
    coffer_table *table;
    size_t used;
} coffer__builder;

/* Begins a table for a header of `header_size` bytes. On failure there is nothing to free. */
coffer_status coffer__builder_init(coffer__builder *builder, const coffer_allocator *allocator, size_t header_size,
                                   coffer_error *err);
/* Room for `size` bytes from `used` on. `header_left` bytes of the header are still to come: they bound how far it grows. */
coffer_status coffer__builder_reserve(coffer__builder *builder, size_t size, size_t header_left, coffer_error *err);
/* What lies at a distance from the block's start; until the next reservation. */
void *coffer__builder_at(const coffer__builder *builder, size_t distance);
/*
 * Ends the construction: orders, indexes, and finds what comes twice (COFFER_ERR_DUPLICATE_NAME, COFFER_ERR_DUPLICATE_KEY).
 * `in_order` tells that the entries already come in order of offset. `origin` is the header's offset in the file. The table
 * is the caller's on success; on failure it is freed. builder->table is NULL afterwards.
 */
coffer_status coffer__builder_seal(coffer__builder *builder, bool in_order, uint64_t origin, coffer_table **table,
                                   coffer_error *err);
/* Gives a construction up. */
void coffer__builder_discard(coffer__builder *builder);

/* Where an entry's parts lie, as distances from the entry. */
size_t coffer__entry_shape_at(uint32_t name_len);
size_t coffer__pair_size(const coffer__pair *pair);

uint32_t coffer__hash_name(const char *name, size_t name_len);

/* Counts one more of a kind of note, at a byte of the file. */
void coffer__table_note(coffer_table *table, coffer_note_kind kind, uint64_t offset);
/* Looks for COFFER_NOTE_CASE, which takes memory for a while. */
coffer_status coffer__table_note_case(coffer_table *table, uint64_t origin, coffer_error *err);

#endif
