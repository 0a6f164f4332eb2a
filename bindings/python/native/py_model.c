/* SPDX-License-Identifier: Apache-2.0 */
/* Model: an opened file. What it says of the whole file is here; reading many tensors at once is in py_model_read.c. */
#include "py_model.h"

#include <stdio.h>
#include <string.h>

/* ---- Opening ------------------------------------------------------------------------------------------------------ */

/* What is to be opened: exactly one of the three. */
typedef struct model_source {
    PyObject *path; /* bytes of the file system */
    int fd;
    Py_buffer memory;
    bool is_memory;
} model_source;

static int model_source_init(model_source *source, PyObject *from)
{
    memset(source, 0, sizeof *source);
    source->is_memory = PyObject_CheckBuffer(from);
    if (source->is_memory) {
        return PyObject_GetBuffer(from, &source->memory, PyBUF_SIMPLE);
    }
    return py_path_or_fd(from, &source->path, &source->fd);
}

/* For what did not become a model; of memory that did, the handle takes care. */
static void model_source_free(model_source *source)
{
    Py_CLEAR(source->path);
    if (source->is_memory) {
        PyBuffer_Release(&source->memory);
        source->is_memory = false;
    }
}

static bool model_source_is_remote(const model_source *source)
{
    if (source->is_memory) {
        return false;
    }
    return coffer_is_remote(source->path == NULL ? NULL : PyBytes_AsString(source->path), source->fd);
}

/* Opens without the GIL; only memory that somebody may write to is parsed with it. */
static coffer_status model_open_source(coffer **model, const model_source *source, const char *path,
                                       coffer_open_options *options, bool automatic, PyObject *progress, bool *remote,
                                       coffer_error *err)
{
    if (source->is_memory && !source->memory.readonly) {
        return coffer_open_memory(model, source->memory.buf, (size_t)source->memory.len, options, err);
    }
    coffer_status status = COFFER_OK;
    py_watch watch;
    py_watch_begin(&watch, progress, 0);
    options->progress = watch.options.progress;
    options->progress_ctx = watch.options.progress_ctx;
    *remote = model_source_is_remote(source);
    if (automatic && *remote) {
        options->access = COFFER_READ;
    }
    if (source->is_memory) {
        status = coffer_open_memory(model, source->memory.buf, (size_t)source->memory.len, options, err);
    } else if (path != NULL) {
        status = coffer_open(model, path, options, err);
    } else {
        status = coffer_open_fd(model, source->fd, 0, UINT64_MAX, options, err);
    }
    py_watch_finish(&watch);
    return status;
}

static int model_access_from(const py_state *state, const char *text, coffer_access *access, bool *automatic)
{
    static const char *const names[] = { "map", "private", "read" };
    *automatic = strcmp(text, "auto") == 0;
    *access = COFFER_MAP_PRIVATE;
    for (size_t i = 0; !*automatic && i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *access = (coffer_access)i;
            return 0;
        }
    }
    if (!*automatic) {
        py_fail(state, COFFER_ERR_ARGUMENT, "access is \"auto\", \"map\", \"private\" or \"read\"");
    }
    return *automatic ? 0 : -1;
}

/* Seconds as the options have them; None is 0, which is what the environment says. */
static int model_timeout_from(const py_state *state, PyObject *given, uint32_t *milliseconds)
{
    *milliseconds = 0;
    if (given == NULL || given == Py_None) {
        return 0;
    }
    const double seconds = PyFloat_AsDouble(given);
    if (seconds == -1 && PyErr_Occurred() != NULL) {
        return -1;
    }
    if (!(seconds > 0)) {
        py_fail(state, COFFER_ERR_ARGUMENT, "timeout is a number of seconds above 0, or None");
        return -1;
    }
    *milliseconds = seconds > 86400 ? UINT32_MAX : (uint32_t)(seconds * 1000) + 1;
    return 0;
}

/* Whether memory that is no file is a path: short, and text in one line. */
static bool model_is_path(const Py_buffer *memory)
{
    const unsigned char *bytes = memory->buf;
    Py_ssize_t printable = 0;
    while (printable < memory->len && bytes[printable] >= ' ') {
        printable++;
    }
    return memory->len > 0 && memory->len <= 4096 && printable == memory->len;
}

