/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests of tensors and of a model's content, by the definitions of docs/integrity.md, and recording them: by the writer, to
 * every place that it writes to, and by edits. The vectors were computed by another program (tests/python/test_integrity.py).
 * (What verifying notices is test_verify.c's affair.)
 */
#define _GNU_SOURCE /* memmem */

#include "support_cmocka.h"

#include "coffer.h"
#include "support_digest.h"
#include "support_file.h"
#include "support_header.h"
#include "support_memory.h"
#include "support_model.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const CONTENT[2] = { "0662fb4e878ba45a88b2a68b916b4ab85debac4ca63d9a5b1786bf61f97b9a9d",
                                        "c2639e93593838195e719be7bb4e9302" };

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
    const coffer_tensor *tensors[VECTOR_COUNT];
    coffer_digest digests[VECTOR_COUNT];
    const size_t size = coffer_algorithm_digest_size(ALGORITHMS[k]);
    for (size_t i = 0; i < VECTOR_COUNT; i++) {
        tensors[i] = tensor_named(model, VECTORS[i].name);
    }
    assert_int_equal(coffer_digest_tensors(model, tensors, VECTOR_COUNT, ALGORITHMS[k], digests, NULL, NULL),
                     COFFER_OK);
    for (size_t i = 0; i < VECTOR_COUNT; i++) {
        assert_digest(digests[i].data, size, VECTORS[i].data[k]);
        assert_digest(digests[i].record, size, VECTORS[i].record[k]);
    }
}

static void assert_content(const coffer *model, size_t k)
{
    coffer_digest digests[VECTOR_COUNT];
    uint8_t content[COFFER_LARGEST_DIGEST_SIZE];
    const size_t size = coffer_algorithm_digest_size(ALGORITHMS[k]);
    assert_int_equal(coffer_digest_tensors(model, NULL, VECTOR_COUNT, ALGORITHMS[k], digests, NULL, NULL), COFFER_OK);
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
    memset(coffer_data_mutable(model, tensor_named(model, "a"), NULL), 0xFF, 24);
    assert_content(model, 0);
    coffer_close(model);
}

