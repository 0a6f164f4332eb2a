/* SPDX-License-Identifier: Apache-2.0 */
/* What the system has for reading in bulk: one function for each thing, which tries it and tells the visitor. */
#include "means.h"

#include "error.h"
#include "os.h"
#include "paths.h"
#include "trouble.h"

#include <errno.h>
#include <string.h>

/* What a window usually has; registering it takes as much locked memory. */
#define MEANS_WINDOW ((size_t)64 << 20)

typedef struct means {
    coffer_facility_visitor visit;
    void *ctx;
    bool ended;
} means;

/* Tells the visitor of one thing. Details with figures in them are the messages of errors, since coffer__fail formats. */
static void means_tell(means *list, const char *name, bool usable, const char *detail, const char *advice)
{
    if (!list->ended) {
        list->ended = list->visit(list->ctx, &(coffer_facility){ name, usable, detail, advice }) != 0;
    }
}

/* Of something that is refused with an errno. */
static void means_tell_refused(means *list, const char *name, int os_error, const char *advice)
{
    coffer_error text;
    (void)coffer__fail(&text, COFFER_ERR_IO, "refused: %s (errno %d)", coffer__os_words(os_error), (int64_t)os_error);
    means_tell(list, name, false, text.message, advice);
}

const char *coffer__means_ring_advice(int os_error)
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
        return "this system has no io_uring, or a security profile hides it: the engine \"direct\" needs none";
    }
}

/* ---- of the system ------------------------------------------------------------------------------------------------ */

/* Registering is tried, since a privilege may lift the limit. */
static void means_locked_memory(means *list, coffer__os_ring *ring)
{
    const uint64_t limit = coffer__os_memory_lockable();
    void *pages = coffer__os_pages_new(MEANS_WINDOW);
    const bool fits = ring == NULL ? limit >= MEANS_WINDOW
                                   : pages != NULL && coffer__os_ring_register(ring, pages, MEANS_WINDOW) == 0;
    coffer_error text;
    if (limit == UINT64_MAX) {
        (void)coffer__fail(&text, COFFER_ERR_IO, "no limit");
    } else {
        (void)coffer__fail(&text, COFFER_ERR_IO, "the limit is %z%s", limit,
                           fits && limit < MEANS_WINDOW ? ", which does not hold for this process" : "");
    }
    means_tell(list, "locked memory", fits, text.message, fits ? "" : "raise the limit (ulimit -l)");
    if (pages != NULL) {
        coffer__os_pages_free(pages, MEANS_WINDOW);
    }
}

static void means_ring(means *list)
{
    coffer__os_ring ring;
    const int os_error = coffer__os_ring_open(&ring, 1);
    if (os_error != 0) {
        means_tell_refused(list, "io_uring", os_error, coffer__means_ring_advice(os_error));
        means_locked_memory(list, NULL);
        return;
    }
    means_tell(list, "io_uring", true, "it works", "");
    means_locked_memory(list, &ring);
    coffer__os_ring_close(&ring);
}

static void means_huge_pages(means *list)
{
    const coffer__os_huge huge = coffer__os_huge_pages();
    static const char *const details[] = { "the system does not say", "switched off", "on request",
                                           "wherever they fit" };
    const bool usable = huge > COFFER__OS_HUGE_NEVER;
    means_tell(
        list, "huge pages", usable, details[huge],
        huge == COFFER__OS_HUGE_NEVER
            ? "write \"madvise\" to /sys/kernel/mm/transparent_hugepage/enabled: disks and devices are faster with "
              "memory in large pieces"
            : "");
}

/* ---- of a file ---------------------------------------------------------------------------------------------------- */

static void means_direct(means *list, int fd)
{
    int direct = -1;
    uint32_t block = 0;
    coffer_error text;
    const int os_error = coffer__os_open_direct(fd, &direct, &block);
    if (os_error != 0) {
        means_tell_refused(list, "direct reading", os_error,
                           "put the file on a file system with direct reading, such as ext4 or XFS");
        return;
    }
    (void)coffer__os_close(direct);
    (void)coffer__fail(&text, COFFER_ERR_IO, "in blocks of %u bytes", (uint64_t)block);
    means_tell(list, "direct reading", true, text.message, "");
}

static void means_cache(means *list, int fd)
{
    bool cached = false;
    const int os_error = coffer__os_is_cached(fd, 0, &cached);
    if (os_error == 0) {
        means_tell(list, "page cache", true, "the system says what is in it", "");
    } else {
        means_tell_refused(list, "page cache", os_error,
                           "nothing: a large file then counts as not cached, any other as cached");
    }
}

static void means_uncached(means *list, int fd)
{
    const int os_error = coffer__os_uncached_works(fd);
    if (os_error == 0) {
        means_tell(list, "reading without caching", true, "by the system", "");
    } else {
        means_tell_refused(list, "reading without caching", os_error,
                           "nothing, where there is direct reading; else Linux 6.14 has it for ext4, XFS and Btrfs");
    }
}

static void means_storage(means *list, int fd)
{
    static const char *const details[] = { "a disk of this system", "memory", "a network file system",
                                           "a file system in user space (FUSE)" };
    means_tell(list, "storage", true, details[coffer__os_storage_of(fd)], "");
}

/* The first file of a folder, in no order. */
typedef struct means_file {
    const char *folder;
    coffer__path path;
    bool found;
} means_file;

static bool means_see(void *ctx, const char *name)
{
    means_file *file = ctx;
    coffer__os_info info;
    file->found = coffer__path_copy(&file->path, file->folder) && coffer__path_append(&file->path, "/", 1) &&
                  coffer__path_append(&file->path, name, strlen(name)) &&
                  coffer__os_inspect(file->path.text, true, &info) == 0 && info.kind == COFFER__OS_REGULAR;
    return !file->found;
}

static coffer_status means_open(const char *path, int *fd, bool *found, coffer_error *err)
{
    means_file file = { .folder = path };
    coffer__os_info info;
    int os_error = coffer__os_inspect(path, true, &info);
    if (os_error == 0 && info.kind == COFFER__OS_DIRECTORY) {
        os_error = coffer__os_list(path, means_see, &file);
        path = file.path.text;
    } else {
        file.found = true;
    }
    *found = file.found;
    if (os_error == 0 && file.found) {
        os_error = coffer__os_open(path, COFFER__OS_READ, true, fd);
    }
    return os_error == 0 ? COFFER_OK : coffer__trouble(err, "open the file to try it", path, os_error);
}

coffer_status coffer__means_list(const char *path, coffer_facility_visitor visit, void *ctx, bool *ended,
                                 coffer_error *err)
{
    means list = { .visit = visit, .ctx = ctx };
    int fd = -1;
    bool found = false;
    if (path != NULL) {
        const coffer_status status = means_open(path, &fd, &found, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    means_ring(&list);
    means_huge_pages(&list);
    if (found) {
        means_storage(&list, fd);
        means_direct(&list, fd);
        means_cache(&list, fd);
        means_uncached(&list, fd);
        (void)coffer__os_close(fd);
    }
    *ended = list.ended;
    return COFFER_OK;
}
