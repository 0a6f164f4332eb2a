/* SPDX-License-Identifier: Apache-2.0 */
/* coffer/pack.h - packed files: the same tensors, without loss, in fewer bytes. Since 0.2. */
#ifndef COFFER_PACK_H
#define COFFER_PACK_H

#include "integrity.h"
#include "write.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A packed file is a file of tensors in which some have become smaller; docs/packed.md describes it. coffer_open
 * shows what was packed: its tensors, sizes, offsets and metadata. Reads decode, and verify what they decode;
 * coffer_data decodes each tensor once, up to `unpacked_limit` of coffer_open_options (COFFER_ERR_NOT_MAPPED beyond
 * that). Metadata cannot be edited in place (COFFER_ERR_PACKED).
 */

/* How a file is packed or unpacked. Since 0.2. */
typedef struct coffer_pack_options {
    size_t struct_size;
    coffer_sync sync;         /* as in coffer_writer_options */
    uint32_t threads;         /* 0: as many as there are processors */
    coffer_progress progress; /* NULL: none; non-zero: COFFER_ERR_CANCELLED, and no file */
    void *progress_ctx;
} coffer_pack_options;
#define COFFER_PACK_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(coffer_pack_options), COFFER_SYNC_REPLACE, 0, NULL, NULL                                                \
    }

/* What packing a file comes to. Since 0.2. */
typedef struct coffer_pack_result {
    uint64_t original_size; /* in bytes */
    uint64_t packed_size;
    uint64_t tensor_count;
    uint64_t packed_count; /* of the tensors, those that gain at least 3 % and are packed */
} coffer_pack_result;

/*
 * Packs file `shard` of a model into a new file at `path`, as coffer_writer_open writes one; NULL: nothing is
 * written, and only *result (may be NULL) says what would be. The result does not depend on the number of threads.
 * Every chunk is decoded and compared before it is written. Memory: at most 2 MiB a thread, 16 bytes for each 65,536
 * elements, and twice the header. COFFER_ERR_PACKED when it is packed already, COFFER_ERR_UNSUPPORTED for another
 * format than safetensors, COFFER_ERR_CHANGED when the file changed in between. Since 0.2.
 */
COFFER_API coffer_status coffer_pack_shard(const coffer *model, size_t shard, const char *path,
                                           const coffer_pack_options *options, coffer_pack_result *result,
                                           coffer_error *err);
/* Writes the original of a packed file to `path`, byte for byte, and compares its SHA-256 with the one that is
   recorded before it is published: COFFER_ERR_PACK_CHECKSUM. COFFER_ERR_NOT_PACKED when the file is plain. Since
   0.2. */
COFFER_API coffer_status coffer_unpack_shard(const coffer *model, size_t shard, const char *path,
                                             const coffer_pack_options *options, coffer_error *err);

/*
 * Decodes all of a packed file, and compares the SHA-256 of what was packed with the one that is recorded: every bit
 * of the original, its header included. COFFER_ERR_PACK_CHECKSUM and the codes of damage; COFFER_ERR_NOT_PACKED when
 * the file is plain. Digests that the original records of its tensors are compared by coffer_verify. Since 0.2.
 */
COFFER_API coffer_status coffer_verify_packed(const coffer *model, size_t shard, const coffer_digest_options *options,
                                              coffer_error *err);

/* Bytes of shard `shard`'s file as it is stored: those of the packed file, where it is one; else coffer_shard_size.
   Since 0.2. */
COFFER_API uint64_t coffer_shard_stored_size(const coffer *model, size_t shard);
/* Whether the file is packed. Since 0.2. */
COFFER_API bool coffer_shard_is_packed(const coffer *model, size_t shard);
/* Bytes of a tensor as it is stored: fewer than tensor->size where it is packed. 0 for a tensor of another model.
   For programs that show what packing gains, tensor by tensor. Since 0.2. */
COFFER_API uint64_t coffer_tensor_stored_size(const coffer *model, const coffer_tensor *tensor);

#ifdef __cplusplus
}
#endif

#endif
