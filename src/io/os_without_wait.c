/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operating system: removing a large file's name without waiting until the system has given up its memory and its place, which
 * takes longer than writing a new one. A page of the file is mapped first, so that it lives on, and unmapped by a thread that
 * outlives the call.
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

/* Giving up a file of less takes no longer than starting a thread does. */
#define OS_LARGE_FILE ((uint64_t)32 << 20)

#ifdef MADV_DONTFORK

/* Whether to replace the file takes long, and there is room for another one before its place is free. */
static bool os_is_large(int fd)
{
    struct stat info;
    struct statvfs device;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_nlink != 1 || fstatvfs(fd, &device) != 0) {
        return false;
    }
    const uint64_t size = (uint64_t)info.st_blocks * 512;
    /* A file system in user space may say that its blocks have no size. */
    return size >= OS_LARGE_FILE && device.f_frsize > 0 && size / device.f_frsize < device.f_bavail;
}

/* Maps a byte of the file, which nobody looks at: until it is unmapped, the file exists. A descriptor would do that too, but a
   child process that is forked meanwhile would have it as well, and keep the file for as long as it lives. */
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

/* Sees to it that this code is there for as long as the process is, though it may be part of a library that the program unloads when
   the call has returned. False where that cannot be had. */
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
        return true; /* the program itself */
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

static void *os_let_go_main(void *page)
{
    (void)munmap(page, 1);
    return NULL;
}

static void os_let_go(void *page)
{
    pthread_t thread;
    if (os_stays_loaded() && coffer__os_thread_create(&thread, NULL, os_let_go_main, page) == 0) {
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
        os_let_go(replaced);
    }
    return os_error;
}

int coffer__os_unlink_without_wait(const char *path)
{
    void *removed = os_hold(path);
    const int os_error = coffer__os_unlink(path);
    if (removed != NULL) {
        os_let_go(removed);
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
