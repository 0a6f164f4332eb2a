/* SPDX-License-Identifier: Apache-2.0 */
/* Failures as exceptions: coffer._errors._make gets the code's name and the attributes, and chooses the class. */
#include "py_native.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Puts `value` (taken over; NULL: an exception is set) under `key`. */
static int error_set(PyObject *attributes, const char *key, PyObject *value)
{
    if (value == NULL) {
        return -1;
    }
    const int result = PyDict_SetItemString(attributes, key, value);
    Py_DECREF(value);
    return result;
}

static int error_set_text(PyObject *attributes, const char *key, const char *text)
{
    return *text == '\0' ? 0
                         : error_set(attributes, key, PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace"));
}

static int error_set_path(PyObject *attributes, const char *path)
{
    return *path == '\0' ? 0 : error_set(attributes, "path", PyUnicode_DecodeFSDefault(path));
}

static int error_set_number(PyObject *attributes, const char *key, uint64_t number)
{
    return error_set(attributes, key, PyLong_FromUnsignedLongLong(number));
}

static int error_fill(PyObject *attributes, const coffer_error *err)
{
    int failed = error_set_text(attributes, "message", err->message) < 0 ||
                 error_set_text(attributes, "tensor", err->tensor) < 0 || error_set_path(attributes, err->path) < 0;
    if (!failed && err->offset != COFFER_NO_OFFSET) {
        failed = error_set_number(attributes, "offset", err->offset) < 0;
    }
    if (!failed && err->os_error != 0) {
        failed = error_set_number(attributes, "os_error", (uint64_t)err->os_error) < 0;
    }
    if (!failed && err->http_status != 0) {
        failed = error_set_number(attributes, "http_status", (uint64_t)err->http_status) < 0;
    }
    if (!failed && err->expected != err->actual) {
        failed = error_set_number(attributes, "expected", err->expected) < 0 ||
                 error_set_number(attributes, "actual", err->actual) < 0;
    }
    return failed ? -1 : 0;
}

PyObject *py_raise(const py_state *state, const coffer_error *err)
{
    if (PyErr_Occurred() != NULL) {
        return NULL;
    }
    PyObject *attributes = PyDict_New();
    if (attributes == NULL) {
        return NULL;
    }
    PyObject *error = NULL;
    if (error_fill(attributes, err) == 0) {
        error = PyObject_CallFunction(state->make_error, "sO", coffer_status_name(err->code), attributes);
    }
    if (error != NULL) {
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    }
    Py_XDECREF(error);
    Py_DECREF(attributes);
    return NULL;
}

static void error_init(coffer_error *err, coffer_status code)
{
    memset(err, 0, sizeof *err);
    err->code = code;
    err->offset = COFFER_NO_OFFSET;
}

PyObject *py_fail(const py_state *state, coffer_status code, const char *format, ...)
{
    coffer_error err;
    error_init(&err, code);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(err.message, sizeof err.message, format, arguments);
    va_end(arguments);
    return py_raise(state, &err);
}

PyObject *py_fail_call(py_wrong wrong, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    PyObject *message = PyUnicode_FromFormatV(format, arguments);
    va_end(arguments);
    PyObject *errors = message == NULL ? NULL : PyImport_ImportModule("coffer._errors");
    const char *maker = wrong == PY_WRONG_TYPE ? "wrong_type" : "wrong_argument";
    PyObject *error = errors == NULL ? NULL : PyObject_CallMethod(errors, maker, "O", message);
    if (error != NULL) {
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    }
    Py_XDECREF(message);
    Py_XDECREF(errors);
    Py_XDECREF(error);
    return NULL;
}

PyObject *py_fail_sizes(const py_state *state, coffer_status code, const char *tensor, uint64_t expected,
                        uint64_t actual, const char *message)
{
    coffer_error err;
    error_init(&err, code);
    (void)snprintf(err.message, sizeof err.message, "%s: %llu bytes expected, %llu given", message,
                   (unsigned long long)expected, (unsigned long long)actual);
    if (tensor != NULL) {
        (void)coffer_escape(tensor, strlen(tensor), err.tensor, sizeof err.tensor);
    }
    err.expected = expected;
    err.actual = actual;
    return py_raise(state, &err);
}
