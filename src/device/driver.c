/* SPDX-License-Identifier: Apache-2.0 */
/* Devices behind a driver: what CUDA and HIP have in common. Streams and events are the driver's own. */
#include "driver.h"

#include "alloc.h"
#include "error.h"

#include <errno.h>
#include <string.h>

/* Flags of the drivers. A stream that does not wait for the legacy default stream; an event without a time, for which
   a thread waits asleep, so that it leaves its processor to threads that read; memory that is registered for all
   devices. The numbers are the same in both vendors' headers. */
#define DRIVER_STREAM_NON_BLOCKING 1u
#define DRIVER_EVENT_QUIET 3u
#define DRIVER_REGISTER_PORTABLE 1u

/* ---- What codes mean --------------------------------------------------------------------------------------------- */

/* Whether the device can never be used again by this process. The drivers number such errors in one row: after a
   kernel that faulted or an assertion in one, every later call of the process answers the same code. Others in the
   row, such as those of peer access, are answers to calls that are not made here. The two exceptions in the row are
   answers about one range of host memory and leave the context as it was. */
static bool driver_is_final(int code)
{
    if (code >= COFFER__DRIVER_LOST_FIRST && code <= COFFER__DRIVER_LOST_LAST) {
        return code != COFFER__DRIVER_REGISTERED && code != COFFER__DRIVER_NOT_REGISTERED;
    }
    return code == COFFER__DRIVER_ENDED || code == COFFER__DRIVER_BIT_ERROR || code == COFFER__DRIVER_LINK_ERROR;
}

/* Remembers the failure that made the device lost. Only the first counts; whoever sees `lost` sees it whole. The
   mutex orders several threads that fail at once; `lost` is stored last, so that a reader without the mutex that sees
   it true finds `failure` complete and never changing again. */
static void driver_lose(coffer__driver *driver, const coffer_error *failure)
{
    coffer__os_mutex_lock(&driver->mutex);
    if (!atomic_load(&driver->lost)) {
        driver->failure = *failure;
        atomic_store(&driver->lost, true);
    }
    coffer__os_mutex_unlock(&driver->mutex);
}

/* Turns a driver's code into a status. `what` completes "cannot …". The words are asked for before the device is
   given up, since the function that knows them is the driver's own and needs no context. The failure is built on the
   stack also when the caller wants none, because it may be the one that has to be remembered. */
static coffer_status driver_result(const coffer_device *device, int code, const char *what, coffer_error *err)
{
    if (code == 0) {
        return COFFER_OK;
    }
    coffer__driver *driver = device->state;
    coffer_error failure;
    (void)coffer__fail(&failure, COFFER_ERR_DEVICE, "%s: cannot %s: %s (error %d of %s)%s", device->words, what,
                       driver->vendor->words(driver, code), (int64_t)code, driver->vendor->noun,
                       driver_is_final(code) ? "; this process cannot use the device any more" : "");
    if (driver_is_final(code)) {
        driver_lose(driver, &failure);
    }
    if (err != NULL) {
        *err = failure;
    }
    return COFFER_ERR_DEVICE;
}

/* Whether the driver may be called at all. Every function asks first. A driver that is called after fork hangs or
   answers nonsense, because the child has its file descriptors and locks but none of its threads. So the process is
   compared on each call and nothing is asked of the driver; a handler for fork would be global state that a library
   must not have. */
static coffer_status driver_usable(const coffer_device *device, coffer_error *err)
{
    coffer__driver *driver = device->state;
    if (atomic_load(&driver->lost)) {
        if (err != NULL) {
            *err = driver->failure;
        }
        return COFFER_ERR_DEVICE;
    }
    if (driver->process != coffer__os_process()) {
        return coffer__fail(err, COFFER_ERR_DEVICE,
                            "%s was opened before this process was forked, and does not work here: open it in the "
                            "process that uses it, or start that by exec",
                            device->words);
    }
    return COFFER_OK;
}

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

