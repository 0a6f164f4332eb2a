/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Roles and entries: see pickle_classify.h.
 *
 * A role is found once for each node and remembered, since a memo can make one node an entry of many others. What is
 * looked for in the state of an object is looked for among its first pairs only: a graph in which a million objects
 * share one state of a million pairs would take for ever otherwise.
 */
#include "pickle_classify.h"

#include "alloc.h"
#include "error.h"
#include "names.h"
#include "sort.h"
#include "text.h"

#include <string.h>

/* Pairs of a state that are looked at; modules have about twenty. */
#define GRAPH_STATE_PAIRS 256
/* Comparisons of names of buffers with those that are not persistent. */
#define GRAPH_MAX_WITHOUT 1000

/* ---- looking at nodes ---------------------------------------------------------------------------------------------- */

/* The byte in the file, for messages. Value 0 has none, and gets the beginning of the stream. */
uint64_t coffer__graph_place(const coffer__graph *graph, coffer__value value)
{
    const coffer__node *node = coffer__pickle_node(graph->pickle, value);
    return graph->at + (node != NULL ? node->offset : 0);
}

/* Safe for value 0, so that what a pickle leaves out needs no check of its own: it is of no kind. */
static bool graph_is(const coffer__graph *graph, coffer__value value, coffer__value_kind kind)
{
    const coffer__node *node = coffer__pickle_node(graph->pickle, value);
    return node != NULL && node->kind == kind;
}

/* The names are all that is asked; that the value stands where a class is expected proves nothing about it. */
coffer__known coffer__graph_known(const coffer__graph *graph, coffer__value value)
{
    if (!graph_is(graph, value, COFFER__VALUE_GLOBAL)) {
        return (coffer__known){ COFFER__GLOBAL_UNKNOWN, COFFER__MEANS_NOTHING, COFFER__ELEMENT_NONE };
    }
    return coffer__known_global(coffer__pickle_module(graph->pickle, value), coffer__pickle_name(graph->pickle, value));
}

/* Missing items become 0, of which every question has a harmless answer; the count tells those who need to
   know. */
size_t coffer__graph_items(const coffer__graph *graph, coffer__value container, coffer__value *items, size_t most)
{
    const coffer__node *node = coffer__pickle_node(graph->pickle, container);
    uint32_t link = node != NULL ? node->first : 0;
    for (size_t i = 0; i < most; i++) {
        items[i] = link != 0 ? coffer__pickle_item(graph->pickle, &link) : 0;
    }
    return node != NULL ? node->count : 0;
}

coffer__value coffer__graph_callable(const coffer__graph *graph, coffer__value call)
{
    coffer__value parts[1] = { 0 };
    if (graph_is(graph, call, COFFER__VALUE_CALL)) {
        coffer__graph_items(graph, call, parts, 1);
    }
    return parts[0];
}

coffer__value coffer__graph_arguments(const coffer__graph *graph, coffer__value call)
{
    coffer__value parts[2] = { 0 };
    if (graph_is(graph, call, COFFER__VALUE_CALL)) {
        coffer__graph_items(graph, call, parts, 2);
    }
    return parts[1];
}

coffer__known coffer__graph_known_call(const coffer__graph *graph, coffer__value call)
{
    return coffer__graph_known(graph, coffer__graph_callable(graph, call));
}

bool coffer__graph_is_text(const coffer__graph *graph, coffer__value value, const char *text)
{
    size_t len = 0;
    if (!graph_is(graph, value, COFFER__VALUE_TEXT) && !graph_is(graph, value, COFFER__VALUE_BYTES)) {
        return false;
    }
    const char *bytes = coffer__pickle_bytes_of(graph->pickle, value, &len);
    return bytes != NULL && coffer__text_is(bytes, len, text);
}

/* A size, stride, offset or key. True and False are integers in Python, but no program writes them for one. */
bool coffer__graph_u64(const coffer__graph *graph, coffer__value value, uint64_t *number)
{
    const coffer__node *node = coffer__pickle_node(graph->pickle, value);
    if (node == NULL || node->kind != COFFER__VALUE_INT || node->as.integer < 0) {
        return false;
    }
    *number = (uint64_t)node->as.integer;
    return true;
}

