/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verifying what comes from far away: a server, or whatever the caller's functions ask, may answer differently each time, so bytes
 * that were verified once say nothing of those that come the next time. Here a source begins to lie at every single read there
 * is, and whatever is handed out is true all the same.
 */
#include "support_cmocka.h"

#include "coffer.h"
#include "support_digest.h"
#include "support_file.h"
#include "support_header.h"
#include "support_memory.h"
#include "support_model.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* A source in memory that tells the truth so many times, and from then on has one bit of every byte flipped. */
typedef struct lying {
    const uint8_t *bytes;
    _Atomic(size_t) reads;
    _Atomic(size_t) read; /* bytes */
    _Atomic(size_t) honest;
} lying;

static coffer_status lying_read(void *ctx, uint64_t offset, void *buffer, size_t size, coffer_error *err)
{
    lying *from = ctx;
    uint8_t *to = buffer;
    (void)err;
    const bool lies = from->reads++ >= from->honest;
    from->read += size;
    for (size_t i = 0; i < size; i++) {
        to[i] = from->bytes[offset + i] ^ (lies ? 0x10 : 0);
    }
    return COFFER_OK;
}

static coffer *open_lying(lying *from, size_t size, const coffer_allocator *allocator)
{
    const coffer_source source = { .read_at = lying_read, .ctx = from, .size = size };
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.verify = COFFER_VERIFY_ALL;
    options.allocator = allocator;
    coffer *model = NULL;
    from->honest = SIZE_MAX;
    assert_int_equal(coffer_open_source(&model, &source, &options, NULL), COFFER_OK);
    from->reads = 0;
    from->read = 0;
    return model;
}

/* Copies two tensors into a file, and reads what came there. */
static coffer_status reach_by_copy(const coffer *model, const coffer_tensor *tensor, coffer_algorithm digests,
                                   uint8_t *bytes)
{
    coffer_header *header = new_header();
    coffer_writer *writer = NULL;
    coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    options.digests = digests;
    const coffer_copy copies[2] = { { 0, model, tensor }, { 1, model, tensor } };
    add_tensor(header, "new", COFFER_U8, 1, tensor->size, 0);
    add_tensor(header, "other", COFFER_U8, 1, tensor->size, 0);
    assert_int_equal(coffer_writer_open(&writer, header, work_path("copy"), &options, NULL), COFFER_OK);
    coffer_status status = coffer_writer_copy(writer, copies, 2, NULL, NULL);
    if (status == COFFER_OK) {
        assert_int_equal(coffer_writer_finish(writer, NULL), COFFER_OK);
        coffer *copy = open_with("copy", NULL);
        if (digests != COFFER_NO_ALGORITHM) {
            assert_int_equal(coffer_verify(copy, NULL, 2, NULL, NULL, NULL), COFFER_OK);
        }
        const void *other = coffer_data(copy, tensor_named(copy, "other"), NULL);
        assert_int_equal(coffer_read(copy, tensor_named(copy, "new"), bytes, tensor->size, NULL, NULL), COFFER_OK);
        assert_memory_equal(bytes, other, (size_t)tensor->size);
        coffer_close(copy);
    }
    coffer_writer_free(writer);
    coffer_header_free(header);
    return status;
}

#define WAYS 7

/* Reaches a tensor's bytes, or some of them: `size` from `offset` on. */
static coffer_status reach_far(const coffer *model, const coffer_tensor *tensor, int way, uint8_t *bytes,
                               size_t *offset, size_t *size)
{
    const coffer_read_target target = { tensor, bytes, tensor->size };
    const coffer_index row = { .kind = COFFER_INDEX_AT, .start = 1 };
    *offset = 0;
    *size = (size_t)tensor->size;
    switch (way) {
    case 0:
        return coffer_read(model, tensor, bytes, tensor->size, NULL, NULL);
    case 1:
        return coffer_read_many(model, &target, 1, NULL, NULL);
    case 2:
        *offset = 5;
        *size = 11;
        return coffer_read_part(model, tensor, 5, bytes, 11, NULL, NULL);
    case 3:
        *offset = *size / 2;
        *size /= 2;
        return coffer_read_slice(model, tensor, &row, 1, bytes, *size, NULL, NULL);
    default:
        return reach_by_copy(model, tensor,
                             way == 4   ? COFFER_NO_ALGORITHM
                             : way == 5 ? COFFER_SHA256
                                        : COFFER_XXH3_128,
                             bytes);
    }
}

