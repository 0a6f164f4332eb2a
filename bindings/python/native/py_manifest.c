/* SPDX-License-Identifier: Apache-2.0 */
/* Manifest: digests of files beside them, as other tools check them. */
#include "py_native.h"

#include <string.h>

typedef struct manifest_object {
    PyObject base;
    coffer_manifest *manifest;
} manifest_object;

static const char *const manifest_formats[] = { "", "lines", "statement", "bundle" };

static PyObject *manifest_wrap(PyTypeObject *type, coffer_manifest *manifest)
{
    manifest_object *self = PyObject_New(manifest_object, type);
    if (self == NULL) {
        coffer_manifest_free(manifest);
        return NULL;
    }
    self->manifest = manifest;
    return (PyObject *)self;
}

static PyObject *manifest_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "model", NULL };
    const char *model = "";
    coffer_manifest *made = NULL;
    coffer_error err;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|s:Manifest", names, &model)) {
        return NULL;
    }
    if (coffer_manifest_new(&made, model, NULL, &err) != COFFER_OK) {
        return py_raise(PyType_GetModuleState(type), &err);
    }
    return manifest_wrap(type, made);
}

static PyObject *manifest_parse(PyObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "text", "key", NULL };
    Py_buffer text;
    const char *key = NULL;
    Py_ssize_t key_len = 0;
    coffer_manifest *made = NULL;
    coffer_error err;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "y*|$z#:parse", names, &text, &key, &key_len)) {
        return NULL;
    }
    coffer_status status = COFFER_OK;
    Py_BEGIN_ALLOW_THREADS status =
        coffer_manifest_parse(&made, text.buf, (size_t)text.len, key, (size_t)key_len, NULL, &err);
    Py_END_ALLOW_THREADS PyBuffer_Release(&text);
    if (status != COFFER_OK) {
        return py_raise(PyType_GetModuleState((PyTypeObject *)type), &err);
    }
    return manifest_wrap((PyTypeObject *)type, made);
}

static void manifest_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    coffer_manifest_free(((manifest_object *)object)->manifest);
    PyObject_Free(object);
    Py_DECREF(type);
}

static coffer_manifest *manifest_of(PyObject *object)
{
    return ((manifest_object *)object)->manifest;
}

static PyObject *manifest_add(PyObject *self, PyObject *args)
{
    const py_state *state = py_state_of(self);
    PyObject *name = NULL;
    const char *algorithm_name = NULL;
    coffer_algorithm algorithm = COFFER_NO_ALGORITHM;
    Py_buffer digest;
    coffer_error err;
    if (!PyArg_ParseTuple(args, "O&sy*:add", PyUnicode_FSConverter, &name, &algorithm_name, &digest)) {
        Py_XDECREF(name);
        return NULL;
    }
    coffer_status status = COFFER_ERR_ARGUMENT;
    if (py_algorithm_from(state, algorithm_name, &algorithm) == 0) {
        status = coffer_manifest_add(manifest_of(self), PyBytes_AsString(name), algorithm, digest.buf,
                                     (size_t)digest.len, &err);
        if (status != COFFER_OK) {
            py_raise(state, &err);
        }
    }
    PyBuffer_Release(&digest);
    Py_DECREF(name);
    return status == COFFER_OK ? Py_NewRef(Py_None) : NULL;
}

static PyObject *manifest_ignore(PyObject *self, PyObject *name)
{
    PyObject *text = NULL;
    coffer_error err;
    if (!PyUnicode_FSConverter(name, &text)) {
        return NULL;
    }
    const coffer_status status = coffer_manifest_ignore(manifest_of(self), PyBytes_AsString(text), &err);
    Py_DECREF(text);
    return status == COFFER_OK ? Py_NewRef(Py_None) : py_raise(py_state_of(self), &err);
}

static PyObject *manifest_ignores(PyObject *self, PyObject *name)
{
    PyObject *text = NULL;
    if (!PyUnicode_FSConverter(name, &text)) {
        return NULL;
    }
    const bool ignores = coffer_manifest_ignores(manifest_of(self), PyBytes_AsString(text));
    Py_DECREF(text);
    return PyBool_FromLong(ignores);
}

