/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operating system: reading without filling the page cache. A file is opened once more by its name in /proc, since
 * O_DIRECT is a property of the open file, which the program may share. What is opened is compared with what was meant.
 *
 * What headers of older systems lack is defined here, by the numbers of Linux's ABI:
 *
 *     statx(2)      256 bytes: mask at 0, alignment of memory at 0x98 and of offsets at 0x9C (Linux 6.1),
 *                   of offsets for reading at 0xB4 (6.14)
 *     preadv2(2)    RWF_DONTCACHE 0x80 (6.14): what was read leaves the page cache at once
 */
#include "os_posix.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/syscall.h>
#endif

#define OS_BLOCK_MAX 4096u

#if defined(__linux__) && defined(O_DIRECT)

/* The advice is about this open file alone. On the shared descriptor it would change how the program's own reads
   behave. It turns the system's reading ahead off, which guesses at what is planned here; it is only a hint, so a
   failure changes nothing. */
int coffer__os_open_again(int fd, int *again)
{
    const int os_error = coffer__os_open_by_number(fd, O_RDONLY, again);
    if (os_error == 0) {
        (void)posix_fadvise(*again, 0, 0, POSIX_FADV_RANDOM);
    }
    return os_error;
}

#define OS_STATX_ALIGNMENT 0x2000u
#define OS_STATX_READ_ALIGNMENT 0x20000u

/* The alignment that the system states; 0: none. EOPNOTSUPP when it states that there is no direct reading. The
   larger of the two alignments serves for both, so that one number describes a place in the file and in memory. The
   alignment for reading, where there is one, is the smaller: some file systems write in larger units than they read.
   A system that does not know the call, or the fields, states nothing. */
static int os_stated_alignment(int fd, uint32_t *block)
{
    *block = 0;
#ifdef SYS_statx
    uint32_t answer[64] = { 0 };
    const unsigned mask = OS_STATX_ALIGNMENT | OS_STATX_READ_ALIGNMENT;
    if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, mask, answer) != 0 || (answer[0] & OS_STATX_ALIGNMENT) == 0) {
        return 0;
    }
    const uint32_t memory = answer[0x98 / 4];
    const bool reads = (answer[0] & OS_STATX_READ_ALIGNMENT) != 0 && answer[0xB4 / 4] != 0;
    const uint32_t offset = answer[(reads ? 0xB4 : 0x9C) / 4];
    if (memory == 0 || offset == 0) {
        return EOPNOTSUPP;
    }
    *block = memory > offset ? memory : offset;
#else
    (void)fd;
#endif
    return 0;
}

/* Whether a block can be read, at a place that is a multiple of it and of nothing larger, if the file is that long.
   What a file system states is tried as well, because layers below it may refuse what it promises. A place that is
   aligned to more than the block would prove less. The map's address is aligned to a page, from which the block is
   counted. */
static int os_try_block(int fd, uint32_t block)
{
    static const size_t capacity = 4 * (size_t)OS_BLOCK_MAX;
    struct stat info;
    char *memory = mmap(NULL, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return ENOMEM;
    }
    const off_t at = fstat(fd, &info) == 0 && info.st_size >= 2 * (off_t)block ? (off_t)block : 0;
    ssize_t got = 0;
    do {
        got = pread(fd, memory + block, block, at);
    } while (got < 0 && errno == EINTR);
    const int os_error = got < 0 ? errno : 0;
    (void)munmap(memory, capacity);
    return os_error;
}

/* Blocks of 512 bytes are tried where nothing is stated, then the largest that are allowed for. Larger blocks than a
   page are not supported, since rounding out to them would read and overwrite more than readers leave space for; nor
   are numbers that are no power of two, which are nobody's alignment. Only EINVAL is a matter of the block's size. */
static int os_find_block(int fd, uint32_t *block)
{
    int os_error = os_stated_alignment(fd, block);
    if (os_error != 0) {
        return os_error;
    }
    if (*block > OS_BLOCK_MAX || (*block & (*block - 1)) != 0) {
        return EOPNOTSUPP;
    }
    if (*block != 0) {
        return os_try_block(fd, *block);
    }
    *block = 512;
    os_error = os_try_block(fd, *block);
    if (os_error == EINVAL) {
        *block = OS_BLOCK_MAX;
        os_error = os_try_block(fd, *block);
    }
    return os_error;
}

/* Some file systems accept the flag when a file is opened and refuse each read, so a descriptor counts only when a
   block was read by it. */
int coffer__os_open_direct(int fd, int *direct, uint32_t *block)
{
    int os_error = coffer__os_open_by_number(fd, O_RDONLY | O_DIRECT, direct);
    if (os_error != 0) {
        return os_error;
    }
    os_error = os_find_block(*direct, block);
    if (os_error != 0) {
        (void)close(*direct);
        *direct = -1;
    }
    return os_error;
}

#else

int coffer__os_open_again(int fd, int *again)
{
    (void)fd;
    *again = -1;
    return EOPNOTSUPP;
}

int coffer__os_open_direct(int fd, int *direct, uint32_t *block)
{
    (void)fd;
    (void)block;
    *direct = -1;
    return EOPNOTSUPP;
}

#endif

/* ---- leaving nothing ----------------------------------------------------------------------------------------------- */

/* Reads as far as the system can do it like that; *done says how far. The end of the file ends it without an error,
   and *done says so. An error leaves what was read before it as it is. */
static int os_read_passing(int fd, uint64_t offset, void *buffer, size_t size, size_t *done)
{
    *done = 0;
    while (*done < size) {
        const ssize_t got = coffer__os_read_flagged(fd, offset + *done, (char *)buffer + *done, size - *done,
                                                    COFFER__OS_READ_DONTCACHE);
        if (got == 0) {
            return 0;
        }
        if (got > 0) {
            *done += (size_t)got;
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

/* First in the way that spares what was in the page cache before; the rest, where the system has no such way, is read
   as usual and forgotten afterwards. That also evicts what others had there, which is why callers ask
   coffer__os_uncached_works before they do it to a file that is partly cached. */
int coffer__os_read_uncached(int fd, uint64_t offset, void *buffer, size_t size, size_t *done)
{
    *done = 0;
    if (!coffer__os_offset_fits(offset, size)) {
        return EOVERFLOW;
    }
    if (os_read_passing(fd, offset, buffer, size, done) == 0) {
        return 0;
    }
    size_t more = 0;
    const int os_error = coffer__os_read_at(fd, offset + *done, (char *)buffer + *done, size - *done, &more);
#ifdef POSIX_FADV_DONTNEED
    if (more > 0) { /* a length of 0 means: to the end of the file */
        (void)posix_fadvise(fd, (off_t)(offset + *done), (off_t)more, POSIX_FADV_DONTNEED);
    }
#endif
    *done += more;
    return os_error;
}

/* Whether the flag is known depends on the system and on the file system, so one byte of this very file is read by
   it. */
int coffer__os_uncached_works(int fd)
{
    char byte = 0;
    return coffer__os_read_flagged(fd, 0, &byte, 1, COFFER__OS_READ_DONTCACHE) >= 0 ? 0 : errno;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* A system without such a limit, or one that does not tell it, is treated as having none: registering memory fails by
   itself where there is one. */
uint64_t coffer__os_memory_lockable(void)
{
#ifdef RLIMIT_MEMLOCK
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) {
        return limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : (uint64_t)limit.rlim_cur;
    }
#endif
    return UINT64_MAX;
}
