/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model of several files takes the place of another one. Whatever happens meanwhile, a kill at any system call or the
 * failure of any of them, whoever asks for the model gets the old one or the new one, whole, or is told that there is none;
 * and the next recovery leaves exactly the files of the one or of the other.
 */
#define _GNU_SOURCE

#include "support_cmocka.h"

#include "faulty_calls.h"

#include "coffer.h"
#include "commit.h"
#include "os.h"
#include "support_child.h"
#include "support_file.h"
#include "support_memory.h"
#include "support_model.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TENSORS 4
/* A save that came to no call worth a test would make every test here pass. */
#define MIN_CALLS 40
#define MIN_FAULTS 20

#define INDEX "model.safetensors.index.json"

/* Limits for which the four tensors, of 40 to 43 bytes, become that many files. */
enum { ONE_FILE = 1000, TWO_FILES = 90, FOUR_FILES = 50 };

static snapshot old;
static snapshot fresh;
static uint64_t fresh_limit;
static coffer_sync save_sync;

static int set_up(void **state)
{
    save_sync = COFFER_SYNC_REPLACE;
    return faults_set_up(state);
}

static int tear_down(void **state)
{
    snapshot_free(&old);
    snapshot_free(&fresh);
    return faults_tear_down(state);
}

static coffer_status save(uint8_t seed, uint64_t limit, coffer_error *err)
{
    coffer_writer_options files = COFFER_WRITER_OPTIONS_INIT;
    files.sync = save_sync;
    coffer_model_writer_options options = COFFER_MODEL_WRITER_OPTIONS_INIT;
    options.force = true;
    options.files = &files;
    return model_save(TENSORS, seed, limit, &options, coffer_libc_allocator(), err);
}

static int run_save(void *ctx)
{
    (void)ctx;
    return (int)save(2, fresh_limit, NULL);
}

/* Makes `old` and `fresh`: what lies there before the save and after it. Limit 0: nothing. */
static void make_models(uint64_t old_limit, uint64_t new_limit)
{
    const snapshot empty = { 0 };
    snapshot_free(&old);
    snapshot_free(&fresh);
    snapshot_restore(&empty);
    fresh_limit = new_limit;
    assert_int_equal(save(2, new_limit, NULL), COFFER_OK);
    fresh = snapshot_take();
    snapshot_restore(&empty);
    if (old_limit != 0) {
        assert_int_equal(save(1, old_limit, NULL), COFFER_OK);
    }
    old = snapshot_take();
}

static bool there_is(const char *name)
{
    return access(work_path(name), F_OK) == 0;
}

/* What a loader finds, which looks for a single file, then for an index. */
static void assert_no_mixture(void)
{
    const char *found = there_is("model.safetensors") ? "model.safetensors" : there_is(INDEX) ? INDEX : NULL;
    if (found != NULL) {
        assert_true((snapshot_has(&old, found) && snapshot_is_there(&old)) ||
                    (snapshot_has(&fresh, found) && snapshot_is_there(&fresh)));
    } else {
        assert_true(old.count == 0 || there_is(INDEX ".coffer-ready"));
    }
}

static coffer_status recover(void)
{
    return coffer_recover(work_path("model.safetensors"), NULL, NULL);
}

/* Exactly the files of the one or of the other. */
static void assert_recovers(void)
{
    const bool was_decided = there_is(INDEX ".coffer-ready");
    const bool interrupted = was_decided || there_is(INDEX ".coffer-new") || there_is(INDEX ".coffer-old");
    if (interrupted) {
        assert_int_equal(recover(), COFFER_OK);
    }
    assert_true(!was_decided || snapshot_is_there(&fresh));
    assert_true(snapshot_is_there(&old) || snapshot_is_there(&fresh));
    assert_int_equal(work_dir_count(), snapshot_is_there(&fresh) ? fresh.count : old.count);
}

/* ---- kills ----------------------------------------------------------------------------------------------------------- */

static bool is_leftover(const char *name)
{
    const size_t length = strlen(name);
    return name[0] == '.' && length > 16 && memcmp(name + length - 16, ".coffer-", 8) == 0;
}

