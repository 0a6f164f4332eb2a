/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What others do during an edit, and what an edit does to others: a save in the middle of one is never lost, and a reader sees
 * the header of one moment, or is told.
 */
#define _GNU_SOURCE

#include "support_cmocka.h"

#include "faulty_calls.h"

#include "coffer.h"
#include "os.h"
#include "support_edit.h"

#include <stdio.h>
#include <stdlib.h>

/* How many calls have been made since the test set it to 0. */
static unsigned calls_seen;

/* ---- saves ------------------------------------------------------------------------------------------------------- */

static void replace_model(void)
{
    file_write("newer", "x", 1);
    assert_int_equal(rename(work_path("newer"), work_path("model")), 0);
}

/* The lock of a file that lies under that name no more protects nothing. */
static void test_replaced_before_the_lock(void **state)
{
    (void)state;
    file_bytes file = make_model(ONE_KEY, 100);
    faults.before[FAULT_LOCK] = replace_model;
    assert_edit_fails("model", NULL, COFFER_ERR_CHANGED, 0);
    faults_clear();
    assert_file_has("model", (file_bytes){ (uint8_t[]){ 'x' }, 1 });
    free(file.at);
}

/* Before the call of that number, counted over all kinds, somebody saves another file there. */
static unsigned save_before;

static void count_and_save(void)
{
    if (++calls_seen == save_before) {
        replace_model();
    }
}

static void watch_every_call(void)
{
    calls_seen = 0;
    for (size_t kind = 0; kind < FAULT_COUNT; kind++) {
        faults.before[kind] = count_and_save;
    }
}

static bool can_exchange(void)
{
    file_write("one", "", 0);
    file_write("other", "", 0);
    const bool can = coffer__os_exchange(work_path("one"), work_path("other")) == 0;
    assert_int_equal(unlink(work_path("one")), 0);
    assert_int_equal(unlink(work_path("other")), 0);
    return can;
}

/* Whenever somebody saves, the saved file stays. */
static void check_saves(coffer_edit_mode mode, bool in_place)
{
    unsigned done = 0;
    unsigned lost = 0;
    file_bytes old = make_model(ONE_KEY, 200);
    coffer_status status = COFFER_ERR_IO;
    for (save_before = 1; calls_seen >= save_before - 1; save_before++) {
        const coffer_edit_options options = options_of(mode);
        file_write("model", old.at, old.size);
        faults.always[FAULT_CLONE] = in_place ? EOPNOTSUPP : 0;
        watch_every_call();
        coffer_error err;
        status = edit_with("model", "k", "new", &options, NULL, &err);
        faults_clear();
        if (calls_seen < save_before) {
            break;
        }
        assert_file_has("model", (file_bytes){ (uint8_t[]){ 'x' }, 1 });
        assert_int_equal(work_dir_count(), 1);
        done += status == COFFER_OK;
        lost += status == COFFER_ERR_CHANGED;
    }
    assert_int_equal(status, COFFER_OK);
    assert_true(lost > 3); /* and at most a few saves come when all is done */
    assert_true(done < lost);
    free(old.at);
}

static void test_saves_meanwhile(void **state)
{
    (void)state;
    check_saves(COFFER_EDIT_AUTO, false);
    check_saves(COFFER_EDIT_IN_PLACE, true);
    if (can_exchange()) {
        check_saves(COFFER_EDIT_REWRITE, true);
    }
}

/* A save that is noticed in time keeps an edit in place from laying an undo file beside a file that it is not of. */
static void test_save_before_the_undo_file(void **state)
{
    (void)state;
    coffer_error err;
    file_bytes old = make_model(ONE_KEY, 200);
    faults.always[FAULT_CLONE] = EOPNOTSUPP;
    faults.before[FAULT_CLONE] = replace_model;
    assert_int_equal(edit_with("model", "k", "new", NULL, NULL, &err), COFFER_ERR_CHANGED);
    assert_non_null(strstr(err.message, "nothing was edited"));
    assert_int_equal(work_dir_count(), 1);
    free(old.at);
}

