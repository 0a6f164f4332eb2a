/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of a save, and the repair of an interrupted one; publication.h has the names and their
 * order.
 *
 * Every step is a rename or an unlink that finds out by itself whether it was done before. So
 * finishing an interrupted save runs the same code as saving: publication_settle starts at the
 * decision and skips whatever is done. Where a save is durable, publication_sync stands between two
 * steps whose order on the device matters: a file system may otherwise store renames in another
 * order than they were made.
 *
 * Everything here runs in one thread, under the lock of the folder. Other processes that save take
 * the same lock; programs that only read do not, which is why each step by itself must leave a
 * folder that they read correctly or refuse.
 */
#include "publication.h"

#include "bytes.h"
#include "error.h"
#include "index.h"
#include "os.h"
#include "patch.h"
#include "place.h"
#include "saved.h"
#include "shards.h"
#include "sink.h"
#include "sort.h"
#include "text.h"
#include "trouble.h"

#include <errno.h>
#include <string.h>

#define PUBLICATION_FORCED ".coffer-force"
#define PUBLICATION_HEAD ".coffer-head"
/* Bytes of .coffer-force; publication.h has the layout. */
#define PUBLICATION_FORCED_SIZE 32

static const char publication_magic[8] = { 'C', 'O', 'F', 'F', 'O', 'R', 'C', 'E' };

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* What the names of unfinished work have in them, here and elsewhere: a file of a model so called would be taken for
   it. */
#define PUBLICATION_MARK ".coffer-"

static coffer_status publication_refuse(const char *name, const char *why, coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_SHARD_NAME, "a file of a model cannot be saved as %q: %s", name,
                        coffer__text_len(name), why);
}

coffer_status coffer__publication_judge(const char *path, const char *file, coffer_error *err)
{
    coffer__path made;
    const char *name = file + coffer__path_name_at(file);
    const coffer_status status = coffer__place_check_name(name, coffer__text_len(name), 0, NULL);
    if (status != COFFER_OK) {
        return publication_refuse(name, "it is not a plain file name", err);
    }
    if (strstr(name, PUBLICATION_MARK) != NULL) {
        return publication_refuse(name, "names with .coffer- in them are those of unfinished work", err);
    }
    if (coffer__saved_index_name(&made, path, "") && strcmp(made.text, file) == 0) {
        return publication_refuse(name, "it is the name of the index itself", err);
    }
    /* The longest name that a file of a save has meanwhile: a temporary one of an edit (patch.h). */
    if (!coffer__path_beside(&made, file, "", COFFER__UNDO_SUFFIX COFFER__SAVED_NEW)) {
        return publication_refuse(name, "the names that it has until it is complete would be too long", err);
    }
    return COFFER_OK;
}

bool coffer__publication_name(coffer__path *out, const char *file)
{
    return coffer__path_beside(out, file, "", COFFER__SAVED_NEW);
}

bool coffer__publication_head_name(coffer__path *out, const char *file)
{
    return coffer__path_beside(out, file, "", PUBLICATION_HEAD);
}

/* Makes all names at once, before anything is touched: a path that is too long must fail here
   and not after the decision. False if one of them is too long. */
static bool publication_make_names(coffer__publication *publication, const char *path)
{
    return coffer__path_copy(&publication->path, path) && coffer__saved_index_name(&publication->index, path, "") &&
           coffer__saved_index_name(&publication->fresh, path, COFFER__SAVED_NEW) &&
           coffer__saved_index_name(&publication->ready, path, COFFER__SAVED_READY) &&
           coffer__saved_index_name(&publication->forced, path, PUBLICATION_FORCED) &&
           coffer__saved_index_name(&publication->old, path, COFFER__SAVED_OLD) &&
           coffer__path_beside(&publication->shadow, path, "", COFFER__SAVED_OLD);
}

/* ---- whose names they are ---------------------------------------------------------------------------------------- */

/* Fails unless there is nothing under the name, or a file that an interrupted save may have left. Without this check,
   anybody who can create files in a sticky folder could plant a .coffer-ready there and have the next save rename
   and remove files on their behalf. `moved` is true for a file that was renamed and not created, which keeps the
   owner it had (coffer__saved_is_own). */
