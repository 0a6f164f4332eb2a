/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sinks when something goes wrong: saving must leave the old file or the new one, whole, whatever fails, and must leave nothing
 * else lying about. So every system call that saving makes is made to fail here, one after the other, and what the user then
 * finds is looked at; and everything that is no file must be refused before a byte is written. (That a kill at any moment does
 * no harm either is test_crash.c's affair.)
 */
#define _GNU_SOURCE

#include "support_cmocka.h"

#include "faulty_calls.h"

#include "coffer.h"
#include "sink.h"
#include "support_child.h"
#include "support_file.h"
#include "support_memory.h"
#include "support_sink.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/resource.h>

static int set_up(void **state)
{
    (void)state;
    faults_clear();
    saving_begin();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    faults_clear();
    saving_end();
    return 0;
}

/* ---- paths ----------------------------------------------------------------------------------------------------------- */

static void assert_refused(const char *path, bool in_place, coffer_status code, int os_error)
{
    coffer_error err;
    coffer__byte_sink sink;
    const size_t names = work_dir_count();
    const size_t before = open_descriptors();
    memory_meter meter;
    const coffer_allocator metered = metered_allocator(&meter);
    assert_int_equal(coffer__sink_path(&sink, &metered, path, COFFER_SYNC_REPLACE, in_place, &err), code);
    assert_int_equal(err.code, code);
    assert_int_equal(err.os_error, os_error);
    assert_string_equal(err.path, path);
    assert_int_equal(work_dir_count(), names);
    assert_int_equal(open_descriptors(), before);
    assert_int_equal(meter.held, 0);
}

static void test_path_is_no_file(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(work_path("pipe"), 0600), 0);
    assert_int_equal(symlink("/dev/null", work_path("link")), 0);
    assert_int_equal(symlink(".", work_path("here")), 0);
    assert_int_equal(symlink("loop", work_path("loop")), 0);
    file_write("model", old, OLD_SIZE);
    for (int in_place = 0; in_place < 2; in_place++) {
        assert_refused(work_path("."), in_place, COFFER_ERR_DIRECTORY, 0);
        assert_refused(work_path("here"), in_place, COFFER_ERR_DIRECTORY, 0);
        assert_refused(work_path("pipe"), in_place, COFFER_ERR_NOT_REGULAR, 0);
        assert_refused("/dev/null", in_place, COFFER_ERR_NOT_REGULAR, 0);
        assert_refused(work_path("link"), in_place, COFFER_ERR_NOT_REGULAR, 0);
        assert_refused(work_path("loop"), in_place, COFFER_ERR_IO, ELOOP);
        assert_refused(work_path("none/model"), in_place, COFFER_ERR_NOT_FOUND, ENOENT);
        assert_refused(work_path("none/"), in_place, COFFER_ERR_NOT_FOUND, ENOENT);
        assert_refused(work_path("model/x"), in_place, COFFER_ERR_NOT_FOUND, ENOTDIR);
        assert_refused("", in_place, COFFER_ERR_NOT_FOUND, ENOENT);
    }
}

/* In a child: whoever may do everything becomes somebody who may not. */
static int run_in_read_only_directory(void *ctx)
{
    const bool *in_place = ctx;
    coffer_error err;
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) {
        return 2;
    }
    const coffer_status status = save(work_path("model"), COFFER_SYNC_REPLACE, *in_place, &err);
    return status == COFFER_ERR_IO && err.os_error == EACCES ? 0 : 3;
}

static void test_read_only_directory(void **state)
{
    (void)state;
    assert_int_equal(chmod(work_path("."), 0555), 0);
    bool in_place = false;
    assert_int_equal(child_run(run_in_read_only_directory, &in_place), 0);
    in_place = true;
    assert_int_equal(child_run(run_in_read_only_directory, &in_place), 0);
    assert_int_equal(work_dir_count(), 0);
    assert_int_equal(chmod(work_path("."), 0755), 0);
}

static void test_missing_bytes(void **state)
{
    (void)state;
    file_write("model", old, OLD_SIZE);
    coffer__byte_sink sink;
    coffer_error err;
    assert_int_equal(
        coffer__sink_path(&sink, coffer_libc_allocator(), work_path("model"), COFFER_SYNC_REPLACE, false, NULL),
        COFFER_OK);
    assert_int_equal(sink.ops->reserve(&sink, FRESH_SIZE, NULL), COFFER_OK);
    assert_int_equal(sink.ops->write_at(&sink, 0, fresh, FRESH_SIZE - 1, NULL), COFFER_OK);
    assert_int_equal(sink.ops->publish(&sink, &err), COFFER_ERR_CHANGED);
    assert_int_equal(err.expected, FRESH_SIZE);
    assert_int_equal(err.actual, FRESH_SIZE - 1);
    assert_file("model", old, OLD_SIZE);
    assert_int_equal(work_dir_count(), 1);
}

