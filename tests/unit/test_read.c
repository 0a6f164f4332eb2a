/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading tensors and slices of opened models, from every kind of source: all must give the same bytes. A file that
 * changes under a model that reads must give an error, never a signal; a failure must name the file, the tensor and the
 * reason.
 */
#define _POSIX_C_SOURCE 200809L

#include "support_cmocka.h"

#include "coffer.h"
#include "support_file.h"
#include "support_memory.h"
#include "support_model.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const tensor_spec specs[] = {
    { "big", COFFER_BF16, 2, { 1500, 2048 } }, /* 6 MB */
    { "cube", COFFER_F32, 3, { 20, 30, 40 } }, /* 96 KB */
    { "empty", COFFER_I64, 3, { 5, 0, 2 } },    { "scalar", COFFER_F64, 0, { 0 } },
    { "packed", COFFER_F6_E2M3, 2, { 10, 8 } }, { "bytes", COFFER_U8, 1, { 4099 } },
};
#define SPEC_COUNT (sizeof specs / sizeof specs[0])

static image model_image;

/* ---- the same model from every source ---------------------------------------------------------------------------- */

typedef struct counted {
    pthread_mutex_t mutex; /* guards what follows */
    size_t reads;
    uint64_t read_bytes;
    uint64_t low; /* of what was read */
    uint64_t high;
    size_t fail_at; /* the read that fails, from 1 */
} counted;

static counted counts = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static void counts_reset(size_t fail_at)
{
    pthread_mutex_lock(&counts.mutex);
    counts.reads = 0;
    counts.read_bytes = 0;
    counts.low = UINT64_MAX;
    counts.high = 0;
    counts.fail_at = fail_at;
    pthread_mutex_unlock(&counts.mutex);
}

static coffer_status counted_read(void *ctx, uint64_t offset, void *buffer, size_t size, coffer_error *err)
{
    counted *c = ctx;
    assert_non_null(err);
    pthread_mutex_lock(&c->mutex);
    const bool fails = ++c->reads == c->fail_at;
    c->read_bytes += size;
    c->low = offset < c->low ? offset : c->low;
    c->high = offset + size > c->high ? offset + size : c->high;
    pthread_mutex_unlock(&c->mutex);
    memcpy(buffer, model_image.bytes + offset, size);
    return fails ? COFFER_ERR_LOCKED : COFFER_OK;
}

typedef enum way { BY_MAP, BY_PRIVATE_MAP, BY_READS, BY_MEMORY, BY_RANGE, BY_CALLER, WAY_COUNT } way;

#define RANGE_OFFSET 1001

static coffer *open_by(way how, const coffer_allocator *allocator)
{
    coffer *model = NULL;
    coffer_error err;
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.allocator = allocator;
    options.access = how == BY_PRIVATE_MAP ? COFFER_MAP_PRIVATE : how == BY_READS ? COFFER_READ : COFFER_MAP;
    coffer_status status = COFFER_OK;
    if (how == BY_MEMORY) {
        status = coffer_open_memory(&model, model_image.bytes, model_image.size, &options, &err);
    } else if (how == BY_RANGE) {
        const int fd = open(work_path("archive"), O_RDONLY);
        status = coffer_open_fd(&model, fd, RANGE_OFFSET, UINT64_MAX, &options, &err);
        close(fd);
    } else if (how == BY_CALLER) {
        const coffer_source source = { .read_at = counted_read, .ctx = &counts, .size = model_image.size };
        counts_reset(0);
        status = coffer_open_source(&model, &source, &options, &err);
    } else {
        status = coffer_open(&model, work_path("model.safetensors"), &options, &err);
    }
    if (status != COFFER_OK) {
        fail_msg("way %d: %s", (int)how, err.message);
    }
    return model;
}

static int set_up(void **state)
{
    (void)state;
    work_dir_make();
    model_image = image_of(specs, SPEC_COUNT);
    file_write("model.safetensors", model_image.bytes, model_image.size);
    uint8_t *archive = calloc(1, RANGE_OFFSET + model_image.size);
    assert_non_null(archive);
    memcpy(archive + RANGE_OFFSET, model_image.bytes, model_image.size);
    file_write("archive", archive, RANGE_OFFSET + model_image.size);
    free(archive);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    image_free(&model_image);
    work_dir_remove();
    return 0;
}

/* ---- whole tensors ----------------------------------------------------------------------------------------------- */

