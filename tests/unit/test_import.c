/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans that are carried out, whatever reader they might be of: made here and loaded from bytes, over inputs that are
 * functions or files. What is written is compared with what a loop over the elements says. Then inputs that fail, lie
 * and change, and bytes of plans that somebody has damaged.
 */
#define _GNU_SOURCE /* pwrite */

#include "support_cmocka.h"

#include "coffer.h"
#include "crc32.h"
#include "decode.h"
#include "plan.h"
#include "plan_bytes.h"
#include "reader.h"
#include "support_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define MOST_ROWS 12

static uint64_t seed = 3;

static uint32_t below(uint32_t limit)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % limit;
}

/* ---- a file and its plan ------------------------------------------------------------------------------------------- */

/* The bytes of the file, the plan of it, and the storages as they are when decoded. */
typedef struct made {
    uint8_t *file;
    size_t size;
    size_t room;
    coffer__plan plan;
    uint8_t *plain[MOST_ROWS];
    size_t plain_size[MOST_ROWS];
    uint32_t storages;
    uint32_t fails; /* reads from this one on fail; 0: none */
    uint32_t reads;
    int cancel_after;   /* calls of the progress callback */
    uint64_t cancel_at; /* bytes that it was told of; 0: never */
    uint64_t lies_from; /* bytes that were told of from which on reads give other bytes; 0: never */
    bool lies;
    uint64_t told;
} made;

static coffer__crc32 crc32;
static coffer__crcs crcs;

static void made_new(made *m)
{
    memset(m, 0, sizeof *m);
    m->room = 64;
    m->file = malloc(m->room);
    assert_non_null(m->file);
    assert_int_equal(coffer__plan_begin(&m->plan, coffer_libc_allocator(), COFFER__PLAN_BUDGET, NULL), COFFER_OK);
}

static void made_free(made *m)
{
    for (uint32_t i = 0; i < m->storages; i++) {
        free(m->plain[i]);
    }
    coffer__plan_free(&m->plan);
    free(m->file);
}

static void made_put(made *m, const void *bytes, size_t size)
{
    while (size > m->room - m->size) {
        m->room *= 2;
        m->file = realloc(m->file, m->room);
        assert_non_null(m->file);
    }
    memcpy(m->file + m->size, bytes, size);
    m->size += size;
}

static uint32_t made_text(made *m, const char *text)
{
    uint32_t number = 0;
    assert_int_equal(coffer__plan_put_text(&m->plan, text, strlen(text), &number, NULL), COFFER_OK);
    return number;
}

/* Deflated, as blocks that are stored: two bytes of length each, and their complement. */
static void put_deflated(made *m, const uint8_t *bytes, size_t size)
{
    size_t done = 0;
    do {
        const size_t block = size - done < 65535 ? size - done : 65535;
        const uint8_t head[5] = { done + block == size, (uint8_t)block, (uint8_t)(block >> 8), (uint8_t)~block,
                                  (uint8_t)(~block >> 8) };
        made_put(m, head, 5);
        made_put(m, bytes + done, block);
        done += block;
    } while (done < size);
}

static void put_latin1(made *m, const uint8_t *bytes, size_t size)
{
    uint8_t *text = malloc(2 * size + 1);
    size_t length = 0;
    assert_non_null(text);
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] < 0x80) {
            text[length++] = bytes[i];
        } else {
            text[length++] = (uint8_t)(0xC0 | bytes[i] >> 6);
            text[length++] = (uint8_t)(0x80 | (bytes[i] & 0x3F));
        }
    }
    made_put(m, text, length);
    free(text);
}

/* A piece of the current storage; the next made_storage takes all that were put since the last. */
static void made_piece(made *m, coffer__coding coding, const uint8_t *bytes, size_t size)
{
    uint8_t gap[7];
    memset(gap, 0xEE, sizeof gap);
    made_put(m, gap, below(sizeof gap));
    coffer__plan_piece piece = { .coding = coding, .offset = m->size, .size = size, .has_crc = true };
    piece.crc = coffer__crc32_update(&crc32, 0, bytes, size);
    if (coding == COFFER__CODING_STORED) {
        made_put(m, bytes, size);
    } else if (coding == COFFER__CODING_DEFLATED) {
        put_deflated(m, bytes, size);
    } else {
        put_latin1(m, bytes, size);
    }
    piece.stored_size = m->size - piece.offset;
    assert_int_equal(coffer__plan_put_piece(&m->plan, &piece, NULL), COFFER_OK);
}

/* A storage of random bytes in `pieces` pieces. */
static uint32_t made_storage(made *m, coffer__coding coding, size_t size, uint32_t pieces)
{
    uint8_t *plain = malloc(size + 1);
    uint32_t number = 0;
    assert_non_null(plain);
    for (size_t i = 0; i < size; i++) {
        plain[i] = (uint8_t)below(256);
    }
    for (uint32_t k = 0; k < pieces; k++) {
        const size_t from = size / pieces * k;
        const size_t to = k + 1 == pieces ? size : size / pieces * (k + 1);
        made_piece(m, coding, plain + from, to - from);
    }
    assert_int_equal(coffer__plan_put_storage(&m->plan, pieces, made_text(m, "data/0"), &number, NULL), COFFER_OK);
    m->plain[number] = plain;
    m->plain_size[number] = size;
    m->storages++;
    return number;
}

static void made_row(made *m, const char *name, coffer_dtype dtype, uint32_t storage, uint64_t offset, uint32_t rank,
                     const coffer__plan_dimension *dimensions, uint8_t swap, coffer__sign sign)
{
    const coffer__plan_row row = { .name = made_text(m, name),
                                   .dtype = dtype,
                                   .rank = rank,
                                   .storage = storage,
                                   .offset = offset,
                                   .item_size = coffer_dtype_bits(dtype) / 8,
                                   .swap = swap,
                                   .sign = sign };
    assert_int_equal(coffer__plan_put_row(&m->plan, &row, dimensions, NULL), COFFER_OK);
}

