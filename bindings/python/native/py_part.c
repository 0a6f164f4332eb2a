/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors and slices of them. A slice keeps one index for each dimension of its tensor, within bounds, so that slicing a slice
 * is arithmetic on those, and reading is one call of the library.
 */
#include "py_native.h"

#include <string.h>

void py_part_whole(py_part *part, const coffer_tensor *tensor)
{
    memset(part, 0, sizeof *part);
    part->tensor = tensor;
    part->rank = tensor->rank;
    part->size = tensor->size;
    part->offset = tensor->offset;
    part->contiguous = true;
}

void py_part_release(py_part *part)
{
    PyMem_Free(part->indices);
    PyMem_Free(part->own_shape);
}

const uint64_t *py_part_shape(const py_part *part)
{
    return part->indices == NULL ? part->tensor->shape : part->own_shape;
}

uint64_t py_part_elements(const py_part *part)
{
    const uint64_t *shape = py_part_shape(part);
    uint64_t elements = 1;
    for (size_t i = 0; i < part->rank; i++) {
        /* The product of the whole fits, but that of a shape with a 0 in it need not on the way there. */
        if (shape[i] == 0) {
            return 0;
        }
    }
    for (size_t i = 0; i < part->rank; i++) {
        elements *= shape[i];
    }
    return elements;
}

PyObject *py_shape_tuple(const uint64_t *shape, size_t rank)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)rank);
    for (size_t i = 0; tuple != NULL && i < rank; i++) {
        PyObject *length = PyLong_FromUnsignedLongLong(shape[i]);
        if (length == NULL || PyTuple_SetItem(tuple, (Py_ssize_t)i, length) < 0) {
            Py_CLEAR(tuple);
        }
    }
    return tuple;
}

PyObject *py_tensor_name(const coffer_tensor *tensor)
{
    return PyUnicode_FromStringAndSize(tensor->name, (Py_ssize_t)tensor->name_len);
}

PyObject *py_dtype_name(const py_state *state, const coffer_tensor *tensor)
{
    return tensor->dtype == COFFER_UNKNOWN_DTYPE ? PyUnicode_FromString(coffer_tensor_dtype_name(tensor))
                                                 : Py_NewRef(state->dtype_names[tensor->dtype]);
}

/* ---- One dimension ------------------------------------------------------------------------------------------------ */

static coffer_index part_range(int64_t start, int64_t step, uint64_t length)
{
    coffer_index range = { COFFER_INDEX_RANGE, true, true, 0, 0, 1 };
    if (length == 0) {
        return range;
    }
    const int64_t last = start + (int64_t)(length - 1) * step;
    range.start = start;
    range.step = length == 1 ? 1 : step;
    /* A negative stop would count from the end; without one the range goes down to 0. */
    range.has_stop = range.step > 0 || last > 0;
    range.stop = range.step > 0 ? last + 1 : last - 1;
    return range;
}

/* What `index` takes of a dimension that is `outer` (a range) of the tensor's own, `*length` elements of it. An integer drops the
   dimension. */
static int part_take(const py_state *state, const coffer_index *outer, uint64_t *length, PyObject *index,
                     size_t dimension, coffer_index *result)
{
    const Py_ssize_t size = (Py_ssize_t)*length;
    Py_ssize_t start = 0;
    Py_ssize_t stop = 0;
    Py_ssize_t step = 1;
    if (PySlice_Check(index)) {
        if (PySlice_Unpack(index, &start, &stop, &step) < 0) {
            return -1;
        }
        *length = (uint64_t)PySlice_AdjustIndices(size, &start, &stop, step);
        *result = part_range(outer->start + start * outer->step, *length < 2 ? 1 : outer->step * step, *length);
        return 0;
    }
    if (!PyIndex_Check(index)) {
        py_fail_call(PY_WRONG_TYPE, "a tensor's index is an int, a slice, ... or a tuple of these, not %R",
                     (PyObject *)Py_TYPE(index));
        return -1;
    }
    const Py_ssize_t at = PyNumber_AsSsize_t(index, PyExc_IndexError);
    if (at == -1 && PyErr_Occurred() != NULL) {
        return -1;
    }
    if (at < -size || at >= size) {
        py_fail(state, COFFER_ERR_INDEX, "index %lld is outside dimension %zu, whose length is %llu", (long long)at,
                dimension, (unsigned long long)*length);
        return -1;
    }
    *result = (coffer_index){ .kind = COFFER_INDEX_AT,
                              .start = outer->start + (at < 0 ? at + size : at) * outer->step,
                              .step = 1 };
    return 0;
}

