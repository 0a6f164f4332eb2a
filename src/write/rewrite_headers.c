/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rewrite that changes only metadata or names: every file is edited by itself, and no tensor is touched.
 *
 * Names in several files change together with the index that has them: the new headers are made ready beside the files,
 * and a publication brings them in (publication.h).
 *
 * Other edits of several files are made one after the other, so a failure in the middle takes back what was done: the
 * files before it get the values again that they had when the model was opened. That fits wherever the new values did,
 * or into the room that the edit has made.
 */
#include "alloc.h"
#include "edit.h"
#include "error.h"
#include "model.h"
#include "model_writer.h"
#include "os.h"
#include "publication.h"
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

/* The tensors of a model are numbered file by file, and those of a file as those of its table; ctx has the changes from the
   first of the file on. */
static coffer__name rewrite_new_name(const void *ctx, const coffer_tensor *tensor, size_t i)
{
    const coffer_rewrite_change *changes = ctx;
    (void)tensor;
    return (coffer__name){ changes[i].to->name, changes[i].to->name_len };
}

/* What is to become of file `shard`, whose first tensor is number `first` of the model. */
static coffer__edit_wanted rewrite_wanted(const coffer_rewrite *rewrite, size_t shard, size_t first,
                                          coffer__edit_renames *renames)
{
    const coffer_rewrite_options *options = &rewrite->options;
    *renames = (coffer__edit_renames){ rewrite_new_name, rewrite->changes + first };
    return (coffer__edit_wanted){ .edits = options->edits,
                                  .count = options->edit_count,
                                  .renames = rewrite->renamed ? renames : NULL,
                                  .only = coffer__source_seen(&rewrite->model->shards[shard].source) };
}

/* Keeps what took longest: nothing, a clone, in place, a rewrite. An insertion is never asked for here. */
static void rewrite_note_way(coffer_rewrite_summary *summary, const coffer__edit_told *told)
{
    summary->edited = told->way > summary->edited ? told->way : summary->edited;
}

/* In order of their names. Each file has to be the one that was read. Names change here in a single file only. */
static coffer_status rewrite_edit_files(rewrite_edits *edits, coffer_error *err)
{
    coffer_error cause;
    coffer__edit_told told;
    const coffer *model = edits->rewrite->model;
    coffer__edit_renames renames;
    for (size_t i = 0; i < model->shard_count; i++) {
        const coffer__edit_wanted wanted = rewrite_wanted(edits->rewrite, i, 0, &renames);
        if (coffer__edit_only(model->shards[i].path, &wanted, &edits->options, &told, &cause) != COFFER_OK) {
            return rewrite_fail_headers(edits, i, &cause, err);
        }
        rewrite_note_way(edits->summary, &told);
        /* What cannot be looked at cannot be taken back: nothing is like it. */
        if (coffer__os_inspect(model->shards[i].path, true, &edits->seen[i]) != 0) {
            edits->seen[i] = (coffer__os_info){ .kind = COFFER__OS_OTHER };
        }
    }
    return COFFER_OK;
}

/* Mode, slack and the rest have their defaults, so a header without room is made longer as by any edit. */
static coffer_edit_options rewrite_edit_options(const coffer_rewrite *rewrite, const coffer_read_options *read)
{
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    options.allocator = &rewrite->allocator;
    options.max_header_size = rewrite->options.max_header_size;
    options.follow_links = rewrite->options.follow_links;
    /* A rewrite replaces files whatever their mode; with new names, as with new files. */
    options.read_only = rewrite->renamed;
    options.sync = rewrite->options.sync;
    options.progress = read->progress;
    options.progress_ctx = read->progress_ctx;
    return options;
}

coffer_status coffer__rewrite_measure_headers(coffer_rewrite *rewrite, coffer_error *err)
{
    coffer__edit_told told;
    coffer__edit_renames renames;
    size_t first = 0;
    const coffer *model = rewrite->model;
    coffer_rewrite_summary *summary = &rewrite->summary;
    const coffer_read_options unwatched = COFFER_READ_OPTIONS_INIT;
    const coffer_edit_options options = rewrite_edit_options(rewrite, &unwatched);
    for (size_t i = 0; i < model->shard_count; i++) {
        const coffer__edit_wanted wanted = rewrite_wanted(rewrite, i, first, &renames);
        const coffer_status status = coffer__edit_measure(model->shards[i].path, &wanted, &options, &told, err);
        if (status != COFFER_OK) {
            return status;
        }
        summary->lacking = told.lacking > summary->lacking ? told.lacking : summary->lacking;
        summary->lacking_count += told.lacking > 0;
        summary->lacking_size += told.lacking > 0 ? coffer_shard_size(model, i) : 0;
        first += coffer_table_count(model->shards[i].table);
    }
    return COFFER_OK;
}

/* The model writer has locked the folder, has written the new index, and publishes all of it in the end. */
coffer_status coffer__rewrite_fill_headers(coffer_rewrite *rewrite, coffer_model_writer *files,
                                           const coffer_read_options *read, coffer_error *err)
{
    coffer__edit_told told;
    coffer__edit_renames renames;
    coffer__path file;
    coffer__path fresh;
    coffer__path head;
    size_t first = 0;
    const coffer *model = rewrite->model;
    coffer_edit_options options = rewrite_edit_options(rewrite, read);
    options.sync = COFFER_SYNC_ALWAYS; /* as the publication */
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < model->shard_count && status == COFFER_OK; i++) {
        coffer__edit_wanted wanted = rewrite_wanted(rewrite, i, first, &renames);
        /* The names fit, or the model writer would not have been opened; that of a patch is longer by one. */
        (void)coffer__model_writer_file(files, i, false, &file);
        (void)coffer__model_writer_file(files, i, true, &fresh);
        const coffer__edit_aside aside = { .fresh = fresh.text,
                                           .head = coffer__publication_head_name(&head, file.text) ? head.text : NULL };
        wanted.aside = &aside;
        status = coffer__edit_only(model->shards[i].path, &wanted, &options, &told, err);
        if (status == COFFER_OK) {
            rewrite_note_way(&rewrite->summary, &told);
            coffer__model_writer_adopt(files, i);
        }
        first += coffer_table_count(model->shards[i].table);
    }
    return status;
}

/* Between giving up the lock and the edit another editor may come first; then the edit fails with COFFER_ERR_CHANGED
   and that editor's work stays. All files are looked at before the first is edited, so that a model which was
   changed as a whole is left alone. Memory for the way back is taken before there is anything to take back. */
coffer_status coffer__rewrite_headers(coffer_rewrite *rewrite, const coffer_read_options *read, coffer_error *err)
{
    const coffer_rewrite_options *options = &rewrite->options;
    rewrite_edits edits = { .rewrite = rewrite,
                            .summary = &rewrite->summary,
                            .options = rewrite_edit_options(rewrite, read) };
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