static PyObject *manifest_entries(PyObject *self, PyObject *unused)
{
    (void)unused;
    const coffer_manifest *manifest = manifest_of(self);
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < coffer_manifest_count(manifest); i++) {
        const coffer_manifest_entry *entry = coffer_manifest_at(manifest, i);
        const size_t size = coffer_algorithm_digest_size(entry->algorithm);
        PyObject *item = Py_BuildValue("(Nsy#)", PyUnicode_DecodeFSDefault(entry->name),
                                       coffer_algorithm_name(entry->algorithm), entry->digest, (Py_ssize_t)size);
        if (item == NULL || PyList_Append(list, item) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *manifest_write(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "format", "key", NULL };
    const py_state *state = py_state_of(self);
    const char *format = NULL;
    const char *key = NULL;
    Py_ssize_t key_len = 0;
    const char *text = NULL;
    size_t text_len = 0;
    coffer_error err;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|$z#:write", names, &format, &key, &key_len)) {
        return NULL;
    }
    for (int i = COFFER_MANIFEST_LINES; i <= COFFER_MANIFEST_BUNDLE; i++) {
        if (strcmp(format, manifest_formats[i]) != 0) {
            continue;
        }
        return coffer_manifest_write(manifest_of(self), (coffer_manifest_format)i, key, (size_t)key_len, &text,
                                     &text_len, &err) == COFFER_OK
                   ? PyBytes_FromStringAndSize(text, (Py_ssize_t)text_len)
                   : py_raise(state, &err);
    }
    return py_fail(state, COFFER_ERR_ARGUMENT, "format is \"lines\", \"statement\" or \"bundle\"");
}

static PyObject *manifest_format(PyObject *self, void *closure)
{
    (void)closure;
    const coffer_manifest_format format = coffer_manifest_format_of(manifest_of(self));
    return format == 0 ? Py_NewRef(Py_None) : PyUnicode_FromString(manifest_formats[format]);
}

static PyObject *manifest_follows(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(coffer_manifest_follows_links(manifest_of(self)));
}

static int manifest_set_follows(PyObject *self, PyObject *value, void *closure)
{
    (void)closure;
    const int follows = value == NULL ? -1 : PyObject_IsTrue(value);
    if (follows < 0) {
        return PyErr_Occurred() != NULL ? -1 : (PyErr_SetString(PyExc_AttributeError, "it cannot be deleted"), -1);
    }
    coffer_manifest_set_follows_links(manifest_of(self), follows != 0);
    return 0;
}

static PyMethodDef manifest_methods[] = {
    { "parse", (PyCFunction)(void (*)(void))manifest_parse, METH_VARARGS | METH_KEYWORDS | METH_CLASS,
      "Reads a manifest of any format." },
    { "add", manifest_add, METH_VARARGS, "Adds the digest of a file." },
    { "ignore", manifest_ignore, METH_O, "Names a file or folder that it is silent about." },
    { "ignores", manifest_ignores, METH_O, "Whether it is silent about a name." },
    { "entries", manifest_entries, METH_NOARGS, "(name, algorithm, digest) of each file." },
    { "write", (PyCFunction)(void (*)(void))manifest_write, METH_VARARGS | METH_KEYWORDS, "Its text in a format." },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef manifest_attributes[] = {
    { "format", manifest_format, NULL, "What it was read from; None for one that was made.", NULL },
    { "follows_links", manifest_follows, manifest_set_follows, "Whether symbolic links to files count as files.",
      NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

PyTypeObject *py_manifest_make_type(PyObject *module)
{
    static PyType_Slot slots[] = {
        { Py_tp_doc, "Digests of files, kept beside them. For one thread at a time." },
        { Py_tp_new, manifest_new },
        { Py_tp_dealloc, manifest_dealloc },
        { Py_tp_methods, manifest_methods },
        { Py_tp_getset, manifest_attributes },
        { 0, NULL },
    };
    static PyType_Spec spec = {
        .name = "coffer._native.Manifest",
        .basicsize = sizeof(manifest_object),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
        .slots = slots,
    };
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
