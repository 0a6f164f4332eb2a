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
 * and what all of them are, in their order, is recorded in the metadata under gguf.tensors, so that the same file can be
 * made again.
 */
#include "alloc.h"
#include "checked.h"
#include "dtype.h"
#include "error.h"
#include "gguf_blocks.h"
#include "gguf_keys.h"
#include "gguf_scales.h"
#include "gguf_values.h"
#include "paths.h"
#include "readers.h"
#include "shard_name.h"
#include "sort.h"
#include "text.h"
#include "writing.h"

#include <string.h>

#define GGUF_MAX_RANK 4
#define GGUF_MAX_ALIGNMENT ((uint64_t)1 << 20)
#define GGUF_LISTED_TYPES 6 /* in a message */

/* A tensor as its file describes it. Its size is computed once, with every step checked, and used from then on
   without further checks. */
typedef struct gguf_tensor {
    uint32_t name; /* a text of the plan */
    uint32_t rank;
    uint64_t dimensions[GGUF_MAX_RANK]; /* the innermost first */
    const coffer__gguf_type *type;
    uint64_t offset; /* from where the data begin */
    uint64_t size;   /* bytes */
} gguf_tensor;

/* The plan owns the names, as texts with numbers: the window that they are read from moves on. The tensors are those
   of one file only, so that a set of many files takes the memory of its largest. */
typedef struct gguf_reading {
    const coffer__wants *wants;
    coffer__import_plan *plan;
    coffer__gguf_in in;
    uint64_t alignment;
    gguf_tensor *tensors; /* of the file that is being read */
    size_t tensor_count;
    size_t tensor_capacity;
    coffer__writing raw; /* the JSON of gguf.tensors, without its braces */
} gguf_reading;

static coffer_status gguf_fail(const gguf_reading *gguf, const char *what, coffer_error *err)
{
    return coffer__fail_at(err, COFFER_ERR_DAMAGED, coffer__gguf_at(&gguf->in), "the GGUF file is damaged: %s", what);
}

/* ---- The beginning ----------------------------------------------------------------------------------------------- */

/* The ending of the path is not asked: the four bytes are in every version of the format, and models are often kept
   under names of their hashes. */
static bool gguf_sniff(const uint8_t *head, size_t head_size, const uint8_t *tail, size_t tail_size, const char *path,
                       size_t path_len)
{
    (void)tail;
    (void)tail_size;
    (void)path;
    (void)path_len;
    return head_size >= 4 && memcmp(head, "GGUF", 4) == 0;
}

/* ---- Keys -------------------------------------------------------------------------------------------------------- */

/* What the reader itself needs to know of the keys. The alignment is a divisor and a bound of padding from here on,
   so nothing but a power of two within reason passes. */
static coffer_status gguf_notice(gguf_reading *gguf, const coffer__gguf_value *value, coffer_error *err)
{
    if (!coffer__text_is(value->key, value->key_len, "general.alignment")) {
        return COFFER_OK;
    }
    gguf->alignment = value->number;
    const bool is_power = value->number != 0 && (value->number & (value->number - 1)) == 0;
    if (!value->is_unsigned || !is_power || value->number > GGUF_MAX_ALIGNMENT) {
        return gguf_fail(gguf, "general.alignment is no power of two up to 1 MiB", err);
    }
    return COFFER_OK;
}

/* The key goes into a buffer of its own with the prefix, which keeps these keys apart from metadata of other
   origin. Where the JSON of a value does not tell its type, that is put under the same key with a colon. A value that is left out is told as a note: tokenizers have tables of megabytes, which do not belong in
   a header. */
