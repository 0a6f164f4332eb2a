/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of ONNX models, which are one message of Protocol Buffers. Of it these fields matter:
 *
 *   ModelProto       7 graph   14 metadata_props   20 training_info   25 functions
 *   GraphProto       1 node    5 initializer       15 sparse_initializer
 *   FunctionProto    1 name    7 node              11 attribute_proto
 *   NodeProto        2 output  3 name              4 op_type          5 attribute
 *   AttributeProto   1 name    5 t    6 g    10 tensors    11 graphs    22 sparse_tensor    23 sparse_tensors
 *
 * Tensors of the main graph keep their names. Those of a graph in a node's attribute are NODE.ATTRIBUTE.NAME, as two
 * branches may use the same names; those of a function begin with the function's name. A constant is called as the output of
 * its node. Nothing of a graph is interpreted.
 *
 * There is no recursion: the messages that are open are a list of at most ONNX_DEPTH.
 */
#include "alloc.h"
#include "bytes.h"
#include "error.h"
#include "onnx_tensor.h"
#include "readers.h"
#include "text.h"
#include "wire.h"

#include <string.h>

#define ONNX_DEPTH 64u

/* The number of the field of a model that is its graph. */
#define ONNX_MODEL_GRAPH 7

typedef enum onnx_kind { ONNX_MODEL, ONNX_GRAPH, ONNX_FUNCTION, ONNX_NODE, ONNX_ATTRIBUTE } onnx_kind;

/* A message that is being read. */
typedef struct onnx_open {
    onnx_kind kind;
    bool constant;   /* a node whose tensor is called as its output */
    uint32_t seen;   /* bits of the fields that come once */
    uint32_t graphs; /* of an attribute, so far */
    uint64_t at;     /* of the next field */
    uint64_t end;
    size_t before; /* bytes of the path without this message's part */
    size_t path;   /* bytes of the path with this message's part */
} onnx_open;

typedef struct onnx_reading {
    coffer__onnx base;
    coffer__writing path;
    onnx_open open[ONNX_DEPTH];
    uint32_t depth;
    uint64_t constants; /* how many were left out */
} onnx_reading;

/* What a field of a message is for the walk. */
typedef enum onnx_role {
    ONNX_SKIP,
    ONNX_ENTER,    /* another message, of the kind in the row */
    ONNX_TENSOR,   /* an initializer */
    ONNX_CONSTANT, /* a tensor in an attribute */
    ONNX_SPARSE,
    ONNX_SPARSE_CONSTANT,
    ONNX_PROPERTY,
    ONNX_TRAINING
} onnx_role;

static const struct {
    uint8_t in;
    uint8_t number;
    uint8_t role;
    uint8_t kind;
} onnx_fields[] = {
    { ONNX_MODEL, ONNX_MODEL_GRAPH, ONNX_ENTER, ONNX_GRAPH },
    { ONNX_MODEL, 14, ONNX_PROPERTY, 0 },
    { ONNX_MODEL, 20, ONNX_TRAINING, 0 },
    { ONNX_MODEL, 25, ONNX_ENTER, ONNX_FUNCTION },
    { ONNX_GRAPH, 1, ONNX_ENTER, ONNX_NODE },
    { ONNX_GRAPH, 5, ONNX_TENSOR, 0 },
    { ONNX_GRAPH, 15, ONNX_SPARSE, 0 },
    { ONNX_FUNCTION, 7, ONNX_ENTER, ONNX_NODE },
    { ONNX_FUNCTION, 11, ONNX_ENTER, ONNX_ATTRIBUTE },
    { ONNX_NODE, 5, ONNX_ENTER, ONNX_ATTRIBUTE },
    { ONNX_ATTRIBUTE, 5, ONNX_CONSTANT, 0 },
    { ONNX_ATTRIBUTE, 6, ONNX_ENTER, ONNX_GRAPH },
    { ONNX_ATTRIBUTE, 10, ONNX_CONSTANT, 0 },
    { ONNX_ATTRIBUTE, 11, ONNX_ENTER, ONNX_GRAPH },
    { ONNX_ATTRIBUTE, 22, ONNX_SPARSE_CONSTANT, 0 },
    { ONNX_ATTRIBUTE, 23, ONNX_SPARSE_CONSTANT, 0 },
};

