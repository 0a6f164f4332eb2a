/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a loader would have done with a pickle: see pickle_scan.h.
 *
 * The pickle is run as for reading, and afterwards each node is judged by its names: imports and calls become
 * findings in the order of the stream, also those before a damage, since a loader does them before it meets it.
 * Bytes that begin as a pickle are put into a queue and looked at after the pickle that they are in, so pickles
 * within pickles need no recursion; the queue's length and the pickles of a range are bounded.
 */
#include "pickle_scan.h"

#include "alloc.h"
#include "error.h"
#include "pickle_classify.h"
#include "pickle_text.h"
#include "readers.h"
#include "scan_text.h"
#include "sort.h"
#include "tar.h"
#include "text.h"

#include <string.h>

/* Findings of one pickle; what is beyond is counted. */
#define SCAN_MAX_FINDINGS 10000
/* Pickles within each other, or one after another, in one range. */
#define SCAN_MAX_PICKLES 1000
/* Those of storages and arrays, of which none is in another. */
#define SCAN_MAX_PARTS ((size_t)1 << 20)
/* Those of torch.save in a file of the older kind: a number, a version, the system, the object, the keys of storages. */
#define SCAN_STREAM 5
/* A pickle has at least an opcode and its end. */
#define SCAN_MIN_PICKLE 2
/* Bytes that are written as text: of how many it is asked whether they are a pickle, and how many are decoded if they may be. */
#define SCAN_FIRST_LOOK ((uint64_t)4096)
#define SCAN_MAX_DECODED ((uint64_t)64 << 20)
#define SCAN_LONGEST_ESCAPE 10
/* What all of them that wait may take in memory; decoding takes three times their text. */
#define SCAN_MAX_HELD (4 * SCAN_MAX_DECODED)

/* Ranges that are still to be looked at: pickles within the bytes of others. */
typedef struct scan_queued {
    coffer__scan_range range;
    uint8_t *decoded; /* what its bytes are, if they are not in the file as they are; else NULL */
    size_t capacity;
    bool part; /* of the pickle that it is in, which says what it is */
} scan_queued;

typedef struct scan_queue {
    const coffer_allocator *allocator;
    scan_queued *items;
    size_t count;
    size_t capacity;
    size_t others;    /* items that are no parts */
    uint64_t decoded; /* bytes that the items hold */
    bool part;        /* what is being looked at is one */
} scan_queue;

/* One pickle. */
typedef struct scan_pickle {
    coffer__graph graph;
    size_t left; /* findings that may still be put */
    uint64_t more;
    bool script; /* classes of __torch__ are those of the archive */
    bool part;   /* it is within another pickle, as a part of that */
    const coffer__joblib *joblib;
} scan_pickle;

bool coffer__scan_is_pickle(const uint8_t *bytes, size_t size)
{
    return size >= 3 && bytes[0] == 0x80 && bytes[1] <= 5 && coffer__pickle_is_opcode(bytes[2]);
}

/* Nothing is asked for past the end that the stream was given. */
static coffer_status scan_input_read(void *ctx, uint64_t offset, void *bytes, size_t size, coffer_error *err)
{
    const coffer__input_files *input = ctx;
    return coffer__input_files_read(input, 0, input->size, offset, bytes, size, err);
}

coffer_status coffer__scan_would_import(const coffer__input_files *input, const coffer_allocator *allocator,
                                        bool *would, coffer_error *err)
{
    const coffer__pickle_bytes stream = { .ctx = (void *)input, .read = scan_input_read, .size = input->size };
    coffer__followed followed = { .complete = false };
    const coffer_status status = coffer__pickle_follow(&followed, &stream, 0, allocator, err);
    *would = followed.outcome != COFFER__FOLLOWED_TO_END;
    return status;
}

/* ---- findings ------------------------------------------------------------------------------------------------------ */

/* A finding of this pickle. Those beyond the bound are only counted, so that a pickle of a million calls makes
   a report that can be read. */