/* ---- larger models, threads, progress ---------------------------------------------------------------------------- */

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
            telling reported = { .stop_at = 0 };
            coffer_digest_options hashing = COFFER_DIGEST_OPTIONS_INIT;
            hashing.threads = threads;
            hashing.progress = tell;
            hashing.progress_ctx = &reported;
            assert_int_equal(coffer_digest_tensors(model, NULL, LARGE_COUNT, COFFER_SHA256,
                                                   threads == 1 && access == COFFER_MAP ? known : digests, &hashing,
                                                   NULL),
                             COFFER_OK);
            assert_int_equal(reported.last, made.size - made.data_offset);
            assert_int_equal(reported.total, reported.last);
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
    telling reported = { .stop_at = 1 };
    coffer_digest_options hashing = COFFER_DIGEST_OPTIONS_INIT;
    hashing.threads = 1;
    hashing.progress = tell;
    hashing.progress_ctx = &reported;
    coffer_status status = COFFER_ERR_CANCELLED;
    unsigned cancelled = 0;
    while (status == COFFER_ERR_CANCELLED) {
        reported = (telling){ .stop_at = ++cancelled };
        status = coffer_digest_tensors(model, NULL, LARGE_COUNT, COFFER_XXH3_128, digests, &hashing, &err);
        assert_true(status == COFFER_OK || reported.calls == cancelled);
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
    const coffer_tensor *last = tensor_named(model, "two");
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

static int cut_the_file(void *ctx, uint64_t done, uint64_t total)
{
    (void)ctx;
    assert_true(done < total);
    assert_int_equal(truncate(work_path("model"), 1000), 0);
    return 0;
}

/* A map would end the process here. */
static void a_file_that_is_cut_while_digests_are_recorded(void **state)
{
    (void)state;
    static const tensor_spec spec = { "x", COFFER_U8, 1, { 16 << 20 } };
    image made = image_of(&spec, 1);
    file_write("model", made.bytes, made.size);
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    options.progress = cut_the_file;
    coffer_error err;
    assert_int_equal(coffer_record_digests(work_path("model"), COFFER_XXH3_128, &options, NULL, &err),
                     COFFER_ERR_CHANGED);
    assert_string_equal(err.tensor, "x");
    assert_true(err.offset > made.data_offset && err.offset < made.size);
    assert_int_equal(err.expected, made.size);
    assert_int_equal(err.actual, 1000);
    assert_int_equal(work_dir_count(), 1);
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
        coffer_digest digests[VECTOR_COUNT];
        uint8_t content[32];
        status = coffer_digest_tensors(model, NULL, VECTOR_COUNT, COFFER_SHA256, digests, NULL, NULL);
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

static void wrong_calls(void **state)
{
    (void)state;
    coffer_error err;
    coffer_digest digests[VECTOR_COUNT];
    uint8_t content[32];
    write_vectors("model", NULL);
    coffer *model = open_with("model", NULL);
    coffer *other = open_with("model", NULL);
    const coffer_tensor *stranger = coffer_at(other, 0);
    const coffer_algorithm sha = COFFER_SHA256;
    assert_int_equal(coffer_digest_tensors(NULL, NULL, VECTOR_COUNT, sha, digests, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_digest_tensors(model, NULL, 3, sha, digests, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_digest_tensors(model, NULL, VECTOR_COUNT, sha, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_digest_tensors(model, NULL, VECTOR_COUNT, COFFER_NO_ALGORITHM, digests, NULL, &err),
                     COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_digest_tensors(model, &stranger, 1, sha, digests, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_digest_tensors(model, &stranger, 0, sha, NULL, NULL, &err), COFFER_OK);
    assert_int_equal(coffer_digest_content(NULL, digests, sha, content, 32, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_digest_content(model, NULL, sha, content, 32, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_digest_content(model, digests, sha, NULL, 32, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_digest_content(model, digests, sha, content, 16, &err), COFFER_ERR_BUFFER_SIZE);
    coffer_close(other);
    coffer_close(model);
}

/* ---- recording --------------------------------------------------------------------------------------------------- */

static void the_writer_records(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        for (coffer_format format = COFFER_FORMAT_SAFETENSORS; format <= COFFER_FORMAT_BINTENSORS; format++) {
            coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
            options.format = format;
            options.slack = 7;
            write_vectors("bare", &options);
            options.digests = ALGORITHMS[k];
            write_vectors("model", &options);
            assert_verifies("model");
            coffer *model = open_with("model", NULL);
            assert_int_equal(coffer_recorded_algorithm(model, 0), ALGORITHMS[k]);
            assert_content(model, k);
            coffer_close(model);
            /* What an edit adds to a file without digests are the bytes that the writer writes. */
            coffer_edit_options editing = COFFER_EDIT_OPTIONS_INIT;
            editing.mode = COFFER_EDIT_REWRITE;
            editing.slack = 1;
            coffer_edit_way way = COFFER_EDITED_NOTHING;
            assert_int_equal(coffer_record_digests(work_path("bare"), ALGORITHMS[k], &editing, &way, NULL), COFFER_OK);
            assert_int_equal(way, COFFER_EDITED_REWRITE);
            assert_verifies("bare");
            coffer *other = open_with("bare", NULL);
            model = open_with("model", NULL);
            const char *const keys[2] = { COFFER_DIGESTS_KEY, COFFER_METADATA_DIGEST_KEY };
            for (size_t i = 0; i < 2; i++) {
                assert_string_equal(
                    coffer_table_metadata_get(coffer_shard_table(model, 0), keys[i], strlen(keys[i]), NULL),
                    coffer_table_metadata_get(coffer_shard_table(other, 0), keys[i], strlen(keys[i]), NULL));
            }
            coffer_close(other);
            coffer_close(model);
        }
    }
}

/* The places that a writer writes to, and which of them it can read back. */
typedef enum place { PLACE_PATH, PLACE_IN_PLACE, PLACE_FD, PLACE_MEMORY, PLACE_CUSTOM, PLACE_COUNT } place;

typedef struct target {
    uint8_t *memory;
    size_t size;
    int fd;
} target;

static coffer_status target_write(void *ctx, uint64_t offset, const void *bytes, size_t size, coffer_error *err)
{
    (void)err;
    const target *to = ctx;
    assert_true(offset <= to->size && size <= to->size - offset);
    memcpy(to->memory + offset, bytes, size);
    return COFFER_OK;
}

static coffer_header *large_header(void)
{
    coffer_header *header = header_of(LARGE, LARGE_COUNT, NULL);
    const void *bytes = NULL;
    assert_int_equal(coffer_header_reserve_digests(header, COFFER_SHA256, NULL), COFFER_OK);
    assert_int_equal(coffer_header_build(header, NULL, &bytes, NULL, NULL, NULL), COFFER_OK);
    return header;
}

static coffer_writer *open_place(place where, coffer_header *header, target *to, const coffer_table *table)
{
    coffer_writer *writer = NULL;
    coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    options.digests = COFFER_SHA256;
    const coffer_sink sink = { target_write, NULL, NULL, to };
    to->size = (size_t)(coffer_table_data_offset(table) + coffer_table_data_size(table));
    to->memory = calloc(1, to->size);
    to->fd = -1;
    assert_non_null(to->memory);
    switch (where) {
    case PLACE_PATH:
    case PLACE_IN_PLACE:
        options.in_place = where == PLACE_IN_PLACE;
        assert_int_equal(coffer_writer_open(&writer, header, work_path("large"), &options, NULL), COFFER_OK);
        break;
    case PLACE_FD:
        to->fd = open(work_path("large"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        assert_true(to->fd >= 0);
        assert_int_equal(coffer_writer_open_fd(&writer, header, to->fd, &options, NULL), COFFER_OK);
        break;
    case PLACE_MEMORY:
        assert_int_equal(coffer_writer_open_memory(&writer, header, to->memory, to->size, &options, NULL), COFFER_OK);
        break;
    default:
        assert_int_equal(coffer_writer_open_sink(&writer, header, &sink, &options, NULL), COFFER_OK);
        break;
    }
    return writer;
}

static void close_place(place where, target *to)
{
    if (to->fd >= 0) {
        assert_int_equal(close(to->fd), 0);
    }
    if (where == PLACE_MEMORY || where == PLACE_CUSTOM) {
        file_write("large", to->memory, to->size);
    }
    free(to->memory);
}

/* Pieces of every tensor, from the first to the last or the other way round. */
static coffer_status write_pieces(coffer_writer *writer, coffer_header *header, bool backwards, coffer_error *err)
{
    enum { PIECES = 5 };
    uint8_t *bytes = malloc(6000000);
    assert_non_null(bytes);
    for (size_t i = 0; i < 6000000; i++) {
        bytes[i] = pattern_byte(i);
    }
    coffer_status status = COFFER_OK;
    for (size_t k = 0; k < PIECES && status == COFFER_OK; k++) {
        const size_t piece = backwards ? PIECES - 1 - k : k;
        for (size_t i = 0; i < LARGE_COUNT && status == COFFER_OK; i++) {
            const uint64_t size = coffer_header_at(header, i)->size;
            const uint64_t from = size * piece / PIECES;
            const uint64_t to = size * (piece + 1) / PIECES;
            status = coffer_writer_write(writer, i, from, bytes + from, to - from, err);
        }
    }
    free(bytes);
    return status;
}

static void pieces_in_any_order_to_every_place(void **state)
{
    (void)state;
    for (place where = PLACE_PATH; where < PLACE_COUNT; where++) {
        for (int backwards = 0; backwards < 2; backwards++) {
            coffer_error err;
            target to;
            coffer_header *header = large_header();
            const coffer_table *table = NULL;
            assert_int_equal(coffer_header_build(header, NULL, NULL, NULL, &table, NULL), COFFER_OK);
            coffer_writer *writer = open_place(where, header, &to, table);
            const coffer_status status = write_pieces(writer, header, backwards != 0, &err);
            const bool reads_back = where == PLACE_PATH || where == PLACE_MEMORY;
            if (backwards != 0 && !reads_back) {
                assert_int_equal(status, COFFER_ERR_UNSUPPORTED);
                assert_non_null(strstr(err.message, "in order"));
            } else {
                assert_int_equal(status, COFFER_OK);
                assert_int_equal(coffer_writer_finish(writer, NULL), COFFER_OK);
                close_place(where, &to);
                assert_verifies("large");
                to = (target){ .fd = -1 };
            }
            coffer_writer_free(writer);
            if (to.memory != NULL) {
                close_place(PLACE_PATH, &to);
            }
            coffer_header_free(header);
        }
    }
}

typedef struct sharing {
    coffer_writer *writer;
    coffer_header *header;
    size_t first;
} sharing;

/* Every other piece of every tensor. */
static void *write_shared(void *arg)
{
    const sharing *shared = arg;
    uint8_t *bytes = calloc(1, 6000000);
    for (size_t i = 0; i < LARGE_COUNT && bytes != NULL; i++) {
        const uint64_t size = coffer_header_at(shared->header, i)->size;
        for (size_t piece = shared->first; piece < 40; piece += 2) {
            const uint64_t from = size * piece / 40;
            const uint64_t to = size * (piece + 1) / 40;
            if (coffer_writer_write(shared->writer, i, from, bytes + from, to - from, NULL) != COFFER_OK) {
                abort();
            }
        }
    }
    free(bytes);
    return NULL;
}

static void two_threads_share_every_tensor(void **state)
{
    (void)state;
    coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    options.digests = COFFER_SHA256;
    coffer_header *header = header_of(LARGE, LARGE_COUNT, NULL);
    sharing shared[2] = { { NULL, header, 0 }, { NULL, header, 1 } };
    pthread_t thread;
    assert_int_equal(coffer_writer_open(&shared[0].writer, header, work_path("large"), &options, NULL), COFFER_OK);
    shared[1].writer = shared[0].writer;
    assert_int_equal(pthread_create(&thread, NULL, write_shared, &shared[1]), 0);
    write_shared(&shared[0]);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(coffer_writer_finish(shared[0].writer, NULL), COFFER_OK);
    coffer_writer_free(shared[0].writer);
    coffer_header_free(header);
    assert_verifies("large");
}

static void copies_are_hashed_where_they_come_from(void **state)
{
    (void)state;
    image made = image_of(LARGE, LARGE_COUNT);
    file_write("from", made.bytes, made.size);
    for (coffer_access access = COFFER_MAP; access <= COFFER_READ; access++) {
        coffer_open_options opening = COFFER_OPEN_OPTIONS_INIT;
        opening.access = access;
        coffer *model = open_with("from", &opening);
        coffer_header *header = header_of(LARGE, LARGE_COUNT, NULL);
        coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
        options.digests = COFFER_SHA256;
        coffer_writer *writer = NULL;
        coffer_copy copies[LARGE_COUNT];
        for (size_t i = 0; i < LARGE_COUNT; i++) {
            copies[i] = (coffer_copy){ i, model, tensor_named(model, LARGE[i].name) };
        }
        telling reported = { .stop_at = 0 };
        coffer_read_options reading = COFFER_READ_OPTIONS_INIT;
        reading.progress = tell;
        reading.progress_ctx = &reported;
        assert_int_equal(coffer_writer_open(&writer, header, work_path("large"), &options, NULL), COFFER_OK);
        assert_int_equal(coffer_writer_copy(writer, copies, LARGE_COUNT, &reading, NULL), COFFER_OK);
        assert_int_equal(reported.last, made.size - made.data_offset);
        assert_int_equal(coffer_writer_finish(writer, NULL), COFFER_OK);
        coffer_writer_free(writer);
        coffer_header_free(header);
        coffer_close(model);
        assert_verifies("large");
    }
    image_free(&made);
}

static void a_pipe_and_a_header_without_capacity_are_refused(void **state)
{
    (void)state;
    int ends[2];
    coffer_error err;
    coffer_writer *writer = NULL;
    coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    options.digests = COFFER_SHA256;
    assert_int_equal(pipe(ends), 0);
    coffer_header *header = vector_header();
    assert_int_equal(coffer_writer_open_fd(&writer, header, ends[1], &options, &err), COFFER_ERR_UNSUPPORTED);
    assert_null(writer);
    assert_int_equal(close(ends[1]), 0);
    char byte = 0;
    assert_int_equal(read(ends[0], &byte, 1), 0);
    assert_int_equal(close(ends[0]), 0);
    coffer_header_free(header);

    header = vector_header();
    assert_int_equal(coffer_header_build(header, NULL, NULL, NULL, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_open(&writer, header, work_path("model"), &options, &err), COFFER_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "coffer_header_reserve_digests"));
    assert_int_equal(coffer_header_reserve_digests(header, COFFER_SHA256, &err), COFFER_ERR_ARGUMENT);
    coffer_header_free(header);

    /* Space for fewer digests than there are tensors by now. */
    header = vector_header();
    assert_int_equal(coffer_header_reserve_digests(header, COFFER_SHA256, NULL), COFFER_OK);
    add_tensor(header, "more", COFFER_U8, 1, 1, 0);
    assert_int_equal(coffer_header_build(header, NULL, NULL, NULL, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_open(&writer, header, work_path("model"), &options, &err), COFFER_ERR_ARGUMENT);
    coffer_header_free(header);

    header = vector_header();
    options.digests = (coffer_algorithm)9;
    assert_int_equal(coffer_writer_open(&writer, header, work_path("model"), &options, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_header_reserve_digests(header, COFFER_NO_ALGORITHM, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_header_reserve_digests(NULL, COFFER_SHA256, &err), COFFER_ERR_ARGUMENT);
    coffer_header_free(header);
    assert_int_equal(work_dir_count(), 0);
}

static void a_file_without_tensors(void **state)
{
    (void)state;
    coffer_header *header = new_header();
    coffer_writer *writer = NULL;
    coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    options.digests = COFFER_XXH3_128;
    assert_int_equal(coffer_writer_open(&writer, header, work_path("none"), &options, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_finish(writer, NULL), COFFER_OK);
    coffer_writer_free(writer);
    coffer_header_free(header);
    assert_verifies("none");
}

static coffer_status record_all_ways(const coffer_allocator *allocator, coffer_header *header)
{
    coffer_writer *writer = NULL;
    coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    coffer_edit_options editing = COFFER_EDIT_OPTIONS_INIT;
    options.digests = COFFER_SHA256;
    editing.allocator = allocator;
    coffer_status status = coffer_writer_open(&writer, header, work_path("model"), &options, NULL);
    for (size_t i = 0; i < VECTOR_COUNT && status == COFFER_OK; i++) {
        /* The first of the vectors comes in two pieces, the last one first. */
        const size_t half = VECTORS[i].size / 2;
        const char *bytes = VECTORS[i].bytes;
        status = coffer_writer_write(writer, i, half, bytes + half, VECTORS[i].size - half, NULL);
        if (status == COFFER_OK) {
            status = coffer_writer_write(writer, i, 0, bytes, half, NULL);
        }
    }
    if (status == COFFER_OK) {
        status = coffer_writer_finish(writer, NULL);
    }
    coffer_writer_free(writer);
    if (status == COFFER_OK) {
        status = coffer_record_digests(work_path("model"), COFFER_XXH3_128, &editing, NULL, NULL);
    }
    return status;
}

static void memory_that_fails_while_recording(void **state)
{
    (void)state;
    coffer_status status = COFFER_ERR_MEMORY;
    for (size_t fail_at = 1; status == COFFER_ERR_MEMORY; fail_at++) {
        memory_meter meter;
        const coffer_allocator allocator = metered_allocator(&meter);
        coffer_header *header = NULL;
        assert_int_equal(coffer_header_new(&header, &allocator, NULL), COFFER_OK);
        static const uint64_t shape[2] = { 2, 3 };
        assert_int_equal(coffer_header_add(header, "a", 1, COFFER_F32, shape, 2, NULL), COFFER_OK);
        assert_int_equal(coffer_header_add(header, "s", 1, COFFER_U8, NULL, 0, NULL), COFFER_OK);
        assert_int_equal(coffer_header_add(header, "e", 1, COFFER_BF16, (uint64_t[]){ 0 }, 1, NULL), COFFER_OK);
        assert_int_equal(coffer_header_add(header, "i", 1, COFFER_I16, shape, 1, NULL), COFFER_OK);
        meter.requests = 0;
        meter.fail_at = fail_at;
        status = record_all_ways(&allocator, header);
        assert_true(status == COFFER_OK || status == COFFER_ERR_MEMORY);
        meter.fail_at = 0;
        coffer_header_free(header);
        assert_int_equal(meter.blocks, 0);
        assert_true(status == COFFER_ERR_MEMORY || fail_at > 30);
    }
    assert_verifies("model");
}

/* ---- edits ------------------------------------------------------------------------------------------------------- */

static void edits_keep_the_digest_true(void **state)
{
    (void)state;
    coffer_error err;
    write_recorded("model", COFFER_SHA256);
    assert_int_equal(set_key("model", "licence", "none", NULL), COFFER_OK);
    assert_verifies("model");
    assert_int_equal(set_key("model", "made by", NULL, NULL), COFFER_OK);
    assert_verifies("model");
    /* What is there already is nothing to do. */
    coffer_edit_way way = COFFER_EDITED_REWRITE;
    const coffer_edit same = { "licence", 7, "none", 4 };
    assert_int_equal(coffer_edit_metadata(work_path("model"), &same, 1, NULL, &way, NULL), COFFER_OK);
    assert_int_equal(way, COFFER_EDITED_NOTHING);
    /* Digests of another kind take the place of these, both. */
    assert_int_equal(coffer_record_digests(work_path("model"), COFFER_XXH3_128, NULL, NULL, NULL), COFFER_OK);
    assert_verifies("model");
    /* Without digests of tensors there is no digest of the metadata either. */
    assert_int_equal(set_key("model", COFFER_DIGESTS_KEY, NULL, NULL), COFFER_OK);
    assert_int_equal(verify_file("model", &err), COFFER_ERR_NO_DIGESTS);
    coffer *model = open_with("model", NULL);
    assert_int_equal(coffer_table_metadata_count(coffer_shard_table(model, 0)), 1);
    coffer_close(model);
}

/* An edit does not make good what was wrong before. */
static void edits_do_not_hide_damage(void **state)
{
    (void)state;
    coffer_error err;
    write_recorded("model", COFFER_SHA256);
    size_t size = 0;
    uint8_t *bytes = file_read("model", &size);
    uint8_t *at = memmem(bytes, size, "made by", 7);
    assert_non_null(at);
    *at ^= 1;
    file_write("model", bytes, size);
    assert_int_equal(verify_file("model", &err), COFFER_ERR_METADATA_DIGEST);
    assert_string_equal(err.path, work_path("model"));
    assert_int_equal(set_key("model", "a", "b", &err), COFFER_ERR_METADATA_DIGEST);
    free(bytes);
    bytes = file_read("model", &size);
    assert_null(memmem(bytes, size, "\"a\":\"b\"", 7));
    free(bytes);
    assert_int_equal(coffer_record_digests(work_path("model"), COFFER_SHA256, NULL, NULL, NULL), COFFER_OK);
    assert_verifies("model");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, work_dir_set_up, work_dir_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_vectors),
        TEST(content_is_the_same_in_another_file),
        TEST(changes_in_memory_do_not_count),
        TEST(every_number_of_threads_says_the_same),
        TEST(cancelling_at_every_call),
        TEST(a_file_that_is_cut_while_digests_are_recorded),
        TEST(a_file_that_is_cut_meanwhile),
        TEST(memory_that_fails),
        TEST(the_writer_records),
        TEST(pieces_in_any_order_to_every_place),
        TEST(two_threads_share_every_tensor),
        TEST(copies_are_hashed_where_they_come_from),
        TEST(a_pipe_and_a_header_without_capacity_are_refused),
        TEST(a_file_without_tensors),
        TEST(memory_that_fails_while_recording),
        TEST(edits_keep_the_digest_true),
        TEST(edits_do_not_hide_damage),
        TEST(wrong_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
