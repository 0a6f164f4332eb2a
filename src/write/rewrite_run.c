/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan carried out, as coffer/rewrite.h promises. What stays as it is, is copied in one call, so that the system does
 * it where it can; then comes what is cast. One file is published by its writer, several by a publication of all of
 * them together.
 */
#include "alloc.h"
#include "edit.h"
#include "error.h"
#include "model.h"
#include "model_writer.h"
#include "options.h"
#include "os.h"
#include "parts.h"
#include "rewriting.h"
#include "trouble.h"

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* The header was built by the plan, with its layout and with room for digests, so the writer takes
   both as they are. The path is the resolved one: a link that is followed stays a link. */
static coffer_status rewrite_open_file(const coffer_rewrite *rewrite, coffer__rewrite_target *target, coffer_error *err)
{
    coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    options.sync = rewrite->options.sync;
    options.digests = rewrite->digests;
    /* If another program saves there in between, its file must not be lost. In place, finishing fails
       with COFFER_ERR_CHANGED instead. */
    options.replaces = rewrite->options.output == NULL ? rewrite->model : NULL;
    return coffer_writer_open(&target->file, rewrite->headers[0], rewrite->target.text, &options, err);
}

/* The model writer splits and builds again by the same functions, from the same declarations, and
   so comes to the plan's files. Everything in `keeps` is borrowed from the plan, which lives longer
   than the writer. A file with the model's name as one file is removed without `force` only if it
   belongs to the model (owns_target). From here until the writer is freed the folder is locked
   against other saves. */
static coffer_status rewrite_open_files(const coffer_rewrite *rewrite, coffer__rewrite_target *target,
                                        coffer_error *err)
{
    const coffer_rewrite_options *options = &rewrite->options;
    coffer_model_writer_options model = COFFER_MODEL_WRITER_OPTIONS_INIT;
    coffer_writer_options files = COFFER_WRITER_OPTIONS_INIT;
    const coffer__model_writer_keeps keeps = { .shard_of = options->max_shard_size == 0 ? rewrite->shard_of : NULL,
                                               .names = rewrite->keeps_names ? rewrite->model : NULL,
                                               .members = &rewrite->members };
    /* The layout of the plan, field by field: the writer's options are not those of a header. */
    files.alignment = rewrite->layout.alignment;
    files.slack = rewrite->layout.slack;
    files.max_header_size = rewrite->layout.max_header_size;
    files.empty_metadata = rewrite->layout.empty_metadata;
    files.format = rewrite->layout.format;
    files.sync = options->sync;
    files.digests = rewrite->digests;
    model.files = &files;
    model.max_shard_size = options->max_shard_size;
    /* owns_target: the file that would be removed is one of the model's own (rewrite_guard.c). */
    model.force = options->force || rewrite->owns_target;
    return coffer__model_writer_open(&target->files, rewrite->header, rewrite->target.text, &keeps, &model, err);
}

/* A single file made of a single file has a writer of its own: it may have any name and format, and
   nothing else is published with it. Replacing several files by one needs the publication, too,
   since the old ones and their index have to go. */
static coffer_status rewrite_open(const coffer_rewrite *rewrite, coffer__rewrite_target *target, coffer_error *err)
{
    const bool replaces_several = rewrite->options.output == NULL && rewrite->model->several != NULL;
    return rewrite->shards.count == 1 && !replaces_several ? rewrite_open_file(rewrite, target, err)
                                                           : rewrite_open_files(rewrite, target, err);
}

/* One call for all tensors lets the writer join neighbours into long runs. Where the model was
   opened by URL, the same call reads and writes. */
