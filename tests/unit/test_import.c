/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans that are carried out (support_plan.h): to files and to other writers, several as one, and what is shown of them.
 */
#define _GNU_SOURCE /* pwrite */

#include "support_cmocka.h"

#include "coffer.h"
#include "support_file.h"
#include "support_plan.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- plans that are carried out ------------------------------------------------------------------------------------ */

/* Random views of random storages of all kinds. */
static void made_random(made *m)
{
    static const coffer_dtype dtypes[] = { COFFER_F32, COFFER_C64, COFFER_I16, COFFER_U8 };
    made_new(m);
    const uint32_t count = 1 + made_below(MAX_ROWS - 1);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t storage =
            i > 0 && made_below(3) == 0
                ? made_below(m->storages)
                : made_storage(m, (coffer__coding)made_below(3), 512 + made_below(300000) / 8 * 8, 1 + made_below(3));
        const coffer_dtype dtype = dtypes[made_below(4)];
        const uint64_t item = coffer_dtype_bits(dtype) / 8;
        const uint64_t items = m->plain_size[storage] / item;
        char name[16];
        (void)snprintf(name, sizeof name, "w%u", i);
        const bool number = dtype != COFFER_U8;
        const uint8_t swap = (uint8_t)(number && made_below(2) == 0 ? (dtype == COFFER_I16 ? 2 : 4) : 0);
        const coffer__sign sign = number && made_below(3) == 0 ? COFFER__SIGN_NEGATED
                                  : dtype == COFFER_C64        ? (coffer__sign)(2 * made_below(2))
                                                               : COFFER__SIGN_KEPT;
        const uint64_t rows = 1 + made_below(40);
        const uint64_t columns = items / rows;
        const coffer__import_plan_dimension whole[] = { { items, items, (int64_t)item } };
        const coffer__import_plan_dimension turned[] = { { rows, rows, (int64_t)item },
                                                         { columns, columns, (int64_t)(item * rows) } };
        const coffer__import_plan_dimension cut[] = { { rows, rows, (int64_t)(item * columns) },
                                                      { columns / 2 + 1, columns / 2 + 1, (int64_t)item } };
        const coffer__import_plan_dimension again[] = { { 7, 7, 0 }, { columns, columns, (int64_t)item } };
        const coffer__import_plan_dimension *shapes[] = { whole, turned, cut, again };
        const uint32_t shape = made_below(4);
        made_row(m, name, dtype, storage, 0, shape == 0 ? 1 : 2, shapes[shape], swap, sign);
    }
}

static void test_random(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 60; round++) {
        made m;
        coffer_error err;
        made_random(&m);
        coffer_input *input = made_below(2) == 0 ? made_input(&m) : made_input_file(&m);
        coffer_import *import = made_import(&m, input);
        coffer_import_write_options options = COFFER_IMPORT_WRITE_OPTIONS_INIT;
        options.max_shard_size = made_below(2) == 0 ? 0 : 200000;
        options.balanced = made_below(2) == 0;
        options.force = true;
        options.unchecked = made_below(3) == 0;
        coffer_writer_options files = COFFER_WRITER_OPTIONS_INIT;
        files.digests = made_below(3) == 0 ? COFFER_SHA256 : COFFER_NO_ALGORITHM;
        options.files = &files;
        const coffer_status status = coffer_import_write(import, work_path("m.safetensors"), &options, NULL, &err);
        if (status != COFFER_OK) {
            fail_msg("round %u: %s: %s", round, coffer_status_name(status), err.message);
        }
        const bool one = access(work_path("m.safetensors"), F_OK) == 0;
        made_check(&m, work_path(one ? "m.safetensors" : "m.safetensors.index.json"));
        coffer_import_free(import);
        coffer_input_free(input);
        made_free(&m);
        work_dir_remove();
        work_dir_make();
    }
}