/* Why a driver cannot be used, for an error or for a list. It lives on the stack of the caller, to whom a list and an
   error are two ways to show the same words. */
typedef struct driver_refusal {
    coffer_error why; /* its message alone */
    const char *advice;
} driver_refusal;

/* Every function is found before any is called, so that no call has to ask whether its pointer is set. Closing is
   safe here, because nothing of the library has run but what the loader runs. */
static bool driver_load(coffer__driver *driver, driver_refusal *no)
{
    const coffer__vendor *vendor = driver->vendor;
    bool found = false;
    for (size_t i = 0; vendor->libraries[i] != NULL && !found; i++) {
        found = coffer__os_library_open(&driver->library, vendor->libraries[i]);
    }
    if (!found && !coffer__os_can_load()) {
        (void)coffer__fail(&no->why, COFFER_ERR_NO_DEVICE, "this copy of libcoffer was built to load no libraries");
        no->advice = "build it with COFFER_DLOPEN=ON";
        return false;
    }
    if (!found) {
        (void)coffer__fail(&no->why, COFFER_ERR_NO_DEVICE,
                           coffer__os_choose("%s is missing: %s cannot be loaded here", "%s is not used on Windows"),
                           vendor->noun, vendor->libraries[0]);
        no->advice = coffer__os_choose(vendor->missing, "load into memory, and let the framework copy from there");
        return false;
    }
    for (size_t i = 0; i < vendor->symbol_count; i++) {
        if (!coffer__os_library_find(&driver->library, vendor->symbols[i].name,
                                     (char *)driver + vendor->symbols[i].place)) {
            (void)coffer__fail(&no->why, COFFER_ERR_NO_DEVICE, "%s has no %s", vendor->noun, vendor->symbols[i].name);
            no->advice = vendor->least_words;
            coffer__os_library_close(&driver->library);
            return false;
        }
    }
    return true;
}

/* Words for a code with which the driver refuses to start. A device file that this user may not open explains it
   best, and drivers do not say so themselves. The file is opened to write, as the driver would open it, and closed at
   once. Only a refusal for lack of rights is conclusive: where the file is missing the table says more. */
static void driver_explain(const coffer__driver *driver, int code, driver_refusal *no)
{
    const coffer__vendor *vendor = driver->vendor;
    int fd = -1;
    const int trouble = coffer__os_open(vendor->node, COFFER__OS_EDIT, true, &fd);
    if (trouble == 0) {
        (void)coffer__os_close(fd);
    }
    if (trouble == EACCES || trouble == EPERM) {
        (void)coffer__fail(&no->why, COFFER_ERR_NO_DEVICE, "this user may not open %s (error %d of %s)", vendor->node,
                           (int64_t)code, vendor->noun);
        no->advice = "add the user to the group that owns it";
        return;
    }
    const coffer__driver_trouble *row = vendor->troubles;
    while (row->code != code && row->code != 0) {
        row++;
    }
    (void)coffer__fail(&no->why, COFFER_ERR_NO_DEVICE, "%s (error %d of %s)", row->why, (int64_t)code, vendor->noun);
    no->advice = row->advice;
}

/* Loads the library and starts it; *count becomes how many devices there are. A driver that has started stays in the
   process, since it may have threads of its own. Starting twice is harmless: a list and any number of devices may
   each do it. A version that is too old is told before the count is asked, since it explains more than a failure of
   that call would. */
static bool driver_start(coffer__driver *driver, int *count, driver_refusal *no)
{
    if (!driver_load(driver, no)) {
        return false;
    }
    int version = 0;
    int code = driver->calls.init(0);
    if (code == 0) {
        code = driver->calls.version(&version);
    }
    if (code == 0 && version < driver->vendor->least) {
        (void)coffer__fail(&no->why, COFFER_ERR_NO_DEVICE, "%s is too old: its interface is version %d",
                           driver->vendor->noun, (int64_t)version);
        no->advice = driver->vendor->least_words;
        return false;
    }
    if (code == 0) {
        code = driver->calls.count(count);
    }
    if (code != 0) {
        driver_explain(driver, code, no);
    }
    return code == 0;
}

