/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests of tensors and of a model's content, by the definitions of docs/integrity.md: the vectors there were computed by
 * another program (tests/python/test_integrity.py), from the same four tensors.
 */
#define _GNU_SOURCE /* memmem */

#include "support_cmocka.h"

#include "coffer.h"
#include "support_file.h"
#include "support_header.h"
#include "support_memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* ---- recording --------------------------------------------------------------------------------------------------- */

static coffer_status verify_file(const char *name, coffer_error *err)
{
    coffer *model = NULL;
    coffer_status status = coffer_open(&model, work_path(name), NULL, err);
    if (status == COFFER_OK) {
        status = coffer_verify(model, NULL, coffer_count(model), NULL, NULL, err);
    }
    coffer_close(model);
    return status;
}

static void assert_verifies(const char *name)
{
    coffer_error err;
    if (verify_file(name, &err) != COFFER_OK) {
        fail_msg("%s", err.message);
    }
}

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
            copies[i] = (coffer_copy){ i, model, coffer_find(model, LARGE[i].name) };
        }
        telling told = { .stop_at = 0 };
        coffer_read_options reading = COFFER_READ_OPTIONS_INIT;
        reading.progress = tell;
        reading.progress_ctx = &told;
        assert_int_equal(coffer_writer_open(&writer, header, work_path("large"), &options, NULL), COFFER_OK);
        assert_int_equal(coffer_writer_copy(writer, copies, LARGE_COUNT, &reading, NULL), COFFER_OK);
        assert_int_equal(told.last, made.size - made.data_offset);
        assert_int_equal(coffer_writer_finish(writer, NULL), COFFER_OK);
        coffer_writer_free(writer);
        coffer_header_free(header);
        coffer_close(model);
        assert_verifies("large");
    }
    image_free(&made);
}

static void a_pipe_and_a_header_without_room_are_refused(void **state)
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

    /* Room for fewer digests than there are tensors by now. */
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
    for (size_t i = 0; i < COUNT && status == COFFER_OK; i++) {
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

static coffer_status set_key(const char *name, const char *key, const char *value, coffer_error *err)
{
    const coffer_edit edit = { key, strlen(key), value, value == NULL ? 0 : strlen(value) };
    return coffer_edit_metadata(work_path(name), &edit, 1, NULL, NULL, err);
}

static void write_recorded(const char *name, coffer_algorithm algorithm)
{
    coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    options.digests = algorithm;
    options.slack = 200;
    write_vectors(name, &options);
}

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
    bool sound[COUNT];
    file_write(name, bytes, size);
    coffer *model = open_with(name, NULL);
    assert_int_equal(coffer_verify(model, NULL, COUNT, sound, NULL, &err), COFFER_ERR_TENSOR_DIGEST);
    assert_true(strcmp(err.tensor, first) == 0 || strcmp(err.tensor, second) == 0);
    for (size_t i = 0; i < COUNT; i++) {
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
    const uint64_t a = coffer_find(model, "a")->offset;
    const uint64_t e = coffer_find(model, "\xC3\xA9")->offset;
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
    coffer_copy copies[COUNT];
    size_t count = 0;
    for (size_t i = COUNT; i > 0; i--) {
        const coffer_tensor *tensor = coffer_find(model, VECTORS[i - 1].name);
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
    write_again("again", COUNT, false);
    assert_verifies("again");
    write_again("less", 1, false);
    assert_int_equal(verify_file("less", &err), COFFER_ERR_TENSOR_DIGEST);
    assert_int_equal(err.expected, COUNT);
    assert_int_equal(err.actual, COUNT - 1);
    write_again("more", COUNT, true);
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
    bytes[coffer_find(model, "a")->offset + 13] ^= 0x10;
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
            for (size_t i = 0; i < 2 * COUNT; i++) {
                coffer_error err;
                const coffer_tensor *tensor = coffer_at(model, i % COUNT);
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

static void verifying_is_no_second_pass(void **state)
{
    (void)state;
    coffer_header *header = large_header();
    const coffer_table *table = NULL;
    target to;
    assert_int_equal(coffer_header_build(header, NULL, NULL, NULL, &table, NULL), COFFER_OK);
    coffer_writer *writer = open_place(PLACE_MEMORY, header, &to, table);
    assert_int_equal(write_pieces(writer, header, false, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_finish(writer, NULL), COFFER_OK);
    coffer_writer_free(writer);

    counting from = { to.memory, 0 };
    const coffer_source source = { count_read, NULL, &from, to.size };
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
    const coffer_tensor *one = coffer_find(model, "one");
    assert_int_equal(coffer_read_part(model, one, 5, targets[0].buffer, 7, NULL, NULL), COFFER_OK);
    assert_int_equal(from.read, one->size + 7);
    from.read = 0;
    telling told = { .stop_at = 0 };
    coffer_read_options reading = COFFER_READ_OPTIONS_INIT;
    reading.progress = tell;
    reading.progress_ctx = &told;
    for (int again = 0; again < 2; again++) {
        told = (telling){ .stop_at = 0 };
        from.read = 0;
        assert_int_equal(coffer_read_many(model, targets, LARGE_COUNT, &reading, NULL), COFFER_OK);
        assert_int_equal(from.read, all);
        assert_int_equal(told.last, all);
        for (size_t i = 0; i < LARGE_COUNT; i++) {
            assert_memory_equal(targets[i].buffer, to.memory + targets[i].tensor->offset,
                                (size_t)targets[i].buffer_size);
        }
    }
    from.read = 0;
    assert_int_equal(coffer_read_part(model, one, 5, targets[0].buffer, 7, NULL, NULL), COFFER_OK);
    assert_int_equal(from.read, 7);
    coffer_close(model);
    for (size_t i = 0; i < LARGE_COUNT; i++) {
        free(targets[i].buffer);
    }
    coffer_header_free(header);
    free(to.memory);
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
    coffer_header *header = large_header();
    const coffer_table *table = NULL;
    target to;
    assert_int_equal(coffer_header_build(header, NULL, NULL, NULL, &table, NULL), COFFER_OK);
    coffer_writer *writer = open_place(PLACE_PATH, header, &to, table);
    assert_int_equal(write_pieces(writer, header, false, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_finish(writer, NULL), COFFER_OK);
    coffer_writer_free(writer);
    coffer_header_free(header);
    close_place(PLACE_PATH, &to);
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
            status = coffer_verify(model, NULL, COUNT, NULL, NULL, NULL);
        }
        if (status == COFFER_OK) {
            status = coffer_read(model, coffer_find(model, "a"), bytes, 24, NULL, NULL);
        }
        assert_true(status == COFFER_OK || status == COFFER_ERR_MEMORY);
        meter.fail_at = 0;
        coffer_close(model);
        assert_int_equal(meter.blocks, 0);
        assert_true(status == COFFER_ERR_MEMORY || fail_at > 25);
    }
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
        TEST(the_writer_records),
        TEST(pieces_in_any_order_to_every_place),
        TEST(two_threads_share_every_tensor),
        TEST(copies_are_hashed_where_they_come_from),
        TEST(a_pipe_and_a_header_without_room_are_refused),
        TEST(a_file_without_tensors),
        TEST(memory_that_fails_while_recording),
        TEST(edits_keep_the_digest_true),
        TEST(edits_do_not_hide_damage),
        TEST(digests_that_cannot_be_used),
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
        TEST(memory_that_fails_while_verifying),
        TEST(wrong_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