/* Without exchanging, a save is noticed all the same while the new file is written. */
static void test_save_meanwhile_without_exchange(void **state)
{
    (void)state;
    file_bytes old = make_model(ONE_KEY, 200);
    coffer_edit_options options = options_of(COFFER_EDIT_REWRITE);
    faults.always[FAULT_EXCHANGE] = EINVAL;
    faults.before[FAULT_SYNC] = replace_model;
    coffer_error err;
    assert_int_equal(edit_with("model", "k", "new", &options, NULL, &err), COFFER_ERR_CHANGED);
    assert_string_equal(err.path, work_path("model"));
    faults_clear();
    assert_file_has("model", (file_bytes){ (uint8_t[]){ 'x' }, 1 });
    assert_int_equal(work_dir_count(), 1);
    file_write("model", old.at, old.size);
    faults.always[FAULT_EXCHANGE] = EINVAL;
    assert_int_equal(edit_with("model", "k", "new", &options, NULL, NULL), COFFER_OK);
    assert_int_equal(work_dir_count(), 1);
    free(old.at);
}

static int replace_while_hashing(void *ctx, uint64_t done, uint64_t total)
{
    const file_bytes *newer = ctx;
    if (done == total) {
        file_write("newer", newer->at, newer->size);
        assert_int_equal(rename(work_path("newer"), work_path("model")), 0);
    }
    return 0;
}

/* Digests of one file are never recorded in another. */
static void test_save_while_hashing(void **state)
{
    (void)state;
    file_bytes old = make_model(ONE_KEY, 2000);
    file_bytes newer = make_model(ONE_KEY, 2000);
    newer.at[newer.size - 1] ^= 0xFF;
    file_write("model", old.at, old.size);
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    options.progress = replace_while_hashing;
    options.progress_ctx = &newer;
    coffer_error err;
    assert_int_equal(coffer_record_digests(work_path("model"), COFFER_SHA256, &options, NULL, &err),
                     COFFER_ERR_CHANGED);
    assert_file_has("model", newer);
    free(newer.at);
    free(old.at);
}

/* ---- readers ----------------------------------------------------------------------------------------------------- */

static void begin_an_edit(void)
{
    faults.before[FAULT_READ] = NULL;
    file_write("model.coffer-undo", "x", 1);
}

static void begin_an_edit_and_break_the_header(void)
{
    begin_an_edit();
    const int fd = open(work_path("model"), O_WRONLY);
    assert_int_equal(pwrite(fd, "!", 1, 8), 1);
    assert_int_equal(close(fd), 0);
}

/* An edit that begins when the reader has looked for the undo file, and not read the header yet, is seen all the same. */
static void test_edit_begins_while_opening(void **state)
{
    (void)state;
    void (*const edits[])(void) = { begin_an_edit, begin_an_edit_and_break_the_header };
    for (size_t i = 0; i < 2; i++) {
        file_bytes file = make_model(ONE_KEY, 100);
        faults.before[FAULT_READ] = edits[i];
        coffer *model = NULL;
        coffer_error err;
        assert_int_equal(coffer_open(&model, work_path("model"), NULL, &err), COFFER_ERR_UNDO);
        assert_null(model);
        faults_clear();
        assert_int_equal(unlink(work_path("model.coffer-undo")), 0);
        free(file.at);
    }
}

#define LONG_VALUE 40000

static char first_value[8];
static char last_value[8];

/* A header with a key at either end, and a value of that length between them. */
static void make_model_of_length(size_t length)
{
    char *text = malloc(length + 1000);
    assert_non_null(text);
    char *middle = malloc(length + 1);
    assert_non_null(middle);
    memset(middle, 'm', length);
    middle[length] = '\0';
    (void)snprintf(text, length + 1000, "{\"__metadata__\":{\"a\":\"old\",\"m\":\"%s\",\"z\":\"old\"},%s}", middle,
                   MEMBER);
    file_bytes file = file_of(text, 100, DATA_SIZE);
    file_write("model", file.at, file.size);
    free(file.at);
    free(middle);
    free(text);
}

/* One that takes several reads. */
static void make_long_model(void)
{
    make_model_of_length(LONG_VALUE);
}

static unsigned edit_before;

/* Edits both keys, in place. */
static void count_and_edit(void)
{
    if (++calls_seen != edit_before) {
        return;
    }
    const coffer_edit edits[] = { edit_of("a", "new"), edit_of("z", "new") };
    faults.always[FAULT_CLONE] = EOPNOTSUPP;
    coffer_edit_way way = COFFER_EDITED_NOTHING;
    assert_int_equal(coffer_edit_metadata(work_path("model"), edits, 2, NULL, &way, NULL), COFFER_OK);
    assert_int_equal(way, COFFER_EDITED_IN_PLACE);
}

static void read_values(const coffer *model)
{
    size_t len = 0;
    const char *first = coffer_table_metadata_get(coffer_shard_table(model, 0), "a", 1, &len);
    assert_int_equal(len, 3);
    memcpy(first_value, first, 4);
    memcpy(last_value, coffer_table_metadata_get(coffer_shard_table(model, 0), "z", 1, &len), 4);
}

