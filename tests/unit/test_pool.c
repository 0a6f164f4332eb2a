/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Models of more files than a process may have open. Files are closed and opened again behind the user's back, so that has to
 * be right with many threads, whatever the working directory is; and a file that was replaced meanwhile must never be read as
 * if it were the one whose header is known.
 */
#define _GNU_SOURCE /* RTLD_NEXT, of what faulty_calls.h needs */

#include "support_cmocka.h"

#include "coffer.h"
#include "faulty_calls.h"
#include "support_file.h"
#include "support_model.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define MANY 10000u
#define SOME 100u
#define KEPT 64u /* descriptors that a model keeps open */
#define THREADS 8
#define BODY 4u

static unsigned shard_count;

static const char *shard_name(unsigned i)
{
    static char names[8][64];
    static unsigned next;
    char *name = names[next++ % 8];
    snprintf(name, sizeof names[0], "m-%05u-of-%05u.safetensors", i + 1, shard_count);
    return name;
}

/* A file of one tensor, whose bytes are the file's number. */
static void write_shard(unsigned i)
{
    uint8_t file[128] = { 0 };
    const int header = snprintf((char *)file + 8, sizeof file - 8,
                                "{\"t%05u\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", i);
    file[0] = (uint8_t)header;
    for (unsigned k = 0; k < BODY; k++) {
        file[8 + (unsigned)header + k] = (uint8_t)(i >> (8 * k));
    }
    file_write(shard_name(i), file, 8 + (size_t)header + BODY);
}

static void write_model(unsigned count)
{
    shard_count = count;
    work_dir_make();
    FILE *index = fopen(work_path("m.safetensors.index.json"), "w");
    assert_non_null(index);
    for (unsigned i = 0; i < count; i++) {
        write_shard(i);
        fprintf(index, "%s\"t%05u\": \"%s\"", i == 0 ? "{\"weight_map\": {" : ", ", i, shard_name(i));
    }
    fprintf(index, "}}");
    assert_int_equal(fclose(index), 0);
}

static int some_files(void **state)
{
    (void)state;
    write_model(SOME);
    return 0;
}

static int many_files(void **state)
{
    (void)state;
    write_model(MANY);
    return 0;
}

static coffer *open_model(const char *path)
{
    coffer *model = NULL;
    coffer_error err;
    const coffer_status status = coffer_open(&model, path, NULL, &err);
    if (status != COFFER_OK) {
        fail_msg("%s: %s", err.path, err.message);
    }
    return model;
}

static const coffer_tensor *tensor_of(const coffer *model, unsigned i)
{
    char name[16];
    snprintf(name, sizeof name, "t%05u", i);
    const coffer_tensor *tensor = tensor_named(model, name);
    assert_non_null(tensor);
    return tensor;
}

static unsigned value_of(const uint8_t *bytes)
{
    return bytes[0] | (unsigned)bytes[1] << 8 | (unsigned)bytes[2] << 16 | (unsigned)bytes[3] << 24;
}

static unsigned read_value(const coffer *model, unsigned i)
{
    uint8_t bytes[BODY];
    assert_int_equal(coffer_read(model, tensor_of(model, i), bytes, BODY, NULL, NULL), COFFER_OK);
    return value_of(bytes);
}

/* ---- many threads ------------------------------------------------------------------------------------------------ */

typedef struct reader {
    pthread_t thread;
    const coffer *model;
    unsigned first;
    unsigned wrong;
} reader;

/* Reads and maps, each thread in an order of its own, so that files are opened and closed under each other's feet. */
static void *read_all(void *arg)
{
    reader *r = arg;
    for (unsigned n = 0; n < shard_count; n++) {
        const unsigned i = (r->first + n * 7919u) % shard_count;
        uint8_t bytes[BODY];
        const coffer_tensor *tensor = coffer_at(r->model, i);
        r->wrong += coffer_read(r->model, tensor, bytes, BODY, NULL, NULL) != COFFER_OK || value_of(bytes) != i;
        if (i % 16 == 0) {
            const uint8_t *data = coffer_data(r->model, tensor, NULL);
            r->wrong += data == NULL || value_of(data) != i;
        }
    }
    return NULL;
}

static void assert_threads_read(const coffer *model)
{
    reader readers[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        readers[i] = (reader){ .model = model, .first = i * 13 };
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_all, &readers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(readers[i].thread, NULL), 0);
        assert_int_equal(readers[i].wrong, 0);
    }
}

/* ---- the tests --------------------------------------------------------------------------------------------------- */

