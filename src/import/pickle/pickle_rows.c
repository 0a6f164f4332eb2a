/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the graph of a pickle to rows: see pickle_rows.h.
 *
 * Four passes, each of which takes what those before it have left:
 *
 *   1. the root      what has a name in the model: rows that are written, or skipped where there is no equivalent
 *   2. the rest      tensors and storages elsewhere in the object, by the names that lead there: skipped
 *   3. what is lost  values that were dropped while the pickle was made, by their places: skipped
 *   4. what is opaque    names of other programs: findings
 *
 * graph->reached says of each value whether some row has it, so that nothing is told twice. After the passes every
 * tensor of the file is in the plan, and the bytes of storages can be added up without a rest.
 */
#include "pickle_rows.h"

#include "alloc.h"
#include "error.h"
#include "pickle_beside.h"
#include "pickle_walk.h"
#include "sort.h"
#include "text.h"

#include <string.h>

/* The texts of reasons are put once each. */
typedef struct rows_reasons {
    uint32_t outside;
    uint32_t storage;
} rows_reasons;

/* ---- rows ---------------------------------------------------------------------------------------------------------- */

/* The name without the prefix that the user wants removed; a name that is nothing but the prefix stays as it
   is. */
static const char *rows_strip(const coffer__graph *graph, const char *path, size_t *len)
{
    const char *prefix = graph->wants->strip_prefix;
    const size_t prefix_len = coffer__text_len(prefix);
    if (prefix_len == 0 || *len <= prefix_len || memcmp(path, prefix, prefix_len) != 0) {
        return path;
    }
    *len -= prefix_len;
    return path + prefix_len;
}

/* Every row that a graph gives goes through here; names are copied into the plan, which outlives the graph. */
coffer_status coffer__graph_put_view(const coffer__graph *graph, coffer__view *view, const char *name, size_t name_len,
                                     coffer_fate fate, uint32_t reason, coffer_error *err)
{
    view->row.fate = fate;
    view->row.reason = reason;
    /* What has no storage has no view either, and only a name. */
    view->row.rank = view->row.storage == COFFER__PLAN_NO_STORAGE ? 0 : view->row.rank;
    const coffer_status status = coffer__import_plan_put_text(graph->plan, name, name_len, &view->row.name, err);
    return status == COFFER_OK ? coffer__import_plan_put_row(graph->plan, &view->row, view->dimensions, err) : status;
}

/* A tensor of the model that safetensors cannot express. */
static coffer_status rows_put_lacking(const coffer__graph *graph, coffer__view *view, const char *name, size_t name_len,
                                      coffer_error *err)
{
    /* The reason is the lack itself, which is also what the error would say. */
    uint32_t reason = 0;
    if (!graph->wants->skip_unsupported) {
        coffer__fail(err, COFFER_ERR_NO_EQUIVALENT, "tensor %q is %s, which safetensors cannot express", name, name_len,
                     view->lack);
        return coffer__fail_tensor(err, COFFER_ERR_NO_EQUIVALENT, name, name_len);
    }
    const coffer_status status =
        coffer__import_plan_put_text(graph->plan, view->lack, coffer__text_len(view->lack), &reason, err);
    return status == COFFER_OK ? coffer__graph_put_view(graph, view, name, name_len, COFFER_FATE_SKIPPED, reason, err)
                               : status;
}

coffer_status coffer__graph_put_model_view(const coffer__graph *graph, coffer__view *view, const char *name,
                                           size_t name_len, coffer_error *err)
{
    return view->lack != NULL ? rows_put_lacking(graph, view, name, name_len, err)
                              : coffer__graph_put_view(graph, view, name, name_len, COFFER_FATE_WRITTEN, 0, err);
}

/* A tensor of the model. Its view is found first: bytes that are not there weigh more than an odd name. */
static coffer_status rows_put_tensor(coffer__graph *graph, const coffer__graph_walk *walk, coffer__value value,
                                     coffer_error *err)
{
    coffer__view view;
    size_t name_len = walk->path_len;
    const char *name = rows_strip(graph, walk->path, &name_len);
    const coffer_status status = coffer__view_of(graph, value, &view, err);
    if (status != COFFER_OK) {
        return coffer__fail_tensor(err, status, name, name_len);
    }
    if (walk->bad_keys > 0 || coffer__utf8_valid_len(name, name_len) != name_len) {
        coffer__fail_at(err, COFFER_ERR_NAME, coffer__graph_place(graph, value),
                        "tensor %q has a key that is neither UTF-8 text nor a whole number", name, name_len);
        return coffer__fail_tensor(err, COFFER_ERR_NAME, name, name_len);
    }
    return coffer__graph_put_model_view(graph, &view, name, name_len, err);
}

