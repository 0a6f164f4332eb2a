/* SPDX-License-Identifier: Apache-2.0 */
/* serialize, serialize_file and serialize_model: whole files from tensors that are in memory. */
#include "py_native.h"

#include <string.h>

/* The tensors' bytes, in the order of their declaration. */
typedef struct serialize_body {
    const void *bytes;
    uint64_t size;
    Py_buffer buffer; /* where `bytes` came from; without an object when it was an address */
} serialize_body;

typedef struct serialize_job {
    coffer_header *header;
    serialize_body *bodies;
    size_t count; /* of those that hold something */
} serialize_job;

static void job_free(serialize_job *job)
{
    for (size_t i = 0; i < job->count; i++) {
        if (job->bodies[i].buffer.obj != NULL) {
            PyBuffer_Release(&job->bodies[i].buffer);
        }
    }
    PyMem_Free(job->bodies);
    coffer_header_free(job->header);
}

/* `data` is an (address, size) pair or has the buffer protocol. */
static int body_init(serialize_body *body, PyObject *data)
{
    memset(body, 0, sizeof *body);
    if (PyTuple_Check(data)) {
        PyObject *pair[2];
        if (py_unpack(data, "data are a buffer, or a pair of address and size", pair, 2) < 0) {
            return -1;
        }
        body->bytes = PyLong_AsVoidPtr(pair[0]);
        body->size = PyErr_Occurred() == NULL ? PyLong_AsUnsignedLongLong(pair[1]) : 0;
        return PyErr_Occurred() == NULL ? 0 : -1;
    }
    if (PyObject_GetBuffer(data, &body->buffer, PyBUF_C_CONTIGUOUS) < 0) {
        return -1;
    }
    body->bytes = body->buffer.buf;
    body->size = (uint64_t)body->buffer.len;
    return 0;
}

static int job_add(const py_state *state, serialize_job *job, PyObject *entry)
{
    PyObject *items[4];
    if (py_unpack(entry, "an entry is (name, dtype, shape, data)", items, 4) < 0 ||
        py_add_tensor(state, job->header, items[0], items[1], items[2]) < 0 ||
        body_init(&job->bodies[job->count], items[3]) < 0) {
        return -1;
    }
    job->count++;
    return 0;
}

static int job_check_sizes(const py_state *state, const serialize_job *job)
{
    for (size_t i = 0; i < job->count; i++) {
        const coffer_tensor *tensor = coffer_header_at(job->header, i);
        if (tensor->size != job->bodies[i].size) {
            py_fail_sizes(state, COFFER_ERR_SIZE, tensor->name, tensor->size, job->bodies[i].size,
                          "the data's size is not that of dtype and shape");
            return -1;
        }
    }
    return 0;
}

/* Declares everything, with space for digests if an algorithm is given, and builds the header. On failure nothing is left to release. */
static int job_init(const py_state *state, serialize_job *job, PyObject *entries, PyObject *metadata,
                    const coffer_header_options *options, coffer_algorithm digests)
{
    memset(job, 0, sizeof *job);
    PyObject *list = PySequence_Tuple(entries);
    if (list == NULL) {
        return -1;
    }
    const size_t count = (size_t)PyTuple_Size(list);
    coffer_error err;
    bool failed = true;
    job->bodies = PyMem_Calloc(count + 1, sizeof *job->bodies);
    if (job->bodies == NULL) {
        PyErr_NoMemory();
    } else if (coffer_header_new(&job->header, coffer_libc_allocator(), &err) != COFFER_OK) {
        py_raise(state, &err);
    } else {
        failed = py_add_metadata(state, job->header, metadata) < 0;
    }
    for (size_t i = 0; !failed && i < count; i++) {
        failed = job_add(state, job, PyTuple_GetItem(list, (Py_ssize_t)i)) < 0;
    }
    if (!failed && digests != COFFER_NO_ALGORITHM &&
        coffer_header_reserve_digests(job->header, digests, &err) != COFFER_OK) {
        py_raise(state, &err);
        failed = true;
    }
    if (!failed && coffer_header_build(job->header, options, NULL, NULL, NULL, &err) != COFFER_OK) {
        py_raise(state, &err);
        failed = true;
    }
    failed = failed || job_check_sizes(state, job) < 0;
    Py_DECREF(list);
    if (failed) {
        job_free(job);
    }
    return failed ? -1 : 0;
}

