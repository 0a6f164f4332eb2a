/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A memory space: where tensors can live. Host memory is one, that of an accelerator another. A kind of space is a
 * table of functions:
 *
 *   device_host.c   host memory; copies are memcpy, at once
 *   driver.c        accelerators, by what their drivers have in common; what they have not is a vendor's table:
 *                   device_cuda.c (libcuda.so.1) and device_hip.c (libamdhip64), both opened at run time
 *
 * Whoever calls one of these functions has entered the device on that thread (coffer__device_enter … _leave), unless it
 * says otherwise: the device is current for the driver in between, and what was current before is restored.
 *
 * After an error that the driver cannot recover from, the device is `lost`: nothing of the driver is called any more,
 * not even to release memory, and every call fails with the first error's words. In a child process after fork the
 * driver does not work either, and is not called.
 */
#ifndef COFFER_DEVICE_DEVICE_H
#define COFFER_DEVICE_DEVICE_H

#include "coffer.h"
#include "os.h"
#include "strided_copy.h"

#include <stdatomic.h>

typedef struct coffer__device_ops coffer__device_ops;

/* Copies are queued on a stream, in order, and run while the thread goes on. An event is a point in a stream's order,
   or in that of one of the caller's, which is only a number to the library. Neither belongs to a thread, but only one
   thread may use a stream or an event at a time. What they are is the kind's business: of accelerators, the driver's
   streams and events. */
typedef struct coffer__stream coffer__stream;
typedef struct coffer__event coffer__event;

/* What was current on the thread before it entered a device. */
typedef struct coffer__device_visit {
    int32_t previous;
} coffer__device_visit;

struct coffer__device_ops {
    coffer_status (*enter)(coffer_device *device, coffer__device_visit *visit, coffer_error *err);
    void (*leave)(coffer_device *device, const coffer__device_visit *visit);
    /* Bytes of memory, and how many of them are free. */
    coffer_status (*capacity)(coffer_device *device, uint64_t *free, uint64_t *total, coffer_error *err);
    coffer_status (*allocate)(coffer_device *device, uint64_t size, uint64_t *address, coffer_error *err);
    void (*release)(coffer_device *device, uint64_t address, uint64_t size);
    /* The end of the allocation in which an address lies, beyond which no copy to it may go; the address itself where
       that is not known. */
    coffer_status (*end_of)(coffer_device *device, uint64_t address, uint64_t *end, coffer_error *err);
    /* Makes host memory fit for fast copies by every device of the kind. *mine is false when it was registered before,
       for another device perhaps: then it is not to be forgotten. COFFER_ERR_UNSUPPORTED when it cannot be done, which
       does not forbid copies: the driver then moves the bytes through memory of its own. */
    coffer_status (*register_host)(coffer_device *device, void *memory, size_t size, bool *mine, coffer_error *err);
    void (*forget_host)(coffer_device *device, void *memory);
    coffer_status (*stream_new)(coffer_device *device, coffer__stream **stream, coffer_error *err);
    void (*stream_free)(coffer_device *device, coffer__stream *stream); /* waits until it is empty; NULL is ignored */
    /* Queues a copy to the device, whose runs do not overlap; steps are at least `width` on both sides. `bytes`, the
       first run in host memory, must not change until an event that is set afterwards was reached. */
    coffer_status (*copy)(coffer_device *device, coffer__stream *stream, const coffer__strided_copy *copy,
                          const uint8_t *bytes, coffer_error *err);
    coffer_status (*event_new)(coffer_device *device, coffer__event **event, coffer_error *err);
    void (*event_free)(coffer_device *device, coffer__event *event); /* NULL is ignored */
    /* The event is what the stream has been given so far; what it was before is forgotten. */
    coffer_status (*event_record)(coffer_device *device, coffer__event *event, coffer__stream *stream,
                                  coffer_error *err);
    /* The same of a stream of the caller's, by the number that the driver gives it. */
    coffer_status (*event_record_caller)(coffer_device *device, coffer__event *event, uint64_t caller_stream,
                                         coffer_error *err);
    /* Whether the event was reached; COFFER_NEED_MORE: not yet. With `wait` it waits. */
    coffer_status (*event_reached)(coffer_device *device, coffer__event *event, bool wait, coffer_error *err);
    /* What the stream is given from now on waits for the event, which may be of any stream of the device. */
    coffer_status (*stream_wait)(coffer_device *device, coffer__stream *stream, coffer__event *event,
                                 coffer_error *err);
    /* Copies from the device, and waits for it. */
    coffer_status (*read)(coffer_device *device, uint64_t address, void *buffer, uint64_t size, coffer_error *err);
    /* Without having entered. Nothing of the device is in use any more. */
    void (*close)(coffer_device *device);
};

struct coffer_device {
    const coffer__device_ops *ops;
    atomic_size_t users;        /* the program, and what of the library must not see it closed */
    coffer_allocator allocator; /* only for opening and closing, so it need not be safe in threads */
    coffer_device_kind kind;
    int32_t number;
    int32_t node;    /* of the host's memory that is nearest to it; -1: not known */
    char words[24];  /* "cuda:0", for messages */
    char name[128];  /* as the driver calls it */
    bool integrated; /* as coffer_device_info says */
    bool registers;  /* likewise */
    void *state;     /* the kind's own */
};

/* Keeps a device open, also when the program closes it, until coffer_device_close was called once more. */
void coffer__device_hold(coffer_device *device);

/* Enters a device to release something of it. False when that cannot be; then the device holds it for the rest of the
   process, or holds nothing any more. */
bool coffer__device_enter_to_release(coffer_device *device, coffer__device_visit *visit);

/* Fills what is not set yet of a device: `ops`, `node`, `name`, `state` and the rest. One for each kind. */
coffer_status coffer__host_open(coffer_device *device, coffer_error *err);
coffer_status coffer__cuda_open(coffer_device *device, coffer_error *err);
coffer_status coffer__hip_open(coffer_device *device, coffer_error *err);

#endif
