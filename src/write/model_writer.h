/* SPDX-License-Identifier: Apache-2.0 */
/* What a rewrite needs of the writer of models and other callers do not: what an older model had
   stays. Everything else about a model writer is in coffer/write.h. */
#ifndef COFFER_WRITE_MODEL_WRITER_H
#define COFFER_WRITE_MODEL_WRITER_H

#include "coffer.h"
#include "index_members.h"

/* All of it is borrowed as long as there is a writer; NULL is allowed everywhere. */
typedef struct coffer__model_writer_keeps {
    const uint32_t *shard_of; /* files as coffer__shards_keep plans them, and not by the limit */
    const coffer *names;      /* the model whose files, as many, have the names that the new ones get; then there is an
                                             index even of one file */
    const coffer__index_members *members; /* of the index's metadata */
} coffer__model_writer_keeps;

/* coffer_model_writer_open with what is kept; `keeps` itself is copied. The folder is locked
   until the writer is freed. *writer is not changed on failure, and the new files are removed. */
coffer_status coffer__model_writer_open(coffer_model_writer **writer, const coffer_header *header, const char *path,
                                        const coffer__model_writer_keeps *keeps,
                                        const coffer_model_writer_options *given, coffer_error *err);

#endif
