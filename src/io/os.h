/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operating system: with the files os_*.c the only one that names it. A port is a second set of them with these contracts.
 * Functions that can fail for the system's reasons return 0 or a positive errno; callers turn that into a coffer_status
 * (trouble.h does it in one line). Calls that a signal interrupted are made again; short transfers are resumed. Every
 * descriptor that is made here is closed when the process becomes another program.
 */
#ifndef COFFER_IO_OS_H
#define COFFER_IO_OS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- threads ----------------------------------------------------------------------------------------------------- */

typedef struct coffer__mutex {
    pthread_mutex_t posix;
} coffer__mutex;

typedef struct coffer__thread {
    pthread_t posix;
    void (*run)(void *arg);
    void *arg;
} coffer__thread;

typedef struct coffer__condition {
    pthread_cond_t posix;
} coffer__condition;

int coffer__os_mutex_init(coffer__mutex *mutex);
void coffer__os_mutex_deinit(coffer__mutex *mutex);
void coffer__os_mutex_lock(coffer__mutex *mutex);
void coffer__os_mutex_unlock(coffer__mutex *mutex);
int coffer__os_condition_init(coffer__condition *condition);
void coffer__os_condition_deinit(coffer__condition *condition);
/* Lets the mutex go, waits to be woken (or for no reason) for so many milliseconds at most, and takes it again. False when they
   are over. */
bool coffer__os_condition_wait(coffer__condition *condition, coffer__mutex *mutex, uint64_t milliseconds);
/* Wakes the thread that waits; one at most may. */
void coffer__os_condition_wake(coffer__condition *condition);
/* Runs run(arg) on a new thread, in which signals are blocked, which belong to the caller's threads, but for those that it causes
   itself, SIGBUS and its like. *thread must live until join. A thread that is `small` has a stack of 256 KiB, where the system can
   do that, instead of the usual 8 MiB: enough for this library's own code, not for what others may do. */
int coffer__os_thread_start(coffer__thread *thread, void (*run)(void *arg), void *arg, bool small);
void coffer__os_thread_join(coffer__thread *thread);
/* Processors that this process may use, at least 1. */
unsigned coffer__os_processors(void);
/* Descriptors that this process may have open at once. */
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
    int64_t modified; /* the time of the last change, in nanoseconds; of interest only to be compared */
    int64_t touched;  /* likewise that of the last change of the bytes or of what is known of the file */
    bool recent;      /* so short a time ago that one more change could leave the same times */
} coffer__os_info;

/* Whether it is the same file, of the same size and time of change. */
bool coffer__os_unchanged(const coffer__os_info *then, const coffer__os_info *now);
/* Whether the file is this process's user's. */
bool coffer__os_is_mine(const coffer__os_info *info);

int coffer__os_inspect(const char *path, bool follow, coffer__os_info *info);
int coffer__os_inspect_fd(int fd, coffer__os_info *info);
/* Whether the name leads to anything. One cheap system call. */
bool coffer__os_exists(const char *path);
/* Calls `see` for every name in a folder, in no order, without "." and ".."; it returns false to end. */
int coffer__os_list(const char *folder, bool (*see)(void *ctx, const char *name), void *ctx);
/* The name without any symbolic link in it, absolute. ENAMETOOLONG when `size` bytes do not hold it. */
int coffer__os_real_path(const char *path, char *out, size_t size);

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

typedef enum coffer__os_use {
    COFFER__OS_READ,
    COFFER__OS_WRITE, /* without truncating */
    COFFER__OS_EDIT   /* read and write */
} coffer__os_use;

/* Opens what exists. Never waits, not for the other end of a pipe either. Without `follow` a symbolic link is ELOOP. */
int coffer__os_open(const char *path, coffer__os_use use, bool follow, int *fd);
/* Makes a new file, open to read and write; EEXIST when the name is taken, by a symbolic link too. Its mode is 0600 when
   `secret`, else what the umask makes of 0666. */
