/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operating system. The files of this room and the folders in it are the only ones that name it. A port is a
 * folder with these contracts: windows is one, posix with linux another; none has the answers of a system that lacks
 * something.
 *
 *   - Functions that can fail for the system's reasons return 0 or a positive errno. Callers turn that
 *     into a coffer_status; errno_status.h does it in one line.
 *   - Calls that a signal interrupts are repeated, and short transfers are continued, unless the contract
 *     says otherwise.
 *   - Every descriptor made here is closed on exec, so that a child program does not inherit it.
 *   - Offsets and sizes are 64 bits everywhere. One that the system cannot represent is an error, never cut.
 *   - Any number of threads may call these functions at the same time.
 */
#ifndef COFFER_OS_OS_H
#define COFFER_OS_OS_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef _WIN32
#include <pthread.h>
#endif

/* What errno.h lacks on some systems. */
#ifndef EDQUOT
#define EDQUOT 10069
#endif
#ifndef ESTALE
#define ESTALE 10070
#endif

/* ---- threads ----------------------------------------------------------------------------------------------------- */

#ifdef _WIN32
typedef struct coffer__mutex {
    void *lock; /* an SRWLOCK */
} coffer__mutex;

typedef struct coffer__condition {
    void *variable; /* a CONDITION_VARIABLE */
} coffer__condition;

typedef struct coffer__thread {
    void *handle;
    void (*run)(void *arg);
    void *arg;
} coffer__thread;
#else
typedef struct coffer__mutex {
    pthread_mutex_t posix;
} coffer__mutex;

typedef struct coffer__condition {
    pthread_cond_t posix;
} coffer__condition;

typedef struct coffer__thread {
    pthread_t posix;
    void (*run)(void *arg);
    void *arg;
} coffer__thread;
#endif

int coffer__os_mutex_init(coffer__mutex *mutex);
void coffer__os_mutex_close(coffer__mutex *mutex);
void coffer__os_mutex_lock(coffer__mutex *mutex);
void coffer__os_mutex_unlock(coffer__mutex *mutex);
int coffer__os_condition_init(coffer__condition *condition);
void coffer__os_condition_close(coffer__condition *condition);
/* Releases the mutex, waits to be woken for at most `milliseconds`, and takes the mutex again. It
   may also return without a reason, so callers check their condition in a loop. False when the time
   is over. */
bool coffer__os_condition_wait(coffer__condition *condition, coffer__mutex *mutex, uint64_t milliseconds);
/* Wakes the thread that waits. At most one may. */
void coffer__os_condition_wake(coffer__condition *condition);
/* Wakes all threads that wait. */
void coffer__os_condition_wake_all(coffer__condition *condition);
/* Runs run(arg) on a new thread. *thread must live until it is joined. Signals are blocked on that
   thread, since they belong to the program's own threads, except those that the thread causes
   itself, like SIGBUS. With `small` it has a stack of 256 KiB, where the system can do that,
   instead of the usual 8 MiB. That is enough for this library's own code, but not for callbacks or
   other libraries. */
int coffer__os_thread_start(coffer__thread *thread, void (*run)(void *arg), void *arg, bool small);
void coffer__os_thread_join(coffer__thread *thread);
/* Processors that this process may use, at least 1. */
unsigned coffer__os_processors(void);
/* How many descriptors this process may have open at the same time. */
size_t coffer__os_descriptors(void);

/* ---- what lies under a name -------------------------------------------------------------------------------------- */

typedef enum coffer__os_kind {
    COFFER__OS_REGULAR,
    COFFER__OS_DIRECTORY,
    COFFER__OS_BLOCK, /* a block device: random access, as a file has */
    COFFER__OS_LINK,  /* a symbolic link; only where links are not followed */
    COFFER__OS_OTHER  /* a pipe, socket or character device */
} coffer__os_kind;

typedef struct coffer__os_info {
    coffer__os_kind kind;
    uint32_t mode; /* the permission bits, set-id and sticky bits included */
    uint32_t owner;
    uint32_t group;
    uint64_t size; /* of a regular file or block device; else 0 */
    uint64_t links;
    uint64_t device; /* with inode: which file it is; the numbers may change when the system starts again */
    uint64_t inode;
    int64_t modified; /* mtime in nanoseconds; only good for comparing */
    int64_t touched;  /* ctime, likewise: it also changes with the file's metadata, and cannot be set back */
    bool recent;      /* changed so short a time ago that one more change could leave the same times */
} coffer__os_info;

