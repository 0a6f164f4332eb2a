/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing: pieces in any order, from any thread, to every kind of sink, and the account of what was written. A file
 * with a byte missing or written twice must never be published, so the account is compared with a byte map under random
 * pieces.
 */
#define _POSIX_C_SOURCE 200809L

#include "support_cmocka.h"

#include "coffer.h"
#include "spans.h"
#include "support_file.h"
#include "support_memory.h"
#include "support_model.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const tensor_spec specs[] = {
    { "bias", COFFER_F16, 1, { 100 } }, { "empty", COFFER_U8, 2, { 3, 0 } },
    { "packed", COFFER_F4, 1, { 64 } }, { "table", COFFER_I64, 2, { 1000, 25 } },
    { "flag", COFFER_BOOL, 0, { 0 } },  { "weight", COFFER_BF16, 2, { 300, 256 } },
};
#define SPEC_COUNT (sizeof specs / sizeof specs[0])

static image wanted; /* the file that every test should come to */

static int set_up(void **state)
{
    (void)state;
    work_dir_make();
    wanted = image_of(specs, SPEC_COUNT);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    image_free(&wanted);
    work_dir_remove();
    return 0;
}

static uint64_t random_state = 3;

static uint32_t random_below(uint32_t limit)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(random_state >> 33) % limit;
}

/* Writes a part of tensor `i` with the bytes that the wanted file has there. */
static coffer_status write_part(coffer_writer *writer, const coffer_header *header, size_t i, uint64_t offset,
                                uint64_t size, coffer_error *err)
{
    const coffer_tensor *tensor = coffer_header_at(header, i);
    return coffer_writer_write(writer, i, offset, wanted.bytes + tensor->offset + offset, size, err);
}

static void write_all(coffer_writer *writer, const coffer_header *header)
{
    for (size_t i = 0; i < SPEC_COUNT; i++) {
        coffer_error err;
        if (write_part(writer, header, i, 0, coffer_header_at(header, i)->size, &err) != COFFER_OK) {
            fail_msg("tensor %zu: %s", i, err.message);
        }
    }
}

static void assert_file_is_wanted(const char *name)
{
    size_t size = 0;
    uint8_t *file = file_read(name, &size);
    assert_int_equal(size, wanted.size);
    assert_memory_equal(file, wanted.bytes, size);
    free(file);
}

/* ---- a sink of the caller's own ---------------------------------------------------------------------------------- */

typedef struct kept {
    pthread_mutex_t mutex;
    uint8_t *bytes;
    uint8_t *times; /* how often each byte was written */
    size_t writes;
    size_t fail_at; /* the write that fails, from 1 */
    size_t finishes;
    size_t discards;
    coffer_status finish_answer;
} kept;

static coffer_status kept_write(void *ctx, uint64_t offset, const void *bytes, size_t size, coffer_error *err)
{
    kept *k = ctx;
    assert_non_null(err);
    assert_true(offset <= wanted.size && size <= wanted.size - offset);
    memcpy(k->bytes + offset, bytes, size);
    pthread_mutex_lock(&k->mutex);
    for (size_t i = 0; i < size; i++) {
        k->times[offset + i]++;
    }
    const bool fails = ++k->writes == k->fail_at;
    pthread_mutex_unlock(&k->mutex);
    return fails ? COFFER_ERR_LOCKED : COFFER_OK;
}

static coffer_status kept_finish(void *ctx, coffer_error *err)
{
    assert_non_null(err);
    ((kept *)ctx)->finishes++;
    return ((kept *)ctx)->finish_answer;
}

static void kept_discard(void *ctx)
{
    ((kept *)ctx)->discards++;
}

static coffer_sink sink_of(kept *k)
{
    *k = (kept){ .bytes = calloc(1, wanted.size), .times = calloc(1, wanted.size) };
    assert_true(k->bytes != NULL && k->times != NULL);
    pthread_mutex_init(&k->mutex, NULL);
    return (coffer_sink){ kept_write, kept_finish, kept_discard, k };
}

static void kept_free(kept *k)
{
    pthread_mutex_destroy(&k->mutex);
    free(k->bytes);
    free(k->times);
}

/* ---- sinks ------------------------------------------------------------------------------------------------------- */

static void every_sink_gets_the_same_bytes(void **state)
{
    (void)state;
    coffer_error err;
    coffer_header *header = header_of(specs, SPEC_COUNT, NULL);
    coffer_writer *writer = NULL;
    assert_int_equal(coffer_writer_open(&writer, header, work_path("by path"), NULL, &err), COFFER_OK);
    write_all(writer, header);
    assert_int_equal(access(work_path("by path"), F_OK), -1);
    assert_int_equal(coffer_writer_finish(writer, &err), COFFER_OK);
    coffer_writer_free(writer);
    assert_file_is_wanted("by path");

    const int fd = open(work_path("by fd"), O_RDWR | O_CREAT, 0600);
    assert_int_equal(coffer_writer_open_fd(&writer, header, fd, NULL, &err), COFFER_OK);
    write_all(writer, header);
    assert_int_equal(coffer_writer_finish(writer, &err), COFFER_OK);
    coffer_writer_free(writer);
    close(fd);
    assert_file_is_wanted("by fd");

    uint8_t *memory = malloc(wanted.size);
    assert_non_null(memory);
    assert_int_equal(coffer_writer_open_memory(&writer, header, memory, wanted.size, NULL, &err), COFFER_OK);
    write_all(writer, header);
    assert_int_equal(coffer_writer_finish(writer, &err), COFFER_OK);
    coffer_writer_free(writer);
    assert_memory_equal(memory, wanted.bytes, wanted.size);
    free(memory);

    kept k;
    const coffer_sink sink = sink_of(&k);
    assert_int_equal(coffer_writer_open_sink(&writer, header, &sink, NULL, &err), COFFER_OK);
    write_all(writer, header);
    assert_int_equal(k.finishes, 0);
    assert_int_equal(coffer_writer_finish(writer, &err), COFFER_OK);
    assert_int_equal(k.finishes, 1);
    coffer_writer_free(writer);
    assert_int_equal(k.discards, 0);
    assert_memory_equal(k.bytes, wanted.bytes, wanted.size);
    kept_free(&k);
    coffer_header_free(header);
}

