/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that ends before its data do is refused, unless it is opened for what is whole in it. Then every whole tensor is read as
 * from the whole file, and no way to a tensor's bytes leads to one that is not whole: not by reading, mapping, copying, digests.
 */
#define _POSIX_C_SOURCE 200809L

#include "support_cmocka.h"

#include "coffer.h"
#include "support_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const tensor_spec specs[] = {
    { "first", COFFER_F32, 2, { 3, 5 } },
    { "middle", COFFER_U8, 1, { 100 } },
    { "last", COFFER_F64, 1, { 9 } },
};
#define SPEC_COUNT (sizeof specs / sizeof specs[0])

static image whole;

static int set_up(void **state)
{
    (void)state;
    work_dir_make();
    whole = image_of(specs, SPEC_COUNT);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    image_free(&whole);
    work_dir_remove();
    return 0;
}

static coffer_open_options options_of(coffer_access access)
{
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.access = access;
    options.partial = true;
    return options;
}

/* ---- what is read ------------------------------------------------------------------------------------------------ */

static void assert_pattern(const coffer_tensor *tensor, const uint8_t *bytes)
{
    for (uint64_t i = 0; i < tensor->size; i++) {
        assert_int_equal(bytes[i], pattern_byte(tensor->offset + i));
    }
}

static void assert_readable(const coffer *model, const coffer_tensor *tensor, coffer_access access)
{
    uint8_t bytes[256];
    const coffer_index all = { .kind = COFFER_INDEX_ALL };
    const coffer_read_target target = { tensor, bytes, tensor->size };
    assert_true(coffer_is_whole(model, tensor));
    assert_int_equal(coffer_read(model, tensor, bytes, tensor->size, NULL, NULL), COFFER_OK);
    assert_pattern(tensor, bytes);
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(coffer_read_part(model, tensor, 0, bytes, tensor->size, NULL, NULL), COFFER_OK);
    assert_pattern(tensor, bytes);
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(coffer_read_slice(model, tensor, &all, 1, bytes, tensor->size, NULL, NULL), COFFER_OK);
    assert_pattern(tensor, bytes);
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(coffer_read_many(model, &target, 1, NULL, NULL), COFFER_OK);
    assert_pattern(tensor, bytes);
    if (access != COFFER_READ) {
        assert_pattern(tensor, coffer_data(model, tensor, NULL));
    }
}

static void assert_is_cut(coffer_status status, const coffer_error *err, const coffer_tensor *tensor, size_t size)
{
    assert_int_equal(status, COFFER_ERR_DATA_TRUNCATED);
    assert_int_equal(err->code, COFFER_ERR_DATA_TRUNCATED);
    assert_int_equal(err->offset, size);
    assert_int_equal(err->expected, tensor->offset + tensor->size);
    assert_int_equal(err->actual, size);
    assert_string_equal(err->tensor, tensor->name);
}

static void assert_refused(coffer *model, const coffer_tensor *tensor, coffer_access access, size_t size)
{
    uint8_t bytes[256];
    coffer_error err;
    coffer_digest digest;
    const coffer_index all = { .kind = COFFER_INDEX_ALL };
    const coffer_read_target target = { tensor, bytes, tensor->size };
    assert_false(coffer_is_whole(model, tensor));
    assert_is_cut(coffer_read(model, tensor, bytes, tensor->size, NULL, &err), &err, tensor, size);
    assert_is_cut(coffer_read_part(model, tensor, 0, bytes, 1, NULL, &err), &err, tensor, size);
    assert_is_cut(coffer_read_slice(model, tensor, &all, 1, bytes, tensor->size, NULL, &err), &err, tensor, size);
    assert_is_cut(coffer_read_many(model, &target, 1, NULL, &err), &err, tensor, size);
    assert_is_cut(coffer_digest_tensors(model, &tensor, 1, COFFER_SHA256, &digest, NULL, &err), &err, tensor, size);
    if (access != COFFER_READ) {
        assert_null(coffer_data(model, tensor, &err));
        assert_is_cut(err.code, &err, tensor, size);
    }
    if (access == COFFER_MAP_PRIVATE) {
        assert_null(coffer_data_mutable(model, tensor, &err));
        assert_is_cut(err.code, &err, tensor, size);
    }
}

