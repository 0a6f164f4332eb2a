/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A regular file or block device. It is read by position only, so that any number of threads may; the size is that of
 * the moment when it was opened, and a file that ends earlier when it is read has changed. Its descriptor is the
 * source's own, or one of a pool's, which is then borrowed for each use.
 */
#include "errno_status.h"
#include "error.h"
#include "patch.h"
#include "paths.h"
#include "pool.h"
#include "source.h"

#include <errno.h>
#include <string.h>

typedef struct source_file {
    coffer__pooled *pooled; /* whose descriptor it is; NULL: it is the source's own */
    int fd;
    coffer__os_info seen; /* the file when it was opened, or looked at last */
    bool through_link;    /* the path was a symbolic link */
} source_file;

_Static_assert(sizeof(source_file) <= COFFER__SOURCE_CAPACITY, "a file fits in the source");

static const source_file *source_file_of(const coffer__byte_source *source)
{
    return (const void *)source->state.capacity;
}

/* The same to change it, for functions that get a source that is not const. */
static source_file *source_file_in(coffer__byte_source *source)
{
    return (void *)source->state.capacity;
}

/* A pooled file is opened again here if the pool closed it, and fails when it is no longer the file that was opened.
   The file is read by position from its own first byte: a range of it is another kind (source_range.c). */
static coffer_status source_file_borrow(const coffer__byte_source *source, int *fd, uint64_t *offset, coffer_error *err)
{
    const source_file *file = source_file_of(source);
    *offset = 0;
    if (file->pooled != NULL) {
        return coffer__pool_acquire(file->pooled, fd, err);
    }
    *fd = file->fd;
    return COFFER_OK;
}

static void source_file_give_back(const coffer__byte_source *source)
{
    const source_file *file = source_file_of(source);
    if (file->pooled != NULL) {
        coffer__pool_release(file->pooled);
    }
}

/* The read ended before the size that the file had. The error has both sizes and where the bytes ended, by which a user
   can tell a download that is still running from a file that was truncated. */
static coffer_status source_file_shrank(const source_file *file, int fd, uint64_t at, coffer_error *err)
{
    coffer__os_info now;
    const int os_error = coffer__os_inspect_fd(fd, &now);
    if (os_error != 0) {
        return coffer__errno_status(err, "examine the file again, which ended early", NULL, os_error);
    }
    coffer__fail_at(err, COFFER_ERR_CHANGED, at,
                    "the file was changed while it was in use: it had %z when it was opened and has %z now; open it "
                    "again when the program that writes it has finished",
                    file->seen.size, now.size);
    return coffer__fail_sizes(err, COFFER_ERR_CHANGED, file->seen.size, now.size);
}

/* coffer__os_read_at continues after short reads, so fewer bytes mean the end of the file. */
static coffer_status source_file_read_at(const coffer__byte_source *source, uint64_t offset, void *buffer, size_t size,
                                         const coffer__watch *watch, coffer_error *err)
{
    int fd = -1;
    uint64_t base = 0;
    size_t done = 0;
    (void)watch;
    coffer_status status = source_file_borrow(source, &fd, &base, err);
    if (status != COFFER_OK) {
        return status;
    }
    const int os_error = coffer__os_read_at(fd, base + offset, buffer, size, &done);
    if (os_error != 0) {
        status = coffer__errno_status(err, "read the file", NULL, os_error);
        if (err != NULL) {
            err->offset = offset + done;
        }
    } else if (done < size) {
        status = source_file_shrank(source_file_of(source), fd, offset + done, err);
    }
    source_file_give_back(source);
    return status;
}

/* Checks first that the file is as long as it was: touching a page that a shorter file has lost is SIGBUS, which ends
   the process. A file that becomes shorter later still has that effect, as docs/c.md says. */
static void *source_file_map_by(const source_file *file, int fd, uint64_t offset, uint64_t size, bool writable_copy,
                                bool populate, coffer__os_map *map, coffer_error *err)
{
    void *address = NULL;
    coffer__os_info now;
    int os_error = coffer__os_inspect_fd(fd, &now);
    if (os_error == 0 && now.size < file->seen.size) {
        (void)source_file_shrank(file, fd, now.size, err);
        return NULL;
    }
    if (os_error == 0 && size > SIZE_MAX) {
        (void)coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                           "a program of %u bits cannot map the file's %z: read tensors or slices of them instead",
                           (uint64_t)(8 * sizeof(void *)), size);
        return NULL;
    }
    if (os_error == 0) {
        os_error = coffer__os_map_range(fd, offset, size, writable_copy, populate, map, &address);
    }
    if (os_error != 0) {
        (void)coffer__errno_status(err, "map the file, which can be read instead", NULL, os_error);
        return NULL;
    }
    return address;
}