static void what_was_written_can_be_opened(void **state)
{
    (void)state;
    coffer_error err;
    coffer_header *header = header_of(specs, SPEC_COUNT, NULL);
    coffer_writer *writer = NULL;
    coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    options.alignment = 4096;
    options.slack = 100;
    assert_int_equal(coffer_writer_open(&writer, header, work_path("aligned"), &options, &err), COFFER_OK);
    for (size_t i = SPEC_COUNT; i > 0; i--) {
        const coffer_tensor *tensor = coffer_header_at(header, i - 1);
        uint8_t *bytes = malloc((size_t)tensor->size + 1);
        assert_non_null(bytes);
        memset(bytes, (int)i, (size_t)tensor->size);
        assert_int_equal(coffer_writer_write(writer, i - 1, 0, bytes, tensor->size, &err), COFFER_OK);
        free(bytes);
    }
    assert_int_equal(coffer_writer_finish(writer, &err), COFFER_OK);
    coffer_writer_free(writer);
    coffer_header_free(header);
    coffer *model = NULL;
    assert_int_equal(coffer_open(&model, work_path("aligned"), NULL, &err), COFFER_OK);
    const coffer_table *table = coffer_shard_table(model, 0);
    assert_int_equal(coffer_table_data_offset(table) % 4096, 0);
    assert_true(coffer_table_slack(table) >= 100);
    for (size_t i = 0; i < SPEC_COUNT; i++) {
        const coffer_tensor *tensor = tensor_named(model, specs[i].name);
        const uint8_t *data = coffer_data(model, tensor, NULL);
        for (uint64_t b = 0; b < tensor->size; b++) {
            assert_int_equal(data[b], i + 1);
        }
    }
    coffer_close(model);
}

static void a_pipe_takes_the_file_in_order(void **state)
{
    (void)state;
    static const tensor_spec small[] = { { "a", COFFER_U8, 1, { 200 } }, { "b", COFFER_F32, 1, { 20 } } };
    image expected = image_of(small, 2);
    coffer_header *header = header_of(small, 2, NULL);
    int ends[2];
    coffer_error err;
    coffer_writer *writer = NULL;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(coffer_writer_open_fd(&writer, header, ends[1], NULL, &err), COFFER_OK);
    /* F32 comes first in the file. */
    const coffer_tensor *b = coffer_header_at(header, 1);
    const coffer_tensor *a = coffer_header_at(header, 0);
    assert_true(b->offset < a->offset);
    assert_int_equal(coffer_writer_write(writer, 1, 0, expected.bytes + b->offset, 80, &err), COFFER_OK);
    assert_int_equal(coffer_writer_write(writer, 0, 0, expected.bytes + a->offset, 150, &err), COFFER_OK);
    assert_int_equal(coffer_writer_write(writer, 0, 150, expected.bytes + a->offset + 150, 50, &err), COFFER_OK);
    assert_int_equal(coffer_writer_finish(writer, &err), COFFER_OK);
    coffer_writer_free(writer);
    close(ends[1]);
    uint8_t got[4096];
    size_t size = 0;
    for (ssize_t part = 1; part > 0; size += (size_t)part) {
        part = read(ends[0], got + size, sizeof got - size);
        assert_true(part >= 0);
    }
    assert_int_equal(size, expected.size);
    assert_memory_equal(got, expected.bytes, size);
    close(ends[0]);
    /* Out of order is an error. */
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(coffer_writer_open_fd(&writer, header, ends[1], NULL, &err), COFFER_OK);
    assert_int_not_equal(coffer_writer_write(writer, 0, 0, expected.bytes, 200, &err), COFFER_OK);
    assert_string_equal(err.tensor, "a");
    assert_int_equal(coffer_writer_finish(writer, &err), COFFER_ERR_ARGUMENT);
    coffer_writer_free(writer);
    close(ends[0]);
    close(ends[1]);
    coffer_header_free(header);
    image_free(&expected);
}

