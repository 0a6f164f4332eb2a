/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a storage that are not simply there: inflated, decoded from text, or joined of several pieces. They come
 * in order, from the first to the last, and each piece is compared with its CRC when its last byte has come.
 *
 * Deflated pieces are inflated by libraries, opened when the first one comes: libdeflate for those that fit in memory,
 * zlib for all others, and for these where libdeflate is missing. Without both, those that fit are inflated by inflate.h.
 */
#ifndef COFFER_IMPORT_DECODE_H
#define COFFER_IMPORT_DECODE_H

#include "coffer.h"
#include "crc32.h"
#include "input.h"
#include "plan.h"

/* Pieces that are inflated at once, in bytes, packed and plain each. */
#define COFFER__DECODE_WHOLE ((uint64_t)8 << 20)

/* zlib's z_stream, as its ABI has been since version 1. */
typedef struct coffer__zlib_stream {
    const unsigned char *next_in;
    unsigned avail_in;
    unsigned long total_in;
    unsigned char *next_out;
    unsigned avail_out;
    unsigned long total_out;
    const char *msg;
    void *state;
    void *(*zalloc)(void *opaque, unsigned items, unsigned size);
    void (*zfree)(void *opaque, void *address);
    void *opaque;
    int data_type;
    unsigned long adler;
    unsigned long reserved;
} coffer__zlib_stream;

/* The libraries; closed by coffer__inflaters_close. One thread at a time. */
typedef struct coffer__inflaters {
    bool looked;
    bool alone; /* no library is to be looked for */
    coffer__os_library zlib_library;
    coffer__os_library deflate_library;
    int (*zlib_init)(coffer__zlib_stream *stream, int window_bits, const char *version, int stream_size);
    int (*zlib_inflate)(coffer__zlib_stream *stream, int flush);
    int (*zlib_end)(coffer__zlib_stream *stream);
    void *(*deflate_new)(void);
    int (*deflate_decompress)(void *decompressor, const void *in, size_t in_size, void *out, size_t out_size,
                              size_t *in_actual, size_t *out_actual);
    void (*deflate_free)(void *decompressor);
} coffer__inflaters;

/* What compares the CRCs of pieces, of both kinds. */
typedef struct coffer__crcs {
    coffer__crc32 crc32;
    coffer__crc32 crc32c;
} coffer__crcs;

/* A storage that is being decoded. */
typedef struct coffer__decoder {
    const coffer_input *input;
    const coffer__import_plan *plan;
    const coffer__import_plan_storage *storage;
    coffer__inflaters *inflaters;
    const coffer__crcs *crcs; /* NULL: CRCs are not compared */
    const coffer_allocator *allocator;
    uint32_t piece;  /* the current one, of the storage's */
    bool open;       /* its state is there */
    uint64_t taken;  /* stored bytes of it that were read */
    uint64_t made;   /* plain bytes of it that were given out */
    uint32_t crc;    /* of these */
    uint8_t *packed; /* DECODE_READ bytes that were read, or all of a small piece */
    size_t packed_size;
    size_t packed_at;    /* of the next one */
    size_t packed_end;   /* one past the last of them */
    uint8_t element[8];  /* of numbers and escapes: the last one that was decoded */
    size_t element_size; /* bytes of `element` */
    size_t element_left; /* bytes of `element` that were not given out yet */
    uint8_t *plain;      /* all of a small piece, inflated at once */
    size_t plain_size;
    coffer__zlib_stream stream;
    bool streams; /* the stream is to be ended */
} coffer__decoder;

/* Begins at the first byte of a storage. Everything is borrowed until coffer__decode_close. */
void coffer__decode_begin(coffer__decoder *decode, const coffer_input *input, const coffer__import_plan *plan,
                          uint32_t storage, coffer__inflaters *inflaters, const coffer__crcs *crcs,
                          const coffer_allocator *allocator);
/* Gives the next `size` bytes, which are there by what the plan says. COFFER_ERR_CHECKSUM and COFFER_ERR_DAMAGED for
   what is damaged, COFFER_ERR_PICKLE for text that is none, COFFER_ERR_UNSUPPORTED where a library is missing. */
coffer_status coffer__decode_next(coffer__decoder *decode, uint8_t *bytes, size_t size, coffer_error *err);
void coffer__decode_close(coffer__decoder *decode);
void coffer__inflaters_close(coffer__inflaters *inflaters);

/* Opens both kinds; it cannot fail. */
void coffer__crcs_open(coffer__crcs *crcs);
void coffer__crcs_close(coffer__crcs *crcs);
/* The kind that a piece has. */
const coffer__crc32 *coffer__crc_of(const coffer__crcs *crcs, const coffer__import_plan_piece *piece);

/* The failure of bytes that do not match the CRC of a piece. */
coffer_status coffer__decode_mismatch(const coffer__import_plan *plan, const coffer__import_plan_storage *storage,
                                      const coffer__import_plan_piece *piece, uint32_t actual, coffer_error *err);

#endif
