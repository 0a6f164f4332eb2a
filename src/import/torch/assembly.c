/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts fill boxes of a tensor, see plan.h. A part's bytes are in the order of its elements, or in that of a transposed
 * tensor: a program that has transposed a matrix and then cut it writes such parts. If all parts of a tensor are alike,
 * what is assembled of them is the transposed tensor, and the row is a view of that.
 *
 *   order   dimensions of the row as they are stored, the slowest first: 0 1 2, or 1 0 of a transposed matrix
 */
#include "assembly.h"

#include "error.h"

#include <string.h>

coffer_status coffer__assembly_begin(coffer__assembly *assembly, coffer__import_plan *plan, const coffer__wants *wants,
                                     const char *name, size_t name_len, size_t rank, const uint64_t *sizes,
                                     coffer_error *err)
{
    assembly->plan = plan;
    assembly->wants = wants;
    assembly->name = name;
    assembly->name_len = name_len;
    assembly->rank = rank;
    assembly->sizes = sizes;
    assembly->part_count = 0;
    assembly->whole = false;
    return coffer__import_plan_put_text(plan, name, name_len, &assembly->text, err);
}

/* `sentence` has %q for the tensor. */
static coffer_status assembly_fail(const coffer__assembly *assembly, coffer_status status, const char *sentence,
                                   coffer_error *err)
{
    coffer__fail(err, status, sentence, assembly->name, assembly->name_len);
    return coffer__fail_tensor(err, status, assembly->name, assembly->name_len);
}

/* ---- order --------------------------------------------------------------------------------------------------------- */

/* Whether the elements of a view follow each other without gaps when its dimensions are taken in this order. A dimension
   of one index may have any stride. */
static bool assembly_is_dense(const coffer__view *view, size_t rank, const uint8_t *order)
{
    uint64_t step = coffer__element_facts_of(view->element)->size;
    for (size_t i = rank; i > 0; i--) {
        const coffer__import_plan_dimension *dimension = &view->dimensions[order[i - 1]];
        if (dimension->count > 1 && (uint64_t)dimension->stride != step) {
            return false;
        }
        step *= dimension->count;
    }
    return true;
}

/* Finds the order of a view: that of its dimensions if that is dense, else by their strides, the longest first. */
static bool assembly_find_order(const coffer__view *view, size_t rank, uint8_t *order)
{
    for (size_t i = 0; i < rank; i++) {
        order[i] = (uint8_t)i;
    }
    if (assembly_is_dense(view, rank, order)) {
        return true;
    }
    for (size_t i = 1; i < rank; i++) {
        const uint8_t which = order[i];
        size_t place = i;
        for (; place > 0 && view->dimensions[order[place - 1]].stride < view->dimensions[which].stride; place--) {
            order[place] = order[place - 1];
        }
        order[place] = which;
    }
    return assembly_is_dense(view, rank, order);
}

/* ---- parts --------------------------------------------------------------------------------------------------------- */

/* Whether the box of a part lies within the tensor; *elements becomes whether it has any, *all whether it has all. */
static bool assembly_fits(const coffer__assembly *assembly, const uint64_t *starts, const coffer__view *view,
                          bool *elements, bool *all)
{
    *elements = true;
    *all = true;
    if (view->row.rank < assembly->rank) {
        return false;
    }
    for (size_t i = 0; i < assembly->rank; i++) {
        const uint64_t count = view->dimensions[i].count;
        if (starts[i] > assembly->sizes[i] || count > assembly->sizes[i] - starts[i]) {
            return false;
        }
        *elements = *elements && count > 0;
        *all = *all && count == assembly->sizes[i];
    }
    return true;
}

/* What is changed about the elements, and what they are, is the same in all parts, since there is one row for them. */
static bool assembly_is_alike(const coffer__assembly *assembly, const coffer__view *view)
{
    const coffer__import_plan_row *first = &assembly->view.row;
    return view->element == assembly->view.element && view->row.swap == first->swap && view->row.sign == first->sign &&
           view->row.rank == first->rank;
}

/* Puts a part that is not all of the tensor. What is assembled has its dimensions in the order of the bytes. */
static coffer_status assembly_put(coffer__assembly *assembly, const uint64_t *starts, const coffer__view *view,
                                  coffer_error *err)
{
    const coffer__import_plan *plan = assembly->plan;
    uint64_t begins[COFFER__PLAN_MAX_RANK] = { 0 };
    uint64_t counts[COFFER__PLAN_MAX_RANK] = { 0 };
    if (!coffer__import_plan_is_plain(plan, coffer__import_plan_storages(plan) + view->row.storage)) {
        return assembly_fail(assembly, COFFER_ERR_UNSUPPORTED,
                             "a part of tensor %q is compressed: only whole tensors may be", err);
    }
    for (size_t i = 0; i < assembly->rank; i++) {
        begins[i] = starts[assembly->order[i]];
        counts[i] = view->dimensions[assembly->order[i]].count;
    }
    assembly->part_count++;
    return coffer__import_plan_put_part(assembly->plan, view->row.storage, view->row.offset, (uint32_t)assembly->rank,
                                        begins, counts, err);
}

/* The first part decides what the others have to be. A second one beside one that is all of the tensor has nowhere to
   go. */