static void check_header_is_of_one_moment(bool coarse, bool by_path)
{
    for (edit_before = 1; edit_before < 8; edit_before++) {
        make_long_model();
        calls_seen = 0;
        faults.clock = coarse ? time(NULL) : 0;
        faults.before[FAULT_READ] = count_and_edit;
        coffer *model = NULL;
        coffer_error err;
        const int fd = by_path ? -1 : open(work_path("model"), O_RDONLY);
        const coffer_status status = by_path ? coffer_open(&model, work_path("model"), NULL, &err)
                                             : coffer_open_fd(&model, fd, 0, UINT64_MAX, NULL, &err);
        assert_int_equal(status, COFFER_OK);
        faults_clear();
        read_values(model);
        assert_string_equal(first_value, last_value);
        coffer_close(model);
        assert_true(by_path || close(fd) == 0);
    }
}

/* Whether the times of files tell of the edit, or are too coarse for that. */
static void test_edit_between_two_reads(void **state)
{
    (void)state;
    for (int by_path = 0; by_path < 2; by_path++) {
        check_header_is_of_one_moment(false, by_path != 0);
        check_header_is_of_one_moment(true, by_path != 0);
    }
}

/* An edit that is half done from the second read to the fifth. */
static void be_half_edited(void)
{
    calls_seen++;
    if (calls_seen == 2) {
        const int fd = open(work_path("model"), O_RDWR);
        file_write("model.coffer-undo", "x", 1);
        assert_int_equal(pwrite(fd, "{\"__metadata__\":{\"a\":\"new\"", 27, 8), 27);
        assert_int_equal(close(fd), 0);
    } else if (calls_seen == 5) {
        assert_int_equal(unlink(work_path("model.coffer-undo")), 0);
    }
}

/* To be read twice alike is no proof while an edit is in progress. */
static void test_half_edited_for_a_while(void **state)
{
    (void)state;
    make_long_model();
    calls_seen = 0;
    faults.before[FAULT_READ] = be_half_edited;
    coffer *model = NULL;
    coffer_error err;
    assert_int_equal(coffer_open(&model, work_path("model"), NULL, &err), COFFER_ERR_UNDO);
    assert_null(model);
    assert_string_equal(err.path, work_path("model"));
}

static void edit_always(void)
{
    static unsigned edits;
    static bool inside;
    if (inside) {
        return;
    }
    char value[4];
    (void)snprintf(value, sizeof value, "%03u", edits++ % 1000);
    const coffer_edit both[] = { edit_of("a", value), edit_of("z", value) };
    inside = true;
    assert_int_equal(coffer_edit_metadata(work_path("model"), both, 2, NULL, NULL, NULL), COFFER_OK);
    inside = false;
}

static void test_edit_between_all_reads(void **state)
{
    (void)state;
    make_long_model();
    faults.always[FAULT_CLONE] = EOPNOTSUPP;
    faults.before[FAULT_READ] = edit_always;
    coffer *model = NULL;
    coffer_error err;
    assert_int_equal(coffer_open(&model, work_path("model"), NULL, &err), COFFER_ERR_CHANGED);
    assert_null(model);
    assert_string_equal(err.path, work_path("model"));
}

/* Beside such a file an undo file tells nothing, be the header short: somebody may be editing with it. */
static void test_edit_beside_a_planted_undo(void **state)
{
    (void)state;
    for (edit_before = 1; edit_before < 12; edit_before++) {
        make_model_of_length(500);
        file_write("model.coffer-undo", "x", 1);
        assert_int_equal(chmod(work_path("model.coffer-undo"), 0666), 0);
        assert_int_equal(chmod(work_path("model"), 0644), 0);
        calls_seen = 0;
        faults.most = 100;
        faults.before[FAULT_READ] = count_and_edit;
        coffer *model = NULL;
        coffer_error err;
        assert_int_equal(coffer_open(&model, work_path("model"), NULL, &err), COFFER_OK);
        faults_clear();
        read_values(model);
        assert_string_equal(first_value, last_value);
        coffer_close(model);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, faults_set_up, faults_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_replaced_before_the_lock),  TEST(test_saves_meanwhile),
        TEST(test_save_before_the_undo_file), TEST(test_save_meanwhile_without_exchange),
        TEST(test_save_while_hashing),        TEST(test_edit_begins_while_opening),
        TEST(test_edit_between_two_reads),    TEST(test_edit_between_all_reads),
        TEST(test_half_edited_for_a_while),   TEST(test_edit_beside_a_planted_undo),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