static void whole_tensors_from_every_source(void **state)
{
    (void)state;
    for (int how = 0; how < WAY_COUNT; how++) {
        coffer *model = open_by((way)how, NULL);
        for (size_t i = 0; i < coffer_count(model); i++) {
            const coffer_tensor *tensor = coffer_at(model, i);
            uint8_t *buffer = coffer_buffer_new((size_t)tensor->size + 1);
            assert_non_null(buffer);
            buffer[tensor->size] = 0x77;
            counts_reset(0);
            coffer_error err;
            assert_int_equal(coffer_read(model, tensor, buffer, tensor->size, NULL, &err), COFFER_OK);
            assert_memory_equal(buffer, model_image.bytes + tensor->offset, (size_t)tensor->size);
            assert_int_equal(buffer[tensor->size], 0x77);
            if (how == BY_CALLER && tensor->size > 0) {
                assert_int_equal(counts.read_bytes, tensor->size);
                assert_int_equal(counts.low, tensor->offset);
                assert_int_equal(counts.high, tensor->offset + tensor->size);
            }
            coffer_buffer_free(buffer, (size_t)tensor->size + 1);
        }
        assert_int_equal(coffer_read(model, tensor_named(model, "empty"), NULL, 0, NULL, NULL), COFFER_OK);
        coffer_close(model);
    }
}

static void parts_from_every_source(void **state)
{
    (void)state;
    static const uint64_t ends[][2] = { { 0, 1 }, { 5, 5 }, { 17, 60000 }, { 95999, 96000 }, { 96000, 96000 } };
    coffer_error err;
    uint8_t buffer[60000];
    for (int how = 0; how < WAY_COUNT; how++) {
        coffer *model = open_by((way)how, NULL);
        const coffer_tensor *tensor = tensor_named(model, "cube");
        for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
            const uint64_t from = ends[i][0];
            const uint64_t size = ends[i][1] - from;
            memset(buffer, 0, sizeof buffer);
            assert_int_equal(coffer_read_part(model, tensor, from, buffer, size, NULL, &err), COFFER_OK);
            assert_memory_equal(buffer, model_image.bytes + tensor->offset + from, (size_t)size);
            assert_true(size == sizeof buffer || buffer[size] == 0);
        }
        assert_int_equal(coffer_read_part(model, tensor, 95990, buffer, 11, NULL, &err), COFFER_ERR_INDEX);
        assert_string_equal(err.tensor, "cube");
        assert_int_equal(coffer_read_part(model, tensor, 96001, buffer, 0, NULL, &err), COFFER_ERR_INDEX);
        assert_int_equal(coffer_read_part(model, tensor, UINT64_MAX, buffer, 2, NULL, &err), COFFER_ERR_INDEX);
        assert_int_equal(coffer_read_part(model, tensor, 0, NULL, 2, NULL, &err), COFFER_ERR_ARGUMENT);
        assert_int_equal(coffer_read_part(NULL, tensor, 0, buffer, 2, NULL, &err), COFFER_ERR_ARGUMENT);
        assert_int_equal(coffer_read_part(model, NULL, 0, buffer, 2, NULL, &err), COFFER_ERR_ARGUMENT);
        coffer_close(model);
    }
}

static void buffers_must_be_of_the_right_size(void **state)
{
    (void)state;
    coffer *model = open_by(BY_READS, NULL);
    const coffer_tensor *tensor = tensor_named(model, "scalar");
    const coffer_index all = { .kind = COFFER_INDEX_ELLIPSIS };
    uint8_t buffer[16];
    for (uint64_t size = 0; size <= 16; size++) {
        coffer_error err;
        const coffer_status wanted = size == 8 ? COFFER_OK : COFFER_ERR_BUFFER_SIZE;
        assert_int_equal(coffer_read(model, tensor, buffer, size, NULL, &err), wanted);
        if (size != 8) {
            assert_int_equal(err.code, wanted);
            assert_int_equal(err.expected, 8);
            assert_int_equal(err.actual, size);
            assert_string_equal(err.tensor, "scalar");
            assert_string_equal(err.path, work_path("model.safetensors"));
        }
        assert_int_equal(coffer_read_slice(model, tensor, &all, 1, buffer, size, NULL, &err), wanted);
    }
    assert_int_equal(coffer_read(model, tensor, NULL, 8, NULL, NULL), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_read_slice(model, tensor, NULL, 0, NULL, 8, NULL, NULL), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_read_slice(model, tensor, NULL, 1, buffer, 8, NULL, NULL), COFFER_ERR_ARGUMENT);
    coffer_read_options options = COFFER_READ_OPTIONS_INIT;
    options.struct_size = 0;
    assert_int_equal(coffer_read(model, tensor, buffer, 8, &options, NULL), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_read_slice(model, tensor, NULL, 0, buffer, 8, &options, NULL), COFFER_ERR_ARGUMENT);
    coffer_close(model);
}

