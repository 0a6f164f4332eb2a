/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rewrite that changes only metadata, or names in a single file: every file is edited by itself, and no tensor is
 * touched. Edits of several files cannot be published together, so a failure in the middle takes back what was done:
 * the files before it get the values again that they had when the model was opened. That fits wherever the new values
 * did, or into the room that the edit has made.
 */
#include "alloc.h"
#include "edit.h"
#include "error.h"
#include "model.h"
#include "os.h"
#include "rewriting.h"

#include <string.h>

/* The edits of one file, and the same backwards. */
typedef struct rewrite_edits {
    const coffer_rewrite *rewrite;
    coffer_rewrite_summary *summary; /* that of the plan */
    coffer_edit *back;               /* as many as there are edits */
    coffer__os_info *seen;           /* of each file, once it is edited: what is there */
    coffer_edit_options options;
} rewrite_edits;

/* Gives a file the values again that it had. Where a key is edited twice, both edits get its old value. The table is
   that of the file as it was read, which is in memory. What somebody has saved there since stays, as in any edit. */
static coffer_status rewrite_take_back(const rewrite_edits *edits, size_t shard)
{
    const coffer *model = edits->rewrite->model;
    const coffer_rewrite_options *options = &edits->rewrite->options;
    for (size_t i = 0; i < options->edit_count; i++) {
        coffer_edit *back = &edits->back[i];
        *back = options->edits[i];
        back->value = coffer_table_metadata_get(model->shards[shard].table, back->key, back->key_len, &back->value_len);
    }
    coffer__edit_told told;
    const coffer__edit_wanted wanted = { .edits = edits->back,
                                         .count = options->edit_count,
                                         .only = &edits->seen[shard] };
    return coffer__edit_only(model->shards[shard].path, &wanted, &edits->options, &told, NULL);
}

/* Takes back the edits of all files before this one. The progress was that of the edits, and whoever has cancelled them
   must not cancel this. Returns the first file that could not be given its old values; `shard` if all could. */
static size_t rewrite_take_all_back(rewrite_edits *edits, size_t shard)
{
    size_t left = shard;
    edits->options.progress = NULL;
    for (size_t i = shard; i > 0; i--) {
        left = rewrite_take_back(edits, i - 1) == COFFER_OK ? left : i - 1;
    }
    return left;
}

/* After a failure at this file: the model is as it was, or the message says where it is not. */
static coffer_status rewrite_fail_headers(rewrite_edits *edits, size_t shard, const coffer_error *cause,
                                          coffer_error *err)
{
    const coffer *model = edits->rewrite->model;
    const size_t left = rewrite_take_all_back(edits, shard);
    if (err == NULL) {
        return cause->code;
    }
    *err = *cause;
    if (shard == 0) {
        return cause->code;
    }
    if (left == shard) {
        coffer__fail(err, cause->code, "%s; no file of the model has new metadata", cause->message);
    } else {
        const char *path = coffer_shard_path(model, left);
        coffer__fail(err, cause->code,
                     "%s; the edits of the files before it were taken back, but not that of %q: repeat the edit when "
                     "the cause is gone",
                     cause->message, path, strlen(path));
    }
    coffer__fail_path(err, cause->code, coffer_shard_path(model, shard));
    return coffer__fail_errno(err, cause->code, cause->os_error);
}

/* The tensors of a single file are numbered as those of its table. */
static coffer__name rewrite_new_name(const void *ctx, const coffer_tensor *tensor, size_t i)
{
    const coffer_rewrite *rewrite = ctx;
    (void)tensor;
    return (coffer__name){ rewrite->changes[i].to->name, rewrite->changes[i].to->name_len };
}

/* Keeps what took longest. */
static void rewrite_note_way(rewrite_edits *edits, const coffer__edit_told *told)
{
    /* By time: nothing, a clone, in place, a rewrite. An insertion is never asked for here. */
    coffer_rewrite_summary *summary = edits->summary;
    summary->edited = told->way > summary->edited ? told->way : summary->edited;
    summary->lacking = told->lacking > summary->lacking ? told->lacking : summary->lacking;
}

/* In order of their names. Each file has to be the one that was read. */
static coffer_status rewrite_edit_files(rewrite_edits *edits, coffer_error *err)
{
    coffer_error cause;
    coffer__edit_told told;
    const coffer *model = edits->rewrite->model;
    const coffer_rewrite_options *options = &edits->rewrite->options;
    const coffer__edit_renames renames = { rewrite_new_name, edits->rewrite };
    for (size_t i = 0; i < model->shard_count; i++) {
        const coffer__edit_wanted wanted = { .edits = options->edits,
                                             .count = options->edit_count,
                                             .renames = edits->rewrite->renamed ? &renames : NULL,
                                             .only = coffer__source_seen(&model->shards[i].source) };
        if (coffer__edit_only(model->shards[i].path, &wanted, &edits->options, &told, &cause) != COFFER_OK) {
            return rewrite_fail_headers(edits, i, &cause, err);
        }
        rewrite_note_way(edits, &told);
        /* What cannot be looked at cannot be taken back: nothing is like it. */
        if (coffer__os_inspect(model->shards[i].path, true, &edits->seen[i]) != 0) {
            edits->seen[i] = (coffer__os_info){ .kind = COFFER__OS_OTHER };
        }
    }
    return COFFER_OK;
}

/* Between giving up the lock and the edit another editor may come first; then the edit fails with COFFER_ERR_CHANGED
   and that editor's work stays. All files are looked at before the first is edited, so that a model which was
   changed as a whole is left alone. Memory for the way back is taken before there is anything to take back. */
coffer_status coffer__rewrite_headers(coffer_rewrite *rewrite, const coffer_read_options *read, coffer_error *err)
{
    const coffer_rewrite_options *options = &rewrite->options;
    rewrite_edits edits = { .rewrite = rewrite, .summary = &rewrite->summary, .options = COFFER_EDIT_OPTIONS_INIT };
    /* Mode, slack and the rest have their defaults, so a header without room is made longer as by
       any edit. */
    edits.options.allocator = &rewrite->allocator;
    edits.options.max_header_size = options->max_header_size;
    edits.options.follow_links = options->follow_links;
    /* A rewrite replaces files whatever their mode; with new names, as with new files. */
    edits.options.read_only = rewrite->renamed;
    edits.options.sync = options->sync;
    edits.options.progress = read->progress;
    edits.options.progress_ctx = read->progress_ctx;
    /* The edit takes the lock itself. It checks that the file is the one that was planned for. */
    if (rewrite->lock >= 0) {
        (void)coffer__os_close(rewrite->lock);
        rewrite->lock = -1;
    }
    coffer_status status = coffer__rewrite_check_unchanged(rewrite, err);
    if (status != COFFER_OK) {
        return status;
    }
    const size_t count = rewrite->model->shard_count;
    edits.back = coffer__alloc_array(&rewrite->allocator, options->edit_count, sizeof *edits.back, err);
    edits.seen = coffer__alloc_array(&rewrite->allocator, count, sizeof *edits.seen, err);
    status = edits.back == NULL || edits.seen == NULL ? COFFER_ERR_MEMORY : rewrite_edit_files(&edits, err);
    coffer__free_array(&rewrite->allocator, edits.seen, count, sizeof *edits.seen);
    coffer__free_array(&rewrite->allocator, edits.back, options->edit_count, sizeof *edits.back);
    return status;
}
