/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which tensor goes into which file of a model, and what their index says (index_text.h). All of it
 * follows from the declarations and a limit; nothing here does I/O.
 *
 * The rules are those of the ecosystem, so that the same tensors become the same files with every
 * writer. Tensors fill one file after the other in the order of their declaration. A tensor that is
 * larger than the limit gets a file of its own, which is counted where the tensor comes, before the
 * file that is being filled. A file that would be the only one has no number, and then there is no
 * index.
 *
 * A plan does not change once it is made, so any number of threads may read it.
 */
#ifndef COFFER_WRITE_SHARDS_H
#define COFFER_WRITE_SHARDS_H

#include "coffer.h"
#include "content.h"
#include "index_members.h"
#include "paths.h"
#include "shard_name.h"

typedef struct coffer__shards {
    coffer_allocator allocator;
    size_t tensor_count;
    size_t count;       /* of shards, at least 1 */
    uint64_t size;      /* of all tensors, in bytes */
    uint32_t *shard_of; /* by number of declaration */
    uint32_t *order;    /* numbers of declarations, by shard, and within it as declared */
    uint32_t *first;    /* where in `order` each shard begins; `count` + 1 entries */
    size_t declared_pairs;
    size_t pair_count;
    uint32_t *pairs; /* numbers of the pairs that the index has, in order of declaration */
} coffer__shards;

/* Plans files of at most `limit` bytes of tensors. `balanced`: as many files, but with the
   lowest limit that still gives that many. COFFER_ERR_DUPLICATE_NAME for two tensors of one
   name, in whichever files; COFFER_ERR_OVERFLOW, COFFER_ERR_MEMORY. On failure there is nothing
   to free. */
coffer_status coffer__shards_plan(coffer__shards *shards, const coffer_header *header, uint64_t limit, bool balanced,
                                  coffer_error *err);
/* Plans the files from `shard_of`, which says for each declaration which file of a model it
   comes from, in ascending order. Tensors of one file stay together, and a file that has lost
   all its tensors is left out. No limit applies. Fails as coffer__shards_plan does. */
coffer_status coffer__shards_keep(coffer__shards *shards, const coffer_header *header, const uint32_t *shard_of,
                                  coffer_error *err);
void coffer__shards_free(coffer__shards *shards);

/* Declares in `to`, the header of one file, all metadata, and the tensors of the shard in the
   order of the plan. `header` is the one that was planned. After a failure `to` has some of them
   and can only be freed. */
coffer_status coffer__shards_declare(const coffer__shards *shards, const coffer_header *header, size_t shard,
                                     coffer_header *to, coffer_error *err);

/* What an index says besides the plan. */
typedef struct coffer__shards_index {
    const char *names; /* of the files, `name_size` bytes for each */
    size_t name_size;
    const coffer__index_members *members; /* of the metadata of an older index, which stay as they are; NULL: none */
    const coffer__content
        *content; /* of which digests are recorded, in as many bytes whatever they are; NULL: none are */
} coffer__shards_index;

/* Writes the index to `out`, unless that is NULL, and returns its size in bytes. It has
   "total_size", the members that are kept, the declared metadata except for those and for
   "format", which is each file's own, the records, and the file of each tensor. Of several
   values for a key the last one counts. */
size_t coffer__shards_write_index(char *out, const coffer__shards *shards, const coffer_header *header,
                                  const coffer__shards_index *index);

#endif