/* The descriptor is given back at once: a map keeps its file without one. */
static void *source_file_map(const coffer__byte_source *source, uint64_t offset, uint64_t size, coffer_access access,
                             bool populate, coffer__os_map *map, coffer_error *err)
{
    int fd = -1;
    uint64_t base = 0;
    if (source_file_borrow(source, &fd, &base, err) != COFFER_OK) {
        return NULL;
    }
    void *address = source_file_map_by(source_file_of(source), fd, base + offset, size, access == COFFER_MAP_PRIVATE,
                                       populate, map, err);
    source_file_give_back(source);
    return address;
}

/* A pooled file is not in use now: each use gave its descriptor back. */
static void source_file_close(coffer__byte_source *source)
{
    const source_file *file = source_file_of(source);
    if (file->pooled != NULL) {
        coffer__pool_close_file(file->pooled);
    } else {
        (void)coffer__os_close(file->fd);
    }
}

/* ---- which version of the file it is ----------------------------------------------------------------------------- */

static const coffer__os_info *source_file_seen(const coffer__byte_source *source)
{
    return &source_file_of(source)->seen;
}

/* Looks at the file, not at its path: a file that was replaced is still the one that is read, and what is asked is
   whether the bytes that were read belong together. What is seen now is kept, for the next time this is asked, also
   when the file was not still. */
static bool source_file_is_still(coffer__byte_source *source)
{
    int fd = -1;
    uint64_t offset = 0;
    coffer__os_info now;
    source_file *file = source_file_in(source);
    if (source_file_borrow(source, &fd, &offset, NULL) != COFFER_OK) {
        return false;
    }
    const int os_error = coffer__os_inspect_fd(fd, &now);
    source_file_give_back(source);
    if (os_error != 0) {
        return false;
    }
    const bool still =
        coffer__os_unchanged(&file->seen, &now) && file->seen.touched == now.touched && !file->seen.recent;
    source->size = now.size;
    file->seen = now;
    if (file->pooled != NULL) {
        file->pooled->seen = now;
    }
    return still;
}

/* The undo file lies beside the file itself, wherever links to it are. A file without a name of its own (an open one
   that was deleted, by its name in /proc) has no undo file either. */
static coffer__undo source_file_undo(const char *path, bool is_link)
{
    coffer__path real;
    if (!is_link) {
        return coffer__undo_look(path);
    }
    return coffer__os_real_path(path, real.text, sizeof real.text) == 0 ? coffer__undo_look(real.text)
                                                                        : COFFER__UNDO_NONE;
}

