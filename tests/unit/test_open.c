/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening models, looking things up in them, and their data in memory: from a path, memory, a descriptor or a range of
 * one, and the caller's own source. Whatever fails must say why and leave nothing behind: no memory, no descriptor, no
 * source that was not closed.
 */
#define _POSIX_C_SOURCE 200809L

#include "support_cmocka.h"

#include "coffer.h"
#include "support_file.h"
#include "support_memory.h"
#include "support_model.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const tensor_spec specs[] = {
    { "b.weight", COFFER_F32, 2, { 3, 5 } }, { "a.weight", COFFER_F32, 2, { 64, 32 } },
    { "empty", COFFER_BF16, 2, { 0, 7 } },   { "scalar", COFFER_F64, 0, { 0 } },
    { "flags", COFFER_BOOL, 1, { 11 } },     { "packed", COFFER_F4, 1, { 6 } },
};
#define SPEC_COUNT (sizeof specs / sizeof specs[0])

static image model_image;

static int set_up(void **state)
{
    (void)state;
    work_dir_make();
    model_image = image_of(specs, SPEC_COUNT);
    file_write("model.safetensors", model_image.bytes, model_image.size);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    image_free(&model_image);
    work_dir_remove();
    return 0;
}

static coffer_open_options options_of(coffer_access access)
{
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.access = access;
    return options;
}

/* ---- a source that counts ---------------------------------------------------------------------------------------- */

typedef struct counted {
    const uint8_t *bytes;
    uint64_t size;
    size_t reads;
    uint64_t read_bytes;
    size_t closes;
    size_t fail_at;       /* the read that fails, from 1 */
    const char *complain; /* what it says then; NULL: nothing */
} counted;

static coffer_status counted_read(void *ctx, uint64_t offset, void *buffer, size_t size, coffer_error *err)
{
    counted *c = ctx;
    assert_non_null(err);
    assert_true(offset <= c->size && size <= c->size - offset);
    c->read_bytes += size;
    if (++c->reads == c->fail_at) {
        if (c->complain != NULL) {
            err->code = COFFER_ERR_LOCKED;
            memcpy(err->message, c->complain, strlen(c->complain) + 1);
        }
        return COFFER_ERR_LOCKED;
    }
    memcpy(buffer, c->bytes + offset, size);
    return COFFER_OK;
}

static void counted_close(void *ctx)
{
    ((counted *)ctx)->closes++;
}

static coffer_source source_of(counted *c, const image *from)
{
    *c = (counted){ .bytes = from->bytes, .size = from->size };
    return (coffer_source){ .read_at = counted_read, .close = counted_close, .ctx = c, .size = from->size };
}

/* ---- looking up -------------------------------------------------------------------------------------------------- */

static void check_lookup(const coffer *model)
{
    assert_int_equal(coffer_count(model), SPEC_COUNT);
    for (size_t i = 0; i < SPEC_COUNT; i++) {
        const coffer_tensor *tensor = tensor_named(model, specs[i].name);
        assert_non_null(tensor);
        assert_string_equal(tensor->name, specs[i].name);
        assert_int_equal(tensor->dtype, specs[i].dtype);
        assert_int_equal(tensor->rank, specs[i].rank);
        assert_memory_equal(tensor->shape, specs[i].shape, specs[i].rank * sizeof(uint64_t));
        assert_int_equal(tensor->shard, 0);
        assert_ptr_equal(coffer_find(model, specs[i].name, strlen(specs[i].name)), tensor);
    }
    assert_null(tensor_named(model, "c.weight"));
    assert_null(coffer_find(model, "b.weight", 7));
    for (size_t i = 1; i < SPEC_COUNT; i++) {
        assert_true(coffer_at(model, i - 1)->offset <= coffer_at(model, i)->offset);
    }
    assert_null(coffer_at(model, SPEC_COUNT));
    uint32_t order[SPEC_COUNT];
    coffer_sort_by_name(model, order);
    for (size_t i = 1; i < SPEC_COUNT; i++) {
        assert_true(strcmp(coffer_at(model, order[i - 1])->name, coffer_at(model, order[i])->name) < 0);
    }
    assert_int_equal(coffer_shard_count(model), 1);
    assert_int_equal(coffer_shard_size(model, 0), model_image.size);
    assert_int_equal(coffer_shard_size(model, 1), 0);
    assert_null(coffer_shard_table(model, 1));
    size_t value_len = 0;
    assert_string_equal(coffer_table_metadata_get(coffer_shard_table(model, 0), "made by", 7, &value_len), "test");
}

