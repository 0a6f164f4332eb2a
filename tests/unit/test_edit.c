/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Editing metadata: the data of a model must come out of it untouched, and so must every byte of the header that is not the
 * metadata, whichever way the edit is done and whatever goes wrong on the way. Here are the splices, the three ways, links
 * and locks, the undo file with every byte of it damaged, and every system call failing in turn. (Kills at any moment are in
 * test_crash.c.)
 */
#define _GNU_SOURCE

#include "support_cmocka.h"

#include "faulty_calls.h"

#include "coffer.h"
#include "edit_text.h"
#include "os.h"
#include "support_child.h"
#include "support_file.h"
#include "support_memory.h"

#include <stdio.h>
#include <stdlib.h>

#define DATA_SIZE 64u

static const char member[] = "\"t\":{\"dtype\":\"U8\",\"shape\":[64],\"data_offsets\":[0,64]}";

static int set_up(void **state)
{
    (void)state;
    faults_clear();
    work_dir_make();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    faults_clear();
    work_dir_remove();
    return 0;
}

/* ---- helpers --------------------------------------------------------------------------------------------------------- */

typedef struct bytes {
    uint8_t *at;
    size_t size;
} bytes;

/* A file of that header, so many spaces, and so much data. */
static bytes file_of_bytes(const char *text, size_t text_len, size_t slack, size_t data_size)
{
    const size_t header_size = text_len + slack;
    bytes file = { NULL, 8 + header_size + data_size };
    file.at = malloc(file.size);
    assert_non_null(file.at);
    for (size_t i = 0; i < 8; i++) {
        file.at[i] = (uint8_t)((uint64_t)header_size >> (8 * i));
    }
    memcpy(file.at + 8, text, text_len);
    memset(file.at + 8 + text_len, ' ', slack);
    for (size_t i = 0; i < data_size; i++) {
        file.at[8 + header_size + i] = pattern_byte(i);
    }
    return file;
}

static bytes file_of(const char *text, size_t slack, size_t data_size)
{
    return file_of_bytes(text, strlen(text), slack, data_size);
}

/* Joins up to three pieces; valid until four more calls. */
static const char *text_of(const char *a, const char *b, const char *c)
{
    static char texts[4][1024];
    static size_t next;
    char *text = texts[next++ % 4];
    (void)snprintf(text, sizeof texts[0], "%s%s%s", a, b, c);
    return text;
}

/* Writes the file "model": one tensor, metadata as given (with a comma behind), and slack. */
static bytes make_model(const char *metadata, size_t slack)
{
    bytes file = file_of(text_of(metadata, member, "}"), slack, DATA_SIZE);
    file_write("model", file.at, file.size);
    return file;
}

#define ONE_KEY "{\"__metadata__\":{\"k\":\"v\"},"

static void assert_file(const char *name, bytes expected)
{
    size_t size = 0;
    uint8_t *found = file_read(name, &size);
    assert_int_equal(size, expected.size);
    assert_memory_equal(found, expected.at, size);
    free(found);
}

static bool file_is(const char *name, bytes expected)
{
    size_t size = 0;
    uint8_t *found = file_read(name, &size);
    const bool same = size == expected.size && memcmp(found, expected.at, size) == 0;
    free(found);
    return same;
}

static coffer_edit set_key(const char *key, const char *value)
{
    return (coffer_edit){ key, strlen(key), value, value != NULL ? strlen(value) : 0 };
}

static coffer_edit_options options_of(coffer_edit_mode mode)
{
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    options.mode = mode;
    return options;
}

static coffer_status edit_with(const char *name, const char *key, const char *value, const coffer_edit_options *options,
                               coffer_edit_way *way, coffer_error *err)
{
    const coffer_edit edit = set_key(key, value);
    return coffer_edit_metadata(work_path(name), &edit, 1, options, way, err);
}

static void assert_edit_fails(const char *name, const coffer_edit_options *options, coffer_status code, int os_error)
{
    coffer_error err;
    coffer_edit_way way = COFFER_EDITED_REWRITE;
    assert_int_equal(edit_with(name, "k", "new", options, &way, &err), code);
    assert_int_equal(err.code, code);
    assert_int_equal(err.os_error, os_error);
    assert_string_equal(err.path, work_path(name));
    assert_int_equal(way, COFFER_EDITED_REWRITE);
    assert_int_equal(edit_with(name, "k", "new", options, NULL, NULL), code);
}

static struct stat look(const char *name)
{
    struct stat found;
    assert_int_equal(lstat(work_path(name), &found), 0);
    return found;
}

/* ---- the text -------------------------------------------------------------------------------------------------------- */

typedef struct splice_row {
    const char *before;
    const char *edits[6]; /* key, value; "-" as a value removes */
    const char *after;    /* NULL: nothing is to be changed */
} splice_row;

#define T "\"t\":{\"dtype\":\"U8\",\"shape\":[64],\"data_offsets\":[0,64]}"
#define E "\"e\":{\"dtype\":\"F64\",\"shape\":[0],\"data_offsets\":[64,64]}"