static void a_file_without_data_needs_no_writes(void **state)
{
    (void)state;
    static const tensor_spec nothing[] = { { "none", COFFER_F32, 2, { 4, 0 } } };
    coffer_error err;
    for (size_t count = 0; count <= 1; count++) {
        coffer_header *header = header_of(nothing, count, NULL);
        coffer_writer *writer = NULL;
        assert_int_equal(coffer_writer_open(&writer, header, work_path("nothing"), NULL, &err), COFFER_OK);
        assert_int_equal(coffer_writer_finish(writer, &err), COFFER_OK);
        coffer_writer_free(writer);
        coffer_header_free(header);
        coffer *model = NULL;
        assert_int_equal(coffer_open(&model, work_path("nothing"), NULL, &err), COFFER_OK);
        assert_int_equal(coffer_count(model), count);
        coffer_close(model);
    }
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

typedef struct piece {
    size_t tensor;
    uint64_t offset;
    uint64_t size;
} piece;

#define MAX_PIECES 4096

/* Cuts all tensors into random pieces, in random order. */
static size_t make_pieces(const coffer_header *header, piece *pieces)
{
    size_t count = 0;
    for (size_t i = 0; i < SPEC_COUNT; i++) {
        const uint64_t size = coffer_header_at(header, i)->size;
        for (uint64_t at = 0; at < size;) {
            uint64_t part = 1 + random_below(size > 10000 ? 1000 : 20);
            part = part < size - at ? part : size - at;
            assert_true(count < MAX_PIECES);
            pieces[count++] = (piece){ i, at, part };
            at += part;
        }
    }
    for (size_t i = count - 1; i > 0; i--) {
        const size_t j = random_below((uint32_t)i + 1);
        const piece other = pieces[j];
        pieces[j] = pieces[i];
        pieces[i] = other;
    }
    return count;
}

typedef struct hand {
    pthread_t thread;
    coffer_writer *writer;
    const coffer_header *header;
    const piece *pieces;
    size_t count;
    coffer_status status;
} hand;

static void *write_pieces(void *arg)
{
    hand *h = arg;
    h->status = COFFER_OK;
    for (size_t i = 0; i < h->count && h->status == COFFER_OK; i++) {
        const piece *p = &h->pieces[i];
        h->status = write_part(h->writer, h->header, p->tensor, p->offset, p->size, NULL);
    }
    return NULL;
}

static void random_pieces_from_several_threads(void **state)
{
    (void)state;
    static piece pieces[MAX_PIECES];
    coffer_header *header = header_of(specs, SPEC_COUNT, NULL);
    for (size_t round = 0; round < 6; round++) {
        coffer_error err;
        coffer_writer *writer = NULL;
        kept k;
        const coffer_sink sink = sink_of(&k);
        if (round % 2 == 0) {
            assert_int_equal(coffer_writer_open_sink(&writer, header, &sink, NULL, &err), COFFER_OK);
        } else {
            assert_int_equal(coffer_writer_open(&writer, header, work_path("pieces"), NULL, &err), COFFER_OK);
        }
        const size_t count = make_pieces(header, pieces);
        hand hands[4];
        for (size_t i = 0; i < 4; i++) {
            const size_t from = count * i / 4;
            hands[i] = (hand){
                .writer = writer, .header = header, .pieces = pieces + from, .count = count * (i + 1) / 4 - from
            };
            assert_int_equal(pthread_create(&hands[i].thread, NULL, write_pieces, &hands[i]), 0);
        }
        for (size_t i = 0; i < 4; i++) {
            pthread_join(hands[i].thread, NULL);
            assert_int_equal(hands[i].status, COFFER_OK);
        }
        assert_int_equal(coffer_writer_finish(writer, &err), COFFER_OK);
        coffer_writer_free(writer);
        if (round % 2 == 0) {
            assert_memory_equal(k.bytes, wanted.bytes, wanted.size);
            for (size_t i = 0; i < wanted.size; i++) {
                assert_int_equal(k.times[i], 1);
            }
        } else {
            assert_file_is_wanted("pieces");
        }
        kept_free(&k);
    }
    coffer_header_free(header);
}

static void one_missing_piece_is_named(void **state)
{
    (void)state;
    static piece pieces[MAX_PIECES];
    coffer_header *header = header_of(specs, SPEC_COUNT, NULL);
    for (size_t round = 0; round < 40; round++) {
        kept k;
        const coffer_sink sink = sink_of(&k);
        coffer_error err;
        coffer_writer *writer = NULL;
        assert_int_equal(coffer_writer_open_sink(&writer, header, &sink, NULL, &err), COFFER_OK);
        const size_t count = make_pieces(header, pieces) - 1;
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(write_part(writer, header, pieces[i].tensor, pieces[i].offset, pieces[i].size, &err),
                             COFFER_OK);
        }
        const piece *missing = &pieces[count];
        const coffer_tensor *tensor = coffer_header_at(header, missing->tensor);
        assert_int_equal(coffer_writer_finish(writer, &err), COFFER_ERR_MISSING_DATA);
        assert_int_equal(err.code, COFFER_ERR_MISSING_DATA);
        assert_string_equal(err.tensor, tensor->name);
        assert_int_equal(err.offset, tensor->offset + missing->offset);
        assert_int_equal(err.expected, tensor->size);
        assert_int_equal(err.actual, tensor->size - missing->size);
        assert_int_equal(k.finishes, 0);
        /* Then it can only be freed. */
        assert_int_equal(write_part(writer, header, missing->tensor, missing->offset, missing->size, &err),
                         COFFER_ERR_ARGUMENT);
        assert_int_equal(coffer_writer_finish(writer, &err), COFFER_ERR_ARGUMENT);
        coffer_writer_free(writer);
        assert_int_equal(k.discards, 1);
        assert_int_equal(k.finishes, 0);
        kept_free(&k);
    }
    coffer_header_free(header);
}