static void look_up_from_every_source(void **state)
{
    (void)state;
    coffer *model = NULL;
    assert_int_equal(coffer_open(&model, work_path("model.safetensors"), NULL, NULL), COFFER_OK);
    check_lookup(model);
    coffer_close(model);
    assert_int_equal(coffer_open_memory(&model, model_image.bytes, model_image.size, NULL, NULL), COFFER_OK);
    check_lookup(model);
    coffer_close(model);
    const int fd = open(work_path("model.safetensors"), O_RDONLY);
    assert_int_equal(coffer_open_fd(&model, fd, 0, UINT64_MAX, NULL, NULL), COFFER_OK);
    close(fd);
    check_lookup(model);
    coffer_close(model);
    counted c;
    const coffer_source source = source_of(&c, &model_image);
    assert_int_equal(coffer_open_source(&model, &source, NULL, NULL), COFFER_OK);
    check_lookup(model);
    assert_int_equal(c.closes, 0);
    coffer_close(model);
    assert_int_equal(c.closes, 1);
    coffer_close(NULL);
}

/* ---- data in memory ---------------------------------------------------------------------------------------------- */

static void check_data(const coffer *model)
{
    for (size_t i = 0; i < coffer_count(model); i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        coffer_error err;
        const uint8_t *data = coffer_data(model, tensor, &err);
        assert_non_null(data);
        assert_memory_equal(data, model_image.bytes + tensor->offset, (size_t)tensor->size);
        assert_ptr_equal(coffer_data(model, tensor, NULL), data);
        const uint32_t alignment = coffer_dtype_alignment(tensor->dtype);
        assert_int_equal(coffer_is_aligned(model, tensor), (uintptr_t)data % alignment == 0);
    }
}

static void data_by_map_and_from_memory(void **state)
{
    (void)state;
    coffer *model = NULL;
    coffer_open_options options = options_of(COFFER_MAP);
    assert_int_equal(coffer_open(&model, work_path("model.safetensors"), &options, NULL), COFFER_OK);
    assert_true(coffer_is_aligned(model, tensor_named(model, "a.weight"))); /* before there is a map */
    check_data(model);
    coffer_close(model);
    options.populate = true;
    assert_int_equal(coffer_open(&model, work_path("model.safetensors"), &options, NULL), COFFER_OK);
    check_data(model);
    coffer_close(model);
    options = options_of(COFFER_MAP_PRIVATE);
    assert_int_equal(coffer_open(&model, work_path("model.safetensors"), &options, NULL), COFFER_OK);
    check_data(model);
    coffer_close(model);
    /* From memory that begins at an odd address, too. */
    uint8_t *odd = malloc(model_image.size + 1);
    assert_non_null(odd);
    memcpy(odd + 1, model_image.bytes, model_image.size);
    assert_int_equal(coffer_open_memory(&model, odd + 1, model_image.size, NULL, NULL), COFFER_OK);
    check_data(model);
    assert_false(coffer_is_aligned(model, tensor_named(model, "a.weight")));
    assert_ptr_equal(coffer_data(model, coffer_at(model, 0), NULL), odd + 1 + coffer_at(model, 0)->offset);
    coffer_close(model);
    free(odd);
}

