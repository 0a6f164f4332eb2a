/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HDF5's beginning, and reads:
 *
 *   superblock 0:    signature 8 | version 1 | … | bytes of an offset 1 (13), of a length 1 | … | base 8 (24) | free space 8 |
 *                    end 8 | driver 8 | the root as an entry of a symbol table (56): name 8 | header 8 | …
 *   superblock 2, 3: signature 8 | version 1 | bytes of an offset 1 | of a length 1 | flags 1 | base 8 (12) | extension 8 |
 *                    end 8 | root's header 8 (36) | checksum 4
 *
 * Small reads go through a cache of blocks, since headers, nodes and heaps lie near each other: each request may be one to
 * another process or to a server.
 */
#include "hdf5.h"

#include "alloc.h"
#include "error.h"
#include "hdf5_checksum.h"

#include <string.h>

#define HDF5_BLOCK ((size_t)4096)
#define HDF5_SLOTS ((size_t)64)
#define HDF5_MESSAGE ((size_t)65536)
#define HDF5_WORK ((uint64_t)1 << 27)

static const uint8_t hdf5_signature[8] = { 0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n' };

/* ---- failing and reading ----------------------------------------------------------------------------------------- */

/* Places are those in the file, which begins before the member that is being read. */
coffer_status coffer__hdf5_fail(const coffer__hdf5 *h, uint64_t at, const char *what, coffer_error *err)
{
    const uint64_t place = h->start + (at < h->size ? at : h->size);
    return coffer__fail_at(err, COFFER_ERR_DAMAGED, place, "the HDF5 file is damaged at byte %u: %s", place, what);
}

coffer_status coffer__hdf5_refuse(const coffer__hdf5 *h, uint64_t at, const char *what, coffer_error *err)
{
    const uint64_t place = h->start + (at < h->size ? at : h->size);
    return coffer__fail_at(err, COFFER_ERR_UNSUPPORTED, place, "the HDF5 file has %s at byte %u, which is not read",
                           what, place);
}

bool coffer__hdf5_take(coffer__cursor *in, unsigned size, uint64_t *number)
{
    if (size > coffer__left(in)) {
        return false;
    }
    *number = 0;
    for (unsigned i = 0; i < size; i++) {
        *number |= (uint64_t)in->base[in->position + i] << (8 * i);
    }
    in->position += size;
    return true;
}

bool coffer__hdf5_pass(coffer__cursor *in, uint64_t size)
{
    if (size > coffer__left(in)) {
        return false;
    }
    in->position += (size_t)size;
    return true;
}

/* The block that has address `at`, which is within the file. A slot that another block was in is read again. */
static coffer_status hdf5_block(coffer__hdf5 *h, uint64_t at, const uint8_t **bytes, size_t *size, coffer_error *err)
{
    const uint64_t number = at / HDF5_BLOCK;
    const size_t slot = (size_t)(number % HDF5_SLOTS);
    uint8_t *block = h->blocks + slot * HDF5_BLOCK;
    const uint64_t begin = number * HDF5_BLOCK;
    const uint64_t left = h->size - begin;
    const size_t have = left < HDF5_BLOCK ? (size_t)left : HDF5_BLOCK;
    if (h->tags[slot] != number) {
        h->tags[slot] = UINT64_MAX;
        const coffer_status status =
            coffer__input_files_read(h->input, h->file, h->file_size, h->start + begin, block, have, err);
        if (status != COFFER_OK) {
            return status;
        }
        h->tags[slot] = number;
    }
    *bytes = block + (size_t)(at - begin);
    *size = have - (size_t)(at - begin);
    return COFFER_OK;
}

/* What is read is paid for: a file whose parts refer to each other over and over ends here, whatever its shape. */
coffer_status coffer__hdf5_read(coffer__hdf5 *h, uint64_t at, void *bytes, size_t size, coffer_error *err)
{
    const uint64_t price = 1 + size / 64;
    if (at > h->size || size > h->size - at) {
        return coffer__hdf5_fail(h, at, "something reaches beyond its end", err);
    }
    if (price > h->work) {
        return coffer__hdf5_refuse(h, at, "more to read than a file of weights", err);
    }
    h->work -= price;
    for (size_t done = 0; done < size;) {
        const uint8_t *block = NULL;
        size_t have = 0;
        const coffer_status status = hdf5_block(h, at + done, &block, &have, err);
        if (status != COFFER_OK) {
            return status;
        }
        const size_t take = size - done < have ? size - done : have;
        memcpy((uint8_t *)bytes + done, block, take);
        done += take;
    }
    return COFFER_OK;
}

coffer_status coffer__hdf5_read_signed(coffer__hdf5 *h, uint64_t at, const char *signature, uint8_t *bytes, size_t size,
                                       coffer_error *err)
{
    const coffer_status status = coffer__hdf5_read(h, at, bytes, size, err);
    if (status != COFFER_OK) {
        return status;
    }
    return memcmp(bytes, signature, 4) == 0 ? COFFER_OK
                                            : coffer__hdf5_fail(h, at, "an address leads to something else", err);
}

coffer_status coffer__hdf5_verify(coffer__hdf5 *h, uint64_t at, uint64_t size, coffer_error *err)
{
    uint8_t bytes[64 * COFFER__LOOKUP3_STEP];
    coffer__lookup3 state;
    if (at > h->size || size > h->size - at || 4 > h->size - at - size) {
        return coffer__hdf5_fail(h, at, "a block reaches beyond its end", err);
    }
    coffer__lookup3_begin(&state, size);
    for (uint64_t done = 0; done < size;) {
        const size_t take = size - done < sizeof bytes ? (size_t)(size - done) : sizeof bytes;
        const coffer_status status = coffer__hdf5_read(h, at + done, bytes, take, err);
        if (status != COFFER_OK) {
            return status;
        }
        coffer__lookup3_add(&state, bytes, take);
        done += take;
    }
    const coffer_status status = coffer__hdf5_read(h, at + size, bytes, 4, err);
    if (status != COFFER_OK) {
        return status;
    }
    return coffer__load_u32le(bytes) == coffer__lookup3_end(&state)
               ? COFFER_OK
               : coffer__hdf5_fail(h, at, "the checksum of the block there does not match", err);
}

/* ---- the beginning ----------------------------------------------------------------------------------------------- */

bool coffer__hdf5_is(const uint8_t *head, size_t head_size)
{
    return head_size >= sizeof hdf5_signature && memcmp(head, hdf5_signature, sizeof hdf5_signature) == 0;
}

/* The end that the superblock states has to be there: a file that was cut has lost tensors, even if what is left could be
   walked over. What comes after it belongs to nobody. */
static coffer_status hdf5_place(coffer__hdf5 *h, uint64_t base, uint64_t end, uint64_t root, coffer_error *err)
{
    if (base != 0) {
        return coffer__hdf5_refuse(h, 0, "a base address other than 0", err);
    }
    if (end > h->size) {
        coffer__hdf5_fail(h, h->size, "it was cut: its end is missing; get the file again", err);
        return coffer__fail_sizes(err, COFFER_ERR_DAMAGED, end, h->size);
    }
    h->root = root;
    return COFFER_OK;
}

static coffer_status hdf5_superblock(coffer__hdf5 *h, coffer_error *err)
{
    uint8_t head[96] = { 0 };
    const size_t have = h->size < sizeof head ? (size_t)h->size : sizeof head;
    const coffer_status status = coffer__hdf5_read(h, 0, head, have, err);
    if (status != COFFER_OK) {
        return status;
    }
    const unsigned version = head[8];
    const bool old = version == 0;
    if (!coffer__hdf5_is(head, have) || have < (old ? 96 : 48)) {
        return coffer__hdf5_fail(h, 0, "it is too short; get the file again", err);
    }
    if (!old && version != 2 && version != 3) {
        return coffer__fail_at(err, COFFER_ERR_UNSUPPORTED, h->start + 8,
                               "HDF5 with a superblock of version %u, of which only 0, 2 and 3 are read",
                               (uint64_t)version);
    }
    if (head[old ? 13 : 9] != 8 || head[old ? 14 : 10] != 8) {
        return coffer__hdf5_refuse(h, old ? 13 : 9, "addresses that are not 8 bytes wide", err);
    }
    if (!old) {
        const coffer_status same = coffer__hdf5_verify(h, 0, 44, err);
        if (same != COFFER_OK) {
            return same;
        }
    }
    return hdf5_place(h, coffer__load_u64le(head + (old ? 24 : 12)), coffer__load_u64le(head + (old ? 40 : 28)),
                      coffer__load_u64le(head + (old ? 64 : 36)), err);
}

coffer_status coffer__hdf5_open(coffer__hdf5 *h, const coffer__input_files *input, uint32_t file, uint64_t file_size,
                                uint64_t start, uint64_t size, const coffer_allocator *allocator, coffer_error *err)
{
    *h = (coffer__hdf5){ .input = input,
                         .file = file,
                         .file_size = file_size,
                         .start = start,
                         .size = size,
                         .allocator = allocator,
                         .work = HDF5_WORK,
                         .names = { .allocator = allocator } };
    h->blocks = coffer__alloc_array(allocator, HDF5_SLOTS, HDF5_BLOCK, err);
    h->tags = coffer__alloc_array(allocator, HDF5_SLOTS, sizeof *h->tags, err);
    h->message = coffer__alloc_array(allocator, HDF5_MESSAGE, 1, err);
    if (h->blocks == NULL || h->tags == NULL || h->message == NULL) {
        return COFFER_ERR_MEMORY;
    }
    memset(h->tags, 0xff, HDF5_SLOTS * sizeof *h->tags);
    return hdf5_superblock(h, err);
}

void coffer__hdf5_free(coffer__hdf5 *h)
{
    coffer__free_array(h->allocator, h->blocks, HDF5_SLOTS, HDF5_BLOCK);
    coffer__free_array(h->allocator, h->tags, HDF5_SLOTS, sizeof *h->tags);
    coffer__free_array(h->allocator, h->message, HDF5_MESSAGE, 1);
    coffer__free(h->allocator, h->nodes, h->capacity * sizeof *h->nodes);
    coffer__writing_free(&h->names);
}