static coffer_status scan_put(scan_pickle *scan, coffer_weight weight, coffer__value value, const char *sentence,
                              const char *subject, coffer_error *err)
{
    coffer__graph *graph = &scan->graph;
    if (scan->left == 0) {
        scan->more++;
        return COFFER_OK;
    }
    scan->left--;
    return coffer__import_plan_put_finding(graph->plan, weight, graph->file, coffer__graph_place(graph, value),
                                           graph->member, sentence, subject, coffer__text_len(subject), err);
}

/* What is not known is not harmless: only names of the table may be. */
static coffer_weight scan_weight(coffer__judgement judgement)
{
    return judgement == COFFER__GLOBAL_DANGEROUS  ? COFFER_WEIGHT_DANGER
           : judgement == COFFER__GLOBAL_HARMLESS ? COFFER_WEIGHT_NOTE
                                                  : COFFER_WEIGHT_OPAQUE;
}

/* Names that readers interpret themselves, which makes what a loader would do with them harmless. */
static bool scan_is_understood(coffer__known known)
{
    return known.judgement == COFFER__GLOBAL_INTERPRETED || known.judgement == COFFER__GLOBAL_LACKING;
}

/* Whether a name is a class whose code the archive has. Everywhere else Python would import __torch__ as it would any
   other module, and somebody may have put one beside the file. */
static bool scan_is_script(const scan_pickle *scan, coffer__value value)
{
    return scan->script && coffer__graph_is_script(&scan->graph, value);
}

/* What is called. Instead of a class, torch's legacy format has an id of it, with the file that it was written in and its
   source: the loader gives the class. */
static coffer__value scan_callable(const coffer__graph *graph, coffer__value call)
{
    const coffer__value callable = coffer__graph_callable(graph, call);
    const coffer__node *node = coffer__pickle_node(graph->pickle, callable);
    coffer__value id[1] = { 0 };
    coffer__value parts[2] = { 0 };
    if (node == NULL || node->kind != COFFER__VALUE_PERSISTENT) {
        return callable;
    }
    coffer__graph_items(graph, callable, id, 1);
    const coffer__node *tuple = coffer__pickle_node(graph->pickle, id[0]);
    if (tuple == NULL || tuple->kind != COFFER__VALUE_TUPLE || coffer__graph_items(graph, id[0], parts, 2) < 2 ||
        !coffer__graph_is_text(graph, parts[0], "module")) {
        return callable;
    }
    return parts[1];
}

/* The bytes that torch.storage._load_from_bytes would load as a checkpoint of the older kind, which are looked at as one;
   0 where the call is another one, or within such a checkpoint. */
static coffer__value scan_loaded(const scan_pickle *scan, coffer__value call)
{
    const coffer__graph *graph = &scan->graph;
    coffer__value arguments[1] = { 0 };
    const coffer__node *node = coffer__pickle_node(graph->pickle, call);
    if (scan->part || node->call != COFFER__CALL_REDUCE || node->count != 2 ||
        coffer__graph_items(graph, coffer__graph_arguments(graph, call), arguments, 1) != 1) {
        return 0;
    }
    const coffer__node *bytes = coffer__pickle_node(graph->pickle, arguments[0]);
    return bytes != NULL && bytes->kind == COFFER__VALUE_BYTES ? arguments[0] : 0;
}

/* A call. What a name that is understood makes of its arguments is known; and the one form of eval that is data. The
   callable of a call may be the result of another. */
static coffer_status scan_call(scan_pickle *scan, coffer__value value, coffer_error *err)
{
    char text[COFFER__SCAN_TEXT];
    coffer__graph *graph = &scan->graph;
    const coffer__node *node = coffer__pickle_node(graph->pickle, value);
    const coffer__value callable = scan_callable(graph, value);
    const coffer__known known = coffer__graph_known(graph, callable);
    const coffer__node *called = coffer__pickle_node(graph->pickle, callable);
    const bool named =
        called != NULL && (called->kind == COFFER__VALUE_GLOBAL || called->kind == COFFER__VALUE_PERSISTENT);
    if (scan_is_understood(known) || scan_is_script(scan, callable) || coffer__joblib_has(scan->joblib, value) ||
        (known.meaning == COFFER__MEANS_LOAD && scan_loaded(scan, value) != 0) ||
        (known.meaning == COFFER__MEANS_EVAL && coffer__graph_evaluated(graph, value) != 0)) {
        return COFFER_OK;
    }
    const coffer_weight weight = named ? scan_weight(known.judgement) : COFFER_WEIGHT_DANGER;
    coffer__scan_render(graph, value, text);
    coffer_status status = scan_put(
        scan, weight, value,
        node->call == COFFER__CALL_NEW ? "a loader would make the object %p" : "a loader would call %p", text, err);
    const coffer__value state = coffer__node_state(node);
    if (status == COFFER_OK && state != 0 && weight != COFFER_WEIGHT_NOTE) {
        coffer__scan_render(graph, callable, text);
        status = scan_put(scan, weight, state, "a loader would set the state of an object of %p", text, err);
    }
    return status;
}

