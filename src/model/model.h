/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of the one handle: a model is shards, and a shard is a source with the table that its header became. A model of
 * several files has besides what makes them one: `several`. For a single file there is no such thing, and no cost.
 * Everything is immutable after open but the map, which is made when it is first asked for (`base` is set once, under the
 * lock), and the descriptors of several files, which their pool looks after.
 */
#ifndef COFFER_MODEL_MODEL_H
#define COFFER_MODEL_MODEL_H

#include "coffer.h"
#include "digest.h"
#include "index.h"
#include "listing.h"
#include "names.h"
#include "os.h"
#include "place.h"
#include "pool.h"
#include "record.h"
#include "source.h"

#include <stdatomic.h>

typedef struct coffer__verified coffer__verified; /* trust.h */

typedef struct coffer__shard {
    coffer__source source;
    coffer_table *table;
    char *path; /* as it was named; NULL when the shard was not opened by path */
    size_t path_size;
    coffer_access access;
    bool populate;
    uint64_t phase;            /* where byte 0 stands, or would stand, in memory, modulo the alignment of any dtype */
    _Atomic(uint8_t *) base;   /* byte 0 in memory; NULL: not mapped (yet) */
    coffer__mutex lock;        /* held while mapping, and for `verified` */
    coffer_error map_error;    /* why there will be no map; code COFFER_OK: none was tried */
    coffer__pooled pooled;     /* of one of several files: its descriptor */
    coffer__recorded recorded; /* with `trusted`: the file's digests */
    _Atomic(uint8_t) *trusted; /* of each tensor, whether it was verified; NULL: the model is not opened to verify */
    coffer__verified
        *verified; /* in the first shard, for the whole model: the last tensor that was held (trust.h); or NULL */
} coffer__shard;

/* The caller's allocator, for one thread at a time. */
typedef struct coffer__taking_turns {
    coffer_allocator allocator;
    coffer__mutex lock;
} coffer__taking_turns;

/* Makes of the caller's allocator one that many threads may call; it lives as long as `turns`. False where the system has no mutex. */
bool coffer__turns_begin(coffer__taking_turns *turns, const coffer_allocator *allocator, coffer_allocator *shared);
void coffer__turns_end(coffer__taking_turns *turns);

/* What makes several files one model. */
typedef struct coffer__several {
    coffer__taking_turns turns;
    coffer_allocator allocator; /* that takes turns: what the shards and this struct use */
    coffer__place place;
    coffer__pool pool;
    size_t count;                            /* of tensors */
    const coffer_tensor **tensors;           /* in order of (shard, offset) */
    coffer__names names;                     /* of the tensors */
    uint32_t *by_address;                    /* the shards in order of where their tables lie */
    coffer_note notes[COFFER_NOTE_COUNT];    /* those of the whole, by kind, … */
    const char *subjects[COFFER_NOTE_COUNT]; /* … and what they are about; NULL: nothing that has a name */
    char *extra;                             /* the name of a file that is one too many */
    size_t extra_size;
    char *metadata; /* the text of the index's */
    size_t metadata_len;
    size_t total_size_from;                            /* where the value of total_size is in it, … */
    size_t total_size_len;                             /* … and its bytes; 0: there is none */
    coffer__index_span records[COFFER__INDEX_RECORDS]; /* where in it digests of the whole are */
    size_t file_count;                                 /* that the index names, whether they are open or not */
    coffer__whole index;                               /* its text, when all files that it names are open */
    char *index_path;                                  /* of the index; NULL: there is none */
    size_t index_path_size;
} coffer__several;

struct coffer {
    coffer_allocator allocator;
    size_t shard_count;
    coffer__shard *shards;
    coffer__several *several; /* NULL: one file */
    bool named_whole;         /* it was opened as a folder or repository, or by its index, and not as one file */
    coffer__web *web;         /* of what was opened by a URL; else NULL */
    coffer__listing listing;  /* of a repository of the Hub that was opened to be fetched, where it is known */
};

/* The shard of a tensor; NULL when the tensor is not one that this model handed out. */
coffer__shard *coffer__model_shard(const coffer *model, const coffer_tensor *tensor);
/* Fails because coffer__model_shard found none, or because the model or tensor is NULL. */
coffer_status coffer__model_stranger(coffer_error *err);
/* The folder of the files of a model that has a path; of a repository of the Hub at the commit that they are of. It lives no longer
   than the model. */
coffer_status coffer__model_place(const coffer *model, coffer__place *place, coffer_error *err);
/* Adds to an error what is known of where it happened. */
coffer_status coffer__model_fail(coffer_error *err, coffer_status status, const coffer__shard *shard,
                                 const coffer_tensor *tensor);
/* Fails when the file ends before the tensor's last byte: it was opened for what is whole. */
coffer_status coffer__shard_check_whole(const coffer__shard *shard, const coffer_tensor *tensor, coffer_error *err);
/* The shard's byte 0 in memory, mapped by the first call; NULL, with *err filled, when there is no map. */
uint8_t *coffer__shard_base(coffer__shard *shard, coffer_error *err);

/* The row that computes a tensor's digest, to memory of the algorithm's size: from the map where nobody can have changed it, else
   by reads. The tensor is one of the model's. */
coffer__digest_row coffer__model_digest_row(const coffer *model, const coffer_tensor *tensor,
                                            coffer_algorithm algorithm, uint8_t *digest);
/* What a transfer is to know of the user's options; `failed` is the transfer's, and may be NULL. */
coffer__transfer_options coffer__model_transfer(const coffer_allocator *allocator, const coffer_read_options *options,
                                                size_t *failed);
/* Reads the header of a shard whose source is open; `path` is that of its file, NULL when it has none. COFFER_ERR_CHANGED when
   the file does not hold still for it. */
coffer_status coffer__shard_read_header(coffer__shard *shard, const char *path, const coffer_allocator *allocator,
                                        const coffer_open_options *options, coffer_error *err);
/* Whether a path or URL is that of an index, which its name alone tells. */
bool coffer__is_index_path(const char *path);
/* Opens the model of an index, or of files without one: `count` names in the folder of `path`, the first of them. `web` is NULL
   for a path that is no URL; the model does not own it yet. The options are known to be right. Failures carry the path. */
coffer_status coffer__several_open(coffer **model, const char *path, coffer__web *web,
                                   const coffer_open_options *options, coffer_error *err);
coffer_status coffer__several_open_set(coffer **model, const char *path, const coffer__name *files, size_t count,
                                       const coffer_open_options *options, coffer_error *err);
/* Notes what is odd about the index, or about there being none (NULL). All shards that it names, or only some, are open. */
coffer_status coffer__several_note(coffer *model, const coffer__index *index, const coffer_open_options *options,
                                   coffer_error *err);
/* Releases what makes several files one, when the shards are closed. */
void coffer__several_free(coffer *model);

#endif