/* Writes every body, watched. Needs no GIL. */
static coffer_status job_write(const serialize_job *job, py_write_function write, void *writer, py_watch *watch,
                               coffer_error *err)
{
    for (size_t i = 0; i < job->count; i++) {
        watch->total += job->bodies[i].size;
    }
    for (size_t i = 0; i < job->count; i++) {
        const coffer_status status =
            py_write(watch, write, writer, i, 0, job->bodies[i].bytes, job->bodies[i].size, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

static coffer_status job_write_file(const serialize_job *job, coffer_writer *writer, py_watch *watch, coffer_error *err)
{
    const coffer_status status = job_write(job, py_write_one, writer, watch, err);
    return status == COFFER_OK ? coffer_writer_finish(writer, err) : status;
}

/* ---- To memory ------------------------------------------------------------------------------------------------------ */

static PyObject *job_to_bytes(const py_state *state, const serialize_job *job)
{
    const coffer_table *table = NULL;
    coffer_error err;
    if (coffer_header_build(job->header, NULL, NULL, NULL, &table, &err) != COFFER_OK) {
        return py_raise(state, &err);
    }
    const uint64_t size = coffer_table_data_offset(table) + coffer_table_data_size(table);
    if (size > PY_SSIZE_T_MAX) {
        return PyErr_NoMemory();
    }
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (bytes == NULL) {
        return NULL;
    }
    char *memory = PyBytes_AsString(bytes);
    coffer_writer *writer = NULL;
    py_watch watch;
    py_watch_begin(&watch, NULL, 0);
    coffer_status status = coffer_writer_open_memory(&writer, job->header, memory, (size_t)size, NULL, &err);
    if (status == COFFER_OK) {
        status = job_write_file(job, writer, &watch, &err);
    }
    coffer_writer_free(writer);
    py_watch_finish(&watch);
    if (status != COFFER_OK) {
        py_raise(state, &err);
        Py_CLEAR(bytes);
    }
    return bytes;
}

PyObject *py_serialize(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "entries", "metadata", "format", NULL };
    const py_state *state = PyModule_GetState(module);
    PyObject *entries = NULL;
    PyObject *metadata = Py_None;
    const char *format = NULL;
    coffer_header_options options = COFFER_HEADER_OPTIONS_INIT;
    serialize_job job;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O$z:serialize", names, &entries, &metadata, &format) ||
        py_format_from(state, format, &options.format) < 0) {
        return NULL;
    }
    options.empty_metadata = metadata != Py_None;
    if (job_init(state, &job, entries, metadata, &options, COFFER_NO_ALGORITHM) < 0) {
        return NULL;
    }
    PyObject *bytes = job_to_bytes(state, &job);
    job_free(&job);
    return bytes;
}

/* ---- To a file ------------------------------------------------------------------------------------------------------ */

static PyObject *job_to_file(const py_state *state, const serialize_job *job, PyObject *target,
                             const coffer_writer_options *options, PyObject *progress)
{
    coffer_writer *writer = NULL;
    if (py_writer_open(state, &writer, job->header, target, options) < 0) {
        return NULL;
    }
    py_watch watch;
    coffer_error err;
    py_watch_begin(&watch, progress, 0);
    const coffer_status status = job_write_file(job, writer, &watch, &err);
    coffer_writer_free(writer);
    py_watch_finish(&watch);
    return status == COFFER_OK ? Py_NewRef(Py_None) : py_raise(state, &err);
}

PyObject *py_serialize_file(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "entries", "path", PY_WRITING_NAMES };
    const py_state *state = PyModule_GetState(module);
    py_writing writing;
    serialize_job job;
    if (py_writing_from(state, args, kwargs, PY_WRITING_FORMAT "serialize_file", names, &writing) < 0 ||
        job_init(state, &job, writing.own[0], writing.metadata, &writing.header, writing.options.digests) < 0) {
        return NULL;
    }
    PyObject *result = job_to_file(state, &job, writing.own[1], &writing.options, writing.progress);
    job_free(&job);
    return result;
}

/* ---- To several files ----------------------------------------------------------------------------------------------- */

static coffer_status job_write_one(void *writer, size_t i, uint64_t offset, const void *bytes, uint64_t size,
                                   coffer_error *err)
{
    return coffer_model_writer_write(writer, i, offset, bytes, size, err);
}

/* Writes all of them, and closes the writer. Needs no GIL. */
static coffer_status job_write_model(const serialize_job *job, const char *path,
                                     const coffer_model_writer_options *options, py_watch *watch, coffer_error *err)
{
    coffer_model_writer *writer = NULL;
    coffer_status status = coffer_model_writer_open(&writer, job->header, path, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = job_write(job, job_write_one, writer, watch, err);
    if (status == COFFER_OK) {
        status = coffer_model_writer_finish(writer, err);
    }
    coffer_model_writer_free(writer);
    return status;
}

static PyObject *job_to_model(const py_state *state, const serialize_job *job, const char *path,
                              const coffer_model_writer_options *options, PyObject *progress)
{
    py_watch watch;
    coffer_error err;
    py_watch_begin(&watch, progress, 0);
    const coffer_status status = job_write_model(job, path, options, &watch, &err);
    py_watch_finish(&watch);
    return status == COFFER_OK ? Py_NewRef(Py_None) : py_raise(state, &err);
}

PyObject *py_serialize_model(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "entries", "path",    "metadata", "max_shard_size", "sync",
                             "force",   "digests", "progress", "packed",         NULL };
    const py_state *state = PyModule_GetState(module);
    PyObject *entries = NULL;
    PyObject *path = NULL;
    PyObject *metadata = Py_None;
    unsigned long long max_shard_size = 0;
    const char *sync = "replace";
    int force = 0;
    const char *digests = NULL;
    PyObject *progress = NULL;
    int packed = 0;
    coffer_header_options header = COFFER_HEADER_OPTIONS_INIT;
    coffer_writer_options files = COFFER_WRITER_OPTIONS_INIT;
    coffer_model_writer_options options = COFFER_MODEL_WRITER_OPTIONS_INIT;
    serialize_job job;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO&|O$KspzOp:serialize_model", names, &entries, py_to_path, &path,
                                     &metadata, &max_shard_size, &sync, &force, &digests, &progress, &packed) ||
        py_sync_from(state, sync, &files.sync) < 0 || py_algorithm_from(state, digests, &files.digests) < 0) {
        Py_XDECREF(path);
        return NULL;
    }
    header.empty_metadata = metadata != Py_None;
    files.empty_metadata = header.empty_metadata;
    options.max_shard_size = max_shard_size;
    options.force = force != 0;
    options.files = &files;
    files.progress = py_ask_signals;
    files.packed = packed != 0;
    PyObject *result = NULL;
    if (job_init(state, &job, entries, metadata, &header, COFFER_NO_ALGORITHM) == 0) {
        result = job_to_model(state, &job, PyBytes_AsString(path), &options, progress);
        job_free(&job);
    }
    Py_DECREF(path);
    return result;
}
