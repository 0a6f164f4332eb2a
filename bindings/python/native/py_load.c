/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Load: a plan that is carried out in the background. Calls that wait do so without the GIL, for a moment at a time,
 * and look for signals in between, so that Ctrl-C ends them. Nothing of Python is called by the load's own threads:
 * progress is told by the thread that waits.
 */
#include "py_load.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* Signals are looked for this often. */
#define LOAD_WAIT_MS 50

typedef struct load_object {
    PyObject base;
    PyObject *plan;
    PyObject *staging;  /* None: the load's own */
    PyObject *progress; /* None: none */
    pthread_mutex_t lock;
    coffer_load *load; /* NULL once it is closed */
    size_t users;      /* calls that use it now */
    bool closing;
    pid_t owner; /* a fork has none of its threads, which could not be waited for */
} load_object;

static int load_options_from(const py_state *state, coffer_load_options *options, const char *order, int verify)
{
    if (strcmp(order, "plan") != 0 && strcmp(order, "file") != 0) {
        py_fail(state, COFFER_ERR_ARGUMENT, "order is \"file\" or \"plan\"");
        return -1;
    }
    options->order = strcmp(order, "plan") == 0 ? COFFER_ORDER_PLAN : COFFER_ORDER_FILE;
    options->unverified = verify == 0;
    return 0;
}

static load_object *load_allocate(PyTypeObject *type, PyObject *plan, PyObject *staging, PyObject *progress)
{
    load_object *self = PyObject_GC_New(load_object, type);
    if (self == NULL) {
        return NULL;
    }
    self->plan = Py_NewRef(plan);
    self->staging = Py_NewRef(staging);
    self->progress = Py_NewRef(progress);
    self->load = NULL;
    self->users = 0;
    self->closing = false;
    self->owner = getpid();
    (void)pthread_mutex_init(&self->lock, NULL);
    PyObject_GC_Track(self);
    return self;
}

