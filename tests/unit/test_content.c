/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a model that are each what they record, and yet do not belong together: of two versions, one left out, one recorded
 * anew. The index records which files there are, so whoever verifies is told; and where it is written afterwards everything else
 * in it keeps its bytes.
 */
#define _GNU_SOURCE /* memmem */

#include "support_cmocka.h"

#include "coffer.h"
#include "support_digest.h"
#include "support_file.h"
#include "support_memory.h"
#include "support_model.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNT 6
#define LIMIT 100 /* bytes of a file's tensors: two of them */
#define INDEX "model.safetensors.index.json"
#define FIRST "model-00001-of-00003.safetensors"
#define SECOND "model-00002-of-00003.safetensors"
#define THIRD "model-00003-of-00003.safetensors"

static void save_with(uint8_t seed, coffer_algorithm digests)
{
    coffer_writer_options files = COFFER_WRITER_OPTIONS_INIT;
    coffer_model_writer_options options = COFFER_MODEL_WRITER_OPTIONS_INIT;
    files.digests = digests;
    options.files = &files;
    options.force = true;
    assert_int_equal(model_save(COUNT, seed, LIMIT, &options, coffer_libc_allocator(), NULL), COFFER_OK);
}

static void rename_file(const char *from, const char *to)
{
    char old[4200];
    snprintf(old, sizeof old, "%s", work_path(from));
    assert_int_equal(rename(old, work_path(to)), 0);
}

/* Puts a file of another version in the place of one of the model's. */
static void mix(const char *name, coffer_algorithm digests)
{
    rename_file(INDEX, "index");
    const char *files[] = { FIRST, SECOND, THIRD };
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(files[i], name) != 0) {
            char kept[64];
            snprintf(kept, sizeof kept, "kept%zu", i);
            rename_file(files[i], kept);
        }
    }
    save_with(77, digests);
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(files[i], name) != 0) {
            char kept[64];
            snprintf(kept, sizeof kept, "kept%zu", i);
            rename_file(kept, files[i]);
        }
    }
    rename_file("index", INDEX);
}

static coffer_status verify_index(coffer_error *err)
{
    return verify_file(INDEX, err);
}

static coffer_status open_index(coffer_verifying verify, coffer_error *err)
{
    coffer *model = NULL;
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.verify = verify;
    const coffer_status status = coffer_open(&model, work_path(INDEX), &options, err);
    coffer_close(model);
    return status;
}

/* Everybody who looks notices, and names the file, or the index. */
static void noticed(coffer_status status, const char *name)
{
    coffer_error err;
    assert_int_equal(verify_index(&err), status);
    assert_string_equal(err.path, work_path(name));
    coffer *model = open_with(INDEX, NULL);
    const coffer_tensor *tensor = coffer_at(model, 0);
    assert_int_equal(coffer_verify(model, &tensor, 1, NULL, NULL, &err), status);
    assert_int_equal(coffer_verify(model, &tensor, 0, NULL, NULL, &err), status);
    assert_string_equal(err.path, work_path(name));
    coffer_close(model);
    assert_int_equal(open_index(COFFER_VERIFY_ALL, &err), status);
    assert_string_equal(err.path, work_path(name));
    assert_int_equal(open_index(COFFER_VERIFY_RECORDED, &err), status);
    assert_int_equal(open_index(COFFER_VERIFY_NOTHING, &err), COFFER_OK);
}

/* ---- what the writer records ------------------------------------------------------------------------------------- */