static const splice_row splices[] = {
    { "{\"__metadata__\":{\"k\":\"v\"}," T "}", { "k", "w" }, "{\"__metadata__\":{\"k\":\"w\"}," T "}" },
    { "{" T "}", { "k", "v" }, "{\"__metadata__\":{\"k\":\"v\"}," T "}" },
    { " {\n " T " } ", { "k", "v" }, " {\"__metadata__\":{\"k\":\"v\"},\n " T " }" },
    { "{}", { "k", "v" }, "{\"__metadata__\":{\"k\":\"v\"}}" },
    { "{ }", { "k", "v" }, "{\"__metadata__\":{\"k\":\"v\"} }" },
    { "{\"__metadata__\":{}}", { "k", "v" }, "{\"__metadata__\":{\"k\":\"v\"}}" },
    { "{\"__metadata__\":null," T "}", { "k", "v" }, "{\"__metadata__\":{\"k\":\"v\"}," T "}" },
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
    { "{" T "}", { "a\"\\\n\x01", "\xC3\xA4/" }, "{\"__metadata__\":{\"a\\\"\\\\\\n\\u0001\":\"\xC3\xA4/\"}," T "}" },
    { "{" T "}", { "", "" }, "{\"__metadata__\":{\"\":\"\"}," T "}" },
    { "{" T "}", { "k", "1", "a", "2", "k", "3" }, "{\"__metadata__\":{\"a\":\"2\",\"k\":\"3\"}," T "}" },
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
    bytes file = file_of(row->before, 0, 0);
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
        edits[count] = set_key(row->edits[2 * count], strcmp(value, "-") == 0 ? NULL : value);
    }
    coffer__edit_text text;
    assert_int_equal(coffer__edit_text_plan(&text, table, file.at, edits, count, NULL), COFFER_OK);
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
    coffer__edit_text_deinit(&text);
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
        edits[i] = set_key(keys[i], keys[i]);
    }
    bytes file = make_model("{", 0);
    assert_int_equal(coffer_edit_metadata(work_path("model"), edits, COUNT, NULL, NULL, NULL), COFFER_OK);
    coffer *model = NULL;
    assert_int_equal(coffer_open(&model, work_path("model"), NULL, NULL), COFFER_OK);
    const coffer_table *table = coffer_shard_table(model, 0);
    assert_int_equal(coffer_table_metadata_count(table), COUNT);
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
    bytes file = make_model(ONE_KEY, 100);
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
        assert_file("model", file);
    }
    free(file.at);
}

static void test_bad_edits(void **state)
{
    (void)state;
    bytes file = make_model(ONE_KEY, 100);
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
        const coffer_edit edits[2] = { set_key("fine", "too"), bad[i].edit };
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
    assert_file("model", file);
    assert_int_equal(work_dir_count(), 1);
    free(file.at);
}

/* ---- the three ways -------------------------------------------------------------------------------------------------- */

static void test_nothing_to_do(void **state)
{
    (void)state;
    bytes file = make_model(ONE_KEY, 0);
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
    assert_file("model", file);
    free(file.at);
}

/* The new file of an edit within the header: the same lengths, the new metadata, more or fewer spaces. */
static bytes edited(const char *metadata, bytes old)
{
    const char *text = text_of(metadata, member, "}");
    bytes file = file_of(text, old.size - 8 - DATA_SIZE - strlen(text), DATA_SIZE);
    assert_int_equal(file.size, old.size);
    return file;
}

