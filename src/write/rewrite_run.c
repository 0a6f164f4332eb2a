/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan carried out, as coffer/rewrite.h promises. What stays as it is, is copied in one call, so that the system does
 * it where it can; then comes what is cast. One file is published by its writer, several by a commit of all of
 * them together, also where only their headers are new.
 */
#include "alloc.h"
#include "error.h"
#include "model.h"
#include "model_writer.h"
#include "options.h"
#include "parts.h"
#include "rewriting.h"

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* The header was built by the plan, with its layout and with space for digests, so the writer takes
   both as they are. The path is the resolved one: a link that is followed stays a link. */
static coffer_status rewrite_open_file(const coffer_rewrite *rewrite, coffer__rewrite_target *target, coffer_error *err)
{
    coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    options.sync = rewrite->options.sync;
    options.digests = rewrite->digests;
    options.packed = rewrite->options.packed;
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
                                               .keeps_index = rewrite->publishes_headers && !rewrite->renamed &&
                                                              coffer_index_text(rewrite->model, NULL) != NULL,
                                               .members = &rewrite->members };
    /* The layout of the plan, field by field: the writer's options are not those of a header. */
    files.alignment = rewrite->layout.alignment;
    files.slack = rewrite->layout.slack;
    files.max_header_size = rewrite->layout.max_header_size;
    files.empty_metadata = rewrite->layout.empty_metadata;
    files.format = rewrite->layout.format;
    files.packed = options->packed;
    /* Headers are written into files that others have, which is durable in any case. */
    files.sync = rewrite->publishes_headers ? COFFER_SYNC_ALWAYS : options->sync;
    /* Those of tensors stay where only headers change, and so do the index's. */
    files.digests = rewrite->publishes_headers ? COFFER_NO_ALGORITHM : rewrite->digests;
    model.files = &files;
    model.max_shard_size = options->max_shard_size;
    /* owns_target: the file that would be removed is one of the model's own (rewrite_guard.c). */
    model.force = options->force || rewrite->owns_target;
    model.companions = options->companions;
    model.companion_count = options->companion_count;
    return coffer__model_writer_create(&target->files, rewrite->header, rewrite->target.text, &keeps, &model, err);
}

/* A single file made of a single file has a writer of its own: it may have any name and format, and
   nothing else is published with it. Replacing several files by one needs the commit, too,
   since the old ones and their index have to go, and so do companions. */
