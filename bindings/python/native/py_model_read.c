/* SPDX-License-Identifier: Apache-2.0 */
/* Model: many tensors in one call. Everything is prepared first, then all that has to be read is read at once. */
#include "py_model.h"

#include <string.h>

static int choice_all(py_choice *choice, const coffer *model)
{
    choice->count = coffer_count(model);
    choice->tensors = PyMem_Calloc(choice->count + 1, sizeof *choice->tensors);
    if (choice->tensors == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < choice->count; i++) {
        choice->tensors[i] = coffer_at(model, i);
    }
    return 0;
}

static int choice_named(const py_state *state, py_choice *choice, const py_handle *handle, PyObject *names)
{
    PyObject *list = PySequence_Tuple(names);
    if (list == NULL) {
        return -1;
    }
    choice->count = (size_t)PyTuple_Size(list);
    choice->tensors = PyMem_Calloc(choice->count + 1, sizeof *choice->tensors);
    if (choice->tensors == NULL) {
        PyErr_NoMemory();
    }
    for (size_t i = 0; choice->tensors != NULL && i < choice->count; i++) {
        choice->tensors[i] = py_find(state, handle, PyTuple_GetItem(list, (Py_ssize_t)i));
        if (choice->tensors[i] == NULL) {
            PyMem_Free(choice->tensors);
            choice->tensors = NULL;
        }
    }
    Py_DECREF(list);
    return choice->tensors == NULL ? -1 : 0;
}

int py_choice_init(const py_state *state, py_choice *choice, const py_handle *handle, PyObject *names)
{
    return names == Py_None ? choice_all(choice, py_handle_model(handle)) : choice_named(state, choice, handle, names);
}

/* ---- Views of them, read or mapped --------------------------------------------------------------------------------- */

static void views_free(py_view *views, size_t count)
{
    for (size_t i = 0; views != NULL && i < count; i++) {
        py_view_release(&views[i]);
    }
    PyMem_Free(views);
}

/* Prepares a view of each, and notes in `targets` what has to be read; the number of those, or -1. */
static Py_ssize_t views_prepare(const py_state *state, py_view *views, coffer_read_target *targets, py_handle *handle,
                                const py_choice *choice, bool copy)
{
    size_t unread = 0;
    uint64_t total = 0;
    for (size_t i = 0; i < choice->count; i++) {
        total += choice->tensors[i]->size;
    }
    const bool reads = copy || py_handle_access(handle) == COFFER_READ;
    py_pages pages = py_pages_for(reads ? total : 0);
    for (size_t i = 0; i < choice->count; i++) {
        py_part part;
        py_part_whole(&part, choice->tensors[i]);
        bool in_map = false;
        if (py_view_prepare(state, &views[i], handle, &part, copy, &pages, &in_map) < 0) {
            return -1;
        }
        if (!in_map) {
            targets[unread++] = (coffer_read_target){ part.tensor, views[i].data, part.size };
        }
    }
    return (Py_ssize_t)unread;
}

/* A view of each tensor; NULL and an exception on failure. */
static py_view *views_new(const py_state *state, py_handle *handle, const py_choice *choice, bool copy,
                          PyObject *progress, unsigned threads)
{
    py_view *views = PyMem_Calloc(choice->count + 1, sizeof *views);
    coffer_read_target *targets = PyMem_Calloc(choice->count + 1, sizeof *targets);
    Py_ssize_t unread = -1;
    if (views == NULL || targets == NULL) {
        PyErr_NoMemory();
    } else {
        unread = views_prepare(state, views, targets, handle, choice, copy);
    }
    if (unread > 0 && py_read_targets(state, handle, targets, (size_t)unread, progress, threads) < 0) {
        unread = -1;
    }
    PyMem_Free(targets);
    if (unread < 0) {
        views_free(views, choice->count);
        return NULL;
    }
    return views;
}

/* ---- read_many ----------------------------------------------------------------------------------------------------- */

