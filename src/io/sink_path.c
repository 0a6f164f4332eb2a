/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file under a path, atomically: a temporary file (temporary.h) is written, and when it is complete it is
 * given the path. Whoever opens the path gets the old file or the new one, whole. If two programs save to
 * one path, the last one wins.
 *
 * The order when it is published:
 *
 *   1. the length is checked
 *   2. owner, mode and access list are taken from the file that is replaced
 *   3. the bytes are made durable, if the policy says so
 *   4. the name is given or replaced
 *   5. the name is made durable, if the policy says so
 *
 * Bytes come before the name: otherwise a power cut could leave the name on a file whose bytes were never
 * stored. A failure up to step 4 leaves the old file as it was. docs/editing.md has the promises.
 */
#include "alloc.h"
#include "errno_status.h"
#include "error.h"
#include "os.h"
#include "patch.h"
#include "sink.h"
#include "temporary.h"

#include <errno.h>
#include <stdatomic.h>

/* After each stretch of this size the device is told to begin writing. So it works while the rest is copied,
   and the wait at the end is short. */
#define SINK_PATH_STRETCH ((size_t)16 << 20)

typedef struct sink_path_state {
    coffer__path path;
    coffer__temporary temporary;
    coffer_sync sync;
    bool to_be_synced;       /* a guess when it is opened; what decides is what lies there when it is published */
    _Atomic(size_t) written; /* bytes so far, counted when it is to be synced */
    uint64_t size;
    bool has_old; /* only this file may be replaced: */
    coffer__os_info old;
} sink_path_state;

/* A full disk is found here, before anything is computed or copied, and the file gets its blocks in
   few extents. Holes would be filled by that, so a sparse file goes without. It may be called a
   second time. */
static coffer_status sink_path_reserve(coffer__byte_sink *sink, uint64_t size, coffer_error *err)
{
    sink_path_state *state = sink->state;
    state->size = size;
    const int os_error = sink->sparse ? 0 : coffer__os_reserve(state->temporary.fd, 0, size);
    if (os_error == 0) {
        return COFFER_OK;
    }
    coffer__fail(err, COFFER_ERR_IO, "cannot reserve %z for the new file: %s (errno %d)", size,
                 coffer__os_words(os_error), (int64_t)os_error);
    coffer__fail_path(err, COFFER_ERR_IO, state->path.text);
    return coffer__fail_errno(err, COFFER_ERR_IO, os_error);
}

/* Counts bytes written, from several threads at once, and starts write-back whenever the count
   crosses a multiple of the stretch. The atomic addition gives each crossing to exactly one thread. */
static void sink_path_wrote(sink_path_state *state, size_t size)
{
    if (!state->to_be_synced) {
        return;
    }
    const size_t before = atomic_fetch_add(&state->written, size);
    if (before / SINK_PATH_STRETCH != (before + size) / SINK_PATH_STRETCH) {
        coffer__os_sync_begin(state->temporary.fd);
    }
}

/* A large write is divided, so that the device can start before the last byte is copied. */
static coffer_status sink_path_write_at(coffer__byte_sink *sink, uint64_t offset, const void *bytes, size_t size,
                                        coffer_error *err)
{
    sink_path_state *state = sink->state;
    for (size_t done = 0; done < size;) {
        const size_t left = size - done;
        const size_t piece = state->to_be_synced && left > SINK_PATH_STRETCH ? SINK_PATH_STRETCH : left;
        const int os_error =
            coffer__os_write_at(state->temporary.fd, offset + done, (const uint8_t *)bytes + done, piece);
        if (os_error != 0) {
            return coffer__errno_status(err, "write the new file", state->path.text, os_error);
        }
        sink_path_wrote(state, piece);
        done += piece;
    }
    return COFFER_OK;
}

/* Only what was written is read, so a short read means that another program cut the file. */
static coffer_status sink_path_read_at(coffer__byte_sink *sink, uint64_t offset, void *buffer, size_t size,
                                       coffer_error *err)
{
    const sink_path_state *state = sink->state;
    size_t done = 0;
    const int os_error = coffer__os_read_at(state->temporary.fd, offset, buffer, size, &done);
    if (os_error != 0) {
        return coffer__errno_status(err, "read the new file back", state->path.text, os_error);
    }
    return done == size ? COFFER_OK
                        : coffer__fail_at(err, COFFER_ERR_CHANGED, offset + done,
                                          "the new file became shorter while it was written");
}

/* Leaves a hole out: where nothing is written, the new file has one. The exception is a hole at the
   file's end. Its last byte is written, which gives the file its length; setting the length by
   ftruncate could cut off what other threads write at the same time. */
static int sink_path_skip(const sink_path_state *state, uint64_t offset, uint64_t size)
{
    return offset + size < state->size ? 0 : coffer__os_write_at(state->temporary.fd, offset + size - 1, "", 1);
}

