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
#include "pickle_roles.h"
#include "scan_text.h"
#include "sort.h"
#include "text.h"

#include <string.h>

/* Findings of one pickle; what is beyond is counted. */
#define SCAN_MOST_FINDINGS 10000
/* Pickles within each other, or one after another, in one range. */
#define SCAN_MOST_PICKLES 1000
/* What a file that no reader knows may take in memory while it is asked whether it is a pickle. */
#define SCAN_UNKNOWN_BUDGET ((uint64_t)1 << 20)
/* A pickle has at least an opcode and its end. */
#define SCAN_LEAST_PICKLE 4

/* Ranges that are still to be looked at: pickles within the bytes of others. */
typedef struct scan_queue {
    const coffer_allocator *allocator;
    coffer__scan_range *ranges;
    size_t count;
} scan_queue;

/* One pickle. */
typedef struct scan_pickle {
    coffer__graph graph;
    size_t left; /* findings that may still be put */
    uint64_t more;
    bool script; /* classes of __torch__ are those of the archive */
} scan_pickle;

bool coffer__scan_is_pickle(const uint8_t *bytes, size_t size)
{
    return size >= 2 && bytes[0] == 0x80 && bytes[1] <= 5;
}

/* The machine asks for nothing past the end that it was given. */
static coffer_status scan_input_read(void *ctx, uint64_t offset, void *bytes, size_t size, coffer_error *err)
{
    const coffer__input *input = ctx;
    return coffer__input_read(input, 0, input->size, offset, bytes, size, err);
}

/* Whether a name can be one of a module that somebody has written: words joined by dots. Text that happens to begin with
   the letter c reads as the import of a whole line. */
static bool scan_is_module(const char *name)
{
    bool word = false;
    for (; *name != '\0'; name++) {
        const char letter = (char)(*name | 0x20);
        const bool inside = (letter >= 'a' && letter <= 'z') || *name == '_' || (word && *name >= '0' && *name <= '9');
        if (!inside && !(word && *name == '.')) {
            return false;
        }
        word = inside;
    }
    return word;
}

/* The machine fails in nearly every case, and within a few bytes: what was built until then is the answer. A file that is
   made to take longer is bounded as every pickle is. */
