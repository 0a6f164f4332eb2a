/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rewrite must not destroy. Every file that the new model replaces or removes is compared with the files that
 * the model is read from: by device and inode, so that it is the same file whatever name leads to it.
 *
 *   with an output   a file that the model is read from is refused, even where others may be replaced (force)
 *   in place         a file that is not the model's is refused, unless it may be replaced (force)
 *
 * Compared are the name of the model as one file, and of several files their index, their own names, and what an index
 * names that exists, since the files of an older model are removed.
 */
#include "alloc.h"
#include "coffer.h"
#include "errno_status.h"
#include "error.h"
#include "model.h"
#include "os.h"
#include "pending_save.h"
#include "rewriting.h"
#include "sort.h"

#include <errno.h>

typedef struct rewrite_guard_file {
    uint64_t device;
    uint64_t inode;
} rewrite_guard_file;

/* It lives for one call. `status` carries a refusal out of the visitor of coffer_list_files, which
   can only say "stop". */
typedef struct rewrite_guard {
    coffer_rewrite *rewrite;
    size_t capacity;
    size_t count;
    rewrite_guard_file *files; /* that the model is read from */
    uint32_t *order;           /* of them, by inode */
    coffer_status status;
    coffer_error *err;
} rewrite_guard;

/* ---- the files that the model is read from ----------------------------------------------------------------------- */

/* Inodes differ more often than devices, so they come first. An inode number alone does not name a
   file, hence both. */
static int rewrite_guard_compare(const rewrite_guard_file *a, const rewrite_guard_file *b)
{
    if (a->inode != b->inode) {
        return a->inode < b->inode ? -1 : 1;
    }
    return a->device == b->device ? 0 : a->device < b->device ? -1 : 1;
}

static bool rewrite_guard_before(const void *ctx, uint32_t a, uint32_t b)
{
    const rewrite_guard_file *files = ctx;
    return rewrite_guard_compare(&files[a], &files[b]) < 0;
}

/* There is space for every file of the model and its index. */
static void rewrite_guard_add(rewrite_guard *guard, const coffer__os_info *info)
{
    guard->files[guard->count] = (rewrite_guard_file){ info->device, info->inode };
    guard->order[guard->count] = (uint32_t)guard->count;
    guard->count++;
}

