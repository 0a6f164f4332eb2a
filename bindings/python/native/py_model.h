/* SPDX-License-Identifier: Apache-2.0 */
/* The Model object, as its files see it. */
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

/* Makes an object of the model's tensor or file number `i`. */
typedef PyObject *(*py_model_make)(const py_state *state, py_handle *handle, size_t i);
/* A list of what `make` makes of every tensor, where `count` is coffer_count, or of every file (coffer_shard_count). */
PyObject *py_model_list(PyObject *self, size_t (*count)(const coffer *model), py_model_make make);

/* Which tensors, in the caller's order; the array is released by PyMem_Free, on failure too. */
typedef struct py_choice {
    const coffer_tensor **tensors;
    size_t count;
} py_choice;

/* Those that an iterable names, or all for None. */
int py_choice_init(const py_state *state, py_choice *choice, const py_handle *handle, PyObject *names);

PyObject *py_model_read_many(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_model_array(PyObject *self, PyObject *args);
PyObject *py_model_read_into(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_model_plain_part(PyObject *self, PyObject *args);
PyObject *py_model_dlpack_many(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_model_verify(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_model_content_digest(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_model_digests(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_model_fetch(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_model_parameters(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_model_rewrite(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_model_extract_lora(PyObject *self, PyObject *args, PyObject *kwargs);

/* What the headers say, file by file (py_model_headers.c). */
int py_model_add_metadata(PyObject *dict, const coffer_table *table);
PyObject *py_model_headers(PyObject *self, PyObject *unused);
PyObject *py_model_index_metadata(PyObject *self, void *closure);

#endif
