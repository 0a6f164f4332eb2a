/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several files as one model, by their index or by their names: the files are opened, their tables
 * joined, and the result compared with what the index says.
 */
#include "sharded.h"

#include "alloc.h"
#include "content.h"
#include "error.h"
#include "index.h"

#include <string.h>

/* How often a model that somebody replaces in between is opened. */
#define SHARDED_MAX_ROUNDS 16u

static coffer_status sharded_no_memory(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the model");
}

/* Opens the shards and makes one model of them, by the index if there is one. Failures carry the path of a shard where
   they are about one. */
static coffer_status sharded_build(coffer *model, const coffer__index_shard *files, size_t count,
                                   const coffer__model_index *index, const coffer_open_options *options,
                                   coffer_error *err)
{
    const coffer_status status = coffer__sharded_open_files(model, files, count, options, err);
    return status == COFFER_OK ? coffer__sharded_join(model, index, err) : status;
}

/* The path as it was given, for messages about the index. It is released with the model. */
static coffer_status sharded_keep_path(coffer__sharded *sharded, const char *path, coffer_error *err)
{
    sharded->index_path_size = strlen(path) + 1;
    sharded->index_path = coffer__alloc(&sharded->allocator, sharded->index_path_size);
    if (sharded->index_path == NULL) {
        return sharded_no_memory(err);
    }
    memcpy(sharded->index_path, path, sharded->index_path_size);
    return COFFER_OK;
}

/* Compares the open files with the index, and keeps its path. Failures are about the index.
   Comparing comes first: notes rely on it that every tensor which the index names is there. */