/* Binary search in `order`; needs the sort at the end of rewrite_guard_open. */
static bool rewrite_guard_knows(const rewrite_guard *guard, const coffer__os_info *info)
{
    const rewrite_guard_file wanted = { info->device, info->inode };
    size_t low = 0;
    size_t high = guard->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = rewrite_guard_compare(&guard->files[guard->order[middle]], &wanted);
        if (order == 0) {
            return true;
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return false;
}

/* (What was opened by a URL or from memory is no file here.) The files are compared as they were
   when the model was opened, and the index as it is now. After a failure rewrite_guard_free
   releases what was allocated. */
static coffer_status rewrite_guard_open(rewrite_guard *guard)
{
    coffer__os_info info;
    const coffer *model = guard->rewrite->model;
    const coffer_allocator *allocator = &guard->rewrite->allocator;
    guard->capacity = model->shard_count + 1;
    guard->files = coffer__alloc_array(allocator, guard->capacity, sizeof *guard->files, guard->err);
    guard->order = coffer__alloc_array(allocator, guard->capacity, sizeof *guard->order, guard->err);
    if (guard->files == NULL || guard->order == NULL) {
        return COFFER_ERR_MEMORY;
    }
    /* Sources in memory and those of a server have no file that could be lost. */
    for (size_t i = 0; i < model->shard_count; i++) {
        const coffer__os_info *seen = coffer__source_seen(&model->shards[i].source);
        if (seen != NULL) {
            rewrite_guard_add(guard, seen);
        }
    }
    const char *index = model->sharded != NULL && model->web == NULL ? model->sharded->index_path : NULL;
    if (index != NULL && coffer__os_inspect(index, true, &info) == 0) {
        rewrite_guard_add(guard, &info);
    }
    coffer__sort(guard->order, guard->count, rewrite_guard_before, guard->files);
    return COFFER_OK;
}

/* NULL is fine for both, after a failure. */
static void rewrite_guard_free(const rewrite_guard *guard)
{
    const coffer_allocator *allocator = &guard->rewrite->allocator;
    coffer__free_array(allocator, guard->files, guard->capacity, sizeof *guard->files);
    coffer__free_array(allocator, guard->order, guard->capacity, sizeof *guard->order);
}

/* ---- the files that go ------------------------------------------------------------------------------------------- */

/* Not even `force` allows this: the model would lose the files that it is read from. */
static coffer_status rewrite_guard_refuse_input(const char *path, coffer_error *err)
{
    coffer__fail(err, COFFER_ERR_ARGUMENT,
                 "the model is read from this file, and writing the new one would destroy it: choose another output, "
                 "or rewrite the model in its place");
    return coffer__fail_path(err, COFFER_ERR_ARGUMENT, path);
}

/* COFFER_ERR_SHADOWED as for any writer of models that would remove a file it does not know. */
static coffer_status rewrite_guard_refuse_stranger(const char *path, coffer_error *err)
{
    coffer__fail(err, COFFER_ERR_SHADOWED,
                 "this file does not belong to the model, and the new one would replace or remove it: move it "
                 "elsewhere, choose another place, or allow it");
    return coffer__fail_path(err, COFFER_ERR_SHADOWED, path);
}

/* One name that the new model takes or removes; whether it is the model's already comes in *own.
   Links are followed, because what counts is the file that would be lost, whatever its name. It is
   a look and not a lock: a file that is put there later is found by the writer or the commit,
   as far as they check. What cannot be examined at all is an error, and not taken for harmless. */
static coffer_status rewrite_guard_look(const rewrite_guard *guard, const char *path, bool *own)
{
    coffer__os_info info;
    const coffer_rewrite_options *options = &guard->rewrite->options;
    /* *own is set in any case, also when the look fails. */
    const int os_error = coffer__os_inspect(path, true, &info);
    *own = os_error == 0 && rewrite_guard_knows(guard, &info);
    if (os_error == ENOENT || os_error == ENOTDIR || os_error == ELOOP) {
        return COFFER_OK; /* whatever is wrong with the folder, the writer says */
    }
    if (os_error != 0) {
        return coffer__errno_status(guard->err, "look at a file that would be replaced", path, os_error);
    }
    /* Elsewhere: a file that is no input is replaced or refused by the writer, by its own rules. */
    if (options->output != NULL) {
        return *own ? rewrite_guard_refuse_input(path, guard->err) : COFFER_OK;
    }
    return *own || options->force ? COFFER_OK : rewrite_guard_refuse_stranger(path, guard->err);
}

/* What such an index names. A non-zero answer ends the listing. Files that are named but do not
   exist cannot be lost. */
static int rewrite_guard_look_listed(void *ctx, const char *path, bool exists)
{
    rewrite_guard *guard = ctx;
    bool own = false;
    guard->status = exists ? rewrite_guard_look(guard, path, &own) : COFFER_OK;
    return guard->status != COFFER_OK;
}

/* An index that lies where the new one goes, and what it names. One that cannot be understood names
   nothing, as it does for a commit, which removes the files of an older model. The listing's
   own status is mostly dropped: cancelled means that guard->status has the reason, and an index
   that does not conform is no obstacle. Lack of memory and trouble with the device are passed on,
   as they say nothing about the index. */
static coffer_status rewrite_guard_look_at_index(rewrite_guard *guard, const char *index)
{
    coffer_error cause;
    bool own = false;
    coffer_status status = rewrite_guard_look(guard, index, &own);
    if (status != COFFER_OK) {
        return status;
    }
    /* The error of the listing is about an old index and stays here, unless it is passed on. */
    status = coffer_list_files(index, &guard->rewrite->allocator, rewrite_guard_look_listed, guard, &cause);
    if (status == COFFER_ERR_MEMORY || status == COFFER_ERR_IO) {
        coffer__fail(guard->err, status, "%s", cause.message);
        coffer__fail_path(guard->err, status, index);
        return coffer__fail_errno(guard->err, status, cause.os_error);
    }
    return guard->status;
}

/* The names are the ones that the files will get, so rewrite->keeps_names must be decided
   before. */
static coffer_status rewrite_guard_look_at_sharded(rewrite_guard *guard)
{
    coffer__path path;
    bool own = false;
    const coffer_rewrite *rewrite = guard->rewrite;
    const char *target = rewrite->target.text;
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < rewrite->shards.count; i++) {
        if (coffer__rewrite_name_file(rewrite, i, &path)) {
            status = rewrite_guard_look(guard, path.text, &own);
        }
        if (status != COFFER_OK) {
            return status;
        }
    }
    /* A name that is too long is the writer's to refuse. */
    return coffer__pending_save_index_name(&path, target, "") ? rewrite_guard_look_at_index(guard, path.text)
                                                              : COFFER_OK;
}

