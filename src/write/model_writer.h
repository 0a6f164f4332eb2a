/* SPDX-License-Identifier: Apache-2.0 */
/* What a rewrite needs of the writer of models and other callers do not: what an older model had
   stays. Everything else about a model writer is in coffer/write.h. */
#ifndef COFFER_WRITE_MODEL_WRITER_H
#define COFFER_WRITE_MODEL_WRITER_H

#include "coffer.h"
#include "index_members.h"
#include "paths.h"

/* All of it is borrowed as long as there is a writer; zeros are allowed everywhere. */
typedef struct coffer__model_writer_keeps {
    const uint32_t *shard_of; /* files as coffer__shards_keep plans them, and not by the limit */
    const coffer *names;      /* the model whose files, as many, have the names that the new ones get; then there is an
                                             index even of one file */
    bool keeps_index;         /* which is that of the same model, byte for byte */
    const coffer__index_members *members; /* of the metadata of another index */
} coffer__model_writer_keeps;

/* coffer_model_writer_open with what is kept; `keeps` itself is copied. The folder is locked
   until the writer is freed. *writer is not changed on failure, and the new files are removed. */
coffer_status coffer__model_writer_create(coffer_model_writer **writer, const coffer_header *header, const char *path,
                                          const coffer__model_writer_keeps *keeps,
                                          const coffer_model_writer_options *given, coffer_error *err);

/*
 * For what brings tensors in by itself (writer_carry.h): the first is called before anything is written to a file, the
 * second after `size` bytes were, with what came of it, and only if the first succeeded. Between the two the file has a
 * writer.
 */
coffer_status coffer__model_writer_enter(coffer_model_writer *writer, size_t shard, coffer_error *err);
coffer_status coffer__model_writer_leave(coffer_model_writer *writer, size_t shard, uint64_t size, coffer_status status,
                                         coffer_error *err);
/*
 * For files that are not written by a writer: the path under which a file is to lie complete, FILE.coffer-new, or FILE
 * itself; false when it is too long. Then coffer__model_writer_adopt counts it as complete, whether it lies there, or
 * there is a header for it (coffer__commit_head_name), or it stays as it is. Nothing of it may have been written.
 */
bool coffer__model_writer_file(const coffer_model_writer *writer, size_t shard, bool temporary, coffer__path *path);
void coffer__model_writer_adopt(coffer_model_writer *writer, size_t shard);
/* What the model would be called as one file. */
const char *coffer__model_writer_path(const coffer_model_writer *writer);
/* The header that declares all tensors. */
const coffer_header *coffer__model_writer_header(const coffer_model_writer *writer);
/* The number that tensor `i` has in its file, and the file's writer, if there is one now. */
size_t coffer__model_writer_place(const coffer_model_writer *writer, size_t i, coffer_writer **file);

#endif