/* Whether both are the same file, with the same size and mtime. */
bool coffer__os_unchanged(const coffer__os_info *then, const coffer__os_info *now);
/* Whether a number is that of one user. In a user namespace that does not have a number for every user, one stands for all
   the others: two files that have it need not have the same owner. */
bool coffer__os_is_one_user(uint32_t number);
/* Whether the file belongs to the user of this process, and to nobody else who may have the same number. */
bool coffer__os_is_mine(const coffer__os_info *info);

int coffer__os_inspect(const char *path, bool follow, coffer__os_info *info);
int coffer__os_inspect_fd(int fd, coffer__os_info *info);
/* Whether the name leads to anything. One cheap system call. */
bool coffer__os_exists(const char *path);
/* Calls `see` for every name in a folder, in no order, without "." and ".."; it returns false to end. */
int coffer__os_list(const char *folder, bool (*see)(void *ctx, const char *name), void *ctx);
/* What separates the parts of a path: '/', and whatever else the system takes for it. */
extern const char coffer__os_separators[];
/* The name without any symbolic link in it, absolute and separated by '/'. ENAMETOOLONG when `size` bytes do not hold it. */
int coffer__os_real_path(const char *path, char *out, size_t size);

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

typedef enum coffer__os_use {
    COFFER__OS_READ,
    COFFER__OS_WRITE, /* without truncating */
    COFFER__OS_EDIT   /* read and write */
} coffer__os_use;

/* Opens what exists. Never blocks, not even for the other end of a pipe. Without `follow`, a
   symbolic link is ELOOP. */
int coffer__os_open(const char *path, coffer__os_use use, bool follow, int *fd);
/* Creates a new file, open for reading and writing. EEXIST when the name is taken, by a symbolic
   link, too. Its mode is 0600 if `secret`, otherwise 0666 less the umask. */
int coffer__os_create(const char *path, bool secret, int *fd);
/* The same without a name, in a directory: the file is gone when the process ends, unless
   coffer__os_name gives it a name. Fails where the file system cannot do it, or where
   coffer__os_name would not work. */
int coffer__os_create_unnamed(const char *directory, bool secret, int *fd);
/* Gives an unnamed file its name; EEXIST when that is taken. */
int coffer__os_name(int fd, const char *path);
int coffer__os_duplicate(int fd, int *copy);
/* The descriptor is closed whatever the result. An error means that a network file system could not
   store bytes. */
int coffer__os_close(int fd);

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

/* Reads until `size` bytes are read or the file ends; *done says how many, also after an error. The
   descriptor's position is neither used nor moved. */
int coffer__os_read_at(int fd, uint64_t offset, void *buffer, size_t size, size_t *done);
/* Writes all bytes or fails. Likewise without the descriptor's position. */
int coffer__os_write_at(int fd, uint64_t offset, const void *bytes, size_t size);
/* Writes at the descriptor's own position. *done says how many bytes were written: fewer than
   `size`, or none, after a signal, so that the caller can ask whether to continue. Waits while a
   non-blocking descriptor accepts nothing. */
int coffer__os_write_next(int fd, const void *bytes, size_t size, size_t *done);
/* Copies between two files in the kernel, or by sharing blocks where that is possible. *done is
   less than `size` without an error when the source ends. EOPNOTSUPP: the system cannot copy
   between these two, and the bytes from *done on have to be read and written. */
int coffer__os_copy(int from, uint64_t from_offset, int to, uint64_t to_offset, uint64_t size, uint64_t *done);
/* The same, but EOPNOTSUPP also where reading and writing take less time: a copy by the system pays where it shares blocks, or
   where a server makes it. */
int coffer__os_copy_that_pays(int from, uint64_t from_offset, int to, uint64_t to_offset, uint64_t size,
                              uint64_t *done);
/* Makes the whole of `to` share the blocks of `from`, atomically; fails where the file system
   cannot. */
int coffer__os_clone(int from, int to);
/* The same from an offset to the end of `from`. Both offsets are multiples of the file system's
   block size. */
int coffer__os_clone_range(int from, uint64_t from_offset, int to, uint64_t to_offset);
/* Moves everything from `offset` on by `size` bytes towards the end, without copying; the new range
   is zeros. Both are multiples of the file system's block size. Fails, without a change, where it
   cannot be done. */
