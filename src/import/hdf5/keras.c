/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the datasets of an HDF5 file are called as tensors, and which of them are the model:
 *
 *   Keras 3     layers/dense/vars/0: paths are names. The attribute `name` of …/vars is what the layer is called. The group
 *               `optimizer` is no part of the model
 *   before, and transformers' tf_model.h5
 *               the root, or the group model_weights, has an attribute `layer_names` with the names of groups, each of which has
 *               one `weight_names` with the paths of datasets below it. These paths are names; other datasets are no weights
 *   others      paths are names
 *
 * A list too long for an attribute is in several: layer_names0, layer_names1, … What attributes say is compared with paths
 * that were found, and never looked up as a path: so "../" in it leads nowhere.
 */
#include "keras.h"

#include "alloc.h"
#include "disjoint.h"
#include "error.h"
#include "hdf5_scan.h"
#include "readers.h"
#include "sort.h"
#include "text.h"

#include <string.h>

#define KERAS_MAX_LISTS 10000u
#define KERAS_NAMES "keras.names"

/* One HDF5 file. */
typedef struct keras_file {
    coffer__keras *keras;
    coffer__hdf5 h;
    uint32_t *order;      /* numbers of the nodes by their paths */
    uint32_t *labels;     /* of each node: its name, a text of the plan; 0: none */
    bool has_labels;      /* the file says which datasets are weights */
    coffer__writing name; /* of the dataset that is put: a copy, since what is put moves the texts of the plan */
} keras_file;

/* ---- finding nodes ----------------------------------------------------------------------------------------------- */

static bool keras_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer__hdf5 *h = ctx;
    const coffer__hdf5_node *first = &h->nodes[a];
    const coffer__hdf5_node *second = &h->nodes[b];
    return coffer__compare_names(coffer__hdf5_path(h, first), first->path_len, coffer__hdf5_path(h, second),
                                 second->path_len) < 0;
}

/* A path that is looked for, in up to three parts with slashes between those that are not empty. */
typedef struct keras_path {
    char text[3 * COFFER__HDF5_MAX_PATH + 2];
    size_t len;
} keras_path;

static int keras_compare(const void *ctx, size_t i, const void *wanted)
{
    const keras_file *file = ctx;
    const keras_path *path = wanted;
    const coffer__hdf5_node *node = &file->h.nodes[file->order[i]];
    return coffer__compare_names(coffer__hdf5_path(&file->h, node), node->path_len, path->text, path->len);
}

/* The node of exactly that path, or NULL. */
static coffer__hdf5_node *keras_find(const keras_file *file, const keras_path *path)
{
    size_t at = 0;
    return coffer__find_sorted(file->h.count, keras_compare, file, path, &at) ? &file->h.nodes[file->order[at]] : NULL;
}

/* Longer than any path is no path; then *path becomes one that nothing has. */
static void keras_join(keras_path *path, const char *text, size_t text_len)
{
    if (text_len > COFFER__HDF5_MAX_PATH || path->len > 2 * COFFER__HDF5_MAX_PATH) {
        path->len = 0;
        text = "/";
        text_len = 1;
    }
    if (path->len > 0 && text_len > 0) {
        path->text[path->len++] = '/';
    }
    memcpy(path->text + path->len, text, text_len);
    path->len += text_len;
}

/* ---- labels ------------------------------------------------------------------------------------------------------ */

/* Reads a list, which may be in one attribute or in several that are numbered. */
static coffer_status keras_read_list(keras_file *file, uint64_t address, const char *name, coffer__hdf5_texts *texts,
                                     coffer_error *err)
{
    char numbered[32];
    const size_t len = coffer__text_len(name);
    coffer_status status = coffer__hdf5_texts_read(&file->h, address, name, texts, err);
    bool more = !texts->found;
    for (uint32_t i = 0; status == COFFER_OK && more && i < KERAS_MAX_LISTS; i++) {
        const bool found = texts->found;
        memcpy(numbered, name, len);
        numbered[len + coffer__write_u64(numbered + len, i)] = '\0';
        texts->found = false;
        status = coffer__hdf5_texts_read(&file->h, address, numbered, texts, err);
        more = texts->found;
        texts->found = texts->found || found;
    }
    return status;
}

