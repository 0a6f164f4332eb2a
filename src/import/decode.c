/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One piece after the other. Each is stored, text or deflated; what is read of it passes through
 * `packed`, unless it is stored, and goes straight to the caller then.
 *
 * A piece says how many bytes it has packed and plain, and both are claims of the file. The plan's
 * check has bounded them (by the file's size, and by what deflate can make of a byte), so they may
 * be used to allocate up to COFFER__DECODE_WHOLE. Whether they are true is found out here: a
 * deflated piece must end where the plan says that it does, on both sides, and no byte may be left
 * over. Otherwise two programs could read different tensors from the same archive.
 *
 * The libraries are trusted to stay within the lengths that they are given, and with nothing else:
 * how much they took and made is compared with what should have been.
 */
#include "decode.h"

#include "alloc.h"
#include "bytes.h"
#include "decode_numbers.h"
#include "dtype.h"
#include "error.h"
#include "filters.h"
#include "inflate.h"
#include "pickle_text.h"

#include <limits.h>
#include <string.h>

#define DECODE_READ ((size_t)256 << 10)
#define ZLIB_OK 0
#define ZLIB_STREAM_END 1
#define ZLIB_BUFFER_ERROR (-5)

/* The piece that is being decoded. Only while `piece` is below the storage's count. */
static const coffer__import_plan_piece *decode_piece(const coffer__decoder *decode)
{
    return coffer__import_plan_pieces(decode->plan) + decode->storage->first + decode->piece;
}

/* What messages call the storage. */
static const char *decode_name(const coffer__decoder *decode, size_t *name_len)
{
    return coffer__import_plan_text(decode->plan, decode->storage->name, name_len);
}

/* The failure of a piece whose bytes are not what the archive says of them. */
static coffer_status decode_damaged(const coffer__decoder *decode, const char *what, coffer_error *err)
{
    size_t name_len = 0;
    const char *name = decode_name(decode, &name_len);
    const coffer__import_plan_piece *piece = decode_piece(decode);
    return coffer__fail_at(err, COFFER_ERR_DAMAGED, piece->offset, "%q, at byte %u, %s", name, name_len, piece->offset,
                           what);
}

coffer_status coffer__decode_mismatch(const coffer__import_plan *plan, const coffer__import_plan_storage *storage,
                                      const coffer__import_plan_piece *piece, uint32_t actual, coffer_error *err)
{
    size_t name_len = 0;
    const char *name = coffer__import_plan_text(plan, storage->name, &name_len);
    coffer__fail_at(err, COFFER_ERR_CHECKSUM, piece->offset,
                    "%q, at byte %u, has the %s %x, and the %s records %x: its bytes are damaged", name, name_len,
                    piece->offset, piece->crc_kind == COFFER__CRC_32C ? "CRC-32C" : "CRC-32", (uint64_t)actual,
                    piece->crc_kind == COFFER__CRC_32C ? "checkpoint" : "archive", (uint64_t)piece->crc);
    return coffer__fail_sizes(err, COFFER_ERR_CHECKSUM, piece->crc, actual);
}

void coffer__crcs_open(coffer__crcs *crcs)
{
    coffer__crc32_open(&crcs->crc32, false);
    coffer__crc32c_open(&crcs->crc32c, false);
}

void coffer__crcs_close(coffer__crcs *crcs)
{
    coffer__crc32_close(&crcs->crc32);
    coffer__crc32_close(&crcs->crc32c);
}

const coffer__crc32 *coffer__crc_of(const coffer__crcs *crcs, const coffer__import_plan_piece *piece)
{
    return piece->crc_kind == COFFER__CRC_32C ? &crcs->crc32c : &crcs->crc32;
}

/* ---- libraries --------------------------------------------------------------------------------------------------- */

/* All functions of a library or none. */
static void decode_look(coffer__inflaters *inflaters)
{
    coffer__os_library *zlib = &inflaters->zlib_library;
    coffer__os_library *deflate = &inflaters->deflate_library;
    inflaters->looked = true;
    if (coffer__os_library_open(deflate, "libdeflate.so.0") &&
        !(coffer__os_library_find(deflate, "libdeflate_alloc_decompressor", &inflaters->deflate_new) &&
          coffer__os_library_find(deflate, "libdeflate_deflate_decompress_ex", &inflaters->deflate_decompress) &&
          coffer__os_library_find(deflate, "libdeflate_free_decompressor", &inflaters->deflate_free))) {
        coffer__os_library_close(deflate);
    }
    if (coffer__os_library_open(zlib, "libz.so.1") &&
        !(coffer__os_library_find(zlib, "inflateInit2_", &inflaters->zlib_init) &&
          coffer__os_library_find(zlib, "inflate", &inflaters->zlib_inflate) &&
          coffer__os_library_find(zlib, "inflateEnd", &inflaters->zlib_end))) {
        coffer__os_library_close(zlib);
    }
}

/* Also for inflaters that were never looked for. */
void coffer__inflaters_close(coffer__inflaters *inflaters)
{
    if (inflaters->zlib_library.handle != NULL) {
        coffer__os_library_close(&inflaters->zlib_library);
    }
    if (inflaters->deflate_library.handle != NULL) {
        coffer__os_library_close(&inflaters->deflate_library);
    }
}

/* zlib frees without a size, which the caller's allocator wants: it stands before the block. */
#define DECODE_BLOCK_HEAD 16

/* Both factors are 32 bits wide, so the product fits 64. The head is as large as the strictest alignment, so what follows it is aligned as the block is. */
static void *decode_zlib_alloc(void *opaque, unsigned items, unsigned size)
{
    const uint64_t bytes = (uint64_t)items * size + DECODE_BLOCK_HEAD;
    uint8_t *block = bytes <= UINT_MAX ? coffer__alloc(opaque, (size_t)bytes) : NULL;
    if (block == NULL) {
        return NULL;
    }
    memcpy(block, &bytes, sizeof bytes);
    return block + DECODE_BLOCK_HEAD;
}

static void decode_zlib_free(void *opaque, void *address)
{
    uint8_t *block = (uint8_t *)address - DECODE_BLOCK_HEAD;
    uint64_t bytes = 0;
    memcpy(&bytes, block, sizeof bytes);
    coffer__free(opaque, block, (size_t)bytes);
}

/* ---- a piece's state --------------------------------------------------------------------------------------------- */

/* Names the storage, as all failures here do. */
static coffer_status decode_no_memory(const coffer__decoder *decode, coffer_error *err)
{
    size_t name_len = 0;
    const char *name = decode_name(decode, &name_len);
    return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to decode %q", name, name_len);
}

/* Releases the state of a piece, whether it was finished or given up. It may be called again. */
static void decode_close_piece(coffer__decoder *decode)
{
    if (decode->streams) {
        (void)decode->inflaters->zlib_end(&decode->stream);
    }
    coffer__free(decode->allocator, decode->packed, decode->packed_size);
    coffer__free(decode->allocator, decode->plain, decode->plain_size);
    decode->packed = NULL;
    decode->plain = NULL;
    decode->packed_size = 0;
    decode->plain_size = 0;
    decode->streams = false;
    decode->open = false;
}

/* Reads the next stored bytes of the piece to `packed`, as many as there is space for. */
static coffer_status decode_read(coffer__decoder *decode, coffer_error *err)
{
    const coffer__import_plan_piece *piece = decode_piece(decode);
    const uint64_t left = piece->stored_size - decode->taken;
    const size_t size = left < decode->packed_size ? (size_t)left : decode->packed_size;
    decode->packed_at = 0;
    decode->packed_end = size;
    if (size == 0) {
        return COFFER_OK;
    }
    const coffer_status status = coffer__source_read(coffer__input_source(decode->input, piece->file),
                                                     piece->offset + decode->taken, decode->packed, size, err);
    decode->taken += size;
    return status;
}

/* All packed bytes, once. */
static coffer_status decode_next_packed(void *ctx, const uint8_t **bytes, size_t *size, coffer_error *err)
{
    coffer__decoder *decode = ctx;
    (void)err;
    *bytes = decode->packed + decode->packed_at;
    *size = decode->packed_end - decode->packed_at;
    decode->packed_at = decode->packed_end;
    return COFFER_OK;
}

/* Inflates what was read by the code of this library, which is slower than theirs. */
static coffer_status decode_inflate_alone(coffer__decoder *decode, coffer_error *err)
{
    const coffer__inflate_input input = { .ctx = decode, .next = decode_next_packed };
    return coffer__inflate(&input, decode->plain, (size_t)decode_piece(decode)->size, true, err);
}

/* The library takes the piece at once and says how much it took and made. A decompressor is made
   for each piece: that costs a fraction of inflating it, and none is left to release after a
   failure. */
static coffer_status decode_inflate_by_libdeflate(coffer__decoder *decode, coffer_error *err)
{
    const coffer__import_plan_piece *piece = decode_piece(decode);
    size_t made = 0;
    size_t taken = 0;
    void *decompressor = decode->inflaters->deflate_new();
    if (decompressor == NULL) {
        return decode_no_memory(decode, err);
    }
    /* With space for one byte more than there should be, a member that is longer is told from one that fits. */
    const int result = decode->inflaters->deflate_decompress(decompressor, decode->packed, (size_t)piece->stored_size,
                                                             decode->plain, (size_t)piece->size + 1, &taken, &made);
    decode->inflaters->deflate_free(decompressor);
    return result == 0 && made == piece->size && taken == piece->stored_size
               ? COFFER_OK
               : decode_damaged(decode, "does not inflate to as many bytes as the archive says", err);
}

/* Inflates a small piece at once. There is space for one byte more, which must stay unused:
   libdeflate fills it when the piece is longer than it should be. */
static coffer_status decode_inflate_whole(coffer__decoder *decode, coffer_error *err)
{
    decode->plain_size = (size_t)decode_piece(decode)->size + 1;
    decode->plain = coffer__alloc(decode->allocator, decode->plain_size);
    if (decode->plain == NULL) {
        return decode_no_memory(decode, err);
    }
    const coffer_status status = decode_read(decode, err);
    if (status != COFFER_OK) {
        return status;
    }
    return decode->inflaters->deflate_library.handle != NULL ? decode_inflate_by_libdeflate(decode, err)
                                                             : decode_inflate_alone(decode, err);
}

/* Chooses who inflates: libdeflate what is small, as it is faster but needs all of a
   piece at once; zlib everything else; this library's own code what is small when neither is
   installed. What is large then has nobody, and the message says what is missing. */
static coffer_status decode_open_deflated(coffer__decoder *decode, coffer_error *err)
{
    coffer__inflaters *inflaters = decode->inflaters;
    const coffer__import_plan_piece *piece = decode_piece(decode);
    if (!inflaters->looked && !inflaters->alone) {
        decode_look(inflaters);
    }
    const bool small = piece->size <= COFFER__DECODE_WHOLE && piece->stored_size <= COFFER__DECODE_WHOLE;
    const bool alone = inflaters->deflate_library.handle == NULL && inflaters->zlib_library.handle == NULL;
    if (small && (inflaters->deflate_library.handle != NULL || alone)) {
        return decode_inflate_whole(decode, err);
    }
    if (inflaters->zlib_library.handle == NULL) {
        size_t name_len = 0;
        const char *name = decode_name(decode, &name_len);
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED, "%q is compressed, and inflating it needs zlib: %s", name,
                            name_len,
                            coffer__os_choose("libz.so.1 cannot be loaded here",
                                              "none is loaded on Windows, so save it without compression"));
    }
    decode->stream = (coffer__zlib_stream){ .zalloc = decode_zlib_alloc, .zfree = decode_zlib_free };
    /* zlib hands the pointer back to the two functions above, which only read what it leads to. */
    memcpy(&decode->stream.opaque, &decode->allocator, sizeof(void *));
    /* A negative number of window bits means deflate without the head and checksum of zlib, as
       archives have it. The version is compared by its first digit only. */
    if (inflaters->zlib_init(&decode->stream, -15, "1", (int)sizeof decode->stream) != ZLIB_OK) {
        return decode_no_memory(decode, err);
    }
    decode->streams = true;
    return COFFER_OK;
}

