/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments that several functions take. */
#include "py_native.h"

#include <string.h>

const char *py_text(PyObject *text, const char *what, Py_ssize_t *length)
{
    if (!PyUnicode_Check(text)) {
        py_fail_call(PY_WRONG_TYPE, "%s is a str, not %.80R of the type %R", what, text, (PyObject *)Py_TYPE(text));
        return NULL;
    }
    const char *found = PyUnicode_AsUTF8AndSize(text, length);
    if (found == NULL && PyErr_ExceptionMatches(PyExc_UnicodeError)) {
        PyErr_Clear();
        py_fail_call(PY_WRONG_VALUE, "%s has half of a surrogate pair, which UTF-8 does not have: %.80A", what, text);
    }
    return found;
}

const coffer_tensor *py_find(const py_state *state, const py_handle *handle, PyObject *name)
{
    Py_ssize_t length = 0;
    const char *text = py_text(name, "a tensor's name", &length);
    if (text == NULL) {
        return NULL;
    }
    const coffer_tensor *tensor = coffer_find(py_handle_model(handle), text, (size_t)length);
    if (tensor == NULL) {
        char escaped[160];
        const size_t needed = coffer_escape(text, (size_t)length, escaped, sizeof escaped);
        py_fail(state, COFFER_ERR_NO_TENSOR, "the file has no tensor \"%s%s\"", escaped,
                needed < sizeof escaped ? "" : "...");
    }
    return tensor;
}

int py_unpack(PyObject *tuple, const char *what, PyObject **items, Py_ssize_t count)
{
    if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != count) {
        py_fail_call(PY_WRONG_TYPE, "%s, not %.80R", what, tuple);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        items[i] = PyTuple_GetItem(tuple, i);
    }
    return 0;
}

/* One that is out of range is told as such: the interpreter's own message is about C's types. */
static int number_up_to(PyObject *number, uint64_t most, uint64_t *value)
{
    PyObject *whole = PyNumber_Index(number);
    if (whole == NULL) {
        return -1;
    }
    *value = PyLong_AsUnsignedLongLong(whole);
    Py_DECREF(whole);
    if (PyErr_Occurred() == NULL && *value <= most) {
        return 0;
    }
    PyErr_Clear();
    py_fail_call(PY_WRONG_VALUE, "a whole number from 0 to %llu is wanted, not %.80R", (unsigned long long)most,
                 number);
    return -1;
}

int py_to_u64(PyObject *number, void *out)
{
    return number_up_to(number, UINT64_MAX, out) == 0;
}

int py_to_u32(PyObject *number, void *out)
{
    uint64_t value = 0;
    if (number_up_to(number, UINT32_MAX, &value) < 0) {
        return 0;
    }
    *(uint32_t *)out = (uint32_t)value;
    return 1;
}

int py_shape_from(PyObject *sequence, uint64_t **shape, size_t *rank)
{
    PyObject *items = PySequence_Tuple(sequence);
    if (items == NULL) {
        return -1;
    }
    const Py_ssize_t count = PyTuple_Size(items);
    uint64_t *lengths = PyMem_Calloc((size_t)count + 1, sizeof *lengths);
    if (lengths == NULL) {
        PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; lengths != NULL && i < count; i++) {
        if (!py_to_u64(PyTuple_GetItem(items, i), &lengths[i])) {
            PyMem_Free(lengths);
            lengths = NULL;
        }
    }
    Py_DECREF(items);
    *shape = lengths;
    *rank = (size_t)count;
    return lengths == NULL ? -1 : 0;
}

int py_to_path(PyObject *object, void *out)
{
    const int result = PyUnicode_FSConverter(object, out);
    if (result == 0 && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        py_fail_call(PY_WRONG_TYPE, "a path is a str, bytes or os.PathLike, not %.80R of the type %R", object,
                     (PyObject *)Py_TYPE(object));
    }
    return result;
}

