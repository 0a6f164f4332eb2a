/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors of many files: see pool.h. Nothing is opened or closed under the lock, since both may take long. */
#include "pool.h"

#include "alloc.h"
#include "error.h"
#include "trouble.h"

#include <errno.h>
#include <string.h>

int coffer__pool_init(coffer__pool *pool, size_t most, const coffer_allocator *allocator)
{
    memset(pool, 0, sizeof *pool);
    pool->allocator = allocator;
    pool->most = most;
    return coffer__os_mutex_init(&pool->lock);
}

void coffer__pool_deinit(coffer__pool *pool)
{
    coffer__os_mutex_deinit(&pool->lock);
}

/* ---- under the lock ---------------------------------------------------------------------------------------------- */

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

/* Takes the descriptor away from the file that was not used for the longest time, when more than `most` are open; -1 when there
   is none to take. The caller closes it. */
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

/* Counts one user more of an open file. */
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

/* Opens a file, and where the process has no descriptor left, closes one of the pool for it. */
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

static coffer_status pool_check_same(const coffer__pooled *file, int fd, coffer_error *err)
{
    const coffer__os_info *seen = &file->seen;
    coffer__os_info now;
    const int os_error = coffer__os_inspect_fd(fd, &now);
    if (os_error != 0) {
        return coffer__trouble(err, "examine the file again", NULL, os_error);
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

/* Opens a file that is closed, and leaves it to whoever came first when several threads do. */
static coffer_status pool_open_again(coffer__pooled *file, int *fd, coffer_error *err)
{
    coffer__pool *pool = file->pool;
    int opened = -1;
    const int os_error = pool_open(pool, file->path, &opened);
    if (os_error != 0) {
        return coffer__trouble(err, "open the file again", NULL, os_error);
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

void coffer__pool_drop(coffer__pooled *file)
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