static void the_index_records_the_content(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        save_with(1, ALGORITHMS[k]);
        assert_verifies(INDEX);
        assert_int_equal(open_index(COFFER_VERIFY_ALL, NULL), COFFER_OK);
        coffer *model = open_with(INDEX, NULL);
        assert_int_equal(coffer_recorded_content(model), ALGORITHMS[k]);
        coffer_digest digests[COUNT];
        uint8_t content[COFFER_LARGEST_DIGEST_SIZE];
        const size_t size = coffer_algorithm_digest_size(ALGORITHMS[k]);
        assert_int_equal(coffer_digest_tensors(model, NULL, COUNT, ALGORITHMS[k], digests, NULL, NULL), COFFER_OK);
        assert_int_equal(coffer_digest_content(model, digests, ALGORITHMS[k], content, size, NULL), COFFER_OK);
        coffer_close(model);
        /* What is recorded is what that says: with it in another file the digests are the same. */
        size_t text_size = 0;
        uint8_t *text = file_read(INDEX, &text_size);
        assert_int_equal(coffer_record_digests(work_path(INDEX), ALGORITHMS[k], NULL, NULL, NULL), COFFER_OK);
        size_t again_size = 0;
        uint8_t *again = file_read(INDEX, &again_size);
        assert_int_equal(again_size, text_size);
        assert_memory_equal(again, text, text_size);
        free(again);
        free(text);
    }
    save_with(1, COFFER_NO_ALGORITHM);
    coffer *model = open_with(INDEX, NULL);
    assert_int_equal(coffer_recorded_content(model), COFFER_NO_ALGORITHM);
    coffer_close(model);
    size_t size = 0;
    uint8_t *text = file_read(INDEX, &size);
    assert_null(memmem(text, size, "coffer.", 7));
    free(text);
}

/* As docs/integrity.md defines it, of a model whose digest is known: it does not matter how it is divided. */
static void the_digest_of_the_vectors(void **state)
{
    (void)state;
    coffer_header *header = vector_header();
    coffer_writer_options files = COFFER_WRITER_OPTIONS_INIT;
    coffer_model_writer_options options = COFFER_MODEL_WRITER_OPTIONS_INIT;
    files.digests = COFFER_SHA256;
    options.files = &files;
    options.max_shard_size = 10;
    coffer_model_writer *writer = NULL;
    assert_int_equal(coffer_model_writer_open(&writer, header, work_path("model.safetensors"), &options, NULL),
                     COFFER_OK);
    assert_true(coffer_model_writer_shard_count(writer) > 1);
    for (size_t i = 0; i < VECTOR_COUNT; i++) {
        assert_int_equal(coffer_model_writer_write(writer, i, 0, VECTORS[i].bytes, VECTORS[i].size, NULL), COFFER_OK);
    }
    assert_int_equal(coffer_model_writer_finish(writer, NULL), COFFER_OK);
    coffer_model_writer_free(writer);
    coffer_header_free(header);
    size_t size = 0;
    uint8_t *text = file_read(INDEX, &size);
    static const char wanted[] = "\"coffer.content_digest\": \"1:sha256:BmL7ToeLpFqIsqaLkWtKuF3rrEymPZpbF4a/Yfl7mp0=\"";
    assert_non_null(memmem(text, size, wanted, sizeof wanted - 1));
    free(text);
}

/* ---- what does not belong together ------------------------------------------------------------------------------- */

static void a_file_of_another_version(void **state)
{
    (void)state;
    static const char *const files[] = { FIRST, SECOND, THIRD };
    for (size_t i = 0; i < 3; i++) {
        save_with(1, COFFER_SHA256);
        mix(files[i], COFFER_SHA256);
        noticed(COFFER_ERR_CONTENT_DIGEST, files[i]);
    }
    save_with(1, COFFER_SHA256);
    mix(SECOND, COFFER_XXH3_128);
    noticed(COFFER_ERR_CONTENT_DIGEST, SECOND);
}

static void a_file_without_digests(void **state)
{
    (void)state;
    coffer_error err;
    save_with(1, COFFER_SHA256);
    mix(THIRD, COFFER_NO_ALGORITHM);
    assert_int_equal(verify_index(&err), COFFER_ERR_NO_DIGESTS);
    assert_string_equal(err.path, work_path(THIRD));
    assert_int_equal(open_index(COFFER_VERIFY_RECORDED, &err), COFFER_ERR_CONTENT_DIGEST);
    assert_string_equal(err.path, work_path(THIRD));
}