/* Bits of the fields that may come once, by kind. A program that takes the last of two, and one that takes the first, see
   two models. */
static const uint32_t onnx_once[] = {
    [ONNX_MODEL] = 0xfe,                                 /* 1 to 7 */
    [ONNX_GRAPH] = 1u << 2 | 1u << 10,                   /* name, doc_string */
    [ONNX_FUNCTION] = 1u << 1 | 1u << 8 | 1u << 10,      /* name, doc_string, domain */
    [ONNX_NODE] = 1u << 3 | 1u << 4 | 1u << 6 | 1u << 7, /* name, op_type, doc_string, domain */
    [ONNX_ATTRIBUTE] = 0x7e | 1u << 20 | 1u << 22,       /* 1 to 6, type, sparse_tensor */
};

static coffer_status onnx_damaged(uint64_t at, const char *what, coffer_error *err)
{
    return coffer__fail_at(err, COFFER_ERR_DAMAGED, at, "the ONNX model is damaged: %s", what);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* The first field of a number that is a text, within a message; one without size if there is none. */
static coffer_status onnx_find(onnx_reading *onnx, const onnx_open *open, uint32_t number, coffer__wire_field *found,
                               coffer_error *err)
{
    coffer__wire_field field;
    *found = (coffer__wire_field){ .number = 0 };
    for (uint64_t at = open->at; at < open->end; at = field.begin + field.size) {
        const coffer_status status = coffer__wire_next(onnx->base.window, at, open->end, &field, err);
        if (status != COFFER_OK) {
            return status;
        }
        if (field.number == number && field.kind == COFFER__WIRE_BYTES && field.size > 0) {
            *found = field;
            return COFFER_OK;
        }
    }
    return COFFER_OK;
}

/* Appends a text of the file to the path; `instead` if there is none. */
static coffer_status onnx_append(onnx_reading *onnx, const coffer__wire_field *field, const char *instead,
                                 coffer_error *err)
{
    const char *text = instead;
    size_t len = coffer__text_len(instead);
    if (field->size > 0) {
        const coffer_status status = coffer__onnx_text(&onnx->base, field->begin, field->size, &text, err);
        if (status != COFFER_OK) {
            return status;
        }
        len = (size_t)field->size;
    }
    coffer__write(&onnx->path, text, len);
    return COFFER_OK;
}

/* A node is called by its name, or else by its first output; a constant by its output in any case. */
static coffer_status onnx_name_node(onnx_reading *onnx, onnx_open *open, coffer_error *err)
{
    coffer__wire_field type;
    coffer__wire_field name;
    const char *text = NULL;
    coffer_status status = onnx_find(onnx, open, 4, &type, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (type.size == 8) {
        status = coffer__onnx_text(&onnx->base, type.begin, type.size, &text, err);
        if (status != COFFER_OK) {
            return status;
        }
        open->constant = memcmp(text, "Constant", 8) == 0;
    }
    status = onnx_find(onnx, open, open->constant ? 2 : 3, &name, err);
    if (status == COFFER_OK && name.size == 0) {
        status = onnx_find(onnx, open, 2, &name, err);
    }
    return status == COFFER_OK ? onnx_append(onnx, &name, "node", err) : status;
}

/* The message's own part of the path. That of an attribute is kept before its graphs, as that of a node. */
static coffer_status onnx_name_message(onnx_reading *onnx, onnx_open *open, coffer_error *err)
{
    coffer__wire_field name;
    coffer_status status = COFFER_OK;
    open->before = onnx->path.used;
    if (open->kind == ONNX_NODE) {
        status = onnx_name_node(onnx, open, err);
    } else if (open->kind == ONNX_FUNCTION || open->kind == ONNX_ATTRIBUTE) {
        status = onnx_find(onnx, open, 1, &name, err);
        if (status != COFFER_OK) {
            return status;
        }
        coffer__write(&onnx->path, ".", open->kind == ONNX_ATTRIBUTE && onnx->path.used > 0);
        status = onnx_append(onnx, &name, "", err);
        coffer__write(&onnx->path, ".", open->kind == ONNX_FUNCTION);
    }
    open->path = onnx->path.used;
    if (status == COFFER_OK && onnx->path.failed) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the names of an ONNX model");
    }
    return status;
}

/* ---- fields ------------------------------------------------------------------------------------------------------ */

/* Graphs of an attribute are told apart by their number where there may be several. */
static coffer_status onnx_enter(onnx_reading *onnx, onnx_kind kind, const coffer__wire_field *field, coffer_error *err)
{
    char digits[20];
    onnx_open *parent = onnx->depth > 0 ? &onnx->open[onnx->depth - 1] : NULL;
    if (onnx->depth == ONNX_DEPTH) {
        return onnx_damaged(field->at, "messages lie within each other more than 64 deep", err);
    }
    if (kind == ONNX_GRAPH && parent != NULL && parent->kind == ONNX_ATTRIBUTE) {
        if (field->number == 11) {
            coffer__write(&onnx->path, ".", 1);
            coffer__write(&onnx->path, digits, coffer__write_u64(digits, parent->graphs++));
        }
        coffer__write(&onnx->path, ".", 1);
    }
    onnx_open *open = &onnx->open[onnx->depth++];
    *open = (onnx_open){ .kind = kind, .at = field->begin, .end = field->begin + field->size };
    return onnx_name_message(onnx, open, err);
}

/* A tensor in an attribute has the name of the attribute; that of a constant is the node's output, as the node's part of
   the path says. */
static coffer_status onnx_put_constant(onnx_reading *onnx, const coffer__wire_field *field, coffer_error *err)
{
    char digits[20];
    onnx_open *attribute = &onnx->open[onnx->depth - 1];
    const onnx_open *node = onnx->depth > 1 ? attribute - 1 : attribute;
    if (!onnx->base.rows.wants->constants) {
        onnx->constants++;
        return COFFER_OK;
    }
    if (node->kind == ONNX_NODE && node->constant && field->number == 5) {
        return coffer__onnx_put_tensor(&onnx->base, field->begin, field->begin + field->size, onnx->path.text,
                                       node->path, true, err);
    }
    if (field->number == 10) {
        coffer__write(&onnx->path, ".", 1);
        coffer__write(&onnx->path, digits, coffer__write_u64(digits, attribute->graphs++));
    }
    return coffer__onnx_put_tensor(&onnx->base, field->begin, field->begin + field->size, onnx->path.text,
                                   onnx->path.used, true, err);
}

/* A sparse tensor has a tensor of its values, which has the name. */
static coffer_status onnx_put_sparse(onnx_reading *onnx, const coffer__wire_field *field, coffer_error *err)
{
    if (!onnx->base.rows.wants->skip_unsupported) {
        return coffer__fail_at(err, COFFER_ERR_NO_EQUIVALENT, field->at,
                               "the ONNX model has a sparse tensor at byte %u, which safetensors cannot express",
                               field->at);
    }
    return coffer__import_plan_put_finding(onnx->base.rows.plan, COFFER_WEIGHT_OPAQUE, 0, field->at, "",
                                           "a sparse tensor is left out", "", 0, err);
}

/* A key and a value of the model's own metadata. */
static coffer_status onnx_put_property(onnx_reading *onnx, const coffer__wire_field *field, coffer_error *err)
{
    const onnx_open entry = { .at = field->begin, .end = field->begin + field->size };
    coffer__wire_field key;
    coffer__wire_field value;
    const char *text = NULL;
    coffer__writing name = { .allocator = onnx->base.rows.plan->allocator };
    coffer_status status = onnx_find(onnx, &entry, 1, &key, err);
    if (status == COFFER_OK) {
        status = onnx_find(onnx, &entry, 2, &value, err);
    }
    if (status == COFFER_OK && value.size > COFFER__ONNX_MAX_NAME) {
        return coffer__import_plan_put_finding(onnx->base.rows.plan, COFFER_WEIGHT_NOTE, 0, field->at, "",
                                               "a value of the model's metadata is too long, and is left out", "", 0,
                                               err);
    }
    if (status == COFFER_OK) {
        status = coffer__onnx_text(&onnx->base, key.begin, key.size, &text, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    coffer__write_text(&name, "onnx.");
    coffer__write(&name, text, (size_t)key.size);
    status = coffer__onnx_text(&onnx->base, value.begin, value.size, &text, err);
    if (status == COFFER_OK && name.failed) {
        status = coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the metadata of an ONNX model");
    }
    if (status == COFFER_OK) {
        status =
            coffer__import_plan_put_pair(onnx->base.rows.plan, name.text, name.used, text, (size_t)value.size, err);
    }
    coffer__writing_free(&name);
    return status;
}

/* What a field of the message is, by the table; all others are skipped. */
static coffer_status onnx_take(onnx_reading *onnx, onnx_kind in, const coffer__wire_field *field, coffer_error *err)
{
    size_t row = 0;
    const size_t rows = sizeof onnx_fields / sizeof onnx_fields[0];
    while (row < rows && (onnx_fields[row].in != in || onnx_fields[row].number != field->number)) {
        row++;
    }
    const onnx_role role = row < rows ? (onnx_role)onnx_fields[row].role : ONNX_SKIP;
    if (role != ONNX_SKIP && field->kind != COFFER__WIRE_BYTES) {
        return onnx_damaged(field->at, "a message is of another kind than it should be", err);
    }
    switch (role) {
    case ONNX_ENTER:
        return onnx_enter(onnx, (onnx_kind)onnx_fields[row].kind, field, err);
    case ONNX_TENSOR:
        return coffer__onnx_put_tensor(&onnx->base, field->begin, field->begin + field->size, onnx->path.text,
                                       onnx->path.used, false, err);
    case ONNX_CONSTANT:
        return onnx_put_constant(onnx, field, err);
    case ONNX_SPARSE:
        return onnx_put_sparse(onnx, field, err);
    case ONNX_SPARSE_CONSTANT:
        return onnx->base.rows.wants->constants ? onnx_put_sparse(onnx, field, err) : COFFER_OK;
    case ONNX_PROPERTY:
        return onnx->base.rows.wants->scan ? COFFER_OK : onnx_put_property(onnx, field, err);
    case ONNX_TRAINING:
        return coffer__import_plan_put_finding(onnx->base.rows.plan, COFFER_WEIGHT_NOTE, 0, field->at, "",
                                               "what the model has for training is left out", "", 0, err);
    case ONNX_SKIP:
        break;
    }
    return COFFER_OK;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* Each step reads one field of the innermost message, or closes it. The path is cut to the message's own before each
   field, as whatever was in the field has appended to it. */
static coffer_status onnx_walk(onnx_reading *onnx, coffer_error *err)
{
    coffer__wire_field field = { .size = onnx->base.input->size };
    coffer_status status = onnx_enter(onnx, ONNX_MODEL, &field, err);
    while (status == COFFER_OK && onnx->depth > 0) {
        onnx_open *open = &onnx->open[onnx->depth - 1];
        if (open->at == open->end) {
            onnx->path.used = open->before;
            onnx->depth--;
            continue;
        }
        status = coffer__wire_next(onnx->base.window, open->at, open->end, &field, err);
        if (status != COFFER_OK) {
            return status;
        }
        open->at = field.begin + field.size;
        onnx->path.used = open->path;
        const uint32_t bit = field.number < 32 ? 1u << field.number : 0;
        if ((open->seen & bit & onnx_once[open->kind]) != 0) {
            return onnx_damaged(field.at, "a field is there twice that can be there once", err);
        }
        open->seen |= bit;
        status = onnx_take(onnx, open->kind, &field, err);
    }
    return status;
}

/* Once for all of them: a model may have a constant for every number that it adds. */
static coffer_status onnx_note_constants(const onnx_reading *onnx, coffer_error *err)
{
    if (onnx->constants == 0 || onnx->base.rows.wants->scan) {
        return COFFER_OK;
    }
    return coffer__import_plan_put_finding(
        onnx->base.rows.plan, COFFER_WEIGHT_NOTE, 0, COFFER_NO_OFFSET, "",
        "tensors in the attributes of nodes are left out: --constants takes them, too", "", 0, err);
}

static coffer_status onnx_read_model(onnx_reading *onnx, coffer_error *err)
{
    const coffer__wants *wants = onnx->base.rows.wants;
    coffer__import_plan *plan = onnx->base.rows.plan;
    coffer_status status = coffer__import_plan_put_pair(plan, "format", 6, "onnx", 4, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = onnx_walk(onnx, err);
    if (status != COFFER_OK) {
        return status;
    }
    /* A message may end after any of its fields, so a model that was cut there is a sound one without its graph. */
    if ((onnx->open[0].seen & 1u << ONNX_MODEL_GRAPH) == 0 && !wants->scan) {
        return onnx_damaged(onnx->base.input->size, "it ends before its graph; get the file again", err);
    }
    status = coffer__onnx_put_externals(&onnx->base, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = onnx_note_constants(onnx, err);
    if (status != COFFER_OK || wants->scan) {
        return status;
    }
    status = coffer__dense_finish(&onnx->base.rows, err);
    return status == COFFER_OK && wants->ties == COFFER_TIES_HF ? coffer__import_plan_tie(plan, 0, err) : status;
}

static coffer_status onnx_read(const coffer__input_files *input, const coffer__wants *wants, coffer__import_plan *plan,
                               coffer_error *err)
{
    const coffer_allocator *allocator = plan->allocator;
    onnx_reading onnx = { .base = { .input = input }, .path = { .allocator = allocator } };
    coffer__dense_begin(&onnx.base.rows, wants, plan);
    onnx.base.window = coffer__file_window_new(input, allocator, err);
    const coffer_status status = onnx.base.window != NULL ? onnx_read_model(&onnx, err) : COFFER_ERR_MEMORY;
    coffer__free(allocator, onnx.base.externals, onnx.base.external_capacity * sizeof *onnx.base.externals);
    coffer__file_window_free(onnx.base.window, allocator);
    coffer__writing_free(&onnx.path);
    coffer__dense_free(&onnx.base.rows);
    return status;
}

/* ---- recognising ------------------------------------------------------------------------------------------------- */

/* The fields of a model are known, and begin with the number of a version; a graph has to come. Other programs' messages
   begin alike, so that the names of theirs, which have no graph in the same place, are left to them. */
static bool onnx_sniff(const uint8_t *head, size_t head_size, const uint8_t *tail, size_t tail_size, const char *path,
                       size_t path_len)
{
    static const uint32_t known = 0xfe | 1u << 8 | 1u << 14 | 1u << 20 | 1u << 25 | 1u << 26;
    coffer__cursor in = { .base = head, .length = head_size };
    coffer__wire_field field;
    (void)tail;
    (void)tail_size;
    const bool named = coffer__text_ends(path, path_len, ".onnx");
    if (!coffer__wire_read(head, head_size, 0, &field) || field.number > 31 || (known >> field.number & 1) == 0) {
        return false;
    }
    if (field.number != 1 || field.kind != COFFER__WIRE_VARINT) {
        return named;
    }
    while (coffer__wire_read(in.base + in.position, coffer__left(&in), in.position, &field)) {
        const bool is_known = field.number < 32 && (known >> field.number & 1) != 0;
        if (!is_known || (field.number == 7 && field.kind == COFFER__WIRE_BYTES)) {
            return is_known;
        }
        if (field.begin > in.length || field.size > in.length - field.begin) {
            break;
        }
        in.position = (size_t)(field.begin + field.size);
    }
    return named;
}

const coffer__reader coffer__reader_onnx = { "onnx", "an ONNX model", onnx_sniff, onnx_read };
