/* SPDX-License-Identifier: Apache-2.0 */
/* add_lora: one adapter that does what several do together, or only what it would be of. */
#include "py_merge.h"

#include <string.h>

/* What is written, and how. */
typedef struct add_writing {
    const char *path; /* NULL: nothing is written */
    coffer_writer_options options;
    PyObject *progress;
} add_writing;

/* (module, adapters, rank_sum, rank, kept); None for what was not computed. */
static PyObject *add_module(const coffer_added *added, int dry_run)
{
    PyObject *name = PyUnicode_DecodeUTF8(added->module, (Py_ssize_t)added->module_len, NULL);
    PyObject *kept = name == NULL                               ? NULL
                     : dry_run && added->rank < added->rank_sum ? Py_NewRef(Py_None)
                                                                : PyFloat_FromDouble(dry_run ? 1 : added->kept);
    if (kept == NULL) {
        Py_XDECREF(name);
        return NULL;
    }
    return Py_BuildValue("(NnKKN)", name, (Py_ssize_t)added->adapter_count, (unsigned long long)added->rank_sum,
                         (unsigned long long)added->rank, kept);
}

static PyObject *add_reported(const coffer_addition *addition, int dry_run)
{
    const coffer_added *added = NULL;
    PyObject *modules = PyList_New(0);
    for (size_t i = 0; modules != NULL && (added = coffer_addition_at(addition, i)) != NULL; i++) {
        PyObject *one = add_module(added, dry_run);
        if (one == NULL || PyList_Append(modules, one) < 0) {
            Py_CLEAR(modules);
        }
        Py_XDECREF(one);
    }
    return modules;
}

/* Makes the folder of a new adapter of PEFT, with the GIL; *made, so that a failure can remove it. */
static int add_make_folder(PyObject *make_folder, const coffer_addition *addition)
{
    PyObject *done = coffer_addition_is_folder(addition) ? PyObject_CallNoArgs(make_folder) : Py_NewRef(Py_None);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static PyObject *add_run(const py_state *state, py_merge *merge, const coffer_add_lora_options *options,
                         const add_writing *writing, PyObject *make_folder)
{
    coffer_addition *addition = NULL;
    coffer_error err;
    py_watch watch;
    py_watch_begin(&watch, NULL, 0);
    coffer_status status = py_merge_open(merge, &err);
    if (status == COFFER_OK) {
        status = coffer_add_lora_plan(&addition, merge->adapters, merge->count, options, &err);
    }
    py_watch_finish(&watch);
    if (status == COFFER_OK && writing->path != NULL && add_make_folder(make_folder, addition) < 0) {
        coffer_addition_free(addition);
        return NULL;
    }
    if (status == COFFER_OK && writing->path != NULL) {
        py_watch_begin(&watch, writing->progress, 0);
        status = coffer_add_lora_run(addition, writing->path, &writing->options, &watch.options, &err);
        py_watch_finish(&watch);
    }
    PyObject *reported = status == COFFER_OK ? add_reported(addition, writing->path == NULL) : py_raise(state, &err);
    coffer_addition_free(addition);
    return reported;
}

PyObject *py_add_lora(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "adapters", "rank", "dtype", "make_folder", "path", "digests", "sync", "progress", NULL };
    const py_state *state = PyModule_GetState(module);
    coffer_add_lora_options options = COFFER_ADD_LORA_OPTIONS_INIT;
    add_writing writing = { .options = COFFER_WRITER_OPTIONS_INIT };
    PyObject *adapters = NULL;
    PyObject *make_folder = NULL;
    PyObject *given = NULL;
    PyObject *path = NULL;
    const char *dtype = NULL;
    const char *digests = NULL;
    const char *sync = "replace";
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO&zO|$OzsO:add_lora", names, &adapters, py_to_u64, &options.rank,
                                     &dtype, &make_folder, &given, &digests, &sync, &writing.progress) ||
        (given != NULL && given != Py_None && !PyUnicode_FSConverter(given, &path))) {
        return NULL;
    }
    py_merge merge;
    writing.path = path == NULL ? NULL : PyBytes_AsString(path);
    options.dtype = dtype != NULL ? coffer_dtype_from_name(dtype, strlen(dtype)) : COFFER_UNKNOWN_DTYPE;
    const int ready = py_merge_init(state, &merge, adapters) == 0 &&
                      py_algorithm_from(state, digests, &writing.options.digests) == 0 &&
                      py_sync_from(state, sync, &writing.options.sync) == 0;
    if (ready && dtype != NULL && options.dtype == COFFER_UNKNOWN_DTYPE) {
        py_fail(state, COFFER_ERR_ARGUMENT, "the matrices of an adapter are F32, BF16 or F16, not %s", dtype);
    }
    PyObject *reported = PyErr_Occurred() == NULL ? add_run(state, &merge, &options, &writing, make_folder) : NULL;
    py_merge_free(&merge);
    Py_XDECREF(path);
    return reported;
}
