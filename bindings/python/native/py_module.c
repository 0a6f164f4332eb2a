/* SPDX-License-Identifier: Apache-2.0 */
/* The module coffer._native: its state, its functions, and where it may be loaded. */
#include "py_native.h"

py_state *py_state_of(PyObject *self)
{
    return PyType_GetModuleState(Py_TYPE(self));
}

/* Frameworks that share memory with the extension are not made for interpreters beside the main one, and exports may be released
   on threads that belong to none. */
static int module_refuse_subinterpreter(void)
{
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) == 0) {
        return 0;
    }
    PyErr_SetString(PyExc_ImportError, "coffer cannot be used in a subinterpreter: import it in the main one");
    return -1;
}

static int module_add_type(PyObject *module, const char *name, PyTypeObject *type, PyTypeObject **place)
{
    *place = type;
    return type == NULL ? -1 : PyModule_AddObjectRef(module, name, (PyObject *)type);
}

static int module_name_dtypes(py_state *state)
{
    for (size_t i = 1; i <= COFFER_DTYPE_COUNT; i++) {
        state->dtype_names[i] = PyUnicode_InternFromString(coffer_dtype_name((coffer_dtype)i));
        if (state->dtype_names[i] == NULL) {
            return -1;
        }
    }
    return 0;
}

static int module_exec(PyObject *module)
{
    py_state *state = PyModule_GetState(module);
    if (module_refuse_subinterpreter() < 0) {
        return -1;
    }
    PyObject *errors = PyImport_ImportModule("coffer._errors");
    if (errors == NULL) {
        return -1;
    }
    state->make_error = PyObject_GetAttrString(errors, "_make");
    Py_DECREF(errors);
    state->lent_type = py_lent_make_type(module);
    if (state->make_error == NULL || state->lent_type == NULL || module_name_dtypes(state) < 0 ||
        module_add_type(module, "Model", py_model_make_type(module), &state->model_type) < 0 ||
        module_add_type(module, "Tensor", py_tensor_make_type(module), &state->tensor_type) < 0 ||
        module_add_type(module, "Buffer", py_buffer_make_type(module), &state->buffer_type) < 0 ||
        module_add_type(module, "Writer", py_writer_make_type(module), &state->writer_type) < 0 ||
        module_add_type(module, "Hasher", py_hasher_make_type(module), &state->hasher_type) < 0 ||
        module_add_type(module, "Manifest", py_manifest_make_type(module), &state->manifest_type) < 0 ||
        module_add_type(module, "Device", py_device_make_type(module), &state->device_type) < 0 ||
        module_add_type(module, "Staging", py_staging_make_type(module), &state->staging_type) < 0 ||
        module_add_type(module, "Plan", py_plan_make_type(module), &state->plan_type) < 0 ||
        module_add_type(module, "Load", py_load_make_type(module), &state->load_type) < 0 ||
        module_add_type(module, "Loaded", py_loaded_make_type(module), &state->loaded_type) < 0 ||
        module_add_type(module, "Exchange", py_exchange_make_type(module), &state->exchange_type) < 0) {
        return -1;
    }
    PyObject *dtypes = py_dtypes_of_frameworks();
    const int added = dtypes == NULL ? -1 : PyModule_AddObjectRef(module, "DTYPES", dtypes);
    Py_XDECREF(dtypes);
    return added < 0 ? -1 : PyModule_AddStringConstant(module, "VERSION", coffer_version());
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    const py_state *state = PyModule_GetState(module);
    Py_VISIT(state->model_type);
    Py_VISIT(state->tensor_type);
    Py_VISIT(state->buffer_type);
    Py_VISIT(state->writer_type);
    Py_VISIT(state->lent_type);
    Py_VISIT(state->hasher_type);
    Py_VISIT(state->manifest_type);
    Py_VISIT(state->device_type);
    Py_VISIT(state->staging_type);
    Py_VISIT(state->plan_type);
    Py_VISIT(state->load_type);
    Py_VISIT(state->loaded_type);
    Py_VISIT(state->exchange_type);
    Py_VISIT(state->make_error);
    return 0;
}

static int module_clear(PyObject *module)
{
    py_state *state = PyModule_GetState(module);
    Py_CLEAR(state->model_type);
    Py_CLEAR(state->tensor_type);
    Py_CLEAR(state->buffer_type);
    Py_CLEAR(state->writer_type);
    Py_CLEAR(state->lent_type);
    Py_CLEAR(state->hasher_type);
    Py_CLEAR(state->manifest_type);
    Py_CLEAR(state->device_type);
    Py_CLEAR(state->staging_type);
    Py_CLEAR(state->plan_type);
    Py_CLEAR(state->load_type);
    Py_CLEAR(state->loaded_type);
    Py_CLEAR(state->exchange_type);
    Py_CLEAR(state->make_error);
    for (size_t i = 0; i <= COFFER_DTYPE_COUNT; i++) {
        Py_CLEAR(state->dtype_names[i]);
    }
    return 0;
}

