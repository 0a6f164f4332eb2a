/* SPDX-License-Identifier: Apache-2.0 */
#include "support_plan.h"

#include "support_cmocka.h"

#include "plan_bytes.h"
#include "reader.h"
#include "support_file.h"

#include <stdlib.h>
#include <string.h>

static uint64_t seed = 3;

uint32_t made_below(uint32_t limit)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % limit;
}

coffer__crcs made_crcs;

void made_new(made *m)
{
    memset(m, 0, sizeof *m);
    m->capacity = 64;
    m->file = malloc(m->capacity);
    assert_non_null(m->file);
    assert_int_equal(coffer__import_plan_begin(&m->plan, coffer_libc_allocator(), COFFER__PLAN_BUDGET, NULL),
                     COFFER_OK);
}

void made_free(made *m)
{
    for (uint32_t i = 0; i < m->storages; i++) {
        free(m->plain[i]);
    }
    coffer__import_plan_free(&m->plan);
    free(m->file);
}

void made_put(made *m, const void *bytes, size_t size)
{
    while (size > m->capacity - m->size) {
        m->capacity *= 2;
        m->file = realloc(m->file, m->capacity);
        assert_non_null(m->file);
    }
    memcpy(m->file + m->size, bytes, size);
    m->size += size;
}

static uint32_t made_text(made *m, const char *text)
{
    uint32_t number = 0;
    assert_int_equal(coffer__import_plan_put_text(&m->plan, text, strlen(text), &number, NULL), COFFER_OK);
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
    made_put(m, gap, made_below(sizeof gap));
    coffer__import_plan_piece piece = { .coding = coding, .offset = m->size, .size = size, .crc_kind = COFFER__CRC_32 };
    piece.crc = coffer__crc32_update(&made_crcs.crc32, 0, bytes, size);
    if (coding == COFFER__CODING_STORED) {
        made_put(m, bytes, size);
    } else if (coding == COFFER__CODING_DEFLATED) {
        put_deflated(m, bytes, size);
    } else {
        put_latin1(m, bytes, size);
    }
    piece.stored_size = m->size - piece.offset;
    assert_int_equal(coffer__import_plan_put_piece(&m->plan, &piece, NULL), COFFER_OK);
}

uint32_t made_storage(made *m, coffer__coding coding, size_t size, uint32_t pieces)
{
    uint8_t *plain = malloc(size + 1);
    uint32_t number = 0;
    assert_non_null(plain);
    for (size_t i = 0; i < size; i++) {
        plain[i] = (uint8_t)made_below(256);
    }
    for (uint32_t k = 0; k < pieces; k++) {
        const size_t from = size / pieces * k;
        const size_t to = k + 1 == pieces ? size : size / pieces * (k + 1);
        made_piece(m, coding, plain + from, to - from);
    }
    assert_int_equal(coffer__import_plan_put_storage(&m->plan, pieces, made_text(m, "data/0"), &number, NULL),
                     COFFER_OK);
    m->plain[number] = plain;
    m->plain_size[number] = size;
    m->storages++;
    return number;
}

void made_row(made *m, const char *name, coffer_dtype dtype, uint32_t storage, uint64_t offset, uint32_t rank,
              const coffer__import_plan_dimension *dimensions, uint8_t swap, coffer__sign sign)
{
    const coffer__import_plan_row row = { .name = made_text(m, name),
                                          .dtype = dtype,
                                          .rank = rank,
                                          .storage = storage,
                                          .offset = offset,
                                          .item_size = coffer_dtype_bits(dtype) / 8,
                                          .swap = swap,
                                          .sign = sign };
    assert_int_equal(coffer__import_plan_put_row(&m->plan, &row, dimensions, NULL), COFFER_OK);
}

/* ---- what should be written ---------------------------------------------------------------------------------------- */

/* One element as it should be. Only F32, C64, I16 and U8 are used here. */
static void element(const coffer__import_plan_row *row, uint8_t *bytes)
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

void made_check_tensor(const made *m, const coffer__import_plan_row *row, const uint8_t *got)
{
    const coffer__import_plan_dimension *dimensions = coffer__import_plan_dimensions(&m->plan, row);
    const uint64_t count = coffer__import_plan_row_size(&m->plan, row) / row->item_size;
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
            fail_msg("element %llu of %s differs", (unsigned long long)k,
                     coffer__import_plan_text(&m->plan, row->name, NULL));
        }
    }
}

void made_check(const made *m, const char *path)
{
    coffer *model = NULL;
    size_t written = 0;
    assert_int_equal(coffer_open(&model, path, NULL, NULL), COFFER_OK);
    for (size_t i = 0; i < m->plan.rows.count; i++) {
        const coffer__import_plan_row *row = coffer__import_plan_rows(&m->plan) + i;
        const char *name = coffer__import_plan_text(&m->plan, row->name, NULL);
        const coffer_tensor *tensor = coffer_find(model, name, strlen(name));
        if (row->fate != COFFER_FATE_WRITTEN) {
            assert_null(tensor);
            continue;
        }
        written++;
        assert_non_null(tensor);
        assert_int_equal(tensor->dtype, row->dtype);
        assert_int_equal(tensor->size, coffer__import_plan_row_size(&m->plan, row));
        uint8_t *bytes = malloc((size_t)tensor->size + 1);
        assert_non_null(bytes);
        assert_int_equal(coffer_read(model, tensor, bytes, tensor->size, NULL, NULL), COFFER_OK);
        made_check_tensor(m, row, bytes);
        free(bytes);
    }
    assert_int_equal(coffer_count(model), written);
    coffer_close(model);
}

