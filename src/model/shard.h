/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What opening, reading, verifying and trusting share: a shard is a source together with the table
 * that its header became.
 *
 * Everything in it is immutable after open, with three exceptions. The map is made when it is first
 * asked for; `base` is set once, under the lock. The marks of what was verified are atomic
 * (lazy_verify_marks.h). The descriptor of one of several files belongs to their pool.
 */
#ifndef COFFER_MODEL_SHARD_H
#define COFFER_MODEL_SHARD_H

#include "coffer.h"
#include "os.h"
#include "pool.h"
#include "record.h"
#include "source.h"
#include "transfer.h"

#include <stdatomic.h>

typedef struct coffer__verified coffer__verified; /* lazy_verify_marks.h */

typedef struct coffer__shard {
    coffer__byte_source source;
    coffer_table *table;
    char *path; /* as it was named; NULL when the shard was not opened by path */
    size_t path_size;
    coffer_access access;
    bool populate;
    uint64_t phase; /* the address of byte 0 in memory, or where it would be mapped, modulo any dtype's alignment */
    _Atomic(uint8_t *) base;   /* byte 0 in memory; NULL: not mapped (yet) */
    coffer__os_map map;        /* of the source's bytes, where the system made one */
    coffer__mutex lock;        /* held while mapping, and for `verified` */
    coffer_error map_error;    /* why there will be no map; code COFFER_OK: none was tried */
    coffer__pooled pooled;     /* of one of several files: its descriptor */
    coffer__recorded recorded; /* with `trusted`: the file's digests */
    _Atomic(uint8_t) *trusted; /* of each tensor, whether it was verified; NULL: the model is not opened to verify */
    coffer__verified
        *verified; /* in the first shard, for the whole model: the last tensor that was held (lazy_verify.h); or NULL */
} coffer__shard;

/* ---- shard.c: a shard, and its data ------------------------------------------------------------------------------ */

/* Keeps the path under which the shard was opened. Called once for a shard. The path is copied. */
coffer_status coffer__shard_set_path(coffer__shard *shard, const char *path, const coffer_allocator *allocator,
                                     coffer_error *err);
/* Releases everything except what coffer__lazy_verify_free releases. The source is closed if there is one.
   The lock must have been made. No other thread may use the shard. It may be one that was never
   opened. */
void coffer__shard_close(coffer__shard *shard, const coffer_allocator *allocator);

/* The shard's byte 0 in memory, mapped by the first call; NULL, with *err filled, if there is no
   map. */
uint8_t *coffer__shard_base(coffer__shard *shard, coffer_error *err);
/* Whether the file has all bytes of the tensor. A file that ends early can be opened for what is
   whole in it. The second function fails if it has not. */
bool coffer__shard_is_whole(const coffer__shard *shard, const coffer_tensor *tensor);
coffer_status coffer__shard_check_whole(const coffer__shard *shard, const coffer_tensor *tensor, coffer_error *err);

/* Fails with COFFER_ERR_UNSUPPORTED if the shard is a file of another program (foreign.h), which is read only: for what
   changes or rewrites files. */
coffer_status coffer__shard_refuse_foreign(const coffer__shard *shard, coffer_error *err);

/* The row that computes a tensor's digest, to memory of the algorithm's size. It uses the map if
   nobody can have changed its bytes, and reads otherwise. */
coffer__transfer_op coffer__shard_digest_row(coffer__shard *shard, const coffer_tensor *tensor,
                                             coffer_algorithm algorithm, uint8_t *digest);
/* The options of a transfer, from those of the user. `failed` is the transfer's and may be NULL. */
coffer__transfer_options coffer__model_transfer(const coffer_allocator *allocator, const coffer_read_options *options,
                                                size_t *failed);

/* Adds path and tensor to an error, as far as they are known. Returns `status`, so that it can end
   a function. */
coffer_status coffer__model_fail(coffer_error *err, coffer_status status, const coffer__shard *shard,
                                 const coffer_tensor *tensor);
/* Fails because the model did not hand out the tensor, or because the model or the tensor is NULL. */
coffer_status coffer__model_stranger(coffer_error *err);

/* ---- shard_header.c: reading its header -------------------------------------------------------------------------- */

/* Reads the header of a shard whose source is open. `path` is that of its file, NULL if it has
   none. COFFER_ERR_CHANGED if the file keeps changing while it is read. On success the shard has
   its table and, where the options ask for it, its records and marks. After a failure it has what
   coffer_close releases. */
coffer_status coffer__shard_read_header(coffer__shard *shard, const char *path, const coffer_allocator *allocator,
                                        const coffer_open_options *options, coffer_error *err);
/* Parses the header of a file of `size` bytes that lies whole in memory. */
coffer_status coffer__shard_parse(coffer__shard *shard, const void *bytes, size_t size,
                                  const coffer_allocator *allocator, const coffer_open_options *options,
                                  coffer_error *err);

#endif
