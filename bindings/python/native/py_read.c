/* SPDX-License-Identifier: Apache-2.0 */
/* Long calls of the library, with progress, and so that Ctrl-C ends them. */
#include "py_native.h"

/* Called by the library on the thread that made the call. An exception cancels the reading, and stays set. */
static int watch_progress(void *ctx, uint64_t done, uint64_t total)
{
    py_watch *watch = ctx;
    PyEval_RestoreThread(watch->thread);
    int result = PyErr_CheckSignals();
    if (result == 0 && watch->progress != NULL) {
        PyObject *answer =
            PyObject_CallFunction(watch->progress, "KK", (unsigned long long)done, (unsigned long long)total);
        result = answer == NULL ? -1 : 0;
        Py_XDECREF(answer);
    }
    watch->thread = PyEval_SaveThread();
    return result;
}

void py_watch_begin(py_watch *watch, PyObject *progress, unsigned threads)
{
    const coffer_read_options options = COFFER_READ_OPTIONS_INIT;
    watch->options = options;
    watch->options.progress = watch_progress;
    watch->options.progress_ctx = watch;
    watch->options.threads = threads;
    watch->progress = progress == Py_None ? NULL : progress;
    watch->thread = PyEval_SaveThread();
}

void py_watch_end(py_watch *watch)
{
    PyEval_RestoreThread(watch->thread);
}

int py_read_targets(const py_state *state, const py_handle *handle, const coffer_read_target *targets, size_t count,
                    PyObject *progress, unsigned threads)
{
    py_watch watch;
    coffer_error err;
    py_watch_begin(&watch, progress, threads);
    const coffer_status status = coffer_read_many(py_handle_model(handle), targets, count, &watch.options, &err);
    py_watch_end(&watch);
    if (status != COFFER_OK) {
        py_raise(state, &err);
        return -1;
    }
    return 0;
}
