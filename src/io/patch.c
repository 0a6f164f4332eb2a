/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Overwriting the first bytes of a file that has no commit point of its own, with an undo file. Layout of
 * PATH.coffer-undo, integers little-endian:
 *
 *   offset   size
 *   0        8     "COFRUNDO"
 *   8        8     version of this layout, 1
 *   16       8     size of the file
 *   24       8     N, how many of its first bytes are overwritten
 *   32       N     these bytes as they were
 *   32+N     N     these bytes as they are to be
 *   32+2N    8     FNV-1a of 64 bits of everything before
 *
 * The order of the steps, each durable before the next one:
 *
 *   1. the undo file under the name PATH.coffer-undo.new
 *   2. its name without .new
 *   3. the new bytes in the file
 *   4. the undo file removed
 *
 * So a file named PATH.coffer-undo is always whole, and while there is none the file is as it should be. A
 * crash between 2 and 4 leaves the undo file, and recovery restores the old bytes. What a crash leaves of
 * a .new file is removed by the next edit or recovery.
 *
 * An insertion (coffer__patch_insert) uses the same file in the other direction. Its size is that after the
 * insertion. Its old bytes are those that are to be there in the end, and its new bytes are what the
 * insertion alone produces: zeros, and then the first bytes of the file. Restoring the "old" bytes thus
 * completes the insertion.
 *
 * A patch that is prepared (coffer__patch_prepare) is the same file under a name of the caller's, likewise in the other
 * direction: its old bytes are those that are to be there in the end. To apply it, it gets the name of the undo file,
 * and "restoring" completes it.
 *
 * An undo file belongs to a file that has the recorded size and whose first bytes have, each of them, either
 * the old or the new value. That is what an interrupted write leaves. Another file, or one that was written
 * again since, is very unlikely to look like that. Device and inode numbers would tell less: they change
 * with a reboot or a restored backup, and stay when a file is written again.
 *
 * The checksum is against damage, not against malice: who may write the undo file is checked instead
 * (undo_counts). Everything here happens while the caller holds the lock of the file.
 */
#include "patch.h"

#include "alloc.h"
#include "bytes.h"
#include "errno_status.h"
#include "error.h"
#include "fnv.h"
#include "os.h"
#include "paths.h"

#include <errno.h>
#include <string.h>

#define UNDO_HEAD_SIZE 32
#define UNDO_SUM_SIZE 8
#define UNDO_VERSION 1
#define UNDO_NEW_SUFFIX COFFER__UNDO_SUFFIX ".new"
/* Bytes that recovery handles at a time: a header may have 100 MB, which recovery must not need as memory. */
#define UNDO_PIECE ((size_t)1 << 16)

static const uint8_t undo_magic[8] = { 'C', 'O', 'F', 'R', 'U', 'N', 'D', 'O' };

/* Bits of a mode: who besides the owner may write the file. */
#define UNDO_GROUP_WRITES 0020u
#define UNDO_OTHERS_WRITE 0002u

/* Whether an undo file may be believed: nobody may have written it who could not write the file as
   well. The bit of the group allows the same people only if both files have the same group. */
static bool undo_counts(const coffer__os_info *undo, const coffer__os_info *file)
{
    const bool owned = coffer__os_is_one_user(undo->owner) && (undo->owner == file->owner || coffer__os_is_mine(undo));
    const bool same_group = undo->group == file->group;
    const uint32_t allowed = file->mode & (UNDO_OTHERS_WRITE | (same_group ? UNDO_GROUP_WRITES : 0));
    const uint32_t writers = undo->mode & (UNDO_OTHERS_WRITE | UNDO_GROUP_WRITES);
    return undo->kind == COFFER__OS_REGULAR && owned && (writers & ~allowed) == 0;
}

/* Readers call this for every file they open, so the usual answer costs one faccessat. If a name
   disappears between the calls, the answer is STRANGE, the careful one. */