/* Saves over an old file while every call of a kind fails. */
static void check_kind(fault kind, int os_error, coffer_status code, bool is_named, coffer_sync sync)
{
    coffer_error err;
    file_write("model", old, OLD_SIZE);
    faults.always[FAULT_UNNAMED] = is_named ? EOPNOTSUPP : 0;
    faults.always[kind] = os_error;
    assert_int_equal(save(work_path("model"), sync, false, &err), code);
    faults_clear();
    if (code != COFFER_OK) {
        assert_int_equal(err.os_error, os_error);
        assert_string_equal(err.path, work_path("model"));
        assert_file("model", old, OLD_SIZE);
    } else {
        assert_file("model", fresh, FRESH_SIZE);
    }
    assert_int_equal(work_dir_count(), 1);
}

static void test_kinds_of_failure(void **state)
{
    (void)state;
    for (int named = 0; named < 2; named++) {
        check_kind(FAULT_RESERVE, ENOSPC, COFFER_ERR_IO, named, COFFER_SYNC_REPLACE);
        check_kind(FAULT_RESERVE, EDQUOT, COFFER_ERR_IO, named, COFFER_SYNC_REPLACE);
        check_kind(FAULT_RESERVE, EOPNOTSUPP, COFFER_OK, named, COFFER_SYNC_REPLACE);
        check_kind(FAULT_RESERVE, ENOSYS, COFFER_OK, named, COFFER_SYNC_REPLACE);
        check_kind(FAULT_RESERVE, EINTR, COFFER_OK, named, COFFER_SYNC_REPLACE); /* every time, without end */
        check_kind(FAULT_WRITE, ENOSPC, COFFER_ERR_IO, named, COFFER_SYNC_REPLACE);
        check_kind(FAULT_SYNC, EIO, COFFER_ERR_IO, named, COFFER_SYNC_REPLACE);
        check_kind(FAULT_SYNC, EIO, COFFER_OK, named, COFFER_SYNC_NEVER);
        check_kind(FAULT_MODE, EPERM, COFFER_ERR_IO, named, COFFER_SYNC_REPLACE);
        check_kind(FAULT_SYNC_NAMES, EINVAL, COFFER_OK, named, COFFER_SYNC_ALWAYS);
        check_kind(FAULT_SYNC_NAMES, EIO, COFFER_OK, named, COFFER_SYNC_REPLACE);
    }
    check_kind(FAULT_LINK, EPERM, COFFER_OK, false, COFFER_SYNC_REPLACE);
    check_kind(FAULT_CLOSE, EDQUOT, COFFER_ERR_IO, true, COFFER_SYNC_REPLACE);
}

/* The first call only asks whether files that were made without a name may get one. */
static unsigned links;

static void refuse_all_but_the_first_link(void)
{
    faults.always[FAULT_LINK] = links++ == 0 ? 0 : EACCES;
}

/* What was written without a name is written once more where it then gets none. */
static void test_names_are_refused_later(void **state)
{
    (void)state;
    static const coffer_sync syncs[] = { COFFER_SYNC_REPLACE, COFFER_SYNC_ALWAYS, COFFER_SYNC_NEVER };
    for (size_t i = 0; i < 12; i++) {
        const bool exists = i / 3 % 2 != 0;
        if (exists) {
            file_write("model", old, OLD_SIZE);
            assert_int_equal(chmod(work_path("model"), 0604), 0);
        }
        links = 0;
        faults.before[FAULT_LINK] = refuse_all_but_the_first_link;
        faults.always[FAULT_COPY] = i < 6 ? 0 : EOPNOTSUPP;
        assert_int_equal(save(work_path("model"), syncs[i % 3], false, NULL), COFFER_OK);
        faults_clear();
        assert_file("model", fresh, FRESH_SIZE);
        assert_int_equal(mode_of("model"), exists ? 0604 : 0644);
        assert_int_equal(work_dir_count(), 1);
        assert_int_equal(unlink(work_path("model")), 0);
    }
}

