/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adapters merged by the library: what names and configurations mean, what a plan says, and what comes of it when memory is
 * short, the user cancels, or the caller is wrong. Numbers are small integers, whose sums are exact on every machine; tests in
 * Python compare others, and the words of every refusal.
 */
#include "support_cmocka.h"

#include "coffer.h"
#include "lora.h"
#include "support_file.h"
#include "support_header.h"
#include "support_memory.h"
#include "support_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 700 /* more than one piece: 700 * 600 elements */
#define COLUMNS 600
#define RANK 5

/* ---- files ------------------------------------------------------------------------------------------------------ */

typedef struct file_entry {
    const char *name;
    coffer_dtype dtype;
    uint64_t rows;
    uint64_t columns;
    int seed; /* of its numbers, from -3 to 3; 0: all are 1 */
} file_entry;

static double number(int seed, uint64_t i)
{
    return seed == 0 ? 1 : (double)(i * (uint64_t)seed % 7) - 3;
}

static void write_entry(coffer_writer *writer, size_t i, const file_entry *entry)
{
    const size_t count = (size_t)(entry->rows * entry->columns);
    const size_t size = count * coffer_dtype_bits(entry->dtype) / 8;
    double *values = calloc(count + 1, sizeof *values);
    uint8_t *bytes = malloc(size + 1);
    assert_true(values != NULL && bytes != NULL);
    for (size_t k = 0; k < count; k++) {
        values[k] = number(entry->seed, k);
    }
    assert_int_equal(coffer_encode(entry->dtype, values, count, bytes), COFFER_OK);
    assert_int_equal(coffer_writer_write(writer, i, 0, bytes, size, NULL), COFFER_OK);
    free(bytes);
    free(values);
}

static void write_file(const char *name, const file_entry *entries, size_t count)
{
    coffer_header *header = new_header();
    coffer_writer *writer = NULL;
    for (size_t i = 0; i < count; i++) {
        add_tensor(header, entries[i].name, entries[i].dtype, 2, entries[i].rows, entries[i].columns);
    }
    assert_int_equal(coffer_writer_open(&writer, header, work_path(name), NULL, NULL), COFFER_OK);
    for (size_t i = 0; i < count; i++) {
        write_entry(writer, i, &entries[i]);
    }
    assert_int_equal(coffer_writer_finish(writer, NULL), COFFER_OK);
    coffer_writer_free(writer);
    coffer_header_free(header);
}

static const file_entry base_entries[] = {
    { "model.q.weight", COFFER_BF16, ROWS, COLUMNS, 1 },
    { "model.k.weight", COFFER_F64, COLUMNS, ROWS, 2 },
    { "model.embed.weight", COFFER_F16, 20, 10, 3 },
    { "stays.weight", COFFER_F32, 3, 3, 1 },
};
static const file_entry lora_entries[] = {
    { "base_model.model.model.q.lora_A.weight", COFFER_F32, RANK, COLUMNS, 3 },
    { "base_model.model.model.q.lora_B.weight", COFFER_F32, ROWS, RANK, 4 },
    { "base_model.model.model.k.lora_A.weight", COFFER_F16, RANK, COLUMNS, 5 },
    { "base_model.model.model.k.lora_B.weight", COFFER_F16, ROWS, RANK, 6 },
    { "base_model.model.model.embed.weight", COFFER_F64, 20, 10, 0 },
};
static const char lora_config[] = "{\"r\": 5, \"lora_alpha\": 10, \"fan_in_fan_out\": true}";

static void write_files(void)
{
    write_file("base.safetensors", base_entries, sizeof base_entries / sizeof base_entries[0]);
    write_file("adapter_model.safetensors", lora_entries, sizeof lora_entries / sizeof lora_entries[0]);
    file_write("adapter_config.json", lora_config, sizeof lora_config - 1);
}

