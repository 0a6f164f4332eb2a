/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded: memory that a load allocated and handed out. */
#include "py_load.h"

#include <string.h>

typedef struct loaded_object {
    PyObject base;
    coffer_memory *memory; /* NULL once a capsule has taken it over */
    uint64_t address;
    uint64_t size;
    PyObject *device; /* None: host memory */
} loaded_object;

PyObject *py_loaded_new(const py_state *state, const coffer_loaded *loaded, PyObject *device)
{
    loaded_object *self = PyObject_New(loaded_object, state->loaded_type);
    if (self == NULL) {
        coffer_memory_free(loaded->memory);
        return NULL;
    }
    self->memory = loaded->memory;
    self->address = loaded->address;
    self->size = loaded->size;
    self->device = Py_NewRef(device);
    return (PyObject *)self;
}

static void loaded_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    loaded_object *self = (loaded_object *)object;
    coffer_memory_free(self->memory);
    Py_DECREF(self->device);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* Whether it is there to be used: host memory that no capsule took over. */
static bool loaded_is_here(const loaded_object *self)
{
    if (self->memory != NULL && self->device == Py_None) {
        return true;
    }
    PyErr_SetString(PyExc_BufferError,
                    self->memory == NULL ? "the memory was handed over" : "the memory is a device's");
    return false;
}

static int loaded_get_buffer(PyObject *object, Py_buffer *buffer, int flags)
{
    const loaded_object *self = (loaded_object *)object;
    buffer->obj = NULL;
    if (!loaded_is_here(self)) {
        return -1;
    }
    return PyBuffer_FillInfo(buffer, object, (void *)(uintptr_t)self->address, (Py_ssize_t)self->size, 0, flags);
}

static Py_ssize_t loaded_length(PyObject *object)
{
    return (Py_ssize_t)((loaded_object *)object)->size;
}

static PyObject *loaded_address(PyObject *object, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLongLong(((loaded_object *)object)->address);
}

static PyObject *loaded_device(PyObject *object, void *closure)
{
    (void)closure;
    return Py_NewRef(((loaded_object *)object)->device);
}

/* dlpack(dtype, shape, as_bytes): the capsule owns the memory from then on. */
static PyObject *loaded_dlpack(PyObject *object, PyObject *args)
{
    loaded_object *self = (loaded_object *)object;
    const char *dtype = NULL;
    PyObject *given = NULL;
    int as_bytes = 0;
    uint64_t *shape = NULL;
    size_t rank = 0;
    if (!PyArg_ParseTuple(args, "sOp:dlpack", &dtype, &given, &as_bytes) || !loaded_is_here(self) ||
        py_shape_from(given, &shape, &rank) < 0) {
        return NULL;
    }
    /* A tensor of what is known of it; the capsule copies what it needs. */
    const coffer_tensor tensor = { .shape = shape,
                                   .size = self->size,
                                   .rank = (uint32_t)rank,
                                   .dtype = coffer_dtype_from_name(dtype, strlen(dtype)) };
    py_part part;
    py_part_whole(&part, &tensor);
    py_view view = { .loaded = self->memory, .data = (void *)(uintptr_t)self->address, .writable = true };
    self->memory = NULL;
    PyObject *capsule = py_dlpack_capsule(&view, &part, as_bytes || !py_dlpack_knows(tensor.dtype), false, false);
    PyMem_Free(shape);
    return capsule;
}

/* A copy of the bytes, of a device's memory, too. */
static PyObject *loaded_tobytes(PyObject *object, PyObject *unused)
{
    (void)unused;
    const loaded_object *self = (loaded_object *)object;
    const py_state *state = py_state_of(object);
    bool failed = false;
    coffer_device *device = py_device_of(state, self->device, &failed);
    coffer_status status = COFFER_OK;
    coffer_error err;
    if (device == NULL) {
        return PyBytes_FromObject(object);
    }
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)self->size);
    if (bytes == NULL) {
        return NULL;
    }
    char *target = PyBytes_AsString(bytes);
    Py_BEGIN_ALLOW_THREADS status = coffer_device_read(device, self->address, target, self->size, &err);
    Py_END_ALLOW_THREADS if (status != COFFER_OK)
    {
        Py_DECREF(bytes);
        return py_raise(state, &err);
    }
    return bytes;
}

static PyMethodDef loaded_methods[] = {
    { "tobytes", loaded_tobytes, METH_NOARGS, "A copy of the bytes, of a device's memory, too." },
    { "dlpack", loaded_dlpack, METH_VARARGS, "A DLPack capsule that takes the memory over." },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef loaded_attributes[] = {
    { "address", loaded_address, NULL, "Of the first element.", NULL },
    { "device", loaded_device, NULL, "None: it is host memory.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

PyTypeObject *py_loaded_make_type(PyObject *module)
{
    static PyType_Slot slots[] = {
        { Py_tp_doc, "Memory that a load handed out, as writable bytes." },
        { Py_tp_dealloc, loaded_dealloc },
        { Py_tp_methods, loaded_methods },
        { Py_tp_getset, loaded_attributes },
        { Py_sq_length, loaded_length },
        { Py_bf_getbuffer, loaded_get_buffer },
        { 0, NULL },
    };
    static PyType_Spec spec = {
        .name = "coffer._native.Loaded",
        .basicsize = sizeof(loaded_object),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
        .slots = slots,
    };
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