/* The value of a key among the first pairs of a dict; 0: none. */
static coffer__value graph_state_get(const coffer__graph *graph, coffer__value dict, const char *key)
{
    const coffer__node *node = coffer__pickle_node(graph->pickle, dict);
    if (node == NULL || node->kind != COFFER__VALUE_DICT) {
        return 0;
    }
    uint32_t link = node->first;
    for (size_t pair = 0; link != 0 && pair < GRAPH_STATE_PAIRS; pair++) {
        const coffer__value name = coffer__pickle_item(graph->pickle, &link);
        const coffer__value value = link != 0 ? coffer__pickle_item(graph->pickle, &link) : 0;
        if (coffer__graph_is_text(graph, name, key)) {
            return value;
        }
    }
    return 0;
}

/* The dict of attributes that an object was given: its state, or the first of a pair of them (the second is for
   __slots__). */
static coffer__value graph_state(const coffer__graph *graph, coffer__value object)
{
    coffer__value state = coffer__node_state(coffer__pickle_node(graph->pickle, object));
    if (graph_is(graph, state, COFFER__VALUE_TUPLE)) {
        coffer__value parts[1] = { 0 };
        coffer__graph_items(graph, state, parts, 1);
        /* The second dict, of __slots__, is of classes that torch's modules are not. */
        state = parts[0];
    }
    return state;
}

/* ---- roles --------------------------------------------------------------------------------------------------------- */

/* An object of any class: what torch.nn.Module keeps in its __dict__ tells a module, since the classes of
   models are the user's own and in no table. */
static bool graph_is_module(const coffer__graph *graph, coffer__value call)
{
    const coffer__value state = graph_state(graph, call);
    return graph_state_get(graph, state, "_parameters") != 0 && graph_state_get(graph, state, "_buffers") != 0 &&
           graph_state_get(graph, state, "_modules") != 0;
}

/* A class of TorchScript: code that the archive itself has. Its attributes are its state. */
bool coffer__graph_is_script(const coffer__graph *graph, coffer__value callable)
{
    static const char prefix[] = "__torch__";
    if (!graph_is(graph, callable, COFFER__VALUE_GLOBAL)) {
        return false;
    }
    const char *module = coffer__pickle_module(graph->pickle, callable);
    const size_t len = coffer__text_len(module);
    return len >= sizeof prefix - 1 && memcmp(module, prefix, sizeof prefix - 1) == 0 &&
           (module[sizeof prefix - 1] == '.' || module[sizeof prefix - 1] == '\0');
}

static bool graph_is_array(const coffer__graph *graph, coffer__value value)
{
    const coffer__meaning meaning = coffer__graph_known_call(graph, value).meaning;
    return meaning == COFFER__MEANS_RECONSTRUCT || meaning == COFFER__MEANS_FROM_BUFFER;
}

/* All of the call is compared, since eval of anything else would run it. The array is found in the arguments,
   so nothing is evaluated here either. */
coffer__value coffer__graph_evaluated(const coffer__graph *graph, coffer__value call)
{
    coffer__value arguments[2] = { 0 };
    coffer__value pair[2] = { 0 };
    const size_t count = coffer__graph_items(graph, coffer__graph_arguments(graph, call), arguments, 2);
    /*
     * The text is exactly the name of the one variable that is given: there is nothing to compute, and a loader
     * would get the array itself.
     */
    const bool exact = count == 2 && coffer__graph_is_text(graph, arguments[0], "data") &&
                       graph_is(graph, arguments[1], COFFER__VALUE_DICT) &&
                       coffer__graph_items(graph, arguments[1], pair, 2) == 2 &&
                       coffer__graph_is_text(graph, pair[0], "data") && graph_is_array(graph, pair[1]);
    return exact ? pair[1] : 0;
}

/* Paddle writes a tensor as a call of tuple with ((name, array),). */
static coffer__value graph_named_array(const coffer__graph *graph, coffer__value call)
{
    coffer__value argument[1] = { 0 };
    coffer__value parts[2] = { 0 };
    coffer__graph_items(graph, coffer__graph_arguments(graph, call), argument, 1);
    if (!graph_is(graph, argument[0], COFFER__VALUE_TUPLE) || coffer__graph_items(graph, argument[0], parts, 2) != 2 ||
        !graph_is(graph, parts[0], COFFER__VALUE_TEXT)) {
        return 0;
    }
    return graph_is_array(graph, parts[1]) ? parts[1] : 0;
}

/* The state of an array of NumPy is (version, shape, dtype, is_fortran, bytes), in the oldest without the version. An array
   of objects has a list in the place of the bytes; 0 for all others, and for objects that have no parts. */
