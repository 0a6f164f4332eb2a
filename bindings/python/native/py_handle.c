/* SPDX-License-Identifier: Apache-2.0 */
/* An opened model, shared by all that was handed out from it. */
#include "py_native.h"

#include <stdatomic.h>
#include <stdlib.h>

struct py_handle {
    atomic_size_t references;
    coffer *model;
    coffer_access access;
    bool verifies;
    bool remote;
    bool is_memory;
    Py_buffer memory; /* when is_memory */
    PyObject *origin; /* NULL: it was not opened by a path */
};

/* Python objects need the GIL. After the interpreter's end nobody is left to give them back to. */
static void handle_give_back(py_handle *handle)
{
    if (!Py_IsInitialized()) {
        return;
    }
    const PyGILState_STATE gil = PyGILState_Ensure();
    if (handle->is_memory) {
        PyBuffer_Release(&handle->memory);
    }
    Py_CLEAR(handle->origin);
    PyGILState_Release(gil);
}

py_handle *py_handle_new(coffer *model, coffer_access access, bool verifies, bool remote, const Py_buffer *memory)
{
    py_handle *handle = calloc(1, sizeof *handle);
    if (handle == NULL) {
        coffer_close(model);
        if (memory != NULL) {
            Py_buffer copy = *memory;
            PyBuffer_Release(&copy);
        }
        PyErr_NoMemory();
        return NULL;
    }
    atomic_init(&handle->references, 1);
    handle->model = model;
    handle->access = access;
    handle->verifies = verifies;
    handle->remote = remote;
    handle->is_memory = memory != NULL;
    if (memory != NULL) {
        handle->memory = *memory;
    }
    return handle;
}

py_handle *py_handle_retain(py_handle *handle)
{
    atomic_fetch_add_explicit(&handle->references, 1, memory_order_relaxed);
    return handle;
}

void py_handle_release(py_handle *handle)
{
    if (handle == NULL || atomic_fetch_sub_explicit(&handle->references, 1, memory_order_acq_rel) != 1) {
        return;
    }
    coffer_close(handle->model);
    if (handle->is_memory || handle->origin != NULL) {
        handle_give_back(handle);
    }
    free(handle);
}

coffer *py_handle_model(const py_handle *handle)
{
    return handle->model;
}

coffer_access py_handle_access(const py_handle *handle)
{
    return handle->access;
}

bool py_handle_verifies(const py_handle *handle)
{
    return handle->verifies;
}

bool py_handle_is_remote(const py_handle *handle)
{
    return handle->remote;
}

PyObject *py_handle_origin(const py_handle *handle)
{
    return handle->origin;
}

void py_handle_set_origin(py_handle *handle, PyObject *origin)
{
    PyObject *before = handle->origin;
    handle->origin = origin;
    Py_XDECREF(before);
}