static void check_within_header(const char *key, const char *value, size_t slack, const char *after)
{
    bytes old = make_model(ONE_KEY, slack);
    bytes fresh = edited(after, old);
    assert_int_equal(chmod(work_path("model"), 0604), 0);
    const struct stat before = look("model");
    const size_t descriptors = open_descriptors();
    coffer_edit_way way = COFFER_EDITED_NOTHING;
    assert_int_equal(edit_with("model", key, value, NULL, &way, NULL), COFFER_OK);
    assert_file("model", fresh);
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

/* A rewrite that was asked for happens even when no key changes: it makes room. */
static void test_rewrite_for_room(void **state)
{
    (void)state;
    bytes file = make_model(ONE_KEY, 0);
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

/* ---- bintensors ------------------------------------------------------------------------------------------------------ */

typedef struct binary_row {
    const char *before; /* what comes before the list of tensors */
    size_t before_size;
    const char *key;
    const char *value;
    const char *after;
    size_t after_size;
    bool rewrite; /* 4 bytes of slack are not enough */
} binary_row;

#define BINARY(text) text, sizeof(text) - 1

static const binary_row binary_rows[] = {
    { BINARY("\1\1\1k\1v"), "k", "w", BINARY("\1\1\1k\1w"), false },
    { BINARY("\1\1\1k\1v"), "k", "value", BINARY("\1\1\1k\5value"), false },
    { BINARY("\1\1\1k\1v"), "k", "values", BINARY("\1\1\1k\6values"), true },
    { BINARY("\1\2\1z\1 \1k\1v"), "a", "", BINARY("\1\3\1a\0\1k\1v\1z\1 "), false },
    { BINARY("\1\2\1z\1 \1k\1v"), "k", NULL, BINARY("\1\1\1z\1 "), false },
    { BINARY("\1\1\1k\1v"), "k", NULL, BINARY("\0"), false },
    { BINARY("\1\0"), "k", "", BINARY("\1\1\1k\0"), false },
    { BINARY("\0"), "k", "", BINARY("\1\1\1k\0"), false },
    { BINARY("\0"), "k", "v", BINARY("\1\1\1k\1v"), true },
};

static const char binary_tensors[] = "\1\1t\1\1\x40\0\x40"; /* U8 [64] */

static bytes binary_file(const char *metadata, size_t size, size_t slack)
{
    char header[64];
    memcpy(header, metadata, size);
    memcpy(header + size, binary_tensors, sizeof binary_tensors - 1);
    return file_of_bytes(header, size + sizeof binary_tensors - 1, slack, DATA_SIZE);
}

/* The metadata lie before everything else, and the rest moves behind them. */
static void test_bintensors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof binary_rows / sizeof binary_rows[0]; i++) {
        const binary_row *row = &binary_rows[i];
        bytes before = binary_file(row->before, row->before_size, 4);
        file_write("model", before.at, before.size);
        const size_t room = row->before_size + 4 - (row->rewrite ? 0 : row->after_size);
        /* A rewrite leaves 4096 bytes, and the data where they are aligned as well as before, to 8. */
        const size_t used = 8 + row->after_size + sizeof binary_tensors - 1;
        const size_t slack = row->rewrite ? (used + 4096 + 7) / 8 * 8 - used : room;
        bytes after = binary_file(row->after, row->after_size, slack);
        coffer_edit_way way = COFFER_EDITED_NOTHING;
        coffer_error err;
        assert_int_equal(edit_with("model", row->key, row->value, NULL, &way, &err), COFFER_OK);
        assert_int_equal(way == COFFER_EDITED_REWRITE, row->rewrite);
        assert_file("model", after);
        assert_int_equal(edit_with("model", row->key, row->value, NULL, &way, &err), COFFER_OK);
        assert_int_equal(way, COFFER_EDITED_NOTHING);
        free(before.at);
        free(after.at);
    }
    const coffer_edit_options options = options_of(COFFER_EDIT_IN_PLACE);
    bytes full = binary_file("\0", 1, 0);
    file_write("model", full.at, full.size);
    assert_edit_fails("model", &options, COFFER_ERR_NO_SLACK, 0);
    assert_file("model", full);
    free(full.at);
}

static void test_no_slack(void **state)
{
    (void)state;
    bytes file = make_model(ONE_KEY, 10);
    const coffer_edit_options options = options_of(COFFER_EDIT_IN_PLACE);
    coffer_error err;
    assert_int_equal(edit_with("model", "l", "1234", &options, NULL, &err), COFFER_ERR_NO_SLACK);
    assert_int_equal(err.actual, file.size - 8 - DATA_SIZE);
    assert_int_equal(err.expected, err.actual + 1);
    assert_file("model", file);
    coffer_edit_way way = COFFER_EDITED_NOTHING;
    assert_int_equal(edit_with("model", "l", "1234", NULL, &way, &err), COFFER_OK);
    assert_int_equal(way, COFFER_EDITED_REWRITE);
    free(file.at);
}

/* Rewrites a file whose data begins at a multiple of `aligned` and not of twice that. */
static void check_rewrite(size_t data_offset, size_t alignment, uint64_t slack, const coffer_edit_options *given)
{
    const size_t text_len = strlen(text_of(ONE_KEY, member, "}"));
    bytes old = make_model(ONE_KEY, data_offset - 8 - text_len);
    assert_int_equal(chmod(work_path("model"), 0604), 0);
    coffer_edit_options options = *given;
    options.mode = COFFER_EDIT_REWRITE;
    options.slack = slack;
    coffer_edit_way way = COFFER_EDITED_NOTHING;
    assert_int_equal(edit_with("model", "k", "other", &options, &way, NULL), COFFER_OK);
    assert_int_equal(way, COFFER_EDITED_REWRITE);
    const char *text = text_of("{\"__metadata__\":{\"k\":\"other\"},", member, "}");
    const size_t least = 8 + strlen(text) + (size_t)(slack != 0 ? slack : 4096);
    const size_t offset = (least + alignment - 1) / alignment * alignment;
    bytes fresh = file_of(text, offset - 8 - strlen(text), DATA_SIZE);
    assert_file("model", fresh);
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

static bytes make_large_model(void)
{
    char text[200];
    (void)snprintf(text, sizeof text, "{\"t\":{\"dtype\":\"U8\",\"shape\":[%zu],\"data_offsets\":[0,%zu]}}", LARGE,
                   LARGE);
    bytes file = file_of(text, 0, LARGE);
    file_write("model", file.at, file.size);
    return file;
}

static void check_large(bytes old, uint64_t cancel_at)
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
        assert_file("model", old);
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
    bytes old = make_large_model();
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
    bytes old = make_large_model();
    coffer_error err;
    faults.before[when] = shrink_model;
    assert_int_equal(edit_with("model", "k", "v", NULL, NULL, &err), COFFER_ERR_CHANGED);
    faults_clear();
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
    bytes file = make_model(ONE_KEY, 0);
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
    assert_non_null(strstr(err.message, "with the new metadata the header would have"));
    assert_file("model", file);
    assert_int_equal(work_dir_count(), 1);
    free(file.at);
}