/* Changes the index's text: puts `to` where `from` is. */
static void edit_index(const char *from, const char *to)
{
    size_t size = 0;
    uint8_t *text = file_read(INDEX, &size);
    uint8_t *at = memmem(text, size, from, strlen(from));
    assert_non_null(at);
    const size_t before = (size_t)(at - text);
    uint8_t *fresh = malloc(size + strlen(to));
    memcpy(fresh, text, before);
    memcpy(fresh + before, to, strlen(to));
    memcpy(fresh + before + strlen(to), at + strlen(from), size - before - strlen(from));
    file_write(INDEX, fresh, size - strlen(from) + strlen(to));
    free(fresh);
    free(text);
}

static void a_file_that_is_left_out(void **state)
{
    (void)state;
    save_with(1, COFFER_SHA256);
    edit_index("\"t5\": \"" THIRD "\"", "\"t3\": \"" SECOND "\"");
    edit_index("    \"t3\": \"" SECOND "\",\n    \"t4\": \"" THIRD "\",\n", "");
    assert_int_equal(unlink(work_path(THIRD)), 0);
    noticed(COFFER_ERR_CONTENT_DIGEST, INDEX);
    coffer_error err;
    assert_int_equal(verify_index(&err), COFFER_ERR_CONTENT_DIGEST);
    assert_int_equal(err.expected, 3);
    assert_int_equal(err.actual, 2);
}

static void a_content_digest_of_something_else(void **state)
{
    (void)state;
    save_with(1, COFFER_SHA256);
    size_t size = 0;
    uint8_t *text = file_read(INDEX, &size);
    char *at = memmem(text, size, "content_digest\": \"1:sha256:", 27);
    assert_non_null(at);
    at[27] = at[27] == 'A' ? 'B' : 'A';
    file_write(INDEX, text, size);
    free(text);
    noticed(COFFER_ERR_CONTENT_DIGEST, INDEX);
}

static void digests_of_the_whole_that_cannot_be_used(void **state)
{
    (void)state;
    static const char *const changes[][2] = {
        { "\"coffer.content_digest\": \"1:sha256:", "\"coffer.content_digest\": \"2:sha256:" },
        { "\"coffer.content_digest\"", "\"coffer.contents_digest\"" },
        { "\"coffer.shard_digests\"", "\"coffer.shards_digest\"" },
        { "\"coffer.shard_digests\": \"1:sha256:", "\"coffer.shard_digests\": \"1:sha256:AA" },
        { "\"coffer.shard_digests\": \"1:sha256:", "\"coffer.shard_digests\": \"1:xxh3-128:" },
        { "\"coffer.shard_digests\": \"", "\"coffer.shard_digests\": 17, \"other\": \"" },
        { "\"coffer.shard_digests\": \"", "\"coffer.shard_digests\": null, \"other\": \"" },
        { "\"coffer.content_digest\": \"", "\"coffer.content_digest\": \"\", \"other\": \"" },
        { "\"coffer.content_digest\": \"", "\"coffer.content_digest\": \"1:sha256:\", \"other\": \"" },
        { "\"coffer.content_digest\": \"1", "\"coffer.content_digest\": \"\\u0031" },
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        save_with(1, COFFER_SHA256);
        edit_index(changes[i][0], changes[i][1]);
        noticed(COFFER_ERR_DIGESTS, INDEX);
    }
    /* Neither is there: what the files record counts alone. */
    edit_index("\"coffer.content_digest\"", "\"a\"");
    save_with(1, COFFER_SHA256);
    edit_index("\"coffer.content_digest\": \"", "\"coffer.content_digest\": null, \"a\": \"");
    edit_index("\"coffer.shard_digests\": \"", "\"coffer.shard_digests\": null, \"b\": \"");
    assert_verifies(INDEX);
    coffer *model = open_with(INDEX, NULL);
    assert_int_equal(coffer_recorded_content(model), COFFER_NO_ALGORITHM);
    coffer_close(model);
}

