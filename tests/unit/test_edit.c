/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Editing metadata: the data of a model must come out of it untouched, and so must every byte of the header that is not the
 * metadata, whichever way the edit is done. Here are the splices of the text and the three ways. Other programs have the
 * rest: files that are not to be edited (test_edit_refused.c), others who save, edit or read at the same time
 * (test_edit_meanwhile.c), the undo file (test_edit_undo.c), failures of the system (test_edit_failures.c), and kills at any
 * moment (test_crash.c).
 */
#define _GNU_SOURCE

#include "support_cmocka.h"

#include "faulty_calls.h"

#include "coffer.h"
#include "edit_text.h"
#include "support_edit.h"
#include "support_memory.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- the text ---------------------------------------------------------------------------------------------------- */

typedef struct splice_row {
    const char *before;
    const char *edits[6]; /* key, value; "-" as a value removes */
    const char *after;    /* NULL: nothing is to be changed */
} splice_row;

#define T MEMBER
#define E "\"e\":{\"dtype\":\"F64\",\"shape\":[0],\"data_offsets\":[64,64]}"

static const splice_row splices[] = {
    { "{\"__metadata__\":{\"k\":\"v\"}," T "}", { "k", "w" }, "{\"__metadata__\":{\"k\":\"w\"}," T "}" },
    { "{" T "}", { "k", "v" }, "{\"__metadata__\":{\"format\":\"pt\",\"k\":\"v\"}," T "}" },
    { " {\n " T " } ", { "k", "v" }, " {\"__metadata__\":{\"format\":\"pt\",\"k\":\"v\"},\n " T " }" },
    { "{}", { "k", "v" }, "{\"__metadata__\":{\"format\":\"pt\",\"k\":\"v\"}}" },
    { "{ }", { "format", "np" }, "{\"__metadata__\":{\"format\":\"np\"} }" },
    { "{\"__metadata__\":{}}", { "k", "v" }, "{\"__metadata__\":{\"k\":\"v\"}}" },
    { "{\"__metadata__\":null," T "}", { "k", "v" }, "{\"__metadata__\":{\"format\":\"pt\",\"k\":\"v\"}," T "}" },
    { "{" T ",\"__metadata__\":{\"k\":\"v\"}}", { "k", "w" }, "{" T ",\"__metadata__\":{\"k\":\"w\"}}" },
    /* removed: first, with and without space; last; alone; in the middle */
    { "{\"__metadata__\":{\"k\":\"v\"}," T "}", { "k", "-" }, "{" T "}" },
    { "{\t\"__metadata__\" : { \"k\" : \"v\" } \n, " T "}", { "k", "-" }, "{\t " T "}" },
    { "{" T ",\"__metadata__\":{\"k\":\"v\"}}", { "k", "-" }, "{" T "}" },
    { "{" T " , \"__metadata__\":{\"k\":\"v\"} }", { "k", "-" }, "{" T "  }" },
    { "{\"__metadata__\":{\"k\":\"v\"}}", { "k", "-" }, "{}" },
    { "{ \"__metadata__\":{\"k\":\"v\"} }  ", { "k", "-" }, "{  }" },
    { "{" T ",\"__metadata__\":{\"k\":\"v\"}," E "}", { "k", "-" }, "{" T "," E "}" },
    { "{\"__metadata__\":{\"a\":\"1\",\"k\":\"v\"}," T "}", { "k", "-" }, "{\"__metadata__\":{\"a\":\"1\"}," T "}" },
    /* order, spelling, the last edit of a key */
    { "{\"__metadata__\":{\"z\":\"1\",\"B\":\"2\"}," T "}",
      { "a", "3" },
      "{\"__metadata__\":{\"B\":\"2\",\"a\":\"3\",\"z\":\"1\"}," T "}" },
    { "{\"\\u005f_metadata__\":{\"k\" :\"\\u0076\"} ," T "}",
      { "l", "w" },
      "{\"__metadata__\":{\"k\":\"v\",\"l\":\"w\"} ," T "}" },
    { "{" T "}",
      { "a\"\\\n\x01", "\xC3\xA4/" },
      "{\"__metadata__\":{\"a\\\"\\\\\\n\\u0001\":\"\xC3\xA4/\",\"format\":\"pt\"}," T "}" },
    { "{" T "}", { "", "" }, "{\"__metadata__\":{\"\":\"\",\"format\":\"pt\"}," T "}" },
    { "{" T "}",
      { "k", "1", "a", "2", "k", "3" },
      "{\"__metadata__\":{\"a\":\"2\",\"format\":\"pt\",\"k\":\"3\"}," T "}" },
    { "{" T "}", { "k", "1", "format", "-" }, "{\"__metadata__\":{\"k\":\"1\"}," T "}" },
    { "{\"__metadata__\":{\"k\":\"v\"}," T "}", { "k", "w", "k", "-" }, "{" T "}" },
    { "{\"__metadata__\":{\"k\":\"v\"}," T "}", { "k", "-", "k", "w" }, "{\"__metadata__\":{\"k\":\"w\"}," T "}" },
    /* nothing to do */
    { "{\"__metadata__\":{\"k\":\"v\"}," T "}", { "k", "v" }, NULL },
    { "{\"__metadata__\":{\"k\":\"v\"}," T "}", { "k", "w", "k", "v" }, NULL },
    { "{\"__metadata__\":{\"k\":\"v\"}," T "}", { "l", "-" }, NULL },
    { "{\"__metadata__\":{\"k\":\"v\"}," T "}", { NULL }, NULL },
    { "{\"__metadata__\":null," T "}", { "l", "-" }, NULL },
    { "{\"__metadata__\":{}," T "}", { "l", "-" }, NULL },
    { "{" T "}", { "l", "-" }, NULL },
};

