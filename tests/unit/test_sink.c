/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sinks: saving must leave the old file or the new one, whole, whatever fails, and must leave nothing else lying about. So
 * every system call that saving makes is made to fail here, one after the other; what the user then finds is looked at, and
 * so are modes, owners, links, and everything that is no file and must be refused before a byte is written. (That a kill at
 * any moment does no harm either is test_crash.c's affair.)
 */
#define _GNU_SOURCE

#include "support_cmocka.h"

#include "faulty_calls.h"

#include "coffer.h"
#include "os.h"
#include "sink.h"
#include "support_child.h"
#include "support_file.h"
#include "support_memory.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* Begins to write what a file has so far; here it only fails, which nobody may notice. */
static unsigned syncs_begun;

int sync_file_range(int fd, off64_t offset, off64_t size, unsigned flags)
{
    (void)fd;
    (void)offset;
    (void)size;
    (void)flags;
    syncs_begun++;
    errno = EIO;
    return -1;
}

#define SIZE 20000u
#define OLD_SIZE 12345u

static uint8_t fresh[SIZE];
static uint8_t old[OLD_SIZE];
static mode_t mask_before;

static int set_up(void **state)
{
    (void)state;
    faults_clear();
    mask_before = umask(022);
    for (size_t i = 0; i < SIZE; i++) {
        fresh[i] = pattern_byte(i);
    }
    for (size_t i = 0; i < OLD_SIZE; i++) {
        old[i] = pattern_byte(i + 1000000);
    }
    work_dir_make();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    faults_clear();
    (void)umask(mask_before);
    work_dir_remove();
    return 0;
}

/* ---- helpers --------------------------------------------------------------------------------------------------------- */

static void assert_file(const char *name, const uint8_t *bytes, size_t size)
{
    size_t found_size = 0;
    uint8_t *found = file_read(name, &found_size);
    assert_int_equal(found_size, size);
    assert_memory_equal(found, bytes, size);
    free(found);
}

static bool file_is(const char *name, const uint8_t *bytes, size_t size)
{
    size_t found_size = 0;
    uint8_t *found = file_read(name, &found_size);
    const bool same = found_size == size && memcmp(found, bytes, size) == 0;
    free(found);
    return same;
}

static struct stat look(const char *name)
{
    struct stat found;
    assert_int_equal(lstat(work_path(name), &found), 0);
    return found;
}

static mode_t mode_of(const char *name)
{
    return look(name).st_mode & 07777;
}

/* Writes `fresh`, its second half first. */
static coffer_status fill(coffer__sink *sink, coffer_error *err)
{
    coffer_status status = sink->ops->reserve(sink, SIZE, err);
    if (status == COFFER_OK) {
        status = sink->ops->write_at(sink, SIZE / 2, fresh + SIZE / 2, SIZE - SIZE / 2, err);
    }
    return status == COFFER_OK ? sink->ops->write_at(sink, 0, fresh, SIZE / 2, err) : status;
}

static coffer_status finish(coffer__sink *sink, coffer_error *err)
{
    const coffer_status status = fill(sink, err);
    if (status != COFFER_OK) {
        sink->ops->discard(sink);
        return status;
    }
    return sink->ops->publish(sink, err);
}

static coffer_status save(const char *path, coffer_sync sync, bool in_place, coffer_error *err)
{
    coffer__sink sink;
    const coffer_status status = coffer__sink_path(&sink, coffer_libc_allocator(), path, sync, in_place, err);
    return status == COFFER_OK ? finish(&sink, err) : status;
}

/* The one name in the directory that begins with a dot. */
static const char *hidden_name(void)
{
    static char name[256];
    DIR *stream = opendir(work_path("."));
    assert_non_null(stream);
    unsigned count = 0;
    for (const struct dirent *entry = readdir(stream); entry != NULL; entry = readdir(stream)) {
        if (strncmp(entry->d_name, ".", 1) == 0 && strcmp(entry->d_name, ".") != 0 &&
            strcmp(entry->d_name, "..") != 0) {
            (void)snprintf(name, sizeof name, "%s", entry->d_name);
            count++;
        }
    }
    closedir(stream);
    assert_int_equal(count, 1);
    return name;
}

/* ---- a path: what comes of it ---------------------------------------------------------------------------------------- */

static void check_new_file(coffer_sync sync)
{
    coffer_error err;
    const size_t before = open_descriptors();
    assert_int_equal(save(work_path("model"), sync, false, &err), COFFER_OK);
    assert_file("model", fresh, SIZE);
    assert_int_equal(mode_of("model"), 0644);
    assert_int_equal(work_dir_count(), 1);
    assert_int_equal(open_descriptors(), before);
    assert_int_equal(unlink(work_path("model")), 0);
}

static void test_new_file(void **state)
{
    (void)state;
    check_new_file(COFFER_SYNC_REPLACE);
    check_new_file(COFFER_SYNC_ALWAYS);
    check_new_file(COFFER_SYNC_NEVER);
    faults.always[FAULT_UNNAMED] = EOPNOTSUPP;
    check_new_file(COFFER_SYNC_REPLACE);
    check_new_file(COFFER_SYNC_ALWAYS);
}

static void test_new_file_without_directory_in_path(void **state)
{
    (void)state;
    const int home = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(chdir(work_path(".")), 0);
    check_new_file(COFFER_SYNC_ALWAYS);
    assert_int_equal(save("model", COFFER_SYNC_REPLACE, false, NULL), COFFER_OK);
    faults.always[FAULT_UNNAMED] = EOPNOTSUPP;
    assert_int_equal(save("model", COFFER_SYNC_REPLACE, false, NULL), COFFER_OK);
    assert_file("model", fresh, SIZE);
    assert_int_equal(fchdir(home), 0);
    assert_int_equal(close(home), 0);
}

static void check_umask(mode_t mask, mode_t wanted)
{
    (void)umask(mask);
    assert_int_equal(save(work_path("model"), COFFER_SYNC_NEVER, false, NULL), COFFER_OK);
    assert_int_equal(mode_of("model"), wanted);
    assert_int_equal(unlink(work_path("model")), 0);
}

static void test_mode_of_new_file(void **state)
{
    (void)state;
    check_umask(0, 0666);
    check_umask(027, 0640);
    check_umask(0777, 0);
    faults.always[FAULT_UNNAMED] = EOPNOTSUPP;
    check_umask(027, 0640);
}

static void test_setgid_directory(void **state)
{
    (void)state;
    if (geteuid() == 0) {
        assert_int_equal(chown(work_path("."), 0, 12345), 0);
    }
    assert_int_equal(chmod(work_path("."), 02777), 0);
    const gid_t group = look(".").st_gid;
    assert_int_equal(save(work_path("model"), COFFER_SYNC_NEVER, false, NULL), COFFER_OK);
    assert_int_equal(look("model").st_gid, group);
    faults.always[FAULT_UNNAMED] = EOPNOTSUPP;
    assert_int_equal(save(work_path("other"), COFFER_SYNC_NEVER, false, NULL), COFFER_OK);
    assert_int_equal(look("other").st_gid, group);
}

static void check_replaced(coffer_sync sync)
{
    file_write("model", old, OLD_SIZE);
    assert_int_equal(chmod(work_path("model"), 0604), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(work_path("model"), 12345, 23456), 0);
    }
    const struct stat before = look("model");
    const int reader = open(work_path("model"), O_RDONLY | O_CLOEXEC);
    assert_int_equal(save(work_path("model"), sync, false, NULL), COFFER_OK);
    assert_file("model", fresh, SIZE);
    const struct stat after = look("model");
    assert_int_equal(after.st_mode, before.st_mode);
    assert_int_equal(after.st_uid, before.st_uid);
    assert_int_equal(after.st_gid, before.st_gid);
    /* Whoever has the old file open keeps it. */
    uint8_t kept[OLD_SIZE + 1];
    assert_int_equal(pread(reader, kept, sizeof kept, 0), OLD_SIZE);
    assert_memory_equal(kept, old, OLD_SIZE);
    assert_int_equal(close(reader), 0);
    assert_int_equal(work_dir_count(), 1);
    assert_int_equal(unlink(work_path("model")), 0);
}