/* ---- All of them -------------------------------------------------------------------------------------------------- */

/* The number of dimensions that the items of the index tuple name, and where its ellipsis is (or where one would be). */
static int part_count(const py_state *state, PyObject *items, size_t rank, size_t *named, size_t *ellipsis)
{
    const size_t count = (size_t)PyTuple_Size(items);
    *named = 0;
    *ellipsis = count;
    for (size_t i = 0; i < count; i++) {
        if (PyTuple_GetItem(items, (Py_ssize_t)i) != Py_Ellipsis) {
            ++*named;
        } else if (*ellipsis == count) {
            *ellipsis = i;
        } else {
            py_fail(state, COFFER_ERR_INDEX, "an index has at most one ellipsis");
            return -1;
        }
    }
    if (*named > rank) {
        py_fail(state, COFFER_ERR_INDEX, "%zu indices for %zu dimensions", *named, rank);
        return -1;
    }
    return 0;
}

/* The item of the tuple that is about dimension `i` of `rank`, borrowed; NULL for one that is taken whole. */
static PyObject *part_item(PyObject *items, size_t i, size_t rank, size_t named, size_t ellipsis)
{
    const size_t whole = rank - named;
    if (i < ellipsis) {
        return i < named ? PyTuple_GetItem(items, (Py_ssize_t)i) : NULL;
    }
    return i - ellipsis < whole ? NULL : PyTuple_GetItem(items, (Py_ssize_t)(i - whole + 1));
}

/* Fills the indices and the shape of a slice of `whole`. */
static int part_fill(const py_state *state, py_part *part, const py_part *whole, PyObject *items)
{
    size_t named = 0;
    size_t ellipsis = 0;
    if (part_count(state, items, whole->rank, &named, &ellipsis) < 0) {
        return -1;
    }
    const coffer_tensor *tensor = whole->tensor;
    const uint64_t *shape = py_part_shape(whole);
    size_t visible = 0;
    for (size_t i = 0; i < tensor->rank; i++) {
        if (whole->indices != NULL && whole->indices[i].kind == COFFER_INDEX_AT) {
            part->indices[i] = whole->indices[i];
            continue;
        }
        uint64_t length = shape[visible];
        if (length > PY_SSIZE_T_MAX) {
            py_fail(state, COFFER_ERR_INDEX, "dimension %zu is too long to be sliced", visible);
            return -1;
        }
        PyObject *item = part_item(items, visible, whole->rank, named, ellipsis);
        coffer_index all = part_range(0, 1, length);
        const coffer_index *outer = whole->indices == NULL ? &all : &whole->indices[i];
        if (item == NULL) {
            part->indices[i] = *outer;
        } else if (part_take(state, outer, &length, item, visible, &part->indices[i]) < 0) {
            return -1;
        }
        visible++;
        if (part->indices[i].kind != COFFER_INDEX_AT) {
            part->own_shape[part->rank++] = length;
        }
    }
    return 0;
}

/* Looks whether the part's bytes follow each other in the file, and from where on. That is so when, from the last dimension
   backwards, dimensions are whole up to one of which a run is taken, and of those before it a single index. */