static void a_range_of_a_descriptor(void **state)
{
    (void)state;
    /* As in an archive: something before, something behind, and an offset that is no multiple of a page or of 4. */
    const size_t before = 5003;
    uint8_t *archive = malloc(before + model_image.size + 100);
    assert_non_null(archive);
    memset(archive, 'x', before + model_image.size + 100);
    memcpy(archive + before, model_image.bytes, model_image.size);
    file_write("archive", archive, before + model_image.size + 100);
    free(archive);
    const int fd = open(work_path("archive"), O_RDONLY);
    coffer *model = NULL;
    coffer_error err;
    assert_int_equal(coffer_open_fd(&model, fd, before, model_image.size, NULL, &err), COFFER_OK);
    check_lookup(model);
    check_data(model);
    assert_false(coffer_is_aligned(model, tensor_named(model, "a.weight")));
    coffer_close(model);
    assert_int_equal(coffer_open_fd(&model, fd, before, UINT64_MAX, NULL, &err), COFFER_ERR_TRAILING_BYTES);
    assert_null(model);
    assert_int_equal(coffer_open_fd(&model, fd, before, model_image.size + 101, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_open_fd(&model, fd, UINT64_MAX, 1, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_open_fd(&model, fd, before + model_image.size + 100, UINT64_MAX, NULL, &err),
                     COFFER_ERR_EMPTY);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
    close(fd);
}

static void without_a_map(void **state)
{
    (void)state;
    coffer *model = NULL;
    coffer_error err;
    const coffer_open_options options = options_of(COFFER_READ);
    assert_int_equal(coffer_open(&model, work_path("model.safetensors"), &options, NULL), COFFER_OK);
    for (size_t round = 0; round < 2; round++) {
        assert_null(coffer_data(model, tensor_named(model, "a.weight"), &err));
        assert_int_equal(err.code, COFFER_ERR_NOT_MAPPED);
        assert_string_equal(err.tensor, "a.weight");
        assert_string_equal(err.path, work_path("model.safetensors"));
        assert_null(coffer_data(model, tensor_named(model, "empty"), NULL));
    }
    coffer_close(model);
    counted c;
    const coffer_source source = source_of(&c, &model_image);
    assert_int_equal(coffer_open_source(&model, &source, NULL, NULL), COFFER_OK);
    assert_null(coffer_data(model, tensor_named(model, "b.weight"), &err));
    assert_int_equal(err.code, COFFER_ERR_NOT_MAPPED);
    assert_string_equal(err.tensor, "b.weight");
    assert_string_equal(err.path, "");
    coffer_close(model);
}

static void data_that_can_be_changed(void **state)
{
    (void)state;
    coffer *model = NULL;
    coffer_error err;
    coffer_open_options options = options_of(COFFER_MAP_PRIVATE);
    assert_int_equal(coffer_open(&model, work_path("model.safetensors"), &options, NULL), COFFER_OK);
    const coffer_tensor *tensor = tensor_named(model, "a.weight");
    uint8_t *data = coffer_data_mutable(model, tensor, &err);
    assert_non_null(data);
    assert_memory_equal(data, model_image.bytes + tensor->offset, (size_t)tensor->size);
    memset(data, 0xEE, (size_t)tensor->size);
    assert_ptr_equal(coffer_data(model, tensor, NULL), data);
    coffer_close(model);
    size_t size = 0;
    uint8_t *file = file_read("model.safetensors", &size);
    assert_int_equal(size, model_image.size);
    assert_memory_equal(file, model_image.bytes, size);
    free(file);
    options.access = COFFER_MAP;
    assert_int_equal(coffer_open(&model, work_path("model.safetensors"), &options, NULL), COFFER_OK);
    assert_null(coffer_data_mutable(model, tensor_named(model, "a.weight"), &err));
    assert_int_equal(err.code, COFFER_ERR_NOT_MAPPED);
    assert_string_equal(err.tensor, "a.weight");
    coffer_close(model);
    options.access = COFFER_MAP_PRIVATE;
    assert_int_equal(coffer_open_memory(&model, model_image.bytes, model_image.size, &options, NULL), COFFER_OK);
    assert_null(coffer_data_mutable(model, tensor_named(model, "a.weight"), &err));
    assert_int_equal(err.code, COFFER_ERR_NOT_MAPPED);
    coffer_close(model);
}

static void tensors_of_other_models_are_refused(void **state)
{
    (void)state;
    coffer *model = NULL;
    coffer *other = NULL;
    coffer_error err;
    assert_int_equal(coffer_open_memory(&model, model_image.bytes, model_image.size, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_open_memory(&other, model_image.bytes, model_image.size, NULL, NULL), COFFER_OK);
    const coffer_tensor copy = *coffer_at(model, 0);
    const coffer_tensor *const strangers[] = { NULL, &copy, coffer_at(other, 0) };
    for (size_t i = 0; i < 3; i++) {
        assert_null(coffer_data(model, strangers[i], &err));
        assert_int_equal(err.code, COFFER_ERR_ARGUMENT);
        assert_null(coffer_data_mutable(model, strangers[i], &err));
        assert_int_equal(err.code, COFFER_ERR_ARGUMENT);
        assert_int_equal(coffer_read(model, strangers[i], NULL, 0, NULL, &err), COFFER_ERR_ARGUMENT);
        assert_int_equal(coffer_read_slice(model, strangers[i], NULL, 0, NULL, 0, NULL, &err), COFFER_ERR_ARGUMENT);
    }
    assert_null(coffer_data(NULL, coffer_at(model, 0), &err));
    assert_int_equal(coffer_read(NULL, coffer_at(model, 0), NULL, 0, NULL, &err), COFFER_ERR_ARGUMENT);
    coffer_close(other);
    coffer_close(model);
}

typedef struct visitor {
    pthread_t thread;
    const coffer *model;
    const void *seen;
} visitor;

static void *visit(void *arg)
{
    visitor *v = arg;
    v->seen = coffer_data(v->model, coffer_at(v->model, 0), NULL);
    return NULL;
}

static void threads_share_one_map(void **state)
{
    (void)state;
    for (size_t round = 0; round < 20; round++) {
        coffer *model = NULL;
        assert_int_equal(coffer_open(&model, work_path("model.safetensors"), NULL, NULL), COFFER_OK);
        visitor visitors[8];
        for (size_t i = 0; i < 8; i++) {
            visitors[i].model = model;
            assert_int_equal(pthread_create(&visitors[i].thread, NULL, visit, &visitors[i]), 0);
        }
        for (size_t i = 0; i < 8; i++) {
            pthread_join(visitors[i].thread, NULL);
        }
        for (size_t i = 0; i < 8; i++) {
            assert_non_null(visitors[i].seen);
            assert_ptr_equal(visitors[i].seen, visitors[0].seen);
        }
        coffer_close(model);
    }
}

/* ---- what cannot be opened --------------------------------------------------------------------------------------- */

static void assert_open_fails(const char *name, coffer_status status)
{
    for (int access = COFFER_MAP; access <= COFFER_READ; access++) {
        coffer_error err;
        coffer *model = (coffer *)1;
        const coffer_open_options options = options_of((coffer_access)access);
        assert_int_equal(coffer_open(&model, work_path(name), &options, &err), status);
        assert_int_equal(err.code, status);
        assert_string_equal(err.path, work_path(name));
        assert_true(err.message[0] != '\0');
        assert_null(model);
        assert_int_equal(coffer_open(&model, work_path(name), &options, NULL), status);
    }
}

static void files_that_are_no_models(void **state)
{
    (void)state;
    const image *m = &model_image;
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
    assert_open_fails("nothing here", COFFER_ERR_NOT_FOUND);
    file_write("empty", "", 0);
    assert_open_fails("empty", COFFER_ERR_EMPTY);
    file_write("short", m->bytes, 7);
    assert_open_fails("short", COFFER_ERR_TOO_SHORT);
    file_write("half a header", m->bytes, 100);
    assert_open_fails("half a header", COFFER_ERR_HEADER_TRUNCATED);
    file_write("half a file", m->bytes, m->size - 1);
    assert_open_fails("half a file", COFFER_ERR_DATA_TRUNCATED);
    uint8_t *more = calloc(1, m->size + 3);
    assert_non_null(more);
    memcpy(more, m->bytes, m->size);
    file_write("too much", more, m->size + 3);
    free(more);
    assert_open_fails("too much", COFFER_ERR_TRAILING_BYTES);
    file_write("pointer", pointer, sizeof pointer - 1);
    assert_open_fails("pointer", COFFER_ERR_IS_LFS_POINTER);
    assert_int_equal(mkdir(work_path("folder"), 0700), 0);
    assert_open_fails("folder", COFFER_ERR_NO_MODEL);
    assert_int_equal(rmdir(work_path("folder")), 0);
    assert_int_equal(mkfifo(work_path("pipe"), 0600), 0);
    assert_open_fails("pipe", COFFER_ERR_NOT_REGULAR);
    file_write("model.safetensors.coffer-undo", "", 0);
    assert_open_fails("model.safetensors", COFFER_ERR_UNDO);
    assert_int_equal(unlink(work_path("model.safetensors.coffer-undo")), 0);
}

static void memory_and_sources_that_are_no_models(void **state)
{
    (void)state;
    coffer_error err;
    coffer *model = (coffer *)1;
    assert_int_equal(coffer_open_memory(&model, NULL, 0, NULL, &err), COFFER_ERR_EMPTY);
    assert_null(model);
    assert_string_equal(err.path, "");
    for (size_t size = 1; size < model_image.size; size += 1 + size / 20) {
        const coffer_status wanted = size < 8                         ? COFFER_ERR_TOO_SHORT
                                     : size < model_image.data_offset ? COFFER_ERR_HEADER_TRUNCATED
                                                                      : COFFER_ERR_DATA_TRUNCATED;
        assert_int_equal(coffer_open_memory(&model, model_image.bytes, size, NULL, &err), wanted);
        assert_int_equal(err.code, wanted);
        const image part = { model_image.bytes, size, 0 };
        counted c;
        const coffer_source source = source_of(&c, &part);
        assert_int_equal(coffer_open_source(&model, &source, NULL, &err), wanted);
        assert_int_equal(c.closes, 1);
    }
    counted c;
    const image none = { model_image.bytes, 0, 0 };
    const coffer_source source = source_of(&c, &none);
    assert_int_equal(coffer_open_source(&model, &source, NULL, &err), COFFER_ERR_EMPTY);
    assert_int_equal(c.closes, 1);
    assert_int_equal(c.reads, 0);
}

static void descriptors_that_cannot_be_read(void **state)
{
    (void)state;
    coffer_error err;
    coffer *model = NULL;
    assert_int_equal(coffer_open_fd(&model, -1, 0, UINT64_MAX, NULL, &err), COFFER_ERR_IO);
    assert_int_not_equal(err.os_error, 0);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(coffer_open_fd(&model, ends[0], 0, UINT64_MAX, NULL, &err), COFFER_ERR_NOT_REGULAR);
    close(ends[0]);
    close(ends[1]);
    const int fd = open(work_path("."), O_RDONLY);
    assert_int_equal(coffer_open_fd(&model, fd, 0, UINT64_MAX, NULL, &err), COFFER_ERR_DIRECTORY);
    close(fd);
}

static void wrong_calls(void **state)
{
    (void)state;
    coffer_error err;
    coffer *model = (coffer *)1;
    assert_int_equal(coffer_open(NULL, "x", NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_open(&model, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_open_memory(NULL, model_image.bytes, 8, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_open_memory(&model, NULL, 8, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_open_fd(NULL, 0, 0, 0, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_open_source(&model, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    counted c;
    coffer_source source = source_of(&c, &model_image);
    assert_int_equal(coffer_open_source(NULL, &source, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(c.closes, 1);
    source.read_at = NULL;
    assert_int_equal(coffer_open_source(&model, &source, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(c.closes, 2);
    coffer_open_options options = options_of((coffer_access)3);
    assert_int_equal(coffer_open(&model, work_path("model.safetensors"), &options, &err), COFFER_ERR_ARGUMENT);
    assert_null(model);
    assert_int_equal(coffer_open_memory(&model, model_image.bytes, model_image.size, &options, &err),
                     COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_open_fd(&model, 0, 0, UINT64_MAX, &options, &err), COFFER_ERR_ARGUMENT);
    source = source_of(&c, &model_image);
    assert_int_equal(coffer_open_source(&model, &source, &options, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(c.closes, 1);
    assert_int_equal(c.reads, 0);
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static void options_of_older_and_newer_callers(void **state)
{
    (void)state;
    struct {
        coffer_open_options known;
        uint64_t from_the_future;
    } newer = { options_of(COFFER_READ), 42 };
    newer.known.struct_size = sizeof newer;
    coffer_error err;
    coffer *model = NULL;
    assert_int_equal(coffer_open(&model, work_path("model.safetensors"), &newer.known, &err), COFFER_OK);
    assert_null(coffer_data(model, coffer_at(model, 0), NULL));
    coffer_close(model);
    /* An older caller's struct ends before `access`: what lies behind is not its. */
    coffer_open_options older = options_of(COFFER_READ);
    older.struct_size = offsetof(coffer_open_options, access);
    assert_int_equal(coffer_open(&model, work_path("model.safetensors"), &older, &err), COFFER_OK);
    assert_non_null(coffer_data(model, coffer_at(model, 0), NULL));
    coffer_close(model);
    coffer_open_options unset = options_of(COFFER_MAP);
    unset.struct_size = 0;
    assert_int_equal(coffer_open(&model, work_path("model.safetensors"), &unset, &err), COFFER_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "struct_size"));
    unset.struct_size = sizeof(size_t) - 1;
    assert_int_equal(coffer_open(&model, work_path("model.safetensors"), &unset, &err), COFFER_ERR_ARGUMENT);
    unset.struct_size = sizeof(size_t);
    assert_int_equal(coffer_open(&model, work_path("model.safetensors"), &unset, &err), COFFER_OK);
    coffer_close(model);
}

static void options_reach_the_parser(void **state)
{
    (void)state;
    coffer_error err;
    coffer *model = NULL;
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.max_header_size = model_image.data_offset - 9;
    assert_int_equal(coffer_open(&model, work_path("model.safetensors"), &options, &err), COFFER_ERR_HEADER_TOO_LARGE);
    assert_int_equal(err.expected, model_image.data_offset - 9);
    options.max_header_size++;
    assert_int_equal(coffer_open(&model, work_path("model.safetensors"), &options, &err), COFFER_OK);
    coffer_close(model);
    static const char text[] = "{\"A\":{\"dtype\":\"X9\",\"shape\":[1],\"data_offsets\":[0,1]},"
                               "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}";
    uint8_t file[8 + sizeof text + 1] = { sizeof text - 1 };
    memcpy(file + 8, text, sizeof text - 1);
    options = (coffer_open_options)COFFER_OPEN_OPTIONS_INIT;
    const size_t size = 8 + sizeof text - 1 + 2;
    assert_int_equal(coffer_open_memory(&model, file, size, &options, &err), COFFER_ERR_DTYPE);
    options.unknown_dtypes = true;
    options.all_notes = true;
    assert_int_equal(coffer_open_memory(&model, file, size, &options, &err), COFFER_OK);
    assert_int_equal(coffer_table_note(coffer_shard_table(model, 0), COFFER_NOTE_UNKNOWN_DTYPE).count, 1);
    assert_int_equal(coffer_table_note(coffer_shard_table(model, 0), COFFER_NOTE_CASE).count, 1);
    assert_true(coffer_is_aligned(model, tensor_named(model, "A")));
    coffer_close(model);
}

/* ---- how headers are read ---------------------------------------------------------------------------------------- */

static image large_header_image(void)
{
    static char names[3000][16];
    static tensor_spec many[3000];
    for (size_t i = 0; i < 3000; i++) {
        names[i][0] = 't';
        for (size_t digit = 0, rest = i; digit < 5; digit++, rest /= 10) {
            names[i][5 - digit] = (char)('0' + rest % 10);
        }
        many[i] = (tensor_spec){ names[i], COFFER_U8, 1, { i % 3 } };
    }
    return image_of(many, 3000);
}

static void ordinary_headers_take_one_read(void **state)
{
    (void)state;
    coffer *model = NULL;
    counted c;
    coffer_source source = source_of(&c, &model_image);
    assert_int_equal(coffer_open_source(&model, &source, NULL, NULL), COFFER_OK);
    assert_int_equal(c.reads, 1);
    coffer_close(model);
    image large = large_header_image();
    assert_true(large.data_offset > 65536);
    source = source_of(&c, &large);
    assert_int_equal(coffer_open_source(&model, &source, NULL, NULL), COFFER_OK);
    assert_int_equal(c.reads, 2);
    assert_int_equal(c.read_bytes, large.data_offset);
    assert_int_equal(coffer_count(model), 3000);
    coffer_close(model);
    assert_int_equal(c.closes, 1);
    image_free(&large);
}

typedef struct small_opener {
    const char *path;
    coffer_status status;
} small_opener;

static void *open_and_close(void *arg)
{
    small_opener *opener = arg;
    coffer *model = NULL;
    opener->status = coffer_open(&model, opener->path, NULL, NULL);
    coffer_close(model);
    return NULL;
}

/* As small as the system lets it be, which is more than 64 KiB on some machines. */
static size_t small_stack(void)
{
    const size_t wanted = (size_t)64 << 10;
#ifdef PTHREAD_STACK_MIN
    const long least = (long)PTHREAD_STACK_MIN;
    return least > (long)wanted ? (size_t)least : wanted;
#else
    return wanted;
#endif
}

static void threads_with_small_stacks_can_open(void **state)
{
    (void)state;
    image large = large_header_image();
    file_write("stack", large.bytes, large.size);
    small_opener opener = { work_path("stack"), COFFER_ERR_MEMORY };
    pthread_attr_t small;
    pthread_t thread;
    assert_int_equal(pthread_attr_init(&small), 0);
    assert_int_equal(pthread_attr_setstacksize(&small, small_stack()), 0);
    assert_int_equal(pthread_create(&thread, &small, open_and_close, &opener), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(opener.status, COFFER_OK);
    assert_int_equal(pthread_attr_destroy(&small), 0);
    image_free(&large);
}

static void failing_reads_fail_the_opening(void **state)
{
    (void)state;
    image large = large_header_image();
    for (size_t i = 1; i <= 2; i++) {
        coffer *model = NULL;
        coffer_error err;
        counted c;
        coffer_source source = source_of(&c, &large);
        c.fail_at = i;
        c.complain = "no key for this store";
        assert_int_equal(coffer_open_source(&model, &source, NULL, &err), COFFER_ERR_LOCKED);
        assert_int_equal(err.code, COFFER_ERR_LOCKED);
        assert_string_equal(err.message, "no key for this store");
        assert_int_equal(c.closes, 1);
        source = source_of(&c, &large);
        c.fail_at = i;
        assert_int_equal(coffer_open_source(&model, &source, NULL, &err), COFFER_ERR_LOCKED);
        assert_int_equal(err.code, COFFER_ERR_LOCKED);
        assert_true(err.message[0] != '\0');
        assert_int_equal(coffer_open_source(&model, &source, NULL, NULL), COFFER_OK);
        coffer_close(model);
        assert_int_equal(c.closes, 2);
    }
    image_free(&large);
}

static coffer_status open_way(int way, coffer **model, const coffer_open_options *options, coffer_error *err)
{
    static counted c;
    const coffer_source source = source_of(&c, &model_image);
    const int fd = open(work_path("large"), O_RDONLY);
    coffer_status status = COFFER_OK;
    if (way == 0) {
        status = coffer_open(model, work_path("large"), options, err);
    } else if (way == 1) {
        status = coffer_open_memory(model, model_image.bytes, model_image.size, options, err);
    } else if (way == 2) {
        status = coffer_open_fd(model, fd, 0, UINT64_MAX, options, err);
    } else {
        status = coffer_open_source(model, &source, options, err);
    }
    close(fd);
    return status;
}

static void memory_may_run_out_anywhere(void **state)
{
    (void)state;
    image large = large_header_image();
    file_write("large", large.bytes, large.size);
    image_free(&large);
    for (int way = 0; way < 4; way++) {
        memory_meter meter;
        const coffer_allocator allocator = metered_allocator(&meter);
        coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
        options.allocator = &allocator;
        coffer_status status = COFFER_ERR_MEMORY;
        for (size_t k = 1; status == COFFER_ERR_MEMORY; k++) {
            coffer *model = NULL;
            coffer_error err;
            meter.requests = 0;
            meter.fail_at = k;
            status = open_way(way, &model, &options, &err);
            if (status == COFFER_ERR_MEMORY) {
                assert_int_equal(err.code, COFFER_ERR_MEMORY);
                assert_null(model);
            } else {
                assert_int_equal(status, COFFER_OK);
                assert_true(k > 3);
                coffer_close(model);
            }
            assert_int_equal(meter.blocks, 0);
            assert_int_equal(meter.held, 0);
        }
    }
}

static void the_header_buffer_is_not_kept(void **state)
{
    (void)state;
    memory_meter meter;
    const coffer_allocator allocator = metered_allocator(&meter);
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.allocator = &allocator;
    coffer *model = NULL;
    assert_int_equal(coffer_open(&model, work_path("model.safetensors"), &options, NULL), COFFER_OK);
    assert_true(meter.held < 8 * model_image.data_offset + 4096);
    assert_true(meter.blocks <= 4); /* the model, its shard, the path, the table */
    coffer_close(model);
}

static void a_long_header_takes_no_memory_but_its_tables(void **state)
{
    (void)state;
    image large = large_header_image();
    file_write("long", large.bytes, large.size);
    memory_meter meter;
    const coffer_allocator allocator = metered_allocator(&meter);
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.allocator = &allocator;
    coffer *model = NULL;
    assert_int_equal(coffer_open(&model, work_path("long"), &options, NULL), COFFER_OK);
    assert_int_equal(coffer_count(model), 3000);
    coffer_close(model);
    const size_t peak = meter.peak;
    meter.peak = 0;
    coffer_table *table = NULL;
    assert_int_equal(coffer_parse(&table, NULL, large.bytes, large.size, &allocator, NULL, NULL), COFFER_OK);
    assert_true(peak < meter.peak + 4096);
    coffer_table_free(table);
    image_free(&large);
}

/* More than a program of 32 bits can map, but not more than it can read from. */
static void check_end_of_huge(const char *name, const uint8_t *mark)
{
    coffer *model = NULL;
    coffer_error err;
    assert_int_equal(coffer_open(&model, work_path(name), NULL, &err), COFFER_OK);
    const coffer_tensor *last = tensor_named(model, "last");
    const uint8_t *data = coffer_data(model, last, &err);
    if (data != NULL) {
        assert_memory_equal(data + last->size - 4, mark, 4);
    } else {
        /* 32 bits are too few, and qemu, which runs this for other machines, wants memory for all of it. */
        assert_true(SIZE_MAX == UINT32_MAX ? err.code == COFFER_ERR_UNSUPPORTED : err.os_error == ENOMEM);
        assert_non_null(strstr(err.message, SIZE_MAX == UINT32_MAX ? "read tensors or slices" : "can be read instead"));
        assert_string_equal(err.tensor, "last");
    }
    uint8_t end[1000];
    assert_int_equal(coffer_read(model, last, end, sizeof end, NULL, &err), COFFER_OK);
    assert_memory_equal(end + sizeof end - 4, mark, 4);
    if (SIZE_MAX == UINT32_MAX) {
        const coffer_tensor *huge = tensor_named(model, "huge");
        assert_int_equal(coffer_read(model, huge, end, huge->size, NULL, &err), COFFER_ERR_UNSUPPORTED);
        assert_string_equal(err.tensor, "huge");
    }
    const coffer_index index = { .kind = COFFER_INDEX_RANGE, .start = -4, .has_start = true, .step = 1 };
    assert_int_equal(coffer_read_slice(model, last, &index, 1, end, 4, NULL, &err), COFFER_OK);
    assert_memory_equal(end, mark, 4);
    coffer_close(model);
}

static void a_sparse_file_of_100_gigabytes(void **state)
{
    (void)state;
    const uint64_t rows = 25000000;
    const tensor_spec huge[] = { { "huge", COFFER_F32, 2, { rows, 1000 } }, { "last", COFFER_U8, 1, { 1000 } } };
    coffer_header *header = header_of(huge, 2, NULL);
    const void *bytes = NULL;
    uint64_t size = 0;
    assert_int_equal(coffer_header_build(header, NULL, &bytes, &size, NULL, NULL), COFFER_OK);
    file_write("huge", bytes, (size_t)size);
    coffer_header_free(header);
    const uint64_t file_size = size + rows * 4000 + 1000;
    const int fd = open(work_path("huge"), O_WRONLY);
    assert_int_equal(pwrite(fd, "mark", 4, (off_t)(file_size - 4)), 4);
    close(fd);
    check_end_of_huge("huge", (const uint8_t *)"mark");
    assert_int_equal(truncate(work_path("huge"), (off_t)(file_size - 1)), 0);
    coffer *model = NULL;
    coffer_error err;
    assert_int_equal(coffer_open(&model, work_path("huge"), NULL, &err), COFFER_ERR_DATA_TRUNCATED);
    assert_int_equal(err.offset, file_size - 1);
    assert_int_equal(unlink(work_path("huge")), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(look_up_from_every_source),
        cmocka_unit_test(data_by_map_and_from_memory),
        cmocka_unit_test(a_range_of_a_descriptor),
        cmocka_unit_test(without_a_map),
        cmocka_unit_test(data_that_can_be_changed),
        cmocka_unit_test(tensors_of_other_models_are_refused),
        cmocka_unit_test(threads_share_one_map),
        cmocka_unit_test(files_that_are_no_models),
        cmocka_unit_test(memory_and_sources_that_are_no_models),
        cmocka_unit_test(descriptors_that_cannot_be_read),
        cmocka_unit_test(wrong_calls),
        cmocka_unit_test(options_of_older_and_newer_callers),
        cmocka_unit_test(options_reach_the_parser),
        cmocka_unit_test(ordinary_headers_take_one_read),
        cmocka_unit_test(threads_with_small_stacks_can_open),
        cmocka_unit_test(failing_reads_fail_the_opening),
        cmocka_unit_test(memory_may_run_out_anywhere),
        cmocka_unit_test(the_header_buffer_is_not_kept),
        cmocka_unit_test(a_long_header_takes_no_memory_but_its_tables),
        cmocka_unit_test(a_sparse_file_of_100_gigabytes),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
