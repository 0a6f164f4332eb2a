/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a tensor's memory, lent without dtype and shape: what the memoryviews of Tensor.memory() are of. Nobody sees the object
   itself; it keeps the tensor, and so the memory. */
#include "py_native.h"

typedef struct lent_object {
    PyObject base;
    PyObject *owner;
    void *data;
    Py_ssize_t size;
    bool writable;
} lent_object;

static void lent_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_DECREF(((lent_object *)self)->owner);
    PyObject_Free(self);
    Py_DECREF(type);
}

static int lent_get_buffer(PyObject *object, Py_buffer *buffer, int flags)
{
    const lent_object *self = (lent_object *)object;
    return PyBuffer_FillInfo(buffer, object, self->data, self->size, !self->writable, flags);
}

PyObject *py_lent_memory(const py_state *state, PyObject *owner, void *data, Py_ssize_t size, bool writable)
{
    lent_object *self = PyObject_New(lent_object, state->lent_type);
    if (self == NULL) {
        return NULL;
    }
    self->owner = Py_NewRef(owner);
    self->data = data;
    self->size = size;
    self->writable = writable;
    PyObject *memory = PyMemoryView_FromObject((PyObject *)self);
    Py_DECREF(self);
    return memory;
}

PyTypeObject *py_lent_make_type(PyObject *module)
{
    static PyType_Slot slots[] = {
        { Py_tp_doc, "A tensor's bytes." },
        { Py_tp_dealloc, lent_dealloc },
        { Py_bf_getbuffer, lent_get_buffer },
        { 0, NULL },
    };
    static PyType_Spec spec = {
        .name = "coffer._native._Lent",
        .basicsize = sizeof(lent_object),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
        .slots = slots,
    };
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