/* Whether a path was a URL before pathlib made one slash of its two. */
static bool model_was_url(const char *path)
{
    static const char *const schemes[] = { "http:/", "https:/", "hf:/", "s3:/" };
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        const size_t length = strlen(schemes[i]);
        if (strncmp(path, schemes[i], length) == 0 && path[length] != '/') {
            return true;
        }
    }
    return false;
}

/* Adds to a failure what the caller may have meant. */
static void model_hint(const model_source *source, const char *path, coffer_error *err)
{
    const char *hint = NULL;
    if (source->is_memory &&
        (err->code == COFFER_ERR_TOO_SHORT || err->code == COFFER_ERR_HEADER_TOO_LARGE ||
         err->code == COFFER_ERR_IS_TEXT) &&
        model_is_path(&source->memory)) {
        hint = "; bytes are taken for the content of a file: a path is given as str or os.PathLike";
    } else if (path != NULL && err->code == COFFER_ERR_NOT_FOUND && model_was_url(path)) {
        hint = "; a URL is given as str: pathlib made one slash of its two";
    }
    if (hint != NULL) {
        const size_t length = strlen(err->message);
        (void)snprintf(err->message + length, sizeof err->message - length, "%s", hint);
    }
}

static int model_formats_from(const py_state *state, const char *text, coffer_formats *formats)
{
    static const char *const names[] = { "plain", "own", "all" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *formats = (coffer_formats)i;
            return 0;
        }
    }
    py_fail(state, COFFER_ERR_ARGUMENT, "formats is \"all\", \"plain\" or \"own\"");
    return -1;
}

/* "recorded", or a truth. */
static int model_verify_from(PyObject *given, coffer_verifying *verify)
{
    if (PyUnicode_Check(given) && PyUnicode_CompareWithASCIIString(given, "recorded") == 0) {
        *verify = COFFER_VERIFY_RECORDED;
        return 0;
    }
    const int all = PyObject_IsTrue(given);
    *verify = all > 0 ? COFFER_VERIFY_ALL : COFFER_VERIFY_NOTHING;
    return all < 0 ? -1 : 0;
}

static py_handle *model_open_handle(const py_state *state, model_source *source, coffer_open_options *options,
                                    bool automatic, PyObject *progress)
{
    coffer *model = NULL;
    bool remote = false;
    coffer_error err;
    const char *path = source->path == NULL ? NULL : PyBytes_AsString(source->path);
    if (model_open_source(&model, source, path, options, automatic, progress, &remote, &err) != COFFER_OK) {
        model_hint(source, path, &err);
        return (py_handle *)py_raise(state, &err);
    }
    const Py_buffer *memory = source->is_memory ? &source->memory : NULL;
    source->is_memory = false;
    return py_handle_new(model, options->access, options->verify != COFFER_VERIFY_NOTHING, remote, memory);
}

