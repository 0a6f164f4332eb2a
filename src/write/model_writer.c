/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a model as one or more files: a plan (shards.h), a writer for each file while it is
 * needed, and a commit of all files together (commit.h). The first piece for a file opens
 * its writer and the last one finishes it. So the device works on one file while the next is
 * written, and few files are open at a time.
 *
 * Threads: the mutex guards what is declared below it and is not held while tensors are written. A
 * file's writer is used by any number of calls at once. `users` counts them: the call that finds
 * all bytes written and no other user finishes the file, so no call can meet a writer that has been
 * freed. The writer of a file has a mutex of its own; neither is taken while the other is held.
 *
 * The order on disk: lock of the folder, repair of what a crash left, index under its temporary
 * name, files under theirs, index again if it records digests, commit. The index comes first
 * because it is the list of the files: whatever a crash leaves after that can be found and removed.
 *
 * After a failure the model writer can only be freed, and freeing removes every new file, unless
 * the commit had decided already (COFFER_ERR_UNFINISHED).
 */
#include "model_writer.h"
#include "alloc.h"
#include "coffer.h"
#include "commit.h"
#include "content.h"
#include "declared.h"
#include "error.h"
#include "formats.h"
#include "index.h"
#include "model.h"
#include "model_dir.h"
#include "options.h"
#include "os.h"
#include "parts.h"
#include "sharded.h"
#include "shards.h"
#include "sort.h"
#include "text.h"
#include "writer_check.h"

#include <errno.h>
#include <string.h>

/* Bytes of tensors in a file, if the caller states no limit. */
#define MODEL_WRITER_SHARD_SIZE UINT64_C(5000000000)

/* One of the files. It has no writer, then one, then none again; `complete` tells the first state
   from the last. Guarded by the mutex, except that a call between enter and leave may use
   `writer`, which cannot change then. */
typedef struct model_writer_file {
    coffer_header *header;
    coffer_writer *writer; /* NULL before its first byte and after its last one */
    uint64_t left;         /* bytes of its tensors that were not written yet */
    size_t users;          /* calls that write to it now */
    bool complete;
} model_writer_file;

struct coffer_model_writer {
    coffer_allocator allocator;
    const coffer_header *header;
    coffer__model_writer_keeps keeps;
    coffer_writer_options options; /* of each file */
    coffer__shards shards;
    uint32_t *place; /* of each tensor in its file */
    char *names;     /* of the files, `name_size` bytes for each */
    size_t name_size;
    bool sharded; /* there is an index */
    coffer__commit commit;
    coffer__mutex mutex; /* guards everything below, and the contents of `files` */
    model_writer_file *files;
    size_t working; /* calls in progress */
    bool finished;
    bool failed;
};

/* ---- open and free ----------------------------------------------------------------------------------------------- */

/* The files' writers go before the commit is closed: they discard their unfinished files, and
   closing the commit removes the finished ones and unlocks the folder. A file's header goes
   after its writer, which uses it. It may be freed half built, but not while another thread is in
   a call. */
void coffer_model_writer_free(coffer_model_writer *writer)
{
    if (writer == NULL) {
        return;
    }
    const coffer_allocator allocator = writer->allocator;
    const size_t count = writer->shards.count;
    for (size_t i = 0; writer->files != NULL && i < count; i++) {
        coffer_writer_free(writer->files[i].writer);
        coffer_header_free(writer->files[i].header);
    }
    coffer__commit_close(&writer->commit);
    coffer__free_array(&allocator, writer->files, count, sizeof *writer->files);
    coffer__free_array(&allocator, writer->names, count, writer->name_size);
    coffer__free_array(&allocator, writer->place, writer->shards.tensor_count, sizeof *writer->place);
    coffer__shards_free(&writer->shards);
    coffer__os_mutex_close(&writer->mutex);
    coffer__free(&allocator, writer, sizeof *writer);
}

/* Allocations that fill no error of their own report failure with this. */
static coffer_status model_writer_no_memory(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to write a model");
}

static coffer_status model_writer_too_long(const char *path, coffer_error *err)
{
    coffer__fail(err, COFFER_ERR_ARGUMENT, "the names of the model's files would be too long: choose a shorter one");
    return coffer__fail_path(err, COFFER_ERR_ARGUMENT, path);
}

/* The path of a file, by its number or, if names are kept, in the folder of `path` with the name
   that the older model's file has. False if it is too long. */
static bool model_writer_name_file(const coffer_model_writer *writer, const char *path, size_t shard,
                                   coffer__path *file)
{
    const coffer *names = writer->keeps.names;
    const char *old = names != NULL ? names->shards[shard].path : NULL;
    return old != NULL ? coffer__path_sibling(file, path, old + coffer__path_name_at(old))
                       : coffer__shards_name(file, path, shard, writer->shards.count);
}

