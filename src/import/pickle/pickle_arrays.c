/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays of NumPy within pickles, whose bytes are in the pickle itself:
 *
 *   _reconstruct(ndarray, (0,), b"b"), with the state (version, shape, dtype, is_fortran, bytes); without the version
 *                                      in the oldest
 *   _frombuffer(bytes, dtype, shape, order[, axes])    protocol 5; order "C" or "F", or "K" with the axes by which the
 *                                                      row-major array is transposed
 *   dtype("f4", False, True), with the state (3, "<", subdtype, names, fields, …). ml_dtypes have a class for the text
 *
 * Protocols 0 to 2 have no bytes: they are the text that latin-1 makes of them, in a call of _codecs.encode; from Python 2
 * they are its strings, which protocol 0 has as lines with escapes.
 *
 * These are what numpy's ndarray.__reduce__ and __reduce_ex__ give. The array's bytes become a storage of the plan,
 * at the place in the file where the pickle has them: nothing is copied, however large they are. Shape, dtype and the
 * number of bytes come from three different places of the pickle, so their agreement is checked before a view is made.
 */
#include "pickle_views.h"

#include "checked.h"
#include "error.h"
#include "npy_header.h"
#include "pickle_text.h"
#include "text.h"

#include <string.h>

static coffer_status array_malformed(const coffer__graph *graph, coffer__value value, const char *what,
                                     coffer_error *err)
{
    return coffer__fail_at(err, COFFER_ERR_ARRAY, coffer__graph_place(graph, value),
                           "the pickle describes an array in a way that no program writes: %s", what);
}

/* ---- dtypes -------------------------------------------------------------------------------------------------------- */

/* The code of a dtype, "f4", as in the header of a .npy file: one table serves both. */
static coffer__element array_element(const coffer__graph *graph, coffer__value text)
{
    size_t size = 0;
    const char *code = coffer__pickle_bytes_of(graph->pickle, text, &size);
    return code == NULL ? COFFER__ELEMENT_NONE : coffer__numpy_element(code, size);
}

/* Whether a dtype is a structure: a state that has a subdtype, names or fields. */
static bool array_is_structure(const coffer__graph *graph, const coffer__value *state)
{
    for (size_t i = 2; i < 5; i++) {
        const coffer__node *node = coffer__pickle_node(graph->pickle, state[i]);
        if (node != NULL && node->kind != COFFER__VALUE_NONE) {
            return true;
        }
    }
    return false;
}

/* The element and the order of bytes of a dtype. One that has no equivalent leaves a lack, and no element. */
static coffer_status array_dtype(const coffer__graph *graph, coffer__value dtype, coffer__view *view, coffer_error *err)
{
    coffer__value arguments[1] = { 0 };
    coffer__value state[5] = { 0 };
    if (coffer__graph_known_call(graph, dtype).meaning != COFFER__MEANS_NUMPY_DTYPE) {
        return array_malformed(graph, dtype, "its dtype is not a dtype", err);
    }
    coffer__graph_items(graph, coffer__graph_arguments(graph, dtype), arguments, 1);
    coffer__graph_items(graph, coffer__node_state(coffer__pickle_node(graph->pickle, dtype)), state, 5);
    const coffer__known known = coffer__graph_known(graph, arguments[0]);
    view->element = known.meaning == COFFER__MEANS_DTYPE ? known.element : array_element(graph, arguments[0]);
    if (view->element == COFFER__ELEMENT_NONE || array_is_structure(graph, state)) {
        view->element = COFFER__ELEMENT_NONE;
        view->lack = "an array of objects, texts, dates or structures";
        return COFFER_OK;
    }
    if (graph->paddle && view->element == COFFER__ELEMENT_U16) {
        view->element = COFFER__ELEMENT_BF16; /* Paddle has no uint16, and NumPy no bfloat16 */
    }
    /* NumPy resolves "=" to "<" or ">" before it pickles, so ">" alone tells that bytes are to be swapped. */
    const size_t unit = coffer__element_facts_of(view->element)->unit;
    const bool swapped = coffer__graph_is_text(graph, state[1], ">");
    view->row.swap = (uint8_t)(swapped && unit > 1 ? unit : 0);
    return COFFER_OK;
}

/* ---- bytes --------------------------------------------------------------------------------------------------------- */

/* What holds an array's bytes: a value whose node says where they are; 0 for none at all. Calls of bytes and bytearray
   without arguments are how protocol 2 writes that. */