static PyObject *model_new(PyTypeObject *type, py_handle *handle, PyObject *path)
{
    model_object *self = PyObject_New(model_object, type);
    if (self == NULL) {
        py_handle_release(handle);
        return NULL;
    }
    self->handle = handle;
    self->path = path == NULL ? NULL : PyUnicode_DecodeFSDefault(PyBytes_AsString(path));
    self->access = py_handle_access(handle);
    (void)pthread_mutex_init(&self->lock, NULL);
    if (path != NULL && self->path == NULL) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static PyObject *model_open(PyObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "source",    "access",   "populate", "max_header_size", "unknown_dtypes",
                             "all_notes", "format",   "verify",   "token",           "timeout",
                             "partial",   "to_fetch", "progress", "formats",         NULL };
    const py_state *state = PyType_GetModuleState((PyTypeObject *)type);
    PyObject *from = NULL;
    const char *access = "auto";
    int populate = 0;
    unsigned long long max_header_size = 0;
    int unknown_dtypes = 0;
    int all_notes = 0;
    const char *format = NULL;
    const char *formats = "all";
    int partial = 0;
    int to_fetch = 0;
    PyObject *verify = Py_False;
    PyObject *timeout = NULL;
    PyObject *progress = NULL;
    bool automatic = false;
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    model_source source;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$spKppzOzOppOs:open", names, &from, &access, &populate,
                                     &max_header_size, &unknown_dtypes, &all_notes, &format, &verify, &options.token,
                                     &timeout, &partial, &to_fetch, &progress, &formats) ||
        model_formats_from(state, formats, &options.formats) < 0 ||
        model_timeout_from(state, timeout, &options.timeout_ms) < 0 ||
        model_access_from(state, access, &options.access, &automatic) < 0 ||
        model_verify_from(verify, &options.verify) < 0 || py_format_from(state, format, &options.format) < 0 ||
        model_source_init(&source, from) < 0) {
        return NULL;
    }
    if (source.is_memory && options.access == COFFER_MAP_PRIVATE) {
        /* Memory that was lent is not to be changed. */
        options.access = COFFER_MAP;
    }
    options.populate = populate != 0;
    options.max_header_size = max_header_size;
    options.unknown_dtypes = unknown_dtypes != 0;
    options.all_notes = all_notes != 0;
    options.partial = partial != 0;
    options.to_fetch = to_fetch != 0;
    py_handle *handle = model_open_handle(state, &source, &options, automatic, progress);
    if (handle != NULL && source.path != NULL) {
        py_handle_set_origin(handle, Py_BuildValue("(OO)", args, kwargs == NULL ? Py_None : kwargs));
    }
    PyObject *model = handle == NULL ? NULL : model_new((PyTypeObject *)type, handle, source.path);
    model_source_free(&source);
    return model;
}

/* ---- Closing ------------------------------------------------------------------------------------------------------ */

py_handle *py_model_use(PyObject *object)
{
    model_object *self = (model_object *)object;
    (void)pthread_mutex_lock(&self->lock);
    py_handle *handle = self->handle == NULL ? NULL : py_handle_retain(self->handle);
    (void)pthread_mutex_unlock(&self->lock);
    if (handle == NULL) {
        py_fail(py_state_of(object), COFFER_ERR_ARGUMENT, "the file is closed");
    }
    return handle;
}

PyObject *py_origin(py_handle *handle)
{
    PyObject *origin = py_handle_origin(handle);
    if (origin == NULL) {
        PyErr_SetString(PyExc_TypeError,
                        "what was opened from memory or a descriptor cannot be pickled: open it by its path");
        return NULL;
    }
    if (!PyTuple_Check(origin)) {
        return Py_NewRef(origin);
    }
    const coffer *model = py_handle_model(handle);
    PyObject *module = PyImport_ImportModule("coffer._origin");
    PyObject *made = module == NULL ? NULL
                                    : PyObject_CallMethod(module, "origin_of", "OOn", PyTuple_GetItem(origin, 0),
                                                          PyTuple_GetItem(origin, 1), (Py_ssize_t)coffer_count(model));
    Py_XDECREF(module);
    if (made != NULL) {
        /* One for all that was handed out, so that a pickle has it once, and what comes of it is opened once. */
        py_handle_set_origin(handle, Py_NewRef(made));
    }
    return made;
}

/* What it is opened again by. */
static PyObject *model_origin(PyObject *self, PyObject *unused)
{
    (void)unused;
    py_handle *handle = py_model_use(self);
    PyObject *origin = handle == NULL ? NULL : py_origin(handle);
    py_handle_release(handle);
    return origin;
}

static PyObject *model_reduce(PyObject *self, PyObject *unused)
{
    PyObject *origin = model_origin(self, unused);
    PyObject *again = origin == NULL ? NULL : PyObject_GetAttrString(origin, "model");
    Py_XDECREF(origin);
    return again == NULL ? NULL : Py_BuildValue("(N())", again);
}

