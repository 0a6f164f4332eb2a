/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From pickles to rows: names, roots, ties, views, dtypes, objects of other programs, and what a scan says. The pickles are
 * written here, opcode by opcode, so that also those that no program writes can be. Whether real checkpoints come out
 * as torch reads them is compared elsewhere, with torch.
 */
#include "error.h"
#include "pickle_dangers.h"
#include "pickle_file.h"
#include "pickle_names.h"
#include "pickle_rows.h"
#include "pickle_scan.h"
#include "support_cmocka.h"
#include "support_memory.h"

#include <string.h>

/* ---- writing pickles ----------------------------------------------------------------------------------------------- */

typedef struct pickle_out {
    uint8_t bytes[1 << 16];
    size_t size;
} pickle_out;

static pickle_out out;

static void put(const void *bytes, size_t size)
{
    assert_true(size <= sizeof out.bytes - out.size);
    memcpy(out.bytes + out.size, bytes, size);
    out.size += size;
}

static void op(const char *opcodes)
{
    put(opcodes, strlen(opcodes));
}

static void number(uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        const uint8_t byte = (uint8_t)(value >> (8 * i));
        put(&byte, 1);
    }
}

static void begin(void)
{
    out.size = 0;
    op("\x80\x02");
}

static void text_of(const char *text, size_t len)
{
    op("X");
    number(len, 4);
    put(text, len);
}

static void text(const char *word)
{
    text_of(word, strlen(word));
}

/* A dict whose first key is that; its value, perhaps more pairs, and SETITEMS follow. */
static void begin_dict(const char *key)
{
    begin();
    op("}(");
    text(key);
}

static void integer(int64_t value)
{
    op("\x8a\x08");
    number((uint64_t)value, 8);
}

static void global(const char *module, const char *name)
{
    op("c");
    op(module);
    op("\n");
    op(name);
    op("\n");
}

static void storage(const char *key, const char *class, int64_t elements)
{
    op("(");
    text("storage");
    global("torch", class);
    text(key);
    text("cpu");
    integer(elements);
    op("tQ");
}

static void numbers(size_t count, const int64_t *values)
{
    op("(");
    for (size_t i = 0; i < count; i++) {
        integer(values[i]);
    }
    op("t");
}

/* A view of float32 elements of a storage, as a state dict has it. */
static void view(const char *key, int64_t elements, int64_t offset, size_t rank, const int64_t *sizes,
                 const int64_t *strides)
{
    global("torch._utils", "_rebuild_tensor_v2");
    op("(");
    storage(key, "FloatStorage", elements);
    integer(offset);
    numbers(rank, sizes);
    numbers(rank, strides);
    op("\x89");
    global("collections", "OrderedDict");
    op(")RtR");
}

/* A whole storage of six float32 elements, in two rows. */
static void tensor(const char *key)
{
    view(key, 6, 0, 2, (const int64_t[]){ 2, 3 }, (const int64_t[]){ 3, 1 });
}

static void named(const char *name, const char *key)
{
    text(name);
    tensor(key);
}

/* ---- reading them -------------------------------------------------------------------------------------------------- */

typedef struct outcome {
    coffer_status status;
    coffer_error err;
    coffer__import_plan plan;
} outcome;

static memory_meter meter;
static size_t fail_at; /* the request for memory that fails; 0: none */
static coffer_allocator allocator;

static coffer__wants wanted(void)
{
    return (coffer__wants){ .root = "auto", .strip_prefix = "" };
}

static coffer_status read_out(void *ctx, uint32_t file, uint64_t offset, void *bytes, size_t size, coffer_error *err)
{
    (void)ctx;
    (void)file;
    (void)err;
    memcpy(bytes, out.bytes + offset, size);
    return COFFER_OK;
}

/* Two storages of 24 bytes, "0" and "1", one of 6 bytes, "2", and one of none, "3". */
static coffer_status put_stores(const coffer__reader_file *file, coffer__stores *stores, coffer_error *err)
{
    static const char *const keys[] = { "0", "1", "2", "3" };
    static const uint64_t sizes[] = { 24, 24, 6, 0 };
    for (size_t i = 0; i < 4; i++) {
        coffer__stored stored = { .key = keys[i], .key_len = 1, .size = sizes[i] };
        const coffer__import_plan_piece piece = { .stored_size = sizes[i], .size = sizes[i] };
        coffer_status status = coffer__pickle_file_put_storage(file, &piece, "data/", keys[i], 1, &stored.storage, err);
        if (status == COFFER_OK) {
            status = coffer__stores_add(stores, &stored, err);
        }
        if (status != COFFER_OK) {
            return status;
        }
    }
    return coffer__stores_seal(stores, err);
}

