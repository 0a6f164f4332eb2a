/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exchange: who reads what where several processes load one model together, and the part of it that this process carries
 * out. Bytes get to the others by a function of Python, which coffer.distributed has: carry(send, send_sizes, receive,
 * receive_sizes), memory and, for each process, how many bytes of it are for or from that one.
 */
#include "py_load.h"

typedef struct exchange_object {
    PyObject base;
    coffer_exchange *exchange;
    PyObject *plans;  /* a tuple of the Plan objects of all processes */
    Py_ssize_t begun; /* how many of them cannot be changed because of this */
} exchange_object;

/* The plans as the library has them, which `plans` borrows; NULL and an exception when one of them is none. */
static const coffer_plan **exchange_plans(const py_state *state, exchange_object *self)
{
    const Py_ssize_t count = PyTuple_Size(self->plans);
    const coffer_plan **plans = PyMem_Calloc((size_t)count + 1, sizeof *plans);
    if (plans == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (; self->begun < count; self->begun++) {
        plans[self->begun] = py_plan_begin(state, PyTuple_GetItem(self->plans, self->begun));
        if (plans[self->begun] == NULL) {
            PyMem_Free(plans);
            return NULL;
        }
    }
    return plans;
}

static int exchange_make(const py_state *state, exchange_object *self, const coffer_exchange_options *options)
{
    coffer_error err;
    const coffer_plan **plans = exchange_plans(state, self);
    if (plans == NULL) {
        return -1;
    }
    const coffer_status status = coffer_exchange_new(&self->exchange, plans, (uint32_t)self->begun, options, &err);
    PyMem_Free(plans);
    if (status != COFFER_OK) {
        py_raise(state, &err);
        return -1;
    }
    return 0;
}

static PyObject *exchange_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "plans", "memory", NULL };
    coffer_exchange_options options = COFFER_EXCHANGE_OPTIONS_INIT;
    PyObject *given = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$O&:Exchange", names, &given, py_to_u64, &options.memory)) {
        return NULL;
    }
    PyObject *plans = PySequence_Tuple(given);
    exchange_object *self = plans == NULL ? NULL : PyObject_New(exchange_object, type);
    if (self == NULL) {
        Py_XDECREF(plans);
        return NULL;
    }
    self->exchange = NULL;
    self->plans = plans;
    self->begun = 0;
    if (exchange_make(PyType_GetModuleState(type), self, &options) < 0) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static void exchange_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    exchange_object *self = (exchange_object *)object;
    coffer_exchange_free(self->exchange);
    while (self->begun > 0) {
        py_plan_release(PyTuple_GetItem(self->plans, --self->begun));
    }
    Py_DECREF(self->plans);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* ---- what it has --------------------------------------------------------------------------------------------------- */

static PyObject *exchange_chunk(const exchange_object *self, size_t number)
{
    coffer_exchange_chunk chunk;
    if (!coffer_exchange_at(self->exchange, number, &chunk)) {
        return NULL; /* which cannot be: the number is below the count */
    }
    return Py_BuildValue("(IKnKKK)", chunk.host, (unsigned long long)chunk.round, (Py_ssize_t)chunk.shard,
                         (unsigned long long)chunk.begin, (unsigned long long)chunk.end,
                         (unsigned long long)chunk.read);
}