static void module_free(void *module)
{
    (void)module_clear(module);
}

static PyMethodDef module_functions[] = {
    { "serialize", (PyCFunction)(void (*)(void))py_serialize, METH_VARARGS | METH_KEYWORDS,
      "The bytes of a file, in the canonical order and spelling." },
    { "serialize_file", (PyCFunction)(void (*)(void))py_serialize_file, METH_VARARGS | METH_KEYWORDS,
      "Writes a file in the canonical order and spelling." },
    { "serialize_model", (PyCFunction)(void (*)(void))py_serialize_model, METH_VARARGS | METH_KEYWORDS,
      "Writes a model of as many files as a limit asks for, and their index." },
    { "record_digests", (PyCFunction)(void (*)(void))py_record_digests, METH_VARARGS | METH_KEYWORDS,
      "record_digests(path, algorithm='sha256', *, progress=None)\n--\n\nRecords digests of a file's tensors in its "
      "metadata: "
      "in place where they fit, else by writing the file anew. What was\nrecorded before is replaced, without being "
      "verified. "
      "`algorithm` is \"sha256\" or \"xxh3-128\"; `progress` is called with\nthe bytes done, and in all." },
    { "copy_tensors", (PyCFunction)(void (*)(void))py_copy_tensors, METH_VARARGS | METH_KEYWORDS,
      "Writes tensors of opened files to a file, or to as many as a limit asks for." },
    { "edit_metadata", (PyCFunction)(void (*)(void))py_edit_metadata, METH_VARARGS | METH_KEYWORDS,
      "Sets and removes keys of a file's metadata; how it was done." },
    { "recover", (PyCFunction)(void (*)(void))py_recover, METH_VARARGS | METH_KEYWORDS,
      "recover(path, *, follow_links=False)\n--\n\nFinishes what an interrupted edit of a file left, or an interrupted "
      "save of a model of several: it is\ncompleted, or what was there before is put back." },
    { "import_file", (PyCFunction)(void (*)(void))py_import_file, METH_VARARGS | METH_KEYWORDS,
      "Looks at a file of another program, and writes what is in it as safetensors." },
    { "doctor", (PyCFunction)(void (*)(void))py_doctor, METH_VARARGS | METH_KEYWORDS,
      "Looks at a model and all that lies around it." },
    { "export_file", (PyCFunction)(void (*)(void))py_export_file, METH_VARARGS | METH_KEYWORDS,
      "Writes a file of tensors as one of another program." },
    { "add_lora", (PyCFunction)(void (*)(void))py_add_lora, METH_VARARGS | METH_KEYWORDS,
      "Writes an adapter that does what several do together, or only plans it." },
    { "export_format", py_export_format, METH_O, "The format of another program that a path's ending stands for." },
    { "list_facilities", py_list_facilities, METH_O,
      "What loading may use, and what not: name, whether it can be used, what it is or why not, and what to change." },
    { "refuse_exchange", py_refuse_exchange, METH_VARARGS,
      "Tells the other processes that this one cannot take part in an exchange, and why." },
    { "lay_out", py_lay_out, METH_VARARGS,
      "Lays items of a plan out in slabs: the size and the items of each slab, and the slab and the offset of each "
      "item." },
    { "compare", py_compare, METH_VARARGS, "How far the numbers of two tensors are apart." },
    { "statistics", py_statistics, METH_VARARGS, "What the numbers of a tensor are." },
    { "decode", py_decode, METH_VARARGS, "Elements of a dtype as doubles." },
    { "is_exact", py_is_exact, METH_VARARGS, "Whether a dtype has every number of another one." },
    { "is_given", py_is_given, METH_VARARGS, "Whether a buffer is writable room for elements of a dtype." },
    { NULL, NULL, 0, NULL },
};

static PyModuleDef_Slot module_slots[] = {
    { Py_mod_exec, module_exec },
#ifdef Py_GIL_DISABLED
    { Py_mod_gil, Py_MOD_GIL_NOT_USED },
#endif
    { 0, NULL },
};

static PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "coffer._native",
    .m_doc = "The C library's models, tensors and writers as Python objects.",
    .m_size = sizeof(py_state),
    .m_methods = module_functions,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__native(void);

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&module_definition);
}
