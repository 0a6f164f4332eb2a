/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of a save, and the repair of an interrupted one; commit.h has the names and their
 * order.
 *
 * Every step is a rename or an unlink that finds out by itself whether it was done before. So
 * finishing an interrupted save runs the same code as saving: commit_settle starts at the
 * decision and skips whatever is done. Where a save is durable, commit_sync stands between two
 * steps whose order on the device matters: a file system may otherwise store renames in another
 * order than they were made.
 *
 * Everything here runs in one thread, under the lock of the folder. Other processes that save take
 * the same lock; programs that only read do not, which is why each step by itself must leave a
 * folder that they read correctly or refuse.
 */
#include "commit.h"

#include "bytes.h"
#include "errno_status.h"
#include "error.h"
#include "index.h"
#include "model_dir.h"
#include "os.h"
#include "patch.h"
#include "pending_save.h"
#include "shards.h"
#include "sink.h"
#include "sort.h"
#include "text.h"
#include "writing.h"

#include <errno.h>
#include <string.h>

#define COMMIT_FORCED ".coffer-force"
#define COMMIT_HEAD ".coffer-head"
#define COMMIT_COMPANIONS ".coffer-companions"
/* Bytes of .coffer-companions. */
#define COMMIT_COMPANIONS_MAX ((uint64_t)1 << 20)
/* Bytes of .coffer-force; commit.h has the layout. */
#define COMMIT_FORCED_SIZE 32

static const char commit_magic[8] = { 'C', 'O', 'F', 'F', 'O', 'R', 'C', 'E' };

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* What the names of unfinished work have in them, here and elsewhere: a file of a model so called would be taken for
   it. */
#define COMMIT_MARK ".coffer-"

static coffer_status commit_refuse(const char *name, const char *why, coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_SHARD_NAME, "a file of a model cannot be saved as %q: %s", name,
                        coffer__text_len(name), why);
}

coffer_status coffer__commit_judge(const char *path, const char *file, coffer_error *err)
{
    coffer__path made;
    const char *name = file + coffer__path_name_at(file);
    const coffer_status status = coffer__model_dir_check_name(name, coffer__text_len(name), 0, NULL);
    if (status != COFFER_OK) {
        return commit_refuse(name, "it is not a plain file name", err);
    }
    if (strstr(name, COMMIT_MARK) != NULL) {
        return commit_refuse(name, "names with .coffer- in them are those of unfinished work", err);
    }
    if (coffer__pending_save_index_name(&made, path, "") && strcmp(made.text, file) == 0) {
        return commit_refuse(name, "it is the name of the index itself", err);
    }
    /* The longest name that a file of a save has meanwhile: a temporary one of an edit (patch.h). */
    if (!coffer__path_beside(&made, file, "", COFFER__UNDO_SUFFIX COFFER__PENDING_SAVE_NEW)) {
        return commit_refuse(name, "the names that it has until it is complete would be too long", err);
    }
    return COFFER_OK;
}

bool coffer__commit_name(coffer__path *out, const char *file)
{
    return coffer__path_beside(out, file, "", COFFER__PENDING_SAVE_NEW);
}

bool coffer__commit_head_name(coffer__path *out, const char *file)
{
    return coffer__path_beside(out, file, "", COMMIT_HEAD);
}

/* Makes all names at once, before anything is touched: a path that is too long must fail here
   and not after the decision. False if one of them is too long. */
static bool commit_make_names(coffer__commit *commit, const char *path)
{
    return coffer__path_copy(&commit->path, path) && coffer__pending_save_index_name(&commit->index, path, "") &&
           coffer__pending_save_index_name(&commit->fresh, path, COFFER__PENDING_SAVE_NEW) &&
           coffer__pending_save_index_name(&commit->ready, path, COFFER__PENDING_SAVE_READY) &&
           coffer__pending_save_index_name(&commit->forced, path, COMMIT_FORCED) &&
           coffer__pending_save_index_name(&commit->old, path, COFFER__PENDING_SAVE_OLD) &&
           coffer__pending_save_index_name(&commit->companions, path, COMMIT_COMPANIONS) &&
           coffer__path_beside(&commit->shadow, path, "", COFFER__PENDING_SAVE_OLD);
}

/* ---- whose names they are ---------------------------------------------------------------------------------------- */

/* Fails unless there is nothing under the name, or a file that an interrupted save may have left. Without this check,
   anybody who can create files in a sticky folder could plant a .coffer-ready there and have the next save rename
   and remove files on their behalf. `moved` is true for a file that was renamed and not created, which keeps the
   owner it had (coffer__pending_save_is_own). */
static coffer_status commit_check_own(const coffer__commit *commit, const char *path, bool moved, coffer_error *err)
{
    coffer__os_info file;
    const int os_error = coffer__os_inspect(path, false, &file);
    if (os_error == ENOENT || (os_error == 0 && coffer__pending_save_is_own(&file, &commit->folder, moved))) {
        return COFFER_OK;
    }
    if (os_error != 0) {
        return coffer__errno_status(err, "examine what an interrupted save left", path, os_error);
    }
    coffer__fail(
        err, COFFER_ERR_UNFINISHED,
        "this has the name of a file that an interrupted save leaves, but it belongs neither to you nor to the "
        "folder's owner, or everybody may write it, so nothing was done: remove it, or save in another folder");
    return coffer__fail_path(err, COFFER_ERR_UNFINISHED, path);
}

/* Checks every name that is read. `shadow` is not among them: an old model that was moved aside
   is only ever removed. The folder must be locked, so that no other save changes them between
   this check and their use. */