/* Measures the longest name, with its NUL, so that the names can be kept in one block. Those that
   files get while they are written are longer, and have to fit too: a name that only its temporary
   form makes too long must fail before anything is written. */
static coffer_status model_writer_measure_names(coffer_model_writer *writer, const char *path, coffer_error *err)
{
    coffer__path file;
    coffer__path temporary;
    for (size_t i = 0; i < writer->shards.count; i++) {
        if (!model_writer_name_file(writer, path, i, &file) || !coffer__commit_name(&temporary, file.text)) {
            return model_writer_too_long(path, err);
        }
        const size_t size = coffer__text_len(file.text + coffer__path_name_at(file.text)) + 1;
        writer->name_size = size > writer->name_size ? size : writer->name_size;
    }
    return COFFER_OK;
}

/* Keeps the names of all files, without the folder: that is what the index states and what callers
   ask for. */
static coffer_status model_writer_name_files(coffer_model_writer *writer, const char *path, coffer_error *err)
{
    coffer__path file;
    const coffer_status status = model_writer_measure_names(writer, path, err);
    if (status != COFFER_OK) {
        return status;
    }
    const size_t count = writer->shards.count;
    /* Each name has the space of the longest, so that it is found by its number. */
    writer->names = coffer__alloc_array(&writer->allocator, count, writer->name_size, err);
    if (writer->names == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        (void)model_writer_name_file(writer, path, i, &file);
        const char *name = file.text + coffer__path_name_at(file.text);
        memcpy(writer->names + i * writer->name_size, name, coffer__text_len(name) + 1);
    }
    return COFFER_OK;
}

/* Records for each tensor its number in its file, and for each file how many bytes are to come.
   The numbers are those that coffer__shards_declare will give, as both follow the plan. The sums
   cannot overflow: the plan has checked that of all tensors. */
static coffer_status model_writer_make_files(coffer_model_writer *writer, coffer_error *err)
{
    const coffer__shards *shards = &writer->shards;
    const declared_tensor *tensors = coffer__header_tensors(writer->header);
    writer->files = coffer__alloc_array(&writer->allocator, shards->count, sizeof *writer->files, err);
    writer->place = coffer__alloc_array(&writer->allocator, shards->tensor_count, sizeof *writer->place, err);
    if (writer->files == NULL || writer->place == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t s = 0; s < shards->count; s++) {
        for (uint32_t at = shards->first[s]; at < shards->first[s + 1]; at++) {
            /* The order within a file is that in which its header will declare the tensors. */
            writer->place[shards->order[at]] = at - shards->first[s];
            writer->files[s].left += tensors[shards->order[at]].size;
        }
    }
    return COFFER_OK;
}

/* Plans the files: as `shard_of` has them, or else by the limit. Everything that readers would
   refuse is refused here, before the folder is locked. Touches no file. What is allocated belongs
   to the writer, also after a failure. */
static coffer_status model_writer_plan(coffer_model_writer *writer, const char *path,
                                       const coffer_model_writer_options *options, coffer_error *err)
{
    const uint64_t limit = options->max_shard_size == 0 ? MODEL_WRITER_SHARD_SIZE : options->max_shard_size;
    const uint32_t *shard_of = writer->keeps.shard_of;
    coffer_status status = shard_of != NULL
                               ? coffer__shards_keep(&writer->shards, writer->header, shard_of, err)
                               : coffer__shards_plan(&writer->shards, writer->header, limit, options->balanced, err);
    if (status != COFFER_OK) {
        return status;
    }
    /* A model whose names are kept had an index and keeps it, even if one file is left. */
    writer->sharded = writer->shards.count > 1 || writer->keeps.names != NULL;
    /* The same limit that readers have, found before any file is made. */
    if (writer->shards.count > COFFER__INDEX_MAX_SHARDS) {
        coffer__fail(err, COFFER_ERR_ARGUMENT,
                     "the model would have %u files, more than readers accept: raise max_shard_size",
                     (uint64_t)writer->shards.count);
        return coffer__fail_sizes(err, COFFER_ERR_ARGUMENT, COFFER__INDEX_MAX_SHARDS, writer->shards.count);
    }
    status = model_writer_name_files(writer, path, err);
    return status == COFFER_OK ? model_writer_make_files(writer, err) : status;
}

/* Every file must be able to get its name, or the save would fail after the decision, when there
   is no way back. Done under the lock of the folder. A path that is too long was refused earlier
   and is skipped here. */
static coffer_status model_writer_check_names(const coffer_model_writer *writer, const char *path, coffer_error *err)
{
    coffer__path file;
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < writer->shards.count && status == COFFER_OK; i++) {
        if (coffer__path_sibling(&file, path, writer->names + i * writer->name_size)) {
            status = coffer__commit_check(file.text, err);
        }
    }
    return status;
}

