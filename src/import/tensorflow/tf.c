/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of TensorFlow's checkpoints: PREFIX.index, a table (tf_table.h), and PREFIX.data-00000-of-00002, … beside it. In a
 * SavedModel they are variables/variables.index and so on; its graph is never looked at.
 *
 *   key ""          files 1 | order of bytes 2 (1: big-endian) | version 3           (protobuf: field numbers)
 *   any other key   of a tensor (tf_tensor.h)
 *
 * A tensor in slices has no bytes: each slice has an entry of its own, whose key begins with a zero byte, and is a part of the
 * tensor, whatever box of it that is. All such keys come before the others.
 *
 * Checkpoints of objects have keys that are paths of attributes, model/layer/kernel/.ATTRIBUTES/VARIABLE_VALUE: the ending is no
 * part of the name, and in a component ".S" is "/" and ".." is ".".
 */
#include "alloc.h"
#include "dense.h"
#include "disjoint.h"
#include "dtype.h"
#include "error.h"
#include "paths.h"
#include "readers.h"
#include "sort.h"
#include "text.h"
#include "tf_table.h"
#include "tf_tensor.h"

#include <string.h>

#define TF_MAX_FILES 100000u
#define TF_MAX_SLICES ((size_t)1 << 20)
#define TF_VALUE "/.ATTRIBUTES/VARIABLE_VALUE"
#define TF_SLOT "/.OPTIMIZER_SLOT/"
#define TF_REFERENCE 100u /* what is added to the numbers of dtypes of references */

/* A file of data; opened when the first tensor in it comes. */
typedef struct tf_file {
    bool open;
    uint32_t number;
    uint64_t size;
} tf_file;

/* A slice, until the tensor that it belongs to comes: its key and, after that, its value. */
typedef struct tf_slice {
    size_t key; /* in the texts of slices */
    size_t key_len;
    size_t value_len;
    bool used;
} tf_slice;

typedef struct tf_reading {
    const coffer__input_files *input;
    const coffer__wants *wants;
    coffer__import_plan *plan;
    coffer__dense_rows rows;
    bool has_head;
    bool swapped;
    bool found_root;
    tf_file *files;
    uint64_t file_count;
    tf_slice *slices;
    size_t slice_count;
    size_t slice_capacity;
    coffer__writing texts; /* of the slices */
    coffer__writing name;  /* of the tensor at hand */
    const char *prefix;    /* of the names of files */
    size_t prefix_len;
} tf_reading;

static coffer_status tf_damaged(uint64_t at, const char *what, coffer_error *err)
{
    return coffer__fail_at(err, COFFER_ERR_DAMAGED, at, "the checkpoint is damaged: %s", what);
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
        status = coffer__import_plan_put_file(tf->plan, name.text, name.used, &planned, err);
    }
    coffer__writing_free(&name);
    if (status == COFFER_OK && planned != (*file)->number) {
        status = coffer__fail(err, COFFER_ERR_PLAN, "the files of the checkpoint are not numbered as they were opened");
    }
    (*file)->open = status == COFFER_OK;
    return status;
}

/* The piece that an entry's bytes are. The CRC of texts is that of something else than these bytes. */
static coffer_status tf_put_piece(tf_reading *tf, const coffer__tf_tensor *tensor, uint64_t at, coffer_error *err)
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
        return tf_damaged(at, "a tensor lies beyond the end of its file; get that file again", err);
    }
    const coffer__import_plan_piece piece = { .file = file->number,
                                              .offset = tensor->offset,
                                              .stored_size = tensor->size,
                                              .size = tensor->size,
                                              .crc_kind = tensor->has_crc && tf_find_dtype(tensor->dtype)->bits > 0
                                                              ? COFFER__CRC_32C
                                                              : COFFER__CRC_NONE,
                                              .crc = tensor->crc };
    return coffer__import_plan_put_piece(tf->plan, &piece, err);
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

/* Names the tensor in a failure. */
static coffer_status tf_named(const coffer__dense *tensor, coffer_status status, coffer_error *err)
{
    return status == COFFER_OK ? COFFER_OK : coffer__fail_tensor(err, status, tensor->name, tensor->name_len);
}

/* Puts a storage of the last `pieces`, which the tensor names. */
static coffer_status tf_put_storage(tf_reading *tf, const coffer__dense *tensor, uint32_t pieces, uint32_t *storage,
                                    coffer_error *err)
{
    uint32_t name = 0;
    const coffer_status status = coffer__import_plan_put_text(tf->plan, tensor->name, tensor->name_len, &name, err);
    return status == COFFER_OK ? coffer__import_plan_put_storage(tf->plan, pieces, name, storage, err) : status;
}

