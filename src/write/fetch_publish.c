/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives complete files their names. A kill may come between any two of these steps; the next call for the same
 * files continues:
 *
 *   1. digests that the server states are compared
 *   2. NAME.coffer-fetched is written: now the fetch is decided, and nothing of it is downloaded again
 *   3. the records at the end of the parts are removed (part.h)
 *   4. several files are published together (commit.h), so that nobody who asks for the model finds files of
 *      two; the files beside the tensors change while the old model is aside. A model of one file gets its name last
 *   5. NAME.coffer-fetched is removed
 *
 * NAME is what the model would be called as one file. Layout of the state file, numbers u64 in little-endian order:
 *
 *   "coffer-fetch 1\n" and a NUL, 16 | a number for all that was wanted | how many files
 *                                     | for each file: device, inode, size
 *
 * Which file a name leads to tells how far an earlier call came, since a file keeps its inode under every name. A
 * state file counts only if it is a regular file of the user's own that nobody else may write to.
 */
#include "alloc.h"
#include "bytes.h"
#include "commit.h"
#include "errno_status.h"
#include "error.h"
#include "fetch.h"
#include "fnv.h"
#include "shards.h"
#include "sink.h"
#include "text.h"
#include "transfer.h"

#include <errno.h>
#include <string.h>

#define PUBLISH_STATE ".coffer-fetched"
#define PUBLISH_HEAD ((size_t)16 + 8 + 8)
#define PUBLISH_MARK ((size_t)8 + 8 + 8)
#define PUBLISH_OTHERS_MAY_WRITE 0022u
/* Another program may be giving names in this folder: that takes moments, so waiting for it is worth while. */
#define PUBLISH_TURNS 50u
#define PUBLISH_TURN_MS 100u

static const char publish_magic[16] = "coffer-fetch 1\n";

/* ---- the state file ---------------------------------------------------------------------------------------------- */

/* What the model would be called as one file. FOLDER/NAME.safetensors, from the index's name
   without its ending; without an index, the only file with tensors itself. */
static void publish_main(const coffer__download *job, coffer__path *path)
{
    *path = job->index == NULL ? job->files[0].target : job->index_target;
    const size_t len = strlen(path->text);
    const size_t suffix = sizeof COFFER__INDEX_SUFFIX - 1;
    if (job->index != NULL && len > suffix && strcmp(path->text + len - suffix, COFFER__INDEX_SUFFIX) == 0) {
        path->text[len - suffix] = '\0';
    }
}

/* Whether one of the files has a path. */
static bool publish_has(const coffer__download *job, const char *path)
{
    size_t i = 0;
    while (i < job->file_count && strcmp(job->files[i].target.text, path) != 0) {
        i++;
    }
    return i < job->file_count;
}

/* Beside the model, so that it is on the same file system and goes with the folder. False when the
   name is too long. */
static bool publish_state_path(const coffer__download *job, coffer__path *path)
{
    coffer__path main;
    publish_main(job, &main);
    return coffer__path_beside(path, main.text, "", PUBLISH_STATE);
}

/* A number that two different wishes do not share by chance: of the index, and of each file's size,
   plan, origin and target. It guards against resuming another wish by mistake, not against malice:
   publish_state_is_trusted does that. */
static uint64_t publish_number(const coffer__download *job)
{
    uint64_t number = coffer__fnv(COFFER__FNV_START, job->index, job->index_size);
    for (size_t i = 0; i < job->file_count; i++) {
        char origin[COFFER__SOURCE_IDENTITY];
        const coffer__fetch_file *file = &job->files[i];
        uint8_t numbers[16];
        coffer__store_u64le(numbers, file->size);
        coffer__store_u64le(numbers + 8, file->number);
        (void)coffer__source_identity(file->source, origin);
        number = coffer__fnv(number, numbers, sizeof numbers);
        number = coffer__fnv(number, origin, strlen(origin) + 1);
        number = coffer__fnv(number, file->target.text, strlen(file->target.text) + 1);
    }
    return number;
}

/* In bytes. The number of files follows from the wish, so a state of another size is another
   wish's. */
static size_t publish_state_size(const coffer__download *job)
{
    return PUBLISH_HEAD + job->file_count * PUBLISH_MARK;
}

