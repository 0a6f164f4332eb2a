/* SPDX-License-Identifier: Apache-2.0 */
/* What loading may use on this machine: devices, what there is of the system, and what a file system can do. */
#include "coffer.h"
#include "driver.h"
#include "engine.h"
#include "errno_status.h"
#include "error.h"
#include "libc_allocator.h"
#include "text.h"

#include <string.h>

/* A list in progress. */
typedef struct facility_list {
    const coffer_allocator *allocator;
    coffer_facility_visitor visit;
    void *ctx;
    bool ended; /* the visitor wants no more */
    coffer_error *err;
    coffer_error detail; /* where texts with numbers in them are made */
} facility_list;

/* Whoever has seen enough is not called again, and the functions that ask need not know of that. */
static void facility_tell(facility_list *list, const char *name, bool usable, const char *detail, const char *advice)
{
    if (!list->ended) {
        list->ended = list->visit(list->ctx, &(coffer_facility){ name, usable, detail, advice }) != 0;
    }
}

/* One that depends on whether the system refused something. The only sure way to know whether the system lets this
   process do something is to try it; a version number says nothing of containers that forbid it. */
static void facility_tell_tried(facility_list *list, const char *name, int os_error, const char *detail,
                                const char *advice)
{
    if (os_error == 0) {
        facility_tell(list, name, true, detail, "");
        return;
    }
    (void)coffer__fail(&list->detail, COFFER_ERR_IO, "%s (errno %d)", coffer__os_words(os_error), (int64_t)os_error);
    facility_tell(list, name, false, list->detail.message, advice);
}

/* ---- the system -------------------------------------------------------------------------------------------------- */

static void facility_host(facility_list *list)
{
    const unsigned processors = coffer__os_processors();
    const char *plural = processors == 1 ? "" : "s";
    const uint64_t tenths = coffer__os_memory_total() / 100000000; /* of a gigabyte; 0: not known */
    if (tenths == 0) {
        (void)coffer__fail(&list->detail, COFFER_ERR_IO, "%u processor%s", (uint64_t)processors, plural);
    } else {
        (void)coffer__fail(&list->detail, COFFER_ERR_IO, "%u processor%s, %u.%u GB of memory", (uint64_t)processors,
                           plural, tenths / 10, tenths % 10);
    }
    facility_tell(list, "cpu", true, list->detail.message, "");
}

static void facility_ring(facility_list *list)
{
    coffer__os_ring ring;
    const int os_error = coffer__os_ring_open(&ring, 1);
    if (os_error == 0) {
        coffer__os_ring_close(&ring);
    }
    facility_tell_tried(list, "io_uring", os_error, "many reads at once by one thread", coffer__ring_advice(os_error));
}

/* The words of this file are "always [madvise] never": the one in brackets holds. */
static void facility_huge_pages(facility_list *list)
{
    char text[128] = "";
    size_t size = 0;
    int fd = -1;
    const int os_error = coffer__os_open("/sys/kernel/mm/transparent_hugepage/enabled", COFFER__OS_READ, true, &fd);
    if (os_error == 0) {
        (void)coffer__os_read_at(fd, 0, text, sizeof text - 1, &size);
        (void)coffer__os_close(fd);
    }
    const bool usable = strstr(text, "[always]") != NULL || strstr(text, "[madvise]") != NULL;
    facility_tell(list, "huge pages", usable,
                  usable ? "memory that is filled fast" : "the system gives none: filling fresh memory takes longer",
                  usable ? "" : "write madvise to /sys/kernel/mm/transparent_hugepage/enabled");
}

/* Registering memory with io_uring counts against the limit; with a device it does so for some drivers. */
static void facility_locked_memory(facility_list *list)
{
    const uint64_t most = coffer__os_memory_lockable();
    const bool usable = most >= (uint64_t)64 << 20;
    if (most == UINT64_MAX) {
        facility_tell(list, "locked memory", true, "without a limit", "");
        return;
    }
    (void)coffer__fail(&list->detail, COFFER_ERR_IO, "at most %z", most);
    facility_tell(list, "locked memory", usable, list->detail.message,
                  usable ? "" : "raise the limit (ulimit -l): each read then costs a little less");
}

/* ---- a file system ----------------------------------------------------------------------------------------------- */

static const char *facility_storage_words(coffer__os_storage storage)
{
    switch (storage) {
    case COFFER__OS_MEMORY:
        return "memory (tmpfs): files are read by copying";
    case COFFER__OS_NETWORK:
        return "a network file system: many large reads at once, through the page cache";
    case COFFER__OS_USER:
        return "a file system in user space (FUSE): many large reads at once, through the page cache";
    default:
        return "a disk of this system";
    }
}