/* ---- what should be written ---------------------------------------------------------------------------------------- */

/* One element as it should be. Only F32, C64, I16 and U8 are used here. */
static void element(const coffer__plan_row *row, uint8_t *bytes)
{
    const size_t size = (size_t)row->item_size;
    for (size_t at = 0; row->swap > 0 && at < size; at += row->swap) {
        for (size_t i = 0; i < row->swap / 2u; i++) {
            const uint8_t byte = bytes[at + i];
            bytes[at + i] = bytes[at + row->swap - 1u - i];
            bytes[at + row->swap - 1u - i] = byte;
        }
    }
    if (row->sign == COFFER__SIGN_KEPT) {
        return;
    }
    if (row->dtype == COFFER_I16) {
        const uint16_t value = (uint16_t)(0 - (unsigned)(bytes[0] | bytes[1] << 8));
        bytes[0] = (uint8_t)value;
        bytes[1] = (uint8_t)(value >> 8);
        return;
    }
    for (size_t i = row->sign == COFFER__SIGN_CONJUGATED ? 7 : 3; i < size; i += 4) {
        bytes[i] ^= 0x80;
    }
}

static void check_tensor(const made *m, const coffer__plan_row *row, const uint8_t *got)
{
    const coffer__plan_dimension *dimensions = coffer__plan_dimensions(&m->plan, row);
    const uint64_t count = coffer__plan_row_size(&m->plan, row) / row->item_size;
    for (uint64_t k = 0; k < count; k++) {
        uint64_t rest = k;
        uint64_t at = row->offset;
        uint8_t bytes[8];
        for (uint32_t i = row->rank; i > 0; i--) {
            at += rest % dimensions[i - 1].count * (uint64_t)dimensions[i - 1].stride;
            rest /= dimensions[i - 1].count;
        }
        memcpy(bytes, m->plain[row->storage] + at, (size_t)row->item_size);
        element(row, bytes);
        if (memcmp(bytes, got + k * row->item_size, (size_t)row->item_size) != 0) {
            fail_msg("element %llu of %s differs", (unsigned long long)k, coffer__plan_text(&m->plan, row->name, NULL));
        }
    }
}

static void check_model(const made *m, const char *path)
{
    coffer *model = NULL;
    size_t written = 0;
    assert_int_equal(coffer_open(&model, path, NULL, NULL), COFFER_OK);
    for (size_t i = 0; i < m->plan.rows.count; i++) {
        const coffer__plan_row *row = coffer__plan_rows(&m->plan) + i;
        const char *name = coffer__plan_text(&m->plan, row->name, NULL);
        const coffer_tensor *tensor = coffer_find(model, name, strlen(name));
        if (row->fate != COFFER_FATE_WRITTEN) {
            assert_null(tensor);
            continue;
        }
        written++;
        assert_non_null(tensor);
        assert_int_equal(tensor->dtype, row->dtype);
        assert_int_equal(tensor->size, coffer__plan_row_size(&m->plan, row));
        uint8_t *bytes = malloc((size_t)tensor->size + 1);
        assert_non_null(bytes);
        assert_int_equal(coffer_read(model, tensor, bytes, tensor->size, NULL, NULL), COFFER_OK);
        check_tensor(m, row, bytes);
        free(bytes);
    }
    assert_int_equal(coffer_count(model), written);
    coffer_close(model);
}

/* ---- inputs -------------------------------------------------------------------------------------------------------- */

static coffer_status made_read(void *ctx, uint32_t file, uint64_t offset, void *buffer, size_t size, coffer_error *err)
{
    made *m = ctx;
    (void)err;
    assert_int_equal(file, 0);
    assert_true(offset <= m->size && size <= m->size - offset);
    if (m->fails > 0 && __atomic_add_fetch(&m->reads, 1, __ATOMIC_RELAXED) >= m->fails) {
        return COFFER_ERR_IO;
    }
    memcpy(buffer, m->file + offset, size);
    ((uint8_t *)buffer)[size - 1] ^= m->lies ? 1 : 0;
    return COFFER_OK;
}