/* The vendor's struct, with the common part filled. NULL, with *err filled, when there is no memory. The memory comes
   zeroed, so that the pointers of functions and `lost` begin in a known state before anything is loaded. */
static coffer__driver *driver_new(const coffer__vendor *vendor, const coffer_allocator *allocator, coffer_error *err)
{
    coffer__driver *driver = coffer__alloc_array(allocator, 1, vendor->size, err);
    if (driver == NULL) {
        return NULL;
    }
    driver->vendor = vendor;
    driver->process = coffer__os_process();
    if (coffer__os_mutex_init(&driver->mutex) != 0) {
        coffer__free_array(allocator, driver, 1, vendor->size);
        (void)coffer__fail(err, COFFER_ERR_MEMORY, "the system has no memory for a lock");
        return NULL;
    }
    return driver;
}

static void driver_free(coffer__driver *driver, const coffer_allocator *allocator)
{
    coffer__os_mutex_deinit(&driver->mutex);
    coffer__free_array(allocator, driver, 1, driver->vendor->size);
}

/* Opening names the table, whose functions come after it. */
static const coffer__device_ops driver_ops;

/* Only the device that is asked for is touched: attaching makes, or retains, a context on it. The facts come first,
   because they need no context: a device that cannot be described is refused before it costs memory. That a context
   does not fit is told apart from other failures, since the remedy is another process and not another driver. */
static coffer_status driver_attach(coffer_device *device, coffer_error *err)
{
    coffer__driver *driver = device->state;
    coffer__driver_facts facts = { .node = -1 };
    coffer_status status =
        driver_result(device, driver->vendor->facts(driver, device->number, &facts), "ask what it is", err);
    if (status != COFFER_OK) {
        return status;
    }
    memcpy(device->name, facts.name, sizeof device->name);
    device->name[sizeof device->name - 1] = '\0';
    device->integrated = facts.integrated;
    device->registers = facts.registers;
    device->node = facts.node;
    const int code = driver->vendor->attach(driver, device->number);
    if (code == COFFER__DRIVER_MEMORY) {
        return coffer__fail(err, COFFER_ERR_DEVICE_MEMORY,
                            "%s has not enough memory free to be used at all: another process holds it", device->words);
    }
    return driver_result(device, code, "use it", err);
}

/* The number is compared with the count, and not given to the driver to refuse: its words would not say how many
   devices the process sees, which an environment variable may have made fewer. */
static coffer_status driver_begin(coffer_device *device, coffer_error *err)
{
    coffer__driver *driver = device->state;
    driver_refusal no;
    int count = 0;
    if (!driver_start(driver, &count, &no)) {
        return coffer__fail(err, COFFER_ERR_NO_DEVICE, "%s cannot be used: %s: %s", device->words, no.why.message,
                            no.advice);
    }
    if (device->number >= count) {
        return coffer__fail(err, COFFER_ERR_NO_DEVICE, "there is no %s: this process sees %d of its kind",
                            device->words, (int64_t)count);
    }
    return driver_attach(device, err);
}

/* The state is set before anything is tried, as the words of a failure are made from the device. After a failure the
   caller frees the device itself and never calls `close`. */
coffer_status coffer__driver_open(coffer_device *device, const coffer__vendor *vendor, coffer_error *err)
{
    coffer__driver *driver = driver_new(vendor, &device->allocator, err);
    if (driver == NULL) {
        return COFFER_ERR_MEMORY;
    }
    device->ops = &driver_ops;
    device->state = driver;
    const coffer_status status = driver_begin(device, err);
    if (status != COFFER_OK) {
        driver_free(driver, &device->allocator);
    }
    return status;
}

/* A driver that is lost, or is another process's, is not called; what it held is the system's to take back when the
   process ends. */