static void test_replaced_file(void **state)
{
    (void)state;
    check_replaced(COFFER_SYNC_REPLACE);
    check_replaced(COFFER_SYNC_ALWAYS);
    check_replaced(COFFER_SYNC_NEVER);
    faults.always[FAULT_UNNAMED] = EOPNOTSUPP;
    check_replaced(COFFER_SYNC_REPLACE);
}

/* Owner and group need privileges; without them the mode is kept, but not the bits that lend somebody's rights. */
static void test_owner_cannot_be_kept(void **state)
{
    (void)state;
    file_write("model", old, OLD_SIZE);
    if (geteuid() == 0) {
        assert_int_equal(chown(work_path("model"), 12345, 23456), 0);
        assert_int_equal(chmod(work_path("model"), 04751), 0);
        faults.always[FAULT_OWNER] = EPERM;
    } else {
        assert_int_equal(chmod(work_path("model"), 0751), 0);
    }
    assert_int_equal(save(work_path("model"), COFFER_SYNC_NEVER, false, NULL), COFFER_OK);
    assert_int_equal(mode_of("model"), 0751);
    assert_int_equal(look("model").st_uid, geteuid());
}

/* A file that only its owner may read has no copy that others may read, not even for a while. */
static void test_temporary_is_secret(void **state)
{
    (void)state;
    file_write("model", old, OLD_SIZE);
    assert_int_equal(chmod(work_path("model"), 0600), 0);
    faults.always[FAULT_UNNAMED] = EOPNOTSUPP;
    coffer__sink sink;
    assert_int_equal(
        coffer__sink_path(&sink, coffer_libc_allocator(), work_path("model"), COFFER_SYNC_REPLACE, false, NULL),
        COFFER_OK);
    assert_int_equal(mode_of(hidden_name()), 0600);
    sink.ops->discard(&sink);
    assert_int_equal(work_dir_count(), 1);
}

