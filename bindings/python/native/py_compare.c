/* SPDX-License-Identifier: Apache-2.0 */
/* compare: how far the numbers of two tensors are apart. */
#include "py_native.h"

#include <math.h>
#include <string.h>

#define COMPARE_BLOCK ((size_t)512)       /* elements that are decoded at a time */
#define COMPARE_PIECE ((uint64_t)1 << 20) /* elements that are read at a time; of F4 and F6 whole bytes */

typedef struct compare_side {
    const coffer *model;
    const coffer_tensor *tensor;
    uint8_t *bytes; /* of a piece */
} compare_side;

typedef struct compare_distance {
    bool bytes_differ;
    uint64_t differing; /* numbers that are not equal; two NaN are */
    double most;
    double sum;
} compare_distance;

static double compare_apart(double a, double b)
{
    if (a == b || (isnan(a) && isnan(b))) {
        return 0;
    }
    const double difference = fabs(a - b);
    return isnan(difference) ? (double)INFINITY : difference;
}

static void compare_numbers(const compare_side sides[2], size_t count, compare_distance *distance)
{
    double numbers[2][2 * COMPARE_BLOCK];
    const size_t parts = coffer_dtype_kind(sides[0].tensor->dtype) == COFFER_KIND_COMPLEX ? 2 : 1;
    for (size_t done = 0; done < count; done += COMPARE_BLOCK) {
        const size_t block = count - done < COMPARE_BLOCK ? count - done : COMPARE_BLOCK;
        for (size_t side = 0; side < 2; side++) {
            (void)coffer_decode(sides[side].tensor->dtype, sides[side].bytes, done, block, numbers[side]);
        }
        for (size_t i = 0; i < block * parts; i++) {
            const double difference = compare_apart(numbers[0][i], numbers[1][i]);
            distance->differing += difference != 0;
            distance->most = difference > distance->most ? difference : distance->most;
            distance->sum += difference;
        }
    }
}

/* Bytes of so many elements, which fill whole ones. */
static uint64_t compare_size(const coffer_tensor *tensor, uint64_t elements)
{
    const uint64_t bits = coffer_dtype_bits(tensor->dtype);
    return bits % 8 == 0 ? elements * (bits / 8) : (elements * bits + 7) / 8;
}

static coffer_status compare_piece(compare_side sides[2], uint64_t first, uint64_t count, py_watch *watch,
                                   compare_distance *distance, coffer_error *err)
{
    for (size_t side = 0; side < 2; side++) {
        const coffer_tensor *tensor = sides[side].tensor;
        const coffer_status status =
            coffer_read_part(sides[side].model, tensor, compare_size(tensor, first), sides[side].bytes,
                             compare_size(tensor, count), &watch->options, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    const bool alike = sides[0].tensor->dtype == sides[1].tensor->dtype;
    if (!alike || memcmp(sides[0].bytes, sides[1].bytes, (size_t)compare_size(sides[0].tensor, count)) != 0) {
        distance->bytes_differ = true;
        compare_numbers(sides, (size_t)count, distance);
    }
    return COFFER_OK;
}

static coffer_status compare_all(compare_side sides[2], py_watch *watch, compare_distance *distance, coffer_error *err)
{
    const uint64_t elements = coffer_tensor_elements(sides[0].tensor);
    coffer_status status = COFFER_OK;
    for (uint64_t done = 0; done < elements && status == COFFER_OK;) {
        const uint64_t piece = elements - done < COMPARE_PIECE ? elements - done : COMPARE_PIECE;
        status = compare_piece(sides, done, piece, watch, distance, err);
        done += piece;
    }
    return status;
}

static int compare_side_init(const py_state *state, compare_side *side, PyObject *object)
{
    py_handle *handle = NULL;
    const py_part *part = py_tensor_of(state, object, &handle);
    if (part == NULL) {
        return -1;
    }
    if (part->indices != NULL || part->tensor->dtype == COFFER_UNKNOWN_DTYPE) {
        py_fail(state, COFFER_ERR_ARGUMENT, "whole tensors of known dtypes are compared, not parts of them");
        return -1;
    }
    const uint64_t elements = coffer_tensor_elements(part->tensor);
    side->model = py_handle_model(handle);
    side->tensor = part->tensor;
    side->bytes =
        PyMem_Malloc((size_t)compare_size(part->tensor, elements < COMPARE_PIECE ? elements : COMPARE_PIECE) + 1);
    if (side->bytes == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static bool compare_fits(const coffer_tensor *a, const coffer_tensor *b)
{
    const bool complex_a = coffer_dtype_kind(a->dtype) == COFFER_KIND_COMPLEX;
    const bool complex_b = coffer_dtype_kind(b->dtype) == COFFER_KIND_COMPLEX;
    return complex_a == complex_b && a->rank == b->rank &&
           (a->rank == 0 || memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0);
}

static PyObject *compare_sides(const py_state *state, compare_side sides[2])
{
    compare_distance distance = { false, 0, 0, 0 };
    if (!compare_fits(sides[0].tensor, sides[1].tensor)) {
        return py_fail(state, COFFER_ERR_ARGUMENT,
                       "tensors of other shapes, or a complex and a real one, cannot be compared");
    }
    py_watch watch;
    coffer_error err;
    py_watch_begin(&watch, NULL, 0);
    const coffer_status status = compare_all(sides, &watch, &distance, &err);
    py_watch_finish(&watch);
    if (status != COFFER_OK) {
        return py_raise(state, &err);
    }
    return Py_BuildValue("(NKdd)", PyBool_FromLong(distance.bytes_differ), (unsigned long long)distance.differing,
                         distance.most, distance.sum);
}

PyObject *py_compare(PyObject *module, PyObject *args)
{
    const py_state *state = PyModule_GetState(module);
    PyObject *given[2];
    compare_side sides[2] = { { NULL, NULL, NULL }, { NULL, NULL, NULL } };
    if (!PyArg_ParseTuple(args, "OO:compare", &given[0], &given[1])) {
        return NULL;
    }
    PyObject *result = NULL;
    if (compare_side_init(state, &sides[0], given[0]) == 0 && compare_side_init(state, &sides[1], given[1]) == 0) {
        result = compare_sides(state, sides);
    }
    PyMem_Free(sides[0].bytes);
    PyMem_Free(sides[1].bytes);
    return result;
}
