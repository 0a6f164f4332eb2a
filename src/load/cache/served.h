/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a model cache server (cache_server.c) has of a model: files in memory that nobody can change, which a load reads
 * in the place of those on the disk, by the engine for files in memory. A model cache server answers, for each file, by
 * a name that is made of the user and of the file as it is now: which it is, how long, and when it was changed. So a
 * file that was changed since has another name, and nobody answers by that.
 */
#ifndef COFFER_LOAD_SERVED_H
#define COFFER_LOAD_SERVED_H

#include "coffer.h"
#include "source.h"

typedef struct coffer__served_file {
    bool found;
    coffer__byte_source source; /* all of the file, where it was found */
} coffer__served_file;

typedef struct coffer__served {
    coffer_allocator allocator;
    size_t count;
    size_t found;               /* files that a model cache server has */
    coffer__served_file *files; /* of each shard */
} coffer__served;

#define COFFER__SERVED_NAME 100
void coffer__served_name(char name[COFFER__SERVED_NAME], const coffer__os_info *info);
/* Asks for each file of the model whether a model cache server has it, which takes some microseconds where none does.
   *kept NULL: none has any. The only failure is COFFER_ERR_MEMORY. */
coffer_status coffer__served_find(coffer__served **served, const coffer *model, const coffer_allocator *allocator,
                                  coffer_error *err);
/* When no chunk source uses it any more. NULL is allowed. */
void coffer__served_close(coffer__served *served);

#endif
