/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors, metadata, names and the index of names in one live block: it moves while it grows and is
 * immutable afterwards. One block, because a header has up to hundreds of thousands of tensors: one
 * allocation and one free, and what is looked up together lies together.
 *
 *   coffer_table | entries, as the header has them | order u32[count] | pair_order u32[pair_count]
 *                | slots u64[slot_count]
 *
 *   tensor, 8-aligned   coffer__entry | name, NUL, padding to 8 | shape u64[rank]
 *                       | of an unknown dtype: its name, NUL, padding to 8
 *   pair, 4-aligned     coffer__text_pair | key, NUL | value, NUL, padding to 4; the pairs lie together, among
 *                       the tensors
 *
 * `order` lists the tensors in order of offset and `pair_order` the pairs in order of keys, as distances
 * from the block's start in units of 8 and of 4 bytes. Distances of 32 bits instead of pointers halve
 * these arrays and stay right when the block moves.
 *
 * A slot is a name's hash (high half) and the entry's distance from the block's start, in units of 8
 * bytes (low half); 0 is an empty slot, since at distance 0 lies the table itself. When names collide
 * beyond reason (someone made them so), slot_count is 0, and in the place of the slots lie indices into
 * `order`, in byte order of the names, u32[count]: then looking up is a binary search.
 *
 * While the table is built, its block has entries at the front, up to `used`, and a coffer__mark for
 * each tensor at the back, from `marks_at` on, that of the first tensor last:
 *
 *   coffer_table | entries → | space | ← marks
 *
 * Both grow into the same room, so neither count has to be known before. After the construction nobody
 * needs the marks, and the index may lie in their place.
 */
#ifndef COFFER_CORE_TABLE_H
#define COFFER_CORE_TABLE_H

#include "coffer.h"

/* What coffer.h shows of a tensor is the first member, so a pointer to one is a pointer to the
   other. The name follows the struct, the shape the name. */
typedef struct coffer__entry {
    coffer_tensor tensor;
    uint32_t position; /* of the name's quote in the header, for errors that are found later */
} coffer__entry;

/* What the index has to know of a tensor, so that filling it does not touch the entries again: they
   lie far apart in memory. */
typedef struct coffer__mark {
    uint32_t hash; /* of the name */
    uint32_t at;   /* the entry's distance from the block's start, in units of 8 bytes */
} coffer__mark;

/* A pair of the metadata. Its key and value follow, each with a NUL. */
typedef struct coffer__text_pair {
    uint32_t key_len;
    uint32_t value_len;
    uint32_t position; /* of the key's quote in the header */
} coffer__text_pair;

struct coffer_table {
    coffer_allocator allocator;
    size_t block_size; /* as allocated */
    size_t count;
    size_t left_out; /* tensors that the header has besides, which nobody finds */
    size_t pair_count;
    size_t pairs_at; /* this and what follows: distances from the block's start in bytes */
    size_t order_at;
    size_t pair_order_at;
    size_t slots_at;
    size_t slot_count;        /* a power of two, or 0 */
    size_t metadata_position; /* of the metadata in the header: of safetensors, of the member's quote */
    size_t metadata_end;      /* one past the value of the metadata; 0 when there is none */
    uint64_t data_offset;
    uint64_t data_size;
    uint64_t slack;
    coffer_note notes[COFFER_NOTE_COUNT];
    coffer_format format;
    bool has_metadata; /* a place for them, even an empty one */
};

/*
 * A table under construction. Entries are written at `used`, after space was reserved. Every
 * reservation may move the block, so distances are kept and pointers are not; what has pointers
 * into the block gets them again when the table is sealed.
 */
typedef struct coffer__builder {
    coffer_table *table;
    size_t used;
    size_t marks_at;
    bool moved; /* since the first entry: their pointers are stale */
} coffer__builder;

/* Begins a table for a header whose text has `text_size` bytes, a hint for the first size of the
   block. On failure there is nothing to free. */
coffer_status coffer__builder_init(coffer__builder *builder, const coffer_allocator *allocator, uint64_t text_size,
                                   coffer_error *err);
