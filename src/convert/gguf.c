/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of GGUF, versions 2 and 3:
 *
 *   "GGUF" | version u32 | tensors u64 | keys u64
 *   keys times      key text | type u32 | value                        (gguf_values.c)
 *   tensors times   name text | rank u32 | dimensions u64 each, the innermost first | type u32 | offset u64
 *   padding to the alignment | data, from which offsets count
 *
 * A text is a u64 length and its bytes. The alignment is the key general.alignment, 32 without it. In a big-endian file the
 * version's low half is zero when it is read as little-endian.
 *
 * A model may be several files, PREFIX-00001-of-00003.gguf, which are read as one: metadata are those of the first.
 *
 * Tensors of plain types become dtypes. Those of block types (gguf_blocks.h) have none: wanted raw they are rows of bytes,
 * and what they are is recorded in the metadata under gguf.tensors, so that the same file can be made again.
 */
#include "alloc.h"
#include "checked.h"
#include "error.h"
#include "gguf_blocks.h"
#include "gguf_values.h"
#include "readers.h"
#include "shard_name.h"
#include "sort.h"
#include "text.h"
#include "writing.h"

#include <string.h>

#define GGUF_MOST_RANK 4
#define GGUF_LEAST_INFO 32 /* bytes of the shortest description of a tensor: an empty name, no dimensions */
#define GGUF_LEAST_PAIR 13 /* likewise of a key and a value of one byte */
#define GGUF_MOST_ALIGNMENT ((uint64_t)1 << 20)
#define GGUF_MOST_NAME 65535

/* A tensor as its file describes it. */
typedef struct gguf_tensor {
    uint32_t name; /* a text of the plan */
    uint32_t rank;
    uint64_t dimensions[GGUF_MOST_RANK]; /* the innermost first */
    const coffer__gguf_type *type;
    uint64_t offset; /* from where the data begin */
    uint64_t size;   /* bytes */
} gguf_tensor;

typedef struct gguf_reading {
    const coffer__wants *wants;
    coffer__plan *plan;
    coffer__gguf_in in;
    uint64_t alignment;
    gguf_tensor *tensors; /* of the file that is being read */
    size_t tensor_count;
    size_t tensor_room;
    coffer__writing raw; /* the JSON of gguf.tensors, without its braces */
} gguf_reading;

static coffer_status gguf_fail(const gguf_reading *gguf, const char *what, coffer_error *err)
{
    return coffer__fail_at(err, COFFER_ERR_ARCHIVE, coffer__gguf_at(&gguf->in), "the GGUF file is damaged: %s", what);
}

/* ---- The beginning ----------------------------------------------------------------------------------------------- */

static bool gguf_sniff(const uint8_t *head, size_t head_size, const uint8_t *tail, size_t tail_size, const char *path,
                       size_t path_len)
{
    (void)tail;
    (void)tail_size;
    (void)path;
    (void)path_len;
    return head_size >= 4 && memcmp(head, "GGUF", 4) == 0;
}