static coffer_status rewrite_copy(const coffer_rewrite *rewrite, const coffer__rewrite_target *target,
                                  const coffer_read_options *options, coffer_error *err)
{
    const size_t declared = coffer_header_count(rewrite->header);
    size_t count = 0;
    coffer_copy *copies = coffer__alloc_array(&rewrite->allocator, declared, sizeof *copies, err);
    if (copies == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < declared; i++) {
        const coffer_rewrite_change *change = coffer__rewrite_change_of(rewrite, i);
        /* Every tensor is either copied here or cast later, so each byte is written exactly
           once. */
        if (!coffer__rewrite_is_cast(change)) {
            copies[count++] = (coffer_copy){ i, rewrite->model, change->from };
        }
    }
    const coffer_status status = target->file != NULL
                                     ? coffer_writer_copy(target->file, copies, count, options, err)
                                     : coffer_model_writer_copy(target->files, copies, count, options, err);
    coffer__free_array(&rewrite->allocator, copies, declared, sizeof *copies);
    return status;
}

/* Copies come before casts. They go in one call, which the system can speed up; casts follow piece
   by piece. The part's options are the caller's, with the progress translated. */
static coffer_status rewrite_fill(coffer_rewrite *rewrite, const coffer__rewrite_target *target,
                                  const coffer_read_options *options, coffer_error *err)
{
    const coffer_rewrite_summary *summary = &rewrite->summary;
    coffer__parts parts = { .total = summary->copied + summary->cast };
    coffer_read_options part = *options;
    coffer__parts_begin(&parts, &part.progress, &part.progress_ctx);
    const coffer_status status = rewrite_copy(rewrite, target, &part, err);
    if (status != COFFER_OK || summary->cast == 0) {
        return status;
    }
    /* The casts are counted from the end of the copies on. */
    parts.before = summary->copied;
    return coffer__rewrite_cast(rewrite, target, &part, err);
}

/* `seen` is NULL for a file that was not looked at when it was opened; then it is enough that it
   exists. The path is followed, as it was when the model was opened. */
static coffer_status rewrite_look_again(const char *path, const coffer__os_info *seen, coffer_error *err)
{
    coffer__os_info now;
    if (coffer__os_inspect(path, true, &now) == 0 && (seen == NULL || coffer__os_unchanged(seen, &now))) {
        return COFFER_OK;
    }
    coffer__fail(err, COFFER_ERR_CHANGED,
                 "the file was changed, or replaced by another one, since it was read: nothing was rewritten");
    return coffer__fail_path(err, COFFER_ERR_CHANGED, path);
}

/* Whether the files of a model that is replaced, its index too, are still those that were read. (A
   single file's writer looks at it itself.) It narrows the window in which a save of another
   program could be lost. Other saves by this library are kept out by the lock of the folder, but an
   edit of a file's metadata takes only the lock of that file and is found here. */