/* ---- files that are not to be edited --------------------------------------------------------------------------------- */

static void test_not_a_model(void **state)
{
    (void)state;
    assert_edit_fails("nothing", NULL, COFFER_ERR_NOT_FOUND, ENOENT);
    assert_edit_fails(".", NULL, COFFER_ERR_DIRECTORY, 0);
    assert_int_equal(mkfifo(work_path("pipe"), 0600), 0);
    assert_edit_fails("pipe", NULL, COFFER_ERR_NOT_REGULAR, 0);
    file_write("empty", "", 0);
    assert_edit_fails("empty", NULL, COFFER_ERR_EMPTY, 0);
    file_write("short", "1234567", 7);
    assert_edit_fails("short", NULL, COFFER_ERR_TOO_SHORT, 0);
    static const char page[] = "<!DOCTYPE html><html><body>404</body></html>";
    file_write("page", page, sizeof page);
    assert_edit_fails("page", NULL, COFFER_ERR_IS_HTML, 0);
    bytes file = make_model(ONE_KEY, 0);
    file_write("cut", file.at, file.size - 1);
    assert_edit_fails("cut", NULL, COFFER_ERR_DATA_TRUNCATED, 0);
    assert_int_equal(work_dir_count(), 6);
    free(file.at);
}

static int run_on_read_only_file(void *ctx)
{
    (void)ctx;
    coffer_error err;
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) {
        return 2;
    }
    const coffer_status status = edit_with("model", "k", "w", NULL, NULL, &err);
    return status == COFFER_ERR_IO && err.os_error == EACCES ? 0 : 3;
}

static int run_on_allowed_read_only_file(void *ctx)
{
    const coffer_edit_mode *mode = ctx;
    coffer_error err;
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    coffer_edit_way way = COFFER_EDITED_NOTHING;
    options.read_only = true;
    options.mode = *mode;
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) {
        return 2;
    }
    const coffer_status status = edit_with("model", "k", "w", &options, &way, &err);
    if (*mode == COFFER_EDIT_IN_PLACE) {
        return status == COFFER_ERR_IO && err.os_error == EACCES ? 0 : 3;
    }
    return status == COFFER_OK && way == COFFER_EDITED_REWRITE ? 0 : 4;
}

/* A file that must not be written is edited by a new one in its place, when that is allowed: never in place. */
static void test_read_only_file_that_may_be_edited(void **state)
{
    (void)state;
    for (int mode = COFFER_EDIT_AUTO; mode <= COFFER_EDIT_REWRITE; mode++) {
        coffer_edit_mode asked = (coffer_edit_mode)mode;
        bytes file = make_model(ONE_KEY, 100);
        assert_int_equal(chown(work_path("model"), 65534, 65534) == 0 || geteuid() != 0, 1);
        assert_int_equal(chmod(work_path("model"), 0444), 0);
        assert_int_equal(chmod(work_path("."), 0777), 0);
        assert_int_equal(child_run(run_on_allowed_read_only_file, &asked), 0);
        assert_int_equal(look("model").st_mode & 07777, 0444);
        assert_int_equal(work_dir_count(), 1);
        coffer *model = NULL;
        size_t len = 0;
        assert_int_equal(coffer_open(&model, work_path("model"), NULL, NULL), COFFER_OK);
        const char *value = coffer_table_metadata_get(coffer_shard_table(model, 0), "k", 1, &len);
        assert_int_equal(value[0], asked == COFFER_EDIT_IN_PLACE ? 'v' : 'w');
        coffer_close(model);
        assert_int_equal(unlink(work_path("model")), 0);
        free(file.at);
    }
}

static void test_read_only_file(void **state)
{
    (void)state;
    bytes file = make_model(ONE_KEY, 100);
    assert_int_equal(chmod(work_path("model"), 0444), 0);
    assert_int_equal(chmod(work_path("."), 0777), 0);
    assert_int_equal(child_run(run_on_read_only_file, NULL), 0);
    assert_file("model", file);
    assert_int_equal(work_dir_count(), 1);
    free(file.at);
}

static void test_symbolic_link(void **state)
{
    (void)state;
    bytes old = make_model(ONE_KEY, 100);
    bytes fresh = edited("{\"__metadata__\":{\"k\":\"w\"},", old);
    assert_int_equal(symlink("model", work_path("link")), 0);
    assert_edit_fails("link", NULL, COFFER_ERR_LINKED, 0);
    assert_file("model", old);
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    options.follow_links = true;
    assert_int_equal(edit_with("link", "k", "w", &options, NULL, NULL), COFFER_OK);
    assert_file("model", fresh);
    options.mode = COFFER_EDIT_REWRITE;
    assert_int_equal(edit_with("link", "k", "v", &options, NULL, NULL), COFFER_OK);
    assert_true(S_ISLNK(look("link").st_mode));
    assert_true(look("model").st_size > 4096);
    assert_int_equal(symlink("nowhere", work_path("dangling")), 0);
    assert_edit_fails("dangling", &options, COFFER_ERR_NOT_FOUND, ENOENT);
    assert_int_equal(work_dir_count(), 3);
    free(old.at);
    free(fresh.at);
}