static coffer_status read_rows(outcome *result, const coffer__wants *wants, bool big_endian)
{
    const coffer__input_files input = { .read = read_out, .size = sizeof out.bytes, .path = "" };
    const coffer__reader_file file = {
        .input = &input, .wants = wants, .plan = &result->plan, .size = sizeof out.bytes
    };
    coffer__stores stores = { .allocator = &allocator };
    coffer__graph graph = { .stores = &stores, .member = "", .big_endian = big_endian };
    uint64_t end = 0;
    coffer_status status = coffer__pickle_file_put_format(&result->plan, &result->err);
    if (status == COFFER_OK) {
        status = put_stores(&file, &stores, &result->err);
    }
    if (status == COFFER_OK) {
        status = coffer__pickle_file_load(&graph, &file, NULL, 0, out.size, &end, &result->err);
    }
    if (status == COFFER_OK) {
        status = coffer__graph_put_rows(&graph, &result->err);
    }
    coffer__pickle_file_unload(&graph);
    coffer__stores_free(&stores);
    return status;
}

/* Ends the pickle and makes a plan of it, which the judge of plans has to accept. */
static outcome *rows_with(coffer__wants wants, bool big_endian)
{
    static outcome result;
    const uint64_t size = sizeof out.bytes;
    op(".");
    memset(&result, 0, sizeof result);
    allocator = metered_allocator(&meter);
    meter.fail_at = fail_at;
    result.status = coffer__import_plan_begin(&result.plan, &allocator, 1 << 24, &result.err);
    if (result.status == COFFER_OK) {
        result.status = read_rows(&result, &wants, big_endian);
    }
    if (result.status == COFFER_OK) {
        result.status = coffer__import_plan_check(&result.plan, &size, false, &result.err);
    }
    return &result;
}

static outcome *rows(void)
{
    return rows_with(wanted(), false);
}

static void done(outcome *result)
{
    coffer__import_plan_free(&result->plan);
    assert_int_equal(meter.blocks, 0);
}

static void refused(outcome *result, coffer_status status)
{
    if (result->status != status) {
        fail_msg("%d: %s", (int)result->status, result->err.message);
    }
    assert_int_equal(result->err.code, status);
    done(result);
}

static void refused_with(outcome *result, coffer_status status, const char *words)
{
    assert_non_null(strstr(result->err.message, words));
    refused(result, status);
}

static const char *name_of(const outcome *result, const coffer__import_plan_row *row)
{
    return coffer__import_plan_text(&result->plan, row->name, NULL);
}

/* The row of a name; the plan has to have been made. */
static const coffer__import_plan_row *row_of(const outcome *result, const char *name)
{
    if (result->status != COFFER_OK) {
        fail_msg("%s", result->err.message);
    }
    for (size_t i = 0; i < result->plan.rows.count; i++) {
        if (strcmp(name_of(result, &coffer__import_plan_rows(&result->plan)[i]), name) == 0) {
            return &coffer__import_plan_rows(&result->plan)[i];
        }
    }
    fail_msg("there is no row %s", name);
    return NULL;
}

static size_t written(const outcome *result)
{
    size_t count = 0;
    for (size_t i = 0; i < result->plan.rows.count; i++) {
        count += coffer__import_plan_rows(&result->plan)[i].fate == COFFER_FATE_WRITTEN;
    }
    return count;
}

/* Whether some finding of a weight has a text in it. */
static bool found(const outcome *result, coffer_weight weight, const char *words)
{
    for (size_t i = 0; i < result->plan.findings.count; i++) {
        const coffer__import_plan_finding *finding = &coffer__import_plan_findings(&result->plan)[i];
        if (finding->weight == weight &&
            strstr(coffer__import_plan_text(&result->plan, finding->text, NULL), words) != NULL) {
            return true;
        }
    }
    return false;
}

/* ---- names --------------------------------------------------------------------------------------------------------- */

static void test_names(void **state)
{
    (void)state;
    begin();
    op("}(");
    named("a", "0");
    text("b");
    op("](");
    tensor("1");
    op("}(");
    integer(-7);
    tensor("1");
    op("ue");
    text("n");
    op("Nu");
    coffer__wants wants = wanted();
    wants.ties = COFFER_TIES_KEEP;
    outcome *result = rows_with(wants, false);
    assert_int_equal(row_of(result, "a")->dtype, COFFER_F32);
    assert_int_equal(row_of(result, "b.0")->rank, 2);
    row_of(result, "b.1.-7");
    assert_int_equal(written(result), 3);
    assert_string_equal(coffer__import_plan_text(&result->plan, coffer__import_plan_pairs(&result->plan)[0].key, NULL),
                        "format");
    done(result);
}

static void test_names_that_are_refused(void **state)
{
    (void)state;
    begin();
    op("}(");
    named("a.b", "0");
    text("a");
    op("}(");
    named("b", "1");
    op("uu");
    refused(rows(), COFFER_ERR_DUPLICATE_NAME);

    begin();
    op("}(");
    numbers(2, (const int64_t[]){ 1, 2 });
    tensor("0");
    op("u");
    refused(rows(), COFFER_ERR_NAME);

    begin();
    op("}(");
    text_of("\xed\xa0\x80", 3); /* a lone surrogate */
    tensor("0");
    op("u");
    refused(rows(), COFFER_ERR_NAME);

    begin();
    op("}(");
    named("__metadata__", "0");
    op("u");
    refused(rows(), COFFER_ERR_NAME);
}

static void test_prefix(void **state)
{
    (void)state;
    coffer__wants wants = wanted();
    wants.strip_prefix = "module.";
    begin();
    op("}(");
    named("module.w", "0");
    named("module.", "1");
    op("u");
    outcome *result = rows_with(wants, false);
    row_of(result, "w");
    row_of(result, "module.");
    done(result);
}

