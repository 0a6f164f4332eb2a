/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pickles that are a file by themselves: arrays of NumPy, and what Paddle writes as .pdparams and .pdopt, which is a
 * dict from names to arrays, with "StructuredToParameterName@@" for a table of names.
 *
 * With protocols 2 and 3 Paddle cuts arrays above 2^30-1 bytes into parts,
 *
 *   "NAME@@.0", "NAME@@.1", …    the parts, flat, one after another in the dict
 *   "UnpackBigParamInfor@@"      {NAME: {"OriginShape": (…), "slices": ["NAME@@.0", …]}}
 *
 * and here they are joined again.
 */
#include "checked.h"
#include "dtype.h"
#include "error.h"
#include "kinds.h"
#include "pickle_rows.h"
#include "pickle_scan.h"
#include "pickle_views.h"
#include "readers.h"
#include "sort.h"
#include "text.h"
#include "torch.h"

#include <string.h>

/* Parts of arrays in one file: of 1 GB each. Each is searched for among all rows, so their number bounds the time. */
#define PLAIN_MAX_PARTS 10000

/* ---- Paddle's parts ------------------------------------------------------------------------------------------------ */

/* The row that is written under a name; NULL. Searched for among all rows: the callers bound how often. */
static coffer__import_plan_row *plain_row(coffer__import_plan *plan, const char *name, size_t name_len)
{
    coffer__import_plan_row *rows = plan->rows.items;
    for (size_t i = 0; i < plan->rows.count; i++) {
        size_t len = 0;
        const char *text = coffer__import_plan_text(plan, rows[i].name, &len);
        if (rows[i].fate == COFFER_FATE_WRITTEN && coffer__compare_names(text, len, name, name_len) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

static coffer_status plain_malformed(const coffer__graph *graph, coffer__value value, coffer_error *err)
{
    return coffer__fail_at(err, COFFER_ERR_ARRAY, coffer__graph_place(graph, value),
                           "the parts of an array of Paddle do not fit together");
}

/* Whether a row is a whole flat array that has a storage of its own: only those are joined by joining their storages. */
static bool plain_is_part(const coffer__import_plan *plan, const coffer__import_plan_row *row)
{
    const coffer__import_plan_dimension *dimensions = coffer__import_plan_dimensions(plan, row);
    return row->rank == 1 && row->offset == 0 && dimensions[0].stride == (int64_t)row->item_size &&
           dimensions[0].count == coffer__import_plan_storages(plan)[row->storage].size / row->item_size;
}

/* Adds a part to the first one: its storage follows directly, so its pieces do, too. */
static bool plain_join(coffer__import_plan *plan, coffer__import_plan_row *first, coffer__import_plan_row *part,
                       uint32_t ordinal)
{
    coffer__import_plan_storage *storages = plan->storages.items;
    coffer__import_plan_storage *whole = &storages[first->storage];
    coffer__import_plan_storage *more = &storages[part->storage];
    /*
     * The storages of parts have to follow each other without another between, since a storage has its pieces in
     * one row. Paddle writes the parts of an array directly after each other, so they do.
     */
    if (!plain_is_part(plan, part) || part->storage != first->storage + ordinal || part->dtype != first->dtype ||
        part->swap != first->swap || !coffer__add_u64(whole->size, more->size, &whole->size)) {
        return false;
    }
    /* The pieces of storages that were put one after another are one after another, too, so counting more of
       them is all that joining takes. */
    whole->count += more->count;
    more->count = 0;
    more->size = 0;
    /* Empty storages, too, begin where the one before them ends. */
    for (uint32_t i = 1; i <= ordinal; i++) {
        whole[i].first = whole->first + whole->count;
    }
    part->fate = COFFER_FATE_SKIPPED;
    part->storage = COFFER__PLAN_NO_STORAGE;
    part->rank = 0;
    return true;
}

/* Gives the joined row its shape: of as many elements as the parts have. */
static coffer_status plain_shape(coffer__graph *graph, coffer__import_plan_row *row, coffer__value shape,
                                 coffer_error *err)
{
    coffer__extents extents = { 0 };
    coffer__import_plan_row made = *row;
    coffer__import_plan_dimension dimensions[COFFER__PLAN_MAX_RANK];
    uint64_t step = row->item_size;
    if (!coffer__view_numbers(graph, shape, extents.sizes, &extents.rank)) {
        return plain_malformed(graph, shape, err);
    }
    /* From the last dimension outwards: what a step is worth is the product of all sizes after it. */
    for (size_t i = extents.rank; i-- > 0;) {
        if (step > INT64_MAX) {
            return plain_malformed(graph, shape, err);
        }
        dimensions[i] = (coffer__import_plan_dimension){ .size = extents.sizes[i],
                                                         .count = extents.sizes[i],
                                                         .stride = (int64_t)step };
        if (!coffer__mul_u64(step, extents.sizes[i], &step)) {
            return plain_malformed(graph, shape, err);
        }
    }
    /* All parts together are exactly the array that the table describes. */
    if (step != coffer__import_plan_storages(graph->plan)[row->storage].size) {
        return plain_malformed(graph, shape, err);
    }
    /* The first part's row has one dimension only: another row takes over. */
    row->fate = COFFER_FATE_SKIPPED;
    row->storage = COFFER__PLAN_NO_STORAGE;
    row->rank = 0;
    made.rank = (uint32_t)extents.rank;
    return coffer__import_plan_put_row(graph->plan, &made, dimensions, err);
}

/* `left` counts the parts of all arrays down: each of them is searched for. */
static coffer_status plain_join_parts(coffer__graph *graph, const coffer__graph_entry *entry, uint32_t reason,
                                      size_t *left, coffer_error *err)
{
    coffer__entries entries;
    coffer__graph_entry slice;
    coffer__import_plan_row *first = NULL;
    uint32_t count = 0;
    size_t name_len = 0;
    const char *name = coffer__pickle_bytes_of(graph->pickle, entry->key, &name_len);
    coffer__entries_begin(&entries, graph, coffer__pickle_get(graph->pickle, entry->value, "slices"));
    while (coffer__entries_next(&entries, graph, &slice)) {
        size_t len = 0;
        const char *text = coffer__pickle_bytes_of(graph->pickle, slice.value, &len);
        /* The row is looked up for each part and not kept over plain_shape, which may move the rows; a part
           that was joined is no longer written, so it is found only once. */
        coffer__import_plan_row *row = text != NULL && *left > 0 ? plain_row(graph->plan, text, len) : NULL;
        if (row == NULL || (count > 0 && !plain_join(graph->plan, first, row, count))) {
            return plain_malformed(graph, entry->value, err);
        }
        row->reason = reason;
        --*left;
        first = count++ == 0 ? row : first;
    }
    if (count == 0 || name == NULL) {
        return plain_malformed(graph, entry->value, err);
    }
    const coffer_status status = coffer__import_plan_put_text(graph->plan, name, name_len, &first->name, err);
    return status == COFFER_OK
               ? plain_shape(graph, first, coffer__pickle_get(graph->pickle, entry->value, "OriginShape"), err)
               : status;
}

/* Each array in the table of parts; files without the table have no parts. */
static coffer_status plain_join_all(coffer__graph *graph, coffer_error *err)
{
    static const char reason[] = "joined with the other parts of the same array";
    coffer__entries entries;
    coffer__graph_entry entry;
    uint32_t text = 0;
    size_t left = PLAIN_MAX_PARTS;
    const coffer__value top = coffer__pickle_root(graph->pickle);
    const coffer__value parts = coffer__pickle_get(graph->pickle, top, "UnpackBigParamInfor@@");
    /* Only protocols 2 and 3 have it: later ones can write more than 4 GB at once. */
    if (parts == 0) {
        return COFFER_OK;
    }
    coffer_status status = coffer__import_plan_put_text(graph->plan, reason, sizeof reason - 1, &text, err);
    coffer__entries_begin(&entries, graph, parts);
    while (status == COFFER_OK && coffer__entries_next(&entries, graph, &entry)) {
        status = plain_join_parts(graph, &entry, text, &left, err);
    }
    return status;
}

/* Two things that Paddle's files do not say, and that the user should know. */
static coffer_status plain_note_paddle(const coffer__graph *graph, coffer_error *err)
{
    bool halves = false;
    bool bytes = false;
    for (size_t i = 0; i < graph->plan->rows.count; i++) {
        const coffer_dtype dtype = coffer__import_plan_rows(graph->plan)[i].dtype;
        halves = halves || dtype == COFFER_BF16;
        bytes = bytes || dtype == COFFER_I8;
    }
    coffer_status status = COFFER_OK;
    if (halves) {
        status = coffer__import_plan_put_finding(
            graph->plan, COFFER_WEIGHT_NOTE, graph->file, UINT64_MAX, "",
            "arrays of %q are bfloat16: Paddle stores it so, and has no such integers", "uint16", 6, err);
    }
    if (status == COFFER_OK && bytes) {
        status = coffer__import_plan_put_finding(graph->plan, COFFER_WEIGHT_NOTE, graph->file, UINT64_MAX, "",
                                                 "arrays of %q may be float8, which Paddle stores in the same way",
                                                 "int8", 4, err);
    }
    return status;
}

/* ---- the reader ---------------------------------------------------------------------------------------------------- */

/* By the ending, or by the table that paddle.save adds. It matters for bfloat16 only, which looks like uint16. */
static bool plain_is_paddle(const coffer__graph *graph, const coffer__input_files *input)
{
    const coffer__value top = coffer__pickle_root(graph->pickle);
    return coffer__text_ends(input->path, input->path_len, ".pdparams") ||
           coffer__text_ends(input->path, input->path_len, ".pdopt") ||
           coffer__pickle_get(graph->pickle, top, "StructuredToParameterName@@") != 0;
}

/* Loaders stop at the end of the pickle; another one after it is how a scanner is deceived. */
static coffer_status plain_note_rest(const coffer__reader_file *file, uint64_t end, coffer_error *err)
{
    if (end == file->size) {
        return COFFER_OK;
    }
    return coffer__import_plan_put_finding(file->plan, COFFER_WEIGHT_DANGER, file->file, end, "",
                                           "there are bytes after the end of the pickle", "", 0, err);
}

/* joblib writes the bytes of arrays between the opcodes, so that no other program can read its pickles; what stands
   before the first of them tells. */
static bool plain_is_joblib(const coffer__graph *graph)
{
    const size_t count = graph->pickle != NULL ? coffer__pickle_count(graph->pickle) : 0;
    for (coffer__value value = 1; value <= count; value++) {
        if (coffer__pickle_node(graph->pickle, value)->kind == COFFER__VALUE_GLOBAL &&
            coffer__same_text(coffer__pickle_module(graph->pickle, value), "joblib.numpy_pickle")) {
            return true;
        }
    }
    return false;
}

static coffer_status plain_read(coffer__graph *graph, const coffer__reader_file *file, coffer_error *err)
{
    uint64_t end = 0;
    graph->member = "";
    if (file->wants->scan) {
        const coffer__scan_range range = { .member = "", .size = file->size, .expected = 1 };
        return coffer__scan_pickles(file, &range, NULL, err);
    }
    const uint64_t size = file->embedded ? file->part : file->size;
    coffer_status status = coffer__pickle_file_load(graph, file, NULL, file->at, size, &end, err);
    /* What was built before the failure tells whose file it is, and makes a better message than the byte of
       the damage. */
    /*
     * joblib writes the bytes of arrays between the opcodes, after the objects that describe them: a pickle that
     * no pickle.load reads.
     */
    if (status == COFFER_ERR_PICKLE && plain_is_joblib(graph)) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED, "the file was written by joblib, which only joblib reads");
    }
    if (status == COFFER_OK) {
        /* Before the rows are put, as it decides what uint16 is. */
        graph->paddle = plain_is_paddle(graph, file->input);
        status = plain_note_rest(file, file->at + end, err);
    }
    if (status == COFFER_OK) {
        status = coffer__torch_find_within(graph, file, err);
    }
    if (status == COFFER_OK) {
        status = coffer__graph_put_rows(graph, err);
    }
    /* Parts are joined after the rows are put, because only then is it known which storage each one has. */
    if (status == COFFER_OK && graph->paddle) {
        status = plain_join_all(graph, err);
    }
    return status == COFFER_OK && graph->paddle ? plain_note_paddle(graph, err) : status;
}

/* Protocols 2 to 5 begin with their number, and loaders take any number up to 5 there. Those before have no signature, so
   the ending has to say so; readers.c asks the machine about what is left. */
static bool plain_sniff(const uint8_t *head, size_t head_size, const uint8_t *tail, size_t tail_size, const char *path,
                        size_t path_len)
{
    const bool named = coffer__text_ends(path, path_len, ".pkl") || coffer__text_ends(path, path_len, ".pickle") ||
                       coffer__text_ends(path, path_len, ".pdparams") || coffer__text_ends(path, path_len, ".pdopt");
    if (head_size >= 2 && head[0] == 0x80) {
        return (coffer__scan_is_pickle(head, head_size) || (named && head[1] <= 5)) &&
               !coffer__kind_is_tensors(head, head_size);
    }
    return named && head_size >= 2 && tail[tail_size - 1] == '.' &&
           (head[0] == '(' || head[0] == 'c' || head[0] == '}' || head[0] == ']');
}

coffer_status coffer__reader_pickle_at(const coffer__reader_file *file, coffer_error *err)
{
    coffer__graph graph = { 0 };
    const coffer_status status = plain_read(&graph, file, err);
    coffer__pickle_file_unload(&graph);
    return status;
}

static coffer_status plain_reader(const coffer__input_files *input, const coffer__wants *wants,
                                  coffer__import_plan *plan, coffer_error *err)
{
    const coffer__reader_file file = { .input = input, .wants = wants, .plan = plan, .size = input->size };
    const coffer_status status = coffer__pickle_file_put_format(plan, err);
    return status == COFFER_OK ? coffer__reader_pickle_at(&file, err) : status;
}

const coffer__reader coffer__reader_pickle = { "pickle", "a pickle of arrays", plain_sniff, plain_reader };
