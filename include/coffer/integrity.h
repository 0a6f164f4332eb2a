/* SPDX-License-Identifier: Apache-2.0 */
/* coffer/integrity.h - digests of tensors and models: computing, recording and verifying them. All of it is there since
   0.2. */
#ifndef COFFER_INTEGRITY_H
#define COFFER_INTEGRITY_H

#include "edit.h"
#include "hash.h"
#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Computing and verifying ------------------------------------------------------------------------------------- */

/* Under these keys of its metadata a file records digests, by which accidents are noticed; docs/integrity.md has every
   byte. They do not protect from changes on purpose, which can include the digests: signatures do (manifest.h). */
#define COFFER_DIGESTS_KEY "coffer.digests"                 /* of each tensor */
#define COFFER_METADATA_DIGEST_KEY "coffer.metadata_digest" /* of all other metadata, the list above included */
/* Under these keys of its metadata the index of several files records digests of the whole, by which files of another
   version, and files that are missing, are noticed. coffer_model_writer writes them, and coffer_record_content. */
#define COFFER_CONTENT_DIGEST_KEY "coffer.content_digest" /* of all tensors, as coffer_digest_content computes it */
#define COFFER_SHARD_DIGESTS_KEY "coffer.shard_digests"   /* the same of each file by itself */

/* The digests of a tensor, each in the first coffer_algorithm_digest_size bytes; the others are 0. */
typedef struct coffer_digest {
    uint8_t data[COFFER_LARGEST_DIGEST_SIZE];   /* of the tensor's bytes */
    uint8_t record[COFFER_LARGEST_DIGEST_SIZE]; /* of its name, dtype and shape, and the digest above */
} coffer_digest;

/* How tensors are hashed, to compute their digests or to verify them. */
typedef struct coffer_digest_options {
    size_t struct_size;
    coffer_progress progress; /* in bytes of the tensors; NULL: none */
    void *progress_ctx;
    uint32_t threads; /* at most that many at once, the caller's included; 0: by size and processors */
} coffer_digest_options;
#define COFFER_DIGEST_OPTIONS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(coffer_digest_options), NULL, NULL, 0                                                                   \
    }

/* Computes the digests of `count` tensors, in their order; of all in coffer_at's order when `tensors` is NULL (`count`
   is then coffer_count). Several at once, the longest first, from the map where there is one: the digest of one tensor
   takes one processor. `progress` counts the tensors' bytes. A failure names the tensor in err->tensor.
   COFFER_ERR_NO_ALGORITHM. */
COFFER_API coffer_status coffer_digest_tensors(const coffer *model, const coffer_tensor *const *tensors, size_t count,
                                               coffer_algorithm algorithm, coffer_digest *digests,
                                               const coffer_digest_options *options, coffer_error *err);
/* Computes from the digests of all its tensors, in coffer_at's order, that of a model's content: regardless of its
   files, their order, padding and metadata, two models have it in common when their tensors are the same. No I/O.
   COFFER_ERR_BUFFER_SIZE unless `digest_size` is that of the algorithm. */
COFFER_API coffer_status coffer_digest_content(const coffer *model, const coffer_digest *digests,
                                               coffer_algorithm algorithm, void *digest, size_t digest_size,
                                               coffer_error *err);

/* Which digests shard `shard` records; COFFER_NO_ALGORITHM for none, or none that this version knows. */
COFFER_API coffer_algorithm coffer_recorded_algorithm(const coffer *model, size_t shard);
/* By which algorithm the index of a model records digests of the whole; COFFER_NO_ALGORITHM for none, none that this
   version knows, and a model without an index. */
COFFER_API coffer_algorithm coffer_recorded_content(const coffer *model);
/* Verifies `count` tensors, all when `tensors` is NULL, by the digests that their files record, and the metadata of
   those files. Everything is verified before it fails, and sound[i] (NULL: not wanted) says whether tensors[i] is what
   was recorded. COFFER_OK only when all is: COFFER_ERR_NO_DIGESTS when a file records none, COFFER_ERR_DIGESTS when
   they cannot be used, COFFER_ERR_TENSOR_DIGEST with the first tensor that was changed, renamed, replaced or added in
   err->tensor, or when one is missing of all that are recorded, COFFER_ERR_METADATA_DIGEST. The work is done as by
   coffer_digest_tensors. Where the index records digests of the whole, what the files record is compared with that,
   too, however many tensors are asked for (of none, that alone is done, without reading data):
   COFFER_ERR_CONTENT_DIGEST when a file is of another version or missing. */
COFFER_API coffer_status coffer_verify(const coffer *model, const coffer_tensor *const *tensors, size_t count,
                                       bool *sound, const coffer_digest_options *options, coffer_error *err);

/* ---- Recording --------------------------------------------------------------------------------------------------- */

/* Computes the digests of a file's tensors and records them in its metadata, by an edit: in place when they fit in the
   header's slack. What was recorded before is replaced without being verified. `progress` counts the bytes that are
   hashed. They are recorded in the file that was hashed, or in none (COFFER_ERR_CHANGED). Of a sharded model
   every file gets those of its tensors, and then the index what coffer_record_content writes; *way is that of the most
   thorough of these edits. Fails as coffer_edit_metadata does. */
COFFER_API coffer_status coffer_record_digests(const char *path, coffer_algorithm algorithm,
                                               const coffer_edit_options *options, coffer_edit_way *way,
                                               coffer_error *err);
/* Records digests of the whole in the index of a sharded model, `path` being that of the index or of its
   folder: from what the files record, which coffer_record_digests has written to each of them before. No data is read,
   and nothing is verified. The index gets a new file (COFFER_EDITED_REWRITE), in which everything else keeps its bytes.
   Fails with COFFER_ERR_NO_DIGESTS when a file records none, with COFFER_ERR_DIGESTS when they do not all record by one
   algorithm, and with COFFER_ERR_LOCKED while another program saves a model in the folder. Of the options allocator,
   max_header_size, follow_links and sync count. */
COFFER_API coffer_status coffer_record_content(const char *path, const coffer_edit_options *options,
                                               coffer_edit_way *way, coffer_error *err);

#ifdef __cplusplus
}
#endif

#endif