/* A file that is not complete has no name, or one that docs/editing.md tells about. */
static void remove_leftovers(void)
{
    snapshot now = snapshot_take();
    for (size_t i = 0; i < now.count; i++) {
        if (is_leftover(now.files[i].name)) {
            assert_int_equal(faults.always[FAULT_UNNAMED], EOPNOTSUPP);
            assert_int_equal(unlink(work_path(now.files[i].name)), 0);
        }
    }
    snapshot_free(&now);
}

static void kill_at_every_call(void)
{
    bool killed = true;
    unsigned k = 0;
    while (killed) {
        k++;
        snapshot_restore(&old);
        const int result = child_run_killed(run_save, NULL, k, &killed);
        assert_int_equal(result, killed ? 256 + SIGKILL : 0);
        remove_leftovers();
        assert_no_mixture();
        assert_recovers();
    }
    assert_true(k > MIN_CALLS);
    assert_true(snapshot_is_there(&fresh));
}

static void check_kills(uint64_t old_limit, uint64_t new_limit)
{
    make_models(old_limit, new_limit);
    kill_at_every_call();
}

static void test_kill_into_nothing(void **state)
{
    (void)state;
    check_kills(0, TWO_FILES);
    save_sync = COFFER_SYNC_ALWAYS;
    faults.always[FAULT_UNNAMED] = EOPNOTSUPP;
    check_kills(0, TWO_FILES);
}

static void test_kill_over_shards(void **state)
{
    (void)state;
    check_kills(TWO_FILES, TWO_FILES);
    check_kills(TWO_FILES, ONE_FILE);
    faults.always[FAULT_UNNAMED] = EOPNOTSUPP;
    check_kills(TWO_FILES, FOUR_FILES);
}

static void test_kill_over_one_file(void **state)
{
    (void)state;
    check_kills(ONE_FILE, TWO_FILES);
    check_kills(ONE_FILE, ONE_FILE);
}

static int run_recover(void *ctx)
{
    (void)ctx;
    return (int)recover();
}

static void run_recover_and_check(void)
{
    bool killed = true;
    snapshot interrupted = snapshot_take();
    for (unsigned k = 1; killed; k++) {
        snapshot_restore(&interrupted);
        (void)child_run_killed(run_recover, NULL, k, &killed);
        assert_no_mixture();
        assert_recovers();
    }
    snapshot_free(&interrupted);
}

/* A recovery may be killed as well. The save stops for good where the first file was to get its name. */
static void test_kill_recovery(void **state)
{
    (void)state;
    make_models(TWO_FILES, TWO_FILES);
    static const char *const stops[] = { INDEX ".coffer-new", INDEX ".coffer-ready", INDEX ".coffer-old" };
    unsigned seen = 0;
    bool killed = true;
    for (unsigned k = 1; killed; k++) {
        snapshot_restore(&old);
        (void)child_run_killed(run_save, NULL, k, &killed);
        for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++) {
            if ((seen & 1u << i) == 0 && there_is(stops[i])) {
                seen |= 1u << i;
                run_recover_and_check();
                break;
            }
        }
    }
    assert_int_equal(seen, 7);
}

/* The list of the new files stays as long as one of them does: without it nothing would know their names. */
static void test_recovery_without_memory(void **state)
{
    (void)state;
    make_models(TWO_FILES, TWO_FILES);
    unsigned kept = 0;
    bool killed = true;
    for (unsigned k = 1; killed; k++) {
        snapshot_restore(&old);
        (void)child_run_killed(run_save, NULL, k, &killed);
        if (!there_is(INDEX ".coffer-new")) {
            continue;
        }
        memory_meter meter;
        const coffer_allocator allocator = metered_allocator(&meter);
        coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
        options.allocator = &allocator;
        meter.fail_at = 1;
        (void)coffer_recover(work_path("model.safetensors"), &options, NULL);
        snapshot left = snapshot_take();
        for (size_t i = 0; i < left.count; i++) {
            const bool is_new =
                strncmp(left.files[i].name, "model-", 6) == 0 && strstr(left.files[i].name, ".coffer-new") != NULL;
            assert_true(!is_new || there_is(INDEX ".coffer-new"));
            kept += is_new;
        }
        snapshot_free(&left);
        assert_recovers();
    }
    assert_true(kept > 0);
}

