/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operating system: removing the last name of a large file without waiting until the system has freed
 * its page cache and its blocks, which can take longer than writing the new file.
 *
 * A file is freed by whoever drops the last reference to it. So a page of it is mapped before the name goes,
 * which keeps it alive, and a thread that outlives the call unmaps the page and thereby frees the file. If
 * anything about that fails, the page is unmapped within the call: it takes longer, and nothing else.
 */
#include "os_posix.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#ifndef COFFER_NO_DLOPEN
#include <dlfcn.h>
#ifdef __GLIBC__
#include <link.h>
#endif
#endif

/* Freeing a smaller file takes no longer than starting a thread does. */
#define OS_LARGE_FILE ((uint64_t)32 << 20)

#ifdef MADV_DONTFORK

/* Whether freeing the file takes long, and the device has space for another one of its size before
   that is done. A file with other names is not freed at all. Blocks count, not the length: a sparse
   file is freed quickly. st_blocks is in units of 512 bytes on every file system. */
static bool os_is_large(int fd)
{
    struct stat info;
    struct statvfs device;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_nlink != 1 || fstatvfs(fd, &device) != 0) {
        return false;
    }
    const uint64_t size = (uint64_t)info.st_blocks * 512;
    /* A file system in user space (FUSE) may report blocks of size 0, by which one cannot divide. */
    return size >= OS_LARGE_FILE && device.f_frsize > 0 && size / device.f_frsize < device.f_bavail;
}

/* Maps one page of the file, which nobody ever touches; NULL if there is no need, or no way. As
   long as it is mapped, the file exists. A descriptor would do that too, but a child process forked
   in the meantime would inherit it and keep the file for as long as it lives. A map can be excluded
   from fork. */
static void *os_hold(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return NULL;
    }
    void *page = os_is_large(fd) ? mmap(NULL, 1, PROT_NONE, MAP_SHARED, fd, 0) : MAP_FAILED;
    (void)close(fd);
    if (page == MAP_FAILED) {
        return NULL;
    }
    if (madvise(page, 1, MADV_DONTFORK) != 0) {
        (void)munmap(page, 1);
        return NULL;
    }
    return page;
}

/* The thread runs code of this library, which may be part of a shared object that the program
   unloads after the call has returned: then the thread would run into unmapped memory. So the
   object that contains this code is marked never to be unloaded. False where that is impossible;
   then no thread is used. The program itself has an empty name and is never unloaded. */
static bool os_stays_loaded(void)
{
#if defined(__GLIBC__) && !defined(COFFER_NO_DLOPEN)
    static const char here = 0;
    Dl_info info;
    void *found = NULL;
    if (dladdr1(&here, &info, &found, RTLD_DL_LINKMAP) == 0) {
        return false;
    }
    const struct link_map *object = found;
    if (object->l_name[0] == '\0') {
        return true;
    }
    void *handle = dlopen(object->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    if (handle == NULL) {
        return false;
    }
    (void)dlclose(handle);
    return true;
#else
    return false;
#endif
}

/* All that the thread does; it allocates nothing and takes no locks of the program. */
static void *os_unmap_apart_main(void *page)
{
    (void)munmap(page, 1);
    return NULL;
}

/* Detached: nobody waits for the thread, and a process that ends does so without it. */
static void os_unmap_apart(void *page)
{
    pthread_t thread;
    if (os_stays_loaded() && coffer__os_thread_create(&thread, NULL, os_unmap_apart_main, page) == 0) {
        (void)pthread_detach(thread);
    } else {
        (void)munmap(page, 1);
    }
}

int coffer__os_rename_without_wait(const char *from, const char *to)
{
    void *replaced = os_hold(to);
    const int os_error = coffer__os_rename(from, to);
    if (replaced != NULL) {
        os_unmap_apart(replaced);
    }
    return os_error;
}

int coffer__os_unlink_without_wait(const char *path)
{
    void *removed = os_hold(path);
    const int os_error = coffer__os_unlink(path);
    if (removed != NULL) {
        os_unmap_apart(removed);
    }
    return os_error;
}

#else

int coffer__os_rename_without_wait(const char *from, const char *to)
{
    return coffer__os_rename(from, to);
}

int coffer__os_unlink_without_wait(const char *path)
{
    return coffer__os_unlink(path);
}

#endif