static bool array_bytes(const coffer__graph *graph, coffer__value value, coffer__value *bytes, bool *latin1)
{
    /* At most bytearray(bytes(encode(…))): a wrapper within a wrapper within a wrapper is of no program. */
    for (size_t i = 0; i < 3; i++) {
        const coffer__node *node = coffer__pickle_node(graph->pickle, value);
        if (node == NULL) {
            return false;
        }
        if (node->kind == COFFER__VALUE_BYTES) {
            *bytes = value;
            *latin1 = node->as.bytes.latin1;
            return true;
        }
        coffer__value parts[2] = { 0 };
        const coffer__meaning meaning = coffer__graph_known_call(graph, value).meaning;
        const size_t count = coffer__graph_items(graph, coffer__graph_arguments(graph, value), parts, 2);
        if (meaning == COFFER__MEANS_BYTES && count == 0) {
            *bytes = 0;
            return true;
        }
        if (meaning == COFFER__MEANS_ENCODE && coffer__pickle_node(graph->pickle, parts[0]) != NULL &&
            coffer__pickle_node(graph->pickle, parts[0])->kind == COFFER__VALUE_TEXT &&
            coffer__graph_is_text(graph, parts[1], "latin1")) {
            *bytes = parts[0];
            *latin1 = true;
            return true;
        }
        if (meaning != COFFER__MEANS_BYTES) {
            return false;
        }
        value = parts[0];
    }
    return false;
}

/* Whether so many bytes can be stored as many times as the piece says. Of those that are written as text only bounds are
   known before they are decoded: of latin-1 each takes one or two bytes of UTF-8. */
static bool array_fits(const coffer__import_plan_piece *piece)
{
    if (piece->coding == COFFER__CODING_STORED) {
        return piece->stored_size == piece->size;
    }
    return piece->coding == COFFER__CODING_LATIN1
               ? piece->stored_size >= piece->size && piece->stored_size - piece->size <= piece->size
               : coffer__pickle_text_fits(piece->coding == COFFER__CODING_QUOTED, piece->stored_size, piece->size);
}

/* Makes a storage of bytes within the pickle, once for each value. */
static coffer_status array_hold(coffer__graph *graph, coffer__value value, coffer__value bytes, bool latin1,
                                uint64_t size, uint32_t *storage, coffer_error *err)
{
    coffer__import_plan_piece piece = coffer__graph_piece(graph, bytes, latin1);
    piece.size = size;
    if (!array_fits(&piece)) {
        coffer__fail_at(err, COFFER_ERR_ARRAY, coffer__graph_place(graph, value),
                        "an array needs %u bytes, and its pickle has %u", size, piece.stored_size);
        return coffer__fail_sizes(err, COFFER_ERR_ARRAY, size, piece.stored_size);
    }
    /* A memo may give the same bytes to two arrays, or a walk may come by the same array twice: one storage
       serves both. */
    if (bytes != 0 && graph->held[bytes] != 0) {
        *storage = graph->held[bytes] - 1;
        const bool same = coffer__import_plan_storages(graph->plan)[*storage].size == size;
        return same ? COFFER_OK : array_malformed(graph, value, "two arrays of different sizes share bytes", err);
    }
    static const char prefix[] = "bytes at ";
    char name[32];
    memcpy(name, prefix, sizeof prefix - 1);
    const size_t name_len = sizeof prefix - 1 + coffer__write_u64(name + sizeof prefix - 1, piece.offset);
    uint32_t text = 0;
    coffer_status status = coffer__import_plan_put_text(graph->plan, name, name_len, &text, err);
    if (status == COFFER_OK && size > 0) {
        status = coffer__import_plan_put_piece(graph->plan, &piece, err);
    }
    if (status == COFFER_OK) {
        status = coffer__import_plan_put_storage(graph->plan, size > 0 ? 1 : 0, text, storage, err);
    }
    if (status == COFFER_OK && bytes != 0) {
        graph->held[bytes] = *storage + 1;
    }
    return status;
}

/* ---- arrays -------------------------------------------------------------------------------------------------------- */

/* What both functions say of an array. */
typedef struct array_parts {
    coffer__value shape;
    coffer__value dtype;
    coffer__value bytes;
    coffer__value axes; /* 0: none */
    bool fortran;
} array_parts;