/* A tensor in one piece. The bytes of texts are lengths and texts, so that only the file says how many they are. */
static coffer_status tf_put_whole(tf_reading *tf, const coffer__dense *tensor, const coffer__tf_tensor *entry,
                                  uint64_t size, uint32_t *storage, coffer_error *err)
{
    if (entry->size != size && !tensor->texts) {
        tf_damaged(tensor->at, "a tensor has another size than its shape", err);
        return coffer__fail_sizes(err, COFFER_ERR_DAMAGED, size, entry->size);
    }
    const coffer_status status = tf_put_piece(tf, entry, tensor->at, err);
    return status == COFFER_OK ? tf_put_storage(tf, tensor, 1, storage, err) : status;
}

/* ---- slices ------------------------------------------------------------------------------------------------------ */

/* Keys of slices come in order, so they are found by halving. */
static int tf_compare_slice(const void *ctx, size_t i, const void *wanted)
{
    const tf_reading *tf = ctx;
    const coffer__writing *key = wanted;
    return coffer__compare_names(tf->texts.text + tf->slices[i].key, tf->slices[i].key_len, key->text, key->used);
}

/* The slice of a tensor that is a box of it; NULL: there is none. */
static coffer_status tf_find_slice(tf_reading *tf, const coffer__tf_entry *entry, const coffer__tf_box *box,
                                   tf_slice **slice, coffer_error *err)
{
    coffer__writing key = { .allocator = tf->plan->allocator };
    size_t at = 0;
    coffer__tf_slice_key(&key, entry->key, entry->key_len, box);
    const bool failed = key.failed;
    *slice = !failed && coffer__find_sorted(tf->slice_count, tf_compare_slice, tf, &key, &at) ? &tf->slices[at] : NULL;
    coffer__writing_free(&key);
    return failed ? coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the key of a slice") : COFFER_OK;
}

/* Whether a slice has the shape of its box, and this lies within the tensor. */
static bool tf_is_within(const coffer__tf_tensor *entry, const coffer__tf_box *box, const coffer__tf_tensor *slice)
{
    if (box->rank != entry->rank || slice->rank != entry->rank) {
        return false;
    }
    for (uint32_t i = 0; i < box->rank; i++) {
        const uint64_t start = (uint64_t)box->starts[i];
        const uint64_t count = box->lengths[i] == -1 ? entry->shape[i] : (uint64_t)box->lengths[i];
        if (start > entry->shape[i] || count > entry->shape[i] - start || slice->shape[i] != count) {
            return false;
        }
    }
    return true;
}