static coffer__value graph_objects(const coffer__graph *graph, coffer__value call, coffer__value *shape)
{
    coffer__value state[5] = { 0 };
    coffer__value first[1] = { 0 };
    if (coffer__graph_known_call(graph, call).meaning != COFFER__MEANS_RECONSTRUCT) {
        return 0;
    }
    const size_t count =
        coffer__graph_items(graph, coffer__node_state(coffer__pickle_node(graph->pickle, call)), state, 5);
    const coffer__value list = count == 5 ? state[4] : count == 4 ? state[3] : 0;
    *shape = state[count == 5 ? 1 : 0];
    coffer__graph_items(graph, list, first, 1);
    const bool parts = graph_is(graph, first[0], COFFER__VALUE_CALL) || graph_is(graph, first[0], COFFER__VALUE_DICT) ||
                       graph_is(graph, first[0], COFFER__VALUE_LIST) || graph_is(graph, first[0], COFFER__VALUE_TUPLE);
    return parts && graph_is(graph, list, COFFER__VALUE_LIST) ? list : 0;
}

coffer__value coffer__graph_top(const coffer__graph *graph)
{
    const coffer__value root = coffer__pickle_root(graph->pickle);
    coffer__value shape = 0;
    coffer__value only[1] = { 0 };
    const coffer__value list = graph_objects(graph, root, &shape);
    if (list == 0 || !graph_is(graph, shape, COFFER__VALUE_TUPLE) || coffer__graph_items(graph, shape, only, 1) != 0) {
        return root;
    }
    return coffer__graph_items(graph, list, only, 1) == 1 ? only[0] : root;
}

/* By the numbers of the calls, in which order they were found. */
const coffer__within *coffer__graph_within(const coffer__graph *graph, coffer__value call)
{
    size_t low = 0;
    size_t high = graph->within_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (graph->within[middle].call < call) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < graph->within_count && graph->within[low].call == call ? &graph->within[low] : NULL;
}

/* A line of STRING has quotes around the bytes. */
coffer__import_plan_piece coffer__graph_piece(const coffer__graph *graph, coffer__value bytes, bool latin1)
{
    const coffer__node *node = coffer__pickle_node(graph->pickle, bytes);
    coffer__import_plan_piece piece = { .file = graph->file, .offset = graph->at };
    if (node == NULL) {
        return piece;
    }
    const uint64_t quotes = node->as.bytes.escaped && !latin1 && node->as.bytes.size >= 2 ? 1 : 0;
    piece.coding = quotes != 0              ? COFFER__CODING_QUOTED
                   : node->as.bytes.escaped ? COFFER__CODING_ESCAPED
                   : latin1                 ? COFFER__CODING_LATIN1
                                            : COFFER__CODING_STORED;
    piece.offset += node->as.bytes.at + quotes;
    piece.stored_size = node->as.bytes.size - 2 * quotes;
    return piece;
}

/* A container of TorchScript with its type, restore_type_tag(container, "List[Tensor]"): its entries are those
   of the container. */
static coffer__pickle_class graph_tagged_role(const coffer__graph *graph, coffer__value call)
{
    coffer__value argument[1] = { 0 };
    /* The container is the first argument; the second, the name of its type, says nothing more. */
    coffer__graph_items(graph, coffer__graph_arguments(graph, call), argument, 1);
    if (graph_is(graph, argument[0], COFFER__VALUE_DICT)) {
        return COFFER__CLASS_MAPPING;
    }
    return graph_is(graph, argument[0], COFFER__VALUE_LIST) ? COFFER__CLASS_SEQUENCE : COFFER__CLASS_OTHER;
}

/* By the name that is called, as long as it is in the table. Only for the others, the state is looked into: an
   object that looks like a module is one, and a class of the archive's own code is its attributes. */