static void test_key_twice(void **state)
{
    (void)state;
    begin();
    op("}(");
    named("w", "0");
    named("w", "1");
    op("u");
    outcome *result = rows();
    assert_int_equal(row_of(result, "w")->storage, 1);
    assert_int_equal(written(result), 1);
    assert_true(found(result, COFFER_WEIGHT_NOTE, "twice"));
    assert_int_equal(result->plan.rows.count, 2); /* the other one is listed */
    done(result);
}

/* ---- roots --------------------------------------------------------------------------------------------------------- */

/* {"model": {"w"}, OTHER: {"w"}, "rng": tensor} */
static void checkpoint(const char *other)
{
    begin_dict("model");
    op("}(");
    named("w", "0");
    op("u");
    text(other);
    op("}(");
    named("x", "1");
    op("u");
    text("rng");
    view("1", 6, 0, 1, (const int64_t[]){ 2 }, (const int64_t[]){ 1 });
    op("u");
}

static void test_root(void **state)
{
    (void)state;
    checkpoint("optimizer");
    outcome *result = rows();
    assert_int_equal(row_of(result, "w")->fate, COFFER_FATE_WRITTEN);
    assert_int_equal(row_of(result, "optimizer.x")->fate, COFFER_FATE_SKIPPED);
    assert_int_equal(row_of(result, "rng")->fate, COFFER_FATE_SKIPPED);
    assert_true(found(result, COFFER_WEIGHT_NOTE, "\"model\""));
    coffer__import_plan_account account;
    assert_int_equal(coffer__import_plan_add_up(&result->plan, &account, &result->err), COFFER_OK);
    assert_int_equal(account.total, account.written + account.aliased + account.skipped + account.unreferenced);
    assert_int_equal(account.written, 24);
    assert_int_equal(account.skipped, 24);
    done(result);

    coffer__wants wants = wanted();
    wants.root = "optimizer";
    checkpoint("optimizer");
    result = rows_with(wants, false);
    assert_int_equal(row_of(result, "x")->fate, COFFER_FATE_WRITTEN);
    assert_int_equal(row_of(result, "model.w")->fate, COFFER_FATE_SKIPPED);
    done(result);

    wants.root = "all";
    checkpoint("optimizer");
    result = rows_with(wants, false);
    assert_int_equal(written(result), 3);
    done(result);

    wants.root = "optimiser";
    checkpoint("optimizer");
    refused(rows_with(wants, false), COFFER_ERR_ROOT);
}

static void test_root_is_not_clear(void **state)
{
    (void)state;
    checkpoint("ema");
    outcome *result = rows();
    assert_non_null(strstr(result->err.message, "model (24 bytes), ema (24 bytes)"));
    refused(result, COFFER_ERR_ROOT);

    begin_dict("epoch");
    integer(3);
    op("u");
    refused(rows(), COFFER_ERR_ROOT);

    begin();
    integer(3);
    refused(rows(), COFFER_ERR_ROOT);
}

static void test_root_is_found_by_descending(void **state)
{
    (void)state;
    begin_dict("checkpoint");
    op("}(");
    text("weights.of.it");
    op("}(");
    named("w", "0");
    op("uuu");
    outcome *result = rows();
    row_of(result, "w");
    assert_true(found(result, COFFER_WEIGHT_NOTE, "\"checkpoint.weights.of.it\""));
    done(result);

    coffer__wants wants = wanted();
    wants.root = "checkpoint.weights.of.it"; /* keys may have dots */
    begin_dict("checkpoint");
    op("}(");
    text("weights.of.it");
    op("}(");
    named("w", "0");
    op("uuu");
    result = rows_with(wants, false);
    row_of(result, "w");
    done(result);

    begin();
    tensor("0");
    result = rows();
    row_of(result, "tensor");
    done(result);
}

/* ---- ties ---------------------------------------------------------------------------------------------------------- */

static void tied(const char *first, const char *second)
{
    begin();
    op("}(");
    named(first, "0");
    named(second, "0");
    text("slice");
    view("0", 6, 1, 1, (const int64_t[]){ 3 }, (const int64_t[]){ 1 });
    text("turned");
    view("0", 6, 0, 2, (const int64_t[]){ 3, 2 }, (const int64_t[]){ 1, 3 });
    text("empty");
    view("0", 6, 0, 1, (const int64_t[]){ 0 }, (const int64_t[]){ 1 });
    text("also");
    view("0", 6, 0, 1, (const int64_t[]){ 0 }, (const int64_t[]){ 1 });
    op("u");
}

static void test_ties(void **state)
{
    (void)state;
    tied("lm_head", "embed");
    outcome *result = rows();
    const coffer__import_plan_row *alias = row_of(result, "lm_head");
    assert_int_equal(alias->fate, COFFER_FATE_ALIAS);
    assert_ptr_equal(&coffer__import_plan_rows(&result->plan)[alias->alias_of], row_of(result, "embed"));
    assert_int_equal(written(result), 5);
    done(result);

    coffer__wants wants = wanted();
    wants.ties = COFFER_TIES_KEEP;
    tied("lm_head", "embed");
    result = rows_with(wants, false);
    assert_int_equal(written(result), 6);
    done(result);

    /* The key is in the metadata already. */
    tied("format", "embed");
    result = rows();
    assert_int_equal(row_of(result, "format")->fate, COFFER_FATE_WRITTEN);
    done(result);
}

