/* SPDX-License-Identifier: Apache-2.0 */
/* What the readers of torch's containers share: one pickle in a file, and the storages beside it. */
#ifndef COFFER_CONVERT_TORCH_H
#define COFFER_CONVERT_TORCH_H

#include "pickle_follow.h"
#include "pickle_views.h"
#include "plan.h"
#include "reader.h"

/* A file that is being read: the input, or one beside it. */
typedef struct coffer__torch_file {
    const coffer__input_files *input;
    const coffer__wants *wants;
    coffer__import_plan *plan;
    uint32_t file;
    uint64_t size;
    bool embedded; /* only a range of the file is the archive */
    uint64_t at;   /* the byte where the embedded archive begins */
    uint64_t part; /* bytes of the embedded archive */
} coffer__torch_file;

/* Puts a storage that is one stored or deflated range of the file; what messages call it is `prefix`, then `key`. An
   empty one has no pieces. */
coffer_status coffer__torch_put_storage(const coffer__torch_file *file, const coffer__import_plan_piece *piece,
                                        const char *prefix, const char *key, size_t key_len, uint32_t *number,
                                        coffer_error *err);
/*
 * Runs the pickle at `at`, of at most `size` bytes, and prepares the graph, whose `file`, `member` and so on are set.
 * With `bytes` (else NULL) the pickle is those, and the file has them packed. *end is the byte after it, counted from
 * `at`. Release with coffer__torch_unload in any case.
 */
coffer_status coffer__torch_load(coffer__graph *graph, const coffer__torch_file *file, const uint8_t *bytes,
                                 uint64_t at, uint64_t size, uint64_t *end, coffer_error *err);
/* The same without preparing the graph; after a failure it has what was built before, if there was memory. */
coffer_status coffer__torch_run(coffer__graph *graph, const coffer__torch_file *file, const uint8_t *bytes, uint64_t at,
                                uint64_t size, uint64_t *end, coffer_error *err);
void coffer__torch_unload(coffer__graph *graph);
/* How far loaders get in what may be no pickle at all: coffer__pickle_follow of that range. */
coffer_status coffer__torch_follow(coffer__followed *followed, const coffer__torch_file *file, const uint8_t *bytes,
                                   uint64_t at, uint64_t size, uint64_t from, coffer_error *err);
/* The metadata of every file that is made of a checkpoint. */
coffer_status coffer__torch_put_format(coffer__import_plan *plan, coffer_error *err);

/* The containers, in any file. */
coffer_status coffer__torch_read_zip(const coffer__torch_file *file, coffer_error *err);
/* An archive that stays open, with its storages in the plan and its graph prepared: one of several that are read together.
   Release it in any case. */
typedef struct coffer__torch_opened coffer__torch_opened;
coffer_status coffer__torch_open_zip(coffer__torch_opened **opened, const coffer__torch_file *file, coffer_error *err);
coffer__graph *coffer__torch_opened_graph(coffer__torch_opened *opened);
void coffer__torch_opened_free(coffer__torch_opened *opened);
/* An archive that is one tensor, the view of which is *view. Its storages are put, and are called `name`, a text. */
coffer_status coffer__torch_read_tensor(const coffer__torch_file *file, uint32_t name, coffer__view *view,
                                        coffer_error *err);
coffer_status coffer__torch_read_stream(const coffer__torch_file *file, coffer_error *err);
/* A pickle that is nothing else, of the whole file or of a part of it. */
coffer_status coffer__torch_read_pickle(const coffer__torch_file *file, coffer_error *err);
/* The storage that is all of an embedded checkpoint: *found is false for other bytes, and for a checkpoint of anything else.
   What was put into the plan stays there. With `text` (else NULL) the older kind is what that decodes. */
struct coffer__torch_text;
coffer_status coffer__torch_stream_storage(const coffer__torch_file *file, const struct coffer__torch_text *text,
                                           coffer__within *within, bool *found, coffer_error *err);
coffer_status coffer__torch_zip_storage(const coffer__torch_file *file, coffer__within *within, bool *found,
                                        coffer_error *err);
/* Finds the storages that a pickle has as checkpoints within bytes, before its rows are put. */
coffer_status coffer__torch_find_within(coffer__graph *graph, const coffer__torch_file *file, coffer_error *err);

#endif