static void ten_thousand_files_with_256_descriptors(void **state)
{
    (void)state;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit few = { 256, before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    const size_t others = open_descriptors();
    coffer *model = open_model(work_path("m.safetensors.index.json"));
    assert_int_equal(coffer_shard_count(model), MANY);
    assert_int_equal(coffer_count(model), MANY);
    assert_true(open_descriptors() <= others + KEPT);
    coffer_read_target *targets = calloc(MANY, sizeof *targets);
    uint8_t *bytes = calloc(MANY, BODY);
    assert_true(targets != NULL && bytes != NULL);
    for (unsigned i = 0; i < MANY; i++) {
        targets[i] = (coffer_read_target){ tensor_of(model, i), bytes + (size_t)i * BODY, BODY };
    }
    assert_int_equal(coffer_read_many(model, targets, MANY, NULL, NULL), COFFER_OK);
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(value_of(bytes + (size_t)i * BODY), i);
    }
    assert_true(open_descriptors() <= others + KEPT);
    assert_threads_read(model);
    assert_true(open_descriptors() <= others + KEPT);
    coffer_close(model);
    assert_int_equal(open_descriptors(), others);
    free(bytes);
    free(targets);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* From now on no descriptor has a number as high as this. */
static void limit_descriptors(rlim_t most)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = most;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void a_process_without_descriptors_left(void **state)
{
    (void)state;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    coffer *model = open_model(work_path("m.safetensors.index.json"));
    /* Everything is taken: the model gets on with those that it has. */
    const int next = dup(0);
    assert_int_equal(close(next), 0);
    limit_descriptors((rlim_t)next);
    for (unsigned i = 0; i < SOME; i++) {
        assert_int_equal(read_value(model, i), i);
    }
    /* And there is none at all: what was closed cannot be opened. */
    limit_descriptors(0);
    for (unsigned i = 0; i < SOME; i++) {
        coffer_error err;
        uint8_t bytes[BODY];
        const coffer_status status = coffer_read(model, tensor_of(model, i), bytes, BODY, NULL, &err);
        assert_int_equal(status, COFFER_ERR_IO);
        assert_int_equal(err.os_error, EMFILE);
        assert_string_equal(err.path, work_path(shard_name(i)));
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    for (unsigned i = 0; i < SOME; i++) {
        assert_int_equal(read_value(model, i), i);
    }
    coffer_close(model);
}

static void the_working_directory_may_change(void **state)
{
    (void)state;
    char home[4096];
    assert_non_null(getcwd(home, sizeof home));
    assert_int_equal(chdir(work_path("")), 0);
    coffer *model = open_model("m.safetensors.index.json");
    assert_string_equal(coffer_shard_path(model, 1), shard_name(1));
    assert_int_equal(chdir("/"), 0);
    for (unsigned i = 0; i < SOME; i++) {
        assert_int_equal(read_value(model, i), i);
    }
    coffer_close(model);
    assert_int_equal(chdir(home), 0);
}

/* Reads as many of the other files as push everything else out of the pool. */
static void push_out(const coffer *model)
{
    for (unsigned i = SOME - KEPT; i < SOME; i++) {
        assert_int_equal(read_value(model, i), i);
    }
}

static void assert_changed(const coffer *model, unsigned i, coffer_status status)
{
    coffer_error err;
    uint8_t bytes[BODY];
    const coffer_tensor *tensor = tensor_of(model, i);
    assert_int_equal(coffer_read(model, tensor, bytes, BODY, NULL, &err), status);
    assert_int_equal(err.code, status);
    assert_string_equal(err.path, work_path(shard_name(i)));
    assert_string_equal(err.tensor, tensor->name);
    assert_null(coffer_data(model, tensor, &err));
    assert_int_equal(err.code, status);
}

static void a_file_that_changed_is_not_read(void **state)
{
    (void)state;
    coffer *model = open_model(work_path("m.safetensors.index.json"));
    push_out(model);
    /* Another file under the name, of the same size and contents. */
    assert_int_equal(rename(work_path(shard_name(0)), work_path("aside")), 0);
    write_shard(0);
    assert_changed(model, 0, COFFER_ERR_CHANGED);
    /* The same file, with one byte changed, and with another length. */
    FILE *file = fopen(work_path(shard_name(1)), "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, -1, SEEK_END), 0);
    assert_int_equal(fputc('x', file), 'x');
    assert_int_equal(fclose(file), 0);
    assert_changed(model, 1, COFFER_ERR_CHANGED);
    assert_int_equal(truncate(work_path(shard_name(2)), 20), 0);
    assert_changed(model, 2, COFFER_ERR_CHANGED);
    assert_int_equal(unlink(work_path(shard_name(3))), 0);
    assert_changed(model, 3, COFFER_ERR_NOT_FOUND);
    assert_int_equal(unlink(work_path(shard_name(6))), 0);
    assert_int_equal(symlink("aside", work_path(shard_name(6))), 0);
    assert_changed(model, 6, COFFER_ERR_IO);
    assert_int_equal(read_value(model, 4), 4);
    push_out(model);
    faults.always[FAULT_INSPECT] = EIO;
    assert_changed(model, 4, COFFER_ERR_IO);
    faults_clear();
    assert_int_equal(read_value(model, 5), 5);
    coffer_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ten_thousand_files_with_256_descriptors, many_files, faults_tear_down),
        cmocka_unit_test_setup_teardown(a_process_without_descriptors_left, some_files, faults_tear_down),
        cmocka_unit_test_setup_teardown(the_working_directory_may_change, some_files, faults_tear_down),
        cmocka_unit_test_setup_teardown(a_file_that_changed_is_not_read, some_files, faults_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
