/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetches the files of an open model, or some of its tensors as files of their own, into a folder; and, for a model
 * that was named as a whole, the files beside the tensors (fetch_beside.h). This file plans what each file will be;
 * fetch.h says what follows.
 *
 * The plan depends only on the model and the wish. So a second call for the same makes the same plan, recognises by
 * `number` and by the sizes what an interrupted call has left, and continues with that.
 */
#include "fetch.h"

#include "alloc.h"
#include "error.h"
#include "fnv.h"
#include "options.h"
#include "packed_file.h"
#include "sharded.h"
#include "text.h"

#include <string.h>

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* FOLDER/NAME. NAME is the last component of a path, or of a URL without its query. Names of files
   come from an index, and so from a stranger: only a plain file name is accepted. The check is the
   one that opening a model applies to the names in an index, so nothing like ".." or an empty name
   leaves the folder. *target is where the complete file will be; parts and temporary files are
   named after it. */
static coffer_status fetch_target(const coffer__download *job, const char *path, coffer__path *target,
                                  coffer_error *err)
{
    const bool is_url = coffer__url_is(path);
    size_t len = 0;
    while (path[len] != '\0' && !(is_url && path[len] == '?')) {
        len++;
    }
    size_t from = is_url ? len : coffer__path_name_at(path);
    while (is_url && from > 0 && path[from - 1] != '/') {
        from--;
    }
    const coffer_status status = coffer__model_dir_check_name(path + from, len - from, 0, NULL);
    if (status != COFFER_OK) {
        return coffer__fail(err, COFFER_ERR_SHARD_NAME, "%q is not a valid file name", path + from, len - from);
    }
    const size_t folder_len = strlen(job->folder);
    const bool slash = folder_len > 0 && job->folder[folder_len - 1] != '/';
    if (!coffer__path_copy(target, job->folder) ||
        (slash && !coffer__text_append(target->text, sizeof target->text, "/", 1)) ||
        !coffer__text_append(target->text, sizeof target->text, path + from, len - from)) {
        return coffer__fail(err, COFFER_ERR_IO, "the file's path would be too long");
    }
    return COFFER_OK;
}

/* ---- a file of some tensors -------------------------------------------------------------------------------------- */

/* The number of a shard's first tensor, for coffer_at: tensors are numbered by shard. It adds up
   the tensors of the shards before, and is called once or twice for each shard, so it costs nothing
   that matters beside a request. */
static size_t fetch_first_of(const coffer__download *job, size_t shard)
{
    size_t before = 0;
    for (size_t i = 0; i < shard; i++) {
        before += coffer_table_count(job->model->shards[i].table);
    }
    return before;
}

/* Declares the wanted tensors of a shard in a new header, with all of the shard's metadata.
   Metadata come along unchanged. Tensors are declared in the order of the old table, but the built
   header decides where they are. The header stays in `file`, which fetch_free releases after a
   failure, too. */
static coffer_status fetch_declare(coffer__download *job, coffer__fetch_file *file, coffer_error *err)
{
    const coffer_table *table = file->shard->table;
    coffer_status status = coffer_header_new(&file->header, job->allocator, err);
    coffer_pair pair;
    for (size_t i = 0; status == COFFER_OK && coffer_table_metadata_at(table, i, &pair); i++) {
        status = coffer_header_set_metadata(file->header, pair.key, pair.key_len, pair.value, pair.value_len, err);
    }
    for (size_t k = 0; status == COFFER_OK && k < coffer_table_count(table); k++) {
        const coffer_tensor *tensor = coffer_table_at(table, k);
        if (job->wanted[file->first + k]) {
            status = coffer_header_add(file->header, tensor->name, tensor->name_len, tensor->dtype, tensor->shape,
                                       tensor->rank, err);
        }
    }
    return status;
}

/* Adds a move, or extends the last one if it continues it in the source and in the file. Tensors of
   no bytes need no move. Fewer moves mean fewer requests. The caller has made space for one move for
   each tensor; the sizes are in bytes, `from` in the source and `to` in the file. */
