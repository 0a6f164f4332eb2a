/* SPDX-License-Identifier: Apache-2.0 */
/* Reading many tensors in one call, with progress, and so that Ctrl-C ends it. */
#include "py_native.h"

typedef struct read_watcher {
    PyThreadState *thread; /* of the caller, while the GIL is released */
    PyObject *progress;    /* NULL: none */
} read_watcher;

/* Called by the library on the thread that made the call. An exception cancels the reading, and stays set. */
static int read_watch(void *ctx, uint64_t done, uint64_t total)
{
    read_watcher *watcher = ctx;
    PyEval_RestoreThread(watcher->thread);
    int result = PyErr_CheckSignals();
    if (result == 0 && watcher->progress != NULL) {
        PyObject *answer =
            PyObject_CallFunction(watcher->progress, "KK", (unsigned long long)done, (unsigned long long)total);
        result = answer == NULL ? -1 : 0;
        Py_XDECREF(answer);
    }
    watcher->thread = PyEval_SaveThread();
    return result;
}

int py_read_targets(const py_state *state, const py_handle *handle, const coffer_read_target *targets, size_t count,
                    PyObject *progress, unsigned threads)
{
    read_watcher watcher = { NULL, progress == Py_None ? NULL : progress };
    coffer_read_options options = COFFER_READ_OPTIONS_INIT;
    options.progress = read_watch;
    options.progress_ctx = &watcher;
    options.threads = threads;
    coffer_error err;
    watcher.thread = PyEval_SaveThread();
    const coffer_status status = coffer_read_many(py_handle_model(handle), targets, count, &options, &err);
    PyEval_RestoreThread(watcher.thread);
    if (status != COFFER_OK) {
        py_raise(state, &err);
        return -1;
    }
    return 0;
}
