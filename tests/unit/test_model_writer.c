/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model written as several files: that every byte comes to its place, whatever the order and the threads in which it was
 * written, and that what is refused leaves nothing behind. (What crashes leave is test_commit.c's.)
 */
#include "support_cmocka.h"

#include "coffer.h"
#include "support_file.h"
#include "support_header.h"
#include "support_memory.h"
#include "support_model.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INDEX "model.safetensors.index.json"

static coffer_model_writer *open_writer(const coffer_header *header, uint64_t limit)
{
    coffer_model_writer *writer = NULL;
    coffer_model_writer_options options = COFFER_MODEL_WRITER_OPTIONS_INIT;
    options.max_shard_size = limit;
    assert_int_equal(coffer_model_writer_open(&writer, header, work_path("model.safetensors"), &options, NULL),
                     COFFER_OK);
    return writer;
}

/* The tensor is in the file, with bytes that count up from `seed`. */
static void assert_tensor(const char *file, const char *name, uint64_t size, uint8_t seed)
{
    coffer *model = NULL;
    assert_int_equal(coffer_open(&model, work_path(file), NULL, NULL), COFFER_OK);
    const coffer_tensor *tensor = tensor_named(model, name);
    assert_non_null(tensor);
    assert_int_equal(tensor->size, size);
    uint8_t *bytes = malloc((size_t)size + 1);
    assert_int_equal(coffer_read(model, tensor, bytes, size, NULL, NULL), COFFER_OK);
    for (uint64_t k = 0; k < size; k++) {
        assert_int_equal(bytes[k], (uint8_t)(seed + k));
    }
    free(bytes);
    coffer_close(model);
}

static void assert_metadata(const char *file, const char *key, const char *value)
{
    coffer *model = NULL;
    assert_int_equal(coffer_open(&model, work_path(file), NULL, NULL), COFFER_OK);
    assert_string_equal(coffer_table_metadata_get(coffer_shard_table(model, 0), key, strlen(key), NULL), value);
    coffer_close(model);
}

static void assert_text(const char *file, const char *expected)
{
    size_t size = 0;
    char *text = (char *)file_read(file, &size);
    assert_int_equal(size, strlen(expected));
    assert_memory_equal(text, expected, size);
    free(text);
}

static void test_files_and_index(void **state)
{
    (void)state;
    assert_int_equal(model_save(4, 7, 90, NULL, coffer_libc_allocator(), NULL), COFFER_OK);
    assert_int_equal(work_dir_count(), 3);
    assert_tensor("model-00001-of-00002.safetensors", "t0", 40, 7);
    assert_tensor("model-00001-of-00002.safetensors", "t1", 41, 7);
    assert_tensor("model-00002-of-00002.safetensors", "t2", 42, 7);
    assert_tensor("model-00002-of-00002.safetensors", "t3", 43, 7);
    assert_metadata("model-00001-of-00002.safetensors", "format", "pt");
    assert_metadata("model-00002-of-00002.safetensors", "format", "pt");
    assert_text(INDEX, "{\n  \"metadata\": {\n    \"total_size\": 166\n  },\n  \"weight_map\": {\n"
                       "    \"t0\": \"model-00001-of-00002.safetensors\",\n"
                       "    \"t1\": \"model-00001-of-00002.safetensors\",\n"
                       "    \"t2\": \"model-00002-of-00002.safetensors\",\n"
                       "    \"t3\": \"model-00002-of-00002.safetensors\"\n  }\n}");
}

static void test_one_file(void **state)
{
    (void)state;
    assert_int_equal(model_save(4, 7, 0, NULL, coffer_libc_allocator(), NULL), COFFER_OK);
    assert_int_equal(work_dir_count(), 1);
    assert_tensor("model.safetensors", "t3", 43, 7);
}

static void test_plan(void **state)
{
    (void)state;
    coffer_header *header = model_header(3, coffer_libc_allocator());
    coffer_model_writer *writer = open_writer(header, 80);
    assert_int_equal(coffer_model_writer_shard_count(writer), 3);
    assert_string_equal(coffer_model_writer_shard_name(writer, 0), "model-00001-of-00003.safetensors");
    assert_string_equal(coffer_model_writer_shard_name(writer, 2), "model-00003-of-00003.safetensors");
    assert_null(coffer_model_writer_shard_name(writer, 3));
    assert_int_equal(coffer_model_writer_shard_of(writer, 2), 2);
    assert_true(coffer_model_writer_shard_of(writer, 3) == SIZE_MAX);
    coffer_model_writer_free(writer);
    coffer_header_free(header);
    assert_int_equal(work_dir_count(), 0);
}

static void test_empty_tensors(void **state)
{
    (void)state;
    coffer_header *header = new_header();
    coffer_model_writer *writer = open_writer(header, 10);
    assert_int_equal(coffer_model_writer_finish(writer, NULL), COFFER_OK);
    coffer_model_writer_free(writer);
    assert_int_equal(work_dir_count(), 1);
    add_tensor(header, "a", COFFER_F32, 1, 0, 0);
    add_tensor(header, "b", COFFER_U8, 1, 11, 0);
    /* The model of one file would hide the new index. */
    assert_int_equal(remove(work_path("model.safetensors")), 0);
    writer = open_writer(header, 10);
    assert_int_equal(coffer_model_writer_write(writer, 0, 0, NULL, 0, NULL), COFFER_OK);
    assert_int_equal(coffer_model_writer_write(writer, 1, 0, "0123456789:", 11, NULL), COFFER_OK);
    assert_int_equal(coffer_model_writer_write(writer, 1, 11, NULL, 0, NULL), COFFER_OK);
    assert_int_equal(coffer_model_writer_finish(writer, NULL), COFFER_OK);
    coffer_model_writer_free(writer);
    coffer_header_free(header);
    assert_tensor("model-00001-of-00002.safetensors", "b", 11, '0');
    assert_tensor("model-00002-of-00002.safetensors", "a", 0, 0);
}

/* ---- pieces and threads ---------------------------------------------------------------------------------------------- */

#define PIECE_TENSORS 40

typedef struct piece_job {
    coffer_model_writer *writer;
    size_t first; /* byte of every tensor, and from there on each fourth one */
} piece_job;

static void *write_pieces(void *arg)
{
    const piece_job *job = arg;
    for (size_t i = PIECE_TENSORS; i-- > 0;) {
        for (size_t at = job->first; at < 40 + i; at += 4) {
            const uint8_t byte = (uint8_t)(3 + at);
            assert_int_equal(coffer_model_writer_write(job->writer, i, at, &byte, 1, NULL), COFFER_OK);
        }
    }
    return NULL;
}

static void test_pieces_of_threads(void **state)
{
    (void)state;
    coffer_header *header = model_header(PIECE_TENSORS, coffer_libc_allocator());
    coffer_model_writer *writer = open_writer(header, 300);
    pthread_t threads[4];
    piece_job jobs[4];
    for (size_t i = 0; i < 4; i++) {
        jobs[i] = (piece_job){ writer, i };
        assert_int_equal(pthread_create(&threads[i], NULL, write_pieces, &jobs[i]), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(coffer_model_writer_finish(writer, NULL), COFFER_OK);
    for (size_t i = 0; i < PIECE_TENSORS; i++) {
        char name[32];
        snprintf(name, sizeof name, "t%zu", i);
        assert_tensor(coffer_model_writer_shard_name(writer, coffer_model_writer_shard_of(writer, i)), name, 40 + i, 3);
    }
    coffer_model_writer_free(writer);
    coffer_header_free(header);
}

/* ---- copies ---------------------------------------------------------------------------------------------------------- */

typedef struct reported {
    uint64_t last;
    uint64_t total;
    unsigned calls;
    unsigned stop_at;
} reported;

static int tell(void *ctx, uint64_t done, uint64_t total)
{
    reported *of = ctx;
    assert_true(done >= of->last && done <= total);
    of->last = done;
    of->total = total;
    of->calls++;
    return of->calls == of->stop_at;
}

/* Copies the tensors of "source.safetensors", which become 0, 1, 2… in the opposite order. */
static coffer_status copy_turned(coffer_model_writer *writer, const coffer *source, reported *of, coffer_error *err)
{
    coffer_copy copies[8];
    coffer_read_options options = COFFER_READ_OPTIONS_INIT;
    options.progress = tell;
    options.progress_ctx = of;
    const size_t count = coffer_count(source);
    for (size_t i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "t%zu", i);
        copies[count - 1 - i] = (coffer_copy){ i, source, tensor_named(source, name) };
    }
    return coffer_model_writer_copy(writer, copies, count, &options, err);
}

static coffer *open_source(void)
{
    coffer *source = NULL;
    assert_int_equal(model_save(5, 9, 0, NULL, coffer_libc_allocator(), NULL), COFFER_OK);
    assert_int_equal(rename(work_path("model.safetensors"), work_path("source.safetensors")), 0);
    assert_int_equal(coffer_open(&source, work_path("source.safetensors"), NULL, NULL), COFFER_OK);
    return source;
}

static void test_copy(void **state)
{
    (void)state;
    coffer *source = open_source();
    coffer_header *header = model_header(5, coffer_libc_allocator());
    coffer_model_writer *writer = open_writer(header, 90);
    reported of = { 0 };
    assert_int_equal(copy_turned(writer, source, &of, NULL), COFFER_OK);
    assert_int_equal(of.last, 40 + 41 + 42 + 43 + 44);
    assert_int_equal(of.total, of.last);
    assert_int_equal(of.calls, 3);
    assert_int_equal(coffer_model_writer_copy(writer, NULL, 0, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_model_writer_finish(writer, NULL), COFFER_OK);
    coffer_model_writer_free(writer);
    coffer_header_free(header);
    coffer_close(source);
    assert_tensor("model-00001-of-00003.safetensors", "t1", 41, 9);
    assert_tensor("model-00003-of-00003.safetensors", "t4", 44, 9);
}

static void test_copy_cancelled(void **state)
{
    (void)state;
    coffer *source = open_source();
    coffer_header *header = model_header(5, coffer_libc_allocator());
    coffer_model_writer *writer = open_writer(header, 90);
    reported of = { .stop_at = 2 };
    assert_int_equal(copy_turned(writer, source, &of, NULL), COFFER_ERR_CANCELLED);
    assert_int_equal(coffer_model_writer_finish(writer, NULL), COFFER_ERR_ARGUMENT);
    coffer_model_writer_free(writer);
    coffer_header_free(header);
    coffer_close(source);
    assert_int_equal(work_dir_count(), 1);
}

static void test_copy_refused(void **state)
{
    (void)state;
    coffer_error err;
    coffer *source = open_source();
    coffer_header *header = model_header(5, coffer_libc_allocator());
    const coffer_tensor *tensor = tensor_named(source, "t1");
    const struct {
        coffer_copy copy;
        coffer_status status;
    } cases[] = {
        { { 0, source, tensor }, COFFER_ERR_WRITE_RANGE },
        { { 5, source, tensor }, COFFER_ERR_ARGUMENT },
        { { 1, source, NULL }, COFFER_ERR_ARGUMENT },
        { { 1, NULL, tensor }, COFFER_ERR_ARGUMENT },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        coffer_model_writer *writer = open_writer(header, 90);
        assert_int_equal(coffer_model_writer_copy(writer, &cases[i].copy, 1, NULL, &err), cases[i].status);
        assert_int_equal(err.code, cases[i].status);
        coffer_model_writer_free(writer);
    }
    coffer_header_free(header);
    coffer_close(source);
    assert_int_equal(work_dir_count(), 1);
}

/* ---- what is refused ------------------------------------------------------------------------------------------------- */

static void test_missing_data(void **state)
{
    (void)state;
    coffer_error err;
    coffer_header *header = model_header(4, coffer_libc_allocator());
    coffer_model_writer *writer = open_writer(header, 90);
    uint8_t bytes[64] = { 0 };
    assert_int_equal(coffer_model_writer_write(writer, 0, 0, bytes, 40, NULL), COFFER_OK);
    assert_int_equal(coffer_model_writer_write(writer, 1, 0, bytes, 40, NULL), COFFER_OK);
    assert_int_equal(coffer_model_writer_finish(writer, &err), COFFER_ERR_MISSING_DATA);
    assert_string_equal(err.tensor, "t1");
    assert_string_equal(err.path, work_path("model-00001-of-00002.safetensors"));
    assert_int_equal(err.expected, 41);
    assert_int_equal(err.actual, 40);
    coffer_model_writer_free(writer);
    coffer_header_free(header);
    assert_int_equal(work_dir_count(), 0);
}

static void test_bytes_twice(void **state)
{
    (void)state;
    coffer_error err;
    coffer_header *header = model_header(2, coffer_libc_allocator());
    uint8_t bytes[64] = { 0 };
    coffer_model_writer *writer = open_writer(header, 50);
    assert_int_equal(coffer_model_writer_write(writer, 0, 0, bytes, 10, NULL), COFFER_OK);
    assert_int_equal(coffer_model_writer_write(writer, 0, 9, bytes, 10, &err), COFFER_ERR_WRITE_RANGE);
    assert_string_equal(err.path, work_path("model-00001-of-00002.safetensors"));
    assert_int_equal(coffer_model_writer_write(writer, 1, 0, bytes, 41, &err), COFFER_ERR_ARGUMENT);
    coffer_model_writer_free(writer);
    writer = open_writer(header, 50);
    assert_int_equal(coffer_model_writer_write(writer, 0, 0, bytes, 40, NULL), COFFER_OK);
    assert_int_equal(coffer_model_writer_write(writer, 0, 0, bytes, 1, &err), COFFER_ERR_WRITE_RANGE);
    coffer_model_writer_free(writer);
    writer = open_writer(header, 50);
    assert_int_equal(coffer_model_writer_write(writer, 2, 0, bytes, 1, &err), COFFER_ERR_ARGUMENT);
    coffer_model_writer_free(writer);
    coffer_header_free(header);
    assert_int_equal(work_dir_count(), 0);
}

static void assert_not_opened(const coffer_header *header, const char *path, const coffer_model_writer_options *options,
                              coffer_status expected)
{
    coffer_error err;
    coffer_model_writer *writer = (coffer_model_writer *)&err;
    assert_int_equal(coffer_model_writer_open(&writer, header, path, options, &err), expected);
    assert_null(writer);
    assert_int_equal(err.code, expected);
    assert_int_equal(err.offset, COFFER_NO_OFFSET);
    assert_int_equal(work_dir_count(), 0);
}

static void test_wrong_calls(void **state)
{
    (void)state;
    coffer_header *header = model_header(2, coffer_libc_allocator());
    coffer_writer_options files = COFFER_WRITER_OPTIONS_INIT;
    coffer_model_writer_options options = COFFER_MODEL_WRITER_OPTIONS_INIT;
    const char *path = work_path("model.safetensors");
    assert_int_equal(coffer_model_writer_open(NULL, header, path, NULL, NULL), COFFER_ERR_ARGUMENT);
    assert_not_opened(NULL, path, NULL, COFFER_ERR_ARGUMENT);
    assert_not_opened(header, NULL, NULL, COFFER_ERR_ARGUMENT);
    assert_not_opened(header, work_path("model.bt"), NULL, COFFER_ERR_ARGUMENT);
    assert_not_opened(header, work_path("a:b.safetensors"), NULL, COFFER_ERR_ARGUMENT);
    assert_not_opened(header, work_path("no/model.safetensors"), NULL, COFFER_ERR_NOT_FOUND);
    options.files = &files;
    files.in_place = true;
    assert_not_opened(header, path, &options, COFFER_ERR_ARGUMENT);
    files.in_place = false;
    files.format = COFFER_FORMAT_BINTENSORS;
    assert_not_opened(header, path, &options, COFFER_ERR_ARGUMENT);
    files.format = COFFER_FORMAT_SAFETENSORS;
    files.sync = (coffer_sync)3;
    assert_not_opened(header, path, &options, COFFER_ERR_ARGUMENT);
    files.struct_size = 0;
    assert_not_opened(header, path, &options, COFFER_ERR_ARGUMENT);
    char name[256];
    memset(name, 'm', sizeof name);
    strcpy(name + 230, ".safetensors");
    assert_not_opened(header, work_path(name), NULL, COFFER_ERR_IO);
    assert_int_equal(coffer_model_writer_write(NULL, 0, 0, "", 0, NULL), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_model_writer_copy(NULL, NULL, 0, NULL, NULL), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_model_writer_finish(NULL, NULL), COFFER_ERR_ARGUMENT);
    coffer_model_writer_free(NULL);
    coffer_header_free(header);
}

/* What a file cannot replace is noticed before anything is written, and not when there is no way back. */
static void test_names_that_are_taken(void **state)
{
    (void)state;
    static const char *const names[] = { "model.safetensors", INDEX, "model-00002-of-00002.safetensors" };
    coffer_model_writer_options options = COFFER_MODEL_WRITER_OPTIONS_INIT;
    options.force = true;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        coffer_error err;
        assert_int_equal(mkdir(work_path(names[i]), 0700), 0);
        assert_int_equal(model_save(4, 7, 90, &options, coffer_libc_allocator(), &err), COFFER_ERR_DIRECTORY);
        assert_string_equal(err.path, work_path(names[i]));
        assert_int_equal(work_dir_count(), 1);
        assert_int_equal(rmdir(work_path(names[i])), 0);
        assert_int_equal(mkfifo(work_path(names[i]), 0600), 0);
        assert_int_equal(model_save(4, 7, 90, &options, coffer_libc_allocator(), &err), COFFER_ERR_NOT_REGULAR);
        assert_string_equal(err.path, work_path(names[i]));
        assert_int_equal(work_dir_count(), 1);
        assert_int_equal(unlink(work_path(names[i])), 0);
    }
}

static void test_too_many_files(void **state)
{
    (void)state;
    coffer_header *header = new_header();
    coffer_model_writer_options options = COFFER_MODEL_WRITER_OPTIONS_INIT;
    options.max_shard_size = 1;
    for (size_t i = 0; i <= 100000; i++) {
        char name[32];
        snprintf(name, sizeof name, "%zu", i);
        add_tensor(header, name, COFFER_U8, 1, 1, 0);
    }
    coffer_error err;
    coffer_model_writer *writer = NULL;
    assert_int_equal(coffer_model_writer_open(&writer, header, work_path("model.safetensors"), &options, &err),
                     COFFER_ERR_ARGUMENT);
    assert_int_equal(err.expected, 100000);
    assert_int_equal(err.actual, 100001);
    coffer_header_free(header);
    assert_int_equal(work_dir_count(), 0);
}

static void test_without_memory(void **state)
{
    (void)state;
    memory_meter meter = { 0 };
    const coffer_allocator allocator = metered_allocator(&meter);
    coffer_status status = COFFER_ERR_MEMORY;
    coffer_header *header = model_header(4, &allocator);
    const size_t before = meter.blocks;
    size_t failures = 0;
    const uint8_t bytes[64] = { 0 };
    while (status != COFFER_OK) {
        coffer_model_writer *writer = NULL;
        coffer_model_writer_options options = COFFER_MODEL_WRITER_OPTIONS_INIT;
        options.max_shard_size = 90;
        meter.fail_at = meter.requests + ++failures;
        status = coffer_model_writer_open(&writer, header, work_path("model.safetensors"), &options, NULL);
        for (size_t i = 0; i < 4 && status == COFFER_OK; i++) {
            status = coffer_model_writer_write(writer, i, 0, bytes, 40 + i, NULL);
        }
        status = status == COFFER_OK ? coffer_model_writer_finish(writer, NULL) : status;
        meter.fail_at = 0;
        coffer_model_writer_free(writer);
        assert_int_equal(meter.blocks, before);
        if (status == COFFER_ERR_UNFINISHED) {
            assert_int_equal(coffer_recover(work_path("model.safetensors"), NULL, NULL), COFFER_OK);
            assert_int_equal(work_dir_count(), 3);
            work_dir_remove();
            work_dir_make();
        } else if (status != COFFER_OK) {
            assert_int_equal(status, COFFER_ERR_MEMORY);
            assert_int_equal(work_dir_count(), 0);
        }
    }
    assert_true(failures > 20);
    coffer_header_free(header);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, work_dir_set_up, work_dir_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_files_and_index),      TEST(test_one_file),          TEST(test_plan),
        TEST(test_empty_tensors),        TEST(test_pieces_of_threads), TEST(test_copy),
        TEST(test_copy_cancelled),       TEST(test_copy_refused),      TEST(test_missing_data),
        TEST(test_bytes_twice),          TEST(test_wrong_calls),       TEST(test_too_many_files),
        TEST(test_names_that_are_taken), TEST(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