static coffer__pickle_class graph_call_role(const coffer__graph *graph, coffer__value call)
{
    const coffer__known known = coffer__graph_known_call(graph, call);
    coffer__value shape = 0;
    if (graph_objects(graph, call, &shape) != 0) {
        return COFFER__CLASS_SEQUENCE;
    }
    switch (known.meaning) {
    case COFFER__MEANS_MAPPING:
        return COFFER__CLASS_MAPPING;
    case COFFER__MEANS_SEQUENCE:
        return graph_named_array(graph, call) != 0 ? COFFER__CLASS_TENSOR : COFFER__CLASS_SEQUENCE;
    case COFFER__MEANS_TAG:
        return graph_tagged_role(graph, call);
    case COFFER__MEANS_REBUILD_1:
    case COFFER__MEANS_REBUILD_2:
    case COFFER__MEANS_REBUILD_3:
    case COFFER__MEANS_WRAP:
    case COFFER__MEANS_FROM_TYPE:
    case COFFER__MEANS_RECONSTRUCT:
    case COFFER__MEANS_FROM_BUFFER:
        return COFFER__CLASS_TENSOR;
    /* One exact form is an array; every other eval is what it looks like. */
    case COFFER__MEANS_EVAL:
        return coffer__graph_evaluated(graph, call) != 0 ? COFFER__CLASS_TENSOR : COFFER__CLASS_OPAQUE;
    case COFFER__MEANS_LOAD:
        return coffer__graph_within(graph, call) != NULL ? COFFER__CLASS_STORAGE : COFFER__CLASS_OPAQUE;
    case COFFER__MEANS_SCALAR:
    case COFFER__MEANS_NUMBER:
        return COFFER__CLASS_NUMBER;
    default:
        break;
    }
    /* A name of the table that stands for no tensor or container: a dtype, a device, a set. */
    if (known.judgement == COFFER__GLOBAL_INTERPRETED) {
        return COFFER__CLASS_OTHER;
    }
    if (known.judgement == COFFER__GLOBAL_LACKING) {
        return COFFER__CLASS_LACKING;
    }
    if (graph_is_module(graph, call)) {
        return COFFER__CLASS_MODULE;
    }
    return coffer__graph_is_script(graph, coffer__graph_callable(graph, call)) ? COFFER__CLASS_MAPPING
                                                                               : COFFER__CLASS_OPAQUE;
}

bool coffer__graph_number(const coffer__graph *graph, coffer__value persistent, uint64_t *number)
{
    coffer__value id[1] = { 0 };
    coffer__graph_items(graph, persistent, id, 1);
    return coffer__graph_u64(graph, id[0], number);
}

/* Before 1.6 a class of modules is a persistent id, which has its source besides: ("module", class, file, source). Where ids
   are numbers, those of tensors are tensors, and all others classes or storages by themselves. */
static coffer__pickle_class graph_persistent_role(const coffer__graph *graph, coffer__value value)
{
    coffer__value id[1] = { 0 };
    coffer__value kind[1] = { 0 };
    uint64_t number = 0;
    /* Ids are tuples then, ("storage", …) or ("module", …), and the first part tells which. */
    if (graph->numbered == NULL) {
        coffer__graph_items(graph, value, id, 1);
        coffer__graph_items(graph, id[0], kind, 1);
        return coffer__graph_is_text(graph, kind[0], "module") ? COFFER__CLASS_OTHER : COFFER__CLASS_STORAGE;
    }
    return coffer__graph_number(graph, value, &number) && graph->numbered->has(graph->numbered->ctx, number)
               ? COFFER__CLASS_TENSOR
               : COFFER__CLASS_OTHER;
}

/* The role of a node by its kind. It does not depend on the role of any other node, so finding it needs no
   recursion. */
static coffer__pickle_class graph_find_role(const coffer__graph *graph, coffer__value value)
{
    switch (coffer__pickle_node(graph->pickle, value)->kind) {
    case COFFER__VALUE_BOOL:
    case COFFER__VALUE_INT:
    case COFFER__VALUE_BIG:
    case COFFER__VALUE_FLOAT:
        return COFFER__CLASS_NUMBER;
    case COFFER__VALUE_TUPLE:
    case COFFER__VALUE_LIST:
        return COFFER__CLASS_SEQUENCE;
    case COFFER__VALUE_DICT:
        return COFFER__CLASS_MAPPING;
    case COFFER__VALUE_PERSISTENT:
        return graph_persistent_role(graph, value);
    case COFFER__VALUE_CALL:
        return graph_call_role(graph, value);
    case COFFER__VALUE_GLOBAL:
        return coffer__graph_known(graph, value).judgement == COFFER__GLOBAL_INTERPRETED ? COFFER__CLASS_OTHER
                                                                                         : COFFER__CLASS_OPAQUE;
    default:
        return COFFER__CLASS_OTHER;
    }
}

/* Asked of the same node many times by walks; the first answer stays. */
coffer__pickle_class coffer__graph_classify(coffer__graph *graph, coffer__value value)
{
    /*
     * Values beyond the marks were made after the graph was prepared, which no reader does; the answer is
     * harmless in any case.
     */
    if (value == 0 || value >= graph->marks) {
        return COFFER__CLASS_OTHER;
    }
    if (graph->roles[value] == COFFER__CLASS_UNASKED) {
        graph->roles[value] = (uint8_t)graph_find_role(graph, value);
    }
    return (coffer__pickle_class)graph->roles[value];
}

