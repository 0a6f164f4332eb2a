/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors of torch: see pickle_views.h. The functions that rebuild them (torch/_utils.py) take
 *
 *   _rebuild_tensor     (storage, offset, sizes, strides)
 *   _rebuild_tensor_v2  the same, requires_grad, hooks[, metadata]
 *   _rebuild_tensor_v3  the same, requires_grad, hooks, dtype[, metadata]
 *   _rebuild_parameter  (tensor, …), and others whose first argument is the tensor
 *   _rebuild_from_type_v2  (one of these functions, a class, its arguments, a state)
 *
 * where a storage is a persistent id, ("storage", class, key, location, elements[, view]), a view being (key, offset,
 * elements), and metadata a dict that may say {"conj": True} or {"neg": True}.
 *
 * None of these functions is called. Their arguments are taken apart, from the outermost wrapper to the storage, and
 * everything that is not exactly as torch writes it is refused: a guess here would be a tensor with wrong values.
 */
#include "pickle_views.h"

#include "checked.h"
#include "dtype.h"
#include "error.h"
#include "text.h"

#include <string.h>

/* Wrappers within wrappers; torch makes two. */
#define VIEW_MAX_WRAPPERS 8

#define VIEW_MAX_ARGUMENTS 8
/* Keys and values of states that are searched. */
#define VIEW_MAX_STATE 64

/* For what only somebody who writes pickles by hand would make; the place is that of the value's opcode. */
static coffer_status view_malformed(const coffer__graph *graph, coffer__value value, const char *what,
                                    coffer_error *err)
{
    return coffer__fail_at(err, COFFER_ERR_PICKLE, coffer__graph_place(graph, value),
                           "the pickle describes a tensor in a way that no program writes: %s", what);
}

/* ---- storages ------------------------------------------------------------------------------------------------------ */

/* Keys are numbers in torch's own files, and plain names elsewhere: no path has one. A file of the first versions of
   torch has whole numbers. */
static bool view_key(const coffer__graph *graph, coffer__value key, coffer__storage_id *id)
{
    uint64_t number = 0;
    id->key = id->digits;
    if (coffer__graph_u64(graph, key, &number)) {
        /* As digits, so that one kind of key is enough for all containers. */
        id->key_len = coffer__write_u64(id->digits, number);
        return true;
    }
    /* A str of Python 2 is BYTES, and as good a key. */
    const coffer__node *node = coffer__pickle_node(graph->pickle, key);
    if (node == NULL || (node->kind != COFFER__VALUE_TEXT && node->kind != COFFER__VALUE_BYTES)) {
        return false;
    }
    id->key = coffer__pickle_bytes_of(graph->pickle, key, &id->key_len);
    return id->key != NULL;
}

/* Where a view of a storage begins, which the sixth part of an id says: None, or (key, offset, elements). */
static bool view_offset(const coffer__graph *graph, coffer__value value, uint64_t *offset)
{
    coffer__value view[3] = { 0 };
    const coffer__node *node = coffer__pickle_node(graph->pickle, value);
    if (node == NULL || node->kind == COFFER__VALUE_NONE) {
        return true;
    }
    return coffer__graph_items(graph, value, view, 3) == 3 && coffer__graph_u64(graph, view[1], offset);
}

