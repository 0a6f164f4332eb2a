/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of Arrow's IPC: tensors, and files of columns.
 *
 *   message   ff ff ff ff | i32 size of what follows | FlatBuffer, padded | body
 *   tensors   messages whose header is a Tensor, one after another
 *   file      "ARROW1" 0 0 | messages | footer, a FlatBuffer | i32 its size | "ARROW1"
 *
 * The footer has the schema, and where the record batches are. A batch has two buffers for each column: which of its values
 * are there, and the values; of a column of lists of one length the first, and those of its child. A column is a tensor of
 * as many rows as all batches together, whose bytes are joined.
 *
 * What is compressed, nested, or has values that are missing is refused by its name.
 */
#include "alloc.h"
#include "bytes.h"
#include "checked.h"
#include "dense.h"
#include "error.h"
#include "flatbuffer.h"
#include "paths.h"
#include "readers.h"
#include "text.h"

#include <string.h>

#define ARROW_MAX_HEAD ((uint64_t)16 << 20) /* bytes of a footer or of a message without its body */
#define ARROW_FEWEST ((uint64_t)26)         /* bytes of a file: both signatures, a size, and a footer of one table */

/* The slots of the fields that matter. */
enum { MESSAGE_HEADER_TYPE = 1, MESSAGE_HEADER = 2, MESSAGE_BODY = 3 };
enum { TENSOR_OF_TYPE = 0, TENSOR_OF = 1, TENSOR_SHAPE = 2, TENSOR_STRIDES = 3, TENSOR_DATA = 4 };
enum { SCHEMA_ENDIANNESS = 0, SCHEMA_FIELDS = 1 };
enum { FIELD_NAME = 0, FIELD_TYPE_TYPE = 2, FIELD_TYPE = 3, FIELD_DICTIONARY = 4, FIELD_CHILDREN = 5 };
enum { BATCH_LENGTH = 0, BATCH_NODES = 1, BATCH_BUFFERS = 2, BATCH_COMPRESSION = 3 };
enum { FOOTER_SCHEMA = 1, FOOTER_BATCHES = 3 };
enum { HEADER_SCHEMA = 1, HEADER_BATCH = 3, HEADER_TENSOR = 4, HEADER_SPARSE = 5 };
enum { TYPE_INT = 2, TYPE_FLOAT = 3, TYPE_LIST = 16 };

/* Types by their number: what messages call them, and how many buffers a column has; 0: it has columns within it, or as
   many as it likes. */
static const struct arrow_type {
    const char *name;
    uint8_t buffers;
} arrow_types[] = {
    { "a type that is not known", 0 },
    { "nothing", 0 },
    { "integers", 2 },
    { "floats", 2 },
    { "bytes of any length", 3 },
    { "text", 3 },
    { "single bits", 2 },
    { "decimals", 2 },
    { "dates", 2 },
    { "times", 2 },
    { "timestamps", 2 },
    { "intervals", 2 },
    { "lists", 0 },
    { "structures", 0 },
    { "unions", 0 },
    { "bytes of one length", 2 },
    { "lists of one length", 1 },
    { "maps", 0 },
    { "durations", 2 },
    { "bytes of any length", 3 },
    { "text", 3 },
    { "lists", 0 },
    { "runs of values", 0 },
    { "views of bytes", 0 },
    { "views of text", 0 },
    { "views of lists", 0 },
    { "views of lists", 0 },
};
#define ARROW_TYPES (sizeof arrow_types / sizeof arrow_types[0])

/* A column: what it is, and which of the batch's buffers and nodes are its own. */
typedef struct arrow_column {
    coffer__dense tensor;
    uint32_t buffer;  /* of its values */
    uint32_t node;    /* of the validity of its values */
    uint32_t nodes;   /* 2 of lists: their own, and that of their values */
    bool has_missing; /* values are not there in some batch */
    uint64_t row;     /* bytes of a row */
} arrow_column;

/* Where a column's bytes of one batch are. */
typedef struct arrow_part {
    uint64_t offset;
    uint64_t size;
} arrow_part;