static void a_source_that_begins_to_lie(void **state)
{
    (void)state;
    write_recorded("model", COFFER_SHA256);
    size_t size = 0;
    uint8_t *bytes = file_read("model", &size);
    lying from = { .bytes = bytes };
    for (int first = 0; first < WAYS; first++) {
        for (int second = 0; second < WAYS; second++) {
            bool lied = true;
            for (size_t honest = 0; lied; honest++) {
                coffer *model = open_lying(&from, size, NULL);
                const coffer_tensor *tensor = tensor_named(model, "a");
                from.honest = honest;
                for (int again = 0; again < 2; again++) {
                    uint8_t got[24];
                    size_t offset = 0;
                    size_t part = 0;
                    const int way = again == 0 ? first : second;
                    const coffer_status status = reach_far(model, tensor, way, got, &offset, &part);
                    assert_true(status == COFFER_OK || status == COFFER_ERR_TENSOR_DIGEST);
                    if (status == COFFER_OK) {
                        assert_memory_equal(got, bytes + tensor->offset + offset, part);
                    }
                }
                lied = from.reads > from.honest;
                coffer_close(model);
            }
        }
    }
    free(bytes);
}

/* A loop over slices is one journey, and another tensor takes the place of the first. */
static void slices_of_one_tensor_are_one_journey(void **state)
{
    (void)state;
    write_recorded("model", COFFER_XXH3_128);
    size_t size = 0;
    uint8_t *bytes = file_read("model", &size);
    lying from = { .bytes = bytes };
    memory_meter meter;
    const coffer_allocator allocator = metered_allocator(&meter);
    coffer *model = open_lying(&from, size, &allocator);
    const coffer_tensor *a = tensor_named(model, "a");
    const coffer_tensor *other = tensor_named(model, "\xC3\xA9");
    uint8_t got[24];
    for (uint64_t i = 0; i < a->size; i++) {
        assert_int_equal(coffer_read_part(model, a, i, got, 1, NULL, NULL), COFFER_OK);
        assert_int_equal(got[0], bytes[a->offset + i]);
    }
    assert_int_equal(from.read, a->size);
    assert_int_equal(coffer_read_part(model, other, 1, got, 2, NULL, NULL), COFFER_OK);
    assert_memory_equal(got, bytes + other->offset + 1, 2);
    assert_int_equal(coffer_read_part(model, a, 3, got, 1, NULL, NULL), COFFER_OK);
    assert_int_equal(from.read, 2 * a->size + other->size);
    /* A lie is not kept, and what was kept before is not handed out instead. */
    from.honest = 0;
    assert_int_equal(coffer_read_part(model, other, 1, got, 2, NULL, NULL), COFFER_ERR_TENSOR_DIGEST);
    from.honest = SIZE_MAX;
    assert_int_equal(coffer_read_part(model, other, 1, got, 2, NULL, NULL), COFFER_OK);
    assert_memory_equal(got, bytes + other->offset + 1, 2);
    coffer_close(model);
    assert_int_equal(meter.blocks, 0);
    free(bytes);
}

static int stop_at_once(void *ctx, uint64_t done, uint64_t total)
{
    const uint64_t *wanted = ctx;
    assert_int_equal(done, 0);
    assert_int_equal(total, *wanted);
    return 1;
}