/* ---- views --------------------------------------------------------------------------------------------------------- */

static coffer_status viewed(int64_t elements, int64_t offset, size_t rank, const int64_t *sizes, const int64_t *strides)
{
    begin_dict("w");
    view("0", elements, offset, rank, sizes, strides);
    op("u");
    outcome *result = rows();
    const coffer_status status = result->status;
    done(result);
    return status;
}

static void test_views(void **state)
{
    (void)state;
    const int64_t huge = INT64_C(1) << 62;
    static const int64_t one[] = { 1 };
    assert_int_equal(viewed(6, 0, 1, (const int64_t[]){ 6 }, one), COFFER_OK);
    assert_int_equal(viewed(6, 5, 1, one, &huge), COFFER_OK);
    assert_int_equal(viewed(6, huge, 1, (const int64_t[]){ 0 }, one), COFFER_OK);
    assert_int_equal(viewed(6, 0, 2, (const int64_t[]){ 0, huge }, (const int64_t[]){ huge, 1 }), COFFER_OK);
    assert_int_equal(viewed(6, 0, 1, (const int64_t[]){ 1000 }, (const int64_t[]){ 0 }), COFFER_OK);
    assert_int_equal(viewed(6, 1, 1, (const int64_t[]){ 6 }, one), COFFER_ERR_VIEW);
    assert_int_equal(viewed(6, 0, 1, (const int64_t[]){ 2 }, (const int64_t[]){ 6 }), COFFER_ERR_VIEW);
    assert_int_equal(viewed(6, 0, 1, (const int64_t[]){ 2 }, &huge), COFFER_ERR_VIEW);
    assert_int_equal(viewed(6, 0, 2, (const int64_t[]){ huge, 5 }, (const int64_t[]){ 4, 1 }), COFFER_ERR_VIEW);
    assert_int_equal(viewed(6, -1, 1, one, one), COFFER_ERR_VIEW);
    assert_int_equal(viewed(6, 0, 1, (const int64_t[]){ -1 }, one), COFFER_ERR_VIEW);
    assert_int_equal(viewed(6, 5, 1, (const int64_t[]){ 2 }, (const int64_t[]){ -1 }), COFFER_ERR_VIEW);
    assert_int_equal(viewed(7, 0, 1, one, one), COFFER_ERR_DAMAGED);
    assert_int_equal(viewed(INT64_C(1) << 62, 0, 1, one, one), COFFER_ERR_PICKLE);
    /* 4 TiB out of 24 bytes. */
    assert_int_equal(viewed(6, 0, 2, (const int64_t[]){ 1 << 20, 1 << 20 }, (const int64_t[]){ 0, 0 }),
                     COFFER_ERR_VIEW);
}

static void test_views_that_no_program_writes(void **state)
{
    (void)state;
    begin();
    op("}(");
    named("w", "9");
    op("u");
    outcome *result = rows();
    assert_non_null(strstr(result->err.message, "\"9\""));
    assert_string_equal(result->err.tensor, "w");
    refused(result, COFFER_ERR_DAMAGED);

    begin_dict("w");
    global("torch._utils", "_rebuild_tensor_v2");
    op("(");
    integer(3);
    op("NNNNNtRu");
    refused(rows(), COFFER_ERR_PICKLE);

    begin_dict("w");
    global("torch._utils", "_rebuild_parameter");
    op(")Ru");
    refused(rows(), COFFER_ERR_PICKLE);
}

/* ---- dtypes -------------------------------------------------------------------------------------------------------- */

/* A tensor whose dtype is told apart from its storage, of `bytes` bytes in storage 0, or all 6 of storage 2. */
static void typed(const char *key, int64_t bytes, const char *dtype, int64_t rows_count, int64_t columns)
{
    begin_dict("w");
    global("torch._utils", "_rebuild_tensor_v3");
    op("(");
    op("(");
    text("storage");
    global("torch.storage", "UntypedStorage");
    text(key);
    text("cpu");
    integer(bytes);
    op("tQ");
    integer(0);
    numbers(2, (const int64_t[]){ rows_count, columns });
    numbers(2, (const int64_t[]){ columns, 1 });
    op("\x89");
    global("collections", "OrderedDict");
    op(")R");
    global("torch", dtype);
    op("tRu");
}