static coffer_status publication_check_own(const coffer__publication *publication, const char *path, bool moved,
                                           coffer_error *err)
{
    coffer__os_info file;
    const int os_error = coffer__os_inspect(path, false, &file);
    if (os_error == ENOENT || (os_error == 0 && coffer__saved_is_own(&file, &publication->folder, moved))) {
        return COFFER_OK;
    }
    if (os_error != 0) {
        return coffer__trouble(err, "examine what an interrupted save left", path, os_error);
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
static coffer_status publication_check_all_own(const coffer__publication *publication, coffer_error *err)
{
    coffer_status status = publication_check_own(publication, publication->fresh.text, false, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = publication_check_own(publication, publication->ready.text, false, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = publication_check_own(publication, publication->forced.text, false, err);
    return status == COFFER_OK ? publication_check_own(publication, publication->old.text, true, err) : status;
}

/* ---- an index that is there -------------------------------------------------------------------------------------- */

/* The files that an index names, in byte order. The names point into `text`, so both are
   released together; `read` tells that they exist. A list of zeros names nothing. */
typedef struct publication_list {
    const coffer_allocator *allocator;
    coffer__whole text;
    coffer__index index;
    bool read;
} publication_list;

/* Can be called twice, and for a list that was never read. */
static void publication_free_list(publication_list *list)
{
    if (list->read) {
        coffer__index_free(&list->index);
        coffer__place_forget(&list->text, list->allocator);
    }
    list->read = false;
}

/* Reads the files that an index names. An empty file names none: the list of a model without
   tensors, and the note that there was no old index, are stored like that. On failure the list
   is empty and needs no release. COFFER_ERR_NOT_FOUND, COFFER_ERR_MEMORY and COFFER_ERR_IO tell
   the caller what the failure means for a repair. */
static coffer_status publication_read_list(publication_list *list, const char *path, const coffer_allocator *allocator,
                                           coffer_error *err)
{
    *list = (publication_list){ .allocator = allocator };
    coffer_status status = coffer__place_read(path, NULL, COFFER__INDEX_MOST_BYTES, allocator, &list->text, err);
    if (status != COFFER_OK) {
        return status;
    }
    list->read = true;
    if (list->text.size > 0) {
        status = coffer__index_read(&list->index, list->text.bytes, list->text.size, coffer__place_check_name,
                                    allocator, err);
    }
    if (status != COFFER_OK) {
        publication_free_list(list);
        return coffer__fail_path(err, status, path);
    }
    return COFFER_OK;
}

/* Binary search: coffer__index_read sorts the files by name, in byte order. */
static bool publication_lists(const publication_list *list, const char *name, size_t name_len)
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
   coffer__publication_judge refuses gives false and is never touched. */
static bool publication_file(coffer__path *out, const char *path, const coffer__name *file)
{
    char name[COFFER__PATH_MAX_NAME + 1];
    if (file->len >= sizeof name || coffer__place_check_name(file->text, file->len, 0, NULL) != COFFER_OK) {
        return false;
    }
    memcpy(name, file->text, file->len);
    name[file->len] = '\0';
    return coffer__path_sibling(out, path, name) && coffer__publication_judge(path, out->text, NULL) == COFFER_OK;
}

/* Whether a list names `path`, what the model would be called as one file. */
static bool publication_lists_path(const publication_list *list, const char *path)
{
    const char *name = path + coffer__path_name_at(path);
    return publication_lists(list, name, coffer__text_len(name));
}

/* Whether the new model has an index to publish. A model of one file passes through a list too,
   which names that file alone, or nothing if it has no tensors; such a list is removed in the
   end and does not become an index. It is read from the list, as a recovery has no caller who
   could say. */
static bool publication_is_sharded(const publication_list *list, const char *path)
{
    return list->index.shard_count > 1 || (list->index.shard_count == 1 && !publication_lists_path(list, path));
}

/* ---- one step at a time ------------------------------------------------------------------------------------------ */

/* Makes the renames so far durable. Does nothing for a save that is not durable: that one
   survives a crash of the process at any point, but after a power cut the steps may be on the
   device in any order. */
static int publication_sync(const coffer__publication *publication)
{
    return publication->durable && publication->directory >= 0 ? coffer__os_sync_names(publication->directory) : 0;
}

/* The message for an old model of one file that may not be removed. That model is
   unchanged then. */
static coffer_status publication_shadowed(const char *path, coffer_error *err)
{
    coffer__fail(err, COFFER_ERR_SHADOWED,
                 "a single-file model exists already, and would be loaded instead of the new index: remove it, choose "
                 "another place, or allow its removal");
    return coffer__fail_path(err, COFFER_ERR_SHADOWED, path);
}

/* Gives a new file the owner and mode of what it replaces: the file of the same name or, if there is none, the old
   model of one file, or the old index. The first of these that exists decides. Called before the rename, so that
   the file is never visible under its final name with wider rights than before. */
static int publication_take_rights(const coffer__publication *publication, const char *file, const char *name)
{
    /* In this order: the file of the same name, the old model of one file, the old index. */
    const char *const olds[] = { name, publication->shadow.text, publication->old.text };
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
static coffer_status publication_rename(const coffer__publication *publication, const char *temporary,
                                        const char *target, coffer_error *err)
{
    const coffer_status status = publication_check_own(publication, temporary, false, err);
    if (status != COFFER_OK) {
        return status;
    }
    int os_error = publication_take_rights(publication, temporary, target);
    if (os_error == 0) {
        coffer__undo_forget(target);
        os_error = coffer__os_rename(temporary, target);
    }
    return os_error == 0 ? COFFER_OK : coffer__trouble(err, "give a file its name", target, os_error);
}

/* Writes the new header of one file into it, or finishes that. Editors keep out by the lock of the file; one that came
   before has changed the file, which the patch notices. */
static coffer_status publication_patch(const coffer__publication *publication, const char *head, const char *target,
                                       coffer_error *err)
{
    int fd = -1;
    coffer_status status = publication_check_own(publication, head, false, err);
    if (status != COFFER_OK) {
        return status;
    }
    int os_error = coffer__os_open(target, COFFER__OS_EDIT, false, &fd);
    os_error = os_error == 0 ? coffer__os_lock(fd) : os_error;
    status = os_error == 0 ? coffer__patch_finish(fd, target, head, &publication->allocator, err)
                           : coffer__trouble(err, "open and lock the file to write its header", target, os_error);
    if (fd >= 0) {
        (void)coffer__os_close(fd);
    }
    return status;
}

/* Makes one file that of the new model. Where nothing waits for it, an earlier run got this far, or the file stays as it
   was. The names are checked again here, as this may be the recovery of a save whose index somebody has changed. */
static coffer_status publication_place(const coffer__publication *publication, const coffer__name *file,
                                       coffer_error *err)
{
    coffer__path target;
    coffer__path temporary;
    coffer__path head;
    if (!publication_file(&target, publication->path.text, file) ||
        !coffer__publication_name(&temporary, target.text)) {
        return coffer__trouble(err, "give a file its name", publication->path.text, EINVAL);
    }
    if (coffer__os_exists(temporary.text)) {
        return publication_rename(publication, temporary.text, target.text, err);
    }
    if (coffer__publication_head_name(&head, target.text) &&
        (coffer__os_exists(head.text) || coffer__undo_look(target.text) == COFFER__UNDO_COUNTS)) {
        return publication_patch(publication, head.text, target.text, err);
    }
    return coffer__os_exists(target.text) ? COFFER_OK
                                          : coffer__trouble(err, "give a file its name", target.text, ENOENT);
}

/* Makes all files those of the new model. An empty list is that of a model without tensors, which is
   one file with the name `path`. Stops at the first failure: those before it have their names,
   and the next repair skips them. A loader finds no model during that, unless the new model is
   one file. */
static coffer_status publication_place_all(const coffer__publication *publication, const publication_list *list,
                                           coffer_error *err)
{
    const char *path = publication->path.text;
    if (list->index.shard_count == 0) {
        const char *name = path + coffer__path_name_at(path);
        const coffer__name only = { name, coffer__text_len(name) };
        return publication_place(publication, &only, err);
    }
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < list->index.shard_count && status == COFFER_OK; i++) {
        status = publication_place(publication, &list->index.shards[i].file, err);
    }
    return status;
}

/* Whether publication_place can succeed, as far as that can be known before anything is moved. A header that begins
   to be written, or a file that stays as it was, needs the file itself. */
static coffer_status publication_foresee(const coffer__publication *publication, const coffer__name *file,
                                         coffer_error *err)
{
    coffer__path target;
    coffer__path temporary;
    if (!publication_file(&target, publication->path.text, file) ||
        !coffer__publication_name(&temporary, target.text)) {
        return coffer__fail(err, COFFER_ERR_SHARD_NAME, "no file of a model can be saved as %q", file->text, file->len);
    }
    coffer_status status = publication_check_own(publication, temporary.text, false, err);
    if (status == COFFER_OK) {
        status = coffer__publication_check(target.text, err);
    }
    const bool is_there = coffer__os_exists(temporary.text) || coffer__os_exists(target.text);
    return status != COFFER_OK || is_there ? status : coffer__trouble(err, "give a file its name", target.text, ENOENT);
}

/* The same for all files of the list at `list_path`. The first failure of a file is the answer. */
static coffer_status publication_foresee_all(const coffer__publication *publication, const char *list_path,
                                             coffer_error *err)
{
    publication_list list;
    const char *path = publication->path.text;
    const coffer__name only = { path + coffer__path_name_at(path),
                                coffer__text_len(path) - coffer__path_name_at(path) };
    coffer_status status = publication_read_list(&list, list_path, &publication->allocator, err);
    if (status == COFFER_OK && list.index.shard_count == 0) {
        status = publication_foresee(publication, &only, err);
    }
    for (size_t i = 0; status == COFFER_OK && i < list.index.shard_count; i++) {
        status = publication_foresee(publication, &list.index.shards[i].file, err);
    }
    publication_free_list(&list);
    return status;
}

/* An index that names nothing. It records that there was no index before, so that recovery can
   tell this from an index that has yet to move. Created only where nothing is, so it never
   truncates a file. */
static int publication_make_empty(const char *path)
{
    int fd = -1;
    const int os_error = coffer__os_create(path, false, &fd);
    return os_error == 0 ? coffer__os_close(fd) : os_error;
}

/* Renames the old index to .coffer-old. If there is no index, either an earlier run has moved it, or there was none
   and an empty file takes note of that. */
static int publication_set_index_aside(const coffer__publication *publication)
{
    const int os_error = coffer__os_rename(publication->index.text, publication->old.text);
    /* ENOENT: there is no index, or an earlier run has moved it. */
    if (os_error != ENOENT) {
        return os_error;
    }
    return coffer__os_exists(publication->old.text) ? 0 : publication_make_empty(publication->old.text);
}

/* Fills the contents of .coffer-force from a file. Inode, size and time together identify the model that the user
   agreed to lose, so that recovery removes that one and no other that was put there later. */
static void publication_write_forced(uint8_t bytes[PUBLICATION_FORCED_SIZE], const coffer__os_info *file)
{
    memcpy(bytes, publication_magic, sizeof publication_magic);
    coffer__store_u64le(bytes + 8, file->inode);
    coffer__store_u64le(bytes + 16, file->size);
    coffer__store_u64le(bytes + 24, (uint64_t)file->modified);
}

/* Fails with COFFER_ERR_SHADOWED unless the model of one file at `path` is the one that .coffer-force names.
   Without .coffer-force no model of one file may be removed. */
static coffer_status publication_check_forced(const coffer__publication *publication, coffer_error *err)
{
    uint8_t wanted[PUBLICATION_FORCED_SIZE];
    coffer__whole said;
    coffer__os_info file;
    const char *path = publication->path.text;
    const int os_error = coffer__os_inspect(path, false, &file);
    if (os_error != 0) {
        return coffer__trouble(err, "examine the old model", path, os_error);
    }
    publication_write_forced(wanted, &file);
    coffer_status status =
        coffer__place_read(publication->forced.text, NULL, sizeof wanted, &publication->allocator, &said, err);
    if (status != COFFER_OK && status != COFFER_ERR_NOT_FOUND) {
        return coffer__fail_path(err, status, publication->forced.text);
    }
    /* Byte for byte: inode, size and time must all be those of the model that was given up. */
    const bool same = status == COFFER_OK && said.size == sizeof wanted && memcmp(said.bytes, wanted, said.size) == 0;
    if (status == COFFER_OK) {
        coffer__place_forget(&said, &publication->allocator);
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
static coffer_status publication_set_aside(const coffer__publication *publication, const publication_list *list,
                                           coffer_error *err)
{
    const char *path = publication->path.text;
    const bool shadows = list->index.shard_count > 0 && !publication_lists_path(list, path);
    int os_error = 0;
    /* The single file moves first: loaders prefer it to an index. */
    if (shadows && coffer__os_exists(path)) {
        const coffer_status status = publication_check_forced(publication, err);
        if (status != COFFER_OK) {
            return status;
        }
        os_error = coffer__os_rename(path, publication->shadow.text);
    }
    os_error = os_error == 0 ? publication_set_index_aside(publication) : os_error;
    os_error = os_error == 0 ? publication_sync(publication) : os_error;
    return os_error == 0 ? COFFER_OK : coffer__trouble(err, "move the old model aside", path, os_error);
}

/* Returns true when no file of that name is left, including when there was none: an earlier run
   may have removed it. */
static bool publication_unlink(const char *path)
{
    const int os_error = coffer__os_unlink(path);
    return os_error == 0 || os_error == ENOENT;
}

/* Removes every file that `old` names and `now` does not. Returns false if one could not be removed. `path` itself
   is never removed here: it is either the new model or, under its name aside, publication_tidy's to remove. A name
   without the ending of a file of tensors may be anything, since a stranger may have written the old index; it stays. */
static bool publication_remove(const coffer__publication *publication, const publication_list *old,
                               const publication_list *now)
{
    coffer__path file;
    bool all = true;
    for (size_t i = 0; i < old->index.shard_count; i++) {
        const coffer__name *name = &old->index.shards[i].file;
        if (!publication_lists(now, name->text, name->len) && publication_file(&file, publication->path.text, name) &&
            coffer__shards_path_fits(file.text) && strcmp(file.text, publication->path.text) != 0) {
            all = publication_unlink(file.text) && all;
        }
    }
    return all;
}

/* Reads what the new index names. A new model of one file has no index; then its file must
   exist, or nothing may be removed: without either, the files that the old index names may be
   all that is left of any model. */
static coffer_status publication_read_new(const coffer__publication *publication, publication_list *now)
{
    const coffer_status status = publication_read_list(now, publication->index.text, &publication->allocator, NULL);
    const bool one_file = status == COFFER_ERR_NOT_FOUND && coffer__os_exists(publication->path.text);
    return one_file ? COFFER_OK : status;
}

/* Removes what the old index named and the new one does not, and then the records of the save. .coffer-old goes
   last, as it is the list of what is left to remove: what cannot be removed or read now is left for the next save
   or recovery. An old index that is not valid names nothing, so it does not block. Failures are not reported,
   because the new model is complete and published. */
static void publication_tidy(const coffer__publication *publication)
{
    publication_list old;
    publication_list now = { .allocator = &publication->allocator };
    const coffer_status status = publication_read_list(&old, publication->old.text, &publication->allocator, NULL);
    /* After a failure of memory or I/O the next try may succeed, so everything stays for it. */
    bool all = status != COFFER_ERR_MEMORY && status != COFFER_ERR_IO;
    if (status == COFFER_OK && old.index.shard_count > 0) {
        all = publication_read_new(publication, &now) == COFFER_OK && publication_remove(publication, &old, &now);
    }
    publication_free_list(&old);
    publication_free_list(&now);
    /* .coffer-old goes last. While it exists, the next save tidies up again. */
    if (all && publication_unlink(publication->forced.text) && publication_unlink(publication->shadow.text)) {
        (void)coffer__os_unlink(publication->old.text);
    }
}

/* Everything from the decision to the end: steps 3 to 6. It is also the recovery: each step
   finds out whether it was done, so running it again after a crash at any point gives the same
   result. On failure .coffer-ready is still there, unless the last publication_sync failed, and
   so the next open or recovery continues here. What publication_tidy cannot do is no failure. */
static coffer_status publication_settle(const coffer__publication *publication, coffer_error *err)
{
    publication_list list;
    coffer_status status = publication_read_list(&list, publication->ready.text, &publication->allocator, err);
    if (status != COFFER_OK) {
        return status;
    }
    /* Step 3. If the new model has an index, no loader finds a model from here until step 5. */
    const bool sharded = publication_is_sharded(&list, publication->path.text);
    status = publication_set_aside(publication, &list, err);
    /* Step 4. Files beside the model change first, so they are the new ones when the model appears. */
    if (status == COFFER_OK && publication->meanwhile != NULL) {
        status = publication->meanwhile(publication->meanwhile_ctx, err);
    }
    if (status == COFFER_OK) {
        status = publication_place_all(publication, &list, err);
    }
    publication_free_list(&list);
    if (status != COFFER_OK) {
        return status;
    }
    /* Step 5. All files have their names. They must be durable under them before the index is,
       or a crash could leave an index that names files of the old model. */
    int os_error = sharded ? publication_take_rights(publication, publication->ready.text, publication->index.text) : 0;
    os_error = os_error == 0 ? publication_sync(publication) : os_error;
    if (os_error == 0) {
        os_error = sharded ? coffer__os_rename(publication->ready.text, publication->index.text)
                           : coffer__os_unlink(publication->ready.text);
    }
    os_error = os_error == 0 ? publication_sync(publication) : os_error;
    if (os_error != 0) {
        return coffer__trouble(err, "give the new index its name", publication->index.text, os_error);
    }
    publication_tidy(publication);
    return COFFER_OK;
}

/* Removes the temporary file of `file`, or its new header. A name that is too long cannot have one, so that counts as
   removed. */
static bool publication_unlink_new(const char *file)
{
    coffer__path name;
    const bool header = !coffer__publication_head_name(&name, file) || publication_unlink(name.text);
    return (!coffer__publication_name(&name, file) || publication_unlink(name.text)) && header;
}

/* Removes the new files, whichever of them exist, and then the list of them. The list goes only
   when every file that it names is gone: it is the only record of their names, so what cannot be
   removed now is found again by the next save. The old model is not touched, as a save that is
   undone was not decided on. Failures are not reported. */
static void publication_undo(const coffer__publication *publication, const char *list_path)
{
    publication_list list;
    coffer__path file;
    const char *path = publication->path.text;
    /* A model of one file, or of no tensors, has its temporary file here even if the list does not name it. */
    bool all = publication_unlink_new(path);
    const coffer_status status = publication_read_list(&list, list_path, &publication->allocator, NULL);
    /* After a failure of memory or I/O the next try may succeed, so the list stays for it. */
    all = all && status != COFFER_ERR_MEMORY && status != COFFER_ERR_IO;
    if (status == COFFER_OK) {
        for (size_t i = 0; i < list.index.shard_count; i++) {
            const bool known = publication_file(&file, path, &list.index.shards[i].file);
            all = (!known || publication_unlink_new(file.text)) && all;
        }
        publication_free_list(&list);
    }
    /* The list goes last: without it nothing would know the names of the files that are left. */
    if (all && publication_unlink(publication->forced.text)) {
        (void)coffer__os_unlink(list_path);
    }
}

/* ---- what a crash left ------------------------------------------------------------------------------------------- */

/* Whether no file of the new model can have got its name: all that are there still have their temporary ones. A file
   without one may have been placed, or may be one that stays as it is; which of them, nothing tells. */
static bool publication_is_unplaced(const coffer__publication *publication, const publication_list *list)
{
    for (size_t i = 0; i < list->index.shard_count; i++) {
        coffer__path target;
        coffer__path temporary;
        const bool named = publication_file(&target, publication->path.text, &list->index.shards[i].file) &&
                           coffer__publication_name(&temporary, target.text);
        if (named && coffer__os_exists(target.text) && !coffer__os_exists(temporary.text)) {
            return false;
        }
    }
    return list->index.shard_count > 0;
}

/* Gives the old model its names again, if step 3 has moved it and nothing of it has been replaced since. False if that
   is not known, or if there was none. */
static bool publication_give_back(const coffer__publication *publication)
{
    publication_list list;
    coffer__os_info old = { .size = 0 };
    const bool moved = coffer__os_inspect(publication->old.text, false, &old) == 0;
    const bool shadow = coffer__os_exists(publication->shadow.text);
    if (!moved && !shadow) {
        return true;
    }
    if (publication_read_list(&list, publication->ready.text, &publication->allocator, NULL) != COFFER_OK) {
        return false;
    }
    bool back = (old.size > 0 || shadow) && publication_is_unplaced(publication, &list);
    publication_free_list(&list);
    if (back && moved) {
        back = (old.size > 0 ? coffer__os_rename(publication->old.text, publication->index.text)
                             : coffer__os_unlink(publication->old.text)) == 0;
    }
    back = back && (!shadow || coffer__os_rename(publication->shadow.text, publication->path.text) == 0);
    return back && publication_sync(publication) == 0;
}

/* Finishes a save that was decided on. If a file of it is lost, or cannot get its name, it cannot be finished: then
   the old model stays, or comes back, and the save is undone. Where that is not possible either, the reason is the
   answer. After any other failure, as of memory, the next try may succeed. */
static coffer_status publication_settle_or_go_back(const coffer__publication *publication, coffer_error *err)
{
    const coffer_status status = publication_foresee_all(publication, publication->ready.text, err);
    if (status == COFFER_OK) {
        return publication_settle(publication, err);
    }
    const bool never = status == COFFER_ERR_NOT_FOUND || status == COFFER_ERR_SHARD_NAME ||
                       status == COFFER_ERR_DIRECTORY || status == COFFER_ERR_NOT_REGULAR;
    if (!never || !publication_give_back(publication)) {
        return status;
    }
    publication_undo(publication, publication->ready.text);
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
static coffer_status publication_repair(coffer__publication *publication, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    publication->durable = true;
    if (coffer__os_exists(publication->ready.text)) {
        /* Both indices can only exist if somebody else saved a model since. That model counts. */
        if (coffer__os_exists(publication->index.text) && coffer__os_exists(publication->old.text)) {
            publication_undo(publication, publication->ready.text);
        } else {
            status = publication_settle_or_go_back(publication, err);
        }
    }
    if (status == COFFER_OK && coffer__os_exists(publication->fresh.text)) {
        publication_undo(publication, publication->fresh.text);
    }
    /* A .coffer-old with no model beside it is not touched: it may be the only trace of one. */
    const bool published = coffer__os_exists(publication->index.text) || coffer__os_exists(publication->path.text);
    if (status == COFFER_OK && published && coffer__os_exists(publication->old.text)) {
        publication_tidy(publication);
    }
    return status;
}

/* Locks the folder, without waiting: a save may take hours. The lock belongs to the descriptor
   and ends with it, also when the process dies. On a file system without locks for folders the
   save continues without one; there, users must not save the same model twice at once. What is
   known of the folder is read from the descriptor, so it is about the folder that is locked. */
static coffer_status publication_lock(coffer__publication *publication, coffer_error *err)
{
    coffer__path folder;
    const char *path = publication->path.text;
    int os_error = coffer__path_directory(&folder, path) ? 0 : ENAMETOOLONG;
    if (os_error == 0) {
        os_error = coffer__os_open_directory(folder.text, &publication->directory);
    }
    os_error = os_error == 0 ? coffer__os_inspect_fd(publication->directory, &publication->folder) : os_error;
    if (os_error != 0) {
        return coffer__trouble(err, "open the folder of the model", path, os_error);
    }
    if (coffer__os_lock(publication->directory) == EWOULDBLOCK) {
        coffer__fail(err, COFFER_ERR_LOCKED,
                     "another program is saving a model in this folder: try again when it has finished");
        return coffer__fail_path(err, COFFER_ERR_LOCKED, path);
    }
    return COFFER_OK;
}

/* Takes the lock, checks that the names are trustworthy, and repairs, in that order: nothing may be examined that
   another process is about to change, and nothing may be acted on that a stranger has planted. */
static coffer_status publication_enter(coffer__publication *publication, const char *path, coffer_error *err)
{
    if (!publication_make_names(publication, path)) {
        return coffer__trouble(err, "save a model under that name", path, ENAMETOOLONG);
    }
    /* The folder stays locked after a failure, too; coffer__publication_close unlocks it. */
    coffer_status status = publication_lock(publication, err);
    if (status == COFFER_OK) {
        status = publication_check_all_own(publication, err);
    }
    if (status == COFFER_OK) {
        status = publication_repair(publication, err);
    }
    return status;
}

/* The lock is held for the repair only. */
coffer_status coffer__publication_recover(const char *path, const coffer_allocator *allocator, coffer_error *err)
{
    coffer__publication publication = { .allocator = *allocator, .directory = -1 };
    const coffer_status status = publication_enter(&publication, path, err);
    coffer__publication_close(&publication);
    return status;
}

/* ---- a new one --------------------------------------------------------------------------------------------------- */

coffer_status coffer__publication_check(const char *path, coffer_error *err)
{
    coffer__os_info info;
    /* A symbolic link is fine, as it is replaced itself. Anything that is neither a file nor a link stays. */
    const bool fine =
        coffer__os_inspect(path, false, &info) != 0 || info.kind == COFFER__OS_REGULAR || info.kind == COFFER__OS_LINK;
    return fine ? COFFER_OK : coffer__trouble_of_target(err, info.kind == COFFER__OS_DIRECTORY, path);
}

/* On failure the caller still calls coffer__publication_close, which releases the lock. `durable` is decided last:
   repair sets it, and only now is it known whether something is replaced. */
coffer_status coffer__publication_open(coffer__publication *publication, const coffer_allocator *allocator,
                                       const char *path, bool sharded, bool force, coffer_sync sync, coffer_error *err)
{
    *publication =
        (coffer__publication){ .allocator = *allocator, .directory = -1, .sharded = sharded, .force = force };
    coffer_status status = publication_enter(publication, path, err);
    if (status == COFFER_OK) {
        status = coffer__publication_check(path, err);
    }
    if (status == COFFER_OK) {
        status = coffer__publication_check(publication->index.text, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    const bool one_file = coffer__os_exists(path);
    if (one_file && sharded && !force) {
        return publication_shadowed(path, err);
    }
    /* With COFFER_SYNC_REPLACE only a save that replaces something needs to be durable: there is
       nothing else to lose. */
    const bool replaces = one_file || coffer__os_exists(publication->index.text);
    publication->durable = sync == COFFER_SYNC_ALWAYS || (sync == COFFER_SYNC_REPLACE && replaces);
    return COFFER_OK;
}

/* Writes a small file whole. Unless `in_place`, it appears under its name complete or not at
   all. It is as durable as the save, before the next step begins. On failure a file that is not
   written in place is discarded. */
static coffer_status publication_write(const coffer__publication *publication, const char *path, const void *bytes,
                                       size_t size, bool in_place, coffer_error *err)
{
    coffer__sink sink;
    const coffer_sync sync = publication->durable ? COFFER_SYNC_ALWAYS : COFFER_SYNC_NEVER;
    coffer_status status = coffer__sink_path(&sink, &publication->allocator, path, sync, in_place, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = sink.ops->reserve(&sink, size, err);
    if (status == COFFER_OK) {
        status = sink.ops->write_at(&sink, 0, bytes, size, err);
    }
    if (status != COFFER_OK) {
        sink.ops->discard(&sink);
        return status;
    }
    return sink.ops->publish(&sink, err);
}

/* `begun` is set before writing, so that coffer__publication_close tidies up after a failure,
   too: it ignores what does not exist. */
coffer_status coffer__publication_begin(coffer__publication *publication, const void *index, size_t size,
                                        coffer_error *err)
{
    /* A second call overwrites the file in place. Only the digests in it differ, so at any moment of the
       overwriting it names the same files, and an undo finds them all. */
    const bool again = publication->begun;
    publication->begun = true;
    return publication_write(publication, publication->fresh.text, index, size, again, err);
}

/* Looks again for a model of one file at `path`: it may have been put there after
   coffer__publication_open, by a program that takes no lock. If it may be removed, .coffer-force
   says which one, so that recovery can do the same after a crash. It is written before the
   decision: afterwards it would be too late to ask. */
static coffer_status publication_decide_on_shadow(const coffer__publication *publication, coffer_error *err)
{
    uint8_t bytes[PUBLICATION_FORCED_SIZE];
    coffer__os_info file;
    const char *path = publication->path.text;
    const int os_error = publication->sharded ? coffer__os_inspect(path, false, &file) : ENOENT;
    if (os_error == ENOENT) {
        return COFFER_OK;
    }
    if (os_error != 0) {
        return coffer__trouble(err, "examine the old model", path, os_error);
    }
    if (!publication->force) {
        return publication_shadowed(path, err);
    }
    publication_write_forced(bytes, &file);
    return publication_write(publication, publication->forced.text, bytes, sizeof bytes, false, err);
}

/* Makes the decision (step 2), after which the save can only go forward. A .coffer-old beside an
   index is left from an earlier save that could not be tidied up. It is removed first, and
   durably, because together with .coffer-ready it would mean that somebody else saved since. A
   failure leaves the old model, and everything new can still be removed. */
static coffer_status publication_decide(coffer__publication *publication, coffer_error *err)
{
    const coffer_status status = publication_decide_on_shadow(publication, err);
    if (status != COFFER_OK) {
        return status;
    }
    /* See publication_repair for what the two together would mean after a crash. */
    const bool stale = coffer__os_exists(publication->index.text) && coffer__os_exists(publication->old.text);
    int os_error = stale ? coffer__os_unlink(publication->old.text) : 0;
    os_error = os_error == 0 ? publication_sync(publication) : os_error;
    os_error = os_error == 0 ? coffer__os_rename(publication->fresh.text, publication->ready.text) : os_error;
    return os_error == 0 ? COFFER_OK
                         : coffer__trouble(err, "commit to the new model", publication->path.text, os_error);
}

/* Reports a failure after the decision. The new model is complete and will be published by the next save or
   recovery, so the error says that and not that the save failed. */
static coffer_status publication_unfinished(const char *path, const coffer_error *cause, coffer_error *err)
{
    coffer__fail(err, COFFER_ERR_UNFINISHED,
                 "the new model is complete, but its files could not all get their names: %s; finish with: coffer meta "
                 "--recover %p",
                 cause->message, path);
    coffer__fail_path(err, COFFER_ERR_UNFINISHED, path);
    return coffer__fail_errno(err, COFFER_ERR_UNFINISHED, cause->os_error);
}

/* Until publication_decide succeeds, a failure leaves the old model and
   coffer__publication_close removes the new files. Afterwards `begun` is false, so closing
   removes nothing: the new files are the model now, although a crash may still leave it to a
   recovery to give them their names. The decision is durable before the old model moves, or a
   power cut could leave neither. */
coffer_status coffer__publication_finish(coffer__publication *publication, coffer_error *err)
{
    coffer_error cause;
    const char *path = publication->path.text;
    /* What cannot be finished must fail here, while the old model has its names. */
    coffer_status status = publication_foresee_all(publication, publication->fresh.text, err);
    status = status == COFFER_OK ? publication_decide(publication, err) : status;
    if (status != COFFER_OK) {
        return status;
    }
    publication->begun = false;
    /* A failure from here on becomes COFFER_ERR_UNFINISHED, with its cause in the message. */
    const int os_error = publication_sync(publication);
    status = os_error == 0 ? publication_settle(publication, &cause)
                           : coffer__trouble(&cause, "make the decision durable", path, os_error);
    return status == COFFER_OK ? COFFER_OK : publication_unfinished(path, &cause, err);
}

/* The new files are removed while the folder is still locked: afterwards the names may be those
   of another save. May be called twice, and after coffer__publication_open has failed. */
void coffer__publication_close(coffer__publication *publication)
{
    /* Not decided on: the old model stays, and the new files go. */
    if (publication->begun) {
        publication_undo(publication, publication->fresh.text);
    }
    if (publication->directory >= 0) {
        (void)coffer__os_close(publication->directory);
    }
    publication->begun = false;
    publication->directory = -1;
}
