/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chunks of a dataset, by a tree of version 1:
 *
 *   "TREE" | 1 | level 1 | entries 2 | left 8 | right 8 | key | child 8 | key | child 8 | … | key
 *   key:  stored bytes 4 | filters that were left out 4, a bit each | the chunk's first indices, 8 each, and one more of 0
 *
 * Chunks come in the order of their indices; each has to be there, since what was never written has no bytes.
 */
#include "hdf5.h"

#include "checked.h"
#include "error.h"
#include "filters.h"
#include "grid.h"

#include <string.h>

#define HDF5_MAX_LEVELS 32u

/* A node that is being walked over. */
typedef struct hdf5_level {
    uint64_t at;
    uint32_t entries;
    uint32_t next;
} hdf5_level;

typedef struct hdf5_chunks {
    coffer__hdf5 *h;
    const coffer__hdf5_object *object;
    coffer__import_plan *plan;
    uint32_t rank;
    uint64_t count;      /* of all chunks */
    uint64_t next;       /* the number of the one that comes next */
    uint64_t chunk_size; /* bytes */
    uint64_t grid[COFFER__HDF5_MAX_RANK];
    hdf5_level levels[HDF5_MAX_LEVELS];
    uint32_t depth;
} hdf5_chunks;

/* The filters that a chunk went through, in the order in which they were applied. */
static uint32_t hdf5_filters_of(const coffer__hdf5_object *object, uint32_t mask)
{
    uint32_t filters = 0;
    unsigned count = 0;
    for (uint32_t i = 0; i < object->filter_count; i++) {
        if (!(mask >> i & 1)) {
            filters |= (uint32_t)object->filters[i] << (2 * count++);
        }
    }
    return filters;
}

/* Puts the piece of the next chunk, whose key is at `key`. */
static coffer_status hdf5_put_chunk(hdf5_chunks *chunks, uint64_t at, const uint8_t *key, coffer_error *err)
{
    uint64_t left = chunks->next;
    for (uint32_t i = chunks->rank; i > 0; i--) {
        const uint64_t index = left % chunks->grid[i - 1] * chunks->object->chunk[i - 1];
        left /= chunks->grid[i - 1];
        if (coffer__load_u64le(key + 8 + (size_t)8 * (i - 1)) != index) {
            return coffer__hdf5_refuse(chunks->h, at, "a dataset of which chunks are missing or out of order", err);
        }
    }
    const uint32_t filters = hdf5_filters_of(chunks->object, coffer__load_u32le(key + 4));
    const uint64_t address = coffer__load_u64le(key + 8 + (size_t)8 * (chunks->rank + 1));
    coffer__import_plan_piece piece = {
        .file = chunks->h->file,
        .coding = filters == 0 ? COFFER__CODING_STORED : COFFER__CODING_FILTERED,
        .offset = chunks->h->start + address,
        .stored_size = coffer__load_u32le(key),
        .size = chunks->chunk_size,
    };
    if (filters != 0) {
        piece.as.chunk.filters = filters;
        piece.as.chunk.unit = chunks->object->shuffled > 0 ? chunks->object->shuffled : 1;
    }
    const bool fits = filters == 0 ? piece.stored_size == piece.size : coffer__filters_fit(&piece);
    if (address > chunks->h->size || piece.stored_size > chunks->h->size - address || !fits) {
        return coffer__hdf5_fail(chunks->h, at, "a chunk is not of as many bytes as its filters allow", err);
    }
    chunks->next++;
    return coffer__import_plan_put_piece(chunks->plan, &piece, err);
}

/* Goes down to a node, whose level has to be the one below. */
static coffer_status hdf5_go_down(hdf5_chunks *chunks, uint64_t at, unsigned level, coffer_error *err)
{
    uint8_t head[24];
    const coffer_status status = coffer__hdf5_read_signed(chunks->h, at, "TREE", head, sizeof head, err);
    if (status != COFFER_OK) {
        return status;
    }
    const bool is_next = chunks->depth == 0 ? head[5] < HDF5_MAX_LEVELS : head[5] == level;
    if (head[4] != 1 || !is_next) {
        return coffer__hdf5_fail(chunks->h, at, "a tree of chunks has another level than it should have", err);
    }
    chunks->levels[head[5]] = (hdf5_level){ .at = at, .entries = coffer__load_u16le(head + 6) };
    chunks->depth = head[5] + 1u;
    return COFFER_OK;
}

