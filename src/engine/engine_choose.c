/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which engine reads a source:
 *
 *     the source is no file of this system                               source
 *     the results can be views, it is on a disk of this system or in     mapped
 *     memory, and nobody else may write it
 *     little of it is wanted                                             source
 *     it lies in memory (tmpfs)                                          buffered
 *     it lies behind a network, or in user space (FUSE)                  buffered, by more threads
 *     others read it too, or it was written a moment ago                 buffered
 *     nine tenths of what is wanted are in the page cache                buffered
 *     it can be read past the page cache                                 ring, or direct where io_uring is refused;
 *                                                                        mixed when a part of it is cached
 *     else                                                               buffered, leaving nothing in the page cache when
 *                                                                        it would fill much of the memory
 *
 * Whether the bytes are cached is asked before anything else touches the file, since that may start reading ahead.
 */
#include "engine_own.h"

#include "error.h"

#include <errno.h>

/* Below this much opening the file again and asking about it costs more than it can save. */
#define CHOOSE_LITTLE ((uint64_t)4 << 20)
#define CHOOSE_MIN_MAP ((uint64_t)2 << 20) /* less is copied as fast: libc has the memory at hand */
#define CHOOSE_PROBES 64u
/* Of a hundred bytes, so many in the page cache make a file warm. */
#define CHOOSE_WARM 90u
#define CHOOSE_CHUNK ((uint32_t)2 << 20)
#define CHOOSE_FAR_CHUNK ((uint32_t)8 << 20)
/* Reads in progress, all in all, to begin with. */
#define CHOOSE_DEPTH 16u
#define CHOOSE_MAP_THREADS 4u
#define CHOOSE_MAP_ALIGNMENT 16u /* the largest that a dtype wants */

/* 0: the pages of a map can be read in, with a failure that is told. */
static int choose_populates(void)
{
    void *page = coffer__os_pages_new(coffer__os_page_size());
    if (page == NULL) {
        return ENOMEM;
    }
    const int os_error = coffer__os_map_populate(page, 1);
    coffer__os_pages_free(page, coffer__os_page_size());
    return os_error;
}

/* The ring is opened and closed again, because nothing else tells whether it works: a system may have it and a filter
   refuse it. Readers open their own later, each in its thread. */
void coffer__engine_facts_get(coffer__engine_facts *facts)
{
    coffer__os_ring ring;
    facts->ring = coffer__os_ring_open(&ring, 1);
    if (facts->ring == 0) {
        coffer__os_ring_close(&ring);
    }
    facts->populate = choose_populates();
    facts->processors = coffer__os_processors();
    facts->memory = coffer__os_memory_available();
}

/* Everything that one choice needs. The file reader is filled as far as is known, so that each step sees what the ones
   before have found. */
typedef struct choose_job {
    coffer__file_reader *file_reader;
    const coffer__engine_wish *wish;
    const coffer__engine_facts *facts;
    coffer__os_storage storage;
    unsigned cached;  /* how many of a hundred bytes are in the page cache */
    int direct_error; /* why there is no direct reading; 0: there is, or it was not tried */
} choose_job;

static uint32_t choose_at_most(uint32_t one, uint32_t other)
{
    return one < other ? one : other;
}

/* ---- how each engine is set up ------------------------------------------------------------------------------------ */

/* Threads that copy out of the page cache, or decode, use a processor each; those that wait for a server do not. This
   is also the ground for the engines that read files: they replace what is different. */
static void choose_source(const choose_job *job)
{
    coffer__file_reader *file_reader = job->file_reader;
    const bool far = file_reader->source->is.far;
    file_reader->engine = &coffer__engine_source;
    file_reader->threads = far ? CHOOSE_DEPTH : choose_at_most(job->facts->processors, CHOOSE_DEPTH);
    file_reader->chunk = far ? CHOOSE_FAR_CHUNK : CHOOSE_CHUNK;
}

/* What is not in the page cache is waited for, too. What is there stays there: only the system's own way of leaving
   nothing spares it. Where the second descriptor could not be opened, the source's own reading stays, which needs
   none. The pages of tmpfs are the file itself, so that all that is read there counts as cached. */
