/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edits whose system calls fail, every one of them in turn, and edits without memory: the old file stays, or the new one is
 * there, or an undo file tells what to do.
 */
#define _GNU_SOURCE

#include "support_cmocka.h"

#include "faulty_calls.h"

#include "coffer.h"
#include "support_edit.h"
#include "support_memory.h"

#include <stdio.h>
#include <stdlib.h>

static void test_writing_fails(void **state)
{
    (void)state;
    coffer_error err;
    file_bytes old = make_model(ONE_KEY, 200);
    faults.always[FAULT_CLONE] = EOPNOTSUPP;
    faults.always[FAULT_WRITE] = ENOSPC;
    assert_int_equal(edit_with("model", "k", "w", NULL, NULL, &err), COFFER_ERR_IO);
    assert_int_equal(err.os_error, ENOSPC);
    faults.always[FAULT_WRITE] = 0;
    faults.always[FAULT_SYNC_NAMES] = EIO;
    assert_int_equal(edit_with("model", "k", "w", NULL, NULL, &err), COFFER_ERR_IO);
    faults_clear();
    assert_file_has("model", old);
    assert_int_equal(work_dir_count(), 1);
    free(old.at);
}

/* What a failed edit may leave: the old file; or the new one, when only its last step failed; or an undo file. */
static void check_outcome(coffer_status status, const coffer_error *err, file_bytes old, file_bytes fresh)
{
    if (access(work_path("model.coffer-undo"), F_OK) == 0) {
        assert_int_equal(status, COFFER_ERR_UNDO);
        assert_int_equal(coffer_recover(work_path("model"), NULL, NULL), COFFER_OK);
        assert_file_has("model", old);
    } else if (status == COFFER_OK) {
        assert_file_has("model", fresh);
    } else {
        assert_true(err->code == status);
        const bool done =
            strstr(err->message, "the finished edit") != NULL || strstr(err->message, "the file is in place") != NULL;
        assert_file_has("model", done ? fresh : old);
    }
}

static unsigned check_every_call(bool no_clone, bool named, coffer_edit_mode mode, int os_error)
{
    unsigned k = 0;
    bool came_to_it = true;
    file_bytes old = make_model(ONE_KEY, 200);
    file_bytes fresh = edited("{\"__metadata__\":{\"k\":\"new\"},", old);
    if (mode == COFFER_EDIT_REWRITE) {
        free(fresh.at);
        const char *text = text_of("{\"__metadata__\":{\"k\":\"new\"},", MEMBER, "}");
        const size_t end = (8 + strlen(text) + 4096 + 7) / 8 * 8;
        fresh = file_of(text, end - 8 - strlen(text), DATA_SIZE);
    }
    while (came_to_it) {
        k++;
        file_write("model", old.at, old.size);
        memory_meter meter;
        const coffer_allocator metered = metered_allocator(&meter);
        coffer_edit_options options = options_of(mode);
        options.allocator = &metered;
        options.sync = COFFER_SYNC_ALWAYS;
        const size_t before = open_descriptors();
        faults.always[FAULT_CLONE] = no_clone ? EOPNOTSUPP : 0;
        faults.always[FAULT_UNNAMED] = named ? EOPNOTSUPP : 0;
        faults.fail_at = k;
        faults.error = os_error;
        faults.spare_clean_up = true;
        coffer_error err;
        coffer_status status = edit_with("model", "k", "new", &options, NULL, &err);
        came_to_it = faults.calls >= k;
        faults_clear();
        assert_int_equal(open_descriptors(), before);
        assert_int_equal(meter.held, 0);
        if (status != COFFER_ERR_REPLACE) {
            check_outcome(status, &err, old, fresh);
            assert_int_equal(work_dir_count(), 1);
            continue;
        }
        assert_file_has("model", old);
        const char *name = strstr(err.message, ".model.coffer-");
        assert_non_null(name);
        char kept[64];
        (void)snprintf(kept, sizeof kept, "%.22s", name);
        assert_file_has(kept, fresh);
        assert_int_equal(unlink(work_path(kept)), 0);
    }
    free(old.at);
    free(fresh.at);
    return k;
}

static void test_every_call_fails(void **state)
{
    (void)state;
    for (int named = 0; named < 2; named++) {
        assert_true(check_every_call(false, named, COFFER_EDIT_AUTO, EIO) > 10);
        assert_true(check_every_call(true, named, COFFER_EDIT_AUTO, EIO) > 10);
        assert_true(check_every_call(true, named, COFFER_EDIT_AUTO, ENOSPC) > 10);
        assert_true(check_every_call(true, named, COFFER_EDIT_REWRITE, EIO) > 10);
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    for (int mode = COFFER_EDIT_AUTO; mode <= COFFER_EDIT_REWRITE; mode++) {
        coffer_status status = COFFER_ERR_MEMORY;
        for (size_t k = 1; status == COFFER_ERR_MEMORY; k++) {
            file_bytes old = make_model(ONE_KEY, 200);
            memory_meter meter;
            const coffer_allocator metered = metered_allocator(&meter);
            meter.fail_at = k;
            coffer_edit_options options = options_of((coffer_edit_mode)mode);
            options.allocator = &metered;
            faults.always[FAULT_COPY] = EXDEV;
            coffer_error err;
            status = edit_with("model", "k", "new", &options, NULL, &err);
            assert_int_equal(meter.held, 0);
            assert_true(status == COFFER_OK || (status == COFFER_ERR_MEMORY && err.code == COFFER_ERR_MEMORY));
            assert_true(status == COFFER_OK || file_has("model", old));
            assert_true(k > 4 || status != COFFER_OK);
            free(old.at);
        }
        assert_int_equal(status, COFFER_OK);
        assert_int_equal(work_dir_count(), 1);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, faults_set_up, faults_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_writing_fails),
        TEST(test_every_call_fails),
        TEST(test_no_memory),
    };
    faults.file_system = FAULTY_NFS; /* so that the system copies where it can */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
