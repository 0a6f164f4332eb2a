/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of TensorFlow's checkpoints: PREFIX.index, a table (tf_table.h), and PREFIX.data-00000-of-00002, … beside it. In a
 * SavedModel they are variables/variables.index and so on; its graph is never looked at.
 *
 *   key ""          files 1 | order of bytes 2 (1: big-endian) | version 3           (protobuf: field numbers)
 *   any other key   dtype 1 | shape 2 { dimension 2 { size 1 } } | file 3 | offset 4 | size 5 | CRC-32C 6, masked, 4 bytes |
 *                   slices 7 { extent 1 { start 1 | length 2 } }; what is 0 is left out
 *
 * A tensor in slices has no bytes: each slice has an entry of its own, whose key begins with a zero byte:
 *   00 | the name, "00" as "00 ff" and "ff" as "ff 00" | 00 01 | rank: its length 1, and as many bytes | start, length, …
 * where starts and lengths are numbers of which the first byte says how long they are. All such keys come before the others.
 *
 * Checkpoints of objects have keys that are paths of attributes, model/layer/kernel/.ATTRIBUTES/VARIABLE_VALUE: the ending is no
 * part of the name, and in a component ".S" is "/" and ".." is ".".
 */
#include "alloc.h"
#include "checked.h"
#include "dense.h"
#include "disjoint.h"
#include "dtype.h"
#include "error.h"
#include "readers.h"
#include "sort.h"
#include "text.h"
#include "tf_table.h"
#include "wire.h"

#include <string.h>

#define TF_MOST_FILES 100000u
#define TF_MOST_SLICES ((size_t)1 << 20)
#define TF_VALUE "/.ATTRIBUTES/VARIABLE_VALUE"
#define TF_SLOT "/.OPTIMIZER_SLOT/"
#define TF_REFERENCE 100u /* what is added to the numbers of dtypes of references */

/* A file of data; opened when the first tensor in it comes. */
typedef struct tf_file {
    bool open;
    uint32_t number;
    uint64_t size;
} tf_file;

/* What an entry says. */
typedef struct tf_tensor {
    uint64_t dtype;
    uint32_t rank;
    uint64_t shape[COFFER__PLAN_MAX_RANK];
    bool unknown_rank;
    uint64_t file;
    uint64_t offset;
    uint64_t size;
    uint32_t crc;
    bool has_crc;
    coffer__cursor slices; /* the message from the first of them on */
    uint32_t slice_count;
} tf_tensor;

/* A slice, until the tensor that it belongs to comes. */
typedef struct tf_slice {
    size_t key; /* in the keys */
    size_t key_len;
    tf_tensor tensor;
    bool used;
} tf_slice;

typedef struct tf_reading {
    const coffer__input *input;
    const coffer__wants *wants;
    coffer__plan *plan;
    coffer__dense_rows rows;
    bool has_head;
    bool swapped;
    bool found_root;
    tf_file *files;
    uint64_t file_count;
    tf_slice *slices;
    size_t slice_count;
    size_t slice_room;
    coffer__writing keys; /* of the slices */
    coffer__writing name; /* of the tensor at hand */
    const char *prefix;   /* of the names of files */
    size_t prefix_len;
} tf_reading;

