/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are open only while somebody reads them, and a bounded number of them a while longer: a model of thousands
 * of files gets by with the descriptors of a process that may have few.
 *
 * A pooled file is opened once to be looked at, and again whenever it is used and not open. It must then be the same
 * file, of the same size and time of change: else the use fails with COFFER_ERR_CHANGED. Any number of threads may use
 * the pool and its files. More than the bound are open only while more threads than that read at once.
 */
#ifndef COFFER_IO_POOL_H
#define COFFER_IO_POOL_H

#include "coffer.h"
#include "os.h"

typedef struct coffer__pool {
    coffer__mutex lock;
    const coffer_allocator *allocator; /* any number of threads may use it at once */
    size_t most;                       /* descriptors that are kept open */
    size_t open_count;                 /* under the lock, as all that follows */
    struct coffer__pooled *oldest;     /* of those that are open and not in use: the next to be closed */
    struct coffer__pooled *newest;     /* of those that are open and not in use: the last to be closed */
} coffer__pool;

/* A file of a pool, at the same place from coffer__pool_take until coffer__pool_close_file. */
typedef struct coffer__pooled {
    coffer__pool *pool;
    char *path; /* absolute, so that it leads to the same file whatever the working directory is */
    size_t path_size;
    coffer__os_info seen; /* what lay there when it was opened first */
    int fd;               /* -1: closed; under the pool's lock, as all that follows */
    unsigned users;
    struct coffer__pooled *older; /* neighbours among those that are open and not in use */
    struct coffer__pooled *newer;
} coffer__pooled;

/* 0, or an errno. */
int coffer__pool_init(coffer__pool *pool, size_t most, const coffer_allocator *allocator);
/* When every file was dropped. */
void coffer__pool_close(coffer__pool *pool);
/* Opens the file, which is no symbolic link, and takes it into the pool, in use: *fd is its descriptor until
   coffer__pool_release. On failure, which is an errno, there is nothing to drop. */
int coffer__pool_take(coffer__pool *pool, coffer__pooled *file, const char *path, int *fd);
/* The descriptor of a file, opened again where need be, until coffer__pool_release. */
coffer_status coffer__pool_acquire(coffer__pooled *file, int *fd, coffer_error *err);
void coffer__pool_release(coffer__pooled *file);
/* Closes a file that is not in use, for good. */
void coffer__pool_close_file(coffer__pooled *file);

#endif