/* What is imported and then given a state or items is changed for the whole program of the loader: torch.Tensor with
   another __setstate__. No program writes that, so it does not matter what the name is. */
static coffer_status scan_changed(scan_pickle *scan, coffer__value value, coffer_error *err)
{
    char text[COFFER__SCAN_TEXT];
    const coffer__node *node = coffer__pickle_node(scan->graph.pickle, value);
    const coffer__value state = coffer__node_state(node);
    if (state == 0 && coffer__node_attributes(node) == 0) {
        return COFFER_OK;
    }
    coffer__scan_render(&scan->graph, value, text);
    return scan_put(scan, COFFER_WEIGHT_DANGER, state != 0 ? state : value,
                    "a loader would change %p itself, which it imports", text, err);
}

/* An import by itself. Names that are called are in the findings of the calls. */
static coffer_status scan_import(scan_pickle *scan, coffer__value value, coffer_error *err)
{
    char text[COFFER__SCAN_TEXT];
    const coffer__known known = coffer__graph_known(&scan->graph, value);
    if (scan_is_understood(known) || scan_is_script(scan, value)) {
        return COFFER_OK;
    }
    coffer__scan_render(&scan->graph, value, text);
    return scan_put(scan, scan_weight(known.judgement), value, "a loader would import %p", text, err);
}

/* Marks the names that are called. */
static void scan_mark_callables(coffer__graph *graph)
{
    for (coffer__value value = 1; value < graph->marks; value++) {
        const coffer__value callable = coffer__graph_callable(graph, value);
        if (callable != 0) {
            graph->reached[callable] = 1;
        }
    }
}

/* The class of joblib's arrays is harmless where its objects are made, and nowhere else: other calls could make some as
   well. */
static void scan_unmark_arrays(const scan_pickle *scan)
{
    const coffer__graph *graph = &scan->graph;
    const coffer__pickle *pickle = graph->pickle;
    for (coffer__value value = 1; scan->joblib->count > 0 && value < graph->marks; value++) {
        const coffer__node *node = coffer__pickle_node(pickle, value);
        const coffer__value given[] = { coffer__node_state(node), coffer__node_attributes(node) };
        const bool items = node->kind >= COFFER__VALUE_TUPLE && node->kind != COFFER__VALUE_GLOBAL;
        uint32_t link = items ? node->first : 0;
        if (node->kind == COFFER__VALUE_CALL && link != 0) {
            (void)coffer__pickle_item(pickle, &link);
        }
        while (link != 0) {
            const coffer__value item = coffer__pickle_item(pickle, &link);
            graph->reached[item] = coffer__joblib_is_class(pickle, item) ? 0 : graph->reached[item];
        }
        for (size_t i = 0; i < 2; i++) {
            graph->reached[given[i]] = coffer__joblib_is_class(pickle, given[i]) ? 0 : graph->reached[given[i]];
        }
    }
}

