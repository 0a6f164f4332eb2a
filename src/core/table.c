/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors, metadata, names and the index of names in one block: building it, and looking things up.
   The layout is in table.h. */
#include "table.h"

#include "alloc.h"
#include "bytes.h"
#include "checked.h"
#include "error.h"
#include "sort.h"
#include "text.h"

#if SIZE_MAX > UINT32_MAX
/* Distances of pairs are kept in 32 bits, in units of 4 bytes, which is a bound of 16 GiB; those of
   tensors, in units of 8, would reach farther. */
#define TABLE_LARGEST_BLOCK (UINT64_C(1) << 34)
#else
#define TABLE_LARGEST_BLOCK ((uint64_t)SIZE_MAX / 2)
#endif

/* From so many tensors on, sorting their offsets by digits costs less than comparing them. */
#define TABLE_MANY 64

static size_t table_round_up(size_t size, size_t alignment)
{
    return (size + alignment - 1) & ~(alignment - 1);
}

static const coffer__entry *table_entry_at(const coffer_table *table, uint32_t distance)
{
    return (const coffer__entry *)(const void *)((const char *)table + (size_t)distance * 8);
}

static const uint32_t *table_order_of(const coffer_table *table)
{
    return (const uint32_t *)(const void *)((const char *)table + table->order_at);
}

static const coffer__entry *table_entry(const coffer_table *table, size_t i)
{
    return table_entry_at(table, table_order_of(table)[i]);
}

static const coffer__text_pair *table_pair_at(const coffer_table *table, uint32_t distance)
{
    return (const coffer__text_pair *)(const void *)((const char *)table + (size_t)distance * 4);
}

static const coffer__text_pair *table_pair(const coffer_table *table, size_t i)
{
    const uint32_t *order = (const uint32_t *)(const void *)((const char *)table + table->pair_order_at);
    return table_pair_at(table, order[i]);
}

static const char *pair_key(const coffer__text_pair *pair)
{
    return (const char *)(pair + 1);
}

static const char *pair_value(const coffer__text_pair *pair)
{
    return pair_key(pair) + pair->key_len + 1;
}

size_t coffer__pair_size(const coffer__text_pair *pair)
{
    return table_round_up(sizeof *pair + pair->key_len + 1 + pair->value_len + 1, 4);
}

/* The product of the halves of a word and a key: a multiplication mixes more bits than anything
   else that takes one step. */
static inline uint64_t hash_word(uint64_t word, uint64_t key)
{
    word += key;
    return (word & UINT32_MAX) * (word >> 32);
}

/*
 * The products of the halves of every eight bytes, added up, so that none waits for another. Keys
 * that differ from word to word make their order matter. Names are
 * short, so beginning and ending must cost little.
 *
 * The last sixteen bytes are read from the end, and may be taken twice; names of 8 to 16 bytes are
 * two words that overlap, shorter ones are padded with zeros. The length in the sum tells the
 * padding from NULs. The hash need not resist those who make names collide: the index notices (see
 * table_index).
 */