/* Labels one dataset of a layer. Each has one label, as it becomes one tensor. */
static coffer_status keras_label(keras_file *file, const char *base, const char *layer, size_t layer_len,
                                 const char *weight, size_t weight_len, coffer_error *err)
{
    keras_path path = { .len = 0 };
    keras_join(&path, base, coffer__text_len(base));
    keras_join(&path, layer, layer_len);
    keras_join(&path, weight, weight_len);
    const coffer__hdf5_node *node = keras_find(file, &path);
    if (node == NULL || node->is_group || weight_len == 0) {
        return coffer__fail_at(err, COFFER_ERR_DAMAGED, file->h.start,
                               "the Keras file names a weight %q of layer %q, which it does not have", weight,
                               weight_len, layer, layer_len);
    }
    uint32_t *label = &file->labels[node - file->h.nodes];
    if (*label != 0) {
        return coffer__fail_at(err, COFFER_ERR_DAMAGED, file->h.start, "the Keras file names the weight %q twice",
                               weight, weight_len);
    }
    return coffer__import_plan_put_text(file->keras->plan, weight, weight_len, label, err);
}

/* Labels the weights of a layer; one without weights has an empty list, or no group. */
static coffer_status keras_label_layer(keras_file *file, const char *base, const char *layer, size_t layer_len,
                                       coffer_error *err)
{
    keras_path path = { .len = 0 };
    coffer__hdf5_texts weights = { .count = 0 };
    keras_join(&path, base, coffer__text_len(base));
    keras_join(&path, layer, layer_len);
    const coffer__hdf5_node *node = keras_find(file, &path);
    if (node == NULL || !node->is_group) {
        return COFFER_OK;
    }
    coffer_status status = keras_read_list(file, node->address, "weight_names", &weights, err);
    for (size_t i = 0; i < weights.count && status == COFFER_OK; i++) {
        size_t len = 0;
        const char *weight = coffer__hdf5_text(&weights, i, &len);
        status = keras_label(file, base, layer, layer_len, weight, len, err);
    }
    coffer__hdf5_texts_free(&file->h, &weights);
    return status;
}

/* Labels all weights, if the group at `base` lists its layers. What belongs to no layer has a group of its own. */
static coffer_status keras_label_all(keras_file *file, const char *base, coffer_error *err)
{
    static const char top[] = "top_level_model_weights";
    keras_path path = { .len = 0 };
    coffer__hdf5_texts layers = { .count = 0 };
    keras_join(&path, base, coffer__text_len(base));
    const coffer__hdf5_node *node = keras_find(file, &path);
    if (node == NULL || !node->is_group || file->has_labels) {
        return COFFER_OK;
    }
    coffer_status status = keras_read_list(file, node->address, "layer_names", &layers, err);
    file->has_labels = layers.found;
    bool has_top = false;
    for (size_t i = 0; i < layers.count && status == COFFER_OK; i++) {
        size_t len = 0;
        const char *layer = coffer__hdf5_text(&layers, i, &len);
        has_top = has_top || coffer__text_is(layer, len, top);
        status = keras_label_layer(file, base, layer, len, err);
    }
    if (status == COFFER_OK && file->has_labels && !has_top) {
        status = keras_label_layer(file, base, top, sizeof top - 1, err);
    }
    coffer__hdf5_texts_free(&file->h, &layers);
    return status;
}

/* ---- layers' names ----------------------------------------------------------------------------------------------- */

/* "layers/dense": "encoder", … A lack of memory is noticed at the end. */
static coffer_status keras_record_name(keras_file *file, const coffer__hdf5_node *node, coffer_error *err)
{
    coffer__hdf5_texts texts = { .count = 0 };
    coffer__writing *out = &file->keras->names;
    const coffer_status status = coffer__hdf5_texts_read(&file->h, node->address, "name", &texts, err);
    if (status == COFFER_OK && texts.count == 1) {
        size_t len = 0;
        const char *name = coffer__hdf5_text(&texts, 0, &len);
        len = coffer__utf8_valid_len(name, len);
        coffer__write(out, ", ", out->used > 0 ? 2 : 0);
        coffer__write_json_n(out, coffer__hdf5_path(&file->h, node), node->path_len);
        coffer__write_text(out, ": ");
        coffer__write_json_n(out, name, len);
    }
    coffer__hdf5_texts_free(&file->h, &texts);
    return status;
}

