/* SPDX-License-Identifier: Apache-2.0 */
/* coffer._native.import_file: files of other programs, looked at and, if there is an output, written as safetensors. */
#include "py_native.h"

#include <string.h>

/* An input that is open. */
typedef struct import_opened {
    PyObject *path; /* as a bytes object */
    coffer_input *input;
    coffer_import *import;
} import_opened;

/* One call: what was asked for, and the output as a bytes object. */
typedef struct import_call {
    PyObject *paths;  /* a tuple; at least one */
    PyObject *output; /* NULL: only look */
    PyObject *progress;
    unsigned threads;
    coffer_open_options open;
    coffer_import_options options;
    coffer_import_write_options writing;
    coffer_writer_options files;
} import_call;

/* The number of a word in a list that ends with NULL; -1 and an Error for any other. */
static int import_word(const py_state *state, const char *what, const char *const *words, const char *word)
{
    for (int i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], word) == 0) {
            return i;
        }
    }
    py_fail(state, COFFER_ERR_ARGUMENT, "%s is \"%s\" or another word of the list, not \"%s\"", what, words[0], word);
    return -1;
}

/* What blocks become, COFFER_UNKNOWN_DTYPE without a word; -1 and an Error for a word that is no such dtype. */
static int import_blocks(const py_state *state, const char *word)
{
    static const char *const words[] = { "F32", "F16", "BF16", NULL };
    static const coffer_dtype dtypes[] = { COFFER_F32, COFFER_F16, COFFER_BF16 };
    const int which = word == NULL ? -1 : import_word(state, "dequantize", words, word);
    if (which < 0) {
        return word == NULL ? (int)COFFER_UNKNOWN_DTYPE : -1;
    }
    return (int)dtypes[which];
}

/* ---- what is told -------------------------------------------------------------------------------------------------- */

/* Text of a file that nobody trusts, which need not be UTF-8. */
static PyObject *import_text(const char *text, size_t text_len)
{
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)text_len, "backslashreplace");
}

static PyObject *import_tensor(const py_state *state, const coffer_import_tensor *tensor)
{
    static const char *const fates[] = { "written", "alias", "skipped" };
    PyObject *name = import_text(tensor->name, tensor->name_len);
    PyObject *storage = import_text(tensor->storage, tensor->storage_len);
    PyObject *shape = py_shape_tuple(tensor->shape, tensor->rank);
    const bool known = tensor->dtype != COFFER_UNKNOWN_DTYPE;
    PyObject *dtype = Py_NewRef(known ? state->dtype_names[tensor->dtype] : Py_None);
    PyObject *reported = NULL;
    if (name != NULL && storage != NULL && shape != NULL) {
        reported =
            Py_BuildValue("(OOOKsnsOiii)", name, dtype, shape, (unsigned long long)tensor->size, fates[tensor->fate],
                          tensor->alias_of == SIZE_MAX ? (Py_ssize_t)-1 : (Py_ssize_t)tensor->alias_of, tensor->reason,
                          storage, tensor->gathered, tensor->changed, tensor->decoded);
    }
    Py_XDECREF(name);
    Py_XDECREF(storage);
    Py_XDECREF(shape);
    Py_DECREF(dtype);
    return reported;
}

static PyObject *import_finding(const coffer_import_finding *finding)
{
    static const char *const weights[] = { "note", "opaque", "danger" };
    PyObject *member = import_text(finding->member, strlen(finding->member));
    PyObject *subject = import_text(finding->subject, strlen(finding->subject));
    PyObject *reported = NULL;
    if (member != NULL && subject != NULL) {
        const bool placed = finding->offset != COFFER_NO_OFFSET;
        reported =
            Py_BuildValue("(sssNOO)", weights[finding->weight], finding->text, finding->file_name,
                          placed ? PyLong_FromUnsignedLongLong(finding->offset) : Py_NewRef(Py_None), member, subject);
    }
    Py_XDECREF(member);
    Py_XDECREF(subject);
    return reported;
}

/* Appends an object that is taken over, and may be NULL after a failure. */
static int import_append(PyObject *list, PyObject *object)
{
    const int appended = object == NULL ? -1 : PyList_Append(list, object);
    Py_XDECREF(object);
    return appended;
}

