/* SPDX-License-Identifier: Apache-2.0 */
/* statistics and compare: the library's numbers of whole tensors, which are read chunk by chunk. */
#include "py_native.h"

#include <math.h>
#include <string.h>

#define NUMBERS_CHUNK ((uint64_t)1 << 20) /* elements that are read at a time: whole bytes of any dtype */
#define NUMBERS_MAX_BINS 65536

/* A tensor, and memory for a chunk of it. */
typedef struct numbers_side {
    const coffer *model;
    const coffer_tensor *tensor;
    uint8_t *bytes;
} numbers_side;

/* Bytes of so many elements, which fill whole ones. */
static uint64_t numbers_size(const coffer_tensor *tensor, uint64_t elements)
{
    const uint64_t bits = coffer_dtype_bits(tensor->dtype);
    return bits % 8 == 0 ? elements * (bits / 8) : (elements * bits + 7) / 8;
}

static int numbers_side_init(const py_state *state, numbers_side *side, PyObject *object)
{
    py_handle *handle = NULL;
    const py_part *part = py_tensor_of(state, object, &handle);
    if (part == NULL) {
        return -1;
    }
    if (part->indices != NULL || part->tensor->dtype == COFFER_UNKNOWN_DTYPE) {
        py_fail(state, COFFER_ERR_ARGUMENT,
                "the numbers of whole tensors of known dtypes are found, not of parts of them");
        return -1;
    }
    const uint64_t elements = coffer_tensor_elements(part->tensor);
    side->model = py_handle_model(handle);
    side->tensor = part->tensor;
    side->bytes =
        PyMem_Malloc((size_t)numbers_size(part->tensor, elements < NUMBERS_CHUNK ? elements : NUMBERS_CHUNK) + 1);
    if (side->bytes == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

/* What is done with a chunk of the tensors. */
typedef void (*numbers_visit)(void *ctx, const numbers_side *sides, size_t count);

static coffer_status numbers_read_chunk(const numbers_side *side, uint64_t first, uint64_t count, py_watch *watch,
                                        coffer_error *err)
{
    return coffer_read_part(side->model, side->tensor, numbers_size(side->tensor, first), side->bytes,
                            numbers_size(side->tensor, count), &watch->options, err);
}

/* Reads one tensor, or two of one shape side by side. -1 with an exception. */
static int numbers_walk(const py_state *state, const numbers_side *sides, size_t side_count, numbers_visit visit,
                        void *ctx)
{
    const uint64_t elements = coffer_tensor_elements(sides[0].tensor);
    coffer_status status = COFFER_OK;
    py_watch watch;
    coffer_error err;
    py_watch_begin(&watch, NULL, 0);
    for (uint64_t done = 0; done < elements && status == COFFER_OK; done += NUMBERS_CHUNK) {
        const uint64_t count = elements - done < NUMBERS_CHUNK ? elements - done : NUMBERS_CHUNK;
        for (size_t i = 0; i < side_count && status == COFFER_OK; i++) {
            status = numbers_read_chunk(&sides[i], done, count, &watch, &err);
        }
        if (status == COFFER_OK) {
            visit(ctx, sides, (size_t)count);
        }
    }
    py_watch_finish(&watch);
    if (status != COFFER_OK) {
        py_raise(state, &err);
        return -1;
    }
    return 0;
}

/* ---- statistics -------------------------------------------------------------------------------------------------- */

static void numbers_add(void *ctx, const numbers_side *sides, size_t count)
{
    (void)coffer_statistics_add(ctx, sides[0].tensor->dtype, sides[0].bytes, count);
}

static void numbers_count(void *ctx, const numbers_side *sides, size_t count)
{
    (void)coffer_histogram_add(ctx, sides[0].tensor->dtype, sides[0].bytes, count);
}

/* The least or greatest number: an int of dtypes of integers, None when none is finite. */
static PyObject *numbers_end(const coffer_statistics *found, double value, uint64_t bits)
{
    if (found->finite == 0) {
        Py_RETURN_NONE;
    }
    switch (coffer_dtype_kind(found->dtype)) {
    case COFFER_KIND_FLOAT:
    case COFFER_KIND_COMPLEX:
        return PyFloat_FromDouble(value);
    default:
        break;
    }
    if (found->dtype == COFFER_U64) {
        return PyLong_FromUnsignedLongLong(bits);
    }
    if (found->dtype == COFFER_I64) {
        int64_t number = 0;
        memcpy(&number, &bits, sizeof number);
        return PyLong_FromLongLong(number);
    }
    return PyLong_FromDouble(value);
}

static PyObject *numbers_of_bins(const uint64_t *bins, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; i < count && list != NULL; i++) {
        PyObject *number = PyLong_FromUnsignedLongLong(bins[i]);
        if (number == NULL || PyList_SetItem(list, (Py_ssize_t)i, number) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

/* None when no number is finite. */
static PyObject *numbers_measure(const coffer_statistics *found, double value)
{
    if (found->finite == 0) {
        Py_RETURN_NONE;
    }
    return PyFloat_FromDouble(value);
}

static PyObject *numbers_found(const coffer_statistics *found, PyObject *bins)
{
    return Py_BuildValue("(KKKKKKNNNNN)", (unsigned long long)found->count, (unsigned long long)found->finite,
                         (unsigned long long)found->nan, (unsigned long long)found->infinite,
                         (unsigned long long)found->zeros, (unsigned long long)found->subnormal,
                         numbers_end(found, found->min, found->min_bits),
                         numbers_end(found, found->max, found->max_bits), numbers_measure(found, found->mean),
                         numbers_measure(found, coffer_statistics_deviation(found)), bins);
}

/* The second walk is for the histogram, whose ends the first one finds. */
static PyObject *numbers_statistics(const py_state *state, const numbers_side *side, size_t bin_count)
{
    coffer_statistics found = { .count = 0 };
    if (numbers_walk(state, side, 1, numbers_add, &found) != 0) {
        return NULL;
    }
    uint64_t *bins = PyMem_Calloc(bin_count + 1, sizeof *bins);
    coffer_histogram histogram = { found.min, found.max, bins, bin_count };
    PyObject *result = NULL;
    if (bins == NULL) {
        PyErr_NoMemory();
    } else if (bin_count == 0 || found.finite == 0 || numbers_walk(state, side, 1, numbers_count, &histogram) == 0) {
        PyObject *list = numbers_of_bins(bins, bin_count);
        result = list == NULL ? NULL : numbers_found(&found, list);
    }
    PyMem_Free(bins);
    return result;
}

PyObject *py_statistics(PyObject *module, PyObject *args)
{
    const py_state *state = PyModule_GetState(module);
    PyObject *given = NULL;
    int bins = 0;
    numbers_side side = { NULL, NULL, NULL };
    if (!PyArg_ParseTuple(args, "Oi:statistics", &given, &bins)) {
        return NULL;
    }
    if (bins < 0 || bins > NUMBERS_MAX_BINS) {
        return py_fail(state, COFFER_ERR_ARGUMENT, "a histogram has at most %d bins", NUMBERS_MAX_BINS);
    }
    PyObject *result =
        numbers_side_init(state, &side, given) == 0 ? numbers_statistics(state, &side, (size_t)bins) : NULL;
    PyMem_Free(side.bytes);
    return result;
}

/* ---- compare ----------------------------------------------------------------------------------------------------- */

static void numbers_compare(void *ctx, const numbers_side *sides, size_t count)
{
    (void)coffer_comparison_add(ctx, sides[0].tensor->dtype, sides[0].bytes, sides[1].tensor->dtype, sides[1].bytes,
                                count);
}

static bool numbers_comparable(const coffer_tensor *a, const coffer_tensor *b)
{
    const bool complex_a = coffer_dtype_kind(a->dtype) == COFFER_KIND_COMPLEX;
    const bool complex_b = coffer_dtype_kind(b->dtype) == COFFER_KIND_COMPLEX;
    return complex_a == complex_b && a->rank == b->rank &&
           (a->rank == 0 || memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0);
}

/* NaN and an infinity are infinitely far from other numbers. */
static PyObject *numbers_distance(const py_state *state, const numbers_side sides[2])
{
    coffer_comparison found = { .norms = false };
    if (!numbers_comparable(sides[0].tensor, sides[1].tensor)) {
        return py_fail(state, COFFER_ERR_ARGUMENT,
                       "tensors of other shapes, or a complex and a real one, cannot be compared");
    }
    if (numbers_walk(state, sides, 2, numbers_compare, &found) != 0) {
        return NULL;
    }
    const bool endless = found.nan + found.infinite > 0;
    return Py_BuildValue("(NKdd)", PyBool_FromLong(found.differing_bytes > 0), (unsigned long long)found.differing,
                         endless ? (double)INFINITY : found.max, endless ? (double)INFINITY : found.sum);
}

PyObject *py_compare(PyObject *module, PyObject *args)
{
    const py_state *state = PyModule_GetState(module);
    PyObject *given[2];
    numbers_side sides[2] = { { NULL, NULL, NULL }, { NULL, NULL, NULL } };
    if (!PyArg_ParseTuple(args, "OO:compare", &given[0], &given[1])) {
        return NULL;
    }
    PyObject *result = NULL;
    if (numbers_side_init(state, &sides[0], given[0]) == 0 && numbers_side_init(state, &sides[1], given[1]) == 0) {
        result = numbers_distance(state, sides);
    }
    PyMem_Free(sides[0].bytes);
    PyMem_Free(sides[1].bytes);
    return result;
}
