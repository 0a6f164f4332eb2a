/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rewrite that changes only metadata or names: headers change, and no tensor is touched.
 *
 * A single file is edited. Of several files the new headers are made ready beside the files, and a commit brings
 * them in together with the index (commit.h).
 */
#include "commit.h"
#include "edit.h"
#include "model.h"
#include "model_writer.h"
#include "os.h"
#include "rewriting.h"

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
static void rewrite_note_way(coffer_rewrite_summary *summary, const coffer__edit_reported *reported)
{
    summary->edited = reported->way > summary->edited ? reported->way : summary->edited;
}

/* Mode, slack and the rest have their defaults, so a header without space is made longer as by any edit. */
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
    coffer__edit_reported reported;
    coffer__edit_renames renames;
    size_t first = 0;
    const coffer *model = rewrite->model;
    coffer_rewrite_summary *summary = &rewrite->summary;
    const coffer_read_options unwatched = COFFER_READ_OPTIONS_INIT;
    const coffer_edit_options options = rewrite_edit_options(rewrite, &unwatched);
    for (size_t i = 0; i < model->shard_count; i++) {
        const coffer__edit_wanted wanted = rewrite_wanted(rewrite, i, first, &renames);
        const coffer_status status = coffer__edit_measure(model->shards[i].path, &wanted, &options, &reported, err);
        if (status != COFFER_OK) {
            return status;
        }
        summary->lacking = reported.lacking > summary->lacking ? reported.lacking : summary->lacking;
        summary->lacking_count += reported.lacking > 0;
        summary->lacking_size += reported.lacking > 0 ? coffer_shard_size(model, i) : 0;
        first += coffer_table_count(model->shards[i].table);
    }
    return COFFER_OK;
}

/* The model writer has locked the folder, has written the new index, and publishes all of it in the end. */
coffer_status coffer__rewrite_fill_headers(coffer_rewrite *rewrite, coffer_model_writer *files,
                                           const coffer_read_options *read, coffer_error *err)
{
    coffer__edit_reported reported;
    coffer__edit_renames renames;
    coffer__path file;
    coffer__path fresh;
    coffer__path head;
    size_t first = 0;
    const coffer *model = rewrite->model;
    coffer_edit_options options = rewrite_edit_options(rewrite, read);
    options.sync = COFFER_SYNC_ALWAYS; /* as the commit */
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < model->shard_count && status == COFFER_OK; i++) {
        coffer__edit_wanted wanted = rewrite_wanted(rewrite, i, first, &renames);
        /* The names fit, or the model writer would not have been opened; that of a patch is longer by one. */
        (void)coffer__model_writer_file(files, i, false, &file);
        (void)coffer__model_writer_file(files, i, true, &fresh);
        const coffer__edit_aside aside = { .fresh = fresh.text,
                                           .head = coffer__commit_head_name(&head, file.text) ? head.text : NULL };
        wanted.aside = &aside;
        status = coffer__edit_only(model->shards[i].path, &wanted, &options, &reported, err);
        if (status == COFFER_OK) {
            rewrite_note_way(&rewrite->summary, &reported);
            coffer__model_writer_adopt(files, i);
        }
        first += coffer_table_count(model->shards[i].table);
    }
    return status;
}

/* The edit takes the lock itself. Between giving it up here and the edit another editor may come first; then the edit fails
   with COFFER_ERR_CHANGED and that editor's work stays. */
coffer_status coffer__rewrite_header(coffer_rewrite *rewrite, const coffer_read_options *read, coffer_error *err)
{
    coffer__edit_reported reported;
    coffer__edit_renames renames;
    const coffer_edit_options options = rewrite_edit_options(rewrite, read);
    const coffer__edit_wanted wanted = rewrite_wanted(rewrite, 0, 0, &renames);
    (void)coffer__os_close(rewrite->lock);
    rewrite->lock = -1;
    const coffer_status status = coffer__edit_only(rewrite->model->shards->path, &wanted, &options, &reported, err);
    if (status == COFFER_OK) {
        rewrite_note_way(&rewrite->summary, &reported);
    }
    return status;
}