/* Writes the new index under its temporary name, with `content` in it if it is not NULL. The text
   is measured first and then written. All refusals come before the file is touched, so an index
   that is there stays whole. The second time the text has the same length and differs in the
   digests only, which coffer__commit_begin relies on. */
static coffer_status model_writer_put_index(coffer_model_writer *writer, const coffer__content *content,
                                            coffer_error *err)
{
    const coffer__shards_index index = {
        .names = writer->names, .name_size = writer->name_size, .members = writer->keeps.members, .content = content
    };
    const size_t size = coffer__shards_write_index(NULL, &writer->shards, writer->header, &index);
    /* Readers would refuse such an index, so the model could not be opened after it was saved. */
    if (size > COFFER__INDEX_MAX_BYTES) {
        coffer__fail(err, COFFER_ERR_ARGUMENT, "the index of the model would have %z, more than readers accept",
                     (uint64_t)size);
        return coffer__fail_sizes(err, COFFER_ERR_ARGUMENT, COFFER__INDEX_MAX_BYTES, size);
    }
    char *text = coffer__alloc(&writer->allocator, size);
    if (text == NULL) {
        return model_writer_no_memory(err);
    }
    (void)coffer__shards_write_index(text, &writer->shards, writer->header, &index);
    const coffer_status status = coffer__commit_begin(&writer->commit, text, size, err);
    coffer__free(&writer->allocator, text, size);
    return status;
}

/* Whether the new index records digests of the whole model. A model of one file has no index; its
   own header has all digests. */
static bool model_writer_records(const coffer_model_writer *writer)
{
    return writer->options.digests != COFFER_NO_ALGORITHM && writer->sharded;
}

/* Writes the index before the files: it is the list by which a crash is undone. A model without
   tensors has no valid index, so it is an empty file. If digests will be added to the index, it
   already has space for them, so an index that is too long is refused now and not after all data
   are written. An algorithm that does not exist is passed over here: the writer of the first file
   refuses it. */
static coffer_status model_writer_begin(coffer_model_writer *writer, coffer_error *err)
{
    coffer__content nothing;
    const coffer_algorithm algorithm = writer->options.digests;
    if (writer->keeps.keeps_index) {
        const coffer__whole *index = &writer->keeps.names->sharded->index;
        return coffer__commit_begin(&writer->commit, index->bytes, index->size, err);
    }
    /* The empty file still is the list by which a crash is undone. */
    if (writer->shards.tensor_count == 0) {
        return coffer__commit_begin(&writer->commit, "", 0, err);
    }
    if (!model_writer_records(writer) || coffer_algorithm_digest_size(algorithm) == 0) {
        return model_writer_put_index(writer, NULL, err);
    }
    /* Digests that are all zero have the length of the real ones. */
    coffer_status status = coffer__content_new(&nothing, algorithm, writer->shards.count, &writer->allocator, err);
    if (status == COFFER_OK) {
        status = model_writer_put_index(writer, &nothing, err);
    }
    coffer__content_free(&nothing);
    return status;
}

/* The order matters: the plan needs no I/O and refuses bad declarations before the folder is
   locked; after the lock the names are checked; only then is anything written. The lock is held
   from here until the writer is freed, so no other process can save in the folder during that
   time. After a failure coffer_model_writer_free undoes whatever was done. */
static coffer_status model_writer_init(coffer_model_writer *writer, const char *path,
                                       const coffer_model_writer_options *options, coffer_error *err)
{
    const coffer_sync sync = writer->options.sync;
    coffer_status status = model_writer_plan(writer, path, options, err);
    if (status == COFFER_OK) {
        status =
            coffer__commit_open(&writer->commit, &writer->allocator, path, writer->sharded, options->force, sync, err);
    }
    if (status == COFFER_OK) {
        status = model_writer_check_names(writer, path, err);
    }
    if (status == COFFER_OK) {
        /* Each file is new under its temporary name and replaces nothing by itself. So whether it
           must be durable depends on the commit, not on what a file's own sink would see. */
        writer->options.sync = writer->commit.durable ? COFFER_SYNC_ALWAYS : COFFER_SYNC_NEVER;
        status = model_writer_begin(writer, err);
    }
    if (status == COFFER_OK) {
        status = coffer__commit_add_companions(&writer->commit, options->companions, options->companion_count, err);
    }
    return status;
}

/* The path gives all files their names, so it is checked as strictly as a name from an index.
   Options that make sense for a single file only are refused: a file that is overwritten in place
   cannot be published together with others, and `replaces` speaks of one file. */