static void test_dtypes(void **state)
{
    (void)state;
    typed("2", 6, "float8_e4m3fn", 2, 3);
    outcome *result = rows();
    assert_int_equal(row_of(result, "w")->dtype, COFFER_F8_E4M3);
    done(result);

    typed("2", 6, "float4_e2m1fn_x2", 2, 3);
    result = rows();
    const coffer__import_plan_row *row = row_of(result, "w");
    assert_int_equal(row->dtype, COFFER_F4);
    assert_int_equal(coffer__import_plan_dimensions(&result->plan, row)[0].size, 2);
    assert_int_equal(coffer__import_plan_dimensions(&result->plan, row)[1].size, 6);
    assert_int_equal(coffer__import_plan_dimensions(&result->plan, row)[1].count, 3);
    done(result);

    typed("0", 24, "uint32", 2, 3);
    result = rows_with(wanted(), true);
    assert_int_equal(row_of(result, "w")->dtype, COFFER_U32);
    assert_int_equal(row_of(result, "w")->swap, 4);
    assert_true(found(result, COFFER_WEIGHT_NOTE, "\"uint32\" are swapped here"));
    assert_int_equal(result->plan.findings.count, 1);
    done(result);

    typed("0", 24, "complex64", 1, 3);
    result = rows_with(wanted(), true);
    assert_int_equal(row_of(result, "w")->swap, 4); /* each half */
    done(result);

    typed("0", 24, "float", 1, 3);
    refused(rows(), COFFER_ERR_PICKLE);

    /* Protocol 0 makes text of the id. */
    begin_dict("w");
    global("torch._utils", "_rebuild_tensor_v2");
    op("(P('storage', <class 'torch.FloatStorage'>, '0', 'cpu', 6)\n");
    integer(0);
    numbers(1, (const int64_t[]){ 6 });
    numbers(1, (const int64_t[]){ 1 });
    op("\x89NtRu");
    refused_with(rows(), COFFER_ERR_PICKLE, "saved with protocol 0");
}

static void test_signs(void **state)
{
    (void)state;
    begin_dict("w");
    global("torch._utils", "_rebuild_tensor_v2");
    op("(");
    storage("0", "ComplexFloatStorage", 3);
    integer(0);
    numbers(1, (const int64_t[]){ 3 });
    numbers(1, (const int64_t[]){ 1 });
    op("\x89");
    global("collections", "OrderedDict");
    op(")R}(");
    text("conj");
    op("\x88utRu");
    outcome *result = rows();
    assert_int_equal(row_of(result, "w")->sign, COFFER__SIGN_CONJUGATED);
    assert_int_equal(row_of(result, "w")->dtype, COFFER_C64);
    done(result);
}

static void lacking(void)
{
    begin();
    op("}(");
    named("w", "0");
    text("s");
    global("torch._utils", "_rebuild_sparse_tensor");
    op("(N(");
    tensor("1");
    op("ttRu");
}

static void test_what_has_no_equivalent(void **state)
{
    (void)state;
    lacking();
    outcome *result = rows();
    assert_string_equal(result->err.tensor, "s");
    assert_non_null(strstr(result->err.message, "sparse"));
    refused(result, COFFER_ERR_NO_EQUIVALENT);

    coffer__wants wants = wanted();
    wants.skip_unsupported = true;
    lacking();
    result = rows_with(wants, false);
    assert_int_equal(row_of(result, "s")->fate, COFFER_FATE_SKIPPED);
    assert_int_equal(written(result), 1);
    assert_int_equal(result->plan.rows.count, 3); /* its parts are listed, too */
    done(result);

    typed("0", 16, "complex128", 1, 1);
    refused(rows(), COFFER_ERR_DAMAGED);
    typed("0", 24, "complex32", 2, 3);
    refused(rows(), COFFER_ERR_NO_EQUIVALENT);
}

static void test_complex128(void **state)
{
    (void)state;
    coffer__wants wants = wanted();
    wants.complex128_as_f64 = true;
    typed("0", 24, "complex128", 1, 1);
    outcome *result = rows_with(wants, false);
    const coffer__import_plan_row *row = row_of(result, "w");
    assert_int_equal(row->dtype, COFFER_F64);
    assert_int_equal(row->rank, 3);
    assert_int_equal(coffer__import_plan_dimensions(&result->plan, row)[2].size, 2);
    done(result);
}

/* ---- objects ------------------------------------------------------------------------------------------------------- */

static void object(void)
{
    begin();
    op("}(");
    named("w", "0");
    text("args");
    global("argparse", "Namespace");
    op(")\x81}(");
    named("hidden", "1");
    op("ub");
    text("evil");
    global("os", "system");
    op("(");
    text("touch /tmp/x");
    op("tRu");
}

static void test_objects(void **state)
{
    (void)state;
    object();
    outcome *result = rows();
    assert_int_equal(written(result), 1);
    assert_int_equal(row_of(result, "args.hidden")->fate, COFFER_FATE_SKIPPED);
    assert_true(found(result, COFFER_WEIGHT_OPAQUE, "argparse.Namespace"));
    assert_true(found(result, COFFER_WEIGHT_DANGER, "os.system"));
    done(result);

    coffer__wants wants = wanted();
    wants.strict = true;
    object();
    refused(rows_with(wants, false), COFFER_ERR_OPAQUE);
}

static void test_subclasses(void **state)
{
    (void)state;
    begin_dict("w");
    global("torch._tensor", "_rebuild_from_type_v2");
    op("(");
    global("torch._utils", "_rebuild_tensor_v2");
    global("torch", "Tensor");
    op("(");
    storage("0", "FloatStorage", 6);
    integer(0);
    numbers(1, (const int64_t[]){ 6 });
    numbers(1, (const int64_t[]){ 1 });
    op("\x89Nt}tRu");
    outcome *result = rows();
    assert_int_equal(row_of(result, "w")->fate, COFFER_FATE_WRITTEN);
    assert_int_equal(result->plan.findings.count, 0);
    done(result);
}

