/* SPDX-License-Identifier: Apache-2.0 */
/* Buffer: memory that tensors were read into. */
#include "py_native.h"

typedef struct buffer_object {
    PyObject base;
    void *memory;
    size_t size;
} buffer_object;

PyObject *py_buffer_new(const py_state *state, void *memory, size_t size)
{
    buffer_object *self = PyObject_New(buffer_object, state->buffer_type);
    if (self == NULL) {
        py_memory_free(memory);
        return NULL;
    }
    self->memory = memory;
    self->size = size;
    return (PyObject *)self;
}

void *py_buffer_memory(PyObject *buffer)
{
    return ((buffer_object *)buffer)->memory;
}

static void buffer_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    buffer_object *buffer = (buffer_object *)self;
    py_memory_free(buffer->memory);
    PyObject_Free(self);
    Py_DECREF(type);
}

static int buffer_get(PyObject *self, Py_buffer *view, int flags)
{
    const buffer_object *buffer = (buffer_object *)self;
    return PyBuffer_FillInfo(view, self, buffer->memory, (Py_ssize_t)buffer->size, 0, flags);
}

static Py_ssize_t buffer_length(PyObject *self)
{
    return (Py_ssize_t)((buffer_object *)self)->size;
}

static PyObject *buffer_repr(PyObject *self)
{
    return PyUnicode_FromFormat("<coffer.Buffer: %zd bytes>", buffer_length(self));
}

PyTypeObject *py_buffer_make_type(PyObject *module)
{
    static PyType_Slot slots[] = {
        { Py_tp_doc, "Memory that tensors were read into, as writable bytes; in huge pages where it is large." },
        { Py_tp_dealloc, buffer_dealloc },
        { Py_tp_repr, buffer_repr },
        { Py_sq_length, buffer_length },
        { Py_bf_getbuffer, buffer_get },
        { 0, NULL },
    };
    static PyType_Spec spec = {
        .name = "coffer._native.Buffer",
        .basicsize = sizeof(buffer_object),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
        .slots = slots,
    };
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