/* ---- failures -------------------------------------------------------------------------------------------------------- */

/* The k-th call fails, for every k. */
static void fail_at_every_call(bool spare_clean_up)
{
    unsigned calls = 0;
    for (unsigned k = 1;; k++) {
        coffer_error err;
        snapshot_restore(&old);
        faults_clear();
        faults.fail_at = k;
        faults.error = EIO;
        faults.spare_clean_up = spare_clean_up;
        const coffer_status status = save(2, fresh_limit, &err);
        calls = atomic_load(&faults.calls);
        faults_clear();
        assert_no_mixture();
        if (status == COFFER_OK) {
            assert_true(snapshot_is_there(&fresh));
        } else {
            assert_true(err.code == status && err.message[0] != '\0');
            assert_true(status == COFFER_ERR_UNFINISHED || old.count == 0 || snapshot_is_there(&old));
        }
        assert_recovers();
        if (calls < k) {
            break;
        }
    }
    assert_true(calls > MIN_FAULTS);
}

static void check_failures(uint64_t old_limit, uint64_t new_limit)
{
    make_models(old_limit, new_limit);
    fail_at_every_call(true);
    fail_at_every_call(false);
}

static void test_failures(void **state)
{
    (void)state;
    check_failures(0, TWO_FILES);
    check_failures(TWO_FILES, TWO_FILES);
    check_failures(FOUR_FILES, TWO_FILES);
    check_failures(TWO_FILES, ONE_FILE);
    check_failures(ONE_FILE, TWO_FILES);
}

/* ---- what else may lie there ----------------------------------------------------------------------------------------- */

static void put(const char *name, const char *text)
{
    file_write(name, text, strlen(text));
}

static void test_only_named_files_go(void **state)
{
    (void)state;
    make_models(FOUR_FILES, TWO_FILES);
    put("model-00003-of-00004.safetensors.txt", "notes");
    put("model-00009-of-00009.safetensors", "not in the index");
    assert_int_equal(save(2, TWO_FILES, NULL), COFFER_OK);
    assert_true(snapshot_is_there(&fresh));
    assert_int_equal(work_dir_count(), fresh.count + 2);
    assert_true(there_is("model-00009-of-00009.safetensors"));
}

/* An index may name anything; only what it could have meant as a file of tensors beside it is removed. */
static void test_old_index_of_a_stranger(void **state)
{
    (void)state;
    make_models(0, TWO_FILES);
    put("precious", "text");
    put("old.safetensors", "removed");
    put(INDEX, "{\"weight_map\": {\"a\": \"precious\", \"c\": \"old.safetensors\", "
               "\"d\": \"model-00001-of-00002.safetensors\", \"e\": \"model.safetensors\"}}");
    assert_int_equal(save(2, TWO_FILES, NULL), COFFER_OK);
    assert_true(snapshot_is_there(&fresh));
    assert_true(there_is("precious"));
    assert_int_equal(work_dir_count(), fresh.count + 1);
    /* One that names a file elsewhere is not believed at all. */
    put("old.safetensors", "stays");
    put(INDEX, "{\"weight_map\": {\"a\": \"../x.safetensors\", \"b\": \"old.safetensors\"}}");
    assert_int_equal(save(2, TWO_FILES, NULL), COFFER_OK);
    assert_int_equal(work_dir_count(), fresh.count + 2);
}

static void test_old_index_is_none(void **state)
{
    (void)state;
    make_models(0, TWO_FILES);
    put(INDEX, "<html>");
    assert_int_equal(save(2, TWO_FILES, NULL), COFFER_OK);
    assert_true(snapshot_is_there(&fresh));
    assert_int_equal(work_dir_count(), fresh.count);
}

static void test_shadow(void **state)
{
    (void)state;
    coffer_error err;
    make_models(ONE_FILE, TWO_FILES);
    assert_int_equal(model_save(TENSORS, 2, TWO_FILES, NULL, coffer_libc_allocator(), &err), COFFER_ERR_SHADOWED);
    assert_string_equal(err.path, work_path("model.safetensors"));
    assert_int_equal(err.offset, COFFER_NO_OFFSET);
    assert_true(snapshot_is_there(&old));
    assert_int_equal(work_dir_count(), old.count);
    /* One file in the place of another is no question. */
    assert_int_equal(model_save(TENSORS, 2, ONE_FILE, NULL, coffer_libc_allocator(), &err), COFFER_OK);
    assert_int_equal(work_dir_count(), 1);
}

