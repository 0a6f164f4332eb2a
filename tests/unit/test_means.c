/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the system has for reading, in words: people decide by it what to change, so each thing is told once, whether it can be
 * used agrees with what the engines find, and what cannot be used comes with a reason and with something to do.
 */
#define _GNU_SOURCE

#include "support_cmocka.h"

#include "means.h"
#include "support_engine.h"
#include "support_file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

typedef struct seen {
    unsigned count;
    unsigned most; /* the visitor ends after so many; 0: never */
    bool usable[8];
} seen;

static const char *const names[] = { "io_uring",   "locked memory",          "huge pages", "storage", "direct reading",
                                     "page cache", "reading without caching" };

static int see(void *ctx, const coffer_facility *facility)
{
    seen *list = ctx;
    assert_true(list->count < sizeof names / sizeof names[0]);
    assert_string_equal(facility->name, names[list->count]);
    assert_true(strlen(facility->detail) > 3);
    assert_true(facility->usable ? facility->advice[0] == '\0' : facility->detail[0] != '\0');
    list->usable[list->count++] = facility->usable;
    return list->count == list->most;
}

static void test_all_of_them(void **unused)
{
    (void)unused;
    seen list = { 0 };
    bool ended = true;
    coffer_error err;
    assert_int_equal(coffer__means_list(work_path("model"), see, &list, &ended, &err), COFFER_OK);
    assert_false(ended);
    assert_int_equal(list.count, sizeof names / sizeof names[0]);
    assert_int_equal(list.usable[0], engine_facts.ring == 0);
}

/* The descriptors are closed in every case. */
static void test_folders_and_ends(void **unused)
{
    (void)unused;
    const size_t before = open_descriptors();
    bool ended = true;
    coffer_error err;
    seen folder = { 0 };
    assert_int_equal(coffer__means_list(work_path("."), see, &folder, &ended, &err), COFFER_OK);
    assert_int_equal(folder.count, 7);
    seen none = { 0 };
    assert_int_equal(coffer__means_list(NULL, see, &none, &ended, &err), COFFER_OK);
    assert_int_equal(none.count, 3);
    assert_int_equal(unlink(work_path("model")), 0);
    seen empty = { 0 };
    assert_int_equal(coffer__means_list(work_path("."), see, &empty, &ended, &err), COFFER_OK);
    assert_int_equal(empty.count, 3);
    seen two = { .most = 2 };
    assert_int_equal(coffer__means_list(work_path("."), see, &two, &ended, &err), COFFER_OK);
    assert_true(ended);
    assert_int_equal(two.count, 2);
    assert_int_equal(coffer__means_list(work_path("missing"), see, &none, &ended, &err), COFFER_ERR_NOT_FOUND);
    assert_int_equal(open_descriptors(), before);
}

static void test_advice(void **unused)
{
    (void)unused;
    static const int errors[] = { EPERM, EACCES, ENOMEM, EMFILE, ENOSYS, EIO };
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        assert_true(strlen(coffer__means_ring_advice(errors[i])) > 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_of_them, engine_set_up, engine_tear_down),
        cmocka_unit_test_setup_teardown(test_folders_and_ends, engine_set_up, engine_tear_down),
        cmocka_unit_test(test_advice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