static PyObject *exchange_chunks(PyObject *object, PyObject *unused)
{
    (void)unused;
    const exchange_object *self = (exchange_object *)object;
    const size_t count = coffer_exchange_count(self->exchange);
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list != NULL && i < count; i++) {
        PyObject *chunk = exchange_chunk(self, i);
        if (chunk == NULL || PyList_SetItem(list, (Py_ssize_t)i, chunk) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *exchange_size(PyObject *object, PyObject *args)
{
    unsigned long long round = 0;
    uint32_t from = 0;
    uint32_t to = 0;
    if (!PyArg_ParseTuple(args, "KO&O&:size", &round, py_to_u32, &from, py_to_u32, &to)) {
        return NULL;
    }
    return PyLong_FromUnsignedLongLong(coffer_exchange_size(((exchange_object *)object)->exchange, round, from, to));
}

/* ---- the way to the others ----------------------------------------------------------------------------------------- */

/* A coffer_transport by a function of Python, for one call of the library. */
typedef struct exchange_way {
    const py_state *state;
    PyObject *carry;
    uint32_t world;
    py_watch watch;
} exchange_way;

static PyObject *exchange_sizes(const uint64_t *sizes, uint32_t world)
{
    PyObject *list = PyList_New((Py_ssize_t)world);
    for (uint32_t i = 0; list != NULL && i < world; i++) {
        PyObject *size = PyLong_FromUnsignedLongLong(sizes[i]);
        if (size == NULL || PyList_SetItem(list, (Py_ssize_t)i, size) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

/* The memory of all messages, which lie one after the other. */
static PyObject *exchange_lend(const exchange_way *way, const void *memory, const uint64_t *sizes)
{
    uint64_t size = 0;
    for (uint32_t i = 0; i < way->world; i++) {
        size += sizes[i];
    }
    return py_lent_memory(way->state, way->carry, (void *)(uintptr_t)memory, (Py_ssize_t)size, true);
}

/* Ends what was lent: a view that is used later is a ValueError. An exception that is set stays. */
static void exchange_take_back(PyObject *memory)
{
    PyObject *type = NULL;
    PyObject *value = NULL;
    PyObject *traceback = NULL;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *released = memory == NULL ? NULL : PyObject_CallMethod(memory, "release", NULL);
    Py_XDECREF(released);
    Py_XDECREF(memory);
    if (type != NULL) {
        PyErr_Restore(type, value, traceback);
    }
}

static coffer_status exchange_call(const exchange_way *way, const coffer_parcels *parcels)
{
    PyObject *send = exchange_lend(way, parcels->send, parcels->send_sizes);
    PyObject *receive = send == NULL ? NULL : exchange_lend(way, parcels->receive, parcels->receive_sizes);
    PyObject *send_sizes = receive == NULL ? NULL : exchange_sizes(parcels->send_sizes, way->world);
    PyObject *receive_sizes = send_sizes == NULL ? NULL : exchange_sizes(parcels->receive_sizes, way->world);
    PyObject *answer = receive_sizes == NULL
                           ? NULL
                           : PyObject_CallFunction(way->carry, "OOOO", send, send_sizes, receive, receive_sizes);
    const bool carried = answer != NULL;
    Py_XDECREF(answer);
    Py_XDECREF(receive_sizes);
    Py_XDECREF(send_sizes);
    exchange_take_back(receive);
    exchange_take_back(send);
    return carried && PyErr_Occurred() == NULL ? COFFER_OK : COFFER_ERR_CANCELLED;
}

/* Called by the library on the thread that made the call. When this process was interrupted the others are told so by this call,
   and the exception stays. */
static coffer_status exchange_carry(void *ctx, const coffer_parcels *parcels, coffer_error *err)
{
    exchange_way *way = ctx;
    PyObject *type = NULL;
    PyObject *value = NULL;
    PyObject *traceback = NULL;
    (void)err; /* the exception says more */
    PyEval_RestoreThread(way->watch.thread);
    PyErr_Fetch(&type, &value, &traceback);
    const coffer_status status = exchange_call(way, parcels);
    if (type != NULL) {
        PyErr_Restore(type, value, traceback);
    }
    way->watch.thread = PyEval_SaveThread();
    return status;
}

static coffer_transport exchange_transport(exchange_way *way, uint32_t host)
{
    return (coffer_transport){ .carry = exchange_carry, .ctx = way, .host = host, .world = way->world };
}

/* ---- carrying it out ----------------------------------------------------------------------------------------------- */

/* The memory of each item, which is taken over, on failure too; None for one that the plan gave a place. */
static PyObject *exchange_loaded(const py_state *state, coffer_loaded *loaded, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; i < count; i++) {
        PyObject *memory = loaded[i].memory == NULL ? Py_NewRef(Py_None) : py_loaded_new(state, &loaded[i], Py_None);
        if (list == NULL || memory == NULL || PyList_SetItem(list, (Py_ssize_t)i, Py_NewRef(memory)) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(memory);
    }
    return list;
}

static PyObject *exchange_run_for(exchange_object *self, exchange_way *way, uint32_t host, coffer_staging *staging,
                                  size_t count)
{
    coffer_exchange_run_options options = COFFER_EXCHANGE_RUN_OPTIONS_INIT;
    const coffer_transport transport = exchange_transport(way, host);
    coffer_error err;
    coffer_loaded *loaded = PyMem_Calloc(count + 1, sizeof *loaded);
    if (loaded == NULL) {
        return PyErr_NoMemory();
    }
    options.staging = staging;
    py_watch_begin(&way->watch, NULL, 0);
    options.progress = way->watch.options.progress;
    options.progress_ctx = way->watch.options.progress_ctx;
    const coffer_status status = coffer_exchange_run(self->exchange, &transport, &options, loaded, &err);
    py_watch_finish(&way->watch);
    PyObject *list = status == COFFER_OK ? exchange_loaded(way->state, loaded, count) : py_raise(way->state, &err);
    PyMem_Free(loaded);
    return list;
}

static PyObject *exchange_run(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "host", "carry", "staging", NULL };
    exchange_object *self = (exchange_object *)object;
    exchange_way way = { .state = py_state_of(object), .world = (uint32_t)self->begun };
    uint32_t host = 0;
    PyObject *staging = Py_None;
    bool failed = false;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&O|$O:run", names, py_to_u32, &host, &way.carry, &staging)) {
        return NULL;
    }
    coffer_staging *through = py_staging_of(way.state, staging, &failed);
    if (failed) {
        return NULL;
    }
    if (host >= way.world) {
        return py_fail(way.state, COFFER_ERR_ARGUMENT, "there is no process %u of %u: they count from 0", host,
                       way.world);
    }
    const Py_ssize_t count = PyObject_Size(PyTuple_GetItem(self->plans, (Py_ssize_t)host));
    return exchange_run_for(self, &way, host, through, (size_t)count);
}

/* Of the failure the others get the message only. */
PyObject *py_refuse_exchange(PyObject *module, PyObject *args)
{
    exchange_way way = { .state = PyModule_GetState(module) };
    uint32_t host = 0;
    const char *message = NULL;
    coffer_error why = { .code = COFFER_ERR_CANCELLED, .offset = COFFER_NO_OFFSET };
    coffer_error err;
    if (!PyArg_ParseTuple(args, "O&O&Os:refuse_exchange", py_to_u32, &host, py_to_u32, &way.world, &way.carry,
                          &message)) {
        return NULL;
    }
    (void)PyOS_snprintf(why.message, sizeof why.message, "%s", message);
    const coffer_transport transport = exchange_transport(&way, host);
    py_watch_begin(&way.watch, NULL, 0);
    const coffer_status status = coffer_exchange_refuse(&transport, &why, &err);
    py_watch_finish(&way.watch);
    if (status != COFFER_OK) {
        return py_raise(way.state, &err);
    }
    return PyErr_Occurred() == NULL ? Py_NewRef(Py_None) : NULL;
}

static PyMethodDef exchange_methods[] = {
    { "chunks", exchange_chunks, METH_NOARGS,
      "What is read at one time: the process that does, the round, the file's number, from which byte to which, and "
      "how "
      "many." },
    { "size", exchange_size, METH_VARARGS, "Bytes that one process sends to another one in a round." },
    { "run", (PyCFunction)(void (*)(void))exchange_run, METH_VARARGS | METH_KEYWORDS,
      "Loads a process's plan together with the others: the memory of each item." },
    { NULL, NULL, 0, NULL },
};

PyTypeObject *py_exchange_make_type(PyObject *module)
{
    static PyType_Slot slots[] = {
        { Py_tp_doc, "Who reads what where several processes load one model together." },
        { Py_tp_new, exchange_new },
        { Py_tp_dealloc, exchange_dealloc },
        { Py_tp_methods, exchange_methods },
        { 0, NULL },
    };
    static PyType_Spec spec = {
        .name = "coffer._native.Exchange",
        .basicsize = sizeof(exchange_object),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
        .slots = slots,
    };
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
