/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a fetch consists of. It is planned first (fetch.c), with the text of the index (fetch_index.c). Then all
 * files come in pieces (fetch_pieces.c), and when every one of them is complete they get their names
 * (fetch_publish.c).
 *
 * A file is planned as a head, which is in memory, and moves, which say where the rest comes from. A whole file has
 * no head and one move. For a file of some tensors the head is its new header.
 */
#ifndef COFFER_WRITE_FETCH_H
#define COFFER_WRITE_FETCH_H

#include "coffer.h"
#include "fetch_beside.h"
#include "model.h"
#include "part.h"

/* Bytes of the source that a file takes. */
typedef struct coffer__fetch_move {
    uint64_t from; /* in the source */
    uint64_t to;   /* in the file */
    uint64_t size;
} coffer__fetch_move;

/* One file of the plan. Planning fills it; while pieces come only the part's `done` bytes change,
   under the mutex of the thread pool, and the digest that is found, which belongs to the worker that
   hashes the file. */
typedef struct coffer__fetch_file {
    const coffer__shard *shard;        /* NULL: it has no tensors */
    size_t first;                      /* the number of its first tensor, for coffer_at */
    const coffer__byte_source *source; /* of all its moves */
    const char *path;                  /* the source's, for failures */
    coffer__path target;
    uint64_t size;
    const uint8_t *head; /* borrowed from the header */
    uint64_t head_size;
    uint64_t number;           /* of the head (fnv.h): two plans of the same file do not share it by chance */
    coffer_header *header;     /* of a file of some tensors */
    coffer__fetch_move *moves; /* in order of their places, without gaps between them */
    size_t move_count;
    size_t move_capacity;
    coffer__part part;
    uint8_t stated[32];    /* the SHA-256 that the server states of the whole */
    coffer_hasher *hasher; /* what computes the SHA-256; NULL: the server states none, or none can be computed */
    uint8_t found[32];
    bool hashed; /* `found` is the digest of what came */
} coffer__fetch_file;

/* The whole call. Planned by one thread, and constant while workers run, except for what the files'
   own comments say. */
typedef struct coffer__download {
    const coffer *model;
    const coffer_allocator *allocator;
    const coffer_fetch_options *options;
    bool *wanted; /* for each tensor of the model; NULL: all */
    const char *folder;
    coffer__beside *beside; /* NULL: only files with tensors are wanted */
    coffer__fetch_file *files;
    size_t file_count;
    size_t file_capacity;
    const char *index; /* its text; NULL: there is none */
    size_t index_size;
    char *index_made; /* the same when it is not the model's own, but made for the selection */
    coffer__path index_target;
    uint64_t total; /* bytes of all files */
    uint64_t done;  /* how many were there already */
    bool durable;   /* something is replaced, so each step is on the device before the next */
} coffer__download;

/* Sets job->wanted from a list of the model's tensors. With a NULL list, checks that all tensors
   are whole. COFFER_ERR_ARGUMENT if a tensor is not of this model. fetch_free releases job->wanted
   in any case. */
coffer_status coffer__fetch_choose(coffer__download *job, const coffer_tensor *const *tensors, size_t count,
                                   coffer_error *err);

/* Makes the text of the index for the files of the job. *name becomes the path or name that its
   target is named after. The files must have been planned, since the index names them by their
   targets. */
coffer_status coffer__fetch_make_index(coffer__download *job, coffer__path *name, coffer_error *err);

/* Downloads whatever is missing of any file, into parts that are open. Starts threads and joins
   them. After a failure everything that is recorded in a part is there; the next call asks only for
   the rest. */
coffer_status coffer__fetch_pieces(coffer__download *job, coffer_error *err);

/* ---- getting names ----------------------------------------------------------------------------------------------- */

/* Whether the planned files can all get their names (COFFER_ERR_SHARD_NAME). Looks at no file. */
coffer_status coffer__fetch_judge(const coffer__download *job, coffer_error *err);
/* Looks at what lies in the folder before anything is downloaded. Checks whether the files may get their names.
   *complete becomes true if an interrupted fetch of the same files had all of them complete; then only publishing
   is left. *there: nothing is left to do at all. */
coffer_status coffer__fetch_look(coffer__download *job, bool *complete, bool *there, coffer_error *err);
/* Whether all of it lies in the folder already, with the same bytes. What an earlier call left there was settled. */
bool coffer__fetch_is_there(coffer__download *job);
/* Compares digests and gives all files their names. Every part is complete, or coffer__fetch_look has set
   *complete. */
coffer_status coffer__fetch_publish(coffer__download *job, bool complete, coffer_error *err);

#endif