coffer__undo coffer__undo_look(const char *path)
{
    coffer__path name;
    coffer__os_info undo;
    coffer__os_info file;
    if (!coffer__path_beside(&name, path, "", COFFER__UNDO_SUFFIX) || !coffer__os_exists(name.text)) {
        return COFFER__UNDO_NONE;
    }
    if (coffer__os_inspect(name.text, false, &undo) != 0 || coffer__os_inspect(path, false, &file) != 0) {
        return COFFER__UNDO_STRANGE;
    }
    return undo_counts(&undo, &file) ? COFFER__UNDO_COUNTS : COFFER__UNDO_STRANGE;
}

/* Best effort: if it cannot be removed, readers are told of it and recovery refuses it, since the
   file changed. */
void coffer__undo_remove(const char *path)
{
    coffer__path undo;
    if (coffer__path_beside(&undo, path, "", COFFER__UNDO_SUFFIX)) {
        (void)coffer__os_unlink(undo.text);
    }
}

coffer_status coffer__undo_fail(coffer_error *err, const char *path)
{
    coffer__fail(err, COFFER_ERR_UNDO,
                 "an edit of this file was interrupted, or is in progress: its undo file is next to it; restore the "
                 "header with: coffer meta --recover %p",
                 path);
    return coffer__fail_path(err, COFFER_ERR_UNDO, path);
}

/* Makes changes of names beside `path` durable. */
static int undo_sync_names(const char *path)
{
    coffer__path directory;
    return coffer__path_directory(&directory, path) ? coffer__os_sync_directory(directory.text) : ENAMETOOLONG;
}

/* ---- applying ---------------------------------------------------------------------------------------------------- */

/* Writes the layout at the top of this file, in four parts. The sum covers the first three. */
static int undo_write_bytes(int fd, const coffer__patch *patch)
{
    uint8_t head[UNDO_HEAD_SIZE];
    memcpy(head, undo_magic, sizeof undo_magic);
    coffer__store_u64le(head + 8, UNDO_VERSION);
    coffer__store_u64le(head + 16, patch->file_size);
    coffer__store_u64le(head + 24, patch->size);
    uint64_t sum = coffer__fnv(COFFER__FNV_START, head, sizeof head);
    sum = coffer__fnv(sum, patch->old, patch->size);
    sum = coffer__fnv(sum, patch->fresh, patch->size);
    uint8_t tail[UNDO_SUM_SIZE];
    coffer__store_u64le(tail, sum);
    const struct {
        const void *bytes;
        size_t size;
    } parts[] = {
        { head, sizeof head }, { patch->old, patch->size }, { patch->fresh, patch->size }, { tail, sizeof tail }
    };
    uint64_t at = 0;
    int os_error = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && os_error == 0; i++) {
        os_error = coffer__os_write_at(fd, at, parts[i].bytes, parts[i].size);
        at += parts[i].size;
    }
    return os_error;
}

/* Writes the undo file under the name `scratch` and makes its bytes durable; the name is not
   durable yet. It begins with mode 0600 and then gets the file's owner and rights: whoever may read
   the file may read its undo file, which shows nothing more. Write permission is taken away from
   all but the owner, which keeps undo_counts satisfied. */
static int undo_write(const char *scratch, const char *path, int target, const coffer__patch *patch)
{
    int fd = -1;
    (void)coffer__os_unlink(scratch);
    int os_error = coffer__os_create(scratch, true, &fd);
    if (os_error != 0) {
        return os_error;
    }
    os_error = undo_write_bytes(fd, patch);
    coffer__os_info info;
    if (os_error == 0) {
        os_error = coffer__os_inspect_fd(target, &info);
    }
    if (os_error == 0) {
        /* With an access control list, the group's bits are its mask: clearing them also takes the permission to
           write from everybody whom the list names. */
        info.mode &= ~(UNDO_GROUP_WRITES | UNDO_OTHERS_WRITE);
        os_error = coffer__os_take_owner_and_mode(fd, &info, path);
    }
    if (os_error == 0) {
        os_error = coffer__os_sync(fd);
    }
    const int closed = coffer__os_close(fd);
    return os_error != 0 ? os_error : closed;
}

