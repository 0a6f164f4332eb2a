/* SPDX-License-Identifier: Apache-2.0 */
#include "pins.h"

#include "alloc.h"

static bool pins_has(const coffer__pins *pins, const coffer_device *device, const void *memory)
{
    for (size_t i = 0; i < pins->count; i++) {
        if (pins->items[i].device == device && pins->items[i].memory == memory) {
            return true;
        }
    }
    return false;
}

/* What cannot be registered is kept in the list all the same, so that it is not tried again. `mine` tells whether
   it was this call that registered the memory: what somebody else has registered is theirs to forget. */
static coffer_status pins_register(coffer__pin *pin, size_t size, coffer_error *err)
{
    coffer_device *device = pin->device;
    coffer__device_visit visit;
    coffer_status status = device->ops->enter(device, &visit, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = device->ops->register_host(device, (void *)pin->memory, size, &pin->mine, err);
    device->ops->leave(device, &visit);
    return status == COFFER_ERR_UNSUPPORTED ? COFFER_OK : status;
}

/* Space for the pin is made first, so that memory is never registered without being remembered. The device is held
   open until it has forgotten the memory. */
coffer_status coffer__pins_add(coffer__pins *pins, coffer_device *device, const void *memory, size_t size,
                               const coffer_allocator *allocator, coffer_error *err)
{
    if (device == NULL || device->kind == COFFER_DEVICE_HOST || pins_has(pins, device, memory)) {
        return COFFER_OK;
    }
    coffer__pin *items =
        coffer__grow_array(allocator, pins->items, pins->count, &pins->capacity, sizeof *pins->items, err);
    if (items == NULL) {
        return COFFER_ERR_MEMORY;
    }
    pins->items = items;
    coffer__pin *pin = &items[pins->count];
    *pin = (coffer__pin){ .device = device, .memory = memory };
    const coffer_status status = pins_register(pin, size, err);
    if (status == COFFER_OK) {
        coffer__device_hold(device);
        pins->count++;
    }
    return status;
}

/* A device that is lost has forgotten everything by itself; only the handle is given back then. */
void coffer__pins_release(coffer__pins *pins, const coffer_allocator *allocator)
{
    coffer__device_visit visit;
    for (size_t i = 0; i < pins->count; i++) {
        const coffer__pin *pin = &pins->items[i];
        if (pin->mine && coffer__device_enter_to_release(pin->device, &visit)) {
            pin->device->ops->unpin_host(pin->device, (void *)pin->memory);
            pin->device->ops->leave(pin->device, &visit);
        }
        coffer_device_close(pin->device);
    }
    coffer__free(allocator, pins->items, pins->capacity * sizeof *pins->items);
    *pins = (coffer__pins){ NULL, 0, 0 };
}