/* ---- keys that come twice ------------------------------------------------------------------------------------------ */

/* The pairs of one dict: the link of each, and its key when that is a text. */
typedef struct graph_pairs {
    struct {
        const char *key;
        size_t key_len;
        uint32_t link;
    } * items;
    uint32_t *order;
    size_t capacity;
} graph_pairs;

/* By the keys alone; coffer__sort keeps equal ones in the order of their numbers, which is that of the dict. */
static bool graph_pair_before(const void *ctx, uint32_t a, uint32_t b)
{
    const graph_pairs *pairs = ctx;
    return coffer__compare_names(pairs->items[a].key, pairs->items[a].key_len, pairs->items[b].key,
                                 pairs->items[b].key_len) < 0;
}

/* One space for the largest dict serves all of them, one after another. */
static coffer_status graph_pairs_reserve(const coffer__graph *graph, graph_pairs *pairs, coffer_error *err)
{
    for (coffer__value value = 1; value < graph->marks; value++) {
        const coffer__node *node = coffer__pickle_node(graph->pickle, value);
        /*
         * Pairs of the largest dict, not of all: dicts are looked at one after another, and a checkpoint has one
         * large dict and thousands of small ones.
         */
        if (node->kind == COFFER__VALUE_DICT && node->count / 2 > pairs->capacity) {
            pairs->capacity = node->count / 2;
        }
    }
    pairs->items = coffer__alloc_array(graph->allocator, pairs->capacity, sizeof *pairs->items, err);
    pairs->order = coffer__alloc_array(graph->allocator, pairs->capacity, sizeof *pairs->order, err);
    return pairs->items != NULL && pairs->order != NULL ? COFFER_OK : COFFER_ERR_MEMORY;
}

/* Remembers a pair by its link, which is one number and belongs to one dict only. */
static coffer_status graph_shadow(coffer__graph *graph, uint32_t link, coffer_error *err)
{
    uint32_t *grown = coffer__grow_array(graph->allocator, graph->shadowed, graph->shadowed_count,
                                         &graph->shadowed_capacity, sizeof *grown, err);
    if (grown == NULL) {
        return COFFER_ERR_MEMORY;
    }
    graph->shadowed = grown;
    graph->shadowed[graph->shadowed_count++] = link;
    return COFFER_OK;
}

/*
 * Of pairs with the same text as key, all but the last are shadowed: Python keeps the last value. Found by
 * sorting and not by a table of hashes, whose slots a stranger could make collide. Keys that are no texts, or
 * too long to be kept, are left alone: they cannot be a tensor's name.
 */