static coffer_status sharded_see_index(coffer *model, const char *path, const coffer__model_index *index,
                                       const coffer_open_options *options, coffer_error *err)
{
    coffer_status status = coffer__sharded_compare(model, index, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__sharded_note(model, index, options, err);
    return status == COFFER_OK ? sharded_keep_path(model->sharded, path, err) : status;
}

/* Does everything after the index was read. A failure carries the path of a shard, or else that of
   the index. The digests that the index records are compared last, and only if the user wants to
   verify: they say which version a file is of, which a sound model needs no proof of. */
static coffer_status sharded_of_index(coffer *model, const char *path, const coffer__model_index *index,
                                      const coffer_open_options *options, coffer_error *err)
{
    coffer_status status = coffer__model_dir_beside(&model->sharded->place, path, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = sharded_build(model, index->shards, index->shard_count, index, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = sharded_see_index(model, path, index, options, err);
    if (status != COFFER_OK) {
        return coffer__fail_path(err, status, path);
    }
    return options->verify != COFFER_VERIFY_NOTHING ? coffer__content_check(model, err) : COFFER_OK;
}

/* Reads the text of an index, without the files of which nothing is selected. coffer__index_free
   follows in any case. Selecting needs the whole index, so its names are checked even where they
   are left out. */
static coffer_status sharded_read_index(coffer__model_index *index, const coffer__whole *text,
                                        const coffer_open_options *options, coffer_error *err)
{
    const coffer_status status =
        coffer__index_read(index, text->bytes, text->size, coffer__model_dir_check_shard, options->allocator, err);
    if (status != COFFER_OK || options->select_count == 0) {
        return status;
    }
    return coffer__index_select(index, options->select, options->select_count, err);
}

/* Makes a model from the text of an index. `web` is borrowed until the model is handed out:
   coffer_close of a half-made model must not free it, so model->web is set by coffer__open_url
   only. The index is released in any case. The model keeps copies of what it needs of it, and the
   caller keeps the text. */
static coffer_status sharded_open_text(coffer **model, const char *path, coffer__web *web, const coffer__whole *text,
                                       const coffer_open_options *options, coffer_error *err)
{
    coffer__model_index index;
    coffer *made = NULL;
    coffer_status status = sharded_read_index(&index, text, options, err);
    if (status != COFFER_OK) {
        coffer__fail_path(err, status, path);
        goto done;
    }
    made = coffer__model_of_shards(options->allocator, err);
    if (made == NULL) {
        status = coffer__fail_path(err, COFFER_ERR_MEMORY, path);
        goto done;
    }
    /* The place is made from what the text came from: the client, and the commit. */
    made->named_whole = true;
    made->sharded->place.web = web;
    memcpy(made->sharded->place.commit, text->commit, sizeof text->commit);
    status = sharded_of_index(made, path, &index, options, err);
    if (status == COFFER_OK) {
        *model = made;
        made = NULL;
    }
done:
    coffer__index_free(&index);
    coffer_close(made);
    return status;
}

/* Opens the model of an index as it is now. *read tells whether the index was read, from the file
   *seen. The text goes to the model if all its files are open, for those that pass it on; else it is
   released. `seen` means nothing at a URL. */
static coffer_status sharded_open_now(coffer **model, const char *path, const coffer__location *at,
                                      const coffer_open_options *options, bool *read, coffer__os_info *seen,
                                      coffer_error *err)
{
    coffer__whole text;
    coffer_status status = coffer__model_dir_read(path, at, COFFER__INDEX_MAX_BYTES, options->allocator, &text, err);
    *read = status == COFFER_OK;
    *seen = text.seen;
    if (status != COFFER_OK) {
        return coffer__fail_path(err, status, path);
    }
    status = sharded_open_text(model, path, at == NULL ? NULL : at->web, &text, options, err);
    if (status != COFFER_OK || (*model)->shard_count != (*model)->sharded->file_count) {
        coffer__whole_free(&text, options->allocator);
        return status;
    }
    (*model)->sharded->index = text;
    return COFFER_OK;
}

/* Whether the path still leads to the index that was read, and nobody has written to it. The file's
   number, size and times are compared. A new index with the same bytes counts as another one. */
static bool sharded_is_still(const char *path, const coffer__os_info *seen)
{
    coffer__os_info now;
    return coffer__os_inspect(path, true, &now) == 0 && coffer__os_unchanged(seen, &now) &&
           seen->touched == now.touched;
}

/* Files are opened one after the other. If somebody saves a new model in between, some files are of
   the old model and some of the new one. A save removes the old index before the first file
   changes, and the new index appears after the last one has (commit.h). So if the index that
   was read is still there when all files are open, they belong together. Otherwise the model is
   opened again, whatever the result was. At a URL there is nothing to look at. An index that could
   not be read has no version that could be compared; its failure is returned as it is. */
coffer_status coffer__sharded_open(coffer **model, const char *path, const coffer__location *at,
                                   const coffer_open_options *options, coffer_error *err)
{
    for (unsigned round = 1;; round++) {
        bool read = false;
        coffer__os_info seen;
        const coffer_status status = sharded_open_now(model, path, at, options, &read, &seen, err);
        if (at != NULL || !read || sharded_is_still(path, &seen)) {
            return status;
        }
        /* Replaced in the meantime: what was opened is of no use. */
        if (status == COFFER_OK) {
            coffer_close(*model);
            *model = NULL;
        }
        if (round == SHARDED_MAX_ROUNDS) {
            coffer__fail(err, COFFER_ERR_CHANGED,
                         "models are saved here all the time, and this one was replaced each time its files had been "
                         "opened; open it again when the program that saves has finished");
            return coffer__fail_path(err, COFFER_ERR_CHANGED, path);
        }
    }
}

/* Files without an index: their names are all that is known of them. `files` has no
   positions, as there is no index that they could be in. It borrows the names, and is not
   needed after opening. */
static coffer_status sharded_of_set(coffer *model, const char *path, const coffer__name *names, size_t count,
                                    const coffer_open_options *options, coffer_error *err)
{
    coffer_status status = coffer__model_dir_beside(&model->sharded->place, path, err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer__index_shard *files = coffer__alloc_array(options->allocator, count, sizeof *files, err);
    if (files == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        files[i].file = names[i];
    }
    status = sharded_build(model, files, count, NULL, options, err);
    coffer__free_array(options->allocator, files, count, sizeof *files);
    return status == COFFER_OK ? coffer__sharded_note(model, NULL, options, err) : status;
}

/* That the set is complete was found out by the caller. */
coffer_status coffer__sharded_open_set(coffer **model, const char *path, const coffer__name *files, size_t count,
                                       const coffer_open_options *options, coffer_error *err)
{
    coffer *made = coffer__model_of_shards(options->allocator, err);
    if (made == NULL) {
        return COFFER_ERR_MEMORY;
    }
    const coffer_status status = sharded_of_set(made, path, files, count, options, err);
    if (status != COFFER_OK) {
        coffer_close(made);
        return status;
    }
    *model = made;
    return COFFER_OK;
}

coffer_status coffer__sharded_need_flat(const coffer *model, coffer_error *err)
{
    const size_t folder_len = model->sharded == NULL ? 0 : strlen(model->sharded->place.given.text);
    for (size_t i = 0; model->sharded != NULL && i < model->shard_count; i++) {
        const char *path = model->shards[i].path;
        if (path != NULL && strchr(path + folder_len, '/') != NULL) {
            coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                         "this file of the model is in a folder below that of the index; such models are read, and "
                         "written elsewhere (coffer split, coffer merge), but not changed in place or fetched");
            return coffer__fail_path(err, COFFER_ERR_UNSUPPORTED, path);
        }
    }
    return COFFER_OK;
}
