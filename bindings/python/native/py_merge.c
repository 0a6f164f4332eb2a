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
static int mix_keep(py_merge *mix, PyObject *object)
{
    const int kept = object == NULL ? -1 : PyList_Append(mix->kept, object);
    Py_XDECREF(object);
    return kept;
}

/* The items of a sequence as a tuple that is kept, borrowed; NULL and an exception. */
static PyObject *mix_tuple(py_merge *mix, PyObject *sequence)
{
    PyObject *tuple = PySequence_Tuple(sequence);
    return mix_keep(mix, tuple) < 0 ? NULL : tuple;
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

static const char *mix_path(py_merge *mix, PyObject *path)
{
    PyObject *bytes = NULL;
    if (!py_to_path(path, &bytes)) {
        return NULL;
    }
    const char *text = PyBytes_AsString(bytes);
    return mix_keep(mix, bytes) < 0 ? NULL : text;
}

static int mix_adapter(py_merge *mix, size_t i, PyObject *pair)
{
    PyObject *items[2];
    if (py_unpack(pair, "an adapter is a path and a scale", items, 2) < 0) {
        return -1;
    }
    mix->paths[i] = mix_path(mix, items[0]);
    mix->adapters[i].scale = mix->paths[i] == NULL ? 0 : PyFloat_AsDouble(items[1]);
    return PyErr_Occurred() == NULL ? 0 : -1;
}

static int mix_lora_from(py_merge *mix, PyObject *adapters, PyObject *select)
{
    PyObject *all = mix_tuple(mix, adapters);
    PyObject *patterns = all == NULL ? NULL : mix_tuple(mix, select);
    if (patterns == NULL) {
        return -1;
    }
    mix->count = (size_t)PyTuple_Size(all);
    mix->lora.select_count = (size_t)PyTuple_Size(patterns);
    mix->paths = PyMem_Calloc(mix->count + 1, sizeof(char *));
    mix->adapters = PyMem_Calloc(mix->count + 1, sizeof *mix->adapters);
    mix->loras = PyMem_Calloc(mix->count + 1, sizeof(coffer_lora *));
    mix->select = PyMem_Calloc(mix->lora.select_count + 1, sizeof(char *));
    if (mix->paths == NULL || mix->adapters == NULL || mix->loras == NULL || mix->select == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int ready = 0;
    for (size_t i = 0; i < mix->count && ready == 0; i++) {
        ready = mix_adapter(mix, i, PyTuple_GetItem(all, (Py_ssize_t)i));
    }
    for (size_t i = 0; i < mix->lora.select_count && ready == 0; i++) {
        mix->select[i] = py_pattern_text(PyTuple_GetItem(patterns, (Py_ssize_t)i));
        ready = mix->select[i] == NULL ? -1 : 0;
    }
    mix->lora.select = mix->select;
    return ready;
}

/* As many numbers as there are to be, after those that are there. */
static const double *mix_numbers(const py_state *state, py_merge *mix, PyObject *sequence)
{
    const size_t wanted = mix->average.slerp ? 1 : mix->count;
    PyObject *tuple = mix_tuple(mix, sequence);
    double *numbers = mix->next_number;
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
    mix->next_number += wanted;
    return PyErr_Occurred() == NULL ? numbers : NULL;
}

static int mix_rule(const py_state *state, py_merge *mix, size_t i, PyObject *pair)
{
    PyObject *items[2];
    if (py_unpack(pair, "a rule is a pattern and its weights", items, 2) < 0) {
        return -1;
    }
    mix->rules[i].pattern = py_pattern_text(items[0]);
    mix->rules[i].weights = mix->rules[i].pattern == NULL ? NULL : mix_numbers(state, mix, items[1]);
    return mix->rules[i].weights == NULL ? -1 : 0;
}

static int mix_model(const py_state *state, py_merge *mix, size_t i, PyObject *model)
{
    if (!PyObject_TypeCheck(model, (PyTypeObject *)state->model_type)) {
        py_fail_call(PY_WRONG_TYPE, "what is averaged are models");
        return -1;
    }
    mix->handles[i] = py_model_use(model);
    mix->models[i] = mix->handles[i] == NULL ? NULL : py_handle_model(mix->handles[i]);
    return mix->handles[i] == NULL ? -1 : 0;
}

static int mix_average_from(const py_state *state, py_merge *mix, PyObject *models, PyObject *weights, PyObject *rules)
{
    PyObject *all = mix_tuple(mix, models);
    PyObject *pairs = all == NULL ? NULL : mix_tuple(mix, rules);
    if (pairs == NULL) {
        return -1;
    }
    mix->count = (size_t)PyTuple_Size(all) + 1;
    mix->average.rule_count = (size_t)PyTuple_Size(pairs);
    mix->handles = PyMem_Calloc(mix->count, sizeof(py_handle *));
    mix->models = PyMem_Calloc(mix->count, sizeof(coffer *));
    mix->rules = PyMem_Calloc(mix->average.rule_count + 1, sizeof *mix->rules);
    mix->numbers = PyMem_Calloc((mix->average.rule_count + 1) * mix->count, sizeof *mix->numbers);
    mix->next_number = mix->numbers;
    if (mix->handles == NULL || mix->models == NULL || mix->rules == NULL || mix->numbers == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int ready = 0;
    for (size_t i = 1; i < mix->count && ready == 0; i++) {
        ready = mix_model(state, mix, i, PyTuple_GetItem(all, (Py_ssize_t)i - 1));
    }
    if (ready == 0 && weights != Py_None) {
        mix->average.weights = mix_numbers(state, mix, weights);
        ready = mix->average.weights == NULL ? -1 : 0;
    }
    for (size_t i = 0; i < mix->average.rule_count && ready == 0; i++) {
        ready = mix_rule(state, mix, i, PyTuple_GetItem(pairs, (Py_ssize_t)i));
    }
    mix->average.rules = mix->rules;
    return ready;
}

static int mix_dequantize_from(const py_state *state, py_merge *mix, PyObject *given)
{
    const char *kind = NULL;
    const char *dtype = NULL;
    const char *like = NULL;
    int allow = 0;
    if (!PyArg_ParseTuple(given, "szzp", &kind, &dtype, &like, &allow)) {
        return -1;
    }
    mix->dequantize = (coffer_dequantize_options)COFFER_DEQUANTIZE_OPTIONS_INIT;
    mix->dequantize.dtype = dtype == NULL ? COFFER_UNKNOWN_DTYPE : coffer_dtype_from_name(dtype, strlen(dtype));
    mix->dequantize.like = like;
    mix->dequantize.allow_not_finite = allow != 0;
    mix->dequantizes = true;
    if (dtype != NULL && mix->dequantize.dtype == COFFER_UNKNOWN_DTYPE) {
        py_fail(state, COFFER_ERR_ARGUMENT, "layers become BF16, F16 or F32, and not %s", dtype);
        return -1;
    }
    /* The texts are those of the tuple. */
    Py_INCREF(given);
    return mix_keep(mix, given);
}

int py_merge_init(const py_state *state, py_merge *mix, PyObject *given)
{
    const char *kind = NULL;
    PyObject *items[4] = { NULL };
    memset(mix, 0, sizeof *mix);
    if (given == NULL || given == Py_None) {
        return 0;
    }
    mix->lora = (coffer_lora_options)COFFER_LORA_OPTIONS_INIT;
    mix->average = (coffer_average_options)COFFER_AVERAGE_OPTIONS_INIT;
    mix->kept = PyList_New(0);
    if (mix->kept == NULL || !PyTuple_Check(given) || PyTuple_Size(given) == 3) {
        return mix->kept != NULL && PyArg_ParseTuple(given, "sOO", &kind, &items[0], &items[1])
                   ? mix_lora_from(mix, items[0], items[1])
                   : -1;
    }
    if (PyTuple_Size(given) == 4) {
        return mix_dequantize_from(state, mix, given);
    }
    int slerp = 0;
    if (!PyArg_ParseTuple(given, "sOOOp", &kind, &items[0], &items[1], &items[2], &slerp)) {
        return -1;
    }
    mix->average.slerp = slerp != 0;
    return mix_average_from(state, mix, items[0], items[1], items[2]);
}

/* ---- without Python ---- */

coffer_status py_merge_open(py_merge *mix, coffer_error *err)
{
    coffer_open_options open = COFFER_OPEN_OPTIONS_INIT;
    open.formats = COFFER_FORMATS_OWN;
    open.access = COFFER_READ;
    open.verify = COFFER_VERIFY_RECORDED;
    for (size_t i = 0; i < mix->count; i++) {
        const coffer_status status = coffer_lora_open(&mix->loras[i], mix->paths[i], &open, &mix->lora, err);
        if (status != COFFER_OK) {
            return status;
        }
        mix->adapters[i].lora = mix->loras[i];
    }
    return COFFER_OK;
}

coffer_status py_merge_plan(py_merge *mix, coffer_rewrite **rewrite, const coffer *model,
                            const coffer_rewrite_options *options, coffer_error *err)
{
    if (mix->loras != NULL) {
        const coffer_status status = py_merge_open(mix, err);
        return status == COFFER_OK
                   ? coffer_merge_lora_plan(rewrite, model, mix->adapters, mix->count, NULL, options, err)
                   : status;
    }
    if (mix->dequantizes) {
        return coffer_dequantize_plan(rewrite, model, &mix->dequantize, options, err);
    }
    if (mix->models == NULL) {
        return coffer_rewrite_plan(rewrite, model, options, err);
    }
    mix->models[0] = model;
    return coffer_average_plan(rewrite, mix->models, mix->count, &mix->average, options, err);
}

void py_merge_free(py_merge *mix)
{
    for (size_t i = 0; i < mix->count; i++) {
        if (mix->loras != NULL) {
            coffer_lora_close(mix->loras[i]);
        }
        if (mix->handles != NULL) {
            py_handle_release(mix->handles[i]);
        }
    }
    PyMem_Free(mix->paths);
    PyMem_Free(mix->adapters);
    PyMem_Free(mix->loras);
    PyMem_Free(mix->select);
    PyMem_Free(mix->handles);
    PyMem_Free(mix->models);
    PyMem_Free(mix->rules);
    PyMem_Free(mix->numbers);
    Py_XDECREF(mix->kept);
}