static void part_place(py_part *part)
{
    const coffer_tensor *tensor = part->tensor;
    uint64_t stride = 1; /* elements */
    uint64_t first = 0;
    bool whole = true;
    size_t visible = part->rank;
    part->contiguous = true;
    part->offset = tensor->offset;
    if (part->size == 0) {
        return;
    }
    for (size_t i = tensor->rank; i-- > 0;) {
        const coffer_index *index = &part->indices[i];
        const uint64_t length = index->kind == COFFER_INDEX_AT ? 1 : part->own_shape[--visible];
        part->contiguous = part->contiguous && (length == 1 || (whole && index->step == 1));
        whole = whole && length == tensor->shape[i];
        first += (uint64_t)index->start * stride;
        stride *= tensor->shape[i];
    }
    const uint64_t bits = first * coffer_dtype_bits(tensor->dtype);
    part->contiguous = part->contiguous && bits % 8 == 0;
    part->offset += bits / 8;
}

int py_part_slice(const py_state *state, py_part *part, const py_part *whole, PyObject *index)
{
    const coffer_tensor *tensor = whole->tensor;
    memset(part, 0, sizeof *part);
    part->tensor = tensor;
    /* One more than needed: of a scalar, memory of 0 bytes would be as good as none. */
    part->indices = PyMem_Calloc((size_t)tensor->rank + 1, sizeof *part->indices);
    part->own_shape = PyMem_Calloc((size_t)tensor->rank + 1, sizeof *part->own_shape);
    PyObject *items = PyTuple_Check(index) ? Py_NewRef(index) : PyTuple_Pack(1, index);
    if (part->indices == NULL || part->own_shape == NULL) {
        PyErr_NoMemory();
    } else if (items != NULL && part_fill(state, part, whole, items) == 0) {
        coffer_error err;
        if (coffer_slice_shape(tensor, part->indices, tensor->rank, NULL, NULL, &part->size, &err) == COFFER_OK) {
            part_place(part);
            Py_DECREF(items);
            return 0;
        }
        py_raise(state, &err);
    }
    Py_XDECREF(items);
    py_part_release(part);
    return -1;
}

/* ---- Plain ones ---------------------------------------------------------------------------------------------------- */

/* Whether a bound of a slice, which was unpacked to PY_SSIZE_T_MAX, was left out rather than given. */
static bool part_is_open(PyObject *slice)
{
    PyObject *stop = PyObject_GetAttrString(slice, "stop");
    const bool open = stop == Py_None;
    Py_XDECREF(stop);
    return open;
}

/* Whether one item of an index is plain for a dimension of that length; -1 with an exception. */
static int part_is_plain(PyObject *item, Py_ssize_t length)
{
    Py_ssize_t start = 0;
    Py_ssize_t stop = 0;
    Py_ssize_t step = 0;
    if (PyLong_CheckExact(item)) {
        int overflow = 0;
        const long long at = PyLong_AsLongLongAndOverflow(item, &overflow);
        return overflow == 0 && at >= -(long long)length && at < length;
    }
    if (!PySlice_Check(item) || length == 0) {
        return 0;
    }
    if (PySlice_Unpack(item, &start, &stop, &step) < 0) {
        /* Whoever knows the framework's words says what is wrong. */
        if (PyErr_ExceptionMatches(PyExc_Exception)) {
            PyErr_Clear();
            return 0;
        }
        return -1;
    }
    /* A step that was too large for the number of its type may be one that the framework refuses. */
    return step > 0 && step < PY_SSIZE_T_MAX && start < length &&
           (stop <= length || (stop == PY_SSIZE_T_MAX && part_is_open(item)));
}

int py_part_slice_plainly(const py_state *state, py_part *part, const py_part *whole, PyObject *index)
{
    const coffer_tensor *tensor = whole->tensor;
    const bool sharded = PyTuple_Check(index);
    const size_t count = sharded ? (size_t)PyTuple_Size(index) : 1;
    if (count > tensor->rank || coffer_dtype_bits(tensor->dtype) % 8 != 0) {
        return 1;
    }
    for (size_t i = 0; i < count; i++) {
        PyObject *item = sharded ? PyTuple_GetItem(index, (Py_ssize_t)i) : index;
        const int plain = tensor->shape[i] > PY_SSIZE_T_MAX ? 0 : part_is_plain(item, (Py_ssize_t)tensor->shape[i]);
        if (plain <= 0) {
            return plain < 0 ? -1 : 1;
        }
    }
    return py_part_slice(state, part, whole, index);
}