/* Nodes are in the order in which the stream made them, so the findings come in the order of its bytes. */
static coffer_status scan_nodes(scan_pickle *scan, coffer_error *err)
{
    coffer__graph *graph = &scan->graph;
    coffer_status status = COFFER_OK;
    /* A name that is called is told with its call and its arguments, and not a second time as an import. */
    scan_mark_callables(graph);
    scan_unmark_arrays(scan);
    for (coffer__value value = 1; value < graph->marks && status == COFFER_OK; value++) {
        const coffer__node *node = coffer__pickle_node(graph->pickle, value);
        if (node->kind == COFFER__VALUE_CALL) {
            status = scan_call(scan, value, err);
        } else if (node->kind == COFFER__VALUE_GLOBAL) {
            status = graph->reached[value] == 0 ? scan_import(scan, value, err) : COFFER_OK;
            status = status == COFFER_OK ? scan_changed(scan, value, err) : status;
        }
    }
    if (status == COFFER_OK && scan->more > 0) {
        char digits[21];
        /* One more finding than the bound, which says how many were not told: the report must not look complete. */
        digits[coffer__write_u64(digits, scan->more)] = '\0';
        scan->left = 1;
        status = scan_put(scan, COFFER_WEIGHT_DANGER, 0, "there are more findings in this pickle: %s", digits, err);
    }
    return status;
}

/* ---- pickles within bytes ------------------------------------------------------------------------------------------ */

/* Takes the decoded bytes over. What does not fit is dropped. That it is there has been told of what is no part, and is a
   danger by itself; of a part it is told here. */
static coffer_status scan_push(scan_queue *queue, scan_pickle *scan, const scan_queued *item, coffer_error *err)
{
    const bool full =
        (item->part ? queue->count - queue->others == SCAN_MAX_PARTS : queue->others == SCAN_MAX_PICKLES) ||
        item->capacity > SCAN_MAX_HELD - queue->decoded;
    scan_queued *items =
        full ? NULL
             : coffer__grow_array(queue->allocator, queue->items, queue->count, &queue->capacity, sizeof *items, err);
    if (items == NULL) {
        coffer__free(queue->allocator, item->decoded, item->capacity);
        return !full        ? COFFER_ERR_MEMORY
               : item->part ? scan_put(scan, COFFER_WEIGHT_DANGER, 0,
                                       "there are more pickles within this one than are looked at", "", err)
                            : COFFER_OK;
    }
    queue->items = items;
    queue->decoded += item->capacity;
    queue->others += !item->part;
    items[queue->count++] = *item;
    return COFFER_OK;
}

/* Bytes at the beginning of a range, which has so many. */
static coffer_status scan_read(const coffer__reader_file *file, const coffer__scan_range *range, void *bytes,
                               size_t size, coffer_error *err)
{
    if (range->bytes != NULL) {
        memcpy(bytes, range->bytes, size);
        return COFFER_OK;
    }
    return coffer__input_files_read(file->input, file->file, file->size, range->at, bytes, size, err);
}

/* The length without an escape that may be cut at the end: the longest has ten characters. */
static size_t scan_uncut(const char *text, size_t len)
{
    size_t at = len > SCAN_LONGEST_ESCAPE ? len - SCAN_LONGEST_ESCAPE : 0;
    while (at < len && text[at] != '\\') {
        at++;
    }
    while (at > 0 && at < len && text[at - 1] == '\\') {
        at--;
    }
    return at;
}

/* The bytes that stored text stands for, in place: it has space for three times its length. False: none. */
static bool scan_decode(const coffer__node *node, char *text, size_t *len)
{
    const bool cut = *len < node->as.bytes.size;
    size_t stored = *len;
    if (node->as.bytes.escaped) {
        stored = cut ? scan_uncut(text, stored) : stored;
        if (cut && node->python2 && stored > 0) {
            text[stored++] = text[0]; /* the quote that was cut off */
        }
        char *value = text + *len + 1;
        if (!(node->python2 ? coffer__pickle_unquote : coffer__pickle_unescape)(text, stored, value, len)) {
            return false;
        }
        memmove(text, value, *len);
    } else if (cut) {
        *len = coffer__utf8_valid_len(text, stored);
    }
    return !node->as.bytes.latin1 || coffer__pickle_to_latin1(text, len);
}

/* The bytes of a node, or the first `most` of their text, as an item of the queue. Its range has no size where they stand for
   nothing. */