/* Steps 1 and 2: afterwards the undo file is there and survives a crash, or it is not there and
   nothing has happened. If its name cannot be made durable, it is removed again, as the edit will
   not take place. */
static int undo_establish(const char *path, int target, const coffer__patch *patch)
{
    coffer__path scratch;
    coffer__path undo;
    if (!coffer__path_beside(&scratch, path, "", UNDO_NEW_SUFFIX) ||
        !coffer__path_beside(&undo, path, "", COFFER__UNDO_SUFFIX)) {
        return ENAMETOOLONG;
    }
    int os_error = undo_write(scratch.text, path, target, patch);
    if (os_error == 0) {
        os_error = coffer__os_rename(scratch.text, undo.text);
    }
    if (os_error != 0) {
        (void)coffer__os_unlink(scratch.text);
        return os_error;
    }
    os_error = undo_sync_names(path);
    if (os_error != 0) {
        (void)coffer__os_unlink(undo.text);
    }
    return os_error;
}

/* Equal texts give an empty range, with first == end == size. */
void coffer__patch_changes(const coffer__patch *patch, size_t *first, size_t *end)
{
    const uint8_t *old = patch->old;
    const uint8_t *fresh = patch->fresh;
    *first = 0;
    *end = patch->size;
    while (*first < *end && old[*first] == fresh[*first]) {
        (*first)++;
    }
    while (*end > *first && old[*end - 1] == fresh[*end - 1]) {
        (*end)--;
    }
}

/* Writes the range that differs, from either of the patch's two texts, and makes it durable. */
static int patch_write(int fd, const coffer__patch *patch, const void *from)
{
    size_t first = 0;
    size_t end = 0;
    coffer__patch_changes(patch, &first, &end);
    const int os_error = coffer__os_write_at(fd, first, (const uint8_t *)from + first, end - first);
    return os_error != 0 ? os_error : coffer__os_sync(fd);
}

/* Step 4. An undo file that stays although the edit is complete would make readers refuse the file,
   so that is an error; one that is already gone is not. If only the directory cannot be synced, a
   power cut may bring the undo file back, and recovery then undoes a finished edit: that is an
   error, too. */
static coffer_status undo_remove(const char *path, coffer_error *err)
{
    coffer__path undo;
    const int os_error =
        coffer__path_beside(&undo, path, "", COFFER__UNDO_SUFFIX) ? coffer__os_unlink(undo.text) : ENAMETOOLONG;
    if (os_error != 0 && os_error != ENOENT) {
        coffer__fail(err, COFFER_ERR_UNDO, "the file is written, but its undo file cannot be removed: %s; delete it",
                     coffer__os_words(os_error));
        coffer__fail_path(err, COFFER_ERR_UNDO, path);
        return coffer__fail_errno(err, COFFER_ERR_UNDO, os_error);
    }
    const int synced = undo_sync_names(path);
    return synced == 0 ? COFFER_OK : coffer__errno_status(err, "make the finished edit durable", path, synced);
}

/* Writing the new bytes failed, and some may be in the file. Tries to write the old ones at once.
   If that fails, too, the undo file stays, and the user is told to run the recovery later. */
static coffer_status patch_take_back(int fd, const char *path, const coffer__patch *patch, int os_error,
                                     coffer_error *err)
{
    if (patch_write(fd, patch, patch->old) != 0) {
        coffer__fail(err, COFFER_ERR_UNDO,
                     "writing failed (%s), and so did restoring the old header; when the cause is fixed, run: coffer "
                     "meta --recover %p",
                     coffer__os_words(os_error), path);
        coffer__fail_path(err, COFFER_ERR_UNDO, path);
        return coffer__fail_errno(err, COFFER_ERR_UNDO, os_error);
    }
    const coffer_status status = undo_remove(path, err);
    return status != COFFER_OK
               ? status
               : coffer__errno_status(err, "write the header (the old one was restored)", path, os_error);
}