/* ---- what went through filters ----------------------------------------------------------------------------------- */

/* Bytes in memory that are undone filter by filter. */
typedef struct decode_undoing {
    const uint8_t *bytes;
    size_t size;
    uint8_t *capacities[2]; /* by turns: what is read and what is written are never the same */
    unsigned next;
} decode_undoing;

/* All bytes, once. */
static coffer_status decode_next_of_chunk(void *ctx, const uint8_t **bytes, size_t *size, coffer_error *err)
{
    coffer__cursor *in = ctx;
    (void)err;
    *bytes = in->base + in->position;
    *size = coffer__left(in);
    in->position = in->length;
    return COFFER_OK;
}

/* Raw deflate in memory, which has to become `size` bytes and be used up. There is space for one more. */
static bool decode_inflate_chunk(coffer__decoder *decode, coffer__cursor in, uint8_t *out, size_t size)
{
    coffer__inflaters *inflaters = decode->inflaters;
    if (!inflaters->looked && !inflaters->alone) {
        decode_look(inflaters);
    }
    if (inflaters->deflate_library.handle == NULL) {
        const coffer__inflate_input input = { .ctx = &in, .next = decode_next_of_chunk };
        return coffer__inflate(&input, out, size, true, NULL) == COFFER_OK;
    }
    size_t made = 0;
    size_t taken = 0;
    void *decompressor = inflaters->deflate_new();
    if (decompressor == NULL) {
        return false;
    }
    const int result = inflaters->deflate_decompress(decompressor, in.base, in.length, out, size + 1, &taken, &made);
    inflaters->deflate_free(decompressor);
    return result == 0 && made == size && taken == in.length;
}

