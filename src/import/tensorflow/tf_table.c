/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads tables strictly: what two readers could see differently, as a restart that is none, is refused. Blocks begin where the
 * one before them has ended or later, so that no byte is read twice and the work is that of reading the file once.
 */
#include "tf_table.h"

#include "alloc.h"
#include "error.h"
#include "sort.h"
#include "wire.h"

#include <string.h>

#define TF_TRAILER 5u

static const uint8_t tf_magic[8] = { 0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb };

typedef struct tf_handle {
    uint64_t at;
    uint64_t size;
} tf_handle;

typedef struct tf_table {
    const coffer__input_files *input;
    const coffer_allocator *allocator;
    coffer__tf_look *look;
    void *ctx;
    coffer__crc32 crc32c;
    uint64_t end;   /* of the data block before */
    uint8_t *key;   /* of the entry before, of the data blocks; COFFER__TF_MAX_KEY bytes */
    size_t key_len; /* of it */
    bool has_key;
} tf_table;

/* A block in memory. Two are at the same time: that of the index, and one of data. */
typedef struct tf_block {
    uint8_t *bytes;
    size_t size;    /* with what follows the entries */
    size_t entries; /* bytes of them */
    uint64_t at;
} tf_block;

static coffer_status tf_fail(uint64_t at, const char *what, coffer_error *err)
{
    return coffer__fail_at(err, COFFER_ERR_DAMAGED, at, "the checkpoint's index is damaged at byte %u: %s", at, what);
}

bool coffer__tf_table_is(const uint8_t *tail, size_t tail_size)
{
    return tail_size >= COFFER__TF_FOOTER && memcmp(tail + tail_size - sizeof tf_magic, tf_magic, sizeof tf_magic) == 0;
}

bool coffer__tf_varint(coffer__cursor *in, uint64_t *number)
{
    const size_t size = coffer__wire_varint(in->base + in->position, coffer__left(in), number);
    in->position += size;
    return size > 0;
}

