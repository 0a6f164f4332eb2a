/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replacing a large file without waiting until the system has given it up: the old file is held over the rename, by a map that
 * child processes do not get, and let go by somebody else soon after.
 */
#define _GNU_SOURCE
#include "os.h"
#include "support_cmocka.h"
#include "support_file.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LARGE ((size_t)32 << 20)

/* What the rename found, when it was made. */
static struct {
    bool is_held;
    bool is_held_in_child;
} seen;
static bool device_is_full;
static bool device_says_nothing;
static char watched[4096];

/* Whether the process has a map of the watched file, under its name or after it lost it. */
static bool has_map(void)
{
    char line[8192];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps) != NULL) {
        found = found || strstr(line, watched) != NULL;
    }
    fclose(maps);
    return found;
}

static bool child_has_map(void)
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        _exit(has_map() ? 1 : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status) == 1;
}

static void find_next(void *function, const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(function, &found, sizeof found);
}

int renameat(int from_directory, const char *from, int to_directory, const char *to)
{
    int (*next)(int from_directory, const char *from, int to_directory, const char *to);
    find_next(&next, "renameat");
    seen.is_held = has_map();
    seen.is_held_in_child = child_has_map();
    return next(from_directory, from, to_directory, to);
}

int fstatvfs(int fd, struct statvfs *found)
{
    int (*next)(int fd, struct statvfs *found);
#ifdef __GLIBC__
    find_next(&next, "fstatvfs64");
#else
    find_next(&next, "fstatvfs");
#endif
    const int result = next(fd, found);
    found->f_bavail = device_is_full ? 1 : found->f_bavail;
    found->f_frsize = device_says_nothing ? 0 : found->f_frsize;
    return result;
}

static int set_up(void **state)
{
    (void)state;
    work_dir_make();
    memset(&seen, 0, sizeof seen);
    device_is_full = false;
    device_says_nothing = false;
    snprintf(watched, sizeof watched, "%s", work_path("old"));
    file_write("new", "new", 3);
    return 0;
}

static void write_old(size_t size)
{
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    memset(bytes, 'o', size);
    file_write("old", bytes, size);
    free(bytes);
}

static void assert_replaced(void)
{
    size_t size = 0;
    assert_int_equal(coffer__os_rename_without_wait(work_path("new"), work_path("old")), 0);
    uint8_t *bytes = file_read("old", &size);
    assert_int_equal(size, 3);
    assert_memory_equal(bytes, "new", 3);
    free(bytes);
}

/* Ends when the file was let go; when it never is, the time limit of all tests ends it. */
static void wait_until_let_go(void)
{
    const struct timespec moment = { 0, 1000000 };
    while (has_map()) {
        nanosleep(&moment, NULL);
    }
}

static void test_large_file_is_held(void **state)
{
    (void)state;
    write_old(LARGE);
    assert_replaced();
    assert_true(seen.is_held);
    /* An emulated machine's processes are not told which maps to leave out. */
    assert_true(!seen.is_held_in_child || getenv("COFFER_EMULATED") != NULL);
    wait_until_let_go();
}

static void test_small_file_is_not(void **state)
{
    (void)state;
    write_old(LARGE - 65536);
    assert_replaced();
    assert_false(seen.is_held);
}

static void test_nothing_is_held(void **state)
{
    (void)state;
    assert_replaced();
    assert_false(seen.is_held);
}

/* It stays under its other name. */
static void test_file_with_two_names_is_not(void **state)
{
    (void)state;
    write_old(LARGE);
    assert_int_equal(link(work_path("old"), work_path("other")), 0);
    assert_replaced();
    assert_false(seen.is_held);
}

/* The next file may need the place. */
static void test_full_device_is_waited_for(void **state)
{
    (void)state;
    write_old(LARGE);
    device_is_full = true;
    assert_replaced();
    assert_false(seen.is_held);
}

static void test_device_of_unknown_size_is_waited_for(void **state)
{
    (void)state;
    write_old(LARGE);
    device_says_nothing = true;
    assert_replaced();
    assert_false(seen.is_held);
}

static void test_target_of_a_link_is_not(void **state)
{
    (void)state;
    write_old(LARGE);
    assert_int_equal(rename(work_path("old"), work_path("target")), 0);
    assert_int_equal(symlink(work_path("target"), work_path("old")), 0);
    snprintf(watched, sizeof watched, "%s", work_path("target"));
    assert_replaced();
    assert_false(seen.is_held);
}

static void test_rename_that_fails(void **state)
{
    (void)state;
    write_old(LARGE);
    assert_int_equal(coffer__os_rename_without_wait(work_path("missing"), work_path("old")), ENOENT);
    assert_true(seen.is_held);
    wait_until_let_go();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, work_dir_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_large_file_is_held),        TEST(test_small_file_is_not),
        TEST(test_nothing_is_held),           TEST(test_file_with_two_names_is_not),
        TEST(test_full_device_is_waited_for), TEST(test_device_of_unknown_size_is_waited_for),
        TEST(test_target_of_a_link_is_not),   TEST(test_rename_that_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