static void the_first_tensor_in_the_file_is_named(void **state)
{
    (void)state;
    coffer_error err;
    coffer_header *header = header_of(specs, SPEC_COUNT, NULL);
    coffer_writer *writer = NULL;
    assert_int_equal(coffer_writer_open(&writer, header, work_path("missing"), NULL, &err), COFFER_OK);
    assert_int_equal(coffer_writer_finish(writer, &err), COFFER_ERR_MISSING_DATA);
    assert_string_equal(err.tensor, "table"); /* I64 comes first */
    assert_string_equal(err.path, work_path("missing"));
    assert_int_equal(err.expected, 200000);
    assert_int_equal(err.actual, 0);
    coffer_writer_free(writer);
    assert_int_equal(access(work_path("missing"), F_OK), -1);
    coffer_header_free(header);
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

static void assert_range_is_refused(uint64_t offset, uint64_t size, uint64_t first, uint64_t first_size)
{
    kept k;
    const coffer_sink sink = sink_of(&k);
    coffer_error err;
    coffer_header *header = header_of(specs, SPEC_COUNT, NULL);
    coffer_writer *writer = NULL;
    assert_int_equal(coffer_writer_open_sink(&writer, header, &sink, NULL, &err), COFFER_OK);
    assert_int_equal(write_part(writer, header, 3, first, first_size, &err), COFFER_OK);
    const size_t writes = k.writes;
    assert_int_equal(coffer_writer_write(writer, 3, offset, wanted.bytes, size, &err), COFFER_ERR_WRITE_RANGE);
    assert_int_equal(err.code, COFFER_ERR_WRITE_RANGE);
    assert_string_equal(err.tensor, "table");
    assert_int_equal(k.writes, writes);
    assert_int_equal(coffer_writer_write(writer, 0, 0, wanted.bytes, 1, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_writer_finish(writer, &err), COFFER_ERR_ARGUMENT);
    coffer_writer_free(writer);
    assert_int_equal(k.discards, 1);
    kept_free(&k);
    coffer_header_free(header);
}

static void bytes_outside_or_written_twice(void **state)
{
    (void)state;
    assert_range_is_refused(200000, 1, 0, 10);
    assert_range_is_refused(199999, 2, 0, 10);
    assert_range_is_refused(UINT64_MAX, 1, 0, 10);
    assert_range_is_refused(1, UINT64_MAX, 0, 10);
    assert_range_is_refused(0, 200001, 0, 0);
    assert_range_is_refused(100, 10, 100, 10);
    assert_range_is_refused(95, 6, 100, 10);
    assert_range_is_refused(109, 5, 100, 10);
    assert_range_is_refused(0, 200000, 100, 1);
    assert_range_is_refused(103, 2, 100, 10);
}

static void wrong_calls(void **state)
{
    (void)state;
    coffer_error err;
    coffer_header *header = header_of(specs, SPEC_COUNT, NULL);
    coffer_writer *writer = (coffer_writer *)1;
    uint8_t byte = 0;
    kept k;
    coffer_sink sink = sink_of(&k);
    assert_int_equal(coffer_writer_open(NULL, header, work_path("x"), NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_writer_open(&writer, NULL, work_path("x"), NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_writer_open(&writer, header, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_null(writer);
    assert_int_equal(coffer_writer_open_memory(&writer, header, NULL, 0, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_writer_open_sink(&writer, header, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    sink.write_at = NULL;
    assert_int_equal(coffer_writer_open_sink(&writer, header, &sink, NULL, &err), COFFER_ERR_ARGUMENT);
    coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    options.struct_size = 0;
    assert_int_equal(coffer_writer_open(&writer, header, work_path("x"), &options, &err), COFFER_ERR_ARGUMENT);
    options = (coffer_writer_options)COFFER_WRITER_OPTIONS_INIT;
    options.sync = (coffer_sync)3;
    assert_int_equal(coffer_writer_open(&writer, header, work_path("x"), &options, &err), COFFER_ERR_ARGUMENT);
    options = (coffer_writer_options)COFFER_WRITER_OPTIONS_INIT;
    options.alignment = 7;
    assert_int_equal(coffer_writer_open(&writer, header, work_path("x"), &options, &err), COFFER_ERR_ARGUMENT);
    assert_string_equal(err.path, work_path("x"));
    assert_int_equal(work_dir_count(), 0);
    assert_int_equal(coffer_writer_write(NULL, 0, 0, &byte, 1, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_writer_finish(NULL, &err), COFFER_ERR_ARGUMENT);
    coffer_writer_free(NULL);
    sink = (coffer_sink){ kept_write, NULL, NULL, &k };
    assert_int_equal(coffer_writer_open_sink(&writer, header, &sink, NULL, &err), COFFER_OK);
    assert_int_equal(coffer_writer_write(writer, 0, 0, NULL, 0, &err), COFFER_OK);
    assert_int_equal(coffer_writer_write(writer, SPEC_COUNT, 0, &byte, 1, &err), COFFER_ERR_ARGUMENT);
    coffer_writer_free(writer);
    assert_int_equal(coffer_writer_open_sink(&writer, header, &sink, NULL, &err), COFFER_OK);
    assert_int_equal(coffer_writer_write(writer, 0, 0, NULL, 1, &err), COFFER_ERR_ARGUMENT);
    coffer_writer_free(writer);
    kept_free(&k);
    coffer_header_free(header);
}

static void a_sink_that_could_not_be_opened_is_discarded_once(void **state)
{
    (void)state;
    coffer_error err;
    coffer_writer *writer = NULL;
    coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    kept k;
    const coffer_sink sink = sink_of(&k);
    coffer_header *header = header_of(specs, SPEC_COUNT, NULL);
    options.alignment = 3;
    assert_int_equal(coffer_writer_open_sink(&writer, header, &sink, &options, &err), COFFER_ERR_ARGUMENT);
    assert_null(writer);
    assert_int_equal(k.discards, 1);
    assert_int_equal(coffer_writer_open_sink(&writer, NULL, &sink, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(k.discards, 2);
    coffer_sink no_write = sink;
    no_write.write_at = NULL;
    assert_int_equal(coffer_writer_open_sink(&writer, header, &no_write, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_null(writer);
    assert_int_equal(k.discards, 3);
    assert_int_equal(k.finishes, 0);
    kept_free(&k);
    coffer_header_free(header);
}

static void nothing_comes_after_finish(void **state)
{
    (void)state;
    coffer_error err;
    coffer_header *header = header_of(specs, SPEC_COUNT, NULL);
    coffer_writer *writer = NULL;
    kept k;
    const coffer_sink sink = sink_of(&k);
    assert_int_equal(coffer_writer_open_sink(&writer, header, &sink, NULL, &err), COFFER_OK);
    write_all(writer, header);
    assert_int_equal(coffer_writer_finish(writer, &err), COFFER_OK);
    assert_int_equal(coffer_writer_write(writer, 1, 0, NULL, 0, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_writer_finish(writer, &err), COFFER_ERR_ARGUMENT);
    coffer_writer_free(writer);
    assert_int_equal(k.finishes, 1);
    assert_int_equal(k.discards, 0);
    kept_free(&k);
    coffer_header_free(header);
}

typedef struct impatient {
    coffer_writer *writer;
    coffer_status finished; /* what finish said during a write */
} impatient;

static coffer_status impatient_write(void *ctx, uint64_t offset, const void *bytes, size_t size, coffer_error *err)
{
    impatient *i = ctx;
    (void)offset;
    (void)bytes;
    (void)size;
    if (i->writer != NULL) {
        i->finished = coffer_writer_finish(i->writer, err);
    }
    return COFFER_OK;
}

static void finish_does_not_overtake_a_write(void **state)
{
    (void)state;
    static const tensor_spec one[] = { { "a", COFFER_U8, 1, { 4 } } };
    coffer_header *header = header_of(one, 1, NULL);
    coffer_writer *writer = NULL;
    impatient i = { .finished = COFFER_OK };
    const coffer_sink sink = { impatient_write, NULL, NULL, &i };
    assert_int_equal(coffer_writer_open_sink(&writer, header, &sink, NULL, NULL), COFFER_OK);
    i.writer = writer;
    assert_int_equal(coffer_writer_write(writer, 0, 0, "abcd", 4, NULL), COFFER_OK);
    assert_int_equal(i.finished, COFFER_ERR_ARGUMENT);
    coffer_writer_free(writer);
    coffer_header_free(header);
}

typedef struct measured {
    uint64_t bytes;
    uint64_t next; /* the offset that comes next */
    size_t largest;
} measured;

static coffer_status measured_write(void *ctx, uint64_t offset, const void *bytes, size_t size, coffer_error *err)
{
    measured *m = ctx;
    (void)bytes;
    (void)err;
    assert_int_equal(offset, m->next);
    m->next = offset + size;
    m->bytes += size;
    m->largest = size > m->largest ? size : m->largest;
    return COFFER_OK;
}

static void large_pieces_are_written_by_the_gibibyte(void **state)
{
    (void)state;
    /* Its bytes come from the map of a sparse file, and are not looked at. */
    const uint64_t size = ((uint64_t)5 << 29) + 1;
    const tensor_spec large[] = { { "large", COFFER_U8, 1, { size } } };
    coffer_header *header = header_of(large, 1, NULL);
    const void *bytes = NULL;
    uint64_t header_size = 0;
    assert_int_equal(coffer_header_build(header, NULL, &bytes, &header_size, NULL, NULL), COFFER_OK);
    file_write("sparse", bytes, (size_t)header_size);
    assert_int_equal(truncate(work_path("sparse"), (off_t)(header_size + size)), 0);
    coffer *model = NULL;
    assert_int_equal(coffer_open(&model, work_path("sparse"), NULL, NULL), COFFER_OK);
    measured m = { .bytes = 0 };
    const coffer_sink sink = { measured_write, NULL, NULL, &m };
    coffer_writer *writer = NULL;
    assert_int_equal(coffer_writer_open_sink(&writer, header, &sink, NULL, NULL), COFFER_OK);
    const void *data = coffer_data(model, coffer_at(model, 0), NULL);
    assert_int_equal(coffer_writer_write(writer, 0, 0, data, size, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_finish(writer, NULL), COFFER_OK);
    assert_int_equal(m.bytes, header_size + size);
    assert_int_equal(m.largest, 1 << 30);
    coffer_writer_free(writer);
    coffer_close(model);
    coffer_header_free(header);
}

#if SIZE_MAX == UINT32_MAX
static void more_bytes_than_memory_holds(void **state)
{
    (void)state;
    const uint64_t size = ((uint64_t)1 << 32) + 1;
    const tensor_spec large[] = { { "large", COFFER_U8, 1, { size } } };
    coffer_header *header = header_of(large, 1, NULL);
    measured m = { .bytes = 0 };
    const coffer_sink sink = { measured_write, NULL, NULL, &m };
    coffer_writer *writer = NULL;
    assert_int_equal(coffer_writer_open_sink(&writer, header, &sink, NULL, NULL), COFFER_OK);
    const uint64_t written = m.bytes;
    coffer_error err;
    assert_int_equal(coffer_writer_write(writer, 0, 0, "", size, &err), COFFER_ERR_UNSUPPORTED);
    assert_int_equal(err.code, COFFER_ERR_UNSUPPORTED);
    assert_int_equal(m.bytes, written);
    coffer_writer_free(writer);
    coffer_header_free(header);
}
#endif

/* ---- replacing one file only ----------------------------------------------------------------------------------------- */

/* Opens the wanted file as "model", and a writer that may replace nothing else. */
static coffer_writer *replacing_writer(coffer_header *header, coffer **model)
{
    coffer_writer *writer = NULL;
    coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    file_write("model", wanted.bytes, wanted.size);
    assert_int_equal(coffer_open(model, work_path("model"), NULL, NULL), COFFER_OK);
    options.replaces = *model;
    assert_int_equal(coffer_writer_open(&writer, header, work_path("model"), &options, NULL), COFFER_OK);
    return writer;
}

static void put_another_file(void)
{
    file_write("newer", "theirs", 6);
    assert_int_equal(rename(work_path("newer"), work_path("model")), 0);
}

static void write_to_the_file(void)
{
    const int fd = open(work_path("model"), O_WRONLY | O_APPEND);
    assert_int_equal(write(fd, "!", 1), 1);
    assert_int_equal(close(fd), 0);
}

static void remove_the_file(void)
{
    assert_int_equal(unlink(work_path("model")), 0);
}

static void a_file_that_changed_is_not_replaced(void **state)
{
    (void)state;
    void (*const changes[])(void) = { put_another_file, write_to_the_file, remove_the_file };
    for (size_t i = 0; i < 3; i++) {
        coffer_error err;
        coffer *model = NULL;
        coffer_header *header = header_of(specs, SPEC_COUNT, NULL);
        coffer_writer *writer = replacing_writer(header, &model);
        write_all(writer, header);
        changes[i]();
        assert_int_equal(coffer_writer_finish(writer, &err), COFFER_ERR_CHANGED);
        assert_string_equal(err.path, work_path("model"));
        coffer_writer_free(writer);
        coffer_header_free(header);
        coffer_close(model);
        assert_int_equal(work_dir_count(), i == 2 ? 0 : 1);
    }
    coffer *model = NULL;
    coffer_header *header = header_of(specs, SPEC_COUNT, NULL);
    coffer_writer *writer = replacing_writer(header, &model);
    write_all(writer, header);
    coffer_close(model); /* it was borrowed by opening alone */
    assert_int_equal(coffer_writer_finish(writer, NULL), COFFER_OK);
    coffer_writer_free(writer);
    coffer_header_free(header);
    assert_file_is_wanted("model");
    assert_int_equal(work_dir_count(), 1);
}

static void only_one_file_can_be_replaced(void **state)
{
    (void)state;
    coffer_error err;
    coffer *model = NULL;
    coffer_writer *writer = NULL;
    coffer_header *header = header_of(specs, SPEC_COUNT, NULL);
    coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    assert_int_equal(coffer_open_memory(&model, wanted.bytes, wanted.size, NULL, NULL), COFFER_OK);
    options.replaces = model;
    assert_int_equal(coffer_writer_open(&writer, header, work_path("model"), &options, &err), COFFER_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "replaces"));
    coffer_close(model);
    file_write("model", wanted.bytes, wanted.size);
    assert_int_equal(coffer_open(&model, work_path("model"), NULL, NULL), COFFER_OK);
    options.replaces = model;
    options.in_place = true;
    assert_int_equal(coffer_writer_open(&writer, header, work_path("model"), &options, &err), COFFER_ERR_ARGUMENT);
    options.in_place = false;
    const int fd = open(work_path("other"), O_RDWR | O_CREAT, 0600);
    assert_int_equal(coffer_writer_open_fd(&writer, header, fd, &options, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(close(fd), 0);
    coffer_model_writer *sharded = NULL;
    coffer_model_writer_options with_files = COFFER_MODEL_WRITER_OPTIONS_INIT;
    with_files.files = &options;
    assert_int_equal(coffer_model_writer_open(&sharded, header, work_path("a.safetensors"), &with_files, &err),
                     COFFER_ERR_ARGUMENT);
    coffer_close(model);
    coffer_header_free(header);
    assert_file_is_wanted("model");
}

static void memory_of_another_size(void **state)
{
    (void)state;
    coffer_header *header = header_of(specs, SPEC_COUNT, NULL);
    uint8_t *memory = calloc(1, wanted.size + 1);
    assert_non_null(memory);
    for (size_t size = wanted.size - 1; size <= wanted.size + 1; size += 2) {
        coffer_error err;
        coffer_writer *writer = NULL;
        assert_int_equal(coffer_writer_open_memory(&writer, header, memory, size, NULL, &err), COFFER_ERR_BUFFER_SIZE);
        assert_int_equal(err.expected, wanted.size);
        assert_int_equal(err.actual, size);
        assert_int_equal(memory[0], 0);
    }
    free(memory);
    coffer_header_free(header);
}

static void a_header_that_cannot_be_built_touches_nothing(void **state)
{
    (void)state;
    static const tensor_spec twice[] = { { "a", COFFER_U8, 0, { 0 } }, { "a", COFFER_U8, 0, { 0 } } };
    coffer_header *header = header_of(twice, 2, NULL);
    coffer_error err;
    coffer_writer *writer = NULL;
    file_write("precious", "old", 3);
    assert_int_equal(coffer_writer_open(&writer, header, work_path("precious"), NULL, &err), COFFER_ERR_DUPLICATE_NAME);
    assert_string_equal(err.path, work_path("precious"));
    assert_null(writer);
    size_t size = 0;
    uint8_t *old = file_read("precious", &size);
    assert_int_equal(size, 3);
    assert_memory_equal(old, "old", 3);
    free(old);
    assert_int_equal(unlink(work_path("precious")), 0);
    assert_int_equal(work_dir_count(), 0);
    coffer_header_free(header);
}

/* ---- failing ----------------------------------------------------------------------------------------------------- */

static void a_failed_write_is_the_end(void **state)
{
    (void)state;
    coffer_header *header = header_of(specs, SPEC_COUNT, NULL);
    for (size_t fail_at = 1; fail_at <= 2; fail_at++) {
        kept k;
        const coffer_sink sink = sink_of(&k);
        k.fail_at = fail_at;
        coffer_error err;
        coffer_writer *writer = NULL;
        coffer_status status = coffer_writer_open_sink(&writer, header, &sink, NULL, &err);
        if (fail_at == 2) {
            assert_int_equal(status, COFFER_OK);
            status = write_part(writer, header, 0, 0, 200, &err);
            assert_string_equal(err.tensor, "bias");
            assert_int_equal(write_part(writer, header, 4, 0, 1, NULL), COFFER_ERR_ARGUMENT);
            assert_int_equal(coffer_writer_finish(writer, NULL), COFFER_ERR_ARGUMENT);
            coffer_writer_free(writer);
        } else {
            assert_null(writer);
        }
        assert_int_equal(status, COFFER_ERR_LOCKED);
        assert_int_equal(err.code, COFFER_ERR_LOCKED);
        assert_int_equal(k.writes, fail_at);
        assert_int_equal(k.discards, 1);
        assert_int_equal(k.finishes, 0);
        kept_free(&k);
    }
    coffer_header_free(header);
}

static void a_failed_finish_is_reported(void **state)
{
    (void)state;
    coffer_error err;
    coffer_header *header = header_of(specs, SPEC_COUNT, NULL);
    coffer_writer *writer = NULL;
    kept k;
    const coffer_sink sink = sink_of(&k);
    k.finish_answer = COFFER_ERR_UNSUPPORTED;
    assert_int_equal(coffer_writer_open_sink(&writer, header, &sink, NULL, &err), COFFER_OK);
    write_all(writer, header);
    assert_int_equal(coffer_writer_finish(writer, &err), COFFER_ERR_UNSUPPORTED);
    assert_int_equal(err.code, COFFER_ERR_UNSUPPORTED);
    coffer_writer_free(writer);
    assert_int_equal(k.finishes, 1);
    kept_free(&k);
    coffer_header_free(header);
}

static void an_unfinished_writer_leaves_nothing(void **state)
{
    (void)state;
    coffer_error err;
    coffer_header *header = header_of(specs, SPEC_COUNT, NULL);
    coffer_writer *writer = NULL;
    file_write("kept", "old", 3);
    assert_int_equal(coffer_writer_open(&writer, header, work_path("kept"), NULL, &err), COFFER_OK);
    write_all(writer, header);
    coffer_writer_free(writer);
    size_t size = 0;
    uint8_t *old = file_read("kept", &size);
    assert_int_equal(size, 3);
    free(old);
    assert_int_equal(unlink(work_path("kept")), 0);
    assert_int_equal(work_dir_count(), 0);
    assert_int_equal(coffer_writer_open(&writer, header, work_path("no/such/directory"), NULL, &err),
                     COFFER_ERR_NOT_FOUND);
    assert_string_equal(err.path, work_path("no/such/directory"));
    assert_null(writer);
    coffer_header_free(header);
}

/* One whole run of a writer with an allocator; the header is built before, so that only the writer's requests fail. */
static coffer_status write_with_allocator(memory_meter *meter, size_t fail_at, bool by_path)
{
    const coffer_allocator allocator = metered_allocator(meter);
    coffer_header *header = header_of(specs, SPEC_COUNT, &allocator);
    assert_int_equal(coffer_header_build(header, NULL, NULL, NULL, NULL, NULL), COFFER_OK);
    uint8_t *memory = malloc(wanted.size);
    assert_non_null(memory);
    meter->requests = 0;
    meter->fail_at = fail_at;
    coffer_error err;
    coffer_writer *writer = NULL;
    coffer_status status = by_path ? coffer_writer_open(&writer, header, work_path("starved"), NULL, &err)
                                   : coffer_writer_open_memory(&writer, header, memory, wanted.size, NULL, &err);
    /* Every second byte first: each is a range of its own in the account. */
    for (uint64_t i = 0; i < 200 && status == COFFER_OK; i += 2) {
        status = write_part(writer, header, 0, i, 1, &err);
    }
    for (uint64_t i = 1; i < 200 && status == COFFER_OK; i += 2) {
        status = write_part(writer, header, 0, i, 1, &err);
    }
    for (size_t i = 1; i < SPEC_COUNT && status == COFFER_OK; i++) {
        status = write_part(writer, header, i, 0, coffer_header_at(header, i)->size, &err);
    }
    if (status == COFFER_OK) {
        status = coffer_writer_finish(writer, &err);
    }
    if (status != COFFER_OK) {
        assert_int_equal(err.code, status);
    }
    coffer_writer_free(writer);
    coffer_header_free(header);
    free(memory);
    assert_int_equal(meter->blocks, 0);
    assert_int_equal(meter->held, 0);
    return status;
}

static void memory_may_run_out_anywhere(void **state)
{
    (void)state;
    for (int by_path = 0; by_path <= 1; by_path++) {
        memory_meter meter;
        size_t k = 1;
        while (write_with_allocator(&meter, k, by_path != 0) == COFFER_ERR_MEMORY) {
            assert_int_equal(work_dir_count(), 0);
            k++;
        }
        assert_true(k > 100); /* one request for each range, at least */
        assert_int_equal(write_with_allocator(&meter, 0, by_path != 0), COFFER_OK);
        if (by_path) {
            assert_file_is_wanted("starved");
            assert_int_equal(unlink(work_path("starved")), 0);
        }
    }
}

/* ---- the account ------------------------------------------------------------------------------------------------- */

#define MAP_SIZE 2000

static void spans_agree_with_a_byte_map(void **state)
{
    (void)state;
    for (size_t round = 0; round < 60; round++) {
        memory_meter meter;
        const coffer_allocator allocator = metered_allocator(&meter);
        coffer__spans spans;
        uint8_t map[MAP_SIZE] = { 0 };
        size_t ranges = 0;
        coffer__spans_init(&spans, &allocator);
        for (size_t i = 0; i < 1500; i++) {
            const size_t begin = random_below(MAP_SIZE);
            const size_t most = MAP_SIZE - begin;
            const size_t size = 1 + random_below((uint32_t)(most < 8 ? most : 8));
            const bool taken = memchr(map + begin, 1, size) != NULL;
            assert_int_equal(coffer__spans_add(&spans, begin, begin + size),
                             taken ? COFFER_ERR_WRITE_RANGE : COFFER_OK);
            memset(map + begin, 1, taken ? 0 : size);
        }
        for (size_t i = 0; i < MAP_SIZE; i++) {
            ranges += map[i] != 0 && (i == 0 || map[i - 1] == 0);
        }
        assert_int_equal(meter.blocks, ranges);
        for (size_t i = 0; i < 50; i++) {
            const uint64_t begin = random_below(MAP_SIZE);
            const uint64_t end = begin + random_below((uint32_t)(MAP_SIZE - begin));
            uint64_t covered = 0;
            for (uint64_t b = begin; b < end; b++) {
                covered += map[b];
            }
            assert_int_equal(coffer__spans_covered(&spans, begin, end), covered);
        }
        const uint8_t *hole = memchr(map, 0, MAP_SIZE);
        assert_int_equal(coffer__spans_gap(&spans, 0), hole == NULL ? MAP_SIZE : hole - map);
        coffer__spans_free(&spans);
        assert_int_equal(meter.blocks, 0);
    }
}

static void spans_survive_a_failed_allocation(void **state)
{
    (void)state;
    memory_meter meter;
    const coffer_allocator allocator = metered_allocator(&meter);
    coffer__spans spans;
    coffer__spans_init(&spans, &allocator);
    assert_int_equal(coffer__spans_add(&spans, 10, 20), COFFER_OK);
    meter.fail_at = 2;
    assert_int_equal(coffer__spans_add(&spans, 30, 40), COFFER_ERR_MEMORY);
    assert_int_equal(coffer__spans_covered(&spans, 0, 100), 10);
    assert_int_equal(coffer__spans_add(&spans, 20, 35), COFFER_OK); /* needs none */
    assert_int_equal(coffer__spans_add(&spans, UINT64_MAX - 5, UINT64_MAX), COFFER_OK);
    assert_int_equal(coffer__spans_covered(&spans, 0, UINT64_MAX), 30);
    coffer__spans_free(&spans);
    assert_int_equal(meter.blocks, 0);
}

static void many_ranges_in_the_worst_orders(void **state)
{
    (void)state;
    /* A list that is searched from its start would take minutes here. */
    const uint64_t count = 300000;
    for (int order = 0; order < 3; order++) {
        coffer__spans spans;
        coffer__spans_init(&spans, coffer_libc_allocator());
        for (uint64_t i = 0; i < count; i++) {
            const uint64_t at = order == 0 ? i : order == 1 ? count - 1 - i : i * 7919 % count;
            assert_int_equal(coffer__spans_add(&spans, 2 * at, 2 * at + 1), COFFER_OK);
        }
        assert_int_equal(coffer__spans_covered(&spans, 0, 2 * count), count);
        for (uint64_t i = 0; i < count; i++) {
            const uint64_t at = i * 104729 % count;
            assert_int_equal(coffer__spans_add(&spans, 2 * at + 1, 2 * at + 2), COFFER_OK);
        }
        assert_int_equal(coffer__spans_gap(&spans, 0), 2 * count);
        coffer__spans_free(&spans);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_sink_gets_the_same_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_written_can_be_opened, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_pipe_takes_the_file_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_without_data_needs_no_writes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(random_pieces_from_several_threads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_missing_piece_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_first_tensor_in_the_file_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bytes_outside_or_written_twice, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_calls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_sink_that_could_not_be_opened_is_discarded_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_comes_after_finish, set_up, tear_down),
        cmocka_unit_test(finish_does_not_overtake_a_write),
        cmocka_unit_test_setup_teardown(large_pieces_are_written_by_the_gibibyte, set_up, tear_down),
#if SIZE_MAX == UINT32_MAX
        cmocka_unit_test_setup_teardown(more_bytes_than_memory_holds, set_up, tear_down),
#endif
        cmocka_unit_test_setup_teardown(a_file_that_changed_is_not_replaced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_one_file_can_be_replaced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_of_another_size, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_header_that_cannot_be_built_touches_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_failed_write_is_the_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_failed_finish_is_reported, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_unfinished_writer_leaves_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_may_run_out_anywhere, set_up, tear_down),
        cmocka_unit_test(spans_agree_with_a_byte_map),
        cmocka_unit_test(spans_survive_a_failed_allocation),
        cmocka_unit_test(many_ranges_in_the_worst_orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
