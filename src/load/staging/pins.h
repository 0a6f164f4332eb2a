/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the host that is registered with devices, so that they copy from it by themselves. Registering takes long,
 * so a staging buffer does it once, and what it registered stays until the memory goes. Where it cannot be registered,
 * copies are slower, and that is all.
 */
#ifndef COFFER_LOAD_PINS_H
#define COFFER_LOAD_PINS_H

#include "device.h"

typedef struct coffer__pin {
    coffer_device *device; /* held open */
    const void *memory;
    bool mine; /* as of register_host */
} coffer__pin;

/* Zero at first. One thread at a time uses it. */
typedef struct coffer__pins {
    coffer__pin *items;
    size_t count;
    size_t capacity;
} coffer__pins;

/* Registers memory with a device, unless that was done or tried before; nothing is done for NULL, or host memory as a
   device. Fails when the device does, or COFFER_ERR_MEMORY. */
coffer_status coffer__pins_add(coffer__pins *pins, coffer_device *device, const void *memory, size_t size,
                               const coffer_allocator *allocator, coffer_error *err);
/* Forgets all of it, before the memory goes. No copy from it is in progress. */
void coffer__pins_end(coffer__pins *pins, const coffer_allocator *allocator);

#endif