static coffer_status commit_check_all_own(const coffer__commit *commit, coffer_error *err)
{
    coffer_status status = commit_check_own(commit, commit->fresh.text, false, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = commit_check_own(commit, commit->ready.text, false, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = commit_check_own(commit, commit->forced.text, false, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = commit_check_own(commit, commit->companions.text, false, err);
    return status == COFFER_OK ? commit_check_own(commit, commit->old.text, true, err) : status;
}

/* ---- an index that is there -------------------------------------------------------------------------------------- */

/* The files that an index names, in byte order. The names point into `text`, so both are
   released together; `read` tells that they exist. A list of zeros names nothing. */
typedef struct commit_list {
    const coffer_allocator *allocator;
    coffer__whole text;
    coffer__model_index index;
    bool read;
} commit_list;

/* Can be called twice, and for a list that was never read. */
static void commit_free_list(commit_list *list)
{
    if (list->read) {
        coffer__index_free(&list->index);
        coffer__whole_free(&list->text, list->allocator);
    }
    list->read = false;
}

/* Reads the files that an index names. An empty file names none: the list of a model without
   tensors, and the note that there was no old index, are stored like that. On failure the list
   is empty and needs no release. COFFER_ERR_NOT_FOUND, COFFER_ERR_MEMORY and COFFER_ERR_IO tell
   the caller what the failure means for a repair. */
static coffer_status commit_read_list(commit_list *list, const char *path, const coffer_allocator *allocator,
                                      coffer_error *err)
{
    *list = (commit_list){ .allocator = allocator };
    coffer_status status = coffer__model_dir_read(path, NULL, COFFER__INDEX_MAX_BYTES, allocator, &list->text, err);
    if (status != COFFER_OK) {
        return status;
    }
    list->read = true;
    if (list->text.size > 0) {
        status = coffer__index_read(&list->index, list->text.bytes, list->text.size, coffer__model_dir_check_name,
                                    allocator, err);
    }
    if (status != COFFER_OK) {
        commit_free_list(list);
        return coffer__fail_path(err, status, path);
    }
    return COFFER_OK;
}

/* Binary search: coffer__index_read sorts the files by name, in byte order. */
static bool commit_lists(const commit_list *list, const char *name, size_t name_len)
{
    const coffer__index_shard *shards = list->index.shards;
    size_t low = 0;
    size_t high = list->index.shard_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const coffer__name *file = &shards[middle].file;
        const int order = coffer__compare_names(file->text, file->len, name, name_len);
        if (order == 0) {
            return true;
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return false;
}

/* The path of a file that a list names. The list comes from a file that a stranger may have written, so a name that
   coffer__commit_judge refuses gives false and is never touched. */
static bool commit_file(coffer__path *out, const char *path, const coffer__name *file)
{
    char name[COFFER__PATH_MAX_NAME + 1];
    if (file->len >= sizeof name || coffer__model_dir_check_name(file->text, file->len, 0, NULL) != COFFER_OK) {
        return false;
    }
    memcpy(name, file->text, file->len);
    name[file->len] = '\0';
    return coffer__path_sibling(out, path, name) && coffer__commit_judge(path, out->text, NULL) == COFFER_OK;
}

/* Whether a list names `path`, what the model would be called as one file. */
static bool commit_lists_path(const commit_list *list, const char *path)
{
    const char *name = path + coffer__path_name_at(path);
    return commit_lists(list, name, coffer__text_len(name));
}

/* Whether the new model has an index to publish. A model of one file passes through a list too,
   which names that file alone, or nothing if it has no tensors; such a list is removed in the
   end and does not become an index. It is read from the list, as a recovery has no caller who
   could say. */
static bool commit_is_sharded(const commit_list *list, const char *path)
{
    return list->index.shard_count > 1 || (list->index.shard_count == 1 && !commit_lists_path(list, path));
}

/* ---- one step at a time ------------------------------------------------------------------------------------------ */

/* Makes the renames so far durable. Does nothing for a save that is not durable: that one
   survives a crash of the process at any point, but after a power cut the steps may be on the
   device in any order. */
static int commit_sync(const coffer__commit *commit)
{
    return commit->durable && commit->directory >= 0 ? coffer__os_sync_names(commit->directory) : 0;
}

/* The message for an old model of one file that may not be removed. That model is
   unchanged then. */
static coffer_status commit_shadowed(const char *path, coffer_error *err)
{
    coffer__fail(err, COFFER_ERR_SHADOWED,
                 "a single-file model exists already, and would be loaded instead of the new index: remove it, choose "
                 "another place, or allow its removal");
    return coffer__fail_path(err, COFFER_ERR_SHADOWED, path);
}

/* Gives a new file the owner and mode of what it replaces: the file of the same name or, if there is none, the old
   model of one file, or the old index. The first of these that exists decides. Called before the rename, so that
   the file is never visible under its final name with wider rights than before. */
static int commit_take_rights(const coffer__commit *commit, const char *file, const char *name)
{
    /* In this order: the file of the same name, the old model of one file, the old index. */
    const char *const olds[] = { name, commit->shadow.text, commit->old.text };
    coffer__os_info info = { .kind = COFFER__OS_OTHER };
    const char *old = NULL;
    int fd = -1;
    /* The first one that exists is what the new file replaces. */
    for (size_t i = 0; i < sizeof olds / sizeof olds[0] && old == NULL; i++) {
        old = coffer__os_inspect(olds[i], true, &info) == 0 ? olds[i] : NULL;
    }
    /* Nothing is replaced, or nothing that has rights to take over: then the umask has decided. That
       the new file is gone is found by the rename. */
    if (old == NULL || info.kind != COFFER__OS_REGULAR || coffer__os_open(file, COFFER__OS_READ, false, &fd) != 0) {
        return 0;
    }
    const int os_error = coffer__os_take_owner_and_mode(fd, &info, old);
    (void)coffer__os_close(fd);
    return os_error;
}

/* Gives one new file its name. The undo file of an interrupted edit goes before what it belongs to: it could not be
   told from that of a header which an earlier run began to write. */
static coffer_status commit_rename(const coffer__commit *commit, const char *temporary, const char *target,
                                   coffer_error *err)
{
    const coffer_status status = commit_check_own(commit, temporary, false, err);
    if (status != COFFER_OK) {
        return status;
    }
    int os_error = commit_take_rights(commit, temporary, target);
    if (os_error == 0) {
        coffer__undo_remove(target);
        os_error = coffer__os_rename(temporary, target);
    }
    return os_error == 0 ? COFFER_OK : coffer__errno_status(err, "give a file its name", target, os_error);
}

/* Writes the new header of one file into it, or finishes that. Editors keep out by the lock of the file; one that came
   before has changed the file, which the patch notices. */
static coffer_status commit_patch(const coffer__commit *commit, const char *head, const char *target, coffer_error *err)
{
    int fd = -1;
    coffer_status status = commit_check_own(commit, head, false, err);
    if (status != COFFER_OK) {
        return status;
    }
    int os_error = coffer__os_open(target, COFFER__OS_EDIT, false, &fd);
    os_error = os_error == 0 ? coffer__os_lock(fd) : os_error;
    status = os_error == 0 ? coffer__patch_finish(fd, target, head, &commit->allocator, err)
                           : coffer__errno_status(err, "open and lock the file to write its header", target, os_error);
    if (fd >= 0) {
        (void)coffer__os_close(fd);
    }
    return status;
}

/* Makes one file that of the new model. Where nothing waits for it, an earlier run got this far, or the file stays as it
   was. The names are checked again here, as this may be the recovery of a save whose index somebody has changed. */
static coffer_status commit_place(const coffer__commit *commit, const coffer__name *file, coffer_error *err)
{
    coffer__path target;
    coffer__path temporary;
    coffer__path head;
    if (!commit_file(&target, commit->path.text, file) || !coffer__commit_name(&temporary, target.text)) {
        return coffer__errno_status(err, "give a file its name", commit->path.text, EINVAL);
    }
    if (coffer__os_exists(temporary.text)) {
        return commit_rename(commit, temporary.text, target.text, err);
    }
    if (coffer__commit_head_name(&head, target.text) &&
        (coffer__os_exists(head.text) || coffer__undo_look(target.text) == COFFER__UNDO_COUNTS)) {
        return commit_patch(commit, head.text, target.text, err);
    }
    return coffer__os_exists(target.text) ? COFFER_OK
                                          : coffer__errno_status(err, "give a file its name", target.text, ENOENT);
}

/* Makes all files those of the new model. An empty list is that of a model without tensors, which is
   one file with the name `path`. Stops at the first failure: those before it have their names,
   and the next repair skips them. A loader finds no model during that, unless the new model is
   one file. */
static coffer_status commit_place_all(const coffer__commit *commit, const commit_list *list, coffer_error *err)
{
    const char *path = commit->path.text;
    if (list->index.shard_count == 0) {
        const char *name = path + coffer__path_name_at(path);
        const coffer__name only = { name, coffer__text_len(name) };
        return commit_place(commit, &only, err);
    }
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < list->index.shard_count && status == COFFER_OK; i++) {
        status = commit_place(commit, &list->index.shards[i].file, err);
    }
    return status;
}

/* Whether commit_place can succeed, as far as that can be known before anything is moved. A header that begins
   to be written, or a file that stays as it was, needs the file itself. */
static coffer_status commit_foresee(const coffer__commit *commit, const coffer__name *file, coffer_error *err)
{
    coffer__path target;
    coffer__path temporary;
    if (!commit_file(&target, commit->path.text, file) || !coffer__commit_name(&temporary, target.text)) {
        return coffer__fail(err, COFFER_ERR_SHARD_NAME, "no file of a model can be saved as %q", file->text, file->len);
    }
    coffer_status status = commit_check_own(commit, temporary.text, false, err);
    if (status == COFFER_OK) {
        status = coffer__commit_check(target.text, err);
    }
    const bool is_there = coffer__os_exists(temporary.text) || coffer__os_exists(target.text);
    return status != COFFER_OK || is_there ? status
                                           : coffer__errno_status(err, "give a file its name", target.text, ENOENT);
}

/* The same for all files of the list at `list_path`. The first failure of a file is the answer. */
static coffer_status commit_foresee_all(const coffer__commit *commit, const char *list_path, coffer_error *err)
{
    commit_list list;
    const char *path = commit->path.text;
    const coffer__name only = { path + coffer__path_name_at(path),
                                coffer__text_len(path) - coffer__path_name_at(path) };
    coffer_status status = commit_read_list(&list, list_path, &commit->allocator, err);
    if (status == COFFER_OK && list.index.shard_count == 0) {
        status = commit_foresee(commit, &only, err);
    }
    for (size_t i = 0; status == COFFER_OK && i < list.index.shard_count; i++) {
        status = commit_foresee(commit, &list.index.shards[i].file, err);
    }
    commit_free_list(&list);
    return status;
}

/* Returns true when no file of that name is left, including when there was none: an earlier run
   may have removed it. */
static bool commit_unlink(const char *path)
{
    const int os_error = coffer__os_unlink(path);
    return os_error == 0 || os_error == ENOENT;
}

/* Gives a companion its name. Where none waits for it, an earlier run got this far. */
static coffer_status commit_place_companion(const coffer__commit *commit, const char *target, const char *temporary,
                                            coffer_error *err)
{
    return coffer__os_exists(temporary) ? commit_rename(commit, temporary, target, err) : COFFER_OK;
}

/* Removes a new companion. */
static coffer_status commit_undo_companion(const coffer__commit *commit, const char *target, const char *temporary,
                                           coffer_error *err)
{
    (void)commit;
    (void)target;
    return commit_unlink(temporary) ? COFFER_OK : coffer__errno_status(err, "remove a new file", temporary, EACCES);
}

/* Does that with every file that .coffer-companions names, and removes the list when all of it could be done; there may be
   none. Its names are judged again, as anybody may have changed it. */
static coffer_status commit_each_companion(const coffer__commit *commit,
                                           coffer_status (*act)(const coffer__commit *commit, const char *target,
                                                                const char *temporary, coffer_error *err),
                                           coffer_error *err)
{
    coffer__whole list;
    coffer__path target;
    coffer__path temporary;
    coffer_status status =
        coffer__model_dir_read(commit->companions.text, NULL, COMMIT_COMPANIONS_MAX, &commit->allocator, &list, err);
    if (status != COFFER_OK) {
        return status == COFFER_ERR_NOT_FOUND ? COFFER_OK : coffer__fail_path(err, status, commit->companions.text);
    }
    for (size_t at = 0; at < list.size && status == COFFER_OK;) {
        const char *text = (const char *)list.bytes + at;
        const char *end = memchr(text, '\n', list.size - at);
        const coffer__name name = { text, end != NULL ? (size_t)(end - text) : list.size - at };
        if (commit_file(&target, commit->path.text, &name) && !coffer__shards_path_fits(target.text) &&
            coffer__commit_name(&temporary, target.text)) {
            status = act(commit, target.text, temporary.text, err);
        }
        at += name.len + 1;
    }
    coffer__whole_free(&list, &commit->allocator);
    const bool gone = status != COFFER_OK || commit_unlink(commit->companions.text);
    return gone ? status : coffer__errno_status(err, "remove the list of new files", commit->companions.text, EACCES);
}

/* An index that names nothing. It records that there was no index before, so that recovery can
   tell this from an index that has yet to move. Created only where nothing is, so it never
   truncates a file. */
static int commit_make_empty(const char *path)
{
    int fd = -1;
    const int os_error = coffer__os_create(path, false, &fd);
    return os_error == 0 ? coffer__os_close(fd) : os_error;
}

/* Renames the old index to .coffer-old. If there is no index, either an earlier run has moved it, or there was none
   and an empty file takes note of that. */
static int commit_set_index_aside(const coffer__commit *commit)
{
    const int os_error = coffer__os_rename(commit->index.text, commit->old.text);
    /* ENOENT: there is no index, or an earlier run has moved it. */
    if (os_error != ENOENT) {
        return os_error;
    }
    return coffer__os_exists(commit->old.text) ? 0 : commit_make_empty(commit->old.text);
}

/* Fills the contents of .coffer-force from a file. Inode, size and time together identify the model that the user
   agreed to lose, so that recovery removes that one and no other that was put there later. */
static void commit_write_forced(uint8_t bytes[COMMIT_FORCED_SIZE], const coffer__os_info *file)
{
    memcpy(bytes, commit_magic, sizeof commit_magic);
    coffer__store_u64le(bytes + 8, file->inode);
    coffer__store_u64le(bytes + 16, file->size);
    coffer__store_u64le(bytes + 24, (uint64_t)file->modified);
}

/* Fails with COFFER_ERR_SHADOWED unless the model of one file at `path` is the one that .coffer-force names.
   Without .coffer-force no model of one file may be removed. */
static coffer_status commit_check_forced(const coffer__commit *commit, coffer_error *err)
{
    uint8_t wanted[COMMIT_FORCED_SIZE];
    coffer__whole said;
    coffer__os_info file;
    const char *path = commit->path.text;
    const int os_error = coffer__os_inspect(path, false, &file);
    if (os_error != 0) {
        return coffer__errno_status(err, "examine the old model", path, os_error);
    }
    commit_write_forced(wanted, &file);
    coffer_status status =
        coffer__model_dir_read(commit->forced.text, NULL, sizeof wanted, &commit->allocator, &said, err);
    if (status != COFFER_OK && status != COFFER_ERR_NOT_FOUND) {
        return coffer__fail_path(err, status, commit->forced.text);
    }
    /* Byte for byte: inode, size and time must all be those of the model that was given up. */
    const bool same = status == COFFER_OK && said.size == sizeof wanted && memcmp(said.bytes, wanted, said.size) == 0;
    if (status == COFFER_OK) {
        coffer__whole_free(&said, &commit->allocator);
    }
    if (same) {
        return COFFER_OK;
    }
    coffer__fail(err, COFFER_ERR_SHADOWED,
                 "a single-file model was put there since, which would be loaded instead of the new index: move it "
                 "elsewhere and recover, or save again with force");
    return coffer__fail_path(err, COFFER_ERR_SHADOWED, path);
}

/* Moves the old model aside, first the single file, then the index, so that no loader finds either of them. From
   here until the new index has its name, the folder has no model. That is what rules out a mixture: a loader that
   looks now fails, and does not combine an old index with new files. If a file of the new model is called so, an old
   single file stays, as a rename replaces it at once. */
static coffer_status commit_set_aside(const coffer__commit *commit, const commit_list *list, coffer_error *err)
{
    const char *path = commit->path.text;
    const bool shadows = list->index.shard_count > 0 && !commit_lists_path(list, path);
    int os_error = 0;
    /* The single file moves first: loaders prefer it to an index. */
    if (shadows && coffer__os_exists(path)) {
        const coffer_status status = commit_check_forced(commit, err);
        if (status != COFFER_OK) {
            return status;
        }
        os_error = coffer__os_rename(path, commit->shadow.text);
    }
    os_error = os_error == 0 ? commit_set_index_aside(commit) : os_error;
    os_error = os_error == 0 ? commit_sync(commit) : os_error;
    return os_error == 0 ? COFFER_OK : coffer__errno_status(err, "move the old model aside", path, os_error);
}

/* Removes every file that `old` names and `now` does not. Returns false if one could not be removed. `path` itself
   is never removed here: it is either the new model or, under its name aside, commit_tidy's to remove. A name
   without the ending of a file of tensors may be anything, since a stranger may have written the old index; it stays. */
static bool commit_remove(const coffer__commit *commit, const commit_list *old, const commit_list *now)
{
    coffer__path file;
    bool all = true;
    for (size_t i = 0; i < old->index.shard_count; i++) {
        const coffer__name *name = &old->index.shards[i].file;
        if (!commit_lists(now, name->text, name->len) && commit_file(&file, commit->path.text, name) &&
            coffer__shards_path_fits(file.text) && strcmp(file.text, commit->path.text) != 0) {
            all = commit_unlink(file.text) && all;
        }
    }
    return all;
}

/* Reads what the new index names. A new model of one file has no index; then its file must
   exist, or nothing may be removed: without either, the files that the old index names may be
   all that is left of any model. */
static coffer_status commit_read_new(const coffer__commit *commit, commit_list *now)
{
    const coffer_status status = commit_read_list(now, commit->index.text, &commit->allocator, NULL);
    const bool one_file = status == COFFER_ERR_NOT_FOUND && coffer__os_exists(commit->path.text);
    return one_file ? COFFER_OK : status;
}

/* Removes what the old index named and the new one does not, and then the records of the save. .coffer-old goes
   last, as it is the list of what is left to remove: what cannot be removed or read now is left for the next save
   or recovery. An old index that is not valid names nothing, so it does not block. Failures are not reported,
   because the new model is complete and published. */
static void commit_tidy(const coffer__commit *commit)
{
    commit_list old;
    commit_list now = { .allocator = &commit->allocator };
    const coffer_status status = commit_read_list(&old, commit->old.text, &commit->allocator, NULL);
    /* After a failure of memory or I/O the next try may succeed, so everything stays for it. */
    bool all = status != COFFER_ERR_MEMORY && status != COFFER_ERR_IO;
    if (status == COFFER_OK && old.index.shard_count > 0) {
        all = commit_read_new(commit, &now) == COFFER_OK && commit_remove(commit, &old, &now);
    }
    commit_free_list(&old);
    commit_free_list(&now);
    /* .coffer-old goes last. While it exists, the next save tidies up again. */
    if (all && commit_unlink(commit->forced.text) && commit_unlink(commit->shadow.text)) {
        (void)coffer__os_unlink(commit->old.text);
    }
}

/* Everything from the decision to the end: steps 3 to 6. It is also the recovery: each step
   finds out whether it was done, so running it again after a crash at any point gives the same
   result. On failure .coffer-ready is still there, unless the last commit_sync failed, and
   so the next open or recovery continues here. What commit_tidy cannot do is no failure. */
static coffer_status commit_settle(const coffer__commit *commit, coffer_error *err)
{
    commit_list list;
    coffer_status status = commit_read_list(&list, commit->ready.text, &commit->allocator, err);
    if (status != COFFER_OK) {
        return status;
    }
    /* Step 3. If the new model has an index, no loader finds a model from here until step 5. */
    const bool sharded = commit_is_sharded(&list, commit->path.text);
    status = commit_set_aside(commit, &list, err);
    /* Step 4. Files beside the model change first, so they are the new ones when the model appears. */
    if (status == COFFER_OK && commit->meanwhile != NULL) {
        status = commit->meanwhile(commit->meanwhile_ctx, err);
    }
    if (status == COFFER_OK) {
        status = commit_each_companion(commit, commit_place_companion, err);
    }
    if (status == COFFER_OK) {
        status = commit_place_all(commit, &list, err);
    }
    commit_free_list(&list);
    if (status != COFFER_OK) {
        return status;
    }
    /* Step 5. All files have their names. They must be durable under them before the index is,
       or a crash could leave an index that names files of the old model. */
    int os_error = sharded ? commit_take_rights(commit, commit->ready.text, commit->index.text) : 0;
    os_error = os_error == 0 ? commit_sync(commit) : os_error;
    if (os_error == 0) {
        os_error =
            sharded ? coffer__os_rename(commit->ready.text, commit->index.text) : coffer__os_unlink(commit->ready.text);
    }
    os_error = os_error == 0 ? commit_sync(commit) : os_error;
    if (os_error != 0) {
        return coffer__errno_status(err, "give the new index its name", commit->index.text, os_error);
    }
    commit_tidy(commit);
    return COFFER_OK;
}

/* Removes the temporary file of `file`, or its new header. A name that is too long cannot have one, so that counts as
   removed. */
static bool commit_unlink_new(const char *file)
{
    coffer__path name;
    const bool header = !coffer__commit_head_name(&name, file) || commit_unlink(name.text);
    return (!coffer__commit_name(&name, file) || commit_unlink(name.text)) && header;
}

/* Removes the new files, whichever of them exist, and then the list of them. The list goes only
   when every file that it names is gone: it is the only record of their names, so what cannot be
   removed now is found again by the next save. The old model is not touched, as a save that is
   undone was not decided on. Failures are not reported. */
static void commit_undo(const coffer__commit *commit, const char *list_path)
{
    commit_list list;
    coffer__path file;
    const char *path = commit->path.text;
    /* A model of one file, or of no tensors, has its temporary file here even if the list does not name it. */
    bool all = commit_unlink_new(path) && commit_each_companion(commit, commit_undo_companion, NULL) == COFFER_OK;
    const coffer_status status = commit_read_list(&list, list_path, &commit->allocator, NULL);
    /* After a failure of memory or I/O the next try may succeed, so the list stays for it. */
    all = all && status != COFFER_ERR_MEMORY && status != COFFER_ERR_IO;
    if (status == COFFER_OK) {
        for (size_t i = 0; i < list.index.shard_count; i++) {
            const bool known = commit_file(&file, path, &list.index.shards[i].file);
            all = (!known || commit_unlink_new(file.text)) && all;
        }
        commit_free_list(&list);
    }
    /* The list goes last: without it nothing would know the names of the files that are left. */
    if (all && commit_unlink(commit->forced.text)) {
        (void)coffer__os_unlink(list_path);
    }
}

/* ---- what a crash left ------------------------------------------------------------------------------------------- */

/* Whether no file of the new model can have got its name: all that are there still have their temporary ones. A file
   without one may have been placed, or may be one that stays as it is; which of them, nothing tells. */
static bool commit_is_unplaced(const coffer__commit *commit, const commit_list *list)
{
    for (size_t i = 0; i < list->index.shard_count; i++) {
        coffer__path target;
        coffer__path temporary;
        const bool named = commit_file(&target, commit->path.text, &list->index.shards[i].file) &&
                           coffer__commit_name(&temporary, target.text);
        if (named && coffer__os_exists(target.text) && !coffer__os_exists(temporary.text)) {
            return false;
        }
    }
    return list->index.shard_count > 0;
}

/* Gives the old model its names again, if step 3 has moved it and nothing of it has been replaced since. False if that
   is not known, or if there was none. */
static bool commit_give_back(const coffer__commit *commit)
{
    commit_list list;
    coffer__os_info old = { .size = 0 };
    const bool moved = coffer__os_inspect(commit->old.text, false, &old) == 0;
    const bool shadow = coffer__os_exists(commit->shadow.text);
    if (!moved && !shadow) {
        return true;
    }
    if (commit_read_list(&list, commit->ready.text, &commit->allocator, NULL) != COFFER_OK) {
        return false;
    }
    bool back = (old.size > 0 || shadow) && commit_is_unplaced(commit, &list);
    commit_free_list(&list);
    if (back && moved) {
        back = (old.size > 0 ? coffer__os_rename(commit->old.text, commit->index.text)
                             : coffer__os_unlink(commit->old.text)) == 0;
    }
    back = back && (!shadow || coffer__os_rename(commit->shadow.text, commit->path.text) == 0);
    return back && commit_sync(commit) == 0;
}

/* Finishes a save that was decided on. If a file of it is lost, or cannot get its name, it cannot be finished: then
   the old model stays, or comes back, and the save is undone. Where that is not possible either, the reason is the
   answer. After any other failure, as of memory, the next try may succeed. */
static coffer_status commit_settle_or_go_back(const coffer__commit *commit, coffer_error *err)
{
    const coffer_status status = commit_foresee_all(commit, commit->ready.text, err);
    if (status == COFFER_OK) {
        return commit_settle(commit, err);
    }
    const bool never = status == COFFER_ERR_NOT_FOUND || status == COFFER_ERR_SHARD_NAME ||
                       status == COFFER_ERR_DIRECTORY || status == COFFER_ERR_NOT_REGULAR;
    if (!never || !commit_give_back(commit)) {
        return status;
    }
    commit_undo(commit, commit->ready.text);
    return COFFER_OK;
}

/*
 * Finishes, undoes or tidies up what a crash left. It is not an error if there is nothing to do. A
 * save that was decided on goes first, because its files and those of a save that was still being
 * written may have the same temporary names, and after settling none of them carries such a name
 * any more. A repair is always durable: it cannot know what the interrupted save had promised.
 *
 * Called with the folder locked and the names checked, so no save is in progress: whatever is found
 * was interrupted.
 */
static coffer_status commit_repair(coffer__commit *commit, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    commit->durable = true;
    if (coffer__os_exists(commit->ready.text)) {
        /* Both indices can only exist if somebody else saved a model since. That model counts. */
        if (coffer__os_exists(commit->index.text) && coffer__os_exists(commit->old.text)) {
            commit_undo(commit, commit->ready.text);
        } else {
            status = commit_settle_or_go_back(commit, err);
        }
    }
    if (status == COFFER_OK && coffer__os_exists(commit->fresh.text)) {
        commit_undo(commit, commit->fresh.text);
    }
    /* A .coffer-old with no model beside it is not touched: it may be the only trace of one. */
    const bool published = coffer__os_exists(commit->index.text) || coffer__os_exists(commit->path.text);
    if (status == COFFER_OK && published && coffer__os_exists(commit->old.text)) {
        commit_tidy(commit);
    }
    return status;
}

/* Locks the folder, without waiting: a save may take hours. The lock belongs to the descriptor
   and ends with it, also when the process dies. On a file system without locks for folders the
   save continues without one; there, users must not save the same model twice at once. What is
   known of the folder is read from the descriptor, so it is about the folder that is locked. */
static coffer_status commit_lock(coffer__commit *commit, coffer_error *err)
{
    coffer__path folder;
    const char *path = commit->path.text;
    int os_error = coffer__path_directory(&folder, path) ? 0 : ENAMETOOLONG;
    if (os_error == 0) {
        os_error = coffer__os_open_directory(folder.text, &commit->directory);
    }
    os_error = os_error == 0 ? coffer__os_inspect_fd(commit->directory, &commit->folder) : os_error;
    if (os_error != 0) {
        return coffer__errno_status(err, "open the folder of the model", path, os_error);
    }
    if (coffer__os_lock(commit->directory) == EWOULDBLOCK) {
        coffer__fail(err, COFFER_ERR_LOCKED,
                     "another program is saving a model in this folder: try again when it has finished");
        return coffer__fail_path(err, COFFER_ERR_LOCKED, path);
    }
    return COFFER_OK;
}

/* Takes the lock, checks that the names are trustworthy, and repairs, in that order: nothing may be examined that
   another process is about to change, and nothing may be acted on that a stranger has planted. */
static coffer_status commit_enter(coffer__commit *commit, const char *path, coffer_error *err)
{
    if (!commit_make_names(commit, path)) {
        return coffer__errno_status(err, "save a model under that name", path, ENAMETOOLONG);
    }
    /* The folder stays locked after a failure, too; coffer__commit_close unlocks it. */
    coffer_status status = commit_lock(commit, err);
    if (status == COFFER_OK) {
        status = commit_check_all_own(commit, err);
    }
    if (status == COFFER_OK) {
        status = commit_repair(commit, err);
    }
    return status;
}

/* The lock is held for the repair only. */
coffer_status coffer__commit_recover(const char *path, const coffer_allocator *allocator, coffer_error *err)
{
    coffer__commit commit = { .allocator = *allocator, .directory = -1 };
    const coffer_status status = commit_enter(&commit, path, err);
    coffer__commit_close(&commit);
    return status;
}

/* ---- a new one --------------------------------------------------------------------------------------------------- */

coffer_status coffer__commit_check(const char *path, coffer_error *err)
{
    coffer__os_info info;
    /* A symbolic link is fine, as it is replaced itself. Anything that is neither a file nor a link stays. */
    const bool fine =
        coffer__os_inspect(path, false, &info) != 0 || info.kind == COFFER__OS_REGULAR || info.kind == COFFER__OS_LINK;
    return fine ? COFFER_OK : coffer__target_kind_status(err, info.kind == COFFER__OS_DIRECTORY, path);
}

/* On failure the caller still calls coffer__commit_close, which releases the lock. `durable` is decided last:
   repair sets it, and only now is it known whether something is replaced. */
coffer_status coffer__commit_open(coffer__commit *commit, const coffer_allocator *allocator, const char *path,
                                  bool sharded, bool force, coffer_sync sync, coffer_error *err)
{
    *commit = (coffer__commit){ .allocator = *allocator, .directory = -1, .sharded = sharded, .force = force };
    coffer_status status = commit_enter(commit, path, err);
    if (status == COFFER_OK) {
        status = coffer__commit_check(path, err);
    }
    if (status == COFFER_OK) {
        status = coffer__commit_check(commit->index.text, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    const bool one_file = coffer__os_exists(path);
    if (one_file && sharded && !force) {
        return commit_shadowed(path, err);
    }
    /* With COFFER_SYNC_REPLACE only a save that replaces something needs to be durable: there is
       nothing else to lose. */
    const bool replaces = one_file || coffer__os_exists(commit->index.text);
    commit->durable = sync == COFFER_SYNC_ALWAYS || (sync == COFFER_SYNC_REPLACE && replaces);
    return COFFER_OK;
}

/* Writes a small file whole. Unless `in_place`, it appears under its name complete or not at
   all. It is as durable as the save, before the next step begins. On failure a file that is not
   written in place is discarded. */
static coffer_status commit_write(const coffer__commit *commit, const char *path, const void *bytes, size_t size,
                                  bool in_place, coffer_error *err)
{
    coffer__byte_sink sink;
    const coffer_sync sync = commit->durable ? COFFER_SYNC_ALWAYS : COFFER_SYNC_NEVER;
    const coffer_status status = coffer__sink_path(&sink, &commit->allocator, path, sync, in_place, err);
    return status == COFFER_OK ? coffer__sink_write_whole(&sink, bytes, size, err) : status;
}

/* `begun` is set before writing, so that coffer__commit_close tidies up after a failure,
   too: it ignores what does not exist. */
coffer_status coffer__commit_begin(coffer__commit *commit, const void *index, size_t size, coffer_error *err)
{
    /* A second call overwrites the file in place. Only the digests in it differ, so at any moment of the
       overwriting it names the same files, and an undo finds them all. */
    const bool again = commit->begun;
    commit->begun = true;
    return commit_write(commit, commit->fresh.text, index, size, again, err);
}

/* Whether a companion can get its name. *target and *temporary are its paths. */
static coffer_status commit_judge_companion(const coffer__commit *commit, const coffer_companion *file,
                                            coffer__path *target, coffer__path *temporary, coffer_error *err)
{
    const char *path = commit->path.text;
    if (!coffer__path_sibling(target, path, file->name) || !coffer__commit_name(temporary, target->text) ||
        coffer__model_dir_check_name(file->name, coffer__text_len(file->name), 0, NULL) != COFFER_OK ||
        coffer__shards_path_fits(target->text)) {
        return commit_refuse(file->name, "it is no name of a file next to a model", err);
    }
    const coffer_status status = coffer__commit_judge(path, target->text, err);
    return status == COFFER_OK ? coffer__commit_check(target->text, err) : status;
}

/* The list of the files, a line for each. */
static coffer_status commit_list_companions(const coffer__commit *commit, const coffer_companion *files, size_t count,
                                            coffer__writing *list, coffer_error *err)
{
    coffer__path target;
    coffer__path temporary;
    for (size_t i = 0; i < count; i++) {
        const coffer_status status =
            files[i].bytes == NULL ? COFFER_OK : commit_judge_companion(commit, &files[i], &target, &temporary, err);
        if (status != COFFER_OK) {
            return status;
        }
        if (files[i].bytes != NULL) {
            coffer__write_text(list, files[i].name);
            coffer__write(list, "\n", 1);
        }
    }
    if (list->failed || list->used > COMMIT_COMPANIONS_MAX) {
        return coffer__fail(err, list->failed ? COFFER_ERR_MEMORY : COFFER_ERR_ARGUMENT,
                            "there is no space for the names of the companions");
    }
    return COFFER_OK;
}

coffer_status coffer__commit_add_companions(coffer__commit *commit, const coffer_companion *files, size_t count,
                                            coffer_error *err)
{
    coffer__path target;
    coffer__path temporary;
    coffer__writing list = { .allocator = &commit->allocator };
    coffer_status status = commit_list_companions(commit, files, count, &list, err);
    if (status == COFFER_OK && list.used > 0) {
        status = commit_write(commit, commit->companions.text, list.text, list.used, false, err);
    }
    coffer__writing_free(&list);
    for (size_t i = 0; i < count && status == COFFER_OK; i++) {
        if (files[i].bytes != NULL) {
            status = commit_judge_companion(commit, &files[i], &target, &temporary, err);
            status = status == COFFER_OK
                         ? commit_write(commit, temporary.text, files[i].bytes, files[i].size, false, err)
                         : status;
        }
    }
    return status;
}

/* Looks again for a model of one file at `path`: it may have been put there after
   coffer__commit_open, by a program that takes no lock. If it may be removed, .coffer-force
   says which one, so that recovery can do the same after a crash. It is written before the
   decision: afterwards it would be too late to ask. */
static coffer_status commit_decide_on_shadow(const coffer__commit *commit, coffer_error *err)
{
    uint8_t bytes[COMMIT_FORCED_SIZE];
    coffer__os_info file;
    const char *path = commit->path.text;
    const int os_error = commit->sharded ? coffer__os_inspect(path, false, &file) : ENOENT;
    if (os_error == ENOENT) {
        return COFFER_OK;
    }
    if (os_error != 0) {
        return coffer__errno_status(err, "examine the old model", path, os_error);
    }
    if (!commit->force) {
        return commit_shadowed(path, err);
    }
    commit_write_forced(bytes, &file);
    return commit_write(commit, commit->forced.text, bytes, sizeof bytes, false, err);
}

/* Makes the decision (step 2), after which the save can only go forward. A .coffer-old beside an
   index is left from an earlier save that could not be tidied up. It is removed first, and
   durably, because together with .coffer-ready it would mean that somebody else saved since. A
   failure leaves the old model, and everything new can still be removed. */
static coffer_status commit_decide(coffer__commit *commit, coffer_error *err)
{
    const coffer_status status = commit_decide_on_shadow(commit, err);
    if (status != COFFER_OK) {
        return status;
    }
    /* See commit_repair for what the two together would mean after a crash. */
    const bool stale = coffer__os_exists(commit->index.text) && coffer__os_exists(commit->old.text);
    int os_error = stale ? coffer__os_unlink(commit->old.text) : 0;
    os_error = os_error == 0 ? commit_sync(commit) : os_error;
    os_error = os_error == 0 ? coffer__os_rename(commit->fresh.text, commit->ready.text) : os_error;
    return os_error == 0 ? COFFER_OK
                         : coffer__errno_status(err, "commit to the new model", commit->path.text, os_error);
}

/* Reports a failure after the decision. The new model is complete and will be published by the next save or
   recovery, so the error says that and not that the save failed. */
static coffer_status commit_unfinished(const char *path, const coffer_error *cause, coffer_error *err)
{
    coffer__fail(err, COFFER_ERR_UNFINISHED,
                 "the new model is complete, but its files could not all get their names: %s; finish with: coffer meta "
                 "--recover %p",
                 cause->message, path);
    coffer__fail_path(err, COFFER_ERR_UNFINISHED, path);
    return coffer__fail_errno(err, COFFER_ERR_UNFINISHED, cause->os_error);
}

/* Until commit_decide succeeds, a failure leaves the old model and
   coffer__commit_close removes the new files. Afterwards `begun` is false, so closing
   removes nothing: the new files are the model now, although a crash may still leave it to a
   recovery to give them their names. The decision is durable before the old model moves, or a
   power cut could leave neither. */
coffer_status coffer__commit_finish(coffer__commit *commit, coffer_error *err)
{
    coffer_error cause;
    const char *path = commit->path.text;
    /* What cannot be finished must fail here, while the old model has its names. */
    coffer_status status = commit_foresee_all(commit, commit->fresh.text, err);
    status = status == COFFER_OK ? commit_decide(commit, err) : status;
    if (status != COFFER_OK) {
        return status;
    }
    commit->begun = false;
    /* A failure from here on becomes COFFER_ERR_UNFINISHED, with its cause in the message. */
    const int os_error = commit_sync(commit);
    status = os_error == 0 ? commit_settle(commit, &cause)
                           : coffer__errno_status(&cause, "make the decision durable", path, os_error);
    return status == COFFER_OK ? COFFER_OK : commit_unfinished(path, &cause, err);
}

/* The new files are removed while the folder is still locked: afterwards the names may be those
   of another save. May be called twice, and after coffer__commit_open has failed. */
void coffer__commit_close(coffer__commit *commit)
{
    /* Not decided on: the old model stays, and the new files go. */
    if (commit->begun) {
        commit_undo(commit, commit->fresh.text);
    }
    if (commit->directory >= 0) {
        (void)coffer__os_close(commit->directory);
    }
    commit->begun = false;
    commit->directory = -1;
}
