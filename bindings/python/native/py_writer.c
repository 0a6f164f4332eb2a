/* SPDX-License-Identifier: Apache-2.0 */
/* Writer: a file piece by piece, from any number of threads. */
#include "py_native.h"

#include <pthread.h>
#include <string.h>

typedef struct writer_object {
    PyObject base;
    pthread_mutex_t lock;  /* of the two below, for a moment at a time */
    coffer_writer *writer; /* NULL when it is over */
    size_t writing;        /* calls of write in progress */
    coffer_header *header;
    PyObject *numbers;  /* the tensors' numbers by name */
    uint64_t size;      /* of the whole file */
    PyObject *progress; /* NULL: none; called after each write */
    uint64_t put;       /* bytes written so far, for `progress` */
    uint64_t total;     /* bytes of all tensors, for `progress` */
} writer_object;

/* ---- Opening ------------------------------------------------------------------------------------------------------ */

/* Declares `items`: name, dtype and shape. */
static int writer_declare_one(const py_state *state, writer_object *self, PyObject *const *items, Py_ssize_t number)
{
    if (py_add_tensor(state, self->header, items[0], items[1], items[2]) < 0) {
        return -1;
    }
    PyObject *value = PyLong_FromSsize_t(number);
    const int result = value == NULL ? -1 : PyDict_SetItem(self->numbers, items[0], value);
    Py_XDECREF(value);
    return result;
}

/* A declaration is (name, dtype, shape), or (name, (dtype, shape)) as a mapping has it. */
static int writer_unpack(PyObject *declaration, bool nested, PyObject **items)
{
    const char *what = "a declaration is (name, dtype, shape), or in a mapping name: (dtype, shape)";
    if (!nested) {
        return py_unpack(declaration, what, items, 3);
    }
    PyObject *pair[2];
    if (py_unpack(declaration, what, pair, 2) < 0) {
        return -1;
    }
    items[0] = pair[0];
    return py_unpack(pair[1], what, items + 1, 2);
}

static int writer_declare(const py_state *state, writer_object *self, PyObject *tensors)
{
    const bool nested = PyMapping_Check(tensors) && !PySequence_Check(tensors);
    PyObject *list = nested ? PyMapping_Items(tensors) : PySequence_List(tensors);
    if (list == NULL) {
        return -1;
    }
    int result = 0;
    for (Py_ssize_t i = 0; result == 0 && i < PyList_Size(list); i++) {
        PyObject *items[3];
        result = writer_unpack(PyList_GetItem(list, i), nested, items);
        result = result < 0 ? -1 : writer_declare_one(state, self, items, i);
    }
    Py_DECREF(list);
    return result;
}

int py_writer_open(const py_state *state, coffer_writer **writer, coffer_header *header, PyObject *target,
                   const coffer_writer_options *options)
{
    PyObject *path = NULL;
    int fd = -1;
    if (py_path_or_fd(target, &path, &fd) < 0) {
        return -1;
    }
    const char *path_text = path == NULL ? NULL : PyBytes_AsString(path);
    coffer_status status = COFFER_OK;
    coffer_error err;
    Py_BEGIN_ALLOW_THREADS status = path_text == NULL ? coffer_writer_open_fd(writer, header, fd, options, &err)
                                                      : coffer_writer_open(writer, header, path_text, options, &err);
    Py_END_ALLOW_THREADS Py_XDECREF(path);
    if (status != COFFER_OK) {
        py_raise(state, &err);
        return -1;
    }
    return 0;
}

static int writer_start(const py_state *state, writer_object *self, const py_writing *writing)
{
    const coffer_writer_options *options = &writing->options;
    const coffer_table *table = NULL;
    coffer_error err;
    if ((options->digests != COFFER_NO_ALGORITHM &&
         coffer_header_reserve_digests(self->header, options->digests, &err) != COFFER_OK) ||
        coffer_header_build(self->header, &writing->header, NULL, NULL, &table, &err) != COFFER_OK) {
        py_raise(state, &err);
        return -1;
    }
    self->size = coffer_table_data_offset(table) + coffer_table_data_size(table);
    self->total = coffer_table_data_size(table);
    return py_writer_open(state, &self->writer, self->header, writing->own[0], options);
}

static writer_object *writer_allocate(const py_state *state, PyTypeObject *type)
{
    writer_object *self = PyObject_GC_New(writer_object, type);
    if (self == NULL) {
        return NULL;
    }
    (void)pthread_mutex_init(&self->lock, NULL);
    self->writer = NULL;
    self->writing = 0;
    self->header = NULL;
    self->size = 0;
    self->put = 0;
    self->total = 0;
    self->progress = NULL;
    self->numbers = PyDict_New();
    coffer_error err;
    if (self->numbers != NULL && coffer_header_new(&self->header, coffer_libc_allocator(), &err) == COFFER_OK) {
        return self;
    }
    if (self->numbers != NULL) {
        py_raise(state, &err);
    }
    Py_DECREF(self);
    return NULL;
}