/* Metadata of one file may change, and its tensors may be recorded again: they are the same. */
static void edits_that_change_no_tensor(void **state)
{
    (void)state;
    save_with(1, COFFER_SHA256);
    assert_int_equal(set_key(SECOND, "licence", "none", NULL), COFFER_OK);
    assert_int_equal(coffer_record_digests(work_path(SECOND), COFFER_SHA256, NULL, NULL, NULL), COFFER_OK);
    assert_verifies(INDEX);
    assert_int_equal(coffer_record_digests(work_path(SECOND), COFFER_XXH3_128, NULL, NULL, NULL), COFFER_OK);
    noticed(COFFER_ERR_CONTENT_DIGEST, SECOND);
    assert_int_equal(coffer_record_digests(work_path(INDEX), COFFER_XXH3_128, NULL, NULL, NULL), COFFER_OK);
    assert_verifies(INDEX);
}

static coffer_status open_selected(const char *pattern, coffer_error *err)
{
    coffer *model = NULL;
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.verify = COFFER_VERIFY_ALL;
    options.select = &pattern;
    options.select_count = 1;
    const coffer_status status = coffer_open(&model, work_path(INDEX), &options, err);
    coffer_close(model);
    return status;
}

/* Of a model that is opened in part the files that are open count. */
static void a_selection(void **state)
{
    (void)state;
    coffer_error err;
    save_with(1, COFFER_SHA256);
    assert_int_equal(open_selected("t0", &err), COFFER_OK);
    mix(SECOND, COFFER_SHA256);
    assert_int_equal(open_selected("t0", &err), COFFER_OK);
    assert_int_equal(open_selected("t3", &err), COFFER_ERR_CONTENT_DIGEST);
    assert_string_equal(err.path, work_path(SECOND));
}

/* Fetches the model into a folder of its own and opens it there; the folder is removed again. */
static void fetch_and_look(const bool *wanted, coffer_algorithm recorded)
{
    char folder[4200];
    char path[4300];
    coffer *model = open_with(INDEX, NULL);
    (void)snprintf(folder, sizeof folder, "%s", work_path("fetched"));
    assert_int_equal(mkdir(folder, 0700), 0);
    const coffer_tensor *tensors[COUNT];
    size_t count = 0;
    for (size_t i = coffer_count(model); i > 0; i--) { /* in any order */
        tensors[count] = coffer_at(model, i - 1);
        count += wanted == NULL || wanted[i - 1];
    }
    assert_int_equal(coffer_fetch(model, wanted == NULL ? NULL : tensors, count, folder, NULL, NULL), COFFER_OK);
    coffer_close(model);
    (void)snprintf(path, sizeof path, "%s/" INDEX, folder);
    assert_int_equal(coffer_open(&model, path, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_recorded_content(model), recorded);
    const coffer_tensor *none = NULL;
    assert_int_equal(coffer_verify(model, &none, 0, NULL, NULL, NULL), COFFER_OK);
    coffer_close(model);
    static const char *const files[] = { INDEX, FIRST, SECOND, THIRD };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        (void)unlink(path);
    }
    assert_int_equal(rmdir(folder), 0);
}

/* A part of a model is not what the digests of the whole are of. */
static void what_is_fetched(void **state)
{
    (void)state;
    static const bool some[COUNT] = { true, false, true, true, false, true };
    save_with(1, COFFER_SHA256);
    fetch_and_look(NULL, COFFER_SHA256);
    fetch_and_look(some, COFFER_NO_ALGORITHM);
    /* Where the digests stand before the size, and between other things. */
    edit_index("\"total_size\": 255,\n", "");
    edit_index("\n  },", ",\n \"total_size\": 255 },");
    assert_verifies(INDEX);
    fetch_and_look(some, COFFER_NO_ALGORITHM);
    edit_index("\"total_size\"", "\"other_size\"");
    fetch_and_look(some, COFFER_NO_ALGORITHM);
}

/* ---- recording afterwards ---------------------------------------------------------------------------------------- */

/* An index with other metadata, in which the rest has to stay as it is spelt. */
static void with_index(const char *metadata)
{
    char text[1000];
    snprintf(text, sizeof text,
             "{ %s \"weight_map\" : {\"t0\":\"" FIRST "\", \"t1\":\"" FIRST "\",\"t2\":\"" SECOND "\",\"t3\":\"" SECOND
             "\",\"t4\":\"" THIRD "\",\t\"t5\":\"" THIRD "\"} }\n",
             metadata);
    file_write(INDEX, (const uint8_t *)text, strlen(text));
}

