/* SPDX-License-Identifier: Apache-2.0 */
/* The elements of tensors as Python's numbers, for every dtype of the format, without numpy. */
#include "py_native.h"

#include <string.h>

/* So many elements are made between two looks at signals. */
enum { VALUES_UNWATCHED = 1 << 16 };

/* Where the next element is. */
typedef struct values_cursor {
    const unsigned char *data;
    uint64_t next;
    coffer_dtype dtype;
} values_cursor;

static uint64_t values_word(const unsigned char *bytes)
{
    uint64_t word = 0;
    for (size_t i = sizeof word; i-- > 0;) {
        word = word << 8 | bytes[i];
    }
    return word;
}

static PyObject *values_signed(uint64_t word)
{
    int64_t number = 0;
    memcpy(&number, &word, sizeof number);
    return PyLong_FromLongLong(number);
}

static PyObject *values_decoded(const values_cursor *at)
{
    double values[2] = { 0, 0 };
    (void)coffer_decode(at->dtype, at->data, at->next, 1, values);
    switch (coffer_dtype_kind(at->dtype)) {
    case COFFER_KIND_BOOL:
        return PyBool_FromLong(values[0] != 0);
    case COFFER_KIND_UNSIGNED:
    case COFFER_KIND_SIGNED:
        return PyLong_FromDouble(values[0]);
    case COFFER_KIND_COMPLEX:
        return PyComplex_FromDoubles(values[0], values[1]);
    default:
        return PyFloat_FromDouble(values[0]);
    }
}

/* Doubles have every number of the other dtypes, but not all integers of 64 bits. */
static PyObject *values_take(values_cursor *at)
{
    PyObject *number = NULL;
    if (at->dtype == COFFER_U64) {
        number = PyLong_FromUnsignedLongLong(values_word(at->data + 8 * at->next));
    } else if (at->dtype == COFFER_I64) {
        number = values_signed(values_word(at->data + 8 * at->next));
    } else {
        number = values_decoded(at);
    }
    at->next++;
    return number;
}

static PyObject *values_nested(values_cursor *at, const uint64_t *shape, size_t rank);

static PyObject *values_filled(values_cursor *at, const uint64_t *shape, size_t rank)
{
    PyObject *list = shape[0] > PY_SSIZE_T_MAX ? PyErr_NoMemory() : PyList_New((Py_ssize_t)shape[0]);
    for (Py_ssize_t i = 0; list != NULL && i < (Py_ssize_t)shape[0]; i++) {
        const bool stopped = at->next % VALUES_UNWATCHED == 0 && PyErr_CheckSignals() < 0;
        PyObject *item = stopped ? NULL : values_nested(at, shape + 1, rank - 1);
        if (item == NULL || PyList_SetItem(list, i, item) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

/* Dimensions are as many as a file says, so Python watches over the stack. */
static PyObject *values_nested(values_cursor *at, const uint64_t *shape, size_t rank)
{
    if (rank == 0) {
        return values_take(at);
    }
    if (Py_EnterRecursiveCall(" in Tensor.tolist") != 0) {
        return NULL;
    }
    PyObject *list = values_filled(at, shape, rank);
    Py_LeaveRecursiveCall();
    return list;
}

static PyObject *values_of(const py_state *state, const py_part *part, const void *data, size_t rank)
{
    values_cursor at = { data, 0, part->tensor->dtype };
    if (at.dtype == COFFER_UNKNOWN_DTYPE) {
        return py_fail(state, COFFER_ERR_DTYPE,
                       "what the bytes of a tensor of %s mean is not known: tobytes() has them",
                       coffer_tensor_dtype_name(part->tensor));
    }
    return values_nested(&at, py_part_shape(part), rank);
}

PyObject *py_values_list(const py_state *state, const py_part *part, const void *data)
{
    return values_of(state, part, data, part->rank);
}

PyObject *py_values_first(const py_state *state, const py_part *part, const void *data)
{
    return values_of(state, part, data, 0);
}

PyObject *py_decode(PyObject *module, PyObject *args)
{
    const char *name = NULL;
    Py_buffer bytes;
    unsigned long long first = 0;
    unsigned long long count = 0;
    if (!PyArg_ParseTuple(args, "sy*KK:decode", &name, &bytes, &first, &count)) {
        return NULL;
    }
    const coffer_dtype dtype = coffer_dtype_from_name(name, strlen(name));
    const uint32_t bits = coffer_dtype_bits(dtype);
    const uint64_t whole = bits == 0 ? 0 : (uint64_t)bytes.len * 8 / bits;
    const size_t doubles = coffer_dtype_kind(dtype) == COFFER_KIND_COMPLEX ? 2 : 1;
    PyObject *result = NULL;
    if (first > whole || count > whole - first || count > SIZE_MAX / sizeof(double) / doubles) {
        py_fail_call(PY_WRONG_VALUE, "the bytes have %llu elements of %s, not those", (unsigned long long)whole, name);
    } else {
        const size_t size = (size_t)count * doubles * sizeof(double);
        py_pages pages = py_pages_for(size);
        void *values = py_memory_new(size, &pages);
        if (values == NULL) {
            PyErr_NoMemory();
        } else {
            Py_BEGIN_ALLOW_THREADS(void) coffer_decode(dtype, bytes.buf, first, (size_t)count, values);
            Py_END_ALLOW_THREADS result = py_buffer_new(PyModule_GetState(module), values, size);
        }
    }
    PyBuffer_Release(&bytes);
    return result;
}
