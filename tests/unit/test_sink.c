/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sinks: what saving leaves behind, to a path, in place, to a descriptor, into memory and to the caller's own functions. Bytes,
 * modes, owners and links are looked at, and that nothing else lies about. (What is left when something goes wrong is
 * test_sink_failures.c's affair.)
 */
#define _GNU_SOURCE

#include "support_cmocka.h"

#include "faulty_calls.h"

#include "coffer.h"
#include "sink.h"
#include "support_file.h"
#include "support_memory.h"
#include "support_sink.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

/* Begins to write what a file has so far; here it only fails, which nobody may notice. */
static unsigned syncs_begun;

int sync_file_range(int fd, off_t offset, off_t size, unsigned flags)
{
    (void)fd;
    (void)offset;
    (void)size;
    (void)flags;
    syncs_begun++;
    errno = EIO;
    return -1;
}

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

/* ---- a path: what comes of it ---------------------------------------------------------------------------------------- */

static void check_new_file(coffer_sync sync)
{
    coffer_error err;
    const size_t before = open_descriptors();
    assert_int_equal(save(work_path("model"), sync, false, &err), COFFER_OK);
    assert_file("model", fresh, FRESH_SIZE);
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
    assert_file("model", fresh, FRESH_SIZE);
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
    assert_file("model", fresh, FRESH_SIZE);
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

/* Owner and group need privileges; without them the group gets what others had, and the bits that lend somebody's rights go. */
static void test_owner_cannot_be_kept(void **state)
{
    (void)state;
    file_write("model", old, OLD_SIZE);
    if (geteuid() == 0) {
        assert_int_equal(chown(work_path("model"), 12345, 23456), 0);
        assert_int_equal(chmod(work_path("model"), 04751), 0);
        faults.always[FAULT_OWNER] = EPERM;
    } else {
        assert_int_equal(chmod(work_path("model"), 0711), 0);
    }
    assert_int_equal(save(work_path("model"), COFFER_SYNC_NEVER, false, NULL), COFFER_OK);
    assert_int_equal(mode_of("model"), 0711);
    assert_int_equal(look("model").st_uid, geteuid());
}

/* A file that only its owner may read has no copy that others may read, not even for a while. */
static void test_temporary_is_secret(void **state)
{
    (void)state;
    file_write("model", old, OLD_SIZE);
    assert_int_equal(chmod(work_path("model"), 0600), 0);
    faults.always[FAULT_UNNAMED] = EOPNOTSUPP;
    coffer__byte_sink sink;
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
    assert_file("model", fresh, FRESH_SIZE);
    assert_file("target", old, OLD_SIZE);
    assert_int_equal(symlink("nowhere", work_path("dangling")), 0);
    assert_int_equal(save(work_path("dangling"), COFFER_SYNC_REPLACE, false, NULL), COFFER_OK);
    assert_file("dangling", fresh, FRESH_SIZE);
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
    assert_file("model", fresh, FRESH_SIZE);
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
        assert_file(name, fresh, FRESH_SIZE);
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
        coffer__byte_sink first;
        coffer__byte_sink second;
        const coffer_allocator *libc = coffer_libc_allocator();
        assert_int_equal(coffer__sink_path(&first, libc, work_path("model"), COFFER_SYNC_REPLACE, false, NULL),
                         COFFER_OK);
        assert_int_equal(coffer__sink_path(&second, libc, work_path("model"), COFFER_SYNC_REPLACE, false, NULL),
                         COFFER_OK);
        assert_int_equal(first.ops->reserve(&first, OLD_SIZE, NULL), COFFER_OK);
        assert_int_equal(first.ops->write_at(&first, 0, old, OLD_SIZE, NULL), COFFER_OK);
        assert_int_equal(finish(&second, NULL), COFFER_OK);
        assert_file("model", fresh, FRESH_SIZE);
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
    coffer__byte_sink sink;
    assert_int_equal(
        coffer__sink_path(&sink, coffer_libc_allocator(), work_path("model"), COFFER_SYNC_REPLACE, false, NULL),
        COFFER_OK);
    faults.before[FAULT_LINK] = somebody_saves;
    assert_int_equal(finish(&sink, NULL), COFFER_OK);
    assert_file("model", fresh, FRESH_SIZE);
    assert_int_equal(mode_of("model"), 0640);
    assert_int_equal(work_dir_count(), 1);
}

typedef struct part {
    coffer__byte_sink *sink;
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

static void write_from_threads(coffer__byte_sink *sink)
{
    pthread_t threads[4];
    part parts[4];
    for (size_t i = 0; i < 4; i++) {
        parts[i] = (part){ sink, i * (FRESH_SIZE / 4), (i + 1) * (FRESH_SIZE / 4), COFFER_OK };
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
    coffer__byte_sink sink;
    assert_int_equal(
        coffer__sink_path(&sink, coffer_libc_allocator(), work_path("model"), COFFER_SYNC_REPLACE, false, NULL),
        COFFER_OK);
    assert_int_equal(sink.ops->reserve(&sink, FRESH_SIZE, NULL), COFFER_OK);
    write_from_threads(&sink);
    assert_int_equal(sink.ops->publish(&sink, NULL), COFFER_OK);
    assert_file("model", fresh, FRESH_SIZE);
}

#define LARGE (((size_t)40 << 20) + 5)

/* Saves LARGE bytes in pieces of `piece`, and sees how often the device was told to begin. */
static void check_large(const uint8_t *bytes, size_t piece, coffer_sync sync, unsigned wanted)
{
    coffer__byte_sink sink;
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

static void test_discard(void **state)
{
    (void)state;
    for (int named = 0; named < 2; named++) {
        faults.always[FAULT_UNNAMED] = named ? EOPNOTSUPP : 0;
        coffer__byte_sink sink;
        coffer_error err;
        assert_int_equal(
            coffer__sink_path(&sink, coffer_libc_allocator(), work_path("model"), COFFER_SYNC_REPLACE, false, NULL),
            COFFER_OK);
        assert_int_equal(fill(&sink, &err), COFFER_OK);
        sink.ops->discard(&sink);
        assert_int_equal(work_dir_count(), 0);
    }
}

static void test_interrupted_and_short_writes(void **state)
{
    (void)state;
    faults.interrupted = 2;
    faults.most = 777;
    assert_int_equal(save(work_path("model"), COFFER_SYNC_REPLACE, false, NULL), COFFER_OK);
    assert_file("model", fresh, FRESH_SIZE);
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
    assert_file("target", fresh, FRESH_SIZE);
    assert_int_equal(work_dir_count(), 2);
}

static void test_in_place_shorter(void **state)
{
    (void)state;
    uint8_t *longer = calloc(3, FRESH_SIZE);
    assert_non_null(longer);
    file_write("model", longer, 3 * (size_t)FRESH_SIZE);
    free(longer);
    assert_int_equal(save(work_path("model"), COFFER_SYNC_NEVER, true, NULL), COFFER_OK);
    assert_file("model", fresh, FRESH_SIZE);
}

static void test_in_place_new(void **state)
{
    (void)state;
    assert_int_equal(save(work_path("model"), COFFER_SYNC_ALWAYS, true, NULL), COFFER_OK);
    assert_file("model", fresh, FRESH_SIZE);
    assert_int_equal(mode_of("model"), 0644);
}

static void test_in_place_discard(void **state)
{
    (void)state;
    coffer__byte_sink sink;
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

static void test_descriptor_of_file(void **state)
{
    (void)state;
    uint8_t *longer = calloc(3, FRESH_SIZE);
    assert_non_null(longer);
    file_write("model", longer, 3 * (size_t)FRESH_SIZE);
    const int fd = open_model(0);
    assert_int_equal(lseek(fd, 100, SEEK_SET), 100);
    assert_int_equal(save_fd(fd, COFFER_SYNC_ALWAYS, NULL), COFFER_OK);
    /* What lay behind is cut off, what lay before is kept, and the next write comes behind. */
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 100 + FRESH_SIZE);
    assert_int_equal(look("model").st_size, 100 + FRESH_SIZE);
    memcpy(longer + 100, fresh, FRESH_SIZE);
    assert_file("model", longer, 100 + FRESH_SIZE);
    free(longer);
    assert_int_equal(close(fd), 0);
}

static void test_descriptor_discard(void **state)
{
    (void)state;
    file_write("model", old, OLD_SIZE);
    const int fd = open_model(0);
    coffer__byte_sink sink;
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
    coffer__byte_sink sink;
    assert_int_equal(coffer__sink_fd(&sink, coffer_libc_allocator(), fd, COFFER_SYNC_REPLACE, NULL), COFFER_OK);
    assert_int_equal(sink.ops->reserve(&sink, FRESH_SIZE, NULL), COFFER_OK);
    write_from_threads(&sink);
    assert_int_equal(sink.ops->publish(&sink, NULL), COFFER_OK);
    assert_int_equal(close(fd), 0);
    assert_file("model", fresh, FRESH_SIZE);
}

static void write_in_order(coffer__byte_sink *sink)
{
    assert_int_equal(sink->ops->reserve(sink, FRESH_SIZE, NULL), COFFER_OK);
    for (size_t at = 0; at < FRESH_SIZE; at += 1000) {
        assert_int_equal(sink->ops->write_at(sink, at, fresh + at, 1000, NULL), COFFER_OK);
    }
}

/* A descriptor that appends takes no offset into account: it must not be trusted to. */
static void test_descriptor_appends(void **state)
{
    (void)state;
    file_write("model", old, OLD_SIZE);
    const int fd = open_model(O_APPEND);
    coffer__byte_sink sink;
    coffer_error err;
    assert_int_equal(coffer__sink_fd(&sink, coffer_libc_allocator(), fd, COFFER_SYNC_ALWAYS, NULL), COFFER_OK);
    write_in_order(&sink);
    assert_int_equal(sink.ops->publish(&sink, NULL), COFFER_OK);
    uint8_t whole[OLD_SIZE + FRESH_SIZE];
    memcpy(whole, old, OLD_SIZE);
    memcpy(whole + OLD_SIZE, fresh, FRESH_SIZE);
    assert_file("model", whole, sizeof whole);
    assert_int_equal(save_fd(fd, COFFER_SYNC_NEVER, &err), COFFER_ERR_UNSUPPORTED);
    assert_int_equal(err.offset, FRESH_SIZE / 2);
    assert_file("model", whole, sizeof whole);
    assert_int_equal(close(fd), 0);
}

/* Reads everything from the pipe, slowly at first, and compares. */
static int run_pipe_reader(void *ctx)
{
    const int fd = *(const int *)ctx;
    uint8_t got[FRESH_SIZE + 1];
    size_t size = 0;
    for (;;) {
        const ssize_t now = read(fd, got + size, size < 3000 ? 10 : sizeof got - size);
        if (now <= 0) {
            return now == 0 && size == FRESH_SIZE && memcmp(got, fresh, FRESH_SIZE) == 0 ? 0 : 1;
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
        coffer__byte_sink sink;
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
    coffer__byte_sink sink;
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

/* ---- memory and the caller's own ------------------------------------------------------------------------------------- */

static void test_memory(void **state)
{
    (void)state;
    uint8_t memory[FRESH_SIZE];
    coffer__byte_sink sink;
    coffer_error err;
    memory_meter meter;
    const coffer_allocator metered = metered_allocator(&meter);
    assert_int_equal(coffer__sink_memory(&sink, &metered, memory, FRESH_SIZE, &err), COFFER_OK);
    assert_int_equal(finish(&sink, &err), COFFER_OK);
    assert_memory_equal(memory, fresh, FRESH_SIZE);
    assert_int_equal(meter.held, 0);
    assert_int_equal(coffer__sink_memory(&sink, &metered, memory, FRESH_SIZE - 1, &err), COFFER_OK);
    assert_int_equal(finish(&sink, &err), COFFER_ERR_BUFFER_SIZE);
    assert_int_equal(err.expected, FRESH_SIZE);
    assert_int_equal(err.actual, FRESH_SIZE - 1);
    assert_int_equal(coffer__sink_memory(&sink, &metered, memory, 100, &err), COFFER_OK);
    assert_int_equal(sink.ops->write_at(&sink, 99, fresh, 2, &err), COFFER_ERR_WRITE_RANGE);
    assert_int_equal(err.offset, 99);
    assert_int_equal(sink.ops->write_at(&sink, UINT64_MAX, fresh, 2, &err), COFFER_ERR_WRITE_RANGE);
    assert_int_equal(sink.ops->write_at(&sink, 100, fresh, 0, &err), COFFER_OK);
    sink.ops->discard(&sink);
    assert_int_equal(meter.held, 0);
}

typedef struct own_sink {
    uint8_t bytes[FRESH_SIZE];
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
    coffer__byte_sink sink;
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
    assert_memory_equal(own.bytes, fresh, FRESH_SIZE);
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
    assert_int_equal(err.offset, FRESH_SIZE / 2);
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
        TEST(test_discard),
        TEST(test_interrupted_and_short_writes),
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
        TEST(test_memory),
        TEST(test_custom),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