/* Storages beyond what is decoded in memory: one that streams, and one whose views need a file. */
static void test_large(void **state)
{
    (void)state;
    made m;
    coffer_error err;
    made_new(&m);
    const size_t size = 17 * MIB;
    const uint64_t items = size / 4;
    const coffer__import_plan_dimension whole[] = { { items, items, 4 } };
    const coffer__import_plan_dimension turned[] = { { 1024, 1024, 4 }, { items / 1024, items / 1024, 4096 } };
    const coffer__coding coding = made_has_zlib() ? COFFER__CODING_DEFLATED : COFFER__CODING_LATIN1;
    made_row(&m, "a", COFFER_F32, made_storage(&m, coding, size, 1), 0, 1, whole, 4, 0);
    made_row(&m, "b", COFFER_F32, made_storage(&m, COFFER__CODING_LATIN1, size, 2), 0, 2, turned, 0, 0);
    made_row(&m, "c", COFFER_F32, made_storage(&m, COFFER__CODING_STORED, size, 1), 0, 2, turned, 4, 1);
    made_row(&m, "d", COFFER_F32, 2, 0, 1, whole, 0, 0);
    coffer_input *input = made_input_file(&m);
    coffer_import *import = made_import(&m, input);
    const coffer_status status = coffer_import_write(import, work_path("large.safetensors"), NULL, NULL, &err);
    if (status != COFFER_OK) {
        fail_msg("%s: %s", coffer_status_name(status), err.message);
    }
    made_check(&m, work_path("large.safetensors"));
    coffer_import_free(import);
    coffer_input_free(input);
    made_free(&m);
}

/* Of a tensor without bytes nothing is carried, and so nothing of what it is in is decoded: not to verify it either. */
static void test_empty_views(void **state)
{
    (void)state;
    static const coffer__coding codings[] = { COFFER__CODING_DEFLATED, COFFER__CODING_LATIN1 };
    for (size_t i = 0; i < 2; i++) {
        made m;
        coffer_error err;
        made_new(&m);
        const coffer__import_plan_dimension none[] = { { 0, 0, 4 } };
        const coffer__import_plan_dimension whole[] = { { 1000, 1000, 4 } };
        made_row(&m, "empty", COFFER_F32, made_storage(&m, codings[i], 4000, 1), 0, 1, none, 0, 0);
        made_row(&m, "whole", COFFER_F32, made_storage(&m, COFFER__CODING_LATIN1, 4000, 1), 0, 1, whole, 0, 0);
        m.file[((coffer__import_plan_piece *)m.plan.pieces.items)->offset] ^= 0xFF;
        coffer_input *input = made_input_file(&m);
        coffer_import *import = made_import(&m, input);
        const coffer_status status = coffer_import_write(import, work_path("empty.safetensors"), NULL, NULL, &err);
        if (status != COFFER_OK) {
            fail_msg("%s: %s", coffer_status_name(status), err.message);
        }
        made_check(&m, work_path("empty.safetensors"));
        coffer_import_free(import);
        coffer_input_free(input);
        made_free(&m);
    }
}

/* ---- other writers ------------------------------------------------------------------------------------------------- */

/* Carries an import into a sink of the caller's, which has space for all of it or not. */
static coffer_status carry_to(coffer_import *import, made_sink *to, bool full)
{
    const coffer_sink sink = { made_sink_write, made_sink_finish, NULL, to };
    coffer_header *header = NULL;
    coffer_writer *writer = NULL;
    const coffer_table *table = NULL;
    assert_int_equal(coffer_header_new(&header, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_import_declare(import, header, NULL), COFFER_OK);
    assert_int_equal(coffer_header_build(header, NULL, NULL, NULL, &table, NULL), COFFER_OK);
    to->capacity = coffer_table_data_offset(table) + coffer_table_data_size(table) - full;
    to->bytes = malloc((size_t)to->capacity + 1);
    assert_non_null(to->bytes);
    assert_int_equal(coffer_writer_open_sink(&writer, header, &sink, NULL, NULL), COFFER_OK);
    coffer_status status = coffer_import_carry(import, writer, false, NULL, NULL);
    if (status == COFFER_OK) {
        status = coffer_writer_finish(writer, NULL);
    }
    coffer_writer_free(writer);
    coffer_header_free(header);
    return status;
}

static void test_sinks(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 20; round++) {
        made m;
        made_random(&m);
        coffer_input *input = made_input(&m);
        coffer_import *import = made_import(&m, input);
        made_sink to = { .finished = false };
        assert_int_equal(carry_to(import, &to, false), COFFER_OK);
        assert_true(to.finished);
        file_write("sunk.safetensors", to.bytes, (size_t)to.capacity);
        made_check(&m, work_path("sunk.safetensors"));
        free(to.bytes);
        to = (made_sink){ .finished = false };
        assert_int_equal(carry_to(import, &to, true), COFFER_ERR_IO);
        assert_false(to.finished);
        free(to.bytes);
        coffer_import_free(import);
        coffer_input_free(input);
        made_free(&m);
    }
}

