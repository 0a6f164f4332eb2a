/* SPDX-License-Identifier: Apache-2.0 */
/* Plan: which tensors, or parts of them, go where. */
#include "py_load.h"

#include <string.h>

typedef struct plan_object {
    PyObject base;
    coffer_plan *plan;
    py_handle *handle;
    PyObject *devices; /* a list of the Device objects that it uses */
    Py_ssize_t loads;  /* that use it now */
} plan_object;

static PyObject *plan_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "model", NULL };
    const py_state *state = PyType_GetModuleState(type);
    PyObject *model = NULL;
    coffer_error err;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!:Plan", names, state->model_type, &model)) {
        return NULL;
    }
    py_handle *handle = py_model_use(model);
    plan_object *self = handle == NULL ? NULL : PyObject_New(plan_object, type);
    if (self == NULL) {
        py_handle_release(handle);
        return NULL;
    }
    self->handle = handle;
    self->plan = NULL;
    self->loads = 0;
    self->devices = PyList_New(0);
    if (self->devices != NULL && coffer_plan_new(&self->plan, py_handle_model(handle), NULL, &err) != COFFER_OK) {
        py_raise(state, &err);
    }
    if (self->plan == NULL) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static void plan_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    plan_object *self = (plan_object *)object;
    coffer_plan_free(self->plan);
    py_handle_release(self->handle);
    Py_XDECREF(self->devices);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* ---- what a load uses -------------------------------------------------------------------------------------------- */

const coffer_plan *py_plan_begin(const py_state *state, PyObject *object)
{
    if (Py_TYPE(object) != state->plan_type) {
        py_fail_call(PY_WRONG_TYPE, "a coffer.Plan is wanted, not %R", (PyObject *)Py_TYPE(object));
        return NULL;
    }
    plan_object *self = (plan_object *)object;
    self->loads++;
    return self->plan;
}

void py_plan_release(PyObject *object)
{
    ((plan_object *)object)->loads--;
}

PyObject *py_plan_device(PyObject *object, const coffer_device *device)
{
    const plan_object *self = (plan_object *)object;
    for (Py_ssize_t i = 0; i < PyList_Size(self->devices); i++) {
        bool failed = false;
        PyObject *one = PyList_GetItem(self->devices, i);
        if (py_device_of(py_state_of(object), one, &failed) == device) {
            return one;
        }
    }
    return NULL;
}

