/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor: a tensor of a model or a slice of one, and the ways to its bytes. */
#include "py_native.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct tensor_object {
    PyObject base;
    py_handle *handle;
    py_part part;
    /* What the buffer protocol hands out, from its first use on, and the same for everyone. It stays until the object goes:
       some consumers give the buffer back at once, and rely on the object alone. */
    _Atomic(py_view *) exported;
} tensor_object;

static tensor_object *tensor_allocate(const py_state *state, py_handle *handle)
{
    tensor_object *self = PyObject_New(tensor_object, state->tensor_type);
    if (self != NULL) {
        self->handle = py_handle_retain(handle);
        memset(&self->part, 0, sizeof self->part);
        atomic_init(&self->exported, NULL);
    }
    return self;
}

PyObject *py_tensor_new(const py_state *state, py_handle *handle, const coffer_tensor *tensor)
{
    tensor_object *self = tensor_allocate(state, handle);
    if (self != NULL) {
        py_part_whole(&self->part, tensor);
    }
    return (PyObject *)self;
}

PyObject *py_tensor_new_part(const py_state *state, py_handle *handle, py_part *part)
{
    tensor_object *self = tensor_allocate(state, handle);
    if (self == NULL) {
        py_part_release(part);
    } else {
        self->part = *part;
    }
    return (PyObject *)self;
}

static void tensor_free_view(py_view *view)
{
    if (view != NULL) {
        py_view_release(view);
        free(view);
    }
}

static void tensor_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    tensor_object *self = (tensor_object *)object;
    tensor_free_view(atomic_load(&self->exported));
    py_part_release(&self->part);
    py_handle_release(self->handle);
    PyObject_Free(object);
    Py_DECREF(type);
}

const py_part *py_tensor_of(const py_state *state, PyObject *object, py_handle **handle)
{
    if (Py_TYPE(object) != state->tensor_type) {
        py_fail_call(PY_WRONG_TYPE, "a coffer.Tensor is wanted, not %R", (PyObject *)Py_TYPE(object));
        return NULL;
    }
    *handle = ((tensor_object *)object)->handle;
    return &((tensor_object *)object)->part;
}

/* ---- What it is --------------------------------------------------------------------------------------------------- */

static const py_part *tensor_part(PyObject *self)
{
    return &((tensor_object *)self)->part;
}

static PyObject *tensor_name(PyObject *self, void *closure)
{
    (void)closure;
    return py_tensor_name(tensor_part(self)->tensor);
}

static PyObject *tensor_dtype(PyObject *self, void *closure)
{
    (void)closure;
    return py_dtype_name(py_state_of(self), tensor_part(self)->tensor);
}

static PyObject *tensor_shape(PyObject *self, void *closure)
{
    (void)closure;
    const py_part *part = tensor_part(self);
    return py_shape_tuple(py_part_shape(part), part->rank);
}

static PyObject *tensor_ndim(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromSize_t(tensor_part(self)->rank);
}

static PyObject *tensor_size(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLongLong(py_part_elements(tensor_part(self)));
}

static PyObject *tensor_nbytes(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLongLong(tensor_part(self)->size);
}

static PyObject *tensor_itemsize(PyObject *self, void *closure)
{
    (void)closure;
    const uint32_t bits = coffer_dtype_bits(tensor_part(self)->tensor->dtype);
    return bits % 8 == 0 ? PyLong_FromLong((long)(bits / 8)) : PyFloat_FromDouble(bits / 8.0);
}

static PyObject *tensor_offset(PyObject *self, void *closure)
{
    (void)closure;
    const py_part *part = tensor_part(self);
    /* In a file of another program a tensor lies elsewhere, or nowhere, as it is. */
    const bool known =
        part->contiguous && coffer_model_import(py_handle_model(((tensor_object *)self)->handle)) == NULL;
    return known ? PyLong_FromUnsignedLongLong(part->offset) : Py_NewRef(Py_None);
}