static void test_symbolic_link_is_replaced(void **state)
{
    (void)state;
    file_write("target", old, OLD_SIZE);
    assert_int_equal(chmod(work_path("target"), 0640), 0);
    assert_int_equal(symlink("target", work_path("model")), 0);
    assert_int_equal(save(work_path("model"), COFFER_SYNC_REPLACE, false, NULL), COFFER_OK);
    assert_true(S_ISREG(look("model").st_mode));
    assert_int_equal(mode_of("model"), 0640);
    assert_file("model", fresh, SIZE);
    assert_file("target", old, OLD_SIZE);
    assert_int_equal(symlink("nowhere", work_path("dangling")), 0);
    assert_int_equal(save(work_path("dangling"), COFFER_SYNC_REPLACE, false, NULL), COFFER_OK);
    assert_file("dangling", fresh, SIZE);
    assert_int_equal(mode_of("dangling"), 0644);
    assert_int_equal(work_dir_count(), 3);
}

/* The other names of a file keep the old one. */
static void test_hard_link_is_cut(void **state)
{
    (void)state;
    file_write("model", old, OLD_SIZE);
    assert_int_equal(link(work_path("model"), work_path("other")), 0);
    assert_int_equal(save(work_path("model"), COFFER_SYNC_REPLACE, false, NULL), COFFER_OK);
    assert_file("model", fresh, SIZE);
    assert_file("other", old, OLD_SIZE);
    assert_int_equal(look("model").st_nlink, 1);
    assert_int_equal(look("other").st_nlink, 1);
    assert_int_equal(work_dir_count(), 2);
}

static void test_longest_names(void **state)
{
    (void)state;
    char name[256];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    for (int named = 0; named < 2; named++) {
        faults.always[FAULT_UNNAMED] = named ? EOPNOTSUPP : 0;
        assert_int_equal(save(work_path(name), COFFER_SYNC_REPLACE, false, NULL), COFFER_OK);
        assert_int_equal(save(work_path(name), COFFER_SYNC_REPLACE, false, NULL), COFFER_OK);
        assert_file(name, fresh, SIZE);
        assert_int_equal(work_dir_count(), 1);
        assert_int_equal(unlink(work_path(name)), 0);
    }
}

/* The undo file of the old file must not be taken for the new one's. */
static void test_old_undo_file_goes(void **state)
{
    (void)state;
    file_write("model", old, OLD_SIZE);
    file_write("model.coffer-undo", "x", 1);
    assert_int_equal(save(work_path("model"), COFFER_SYNC_REPLACE, false, NULL), COFFER_OK);
    assert_int_equal(work_dir_count(), 1);
    file_write("model.coffer-undo", "x", 1);
    assert_int_equal(save(work_path("model"), COFFER_SYNC_REPLACE, true, NULL), COFFER_OK);
    assert_int_equal(work_dir_count(), 1);
}

static void test_two_savers(void **state)
{
    (void)state;
    for (int exists = 0; exists < 2; exists++) {
        coffer__sink first;
        coffer__sink second;
        const coffer_allocator *libc = coffer_libc_allocator();
        assert_int_equal(coffer__sink_path(&first, libc, work_path("model"), COFFER_SYNC_REPLACE, false, NULL),
                         COFFER_OK);
        assert_int_equal(coffer__sink_path(&second, libc, work_path("model"), COFFER_SYNC_REPLACE, false, NULL),
                         COFFER_OK);
        assert_int_equal(first.ops->reserve(&first, OLD_SIZE, NULL), COFFER_OK);
        assert_int_equal(first.ops->write_at(&first, 0, old, OLD_SIZE, NULL), COFFER_OK);
        assert_int_equal(finish(&second, NULL), COFFER_OK);
        assert_file("model", fresh, SIZE);
        assert_int_equal(first.ops->publish(&first, NULL), COFFER_OK);
        assert_file("model", old, OLD_SIZE);
        assert_int_equal(work_dir_count(), 1);
        faults.always[FAULT_UNNAMED] = EOPNOTSUPP;
    }
}

static void somebody_saves(void)
{
    faults.before[FAULT_LINK] = NULL;
    file_write("model", old, OLD_SIZE);
    assert_int_equal(chmod(work_path("model"), 0640), 0);
}

/* The other one is faster by one system call: its file is replaced with the care that any old file gets. */
static void test_two_savers_at_once(void **state)
{
    (void)state;
    coffer__sink sink;
    assert_int_equal(
        coffer__sink_path(&sink, coffer_libc_allocator(), work_path("model"), COFFER_SYNC_REPLACE, false, NULL),
        COFFER_OK);
    faults.before[FAULT_LINK] = somebody_saves;
    assert_int_equal(finish(&sink, NULL), COFFER_OK);
    assert_file("model", fresh, SIZE);
    assert_int_equal(mode_of("model"), 0640);
    assert_int_equal(work_dir_count(), 1);
}