static coffer_input *input_of(made *m)
{
    const coffer_input_functions functions = { .read = made_read, .ctx = m, .size = m->size };
    coffer_input *input = NULL;
    assert_int_equal(coffer_input_open_functions(&input, &functions, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_input_size(input, 0), m->size);
    assert_int_equal(coffer_input_size(input, 1), 0);
    return input;
}

static coffer_input *input_file(const made *m)
{
    coffer_input *input = NULL;
    file_write("input.bin", m->file, m->size);
    assert_int_equal(coffer_input_open(&input, work_path("input.bin"), NULL, NULL), COFFER_OK);
    return input;
}

static coffer_import *import_of(const made *m, coffer_input *input)
{
    coffer_import *import = NULL;
    coffer_error err;
    uint8_t *bytes = NULL;
    size_t size = 0;
    assert_int_equal(coffer__plan_save(&m->plan, coffer__reader_at(0)->id, &bytes, &size, NULL), COFFER_OK);
    const coffer_status status = coffer_import_load(&import, input, bytes, size, NULL, &err);
    if (status != COFFER_OK) {
        fail_msg("%s", err.message);
    }
    free(bytes);
    return import;
}

/* ---- plans that are carried out ------------------------------------------------------------------------------------ */

/* Random views of random storages of all kinds. */
static void made_random(made *m)
{
    static const coffer_dtype dtypes[] = { COFFER_F32, COFFER_C64, COFFER_I16, COFFER_U8 };
    made_new(m);
    const uint32_t count = 1 + below(MOST_ROWS - 1);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t storage = i > 0 && below(3) == 0 ? below(m->storages)
                                                        : made_storage(m, (coffer__coding)below(3),
                                                                       512 + below(300000) / 8 * 8, 1 + below(3));
        const coffer_dtype dtype = dtypes[below(4)];
        const uint64_t item = coffer_dtype_bits(dtype) / 8;
        const uint64_t items = m->plain_size[storage] / item;
        char name[16];
        (void)snprintf(name, sizeof name, "w%u", i);
        const bool number = dtype != COFFER_U8;
        const uint8_t swap = (uint8_t)(number && below(2) == 0 ? (dtype == COFFER_I16 ? 2 : 4) : 0);
        const coffer__sign sign = number && below(3) == 0 ? COFFER__SIGN_NEGATED
                                  : dtype == COFFER_C64   ? (coffer__sign)(2 * below(2))
                                                          : COFFER__SIGN_KEPT;
        const uint64_t rows = 1 + below(40);
        const uint64_t columns = items / rows;
        const coffer__plan_dimension whole[] = { { items, items, (int64_t)item } };
        const coffer__plan_dimension turned[] = { { rows, rows, (int64_t)item },
                                                  { columns, columns, (int64_t)(item * rows) } };
        const coffer__plan_dimension cut[] = { { rows, rows, (int64_t)(item * columns) },
                                               { columns / 2 + 1, columns / 2 + 1, (int64_t)item } };
        const coffer__plan_dimension again[] = { { 7, 7, 0 }, { columns, columns, (int64_t)item } };
        const coffer__plan_dimension *shapes[] = { whole, turned, cut, again };
        const uint32_t shape = below(4);
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
        coffer_input *input = below(2) == 0 ? input_of(&m) : input_file(&m);
        coffer_import *import = import_of(&m, input);
        coffer_import_write_options options = COFFER_IMPORT_WRITE_OPTIONS_INIT;
        options.max_shard_size = below(2) == 0 ? 0 : 200000;
        options.balanced = below(2) == 0;
        options.force = true;
        options.unchecked = below(3) == 0;
        coffer_writer_options files = COFFER_WRITER_OPTIONS_INIT;
        files.digests = below(3) == 0 ? COFFER_SHA256 : COFFER_NO_ALGORITHM;
        options.files = &files;
        const coffer_status status = coffer_import_write(import, work_path("m.safetensors"), &options, NULL, &err);
        if (status != COFFER_OK) {
            fail_msg("round %u: %s: %s", round, coffer_status_name(status), err.message);
        }
        const bool one = access(work_path("m.safetensors"), F_OK) == 0;
        check_model(&m, work_path(one ? "m.safetensors" : "m.safetensors.index.json"));
        coffer_import_free(import);
        coffer_input_free(input);
        made_free(&m);
        work_dir_remove();
        work_dir_make();
    }
}

/* Whether large members can be inflated here; without zlib they are refused. */
static bool has_zlib(void)
{
    coffer__os_library library = { .handle = NULL };
    const bool opened = coffer__os_library_open(&library, "libz.so.1");
    if (opened) {
        coffer__os_library_close(&library);
    }
    return opened;
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
    const coffer__plan_dimension whole[] = { { items, items, 4 } };
    const coffer__plan_dimension turned[] = { { 1024, 1024, 4 }, { items / 1024, items / 1024, 4096 } };
    const coffer__coding coding = has_zlib() ? COFFER__CODING_DEFLATED : COFFER__CODING_LATIN1;
    made_row(&m, "a", COFFER_F32, made_storage(&m, coding, size, 1), 0, 1, whole, 4, 0);
    made_row(&m, "b", COFFER_F32, made_storage(&m, COFFER__CODING_LATIN1, size, 2), 0, 2, turned, 0, 0);
    made_row(&m, "c", COFFER_F32, made_storage(&m, COFFER__CODING_STORED, size, 1), 0, 2, turned, 4, 1);
    made_row(&m, "d", COFFER_F32, 2, 0, 1, whole, 0, 0);
    coffer_input *input = input_file(&m);
    coffer_import *import = import_of(&m, input);
    const coffer_status status = coffer_import_write(import, work_path("large.safetensors"), NULL, NULL, &err);
    if (status != COFFER_OK) {
        fail_msg("%s: %s", coffer_status_name(status), err.message);
    }
    check_model(&m, work_path("large.safetensors"));
    coffer_import_free(import);
    coffer_input_free(input);
    made_free(&m);
}

/* ---- other writers ------------------------------------------------------------------------------------------------- */

/* The caller's own sink, which may be full. */
typedef struct own_sink {
    uint8_t *bytes;
    uint64_t room;
    bool finished;
} own_sink;

static coffer_status sink_write(void *ctx, uint64_t offset, const void *bytes, size_t size, coffer_error *err)
{
    own_sink *to = ctx;
    (void)err;
    if (offset > to->room || size > to->room - offset) {
        return COFFER_ERR_IO;
    }
    memcpy(to->bytes + offset, bytes, size);
    return COFFER_OK;
}

static coffer_status sink_finish(void *ctx, coffer_error *err)
{
    own_sink *to = ctx;
    (void)err;
    to->finished = true;
    return COFFER_OK;
}

/* Carries an import into a sink of the caller's, which has room for all of it or not. */
static coffer_status carry_to(coffer_import *import, own_sink *to, bool full)
{
    const coffer_sink sink = { sink_write, sink_finish, NULL, to };
    coffer_header *header = NULL;
    coffer_writer *writer = NULL;
    const coffer_table *table = NULL;
    assert_int_equal(coffer_header_new(&header, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_import_declare(import, header, NULL), COFFER_OK);
    assert_int_equal(coffer_header_build(header, NULL, NULL, NULL, &table, NULL), COFFER_OK);
    to->room = coffer_table_data_offset(table) + coffer_table_data_size(table) - full;
    to->bytes = malloc((size_t)to->room + 1);
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
        coffer_input *input = input_of(&m);
        coffer_import *import = import_of(&m, input);
        own_sink to = { .finished = false };
        assert_int_equal(carry_to(import, &to, false), COFFER_OK);
        assert_true(to.finished);
        file_write("sunk.safetensors", to.bytes, (size_t)to.room);
        check_model(&m, work_path("sunk.safetensors"));
        free(to.bytes);
        to = (own_sink){ .finished = false };
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
        coffer_input *input = input_of(&m);
        coffer_import *import = import_of(&m, input);
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
        check_model(&m, work_path("piped.safetensors"));
        coffer_import_free(import);
        coffer_input_free(input);
        made_free(&m);
    }
}