/* The counts are compared with the bytes that are left, so that nobody walks over 2^60 keys that are not there. */
static coffer_status gguf_read_head(gguf_reading *gguf, uint64_t *tensors, uint64_t *pairs, coffer_error *err)
{
    uint64_t version = 0;
    coffer_status status = coffer__gguf_skip(&gguf->in, 4, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__gguf_number(&gguf->in, 4, &version, err);
    if (status != COFFER_OK) {
        return status;
    }
    gguf->in.swapped = (version & 0xffff) == 0;
    version = gguf->in.swapped ? __builtin_bswap32((uint32_t)version) : version;
    if (version != 2 && version != 3) {
        return coffer__fail_at(err, COFFER_ERR_UNSUPPORTED, 4, "GGUF of version %u, of which only 2 and 3 are read",
                               version);
    }
    status = coffer__gguf_number(&gguf->in, 8, tensors, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__gguf_number(&gguf->in, 8, pairs, err);
    if (status != COFFER_OK) {
        return status;
    }
    const uint64_t left = coffer__gguf_left(&gguf->in);
    if (*tensors > left / GGUF_LEAST_INFO || *pairs > left / GGUF_LEAST_PAIR) {
        return gguf_fail(gguf, "it counts more tensors or keys than it has bytes for", err);
    }
    return COFFER_OK;
}

/* ---- Keys -------------------------------------------------------------------------------------------------------- */

/* What the reader itself needs to know of the keys. */
static coffer_status gguf_notice(gguf_reading *gguf, const coffer__gguf_value *value, coffer_error *err)
{
    if (!coffer__text_is(value->key, value->key_len, "general.alignment")) {
        return COFFER_OK;
    }
    gguf->alignment = value->number;
    const bool is_power = value->number != 0 && (value->number & (value->number - 1)) == 0;
    if (!value->is_unsigned || !is_power || value->number > GGUF_MOST_ALIGNMENT) {
        return gguf_fail(gguf, "general.alignment is no power of two up to 1 MiB", err);
    }
    return COFFER_OK;
}

static coffer_status gguf_put_value(const gguf_reading *gguf, const coffer__gguf_value *value, coffer_error *err)
{
    char key[sizeof "gguf." + COFFER__GGUF_MOST_KEY];
    if (value->json_len == 0) {
        return coffer__plan_put_finding(gguf->plan, COFFER_WEIGHT_NOTE, gguf->in.file, value->at, "",
                                        "the value of the key %q is too long for metadata, and is left out", value->key,
                                        value->key_len, err);
    }
    memcpy(key, "gguf.", 5);
    memcpy(key + 5, value->key, value->key_len);
    return coffer__plan_put_pair(gguf->plan, key, 5 + value->key_len, value->json, value->json_len, err);
}

/* Of several files only the first one's keys are those of the model; the others' are read for the alignment. */
static coffer_status gguf_read_pairs(gguf_reading *gguf, uint64_t count, bool keep, coffer_error *err)
{
    for (uint64_t i = 0; i < count; i++) {
        coffer__gguf_value value;
        coffer_status status = coffer__gguf_read_value(&gguf->in, &value, err);
        if (status != COFFER_OK) {
            return status;
        }
        status = gguf_notice(gguf, &value, err);
        if (status != COFFER_OK) {
            return status;
        }
        status = keep ? gguf_put_value(gguf, &value, err) : COFFER_OK;
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */

static coffer_status gguf_fail_tensor(const gguf_reading *gguf, const gguf_tensor *tensor, const char *what,
                                      coffer_error *err)
{
    size_t name_len = 0;
    const char *name = coffer__plan_text(gguf->plan, tensor->name, &name_len);
    return coffer__fail_tensor(err, gguf_fail(gguf, what, err), name, name_len);
}

/* Elements and bytes, every step checked: dimensions come from the file, and their product may wrap. */
static coffer_status gguf_measure(const gguf_reading *gguf, gguf_tensor *tensor, coffer_error *err)
{
    const coffer__gguf_type *type = tensor->type;
    uint64_t elements = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (!coffer__mul_u64(elements, tensor->dimensions[i], &elements)) {
            return gguf_fail_tensor(gguf, tensor, "the product of a tensor's dimensions is beyond 2^64-1", err);
        }
    }
    const uint64_t row = tensor->rank > 0 ? tensor->dimensions[0] : 1;
    if (row % type->elements != 0) {
        return gguf_fail_tensor(gguf, tensor, "a tensor's rows are not whole blocks of its type", err);
    }
    if (!coffer__mul_u64(elements / type->elements, type->size, &tensor->size)) {
        return gguf_fail_tensor(gguf, tensor, "a tensor's size is beyond 2^64-1", err);
    }
    return COFFER_OK;
}

static coffer_status gguf_read_name(gguf_reading *gguf, gguf_tensor *tensor, coffer_error *err)
{
    const char *name = NULL;
    size_t name_len = 0;
    const coffer_status status = coffer__gguf_text(&gguf->in, COFFER__GGUF_MOST_KEY, &name, &name_len, err);
    return status == COFFER_OK ? coffer__plan_put_text(gguf->plan, name, name_len, &tensor->name, err) : status;
}

static coffer_status gguf_read_dimensions(gguf_reading *gguf, gguf_tensor *tensor, coffer_error *err)
{
    uint64_t rank = 0;
    coffer_status status = coffer__gguf_number(&gguf->in, 4, &rank, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (rank > GGUF_MOST_RANK) {
        return gguf_fail_tensor(gguf, tensor, "a tensor has more than 4 dimensions", err);
    }
    tensor->rank = (uint32_t)rank;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        status = coffer__gguf_number(&gguf->in, 8, &tensor->dimensions[i], err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

static coffer_status gguf_read_type_of(gguf_reading *gguf, gguf_tensor *tensor, coffer_error *err)
{
    uint64_t number = 0;
    const coffer_status status = coffer__gguf_number(&gguf->in, 4, &number, err);
    if (status != COFFER_OK) {
        return status;
    }
    tensor->type = coffer__gguf_type_of((uint32_t)number);
    if (tensor->type == NULL) {
        size_t name_len = 0;
        const char *name = coffer__plan_text(gguf->plan, tensor->name, &name_len);
        coffer__fail_at(err, COFFER_ERR_NO_EQUIVALENT, coffer__gguf_at(&gguf->in) - 4,
                        "a tensor of GGUF's type %u, which no published version of the format has in files", number);
        return coffer__fail_tensor(err, COFFER_ERR_NO_EQUIVALENT, name, name_len);
    }
    return COFFER_OK;
}

static coffer_status gguf_read_tensor(gguf_reading *gguf, gguf_tensor *tensor, coffer_error *err)
{
    coffer_status status = gguf_read_name(gguf, tensor, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = gguf_read_dimensions(gguf, tensor, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = gguf_read_type_of(gguf, tensor, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__gguf_number(&gguf->in, 8, &tensor->offset, err);
    return status == COFFER_OK ? gguf_measure(gguf, tensor, err) : status;
}

static coffer_status gguf_read_tensors(gguf_reading *gguf, uint64_t count, coffer_error *err)
{
    const coffer_allocator *allocator = gguf->plan->allocator;
    for (uint64_t i = 0; i < count; i++) {
        gguf_tensor *tensors =
            coffer__grow_array(allocator, gguf->tensors, gguf->tensor_count, &gguf->tensor_room, sizeof *tensors, err);
        if (tensors == NULL) {
            return COFFER_ERR_MEMORY;
        }
        gguf->tensors = tensors;
        gguf_tensor *tensor = &tensors[gguf->tensor_count];
        *tensor = (gguf_tensor){ 0 };
        const coffer_status status = gguf_read_tensor(gguf, tensor, err);
        if (status != COFFER_OK) {
            return status;
        }
        gguf->tensor_count++;
    }
    return COFFER_OK;
}

/* ---- Where the bytes are ----------------------------------------------------------------------------------------- */

static bool gguf_before(const void *ctx, uint32_t a, uint32_t b)
{
    const gguf_tensor *tensors = ctx;
    return tensors[a].offset < tensors[b].offset;
}

/* Each tensor lies within the file, on the alignment, and none over another. `begin` is where the data begin. */
static coffer_status gguf_check_places(const gguf_reading *gguf, uint64_t begin, const uint32_t *order,
                                       coffer_error *err)
{
    uint64_t end = 0;
    const uint64_t room = gguf->in.file_size > begin ? gguf->in.file_size - begin : 0;
    for (size_t i = 0; i < gguf->tensor_count; i++) {
        const gguf_tensor *tensor = &gguf->tensors[order[i]];
        if (tensor->offset % gguf->alignment != 0) {
            return gguf_fail_tensor(gguf, tensor, "a tensor's offset is not on the file's alignment", err);
        }
        if (tensor->size > 0 && tensor->offset < end) {
            return gguf_fail_tensor(gguf, tensor, "two tensors share bytes", err);
        }
        if (tensor->offset > room || tensor->size > room - tensor->offset) {
            return gguf_fail_tensor(gguf, tensor, "a tensor lies beyond the end of the file", err);
        }
        end = tensor->size > 0 ? tensor->offset + tensor->size : end;
    }
    return COFFER_OK;
}

static coffer_status gguf_check_order(const gguf_reading *gguf, uint64_t begin, coffer_error *err)
{
    const coffer_allocator *allocator = gguf->plan->allocator;
    uint32_t *order = coffer__alloc_array(allocator, gguf->tensor_count + 1, sizeof *order, err);
    if (order == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < gguf->tensor_count; i++) {
        order[i] = (uint32_t)i;
    }
    coffer__sort(order, gguf->tensor_count, gguf_before, gguf->tensors);
    const coffer_status status = gguf_check_places(gguf, begin, order, err);
    coffer__free_array(allocator, order, gguf->tensor_count + 1, sizeof *order);
    return status;
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

/* What a raw row was: {"NAME": {"type": "Q4_K", "shape": [64, 256]}, ...}. */
static void gguf_record_raw(gguf_reading *gguf, const gguf_tensor *tensor)
{
    char digits[20];
    size_t name_len = 0;
    const char *name = coffer__plan_text(gguf->plan, tensor->name, &name_len);
    coffer__write(&gguf->raw, ", ", gguf->raw.used > 0 ? 2 : 0);
    coffer__write_json_n(&gguf->raw, name, name_len);
    coffer__write_text(&gguf->raw, ": {\"type\": ");
    coffer__write_json(&gguf->raw, tensor->type->name);
    coffer__write_text(&gguf->raw, ", \"shape\": [");
    for (uint32_t i = tensor->rank; i > 0; i--) {
        coffer__write(&gguf->raw, digits, coffer__write_u64(digits, tensor->dimensions[i - 1]));
        coffer__write(&gguf->raw, ", ", i > 1 ? 2 : 0);
    }
    coffer__write_text(&gguf->raw, "]}");
}

/* Dimensions with the slowest first, and dense strides: of the elements, or of the bytes of rows of blocks. */
static void gguf_shape(const gguf_tensor *tensor, uint64_t item_size, coffer__plan_dimension *dimensions)
{
    /* Unsigned: beside a dimension of 0 the others may be anything, and nothing is ever reached by such a stride. */
    uint64_t stride = item_size;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        uint64_t size = tensor->dimensions[i];
        if (i == 0 && tensor->type->elements > 1) {
            size = size / tensor->type->elements * tensor->type->size;
        }
        dimensions[tensor->rank - 1 - i] = (coffer__plan_dimension){ size, size, (int64_t)stride };
        stride *= size > 0 ? size : 1;
    }
}

static coffer_status gguf_put_row(gguf_reading *gguf, const gguf_tensor *tensor, uint64_t begin, coffer_error *err)
{
    const bool raw = tensor->type->dtype == COFFER_UNKNOWN_DTYPE;
    const coffer_dtype dtype = raw ? COFFER_U8 : tensor->type->dtype;
    const uint64_t item_size = raw ? 1 : tensor->type->size;
    const coffer__plan_piece piece = {
        .file = gguf->in.file, .offset = begin + tensor->offset, .stored_size = tensor->size, .size = tensor->size
    };
    coffer__plan_dimension dimensions[GGUF_MOST_RANK];
    coffer__plan_row row = {
        .name = tensor->name,
        .dtype = dtype,
        .rank = tensor->rank,
        .item_size = item_size,
        .swap = gguf->in.swapped && item_size > 1 ? (uint8_t)item_size : 0,
    };
    gguf_shape(tensor, item_size, dimensions);
    coffer_status status = coffer__plan_put_piece(gguf->plan, &piece, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__plan_put_storage(gguf->plan, 1, tensor->name, &row.storage, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (raw) {
        gguf_record_raw(gguf, tensor);
    }
    return coffer__plan_put_row(gguf->plan, &row, dimensions, err);
}

/* Blocks have no dtype: it is for the user to say what is to become of them. The message counts what there is. */
static coffer_status gguf_refuse_blocks(const gguf_reading *gguf, coffer_error *err)
{
    uint64_t count = 0;
    uint64_t bytes = 0;
    uint64_t elements = 0;
    const gguf_tensor *first = NULL;
    for (size_t i = 0; i < gguf->tensor_count; i++) {
        const gguf_tensor *tensor = &gguf->tensors[i];
        if (tensor->type->dtype == COFFER_UNKNOWN_DTYPE) {
            first = first == NULL ? tensor : first;
            count++;
            bytes += tensor->size;
            elements += tensor->size / tensor->type->size * tensor->type->elements;
        }
    }
    size_t name_len = 0;
    const char *name = coffer__plan_text(gguf->plan, first->name, &name_len);
    coffer__fail(
        err, COFFER_ERR_NO_EQUIVALENT,
        "%u tensors are quantised in blocks (%s and others), which safetensors has no dtype for: --raw keeps their "
        "%z as bytes",
        count, first->type->name, bytes);
    return coffer__fail_tensor(err, COFFER_ERR_NO_EQUIVALENT, name, name_len);
}

static coffer_status gguf_put_rows(gguf_reading *gguf, uint64_t begin, coffer_error *err)
{
    for (size_t i = 0; i < gguf->tensor_count; i++) {
        const gguf_tensor *tensor = &gguf->tensors[i];
        if (tensor->type->dtype == COFFER_UNKNOWN_DTYPE && !gguf->wants->raw_blocks) {
            return gguf_refuse_blocks(gguf, err);
        }
        const coffer_status status = gguf_put_row(gguf, tensor, begin, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

/* One file; `keep`: its keys are those of the model. */
static coffer_status gguf_read_one(gguf_reading *gguf, bool keep, coffer_error *err)
{
    uint64_t pairs = 0;
    uint64_t tensors = 0;
    uint64_t begin = 0;
    gguf->alignment = 32;
    gguf->tensor_count = 0;
    coffer_status status = gguf_read_head(gguf, &tensors, &pairs, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = gguf_read_pairs(gguf, pairs, keep, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = gguf_read_tensors(gguf, tensors, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (!coffer__round_up_u64(coffer__gguf_at(&gguf->in), gguf->alignment, &begin)) {
        return gguf_fail(gguf, "its data begin beyond byte 2^64-1", err);
    }
    status = gguf_check_order(gguf, begin, err);
    if (status != COFFER_OK) {
        return status;
    }
    return gguf->wants->scan ? COFFER_OK : gguf_put_rows(gguf, begin, err);
}

/* Moves on to another file: the input itself, number 0, or one that is opened by its name beside it. */
static coffer_status gguf_go_to(gguf_reading *gguf, const coffer__input *input, const coffer__path *name,
                                coffer_error *err)
{
    coffer__gguf_in *in = &gguf->in;
    uint32_t number = 0;
    in->file = 0;
    in->file_size = input->size;
    in->at = in->size = in->position = 0;
    if (name == NULL) {
        return COFFER_OK;
    }
    const size_t name_len = strlen(name->text);
    const coffer_status status = input->open(input->ctx, name->text, name_len, &in->file, &in->file_size, err);
    if (status != COFFER_OK) {
        return status;
    }
    return coffer__plan_put_file(gguf->plan, name->text, name_len, &number, err);
}

/* All files of a set, in order; `parts` are those of the input's own name. */
static coffer_status gguf_read_set(gguf_reading *gguf, const coffer__input *input, const char *own,
                                   const coffer__shard_name *parts, coffer_error *err)
{
    for (uint32_t number = 1; number <= parts->total; number++) {
        coffer__path name;
        coffer__shard_name_make(&name, own, parts, number);
        coffer_status status = gguf_go_to(gguf, input, number == parts->number ? NULL : &name, err);
        if (status != COFFER_OK) {
            return status;
        }
        status = gguf_read_one(gguf, number == 1, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

static coffer_status gguf_read_files(gguf_reading *gguf, const coffer__input *input, coffer_error *err)
{
    coffer__shard_name parts;
    const char *own = input->path;
    for (size_t i = 0; i < input->path_len; i++) {
        own = input->path[i] == '/' ? input->path + i + 1 : own;
    }
    const size_t own_len = input->path_len - (size_t)(own - input->path);
    if (coffer__shard_name_read_ending(&parts, own, own_len, ".gguf") && parts.total > 1) {
        return gguf_read_set(gguf, input, own, &parts, err);
    }
    const coffer_status status = gguf_go_to(gguf, input, NULL, err);
    return status == COFFER_OK ? gguf_read_one(gguf, true, err) : status;
}

static coffer_status gguf_put_raw(gguf_reading *gguf, coffer_error *err)
{
    static const char key[] = "gguf.tensors";
    coffer__writing json = { .allocator = gguf->plan->allocator };
    if (gguf->raw.used == 0 && !gguf->raw.failed) {
        return COFFER_OK;
    }
    coffer__write_text(&json, "{");
    coffer__write(&json, gguf->raw.text, gguf->raw.used);
    coffer__write_text(&json, "}");
    const bool failed = gguf->raw.failed || json.failed;
    const coffer_status status =
        failed ? coffer__fail(err, COFFER_ERR_MEMORY, "no memory to record the types of tensors")
               : coffer__plan_put_pair(gguf->plan, key, sizeof key - 1, json.text, json.used, err);
    coffer__writing_free(&json);
    return status;
}

static coffer_status gguf_read(const coffer__input *input, const coffer__wants *wants, coffer__plan *plan,
                               coffer_error *err)
{
    const coffer_allocator *allocator = plan->allocator;
    const size_t room = COFFER__GGUF_WINDOW + COFFER__GGUF_MOST_KEY;
    gguf_reading gguf = { .wants = wants, .plan = plan, .in = { .input = input }, .raw = { .allocator = allocator } };
    gguf.in.json.allocator = allocator;
    gguf.in.window = coffer__alloc_array(allocator, room, 1, err);
    if (gguf.in.window == NULL) {
        return COFFER_ERR_MEMORY;
    }
    gguf.in.key = (char *)gguf.in.window + COFFER__GGUF_WINDOW;
    coffer_status status = gguf_read_files(&gguf, input, err);
    if (status == COFFER_OK) {
        status = gguf_put_raw(&gguf, err);
    }
    coffer__writing_free(&gguf.raw);
    coffer__writing_free(&gguf.in.json);
    coffer__free_array(allocator, gguf.tensors, gguf.tensor_room, sizeof *gguf.tensors);
    coffer__free_array(allocator, gguf.in.window, room, 1);
    return status;
}

const coffer__reader coffer__reader_gguf = { "gguf", "a GGUF model", gguf_sniff, gguf_read };