/* Copies a range with its holes: alternately a stretch of data, which the system copies, and a
   hole, which is skipped. *done counts both. A file system without holes says that everything is
   data. A copy that makes no progress ends the loop, and the caller reads and writes the rest. */
static int sink_path_copy_sparse(const sink_path_state *state, uint64_t offset, int from, uint64_t from_offset,
                                 uint64_t size, uint64_t *done)
{
    int os_error = 0;
    for (*done = 0; *done < size && os_error == 0;) {
        const uint64_t at = from_offset + *done;
        const uint64_t left = size - *done;
        const uint64_t data = coffer__os_next_data(from, at);
        const uint64_t hole = data > at ? at : coffer__os_next_hole(from, at);
        uint64_t got = data - at < left ? data - at : left;
        if (data > at) {
            os_error = sink_path_skip(state, offset + *done, got);
        } else {
            const uint64_t wanted = hole - at < left ? hole - at : left;
            os_error = coffer__os_copy(from, at, state->temporary.fd, offset + *done, wanted, &got);
        }
        *done += got;
        if (got == 0) {
            return os_error;
        }
    }
    return os_error;
}

static int sink_path_copy_at(coffer__byte_sink *sink, uint64_t offset, int from, uint64_t from_offset, uint64_t size,
                             uint64_t *done)
{
    sink_path_state *state = sink->state;
    const int os_error = sink->sparse
                             ? sink_path_copy_sparse(state, offset, from, from_offset, size, done)
                             : coffer__os_copy_that_pays(from, from_offset, state->temporary.fd, offset, size, done);
    sink_path_wrote(state, (size_t)*done);
    return os_error;
}

static int sink_path_lend(const coffer__byte_sink *sink)
{
    const sink_path_state *state = sink->state;
    return state->temporary.fd;
}

/* Releases all that the sink holds; deletes the temporary file unless it was placed or is to be
   kept. */
static void sink_path_discard(coffer__byte_sink *sink)
{
    sink_path_state *state = sink->state;
    coffer__temporary_discard(&state->temporary);
    coffer__free(&sink->allocator, state, sizeof *state);
    sink->state = NULL;
}

/* Another program may have truncated the temporary file, by its name or through /proc. A file of
   another length than was announced must not be published. */
static coffer_status sink_path_check_size(const sink_path_state *state, coffer_error *err)
{
    coffer__os_info info;
    const int os_error = coffer__os_inspect_fd(state->temporary.fd, &info);
    if (os_error != 0) {
        return coffer__errno_status(err, "examine the new file", state->path.text, os_error);
    }
    if (info.size == state->size) {
        return COFFER_OK;
    }
    coffer__fail(err, COFFER_ERR_CHANGED, "the new file has %u bytes instead of %u", info.size, state->size);
    coffer__fail_path(err, COFFER_ERR_CHANGED, state->path.text);
    return coffer__fail_sizes(err, COFFER_ERR_CHANGED, state->size, info.size);
}

/* Does everything that can fail before the path is touched (steps 2 and 3 above). `replaced` is
   what lies there now, NULL for nothing. It may be called again, when something else lies there
   later: each step can be repeated. */