static void choose_buffered(const choose_job *job, bool leave)
{
    coffer__file_reader *file_reader = job->file_reader;
    const bool far = job->storage == COFFER__OS_NETWORK || job->storage == COFFER__OS_USER;
    const bool waits = far || (job->storage == COFFER__OS_LOCAL && job->cached < CHOOSE_WARM);
    choose_source(job);
    if (file_reader->buffered < 0) {
        return;
    }
    file_reader->engine = &coffer__engine_buffered;
    file_reader->mixed = job->cached > 0;
    file_reader->resident = job->storage == COFFER__OS_MEMORY;
    file_reader->leave = leave && (job->cached == 0 || coffer__os_uncached_works(file_reader->buffered) == 0);
    file_reader->unshared = job->storage == COFFER__OS_USER;
    file_reader->threads = waits ? CHOOSE_DEPTH : file_reader->threads;
    file_reader->chunk = far ? CHOOSE_FAR_CHUNK : CHOOSE_CHUNK;
}

/* As many threads as there are processors, since entering pages is work. Each has one stretch of read-ahead in progress, and
   a disk wants several: below four it is not kept busy. */
static void choose_mapped(const choose_job *job)
{
    coffer__file_reader *file_reader = job->file_reader;
    choose_buffered(job, false);
    file_reader->engine = &coffer__engine_mapped;
    file_reader->warm = file_reader->resident || job->cached >= CHOOSE_WARM;
    file_reader->threads = job->facts->processors < CHOOSE_MAP_THREADS
                               ? CHOOSE_MAP_THREADS
                               : choose_at_most(job->facts->processors, CHOOSE_DEPTH);
}

/* One thread can keep a disk busy by io_uring, but it also has to bring new pages of memory into being, and to
   deliver what comes: two are faster even with two processors. The depth is shared out among the threads, so that the
   disk sees as many reads at once as it would of the other engines. */
static void choose_ring(const choose_job *job)
{
    coffer__file_reader *file_reader = job->file_reader;
    file_reader->engine = &coffer__engine_ring;
    file_reader->threads = choose_at_most(1 + (job->facts->processors + 2) / 4, 4);
    file_reader->depth = CHOOSE_DEPTH / file_reader->threads;
}

/* Each thread has one read in progress, so it takes as many threads as the disk should have reads. */
static void choose_direct(const choose_job *job)
{
    job->file_reader->engine = &coffer__engine_direct;
    job->file_reader->threads = CHOOSE_DEPTH;
}

/* ---- what is known ----------------------------------------------------------------------------------------------- */

/* What is more than a quarter of the memory is better not kept in the page cache. Where the system does not say how
   much memory it has, nothing counts as large, and the page cache is used as usual. */
static bool choose_is_large(const choose_job *job)
{
    return job->facts->memory != 0 && job->wish->planned > job->facts->memory / 4;
}

/* Where probe `i` looks. Without offsets of the caller's the places are spread evenly over the source. They are
   places in the file, where the source may begin anywhere. */
static uint64_t choose_probe(const choose_job *job, size_t i, size_t count)
{
    const uint64_t offset =
        job->wish->probe_count > 0 ? job->wish->probes[i] : job->file_reader->source->size / count * i;
    return job->file_reader->base + offset;
}

/* How many of a hundred bytes are in the page cache. Where the system does not say, a file that would fill much of
   the memory counts as cold, any other as warm. A share that would round down to 0 counts as 1: the caller must know
   that something is there, because then cached bytes are taken from the cache and the rest is left as it is. */
static unsigned choose_residency(const choose_job *job)
{
    const size_t count = job->wish->probe_count > 0 ? job->wish->probe_count : CHOOSE_PROBES;
    size_t hits = 0;
    if (job->file_reader->buffered < 0) {
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        bool cached = false;
        if (coffer__os_is_cached(job->file_reader->buffered, choose_probe(job, i, count), &cached) != 0) {
            return choose_is_large(job) ? 0 : 100;
        }
        hits += cached;
    }
    return (unsigned)(hits * 100 / count) + (hits > 0 && hits * 100 < count);
}

/* Opens the descriptor through the page cache and looks what is there, or the one past it. Without /proc there are
   none, and everything is read through the source. A failure is one of the source itself. The descriptor that is
   borrowed may be a pool's and go to another file as soon as it is given back, so nothing of it is kept. The numbers
   of the file let readers with descriptors of their own notice that they came to another one. */