static PyObject *model_close(PyObject *object, PyObject *unused)
{
    (void)unused;
    model_object *self = (model_object *)object;
    (void)pthread_mutex_lock(&self->lock);
    py_handle *handle = self->handle;
    self->handle = NULL;
    (void)pthread_mutex_unlock(&self->lock);
    Py_BEGIN_ALLOW_THREADS py_handle_release(handle);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static void model_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    model_object *self = (model_object *)object;
    py_handle_release(self->handle);
    (void)pthread_mutex_destroy(&self->lock);
    Py_XDECREF(self->path);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* ---- Attributes --------------------------------------------------------------------------------------------------- */

static PyObject *model_path(PyObject *object, void *closure)
{
    (void)closure;
    const model_object *self = (model_object *)object;
    return Py_NewRef(self->path == NULL ? Py_None : self->path);
}

static PyObject *model_access(PyObject *object, void *closure)
{
    (void)closure;
    static const char *const names[] = { "map", "private", "read" };
    return PyUnicode_FromString(names[((model_object *)object)->access]);
}

static PyObject *model_closed(PyObject *object, void *closure)
{
    (void)closure;
    model_object *self = (model_object *)object;
    (void)pthread_mutex_lock(&self->lock);
    const bool closed = self->handle == NULL;
    (void)pthread_mutex_unlock(&self->lock);
    return PyBool_FromLong(closed);
}

/* ---- What the header says ----------------------------------------------------------------------------------------- */

static PyObject *model_data_offset(PyObject *self, void *closure)
{
    (void)closure;
    py_handle *handle = py_model_use(self);
    if (handle == NULL) {
        return NULL;
    }
    PyObject *offset =
        PyLong_FromUnsignedLongLong(coffer_table_data_offset(coffer_shard_table(py_handle_model(handle), 0)));
    py_handle_release(handle);
    return offset;
}

static PyObject *model_format(PyObject *self, void *closure)
{
    (void)closure;
    py_handle *handle = py_model_use(self);
    if (handle == NULL) {
        return NULL;
    }
    const coffer_format format = coffer_table_format(coffer_shard_table(py_handle_model(handle), 0));
    py_handle_release(handle);
    return PyUnicode_FromString(coffer_format_id(format));
}

static PyObject *model_algorithm(PyObject *self, void *closure)
{
    (void)closure;
    py_handle *handle = py_model_use(self);
    if (handle == NULL) {
        return NULL;
    }
    const coffer *model = py_handle_model(handle);
    coffer_algorithm found = COFFER_NO_ALGORITHM;
    for (size_t i = 0; i < coffer_shard_count(model) && found == COFFER_NO_ALGORITHM; i++) {
        found = coffer_recorded_algorithm(model, i);
    }
    py_handle_release(handle);
    return found == COFFER_NO_ALGORITHM ? Py_NewRef(Py_None) : PyUnicode_FromString(coffer_algorithm_name(found));
}

static Py_ssize_t model_length(PyObject *self)
{
    py_handle *handle = py_model_use(self);
    if (handle == NULL) {
        return -1;
    }
    const size_t count = coffer_count(py_handle_model(handle));
    py_handle_release(handle);
    return (Py_ssize_t)count;
}

static int model_contains(PyObject *self, PyObject *name)
{
    py_handle *handle = py_model_use(self);
    if (handle == NULL) {
        return -1;
    }
    Py_ssize_t length = 0;
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, &length) : NULL;
    /* What is no str, or has no UTF-8, is surely no tensor's name. */
    PyErr_Clear();
    const bool found = text != NULL && coffer_find(py_handle_model(handle), text, (size_t)length) != NULL;
    py_handle_release(handle);
    return found;
}

static PyObject *model_dtypes(PyObject *self, PyObject *unused)
{
    (void)unused;
    py_handle *handle = py_model_use(self);
    if (handle == NULL) {
        return NULL;
    }
    const coffer *model = py_handle_model(handle);
    PyObject *found = PySet_New(NULL);
    for (size_t i = 0; found != NULL && i < coffer_count(model); i++) {
        PyObject *name = py_dtype_name(py_state_of(self), coffer_at(model, i));
        if (name == NULL || PySet_Add(found, name) < 0) {
            Py_CLEAR(found);
        }
        Py_XDECREF(name);
    }
    py_handle_release(handle);
    return found;
}