/* Stops a save right behind its decision. */
static void interrupt(void)
{
    bool killed = true;
    for (unsigned k = 1; killed && !(there_is(INDEX ".coffer-ready") && there_is(INDEX ".coffer-old")); k++) {
        snapshot_restore(&old);
        (void)child_run_killed(run_save, NULL, k, &killed);
    }
    assert_true(killed);
}

/* Somebody saved a model with another program meanwhile: it stays. */
static void test_somebody_else_saved(void **state)
{
    (void)state;
    make_models(TWO_FILES, TWO_FILES);
    interrupt();
    put(INDEX, "{\"weight_map\": {\"a\": \"model-00001-of-00001.safetensors\"}}");
    put("model-00001-of-00001.safetensors", "theirs");
    assert_int_equal(recover(), COFFER_OK);
    assert_int_equal(work_dir_count(), 2);
    assert_true(there_is(INDEX) && there_is("model-00001-of-00001.safetensors"));
    assert_int_equal(recover(), COFFER_ERR_NOT_FOUND);
}

static bool decided(void)
{
    return there_is(INDEX ".coffer-ready");
}

static bool decided_and_nothing_done(void)
{
    return decided() && there_is(old.count == 1 ? "model.safetensors" : INDEX);
}

/* Stops a save at the first moment of that kind. */
static void interrupt_when(int (*run)(void *ctx), bool (*is_it)(void))
{
    bool killed = true;
    bool stopped = false;
    for (unsigned k = 1; killed && !stopped; k++) {
        snapshot_restore(&old);
        (void)child_run_killed(run, NULL, k, &killed);
        stopped = killed && is_it();
    }
    assert_true(stopped);
}

/* What force was asked for is finished without asking again, but only for the file that lay there then. */
static void test_recover_by_force(void **state)
{
    (void)state;
    coffer_error err;
    make_models(ONE_FILE, TWO_FILES);
    interrupt_when(run_save, decided_and_nothing_done);
    assert_int_equal(recover(), COFFER_OK);
    assert_true(snapshot_is_there(&fresh));
    assert_int_equal(work_dir_count(), fresh.count);
    interrupt_when(run_save, decided_and_nothing_done);
    assert_int_equal(unlink(work_path("model.safetensors")), 0);
    put("model.safetensors", "saved since, by somebody else");
    assert_int_equal(coffer_recover(work_path("model.safetensors"), NULL, &err), COFFER_ERR_SHADOWED);
    assert_non_null(strstr(err.message, "since"));
    snapshot now = snapshot_take();
    assert_true(snapshot_has(&now, "model.safetensors"));
    snapshot_free(&now);
    assert_int_equal(save(2, TWO_FILES, &err), COFFER_ERR_SHADOWED);
    assert_int_equal(unlink(work_path("model.safetensors")), 0);
    assert_int_equal(recover(), COFFER_OK);
    assert_true(snapshot_is_there(&fresh));
    assert_int_equal(work_dir_count(), fresh.count);
}

/* A model of one file that comes there while the new files are written is noticed before anything is decided. */
static void test_shadow_meanwhile(void **state)
{
    (void)state;
    coffer_error err;
    coffer_model_writer *writer = NULL;
    coffer_header *header = model_header(2, coffer_libc_allocator());
    coffer_model_writer_options options = COFFER_MODEL_WRITER_OPTIONS_INIT;
    options.max_shard_size = 1;
    assert_int_equal(coffer_model_writer_open(&writer, header, work_path("model.safetensors"), &options, NULL),
                     COFFER_OK);
    const uint8_t bytes[64] = { 0 };
    assert_int_equal(coffer_model_writer_write(writer, 0, 0, bytes, 40, NULL), COFFER_OK);
    assert_int_equal(coffer_model_writer_write(writer, 1, 0, bytes, 41, NULL), COFFER_OK);
    put("model.safetensors", "theirs");
    assert_int_equal(coffer_model_writer_finish(writer, &err), COFFER_ERR_SHADOWED);
    coffer_model_writer_free(writer);
    coffer_header_free(header);
    assert_int_equal(work_dir_count(), 1);
    assert_true(there_is("model.safetensors"));
}