static coffer_status choose_open(choose_job *job, bool direct, coffer_error *err)
{
    coffer__file_reader *file_reader = job->file_reader;
    coffer__os_info info;
    int fd = -1;
    const coffer_status status = file_reader->source->ops->borrow(file_reader->source, &fd, &file_reader->base, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (direct) {
        job->direct_error = coffer__os_open_direct(fd, &file_reader->direct, &file_reader->block);
    } else {
        job->storage = coffer__os_storage_of(fd);
        (void)coffer__os_open_again(fd, &file_reader->buffered);
        if (coffer__os_inspect_fd(fd, &info) == 0) {
            file_reader->device = info.device;
            file_reader->inode = info.inode;
        }
        job->cached = job->storage == COFFER__OS_LOCAL ? choose_residency(job) : 0;
    }
    file_reader->source->ops->give_back(file_reader->source);
    return COFFER_OK;
}

/* Whether the file can be read past the page cache. A range of a file that begins in the middle of a block cannot,
   because then memory and file do not agree about where blocks begin. After a refusal the block is 1 again, so that
   nothing is rounded for an engine that does not need it. The error that is there before the descriptor is asked for
   stays only when the source could not lend one. */
static bool choose_can_be_direct(choose_job *job)
{
    coffer__file_reader *file_reader = job->file_reader;
    job->direct_error = EIO;
    (void)choose_open(job, true, NULL);
    if (file_reader->direct >= 0 && file_reader->base % file_reader->block == 0) {
        return true;
    }
    if (file_reader->direct >= 0) {
        (void)coffer__os_close(file_reader->direct);
        file_reader->direct = -1;
        job->direct_error = EINVAL;
    }
    file_reader->block = 1;
    return false;
}

/* Finds out which granules are in the page cache, as far as their first pages, those in the middle and the last ones
   tell. A granule is a number of chunks, and as large as it takes for all of the file to fit into the bits. Three
   pages may all be there by chance and the rest not; that costs time, as the page cache then reads the disk, but the
   bytes are right in any case. */
static void choose_look(coffer__file_reader *file_reader)
{
    const uint64_t end = file_reader->base + file_reader->source->size;
    file_reader->granule = (end / COFFER__FILE_READER_HELD / CHOOSE_CHUNK + 1) * CHOOSE_CHUNK;
    for (uint64_t i = 0; i * file_reader->granule < end; i++) {
        const uint64_t first = i * file_reader->granule;
        const uint64_t last = end - first < file_reader->granule ? end - 1 : first + file_reader->granule - 1;
        bool one = false;
        bool two = false;
        bool three = false;
        if (coffer__os_is_cached(file_reader->buffered, first, &one) == 0 && one &&
            coffer__os_is_cached(file_reader->buffered, first + (last - first) / 2, &two) == 0 && two &&
            coffer__os_is_cached(file_reader->buffered, last, &three) == 0 && three) {
            file_reader->held[i / 64] |= (uint64_t)1 << i % 64;
        }
    }
}

/* Whether somebody may be writing to the file. Direct reading then sees what was written already, but each read of
   such a stretch has to wait until it is on the disk. A file whose path leads elsewhere by now is being replaced, and
   its writer may still have its pages in memory. */
static bool choose_is_in_motion(const choose_job *job)
{
    const coffer__byte_source *source = job->file_reader->source;
    return source->is.untrusted || coffer__source_is_fresh(source) ||
           (job->wish->path != NULL && coffer__source_path_again(source, job->wish->path, NULL) != COFFER_OK);
}

/* Whether the file can be mapped. Where the bytes begin in it has to suit every dtype; a range of an archive may begin
   anywhere. */
static bool choose_can_map(const choose_job *job)
{
    const coffer__file_reader *file_reader = job->file_reader;
    return file_reader->source->is.maps && file_reader->base % CHOOSE_MAP_ALIGNMENT == 0;
}

/* Whether it is to be mapped where nobody asked for that by name. Other processes should not be able to change tensors of
   this one, and what comes over a network or from a program is better read in large pieces. Who leaves nothing in the
   page cache cannot have his results there. */
static bool choose_maps(const choose_job *job)
{
    return job->wish->views && !job->wish->uncached && !job->wish->shared && choose_can_map(job) &&
           !job->file_reader->source->is.untrusted &&
           (job->storage == COFFER__OS_LOCAL || job->storage == COFFER__OS_MEMORY);
}

/* ---- by name ----------------------------------------------------------------------------------------------------- */

/* The words go by what the system's answers mean for this call: a filter that hides it answers ENOSYS, as an old
   system does. */
const char *coffer__ring_advice(int os_error)
{
    switch (os_error) {
    case EPERM:
    case EACCES:
        return "a security profile of the container, or the setting kernel.io_uring_disabled, forbids it: allow the "
               "system calls io_uring_setup, io_uring_enter and io_uring_register";
    case ENOMEM:
        return "this process may lock too little memory: raise the limit (ulimit -l)";
    case EMFILE:
        return "this process has too many open files: raise the limit (ulimit -n)";
    default:
        return "this system has no io_uring, or a security profile hides it: use the engine \"direct\", which needs "
               "none";
    }
}

/* Three things can have gone wrong, and the state tells which: only the ring is asked for after the file was opened
   past the cache, and only a source that lends was tried at all. The order of the names is that of the public
   numbers. */
static coffer_status choose_fail(const choose_job *job, coffer_error *err)
{
    static const char *const names[] = { "auto", "buffered", "direct", "ring", "cufile", "mapped" };
    const char *name = names[job->wish->engine];
    if (job->file_reader->direct >= 0) {
        coffer__fail(
            err, COFFER_ERR_ENGINE, "the engine \"ring\" was asked for, but io_uring is refused: %s (errno %d); %s",
            coffer__os_words(job->facts->ring), (int64_t)job->facts->ring, coffer__ring_advice(job->facts->ring));
        return coffer__fail_errno(err, COFFER_ERR_ENGINE, job->facts->ring);
    }
    if (!job->file_reader->source->is.lends) {
        return coffer__fail(
            err, COFFER_ERR_ENGINE,
            "the engine \"%s\" was asked for, but %s is not a file of this system: use the engine \"auto\"", name,
            job->file_reader->source->ops->kind);
    }
    const bool never = job->direct_error == EINVAL || job->direct_error == EOPNOTSUPP;
    coffer__fail(
        err, COFFER_ERR_ENGINE,
        "the engine \"%s\" was asked for, but the file cannot be read past the page cache: %s (errno %d); use the "
        "engine \"auto\" or \"buffered\"%s",
        name, coffer__os_words(job->direct_error), (int64_t)job->direct_error,
        never ? ", or put the file on a file system with direct reading, such as ext4 or XFS" : "");
    return coffer__fail_errno(err, COFFER_ERR_ENGINE, job->direct_error);
}

static coffer_status choose_mapped_by_name(const choose_job *job, coffer_error *err)
{
    if (!job->file_reader->source->is.lends) {
        return choose_fail(job, err);
    }
    if (job->wish->uncached) {
        return coffer__fail(
            err, COFFER_ERR_ENGINE,
            "the engine \"mapped\" was asked for, which hands out the page cache, and nothing is to be left "
            "in the page cache: use the engine \"auto\"");
    }
    if (job->facts->populate != 0 || job->file_reader->buffered < 0 || !choose_can_map(job)) {
        return coffer__fail(err, COFFER_ERR_ENGINE,
                            "the engine \"mapped\" was asked for, but %s; use the engine \"auto\" or \"buffered\"",
                            job->facts->populate != 0 ? "this system cannot read in the pages of a map and say how it "
                                                        "went, which Linux can since 5.14"
                                                      : "the file cannot be mapped, or begins within another file at "
                                                        "an offset that does not suit its tensors");
    }
    choose_mapped(job);
    return COFFER_OK;
}

/* Who names an engine gets it or an error, never another one: a measurement would otherwise be of something else.
   cuFile needs the descriptor past the page cache too, and what it cannot read itself is read directly. */
static coffer_status choose_by_name(choose_job *job, coffer_error *err)
{
    coffer__file_reader *file_reader = job->file_reader;
    const coffer_engine engine = job->wish->engine;
    if (engine > COFFER_ENGINE_MAPPED) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "there is no engine %u", (uint64_t)engine);
    }
    const coffer_status status = file_reader->source->is.lends ? choose_open(job, false, err) : COFFER_OK;
    if (status != COFFER_OK) {
        return status;
    }
    if (engine == COFFER_ENGINE_BUFFERED) {
        choose_buffered(job, job->wish->uncached);
        return COFFER_OK;
    }
    if (engine == COFFER_ENGINE_MAPPED) {
        return choose_mapped_by_name(job, err);
    }
    if (!file_reader->source->is.lends || !choose_can_be_direct(job)) {
        return choose_fail(job, err);
    }
    if (engine != COFFER_ENGINE_RING) {
        choose_direct(job);
        return COFFER_OK;
    }
    if (job->facts->ring != 0) {
        return choose_fail(job, err);
    }
    choose_ring(job);
    return COFFER_OK;
}