/* The three lists. */
static int import_lists(const py_state *state, coffer_import *import, PyObject *tensors, PyObject *findings,
                        PyObject *left)
{
    const coffer_import_tensor *tensor = NULL;
    const coffer_import_finding *finding = NULL;
    const char *name = NULL;
    uint64_t size = 0;
    for (size_t i = 0; (tensor = coffer_import_at(import, i)) != NULL; i++) {
        if (import_append(tensors, import_tensor(state, tensor)) < 0) {
            return -1;
        }
    }
    for (size_t i = 0; (finding = coffer_import_finding_at(import, i)) != NULL; i++) {
        if (import_append(findings, import_finding(finding)) < 0) {
            return -1;
        }
    }
    for (size_t i = 0; (name = coffer_import_unreferenced_at(import, i, &size)) != NULL; i++) {
        PyObject *text = import_text(name, strlen(name));
        PyObject *pair = text == NULL ? NULL : Py_BuildValue("(OK)", text, (unsigned long long)size);
        Py_XDECREF(text);
        if (import_append(left, pair) < 0) {
            return -1;
        }
    }
    return 0;
}

static PyObject *import_reported(const py_state *state, coffer_import *import, uint64_t bytes_read)
{
    const coffer_import_summary *summary = coffer_import_summarize(import);
    PyObject *tensors = PyList_New(0);
    PyObject *findings = PyList_New(0);
    PyObject *left = PyList_New(0);
    PyObject *reported = NULL;
    if (tensors != NULL && findings != NULL && left != NULL &&
        import_lists(state, import, tensors, findings, left) == 0) {
        reported = Py_BuildValue("(ssOOOKKKKKKK)", summary->reader, summary->noun, tensors, findings, left,
                                 (unsigned long long)summary->total, (unsigned long long)summary->written,
                                 (unsigned long long)summary->aliased, (unsigned long long)summary->skipped,
                                 (unsigned long long)summary->unreferenced, (unsigned long long)summary->output,
                                 (unsigned long long)bytes_read);
    }
    Py_XDECREF(tensors);
    Py_XDECREF(findings);
    Py_XDECREF(left);
    return reported;
}

/* ---- the whole ----------------------------------------------------------------------------------------------------- */

/* Opens an input, and adds it to the first one, which may be itself. */
static coffer_status import_open_one(const import_call *call, import_opened *first, import_opened *opened,
                                     coffer_error *err)
{
    coffer_status status = coffer_input_open(&opened->input, PyBytes_AsString(opened->path), &call->open, err);
    if (status == COFFER_OK) {
        status = coffer_import_open(&opened->import, opened->input, &call->options, err);
    }
    return status == COFFER_OK && opened != first ? coffer_import_add(first->import, opened->import, err) : status;
}

/* Opens all inputs, and writes them as one. */
static PyObject *import_run_opened(const py_state *state, const import_call *call, import_opened *opened,
                                   Py_ssize_t count)
{
    coffer_error err;
    py_watch watch;
    coffer_status status = COFFER_OK;
    uint64_t bytes_read = 0;
    py_watch_begin(&watch, call->progress, call->threads);
    for (Py_ssize_t i = 0; i < count && status == COFFER_OK; i++) {
        status = import_open_one(call, opened, &opened[i], &err);
        bytes_read += coffer_input_bytes_read(opened[i].input);
    }
    if (status == COFFER_OK && call->output != NULL) {
        status =
            coffer_import_write(opened->import, PyBytes_AsString(call->output), &call->writing, &watch.options, &err);
    }
    py_watch_finish(&watch);
    return status == COFFER_OK ? import_reported(state, opened->import, bytes_read) : py_raise(state, &err);
}

/* The paths as bytes objects; false with an exception for one that is no path. */
static bool import_paths(const import_call *call, import_opened *opened, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!py_to_path(PyTuple_GetItem(call->paths, i), &opened[i].path)) {
            return false;
        }
    }
    return true;
}

static PyObject *import_run(const py_state *state, const import_call *call)
{
    const Py_ssize_t count = PyTuple_Size(call->paths);
    if (count < 1) {
        return py_fail(state, COFFER_ERR_ARGUMENT, "there is no file to convert");
    }
    import_opened *opened = PyMem_Calloc((size_t)count, sizeof *opened);
    if (opened == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *reported = import_paths(call, opened, count) ? import_run_opened(state, call, opened, count) : NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        coffer_import_free(opened[i].import);
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        coffer_input_free(opened[i].input);
        Py_XDECREF(opened[i].path);
    }
    PyMem_Free(opened);
    return reported;
}