static void allow_unlinking(void)
{
    faults.always[FAULT_UNLINK] = 0;
}

/* A save beside an old index that could not be tidied up: what it names could not be removed. */
static int run_save_beside_old(void *ctx)
{
    put(INDEX ".coffer-old", "{\"weight_map\": {\"t0\": \"older.safetensors\"}}");
    put("older.safetensors", "of the model before");
    faults.always[FAULT_UNLINK] = EPERM;
    faults.before[FAULT_RESERVE] = allow_unlinking;
    return run_save(ctx);
}

/* It is no sign that somebody else has saved a model since. */
static void test_stale_old_index(void **state)
{
    (void)state;
    make_models(TWO_FILES, TWO_FILES);
    bool killed = true;
    unsigned seen = 0;
    for (unsigned k = 1; killed; k++) {
        snapshot_restore(&old);
        (void)child_run_killed(run_save_beside_old, NULL, k, &killed);
        const bool complete = decided();
        seen += complete;
        const coffer_status status = recover();
        assert_true(!complete || (status == COFFER_OK && snapshot_is_there(&fresh)));
        assert_true(snapshot_is_there(&old) || snapshot_is_there(&fresh));
    }
    assert_true(seen > 3);
    assert_true(snapshot_is_there(&fresh));
}

/* ---- strangers ------------------------------------------------------------------------------------------------------- */

static ino_t inode_of(const char *name)
{
    struct stat found;
    assert_int_equal(lstat(work_path(name), &found), 0);
    return found.st_ino;
}

static void assert_not_believed(const char *name)
{
    coffer_error err;
    snapshot before = snapshot_take();
    assert_int_equal(coffer_recover(work_path("model.safetensors"), NULL, &err), COFFER_ERR_UNFINISHED);
    assert_string_equal(err.path, work_path(name));
    assert_int_equal(save(2, TWO_FILES, &err), COFFER_ERR_UNFINISHED);
    assert_string_equal(err.path, work_path(name));
    faults_clear();
    assert_true(snapshot_is_there(&before));
    assert_int_equal(work_dir_count(), before.count);
    snapshot_free(&before);
}

/* Names of a save that somebody made up, to have files removed or replaced. */
static void test_planted_names(void **state)
{
    (void)state;
    static const char *const names[] = { INDEX ".coffer-new", INDEX ".coffer-ready", INDEX ".coffer-old",
                                         INDEX ".coffer-force" };
    static const char text[] = "{\"weight_map\": {\"a\": \"model-00001-of-00004.safetensors\", \"b\": "
                               "\"precious.safetensors\"}}";
    make_models(FOUR_FILES, TWO_FILES);
    put("precious.safetensors", "mine");
    assert_int_equal(chmod(work_path("."), 01777), 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        put(names[i], text);
        if (i < 3) {
            faults.stranger = inode_of(names[i]);
            assert_not_believed(names[i]);
            assert_int_equal(chmod(work_path(names[i]), 0666), 0);
            assert_not_believed(names[i]);
        }
        assert_int_equal(unlink(work_path(names[i])), 0);
    }
    assert_int_equal(symlink("precious.safetensors", work_path(names[2])), 0);
    assert_not_believed(names[2]);
    assert_int_equal(unlink(work_path(names[2])), 0);
    /* In a folder that is not sticky anybody who could make the name could have done as much without it. */
    assert_int_equal(chmod(work_path("."), 0777), 0);
    put(names[2], text);
    faults.stranger = inode_of(names[2]);
    assert_int_equal(recover(), COFFER_OK);
    assert_false(there_is("precious.safetensors"));
}