static PyObject *writer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "path", "tensors", PY_WRITING_NAMES };
    const py_state *state = PyType_GetModuleState(type);
    py_writing writing;
    if (py_writing_from(state, args, kwargs, PY_WRITING_FORMAT "Writer", names, &writing) < 0) {
        return NULL;
    }
    writer_object *self = writer_allocate(state, type);
    if (self != NULL && (py_add_metadata(state, self->header, writing.metadata) < 0 ||
                         writer_declare(state, self, writing.own[1]) < 0 || writer_start(state, self, &writing) < 0)) {
        Py_CLEAR(self);
    }
    if (self != NULL && writing.progress != NULL && writing.progress != Py_None) {
        self->progress = Py_NewRef(writing.progress);
    }
    if (self != NULL) {
        PyObject_GC_Track(self);
    }
    return (PyObject *)self;
}

/* ---- Closing ------------------------------------------------------------------------------------------------------ */

/* Progress is often told to a method of whoever keeps the writer. */
static int writer_traverse(PyObject *object, visitproc visit, void *arg)
{
    writer_object *self = (writer_object *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->numbers);
    Py_VISIT(self->progress);
    return 0;
}

static int writer_clear(PyObject *object)
{
    Py_CLEAR(((writer_object *)object)->progress);
    return 0;
}

static void writer_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    writer_object *self = (writer_object *)object;
    PyObject_GC_UnTrack(object);
    coffer_writer_free(self->writer);
    coffer_header_free(self->header);
    (void)pthread_mutex_destroy(&self->lock);
    Py_XDECREF(self->numbers);
    Py_XDECREF(self->progress);
    PyObject_GC_Del(object);
    Py_DECREF(type);
}

/* Takes the writer away, so that nobody else ends it; with `*busy` true it stays, because of writes in progress. */
static coffer_writer *writer_take(writer_object *self, bool *busy)
{
    (void)pthread_mutex_lock(&self->lock);
    *busy = self->writing > 0;
    coffer_writer *writer = *busy ? NULL : self->writer;
    if (!*busy) {
        self->writer = NULL;
    }
    (void)pthread_mutex_unlock(&self->lock);
    return writer;
}

static PyObject *writer_fail_busy(PyObject *self)
{
    return py_fail(py_state_of(self), COFFER_ERR_ARGUMENT, "other threads are still writing: wait for them first");
}

static PyObject *writer_fail_over(PyObject *self)
{
    return py_fail(py_state_of(self), COFFER_ERR_ARGUMENT, "the writer was finished or discarded");
}

static PyObject *writer_finish(PyObject *object, PyObject *unused)
{
    (void)unused;
    bool busy = false;
    coffer_writer *writer = writer_take((writer_object *)object, &busy);
    if (writer == NULL) {
        return busy ? writer_fail_busy(object) : writer_fail_over(object);
    }
    coffer_status status = COFFER_OK;
    coffer_error err;
    Py_BEGIN_ALLOW_THREADS status = coffer_writer_finish(writer, &err);
    coffer_writer_free(writer);
    Py_END_ALLOW_THREADS if (status != COFFER_OK)
    {
        return py_raise(py_state_of(object), &err);
    }
    Py_RETURN_NONE;
}

static PyObject *writer_discard(PyObject *object, PyObject *unused)
{
    (void)unused;
    bool busy = false;
    coffer_writer *writer = writer_take((writer_object *)object, &busy);
    if (busy) {
        return writer_fail_busy(object);
    }
    Py_BEGIN_ALLOW_THREADS coffer_writer_free(writer);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyObject *writer_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(self);
}

static PyObject *writer_exit(PyObject *self, PyObject *args)
{
    PyObject *kind = NULL;
    PyObject *error = NULL;
    PyObject *traceback = NULL;
    if (!PyArg_ParseTuple(args, "OOO:__exit__", &kind, &error, &traceback)) {
        return NULL;
    }
    return kind == Py_None ? writer_finish(self, NULL) : writer_discard(self, NULL);
}

/* ---- Writing ------------------------------------------------------------------------------------------------------ */

/* The number of a declared tensor, or -1. */
static Py_ssize_t writer_number(PyObject *object, PyObject *name)
{
    Py_ssize_t length = 0;
    if (py_text(name, "a tensor's name", &length) == NULL) {
        return -1;
    }
    PyObject *number = PyDict_GetItemWithError(((writer_object *)object)->numbers, name);
    if (number != NULL) {
        return PyLong_AsSsize_t(number);
    }
    if (PyErr_Occurred() == NULL) {
        PyObject *text = PyObject_ASCII(name);
        const char *utf8 = text == NULL ? NULL : PyUnicode_AsUTF8AndSize(text, NULL);
        if (utf8 != NULL) {
            py_fail(py_state_of(object), COFFER_ERR_NO_TENSOR, "no tensor %.200s was declared", utf8);
        }
        Py_XDECREF(text);
    }
    return -1;
}

static coffer_writer *writer_begin(writer_object *self, uint64_t *before)
{
    (void)pthread_mutex_lock(&self->lock);
    coffer_writer *writer = self->writer;
    self->writing += writer != NULL;
    *before = self->put;
    (void)pthread_mutex_unlock(&self->lock);
    return writer;
}