coffer_status coffer__patch_apply(int fd, const char *path, const coffer__patch *patch, coffer_error *err)
{
    int os_error = undo_establish(path, fd, patch);
    if (os_error != 0) {
        return coffer__errno_status(err, "write the undo file next to the file", path, os_error);
    }
    os_error = patch_write(fd, patch, patch->fresh);
    return os_error == 0 ? undo_remove(path, err) : patch_take_back(fd, path, patch, os_error, err);
}

/* ---- putting space in --------------------------------------------------------------------------------------------- */

/* The file system inserted nothing, so the file is as it was, and the undo file must go: it
   describes a file of another size. Errors that mean "cannot do that" have a code of their own, so
   that the caller can rewrite the file instead. */
static coffer_status patch_not_inserted(const char *path, int os_error, coffer_error *err)
{
    const coffer_status status = undo_remove(path, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (os_error != EOPNOTSUPP && os_error != EINVAL && os_error != ENOSYS) {
        return coffer__errno_status(err, "insert room before the data", path, os_error);
    }
    coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                 "the file system cannot insert blocks before the data (ext4 and XFS can): nothing was changed; allow "
                 "a rewrite");
    return coffer__fail_errno(err, COFFER_ERR_UNSUPPORTED, os_error);
}

/* After the insertion there is no way back: not all file systems that insert can remove, and it
   might fail. So a failure to write the header leaves the undo file, which completes the insertion
   later. */
coffer_status coffer__patch_insert(int fd, const char *path, const coffer__patch *patch, uint64_t size,
                                   coffer_error *err)
{
    int os_error = undo_establish(path, fd, patch);
    if (os_error != 0) {
        return coffer__errno_status(err, "write the undo file next to the file", path, os_error);
    }
    os_error = coffer__os_insert(fd, 0, size);
    if (os_error != 0) {
        return patch_not_inserted(path, os_error, err);
    }
    os_error = patch_write(fd, patch, patch->old);
    if (os_error == 0) {
        return undo_remove(path, err);
    }
    coffer__fail(err, COFFER_ERR_UNDO,
                 "room was inserted, but the header could not be written (%s); when the cause is fixed, run: coffer "
                 "meta --recover %p",
                 coffer__os_words(os_error), path);
    coffer__fail_path(err, COFFER_ERR_UNDO, path);
    return coffer__fail_errno(err, COFFER_ERR_UNDO, os_error);
}

/* ---- recovering -------------------------------------------------------------------------------------------------- */

/* An undo file that is being read. The pieces are one allocation of three buffers, for the old
   bytes, the new bytes, and what the file has now. */
typedef struct undo_reader {
    const char *path; /* of the file */
    int target;
    int fd; /* of the undo file */
    uint64_t undo_size;
    uint64_t file_size;
    uint64_t size;   /* of what is restored */
    uint8_t *pieces; /* three of UNDO_PIECE bytes */
} undo_reader;

/* Refusing changes nothing: neither the file nor the undo file. What to do is the user's decision. */
static coffer_status undo_refuse(const undo_reader *undo, const char *why, coffer_error *err)
{
    coffer__fail(err, COFFER_ERR_NO_UNDO,
                 "%s, so nothing was changed; if the file is as you want it, delete the undo file next to it", why);
    return coffer__fail_path(err, COFFER_ERR_NO_UNDO, undo->path);
}

/* Reads exactly `size` bytes, of either file. Sizes were compared before, so a short read means
   that the file was truncated in the meantime. */
static coffer_status undo_read(const undo_reader *undo, int fd, uint64_t offset, void *bytes, size_t size,
                               coffer_error *err)
{
    size_t done = 0;
    const int os_error = coffer__os_read_at(fd, offset, bytes, size, &done);
    if (os_error != 0) {
        return coffer__errno_status(err, "read the file and its undo file", undo->path, os_error);
    }
    return done == size ? COFFER_OK
                        : undo_refuse(undo, "the file or its undo file became shorter in the meantime", err);
}