uint32_t coffer__hash_name(const char *name, size_t name_len)
{
    const uint64_t step = UINT64_C(0x9E3779B97F4A7C15);
    const uint8_t *bytes = (const uint8_t *)name;
    uint64_t key = UINT64_C(0xD1B54A32D192ED03);
    uint64_t sum = name_len * step;
    uint64_t former = 0;
    uint64_t latter = 0;
    for (size_t at = 0; 16 < name_len - at; at += 16) {
        sum += hash_word(coffer__load_u64(bytes + at), key) + hash_word(coffer__load_u64(bytes + at + 8), ~key);
        key += step;
    }
    if (name_len >= 8) {
        former = coffer__load_u64(bytes + (name_len >= 16 ? name_len - 16 : 0));
        latter = coffer__load_u64(bytes + name_len - 8);
    } else {
        memcpy(&former, bytes, name_len);
    }
    sum += hash_word(former, key) + hash_word(latter, ~key);
    /* Both halves go into the product, and its upper bits depend on all of them: the lowest of
       these choose the slot. */
    sum = (sum ^ sum >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    return (uint32_t)(sum >> 32);
}

/* ---- building ---- */

coffer_status coffer__builder_init(coffer__builder *builder, const coffer_allocator *allocator, uint64_t text_size,
                                   coffer_error *err)
{
    /* Enough for most headers: what is kept of a usual tensor, its mark and its slots included,
       takes about as much as its text, or a quarter more. */
    const uint64_t wanted =
        (sizeof(coffer_table) + text_size + text_size / 4 + text_size / 32 + 512 + 7) & ~UINT64_C(7);
    const size_t size = (size_t)wanted;
    coffer_table *table = wanted > TABLE_LARGEST_BLOCK ? NULL : coffer__alloc(allocator, size);
    *builder = (coffer__builder){ table, table_round_up(sizeof(coffer_table), 8), size, false };
    if (table == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the table of tensors (%z)", wanted);
    }
    memset(table, 0, sizeof *table);
    table->allocator = *allocator;
    table->block_size = size;
    for (size_t i = 0; i < COFFER_NOTE_COUNT; i++) {
        table->notes[i].offset = COFFER_NO_OFFSET;
    }
    return COFFER_OK;
}

void coffer__builder_discard(coffer__builder *builder)
{
    coffer_table_free(builder->table);
    builder->table = NULL;
}

static size_t builder_marks_size(const coffer__builder *builder)
{
    return builder->table->count * sizeof(coffer__mark);
}

/*
 * Makes the block `size` bytes long, rounded up to a multiple of 8, with the marks at its new end.
 * Blocks only grow: every caller asks for more than there is. On failure the old block stays as it
 * was, for its owner to free.
 */
static coffer_status builder_resize(coffer__builder *builder, uint64_t size, coffer_error *err)
{
    coffer_table *table = NULL;
    const size_t old_size = builder->table->block_size;
    const size_t marks_size = builder_marks_size(builder);
    size = (size + 7) & ~UINT64_C(7);
    if (size <= TABLE_LARGEST_BLOCK) {
        const coffer_allocator allocator = builder->table->allocator;
        table = coffer__realloc(&allocator, builder->table, old_size, (size_t)size);
    }
    if (table == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the table of tensors (%z)", size);
    }
    table->block_size = (size_t)size;
    builder->table = table;
    builder->moved = true;
    builder->marks_at = table->block_size - marks_size;
    memmove((char *)table + builder->marks_at, (char *)table + old_size - marks_size, marks_size);
    return COFFER_OK;
}

coffer_status coffer__builder_grow(coffer__builder *builder, uint64_t size, size_t header_left, coffer_error *err)
{
    /*
     * To the double, but not beyond what the rest of the header can fill: of all it can say,
     * dimensions take the most, eight bytes for two of text ("1,"). So a short header cannot ask
     * for much memory.
     */
    const uint64_t needed = builder->used + size + builder_marks_size(builder) + sizeof(coffer__mark);
    const uint64_t most = needed + 4 * (uint64_t)header_left;
    const uint64_t doubled = 2 * (uint64_t)builder->table->block_size;
    const uint64_t grown = doubled < most ? doubled : most;
    return builder_resize(builder, grown > needed ? grown : needed, err);
}

/* ---- the index ---- */

static const char *entry_name(const coffer__entry *entry)
{
    return (const char *)(entry + 1);
}

static bool entry_is_named(const coffer__entry *entry, const char *name, size_t name_len)
{
    return entry->tensor.name_len == name_len && memcmp(entry_name(entry), name, name_len) == 0;
}

static uint64_t *table_slots(coffer_table *table)
{
    return (uint64_t *)(void *)((char *)table + table->slots_at);
}

static bool table_same_name(const coffer_table *table, uint32_t a, uint32_t b)
{
    const coffer__entry *entry = table_entry_at(table, b);
    return entry_is_named(table_entry_at(table, a), entry_name(entry), entry->tensor.name_len);
}

/* The later of the two in the header is named, whichever of them the search met first. */
static coffer_status table_fail_duplicate(const coffer_table *table, uint32_t a, uint32_t b, uint64_t origin,
                                          coffer_error *err)
{
    const coffer__entry *first = table_entry_at(table, a);
    const coffer__entry *second = table_entry_at(table, b);
    const coffer__entry *later = first->position > second->position ? first : second;
    const uint64_t offset = origin + later->position;
    const coffer_status code =
        coffer__fail_at(err, COFFER_ERR_DUPLICATE_NAME, offset, "two tensors are named %q; the second is at byte %u",
                        entry_name(later), (size_t)later->tensor.name_len, offset);
    return coffer__fail_tensor(err, code, entry_name(later), later->tensor.name_len);
}

static bool table_name_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer__entry *first = table_entry(ctx, a);
    const coffer__entry *second = table_entry(ctx, b);
    return coffer__compare_names(entry_name(first), first->tensor.name_len, entry_name(second),
                                 second->tensor.name_len) < 0;
}