static bool source_file_is_edited(const coffer__byte_source *source, const char *path)
{
    return source_file_undo(path, source_file_of(source)->through_link) == COFFER__UNDO_COUNTS;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Takes the descriptor over. */
static void source_file_init(coffer__byte_source *source, const source_file *file, bool untrusted)
{
    static const coffer__source_ops ops = { .kind = "a file",
                                            .read_at = source_file_read_at,
                                            .close = source_file_close,
                                            .map = source_file_map,
                                            .borrow = source_file_borrow,
                                            .give_back = source_file_give_back,
                                            .seen = source_file_seen,
                                            .is_still = source_file_is_still,
                                            .is_edited = source_file_is_edited };
    const bool regular = file->seen.kind == COFFER__OS_REGULAR;
    const coffer__source_traits traits = { .maps = true, .lends = true, .untrusted = untrusted && regular };
    coffer__source_init(source, &ops, file->seen.size, traits);
    memcpy(source->state.capacity, file, sizeof *file);
}

/* What has bytes at places. Pipes, sockets and terminals have none; a directory has, but not to be read. */
static bool source_file_is_readable(coffer__os_kind kind)
{
    return kind == COFFER__OS_REGULAR || kind == COFFER__OS_BLOCK;
}

/* Opens `path`, and learns on the way whether it is a symbolic link: then a second call is needed, else not. */
static int source_file_open(const char *path, int *fd, bool *is_link)
{
    const int os_error = coffer__os_open(path, COFFER__OS_READ, false, fd);
    *is_link = os_error == ELOOP;
    return *is_link ? coffer__os_open(path, COFFER__OS_READ, true, fd) : os_error;
}

/* Says why, where the errno alone would not: a socket, and a link to nothing, which looks like a file in a listing. */
static coffer_status source_file_cannot_open(const char *path, bool is_link, int os_error, coffer_error *err)
{
    coffer__os_info info;
    if (os_error == ENXIO && coffer__os_inspect(path, true, &info) == 0 && info.kind == COFFER__OS_OTHER) {
        return coffer__kind_status(err, false, path); /* a socket, which cannot even be opened */
    }
    if (os_error == ENOENT && is_link) {
        coffer__fail(
            err, COFFER_ERR_NOT_FOUND,
            "this is a symbolic link to a file that does not exist (a download that was interrupted or cleaned up?)");
        coffer__fail_path(err, COFFER_ERR_NOT_FOUND, path);
        return coffer__fail_errno(err, COFFER_ERR_NOT_FOUND, os_error);
    }
    return coffer__errno_status(err, "open the file", path, os_error);
}

/* Whether what was opened can be a source. */
static coffer_status source_file_check(const char *path, bool is_link, coffer__os_kind kind, bool *untrusted,
                                       coffer_error *err)
{
    if (!source_file_is_readable(kind)) {
        return coffer__kind_status(err, kind == COFFER__OS_DIRECTORY, path);
    }
    const coffer__undo undo = source_file_undo(path, is_link);
    *untrusted = undo == COFFER__UNDO_STRANGE;
    return undo == COFFER__UNDO_COUNTS ? coffer__undo_fail(err, path) : COFFER_OK;
}

/* The order matters: the file is opened first and looked at through its descriptor, then its undo file is looked for.
   An edit that begins after that is found by coffer__source_path_again. */
coffer_status coffer__source_path(coffer__byte_source *source, const char *path, coffer_error *err)
{
    bool untrusted = false;
    source_file file = { .fd = -1 };
    int os_error = source_file_open(path, &file.fd, &file.through_link);
    if (os_error != 0) {
        return source_file_cannot_open(path, file.through_link, os_error, err);
    }
    os_error = coffer__os_inspect_fd(file.fd, &file.seen);
    const coffer_status status = os_error != 0
                                     ? coffer__errno_status(err, "get the file's size", path, os_error)
                                     : source_file_check(path, file.through_link, file.seen.kind, &untrusted, err);
    if (status != COFFER_OK) {
        (void)coffer__os_close(file.fd);
        return status;
    }
    source_file_init(source, &file, untrusted);
    return COFFER_OK;
}

/* The pool opens and examines the file. It is released before it can be dropped, since only a file
   that is not in use may be dropped. */
coffer_status coffer__source_pooled(coffer__byte_source *source, coffer__pool *pool, coffer__pooled *pooled,
                                    const char *path, coffer_error *err)
{
    int fd = -1;
    bool untrusted = false;
    const int os_error = coffer__pool_take(pool, pooled, path, &fd);
    if (os_error == ENOMEM) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the name of a file");
    }
    if (os_error != 0) {
        return source_file_cannot_open(path, false, os_error, err);
    }
    const coffer_status status = source_file_check(path, false, pooled->seen.kind, &untrusted, err);
    coffer__pool_release(pooled);
    if (status != COFFER_OK) {
        coffer__pool_close_file(pooled);
        return status;
    }
    source_file_init(source, &(source_file){ .pooled = pooled, .fd = -1, .seen = pooled->seen }, untrusted);
    return COFFER_OK;
}

/* The caller keeps its descriptor, and may close it. The duplicate shares its position, which is neither used nor
   moved. */
coffer_status coffer__source_fd(coffer__byte_source *source, int fd, coffer_error *err)
{
    source_file file = { .fd = -1 };
    int os_error = coffer__os_inspect_fd(fd, &file.seen);
    if (os_error != 0) {
        return coffer__errno_status(err, "get the size of the descriptor's file", NULL, os_error);
    }
    if (!source_file_is_readable(file.seen.kind)) {
        return coffer__kind_status(err, file.seen.kind == COFFER__OS_DIRECTORY, NULL);
    }
    os_error = coffer__os_duplicate(fd, &file.fd);
    if (os_error != 0) {
        return coffer__errno_status(err, "duplicate the descriptor", NULL, os_error);
    }
    source_file_init(source, &file, false);
    return COFFER_OK;
}