static void writer_leave(writer_object *self, uint64_t size)
{
    (void)pthread_mutex_lock(&self->lock);
    self->writing--;
    self->put += size;
    (void)pthread_mutex_unlock(&self->lock);
}

static PyObject *writer_write_bytes(PyObject *object, size_t number, uint64_t offset, const Py_buffer *data)
{
    writer_object *self = (writer_object *)object;
    uint64_t before = 0;
    coffer_writer *writer = writer_begin(self, &before);
    if (writer == NULL) {
        return writer_fail_over(object);
    }
    py_watch watch;
    coffer_error err;
    py_watch_begin(&watch, self->progress, 0);
    watch.done = before;
    watch.total = self->total;
    const coffer_status status =
        py_write(&watch, py_write_one, writer, number, offset, data->buf, (uint64_t)data->len, &err);
    py_watch_finish(&watch);
    writer_leave(self, (uint64_t)data->len);
    if (status != COFFER_OK) {
        return py_raise(py_state_of(object), &err);
    }
    Py_RETURN_NONE;
}

static PyObject *writer_write(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "name", "data", "offset", NULL };
    PyObject *name = NULL;
    PyObject *data = NULL;
    unsigned long long offset = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|K:write", names, &name, &data, &offset)) {
        return NULL;
    }
    const Py_ssize_t number = writer_number(object, name);
    Py_buffer buffer;
    if (number < 0 ||
        py_given_bytes(data, coffer_header_at(((writer_object *)object)->header, (size_t)number), &buffer) < 0) {
        return NULL;
    }
    PyObject *result = writer_write_bytes(object, (size_t)number, offset, &buffer);
    PyBuffer_Release(&buffer);
    return result;
}

static PyObject *writer_nbytes(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLongLong(((writer_object *)self)->size);
}

/* ---- The type ----------------------------------------------------------------------------------------------------- */

/* What help(coffer.Writer) shows; the first line becomes its signature. */
static const char writer_doc[] =
    "Writer(path, tensors, metadata=None, *, sync='replace', alignment=0, slack=0, in_place=False, format=None, "
    "digests=None, progress=None, packed=False)\n--\n\nWrites a file piece by piece: every tensor is declared at "
    "first, then pieces "
    "come in any order.\n\npath       str, bytes or os.PathLike; or a descriptor\ntensors    {name: (dtype, shape)}, "
    "or (name, dtype, shape) of each; dtypes by their names in files, \"F32\"\nmetadata   {str: str}\nsync       when "
    "the file is made durable: \"replace\", before it replaces an older one,\n           \"always\", or "
    "\"never\"\nalignment  of the data's start in the file, in bytes: a power of two from 8 on; 0: 8\nslack      "
    "spaces to reserve after the header, for later edits of the metadata\nin_place   overwrite the file at the path "
    "itself, where a rename cannot replace it, as in bind mounts: neither atomic nor\n           safe in a "
    "crash\nformat     \"safetensors\", which it is without, or \"bintensors\"\ndigests    \"sha256\" or \"xxh3-128\": "
    "record those of the tensors in the metadata, computed as pieces come, best in\n           order\nprogress   "
    "called while bytes are made durable, with those that are and those of the file\npacked     "
    "pack the file when it is finished: fewer bytes, without loss, of which other programs know nothing\n\nAs a "
    "context manager it "
    "finishes at the end of the block, and discards everything when the block raises.";

static PyMethodDef writer_methods[] = {
    { "write", (PyCFunction)(void (*)(void))writer_write, METH_VARARGS | METH_KEYWORDS,
      "write($self, name, data, offset=0)\n--\n\nWrites bytes of a tensor, from its byte `offset` on: any buffer of "
      "bytes, as they are, or an array or torch tensor,\nwhich is cast where the tensor's dtype has every number of "
      "its "
      "own, and refused otherwise. From any thread, several\nat once; a byte can come once." },
    { "finish", writer_finish, METH_NOARGS,
      "finish($self)\n--\n\nChecks that every byte came, and publishes the file." },
    { "discard", writer_discard, METH_NOARGS,
      "discard($self)\n--\n\nLeaves nothing behind. After finish it does nothing." },
    { "__enter__", writer_enter, METH_NOARGS, NULL },
    { "__exit__", writer_exit, METH_VARARGS, NULL },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef writer_attributes[] = {
    { "nbytes", writer_nbytes, NULL, "The size of the whole file.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

PyTypeObject *py_writer_make_type(PyObject *module)
{
    static PyType_Slot slots[] = {
        { Py_tp_doc, (void *)(uintptr_t)writer_doc },
        { Py_tp_new, writer_new },
        { Py_tp_dealloc, writer_dealloc },
        { Py_tp_traverse, writer_traverse },
        { Py_tp_clear, writer_clear },
        { Py_tp_methods, writer_methods },
        { Py_tp_getset, writer_attributes },
        { 0, NULL },
    };
    static PyType_Spec spec = {
        .name = "coffer._native.Writer",
        .basicsize = sizeof(writer_object),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_GC,
        .slots = slots,
    };
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