static PyObject *tensor_repr(PyObject *self)
{
    PyObject *name = tensor_name(self, NULL);
    PyObject *dtype = tensor_dtype(self, NULL);
    PyObject *shape = tensor_shape(self, NULL);
    PyObject *repr = NULL;
    if (name != NULL && dtype != NULL && shape != NULL) {
        const char *of = tensor_part(self)->indices == NULL ? "" : "part of ";
        repr = PyUnicode_FromFormat("<coffer.Tensor %s%R: %U %R>", of, name, dtype, shape);
    }
    Py_XDECREF(name);
    Py_XDECREF(dtype);
    Py_XDECREF(shape);
    return repr;
}

static Py_ssize_t tensor_length(PyObject *self)
{
    const py_part *part = tensor_part(self);
    if (part->rank == 0) {
        PyErr_SetString(PyExc_TypeError, "a tensor of no dimension has no len()");
        return -1;
    }
    const uint64_t length = py_part_shape(part)[0];
    if (length > PY_SSIZE_T_MAX) {
        PyErr_SetString(PyExc_OverflowError, "the dimension is too long for len()");
        return -1;
    }
    return (Py_ssize_t)length;
}

static PyObject *tensor_subscript(PyObject *object, PyObject *index)
{
    const tensor_object *whole = (tensor_object *)object;
    const py_state *state = py_state_of(object);
    tensor_object *self = tensor_allocate(state, whole->handle);
    if (self == NULL || py_part_slice(state, &self->part, &whole->part, index) == 0) {
        return (PyObject *)self;
    }
    memset(&self->part, 0, sizeof self->part);
    Py_DECREF(self);
    return NULL;
}

/* Makes it a sequence to C programs; pandas takes numbers that are none for scalars. */
static PyObject *tensor_at(PyObject *self, Py_ssize_t i)
{
    PyObject *index = PyLong_FromSsize_t(i);
    PyObject *part = index == NULL ? NULL : tensor_subscript(self, index);
    Py_XDECREF(index);
    return part;
}

/* ---- The buffer protocol ------------------------------------------------------------------------------------------ */

static void tensor_fill_lengths(Py_ssize_t *shape, Py_ssize_t *strides, const uint64_t *lengths, int rank,
                                Py_ssize_t itemsize)
{
    for (int i = rank; i-- > 0;) {
        shape[i] = (Py_ssize_t)lengths[i];
        strides[i] = itemsize;
        itemsize *= shape[i] > 1 ? shape[i] : 1;
    }
}

static bool tensor_is_typed(const py_part *part)
{
    return py_buffer_format_of(part->tensor->dtype) != NULL && part->rank <= PyBUF_MAX_NDIM;
}

/* The view that every buffer shares; NULL and an exception on failure. */
static const py_view *tensor_exported(PyObject *object)
{
    tensor_object *self = (tensor_object *)object;
    py_view *view = atomic_load(&self->exported);
    if (view != NULL) {
        return view;
    }
    view = malloc(sizeof *view);
    if (view == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if (py_view_init(py_state_of(object), view, self->handle, &self->part, false) < 0) {
        free(view);
        return NULL;
    }
    /* Another thread may have been faster; then its view counts. */
    py_view *first = NULL;
    if (!atomic_compare_exchange_strong(&self->exported, &first, view)) {
        tensor_free_view(view);
        return first;
    }
    return view;
}

/* `lengths` has space for shape and strides. What has no format is bytes to those who ask for none. */
static void tensor_fill_buffer(Py_buffer *buffer, const py_view *view, const py_part *part, Py_ssize_t *lengths,
                               int flags)
{
    const bool typed = tensor_is_typed(part);
    const int rank = typed ? (int)part->rank : 1;
    buffer->itemsize = typed ? (Py_ssize_t)(coffer_dtype_bits(part->tensor->dtype) / 8) : 1;
    tensor_fill_lengths(lengths, lengths + rank, typed ? py_part_shape(part) : &part->size, rank, buffer->itemsize);
    buffer->buf = view->data;
    buffer->len = (Py_ssize_t)part->size;
    buffer->readonly = (flags & PyBUF_WRITABLE) == 0;
    buffer->ndim = rank;
    buffer->format = NULL;
    if ((flags & PyBUF_FORMAT) == PyBUF_FORMAT) {
        buffer->format = (char *)(uintptr_t)py_buffer_format_of(part->tensor->dtype);
    }
    buffer->shape = lengths;
    buffer->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? lengths + rank : NULL;
    buffer->suboffsets = NULL;
    buffer->internal = lengths;
}

static const char tensor_read_only[] =
    "the tensor is a view of read-only memory: open the file with access=\"private\", or copy it";

/* Bytes without dtype and shape are given by memory() alone. Who asks a tensor for them may well take them for numbers of
   another kind: torch.asarray takes those of any dtype for float32, in one dimension. */
static const char *tensor_buffer_trouble(const py_part *part, const py_view *view, int flags)
{
    if ((flags & PyBUF_ND) != PyBUF_ND) {
        return "a tensor is exported with its dtype and shape, and they were not requested: use memory() for its "
               "bytes, or numpy() or torch() for its values";
    }
    if ((flags & PyBUF_FORMAT) == PyBUF_FORMAT && !tensor_is_typed(part)) {
        return "the buffer protocol has no format for this tensor: numpy() has its values where numpy knows the dtype, "
               "memory() its bytes";
    }
    if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && part->rank > 1) {
        return "tensors are row-major, not Fortran-contiguous";
    }
    if ((flags & PyBUF_WRITABLE) != 0 && !view->writable) {
        return tensor_read_only;
    }
    return NULL;
}

