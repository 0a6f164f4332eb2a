/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faulty_calls.h on Windows: there the library calls the system by many functions, which are not the C library's, so those
 * of os.h fail in their place. The linker leads every call of one between two files of the library to the function called
 * __wrap_, and __real_ is the library's own. There are no signals, so a transfer is neither interrupted nor cut.
 */
#ifndef COFFER_TESTS_WINDOWS_FAULTY_OS_H
#define COFFER_TESTS_WINDOWS_FAULTY_OS_H

#include "os.h"

int __real_coffer__os_open(const char *path, coffer__os_use use, bool follow, int *fd);
int __wrap_coffer__os_open(const char *path, coffer__os_use use, bool follow, int *fd);
int __real_coffer__os_create(const char *path, bool secret, int *fd);
int __wrap_coffer__os_create(const char *path, bool secret, int *fd);
int __real_coffer__os_create_unnamed(const char *directory, bool secret, int *fd);
int __wrap_coffer__os_create_unnamed(const char *directory, bool secret, int *fd);
int __real_coffer__os_name(int fd, const char *path);
int __wrap_coffer__os_name(int fd, const char *path);
int __real_coffer__os_read_at(int fd, uint64_t offset, void *buffer, size_t size, size_t *done);
int __wrap_coffer__os_read_at(int fd, uint64_t offset, void *buffer, size_t size, size_t *done);
int __real_coffer__os_read_enough(int fd, uint64_t offset, void *buffer, size_t size, size_t enough, size_t *done);
int __wrap_coffer__os_read_enough(int fd, uint64_t offset, void *buffer, size_t size, size_t enough, size_t *done);
int __real_coffer__os_write_at(int fd, uint64_t offset, const void *bytes, size_t size);
int __wrap_coffer__os_write_at(int fd, uint64_t offset, const void *bytes, size_t size);
int __real_coffer__os_write_next(int fd, const void *bytes, size_t size, size_t *done);
int __wrap_coffer__os_write_next(int fd, const void *bytes, size_t size, size_t *done);
int __real_coffer__os_reserve(int fd, uint64_t offset, uint64_t size);
int __wrap_coffer__os_reserve(int fd, uint64_t offset, uint64_t size);
int __real_coffer__os_truncate(int fd, uint64_t size);
int __wrap_coffer__os_truncate(int fd, uint64_t size);
int __real_coffer__os_sync(int fd);
int __wrap_coffer__os_sync(int fd);
int __real_coffer__os_sync_names(int directory);
int __wrap_coffer__os_sync_names(int directory);
int __real_coffer__os_sync_directory(const char *path);
int __wrap_coffer__os_sync_directory(const char *path);
int __real_coffer__os_rename(const char *from, const char *to);
int __wrap_coffer__os_rename(const char *from, const char *to);
int __real_coffer__os_rename_without_wait(const char *from, const char *to);
int __wrap_coffer__os_rename_without_wait(const char *from, const char *to);
int __real_coffer__os_exchange(const char *one, const char *other);
int __wrap_coffer__os_exchange(const char *one, const char *other);
int __real_coffer__os_unlink(const char *path);
int __wrap_coffer__os_unlink(const char *path);
int __real_coffer__os_unlink_without_wait(const char *path);
int __wrap_coffer__os_unlink_without_wait(const char *path);
int __real_coffer__os_take_owner_and_mode(int fd, const coffer__os_info *info, const char *path);
int __wrap_coffer__os_take_owner_and_mode(int fd, const coffer__os_info *info, const char *path);
int __real_coffer__os_lock(int fd);
int __wrap_coffer__os_lock(int fd);
int __real_coffer__os_clone(int from, int to);
int __wrap_coffer__os_clone(int from, int to);
int __real_coffer__os_clone_range(int from, uint64_t from_offset, int to, uint64_t to_offset);
int __wrap_coffer__os_clone_range(int from, uint64_t from_offset, int to, uint64_t to_offset);
int __real_coffer__os_copy(int from, uint64_t from_offset, int to, uint64_t to_offset, uint64_t size, uint64_t *done);
int __wrap_coffer__os_copy(int from, uint64_t from_offset, int to, uint64_t to_offset, uint64_t size, uint64_t *done);
int __real_coffer__os_inspect(const char *path, bool follow, coffer__os_info *info);
int __wrap_coffer__os_inspect(const char *path, bool follow, coffer__os_info *info);
int __real_coffer__os_inspect_fd(int fd, coffer__os_info *info);
int __wrap_coffer__os_inspect_fd(int fd, coffer__os_info *info);
int __real_coffer__os_close(int fd);
int __wrap_coffer__os_close(int fd);

int __wrap_coffer__os_open(const char *path, coffer__os_use use, bool follow, int *fd)
{
    return faulty(FAULT_OPEN) ? errno : __real_coffer__os_open(path, use, follow, fd);
}

int __wrap_coffer__os_create(const char *path, bool secret, int *fd)
{
    return faulty(FAULT_OPEN) ? errno : __real_coffer__os_create(path, secret, fd);
}

int __wrap_coffer__os_create_unnamed(const char *directory, bool secret, int *fd)
{
    return faulty(FAULT_UNNAMED) ? errno : __real_coffer__os_create_unnamed(directory, secret, fd);
}

int __wrap_coffer__os_name(int fd, const char *path)
{
    return faulty(FAULT_LINK) ? errno : __real_coffer__os_name(fd, path);
}