/* A pipe: another thread reads it, and what comes out of it is the file. */
static void *drain(void *ctx)
{
    const int fd = *(int *)ctx;
    FILE *out = fopen(work_path("piped.safetensors"), "wb");
    uint8_t bytes[8192];
    ssize_t size = 0;
    while ((size = read(fd, bytes, sizeof bytes)) > 0) {
        (void)fwrite(bytes, 1, (size_t)size, out);
    }
    (void)fclose(out);
    return NULL;
}

static void test_pipe(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 20; round++) {
        made m;
        int ends[2];
        pthread_t thread;
        coffer_header *header = NULL;
        coffer_writer *writer = NULL;
        made_random(&m);
        coffer_input *input = made_input(&m);
        coffer_import *import = made_import(&m, input);
        assert_int_equal(pipe(ends), 0);
        assert_int_equal(pthread_create(&thread, NULL, drain, &ends[0]), 0);
        assert_int_equal(coffer_header_new(&header, NULL, NULL), COFFER_OK);
        assert_int_equal(coffer_import_declare(import, header, NULL), COFFER_OK);
        assert_int_equal(coffer_writer_open_fd(&writer, header, ends[1], NULL, NULL), COFFER_OK);
        assert_int_equal(coffer_import_carry(import, writer, false, NULL, NULL), COFFER_OK);
        assert_int_equal(coffer_writer_finish(writer, NULL), COFFER_OK);
        coffer_writer_free(writer);
        coffer_header_free(header);
        assert_int_equal(close(ends[1]), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(close(ends[0]), 0);
        made_check(&m, work_path("piped.safetensors"));
        coffer_import_free(import);
        coffer_input_free(input);
        made_free(&m);
    }
}

/* ---- what is shown ------------------------------------------------------------------------------------------------- */

static void test_shown(void **state)
{
    (void)state;
    made m;
    made_small(&m);
    coffer_input *input = made_input(&m);
    coffer_import *import = made_import(&m, input);
    const coffer_import_summary *summary = coffer_import_summarize(import);
    assert_int_equal(summary->tensor_count, 4);
    assert_int_equal(summary->written_count, 1);
    assert_int_equal(summary->alias_count, 2);
    assert_int_equal(summary->skipped_count, 1);
    assert_int_equal(summary->danger_count, 1);
    assert_int_equal(summary->total, 180);
    assert_int_equal(summary->written, 100);
    assert_int_equal(summary->skipped, 20);
    assert_int_equal(summary->unreferenced, 60);
    assert_int_equal(summary->output, 100);
    uint64_t size = 0;
    assert_string_equal(coffer_import_unreferenced_at(import, 0, &size), "data/0");
    assert_int_equal(size, 30);
    assert_null(coffer_import_unreferenced_at(import, 1, &size));
    assert_string_equal(coffer_import_at(import, 3)->reason, "it is sparse");
    assert_int_equal(coffer_import_at(import, 1)->alias_of, 0);
    assert_null(coffer_import_at(import, 4));
    assert_string_equal(coffer_import_finding_at(import, 0)->text, "\"os.system\" would be called");
    /* The alias that is called like a key is not told of. */
    coffer_pair pair;
    assert_true(coffer_import_metadata_at(import, 0, &pair));
    assert_string_equal(pair.value, "pt");
    assert_true(coffer_import_metadata_at(import, 1, &pair));
    assert_string_equal(pair.key, "tied");
    assert_string_equal(pair.value, "w");
    assert_false(coffer_import_metadata_at(import, 2, &pair));
    coffer_import_free(import);
    coffer_input_free(input);
    made_free(&m);
}

static void check_written(const made *m, const char *path)
{
    coffer *model = NULL;
    assert_int_equal(coffer_open(&model, path, NULL, NULL), COFFER_OK);
    for (size_t i = 0; i < 2; i++) {
        const coffer__import_plan_row *row = coffer__import_plan_rows(&m->plan) + i;
        const char *name = coffer__import_plan_text(&m->plan, row->name, NULL);
        const coffer_tensor *tensor = coffer_find(model, name, strlen(name));
        uint8_t bytes[100];
        assert_non_null(tensor);
        assert_int_equal(coffer_read(model, tensor, bytes, tensor->size, NULL, NULL), COFFER_OK);
        made_check_tensor(m, row, bytes);
    }
    coffer_close(model);
}