typedef struct part {
    coffer__sink *sink;
    size_t begin;
    size_t end;
    coffer_status status;
} part;

static void *write_part(void *ctx)
{
    part *mine = ctx;
    for (size_t at = mine->begin; at < mine->end && mine->status == COFFER_OK; at += 100) {
        mine->status = mine->sink->ops->write_at(mine->sink, at, fresh + at, 100, NULL);
    }
    return NULL;
}

static void write_from_threads(coffer__sink *sink)
{
    pthread_t threads[4];
    part parts[4];
    for (size_t i = 0; i < 4; i++) {
        parts[i] = (part){ sink, i * (SIZE / 4), (i + 1) * (SIZE / 4), COFFER_OK };
        assert_int_equal(pthread_create(&threads[i], NULL, write_part, &parts[i]), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(parts[i].status, COFFER_OK);
    }
}

static void test_threads(void **state)
{
    (void)state;
    coffer__sink sink;
    assert_int_equal(
        coffer__sink_path(&sink, coffer_libc_allocator(), work_path("model"), COFFER_SYNC_REPLACE, false, NULL),
        COFFER_OK);
    assert_int_equal(sink.ops->reserve(&sink, SIZE, NULL), COFFER_OK);
    write_from_threads(&sink);
    assert_int_equal(sink.ops->publish(&sink, NULL), COFFER_OK);
    assert_file("model", fresh, SIZE);
}

#define LARGE (((size_t)40 << 20) + 5)

/* Saves LARGE bytes in pieces of `piece`, and sees how often the device was told to begin. */
static void check_large(const uint8_t *bytes, size_t piece, coffer_sync sync, unsigned wanted)
{
    coffer__sink sink;
    const char *path = work_path("large");
    assert_int_equal(coffer__sink_path(&sink, coffer_libc_allocator(), path, sync, false, NULL), COFFER_OK);
    assert_int_equal(sink.ops->reserve(&sink, LARGE, NULL), COFFER_OK);
    syncs_begun = 0;
    for (size_t at = 0; at < LARGE; at += piece) {
        const size_t size = LARGE - at < piece ? LARGE - at : piece;
        assert_int_equal(sink.ops->write_at(&sink, at, bytes + at, size, NULL), COFFER_OK);
    }
    assert_int_equal(syncs_begun, wanted);
    assert_int_equal(sink.ops->publish(&sink, NULL), COFFER_OK);
    assert_true(file_is("large", bytes, LARGE));
}

/* What will be synced the device begins to write after every 16 MiB, however they come. */
static void test_large_files_are_synced_early(void **state)
{
    (void)state;
    uint8_t *bytes = malloc(LARGE);
    assert_non_null(bytes);
    for (size_t i = 0; i < LARGE; i++) {
        bytes[i] = pattern_byte(i);
    }
    check_large(bytes, LARGE, COFFER_SYNC_REPLACE, 0); /* there was no file */
    check_large(bytes, LARGE, COFFER_SYNC_REPLACE, 2);
    check_large(bytes, 1000003, COFFER_SYNC_REPLACE, 2);
    check_large(bytes, LARGE, COFFER_SYNC_NEVER, 0);
    assert_int_equal(unlink(work_path("large")), 0);
    check_large(bytes, LARGE, COFFER_SYNC_ALWAYS, 2);
    free(bytes);
}

static void test_interrupted_and_short_writes(void **state)
{
    (void)state;
    faults.interrupted = 2;
    faults.most = 777;
    assert_int_equal(save(work_path("model"), COFFER_SYNC_REPLACE, false, NULL), COFFER_OK);
    assert_file("model", fresh, SIZE);
}

/* ---- a path: what goes wrong ----------------------------------------------------------------------------------------- */

static void assert_refused(const char *path, bool in_place, coffer_status code, int os_error)
{
    coffer_error err;
    coffer__sink sink;
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

static void test_discard(void **state)
{
    (void)state;
    for (int named = 0; named < 2; named++) {
        faults.always[FAULT_UNNAMED] = named ? EOPNOTSUPP : 0;
        coffer__sink sink;
        coffer_error err;
        assert_int_equal(
            coffer__sink_path(&sink, coffer_libc_allocator(), work_path("model"), COFFER_SYNC_REPLACE, false, NULL),
            COFFER_OK);
        assert_int_equal(fill(&sink, &err), COFFER_OK);
        sink.ops->discard(&sink);
        assert_int_equal(work_dir_count(), 0);
    }
}

static void test_missing_bytes(void **state)
{
    (void)state;
    file_write("model", old, OLD_SIZE);
    coffer__sink sink;
    coffer_error err;
    assert_int_equal(
        coffer__sink_path(&sink, coffer_libc_allocator(), work_path("model"), COFFER_SYNC_REPLACE, false, NULL),
        COFFER_OK);
    assert_int_equal(sink.ops->reserve(&sink, SIZE, NULL), COFFER_OK);
    assert_int_equal(sink.ops->write_at(&sink, 0, fresh, SIZE - 1, NULL), COFFER_OK);
    assert_int_equal(sink.ops->publish(&sink, &err), COFFER_ERR_CHANGED);
    assert_int_equal(err.expected, SIZE);
    assert_int_equal(err.actual, SIZE - 1);
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
        assert_file("model", fresh, SIZE);
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
        check_kind(FAULT_WRITE, ENOSPC, COFFER_ERR_IO, named, COFFER_SYNC_REPLACE);
        check_kind(FAULT_SYNC, EIO, COFFER_ERR_IO, named, COFFER_SYNC_REPLACE);
        check_kind(FAULT_SYNC, EIO, COFFER_OK, named, COFFER_SYNC_NEVER);
        check_kind(FAULT_MODE, EPERM, COFFER_ERR_IO, named, COFFER_SYNC_REPLACE);
        check_kind(FAULT_SYNC_NAMES, EINVAL, COFFER_OK, named, COFFER_SYNC_ALWAYS);
        check_kind(FAULT_SYNC_NAMES, EIO, COFFER_OK, named, COFFER_SYNC_REPLACE);
    }
    check_kind(FAULT_LINK, EPERM, COFFER_ERR_IO, false, COFFER_SYNC_REPLACE);
    check_kind(FAULT_CLOSE, EDQUOT, COFFER_ERR_IO, true, COFFER_SYNC_REPLACE);
}

/* When the name's durability fails, the file is in place already, and the error says so. */
static void test_name_is_not_durable(void **state)
{
    (void)state;
    coffer_error err;
    file_write("model", old, OLD_SIZE);
    faults.always[FAULT_SYNC_NAMES] = EIO;
    assert_int_equal(save(work_path("model"), COFFER_SYNC_ALWAYS, false, &err), COFFER_ERR_IO);
    assert_non_null(strstr(err.message, "which is in place"));
    assert_file("model", fresh, SIZE);
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
    assert_file(kept, fresh, SIZE);
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
    if (!file_is("model", old, OLD_SIZE) || !file_is(hidden_name(), fresh, SIZE)) {
        return 2;
    }
    if (unlink(work_path(hidden_name())) != 0 || save(path, COFFER_SYNC_REPLACE, true, &err) != COFFER_OK) {
        return 3;
    }
    return file_is("model", fresh, SIZE) ? 0 : 4;
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
    assert_file("model", fresh, SIZE);
    assert_int_equal(work_dir_count(), 1);
}

/* In a child: files may not become as large as this one would. */
static int run_with_limited_size(void *ctx)
{
    const bool *in_place = ctx;
    coffer_error err;
    const struct rlimit limit = { SIZE - 5000, SIZE - 5000 };
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
    coffer__sink sink;
    if (coffer__sink_path(&sink, coffer_libc_allocator(), work_path("model"), COFFER_SYNC_REPLACE, false, &err) !=
        COFFER_OK) {
        return 1;
    }
    const coffer_status status = sink.ops->reserve(&sink, SIZE, &err);
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
        coffer__sink sink;
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
            assert_file(hidden_name(), fresh, SIZE);
            assert_int_equal(unlink(work_path(hidden_name())), 0);
            names--;
        }
        const bool there = access(work_path("model"), F_OK) == 0;
        assert_int_equal(names, there ? 1 : 0);
        if (status == COFFER_OK) {
            assert_file("model", fresh, SIZE);
        } else if (!in_place) {
            /* The one failure that comes too late is that of the name's durability. */
            assert_true(exists ? file_is("model", old, OLD_SIZE) || strstr(err.message, "which is in place") != NULL
                               : !there || strstr(err.message, "which is in place") != NULL);
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
        coffer__sink sink;
        coffer_error err;
        assert_int_equal(coffer__sink_path(&sink, &metered, work_path("model"), COFFER_SYNC_REPLACE, in_place, &err),
                         COFFER_ERR_MEMORY);
        assert_int_equal(err.code, COFFER_ERR_MEMORY);
        assert_int_equal(work_dir_count(), 0);
    }
}

