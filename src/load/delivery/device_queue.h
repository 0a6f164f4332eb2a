/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a chunk's bytes to a device. What a copy op takes of a chunk is a sequence of strided copies (region.h). Those
 * to host memory are carried out at once (strided_copy.h); those to a device are queued here, so that the chunk must
 * stay until they are done.
 *
 * A device queue is one worker's way to one device: a stream for its copies, and events after them. It is used by that
 * worker's thread alone, which enters the device for each call by itself (the functions here do that).
 */
#ifndef COFFER_LOAD_DEVICE_QUEUE_H
#define COFFER_LOAD_DEVICE_QUEUE_H

#include "region.h"

typedef struct coffer__device_queue coffer__device_queue;

/* `allocator` may be called by any thread. */
coffer_status coffer__device_queue_open(coffer__device_queue **device_queue, coffer_device *device,
                                        const coffer_allocator *allocator, coffer_error *err);
/* Waits until nothing is in progress, as far as the device answers, and frees it. NULL is allowed. */
void coffer__device_queue_close(coffer__device_queue *device_queue);
/* What is sent from now on waits for what is queued on a stream of the caller's now. Each stream is waited for once,
   however often this is called for it. */
coffer_status coffer__device_queue_after(coffer__device_queue *device_queue, uint64_t caller_stream, coffer_error *err);
/* Queues a strided copy. `bytes` is the first run; they must not change until a ticket that was taken afterwards was
   reached, and what was sent after the last ticket is done only if another one is taken. Narrow runs may be gathered
   into the device queue's own memory first. */
coffer_status coffer__device_queue_send(coffer__device_queue *device_queue, const coffer__strided_copy *copy,
                                        const uint8_t *bytes, coffer_error *err);
/* A ticket for everything that was sent so far. Tickets ascend. */
coffer_status coffer__device_queue_ticket(coffer__device_queue *device_queue, uint64_t *ticket, coffer_error *err);
/* Whether everything before a ticket is in place; COFFER_NEED_MORE: not yet. With `wait` it waits, and never says so.
   Tickets are reached in their order. */
coffer_status coffer__device_queue_reached(coffer__device_queue *device_queue, uint64_t ticket, bool wait,
                                           coffer_error *err);

#endif
