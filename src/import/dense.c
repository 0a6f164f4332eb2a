/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a description of a tensor to a row: see dense.h.
 *
 *   has a dtype                   a row of that, as it is
 *   complex128, if wanted         F64, with a last dimension of 2
 *   packed integers, if wanted    U8 of the same bytes, and in the metadata what they are
 *   anything else                 an error, or a row that is skipped
 */
#include "dense.h"

#include "alloc.h"
#include "checked.h"
#include "dtype.h"
#include "error.h"
#include "text.h"

#include <string.h>

/* What becomes of a tensor: its name in the new file, dtype, item and dimensions. */
typedef struct dense_fate {
    const char *name;
    size_t name_len;
    coffer_dtype dtype;
    uint64_t item_size;
    uint32_t rank;
    coffer__import_plan_dimension dimensions[COFFER__PLAN_MAX_RANK];
} dense_fate;

void coffer__dense_begin(coffer__dense_rows *rows, const coffer__wants *wants, coffer__import_plan *plan)
{
    *rows = (coffer__dense_rows){ .wants = wants, .plan = plan, .packed = { .allocator = plan->allocator } };
    rows->has_root = !coffer__same_text(wants->root, "auto") && !coffer__same_text(wants->root, "all");
}

void coffer__dense_free(coffer__dense_rows *rows)
{
    coffer__writing_free(&rows->packed);
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

/* An empty tensor may have sizes whose product is beyond 2^64, so a size of 0 is looked for first. */
bool coffer__dense_size(const coffer__dense *tensor, uint64_t *size)
{
    uint64_t bits = tensor->bits;
    *size = 0;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] == 0) {
            return true;
        }
    }
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (!coffer__mul_u64(bits, tensor->shape[i], &bits)) {
            return false;
        }
    }
    *size = bits / 8 + (bits % 8 != 0);
    return bits % 8 == 0 || tensor->packed;
}

/*
 * Dimensions of the elements. Where several of them share a byte, bytes are what is counted: all of them are the last
 * dimension, and the others are walked over in no steps. Beside a dimension of 0 the others may be anything, so strides are
 * computed without a sign, and mean nothing.
 */
static void dense_set_dimensions(const coffer__dense *tensor, uint64_t size, dense_fate *fate)
{
    const bool shared = tensor->bits < 8;
    uint64_t stride = fate->item_size;
    for (uint32_t i = tensor->rank; i > 0; i--) {
        const uint64_t count = tensor->shape[i - 1];
        const uint64_t items = shared ? (i == tensor->rank ? size : 1) : count;
        const int64_t step = tensor->strides != NULL ? tensor->strides[i - 1] : (int64_t)stride;
        fate->dimensions[i - 1] = (coffer__import_plan_dimension){ count, items, items > 1 ? step : 0 };
        stride *= items > 0 ? items : 1;
    }
    fate->rank = tensor->rank;
}

/* ---- what has no dtype ------------------------------------------------------------------------------------------- */

/* {"NAME": {"dtype": "INT4", "shape": [2, 3]}, ...}, of which a lack of memory is noticed once, at the end. */
static void dense_record_packed(coffer__dense_rows *rows, const coffer__dense *tensor, const dense_fate *fate)
{
    char digits[20];
    coffer__writing *out = &rows->packed;
    coffer__write(out, ", ", out->used > 0 ? 2 : 0);
    coffer__write_json_n(out, fate->name, fate->name_len);
    coffer__write_text(out, ": {\"dtype\": ");
    coffer__write_json(out, tensor->type);
    coffer__write_text(out, ", \"shape\": [");
    for (uint32_t i = 0; i < tensor->rank; i++) {
        coffer__write(out, ", ", i > 0 ? 2 : 0);
        coffer__write(out, digits, coffer__write_u64(digits, tensor->shape[i]));
    }
    coffer__write_text(out, "]}");
}