/* ---- what is shown ------------------------------------------------------------------------------------------------- */

/* A plan with a tensor "w", an alias of it, a skipped one and one storage that nobody views. */
static void made_small(made *m)
{
    const coffer__plan_dimension whole[] = { { 25, 25, 4 } };
    made_new(m);
    (void)made_storage(m, COFFER__CODING_STORED, 100, 1);
    (void)made_storage(m, COFFER__CODING_STORED, 50, 1);
    (void)made_storage(m, COFFER__CODING_STORED, 30, 1);
    made_row(m, "w", COFFER_F32, 0, 0, 1, whole, 0, 0);
    made_row(m, "tied", COFFER_F32, 0, 0, 1, whole, 0, 0);
    made_row(m, "format", COFFER_F32, 0, 0, 1, whole, 0, 0);
    const coffer__plan_dimension part[] = { { 5, 5, 4 } };
    made_row(m, "sparse", COFFER_F32, 1, 0, 1, part, 0, 0);
    coffer__plan_row *rows = m->plan.rows.items;
    rows[1].fate = COFFER_FATE_ALIAS;
    rows[2].fate = COFFER_FATE_ALIAS;
    rows[3].fate = COFFER_FATE_SKIPPED;
    const uint32_t reason = made_text(m, "it is sparse");
    rows[3].reason = reason;
    assert_int_equal(coffer__plan_put_pair(&m->plan, "format", 6, "pt", 2, NULL), COFFER_OK);
    assert_int_equal(coffer__plan_put_finding(&m->plan, COFFER_WEIGHT_DANGER, 0, 5, "data.pkl", "%q would be called",
                                              "os.system", 9, NULL),
                     COFFER_OK);
}