/* Everything in it follows from the job, so reading compares bytes and parses nothing. */
static void publish_state_head(const coffer__download *job, uint8_t head[PUBLISH_HEAD])
{
    memcpy(head, publish_magic, sizeof publish_magic);
    coffer__store_u64le(head + 16, publish_number(job));
    coffer__store_u64le(head + 24, job->file_count);
}

/* Whether a state file counts: nobody but this user can have written it. Otherwise a stranger could
   make any file of the folder pass for a complete download. The descriptor is examined and not the
   path, so the file cannot be exchanged between the look and the reading. A second name could mean
   that another program has linked another file of this user here. */
static bool publish_state_is_trusted(int fd, uint64_t size)
{
    coffer__os_info info;
    return coffer__os_inspect_fd(fd, &info) == 0 && info.kind == COFFER__OS_REGULAR && info.links == 1 &&
           coffer__os_is_mine(&info) && (info.mode & PUBLISH_OTHERS_MAY_WRITE) == 0 && info.size == size;
}

/* Reads the state that an earlier call for the same wish left, into `state`. False if there is
   none, or one that does not count. The absence of a state is no failure: everything is then
   fetched or resumed in the ordinary way. `state` has publish_state_size bytes. */
static bool publish_state_read(const coffer__download *job, uint8_t *state)
{
    coffer__path path;
    uint8_t head[PUBLISH_HEAD];
    int fd = -1;
    size_t got = 0;
    const size_t size = publish_state_size(job);
    if (!publish_state_path(job, &path) || coffer__os_open(path.text, COFFER__OS_READ, false, &fd) != 0) {
        return false;
    }
    const bool read = publish_state_is_trusted(fd, size) && coffer__os_read_at(fd, 0, state, size, &got) == 0;
    (void)coffer__os_close(fd);
    publish_state_head(job, head);
    return read && got == size && memcmp(state, head, sizeof head) == 0;
}

/* Writes the state file, atomically: it exists whole or not at all. This is what decides the whole
   fetch. A kill before it leaves parts that are resumed; after it, the next call downloads nothing
   and continues with the names. The marks are the parts' inodes, which stay the same through every
   rename that follows. */
static coffer_status publish_state_write(const coffer__download *job, coffer_error *err)
{
    coffer__byte_sink sink;
    coffer__path path;
    const size_t size = publish_state_size(job);
    if (!publish_state_path(job, &path)) {
        return coffer__errno_status(err, "record that all files are complete", job->folder, ENAMETOOLONG);
    }
    coffer_status status = coffer__sink_path(&sink, job->allocator, path.text,
                                             job->durable ? COFFER_SYNC_ALWAYS : COFFER_SYNC_NEVER, false, err);
    if (status != COFFER_OK) {
        return status;
    }
    uint8_t head[PUBLISH_HEAD];
    publish_state_head(job, head);
    status = sink.ops->reserve(&sink, size, err);
    if (status == COFFER_OK) {
        status = sink.ops->write_at(&sink, 0, head, sizeof head, err);
    }
    for (size_t i = 0; status == COFFER_OK && i < job->file_count; i++) {
        uint8_t mark[PUBLISH_MARK];
        coffer__store_u64le(mark, job->files[i].part.device);
        coffer__store_u64le(mark + 8, job->files[i].part.inode);
        coffer__store_u64le(mark + 16, job->files[i].size);
        status = sink.ops->write_at(&sink, PUBLISH_HEAD + i * PUBLISH_MARK, mark, sizeof mark, err);
    }
    if (status != COFFER_OK) {
        sink.ops->discard(&sink);
        return status;
    }
    return sink.ops->publish(&sink, err);
}

/* A failure is ignored: all files have their names, and a state that stays is recognised and
   removed by the next call for the same. */
static void publish_state_remove(const coffer__download *job)
{
    coffer__path path;
    if (publish_state_path(job, &path)) {
        (void)coffer__os_unlink(path.text);
    }
}

/* ---- where files lie --------------------------------------------------------------------------------------------- */

/* Whether a name leads to the file that was complete. The size may be larger, by the record of a
   part. A link of that name never counts, wherever it leads. */
