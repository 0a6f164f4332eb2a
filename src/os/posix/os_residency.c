/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operating system: which bytes of a file are in the page cache, what kind of storage it is on, and what follows from
 * that for copies.
 *
 * Three calls know something of the page cache. cachestat (Linux 6.5) knows exactly and touches nothing, but answers only
 * those who may write the file. preadv2 with RWF_NOWAIT (4.14) answers everybody by reading what is there; of what is
 * not there it may begin to read the first pages, so it is asked about single pages, and second. mincore says that
 * everything is there when the file is somebody else's, so it is asked last, and only by the owner.
 *
 * cachestat(2) by the numbers of Linux's ABI: call 451; the range is offset and length, 64 bits each; the answer is five
 * numbers of 64 bits: pages that are cached, dirty, being written, evicted, recently evicted.
 */
#include "os_posix.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/syscall.h>
#include <sys/vfs.h>
#endif

/* ---- kinds of storage -------------------------------------------------------------------------------------------- */

#ifdef __linux__
/* Blocks that files share are that large in most file systems, and in the others they are larger. */
#define OS_SHARED_BLOCK 4096u

/* The numbers by which file systems call themselves, and whether their files can share blocks. What is not listed is on a
   disk of this system. */
static const struct os_storage_row {
    uint32_t magic;
    coffer__os_storage storage;
    bool shares;
} os_storage_rows[] = {
    { 0x01021994, COFFER__OS_MEMORY, false },                                             /* tmpfs */
    { 0x858458F6, COFFER__OS_MEMORY, false },                                             /* ramfs */
    { 0x958458F6, COFFER__OS_MEMORY, false },                                             /* hugetlbfs */
    { 0x9123683E, COFFER__OS_LOCAL, true },                                               /* Btrfs */
    { 0x58465342, COFFER__OS_LOCAL, true },                                               /* XFS */
    { 0xCA451A4E, COFFER__OS_LOCAL, true },                                               /* bcachefs */
    { 0x7461636F, COFFER__OS_LOCAL, true },                                               /* OCFS2 */
    { 0x2FC12FC1, COFFER__OS_LOCAL, true },                                               /* ZFS */
    { 0x6969, COFFER__OS_NETWORK, false },                                                /* NFS */
    { 0x517B, COFFER__OS_NETWORK, false },                                                /* SMB, in three versions */
    { 0xFF534D42, COFFER__OS_NETWORK, false },                                            /* CIFS */
    { 0xFE534D42, COFFER__OS_NETWORK, false }, { 0x0BD00BD0, COFFER__OS_NETWORK, false }, /* Lustre */
    { 0x00C36400, COFFER__OS_NETWORK, false },                                            /* Ceph */
    { 0x47504653, COFFER__OS_NETWORK, false },                                            /* GPFS */
    { 0x19830326, COFFER__OS_NETWORK, false },                                            /* BeeGFS */
    { 0x01021997, COFFER__OS_NETWORK, false },                                            /* 9p */
    { 0x5346414F, COFFER__OS_NETWORK, false },                                            /* AFS */
    { 0x6B414653, COFFER__OS_NETWORK, false },                                            /* kAFS */
    { 0x73757245, COFFER__OS_NETWORK, false },                                            /* Coda */
    { 0xAAD7AAEA, COFFER__OS_NETWORK, false },                                            /* PanFS */
    { 0x20030528, COFFER__OS_NETWORK, false },                                            /* OrangeFS */
    { 0x786F4256, COFFER__OS_NETWORK, false }, /* shared folders of VirtualBox */
    { 0x65735546, COFFER__OS_USER, false },    /* FUSE */
};

static struct os_storage_row os_storage_row_of(uint32_t magic)
{
    for (size_t i = 0; i < sizeof os_storage_rows / sizeof os_storage_rows[0]; i++) {
        if (os_storage_rows[i].magic == magic) {
            return os_storage_rows[i];
        }
    }
    return (struct os_storage_row){ magic, COFFER__OS_LOCAL, false };
}

/* The numbers are compared as 32 bits: the field is signed on some architectures, where the large ones would come out
   negative. */
