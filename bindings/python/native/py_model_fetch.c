/* SPDX-License-Identifier: Apache-2.0 */
/* Model: fetching it into a folder. */
#include "py_model.h"

PyObject *py_model_fetch(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = { "folder", "names", "force", "progress", "threads", NULL };
    const py_state *state = py_state_of(self);
    PyObject *folder = NULL;
    PyObject *names = Py_None;
    PyObject *progress = NULL;
    int force = 0;
    unsigned threads = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|O$pOI:fetch", keywords, py_to_path, &folder, &names, &force,
                                     &progress, &threads)) {
        return NULL;
    }
    py_handle *handle = py_model_use(self);
    py_choice choice = { NULL, 0 };
    coffer_status status = COFFER_ERR_ARGUMENT;
    if (handle != NULL && py_choice_init(state, &choice, handle, names) == 0) {
        /* NULL, for all, also takes every file as it is. */
        const coffer_tensor *const *tensors = names == Py_None ? NULL : choice.tensors;
        coffer_fetch_options options = COFFER_FETCH_OPTIONS_INIT;
        const char *path = PyBytes_AsString(folder);
        py_watch watch;
        coffer_error err;
        py_watch_begin(&watch, progress, threads);
        options.progress = watch.options.progress;
        options.progress_ctx = watch.options.progress_ctx;
        options.threads = threads;
        options.force = force != 0;
        status = coffer_fetch(py_handle_model(handle), tensors, choice.count, path, &options, &err);
        py_watch_finish(&watch);
        if (status != COFFER_OK) {
            py_raise(state, &err);
        }
    }
    PyMem_Free(choice.tensors);
    py_handle_release(handle);
    Py_DECREF(folder);
    return status == COFFER_OK ? Py_NewRef(Py_None) : NULL;
}