static void test_hard_link(void **state)
{
    (void)state;
    bytes old = make_model(ONE_KEY, 100);
    bytes fresh = edited("{\"__metadata__\":{\"k\":\"w\"},", old);
    assert_int_equal(link(work_path("model"), work_path("other")), 0);
    assert_edit_fails("model", NULL, COFFER_ERR_LINKED, 0);
    assert_file("model", old);
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    options.follow_links = true;
    coffer_edit_way way = COFFER_EDITED_NOTHING;
    assert_int_equal(edit_with("model", "k", "w", &options, &way, NULL), COFFER_OK);
    assert_int_equal(way, COFFER_EDITED_IN_PLACE);
    assert_file("model", fresh);
    assert_file("other", fresh);
    /* A rewrite makes a file of its own; the other name keeps the old one. */
    options.mode = COFFER_EDIT_REWRITE;
    assert_int_equal(edit_with("model", "k", "v", &options, &way, NULL), COFFER_OK);
    assert_file("other", fresh);
    assert_int_equal(look("other").st_nlink, 1);
    free(old.at);
    free(fresh.at);
}

/* ---- locks ----------------------------------------------------------------------------------------------------------- */

static void test_locked(void **state)
{
    (void)state;
    bytes file = make_model(ONE_KEY, 100);
    const int fd = open(work_path("model"), O_RDONLY | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_edit_fails("model", NULL, COFFER_ERR_LOCKED, 0);
    coffer_error err;
    assert_int_equal(coffer_recover(work_path("model"), NULL, &err), COFFER_ERR_LOCKED);
    assert_int_equal(close(fd), 0);
    assert_file("model", file);
    faults.always[FAULT_LOCK] = ENOLCK;
    assert_edit_fails("model", NULL, COFFER_ERR_IO, ENOLCK);
    faults_clear();
    assert_int_equal(edit_with("model", "k", "w", NULL, NULL, NULL), COFFER_OK);
    free(file.at);
}

static void replace_model(void)
{
    file_write("newer", "x", 1);
    assert_int_equal(rename(work_path("newer"), work_path("model")), 0);
}

/* The lock of a file that lies under that name no more protects nothing. */
static void test_replaced_before_the_lock(void **state)
{
    (void)state;
    bytes file = make_model(ONE_KEY, 100);
    faults.before[FAULT_LOCK] = replace_model;
    assert_edit_fails("model", NULL, COFFER_ERR_CHANGED, 0);
    faults_clear();
    assert_file("model", (bytes){ (uint8_t[]){ 'x' }, 1 });
    free(file.at);
}

/* ---- saves meanwhile --------------------------------------------------------------------------------------------------- */

/* Before the call of that number, counted over all kinds, somebody saves another file there. */
static unsigned save_before;
static unsigned calls_seen;

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
    bytes old = make_model(ONE_KEY, 200);
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
        assert_file("model", (bytes){ (uint8_t[]){ 'x' }, 1 });
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
    bytes old = make_model(ONE_KEY, 200);
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
    bytes old = make_model(ONE_KEY, 200);
    coffer_edit_options options = options_of(COFFER_EDIT_REWRITE);
    faults.always[FAULT_EXCHANGE] = EINVAL;
    faults.before[FAULT_SYNC] = replace_model;
    coffer_error err;
    assert_int_equal(edit_with("model", "k", "new", &options, NULL, &err), COFFER_ERR_CHANGED);
    assert_string_equal(err.path, work_path("model"));
    faults_clear();
    assert_file("model", (bytes){ (uint8_t[]){ 'x' }, 1 });
    assert_int_equal(work_dir_count(), 1);
    file_write("model", old.at, old.size);
    faults.always[FAULT_EXCHANGE] = EINVAL;
    assert_int_equal(edit_with("model", "k", "new", &options, NULL, NULL), COFFER_OK);
    assert_int_equal(work_dir_count(), 1);
    free(old.at);
}

static int replace_while_hashing(void *ctx, uint64_t done, uint64_t total)
{
    const bytes *newer = ctx;
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
    bytes old = make_model(ONE_KEY, 2000);
    bytes newer = make_model(ONE_KEY, 2000);
    newer.at[newer.size - 1] ^= 0xFF;
    file_write("model", old.at, old.size);
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    options.progress = replace_while_hashing;
    options.progress_ctx = &newer;
    coffer_error err;
    assert_int_equal(coffer_record_digests(work_path("model"), COFFER_SHA256, &options, NULL, &err),
                     COFFER_ERR_CHANGED);
    assert_file("model", newer);
    free(newer.at);
    free(old.at);
}

/* ---- undo ------------------------------------------------------------------------------------------------------------ */

/* Edits "model" in such a way that the undo file stays: the file has its new header then. Returns the old file. */
static bytes leave_undo(void)
{
    bytes old = make_model(ONE_KEY, 200);
    faults_clear();
    faults.always[FAULT_CLONE] = EOPNOTSUPP;
    faults.always[FAULT_UNLINK] = EROFS;
    coffer_error err;
    assert_int_equal(edit_with("model", "k", "a longer value than before", NULL, NULL, &err), COFFER_ERR_UNDO);
    assert_int_equal(err.os_error, EROFS);
    faults_clear();
    assert_int_equal(access(work_path("model.coffer-undo"), F_OK), 0);
    assert_false(file_is("model", old));
    return old;
}

