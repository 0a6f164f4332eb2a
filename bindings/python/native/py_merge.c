/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rewrite computes from other models, as Python says it:
 *
 *   ("lora", ((path, scale), ...), (pattern, ...))
 *   ("average", (Model, ...), weights or None, ((pattern, weights), ...), slerp)      the models but the first
 *   ("dequantize", dtype or None, like or None, allow_not_finite)                     the quantised layers of the model itself
 *
 * Weights are tuples of floats. Everything is copied or kept alive until py_merge_free.
 */
#include "py_merge.h"

#include <string.h>

/* ---- from Python ---- */

/* Keeps an object until the end. */
static int merge_keep(py_merge *merge, PyObject *object)
{
    const int kept = object == NULL ? -1 : PyList_Append(merge->kept, object);
    Py_XDECREF(object);
    return kept;
}

/* The items of a sequence as a tuple that is kept, borrowed; NULL and an exception. */
static PyObject *merge_tuple(py_merge *merge, PyObject *sequence)
{
    PyObject *tuple = PySequence_Tuple(sequence);
    return merge_keep(merge, tuple) < 0 ? NULL : tuple;
}

const char *py_pattern_text(PyObject *text)
{
    Py_ssize_t size = 0;
    const char *found = py_text(text, "a pattern", &size);
    if (found != NULL && strlen(found) != (size_t)size) {
        py_fail_call(PY_WRONG_VALUE, "a pattern has no NUL in it; ? stands for one");
        return NULL;
    }
    return found;
}

static const char *merge_path(py_merge *merge, PyObject *path)
{
    PyObject *bytes = NULL;
    if (!py_to_path(path, &bytes)) {
        return NULL;
    }
    const char *text = PyBytes_AsString(bytes);
    return merge_keep(merge, bytes) < 0 ? NULL : text;
}

static int merge_adapter(py_merge *merge, size_t i, PyObject *pair)
{
    PyObject *items[2];
    if (py_unpack(pair, "an adapter is a path and a scale", items, 2) < 0) {
        return -1;
    }
    merge->paths[i] = merge_path(merge, items[0]);
    merge->adapters[i].scale = merge->paths[i] == NULL ? 0 : PyFloat_AsDouble(items[1]);
    return PyErr_Occurred() == NULL ? 0 : -1;
}