int coffer__os_create(const char *path, bool secret, int *fd);
/* The same without a name, in a directory: it is gone when the process ends, unless it is given a name. Fails where the
   file system cannot do it or where coffer__os_name could not work. */
int coffer__os_create_unnamed(const char *directory, bool secret, int *fd);
/* Gives an unnamed file its name; EEXIST when that is taken. */
int coffer__os_name(int fd, const char *path);
int coffer__os_duplicate(int fd, int *copy);
/* The descriptor is gone whatever the result: an error is about bytes that a network file system could not store. */
int coffer__os_close(int fd);

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

/* Reads until `size` bytes are there or the file ends; *done says how many. */
int coffer__os_read_at(int fd, uint64_t offset, void *buffer, size_t size, size_t *done);
int coffer__os_write_at(int fd, uint64_t offset, const void *bytes, size_t size);
/* Writes at the descriptor's own position; *done says how many bytes, which are fewer, or none, when a signal came. Waits when a
   non-blocking descriptor takes no more. */
int coffer__os_write_next(int fd, const void *bytes, size_t size, size_t *done);
/* Copies between two files, in the kernel or by sharing blocks where that is possible; *done is less than `size` without an
   error when the source ends. EOPNOTSUPP when only reading and writing is left. */
int coffer__os_copy(int from, uint64_t from_offset, int to, uint64_t to_offset, uint64_t size, uint64_t *done);
/* Makes the whole of `to` share the blocks of `from`, at once; fails where the file system cannot. */
int coffer__os_clone(int from, int to);
/* The same from a place on, to the end of `from`; both places are multiples of the file system's blocks. */
int coffer__os_clone_range(int from, uint64_t from_offset, int to, uint64_t to_offset);
/* Moves everything from `offset` on by `size` bytes towards the end, without copying; what is between is zeros. Both are multiples
   of the file system's blocks. Fails where it cannot do it. */
int coffer__os_insert(int fd, uint64_t offset, uint64_t size);
/* Makes sure that nobody else has the file open or mapped, through whatever descriptor, and that whoever opens it has to wait until
   it is let go of, for as long as the system lets them (45 s). EAGAIN when somebody has it, EOPNOTSUPP when that cannot be told. */
int coffer__os_claim(int fd);
void coffer__os_let_go(int fd);
/* Sets space aside for the bytes from `offset` on, without changing the file's length. 0 also where the file system cannot
   do it, or signals keep it from doing so: a full disk is then found while writing. */
int coffer__os_reserve(int fd, uint64_t offset, uint64_t size);
/* From a place on, where the next bytes are that were written, or the file's end: `offset` itself from there on. And where the next
   hole is, which reads as zeros and takes no room; UINT64_MAX when there is none. A file system that does not know has no holes. */
uint64_t coffer__os_next_data(int fd, uint64_t offset);
uint64_t coffer__os_next_hole(int fd, uint64_t offset);
int coffer__os_truncate(int fd, uint64_t size);
/* The descriptor's own position; ESPIPE when it has none. */
int coffer__os_position(int fd, uint64_t *position);
int coffer__os_set_position(int fd, uint64_t position);
/* Whether every write goes to the file's end, whatever position is asked for. */
bool coffer__os_appends(int fd);

/* ---- what survives ----------------------------------------------------------------------------------------------- */

/* The file's bytes and length are on the device when it returns 0. */
int coffer__os_sync(int fd);
/* Waits until the device has these bytes, which promises nothing: a later coffer__os_sync then has less to wait for. */
void coffer__os_sync_stretch(int fd, uint64_t offset, uint64_t size);
/* Lets the device begin to write what the file has so far, without waiting for it: a later coffer__os_sync then has less to
   do. Promises nothing. */