/* Several inputs are written as one, in one file or several, and what cannot be added changes nothing. */
static void test_added(void **state)
{
    (void)state;
    made m[4];
    coffer_input *inputs[4];
    coffer_import *imports[4];
    coffer_error err;
    made_named(&m[0], "a", "b", "x");
    made_named(&m[1], "c", "d", "x");
    made_named(&m[2], "e", "a", "x");
    made_named(&m[3], "a2", "f", "y"); /* its pair is "a" again, and not "x" */
    for (size_t i = 0; i < 4; i++) {
        inputs[i] = made_input(&m[i]);
        imports[i] = made_import(&m[i], inputs[i]);
    }
    assert_int_equal(coffer_import_add(imports[0], imports[0], &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_import_add(imports[0], imports[1], &err), COFFER_OK);
    coffer_import_free(imports[1]);
    for (size_t i = 2; i < 4; i++) {
        assert_int_equal(coffer_import_add(imports[0], imports[i], &err),
                         i == 2 ? COFFER_ERR_DUPLICATE_NAME : COFFER_ERR_DUPLICATE_KEY);
        assert_non_null(
            strstr(err.message, i == 2 ? "tensor \"a\" is in" : "have \"a\" for the metadata, and not the"));
        const coffer_import_summary *summary = coffer_import_summarize(imports[0]);
        assert_int_equal(summary->tensor_count, 6);
        assert_int_equal(summary->written_count, 4);
        assert_int_equal(summary->file_count, 2);
        assert_int_equal(summary->total, 400);
        assert_int_equal(summary->written, 360);
        assert_int_equal(summary->unreferenced, 40);
        assert_int_equal(summary->finding_count, 2);
        assert_null(coffer_import_at(imports[0], 6));
        assert_int_equal(coffer_import_finding_at(imports[0], 1)->file, 1);
        assert_string_equal(coffer_import_finding_at(imports[0], 1)->subject, "c");
        assert_string_equal(coffer_import_at(imports[0], 5)->reason, "it is in both");
        coffer_pair pair;
        assert_true(coffer_import_metadata_at(imports[0], 2, &pair));
        assert_memory_equal(pair.key, "c", 2);
        assert_false(coffer_import_metadata_at(imports[0], 3, &pair));
    }
    const void *bytes = NULL;
    size_t size = 0;
    assert_int_equal(coffer_import_save(imports[0], &bytes, &size, &err), COFFER_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "several inputs cannot be saved"));
    coffer_import *again = made_import(&m[0], inputs[0]);
    assert_int_equal(coffer_import_add(again, imports[2], &err), COFFER_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "another import of the same input"));
    coffer_import_free(again);
    coffer_import_write_options options = COFFER_IMPORT_WRITE_OPTIONS_INIT;
    for (uint64_t limit = 0; limit <= 150; limit += 150) {
        options.max_shard_size = limit;
        const char *path = limit == 0 ? "added.safetensors" : "parts.safetensors";
        assert_int_equal(coffer_import_write(imports[0], work_path(path), &options, NULL, &err), COFFER_OK);
        path = limit == 0 ? "added.safetensors" : "parts.safetensors.index.json";
        check_written(&m[0], work_path(path));
        check_written(&m[1], work_path(path));
    }
    /* A byte of the second input that contradicts its CRC. */
    m[1].file[coffer__import_plan_pieces(&m[1].plan)[0].offset] ^= 1;
    assert_int_equal(coffer_import_write(imports[0], work_path("bad.safetensors"), NULL, NULL, &err),
                     COFFER_ERR_CHECKSUM);
    assert_string_equal(err.tensor, "c");
    for (size_t i = 0; i < 4; i++) {
        coffer_import_free(i == 1 ? NULL : imports[i]);
    }
    for (size_t i = 4; i > 0; i--) {
        coffer_input_free(inputs[i - 1]);
        made_free(&m[i - 1]);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, work_dir_set_up, work_dir_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_random), TEST(test_large), TEST(test_empty_views), TEST(test_sinks),
        TEST(test_pipe),   TEST(test_shown), TEST(test_added),
    };
    return cmocka_run_group_tests(tests, made_set_up, NULL);
}