/* The index that was moved aside is that of whoever saved the old model. */
static void test_old_index_of_somebody_else(void **state)
{
    (void)state;
    make_models(TWO_FILES, TWO_FILES);
    interrupt();
    faults.stranger = inode_of(INDEX ".coffer-old");
    assert_int_equal(recover(), COFFER_OK);
    assert_true(snapshot_is_there(&fresh));
    assert_int_equal(work_dir_count(), fresh.count);
}

/* ---- readers meanwhile ----------------------------------------------------------------------------------------------- */

static atomic_uint opened;
static unsigned save_before;

/* Saves before the file of that number is opened, in whichever thread that is; the others go on. */
static void count_and_save(void)
{
    if (atomic_fetch_add(&opened, 1) + 1 == save_before) {
        assert_int_equal(save(2, fresh_limit, NULL), COFFER_OK);
    }
}

/* By which seed all tensors of the model were made. */
static unsigned seed_of(const coffer *model)
{
    unsigned seed = 0;
    assert_int_equal(coffer_count(model), TENSORS);
    for (size_t i = 0; i < TENSORS; i++) {
        char name[32];
        uint8_t bytes[64];
        (void)snprintf(name, sizeof name, "t%zu", i);
        const coffer_tensor *tensor = tensor_named(model, name);
        assert_non_null(tensor);
        assert_int_equal(coffer_read(model, tensor, bytes, tensor->size, NULL, NULL), COFFER_OK);
        assert_true(i == 0 || bytes[0] == seed);
        seed = bytes[0];
    }
    return seed;
}

static void check_open_meanwhile(const char *name, fault kind)
{
    bool saved = true;
    for (save_before = 1; saved; save_before++) {
        snapshot_restore(&old);
        atomic_store(&opened, 0);
        faults.before[kind] = count_and_save;
        coffer *model = NULL;
        coffer_error err;
        const coffer_status status = coffer_open(&model, work_path(name), NULL, &err);
        faults.before[kind] = NULL;
        saved = atomic_load(&opened) >= save_before;
        /* An index that is gone for good is not found. */
        if (status != COFFER_ERR_NOT_FOUND || fresh.count > 1) {
            assert_int_equal(status, COFFER_OK);
            const unsigned seed = seed_of(model);
            assert_true(seed == 2 || (seed == 1 && (!saved || snapshot_is_there(&fresh))));
        }
        coffer_close(model);
    }
    assert_true(save_before > 4);
}

/* Whoever opens the model while another one takes its place gets the one or the other. */
static void test_open_meanwhile(void **state)
{
    (void)state;
    static const uint64_t limits[][2] = {
        { TWO_FILES, TWO_FILES }, { FOUR_FILES, TWO_FILES }, { TWO_FILES, FOUR_FILES }, { TWO_FILES, ONE_FILE }
    };
    save_sync = COFFER_SYNC_NEVER;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        make_models(limits[i][0], limits[i][1]);
        check_open_meanwhile(INDEX, FAULT_OPEN);
        check_open_meanwhile(INDEX, FAULT_INSPECT);
        check_open_meanwhile(".", FAULT_OPEN);
        check_open_meanwhile(".", FAULT_INSPECT);
    }
}

/* The same without an index to tell. */
static void test_open_set_meanwhile(void **state)
{
    (void)state;
    save_sync = COFFER_SYNC_NEVER;
    make_models(TWO_FILES, TWO_FILES);
    snapshot_restore(&old);
    assert_int_equal(unlink(work_path(INDEX)), 0);
    snapshot_free(&old);
    old = snapshot_take();
    check_open_meanwhile(".", FAULT_OPEN);
    check_open_meanwhile(".", FAULT_INSPECT);
}

static void save_again(void)
{
    static uint8_t seed;
    static atomic_flag busy = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&busy)) {
        assert_int_equal(save(seed++, TWO_FILES, NULL), COFFER_OK);
        atomic_flag_clear(&busy);
    }
}

static void test_open_while_everybody_saves(void **state)
{
    (void)state;
    coffer_error err;
    coffer *model = NULL;
    save_sync = COFFER_SYNC_NEVER;
    make_models(0, TWO_FILES);
    snapshot_restore(&fresh);
    faults.before[FAULT_READ] = save_again;
    char path[256]; /* what work_path returns does not last over so many saves */
    (void)snprintf(path, sizeof path, "%s", work_path(INDEX));
    assert_int_equal(coffer_open(&model, path, NULL, &err), COFFER_ERR_CHANGED);
    assert_null(model);
    assert_string_equal(err.path, path);
}