static coffer_status model_writer_check(const coffer_header *header, const char *path,
                                        const coffer_writer_options *files, coffer_error *err)
{
    if (header == NULL || path == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "a writer needs a header, a path, and a place for its handle");
    }
    const char *name = path + coffer__path_name_at(path);
    if (!coffer__shards_path_fits(path) ||
        coffer__model_dir_check_name(name, coffer__text_len(name), 0, NULL) != COFFER_OK) {
        coffer__fail(err, COFFER_ERR_ARGUMENT,
                     "the path of a sharded model has to end in NAME.safetensors, and NAME must be one that an "
                     "index may have: without : \\ and control characters");
        return coffer__fail_path(err, COFFER_ERR_ARGUMENT, path);
    }
    /* Not every format is one that indices are defined for. */
    const coffer__format_ops *format = coffer__format_at(files->format);
    const bool has_indices = format != NULL && format->has_indices;
    if (files->in_place || files->replaces != NULL || !has_indices || (unsigned)files->sync > COFFER_SYNC_NEVER) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT,
                            "the files of a model cannot have the options in_place and replaces or formats other than "
                            "safetensors, and sync must be one of its values");
    }
    return COFFER_OK;
}

/* `commit.directory` is set to -1 before anything can fail, so that freeing does not close a
   descriptor that was never opened. Both option structs are copied, and so is `keeps`; what it
   points to is borrowed. */
