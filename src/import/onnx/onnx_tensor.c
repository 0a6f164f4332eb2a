/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a TensorProto to a row: see onnx_tensor.h. Its fields, which come in any order:
 *
 *   1 dims   2 data_type   3 segment   4 float_data   5 int32_data   6 string_data   7 int64_data   8 name   9 raw_data
 *   10 double_data   11 uint64_data   12 doc_string   13 external_data   14 data_location   16 metadata_props
 *
 * First all fields are read, then it is seen whether they fit together: one way to have elements, as many of them as the
 * shape says. Fields that come once at most are refused when they come twice, since programs differ in which they take.
 */
#include "onnx_tensor.h"

#include "alloc.h"
#include "checked.h"
#include "decode_numbers.h"
#include "dtype.h"
#include "error.h"
#include "model_dir_name.h"
#include "sort.h"
#include "text.h"
#include "wire.h"

#include <string.h>

enum {
    TENSOR_DIMS = 1,
    TENSOR_TYPE = 2,
    TENSOR_SEGMENT = 3,
    TENSOR_FLOATS = 4,
    TENSOR_INT32 = 5,
    TENSOR_STRINGS = 6,
    TENSOR_INT64 = 7,
    TENSOR_NAME = 8,
    TENSOR_RAW = 9,
    TENSOR_DOUBLES = 10,
    TENSOR_UINT64 = 11,
    TENSOR_DOC = 12,
    TENSOR_EXTERNAL = 13,
    TENSOR_LOCATION = 14
};

/* A type of ONNX: what its elements become, in which field they are when they are numbers, and as what each such number
   is checked: elements of less than a byte are packed first. */
typedef struct onnx_type {
    const char *name;
    coffer_dtype dtype;
    uint8_t bits;
    uint8_t field;
    coffer_dtype number;
} onnx_type;

static const onnx_type onnx_types[] = {
    [1] = { "FLOAT", COFFER_F32, 32, TENSOR_FLOATS, COFFER_F32 },
    [2] = { "UINT8", COFFER_U8, 8, TENSOR_INT32, COFFER_U8 },
    [3] = { "INT8", COFFER_I8, 8, TENSOR_INT32, COFFER_I8 },
    [4] = { "UINT16", COFFER_U16, 16, TENSOR_INT32, COFFER_U16 },
    [5] = { "INT16", COFFER_I16, 16, TENSOR_INT32, COFFER_I16 },
    [6] = { "INT32", COFFER_I32, 32, TENSOR_INT32, COFFER_I32 },
    [7] = { "INT64", COFFER_I64, 64, TENSOR_INT64, COFFER_I64 },
    [8] = { "text", COFFER_UNKNOWN_DTYPE, 8, TENSOR_STRINGS, COFFER_UNKNOWN_DTYPE },
    [9] = { "BOOL", COFFER_BOOL, 8, TENSOR_INT32, COFFER_BOOL },
    [10] = { "FLOAT16", COFFER_F16, 16, TENSOR_INT32, COFFER_U16 },
    [11] = { "DOUBLE", COFFER_F64, 64, TENSOR_DOUBLES, COFFER_F64 },
    [12] = { "UINT32", COFFER_U32, 32, TENSOR_UINT64, COFFER_U32 },
    [13] = { "UINT64", COFFER_U64, 64, TENSOR_UINT64, COFFER_U64 },
    [14] = { "COMPLEX64", COFFER_C64, 64, TENSOR_FLOATS, COFFER_F32 },
    [15] = { "COMPLEX128", COFFER_UNKNOWN_DTYPE, 128, TENSOR_DOUBLES, COFFER_F64 },
    [16] = { "BFLOAT16", COFFER_BF16, 16, TENSOR_INT32, COFFER_U16 },
    [17] = { "FLOAT8E4M3FN", COFFER_F8_E4M3, 8, TENSOR_INT32, COFFER_U8 },
    [18] = { "FLOAT8E4M3FNUZ", COFFER_F8_E4M3FNUZ, 8, TENSOR_INT32, COFFER_U8 },
    [19] = { "FLOAT8E5M2", COFFER_F8_E5M2, 8, TENSOR_INT32, COFFER_U8 },
    [20] = { "FLOAT8E5M2FNUZ", COFFER_F8_E5M2FNUZ, 8, TENSOR_INT32, COFFER_U8 },
    [21] = { "UINT4", COFFER_UNKNOWN_DTYPE, 4, TENSOR_INT32, COFFER_U8 },
    [22] = { "INT4", COFFER_UNKNOWN_DTYPE, 4, TENSOR_INT32, COFFER_U8 },
    [23] = { "FLOAT4E2M1", COFFER_F4, 4, TENSOR_INT32, COFFER_U8 },
    [24] = { "FLOAT8E8M0", COFFER_F8_E8M0, 8, TENSOR_INT32, COFFER_U8 },
    [25] = { "UINT2", COFFER_UNKNOWN_DTYPE, 2, TENSOR_INT32, COFFER_U8 },
    [26] = { "INT2", COFFER_UNKNOWN_DTYPE, 2, TENSOR_INT32, COFFER_U8 },
    [27] = { "FLOAT6E2M3", COFFER_F6_E2M3, 6, TENSOR_INT32, COFFER_U8 },
    [28] = { "FLOAT6E3M2", COFFER_F6_E3M2, 6, TENSOR_INT32, COFFER_U8 },
};