static PyObject *model_find(PyObject *self, PyObject *name)
{
    py_handle *handle = py_model_use(self);
    if (handle == NULL) {
        return NULL;
    }
    const py_state *state = py_state_of(self);
    const coffer_tensor *tensor = py_find(state, handle, name);
    PyObject *found = tensor == NULL ? NULL : py_tensor_new(state, handle, tensor);
    py_handle_release(handle);
    return found;
}

/* ---- Lists -------------------------------------------------------------------------------------------------------- */

/* Of `count` things, in the order of their numbers or in that of `order` (NULL: none). */
static PyObject *model_list(PyObject *self, py_handle *handle, size_t count, const uint32_t *order, py_model_make make)
{
    const py_state *state = py_state_of(self);
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list != NULL && i < count; i++) {
        PyObject *item = make(state, handle, order == NULL ? i : order[i]);
        if (item == NULL || PyList_SetItem(list, (Py_ssize_t)i, item) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

PyObject *py_model_list(PyObject *self, size_t (*count)(const coffer *model), py_model_make make)
{
    py_handle *handle = py_model_use(self);
    PyObject *list = handle == NULL ? NULL : model_list(self, handle, count(py_handle_model(handle)), NULL, make);
    py_handle_release(handle);
    return list;
}

static PyObject *model_make_path(const py_state *state, py_handle *handle, size_t i)
{
    (void)state;
    return PyUnicode_DecodeFSDefault(coffer_shard_path(py_handle_model(handle), i));
}

static PyObject *model_make_name(const py_state *state, py_handle *handle, size_t i)
{
    (void)state;
    return py_tensor_name(coffer_at(py_handle_model(handle), i));
}

static PyObject *model_make_info(const py_state *state, py_handle *handle, size_t i)
{
    const coffer_tensor *tensor = coffer_at(py_handle_model(handle), i);
    PyObject *name = model_make_name(state, handle, i);
    PyObject *dtype = py_dtype_name(state, tensor);
    PyObject *shape = py_shape_tuple(tensor->shape, tensor->rank);
    if (name == NULL || dtype == NULL || shape == NULL) {
        Py_XDECREF(name);
        Py_XDECREF(dtype);
        Py_XDECREF(shape);
        return NULL;
    }
    return Py_BuildValue("(NNNKK)", name, dtype, shape, (unsigned long long)tensor->offset,
                         (unsigned long long)tensor->size);
}

static PyObject *model_make_tensor(const py_state *state, py_handle *handle, size_t i)
{
    return py_tensor_new(state, handle, coffer_at(py_handle_model(handle), i));
}

static PyObject *model_shards(PyObject *self, void *closure)
{
    (void)closure;
    return py_model_list(self, coffer_shard_count, model_make_path);
}

static PyObject *model_offset_keys(PyObject *self, PyObject *unused)
{
    (void)unused;
    return py_model_list(self, coffer_count, model_make_name);
}

static PyObject *model_infos(PyObject *self, PyObject *unused)
{
    (void)unused;
    return py_model_list(self, coffer_count, model_make_info);
}

static PyObject *model_tensors(PyObject *self, PyObject *unused)
{
    (void)unused;
    return py_model_list(self, coffer_count, model_make_tensor);
}

static PyObject *model_keys(PyObject *self, PyObject *unused)
{
    (void)unused;
    py_handle *handle = py_model_use(self);
    if (handle == NULL) {
        return NULL;
    }
    PyObject *list = NULL;
    const size_t count = coffer_count(py_handle_model(handle));
    uint32_t *order = PyMem_Malloc(count * sizeof *order + 1);
    if (order == NULL) {
        PyErr_NoMemory();
    } else {
        coffer_sort_by_name(py_handle_model(handle), order);
        list = model_list(self, handle, count, order, model_make_name);
    }
    PyMem_Free(order);
    py_handle_release(handle);
    return list;
}

/* ---- Metadata and notes ------------------------------------------------------------------------------------------- */

/* Of several files the pairs of all; where they differ, those of the first. */
static PyObject *model_metadata(PyObject *self, PyObject *unused)
{
    (void)unused;
    py_handle *handle = py_model_use(self);
    if (handle == NULL) {
        return NULL;
    }
    const coffer *model = py_handle_model(handle);
    PyObject *dict = PyDict_New();
    bool any = false;
    for (size_t shard = coffer_shard_count(model); dict != NULL && shard-- > 0;) {
        const coffer_table *table = coffer_shard_table(model, shard);
        any = any || coffer_table_has_metadata(table);
        if (py_model_add_metadata(dict, table) < 0) {
            Py_CLEAR(dict);
        }
    }
    py_handle_release(handle);
    if (dict != NULL && !any) {
        Py_DECREF(dict);
        return Py_NewRef(Py_None);
    }
    return dict;
}

/* Appends a note that was seen; `path` is taken over. */
static int model_add_note(PyObject *list, coffer_note_kind kind, coffer_note note, PyObject *path, const char *subject)
{
    PyObject *offset = note.offset == COFFER_NO_OFFSET ? Py_NewRef(Py_None) : PyLong_FromUnsignedLongLong(note.offset);
    PyObject *item =
        path == NULL || offset == NULL
            ? NULL
            : Py_BuildValue("(sKOOz)", coffer_note_text(kind), (unsigned long long)note.count, offset, path, subject);
    const int result = item == NULL ? -1 : PyList_Append(list, item);
    Py_XDECREF(item);
    Py_XDECREF(offset);
    Py_XDECREF(path);
    return result;
}

/* What shard `shard` has, of every kind. */
static int model_add_notes_of_shard(PyObject *list, const coffer *model, size_t shard)
{
    int result = 0;
    for (int kind = 0; result == 0 && kind < COFFER_NOTE_UNINDEXED; kind++) {
        const coffer_note note = coffer_table_note(coffer_shard_table(model, shard), (coffer_note_kind)kind);
        if (note.count > 0) {
            PyObject *path = PyUnicode_DecodeFSDefault(coffer_shard_path(model, shard));
            result = model_add_note(list, (coffer_note_kind)kind, note, path, NULL);
        }
    }
    return result;
}

/* What the model has as a whole, opened as `path`. */
static int model_add_notes_of_whole(PyObject *list, const coffer *model, PyObject *path)
{
    int result = 0;
    for (int kind = COFFER_NOTE_UNINDEXED; result == 0 && kind < COFFER_NOTE_COUNT; kind++) {
        const char *subject = NULL;
        const coffer_note note = coffer_model_note(model, (coffer_note_kind)kind, &subject);
        if (note.count > 0) {
            result =
                model_add_note(list, (coffer_note_kind)kind, note, Py_NewRef(path), *subject == '\0' ? NULL : subject);
        }
    }
    return result;
}

static PyObject *model_notes(PyObject *self, PyObject *unused)
{
    (void)unused;
    py_handle *handle = py_model_use(self);
    if (handle == NULL) {
        return NULL;
    }
    const coffer *model = py_handle_model(handle);
    PyObject *list = PyList_New(0);
    PyObject *path = ((model_object *)self)->path;
    int result = list == NULL ? -1 : model_add_notes_of_whole(list, model, path == NULL ? Py_None : path);
    for (size_t shard = 0; result == 0 && shard < coffer_shard_count(model); shard++) {
        result = model_add_notes_of_shard(list, model, shard);
    }
    py_handle_release(handle);
    if (result < 0) {
        Py_CLEAR(list);
    }
    return list;
}

/* ---- The type ----------------------------------------------------------------------------------------------------- */

static PyMethodDef model_methods[] = {
    { "open", (PyCFunction)(void (*)(void))model_open, METH_VARARGS | METH_KEYWORDS | METH_CLASS,
      "Opens a path, a descriptor, or a file in memory." },
    { "__reduce__", model_reduce, METH_NOARGS, "By its path." },
    { "close", model_close, METH_NOARGS, "Ends the use of this object; what was handed out stays usable." },
    { "keys", model_keys, METH_NOARGS, "Names in byte order." },
    { "offset_keys", model_offset_keys, METH_NOARGS, "Names in the order of their data in the file." },
    { "find", model_find, METH_O, "The tensor of a name." },
    { "tensors", model_tensors, METH_NOARGS, "All tensors, in the order of their data in the file." },
    { "infos", model_infos, METH_NOARGS, "(name, dtype, shape, offset, nbytes) of each, in the order of their data." },
    { "dtypes", model_dtypes, METH_NOARGS, "The names of all tensors' dtypes, each once." },
    { "metadata", model_metadata, METH_NOARGS, "The header's metadata, or None." },
    { "headers", py_model_headers, METH_NOARGS, "(metadata, tensors) of each file." },
    { "notes", model_notes, METH_NOARGS,
      "What is legal but suspicious: (description, how often, first offset, file, subject)." },
    { "read_many", (PyCFunction)(void (*)(void))py_model_read_many, METH_VARARGS | METH_KEYWORDS,
      "Reads tensors, each into a Buffer of its own." },
    { "array", py_model_array, METH_VARARGS, "A tensor, or a part of one, as (dtype, shape, Buffer)." },
    { "plain_part", py_model_plain_part, METH_VARARGS,
      "What an index takes of a tensor, unread; None for one that is not plain." },
    { "read_into", (PyCFunction)(void (*)(void))py_model_read_into, METH_VARARGS | METH_KEYWORDS,
      "Reads tensors into writable buffers of exactly their sizes." },
    { "dlpack_many", (PyCFunction)(void (*)(void))py_model_dlpack_many, METH_VARARGS | METH_KEYWORDS,
      "One unversioned DLPack capsule a tensor." },
    { "verify", (PyCFunction)(void (*)(void))py_model_verify, METH_VARARGS | METH_KEYWORDS,
      "Compares tensors with the digests that their files record." },
    { "content_digest", (PyCFunction)(void (*)(void))py_model_content_digest, METH_VARARGS | METH_KEYWORDS,
      "The digest of all tensors, whatever files they are in." },
    { "digests", (PyCFunction)(void (*)(void))py_model_digests, METH_VARARGS | METH_KEYWORDS,
      "The digests of all tensors' data, in the order of their data." },
    { "fetch", (PyCFunction)(void (*)(void))py_model_fetch, METH_VARARGS | METH_KEYWORDS,
      "Downloads the model, or some tensors of it, into a folder." },
    { "rewrite", (PyCFunction)(void (*)(void))py_model_rewrite, METH_VARARGS | METH_KEYWORDS,
      "Writes the model again by rules, or only tells what that would do." },
    { "extract_lora", (PyCFunction)(void (*)(void))py_model_extract_lora, METH_VARARGS | METH_KEYWORDS,
      "Writes an adapter that makes another model of it, or only tells what that would be." },
    { "parameters", (PyCFunction)(void (*)(void))py_model_parameters, METH_VARARGS | METH_KEYWORDS,
      "How many parameters, by dtype: (plain, trained, compatible, assumed)." },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef model_attributes[] = {
    { "path", model_path, NULL, "As it was given; None for a descriptor and for memory.", NULL },
    { "access", model_access, NULL, "\"map\", \"private\" or \"read\".", NULL },
    { "closed", model_closed, NULL, "Whether close was called.", NULL },
    { "format", model_format, NULL, "\"safetensors\", \"bintensors\" or \"bintensors-a\".", NULL },
    { "shards", model_shards, NULL, "The paths of its files; of memory and descriptors, one that is empty.", NULL },
    { "index_metadata", py_model_index_metadata, NULL, "The JSON text of what the index has as its metadata.", NULL },
    { "algorithm", model_algorithm, NULL, "Of the digests that its files record; None when they record none.", NULL },
    { "data_offset", model_data_offset, NULL, "Where the data start in the file.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

PyTypeObject *py_model_make_type(PyObject *module)
{
    static PyType_Slot slots[] = {
        { Py_tp_doc, "An opened file: its header was read and validated, its data were not touched. Immutable." },
        { Py_tp_dealloc, model_dealloc },
        { Py_tp_methods, model_methods },
        { Py_tp_getset, model_attributes },
        { Py_mp_length, model_length },
        { Py_sq_contains, model_contains },
        { 0, NULL },
    };
    static PyType_Spec spec = {
        .name = "coffer._native.Model",
        .basicsize = sizeof(model_object),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
        .slots = slots,
    };
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