/* ---- in place -------------------------------------------------------------------------------------------------------- */

static void test_in_place(void **state)
{
    (void)state;
    file_write("target", old, OLD_SIZE);
    assert_int_equal(chmod(work_path("target"), 0604), 0);
    assert_int_equal(symlink("target", work_path("model")), 0);
    const ino_t inode = look("target").st_ino;
    assert_int_equal(save(work_path("model"), COFFER_SYNC_REPLACE, true, NULL), COFFER_OK);
    assert_true(S_ISLNK(look("model").st_mode));
    assert_int_equal(look("target").st_ino, inode);
    assert_int_equal(mode_of("target"), 0604);
    assert_file("target", fresh, SIZE);
    assert_int_equal(work_dir_count(), 2);
}

static void test_in_place_shorter(void **state)
{
    (void)state;
    uint8_t *longer = calloc(3, SIZE);
    assert_non_null(longer);
    file_write("model", longer, 3 * (size_t)SIZE);
    free(longer);
    assert_int_equal(save(work_path("model"), COFFER_SYNC_NEVER, true, NULL), COFFER_OK);
    assert_file("model", fresh, SIZE);
}

static void test_in_place_new(void **state)
{
    (void)state;
    assert_int_equal(save(work_path("model"), COFFER_SYNC_ALWAYS, true, NULL), COFFER_OK);
    assert_file("model", fresh, SIZE);
    assert_int_equal(mode_of("model"), 0644);
}