/* ---- many tensors at once ---------------------------------------------------------------------------------------- */

/* Every tensor of the model, from the last to the first when `backwards`, with memory of their own. */
static void targets_make(const coffer *model, bool backwards, coffer_read_target targets[SPEC_COUNT])
{
    assert_int_equal(coffer_count(model), SPEC_COUNT);
    for (size_t i = 0; i < SPEC_COUNT; i++) {
        const coffer_tensor *tensor = coffer_at(model, backwards ? SPEC_COUNT - 1 - i : i);
        targets[i] = (coffer_read_target){ tensor, calloc(1, (size_t)tensor->size + 1), tensor->size };
        assert_non_null(targets[i].buffer);
    }
}

static void targets_check(const coffer_read_target targets[SPEC_COUNT])
{
    for (size_t i = 0; i < SPEC_COUNT; i++) {
        const coffer_tensor *tensor = targets[i].tensor;
        const uint8_t *got = targets[i].buffer;
        assert_memory_equal(got, model_image.bytes + tensor->offset, (size_t)tensor->size);
        assert_int_equal(got[tensor->size], 0);
    }
}

static void targets_free(coffer_read_target targets[SPEC_COUNT])
{
    for (size_t i = 0; i < SPEC_COUNT; i++) {
        free(targets[i].buffer);
    }
}

static void many_tensors_in_any_order_from_every_source(void **state)
{
    (void)state;
    for (int how = 0; how < WAY_COUNT; how++) {
        coffer *model = open_by((way)how, NULL);
        for (uint32_t threads = 0; threads < 6; threads++) {
            coffer_read_target targets[SPEC_COUNT];
            targets_make(model, threads % 2 == 1, targets);
            coffer_read_options options = COFFER_READ_OPTIONS_INIT;
            options.threads = threads;
            coffer_error err;
            counts_reset(0);
            assert_int_equal(coffer_read_many(model, targets, SPEC_COUNT, &options, &err), COFFER_OK);
            targets_check(targets);
            assert_true(how != BY_CALLER || counts.high == model_image.size);
            targets_free(targets);
        }
        assert_int_equal(coffer_read_many(model, NULL, 0, NULL, NULL), COFFER_OK);
        coffer_close(model);
    }
}

static void one_tensor_may_be_read_into_several_places(void **state)
{
    (void)state;
    coffer *model = open_by(BY_READS, NULL);
    const coffer_tensor *scalar = tensor_named(model, "scalar");
    uint64_t places[3] = { 0, 0, 0 };
    const coffer_read_target targets[] = { { scalar, &places[0], 8 }, { scalar, &places[2], 8 } };
    assert_int_equal(coffer_read_many(model, targets, 2, NULL, NULL), COFFER_OK);
    assert_memory_equal(&places[0], model_image.bytes + scalar->offset, 8);
    assert_memory_equal(&places[2], model_image.bytes + scalar->offset, 8);
    assert_int_equal(places[1], 0);
    coffer_close(model);
}

/* A wrong target, wherever it stands among right ones, is found before anything is read. */
static void wrong_targets_are_refused_before_reading(void **state)
{
    (void)state;
    coffer *model = open_by(BY_CALLER, NULL);
    coffer *other = open_by(BY_MAP, NULL);
    for (size_t at = 0; at < SPEC_COUNT; at++) {
        coffer_read_target targets[SPEC_COUNT];
        targets_make(model, false, targets);
        const coffer_read_target right = targets[at];
        coffer_error err;
        counts_reset(0);
        targets[at].buffer_size++;
        assert_int_equal(coffer_read_many(model, targets, SPEC_COUNT, NULL, &err), COFFER_ERR_BUFFER_SIZE);
        assert_int_equal(err.code, COFFER_ERR_BUFFER_SIZE);
        assert_int_equal(err.expected, right.tensor->size);
        assert_int_equal(err.actual, right.tensor->size + 1);
        assert_string_equal(err.tensor, right.tensor->name);
        targets[at] = right;
        targets[at].tensor = coffer_at(other, 0);
        assert_int_equal(coffer_read_many(model, targets, SPEC_COUNT, NULL, &err), COFFER_ERR_ARGUMENT);
        assert_int_equal(err.code, COFFER_ERR_ARGUMENT);
        char words[16];
        snprintf(words, sizeof words, "target %zu of", at + 1);
        assert_non_null(strstr(err.message, words));
        targets[at].tensor = NULL;
        assert_int_equal(coffer_read_many(model, targets, SPEC_COUNT, NULL, &err), COFFER_ERR_ARGUMENT);
        targets[at] = right;
        targets[at].buffer = NULL;
        const coffer_status wanted = right.tensor->size == 0 ? COFFER_OK : COFFER_ERR_ARGUMENT;
        assert_true(wanted == COFFER_OK || counts.reads == 0);
        assert_int_equal(coffer_read_many(model, targets, SPEC_COUNT, NULL, &err), wanted);
        assert_true(wanted == COFFER_OK || strcmp(err.tensor, right.tensor->name) == 0);
        targets[at] = right;
        targets_free(targets);
    }
    coffer_close(other);
    coffer_close(model);
}

