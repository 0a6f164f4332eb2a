/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The classes are those of torch.distributed.checkpoint.metadata, each of which has its attributes as a dict:
 *
 *   Metadata                state_dict_metadata  dict: name → what is stored of it
 *                           planner_data         dict: name → the keys that lead to it, a tuple
 *                           storage_data         dict: MetadataIndex → _StorageInfo
 *   TensorStorageMetadata   properties (a state that is a tuple, of which the first is the dtype), size,
 *                           chunks               list of ChunkStorageMetadata: offsets, sizes
 *   BytesStorageMetadata    a pickled object: an optimiser's settings, a counter
 *   MetadataIndex           fqn, offset, index
 *   _StorageInfo            relative_path, offset, length, transform_descriptors
 *
 * MetadataIndex objects are keys of a dict, so that dict is a list here in which every entry is looked up among the parts
 * that the tensors have.
 */
#include "dcp_metadata.h"

#include "alloc.h"
#include "error.h"
#include "sort.h"
#include "text.h"

#include <string.h>

/* Attributes of one of the objects: they have at most five. */
#define DCP_MAX_ATTRIBUTES 32

/* For what torch does not write. */
static coffer_status dcp_malformed(const coffer__dcp *dcp, coffer__value value, const char *what, coffer_error *err)
{
    return coffer__fail_at(err, COFFER_ERR_PICKLE, coffer__graph_place(&dcp->graph, value),
                           "this is no metadata of a distributed checkpoint as PyTorch writes them: %s", what);
}

/* ---- objects ------------------------------------------------------------------------------------------------------- */

/* Whether a value is an object of a class, by the class's own name: its module has changed over time. */
static bool dcp_is_object(const coffer__dcp *dcp, coffer__value value, const char *class)
{
    const coffer__pickle *pickle = dcp->graph.pickle;
    const coffer__value callable = coffer__graph_callable(&dcp->graph, value);
    const coffer__node *node = coffer__pickle_node(pickle, callable);
    return node != NULL && node->kind == COFFER__VALUE_GLOBAL &&
           coffer__same_text(coffer__pickle_name(pickle, callable), class);
}

/* What an object was given; 0 of what is none, or not there. */
static coffer__value dcp_state(const coffer__dcp *dcp, coffer__value object)
{
    const coffer__node *node = coffer__pickle_node(dcp->graph.pickle, object);
    return node != NULL ? coffer__node_state(node) : 0;
}

/* An attribute of an object; 0: it has none of that name. */
static coffer__value dcp_attribute(const coffer__dcp *dcp, coffer__value object, const char *name)
{
    const coffer__pickle *pickle = dcp->graph.pickle;
    const coffer__value state = dcp_state(dcp, object);
    const coffer__node *node = coffer__pickle_node(pickle, state);
    if (node == NULL || node->kind != COFFER__VALUE_DICT || node->count > 2 * DCP_MAX_ATTRIBUTES) {
        return 0;
    }
    return coffer__pickle_get(pickle, state, name);
}

/* The characters of a text; NULL for anything else. */
static const char *dcp_text(const coffer__dcp *dcp, coffer__value value, size_t *len)
{
    const coffer__node *node = coffer__pickle_node(dcp->graph.pickle, value);
    return node != NULL && node->kind == COFFER__VALUE_TEXT ? coffer__pickle_bytes_of(dcp->graph.pickle, value, len)
                                                            : NULL;
}

static bool dcp_is_dict(const coffer__dcp *dcp, coffer__value value)
{
    const coffer__node *node = coffer__pickle_node(dcp->graph.pickle, value);
    return node != NULL && node->kind == COFFER__VALUE_DICT;
}

const char *coffer__dcp_key(const coffer__dcp *dcp, const coffer__dcp_tensor *tensor, size_t i, size_t *len)
{
    coffer__value keys[4] = { 0 };
    coffer__graph_items(&dcp->graph, tensor->path, keys, 4);
    return i < 4 ? dcp_text(dcp, keys[i], len) : NULL;
}

/* ---- lists --------------------------------------------------------------------------------------------------------- */