/* ---- inputs -------------------------------------------------------------------------------------------------------- */

coffer_status made_read(void *ctx, uint32_t file, uint64_t offset, void *buffer, size_t size, coffer_error *err)
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

coffer_input *made_input(made *m)
{
    const coffer_input_functions functions = { .read = made_read, .ctx = m, .size = m->size };
    coffer_input *input = NULL;
    assert_int_equal(coffer_input_open_functions(&input, &functions, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_input_size(input, 0), m->size);
    assert_int_equal(coffer_input_size(input, 1), 0);
    return input;
}

coffer_input *made_input_file(const made *m)
{
    coffer_input *input = NULL;
    file_write("input.bin", m->file, m->size);
    assert_int_equal(coffer_input_open(&input, work_path("input.bin"), NULL, NULL), COFFER_OK);
    return input;
}

coffer_import *made_import(const made *m, coffer_input *input)
{
    coffer_import *import = NULL;
    coffer_error err;
    uint8_t *bytes = NULL;
    size_t size = 0;
    assert_int_equal(coffer__import_plan_save(&m->plan, coffer__reader_at(0)->id, &bytes, &size, NULL), COFFER_OK);
    const coffer_status status = coffer_import_load(&import, input, bytes, size, NULL, &err);
    if (status != COFFER_OK) {
        fail_msg("%s", err.message);
    }
    free(bytes);
    return import;
}

void made_small(made *m)
{
    const coffer__import_plan_dimension whole[] = { { 25, 25, 4 } };
    made_new(m);
    (void)made_storage(m, COFFER__CODING_STORED, 100, 1);
    (void)made_storage(m, COFFER__CODING_STORED, 50, 1);
    (void)made_storage(m, COFFER__CODING_STORED, 30, 1);
    made_row(m, "w", COFFER_F32, 0, 0, 1, whole, 0, 0);
    made_row(m, "tied", COFFER_F32, 0, 0, 1, whole, 0, 0);
    made_row(m, "format", COFFER_F32, 0, 0, 1, whole, 0, 0);
    const coffer__import_plan_dimension part[] = { { 5, 5, 4 } };
    made_row(m, "sparse", COFFER_F32, 1, 0, 1, part, 0, 0);
    coffer__import_plan_row *rows = m->plan.rows.items;
    rows[1].fate = COFFER_FATE_ALIAS;
    rows[2].fate = COFFER_FATE_ALIAS;
    rows[3].fate = COFFER_FATE_SKIPPED;
    const uint32_t reason = made_text(m, "it is sparse");
    rows[3].reason = reason;
    assert_int_equal(coffer__import_plan_put_pair(&m->plan, "format", 6, "pt", 2, NULL), COFFER_OK);
    assert_int_equal(coffer__import_plan_put_finding(&m->plan, COFFER_WEIGHT_DANGER, 0, 5, "data.pkl",
                                                     "%q would be called", "os.system", 9, NULL),
                     COFFER_OK);
}

void made_named(made *m, const char *first, const char *second, const char *value)
{
    const coffer__import_plan_dimension whole[] = { { 25, 25, 4 } };
    const coffer__import_plan_dimension turned[] = { { 5, 5, 4 }, { 4, 4, 20 } };
    made_new(m);
    (void)made_storage(m, COFFER__CODING_STORED, 100, 1);
    (void)made_storage(m, COFFER__CODING_DEFLATED, 100, 2);
    made_row(m, first, COFFER_F32, 0, 0, 1, whole, 0, 0);
    made_row(m, second, COFFER_F32, 1, 0, 2, turned, 4, 0);
    made_row(m, "both", COFFER_F32, 0, 0, 1, whole, 0, 0);
    coffer__import_plan_row *rows = m->plan.rows.items;
    rows[2].fate = COFFER_FATE_SKIPPED;
    rows[2].reason = made_text(m, "it is in both");
    assert_int_equal(coffer__import_plan_put_pair(&m->plan, "format", 6, "pt", 2, NULL), COFFER_OK);
    assert_int_equal(coffer__import_plan_put_pair(&m->plan, first, 1, value, 1, NULL), COFFER_OK);
    assert_int_equal(
        coffer__import_plan_put_finding(&m->plan, COFFER_WEIGHT_NOTE, 0, 7, "data.pkl", "%q is odd", first, 1, NULL),
        COFFER_OK);
}

bool made_has_zlib(void)
{
    coffer__os_library library = { .handle = NULL };
    const bool opened = coffer__os_library_open(&library, "libz.so.1");
    if (opened) {
        coffer__os_library_close(&library);
    }
    return opened;
}

coffer_status made_sink_write(void *ctx, uint64_t offset, const void *bytes, size_t size, coffer_error *err)
{
    made_sink *to = ctx;
    (void)err;
    if (offset > to->capacity || size > to->capacity - offset) {
        return COFFER_ERR_IO;
    }
    memcpy(to->bytes + offset, bytes, size);
    return COFFER_OK;
}

coffer_status made_sink_finish(void *ctx, coffer_error *err)
{
    made_sink *to = ctx;
    (void)err;
    to->finished = true;
    return COFFER_OK;
}

int made_set_up(void **state)
{
    (void)state;
    coffer__crc32_open(&made_crcs.crc32, true);
    return 0;
}