static bool publish_lies_at(const coffer__fetch_file *file, const char *path)
{
    coffer__os_info info;
    return coffer__os_inspect(path, false, &info) == 0 && info.kind == COFFER__OS_REGULAR &&
           info.device == file->part.device && info.inode == file->part.inode && info.size >= file->size;
}

/* Before a part is open or a state was read, device and inode are 0, and nothing is placed. */
static bool publish_is_placed(const coffer__fetch_file *file)
{
    return publish_lies_at(file, file->target.text);
}

/* Whether the file lies under one of the names that it may have: its own, that of its part, or that
   of a commit. These are all names that the steps of this file and of commit.h give to
   it, so a file that has none of them is lost. */
static bool publish_find(const coffer__fetch_file *file)
{
    coffer__path name;
    coffer__path fresh;
    if (!coffer__part_name(&name, &file->target) || !coffer__commit_name(&fresh, file->target.text)) {
        return false;
    }
    return publish_is_placed(file) || publish_lies_at(file, name.text) || publish_lies_at(file, fresh.text);
}

/* Whether an earlier call for the same had every file complete, and all of them still exist. On the
   way it sets the parts' device and inode, which the later steps compare with. One missing file
   makes the decision void: then all is fetched as if there were no state, and parts that still have
   their record are resumed. */
static bool publish_is_decided(coffer__download *job, uint8_t *state)
{
    if (!publish_state_read(job, state)) {
        return false;
    }
    bool all = true;
    for (size_t i = 0; i < job->file_count && all; i++) {
        coffer__fetch_file *file = &job->files[i];
        const uint8_t *mark = state + PUBLISH_HEAD + i * PUBLISH_MARK;
        file->part.device = coffer__load_u64le(mark);
        file->part.inode = coffer__load_u64le(mark + 8);
        all = coffer__load_u64le(mark + 16) == file->size && publish_find(file);
    }
    return all;
}

/* EEXIST is in the error, so that callers can tell it from trouble with the disk. */
static coffer_status publish_taken(const coffer__path *target, coffer_error *err)
{
    coffer__fail(err, COFFER_ERR_IO, "a file of that name exists already: -f (`force` in the options) replaces it");
    coffer__fail_path(err, COFFER_ERR_IO, target->text);
    return coffer__fail_errno(err, COFFER_ERR_IO, EEXIST);
}

/* Checks whether every file may get its name. Files that have it already are skipped. A file that
   is replaced makes the whole commit durable. It is asked before the download and again before
   names are given, as hours may lie between. An existing index does not count against files of
   which the first is in place: then it is the one that an earlier call has published. */