/* A tensor, or a storage by itself, that is not written. It is checked as a view all the same, and is in the plan with its
   bytes: so a report can account for every byte of the file. */
static coffer_status rows_put_skipped(coffer__graph *graph, coffer__value value, const char *name, size_t name_len,
                                      const rows_reasons *reasons, coffer_error *err)
{
    coffer__view view;
    /* A storage by itself is bytes without a dtype. */
    const bool storage = coffer__graph_classify(graph, value) == COFFER__CLASS_STORAGE;
    const coffer_status status =
        storage ? coffer__view_of_storage(graph, value, &view, err) : coffer__view_of(graph, value, &view, err);
    if (status != COFFER_OK) {
        return coffer__fail_tensor(err, status, name, name_len);
    }
    return coffer__graph_put_view(graph, &view, name, name_len, COFFER_FATE_SKIPPED,
                                  storage ? reasons->storage : reasons->outside, err);
}

/* A number among the tensors: left out, or put into the metadata. */
static coffer_status rows_put_number(coffer__graph *graph, const coffer__graph_walk *walk, coffer__value value,
                                     coffer_error *err)
{
    size_t name_len = walk->path_len;
    const char *name = rows_strip(graph, walk->path, &name_len);
    bool put = false;
    const coffer_status status =
        walk->bad_keys > 0 ? COFFER_OK : coffer__beside_put(graph, value, name, name_len, &put, err);
    if (status == COFFER_OK && !put) {
        coffer__beside_add(graph, walk->path, walk->path_len);
    }
    return status;
}

/* ---- passes -------------------------------------------------------------------------------------------------------- */

/* The model: everything that has a name within the root. */
static coffer_status rows_of_root(coffer__graph *graph, coffer__value start, const rows_reasons *reasons,
                                  coffer_error *err)
{
    coffer__graph_walk walk;
    coffer__value found = 0;
    coffer_status status = coffer__graph_walk_begin(&walk, graph, start, false, err);
    while (status == COFFER_OK) {
        status = coffer__graph_walk_next(&walk, &found, err);
        if (status != COFFER_OK || found == 0) {
            break;
        }
        /* Texts and devices have no bytes to write; objects are told by rows_of_opaque. */
        switch (coffer__graph_classify(graph, found)) {
        case COFFER__CLASS_TENSOR:
        case COFFER__CLASS_LACKING:
            status = rows_put_tensor(graph, &walk, found, err);
            break;
        case COFFER__CLASS_STORAGE:
            status = rows_put_skipped(graph, found, walk.path, walk.path_len, reasons, err);
            break;
        case COFFER__CLASS_NUMBER:
            status = rows_put_number(graph, &walk, found, err);
            break;
        case COFFER__CLASS_OTHER:
            /* A module has None in the place of each part that it lacks. */
            if (coffer__pickle_node(graph->pickle, found)->kind != COFFER__VALUE_NONE) {
                coffer__beside_add(graph, walk.path, walk.path_len);
            }
            break;
        default:
            break;
        }
    }
    coffer__graph_walk_free(&walk);
    return status;
}

/* A tensor that no row has yet. Its storage is reached with it, so that it is not told a second time by
   itself. */
static bool rows_is_left_over(coffer__graph *graph, coffer__value value)
{
    const coffer__pickle_class role = coffer__graph_classify(graph, value);
    return graph->reached[value] == 0 &&
           (role == COFFER__CLASS_TENSOR || role == COFFER__CLASS_LACKING || role == COFFER__CLASS_STORAGE);
}

/* Everything else that can be reached from the top, by the names that lead there. The walk goes through objects and calls,
   too, whose parts have no names of their own, and meets each node once. */
static coffer_status rows_of_rest(coffer__graph *graph, const rows_reasons *reasons, coffer_error *err)
{
    coffer__graph_walk walk;
    coffer__value found = 0;
    coffer_status status = coffer__graph_walk_begin(&walk, graph, coffer__graph_top(graph), true, err);
    while (status == COFFER_OK) {
        status = coffer__graph_walk_next(&walk, &found, err);
        if (status != COFFER_OK || found == 0) {
            break;
        }
        if (rows_is_left_over(graph, found)) {
            status = rows_put_skipped(graph, found, walk.path, walk.path_len, reasons, err);
        }
    }
    coffer__graph_walk_free(&walk);
    return status;
}

/* What no walk met: values that were dropped while the pickle was made, or that are nested too deep. Tensors come before
   `storages`, which they may be views of. */