/* The next tensor, all zero; NULL when there is no memory. */
static coffer__dcp_tensor *dcp_add_tensor(coffer__dcp *dcp, coffer_error *err)
{
    coffer__dcp_tensor *tensors = coffer__grow_array(dcp->graph.allocator, dcp->tensors, dcp->tensor_count,
                                                     &dcp->tensor_capacity, sizeof *tensors, err);
    if (tensors == NULL) {
        return NULL;
    }
    dcp->tensors = tensors;
    tensors[dcp->tensor_count] = (coffer__dcp_tensor){ .first = dcp->part_count };
    return &tensors[dcp->tensor_count++];
}

static coffer__dcp_part *dcp_add_part(coffer__dcp *dcp, coffer_error *err)
{
    coffer__dcp_part *parts =
        coffer__grow_array(dcp->graph.allocator, dcp->parts, dcp->part_count, &dcp->part_capacity, sizeof *parts, err);
    if (parts == NULL) {
        return NULL;
    }
    dcp->parts = parts;
    parts[dcp->part_count] = (coffer__dcp_part){ .tensor = dcp->tensor_count - 1 };
    return &parts[dcp->part_count++];
}

/* Appends numbers; *place is that of the first. */
static coffer_status dcp_add_numbers(coffer__dcp *dcp, const uint64_t *numbers, size_t count, size_t *place,
                                     coffer_error *err)
{
    *place = dcp->number_count;
    for (size_t i = 0; i < count; i++) {
        uint64_t *all = coffer__grow_array(dcp->graph.allocator, dcp->numbers, dcp->number_count, &dcp->number_capacity,
                                           sizeof *all, err);
        if (all == NULL) {
            return COFFER_ERR_MEMORY;
        }
        dcp->numbers = all;
        all[dcp->number_count++] = numbers[i];
    }
    return COFFER_OK;
}

/* ---- tensors ------------------------------------------------------------------------------------------------------- */

/* The dtype is the first of a tuple, which is the state of the properties; of older versions an attribute. */
static coffer__element dcp_element(const coffer__dcp *dcp, coffer__value properties)
{
    coffer__value first[1] = { dcp_state(dcp, properties) };
    if (dcp_is_dict(dcp, first[0])) {
        first[0] = dcp_attribute(dcp, properties, "dtype");
    } else {
        coffer__graph_items(&dcp->graph, first[0], first, 1);
    }
    const coffer__known known = coffer__graph_known(&dcp->graph, first[0]);
    return known.meaning == COFFER__MEANS_DTYPE ? known.element : COFFER__ELEMENT_NONE;
}

/* One part. Ranks that have nothing of a tensor have a part without elements, which is not stored. */
static coffer_status dcp_read_chunk(coffer__dcp *dcp, coffer__value chunk, uint32_t rank, coffer_error *err)
{
    uint64_t box[2 * COFFER__PLAN_MAX_RANK];
    size_t starts = 0;
    size_t sizes = 0;
    if (!coffer__view_numbers(&dcp->graph, dcp_attribute(dcp, chunk, "offsets"), box, &starts) || starts != rank ||
        !coffer__view_numbers(&dcp->graph, dcp_attribute(dcp, chunk, "sizes"), box + rank, &sizes) || sizes != rank) {
        return dcp_malformed(dcp, chunk, "a part has neither offsets nor sizes", err);
    }
    for (size_t i = 0; i < rank; i++) {
        if (box[rank + i] == 0) {
            return COFFER_OK;
        }
    }
    coffer__dcp_part *part = dcp_add_part(dcp, err);
    return part == NULL ? COFFER_ERR_MEMORY : dcp_add_numbers(dcp, box, 2 * (size_t)rank, &part->starts, err);
}

/* One tensor with its parts. */
static coffer_status dcp_read_tensor(coffer__dcp *dcp, coffer__value name, coffer__value value, coffer_error *err)
{
    uint64_t sizes[COFFER__PLAN_MAX_RANK];
    size_t rank = 0;
    const coffer__node *chunks = coffer__pickle_node(dcp->graph.pickle, dcp_attribute(dcp, value, "chunks"));
    coffer__dcp_tensor *tensor = dcp_add_tensor(dcp, err);
    if (tensor == NULL) {
        return COFFER_ERR_MEMORY;
    }
    tensor->name = dcp_text(dcp, name, &tensor->name_len);
    tensor->element = dcp_element(dcp, dcp_attribute(dcp, value, "properties"));
    if (tensor->name == NULL || chunks == NULL || chunks->kind != COFFER__VALUE_LIST ||
        tensor->element == COFFER__ELEMENT_NONE ||
        !coffer__view_numbers(&dcp->graph, dcp_attribute(dcp, value, "size"), sizes, &rank)) {
        return dcp_malformed(dcp, value, "a tensor without a name, dtype, size or list of parts", err);
    }
    tensor->rank = (uint32_t)rank;
    coffer_status status = dcp_add_numbers(dcp, sizes, rank, &tensor->sizes, err);
    for (uint32_t link = chunks->first; link != 0 && status == COFFER_OK;) {
        status = dcp_read_chunk(dcp, coffer__pickle_item(dcp->graph.pickle, &link), (uint32_t)rank, err);
    }
    tensor->count = dcp->part_count - tensor->first;
    return status;
}

