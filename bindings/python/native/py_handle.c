/* SPDX-License-Identifier: Apache-2.0 */
/* An opened model, shared by all that was handed out from it. */
#include "py_native.h"

#include <stdatomic.h>
#include <stdlib.h>

struct py_handle {
    atomic_size_t references;
    coffer *model;
    coffer_access access;
    bool is_memory;
    Py_buffer memory; /* when is_memory */
};

/* The exporter of the memory is a Python object, so this needs the GIL. After the interpreter's end nobody is left to give
   it back to. */
static void handle_give_back(Py_buffer *memory)
{
    if (!Py_IsInitialized()) {
        return;
    }
    const PyGILState_STATE gil = PyGILState_Ensure();
    PyBuffer_Release(memory);
    PyGILState_Release(gil);
}

py_handle *py_handle_new(coffer *model, coffer_access access, const Py_buffer *memory)
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
    if (handle->is_memory) {
        handle_give_back(&handle->memory);
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