static coffer_status sink_path_complete(const coffer__byte_sink *sink, const coffer__os_info *replaced,
                                        coffer_error *err)
{
    static const char task[] = "make the new file durable";
    sink_path_state *state = sink->state;
    const char *path = state->path.text;
    int os_error = 0;
    if (replaced != NULL && replaced->kind == COFFER__OS_REGULAR) {
        os_error = coffer__os_take_owner_and_mode(state->temporary.fd, replaced, path);
    }
    if (os_error != 0) {
        return coffer__errno_status(err, "give the new file the mode of the old one", path, os_error);
    }
    if (state->sync == COFFER_SYNC_ALWAYS || (state->sync == COFFER_SYNC_REPLACE && replaced != NULL)) {
        const coffer_status status = coffer__sink_sync(sink, state->temporary.fd, 0, state->size, task, path, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    os_error = coffer__temporary_settle(&state->temporary);
    return os_error == 0 ? COFFER_OK : coffer__errno_status(err, task, path, os_error);
}

/* The complete file could not be given the path: on some mounts a rename cannot replace. What was
   computed is not thrown away. The file stays under its temporary name, if it has one, and the
   error says where. */
static coffer_status sink_path_cannot_replace(sink_path_state *state, int os_error, coffer_error *err)
{
    if (!state->temporary.named) {
        return coffer__errno_status(err, "give the new file its name", state->path.text, os_error);
    }
    const char *name = state->temporary.name.text;
    coffer__fail(err, COFFER_ERR_REPLACE,
                 "the new file is complete but could not replace the old one: %s; it is kept as %p: move it yourself, "
                 "or overwrite the old one with in_place",
                 coffer__os_words(os_error), name + coffer__path_name_at(name));
    coffer__fail_path(err, COFFER_ERR_REPLACE, state->path.text);
    coffer__temporary_keep(&state->temporary);
    return coffer__fail_errno(err, COFFER_ERR_REPLACE, os_error);
}

/* Learns what lies under the path. A symbolic link is described by the file that it leads to, whose
   mode the new file takes; a link that leads nowhere is described as a link. */
static coffer_status sink_path_look(const char *path, bool *exists, coffer__os_info *info, coffer_error *err)
{
    int os_error = coffer__os_inspect(path, false, info);
    *exists = os_error == 0;
    if (os_error == 0 && info->kind == COFFER__OS_LINK) {
        coffer__os_info behind;
        os_error = coffer__os_inspect(path, true, &behind);
        *info = os_error == 0 ? behind : *info;
    }
    return os_error == 0 || os_error == ENOENT ? COFFER_OK
                                               : coffer__errno_status(err, "write a file there", path, os_error);
}

/* Whether the file has no name because the system refuses to name files that were created without
   one. The security policies of some containers do, and it shows only now that everything is
   written: then the file is copied into one with a name. */
static bool sink_path_is_refused(const sink_path_state *state, int os_error)
{
    return !state->temporary.named && (os_error == EPERM || os_error == EACCES || os_error == ENOSYS ||
                                       os_error == EOPNOTSUPP || os_error == ENOENT || os_error == EXDEV);
}

void coffer__sink_path_only(coffer__byte_sink *sink, const coffer__os_info *old)
{
    sink_path_state *state = sink->state;
    state->has_old = true;
    state->old = *old;
}

/* The file to be replaced is not the one that the caller read. Its new contents must not be lost. */
static coffer_status sink_path_changed(const sink_path_state *state, coffer_error *err)
{
    coffer__fail(
        err, COFFER_ERR_CHANGED,
        "the file to be replaced was itself replaced or written to in the meantime: it was left as it is; try again");
    return coffer__fail_path(err, COFFER_ERR_CHANGED, state->path.text);
}

/* Replaces only the file that the caller named. The loop runs a second time only after the unnamed
   file was copied into a named one, which needs rights and durability again; a named file is never
   refused, so there is no third time. */
static coffer_status sink_path_replace_old(const coffer__byte_sink *sink, coffer_error *err)
{
    sink_path_state *state = sink->state;
    const char *path = state->path.text;
    bool exists = false;
    bool changed = false;
    bool again = false;
    int os_error = 0;
    coffer__os_info now;
    do {
        coffer_status status = sink_path_look(path, &exists, &now, err);
        if (status != COFFER_OK) {
            return status;
        }
        if (!exists || !coffer__os_unchanged(&state->old, &now)) {
            return sink_path_changed(state, err);
        }
        status = sink_path_complete(sink, &now, err);
        if (status != COFFER_OK) {
            return status;
        }
        os_error = coffer__temporary_replace_only(&state->temporary, path, &state->old,
                                                  state->sync != COFFER_SYNC_NEVER, &changed);
        again = sink_path_is_refused(state, os_error);
        if (again) {
            os_error = coffer__temporary_copy(&state->temporary, path, true);
        }
    } while (again && os_error == 0);
    if (os_error != 0) {
        return sink_path_cannot_replace(state, os_error, err);
    }
    return changed ? sink_path_changed(state, err) : COFFER_OK;
}

/* Gives the path to the new file, whatever lies there. Placing a file where nothing lies uses link,
   which fails if something came there in the meantime. That is then a replacement, and needs
   another look, since the new file has to take over the rights of the other one. The loop ends as
   soon as nobody interferes. */
static coffer_status sink_path_give_name(const coffer__byte_sink *sink, coffer_error *err)
{
    sink_path_state *state = sink->state;
    if (state->has_old) {
        return sink_path_replace_old(sink, err);
    }
    const char *path = state->path.text;
    coffer__os_info old;
    bool exists = false;
    bool again = false;
    int os_error = 0;
    do {
        coffer_status status = sink_path_look(path, &exists, &old, err);
        if (status == COFFER_OK) {
            status = sink_path_complete(sink, exists ? &old : NULL, err);
        }
        if (status != COFFER_OK) {
            return status;
        }
        os_error = exists ? coffer__temporary_replace(&state->temporary, path, state->sync != COFFER_SYNC_NEVER)
                          : coffer__temporary_place(&state->temporary, path);
        again = os_error == EEXIST && !exists;
        if (!again && sink_path_is_refused(state, os_error)) {
            os_error = coffer__temporary_copy(&state->temporary, path, exists);
            again = os_error == 0;
        }
    } while (again);
    return os_error == 0 ? COFFER_OK : sink_path_cannot_replace(state, os_error, err);
}

/* An undo file belongs to the old file, and is removed with it. Whether there is one is asked
   before the name changes: an undo file that appears afterwards belongs to a program that edits the
   new file. */
static coffer_status sink_path_give_name_without_undo(const coffer__byte_sink *sink, coffer_error *err)
{
    const sink_path_state *state = sink->state;
    const bool had_undo = coffer__undo_look(state->path.text) != COFFER__UNDO_NONE;
    const coffer_status status = sink_path_give_name(sink, err);
    if (status == COFFER_OK && had_undo) {
        coffer__undo_remove(state->path.text);
    }
    return status;
}

/* The directory is opened before the name is given, so that a directory that cannot be opened is an
   error that changes nothing. When syncing it fails, the file is in place, and the message says so. */
static coffer_status sink_path_give_durable_name(const coffer__byte_sink *sink, coffer_error *err)
{
    const sink_path_state *state = sink->state;
    coffer__path name;
    int directory = -1;
    int os_error = coffer__path_directory(&name, state->path.text) ? 0 : ENAMETOOLONG;
    if (os_error == 0) {
        os_error = coffer__os_open_directory(name.text, &directory);
    }
    if (os_error != 0) {
        return coffer__errno_status(err, "open the directory, to make the file's name durable", state->path.text,
                                    os_error);
    }
    coffer_status status = sink_path_give_name_without_undo(sink, err);
    if (status == COFFER_OK) {
        os_error = coffer__os_sync_names(directory);
        if (os_error != 0) {
            status = coffer__errno_status(err, "make the name of the new file durable (the file is in place)",
                                          state->path.text, os_error);
        }
    }
    (void)coffer__os_close(directory);
    return status;
}

/* The directory is synced only with COFFER_SYNC_ALWAYS. With COFFER_SYNC_REPLACE a power cut may
   bring the old file back, which is whole. */
static coffer_status sink_path_publish(coffer__byte_sink *sink, coffer_error *err)
{
    sink_path_state *state = sink->state;
    coffer_status status = sink_path_check_size(state, err);
    if (status == COFFER_OK) {
        status = state->sync == COFFER_SYNC_ALWAYS ? sink_path_give_durable_name(sink, err)
                                                   : sink_path_give_name_without_undo(sink, err);
    }
    sink_path_discard(sink);
    return status;
}

/* On failure nothing is left behind, neither memory nor a file. */
static coffer_status sink_path_open(coffer__byte_sink *sink, const char *path, bool exists, bool secret,
                                    coffer_sync sync, coffer_error *err)
{
    sink_path_state *state = sink->state;
    state->sync = sync;
    state->to_be_synced = sync == COFFER_SYNC_ALWAYS || (sync == COFFER_SYNC_REPLACE && exists);
    int os_error = coffer__path_copy(&state->path, path) ? 0 : ENAMETOOLONG;
    if (os_error == 0) {
        /* The file that is replaced may be private, and its mode is taken only at the end. */
        os_error = coffer__temporary_open(&state->temporary, path, secret);
    }
    if (os_error == 0) {
        return COFFER_OK;
    }
    coffer__free(&sink->allocator, state, sizeof *state);
    return coffer__errno_status(err, "make a new file in that directory", path, os_error);
}

/* Refuses what a file cannot replace before anything is created, so that a directory or a device
   under the path is named as such instead of failing at the end. */
coffer_status coffer__sink_path(coffer__byte_sink *sink, const coffer_allocator *allocator, const char *path,
                                coffer_sync sync, bool in_place, coffer_error *err)
{
    static const coffer__sink_ops ops = { sink_path_reserve, sink_path_write_at, sink_path_publish, sink_path_discard,
                                          sink_path_copy_at, sink_path_read_at,  sink_path_lend };
    coffer__os_info info;
    bool exists = false;
    coffer_status status = sink_path_look(path, &exists, &info, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (exists && info.kind != COFFER__OS_REGULAR && info.kind != COFFER__OS_LINK) {
        return coffer__target_kind_status(err, info.kind == COFFER__OS_DIRECTORY, path);
    }
    if (path[coffer__path_name_at(path)] == '\0') {
        return coffer__errno_status(err, "write a file without a name", path, ENOENT);
    }
    if (in_place) {
        return coffer__sink_in_place(sink, allocator, path, exists, sync, err);
    }
    status = coffer__sink_init(sink, &ops, allocator, sizeof(sink_path_state), err);
    if (status != COFFER_OK) {
        return status;
    }
    const bool secret = exists && info.kind == COFFER__OS_REGULAR;
    sink->keeps_holes = true;
    return sink_path_open(sink, path, exists, secret, sync, err);
}