static int tensor_get_buffer(PyObject *object, Py_buffer *buffer, int flags)
{
    const py_part *part = tensor_part(object);
    buffer->obj = NULL;
    const py_view *view = tensor_exported(object);
    if (view == NULL) {
        return -1;
    }
    const char *trouble = tensor_buffer_trouble(part, view, flags);
    if (trouble != NULL) {
        PyErr_SetString(PyExc_BufferError, trouble);
        return -1;
    }
    const size_t rank = tensor_is_typed(part) ? part->rank : 1;
    Py_ssize_t *lengths = PyMem_Malloc(2 * rank * sizeof *lengths + 1);
    if (lengths == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    tensor_fill_buffer(buffer, view, part, lengths, flags);
    buffer->obj = Py_NewRef(object);
    return 0;
}

static void tensor_release_buffer(PyObject *self, Py_buffer *buffer)
{
    (void)self;
    PyMem_Free(buffer->internal);
}

static PyObject *tensor_whole(PyObject *object, void *closure)
{
    (void)closure;
    const tensor_object *self = (tensor_object *)object;
    return PyBool_FromLong(coffer_is_whole(py_handle_model(self->handle), self->part.tensor));
}

static PyObject *tensor_memory(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "writable", NULL };
    int writable = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|p:memory", names, &writable)) {
        return NULL;
    }
    const py_view *view = tensor_exported(object);
    if (view == NULL) {
        return NULL;
    }
    if (writable && !view->writable) {
        PyErr_SetString(PyExc_BufferError, tensor_read_only);
        return NULL;
    }
    return py_lent_memory(py_state_of(object), object, view->data, (Py_ssize_t)tensor_part(object)->size, writable);
}

static PyObject *tensor_writable(PyObject *self, void *closure)
{
    (void)closure;
    const py_view *view = tensor_exported(self);
    return view == NULL ? NULL : PyBool_FromLong(view->writable);
}

/* ---- DLPack ------------------------------------------------------------------------------------------------------- */

static PyObject *tensor_dlpack_device(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return Py_BuildValue("(ii)", 1, 0);
}

/* The first of a pair of ints, or -1 and a TypeError; `otherwise` for None. */
static long tensor_first_of_pair(PyObject *pair, const char *what, long otherwise)
{
    PyObject *items[2];
    if (pair == Py_None) {
        return otherwise;
    }
    return py_unpack(pair, what, items, 2) < 0 ? -1 : PyLong_AsLong(items[0]);
}