static void check_splice(const splice_row *row)
{
    const uint64_t data_size = strstr(row->before, "64]") != NULL ? 64 : 0;
    file_bytes file = file_of(row->before, 0, 0);
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.file_size = file.size + data_size;
    memory_meter meter;
    const coffer_allocator metered = metered_allocator(&meter);
    coffer_table *table = NULL;
    assert_int_equal(coffer_parse(&table, NULL, file.at, file.size, &metered, &options, NULL), COFFER_OK);
    coffer_edit edits[3];
    size_t count = 0;
    for (; count < 3 && row->edits[2 * count] != NULL; count++) {
        const char *value = row->edits[2 * count + 1];
        edits[count] = edit_of(row->edits[2 * count], strcmp(value, "-") == 0 ? NULL : value);
    }
    coffer__edit_text text;
    assert_int_equal(coffer__edit_text_plan(&text, table, file.at, edits, count, NULL, NULL), COFFER_OK);
    assert_int_equal(text.same, row->after == NULL);
    if (row->after != NULL) {
        assert_int_equal(text.size, 8 + strlen(row->after));
        uint8_t *out = malloc((size_t)text.size + 1);
        assert_non_null(out);
        coffer__edit_text_write(&text, out, (size_t)text.size);
        out[text.size] = '\0';
        assert_string_equal((const char *)out + 8, row->after);
        free(out);
    }
    coffer__edit_text_free(&text);
    coffer_table_free(table);
    assert_int_equal(meter.held, 0);
    free(file.at);
}

static void test_splices(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof splices / sizeof splices[0]; i++) {
        check_splice(&splices[i]);
    }
}

static void test_many_keys(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    static char keys[COUNT][16];
    static coffer_edit edits[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "key %zu", i * 7919 % COUNT);
        edits[i] = edit_of(keys[i], keys[i]);
    }
    file_bytes file = make_model("{", 0);
    assert_int_equal(coffer_edit_metadata(work_path("model"), edits, COUNT, NULL, NULL, NULL), COFFER_OK);
    coffer *model = NULL;
    assert_int_equal(coffer_open(&model, work_path("model"), NULL, NULL), COFFER_OK);
    const coffer_table *table = coffer_shard_table(model, 0);
    assert_int_equal(coffer_table_metadata_count(table), COUNT + 1); /* and the format */
    for (size_t i = 0; i < COUNT; i++) {
        assert_string_equal(coffer_table_metadata_get(table, keys[i], strlen(keys[i]), NULL), keys[i]);
    }
    coffer_close(model);
    free(file.at);
}

