/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Crashes: a child that saves, edits or recovers is killed when it is about to make its first system call, its second, and
 * so on until it gets to its end. After every kill the file must be there, old or new, whole (or, in the middle of an edit
 * in place, say so and be recovered), and nothing may lie about but what docs/editing.md names. No
 * clock is involved: every point at which a process can be stopped between two system calls is tried.
 *
 * A kill shows in which state the files are at each moment; that these states also reach the disk in that order is shown by
 * the order of the calls that make things durable, which is compared with the documented one.
 */
#define _GNU_SOURCE

#include "support_cmocka.h"

#include "faulty_calls.h"

#include "coffer.h"
#include "support_child.h"
#include "support_file.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>

/* A child that came to no call worth a test would make every test here pass. */
#define MIN_CALLS 8

static const tensor_spec specs[] = {
    { "weight", COFFER_F32, 2, { 30, 40 } },
    { "bias", COFFER_F16, 1, { 7 } },
};
#define SPEC_COUNT (sizeof specs / sizeof specs[0])

static file_bytes old;   /* the file before, … */
static file_bytes fresh; /* … and after what the child does */
static file_bytes undo;  /* the undo file of an edit that was interrupted */
static image saved;      /* what a child saves */
static coffer_sync save_sync;
static coffer_edit_mode edit_mode;
static const char *edit_value;

static int set_up(void **state)
{
    saved = image_of(specs, SPEC_COUNT);
    save_sync = COFFER_SYNC_REPLACE;
    edit_mode = COFFER_EDIT_AUTO;
    return faults_set_up(state);
}

static void free_bytes(file_bytes *gone)
{
    free(gone->at);
    gone->at = NULL;
}

static int tear_down(void **state)
{
    image_free(&saved);
    free_bytes(&old);
    free_bytes(&fresh);
    free_bytes(&undo);
    return faults_tear_down(state);
}

/* ---- what the children do -------------------------------------------------------------------------------------------- */

static int run_save(void *ctx)
{
    (void)ctx;
    coffer_header *header = header_of(specs, SPEC_COUNT, NULL);
    coffer_writer *writer = NULL;
    coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    options.sync = save_sync;
    coffer_status status = coffer_writer_open(&writer, header, work_path("model"), &options, NULL);
    for (size_t i = 0; i < SPEC_COUNT && status == COFFER_OK; i++) {
        const coffer_tensor *tensor = coffer_header_at(header, i);
        status = coffer_writer_write(writer, i, 0, saved.bytes + tensor->offset, tensor->size, NULL);
    }
    if (status == COFFER_OK) {
        status = coffer_writer_finish(writer, NULL);
    }
    coffer_writer_free(writer);
    coffer_header_free(header);
    return (int)status;
}

static int run_edit(void *ctx)
{
    (void)ctx;
    const coffer_edit edit = { "made by", 7, edit_value, strlen(edit_value) };
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    options.mode = edit_mode;
    options.sync = save_sync;
    return (int)coffer_edit_metadata(work_path("model"), &edit, 1, &options, NULL, NULL);
}

static int run_recover(void *ctx)
{
    (void)ctx;
    return (int)coffer_recover(work_path("model"), NULL, NULL);
}

/* ---- what is found afterwards ---------------------------------------------------------------------------------------- */

static file_bytes take_file(const char *name)
{
    file_bytes file = { NULL, 0 };
    file.at = file_read(name, &file.size);
    return file;
}

static bool there_is(const char *name)
{
    return access(work_path(name), F_OK) == 0;
}

static void put_file(const char *name, file_bytes file)
{
    file_write(name, file.at, file.size);
}

/* The model opens, and every tensor has its bytes. */
static void assert_opens(void)
{
    coffer *model = NULL;
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.access = COFFER_READ;
    assert_int_equal(coffer_open(&model, work_path("model"), &options, NULL), COFFER_OK);
    assert_int_equal(coffer_count(model), SPEC_COUNT);
    coffer_close(model);
}