static coffer_status scan_load(const coffer__reader_file *file, const coffer__scan_range *range,
                               const coffer__node *node, uint64_t most, scan_queued *item, coffer_error *err)
{
    const coffer_allocator *allocator = file->plan->allocator;
    size_t len = (size_t)(node->as.bytes.size < most ? node->as.bytes.size : most);
    item->range = (coffer__scan_range){ .member = range->member, .at = range->at + node->as.bytes.at };
    item->capacity = 3 * len + 1;
    item->decoded = coffer__alloc_array(allocator, item->capacity, 1, err);
    if (item->decoded == NULL) {
        return COFFER_ERR_MEMORY;
    }
    item->range.bytes = range->bytes != NULL ? range->bytes + node->as.bytes.at : NULL;
    const coffer_status status = scan_read(file, &item->range, item->decoded, len, err);
    if (status != COFFER_OK) {
        coffer__free(allocator, item->decoded, item->capacity);
        return status;
    }
    item->range.bytes = item->decoded;
    item->range.size = scan_decode(node, (char *)item->decoded, &len) ? len : 0;
    return COFFER_OK;
}

/* Bytes that are written as text, in a few of which most are seen to be no pickle: then all of them are decoded. */
static coffer_status scan_look_at_text(const coffer__reader_file *file, const coffer__scan_range *range,
                                       const coffer__node *node, scan_queued *item, coffer__followed *followed,
                                       coffer_error *err)
{
    const uint64_t parts[] = { SCAN_FIRST_LOOK, SCAN_MAX_DECODED };
    coffer_status status = COFFER_OK;
    for (size_t i = 0; status == COFFER_OK && i < 2; i++) {
        status = scan_load(file, range, node, parts[i], item, err);
        if (status != COFFER_OK) {
            return status;
        }
        const coffer__scan_range *inner = &item->range;
        status = coffer__pickle_file_follow(followed, file, inner->bytes, inner->at, inner->size, 0, err);
        const bool whole = node->as.bytes.size <= parts[i];
        if (status == COFFER_OK && (whole || (followed->outcome == COFFER__FOLLOWED_TO_END && !followed->ran_out))) {
            return COFFER_OK;
        }
        coffer__free(file->plan->allocator, item->decoded, item->capacity);
        *item = (scan_queued){ .decoded = NULL };
    }
    followed->outcome = COFFER__FOLLOWED_TO_LIMIT;
    return status;
}

/* Bytes in which loaders would import something if somebody gave them to one, or that are a pickle of data: it may have
   bytes of its own. */
static coffer_status scan_bytes_of(const coffer__reader_file *file, scan_pickle *scan, const coffer__scan_range *range,
                                   coffer__value value, scan_queue *queue, coffer_error *err)
{
    const coffer__node *node = coffer__pickle_node(scan->graph.pickle, value);
    scan_queued item = { .decoded = NULL };
    coffer__followed followed = { .complete = false };
    uint8_t head[3] = { 0 };
    coffer_status status = COFFER_OK;
    if (node->as.bytes.latin1 || node->as.bytes.escaped) {
        status = scan_look_at_text(file, range, node, &item, &followed, err);
    } else {
        /* Bytes that lie in the file as they are can be run from there; those of an inflated member from its memory. */
        item.range = (coffer__scan_range){ .member = range->member,
                                           .bytes = range->bytes != NULL ? range->bytes + node->as.bytes.at : NULL,
                                           .at = range->at + node->as.bytes.at,
                                           .size = node->as.bytes.size };
        status = coffer__pickle_file_follow(&followed, file, item.range.bytes, item.range.at, item.range.size, 0, err);
    }
    if (status == COFFER_OK && item.range.size >= sizeof head) {
        status = scan_read(file, &item.range, head, sizeof head, err);
    }
    /* Whoever loads bytes does it by the C unpickler, which takes no name without its line's end: "conv1.weight" is none. */
    const bool none = followed.outcome == COFFER__FOLLOWED_TO_END || followed.cut;
    const bool begins = followed.complete && coffer__scan_is_pickle(head, sizeof head);
    if (status != COFFER_OK || (none && !begins)) {
        coffer__free(queue->allocator, item.decoded, item.capacity);
        return status;
    }
    if (item.range.size == 0) {
        return scan_put(scan, COFFER_WEIGHT_OPAQUE, value, "bytes may be a pickle, which is too large to be followed",
                        "", err);
    }
    status = scan_put(scan, COFFER_WEIGHT_DANGER, value, "there is another pickle within bytes", "", err);
    if (status != COFFER_OK) {
        coffer__free(queue->allocator, item.decoded, item.capacity);
        return status;
    }
    return scan_push(queue, scan, &item, err);
}

