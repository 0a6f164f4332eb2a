/* SPDX-License-Identifier: Apache-2.0 */
/* Walking over a graph by names: see pickle_walk.h. */
#include "pickle_walk.h"

#include "alloc.h"
#include "error.h"
#include "text.h"

#include <string.h>

#define WALK_MAX_DEPTH 1000
#define WALK_MAX_PATH ((size_t)64 * 1024)
/* Steps for each node, and some more: shared parts of models are met a few times, what doubles at each level is not. */
#define WALK_STEPS_PER_NODE 4
#define WALK_STEPS_MORE ((uint64_t)1 << 20)

/* Indices and integers are written as people would; -1 keeps its sign, whose place in `digits` is before the
   number. */
bool coffer__graph_walk_key(const coffer__graph *graph, const coffer__graph_entry *entry, const char **text,
                            size_t *len, char digits[21])
{
    const coffer__node *key = coffer__pickle_node(graph->pickle, entry->key);
    *text = digits;
    /* An entry without a key is one of a sequence, and goes by its index. */
    if (key == NULL) {
        *len = coffer__write_u64(digits, entry->index);
        return true;
    }
    if (key->kind == COFFER__VALUE_INT) {
        const bool negative = key->as.integer < 0;
        const uint64_t magnitude = negative ? 0 - (uint64_t)key->as.integer : (uint64_t)key->as.integer;
        digits[0] = '-';
        *len = (negative ? 1 : 0) + coffer__write_u64(digits + (negative ? 1 : 0), magnitude);
        return true;
    }
    if (key->kind == COFFER__VALUE_TEXT || key->kind == COFFER__VALUE_BYTES) {
        /*
         * A str of Python 2 is bytes. Whether it is UTF-8 is asked where a row is put, so that the error can
         * name the tensor.
         */
        *text = coffer__pickle_bytes_of(graph->pickle, entry->key, len);
        return *text != NULL;
    }
    return false;
}

/* Puts a key after the path of the frame on top; a question mark for one that cannot be part of a name. */
static coffer_status walk_append(coffer__graph_walk *walk, const coffer__graph_entry *entry, coffer_error *err)
{
    char digits[21];
    const char *text = NULL;
    size_t len = 0;
    const coffer__graph_walk_frame *frame = &walk->frames[walk->depth - 1];
    const bool good = coffer__graph_walk_key(walk->graph, entry, &text, &len, digits);
    text = good ? text : "?";
    len = good ? len : 1;
    /* Bounded before anything is reserved: a depth of 1000 with keys of 64 KiB each would be 64 MB of one
       name. */
    /*
     * Sums of lengths that are bounded already: a path is at most WALK_MAX_PATH long, a key at most 64 KiB,
     * since longer texts are not kept.
     */
    const size_t needed = frame->path_len + 1 + len;
    if (needed > WALK_MAX_PATH) {
        return coffer__fail_at(err, COFFER_ERR_NAME, coffer__graph_place(walk->graph, frame->value),
                               "the names of a pickle are longer than %u bytes", (uint64_t)WALK_MAX_PATH);
    }
    if (needed > walk->path_capacity) {
        /* Doubled, so that a path that grows by one key at a time is not moved at each. */
        const size_t capacity = needed < 512 ? 1024 : needed * 2;
        char *grown = coffer__realloc(walk->graph->allocator, walk->path, walk->path_capacity, capacity);
        if (grown == NULL) {
            return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for walking over a pickle");
        }
        walk->path = grown;
        walk->path_capacity = capacity;
    }
    /*
     * The path of the frame stays as it is; what an earlier entry appended after it is overwritten. The first
     * frame has no name, nor has the state of an object at the top, so no dot comes after them.
     */
    size_t at = frame->path_len;
    if (frame->named) {
        walk->path[at++] = '.';
    }
    memcpy(walk->path + at, text, len);
    walk->path_len = at + len;
    walk->named = true;
    walk->bad_keys = frame->bad_keys + (good ? 0 : 1);
    return COFFER_OK;
}

/* A frame remembers how long the path to its node is, so going back up costs nothing: the path is cut to it. */
static coffer_status walk_enter(coffer__graph_walk *walk, coffer__value value, coffer_error *err)
{
    coffer__graph_walk_frame *grown = coffer__grow_array(walk->graph->allocator, walk->frames, walk->depth,
                                                         &walk->frame_capacity, sizeof *grown, err);
    if (grown == NULL) {
        return COFFER_ERR_MEMORY;
    }
    walk->frames = grown;
    /* The path was just made for this node by walk_append, or is empty at the start. */
    coffer__graph_walk_frame *frame = &walk->frames[walk->depth++];
    memset(frame, 0, sizeof *frame);
    frame->value = value;
    frame->path_len = walk->path_len;
    frame->named = walk->named;
    frame->bad_keys = walk->bad_keys;
    coffer__entries_begin(&frame->entries, walk->graph, value);
    walk->marks[value] = 1;
    return COFFER_OK;
}

coffer_status coffer__graph_walk_begin(coffer__graph_walk *walk, coffer__graph *graph, coffer__value start,
                                       bool everything, coffer_error *err)
{
    memset(walk, 0, sizeof *walk);
    walk->graph = graph;
    walk->everything = everything;
    /* A graph of n nodes can have 2^n paths. Real models share a few parts a few times, so in proportion to
       the nodes is enough for them. */
    walk->steps = (uint64_t)graph->marks * WALK_STEPS_PER_NODE + WALK_STEPS_MORE;
    walk->marks = coffer__alloc_array(graph->allocator, graph->marks, sizeof *walk->marks, err);
    if (walk->marks == NULL) {
        return COFFER_ERR_MEMORY;
    }
    return start != 0 ? walk_enter(walk, start, err) : COFFER_OK;
}