coffer_status coffer__scan_would_import(const coffer__input *input, const coffer_allocator *allocator, bool *would,
                                        coffer_error *err)
{
    const coffer__pickle_bytes stream = { .ctx = (void *)input, .read = scan_input_read, .size = input->size };
    coffer__pickle *pickle = NULL;
    uint64_t end = 0;
    coffer_error trouble;
    coffer__error_clear(&trouble);
    const coffer_status status =
        coffer__pickle_run(&pickle, &stream, 0, allocator, SCAN_UNKNOWN_BUDGET, NULL, &end, &trouble);
    const bool has_run = pickle != NULL;
    *would = false;
    for (size_t i = 1; pickle != NULL && !*would && i <= coffer__pickle_count(pickle); i++) {
        const coffer__value value = (coffer__value)i;
        *would = coffer__pickle_node(pickle, value)->kind == COFFER__VALUE_GLOBAL &&
                 scan_is_module(coffer__pickle_module(pickle, value));
    }
    coffer__pickle_free(pickle);
    if (status == COFFER_OK || status == COFFER_ERR_PICKLE || (status == COFFER_ERR_MEMORY && has_run)) {
        return COFFER_OK;
    }
    if (err != NULL) {
        *err = trouble;
    }
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
    return coffer__plan_put_finding(graph->plan, weight, graph->file, coffer__graph_place(graph, value), graph->member,
                                    sentence, subject, coffer__text_len(subject), err);
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

/* A call. What a name that is understood makes of its arguments is known; and the one form of eval that is data. The
   callable of a call may be the result of another. */
static coffer_status scan_call(scan_pickle *scan, coffer__value value, coffer_error *err)
{
    char text[COFFER__SCAN_TEXT];
    coffer__graph *graph = &scan->graph;
    const coffer__node *node = coffer__pickle_node(graph->pickle, value);
    const coffer__value callable = coffer__graph_callable(graph, value);
    const coffer__known known = coffer__graph_known(graph, callable);
    const coffer__node *called = coffer__pickle_node(graph->pickle, callable);
    const bool named =
        called != NULL && (called->kind == COFFER__VALUE_GLOBAL || called->kind == COFFER__VALUE_PERSISTENT);
    if (scan_is_understood(known) || scan_is_script(scan, callable) ||
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

/* Nodes are in the order in which the stream made them, so the findings come in the order of its bytes. */
static coffer_status scan_nodes(scan_pickle *scan, coffer_error *err)
{
    coffer__graph *graph = &scan->graph;
    coffer_status status = COFFER_OK;
    /* A name that is called is told with its call and its arguments, and not a second time as an import. */
    scan_mark_callables(graph);
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

/* What does not fit is dropped: that it is there has already been told as a finding, which is a danger by
   itself. */
static coffer_status scan_push(scan_queue *queue, const coffer__scan_range *range, coffer_error *err)
{
    if (queue->ranges == NULL) {
        queue->ranges = coffer__alloc_array(queue->allocator, SCAN_MOST_PICKLES, sizeof *queue->ranges, err);
    }
    if (queue->ranges == NULL) {
        return COFFER_ERR_MEMORY;
    }
    /* Bounded, as a pickle within a pickle costs a few bytes only. */
    if (queue->count < SCAN_MOST_PICKLES) {
        queue->ranges[queue->count++] = *range;
    }
    return COFFER_OK;
}

/* Bytes that begin as a pickle, whatever is done with them: torch.storage._load_from_bytes would load them. Those that are
   not in the stream as they are, because they were escaped or written as text, are kept by the machine if they are short,
   but their place is not one that could be read. */
static coffer_status scan_bytes(const coffer__torch_file *file, scan_pickle *scan, const coffer__scan_range *range,
                                scan_queue *queue, coffer_error *err)
{
    coffer__graph *graph = &scan->graph;
    for (coffer__value value = 1; value < graph->marks; value++) {
        const coffer__node *node = coffer__pickle_node(graph->pickle, value);
        uint8_t head[2];
        if (node->kind != COFFER__VALUE_BYTES || node->as.bytes.latin1 || node->as.bytes.escaped ||
            node->as.bytes.size < SCAN_LEAST_PICKLE || node->as.bytes.at > range->size ||
            node->as.bytes.size > range->size - node->as.bytes.at) {
            continue;
        }
        /*
         * Bytes that lie in the file as they are can be run from there; those of an inflated member from its
         * memory.
         */
        const coffer__scan_range inner = { .member = range->member,
                                           .bytes = range->bytes != NULL ? range->bytes + node->as.bytes.at : NULL,
                                           .at = range->at + node->as.bytes.at,
                                           .size = node->as.bytes.size };
        /* Two bytes tell whether a pickle begins. They are in the machine if it kept them; else where the
           outer pickle is. */
        coffer_status status = COFFER_OK;
        size_t len = 0;
        const char *kept = coffer__pickle_bytes_of(graph->pickle, value, &len);
        if (kept != NULL && len >= sizeof head) {
            memcpy(head, kept, sizeof head);
        } else if (inner.bytes != NULL) {
            memcpy(head, inner.bytes, sizeof head);
        } else {
            status = coffer__input_read(file->input, file->file, file->size, inner.at, head, sizeof head, err);
        }
        if (status == COFFER_OK && coffer__scan_is_pickle(head, sizeof head)) {
            status = scan_put(scan, COFFER_WEIGHT_DANGER, value, "there is another pickle within bytes", "", err);
            if (status == COFFER_OK) {
                status = scan_push(queue, &inner, err);
            }
        }
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* Whether anything would be imported. Bytes that are no pickle soon come to what is no opcode, and have no names. */
static bool scan_has_names(const coffer__pickle *pickle)
{
    bool found = pickle != NULL && coffer__pickle_hides_import(pickle);
    for (size_t i = 1; pickle != NULL && !found && i <= coffer__pickle_count(pickle); i++) {
        found = coffer__pickle_node(pickle, (coffer__value)i)->kind == COFFER__VALUE_GLOBAL;
    }
    return found;
}

/* ---- pickles one after another --------------------------------------------------------------------------------------- */

/* One pickle at the beginning of a range; *end is the byte after it, 0 when it is damaged. */
static coffer_status scan_one(const coffer__torch_file *file, const coffer__scan_range *range, scan_queue *queue,
                              uint64_t *end, coffer_error *err)
{
    scan_pickle scan = { .left = SCAN_MOST_FINDINGS, .script = range->script };
    scan.graph.member = range->member;
    /* The error of the run becomes a finding, so it must not be in the caller's: it is copied there only if
       the scan fails. */
    coffer_error damage;
    coffer__error_clear(&damage);
    coffer_status status = coffer__torch_run(&scan.graph, file, range->bytes, range->at, range->size, end, &damage);
    const bool damaged = status == COFFER_ERR_PICKLE;
    if (status != COFFER_OK && !damaged) {
        if (err != NULL) {
            *err = damage;
        }
        coffer__torch_unload(&scan.graph);
        return status;
    }
    /* A weight of torch.export that is no pickle fails at its first byte that is no opcode. That is no damage. */
    if (range->unsure && !scan_has_names(scan.graph.pickle)) {
        *end = 0;
        coffer__torch_unload(&scan.graph);
        return COFFER_OK;
    }
    status = COFFER_OK;
    if (scan.graph.pickle != NULL) {
        status = coffer__graph_prepare(&scan.graph, err);
    }
    if (status == COFFER_OK) {
        status = scan_nodes(&scan, err);
    }
    if (status == COFFER_OK) {
        status = scan_bytes(file, &scan, range, queue, err);
    }
    if (status == COFFER_OK && damaged) {
        *end = 0;
        /* scan_put counts from the graph's place, which is free to be moved now: nothing else is put after
           this. */
        scan.graph.at = damage.offset != UINT64_MAX ? damage.offset : range->at;
        scan.left = 1;
        status = scan_put(&scan, COFFER_WEIGHT_DANGER, 0,
                          "the pickle is damaged here, and a loader would have done what stands before: %p",
                          damage.message, err);
    }
    coffer__torch_unload(&scan.graph);
    return status;
}

static coffer_status scan_put_more(const coffer__torch_file *file, const coffer__scan_range *range, coffer_error *err)
{
    return coffer__plan_put_finding(file->plan, COFFER_WEIGHT_DANGER, file->file, range->at, range->member,
                                    "there are bytes after the end of a pickle", "", 0, err);
}

/* The pickles of one range. What follows those that belong there is a finding, and is looked at if it begins as a pickle. */
static coffer_status scan_range(const coffer__torch_file *file, const coffer__scan_range *range, scan_queue *queue,
                                uint64_t *expected_end, coffer_error *err)
{
    coffer__scan_range rest = *range;
    for (uint32_t i = 0; i < SCAN_MOST_PICKLES && rest.size > 0; i++) {
        uint8_t head[2] = { 0 };
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
        /* The first pickle, and those that belong here, are run whatever they begin with; more of them only if
           they begin as one. */
        if (status == COFFER_OK && i > 0 && i >= range->expected && rest.size >= sizeof head) {
            if (rest.bytes != NULL) {
                memcpy(head, rest.bytes, sizeof head);
            } else {
                status = coffer__input_read(file->input, file->file, file->size, rest.at, head, sizeof head, err);
            }
            if (status != COFFER_OK || !coffer__scan_is_pickle(head, sizeof head)) {
                return status;
            }
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

coffer_status coffer__scan_pickles(const coffer__torch_file *file, const coffer__scan_range *range, uint64_t *end,
                                   coffer_error *err)
{
    scan_queue queue = { .allocator = file->plan->allocator };
    uint64_t expected_end = range->size;
    uint64_t ignored = 0;
    coffer_status status = scan_range(file, range, &queue, &expected_end, err);
    /* The queue grows while it is worked off: what is found within these pickles is put at its end. */
    for (size_t i = 0; i < queue.count && status == COFFER_OK; i++) {
        const coffer__scan_range inner = queue.ranges[i];
        status = scan_range(file, &inner, &queue, &ignored, err);
    }
    coffer__free_array(queue.allocator, queue.ranges, SCAN_MOST_PICKLES, sizeof *queue.ranges);
    if (end != NULL) {
        *end = expected_end;
    }
    return status;
}