/* The levels are numbered from the leaves up; `low` is that of the node at hand. */
static coffer_status hdf5_walk_chunks(hdf5_chunks *chunks, coffer_error *err)
{
    uint8_t key[8 + 8 * (COFFER__HDF5_MAX_RANK + 1) + 8];
    const size_t size = 8 + (size_t)8 * (chunks->rank + 1);
    coffer_status status = hdf5_go_down(chunks, chunks->object->at, 0, err);
    const uint32_t top = chunks->depth;
    uint32_t low = top - 1;
    while (status == COFFER_OK && low < top) {
        hdf5_level *level = &chunks->levels[low];
        if (level->next == level->entries) {
            low++;
            continue;
        }
        const uint64_t at = level->at + 24 + (uint64_t)level->next * (size + 8);
        level->next++;
        status = coffer__hdf5_read(chunks->h, at, key, size + 8, err);
        if (status != COFFER_OK) {
            return status;
        }
        if (low > 0) {
            status = hdf5_go_down(chunks, coffer__load_u64le(key + size), low - 1, err);
            low--;
        } else if (chunks->next == chunks->count) {
            return coffer__hdf5_fail(chunks->h, at, "a dataset has more chunks than its sizes", err);
        } else {
            status = hdf5_put_chunk(chunks, at, key, err);
        }
    }
    return status;
}

/* What the header says of the chunks. A dataset without elements has none. */
static const char *hdf5_measure(hdf5_chunks *chunks, coffer__import_plan_dimension *dimensions)
{
    const coffer__hdf5_object *object = chunks->object;
    chunks->count = 1;
    chunks->chunk_size = object->type.size;
    if (object->chunk_rank != chunks->rank + 1 || chunks->rank == 0 ||
        object->chunk[chunks->rank] != object->type.size) {
        return "its chunks have another rank or another size of elements";
    }
    for (uint32_t i = 0; i < chunks->rank; i++) {
        const uint64_t chunk = object->chunk[i];
        const uint64_t size = object->space.sizes[i];
        if (chunk == 0 || !coffer__mul_u64(chunks->chunk_size, chunk, &chunks->chunk_size)) {
            return "its chunks have no size";
        }
        chunks->grid[i] = size / chunk + (size % chunk != 0);
        if (!coffer__mul_u64(chunks->count, chunks->grid[i], &chunks->count)) {
            return "it has too many chunks";
        }
        dimensions[i] = (coffer__import_plan_dimension){ .size = chunks->grid[i] * chunk,
                                                         .count = chunks->grid[i],
                                                         .stride = (int64_t)chunk };
    }
    if (chunks->chunk_size > COFFER__GRID_MAX_CHUNK) {
        return "its chunks are larger than 8 MiB";
    }
    return chunks->count > UINT32_MAX / 2 ? "it has too many chunks" : NULL;
}

coffer_status coffer__hdf5_chunks_put(coffer__hdf5 *h, const coffer__hdf5_object *object, coffer__import_plan *plan,
                                      uint32_t name, coffer__import_plan_dimension *dimensions, uint32_t *storage,
                                      coffer_error *err)
{
    hdf5_chunks chunks = { .h = h, .object = object, .plan = plan, .rank = object->space.rank };
    const char *why = hdf5_measure(&chunks, dimensions);
    size_t name_len = 0;
    const char *text = coffer__import_plan_text(plan, name, &name_len);
    if (why != NULL) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED, "dataset %q of the HDF5 file is not read: %s", text, name_len,
                            why);
    }
    coffer_status status = COFFER_OK;
    if (object->at != COFFER__HDF5_NOWHERE) {
        status = hdf5_walk_chunks(&chunks, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    if (chunks.next != chunks.count) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                            "dataset %q of the HDF5 file is not read: chunks of it were never written", text, name_len);
    }
    return coffer__import_plan_put_grid(plan, (uint32_t)chunks.count, name, chunks.rank, dimensions, object->type.size,
                                        storage, err);
}