/* What zlib makes: two bytes, raw deflate, and a checksum of what comes out, the highest byte first. */
static bool decode_undo_deflate(coffer__decoder *decode, decode_undoing *chunk, size_t size)
{
    const uint8_t *bytes = chunk->bytes;
    uint8_t *out = chunk->capacities[chunk->next];
    if (chunk->size < 6 || (bytes[0] & 15) != 8 || (bytes[0] * 256u + bytes[1]) % 31 != 0 || (bytes[1] & 32) != 0) {
        return false;
    }
    const coffer__cursor in = { .base = bytes + 2, .length = chunk->size - 6 };
    const uint8_t *sum = bytes + chunk->size - 4;
    if (!decode_inflate_chunk(decode, in, out, size) ||
        coffer__adler32(out, size) != __builtin_bswap32(coffer__load_u32le(sum))) {
        return false;
    }
    chunk->bytes = out;
    chunk->size = size;
    chunk->next ^= 1;
    return true;
}

/* Undoes one filter; `more` is what the filters before it have added to the chunk's bytes. */
static bool decode_undo(coffer__decoder *decode, decode_undoing *chunk, unsigned filter, size_t more)
{
    const coffer__import_plan_piece *piece = decode_piece(decode);
    switch (filter) {
    case COFFER__FILTER_DEFLATE:
        return decode_undo_deflate(decode, chunk, (size_t)piece->size + more);
    case COFFER__FILTER_SHUFFLE:
        coffer__unshuffle(chunk->capacities[chunk->next], chunk->bytes, chunk->size, piece->as.chunk.unit);
        chunk->bytes = chunk->capacities[chunk->next];
        chunk->next ^= 1;
        return true;
    default:
        if (chunk->size < 4 ||
            coffer__fletcher32(chunk->bytes, chunk->size - 4) != coffer__load_u32le(chunk->bytes + chunk->size - 4)) {
            return false;
        }
        chunk->size -= 4;
        return true;
    }
}