static void test_undo_forbids(void **state)
{
    (void)state;
    bytes old = leave_undo();
    assert_edit_fails("model", NULL, COFFER_ERR_UNDO, 0);
    coffer *model = NULL;
    coffer_error err;
    assert_int_equal(coffer_open(&model, work_path("model"), NULL, &err), COFFER_ERR_UNDO);
    assert_non_null(strstr(err.message, "coffer meta --recover"));
    assert_int_equal(coffer_recover(work_path("model"), NULL, &err), COFFER_OK);
    assert_file("model", old);
    assert_int_equal(work_dir_count(), 1);
    assert_int_equal(coffer_recover(work_path("model"), NULL, &err), COFFER_ERR_NO_UNDO);
    assert_int_equal(edit_with("model", "k", "w", NULL, NULL, NULL), COFFER_OK);
    free(old.at);
}

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
        bytes file = make_model(ONE_KEY, 100);
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

/* ---- edits between two pieces of a header -------------------------------------------------------------------------- */

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
                   member);
    bytes file = file_of(text, 100, DATA_SIZE);
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
    const coffer_edit edits[] = { set_key("a", "new"), set_key("z", "new") };
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

/* To be read twice alike is no proof while an edit is under way. */
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
    const coffer_edit both[] = { set_key("a", value), set_key("z", value) };
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

/* ---- undo files of strangers ----------------------------------------------------------------------------------------- */

static ino_t inode_of(const char *name)
{
    return look(name).st_ino;
}

/* Anybody may put a file beside another one, where anybody may make files. */
static void test_planted_undo(void **state)
{
    (void)state;
    bytes old = leave_undo();
    bytes now = { NULL, 0 };
    now.at = file_read("model", &now.size);
    coffer_error err;
    coffer *model = NULL;
    const mode_t modes[] = { 0646, 0664, 0666 };
    for (size_t i = 0; i < 4; i++) {
        faults.stranger = i == 3 ? inode_of("model.coffer-undo") : 0;
        assert_int_equal(chmod(work_path("model.coffer-undo"), i == 3 ? 0644 : modes[i]), 0);
        assert_int_equal(chmod(work_path("model"), 0644), 0);
        assert_int_equal(coffer_open(&model, work_path("model"), NULL, NULL), COFFER_OK);
        coffer_close(model);
        assert_int_equal(coffer_recover(work_path("model"), NULL, &err), COFFER_ERR_NO_UNDO);
        assert_non_null(strstr(err.message, "anybody could have put it there"));
        assert_file("model", now);
    }
    faults_clear();
    /* One that lets nobody write who may not write the file counts. */
    assert_int_equal(chmod(work_path("model"), 0666), 0);
    assert_int_equal(chmod(work_path("model.coffer-undo"), 0666), 0);
    assert_int_equal(coffer_open(&model, work_path("model"), NULL, NULL), COFFER_ERR_UNDO);
    assert_int_equal(coffer_recover(work_path("model"), NULL, &err), COFFER_OK);
    assert_file("model", old);
    free(now.at);
    free(old.at);
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

/* Others may write the file, and nobody its undo file. */
static void test_mode_of_undo(void **state)
{
    (void)state;
    bytes file = make_model(ONE_KEY, 200);
    assert_int_equal(chmod(work_path("model"), 0666), 0);
    faults.always[FAULT_CLONE] = EOPNOTSUPP;
    faults.always[FAULT_UNLINK] = EROFS;
    assert_int_equal(edit_with("model", "k", "w", NULL, NULL, NULL), COFFER_ERR_UNDO);
    faults_clear();
    assert_int_equal(look("model.coffer-undo").st_mode & 0777, 0644);
    assert_int_equal(coffer_recover(work_path("model"), NULL, NULL), COFFER_OK);
    assert_file("model", file);
    free(file.at);
}

/* A pipe or a symbolic link under that name is no undo file either. */
static void test_undo_of_another_kind(void **state)
{
    (void)state;
    bytes file = make_model(ONE_KEY, 200);
    coffer *model = NULL;
    assert_int_equal(mkfifo(work_path("model.coffer-undo"), 0600), 0);
    assert_int_equal(coffer_open(&model, work_path("model"), NULL, NULL), COFFER_OK);
    coffer_close(model);
    assert_int_equal(coffer_recover(work_path("model"), NULL, NULL), COFFER_ERR_NO_UNDO);
    assert_int_equal(unlink(work_path("model.coffer-undo")), 0);
    assert_int_equal(symlink("model", work_path("model.coffer-undo")), 0);
    assert_int_equal(coffer_open(&model, work_path("model"), NULL, NULL), COFFER_OK);
    coffer_close(model);
    free(file.at);
}

/* An interrupted write leaves some of the new bytes and some of the old, wherever it stopped. */
static void test_recover_mixture(void **state)
{
    (void)state;
    const size_t steps[] = { 1, 9, 20, 60, 100, 150 };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        bytes old = leave_undo();
        const int fd = open(work_path("model"), O_WRONLY | O_CLOEXEC);
        assert_int_equal(pwrite(fd, old.at, steps[i], 0), steps[i]);
        assert_int_equal(close(fd), 0);
        assert_int_equal(coffer_recover(work_path("model"), NULL, NULL), COFFER_OK);
        assert_file("model", old);
        assert_int_equal(work_dir_count(), 1);
        free(old.at);
    }
}