static struct os_storage_row os_storage_row_at(int fd)
{
    struct statfs info;
    return os_storage_row_of(fstatfs(fd, &info) == 0 ? (uint32_t)info.f_type : 0);
}

coffer__os_storage coffer__os_storage_called(uint32_t magic)
{
    return os_storage_row_of(magic).storage;
}

coffer__os_storage coffer__os_storage_of(int fd)
{
    return os_storage_row_at(fd).storage;
}

coffer__os_storage coffer__os_storage_at(const char *path)
{
    struct statfs info;
    return os_storage_row_of(statfs(path, &info) == 0 ? (uint32_t)info.f_type : 0).storage;
}

/* Elsewhere the kernel moves page after page through a pipe, on one thread. */
int coffer__os_copy_that_pays(int from, uint64_t from_offset, int to, uint64_t to_offset, uint64_t size, uint64_t *done)
{
    const struct os_storage_row row = os_storage_row_at(to);
    const bool on_blocks = from_offset % OS_SHARED_BLOCK == 0 && to_offset % OS_SHARED_BLOCK == 0;
    const bool by_server = row.storage == COFFER__OS_NETWORK || row.storage == COFFER__OS_USER;
    *done = 0;
    return by_server || (row.shares && on_blocks) ? coffer__os_copy(from, from_offset, to, to_offset, size, done)
                                                  : EOPNOTSUPP;
}
#else
coffer__os_storage coffer__os_storage_called(uint32_t magic)
{
    (void)magic;
    return COFFER__OS_LOCAL;
}

coffer__os_storage coffer__os_storage_of(int fd)
{
    (void)fd;
    return COFFER__OS_LOCAL;
}

coffer__os_storage coffer__os_storage_at(const char *path)
{
    (void)path;
    return COFFER__OS_LOCAL;
}

int coffer__os_copy_that_pays(int from, uint64_t from_offset, int to, uint64_t to_offset, uint64_t size, uint64_t *done)
{
    return coffer__os_copy(from, from_offset, to, to_offset, size, done);
}
#endif

/* ---- the page cache ------------------------------------------------------------------------------------------------ */

#if defined(__linux__) && !defined(__alpha__) && !defined(__mips__)
#define OS_CACHESTAT 451

/* How many bytes of a range, whole pages, are in the page cache. */
static int os_count_cached(int fd, uint64_t offset, uint64_t size, uint64_t *cached)
{
    const uint64_t range[2] = { offset, size };
    uint64_t answer[5] = { 0 };
    if (syscall(OS_CACHESTAT, fd, range, answer, 0) != 0) {
        return errno;
    }
    *cached = answer[0] * coffer__os_page_size();
    return 0;
}
#else
static int os_count_cached(int fd, uint64_t offset, uint64_t size, uint64_t *cached)
{
    (void)fd;
    (void)offset;
    (void)size;
    (void)cached;
    return EOPNOTSUPP;
}
#endif

#if defined(__linux__) && defined(SYS_preadv2)
#define OS_READ_MAX ((size_t)1 << 30)

/* The system call splits the offset, also where registers have 64 bits: there the first half is all of it. */
ssize_t coffer__os_read_flagged(int fd, uint64_t offset, void *buffer, size_t size, int flag)
{
    struct iovec part = { .iov_base = buffer, .iov_len = size < OS_READ_MAX ? size : OS_READ_MAX };
    return syscall(SYS_preadv2, fd, &part, 1L, (long)offset, (long)(offset >> 32), flag);
}
#else
ssize_t coffer__os_read_flagged(int fd, uint64_t offset, void *buffer, size_t size, int flag)
{
    (void)fd;
    (void)offset;
    (void)buffer;
    (void)size;
    (void)flag;
    errno = EOPNOTSUPP;
    return -1;
}
#endif

static bool os_is_owner(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 && info.st_uid == geteuid();
}

/* What mincore says of one page, to the owner of the file. Pages that are only asked about are not brought in: the
   map is made and taken away without being touched. */
static int os_ask_mincore(int fd, uint64_t offset, bool *cached)
{
    if (!os_is_owner(fd)) {
        return EOPNOTSUPP;
    }
    unsigned char answer = 0;
    void *page = mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, (off_t)(offset - offset % coffer__os_page_size()));
    if (page == MAP_FAILED) {
        return EOPNOTSUPP;
    }
    const int result = mincore(page, 1, (void *)&answer);
    (void)munmap(page, 1);
    *cached = (answer & 1) != 0;
    return result == 0 ? 0 : EOPNOTSUPP;
}

