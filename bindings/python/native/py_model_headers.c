/* SPDX-License-Identifier: Apache-2.0 */
/* Model, file by file: what each header says, and what the index does. */
#include "py_model.h"

static int headers_add_pair(PyObject *dict, const coffer_pair *pair)
{
    PyObject *key = PyUnicode_FromStringAndSize(pair->key, (Py_ssize_t)pair->key_len);
    PyObject *value = PyUnicode_FromStringAndSize(pair->value, (Py_ssize_t)pair->value_len);
    const int result = key == NULL || value == NULL ? -1 : PyDict_SetItem(dict, key, value);
    Py_XDECREF(key);
    Py_XDECREF(value);
    return result;
}

int py_model_add_metadata(PyObject *dict, const coffer_table *table)
{
    coffer_pair pair;
    for (size_t i = 0; coffer_table_metadata_at(table, i, &pair); i++) {
        if (headers_add_pair(dict, &pair) < 0) {
            return -1;
        }
    }
    return 0;
}

/* (dtype, shape, where in the data). */
static PyObject *headers_tensor(const py_state *state, const coffer_tensor *tensor, uint64_t base)
{
    PyObject *dtype = py_dtype_name(state, tensor);
    PyObject *shape = dtype == NULL ? NULL : py_shape_tuple(tensor->shape, tensor->rank);
    const unsigned long long begin = tensor->offset - base;
    PyObject *made = shape == NULL ? NULL : Py_BuildValue("(OO(KK))", dtype, shape, begin, begin + tensor->size);
    Py_XDECREF(shape);
    Py_XDECREF(dtype);
    return made;
}

static int headers_add_tensor(const py_state *state, PyObject *dict, const coffer_tensor *tensor, uint64_t base)
{
    PyObject *name = py_tensor_name(tensor);
    PyObject *made = name == NULL ? NULL : headers_tensor(state, tensor, base);
    const int result = made == NULL ? -1 : PyDict_SetItem(dict, name, made);
    Py_XDECREF(made);
    Py_XDECREF(name);
    return result;
}

/* (metadata, tensors). */
static PyObject *headers_make(const py_state *state, py_handle *handle, size_t i)
{
    const coffer_table *table = coffer_shard_table(py_handle_model(handle), i);
    PyObject *metadata = PyDict_New();
    PyObject *tensors = PyDict_New();
    int result = metadata == NULL || tensors == NULL ? -1 : py_model_add_metadata(metadata, table);
    for (size_t k = 0; result == 0 && k < coffer_table_count(table); k++) {
        result = headers_add_tensor(state, tensors, coffer_table_at(table, k), coffer_table_data_offset(table));
    }
    PyObject *pair = result < 0 ? NULL : PyTuple_Pack(2, metadata, tensors);
    Py_XDECREF(tensors);
    Py_XDECREF(metadata);
    return pair;
}

PyObject *py_model_headers(PyObject *self, PyObject *unused)
{
    (void)unused;
    return py_model_list(self, coffer_shard_count, headers_make);
}

PyObject *py_model_index_metadata(PyObject *self, void *closure)
{
    (void)closure;
    py_handle *handle = py_model_use(self);
    if (handle == NULL) {
        return NULL;
    }
    size_t len = 0;
    const char *text = coffer_index_metadata(py_handle_model(handle), &len);
    PyObject *found = text == NULL ? Py_NewRef(Py_None) : PyUnicode_FromStringAndSize(text, (Py_ssize_t)len);
    py_handle_release(handle);
    return found;
}