/* The next slice of a tensor: its box, and what its own entry says. */
static coffer_status tf_take_slice(tf_reading *tf, const coffer__tf_entry *of, const coffer__tf_tensor *entry,
                                   coffer__cursor *in, coffer__tf_box *box, coffer__tf_tensor *slice, coffer_error *err)
{
    tf_slice *found = NULL;
    if (!coffer__tf_next_slice(in, box)) {
        return tf_damaged(of->at, "a slice of a tensor is cut", err);
    }
    const coffer_status status = tf_find_slice(tf, of, box, &found, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (found == NULL || found->used) {
        return tf_damaged(of->at, "a slice of a tensor is not there, or is there twice", err);
    }
    found->used = true;
    const coffer__cursor value = { .base = (const uint8_t *)tf->texts.text + found->key + found->key_len,
                                   .length = found->value_len };
    /* It was read before, when it was kept. */
    (void)coffer__tf_tensor_read(value, slice);
    return slice->dtype == entry->dtype && tf_is_within(entry, box, slice)
               ? COFFER_OK
               : tf_damaged(of->at, "a slice of a tensor is of another dtype or shape, or does not lie within it", err);
}

/* Puts a slice as a part of its array, and counts it. One without elements has no bytes and is none. */
static coffer_status tf_put_part(tf_reading *tf, const coffer__dense *tensor, const coffer__tf_box *box,
                                 const coffer__tf_tensor *slice, uint32_t *parts, coffer_error *err)
{
    coffer__dense part = *tensor;
    uint64_t starts[COFFER__PLAN_MAX_RANK];
    uint64_t size = 0;
    uint32_t storage = 0;
    for (uint32_t i = 0; i < part.rank; i++) {
        part.shape[i] = slice->shape[i];
        starts[i] = (uint64_t)box->starts[i];
    }
    /* It lies within the tensor, whose size is known. */
    (void)coffer__dense_size(&part, &size);
    if (size == 0 && slice->size == 0) {
        return COFFER_OK;
    }
    const coffer_status status = tf_put_whole(tf, &part, slice, size, &storage, err);
    ++*parts;
    return status == COFFER_OK ? coffer__import_plan_put_part(tf->plan, storage, 0, part.rank, starts, part.shape, err)
                               : status;
}

/* The storage of a tensor in slices: the array that they are parts of, or, of texts, one after another. Whether parts leave
   gaps or overlap is for coffer__import_plan_check to find. */
static coffer_status tf_put_slices(tf_reading *tf, const coffer__tf_entry *of, const coffer__dense *tensor,
                                   const coffer__tf_tensor *entry, uint64_t size, uint32_t *storage, coffer_error *err)
{
    coffer__cursor in = entry->slices;
    coffer__tf_box box;
    coffer__tf_tensor slice;
    uint32_t parts = 0;
    uint32_t name = 0;
    coffer_status status = coffer__import_plan_put_text(tf->plan, tensor->name, tensor->name_len, &name, err);
    for (uint32_t i = 0; i < entry->slice_count && status == COFFER_OK; i++) {
        status = tf_take_slice(tf, of, entry, &in, &box, &slice, err);
        if (status == COFFER_OK) {
            status = tensor->texts ? tf_put_piece(tf, &slice, tensor->at, err)
                                   : tf_put_part(tf, tensor, &box, &slice, &parts, err);
        }
    }
    if (status != COFFER_OK) {
        return status;
    }
    if (parts == 0 && size > 0) {
        return tf_damaged(tensor->at, "the slices of a tensor are not all of it", err);
    }
    return parts > 0
               ? coffer__import_plan_put_assembled(tf->plan, parts, tensor->rank, tensor->shape, tensor->bits / 8u,
                                                   name, storage, err)
               : coffer__import_plan_put_storage(tf->plan, tensor->texts ? entry->slice_count : 0, name, storage, err);
}

/* Keeps a slice for its tensor. */
static coffer_status tf_keep_slice(tf_reading *tf, const coffer__tf_entry *entry, coffer_error *err)
{
    tf_slice *slices =
        coffer__grow_array(tf->plan->allocator, tf->slices, tf->slice_count, &tf->slice_capacity, sizeof *slices, err);
    if (slices == NULL) {
        return COFFER_ERR_MEMORY;
    }
    tf->slices = slices;
    if (tf->slice_count == TF_MAX_SLICES) {
        return coffer__fail_at(err, COFFER_ERR_UNSUPPORTED, entry->at, "a checkpoint of more than %u slices",
                               (uint64_t)TF_MAX_SLICES);
    }
    slices[tf->slice_count++] =
        (tf_slice){ .key = tf->texts.used, .key_len = entry->key_len, .value_len = entry->value.length };
    coffer__write(&tf->texts, (const char *)entry->key, entry->key_len);
    coffer__write(&tf->texts, (const char *)entry->value.base, entry->value.length);
    return tf->texts.failed ? coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the slices of tensors") : COFFER_OK;
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

/* The first entry. Checkpoints of version 1 have another message here, whose first field is one. */
static coffer_status tf_read_head(tf_reading *tf, const coffer__tf_entry *entry, coffer_error *err)
{
    coffer__cursor in = entry->value;
    tf->has_head = true;
    while (coffer__left(&in) > 0) {
        coffer__tf_field field;
        if (!coffer__tf_next_field(&in, &field)) {
            return tf_damaged(entry->at, "its head is cut", err);
        }
        if (field.number == 1 && field.wire == 2) {
            return coffer__fail_at(err, COFFER_ERR_UNSUPPORTED, entry->at,
                                   "a checkpoint of TensorFlow's first version: load it there and save it again");
        }
        tf->file_count = field.number == 1 && field.wire == 0 ? field.value : tf->file_count;
        tf->swapped = tf->swapped || (field.number == 2 && field.wire == 0 && field.value == 1);
    }
    if (tf->file_count == 0 || tf->file_count > TF_MAX_FILES) {
        return tf_damaged(entry->at, "the number of its files is not one that there can be", err);
    }
    tf->files = coffer__alloc_array(tf->plan->allocator, (size_t)tf->file_count, sizeof *tf->files, err);
    return tf->files == NULL ? COFFER_ERR_MEMORY : COFFER_OK;
}

/* Fills in what a tensor is. */
static void tf_describe(const tf_reading *tf, const struct tf_dtype *dtype, const coffer__tf_tensor *entry,
                        coffer__dense *tensor)
{
    tensor->type = dtype->noun;
    tensor->dtype = dtype->dtype;
    tensor->bits = dtype->bits;
    tensor->texts = dtype->bits == 0;
    tensor->complex128 = dtype->bits == 128;
    tensor->swapped = tf->swapped;
    tensor->rank = entry->rank;
    memcpy(tensor->shape, entry->shape, entry->rank * sizeof tensor->shape[0]);
}

/* A note about integers that stood for something else. */
static coffer_status tf_note(tf_reading *tf, const struct tf_dtype *dtype, const coffer__dense *tensor,
                             coffer_error *err)
{
    return !dtype->note
               ? COFFER_OK
               : coffer__import_plan_put_finding(tf->plan, COFFER_WEIGHT_NOTE, 0, tensor->at, "",
                                                 "tensor %q is quantised: its integers are kept, and what they stand "
                                                 "for is not in the checkpoint",
                                                 tensor->name, tensor->name_len, err);
}

/* A tensor that is known, with its bytes. */
static coffer_status tf_put_row(tf_reading *tf, const coffer__tf_entry *of, const coffer__dense *tensor,
                                const coffer__tf_tensor *entry, uint64_t size, const char *left_out, coffer_error *err)
{
    uint32_t storage = 0;
    const coffer_status status = entry->slice_count > 0 ? tf_put_slices(tf, of, tensor, entry, size, &storage, err)
                                                        : tf_put_whole(tf, tensor, entry, size, &storage, err);
    if (status != COFFER_OK) {
        return status;
    }
    return left_out != NULL ? coffer__dense_skip(&tf->rows, tensor->name, tensor->name_len, storage, left_out, err)
                            : coffer__dense_put(&tf->rows, tensor, storage, err);
}

static coffer_status tf_put_tensor(tf_reading *tf, const coffer__tf_entry *of, const coffer__tf_tensor *entry,
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
    const bool is_sized = !entry->unknown_rank && coffer__dense_size(&tensor, &size);
    if (!is_sized && !tensor.texts) {
        return tf_named(&tensor, tf_damaged(of->at, "a tensor's size is not known, or beyond 2^64-1", err), err);
    }
    status = left_out == NULL ? tf_note(tf, dtype, &tensor, err) : COFFER_OK;
    if (status == COFFER_OK) {
        status = tf_put_row(tf, of, &tensor, entry, size, left_out, err);
    }
    return tf_named(&tensor, status, err);
}

static coffer_status tf_look_at_entry(void *ctx, const coffer__tf_entry *entry, coffer_error *err)
{
    tf_reading *tf = ctx;
    coffer__tf_tensor tensor;
    if (!tf->has_head) {
        return entry->key_len == 0 ? tf_read_head(tf, entry, err)
                                   : coffer__fail_at(err, COFFER_ERR_UNSUPPORTED, entry->at,
                                                     "a table of LevelDB, but no checkpoint of TensorFlow");
    }
    if (!coffer__tf_tensor_read(entry->value, &tensor)) {
        return tf_damaged(entry->at, "the description of a tensor is cut, or says things twice", err);
    }
    return entry->key[0] == 0 ? tf_keep_slice(tf, entry, err) : tf_put_tensor(tf, entry, &tensor, err);
}

/* ---- the reader -------------------------------------------------------------------------------------------------- */

/* The files of data are called as the index is. */
static coffer_status tf_set_prefix(tf_reading *tf, coffer_error *err)
{
    static const char ending[] = ".index";
    const size_t begin = coffer__path_name_at(tf->input->path);
    tf->prefix = tf->input->path + begin;
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
        status = coffer__import_plan_check_disjoint(tf->plan, "the checkpoint", err);
    }
    return status == COFFER_OK ? coffer__dense_finish(&tf->rows, err) : status;
}

/* A scan reads no tensors; the data hold none that a loader would run. */
static coffer_status tf_read(const coffer__input_files *input, const coffer__wants *wants, coffer__import_plan *plan,
                             coffer_error *err)
{
    const coffer_allocator *allocator = plan->allocator;
    tf_reading tf = { .input = input, .wants = wants, .plan = plan };
    tf.texts.allocator = allocator;
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
        status = coffer__import_plan_put_pair(plan, "format", 6, "tf", 2, err);
    }
    if (status == COFFER_OK) {
        status = coffer__tf_table_read(input, allocator, tf_look_at_entry, &tf, err);
    }
    if (status == COFFER_OK) {
        status = tf_finish(&tf, err);
    }
    coffer__dense_free(&tf.rows);
    coffer__writing_free(&tf.texts);
    coffer__writing_free(&tf.name);
    coffer__free_array(allocator, tf.files, (size_t)tf.file_count, sizeof *tf.files);
    coffer__free(allocator, tf.slices, tf.slice_capacity * sizeof *tf.slices);
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