static void assert_copies(const coffer *model, const coffer_tensor *tensor, coffer_status wanted)
{
    coffer_header *header = NULL;
    coffer_writer *writer = NULL;
    const coffer_copy copy = { 0, model, tensor };
    assert_int_equal(coffer_header_new(&header, coffer_libc_allocator(), NULL), COFFER_OK);
    assert_int_equal(coffer_header_add(header, "t", 1, tensor->dtype, tensor->shape, tensor->rank, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_open(&writer, header, work_path("copy"), NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_copy(writer, &copy, 1, NULL, NULL), wanted);
    coffer_writer_free(writer);
    coffer_header_free(header);
}

static void check_model(coffer *model, coffer_access access, size_t size)
{
    for (size_t i = 0; i < SPEC_COUNT; i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        if (tensor->offset + tensor->size <= size) {
            assert_readable(model, tensor, access);
            assert_copies(model, tensor, COFFER_OK);
        } else {
            assert_refused(model, tensor, access, size);
            assert_copies(model, tensor, COFFER_ERR_DATA_TRUNCATED);
        }
    }
    assert_int_equal(coffer_shard_size(model, 0), size);
    coffer_close(model);
}

/* ---- cuts -------------------------------------------------------------------------------------------------------- */

static void every_cut_through_the_data(void **state)
{
    (void)state;
    for (size_t size = whole.data_offset; size <= whole.size; size += 3) {
        file_write("model", whole.bytes, size);
        for (coffer_access access = COFFER_MAP; access <= COFFER_READ; access++) {
            const coffer_open_options options = options_of(access);
            coffer *model = NULL;
            coffer_error err;
            assert_int_equal(coffer_open(&model, work_path("model"), &options, &err), COFFER_OK);
            check_model(model, access, size);
        }
    }
}

static void memory_and_descriptors_that_are_cut(void **state)
{
    (void)state;
    const size_t size = whole.size - 10;
    const coffer_open_options options = options_of(COFFER_READ);
    coffer *model = NULL;
    assert_int_equal(coffer_open_memory(&model, whole.bytes, size, NULL, NULL), COFFER_ERR_DATA_TRUNCATED);
    assert_int_equal(coffer_open_memory(&model, whole.bytes, size, &options, NULL), COFFER_OK);
    check_model(model, COFFER_READ, size);
    file_write("model", whole.bytes, whole.size);
    const int fd = open(work_path("model"), O_RDONLY);
    assert_int_equal(coffer_open_fd(&model, fd, 0, size, &options, NULL), COFFER_OK);
    close(fd);
    check_model(model, COFFER_READ, size);
}

/* A header that comes through a window is read from its beginning once more. */
static void a_long_header_is_read_again(void **state)
{
    (void)state;
    coffer_header *header = NULL;
    coffer_header_options slack = COFFER_HEADER_OPTIONS_INIT;
    coffer_writer *writer = NULL;
    coffer *model = NULL;
    const coffer_open_options options = options_of(COFFER_READ);
    char name[64];
    struct stat about;
    slack.slack = 40000;
    assert_int_equal(coffer_header_new(&header, coffer_libc_allocator(), NULL), COFFER_OK);
    memset(name, 'n', sizeof name);
    for (size_t i = 0; i < 1000; i++) {
        for (size_t k = 0, digits = i; k < 3; k++, digits /= 10) {
            name[k] = (char)('0' + digits % 10);
        }
        assert_int_equal(coffer_header_add(header, name, sizeof name, COFFER_U8, (const uint64_t[]){ 1 }, 1, NULL),
                         COFFER_OK);
    }
    assert_int_equal(coffer_header_build(header, &slack, NULL, NULL, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_open(&writer, header, work_path("long"), NULL, NULL), COFFER_OK);
    for (size_t i = 0; i < 1000; i++) {
        assert_int_equal(coffer_writer_write(writer, i, 0, "x", 1, NULL), COFFER_OK);
    }
    assert_int_equal(coffer_writer_finish(writer, NULL), COFFER_OK);
    coffer_writer_free(writer);
    coffer_header_free(header);
    assert_int_equal(stat(work_path("long"), &about), 0);
    assert_int_equal(truncate(work_path("long"), about.st_size - 400), 0);
    assert_int_equal(coffer_open(&model, work_path("long"), &options, NULL), COFFER_OK);
    size_t cut = 0;
    for (size_t i = 0; i < coffer_count(model); i++) {
        cut += !coffer_is_whole(model, coffer_at(model, i));
    }
    assert_int_equal(coffer_count(model), 1000);
    assert_int_equal(cut, 400);
    coffer_close(model);
}

/* ---- more than the data ------------------------------------------------------------------------------------------ */

static void bytes_after_the_data_are_passed_over(void **state)
{
    (void)state;
    coffer_open_options options = options_of(COFFER_READ);
    coffer *model = NULL;
    uint8_t *more = calloc(1, whole.size + 1);
    assert_non_null(more);
    memcpy(more, whole.bytes, whole.size);
    assert_int_equal(coffer_open_memory(&model, more, whole.size + 1, &options, NULL), COFFER_OK);
    for (size_t i = 0; i < coffer_count(model); i++) {
        assert_true(coffer_is_whole(model, coffer_at(model, i)));
    }
    coffer_close(model);
    options.partial = false;
    assert_int_equal(coffer_open_memory(&model, more, whole.size + 1, &options, NULL), COFFER_ERR_TRAILING_BYTES);
    free(more);
}

/* ---- what is not forgiven ---------------------------------------------------------------------------------------- */

static void everything_else_is_refused_as_ever(void **state)
{
    (void)state;
    const coffer_open_options options = options_of(COFFER_READ);
    coffer *model = NULL;
    assert_int_equal(coffer_open_memory(&model, whole.bytes, whole.data_offset - 1, &options, NULL),
                     COFFER_ERR_HEADER_TRUNCATED);
    assert_int_equal(coffer_open_memory(&model, whole.bytes, 5, &options, NULL), COFFER_ERR_TOO_SHORT);
    assert_int_equal(coffer_open_memory(&model, whole.bytes, 0, &options, NULL), COFFER_ERR_EMPTY);
    assert_int_equal(coffer_open_memory(&model, whole.bytes, whole.size, &options, NULL), COFFER_OK);
    coffer *other = NULL;
    assert_int_equal(coffer_open_memory(&other, whole.bytes, whole.size, &options, NULL), COFFER_OK);
    assert_true(coffer_is_whole(model, coffer_at(model, 0)));
    assert_false(coffer_is_whole(model, coffer_at(other, 0)));
    coffer_close(other);
    coffer_close(model);
}

static void a_cut_file_is_not_fetched_as_a_whole_one(void **state)
{
    (void)state;
    const coffer_open_options options = options_of(COFFER_READ);
    coffer_error err;
    coffer *model = NULL;
    const coffer_tensor *wanted[SPEC_COUNT];
    size_t count = 0;
    file_write("model.safetensors", whole.bytes, whole.size - 10);
    assert_int_equal(mkdir(work_path("to"), 0700), 0);
    assert_int_equal(coffer_open(&model, work_path("model.safetensors"), &options, &err), COFFER_OK);
    assert_int_equal(coffer_fetch(model, NULL, SPEC_COUNT, work_path("to"), NULL, &err), COFFER_ERR_DATA_TRUNCATED);
    for (size_t i = 0; i < SPEC_COUNT; i++) {
        wanted[count] = coffer_at(model, i);
        count += coffer_is_whole(model, wanted[count]);
    }
    assert_int_equal(coffer_fetch(model, wanted, count, work_path("to"), NULL, &err), COFFER_OK);
    coffer_close(model);
    assert_int_equal(coffer_open(&model, work_path("to/model.safetensors"), NULL, &err), COFFER_OK);
    assert_int_equal(coffer_count(model), SPEC_COUNT - 1);
    coffer_close(model);
    assert_int_equal(unlink(work_path("to/model.safetensors")), 0);
    assert_int_equal(rmdir(work_path("to")), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_cut_through_the_data, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_and_descriptors_that_are_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_long_header_is_read_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bytes_after_the_data_are_passed_over, set_up, tear_down),
        cmocka_unit_test_setup_teardown(everything_else_is_refused_as_ever, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_cut_file_is_not_fetched_as_a_whole_one, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