/* A module: two parameters, of which one is None, two buffers, of which one is not persistent, and one module within. */
static void module(void)
{
    begin();
    global("models.yolo", "DetectionModel");
    op(")\x81}(");
    text("training");
    op("\x89");
    named("plain", "1");
    text("_parameters");
    op("}(");
    named("w", "0");
    text("bias");
    op("Nu");
    text("_buffers");
    op("}(");
    named("b", "0");
    named("cache", "1");
    op("u");
    text("_non_persistent_buffers_set");
    global("__builtin__", "set");
    op("(](");
    text("cache");
    op("etR");
    text("_modules");
    op("}(");
    text("inner");
    global("torch.nn.modules.linear", "Linear");
    op(")\x81}(");
    text("_parameters");
    global("collections", "OrderedDict");
    op(")R(");
    named("w", "1");
    op("u");
    text("_buffers");
    op("}");
    text("_modules");
    op("}ubu");
    op("ub");
}

static void test_modules(void **state)
{
    (void)state;
    coffer__wants wants = wanted();
    wants.ties = COFFER_TIES_KEEP;
    module();
    outcome *result = rows_with(wants, false);
    row_of(result, "w");
    row_of(result, "b");
    row_of(result, "inner.w");
    assert_int_equal(written(result), 3);
    assert_int_equal(result->plan.rows.count, 5); /* "plain" and "cache" are listed */
    assert_int_equal(result->plan.findings.count, 0);
    done(result);
}

/* ---- graphs -------------------------------------------------------------------------------------------------------- */

static void test_graphs(void **state)
{
    (void)state;
    begin();
    op("}q\x01(");
    named("w", "0");
    text("self");
    op("h\x01u");
    outcome *result = rows();
    assert_int_equal(written(result), 1);
    done(result);

    /* Each level has the one below twice: 2^60 names. */
    begin();
    op("}(");
    named("w", "0");
    op("uq\x01");
    for (uint8_t i = 1; i < 60; i++) {
        const uint8_t get[] = { 'h', i };
        const uint8_t memo[] = { 'u', 'q', (uint8_t)(i + 1) };
        op("}(");
        text("a");
        put(get, 2);
        text("b");
        put(get, 2);
        put(memo, 3);
    }
    coffer__wants wants = wanted();
    wants.root = "all";
    refused(rows_with(wants, false), COFFER_ERR_MEMORY);

    /* A list of lists, deeper than anybody looks. */
    begin();
    for (size_t i = 0; i < 5000; i++) {
        op("]");
    }
    tensor("0");
    for (size_t i = 0; i < 5000; i++) {
        op("a");
    }
    refused(rows_with(wants, false), COFFER_ERR_PICKLE);
}

/* ---- arrays -------------------------------------------------------------------------------------------------------- */

static void dtype(const char *code, const char *order)
{
    global("numpy", "dtype");
    op("(");
    text(code);
    op("\x89\x88tR(");
    integer(3);
    text(order);
    op("NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK");
    number(0, 1);
    op("tb");
}

/* {"w": array}, whose bytes another function puts. */
static void array(const char *code, const char *order, bool fortran, void (*bytes)(void))
{
    begin_dict("w");
    global("numpy.core.multiarray", "_reconstruct");
    op("(");
    global("numpy", "ndarray");
    op("(");
    integer(0);
    op("t");
    text("b");
    op("tR(");
    integer(1);
    numbers(2, (const int64_t[]){ 2, 3 });
    dtype(code, order);
    op(fortran ? "\x88" : "\x89");
    bytes();
    op("tbu");
}

static void twelve_bytes(void)
{
    op("C\x0c"
       "abcdefghijkl");
}

/* As protocol 0 has them, with an escape. */
static void twelve_escaped(void)
{
    global("_codecs", "encode");
    op("(V\\u0061bcdefghijkl\n");
    text("latin1");
    op("tR");
}

/* The same, but for the first byte, which is e9, as text in UTF-8. */
static void latin1(void)
{
    global("_codecs", "encode");
    op("(");
    text("\xc3\xa9"
         "bcdefghijkl");
    text("latin1");
    op("tR");
}

