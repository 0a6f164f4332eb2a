/* SPDX-License-Identifier: Apache-2.0 */
/* Long calls of the library, with progress, and so that Ctrl-C ends them. */
#include "py_native.h"

#include <time.h>

/* Signals are looked for this often while no progress is shown: taking the GIL back is not for nothing. */
#define WATCH_MS 50
/* Bytes that are written at a time, between looks for signals. */
#define WATCH_PIECE ((uint64_t)4 << 20)

static uint64_t watch_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Called by the library on the thread that made the call. An exception cancels the call, and stays set. */
static int watch_progress(void *ctx, uint64_t done, uint64_t total)
{
    py_watch *watch = ctx;
    const uint64_t now = watch_now();
    if (watch->progress == NULL && now - watch->asked < WATCH_MS) {
        return 0;
    }
    watch->asked = now;
    PyEval_RestoreThread(watch->thread);
    int result = PyErr_Occurred() != NULL ? -1 : PyErr_CheckSignals();
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
    watch->progress = progress == NULL || progress == Py_None ? NULL : progress;
    watch->asked = watch_now();
    watch->done = 0;
    watch->total = 0;
    watch->thread = PyEval_SaveThread();
}

void py_watch_finish(py_watch *watch)
{
    PyEval_RestoreThread(watch->thread);
}

coffer_status py_write(py_watch *watch, py_write_function write, void *writer, size_t i, uint64_t offset,
                       const void *bytes, uint64_t size, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    uint64_t done = 0;
    do {
        const uint64_t piece = size - done < WATCH_PIECE ? size - done : WATCH_PIECE;
        status = write(writer, i, offset + done, (const char *)bytes + (size_t)done, piece, err);
        done += piece;
        watch->done += piece;
        if (status == COFFER_OK && watch_progress(watch, watch->done, watch->total) != 0) {
            status = COFFER_ERR_CANCELLED;
        }
    } while (status == COFFER_OK && done < size);
    return status;
}

coffer_status py_write_one(void *writer, size_t i, uint64_t offset, const void *bytes, uint64_t size, coffer_error *err)
{
    return coffer_writer_write(writer, i, offset, bytes, size, err);
}

int py_ask_signals(void *ctx, uint64_t done, uint64_t total)
{
    (void)ctx;
    (void)done;
    (void)total;
    const PyGILState_STATE gil = PyGILState_Ensure();
    const int result = PyErr_CheckSignals();
    PyGILState_Release(gil);
    return result;
}

int py_read_targets(const py_state *state, const py_handle *handle, const coffer_read_target *targets, size_t count,
                    PyObject *progress, unsigned threads)
{
    py_watch watch;
    coffer_error err;
    py_watch_begin(&watch, progress, threads);
    const coffer_status status = coffer_read_many(py_handle_model(handle), targets, count, &watch.options, &err);
    py_watch_finish(&watch);
    if (status != COFFER_OK) {
        py_raise(state, &err);
        return -1;
    }
    return 0;
}