/* Nothing is left of what could not be written once more. */
static void test_no_capacity_to_write_it_again(void **state)
{
    (void)state;
    coffer_error err;
    file_write("model", old, OLD_SIZE);
    links = 0;
    faults.before[FAULT_LINK] = refuse_all_but_the_first_link;
    faults.always[FAULT_COPY] = ENOSPC;
    const coffer_status status = save(work_path("model"), COFFER_SYNC_REPLACE, false, &err);
    const bool unnamed = links > 0; /* where there are such files */
    assert_int_equal(status, unnamed ? COFFER_ERR_IO : COFFER_OK);
    faults_clear();
    assert_file("model", unnamed ? old : fresh, unnamed ? OLD_SIZE : FRESH_SIZE);
    assert_int_equal(work_dir_count(), 1);
}

/* When the name's durability fails, the file is in place already, and the error says so. */
static void test_name_is_not_durable(void **state)
{
    (void)state;
    coffer_error err;
    file_write("model", old, OLD_SIZE);
    faults.always[FAULT_SYNC_NAMES] = EIO;
    assert_int_equal(save(work_path("model"), COFFER_SYNC_ALWAYS, false, &err), COFFER_ERR_IO);
    assert_non_null(strstr(err.message, "the file is in place"));
    assert_file("model", fresh, FRESH_SIZE);
    assert_int_equal(work_dir_count(), 1);
}

static void check_cannot_replace(int os_error, bool named)
{
    coffer_error err;
    file_write("model", old, OLD_SIZE);
    assert_int_equal(chmod(work_path("model"), 0640), 0);
    faults.always[FAULT_RENAME] = os_error;
    faults.always[FAULT_UNNAMED] = named ? EOPNOTSUPP : 0;
    assert_int_equal(save(work_path("model"), COFFER_SYNC_REPLACE, false, &err), COFFER_ERR_REPLACE);
    faults_clear();
    assert_int_equal(err.os_error, os_error);
    assert_file("model", old, OLD_SIZE);
    assert_int_equal(work_dir_count(), 2);
    const char *kept = hidden_name();
    assert_int_equal(strncmp(kept, ".model.coffer-", 14), 0);
    assert_int_equal(strlen(kept), 22);
    assert_non_null(strstr(err.message, kept));
    assert_non_null(strstr(err.message, "in_place"));
    assert_file(kept, fresh, FRESH_SIZE);
    assert_int_equal(mode_of(kept), 0640);
    assert_int_equal(unlink(work_path(kept)), 0);
}

static void test_cannot_replace(void **state)
{
    (void)state;
    check_cannot_replace(EBUSY, false);
    check_cannot_replace(EBUSY, true);
    check_cannot_replace(EPERM, false);
    check_cannot_replace(EXDEV, true);
}

static bool write_text(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    const bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    return fd >= 0 && close(fd) == 0 && done;
}

/* In a child: mounts from now on are its own; who is not root becomes root in a world of its own. False where that is not
   permitted. */
static bool own_mounts(void)
{
    char users[64];
    char groups[64];
    (void)snprintf(users, sizeof users, "0 %u 1", (unsigned)geteuid());
    (void)snprintf(groups, sizeof groups, "0 %u 1", (unsigned)getegid());
    const bool own = unshare(CLONE_NEWNS) == 0 ||
                     (unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && write_text("/proc/self/setgroups", "deny") &&
                      write_text("/proc/self/uid_map", users) && write_text("/proc/self/gid_map", groups));
    return own && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

/* In a child with mounts of its own: the file is mounted over itself, as containers do it with single files. 0: as it should
   be; 77: mounts are not permitted here. */
static int run_on_mounted_file(void *ctx)
{
    (void)ctx;
    coffer_error err;
    const char *path = work_path("model");
    if (!own_mounts() || mount(path, path, NULL, MS_BIND, NULL) != 0) {
        return 77;
    }
    if (save(path, COFFER_SYNC_REPLACE, false, &err) != COFFER_ERR_REPLACE || err.os_error != EBUSY) {
        return 1;
    }
    if (!file_is("model", old, OLD_SIZE) || !file_is(hidden_name(), fresh, FRESH_SIZE)) {
        return 2;
    }
    if (unlink(work_path(hidden_name())) != 0 || save(path, COFFER_SYNC_REPLACE, true, &err) != COFFER_OK) {
        return 3;
    }
    return file_is("model", fresh, FRESH_SIZE) ? 0 : 4;
}

static void test_mounted_file(void **state)
{
    (void)state;
    file_write("model", old, OLD_SIZE);
    const int result = child_run(run_on_mounted_file, NULL);
    if (result == 77) {
        check_cannot_replace(EBUSY, false);
        assert_int_equal(save(work_path("model"), COFFER_SYNC_REPLACE, true, NULL), COFFER_OK);
    } else {
        assert_int_equal(result, 0);
    }
    assert_file("model", fresh, FRESH_SIZE);
    assert_int_equal(work_dir_count(), 1);
}

/* In a child: files may not become as large as this one would. */
static int run_with_limited_size(void *ctx)
{
    const bool *in_place = ctx;
    coffer_error err;
    const struct rlimit limit = { FRESH_SIZE - 5000, FRESH_SIZE - 5000 };
    (void)signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) {
        return 2;
    }
    const coffer_status status = save(work_path("model"), COFFER_SYNC_REPLACE, *in_place, &err);
    return status == COFFER_ERR_IO && err.os_error == EFBIG ? 0 : 3;
}