/* A key may be empty, and one of no bytes may be NULL, as where a header is declared. */
static void test_empty_key(void **state)
{
    (void)state;
    file_bytes file = make_model(ONE_KEY, 100);
    for (size_t i = 0; i < 2; i++) {
        coffer *model = NULL;
        coffer_edit_way way = COFFER_EDITED_NOTHING;
        const char *key = i == 0 ? "" : NULL;
        const coffer_edit set[] = { { key, 0, "no name", 7 }, { "b", 1, "w", 1 }, { key, 0, "last", 4 } };
        const coffer_edit gone[] = { { key, 0, NULL, 0 }, { "b", 1, NULL, 0 } };
        assert_int_equal(coffer_edit_metadata(work_path("model"), set, 3, NULL, &way, NULL), COFFER_OK);
        assert_int_not_equal(way, COFFER_EDITED_NOTHING);
        assert_int_equal(coffer_open(&model, work_path("model"), NULL, NULL), COFFER_OK);
        const coffer_table *table = coffer_shard_table(model, 0);
        assert_int_equal(coffer_table_metadata_count(table), 3);
        assert_string_equal(coffer_table_metadata_get(table, key, 0, NULL), "last");
        coffer_close(model);
        assert_int_equal(coffer_edit_metadata(work_path("model"), set, 3, NULL, &way, NULL), COFFER_OK);
        assert_int_equal(way, COFFER_EDITED_NOTHING);
        assert_int_equal(coffer_edit_metadata(work_path("model"), gone, 2, NULL, NULL, NULL), COFFER_OK);
        assert_file_has("model", file);
    }
    free(file.at);
}

