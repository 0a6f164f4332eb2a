/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks are decoded where they are wanted, so nothing is kept and nothing is decoded twice but the block that two reads
 * share. A read goes on in steps:
 *
 *   whole blocks       as many as the stack has space for packed, decoded right into the buffer
 *   part of a block    at either end: decoded aside, and copied
 *
 * Where factors are given, each is that of equally many blocks, as of an expert; whole blocks then end with their factor.
 */
#include "source_blocks.h"

#include "bytes.h"
#include "dtype.h"
#include "gguf_blocks.h"

#include <string.h>

#define BLOCKS_PACKED ((size_t)32 << 10) /* bytes of blocks that are read at once; threads have small stacks */

/* It lies in the space that each source has for its state, so that it needs no memory of its own and nothing to close.
   It is copied out, as that space is bytes without a type. */
typedef struct source_blocks {
    const coffer__byte_source *of;
    const coffer__gguf_type *type;
    uint64_t at; /* of the first block in the other source */
    coffer_dtype dtype;
    const uint8_t *scales; /* F32 at any address; NULL: none */
    uint64_t scaled;       /* blocks of each scale; of all when there is none */
} source_blocks;

static source_blocks source_blocks_of(const coffer__byte_source *source)
{
    source_blocks blocks;
    memcpy(&blocks, source->state.capacity, sizeof blocks);
    return blocks;
}

/* Bytes that a block becomes. All dtypes that blocks become are of whole bytes, and so is a block. */
static size_t blocks_made(const source_blocks *blocks)
{
    return blocks->type->elements * coffer__dtype_info_of(blocks->dtype)->bits / 8;
}

static float blocks_scale(const source_blocks *blocks, uint64_t block)
{
    float scale = 1;
    if (blocks->scales != NULL) {
        const uint32_t bits = coffer__load_u32le(blocks->scales + block / blocks->scaled * sizeof scale);
        memcpy(&scale, &bits, sizeof scale);
    }
    return scale;
}

/* How many whole blocks from `block` on are decoded at once for `size` bytes: what there is space for on the stack, and
   what has the same factor. */
static size_t blocks_together(const source_blocks *blocks, uint64_t block, size_t size)
{
    const uint64_t same = blocks->scaled - block % blocks->scaled;
    const size_t wanted = size / blocks_made(blocks);
    const size_t capacity = BLOCKS_PACKED / blocks->type->size;
    const size_t most = wanted < capacity ? wanted : capacity;
    return same < most ? (size_t)same : most;
}

/* The packed bytes are here at no time longer than this call, so any number of threads may read. */
static coffer_status blocks_read_whole(const source_blocks *blocks, uint64_t first, size_t count, uint8_t *to,
                                       const coffer__watch *watch, coffer_error *err)
{
    uint8_t packed[BLOCKS_PACKED];
    const uint64_t at = blocks->at + first * blocks->type->size;
    const coffer_status status =
        coffer__source_read_watched(blocks->of, at, packed, count * blocks->type->size, watch, err);
    if (status == COFFER_OK) {
        coffer__gguf_decode(blocks->type, packed, count, blocks_scale(blocks, first), blocks->dtype, to);
    }
    return status;
}

/* At most `size` bytes from `skip` on in one block; *done says how many. */
static coffer_status blocks_read_part(const source_blocks *blocks, uint64_t block, size_t skip, uint8_t *to,
                                      size_t size, size_t *done, const coffer__watch *watch, coffer_error *err)
{
    uint8_t made[COFFER__GGUF_BLOCK_MAX * sizeof(float)];
    const size_t left = blocks_made(blocks) - skip;
    const coffer_status status = blocks_read_whole(blocks, block, 1, made, watch, err);
    if (status == COFFER_OK) {
        *done = size < left ? size : left;
        memcpy(to, made + skip, *done);
    }
    return status;
}

/* Reads are not aligned to blocks: those who cut a tensor into pieces know nothing of them. What is read is within
   the source, which the caller has checked, so that no block is beyond its end. */
static coffer_status source_blocks_read_at(const coffer__byte_source *source, uint64_t offset, void *buffer,
                                           size_t size, const coffer__watch *watch, coffer_error *err)
{
    const source_blocks blocks = source_blocks_of(source);
    const size_t made = blocks_made(&blocks);
    uint8_t *to = buffer;
    while (size > 0) {
        const uint64_t block = offset / made;
        const size_t skip = (size_t)(offset % made);
        size_t done = 0;
        coffer_status status = COFFER_OK;
        if (skip == 0 && size >= made) {
            const size_t count = blocks_together(&blocks, block, size);
            done = count * made;
            status = blocks_read_whole(&blocks, block, count, to, watch, err);
        } else {
            status = blocks_read_part(&blocks, block, skip, to, size, &done, watch, err);
        }
        if (status != COFFER_OK) {
            return status;
        }
        offset += done;
        to += done;
        size -= done;
    }
    return COFFER_OK;
}

static void source_blocks_close(coffer__byte_source *source)
{
    (void)source;
}

/* It says of itself what the other source says: reading it is as far, and may call foreign code. It lends no
   descriptor, since the bytes of the file are not its own. */
void coffer__source_blocks(coffer__byte_source *source, const coffer__byte_source *of, const coffer__import_plan *plan,
                           const coffer__import_plan_piece *piece)
{
    static const coffer__source_ops ops = { .kind = "blocks that are decoded",
                                            .read_at = source_blocks_read_at,
                                            .close = source_blocks_close };
    size_t len = 0;
    const char *scales = coffer__import_plan_text(plan, piece->as.blocks.scales, &len);
    const coffer__gguf_type *type = coffer__gguf_type_of(piece->as.blocks.type);
    const uint64_t count = piece->stored_size / type->size;
    source_blocks blocks = { of, type, piece->offset, piece->as.blocks.dtype, NULL, count };
    const uint64_t scale_count = len / sizeof(float);
    if (scale_count > 0) {
        blocks.scales = (const uint8_t *)scales;
        blocks.scaled = count / scale_count;
    }
    const coffer__source_traits traits = { .far = of->is.far, .foreign = of->is.foreign, .unstable = of->is.unstable };
    coffer__source_init(source, &ops, piece->size, traits);
    memcpy(source->state.capacity, &blocks, sizeof blocks);
}