static void test_in_place_discard(void **state)
{
    (void)state;
    coffer__sink sink;
    file_write("model", old, OLD_SIZE);
    for (int exists = 1; exists >= 0; exists--) {
        assert_int_equal(
            coffer__sink_path(&sink, coffer_libc_allocator(), work_path("model"), COFFER_SYNC_REPLACE, true, NULL),
            COFFER_OK);
        assert_int_equal(fill(&sink, NULL), COFFER_OK);
        sink.ops->discard(&sink);
        if (exists) {
            assert_int_equal(look("model").st_size, OLD_SIZE);
            assert_int_equal(unlink(work_path("model")), 0);
        }
    }
    assert_int_equal(work_dir_count(), 0);
}

/* ---- descriptors ----------------------------------------------------------------------------------------------------- */

static coffer_status save_fd(int fd, coffer_sync sync, coffer_error *err)
{
    coffer__sink sink;
    const coffer_status status = coffer__sink_fd(&sink, coffer_libc_allocator(), fd, sync, err);
    return status == COFFER_OK ? finish(&sink, err) : status;
}

static int open_model(int flags)
{
    const int fd = open(work_path("model"), flags | O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    return fd;
}

static void test_descriptor_of_file(void **state)
{
    (void)state;
    uint8_t *longer = calloc(3, SIZE);
    assert_non_null(longer);
    file_write("model", longer, 3 * (size_t)SIZE);
    const int fd = open_model(0);
    assert_int_equal(lseek(fd, 100, SEEK_SET), 100);
    assert_int_equal(save_fd(fd, COFFER_SYNC_ALWAYS, NULL), COFFER_OK);
    /* What lay behind is cut off, what lay before is kept, and the next write comes behind. */
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 100 + SIZE);
    assert_int_equal(look("model").st_size, 100 + SIZE);
    memcpy(longer + 100, fresh, SIZE);
    assert_file("model", longer, 100 + SIZE);
    free(longer);
    assert_int_equal(close(fd), 0);
}

static void test_descriptor_discard(void **state)
{
    (void)state;
    file_write("model", old, OLD_SIZE);
    const int fd = open_model(0);
    coffer__sink sink;
    assert_int_equal(lseek(fd, 0, SEEK_END), OLD_SIZE);
    assert_int_equal(coffer__sink_fd(&sink, coffer_libc_allocator(), fd, COFFER_SYNC_REPLACE, NULL), COFFER_OK);
    assert_int_equal(fill(&sink, NULL), COFFER_OK);
    sink.ops->discard(&sink);
    assert_file("model", old, OLD_SIZE);
    assert_int_equal(close(fd), 0);
}

static void test_descriptor_threads(void **state)
{
    (void)state;
    const int fd = open_model(0);
    coffer__sink sink;
    assert_int_equal(coffer__sink_fd(&sink, coffer_libc_allocator(), fd, COFFER_SYNC_REPLACE, NULL), COFFER_OK);
    assert_int_equal(sink.ops->reserve(&sink, SIZE, NULL), COFFER_OK);
    write_from_threads(&sink);
    assert_int_equal(sink.ops->publish(&sink, NULL), COFFER_OK);
    assert_int_equal(close(fd), 0);
    assert_file("model", fresh, SIZE);
}

static void write_in_order(coffer__sink *sink)
{
    assert_int_equal(sink->ops->reserve(sink, SIZE, NULL), COFFER_OK);
    for (size_t at = 0; at < SIZE; at += 1000) {
        assert_int_equal(sink->ops->write_at(sink, at, fresh + at, 1000, NULL), COFFER_OK);
    }
}

/* A descriptor that appends takes no offset into account: it must not be trusted to. */
static void test_descriptor_appends(void **state)
{
    (void)state;
    file_write("model", old, OLD_SIZE);
    const int fd = open_model(O_APPEND);
    coffer__sink sink;
    coffer_error err;
    assert_int_equal(coffer__sink_fd(&sink, coffer_libc_allocator(), fd, COFFER_SYNC_ALWAYS, NULL), COFFER_OK);
    write_in_order(&sink);
    assert_int_equal(sink.ops->publish(&sink, NULL), COFFER_OK);
    uint8_t whole[OLD_SIZE + SIZE];
    memcpy(whole, old, OLD_SIZE);
    memcpy(whole + OLD_SIZE, fresh, SIZE);
    assert_file("model", whole, sizeof whole);
    assert_int_equal(save_fd(fd, COFFER_SYNC_NEVER, &err), COFFER_ERR_UNSUPPORTED);
    assert_int_equal(err.offset, SIZE / 2);
    assert_file("model", whole, sizeof whole);
    assert_int_equal(close(fd), 0);
}

