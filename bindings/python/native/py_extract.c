/* SPDX-License-Identifier: Apache-2.0 */
/* Model.extract_lora: an adapter that makes another model of this one, or only what it would be of. */
#include "py_merge.h"

#include <string.h>

/* What the library borrows while an adapter is extracted: the texts belong to the tuple. */
typedef struct extract_patterns {
    PyObject *given;
    const char **texts;
} extract_patterns;

static void extract_patterns_free(extract_patterns *patterns)
{
    PyMem_Free(patterns->texts);
    Py_XDECREF(patterns->given);
}

static int extract_patterns_init(extract_patterns *patterns, PyObject *given, coffer_extract_lora_options *options)
{
    memset(patterns, 0, sizeof *patterns);
    patterns->given = PySequence_Tuple(given);
    if (patterns->given == NULL) {
        return -1;
    }
    options->select_count = (size_t)PyTuple_Size(patterns->given);
    patterns->texts = PyMem_Calloc(options->select_count + 1, sizeof(char *));
    options->select = patterns->texts;
    if (patterns->texts == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < options->select_count; i++) {
        patterns->texts[i] = py_pattern_text(PyTuple_GetItem(patterns->given, (Py_ssize_t)i));
        if (patterns->texts[i] == NULL) {
            return -1;
        }
    }
    return 0;
}

/* ---- what is told ---- */

/* (name, rank, transposed, kept); None for what was not computed. */
static PyObject *extract_tensor(const coffer_extracted *reported, int dry_run)
{
    const coffer_tensor *tensor = reported->tensor;
    PyObject *name = py_tensor_name(tensor);
    PyObject *kept = dry_run && reported->rank > 0 ? Py_NewRef(Py_None)
                     : name == NULL                ? NULL
                                                   : PyFloat_FromDouble(reported->kept);
    if (name == NULL || kept == NULL) {
        Py_XDECREF(name);
        Py_XDECREF(kept);
        return NULL;
    }
    return Py_BuildValue("(NKON)", name, (unsigned long long)reported->rank, reported->transposed ? Py_True : Py_False,
                         kept);
}

static PyObject *extract_reported(const coffer_extraction *extraction, int dry_run)
{
    const coffer_extracted *reported = NULL;
    PyObject *tensors = PyList_New(0);
    for (size_t i = 0; tensors != NULL && (reported = coffer_extraction_at(extraction, i)) != NULL; i++) {
        PyObject *one = extract_tensor(reported, dry_run);
        if (one == NULL || PyList_Append(tensors, one) < 0) {
            Py_CLEAR(tensors);
        }
        Py_XDECREF(one);
    }
    return tensors;
}

/* ---- the whole ---- */

/* `folder` NULL: nothing is written. */
static PyObject *extract_run(const py_state *state, const py_handle *base, const py_handle *tuned,
                             const coffer_extract_lora_options *options, const coffer_writer_options *writing,
                             const char *folder, PyObject *progress, unsigned threads)
{
    coffer_extraction *extraction = NULL;
    coffer_error err;
    py_watch watch;
    py_watch_begin(&watch, progress, threads);
    coffer_status status = coffer_extract_lora_plan(&extraction, py_handle_model(base), py_handle_model(tuned), options,
                                                    &watch.options, &err);
    if (status == COFFER_OK && folder != NULL) {
        status = coffer_extract_lora_run(extraction, folder, writing, &watch.options, &err);
    }
    py_watch_finish(&watch);
    PyObject *reported = status == COFFER_OK ? extract_reported(extraction, folder == NULL) : py_raise(state, &err);
    coffer_extraction_free(extraction);
    return reported;
}

PyObject *py_model_extract_lora(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "tuned", "rank",    "select",   "dtype", "fan_in_fan_out", "folder", "digests",
                             "sync",  "threads", "progress", NULL };
    const py_state *state = py_state_of(self);
    coffer_extract_lora_options options = COFFER_EXTRACT_LORA_OPTIONS_INIT;
    coffer_writer_options writing = COFFER_WRITER_OPTIONS_INIT;
    PyObject *tuned = NULL;
    PyObject *select = NULL;
    PyObject *folder = NULL;
    PyObject *progress = NULL;
    PyObject *path = NULL;
    const char *dtype = NULL;
    const char *digests = NULL;
    const char *sync = "replace";
    unsigned threads = 0;
    int fan_in_fan_out = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O&Osp|$OzsIO:extract_lora", names, state->model_type, &tuned,
                                     py_to_u64, &options.rank, &select, &dtype, &fan_in_fan_out, &folder, &digests,
                                     &sync, &threads, &progress) ||
        (folder != NULL && folder != Py_None && !PyUnicode_FSConverter(folder, &path))) {
        return NULL;
    }
    extract_patterns patterns;
    options.dtype = coffer_dtype_from_name(dtype, strlen(dtype));
    options.fan_in_fan_out = fan_in_fan_out != 0;
    const int ready = extract_patterns_init(&patterns, select, &options) == 0 &&
                      py_algorithm_from(state, digests, &writing.digests) == 0 &&
                      py_sync_from(state, sync, &writing.sync) == 0;
    if (ready && options.dtype == COFFER_UNKNOWN_DTYPE) {
        py_fail(state, COFFER_ERR_ARGUMENT, "the matrices of an adapter are F32, BF16 or F16, not %s", dtype);
    }
    py_handle *base = PyErr_Occurred() == NULL ? py_model_use(self) : NULL;
    py_handle *other = base == NULL ? NULL : py_model_use(tuned);
    PyObject *reported = other == NULL ? NULL
                                       : extract_run(state, base, other, &options, &writing,
                                                     path == NULL ? NULL : PyBytes_AsString(path), progress, threads);
    py_handle_release(other);
    py_handle_release(base);
    extract_patterns_free(&patterns);
    Py_XDECREF(path);
    return reported;
}
