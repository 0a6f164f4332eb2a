/* SPDX-License-Identifier: Apache-2.0 */
/* Where the items of a plan go in slabs: stretches of a device's memory that several of them share. */
#include "py_load.h"

/* The slabs so far, and the one that is being filled. */
typedef struct slabs_layout {
    unsigned long long most;      /* bytes of a slab; one item may be longer */
    unsigned long long alignment; /* of every item; a power of two */
    PyObject *slabs;              /* a list of (size, items) */
    PyObject *of;                 /* the slab of each item */
    PyObject *begins;             /* where each item begins in its slab */
    uint64_t end;
    Py_ssize_t count;
} slabs_layout;

static int slabs_end_slab(slabs_layout *layout)
{
    if (layout->count == 0) {
        return 0;
    }
    PyObject *slab = Py_BuildValue("(Kn)", (unsigned long long)layout->end, layout->count);
    const int result = slab == NULL ? -1 : PyList_Append(layout->slabs, slab);
    Py_XDECREF(slab);
    layout->end = 0;
    layout->count = 0;
    return result;
}

static int slabs_set(PyObject *list, Py_ssize_t at, uint64_t value)
{
    PyObject *number = PyLong_FromUnsignedLongLong(value);
    return number == NULL ? -1 : PyList_SetItem(list, at, number);
}

static int slabs_put(slabs_layout *layout, Py_ssize_t at, uint64_t size)
{
    const uint64_t capacity = (size + layout->alignment - 1) & ~(uint64_t)(layout->alignment - 1);
    if (layout->end + capacity > layout->most && slabs_end_slab(layout) < 0) {
        return -1;
    }
    if (slabs_set(layout->of, at, (uint64_t)PyList_Size(layout->slabs)) < 0 ||
        slabs_set(layout->begins, at, layout->end) < 0) {
        return -1;
    }
    layout->end += capacity;
    layout->count++;
    return 0;
}

/* The items of those numbers that are small, or those that are not, in their order. */
static int slabs_put_all(slabs_layout *layout, const py_state *state, const coffer_plan *plan, PyObject *numbers,
                         unsigned long long small, bool are_small)
{
    for (Py_ssize_t i = 0; i < PyList_Size(numbers); i++) {
        coffer_plan_item item;
        const size_t number = PyLong_AsSize_t(PyList_GetItem(numbers, i));
        if (PyErr_Occurred() == NULL && !coffer_plan_at(plan, number, &item)) {
            py_fail(state, COFFER_ERR_ARGUMENT, "the plan does not have all of the items");
        }
        if (PyErr_Occurred() != NULL || ((item.size < small) == are_small && slabs_put(layout, i, item.size) < 0)) {
            return -1;
        }
    }
    return slabs_end_slab(layout);
}

PyObject *py_lay_out(PyObject *module, PyObject *args)
{
    const py_state *state = PyModule_GetState(module);
    slabs_layout layout = { .alignment = 1 };
    PyObject *object = NULL;
    PyObject *numbers = NULL;
    unsigned long long small = 0;
    if (!PyArg_ParseTuple(args, "OO!KKK:lay_out", &object, &PyList_Type, &numbers, &small, &layout.most,
                          &layout.alignment)) {
        return NULL;
    }
    const coffer_plan *plan = py_plan_begin(state, object);
    if (plan == NULL) {
        return NULL;
    }
    layout.slabs = PyList_New(0);
    layout.of = PyList_New(PyList_Size(numbers));
    layout.begins = PyList_New(PyList_Size(numbers));
    PyObject *result = NULL;
    if (layout.slabs != NULL && layout.of != NULL && layout.begins != NULL &&
        slabs_put_all(&layout, state, plan, numbers, small, true) == 0 &&
        slabs_put_all(&layout, state, plan, numbers, small, false) == 0) {
        result = Py_BuildValue("(OOO)", layout.slabs, layout.of, layout.begins);
    }
    Py_XDECREF(layout.slabs);
    Py_XDECREF(layout.of);
    Py_XDECREF(layout.begins);
    py_plan_release(object);
    return result;
}