/* Counts and removes the temporary files, complete or not. */
static size_t take_leftovers(void)
{
    size_t count = 0;
    DIR *stream = opendir(work_path("."));
    assert_non_null(stream);
    for (const struct dirent *entry = readdir(stream); entry != NULL; entry = readdir(stream)) {
        if (strncmp(entry->d_name, ".model.coffer-", 14) == 0) {
            assert_int_equal(strlen(entry->d_name), 22);
            assert_int_equal(unlink(work_path(entry->d_name)), 0);
            count++;
        }
    }
    closedir(stream);
    return count;
}

static void prepare_nothing(void)
{
    (void)unlink(work_path("model"));
}

static void prepare_old(void)
{
    put_file("model", old);
}

static void prepare_interrupted(void)
{
    put_file("model", fresh);
    put_file("model.coffer-undo", undo);
}

/* Kills run(NULL) at each of its system calls in turn. */
static void kill_at_every_call(int (*run)(void *ctx), void (*prepare)(void), void (*check)(void))
{
    bool killed = true;
    unsigned k = 0;
    while (killed) {
        k++;
        prepare();
        const int result = child_run_killed(run, NULL, k, &killed);
        assert_int_equal(result, killed ? 256 + SIGKILL : 0);
        check();
    }
    assert_true(k > MIN_CALLS);
    assert_true(file_has("model", fresh));
}

/* ---- saving ---------------------------------------------------------------------------------------------------------- */