/* A single file that replaces itself needs no look: its writer replaces only the file that was
   read. The name of the model as one file is looked at even for several files, since a file of that
   name would shadow their index and is removed; owns_target then tells the commit that it may
   be. */
static coffer_status rewrite_guard_look_at_all(rewrite_guard *guard)
{
    coffer_rewrite *rewrite = guard->rewrite;
    const bool in_place = rewrite->options.output == NULL;
    /* One file that becomes one file. */
    if (in_place && rewrite->model->sharded == NULL && rewrite->shards.count == 1) {
        return COFFER_OK;
    }
    const coffer_status status = rewrite_guard_look(guard, rewrite->target.text, &rewrite->owns_target);
    if (status != COFFER_OK) {
        return status;
    }
    return rewrite->shards.count > 1 || (in_place && rewrite->model->sharded != NULL)
               ? rewrite_guard_look_at_sharded(guard)
               : COFFER_OK;
}

/* Nothing is changed in the folder. It is part of planning, so that a refusal comes before hours of
   writing. */
coffer_status coffer__rewrite_guard(coffer_rewrite *rewrite, coffer_error *err)
{
    rewrite_guard guard = { .rewrite = rewrite, .err = err };
    coffer_status status = rewrite_guard_open(&guard);
    if (status == COFFER_OK) {
        status = rewrite_guard_look_at_all(&guard);
    }
    rewrite_guard_free(&guard);
    return status;
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

/* The same of the index of several files; of those that had none, whether there is none yet. */
static coffer_status rewrite_look_at_index_again(const coffer_rewrite *rewrite, coffer_error *err)
{
    coffer__path index;
    const coffer__sharded *sharded = rewrite->model->sharded;
    if (sharded->index_path != NULL) {
        return rewrite_look_again(sharded->index_path, &sharded->index.seen, err);
    }
    if (!coffer__pending_save_index_name(&index, rewrite->target.text, "") || !coffer__os_exists(index.text)) {
        return COFFER_OK;
    }
    coffer__fail(err, COFFER_ERR_CHANGED,
                 "an index was put next to the files since they were read: nothing was rewritten");
    return coffer__fail_path(err, COFFER_ERR_CHANGED, index.text);
}

/* Whether the files of a model that is replaced, its index too, are still those that were read. (A
   single file's writer looks at it itself.) It narrows the window in which a save of another
   program could be lost. Other saves by this library are kept out by the lock of the folder, but an
   edit of a file's metadata takes only the lock of that file and is found here. */
coffer_status coffer__rewrite_check_unchanged(const coffer_rewrite *rewrite, coffer_error *err)
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
    return model->sharded == NULL ? COFFER_OK : rewrite_look_at_index_again(rewrite, err);
}
