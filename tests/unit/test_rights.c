/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rights of a file that takes the place of another one: nobody may do more with it than with the old one. Owners and groups
 * that cannot be given take privileges to try, and access control lists a file system that has them; so what the system says to
 * that is made up here.
 */
#define _GNU_SOURCE

#include "support_cmocka.h"

#include "faulty_calls.h"

#include "os.h"
#include "support_file.h"

#include <stdlib.h>

#define OWNER_TAG 0x01
#define USER_TAG 0x02
#define GROUP_TAG 0x04
#define NAMED_GROUP_TAG 0x08
#define MASK_TAG 0x10
#define OTHERS_TAG 0x20

/* ---- lists that the system would have ----------------------------------------------------------------------------------- */

#define LIST_CAPACITY 8192

static struct {
    uint8_t old[LIST_CAPACITY]; /* the list of the old file; */
    size_t old_size;            /* 0: none */
    uint8_t fresh[LIST_CAPACITY];
    size_t fresh_size;
    int error; /* the errno with which a list is not taken */
    int remove_error;
    unsigned removed;
} lists;

ssize_t getxattr(const char *path, const char *name, void *value, size_t size)
{
    assert_string_equal(name, "system.posix_acl_access");
    assert_string_equal(path, work_path("old"));
    if (lists.old_size == 0 || lists.old_size > size) {
        errno = lists.old_size == 0 ? ENODATA : ERANGE;
        return -1;
    }
    memcpy(value, lists.old, lists.old_size);
    return (ssize_t)lists.old_size;
}

int fsetxattr(int fd, const char *name, const void *value, size_t size, int flags)
{
    (void)fd;
    assert_string_equal(name, "system.posix_acl_access");
    assert_int_equal(flags, 0);
    assert_true(size <= sizeof lists.fresh);
    if (lists.error != 0) {
        errno = lists.error;
        return -1;
    }
    memcpy(lists.fresh, value, size);
    lists.fresh_size = size;
    return 0;
}

int fremovexattr(int fd, const char *name)
{
    (void)fd;
    assert_string_equal(name, "system.posix_acl_access");
    lists.removed++;
    errno = lists.remove_error;
    return lists.remove_error == 0 ? 0 : -1;
}

static void put_entry(unsigned tag, unsigned rights, uint32_t id)
{
    uint8_t *at = lists.old + lists.old_size;
    const uint8_t entry[8] = { (uint8_t)tag, 0, (uint8_t)rights, 0, (uint8_t)(id & 0xFF), (uint8_t)(id >> 8), 0, 0 };
    memcpy(at, entry, sizeof entry);
    lists.old_size += sizeof entry;
}

/* A list with so much for the owner, user 1000, the group, group 2000, all of these, and others; in octal digits. */
static void put_list(unsigned owner, unsigned user, unsigned group, unsigned named, unsigned mask, unsigned others)
{
    static const uint8_t version[4] = { 2, 0, 0, 0 };
    memcpy(lists.old, version, sizeof version);
    lists.old_size = sizeof version;
    put_entry(OWNER_TAG, owner, UINT32_MAX);
    put_entry(USER_TAG, user, 1000);
    put_entry(GROUP_TAG, group, UINT32_MAX);
    put_entry(NAMED_GROUP_TAG, named, 2000);
    put_entry(MASK_TAG, mask, UINT32_MAX);
    put_entry(OTHERS_TAG, others, UINT32_MAX);
}

/* What the new list gives, as digits: owner, user, group, named group, mask, others. */
static unsigned fresh_list(void)
{
    unsigned digits = 0;
    for (size_t at = 4; at < lists.fresh_size; at += 8) {
        digits = digits * 10 + lists.fresh[at + 2];
    }
    return digits;
}

/* ---- files --------------------------------------------------------------------------------------------------------------- */

static int new_file;

static int set_up(void **state)
{
    (void)state;
    faults_clear();
    memset(&lists, 0, sizeof lists);
    work_dir_make();
    file_write("old", "old", 3);
    file_write("new", "new", 3);
    new_file = open(work_path("new"), O_RDWR | O_CLOEXEC);
    assert_true(new_file >= 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    faults_clear();
    assert_int_equal(close(new_file), 0);
    work_dir_remove();
    return 0;
}

/* Takes the rights of an old file of that mode, of the new one's owner and group or of others that cannot be given. Returns the new
   file's mode. */
static mode_t taken(mode_t mode, bool same_owner, bool same_group)
{
    coffer__os_info old;
    struct stat found;
    assert_int_equal(fchmod(new_file, 0600), 0);
    assert_int_equal(coffer__os_inspect(work_path("new"), true, &old), 0);
    old.mode = mode;
    old.owner += same_owner ? 0 : 1;
    old.group += same_group ? 0 : 1;
    faults.always[FAULT_OWNER] = EPERM;
    assert_int_equal(coffer__os_take_owner_and_mode(new_file, &old, work_path("old")), 0);
    faults.always[FAULT_OWNER] = 0;
    assert_int_equal(fstat(new_file, &found), 0);
    return found.st_mode & 07777;
}

static void test_modes(void **state)
{
    (void)state;
    static const mode_t kept[] = { 0600, 0640, 0644, 0660, 0664, 0604, 0755, 0444, 0400, 04751, 0077 };
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        assert_int_equal(taken(kept[i], true, true), kept[i]);
    }
    assert_int_equal(lists.removed, sizeof kept / sizeof kept[0]); /* what the folder gave it */
}