/* What mincore says of a map, to somebody who is told the truth. */
static bool os_ask_mincore_all(char *first, size_t size)
{
    enum { PAGES = 512 };
    unsigned char answers[PAGES];
    const size_t page = coffer__os_page_size();
    for (size_t done = 0; done < size; done += PAGES * page) {
        const size_t part = size - done < PAGES * page ? size - done : PAGES * page;
        if (mincore(first + done, part, (void *)answers) != 0) {
            return false;
        }
        for (size_t i = 0; i < part / page; i++) {
            if ((answers[i] & 1) == 0) {
                return false;
            }
        }
    }
    return true;
}

/* cachestat also counts pages that are being read just now, and mincore does not: it is asked about the two ends, where a
   stretch that the system reads ahead begins or ends, since asking it about each page costs ten times as much. Without
   cachestat it is asked about all; but of another user's file it says that everything is there. Offset and address agree
   modulo a page, as they do in a map. */
bool coffer__os_map_is_cached(int fd, uint64_t offset, void *address, size_t size)
{
    const size_t page = coffer__os_page_size();
    const size_t before = (size_t)(offset % page);
    const size_t whole = (before + size + page - 1) / page * page;
    char *first = (char *)address - before;
    uint64_t cached = 0;
    if (os_count_cached(fd, offset - before, whole, &cached) != 0) {
        return os_is_owner(fd) && os_ask_mincore_all(first, whole);
    }
    return cached >= whole && os_ask_mincore_all(first, page) && os_ask_mincore_all(first + whole - page, page);
}

/* A way of asking that does not work here leads to the next one. EAGAIN is no such failure: it is the answer that the
   page is not there. */
int coffer__os_is_cached(int fd, uint64_t offset, bool *cached)
{
    const uint64_t page = coffer__os_page_size();
    uint64_t count = 0;
    char byte = 0;
    if (!coffer__os_offset_fits(offset, 1)) {
        return EOVERFLOW;
    }
    if (os_count_cached(fd, offset - offset % page, page, &count) == 0) {
        *cached = count > 0;
        return 0;
    }
    if (coffer__os_read_flagged(fd, offset, &byte, 1, COFFER__OS_READ_NOWAIT) >= 0) {
        *cached = true;
        return 0;
    }
    *cached = false;
    return errno == EAGAIN ? 0 : os_ask_mincore(fd, offset, cached);
}

/* One call: what it makes the system read ahead does not count as having been there. EAGAIN is the answer that
   nothing is there, and EINTR is treated like it: the caller reads the rest by waiting, which is always right. */
int coffer__os_read_present(int fd, uint64_t offset, void *buffer, size_t size, size_t *done)
{
    *done = 0;
    if (!coffer__os_offset_fits(offset, size)) {
        return EOVERFLOW;
    }
    const ssize_t got = coffer__os_read_flagged(fd, offset, buffer, size, COFFER__OS_READ_NOWAIT);
    *done = got > 0 ? (size_t)got : 0;
    return got >= 0 || errno == EAGAIN || errno == EINTR ? 0 : EOPNOTSUPP;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* A line of /proc/meminfo, which counts units of 1024 bytes, in bytes; 0 where there is none. It is near the beginning of
   the file. */
static uint64_t os_memory_line(const char *key)
{
    char text[1024] = "";
    int fd = -1;
    size_t size = 0;
    if (coffer__os_open("/proc/meminfo", COFFER__OS_READ, true, &fd) != 0) {
        return 0;
    }
    (void)coffer__os_read_at(fd, 0, text, sizeof text - 1, &size);
    (void)coffer__os_close(fd);
    const char *line = strstr(text, key);
    return line == NULL ? 0 : strtoull(line + strlen(key), NULL, 10) * 1024;
}

uint64_t coffer__os_memory_available(void)
{
    return os_memory_line("MemAvailable:");
}

uint64_t coffer__os_memory_total(void)
{
    return os_memory_line("MemTotal:");
}