/* A range of the file. */
typedef struct onnx_range {
    bool there;
    uint64_t at;
    uint64_t size;
} onnx_range;

/* A TensorProto as it is read. */
typedef struct onnx_tensor {
    coffer__dense dense;
    const onnx_type *type;
    uint32_t seen; /* bits of the fields that come once */
    onnx_range name;
    onnx_range raw;
    uint32_t field;     /* the field of the numbers */
    onnx_range numbers; /* where the numbers are */
    uint32_t tag;       /* the tag before each number, or 0 */
    uint64_t count;     /* how many numbers, if they have tags */
    bool strings;
    bool external; /* its elements are in another file */
    onnx_range location;
    uint64_t offset;
    uint64_t length;
    bool has_length;
    uint32_t keys; /* bits of the keys of external_data that came */
} onnx_tensor;

static coffer_status onnx_fail(const onnx_tensor *tensor, const char *what, coffer_error *err)
{
    const coffer__dense *dense = &tensor->dense;
    const coffer_status status =
        coffer__fail_at(err, COFFER_ERR_DAMAGED, dense->at, "the ONNX tensor at byte %u %s", dense->at, what);
    return dense->name != NULL ? coffer__fail_tensor(err, status, dense->name, dense->name_len) : status;
}

coffer_status coffer__onnx_text(coffer__onnx *onnx, uint64_t at, uint64_t size, const char **text, coffer_error *err)
{
    const uint8_t *bytes = NULL;
    if (size > COFFER__ONNX_MAX_NAME) {
        return coffer__fail_at(err, COFFER_ERR_DAMAGED, at, "a name of the ONNX model has %z, which is too long", size);
    }
    const coffer_status status = coffer__file_window_get(onnx->window, at, (size_t)size, &bytes, err);
    *text = (const char *)bytes;
    return status;
}

/* ---- fields ------------------------------------------------------------------------------------------------------ */

static coffer_status onnx_add_dimension(onnx_tensor *tensor, uint64_t size, coffer_error *err)
{
    if (tensor->dense.rank == COFFER__PLAN_MAX_RANK || size > INT64_MAX) {
        return onnx_fail(tensor, "has more than 64 dimensions, or one below 0", err);
    }
    tensor->dense.shape[tensor->dense.rank++] = size;
    return COFFER_OK;
}

