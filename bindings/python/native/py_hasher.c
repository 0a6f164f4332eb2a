/* SPDX-License-Identifier: Apache-2.0 */
/* Hasher: digests of bytes that come in pieces. */
#include "py_native.h"

typedef struct hasher_object {
    PyObject base;
    coffer_hasher *hasher;
    size_t size; /* of a digest */
} hasher_object;

static PyObject *hasher_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "algorithm", NULL };
    const py_state *state = PyType_GetModuleState(type);
    const char *name = NULL;
    coffer_algorithm algorithm = COFFER_NO_ALGORITHM;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s:Hasher", names, &name) ||
        py_algorithm_from(state, name, &algorithm) < 0) {
        return NULL;
    }
    hasher_object *self = PyObject_New(hasher_object, type);
    coffer_error err;
    if (self == NULL) {
        return NULL;
    }
    self->hasher = NULL;
    self->size = coffer_algorithm_digest_size(algorithm);
    if (coffer_hasher_new(&self->hasher, algorithm, coffer_libc_allocator(), &err) != COFFER_OK) {
        py_raise(state, &err);
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static void hasher_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    coffer_hasher_free(((hasher_object *)object)->hasher);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyObject *hasher_update(PyObject *object, PyObject *data)
{
    hasher_object *self = (hasher_object *)object;
    Py_buffer buffer;
    if (PyObject_GetBuffer(data, &buffer, PyBUF_C_CONTIGUOUS) < 0) {
        return NULL;
    }
    coffer_status status = COFFER_OK;
    coffer_error err;
    Py_BEGIN_ALLOW_THREADS status = coffer_hasher_update(self->hasher, buffer.buf, (size_t)buffer.len, &err);
    Py_END_ALLOW_THREADS PyBuffer_Release(&buffer);
    return status == COFFER_OK ? Py_NewRef(Py_None) : py_raise(py_state_of(object), &err);
}

static PyObject *hasher_finish(PyObject *object, PyObject *unused)
{
    (void)unused;
    hasher_object *self = (hasher_object *)object;
    uint8_t digest[COFFER_LARGEST_DIGEST_SIZE];
    coffer_error err;
    if (coffer_hasher_finish(self->hasher, digest, self->size, &err) != COFFER_OK) {
        return py_raise(py_state_of(object), &err);
    }
    return PyBytes_FromStringAndSize((const char *)digest, (Py_ssize_t)self->size);
}

static PyMethodDef hasher_methods[] = {
    { "update", hasher_update, METH_O, "Takes more bytes." },
    { "finish", hasher_finish, METH_NOARGS, "The digest of all bytes since the last one." },
    { NULL, NULL, 0, NULL },
};

PyTypeObject *py_hasher_make_type(PyObject *module)
{
    static PyType_Slot slots[] = {
        { Py_tp_doc, "Computes digests of bytes that come in pieces. For one thread at a time." },
        { Py_tp_new, hasher_new },
        { Py_tp_dealloc, hasher_dealloc },
        { Py_tp_methods, hasher_methods },
        { 0, NULL },
    };
    static PyType_Spec spec = {
        .name = "coffer._native.Hasher",
        .basicsize = sizeof(hasher_object),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
        .slots = slots,
    };
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