static void every_kind_of_index(void **state)
{
    (void)state;
    static const char *const all[] = {
        "",
        "\"metadata\": null ,",
        "\"metadata\":{},",
        "\"metadata\": {  },",
        "\"metadata\": {\"total_size\": 255},",
        "\"metadata\": { \"total_size\" : 255 , \"x\": {\"coffer.content_digest\": 1} },",
        "\"metadata\": {\"coffer.shard_digests\": 1, \"y\": [], \"coffer.content_digest\": \"\"},",
        "\"metadata\": {\"coffer.content_digest\":null},",
        "\"metadata\": {\"a\": 1, \"coffer.shard_digests\": \"old\" },",
        "\"other\": {\"metadata\": 2}, \"metadata\": {\"a\": \"\\u0041\"},",
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        save_with(1, COFFER_XXH3_128);
        with_index(all[i]);
        coffer_edit_way way = COFFER_EDITED_NOTHING;
        assert_int_equal(coffer_record_content(work_path(INDEX), NULL, &way, NULL), COFFER_OK);
        assert_int_equal(way, COFFER_EDITED_REWRITE);
        assert_verifies(INDEX);
        coffer *model = open_with(INDEX, NULL);
        assert_int_equal(coffer_recorded_content(model), COFFER_XXH3_128);
        coffer_close(model);
        size_t size = 0;
        uint8_t *text = file_read(INDEX, &size);
        assert_non_null(memmem(text, size, "\"weight_map\" : {\"t0\":", 21));
        assert_non_null(memmem(text, size, ",\t\"t5\":\"" THIRD "\"} }\n", 42));
        if (strstr(all[i], "\\u0041") != NULL) {
            assert_non_null(memmem(text, size, "\"a\": \"\\u0041\"}", 14));
        }
        free(text);
        assert_int_equal(coffer_record_content(work_path(INDEX), NULL, &way, NULL), COFFER_OK);
        assert_int_equal(way, COFFER_EDITED_NOTHING);
        mix(FIRST, COFFER_XXH3_128);
        noticed(COFFER_ERR_CONTENT_DIGEST, FIRST);
    }
}

