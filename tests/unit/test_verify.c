/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests of tensors and of a model's content, by the definitions of docs/integrity.md: the vectors there were computed by
 * another program (tests/python/test_integrity.py), from the same four tensors.
 */
#include "support_cmocka.h"

#include "coffer.h"
#include "support_file.h"
#include "support_header.h"
#include "support_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 4

/* In the order of their declaration. The model has them by dtype. */
static const struct vector {
    const char *name;
    size_t size;
    const char *bytes;
    const char *data[2]; /* by SHA-256 and XXH3 */
    const char *record[2];
} VECTORS[COUNT] = {
    { "a",
      24,
      "\0\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20\21\22\23\24\25\26\27",
      { "1d64add2a6388367c9bc2d1f1b384b069a6ef382cdaaa89771dd103e28613a25", "bcb7bbf24fcbfc6148f9b79ee9ca6dac" },
      { "f866c9bb61ba6bddf51c1dcc1acee5b53ba54e079e21a9faebd088d65cc1a073", "8401d2585a1d605adf5e7db7be48d320" } },
    { "scalar",
      1,
      "\7",
      { "ca358758f6d27e6cf45272937977a748fd88391db679ceda7dc7bf1f005ee879", "495b62073ef70ca44c5cca45d0f4811f" },
      { "c48e13af7b509fa966ed01bac881bc868a1d2b955fbdd2f5fc7d83558ac418f4", "320befe919807d9c1f703d67088159a7" } },
    { "empty",
      0,
      "",
      { "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "99aa06d3014798d86001c324468d497f" },
      { "32cd31d04763219d59712d4691ac2d5ccf84f3a310345bcf43184f33b46a6718", "993b5b059e18851716efe0a9143fb5ca" } },
    { "\xC3\xA9",
      4,
      "\1\0\xFF\xFF",
      { "16b8cb1fe734fbc60c6763c94c9e4cc55840ae966e7e508ba82f539d82702511", "be1f30f4c1db3923f3127af19ef4a6f0" },
      { "4aebaf0a7f8e1d9fc772ed0966cb3d4018d625aa1802120886a0f0a873d3c6e6", "566d48c7b2a73ef85f90823a44d28de0" } },
};
static const char *const CONTENT[2] = { "0662fb4e878ba45a88b2a68b916b4ab85debac4ca63d9a5b1786bf61f97b9a9d",
                                        "c2639e93593838195e719be7bb4e9302" };
static const coffer_algorithm ALGORITHMS[2] = { COFFER_SHA256, COFFER_XXH3_128 };

static coffer_header *vector_header(void)
{
    coffer_header *header = new_header();
    add_tensor(header, "a", COFFER_F32, 2, 2, 3);
    add_tensor(header, "scalar", COFFER_U8, 0, 0, 0);
    add_tensor(header, "empty", COFFER_BF16, 2, 0, 4);
    add_tensor(header, "\xC3\xA9", COFFER_I16, 1, 2, 0);
    set_metadata(header, "made by", "test");
    return header;
}

static void write_vectors(const char *name, const coffer_writer_options *options)
{
    coffer_header *header = vector_header();
    coffer_writer *writer = NULL;
    assert_int_equal(coffer_writer_open(&writer, header, work_path(name), options, NULL), COFFER_OK);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(coffer_writer_write(writer, i, 0, VECTORS[i].bytes, VECTORS[i].size, NULL), COFFER_OK);
    }
    assert_int_equal(coffer_writer_finish(writer, NULL), COFFER_OK);
    coffer_writer_free(writer);
    coffer_header_free(header);
}

static coffer *open_with(const char *name, const coffer_open_options *options)
{
    coffer *model = NULL;
    coffer_error err;
    if (coffer_open(&model, work_path(name), options, &err) != COFFER_OK) {
        fail_msg("%s", err.message);
    }
    return model;
}

static void assert_digest(const uint8_t *digest, size_t size, const char *hex)
{
    char text[2 * COFFER_LARGEST_DIGEST_SIZE + 1];
    for (size_t i = 0; i < size; i++) {
        (void)snprintf(text + 2 * i, 3, "%02x", digest[i]);
    }
    assert_string_equal(text, hex);
}

/* ---- digests ----------------------------------------------------------------------------------------------------- */

static void assert_vectors(const coffer *model, size_t k)
{
    const coffer_tensor *tensors[COUNT];
    coffer_digest digests[COUNT];
    const size_t size = coffer_algorithm_digest_size(ALGORITHMS[k]);
    for (size_t i = 0; i < COUNT; i++) {
        tensors[i] = coffer_find(model, VECTORS[i].name);
    }
    assert_int_equal(coffer_digest_tensors(model, tensors, COUNT, ALGORITHMS[k], digests, NULL, NULL), COFFER_OK);
    for (size_t i = 0; i < COUNT; i++) {
        assert_digest(digests[i].data, size, VECTORS[i].data[k]);
        assert_digest(digests[i].record, size, VECTORS[i].record[k]);
    }
}