/* Reads everything from the pipe, slowly at first, and compares. */
static int run_pipe_reader(void *ctx)
{
    const int fd = *(const int *)ctx;
    uint8_t got[SIZE + 1];
    size_t size = 0;
    for (;;) {
        const ssize_t now = read(fd, got + size, size < 3000 ? 10 : sizeof got - size);
        if (now <= 0) {
            return now == 0 && size == SIZE && memcmp(got, fresh, SIZE) == 0 ? 0 : 1;
        }
        size += (size_t)now;
    }
}

static void test_descriptor_of_pipe(void **state)
{
    (void)state;
    for (int non_blocking = 0; non_blocking < 2; non_blocking++) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        assert_int_equal(fcntl(ends[1], F_SETPIPE_SZ, 4096), 4096);
        assert_int_equal(fcntl(ends[1], F_SETFL, non_blocking ? O_NONBLOCK : 0), 0);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            (void)close(ends[1]);
            _exit(run_pipe_reader(&ends[0]));
        }
        coffer__sink sink;
        assert_int_equal(coffer__sink_fd(&sink, coffer_libc_allocator(), ends[1], COFFER_SYNC_ALWAYS, NULL), COFFER_OK);
        write_in_order(&sink);
        assert_int_equal(sink.ops->publish(&sink, NULL), COFFER_OK);
        assert_int_equal(close(ends[1]), 0);
        int result = 0;
        assert_int_equal(waitpid(child, &result, 0), child);
        assert_true(WIFEXITED(result));
        assert_int_equal(WEXITSTATUS(result), 0);
        assert_int_equal(close(ends[0]), 0);
    }
}

static void test_descriptor_out_of_order(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    coffer__sink sink;
    coffer_error err;
    assert_int_equal(coffer__sink_fd(&sink, coffer_libc_allocator(), ends[1], COFFER_SYNC_REPLACE, NULL), COFFER_OK);
    assert_int_equal(sink.ops->write_at(&sink, 0, fresh, 10, &err), COFFER_OK);
    assert_int_equal(sink.ops->write_at(&sink, 20, fresh, 10, &err), COFFER_ERR_UNSUPPORTED);
    assert_int_equal(err.offset, 20);
    assert_non_null(strstr(err.message, "byte 10 "));
    assert_int_equal(sink.ops->write_at(&sink, 10, fresh + 10, 10, &err), COFFER_OK);
    sink.ops->discard(&sink);
    uint8_t got[100];
    assert_int_equal(read(ends[0], got, sizeof got), 20);
    assert_memory_equal(got, fresh, 20);
    /* Nobody reads: the program, which owns its signals, ignores the one that this raises. */
    (void)signal(SIGPIPE, SIG_IGN);
    assert_int_equal(close(ends[0]), 0);
    assert_int_equal(coffer__sink_fd(&sink, coffer_libc_allocator(), ends[1], COFFER_SYNC_REPLACE, NULL), COFFER_OK);
    assert_int_equal(sink.ops->write_at(&sink, 0, fresh, 10, &err), COFFER_ERR_IO);
    assert_int_equal(err.os_error, EPIPE);
    assert_int_equal(sink.ops->write_at(&sink, 10, fresh, 10, &err), COFFER_ERR_IO);
    assert_int_equal(err.offset, 10);
    sink.ops->discard(&sink);
    (void)signal(SIGPIPE, SIG_DFL);
    assert_int_equal(close(ends[1]), 0);
}

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
    coffer__sink sink;
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

/* ---- memory and the caller's own ------------------------------------------------------------------------------------- */

static void test_memory(void **state)
{
    (void)state;
    uint8_t memory[SIZE];
    coffer__sink sink;
    coffer_error err;
    memory_meter meter;
    const coffer_allocator metered = metered_allocator(&meter);
    assert_int_equal(coffer__sink_memory(&sink, &metered, memory, SIZE, &err), COFFER_OK);
    assert_int_equal(finish(&sink, &err), COFFER_OK);
    assert_memory_equal(memory, fresh, SIZE);
    assert_int_equal(meter.held, 0);
    assert_int_equal(coffer__sink_memory(&sink, &metered, memory, SIZE - 1, &err), COFFER_OK);
    assert_int_equal(finish(&sink, &err), COFFER_ERR_BUFFER_SIZE);
    assert_int_equal(err.expected, SIZE);
    assert_int_equal(err.actual, SIZE - 1);
    assert_int_equal(coffer__sink_memory(&sink, &metered, memory, 100, &err), COFFER_OK);
    assert_int_equal(sink.ops->write_at(&sink, 99, fresh, 2, &err), COFFER_ERR_WRITE_RANGE);
    assert_int_equal(err.offset, 99);
    assert_int_equal(sink.ops->write_at(&sink, UINT64_MAX, fresh, 2, &err), COFFER_ERR_WRITE_RANGE);
    assert_int_equal(sink.ops->write_at(&sink, 100, fresh, 0, &err), COFFER_OK);
    sink.ops->discard(&sink);
    assert_int_equal(meter.held, 0);
}