/* Needs walk->graph, which coffer__graph_walk_begin sets before anything can fail. */
void coffer__graph_walk_free(coffer__graph_walk *walk)
{
    const coffer_allocator *allocator = walk->graph->allocator;
    coffer__free_array(allocator, walk->marks, walk->graph->marks, sizeof *walk->marks);
    coffer__free(allocator, walk->frames, walk->frame_capacity * sizeof *walk->frames);
    coffer__free(allocator, walk->path, walk->path_capacity);
}

/* What is within a node besides its entries, for walks of everything: its items, what was set on it, its state. */
static coffer__value walk_inside(const coffer__graph_walk *walk, coffer__graph_walk_frame *frame)
{
    const coffer__node *node = coffer__pickle_node(walk->graph->pickle, frame->value);
    /* Parts 1 to 3 are items, what was set on it, and its state; each call goes on in the part where the last
       one stopped. */
    if (frame->part == 0) {
        frame->link = node->first;
        frame->part = 1;
    }
    if (frame->part == 1 && frame->link != 0) {
        return coffer__pickle_item(walk->graph->pickle, &frame->link);
    }
    frame->part = frame->part == 1 ? 2 : frame->part;
    if (frame->part == 2) {
        frame->part = 3;
        if (coffer__node_attributes(node) != 0) {
            return coffer__node_attributes(node);
        }
    }
    if (frame->part == 3) {
        frame->part = 4;
        return coffer__node_state(node);
    }
    return 0;
}

/* The next entry of the frame on top; false when there is none. */
static bool walk_entry(coffer__graph_walk *walk, coffer__graph_entry *entry, bool *named)
{
    coffer__graph_walk_frame *frame = &walk->frames[walk->depth - 1];
    *named = true;
    if (coffer__entries_next(&frame->entries, walk->graph, entry)) {
        return true;
    }
    *named = false;
    entry->value = walk->everything ? walk_inside(walk, frame) : 0;
    return entry->value != 0;
}

/* What is within a tensor is not looked for, nor a storage's id. Objects have contents only for walks of
   everything. */
static bool walk_goes_into(const coffer__graph_walk *walk, coffer__value value)
{
    /*
     * A walk by names follows what a state_dict would: containers and modules. A walk of everything looks for
     * tensors that no name leads to, and those may be within the state of any object.
     */
    switch (coffer__graph_classify(walk->graph, value)) {
    case COFFER__CLASS_MAPPING:
    case COFFER__CLASS_SEQUENCE:
    case COFFER__CLASS_MODULE:
        return true;
    case COFFER__CLASS_OPAQUE:
    case COFFER__CLASS_LACKING:
        return walk->everything;
    case COFFER__CLASS_OTHER:
        return walk->everything && coffer__pickle_node(walk->graph->pickle, value)->count > 0;
    default:
        return false;
    }
}

coffer_status coffer__graph_walk_next(coffer__graph_walk *walk, coffer__value *found, coffer_error *err)
{
    *found = 0;
    while (walk->depth > 0) {
        coffer__graph_entry entry;
        bool named = false;
        if (walk->steps-- == 0) {
            return coffer__fail(err, COFFER_ERR_MEMORY, "the parts of a pickle contain each other too many times");
        }
        /* When a node is left, a walk by names forgets that it was there, and may enter it again by another
           name; a walk of everything remembers it for good. */
        if (!walk_entry(walk, &entry, &named)) {
            walk->depth--;
            walk->marks[walk->frames[walk->depth].value] = walk->everything;
            continue;
        }
        /* It is on the path, and the graph has a cycle; or it was met before. */
        if (walk->marks[entry.value] != 0) {
            continue;
        }
        /* What has no key, as the arguments of a call, goes by the name of what it is in. */
        walk->path_len = walk->frames[walk->depth - 1].path_len;
        walk->named = walk->frames[walk->depth - 1].named;
        walk->bad_keys = walk->frames[walk->depth - 1].bad_keys;
        coffer_status status = named ? walk_append(walk, &entry, err) : COFFER_OK;
        const bool deep = walk->depth >= WALK_MAX_DEPTH;
        const bool enter = status == COFFER_OK && walk_goes_into(walk, entry.value);
        /* Of a model no part may be missing, so depth beyond the bound is an error. A walk of what is left
           over stops there; rows_of_lost finds what is below. */
        if (enter && deep && !walk->everything) {
            return coffer__fail_at(err, COFFER_ERR_PICKLE, coffer__graph_place(walk->graph, entry.value),
                                   "a pickle has more than %u containers within each other", (uint64_t)WALK_MAX_DEPTH);
        }
        if (enter && !deep) {
            status = walk_enter(walk, entry.value, err);
        }
        if (status != COFFER_OK) {
            return status;
        }
        /* An object is entered, and found, too. */
        const coffer__pickle_class role = coffer__graph_classify(walk->graph, entry.value);
        if (!enter || role == COFFER__CLASS_OPAQUE || role == COFFER__CLASS_LACKING) {
            walk->marks[entry.value] = walk->everything ? 1 : walk->marks[entry.value];
            *found = entry.value;
            return COFFER_OK;
        }
    }
    return COFFER_OK;
}