/* Footer and message are in memory at the same time, as a batch is read by the footer's columns. */
typedef struct arrow_reading {
    const coffer__input_files *input;
    coffer__dense_rows rows;
    uint8_t *footer;
    size_t footer_size;
    uint8_t *head;
    size_t head_size;
    coffer__flat flat; /* of the message */
    uint64_t body;     /* where its body begins */
    uint64_t body_size;
    uint64_t end; /* where the next message begins */
    arrow_column *columns;
    size_t column_count;
    uint32_t buffers; /* of a batch */
    uint32_t nodes;
    arrow_part *parts; /* of all batches, a column after another */
    size_t batch_count;
    uint64_t length; /* rows of all batches */
} arrow_reading;

static coffer_status arrow_fail(uint64_t at, const char *what, coffer_error *err)
{
    return coffer__fail_at(err, COFFER_ERR_DAMAGED, at, "the Arrow file is damaged: %s", what);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* A block of the file in memory, which replaces the one before. Its size is bounded before anything is allocated. */
static coffer_status arrow_load(const arrow_reading *arrow, uint64_t at, uint64_t size, uint8_t **bytes, size_t *have,
                                coffer_error *err)
{
    const coffer_allocator *allocator = arrow->rows.plan->allocator;
    coffer__free_array(allocator, *bytes, *have, 1);
    *bytes = NULL;
    *have = 0;
    if (size > ARROW_MAX_HEAD) {
        return arrow_fail(at, "a message or the footer is larger than 16 MiB", err);
    }
    if (at > arrow->input->size || size > arrow->input->size - at) {
        return arrow_fail(at, "a message reaches past the end of the file; get the file again", err);
    }
    *bytes = coffer__alloc_array(allocator, (size_t)size, 1, err);
    if (*bytes == NULL) {
        return COFFER_ERR_MEMORY;
    }
    *have = (size_t)size;
    return coffer__input_files_read(arrow->input, 0, arrow->input->size, at, *bytes, (size_t)size, err);
}

/* Reads the message at a place, and where its body is. */
static coffer_status arrow_read_message(arrow_reading *arrow, uint64_t at, coffer__flat_table *message,
                                        coffer_error *err)
{
    uint8_t prefix[8];
    if (at > arrow->input->size) {
        return arrow_fail(arrow->input->size, "a message begins past the end of the file; get the file again", err);
    }
    coffer_status status =
        coffer__input_files_read(arrow->input, 0, arrow->input->size, at, prefix, sizeof prefix, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (coffer__load_u32le(prefix) != UINT32_MAX) {
        return arrow_fail(at, "there is no message where one begins", err);
    }
    const uint32_t size = coffer__load_u32le(prefix + 4);
    status = arrow_load(arrow, at + 8, size, &arrow->head, &arrow->head_size, err);
    if (status != COFFER_OK) {
        return status;
    }
    arrow->flat = (coffer__flat){ arrow->head, arrow->head_size };
    *message = coffer__flat_root(&arrow->flat);
    arrow->body = at + 8 + size;
    arrow->body_size = coffer__flat_number(&arrow->flat, *message, MESSAGE_BODY, 8, 0);
    if (message->at == 0 || arrow->body_size > arrow->input->size - arrow->body) {
        return arrow_fail(
            at, "a message has no table, or a body that reaches past the end of the file; get the file again", err);
    }
    arrow->end = arrow->body + arrow->body_size;
    return COFFER_OK;
}

/* A buffer, from the struct of its offset and length; it has to lie within the body. */
static bool arrow_buffer(const arrow_reading *arrow, size_t at, arrow_part *part)
{
    part->offset = coffer__flat_load(&arrow->flat, at, 8);
    part->size = coffer__flat_load(&arrow->flat, at + 8, 8);
    if (part->offset > arrow->body_size || part->size > arrow->body_size - part->offset) {
        return false;
    }
    part->offset += arrow->body;
    return true;
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

/* Integers and floats have dtypes; all other types have none, and a name. */
static void arrow_set_type(const coffer__flat *flat, coffer__flat_table type, uint64_t number, coffer__dense *tensor)
{
    static const coffer_dtype integers[2][4] = { { COFFER_U8, COFFER_U16, COFFER_U32, COFFER_U64 },
                                                 { COFFER_I8, COFFER_I16, COFFER_I32, COFFER_I64 } };
    static const coffer_dtype floats[] = { COFFER_F16, COFFER_F32, COFFER_F64 };
    tensor->type = arrow_types[number < ARROW_TYPES ? number : 0].name;
    tensor->texts = number == 5 || number == 20;
    tensor->bits = 8;
    if (number == TYPE_INT) {
        const uint64_t bits = coffer__flat_number(flat, type, 0, 4, 0);
        const bool is_signed = coffer__flat_number(flat, type, 1, 1, 0) != 0;
        for (unsigned i = 0; i < 4; i++) {
            if (bits == 8u << i) {
                tensor->dtype = integers[is_signed][i];
                tensor->bits = (uint8_t)bits;
            }
        }
    } else if (number == TYPE_FLOAT) {
        const uint64_t precision = coffer__flat_number(flat, type, 0, 2, 0);
        tensor->dtype = precision < 3 ? floats[precision] : COFFER_UNKNOWN_DTYPE;
        tensor->bits = (uint8_t)(precision < 3 ? 16u << precision : 8u);
    }
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* The file's name without folders and ending; several tensors have their number after it. */
static void arrow_name(const arrow_reading *arrow, uint64_t number, bool alone, coffer__writing *name)
{
    const char *path = arrow->input->path;
    char digits[20];
    size_t end = arrow->input->path_len;
    const size_t begin = coffer__path_name_at(path);
    const size_t ending = coffer__text_ends(path, end, ".arrow") ? 6 : 0;
    end -= end - begin > ending ? ending : 0;
    const bool good = end > begin && coffer__utf8_valid_len(path + begin, end - begin) == end - begin;
    name->used = 0;
    coffer__write(name, good ? path + begin : "tensor", good ? end - begin : 6);
    coffer__write(name, ".", !alone);
    coffer__write(name, digits, alone ? 0 : coffer__write_u64(digits, number));
}

/* Sizes and strides, each a number of 8 bytes; a size is the first field of a table. */
static coffer_status arrow_read_shape(const arrow_reading *arrow, coffer__flat_table table, uint64_t at,
                                      coffer__dense *tensor, int64_t *strides, coffer_error *err)
{
    const coffer__flat *flat = &arrow->flat;
    const coffer__flat_vector sizes = coffer__flat_vector_of(flat, table, TENSOR_SHAPE, 4);
    const coffer__flat_vector steps = coffer__flat_vector_of(flat, table, TENSOR_STRIDES, 8);
    if (sizes.count > COFFER__PLAN_MAX_RANK || (steps.count > 0 && steps.count != sizes.count)) {
        return arrow_fail(at, "a tensor has more than 64 dimensions, or another number of strides", err);
    }
    tensor->rank = (uint32_t)sizes.count;
    tensor->strides = steps.count > 0 ? strides : NULL;
    for (size_t i = 0; i < sizes.count; i++) {
        const coffer__flat_table size = coffer__flat_at(flat, &sizes, i);
        tensor->shape[i] = coffer__flat_number(flat, size, 0, 8, 0);
        const uint64_t step = steps.count > 0 ? coffer__flat_load(flat, steps.at + 8 * i, 8) : 0;
        if (size.at == 0 || tensor->shape[i] > INT64_MAX || step > INT64_MAX) {
            return arrow_fail(at, "a tensor has a size or a stride below 0", err);
        }
        strides[i] = (int64_t)step;
    }
    return COFFER_OK;
}

static coffer_status arrow_put_tensor(arrow_reading *arrow, coffer__flat_table table, uint64_t at,
                                      const coffer__writing *name, coffer_error *err)
{
    int64_t strides[COFFER__PLAN_MAX_RANK];
    coffer__dense tensor = { .name = name->text, .name_len = name->used, .at = at };
    arrow_part data = { 0, 0 };
    uint64_t size = 0;
    const size_t buffer = coffer__flat_struct(&arrow->flat, table, TENSOR_DATA, 16);
    if (buffer == 0 || !arrow_buffer(arrow, buffer, &data)) {
        return arrow_fail(at, "a tensor's bytes are not in the body of its message", err);
    }
    coffer_status status = arrow_read_shape(arrow, table, at, &tensor, strides, err);
    if (status != COFFER_OK) {
        return status;
    }
    arrow_set_type(&arrow->flat, coffer__flat_child(&arrow->flat, table, TENSOR_OF),
                   coffer__flat_number(&arrow->flat, table, TENSOR_OF_TYPE, 1, 0), &tensor);
    if (tensor.dtype == COFFER_UNKNOWN_DTYPE) {
        return coffer__fail_at(err, COFFER_ERR_UNSUPPORTED, at, "an Arrow tensor of %s", tensor.type);
    }
    if (!coffer__dense_size(&tensor, &size) || (tensor.strides == NULL && size > data.size)) {
        status = arrow_fail(at, "a tensor has fewer bytes than its sizes make", err);
        return coffer__fail_sizes(err, status, size, data.size);
    }
    /* Without strides it is the beginning of the buffer; with them, any part of that. */
    return arrow->rows.wants->scan ? COFFER_OK
                                   : coffer__dense_put_at(&arrow->rows, &tensor, 0, data.offset,
                                                          tensor.strides == NULL ? size : data.size, err);
}

/* One message after another until the file ends. */
static coffer_status arrow_read_tensors(arrow_reading *arrow, coffer__writing *name, coffer_error *err)
{
    uint64_t at = 0;
    for (uint64_t number = 0; at < arrow->input->size; number++) {
        coffer__flat_table message;
        const coffer_status status = arrow_read_message(arrow, at, &message, err);
        if (status != COFFER_OK) {
            return status;
        }
        const uint64_t header = coffer__flat_number(&arrow->flat, message, MESSAGE_HEADER_TYPE, 1, 0);
        if (header != HEADER_TENSOR) {
            return coffer__fail_at(err, COFFER_ERR_UNSUPPORTED, at,
                                   header == HEADER_SPARSE
                                       ? "an Arrow tensor that is sparse, which safetensors cannot express"
                                       : "an Arrow stream: write it as a file (pyarrow.ipc.new_file) to convert it");
        }
        arrow_name(arrow, number, at == 0 && arrow->end == arrow->input->size, name);
        if (name->failed) {
            return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the name of a tensor");
        }
        const coffer__flat_table table = coffer__flat_child(&arrow->flat, message, MESSAGE_HEADER);
        const coffer_status put = arrow_put_tensor(arrow, table, at, name, err);
        if (put != COFFER_OK) {
            return put;
        }
        at = arrow->end;
    }
    return COFFER_OK;
}

/* ---- columns ----------------------------------------------------------------------------------------------------- */

/* A column's name and type. One of lists of one length has the type of its child, and a second dimension. */
static coffer_status arrow_read_column(arrow_reading *arrow, const coffer__flat *flat, coffer__flat_table field,
                                       arrow_column *column, coffer_error *err)
{
    coffer__dense *tensor = &column->tensor;
    const coffer__flat_vector name = coffer__flat_vector_of(flat, field, FIELD_NAME, 1);
    uint64_t number = coffer__flat_number(flat, field, FIELD_TYPE_TYPE, 1, 0);
    coffer__flat_table type = coffer__flat_child(flat, field, FIELD_TYPE);
    const bool dictionary = coffer__flat_child(flat, field, FIELD_DICTIONARY).at > 0;
    *tensor = (coffer__dense){ .name = (const char *)flat->bytes + name.at, .name_len = name.count, .rank = 1 };
    column->node = arrow->nodes;
    column->nodes = 1;
    if (number == TYPE_LIST && !dictionary) {
        const coffer__flat_vector children = coffer__flat_vector_of(flat, field, FIELD_CHILDREN, 4);
        const coffer__flat_table child = children.count == 1 ? coffer__flat_at(flat, &children, 0) : field;
        tensor->rank = 2;
        tensor->shape[1] = coffer__flat_number(flat, type, 0, 4, 0);
        number = coffer__flat_number(flat, child, FIELD_TYPE_TYPE, 1, 0);
        type = coffer__flat_child(flat, child, FIELD_TYPE);
        arrow->buffers++;
        column->nodes = 2;
        number = child.at == field.at || coffer__flat_child(flat, child, FIELD_DICTIONARY).at > 0 ? TYPE_LIST : number;
    }
    const uint64_t known = number < ARROW_TYPES ? number : 0;
    if (!dictionary && (arrow_types[known].buffers < 2 || tensor->shape[1] > INT32_MAX)) {
        coffer__fail_at(err, COFFER_ERR_UNSUPPORTED, COFFER_NO_OFFSET, "the column %q is of %s, which no tensor is",
                        tensor->name, tensor->name_len, arrow_types[known].name);
        return coffer__fail_tensor(err, COFFER_ERR_UNSUPPORTED, tensor->name, tensor->name_len);
    }
    arrow_set_type(flat, type, known, tensor);
    column->buffer = arrow->buffers + 1;
    arrow->buffers += dictionary ? 2 : arrow_types[known].buffers;
    arrow->nodes += column->nodes;
    if (dictionary) {
        tensor->type = "numbers of a dictionary's values";
        tensor->dtype = COFFER_UNKNOWN_DTYPE;
        tensor->texts = false;
    }
    return COFFER_OK;
}

static coffer_status arrow_read_schema(arrow_reading *arrow, const coffer__flat *flat, coffer_error *err)
{
    const coffer__flat_table schema = coffer__flat_child(flat, coffer__flat_root(flat), FOOTER_SCHEMA);
    const coffer__flat_vector fields = coffer__flat_vector_of(flat, schema, SCHEMA_FIELDS, 4);
    const bool swapped = coffer__flat_number(flat, schema, SCHEMA_ENDIANNESS, 2, 0) != 0;
    if (schema.at == 0) {
        return arrow_fail(arrow->input->size, "the footer has no schema", err);
    }
    /* A footer may name one field a million times, so that a few bytes of it would make much memory. */
    if (fields.count > arrow->rows.plan->budget / sizeof *arrow->columns) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "the Arrow file has %u columns, which is too many",
                            (uint64_t)fields.count);
    }
    arrow->columns = coffer__alloc_array(arrow->rows.plan->allocator, fields.count, sizeof *arrow->columns, err);
    if (arrow->columns == NULL) {
        return COFFER_ERR_MEMORY;
    }
    arrow->column_count = fields.count;
    for (size_t i = 0; i < fields.count; i++) {
        arrow_column *column = &arrow->columns[i];
        const coffer_status status = arrow_read_column(arrow, flat, coffer__flat_at(flat, &fields, i), column, err);
        if (status != COFFER_OK) {
            return status;
        }
        coffer__dense row = column->tensor;
        row.shape[0] = 1;
        column->tensor.swapped = swapped && row.bits > 8;
        if (!coffer__dense_size(&row, &column->row)) {
            return arrow_fail(arrow->input->size, "a column has rows that are larger than any file", err);
        }
    }
    return COFFER_OK;
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */

/* One column of a batch: its lengths fit together, and its bytes are there. */
static coffer_status arrow_read_part(const arrow_reading *arrow, arrow_column *column, coffer__flat_table batch,
                                     uint64_t length, arrow_part *part, coffer_error *err)
{
    const coffer__flat *flat = &arrow->flat;
    const coffer__flat_vector nodes = coffer__flat_vector_of(flat, batch, BATCH_NODES, 16);
    const coffer__flat_vector buffers = coffer__flat_vector_of(flat, batch, BATCH_BUFFERS, 16);
    uint64_t expected = length;
    uint64_t size = 0;
    if (column->node + column->nodes > nodes.count || column->buffer >= buffers.count) {
        return arrow_fail(arrow->body, "a batch has fewer buffers than its columns", err);
    }
    for (uint32_t i = 0; i < column->nodes; i++) {
        const size_t node = nodes.at + 16 * (size_t)(column->node + i);
        if (coffer__flat_load(flat, node, 8) != expected) {
            return arrow_fail(arrow->body, "a column of a batch has another length than the batch", err);
        }
        column->has_missing = column->has_missing || coffer__flat_load(flat, node + 8, 8) != 0;
        if (!coffer__mul_u64(expected, column->tensor.rank > 1 ? column->tensor.shape[1] : 1, &expected)) {
            return arrow_fail(arrow->body, "a column has more values than any file", err);
        }
    }
    if (!arrow_buffer(arrow, buffers.at + 16 * (size_t)column->buffer, part)) {
        return arrow_fail(arrow->body, "a buffer is not in the body of its batch", err);
    }
    /* Of a column that is left out anyway the whole buffer is told. */
    if (column->tensor.dtype == COFFER_UNKNOWN_DTYPE) {
        return COFFER_OK;
    }
    if (!coffer__mul_u64(length, column->row, &size) || size > part->size) {
        return arrow_fail(arrow->body, "a buffer is shorter than its column", err);
    }
    part->size = size;
    return COFFER_OK;
}

static coffer_status arrow_read_batch(arrow_reading *arrow, uint64_t at, size_t number, coffer_error *err)
{
    coffer__flat_table message;
    coffer_status status = arrow_read_message(arrow, at, &message, err);
    if (status != COFFER_OK) {
        return status;
    }
    const coffer__flat_table batch = coffer__flat_child(&arrow->flat, message, MESSAGE_HEADER);
    if (coffer__flat_number(&arrow->flat, message, MESSAGE_HEADER_TYPE, 1, 0) != HEADER_BATCH || batch.at == 0) {
        return arrow_fail(at, "there is no record batch where the footer has one", err);
    }
    if (coffer__flat_child(&arrow->flat, batch, BATCH_COMPRESSION).at > 0) {
        return coffer__fail_at(err, COFFER_ERR_UNSUPPORTED, at,
                               "the buffers of this Arrow file are compressed: write it without compression "
                               "(pyarrow.ipc.IpcWriteOptions(compression=None)) to convert it");
    }
    const uint64_t length = coffer__flat_number(&arrow->flat, batch, BATCH_LENGTH, 8, 0);
    if (length > INT64_MAX - arrow->length) {
        return arrow_fail(at, "the batches have more rows than any file", err);
    }
    arrow->length += length;
    for (size_t i = 0; i < arrow->column_count; i++) {
        arrow_part *part = &arrow->parts[i * arrow->batch_count + number];
        status = arrow_read_part(arrow, &arrow->columns[i], batch, length, part, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* A part for each column of each batch: the product is bounded by the file, as each of them has a node and a buffer of 32
   bytes there. */
static coffer_status arrow_read_batches(arrow_reading *arrow, const coffer__flat *flat, coffer_error *err)
{
    const coffer__flat_vector blocks = coffer__flat_vector_of(flat, coffer__flat_root(flat), FOOTER_BATCHES, 24);
    uint64_t parts = 0;
    if (!coffer__mul_u64(blocks.count, arrow->column_count, &parts) || parts > arrow->input->size / 32) {
        return arrow_fail(arrow->input->size, "the footer counts more batches than the file has bytes for", err);
    }
    if (parts > arrow->rows.plan->budget / sizeof *arrow->parts) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "the Arrow file has %u batches of its columns, which is too many",
                            parts);
    }
    arrow->batch_count = blocks.count;
    arrow->parts = coffer__alloc_array(arrow->rows.plan->allocator, (size_t)parts, sizeof *arrow->parts, err);
    if (arrow->parts == NULL) {
        arrow->batch_count = 0;
        return COFFER_ERR_MEMORY;
    }
    /* In the order of the file, so that no footer makes a small file one that is read without end. */
    for (size_t i = 0; i < blocks.count; i++) {
        const uint64_t at = coffer__flat_load(flat, blocks.at + 24 * i, 8);
        if (at < arrow->end) {
            return arrow_fail(at, "its batches overlap, or are not in order", err);
        }
        const coffer_status status = arrow_read_batch(arrow, at, i, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* Parts of all batches are the pieces of one storage. A column with missing values has no meaning without them. */
static coffer_status arrow_put_column(arrow_reading *arrow, size_t number, coffer_error *err)
{
    coffer__import_plan *plan = arrow->rows.plan;
    arrow_column *column = &arrow->columns[number];
    uint32_t name = 0;
    uint32_t storage = 0;
    uint64_t size = 0;
    column->tensor.shape[0] = arrow->length;
    for (size_t i = 0; i < arrow->batch_count; i++) {
        const arrow_part *part = &arrow->parts[number * arrow->batch_count + i];
        const coffer__import_plan_piece piece = { .offset = part->offset,
                                                  .stored_size = part->size,
                                                  .size = part->size };
        const coffer_status status = coffer__import_plan_put_piece(plan, &piece, err);
        if (status != COFFER_OK) {
            return status;
        }
        size += part->size;
    }
    if (column->has_missing || column->tensor.dtype == COFFER_UNKNOWN_DTYPE) {
        column->tensor.type = column->has_missing ? "values some of which are missing" : column->tensor.type;
        column->tensor.dtype = COFFER_UNKNOWN_DTYPE;
        column->tensor.bits = 8;
        column->tensor.rank = 1;
        column->tensor.shape[0] = size;
    }
    coffer_status status = coffer__import_plan_put_text(plan, column->tensor.name, column->tensor.name_len, &name, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__import_plan_put_storage(plan, (uint32_t)arrow->batch_count, name, &storage, err);
    return status == COFFER_OK ? coffer__dense_put(&arrow->rows, &column->tensor, storage, err) : status;
}

static coffer_status arrow_read_file(arrow_reading *arrow, coffer_error *err)
{
    uint8_t end[10];
    const uint64_t size = arrow->input->size;
    if (size < ARROW_FEWEST) {
        return arrow_fail(0, "it ends before its footer; get the file again", err);
    }
    coffer_status status = coffer__input_files_read(arrow->input, 0, size, size - sizeof end, end, sizeof end, err);
    if (status != COFFER_OK) {
        return status;
    }
    const uint32_t footer = coffer__load_u32le(end);
    if (memcmp(end + 4, "ARROW1", 6) != 0 || footer > size - 18) {
        return arrow_fail(size - sizeof end, "it does not end with a footer; get the file again", err);
    }
    status = arrow_load(arrow, size - 10 - footer, footer, &arrow->footer, &arrow->footer_size, err);
    if (status != COFFER_OK) {
        return status;
    }
    const coffer__flat flat = { arrow->footer, arrow->footer_size };
    status = arrow_read_schema(arrow, &flat, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = arrow_read_batches(arrow, &flat, err);
    for (size_t i = 0; i < arrow->column_count && status == COFFER_OK && !arrow->rows.wants->scan; i++) {
        status = arrow_put_column(arrow, i, err);
    }
    return status;
}

/* ---- the reader -------------------------------------------------------------------------------------------------- */

static coffer_status arrow_read_input(arrow_reading *arrow, coffer__writing *name, coffer_error *err)
{
    uint8_t head[8] = { 0 };
    const size_t head_size = arrow->input->size < sizeof head ? (size_t)arrow->input->size : sizeof head;
    coffer_status status = coffer__import_plan_put_pair(arrow->rows.plan, "format", 6, "arrow", 5, err);
    if (status == COFFER_OK) {
        status = coffer__input_files_read(arrow->input, 0, arrow->input->size, 0, head, head_size, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    status = memcmp(head, "ARROW1", 6) == 0 ? arrow_read_file(arrow, err) : arrow_read_tensors(arrow, name, err);
    return status == COFFER_OK && !arrow->rows.wants->scan ? coffer__dense_finish(&arrow->rows, err) : status;
}

static coffer_status arrow_read(const coffer__input_files *input, const coffer__wants *wants, coffer__import_plan *plan,
                                coffer_error *err)
{
    const coffer_allocator *allocator = plan->allocator;
    arrow_reading arrow = { .input = input };
    coffer__writing name = { .allocator = allocator };
    coffer__dense_begin(&arrow.rows, wants, plan);
    const coffer_status status = arrow_read_input(&arrow, &name, err);
    coffer__free_array(allocator, arrow.parts, arrow.batch_count * arrow.column_count, sizeof *arrow.parts);
    coffer__free_array(allocator, arrow.columns, arrow.column_count, sizeof *arrow.columns);
    coffer__free_array(allocator, arrow.head, arrow.head_size, 1);
    coffer__free_array(allocator, arrow.footer, arrow.footer_size, 1);
    coffer__writing_free(&name);
    coffer__dense_free(&arrow.rows);
    return status;
}

/* A file has a signature. A message is four bytes of ones, and then a size and a root within it, which is even. */
static bool arrow_sniff(const uint8_t *head, size_t head_size, const uint8_t *tail, size_t tail_size, const char *path,
                        size_t path_len)
{
    (void)tail;
    (void)tail_size;
    (void)path;
    (void)path_len;
    if (head_size >= 8 && memcmp(head, "ARROW1\0\0", 8) == 0) {
        return true;
    }
    return head_size >= 16 && coffer__load_u32le(head) == UINT32_MAX && coffer__load_u32le(head + 4) % 8 == 0 &&
           coffer__load_u32le(head + 4) <= INT32_MAX && coffer__load_u32le(head + 8) % 4 == 0 &&
           coffer__load_u32le(head + 8) >= 4 && coffer__load_u32le(head + 8) < coffer__load_u32le(head + 4);
}

const coffer__reader coffer__reader_arrow = { "arrow", "Arrow IPC", arrow_sniff, arrow_read };