/* Fills `order`, of coffer_table_count numbers, with those of the tensors in byte order of their
   names. It is also how the index of names that collide is made. */
void coffer_table_sort_by_name(const coffer_table *table, uint32_t *order)
{
    for (size_t i = 0; i < table->count; i++) {
        order[i] = (uint32_t)i;
    }
    coffer__sort(order, table->count, table_name_before, table);
}

void coffer__table_leave_out(coffer_table *table)
{
    uint32_t *order = (uint32_t *)(void *)((char *)table + table->order_at);
    size_t kept = 0;
    for (size_t i = 0; i < table->count; i++) {
        order[kept] = order[i];
        kept += table_entry_at(table, order[i])->tensor.shard != COFFER__LEFT_OUT;
    }
    table->left_out += table->count - kept;
    table->count = kept;
    /* The slots have distances, which stay right; the list of names that collide has numbers of `order`. */
    if (table->slot_count == 0) {
        coffer_table_sort_by_name(table, (uint32_t *)(void *)table_slots(table));
    }
}

/* The index for names that collide: sorted, in the place of the slots, where 4 bytes a tensor are
   less than the slots took. After sorting, names that are equal are neighbours. */
static coffer_status table_index_sorted(coffer_table *table, uint64_t origin, coffer_error *err)
{
    uint32_t *by_name = (uint32_t *)(void *)table_slots(table);
    table->slot_count = 0;
    coffer_table_sort_by_name(table, by_name);
    const uint32_t *order = table_order_of(table);
    for (size_t i = 1; i < table->count; i++) {
        const uint32_t a = order[by_name[i - 1]];
        const uint32_t b = order[by_name[i]];
        if (table_same_name(table, a, b)) {
            return table_fail_duplicate(table, a, b, origin, err);
        }
    }
    return COFFER_OK;
}

/*
 * Fills the slots, in the header's order, and finds names that come twice on the way. `marks` is
 * one past the first tensor's mark. Open addressing with linear probing: at least a quarter of the
 * slots is empty, so every search ends.
 *
 * Hash tables have a worst case of O(n^2) that a file can be made for. The budget counts the slots
 * that were found taken; when it is used up, the names are sorted instead, in O(n log n).
 */
static coffer_status table_index(coffer_table *table, const coffer__mark *marks, uint64_t origin, coffer_error *err)
{
    /* Names that do not collide on purpose are found after one or two slots. */
    uint64_t budget = 16 * (uint64_t)table->count + 1024;
    const size_t count = table->count;
    const size_t mask = table->slot_count - 1;
    uint64_t *slots = table_slots(table);
    memset(slots, 0, table->slot_count * sizeof(uint64_t));
    for (size_t i = 0; i < count; i++) {
        const coffer__mark mark = *--marks;
        size_t at = mark.hash & mask;
        for (; slots[at] != 0; at = (at + 1) & mask) {
            const uint32_t other = (uint32_t)slots[at];
            if ((uint32_t)(slots[at] >> 32) == mark.hash && table_same_name(table, mark.at, other)) {
                return table_fail_duplicate(table, mark.at, other, origin, err);
            }
            if (--budget == 0) {
                return table_index_sorted(table, origin, err);
            }
        }
        slots[at] = (uint64_t)mark.hash << 32 | mark.at;
    }
    return COFFER_OK;
}

/*
 * Tensors without data come before the one that begins at the same byte, since that is the order in
 * which ranges follow each other. Of several without data the header's order stays: coffer__sort
 * orders equal ones by their distance.
 */
static bool table_offset_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer_tensor *first = &table_entry_at(ctx, a)->tensor;
    const coffer_tensor *second = &table_entry_at(ctx, b)->tensor;
    return first->offset < second->offset || (first->offset == second->offset && first->size < second->size);
}

