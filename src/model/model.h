/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of the one handle: a model is shards (shard.h). A model of several files also has what
 * makes them one: `several`. A single file has no such thing, and pays nothing for it.
 *
 * Everything is immutable after open, except for what shards say of themselves, so look-ups take no
 * lock. Ownership: the model owns its shards, `several`, the client of its URL and the listing;
 * coffer_close releases them. What the shards and `several` allocate comes from an allocator that
 * takes turns, since threads allocate while they open the files.
 */
#ifndef COFFER_MODEL_MODEL_H
#define COFFER_MODEL_MODEL_H

#include "coffer.h"
#include "index.h"
#include "listing.h"
#include "locked_allocator.h"
#include "model_dir.h"
#include "names.h"
#include "pool.h"
#include "shard.h"

#define COFFER__LISTED_SIZE sizeof(const coffer_tensor *) /* of an item of the list of tensors */

/* What makes several files one model. Constant after open. What a selection has left out is in none
   of the lists, but counted in file_count. */
typedef struct coffer__sharded {
    coffer__locked_allocator turns;
    coffer_allocator allocator; /* takes turns; used by the shards and this struct */
    coffer__model_dir place;
    coffer__pool pool;
    size_t count;                            /* of tensors */
    size_t superseded;                       /* tensors of the files that the index says are in others */
    const coffer_tensor **tensors;           /* in order of (shard, offset) */
    coffer__names names;                     /* of the tensors */
    uint32_t *by_address;                    /* the shards, by the addresses of their tables */
    coffer_note notes[COFFER_NOTE_COUNT];    /* those of the whole, by kind */
    const char *subjects[COFFER_NOTE_COUNT]; /* what the notes are about; NULL: nothing that has a name */
    char *extra;                             /* the name of a file that the index should have named */
    size_t extra_size;
    char *metadata; /* the text of the index's metadata */
    size_t metadata_len;
    size_t total_size_from;                            /* where the value of total_size is in it */
    size_t total_size_len;                             /* bytes of the value of total_size; 0: it is not there */
    coffer__index_span records[COFFER__INDEX_RECORDS]; /* where digests of the whole are in it */
    size_t file_count;                                 /* that the index names, whether they are open or not */
    coffer__whole index;                               /* its text, if all files that it names are open */
    char *index_path;                                  /* of the index; NULL: there is none */
    size_t index_path_size;
} coffer__sharded;

/* The handle. `shards` has shard_count items, at least one in a model that was handed out, and
   never moves: sources and pool point into it. */
struct coffer {
    coffer_allocator allocator;
    size_t shard_count;
    coffer__shard *shards;
    coffer__sharded *sharded; /* NULL: one file */
    bool named_whole;         /* it was opened as a folder or repository, or by its index, and not as one file */
    coffer__web *web;         /* of what was opened by a URL; else NULL */
    coffer__listing listing;  /* of a repository of the Hub that was opened to be fetched, where it is known */
};

/* A model of one shard that takes over the source. Without memory the source is closed and the
   result is NULL. */
coffer *coffer__model_of_source(coffer__byte_source *source, const coffer_open_options *options, coffer_error *err);
/* A model of several files that has none yet: coffer__model_make_shards makes its shards. NULL
   without memory. */
coffer *coffer__model_of_shards(const coffer_allocator *allocator, coffer_error *err);
/* Called once for a model, before any file is opened. */
coffer_status coffer__model_make_shards(coffer *model, size_t count, coffer_error *err);

/* The shard of a tensor; NULL if the model did not hand out that tensor. The pointer is not read,
   so it may be any. */
coffer__shard *coffer__model_shard(const coffer *model, const coffer_tensor *tensor);
/* The folder of the files of a model that has a path; for a repository of the Hub, at the commit of
   those files. It must not outlive the model. */
coffer_status coffer__model_dir_of(const coffer *model, coffer__model_dir *place, coffer_error *err);

#endif