static void driver_close(coffer_device *device)
{
    coffer__driver *driver = device->state;
    if (driver_usable(device, NULL) == COFFER_OK) {
        driver->vendor->detach(driver);
    }
    driver_free(driver, &device->allocator);
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

/* A visit that failed is not left: nothing was made current. */
static coffer_status driver_enter(coffer_device *device, coffer__device_visit *visit, coffer_error *err)
{
    coffer__driver *driver = device->state;
    const coffer_status status = driver_usable(device, err);
    if (status != COFFER_OK) {
        return status;
    }
    return driver_result(device, driver->vendor->enter(driver, visit), "make it current", err);
}

/* It returns nothing because the caller has its own result to report. A device that was lost in between is remembered
   by driver_result, and the next call says so. */
static void driver_leave(coffer_device *device, const coffer__device_visit *visit)
{
    coffer__driver *driver = device->state;
    if (driver_usable(device, NULL) == COFFER_OK) {
        (void)driver_result(device, driver->vendor->leave(driver, visit), "leave it", NULL);
    }
}

/* After a failure both numbers are 0, so that a message that shows them anyway shows nothing invented. */
static coffer_status driver_capacity(coffer_device *device, uint64_t *free, uint64_t *total, coffer_error *err)
{
    const coffer__driver *driver = device->state;
    size_t free_size = 0;
    size_t total_size = 0;
    coffer_status status = driver_usable(device, err);
    if (status == COFFER_OK) {
        status = driver_result(device, driver->calls.capacity(&free_size, &total_size), "ask for its memory", err);
    }
    *free = free_size;
    *total = total_size;
    return status;
}

/* The sizes help more than the driver's words. How much is free is asked afterwards, and may fail as well. */
static coffer_status driver_out_of_memory(coffer_device *device, uint64_t size, coffer_error *err)
{
    uint64_t free = 0;
    uint64_t total = 0;
    /* Both stay 0 in the message when this fails, too. */
    (void)driver_capacity(device, &free, &total, NULL);
    (void)coffer__fail(err, COFFER_ERR_DEVICE_MEMORY,
                       "%s has not enough memory: %z are wanted at once, %z of %z are free: load less of the model on "
                       "it, or set a device budget and take tensors as they come",
                       device->words, size, free, total);
    return coffer__fail_sizes(err, COFFER_ERR_DEVICE_MEMORY, size, free);
}

/* A size that does not fit in size_t is answered like one that the device refused: to the caller both are the same
   lack of memory, and the cast below would otherwise ask for less than was wanted. */
static coffer_status driver_allocate(coffer_device *device, uint64_t size, uint64_t *address, coffer_error *err)
{
    const coffer__driver *driver = device->state;
    uintptr_t found = 0;
    const coffer_status status = driver_usable(device, err);
    if (status != COFFER_OK) {
        return status;
    }
    const int code = size > SIZE_MAX ? COFFER__DRIVER_MEMORY : driver->calls.allocate(&found, (size_t)size);
    *address = found;
    if (code == COFFER__DRIVER_MEMORY) {
        return driver_out_of_memory(device, size, err);
    }
    return driver_result(device, code, "allocate memory", err);
}

/* The driver knows the size of each allocation itself; the parameter is there for host memory, which does not. */
static void driver_release(coffer_device *device, uint64_t address, uint64_t size)
{
    const coffer__driver *driver = device->state;
    (void)size;
    if (driver_usable(device, NULL) == COFFER_OK) {
        (void)driver_result(device, driver->calls.release((uintptr_t)address), "release memory", NULL);
    }
}

/* Memory may come from an interface that this one does not speak of, which is no failure of the device. */
static coffer_status driver_end_of(coffer_device *device, uint64_t address, uint64_t *end, coffer_error *err)
{
    const coffer__driver *driver = device->state;
    uintptr_t base = 0;
    size_t size = 0;
    *end = address;
    const coffer_status status = driver_usable(device, err);
    if (status != COFFER_OK) {
        return status;
    }
    const int code = driver->calls.range(&base, &size, (uintptr_t)address);
    if (code == 0) {
        *end = (uint64_t)base + size;
    }
    return driver_is_final(code) ? driver_result(device, code, "ask for an allocation", err) : COFFER_OK;
}

/* Whatever stands in the way (limits on locked memory, WSL2, a map of a file system that cannot do it), copies work
   without it. So every failure is one answer, unless the device is lost by it. Memory that is registered already
   serves as well, but its owner will release it: *mine stays false, or it would be released twice. */
static coffer_status driver_register_host(coffer_device *device, void *memory, size_t size, bool *mine,
                                          coffer_error *err)
{
    const coffer__driver *driver = device->state;
    *mine = false;
    coffer_status status = driver_usable(device, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (!device->registers) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED, "%s cannot register memory of the host", device->words);
    }
    /* Portable memory is registered for every context of the driver, so that one staging buffer serves several devices.
       */
    const int code = driver->calls.host_register(memory, size, DRIVER_REGISTER_PORTABLE);
    *mine = code == 0;
    /* `mine` was set from the code before, so it is false here. */
    if (code == COFFER__DRIVER_REGISTERED) {
        return COFFER_OK;
    }
    status = driver_result(device, code, "register memory of the host", err);
    if (status == COFFER_OK || driver_is_final(code)) {
        return status;
    }
    if (err != NULL) {
        err->code = COFFER_ERR_UNSUPPORTED;
    }
    return COFFER_ERR_UNSUPPORTED;
}