static coffer_status publish_check(coffer__download *job, coffer_error *err)
{
    for (size_t i = 0; i < job->file_count; i++) {
        const coffer__fetch_file *file = &job->files[i];
        /* A file of that name that is not the one that was fetched. */
        const bool taken = !publish_is_placed(file) && coffer__os_exists(file->target.text);
        const coffer_status status = coffer__commit_check(file->target.text, err);
        if (status != COFFER_OK) {
            return status;
        }
        if (taken && !job->options->force) {
            return publish_taken(&file->target, err);
        }
        job->durable = job->durable || taken;
    }
    const bool taken = job->index != NULL && coffer__os_exists(job->index_target.text);
    if (taken && !job->options->force && !publish_is_placed(&job->files[0])) {
        return publish_taken(&job->index_target, err);
    }
    job->durable = job->durable || taken;
    return COFFER_OK;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* Renames a part to its file's name, unless that is done. The rename is atomic and can be repeated:
   a file in place is recognised by its inode. It replaces what has that name, which publish_check
   has allowed. */
static coffer_status publish_place(const coffer__fetch_file *file, coffer_error *err)
{
    coffer__path name;
    if (publish_is_placed(file)) {
        return COFFER_OK;
    }
    const int os_error =
        coffer__part_name(&name, &file->target) ? coffer__os_rename(name.text, file->target.text) : ENAMETOOLONG;
    return os_error == 0 ? COFFER_OK : coffer__errno_status(err, "give the file its name", file->target.text, os_error);
}

/* Gives the files beside the tensors their names. Called by the commit or directly, always
   with the parts complete. A kill in the middle leaves some of them placed, and the next call
   places the rest. */
static coffer_status publish_beside(void *ctx, coffer_error *err)
{
    const coffer__download *job = ctx;
    coffer_status status = COFFER_OK;
    for (size_t i = 0; status == COFFER_OK && i < job->file_count; i++) {
        status = job->files[i].shard == NULL ? publish_place(&job->files[i], err) : COFFER_OK;
    }
    return status;
}

/* Locks the folder, and finishes or undoes what was interrupted there. Waits for another program
   that holds the lock, but not forever. The commit must be closed by the caller in any case,
   which ends the lock. After the last turn COFFER_ERR_LOCKED is the answer; what was downloaded is
   kept. */
static coffer_status publish_enter(const coffer__download *job, coffer__commit *commit, coffer_error *err)
{
    coffer__path main;
    publish_main(job, &main);
    const coffer_sync sync = job->durable ? COFFER_SYNC_ALWAYS : COFFER_SYNC_NEVER;
    /* An index may name the file that loaders prefer to it. Then nothing shadows what was fetched. */
    const bool sharded = !publish_has(job, main.text);
    coffer_status status = COFFER_ERR_LOCKED;
    for (unsigned turn = 0; turn < PUBLISH_TURNS && status == COFFER_ERR_LOCKED; turn++) {
        if (turn > 0) {
            coffer__commit_close(commit);
            coffer__os_sleep(PUBLISH_TURN_MS);
        }
        status = coffer__commit_open(commit, job->allocator, main.text, sharded, job->options->force, sync, err);
    }
    return status;
}

/* Renames the parts to the names that the commit expects. From here until the decision, the
   new files have names that an undo removes: publish_withdraw must follow a failure. After a kill
   in between, the next call for the same files renames them back (publish_go_on) before it enters
   the folder. */
static coffer_status publish_offer(const coffer__download *job, coffer_error *err)
{
    coffer__path name;
    coffer__path fresh;
    for (size_t i = 0; i < job->file_count; i++) {
        const coffer__fetch_file *file = &job->files[i];
        if (file->shard == NULL) {
            continue;
        }
        const bool fits = coffer__part_name(&name, &file->target) && coffer__commit_name(&fresh, file->target.text);
        const int os_error = fits ? coffer__os_rename(name.text, fresh.text) : ENAMETOOLONG;
        if (os_error != 0) {
            return coffer__errno_status(err, "give the file its name", file->target.text, os_error);
        }
    }
    return COFFER_OK;
}

/* Renames them back after a failure before the decision, so that the commit, which removes its
   new files, does not remove what was downloaded. Only a file that is known by its inode is
   renamed. Failures are ignored, as it runs after another failure; a file that stays is fetched
   again. */
static void publish_withdraw(const coffer__download *job)
{
    coffer__path name;
    coffer__path fresh;
    for (size_t i = 0; i < job->file_count; i++) {
        const coffer__fetch_file *file = &job->files[i];
        if (coffer__part_name(&name, &file->target) && coffer__commit_name(&fresh, file->target.text) &&
            publish_lies_at(file, fresh.text)) {
            (void)coffer__os_rename(fresh.text, name.text);
        }
    }
}

/* Publishes several files together. After a failure `begun` tells that the new files are in the
   commit's hands and that it has not been decided. The folder is locked. The checks come
   first, because there is no way back after the decision: a directory in the place of a file would
   otherwise stop the commit in its middle. `begun` is false again once it has been decided,
   and then nothing may be withdrawn. */
static coffer_status publish_sharded(coffer__download *job, coffer__commit *commit, coffer_error *err)
{
    coffer_status status = publish_check(job, err);
    if (status == COFFER_OK) {
        status = coffer__commit_begin(commit, job->index, job->index_size, err);
    }
    if (status == COFFER_OK) {
        status = publish_offer(job, err);
    }
    if (status == COFFER_OK) {
        /* The commit calls it while the old model is aside. */
        commit->meanwhile = publish_beside;
        commit->meanwhile_ctx = job;
        status = coffer__commit_finish(commit, err);
    }
    if (status != COFFER_OK && commit->begun) {
        publish_withdraw(job);
    }
    return status;
}

/* Gives all files their names. For a single file the files beside it come first, so a program that sees
   the model finds them. For several files, if the first is in place, an earlier call has published
   them and only what lies beside may be missing. Without an index no lock of the folder is needed,
   as each rename is complete in itself. With one, it is held from publish_enter to the close, so no
   save comes between. */
static coffer_status publish_names(coffer__download *job, coffer_error *err)
{
    coffer__commit commit = { .directory = -1 };
    if (job->index == NULL) {
        coffer_status status = publish_check(job, err);
        if (status != COFFER_OK) {
            return status;
        }
        status = publish_beside(job, err);
        return status == COFFER_OK ? publish_place(&job->files[0], err) : status;
    }
    coffer_status status = publish_enter(job, &commit, err);
    if (status == COFFER_OK) {
        status = publish_is_placed(&job->files[0]) ? publish_beside(job, err) : publish_sharded(job, &commit, err);
    }
    coffer__commit_close(&commit);
    return status;
}

/* ---- digests ----------------------------------------------------------------------------------------------------- */

/* Asks whether to continue; it reports that all bytes have come. Bytes do not advance while digests
   are compared, but the user can cancel. */
static int publish_progress(void *ctx, uint64_t done, uint64_t total)
{
    const coffer__download *job = ctx;
    (void)done;
    (void)total;
    return job->options->progress(job->options->progress_ctx, job->total, job->total);
}

/* Hashes a file that no worker has hashed while it came. Such are files that an earlier call had
   downloaded, and those of hashing workers that could not be started. The part is still locked by
   this process. */
static coffer_status publish_hash(coffer__download *job, coffer__fetch_file *file, coffer_error *err)
{
    coffer__byte_source source;
    const coffer__transfer_options options = {
        .allocator = job->allocator,
        .progress = job->options->progress == NULL ? NULL : publish_progress,
        .progress_ctx = job,
    };
    coffer_status status = coffer__source_fd(&source, file->part.fd, err);
    if (status == COFFER_OK) {
        const coffer__transfer_op row = {
            .source = &source, .size = file->size, .algorithm = COFFER_SHA256, .digest = file->found
        };
        status = coffer__transfer(&row, 1, &options, err);
        source.ops->close(&source);
    }
    return status == COFFER_OK ? status : coffer__fail_path(err, status, file->part.name.text);
}

/* Without the removal the next call would resume the same wrong bytes, and fail for ever. */
static coffer_status publish_wrong(const coffer__fetch_file *file, coffer__part *part, coffer_error *err)
{
    coffer__part_remove(part);
    coffer__fail(err, COFFER_ERR_ANSWER,
                 "the received bytes do not match the SHA-256 that the server states: the file was removed; try again");
    return coffer__fail_path(err, COFFER_ERR_ANSWER, file->path);
}

/* Compares whole files with the SHA-256 that the server states, if it states one that can be
   computed here. Most were hashed while they came; the rest is hashed now. It runs before the
   decision, so no file whose digest is wrong ever gets its name. The digest also finds pieces that
   a power cut lost after they were recorded (part.h). */
static coffer_status publish_verify(coffer__download *job, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < job->file_count && status == COFFER_OK; i++) {
        coffer__fetch_file *file = &job->files[i];
        if (file->hasher != NULL && !file->hashed) {
            status = publish_hash(job, file, err);
        }
        if (status == COFFER_OK && file->hasher != NULL && memcmp(file->stated, file->found, sizeof file->found) != 0) {
            return publish_wrong(file, &file->part, err);
        }
    }
    return status;
}

