/* SPDX-License-Identifier: Apache-2.0 */
/* coffer._native.export_file: a file of tensors, written as one of another program. */
#include "py_native.h"

#include <string.h>

typedef struct export_call {
    PyObject *path; /* these two as bytes objects */
    PyObject *output;
    PyObject *progress;
    unsigned threads;
    coffer_export_format format;
    coffer_open_options open;
    coffer_export_options options;
} export_call;

/* A tensor that was written, as import_file tells of one. */
static PyObject *export_tensor(const py_state *state, const coffer_tensor *tensor)
{
    PyObject *name = PyUnicode_DecodeUTF8(tensor->name, (Py_ssize_t)tensor->name_len, "backslashreplace");
    PyObject *shape = py_shape_tuple(tensor->shape, tensor->rank);
    PyObject *reported = NULL;
    if (name != NULL && shape != NULL) {
        reported = Py_BuildValue("(OOOKsnssiii)", name, state->dtype_names[tensor->dtype], shape,
                                 (unsigned long long)tensor->size, "written", (Py_ssize_t)-1, "", "", 0, 0, 0);
    }
    Py_XDECREF(name);
    Py_XDECREF(shape);
    return reported;
}

static PyObject *export_reported(const py_state *state, const coffer *model, const coffer_export_options *options)
{
    PyObject *tensors = PyList_New(0);
    for (size_t i = 0; tensors != NULL && i < coffer_count(model); i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        if (options->tensor != NULL && tensor != coffer_find(model, options->tensor, options->tensor_len)) {
            continue;
        }
        PyObject *reported = export_tensor(state, tensor);
        if (reported == NULL || PyList_Append(tensors, reported) < 0) {
            Py_CLEAR(tensors);
        }
        Py_XDECREF(reported);
    }
    const char *format = coffer_format_id(coffer_table_format(coffer_shard_table(model, 0)));
    return tensors == NULL ? NULL : Py_BuildValue("(sN)", format, tensors);
}

static PyObject *export_run(const py_state *state, export_call *call)
{
    coffer *model = NULL;
    coffer_error err;
    py_watch watch;
    py_watch_begin(&watch, call->progress, call->threads);
    call->open.formats = COFFER_FORMATS_OWN; /* other files are made of files of tensors */
    coffer_status status = coffer_open(&model, PyBytes_AsString(call->path), &call->open, &err);
    if (status == COFFER_OK) {
        status =
            coffer_export(model, call->format, PyBytes_AsString(call->output), &call->options, &watch.options, &err);
    }
    py_watch_finish(&watch);
    PyObject *reported = status == COFFER_OK ? export_reported(state, model, &call->options) : py_raise(state, &err);
    coffer_close(model);
    return reported;
}

PyObject *py_export_file(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "path", "output",  "to",       "tensor", "bytes_as", "tied", "token",
                             "sync", "threads", "progress", "arch",   "sidecar",  NULL };
    const py_state *state = PyModule_GetState(module);
    export_call call = { .open = COFFER_OPEN_OPTIONS_INIT, .options = COFFER_EXPORT_OPTIONS_INIT };
    const char *to = NULL;
    const char *bytes_as = NULL;
    const char *sync = "replace";
    Py_ssize_t tensor_len = 0;
    int tied = 1;
    call.open.access = COFFER_READ;
    call.open.verify = COFFER_VERIFY_RECORDED;
    PyObject *reported = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&O&s|$z#zpzsIOzz:export_file", names, py_to_path, &call.path,
                                     py_to_path, &call.output, &to, &call.options.tensor, &tensor_len, &bytes_as, &tied,
                                     &call.open.token, &sync, &call.threads, &call.progress, &call.options.arch,
                                     &call.options.sidecar)) {
        goto done;
    }
    call.options.tensor_len = (size_t)tensor_len;
    call.options.without_tied = tied == 0;
    call.format = coffer_export_from_name(to, strlen(to));
    call.options.bytes_as =
        bytes_as == NULL ? COFFER_UNKNOWN_DTYPE : coffer_dtype_from_name(bytes_as, strlen(bytes_as));
    if (bytes_as != NULL && call.options.bytes_as == COFFER_UNKNOWN_DTYPE) {
        py_fail(state, COFFER_ERR_ARGUMENT, "bytes_as is \"U8\" or \"I8\", not \"%s\"", bytes_as);
    } else if (py_sync_from(state, sync, &call.options.sync) == 0) {
        reported = export_run(state, &call);
    }
done:
    Py_XDECREF(call.output);
    Py_XDECREF(call.path);
    return reported;
}

PyObject *py_export_format(PyObject *module, PyObject *path)
{
    PyObject *bytes = NULL;
    (void)module;
    if (!py_to_path(path, &bytes)) {
        return NULL;
    }
    PyObject *name = PyUnicode_FromString(coffer_export_name(coffer_export_from_path(PyBytes_AsString(bytes))));
    Py_DECREF(bytes);
    return name;
}