/* Whether torch.load takes bytes for an archive, which is none of the older kind. */
static bool scan_is_archive(const uint8_t *head, size_t size)
{
    return (size >= 4 && memcmp(head, "PK\3\4", 4) == 0) || (size >= COFFER__TAR_BLOCK && coffer__tar_is_head(head));
}

/* Bytes that are loaded as a checkpoint of the older kind: its pickles belong there. What follows them is numbers, which
   nobody loads. */
static coffer_status scan_loaded_bytes(const coffer__reader_file *file, scan_pickle *scan,
                                       const coffer__scan_range *range, coffer__value value, scan_queue *queue,
                                       coffer_error *err)
{
    const coffer__node *node = coffer__pickle_node(scan->graph.pickle, value);
    uint8_t head[COFFER__TAR_BLOCK];
    scan_queued item = { .decoded = NULL };
    coffer_status status = COFFER_OK;
    if (node->as.bytes.latin1 || node->as.bytes.escaped) {
        if (node->as.bytes.size > SCAN_MAX_DECODED) {
            return scan_put(scan, COFFER_WEIGHT_OPAQUE, value, "bytes are too large to be looked at", "", err);
        }
        status = scan_load(file, range, node, SCAN_MAX_DECODED, &item, err);
    } else {
        item.range = (coffer__scan_range){ .member = range->member,
                                           .bytes = range->bytes != NULL ? range->bytes + node->as.bytes.at : NULL,
                                           .at = range->at + node->as.bytes.at,
                                           .size = node->as.bytes.size };
    }
    const size_t size = item.range.size < sizeof head ? (size_t)item.range.size : sizeof head;
    status = status == COFFER_OK ? scan_read(file, &item.range, head, size, err) : status;
    if (status == COFFER_OK && scan_is_archive(head, size)) {
        status =
            scan_put(scan, COFFER_WEIGHT_DANGER, value, "a loader would load an archive that is within bytes", "", err);
    }
    if (status != COFFER_OK) {
        coffer__free(queue->allocator, item.decoded, item.capacity);
        return status;
    }
    item.range.expected = SCAN_STREAM;
    item.range.more = true;
    item.part = true;
    return scan_push(queue, scan, &item, err);
}

/* Marks the bytes that calls would load. */
static void scan_mark_loaded(scan_pickle *scan)
{
    coffer__graph *graph = &scan->graph;
    memset(graph->reached, 0, graph->marks);
    for (coffer__value value = 1; value < graph->marks; value++) {
        const bool call = coffer__pickle_node(graph->pickle, value)->kind == COFFER__VALUE_CALL &&
                          coffer__graph_known_call(graph, value).meaning == COFFER__MEANS_LOAD;
        graph->reached[call ? scan_loaded(scan, value) : 0] = 1;
    }
}

/* Bytes, whatever is done with them. */
static coffer_status scan_bytes(const coffer__reader_file *file, scan_pickle *scan, const coffer__scan_range *range,
                                scan_queue *queue, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    scan_mark_loaded(scan);
    for (coffer__value value = 1; value < scan->graph.marks && status == COFFER_OK; value++) {
        const coffer__node *node = coffer__pickle_node(scan->graph.pickle, value);
        if (node->kind == COFFER__VALUE_BYTES && node->as.bytes.size >= SCAN_MIN_PICKLE &&
            node->as.bytes.at <= range->size && node->as.bytes.size <= range->size - node->as.bytes.at) {
            status = (scan->graph.reached[value] != 0 ? scan_loaded_bytes : scan_bytes_of)(file, scan, range, value,
                                                                                           queue, err);
        }
    }
    return status;
}