static unsigned table_bit_width(uint64_t value)
{
    unsigned width = 0;
    while (width < 64 && value >> width != 0) {
        width++;
    }
    return width;
}

/*
 * Sorts keys by their bits from `low` to `high`, a byte of them at a time, the lowest first; each
 * pass keeps the order of equal bytes, so all passes together sort. `spare` has space for as many.
 * The two change roles after each pass; returns where the keys are in the end: `keys` or `spare`.
 */
static const uint64_t *table_sort_keys(uint64_t *keys, uint64_t *spare, size_t count, unsigned low, unsigned high)
{
    for (unsigned shift = low; shift < high; shift += 8) {
        /* After the counts were added up, ends[b] is where the first key with byte b goes. 257, so
           that counting one place further needs no special case. */
        size_t ends[257] = { 0 };
        for (size_t i = 0; i < count; i++) {
            ends[(keys[i] >> shift & 0xFF) + 1]++;
        }
        for (size_t i = 1; i < 256; i++) {
            ends[i] += ends[i - 1];
        }
        for (size_t i = 0; i < count; i++) {
            spare[ends[keys[i] >> shift & 0xFF]++] = keys[i];
        }
        uint64_t *const sorted = spare;
        spare = keys;
        keys = sorted;
    }
    return keys;
}

/*
 * Sorts many entries by offset, in the place of the slots, which nothing is in yet. A key is, from
 * its highest bit: the offset, whether there are data, and the entry's number, so that tensors
 * without data come first and the header's order breaks ties, as table_offset_before and
 * coffer__sort have it.
 *
 * False, and nothing has changed, where 64 bits are too few for that, or where two tensors have
 * data that begin together: they overlap, and only a comparison of sizes puts them in the order in
 * which the error is reported.
 */
static bool table_order_many(coffer_table *table, const coffer__mark *marks, uint32_t *order)
{
    const size_t count = table->count;
    const unsigned low = table_bit_width(count - 1);
    uint64_t *keys = table_slots(table);
    uint64_t offsets = 0;
    for (size_t i = 0; i < count; i++) {
        const coffer_tensor *tensor = &table_entry_at(table, order[i])->tensor;
        keys[i] = (tensor->offset << 1 | (tensor->size > 0)) << low | i;
        offsets |= tensor->offset;
    }
    /* `offsets` has every bit that any of them has, so its width is that of the largest. Keys that
       were too wide were cut before this, and are not used. */
    const unsigned high = table_bit_width(offsets) + 1 + low;
    if (high > 64) {
        return false;
    }
    const uint64_t *sorted = table_sort_keys(keys, keys + count, count, low, high);
    for (size_t i = 1; i < count; i++) {
        if (sorted[i] >> low == sorted[i - 1] >> low && (sorted[i] >> low & 1) != 0) {
            return false;
        }
    }
    for (size_t i = 0; i < count; i++) {
        order[i] = marks[-1 - (ptrdiff_t)(sorted[i] & ((UINT64_C(1) << low) - 1))].at;
    }
    return true;
}

/* Fills `order`: from the marks in the header's order, which is nearly always that of the offsets;
   else sorts it. */
static void table_order(coffer_table *table, const coffer__mark *marks, bool in_order)
{
    uint32_t *order = (uint32_t *)(void *)((char *)table + table->order_at);
    for (size_t i = 0; i < table->count; i++) {
        order[i] = marks[-1 - (ptrdiff_t)i].at;
    }
    if (in_order || (table->count >= TABLE_MANY && table_order_many(table, marks, order))) {
        return;
    }
    coffer__sort(order, table->count, table_offset_before, table);
}

static int table_pair_compare(const coffer__text_pair *a, const coffer__text_pair *b)
{
    return coffer__compare_names(pair_key(a), a->key_len, pair_key(b), b->key_len);
}

static bool table_key_before(const void *ctx, uint32_t a, uint32_t b)
{
    return table_pair_compare(table_pair_at(ctx, a), table_pair_at(ctx, b)) < 0;
}