coffer_status coffer__storage_id_of(const coffer__graph *graph, coffer__value value, coffer__storage_id *id,
                                    coffer_error *err)
{
    coffer__value tuple[1] = { 0 };
    coffer__value parts[6] = { 0 };
    const coffer__node *node = coffer__pickle_node(graph->pickle, value);
    memset(id, 0, sizeof *id);
    if (node == NULL || node->kind != COFFER__VALUE_PERSISTENT) {
        return view_malformed(graph, value, "its storage is not a storage", err);
    }
    coffer__graph_items(graph, value, tuple, 1);
    node = coffer__pickle_node(graph->pickle, tuple[0]);
    const size_t count = coffer__graph_items(graph, tuple[0], parts, 6);
    /* Made by one opcode with its id: that is PERSID, whose id is a line. */
    if (node != NULL && node->offset == coffer__pickle_node(graph->pickle, value)->offset) {
        return coffer__fail_at(
            err, COFFER_ERR_PICKLE, coffer__graph_place(graph, value),
            "the checkpoint was saved with protocol 0, which turns the ids of its storages into text: "
            "PyTorch cannot load it either");
    }
    if (node == NULL || node->kind != COFFER__VALUE_TUPLE || count < 5 || count > 6 ||
        !coffer__graph_is_text(graph, parts[0], "storage")) {
        return view_malformed(graph, value, "its storage has another id than (\"storage\", …)", err);
    }
    /* The class tells how large an element is: torch.FloatStorage and its kin, or UntypedStorage, whose
       elements are bytes. */
    const coffer__known known = coffer__graph_known(graph, parts[1]);
    id->element = known.element;
    if (known.meaning != COFFER__MEANS_STORAGE) {
        return view_malformed(graph, value, "the class of its storage is not a class of storages", err);
    }
    if (!view_key(graph, parts[2], id)) {
        return view_malformed(graph, value, "the key of its storage is no text", err);
    }
    if (!coffer__graph_u64(graph, parts[4], &id->elements) ||
        !coffer__mul_u64(id->elements, coffer__element_facts_of(id->element)->size, &id->size) ||
        !view_offset(graph, parts[5], &id->offset)) {
        return view_malformed(graph, value, "the size of its storage", err);
    }
    return COFFER_OK;
}

/* The storage of a persistent id. It has to be exactly as large as the id says: the one is the pickle's word, the other what
   the file has, and where they differ the file was put together from two. */
static coffer_status view_storage_of(coffer__graph *graph, coffer__value value, coffer__storage_id *id,
                                     const coffer__stored **stored, coffer_error *err)
{
    const coffer__within *within = coffer__graph_within(graph, value);
    if (within != NULL) {
        graph->reached[value] = 1;
        *id = (coffer__storage_id){ .element = within->element, .size = within->stored.size, .offset = within->offset };
        *stored = &within->stored;
        return COFFER_OK;
    }
    if (coffer__graph_known_call(graph, value).meaning == COFFER__MEANS_LOAD) {
        return coffer__fail_at(err, COFFER_ERR_PICKLE, coffer__graph_place(graph, value),
                               "a tensor is in bytes that torch.load would read, and these are no storage alone: save "
                               "it again, with torch.save");
    }
    const coffer_status status = coffer__storage_id_of(graph, value, id, err);
    if (status != COFFER_OK) {
        return status;
    }
    /* From here on the storage belongs to a tensor that gets a row, or to an error. */
    graph->reached[value] = 1;
    *stored = graph->stores != NULL ? coffer__stores_find(graph->stores, id->key, id->key_len) : NULL;
    if (*stored == NULL) {
        return coffer__fail_at(err, COFFER_ERR_DAMAGED, coffer__graph_place(graph, value),
                               "a tensor is in storage %q, which the file does not have", id->key, id->key_len);
    }
    /* torch would read beyond the end of the record, or leave some of it unread. */
    if (id->size != (*stored)->size) {
        coffer__fail_at(err, COFFER_ERR_DAMAGED, coffer__graph_place(graph, value),
                        "storage %q has %u bytes, and the pickle says %u", id->key, id->key_len, (*stored)->size,
                        id->size);
        return coffer__fail_sizes(err, COFFER_ERR_DAMAGED, id->size, (*stored)->size);
    }
    return COFFER_OK;
}

/* As U8 whatever its class is: it is not written, and its bytes only have to be accounted for. */
coffer_status coffer__view_of_storage(coffer__graph *graph, coffer__value persistent, coffer__view *view,
                                      coffer_error *err)
{
    coffer__storage_id id;
    const coffer__stored *stored = NULL;
    memset(view, 0, sizeof *view);
    const coffer_status status = view_storage_of(graph, persistent, &id, &stored, err);
    if (status != COFFER_OK) {
        return status;
    }
    /* One dimension of bytes, from the first to the last. */
    const coffer__extents all = { .rank = 1, .sizes = { stored->size }, .strides = { 1 } };
    view->element = COFFER__ELEMENT_U8;
    view->row.storage = stored->storage;
    return coffer__view_fill(graph, persistent, view, &all, stored->size, err);
}

