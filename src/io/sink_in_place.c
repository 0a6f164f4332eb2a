/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that is overwritten where it is, because its name cannot be given to another file. Neither atomic nor
 * crash-safe: whoever reads it in the meantime sees a mixture of old and new, and so does everybody after a
 * crash. It is not truncated first: then a program that has it mapped meets wrong bytes but no SIGBUS,
 * unless the new file is shorter. When writing fails, it gets its old length back, but not its old bytes; a
 * file that did not exist before is deleted.
 */
#include "alloc.h"
#include "errno_status.h"
#include "error.h"
#include "os.h"
#include "patch.h"
#include "paths.h"
#include "sink.h"

#include <errno.h>

typedef struct sink_in_place_state {
    coffer__path path;
    int fd;
    bool created;
    coffer_sync sync;
    uint64_t old_size;
    uint64_t size;
} sink_in_place_state;

static coffer_status sink_in_place_reserve(coffer__byte_sink *sink, uint64_t size, coffer_error *err)
{
    sink_in_place_state *state = sink->state;
    state->size = size;
    const int os_error = coffer__os_reserve(state->fd, 0, size);
    if (os_error != 0) {
        return coffer__errno_status(err, "reserve space for the file", state->path.text, os_error);
    }
    /* From here on the old file is lost. Its undo file must go: restoring an old header into the new bytes would
       make a file that nobody wrote. */
    coffer__undo_remove(state->path.text);
    return COFFER_OK;
}

static coffer_status sink_in_place_write_at(coffer__byte_sink *sink, uint64_t offset, const void *bytes, size_t size,
                                            coffer_error *err)
{
    const sink_in_place_state *state = sink->state;
    const int os_error = coffer__os_write_at(state->fd, offset, bytes, size);
    return os_error == 0 ? COFFER_OK : coffer__errno_status(err, "overwrite the file", state->path.text, os_error);
}

static int sink_in_place_copy_at(coffer__byte_sink *sink, uint64_t offset, int from, uint64_t from_offset,
                                 uint64_t size, uint64_t *done)
{
    const sink_in_place_state *state = sink->state;
    return coffer__os_copy_that_pays(from, from_offset, state->fd, offset, size, done);
}

/* Also after publishing, which has closed the file already. */
static void sink_in_place_close(coffer__byte_sink *sink)
{
    sink_in_place_state *state = sink->state;
    if (state->fd >= 0) {
        (void)coffer__os_close(state->fd);
    }
    coffer__free(&sink->allocator, state, sizeof *state);
    sink->state = NULL;
}

/* Errors are not reported: the call has failed already, and with a better reason. */
static void sink_in_place_discard(coffer__byte_sink *sink)
{
    const sink_in_place_state *state = sink->state;
    if (state->created) {
        (void)coffer__os_unlink(state->path.text);
    } else {
        (void)coffer__os_truncate(state->fd, state->old_size);
    }
    sink_in_place_close(sink);
}

/* Only a file that was created has a name that is not durable yet. */
static int sink_in_place_sync_name(const sink_in_place_state *state)
{
    coffer__path name;
    return coffer__path_directory(&name, state->path.text) ? coffer__os_sync_directory(name.text) : ENAMETOOLONG;
}

/* The old file may have been longer, so it is cut. Closing comes last because a network file system
   reports there what it could not store; the descriptor is gone even if it fails. */
static coffer_status sink_in_place_finish(const coffer__byte_sink *sink, coffer_error *err)
{
    sink_in_place_state *state = sink->state;
    const char *task = "finish the file";
    const char *path = state->path.text;
    const bool durable = state->sync == COFFER_SYNC_ALWAYS || (state->sync == COFFER_SYNC_REPLACE && !state->created);
    int os_error = coffer__os_truncate(state->fd, state->size);
    if (os_error == 0 && durable) {
        const coffer_status status = coffer__sink_sync(sink, state->fd, 0, state->size, task, path, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    if (os_error == 0 && state->created && state->sync == COFFER_SYNC_ALWAYS) {
        os_error = sink_in_place_sync_name(state);
    }
    if (os_error == 0) {
        os_error = coffer__os_close(state->fd);
        state->fd = -1;
    }
    return os_error == 0 ? COFFER_OK : coffer__errno_status(err, task, path, os_error);
}

static coffer_status sink_in_place_publish(coffer__byte_sink *sink, coffer_error *err)
{
    const coffer_status status = sink_in_place_finish(sink, err);
    sink_in_place_close(sink);
    return status;
}

/* The real path is needed because the undo file lies beside the file, not beside links to it. A new
   file is created with O_EXCL, so that discard never deletes a file that another program made in
   the meantime. */
static int sink_in_place_open(sink_in_place_state *state, const char *path, bool exists)
{
    state->fd = -1;
    state->created = !exists;
    if (exists) {
        const int os_error = coffer__os_real_path(path, state->path.text, sizeof state->path.text);
        if (os_error != 0) {
            return os_error;
        }
    } else if (!coffer__path_copy(&state->path, path)) {
        return ENAMETOOLONG;
    }
    const int os_error = exists ? coffer__os_open(state->path.text, COFFER__OS_WRITE, true, &state->fd)
                                : coffer__os_create(path, false, &state->fd);
    coffer__os_info info = { 0 };
    const int inspected = os_error == 0 ? coffer__os_inspect_fd(state->fd, &info) : 0;
    state->old_size = info.size;
    return os_error != 0 ? os_error : inspected;
}

coffer_status coffer__sink_in_place(coffer__byte_sink *sink, const coffer_allocator *allocator, const char *path,
                                    bool exists, coffer_sync sync, coffer_error *err)
{
    static const coffer__sink_ops ops = { sink_in_place_reserve,
                                          sink_in_place_write_at,
                                          sink_in_place_publish,
                                          sink_in_place_discard,
                                          sink_in_place_copy_at,
                                          NULL,
                                          NULL };
    const coffer_status status = coffer__sink_init(sink, &ops, allocator, sizeof(sink_in_place_state), err);
    if (status != COFFER_OK) {
        return status;
    }
    sink_in_place_state *state = sink->state;
    state->sync = sync;
    const int os_error = sink_in_place_open(state, path, exists);
    if (os_error != 0) {
        sink_in_place_close(sink);
        return coffer__errno_status(err, "open the file to overwrite it", path, os_error);
    }
    return COFFER_OK;
}