/* Packed or one by one. */
static coffer_status onnx_read_dimensions(coffer__onnx *onnx, onnx_tensor *tensor, const coffer__wire_field *field,
                                          coffer_error *err)
{
    const uint64_t end = field->begin + field->size;
    uint64_t at = field->begin;
    if (field->kind == COFFER__WIRE_VARINT) {
        return onnx_add_dimension(tensor, field->value, err);
    }
    if (field->kind != COFFER__WIRE_BYTES) {
        return onnx_fail(tensor, "has dimensions of another kind", err);
    }
    while (at < end) {
        const uint8_t *bytes = NULL;
        size_t size = 0;
        uint64_t value = 0;
        coffer_status status =
            coffer__file_window_peek(onnx->window, at, end, COFFER__WIRE_MAX_VARINT, &bytes, &size, err);
        if (status != COFFER_OK) {
            return status;
        }
        const size_t taken = coffer__wire_varint(bytes, size, &value);
        if (taken == 0) {
            return onnx_fail(tensor, "has a dimension that is no number", err);
        }
        at += taken;
        status = onnx_add_dimension(tensor, value, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* Numbers are packed, in one field, or follow one another with a tag each. Both may come in several parts by the rules of
   protobuf, which no program writes. */
static coffer_status onnx_read_numbers(onnx_tensor *tensor, const coffer__wire_field *field, coffer_error *err)
{
    onnx_range *numbers = &tensor->numbers;
    const uint32_t tag = field->kind == COFFER__WIRE_BYTES ? 0 : field->number << 3 | (uint32_t)field->kind;
    const uint64_t begin = tag == 0 ? field->begin : field->at;
    const uint64_t end = field->begin + field->size;
    if (tag == 0 && field->size == 0) {
        return COFFER_OK;
    }
    /* The tag is written in one byte: a longer spelling of the same number is nobody's. */
    if (tag != 0 && end - field->at != field->size + 1) {
        return onnx_fail(tensor, "has a tag in a spelling of its own", err);
    }
    if (!numbers->there) {
        *numbers = (onnx_range){ true, begin, end - begin };
        tensor->field = field->number;
        tensor->tag = tag;
        tensor->count = 1;
        return COFFER_OK;
    }
    if (tag == 0 || tag != tensor->tag || numbers->at + numbers->size != begin) {
        return onnx_fail(tensor, "has its elements in several parts", err);
    }
    numbers->size += end - begin;
    tensor->count++;
    return COFFER_OK;
}

/* ---- external data ----------------------------------------------------------------------------------------------- */

/* A decimal number, and nothing else. */
static bool onnx_decimal(const char *text, uint64_t len, uint64_t *number)
{
    *number = 0;
    for (uint64_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9' || !coffer__mul_u64(*number, 10, number) ||
            !coffer__add_u64(*number, (uint64_t)(text[i] - '0'), number)) {
            return false;
        }
    }
    return len > 0;
}

/* The key and the value of an entry, as places. */
static coffer_status onnx_read_pair(coffer__onnx *onnx, const coffer__wire_field *pair, onnx_range both[2],
                                    coffer_error *err)
{
    const uint64_t end = pair->begin + pair->size;
    coffer__wire_field field;
    both[0] = both[1] = (onnx_range){ .there = false };
    for (uint64_t at = pair->begin; at < end; at = field.begin + field.size) {
        const coffer_status status = coffer__wire_next(onnx->window, at, end, &field, err);
        if (status != COFFER_OK) {
            return status;
        }
        if (field.number < 1 || field.number > 2) {
            continue;
        }
        if (field.kind != COFFER__WIRE_BYTES || both[field.number - 1].there) {
            return coffer__fail_at(err, COFFER_ERR_DAMAGED, at, "an entry of the ONNX model has a key or value twice");
        }
        both[field.number - 1] = (onnx_range){ true, field.begin, field.size };
    }
    return COFFER_OK;
}

/* One of the keys that say where elements are; others are for other programs. Each may come once: which of two is meant
   is what attacks on loaders rely on. */
static coffer_status onnx_read_external(coffer__onnx *onnx, onnx_tensor *tensor, const coffer__wire_field *pair,
                                        coffer_error *err)
{
    static const char *const keys[] = { "location", "offset", "length" };
    onnx_range both[2];
    const char *text = NULL;
    size_t which = 0;
    coffer_status status = onnx_read_pair(onnx, pair, both, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__onnx_text(onnx, both[0].at, both[0].size, &text, err);
    if (status != COFFER_OK) {
        return status;
    }
    while (which < 3 && !coffer__text_is(text, (size_t)both[0].size, keys[which])) {
        which++;
    }
    if (which == 3) {
        return COFFER_OK;
    }
    if ((tensor->keys >> which & 1) != 0) {
        return onnx_fail(tensor, "says twice where its elements are", err);
    }
    tensor->keys |= 1u << which;
    if (which == 0) {
        tensor->location = both[1];
        return COFFER_OK;
    }
    status = coffer__onnx_text(onnx, both[1].at, both[1].size, &text, err);
    if (status != COFFER_OK) {
        return status;
    }
    uint64_t *number = which == 1 ? &tensor->offset : &tensor->length;
    tensor->has_length = tensor->has_length || which == 2;
    return onnx_decimal(text, both[1].size, number)
               ? COFFER_OK
               : onnx_fail(tensor, "has an offset or length that is no number", err);
}

/* ---- the whole tensor -------------------------------------------------------------------------------------------- */

static coffer_status onnx_read_type(onnx_tensor *tensor, uint64_t number, coffer_error *err)
{
    if (number >= sizeof onnx_types / sizeof onnx_types[0] || onnx_types[number].name == NULL) {
        coffer__fail_at(err, COFFER_ERR_UNSUPPORTED, tensor->dense.at,
                        "the ONNX tensor at byte %u is of type %u, which is not known", tensor->dense.at, number);
        return COFFER_ERR_UNSUPPORTED;
    }
    tensor->type = &onnx_types[number];
    return COFFER_OK;
}

static coffer_status onnx_read_field(coffer__onnx *onnx, onnx_tensor *tensor, const coffer__wire_field *field,
                                     coffer_error *err)
{
    static const uint8_t kinds[] = { [TENSOR_TYPE] = COFFER__WIRE_VARINT,    [TENSOR_NAME] = COFFER__WIRE_BYTES,
                                     [TENSOR_RAW] = COFFER__WIRE_BYTES,      [TENSOR_DOC] = COFFER__WIRE_BYTES,
                                     [TENSOR_EXTERNAL] = COFFER__WIRE_BYTES, [TENSOR_LOCATION] = COFFER__WIRE_VARINT };
    static const uint32_t once =
        1u << TENSOR_TYPE | 1u << TENSOR_NAME | 1u << TENSOR_RAW | 1u << TENSOR_DOC | 1u << TENSOR_LOCATION;
    const uint32_t bit = field->number < 32 ? 1u << field->number : 0;
    if ((tensor->seen & bit & once) != 0) {
        return onnx_fail(tensor, "has a field twice that can be there once", err);
    }
    tensor->seen |= bit;
    if (((once | 1u << TENSOR_EXTERNAL) & bit) != 0 && field->kind != (coffer__wire_kind)kinds[field->number]) {
        return onnx_fail(tensor, "has a field of another kind than it should be", err);
    }
    switch (field->number) {
    case TENSOR_DIMS:
        return onnx_read_dimensions(onnx, tensor, field, err);
    case TENSOR_TYPE:
        return onnx_read_type(tensor, field->value, err);
    case TENSOR_SEGMENT:
        return onnx_fail(tensor, "is one of several segments, which are not put together", err);
    case TENSOR_FLOATS:
    case TENSOR_INT32:
    case TENSOR_INT64:
    case TENSOR_DOUBLES:
    case TENSOR_UINT64:
        return onnx_read_numbers(tensor, field, err);
    case TENSOR_STRINGS:
        tensor->strings = true;
        return COFFER_OK;
    case TENSOR_NAME:
        tensor->name = (onnx_range){ true, field->begin, field->size };
        return COFFER_OK;
    case TENSOR_RAW:
        tensor->raw = (onnx_range){ true, field->begin, field->size };
        return COFFER_OK;
    case TENSOR_EXTERNAL:
        return onnx_read_external(onnx, tensor, field, err);
    case TENSOR_LOCATION:
        tensor->external = field->value != 0;
        return field->value <= 1 ? COFFER_OK : onnx_fail(tensor, "is at a location that is not known", err);
    default:
        return COFFER_OK;
    }
}

static coffer_status onnx_read_fields(coffer__onnx *onnx, onnx_tensor *tensor, uint64_t end, coffer_error *err)
{
    coffer__wire_field field;
    for (uint64_t at = tensor->dense.at; at < end; at = field.begin + field.size) {
        coffer_status status = coffer__wire_next(onnx->window, at, end, &field, err);
        if (status != COFFER_OK) {
            return status;
        }
        status = onnx_read_field(onnx, tensor, &field, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* The name of the row, which is built in `name`: the prefix and the tensor's own. */
static coffer_status onnx_name(coffer__onnx *onnx, onnx_tensor *tensor, bool alone, coffer__writing *name,
                               coffer_error *err)
{
    const char *own = NULL;
    if (!alone && tensor->name.size > 0) {
        const coffer_status status = coffer__onnx_text(onnx, tensor->name.at, tensor->name.size, &own, err);
        if (status != COFFER_OK) {
            return status;
        }
        coffer__write(name, own, (size_t)tensor->name.size);
    }
    if (!alone && own == NULL) {
        return onnx_fail(tensor, "has no name", err);
    }
    coffer__write(name, "", 1);
    if (name->failed) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the name of a tensor");
    }
    tensor->dense.name = name->text;
    tensor->dense.name_len = name->used - 1;
    return COFFER_OK;
}

/* What the type says of the elements. Those that share bytes and do not fill the last one have no dtype, as their kin
   without one. */
static coffer_status onnx_set_type(onnx_tensor *tensor, uint64_t *size, coffer_error *err)
{
    const onnx_type *type = tensor->type;
    coffer__dense *dense = &tensor->dense;
    if (type == NULL) {
        return onnx_fail(tensor, "has no type", err);
    }
    dense->type = type->name;
    dense->dtype = type->dtype;
    dense->bits = type->bits;
    dense->texts = type->field == TENSOR_STRINGS;
    dense->complex128 = type->bits == 128;
    dense->packed = type->bits < 8 && type->dtype == COFFER_UNKNOWN_DTYPE;
    if (coffer__dense_size(dense, size)) {
        return COFFER_OK;
    }
    if (type->bits < 8) {
        dense->packed = true;
        dense->dtype = COFFER_UNKNOWN_DTYPE;
        if (coffer__dense_size(dense, size)) {
            return COFFER_OK;
        }
    }
    return onnx_fail(tensor, "has sizes that multiply to more than 2^64-1", err);
}

/* A file beside the model or below its folder: whoever gives the bytes decides whether it may be opened. */
static coffer_status onnx_open_file(coffer__onnx *onnx, const onnx_tensor *tensor, uint32_t *file, uint64_t *file_size,
                                    coffer_error *err)
{
    coffer__import_plan *plan = onnx->rows.plan;
    const char *name = NULL;
    uint32_t number = 0;
    coffer_status status = coffer__onnx_text(onnx, tensor->location.at, tensor->location.size, &name, err);
    if (status != COFFER_OK) {
        return status;
    }
    const size_t name_len = (size_t)tensor->location.size;
    if (coffer__model_dir_check_path(name, name_len, COFFER_NO_OFFSET, NULL) != COFFER_OK) {
        coffer__fail_at(err, COFFER_ERR_SHARD_NAME, tensor->dense.at,
                        "the elements of a tensor are in the file %q, which is not opened: only plain paths in the "
                        "folder of the model, or below it, are",
                        name, name_len);
        return coffer__fail_tensor(err, COFFER_ERR_SHARD_NAME, tensor->dense.name, tensor->dense.name_len);
    }
    status = onnx->input->open(onnx->input->ctx, name, name_len, file, file_size, err);
    if (status != COFFER_OK) {
        return coffer__fail_tensor(err, status, tensor->dense.name, tensor->dense.name_len);
    }
    if (*file < plan->file_count) {
        return COFFER_OK;
    }
    status = coffer__import_plan_put_file(plan, name, name_len, &number, err);
    return status == COFFER_OK && number != *file
               ? coffer__fail(err, COFFER_ERR_PLAN, "the files of the model are not numbered as they were opened")
               : status;
}

/* The row has no storage until all are known. */
static coffer_status onnx_put_external(coffer__onnx *onnx, const onnx_tensor *tensor, uint64_t size, coffer_error *err)
{
    uint64_t file_size = 0;
    coffer__onnx_external external = { .offset = tensor->offset, .size = size };
    if (!tensor->location.there || tensor->location.size == 0) {
        return onnx_fail(tensor, "does not say in which file its elements are", err);
    }
    if (tensor->has_length && tensor->length != size) {
        const coffer_status status = onnx_fail(tensor, "has another length in its file than its sizes make", err);
        return coffer__fail_sizes(err, status, size, tensor->length);
    }
    coffer_status status = onnx_open_file(onnx, tensor, &external.file, &file_size, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (tensor->offset > file_size || size > file_size - tensor->offset) {
        return onnx_fail(tensor, "reaches past the end of the file that its elements are in; get that file again", err);
    }
    coffer__onnx_external *externals =
        coffer__grow_array(onnx->rows.plan->allocator, onnx->externals, onnx->external_count, &onnx->external_capacity,
                           sizeof *externals, err);
    if (externals == NULL) {
        return COFFER_ERR_MEMORY;
    }
    onnx->externals = externals;
    external.row = (uint32_t)onnx->rows.plan->rows.count;
    if (onnx->rows.wants->scan) {
        return COFFER_OK;
    }
    externals[onnx->external_count++] = external;
    return coffer__dense_put(&onnx->rows, &tensor->dense, COFFER__PLAN_NO_STORAGE, err);
}

/* Numbers are moved where they lie as they are written: floats, packed. All others are decoded. */
static coffer_status onnx_put_numbers(coffer__onnx *onnx, const onnx_tensor *tensor, uint64_t size, coffer_error *err)
{
    const onnx_range *numbers = &tensor->numbers;
    const bool floats = tensor->type->number == COFFER_F32 || tensor->type->number == COFFER_F64;
    const bool plain = floats && tensor->tag == 0;
    coffer__import_plan *plan = onnx->rows.plan;
    coffer__import_plan_piece piece = { .coding = plain ? COFFER__CODING_STORED : COFFER__CODING_NUMBERS,
                                        .offset = numbers->at,
                                        .stored_size = numbers->size,
                                        .size = size };
    if (!plain) {
        piece.as.numbers.tag = tensor->tag;
        piece.as.numbers.dtype = tensor->type->number;
    }
    uint32_t name = 0;
    uint32_t storage = 0;
    if (tensor->field != tensor->type->field) {
        return onnx_fail(tensor, "has its elements in the field of another type", err);
    }
    const uint64_t count = size / (coffer__dtype_info_of(tensor->type->number)->bits / 8u);
    if ((plain ? size != numbers->size : !coffer__numbers_fit(&piece)) ||
        (tensor->tag != 0 && tensor->count != count)) {
        return onnx_fail(tensor, "has other elements than its sizes make", err);
    }
    if (onnx->rows.wants->scan) {
        return COFFER_OK;
    }
    coffer_status status = coffer__import_plan_put_text(plan, tensor->dense.name, tensor->dense.name_len, &name, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__import_plan_put_piece(plan, &piece, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__import_plan_put_storage(plan, 1, name, &storage, err);
    return status == COFFER_OK ? coffer__dense_put(&onnx->rows, &tensor->dense, storage, err) : status;
}

/* Exactly one of the ways to have elements; none for a tensor without any. */
static coffer_status onnx_put(coffer__onnx *onnx, const onnx_tensor *tensor, uint64_t size, coffer_error *err)
{
    const int ways = (tensor->raw.there && tensor->raw.size > 0) + tensor->numbers.there + tensor->external;
    if (tensor->dense.texts) {
        return onnx->rows.wants->scan ? COFFER_OK
                                      : coffer__dense_put(&onnx->rows, &tensor->dense, COFFER__PLAN_NO_STORAGE, err);
    }
    if (ways > 1 || tensor->strings) {
        return onnx_fail(tensor, "has its elements in more than one way", err);
    }
    if (tensor->external) {
        return onnx_put_external(onnx, tensor, size, err);
    }
    if (tensor->numbers.there) {
        return onnx_put_numbers(onnx, tensor, size, err);
    }
    if (tensor->raw.size != size) {
        const coffer_status status = onnx_fail(tensor, "has other elements than its sizes make", err);
        return coffer__fail_sizes(err, status, size, tensor->raw.size);
    }
    return onnx->rows.wants->scan
               ? COFFER_OK
               : coffer__dense_put_at(&onnx->rows, &tensor->dense, 0, tensor->raw.at, tensor->raw.size, err);
}

coffer_status coffer__onnx_put_tensor(coffer__onnx *onnx, uint64_t at, uint64_t end, const char *prefix,
                                      size_t prefix_len, bool alone, coffer_error *err)
{
    uint64_t size = 0;
    onnx_tensor tensor = { .dense = { .at = at } };
    coffer__writing name = { .allocator = onnx->rows.plan->allocator };
    coffer__write(&name, prefix, prefix_len);
    coffer_status status = onnx_read_fields(onnx, &tensor, end, err);
    if (status == COFFER_OK) {
        status = onnx_name(onnx, &tensor, alone, &name, err);
    }
    if (status == COFFER_OK) {
        status = onnx_set_type(&tensor, &size, err);
    }
    if (status == COFFER_OK) {
        status = onnx_put(onnx, &tensor, size, err);
    }
    coffer__writing_free(&name);
    return status;
}

/* ---- storages of other files ------------------------------------------------------------------------------------- */

/* By file and place; of those at one place the larger first, so that one that reaches over others comes before them. */
static bool onnx_external_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer__onnx_external *x = (const coffer__onnx_external *)ctx + a;
    const coffer__onnx_external *y = (const coffer__onnx_external *)ctx + b;
    if (x->file != y->file) {
        return x->file < y->file;
    }
    return x->offset != y->offset ? x->offset < y->offset : x->size > y->size;
}

static coffer_status onnx_put_storage(const coffer__onnx *onnx, const coffer__onnx_external *external,
                                      uint32_t *storage, coffer_error *err)
{
    coffer__import_plan *plan = onnx->rows.plan;
    const coffer__import_plan_row *row = coffer__import_plan_rows(plan) + external->row;
    const coffer__import_plan_piece piece = {
        .file = external->file, .offset = external->offset, .stored_size = external->size, .size = external->size
    };
    const coffer_status status = coffer__import_plan_put_piece(plan, &piece, err);
    return status == COFFER_OK ? coffer__import_plan_put_storage(plan, 1, row->name, storage, err) : status;
}

/* `order` has them by their places, so that one comparison with the one before is enough. Tensors without bytes share none,
   and have storages of their own. */
static coffer_status onnx_put_storages(const coffer__onnx *onnx, const uint32_t *order, coffer_error *err)
{
    coffer__import_plan *plan = onnx->rows.plan;
    coffer__import_plan_row *rows = plan->rows.items;
    const coffer__onnx_external *last = NULL;
    uint32_t storage = 0;
    for (size_t i = 0; i < onnx->external_count; i++) {
        const coffer__onnx_external *external = &onnx->externals[order[i]];
        const bool same_file = last != NULL && last->file == external->file;
        const bool same = same_file && last->offset == external->offset && last->size == external->size;
        uint32_t own = storage;
        if (same_file && !same && external->size > 0 && external->offset < last->offset + last->size) {
            coffer__fail_at(err, COFFER_ERR_DAMAGED, COFFER_NO_OFFSET,
                            "tensors of the ONNX model share bytes of another file, and are not the same");
            return coffer__import_plan_fail_row(plan, &rows[external->row], COFFER_ERR_DAMAGED, err);
        }
        if (!same) {
            const coffer_status status = onnx_put_storage(onnx, external, &own, err);
            if (status != COFFER_OK) {
                return status;
            }
            last = external->size > 0 ? external : last;
            storage = external->size > 0 ? own : storage;
        }
        /* A row that is skipped has no dtype, and needs no view of its bytes. */
        if (rows[external->row].fate != COFFER_FATE_SKIPPED) {
            rows[external->row].storage = own;
            ((coffer__import_plan_storage *)plan->storages.items)[own].viewed = true;
        }
    }
    return COFFER_OK;
}

coffer_status coffer__onnx_put_externals(coffer__onnx *onnx, coffer_error *err)
{
    const coffer_allocator *allocator = onnx->rows.plan->allocator;
    const size_t count = onnx->external_count;
    uint32_t *order = coffer__alloc_array(allocator, count, sizeof *order, err);
    if (order == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        order[i] = (uint32_t)i;
    }
    coffer__sort(order, count, onnx_external_before, onnx->externals);
    const coffer_status status = onnx_put_storages(onnx, order, err);
    coffer__free_array(allocator, order, count, sizeof *order);
    return status;
}