coffer_status coffer__graph_storage(coffer__graph *graph, coffer__within *within, bool *found, coffer_error *err)
{
    coffer__storage_id id;
    const coffer__stored *stored = NULL;
    const coffer__value root = coffer__pickle_root(graph->pickle);
    *found = coffer__pickle_node(graph->pickle, root)->kind == COFFER__VALUE_PERSISTENT;
    for (coffer__value value = 1; *found && value < graph->marks; value++) {
        *found = coffer__graph_classify(graph, value) != COFFER__CLASS_OPAQUE;
    }
    if (!*found) {
        return COFFER_OK;
    }
    const coffer_status status = view_storage_of(graph, root, &id, &stored, err);
    if (status == COFFER_OK) {
        within->element = id.element;
        within->offset = id.offset;
        within->stored = (coffer__stored){ .key = "", .size = stored->size, .storage = stored->storage };
    }
    return status;
}

/* ---- signs --------------------------------------------------------------------------------------------------------- */

/* True itself; 1 is no truth that torch writes. */
static bool view_is_true(const coffer__graph *graph, coffer__value value)
{
    const coffer__node *node = coffer__pickle_node(graph->pickle, value);
    return node != NULL && node->kind == COFFER__VALUE_BOOL && node->as.integer != 0;
}

/* Bits of torch that stand for work to be done: a conjugate has the bytes of its original, and so has what is negated
   because it is the imaginary half of a conjugate. */
static void view_set_sign(const coffer__graph *graph, coffer__value metadata, coffer__view *view)
{
    const coffer__node *node = coffer__pickle_node(graph->pickle, metadata);
    /* torch's own metadata are a handful of pairs; a large dict would be searched again for each tensor that
       shares it. */
    if (node == NULL || node->kind != COFFER__VALUE_DICT || node->count > VIEW_MAX_STATE) {
        return;
    }
    /*
     * Both bits together mean that the imaginary half keeps its sign and the real half changes: no change of the
     * carrier is that.
     */
    const bool conjugated = view_is_true(graph, coffer__pickle_get(graph->pickle, metadata, "conj"));
    const bool negated = view_is_true(graph, coffer__pickle_get(graph->pickle, metadata, "neg"));
    if (conjugated && negated) {
        view->lack = "both conjugated and negated";
    } else if (conjugated) {
        view->row.sign = COFFER__SIGN_CONJUGATED;
        /* Of real numbers torch sets no such bit, and of complex ones safetensors has this one only. */
        view->lack = view->element == COFFER__ELEMENT_C64 ? view->lack : "a conjugate of another type than complex64";
    } else if (negated) {
        view->row.sign = COFFER__SIGN_NEGATED;
    }
}

/* ---- tensors ------------------------------------------------------------------------------------------------------- */

/* A call that rebuilds something: what is called, and the tuple of arguments. */
typedef struct view_call {
    coffer__value function;
    coffer__value arguments;
    coffer__value whole; /* the sizes of the distributed tensor that it is a part of; 0: of none */
} view_call;

/* torch.load swaps by the class of the storage. The storages of version 3 are of bytes, so it leaves these as they are. */
static coffer_status view_note_swap(coffer__graph *graph, coffer__value value, coffer__element element,
                                    coffer_error *err)
{
    const char *name = coffer__element_facts_of(element)->name;
    if (graph->noted_swap) {
        return COFFER_OK;
    }
    graph->noted_swap = true;
    return coffer__import_plan_put_finding(
        graph->plan, COFFER_WEIGHT_NOTE, graph->file, coffer__graph_place(graph, value), graph->member,
        "the file is big-endian, and tensors of %q are swapped here: PyTorch does not swap "
        "those when it loads them",
        name, coffer__text_len(name), err);
}

/* What all three functions share, and what the later ones have besides. Each argument is of the kind that
   torch gives, or the tensor is refused. */