static PyObject *load_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "plan",     "staging",  "host_budget", "device_budget", "order", "verify",
                             "uncached", "progress", NULL };
    const py_state *state = PyType_GetModuleState(type);
    coffer_load_options options = COFFER_LOAD_OPTIONS_INIT;
    PyObject *plan = NULL;
    PyObject *staging = Py_None;
    PyObject *progress = Py_None;
    const char *order = "file";
    int verify = 1;
    int uncached = 0;
    bool failed = false;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O$O&O&sppO:Load", names, &plan, &staging, py_to_u64,
                                     &options.host_budget, py_to_u64, &options.device_budget, &order, &verify,
                                     &uncached, &progress) ||
        load_options_from(state, &options, order, verify) < 0) {
        return NULL;
    }
    options.uncached = uncached != 0;
    coffer_staging *through = py_staging_of(state, staging, &failed);
    const coffer_plan *wanted = failed ? NULL : py_plan_begin(state, plan);
    if (wanted == NULL) {
        return NULL;
    }
    load_object *self = load_allocate(type, plan, staging, progress);
    if (self == NULL) {
        py_plan_release(plan);
        return NULL;
    }
    coffer_status status = COFFER_OK;
    coffer_error err;
    Py_BEGIN_ALLOW_THREADS status = coffer_load_start(&self->load, wanted, through, &options, &err);
    Py_END_ALLOW_THREADS if (status != COFFER_OK)
    {
        self->load = NULL;
        py_plan_release(plan);
        py_raise(state, &err);
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

/* ---- use and end ------------------------------------------------------------------------------------------------- */

/* The load, for one call; NULL and an exception when it is closed, or was started by the parent of this process: its
   threads are not here, and waiting for them would not end. */
static coffer_load *load_use(load_object *self)
{
    coffer_load *load = NULL;
    if (self->owner != getpid()) {
        py_fail(py_state_of((PyObject *)self), COFFER_ERR_ARGUMENT,
                "the load was started before this process was forked, by its parent: start one here");
        return NULL;
    }
    (void)pthread_mutex_lock(&self->lock);
    if (!self->closing) {
        load = self->load;
        self->users++;
    }
    (void)pthread_mutex_unlock(&self->lock);
    if (load == NULL) {
        py_fail(py_state_of((PyObject *)self), COFFER_ERR_ARGUMENT, "the load is closed");
    }
    return load;
}

/* Ends it if it is to be ended, and nobody uses it any more. Its threads are waited for without the GIL. */
static void load_end_unused(load_object *self)
{
    coffer_load *load = NULL;
    (void)pthread_mutex_lock(&self->lock);
    if (self->closing && self->users == 0) {
        load = self->load;
        self->load = NULL;
    }
    (void)pthread_mutex_unlock(&self->lock);
    if (load != NULL && self->owner == getpid()) {
        Py_BEGIN_ALLOW_THREADS coffer_load_free(load);
        Py_END_ALLOW_THREADS py_plan_release(self->plan);
    }
}

static void load_done(load_object *self)
{
    (void)pthread_mutex_lock(&self->lock);
    self->users--;
    (void)pthread_mutex_unlock(&self->lock);
    load_end_unused(self);
}

static PyObject *load_close(PyObject *object, PyObject *unused)
{
    (void)unused;
    load_object *self = (load_object *)object;
    (void)pthread_mutex_lock(&self->lock);
    self->closing = true;
    if (self->load != NULL) {
        coffer_load_cancel(self->load);
    }
    (void)pthread_mutex_unlock(&self->lock);
    load_end_unused(self);
    return Py_NewRef(Py_None);
}

/* Progress is often told to a method of whoever keeps the load. */
static int load_traverse(PyObject *object, visitproc visit, void *arg)
{
    load_object *self = (load_object *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->plan);
    Py_VISIT(self->staging);
    Py_VISIT(self->progress);
    return 0;
}

/* The others are needed until the end, and refer to nothing that refers to a load. */
static int load_clear(PyObject *object)
{
    load_object *self = (load_object *)object;
    PyObject *progress = self->progress;
    self->progress = Py_NewRef(Py_None);
    Py_DECREF(progress);
    return 0;
}

static void load_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    load_object *self = (load_object *)object;
    PyObject_GC_UnTrack(object);
    self->closing = true;
    load_end_unused(self);
    (void)pthread_mutex_destroy(&self->lock);
    Py_DECREF(self->plan);
    Py_DECREF(self->staging);
    Py_DECREF(self->progress);
    PyObject_GC_Del(object);
    Py_DECREF(type);
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

/* What a call waits for. */
typedef enum load_wish { LOAD_NEXT, LOAD_ITEM, LOAD_ALL } load_wish;

static coffer_status load_ask(coffer_load *load, load_wish wish, size_t item, coffer_loaded *loaded, coffer_error *err)
{
    switch (wish) {
    case LOAD_NEXT:
        return coffer_load_next(load, LOAD_WAIT_MS, loaded, err);
    case LOAD_ITEM:
        return coffer_load_take(load, item, LOAD_WAIT_MS, loaded, err);
    default:
        return coffer_load_wait(load, LOAD_WAIT_MS, err);
    }
}

/* Tells how far the load is. */
static int load_tell(const load_object *self, coffer_load *load)
{
    coffer_load_stats stats = { .struct_size = sizeof stats };
    if (self->progress == Py_None) {
        return 0;
    }
    coffer_load_stats_of(load, &stats);
    PyObject *answer =
        PyObject_CallFunction(self->progress, "KK", (unsigned long long)stats.done, (unsigned long long)stats.wanted);
    Py_XDECREF(answer);
    return answer == NULL ? -1 : 0;
}

/* Waits; -1 with an exception. When progress raises, what was handed out is released, and the load ends. */
static int load_wait_for(load_object *self, coffer_load *load, load_wish wish, size_t item, coffer_loaded *loaded)
{
    coffer_status status = COFFER_OK;
    coffer_error err;
    memset(loaded, 0, sizeof *loaded);
    do {
        Py_BEGIN_ALLOW_THREADS status = load_ask(load, wish, item, loaded, &err);
        Py_END_ALLOW_THREADS if (status == COFFER_NEED_MORE && PyErr_CheckSignals() < 0)
        {
            return -1;
        }
        if ((status == COFFER_OK || status == COFFER_NEED_MORE) && load_tell(self, load) < 0) {
            coffer_memory_free(loaded->memory);
            coffer_load_cancel(load);
            return -1;
        }
    } while (status == COFFER_NEED_MORE);
    if (status != COFFER_OK) {
        py_raise(py_state_of((PyObject *)self), &err);
        return -1;
    }
    return 0;
}

/* (item, Loaded or None, whether its digest was right); None after the last. */
static PyObject *load_handed_out(load_object *self, const coffer_loaded *loaded)
{
    if (loaded->item == SIZE_MAX) {
        return Py_NewRef(Py_None);
    }
    PyObject *memory = Py_NewRef(Py_None);
    if (loaded->memory != NULL) {
        PyObject *device = loaded->device == NULL ? NULL : py_plan_device(self->plan, loaded->device);
        Py_DECREF(memory);
        memory = py_loaded_new(py_state_of((PyObject *)self), loaded, device == NULL ? Py_None : device);
    }
    return memory == NULL ? NULL
                          : Py_BuildValue("(nNN)", (Py_ssize_t)loaded->item, memory, PyBool_FromLong(loaded->verified));
}

static PyObject *load_get(PyObject *object, load_wish wish, size_t item)
{
    load_object *self = (load_object *)object;
    coffer_loaded loaded;
    coffer_load *load = load_use(self);
    if (load == NULL) {
        return NULL;
    }
    PyObject *result = NULL;
    if (load_wait_for(self, load, wish, item, &loaded) == 0) {
        result = wish == LOAD_ALL ? Py_NewRef(Py_None) : load_handed_out(self, &loaded);
    }
    load_done(self);
    return result;
}

static PyObject *load_next(PyObject *object, PyObject *unused)
{
    (void)unused;
    return load_get(object, LOAD_NEXT, 0);
}

static PyObject *load_take(PyObject *object, PyObject *number)
{
    const size_t item = PyLong_AsSize_t(number);
    return PyErr_Occurred() != NULL ? NULL : load_get(object, LOAD_ITEM, item);
}

static PyObject *load_wait(PyObject *object, PyObject *unused)
{
    (void)unused;
    return load_get(object, LOAD_ALL, 0);
}

/* ---- from any thread --------------------------------------------------------------------------------------------- */

static PyObject *load_cancel(PyObject *object, PyObject *unused)
{
    (void)unused;
    load_object *self = (load_object *)object;
    (void)pthread_mutex_lock(&self->lock);
    if (self->load != NULL) {
        coffer_load_cancel(self->load);
    }
    (void)pthread_mutex_unlock(&self->lock);
    return Py_NewRef(Py_None);
}

/* The names of the engines in a set of bits. */
static PyObject *load_engines(uint32_t bits)
{
    static const char *const names[] = { NULL, "buffered", "direct", "ring", "cufile", "mapped" };
    PyObject *list = PyList_New(0);
    for (size_t i = 1; list != NULL && i < sizeof names / sizeof names[0]; i++) {
        PyObject *name = (bits >> i & 1) == 0 ? NULL : PyUnicode_FromString(names[i]);
        if (name != NULL && PyList_Append(list, name) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(name);
    }
    return PyErr_Occurred() == NULL ? list : NULL;
}

static PyObject *load_stats(PyObject *object, PyObject *unused)
{
    (void)unused;
    load_object *self = (load_object *)object;
    coffer_load_stats stats = { .struct_size = sizeof stats };
    coffer_load *load = load_use(self);
    if (load == NULL) {
        return NULL;
    }
    coffer_load_stats_of(load, &stats);
    load_done(self);
    PyObject *engines = load_engines(stats.engines);
    return engines == NULL
               ? NULL
               : Py_BuildValue("(KKKKKKKKKKKNI)", (unsigned long long)stats.wanted, (unsigned long long)stats.done,
                               (unsigned long long)stats.read, (unsigned long long)stats.cached,
                               (unsigned long long)stats.direct, (unsigned long long)stats.requests,
                               (unsigned long long)stats.nanoseconds, (unsigned long long)stats.first,
                               (unsigned long long)stats.waited_source, (unsigned long long)stats.waited_device,
                               (unsigned long long)stats.waited_caller, engines, stats.threads);
}

static PyMethodDef load_methods[] = {
    { "next", load_next, METH_NOARGS,
      "Waits for an item that is ready: its number, its memory (None: the plan gave the place) and whether its digest "
      "was "
      "right; None after the last." },
    { "take", load_take, METH_O, "The same for one item." },
    { "wait", load_wait, METH_NOARGS, "Waits until everything is in place." },
    { "cancel", load_cancel, METH_NOARGS, "Ends the load soon." },
    { "close", load_close, METH_NOARGS, "Ends the load, and releases what was not taken." },
    { "stats", load_stats, METH_NOARGS, "What the load has done so far." },
    { NULL, NULL, 0, NULL },
};

PyTypeObject *py_load_make_type(PyObject *module)
{
    static PyType_Slot slots[] = {
        { Py_tp_doc, "A plan that is carried out in the background." },
        { Py_tp_new, load_new },
        { Py_tp_dealloc, load_dealloc },
        { Py_tp_traverse, load_traverse },
        { Py_tp_clear, load_clear },
        { Py_tp_methods, load_methods },
        { 0, NULL },
    };
    static PyType_Spec spec = {
        .name = "coffer._native.Load",
        .basicsize = sizeof(load_object),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_GC,
        .slots = slots,
    };
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