coffer_status coffer__assembly_add(coffer__assembly *assembly, const uint64_t *starts, const coffer__view *view,
                                   coffer_error *err)
{
    const bool first = assembly->part_count == 0 && !assembly->whole;
    bool elements = false;
    bool all = false;
    if (view->lack != NULL) {
        coffer__fail(err, COFFER_ERR_NO_EQUIVALENT, "tensor %q is %s, which safetensors cannot express", assembly->name,
                     assembly->name_len, view->lack);
        return coffer__fail_tensor(err, COFFER_ERR_NO_EQUIVALENT, assembly->name, assembly->name_len);
    }
    if (!assembly_fits(assembly, starts, view, &elements, &all)) {
        return assembly_fail(assembly, COFFER_ERR_VIEW, "a part of tensor %q does not lie within it", err);
    }
    if (!elements) {
        return COFFER_OK;
    }
    if (assembly->whole) {
        return assembly_fail(assembly, COFFER_ERR_VIEW, "one part of tensor %q is all of it, and there are others",
                             err);
    }
    if (first) {
        assembly->view = *view;
        assembly->whole = all;
    }
    if (first && !all && !assembly_find_order(view, assembly->rank, assembly->order)) {
        return assembly_fail(assembly, COFFER_ERR_UNSUPPORTED, "a part of tensor %q has gaps between its elements",
                             err);
    }
    if (assembly->whole) {
        return COFFER_OK;
    }
    if (!assembly_is_alike(assembly, view) || !assembly_is_dense(view, assembly->rank, assembly->order)) {
        return assembly_fail(assembly, COFFER_ERR_UNSUPPORTED,
                             "the parts of tensor %q are of several dtypes, or stored in several orders", err);
    }
    return assembly_put(assembly, starts, view, err);
}

/* ---- rows ---------------------------------------------------------------------------------------------------------- */

/* The dimensions of the row, as a view of what was assembled. One more than the tensor has is that of the halves of
   complex128. */
static void assembly_dimensions(coffer__assembly *assembly)
{
    coffer__view *view = &assembly->view;
    const bool pairs = view->element == COFFER__ELEMENT_F4_X2;
    uint64_t step = coffer__element_facts_of(view->element)->size;
    for (size_t i = assembly->rank; i > 0; i--) {
        const size_t d = assembly->order[i - 1];
        const uint64_t size = assembly->sizes[d];
        const bool doubled = pairs && d + 1 == assembly->rank;
        view->dimensions[d] = (coffer__import_plan_dimension){ .size = doubled ? 2 * size : size,
                                                               .count = size,
                                                               .stride = size > 1 ? (int64_t)step : 0 };
        step *= size;
    }
    view->row.offset = 0;
}

static coffer_status assembly_assemble(coffer__assembly *assembly, coffer_error *err)
{
    uint64_t sizes[COFFER__PLAN_MAX_RANK] = { 0 };
    for (size_t i = 0; i < assembly->rank; i++) {
        sizes[i] = assembly->sizes[assembly->order[i]];
    }
    const uint64_t item_size = coffer__element_facts_of(assembly->view.element)->size;
    const coffer_status status =
        coffer__import_plan_put_assembled(assembly->plan, assembly->part_count, (uint32_t)assembly->rank, sizes,
                                          item_size, assembly->text, &assembly->view.row.storage, err);
    if (status != COFFER_OK) {
        return coffer__fail_tensor(err, status, assembly->name, assembly->name_len);
    }
    assembly_dimensions(assembly);
    return COFFER_OK;
}

/* A tensor without parts, and without elements. */
static coffer_status assembly_empty(coffer__assembly *assembly, coffer__element element, coffer_error *err)
{
    const coffer__element_facts *facts = coffer__element_facts_of(element);
    bool empty = false;
    for (size_t i = 0; i < assembly->rank; i++) {
        empty = empty || assembly->sizes[i] == 0;
        assembly->order[i] = (uint8_t)i;
    }
    if (!empty) {
        return assembly_fail(assembly, COFFER_ERR_VIEW, "no part of tensor %q is there", err);
    }
    memset(&assembly->view, 0, sizeof assembly->view);
    assembly->view.element = element;
    assembly->view.row.dtype = facts->dtype;
    assembly->view.row.item_size = facts->size;
    assembly->view.row.rank = (uint32_t)assembly->rank;
    assembly_dimensions(assembly);
    return coffer__import_plan_put_storage(assembly->plan, 0, assembly->text, &assembly->view.row.storage, err);
}

coffer_status coffer__assembly_end(coffer__assembly *assembly, coffer__element element, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    if (assembly->part_count > 0) {
        status = assembly_assemble(assembly, err);
    } else if (!assembly->whole) {
        status = assembly_empty(assembly, element, err);
    }
    assembly->view.row.name = assembly->text;
    assembly->view.row.fate = COFFER_FATE_WRITTEN;
    return status == COFFER_OK
               ? coffer__import_plan_put_row(assembly->plan, &assembly->view.row, assembly->view.dimensions, err)
               : status;
}

coffer_status coffer__assembly_skip(coffer__import_plan *plan, const char *name, size_t name_len,
                                    coffer__element element, uint32_t reason, coffer_error *err)
{
    coffer__import_plan_row row = { .storage = COFFER__PLAN_NO_STORAGE, .fate = COFFER_FATE_SKIPPED, .reason = reason };
    row.dtype = coffer__element_facts_of(element)->dtype;
    const coffer_status status = coffer__import_plan_put_text(plan, name, name_len, &row.name, err);
    return status == COFFER_OK ? coffer__import_plan_put_row(plan, &row, NULL, err) : status;
}