static coffer_status rewrite_check_unchanged(const coffer_rewrite *rewrite, coffer_error *err)
{
    const coffer *model = rewrite->model;
    if (rewrite->options.output != NULL) {
        return COFFER_OK;
    }
    for (size_t i = 0; i < model->shard_count; i++) {
        const coffer_status status =
            rewrite_look_again(model->shards[i].path, coffer__source_seen(&model->shards[i].source), err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return model->several == NULL ? COFFER_OK
                                  : rewrite_look_again(model->several->index_path, &rewrite->index_seen, err);
}

/* The look comes as late as possible, when all bytes are written and only renames are left. If it
   fails, nothing is published and the new files are removed. */
static coffer_status rewrite_finish(const coffer_rewrite *rewrite, const coffer__rewrite_target *target,
                                    coffer_error *err)
{
    if (target->file != NULL) {
        return coffer_writer_finish(target->file, err);
    }
    const coffer_status status = rewrite_check_unchanged(rewrite, err);
    return status == COFFER_OK ? coffer_model_writer_finish(target->files, err) : status;
}

/* One target of the two is set. Freeing a writer that was not finished removes its new files, so
   after any failure the old model is there as it was; freeing what is NULL does nothing. */
static coffer_status rewrite_files(coffer_rewrite *rewrite, const coffer_read_options *options, coffer_error *err)
{
    coffer__rewrite_target target = { .file = NULL };
    coffer_status status = rewrite_open(rewrite, &target, err);
    if (status == COFFER_OK) {
        status = rewrite_fill(rewrite, &target, options, err);
    }
    if (status == COFFER_OK) {
        status = rewrite_finish(rewrite, &target, err);
    }
    coffer_writer_free(target.file);
    coffer_model_writer_free(target.files);
    return status;
}

/* ---- only metadata ----------------------------------------------------------------------------------------------- */

/* Says after a failure in the middle which files are changed by now. Each file is whole, whichever
   it is; only the model as a whole is half done. Running the same edits again completes it, since
   files that have the metadata already are left alone. */
static coffer_status rewrite_headers_fail(const coffer *model, size_t shard, const coffer_error *cause,
                                          coffer_error *err)
{
    if (err == NULL) {
        return cause->code;
    }
    *err = *cause;
    if (shard == 0) {
        return cause->code;
    }
    coffer__fail(err, cause->code,
                 "%s; the %u files before this one, in order of their names, have the new metadata, and this one and "
                 "the %u after it have the old",
                 cause->message, (uint64_t)shard, (uint64_t)(model->shard_count - shard - 1));
    coffer__fail_path(err, cause->code, coffer_shard_path(model, shard));
    return coffer__fail_errno(err, cause->code, cause->os_error);
}

/* Between giving up the lock and the edit another editor may come first; then the edit fails with
   COFFER_ERR_CHANGED and that editor's work stays. All files are looked at before the first is
   edited, so that a model which was changed as a whole is not left half edited. There is no way to
   publish edits together: each header is changed in its own file. */
static coffer_status rewrite_headers(coffer_rewrite *rewrite, const coffer_read_options *read, coffer_error *err)
{
    coffer_error cause;
    const coffer_rewrite_options *options = &rewrite->options;
    const coffer *model = rewrite->model;
    coffer_edit_options edit = COFFER_EDIT_OPTIONS_INIT;
    edit.allocator = &rewrite->allocator;
    edit.max_header_size = options->max_header_size;
    /* Mode, slack and the rest have their defaults, so a header without room is made longer as by
       any edit. */
    edit.follow_links = options->follow_links;
    edit.sync = options->sync;
    edit.progress = read->progress;
    edit.progress_ctx = read->progress_ctx;
    /* The edit takes the lock itself. It checks that the file is the one that was planned for. */
    if (rewrite->lock >= 0) {
        (void)coffer__os_close(rewrite->lock);
        rewrite->lock = -1;
    }
    const coffer_status status = rewrite_check_unchanged(rewrite, err);
    if (status != COFFER_OK) {
        return status;
    }
    for (size_t i = 0; i < model->shard_count; i++) {
        if (coffer__edit_only(model->shards[i].path, coffer__source_seen(&model->shards[i].source), options->edits,
                              options->edit_count, &edit, NULL, &cause) != COFFER_OK) {
            return rewrite_headers_fail(model, i, &cause, err);
        }
    }
    return COFFER_OK;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* A plan is used up by the first call that gets past the checks, even if that call fails. With
   COFFER_REWRITE_NOTHING no file is opened. */
coffer_status coffer_rewrite_run(coffer_rewrite *rewrite, const coffer_read_options *options, coffer_error *err)
{
    coffer_read_options known;
    if (rewrite == NULL || rewrite->run) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the plan is NULL, or was carried out before");
    }
    const coffer_status status = coffer__options_copy(&known, sizeof known, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    known.struct_size = sizeof known;
    rewrite->run = true;
    switch (rewrite->summary.way) {
    case COFFER_REWRITE_FILES:
        return rewrite_files(rewrite, &known, err);
    case COFFER_REWRITE_HEADERS:
        return rewrite_headers(rewrite, &known, err);
    case COFFER_REWRITE_NOTHING:
        break;
    }
    return COFFER_OK;
}