static void fetch_add_move(coffer__fetch_file *file, uint64_t from, uint64_t to, uint64_t size)
{
    coffer__fetch_move *next = file->moves + file->move_count;
    if (file->move_count > 0 && next[-1].from + next[-1].size == from && next[-1].to + next[-1].size == to) {
        next[-1].size += size;
    } else if (size > 0) {
        *next = (coffer__fetch_move){ from, to, size };
        file->move_count++;
    }
}

/* There is at least one: a file without a wanted tensor is not planned. `move_capacity` is what freeing
   needs, even if fewer moves are used. */
static coffer_status fetch_allocate_moves(const coffer__download *job, coffer__fetch_file *file, size_t count,
                                          coffer_error *err)
{
    file->move_capacity = count;
    file->moves = coffer__alloc_array(job->allocator, file->move_capacity, sizeof *file->moves, err);
    return file->moves != NULL ? COFFER_OK : COFFER_ERR_MEMORY;
}

/* Plans a file of some tensors. The new header orders its tensors by its own rules, so the moves
   follow the built table: they ascend in the file without gaps, as coffer__fetch_file demands. Each
   name is found in the old table because it was declared from there. A format that this library
   reads but does not write becomes the one that coffer_format_to_write names. `head` is borrowed
   from the header, which lives as long as the file of the plan. */
static coffer_status fetch_plan_some(coffer__download *job, coffer__fetch_file *file, coffer_error *err)
{
    const coffer_table *built = NULL;
    const void *head = NULL;
    coffer_header_options options = COFFER_HEADER_OPTIONS_INIT;
    const coffer_table *table = file->shard->table;
    options.format = coffer_format_to_write(coffer_table_format(table));
    coffer_status status = fetch_declare(job, file, err);
    if (status == COFFER_OK) {
        status = coffer_header_build(file->header, &options, &head, &file->head_size, &built, err);
    }
    if (status == COFFER_OK) {
        status = fetch_allocate_moves(job, file, coffer_table_count(built), err);
    }
    for (size_t k = 0; status == COFFER_OK && k < coffer_table_count(built); k++) {
        const coffer_tensor *to = coffer_table_at(built, k);
        const coffer_tensor *from = coffer_table_find(table, to->name, to->name_len);
        fetch_add_move(file, from->offset, to->offset, to->size);
    }
    file->head = head;
    /* The number makes a part of another selection, whose file may have the same name and size, not count. */
    file->number = coffer__fnv(file->number, head, (size_t)file->head_size);
    file->size = status == COFFER_OK ? file->head_size + coffer_table_data_size(built) : 0;
    return status;
}

/* Whether a file of the model is fetched at all. Files without a wanted tensor are not even opened
   as parts, so a selection costs no more than what it takes. */
static bool fetch_wants(const coffer__download *job, size_t shard)
{
    const size_t first = fetch_first_of(job, shard);
    bool wants = job->wanted == NULL;
    for (size_t k = 0; !wants && k < coffer_table_count(job->model->shards[shard].table); k++) {
        wants = job->wanted[first + k];
    }
    return wants;
}

/* Plans a file as it is, with one move. The copy is byte for byte, header and padding included, so
   digests and signatures of the original hold for it. `number` stays at its start: size and origin
   say enough about a whole file. */
static coffer_status fetch_plan_all(coffer__download *job, coffer__fetch_file *file, coffer_error *err)
{
    const coffer_status status = fetch_allocate_moves(job, file, 1, err);
    if (status == COFFER_OK) {
        file->size = file->source->size;
        fetch_add_move(file, 0, 0, file->size);
    }
    return status;
}

/* Plans the file of a shard: all of it, or the wanted tensors. The file counts in job->file_count
   before anything can fail, so fetch_free releases what was made of it. Its source is the model's,
   which outlives the job. */