static void driver_forget_host(coffer_device *device, void *memory)
{
    const coffer__driver *driver = device->state;
    if (driver_usable(device, NULL) == COFFER_OK) {
        (void)driver_result(device, driver->calls.host_unregister(memory), "release registered memory", NULL);
    }
}

/* ---- Streams and events ------------------------------------------------------------------------------------------ */

/* The handles of the driver travel as pointers to types that are never completed. So the compiler tells a stream from
   an event, which the drivers' own headers of void pointers would not. */
static void *driver_stream_of(coffer__stream *stream)
{
    return stream;
}

static void *driver_event_of(coffer__event *event)
{
    return event;
}

/* A stream of the caller's, by its number. */
static void *driver_stream_numbered(uint64_t caller_stream)
{
    return (void *)(uintptr_t)caller_stream; /* NOLINT(performance-no-int-to-ptr): that is what the driver calls it */
}

/* The stream does not wait for the legacy default stream: otherwise each copy would stand in line with the kernels of
   a program that uses that stream, and loading could not overlap computing. */
static coffer_status driver_stream_new(coffer_device *device, coffer__stream **stream, coffer_error *err)
{
    const coffer__driver *driver = device->state;
    void *handle = NULL;
    coffer_status status = driver_usable(device, err);
    if (status == COFFER_OK) {
        const int code = driver->calls.stream_new(&handle, DRIVER_STREAM_NON_BLOCKING);
        status = driver_result(device, code, "create a stream", err);
    }
    *stream = handle;
    return status;
}

/* The wait is what keeps the host's memory from going before its copies. So one that fails is tried once more; a device
   that fails for good copies nothing more. */
static void driver_stream_free(coffer_device *device, coffer__stream *stream)
{
    const coffer__driver *driver = device->state;
    void *handle = driver_stream_of(stream);
    bool empty = handle == NULL;
    for (int i = 0; i < 2 && !empty && driver_usable(device, NULL) == COFFER_OK; i++) {
        empty = driver_result(device, driver->calls.stream_synchronize(handle), "wait for copies", NULL) == COFFER_OK;
    }
    if (handle != NULL && driver_usable(device, NULL) == COFFER_OK) {
        (void)driver_result(device, driver->calls.stream_free(handle), "destroy a stream", NULL);
    }
}