static void what_cannot_be_recorded(void **state)
{
    (void)state;
    coffer_error err;
    save_with(1, COFFER_NO_ALGORITHM);
    assert_int_equal(coffer_record_content(work_path(INDEX), NULL, NULL, &err), COFFER_ERR_NO_DIGESTS);
    assert_string_equal(err.path, work_path(FIRST));
    assert_int_equal(coffer_record_content(work_path(FIRST), NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_record_content(work_path("nothing"), NULL, NULL, &err), COFFER_ERR_NOT_FOUND);
    assert_int_equal(coffer_record_digests(work_path(INDEX), COFFER_SHA256, NULL, NULL, NULL), COFFER_OK);
    assert_verifies(INDEX);
    /* By its folder, too. */
    assert_int_equal(coffer_record_digests(work_path(""), COFFER_XXH3_128, NULL, NULL, NULL), COFFER_OK);
    assert_verifies(INDEX);
    assert_int_equal(coffer_record_digests(work_path(SECOND), COFFER_SHA256, NULL, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_record_content(work_path(INDEX), NULL, NULL, &err), COFFER_ERR_DIGESTS);
    assert_string_equal(err.path, work_path(SECOND));
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    options.sync = (coffer_sync)9;
    assert_int_equal(coffer_record_content(work_path(INDEX), &options, NULL, &err), COFFER_ERR_ARGUMENT);
}

/* An index that is a link is another's, and one that is being saved is the saver's. */
static void links_and_locks(void **state)
{
    (void)state;
    coffer_error err;
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    save_with(1, COFFER_SHA256);
    edit_index("\"coffer.content_digest\"", "\"a\"");
    const int folder = open(work_path(""), O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(folder, LOCK_EX), 0);
    assert_int_equal(coffer_record_content(work_path(INDEX), NULL, NULL, &err), COFFER_ERR_LOCKED);
    assert_int_equal(close(folder), 0);
    rename_file(INDEX, "real.json");
    assert_int_equal(symlink("real.json", work_path(INDEX)), 0);
    assert_int_equal(coffer_record_content(work_path(INDEX), NULL, NULL, &err), COFFER_ERR_LINKED);
    assert_string_equal(err.path, work_path(INDEX));
    options.follow_links = true;
    assert_int_equal(coffer_record_content(work_path(INDEX), &options, NULL, &err), COFFER_OK);
    assert_verifies(INDEX);
    assert_int_equal(unlink(work_path(INDEX)), 0);
    rename_file("real.json", INDEX);
    assert_verifies(INDEX);
}

static coffer_status record_and_verify(const coffer_allocator *allocator)
{
    coffer_edit_options editing = COFFER_EDIT_OPTIONS_INIT;
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    coffer *model = NULL;
    editing.allocator = allocator;
    options.allocator = allocator;
    options.verify = COFFER_VERIFY_ALL;
    coffer_status status = coffer_record_content(work_path(INDEX), &editing, NULL, NULL);
    status = status == COFFER_OK ? coffer_open(&model, work_path(INDEX), &options, NULL) : status;
    status = status == COFFER_OK ? coffer_verify(model, NULL, COUNT, NULL, NULL, NULL) : status;
    coffer_close(model);
    return status;
}

static void memory_that_fails_for_the_whole(void **state)
{
    (void)state;
    save_with(1, COFFER_XXH3_128);
    coffer_status status = COFFER_ERR_MEMORY;
    for (size_t fail_at = 1; status == COFFER_ERR_MEMORY; fail_at++) {
        with_index("\"metadata\": {},");
        memory_meter meter;
        const coffer_allocator allocator = metered_allocator(&meter);
        meter.fail_at = fail_at;
        status = record_and_verify(&allocator);
        assert_true(status == COFFER_OK || status == COFFER_ERR_MEMORY);
        assert_int_equal(meter.blocks, 0);
        assert_true(status == COFFER_ERR_MEMORY || fail_at > 60);
    }
    /* The same while a model is saved, once it is declared. */
    memory_meter declaring;
    const coffer_allocator declarer = metered_allocator(&declaring);
    coffer_header_free(model_header(COUNT, &declarer));
    status = COFFER_ERR_MEMORY;
    for (size_t fail_at = declaring.requests + 1; status != COFFER_OK; fail_at++) {
        coffer_writer_options files = COFFER_WRITER_OPTIONS_INIT;
        coffer_model_writer_options options = COFFER_MODEL_WRITER_OPTIONS_INIT;
        memory_meter meter;
        const coffer_allocator allocator = metered_allocator(&meter);
        files.digests = COFFER_XXH3_128;
        options.files = &files;
        meter.fail_at = fail_at;
        status = model_save(COUNT, 3, LIMIT, &options, &allocator, NULL);
        if (status == COFFER_ERR_UNFINISHED) { /* after the decision the save is finished by whoever comes next */
            assert_int_equal(coffer_recover(work_path("model.safetensors"), NULL, NULL), COFFER_OK);
        } else {
            assert_true(status == COFFER_OK || status == COFFER_ERR_MEMORY);
        }
        assert_int_equal(meter.blocks, 0);
        assert_verifies(INDEX);
    }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, work_dir_set_up, work_dir_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_index_records_the_content),
        TEST(the_digest_of_the_vectors),
        TEST(a_file_of_another_version),
        TEST(a_file_without_digests),
        TEST(a_file_that_is_left_out),
        TEST(a_content_digest_of_something_else),
        TEST(digests_of_the_whole_that_cannot_be_used),
        TEST(edits_that_change_no_tensor),
        TEST(a_selection),
        TEST(what_is_fetched),
        TEST(every_kind_of_index),
        TEST(what_cannot_be_recorded),
        TEST(links_and_locks),
        TEST(memory_that_fails_for_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
