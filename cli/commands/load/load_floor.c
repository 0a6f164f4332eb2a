/* SPDX-License-Identifier: Apache-2.0 */
/* What load_floor.h declares. Plain reads by threads, and nothing of the library's own engines: a yardstick that was made
   by what it measures would prove nothing. */
#define _GNU_SOURCE 1 /* O_DIRECT */
#include "load_floor.h"

#include "cli_parallel.h"
#include "cli_text.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef O_DIRECT
#define O_DIRECT 0 /* then `direct` is not measured: see load_floor */
#endif

#define FLOOR_READ ((size_t)2 << 20)
#define FLOOR_MAX ((uint64_t)1 << 30)
#define FLOOR_MIN ((uint64_t)128 << 20) /* with less, starting threads takes longer than reading */
#define FLOOR_ALIGNMENT 4096
#define FLOOR_DISK_THREADS 16 /* as many requests keep a disk busy */

/* One file is read in pieces, every `step`th of them. A piece is long enough for the count of all of them to stay far
   below 2^32. */
typedef struct floor_run {
    int fd;
    uint64_t pieces;
    uint64_t step;
    atomic_uint next; /* counts pieces, since not every machine counts bytes in one step */
    atomic_uint done;
} floor_run;

/* Who cannot have a buffer leaves the pieces to the others. Only whole pieces count: what failed was not brought. */
static void *read_pieces(void *ctx)
{
    floor_run *run = ctx;
    void *buffer = NULL;
    if (posix_memalign(&buffer, FLOOR_ALIGNMENT, FLOOR_READ) != 0) {
        return NULL;
    }
    for (;;) {
        const uint64_t piece = (uint64_t)atomic_fetch_add(&run->next, 1) * run->step;
        if (piece >= run->pieces) {
            break;
        }
        if (pread(run->fd, buffer, FLOOR_READ, (off_t)(piece * FLOOR_READ)) == (ssize_t)FLOOR_READ) {
            atomic_fetch_add(&run->done, 1);
        }
    }
    free(buffer);
    return NULL;
}

/* The calling thread is one of them, so a lack of threads only makes it slower. The descriptor is shared, which is
   safe: each read names its own place. */
static void read_file(floor_run *run, size_t threads)
{
    pthread_t others[FLOOR_DISK_THREADS];
    size_t started = 0;
    while (started + 1 < threads && pthread_create(&others[started], NULL, read_pieces, run) == 0) {
        started++;
    }
    (void)read_pieces(run);
    for (size_t i = 0; i < started; i++) {
        pthread_join(others[i], NULL);
    }
}

static uint64_t total_size(const coffer *model)
{
    uint64_t size = 0;
    for (size_t i = 0; i < coffer_shard_count(model); i++) {
        size += coffer_shard_size(model, i);
    }
    return size;
}

/* Adds what was read of one file. Through the page cache a thread copies, so more of them than processors only
   disturb each other; those that wait for the disk do not. */
static uint64_t measure_file(const coffer *model, size_t shard, bool direct, uint64_t step)
{
    const size_t processors = cli_processors();
    const size_t most = processors < FLOOR_DISK_THREADS ? processors : FLOOR_DISK_THREADS;
    const int fd = open(coffer_shard_path(model, shard), O_RDONLY | O_CLOEXEC | (direct ? O_DIRECT : 0));
    if (fd < 0) {
        return 0;
    }
    /* The last piece may end within a block, which direct reading need not allow. */
    floor_run run = { .fd = fd, .pieces = coffer_shard_size(model, shard) / FLOOR_READ, .step = step };
    read_file(&run, direct ? FLOOR_DISK_THREADS : most);
    close(fd);
    return (uint64_t)atomic_load(&run.done) * FLOOR_READ;
}

/* At most FLOOR_MAX is read, spread over all of the files: so a disk is measured where the model is, and a large
   model costs no more than a small one. */
double load_floor(const coffer *model, bool direct)
{
    const uint64_t size = total_size(model);
    const uint64_t step = size / FLOOR_MAX + 1;
    const double begin = cli_seconds();
    uint64_t done = 0;
    if (size < FLOOR_MIN) {
        return 0;
    }
    for (size_t i = 0; i < coffer_shard_count(model) && (!direct || O_DIRECT != 0); i++) {
        done += measure_file(model, i, direct, step);
    }
    const double seconds = cli_seconds() - begin;
    return done > 0 && seconds > 0 ? (double)done / seconds : 0;
}

/* A file that cannot be opened, or a name that is no file here, counts as not evicted. */
bool load_evict(const coffer *model)
{
    bool evicted = true;
    for (size_t i = 0; i < coffer_shard_count(model); i++) {
        const int fd = open(coffer_shard_path(model, i), O_RDONLY | O_CLOEXEC);
        /* Pages that were not written yet cannot be forgotten. */
        bool gone = fd >= 0 && fdatasync(fd) == 0;
        gone = gone && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0;
        evicted = evicted && gone;
        if (fd >= 0) {
            close(fd);
        }
    }
    return evicted;
}