/* The plan, if it may be changed; NULL and an exception while a load uses it. */
static coffer_plan *plan_changed(PyObject *object)
{
    plan_object *self = (plan_object *)object;
    if (self->loads > 0) {
        py_fail(py_state_of(object), COFFER_ERR_ARGUMENT, "a plan cannot be changed while a load carries it out");
        return NULL;
    }
    return self->plan;
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* A place as the library has it; `place` is NULL when the load is to allocate. The strides are released by PyMem_Free.
   */
typedef struct plan_target {
    coffer_destination given;
    const coffer_destination *place;
    coffer_device *device;
    int64_t *strides;
} plan_target;

static int plan_strides_from(plan_target *target, PyObject *sequence)
{
    PyObject *items = PySequence_Tuple(sequence);
    const Py_ssize_t count = items == NULL ? 0 : PyTuple_Size(items);
    target->strides = items == NULL ? NULL : PyMem_Calloc((size_t)count + 1, sizeof *target->strides);
    if (items != NULL && target->strides == NULL) {
        PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; target->strides != NULL && i < count && PyErr_Occurred() == NULL; i++) {
        target->strides[i] = PyLong_AsLongLong(PyTuple_GetItem(items, i));
    }
    Py_XDECREF(items);
    target->given.strides = target->strides;
    return PyErr_Occurred() == NULL ? 0 : -1;
}

/* The place of (address, size, strides or None, stream), or None; and the device, which the plan keeps from now on. */
static int plan_target_init(PyObject *object, plan_target *target, PyObject *place, PyObject *device)
{
    const py_state *state = py_state_of(object);
    PyObject *devices = ((plan_object *)object)->devices;
    PyObject *items[4];
    bool failed = false;
    memset(target, 0, sizeof *target);
    target->device = py_device_of(state, device, &failed);
    if (failed || (target->device != NULL && py_plan_device(object, target->device) == NULL &&
                   PyList_Append(devices, device) < 0)) {
        return -1;
    }
    if (place == Py_None) {
        return 0;
    }
    if (py_unpack(place, "a place is an address, a size, strides or None, and a stream", items, 4) < 0) {
        return -1;
    }
    target->given.device = target->device;
    target->given.address = PyLong_AsUnsignedLongLong(items[0]);
    target->given.size = PyErr_Occurred() != NULL ? 0 : PyLong_AsUnsignedLongLong(items[1]);
    target->given.stream = PyErr_Occurred() != NULL ? 0 : PyLong_AsUnsignedLongLong(items[3]);
    if (PyErr_Occurred() != NULL) {
        return -1;
    }
    target->place = &target->given;
    return items[2] == Py_None ? 0 : plan_strides_from(target, items[2]);
}

/* The number of an item that was added, or the failure. */
static PyObject *plan_added(PyObject *object, coffer_status status, size_t item, const coffer_error *err)
{
    return status == COFFER_OK ? PyLong_FromSize_t(item) : py_raise(py_state_of(object), err);
}

/* ---- adding ------------------------------------------------------------------------------------------------------ */

static PyObject *plan_add_part(PyObject *object, const coffer_tensor *tensor, PyObject *index,
                               const plan_target *target)
{
    py_part whole;
    py_part part;
    size_t item = 0;
    coffer_error err;
    coffer_plan *plan = ((plan_object *)object)->plan;
    py_part_whole(&whole, tensor);
    part = whole;
    if (index != Py_None && py_part_slice(py_state_of(object), &part, &whole, index) < 0) {
        return NULL;
    }
    const size_t count = part.indices == NULL ? 0 : tensor->rank;
    const coffer_status status =
        target->place == NULL && target->device != NULL
            ? coffer_plan_add_on(plan, tensor, part.indices, count, target->device, &item, &err)
            : coffer_plan_add(plan, tensor, part.indices, count, target->place, &item, &err);
    if (part.indices != NULL) {
        py_part_release(&part);
    }
    return plan_added(object, status, item, &err);
}

static PyObject *plan_add(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "name", "index", "place", "device", NULL };
    PyObject *name = NULL;
    PyObject *index = Py_None;
    PyObject *place = Py_None;
    PyObject *device = Py_None;
    plan_target target;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O$OO:add", names, &name, &index, &place, &device) ||
        plan_changed(object) == NULL) {
        return NULL;
    }
    const coffer_tensor *tensor = py_find(py_state_of(object), ((plan_object *)object)->handle, name);
    if (tensor == NULL) {
        return NULL;
    }
    PyObject *added =
        plan_target_init(object, &target, place, device) < 0 ? NULL : plan_add_part(object, tensor, index, &target);
    PyMem_Free(target.strides);
    return added;
}

/* One item of another plan, a whole tensor, to contiguous bytes at an address. */
static int plan_add_whole(PyObject *object, const coffer_tensor *tensor, PyObject *address, const plan_target *target)
{
    coffer_error err;
    coffer_destination place = target->given;
    place.device = target->device;
    place.address = PyLong_AsUnsignedLongLong(address);
    place.size = tensor->size;
    if (PyErr_Occurred() != NULL) {
        return -1;
    }
    if (coffer_plan_add(((plan_object *)object)->plan, tensor, NULL, 0, &place, NULL, &err) != COFFER_OK) {
        py_raise(py_state_of(object), &err);
        return -1;
    }
    return 0;
}

/* Whether all items are whole tensors. */
static bool plan_is_whole(const coffer_plan *plan)
{
    coffer_plan_item item;
    size_t i = 0;
    while (coffer_plan_at(plan, i, &item) && item.whole) {
        i++;
    }
    return i == coffer_plan_count(plan);
}

/* Nothing that is called here runs code that could change the list or the other plan. */
static PyObject *plan_add_items(PyObject *object, PyObject *args)
{
    PyObject *other = NULL;
    PyObject *addresses = NULL;
    PyObject *device = NULL;
    unsigned long long stream = 0;
    plan_target target;
    if (!PyArg_ParseTuple(args, "O!O!OK:add_items", Py_TYPE(object), &other, &PyList_Type, &addresses, &device,
                          &stream) ||
        plan_changed(object) == NULL || plan_target_init(object, &target, Py_None, device) < 0) {
        return NULL;
    }
    const coffer_plan *plan = ((const plan_object *)other)->plan;
    target.given.stream = stream;
    if ((size_t)PyList_Size(addresses) != coffer_plan_count(plan)) {
        return py_fail(py_state_of(object), COFFER_ERR_ARGUMENT, "as many addresses are wanted as items");
    }
    const bool whole = plan_is_whole(plan);
    coffer_plan_item item;
    for (size_t i = 0; whole && coffer_plan_at(plan, i, &item); i++) {
        if (plan_add_whole(object, item.tensor, PyList_GetItem(addresses, (Py_ssize_t)i), &target) < 0) {
            return NULL;
        }
    }
    return PyBool_FromLong(whole);
}

