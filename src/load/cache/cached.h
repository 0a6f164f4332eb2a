/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a keeper (cache_server.c) has of a model: files in memory that nobody can change, which a load reads in the place of those
 * on the disk, by the engine for files in memory. A keeper answers, for each file, by a name that is made of the user and of the file as it is now: which it is, how long, and when
 * it was changed. So a file that was changed since has another name, and nobody answers by that.
 */
#ifndef COFFER_LOAD_KEPT_H
#define COFFER_LOAD_KEPT_H

#include "coffer.h"
#include "source.h"

typedef struct coffer__kept_file {
    bool found;
    coffer__byte_source source; /* all of the file, where it was found */
} coffer__kept_file;

typedef struct coffer__kept {
    coffer_allocator allocator;
    size_t count;
    size_t found;             /* files that a keeper has */
    coffer__kept_file *files; /* of each shard */
} coffer__kept;

#define COFFER__KEPT_NAME 100
void coffer__kept_name(char name[COFFER__KEPT_NAME], const coffer__os_info *info);
/* Asks for each file of the model whether a keeper has it, which takes some microseconds where none does. *kept NULL: none
   has any. The only failure is COFFER_ERR_MEMORY. */
coffer_status coffer__kept_find(coffer__kept **kept, const coffer *model, const coffer_allocator *allocator,
                                coffer_error *err);
/* When no chunk source uses it any more. NULL is allowed. */
void coffer__kept_close(coffer__kept *kept);

#endif
