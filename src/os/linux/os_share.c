/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operating system: what processes share. Memory that is passed on by its descriptor, names under which a process
 * answers others, words in shared memory that processes wait for, and whether another process still lives.
 *
 * All of it is Linux's; os_no_share.c is what others have.
 */
#include "os_posix.h"

#include <unistd.h>

#ifdef __linux__

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

/* How many processes may wait to be answered, and how many descriptors a dishonest answer may carry at most. */
#define OS_BACKLOG 64
#define OS_MAX_PASSED 8
#define OS_COLLAPSE 25 /* MADV_COLLAPSE (Linux 6.1) */

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* The size is sealed at once, so that nobody's map can lose its pages, which would be SIGBUS. Growing is sealed, too,
   so that the size which one process has read is the size for all of them, for good. The descriptor is given out only
   when all of that is done. */
int coffer__os_shared_new(const char *label, uint64_t size, int *fd)
{
    if (!coffer__os_offset_fits(0, size)) {
        return EFBIG;
    }
    const int made = memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (made < 0) {
        return errno;
    }
    if (ftruncate(made, (off_t)size) != 0 || fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
        const int os_error = errno;
        (void)close(made);
        return os_error;
    }
    *fd = made;
    return 0;
}

/* The last seal forbids further ones, so that nobody who has the descriptor can make the memory constant under those
   that still write to it. The system refuses F_SEAL_WRITE as long as a map exists that can write, which is how the
   maker learns that it has forgotten one. */
int coffer__os_shared_seal(int fd, bool constant)
{
    return fcntl(fd, F_ADD_SEALS, constant ? F_SEAL_WRITE | F_SEAL_SEAL : F_SEAL_SEAL) == 0 ? 0 : errno;
}

/* The descriptor came from another process, which may be of another version or dishonest. Only the seals are proof:
   without them its owner could cut the memory while it is mapped here. Since no seal can be taken back, what is found
   now holds for as long as the descriptor is open. */
int coffer__os_shared_check(int fd, bool constant, uint64_t *size)
{
    const int wanted = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | (constant ? F_SEAL_WRITE : 0);
    const int seals = fcntl(fd, F_GET_SEALS);
    struct stat found;
    if (seals < 0 || fstat(fd, &found) != 0) {
        return errno;
    }
    if ((seals & wanted) != wanted) {
        return EPERM;
    }
    *size = (uint64_t)found.st_size;
    return 0;
}

/* Half of the address space is more than any system gives, and keeps differences of pointers within ptrdiff_t. Huge
   pages can only be mapped as such where they are aligned, so the place is found first, and mapped over. */
