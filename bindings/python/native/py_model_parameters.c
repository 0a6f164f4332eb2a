/* SPDX-License-Identifier: Apache-2.0 */
/* Model: how many parameters it has. */
#include "py_model.h"

/* The counts that are not 0, by dtype. */
static PyObject *parameters_dict(const py_state *state, const uint64_t *counts)
{
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict != NULL && i <= COFFER_DTYPE_COUNT; i++) {
        if (counts[i] == 0) {
            continue;
        }
        PyObject *name = i == 0 ? PyUnicode_FromString("") : Py_NewRef(state->dtype_names[i]);
        PyObject *count = PyLong_FromUnsignedLongLong(counts[i]);
        if (name == NULL || count == NULL || PyDict_SetItem(dict, name, count) < 0) {
            Py_CLEAR(dict);
        }
        Py_XDECREF(name);
        Py_XDECREF(count);
    }
    return dict;
}

PyObject *py_model_parameters(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = { "config", NULL };
    const py_state *state = py_state_of(self);
    const char *config = NULL;
    Py_ssize_t config_len = 0;
    coffer_parameters counts;
    coffer_error err;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|z#:parameters", keywords, &config, &config_len)) {
        return NULL;
    }
    py_handle *handle = py_model_use(self);
    if (handle == NULL) {
        return NULL;
    }
    const coffer *model = py_handle_model(handle);
    coffer_status status = COFFER_OK;
    Py_BEGIN_ALLOW_THREADS status = coffer_count_parameters(model, config, (size_t)config_len, &counts, &err);
    Py_END_ALLOW_THREADS py_handle_release(handle);
    if (status != COFFER_OK) {
        return py_raise(state, &err);
    }
    return Py_BuildValue("(NNNs)", parameters_dict(state, counts.plain), parameters_dict(state, counts.trained),
                         parameters_dict(state, counts.compatible), counts.assumed);
}