/* A tensor for each other kind, the matrices of some of which have a core, and no configuration. */
static const file_entry kind_bases[] = {
    { "dora.weight", COFFER_F32, ROWS, COLUMNS, 1 },
    { "dora.2.weight", COFFER_BF16, ROWS, COLUMNS, 2 },
    { "loha.weight", COFFER_F32, ROWS, COLUMNS, 2 },
    { "lokr.weight", COFFER_F64, ROWS, COLUMNS, 3 },
};
static const file_entry kind_entries[] = {
    { "dora.lora_A.weight", COFFER_F32, RANK, COLUMNS, 3 },
    { "dora.lora_B.weight", COFFER_F32, ROWS, RANK, 4 },
    { "dora.lora_magnitude_vector", COFFER_F32, ROWS, 1, 0 },
    { "dora.2.lora_A.weight", COFFER_F32, RANK, COLUMNS, 2 },
    { "dora.2.lora_B.weight", COFFER_F32, ROWS, RANK, 5 },
    { "dora.2.lora_magnitude_vector", COFFER_F32, ROWS, 1, 0 },
    { "loha.hada_w1_a", COFFER_F32, ROWS, RANK, 5 },
    { "loha.hada_w1_b", COFFER_F32, RANK, COLUMNS, 6 },
    { "loha.hada_w2_a", COFFER_F16, RANK, ROWS, 0 },
    { "loha.hada_w2_b", COFFER_BF16, RANK, COLUMNS, 4 },
    { "loha.hada_t2", COFFER_F32, RANK, RANK, 0 },
    { "lokr.lokr_w1", COFFER_F32, 7, 6, 3 },
    { "lokr.lokr_w2_a", COFFER_F32, ROWS / 7, RANK, 5 },
    { "lokr.lokr_w2_b", COFFER_F32, RANK, COLUMNS / 6, 6 },
};
enum { DORA = 0, LOHA = 6, LOKR = 11 };

static void write_kinds(void)
{
    write_file("base.safetensors", kind_bases, sizeof kind_bases / sizeof kind_bases[0]);
    write_file("adapter_model.safetensors", kind_entries, sizeof kind_entries / sizeof kind_entries[0]);
}

static coffer *open_base(const char *name)
{
    coffer *model = NULL;
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.access = COFFER_READ;
    assert_int_equal(coffer_open(&model, work_path(name), &options, NULL), COFFER_OK);
    return model;
}

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

