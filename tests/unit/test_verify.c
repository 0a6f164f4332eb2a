/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verifying: a model that is not what its digests say is never taken for sound, whether the user asks or opens it to be verified
 * on the way; and what is sound is not read twice for it. Every bit of a small file is flipped. (Computing digests and recording
 * them is test_digest.c's affair.)
 */
#define _GNU_SOURCE /* memmem */

#include "support_cmocka.h"

#include "coffer.h"
#include "lazy_verify.h"
#include "support_digest.h"
#include "support_file.h"
#include "support_header.h"
#include "support_memory.h"
#include "support_model.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- digests that are of no use ----------------------------------------------------------------------------------- */

static void no_digests_is_never_success(void **state)
{
    (void)state;
    coffer_error err;
    write_vectors("model", NULL);
    coffer *model = open_with("model", NULL);
    const coffer_tensor *tensor = tensor_named(model, "empty");
    assert_int_equal(coffer_recorded_algorithm(model, 0), COFFER_NO_ALGORITHM);
    assert_int_equal(coffer_verify(model, NULL, VECTOR_COUNT, NULL, NULL, &err), COFFER_ERR_NO_DIGESTS);
    assert_string_equal(err.path, work_path("model"));
    assert_int_equal(coffer_verify(model, &tensor, 1, NULL, NULL, &err), COFFER_ERR_NO_DIGESTS);
    coffer_close(model);
}

static void digests_that_cannot_be_used(void **state)
{
    (void)state;
    static const char *const values[] = {
        "",
        "1:",
        "1:sha256",
        "1:SHA256:",
        "2:sha256:",
        "1:sha512:AAAA",
        "1:sha256:AAA",
        "1:sha256:AAAA",
        "1:sha256:+Ga5ZBu2md31HB3MGs7ltTulTgeeIan667iNBlzBoHM",
        "1:sha256:+Ga5ZBu2md31HB3MGs7ltTulTgeeIan667iNBlzBoHN=",
        " 1:sha256:+Ga5ZBu2md31HB3MGs7ltTulTgeeIan667iNBlzBoHM=",
    };
    coffer_error err;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        write_recorded("model", COFFER_SHA256);
        assert_int_equal(set_key("model", COFFER_DIGESTS_KEY, values[i], NULL), COFFER_OK);
        assert_int_equal(verify_file("model", &err), COFFER_ERR_DIGESTS);
        /* What is not understood is left as it is. */
        assert_int_equal(set_key("model", "a", "b", NULL), COFFER_OK);
    }
    write_recorded("model", COFFER_SHA256);
    assert_int_equal(set_key("model", COFFER_METADATA_DIGEST_KEY, NULL, NULL), COFFER_OK);
    assert_int_equal(verify_file("model", &err), COFFER_ERR_DIGESTS);
    assert_int_equal(set_key("model", "a", "b", &err), COFFER_ERR_DIGESTS);
    write_vectors("model", NULL);
    assert_int_equal(set_key("model", COFFER_METADATA_DIGEST_KEY, "1:sha256:", NULL), COFFER_OK);
    assert_int_equal(verify_file("model", &err), COFFER_ERR_DIGESTS);
    /* A forged digest of the metadata. */
    write_recorded("model", COFFER_SHA256);
    assert_int_equal(
        set_key("model", COFFER_METADATA_DIGEST_KEY, "1:sha256:+Ga5ZBu2md31HB3MGs7ltTulTgeeIan667iNBlzBoHM=", NULL),
        COFFER_OK);
    assert_int_equal(verify_file("model", &err), COFFER_ERR_METADATA_DIGEST);
}

