/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that callers give: those of a tensor, or space for them. Memory of unsigned bytes has no dtype, and is taken as it is. All else
 * has one, and would be silently wrong where that is not the tensor's: coffer._given casts it, or refuses it.
 */
#include "py_native.h"

#include <string.h>

/* The format without the sign of its byte order; NULL where that is not this machine's. */
static const char *given_format(const Py_buffer *buffer)
{
    const char *format = buffer->format == NULL ? "B" : buffer->format;
    const char other = PY_LITTLE_ENDIAN ? '>' : '<';
    if (buffer->itemsize > 1 && (*format == other || (*format == '!' && PY_LITTLE_ENDIAN))) {
        return NULL;
    }
    return strchr("@=<>!|", *format) == NULL ? format : format + 1;
}

/* Whether two formats are of integers of one signedness: their sizes are compared elsewhere. */
static bool given_are_integers(const char *a, const char *b)
{
    const char *const signs[] = { "bhilqn", "BHILQN" };
    for (size_t i = 0; i < 2; i++) {
        if (strchr(signs[i], *a) != NULL && strchr(signs[i], *b) != NULL) {
            return a[1] == '\0' && b[1] == '\0';
        }
    }
    return false;
}

static bool given_fits(const Py_buffer *buffer, coffer_dtype dtype)
{
    const char *format = given_format(buffer);
    if (format == NULL || buffer->suboffsets != NULL || !PyBuffer_IsContiguous(buffer, 'C')) {
        return false;
    }
    if (strcmp(format, "B") == 0 || strcmp(format, "c") == 0) {
        return true;
    }
    const char *wanted = py_buffer_format_of(dtype);
    if (wanted == NULL || (size_t)buffer->itemsize * 8 != coffer_dtype_bits(dtype)) {
        return false;
    }
    wanted += *wanted == '<';
    return PY_LITTLE_ENDIAN && (strcmp(format, wanted) == 0 || given_are_integers(format, wanted));
}

bool py_given_buffer(PyObject *object, coffer_dtype dtype, bool writable, Py_buffer *buffer)
{
    if (!PyObject_CheckBuffer(object) ||
        PyObject_GetBuffer(object, buffer, writable ? PyBUF_FULL : PyBUF_FULL_RO) < 0) {
        PyErr_Clear();
        return false;
    }
    if (given_fits(buffer, dtype)) {
        return true;
    }
    PyBuffer_Release(buffer);
    return false;
}

PyObject *py_call(const char *module, const char *function, PyObject *first, PyObject *second, PyObject *third)
{
    PyObject *imported = PyImport_ImportModule(module);
    PyObject *callable = imported == NULL ? NULL : PyObject_GetAttrString(imported, function);
    PyObject *result = callable == NULL ? NULL : PyObject_CallFunctionObjArgs(callable, first, second, third, NULL);
    Py_XDECREF(imported);
    Py_XDECREF(callable);
    return result;
}

int py_given_bytes(PyObject *object, const coffer_tensor *tensor, Py_buffer *buffer)
{
    if (py_given_buffer(object, tensor->dtype, false, buffer)) {
        return 0;
    }
    PyObject *dtype = PyUnicode_FromString(coffer_tensor_dtype_name(tensor));
    PyObject *name = py_tensor_name(tensor);
    PyObject *bytes = dtype == NULL || name == NULL ? NULL : py_call("coffer._given", "bytes_for", object, dtype, name);
    const int result = bytes == NULL ? -1 : PyObject_GetBuffer(bytes, buffer, PyBUF_C_CONTIGUOUS);
    Py_XDECREF(dtype);
    Py_XDECREF(name);
    Py_XDECREF(bytes); /* which the buffer keeps */
    return result;
}

PyObject *py_is_given(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *object = NULL;
    const char *dtype = NULL;
    Py_buffer buffer;
    if (!PyArg_ParseTuple(args, "Os:is_given", &object, &dtype)) {
        return NULL;
    }
    if (!py_given_buffer(object, coffer_dtype_from_name(dtype, strlen(dtype)), true, &buffer)) {
        Py_RETURN_FALSE;
    }
    PyBuffer_Release(&buffer);
    Py_RETURN_TRUE;
}