int py_path_or_fd(PyObject *target, PyObject **path, int *fd)
{
    *path = NULL;
    *fd = -1;
    if (!PyLong_Check(target)) {
        return py_to_path(target, path) ? 0 : -1;
    }
    const long number = PyLong_AsLong(target);
    if (number < 0 || number > INT_MAX) {
        if (PyErr_Occurred() == NULL) {
            py_fail_call(PY_WRONG_VALUE, "%ld is no descriptor", number);
        }
        return -1;
    }
    *fd = (int)number;
    return 0;
}

int py_sync_from(const py_state *state, const char *text, coffer_sync *sync)
{
    static const char *const names[] = { "replace", "always", "never" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *sync = (coffer_sync)i;
            return 0;
        }
    }
    py_fail(state, COFFER_ERR_ARGUMENT, "sync is \"replace\", \"always\" or \"never\"");
    return -1;
}

/* Says which formats there are: the library's own list. */
static void arguments_fail_format(const py_state *state)
{
    char known[256] = "";
    size_t used = 0;
    const char *id = coffer_format_id((coffer_format)1);
    for (int i = 2; *id != '\0' && used < sizeof known; i++) {
        const char *next = coffer_format_id((coffer_format)i);
        const char *between = i == 2 ? "" : *next == '\0' ? " or " : ", ";
        used += (size_t)PyOS_snprintf(known + used, sizeof known - used, "%s\"%s\"", between, id);
        id = next;
    }
    py_fail(state, COFFER_ERR_ARGUMENT, "format is %s", known);
}

int py_format_from(const py_state *state, const char *text, coffer_format *format)
{
    *format = text == NULL ? COFFER_FORMAT_ANY : coffer_format_from_id(text, strlen(text));
    if (text == NULL || *format != COFFER_FORMAT_ANY) {
        return 0;
    }
    arguments_fail_format(state);
    return -1;
}

int py_algorithm_from(const py_state *state, const char *text, coffer_algorithm *algorithm)
{
    *algorithm = text == NULL ? COFFER_NO_ALGORITHM : coffer_algorithm_from_name(text, strlen(text));
    if (text == NULL || *algorithm != COFFER_NO_ALGORITHM) {
        return 0;
    }
    py_fail(state, COFFER_ERR_ARGUMENT, "the algorithm is \"%s\" or \"%s\"", coffer_algorithm_name(COFFER_SHA256),
            coffer_algorithm_name(COFFER_XXH3_128));
    return -1;
}

int py_writing_from(const py_state *state, PyObject *args, PyObject *kwargs, const char *format, char **names,
                    py_writing *writing)
{
    const char *sync = "replace";
    unsigned long long alignment = 0;
    unsigned long long slack = 0;
    int in_place = 0;
    int packed = 0;
    const char *file_format = NULL;
    const char *digests = NULL;
    const coffer_header_options header = COFFER_HEADER_OPTIONS_INIT;
    const coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    *writing = (py_writing){ .metadata = Py_None, .header = header, .options = options };
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, format, names, &writing->own[0], &writing->own[1],
                                     &writing->metadata, &sync, &alignment, &slack, &in_place, &file_format, &digests,
                                     &writing->progress, &packed) ||
        py_sync_from(state, sync, &writing->options.sync) < 0 ||
        py_format_from(state, file_format, &writing->header.format) < 0 ||
        py_algorithm_from(state, digests, &writing->options.digests) < 0) {
        return -1;
    }
    writing->header.alignment = alignment;
    writing->header.slack = slack;
    writing->header.empty_metadata = writing->metadata != Py_None;
    writing->options.in_place = in_place != 0;
    writing->options.packed = packed != 0;
    writing->options.progress = py_ask_signals;
    return 0;
}

/* What a message calls something of a name, which is NULL where there is none to tell. */
static void arguments_name(const char *before, const char *name, size_t length, char *what, size_t size)
{
    char escaped[80];
    (void)coffer_escape(name == NULL ? "" : name, name == NULL ? 0 : length, escaped, sizeof escaped);
    (void)PyOS_snprintf(what, size, "%s \"%s\"", before, escaped);
}