int coffer__os_insert(int fd, uint64_t offset, uint64_t size);
/* Makes sure that nobody else has the file open or mapped, by any descriptor. Whoever opens it from
   now on has to wait until coffer__os_claim_release, for as long as the system lets them wait (45 s on
   Linux). EAGAIN when somebody has it open, EOPNOTSUPP when the system cannot tell. */
int coffer__os_claim(int fd);
void coffer__os_claim_release(int fd);
/* Reserves space for `size` bytes from `offset` on, without changing the file's length. Returns 0
   also where the file system cannot do it, or signals keep interrupting it: then a full disk is
   found while writing. */
int coffer__os_reserve(int fd, uint64_t offset, uint64_t size);
/* Where the next data is, from `offset` on: `offset` itself if there is data, and the file's end, or `offset`
   beyond it, if there is none. */
uint64_t coffer__os_next_data(int fd, uint64_t offset);
/* Where the next hole is, which reads as zeros and takes no space; UINT64_MAX if there is none. On a file
   system that does not know its holes, a file has none. */
uint64_t coffer__os_next_hole(int fd, uint64_t offset);
int coffer__os_truncate(int fd, uint64_t size);
/* The descriptor's own position; ESPIPE when it has none. */
int coffer__os_position(int fd, uint64_t *position);
int coffer__os_set_position(int fd, uint64_t position);
/* Whether every write goes to the file's end, whatever offset is asked for (O_APPEND). */
bool coffer__os_appends(int fd);

/* ---- reading in bulk --------------------------------------------------------------------------------------------- */

/* What kind of storage a file is on, as far as reading is concerned. */
typedef enum coffer__os_storage {
    COFFER__OS_LOCAL,  /* a disk of this system, or not known */
    COFFER__OS_MEMORY, /* tmpfs and its kin: the page cache is all there is */
    COFFER__OS_NETWORK,
    COFFER__OS_USER /* a file system in user space (FUSE), with a network behind it more often than not */
} coffer__os_storage;

coffer__os_storage coffer__os_storage_of(int fd);
/* The same of a path; COFFER__OS_LOCAL where nothing is there. */
coffer__os_storage coffer__os_storage_at(const char *path);
/* The same by the number that a file system calls itself by. */
coffer__os_storage coffer__os_storage_called(uint32_t magic);
/* Opens the file of a descriptor once more, for reading in places that are known in advance: nothing is read ahead.
   EOPNOTSUPP where the system cannot, and ESTALE when that leads to another file. */
int coffer__os_open_again(int fd, int *again);
/* The same past the page cache (O_DIRECT). Addresses, offsets and sizes must be multiples of *block, a power of two, which
   is tried by a read. EOPNOTSUPP and EINVAL: the file system, or this file, cannot be read like that. */
int coffer__os_open_direct(int fd, int *direct, uint32_t *block);
/* As coffer__os_read_at, but done when `enough` bytes are there, which is at most `size`. */
int coffer__os_read_enough(int fd, uint64_t offset, void *buffer, size_t size, size_t enough, size_t *done);
/* As coffer__os_read_at, leaving none of these bytes in the page cache: by the system where it can, else by dropping them
   afterwards, whether they were there before or not. */
int coffer__os_read_uncached(int fd, uint64_t offset, void *buffer, size_t size, size_t *done);
/* Whether coffer__os_read_uncached does it by the system: 0, or the errno with which that is refused. */
int coffer__os_uncached_works(int fd);
/* Reads from `offset` on what the page cache has, up to the first byte that is not there, without waiting. The system may
   begin to read what follows. EOPNOTSUPP: the system does not say what is there. */
int coffer__os_read_present(int fd, uint64_t offset, void *buffer, size_t size, size_t *done);
/* Whether the page at `offset` is in the page cache. EOPNOTSUPP as above. */
int coffer__os_is_cached(int fd, uint64_t offset, bool *cached);
/* Bytes of memory that programs could get without anything being written to disk; 0: not known. */
uint64_t coffer__os_memory_available(void);
/* Bytes of memory that this process may lock; UINT64_MAX: no limit. */
uint64_t coffer__os_memory_lockable(void);