static void assert_content(const coffer *model, size_t k)
{
    coffer_digest digests[COUNT];
    uint8_t content[COFFER_LARGEST_DIGEST_SIZE];
    const size_t size = coffer_algorithm_digest_size(ALGORITHMS[k]);
    assert_int_equal(coffer_digest_tensors(model, NULL, COUNT, ALGORITHMS[k], digests, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_digest_content(model, digests, ALGORITHMS[k], content, size, NULL), COFFER_OK);
    assert_digest(content, size, CONTENT[k]);
}

static void the_vectors(void **state)
{
    (void)state;
    write_vectors("model", NULL);
    size_t size = 0;
    uint8_t *bytes = file_read("model", &size);
    for (coffer_access access = COFFER_MAP; access <= COFFER_READ; access++) {
        coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
        options.access = access;
        coffer *model = open_with("model", &options);
        for (size_t k = 0; k < 2; k++) {
            assert_vectors(model, k);
            assert_content(model, k);
        }
        coffer_close(model);
    }
    coffer *model = NULL;
    assert_int_equal(coffer_open_memory(&model, bytes, size, NULL, NULL), COFFER_OK);
    assert_vectors(model, 0);
    assert_content(model, 1);
    coffer_close(model);
    free(bytes);
}

/* What lies around the tensors is not content. */
static void content_is_the_same_in_another_file(void **state)
{
    (void)state;
    coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    options.alignment = 4096;
    options.slack = 100;
    write_vectors("aligned", &options);
    options.format = COFFER_FORMAT_BINTENSORS;
    write_vectors("binary", &options);
    const char *names[2] = { "aligned", "binary" };
    for (size_t i = 0; i < 2; i++) {
        coffer *model = open_with(names[i], NULL);
        assert_content(model, 0);
        coffer_close(model);
    }
}

/* What a changed map says is not what the file says. */
static void changes_in_memory_do_not_count(void **state)
{
    (void)state;
    write_vectors("model", NULL);
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.access = COFFER_MAP_PRIVATE;
    coffer *model = open_with("model", &options);
    memset(coffer_data_mutable(model, coffer_find(model, "a"), NULL), 0xFF, 24);
    assert_content(model, 0);
    coffer_close(model);
}

/* ---- larger models, threads, progress ---------------------------------------------------------------------------- */

static const tensor_spec LARGE[] = {
    { "one", COFFER_F32, 1, { 1500000 } }, { "two", COFFER_U8, 1, { 3000001 } }, { "three", COFFER_I64, 1, { 250000 } },
    { "four", COFFER_BF16, 1, { 12345 } }, { "five", COFFER_BOOL, 1, { 0 } },    { "six", COFFER_F64, 1, { 777 } },
};
#define LARGE_COUNT (sizeof LARGE / sizeof LARGE[0])

typedef struct telling {
    uint64_t last;
    uint64_t total;
    unsigned calls;
    unsigned stop_at; /* the call that is answered by cancelling; 0: none */
} telling;

static int tell(void *ctx, uint64_t done, uint64_t total)
{
    telling *told = ctx;
    assert_true(done >= told->last);
    assert_true(done <= total);
    told->last = done;
    told->total = total;
    return ++told->calls == told->stop_at;
}

static void every_number_of_threads_says_the_same(void **state)
{
    (void)state;
    image made = image_of(LARGE, LARGE_COUNT);
    file_write("model", made.bytes, made.size);
    coffer_digest known[LARGE_COUNT];
    coffer_digest digests[LARGE_COUNT];
    for (uint32_t threads = 1; threads <= 8; threads++) {
        for (coffer_access access = COFFER_MAP; access <= COFFER_READ; access++) {
            coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
            options.access = access;
            coffer *model = open_with("model", &options);
            telling told = { .stop_at = 0 };
            coffer_read_options reading = COFFER_READ_OPTIONS_INIT;
            reading.threads = threads;
            reading.progress = tell;
            reading.progress_ctx = &told;
            assert_int_equal(coffer_digest_tensors(model, NULL, LARGE_COUNT, COFFER_SHA256,
                                                   threads == 1 && access == COFFER_MAP ? known : digests, &reading,
                                                   NULL),
                             COFFER_OK);
            assert_int_equal(told.last, made.size - made.data_offset);
            assert_int_equal(told.total, told.last);
            if (threads > 1 || access != COFFER_MAP) {
                assert_memory_equal(digests, known, sizeof known);
            }
            coffer_close(model);
        }
    }
    image_free(&made);
}

static void cancelling_at_every_call(void **state)
{
    (void)state;
    image made = image_of(LARGE, LARGE_COUNT);
    coffer_digest digests[LARGE_COUNT];
    coffer *model = NULL;
    coffer_error err;
    assert_int_equal(coffer_open_memory(&model, made.bytes, made.size, NULL, NULL), COFFER_OK);
    telling told = { .stop_at = 1 };
    coffer_read_options reading = COFFER_READ_OPTIONS_INIT;
    reading.threads = 1;
    reading.progress = tell;
    reading.progress_ctx = &told;
    coffer_status status = COFFER_ERR_CANCELLED;
    unsigned cancelled = 0;
    while (status == COFFER_ERR_CANCELLED) {
        told = (telling){ .stop_at = ++cancelled };
        status = coffer_digest_tensors(model, NULL, LARGE_COUNT, COFFER_XXH3_128, digests, &reading, &err);
        assert_true(status == COFFER_OK || told.calls == cancelled);
    }
    assert_int_equal(status, COFFER_OK);
    assert_true(cancelled > 3);
    coffer_close(model);
    image_free(&made);
}

static void a_file_that_is_cut_meanwhile(void **state)
{
    (void)state;
    image made = image_of(LARGE, LARGE_COUNT);
    file_write("model", made.bytes, made.size);
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.access = COFFER_READ;
    coffer *model = open_with("model", &options);
    const coffer_tensor *last = coffer_find(model, "two");
    file_write("model", made.bytes, (size_t)last->offset + 5);
    coffer_digest digests[LARGE_COUNT];
    coffer_error err;
    assert_int_equal(coffer_digest_tensors(model, NULL, LARGE_COUNT, COFFER_SHA256, digests, NULL, &err),
                     COFFER_ERR_CHANGED);
    assert_string_equal(err.tensor, last->name);
    assert_string_equal(err.path, work_path("model"));
    coffer_close(model);
    image_free(&made);
}

static void memory_that_fails(void **state)
{
    (void)state;
    write_vectors("model", NULL);
    coffer_status status = COFFER_ERR_MEMORY;
    for (size_t fail_at = 1; status == COFFER_ERR_MEMORY; fail_at++) {
        memory_meter meter;
        const coffer_allocator allocator = metered_allocator(&meter);
        coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
        options.allocator = &allocator;
        coffer *model = open_with("model", &options);
        meter.requests = 0;
        meter.fail_at = fail_at;
        coffer_digest digests[COUNT];
        uint8_t content[32];
        status = coffer_digest_tensors(model, NULL, COUNT, COFFER_SHA256, digests, NULL, NULL);
        if (status == COFFER_OK) {
            status = coffer_digest_content(model, digests, COFFER_SHA256, content, 32, NULL);
        }
        meter.fail_at = 0;
        coffer_close(model);
        assert_int_equal(meter.blocks, 0);
        assert_true(status == COFFER_OK || status == COFFER_ERR_MEMORY);
        assert_true(status == COFFER_ERR_MEMORY || fail_at > 7);
    }
}

/* ---- verifying --------------------------------------------------------------------------------------------------- */

static void no_digests_is_never_success(void **state)
{
    (void)state;
    coffer_error err;
    write_vectors("model", NULL);
    coffer *model = open_with("model", NULL);
    const coffer_tensor *tensor = coffer_find(model, "empty");
    assert_int_equal(coffer_recorded_algorithm(model, 0), COFFER_NO_ALGORITHM);
    assert_int_equal(coffer_verify(model, NULL, COUNT, NULL, NULL, &err), COFFER_ERR_NO_DIGESTS);
    assert_string_equal(err.path, work_path("model"));
    assert_int_equal(coffer_verify(model, &tensor, 1, NULL, NULL, &err), COFFER_ERR_NO_DIGESTS);
    coffer_close(model);
}

static void wrong_calls(void **state)
{
    (void)state;
    coffer_error err;
    coffer_digest digests[COUNT];
    uint8_t content[32];
    write_vectors("model", NULL);
    coffer *model = open_with("model", NULL);
    coffer *other = open_with("model", NULL);
    const coffer_tensor *stranger = coffer_at(other, 0);
    const coffer_algorithm sha = COFFER_SHA256;
    assert_int_equal(coffer_digest_tensors(NULL, NULL, COUNT, sha, digests, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_digest_tensors(model, NULL, 3, sha, digests, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_digest_tensors(model, NULL, COUNT, sha, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_digest_tensors(model, NULL, COUNT, COFFER_NO_ALGORITHM, digests, NULL, &err),
                     COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_digest_tensors(model, &stranger, 1, sha, digests, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_digest_tensors(model, &stranger, 0, sha, NULL, NULL, &err), COFFER_OK);
    assert_int_equal(coffer_digest_content(NULL, digests, sha, content, 32, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_digest_content(model, NULL, sha, content, 32, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_digest_content(model, digests, sha, NULL, 32, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_digest_content(model, digests, sha, content, 16, &err), COFFER_ERR_BUFFER_SIZE);
    assert_int_equal(coffer_verify(NULL, NULL, COUNT, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_verify(model, NULL, 3, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_verify(model, &stranger, 1, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_recorded_algorithm(model, 1), COFFER_NO_ALGORITHM);
    coffer_close(other);
    coffer_close(model);
}

static int before_each(void **state)
{
    (void)state;
    work_dir_make();
    return 0;
}

static int after_each(void **state)
{
    (void)state;
    work_dir_remove();
    return 0;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, before_each, after_each)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_vectors),
        TEST(content_is_the_same_in_another_file),
        TEST(changes_in_memory_do_not_count),
        TEST(every_number_of_threads_says_the_same),
        TEST(cancelling_at_every_call),
        TEST(a_file_that_is_cut_meanwhile),
        TEST(memory_that_fails),
        TEST(no_digests_is_never_success),
        TEST(wrong_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