static coffer_status gguf_put_value(const gguf_reading *gguf, const coffer__gguf_value *value, coffer_error *err)
{
    char key[sizeof "gguf." + COFFER__GGUF_MAX_KEY];
    if (coffer__utf8_valid_len(value->key, value->key_len) != value->key_len) {
        return gguf_fail(gguf, "the name of a key is not UTF-8", err);
    }
    if (value->json_len == 0) {
        return coffer__import_plan_put_finding(gguf->plan, COFFER_WEIGHT_NOTE, gguf->in.file, value->at, "",
                                               "the value of the key %q is too long for metadata, and is left out",
                                               value->key, value->key_len, err);
    }
    memcpy(key, "gguf.", 5);
    memcpy(key + 5, value->key, value->key_len);
    const coffer_status status =
        coffer__import_plan_put_pair(gguf->plan, key, 5 + value->key_len, value->json, value->json_len, err);
    if (status != COFFER_OK || coffer__gguf_reported_type(value->json, value->json_len) == value->type) {
        return status;
    }
    const char *type = coffer__gguf_value_name(value->type);
    key[4] = ':';
    return coffer__import_plan_put_pair(gguf->plan, key, 5 + value->key_len, type, strlen(type), err);
}

/* Of several files only the first one's keys are those of the model; the others' are read for the alignment. Values
   of other files are still read to the end, since their lengths are the only way to the next key. */
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

/* The name is in the plan since before anything else of the tensor was read, so each failure can name it. */
static coffer_status gguf_fail_tensor(const gguf_reading *gguf, const gguf_tensor *tensor, const char *what,
                                      coffer_error *err)
{
    size_t name_len = 0;
    const char *name = coffer__import_plan_text(gguf->plan, tensor->name, &name_len);
    return coffer__fail_tensor(err, gguf_fail(gguf, what, err), name, name_len);
}

/* Elements and bytes, every step checked: dimensions come from the file, and their product may wrap. Rows are checked
   to be whole blocks, not only the whole: each row begins with a block of its own, and a row that ends within one
   would have its bytes mixed with the next. */
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
    const coffer_status status = coffer__gguf_text(&gguf->in, COFFER__GGUF_MAX_KEY, &name, &name_len, err);
    return status == COFFER_OK ? coffer__import_plan_put_text(gguf->plan, name, name_len, &tensor->name, err) : status;
}