/* A queue of reads that the system works on by itself: io_uring. It belongs to the thread that opens it. */
typedef struct coffer__os_ring {
    int fd;
    unsigned entries;    /* reads that it takes at once */
    unsigned mask;       /* of places in the queue of reads */
    unsigned done_mask;  /* of places in the queue of completions */
    unsigned pending;    /* reads that were put, and that the system was not told of */
    unsigned *head;      /* the system's, of the queue of reads */
    unsigned *tail;      /* ours */
    unsigned *flags;     /* the system's */
    unsigned *done_head; /* ours, of the queue of completions */
    unsigned *done_tail; /* the system's */
    void *completions;
    void *reads;
    void *queues; /* the maps */
    size_t queues_size;
    size_t reads_size;
} coffer__os_ring;

typedef struct coffer__os_ring_read {
    int fd;
    uint64_t offset;
    void *to;
    uint32_t size;
    bool registered; /* `to` lies in the registered memory */
    void *user;
} coffer__os_ring_read;

typedef struct coffer__os_completion {
    void *user;
    int32_t result; /* bytes that were read, or a negative errno */
} coffer__os_completion;

/* `entries` is at least 1. The errno says why there is none: ENOSYS, EPERM and EACCES where the system, or whoever confined
   this process, does not allow it, ENOMEM where too little memory may be locked. */
int coffer__os_ring_open(coffer__os_ring *ring, unsigned entries);
/* Nothing may be in progress. */
void coffer__os_ring_close(coffer__os_ring *ring);
/* Keeps memory in place, so that each read to it costs less. ENOMEM where too little may be locked; then, and after any
   other error, reads work without it. */
int coffer__os_ring_register(coffer__os_ring *ring, void *memory, size_t size);
/* Puts a read into the queue; false when it is full. */
bool coffer__os_ring_put(coffer__os_ring *ring, const coffer__os_ring_read *read);
/* Tells the system of reads that were put, and waits for `wanted` completions; 0: looks for those that are due. */
int coffer__os_ring_enter(coffer__os_ring *ring, unsigned wanted);
/* The next completion; false: there is none. */
bool coffer__os_ring_next(coffer__os_ring *ring, coffer__os_completion *completion);

/* ---- what survives ----------------------------------------------------------------------------------------------- */

/* When it returns 0, the file's bytes and length are on the device. */
int coffer__os_sync(int fd);
/* Waits until these bytes were sent to the device. That promises nothing, but a later
   coffer__os_sync has less to wait for. */
void coffer__os_sync_stretch(int fd, uint64_t offset, uint64_t size);
/* Starts writing what the file has so far to the device, without waiting for it. It promises
   nothing, but a later coffer__os_sync has less to do. */
void coffer__os_sync_begin(int fd);
/* Makes the names in a directory durable. Returns 0 also where the file system has no such
   operation. */
int coffer__os_sync_names(int directory);
int coffer__os_open_directory(const char *path, int *directory);
int coffer__os_sync_directory(const char *path);
/* Renames atomically; what lies under `to` is replaced. */
int coffer__os_rename(const char *from, const char *to);
/* The same, without waiting until a large file that is replaced has been freed, which takes long. A thread of
   its own does that. It may outlive the call, touches nothing else, and keeps the library that this code
   is part of loaded from then on. The file is freed within the call where the device is nearly full, since
   the next file may need the space, and where no such thread can be started. */
int coffer__os_rename_without_wait(const char *from, const char *to);
/* Exchanges what two names lead to, atomically. Fails where the file system cannot. */
int coffer__os_exchange(const char *one, const char *other);
int coffer__os_unlink(const char *path);
/* Removes a name, and frees a large file as coffer__os_rename_without_wait does. */
int coffer__os_unlink_without_wait(const char *path);
/* Gives the file of `fd` the owner, group and mode of `info`, and the access control list of
   `path`, which is the file that `info` describes. What cannot be taken over is left out, set-id
   bits with it, in such a way that nobody may do more with the new file than with the old one. */
int coffer__os_take_owner_and_mode(int fd, const coffer__os_info *info, const char *path);
/* Locks the file against other processes that lock it, until the descriptor is closed or the
   process ends. Never waits: EWOULDBLOCK when another process has the lock. */
int coffer__os_lock(int fd);

/* ---- memory ------------------------------------------------------------------------------------------------------ */

typedef struct coffer__os_map {
    void *base;
    size_t size;
} coffer__os_map;

/* Maps a range of a file: shared and read-only, or private and writable. *address is that of the
   range's first byte, which need not be at the beginning of a page. With `populate` the pages are
   read in now. */