/* Between two models there is none, by whichever name somebody asks for it. */
static void test_open_between(void **state)
{
    (void)state;
    static const char *const names[] = { ".", INDEX, "model.safetensors" };
    static const uint64_t limits[][2] = { { TWO_FILES, TWO_FILES }, { TWO_FILES, FOUR_FILES }, { 0, TWO_FILES } };
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        bool killed = true;
        unsigned seen = 0;
        make_models(limits[i][0], limits[i][1]);
        for (unsigned k = 1; killed; k++) {
            snapshot_restore(&old);
            (void)child_run_killed(run_save, NULL, k, &killed);
            const bool between = decided() && !there_is(INDEX);
            seen += between;
            for (size_t n = 0; between && n < 3; n++) {
                coffer_error err;
                coffer *model = NULL;
                assert_int_equal(coffer_open(&model, work_path(names[n]), NULL, &err), COFFER_ERR_UNFINISHED);
                assert_non_null(strstr(err.message, "coffer meta --recover"));
                assert_non_null(strstr(err.message, "model.safetensors"));
            }
        }
        assert_true(seen > 3);
    }
}

/* The files of the unfinished save are gone: nothing can be finished, and that is said. */
static void test_lost_file(void **state)
{
    (void)state;
    coffer_error err;
    make_models(0, TWO_FILES);
    interrupt();
    assert_int_equal(unlink(work_path("model-00002-of-00002.safetensors.coffer-new")), 0);
    assert_int_equal(coffer_recover(work_path("model.safetensors"), NULL, &err), COFFER_ERR_NOT_FOUND);
    assert_string_equal(err.path, work_path("model-00002-of-00002.safetensors"));
    assert_int_equal(err.os_error, ENOENT);
    assert_false(there_is(INDEX));
}

/* The same over an old model: it comes back, whole, and nothing is left of the save. */
static void test_lost_file_gives_the_old_model_back(void **state)
{
    (void)state;
    static const uint64_t limits[][2] = { { FOUR_FILES, TWO_FILES }, { ONE_FILE, TWO_FILES } };
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        make_models(limits[i][0], limits[i][1]);
        interrupt();
        assert_int_equal(unlink(work_path("model-00002-of-00002.safetensors.coffer-new")), 0);
        assert_int_equal(recover(), COFFER_OK);
        assert_true(snapshot_is_there(&old));
        assert_int_equal(work_dir_count(), old.count);
    }
}

/* A file of the new model has its name already, and may have replaced one of the old: neither can be made whole. */
static void test_lost_file_after_one_was_placed(void **state)
{
    (void)state;
    coffer_error err;
    make_models(TWO_FILES, TWO_FILES);
    interrupt();
    const char *first = "model-00001-of-00002.safetensors";
    char from[PATH_MAX];
    (void)snprintf(from, sizeof from, "%s", work_path("model-00001-of-00002.safetensors.coffer-new"));
    assert_int_equal(rename(from, work_path(first)), 0);
    assert_int_equal(unlink(work_path("model-00002-of-00002.safetensors.coffer-new")), 0);
    assert_int_equal(unlink(work_path("model-00002-of-00002.safetensors")), 0);
    assert_int_equal(coffer_recover(work_path("model.safetensors"), NULL, &err), COFFER_ERR_NOT_FOUND);
    assert_true(there_is(INDEX ".coffer-ready") && there_is(INDEX ".coffer-old"));
}

static bool judged(const char *name)
{
    char path[PATH_MAX];
    coffer_error err;
    (void)snprintf(path, sizeof path, "%s", work_path(name));
    const coffer_status status = coffer__commit_judge(work_path("model.safetensors"), path, &err);
    assert_true(status == COFFER_OK || status == COFFER_ERR_SHARD_NAME);
    return status == COFFER_OK;
}