/* Pickles of joblib's arrays of objects. */
static coffer_status scan_objects(scan_pickle *scan, const coffer__scan_range *range, scan_queue *queue,
                                  coffer_error *err)
{
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < scan->joblib->object_count && status == COFFER_OK; i++) {
        const coffer__joblib_objects *objects = &scan->joblib->objects[i];
        const scan_queued item = { .range = { .member = range->member,
                                              .bytes = range->bytes != NULL ? range->bytes + objects->at : NULL,
                                              .at = range->at + objects->at,
                                              .size = objects->size,
                                              .expected = 1 },
                                   .part = true };
        status = scan_push(queue, scan, &item, err);
    }
    return status;
}

/* ---- pickles one after another --------------------------------------------------------------------------------------- */

/* What stopped the machine need not stop a loader: what follows it is told as far as it can be known. */
static coffer_status scan_put_damage(const coffer__reader_file *file, scan_pickle *scan,
                                     const coffer__scan_range *range, const coffer_error *damage, coffer_error *err)
{
    coffer__followed followed = { .complete = false };
    const uint64_t at = damage->offset != UINT64_MAX ? damage->offset : range->at;
    coffer_status status =
        coffer__pickle_file_follow(&followed, file, range->bytes, range->at, range->size, at - range->at, err);
    if (status != COFFER_OK) {
        return status;
    }
    /* scan_put counts from the graph's place, which is free to be moved now. */
    scan->graph.at = at;
    scan->left = 2;
    status = scan_put(scan, COFFER_WEIGHT_DANGER, 0,
                      followed.outcome == COFFER__FOLLOWED_TO_END
                          ? "the pickle is damaged here, and a loader would have done what stands before: %p"
                          : "no program writes a pickle like this, and a loader may go on where this scan stops: %p",
                      damage->message, err);
    if (status != COFFER_OK || followed.outcome != COFFER__FOLLOWED_TO_IMPORT) {
        return status;
    }
    scan->graph.at = range->at + followed.offset;
    return scan_put(scan, COFFER_WEIGHT_DANGER, 0,
                    followed.name[0] != '\0'
                        ? "behind that, a loader would import %p first"
                        : "behind that, a loader would import or call what values on the stack say",
                    followed.name, err);
}

/* The findings of a pickle that was run, or of what was built of it. */
static coffer_status scan_tell(const coffer__reader_file *file, scan_pickle *scan, const coffer__scan_range *range,
                               scan_queue *queue, coffer_error *err)
{
    coffer_status status = coffer__graph_prepare(&scan->graph, err);
    if (status == COFFER_OK) {
        status = scan_nodes(scan, err);
    }
    if (status == COFFER_OK) {
        status = scan_objects(scan, range, queue, err);
    }
    return status == COFFER_OK ? scan_bytes(file, scan, range, queue, err) : status;
}

/* Runs the pickle at the beginning of a range and tells what it finds; *end is the byte after it, 0 when it is damaged. */
static coffer_status scan_run(const coffer__reader_file *file, scan_pickle *scan, const coffer__scan_range *range,
                              scan_queue *queue, uint64_t *end, coffer_error *err)
{
    /* The error of the run becomes a finding, so it must not be in the caller's: it is copied there only if
       the scan fails. */
    coffer_error damage;
    coffer__error_clear(&damage);
    coffer_status status =
        coffer__pickle_file_run(&scan->graph, file, range->bytes, range->at, range->size, end, &damage);
    const bool over = scan->graph.pickle != NULL && coffer__pickle_over_budget(scan->graph.pickle);
    const bool damaged = status == COFFER_ERR_PICKLE || (status == COFFER_ERR_MEMORY && over);
    if (status != COFFER_OK && !damaged && err != NULL) {
        *err = damage;
    }
    if (damaged) {
        *end = 0;
        status = COFFER_OK;
    }
    if (status == COFFER_OK && scan->graph.pickle != NULL) {
        status = scan_tell(file, scan, range, queue, err);
    }
    if (status == COFFER_OK && damaged) {
        status = scan_put_damage(file, scan, range, &damage, err);
    }
    coffer__pickle_file_unload(&scan->graph);
    return status;
}