static void assert_not_recovered(bytes file)
{
    coffer_error err;
    assert_int_equal(coffer_recover(work_path("model"), NULL, &err), COFFER_ERR_NO_UNDO);
    assert_int_equal(err.code, COFFER_ERR_NO_UNDO);
    assert_string_equal(err.path, work_path("model"));
    assert_file("model", file);
}

static void test_recover_nothing(void **state)
{
    (void)state;
    bytes file = make_model(ONE_KEY, 100);
    assert_not_recovered(file);
    /* What a crash left before the undo file was complete is of no use to anybody. */
    file_write("model.coffer-undo.new", "COFRUNDO", 8);
    assert_not_recovered(file);
    assert_int_equal(work_dir_count(), 1);
    file_write("model.coffer-undo.new", "COFRUNDO", 8);
    faults.always[FAULT_CLONE] = EOPNOTSUPP;
    assert_int_equal(edit_with("model", "k", "w", NULL, NULL, NULL), COFFER_OK);
    assert_int_equal(work_dir_count(), 1);
    free(file.at);
}

static void test_recover_damaged(void **state)
{
    (void)state;
    bytes old = leave_undo();
    size_t size = 0;
    uint8_t *undo = file_read("model.coffer-undo", &size);
    bytes now = { NULL, 0 };
    now.at = file_read("model", &now.size);
    for (size_t i = 0; i < size; i++) {
        undo[i] ^= 0x20;
        file_write("model.coffer-undo", undo, size);
        assert_not_recovered(now);
        undo[i] ^= 0x20;
    }
    for (size_t shorter = 0; shorter < size; shorter++) {
        file_write("model.coffer-undo", undo, shorter);
        assert_not_recovered(now);
    }
    uint8_t *longer = calloc(1, size + 2);
    assert_non_null(longer);
    memcpy(longer, undo, size);
    file_write("model.coffer-undo", longer, size + 2);
    assert_not_recovered(now);
    assert_int_equal(unlink(work_path("model.coffer-undo")), 0);
    assert_int_equal(symlink("model", work_path("model.coffer-undo")), 0);
    coffer_error err;
    assert_int_equal(coffer_recover(work_path("model"), NULL, &err), COFFER_ERR_IO);
    assert_int_equal(err.os_error, ELOOP);
    free(longer);
    free(now.at);
    free(undo);
    free(old.at);
}

static void test_recover_other_file(void **state)
{
    (void)state;
    bytes old = leave_undo();
    bytes now = { NULL, 0 };
    now.at = file_read("model", &now.size);
    /* Another size. */
    file_write("model", now.at, now.size - 1);
    assert_not_recovered((bytes){ now.at, now.size - 1 });
    /* One byte of the header that is neither old nor new: somebody else wrote here. */
    now.at[9] = 'x';
    file_write("model", now.at, now.size);
    assert_not_recovered(now);
    free(now.at);
    free(old.at);
}

/* A directory that was copied or moved with an interrupted edit in it has all that is needed. */
static void test_recover_copy(void **state)
{
    (void)state;
    bytes old = leave_undo();
    size_t size = 0;
    uint8_t *undo = file_read("model.coffer-undo", &size);
    file_write("copy.coffer-undo", undo, size);
    free(undo);
    uint8_t *now = file_read("model", &size);
    file_write("copy", now, size);
    free(now);
    assert_int_equal(coffer_recover(work_path("copy"), NULL, NULL), COFFER_OK);
    assert_file("copy", old);
    free(old.at);
}

static void test_recover_links(void **state)
{
    (void)state;
    bytes old = leave_undo();
    assert_int_equal(symlink("model", work_path("link")), 0);
    coffer_error err;
    assert_int_equal(coffer_recover(work_path("link"), NULL, &err), COFFER_ERR_LINKED);
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    options.follow_links = true;
    assert_int_equal(coffer_recover(work_path("link"), &options, &err), COFFER_OK);
    assert_file("model", old);
    free(old.at);
}

static void test_writing_fails(void **state)
{
    (void)state;
    coffer_error err;
    bytes old = make_model(ONE_KEY, 200);
    faults.always[FAULT_CLONE] = EOPNOTSUPP;
    faults.always[FAULT_WRITE] = ENOSPC;
    assert_int_equal(edit_with("model", "k", "w", NULL, NULL, &err), COFFER_ERR_IO);
    assert_int_equal(err.os_error, ENOSPC);
    faults.always[FAULT_WRITE] = 0;
    faults.always[FAULT_SYNC_NAMES] = EIO;
    assert_int_equal(edit_with("model", "k", "w", NULL, NULL, &err), COFFER_ERR_IO);
    faults_clear();
    assert_file("model", old);
    assert_int_equal(work_dir_count(), 1);
    free(old.at);
}