static int merge_lora_from(py_merge *merge, PyObject *adapters, PyObject *select)
{
    PyObject *all = merge_tuple(merge, adapters);
    PyObject *patterns = all == NULL ? NULL : merge_tuple(merge, select);
    if (patterns == NULL) {
        return -1;
    }
    merge->count = (size_t)PyTuple_Size(all);
    merge->lora.select_count = (size_t)PyTuple_Size(patterns);
    merge->paths = PyMem_Calloc(merge->count + 1, sizeof(char *));
    merge->adapters = PyMem_Calloc(merge->count + 1, sizeof *merge->adapters);
    merge->loras = PyMem_Calloc(merge->count + 1, sizeof(coffer_lora *));
    merge->select = PyMem_Calloc(merge->lora.select_count + 1, sizeof(char *));
    if (merge->paths == NULL || merge->adapters == NULL || merge->loras == NULL || merge->select == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int ready = 0;
    for (size_t i = 0; i < merge->count && ready == 0; i++) {
        ready = merge_adapter(merge, i, PyTuple_GetItem(all, (Py_ssize_t)i));
    }
    for (size_t i = 0; i < merge->lora.select_count && ready == 0; i++) {
        merge->select[i] = py_pattern_text(PyTuple_GetItem(patterns, (Py_ssize_t)i));
        ready = merge->select[i] == NULL ? -1 : 0;
    }
    merge->lora.select = merge->select;
    return ready;
}

/* As many numbers as there are to be, after those that are there. */
static const double *merge_numbers(const py_state *state, py_merge *merge, PyObject *sequence)
{
    const size_t wanted = merge->average.slerp ? 1 : merge->count;
    PyObject *tuple = merge_tuple(merge, sequence);
    double *numbers = merge->next_number;
    if (tuple == NULL) {
        return NULL;
    }
    if ((size_t)PyTuple_Size(tuple) != wanted) {
        py_fail(state, COFFER_ERR_ARGUMENT, "%zu weights are needed, one for each model", wanted);
        return NULL;
    }
    for (size_t i = 0; i < wanted; i++) {
        numbers[i] = PyFloat_AsDouble(PyTuple_GetItem(tuple, (Py_ssize_t)i));
    }
    merge->next_number += wanted;
    return PyErr_Occurred() == NULL ? numbers : NULL;
}

static int merge_rule(const py_state *state, py_merge *merge, size_t i, PyObject *pair)
{
    PyObject *items[2];
    if (py_unpack(pair, "a rule is a pattern and its weights", items, 2) < 0) {
        return -1;
    }
    merge->rules[i].pattern = py_pattern_text(items[0]);
    merge->rules[i].weights = merge->rules[i].pattern == NULL ? NULL : merge_numbers(state, merge, items[1]);
    return merge->rules[i].weights == NULL ? -1 : 0;
}

static int merge_model(const py_state *state, py_merge *merge, size_t i, PyObject *model)
{
    if (!PyObject_TypeCheck(model, (PyTypeObject *)state->model_type)) {
        py_fail_call(PY_WRONG_TYPE, "what is averaged are models");
        return -1;
    }
    merge->handles[i] = py_model_use(model);
    merge->models[i] = merge->handles[i] == NULL ? NULL : py_handle_model(merge->handles[i]);
    return merge->handles[i] == NULL ? -1 : 0;
}

static int merge_average_from(const py_state *state, py_merge *merge, PyObject *models, PyObject *weights,
                              PyObject *rules)
{
    PyObject *all = merge_tuple(merge, models);
    PyObject *pairs = all == NULL ? NULL : merge_tuple(merge, rules);
    if (pairs == NULL) {
        return -1;
    }
    merge->count = (size_t)PyTuple_Size(all) + 1;
    merge->average.rule_count = (size_t)PyTuple_Size(pairs);
    merge->handles = PyMem_Calloc(merge->count, sizeof(py_handle *));
    merge->models = PyMem_Calloc(merge->count, sizeof(coffer *));
    merge->rules = PyMem_Calloc(merge->average.rule_count + 1, sizeof *merge->rules);
    merge->numbers = PyMem_Calloc((merge->average.rule_count + 1) * merge->count, sizeof *merge->numbers);
    merge->next_number = merge->numbers;
    if (merge->handles == NULL || merge->models == NULL || merge->rules == NULL || merge->numbers == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int ready = 0;
    for (size_t i = 1; i < merge->count && ready == 0; i++) {
        ready = merge_model(state, merge, i, PyTuple_GetItem(all, (Py_ssize_t)i - 1));
    }
    if (ready == 0 && weights != Py_None) {
        merge->average.weights = merge_numbers(state, merge, weights);
        ready = merge->average.weights == NULL ? -1 : 0;
    }
    for (size_t i = 0; i < merge->average.rule_count && ready == 0; i++) {
        ready = merge_rule(state, merge, i, PyTuple_GetItem(pairs, (Py_ssize_t)i));
    }
    merge->average.rules = merge->rules;
    return ready;
}

static int merge_dequantize_from(const py_state *state, py_merge *merge, PyObject *given)
{
    const char *kind = NULL;
    const char *dtype = NULL;
    const char *like = NULL;
    int allow = 0;
    if (!PyArg_ParseTuple(given, "szzp", &kind, &dtype, &like, &allow)) {
        return -1;
    }
    merge->dequantize = (coffer_dequantize_options)COFFER_DEQUANTIZE_OPTIONS_INIT;
    merge->dequantize.dtype = dtype == NULL ? COFFER_UNKNOWN_DTYPE : coffer_dtype_from_name(dtype, strlen(dtype));
    merge->dequantize.like = like;
    merge->dequantize.allow_not_finite = allow != 0;
    merge->dequantizes = true;
    if (dtype != NULL && merge->dequantize.dtype == COFFER_UNKNOWN_DTYPE) {
        py_fail(state, COFFER_ERR_ARGUMENT, "layers become BF16, F16 or F32, and not %s", dtype);
        return -1;
    }
    /* The texts are those of the tuple. */
    Py_INCREF(given);
    return merge_keep(merge, given);
}

int py_merge_init(const py_state *state, py_merge *merge, PyObject *given)
{
    const char *kind = NULL;
    PyObject *items[4] = { NULL };
    memset(merge, 0, sizeof *merge);
    if (given == NULL || given == Py_None) {
        return 0;
    }
    merge->lora = (coffer_lora_options)COFFER_LORA_OPTIONS_INIT;
    merge->average = (coffer_average_options)COFFER_AVERAGE_OPTIONS_INIT;
    merge->kept = PyList_New(0);
    if (merge->kept == NULL || !PyTuple_Check(given) || PyTuple_Size(given) == 3) {
        return merge->kept != NULL && PyArg_ParseTuple(given, "sOO", &kind, &items[0], &items[1])
                   ? merge_lora_from(merge, items[0], items[1])
                   : -1;
    }
    if (PyTuple_Size(given) == 4) {
        return merge_dequantize_from(state, merge, given);
    }
    int slerp = 0;
    if (!PyArg_ParseTuple(given, "sOOOp", &kind, &items[0], &items[1], &items[2], &slerp)) {
        return -1;
    }
    merge->average.slerp = slerp != 0;
    return merge_average_from(state, merge, items[0], items[1], items[2]);
}

/* ---- without Python ---- */

coffer_status py_merge_open(py_merge *merge, coffer_error *err)
{
    coffer_open_options open = COFFER_OPEN_OPTIONS_INIT;
    open.formats = COFFER_FORMATS_OWN;
    open.access = COFFER_READ;
    open.verify = COFFER_VERIFY_RECORDED;
    for (size_t i = 0; i < merge->count; i++) {
        const coffer_status status = coffer_lora_open(&merge->loras[i], merge->paths[i], &open, &merge->lora, err);
        if (status != COFFER_OK) {
            return status;
        }
        merge->adapters[i].lora = merge->loras[i];
    }
    return COFFER_OK;
}

coffer_status py_merge_plan(py_merge *merge, coffer_rewrite **rewrite, const coffer *model,
                            const coffer_rewrite_options *options, coffer_error *err)
{
    if (merge->loras != NULL) {
        const coffer_status status = py_merge_open(merge, err);
        return status == COFFER_OK
                   ? coffer_merge_lora_plan(rewrite, model, merge->adapters, merge->count, NULL, options, err)
                   : status;
    }
    if (merge->dequantizes) {
        return coffer_dequantize_plan(rewrite, model, &merge->dequantize, options, err);
    }
    if (merge->models == NULL) {
        return coffer_rewrite_plan(rewrite, model, options, err);
    }
    merge->models[0] = model;
    return coffer_average_plan(rewrite, merge->models, merge->count, &merge->average, options, err);
}

void py_merge_free(py_merge *merge)
{
    for (size_t i = 0; i < merge->count; i++) {
        if (merge->loras != NULL) {
            coffer_lora_close(merge->loras[i]);
        }
        if (merge->handles != NULL) {
            py_handle_release(merge->handles[i]);
        }
    }
    PyMem_Free(merge->paths);
    PyMem_Free(merge->adapters);
    PyMem_Free(merge->loras);
    PyMem_Free(merge->select);
    PyMem_Free(merge->handles);
    PyMem_Free(merge->models);
    PyMem_Free(merge->rules);
    PyMem_Free(merge->numbers);
    Py_XDECREF(merge->kept);
}