static void test_shown(void **state)
{
    (void)state;
    made m;
    made_small(&m);
    coffer_input *input = input_of(&m);
    coffer_import *import = import_of(&m, input);
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

/* ---- what goes wrong ----------------------------------------------------------------------------------------------- */

/* What coffer_import_write fails with, and what is there afterwards. */
static void expect(coffer_import *import, const coffer_import_write_options *options, coffer_status status,
                   const char *tensor, bool published)
{
    coffer_error err;
    (void)unlink(work_path("out.safetensors"));
    assert_int_equal(coffer_import_write(import, work_path("out.safetensors"), options, NULL, &err), status);
    assert_string_equal(err.tensor, tensor);
    assert_int_equal(access(work_path("out.safetensors"), F_OK) == 0, published);
}

/* A byte that contradicts its CRC, in a storage that is read once, one that is only gathered from, and one that is
   inflated. */
static void test_damage(void **state)
{
    (void)state;
    static const coffer__coding codings[] = { COFFER__CODING_STORED, COFFER__CODING_STORED, COFFER__CODING_DEFLATED };
    for (size_t k = 0; k < 3; k++) {
        made m;
        const coffer__plan_dimension whole[] = { { 1000, 1000, 4 } };
        const coffer__plan_dimension part[] = { { 10, 10, 8 } };
        coffer_import_write_options options = COFFER_IMPORT_WRITE_OPTIONS_INIT;
        made_new(&m);
        (void)made_storage(&m, codings[k], 4000, 1);
        made_row(&m, "w", COFFER_F32, 0, 0, 1, k == 1 ? part : whole, 0, 0);
        m.file[m.size - 1] ^= 1;
        coffer_input *input = input_of(&m);
        coffer_import *import = import_of(&m, input);
        expect(import, NULL, COFFER_ERR_CHECKSUM, "w", false);
        options.unchecked = true;
        coffer_error err;
        assert_int_equal(coffer_import_write(import, work_path("unchecked.safetensors"), &options, NULL, &err),
                         COFFER_OK);
        coffer_import_free(import);
        coffer_input_free(input);
        made_free(&m);
    }
}

/* Streams that end early or late, whichever library inflates them, and text that is none. */
static void test_streams(void **state)
{
    (void)state;
    for (unsigned k = 0; k < 6; k++) {
        made m;
        const size_t size = k < 3 ? 4000 : 9 * MIB;
        const uint64_t items = size / 4;
        const coffer__plan_dimension whole[] = { { items, items, 4 } };
        made_new(&m);
        (void)made_storage(&m, k == 2 || k == 5 ? COFFER__CODING_LATIN1 : COFFER__CODING_DEFLATED, size, 1);
        made_row(&m, "w", COFFER_F32, 0, 0, 1, whole, 0, 0);
        coffer__plan_piece *piece = m.plan.pieces.items;
        if (k % 3 == 0) {
            piece->stored_size--; /* cut */
        } else if (k % 3 == 1) {
            made_put(&m, "?", 1);
            piece->stored_size++; /* a byte too many */
        } else {
            m.file[piece->offset] = 0xC5; /* U+0140 or more */
        }
        coffer_input *input = input_of(&m);
        coffer_import *import = import_of(&m, input);
        const coffer_status of_stream = k < 3 || has_zlib() ? COFFER_ERR_ARCHIVE : COFFER_ERR_UNSUPPORTED;
        expect(import, NULL, k % 3 == 2 ? COFFER_ERR_PICKLE : of_stream, "w", false);
        coffer_import_free(import);
        coffer_input_free(input);
        made_free(&m);
    }
}

/* The same bytes by each of the ways to inflate, in pieces of odd sizes. */
static void test_inflaters(void **state)
{
    (void)state;
    static const size_t sizes[] = { 1, 65535, 65536, 200000 };
    made m;
    made_new(&m);
    for (size_t k = 0; k < 4; k++) {
        (void)made_storage(&m, COFFER__CODING_DEFLATED, sizes[k], 1);
    }
    coffer_input *input = input_of(&m);
    for (uint32_t k = 0; k < 8; k++) {
        coffer__inflaters inflaters = { .alone = k >= 4 };
        coffer__decode decode;
        uint8_t bytes[1000];
        coffer__decode_begin(&decode, input, &m.plan, k % 4, &inflaters, &crcs, coffer_libc_allocator());
        for (size_t at = 0; at < sizes[k % 4];) {
            const size_t left = sizes[k % 4] - at;
            const size_t take = left < 999 ? left : 1 + below(999);
            assert_int_equal(coffer__decode_next(&decode, bytes, take, NULL), COFFER_OK);
            assert_memory_equal(bytes, m.plain[k % 4] + at, take);
            at += take;
        }
        assert_int_equal(coffer__decode_next(&decode, bytes, 1, NULL), COFFER_ERR_PLAN);
        coffer__decode_end(&decode);
        coffer__inflaters_close(&inflaters);
    }
    coffer_input_free(input);
    made_free(&m);
}

/* Every read that can fail does, once. */
static void test_failing_reads(void **state)
{
    (void)state;
    for (uint32_t fails = 1; fails < 8; fails++) {
        made m;
        coffer_error err;
        made_small(&m);
        coffer_input *input = input_of(&m);
        coffer_import *import = import_of(&m, input);
        m.fails = fails;
        const coffer_status status = coffer_import_write(import, work_path("failing.safetensors"), NULL, NULL, &err);
        assert_true(status == COFFER_ERR_IO || (status == COFFER_OK && m.reads < fails));
        coffer_import_free(import);
        coffer_input_free(input);
        made_free(&m);
    }
}

static int made_tell(void *ctx, uint64_t done, uint64_t total)
{
    made *m = ctx;
    assert_true(done >= m->told && done <= total);
    m->told = done;
    m->lies = m->lies_from > 0 && done >= m->lies_from;
    if (m->cancel_at > 0 && done >= m->cancel_at) {
        return 1;
    }
    return m->cancel_after > 0 && --m->cancel_after == 0;
}

/* What is told ascends to the total, once; and cancelling publishes nothing. */
static void test_progress(void **state)
{
    (void)state;
    made m;
    coffer_error err;
    made_small(&m);
    coffer_input *input = input_of(&m);
    coffer_import *import = import_of(&m, input);
    coffer_read_options reading = COFFER_READ_OPTIONS_INIT;
    reading.progress = made_tell;
    reading.progress_ctx = &m;
    assert_int_equal(coffer_import_write(import, work_path("told.safetensors"), NULL, &reading, &err), COFFER_OK);
    assert_int_equal(m.told, 200);
    coffer_import_write_options options = COFFER_IMPORT_WRITE_OPTIONS_INIT;
    options.unverified = true;
    m.told = 0;
    m.cancel_after = 1;
    assert_int_equal(coffer_import_write(import, work_path("cancelled.safetensors"), &options, &reading, &err),
                     COFFER_ERR_CANCELLED);
    assert_int_not_equal(access(work_path("cancelled.safetensors"), F_OK), 0);
    coffer_import_free(import);
    coffer_input_free(input);
    made_free(&m);
}

/* An input that somebody writes to, and one that would be overwritten. */
static void test_changed(void **state)
{
    (void)state;
    made m;
    made_small(&m);
    coffer_input *input = input_file(&m);
    coffer_import *import = import_of(&m, input);
    coffer_error err;
    assert_int_equal(coffer_import_write(import, work_path("input.bin"), NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    const int fd = open(work_path("input.bin"), O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, m.file, m.size, 0), m.size);
    assert_int_equal(ftruncate(fd, (off_t)m.size + 1), 0);
    assert_int_equal(close(fd), 0);
    expect(import, NULL, COFFER_ERR_CHANGED, "", false);
    coffer_import_free(import);
    coffer_input_free(input);
    made_free(&m);
}

/* How many files there are whose names begin with "kept". */
static size_t kept_files(void)
{
    size_t count = 0;
    DIR *folder = opendir(work_path("."));
    assert_non_null(folder);
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        count += strncmp(entry->d_name, "kept", 4) == 0 || strstr(entry->d_name, "coffer-") != NULL;
    }
    assert_int_equal(closedir(folder), 0);
    return count;
}

/* Writes an import of which comparing fails, by other bytes of the input or by cancelling, and looks at what is there
   then: what was there before. */
static void check_kept(made *m, coffer_import *import, const coffer_import_write_options *options, size_t files)
{
    coffer_error err;
    coffer_read_options reading = COFFER_READ_OPTIONS_INIT;
    reading.progress = made_tell;
    reading.progress_ctx = m;
    for (unsigned k = 0; k < 3; k++) {
        m->told = 0;
        m->lies_from = k == 0 ? 100 : 0;
        m->cancel_at = k == 0 ? 0 : k == 1 ? 100 : 200;
        assert_int_equal(coffer_import_write(import, work_path("kept.safetensors"), options, &reading, &err),
                         k == 0 ? COFFER_ERR_NOT_EQUAL : COFFER_ERR_CANCELLED);
        if (k == 0) {
            assert_string_equal(err.tensor, "v");
            assert_string_equal(err.path, work_path("kept.safetensors"));
        }
        assert_int_equal(kept_files(), files);
        m->lies = false;
    }
}

/* What cannot be verified is not published, and an older model stays: of one file or of several. */
static void test_verified_first(void **state)
{
    (void)state;
    static const uint64_t limits[] = { 0, 1 << 20, 40 };
    for (size_t k = 0; k < 3; k++) {
        made m;
        const coffer__plan_dimension half[] = { { 10, 10, 4 } };
        const coffer__plan_dimension rest[] = { { 15, 15, 4 } };
        coffer_import_write_options options = COFFER_IMPORT_WRITE_OPTIONS_INIT;
        coffer_writer_options files = COFFER_WRITER_OPTIONS_INIT;
        made_new(&m);
        (void)made_storage(&m, COFFER__CODING_STORED, 100, 1);
        made_row(&m, "v", COFFER_F32, 0, 0, 1, half, 0, 0);
        made_row(&m, "w", COFFER_F32, 0, 40, 1, rest, 0, 0);
        coffer_input *input = input_of(&m);
        coffer_import *import = import_of(&m, input);
        options.unchecked = true; /* no pass for CRCs between writing and comparing */
        options.max_shard_size = limits[k];
        options.files = &files;
        const size_t files_of_model = k == 2 ? 3 : 1;
        check_kept(&m, import, &options, 0);
        assert_int_equal(coffer_import_write(import, work_path("kept.safetensors"), &options, NULL, NULL), COFFER_OK);
        assert_int_equal(kept_files(), files_of_model);
        /* The second time with digests, which are in the header before it is looked at. */
        files.digests = COFFER_SHA256;
        check_kept(&m, import, &options, files_of_model);
        check_model(&m, k == 2 ? work_path("kept.safetensors.index.json") : work_path("kept.safetensors"));
        coffer_import_free(import);
        coffer_input_free(input);
        made_free(&m);
        work_dir_remove();
        work_dir_make();
    }
}

/* A file that is written in place is compared when it is there. */
static void test_verified_in_place(void **state)
{
    (void)state;
    made m;
    coffer_error err;
    coffer_import_write_options options = COFFER_IMPORT_WRITE_OPTIONS_INIT;
    coffer_writer_options files = COFFER_WRITER_OPTIONS_INIT;
    coffer_read_options reading = COFFER_READ_OPTIONS_INIT;
    made_small(&m);
    coffer_input *input = input_of(&m);
    coffer_import *import = import_of(&m, input);
    files.in_place = true;
    options.files = &files;
    reading.progress = made_tell;
    reading.progress_ctx = &m;
    assert_int_equal(coffer_import_write(import, work_path("kept.safetensors"), &options, &reading, &err), COFFER_OK);
    check_model(&m, work_path("kept.safetensors"));
    m.told = 0;
    m.lies_from = 100;
    assert_int_equal(coffer_import_write(import, work_path("kept.safetensors"), &options, &reading, &err),
                     COFFER_ERR_NOT_EQUAL);
    assert_string_equal(err.path, work_path("kept.safetensors"));
    coffer_import_free(import);
    coffer_input_free(input);
    made_free(&m);
}

/* A plan of a tensor of each name, with an alias of the first; of a storage that is plain and one that is decoded. */
static void made_named(made *m, const char *first, const char *second, const char *value)
{
    const coffer__plan_dimension whole[] = { { 25, 25, 4 } };
    const coffer__plan_dimension turned[] = { { 5, 5, 4 }, { 4, 4, 20 } };
    made_new(m);
    (void)made_storage(m, COFFER__CODING_STORED, 100, 1);
    (void)made_storage(m, COFFER__CODING_DEFLATED, 100, 2);
    made_row(m, first, COFFER_F32, 0, 0, 1, whole, 0, 0);
    made_row(m, second, COFFER_F32, 1, 0, 2, turned, 4, 0);
    made_row(m, "both", COFFER_F32, 0, 0, 1, whole, 0, 0);
    coffer__plan_row *rows = m->plan.rows.items;
    rows[2].fate = COFFER_FATE_SKIPPED;
    rows[2].reason = made_text(m, "it is in both");
    assert_int_equal(coffer__plan_put_pair(&m->plan, "format", 6, "pt", 2, NULL), COFFER_OK);
    assert_int_equal(coffer__plan_put_pair(&m->plan, first, 1, value, 1, NULL), COFFER_OK);
    assert_int_equal(
        coffer__plan_put_finding(&m->plan, COFFER_WEIGHT_NOTE, 0, 7, "data.pkl", "%q is odd", first, 1, NULL),
        COFFER_OK);
}

static void check_written(const made *m, const char *path)
{
    coffer *model = NULL;
    assert_int_equal(coffer_open(&model, path, NULL, NULL), COFFER_OK);
    for (size_t i = 0; i < 2; i++) {
        const coffer__plan_row *row = coffer__plan_rows(&m->plan) + i;
        const char *name = coffer__plan_text(&m->plan, row->name, NULL);
        const coffer_tensor *tensor = coffer_find(model, name, strlen(name));
        uint8_t bytes[100];
        assert_non_null(tensor);
        assert_int_equal(coffer_read(model, tensor, bytes, tensor->size, NULL, NULL), COFFER_OK);
        check_tensor(m, row, bytes);
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
        inputs[i] = input_of(&m[i]);
        imports[i] = import_of(&m[i], inputs[i]);
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
    coffer_import *again = import_of(&m[0], inputs[0]);
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
    m[1].file[coffer__plan_pieces(&m[1].plan)[0].offset] ^= 1;
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

/* A byte of the output that is not what it should be is found. */
static void test_verify(void **state)
{
    (void)state;
    made m;
    coffer_error err;
    coffer *written = NULL;
    made_small(&m);
    coffer_input *input = input_of(&m);
    coffer_import *import = import_of(&m, input);
    const char *path = work_path("verified.safetensors");
    assert_int_equal(coffer_import_write(import, path, NULL, NULL, &err), COFFER_OK);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    const off_t last = lseek(fd, 0, SEEK_END) - 1;
    uint8_t byte = 0;
    assert_int_equal(pread(fd, &byte, 1, last), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, last), 1);
    assert_int_equal(close(fd), 0);
    assert_int_equal(coffer_open(&written, path, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_import_verify(import, written, NULL, &err), COFFER_ERR_NOT_EQUAL);
    assert_string_equal(err.tensor, "w");
    coffer_close(written);
    coffer_import_free(import);
    coffer_input_free(input);
    made_free(&m);
}

/* Any one byte that differs is found, in a tensor that is plain and in a view of what is decoded; and so is an output
   of other tensors. */
static void test_verify_finds(void **state)
{
    (void)state;
    made m;
    made few;
    coffer_error err;
    coffer *model = NULL;
    made_named(&m, "a", "b", "x");
    made_small(&few);
    coffer_input *inputs[] = { input_of(&m), input_of(&few) };
    coffer_import *imports[] = { import_of(&m, inputs[0]), import_of(&few, inputs[1]) };
    const char *path = work_path("verified.safetensors");
    assert_int_equal(coffer_import_write(imports[0], path, NULL, NULL, &err), COFFER_OK);
    assert_int_equal(coffer_open(&model, path, NULL, NULL), COFFER_OK);
    const coffer_table *table = coffer_shard_table(model, 0);
    const uint64_t begin = coffer_table_data_offset(table);
    const uint64_t end = begin + coffer_table_data_size(table);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    for (uint64_t at = begin; at < end; at++) {
        uint8_t byte = 0;
        assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
        byte ^= 1;
        assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
        assert_int_equal(coffer_import_verify(imports[0], model, NULL, &err), COFFER_ERR_NOT_EQUAL);
        assert_non_null(strstr(err.message, "other bytes are there than in the input"));
        const coffer_tensor *tensor = coffer_find(model, err.tensor, strlen(err.tensor));
        assert_true(tensor != NULL && at >= tensor->offset && at < tensor->offset + tensor->size);
        byte ^= 1;
        assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    }
    assert_int_equal(close(fd), 0);
    assert_int_equal(coffer_import_verify(imports[0], model, NULL, &err), COFFER_OK);
    assert_int_equal(coffer_import_verify(imports[1], model, NULL, &err), COFFER_ERR_NOT_EQUAL);
    assert_non_null(strstr(err.message, "the output has 2 tensors instead of 1"));
    coffer_close(model);
    assert_int_equal(coffer_import_write(imports[1], path, NULL, NULL, &err), COFFER_OK);
    made other;
    const coffer__plan_dimension whole[] = { { 24, 24, 4 } };
    made_new(&other);
    (void)made_storage(&other, COFFER__CODING_STORED, 100, 1);
    made_row(&other, "w", COFFER_F32, 0, 0, 1, whole, 0, 0);
    coffer_input *input = input_of(&other);
    coffer_import *import = import_of(&other, input);
    assert_int_equal(coffer_open(&model, path, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_import_verify(import, model, NULL, &err), COFFER_ERR_NOT_EQUAL);
    assert_non_null(strstr(err.message, "does not have it as it should be"));
    coffer_close(model);
    coffer_import_free(import);
    coffer_input_free(input);
    made_free(&other);
    for (size_t i = 0; i < 2; i++) {
        coffer_import_free(imports[i]);
        coffer_input_free(inputs[i]);
    }
    made_free(&m);
    made_free(&few);
}

static coffer_status made_beside(void *ctx, const char *name, size_t name_len, uint64_t *size, coffer_error *err)
{
    (void)name;
    (void)name_len;
    (void)err;
    *size = ((const made *)ctx)->size;
    return COFFER_OK;
}

/* A failure, and what it says. */
static void refused(coffer_status status, coffer_status wanted, const coffer_error *err, const char *text)
{
    assert_int_equal(status, wanted);
    assert_int_equal(err->code, wanted);
    if (strstr(err->message, text) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err->message, text);
    }
}

/* Loads the plan as it is now, which is refused. */
static void refused_plan(const made *m, coffer_input *input, const char *format, coffer_status wanted, const char *text)
{
    coffer_import *import = NULL;
    coffer_error err;
    uint8_t *bytes = NULL;
    size_t size = 0;
    assert_int_equal(coffer__plan_save(&m->plan, format, &bytes, &size, NULL), COFFER_OK);
    refused(coffer_import_load(&import, input, bytes, size, NULL, &err), wanted, &err, text);
    assert_null(import);
    free(bytes);
}

/* What is refused says why: of plans that are of something else, and of calls that make no sense. */
static void test_refused_plans(void **state)
{
    (void)state;
    made m;
    uint32_t number = 0;
    coffer_error err;
    coffer_import *import = NULL;
    coffer_input *input = NULL;
    made_small(&m);
    const char *torch = coffer__reader_at(0)->id;
    const coffer_input_functions functions = { .read = made_read, .beside = made_beside, .ctx = &m, .size = m.size };
    coffer_input *alone = input_of(&m);
    assert_int_equal(coffer_input_open_functions(&input, &functions, NULL, NULL), COFFER_OK);
    refused_plan(&m, alone, "nobody", COFFER_ERR_PLAN, "is by no reader of this version");
    assert_int_equal(coffer__plan_put_file(&m.plan, "x.bin", 5, &number, NULL), COFFER_OK);
    refused_plan(&m, alone, torch, COFFER_ERR_SHARD_MISSING, "there are no files beside this input, and \"x.bin\" is");
    assert_int_equal(coffer__plan_put_file(&m.plan, "x.bin", 5, &number, NULL), COFFER_OK);
    refused_plan(&m, input, torch, COFFER_ERR_PLAN, "is of other files than were opened");
    refused(coffer_import_load(&import, alone, NULL, 0, NULL, &err), COFFER_ERR_ARGUMENT, &err, "are NULL");
    refused(coffer_import_open(&import, NULL, NULL, &err), COFFER_ERR_ARGUMENT, &err, "an import needs an input");
    coffer_import_options options = COFFER_IMPORT_OPTIONS_INIT;
    options.scalars = (coffer_scalars)(COFFER_SCALARS_METADATA + 1);
    refused(coffer_import_open(&import, alone, &options, &err), COFFER_ERR_ARGUMENT, &err, "has no such value");
    refused(coffer_input_open(&input, NULL, NULL, &err), COFFER_ERR_ARGUMENT, &err, "opened from or into NULL");
    refused(coffer_input_read(alone, 7, 0, &number, 1, &err), COFFER_ERR_ARGUMENT, &err, "no such input or file");
    refused(coffer_input_read(alone, 0, m.size, &number, 1, &err), COFFER_ERR_ARGUMENT, &err,
            "do not lie within file 0");
    refused(coffer_input_beside(alone, NULL, 0, &number, NULL, &err), COFFER_ERR_ARGUMENT, &err, "is NULL");
    coffer_input_free(input);
    coffer_input_free(alone);
    made_free(&m);
}

static void test_refused_calls(void **state)
{
    (void)state;
    made m;
    coffer_error err;
    coffer_header *header = NULL;
    coffer_writer *writer = NULL;
    const void *bytes = NULL;
    size_t size = 0;
    own_sink to = { .room = 1000 };
    const coffer_sink sink = { sink_write, sink_finish, NULL, &to };
    const uint64_t shape[] = { 1 };
    made_small(&m);
    coffer_input *input = input_file(&m);
    coffer_import *import = import_of(&m, input);
    const coffer_status status = COFFER_ERR_ARGUMENT;
    to.bytes = malloc((size_t)to.room);
    assert_non_null(to.bytes);
    refused(coffer_import_write(import, work_path("input.bin"), NULL, NULL, &err), status, &err,
            "would replace a file");
    refused(coffer_import_write(import, NULL, NULL, NULL, &err), status, &err, "the path of the output is NULL");
    refused(coffer_import_save(import, &bytes, NULL, &err), status, &err, "got NULL");
    refused(coffer_import_save(NULL, &bytes, &size, &err), status, &err, "got NULL");
    refused(coffer_import_carry(import, NULL, false, NULL, &err), status, &err, "the writer is NULL");
    refused(coffer_import_carry_model(import, NULL, false, NULL, &err), status, &err, "the writer is NULL");
    refused(coffer_import_verify(import, NULL, NULL, &err), status, &err, "what was written is NULL");
    refused(coffer_import_add(import, NULL, &err), status, &err, "of another input");
    assert_int_equal(coffer_header_new(&header, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_import_declare(import, header, NULL), COFFER_OK);
    refused(coffer_import_declare(import, header, &err), status, &err, "in a header without tensors");
    assert_int_equal(coffer_header_add(header, "more", 4, COFFER_U8, shape, 1, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_open_sink(&writer, header, &sink, NULL, NULL), COFFER_OK);
    refused(coffer_import_carry(import, writer, false, NULL, &err), status, &err, "does not declare this import");
    coffer_writer_free(writer);
    coffer_header_free(header);
    free(to.bytes);
    coffer_import_free(import);
    coffer_input_free(input);
    made_free(&m);
}

/* The bytes of a plan, cut anywhere and with any byte changed: an error or an import, and nothing worse. */
static void test_hostile_bytes(void **state)
{
    (void)state;
    made m;
    uint8_t *bytes = NULL;
    size_t size = 0;
    coffer_import *import = NULL;
    made_small(&m);
    coffer_input *input = input_of(&m);
    assert_int_equal(coffer__plan_save(&m.plan, coffer__reader_at(0)->id, &bytes, &size, NULL), COFFER_OK);
    for (size_t cut = 0; cut < size; cut++) {
        assert_int_equal(coffer_import_load(&import, input, bytes, cut, NULL, NULL), COFFER_ERR_PLAN);
        assert_null(import);
    }
    for (size_t at = 0; at < size; at++) {
        static const uint8_t changes[] = { 0x01, 0x80, 0xFF };
        for (size_t k = 0; k < sizeof changes; k++) {
            bytes[at] ^= changes[k];
            coffer_error err;
            if (coffer_import_load(&import, input, bytes, size, NULL, &err) == COFFER_OK) {
                coffer_import_write_options options = COFFER_IMPORT_WRITE_OPTIONS_INIT;
                options.unverified = true;
                (void)coffer_import_write(import, work_path("hostile.safetensors"), &options, NULL, &err);
            }
            coffer_import_free(import);
            bytes[at] ^= changes[k];
        }
    }
    /* A file beside it that is not there. */
    uint32_t number = 0;
    assert_int_equal(coffer__plan_put_file(&m.plan, "x", 1, &number, NULL), COFFER_OK);
    free(bytes);
    assert_int_equal(coffer__plan_save(&m.plan, coffer__reader_at(0)->id, &bytes, &size, NULL), COFFER_OK);
    assert_int_equal(coffer_import_load(&import, input, bytes, size, NULL, NULL), COFFER_ERR_SHARD_MISSING);
    free(bytes);
    coffer_input_free(input);
    made_free(&m);
}

static int set_up(void **state)
{
    (void)state;
    coffer__crc32_open(&crc32, true);
    coffer__crc32_open(&crcs.crc32, true);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, work_dir_set_up, work_dir_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_random),         TEST(test_large),         TEST(test_sinks),
        TEST(test_pipe),           TEST(test_shown),         TEST(test_damage),
        TEST(test_streams),        TEST(test_inflaters),     TEST(test_failing_reads),
        TEST(test_progress),       TEST(test_changed),       TEST(test_verify),
        TEST(test_verified_first), TEST(test_added),         TEST(test_refused_plans),
        TEST(test_verify_finds),   TEST(test_refused_calls), TEST(test_verified_in_place),
        TEST(test_hostile_bytes),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