/* While the tensor of a part is looked at the user is asked whether to go on, in terms of the part. */
static void a_part_can_be_given_up(void **state)
{
    (void)state;
    write_recorded("model", COFFER_SHA256);
    size_t size = 0;
    uint8_t *bytes = file_read("model", &size);
    lying from = { .bytes = bytes };
    coffer *model = open_lying(&from, size, NULL);
    uint64_t wanted = 3;
    uint8_t got[3];
    coffer_read_options options = COFFER_READ_OPTIONS_INIT;
    options.progress = stop_at_once;
    options.progress_ctx = &wanted;
    assert_int_equal(coffer_read_part(model, tensor_named(model, "a"), 5, got, 3, &options, NULL),
                     COFFER_ERR_CANCELLED);
    coffer_close(model);
    free(bytes);
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* Several models, near and far, in one call: every tensor comes where it belongs, and the progress is that of all. */
static void near_and_far_in_one_call(void **state)
{
    (void)state;
    write_recorded("model", COFFER_SHA256);
    size_t size = 0;
    uint8_t *bytes = file_read("model", &size);
    lying from = { .bytes = bytes };
    coffer *far = open_lying(&from, size, NULL);
    coffer *near = open_with("model", NULL);
    coffer_header *header = new_header();
    coffer_copy copies[2 * VECTOR_COUNT];
    uint64_t total = 0;
    for (size_t i = 0; i < 2 * VECTOR_COUNT; i++) {
        const coffer *model = i % 2 == 0 ? far : near;
        const coffer_tensor *tensor = coffer_at(model, i / 2);
        copies[i] = (coffer_copy){ i, model, tensor };
        const char name[3] = { 't', (char)('0' + i), '\0' };
        add_tensor(header, name, COFFER_U8, 1, tensor->size, 0);
        total += tensor->size;
    }
    telling reported = { .stop_at = 0 };
    coffer_read_options reading = COFFER_READ_OPTIONS_INIT;
    reading.progress = tell;
    reading.progress_ctx = &reported;
    coffer_writer *writer = NULL;
    assert_int_equal(coffer_writer_open(&writer, header, work_path("copy"), NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_copy(writer, copies, 2 * VECTOR_COUNT, &reading, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_finish(writer, NULL), COFFER_OK);
    assert_int_equal(reported.last, total);
    assert_int_equal(reported.total, total);
    coffer_writer_free(writer);
    coffer_header_free(header);
    coffer *copy = open_with("copy", NULL);
    for (size_t i = 0; i < 2 * VECTOR_COUNT; i++) {
        const char name[3] = { 't', (char)('0' + i), '\0' };
        const coffer_tensor *tensor = tensor_named(copy, name);
        assert_memory_equal(coffer_data(copy, tensor, NULL), bytes + copies[i].tensor->offset, (size_t)tensor->size);
    }
    coffer_close(copy);
    coffer_close(near);
    coffer_close(far);
    free(bytes);
}

/* ---- threads and memory ------------------------------------------------------------------------------------------ */

typedef struct slicing {
    const coffer *model;
    const uint8_t *bytes;
    size_t first; /* which tensor it begins with */
    int failures;
} slicing;

static void *slice_all(void *arg)
{
    slicing *wanted = arg;
    for (size_t round = 0; round < 20; round++) {
        const coffer_tensor *tensor = coffer_at(wanted->model, (wanted->first + round) % coffer_count(wanted->model));
        uint8_t got[64];
        const size_t part = tensor->size < sizeof got ? (size_t)tensor->size : sizeof got;
        const coffer_status status =
            coffer_read_part(wanted->model, tensor, tensor->size - part, got, part, NULL, NULL);
        wanted->failures +=
            status != COFFER_OK || memcmp(got, wanted->bytes + tensor->offset + (tensor->size - part), part) != 0;
    }
    return NULL;
}

static void threads_that_slice(void **state)
{
    (void)state;
    write_recorded("model", COFFER_XXH3_128);
    size_t size = 0;
    uint8_t *bytes = file_read("model", &size);
    lying from = { .bytes = bytes };
    coffer *model = open_lying(&from, size, NULL);
    pthread_t threads[4];
    slicing wanted[4];
    for (size_t i = 0; i < 4; i++) {
        wanted[i] = (slicing){ model, bytes, i, 0 };
        assert_int_equal(pthread_create(&threads[i], NULL, slice_all, &wanted[i]), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(wanted[i].failures, 0);
    }
    coffer_close(model);
    free(bytes);
}

static void memory_that_fails_far_away(void **state)
{
    (void)state;
    write_recorded("model", COFFER_SHA256);
    size_t size = 0;
    uint8_t *bytes = file_read("model", &size);
    lying from = { .bytes = bytes };
    for (int way = 2; way < 5; way++) {
        coffer_status status = COFFER_ERR_MEMORY;
        for (size_t fail_at = 1; status == COFFER_ERR_MEMORY; fail_at++) {
            memory_meter meter;
            const coffer_allocator allocator = metered_allocator(&meter);
            coffer *model = open_lying(&from, size, &allocator);
            uint8_t got[24];
            size_t offset = 0;
            size_t part = 0;
            meter.requests = 0;
            meter.fail_at = fail_at;
            status = reach_far(model, tensor_named(model, "a"), way, got, &offset, &part);
            assert_true(status == COFFER_OK || status == COFFER_ERR_MEMORY);
            meter.fail_at = 0;
            coffer_close(model);
            assert_int_equal(meter.blocks, 0);
            assert_true(status == COFFER_ERR_MEMORY || fail_at > 3);
        }
    }
    free(bytes);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, work_dir_set_up, work_dir_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_source_that_begins_to_lie), TEST(slices_of_one_tensor_are_one_journey),
        TEST(a_part_can_be_given_up),      TEST(near_and_far_in_one_call),
        TEST(threads_that_slice),          TEST(memory_that_fails_far_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