static int arguments_add_pair(const py_state *state, coffer_header *header, PyObject *key, PyObject *value)
{
    Py_ssize_t key_length = 0;
    Py_ssize_t value_length = 0;
    const char *key_text = py_text(key, "a key of the metadata", &key_length);
    char what[128];
    arguments_name("the metadata's value of", key_text, (size_t)key_length, what, sizeof what);
    const char *value_text = key_text == NULL ? NULL : py_text(value, what, &value_length);
    if (value_text == NULL) {
        return -1;
    }
    coffer_error err;
    if (coffer_header_set_metadata(header, key_text, (size_t)key_length, value_text, (size_t)value_length, &err) !=
        COFFER_OK) {
        py_raise(state, &err);
        return -1;
    }
    return 0;
}

int py_add_metadata(const py_state *state, coffer_header *header, PyObject *metadata)
{
    if (metadata == Py_None) {
        return 0;
    }
    PyObject *pairs = PyMapping_Check(metadata) ? PyMapping_Items(metadata) : NULL;
    if (pairs == NULL) {
        if (PyErr_Occurred() == NULL || PyErr_ExceptionMatches(PyExc_AttributeError)) { /* a sequence is one, too */
            PyErr_Clear();
            py_fail_call(PY_WRONG_TYPE, "the metadata are a mapping of str to str, not %.80R", metadata);
        }
        return -1;
    }
    int result = 0;
    const Py_ssize_t count = PyList_Size(pairs);
    for (Py_ssize_t i = 0; result == 0 && i < count; i++) {
        PyObject *pair[2];
        result = py_unpack(PyList_GetItem(pairs, i), "the metadata are pairs of str", pair, 2);
        result = result < 0 ? -1 : arguments_add_pair(state, header, pair[0], pair[1]);
    }
    Py_DECREF(pairs);
    return result;
}

/* The shape of a tensor, whose name the failure tells. */
static int arguments_shape(const char *name, size_t length, PyObject *shape, uint64_t **lengths, size_t *rank)
{
    char what[128];
    arguments_name("the shape of the tensor", name, length, what, sizeof what);
    if (py_shape_from(shape, lengths, rank) == 0) {
        return 0;
    }
    const bool is_type = PyErr_ExceptionMatches(PyExc_TypeError) != 0;
    if (is_type || PyErr_ExceptionMatches(PyExc_ValueError)) {
        PyErr_Clear();
        py_fail_call(is_type ? PY_WRONG_TYPE : PY_WRONG_VALUE, "%s is a sequence of whole numbers from 0 on, not %.80R",
                     what, shape);
    }
    return -1;
}

int py_add_tensor(const py_state *state, coffer_header *header, PyObject *name, PyObject *dtype, PyObject *shape)
{
    Py_ssize_t name_length = 0;
    Py_ssize_t dtype_length = 0;
    const char *name_text = py_text(name, "a tensor's name", &name_length);
    char what[128];
    arguments_name("the dtype of the tensor", name_text, (size_t)name_length, what, sizeof what);
    const char *dtype_text = name_text == NULL ? NULL : py_text(dtype, what, &dtype_length);
    if (dtype_text == NULL) {
        return -1;
    }
    const coffer_dtype number = coffer_dtype_from_name(dtype_text, (size_t)dtype_length);
    if (number == COFFER_UNKNOWN_DTYPE) {
        char escaped[64];
        (void)coffer_escape(dtype_text, (size_t)dtype_length, escaped, sizeof escaped);
        py_fail(state, COFFER_ERR_DTYPE, "\"%s\" is no dtype of the format", escaped);
        return -1;
    }
    uint64_t *lengths = NULL;
    size_t rank = 0;
    if (arguments_shape(name_text, (size_t)name_length, shape, &lengths, &rank) < 0) {
        return -1;
    }
    coffer_error err;
    const coffer_status status = coffer_header_add(header, name_text, (size_t)name_length, number, lengths, rank, &err);
    PyMem_Free(lengths);
    if (status != COFFER_OK) {
        py_raise(state, &err);
        return -1;
    }
    return 0;
}