static bool has_unnamed_files(void)
{
    const int fd = open(work_path("."), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    if (fd >= 0) {
        (void)close(fd);
    }
    return fd >= 0;
}

static size_t most_leftovers;

static void check_saved(void)
{
    if (there_is("model")) {
        assert_true(file_has("model", fresh) || (old.at != NULL && file_has("model", old)));
        assert_opens();
    } else {
        assert_null(old.at);
    }
    assert_true(take_leftovers() <= most_leftovers);
    assert_int_equal(work_dir_count(), there_is("model") ? 1 : 0);
}

static void make_fresh_of_saved(void)
{
    free_bytes(&fresh);
    fresh.at = malloc(saved.size);
    assert_non_null(fresh.at);
    memcpy(fresh.at, saved.bytes, saved.size);
    fresh.size = saved.size;
}

/* An older file of the same tensors, with other bytes and more metadata. */
static void make_old(void)
{
    edit_value = "somebody else, long ago, and with a longer name than the test has";
    edit_mode = COFFER_EDIT_REWRITE;
    file_write("model", saved.bytes, saved.size);
    assert_int_equal(run_edit(NULL), COFFER_OK);
    old = take_file("model");
    for (size_t i = old.size - 100; i < old.size; i++) {
        old.at[i] ^= 0xFF;
    }
    edit_mode = COFFER_EDIT_AUTO;
}

static void check_saving(bool exists)
{
    make_fresh_of_saved();
    if (exists) {
        make_old();
    }
    for (int sync = COFFER_SYNC_REPLACE; sync <= COFFER_SYNC_NEVER; sync++) {
        save_sync = (coffer_sync)sync;
        faults.always[FAULT_UNNAMED] = 0;
        /* A new file gets its name when it is complete, in one step; one that replaces another is named twice. */
        most_leftovers = exists || !has_unnamed_files() ? 1 : 0;
        kill_at_every_call(run_save, exists ? prepare_old : prepare_nothing, check_saved);
        faults.always[FAULT_UNNAMED] = EOPNOTSUPP;
        most_leftovers = 1;
        kill_at_every_call(run_save, exists ? prepare_old : prepare_nothing, check_saved);
    }
}

static void test_save_new(void **state)
{
    (void)state;
    check_saving(false);
}

static void test_save_over_existing(void **state)
{
    (void)state;
    check_saving(true);
}

/* ---- editing --------------------------------------------------------------------------------------------------------- */

/* Makes `old`, a file with slack, and `fresh`, what the edit makes of it. */
static void make_edit(const char *value, coffer_edit_mode mode)
{
    file_write("model", saved.bytes, saved.size);
    edit_value = "first";
    edit_mode = COFFER_EDIT_REWRITE;
    assert_int_equal(run_edit(NULL), COFFER_OK);
    old = take_file("model");
    edit_value = value;
    edit_mode = mode;
    assert_int_equal(run_edit(NULL), COFFER_OK);
    fresh = take_file("model");
}

static unsigned recovered;

static void check_edited(void)
{
    coffer *model = NULL;
    coffer_error err;
    const bool has_undo = there_is("model.coffer-undo");
    const coffer_status status = coffer_open(&model, work_path("model"), NULL, &err);
    coffer_close(model);
    assert_int_equal(status, has_undo ? COFFER_ERR_UNDO : COFFER_OK);
    if (has_undo) {
        recovered++;
        assert_int_equal(coffer_recover(work_path("model"), NULL, &err), COFFER_OK);
        assert_true(file_has("model", old));
        assert_false(there_is("model.coffer-undo"));
    }
    assert_true(file_has("model", fresh) || file_has("model", old));
    assert_opens();
    const size_t scratch = there_is("model.coffer-undo.new") ? 1 : 0;
    assert_true(take_leftovers() <= most_leftovers);
    assert_int_equal(work_dir_count(), 1 + scratch);
    if (scratch > 0) {
        /* It is in nobody's way, and a recovery that has nothing else to do takes it along. */
        assert_true(file_has("model", old));
        assert_int_equal(coffer_recover(work_path("model"), NULL, &err), COFFER_ERR_NO_UNDO);
        assert_int_equal(work_dir_count(), 1);
    }
}

static void check_editing(const char *value, coffer_edit_mode mode)
{
    make_edit(value, mode);
    for (int named = 0; named < 2; named++) {
        faults.always[FAULT_UNNAMED] = named ? EOPNOTSUPP : 0;
        most_leftovers = 1;
        kill_at_every_call(run_edit, prepare_old, check_edited);
    }
}

static void test_edit_in_place(void **state)
{
    (void)state;
    faults.always[FAULT_CLONE] = EOPNOTSUPP;
    recovered = 0;
    check_editing("another value", COFFER_EDIT_IN_PLACE);
    /* From the undo file's name on to its removal there are some calls, each of which was the last one once. */
    assert_true(recovered >= 2 * 4);
}

/* A clone where the file system makes them, else in place. */
static void test_edit_within_header(void **state)
{
    (void)state;
    check_editing("another value", COFFER_EDIT_AUTO);
}

static void test_edit_by_rewrite(void **state)
{
    (void)state;
    recovered = 0;
    check_editing("another value", COFFER_EDIT_REWRITE);
    faults.always[FAULT_COPY] = EXDEV;
    kill_at_every_call(run_edit, prepare_old, check_edited);
    assert_int_equal(recovered, 0);
}

/* ---- recovering ------------------------------------------------------------------------------------------------------ */

/* Here `fresh` is what recovery makes: the file as it was before the edit. */
static void check_recovered(void)
{
    if (there_is("model.coffer-undo")) {
        assert_int_equal(coffer_recover(work_path("model"), NULL, NULL), COFFER_OK);
    }
    assert_true(file_has("model", old));
    assert_opens();
    assert_int_equal(work_dir_count(), 1);
}

static void prepare_mixture(void)
{
    prepare_interrupted();
    const int fd = open(work_path("model"), O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, old.at + 50, 500, 50), 500);
    assert_int_equal(close(fd), 0);
}

static void test_recover(void **state)
{
    (void)state;
    faults.always[FAULT_CLONE] = EOPNOTSUPP;
    make_edit("another value", COFFER_EDIT_IN_PLACE);
    prepare_old();
    faults.always[FAULT_UNLINK] = EROFS;
    assert_int_equal(run_edit(NULL), COFFER_ERR_UNDO);
    faults.always[FAULT_UNLINK] = 0;
    undo = take_file("model.coffer-undo");
    bool killed = true;
    unsigned k = 0;
    while (killed) {
        k++;
        prepare_mixture();
        const int result = child_run_killed(run_recover, NULL, k, &killed);
        assert_int_equal(result, killed ? 256 + SIGKILL : 0);
        check_recovered();
    }
    assert_true(k > MIN_CALLS);
}