/* Only groups called vars have one that matters, and only those with something in them, of which the first is called 0: so a
   group whose variables are in several files is recorded once. */
static coffer_status keras_record_names(keras_file *file, coffer_error *err)
{
    const coffer__hdf5 *h = &file->h;
    for (size_t i = 1; i < h->count && !file->has_labels; i++) {
        const coffer__hdf5_node *node = &h->nodes[i];
        if (node->is_group || !coffer__text_ends(coffer__hdf5_path(h, node), node->path_len, "/vars/0")) {
            continue;
        }
        const coffer_status status = keras_record_name(file, &h->nodes[node->parent], err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Whether a path is below a root, whose parts may be joined by dots or slashes; *rest is what comes after it. */
static bool keras_is_below(const char *path, size_t path_len, const char *root, size_t *rest)
{
    const size_t len = coffer__text_len(root);
    for (size_t i = 0; i < len && i < path_len; i++) {
        if (path[i] != root[i] && !(path[i] == '/' && root[i] == '.')) {
            return false;
        }
    }
    *rest = len + 1;
    return path_len > len + 1 && path[len] == '/';
}

/* What a dataset is called, and why it is left out, or NULL. */
static const char *keras_choose(keras_file *file, const coffer__hdf5_node *node, const char **name, size_t *name_len)
{
    const coffer__keras *keras = file->keras;
    const char *path = coffer__hdf5_path(&file->h, node);
    const uint32_t label = file->labels[node - file->h.nodes];
    size_t rest = 0;
    *name = path;
    *name_len = node->path_len;
    if (label != 0) {
        *name = coffer__import_plan_text(keras->plan, label, name_len);
    }
    if (coffer__same_text(keras->wants->root, "all")) {
        return NULL;
    }
    if (!coffer__same_text(keras->wants->root, "auto")) {
        if (!keras_is_below(path, node->path_len, keras->wants->root, &rest)) {
            return "it is not in the part of the file that is the model";
        }
        if (label == 0) {
            *name = path + rest;
            *name_len = node->path_len - rest;
        }
        file->keras->found_root = true;
        return NULL;
    }
    if (file->has_labels) {
        return label == 0 ? "the file does not name it among the weights" : NULL;
    }
    return keras_is_below(path, node->path_len, "optimizer", &rest) ? "it belongs to the optimizer" : NULL;
}

/* The place of the dataset's bytes in the file. Sizes have to agree: whoever reads by the one that is larger would read
   what belongs to another. */
static coffer_status keras_place(const keras_file *file, const coffer__hdf5_object *object, uint64_t address,
                                 uint64_t size, uint64_t *at, coffer_error *err)
{
    const coffer__hdf5 *h = &file->h;
    if (object->at == COFFER__HDF5_NOWHERE) {
        *at = 0;
        return size == 0
                   ? COFFER_OK
                   : coffer__hdf5_refuse(h, address, "a dataset that nothing was written to, only reserved,", err);
    }
    if (object->bytes != size || object->at > h->size || size > h->size - object->at) {
        return coffer__hdf5_fail(h, address, "the bytes of a dataset are not as many as it has elements", err);
    }
    *at = h->start + object->at;
    return COFFER_OK;
}

/* What elements are called in messages. */
static const char *keras_type_name(const coffer__hdf5_type *type)
{
    return type->complex128 ? "complex128" : type->what;
}

static coffer_status keras_note_opaque(keras_file *file, const coffer__hdf5_node *node, const char *name,
                                       size_t name_len, coffer_error *err)
{
    coffer__hdf5_texts texts = { .count = 0 };
    coffer__hdf5 *h = &file->h;
    size_t len = 0;
    coffer_status status = coffer__hdf5_texts_read(h, node->address, "dtype", &texts, err);
    const bool says_so = texts.count == 1 && coffer__text_is(coffer__hdf5_text(&texts, 0, &len), len, "bfloat16");
    coffer__hdf5_texts_free(h, &texts);
    if (status != COFFER_OK || says_so) {
        return status;
    }
    return coffer__import_plan_put_finding(
        file->keras->plan, COFFER_WEIGHT_NOTE, h->file, h->start + node->address, "",
        "tensor %q has two bytes without a type for each element, which are read as BF16", name, name_len, err);
}

/* A dataset without numbers has no bytes for the account: what its strings are made of may be anywhere. */
static coffer_status keras_put_other(keras_file *file, const coffer__dense *tensor, coffer_error *err)
{
    return coffer__dense_put(&file->keras->rows, tensor, COFFER__PLAN_NO_STORAGE, err);
}

/* Fills in what the header says of the elements. */
static void keras_describe(const coffer__hdf5_object *object, coffer__dense *tensor)
{
    const coffer__hdf5_type *type = &object->type;
    tensor->dtype = type->class_ == COFFER__HDF5_NUMBER && !type->complex128 ? type->dtype : COFFER_UNKNOWN_DTYPE;
    tensor->type = keras_type_name(type);
    tensor->texts = type->class_ == COFFER__HDF5_TEXT || type->class_ == COFFER__HDF5_TEXT_ANY;
    tensor->complex128 = type->complex128;
    tensor->swapped = type->swap > 0;
    tensor->bits = 8;
    if (type->class_ == COFFER__HDF5_NUMBER) {
        tensor->bits = (uint8_t)(type->size * 8);
        tensor->rank = object->space.rank;
        memcpy(tensor->shape, object->space.sizes, tensor->rank * sizeof tensor->shape[0]);
    }
}

/* Fails for what is known to HDF5 and not to this reader. */
static coffer_status keras_refuse(const coffer__dense *tensor, const char *why, coffer_error *err)
{
    coffer__fail_at(err, COFFER_ERR_UNSUPPORTED, tensor->at, "dataset %q of the HDF5 file is not read: %s",
                    tensor->name, tensor->name_len, why);
    return coffer__fail_tensor(err, COFFER_ERR_UNSUPPORTED, tensor->name, tensor->name_len);
}

/* Puts the storage of bytes that lie one after another. */
static coffer_status keras_put_plain(keras_file *file, const coffer__hdf5_node *node, const coffer__hdf5_object *object,
                                     uint64_t size, uint32_t name, uint32_t *storage, coffer_error *err)
{
    coffer__import_plan *plan = file->keras->plan;
    coffer__import_plan_piece piece = { .file = file->h.file, .stored_size = size, .size = size };
    coffer_status status = keras_place(file, object, node->address, size, &piece.offset, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__import_plan_put_piece(plan, &piece, err);
    return status == COFFER_OK ? coffer__import_plan_put_storage(plan, 1, name, storage, err) : status;
}

/* The last row of the plan views an array that is filled up to whole chunks: each step along a dimension passes over what
   the ones after it are filled up with. */
static void keras_view_grid(coffer__import_plan *plan, const coffer__hdf5_object *object,
                            const coffer__import_plan_dimension *grid)
{
    const coffer__import_plan_row *row = coffer__import_plan_rows(plan) + plan->rows.count - 1;
    coffer__import_plan_dimension *dimensions =
        (coffer__import_plan_dimension *)plan->dimensions.items + row->dimensions;
    uint64_t stride = object->type.size;
    for (uint32_t i = object->space.rank; i > 0 && row->fate == COFFER_FATE_WRITTEN; i--) {
        dimensions[i - 1].stride = (int64_t)stride;
        stride *= grid[i - 1].size;
    }
}

/* Puts the storage, by the layout, and the row that views it. */
static coffer_status keras_put_numbers(keras_file *file, const coffer__hdf5_node *node,
                                       const coffer__hdf5_object *object, const coffer__dense *tensor,
                                       const char *left_out, coffer_error *err)
{
    coffer__import_plan *plan = file->keras->plan;
    coffer__import_plan_dimension grid[COFFER__HDF5_MAX_RANK];
    uint64_t size = 0;
    uint32_t name = 0;
    uint32_t storage = 0;
    if (!coffer__dense_size(tensor, &size)) {
        return coffer__hdf5_fail(&file->h, node->address, "a dataset's size is beyond 2^64-1", err);
    }
    coffer_status status = coffer__import_plan_put_text(plan, tensor->name, tensor->name_len, &name, err);
    if (status != COFFER_OK) {
        return status;
    }
    const bool chunked = object->layout == COFFER__HDF5_CHUNKED && size > 0;
    if (chunked) {
        status = coffer__hdf5_chunks_put(&file->h, object, plan, name, grid, &storage, err);
    } else {
        const coffer__hdf5_object none = { .at = COFFER__HDF5_NOWHERE };
        const bool empty = object->layout == COFFER__HDF5_CHUNKED;
        status = keras_put_plain(file, node, empty ? &none : object, size, name, &storage, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    coffer__dense_rows *rows = &file->keras->rows;
    status = left_out != NULL ? coffer__dense_skip(rows, tensor->name, tensor->name_len, storage, left_out, err)
                              : coffer__dense_put(rows, tensor, storage, err);
    if (status == COFFER_OK && chunked) {
        keras_view_grid(plan, object, grid);
    }
    return status;
}

static coffer_status keras_put(keras_file *file, const coffer__hdf5_node *node, coffer_error *err)
{
    coffer__hdf5_object object = { .at = 0 };
    coffer__dense tensor = { .at = file->h.start + node->address };
    const char *left_out = keras_choose(file, node, &tensor.name, &tensor.name_len);
    file->name.used = 0;
    coffer__write(&file->name, tensor.name, tensor.name_len);
    if (file->name.failed) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the name of a dataset");
    }
    tensor.name = tensor.name_len > 0 ? file->name.text : "";
    coffer_status status = coffer__hdf5_object_read(&file->h, node->address, &object, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (!object.has_space || !object.has_type || !object.has_layout) {
        return coffer__hdf5_fail(&file->h, node->address, "a dataset has no dataspace, datatype or layout", err);
    }
    keras_describe(&object, &tensor);
    if (object.type.class_ != COFFER__HDF5_NUMBER || object.space.none) {
        tensor.texts = tensor.texts || object.space.none || left_out != NULL;
        tensor.type = object.space.none ? "nothing (a null dataspace)" : tensor.type;
        tensor.dtype = COFFER_UNKNOWN_DTYPE;
        return keras_put_other(file, &tensor, err);
    }
    if (object.refused != NULL) {
        return keras_refuse(&tensor, object.refused, err);
    }
    if (object.type.from_opaque && left_out == NULL) {
        status = keras_note_opaque(file, node, tensor.name, tensor.name_len, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    status = keras_put_numbers(file, node, &object, &tensor, left_out, err);
    return status == COFFER_OK ? status : coffer__fail_tensor(err, status, tensor.name, tensor.name_len);
}

/* ---- a file ------------------------------------------------------------------------------------------------------ */

/* Sorted paths also show two objects of one path, of which labels could mean either. */
static coffer_status keras_sort(keras_file *file, coffer_error *err)
{
    const coffer__hdf5 *h = &file->h;
    for (size_t i = 0; i < h->count; i++) {
        file->order[i] = (uint32_t)i;
    }
    coffer__sort(file->order, h->count, keras_before, h);
    for (size_t i = 1; i < h->count; i++) {
        if (!keras_before(h, file->order[i - 1], file->order[i])) {
            const coffer__hdf5_node *node = &h->nodes[file->order[i]];
            return coffer__fail_at(err, COFFER_ERR_DAMAGED, h->start + node->address,
                                   "the HDF5 file has two objects of the name %q", coffer__hdf5_path(h, node),
                                   (size_t)node->path_len);
        }
    }
    return COFFER_OK;
}

static coffer_status keras_put_all(keras_file *file, coffer_error *err)
{
    coffer_status status = keras_sort(file, err);
    if (status == COFFER_OK) {
        status = keras_label_all(file, "", err);
    }
    if (status == COFFER_OK) {
        status = keras_label_all(file, "model_weights", err);
    }
    if (status == COFFER_OK) {
        status = keras_record_names(file, err);
    }
    for (size_t i = 0; i < file->h.count && status == COFFER_OK; i++) {
        status = file->h.nodes[i].is_group ? COFFER_OK : keras_put(file, &file->h.nodes[i], err);
    }
    return status;
}

static coffer_status keras_read_nodes(keras_file *file, coffer_error *err)
{
    const coffer_allocator *allocator = file->h.allocator;
    const size_t count = file->h.count;
    file->order = coffer__alloc_array(allocator, count, sizeof *file->order, err);
    file->labels = coffer__alloc_array(allocator, count, sizeof *file->labels, err);
    const coffer_status status =
        file->order != NULL && file->labels != NULL ? keras_put_all(file, err) : COFFER_ERR_MEMORY;
    coffer__free_array(allocator, file->order, count, sizeof *file->order);
    coffer__free_array(allocator, file->labels, count, sizeof *file->labels);
    return status;
}

coffer_status coffer__keras_read(coffer__keras *keras, uint32_t file, uint64_t file_size, uint64_t start, uint64_t size,
                                 coffer_error *err)
{
    keras_file *reading = coffer__alloc_array(keras->plan->allocator, 1, sizeof *reading, err);
    if (reading == NULL) {
        return COFFER_ERR_MEMORY;
    }
    reading->keras = keras;
    reading->name.allocator = keras->plan->allocator;
    coffer_status status =
        coffer__hdf5_open(&reading->h, keras->input, file, file_size, start, size, keras->plan->allocator, err);
    if (status == COFFER_OK) {
        status = coffer__hdf5_walk(&reading->h, err);
    }
    if (status == COFFER_OK) {
        status = keras_read_nodes(reading, err);
    }
    coffer__hdf5_free(&reading->h);
    coffer__writing_free(&reading->name);
    coffer__free_array(keras->plan->allocator, reading, 1, sizeof *reading);
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

coffer_status coffer__keras_begin(coffer__keras *keras, const coffer__input_files *input, const coffer__wants *wants,
                                  coffer__import_plan *plan, coffer_error *err)
{
    *keras = (coffer__keras){ .input = input, .wants = wants, .plan = plan, .names = { .allocator = plan->allocator } };
    coffer__dense_begin(&keras->rows, wants, plan);
    /* The root is a path here, whose parts have slashes between them: keras_choose looks at it. */
    keras->rows.has_root = false;
    return coffer__import_plan_put_pair(plan, "format", 6, "tf", 2, err);
}

static coffer_status keras_put_names(coffer__keras *keras, coffer_error *err)
{
    static const char key[] = KERAS_NAMES;
    coffer__writing json = { .allocator = keras->plan->allocator };
    if (keras->names.used == 0 && !keras->names.failed) {
        return COFFER_OK;
    }
    coffer__write_text(&json, "{");
    coffer__write(&json, keras->names.text, keras->names.used);
    coffer__write_text(&json, "}");
    const bool failed = keras->names.failed || json.failed;
    const coffer_status status =
        failed ? coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the names of layers")
               : coffer__import_plan_put_pair(keras->plan, key, sizeof key - 1, json.text, json.used, err);
    coffer__writing_free(&json);
    return status;
}

coffer_status coffer__keras_finish(coffer__keras *keras, coffer_error *err)
{
    const char *root = keras->wants->root;
    if (!coffer__same_text(root, "auto") && !coffer__same_text(root, "all") && !keras->found_root) {
        return coffer__fail(err, COFFER_ERR_ROOT, "no tensor of the file is below %q", root, coffer__text_len(root));
    }
    coffer_status status = coffer__import_plan_check_disjoint(keras->plan, "the HDF5 file", err);
    if (status == COFFER_OK) {
        status = keras_put_names(keras, err);
    }
    return status == COFFER_OK ? coffer__dense_finish(&keras->rows, err) : status;
}

void coffer__keras_free(coffer__keras *keras)
{
    coffer__writing_free(&keras->names);
    coffer__dense_free(&keras->rows);
}

/* ---- the reader --------------------------------------------------------------------------------------------------- */

static bool keras_hdf5_sniff(const uint8_t *head, size_t head_size, const uint8_t *tail, size_t tail_size,
                             const char *path, size_t path_len)
{
    (void)tail;
    (void)tail_size;
    (void)path;
    (void)path_len;
    return coffer__hdf5_is(head, head_size);
}

static coffer_status keras_hdf5_reader(const coffer__input_files *input, const coffer__wants *wants,
                                       coffer__import_plan *plan, coffer_error *err)
{
    coffer__keras keras;
    if (wants->scan) {
        const coffer__reader_file file = { .input = input, .wants = wants, .plan = plan, .size = input->size };
        return coffer__hdf5_scan(&file, err);
    }
    coffer_status status = coffer__keras_begin(&keras, input, wants, plan, err);
    if (status == COFFER_OK) {
        status = coffer__keras_read(&keras, 0, input->size, 0, input->size, err);
    }
    if (status == COFFER_OK) {
        status = coffer__keras_finish(&keras, err);
    }
    coffer__keras_free(&keras);
    return status;
}

const coffer__reader coffer__reader_hdf5 = { "hdf5", "an HDF5 file", keras_hdf5_sniff, keras_hdf5_reader };