int coffer__os_map_range(int fd, uint64_t offset, uint64_t size, bool writable_copy, bool populate, coffer__os_map *map,
                         void **address);
void coffer__os_unmap(const coffer__os_map *map);
/* Reads in what is missing of a range of a map, and enters its pages, so that touching them waits for nothing. EFAULT where
   the file ends before the range, or cannot be read; EOPNOTSUPP where the system has no way to do that and say how it went. */
int coffer__os_map_populate(void *address, size_t size);
/* Whether all of a range of a file is in memory, as far as the system tells this user; `address` is where it is mapped. */
bool coffer__os_map_is_cached(int fd, uint64_t offset, void *address, size_t size);

/* Memory of this size and more is aligned so that huge pages can be used. */
#define COFFER__OS_HUGE_PAGE ((size_t)2 << 20)
size_t coffer__os_page_size(void);
/* The machine's memory in bytes; 0: not known. */
uint64_t coffer__os_memory_total(void);
/* Fresh pages, all zero; `size` is a number of whole pages. NULL when there is no memory. From
   COFFER__OS_HUGE_PAGE on they begin where a huge page can, and the system is asked to use some. */
void *coffer__os_pages_new(size_t size);
void coffer__os_pages_free(void *pages, size_t size);
/* Gives back the memory of whole pages, which stay the program's and are zero when they are touched again. */
void coffer__os_pages_discard(void *pages, size_t size);
/* Asks the system to take such pages, when they are first used, from the memory that is next to a node, as far as it has
   some. A failure is nobody's concern: the pages come from elsewhere then. */
int coffer__os_pages_near(void *pages, size_t size, int32_t node);
/* Asks for huge pages for a block of another allocator. The advice covers whole pages, so it begins
   at the start of the block's first page and thus covers the block's whole mapping. Advice for a
   part would split the mapping, and libc's realloc could no longer move it without copying. */
void coffer__os_want_huge_pages(void *block, size_t size);

/* ---- what processes share ---------------------------------------------------------------------------------------- */

/* Memory of its own that other processes can have by its descriptor: `size` bytes, all zero, which never becomes shorter
   or longer. `label` is only for people who look at the process. */
int coffer__os_shared_new(const char *label, uint64_t size, int *fd);
/* Seals it: nobody seals it further, and with `constant` nobody changes it any more. EBUSY while somebody has it mapped
   to write, for `constant`. */
int coffer__os_shared_seal(int fd, bool constant);
/* Whether a descriptor that came from another process is such memory, sealed like that; EPERM if it is not. */
int coffer__os_shared_check(int fd, bool constant, uint64_t *size);
/* Maps all of it, to read and write. coffer__os_map_range maps it to read. */
int coffer__os_shared_map(int fd, uint64_t size, coffer__os_map *map);
/* Takes a range of it, whole huge pages that nobody has used, as huge pages, where the system can. Disks read to small ones
   in small pieces, and every process maps each of them by itself. */
void coffer__os_shared_huge(const coffer__os_map *map, uint64_t offset, uint64_t size);
/* Gives back the memory of a range of whole pages, which reads as zeros from then on. */
void coffer__os_shared_discard(int fd, uint64_t offset, uint64_t size);

/* Answers processes of this user that call `name`, on this machine and within this network namespace. EADDRINUSE when
   another process does, of whatever user; EPERM when the number of this user is that of unknown users, too. */
int coffer__os_answer(const char *name, int *listener);
/* Passes `fd` to everybody who has called, and never waits. *given becomes how many got it. A failure, such as EMFILE, is
   that somebody still waits who cannot be let in just now. Close the listener with coffer__os_close. */
int coffer__os_answer_all(int listener, int fd, uint32_t *given);
/* Nobody is answered any more; whoever waits by coffer__os_callers_await sees that. */
void coffer__os_answer_stop(int listener);
/* A set of listeners, each with a number of the caller's; to be closed by coffer__os_close. */
int coffer__os_callers_new(int *set);
int coffer__os_callers_add(int set, int listener, uint32_t number);
/* Waits until somebody calls one of them. ECANCELED after coffer__os_answer_stop. */
int coffer__os_callers_await(int set, uint32_t *number);
/* Calls `name`, and waits for nobody. ECONNREFUSED when nobody answers, EACCES when a process of another user does, EPERM
   as above. The caller is to be closed by coffer__os_close. */
