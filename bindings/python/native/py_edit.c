/* SPDX-License-Identifier: Apache-2.0 */
/* edit_metadata and recover: a file's metadata, changed in place or by a new file. */
#include "py_native.h"

#include <string.h>

static int edit_mode_from(const py_state *state, const char *text, coffer_edit_mode *mode)
{
    static const char *const names[] = { "auto", "in place", "rewrite" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *mode = (coffer_edit_mode)i;
            return 0;
        }
    }
    py_fail(state, COFFER_ERR_ARGUMENT, "mode is \"auto\", \"in place\" or \"rewrite\"");
    return -1;
}

/* The text of a str, borrowed; NULL and an exception for anything else. */
static const char *edit_text(PyObject *text, size_t *length)
{
    Py_ssize_t size = 0;
    const char *found = py_text(text, "a key or a value of the metadata", &size);
    *length = (size_t)size;
    return found;
}

int py_edit_from(coffer_edit *edit, PyObject *pair)
{
    PyObject *items[2];
    memset(edit, 0, sizeof *edit);
    if (py_unpack(pair, "an edit is a pair of a key and its value", items, 2) < 0 ||
        (edit->key = edit_text(items[0], &edit->key_len)) == NULL) {
        return -1;
    }
    if (items[1] != Py_None) {
        edit->value = edit_text(items[1], &edit->value_len);
    }
    return PyErr_Occurred() == NULL ? 0 : -1;
}

static PyObject *edit_run(const py_state *state, PyObject *path, const coffer_edit *edits, size_t count,
                          coffer_edit_options *options, PyObject *progress)
{
    static const char *const ways[] = { "nothing", "clone", "in place", "rewrite" };
    coffer_edit_way way = COFFER_EDITED_NOTHING;
    const char *text = PyBytes_AsString(path);
    py_watch watch;
    coffer_error err;
    py_watch_begin(&watch, progress, 0);
    options->progress = watch.options.progress;
    options->progress_ctx = watch.options.progress_ctx;
    const coffer_status status = coffer_edit_metadata(text, edits, count, options, &way, &err);
    py_watch_finish(&watch);
    return status == COFFER_OK ? PyUnicode_FromString(ways[way]) : py_raise(state, &err);
}

PyObject *py_edit_metadata(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "path", "edits", "mode", "slack", "follow_links", "sync", "progress", NULL };
    const py_state *state = PyModule_GetState(module);
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    PyObject *path = NULL;
    PyObject *given = NULL;
    PyObject *progress = NULL;
    const char *mode = "auto";
    const char *sync = "replace";
    unsigned long long slack = 0;
    int follow_links = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&O|$sKpsO:edit_metadata", names, py_to_path, &path, &given, &mode,
                                     &slack, &follow_links, &sync, &progress)) {
        return NULL;
    }
    options.slack = slack;
    options.follow_links = follow_links != 0;
    PyObject *pairs = PySequence_Tuple(given);
    const size_t count = pairs == NULL ? 0 : (size_t)PyTuple_Size(pairs);
    coffer_edit *edits = pairs == NULL ? NULL : PyMem_Calloc(count + 1, sizeof *edits);
    int ready = pairs != NULL && edit_mode_from(state, mode, &options.mode) == 0 &&
                        py_sync_from(state, sync, &options.sync) == 0
                    ? 0
                    : -1;
    for (size_t i = 0; ready == 0 && edits != NULL && i < count; i++) {
        ready = py_edit_from(&edits[i], PyTuple_GetItem(pairs, (Py_ssize_t)i));
    }
    PyObject *result = NULL;
    if (ready == 0) {
        result = edits == NULL ? PyErr_NoMemory() : edit_run(state, path, edits, count, &options, progress);
    }
    PyMem_Free(edits);
    Py_XDECREF(pairs);
    Py_DECREF(path);
    return result;
}

PyObject *py_recover(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "path", "follow_links", NULL };
    const py_state *state = PyModule_GetState(module);
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    PyObject *path = NULL;
    int follow_links = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|$p:recover", names, py_to_path, &path, &follow_links)) {
        return NULL;
    }
    options.follow_links = follow_links != 0;
    const char *text = PyBytes_AsString(path);
    coffer_status status = COFFER_OK;
    coffer_error err;
    Py_BEGIN_ALLOW_THREADS status = coffer_recover(text, &options, &err);
    Py_END_ALLOW_THREADS Py_DECREF(path);
    return status == COFFER_OK ? Py_NewRef(Py_None) : py_raise(state, &err);
}
