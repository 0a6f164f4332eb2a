/* SPDX-License-Identifier: Apache-2.0 */
/* Device: memory of the host or of an accelerator. And what there is of it: list_facilities. */
#include "py_load.h"

typedef struct device_object {
    PyObject base;
    coffer_device *device;
} device_object;

static PyObject *device_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "name", NULL };
    const py_state *state = PyType_GetModuleState(type);
    const char *name = NULL;
    coffer_device *device = NULL;
    coffer_status status = COFFER_OK;
    coffer_error err;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s:Device", names, &name)) {
        return NULL;
    }
    /* Loading a driver may take a second. */
    Py_BEGIN_ALLOW_THREADS status = coffer_device_open(&device, name, NULL, &err);
    Py_END_ALLOW_THREADS if (status != COFFER_OK)
    {
        return py_raise(state, &err);
    }
    device_object *self = PyObject_New(device_object, type);
    if (self == NULL) {
        coffer_device_close(device);
        return NULL;
    }
    self->device = device;
    return (PyObject *)self;
}

static void device_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    coffer_device *device = ((device_object *)object)->device;
    Py_BEGIN_ALLOW_THREADS coffer_device_close(device);
    Py_END_ALLOW_THREADS PyObject_Free(object);
    Py_DECREF(type);
}

coffer_device *py_device_of(const py_state *state, PyObject *object, bool *failed)
{
    *failed = false;
    if (object == NULL || object == Py_None) {
        return NULL;
    }
    if (Py_TYPE(object) == state->device_type) {
        return ((device_object *)object)->device;
    }
    *failed = true;
    py_fail_call(PY_WRONG_TYPE, "a coffer.Device is wanted, not %R", (PyObject *)Py_TYPE(object));
    return NULL;
}

/* (kind, number, name, total, free, integrated, registers) */
static PyObject *device_describe(PyObject *object, PyObject *unused)
{
    static const char *const kinds[] = { "cpu", "cuda", "hip" };
    (void)unused;
    coffer_device_info info = { .struct_size = sizeof info };
    coffer_status status = COFFER_OK;
    coffer_error err;
    coffer_device *device = ((device_object *)object)->device;
    Py_BEGIN_ALLOW_THREADS status = coffer_device_describe(device, &info, &err);
    Py_END_ALLOW_THREADS if (status != COFFER_OK)
    {
        return py_raise(py_state_of(object), &err);
    }
    return Py_BuildValue("(sisKKNN)", kinds[info.kind], (int)info.number, info.name, (unsigned long long)info.total,
                         (unsigned long long)info.free, PyBool_FromLong(info.integrated),
                         PyBool_FromLong(info.registers));
}

/* ---- what there is ------------------------------------------------------------------------------------------------- */

/* Appends (name, usable, detail, advice) to a list. */
static int device_list(void *ctx, const coffer_facility *facility)
{
    PyObject *one =
        Py_BuildValue("(sNss)", facility->name, PyBool_FromLong(facility->usable), facility->detail, facility->advice);
    const int failed = one == NULL || PyList_Append(ctx, one) < 0;
    Py_XDECREF(one);
    return failed;
}

PyObject *py_list_facilities(PyObject *module, PyObject *path)
{
    const py_state *state = PyModule_GetState(module);
    PyObject *bytes = NULL;
    coffer_error err;
    if (path != Py_None && !PyUnicode_FSConverter(path, &bytes)) {
        return NULL;
    }
    PyObject *list = PyList_New(0);
    if (list != NULL && coffer_list_facilities(bytes == NULL ? NULL : PyBytes_AsString(bytes), NULL, device_list, list,
                                               &err) != COFFER_OK) {
        py_raise(state, &err);
    }
    Py_XDECREF(bytes);
    if (PyErr_Occurred() != NULL) {
        Py_CLEAR(list);
    }
    return list;
}

static PyMethodDef device_methods[] = {
    { "describe", device_describe, METH_NOARGS,
      "Its kind, number, name, bytes in all and free, whether they are the host's, and whether host memory is "
      "registered." },
    { NULL, NULL, 0, NULL },
};

PyTypeObject *py_device_make_type(PyObject *module)
{
    static PyType_Slot slots[] = {
        { Py_tp_doc, "A memory space: \"cpu\", \"cuda:N\" or \"hip:N\"." },
        { Py_tp_new, device_new },
        { Py_tp_dealloc, device_dealloc },
        { Py_tp_methods, device_methods },
        { 0, NULL },
    };
    static PyType_Spec spec = {
        .name = "coffer._native.Device",
        .basicsize = sizeof(device_object),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
        .slots = slots,
    };
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