/* Of several keys that come twice, the one named is the first second occurrence in the header. */
static coffer_status table_order_pairs(coffer_table *table, uint64_t origin, coffer_error *err)
{
    uint32_t *order = (uint32_t *)(void *)((char *)table + table->pair_order_at);
    size_t at = table->pairs_at;
    for (size_t i = 0; i < table->pair_count; i++) {
        order[i] = (uint32_t)(at / 4);
        at += coffer__pair_size(table_pair_at(table, order[i]));
    }
    coffer__sort(order, table->pair_count, table_key_before, table);
    const coffer__text_pair *second = NULL;
    for (size_t i = 1; i < table->pair_count; i++) {
        const coffer__text_pair *pair = table_pair(table, i);
        if (table_pair_compare(table_pair(table, i - 1), pair) == 0 &&
            (second == NULL || pair->position < second->position)) {
            second = pair;
        }
    }
    if (second == NULL) {
        return COFFER_OK;
    }
    return coffer__fail_at(err, COFFER_ERR_DUPLICATE_KEY, origin + second->position,
                           "at byte %u, the key %q occurs a second time in the metadata", origin + second->position,
                           pair_key(second), (size_t)second->key_len);
}

/* The least power of two, at least 4, that leaves a quarter of the slots empty; 0 for no tensors. A
   power of two, so that a mask replaces the division. */
static size_t table_slots_for(size_t count)
{
    size_t slots = 4;
    while (slots - slots / 4 < count) {
        slots *= 2;
    }
    return count == 0 ? 0 : slots;
}

/*
 * Lays out what follows the entries, and sees that the block has space for it beside the marks,
 * which are still needed. Where entries have to be sorted, the slots are made large enough for
 * table_order_many: keys and as much to spare.
 */
static coffer_status builder_lay_out(coffer__builder *builder, bool in_order, coffer_error *err)
{
    coffer_table *head = builder->table;
    head->order_at = builder->used;
    head->pair_order_at = head->order_at + head->count * sizeof(uint32_t);
    head->slots_at = table_round_up(head->pair_order_at + head->pair_count * sizeof(uint32_t), 8);
    head->slot_count = table_slots_for(head->count);
    if (!in_order && head->slot_count < 2 * head->count) {
        head->slot_count *= 2; /* to sort in */
    }
    const uint64_t end = (uint64_t)head->slots_at + (uint64_t)head->slot_count * sizeof(uint64_t);
    if (end > builder->marks_at) {
        return builder_resize(builder, end + builder_marks_size(builder), err);
    }
    /* Where more than half of the slots would be taken, more of them are worth space that is there
       anyway: searches get shorter. */
    const bool has_capacity = head->slot_count <= (builder->marks_at - head->slots_at) / (2 * sizeof(uint64_t));
    if (has_capacity && head->slot_count < 2 * head->count) {
        head->slot_count *= 2;
    }
    return COFFER_OK;
}

/*
 * Fills what was laid out. The entries' pointers are set again when the block has ever moved. The
 * order of the three steps matters: table_order sorts where table_index puts the slots afterwards.
 */
static coffer_status builder_fill(const coffer__builder *builder, bool in_order, uint64_t origin, coffer_error *err)
{
    coffer_table *table = builder->table;
    const coffer__mark *marks = coffer__builder_at(builder, table->block_size);
    for (size_t i = 1; builder->moved && i <= table->count; i++) {
        coffer__entry_set_pointers(coffer__builder_at(builder, (size_t)(marks - i)->at * 8));
    }
    table_order(table, marks, in_order);
    const coffer_status status = table_order_pairs(table, origin, err);
    return status == COFFER_OK ? table_index(table, marks, origin, err) : status;
}

coffer_status coffer__builder_seal(coffer__builder *builder, bool in_order, uint64_t origin, coffer_table **table,
                                   coffer_error *err)
{
    coffer_status status = builder_lay_out(builder, in_order, err);
    if (status == COFFER_OK) {
        status = builder_fill(builder, in_order, origin, err);
    }
    if (status != COFFER_OK) {
        coffer__builder_discard(builder);
        return status;
    }
    *table = builder->table;
    builder->table = NULL;
    return COFFER_OK;
}

/* ---- notes ---- */

void coffer__table_add_note(coffer_table *table, coffer_note_kind kind, uint64_t offset)
{
    coffer_note *note = &table->notes[kind];
    note->count++;
    if (offset < note->offset) {
        note->offset = offset;
    }
}