/* All of these are asked of an open file, since the answers differ between file systems and not between machines. */
static void facility_of_file(facility_list *list, int fd)
{
    uint32_t block = 1;
    int direct = -1;
    bool cached = false;
    facility_tell(list, "storage", true, facility_storage_words(coffer__os_storage_of(fd)), "");
    const int os_error = coffer__os_open_direct(fd, &direct, &block);
    if (os_error == 0) {
        (void)coffer__os_close(direct);
    }
    (void)coffer__fail(&list->detail, COFFER_ERR_IO, "by blocks of %u bytes", (uint64_t)block);
    facility_tell_tried(list, "direct reading", os_error, list->detail.message,
                        "put the files on a file system that can be read past the page cache, such as ext4 or XFS");
    facility_tell_tried(list, "uncached reading", coffer__os_uncached_works(fd),
                        "reads through the page cache that leave nothing in it", "it needs Linux 6.14 and ext4 or XFS");
    facility_tell_tried(list, "page cache", coffer__os_is_cached(fd, 0, &cached),
                        "the system says which bytes are in it",
                        "without that, a file that would fill a quarter of the memory counts as not cached");
}

/* The first regular file of a folder, which stands for its file system. */
typedef struct facility_folder {
    const char *path;
    int fd;
} facility_folder;

/* It says whether the list should go on, and ends it with the first file that can be opened. Names that are too
   long for the buffer are passed over. */
static bool facility_see_name(void *ctx, const char *name)
{
    facility_folder *folder = ctx;
    char path[4096];
    const size_t path_len = coffer__text_len(folder->path);
    const size_t name_len = coffer__text_len(name);
    coffer__os_info info;
    if (name_len + 2 > sizeof path || path_len > sizeof path - name_len - 2) {
        return true;
    }
    memcpy(path, folder->path, path_len);
    path[path_len] = '/';
    memcpy(path + path_len + 1, name, name_len + 1);
    return coffer__os_inspect(path, true, &info) != 0 || info.kind != COFFER__OS_REGULAR ||
           coffer__os_open(path, COFFER__OS_READ, true, &folder->fd) != 0;
}

/* What can be done with a file depends on its file system, and some of it on the file, so a folder is asked by one of
   its files. That there is none is no failure: the rest of the list stays true. */
static coffer_status facility_path(facility_list *list, const char *path)
{
    coffer__os_info info;
    facility_folder folder = { path, -1 };
    int os_error = coffer__os_inspect(path, true, &info);
    if (os_error == 0 && info.kind == COFFER__OS_DIRECTORY) {
        os_error = coffer__os_list(path, facility_see_name, &folder);
    } else if (os_error == 0) {
        os_error = coffer__os_open(path, COFFER__OS_READ, true, &folder.fd);
    }
    if (os_error != 0) {
        return coffer__errno_status(list->err, "examine it", path, os_error);
    }
    if (folder.fd < 0) {
        facility_tell(list, "storage", false, "the folder has no file that could be asked",
                      "name a file, or a folder that has one");
        return COFFER_OK;
    }
    facility_of_file(list, folder.fd);
    (void)coffer__os_close(folder.fd);
    return COFFER_OK;
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

/* A vendor whose driver is not installed lists that it is not, which is no failure. */
static coffer_status facility_devices(facility_list *list)
{
    static const coffer__vendor *const vendors[] = { &coffer__cuda, &coffer__hip };
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < sizeof vendors / sizeof vendors[0] && status == COFFER_OK && !list->ended; i++) {
        status = coffer__driver_list(vendors[i], list->allocator, list->visit, list->ctx, &list->ended, list->err);
    }
    return status;
}

coffer_status coffer_list_facilities(const char *path, const coffer_allocator *allocator, coffer_facility_visitor visit,
                                     void *ctx, coffer_error *err)
{
    if (visit == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "coffer_list_facilities wants a visitor");
    }
    facility_list list = { .allocator = coffer__allocator_or_libc(allocator), .visit = visit, .ctx = ctx, .err = err };
    facility_host(&list);
    const coffer_status status = facility_devices(&list);
    if (status != COFFER_OK) {
        return status;
    }
    facility_ring(&list);
    facility_locked_memory(&list);
    facility_huge_pages(&list);
    return path == NULL || list.ended ? COFFER_OK : facility_path(&list, path);
}