/* What a failed edit may leave: the old file; or the new one, when only its last step failed; or an undo file. */
static void check_outcome(coffer_status status, const coffer_error *err, bytes old, bytes fresh)
{
    if (access(work_path("model.coffer-undo"), F_OK) == 0) {
        assert_int_equal(status, COFFER_ERR_UNDO);
        assert_int_equal(coffer_recover(work_path("model"), NULL, NULL), COFFER_OK);
        assert_file("model", old);
    } else if (status == COFFER_OK) {
        assert_file("model", fresh);
    } else {
        assert_true(err->code == status);
        const bool done =
            strstr(err->message, "the finished edit") != NULL || strstr(err->message, "the file is in place") != NULL;
        assert_file("model", done ? fresh : old);
    }
}

static unsigned check_every_call(bool no_clone, bool named, coffer_edit_mode mode, int os_error)
{
    unsigned k = 0;
    bool came_to_it = true;
    bytes old = make_model(ONE_KEY, 200);
    bytes fresh = edited("{\"__metadata__\":{\"k\":\"new\"},", old);
    if (mode == COFFER_EDIT_REWRITE) {
        free(fresh.at);
        const char *text = text_of("{\"__metadata__\":{\"k\":\"new\"},", member, "}");
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
        assert_file("model", old);
        const char *name = strstr(err.message, ".model.coffer-");
        assert_non_null(name);
        char kept[64];
        (void)snprintf(kept, sizeof kept, "%.22s", name);
        assert_file(kept, fresh);
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

static void test_every_call_of_recovery_fails(void **state)
{
    (void)state;
    unsigned k = 0;
    bool came_to_it = true;
    while (came_to_it) {
        k++;
        bytes old = leave_undo();
        faults.fail_at = k;
        faults.error = EIO;
        faults.spare_clean_up = true;
        coffer_error err;
        const size_t before = open_descriptors();
        const coffer_status status = coffer_recover(work_path("model"), NULL, &err);
        came_to_it = faults.calls >= k;
        faults_clear();
        assert_int_equal(open_descriptors(), before);
        if (access(work_path("model.coffer-undo"), F_OK) == 0) {
            assert_int_not_equal(status, COFFER_OK);
            assert_int_equal(coffer_recover(work_path("model"), NULL, NULL), COFFER_OK);
        }
        assert_file("model", old);
        assert_int_equal(work_dir_count(), 1);
        free(old.at);
    }
    assert_true(k > 10);
}

static void test_no_memory(void **state)
{
    (void)state;
    for (int mode = COFFER_EDIT_AUTO; mode <= COFFER_EDIT_REWRITE; mode++) {
        coffer_status status = COFFER_ERR_MEMORY;
        for (size_t k = 1; status == COFFER_ERR_MEMORY; k++) {
            bytes old = make_model(ONE_KEY, 200);
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
            assert_true(status == COFFER_OK || file_is("model", old));
            assert_true(k > 4 || status != COFFER_OK);
            free(old.at);
        }
        assert_int_equal(status, COFFER_OK);
        assert_int_equal(work_dir_count(), 1);
    }
    bytes old = leave_undo();
    memory_meter meter;
    const coffer_allocator metered = metered_allocator(&meter);
    meter.fail_at = 1;
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    options.allocator = &metered;
    assert_int_equal(coffer_recover(work_path("model"), &options, NULL), COFFER_ERR_MEMORY);
    assert_int_equal(coffer_recover(work_path("model"), &options, NULL), COFFER_OK);
    assert_int_equal(meter.held, 0);
    assert_file("model", old);
    free(old.at);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_splices),
        TEST(test_many_keys),
        TEST(test_empty_key),
        TEST(test_bad_edits),
        TEST(test_nothing_to_do),
        TEST(test_within_header),
        TEST(test_rewrite_for_room),
        TEST(test_bintensors),
        TEST(test_no_slack),
        TEST(test_rewrite),
        TEST(test_progress),
        TEST(test_file_shrinks),
        TEST(test_limit_of_header),
        TEST(test_not_a_model),
        TEST(test_read_only_file),
        TEST(test_read_only_file_that_may_be_edited),
        TEST(test_symbolic_link),
        TEST(test_hard_link),
        TEST(test_locked),
        TEST(test_replaced_before_the_lock),
        TEST(test_saves_meanwhile),
        TEST(test_save_before_the_undo_file),
        TEST(test_save_meanwhile_without_exchange),
        TEST(test_save_while_hashing),
        TEST(test_undo_forbids),
        TEST(test_edit_begins_while_opening),
        TEST(test_edit_between_two_reads),
        TEST(test_edit_between_all_reads),
        TEST(test_half_edited_for_a_while),
        TEST(test_planted_undo),
        TEST(test_edit_beside_a_planted_undo),
        TEST(test_mode_of_undo),
        TEST(test_undo_of_another_kind),
        TEST(test_recover_mixture),
        TEST(test_recover_nothing),
        TEST(test_recover_damaged),
        TEST(test_recover_other_file),
        TEST(test_recover_copy),
        TEST(test_recover_links),
        TEST(test_writing_fails),
        TEST(test_every_call_fails),
        TEST(test_every_call_of_recovery_fails),
        TEST(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