/* A list of Buffers that take over the views' memory. */
static PyObject *views_to_buffers(const py_state *state, py_view *views, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list != NULL && i < count; i++) {
        PyObject *buffer = py_buffer_new(state, views[i].owned, views[i].owned_size);
        views[i].owned = NULL;
        if (buffer == NULL || PyList_SetItem(list, (Py_ssize_t)i, buffer) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

PyObject *py_model_read_many(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = { "names", "progress", "threads", NULL };
    PyObject *names = Py_None;
    PyObject *progress = Py_None;
    unsigned threads = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O$OI:read_many", keywords, &names, &progress, &threads)) {
        return NULL;
    }
    py_handle *handle = py_model_use(self);
    if (handle == NULL) {
        return NULL;
    }
    const py_state *state = py_state_of(self);
    py_choice choice = { NULL, 0 };
    py_view *views = NULL;
    PyObject *list = NULL;
    if (py_choice_init(state, &choice, handle, names) == 0) {
        views = views_new(state, handle, &choice, true, progress, threads);
    }
    if (views != NULL) {
        list = views_to_buffers(state, views, choice.count);
    }
    views_free(views, choice.count);
    PyMem_Free(choice.tensors);
    py_handle_release(handle);
    return list;
}

/* ---- parts --------------------------------------------------------------------------------------------------------- */

/* Makes something of a part, which it takes over. */
typedef PyObject *(*part_maker)(const py_state *state, py_handle *handle, py_part *part);

/* What `make` makes of a tensor, or of the part of it that an index names plainly: None for another index. */
static PyObject *with_part(PyObject *self, PyObject *name, PyObject *index, part_maker make)
{
    const py_state *state = py_state_of(self);
    py_handle *handle = py_model_use(self);
    const coffer_tensor *tensor = handle == NULL ? NULL : py_find(state, handle, name);
    PyObject *result = NULL;
    if (tensor != NULL) {
        py_part whole;
        py_part part;
        py_part_whole(&whole, tensor);
        part = whole;
        const int other = index == NULL ? 0 : py_part_slice_plainly(state, &part, &whole, index);
        if (other > 0) {
            result = Py_NewRef(Py_None);
        } else if (other == 0) {
            result = make(state, handle, &part);
        }
    }
    py_handle_release(handle);
    return result;
}

/* ---- array --------------------------------------------------------------------------------------------------------- */

/* The dtype, the shape and the bytes of a part, in memory of their own. */
static PyObject *array_of(const py_state *state, py_handle *handle, py_part *part)
{
    py_view view;
    if (py_view_init(state, &view, handle, part, true) < 0) {
        py_part_release(part);
        return NULL;
    }
    PyObject *dtype = py_dtype_name(state, part->tensor);
    PyObject *shape = py_shape_tuple(py_part_shape(part), part->rank);
    PyObject *buffer = py_buffer_new(state, view.owned, view.owned_size);
    PyObject *result = dtype == NULL || shape == NULL || buffer == NULL ? NULL : PyTuple_Pack(3, dtype, shape, buffer);
    Py_XDECREF(dtype);
    Py_XDECREF(shape);
    Py_XDECREF(buffer);
    py_part_release(part);
    return result;
}

PyObject *py_model_array(PyObject *self, PyObject *args)
{
    PyObject *name = NULL;
    PyObject *index = NULL;
    return PyArg_ParseTuple(args, "O|O:array", &name, &index) ? with_part(self, name, index, array_of) : NULL;
}

/* ---- read_into ----------------------------------------------------------------------------------------------------- */

static int target_init(const py_state *state, const py_handle *handle, PyObject *pair, coffer_read_target *target,
                       Py_buffer *buffer)
{
    PyObject *items[2];
    if (py_unpack(pair, "a target is a pair of a name and a buffer", items, 2) < 0) {
        return -1;
    }
    target->tensor = py_find(state, handle, items[0]);
    if (target->tensor == NULL) {
        return -1;
    }
    if (!py_given_buffer(items[1], target->tensor->dtype, true, buffer)) {
        py_fail_call(PY_WRONG_TYPE, "tensors are read into writable contiguous buffers of bytes, or of their dtypes");
        return -1;
    }
    target->buffer = buffer->buf;
    target->buffer_size = (uint64_t)buffer->len;
    return 0;
}

static int read_into(const py_state *state, const py_handle *handle, PyObject *pairs, PyObject *progress,
                     unsigned threads)
{
    const size_t count = (size_t)PyTuple_Size(pairs);
    coffer_read_target *targets = PyMem_Calloc(count + 1, sizeof *targets);
    Py_buffer *buffers = PyMem_Calloc(count + 1, sizeof *buffers);
    size_t ready = 0;
    int result = -1;
    if (targets == NULL || buffers == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    while (ready < count) {
        PyObject *pair = PyTuple_GetItem(pairs, (Py_ssize_t)ready);
        if (target_init(state, handle, pair, &targets[ready], &buffers[ready]) < 0) {
            goto done;
        }
        ready++;
    }
    result = py_read_targets(state, handle, targets, count, progress, threads);
done:
    while (ready > 0) {
        PyBuffer_Release(&buffers[--ready]);
    }
    PyMem_Free(buffers);
    PyMem_Free(targets);
    return result;
}

PyObject *py_model_read_into(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = { "targets", "progress", "threads", NULL };
    PyObject *targets = NULL;
    PyObject *progress = Py_None;
    unsigned threads = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OI:read_into", keywords, &targets, &progress, &threads)) {
        return NULL;
    }
    py_handle *handle = py_model_use(self);
    PyObject *pairs = handle == NULL ? NULL : PySequence_Tuple(targets);
    const int result = pairs == NULL ? -1 : read_into(py_state_of(self), handle, pairs, progress, threads);
    Py_XDECREF(pairs);
    py_handle_release(handle);
    return result < 0 ? NULL : Py_NewRef(Py_None);
}

PyObject *py_model_plain_part(PyObject *self, PyObject *args)
{
    PyObject *name = NULL;
    PyObject *index = NULL;
    return PyArg_ParseTuple(args, "OO:plain_part", &name, &index) ? with_part(self, name, index, py_tensor_new_part)
                                                                  : NULL;
}

/* ---- dlpack_many --------------------------------------------------------------------------------------------------- */

/* Marks the dtypes that `names` names; those that DLPack has not are marked anyway. */
static int mark_bytes(const py_state *state, bool *as_bytes, PyObject *names)
{
    for (size_t i = 0; i <= COFFER_DTYPE_COUNT; i++) {
        const int found = i == 0 ? 0 : PySequence_Contains(names, state->dtype_names[i]);
        if (found < 0) {
            return -1;
        }
        as_bytes[i] = found != 0 || !py_dlpack_knows((coffer_dtype)i);
    }
    return 0;
}

/* A list of capsules that take over the views. */
static PyObject *views_to_capsules(py_view *views, const py_choice *choice, const bool *as_bytes)
{
    PyObject *list = PyList_New((Py_ssize_t)choice->count);
    for (size_t i = 0; list != NULL && i < choice->count; i++) {
        py_part part;
        py_part_whole(&part, choice->tensors[i]);
        PyObject *capsule = py_dlpack_capsule(&views[i], &part, as_bytes[part.tensor->dtype], false, false);
        memset(&views[i], 0, sizeof views[i]);
        if (capsule == NULL || PyList_SetItem(list, (Py_ssize_t)i, capsule) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

PyObject *py_model_dlpack_many(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = { "names", "as_bytes", "copy", "progress", "threads", NULL };
    PyObject *names = Py_None;
    PyObject *bytes_names = NULL;
    int copy = 0;
    PyObject *progress = Py_None;
    unsigned threads = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O$OpOI:dlpack_many", keywords, &names, &bytes_names, &copy,
                                     &progress, &threads)) {
        return NULL;
    }
    const py_state *state = py_state_of(self);
    bool as_bytes[COFFER_DTYPE_COUNT + 1];
    PyObject *marked = bytes_names == NULL ? PyTuple_New(0) : PySequence_Tuple(bytes_names);
    const int failed = marked == NULL ? -1 : mark_bytes(state, as_bytes, marked);
    Py_XDECREF(marked);
    py_handle *handle = failed ? NULL : py_model_use(self);
    if (handle == NULL) {
        return NULL;
    }
    /* Consumers of plain capsules take the memory for writable. */
    const bool must_copy = copy || py_handle_access(handle) != COFFER_MAP_PRIVATE;
    py_choice choice = { NULL, 0 };
    py_view *views = NULL;
    PyObject *list = NULL;
    if (py_choice_init(state, &choice, handle, names) == 0) {
        views = views_new(state, handle, &choice, must_copy, progress, threads);
    }
    if (views != NULL) {
        list = views_to_capsules(views, &choice, as_bytes);
    }
    views_free(views, choice.count);
    PyMem_Free(choice.tensors);
    py_handle_release(handle);
    return list;
}