static void test_names_are_judged(void **state)
{
    (void)state;
    static const char *const fine[] = { "part1.st", "weights", "model.safetensors", "config.json", "a b", "x.bt" };
    static const char *const refused[] = { INDEX, "a.coffer-new", ".coffer-", "a:b", "%2e%2e", "a\\b" };
    char name[COFFER__PATH_MAX_NAME + 1];
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
        assert_true(judged(fine[i]));
        assert_false(judged(refused[i]));
    }
    memset(name, 'n', COFFER__PATH_MAX_NAME);
    name[COFFER__PATH_MAX_NAME] = '\0';
    assert_false(judged(name));
    name[200] = '\0';
    assert_true(judged(name));
}

static void test_locked(void **state)
{
    (void)state;
    coffer_error err;
    coffer_model_writer *writer = NULL;
    coffer_header *header = model_header(TENSORS, coffer_libc_allocator());
    assert_int_equal(coffer_model_writer_open(&writer, header, work_path("other.safetensors"), NULL, NULL), COFFER_OK);
    assert_int_equal(save(1, TWO_FILES, &err), COFFER_ERR_LOCKED);
    assert_string_equal(err.path, work_path("model.safetensors"));
    coffer_model_writer_free(writer);
    assert_int_equal(work_dir_count(), 0);
    assert_int_equal(save(1, TWO_FILES, &err), COFFER_OK);
    coffer_header_free(header);
}

/* A file system may have no locks. */
static void test_without_locks(void **state)
{
    (void)state;
    make_models(TWO_FILES, TWO_FILES);
    faults.always[FAULT_LOCK] = ENOLCK;
    assert_int_equal(save(2, TWO_FILES, NULL), COFFER_OK);
    assert_true(snapshot_is_there(&fresh));
}

/* ---- rights ------------------------------------------------------------------------------------------------------------ */

static bool all_are_secret(void *ctx, const char *name)
{
    struct stat found;
    size_t *count = ctx;
    assert_int_equal(stat(work_path(name), &found), 0);
    assert_int_equal(found.st_mode & 07777, 0600);
    ++*count;
    return true;
}

static bool make_secret(void *ctx, const char *name)
{
    (void)ctx;
    assert_int_equal(chmod(work_path(name), 0600), 0);
    return true;
}

/* Nobody gets to see a model because it is saved again, as however many files. */
static void test_secret_model_stays_secret(void **state)
{
    (void)state;
    static const uint64_t limits[] = { ONE_FILE, TWO_FILES, FOUR_FILES, TWO_FILES, ONE_FILE, FOUR_FILES, FOUR_FILES };
    static const size_t counts[] = { 1, 3, 5, 3, 1, 5, 5 }; /* with the index */
    assert_int_equal(save(1, limits[0], NULL), COFFER_OK);
    for (size_t i = 1; i < sizeof limits / sizeof limits[0]; i++) {
        size_t count = 0;
        assert_int_equal(coffer__os_list(work_path("."), make_secret, NULL), 0);
        assert_int_equal(save((uint8_t)(i + 1), limits[i], NULL), COFFER_OK);
        assert_int_equal(coffer__os_list(work_path("."), all_are_secret, &count), 0);
        assert_int_equal(count, counts[i]);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_secret_model_stays_secret),
        TEST(test_kill_into_nothing),
        TEST(test_kill_over_shards),
        TEST(test_kill_over_one_file),
        TEST(test_kill_recovery),
        TEST(test_recovery_without_memory),
        TEST(test_failures),
        TEST(test_only_named_files_go),
        TEST(test_old_index_of_a_stranger),
        TEST(test_old_index_is_none),
        TEST(test_shadow),
        TEST(test_somebody_else_saved),
        TEST(test_lost_file),
        TEST(test_lost_file_gives_the_old_model_back),
        TEST(test_lost_file_after_one_was_placed),
        TEST(test_names_are_judged),
        TEST(test_locked),
        TEST(test_without_locks),
        TEST(test_recover_by_force),
        TEST(test_shadow_meanwhile),
        TEST(test_stale_old_index),
        TEST(test_planted_names),
        TEST(test_old_index_of_somebody_else),
        TEST(test_open_meanwhile),
        TEST(test_open_set_meanwhile),
        TEST(test_open_while_everybody_saves),
        TEST(test_open_between),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
