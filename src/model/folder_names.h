/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which model a folder holds, decided by the names in it alone: the rules of discover.h, for whoever lists folders in a way of
 * his own, as JavaScript does. Names are seen one by one, sorted, and chosen from.
 */
#ifndef COFFER_MODEL_FOLDER_NAMES_H
#define COFFER_MODEL_FOLDER_NAMES_H

#include "coffer.h"
#include "names.h"
#include "paths.h"

/* The names of interest of a folder; begin with the allocator and zeros. `names` points into `text`, so it is made only when
   all names are there and the text moves no more. */
typedef struct coffer__folder_names {
    const coffer_allocator *allocator;
    char *text; /* the names of interest, each with its NUL */
    size_t used;
    size_t capacity;
    size_t count;
    coffer__name *names; /* in byte order */
    bool is_pipeline;    /* model_index.json is there */
    bool interrupted;    /* a name is one that a save leaves */
    bool failed;         /* no memory, or too many names */
} coffer__folder_names;

/* What was chosen among the names. */
typedef struct coffer__choice {
    size_t first; /* the one file, the index, or the first of a set */
    bool is_index;
    size_t set_count;     /* files of a set, which follow each other; 0: there is none */
    bool is_doubtful;     /* the answer, a failure too, holds only where no save was interrupted */
    coffer__path missing; /* with COFFER_ERR_SHARD_MISSING: the name of the first file that is missing */
} coffer__choice;

/* Called for each name, with the list as `ctx`; false ends the listing. */
bool coffer__folder_names_see(void *ctx, const char *text);
/* Sorts what was seen. coffer__folder_names_free follows in any case. */
coffer_status coffer__folder_names_sort(coffer__folder_names *list, coffer_error *err);
void coffer__folder_names_free(coffer__folder_names *list);
/* Whether a name is one that a save leaves between the old model and the new one. */
bool coffer__folder_names_is_left(coffer__name name);
/* Chooses: COFFER_ERR_NO_MODEL, COFFER_ERR_AMBIGUOUS, COFFER_ERR_SHARD_MISSING (then the set is chosen, too). */
coffer_status coffer__folder_names_choose(const coffer__folder_names *list, coffer__choice *choice, coffer_error *err);

#endif