static coffer_status rows_of_lost(coffer__graph *graph, bool storages, const rows_reasons *reasons, coffer_error *err)
{
    static const char prefix[] = "at byte ";
    for (coffer__value value = 1; value < graph->marks; value++) {
        char name[32];
        const bool storage = coffer__graph_classify(graph, value) == COFFER__CLASS_STORAGE;
        if (storage != storages || !rows_is_left_over(graph, value)) {
            continue;
        }
        /* It has no name, so it goes by its place, which is as good as one in a report. */
        memcpy(name, prefix, sizeof prefix - 1);
        const size_t len =
            sizeof prefix - 1 + coffer__write_u64(name + sizeof prefix - 1, coffer__graph_place(graph, value));
        const coffer_status status = rows_put_skipped(graph, value, name, len, reasons, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* A file that is one tensor, without a name. */
static coffer_status rows_of_tensor(coffer__graph *graph, coffer__value value, coffer_error *err)
{
    static char name[] = "tensor";
    const coffer__graph_walk walk = { .graph = graph, .path = name, .path_len = sizeof name - 1 };
    return rows_put_tensor(graph, &walk, value, err);
}

/* ---- objects of other programs ------------------------------------------------------------------------------------- */

/* By the names, so that the same class, imported several times, is one finding. */
static bool rows_global_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer__pickle *pickle = ctx;
    const char *a_module = coffer__pickle_module(pickle, a);
    const char *b_module = coffer__pickle_module(pickle, b);
    const int modules =
        coffer__compare_names(a_module, coffer__text_len(a_module), b_module, coffer__text_len(b_module));
    if (modules != 0) {
        return modules < 0;
    }
    const char *a_name = coffer__pickle_name(pickle, a);
    const char *b_name = coffer__pickle_name(pickle, b);
    return coffer__compare_names(a_name, coffer__text_len(a_name), b_name, coffer__text_len(b_name)) < 0;
}

/* What is called. A class of modules before 1.6 is within a persistent id: ("module", class, …), or (class, …). */
static coffer__value rows_class(const coffer__graph *graph, coffer__value call)
{
    const coffer__value callable = coffer__graph_callable(graph, call);
    const coffer__node *node = coffer__pickle_node(graph->pickle, callable);
    if (node == NULL || node->kind != COFFER__VALUE_PERSISTENT) {
        return callable;
    }
    coffer__value id[1] = { 0 };
    coffer__value parts[2] = { 0 };
    coffer__graph_items(graph, callable, id, 1);
    coffer__graph_items(graph, id[0], parts, 2);
    return coffer__graph_is_text(graph, parts[0], "module") ? parts[1] : parts[0];
}

/* Classes of modules are not objects that are lost: the modules are read. Unless another object is of the same class. */
static void rows_collect_opaque(coffer__graph *graph, uint32_t *order, size_t *count)
{
    /* First all classes of what is understood are marked, then those of opaque objects unmarked again: one
       opaque object is enough for its class to be told. */
    for (uint8_t opaque = 0; opaque < 2; opaque++) {
        for (coffer__value value = 1; value < graph->marks; value++) {
            const coffer__value callable = rows_class(graph, value);
            if (callable != 0 && (coffer__graph_classify(graph, value) == COFFER__CLASS_OPAQUE) == (opaque != 0)) {
                graph->reached[callable] = opaque == 0;
            }
        }
    }
    for (coffer__value value = 1; value < graph->marks; value++) {
        const coffer__node *node = coffer__pickle_node(graph->pickle, value);
        const coffer__judgement judgement = coffer__graph_known(graph, value).judgement;
        if (node->kind == COFFER__VALUE_GLOBAL && graph->reached[value] == 0 &&
            judgement != COFFER__GLOBAL_INTERPRETED && judgement != COFFER__GLOBAL_LACKING) {
            order[(*count)++] = value;
        }
    }
}

/* A finding for one name, or the end of a strict conversion. Long names are cut, half of the space for each of
   the two. */
static coffer_status rows_put_opaque(coffer__graph *graph, coffer__value value, coffer_error *err)
{
    char name[256];
    const char *module = coffer__pickle_module(graph->pickle, value);
    const char *last = coffer__pickle_name(graph->pickle, value);
    const size_t module_len = coffer__text_len(module);
    const size_t last_len = coffer__text_len(last);
    size_t len = module_len < sizeof name / 2 ? module_len : sizeof name / 2;
    /*
     * The two are joined by a dot, as Python would print the class. Both come from the file, so the sentence
     * quotes and escapes them.
     */
    memcpy(name, module, len);
    name[len++] = '.';
    const size_t capacity = sizeof name - len;
    memcpy(name + len, last, last_len < capacity ? last_len : capacity);
    len += last_len < capacity ? last_len : capacity;
    const uint64_t at = coffer__graph_place(graph, value);
    if (graph->wants->strict) {
        return coffer__fail_at(err, COFFER_ERR_OPAQUE, at,
                               "the file has an object of %q, which is not known, and a strict conversion leaves "
                               "nothing out",
                               name, len);
    }
    const bool danger = coffer__graph_known(graph, value).judgement == COFFER__GLOBAL_DANGEROUS;
    return coffer__import_plan_put_finding(graph->plan, danger ? COFFER_WEIGHT_DANGER : COFFER_WEIGHT_OPAQUE,
                                           graph->file, at, graph->member,
                                           danger ? "a loader would import %q, which can run code: it is left out"
                                                  : "objects of %q are not known: they are left out",
                                           name, len, err);
}

/* What is called or named and not understood, sorted by names, so that each is told once, at its first place. */
static coffer_status rows_of_opaque(coffer__graph *graph, coffer_error *err)
{
    size_t count = 0;
    uint32_t *order = coffer__alloc_array(graph->allocator, graph->marks, sizeof *order, err);
    if (order == NULL) {
        return COFFER_ERR_MEMORY;
    }
    coffer_status status = COFFER_OK;
    rows_collect_opaque(graph, order, &count);
    coffer__sort(order, count, rows_global_before, graph->pickle);
    for (size_t i = 0; i < count && status == COFFER_OK; i++) {
        if (i == 0 || rows_global_before(graph->pickle, order[i - 1], order[i])) {
            status = rows_put_opaque(graph, order[i], err);
        }
    }
    coffer__free_array(graph->allocator, order, graph->marks, sizeof *order);
    return status;
}

/* ---- all of it ------------------------------------------------------------------------------------------------------ */

/* Texts that many rows share; they are put first, since rows have only their numbers. */
static coffer_status rows_put_reasons(coffer__graph *graph, rows_reasons *reasons, coffer_error *err)
{
    static const char outside[] = "not a part of the model";
    static const char storage[] = "a storage that is not a part of a tensor";
    coffer_status status =
        coffer__import_plan_put_text(graph->plan, outside, sizeof outside - 1, &reasons->outside, err);
    if (status == COFFER_OK) {
        status = coffer__import_plan_put_text(graph->plan, storage, sizeof storage - 1, &reasons->storage, err);
    }
    return status;
}

/* The choice is told whenever it is not the top: somebody may have meant another part. */
static coffer_status rows_note_root(coffer__graph *graph, coffer__value start, const char *path, coffer_error *err)
{
    if (path[0] == '\0') {
        return COFFER_OK;
    }
    return coffer__import_plan_put_finding(graph->plan, COFFER_WEIGHT_NOTE, graph->file,
                                           coffer__graph_place(graph, start), graph->member,
                                           "the model is what the file has as %q", path, coffer__text_len(path), err);
}

/* The model, then the rest by name, then what nothing leads to: in this order each tensor becomes one row,
   under the best name that there is for it. Ties come last, when all rows are known. */
coffer_status coffer__graph_put_rows(coffer__graph *graph, coffer_error *err)
{
    char path[256];
    coffer__value start = 0;
    rows_reasons reasons = { 0 };
    const size_t first_row = graph->plan->rows.count;
    coffer_status status = coffer__graph_find_root(graph, &start, path, sizeof path, err);
    if (status != COFFER_OK) {
        return status;
    }
    /* Finding the root has weighed tensors, which is not yet what becomes of them. */
    memset(graph->reached, 0, graph->marks);
    status = rows_put_reasons(graph, &reasons, err);
    if (status == COFFER_OK) {
        status = rows_note_root(graph, start, path, err);
    }
    if (status == COFFER_OK) {
        const coffer__pickle_class role = coffer__graph_classify(graph, start);
        const bool tensor = role == COFFER__CLASS_TENSOR || role == COFFER__CLASS_LACKING;
        status = tensor ? rows_of_tensor(graph, start, err) : rows_of_root(graph, start, &reasons, err);
    }
    if (status == COFFER_OK) {
        status = rows_of_rest(graph, &reasons, err);
    }
    if (status == COFFER_OK) {
        status = rows_of_lost(graph, false, &reasons, err);
    }
    if (status == COFFER_OK) {
        status = rows_of_lost(graph, true, &reasons, err);
    }
    if (status == COFFER_OK) {
        status = rows_of_opaque(graph, err);
    }
    if (status == COFFER_OK) {
        status = coffer__beside_note(graph, err);
    }
    if (status != COFFER_OK || graph->wants->ties == COFFER_TIES_KEEP) {
        return status;
    }
    return coffer__import_plan_tie(graph->plan, first_row, err);
}
