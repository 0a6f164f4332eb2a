/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose a file is. In a user namespace that does not have a number for every user, one number stands for all the others, this
 * process's user among them: then nothing is believed because of it. The kernel's own namespace is asked, in a child.
 */
#define _GNU_SOURCE

#include "support_cmocka.h"

#include "os.h"
#include "pending_save.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define STICKY 01777u
#define PRIVATE 0755u
#define OWN 0644u

static coffer__os_info file_of(uint32_t owner, uint32_t mode)
{
    return (coffer__os_info){ .kind = COFFER__OS_REGULAR, .mode = mode, .owner = owner, .links = 1 };
}

/* Whether a trace counts that has the same owner as its folder. */
static bool trace_counts(uint32_t owner, uint32_t folder_mode)
{
    const coffer__os_info file = file_of(owner, OWN);
    const coffer__os_info folder = { .kind = COFFER__OS_DIRECTORY, .mode = folder_mode, .owner = owner };
    return coffer__pending_save_is_own(&file, &folder, false);
}

static void test_ones_own(void **state)
{
    (void)state;
    const coffer__os_info mine = file_of(coffer__os_user(), OWN);
    const coffer__os_info other = file_of(coffer__os_user() + 1, OWN);
    assert_true(coffer__os_is_one_user(coffer__os_user()));
    assert_true(coffer__os_is_mine(&mine));
    assert_false(coffer__os_is_mine(&other));
    assert_true(trace_counts(coffer__os_user(), STICKY));
    assert_true(trace_counts(coffer__os_user(), PRIVATE));
    assert_true(trace_counts(coffer__os_user() + 1, PRIVATE));
}

/* 0: as it should be. Where the system makes no such namespace, the number is this user's alone. */
static int ask_in_namespace(void)
{
    const uint32_t before = coffer__os_user();
    const bool apart = unshare(CLONE_NEWUSER) == 0;
    const uint32_t user = coffer__os_user();
    const coffer__os_info mine = file_of(user, OWN);
    const bool known = coffer__os_is_one_user(user);
    return known == !apart && coffer__os_is_mine(&mine) == !apart && trace_counts(user, STICKY) == !apart &&
                   trace_counts(user, PRIVATE) && coffer__os_is_one_user(before == user ? user + 1 : before)
               ? 0
               : 1;
}

static void test_in_a_namespace_without_a_map(void **state)
{
    (void)state;
    int how = 0;
    const pid_t child = fork();
    assert_int_not_equal(child, -1);
    if (child == 0) {
        _exit(ask_in_namespace());
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ones_own),
        cmocka_unit_test(test_in_a_namespace_without_a_map),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