int __wrap_coffer__os_read_at(int fd, uint64_t offset, void *buffer, size_t size, size_t *done)
{
    *done = 0;
    return faulty(FAULT_READ) ? errno : __real_coffer__os_read_at(fd, offset, buffer, size, done);
}

int __wrap_coffer__os_read_enough(int fd, uint64_t offset, void *buffer, size_t size, size_t enough, size_t *done)
{
    *done = 0;
    return faulty(FAULT_READ) ? errno : __real_coffer__os_read_enough(fd, offset, buffer, size, enough, done);
}

int __wrap_coffer__os_write_at(int fd, uint64_t offset, const void *bytes, size_t size)
{
    return faulty(FAULT_WRITE) ? errno : __real_coffer__os_write_at(fd, offset, bytes, size);
}

int __wrap_coffer__os_write_next(int fd, const void *bytes, size_t size, size_t *done)
{
    *done = 0;
    return faulty(FAULT_WRITE) ? errno : __real_coffer__os_write_next(fd, bytes, size, done);
}

int __wrap_coffer__os_reserve(int fd, uint64_t offset, uint64_t size)
{
    return faulty(FAULT_RESERVE) ? errno : __real_coffer__os_reserve(fd, offset, size);
}

int __wrap_coffer__os_truncate(int fd, uint64_t size)
{
    return faulty(FAULT_TRUNCATE) ? errno : __real_coffer__os_truncate(fd, size);
}

int __wrap_coffer__os_sync(int fd)
{
    return faulty(FAULT_SYNC) ? errno : __real_coffer__os_sync(fd);
}

int __wrap_coffer__os_sync_names(int directory)
{
    return faulty(FAULT_SYNC_NAMES) ? errno : __real_coffer__os_sync_names(directory);
}

int __wrap_coffer__os_sync_directory(const char *path)
{
    return faulty(FAULT_SYNC_NAMES) ? errno : __real_coffer__os_sync_directory(path);
}

int __wrap_coffer__os_rename(const char *from, const char *to)
{
    return faulty(FAULT_RENAME) ? errno : __real_coffer__os_rename(from, to);
}

int __wrap_coffer__os_rename_without_wait(const char *from, const char *to)
{
    return faulty(FAULT_RENAME) ? errno : __real_coffer__os_rename_without_wait(from, to);
}

int __wrap_coffer__os_exchange(const char *one, const char *other)
{
    return faulty(FAULT_EXCHANGE) ? errno : __real_coffer__os_exchange(one, other);
}

int __wrap_coffer__os_unlink(const char *path)
{
    return faulty(FAULT_UNLINK) ? errno : __real_coffer__os_unlink(path);
}

int __wrap_coffer__os_unlink_without_wait(const char *path)
{
    return faulty(FAULT_UNLINK) ? errno : __real_coffer__os_unlink_without_wait(path);
}

int __wrap_coffer__os_take_owner_and_mode(int fd, const coffer__os_info *info, const char *path)
{
    return faulty(FAULT_MODE) ? errno : __real_coffer__os_take_owner_and_mode(fd, info, path);
}

int __wrap_coffer__os_lock(int fd)
{
    return faulty(FAULT_LOCK) ? errno : __real_coffer__os_lock(fd);
}

/* What os.h makes of the errors that say that the system cannot do it. */
static int faulty_refusal(void)
{
    return errno == EXDEV || errno == ENOSYS || errno == EINVAL ? EOPNOTSUPP : errno;
}

int __wrap_coffer__os_clone(int from, int to)
{
    return faulty(FAULT_CLONE) ? faulty_refusal() : __real_coffer__os_clone(from, to);
}

int __wrap_coffer__os_clone_range(int from, uint64_t from_offset, int to, uint64_t to_offset)
{
    return faulty(FAULT_CLONE) ? faulty_refusal() : __real_coffer__os_clone_range(from, from_offset, to, to_offset);
}

int __wrap_coffer__os_copy(int from, uint64_t from_offset, int to, uint64_t to_offset, uint64_t size, uint64_t *done)
{
    *done = 0;
    return faulty(FAULT_COPY) ? faulty_refusal() : __real_coffer__os_copy(from, from_offset, to, to_offset, size, done);
}

/* What a look at a file finds. */
static int faulty_look(int os_error, coffer__os_info *info)
{
    if (os_error == 0 && faults.clock != 0) {
        info->modified = (int64_t)faults.clock * 1000000000;
        info->touched = info->modified;
        info->recent = false;
    }
    if (os_error == 0 && faults.stranger != 0 && info->inode == faults.stranger) {
        info->owner ^= 4711;
    }
    return os_error;
}

int __wrap_coffer__os_inspect(const char *path, bool follow, coffer__os_info *info)
{
    return faulty(FAULT_INSPECT) ? errno : faulty_look(__real_coffer__os_inspect(path, follow, info), info);
}

int __wrap_coffer__os_inspect_fd(int fd, coffer__os_info *info)
{
    return faulty(FAULT_INSPECT) ? errno : faulty_look(__real_coffer__os_inspect_fd(fd, info), info);
}

int __wrap_coffer__os_close(int fd)
{
    const int os_error = __real_coffer__os_close(fd);
    return faulty(FAULT_CLOSE) ? errno : os_error;
}

#endif