/* The filters are undone from the last that was applied to the first. */
static bool decode_undo_all(coffer__decoder *decode, decode_undoing *chunk)
{
    const coffer__import_plan_piece *piece = decode_piece(decode);
    for (unsigned k = COFFER__FILTERS_MAX; k > 0; k--) {
        const unsigned filter = coffer__filter_at(piece->as.chunk.filters, k - 1);
        size_t more = 0;
        for (unsigned i = 0; i + 1 < k; i++) {
            more += coffer__filter_at(piece->as.chunk.filters, i) == COFFER__FILTER_FLETCHER32 ? 4 : 0;
        }
        if (filter != COFFER__FILTER_NONE && !decode_undo(decode, chunk, filter, more)) {
            return false;
        }
    }
    return chunk->size == piece->size;
}

/* A chunk is small, and is undone at once. */
static coffer_status decode_open_filtered(coffer__decoder *decode, coffer_error *err)
{
    const coffer__import_plan_piece *piece = decode_piece(decode);
    const size_t most = (size_t)(piece->size > piece->stored_size ? piece->size : piece->stored_size);
    decode->plain_size = most + COFFER__FILTERS_CAPACITY;
    decode->plain = coffer__alloc(decode->allocator, decode->plain_size);
    uint8_t *other = coffer__alloc(decode->allocator, decode->plain_size);
    coffer_status status = COFFER_OK;
    if (decode->plain == NULL || other == NULL) {
        status = decode_no_memory(decode, err);
    }
    if (status == COFFER_OK) {
        status = decode_read(decode, err);
    }
    decode_undoing chunk = { decode->packed, (size_t)piece->stored_size, { decode->plain, other }, 0 };
    if (status == COFFER_OK && !decode_undo_all(decode, &chunk)) {
        status = decode_damaged(decode, "is a chunk whose filters cannot be undone", err);
    }
    if (status == COFFER_OK && chunk.bytes != decode->plain) {
        memcpy(decode->plain, chunk.bytes, chunk.size);
    }
    coffer__free(decode->allocator, other, decode->plain_size);
    return status;
}

