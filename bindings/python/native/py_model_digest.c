/* SPDX-License-Identifier: Apache-2.0 */
/* Model: the digests of its tensors, computed and held against those that the files record. */
#include "py_model.h"

/* The options of hashing that tell a watch of its progress. */
static coffer_digest_options digest_options(const py_watch *watch)
{
    coffer_digest_options options = COFFER_DIGEST_OPTIONS_INIT;
    options.progress = watch->options.progress;
    options.progress_ctx = watch->options.progress_ctx;
    options.threads = watch->options.threads;
    return options;
}

PyObject *py_model_verify(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = { "names", "progress", "threads", NULL };
    const py_state *state = py_state_of(self);
    PyObject *names = Py_None;
    PyObject *progress = Py_None;
    unsigned threads = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O$OI:verify", keywords, &names, &progress, &threads)) {
        return NULL;
    }
    py_handle *handle = py_model_use(self);
    if (handle == NULL) {
        return NULL;
    }
    py_choice choice = { NULL, 0 };
    py_watch watch;
    coffer_error err;
    coffer_status status = COFFER_ERR_ARGUMENT;
    if (py_choice_init(state, &choice, handle, names) == 0) {
        /* NULL, for all, also notices what is missing of the tensors that are recorded. */
        const coffer_tensor *const *tensors = names == Py_None ? NULL : choice.tensors;
        py_watch_begin(&watch, progress, threads);
        const coffer_digest_options options = digest_options(&watch);
        status = coffer_verify(py_handle_model(handle), tensors, choice.count, NULL, &options, &err);
        py_watch_finish(&watch);
        if (status != COFFER_OK) {
            py_raise(state, &err);
        }
    }
    PyMem_Free(choice.tensors);
    py_handle_release(handle);
    return status == COFFER_OK ? Py_NewRef(Py_None) : NULL;
}

/* The digests of all tensors, in memory of PyMem_Free; NULL and an exception on failure. */
static coffer_digest *digest_all(PyObject *self, py_handle *handle, coffer_algorithm algorithm, PyObject *progress,
                                 unsigned threads)
{
    const coffer *model = py_handle_model(handle);
    const size_t count = coffer_count(model);
    coffer_digest *digests = PyMem_Calloc(count + 1, sizeof *digests);
    if (digests == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    py_watch watch;
    coffer_error err;
    py_watch_begin(&watch, progress, threads);
    const coffer_digest_options options = digest_options(&watch);
    const coffer_status status = coffer_digest_tensors(model, NULL, count, algorithm, digests, &options, &err);
    py_watch_finish(&watch);
    if (status != COFFER_OK) {
        py_raise(py_state_of(self), &err);
        PyMem_Free(digests);
        return NULL;
    }
    return digests;
}

/* Makes the result of the digests. */
typedef PyObject *(*digest_make)(const py_state *state, const coffer *model, const coffer_digest *digests,
                                 coffer_algorithm algorithm);

static PyObject *digest_model(PyObject *self, PyObject *args, PyObject *kwargs, const char *format, digest_make make)
{
    static char *keywords[] = { "algorithm", "progress", "threads", NULL };
    const py_state *state = py_state_of(self);
    const char *name = coffer_algorithm_name(COFFER_SHA256);
    coffer_algorithm algorithm = COFFER_NO_ALGORITHM;
    PyObject *progress = Py_None;
    unsigned threads = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, format, keywords, &name, &progress, &threads) ||
        py_algorithm_from(state, name, &algorithm) < 0) {
        return NULL;
    }
    py_handle *handle = py_model_use(self);
    if (handle == NULL) {
        return NULL;
    }
    coffer_digest *digests = digest_all(self, handle, algorithm, progress, threads);
    PyObject *result = digests == NULL ? NULL : make(state, py_handle_model(handle), digests, algorithm);
    PyMem_Free(digests);
    py_handle_release(handle);
    return result;
}

static PyObject *digest_make_content(const py_state *state, const coffer *model, const coffer_digest *digests,
                                     coffer_algorithm algorithm)
{
    uint8_t digest[COFFER_LARGEST_DIGEST_SIZE];
    const size_t size = coffer_algorithm_digest_size(algorithm);
    coffer_error err;
    return coffer_digest_content(model, digests, algorithm, digest, size, &err) == COFFER_OK
               ? PyBytes_FromStringAndSize((const char *)digest, (Py_ssize_t)size)
               : py_raise(state, &err);
}

static PyObject *digest_make_list(const py_state *state, const coffer *model, const coffer_digest *digests,
                                  coffer_algorithm algorithm)
{
    (void)state;
    const size_t size = coffer_algorithm_digest_size(algorithm);
    const size_t count = coffer_count(model);
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list != NULL && i < count; i++) {
        PyObject *digest = PyBytes_FromStringAndSize((const char *)digests[i].data, (Py_ssize_t)size);
        if (digest == NULL || PyList_SetItem(list, (Py_ssize_t)i, digest) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

PyObject *py_model_content_digest(PyObject *self, PyObject *args, PyObject *kwargs)
{
    return digest_model(self, args, kwargs, "|s$OI:content_digest", digest_make_content);
}

PyObject *py_model_digests(PyObject *self, PyObject *args, PyObject *kwargs)
{
    return digest_model(self, args, kwargs, "|s$OI:digests", digest_make_list);
}

PyObject *py_record_digests(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = { "path", "algorithm", "progress", NULL };
    const py_state *state = PyModule_GetState(module);
    PyObject *path = NULL;
    const char *name = coffer_algorithm_name(COFFER_SHA256);
    coffer_algorithm algorithm = COFFER_NO_ALGORITHM;
    PyObject *progress = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|s$O:record_digests", keywords, py_to_path, &path, &name,
                                     &progress) ||
        py_algorithm_from(state, name, &algorithm) < 0) {
        Py_XDECREF(path);
        return NULL;
    }
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    py_watch watch;
    coffer_error err;
    const char *text = PyBytes_AsString(path);
    py_watch_begin(&watch, progress, 0);
    options.progress = watch.options.progress;
    options.progress_ctx = watch.options.progress_ctx;
    const coffer_status status = coffer_record_digests(text, algorithm, &options, NULL, &err);
    py_watch_finish(&watch);
    Py_DECREF(path);
    return status == COFFER_OK ? Py_NewRef(Py_None) : py_raise(state, &err);
}