static PyObject *plan_shard(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "name", "dim", "parts", "rank", "world", "place", "device", NULL };
    PyObject *name = NULL;
    PyObject *parts = NULL;
    PyObject *place = Py_None;
    PyObject *device = Py_None;
    Py_ssize_t dim = 0;
    uint32_t rank = 0;
    uint32_t world = 1;
    plan_target target;
    uint64_t *sizes = NULL;
    size_t count = 0;
    size_t item = 0;
    coffer_error err;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OnOO&O&|$OO:shard", names, &name, &dim, &parts, py_to_u32, &rank,
                                     py_to_u32, &world, &place, &device)) {
        return NULL;
    }
    coffer_plan *plan = plan_changed(object);
    const coffer_tensor *tensor =
        plan == NULL ? NULL : py_find(py_state_of(object), ((plan_object *)object)->handle, name);
    if (tensor == NULL || py_shape_from(parts, &sizes, &count) < 0) {
        return NULL;
    }
    PyObject *added = NULL;
    if (plan_target_init(object, &target, place, device) == 0) {
        const size_t from_start = (size_t)(dim < 0 ? dim + (Py_ssize_t)tensor->rank : dim);
        const coffer_status status = coffer_plan_add_rank(plan, tensor, from_start, sizes, count, rank, world,
                                                          target.place, target.device, &item, &err);
        added = plan_added(object, status, item, &err);
    }
    PyMem_Free(target.strides);
    PyMem_Free(sizes);
    return added;
}

/* The rules of a tuple of (pattern, dimension), whose texts they borrow. */
static coffer_split_rule *plan_rules_from(PyObject *tuple, size_t count)
{
    coffer_split_rule *rules = PyMem_Calloc(count + 1, sizeof *rules);
    if (rules == NULL) {
        PyErr_NoMemory();
    }
    for (size_t i = 0; rules != NULL && i < count; i++) {
        PyObject *items[2];
        Py_ssize_t length = 0;
        const int unpacked = py_unpack(PyTuple_GetItem(tuple, (Py_ssize_t)i),
                                       "a rule is a pattern and a dimension, which is -1 for none", items, 2);
        rules[i].pattern = unpacked < 0 ? NULL : PyUnicode_AsUTF8AndSize(items[0], &length);
        rules[i].dim = rules[i].pattern == NULL ? 0 : (int32_t)PyLong_AsLong(items[1]);
        if (PyErr_Occurred() != NULL) {
            PyMem_Free(rules);
            rules = NULL;
        }
    }
    return rules;
}

static PyObject *plan_all(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "rules", "rank", "world", "device", NULL };
    const py_state *state = py_state_of(object);
    PyObject *given = Py_None;
    PyObject *device = Py_None;
    uint32_t rank = 0;
    uint32_t world = 1;
    plan_target target;
    coffer_error err;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO&O&|$O:all", names, &given, py_to_u32, &rank, py_to_u32, &world,
                                     &device) ||
        plan_target_init(object, &target, Py_None, device) < 0) {
        return NULL;
    }
    coffer_plan *plan = plan_changed(object);
    PyObject *tuple = plan == NULL ? NULL : given == Py_None ? PyTuple_New(0) : PySequence_Tuple(given);
    const size_t count = tuple == NULL ? 0 : (size_t)PyTuple_Size(tuple);
    coffer_split_rule *rules = tuple == NULL ? NULL : plan_rules_from(tuple, count);
    if (rules != NULL && coffer_plan_add_all(plan, given == Py_None ? NULL : rules, count, rank, world, target.device,
                                             &err) != COFFER_OK) {
        py_raise(state, &err);
    }
    PyMem_Free(rules);
    Py_XDECREF(tuple);
    return PyErr_Occurred() == NULL ? Py_NewRef(Py_None) : NULL;
}

/* ---- what it has ------------------------------------------------------------------------------------------------- */

static Py_ssize_t plan_length(PyObject *object)
{
    return (Py_ssize_t)coffer_plan_count(((plan_object *)object)->plan);
}

