/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members of archives in memory: what readers look at, which is small beside the tensors. Tensors themselves are
 * never loaded here: the plan has their places, and whoever writes them reads and checks them (decode.c).
 *
 * The caller has space for `size` bytes, and the directory's sizes were compared with the method and the file when the
 * archive was opened. So a member costs as much memory as its caller has decided on, never what its bytes inflate to.
 */
#include "alloc.h"
#include "crc32.h"
#include "error.h"
#include "inflate.h"
#include "zip.h"

#define LOAD_PART ((size_t)16 * 1024)
/* Of a member that is read for its CRC alone. At a URL each part is a round trip. */
#define LOAD_CHECKED_PART ((size_t)256 * 1024)
/* Of a stored member: nearly all heads of arrays are as short as that. */
#define LOAD_USUAL_HEAD 256u

/* A member's stored bytes, part by part. */
typedef struct load_stream {
    const coffer__zip *zip;
    const coffer__input_files *input;
    uint64_t at;
    uint64_t left;
    uint8_t *part;
    size_t part_size;
} load_stream;

/* The next bytes for coffer__inflate; 0 of them at the end of the member, which is how it learns of that. */
static coffer_status load_next(void *ctx, const uint8_t **bytes, size_t *size, coffer_error *err)
{
    load_stream *in = ctx;
    *bytes = in->part;
    *size = in->left < in->part_size ? (size_t)in->left : in->part_size;
    const coffer_status status = coffer__zip_window_read(in->zip->window, in->input, in->at, in->part, *size, err);
    in->at += *size;
    in->left -= *size;
    return status;
}

/* All of the member has to inflate to exactly its size; a beginning only has to be there. */
static coffer_status load_inflated(const coffer__zip *zip, const coffer__input_files *input,
                                   const coffer__zip_member *member, void *bytes, size_t size, coffer_error *err)
{
    load_stream in = {
        .zip = zip, .input = input, .at = member->at, .left = member->stored_size, .part_size = LOAD_PART
    };
    const coffer__inflate_input stream = { &in, load_next };
    in.part = coffer__alloc_array(zip->allocator, LOAD_PART, 1, err);
    if (in.part == NULL) {
        return COFFER_ERR_MEMORY;
    }
    /* A member that inflates to more than its size says fails here; it was never given more space. */
    const coffer_status status = coffer__inflate(&stream, bytes, size, size == member->size, err);
    coffer__free_array(zip->allocator, in.part, LOAD_PART, 1);
    return status;
}

/* What loading the beginning of a member reads: of a deflated one a part of its stored bytes, whatever is wanted. */
static coffer__zip_range load_beginning_of(const void *archive, size_t number)
{
    const coffer__zip *zip = archive;
    const coffer__zip_member *member = &zip->members[number];
    const uint64_t most = member->coding == COFFER__CODING_STORED ? LOAD_USUAL_HEAD : LOAD_PART;
    return (coffer__zip_range){ .at = member->at, .size = member->stored_size < most ? member->stored_size : most };
}

/* Members without a place, which only scans have, end the window: their place is 0, before all others. */
coffer_status coffer__zip_load_ahead(const coffer__zip *zip, const coffer__input_files *input,
                                     const coffer__zip_member *member, coffer_error *err)
{
    if (!member->located) {
        return COFFER_OK;
    }
    return coffer__zip_window_ahead(zip->window, input, (size_t)(member - zip->members), zip->count, load_beginning_of,
                                    zip, err);
}

/* A CRC of 0 where all are 0 was never computed. */
static coffer_status load_judge(const coffer__zip *zip, const coffer__zip_member *member, uint32_t crc,
                                coffer_error *err)
{
    return zip->without_crcs || crc == member->crc
               ? COFFER_OK
               : coffer__fail_at(err, COFFER_ERR_CHECKSUM, member->at,
                                 "the bytes of the archive's member %q have the CRC-32 %x, and the archive records %x: "
                                 "they are damaged",
                                 member->name, member->name_len, (uint64_t)crc, (uint64_t)member->crc);
}

/* Bytes that are in memory as a whole. */
static coffer_status load_check(const coffer__zip *zip, const coffer__zip_member *member, const void *bytes,
                                coffer_error *err)
{
    coffer__crc32 crc32;
    coffer__crc32_open(&crc32, true);
    const uint32_t crc = coffer__crc32_update(&crc32, 0, bytes, (size_t)member->size);
    coffer__crc32_close(&crc32);
    return load_judge(zip, member, crc, err);
}

coffer_status coffer__zip_load(const coffer__zip *zip, const coffer__input_files *input, coffer__zip_member *member,
                               void *bytes, size_t size, coffer_error *err)
{
    coffer_status status = coffer__zip_locate(zip, input, member, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = member->coding == COFFER__CODING_STORED
                 ? coffer__zip_window_read(zip->window, input, member->at, bytes, size, err)
                 : load_inflated(zip, input, member, bytes, size, err);
    /* A beginning has no CRC that could be compared. Readers that peek at one treat it as a hint, or load all
       of it later. */
    return status == COFFER_OK && size == member->size ? load_check(zip, member, bytes, err) : status;
}

/* Part by part, since the member may be larger than what anyone would hold in memory for a checksum. */
coffer_status coffer__zip_check(const coffer__zip *zip, const coffer__input_files *input, coffer__zip_member *member,
                                coffer_error *err)
{
    coffer_status status = coffer__zip_locate(zip, input, member, err);
    const size_t part_size = member->size < LOAD_CHECKED_PART ? (size_t)member->size : LOAD_CHECKED_PART;
    uint8_t *part = status == COFFER_OK ? coffer__alloc_array(zip->allocator, part_size, 1, err) : NULL;
    if (part == NULL) {
        return status == COFFER_OK ? COFFER_ERR_MEMORY : status;
    }
    load_stream in = {
        .zip = zip, .input = input, .at = member->at, .left = member->stored_size, .part = part, .part_size = part_size
    };
    coffer__crc32 crc32;
    coffer__crc32_open(&crc32, true);
    uint32_t crc = 0;
    while (status == COFFER_OK && in.left > 0) {
        const uint8_t *bytes = NULL;
        size_t size = 0;
        status = load_next(&in, &bytes, &size, err);
        crc = status == COFFER_OK ? coffer__crc32_update(&crc32, crc, bytes, size) : crc;
    }
    coffer__crc32_close(&crc32);
    coffer__free_array(zip->allocator, part, part_size, 1);
    return status == COFFER_OK ? load_judge(zip, member, crc, err) : status;
}