coffer_status coffer__model_writer_create(coffer_model_writer **writer, const coffer_header *header, const char *path,
                                          const coffer__model_writer_keeps *keeps,
                                          const coffer_model_writer_options *given, coffer_error *err)
{
    coffer_model_writer_options options;
    coffer_writer_options files;
    coffer_status status = coffer__options_copy(&options, sizeof options, given, err);
    if (status == COFFER_OK) {
        status = coffer__options_copy(&files, sizeof files, options.files, err);
    }
    if (status == COFFER_OK) {
        status = model_writer_check(header, path, &files, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    coffer_model_writer *made = coffer__alloc_zeroed(&header->allocator, sizeof *made);
    if (made == NULL || coffer__os_mutex_init(&made->mutex) != 0) {
        coffer__free(&header->allocator, made, sizeof *made);
        return model_writer_no_memory(err);
    }
    made->allocator = header->allocator;
    made->header = header;
    made->keeps = *keeps;
    made->options = files;
    made->options.struct_size = sizeof made->options;
    made->commit.directory = -1;
    status = model_writer_init(made, path, &options, err);
    if (status != COFFER_OK) {
        coffer_model_writer_free(made);
        return status;
    }
    *writer = made;
    return COFFER_OK;
}

coffer_status coffer_model_writer_open(coffer_model_writer **writer, const coffer_header *header, const char *path,
                                       const coffer_model_writer_options *options, coffer_error *err)
{
    if (writer == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "a writer needs a header, a path, and a place for its handle");
    }
    const coffer__model_writer_keeps nothing = { .names = NULL };
    *writer = NULL;
    return coffer__model_writer_create(writer, header, path, &nothing, options, err);
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

size_t coffer_model_writer_shard_count(const coffer_model_writer *writer)
{
    return writer->shards.count;
}

/* NULL if there is no such file. The name lives as long as the writer. */
const char *coffer_model_writer_shard_name(const coffer_model_writer *writer, size_t shard)
{
    return shard < writer->shards.count ? writer->names + shard * writer->name_size : NULL;
}

/* The plan does not change while there is a writer, so these need no lock. */
size_t coffer_model_writer_shard_of(const coffer_model_writer *writer, size_t i)
{
    return i < writer->shards.tensor_count ? writer->shards.shard_of[i] : SIZE_MAX;
}

/* ---- one file ---------------------------------------------------------------------------------------------------- */

/* The path of a file: where it is written (`temporary`), or where it will be published. False if
   it is too long. */
bool coffer__model_writer_file(const coffer_model_writer *writer, size_t shard, bool temporary, coffer__path *path)
{
    coffer__path file;
    if (!coffer__path_sibling(&file, writer->commit.path.text, coffer_model_writer_shard_name(writer, shard))) {
        return false;
    }
    return temporary ? coffer__commit_name(path, file.text) : coffer__path_copy(path, file.text);
}

/* Opens the file's writer if it has none yet. The header of one file has all metadata and its own
   tensors. With the mutex held, although this creates the file and writes its header: two threads
   that come first to a file must not both open it, and a file is opened once. On failure `header`
   may be set, and is freed with the model writer. */
static coffer_status model_writer_open_file(coffer_model_writer *writer, size_t shard, coffer_error *err)
{
    coffer__path path;
    model_writer_file *file = &writer->files[shard];
    if (file->writer != NULL) {
        return COFFER_OK;
    }
    if (!coffer__model_writer_file(writer, shard, true, &path)) {
        return model_writer_too_long(writer->commit.path.text, err);
    }
    coffer_status status = coffer_header_new(&file->header, &writer->allocator, err);
    if (status == COFFER_OK) {
        status = coffer__shards_declare(&writer->shards, writer->header, shard, file->header, err);
    }
    return status == COFFER_OK ? coffer_writer_open(&file->writer, file->header, path.text, &writer->options, err)
                               : status;
}

/* Reports a failure in a file under its final name: the temporary one means nothing to the user.
   Errors about another path, as that of a model that is copied from, keep it. Returns `status`. */
static coffer_status model_writer_file_fail(const coffer_model_writer *writer, size_t shard, coffer_status status,
                                            coffer_error *err)
{
    coffer__path named;
    coffer__path temporary;
    const bool known = coffer__model_writer_file(writer, shard, false, &named) &&
                       coffer__model_writer_file(writer, shard, true, &temporary);
    const bool is_file = known && err != NULL && strcmp(err->path, temporary.text) == 0;
    return is_file ? coffer__fail_path(err, status, named.text) : status;
}

/* Finishes the file: it becomes complete under its temporary name, durable if the commit is.
   The caller must be the only user of the file; the mutex is not held, since this may wait for the
   device while other threads write other files. */
static coffer_status model_writer_finish_file(coffer_model_writer *writer, size_t shard, coffer_error *err)
{
    model_writer_file *file = &writer->files[shard];
    /* The writer and its header are released even if finishing failed, as they cannot be used again. */
    const coffer_status status = coffer_writer_finish(file->writer, err);
    coffer_writer_free(file->writer);
    coffer_header_free(file->header);
    file->writer = NULL;
    file->header = NULL;
    return status == COFFER_OK ? COFFER_OK : model_writer_file_fail(writer, shard, status, err);
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* Fails when the writer takes nothing more. With the mutex held: the answer holds until the mutex
   is released. */
static coffer_status model_writer_usable(const coffer_model_writer *writer, coffer_error *err)
{
    return writer->finished || writer->failed
               ? coffer__fail(err, COFFER_ERR_ARGUMENT, "the writer has %s and can only be freed",
                              writer->failed ? "failed before" : "finished")
               : COFFER_OK;
}

/* Begins a call that writes to a file, and takes the mutex for that. The file stays open until
   model_writer_leave, because `users` keeps others from finishing it. A call that is refused
   leaves the whole writer failed: the caller cannot know which bytes are missing. After success
   model_writer_leave must follow, whatever happens. */
coffer_status coffer__model_writer_enter(coffer_model_writer *writer, size_t shard, coffer_error *err)
{
    coffer__os_mutex_lock(&writer->mutex);
    model_writer_file *file = &writer->files[shard];
    coffer_status status = model_writer_usable(writer, err);
    /* Its writer is freed, and each of its bytes was written: this one would be written twice. */
    if (status == COFFER_OK && file->complete) {
        coffer__fail(err, COFFER_ERR_WRITE_RANGE, "every byte of this file was written already");
        status = coffer__fail_path(err, COFFER_ERR_WRITE_RANGE, coffer_model_writer_shard_name(writer, shard));
    }
    if (status == COFFER_OK) {
        status = model_writer_open_file(writer, shard, err);
        if (status != COFFER_OK) {
            (void)model_writer_file_fail(writer, shard, status, err);
        }
    }
    writer->failed = writer->failed || status != COFFER_OK;
    /* Both counts in the same critical section as the checks: nothing can come between. */
    file->users += status == COFFER_OK;
    writer->working += status == COFFER_OK;
    coffer__os_mutex_unlock(&writer->mutex);
    return status;
}

/* Ends a call that wrote `size` bytes, or failed with `status`. The last user of a file that has
   all its bytes finishes it. That is decided once, under the mutex: `complete` stops any later
   call from entering. Finishing itself runs without the mutex. `working` drops only after the file
   is finished, so coffer_model_writer_finish cannot publish a file that is still being completed. */
coffer_status coffer__model_writer_leave(coffer_model_writer *writer, size_t shard, uint64_t size, coffer_status status,
                                         coffer_error *err)
{
    coffer__os_mutex_lock(&writer->mutex);
    model_writer_file *file = &writer->files[shard];
    file->users--;
    file->left -= status == COFFER_OK ? size : 0;
    /* Only bytes of writes that succeeded count, and the writer of the file refuses those that
       overlap. So `left` is 0 only when every byte of the file was written once. */
    const bool finishes = file->left == 0 && file->users == 0;
    file->complete = finishes;
    coffer__os_mutex_unlock(&writer->mutex);
    if (status != COFFER_OK) {
        (void)model_writer_file_fail(writer, shard, status, err);
    } else if (finishes) {
        status = model_writer_finish_file(writer, shard, err);
    }
    coffer__os_mutex_lock(&writer->mutex);
    writer->failed = writer->failed || status != COFFER_OK;
    writer->working--;
    coffer__os_mutex_unlock(&writer->mutex);
    return status;
}

/* As any other refusal, it makes the writer fail. */
static coffer_status model_writer_no_tensor(coffer_model_writer *writer, coffer_error *err)
{
    coffer__os_mutex_lock(&writer->mutex);
    writer->failed = true;
    coffer__os_mutex_unlock(&writer->mutex);
    return coffer__fail(err, COFFER_ERR_ARGUMENT, "no tensor of that number was declared");
}

/* ---- write ------------------------------------------------------------------------------------------------------- */

/* Empty writes return early. They must not open a file: for a file of empty tensors, the first
   would finish it and the next be refused. Such files are made by coffer_model_writer_finish. The
   file's writer checks offset and size. */
coffer_status coffer_model_writer_write(coffer_model_writer *writer, size_t i, uint64_t offset, const void *bytes,
                                        uint64_t size, coffer_error *err)
{
    if (writer == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the writer is NULL");
    }
    if (i >= writer->shards.tensor_count) {
        return model_writer_no_tensor(writer, err);
    }
    if (size == 0) {
        return COFFER_OK;
    }
    /* The plan does not change, so it is read without the mutex. */
    const size_t shard = writer->shards.shard_of[i];
    coffer_status status = coffer__model_writer_enter(writer, shard, err);
    if (status == COFFER_OK) {
        status = coffer_writer_write(writer->files[shard].writer, writer->place[i], offset, bytes, size, err);
        status = coffer__model_writer_leave(writer, shard, size, status, err);
    }
    return status;
}

/* ---- copy -------------------------------------------------------------------------------------------------------- */

/* Copies sorted by file, and within a file as they were given; its writer sorts them again by
   place. `sorted` has them in the form that the writer of a file takes, with the number that the
   tensor has there. Both arrays have `count` entries. */
typedef struct model_writer_copies {
    const coffer_model_writer *writer;
    const coffer_copy *all;
    size_t count;
    uint32_t *order;
    coffer_copy *sorted;
} model_writer_copies;

/* Reads only the plan, which does not change. Called after all `to` were checked. */
static bool model_writer_copy_before(const void *ctx, uint32_t a, uint32_t b)
{
    const model_writer_copies *copies = ctx;
    const uint32_t *shard_of = copies->writer->shards.shard_of;
    return shard_of[copies->all[a].to] < shard_of[copies->all[b].to];
}

/* The order counts in 32 bits. After a failure model_writer_free_copies releases what there is. */
static coffer_status model_writer_new_copies(model_writer_copies *copies, coffer_error *err)
{
    const coffer_allocator *allocator = &copies->writer->allocator;
    if (copies->count >= UINT32_MAX) {
        return model_writer_no_memory(err);
    }
    copies->order = coffer__alloc_array(allocator, copies->count, sizeof *copies->order, err);
    copies->sorted = coffer__alloc_array(allocator, copies->count, sizeof *copies->sorted, err);
    return copies->order != NULL && copies->sorted != NULL ? COFFER_OK : COFFER_ERR_MEMORY;
}

/* Releases what there is; the same counts as in model_writer_new_copies. */
static void model_writer_free_copies(const model_writer_copies *copies)
{
    const coffer_allocator *allocator = &copies->writer->allocator;
    coffer__free_array(allocator, copies->order, copies->count, sizeof *copies->order);
    coffer__free_array(allocator, copies->sorted, copies->count, sizeof *copies->sorted);
}

/* Checks what the writer of a file would not see: that there is a file for the tensor, and that
   the sizes match even if the copy is of no bytes, which no writer is asked to do. Whether the
   tensor belongs to its model is left to the writer of the file. */
static coffer_status model_writer_check_copy(const coffer_model_writer *writer, const coffer_copy *copy,
                                             coffer_error *err)
{
    if (copy->to >= writer->shards.tensor_count || copy->tensor == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT,
                            "no tensor of that number was declared, or the one to copy is NULL");
    }
    const declared_tensor *declared = &coffer__header_tensors(writer->header)[copy->to];
    if (copy->tensor->size == declared->size) {
        return COFFER_OK;
    }
    coffer__fail(err, COFFER_ERR_WRITE_RANGE, "tensor %q was declared with %u bytes, and the one to copy has %u",
                 copy->tensor->name, (size_t)copy->tensor->name_len, declared->size, copy->tensor->size);
    coffer__fail_sizes(err, COFFER_ERR_WRITE_RANGE, declared->size, copy->tensor->size);
    return coffer__fail_tensor(err, COFFER_ERR_WRITE_RANGE, copy->tensor->name, copy->tensor->name_len);
}

/* Checks all copies, so that nothing is written if one of them is wrong in itself, and sorts them
   by file. *total becomes their bytes. The comparison gets a copy of the struct to look at, as the
   sort changes the order. Needs no lock. */
static coffer_status model_writer_sort_copies(model_writer_copies *copies, uint64_t *total, coffer_error *err)
{
    coffer_status status = model_writer_new_copies(copies, err);
    *total = 0;
    for (size_t i = 0; i < copies->count && status == COFFER_OK; i++) {
        copies->order[i] = (uint32_t)i;
        status = model_writer_check_copy(copies->writer, &copies->all[i], err);
        *total += status == COFFER_OK ? copies->all[i].tensor->size : 0;
    }
    if (status == COFFER_OK) {
        const model_writer_copies given = *copies;
        coffer__sort(copies->order, copies->count, model_writer_copy_before, &given);
        for (size_t i = 0; i < copies->count; i++) {
            const coffer_copy *copy = &copies->all[copies->order[i]];
            /* The number of the declaration becomes that in the file. */
            copies->sorted[i] = (coffer_copy){ copies->writer->place[copy->to], copy->model, copy->tensor };
        }
    }
    return status;
}

/* Copies those from `first` on that go to the same file, in one call, so that they can become few
   large moves. *next becomes the first that goes to another file. Copies of no bytes at all are
   passed over, as an empty write is. */
static coffer_status model_writer_copy_file(coffer_model_writer *writer, const model_writer_copies *copies,
                                            size_t first, size_t *next, const coffer_read_options *options,
                                            coffer__parts *parts, coffer_error *err)
{
    uint64_t size = 0;
    const size_t shard = writer->shards.shard_of[copies->all[copies->order[first]].to];
    /* The copies are sorted by file, so those of this one follow each other. */
    for (*next = first; *next < copies->count; (*next)++) {
        if (writer->shards.shard_of[copies->all[copies->order[*next]].to] != shard) {
            break;
        }
        size += copies->sorted[*next].tensor->size;
    }
    if (size == 0) {
        return COFFER_OK;
    }
    coffer_status status = coffer__model_writer_enter(writer, shard, err);
    if (status == COFFER_OK) {
        status = coffer_writer_copy(writer->files[shard].writer, copies->sorted + first, *next - first, options, err);
        status = coffer__model_writer_leave(writer, shard, size, status, err);
    }
    /* Also after a failure; then nothing more is told. */
    parts->before += size;
    return status;
}

/* Copies file by file, so that each file is finished, and made durable, as soon as it is complete.
   All copies are checked before the first byte is written; a failure later leaves the writer
   failed. Other threads may write and copy to the same files. */
coffer_status coffer_model_writer_copy(coffer_model_writer *writer, const coffer_copy *copies, size_t count,
                                       const coffer_read_options *options, coffer_error *err)
{
    if (writer == NULL || (copies == NULL && count > 0)) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the writer or the tensors to copy are NULL");
    }
    coffer_read_options known;
    model_writer_copies sorted = { .writer = writer, .all = copies, .count = count };
    coffer__parts parts = { .before = 0 };
    coffer_status status = coffer__options_copy(&known, sizeof known, options, err);
    if (status == COFFER_OK) {
        /* The copy has the size of this version of the struct, whatever the caller's had. */
        known.struct_size = sizeof known;
        status = model_writer_sort_copies(&sorted, &parts.total, err);
        coffer__parts_begin(&parts, &known.progress, &known.progress_ctx);
    }
    for (size_t i = 0; i < count && status == COFFER_OK;) {
        status = model_writer_copy_file(writer, &sorted, i, &i, &known, &parts, err);
    }
    model_writer_free_copies(&sorted);
    return status;
}

void coffer__model_writer_adopt(coffer_model_writer *writer, size_t shard)
{
    coffer__os_mutex_lock(&writer->mutex);
    writer->files[shard].left = 0;
    writer->files[shard].complete = true;
    coffer__os_mutex_unlock(&writer->mutex);
}

const char *coffer__model_writer_path(const coffer_model_writer *writer)
{
    return writer->commit.path.text;
}

const coffer_header *coffer__model_writer_header(const coffer_model_writer *writer)
{
    return writer->header;
}

size_t coffer__model_writer_place(const coffer_model_writer *writer, size_t i, coffer_writer **file)
{
    *file = writer->files[writer->shards.shard_of[i]].writer;
    return writer->place[i];
}

/* ---- finish ------------------------------------------------------------------------------------------------------ */

/* Finishes the files that no write has finished. They have only empty tensors, or else bytes are
   missing, which their writers report. `finished` is set and no call is in progress, so this needs
   no lock. */
static coffer_status model_writer_finish_files(coffer_model_writer *writer, coffer_error *err)
{
    for (size_t s = 0; s < writer->shards.count; s++) {
        /* A write has finished it. */
        if (writer->files[s].complete) {
            continue;
        }
        coffer_status status = model_writer_open_file(writer, s, err);
        if (status != COFFER_OK) {
            return model_writer_file_fail(writer, s, status, err);
        }
        status = model_writer_finish_file(writer, s, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* Writes the temporary names of the files to `text`, `text_size` bytes for each, with a NUL;
   names[i] becomes the one of file i. */
static void model_writer_fresh_names(const coffer_model_writer *writer, coffer__name *names, char *text,
                                     size_t text_size)
{
    for (size_t i = 0; i < writer->shards.count; i++) {
        char *to = text + i * text_size;
        const char *name = coffer_model_writer_shard_name(writer, i);
        const size_t len = coffer__text_len(name);
        memcpy(to, name, len);
        memcpy(to + len, COFFER__PENDING_SAVE_NEW, sizeof COFFER__PENDING_SAVE_NEW);
        names[i] = (coffer__name){ to, len + sizeof COFFER__PENDING_SAVE_NEW - 1 };
    }
}

/* Opens the complete files as one model, under their temporary names. The digests for the index
   are computed from what the files record, and not from memory, so the index is right about what
   is on disk. The caller closes the model; the names were copied. */
static coffer_status model_writer_open_fresh(const coffer_model_writer *writer, coffer **model, coffer_error *err)
{
    const size_t count = writer->shards.count;
    const size_t text_size = writer->name_size + sizeof COFFER__PENDING_SAVE_NEW;
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.allocator = &writer->allocator;
    options.max_header_size = writer->options.max_header_size;
    /* Little more than headers is read, or all of it once: neither is a reason to map. */
    options.access = COFFER_READ;
    coffer_status status = COFFER_ERR_MEMORY;
    coffer__name *names = coffer__alloc_array(&writer->allocator, count, sizeof *names, err);
    if (names == NULL) {
        return status;
    }
    char *text = coffer__alloc_array(&writer->allocator, count, text_size, err);
    if (text != NULL) {
        model_writer_fresh_names(writer, names, text, text_size);
        status = coffer__sharded_open_set(model, writer->commit.path.text, names, count, &options, err);
    }
    coffer__free_array(&writer->allocator, text, count, text_size);
    coffer__free_array(&writer->allocator, names, count, sizeof *names);
    return status;
}

/* Writes the index again, now that the digests of all files are known. It is still before the
   decision: a crash here leaves an index under its temporary name, which names the same files at
   any moment, and so the save is undone. */
static coffer_status model_writer_record(coffer_model_writer *writer, coffer_error *err)
{
    coffer *model = NULL;
    coffer__content content;
    coffer_status status = model_writer_open_fresh(writer, &model, err);
    if (status == COFFER_OK) {
        status = coffer__content_compute(&content, model, err);
        coffer_close(model);
    }
    if (status != COFFER_OK) {
        return status;
    }
    /* Overwrites the index that was written first, which has space for the digests. */
    status = model_writer_put_index(writer, &content, err);
    coffer__content_free(&content);
    return status;
}

/* Opens the complete files as a model, and shows it. */
static coffer_status model_writer_show(const coffer_model_writer *writer, const coffer__writer_check *check,
                                       coffer_error *err)
{
    coffer *written = NULL;
    coffer_status status = model_writer_open_fresh(writer, &written, err);
    if (status == COFFER_OK) {
        status = check->look(check->ctx, written, err);
        coffer_close(written);
    }
    return status;
}

/* `finished` is set whatever happens, so a second call or a late write is refused. The order is
   that of commit.h: every file is complete under its temporary name, then the index is final
   and the files are looked at, then the commit decides. Until that decision a failure leaves the old model, and freeing
   removes the new files; after it the error is COFFER_ERR_UNFINISHED. */
coffer_status coffer__model_writer_finish_checked(coffer_model_writer *writer, const coffer__writer_check *check,
                                                  coffer_error *err)
{
    coffer__os_mutex_lock(&writer->mutex);
    coffer_status status = model_writer_usable(writer, err);
    if (status == COFFER_OK && writer->working > 0) {
        status = coffer__fail(err, COFFER_ERR_ARGUMENT, "the writer cannot finish while a write is in progress");
    }
    /* Set with the mutex held and before anything is finished: no call can begin after this. */
    writer->finished = true;
    coffer__os_mutex_unlock(&writer->mutex);
    if (status == COFFER_OK) {
        status = model_writer_finish_files(writer, err);
    }
    if (status == COFFER_OK && model_writer_records(writer)) {
        status = model_writer_record(writer, err);
    }
    if (status == COFFER_OK && check != NULL) {
        status = model_writer_show(writer, check, err);
    }
    return status == COFFER_OK ? coffer__commit_finish(&writer->commit, err) : status;
}

coffer_status coffer_model_writer_finish(coffer_model_writer *writer, coffer_error *err)
{
    return writer == NULL ? coffer__fail(err, COFFER_ERR_ARGUMENT, "the writer is NULL")
                          : coffer__model_writer_finish_checked(writer, NULL, err);
}