static void calls_for_many_that_are_wrong(void **state)
{
    (void)state;
    coffer *model = open_by(BY_READS, NULL);
    coffer_read_target targets[SPEC_COUNT];
    targets_make(model, false, targets);
    coffer_error err;
    assert_int_equal(coffer_read_many(NULL, targets, SPEC_COUNT, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(err.code, COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_read_many(model, NULL, 1, NULL, &err), COFFER_ERR_ARGUMENT);
    coffer_read_options options = COFFER_READ_OPTIONS_INIT;
    options.struct_size = 0;
    assert_int_equal(coffer_read_many(model, targets, SPEC_COUNT, &options, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_read_many(model, targets, SIZE_MAX, NULL, &err), COFFER_ERR_MEMORY);
    assert_int_equal(err.code, COFFER_ERR_MEMORY);
    targets_free(targets);
    coffer_close(model);
}

/* Whichever read fails, the tensor that it was for is named. */
static void a_read_of_many_that_fails_names_its_tensor(void **state)
{
    (void)state;
    coffer *model = open_by(BY_CALLER, NULL);
    coffer_read_options options = COFFER_READ_OPTIONS_INIT;
    options.threads = 1;
    coffer_read_target targets[SPEC_COUNT];
    targets_make(model, false, targets);
    size_t reads = 0;
    for (size_t i = 0; i < SPEC_COUNT; i++) {
        counts_reset(0);
        assert_int_equal(
            coffer_read(model, targets[i].tensor, targets[i].buffer, targets[i].buffer_size, &options, NULL),
            COFFER_OK);
        const size_t of_tensor = counts.reads;
        for (size_t k = 0; k < of_tensor; k++) {
            coffer_error err;
            counts_reset(++reads);
            assert_int_equal(coffer_read_many(model, targets, SPEC_COUNT, &options, &err), COFFER_ERR_LOCKED);
            assert_int_equal(err.code, COFFER_ERR_LOCKED);
            assert_string_equal(err.tensor, targets[i].tensor->name);
            assert_int_equal(counts.reads, reads);
        }
    }
    counts_reset(reads + 1);
    assert_int_equal(coffer_read_many(model, targets, SPEC_COUNT, &options, NULL), COFFER_OK);
    targets_check(targets);
    targets_free(targets);
    coffer_close(model);
}

/* ---- slices ------------------------------------------------------------------------------------------------------ */

/* Reads `text` of a tensor into fresh memory and gives its size. */
static uint8_t *read_text(const coffer *model, const coffer_tensor *tensor, const char *text, uint64_t *size)
{
    coffer_index indices[8];
    size_t count = 8;
    assert_int_equal(coffer_slice_parse(text, strlen(text), indices, &count, NULL), COFFER_OK);
    coffer_error err;
    assert_int_equal(coffer_slice_shape(tensor, indices, count, NULL, NULL, size, &err), COFFER_OK);
    uint8_t *buffer = malloc((size_t)*size + 1);
    assert_non_null(buffer);
    buffer[*size] = 0x99;
    assert_int_equal(coffer_read_slice(model, tensor, indices, count, buffer, *size, NULL, &err), COFFER_OK);
    assert_int_equal(buffer[*size], 0x99);
    return buffer;
}

static void slices_from_every_source(void **state)
{
    (void)state;
    for (int how = 0; how < WAY_COUNT; how++) {
        coffer *model = open_by((way)how, NULL);
        const coffer_tensor *cube = tensor_named(model, "cube");
        const uint8_t *from = model_image.bytes + cube->offset;
        uint64_t size = 0;
        uint8_t *got = read_text(model, cube, "::-2, 3:11, -1", &size);
        assert_int_equal(size, 10 * 8 * 4);
        for (size_t i = 0; i < 10; i++) {
            for (size_t j = 0; j < 8; j++) {
                const size_t element = ((19 - 2 * i) * 30 + 3 + j) * 40 + 39;
                assert_memory_equal(got + (i * 8 + j) * 4, from + element * 4, 4);
            }
        }
        free(got);
        got = read_text(model, cube, "", &size);
        assert_int_equal(size, cube->size);
        assert_memory_equal(got, from, (size_t)size);
        free(got);
        got = read_text(model, cube, "4:4", &size);
        assert_int_equal(size, 0);
        free(got);
        const coffer_tensor *packed = tensor_named(model, "packed");
        got = read_text(model, packed, "::3, 4:", &size);
        assert_int_equal(size, 12);
        for (size_t i = 0; i < 4; i++) {
            assert_memory_equal(got + i * 3, model_image.bytes + packed->offset + i * 18 + 3, 3);
        }
        free(got);
        coffer_close(model);
    }
}

static void a_slice_reads_little_more_than_it_needs(void **state)
{
    (void)state;
    coffer *model = open_by(BY_CALLER, NULL);
    const coffer_tensor *big = tensor_named(model, "big");
    uint64_t size = 0;
    counts_reset(0);
    free(read_text(model, big, "100:200", &size));
    assert_int_equal(counts.read_bytes, 100 * 4096);
    assert_int_equal(counts.low, big->offset + 100 * 4096);
    assert_int_equal(counts.reads, 1);
    counts_reset(0);
    free(read_text(model, big, ":, 7", &size));
    /* Rows of 4096 bytes: the gaps are read through, in windows, from the first element to the last and not beyond. */
    assert_int_equal(size, 3000);
    assert_true(counts.reads < 40);
    assert_int_equal(counts.low, big->offset + 14);
    assert_int_equal(counts.high, big->offset + 1499 * 4096 + 16);
    counts_reset(0);
    free(read_text(model, big, "::4, 7", &size));
    /* 16 KiB from one to the next: nothing but the elements is read. */
    assert_int_equal(size, 750);
    assert_int_equal(counts.read_bytes, 750);
    counts_reset(0);
    free(read_text(model, big, "0:0", &size));
    assert_int_equal(counts.reads, 0);
    coffer_close(model);
}

static void slices_of_a_private_map_see_its_changes(void **state)
{
    (void)state;
    coffer *model = open_by(BY_PRIVATE_MAP, NULL);
    const coffer_tensor *tensor = tensor_named(model, "bytes");
    uint8_t *data = coffer_data_mutable(model, tensor, NULL);
    assert_non_null(data);
    memset(data, 0xAB, (size_t)tensor->size);
    uint64_t size = 0;
    uint8_t *got = read_text(model, tensor, "10:12", &size);
    assert_int_equal(got[0], 0xAB);
    free(got);
    coffer_close(model);
}

static void wrong_slices(void **state)
{
    (void)state;
    static const struct {
        const char *tensor;
        coffer_index index;
        coffer_status status;
    } cases[] = {
        { "cube", { .kind = COFFER_INDEX_AT, .start = 20 }, COFFER_ERR_INDEX },
        { "cube", { .kind = COFFER_INDEX_RANGE }, COFFER_ERR_STEP },
        { "scalar", { .kind = COFFER_INDEX_ALL }, COFFER_ERR_INDEX },
        { "cube", { .kind = (coffer_index_kind)77 }, COFFER_ERR_ARGUMENT },
    };
    coffer *model = open_by(BY_MAP, NULL);
    uint8_t buffer[8];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        coffer_error err;
        const coffer_tensor *tensor = tensor_named(model, cases[i].tensor);
        assert_int_equal(coffer_read_slice(model, tensor, &cases[i].index, 1, buffer, 8, NULL, &err), cases[i].status);
        assert_int_equal(err.code, cases[i].status);
        assert_string_equal(err.tensor, cases[i].tensor);
        assert_string_equal(err.path, work_path("model.safetensors"));
    }
    coffer_error err;
    const coffer_index odd[] = { { .kind = COFFER_INDEX_ALL },
                                 { .kind = COFFER_INDEX_RANGE, .has_start = true, .start = 1, .step = 1 } };
    assert_int_equal(coffer_read_slice(model, tensor_named(model, "packed"), odd, 2, buffer, 8, NULL, &err),
                     COFFER_ERR_SLICE_BITS);
    assert_string_equal(err.tensor, "packed");
    coffer_close(model);
}

/* ---- threads and progress ---------------------------------------------------------------------------------------- */

typedef struct reader {
    pthread_t thread;
    const coffer *model;
    bool right;
} reader;

static void *read_everything(void *arg)
{
    reader *r = arg;
    r->right = true;
    for (size_t i = 0; i < coffer_count(r->model); i++) {
        const coffer_tensor *tensor = coffer_at(r->model, i);
        uint8_t *buffer = malloc((size_t)tensor->size + 1);
        const coffer_index all = { .kind = COFFER_INDEX_ELLIPSIS };
        coffer_read_options options = COFFER_READ_OPTIONS_INIT;
        options.threads = 2;
        r->right = r->right && buffer != NULL;
        r->right = r->right && coffer_read(r->model, tensor, buffer, tensor->size, &options, NULL) == COFFER_OK;
        r->right = r->right && memcmp(buffer, model_image.bytes + tensor->offset, (size_t)tensor->size) == 0;
        r->right =
            r->right && coffer_read_slice(r->model, tensor, &all, 1, buffer, tensor->size, NULL, NULL) == COFFER_OK;
        free(buffer);
    }
    return NULL;
}

static void any_number_of_threads_may_read(void **state)
{
    (void)state;
    for (int how = 0; how < WAY_COUNT; how++) {
        coffer *model = open_by((way)how, NULL);
        reader readers[4];
        for (size_t i = 0; i < 4; i++) {
            readers[i].model = model;
            assert_int_equal(pthread_create(&readers[i].thread, NULL, read_everything, &readers[i]), 0);
        }
        for (size_t i = 0; i < 4; i++) {
            pthread_join(readers[i].thread, NULL);
            assert_true(readers[i].right);
        }
        coffer_close(model);
    }
}

typedef struct watcher {
    const coffer *model;
    size_t calls;
    uint64_t last;
    uint64_t total;
    int answer;
} watcher;

static int watch(void *ctx, uint64_t done, uint64_t total)
{
    watcher *w = ctx;
    w->calls++;
    w->last = done;
    w->total = total;
    /* It may use the model. */
    assert_non_null(tensor_named(w->model, "scalar"));
    return w->answer;
}

static void progress_and_cancelling(void **state)
{
    (void)state;
    coffer *model = open_by(BY_READS, NULL);
    const coffer_tensor *big = tensor_named(model, "big");
    uint8_t *buffer = malloc((size_t)big->size);
    assert_non_null(buffer);
    watcher w = { .model = model };
    coffer_read_options options = COFFER_READ_OPTIONS_INIT;
    options.progress = watch;
    options.progress_ctx = &w;
    options.threads = 1;
    coffer_error err;
    assert_int_equal(coffer_read(model, big, buffer, big->size, &options, &err), COFFER_OK);
    assert_true(w.calls > 2 && w.last == big->size && w.total == big->size);
    const coffer_index last[] = { { .kind = COFFER_INDEX_ELLIPSIS }, { .kind = COFFER_INDEX_AT, .start = -1 } };
    w.calls = 0;
    assert_int_equal(coffer_read_slice(model, big, last, 2, buffer, 3000, &options, &err), COFFER_OK);
    assert_true(w.calls == 1 && w.last == 3000 && w.total == 3000);
    w.answer = 1;
    assert_int_equal(coffer_read(model, big, buffer, big->size, &options, &err), COFFER_ERR_CANCELLED);
    assert_int_equal(err.code, COFFER_ERR_CANCELLED);
    assert_string_equal(err.tensor, "big");
    assert_int_equal(coffer_read_slice(model, big, last, 2, buffer, 3000, &options, &err), COFFER_ERR_CANCELLED);
    free(buffer);
    coffer_close(model);
}

static void progress_and_cancelling_of_many(void **state)
{
    (void)state;
    coffer *model = open_by(BY_READS, NULL);
    coffer_read_target targets[SPEC_COUNT];
    targets_make(model, false, targets);
    uint64_t total = 0;
    for (size_t i = 0; i < SPEC_COUNT; i++) {
        total += targets[i].buffer_size;
    }
    watcher w = { .model = model };
    coffer_read_options options = COFFER_READ_OPTIONS_INIT;
    options.progress = watch;
    options.progress_ctx = &w;
    options.threads = 1; /* of several, the others may be done before the one that tells */
    coffer_error err;
    assert_int_equal(coffer_read_many(model, targets, SPEC_COUNT, &options, &err), COFFER_OK);
    assert_true(w.calls > 1 && w.last == total && w.total == total);
    targets_check(targets);
    w.answer = 1;
    w.calls = 0;
    assert_int_equal(coffer_read_many(model, targets, SPEC_COUNT, &options, &err), COFFER_ERR_CANCELLED);
    assert_int_equal(err.code, COFFER_ERR_CANCELLED);
    assert_true(w.calls == 1 && w.total == total);
    /* The whole was cancelled, not one tensor. */
    assert_string_equal(err.tensor, "");
    targets_free(targets);
    coffer_close(model);
}

/* ---- failing ----------------------------------------------------------------------------------------------------- */

static void failing_sources(void **state)
{
    (void)state;
    coffer *model = open_by(BY_CALLER, NULL);
    const coffer_tensor *big = tensor_named(model, "big");
    uint8_t *buffer = malloc((size_t)big->size);
    assert_non_null(buffer);
    coffer_error err;
    for (size_t k = 1; k <= 2; k++) {
        counts_reset(k);
        assert_int_equal(coffer_read(model, big, buffer, big->size, NULL, &err), COFFER_ERR_LOCKED);
        assert_int_equal(err.code, COFFER_ERR_LOCKED);
        assert_true(err.message[0] != '\0');
        assert_string_equal(err.tensor, "big");
        const coffer_index rows = { .kind = COFFER_INDEX_RANGE, .step = 2 };
        counts_reset(k);
        assert_int_equal(coffer_read_slice(model, big, &rows, 1, buffer, big->size / 2, NULL, &err), COFFER_ERR_LOCKED);
        assert_int_equal(err.code, COFFER_ERR_LOCKED);
    }
    counts_reset(0);
    assert_int_equal(coffer_read(model, big, buffer, big->size, NULL, &err), COFFER_OK);
    assert_memory_equal(buffer, model_image.bytes + big->offset, (size_t)big->size);
    free(buffer);
    coffer_close(model);
}

static void check_shortened(coffer *model, const char *name)
{
    const coffer_index all = { .kind = COFFER_INDEX_ELLIPSIS };
    coffer_read_options options = COFFER_READ_OPTIONS_INIT;
    options.threads = 1; /* of several, any may be the first to fail */
    for (size_t i = 0; i < coffer_count(model); i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        const bool lost = tensor->offset + tensor->size > model_image.size / 2 && tensor->size > 0;
        uint8_t *buffer = malloc((size_t)tensor->size + 1);
        assert_non_null(buffer);
        coffer_error err;
        const coffer_status wanted = lost ? COFFER_ERR_CHANGED : COFFER_OK;
        assert_int_equal(coffer_read(model, tensor, buffer, tensor->size, &options, &err), wanted);
        if (lost) {
            assert_int_equal(err.code, COFFER_ERR_CHANGED);
            assert_int_equal(err.expected, model_image.size);
            assert_int_equal(err.actual, model_image.size / 2);
            assert_int_equal(err.offset, tensor->offset > model_image.size / 2 ? tensor->offset : model_image.size / 2);
            assert_string_equal(err.path, work_path(name));
            assert_string_equal(err.tensor, tensor->name);
        }
        assert_int_equal(coffer_read_slice(model, tensor, &all, 1, buffer, tensor->size, NULL, &err), wanted);
        free(buffer);
    }
}

static void a_file_that_is_shortened_is_an_error(void **state)
{
    (void)state;
    for (int access = COFFER_MAP; access <= COFFER_READ; access++) {
        file_write("shrinking", model_image.bytes, model_image.size);
        coffer *model = NULL;
        coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
        options.access = (coffer_access)access;
        assert_int_equal(coffer_open(&model, work_path("shrinking"), &options, NULL), COFFER_OK);
        assert_int_equal(truncate(work_path("shrinking"), (off_t)(model_image.size / 2)), 0);
        /* Where no map was made before, none is made of less than the whole file: slices are read, too. */
        check_shortened(model, "shrinking");
        coffer_error err;
        assert_null(coffer_data(model, coffer_at(model, 0), &err));
        assert_int_equal(err.code, access == COFFER_READ ? COFFER_ERR_NOT_MAPPED : COFFER_ERR_CHANGED);
        /* That is final: what has changed once is not trusted again. */
        assert_int_equal(truncate(work_path("shrinking"), (off_t)model_image.size), 0);
        assert_null(coffer_data(model, coffer_at(model, 0), NULL));
        coffer_close(model);
        assert_int_equal(unlink(work_path("shrinking")), 0);
    }
}

static void a_file_that_is_replaced_or_removed_stays_readable(void **state)
{
    (void)state;
    file_write("old", model_image.bytes, model_image.size);
    coffer *model = NULL;
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.access = COFFER_READ;
    assert_int_equal(coffer_open(&model, work_path("old"), &options, NULL), COFFER_OK);
    assert_int_equal(unlink(work_path("old")), 0);
    uint8_t value[8];
    const coffer_tensor *scalar = tensor_named(model, "scalar");
    assert_int_equal(coffer_read(model, scalar, value, 8, NULL, NULL), COFFER_OK);
    assert_memory_equal(value, model_image.bytes + scalar->offset, 8);
    coffer_close(model);
}

/* A small read takes no memory, so it cannot run out of it; one that gathers runs without a map takes
   a block for them, and reading many tensors one for the rows. */
static void memory_may_run_out_anywhere(void **state)
{
    (void)state;
    for (int how = 0; how < WAY_COUNT; how++) {
        memory_meter meter;
        const coffer_allocator allocator = metered_allocator(&meter);
        coffer *model = open_by((way)how, &allocator);
        const coffer_tensor *cube = tensor_named(model, "cube");
        const coffer_index last[] = { { .kind = COFFER_INDEX_ELLIPSIS }, { .kind = COFFER_INDEX_AT } };
        const bool gathers = how == BY_READS || how == BY_CALLER;
        const size_t blocks = meter.blocks;
        uint8_t *buffer = malloc((size_t)cube->size);
        assert_non_null(buffer);
        const coffer_read_target target = { cube, buffer, cube->size };
        for (size_t k = 1; k <= 2; k++) {
            coffer_error err;
            const coffer_status wanted = k == 1 ? COFFER_ERR_MEMORY : COFFER_OK;
            meter.requests = 0;
            meter.fail_at = k;
            assert_int_equal(coffer_read(model, cube, buffer, cube->size, NULL, &err), COFFER_OK);
            assert_int_equal(meter.requests, 0);
            assert_int_equal(coffer_read_slice(model, cube, last, 2, buffer, 2400, NULL, &err),
                             gathers ? wanted : COFFER_OK);
            assert_int_equal(meter.requests, gathers ? 1 : 0);
            assert_int_equal(meter.blocks, blocks);
            meter.requests = 0;
            assert_int_equal(coffer_read_many(model, &target, 1, NULL, &err), wanted);
            assert_int_equal(meter.requests, 1);
            assert_int_equal(meter.blocks, blocks);
        }
        free(buffer);
        coffer_close(model);
        assert_int_equal(meter.blocks, 0);
    }
}

/* ---- large ------------------------------------------------------------------------------------------------------- */

static void slices_of_a_sparse_file_of_100_gigabytes(void **state)
{
    (void)state;
    const uint64_t rows = 25000000;
    const tensor_spec huge[] = { { "huge", COFFER_F32, 2, { rows, 1000 } } };
    coffer_header *header = header_of(huge, 1, NULL);
    const void *bytes = NULL;
    uint64_t start = 0;
    assert_int_equal(coffer_header_build(header, NULL, &bytes, &start, NULL, NULL), COFFER_OK);
    file_write("huge", bytes, (size_t)start);
    coffer_header_free(header);
    const uint64_t marked = start + (rows - 3) * 4000 + 996 * 4;
    const int fd = open(work_path("huge"), O_WRONLY);
    assert_int_equal(ftruncate(fd, (off_t)(start + rows * 4000)), 0);
    assert_int_equal(pwrite(fd, "mark", 4, (off_t)marked), 4);
    close(fd);
    for (int access = COFFER_MAP; access <= COFFER_READ; access += 2) {
        coffer *model = NULL;
        coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
        options.access = (coffer_access)access;
        assert_int_equal(coffer_open(&model, work_path("huge"), &options, NULL), COFFER_OK);
        uint64_t size = 0;
        uint8_t *got = read_text(model, coffer_at(model, 0), "-1:-20001:-2, 996:998", &size);
        assert_int_equal(size, 10000 * 8);
        assert_memory_equal(got + 8, "mark\0\0\0", 8);
        got[8] = got[9] = got[10] = got[11] = 0;
        for (size_t i = 0; i < size; i++) {
            assert_int_equal(got[i], 0);
        }
        free(got);
        coffer_close(model);
    }
    assert_int_equal(unlink(work_path("huge")), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_tensors_from_every_source),
        cmocka_unit_test(parts_from_every_source),
        cmocka_unit_test(buffers_must_be_of_the_right_size),
        cmocka_unit_test(many_tensors_in_any_order_from_every_source),
        cmocka_unit_test(one_tensor_may_be_read_into_several_places),
        cmocka_unit_test(wrong_targets_are_refused_before_reading),
        cmocka_unit_test(calls_for_many_that_are_wrong),
        cmocka_unit_test(a_read_of_many_that_fails_names_its_tensor),
        cmocka_unit_test(slices_from_every_source),
        cmocka_unit_test(a_slice_reads_little_more_than_it_needs),
        cmocka_unit_test(slices_of_a_private_map_see_its_changes),
        cmocka_unit_test(wrong_slices),
        cmocka_unit_test(any_number_of_threads_may_read),
        cmocka_unit_test(progress_and_cancelling),
        cmocka_unit_test(progress_and_cancelling_of_many),
        cmocka_unit_test(failing_sources),
        cmocka_unit_test(a_file_that_is_shortened_is_an_error),
        cmocka_unit_test(a_file_that_is_replaced_or_removed_stays_readable),
        cmocka_unit_test(memory_may_run_out_anywhere),
        cmocka_unit_test(slices_of_a_sparse_file_of_100_gigabytes),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