/* Success means queued. A failure of the copy itself appears at a later call, at the latest when its event is waited
   for, and is blamed on that call. */
static coffer_status driver_copy(coffer_device *device, coffer__stream *stream, const coffer__strided_copy *copy,
                                 const uint8_t *bytes, coffer_error *err)
{
    coffer__driver *driver = device->state;
    const coffer_status status = driver_usable(device, err);
    if (status != COFFER_OK) {
        return status;
    }
    return driver_result(device, driver->vendor->copy(driver, driver_stream_of(stream), copy, bytes), "queue a copy",
                         err);
}

/* Without a time an event costs the device less, and with the sleep it costs the host no processor: a thread that
   spins in the driver would take one from those that read the file. */
static coffer_status driver_event_new(coffer_device *device, coffer__event **event, coffer_error *err)
{
    const coffer__driver *driver = device->state;
    void *handle = NULL;
    coffer_status status = driver_usable(device, err);
    if (status == COFFER_OK) {
        status = driver_result(device, driver->calls.event_new(&handle, DRIVER_EVENT_QUIET), "create an event", err);
    }
    *event = handle;
    return status;
}

static void driver_event_free(coffer_device *device, coffer__event *event)
{
    const coffer__driver *driver = device->state;
    if (event != NULL && driver_usable(device, NULL) == COFFER_OK) {
        (void)driver_result(device, driver->calls.event_free(driver_event_of(event)), "destroy an event", NULL);
    }
}

static coffer_status driver_event_record_on(coffer_device *device, coffer__event *event, void *handle,
                                            coffer_error *err)
{
    const coffer__driver *driver = device->state;
    const coffer_status status = driver_usable(device, err);
    if (status != COFFER_OK) {
        return status;
    }
    return driver_result(device, driver->calls.event_record(driver_event_of(event), handle), "record an event", err);
}

static coffer_status driver_event_record(coffer_device *device, coffer__event *event, coffer__stream *stream,
                                         coffer_error *err)
{
    return driver_event_record_on(device, event, driver_stream_of(stream), err);
}

static coffer_status driver_event_record_caller(coffer_device *device, coffer__event *event, uint64_t caller_stream,
                                                coffer_error *err)
{
    return driver_event_record_on(device, event, driver_stream_numbered(caller_stream), err);
}

/* Not to be ready is an answer and no error, so it is taken out before the code becomes a failure. An event that was
   never recorded counts as reached, which is what a stream without copies wants. */
static coffer_status driver_event_reached(coffer_device *device, coffer__event *event, bool wait, coffer_error *err)
{
    const coffer__driver *driver = device->state;
    const coffer_status status = driver_usable(device, err);
    if (status != COFFER_OK) {
        return status;
    }
    void *handle = driver_event_of(event);
    const int code = wait ? driver->calls.event_synchronize(handle) : driver->calls.event_query(handle);
    if (code == COFFER__DRIVER_NOT_READY) {
        return COFFER_NEED_MORE;
    }
    return driver_result(device, code, "wait for copies", err);
}

/* The wait is queued on the device: no thread of the host stands still for it. The event's state is taken now, so the
   event may be set again at once. */
static coffer_status driver_stream_wait(coffer_device *device, coffer__stream *stream, coffer__event *event,
                                        coffer_error *err)
{
    const coffer__driver *driver = device->state;
    const coffer_status status = driver_usable(device, err);
    if (status != COFFER_OK) {
        return status;
    }
    const int code = driver->calls.stream_wait(driver_stream_of(stream), driver_event_of(event), 0);
    return driver_result(device, code, "order two streams", err);
}

/* On a stream of its own, so that it waits for nobody else's copies. The buffer may be pageable memory: the wait
   before the stream is freed is what makes its bytes valid, and it is done also for a driver that copies such memory at
   once. */
