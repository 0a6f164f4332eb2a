/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of an adapter that is written: its matrices, and of PEFT's also adapter_config.json beside them, as one.
 *
 * An adapter that is replaced loses its configuration first, so that nobody finds new matrices with old factors:
 * without a configuration none loads. If the matrices cannot be replaced, the old one comes back.
 */
#ifndef COFFER_MERGE_ADAPTER_FILES_H
#define COFFER_MERGE_ADAPTER_FILES_H

#include "coffer.h"
#include "paths.h"
#include "sink.h"
#include "writing.h"

/* What the names of tensors begin with in PEFT's files. */
#define COFFER__ADAPTER_PREFIX "base_model.model."

/* Begins as zeros. */
typedef struct coffer__adapter_files {
    const coffer_allocator *allocator;
    coffer_header *header; /* what is declared, owned */
    coffer_writer *writer;
    coffer_dtype dtype; /* of matrices */
    uint8_t *buffer;    /* for numbers on their way */
    size_t number;      /* of the next tensor of the declaration */
    coffer__byte_sink config;
    bool config_open;
    bool has_config;
    coffer__path config_path;
    coffer__path old_path; /* where an older configuration is while the new files get their names */
} coffer__adapter_files;

/* Begins an adapter, with an empty declaration. coffer__adapter_close follows in any case. */
coffer_status coffer__adapter_begin(coffer__adapter_files *files, const coffer_allocator *allocator, coffer_dtype dtype,
                                    coffer_error *err);
/* Opens the file for all that was declared. With a configuration, whose text is complete, `path` is the folder of both;
   without (NULL) it is the file. */
coffer_status coffer__adapter_open(coffer__adapter_files *files, const char *path, const coffer__writing *config,
                                   const coffer_writer_options *writing, coffer_error *err);
/* Writes the next tensor of the declaration, a matrix, in the dtype of matrices. `name` is the one that a failure has. */
coffer_status coffer__adapter_write(coffer__adapter_files *files, const float *values, size_t count, const char *name,
                                    size_t name_len, coffer_error *err);
/* Gives the files their names. */
coffer_status coffer__adapter_publish(coffer__adapter_files *files, coffer_error *err);
void coffer__adapter_close(coffer__adapter_files *files);

#endif