/* (name, dtype, shape, bytes, whether it is whole) */
static PyObject *plan_describe(const py_state *state, const coffer_plan_item *item)
{
    PyObject *name = py_tensor_name(item->tensor);
    PyObject *dtype = name == NULL ? NULL : py_dtype_name(state, item->tensor);
    PyObject *shape = dtype == NULL ? NULL : py_shape_tuple(item->shape, item->rank);
    if (shape == NULL) {
        Py_XDECREF(name);
        Py_XDECREF(dtype);
        return NULL;
    }
    return Py_BuildValue("(NNNKN)", name, dtype, shape, (unsigned long long)item->size, PyBool_FromLong(item->whole));
}

static PyObject *plan_items(PyObject *object, PyObject *unused)
{
    (void)unused;
    const coffer_plan *plan = ((plan_object *)object)->plan;
    const size_t count = coffer_plan_count(plan);
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list != NULL && i < count; i++) {
        coffer_plan_item item;
        PyObject *one = coffer_plan_at(plan, i, &item) ? plan_describe(py_state_of(object), &item) : NULL;
        if (one == NULL || PyList_SetItem(list, (Py_ssize_t)i, one) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

/* The dtypes of the items of those numbers. */
static PyObject *plan_dtypes(PyObject *object, PyObject *numbers)
{
    const coffer_plan *plan = ((plan_object *)object)->plan;
    PyObject *set = PySet_New(NULL);
    for (Py_ssize_t i = 0; set != NULL && i < PyList_Size(numbers); i++) {
        coffer_plan_item item;
        const size_t number = PyLong_AsSize_t(PyList_GetItem(numbers, i));
        PyObject *dtype = PyErr_Occurred() == NULL && coffer_plan_at(plan, number, &item)
                              ? py_dtype_name(py_state_of(object), item.tensor)
                              : NULL;
        if (dtype == NULL || PySet_Add(set, dtype) < 0) {
            Py_CLEAR(set);
        }
        Py_XDECREF(dtype);
    }
    return set;
}

/* (items, needed, read, requests) of a shard, or of all for None. */
static PyObject *plan_cost(PyObject *object, PyObject *shard)
{
    coffer_plan_cost cost = { .struct_size = sizeof cost };
    const size_t number = shard == Py_None ? SIZE_MAX : PyLong_AsSize_t(shard);
    coffer_error err;
    if (PyErr_Occurred() != NULL) {
        return NULL;
    }
    if (coffer_plan_cost_of(((plan_object *)object)->plan, number, &cost, &err) != COFFER_OK) {
        return py_raise(py_state_of(object), &err);
    }
    return Py_BuildValue("(KKKK)", (unsigned long long)cost.items, (unsigned long long)cost.needed,
                         (unsigned long long)cost.read, (unsigned long long)cost.requests);
}

static PyMethodDef plan_methods[] = {
    { "add", (PyCFunction)(void (*)(void))plan_add, METH_VARARGS | METH_KEYWORDS,
      "Adds a tensor, or what an index takes of it; the item's number." },
    { "add_items", plan_add_items, METH_VARARGS,
      "Adds the items of another plan, each to contiguous bytes at an address; False: they are not all whole "
      "tensors." },
    { "shard", (PyCFunction)(void (*)(void))plan_shard, METH_VARARGS | METH_KEYWORDS,
      "Adds a rank's part of a tensor that is split; the item's number." },
    { "all", (PyCFunction)(void (*)(void))plan_all, METH_VARARGS | METH_KEYWORDS,
      "Adds every tensor as a rank takes it by rules; None: the usual ones." },
    { "items", plan_items, METH_NOARGS, "Name, dtype, shape, bytes and whether it is whole, of each item." },
    { "dtypes", plan_dtypes, METH_O, "The dtypes of the items of those numbers, a list." },
    { "cost", plan_cost, METH_O, "Items, bytes needed, bytes read and requests, of a file or of all (None)." },
    { NULL, NULL, 0, NULL },
};

PyTypeObject *py_plan_make_type(PyObject *module)
{
    static PyType_Slot slots[] = {
        { Py_tp_doc, "Which tensors of a model, or parts of them, go where. For one thread at a time." },
        { Py_tp_new, plan_new },
        { Py_tp_dealloc, plan_dealloc },
        { Py_tp_methods, plan_methods },
        { Py_sq_length, plan_length },
        { 0, NULL },
    };
    static PyType_Spec spec = {
        .name = "coffer._native.Plan",
        .basicsize = sizeof(plan_object),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
        .slots = slots,
    };
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
