/* SPDX-License-Identifier: Apache-2.0 */
/* copy_tensors: tensors of opened files, written again, to one file or to several. Their bytes go from file to file. */
#include "py_native.h"

#include <string.h>

typedef struct copy_job {
    coffer_header *header;
    coffer_copy *copies;
    size_t count;
    PyObject *pairs; /* a tuple, which keeps the tensors */
    py_writing writing;
    coffer_model_writer_options model; /* of several files, when `several` */
    bool sharded;
} copy_job;

static void copy_free(copy_job *job)
{
    coffer_header_free(job->header);
    PyMem_Free(job->copies);
    Py_CLEAR(job->pairs);
}

/* Declares (name, tensor). */
static int copy_add(const py_state *state, copy_job *job, PyObject *pair)
{
    PyObject *items[2];
    py_handle *handle = NULL;
    const py_part *part = NULL;
    if (py_unpack(pair, "tensors to write must be pairs of a name and a coffer.Tensor", items, 2) < 0 ||
        (part = py_tensor_of(state, items[1], &handle)) == NULL) {
        return -1;
    }
    if (part->indices != NULL) {
        py_fail(state, COFFER_ERR_ARGUMENT, "only whole tensors are copied, not parts of them");
        return -1;
    }
    PyObject *dtype = py_dtype_name(state, part->tensor);
    PyObject *shape = py_shape_tuple(part->tensor->shape, part->tensor->rank);
    const int result = dtype == NULL || shape == NULL ? -1 : py_add_tensor(state, job->header, items[0], dtype, shape);
    Py_XDECREF(dtype);
    Py_XDECREF(shape);
    job->copies[job->count] = (coffer_copy){ job->count, py_handle_model(handle), part->tensor };
    job->count++;
    return result;
}

/* On failure everything is still to be released. */
static int copy_init(const py_state *state, copy_job *job)
{
    coffer_error err;
    job->pairs = PySequence_Tuple(job->writing.own[0]);
    const size_t count = job->pairs == NULL ? 0 : (size_t)PyTuple_Size(job->pairs);
    job->copies = job->pairs == NULL ? NULL : PyMem_Calloc(count + 1, sizeof *job->copies);
    if (job->copies == NULL) {
        return PyErr_Occurred() == NULL ? (PyErr_NoMemory(), -1) : -1;
    }
    if (coffer_header_new(&job->header, coffer_libc_allocator(), &err) != COFFER_OK) {
        py_raise(state, &err);
        return -1;
    }
    for (size_t i = 0; i < count; i++) {
        if (copy_add(state, job, PyTuple_GetItem(job->pairs, (Py_ssize_t)i)) < 0) {
            return -1;
        }
    }
    return py_add_metadata(state, job->header, job->writing.metadata);
}

static coffer_status copy_to_file(const copy_job *job, const char *path, const coffer_read_options *watched,
                                  coffer_error *err)
{
    coffer_writer *writer = NULL;
    coffer_status status = coffer_writer_open(&writer, job->header, path, &job->writing.options, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer_writer_copy(writer, job->copies, job->count, watched, err);
    if (status == COFFER_OK) {
        status = coffer_writer_finish(writer, err);
    }
    coffer_writer_free(writer);
    return status;
}

static coffer_status copy_to_files(const copy_job *job, const char *path, const coffer_read_options *watched,
                                   coffer_error *err)
{
    coffer_model_writer *writer = NULL;
    coffer_model_writer_options options = job->model;
    options.files = &job->writing.options;
    coffer_status status = coffer_model_writer_open(&writer, job->header, path, &options, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer_model_writer_copy(writer, job->copies, job->count, watched, err);
    if (status == COFFER_OK) {
        status = coffer_model_writer_finish(writer, err);
    }
    coffer_model_writer_free(writer);
    return status;
}

static int copy_run(const py_state *state, const copy_job *job)
{
    PyObject *path = NULL;
    if (!py_to_path(job->writing.own[1], &path)) {
        return -1;
    }
    py_watch watch;
    coffer_error err;
    const char *text = PyBytes_AsString(path);
    py_watch_begin(&watch, job->writing.progress, 0);
    const coffer_status status =
        job->sharded ? copy_to_files(job, text, &watch.options, &err) : copy_to_file(job, text, &watch.options, &err);
    py_watch_finish(&watch);
    Py_DECREF(path);
    if (status != COFFER_OK) {
        py_raise(state, &err);
        return -1;
    }
    return 0;
}

static int copy_arguments(const py_state *state, PyObject *args, PyObject *kwargs, copy_job *job)
{
    static char *names[] = { "tensors", "path",           "metadata", "sync",  "alignment", "slack",  "digests",
                             "format",  "max_shard_size", "balanced", "force", "progress",  "packed", NULL };
    const coffer_model_writer_options model = COFFER_MODEL_WRITER_OPTIONS_INIT;
    const coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    py_writing *writing = &job->writing;
    const char *sync = "replace";
    const char *digests = NULL;
    const char *format = NULL;
    unsigned long long alignment = 0;
    unsigned long long slack = 0;
    PyObject *limit = Py_None;
    int balanced = 0;
    int force = 0;
    int packed = 0;
    writing->metadata = Py_None;
    writing->options = options;
    writing->options.progress = py_ask_signals;
    job->model = model;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|O$sKKzzOppOp:copy_tensors", names, &writing->own[0],
                                     &writing->own[1], &writing->metadata, &sync, &alignment, &slack, &digests, &format,
                                     &limit, &balanced, &force, &writing->progress, &packed) ||
        py_sync_from(state, sync, &writing->options.sync) < 0 ||
        py_format_from(state, format, &writing->options.format) < 0 ||
        py_algorithm_from(state, digests, &writing->options.digests) < 0) {
        return -1;
    }
    job->sharded = limit != Py_None;
    job->model.max_shard_size = job->sharded ? PyLong_AsUnsignedLongLong(limit) : 0;
    job->model.balanced = balanced != 0;
    job->model.force = force != 0;
    writing->options.packed = packed != 0;
    writing->options.alignment = alignment;
    writing->options.slack = slack;
    writing->options.empty_metadata = writing->metadata != Py_None;
    return PyErr_Occurred() == NULL ? 0 : -1;
}

PyObject *py_copy_tensors(PyObject *module, PyObject *args, PyObject *kwargs)
{
    const py_state *state = PyModule_GetState(module);
    copy_job job;
    memset(&job, 0, sizeof job);
    if (copy_arguments(state, args, kwargs, &job) < 0) {
        return NULL;
    }
    const int result = copy_init(state, &job) < 0 ? -1 : copy_run(state, &job);
    copy_free(&job);
    return result < 0 ? NULL : Py_NewRef(Py_None);
}
