/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the files of a model are: a folder, or what stands before their names in a URL. Names of
 * files come from an index, and so from a stranger; they are joined to the folder only when they
 * are plain names of files in it, or plain paths of files below it, and symbolic links are followed only
 *
 *   into the folder itself or below it,
 *   into the folder where the index itself really lies, when that is a link too,
 *   from `snapshots/REVISION/` to `blobs/` beside `snapshots`: the cache of the Hugging Face Hub is laid out so.
 *
 * Of a repository of the Hub all files are read at the commit that the first one was of.
 */
#ifndef COFFER_MODEL_MODEL_DIR_H
#define COFFER_MODEL_MODEL_DIR_H

#include "coffer.h"
#include "model_dir_name.h"
#include "names.h"
#include "paths.h"
#include "pool.h"
#include "source.h"
#include "web.h"

/* Constant while files are opened, so any number of threads may use it. */
typedef struct coffer__model_dir {
    coffer__path given;                    /* what stands before a name in messages: "", or a folder and a slash */
    coffer__web *web;                      /* the model's, of a URL; else NULL */
    const coffer__watch *watch;            /* asked while its files are opened; NULL: the web's own */
    char commit[COFFER__HUB_MAX_REVISION]; /* of a repository, when it is known */
    coffer__path real;                     /* the folder without links, absolute, with a slash */
    coffer__path other;                    /* the other folder that links may lead into; "": none */
} coffer__model_dir;

/* A file read whole. All zero when there is nothing. `bytes` has exactly `size` bytes, without a
   NUL. */
typedef struct coffer__whole {
    uint8_t *bytes;
    size_t size;
    char commit[COFFER__HUB_MAX_REVISION]; /* of the Hub's repository that it came from, when it is known */
    coffer__os_info seen;                  /* of a path: the file that was read */
} coffer__whole;

/* Finds the place of an index (or of any other file of a model), given by its path. `place` is
   zero, except for what is known of a URL: its web and commit. */
coffer_status coffer__model_dir_beside(coffer__model_dir *place, const char *path, coffer_error *err);
/* A file's path as it is shown to people. False if that is too long. The name is one that
   coffer__model_dir_check_name or coffer__model_dir_check_path has accepted, here and in the functions below. */
bool coffer__model_dir_join(const coffer__model_dir *place, coffer__name name, coffer__path *path);
/* Opens a file whose descriptor the pool manages; COFFER_ERR_SHARD_MISSING, COFFER_ERR_SHARD_LINK.
   Failures do not carry the path. `file` is zero before, and must not move until the source is
   closed. */
coffer_status coffer__model_dir_open(const coffer__model_dir *place, coffer__name name,
                                     const coffer_allocator *allocator, coffer__pool *pool, coffer__pooled *file,
                                     coffer__byte_source *source, coffer_error *err);
/* Compares a file that came whole with its first bytes with the SHA-256 that the server states, if
   it states one: COFFER_ERR_ANSWER. Does nothing for any other source. */
coffer_status coffer__model_dir_verify(const coffer__byte_source *source, const coffer_allocator *allocator,
                                       coffer_error *err);
/* Reads a file of at most `most` bytes whole, COFFER_ERR_INDEX_TOO_LARGE; coffer__whole_free
   releases it. `at` is NULL for a path; what is at a location needs none. */
coffer_status coffer__model_dir_read(const char *path, const coffer__location *at, uint64_t most,
                                     const coffer_allocator *allocator, coffer__whole *whole, coffer_error *err);
/* The same for a file of a place. It is opened by its path as shown, so its links are followed
   wherever they lead. */
coffer_status coffer__model_dir_read_beside(const coffer__model_dir *place, coffer__name name, uint64_t most,
                                            const coffer_allocator *allocator, coffer__whole *whole, coffer_error *err);
void coffer__whole_free(coffer__whole *whole, const coffer_allocator *allocator);

#endif
