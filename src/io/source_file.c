/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A regular file or block device, or a range of one. It is read by position only, so that any number of threads may; the
 * size is that of the moment when it was opened, and a file that ends earlier when it is read has changed. Its descriptor is
 * the source's own, or one of a pool's, which is then borrowed for each use.
 */
#include "error.h"
#include "patch.h"
#include "paths.h"
#include "pool.h"
#include "source.h"
#include "trouble.h"

#include <errno.h>
#include <string.h>

static coffer_status source_file_borrow(const coffer__source *source, int *fd, uint64_t *offset, coffer_error *err)
{
    const coffer__source_file *file = &source->as.file;
    *offset = file->offset;
    if (file->pooled != NULL) {
        return coffer__pool_acquire(file->pooled, fd, err);
    }
    *fd = file->fd;
    return COFFER_OK;
}

static void source_file_give_back(const coffer__source *source)
{
    if (source->as.file.pooled != NULL) {
        coffer__pool_release(source->as.file.pooled);
    }
}

static coffer_status source_file_shrank(const coffer__source_file *file, int fd, uint64_t at, coffer_error *err)
{
    coffer__os_info now;
    const int os_error = coffer__os_inspect_fd(fd, &now);
    if (os_error != 0) {
        return coffer__trouble(err, "look at the file again, which ended early", NULL, os_error);
    }
    coffer__fail_at(err, COFFER_ERR_CHANGED, at,
                    "the file was changed while it was in use: it had %z when it was opened and has %z now; open it "
                    "again when whoever writes it has finished",
                    file->seen.size, now.size);
    return coffer__fail_sizes(err, COFFER_ERR_CHANGED, file->seen.size, now.size);
}

static coffer_status source_file_read_at(const coffer__source *source, uint64_t offset, void *buffer, size_t size,
                                         coffer_error *err)
{
    int fd = -1;
    uint64_t base = 0;
    size_t done = 0;
    coffer_status status = source_file_borrow(source, &fd, &base, err);
    if (status != COFFER_OK) {
        return status;
    }
    const int os_error = coffer__os_read_at(fd, base + offset, buffer, size, &done);
    if (os_error != 0) {
        status = coffer__trouble(err, "read the file", NULL, os_error);
        if (err != NULL) {
            err->offset = offset + done;
        }
    } else if (done < size) {
        status = source_file_shrank(&source->as.file, fd, offset + done, err);
    }
    source_file_give_back(source);
    return status;
}

static void *source_file_map_by(coffer__source *source, int fd, coffer_access access, bool populate, coffer_error *err)
{
    coffer__source_file *file = &source->as.file;
    coffer__os_info now;
    int os_error = coffer__os_inspect_fd(fd, &now);
    if (os_error == 0 && now.size < file->seen.size) {
        (void)source_file_shrank(file, fd, now.size < file->offset ? 0 : now.size - file->offset, err);
        return NULL;
    }
    void *address = NULL;
    if (os_error == 0 && source->size > SIZE_MAX) {
        (void)coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                           "a program of %u bits cannot map the file's %z: open it with COFFER_READ, and read tensors "
                           "or slices of them",
                           (uint64_t)(8 * sizeof(void *)), source->size);
        return NULL;
    }
    if (os_error == 0) {
        os_error = coffer__os_map_range(fd, file->offset, source->size, access == COFFER_MAP_PRIVATE, populate,
                                        &file->map, &address);
    }
    if (os_error != 0) {
        coffer__trouble(err, "map the file (with COFFER_READ it is read instead)", NULL, os_error);
        return NULL;
    }
    return address;
}

static void *source_file_map(coffer__source *source, coffer_access access, bool populate, coffer_error *err)
{
    static char nothing[8];
    int fd = -1;
    uint64_t base = 0;
    if (source->size == 0) {
        return nothing;
    }
    if (source_file_borrow(source, &fd, &base, err) != COFFER_OK) {
        return NULL;
    }
    void *address = source_file_map_by(source, fd, access, populate, err);
    source_file_give_back(source);
    return address;
}

static void source_file_close(coffer__source *source)
{
    coffer__os_unmap(&source->as.file.map);
    if (source->as.file.pooled != NULL) {
        coffer__pool_drop(source->as.file.pooled);
    } else {
        (void)coffer__os_close(source->as.file.fd);
    }
}

/* Takes the descriptor over. */
static void source_file_init(coffer__source *source, int fd, uint64_t offset, uint64_t size,
                             const coffer__os_info *seen)
{
    static const coffer__source_ops ops = { .read_at = source_file_read_at,
                                            .map = source_file_map,
                                            .close = source_file_close,
                                            .borrow = source_file_borrow,
                                            .give_back = source_file_give_back };
    memset(source, 0, sizeof *source);
    source->ops = &ops;
    source->size = size;
    source->as.file.fd = fd;
    source->as.file.offset = offset;
    source->as.file.seen = *seen;
}

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

static coffer_status source_file_cannot_open(const char *path, bool is_link, int os_error, coffer_error *err)
{
    coffer__os_info info;
    if (os_error == ENXIO && coffer__os_inspect(path, true, &info) == 0 && info.kind == COFFER__OS_OTHER) {
        return coffer__trouble_of_kind(err, false, path); /* a socket, which cannot even be opened */
    }
    if (os_error == ENOENT && is_link) {
        coffer__fail(
            err, COFFER_ERR_NOT_FOUND,
            "this is a symbolic link to a file that does not exist (a download that was interrupted or cleaned up?)");
        coffer__fail_path(err, COFFER_ERR_NOT_FOUND, path);
        return coffer__fail_errno(err, COFFER_ERR_NOT_FOUND, os_error);
    }
    return coffer__trouble(err, "open the file", path, os_error);
}

