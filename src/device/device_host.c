/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory as a device: copies are done when they are queued, so that every event was reached when it was set. */
#include "device.h"

#include "error.h"

#include <string.h>

/* Streams and events have no state. They point here, since NULL is none. */
static char host_handle;

static void *host_address(uint64_t address)
{
    return (void *)(uintptr_t)address; /* NOLINT(performance-no-int-to-ptr): it was a pointer */
}

/* Host memory is current on every thread, so entering can neither fail nor change anything. */
static coffer_status host_enter(coffer_device *device, coffer__device_visit *visit, coffer_error *err)
{
    (void)device;
    (void)err;
    visit->previous = 0;
    return COFFER_OK;
}

static void host_leave(coffer_device *device, const coffer__device_visit *visit)
{
    (void)device;
    (void)visit;
}

/* What is free is what the system could give without swapping, as far as it says; both numbers are 0 where it says
   nothing, which callers take as not known. */
static coffer_status host_capacity(coffer_device *device, uint64_t *free, uint64_t *total, coffer_error *err)
{
    (void)device;
    (void)err;
    *free = coffer__os_memory_available();
    *total = coffer__os_memory_total();
    return COFFER_OK;
}

/* From the same function as the library's own buffers, so that the alignment which direct reading needs and huge
   pages are had here too. */
static coffer_status host_allocate(coffer_device *device, uint64_t size, uint64_t *address, coffer_error *err)
{
    void *memory = size > SIZE_MAX ? NULL : coffer_buffer_new((size_t)size);
    *address = (uintptr_t)memory;
    if (memory != NULL) {
        return COFFER_OK;
    }
    uint64_t free = 0;
    uint64_t total = 0;
    (void)host_capacity(device, &free, &total, NULL);
    (void)coffer__fail(err, COFFER_ERR_DEVICE_MEMORY, "the system has not enough memory: %z are wanted, %z are free",
                       size, free);
    return coffer__fail_sizes(err, COFFER_ERR_DEVICE_MEMORY, size, free);
}

/* Here the size is needed: the memory is a map that was made for it, and is undone with the same size. */
static void host_release(coffer_device *device, uint64_t address, uint64_t size)
{
    (void)device;
    coffer_buffer_free(host_address(address), (size_t)size);
}

/* To memcpy all memory is one. */
static coffer_status host_end_of(coffer_device *device, uint64_t address, uint64_t *end, coffer_error *err)
{
    (void)device;
    (void)address;
    (void)err;
    *end = UINT64_MAX;
    return COFFER_OK;
}

/* Nothing has to be registered for memcpy. *mine stays false, so that nothing will be forgotten either. */
static coffer_status host_register(coffer_device *device, void *memory, size_t size, bool *mine, coffer_error *err)
{
    (void)device;
    (void)memory;
    (void)size;
    (void)err;
    *mine = false;
    return COFFER_OK;
}

static void host_forget(coffer_device *device, void *memory)
{
    (void)device;
    (void)memory;
}

/* A stream must not be NULL, which callers take for one that was not made. */
static coffer_status host_stream_new(coffer_device *device, coffer__stream **stream, coffer_error *err)
{
    (void)device;
    (void)err;
    *stream = (coffer__stream *)(void *)&host_handle;
    return COFFER_OK;
}

static void host_stream_free(coffer_device *device, coffer__stream *stream)
{
    (void)device;
    (void)stream;
}

static coffer_status host_copy(coffer_device *device, coffer__stream *stream, const coffer__strided_copy *copy,
                               const uint8_t *bytes, coffer_error *err)
{
    (void)device;
    (void)stream;
    (void)err;
    coffer__copy_strided(copy, bytes);
    return COFFER_OK;
}

static coffer_status host_event_new(coffer_device *device, coffer__event **event, coffer_error *err)
{
    (void)device;
    (void)err;
    *event = (coffer__event *)(void *)&host_handle;
    return COFFER_OK;
}

static void host_event_free(coffer_device *device, coffer__event *event)
{
    (void)device;
    (void)event;
}

static coffer_status host_event_record(coffer_device *device, coffer__event *event, coffer__stream *stream,
                                       coffer_error *err)
{
    (void)device;
    (void)event;
    (void)stream;
    (void)err;
    return COFFER_OK;
}

/* Host memory has no streams, so their numbers mean nothing. So nothing of the caller's can be waited for; what is
   read and written is ordered by the threads themselves. */
static coffer_status host_event_record_caller(coffer_device *device, coffer__event *event, uint64_t caller_stream,
                                              coffer_error *err)
{
    (void)device;
    (void)event;
    (void)caller_stream;
    (void)err;
    return COFFER_OK;
}

/* Also with `wait`: the copies have ended before they were queued for anybody else to see. */
static coffer_status host_event_reached(coffer_device *device, coffer__event *event, bool wait, coffer_error *err)
{
    (void)device;
    (void)event;
    (void)wait;
    (void)err;
    return COFFER_OK;
}

/* What the event stands for was done before it could be given here. */
static coffer_status host_stream_wait(coffer_device *device, coffer__stream *stream, coffer__event *event,
                                      coffer_error *err)
{
    (void)device;
    (void)stream;
    (void)event;
    (void)err;
    return COFFER_OK;
}

static coffer_status host_read(coffer_device *device, uint64_t address, void *buffer, uint64_t size, coffer_error *err)
{
    (void)device;
    (void)err;
    memcpy(buffer, host_address(address), (size_t)size);
    return COFFER_OK;
}

/* There is no state: memory that is still in use was allocated by itself and does not need the device. */
static void host_close(coffer_device *device)
{
    (void)device;
}

static const coffer__device_ops host_ops = {
    .enter = host_enter,
    .leave = host_leave,
    .capacity = host_capacity,
    .allocate = host_allocate,
    .release = host_release,
    .end_of = host_end_of,
    .register_host = host_register,
    .forget_host = host_forget,
    .stream_new = host_stream_new,
    .stream_free = host_stream_free,
    .copy = host_copy,
    .event_new = host_event_new,
    .event_free = host_event_free,
    .event_record = host_event_record,
    .event_record_caller = host_event_record_caller,
    .event_reached = host_event_reached,
    .stream_wait = host_stream_wait,
    .read = host_read,
    .close = host_close,
};

/* No node is nearest to all of the host's memory. */
coffer_status coffer__host_open(coffer_device *device, coffer_error *err)
{
    static const char name[] = "host memory";
    (void)err;
    memcpy(device->name, name, sizeof name);
    device->ops = &host_ops;
    device->node = -1;
    return COFFER_OK;
}