/* Reads the keywords of __dlpack__. */
static int tensor_dlpack_wants(PyObject *args, PyObject *kwargs, bool *versioned, PyObject **copy)
{
    static char *names[] = { "stream", "max_version", "dl_device", "copy", NULL };
    PyObject *stream = Py_None;
    PyObject *version = Py_None;
    PyObject *device = Py_None;
    *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", names, &stream, &version, &device, copy)) {
        return -1;
    }
    const long device_type = tensor_first_of_pair(device, "dl_device is a pair of ints", 1);
    const long major = PyErr_Occurred() ? -1 : tensor_first_of_pair(version, "max_version is a pair of ints", 0);
    if (PyErr_Occurred() != NULL) {
        return -1;
    }
    if (stream != Py_None || device_type != 1) {
        PyErr_SetString(PyExc_BufferError, "the tensor is in the CPU's memory: no streams, no other device");
        return -1;
    }
    *versioned = major >= 1;
    return 0;
}

static PyObject *tensor_dlpack(PyObject *object, PyObject *args, PyObject *kwargs)
{
    tensor_object *self = (tensor_object *)object;
    const py_state *state = py_state_of(object);
    const coffer_dtype dtype = self->part.tensor->dtype;
    bool versioned = false;
    PyObject *copy = NULL;
    if (tensor_dlpack_wants(args, kwargs, &versioned, &copy) < 0) {
        return NULL;
    }
    if (!py_dlpack_knows(dtype)) {
        return PyErr_Format(PyExc_BufferError, "DLPack has no type for %s: take the bytes, with tobytes() or read()",
                            coffer_tensor_dtype_name(self->part.tensor));
    }
    py_view view;
    if (py_view_init(state, &view, self->handle, &self->part, copy == Py_True) < 0) {
        return NULL;
    }
    const char *trouble = NULL;
    if (copy == Py_False && view.owned != NULL) {
        trouble = "a view was asked for, but the tensor is not in memory as it is: it has to be copied";
    } else if (!versioned && !view.writable) {
        trouble = "the tensor is read-only, which this consumer's version of DLPack cannot say: open the file with "
                  "access=\"private\", or ask for a copy";
    }
    if (trouble != NULL) {
        py_view_release(&view);
        PyErr_SetString(PyExc_BufferError, trouble);
        return NULL;
    }
    return py_dlpack_capsule(&view, &self->part, false, versioned, view.owned != NULL);
}

/* ---- Reading ------------------------------------------------------------------------------------------------------ */

static PyObject *tensor_read(PyObject *object, PyObject *unused)
{
    (void)unused;
    tensor_object *self = (tensor_object *)object;
    py_view view;
    if (py_view_init(py_state_of(object), &view, self->handle, &self->part, true) < 0) {
        return NULL;
    }
    return py_buffer_new(py_state_of(object), view.owned, view.owned_size);
}

static PyObject *tensor_read_into(PyObject *object, PyObject *target)
{
    tensor_object *self = (tensor_object *)object;
    const py_state *state = py_state_of(object);
    Py_buffer buffer;
    if (!py_given_buffer(target, self->part.tensor->dtype, true, &buffer)) {
        return py_call("coffer._given", "read_into", object, target, NULL);
    }
    PyObject *result = NULL;
    if ((uint64_t)buffer.len != self->part.size) {
        py_fail_sizes(state, COFFER_ERR_BUFFER_SIZE, self->part.tensor->name, self->part.size, (uint64_t)buffer.len,
                      "the buffer's size is not the tensor's");
    } else if (py_part_read(state, self->handle, &self->part, buffer.buf) == 0) {
        result = Py_NewRef(Py_None);
    }
    PyBuffer_Release(&buffer);
    return result;
}

static PyObject *tensor_tobytes(PyObject *object, PyObject *unused)
{
    (void)unused;
    tensor_object *self = (tensor_object *)object;
    const py_state *state = py_state_of(object);
    if (self->part.size > PY_SSIZE_T_MAX) {
        return PyErr_NoMemory();
    }
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)self->part.size);
    if (bytes != NULL && py_part_read(state, self->handle, &self->part, PyBytes_AsString(bytes)) < 0) {
        Py_CLEAR(bytes);
    }
    return bytes;
}

/* ---- Values (py_values.c) ------------------------------------------------------------------------------------------- */

static PyObject *tensor_tolist(PyObject *self, PyObject *unused)
{
    (void)unused;
    const py_view *view = tensor_exported(self);
    return view == NULL ? NULL : py_values_list(py_state_of(self), tensor_part(self), view->data);
}