uint32_t coffer__tf_unmask(uint32_t masked)
{
    const uint32_t turned = masked - 0xa282ead8u;
    return turned >> 17 | turned << 15;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static bool tf_read_handle(coffer__cursor *in, tf_handle *handle)
{
    return coffer__tf_varint(in, &handle->at) && coffer__tf_varint(in, &handle->size);
}

/* The restarts are at the end, and say how many they are: at least one, unless the block is empty. */
static coffer_status tf_check_block(const tf_table *table, tf_block *block, coffer_error *err)
{
    const size_t size = block->size - TF_TRAILER;
    if (block->bytes[size] != 0) {
        return coffer__fail_at(err, COFFER_ERR_UNSUPPORTED, block->at + size,
                               "the checkpoint's index is compressed, which TensorFlow does not do");
    }
    const uint32_t crc = coffer__crc32_update(&table->crc32c, 0, block->bytes, size + 1);
    const uint32_t stored = coffer__tf_unmask(coffer__load_u32le(block->bytes + size + 1));
    if (crc != stored) {
        coffer__fail_at(
            err, COFFER_ERR_CHECKSUM, block->at,
            "the checkpoint's index is damaged: the block at byte %u has the CRC-32C %x, and %x is recorded", block->at,
            (uint64_t)crc, (uint64_t)stored);
        return coffer__fail_sizes(err, COFFER_ERR_CHECKSUM, stored, crc);
    }
    const uint32_t restarts = size < 4 ? 0 : coffer__load_u32le(block->bytes + size - 4);
    if (size < 4 || restarts > (size - 4) / 4) {
        return tf_fail(block->at, "a block has fewer bytes than restarts", err);
    }
    block->entries = size - 4 - (size_t)restarts * 4;
    return COFFER_OK;
}

static coffer_status tf_read_block(const tf_table *table, const tf_handle *handle, tf_block *block, coffer_error *err)
{
    const uint64_t size = table->input->size;
    if (handle->at > size || size - handle->at < TF_TRAILER || handle->size > size - handle->at - TF_TRAILER) {
        return tf_fail(handle->at < size ? handle->at : size, "a block reaches beyond its end", err);
    }
    if (handle->size > COFFER__TF_MAX_BLOCK) {
        return coffer__fail_at(err, COFFER_ERR_UNSUPPORTED, handle->at, "the checkpoint's index has a block of %z",
                               handle->size);
    }
    block->at = handle->at;
    block->size = (size_t)handle->size + TF_TRAILER;
    block->bytes = coffer__alloc_array(table->allocator, block->size, 1, err);
    if (block->bytes == NULL) {
        return COFFER_ERR_MEMORY;
    }
    const coffer_status status =
        coffer__input_files_read(table->input, 0, size, block->at, block->bytes, block->size, err);
    return status == COFFER_OK ? tf_check_block(table, block, err) : status;
}

static void tf_free_block(const tf_table *table, tf_block *block)
{
    coffer__free_array(table->allocator, block->bytes, block->size, 1);
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

/* A walk over the entries of a block. The key is put together in `key`. */
typedef struct tf_walk {
    const tf_block *block;
    coffer__cursor in;
    size_t restart; /* the number of the next one */
    uint8_t *key;
    size_t key_len;
} tf_walk;

/* Whether an entry at this place is a restart; restarts lead to entries, in order. */
static bool tf_at_restart(tf_walk *walk)
{
    const tf_block *block = walk->block;
    const size_t at = block->entries + walk->restart * 4;
    const bool is_restart =
        at + 4 + TF_TRAILER < block->size && coffer__load_u32le(block->bytes + at) == walk->in.position;
    walk->restart += is_restart;
    return is_restart;
}

/* The next entry; its key is in walk->key. */
static coffer_status tf_next(tf_walk *walk, coffer__tf_entry *entry, coffer_error *err)
{
    const uint64_t at = walk->block->at + walk->in.position;
    const bool first = walk->in.position == 0;
    const bool is_restart = tf_at_restart(walk);
    uint64_t shared = 0;
    uint64_t more = 0;
    uint64_t size = 0;
    if (!coffer__tf_varint(&walk->in, &shared) || !coffer__tf_varint(&walk->in, &more) ||
        !coffer__tf_varint(&walk->in, &size)) {
        return tf_fail(at, "an entry is cut", err);
    }
    if (shared > walk->key_len || ((first || is_restart) && shared != 0)) {
        return tf_fail(at, "a key shares more with the one before it than that has", err);
    }
    if (more > coffer__left(&walk->in) || size > coffer__left(&walk->in) - more || more > COFFER__TF_MAX_KEY - shared) {
        return tf_fail(at, "an entry reaches beyond its block", err);
    }
    memcpy(walk->key + shared, walk->in.base + walk->in.position, (size_t)more);
    walk->key_len = (size_t)(shared + more);
    walk->in.position += (size_t)more;
    *entry = (coffer__tf_entry){ .key = walk->key,
                                 .key_len = walk->key_len,
                                 .value = { .base = walk->in.base + walk->in.position, .length = (size_t)size },
                                 .at = walk->block->at + walk->in.position };
    walk->in.position += (size_t)size;
    return COFFER_OK;
}

/* A restart that was not met leads into an entry: who begins to read there sees other keys. */
static coffer_status tf_check_restarts(const tf_walk *walk, coffer_error *err)
{
    const tf_block *block = walk->block;
    const size_t count = (block->size - TF_TRAILER - 4 - block->entries) / 4;
    const bool is_empty = block->entries == 0 && count <= 1;
    return walk->restart == count || is_empty ? COFFER_OK : tf_fail(block->at, "a restart leads to no entry", err);
}

/* Each key comes after the one before it, also that of another block. */
static coffer_status tf_in_order(tf_table *table, const coffer__tf_entry *entry, const uint8_t *before,
                                 size_t before_len, coffer_error *err)
{
    if (table->has_key &&
        coffer__compare_names((const char *)before, before_len, (const char *)entry->key, entry->key_len) >= 0) {
        return tf_fail(entry->at, "keys are not in order, or one comes twice", err);
    }
    table->has_key = true;
    return COFFER_OK;
}

/* The key before is in table->key, and the walk changes it in place; so it is kept in the other half first. */
static coffer_status tf_read_data(tf_table *table, const tf_block *block, coffer_error *err)
{
    tf_walk walk = { .block = block, .in = { .base = block->bytes, .length = block->entries }, .key = table->key };
    uint8_t *before = table->key + COFFER__TF_MAX_KEY;
    coffer_status status = COFFER_OK;
    size_t before_len = table->key_len;
    memcpy(before, table->key, before_len);
    while (coffer__left(&walk.in) > 0) {
        coffer__tf_entry entry;
        status = tf_next(&walk, &entry, err);
        if (status != COFFER_OK) {
            return status;
        }
        status = tf_in_order(table, &entry, before, before_len, err);
        if (status != COFFER_OK) {
            return status;
        }
        status = table->look(table->ctx, &entry, err);
        if (status != COFFER_OK) {
            return status;
        }
        before_len = entry.key_len;
        memcpy(before, entry.key, before_len);
        table->key_len = before_len;
    }
    return tf_check_restarts(&walk, err);
}

static coffer_status tf_read_by_handle(tf_table *table, coffer__tf_entry *entry, coffer_error *err)
{
    tf_handle handle = { 0 };
    tf_block block = { 0 };
    if (!tf_read_handle(&entry->value, &handle) || handle.at < table->end) {
        return tf_fail(entry->at, "a block is not where one can be", err);
    }
    coffer_status status = tf_read_block(table, &handle, &block, err);
    if (status == COFFER_OK) {
        table->end = handle.at + block.size;
        status = tf_read_data(table, &block, err);
    }
    tf_free_block(table, &block);
    return status;
}

/* The keys of the index lie between those of the blocks; what they are does not matter to who reads all of them. */
static coffer_status tf_read_index(tf_table *table, const tf_block *index, coffer_error *err)
{
    tf_walk walk = { .block = index,
                     .in = { .base = index->bytes, .length = index->entries },
                     .key = table->key + 2 * COFFER__TF_MAX_KEY };
    while (coffer__left(&walk.in) > 0) {
        coffer__tf_entry entry;
        coffer_status status = tf_next(&walk, &entry, err);
        if (status != COFFER_OK) {
            return status;
        }
        status = tf_read_by_handle(table, &entry, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return tf_check_restarts(&walk, err);
}

/* The other handle is of a block about blocks, which is empty in every checkpoint. */
static coffer_status tf_read_footer(const tf_table *table, tf_handle *other, tf_handle *index, coffer_error *err)
{
    uint8_t footer[COFFER__TF_FOOTER];
    const uint64_t size = table->input->size;
    if (size < sizeof footer) {
        return tf_fail(0, "it is too short; get the file again", err);
    }
    const coffer_status status =
        coffer__input_files_read(table->input, 0, size, size - sizeof footer, footer, sizeof footer, err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer__cursor in = { .base = footer, .length = sizeof footer - sizeof tf_magic };
    if (!coffer__tf_table_is(footer, sizeof footer) || !tf_read_handle(&in, other) || !tf_read_handle(&in, index)) {
        return tf_fail(size - sizeof footer, "its footer is not one", err);
    }
    return COFFER_OK;
}

coffer_status coffer__tf_table_read(const coffer__input_files *input, const coffer_allocator *allocator,
                                    coffer__tf_look *look, void *ctx, coffer_error *err)
{
    tf_table *table = coffer__alloc_array(allocator, 1, sizeof *table, err);
    uint8_t *keys = coffer__alloc_array(allocator, COFFER__TF_MAX_KEY, 3, err);
    tf_handle handle = { 0 };
    tf_handle about = { 0 };
    tf_block index = { 0 };
    tf_block other = { 0 };
    coffer_status status = COFFER_ERR_MEMORY;
    if (table == NULL || keys == NULL) {
        goto done;
    }
    *table = (tf_table){ .input = input, .allocator = allocator, .look = look, .ctx = ctx, .key = keys };
    coffer__crc32c_open(&table->crc32c, false);
    status = tf_read_footer(table, &about, &handle, err);
    if (status != COFFER_OK) {
        goto done;
    }
    /* Nothing in the block about blocks matters, but that it is not damaged. */
    status = tf_read_block(table, &about, &other, err);
    tf_free_block(table, &other);
    if (status != COFFER_OK) {
        goto done;
    }
    status = tf_read_block(table, &handle, &index, err);
    if (status == COFFER_OK) {
        status = tf_read_index(table, &index, err);
    }
    tf_free_block(table, &index);
done:
    coffer__free_array(allocator, keys, COFFER__TF_MAX_KEY, 3);
    coffer__free_array(allocator, table, 1, sizeof *table);
    return status;
}