/* The undo file lies beside the file itself, wherever links to it are. A file without a name of its own (an open one that
   was deleted, by its name in /proc) has no undo file either. */
static coffer__undo source_file_undo(const char *path, bool is_link)
{
    coffer__path real;
    if (!is_link) {
        return coffer__undo_look(path);
    }
    return coffer__os_real_path(path, real.text, sizeof real.text) == 0 ? coffer__undo_look(real.text)
                                                                        : COFFER__UNDO_NONE;
}

/* Whether what was opened can be a source. */
static coffer_status source_file_check(const char *path, bool is_link, coffer__os_kind kind, bool *doubted,
                                       coffer_error *err)
{
    if (!source_file_is_readable(kind)) {
        return coffer__trouble_of_kind(err, kind == COFFER__OS_DIRECTORY, path);
    }
    const coffer__undo undo = source_file_undo(path, is_link);
    *doubted = undo == COFFER__UNDO_STRANGE;
    return undo == COFFER__UNDO_COUNTS ? coffer__undo_fail(err, path) : COFFER_OK;
}

coffer_status coffer__source_path(coffer__source *source, const char *path, coffer_error *err)
{
    int fd = -1;
    bool is_link = false;
    const int os_error = source_file_open(path, &fd, &is_link);
    if (os_error != 0) {
        return source_file_cannot_open(path, is_link, os_error, err);
    }
    bool doubted = false;
    coffer__os_info info;
    const int inspected = coffer__os_inspect_fd(fd, &info);
    const coffer_status status = inspected != 0 ? coffer__trouble(err, "learn the file's size", path, inspected)
                                                : source_file_check(path, is_link, info.kind, &doubted, err);
    if (status != COFFER_OK) {
        (void)coffer__os_close(fd);
        return status;
    }
    source_file_init(source, fd, 0, info.size, &info);
    source->as.file.through_link = is_link;
    source->as.file.doubted = doubted;
    return COFFER_OK;
}

coffer_status coffer__source_pooled(coffer__source *source, coffer__pool *pool, coffer__pooled *file, const char *path,
                                    coffer_error *err)
{
    int fd = -1;
    const int os_error = coffer__pool_take(pool, file, path, &fd);
    if (os_error == ENOMEM) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the name of a file");
    }
    if (os_error != 0) {
        return source_file_cannot_open(path, false, os_error, err);
    }
    source_file_init(source, -1, 0, file->seen.size, &file->seen);
    source->as.file.pooled = file;
    const coffer_status status = source_file_check(path, false, file->seen.kind, &source->as.file.doubted, err);
    coffer__pool_release(file);
    if (status != COFFER_OK) {
        coffer__pool_drop(file);
    }
    return status;
}

coffer_status coffer__source_path_again(const coffer__source *source, const char *path, coffer_error *err)
{
    return source_file_undo(path, source->as.file.through_link) == COFFER__UNDO_COUNTS ? coffer__undo_fail(err, path)
                                                                                       : COFFER_OK;
}

static bool source_file_has_times(const coffer__source *source)
{
    return source->ops->close == source_file_close && source->as.file.seen.kind == COFFER__OS_REGULAR;
}

const coffer__os_info *coffer__source_seen(const coffer__source *source)
{
    return source->ops->close == source_file_close ? &source->as.file.seen : NULL;
}

bool coffer__source_is_fresh(const coffer__source *source)
{
    return source_file_has_times(source) && source->as.file.seen.recent;
}

bool coffer__source_is_doubted(const coffer__source *source)
{
    return source_file_has_times(source) && source->as.file.doubted;
}

bool coffer__source_is_still(coffer__source *source)
{
    int fd = -1;
    uint64_t offset = 0;
    coffer__os_info now;
    coffer__source_file *file = &source->as.file;
    if (!source_file_has_times(source)) {
        return true;
    }
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
    source->size = offset == 0 && source->size == file->seen.size ? now.size : source->size;
    file->seen = now;
    if (file->pooled != NULL) {
        file->pooled->seen = now;
    }
    return still;
}

bool coffer__source_has_holes(const coffer__source *source)
{
    int fd = -1;
    uint64_t begin = 0;
    if (source->ops->borrow == NULL || source->ops->borrow(source, &fd, &begin, NULL) != COFFER_OK) {
        return false;
    }
    const uint64_t hole = coffer__os_next_hole(fd, begin);
    source->ops->give_back(source);
    return hole != UINT64_MAX && hole - begin < source->size;
}

coffer_status coffer__source_fd(coffer__source *source, int fd, uint64_t offset, uint64_t size, coffer_error *err)
{
    coffer__os_info info;
    int os_error = coffer__os_inspect_fd(fd, &info);
    if (os_error != 0) {
        return coffer__trouble(err, "learn the size of the descriptor's file", NULL, os_error);
    }
    if (!source_file_is_readable(info.kind)) {
        return coffer__trouble_of_kind(err, info.kind == COFFER__OS_DIRECTORY, NULL);
    }
    if (offset > info.size || (size != UINT64_MAX && size > info.size - offset)) {
        coffer__fail(err, COFFER_ERR_ARGUMENT, "%u bytes from %u on are asked of a descriptor whose file has %u bytes",
                     size == UINT64_MAX ? 0 : size, offset, info.size);
        return COFFER_ERR_ARGUMENT;
    }
    int copy = -1;
    os_error = coffer__os_duplicate(fd, &copy);
    if (os_error != 0) {
        return coffer__trouble(err, "duplicate the descriptor", NULL, os_error);
    }
    source_file_init(source, copy, offset, size == UINT64_MAX ? info.size - offset : size, &info);
    return COFFER_OK;
}