static PyObject *tensor_item(PyObject *self, PyObject *unused)
{
    (void)unused;
    const uint64_t elements = py_part_elements(tensor_part(self));
    if (elements != 1) {
        return PyErr_Format(PyExc_ValueError,
                            "one number is wanted, but the tensor has %llu: tolist() and numpy() have all",
                            (unsigned long long)elements);
    }
    const py_view *view = tensor_exported(self);
    return view == NULL ? NULL : py_values_first(py_state_of(self), tensor_part(self), view->data);
}

static PyObject *tensor_int(PyObject *self)
{
    PyObject *item = tensor_item(self, NULL);
    PyObject *number = item == NULL ? NULL : PyNumber_Long(item);
    Py_XDECREF(item);
    return number;
}

static PyObject *tensor_float(PyObject *self)
{
    PyObject *item = tensor_item(self, NULL);
    PyObject *number = item == NULL ? NULL : PyNumber_Float(item);
    Py_XDECREF(item);
    return number;
}

static int tensor_bool(PyObject *self)
{
    PyObject *item = tensor_item(self, NULL);
    const int truth = item == NULL ? -1 : PyObject_IsTrue(item);
    Py_XDECREF(item);
    return truth;
}

/* Without it Python would compare the value with the tensors that iteration gives, and find none. */
static int tensor_contains(PyObject *self, PyObject *value)
{
    (void)self;
    (void)value;
    PyErr_SetString(PyExc_TypeError, "a tensor is not searched for values: use `value in tensor.numpy()`");
    return -1;
}

/* Element by element, as arrays compare: that two tensors are one object says nothing of their values. */
static PyObject *tensor_compare(PyObject *self, PyObject *other, int operation)
{
    if (other == Py_None || (operation != Py_EQ && operation != Py_NE)) {
        return Py_NewRef(Py_NotImplemented);
    }
    return py_call("coffer._arrays", operation == Py_EQ ? "equal" : "not_equal", self, other, NULL);
}

static Py_hash_t tensor_hash(PyObject *self)
{
    const Py_hash_t hash = (Py_hash_t)((uintptr_t)self >> 4);
    return hash == -1 ? -2 : hash;
}

/* ---- Pickling ----------------------------------------------------------------------------------------------------- */

/* One index of a part, as Python has it. */
static PyObject *tensor_index(const coffer_index *index)
{
    if (index->kind == COFFER_INDEX_AT) {
        return PyLong_FromLongLong(index->start);
    }
    PyObject *start = PyLong_FromLongLong(index->start);
    PyObject *stop = index->has_stop ? PyLong_FromLongLong(index->stop) : Py_NewRef(Py_None);
    PyObject *step = PyLong_FromLongLong(index->step);
    PyObject *slice = start == NULL || stop == NULL || step == NULL ? NULL : PySlice_New(start, stop, step);
    Py_XDECREF(start);
    Py_XDECREF(stop);
    Py_XDECREF(step);
    return slice;
}

/* The indices of a part; None of the whole. */
static PyObject *tensor_indices(const py_part *part)
{
    if (part->indices == NULL) {
        return Py_NewRef(Py_None);
    }
    PyObject *tuple = PyTuple_New((Py_ssize_t)part->tensor->rank);
    for (size_t i = 0; tuple != NULL && i < part->tensor->rank; i++) {
        PyObject *index = tensor_index(&part->indices[i]);
        if (index == NULL || PyTuple_SetItem(tuple, (Py_ssize_t)i, index) < 0) {
            Py_CLEAR(tuple);
        }
    }
    return tuple;
}

/* By the path of its file: another process opens it again. */
static PyObject *tensor_reduce(PyObject *object, PyObject *unused)
{
    (void)unused;
    const tensor_object *self = (tensor_object *)object;
    const coffer_tensor *tensor = self->part.tensor;
    PyObject *origin = py_origin(self->handle);
    PyObject *again = origin == NULL ? NULL : PyObject_GetAttrString(origin, "tensor");
    PyObject *name = tensor_name(object, NULL);
    PyObject *dtype = tensor_dtype(object, NULL);
    PyObject *shape = py_shape_tuple(tensor->shape, tensor->rank);
    PyObject *indices = tensor_indices(&self->part);
    PyObject *result = NULL;
    if (again != NULL && name != NULL && dtype != NULL && shape != NULL && indices != NULL) {
        result = Py_BuildValue("(O(OOOO))", again, name, dtype, shape, indices);
    }
    Py_XDECREF(origin);
    Py_XDECREF(again);
    Py_XDECREF(name);
    Py_XDECREF(dtype);
    Py_XDECREF(shape);
    Py_XDECREF(indices);
    return result;
}