/* One pickle at the beginning of a range; *end is the byte after it, 0 when it is damaged or none. */
static coffer_status scan_one(const coffer__reader_file *file, const coffer__scan_range *range, scan_queue *queue,
                              uint64_t *end, coffer_error *err)
{
    coffer__joblib joblib = { .allocator = file->plan->allocator };
    scan_pickle scan = { .left = SCAN_MAX_FINDINGS, .script = range->script, .part = queue->part, .joblib = &joblib };
    scan.graph.member = range->member;
    scan.graph.joblib = queue->part ? NULL : &joblib;
    if (range->unsure) {
        coffer__followed followed;
        const coffer_status status =
            coffer__pickle_file_follow(&followed, file, range->bytes, range->at, range->size, 0, err);
        if (status != COFFER_OK || followed.outcome == COFFER__FOLLOWED_TO_END) {
            *end = 0;
            return status;
        }
    }
    const coffer_status status = scan_run(file, &scan, range, queue, end, err);
    coffer__joblib_free(&joblib);
    return status;
}

static coffer_status scan_put_more(const coffer__reader_file *file, const coffer__scan_range *range, coffer_error *err)
{
    return coffer__import_plan_put_finding(file->plan, COFFER_WEIGHT_DANGER, file->file, range->at, range->member,
                                           "there are bytes after the end of a pickle", "", 0, err);
}

/* What comes after the pickles that belong in a range may be none. */
static coffer_status scan_doubt(const coffer__reader_file *file, coffer__scan_range *rest, coffer_error *err)
{
    uint8_t head[3] = { 0 };
    const coffer_status status = rest->size >= sizeof head ? scan_read(file, rest, head, sizeof head, err) : COFFER_OK;
    rest->unsure = !coffer__scan_is_pickle(head, sizeof head);
    return status;
}

/* The pickles of one range. What follows those that belong there is a finding, and is looked at as what may be one. */
static coffer_status scan_range(const coffer__reader_file *file, const coffer__scan_range *range, scan_queue *queue,
                                uint64_t *expected_end, coffer_error *err)
{
    coffer__scan_range rest = *range;
    for (uint32_t i = 0; i < SCAN_MAX_PICKLES && rest.size > 0; i++) {
        uint64_t end = 0;
        coffer_status status = COFFER_OK;
        /*
         * All that belongs here has been read. What comes now is the storages of a stream, or something that
         * somebody has appended.
         */
        if (range->expected != 0 && i == range->expected) {
            *expected_end = rest.at - range->at;
            if (range->more) {
                return COFFER_OK;
            }
            status = scan_put_more(file, &rest, err);
        }
        /* The first pickle, and those that belong here, are run whatever they are. */
        if (status == COFFER_OK && i > 0 && i >= range->expected) {
            status = scan_doubt(file, &rest, err);
        }
        if (status == COFFER_OK) {
            status = scan_one(file, &rest, queue, &end, err);
        }
        if (status != COFFER_OK || end == 0) {
            return status;
        }
        /* What follows is looked at next, from the byte after STOP on. */
        rest.at += end;
        rest.size -= end;
        rest.bytes = rest.bytes != NULL ? rest.bytes + end : NULL;
    }
    return COFFER_OK;
}

coffer_status coffer__scan_pickles(const coffer__reader_file *file, const coffer__scan_range *range, uint64_t *end,
                                   coffer_error *err)
{
    scan_queue queue = { .allocator = file->plan->allocator };
    uint64_t expected_end = range->size;
    uint64_t ignored = 0;
    coffer_status status = scan_range(file, range, &queue, &expected_end, err);
    /* The queue grows while it is worked off: what is found within these pickles is put at its end. */
    for (size_t i = 0; i < queue.count && status == COFFER_OK; i++) {
        const coffer__scan_range inner = queue.items[i].range;
        queue.part = queue.items[i].part;
        status = scan_range(file, &inner, &queue, &ignored, err);
    }
    for (size_t i = 0; i < queue.count; i++) {
        coffer__free(queue.allocator, queue.items[i].decoded, queue.items[i].capacity);
    }
    coffer__free(queue.allocator, queue.items, queue.capacity * sizeof *queue.items);
    if (end != NULL) {
        *end = expected_end;
    }
    return status;
}
