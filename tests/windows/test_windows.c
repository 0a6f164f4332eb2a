/* SPDX-License-Identifier: Apache-2.0 */
/* The port to Windows: names, rights, locks, sharing, positions and digests, as os.h and hash.h promise them. */
#include "hash.h"
#include "os_windows.h"
#include "paths.h"
#include "sha256_bcrypt.h"
#include "support_cmocka.h"
#include "support_file.h"

#include <stdio.h>
#include <string.h>

/* Beyond ASCII. Wine 8 cuts the name of what it creates where a path has more than 255 bytes of UTF-8. */
static const char *path_beyond_ascii(void)
{
    char name[204] = "";
    for (size_t i = 0; i < 100; i++) {
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

static void names_are_utf8(void **state)
{
    (void)state;
    coffer__os_info info;
    int fd = -1;
    size_t length = 0;
    const char *path = path_beyond_ascii();
    assert_int_equal(coffer__os_create(path, false, &fd), 0);
    assert_int_equal(coffer__os_write_at(fd, 0, "bytes", 5), 0);
    assert_int_equal(coffer__os_create(path, false, &fd), EEXIST);
    assert_int_equal(coffer__os_inspect(path, true, &info), 0);
    assert_int_equal(info.size, 5);
    assert_true(coffer__os_exists(path));
    assert_int_equal(coffer__os_list(work_path("."), see_one, &length), 0);
    assert_int_equal(length, 200);
    assert_int_equal(coffer__os_close(fd), 0);
    assert_int_equal(coffer__os_rename(path, work_path("short")), 0);
    assert_false(coffer__os_exists(path));
    assert_int_equal(coffer__os_unlink(work_path("short")), 0);
    assert_int_equal(coffer__os_inspect("\xFF", true, &info), EILSEQ);
}

/* Callers give either; what the library gives out has the one that it joins paths by. */
static void both_slashes_separate(void **state)
{
    (void)state;
    coffer__path folder;
    char real[COFFER__PATH_SIZE];
    char path[COFFER__PATH_SIZE];
    int fd = -1;
    assert_int_equal(coffer__path_name_at("C:\\models\\name"), 10);
    assert_int_equal(coffer__path_name_at("C:\\models/name"), 10);
    assert_true(coffer__path_directory(&folder, "C:\\models\\name"));
    assert_string_equal(folder.text, "C:\\models\\");

    assert_int_equal(coffer__os_create(work_path("name"), false, &fd), 0);
    assert_int_equal(coffer__os_close(fd), 0);
    (void)snprintf(path, sizeof path, "%s", work_path("name"));
    for (char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash, '/')) {
        *slash = '\\';
    }
    assert_int_equal(coffer__os_real_path(path, real, sizeof real), 0);
    assert_null(strchr(real, '\\'));
    assert_string_equal(real + coffer__path_name_at(real), "name");
}

/* Longer than the 260 characters that a path has without a prefix. */
static void paths_may_be_long(void **state)
{
    (void)state;
    char name[300];
    coffer__os_info info;
    int fd = -1;
    memset(name, 'f', 150);
    name[150] = '\0';
    assert_int_equal(mkdir(work_path(name), 0700), 0);
    const char *folder = work_path(name);
    name[150] = '/';
    memset(name + 151, 'n', 140);
    name[291] = '\0';
    const char *path = work_path(name);
    assert_int_equal(coffer__os_create(path, true, &fd), 0);
    assert_int_equal(coffer__os_write_at(fd, 0, "bytes", 5), 0);
    assert_int_equal(coffer__os_close(fd), 0);
    assert_int_equal(coffer__os_inspect(path, true, &info), 0);
    assert_int_equal(info.size, 5);
    assert_int_equal(coffer__os_rename(path, work_path("short")), 0);
    assert_int_equal(coffer__os_rename(work_path("short"), path), 0);
    assert_int_equal(coffer__os_unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* Whoever reads keeps nobody from deleting, and goes on reading. */
static void an_open_file_can_be_deleted(void **state)
{
    (void)state;
    char bytes[4];
    size_t done = 0;
    int fd = -1;
    file_write("model", "0123", 4);
    assert_int_equal(coffer__os_open(work_path("model"), COFFER__OS_READ, true, &fd), 0);
    assert_int_equal(coffer__os_unlink(work_path("model")), 0);
    assert_int_equal(coffer__os_read_at(fd, 0, bytes, sizeof bytes, &done), 0);
    assert_int_equal(done, 4);
    assert_memory_equal(bytes, "0123", 4);
    assert_int_equal(coffer__os_close(fd), 0);
    assert_false(coffer__os_exists(work_path("model")));
}

/* Where the system refuses a replacement, as Wine does while the old file is open, both files stay as they were. */
static void an_open_file_is_replaced_or_kept(void **state)
{
    (void)state;
    char bytes[4];
    size_t done = 0;
    int fd = -1;
    file_write("model", "0123", 4);
    file_write("newer", "4567", 4);
    assert_int_equal(coffer__os_open(work_path("model"), COFFER__OS_READ, true, &fd), 0);
    const int os_error = coffer__os_rename(work_path("newer"), work_path("model"));
    assert_int_equal(coffer__os_read_at(fd, 0, bytes, sizeof bytes, &done), 0);
    assert_memory_equal(bytes, "0123", 4);
    assert_int_equal(coffer__os_close(fd), 0);
    assert_true(os_error == 0 || os_error == EACCES || os_error == EBUSY);
    assert_true(coffer__os_exists(work_path("newer")) == (os_error != 0));
    assert_true(file_has("model", (file_bytes){ (uint8_t *)(os_error == 0 ? "4567" : "0123"), 4 }));
    assert_int_equal(coffer__os_rename(work_path("newer"), work_path("model")), os_error == 0 ? ENOENT : 0);
    assert_true(file_has("model", (file_bytes){ (uint8_t *)"4567", 4 }));
}

/* As on POSIX systems, the mark against writing is about a file's bytes and not about its name. */
static void a_read_only_file_can_be_replaced_and_deleted(void **state)
{
    (void)state;
    file_write("model", "0123", 4);
    file_write("newer", "4567", 4);
    assert_int_equal(chmod(work_path("model"), 0444), 0);
    assert_int_equal(coffer__os_rename(work_path("newer"), work_path("model")), 0);
    assert_true(file_has("model", (file_bytes){ (uint8_t *)"4567", 4 }));
    assert_int_equal(chmod(work_path("model"), 0444), 0);
    assert_int_equal(coffer__os_unlink(work_path("model")), 0);
    assert_false(coffer__os_exists(work_path("model")));
}

/* What another program keeps for itself is said to be in use. */
static void a_file_that_is_not_shared_is_busy(void **state)
{
    (void)state;
    int fd = -1;
    file_write("model", "0123", 4);
    HANDLE own = CreateFileA(work_path("model"), GENERIC_READ, 0, NULL, OPEN_EXISTING, 0, NULL);
    assert_true(own != INVALID_HANDLE_VALUE);
    assert_int_equal(coffer__os_open(work_path("model"), COFFER__OS_READ, true, &fd), EBUSY);
    assert_int_equal(coffer__os_unlink(work_path("model")), EBUSY);
    assert_true(CloseHandle(own));
    assert_int_equal(coffer__os_open(work_path("model"), COFFER__OS_READ, true, &fd), 0);
    assert_int_equal(coffer__os_close(fd), 0);
}

/* The system keeps a mapped file from being cut, so that reading the map cannot fault. */
static void a_mapped_file_keeps_its_length(void **state)
{
    (void)state;
    coffer__os_map map = { NULL, 0 };
    void *bytes = NULL;
    int fd = -1;
    file_write("model", "0123", 4);
    assert_int_equal(coffer__os_open(work_path("model"), COFFER__OS_EDIT, true, &fd), 0);
    assert_int_equal(coffer__os_map_range(fd, 0, 4, false, true, &map, &bytes), 0);
    assert_int_equal(coffer__os_truncate(fd, 1), EBUSY);
    assert_memory_equal(bytes, "0123", 4);
    coffer__os_unmap(&map);
    assert_int_equal(coffer__os_truncate(fd, 1), 0);
    assert_int_equal(coffer__os_close(fd), 0);
}

/* By the system's own library; the vectors are those of FIPS 180-2. */
static void assert_sha256(const char *unit, size_t times, const char *expected)
{
    coffer_hasher *hasher = NULL;
    uint8_t digest[32];
    char text[65];
    assert_int_equal(coffer_hasher_new(&hasher, COFFER_SHA256, NULL, NULL), COFFER_OK);
    assert_ptr_equal(hasher->ops, &coffer__hash_sha256_bcrypt);
    for (size_t i = 0; i < times; i++) {
        assert_int_equal(coffer_hasher_update(hasher, unit, strlen(unit), NULL), COFFER_OK);
    }
    assert_int_equal(coffer_hasher_finish(hasher, digest, sizeof digest, NULL), COFFER_OK);
    coffer_hasher_free(hasher);
    for (size_t i = 0; i < sizeof digest; i++) {
        (void)snprintf(text + 2 * i, 3, "%02x", digest[i]);
    }
    assert_string_equal(text, expected);
}

static void sha256_is_the_systems(void **state)
{
    (void)state;
    assert_sha256("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_sha256("abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    assert_sha256("aaaaaaaaaa", 100000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
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
        cmocka_unit_test_setup_teardown(names_are_utf8, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(both_slashes_separate, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(paths_may_be_long, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(an_open_file_can_be_deleted, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(an_open_file_is_replaced_or_kept, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(a_read_only_file_can_be_replaced_and_deleted, work_dir_set_up,
                                        work_dir_tear_down),
        cmocka_unit_test_setup_teardown(a_file_that_is_not_shared_is_busy, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(a_mapped_file_keeps_its_length, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(a_secret_file_is_the_users_alone, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(rights_are_taken_over, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(a_lock_keeps_others_out_until_it_is_closed, work_dir_set_up,
                                        work_dir_tear_down),
        cmocka_unit_test_setup_teardown(far_offsets, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(a_copy_reads_without_moving_the_position, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test(sha256_is_the_systems),
        cmocka_unit_test(the_environment_is_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