static void wrong_calls_to_verify(void **state)
{
    (void)state;
    coffer_error err;
    write_vectors("model", NULL);
    coffer *model = open_with("model", NULL);
    coffer *other = open_with("model", NULL);
    const coffer_tensor *stranger = coffer_at(other, 0);
    assert_int_equal(coffer_verify(NULL, NULL, VECTOR_COUNT, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_verify(model, NULL, 3, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_verify(model, &stranger, 1, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_recorded_algorithm(model, 1), COFFER_NO_ALGORITHM);
    coffer_close(other);
    coffer_close(model);
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */

/* Every bit of a small file: no flip goes unnoticed, by opening or by verifying. */
static void every_flip_is_noticed(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        write_recorded("model", ALGORITHMS[k]);
        size_t size = 0;
        uint8_t *bytes = file_read("model", &size);
        size_t by_digests = 0;
        for (size_t bit = 0; bit < 8 * size; bit++) {
            bytes[bit / 8] = (uint8_t)(bytes[bit / 8] ^ 1u << bit % 8);
            coffer *model = NULL;
            if (coffer_open_memory(&model, bytes, size, NULL, NULL) == COFFER_OK) {
                const coffer_status status = coffer_verify(model, NULL, coffer_count(model), NULL, NULL, NULL);
                if (status == COFFER_OK) {
                    fail_msg("nobody notices bit %zu of byte %zu", bit % 8, bit / 8);
                }
                by_digests += status != COFFER_ERR_NO_DIGESTS;
                coffer_close(model);
            }
            bytes[bit / 8] = (uint8_t)(bytes[bit / 8] ^ 1u << bit % 8);
        }
        assert_true(by_digests > 8 * 29); /* those of the data at least, which nothing else notices */
        free(bytes);
    }
}

/* Flips that mean nothing are those of the case of a hexadecimal digit in an escape, and those in a member that the format does
   not define: what the header says is the same. Nothing else goes unnoticed. */
static void flips_without_a_meaning(void **state)
{
    (void)state;
    static const char head[] =
        "{\"\\u00e9\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"ignored\":\"of no meaning\"}}";
    uint8_t made[8 + sizeof head] = { sizeof head - 1 };
    memcpy(made + 8, head, sizeof head - 1);
    file_write("model", made, 8 + sizeof head);
    assert_int_equal(coffer_record_digests(work_path("model"), COFFER_SHA256, NULL, NULL, NULL), COFFER_OK);
    assert_verifies("model");
    size_t size = 0;
    uint8_t *bytes = file_read("model", &size);
    const uint8_t *digit = (uint8_t *)memmem(bytes, size, "\\u00e9", 6) + 4;
    const uint8_t *ignored = memmem(bytes, size, "\"ignored\"", 9);
    const uint8_t *ignored_end = (uint8_t *)memmem(bytes, size, "meaning\"", 8) + 8;
    size_t unnoticed = 0;
    for (size_t bit = 0; bit < 8 * size; bit++) {
        uint8_t *at = bytes + bit / 8;
        *at = (uint8_t)(*at ^ 1u << bit % 8);
        coffer *model = NULL;
        if (coffer_open_memory(&model, bytes, size, NULL, NULL) == COFFER_OK &&
            coffer_verify(model, NULL, coffer_count(model), NULL, NULL, NULL) == COFFER_OK) {
            assert_true((at == digit && bit % 8 == 5) || (at > ignored && at < ignored_end));
            unnoticed++;
        }
        coffer_close(model);
        *at = (uint8_t)(*at ^ 1u << bit % 8);
    }
    assert_true(unnoticed > 1);
    free(bytes);
}

static void assert_changed(const char *name, const uint8_t *bytes, size_t size, const char *first, const char *second)
{
    coffer_error err;
    bool sound[VECTOR_COUNT];
    file_write(name, bytes, size);
    coffer *model = open_with(name, NULL);
    assert_int_equal(coffer_verify(model, NULL, VECTOR_COUNT, sound, NULL, &err), COFFER_ERR_TENSOR_DIGEST);
    assert_true(strcmp(err.tensor, first) == 0 || strcmp(err.tensor, second) == 0);
    for (size_t i = 0; i < VECTOR_COUNT; i++) {
        const char *tensor = coffer_at(model, i)->name;
        assert_int_equal(sound[i], strcmp(tensor, first) != 0 && strcmp(tensor, second) != 0);
        /* One alone verifies or not, whatever the others do. */
        const coffer_tensor *alone = coffer_at(model, i);
        assert_int_equal(coffer_verify(model, &alone, 1, NULL, NULL, NULL),
                         sound[i] ? COFFER_OK : COFFER_ERR_TENSOR_DIGEST);
    }
    coffer_close(model);
}

static void what_was_changed_is_named(void **state)
{
    (void)state;
    write_recorded("model", COFFER_SHA256);
    coffer *model = open_with("model", NULL);
    const uint64_t a = tensor_named(model, "a")->offset;
    const uint64_t e = tensor_named(model, "\xC3\xA9")->offset;
    coffer_close(model);
    size_t size = 0;
    uint8_t *bytes = file_read("model", &size);
    bytes[a + 23] ^= 0x80;
    assert_changed("changed", bytes, size, "a", "a");
    bytes[a + 23] ^= 0x80;
    /* Bytes of two tensors. */
    uint8_t swap[4];
    memcpy(swap, bytes + a, 4);
    memcpy(bytes + a, bytes + e, 4);
    memcpy(bytes + e, swap, 4);
    assert_changed("changed", bytes, size, "a", "\xC3\xA9");
    memcpy(bytes + e, bytes + a, 4);
    memcpy(bytes + a, swap, 4);
    /* A name. */
    uint8_t *name = memmem(bytes, size, "\"scalar\"", 8);
    assert_non_null(name);
    name[1] = 'S';
    assert_changed("changed", bytes, size, "Scalar", "Scalar");
    free(bytes);
}

static void names_that_are_swapped(void **state)
{
    (void)state;
    coffer_error err;
    write_recorded("model", COFFER_SHA256);
    size_t size = 0;
    uint8_t *bytes = file_read("model", &size);
    uint8_t *a = memmem(bytes, size, "\"a\":{", 5);
    uint8_t *scalar = memmem(bytes, size, "\"scalar\"", 8);
    assert_non_null(a);
    assert_non_null(scalar);
    /* As long as each other, which swapping whole names would need: "a" becomes "b" and "scalar" "scalaq". */
    a[1] = 'b';
    scalar[6] = 'q';
    file_write("swapped", bytes, size);
    assert_int_equal(verify_file("swapped", &err), COFFER_ERR_TENSOR_DIGEST);
    assert_non_null(strstr(err.message, "2 of 4"));
    free(bytes);
}

static void truncated_and_padded(void **state)
{
    (void)state;
    coffer_error err;
    write_recorded("model", COFFER_SHA256);
    size_t size = 0;
    uint8_t *bytes = file_read("model", &size);
    bytes = realloc(bytes, size + 1);
    assert_non_null(bytes);
    bytes[size] = 0;
    file_write("long", bytes, size + 1);
    assert_int_equal(verify_file("long", &err), COFFER_ERR_TRAILING_BYTES);
    for (size_t less = 0; less < size; less++) {
        file_write("short", bytes, less);
        assert_true(verify_file("short", &err) != COFFER_OK);
    }
    free(bytes);
}

/* Another program saves the tensors again: in another order, with metadata of its own besides. */
static void write_again(const char *name, size_t left_out, bool one_more)
{
    coffer *model = open_with("model", NULL);
    coffer_header *header = new_header();
    coffer_writer *writer = NULL;
    coffer_pair pair;
    for (size_t i = 0; coffer_table_metadata_at(coffer_shard_table(model, 0), i, &pair); i++) {
        set_metadata(header, pair.key, pair.value);
    }
    coffer_copy copies[VECTOR_COUNT];
    size_t count = 0;
    for (size_t i = VECTOR_COUNT; i > 0; i--) {
        const coffer_tensor *tensor = tensor_named(model, VECTORS[i - 1].name);
        if (i - 1 != left_out) {
            assert_int_equal(coffer_header_add(header, tensor->name, tensor->name_len, tensor->dtype, tensor->shape,
                                               tensor->rank, NULL),
                             COFFER_OK);
            copies[count] = (coffer_copy){ count, model, tensor };
            count++;
        }
    }
    if (one_more) {
        add_tensor(header, "more", COFFER_U8, 1, 0, 0);
    }
    coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    options.alignment = 64;
    assert_int_equal(coffer_writer_open(&writer, header, work_path(name), &options, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_copy(writer, copies, count, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_finish(writer, NULL), COFFER_OK);
    coffer_writer_free(writer);
    coffer_header_free(header);
    coffer_close(model);
}

static void saved_again_by_another_program(void **state)
{
    (void)state;
    coffer_error err;
    write_recorded("model", COFFER_SHA256);
    write_again("again", VECTOR_COUNT, false);
    assert_verifies("again");
    write_again("less", 1, false);
    assert_int_equal(verify_file("less", &err), COFFER_ERR_TENSOR_DIGEST);
    assert_int_equal(err.expected, VECTOR_COUNT);
    assert_int_equal(err.actual, VECTOR_COUNT - 1);
    write_again("more", VECTOR_COUNT, true);
    assert_int_equal(verify_file("more", &err), COFFER_ERR_TENSOR_DIGEST);
    assert_string_equal(err.tensor, "more");
}

/* ---- verifying on the way ---------------------------------------------------------------------------------------- */

static void opening_to_verify_wants_digests(void **state)
{
    (void)state;
    coffer_error err;
    coffer *model = NULL;
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.verify = COFFER_VERIFY_ALL;
    write_vectors("model", NULL);
    assert_int_equal(coffer_open(&model, work_path("model"), &options, &err), COFFER_ERR_NO_DIGESTS);
    options.verify = COFFER_VERIFY_RECORDED;
    coffer_close(open_with("model", &options));
    options.verify = (coffer_verifying)3;
    assert_int_equal(coffer_open(&model, work_path("model"), &options, &err), COFFER_ERR_ARGUMENT);
    options.verify = COFFER_VERIFY_ALL;
    assert_null(model);
    assert_string_equal(err.path, work_path("model"));
    write_recorded("model", COFFER_SHA256);
    assert_int_equal(set_key("model", COFFER_DIGESTS_KEY, "1:sha256:AAAA", NULL), COFFER_OK);
    for (coffer_verifying verify = COFFER_VERIFY_ALL; verify <= COFFER_VERIFY_RECORDED; verify++) {
        options.verify = verify;
        assert_int_equal(coffer_open(&model, work_path("model"), &options, &err), COFFER_ERR_DIGESTS);
        assert_null(model);
    }
}

/* Every way to a tensor's bytes. */
static coffer_status reach(const coffer *model, const coffer_tensor *tensor, int way, coffer_error *err)
{
    uint8_t *bytes = malloc((size_t)tensor->size + 1);
    assert_non_null(bytes);
    coffer_status status = COFFER_OK;
    if (way == 0) {
        status = coffer_read(model, tensor, bytes, tensor->size, NULL, err);
    } else if (way == 1) {
        const coffer_read_target one = { tensor, bytes, tensor->size };
        status = coffer_read_many(model, &one, 1, NULL, err);
    } else if (way == 2) {
        status = coffer_read_part(model, tensor, 0, bytes, tensor->size > 0 ? 1 : 0, NULL, err);
    } else if (way == 3) {
        status = coffer_read_slice(model, tensor, NULL, 0, bytes, tensor->size, NULL, err);
    } else if (way == 4) {
        status = coffer_data(model, tensor, err) != NULL ? COFFER_OK : err->code;
    } else {
        coffer_header *header = new_header();
        coffer_writer *writer = NULL;
        coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
        options.digests = way == 5 ? COFFER_NO_ALGORITHM : way == 6 ? COFFER_SHA256 : COFFER_XXH3_128;
        const coffer_copy copy = { 0, model, tensor };
        add_tensor(header, "new", COFFER_U8, 1, tensor->size, 0);
        assert_int_equal(coffer_writer_open(&writer, header, work_path("copy"), &options, NULL), COFFER_OK);
        status = coffer_writer_copy(writer, &copy, 1, NULL, err);
        coffer_writer_free(writer);
        coffer_header_free(header);
    }
    free(bytes);
    return status;
}

static void damage_is_not_handed_out(void **state)
{
    (void)state;
    write_recorded("model", COFFER_SHA256);
    size_t size = 0;
    uint8_t *bytes = file_read("model", &size);
    coffer *model = open_with("model", NULL);
    bytes[tensor_named(model, "a")->offset + 13] ^= 0x10;
    coffer_close(model);
    file_write("model", bytes, size);
    free(bytes);
    for (coffer_access access = COFFER_MAP; access <= COFFER_READ; access++) {
        for (int way = 0; way < 8; way++) {
            if (way == 4 && access == COFFER_READ) {
                continue;
            }
            coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
            options.verify = COFFER_VERIFY_ALL;
            options.access = access;
            model = open_with("model", &options);
            for (size_t i = 0; i < 2 * VECTOR_COUNT; i++) {
                coffer_error err;
                const coffer_tensor *tensor = coffer_at(model, i % VECTOR_COUNT);
                if (strcmp(tensor->name, "a") != 0) {
                    assert_int_equal(reach(model, tensor, way, &err), COFFER_OK);
                    continue;
                }
                assert_int_equal(reach(model, tensor, way, &err), COFFER_ERR_TENSOR_DIGEST);
                assert_int_equal(err.code, COFFER_ERR_TENSOR_DIGEST);
                assert_string_equal(err.tensor, "a");
                assert_string_equal(err.path, work_path("model"));
            }
            coffer_close(model);
        }
    }
}

/* A source in memory that counts the bytes that are read of it. */
typedef struct counting {
    const uint8_t *bytes;
    _Atomic(size_t) read; /* in all: few enough for 32 bits */
} counting;

static coffer_status count_read(void *ctx, uint64_t offset, void *buffer, size_t size, coffer_error *err)
{
    counting *from = ctx;
    (void)err;
    from->read += size;
    memcpy(buffer, from->bytes + offset, size);
    return COFFER_OK;
}

static void write_large(void)
{
    image made = image_of(LARGE, LARGE_COUNT);
    file_write("large", made.bytes, made.size);
    image_free(&made);
    assert_int_equal(coffer_record_digests(work_path("large"), COFFER_SHA256, NULL, NULL, NULL), COFFER_OK);
}

static void verifying_is_no_second_pass(void **state)
{
    (void)state;
    size_t size = 0;
    write_large();
    uint8_t *bytes = file_read("large", &size);
    counting from = { bytes, 0 };
    const coffer_source source = { .read_at = count_read, .ctx = &from, .size = size };
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.verify = COFFER_VERIFY_ALL;
    coffer *model = NULL;
    assert_int_equal(coffer_open_source(&model, &source, &options, NULL), COFFER_OK);
    coffer_read_target targets[LARGE_COUNT];
    uint64_t all = 0;
    for (size_t i = 0; i < LARGE_COUNT; i++) {
        targets[i].tensor = coffer_at(model, i);
        targets[i].buffer_size = targets[i].tensor->size;
        targets[i].buffer = malloc((size_t)targets[i].buffer_size + 1);
        all += targets[i].buffer_size;
    }
    from.read = 0;
    const coffer_tensor *one = tensor_named(model, "one");
    assert_int_equal(coffer_read_part(model, one, 5, targets[0].buffer, 7, NULL, NULL), COFFER_OK);
    assert_int_equal(from.read, one->size); /* the part is taken from what was verified */
    from.read = 0;
    telling reported = { .stop_at = 0 };
    coffer_read_options reading = COFFER_READ_OPTIONS_INIT;
    reading.progress = tell;
    reading.progress_ctx = &reported;
    for (int again = 0; again < 2; again++) {
        reported = (telling){ .stop_at = 0 };
        from.read = 0;
        assert_int_equal(coffer_read_many(model, targets, LARGE_COUNT, &reading, NULL), COFFER_OK);
        assert_int_equal(from.read, all);
        assert_int_equal(reported.last, all);
        for (size_t i = 0; i < LARGE_COUNT; i++) {
            assert_memory_equal(targets[i].buffer, bytes + targets[i].tensor->offset, (size_t)targets[i].buffer_size);
        }
    }
    from.read = 0;
    assert_int_equal(coffer_read_part(model, one, 5, targets[0].buffer, 7, NULL, NULL), COFFER_OK);
    assert_int_equal(from.read, 0);
    coffer_close(model);
    for (size_t i = 0; i < LARGE_COUNT; i++) {
        free(targets[i].buffer);
    }
    free(bytes);
}

typedef struct wanting {
    const coffer *model;
    int failures;
} wanting;

static void *want_all(void *arg)
{
    wanting *wanted = arg;
    for (size_t i = 0; i < coffer_count(wanted->model); i++) {
        coffer_error err;
        wanted->failures += coffer_data(wanted->model, coffer_at(wanted->model, i), &err) == NULL;
    }
    return NULL;
}

static void threads_that_want_the_same(void **state)
{
    (void)state;
    write_large();
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.verify = COFFER_VERIFY_ALL;
    coffer *model = open_with("large", &options);
    pthread_t threads[4];
    wanting wanted[4];
    for (size_t i = 0; i < 4; i++) {
        wanted[i] = (wanting){ model, 0 };
        assert_int_equal(pthread_create(&threads[i], NULL, want_all, &wanted[i]), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(wanted[i].failures, 0);
    }
    coffer_close(model);
}

/* What a thread is left with when another one was faster. */
static void what_is_verified_already(void **state)
{
    (void)state;
    write_large();
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.verify = COFFER_VERIFY_ALL;
    coffer *model = open_with("large", &options);
    const coffer_read_options usual = COFFER_READ_OPTIONS_INIT;
    for (size_t i = 0; i < coffer_count(model); i++) {
        const coffer_read_target look = { coffer_at(model, i), NULL, 0 };
        assert_int_equal(coffer__lazy_verify_read(model, &look, 1, &usual, NULL), COFFER_OK);
        assert_int_equal(coffer__lazy_verify_read(model, &look, 1, &usual, NULL), COFFER_OK);
    }
    coffer_close(model);
}

static void memory_that_fails_while_verifying(void **state)
{
    (void)state;
    write_recorded("model", COFFER_SHA256);
    coffer_status status = COFFER_ERR_MEMORY;
    for (size_t fail_at = 1; status == COFFER_ERR_MEMORY; fail_at++) {
        memory_meter meter;
        const coffer_allocator allocator = metered_allocator(&meter);
        meter.fail_at = fail_at;
        coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
        options.allocator = &allocator;
        options.verify = COFFER_VERIFY_ALL;
        coffer *model = NULL;
        uint8_t bytes[24];
        status = coffer_open(&model, work_path("model"), &options, NULL);
        if (status == COFFER_OK) {
            status = coffer_verify(model, NULL, VECTOR_COUNT, NULL, NULL, NULL);
        }
        if (status == COFFER_OK) {
            status = coffer_read(model, tensor_named(model, "a"), bytes, 24, NULL, NULL);
        }
        assert_true(status == COFFER_OK || status == COFFER_ERR_MEMORY);
        meter.fail_at = 0;
        coffer_close(model);
        assert_int_equal(meter.blocks, 0);
        assert_true(status == COFFER_ERR_MEMORY || fail_at > 25);
    }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, work_dir_set_up, work_dir_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_digests_is_never_success),
        TEST(digests_that_cannot_be_used),
        TEST(wrong_calls_to_verify),
        TEST(every_flip_is_noticed),
        TEST(flips_without_a_meaning),
        TEST(what_was_changed_is_named),
        TEST(names_that_are_swapped),
        TEST(truncated_and_padded),
        TEST(saved_again_by_another_program),
        TEST(opening_to_verify_wants_digests),
        TEST(damage_is_not_handed_out),
        TEST(verifying_is_no_second_pass),
        TEST(threads_that_want_the_same),
        TEST(what_is_verified_already),
        TEST(memory_that_fails_while_verifying),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