/* Makes the space that coffer__builder_reserve did not find. Call that one. */
coffer_status coffer__builder_grow(coffer__builder *builder, uint64_t size, size_t header_left, coffer_error *err);
/*
 * Ends the construction: orders, indexes, and finds what comes twice (COFFER_ERR_DUPLICATE_NAME,
 * COFFER_ERR_DUPLICATE_KEY). `in_order` tells that the entries come in order of offset already, and
 * it is believed. `origin` is the header's offset in the file, for errors. The table is the
 * caller's on success; on failure it is freed. builder->table is NULL afterwards in both cases.
 */
coffer_status coffer__builder_seal(coffer__builder *builder, bool in_order, uint64_t origin, coffer_table **table,
                                   coffer_error *err);
/* Gives a construction up. Allowed after a seal and for a builder of zeros: then it does nothing. */
void coffer__builder_discard(coffer__builder *builder);

/* Not the same number on machines of another byte order: it is never stored in a file. */
uint32_t coffer__hash_name(const char *name, size_t name_len);

/*
 * Space for `size` bytes from `used` on, and for one mark. `header_left` bytes of the header are
 * still to come: they bound how far the block grows. Pointers into the block are stale after this
 * call.
 */
static inline coffer_status coffer__builder_reserve(coffer__builder *builder, uint64_t size, size_t header_left,
                                                    coffer_error *err)
{
    const size_t capacity = builder->marks_at - builder->used;
    const bool fits = capacity >= sizeof(coffer__mark) && size <= capacity - sizeof(coffer__mark);
    return fits ? COFFER_OK : coffer__builder_grow(builder, size, header_left, err);
}

/* What lies at a distance from the block's start. Valid until the next reservation. */
static inline void *coffer__builder_at(const coffer__builder *builder, size_t distance)
{
    return (char *)builder->table + distance;
}

/* Where an entry's shape lies, as a distance from the entry: after the name and its NUL, rounded up
   to 8. */
static inline size_t coffer__entry_shape_at(uint32_t name_len)
{
    return (sizeof(coffer__entry) + name_len + 8) & ~(size_t)7;
}

/* Points the tensor to its name and its shape, for as long as the block stands still. */
static inline void coffer__entry_set_pointers(coffer__entry *entry)
{
    entry->tensor.name = (const char *)(entry + 1);
    entry->tensor.shape =
        (const uint64_t *)(const void *)((const char *)entry + coffer__entry_shape_at(entry->tensor.name_len));
}

/* Adds the entry at `used`, `size` bytes long (a multiple of 8) and complete but for its pointers,
   to the table. coffer__builder_reserve has made space for it and for its mark. */
static inline void coffer__builder_add(coffer__builder *builder, size_t size)
{
    coffer__entry *entry = (coffer__entry *)coffer__builder_at(builder, builder->used);
    coffer__entry_set_pointers(entry);
    builder->marks_at -= sizeof(coffer__mark);
    coffer__mark *mark = (coffer__mark *)coffer__builder_at(builder, builder->marks_at);
    mark->hash = coffer__hash_name(entry->tensor.name, entry->tensor.name_len);
    mark->at = (uint32_t)(builder->used / 8);
    builder->used += size;
    builder->table->count++;
}

/* What a pair takes in the block, its texts, NULs and padding included. */
size_t coffer__pair_size(const coffer__text_pair *pair);

/* Counts one more of a kind of note, at a byte of the file; the first byte of all is kept. */
void coffer__table_add_note(coffer_table *table, coffer_note_kind kind, uint64_t offset);
/* What `shard` of a tensor says that is to be left out. */
#define COFFER__LEFT_OUT UINT32_MAX
/* Leaves out all tensors that are marked so: they are not counted, listed or found any more, though they are in the
   header and in the data. Before anybody else uses the table. */
void coffer__table_leave_out(coffer_table *table);
/* Looks for COFFER_NOTE_CASE, names that differ only in case. It sorts all names once more, which
   takes memory for a while, so it runs only when the caller wants all notes. */
coffer_status coffer__table_note_case(coffer_table *table, uint64_t origin, coffer_error *err);

#endif