static coffer_status rewrite_open(const coffer_rewrite *rewrite, coffer__rewrite_target *target, coffer_error *err)
{
    const bool replaces_sharded = rewrite->options.output == NULL && rewrite->model->sharded != NULL;
    const bool alone = rewrite->options.companion_count == 0 && !replaces_sharded;
    return rewrite->shards.count == 1 && alone ? rewrite_open_file(rewrite, target, err)
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
    if (rewrite->publishes_headers) {
        return coffer__rewrite_fill_headers(rewrite, target->files, options, err);
    }
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

/* The look comes as late as possible, when all bytes are written and only renames are left. If it
   fails, nothing is published and the new files are removed. */
static coffer_status rewrite_finish(const coffer_rewrite *rewrite, const coffer__rewrite_target *target,
                                    coffer_error *err)
{
    if (target->file != NULL) {
        return coffer_writer_finish(target->file, err);
    }
    const coffer_status status = coffer__rewrite_check_unchanged(rewrite, err);
    return status == COFFER_OK ? coffer_model_writer_finish(target->files, err) : status;
}

/* What comes before the first byte of a tensor: what has to be known of the models' bytes, and the new files, which are made,
   have their space, and have no name that counts. One target of the two is set. */
static coffer_status rewrite_begin(const coffer_rewrite *rewrite, coffer__rewrite_target *target,
                                   const coffer_read_options *options, coffer_error *err)
{
    const coffer__computing *computing = &rewrite->computing;
    const coffer_status status =
        computing->prepare != NULL ? computing->prepare(computing->ctx, options, err) : COFFER_OK;
    return status == COFFER_OK && !rewrite->options.unplaced ? rewrite_open(rewrite, target, err) : status;
}

/* Freeing a writer that was not finished removes its new files, so after any failure the old model is there as it was;
   freeing what is NULL does nothing. */
static coffer_status rewrite_files(coffer_rewrite *rewrite, const coffer_read_options *options, coffer_error *err)
{
    coffer__rewrite_target target = { .file = NULL };
    coffer_status status = rewrite_begin(rewrite, &target, options, err);
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

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* A plan is used up by the first call that gets past the checks, even if that call fails. */
static coffer_status rewrite_use_up(coffer_rewrite *rewrite, coffer_read_options *known,
                                    const coffer_read_options *options, coffer_error *err)
{
    if (rewrite == NULL || rewrite->run) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the plan is NULL, or was carried out before");
    }
    const coffer_status status = coffer__options_copy(known, sizeof *known, options, err);
    if (status == COFFER_OK) {
        known->struct_size = sizeof *known;
        rewrite->run = true;
    }
    return status;
}

/* With COFFER_REWRITE_NOTHING no file is opened. */
coffer_status coffer_rewrite_run(coffer_rewrite *rewrite, const coffer_read_options *options, coffer_error *err)
{
    coffer_read_options known;
    const coffer_status status = rewrite_use_up(rewrite, &known, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (rewrite->options.unplaced) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the plan has no place, and can only be checked");
    }
    switch (rewrite->summary.way) {
    case COFFER_REWRITE_FILES:
        return rewrite_files(rewrite, &known, err);
    case COFFER_REWRITE_HEADERS:
        return rewrite->publishes_headers ? rewrite_files(rewrite, &known, err)
                                          : coffer__rewrite_header(rewrite, &known, err);
    case COFFER_REWRITE_NOTHING:
        break;
    }
    return COFFER_OK;
}

/* Files that are open at once, at most, while it is looked whether they have their space. */
#define REWRITE_TRIED_FILES 200

/* Writes the last byte of each new file, with which it gets its space, or is found to be larger than files may be. */
static coffer_status rewrite_try(const coffer_rewrite *rewrite, const coffer__rewrite_target *target, coffer_error *err)
{
    const coffer__shards *shards = &rewrite->shards;
    coffer_status status = COFFER_OK;
    for (size_t s = 0; s < shards->count && s < REWRITE_TRIED_FILES && status == COFFER_OK; s++) {
        const coffer_tensor *last = NULL;
        uint32_t number = 0;
        for (uint32_t at = shards->first[s]; at < shards->first[s + 1]; at++) {
            const coffer_tensor *tensor = coffer__rewrite_change_of(rewrite, shards->order[at])->to;
            const bool after = tensor->size > 0 && (last == NULL || tensor->offset > last->offset);
            last = after ? tensor : last;
            number = after ? shards->order[at] : number;
        }
        if (last != NULL) {
            status = target->file != NULL
                         ? coffer_writer_write(target->file, number, last->size - 1, "", 1, err)
                         : coffer_model_writer_write(target->files, number, last->size - 1, "", 1, err);
        }
    }
    return status;
}

coffer_status coffer_rewrite_check(coffer_rewrite *rewrite, const coffer_read_options *options, coffer_error *err)
{
    coffer_read_options known;
    coffer__rewrite_target target = { .file = NULL };
    coffer_status status = rewrite_use_up(rewrite, &known, options, err);
    if (status == COFFER_OK && (rewrite->summary.way == COFFER_REWRITE_FILES || rewrite->publishes_headers)) {
        status = rewrite_begin(rewrite, &target, &known, err);
        if (status == COFFER_OK && rewrite->summary.way == COFFER_REWRITE_FILES && !rewrite->options.unplaced) {
            status = rewrite_try(rewrite, &target, err);
        }
        coffer_writer_free(target.file);
        coffer_model_writer_free(target.files);
    }
    return status;
}