void coffer__os_sync_begin(int fd);
/* The same for a directory's names. 0 also where a file system does not know how. */
int coffer__os_sync_names(int directory);
int coffer__os_open_directory(const char *path, int *directory);
int coffer__os_sync_directory(const char *path);
int coffer__os_rename(const char *from, const char *to);
/* The same where a large file may be replaced: the system gives its memory and its place up on a thread of its own, which
   outlives the call and touches nothing else; what this code is part of stays loaded from then on. It is done within the call
   where the device has little room left, which the next file may need, and where that cannot be had. */
int coffer__os_rename_without_wait(const char *from, const char *to);
/* Exchanges what two names lead to, at once. Fails where the file system cannot. */
int coffer__os_exchange(const char *one, const char *other);
int coffer__os_unlink(const char *path);
/* Removes a name, and gives a large file up as coffer__os_rename_without_wait does. */
int coffer__os_unlink_without_wait(const char *path);
/* Takes owner, group and mode from `info`, and the access control list of the file at `path`, which that is of. What cannot be taken
   is left, set-id bits with it, and then nobody may do more with the new file than with the old one. */
int coffer__os_take_owner_and_mode(int fd, const coffer__os_info *info, const char *path);
/* Locks the file against others that lock it, until the descriptor is closed or the process ends. EWOULDBLOCK when somebody
   has it. */
int coffer__os_lock(int fd);

/* ---- memory ------------------------------------------------------------------------------------------------------ */

typedef struct coffer__os_map {
    void *base;
    size_t size;
} coffer__os_map;

/* Maps a range of a file: shared and read-only, or private and writable. *address is that of the range's first byte. */
int coffer__os_map_range(int fd, uint64_t offset, uint64_t size, bool writable_copy, bool populate, coffer__os_map *map,
                         void **address);
void coffer__os_unmap(const coffer__os_map *map);

/* From this size on memory may begin where a huge page can. */
#define COFFER__OS_HUGE_PAGE ((size_t)2 << 20)
size_t coffer__os_page_size(void);
/* Fresh pages, zero, `size` bytes in whole pages; NULL when there are none. From COFFER__OS_HUGE_PAGE on they begin where a huge page
   can, and the system is asked for such. */
void *coffer__os_pages_new(size_t size);
void coffer__os_pages_free(void *pages, size_t size);
/* Asks for huge pages below a block of another allocator. The advice goes to whole pages, outwards, and so to all of a block's own
   mapping: in two parts, libc could not move it by remapping. */
void coffer__os_want_huge_pages(void *block, size_t size);

/* ---- other libraries --------------------------------------------------------------------------------------------- */

/* A library that is loaded while the program runs. A copy of this library that was compiled with COFFER_NO_DLOPEN loads none. */
typedef struct coffer__os_library {
    void *handle;
} coffer__os_library;

/* Whether this copy loads any. */
bool coffer__os_can_load(void);
/* Loads a library by its name, where the system's loader finds it; false if it is not available. NULL: the program, with all that
   every library finds before its own. */
bool coffer__os_library_open(coffer__os_library *library, const char *name);
/* The library that a function is in, which is loaded already; what it depends on is found in it, too. */
bool coffer__os_library_holding(coffer__os_library *library, void (*function)(void));
/* Stores a function of the library in the pointer to a function that `function` points to; false when there is none. */
bool coffer__os_library_find(const coffer__os_library *library, const char *name, void *function);
void coffer__os_library_close(coffer__os_library *library);

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

/* Words for an errno, lower case, English whatever the locale; static. */
const char *coffer__os_words(int os_error);
/* A variable of the environment; NULL when it is not there or empty. Valid until the program changes its environment. */
const char *coffer__os_variable(const char *name);
/* Milliseconds of a clock that only goes forward, from some moment on. */
uint64_t coffer__os_milliseconds(void);
/* Seconds since 1970, by the system's calendar. */
uint64_t coffer__os_time(void);
void coffer__os_sleep(uint64_t milliseconds);
/* A number that this process and its neighbours are not likely to get twice. Not a secret. */
uint32_t coffer__os_unlikely_number(void);

#endif
