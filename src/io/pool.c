/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors of many files: see pool.h. Nothing is opened or closed under the lock, since both may take long on
 * a network file system. So each function decides under the lock, and acts on the descriptors it took out of the
 * pool after releasing it.
 *
 * Invariants under the lock: a file is in the list if and only if it is open and has no users; open_count is the
 * number of files that are open, in the list or in use.
 */
#include "pool.h"

#include "alloc.h"
#include "errno_status.h"
#include "error.h"

#include <errno.h>
#include <string.h>

int coffer__pool_init(coffer__pool *pool, size_t most, const coffer_allocator *allocator)
{
    memset(pool, 0, sizeof *pool);
    pool->allocator = allocator;
    pool->most = most;
    return coffer__os_mutex_init(&pool->lock);
}

void coffer__pool_close(coffer__pool *pool)
{
    coffer__os_mutex_close(&pool->lock);
}

/* ---- under the lock ---------------------------------------------------------------------------------------------- */

/*
 * Open files that nobody uses are a list from the oldest to the newest, through the files themselves. A file in use is
 * in no list, so that it cannot be closed under whoever reads from it; the last user puts it back at the new end.
 */
static void pool_unlink(coffer__pooled *file)
{
    coffer__pool *pool = file->pool;
    *(file->older != NULL ? &file->older->newer : &pool->oldest) = file->newer;
    *(file->newer != NULL ? &file->newer->older : &pool->newest) = file->older;
    file->older = NULL;
    file->newer = NULL;
}

static void pool_link_newest(coffer__pooled *file)
{
    coffer__pool *pool = file->pool;
    file->older = pool->newest;
    *(pool->newest != NULL ? &pool->newest->newer : &pool->oldest) = file;
    pool->newest = file;
}

/* Takes the descriptor away from the file that was not used for the longest time, when more than `most` are open; -1
   when there is none to take. The caller closes it. */
static int pool_evict(coffer__pool *pool, size_t most)
{
    coffer__pooled *file = pool->oldest;
    if (pool->open_count <= most || file == NULL) {
        return -1;
    }
    const int fd = file->fd;
    pool_unlink(file);
    file->fd = -1;
    pool->open_count--;
    return fd;
}

/* Counts one more user of an open file. The first user takes it out of the list. */
static void pool_use(coffer__pooled *file)
{
    if (file->users++ == 0) {
        pool_unlink(file);
    }
}

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

static void pool_close(int fd)
{
    if (fd >= 0) {
        (void)coffer__os_close(fd);
    }
}

/* Opens a file. If the process or the system has no descriptor left, closes one of the pool's and tries again: the
   limit may be lower than the bound of the pool, or the program may use descriptors itself. Each turn closes one,
   so the loop ends. */
static int pool_open(coffer__pool *pool, const char *path, int *fd)
{
    for (;;) {
        const int os_error = coffer__os_open(path, COFFER__OS_READ, false, fd);
        if (os_error != EMFILE && os_error != ENFILE) {
            return os_error;
        }
        coffer__os_mutex_lock(&pool->lock);
        const int spare = pool_evict(pool, 0);
        coffer__os_mutex_unlock(&pool->lock);
        if (spare < 0) {
            return os_error;
        }
        pool_close(spare);
    }
}

/* The file becomes one of the pool's while it is in use, and counts as open at once: another one may have to be closed
   for it. What was evicted is closed after the lock is let go, since closing may take long (NFS). */
int coffer__pool_take(coffer__pool *pool, coffer__pooled *file, const char *path, int *fd)
{
    int os_error = pool_open(pool, path, fd);
    if (os_error != 0) {
        return os_error;
    }
    memset(file, 0, sizeof *file);
    os_error = coffer__os_inspect_fd(*fd, &file->seen);
    file->path_size = strlen(path) + 1;
    file->path = os_error == 0 ? coffer__alloc(pool->allocator, file->path_size) : NULL;
    if (file->path == NULL) {
        pool_close(*fd);
        return os_error == 0 ? ENOMEM : os_error;
    }
    memcpy(file->path, path, file->path_size);
    file->pool = pool;
    file->fd = *fd;
    file->users = 1;
    coffer__os_mutex_lock(&pool->lock);
    pool->open_count++;
    const int spare = pool_evict(pool, pool->most);
    coffer__os_mutex_unlock(&pool->lock);
    pool_close(spare);
    return 0;
}