/* ASCII only. The note is about file systems and tools that ignore case; other letters are compared
   as they are. */
static int compare_folded(const coffer_tensor *a, const coffer_tensor *b)
{
    const size_t shorter = a->name_len < b->name_len ? a->name_len : b->name_len;
    for (size_t i = 0; i < shorter; i++) {
        const unsigned char x = (unsigned char)coffer__text_lower(a->name[i]);
        const unsigned char y = (unsigned char)coffer__text_lower(b->name[i]);
        if (x != y) {
            return (int)x - (int)y;
        }
    }
    return (a->name_len > b->name_len) - (a->name_len < b->name_len);
}

static bool table_folded_before(const void *ctx, uint32_t a, uint32_t b)
{
    return compare_folded(coffer_table_at(ctx, a), coffer_table_at(ctx, b)) < 0;
}

/* Names that are equal but for case are neighbours after sorting. The later one in the header is
   the one noted. */
coffer_status coffer__table_note_case(coffer_table *table, uint64_t origin, coffer_error *err)
{
    const size_t size = table->count * sizeof(uint32_t);
    if (size == 0) {
        return COFFER_OK;
    }
    uint32_t *order = coffer__alloc(&table->allocator, size);
    if (order == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to compare names (%z)", (uint64_t)size);
    }
    for (size_t i = 0; i < table->count; i++) {
        order[i] = (uint32_t)i;
    }
    coffer__sort(order, table->count, table_folded_before, table);
    for (size_t i = 1; i < table->count; i++) {
        const coffer__entry *a = table_entry(table, order[i - 1]);
        const coffer__entry *b = table_entry(table, order[i]);
        if (compare_folded(&a->tensor, &b->tensor) == 0) {
            coffer__table_add_note(table, COFFER_NOTE_CASE, origin + (a->position > b->position ? a : b)->position);
        }
    }
    coffer__free(&table->allocator, order, size);
    return COFFER_OK;
}

const char *coffer_note_text(coffer_note_kind kind)
{
    static const char *const texts[] = {
        [COFFER_NOTE_LEADING_SPACE] = "white space before the header",
        [COFFER_NOTE_UNKNOWN_KEY] = "a tensor has a key that the format does not define",
        [COFFER_NOTE_NULL_METADATA] = "the metadata is null",
        [COFFER_NOTE_CONTROL_NAME] = "a tensor's name has a control character",
        [COFFER_NOTE_EMPTY_NAME] = "a tensor's name is empty",
        [COFFER_NOTE_UNALIGNED] = "a tensor is not aligned for its dtype",
        [COFFER_NOTE_PADDING] = "the header is padded with something other than spaces",
        [COFFER_NOTE_CASE] = "names differ only in upper and lower case",
        [COFFER_NOTE_UNKNOWN_DTYPE] = "a tensor has an unknown dtype",
        [COFFER_NOTE_LONG_NUMBER] = "a number is longer than necessary",
        [COFFER_NOTE_UNINDEXED] = "a tensor is not in the index",
        [COFFER_NOTE_TOTAL_SIZE] = "the index states a total_size that is not that of the tensors",
        [COFFER_NOTE_EXTRA_SHARD] = "a file is named like a shard and is not in the index",
        [COFFER_NOTE_SHARD_COUNT] = "the files' names state a different number of files",
        [COFFER_NOTE_NO_INDEX] = "a sharded model has no index",
        [COFFER_NOTE_SUPERSEDED] = "a tensor is in two files, and the copy in the file that the index names counts",
    };
    const bool known = (int)kind >= 0 && (int)kind < COFFER_NOTE_COUNT;
    return known ? texts[kind] : "";
}

/* ---- looking up ---- */

void coffer_table_free(coffer_table *table)
{
    if (table != NULL) {
        const coffer_allocator allocator = table->allocator;
        coffer__free(&allocator, table, table->block_size);
    }
}

coffer_format coffer_table_format(const coffer_table *table)
{
    return table->format;
}

size_t coffer_table_count(const coffer_table *table)
{
    return table->count;
}

const coffer_tensor *coffer_table_at(const coffer_table *table, size_t i)
{
    return i < table->count ? &table_entry(table, i)->tensor : NULL;
}