int coffer__os_call(const char *name, int *caller);
/* Waits for what the other process passes. EAGAIN when the time is over, or a signal came; EPROTO when it passed
   nothing. */
int coffer__os_await_passed(int caller, uint64_t milliseconds, int *fd);

/* Waits until `word`, which may be in shared memory, is not `value` any more, or is woken, or the time is over, or for
   no reason. */
void coffer__os_word_await(_Atomic(uint32_t) *word, uint32_t value, uint64_t milliseconds);
/* Wakes all threads of all processes that wait for the word. */
void coffer__os_word_wake(_Atomic(uint32_t) *word);

/* The user of this process. */
uint32_t coffer__os_user(void);
/* Holds a byte of shared memory until *holder is closed, or the process ends. EAGAIN or EACCES when somebody else holds it.
   *holder -1: the system knows only locks that belong to a process. Then the byte is held until the process closes any
   descriptor of that memory, and its own bytes do not show. */
int coffer__os_hold_byte(int fd, uint64_t byte, int *holder);
/* Whether somebody who lives holds it. */
bool coffer__os_byte_is_held(int fd, uint64_t byte);

/* ---- other libraries --------------------------------------------------------------------------------------------- */

/* A library that is loaded while the program runs. A build with COFFER_NO_DLOPEN loads none. */
typedef struct coffer__os_library {
    void *handle;
} coffer__os_library;

/* Whether this build loads libraries at all. */
bool coffer__os_can_load(void);
/* Loads a library by its name, where the system's loader finds it; false if it is not available.
   With NULL it is the program itself, and symbols are found as the program's own references find
   them. */
bool coffer__os_library_open(coffer__os_library *library, const char *name);
/* The library that contains a function, which is loaded already. Symbols are found in what it
   depends on, too. */
bool coffer__os_library_holding(coffer__os_library *library, void (*function)(void));
/* Stores the address of a function in the function pointer that `function` points to; false if
   there is none. */
bool coffer__os_library_find(const coffer__os_library *library, const char *name, void *function);
void coffer__os_library_close(coffer__os_library *library);
/* Of two texts that for this system: what messages call a library, and how it comes there. */
static inline const char *coffer__os_choose(const char *posix, const char *windows)
{
#ifdef _WIN32
    (void)posix;
    return windows;
#else
    (void)windows;
    return posix;
#endif
}

/* ---- regular expressions ------------------------------------------------------------------------------------------ */

/* POSIX extended, whatever the locale is: by characters of UTF-8 or, where the system lacks such a locale, by bytes. */
typedef struct coffer__os_regex coffer__os_regex;
/* Where a match, or what a group took, begins and ends; both 0: it took nothing. */
typedef struct coffer__os_span {
    size_t first;
    size_t end;
} coffer__os_span;
#define COFFER__OS_REGEX_SPANS 10u /* the whole match, and groups 1 to 9 */

/* Memory is the C library's. EINVAL: it is no expression, and `why` says so in its words; ENOMEM; EOPNOTSUPP where there
   are none. */
int coffer__os_regex_new(coffer__os_regex **regex, const char *pattern, char *why, size_t why_size);
/* How many groups it has. */
size_t coffer__os_regex_groups(const coffer__os_regex *regex);
/* The first match in a text, which `begins` where lines do. */
bool coffer__os_regex_find(const coffer__os_regex *regex, const char *text, bool begins,
                           coffer__os_span spans[COFFER__OS_REGEX_SPANS]);
/* NULL is allowed. */
void coffer__os_regex_free(coffer__os_regex *regex);

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

/* Words for an errno: lower case, in English whatever the locale, and static. strerror follows the
   locale and is not safe in threads everywhere. */
const char *coffer__os_words(int os_error);
/* A variable of the environment; NULL if it is not set, or empty. Valid until the program changes
   its environment. */
const char *coffer__os_variable(const char *name);
/* Milliseconds of a monotonic clock. Only differences mean anything. */
uint64_t coffer__os_milliseconds(void);
/* The same in nanoseconds. */
uint64_t coffer__os_nanoseconds(void);
/* Seconds since 1970, by the system's calendar. */
uint64_t coffer__os_time(void);
void coffer__os_sleep(uint64_t milliseconds);
/* Which process this is. After fork, the child gets another number. */
uint64_t coffer__os_process(void);
/* A number that this process and its neighbours are not likely to get twice. Not a secret. */
uint32_t coffer__os_unlikely_number(void);

#endif