/* Of another group: its members get what others had, and nobody more than any of the two. */
static void test_group_cannot_be_kept(void **state)
{
    (void)state;
    static const mode_t modes[][2] = { { 0640, 0600 }, { 0660, 0600 },  { 0644, 0644 },  { 0664, 0644 },
                                       { 0604, 0600 }, { 0751, 0711 },  { 0646, 0644 },  { 0755, 0755 },
                                       { 0600, 0600 }, { 04755, 0755 }, { 02750, 0700 }, { 01777, 0777 } };
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        assert_int_equal(taken(modes[i][0], true, false), modes[i][1]);
        assert_int_equal(taken(modes[i][0], false, false), modes[i][1]);
    }
}

/* Who was the owner is one of the group or of the others now. */
static void test_owner_cannot_be_kept(void **state)
{
    (void)state;
    static const mode_t modes[][2] = { { 0640, 0640 }, { 0664, 0664 }, { 0777, 0777 },
                                       { 0470, 0440 }, { 0647, 0646 }, { 06755, 0755 } };
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        assert_int_equal(taken(modes[i][0], false, true), modes[i][1]);
    }
}

/* ---- access control lists ------------------------------------------------------------------------------------------------ */

static void test_list_is_kept(void **state)
{
    (void)state;
    put_list(6, 6, 0, 4, 6, 0);
    assert_int_equal(taken(0660, true, true), 0660); /* with a list the group's bits are the mask */
    assert_int_equal(lists.fresh_size, lists.old_size);
    assert_memory_equal(lists.fresh, lists.old, lists.old_size);
    assert_int_equal(lists.removed, 0);
}

static void test_list_of_another_group(void **state)
{
    (void)state;
    put_list(6, 6, 4, 7, 6, 5);
    assert_int_equal(taken(0665, true, false), 0664);
    assert_int_equal(fresh_list(), 664764);
    put_list(6, 6, 6, 7, 4, 7);
    assert_int_equal(taken(0647, true, false), 0644);
    assert_int_equal(fresh_list(), 664744);
    put_list(6, 6, 0, 7, 6, 4);
    assert_int_equal(taken(0664, false, false), 0660);
    assert_int_equal(fresh_list(), 660760);
    put_list(4, 6, 7, 7, 7, 7);
    assert_int_equal(taken(0477, false, true), 0474);
    assert_int_equal(fresh_list(), 464774);
}

/* Without the list those whom it names are others, or of the group; the mask was never the group's right. */
static void test_list_is_not_taken(void **state)
{
    (void)state;
    static const unsigned rows[][8] = { /* the list, the mode then, and the mode without */
                                        { 6, 6, 0, 6, 6, 0, 0660, 0600 }, { 6, 6, 4, 6, 6, 4, 0664, 0644 },
                                        { 6, 0, 4, 6, 6, 4, 0664, 0600 }, { 7, 7, 7, 5, 7, 7, 0777, 0755 },
                                        { 6, 6, 6, 6, 4, 4, 0644, 0644 }, { 6, 7, 6, 4, 2, 4, 0624, 0604 }
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const unsigned *row = rows[i];
        put_list(row[0], row[1], row[2], row[3], row[4], row[5]);
        lists.error = EOPNOTSUPP;
        assert_int_equal(taken((mode_t)row[6], true, true), row[7]);
        assert_int_equal(lists.fresh_size, 0);
        assert_int_equal(lists.removed, i + 1);
    }
}

static void test_list_that_is_too_long(void **state)
{
    (void)state;
    put_list(6, 6, 6, 6, 6, 6);
    for (uint32_t i = 0; i < 500; i++) {
        put_entry(USER_TAG, 6, i);
    }
    assert_int_equal(taken(0666, true, true), 0600);
    assert_int_equal(lists.fresh_size, 0);
}

/* A list that the folder gave stays, but nobody may do anything by it. */
static void test_list_cannot_be_removed(void **state)
{
    (void)state;
    static const int none[] = { ENODATA, EOPNOTSUPP, ENOSYS };
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        lists.remove_error = none[i];
        assert_int_equal(taken(0664, true, true), 0664);
    }
    lists.remove_error = EACCES;
    assert_int_equal(taken(0664, true, true), 0604);
}

/* ---- what the system refuses --------------------------------------------------------------------------------------------- */

static void test_mode_that_cannot_be_set(void **state)
{
    (void)state;
    coffer__os_info old;
    assert_int_equal(fchmod(new_file, 0640), 0);
    assert_int_equal(coffer__os_inspect(work_path("new"), true, &old), 0);
    faults.always[FAULT_MODE] = EPERM;
    assert_int_equal(coffer__os_take_owner_and_mode(new_file, &old, work_path("old")), 0);
    old.mode = 0600;
    assert_int_equal(coffer__os_take_owner_and_mode(new_file, &old, work_path("old")), EPERM);
}

/* For programs that write files themselves. */
static void test_for_programs(void **state)
{
    (void)state;
    coffer_error err;
    struct stat found;
    assert_int_equal(chmod(work_path("old"), 0604), 0);
    assert_int_equal(coffer_take_rights(new_file, work_path("old"), &err), COFFER_OK);
    assert_int_equal(fstat(new_file, &found), 0);
    assert_int_equal(found.st_mode & 07777, 0604);
    assert_int_equal(coffer_take_rights(new_file, work_path("none"), &err), COFFER_ERR_NOT_FOUND);
    assert_string_equal(err.path, work_path("none"));
    assert_int_equal(coffer_take_rights(-1, work_path("old"), &err), COFFER_ERR_IO);
    assert_int_equal(err.os_error, EBADF);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_modes),
        TEST(test_group_cannot_be_kept),
        TEST(test_owner_cannot_be_kept),
        TEST(test_list_is_kept),
        TEST(test_list_of_another_group),
        TEST(test_list_is_not_taken),
        TEST(test_list_that_is_too_long),
        TEST(test_list_cannot_be_removed),
        TEST(test_mode_that_cannot_be_set),
        TEST(test_for_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