static void test_limited_size(void **state)
{
    (void)state;
    bool in_place = false;
    file_write("model", old, OLD_SIZE);
    assert_int_equal(child_run(run_with_limited_size, &in_place), 0);
    assert_file("model", old, OLD_SIZE);
    assert_int_equal(unlink(work_path("model")), 0);
    assert_int_equal(child_run(run_with_limited_size, &in_place), 0);
    in_place = true;
    assert_int_equal(child_run(run_with_limited_size, &in_place), 0);
    assert_int_equal(work_dir_count(), 0);
}

/* In a child with a file system of its own that is too small. 77: mounts are not permitted here. */
static int run_on_small_disk(void *ctx)
{
    (void)ctx;
    coffer_error err;
    if (!own_mounts() || mount("none", work_path("."), "tmpfs", 0, "size=16384") != 0) {
        return 77;
    }
    coffer__byte_sink sink;
    if (coffer__sink_path(&sink, coffer_libc_allocator(), work_path("model"), COFFER_SYNC_REPLACE, false, &err) !=
        COFFER_OK) {
        return 1;
    }
    const coffer_status status = sink.ops->reserve(&sink, FRESH_SIZE, &err);
    sink.ops->discard(&sink);
    return status == COFFER_ERR_IO && err.os_error == ENOSPC && work_dir_count() == 0 ? 0 : 2;
}

static void test_small_disk(void **state)
{
    (void)state;
    const int result = child_run(run_on_small_disk, NULL);
    if (result == 77) {
        check_kind(FAULT_RESERVE, ENOSPC, COFFER_ERR_IO, false, COFFER_SYNC_REPLACE);
        assert_int_equal(unlink(work_path("model")), 0);
    } else {
        assert_int_equal(result, 0);
    }
}

/* Every call, one after the other, fails once. Tidying up (unlink, close) is spared: what cannot be removed remains. */
static unsigned check_every_call(bool exists, bool named, bool in_place, coffer_sync sync, int os_error)
{
    unsigned k = 0;
    bool came_to_it = true;
    while (came_to_it) {
        k++;
        faults_clear();
        if (exists) {
            file_write("model", old, OLD_SIZE);
        }
        const size_t before = open_descriptors();
        memory_meter meter;
        const coffer_allocator metered = metered_allocator(&meter);
        coffer_error err;
        coffer__byte_sink sink;
        faults.always[FAULT_UNNAMED] = named ? EOPNOTSUPP : 0;
        faults.fail_at = k;
        faults.error = os_error;
        faults.spare_clean_up = true;
        coffer_status status = coffer__sink_path(&sink, &metered, work_path("model"), sync, in_place, &err);
        status = status == COFFER_OK ? finish(&sink, &err) : status;
        came_to_it = faults.calls >= k;
        faults_clear();
        assert_int_equal(open_descriptors(), before);
        assert_int_equal(meter.held, 0);
        assert_true(status == COFFER_OK || err.code == status);
        size_t names = work_dir_count();
        if (status == COFFER_ERR_REPLACE) {
            assert_file(hidden_name(), fresh, FRESH_SIZE);
            assert_int_equal(unlink(work_path(hidden_name())), 0);
            names--;
        }
        const bool there = access(work_path("model"), F_OK) == 0;
        assert_int_equal(names, there ? 1 : 0);
        if (status == COFFER_OK) {
            assert_file("model", fresh, FRESH_SIZE);
        } else if (!in_place) {
            /* The one failure that comes too late is that of the name's durability. */
            assert_true(exists ? file_is("model", old, OLD_SIZE) || strstr(err.message, "the file is in place") != NULL
                               : !there || strstr(err.message, "the file is in place") != NULL);
        }
        if (there) {
            assert_int_equal(unlink(work_path("model")), 0);
        }
    }
    return k;
}