/* ---- Frameworks, which are Python's business ----------------------------------------------------------------------- */

static PyObject *tensor_call_arrays(const char *function, PyObject *self, PyObject *argument, PyObject *option)
{
    return py_call("coffer._arrays", function, self, argument, option);
}

static PyObject *tensor_iterate(PyObject *self)
{
    return tensor_call_arrays("iterate", self, NULL, NULL);
}

static PyObject *tensor_array(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "dtype", "copy", NULL };
    PyObject *dtype = Py_None;
    PyObject *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:__array__", names, &dtype, &copy)) {
        return NULL;
    }
    return tensor_call_arrays("to_array", self, dtype, copy);
}

static PyObject *tensor_jax_array(PyObject *self, PyObject *unused)
{
    (void)unused;
    return tensor_call_arrays("to_jax", self, NULL, NULL);
}

static PyObject *tensor_astype(PyObject *self, PyObject *dtype)
{
    return tensor_call_arrays("astype", self, dtype, NULL);
}

static PyObject *tensor_numpy(PyObject *self, PyObject *unused)
{
    (void)unused;
    return tensor_call_arrays("to_numpy", self, NULL, NULL);
}

static PyObject *tensor_torch(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "device", NULL };
    PyObject *device = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:torch", names, &device)) {
        return NULL;
    }
    return tensor_call_arrays("to_torch", self, device, NULL);
}

/* ---- The type ----------------------------------------------------------------------------------------------------- */

static PyMethodDef tensor_methods[] = {
    { "__array__", (PyCFunction)(void (*)(void))tensor_array, METH_VARARGS | METH_KEYWORDS,
      "__array__($self, dtype=None, copy=None)\n--\n\nnumpy's array; a read-only view where it can be one, unless a "
      "copy is "
      "asked for." },
    { "__jax_array__", tensor_jax_array, METH_NOARGS,
      "__jax_array__($self)\n--\n\njax's array; otherwise jax would take the dtype's name for one of numpy's." },
    { "__dlpack__", (PyCFunction)(void (*)(void))tensor_dlpack, METH_VARARGS | METH_KEYWORDS,
      "__dlpack__($self, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\nA DLPack capsule." },
    { "__dlpack_device__", tensor_dlpack_device, METH_NOARGS, "__dlpack_device__($self)\n--\n\n(1, 0): the CPU." },
    { "astype", tensor_astype, METH_O,
      "astype($self, dtype, /)\n--\n\nA numpy array of the values as another dtype: one of numpy's, or the name of one "
      "in "
      "files or\nframeworks (\"BF16\", \"bfloat16\"). Its memory is its own." },
    { "item", tensor_item, METH_NOARGS,
      "item($self)\n--\n\nThe only element, as a number of Python's: bool, int, float or complex." },
    { "memory", (PyCFunction)(void (*)(void))tensor_memory, METH_VARARGS | METH_KEYWORDS,
      "memory($self, writable=False)\n--\n\nThe bytes as they are, whatever the dtype, as a memoryview of one "
      "dimension: of "
      "the map where that can be, else of a copy\nthat the tensor keeps." },
    { "numpy", tensor_numpy, METH_NOARGS,
      "numpy($self)\n--\n\nA numpy array, a read-only view where it can be one; bfloat16 and float8 need ml_dtypes." },
    { "read", tensor_read, METH_NOARGS, "read($self)\n--\n\nA copy of the bytes in memory of its own." },
    { "read_into", tensor_read_into, METH_O,
      "read_into($self, buffer, /)\n--\n\nReads into a writable buffer of exactly nbytes, or into an array or torch "
      "tensor "
      "of as many elements, with any strides:\nof the dtype, or of one that has every number of it." },
    { "tobytes", tensor_tobytes, METH_NOARGS, "tobytes($self)\n--\n\nThe bytes, as the file has them." },
    { "tolist", tensor_tolist, METH_NOARGS,
      "tolist($self)\n--\n\nThe elements as numbers of Python's, in lists of lists; of no dimension, the number." },
    { "torch", (PyCFunction)(void (*)(void))tensor_torch, METH_VARARGS | METH_KEYWORDS,
      "torch($self, device=None)\n--\n\nA torch tensor; a view of a private map where it can be one." },
    { "__reduce__", tensor_reduce, METH_NOARGS, "By the file's path and the tensor's name." },
    { NULL, NULL, 0, NULL },
};