/* ---- which names they may have ----------------------------------------------------------------------------------- */

static coffer__name publish_target_of(const void *ctx, uint32_t item)
{
    const char *target = ((const coffer__download *)ctx)->files[item].target.text;
    return (coffer__name){ target, strlen(target) };
}

/* Files of different folders can be opened as one model, and may have the same name. */
static coffer_status publish_check_twice(const coffer__download *job, coffer_error *err)
{
    uint32_t twice = COFFER__NO_NAME;
    coffer__names names = { job->allocator, publish_target_of, job, job->file_count, 0, NULL, NULL };
    coffer_status status = coffer__names_build(&names, &twice, err);
    coffer__names_free(&names);
    if (status == COFFER_OK && twice != COFFER__NO_NAME) {
        status = coffer__fail(err, COFFER_ERR_SHARD_NAME,
                              "two of the files would have this name in one folder: fetch them into different ones");
        coffer__fail_path(err, status, job->files[twice].target.text);
    }
    return status;
}

coffer_status coffer__fetch_judge(const coffer__download *job, coffer_error *err)
{
    coffer__path main;
    coffer_status status = publish_check_twice(job, err);
    publish_main(job, &main);
    for (size_t i = 0; job->index != NULL && status == COFFER_OK && i < job->file_count; i++) {
        status = coffer__commit_judge(main.text, job->files[i].target.text, err);
    }
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* An earlier call has decided; its commit may have stopped at any step. If the commit was
   decided too, the files beside the tensors are placed, since recovery does not know of them. If
   not, the files become parts again, because undoing the commit would remove them. It runs
   before the folder is entered, since entering undoes or finishes whatever commit it finds.
   Failures to withdraw show later, as files that are missing. */
static coffer_status publish_go_on(coffer__download *job, coffer_error *err)
{
    coffer__path ready;
    if (job->index == NULL) {
        return COFFER_OK;
    }
    if (coffer__path_beside(&ready, job->index_target.text, "", COFFER__PENDING_SAVE_READY) &&
        coffer__os_exists(ready.text)) {
        return publish_beside(job, err);
    }
    publish_withdraw(job);
    return COFFER_OK;
}

/* Everything left by an earlier call is settled here, before anything is downloaded: first this
   fetch's own state, then, by entering and leaving the folder, whatever save was interrupted there.
   The lock of the folder is held for the repair alone, not during the download; publish_names takes
   it again. */
coffer_status coffer__fetch_look(coffer__download *job, bool *complete, bool *there, coffer_error *err)
{
    coffer__commit commit = { .directory = -1 };
    const size_t size = publish_state_size(job);
    uint8_t *state = coffer__alloc(job->allocator, size);
    if (state == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to fetch the model");
    }
    *complete = publish_is_decided(job, state);
    coffer__free(job->allocator, state, size);
    coffer_status status = *complete ? publish_go_on(job, err) : COFFER_OK;
    if (status == COFFER_OK && job->index != NULL) {
        status = publish_enter(job, &commit, err);
        coffer__commit_close(&commit);
    }
    *there = status == COFFER_OK && !*complete && coffer__fetch_is_there(job);
    return status == COFFER_OK && !*there ? publish_check(job, err) : status;
}

/* Removes the records of all parts, including parts that an earlier call has left. Files that have
   their names are skipped. Truncating twice does no harm. It comes after the decision: a part
   without its record cannot be resumed, but a state file makes that unnecessary. */
static coffer_status publish_finish_parts(coffer__download *job, bool complete, coffer_error *err)
{
    for (size_t i = 0; i < job->file_count; i++) {
        coffer__fetch_file *file = &job->files[i];
        coffer__part *part = &file->part;
        /* An earlier call got this far with this file, and its part is gone. */
        if (complete && publish_is_placed(file)) {
            continue;
        }
        if (complete && !coffer__part_adopt(part, &file->target, file->size, part->device, part->inode)) {
            return coffer__errno_status(err, "resume the file", part->name.text, EBUSY);
        }
        const coffer_status status = coffer__part_finish(part, job->durable, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* Verifies and decides. If something will be replaced, every byte is on the device before the state
   file says that all is complete. The sync of the state file itself is the sink's, as
   publish_state_write asks for it. */
static coffer_status publish_decide(coffer__download *job, coffer_error *err)
{
    coffer_status status = publish_verify(job, err);
    for (size_t i = 0; status == COFFER_OK && job->durable && i < job->file_count; i++) {
        const coffer__part *part = &job->files[i].part;
        const int os_error = coffer__os_sync(part->fd);
        status = os_error == 0 ? COFFER_OK : coffer__errno_status(err, "complete the file", part->name.text, os_error);
    }
    return status == COFFER_OK ? publish_state_write(job, err) : status;
}

/* The steps at the top of this file. The state file goes last; until then each step can be
   repeated. A failure after the decision leaves the state file, so a call for the same files
   continues at the step that failed. */
coffer_status coffer__fetch_publish(coffer__download *job, bool complete, coffer_error *err)
{
    coffer_status status = complete ? COFFER_OK : publish_decide(job, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = publish_finish_parts(job, complete, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = publish_names(job, err);
    if (status == COFFER_OK) {
        publish_state_remove(job);
    }
    return status;
}
