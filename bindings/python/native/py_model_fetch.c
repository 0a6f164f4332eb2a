/* SPDX-License-Identifier: Apache-2.0 */
/* Model: fetching it into a folder. */
#include "py_model.h"

/* A flag for each tensor, whether its name is among `names`; NULL and an exception on failure. */
static bool *fetch_wanted(const py_state *state, const py_handle *handle, PyObject *names)
{
    const coffer *model = py_handle_model(handle);
    const size_t count = coffer_count(model);
    py_choice choice = { NULL, 0 };
    if (py_choice_init(state, &choice, handle, names) < 0) {
        return NULL;
    }
    bool *wanted = PyMem_Calloc(count + 1, sizeof *wanted);
    PyObject *chosen = PySet_New(NULL);
    for (size_t i = 0; chosen != NULL && i < choice.count; i++) {
        PyObject *address = PyLong_FromVoidPtr((void *)(uintptr_t)choice.tensors[i]);
        if (address == NULL || PySet_Add(chosen, address) < 0) {
            Py_CLEAR(chosen);
        }
        Py_XDECREF(address);
    }
    int found = wanted == NULL || chosen == NULL ? -1 : 0;
    for (size_t i = 0; found >= 0 && i < count; i++) {
        PyObject *address = PyLong_FromVoidPtr((void *)(uintptr_t)coffer_at(model, i));
        found = address == NULL ? -1 : PySet_Contains(chosen, address);
        wanted[i] = found == 1;
        Py_XDECREF(address);
    }
    Py_XDECREF(chosen);
    PyMem_Free(choice.tensors);
    if (found < 0) {
        PyMem_Free(wanted);
        return PyErr_Occurred() == NULL ? (PyErr_NoMemory(), NULL) : NULL;
    }
    return wanted;
}

PyObject *py_model_fetch(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = { "folder", "names", "force", "progress", "threads", NULL };
    const py_state *state = py_state_of(self);
    PyObject *folder = NULL;
    PyObject *names = Py_None;
    PyObject *progress = NULL;
    int force = 0;
    unsigned threads = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|O$pOI:fetch", keywords, PyUnicode_FSConverter, &folder, &names,
                                     &force, &progress, &threads)) {
        return NULL;
    }
    py_handle *handle = py_model_use(self);
    bool *wanted = handle == NULL || names == Py_None ? NULL : fetch_wanted(state, handle, names);
    coffer_status status = COFFER_ERR_ARGUMENT;
    if (handle != NULL && (names == Py_None || wanted != NULL)) {
        coffer_fetch_options options = COFFER_FETCH_OPTIONS_INIT;
        const char *path = PyBytes_AsString(folder);
        py_watch watch;
        coffer_error err;
        py_watch_begin(&watch, progress, threads);
        options.progress = watch.options.progress;
        options.progress_ctx = watch.options.progress_ctx;
        options.threads = threads;
        options.force = force != 0;
        status = coffer_fetch(py_handle_model(handle), wanted, path, &options, &err);
        py_watch_end(&watch);
        if (status != COFFER_OK) {
            py_raise(state, &err);
        }
    }
    PyMem_Free(wanted);
    py_handle_release(handle);
    Py_DECREF(folder);
    return status == COFFER_OK ? Py_NewRef(Py_None) : NULL;
}