/* ---- by what is known -------------------------------------------------------------------------------------------- */

/* Of a small load the copy, and the memory for it, would cost more than all else. The file is not opened again for the map,
   and not probed: each request asks whether it is cached. */
static void choose_little(choose_job *job)
{
    coffer__file_reader *file_reader = job->file_reader;
    int fd = -1;
    choose_source(job);
    if (!file_reader->source->is.lends || job->wish->planned < CHOOSE_MIN_MAP || !job->wish->views ||
        file_reader->source->ops->borrow(file_reader->source, &fd, &file_reader->base, NULL) != COFFER_OK) {
        return;
    }
    job->storage = coffer__os_storage_of(fd);
    file_reader->source->ops->give_back(file_reader->source);
    if (choose_maps(job) && choose_populates() == 0) {
        file_reader->engine = &coffer__engine_mapped;
        file_reader->warm = true;
        file_reader->threads = 1;
    }
}

/* Each line of the table above is a step, and the cheapest questions come first. */
static void choose_by_facts(choose_job *job)
{
    coffer__file_reader *file_reader = job->file_reader;
    if (!file_reader->source->is.lends || (job->wish->planned < CHOOSE_LITTLE && !job->wish->uncached)) {
        choose_little(job);
        return;
    }
    (void)choose_open(job, false, NULL); /* what fails here fails again when it is read, with its reason */
    if (job->facts->populate == 0 && file_reader->buffered >= 0 && choose_maps(job)) {
        choose_mapped(job);
        return;
    }
    if (file_reader->buffered < 0 || job->storage != COFFER__OS_LOCAL || job->wish->shared ||
        choose_is_in_motion(job)) {
        choose_buffered(job, job->wish->uncached && job->storage != COFFER__OS_MEMORY);
        return;
    }
    if (job->cached >= CHOOSE_WARM) {
        choose_buffered(job, job->wish->uncached);
        return;
    }
    if (!choose_can_be_direct(job)) {
        choose_buffered(job, job->wish->uncached || choose_is_large(job));
        return;
    }
    file_reader->mixed = job->cached > 0;
    if (file_reader->mixed) {
        choose_look(file_reader);
    }
    if (job->facts->ring == 0) {
        choose_ring(job);
    } else {
        choose_direct(job);
    }
}