static coffer_status view_rebuild(coffer__graph *graph, coffer__value value, view_call call, coffer__view *view,
                                  coffer_error *err)
{
    coffer__value parts[VIEW_MAX_ARGUMENTS] = { 0 };
    const coffer__meaning meaning = coffer__graph_known(graph, call.function).meaning;
    const size_t count = coffer__graph_items(graph, call.arguments, parts, VIEW_MAX_ARGUMENTS);
    /* requires_grad and hooks have to be there, and are not looked at: they say nothing about values. */
    const size_t least = meaning == COFFER__MEANS_REBUILD_1 ? 4 : meaning == COFFER__MEANS_REBUILD_2 ? 6 : 7;
    if (count < least || count > VIEW_MAX_ARGUMENTS) {
        return view_malformed(graph, value, "the number of arguments", err);
    }
    coffer__storage_id id;
    const coffer__stored *stored = NULL;
    coffer__extents extents = { 0 };
    size_t strides = 0;
    coffer_status status = view_storage_of(graph, parts[0], &id, &stored, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (!coffer__graph_u64(graph, parts[1], &extents.offset) ||
        !coffer__add_u64(extents.offset, id.offset, &extents.offset) ||
        !coffer__view_numbers(graph, parts[2], extents.sizes, &extents.rank) ||
        !coffer__view_numbers(graph, parts[3], extents.strides, &strides) || strides != extents.rank) {
        coffer__fail_at(err, COFFER_ERR_VIEW, coffer__graph_place(graph, value),
                        "a tensor needs as many strides as sizes, at most %u, and none of them negative",
                        (uint64_t)COFFER__PLAN_MAX_RANK);
        return COFFER_ERR_VIEW;
    }
    view->element = id.element;
    /* Version 3 is for dtypes that have no class of storage: the storage is of bytes, and the dtype comes by
       itself. */
    if (meaning == COFFER__MEANS_REBUILD_3) {
        const coffer__known dtype = coffer__graph_known(graph, parts[6]);
        if (dtype.meaning != COFFER__MEANS_DTYPE) {
            return view_malformed(graph, value, "its dtype is not a dtype", err);
        }
        view->element = dtype.element;
    }
    /* Bytes are swapped within a unit, which is half of a complex number and all of any other element. */
    const size_t unit = coffer__element_facts_of(view->element)->unit;
    view->row.storage = stored->storage;
    view->row.swap = (uint8_t)(graph->big_endian && unit > 1 ? unit : 0);
    if (meaning == COFFER__MEANS_REBUILD_3 && view->row.swap != 0) {
        status = view_note_swap(graph, value, view->element, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    view_set_sign(graph,
                  meaning == COFFER__MEANS_REBUILD_3   ? parts[7]
                  : meaning == COFFER__MEANS_REBUILD_2 ? parts[6]
                                                       : 0,
                  view);
    return coffer__view_fill(graph, value, view, &extents, stored->size, err);
}

/* Whether a class that wraps others is that which torch had before DTensor for what several processes share. */
static bool view_is_sharded(const coffer__graph *graph, const view_call *call)
{
    coffer__value class = 0;
    coffer__graph_items(graph, call->arguments, &class, 1);
    const coffer__node *node = coffer__pickle_node(graph->pickle, class);
    return node != NULL && node->kind == COFFER__VALUE_GLOBAL &&
           coffer__same_text(coffer__pickle_name(graph->pickle, class), "ShardedTensor");
}

/* What a tensor is that has no equivalent, by the function that would make it. */
static const char *view_lack(const coffer__graph *graph, const view_call *call)
{
    const char *name = coffer__pickle_name(graph->pickle, call->function);
    static const struct {
        const char *name;
        const char *lack;
    } lacks[] = {
        { "_rebuild_sparse_tensor", "a sparse tensor" },
        { "_rebuild_sparse_csr_tensor", "a sparse tensor" },
        { "_rebuild_nested_tensor", "a nested tensor" },
        { "_rebuild_njt", "a nested tensor" },
        { "_rebuild_qtensor", "a quantised tensor" },
        { "_rebuild_meta_tensor_no_storage", "a tensor without data (meta)" },
        { "_rebuild_wrapper_subclass", "a tensor of a class that wraps others" },
        { "_mareconstruct", "a masked array" },
    };
    if (view_is_sharded(graph, call)) {
        return "one process's part of a ShardedTensor";
    }
    for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++) {
        if (coffer__same_text(name, lacks[i].name)) {
            return lacks[i].lack;
        }
    }
    return "a tensor without data (uninitialised)";
}

/* An attribute of a distributed tensor; 0 for other classes. It is in the state that follows
   _rebuild_wrapper_subclass(class, dtype, sizes, …), which is a dict, or a pair of them, of which the second has what
   __slots__ names. `parts` are the arguments of the call that makes all of it. */
static coffer__value view_attribute(const coffer__graph *graph, const coffer__value *parts, const char *name)
{
    const coffer__node *function = coffer__pickle_node(graph->pickle, parts[0]);
    const coffer__node *state = coffer__pickle_node(graph->pickle, parts[3]);
    coffer__value dicts[2] = { parts[3] };
    if (function == NULL || function->kind != COFFER__VALUE_GLOBAL || state == NULL ||
        !coffer__same_text(coffer__pickle_name(graph->pickle, parts[0]), "_rebuild_wrapper_subclass")) {
        return 0;
    }
    /* The second dict is of __slots__, where torch keeps the part. */
    if (state->kind == COFFER__VALUE_TUPLE) {
        coffer__graph_items(graph, parts[3], dicts, 2);
    }
    for (size_t i = 0; i < 2; i++) {
        const coffer__node *dict = coffer__pickle_node(graph->pickle, dicts[i]);
        const bool small = dict != NULL && dict->kind == COFFER__VALUE_DICT && dict->count <= VIEW_MAX_STATE;
        const coffer__value found = small ? coffer__pickle_get(graph->pickle, dicts[i], name) : 0;
        if (found != 0) {
            return found;
        }
    }
    return 0;
}

/* The part of a distributed tensor that one process has. */
static coffer__value view_local(const coffer__graph *graph, const coffer__value *parts)
{
    return view_attribute(graph, parts, "_local_tensor");
}

bool coffer__view_is_distributed(const coffer__graph *graph, coffer__value value, coffer__distributed *distributed)
{
    coffer__value parts[4] = { 0 };
    coffer__value sizes[3] = { 0 };
    coffer__graph_items(graph, coffer__graph_arguments(graph, value), parts, 4);
    for (size_t i = 0; i < VIEW_MAX_WRAPPERS && coffer__graph_known_call(graph, value).meaning == COFFER__MEANS_WRAP;
         i++) {
        value = parts[0];
        coffer__graph_items(graph, coffer__graph_arguments(graph, value), parts, 4);
    }
    if (coffer__graph_known_call(graph, value).meaning != COFFER__MEANS_FROM_TYPE) {
        return false;
    }
    coffer__graph_items(graph, parts[2], sizes, 3);
    distributed->local = view_local(graph, parts);
    distributed->spec = view_attribute(graph, parts, "_spec");
    distributed->sizes = sizes[2];
    return distributed->local != 0 && distributed->spec != 0;
}

/* Undoes one wrapper: the tensor within is a value of its own, or a call of other names. */
static bool view_unwrap(coffer__graph *graph, view_call *call, coffer__value *value)
{
    coffer__value parts[4] = { 0 };
    const coffer__meaning meaning = coffer__graph_known(graph, call->function).meaning;
    coffer__graph_items(graph, call->arguments, parts, 4);
    const coffer__value local = meaning == COFFER__MEANS_FROM_TYPE ? view_local(graph, parts) : 0;
    if (local != 0) {
        /* The sizes of all of it are the third argument of the call that wraps. */
        coffer__value sizes[3] = { 0 };
        coffer__graph_items(graph, parts[2], sizes, 3);
        call->whole = sizes[2];
        parts[0] = local;
    } else if (meaning == COFFER__MEANS_FROM_TYPE) {
        call->function = parts[0];
        call->arguments = parts[2];
        return call->function != 0 && call->arguments != 0;
    }
    if (meaning == COFFER__MEANS_EVAL) {
        parts[0] = coffer__graph_evaluated(graph, *value);
    }
    *value = parts[0];
    if (meaning == COFFER__MEANS_SEQUENCE) { /* Paddle's ((name, array),) */
        coffer__value couple[2] = { 0 };
        coffer__graph_items(graph, parts[0], couple, 2);
        *value = couple[1];
    }
    if (*value == 0) {
        return false;
    }
    call->function = coffer__graph_callable(graph, *value);
    call->arguments = coffer__graph_arguments(graph, *value);
    return true;
}

/* A part of a distributed tensor stands for all of it if it is as large: on one process, or replicated on each. */
static void view_check_whole(const coffer__graph *graph, const view_call *call, coffer__view *view)
{
    uint64_t sizes[COFFER__PLAN_MAX_RANK];
    size_t count = 0;
    if (call->whole == 0) {
        return;
    }
    bool same = coffer__view_numbers(graph, call->whole, sizes, &count) && count == view->row.rank;
    for (size_t i = 0; same && i < count; i++) {
        same = sizes[i] == view->dimensions[i].count;
    }
    view->lack = same ? view->lack : "one process's part of a distributed tensor";
}

/* A tensor that the pickle has a number for. */
static coffer_status view_placed(coffer__graph *graph, coffer__value value, coffer__view *view, coffer_error *err)
{
    coffer__placed placed = { 0 };
    uint64_t number = 0;
    graph->reached[value] = 1;
    if (!coffer__graph_number(graph, value, &number)) {
        return view_malformed(graph, value, "its number is not a number", err);
    }
    /* torch_tar.c has read what the object only refers to. */
    const coffer_status status = graph->numbered->get(graph->numbered->ctx, number, &placed, err);
    if (status != COFFER_OK) {
        return status;
    }
    view->element = placed.element;
    view->row.storage = placed.storage;
    return coffer__view_fill(graph, value, view, &placed.extents, placed.available, err);
}

coffer_status coffer__view_of(coffer__graph *graph, coffer__value value, coffer__view *view, coffer_error *err)
{
    memset(view, 0, sizeof *view);
    view->row.storage = COFFER__PLAN_NO_STORAGE;
    if (coffer__pickle_node(graph->pickle, value)->kind == COFFER__VALUE_PERSISTENT) {
        return view_placed(graph, value, view, err);
    }
    view_call call = { coffer__graph_callable(graph, value), coffer__graph_arguments(graph, value), 0 };
    coffer_status status = COFFER_OK;
    /* From wrapper to wrapper, each of which is marked as reached: nothing of a tensor that has a row is left
       over. */
    for (size_t i = 0; i < VIEW_MAX_WRAPPERS; i++) {
        const coffer__known known = coffer__graph_known(graph, call.function);
        graph->reached[value] = 1;
        switch (known.meaning) {
        case COFFER__MEANS_REBUILD_1:
        case COFFER__MEANS_REBUILD_2:
        case COFFER__MEANS_REBUILD_3:
            status = view_rebuild(graph, value, call, view, err);
            view_check_whole(graph, &call, view);
            return status;
        case COFFER__MEANS_RECONSTRUCT:
        case COFFER__MEANS_FROM_BUFFER:
            return coffer__view_of_array(graph, value, view, err);
        case COFFER__MEANS_WRAP:
        case COFFER__MEANS_FROM_TYPE:
        case COFFER__MEANS_SEQUENCE:
        case COFFER__MEANS_EVAL:
            break;
        default:
            view->lack = known.judgement == COFFER__GLOBAL_LACKING ? view_lack(graph, &call)
                                                                   : "made by a function that is not known";
            return COFFER_OK;
        }
        if (!view_unwrap(graph, &call, &value)) {
            break;
        }
    }
    return view_malformed(graph, value, "a wrapper without a tensor", err);
}
