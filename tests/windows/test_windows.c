/* SPDX-License-Identifier: Apache-2.0 */
/* The port to Windows: names, rights, locks, holes and positions, as os.h promises them. */
#include "os.h"
#include "support_cmocka.h"
#include "support_file.h"

#include <stdio.h>
#include <string.h>

/* 240 bytes of name, beyond ASCII, so that the path is longer than 260 characters with the folder in front of it. */
static const char *long_path(void)
{
    char name[244] = "";
    for (size_t i = 0; i < 120; i++) {
        memcpy(name + 2 * i, "\xC3\xA4", 3);
    }
    return work_path(name);
}

static bool see_one(void *ctx, const char *name)
{
    size_t *length = ctx;
    *length = strlen(name);
    return true;
}

static void names_are_utf8_and_may_be_long(void **state)
{
    (void)state;
    coffer__os_info info;
    int fd = -1;
    size_t length = 0;
    const char *path = long_path();
    assert_int_equal(coffer__os_create(path, false, &fd), 0);
    assert_int_equal(coffer__os_write_at(fd, 0, "bytes", 5), 0);
    assert_int_equal(coffer__os_create(path, false, &fd), EEXIST);
    assert_int_equal(coffer__os_inspect(path, true, &info), 0);
    assert_int_equal(info.size, 5);
    assert_true(coffer__os_exists(path));
    assert_int_equal(coffer__os_list(work_path("."), see_one, &length), 0);
    assert_int_equal(length, 240);
    assert_int_equal(coffer__os_close(fd), 0);
    assert_int_equal(coffer__os_rename(path, work_path("short")), 0);
    assert_false(coffer__os_exists(path));
    assert_int_equal(coffer__os_unlink(work_path("short")), 0);
    assert_int_equal(coffer__os_inspect("\xFF", true, &info), EILSEQ);
}

static void a_secret_file_is_the_users_alone(void **state)
{
    (void)state;
    coffer__os_info info;
    int fd = -1;
    assert_int_equal(coffer__os_create(work_path("secret"), true, &fd), 0);
    assert_int_equal(coffer__os_inspect_fd(fd, &info), 0);
    assert_true(coffer__os_is_mine(&info));
    assert_int_equal(info.mode, 0600);
    assert_int_equal(coffer__os_close(fd), 0);
}

/* A new file that replaces a private one must not be open to others. */
static void rights_are_taken_over(void **state)
{
    (void)state;
    coffer__os_info info;
    int old = -1;
    int fd = -1;
    assert_int_equal(coffer__os_create(work_path("old"), true, &old), 0);
    assert_int_equal(coffer__os_inspect_fd(old, &info), 0);
    assert_int_equal(coffer__os_create(work_path("new"), false, &fd), 0);
    assert_int_equal(coffer__os_take_owner_and_mode(fd, &info, work_path("old")), 0);
    assert_int_equal(coffer__os_inspect_fd(fd, &info), 0);
    assert_int_equal(info.mode, 0600);
    assert_int_equal(coffer__os_close(fd), 0);
    assert_int_equal(coffer__os_close(old), 0);
}

static void a_lock_keeps_others_out_until_it_is_closed(void **state)
{
    (void)state;
    for (int folder = 0; folder < 2; folder++) {
        const char *path = work_path(folder ? "." : "file");
        int one = -1;
        int other = -1;
        if (!folder) {
            file_write("file", "x", 1);
        }
        assert_int_equal(coffer__os_open(path, COFFER__OS_READ, true, &one), 0);
        assert_int_equal(coffer__os_open(path, COFFER__OS_READ, true, &other), 0);
        assert_int_equal(coffer__os_lock(one), 0);
        assert_int_equal(coffer__os_lock(other), EWOULDBLOCK);
        assert_int_equal(coffer__os_close(one), 0);
        assert_int_equal(coffer__os_lock(other), 0);
        assert_int_equal(coffer__os_close(other), 0);
    }
}

/* Offsets have 64 bits, and a gap reads as zeros. */
static void far_offsets(void **state)
{
    (void)state;
    const uint64_t far_off = (UINT64_C(5) << 30) + 3;
    char bytes[4] = "....";
    size_t done = 0;
    int fd = -1;
    assert_int_equal(coffer__os_create(work_path("far"), false, &fd), 0);
    assert_int_equal(coffer__os_truncate(fd, far_off + 2), 0);
    assert_int_equal(coffer__os_write_at(fd, far_off, "ab", 2), 0);
    assert_int_equal(coffer__os_read_at(fd, far_off - 1, bytes, sizeof bytes, &done), 0);
    assert_int_equal(done, 3);
    assert_memory_equal(bytes, "\0ab", 3);
    assert_int_equal(coffer__os_close(fd), 0);
}

static void a_copy_reads_without_moving_the_position(void **state)
{
    (void)state;
    char byte = 0;
    size_t done = 0;
    int copy = -1;
    file_write("file", "0123456789", 10);
    const int fd = open(work_path("file"), O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(coffer__os_duplicate(fd, &copy), 0);
    assert_int_equal(coffer__os_read_at(copy, 7, &byte, 1, &done), 0);
    assert_int_equal(byte, '7');
    assert_int_equal(read(fd, &byte, 1), 1);
    assert_int_equal(byte, '0');
    assert_int_equal(close(fd), 0);
    assert_int_equal(coffer__os_close(copy), 0);
}

static void the_environment_is_utf8(void **state)
{
    (void)state;
    assert_int_equal(setenv("COFFER_TEST_NAME", "\xE2\x82\xAC", 1), 0);
    assert_string_equal(coffer__os_variable("COFFER_TEST_NAME"), "\xE2\x82\xAC");
    assert_ptr_equal(coffer__os_variable("COFFER_TEST_NAME"), coffer__os_variable("COFFER_TEST_NAME"));
    assert_null(coffer__os_variable("COFFER_TEST_NONE"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names_are_utf8_and_may_be_long, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(a_secret_file_is_the_users_alone, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(rights_are_taken_over, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(a_lock_keeps_others_out_until_it_is_closed, work_dir_set_up,
                                        work_dir_tear_down),
        cmocka_unit_test_setup_teardown(far_offsets, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(a_copy_reads_without_moving_the_position, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test(the_environment_is_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