/* By facts nothing can fail, since the source itself reads whatever else is refused. By name a descriptor may be open
   when a later step fails, so the file reader is closed. */
coffer_status coffer__file_reader_open(coffer__file_reader *file_reader, const coffer__byte_source *source,
                                       const coffer__engine_wish *wish, const coffer__engine_facts *facts,
                                       coffer_error *err)
{
    *file_reader = (coffer__file_reader){
        .source = source, .block = 1, .depth = 1, .chunk = CHOOSE_CHUNK, .direct = -1, .buffered = -1
    };
    choose_job job = { .file_reader = file_reader, .wish = wish, .facts = facts };
    if (wish->engine == COFFER_ENGINE_AUTO) {
        choose_by_facts(&job);
        return COFFER_OK;
    }
    const coffer_status status = choose_by_name(&job, err);
    if (status != COFFER_OK) {
        coffer__file_reader_close(file_reader);
    }
    return status;
}

/* It may be closed again, or asked for a range, without harm: what it says then is that there are no descriptors and
   no blocks. */
void coffer__file_reader_close(coffer__file_reader *file_reader)
{
    if (file_reader->direct >= 0) {
        (void)coffer__os_close(file_reader->direct);
    }
    if (file_reader->buffered >= 0) {
        (void)coffer__os_close(file_reader->buffered);
    }
    file_reader->direct = -1;
    file_reader->buffered = -1;
    file_reader->block = 1;
}
