/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packed files: whatever reads the original reads the same of the packed file, whole, in parts and as slices; unpacking gives
 * the same bytes; the number of threads changes nothing; and a file that contradicts itself is refused by its code.
 */
#include "support_cmocka.h"

#include "coffer.h"
#include "support_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLAIN work_path("plain.safetensors")
#define PACKED work_path("packed.safetensors")
#define BACK work_path("back.safetensors")

static uint32_t next_number(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static const struct {
    const char *name;
    coffer_dtype dtype;
    size_t rank;
    uint64_t shape[3];
} TENSORS[] = {
    { "bf16", COFFER_BF16, 2, { 300, 701, 0 } }, { "e4m3", COFFER_F8_E4M3, 2, { 70, 1500, 0 } },
    { "f32", COFFER_F32, 3, { 3, 130, 257 } },   { "i64", COFFER_I64, 1, { 70000, 0, 0 } },
    { "noise", COFFER_U8, 1, { 100000, 0, 0 } }, { "small", COFFER_F32, 0, { 0, 0, 0 } },
    { "zeros", COFFER_F16, 2, { 400, 300, 0 } }, { "none", COFFER_F16, 2, { 0, 300, 0 } },
};
#define TENSOR_COUNT (sizeof TENSORS / sizeof TENSORS[0])

/* Bytes of which the highest of each element is one of few. */
static void fill(size_t i, uint8_t *bytes, size_t size)
{
    const size_t element = coffer_dtype_bits(TENSORS[i].dtype) / 8;
    uint32_t state = (uint32_t)i;
    for (size_t k = 0; k < size; k++) {
        const uint32_t random = next_number(&state);
        const bool top = k % element == element - 1;
        bytes[k] = strcmp(TENSORS[i].name, "zeros") == 0 ? 0
                   : top && i != 4                       ? (uint8_t)(56 + (random & random >> 3 & random >> 5 & 7))
                   : TENSORS[i].dtype == COFFER_I64      ? 0
                                                         : (uint8_t)random;
    }
}

static coffer_header *declare(void)
{
    coffer_header *header = NULL;
    assert_int_equal(coffer_header_new(&header, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_header_set_metadata(header, "format", 6, "p\"\\\xC3\xBC", 5, NULL), COFFER_OK);
    for (size_t i = 0; i < TENSOR_COUNT; i++) {
        assert_int_equal(coffer_header_add(header, TENSORS[i].name, strlen(TENSORS[i].name), TENSORS[i].dtype,
                                           TENSORS[i].shape, TENSORS[i].rank, NULL),
                         COFFER_OK);
    }
    return header;
}

/* `replaces`: the model whose file may be there, or NULL. */
static coffer_status write_file(const char *path, bool packed, const coffer *replaces, coffer_error *err)
{
    coffer_header *header = declare();
    coffer_writer *writer = NULL;
    coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    options.packed = packed;
    options.replaces = replaces;
    assert_int_equal(coffer_writer_open(&writer, header, path, &options, NULL), COFFER_OK);
    for (size_t i = 0; i < TENSOR_COUNT; i++) {
        const size_t size = (size_t)coffer_header_at(header, i)->size;
        uint8_t *bytes = malloc(size + 1);
        fill(i, bytes, size);
        assert_int_equal(coffer_writer_write(writer, i, 0, bytes, size, NULL), COFFER_OK);
        free(bytes);
    }
    const coffer_status status = coffer_writer_finish(writer, err);
    coffer_writer_free(writer);
    coffer_header_free(header);
    return status;
}

static coffer *open_file(const char *path)
{
    coffer *model = NULL;
    coffer_error err;
    if (coffer_open(&model, path, NULL, &err) != COFFER_OK) {
        fail_msg("%s: %s", path, err.message);
    }
    return model;
}

static uint8_t *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *size = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(*size + 1);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    (void)fclose(file);
    return bytes;
}

static void assert_same_file(const char *a, const char *b)
{
    size_t a_size = 0;
    size_t b_size = 0;
    uint8_t *a_bytes = read_file(a, &a_size);
    uint8_t *b_bytes = read_file(b, &b_size);
    assert_int_equal(a_size, b_size);
    assert_memory_equal(a_bytes, b_bytes, a_size);
    free(a_bytes);
    free(b_bytes);
}

static void pack_with(uint32_t threads, const char *path, coffer_pack_result *result)
{
    coffer *model = open_file(PLAIN);
    coffer_pack_options options = COFFER_PACK_OPTIONS_INIT;
    options.threads = threads;
    assert_int_equal(coffer_pack_shard(model, 0, path, &options, result, NULL), COFFER_OK);
    coffer_close(model);
}

static int set_up(void **state)
{
    (void)state;
    work_dir_make();
    assert_int_equal(write_file(PLAIN, false, NULL, NULL), COFFER_OK);
    pack_with(1, PACKED, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    work_dir_remove();
    return 0;
}

static void test_comes_back(void **state)
{
    (void)state;
    coffer *model = open_file(PACKED);
    assert_int_equal(coffer_unpack_shard(model, 0, BACK, NULL, NULL), COFFER_OK);
    assert_same_file(PLAIN, BACK);
    assert_true(coffer_shard_is_packed(model, 0));
    size_t size = 0;
    free(read_file(PACKED, &size));
    assert_int_equal(coffer_shard_stored_size(model, 0), size);
    coffer_close(model);
}

static void test_threads(void **state)
{
    (void)state;
    coffer_pack_result first;
    coffer_pack_result dry;
    pack_with(3, BACK, &first);
    assert_same_file(PACKED, BACK);
    pack_with(2, NULL, &dry);
    assert_int_equal(first.packed_count, 5);
    assert_int_equal(dry.packed_count, 5);
    assert_true(first.packed_size < first.original_size / 10 * 7);
}

/* Of tensor `i`, parts that begin and end anywhere. */
static void assert_same_parts(const coffer *plain, const coffer *packed, const coffer_tensor *a, const coffer_tensor *b)
{
    uint32_t seed = 5;
    uint8_t *expected = malloc((size_t)a->size + 1);
    uint8_t *actual = malloc((size_t)a->size + 1);
    for (size_t round = 0; round < 40 && a->size > 0; round++) {
        const uint64_t offset = next_number(&seed) % a->size;
        const uint64_t size = 1 + next_number(&seed) % (a->size - offset);
        assert_int_equal(coffer_read_part(plain, a, offset, expected, size, NULL, NULL), COFFER_OK);
        assert_int_equal(coffer_read_part(packed, b, offset, actual, size, NULL, NULL), COFFER_OK);
        assert_memory_equal(expected, actual, (size_t)size);
    }
    free(expected);
    free(actual);
}

static void test_reads(void **state)
{
    (void)state;
    coffer *plain = open_file(PLAIN);
    coffer *packed = open_file(PACKED);
    assert_int_equal(coffer_count(plain), coffer_count(packed));
    for (size_t i = 0; i < coffer_count(plain); i++) {
        const coffer_tensor *a = coffer_at(plain, i);
        const coffer_tensor *b = coffer_at(packed, i);
        assert_string_equal(a->name, b->name);
        assert_int_equal(a->dtype, b->dtype);
        assert_int_equal(a->offset, b->offset);
        assert_true(coffer_tensor_stored_size(packed, b) <= b->size);
        uint8_t *expected = calloc(1, (size_t)a->size + 1);
        uint8_t *actual = calloc(1, (size_t)a->size + 1);
        assert_int_equal(coffer_read(plain, a, expected, a->size, NULL, NULL), COFFER_OK);
        assert_int_equal(coffer_read(packed, b, actual, b->size, NULL, NULL), COFFER_OK);
        assert_memory_equal(expected, actual, (size_t)a->size);
        assert_same_parts(plain, packed, a, b);
        free(expected);
        free(actual);
    }
    coffer_close(plain);
    coffer_close(packed);
}

static void test_slices(void **state)
{
    (void)state;
    static const char *const slices[][2] = {
        { "bf16", "5:200:3, 100:107" }, { "bf16", "::-1, 3" }, { "f32", "1, :, 250:" }, { "e4m3", "69" },
        { "f32", ":, 64:66, ::2" },
    };
    coffer *plain = open_file(PLAIN);
    coffer *packed = open_file(PACKED);
    for (size_t i = 0; i < sizeof slices / sizeof slices[0]; i++) {
        coffer_index indices[8];
        size_t count = 8;
        uint64_t size = 0;
        const coffer_tensor *a = coffer_find(plain, slices[i][0], strlen(slices[i][0]));
        const coffer_tensor *b = coffer_find(packed, slices[i][0], strlen(slices[i][0]));
        assert_int_equal(coffer_slice_parse(slices[i][1], strlen(slices[i][1]), indices, &count, NULL), COFFER_OK);
        assert_int_equal(coffer_slice_shape(a, indices, count, NULL, NULL, &size, NULL), COFFER_OK);
        uint8_t *expected = malloc((size_t)size);
        uint8_t *actual = malloc((size_t)size);
        assert_int_equal(coffer_read_slice(plain, a, indices, count, expected, size, NULL, NULL), COFFER_OK);
        assert_int_equal(coffer_read_slice(packed, b, indices, count, actual, size, NULL, NULL), COFFER_OK);
        assert_memory_equal(expected, actual, (size_t)size);
        free(expected);
        free(actual);
    }
    coffer_close(plain);
    coffer_close(packed);
}

/* A load, in the background and by several threads, gives the bytes of the original. */
static void test_load(void **state)
{
    (void)state;
    coffer *plain = open_file(PLAIN);
    coffer *packed = open_file(PACKED);
    coffer_plan *plan = NULL;
    coffer_load *load = NULL;
    assert_int_equal(coffer_plan_new(&plan, packed, NULL, NULL), COFFER_OK);
    for (size_t i = 0; i < coffer_count(packed); i++) {
        assert_int_equal(coffer_plan_add(plan, coffer_at(packed, i), NULL, 0, NULL, NULL, NULL), COFFER_OK);
    }
    assert_int_equal(coffer_load_start(&load, plan, NULL, NULL, NULL), COFFER_OK);
    for (size_t i = 0; i < coffer_count(packed); i++) {
        coffer_loaded loaded;
        coffer_error err;
        const coffer_tensor *tensor = coffer_at(plain, i);
        uint8_t *expected = calloc(1, (size_t)tensor->size + 1);
        assert_int_equal(coffer_read(plain, tensor, expected, tensor->size, NULL, NULL), COFFER_OK);
        assert_int_equal(coffer_load_take(load, i, UINT64_MAX, &loaded, &err), COFFER_OK);
        assert_int_equal(loaded.size, tensor->size);
        if (tensor->size > 0) {
            assert_memory_equal((const void *)(uintptr_t)loaded.address, expected, (size_t)tensor->size);
        }
        coffer_memory_free(loaded.memory);
        free(expected);
    }
    coffer_load_free(load);
    coffer_plan_free(plan);
    coffer_close(plain);
    coffer_close(packed);
}

static void test_refused(void **state)
{
    (void)state;
    coffer_error err;
    coffer *packed = open_file(PACKED);
    assert_int_equal(coffer_verify_packed(packed, 0, NULL, &err), COFFER_OK);
    assert_int_equal(coffer_pack_shard(packed, 0, BACK, NULL, NULL, &err), COFFER_ERR_PACKED);
    assert_null(coffer_data(packed, coffer_at(packed, 0), &err));
    assert_int_equal(err.code, COFFER_ERR_NOT_MAPPED);
    coffer_close(packed);
    coffer *plain = open_file(PLAIN);
    assert_int_equal(coffer_unpack_shard(plain, 0, BACK, NULL, &err), COFFER_ERR_NOT_PACKED);
    assert_int_equal(coffer_verify_packed(plain, 0, NULL, &err), COFFER_ERR_NOT_PACKED);
    assert_int_equal(coffer_verify_packed(plain, 1, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_pack_shard(plain, 1, BACK, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_false(coffer_shard_is_packed(plain, 0));
    assert_int_equal(coffer_shard_stored_size(plain, 0), coffer_shard_size(plain, 0));
    coffer_close(plain);
    const coffer_edit edit = { .key = "a", .key_len = 1, .value = "b", .value_len = 1 };
    assert_int_equal(coffer_edit_metadata(PACKED, &edit, 1, NULL, NULL, &err), COFFER_ERR_PACKED);
}

/* Replaces text of the packed file's first bytes by other text of the same length, and opens it from memory. */
static void assert_opens(const uint8_t *bytes, size_t size, const char *old, const char *fresh, coffer_status status)
{
    uint8_t *damaged = malloc(size);
    memcpy(damaged, bytes, size);
    const size_t len = strlen(old);
    assert_int_equal(len, strlen(fresh));
    size_t at = 8;
    while (at + len < 8192 && memcmp(damaged + at, old, len) != 0) {
        at++;
    }
    assert_memory_equal(damaged + at, old, len);
    memcpy(damaged + at, fresh, len);
    coffer *model = NULL;
    coffer_error err = { .code = COFFER_OK };
    assert_int_equal(coffer_open_memory(&model, damaged, size, NULL, &err), status);
    assert_int_equal(err.code, status);
    coffer_close(model);
    free(damaged);
}

static void test_headers(void **state)
{
    (void)state;
    size_t size = 0;
    uint8_t *bytes = read_file(PACKED, &size);
    assert_opens(bytes, size, "\"1:", "\"2:", COFFER_ERR_PACK_FILE);
    assert_opens(bytes, size, "\"1:1", "\"1:x", COFFER_ERR_PACK_FILE);
    assert_opens(bytes, size, "\"1:1", "\"1:2", COFFER_ERR_TRAILING_BYTES);
    assert_opens(bytes, size, "coffer.header", "coffer.heaver", COFFER_ERR_PACK_FILE);
    assert_opens(bytes, size, "\\\"bf16\\\"", "\\\"bf17\\\"", COFFER_ERR_PACK_FILE);
    assert_opens(bytes, size, "\\\"bf16\\\"", "\\\"bf16]\"", COFFER_ERR_JSON);
    assert_opens(bytes, size, "\\\"dtype\\\":\\\"F16\\\"", "\\\"dtype\\\":\\\"U16\\\"", COFFER_ERR_PACK_FILE);
    free(bytes);
}

static void test_every_byte_of_a_tensor(void **state)
{
    (void)state;
    size_t size = 0;
    uint8_t *bytes = read_file(PACKED, &size);
    coffer *model = NULL;
    assert_int_equal(coffer_open_memory(&model, bytes, size, NULL, NULL), COFFER_OK);
    const coffer_tensor *tensor = coffer_find(model, "zeros", 5);
    const size_t stored = (size_t)coffer_tensor_stored_size(model, tensor);
    const size_t tensor_size = (size_t)tensor->size;
    uint8_t *to = malloc(tensor_size);
    /* The last of the file, as tensors of one dtype are in order of their names. */
    const size_t from = size - 2 * stored;
    coffer_close(model);
    size_t at = from;
    while (memcmp(bytes + at, "cofferPK", 8) != 0) {
        at++;
    }
    for (size_t i = 0; i < stored; i++) {
        bytes[at + i] ^= 0x10;
        coffer_error err;
        assert_int_equal(coffer_open_memory(&model, bytes, size, NULL, NULL), COFFER_OK);
        const coffer_status status = coffer_read(model, coffer_find(model, "zeros", 5), to, tensor_size, NULL, &err);
        assert_in_range(status, COFFER_ERR_PACK_HEAD, COFFER_ERR_PACK_CHECKSUM);
        coffer_close(model);
        bytes[at + i] ^= 0x10;
    }
    free(to);
    free(bytes);
}

static void test_data_in_place(void **state)
{
    (void)state;
    coffer_error err;
    coffer *plain = open_file(PLAIN);
    coffer *model = NULL;
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    const coffer_tensor *first = coffer_find(plain, "bf16", 4);
    options.unpacked_limit = first->size + 4;
    assert_int_equal(coffer_open(&model, PACKED, &options, &err), COFFER_OK);
    const uint8_t *data = coffer_data(model, coffer_find(model, "bf16", 4), &err);
    assert_non_null(data);
    assert_memory_equal(data, coffer_data(plain, first, NULL), (size_t)first->size);
    assert_ptr_equal(coffer_data(model, coffer_find(model, "bf16", 4), &err), data);
    /* A plain tensor takes of the limit, too. */
    assert_null(coffer_data(model, coffer_find(model, "noise", 5), &err));
    assert_int_equal(err.code, COFFER_ERR_NOT_MAPPED);
    assert_string_equal(err.tensor, "noise");
    const coffer_tensor *small = coffer_find(model, "small", 5);
    assert_memory_equal(coffer_data(model, small, &err), coffer_data(plain, coffer_find(plain, "small", 5), NULL), 4);
    assert_null(coffer_data(model, coffer_find(model, "e4m3", 4), NULL));
    coffer_close(model);
    coffer_close(plain);
}

static void test_a_writer_packs(void **state)
{
    (void)state;
    coffer_error err;
    assert_int_equal(write_file(BACK, true, NULL, &err), COFFER_OK);
    assert_same_file(BACK, PACKED);
    /* Its own file is replaced, and no other. */
    coffer *model = open_file(BACK);
    assert_int_equal(write_file(BACK, true, model, &err), COFFER_OK);
    assert_same_file(BACK, PACKED);
    assert_int_equal(write_file(BACK, true, model, &err), COFFER_ERR_CHANGED);
    assert_string_equal(err.path, BACK);
    assert_same_file(BACK, PACKED);
    coffer_close(model);
}

static void test_what_cannot_be_packed_is_refused(void **state)
{
    (void)state;
    coffer_error err;
    coffer_writer *writer = NULL;
    coffer_header *header = declare();
    coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    options.packed = true;
    assert_int_equal(coffer_writer_open_fd(&writer, header, 1, &options, &err), COFFER_ERR_ARGUMENT);
    options.in_place = true;
    assert_int_equal(coffer_writer_open(&writer, header, BACK, &options, &err), COFFER_ERR_ARGUMENT);
    options.in_place = false;
    options.format = COFFER_FORMAT_BINTENSORS;
    assert_int_equal(coffer_writer_open(&writer, header, BACK, &options, &err), COFFER_ERR_UNSUPPORTED);
    assert_null(writer);
    coffer_header_free(header);
}

/* Renames a tensor, in place or into `output`; how it is done. */
static coffer_rewrite_way rename_in(const char *path, const char *output, bool packed, const char *from, const char *to)
{
    const coffer_rewrite_rule rule = { COFFER_REWRITE_RENAME_EXACT, COFFER_UNKNOWN_DTYPE, from, to };
    coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
    coffer_rewrite *rewrite = NULL;
    coffer *model = open_file(path);
    options.rules = &rule;
    options.rule_count = 1;
    options.output = output;
    options.packed = packed;
    assert_int_equal(coffer_rewrite_plan(&rewrite, model, &options, NULL), COFFER_OK);
    const coffer_rewrite_way way = coffer_rewrite_summarize(rewrite)->way;
    assert_int_equal(coffer_rewrite_run(rewrite, NULL, NULL), COFFER_OK);
    coffer_rewrite_free(rewrite);
    coffer_close(model);
    return way;
}

static void assert_is(const char *path, bool packed, const char *name)
{
    coffer *model = open_file(path);
    assert_int_equal(coffer_shard_is_packed(model, 0), packed);
    assert_non_null(coffer_find(model, name, strlen(name)));
    assert_true(!packed || coffer_verify_packed(model, 0, NULL, NULL) == COFFER_OK);
    coffer_close(model);
}

static void test_rewrites(void **state)
{
    (void)state;
    assert_int_equal(rename_in(PACKED, BACK, true, "bf16", "other"), COFFER_REWRITE_FILES);
    assert_is(BACK, true, "other");
    assert_int_equal(rename_in(BACK, NULL, true, "other", "bf16"), COFFER_REWRITE_FILES);
    assert_is(BACK, true, "bf16");
    assert_int_equal(rename_in(BACK, NULL, true, "bf16", "bf16"), COFFER_REWRITE_NOTHING);
    assert_int_equal(rename_in(BACK, NULL, false, "bf16", "other"), COFFER_REWRITE_FILES);
    assert_is(BACK, false, "other");
    /* Names do not change, but the file is to be packed. */
    assert_int_equal(rename_in(BACK, NULL, true, "other", "other"), COFFER_REWRITE_FILES);
    assert_is(BACK, true, "other");
}

static void test_several_files(void **state)
{
    (void)state;
    coffer_header *header = declare();
    coffer_model_writer *writer = NULL;
    coffer_writer_options files = COFFER_WRITER_OPTIONS_INIT;
    coffer_model_writer_options options = COFFER_MODEL_WRITER_OPTIONS_INIT;
    files.packed = true;
    options.files = &files;
    options.max_shard_size = 600000;
    coffer *plain = open_file(PLAIN);
    coffer_copy copies[TENSOR_COUNT];
    for (size_t i = 0; i < TENSOR_COUNT; i++) {
        copies[i] = (coffer_copy){ i, plain, coffer_find(plain, TENSORS[i].name, strlen(TENSORS[i].name)) };
    }
    assert_int_equal(coffer_model_writer_open(&writer, header, work_path("several.safetensors"), &options, NULL),
                     COFFER_OK);
    assert_int_equal(coffer_model_writer_copy(writer, copies, TENSOR_COUNT, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_model_writer_finish(writer, NULL), COFFER_OK);
    coffer_model_writer_free(writer);
    coffer_header_free(header);
    coffer *model = open_file(work_path("several.safetensors.index.json"));
    assert_true(coffer_shard_count(model) > 1);
    for (size_t i = 0; i < coffer_shard_count(model); i++) {
        assert_true(coffer_shard_is_packed(model, i));
        assert_int_equal(coffer_verify_packed(model, i, NULL, NULL), COFFER_OK);
    }
    assert_int_equal(coffer_count(model), TENSOR_COUNT);
    coffer_close(model);
    coffer_close(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_comes_back),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_reads),
        cmocka_unit_test(test_slices),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_load),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_every_byte_of_a_tensor),
        cmocka_unit_test(test_data_in_place),
        cmocka_unit_test(test_a_writer_packs),
        cmocka_unit_test(test_what_cannot_be_packed_is_refused),
        cmocka_unit_test(test_rewrites),
        cmocka_unit_test(test_several_files),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