static double numbers_of(const coffer *model, const char *name, double **values)
{
    const coffer_tensor *tensor = tensor_named(model, name);
    const size_t count = (size_t)coffer_tensor_elements(tensor);
    uint8_t *bytes = malloc((size_t)tensor->size);
    *values = calloc(count, sizeof **values);
    assert_true(bytes != NULL && *values != NULL);
    assert_int_equal(coffer_read(model, tensor, bytes, tensor->size, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_decode(tensor->dtype, bytes, 0, count, *values), COFFER_OK);
    free(bytes);
    return (double)count;
}

/* One element of the product of two entries, whose matrices are RANK x columns and rows x RANK. */
static double product_at(const file_entry *down, const file_entry *up, uint64_t i, uint64_t j)
{
    double sum = 0;
    for (uint64_t k = 0; k < RANK; k++) {
        sum += number(up->seed, i * RANK + k) * number(down->seed, k * down->columns + j);
    }
    return sum;
}

/* What is added to an element of each kind. LoHa's second matrix and its core are of ones: each of RANK products sums up a
   column. */
static double loha_at(uint64_t i, uint64_t j)
{
    double column = 0;
    for (uint64_t k = 0; k < RANK; k++) {
        column += number(kind_entries[LOHA + 3].seed, k * COLUMNS + j);
    }
    return product_at(&kind_entries[LOHA + 1], &kind_entries[LOHA], i, j) * column * RANK;
}

static double lokr_at(uint64_t i, uint64_t j)
{
    const file_entry *first = &kind_entries[LOKR];
    const uint64_t rows = ROWS / first->rows;
    const uint64_t columns = COLUMNS / first->columns;
    return number(first->seed, i / rows * first->columns + j / columns) *
           product_at(first + 2, first + 1, i % rows, j % columns);
}

static double dora_at(uint64_t i, uint64_t j)
{
    return number(kind_bases[0].seed, i * COLUMNS + j) + product_at(&kind_entries[DORA], &kind_entries[DORA + 1], i, j);
}

/* All its magnitudes are 1, so that the squares of a row sum up to 1. */
static void check_dora_row(const double *dora, uint64_t i)
{
    double square = 0;
    for (uint64_t j = 0; j < COLUMNS; j++) {
        square += dora_at(i, j) * dora_at(i, j);
    }
    for (uint64_t j = 0; j < COLUMNS; j++) {
        const double value = dora[i * COLUMNS + j];
        assert_true(fabs(value * value * square - dora_at(i, j) * dora_at(i, j)) <= 1e-4);
        assert_true(value * dora_at(i, j) >= 0);
    }
}

static void check_kinds(const char *name)
{
    double *dora = NULL;
    double *loha = NULL;
    double *lokr = NULL;
    coffer *model = open_base(name);
    (void)numbers_of(model, "dora.weight", &dora);
    (void)numbers_of(model, "loha.weight", &loha);
    (void)numbers_of(model, "lokr.weight", &lokr);
    for (uint64_t i = 0; i < ROWS; i += 13) {
        check_dora_row(dora, i);
        for (uint64_t j = 0; j < COLUMNS; j += 7) {
            assert_true(loha[i * COLUMNS + j] == number(2, i * COLUMNS + j) + loha_at(i, j));
            assert_true(lokr[i * COLUMNS + j] == number(3, i * COLUMNS + j) + lokr_at(i, j));
        }
    }
    free(dora);
    free(loha);
    free(lokr);
    coffer_close(model);
}

static void check_merged(const char *name, double scale)
{
    double *q = NULL;
    double *k = NULL;
    double *embed = NULL;
    coffer *model = open_base(name);
    (void)numbers_of(model, "model.q.weight", &q);
    (void)numbers_of(model, "model.k.weight", &k);
    (void)numbers_of(model, "model.embed.weight", &embed);
    for (uint64_t i = 0; i < ROWS; i += 13) {
        for (uint64_t j = 0; j < COLUMNS; j += 7) {
            const double first = scale * 2 * product_at(&lora_entries[0], &lora_entries[1], i, j);
            const double second = scale * 2 * product_at(&lora_entries[2], &lora_entries[3], i, j);
            assert_true(q[i * COLUMNS + j] == number(1, i * COLUMNS + j) + first);
            assert_true(k[j * ROWS + i] == number(2, j * ROWS + i) + second);
        }
    }
    for (size_t i = 0; i < 200; i++) {
        assert_true(embed[i] == 1);
    }
    free(q);
    free(k);
    free(embed);
    coffer_close(model);
}

static void test_numbers_of_json(void **state)
{
    static const struct {
        const char *text;
        double value;
        bool is;
    } cases[] = {
        { "0", 0, true },
        { "16", 16, true },
        { "-1.5", -1.5, true },
        { "1e3", 1000, true },
        { "0.1", 0.1, true },
        { "2.5E-1", 0.25, true },
        { "1e400", 0, false },
        { "1e-400", 0, false },
        { "0e999999999999999999999", 0, true },
        { "true", 0, false },
        { "", 0, false },
        { "-", 0, false },
        { "\"1\"", 0, false },
        { "12345678901234567890123", 12345678901234567890123.0, true },
        { "0.0001e4", 1, true },
        { "100e-2", 1, true },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double value = 0;
        assert_int_equal(coffer__lora_number(cases[i].text, strlen(cases[i].text), &value), cases[i].is);
        assert_true(!cases[i].is || fabs(value - cases[i].value) <= 1e-15 * fabs(cases[i].value));
    }
}

static void test_names(void **state)
{
    static const struct {
        const char *name;
        const char *module;
        unsigned part;
        bool flat;
    } cases[] = {
        { "base_model.model.a.lora_A.weight", "a", COFFER__LORA_DOWN, false },
        { "base_model.model.a.lora_B.default.weight", "a", COFFER__LORA_UP, false },
        { "a.lora_embedding_A", "a", COFFER__LORA_DOWN, false },
        { "a.lora_embedding_B.default", "a", COFFER__LORA_UP, false },
        { "a.lora_magnitude_vector", "a", COFFER__LORA_MAGNITUDE, false },
        { "a.lora_magnitude_vector.default", "a", COFFER__LORA_MAGNITUDE, false },
        { "base_model.model.a.hada_w1_a", "a", COFFER__LORA_UP, false },
        { "a.hada_w2_b.default", "a", COFFER__LORA_SECOND + COFFER__LORA_DOWN, false },
        { "lora_unet_a.hada_t2", "a", COFFER__LORA_SECOND + COFFER__LORA_CORE, true },
        { "lycoris_a.lokr_w1", "a", COFFER__LORA_FULL, true },
        { "a.lokr_w1_b", "a", COFFER__LORA_DOWN, false },
        { "a.lokr_w2", "a", COFFER__LORA_SECOND + COFFER__LORA_FULL, false },
        { "a.lora_mid.weight", "a", COFFER__LORA_CORE, false },
        { "lora_unet_a_b.lora_down.weight", "a_b", COFFER__LORA_DOWN, true },
        { "lora_te1_a_b.alpha", "a_b", COFFER__LORA_ALPHA, true },
        { "a.processor.to_q_lora.up.weight", "a.processor.to_q", COFFER__LORA_UP, false },
        { "a.lora_A.b.c.weight", "a.lora_A.b.c.weight", COFFER__LORA_WHOLE, false },
        { ".lora_A.weight", ".lora_A.weight", COFFER__LORA_WHOLE, false },
        { "a.bias", "a.bias", COFFER__LORA_WHOLE, false },
        { "model.diffusion_model.x", "model.diffusion_model.x", COFFER__LORA_WHOLE, false },
        { "", "", COFFER__LORA_WHOLE, false },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        coffer__lora_said said;
        const coffer__name name = { cases[i].name, strlen(cases[i].name) };
        assert_int_equal(coffer__lora_understand(name, &said, NULL), COFFER_OK);
        assert_int_equal(said.part, cases[i].part);
        assert_int_equal(said.flat, cases[i].flat);
        assert_int_equal(said.module.len, strlen(cases[i].module));
        assert_memory_equal(said.module.text, cases[i].module, said.module.len);
    }
}

/* ---- merging ---------------------------------------------------------------------------------------------------- */

/* Merges to `output`, or in place; what fails is told. */
static coffer_status merge(const char *output, double scale, const coffer_allocator *allocator,
                           const coffer_read_options *how)
{
    coffer_lora *lora = NULL;
    coffer_rewrite *rewrite = NULL;
    coffer_lora_options open = COFFER_LORA_OPTIONS_INIT;
    coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
    coffer *base = open_base("base.safetensors");
    open.allocator = allocator;
    options.allocator = allocator;
    options.output = output;
    coffer_status status = coffer_lora_open(&lora, work_path("adapter_model.safetensors"), NULL, &open, NULL);
    if (status == COFFER_OK) {
        const coffer_adapter adapter = { lora, scale };
        status = coffer_merge_lora_plan(&rewrite, base, &adapter, 1, NULL, &options, NULL);
    }
    if (status == COFFER_OK) {
        status = coffer_rewrite_run(rewrite, how, NULL);
    }
    coffer_rewrite_free(rewrite);
    coffer_lora_close(lora);
    coffer_close(base);
    return status;
}

static void test_a_merge_with_any_number_of_threads(void **state)
{
    (void)state;
    write_files();
    for (uint32_t threads = 1; threads <= 4; threads += 3) {
        coffer_read_options how = COFFER_READ_OPTIONS_INIT;
        how.threads = threads;
        assert_int_equal(merge(work_path("new.safetensors"), 1.5, NULL, &how), COFFER_OK);
        check_merged("new.safetensors", 1.5);
    }
}

static void test_every_kind_with_any_number_of_threads(void **state)
{
    uint8_t *bytes[2] = { NULL, NULL };
    size_t sizes[2] = { 0, 0 };
    (void)state;
    write_kinds();
    for (uint32_t i = 0; i < 2; i++) {
        coffer_read_options how = COFFER_READ_OPTIONS_INIT;
        how.threads = 1 + 3 * i;
        assert_int_equal(merge(work_path("new.safetensors"), 1, NULL, &how), COFFER_OK);
        check_kinds("new.safetensors");
        bytes[i] = file_read("new.safetensors", &sizes[i]);
    }
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(bytes[0], bytes[1], sizes[0]);
    free(bytes[0]);
    free(bytes[1]);
}

static void test_a_merge_in_place(void **state)
{
    (void)state;
    write_files();
    assert_int_equal(merge(NULL, -1, NULL, NULL), COFFER_OK);
    check_merged("base.safetensors", -1);
    assert_int_equal(work_dir_count(), 3);
}

static void test_what_a_plan_says(void **state)
{
    coffer_lora *lora = NULL;
    coffer_rewrite *rewrite = NULL;
    coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
    (void)state;
    write_files();
    coffer *base = open_base("base.safetensors");
    assert_int_equal(coffer_lora_open(&lora, work_path("adapter_model.safetensors"), NULL, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_count(coffer_lora_model(lora)), 5);
    const coffer_adapter adapters[] = { { lora, 1 } };
    options.output = work_path("new.safetensors");
    assert_int_equal(coffer_merge_lora_plan(&rewrite, base, adapters, 1, NULL, &options, NULL), COFFER_OK);
    for (size_t i = 0; i < coffer_count(base); i++) {
        const coffer_rewrite_change *change = coffer_rewrite_at(rewrite, i);
        const coffer_lora_update *update = coffer_merge_lora_at(rewrite, i, 0);
        const bool stays = strcmp(change->from->name, "stays.weight") == 0;
        const bool replaced = strcmp(change->from->name, "model.embed.weight") == 0;
        assert_int_equal(change->computed, !stays);
        assert_true((update == NULL) == stays);
        assert_null(coffer_merge_lora_at(rewrite, i, 1));
        assert_true(stays || (update->rank == (replaced ? 0 : RANK) && update->scale == (replaced ? 1 : 2)));
        assert_true(stays || update->kind == (replaced ? COFFER_ADAPTER_WHOLE : COFFER_ADAPTER_LORA));
        assert_true(stays || update->transposed == (strcmp(change->from->name, "model.k.weight") == 0));
    }
    assert_null(coffer_merge_lora_at(rewrite, 99, 0));
    assert_null(coffer_merge_lora_at(NULL, 0, 0));
    assert_int_equal(work_dir_count(), 3);
    coffer_rewrite_free(rewrite);
    coffer_lora_close(lora);
    coffer_close(base);
}

static int cancel(void *ctx, uint64_t done, uint64_t total)
{
    uint64_t *most = ctx;
    *most = done > *most ? done : *most;
    return total > 0 && done > total / 2;
}

static void test_cancelling_leaves_nothing(void **state)
{
    uint64_t most = 0;
    coffer_read_options how = COFFER_READ_OPTIONS_INIT;
    (void)state;
    write_files();
    how.progress = cancel;
    how.progress_ctx = &most;
    assert_int_equal(merge(work_path("new.safetensors"), 1, NULL, &how), COFFER_ERR_CANCELLED);
    assert_true(most > 0);
    assert_int_equal(work_dir_count(), 3);
}

/* `files` is how many there are before. */
static void fail_each_allocation(size_t files)
{
    memory_meter meter = { .held = 0 };
    const coffer_allocator allocator = metered_allocator(&meter);
    coffer_read_options how = COFFER_READ_OPTIONS_INIT;
    coffer_status status = COFFER_ERR_MEMORY;
    how.threads = 1;
    for (size_t request = 1; status != COFFER_OK; request++) {
        meter = (memory_meter){ .fail_at = request };
        status = merge(work_path("new.safetensors"), 1, &allocator, &how);
        assert_true(status == COFFER_OK || status == COFFER_ERR_MEMORY);
        assert_int_equal(meter.blocks, 0);
        assert_int_equal(work_dir_count(), files + (status == COFFER_OK));
    }
}

static void test_without_memory_nothing_happens(void **state)
{
    (void)state;
    write_files();
    fail_each_allocation(3);
    check_merged("new.safetensors", 1);
}

static void test_without_memory_for_other_kinds(void **state)
{
    (void)state;
    write_kinds();
    fail_each_allocation(2);
    check_kinds("new.safetensors");
}

/* Before anything is written, while lengths are found. */
static int cancel_at_once(void *ctx, uint64_t done, uint64_t total)
{
    (void)ctx;
    (void)done;
    (void)total;
    return 1;
}

static void test_cancelling_before_anything_is_written(void **state)
{
    coffer_read_options how = COFFER_READ_OPTIONS_INIT;
    (void)state;
    write_kinds();
    how.progress = cancel_at_once;
    assert_int_equal(merge(work_path("new.safetensors"), 1, NULL, &how), COFFER_ERR_CANCELLED);
    assert_int_equal(work_dir_count(), 2);
}

static void test_calls_that_are_wrong(void **state)
{
    coffer_lora *lora = NULL;
    coffer_rewrite *rewrite = NULL;
    coffer_lora_options selecting = COFFER_LORA_OPTIONS_INIT;
    coffer_lora_options unset = { 0 };
    (void)state;
    write_files();
    coffer *base = open_base("base.safetensors");
    const char *path = work_path("adapter_model.safetensors");
    selecting.select_count = 1;
    assert_int_equal(coffer_lora_open(NULL, path, NULL, NULL, NULL), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_lora_open(&lora, NULL, NULL, NULL, NULL), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_lora_open(&lora, path, NULL, &unset, NULL), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_lora_open(&lora, path, NULL, &selecting, NULL), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_lora_open(&lora, path, NULL, NULL, NULL), COFFER_OK);
    const coffer_adapter wrong[] = { { NULL, 1 }, { lora, NAN }, { lora, INFINITY } };
    const coffer_adapter right = { lora, 1 };
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(coffer_merge_lora_plan(&rewrite, base, &wrong[i], 1, NULL, NULL, NULL), COFFER_ERR_ARGUMENT);
    }
    assert_int_equal(coffer_merge_lora_plan(&rewrite, base, &right, 0, NULL, NULL, NULL), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_merge_lora_plan(&rewrite, base, NULL, 1, NULL, NULL, NULL), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_merge_lora_plan(NULL, base, &right, 1, NULL, NULL, NULL), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_merge_lora_plan(&rewrite, NULL, &right, 1, NULL, NULL, NULL), COFFER_ERR_ARGUMENT);
    assert_null(rewrite);
    assert_null(coffer_lora_model(NULL));
    coffer_lora_close(NULL);
    coffer_lora_close(lora);
    coffer_close(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_of_json),
        cmocka_unit_test(test_names),
        cmocka_unit_test_setup_teardown(test_a_merge_with_any_number_of_threads, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_every_kind_with_any_number_of_threads, work_dir_set_up,
                                        work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_a_merge_in_place, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_what_a_plan_says, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_cancelling_leaves_nothing, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_without_memory_nothing_happens, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_without_memory_for_other_kinds, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_cancelling_before_anything_is_written, work_dir_set_up,
                                        work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_calls_that_are_wrong, work_dir_set_up, work_dir_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