static coffer_status tf_damaged(uint64_t at, const char *what, coffer_error *err)
{
    return coffer__fail_at(err, COFFER_ERR_ARCHIVE, at, "the checkpoint is damaged: %s", what);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* A field: a number, or bytes. */
typedef struct tf_field {
    uint64_t number;
    unsigned wire;
    uint64_t value; /* of a varint, or of four bytes */
    coffer__cursor bytes;
} tf_field;

/* False when the message is cut, or has a field of a kind that is no more. */
static bool tf_next_field(coffer__cursor *in, tf_field *field)
{
    coffer__wire_field found;
    const size_t left = coffer__left(in);
    if (!coffer__wire_read(in->base + in->position, left, 0, &found) || found.begin > left ||
        found.size > left - found.begin) {
        return false;
    }
    *field = (tf_field){ .number = found.number,
                         .wire = (unsigned)found.kind,
                         .value = found.value,
                         .bytes = { .base = in->base + in->position + found.begin, .length = (size_t)found.size } };
    if (found.kind == COFFER__WIRE_FOUR) {
        field->value = coffer__load_u32le(field->bytes.base);
    }
    in->position += (size_t)(found.begin + found.size);
    return true;
}

/* { size 1 }, which is a number without a sign: -1 is an unknown size. */
static bool tf_read_dimension(coffer__cursor in, tf_tensor *tensor)
{
    tf_field field;
    uint64_t size = 0;
    while (coffer__left(&in) > 0) {
        if (!tf_next_field(&in, &field)) {
            return false;
        }
        size = field.number == 1 && field.wire == 0 ? field.value : size;
    }
    if (tensor->rank == COFFER__PLAN_MAX_RANK || size > INT64_MAX) {
        return false;
    }
    tensor->shape[tensor->rank++] = size;
    return true;
}

static bool tf_read_shape(coffer__cursor in, tf_tensor *tensor)
{
    tf_field field;
    while (coffer__left(&in) > 0) {
        if (!tf_next_field(&in, &field)) {
            return false;
        }
        if (field.number == 2 && (field.wire != 2 || !tf_read_dimension(field.bytes, tensor))) {
            return false;
        }
        tensor->unknown_rank = tensor->unknown_rank || (field.number == 3 && field.value != 0);
    }
    return true;
}

/* The wire kinds of the fields 1 to 7. */
static const unsigned tf_wires[] = { 0, 0, 2, 0, 0, 0, 5, 2 };

/* A field that comes twice says two things, of which readers take different ones. Slices may. */
static bool tf_read_tensor(coffer__cursor in, tf_tensor *tensor)
{
    unsigned seen = 0;
    *tensor = (tf_tensor){ .dtype = 0 };
    while (coffer__left(&in) > 0) {
        const coffer__cursor before = in;
        tf_field field;
        if (!tf_next_field(&in, &field)) {
            return false;
        }
        if (field.number > 7) {
            continue;
        }
        const unsigned bit = 1u << field.number;
        if (field.wire != tf_wires[field.number] || ((seen & bit) != 0 && field.number != 7)) {
            return false;
        }
        if (field.number == 7 && tensor->slice_count++ == 0) {
            tensor->slices = before;
        }
        if (field.number == 2 && !tf_read_shape(field.bytes, tensor)) {
            return false;
        }
        seen |= bit;
        tensor->dtype = field.number == 1 ? field.value : tensor->dtype;
        tensor->file = field.number == 3 ? field.value : tensor->file;
        tensor->offset = field.number == 4 ? field.value : tensor->offset;
        tensor->size = field.number == 5 ? field.value : tensor->size;
        tensor->crc = field.number == 6 ? coffer__tf_unmask((uint32_t)field.value) : tensor->crc;
    }
    tensor->has_crc = (seen & 1u << 6) != 0;
    return true;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* PREFIX.data-00000-of-00001: numbers have five digits at least. */
static void tf_write_number(coffer__writing *out, uint64_t number)
{
    char digits[20];
    const size_t count = coffer__write_u64(digits, number);
    coffer__write(out, "00000", count < 5 ? 5 - count : 0);
    coffer__write(out, digits, count);
}

static coffer_status tf_open(tf_reading *tf, uint64_t number, tf_file **file, coffer_error *err)
{
    *file = &tf->files[number];
    if ((*file)->open) {
        return COFFER_OK;
    }
    coffer__writing name = { .allocator = tf->plan->allocator };
    uint32_t planned = 0;
    coffer__write(&name, tf->prefix, tf->prefix_len);
    coffer__write_text(&name, ".data-");
    tf_write_number(&name, number);
    coffer__write_text(&name, "-of-");
    tf_write_number(&name, tf->file_count);
    coffer_status status =
        name.failed ? coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the name of a file")
                    : tf->input->open(tf->input->ctx, name.text, name.used, &(*file)->number, &(*file)->size, err);
    if (status == COFFER_OK) {
        status = coffer__plan_put_file(tf->plan, name.text, name.used, &planned, err);
    }
    coffer__writing_free(&name);
    if (status == COFFER_OK && planned != (*file)->number) {
        status = coffer__fail(err, COFFER_ERR_PLAN, "the files of the checkpoint are not numbered as they were opened");
    }
    (*file)->open = status == COFFER_OK;
    return status;
}

/* The piece that an entry's bytes are. */
static coffer_status tf_put_piece(tf_reading *tf, const tf_tensor *tensor, uint64_t at, coffer_error *err)
{
    tf_file *file = NULL;
    if (tensor->file >= tf->file_count) {
        return tf_damaged(at, "a tensor is in a file that it does not have", err);
    }
    const coffer_status status = tf_open(tf, tensor->file, &file, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (tensor->offset > file->size || tensor->size > file->size - tensor->offset) {
        return tf_damaged(at, "a tensor lies beyond the end of its file", err);
    }
    const coffer__plan_piece piece = { .file = file->number,
                                       .offset = tensor->offset,
                                       .stored_size = tensor->size,
                                       .size = tensor->size,
                                       .has_crc = tensor->has_crc,
                                       .castagnoli = true,
                                       .crc = tensor->crc };
    return coffer__plan_put_piece(tf->plan, &piece, err);
}

/* ---- dtypes ------------------------------------------------------------------------------------------------------ */

/* By TensorFlow's numbers. Those of quantised integers are their integers, which the noun says in a note. */
static const struct tf_dtype {
    const char *noun;
    coffer_dtype dtype;
    uint8_t bits;
    bool note;
} tf_dtypes[] = {
    [1] = { "float32", COFFER_F32, 32, false },
    [2] = { "float64", COFFER_F64, 64, false },
    [3] = { "int32", COFFER_I32, 32, false },
    [4] = { "uint8", COFFER_U8, 8, false },
    [5] = { "int16", COFFER_I16, 16, false },
    [6] = { "int8", COFFER_I8, 8, false },
    [7] = { "strings", COFFER_UNKNOWN_DTYPE, 0, false },
    [8] = { "complex64", COFFER_C64, 64, false },
    [9] = { "int64", COFFER_I64, 64, false },
    [10] = { "bool", COFFER_BOOL, 8, false },
    [11] = { "qint8", COFFER_I8, 8, true },
    [12] = { "quint8", COFFER_U8, 8, true },
    [13] = { "qint32", COFFER_I32, 32, true },
    [14] = { "bfloat16", COFFER_BF16, 16, false },
    [15] = { "qint16", COFFER_I16, 16, true },
    [16] = { "quint16", COFFER_U16, 16, true },
    [17] = { "uint16", COFFER_U16, 16, false },
    [18] = { "complex128", COFFER_UNKNOWN_DTYPE, 128, false },
    [19] = { "float16", COFFER_F16, 16, false },
    [20] = { "resources", COFFER_UNKNOWN_DTYPE, 0, false },
    [21] = { "variants", COFFER_UNKNOWN_DTYPE, 0, false },
    [22] = { "uint32", COFFER_U32, 32, false },
    [23] = { "uint64", COFFER_U64, 64, false },
    [24] = { "float8_e5m2", COFFER_F8_E5M2, 8, false },
    [25] = { "float8_e4m3fn", COFFER_F8_E4M3, 8, false },
    [26] = { "float8_e4m3fnuz", COFFER_F8_E4M3FNUZ, 8, false },
    [27] = { "float8_e4m3b11fnuz", COFFER_UNKNOWN_DTYPE, 8, false },
    [28] = { "float8_e5m2fnuz", COFFER_F8_E5M2FNUZ, 8, false },
    [29] = { "int4", COFFER_UNKNOWN_DTYPE, 8, false },
    [30] = { "uint4", COFFER_UNKNOWN_DTYPE, 8, false },
    [31] = { "int2", COFFER_UNKNOWN_DTYPE, 8, false },
    [32] = { "uint2", COFFER_UNKNOWN_DTYPE, 8, false },
};

static const struct tf_dtype *tf_find_dtype(uint64_t number)
{
    const uint64_t plain = number > TF_REFERENCE ? number - TF_REFERENCE : number;
    const bool is_known = plain < sizeof tf_dtypes / sizeof tf_dtypes[0] && tf_dtypes[plain].noun != NULL;
    return is_known ? &tf_dtypes[plain] : NULL;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static bool tf_contains(const char *text, size_t text_len, const char *word)
{
    const size_t len = strlen(word);
    for (size_t i = 0; i + len <= text_len; i++) {
        if (memcmp(text + i, word, len) == 0) {
            return true;
        }
    }
    return false;
}

/* ".S" is "/", and ".." is ".". Anything else after a dot is no escape. */
static void tf_unescape(coffer__writing *out, const char *text, size_t text_len)
{
    for (size_t i = 0; i < text_len; i++) {
        const char next = text[i] == '.' && i + 1 < text_len ? text[i + 1] : 'x';
        coffer__write(out, next == 'S' ? "/" : text + i, 1);
        i += next == 'S' || next == '.';
    }
}

/* The name of a key. Of one that is no path of attributes it is the key. */
static coffer_status tf_read_name(tf_reading *tf, const coffer__tf_entry *entry, coffer_error *err)
{
    const char *key = (const char *)entry->key;
    const bool of_object = coffer__text_ends(key, entry->key_len, TF_VALUE);
    tf->name.used = 0;
    if (of_object) {
        tf_unescape(&tf->name, key, entry->key_len - (sizeof TF_VALUE - 1));
    } else {
        coffer__write(&tf->name, key, entry->key_len);
    }
    return tf->name.failed ? coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the name of a tensor") : COFFER_OK;
}

/* Whether a path is below the root, whose parts may be joined by dots. */
static bool tf_is_below(const coffer__writing *name, const char *root, size_t *rest)
{
    const size_t len = strlen(root);
    for (size_t i = 0; i < len && i < name->used; i++) {
        if (name->text[i] != root[i] && !(name->text[i] == '/' && root[i] == '.')) {
            return false;
        }
    }
    *rest = len + 1;
    return name->used > len + 1 && name->text[len] == '/';
}

/* Why a tensor is left out, or NULL; *rest is where its name begins. */
static const char *tf_choose(tf_reading *tf, const coffer__tf_entry *entry, size_t *rest)
{
    const char *root = tf->wants->root;
    *rest = 0;
    if (coffer__same_text(root, "all")) {
        return NULL;
    }
    if (!coffer__same_text(root, "auto")) {
        const bool is_below = tf_is_below(&tf->name, root, rest);
        tf->found_root = tf->found_root || is_below;
        *rest = is_below ? *rest : 0;
        return is_below ? NULL : "it is not in the part of the file that is the model";
    }
    size_t none = 0;
    if (tf_contains((const char *)entry->key, entry->key_len, TF_SLOT) || tf_is_below(&tf->name, "optimizer", &none)) {
        return "it belongs to the optimizer";
    }
    return coffer__text_is((const char *)entry->key, entry->key_len, "save_counter" TF_VALUE)
               ? "it counts what was saved"
               : NULL;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* A row without a dtype for what is left out: the bytes of its storage. */
static coffer_status tf_skip(tf_reading *tf, const coffer__dense *tensor, uint64_t size, uint32_t storage,
                             const char *why, coffer_error *err)
{
    const coffer__plan_dimension all = { .size = size, .count = size, .stride = size > 1 };
    coffer__plan_row row = { .fate = COFFER_FATE_SKIPPED, .storage = storage, .rank = 1, .item_size = 1 };
    coffer_status status = coffer__plan_put_text(tf->plan, tensor->name, tensor->name_len, &row.name, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__plan_put_text(tf->plan, why, strlen(why), &row.reason, err);
    return status == COFFER_OK ? coffer__plan_put_row(tf->plan, &row, &all, err) : status;
}

/* Names the tensor in a failure. */
static coffer_status tf_named(const coffer__dense *tensor, coffer_status status, coffer_error *err)
{
    return status == COFFER_OK ? COFFER_OK : coffer__fail_tensor(err, status, tensor->name, tensor->name_len);
}

/* What a tensor's own bytes, or those of its slices, become. */
static coffer_status tf_put_row(tf_reading *tf, const coffer__dense *tensor, uint32_t pieces, uint64_t size,
                                const char *left_out, coffer_error *err)
{
    uint32_t name = 0;
    uint32_t storage = 0;
    coffer_status status = coffer__plan_put_text(tf->plan, tensor->name, tensor->name_len, &name, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__plan_put_storage(tf->plan, pieces, name, &storage, err);
    if (status != COFFER_OK) {
        return status;
    }
    return left_out != NULL ? tf_skip(tf, tensor, size, storage, left_out, err)
                            : coffer__dense_put(&tf->rows, tensor, storage, err);
}

/* Strings and the like: their bytes are lengths and texts, so that only the file says how many they are. */
static coffer_status tf_put_texts(tf_reading *tf, const coffer__dense *tensor, const tf_tensor *entry,
                                  coffer_error *err)
{
    const coffer_status status = tf_put_piece(tf, entry, tensor->at, err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer__plan_piece *piece = (coffer__plan_piece *)tf->plan->pieces.items + tf->plan->pieces.count - 1;
    /* Their CRC is that of something else than these bytes. */
    piece->has_crc = false;
    coffer__writing why = { .allocator = tf->plan->allocator };
    coffer__write_text(&why, "it is of ");
    coffer__write_text(&why, tensor->type);
    coffer__write_text(&why, ", which safetensors does not have");
    coffer__write(&why, "", 1);
    const coffer_status put = why.failed ? coffer__fail(err, COFFER_ERR_MEMORY, "no memory to say why")
                                         : tf_put_row(tf, tensor, 1, entry->size, why.text, err);
    coffer__writing_free(&why);
    return put;
}

/* A tensor in one piece. */
static coffer_status tf_put_whole(tf_reading *tf, const coffer__dense *tensor, const tf_tensor *entry, uint64_t size,
                                  const char *left_out, coffer_error *err)
{
    if (entry->size != size) {
        tf_damaged(tensor->at, "a tensor has another size than its shape", err);
        return coffer__fail_sizes(err, COFFER_ERR_ARCHIVE, size, entry->size);
    }
    const coffer_status status = tf_put_piece(tf, entry, tensor->at, err);
    return status == COFFER_OK ? tf_put_row(tf, tensor, 1, size, left_out, err) : status;
}

/* ---- slices ------------------------------------------------------------------------------------------------------ */

/* A number without a sign: how many bytes it has, and these, the highest first. */
static void tf_encode_number(coffer__writing *out, uint64_t number)
{
    char bytes[9];
    unsigned count = 0;
    for (unsigned shift = 64; shift > 0; shift -= 8) {
        const uint64_t rest = number >> (shift - 8);
        if (rest != 0) {
            bytes[1 + count++] = (char)rest;
        }
    }
    bytes[0] = (char)count;
    coffer__write(out, bytes, 1 + count);
}

/*
 * A number with a sign, the highest byte first. As many bits of the first bytes as it has bytes are ones, then a zero, then the
 * number; of a negative one all bits are the opposite. So it takes n bytes for 7 n - 1 bits.
 */
static void tf_encode_signed(coffer__writing *out, int64_t number)
{
    static const uint8_t heads[11][2] = { { 0, 0 },    { 0x80, 0 },    { 0xc0, 0 },   { 0xe0, 0 },
                                          { 0xf0, 0 }, { 0xf8, 0 },    { 0xfc, 0 },   { 0xfe, 0 },
                                          { 0xff, 0 }, { 0xff, 0x80 }, { 0xff, 0xc0 } };
    const uint64_t size = number < 0 ? ~(uint64_t)number : (uint64_t)number;
    uint8_t bytes[10];
    unsigned count = 1;
    while (count < 10 && size >> (7 * count - 1) != 0) {
        count++;
    }
    memset(bytes, number < 0 ? 0xff : 0, 2);
    for (unsigned i = 0; i < 8; i++) {
        bytes[9 - i] = (uint8_t)((uint64_t)number >> (8 * i));
    }
    bytes[10 - count] ^= heads[count][0];
    if (count > 1) {
        bytes[11 - count] ^= heads[count][1];
    }
    coffer__write(out, (const char *)bytes + 10 - count, count);
}

static void tf_encode_name(coffer__writing *out, const uint8_t *name, size_t name_len)
{
    for (size_t i = 0; i < name_len; i++) {
        coffer__write(out, (const char *)name + i, 1);
        if (name[i] == 0 || name[i] == 0xff) {
            coffer__write(out, name[i] == 0 ? "\xff" : "\0", 1);
        }
    }
    coffer__write(out, "\0\1", 2);
}

/* One slice of a tensor, as a box of it; -1 as a length is all there is. */
typedef struct tf_box {
    uint32_t rank;
    int64_t starts[COFFER__PLAN_MAX_RANK];
    int64_t lengths[COFFER__PLAN_MAX_RANK];
} tf_box;

static bool tf_read_extent(coffer__cursor in, tf_box *box)
{
    tf_field field;
    if (box->rank == COFFER__PLAN_MAX_RANK) {
        return false;
    }
    box->starts[box->rank] = 0;
    box->lengths[box->rank] = -1;
    while (coffer__left(&in) > 0) {
        if (!tf_next_field(&in, &field) || field.wire != 0 || field.value > INT64_MAX) {
            return false;
        }
        box->starts[box->rank] = field.number == 1 ? (int64_t)field.value : box->starts[box->rank];
        box->lengths[box->rank] = field.number == 2 ? (int64_t)field.value : box->lengths[box->rank];
    }
    box->rank++;
    return true;
}

/* The next slice of a tensor's entry. */
static bool tf_next_slice(coffer__cursor *in, tf_box *box)
{
    tf_field field;
    box->rank = 0;
    while (coffer__left(in) > 0) {
        if (!tf_next_field(in, &field)) {
            return false;
        }
        if (field.number != 7) {
            continue;
        }
        while (coffer__left(&field.bytes) > 0) {
            tf_field extent;
            if (!tf_next_field(&field.bytes, &extent) || extent.number != 1 || extent.wire != 2 ||
                !tf_read_extent(extent.bytes, box)) {
                return false;
            }
        }
        return true;
    }
    return false;
}

/* Keys of slices come in order, so they are found by halving. */
static int tf_compare_slice(const void *ctx, size_t i, const void *wanted)
{
    const tf_reading *tf = ctx;
    const coffer__writing *key = wanted;
    return coffer__compare_names(tf->keys.text + tf->slices[i].key, tf->slices[i].key_len, key->text, key->used);
}

/* The slice of a tensor that is a box of it; NULL: there is none. */
static coffer_status tf_find_slice(tf_reading *tf, const coffer__tf_entry *entry, const tf_box *box, tf_slice **slice,
                                   coffer_error *err)
{
    coffer__writing key = { .allocator = tf->plan->allocator };
    size_t at = 0;
    tf_encode_number(&key, 0);
    tf_encode_name(&key, entry->key, entry->key_len);
    tf_encode_number(&key, box->rank);
    for (uint32_t i = 0; i < box->rank; i++) {
        tf_encode_signed(&key, box->starts[i]);
        tf_encode_signed(&key, box->lengths[i]);
    }
    const bool failed = key.failed;
    *slice = !failed && coffer__find_sorted(tf->slice_count, tf_compare_slice, tf, &key, &at) ? &tf->slices[at] : NULL;
    coffer__writing_free(&key);
    return failed ? coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the key of a slice") : COFFER_OK;
}

/* Whether a box is rows [*next, …) of the tensor, with all else: then its bytes come after those of the box before. */
static bool tf_is_next(const tf_tensor *entry, const tf_box *box, uint64_t *next, uint64_t *rows)
{
    if (box->rank != entry->rank || box->rank == 0) {
        return false;
    }
    for (uint32_t i = 1; i < box->rank; i++) {
        const bool is_all = box->lengths[i] == -1 || (uint64_t)box->lengths[i] == entry->shape[i];
        if (box->starts[i] != 0 || !is_all) {
            return false;
        }
    }
    *rows = box->lengths[0] == -1 ? entry->shape[0] : (uint64_t)box->lengths[0];
    const bool is_next = (uint64_t)box->starts[0] == *next && *rows <= entry->shape[0] - *next;
    *next += is_next ? *rows : 0;
    return is_next;
}

/* Slices have to be all of the tensor, one after another. Sizes multiply without overflow, as those of the whole did. */
static coffer_status tf_put_slices(tf_reading *tf, const coffer__tf_entry *of, const coffer__dense *tensor,
                                   const tf_tensor *entry, uint64_t size, const char *left_out, coffer_error *err)
{
    coffer__cursor in = entry->slices;
    tf_box box;
    uint64_t next = 0;
    uint64_t rows = 0;
    const uint64_t row = entry->rank > 0 && entry->shape[0] > 0 ? size / entry->shape[0] : 0;
    for (uint32_t i = 0; i < entry->slice_count; i++) {
        tf_slice *slice = NULL;
        if (!tf_next_slice(&in, &box)) {
            return tf_damaged(tensor->at, "a slice of a tensor is cut", err);
        }
        if (!tf_is_next(entry, &box, &next, &rows)) {
            return coffer__fail_at(err, COFFER_ERR_UNSUPPORTED, tensor->at,
                                   "a tensor in slices that are not its rows, one after another");
        }
        coffer_status status = tf_find_slice(tf, of, &box, &slice, err);
        if (status != COFFER_OK) {
            return status;
        }
        if (slice == NULL || slice->used || slice->tensor.dtype != entry->dtype || slice->tensor.size != rows * row) {
            return tf_damaged(tensor->at, "a slice of a tensor is not there, or is of another size", err);
        }
        slice->used = true;
        status = tf_put_piece(tf, &slice->tensor, tensor->at, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    if (next != (entry->rank > 0 ? entry->shape[0] : 0)) {
        return tf_damaged(tensor->at, "the slices of a tensor are not all of it", err);
    }
    return tf_put_row(tf, tensor, entry->slice_count, size, left_out, err);
}

/* Keeps a slice for its tensor. */
static coffer_status tf_keep_slice(tf_reading *tf, const coffer__tf_entry *entry, const tf_tensor *tensor,
                                   coffer_error *err)
{
    tf_slice *slices =
        coffer__grow_array(tf->plan->allocator, tf->slices, tf->slice_count, &tf->slice_room, sizeof *slices, err);
    if (slices == NULL) {
        return COFFER_ERR_MEMORY;
    }
    tf->slices = slices;
    if (tf->slice_count == TF_MOST_SLICES) {
        return coffer__fail_at(err, COFFER_ERR_UNSUPPORTED, entry->at, "a checkpoint of more than %u slices",
                               (uint64_t)TF_MOST_SLICES);
    }
    slices[tf->slice_count++] = (tf_slice){ .key = tf->keys.used, .key_len = entry->key_len, .tensor = *tensor };
    coffer__write(&tf->keys, (const char *)entry->key, entry->key_len);
    return tf->keys.failed ? coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the keys of slices") : COFFER_OK;
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

/* The first entry. Checkpoints of version 1 have another message here, whose first field is one. */
static coffer_status tf_read_head(tf_reading *tf, const coffer__tf_entry *entry, coffer_error *err)
{
    coffer__cursor in = entry->value;
    tf->has_head = true;
    while (coffer__left(&in) > 0) {
        tf_field field;
        if (!tf_next_field(&in, &field)) {
            return tf_damaged(entry->at, "its head is cut", err);
        }
        if (field.number == 1 && field.wire == 2) {
            return coffer__fail_at(err, COFFER_ERR_UNSUPPORTED, entry->at,
                                   "a checkpoint of TensorFlow's first version: load it there and save it again");
        }
        tf->file_count = field.number == 1 && field.wire == 0 ? field.value : tf->file_count;
        tf->swapped = tf->swapped || (field.number == 2 && field.wire == 0 && field.value == 1);
    }
    if (tf->file_count == 0 || tf->file_count > TF_MOST_FILES) {
        return tf_damaged(entry->at, "the number of its files is not one that there can be", err);
    }
    tf->files = coffer__alloc_array(tf->plan->allocator, (size_t)tf->file_count, sizeof *tf->files, err);
    return tf->files == NULL ? COFFER_ERR_MEMORY : COFFER_OK;
}

/* Fills in what a tensor is. */
static void tf_describe(const tf_reading *tf, const struct tf_dtype *dtype, const tf_tensor *entry,
                        coffer__dense *tensor)
{
    tensor->type = dtype->noun;
    tensor->dtype = dtype->dtype;
    tensor->bits = dtype->bits;
    tensor->complex128 = dtype->bits == 128;
    tensor->swapped = tf->swapped;
    tensor->rank = entry->rank;
    memcpy(tensor->shape, entry->shape, entry->rank * sizeof tensor->shape[0]);
}

/* A note about integers that stood for something else. */
static coffer_status tf_note(tf_reading *tf, const struct tf_dtype *dtype, const coffer__dense *tensor,
                             coffer_error *err)
{
    return !dtype->note ? COFFER_OK
                        : coffer__plan_put_finding(tf->plan, COFFER_WEIGHT_NOTE, 0, tensor->at, "",
                                                   "tensor %q is quantised: its integers are kept, and what they stand "
                                                   "for is not in the checkpoint",
                                                   tensor->name, tensor->name_len, err);
}

static coffer_status tf_put_tensor(tf_reading *tf, const coffer__tf_entry *of, const tf_tensor *entry,
                                   coffer_error *err)
{
    size_t rest = 0;
    uint64_t size = 0;
    const struct tf_dtype *dtype = tf_find_dtype(entry->dtype);
    coffer_status status = tf_read_name(tf, of, err);
    if (status != COFFER_OK) {
        return status;
    }
    const char *left_out = tf_choose(tf, of, &rest);
    coffer__dense tensor = { .name = tf->name.text + rest, .name_len = tf->name.used - rest, .at = of->at };
    if (dtype == NULL) {
        return tf_named(
            &tensor,
            coffer__fail_at(err, COFFER_ERR_UNSUPPORTED, of->at, "a tensor of TensorFlow's dtype %u", entry->dtype),
            err);
    }
    tf_describe(tf, dtype, entry, &tensor);
    if (dtype->bits == 0) {
        return tf_named(&tensor, tf_put_texts(tf, &tensor, entry, err), err);
    }
    if (entry->unknown_rank || !coffer__dense_size(&tensor, &size)) {
        return tf_named(&tensor, tf_damaged(of->at, "a tensor's size is not known, or beyond 2^64-1", err), err);
    }
    status = left_out == NULL ? tf_note(tf, dtype, &tensor, err) : COFFER_OK;
    if (status != COFFER_OK) {
        return status;
    }
    status = entry->slice_count > 0 ? tf_put_slices(tf, of, &tensor, entry, size, left_out, err)
                                    : tf_put_whole(tf, &tensor, entry, size, left_out, err);
    return tf_named(&tensor, status, err);
}

static coffer_status tf_look_at_entry(void *ctx, const coffer__tf_entry *entry, coffer_error *err)
{
    tf_reading *tf = ctx;
    tf_tensor tensor;
    if (!tf->has_head) {
        return entry->key_len == 0 ? tf_read_head(tf, entry, err)
                                   : coffer__fail_at(err, COFFER_ERR_UNSUPPORTED, entry->at,
                                                     "a table of LevelDB, but no checkpoint of TensorFlow");
    }
    if (!tf_read_tensor(entry->value, &tensor)) {
        return tf_damaged(entry->at, "the description of a tensor is cut, or says things twice", err);
    }
    return entry->key[0] == 0 ? tf_keep_slice(tf, entry, &tensor, err) : tf_put_tensor(tf, entry, &tensor, err);
}

/* ---- the reader -------------------------------------------------------------------------------------------------- */

/* The files of data are called as the index is. */
static coffer_status tf_set_prefix(tf_reading *tf, coffer_error *err)
{
    static const char ending[] = ".index";
    const char *path = tf->input->path;
    size_t begin = 0;
    for (size_t i = 0; i < tf->input->path_len; i++) {
        begin = path[i] == '/' ? i + 1 : begin;
    }
    tf->prefix = path + begin;
    tf->prefix_len = tf->input->path_len - begin;
    if (!coffer__text_ends(tf->prefix, tf->prefix_len, ending)) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                            "the index of a checkpoint is called PREFIX.index, as its data are after that; one of "
                            "TensorFlow's first version, which is one file, is not read: load it there and save it "
                            "again");
    }
    tf->prefix_len -= sizeof ending - 1;
    return COFFER_OK;
}

/* A slice that no tensor has would be lost without a word. */
static coffer_status tf_check_slices(const tf_reading *tf, coffer_error *err)
{
    for (size_t i = 0; i < tf->slice_count; i++) {
        if (!tf->slices[i].used) {
            return tf_damaged(0, "it has a slice of no tensor", err);
        }
    }
    return COFFER_OK;
}

static coffer_status tf_finish(tf_reading *tf, coffer_error *err)
{
    const char *root = tf->wants->root;
    if (!tf->has_head) {
        return tf_damaged(0, "its index is empty", err);
    }
    if (!coffer__same_text(root, "auto") && !coffer__same_text(root, "all") && !tf->found_root) {
        return coffer__fail(err, COFFER_ERR_ROOT, "no tensor of the checkpoint is below %q", root, strlen(root));
    }
    coffer_status status = tf_check_slices(tf, err);
    if (status == COFFER_OK) {
        status = coffer__plan_check_disjoint(tf->plan, "the checkpoint", err);
    }
    return status == COFFER_OK ? coffer__dense_finish(&tf->rows, err) : status;
}

/* A scan reads no tensors; the data hold none that a loader would run. */
static coffer_status tf_read(const coffer__input *input, const coffer__wants *wants, coffer__plan *plan,
                             coffer_error *err)
{
    const coffer_allocator *allocator = plan->allocator;
    tf_reading tf = { .input = input, .wants = wants, .plan = plan };
    tf.keys.allocator = allocator;
    tf.name.allocator = allocator;
    coffer__dense_begin(&tf.rows, wants, plan);
    /* The root is a path here, whose parts have slashes between them: tf_choose looks at it. */
    tf.rows.has_root = false;
    if (wants->scan) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                            "what loading a TensorFlow model runs is in its graph, which is not looked at");
    }
    coffer_status status = tf_set_prefix(&tf, err);
    if (status == COFFER_OK) {
        status = coffer__plan_put_pair(plan, "format", 6, "tf", 2, err);
    }
    if (status == COFFER_OK) {
        status = coffer__tf_table_read(input, allocator, tf_look_at_entry, &tf, err);
    }
    if (status == COFFER_OK) {
        status = tf_finish(&tf, err);
    }
    coffer__dense_free(&tf.rows);
    coffer__writing_free(&tf.keys);
    coffer__writing_free(&tf.name);
    coffer__free_array(allocator, tf.files, (size_t)tf.file_count, sizeof *tf.files);
    coffer__free(allocator, tf.slices, tf.slice_room * sizeof *tf.slices);
    return status;
}

static bool tf_sniff(const uint8_t *head, size_t head_size, const uint8_t *tail, size_t tail_size, const char *path,
                     size_t path_len)
{
    (void)head;
    (void)head_size;
    (void)path;
    (void)path_len;
    return coffer__tf_table_is(tail, tail_size);
}

const coffer__reader coffer__reader_tf = { "tf", "a TensorFlow checkpoint", tf_sniff, tf_read };