static coffer_status fetch_plan_file(coffer__download *job, size_t shard, coffer_error *err)
{
    coffer__fetch_file *file = &job->files[job->file_count++];
    file->shard = &job->model->shards[shard];
    file->source = &file->shard->source;
    file->first = fetch_first_of(job, shard);
    file->path = file->shard->path;
    const coffer_status status = fetch_target(job, file->path, &file->target, err);
    if (status != COFFER_OK) {
        return status;
    }
    return job->wanted != NULL ? fetch_plan_some(job, file, err) : fetch_plan_all(job, file, err);
}

/* ---- beside the tensors ------------------------------------------------------------------------------------------ */

/* Whether the last file of the plan is there already: an index may name any file of the folder as one with tensors. */
static bool fetch_is_planned(const coffer__download *job)
{
    const size_t last = job->file_count - 1;
    size_t i = 0;
    while (i < last && strcmp(job->files[i].target.text, job->files[last].target.text) != 0) {
        i++;
    }
    return i < last;
}

/* Plans the files beside the tensors that exist. They follow the files with tensors in the list,
   and have no shard. Their sources belong to job->beside and are closed with it, after all parts.
   If one exists but opening it fails, so does the fetch: without its configuration a model would be
   loaded wrongly or not at all. */
static coffer_status fetch_plan_beside(coffer__download *job, coffer_error *err)
{
    const coffer__beside_file *beside = NULL;
    coffer_status status = coffer__beside_open(&job->beside, job->model, job->options, err);
    for (size_t i = 0; status == COFFER_OK && (beside = coffer__beside_at(job->beside, i)) != NULL; i++) {
        if (!beside->there) {
            continue;
        }
        coffer__fetch_file *file = &job->files[job->file_count++];
        file->source = &beside->source;
        file->path = beside->name;
        status = fetch_target(job, beside->name, &file->target, err);
        if (status != COFFER_OK) {
            return status;
        }
        if (fetch_is_planned(job)) {
            job->file_count--;
            continue;
        }
        status = fetch_plan_all(job, file, err);
    }
    return status;
}

/* ---- the whole plan ---------------------------------------------------------------------------------------------- */

/* The index gets no part: its text is in memory already and is written when the files get their
   names. */
static coffer_status fetch_plan_index(coffer__download *job, coffer_error *err)
{
    coffer__path name;
    const coffer_status status = coffer__fetch_make_index(job, &name, err);
    return status == COFFER_OK ? fetch_target(job, name.text, &job->index_target, err) : status;
}

/* Makes the whole plan. There is space for every file that may be needed, so no pointer to a file
   moves while planning. Every part is closed from the beginning, so fetch_free is right after any
   failure. No file is created here. The order is that of the list: files with tensors, whose order
   is the model's, and then those beside them. The index needs the targets of the first, so it comes
   between. */
static coffer_status fetch_plan(coffer__download *job, coffer_error *err)
{
    job->file_capacity = job->model->shard_count + COFFER__BESIDE_MAX;
    job->files = coffer__alloc_array(job->allocator, job->file_capacity, sizeof *job->files, err);
    if (job->files == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < job->file_capacity; i++) {
        job->files[i].part.fd = -1;
        job->files[i].number = COFFER__FNV_START;
    }
    coffer_status status = COFFER_OK;
    for (size_t i = 0; status == COFFER_OK && i < job->model->shard_count; i++) {
        status = fetch_wants(job, i) ? fetch_plan_file(job, i, err) : COFFER_OK;
    }
    if (status == COFFER_OK && job->file_count == 0) {
        return coffer__fail(err, COFFER_ERR_NO_TENSOR, "no tensor is selected to be fetched");
    }
    if (status == COFFER_OK && job->model->sharded != NULL) {
        status = fetch_plan_index(job, err);
    }
    if (status == COFFER_OK && job->model->named_whole) {
        status = fetch_plan_beside(job, err);
    }
    return status;
}

/* Opens a part for each file, with whatever an earlier call has left in it, and counts what is
   there already. From here on the folder has files of this call, each locked by its descriptor; a
   second process that fetches the same fails with COFFER_ERR_LOCKED. A source whose version is not
   known has no origin, and its part begins from nothing. `total` and `done` are bytes, as progress
   reports them. */