/* The patterns, which are borrowed from their strings; false with an exception for what is none. */
static bool import_patterns(import_call *call, PyObject *select)
{
    const Py_ssize_t count = select == NULL ? 0 : PyTuple_Size(select);
    const char **patterns = PyMem_Calloc((size_t)count + 1, sizeof *patterns);
    call->options.select = patterns;
    if (patterns == NULL) {
        PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        patterns[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(select, i), NULL);
        if (patterns[i] == NULL) {
            return false;
        }
    }
    call->options.select_count = (size_t)count;
    return true;
}

PyObject *py_import_file(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "paths",     "output",         "root",         "strip_prefix",
                             "tied",      "scalars",        "bytes_as",     "skip_unsupported",
                             "strict",    "complex128",     "allow_expand", "scan",
                             "token",     "max_shard_size", "force",        "unverified",
                             "unchecked", "sync",           "digests",      "threads",
                             "progress",  "raw_blocks",     "blocks_as",    "packed",
                             "constants", "sidecar",        "select",       NULL };
    static const char *const ties[] = { "hf", "keep", NULL };
    static const char *const scalars[] = { "skip", "metadata", NULL };
    const py_state *state = PyModule_GetState(module);
    import_call call = { .open = COFFER_OPEN_OPTIONS_INIT,
                         .options = COFFER_IMPORT_OPTIONS_INIT,
                         .writing = COFFER_IMPORT_WRITE_OPTIONS_INIT,
                         .files = COFFER_WRITER_OPTIONS_INIT };
    PyObject *output = NULL;
    const char *tied = "hf";
    const char *scalar = "skip";
    const char *bytes_as = NULL;
    const char *sync = "replace";
    const char *digests = NULL;
    unsigned long long max_shard_size = 0;
    const char *blocks_as = NULL;
    PyObject *select = NULL;
    int flags[11] = { 0 };
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|O$zzsszpppppzKpppszIOpzppzO!:import_file", names, &PyTuple_Type,
                                     &call.paths, &output, &call.options.root, &call.options.strip_prefix, &tied,
                                     &scalar, &bytes_as, &flags[0], &flags[1], &flags[2], &flags[3], &flags[4],
                                     &call.open.token, &max_shard_size, &flags[5], &flags[6], &flags[7], &sync,
                                     &digests, &call.threads, &call.progress, &flags[8], &blocks_as, &flags[9],
                                     &flags[10], &call.writing.sidecar, &PyTuple_Type, &select)) {
        return NULL;
    }
    PyObject *reported = NULL;
    const int tie = import_word(state, "tied", ties, tied);
    const int kind = tie < 0 ? -1 : import_word(state, "scalars", scalars, scalar);
    const int block = kind < 0 ? -1 : import_blocks(state, blocks_as);
    call.options.ties = (coffer_ties)(tie < 0 ? 0 : tie);
    call.options.scalars = (coffer_scalars)(kind < 0 ? 0 : kind);
    call.options.bytes_as =
        bytes_as == NULL ? COFFER_UNKNOWN_DTYPE : coffer_dtype_from_name(bytes_as, strlen(bytes_as));
    call.options.blocks_as = (coffer_dtype)block;
    call.options.raw_blocks = flags[8] != 0;
    call.options.packed = flags[9] != 0;
    call.options.constants = flags[10] != 0;
    call.options.skip_unsupported = flags[0] != 0;
    call.options.strict = flags[1] != 0;
    call.options.complex128 = flags[2] != 0;
    call.options.allow_expand = flags[3] != 0;
    call.options.scan = flags[4] != 0;
    call.writing.force = flags[5] != 0;
    call.writing.unverified = flags[6] != 0;
    call.writing.unchecked = flags[7] != 0;
    call.writing.max_shard_size = max_shard_size;
    call.writing.files = &call.files;
    const bool named = output != NULL && output != Py_None;
    if (block >= 0 && py_sync_from(state, sync, &call.files.sync) == 0 &&
        py_algorithm_from(state, digests, &call.files.digests) == 0 && import_patterns(&call, select) &&
        (!named || py_to_path(output, &call.output))) {
        reported = import_run(state, &call);
    }
    PyMem_Free((void *)call.options.select);
    Py_XDECREF(call.output);
    return reported;
}