/* A binary search for the first name that is not less: used when names collide beyond reason. */
static const coffer_tensor *table_search(const coffer_table *table, const char *name, size_t name_len)
{
    const uint32_t *by_name = (const uint32_t *)(const void *)((const char *)table + table->slots_at);
    size_t low = 0;
    size_t high = table->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const coffer_tensor *tensor = &table_entry(table, by_name[middle])->tensor;
        if (coffer__compare_names(tensor->name, tensor->name_len, name, name_len) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    const coffer__entry *entry = low < table->count ? table_entry(table, by_name[low]) : NULL;
    return entry != NULL && entry_is_named(entry, name, name_len) ? &entry->tensor : NULL;
}

/* The hash is compared first, so names are compared about once. The search ends at an empty slot;
   there always is one. */
const coffer_tensor *coffer_table_find(const coffer_table *table, const char *name, size_t name_len)
{
    /* No arithmetic and no memcmp on NULL, which a name of no bytes may be. */
    const char *wanted = name_len > 0 ? name : "";
    if (table->slot_count == 0) {
        return table_search(table, wanted, name_len);
    }
    const uint64_t *slots = (const uint64_t *)(const void *)((const char *)table + table->slots_at);
    const uint32_t hash = coffer__hash_name(wanted, name_len);
    const size_t mask = table->slot_count - 1;
    for (size_t at = hash & mask; slots[at] != 0; at = (at + 1) & mask) {
        if ((uint32_t)(slots[at] >> 32) == hash) {
            const coffer__entry *entry = table_entry_at(table, (uint32_t)slots[at]);
            if (entry_is_named(entry, wanted, name_len)) {
                return entry->tensor.shard != COFFER__LEFT_OUT ? &entry->tensor : NULL;
            }
        }
    }
    return NULL;
}

bool coffer_table_has_metadata(const coffer_table *table)
{
    return table->has_metadata;
}

size_t coffer_table_metadata_count(const coffer_table *table)
{
    return table->pair_count;
}

bool coffer_table_metadata_at(const coffer_table *table, size_t i, coffer_pair *pair)
{
    if (i >= table->pair_count) {
        return false;
    }
    const coffer__text_pair *found = table_pair(table, i);
    *pair = (coffer_pair){ pair_key(found), pair_value(found), found->key_len, found->value_len };
    return true;
}

/* `pair_order` is sorted, so this is a binary search for the first key that is not less. */
const char *coffer_table_metadata_get(const coffer_table *table, const char *key, size_t key_len, size_t *value_len)
{
    size_t low = 0;
    size_t high = table->pair_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const coffer__text_pair *pair = table_pair(table, middle);
        if (coffer__compare_names(pair_key(pair), pair->key_len, key, key_len) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    const coffer__text_pair *found = low < table->pair_count ? table_pair(table, low) : NULL;
    if (found == NULL || coffer__compare_names(pair_key(found), found->key_len, key, key_len) != 0) {
        return NULL;
    }
    if (value_len != NULL) {
        *value_len = found->value_len;
    }
    return pair_value(found);
}

coffer_note coffer_table_note(const coffer_table *table, coffer_note_kind kind)
{
    const bool known = (int)kind >= 0 && (int)kind < COFFER_NOTE_COUNT;
    return known ? table->notes[kind] : (coffer_note){ 0, COFFER_NO_OFFSET };
}

uint64_t coffer_table_data_offset(const coffer_table *table)
{
    return table->data_offset;
}

uint64_t coffer_table_data_size(const coffer_table *table)
{
    return table->data_size;
}

uint64_t coffer_table_slack(const coffer_table *table)
{
    return table->slack;
}

const char *coffer_tensor_dtype_name(const coffer_tensor *tensor)
{
    /* An unknown dtype's name follows the shape, with its NUL. */
    return tensor->dtype == COFFER_UNKNOWN_DTYPE ? (const char *)(tensor->shape + tensor->rank)
                                                 : coffer_dtype_name(tensor->dtype);
}

/* Cannot overflow: the same product was checked when the tensor was read (coffer__tensor_bits). */
uint64_t coffer_tensor_elements(const coffer_tensor *tensor)
{
    uint64_t elements = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        elements *= tensor->shape[i];
    }
    return elements;
}
