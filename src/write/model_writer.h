/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rewrite needs of the writer of models and other callers do not: tensors that stay in their files.
 */
#ifndef COFFER_WRITE_MODEL_WRITER_H
#define COFFER_WRITE_MODEL_WRITER_H

#include "coffer.h"

/* coffer_model_writer_open, with files as coffer__shards_keep plans them; with `shard_of` NULL, by the limit.
   *writer is not changed on failure. */
coffer_status coffer__model_writer_open(coffer_model_writer **writer, const coffer_header *header, const char *path,
                                        const uint32_t *shard_of, const coffer_model_writer_options *given,
                                        coffer_error *err);

#endif