static void test_every_call_fails(void **state)
{
    (void)state;
    for (int choice = 0; choice < 8; choice++) {
        const bool exists = (choice & 1) != 0;
        const bool named = (choice & 2) != 0;
        const coffer_sync sync = (choice & 4) != 0 ? COFFER_SYNC_ALWAYS : COFFER_SYNC_REPLACE;
        assert_true(check_every_call(exists, named, false, sync, EIO) > 6);
        assert_true(check_every_call(exists, named, false, sync, ENOSPC) > 6);
    }
    assert_true(check_every_call(true, false, true, COFFER_SYNC_ALWAYS, EIO) > 6);
    assert_true(check_every_call(false, false, true, COFFER_SYNC_ALWAYS, EIO) > 6);
}

static void test_no_memory(void **state)
{
    (void)state;
    for (int in_place = 0; in_place < 2; in_place++) {
        memory_meter meter;
        const coffer_allocator metered = metered_allocator(&meter);
        meter.fail_at = 1;
        coffer__byte_sink sink;
        coffer_error err;
        assert_int_equal(coffer__sink_path(&sink, &metered, work_path("model"), COFFER_SYNC_REPLACE, in_place, &err),
                         COFFER_ERR_MEMORY);
        assert_int_equal(err.code, COFFER_ERR_MEMORY);
        assert_int_equal(work_dir_count(), 0);
    }
}

/* ---- descriptors ----------------------------------------------------------------------------------------------------- */

static void test_descriptor_fails(void **state)
{
    (void)state;
    coffer_error err;
    assert_int_equal(save_fd(-1, COFFER_SYNC_REPLACE, &err), COFFER_ERR_IO);
    assert_int_equal(err.os_error, EBADF);
    const int directory = open(work_path("."), O_RDONLY | O_CLOEXEC);
    assert_int_equal(save_fd(directory, COFFER_SYNC_REPLACE, &err), COFFER_ERR_DIRECTORY);
    assert_int_equal(close(directory), 0);
    const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    coffer__byte_sink sink;
    assert_int_equal(coffer__sink_fd(&sink, coffer_libc_allocator(), full, COFFER_SYNC_REPLACE, &err), COFFER_OK);
    assert_int_equal(sink.ops->write_at(&sink, 0, fresh, 10, &err), COFFER_ERR_IO);
    assert_int_equal(err.os_error, ENOSPC);
    sink.ops->discard(&sink);
    assert_int_equal(close(full), 0);
    file_write("model", old, OLD_SIZE);
    const int reader = open(work_path("model"), O_RDONLY | O_CLOEXEC);
    assert_int_equal(save_fd(reader, COFFER_SYNC_REPLACE, &err), COFFER_ERR_IO);
    assert_int_equal(err.os_error, EBADF);
    assert_int_equal(close(reader), 0);
    assert_file("model", old, OLD_SIZE);
}

static void check_descriptor_kind(fault kind, int os_error)
{
    coffer_error err;
    const int fd = open_model(O_TRUNC);
    faults.always[kind] = os_error;
    assert_int_equal(save_fd(fd, COFFER_SYNC_ALWAYS, &err), COFFER_ERR_IO);
    assert_int_equal(err.os_error, os_error);
    faults_clear();
    assert_int_equal(close(fd), 0);
}

static void test_descriptor_kinds_of_failure(void **state)
{
    (void)state;
    check_descriptor_kind(FAULT_RESERVE, ENOSPC);
    check_descriptor_kind(FAULT_WRITE, ENOSPC);
    check_descriptor_kind(FAULT_TRUNCATE, EIO);
    check_descriptor_kind(FAULT_SYNC, EIO);
    check_descriptor_kind(FAULT_INSPECT, EIO);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_path_is_no_file),
        TEST(test_read_only_directory),
        TEST(test_missing_bytes),
        TEST(test_kinds_of_failure),
        TEST(test_names_are_refused_later),
        TEST(test_no_capacity_to_write_it_again),
        TEST(test_name_is_not_durable),
        TEST(test_cannot_replace),
        TEST(test_mounted_file),
        TEST(test_limited_size),
        TEST(test_small_disk),
        TEST(test_every_call_fails),
        TEST(test_no_memory),
        TEST(test_descriptor_fails),
        TEST(test_descriptor_kinds_of_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