/* The state of _reconstruct. From the right, since it is the version in front that may be missing. */
static bool array_of_state(const coffer__graph *graph, coffer__value value, array_parts *parts)
{
    coffer__value state[5] = { 0 };
    const coffer__value tuple = coffer__node_state(coffer__pickle_node(graph->pickle, value));
    const size_t count = coffer__graph_items(graph, tuple, state, 5);
    const size_t first = count == 5 ? 1 : 0;
    if (count != 4 && count != 5) {
        return false;
    }
    const coffer__node *order = coffer__pickle_node(graph->pickle, state[first + 2]);
    *parts = (array_parts){ .shape = state[first], .dtype = state[first + 1], .bytes = state[first + 3] };
    parts->fortran = order != NULL && (order->kind == COFFER__VALUE_BOOL || order->kind == COFFER__VALUE_INT) &&
                     order->as.integer != 0;
    return true;
}

/* The arguments of _frombuffer, which has no state. */
static bool array_of_buffer(const coffer__graph *graph, coffer__value value, array_parts *parts)
{
    coffer__value arguments[5] = { 0 };
    const size_t count = coffer__graph_items(graph, coffer__graph_arguments(graph, value), arguments, 5);
    *parts = (array_parts){ .bytes = arguments[0], .dtype = arguments[1], .shape = arguments[2] };
    if (count < 4 || count > 5) {
        return false;
    }
    if (coffer__graph_is_text(graph, arguments[3], "K") && count == 5) {
        const coffer__node *axes = coffer__pickle_node(graph->pickle, arguments[4]);
        parts->axes = axes->kind == COFFER__VALUE_NONE ? 0 : arguments[4];
        return true;
    }
    parts->fortran = coffer__graph_is_text(graph, arguments[3], "F");
    return parts->fortran || coffer__graph_is_text(graph, arguments[3], "C");
}

/* Strides in elements of a whole array, and its number of bytes; false when that is beyond 2^64-1. */
static bool array_strides(coffer__extents *extents, bool fortran, uint64_t item_size, uint64_t *size)
{
    uint64_t step = 1;
    for (size_t i = 0; i < extents->rank; i++) {
        const size_t axis = fortran ? i : extents->rank - 1 - i;
        extents->strides[axis] = step;
        if (!coffer__mul_u64(step, extents->sizes[axis], &step)) {
            return false;
        }
    }
    return coffer__mul_u64(step, item_size, size);
}

/* numpy.transpose: dimension i of the result is dimension axes[i] of the array. */
static bool array_transpose(const coffer__graph *graph, coffer__value axes, coffer__extents *extents)
{
    const coffer__extents from = *extents;
    uint64_t order[COFFER__PLAN_MAX_RANK];
    uint64_t seen = 0;
    size_t count = 0;
    if (!coffer__view_numbers(graph, axes, order, &count) || count != from.rank) {
        return false;
    }
    /* Each axis has to come exactly once; a bit for each, which the bound on ranks leaves space for. */
    for (size_t i = 0; i < count; i++) {
        if (order[i] >= count || (seen >> order[i] & 1) != 0) {
            return false;
        }
        seen |= (uint64_t)1 << order[i];
        extents->sizes[i] = from.sizes[order[i]];
        extents->strides[i] = from.strides[order[i]];
    }
    return true;
}

/* What the array lacks is found before its bytes: an array of objects has a list in their place. One within a
   compressed pickle has no place in the file, so it can be named but not written. */
coffer_status coffer__view_of_array(coffer__graph *graph, coffer__value value, coffer__view *view, coffer_error *err)
{
    array_parts parts = { 0 };
    coffer__extents extents = { 0 };
    uint64_t size = 0;
    const bool by_state = coffer__graph_known_call(graph, value).meaning == COFFER__MEANS_RECONSTRUCT;
    if (!(by_state ? array_of_state(graph, value, &parts) : array_of_buffer(graph, value, &parts))) {
        return array_malformed(graph, value, "its state", err);
    }
    coffer_status status = array_dtype(graph, parts.dtype, view, err);
    if (status != COFFER_OK || view->lack != NULL) {
        return status;
    }
    if (!coffer__view_numbers(graph, parts.shape, extents.sizes, &extents.rank) ||
        !array_strides(&extents, parts.fortran, coffer__element_facts_of(view->element)->size, &size) ||
        (parts.axes != 0 && !array_transpose(graph, parts.axes, &extents))) {
        return array_malformed(graph, value, "its shape", err);
    }
    if (graph->packed) {
        view->lack = "an array within a compressed pickle";
        return COFFER_OK;
    }
    coffer__value bytes = 0;
    bool latin1 = false;
    if (!array_bytes(graph, parts.bytes, &bytes, &latin1)) {
        return array_malformed(graph, value, "its bytes are not bytes", err);
    }
    status = array_hold(graph, value, bytes, latin1, size, &view->row.storage, err);
    return status == COFFER_OK ? coffer__view_fill(graph, value, view, &extents, size, err) : status;
}