static coffer_status fetch_open_parts(coffer__download *job, coffer_error *err)
{
    for (size_t i = 0; i < job->file_count; i++) {
        char origin[COFFER__SOURCE_IDENTITY];
        coffer__fetch_file *file = &job->files[i];
        (void)coffer__source_identity(file->source, origin);
        const coffer_status status =
            coffer__part_open(&file->part, &file->target, file->size, origin, file->number, job->allocator, err);
        if (status != COFFER_OK) {
            return status;
        }
        job->total += file->size;
        for (uint64_t piece = 0; piece < file->part.piece_count; piece++) {
            job->done += file->part.done[piece] == 1 ? coffer__part_piece_size(&file->part, piece) : 0;
        }
    }
    return COFFER_OK;
}

/* The plan is compared with the folder before anything is downloaded: a file that must not be
   replaced is refused now, and not after hours. A failure or a kill at any point leaves parts that
   the next call resumes. When everything was complete already (`complete`), no part is opened here:
   publishing adopts them. */
static coffer_status fetch_run(coffer__download *job, coffer_error *err)
{
    bool complete = false;
    bool there = false;
    coffer_status status = fetch_plan(job, err);
    if (status == COFFER_OK) {
        status = coffer__fetch_judge(job, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__fetch_look(job, &complete, &there, err);
    if (there && job->options->unchanged != NULL) {
        *job->options->unchanged = true;
    }
    if (status != COFFER_OK || there) {
        return status;
    }
    if (!complete) {
        status = fetch_open_parts(job, err);
        if (status != COFFER_OK) {
            return status;
        }
        status = coffer__fetch_pieces(job, err);
    }
    return status == COFFER_OK ? coffer__fetch_publish(job, complete, err) : status;
}

/* Parts are closed and not removed: what has come stays for the next call. The parts' locks end
   here as well, after the files have their names. Sources beside the tensors are closed only when
   nothing reads from them any more. The sizes of blocks without a count of their own are derived as
   they were allocated. */
static void fetch_free(coffer__download *job)
{
    for (size_t i = 0; job->files != NULL && i < job->file_count; i++) {
        coffer__fetch_file *file = &job->files[i];
        coffer__part_close(&file->part, job->allocator);
        coffer_header_free(file->header);
        coffer_hasher_free(file->hasher);
        coffer__free_array(job->allocator, file->moves, file->move_capacity, sizeof *file->moves);
    }
    coffer__free_array(job->allocator, job->files, job->file_capacity, sizeof *job->files);
    coffer__beside_close(job->beside);
    coffer__free(job->allocator, job->wanted, job->wanted == NULL ? 0 : coffer_count(job->model) + 1);
    coffer__free(job->allocator, job->index_made, job->index_made == NULL ? 0 : job->index_size);
}

/* The job borrows the model and the options; everything that it owns is released by fetch_free. A
   model that was opened from memory or from the caller's own source has no path to name files
   after, and is refused before anything is allocated. Everything runs within this call: no thread
   outlives it. */
coffer_status coffer_fetch(const coffer *model, const coffer_tensor *const *tensors, size_t count, const char *folder,
                           const coffer_fetch_options *options, coffer_error *err)
{
    coffer_fetch_options known;
    if (model == NULL || folder == NULL || model->shards[0].path == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT,
                            "fetching needs a model that was opened by path or URL, and a folder");
    }
    coffer_status status = coffer__options_copy(&known, sizeof known, options, err);
    if (status == COFFER_OK) {
        status = coffer__sharded_need_flat(model, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    /* A packed file is fetched as it is, and can only be whole. */
    for (size_t i = 0; tensors != NULL && i < model->shard_count && status == COFFER_OK; i++) {
        status = coffer__packed_file_refuse(model->shards[i].table, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    coffer__download job = { .model = model, .allocator = &model->allocator, .options = &known, .folder = folder };
    status = coffer__fetch_choose(&job, tensors, count, err);
    if (status == COFFER_OK) {
        status = fetch_run(&job, err);
    }
    fetch_free(&job);
    return status;
}