static coffer_status driver_read(coffer_device *device, uint64_t address, void *buffer, uint64_t size,
                                 coffer_error *err)
{
    coffer__driver *driver = device->state;
    coffer__stream *stream = NULL;
    coffer_status status = driver_stream_new(device, &stream, err);
    if (status != COFFER_OK) {
        return status;
    }
    void *handle = driver_stream_of(stream);
    const int code = driver->vendor->read(driver, handle, address, buffer, (size_t)size);
    status = driver_result(device, code, "copy from it", err);
    if (status == COFFER_OK) {
        status = driver_result(device, driver->calls.stream_synchronize(handle), "copy from it", err);
    }
    driver_stream_free(device, stream);
    return status;
}

static const coffer__device_ops driver_ops = {
    .enter = driver_enter,
    .leave = driver_leave,
    .capacity = driver_capacity,
    .allocate = driver_allocate,
    .release = driver_release,
    .end_of = driver_end_of,
    .register_host = driver_register_host,
    .forget_host = driver_forget_host,
    .stream_new = driver_stream_new,
    .stream_free = driver_stream_free,
    .copy = driver_copy,
    .event_new = driver_event_new,
    .event_free = driver_event_free,
    .event_record = driver_event_record,
    .event_record_caller = driver_event_record_caller,
    .event_reached = driver_event_reached,
    .stream_wait = driver_stream_wait,
    .read = driver_read,
    .close = driver_close,
};

/* ---- Listing ----------------------------------------------------------------------------------------------------- */

/* One device, without touching it: nothing is made on it, so how much is free is not known. `detail` owns the text
   that the facility points to, so it belongs to the caller, who keeps it while the visitor runs. */
static coffer_facility driver_facility(coffer__driver *driver, int32_t number, const char *name, coffer_error *detail)
{
    coffer__driver_facts facts = { .node = -1 };
    const int code = driver->vendor->facts(driver, number, &facts);
    facts.name[sizeof facts.name - 1] = '\0';
    if (code != 0) {
        (void)coffer__fail(detail, COFFER_ERR_DEVICE, "%s (error %d of %s)", driver->vendor->words(driver, code),
                           (int64_t)code, driver->vendor->noun);
        return (coffer_facility){ name, false, detail->message, "" };
    }
    (void)coffer__fail(detail, COFFER_ERR_DEVICE, "%s, %z%s%s", facts.name, (uint64_t)facts.total,
                       facts.integrated ? ", which is the host's" : "",
                       facts.registers ? "" : "; memory of the host cannot be registered, so copies are slow");
    return (coffer_facility){ name, true, detail->message, "" };
}

/* A vendor without any device is one row under its prefix, which says why; a vendor that starts and has none is no
   row at all. */
static bool driver_visit_all(coffer__driver *driver, coffer_facility_visitor visit, void *ctx)
{
    const coffer__vendor *vendor = driver->vendor;
    driver_refusal no;
    int count = 0;
    if (!driver_start(driver, &count, &no)) {
        return visit(ctx, &(coffer_facility){ vendor->prefix, false, no.why.message, no.advice }) != 0;
    }
    for (int32_t i = 0; i < count; i++) {
        coffer_error name;
        coffer_error detail;
        (void)coffer__fail(&name, COFFER_ERR_DEVICE, "%s:%d", vendor->prefix, (int64_t)i);
        const coffer_facility found = driver_facility(driver, i, name.message, &detail);
        if (visit(ctx, &found) != 0) {
            return true;
        }
    }
    return false;
}

/* The driver's state is freed, but its library stays loaded once it has started, so that the next list or open finds
   it. */
coffer_status coffer__driver_list(const coffer__vendor *vendor, const coffer_allocator *allocator,
                                  coffer_facility_visitor visit, void *ctx, bool *ended, coffer_error *err)
{
    coffer__driver *driver = driver_new(vendor, allocator, err);
    if (driver == NULL) {
        return COFFER_ERR_MEMORY;
    }
    *ended = driver_visit_all(driver, visit, ctx);
    driver_free(driver, allocator);
    return COFFER_OK;
}