static void test_arrays(void **state)
{
    (void)state;
    array("i2", ">", true, twelve_bytes);
    outcome *result = rows();
    const coffer__import_plan_row *row = row_of(result, "w");
    assert_int_equal(row->dtype, COFFER_I16);
    assert_int_equal(row->swap, 2);
    assert_int_equal(coffer__import_plan_dimensions(&result->plan, row)[0].stride, 2);
    assert_int_equal(coffer__import_plan_dimensions(&result->plan, row)[1].stride, 4);
    const coffer__import_plan_storage *held = &coffer__import_plan_storages(&result->plan)[row->storage];
    const coffer__import_plan_piece *piece = &coffer__import_plan_pieces(&result->plan)[held->first];
    assert_memory_equal(out.bytes + piece->offset, "abcdefghijkl", 12);
    done(result);

    array("f2", "<", false, latin1);
    result = rows();
    row = row_of(result, "w");
    held = &coffer__import_plan_storages(&result->plan)[row->storage];
    piece = &coffer__import_plan_pieces(&result->plan)[held->first];
    assert_int_equal(piece->coding, COFFER__CODING_LATIN1);
    assert_int_equal(piece->stored_size, 13);
    assert_int_equal(piece->size, 12);
    done(result);

    array("f4", "<", false, twelve_bytes);
    refused(rows(), COFFER_ERR_ARRAY);
    array("f2", "<", false, twelve_escaped);
    result = rows();
    row = row_of(result, "w");
    held = &coffer__import_plan_storages(&result->plan)[row->storage];
    piece = &coffer__import_plan_pieces(&result->plan)[held->first];
    assert_int_equal(piece->coding, COFFER__CODING_ESCAPED);
    assert_memory_equal(out.bytes + piece->offset, "\\u0061bcdefghijkl", (size_t)piece->stored_size);
    assert_int_equal(piece->stored_size, 17);
    assert_int_equal(piece->size, 12);
    done(result);

    array("O8", "|", false, twelve_bytes);
    refused(rows(), COFFER_ERR_NO_EQUIVALENT);
}

/* ---- scans --------------------------------------------------------------------------------------------------------- */

static outcome *scanned(uint32_t expected)
{
    static outcome result;
    memset(&result, 0, sizeof result);
    allocator = metered_allocator(&meter);
    meter.fail_at = fail_at;
    const coffer__wants wants = { .root = "auto", .strip_prefix = "", .scan = true };
    const coffer__input_files input = { .read = read_out, .size = out.size, .path = "" };
    const coffer__reader_file file = { .input = &input, .wants = &wants, .plan = &result.plan, .size = out.size };
    const coffer__scan_range range = { .member = "", .size = out.size, .expected = expected };
    result.status = coffer__import_plan_begin(&result.plan, &allocator, 1 << 24, &result.err);
    if (result.status == COFFER_OK) {
        result.status = coffer__scan_pickles(&file, &range, NULL, &result.err);
    }
    return &result;
}

static void test_scans(void **state)
{
    (void)state;
    object();
    op(".");
    outcome *result = scanned(1);
    assert_int_equal(result->status, COFFER_OK);
    assert_true(found(result, COFFER_WEIGHT_DANGER, "call \"os.system('touch /tmp/x')\""));
    assert_true(found(result, COFFER_WEIGHT_NOTE, "argparse.Namespace()"));
    assert_int_equal(result->plan.findings.count, 2);
    done(result);

    /* It stops in the middle: a loader has called by then. */
    out.size -= 2;
    result = scanned(1);
    assert_true(found(result, COFFER_WEIGHT_DANGER, "os.system('touch"));
    assert_true(found(result, COFFER_WEIGHT_DANGER, "damaged"));
    done(result);

    /* Another pickle after the first one. */
    begin();
    op("N.\x80\x02");
    global("nt", "system");
    op("(K");
    number(1, 1);
    op("tR.");
    result = scanned(1);
    assert_true(found(result, COFFER_WEIGHT_DANGER, "bytes after the end"));
    assert_true(found(result, COFFER_WEIGHT_DANGER, "nt.system(1)"));
    done(result);

    /* One within bytes. */
    begin();
    op("C\x10\x80\x02");
    global("os", "abort");
    op(")R..");
    result = scanned(1);
    assert_true(found(result, COFFER_WEIGHT_DANGER, "within bytes"));
    assert_true(found(result, COFFER_WEIGHT_DANGER, "os.abort()"));
    done(result);

    begin();
    named("w", "0");
    op("0N.");
    result = scanned(1);
    assert_int_equal(result->plan.findings.count, 0);
    done(result);
}

static void test_globals(void **state)
{
    (void)state;
    assert_int_equal(coffer__known_global("_codecs", "encode").meaning, COFFER__MEANS_ENCODE);
    assert_int_equal(coffer__known_global("torch", "FloatStorage").element, COFFER__ELEMENT_F32);
    assert_int_equal(coffer__known_global("torch.cuda", "HalfStorage").element, COFFER__ELEMENT_F16);
    assert_int_equal(coffer__known_global("uuid", "UUID").judgement, COFFER__GLOBAL_HARMLESS);
    assert_int_equal(coffer__known_global("torch.storage", "_load_from_bytes").judgement, COFFER__GLOBAL_DANGEROUS);
    assert_int_equal(coffer__known_global("builtins", "eval").judgement, COFFER__GLOBAL_DANGEROUS);
    assert_int_equal(coffer__known_global("subprocess", "Popen").judgement, COFFER__GLOBAL_DANGEROUS);
    assert_int_equal(coffer__known_global("os.path", "join").judgement, COFFER__GLOBAL_DANGEROUS);
    assert_int_equal(coffer__known_global("torch", "serialization.os.system").judgement, COFFER__GLOBAL_DANGEROUS);
    assert_int_equal(coffer__known_global("torch.nn.modules.linear", "Linear").judgement, COFFER__GLOBAL_HARMLESS);
    assert_int_equal(coffer__known_global("torch.nn.modules.linear", "load").judgement, COFFER__GLOBAL_UNKNOWN);
    assert_int_equal(coffer__known_global("osx", "system").judgement, COFFER__GLOBAL_UNKNOWN);
    assert_int_equal(coffer__known_global("torch", "FloatStorage2").judgement, COFFER__GLOBAL_UNKNOWN);
    assert_int_equal(coffer__known_global("", "").judgement, COFFER__GLOBAL_UNKNOWN);
}