/* The rank is compared before any dimension is stored, as the array has space for four. */
static coffer_status gguf_read_dimensions(gguf_reading *gguf, gguf_tensor *tensor, coffer_error *err)
{
    uint64_t rank = 0;
    coffer_status status = coffer__gguf_number(&gguf->in, 4, &rank, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (rank > GGUF_MAX_RANK) {
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

/* A type that no published program has written; `at` is the byte that shows it. */
static coffer_status gguf_fail_type(const gguf_reading *gguf, const gguf_tensor *tensor, uint64_t at, uint64_t number,
                                    const char *what, coffer_error *err)
{
    size_t name_len = 0;
    const char *name = coffer__import_plan_text(gguf->plan, tensor->name, &name_len);
    coffer__fail_at(err, COFFER_ERR_UNSUPPORTED, at, "a tensor of GGUF's type %u, which %s", number, what);
    return coffer__fail_tensor(err, COFFER_ERR_UNSUPPORTED, name, name_len);
}

/* An unknown type is not skipped: its size is unknown as well, and with it whether other tensors lie over it. */
static coffer_status gguf_read_type_of(gguf_reading *gguf, gguf_tensor *tensor, coffer_error *err)
{
    uint64_t number = 0;
    const coffer_status status = coffer__gguf_number(&gguf->in, 4, &number, err);
    if (status != COFFER_OK) {
        return status;
    }
    tensor->type = coffer__gguf_type_of((uint32_t)number);
    return tensor->type != NULL ? COFFER_OK
                                : gguf_fail_type(gguf, tensor, coffer__gguf_at(&gguf->in) - 4, number,
                                                 "no published version of the format has in files", err);
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

/* The count was compared with the bytes of the file, but memory still grows with what was really read: a file that
   lies about its count costs no more than it has. */
static coffer_status gguf_read_tensors(gguf_reading *gguf, uint64_t count, coffer_error *err)
{
    const coffer_allocator *allocator = gguf->plan->allocator;
    for (uint64_t i = 0; i < count; i++) {
        gguf_tensor *tensors = coffer__grow_array(allocator, gguf->tensors, gguf->tensor_count, &gguf->tensor_capacity,
                                                  sizeof *tensors, err);
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

/* Equal offsets are of tensors of no bytes, or of an error that is found next, so that their order does not
   matter. */
static bool gguf_before(const void *ctx, uint32_t a, uint32_t b)
{
    const gguf_tensor *tensors = ctx;
    return tensors[a].offset < tensors[b].offset;
}

/* Whether nothing but padding lies between a tensor of blocks and the next one. Some forks give a number another meaning, and
   write larger blocks, whose first bytes would pass for numbers. Gaps after plain tensors, and bytes after the last one, do no harm. */
static bool gguf_type_fits(const gguf_reading *gguf, const gguf_tensor *tensor, uint64_t next)
{
    const uint64_t end = tensor->offset + tensor->size;
    return tensor->type->decode == NULL || next < end || next - end < gguf->alignment;
}

/* Each tensor lies within the file, on the alignment, and none over another. `begin` is where the data begin. In
   order of offsets one comparison with the end of the one before is enough. Tensors without bytes have a place
   too, but cannot share any, so they do not move that end. The sum does not overflow, as both were compared with
   the space. */
static coffer_status gguf_check_places(const gguf_reading *gguf, uint64_t begin, const uint32_t *order,
                                       coffer_error *err)
{
    uint64_t end = 0;
    /* A file without bytes of tensors may end before its padding does. */
    const uint64_t capacity = gguf->in.file_size > begin ? gguf->in.file_size - begin : 0;
    for (size_t i = 0; i < gguf->tensor_count; i++) {
        const gguf_tensor *tensor = &gguf->tensors[order[i]];
        if (tensor->offset % gguf->alignment != 0) {
            return gguf_fail_tensor(gguf, tensor, "a tensor's offset is not on the file's alignment", err);
        }
        if (tensor->size > 0 && tensor->offset < end) {
            return gguf_fail_tensor(gguf, tensor, "two tensors share bytes", err);
        }
        if (tensor->offset > capacity || tensor->size > capacity - tensor->offset) {
            return gguf_fail_tensor(gguf, tensor, "a tensor lies beyond the end of the file; get the file again", err);
        }
        const uint64_t next = i + 1 < gguf->tensor_count ? gguf->tensors[order[i + 1]].offset : 0;
        if (!gguf_type_fits(gguf, tensor, next)) {
            return gguf_fail_type(gguf, tensor, begin + tensor->offset, tensor->type->number,
                                  "has more bytes than the blocks of that type take: another program gives this number "
                                  "another meaning",
                                  err);
        }
        end = tensor->size > 0 ? tensor->offset + tensor->size : end;
    }
    return COFFER_OK;
}

/* Numbers are sorted, not tensors, whose order is the one in which they become rows. One more than there are is
   allocated, since an allocation of nothing may be NULL. */
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

/* What a row was: {"NAME": {"type": "Q4_K", "shape": [64, 256]}, ...}. The shape is written with the slowest
   dimension first, as in safetensors. Plain tensors are listed, too, since the list is also the order of all. A lack of memory is noticed once, when the text is used. */
static void gguf_record_raw(gguf_reading *gguf, const gguf_tensor *tensor)
{
    char digits[20];
    size_t name_len = 0;
    const char *name = coffer__import_plan_text(gguf->plan, tensor->name, &name_len);
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

/* What becomes of a tensor: a dtype of its own, bytes of blocks, or numbers that are made of them. */
typedef struct gguf_fate {
    coffer_dtype dtype;
    coffer__coding coding;
    uint64_t item_size;
    uint64_t row;  /* items along the innermost dimension */
    uint64_t size; /* bytes in all */
} gguf_fate;

/* What there is in blocks cannot be converted as it was asked for. Such a tensor is a failure of the whole, or a row
   that is skipped, as the caller has chosen. */
static bool gguf_lacks(const gguf_reading *gguf, const gguf_tensor *tensor)
{
    const coffer__wants *wants = gguf->wants;
    return tensor->type->decode != NULL && !wants->raw_blocks && wants->blocks_as == COFFER_UNKNOWN_DTYPE;
}

/* A row that will be skipped has the shape of its bytes, because a plan has no rows without a dtype. Blocks become more
   bytes than the file has, so that their size is checked again: that of the blocks says nothing of it. */
static coffer_status gguf_choose(const gguf_reading *gguf, const gguf_tensor *tensor, gguf_fate *fate,
                                 coffer_error *err)
{
    const coffer__gguf_type *type = tensor->type;
    const uint64_t row = tensor->rank > 0 ? tensor->dimensions[0] : 1;
    if (type->dtype != COFFER_UNKNOWN_DTYPE) {
        *fate = (gguf_fate){ type->dtype, COFFER__CODING_STORED, type->size, row, tensor->size };
        return COFFER_OK;
    }
    if (gguf->wants->raw_blocks || gguf_lacks(gguf, tensor)) {
        const uint64_t bytes = row / type->elements * type->size;
        *fate = (gguf_fate){ COFFER_U8, COFFER__CODING_STORED, 1, bytes, tensor->size };
        return COFFER_OK;
    }
    const uint64_t item_size = coffer__dtype_info_of(gguf->wants->blocks_as)->bits / 8;
    *fate = (gguf_fate){ gguf->wants->blocks_as, COFFER__CODING_BLOCKS, item_size, row, 0 };
    return coffer__mul_u64(tensor->size / type->size * type->elements, item_size, &fate->size)
               ? COFFER_OK
               : gguf_fail_tensor(gguf, tensor, "a tensor's numbers would take more than 2^64-1 bytes", err);
}

/* Dimensions with the slowest first, and dense strides. */
static void gguf_shape(const gguf_tensor *tensor, const gguf_fate *fate, coffer__import_plan_dimension *dimensions)
{
    /* Unsigned: beside a dimension of 0 the others may be anything, and nothing is ever reached by such a stride. */
    uint64_t stride = fate->item_size;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        const uint64_t size = i == 0 ? fate->row : tensor->dimensions[i];
        dimensions[tensor->rank - 1 - i] = (coffer__import_plan_dimension){ size, size, (int64_t)stride };
        stride *= size > 0 ? size : 1;
    }
}

/* Why a tensor is left out. */
static coffer_status gguf_put_reason(gguf_reading *gguf, const gguf_tensor *tensor, uint32_t *reason, coffer_error *err)
{
    coffer__writing text = { .allocator = gguf->plan->allocator };
    coffer__write_text(&text, "it is quantised in blocks of ");
    coffer__write_text(&text, tensor->type->name);
    const coffer_status status = text.failed
                                     ? coffer__fail(err, COFFER_ERR_MEMORY, "no memory to say why")
                                     : coffer__import_plan_put_text(gguf->plan, text.text, text.used, reason, err);
    coffer__writing_free(&text);
    return status;
}

/* Each tensor has a storage of its own with one piece, since no two share bytes. Blocks are decoded on the way to it,
   so that for all that follows it is a storage of numbers like any other. The bytes of blocks are never swapped: they
   have no items. */
static coffer_status gguf_put_row(gguf_reading *gguf, const gguf_tensor *tensor, uint64_t begin, coffer_error *err)
{
    gguf_fate fate;
    coffer_status status = gguf_choose(gguf, tensor, &fate, err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer__import_plan_piece piece = { .file = gguf->in.file,
                                        .coding = fate.coding,
                                        .offset = begin + tensor->offset,
                                        .stored_size = tensor->size,
                                        .size = fate.size };
    if (fate.coding == COFFER__CODING_BLOCKS) {
        piece.as.blocks.type = tensor->type->number;
        piece.as.blocks.dtype = fate.dtype;
    }
    coffer__import_plan_dimension dimensions[GGUF_MAX_RANK];
    coffer__import_plan_row row = { .name = tensor->name,
                                    .dtype = fate.dtype,
                                    .rank = tensor->rank,
                                    .item_size = fate.item_size,
                                    .swap = gguf->in.swapped && fate.item_size > 1 ? (uint8_t)fate.item_size : 0 };
    gguf_shape(tensor, &fate, dimensions);
    status = coffer__import_plan_put_piece(gguf->plan, &piece, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__import_plan_put_storage(gguf->plan, 1, tensor->name, &row.storage, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (gguf_lacks(gguf, tensor)) {
        row.fate = COFFER_FATE_SKIPPED;
        status = gguf_put_reason(gguf, tensor, &row.reason, err);
        if (status != COFFER_OK) {
            return status;
        }
    } else if (gguf->wants->raw_blocks) {
        gguf_record_raw(gguf, tensor);
    }
    return coffer__import_plan_put_row(gguf->plan, &row, dimensions, err);
}

/* How many tensors there are of a type of blocks; 0 of any other number. Counting again for each number is a walk
   over the tensors per type; it happens only on the way to an error. */
static uint64_t gguf_count_type(const gguf_reading *gguf, uint32_t number)
{
    uint64_t count = 0;
    const coffer__gguf_type *type = coffer__gguf_type_of(number);
    for (size_t i = 0; i < gguf->tensor_count && type != NULL && type->decode != NULL; i++) {
        count += gguf->tensors[i].type == type;
    }
    return count;
}

/* The types of blocks that there are, with how many tensors each has: "Q4_K 24, Q6_K 5". A message has space for so
   many. The last write ends the text with its zero byte, as the message takes it for a string. */
static void gguf_list_types(const gguf_reading *gguf, coffer__writing *out)
{
    uint32_t listed = 0;
    for (uint32_t number = 0; number < COFFER__GGUF_TYPES; number++) {
        char digits[20];
        const uint64_t count = gguf_count_type(gguf, number);
        const coffer__gguf_type *type = coffer__gguf_type_of(number);
        if (count > 0 && ++listed > GGUF_LISTED_TYPES) {
            coffer__write_text(out, ", ...");
            break;
        }
        if (count > 0) {
            coffer__write(out, ", ", out->used > 0 ? 2 : 0);
            coffer__write_text(out, type->name);
            coffer__write(out, " ", 1);
            coffer__write(out, digits, coffer__write_u64(digits, count));
        }
    }
    coffer__write(out, "", 1);
}

/* Blocks have no dtype: it is for the user to say what is to become of them. The message says what there is, and what
   each choice would weigh. The list is worth less than the message: without memory for it the message comes without
   it. */
static coffer_status gguf_refuse_blocks(const gguf_reading *gguf, coffer_error *err)
{
    uint64_t bytes = 0;
    uint64_t elements = 0;
    coffer__writing types = { .allocator = gguf->plan->allocator };
    for (size_t i = 0; i < gguf->tensor_count; i++) {
        const gguf_tensor *tensor = &gguf->tensors[i];
        if (tensor->type->decode != NULL) {
            bytes += tensor->size;
            elements += tensor->size / tensor->type->size * tensor->type->elements;
        }
    }
    gguf_list_types(gguf, &types);
    coffer__fail(
        err, COFFER_ERR_NO_EQUIVALENT,
        "tensors are quantised in blocks, for which safetensors has no dtype (%s): --dequantize makes numbers of them "
        "(f32: %z; f16 and bf16: half of that), --raw keeps their bytes (%z)",
        types.failed ? "" : types.text, elements * 4, bytes);
    coffer__writing_free(&types);
    return COFFER_ERR_NO_EQUIVALENT;
}

/* The order of the checks is that of what a user can do about them: first what was not asked for rightly, then what
   nobody could read. Big-endian blocks have halves and bytes whose order no program has defined by writing them. */
static coffer_status gguf_put_rows(gguf_reading *gguf, uint64_t begin, coffer_error *err)
{
    for (size_t i = 0; i < gguf->tensor_count; i++) {
        const gguf_tensor *tensor = &gguf->tensors[i];
        if (gguf_lacks(gguf, tensor) && !gguf->wants->skip_unsupported) {
            return gguf_refuse_blocks(gguf, err);
        }
        if (tensor->type->decode != NULL && gguf->in.swapped && !gguf_lacks(gguf, tensor)) {
            return gguf_fail_tensor(gguf, tensor, "blocks in a big-endian file, which nobody writes", err);
        }
        const coffer_status status = gguf_put_row(gguf, tensor, begin, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

/* One file; `keep`: its keys are those of the model. Where the data begin is known only after the last description,
   since the padding starts there; so places are checked as one, before any row is made. A scan stops there, as it has
   seen all that can be wrong. */
static coffer_status gguf_read_one(gguf_reading *gguf, bool keep, coffer_error *err)
{
    uint64_t pairs = 0;
    uint64_t tensors = 0;
    uint64_t begin = 0;
    /* Each file of a set has keys of its own, and so an alignment of its own. */
    gguf->alignment = 32;
    gguf->tensor_count = 0;
    coffer_status status = coffer__gguf_head(&gguf->in, &tensors, &pairs, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = gguf_read_pairs(gguf, pairs, keep, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (keep) {
        gguf->plan->keys_file = gguf->in.file;
        gguf->plan->keys_size = coffer__gguf_at(&gguf->in);
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

/* Moves on to another file: the input itself, number 0, or one that is opened by its name beside it. The window is
   emptied, since its bytes are those of the other file. The input itself is file 0 of the plan and needs no entry
   there. */
static coffer_status gguf_go_to(gguf_reading *gguf, const coffer__input_files *input, const coffer__path *name,
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
    return coffer__import_plan_put_file(gguf->plan, name->text, name_len, &number, err);
}

/* All files of a set, in order; `parts` are those of the input's own name. The input may be any file of the set; it
   is not opened again by its name, which a pipe or a URL may not allow. */
static coffer_status gguf_read_set(gguf_reading *gguf, const coffer__input_files *input, const char *own,
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

/* Only the name after the last slash is read as that of a part: folders may be called anything. */
static coffer_status gguf_read_files(gguf_reading *gguf, const coffer__input_files *input, coffer_error *err)
{
    coffer__shard_name parts;
    const char *own = input->path + coffer__path_name_at(input->path);
    const size_t own_len = input->path_len - (size_t)(own - input->path);
    if (coffer__shard_name_read_ending(&parts, own, own_len, ".gguf") && parts.total > 1) {
        return gguf_read_set(gguf, input, own, &parts, err);
    }
    const coffer_status status = gguf_go_to(gguf, input, NULL, err);
    return status == COFFER_OK ? gguf_read_one(gguf, true, err) : status;
}

/* The braces come last, since it is known only now whether there is anything between them. A failure of any of the
   writes before is told here. */
static coffer_status gguf_put_raw(gguf_reading *gguf, coffer_error *err)
{
    static const char key[] = COFFER__PLAN_RECORD;
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
               : coffer__import_plan_put_pair(gguf->plan, key, sizeof key - 1, json.text, json.used, err);
    coffer__writing_free(&json);
    return status;
}

/* The window and the key share one allocation. NVFP4's scales are looked for when all files have been read, since
   they may be in any of them. */
static coffer_status gguf_read(const coffer__input_files *input, const coffer__wants *wants, coffer__import_plan *plan,
                               coffer_error *err)
{
    const coffer_allocator *allocator = plan->allocator;
    const size_t capacity = COFFER__GGUF_WINDOW + COFFER__GGUF_MAX_KEY;
    gguf_reading gguf = { .wants = wants, .plan = plan, .in = { .input = input }, .raw = { .allocator = allocator } };
    gguf.in.json.allocator = allocator;
    gguf.in.window = coffer__alloc_array(allocator, capacity, 1, err);
    if (gguf.in.window == NULL) {
        return COFFER_ERR_MEMORY;
    }
    gguf.in.key = (char *)gguf.in.window + COFFER__GGUF_WINDOW;
    coffer_status status = gguf_read_files(&gguf, input, err);
    if (status == COFFER_OK) {
        status = coffer__gguf_multiply_scales(input, plan, err);
    }
    if (status == COFFER_OK) {
        status = gguf_put_raw(&gguf, err);
    }
    coffer__writing_free(&gguf.raw);
    coffer__writing_free(&gguf.in.json);
    coffer__free_array(allocator, gguf.tensors, gguf.tensor_capacity, sizeof *gguf.tensors);
    coffer__free_array(allocator, gguf.in.window, capacity, 1);
    return status;
}

const coffer__reader coffer__reader_gguf = { "gguf", "a GGUF model", gguf_sniff, gguf_read };