/* The bytes of a row are its last dimension, where rows are whole bytes; else there is one dimension. */
static void dense_set_packed(const coffer__dense *tensor, uint64_t size, dense_fate *fate)
{
    const uint64_t last = tensor->rank > 0 ? tensor->shape[tensor->rank - 1] : 1;
    coffer__dense bytes = { .bits = 8, .rank = 1, .shape = { size } };
    if (size > 0 && tensor->rank > 0 && last * tensor->bits % 8 == 0) {
        bytes = *tensor;
        bytes.bits = 8;
        bytes.shape[tensor->rank - 1] = last * tensor->bits / 8;
    }
    fate->dtype = COFFER_U8;
    fate->item_size = 1;
    dense_set_dimensions(&bytes, size, fate);
}

coffer_status coffer__dense_skip(coffer__dense_rows *rows, const char *name, size_t name_len, uint32_t storage,
                                 const char *why, coffer_error *err)
{
    coffer__import_plan *plan = rows->plan;
    const bool apart = storage == COFFER__PLAN_NO_STORAGE;
    const uint64_t size = apart ? 0 : coffer__import_plan_storages(plan)[storage].size;
    const coffer__import_plan_dimension all = { .size = size, .count = size, .stride = size > 1 };
    coffer__import_plan_row row = {
        .fate = COFFER_FATE_SKIPPED, .storage = storage, .item_size = 1, .rank = apart ? 0 : 1
    };
    coffer_status status = coffer__import_plan_put_text(plan, name, name_len, &row.name, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__import_plan_put_text(plan, why, coffer__text_len(why), &row.reason, err);
    return status == COFFER_OK ? coffer__import_plan_put_row(plan, &row, &all, err) : status;
}

/* Such a tensor is a failure of the whole, or skipped; the sentence says what its elements are. */
static coffer_status dense_lack(coffer__dense_rows *rows, const coffer__dense *tensor, const dense_fate *fate,
                                uint32_t storage, coffer_error *err)
{
    coffer__writing why = { .allocator = rows->plan->allocator };
    if (!rows->wants->skip_unsupported && !tensor->texts) {
        coffer__fail_at(err, COFFER_ERR_NO_EQUIVALENT, tensor->at,
                        "tensor %q is of %s, which safetensors does not have%s", fate->name, fate->name_len,
                        tensor->type,
                        tensor->packed       ? ": --packed keeps its bytes"
                        : tensor->complex128 ? ": --complex128 f64x2 makes pairs of F64 of it"
                                             : "");
        return coffer__fail_tensor(err, COFFER_ERR_NO_EQUIVALENT, fate->name, fate->name_len);
    }
    coffer__write_text(&why, "it is of ");
    coffer__write_text(&why, tensor->type);
    coffer__write_text(&why, ", which safetensors does not have");
    coffer__write(&why, "", 1);
    const coffer_status status = why.failed
                                     ? coffer__fail(err, COFFER_ERR_MEMORY, "no memory to say why")
                                     : coffer__dense_skip(rows, fate->name, fate->name_len, storage, why.text, err);
    coffer__writing_free(&why);
    return status;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* The name below the root; false for a tensor that is not there. */
static bool dense_below_root(coffer__dense_rows *rows, dense_fate *fate)
{
    const char *root = rows->wants->root;
    const size_t len = coffer__text_len(root);
    if (!rows->has_root) {
        return true;
    }
    if (fate->name_len <= len + 1 || memcmp(fate->name, root, len) != 0 || fate->name[len] != '.') {
        return false;
    }
    fate->name += len + 1;
    fate->name_len -= len + 1;
    rows->found_root = true;
    return true;
}

/* A name that is nothing but the prefix stays as it is. */
static void dense_strip(const coffer__dense_rows *rows, dense_fate *fate)
{
    const char *prefix = rows->wants->strip_prefix;
    const size_t len = coffer__text_len(prefix);
    if (len > 0 && fate->name_len > len && memcmp(fate->name, prefix, len) == 0) {
        fate->name += len;
        fate->name_len -= len;
    }
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static coffer_status dense_put_row(coffer__dense_rows *rows, const coffer__dense *tensor, const dense_fate *fate,
                                   uint32_t storage, coffer_error *err)
{
    coffer__import_plan_row row = {
        .dtype = fate->dtype, .rank = fate->rank, .storage = storage, .item_size = fate->item_size
    };
    /* Of a complex number each half has an order of its own. */
    const uint64_t unit = tensor->complex128 || fate->dtype == COFFER_C64 ? tensor->bits / 16u : fate->item_size;
    row.swap = tensor->swapped && unit > 1 ? (uint8_t)unit : 0;
    const coffer_status status = coffer__import_plan_put_text(rows->plan, fate->name, fate->name_len, &row.name, err);
    return status == COFFER_OK ? coffer__import_plan_put_row(rows->plan, &row, fate->dimensions, err) : status;
}

coffer_status coffer__dense_put(coffer__dense_rows *rows, const coffer__dense *tensor, uint32_t storage,
                                coffer_error *err)
{
    const coffer__wants *wants = rows->wants;
    uint64_t size = 0;
    dense_fate fate = { .name = tensor->name, .name_len = tensor->name_len, .dtype = tensor->dtype };
    fate.item_size = tensor->bits < 8 ? 1 : tensor->bits / 8;
    (void)coffer__dense_size(tensor, &size);
    if (coffer__utf8_valid_len(tensor->name, tensor->name_len) != tensor->name_len) {
        return coffer__fail_at(err, COFFER_ERR_NAME, tensor->at, "the name of a tensor, %q, is not UTF-8", tensor->name,
                               tensor->name_len);
    }
    if (!dense_below_root(rows, &fate)) {
        return coffer__dense_skip(rows, fate.name, fate.name_len, storage,
                                  "it is not in the part of the file that is the model", err);
    }
    dense_strip(rows, &fate);
    if (tensor->dtype != COFFER_UNKNOWN_DTYPE) {
        dense_set_dimensions(tensor, size, &fate);
        return dense_put_row(rows, tensor, &fate, storage, err);
    }
    if (tensor->packed && wants->packed) {
        dense_set_packed(tensor, size, &fate);
        dense_record_packed(rows, tensor, &fate);
        return dense_put_row(rows, tensor, &fate, storage, err);
    }
    if (tensor->complex128 && wants->complex128_as_f64 && tensor->rank < COFFER__PLAN_MAX_RANK) {
        dense_set_dimensions(tensor, size, &fate);
        fate.dimensions[fate.rank++] = (coffer__import_plan_dimension){ .size = 2, .count = 2, .stride = 8 };
        fate.dtype = COFFER_F64;
        fate.item_size = 8;
        return dense_put_row(rows, tensor, &fate, storage, err);
    }
    return dense_lack(rows, tensor, &fate, storage, err);
}

coffer_status coffer__dense_put_at(coffer__dense_rows *rows, const coffer__dense *tensor, uint32_t file, uint64_t at,
                                   uint64_t size, coffer_error *err)
{
    const coffer__import_plan_piece piece = { .file = file, .offset = at, .stored_size = size, .size = size };
    uint32_t name = 0;
    uint32_t storage = 0;
    coffer_status status = coffer__import_plan_put_text(rows->plan, tensor->name, tensor->name_len, &name, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__import_plan_put_piece(rows->plan, &piece, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__import_plan_put_storage(rows->plan, 1, name, &storage, err);
    return status == COFFER_OK ? coffer__dense_put(rows, tensor, storage, err) : status;
}

coffer_status coffer__dense_finish(coffer__dense_rows *rows, coffer_error *err)
{
    static const char key[] = COFFER__PACKED_DTYPES_KEY;
    coffer__writing json = { .allocator = rows->plan->allocator };
    if (rows->has_root && !rows->found_root) {
        return coffer__fail(err, COFFER_ERR_ROOT, "no tensor of the file is below %q", rows->wants->root,
                            coffer__text_len(rows->wants->root));
    }
    if (rows->packed.used == 0 && !rows->packed.failed) {
        return COFFER_OK;
    }
    coffer__write_text(&json, "{");
    coffer__write(&json, rows->packed.text, rows->packed.used);
    coffer__write_text(&json, "}");
    const bool failed = rows->packed.failed || json.failed;
    const coffer_status status =
        failed ? coffer__fail(err, COFFER_ERR_MEMORY, "no memory to record what bytes are")
               : coffer__import_plan_put_pair(rows->plan, key, sizeof key - 1, json.text, json.used, err);
    coffer__writing_free(&json);
    return status;
}