static void test_table_of_dangers(void **state)
{
    (void)state;
    const char *module = NULL;
    const char *last = "";
    for (size_t i = 0; (module = coffer__danger_at(i)) != NULL; i++) {
        const size_t len = strlen(last);
        assert_true(strcmp(last, module) < 0);
        assert_false(len > 0 && strncmp(last, module, len) == 0 && module[len] == '.');
        last = module;
    }
}

/* Published ways to run code from a pickle, and what checkpoints are full of. */
static void test_dangers(void **state)
{
    (void)state;
    static const char *const dangers[][2] = {
        { "_aix_support", "_read_cmd_output" },
        { "_osx_support", "_read_output" },
        { "_osx_support", "_find_build_tool" },
        { "uuid", "_get_command_stdout" },
        { "idlelib.pyshell", "ModifiedInterpreter.runcode" },
        { "idlelib.autocomplete", "AutoComplete.fetch_completions" },
        { "idlelib.run", "Executive.runcode" },
        { "lib2to3.pgen2.grammar", "Grammar.loads" },
        { "lib2to3.pgen2.pgen", "ParserGenerator.make_label" },
        { "ensurepip", "_run_pip" },
        { "test.support.script_helper", "assert_python_ok" },
        { "logging", "FileHandler" },
        { "logging.config", "_resolve" },
        { "numpy.testing._private.utils", "runstring" },
        { "numpy.f2py.crackfortran", "getlincoef" },
        { "numpy.f2py.crackfortran", "myeval" },
        { "numpy", "memmap" },
        { "numpy", "testing._private.utils.runstring" },
        { "torch.utils.collect_env", "run" },
        { "torch.utils.bottleneck.__main__", "run_cprofile" },
        { "torch.utils._config_module", "ConfigModule.load_config" },
        { "torch.utils.data.datapipes.utils.decoder", "basichandlers" },
        { "torch._dynamo.guards", "GuardBuilder.get" },
        { "torch.fx.experimental.symbolic_shapes", "ShapeEnv.evaluate_guards_expression" },
        { "torch.jit.unsupported_tensor_ops", "execWrapper" },
        { "torch._inductor.codecache", "compile_file" },
        { "torch._utils", "_import_dotted_name" },
        { "torch.distributed.rpc", "something_new" },
        { "venv", "create" },
        { "code", "InteractiveInterpreter.runcode" },
        { "cgitb", "lookup" },
        { "argparse", "FileType" },
        { "pathlib", "Path.write_text" },
        { "pathlib", "PosixPath.unlink" },
        { "random", "_os.system" },
        { "copyreg", "add_extension" },
    };
    static const char *const harmless[][2] = {
        { "functools", "partial" },
        { "logging", "getLogger" },
        { "numpy.random._pickle", "__generator_ctor" },
        { "numpy.random._pcg64", "PCG64" },
        { "torch.nn.parallel.data_parallel", "DataParallel" },
        { "torch.nn.utils.weight_norm", "WeightNorm" },
        { "torch.nn.utils.parametrizations", "_WeightNorm" },
        { "torch.utils.data.dataset", "TensorDataset" },
        { "pathlib", "PosixPath" },
        { "argparse", "Namespace" },
    };
    for (size_t i = 0; i < sizeof dangers / sizeof *dangers; i++) {
        assert_int_equal(coffer__known_global(dangers[i][0], dangers[i][1]).judgement, COFFER__GLOBAL_DANGEROUS);
    }
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
        assert_int_equal(coffer__known_global(harmless[i][0], harmless[i][1]).judgement, COFFER__GLOBAL_HARMLESS);
    }
}

/* Every allocation fails once: each time that is the error, and nothing is left. */
static void test_no_memory(void **state)
{
    (void)state;
    for (size_t i = 1;; i++) {
        fail_at = i;
        module();
        outcome *result = rows();
        const coffer_status status = result->status;
        done(result);
        if (status == COFFER_OK) {
            assert_true(i > 10);
            break;
        }
        assert_int_equal(status, COFFER_ERR_MEMORY);
    }
    fail_at = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_names_that_are_refused),
        cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_key_twice),
        cmocka_unit_test(test_root),
        cmocka_unit_test(test_root_is_not_clear),
        cmocka_unit_test(test_root_is_found_by_descending),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_views_that_no_program_writes),
        cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_signs),
        cmocka_unit_test(test_what_has_no_equivalent),
        cmocka_unit_test(test_complex128),
        cmocka_unit_test(test_objects),
        cmocka_unit_test(test_subclasses),
        cmocka_unit_test(test_modules),
        cmocka_unit_test(test_graphs),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_scans),
        cmocka_unit_test(test_globals),
        cmocka_unit_test(test_table_of_dangers),
        cmocka_unit_test(test_dangers),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