static void test_bad_edits(void **state)
{
    (void)state;
    file_bytes file = make_model(ONE_KEY, 100);
    const struct {
        coffer_edit edit;
        coffer_status code;
        const char *word;
    } bad[] = {
        { { "a\xFF", 2, "v", 1 }, COFFER_ERR_UTF8, "key of edit 1 is not UTF-8 from its byte 1" },
        { { "a", 1, "vw\xC3", 3 }, COFFER_ERR_UTF8, "value of edit 1 is not UTF-8 from its byte 2" },
        { { NULL, 1, "v", 1 }, COFFER_ERR_ARGUMENT, "key of edit 1" },
        { { "a", SIZE_MAX, "v", 1 }, COFFER_ERR_HEADER_TOO_LARGE, "key of edit 1" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const coffer_edit edits[2] = { edit_of("fine", "too"), bad[i].edit };
        coffer_error err;
        assert_int_equal(coffer_edit_metadata(work_path("model"), edits, 2, NULL, NULL, &err), bad[i].code);
        assert_int_equal(err.code, bad[i].code);
        assert_non_null(strstr(err.message, bad[i].word));
    }
    coffer_error err;
    assert_int_equal(coffer_edit_metadata(work_path("model"), NULL, 1, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_edit_metadata(NULL, NULL, 0, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_recover(NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    options.mode = (coffer_edit_mode)3;
    assert_int_equal(edit_with("model", "k", "w", &options, NULL, &err), COFFER_ERR_ARGUMENT);
    options = options_of(COFFER_EDIT_AUTO);
    options.sync = (coffer_sync)3;
    assert_int_equal(edit_with("model", "k", "w", &options, NULL, &err), COFFER_ERR_ARGUMENT);
    options.struct_size = 0;
    assert_int_equal(edit_with("model", "k", "w", &options, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_file_has("model", file);
    assert_int_equal(work_dir_count(), 1);
    free(file.at);
}

/* ---- the three ways ---------------------------------------------------------------------------------------------- */

static void test_nothing_to_do(void **state)
{
    (void)state;
    file_bytes file = make_model(ONE_KEY, 0);
    const struct stat before = look("model");
    for (int mode = COFFER_EDIT_AUTO; mode <= COFFER_EDIT_IN_PLACE; mode++) {
        const coffer_edit_options options = options_of((coffer_edit_mode)mode);
        coffer_edit_way way = COFFER_EDITED_REWRITE;
        assert_int_equal(edit_with("model", "k", "v", &options, &way, NULL), COFFER_OK);
        assert_int_equal(way, COFFER_EDITED_NOTHING);
        assert_int_equal(coffer_edit_metadata(work_path("model"), NULL, 0, &options, &way, NULL), COFFER_OK);
        assert_int_equal(way, COFFER_EDITED_NOTHING);
    }
    const struct stat after = look("model");
    assert_int_equal(after.st_ino, before.st_ino);
    assert_int_equal(after.st_mtim.tv_sec, before.st_mtim.tv_sec);
    assert_int_equal(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
    assert_file_has("model", file);
    free(file.at);
}

static void check_within_header(const char *key, const char *value, size_t slack, const char *after)
{
    file_bytes old = make_model(ONE_KEY, slack);
    file_bytes fresh = edited(after, old);
    assert_int_equal(chmod(work_path("model"), 0604), 0);
    const struct stat before = look("model");
    const size_t descriptors = open_descriptors();
    coffer_edit_way way = COFFER_EDITED_NOTHING;
    assert_int_equal(edit_with("model", key, value, NULL, &way, NULL), COFFER_OK);
    assert_file_has("model", fresh);
    assert_true(way == COFFER_EDITED_IN_PLACE || (way == COFFER_EDITED_CLONE && faults.always[FAULT_CLONE] == 0));
    assert_true((look("model").st_ino == before.st_ino) == (way == COFFER_EDITED_IN_PLACE));
    assert_int_equal(look("model").st_mode, before.st_mode);
    assert_int_equal(work_dir_count(), 1);
    assert_int_equal(open_descriptors(), descriptors);
    free(old.at);
    free(fresh.at);
}

static void test_within_header(void **state)
{
    (void)state;
    for (int no_clone = 0; no_clone < 2; no_clone++) {
        faults.always[FAULT_CLONE] = no_clone ? EOPNOTSUPP : 0;
        check_within_header("k", "other", 100, "{\"__metadata__\":{\"k\":\"other\"},");
        check_within_header("k", "w", 0, "{\"__metadata__\":{\"k\":\"w\"},");
        check_within_header("l", "1234", 11, "{\"__metadata__\":{\"k\":\"v\",\"l\":\"1234\"},");
        check_within_header("k", NULL, 0, "{");
    }
    faults.always[FAULT_UNNAMED] = EOPNOTSUPP;
    check_within_header("k", "other", 100, "{\"__metadata__\":{\"k\":\"other\"},");
}

/* A rewrite that was asked for happens even when no key changes: it makes space. */
static void test_rewrite_for_capacity(void **state)
{
    (void)state;
    file_bytes file = make_model(ONE_KEY, 0);
    const coffer_edit_options options = options_of(COFFER_EDIT_REWRITE);
    coffer_edit_way way = COFFER_EDITED_NOTHING;
    const coffer_edit same = { "k", 1, "v", 1 };
    for (size_t count = 0; count < 2; count++) {
        assert_int_equal(coffer_edit_metadata(work_path("model"), &same, count, &options, &way, NULL), COFFER_OK);
        assert_int_equal(way, COFFER_EDITED_REWRITE);
        coffer *model = NULL;
        assert_int_equal(coffer_open(&model, work_path("model"), NULL, NULL), COFFER_OK);
        const coffer_table *table = coffer_shard_table(model, 0);
        assert_true(coffer_table_slack(table) >= 4096);
        assert_string_equal(coffer_table_metadata_get(table, "k", 1, NULL), "v");
        coffer_close(model);
        file_write("model", file.at, file.size);
    }
    free(file.at);
}

static void test_no_slack(void **state)
{
    (void)state;
    file_bytes file = make_model(ONE_KEY, 10);
    const coffer_edit_options options = options_of(COFFER_EDIT_IN_PLACE);
    coffer_error err;
    assert_int_equal(edit_with("model", "l", "1234", &options, NULL, &err), COFFER_ERR_NO_SLACK);
    assert_int_equal(err.actual, file.size - 8 - DATA_SIZE);
    assert_int_equal(err.expected, err.actual + 1);
    assert_file_has("model", file);
    coffer_edit_way way = COFFER_EDITED_NOTHING;
    assert_int_equal(edit_with("model", "l", "1234", NULL, &way, &err), COFFER_OK);
    assert_int_equal(way, COFFER_EDITED_REWRITE);
    free(file.at);
}

/* Rewrites a file whose data begins at a multiple of `aligned` and not of twice that. */
static void check_rewrite(size_t data_offset, size_t alignment, uint64_t slack, const coffer_edit_options *given)
{
    const size_t text_len = strlen(text_of(ONE_KEY, MEMBER, "}"));
    file_bytes old = make_model(ONE_KEY, data_offset - 8 - text_len);
    assert_int_equal(chmod(work_path("model"), 0604), 0);
    coffer_edit_options options = *given;
    options.mode = COFFER_EDIT_REWRITE;
    options.slack = slack;
    coffer_edit_way way = COFFER_EDITED_NOTHING;
    assert_int_equal(edit_with("model", "k", "other", &options, &way, NULL), COFFER_OK);
    assert_int_equal(way, COFFER_EDITED_REWRITE);
    const char *text = text_of("{\"__metadata__\":{\"k\":\"other\"},", MEMBER, "}");
    const size_t least = 8 + strlen(text) + (size_t)(slack != 0 ? slack : 4096);
    const size_t offset = (least + alignment - 1) / alignment * alignment;
    file_bytes fresh = file_of(text, offset - 8 - strlen(text), DATA_SIZE);
    assert_file_has("model", fresh);
    assert_int_equal(look("model").st_mode & 07777, 0604);
    assert_int_equal(work_dir_count(), 1);
    free(old.at);
    free(fresh.at);
}

static void test_rewrite(void **state)
{
    (void)state;
    const coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    check_rewrite(104, 8, 0, &options);
    check_rewrite(101, 8, 1, &options);
    check_rewrite(108, 8, 10000, &options);
    check_rewrite(192, 64, 0, &options);
    check_rewrite(4096, 4096, 5, &options);
    check_rewrite(3 * 4096 * 4, 4096, 0, &options);
    faults.always[FAULT_COPY] = EXDEV;
    check_rewrite(192, 64, 0, &options);
    faults.always[FAULT_UNNAMED] = EOPNOTSUPP;
    check_rewrite(104, 8, 0, &options);
}

typedef struct watcher {
    uint64_t calls;
    uint64_t done;
    uint64_t total;
    uint64_t cancel_at; /* the call that cancels; 0: none */
} watcher;

static int watch(void *ctx, uint64_t done, uint64_t total)
{
    watcher *seen = ctx;
    assert_true((seen->calls == 0 ? done == 0 : done > seen->done) &&
                done <= total); /* what is to be done is told before */
    assert_true(seen->calls == 0 || total == seen->total);
    seen->calls++;
    seen->done = done;
    seen->total = total;
    return seen->calls == seen->cancel_at;
}

/* Large enough to be moved in several pieces. */
#define LARGE ((size_t)20 << 20)

static file_bytes make_large_model(void)
{
    char text[200];
    (void)snprintf(text, sizeof text, "{\"t\":{\"dtype\":\"U8\",\"shape\":[%zu],\"data_offsets\":[0,%zu]}}", LARGE,
                   LARGE);
    file_bytes file = file_of(text, 0, LARGE);
    file_write("model", file.at, file.size);
    return file;
}

static void check_large(file_bytes old, uint64_t cancel_at)
{
    watcher seen = { .cancel_at = cancel_at };
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    options.progress = watch;
    options.progress_ctx = &seen;
    coffer_error err;
    const coffer_status status = edit_with("model", "k", "v", &options, NULL, &err);
    assert_int_equal(work_dir_count(), 1);
    if (cancel_at != 0) {
        assert_int_equal(status, COFFER_ERR_CANCELLED);
        assert_int_equal(seen.calls, cancel_at);
        assert_file_has("model", old);
        return;
    }
    assert_int_equal(status, COFFER_OK);
    assert_true(seen.calls >= 2);
    assert_int_equal(seen.done, seen.total);
    size_t size = 0;
    uint8_t *found = file_read("model", &size);
    assert_int_equal(size, seen.total);
    assert_memory_equal(found + size - LARGE, old.at + old.size - LARGE, LARGE);
    free(found);
}

static void test_progress(void **state)
{
    (void)state;
    file_bytes old = make_large_model();
    check_large(old, 1);
    check_large(old, 2);
    check_large(old, 3);
    check_large(old, 0);
    file_write("model", old.at, old.size);
    faults.always[FAULT_COPY] = EXDEV;
    check_large(old, 2);
    faults.most = 100000;
    check_large(old, 0);
    free(old.at);
}

static void shrink_model(void)
{
    assert_int_equal(truncate(work_path("model"), 1000), 0);
}

static void check_shrinking(fault when)
{
    file_bytes old = make_large_model();
    coffer_error err;
    faults.before[when] = shrink_model;
    assert_int_equal(edit_with("model", "k", "v", NULL, NULL, &err), COFFER_ERR_CHANGED);
    faults_clear();
    /* Several threads read, and whichever is the first that finds nothing: the file ends at 1000. */
    assert_int_equal(err.offset, 1000);
    assert_int_equal(err.expected, old.size);
    assert_int_equal(err.actual, 1000);
    assert_int_equal(work_dir_count(), 1);
    free(old.at);
}

static void test_file_shrinks(void **state)
{
    (void)state;
    check_shrinking(FAULT_READ);
    check_shrinking(FAULT_COPY);
}

static void test_limit_of_header(void **state)
{
    (void)state;
    file_bytes file = make_model(ONE_KEY, 0);
    coffer_edit_options options = options_of(COFFER_EDIT_REWRITE);
    options.max_header_size = 200;
    assert_edit_fails("model", &options, COFFER_ERR_HEADER_TOO_LARGE, 0);
    options.max_header_size = 0;
    options.slack = (uint64_t)1 << 40;
    assert_edit_fails("model", &options, COFFER_ERR_HEADER_TOO_LARGE, 0);
    options.slack = UINT64_MAX - 10;
    assert_edit_fails("model", &options, COFFER_ERR_HEADER_TOO_LARGE, 0);
    /* The header that is there is within the limit: the new one is at fault, and is not written. */
    coffer_error err;
    options.max_header_size = 1000;
    options.slack = 5000;
    assert_int_equal(edit_with("model", "k", "new", &options, NULL, &err), COFFER_ERR_HEADER_TOO_LARGE);
    assert_int_equal(err.offset, COFFER_NO_OFFSET);
    assert_int_equal(err.expected, 1000);
    assert_true(err.actual > 5000);
    assert_non_null(strstr(err.message, "the new header would have"));
    assert_file_has("model", file);
    assert_int_equal(work_dir_count(), 1);
    free(file.at);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, faults_set_up, faults_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_splices),
        TEST(test_many_keys),
        TEST(test_empty_key),
        TEST(test_bad_edits),
        TEST(test_nothing_to_do),
        TEST(test_within_header),
        TEST(test_rewrite_for_capacity),
        TEST(test_no_slack),
        TEST(test_rewrite),
        TEST(test_progress),
        TEST(test_file_shrinks),
        TEST(test_limit_of_header),
    };
    faults.file_system = FAULTY_NFS; /* so that the system copies where it can */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