int coffer__os_shared_map(int fd, uint64_t size, coffer__os_map *map)
{
    if (size == 0 || size > SIZE_MAX / 2) {
        return EFBIG;
    }
    void *place = coffer__os_pages_aligned((size_t)size, PROT_NONE);
    if (place == NULL) {
        return ENOMEM;
    }
    void *base = mmap(place, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    if (base == MAP_FAILED) {
        const int os_error = errno;
        (void)munmap(place, (size_t)size);
        return os_error;
    }
    *map = (coffer__os_map){ base, (size_t)size };
    return 0;
}

/* Of most systems such memory has small pages, whatever is advised: only this call makes huge ones of them. It does so
   where a first page is there. The whole range goes by one call, since each makes the system wait for all processors. */
void coffer__os_shared_huge(const coffer__os_map *map, uint64_t offset, uint64_t size)
{
    volatile uint8_t *first = (uint8_t *)map->base + offset;
    for (uint64_t i = 0; i < size; i += COFFER__OS_HUGE_PAGE) {
        first[i] = 0;
    }
    (void)madvise((uint8_t *)map->base + offset, (size_t)size, OS_COLLAPSE);
}

/* The memory keeps its size, which is sealed, and reads as zeros there. It is only a saving, so a failure is nobody's
   concern. */
void coffer__os_shared_discard(int fd, uint64_t offset, uint64_t size)
{
    (void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)size);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* An abstract address: a zero byte, then the name without an end. It has no rights of its own, whoever is in the same
   network namespace may bind or connect to it, so both sides ask whose process the other one is. The length is passed
   beside the address, since such a name has no end: a longer length would make other bytes part of it. */
static int os_address(const char *name, struct sockaddr_un *address, socklen_t *size)
{
    const size_t length = strlen(name);
    if (length > sizeof address->sun_path - 1) {
        return ENAMETOOLONG;
    }
    *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    memcpy(address->sun_path + 1, name, length);
    *size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
    return 0;
}

/* Whether the number of this process's user is nobody else's. In a namespace without a map it is that of every stranger,
   as well as of the owners of all files, so that a stranger's memory would pass for this user's own. */
static bool os_user_is_known(void)
{
    return geteuid() != coffer__os_overflow_user();
}

/* The system took the user's number down when the connection, or the listener, was made, so that no process can
   pretend to be another. Whether the number says anything is asked each time, as a process may have changed its
   namespace meanwhile. */
static int os_peer_is_mine(int fd)
{
    struct ucred peer = { 0 };
    socklen_t size = sizeof peer;
    if (!os_user_is_known()) {
        return EPERM;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
        return errno;
    }
    return peer.uid == geteuid() ? 0 : EACCES;
}

/* A socket, and the address of a name. Nothing on it ever blocks: a process that does not answer must not hold up a
   load, which polls with a limit of its own. */
static int os_socket(const char *name, struct sockaddr_un *address, socklen_t *size, int *fd)
{
    const int os_error = os_user_is_known() ? os_address(name, address, size) : EPERM;
    if (os_error != 0) {
        return os_error;
    }
    *fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return *fd >= 0 ? 0 : errno;
}

/* To bind the name is also how it is decided who makes the memory: exactly one of the processes that try at the same
   time succeeds, and the others get EADDRINUSE. The name goes with the last descriptor of the socket, so that a
   process that was killed leaves none behind. */
int coffer__os_answer(const char *name, int *listener)
{
    struct sockaddr_un address;
    socklen_t size = 0;
    int made = -1;
    int os_error = os_socket(name, &address, &size, &made);
    if (os_error != 0) {
        return os_error;
    }
    if (bind(made, (struct sockaddr *)&address, size) != 0 || listen(made, OS_BACKLOG) != 0) {
        os_error = errno;
        (void)close(made);
        return os_error;
    }
    *listener = made;
    return 0;
}

/* The space for the descriptors of a message, aligned as its header wants it. */
typedef union os_passing {
    struct cmsghdr header;
    char capacity[CMSG_SPACE(OS_MAX_PASSED * sizeof(int))];
} os_passing;

/* A message of one byte, since one without any would be an end. */
static struct msghdr os_message(struct iovec *byte, os_passing *passing, socklen_t passing_size)
{
    memset(passing, 0, sizeof *passing);
    return (struct msghdr){ .msg_iov = byte, .msg_iovlen = 1, .msg_control = passing, .msg_controllen = passing_size };
}

/* A fresh connection has space for the message, so nothing waits; if it
   has not, that process gets nothing. The receiver gets a descriptor of its own for the same open file, so that this
   process may close its own at any time. */
static bool os_pass(int to, int fd)
{
    os_passing passing;
    char byte = 0;
    struct iovec bytes = { &byte, 1 };
    struct msghdr message = os_message(&bytes, &passing, CMSG_SPACE(sizeof fd));
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    return sendmsg(to, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

/* What the others send is not read: there is nothing that they could say. Of a connection that was reset meanwhile
   nothing is left to answer. Where the process has no descriptor left, the listener stays ready, so whoever waits for
   callers would be woken at once and for ever; the failure tells it to wait otherwise. */
int coffer__os_answer_all(int listener, int fd, uint32_t *given)
{
    *given = 0;
    for (;;) {
        const int caller = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (caller < 0 && (errno == EINTR || errno == ECONNABORTED)) {
            continue;
        }
        if (caller < 0) {
            return errno == EAGAIN ? 0 : errno;
        }
        if (os_peer_is_mine(caller) == 0 && os_pass(caller, fd)) {
            (*given)++;
        }
        (void)close(caller);
    }
}

/* Closing would not do: a thread that waits for the listener would sleep on, and the number of the descriptor could
   be another file's when it wakes. A listener that was shut down is ready, with EPOLLHUP, for all who wait or will
   wait. */
void coffer__os_answer_stop(int listener)
{
    (void)shutdown(listener, SHUT_RDWR);
}

/* One set lets one thread wait for any number of listeners, and others add to it while that thread waits. */
int coffer__os_callers_new(int *set)
{
    const int made = epoll_create1(EPOLL_CLOEXEC);
    if (made < 0) {
        return errno;
    }
    *set = made;
    return 0;
}

int coffer__os_callers_add(int set, int listener, uint32_t number)
{
    struct epoll_event event = { .events = EPOLLIN, .data = { .u32 = number } };
    return epoll_ctl(set, EPOLL_CTL_ADD, listener, &event) == 0 ? 0 : errno;
}

/* Only one event is taken, so that a listener that ends is not mixed with another that has callers. A signal does not
   end the wait: handlers that the program has installed are none of the library's business. */
int coffer__os_callers_await(int set, uint32_t *number)
{
    struct epoll_event event = { .events = 0 };
    int ready = -1;
    do {
        ready = epoll_wait(set, &event, 1, -1);
    } while (ready < 0 && errno == EINTR);
    if (ready < 0) {
        return errno;
    }
    *number = event.data.u32;
    return (event.events & EPOLLHUP) != 0 ? ECANCELED : 0;
}

/* Closes every descriptor that came with a message but the first, which is the answer; -1: there is none. What the
   space does not hold the system has closed itself, so no descriptor of a dishonest answer stays open here. */
#ifndef __GLIBC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-compare" /* within the macro CMSG_NXTHDR of musl */
#endif
static int os_first_passed(struct msghdr *message)
{
    int first = -1;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header != NULL; header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int passed = -1;
            memcpy(&passed, CMSG_DATA(header) + i * sizeof passed, sizeof passed);
            if (first < 0) {
                first = passed;
            } else {
                (void)close(passed);
            }
        }
    }
    return first;
}
#ifndef __GLIBC__
#pragma GCC diagnostic pop
#endif

/* The connection is a sequence of packets, so the answer comes whole or not at all. An end of the connection without
   a message looks like a message without a descriptor, and is EPROTO as well: either way that process gave nothing.
   Descriptors are closed by exec from the beginning, so that no child that is started meanwhile inherits them. */
static int os_take_passed(int from, int *fd)
{
    os_passing passing;
    char byte = 0;
    struct iovec bytes = { &byte, 1 };
    struct msghdr message = os_message(&bytes, &passing, sizeof passing);
    ssize_t got = -1;
    do {
        got = recvmsg(from, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        return errno;
    }
    *fd = os_first_passed(&message);
    return *fd < 0 ? EPROTO : 0;
}

/* Signals do not make the wait longer than it should be by much: each of them ends it. To the caller an interrupted
   wait and one that has run out are the same, because it has a deadline and looks at it again. */
static int os_await_answer(int fd, uint64_t milliseconds)
{
    struct pollfd wait = { fd, POLLIN, 0 };
    const int ready = poll(&wait, 1, milliseconds < INT_MAX ? (int)milliseconds : INT_MAX);
    if (ready < 0) {
        return errno == EINTR ? EAGAIN : errno;
    }
    return ready == 0 ? EAGAIN : 0;
}

/* The user of the process that answers is known once the connection stands, which needs nobody to accept it. A
   connection to a listener whose queue is full is EAGAIN at once. */
int coffer__os_call(const char *name, int *caller)
{
    struct sockaddr_un address;
    socklen_t size = 0;
    int made = -1;
    int os_error = os_socket(name, &address, &size, &made);
    if (os_error != 0) {
        return os_error;
    }
    os_error = connect(made, (struct sockaddr *)&address, size) == 0 ? os_peer_is_mine(made) : errno;
    if (os_error != 0) {
        (void)close(made);
        return os_error;
    }
    *caller = made;
    return 0;
}

int coffer__os_await_passed(int caller, uint64_t milliseconds, int *fd)
{
    const int os_error = os_await_answer(caller, milliseconds);
    return os_error != 0 ? os_error : os_take_passed(caller, fd);
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

/* The system call has kept the time as two longs, whatever time_t is: 32-bit systems have another call for the other. */
typedef struct os_duration {
    long seconds;
    long nanoseconds;
} os_duration;

/* The system compares the word with `value` and goes to sleep in one step, so that a change between the caller's look
   and this call cannot be missed. The call may come back early, and the caller looks at the word again, so its result
   is not needed. It must not be FUTEX_PRIVATE: the waiters are different processes, with the word at different
   addresses. */
void coffer__os_word_await(_Atomic(uint32_t) *word, uint32_t value, uint64_t milliseconds)
{
    const os_duration wait = { (long)(milliseconds / 1000), (long)(milliseconds % 1000 * 1000000) };
    (void)syscall(SYS_futex, word, FUTEX_WAIT, value, &wait, NULL, 0);
}

/* All are woken, since each may wait for another value. */
void coffer__os_word_wake(_Atomic(uint32_t) *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* ---- who lives --------------------------------------------------------------------------------------------------- */

/* A lock of a byte goes with whoever holds it, however that ends, and needs no number of a process, which other
   containers number otherwise. */
static struct flock os_byte(uint64_t byte)
{
    return (struct flock){ .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)byte, .l_len = 1 };
}

/* The memory is opened once more: the descriptors that were passed on are all of one opening, and a lock of it would be
   everybody's. The lock belongs to the opening, and not to the process: that one goes when any descriptor of the memory is
   closed, so it would not outlast another load of the process that was in the group for a moment, or another rank of
   it. Where there is no such lock, or no /proc, that one has to do. It does not wait: a byte that somebody else holds
   is an answer at once. */
int coffer__os_hold_byte(int fd, uint64_t byte, int *holder)
{
    struct flock lock = os_byte(byte);
    int again = -1;
    *holder = -1;
    if (coffer__os_open_by_number(fd, O_RDWR, &again) == 0) {
        if (fcntl(again, F_OFD_SETLK, &lock) == 0) {
            *holder = again;
            return 0;
        }
        const int os_error = errno;
        (void)close(again);
        if (os_error != EINVAL) {
            return os_error;
        }
    }
    lock = os_byte(byte);
    return fcntl(fd, F_SETLK, &lock) == 0 ? 0 : errno;
}

/* No lock belongs to the opening of the descriptor that was passed on, so all that others hold show, those of this
   process too. Where the system cannot say, the other one counts as alive: to wait for it too long is better than to
   take what it still uses. */
bool coffer__os_byte_is_held(int fd, uint64_t byte)
{
    struct flock lock = os_byte(byte);
    if (fcntl(fd, F_OFD_GETLK, &lock) == 0) {
        return lock.l_type != F_UNLCK;
    }
    lock = os_byte(byte);
    return fcntl(fd, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

#endif