typedef struct own_sink {
    uint8_t bytes[SIZE];
    coffer_status write_answer;
    coffer_status finish_answer;
    bool silent;
    unsigned finished;
    unsigned discarded;
} own_sink;

static coffer_status own_answer(const own_sink *own, coffer_status answer, coffer_error *err)
{
    assert_non_null(err);
    assert_int_equal(err->code, COFFER_OK);
    if (answer != COFFER_OK && !own->silent) {
        err->code = answer;
        err->http_status = 507;
    }
    return answer;
}

static coffer_status own_write_at(void *ctx, uint64_t offset, const void *bytes, size_t size, coffer_error *err)
{
    own_sink *own = ctx;
    memcpy(own->bytes + offset, bytes, size);
    return own_answer(own, own->write_answer, err);
}

static coffer_status own_finish(void *ctx, coffer_error *err)
{
    own_sink *own = ctx;
    own->finished++;
    return own_answer(own, own->finish_answer, err);
}

static void own_discard(void *ctx)
{
    own_sink *own = ctx;
    own->discarded++;
}

static coffer_status save_own(own_sink *own, bool with_ends, coffer_error *err)
{
    const coffer_sink given = { own_write_at, with_ends ? own_finish : NULL, with_ends ? own_discard : NULL, own };
    memory_meter meter;
    const coffer_allocator metered = metered_allocator(&meter);
    coffer__sink sink;
    assert_int_equal(coffer__sink_custom(&sink, &metered, &given, err), COFFER_OK);
    const coffer_status status = finish(&sink, err);
    assert_int_equal(meter.held, 0);
    return status;
}

static void test_custom(void **state)
{
    (void)state;
    static own_sink own;
    coffer_error err;
    memset(&own, 0, sizeof own);
    assert_int_equal(save_own(&own, true, &err), COFFER_OK);
    assert_memory_equal(own.bytes, fresh, SIZE);
    assert_int_equal(own.finished, 1);
    assert_int_equal(own.discarded, 0);
    assert_int_equal(save_own(&own, false, NULL), COFFER_OK);
    own.finish_answer = COFFER_ERR_IO;
    assert_int_equal(save_own(&own, true, &err), COFFER_ERR_IO);
    assert_int_equal(err.http_status, 507);
    assert_int_equal(save_own(&own, true, NULL), COFFER_ERR_IO);
    assert_int_equal(own.finished, 3);
    assert_int_equal(own.discarded, 0);
    own.silent = true;
    assert_int_equal(save_own(&own, true, &err), COFFER_ERR_IO);
    assert_int_equal(err.code, COFFER_ERR_IO);
    own.write_answer = COFFER_ERR_CANCELLED;
    assert_int_equal(save_own(&own, true, &err), COFFER_ERR_CANCELLED);
    assert_int_equal(err.code, COFFER_ERR_CANCELLED);
    assert_int_equal(err.offset, SIZE / 2);
    assert_true(err.message[0] != '\0');
    assert_int_equal(own.finished, 4);
    assert_int_equal(own.discarded, 1);
    assert_int_equal(save_own(&own, false, &err), COFFER_ERR_CANCELLED);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_new_file),
        TEST(test_new_file_without_directory_in_path),
        TEST(test_mode_of_new_file),
        TEST(test_setgid_directory),
        TEST(test_replaced_file),
        TEST(test_owner_cannot_be_kept),
        TEST(test_temporary_is_secret),
        TEST(test_symbolic_link_is_replaced),
        TEST(test_hard_link_is_cut),
        TEST(test_longest_names),
        TEST(test_old_undo_file_goes),
        TEST(test_two_savers),
        TEST(test_two_savers_at_once),
        TEST(test_threads),
        TEST(test_large_files_are_synced_early),
        TEST(test_interrupted_and_short_writes),
        TEST(test_path_is_no_file),
        TEST(test_read_only_directory),
        TEST(test_discard),
        TEST(test_missing_bytes),
        TEST(test_kinds_of_failure),
        TEST(test_name_is_not_durable),
        TEST(test_cannot_replace),
        TEST(test_mounted_file),
        TEST(test_limited_size),
        TEST(test_small_disk),
        TEST(test_every_call_fails),
        TEST(test_no_memory),
        TEST(test_in_place),
        TEST(test_in_place_shorter),
        TEST(test_in_place_new),
        TEST(test_in_place_discard),
        TEST(test_descriptor_of_file),
        TEST(test_descriptor_discard),
        TEST(test_descriptor_threads),
        TEST(test_descriptor_appends),
        TEST(test_descriptor_of_pipe),
        TEST(test_descriptor_out_of_order),
        TEST(test_descriptor_fails),
        TEST(test_descriptor_kinds_of_failure),
        TEST(test_memory),
        TEST(test_custom),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
