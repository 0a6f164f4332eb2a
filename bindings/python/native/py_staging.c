/* SPDX-License-Identifier: Apache-2.0 */
/* Staging: what bytes pass through on their way, for any number of loads, one after the other. */
#include "py_load.h"

#include <string.h>
#include <unistd.h>

typedef struct staging_object {
    PyObject base;
    coffer_staging *staging;
    pid_t owner; /* a fork has none of its threads */
} staging_object;

int py_engine_from(const py_state *state, const char *text, coffer_engine *engine)
{
    static const char *const names[] = { "auto", "buffered", "direct", "ring", "cufile", "mapped" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *engine = (coffer_engine)i;
            return 0;
        }
    }
    py_fail(state, COFFER_ERR_ARGUMENT,
            "an engine is \"auto\", \"buffered\", \"direct\", \"ring\", \"cufile\" or \"mapped\"");
    return -1;
}

static PyObject *staging_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "memory", "threads", "engine", "group", "ranks", "rank", NULL };
    const py_state *state = PyType_GetModuleState(type);
    coffer_staging_options options = COFFER_STAGING_OPTIONS_INIT;
    const char *engine = "auto";
    coffer_staging *staging = NULL;
    coffer_error err;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$O&O&szO&O&:Staging", names, py_to_u64, &options.memory, py_to_u32,
                                     &options.threads, &engine, &options.group, py_to_u32, &options.ranks, py_to_u32,
                                     &options.rank) ||
        py_engine_from(state, engine, &options.engine) < 0) {
        return NULL;
    }
    if (coffer_staging_new(&staging, &options, &err) != COFFER_OK) {
        return py_raise(state, &err);
    }
    staging_object *self = PyObject_New(staging_object, type);
    if (self == NULL) {
        coffer_staging_free(staging);
        return NULL;
    }
    self->staging = staging;
    self->owner = getpid();
    return (PyObject *)self;
}

static void staging_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    staging_object *self = (staging_object *)object;
    if (self->owner == getpid()) {
        Py_BEGIN_ALLOW_THREADS coffer_staging_free(self->staging);
        Py_END_ALLOW_THREADS
    }
    PyObject_Free(object);
    Py_DECREF(type);
}

coffer_staging *py_staging_of(const py_state *state, PyObject *object, bool *failed)
{
    *failed = false;
    if (object == NULL || object == Py_None) {
        return NULL;
    }
    if (Py_TYPE(object) == state->staging_type) {
        return ((staging_object *)object)->staging;
    }
    *failed = true;
    py_fail_call(PY_WRONG_TYPE, "a coffer.Staging is wanted, not %R", object);
    return NULL;
}

PyTypeObject *py_staging_make_type(PyObject *module)
{
    static PyType_Slot slots[] = {
        { Py_tp_doc,
          "Staging(*, memory=0, threads=0, engine=\"auto\", group=None, ranks=0, rank=0)\n--\n\n"
          "A staging buffer: what bytes pass through on their way, with memory of a fixed size, threads, and "
          "what is registered\n"
          "with devices. It serves any number of loads, which read one after the other, and any number of "
          "threads may start\n"
          "them. It cannot be pickled, and a fork makes its own.\n\n"
          "memory   bytes in flight, at most; 0: 64 MiB, more where a device has much memory of its own\n"
          "threads  that read, at most; 0: by engine and processors\n"
          "engine   how files are read: \"buffered\", \"direct\", \"ring\", \"cufile\", \"mapped\"; \"auto\": by what "
          "the system says of each\n"
          "         file. One that is named is used, or the load is an Error with the code ENGINE\n"
          "group    with ranks above 1: processes of this user on this host that name the same group and "
          "load the same model\n"
          "         read each byte once, together; None: any that loads the model\n"
          "ranks    how many processes that are\n"
          "rank     which of them this is, from 0" },
        { Py_tp_new, staging_new },
        { Py_tp_dealloc, staging_dealloc },
        { 0, NULL },
    };
    static PyType_Spec spec = {
        .name = "coffer._native.Staging",
        .basicsize = sizeof(staging_object),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
        .slots = slots,
    };
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