/* Begins a piece. All of a small deflated one is read at once, so `packed` is as large as that; any
   other one passes through in blocks of DECODE_READ. */
static coffer_status decode_open_piece(coffer__decoder *decode, coffer_error *err)
{
    const coffer__import_plan_piece *piece = decode_piece(decode);
    decode->open = true;
    decode->taken = 0;
    decode->made = 0;
    decode->crc = 0;
    decode->packed_at = 0;
    decode->packed_end = 0;
    decode->element_left = 0;
    if (piece->coding == COFFER__CODING_STORED) {
        return COFFER_OK;
    }
    const bool packed = piece->coding == COFFER__CODING_DEFLATED || piece->coding == COFFER__CODING_FILTERED;
    const bool whole = packed && piece->stored_size <= COFFER__DECODE_WHOLE;
    decode->packed_size = whole && piece->stored_size > DECODE_READ ? (size_t)piece->stored_size : DECODE_READ;
    decode->packed = coffer__alloc(decode->allocator, decode->packed_size);
    if (decode->packed == NULL) {
        return decode_no_memory(decode, err);
    }
    if (piece->coding == COFFER__CODING_FILTERED) {
        return decode_open_filtered(decode, err);
    }
    return piece->coding == COFFER__CODING_DEFLATED ? decode_open_deflated(decode, err) : COFFER_OK;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

/* Nothing to decode: the bytes go from the source to the caller without a copy. */
static coffer_status decode_stored(coffer__decoder *decode, uint8_t *bytes, size_t size, coffer_error *err)
{
    const coffer__import_plan_piece *piece = decode_piece(decode);
    return coffer__source_read(coffer__input_source(decode->input, piece->file), piece->offset + decode->made, bytes,
                               size, err);
}

/*
 * A character below U+0080 is its byte; those up to U+00FF are two bytes, 0xC2 or 0xC3 and the low
 * six bits. Any other byte is an error, as protocols 0 to 2 of pickle write bytes in this way only.
 *
 * The two bytes of a character may lie in different blocks, so the first is kept in `lead`; 0x100,
 * which no byte is, marks an error. They never lie in different calls: a character is one plain
 * byte, and a call ends after a plain byte.
 */
static coffer_status decode_latin1(coffer__decoder *decode, uint8_t *bytes, size_t size, coffer_error *err)
{
    size_t done = 0;
    unsigned lead = 0;
    while (done < size) {
        if (decode->packed_at == decode->packed_end) {
            const coffer_status status = decode_read(decode, err);
            if (status != COFFER_OK) {
                return status;
            }
            if (decode->packed_end == 0) {
                break;
            }
        }
        const uint8_t byte = decode->packed[decode->packed_at++];
        if (lead == 0 && byte < 0x80) {
            bytes[done++] = byte;
        } else if (lead == 0 && (byte == 0xC2 || byte == 0xC3)) {
            lead = byte;
        } else if (lead != 0 && (byte & 0xC0) == 0x80) {
            bytes[done++] = (uint8_t)((lead & 3) << 6 | (byte & 0x3F));
            lead = 0;
        } else {
            lead = 0x100;
            break;
        }
    }
    if (done == size) {
        return COFFER_OK;
    }
    const uint64_t at = decode_piece(decode)->offset + decode->taken - (decode->packed_end - decode->packed_at);
    size_t name_len = 0;
    const char *name = decode_name(decode, &name_len);
    return coffer__fail_at(err, COFFER_ERR_PICKLE, at, "the bytes of %q are text that %s at byte %u", name, name_len,
                           lead == 0x100 ? "has a character that is no byte" : "is shorter than the array", at);
}

/* Has enough packed bytes for one number, or all that there are: those that are left move to the beginning. */
static coffer_status decode_fill(coffer__decoder *decode, coffer_error *err)
{
    const size_t left = decode->packed_end - decode->packed_at;
    const uint64_t more = decode_piece(decode)->stored_size - decode->taken;
    uint8_t kept[COFFER__NUMBER_MAX];
    if (left >= COFFER__NUMBER_MAX || more == 0) {
        return COFFER_OK;
    }
    memcpy(kept, decode->packed + decode->packed_at, left);
    decode->packed_size -= left;
    decode->packed += left;
    const coffer_status status = decode_read(decode, err);
    decode->packed -= left;
    decode->packed_size += left;
    memcpy(decode->packed, kept, left);
    decode->packed_end += left;
    return status;
}

/* Decodes what the packed bytes begin with; how many of them it takes, 0 when it is wrong. */
static size_t decode_element(coffer__decoder *decode)
{
    const coffer__import_plan_piece *piece = decode_piece(decode);
    const uint8_t *packed = decode->packed + decode->packed_at;
    const size_t size = decode->packed_end - decode->packed_at;
    if (piece->coding == COFFER__CODING_NUMBERS) {
        decode->element_size = coffer__dtype_info_of(piece->as.numbers.dtype)->bits / 8u;
        return coffer__number_decode(piece, packed, size, decode->element);
    }
    return coffer__pickle_byte(piece->coding == COFFER__CODING_QUOTED, (const char *)packed, size,
                               (char *)decode->element, &decode->element_size);
}

/* Elements do not end where calls do, so what a call has no space for is kept for the next one. */
static coffer_status decode_elements(coffer__decoder *decode, uint8_t *bytes, size_t size, coffer_error *err)
{
    size_t done = 0;
    while (done < size) {
        if (decode->element_left == 0) {
            const coffer_status status = decode_fill(decode, err);
            if (status != COFFER_OK) {
                return status;
            }
            const size_t taken = decode_element(decode);
            if (taken == 0) {
                return decode_damaged(decode,
                                      decode_piece(decode)->coding == COFFER__CODING_NUMBERS
                                          ? "has a number that does not fit its dtype, or fewer than its shape"
                                          : "has an escape that is no byte, or fewer bytes than its shape",
                                      err);
            }
            decode->packed_at += taken;
            decode->element_left = decode->element_size;
        }
        const size_t take = size - done < decode->element_left ? size - done : decode->element_left;
        memcpy(bytes + done, decode->element + decode->element_size - decode->element_left, take);
        decode->element_left -= take;
        done += take;
    }
    return COFFER_OK;
}

/* Inflates up to `capacity` bytes, and reads what is packed when none of it is left. *result is what zlib says, and the
   stream's avail_out the space that is left. Where the piece ends before the stream does, zlib gets no bytes, cannot go
   on, and says that: so the loops around this end. */
static coffer_status decode_step(coffer__decoder *decode, uint8_t *bytes, unsigned capacity, int *result,
                                 coffer_error *err)
{
    coffer__zlib_stream *stream = &decode->stream;
    if (decode->packed_at == decode->packed_end) {
        const coffer_status status = decode_read(decode, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    stream->next_in = decode->packed + decode->packed_at;
    stream->avail_in = (unsigned)(decode->packed_end - decode->packed_at);
    stream->next_out = bytes;
    stream->avail_out = capacity;
    *result = decode->inflaters->zlib_inflate(stream, 0);
    decode->packed_at = decode->packed_end - stream->avail_in;
    return COFFER_OK;
}

/* Bytes of a piece that was decoded at once, when it was opened. */
static void decode_copy_plain(const coffer__decoder *decode, uint8_t *bytes, size_t size)
{
    if (decode->plain != NULL) {
        memcpy(bytes, decode->plain + (size_t)decode->made, size);
    }
}

/* The next plain bytes of a deflated piece: copied, when it was inflated at once, else inflated
   now. */
static coffer_status decode_deflated(coffer__decoder *decode, uint8_t *bytes, size_t size, coffer_error *err)
{
    if (decode->plain != NULL) {
        memcpy(bytes, decode->plain + (size_t)decode->made, size);
        return COFFER_OK;
    }
    size_t done = 0;
    while (done < size) {
        const size_t capacity = size - done < UINT_MAX / 2 ? size - done : UINT_MAX / 2;
        int result = ZLIB_OK;
        const coffer_status status = decode_step(decode, bytes + done, (unsigned)capacity, &result, err);
        if (status != COFFER_OK) {
            return status;
        }
        done += capacity - decode->stream.avail_out;
        /* The stream may end with the last byte that is wanted, and nowhere else. ZLIB_BUFFER_ERROR
           means that the packed bytes are used up and the stream still goes on. */
        if (result != ZLIB_OK && !(result == ZLIB_STREAM_END && done == size)) {
            return decode_damaged(decode,
                                  result == ZLIB_STREAM_END || result == ZLIB_BUFFER_ERROR
                                      ? "inflates to fewer bytes than the archive says"
                                      : "is not what deflate makes: it is damaged",
                                  err);
        }
    }
    return COFFER_OK;
}

/*
 * After the last plain byte: the stream has to end, with nothing left of it and nothing more to
 * come. zlib is offered space for one more byte; if it fills it, the piece is longer than the
 * archive says.
 *
 * What was inflated at once was compared then, and stored bytes have no end of their own. Of text,
 * all packed bytes must have been used.
 */
static coffer_status decode_is_over(coffer__decoder *decode, coffer_error *err)
{
    int result = ZLIB_OK;
    uint8_t more = 0;
    while (decode->streams && result == ZLIB_OK) {
        const coffer_status status = decode_step(decode, &more, 1, &result, err);
        if (status != COFFER_OK) {
            return status;
        }
        if (decode->stream.avail_out == 0) {
            return decode_damaged(decode, "inflates to more bytes than the archive says", err);
        }
    }
    /* A stream that ended with the last byte answers with an end each time. */
    const bool ended = !decode->streams || result == ZLIB_STREAM_END;
    const bool all_taken = decode->packed_at == decode->packed_end && decode->element_left == 0 &&
                           decode->taken == decode_piece(decode)->stored_size;
    const bool counts = decode->plain == NULL && decode_piece(decode)->coding != COFFER__CODING_STORED;
    return ended && (all_taken || !counts) ? COFFER_OK
                                           : decode_damaged(decode, "has bytes after its end, or no end", err);
}

/* The end of a piece: nothing is left, and the CRC is right. */
static coffer_status decode_finish_piece(coffer__decoder *decode, coffer_error *err)
{
    const coffer__import_plan_piece *piece = decode_piece(decode);
    const coffer_status status = decode_is_over(decode, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (decode->crcs != NULL && piece->crc_kind != COFFER__CRC_NONE && decode->crc != piece->crc) {
        return coffer__decode_mismatch(decode->plan, decode->storage, piece, decode->crc, err);
    }
    decode_close_piece(decode);
    decode->piece++;
    return COFFER_OK;
}

/* The next bytes of the current piece, at most what is left of it. The CRC is that of the plain
   bytes, so it is computed here for every coding. */
static coffer_status decode_from_piece(coffer__decoder *decode, uint8_t *bytes, size_t size, coffer_error *err)
{
    const coffer__import_plan_piece *piece = decode_piece(decode);
    coffer_status status = COFFER_OK;
    switch (piece->coding) {
    case COFFER__CODING_STORED:
        status = decode_stored(decode, bytes, size, err);
        break;
    case COFFER__CODING_DEFLATED:
        status = decode_deflated(decode, bytes, size, err);
        break;
    case COFFER__CODING_LATIN1:
        status = decode_latin1(decode, bytes, size, err);
        break;
    case COFFER__CODING_FILTERED:
        decode_copy_plain(decode, bytes, size);
        break;
    case COFFER__CODING_NUMBERS:
    case COFFER__CODING_QUOTED:
    case COFFER__CODING_ESCAPED:
        status = decode_elements(decode, bytes, size, err);
        break;
    case COFFER__CODING_BLOCKS: /* storage.c decodes them where they are read */
        return coffer__fail(err, COFFER_ERR_PLAN, "blocks among other pieces of a storage");
    }
    if (status == COFFER_OK && decode->crcs != NULL) {
        decode->crc = coffer__crc32_update(coffer__crc_of(decode->crcs, piece), decode->crc, bytes, size);
    }
    decode->made += size;
    return status;
}

/* Opens nothing yet, so it cannot fail: the first piece is opened when its first byte is wanted. */
void coffer__decode_begin(coffer__decoder *decode, const coffer_input *input, const coffer__import_plan *plan,
                          uint32_t storage, coffer__inflaters *inflaters, const coffer__crcs *crcs,
                          const coffer_allocator *allocator)
{
    *decode = (coffer__decoder){ .input = input,
                                 .plan = plan,
                                 .storage = coffer__import_plan_storages(plan) + storage,
                                 .inflaters = inflaters,
                                 .crcs = crcs,
                                 .allocator = allocator };
}

/* Goes on to the next piece only when the current one was finished, with its CRC compared. So a
   caller that asks for all bytes of a storage has had every piece checked when this returns. */
coffer_status coffer__decode_next(coffer__decoder *decode, uint8_t *bytes, size_t size, coffer_error *err)
{
    size_t done = 0;
    /* Pieces without bytes are opened and finished, too: they have ends that can be wrong. */
    while (decode->piece < decode->storage->count) {
        coffer_status status = decode->open ? COFFER_OK : decode_open_piece(decode, err);
        const uint64_t left = decode_piece(decode)->size - decode->made;
        const size_t take = size - done < left ? size - done : (size_t)left;
        if (status == COFFER_OK && take > 0) {
            status = decode_from_piece(decode, bytes + done, take, err);
        }
        done += take;
        const bool finished = take == left;
        if (status == COFFER_OK && finished) {
            status = decode_finish_piece(decode, err);
        }
        if (status != COFFER_OK) {
            return status;
        }
        if (!finished) {
            break;
        }
    }
    return done == size
               ? COFFER_OK
               : coffer__fail(err, COFFER_ERR_PLAN, "a storage has fewer bytes than its pieces were said to have");
}

void coffer__decode_close(coffer__decoder *decode)
{
    decode_close_piece(decode);
}