/* Names and what is stored of them. Objects that are no tensors are counted. */
static coffer_status dcp_read_tensors(coffer__dcp *dcp, coffer__value root, coffer_error *err)
{
    const coffer__value dict = dcp_attribute(dcp, root, "state_dict_metadata");
    const coffer__node *node = coffer__pickle_node(dcp->graph.pickle, dict);
    if (!dcp_is_dict(dcp, dict)) {
        return dcp_malformed(dcp, root, "there is no dict of tensors", err);
    }
    for (uint32_t link = node->first; link != 0;) {
        const coffer__value name = coffer__pickle_item(dcp->graph.pickle, &link);
        const coffer__value value = link != 0 ? coffer__pickle_item(dcp->graph.pickle, &link) : 0;
        if (!dcp_is_object(dcp, value, "TensorStorageMetadata")) {
            dcp->others++;
            continue;
        }
        const coffer_status status = dcp_read_tensor(dcp, name, value, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* ---- looking up ---------------------------------------------------------------------------------------------------- */

static bool dcp_name_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer__dcp_tensor *tensors = ctx;
    return coffer__compare_names(tensors[a].name, tensors[a].name_len, tensors[b].name, tensors[b].name_len) < 0;
}

/* A name that is looked for. */
typedef struct dcp_name {
    const char *text;
    size_t len;
} dcp_name;

static int dcp_compare_name(const void *ctx, size_t i, const void *wanted)
{
    const coffer__dcp *dcp = ctx;
    const coffer__dcp_tensor *tensor = &dcp->tensors[dcp->by_name[i]];
    const dcp_name *name = wanted;
    return coffer__compare_names(tensor->name, tensor->name_len, name->text, name->len);
}

static coffer__dcp_tensor *dcp_find_tensor(const coffer__dcp *dcp, coffer__value name)
{
    dcp_name wanted = { .len = 0 };
    size_t at = 0;
    wanted.text = dcp_text(dcp, name, &wanted.len);
    return wanted.text != NULL && coffer__find_sorted(dcp->tensor_count, dcp_compare_name, dcp, &wanted, &at)
               ? &dcp->tensors[dcp->by_name[at]]
               : NULL;
}

/* Numbers one after another, the first one first. */
static int dcp_compare_numbers(const uint64_t *a, const uint64_t *b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (a[i] != b[i]) {
            return a[i] < b[i] ? -1 : 1;
        }
    }
    return 0;
}

static bool dcp_place_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer__dcp *dcp = ctx;
    const coffer__dcp_part *one = &dcp->parts[a];
    const coffer__dcp_part *two = &dcp->parts[b];
    if (one->tensor != two->tensor) {
        return one->tensor < two->tensor;
    }
    return dcp_compare_numbers(dcp->numbers + one->starts, dcp->numbers + two->starts, dcp->tensors[one->tensor].rank) <
           0;
}

/* A part that is looked for, among those of a tensor. */
typedef struct dcp_place {
    const coffer__dcp *dcp;
    const coffer__dcp_tensor *tensor;
    const uint64_t *starts;
} dcp_place;

static int dcp_compare_place(const void *ctx, size_t i, const void *wanted)
{
    const dcp_place *place = wanted;
    const coffer__dcp *dcp = ctx;
    const coffer__dcp_part *part = &dcp->parts[dcp->by_place[place->tensor->first + i]];
    return dcp_compare_numbers(dcp->numbers + part->starts, place->starts, place->tensor->rank);
}