static PyObject *tensor_stored(PyObject *object, void *closure)
{
    (void)closure;
    const tensor_object *self = (tensor_object *)object;
    const coffer *model = py_handle_model(self->handle);
    coffer_stored_tensor stored;
    if (coffer_model_import(model) == NULL || !coffer_stored_tensor_of(model, self->part.tensor, &stored)) {
        Py_RETURN_NONE;
    }
    return Py_BuildValue("{s:s,s:K,s:N,s:N,s:N,s:N,s:N,s:z#}", "type", stored.type, "size",
                         (unsigned long long)stored.size, "mapped", PyBool_FromLong(stored.mapped), "gathered",
                         PyBool_FromLong(stored.gathered), "changed", PyBool_FromLong(stored.changed), "decoded",
                         PyBool_FromLong(stored.decoded), "in_order", PyBool_FromLong(stored.in_order), "tied",
                         stored.tied_len > 0 ? stored.tied : NULL, (Py_ssize_t)stored.tied_len);
}

static PyGetSetDef tensor_attributes[] = {
    { "name", tensor_name, NULL, "The tensor's name.", NULL },
    { "dtype", tensor_dtype, NULL, "The dtype as the format names it.", NULL },
    { "shape", tensor_shape, NULL, "The lengths of its dimensions.", NULL },
    { "ndim", tensor_ndim, NULL, "The number of dimensions.", NULL },
    { "size", tensor_size, NULL, "The number of elements.", NULL },
    { "nbytes", tensor_nbytes, NULL, "Its size in bytes.", NULL },
    { "itemsize", tensor_itemsize, NULL, "Bytes of an element; 0.5 and 0.75 for F4 and F6.", NULL },
    { "offset", tensor_offset, NULL,
      "Of its first byte in the file; None for a slice that is not contiguous, and in a file of another program.",
      NULL },
    { "writable", tensor_writable, NULL, "Whether a writable buffer can be had: it is a private map, or was read.",
      NULL },
    { "stored", tensor_stored, NULL, "How it lies in a file of another program; None in a file of tensors.", NULL },
    { "whole", tensor_whole, NULL, "Whether the file has all of its bytes; they cannot be read otherwise.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

PyTypeObject *py_tensor_make_type(PyObject *module)
{
    static PyType_Slot slots[] = {
        { Py_tp_doc, "A tensor of a file, or a part of one. Nothing is read until its bytes are requested." },
        { Py_tp_dealloc, tensor_dealloc },
        { Py_tp_repr, tensor_repr },
        { Py_tp_iter, tensor_iterate },
        { Py_tp_richcompare, tensor_compare },
        { Py_tp_hash, tensor_hash },
        { Py_tp_methods, tensor_methods },
        { Py_tp_getset, tensor_attributes },
        { Py_mp_length, tensor_length },
        { Py_mp_subscript, tensor_subscript },
        { Py_nb_bool, tensor_bool },
        { Py_nb_int, tensor_int },
        { Py_nb_float, tensor_float },
        { Py_sq_item, tensor_at },
        { Py_sq_contains, tensor_contains },
        { Py_bf_getbuffer, tensor_get_buffer },
        { Py_bf_releasebuffer, tensor_release_buffer },
        { 0, NULL },
    };
    static PyType_Spec spec = {
        .name = "coffer._native.Tensor",
        .basicsize = sizeof(tensor_object),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
        .slots = slots,
    };
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