static coffer_status graph_shadow_in(coffer__graph *graph, graph_pairs *pairs, coffer__value dict, coffer_error *err)
{
    size_t count = 0;
    for (uint32_t link = coffer__pickle_node(graph->pickle, dict)->first; link != 0;) {
        pairs->items[count].link = link;
        const coffer__value key = coffer__pickle_item(graph->pickle, &link);
        (void)coffer__pickle_item(graph->pickle, &link);
        /* Only texts, and only those that were kept. Integers that come twice as keys are of no checkpoint. */
        pairs->items[count].key = graph_is(graph, key, COFFER__VALUE_TEXT)
                                      ? coffer__pickle_bytes_of(graph->pickle, key, &pairs->items[count].key_len)
                                      : NULL;
        if (pairs->items[count].key != NULL) {
            pairs->order[count] = (uint32_t)count;
            count++;
        }
    }
    coffer__sort(pairs->order, count, graph_pair_before, pairs);
    for (size_t i = 1; i < count; i++) {
        /* Equal keys stand in the order of the dict. */
        if (graph_pair_before(pairs, pairs->order[i - 1], pairs->order[i])) {
            continue;
        }
        const uint32_t earlier = pairs->order[i - 1];
        coffer_status status = graph_shadow(graph, pairs->items[earlier].link, err);
        if (status == COFFER_OK) {
            status = coffer__import_plan_put_finding(graph->plan, COFFER_WEIGHT_NOTE, graph->file,
                                                     coffer__graph_place(graph, dict), graph->member,
                                                     "a dict has the key %q twice: the last one counts",
                                                     pairs->items[earlier].key, pairs->items[earlier].key_len, err);
        }
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

static bool graph_link_before(const void *ctx, uint32_t a, uint32_t b)
{
    (void)ctx;
    return a < b;
}

/* Before any walk, for all dicts: a walk may come by the same dict again and again. The sum of the sorts is
   bounded by the number of links. */
static coffer_status graph_find_shadowed(coffer__graph *graph, coffer_error *err)
{
    graph_pairs pairs = { 0 };
    coffer_status status = graph_pairs_reserve(graph, &pairs, err);
    for (coffer__value value = 1; status == COFFER_OK && value < graph->marks; value++) {
        const coffer__node *node = coffer__pickle_node(graph->pickle, value);
        if (node->kind == COFFER__VALUE_DICT && node->count >= 4) {
            status = graph_shadow_in(graph, &pairs, value, err);
        }
    }
    coffer__sort(graph->shadowed, graph->shadowed_count, graph_link_before, NULL);
    coffer__free_array(graph->allocator, pairs.items, pairs.capacity, sizeof *pairs.items);
    coffer__free_array(graph->allocator, pairs.order, pairs.capacity, sizeof *pairs.order);
    return status;
}

/* The links of all dicts are in one list, sorted, since they are few: usually there are none. */
static bool graph_is_shadowed(const coffer__graph *graph, uint32_t link)
{
    size_t low = 0;
    size_t high = graph->shadowed_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (graph->shadowed[middle] < link) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < graph->shadowed_count && graph->shadowed[low] == link;
}

/* A place for each node, the first of which stays empty since values begin at 1. Takes six bytes for each
   node, which the budget of the machine bounds. */
coffer_status coffer__graph_prepare(coffer__graph *graph, coffer_error *err)
{
    graph->marks = coffer__pickle_count(graph->pickle) + 1;
    graph->roles = coffer__alloc_array(graph->allocator, graph->marks, sizeof *graph->roles, err);
    graph->reached = coffer__alloc_array(graph->allocator, graph->marks, sizeof *graph->reached, err);
    graph->held = coffer__alloc_array(graph->allocator, graph->marks, sizeof *graph->held, err);
    if (graph->roles == NULL || graph->reached == NULL || graph->held == NULL) {
        return COFFER_ERR_MEMORY;
    }
    return graph_find_shadowed(graph, err);
}

/* Also after coffer__graph_prepare failed or was never called: then the lists are NULL. */
void coffer__graph_free(coffer__graph *graph)
{
    coffer__free_array(graph->allocator, graph->roles, graph->marks, sizeof *graph->roles);
    coffer__free_array(graph->allocator, graph->reached, graph->marks, sizeof *graph->reached);
    coffer__free_array(graph->allocator, graph->held, graph->marks, sizeof *graph->held);
    coffer__free(graph->allocator, graph->shadowed, graph->shadowed_capacity * sizeof *graph->shadowed);
    coffer__free(graph->allocator, graph->within, graph->within_capacity * sizeof *graph->within);
}

/* ---- entries ------------------------------------------------------------------------------------------------------- */

/* A container that is not there adds nothing. No kind of node has more parts than there is space for. */
static void graph_add_part(coffer__entries *entries, coffer__value container, bool pairs, bool couples, bool persistent)
{
    if (container != 0 && entries->count < COFFER__ENTRIES_PARTS) {
        entries->parts[entries->count].container = container;
        entries->parts[entries->count].pairs = pairs;
        entries->parts[entries->count].couples = couples;
        entries->parts[entries->count].persistent = persistent;
        entries->count++;
    }
}

/* The pairs of a dict, or of a call of OrderedDict and its kin: those of its first argument, which is a dict or, from
   Python 2, a list of lists of two, and those that were set afterwards. */
static void graph_add_mapping(coffer__entries *entries, const coffer__graph *graph, coffer__value value,
                              bool persistent)
{
    const coffer__node *node = coffer__pickle_node(graph->pickle, value);
    if (node == NULL || (node->kind != COFFER__VALUE_DICT && node->kind != COFFER__VALUE_CALL)) {
        return;
    }
    if (node->kind == COFFER__VALUE_DICT) {
        graph_add_part(entries, value, true, false, persistent);
        return;
    }
    /* Pairs that were given to the constructor come before those that were set afterwards, as in Python. */
    coffer__value argument[1] = { 0 };
    coffer__graph_items(graph, coffer__graph_arguments(graph, value), argument, 1);
    if (graph_is(graph, argument[0], COFFER__VALUE_DICT)) {
        graph_add_part(entries, argument[0], true, false, persistent);
    } else if (graph_is(graph, argument[0], COFFER__VALUE_LIST)) {
        graph_add_part(entries, argument[0], false, true, persistent);
    }
    const coffer__value attributes = coffer__node_attributes(node);
    if (graph_is(graph, attributes, COFFER__VALUE_DICT)) {
        graph_add_part(entries, attributes, true, false, persistent);
    }
}

/* A list or tuple itself; of a call, as of list or build_tensorlist, its first argument and what was appended
   later. */
static void graph_add_sequence(coffer__entries *entries, const coffer__graph *graph, coffer__value value)
{
    const coffer__node *node = coffer__pickle_node(graph->pickle, value);
    coffer__value shape = 0;
    const coffer__value objects = graph_objects(graph, value, &shape);
    if (node->kind != COFFER__VALUE_CALL || objects != 0) {
        graph_add_part(entries, objects != 0 ? objects : value, false, false, false);
        return;
    }
    coffer__value argument[1] = { 0 };
    coffer__graph_items(graph, coffer__graph_arguments(graph, value), argument, 1);
    if (graph_is(graph, argument[0], COFFER__VALUE_LIST) || graph_is(graph, argument[0], COFFER__VALUE_TUPLE)) {
        graph_add_part(entries, argument[0], false, false, false);
    }
    graph_add_part(entries, coffer__node_attributes(node), false, false, false);
}

/* What state_dict() would have: parameters, persistent buffers, modules. */
static void graph_add_module(coffer__entries *entries, const coffer__graph *graph, coffer__value value)
{
    const coffer__value state = graph_state(graph, value);
    /* The set of names is a call of set with a list before protocol 4, and a set from then on. */
    /*
     * The order is that of torch.nn.Module._save_to_state_dict: its own parameters, its own buffers, then what
     * is below it. Names come out in the order in which torch writes them.
     */
    entries->without = graph_state_get(graph, state, "_non_persistent_buffers_set");
    if (graph_is(graph, entries->without, COFFER__VALUE_CALL)) {
        coffer__value argument[1] = { 0 };
        coffer__graph_items(graph, coffer__graph_arguments(graph, entries->without), argument, 1);
        entries->without = argument[0];
    }
    graph_add_mapping(entries, graph, graph_state_get(graph, state, "_parameters"), false);
    graph_add_mapping(entries, graph, graph_state_get(graph, state, "_buffers"), true);
    graph_add_mapping(entries, graph, graph_state_get(graph, state, "_modules"), false);
}

/* Only prepares: nothing is copied, and the state of the walk over entries is a few numbers, so walks can be
   nested as deep as their stack of frames is. */
void coffer__entries_begin(coffer__entries *entries, coffer__graph *graph, coffer__value value)
{
    memset(entries, 0, sizeof *entries);
    switch (coffer__graph_classify(graph, value)) {
    case COFFER__CLASS_MAPPING:
        if (coffer__graph_is_script(graph, coffer__graph_callable(graph, value))) {
            graph_add_mapping(entries, graph, graph_state(graph, value), false);
        } else {
            graph_add_mapping(entries, graph, value, false);
        }
        break;
    case COFFER__CLASS_SEQUENCE:
        graph_add_sequence(entries, graph, value);
        break;
    case COFFER__CLASS_MODULE:
        graph_add_module(entries, graph, value);
        break;
    default:
        break;
    }
}

/* Whether a buffer's name is in the set of those that are not persistent. The set is searched as it is; one that no
   module has is cut, so that it cannot cost more than it should. */
static bool graph_is_without(const coffer__graph *graph, coffer__value set, coffer__value key)
{
    size_t len = 0;
    const char *text = coffer__pickle_bytes_of(graph->pickle, key, &len);
    const coffer__node *node = coffer__pickle_node(graph->pickle, set);
    if (text == NULL || node == NULL) {
        return false;
    }
    /* Of a list as of a set the items are links, so both are searched alike. */
    uint32_t link = node->first;
    for (size_t i = 0; link != 0 && i < GRAPH_MAX_WITHOUT; i++) {
        if (coffer__graph_is_text(graph, coffer__pickle_item(graph->pickle, &link), text)) {
            return true;
        }
    }
    return false;
}

/* The next entry of the part that is being read; false at its end. Sets value to 0 for what is to be passed over. */
static bool graph_part_next(coffer__entries *entries, coffer__graph *graph, coffer__graph_entry *entry)
{
    const bool pairs = entries->parts[entries->at].pairs;
    const uint32_t link = entries->link;
    if (link == 0) {
        return false;
    }
    entry->key = 0;
    entry->index = entries->index++;
    entry->value = coffer__pickle_item(graph->pickle, &entries->link);
    /* An item that is no couple has no value, and is passed over: value 0 is how this is said. */
    /* OrderedDict([[key, value], …]), as Python 2 writes one: each item is a list of two. */
    if (entries->parts[entries->at].couples) {
        coffer__value couple[2] = { 0 };
        coffer__graph_items(graph, entry->value, couple, 2);
        entry->key = couple[0];
        entry->value = couple[0] != 0 ? couple[1] : 0;
    } else if (pairs) {
        /*
         * Key and value are two links. A dict has an even number of them, and what was shadowed is known by the
         * link of its key.
         */
        entry->key = entry->value;
        entry->value = entries->link != 0 ? coffer__pickle_item(graph->pickle, &entries->link) : 0;
        if (graph->shadowed_count > 0 && graph_is_shadowed(graph, link)) {
            entry->value = 0;
        }
    }
    if (entries->parts[entries->at].persistent && graph_is_without(graph, entries->without, entry->key)) {
        entry->value = 0;
    }
    return true;
}

/* One part after another; inside a part the link is where to go on. */
bool coffer__entries_next(coffer__entries *entries, coffer__graph *graph, coffer__graph_entry *entry)
{
    while (entries->at < entries->count) {
        if (!entries->begun) {
            const coffer__node *node = coffer__pickle_node(graph->pickle, entries->parts[entries->at].container);
            entries->link = node->first;
            entries->begun = true;
        }
        while (graph_part_next(entries, graph, entry)) {
            if (entry->value != 0) {
                return true;
            }
        }
        entries->at++;
        entries->begun = false;
    }
    return false;
}

/* ---- storages ------------------------------------------------------------------------------------------------------ */

/* In the order in which they come, which torch_stream.c relies on; finding them goes by `order`. */
coffer_status coffer__stores_add(coffer__stores *stores, const coffer__stored *item, coffer_error *err)
{
    coffer__stored *grown =
        coffer__grow_array(stores->allocator, stores->items, stores->count, &stores->capacity, sizeof *grown, err);
    if (grown == NULL) {
        return COFFER_ERR_MEMORY;
    }
    stores->items = grown;
    stores->items[stores->count++] = *item;
    return COFFER_OK;
}

/* By the bytes of the keys, which are texts and not numbers: "10" comes before "9". */
static bool stores_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer__stores *stores = ctx;
    return coffer__compare_names(stores->items[a].key, stores->items[a].key_len, stores->items[b].key,
                                 stores->items[b].key_len) < 0;
}

coffer_status coffer__stores_seal(coffer__stores *stores, coffer_error *err)
{
    stores->order = coffer__alloc_array(stores->allocator, stores->count, sizeof *stores->order, err);
    if (stores->order == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < stores->count; i++) {
        stores->order[i] = (uint32_t)i;
    }
    coffer__sort(stores->order, stores->count, stores_before, stores);
    /* Two storages of one key: a tensor could be in either. */
    /* Neighbours in the order of their keys. */
    for (size_t i = 1; i < stores->count; i++) {
        if (!stores_before(stores, stores->order[i - 1], stores->order[i])) {
            const coffer__stored *twice = &stores->items[stores->order[i]];
            return coffer__fail(err, COFFER_ERR_DAMAGED, "storage %q comes twice", twice->key, twice->key_len);
        }
    }
    return COFFER_OK;
}

static int stores_compare_key(const void *ctx, size_t i, const void *wanted)
{
    const coffer__stores *stores = ctx;
    const coffer__stored *item = &stores->items[stores->order[i]];
    const coffer__name *key = wanted;
    return coffer__compare_names(item->key, item->key_len, key->text, key->len);
}

/* By its key, exactly: "0" and "00" are two. */
const coffer__stored *coffer__stores_find(const coffer__stores *stores, const char *key, size_t key_len)
{
    const coffer__name wanted = { key, key_len };
    size_t at = 0;
    return coffer__find_sorted(stores->count, stores_compare_key, stores, &wanted, &at)
               ? &stores->items[stores->order[at]]
               : NULL;
}

void coffer__stores_free(coffer__stores *stores)
{
    coffer__free_array(stores->allocator, stores->order, stores->count, sizeof *stores->order);
    coffer__free(stores->allocator, stores->items, stores->capacity * sizeof *stores->items);
}