/* ---- the order of things --------------------------------------------------------------------------------------------- */

static char steps[64];
static size_t step_count;

/* One letter for each kind of call that changes files or makes changes durable; several in a row count once. */
static void note_step(void *ctx, uint64_t call)
{
    (void)ctx;
    char step = '\0';
    switch (call) {
    case SYS_pwrite64:
        step = 'w';
        break;
    case SYS_fdatasync:
        step = 's';
        break;
    case SYS_fsync:
        step = 'd';
        break;
    case SYS_linkat:
        step = 'l';
        break;
#ifdef SYS_rename
    case SYS_rename:
#endif
#ifdef SYS_renameat
    case SYS_renameat:
#endif
    case SYS_renameat2:
        step = 'r';
        break;
#ifdef SYS_unlink
    case SYS_unlink:
#endif
    case SYS_unlinkat:
        step = 'u';
        break;
    default:
        return;
    }
    if (step_count == 0 || steps[step_count - 1] != step) {
        assert_true(step_count < sizeof steps - 1);
        steps[step_count++] = step;
        steps[step_count] = '\0';
    }
}

static void assert_steps(int (*run)(void *ctx), const char *expected)
{
    step_count = 0;
    steps[0] = '\0';
    assert_int_equal(child_run_watched(run, NULL, note_step, NULL), 0);
    assert_string_equal(steps, expected);
}

static void assert_steps_of_save(coffer_sync sync, bool exists, bool named, const char *expected)
{
    save_sync = sync;
    faults.always[FAULT_UNNAMED] = named ? EOPNOTSUPP : 0;
    prepare_nothing();
    if (exists) {
        prepare_old();
    }
    assert_steps(run_save, expected);
}

/* A file that is made without a name is asked at once whether it could get one. */
static void test_order_of_saving(void **state)
{
    (void)state;
    make_old();
    for (int named = has_unnamed_files() ? 0 : 1; named < 2; named++) {
        assert_steps_of_save(COFFER_SYNC_REPLACE, false, named, named ? "wr" : "lwl");
        assert_steps_of_save(COFFER_SYNC_REPLACE, true, named, named ? "wsr" : "lwslr");
        assert_steps_of_save(COFFER_SYNC_ALWAYS, false, named, named ? "wsrd" : "lwsld");
        assert_steps_of_save(COFFER_SYNC_ALWAYS, true, named, named ? "wsrd" : "lwslrd");
        assert_steps_of_save(COFFER_SYNC_NEVER, true, named, named ? "wr" : "lwlr");
    }
}

static void test_order_of_editing(void **state)
{
    (void)state;
    faults.always[FAULT_CLONE] = EOPNOTSUPP;
    make_edit("another value", COFFER_EDIT_IN_PLACE);
    prepare_old();
    /* Files without a name are tried, for a clone; a stale scratch file goes; undo file written, durable, named, its name durable; header written, durable; undo file
       gone, durably. */
    assert_steps(run_edit, has_unnamed_files() ? "luwsrdwsud" : "uwsrdwsud");
    prepare_old();
    faults.always[FAULT_UNLINK] = EROFS;
    assert_int_equal(run_edit(NULL), COFFER_ERR_UNDO);
    faults.always[FAULT_UNLINK] = 0;
    /* The old header written, durable; undo file gone, durably. */
    assert_steps(run_recover, "uwsud");
    assert_true(file_has("model", old));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_save_new),           TEST(test_save_over_existing), TEST(test_edit_in_place),
        TEST(test_edit_within_header), TEST(test_edit_by_rewrite),    TEST(test_recover),
        TEST(test_order_of_saving),    TEST(test_order_of_editing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
