/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A memory space: where tensors can live. Host memory is one, that of an accelerator another. A kind of space is a table of
 * functions, filled by one file:
 *
 *   device_host.c     host memory; copies are memcpy, at once
 *   device_cuda.c     the CUDA driver (libcuda.so.1), opened at run time
 *   device_hip.c      HIP (libamdhip64), likewise
 *
 * A driver's functions may be called by any thread that has entered the device (coffer__device_enter … _leave): the
 * device's context is current on that thread in between, and what was current before is restored.
 *
 * After an error that the driver cannot recover from, the device is `lost`: nothing of the driver is called any more, not even
 * to release memory, and every call fails with the first error's words. The same holds in a child process after fork.
 */
#ifndef COFFER_DEVICE_DEVICE_H
#define COFFER_DEVICE_DEVICE_H

#include "coffer.h"
#include "os.h"

typedef struct coffer__device_ops coffer__device_ops;

/* Copies are queued on a lane, in order, and run while the thread goes on. A mark is a point in a lane's order. Neither
   belongs to a thread, but only one thread may use a lane at a time. */
typedef struct coffer__lane coffer__lane;
typedef struct coffer__mark coffer__mark;

/* A box of bytes of host memory that goes to a device: `rows` runs of `width` bytes. */
typedef struct coffer__copy {
    uint64_t to;      /* on the device, of the first run */
    uint64_t to_step; /* bytes from one run to the next */
    const uint8_t *from;
    uint64_t from_step;
    uint64_t width;
    uint64_t rows; /* 1: a plain copy */
} coffer__copy;

struct coffer__device_ops {
    const char *kind; /* "cuda" */
    coffer_status (*describe)(coffer_device *device, coffer_device_info *info, coffer_error *err);
    coffer_status (*allocate)(coffer_device *device, uint64_t size, uint64_t *address, coffer_error *err);
    void (*release)(coffer_device *device, uint64_t address, uint64_t size);
    coffer_status (*enter)(coffer_device *device, coffer_error *err);
    void (*leave)(coffer_device *device);
    /* Makes host memory fit for fast copies. COFFER_ERR_UNSUPPORTED: copy from it all the same, through the driver's own
       memory, or not at all; `must_register` of the device says which. */
    coffer_status (*register_host)(coffer_device *device, void *memory, size_t size, coffer_error *err);
    void (*forget_host)(coffer_device *device, void *memory, size_t size);
    coffer_status (*lane_new)(coffer_device *device, coffer__lane **lane, coffer_error *err);
    void (*lane_free)(coffer_device *device, coffer__lane *lane); /* waits until it is empty */
    /* Queues a copy. `from` must not change until a mark behind it was reached. */
    coffer_status (*copy)(coffer_device *device, coffer__lane *lane, const coffer__copy *copy, coffer_error *err);
    coffer_status (*mark_new)(coffer_device *device, coffer__mark **mark, coffer_error *err);
    void (*mark_free)(coffer_device *device, coffer__mark *mark);
    coffer_status (*mark_set)(coffer_device *device, coffer__mark *mark, coffer__lane *lane, coffer_error *err);
    /* Whether the mark was reached; COFFER_NEED_MORE: not yet. With `wait` it waits. */
    coffer_status (*mark_reached)(coffer_device *device, coffer__mark *mark, bool wait, coffer_error *err);
    /* The lane waits for what is queued on the caller's stream, and that stream for the lane. */
    coffer_status (*lane_after)(coffer_device *device, coffer__lane *lane, uint64_t stream, coffer_error *err);
    coffer_status (*stream_after)(coffer_device *device, uint64_t stream, coffer__lane *lane, coffer_error *err);
    coffer_status (*read)(coffer_device *device, uint64_t address, void *buffer, uint64_t size, coffer_error *err);
    void (*close)(coffer_device *device);
};

struct coffer_device {
    const coffer__device_ops *ops;
    coffer_allocator allocator;
    int32_t number;
    bool must_register; /* copies come only from registered memory */
    void *state;        /* the kind's own */
};

#endif