static size_t undo_piece(uint64_t left)
{
    return left < UNDO_PIECE ? (size_t)left : UNDO_PIECE;
}

/* The undo file is input, and not trusted. Its size is at least that of head and sum (undo_open).
   The length that it states must be exactly half of what remains, which also bounds it; nothing is
   added to it before. */
static coffer_status undo_read_head(undo_reader *undo, uint8_t *head, coffer_error *err)
{
    const coffer_status status = undo_read(undo, undo->fd, 0, head, UNDO_HEAD_SIZE, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (memcmp(head, undo_magic, sizeof undo_magic) != 0) {
        return undo_refuse(undo, "the file next to it is not an undo file", err);
    }
    if (coffer__load_u64le(head + 8) != UNDO_VERSION) {
        return undo_refuse(undo, "the undo file was written by another version of coffer", err);
    }
    undo->file_size = coffer__load_u64le(head + 16);
    undo->size = coffer__load_u64le(head + 24);
    const uint64_t rest = undo->undo_size - UNDO_HEAD_SIZE - UNDO_SUM_SIZE;
    const bool sizes_agree = rest % 2 == 0 && undo->size == rest / 2 && undo->size <= undo->file_size;
    return sizes_agree ? COFFER_OK : undo_refuse(undo, "the undo file is damaged", err);
}

/* Everything is checked before the first byte of the file is changed. */
static coffer_status undo_check_sum(const undo_reader *undo, const uint8_t *head, coffer_error *err)
{
    uint64_t sum = coffer__fnv(COFFER__FNV_START, head, UNDO_HEAD_SIZE);
    const uint64_t end = undo->undo_size - UNDO_SUM_SIZE;
    for (uint64_t at = UNDO_HEAD_SIZE; at < end;) {
        const size_t size = undo_piece(end - at);
        const coffer_status status = undo_read(undo, undo->fd, at, undo->pieces, size, err);
        if (status != COFFER_OK) {
            return status;
        }
        sum = coffer__fnv(sum, undo->pieces, size);
        at += size;
    }
    uint8_t stored[UNDO_SUM_SIZE];
    const coffer_status status = undo_read(undo, undo->fd, end, stored, sizeof stored, err);
    if (status != COFFER_OK) {
        return status;
    }
    return coffer__load_u64le(stored) == sum ? COFFER_OK : undo_refuse(undo, "the undo file is damaged", err);
}

/* Whether `size` bytes of the file, from `at` on, are what an interrupted write leaves: each is old
   or new. */
static coffer_status undo_check_piece(const undo_reader *undo, uint64_t at, size_t size, coffer_error *err)
{
    uint8_t *old = undo->pieces;
    uint8_t *fresh = old + UNDO_PIECE;
    uint8_t *now = fresh + UNDO_PIECE;
    coffer_status status = undo_read(undo, undo->fd, UNDO_HEAD_SIZE + at, old, size, err);
    if (status == COFFER_OK) {
        status = undo_read(undo, undo->fd, UNDO_HEAD_SIZE + undo->size + at, fresh, size, err);
    }
    if (status == COFFER_OK) {
        status = undo_read(undo, undo->target, at, now, size, err);
    }
    for (size_t i = 0; i < size && status == COFFER_OK; i++) {
        if (now[i] != old[i] && now[i] != fresh[i]) {
            status =
                undo_refuse(undo, "the file is not the one whose edit was interrupted, or was written to since", err);
        }
    }
    return status;
}

/* Whether the file is the one that was being edited, as the top of this file defines it. */
static coffer_status undo_check_file(const undo_reader *undo, coffer_error *err)
{
    coffer__os_info info;
    const int os_error = coffer__os_inspect_fd(undo->target, &info);
    if (os_error != 0) {
        return coffer__errno_status(err, "get the file's size", undo->path, os_error);
    }
    if (info.size != undo->file_size) {
        (void)undo_refuse(undo, "the file's size is not that of the file whose edit was interrupted", err);
        return coffer__fail_sizes(err, COFFER_ERR_NO_UNDO, undo->file_size, info.size);
    }
    coffer_status status = COFFER_OK;
    for (uint64_t at = 0; at < undo->size && status == COFFER_OK;) {
        const size_t size = undo_piece(undo->size - at);
        status = undo_check_piece(undo, at, size, err);
        at += size;
    }
    return status;
}

/* Restores the old bytes, and removes the undo file only after they are durable. If this is
   interrupted, each byte is still either old or new, and recovery can be repeated. */
static coffer_status undo_put_back(const undo_reader *undo, coffer_error *err)
{
    int os_error = 0;
    for (uint64_t at = 0; at < undo->size && os_error == 0;) {
        const size_t size = undo_piece(undo->size - at);
        const coffer_status status = undo_read(undo, undo->fd, UNDO_HEAD_SIZE + at, undo->pieces, size, err);
        if (status != COFFER_OK) {
            return status;
        }
        os_error = coffer__os_write_at(undo->target, at, undo->pieces, size);
        at += size;
    }
    if (os_error == 0) {
        os_error = coffer__os_sync(undo->target);
    }
    return os_error == 0
               ? undo_remove(undo->path, err)
               : coffer__errno_status(err, "restore the header (the undo file is kept)", undo->path, os_error);
}

/* Compares a part of the recorded new bytes with what inserting `shift` bytes would make of the
   file as it is now: zeros before `shift`, and after it the file's own bytes. The part lies on one
   side of `shift`. An error counts as "no", and the following checks report it. */
static bool undo_inserts_piece(const undo_reader *undo, uint64_t shift, uint64_t at, size_t size)
{
    uint8_t *fresh = undo->pieces;
    uint8_t *now = fresh + UNDO_PIECE;
    memset(now, 0, size);
    return undo_read(undo, undo->fd, UNDO_HEAD_SIZE + undo->size + at, fresh, size, NULL) == COFFER_OK &&
           (at < shift || undo_read(undo, undo->target, at - shift, now, size, NULL) == COFFER_OK) &&
           memcmp(fresh, now, size) == 0;
}

/* Whether the crash came before the insertion: the file is shorter than recorded, and inserting the
   difference would produce exactly the recorded new bytes. Then there is nothing to restore. The
   pieces are cut at `shift`, so that each is all zeros or all file. An overwriting edit never looks
   like this, since the file's size is the recorded one. */
static bool undo_was_not_begun(const undo_reader *undo)
{
    coffer__os_info info;
    if (coffer__os_inspect_fd(undo->target, &info) != 0 || info.size >= undo->file_size) {
        return false;
    }
    const uint64_t shift = undo->file_size - info.size;
    bool same = shift < undo->size;
    for (uint64_t at = 0; same && at < undo->size;) {
        const uint64_t end = at < shift ? shift : undo->size;
        const size_t size = undo_piece(end - at);
        same = undo_inserts_piece(undo, shift, at, size);
        at += size;
    }
    return same;
}

/* The order of the checks: the undo file itself, then whether an insertion had not begun, then
   whether the file is the right one. Only then is the file written to. */
static coffer_status undo_recover(undo_reader *undo, coffer_error *err)
{
    uint8_t head[UNDO_HEAD_SIZE];
    coffer_status status = undo_read_head(undo, head, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = undo_check_sum(undo, head, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (undo_was_not_begun(undo)) {
        return undo_remove(undo->path, err);
    }
    status = undo_check_file(undo, err);
    return status != COFFER_OK ? status : undo_put_back(undo, err);
}

/* Opens the undo file and decides whether it counts. Its rights are those of the open descriptor,
   not of the name, so it cannot be exchanged between the check and the use. */
static coffer_status undo_open(undo_reader *undo, coffer_error *err)
{
    coffer__path name;
    int os_error = coffer__path_beside(&name, undo->path, "", COFFER__UNDO_SUFFIX) ? 0 : ENOENT;
    if (os_error == 0) {
        os_error = coffer__os_open(name.text, COFFER__OS_READ, false, &undo->fd);
    }
    if (os_error == ENOENT) {
        coffer__fail(err, COFFER_ERR_NO_UNDO, "there is nothing to recover: there is no undo file next to the file");
        return coffer__fail_path(err, COFFER_ERR_NO_UNDO, undo->path);
    }
    if (os_error != 0) {
        return coffer__errno_status(err, "open the undo file", undo->path, os_error);
    }
    coffer__os_info info;
    coffer__os_info file;
    os_error = coffer__os_inspect_fd(undo->fd, &info);
    os_error = os_error == 0 ? coffer__os_inspect_fd(undo->target, &file) : os_error;
    if (os_error != 0) {
        return coffer__errno_status(err, "examine the file and its undo file", undo->path, os_error);
    }
    undo->undo_size = info.size;
    if (info.kind != COFFER__OS_REGULAR || info.size < UNDO_HEAD_SIZE + UNDO_SUM_SIZE) {
        return undo_refuse(undo, "the file next to it is not an undo file", err);
    }
    return undo_counts(&info, &file)
               ? COFFER_OK
               : undo_refuse(undo,
                             "the undo file next to the file belongs neither to you nor to the file's owner, or others "
                             "may write it: anybody could have put it there",
                             err);
}

/* A .new file was never valid, so it is removed in any case. The undo file is closed before the
   memory is freed, also after a failure to open it. */
coffer_status coffer__patch_recover(int fd, const char *path, const coffer_allocator *allocator, coffer_error *err)
{
    coffer__path scratch;
    if (coffer__path_beside(&scratch, path, "", UNDO_NEW_SUFFIX)) {
        (void)coffer__os_unlink(scratch.text);
    }
    undo_reader undo = { .path = path, .target = fd, .fd = -1 };
    undo.pieces = coffer__alloc(allocator, 3 * UNDO_PIECE);
    if (undo.pieces == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to recover the file");
    }
    coffer_status status = undo_open(&undo, err);
    if (status == COFFER_OK) {
        status = undo_recover(&undo, err);
    }
    if (undo.fd >= 0) {
        (void)coffer__os_close(undo.fd);
    }
    coffer__free(allocator, undo.pieces, 3 * UNDO_PIECE);
    return status;
}

/* ---- prepared patches -------------------------------------------------------------------------------------------- */

/* The texts are exchanged here and nowhere else. */
coffer_status coffer__patch_prepare(int fd, const char *path, const char *ready, const coffer__patch *patch,
                                    coffer_error *err)
{
    const coffer__patch forward = {
        .file_size = patch->file_size, .old = patch->fresh, .fresh = patch->old, .size = patch->size
    };
    const int os_error = undo_write(ready, path, fd, &forward);
    if (os_error == 0) {
        return COFFER_OK;
    }
    (void)coffer__os_unlink(ready);
    return coffer__errno_status(err, "write the new header next to the file", path, os_error);
}

/* The name is durable before the first byte is written: from then on readers of the file are told. */
coffer_status coffer__patch_finish(int fd, const char *path, const char *ready, const coffer_allocator *allocator,
                                   coffer_error *err)
{
    coffer__path undo;
    int os_error =
        coffer__path_beside(&undo, path, "", COFFER__UNDO_SUFFIX) ? coffer__os_rename(ready, undo.text) : ENAMETOOLONG;
    /* ENOENT: an earlier run has renamed it. */
    os_error = os_error == 0 || os_error == ENOENT ? undo_sync_names(path) : os_error;
    return os_error == 0 ? coffer__patch_recover(fd, path, allocator, err)
                         : coffer__errno_status(err, "begin to write the new header", path, os_error);
}
