/* SPDX-License-Identifier: Apache-2.0 */
/* The Model object, as its two files see it. */
#ifndef PY_MODEL_H
#define PY_MODEL_H

#include "py_native.h"

#include <pthread.h>

typedef struct model_object {
    PyObject base;
    pthread_mutex_t lock; /* of `handle`, for a moment at a time */
    py_handle *handle;    /* NULL when closed */
    PyObject *path;       /* a str, or NULL */
    coffer_access access;
} model_object;

/* A reference to the model's handle, to be released; NULL and an exception when it is closed. */
py_handle *py_model_use(PyObject *self);

PyObject *py_model_read_many(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_model_read_into(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_model_dlpack_many(PyObject *self, PyObject *args, PyObject *kwargs);

#endif