/* The path may lead to another file now, or the file may have been written to. Nobody may read half
   of one version and half of another, so either ends the use. */
static coffer_status pool_check_same(const coffer__pooled *file, int fd, coffer_error *err)
{
    const coffer__os_info *seen = &file->seen;
    coffer__os_info now;
    const int os_error = coffer__os_inspect_fd(fd, &now);
    if (os_error != 0) {
        return coffer__errno_status(err, "examine the file again", NULL, os_error);
    }
    if (coffer__os_unchanged(seen, &now)) {
        return COFFER_OK;
    }
    coffer__fail(err, COFFER_ERR_CHANGED,
                 "the file was replaced or changed while the model was open (it had %z and has %z); open the model "
                 "again when the program that writes it has finished",
                 seen->size, now.size);
    return coffer__fail_sizes(err, COFFER_ERR_CHANGED, seen->size, now.size);
}

/* Opens a closed file again. Several threads may do so at the same time: the first one to take the lock stores its
   descriptor, and the others close theirs and use that one. */
static coffer_status pool_open_again(coffer__pooled *file, int *fd, coffer_error *err)
{
    coffer__pool *pool = file->pool;
    int opened = -1;
    const int os_error = pool_open(pool, file->path, &opened);
    if (os_error != 0) {
        return coffer__errno_status(err, "open the file again", NULL, os_error);
    }
    const coffer_status status = pool_check_same(file, opened, err);
    if (status != COFFER_OK) {
        pool_close(opened);
        return status;
    }
    int spare = -1;
    coffer__os_mutex_lock(&pool->lock);
    if (file->fd >= 0) {
        spare = opened;
        pool_use(file);
    } else {
        file->fd = opened;
        file->users = 1;
        pool->open_count++;
        spare = pool_evict(pool, pool->most);
    }
    *fd = file->fd;
    coffer__os_mutex_unlock(&pool->lock);
    pool_close(spare);
    return COFFER_OK;
}

/* The usual way is one lock and a count. A closed file is opened again without the lock, so that
   threads that use other files do not wait for it. */
coffer_status coffer__pool_acquire(coffer__pooled *file, int *fd, coffer_error *err)
{
    coffer__os_mutex_lock(&file->pool->lock);
    const bool is_open = file->fd >= 0;
    if (is_open) {
        pool_use(file);
        *fd = file->fd;
    }
    coffer__os_mutex_unlock(&file->pool->lock);
    return is_open ? COFFER_OK : pool_open_again(file, fd, err);
}

/* Only files that nobody uses are closed, so the pool may be above its bound until this is called. */
void coffer__pool_release(coffer__pooled *file)
{
    coffer__pool *pool = file->pool;
    int spare = -1;
    coffer__os_mutex_lock(&pool->lock);
    if (--file->users == 0) {
        pool_link_newest(file);
        spare = pool_evict(pool, pool->most);
    }
    coffer__os_mutex_unlock(&pool->lock);
    pool_close(spare);
}

/* The file has no users, so it is in the list if it is open. It is no part of the pool afterwards. */
void coffer__pool_close_file(coffer__pooled *file)
{
    coffer__pool *pool = file->pool;
    coffer__os_mutex_lock(&pool->lock);
    const int fd = file->fd;
    if (fd >= 0) {
        pool_unlink(file);
        file->fd = -1;
        pool->open_count--;
    }
    coffer__os_mutex_unlock(&pool->lock);
    pool_close(fd);
    coffer__free(pool->allocator, file->path, file->path_size);
    file->path = NULL;
}