/* The parts of a tensor follow each other also in the order of places, since that begins with the tensor. */
static coffer__dcp_part *dcp_find_part(const coffer__dcp *dcp, const coffer__dcp_tensor *tensor, const uint64_t *starts)
{
    const dcp_place wanted = { dcp, tensor, starts };
    size_t at = 0;
    return coffer__find_sorted(tensor->count, dcp_compare_place, dcp, &wanted, &at)
               ? &dcp->parts[dcp->by_place[tensor->first + at]]
               : NULL;
}

static coffer_status dcp_sort(coffer__dcp *dcp, coffer_error *err)
{
    dcp->by_name = coffer__alloc_array(dcp->graph.allocator, dcp->tensor_count, sizeof *dcp->by_name, err);
    dcp->by_place = coffer__alloc_array(dcp->graph.allocator, dcp->part_count, sizeof *dcp->by_place, err);
    if (dcp->by_name == NULL || dcp->by_place == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (uint32_t i = 0; i < dcp->tensor_count; i++) {
        dcp->by_name[i] = i;
    }
    for (uint32_t i = 0; i < dcp->part_count; i++) {
        dcp->by_place[i] = i;
    }
    coffer__sort(dcp->by_name, dcp->tensor_count, dcp_name_before, dcp->tensors);
    coffer__sort(dcp->by_place, dcp->part_count, dcp_place_before, dcp);
    return COFFER_OK;
}

/* ---- where parts are ----------------------------------------------------------------------------------------------- */

/* An extension may have compressed what is stored, and lists here what it has done. */
static coffer_status dcp_check_transforms(const coffer__dcp *dcp, coffer__value info, coffer_error *err)
{
    coffer__value first[1] = { 0 };
    size_t len = 0;
    const coffer__value list = dcp_attribute(dcp, info, "transform_descriptors");
    const coffer__node *node = coffer__pickle_node(dcp->graph.pickle, list);
    if (node == NULL || node->kind == COFFER__VALUE_NONE || node->count == 0) {
        return COFFER_OK;
    }
    coffer__graph_items(&dcp->graph, list, first, 1);
    const char *text = dcp_text(dcp, first[0], &len);
    return coffer__fail_at(err, COFFER_ERR_UNSUPPORTED, coffer__graph_place(&dcp->graph, info),
                           "a part of this checkpoint was transformed by the extension %q when it was saved: that "
                           "is not undone",
                           text != NULL ? text : "", len);
}

/* One entry, whatever it is of. */
static coffer_status dcp_add_place(coffer__dcp *dcp, coffer__value index, coffer__value info, coffer_error *err)
{
    coffer__dcp_place *places = coffer__grow_array(dcp->graph.allocator, dcp->places, dcp->place_count,
                                                   &dcp->place_capacity, sizeof *places, err);
    if (places == NULL) {
        return COFFER_ERR_MEMORY;
    }
    dcp->places = places;
    coffer__dcp_place *place = &places[dcp->place_count++];
    size_t name_len = 0;
    *place = (coffer__dcp_place){ .name = dcp_text(dcp, dcp_attribute(dcp, index, "fqn"), &name_len) };
    place->file = dcp_text(dcp, dcp_attribute(dcp, info, "relative_path"), &place->file_len);
    if (place->file == NULL || !coffer__graph_u64(&dcp->graph, dcp_attribute(dcp, info, "offset"), &place->at) ||
        !coffer__graph_u64(&dcp->graph, dcp_attribute(dcp, info, "length"), &place->size)) {
        return dcp_malformed(dcp, info, "something without a file, a place in it, or a length", err);
    }
    return dcp_check_transforms(dcp, info, err);
}

/* One entry: which part of which tensor, and where it is. Those of objects, and of parts without elements, are of no
   interest. */
static coffer_status dcp_read_place(const coffer__dcp *dcp, coffer__value index, coffer__value info, coffer_error *err)
{
    uint64_t starts[COFFER__PLAN_MAX_RANK];
    size_t rank = 0;
    const coffer__dcp_tensor *tensor = dcp_find_tensor(dcp, dcp_attribute(dcp, index, "fqn"));
    if (tensor == NULL || !coffer__view_numbers(&dcp->graph, dcp_attribute(dcp, index, "offset"), starts, &rank) ||
        rank != tensor->rank) {
        return COFFER_OK;
    }
    coffer__dcp_part *part = dcp_find_part(dcp, tensor, starts);
    if (part == NULL) {
        return COFFER_OK;
    }
    part->file = dcp_text(dcp, dcp_attribute(dcp, info, "relative_path"), &part->file_len);
    if (part->file == NULL || !coffer__graph_u64(&dcp->graph, dcp_attribute(dcp, info, "offset"), &part->at) ||
        !coffer__graph_u64(&dcp->graph, dcp_attribute(dcp, info, "length"), &part->size)) {
        return dcp_malformed(dcp, info, "a part without a file, a place in it, or a length", err);
    }
    return dcp_check_transforms(dcp, info, err);
}

static coffer_status dcp_read_places(coffer__dcp *dcp, coffer__value root, coffer_error *err)
{
    const coffer__value dict = dcp_attribute(dcp, root, "storage_data");
    const coffer__node *node = coffer__pickle_node(dcp->graph.pickle, dict);
    if (!dcp_is_dict(dcp, dict)) {
        return dcp_malformed(dcp, root, "it does not say where the parts are", err);
    }
    coffer_status status = dcp_sort(dcp, err);
    for (uint32_t link = node->first; link != 0 && status == COFFER_OK;) {
        const coffer__value index = coffer__pickle_item(dcp->graph.pickle, &link);
        const coffer__value info = link != 0 ? coffer__pickle_item(dcp->graph.pickle, &link) : 0;
        status = dcp->file->wants->scan ? dcp_add_place(dcp, index, info, err) : dcp_read_place(dcp, index, info, err);
    }
    return status;
}

/* The keys that lead to each tensor, whose name they are, joined by dots. Programs that save what is flat already have
   no such dict. */
static void dcp_read_paths(coffer__dcp *dcp, coffer__value root)
{
    const coffer__value dict = dcp_attribute(dcp, root, "planner_data");
    const coffer__node *node = coffer__pickle_node(dcp->graph.pickle, dict);
    if (!dcp_is_dict(dcp, dict)) {
        return;
    }
    for (uint32_t link = node->first; link != 0;) {
        const coffer__value name = coffer__pickle_item(dcp->graph.pickle, &link);
        const coffer__value path = link != 0 ? coffer__pickle_item(dcp->graph.pickle, &link) : 0;
        const coffer__node *keys = coffer__pickle_node(dcp->graph.pickle, path);
        coffer__dcp_tensor *tensor = dcp_find_tensor(dcp, name);
        if (tensor != NULL && keys != NULL && keys->kind == COFFER__VALUE_TUPLE) {
            tensor->path = path;
            dcp->has_paths = true;
        }
    }
}

coffer_status coffer__dcp_read(coffer__dcp *dcp, const coffer__reader_file *file, coffer_error *err)
{
    uint64_t end = 0;
    *dcp = (coffer__dcp){ .file = file };
    dcp->graph.member = "";
    coffer_status status = coffer__pickle_file_load(&dcp->graph, file, NULL, 0, file->size, &end, err);
    if (status != COFFER_OK) {
        return status;
    }
    const coffer__value root = coffer__pickle_root(dcp->graph.pickle);
    if (!dcp_is_object(dcp, root, "Metadata")) {
        return dcp_malformed(dcp, root, "it is of another class", err);
    }
    status = dcp_read_tensors(dcp, root, err);
    if (status == COFFER_OK) {
        status = dcp_read_places(dcp, root, err);
    }
    if (status == COFFER_OK) {
        dcp_read_paths(dcp, root);
    }
    return status;
}

void coffer__dcp_free(coffer__dcp *dcp)
{
    const coffer_allocator *allocator = dcp->file->plan->allocator;
    coffer__free_array(allocator, dcp->by_place, dcp->part_count, sizeof *dcp->by_place);
    coffer__free_array(allocator, dcp->by_name, dcp->tensor_count, sizeof *dcp->by_name);
    coffer__free(allocator, dcp->places, dcp->place_capacity * sizeof *dcp->places);
    coffer__free(allocator, dcp->numbers, dcp->number_capacity * sizeof *dcp->numbers);
    coffer__free(allocator, dcp->parts, dcp->part_capacity * sizeof *dcp->parts);
    coffer__free(allocator, dcp->tensors, dcp->tensor_capacity * sizeof *dcp->tensors);
    coffer__pickle_file_unload(&dcp->graph);
}
