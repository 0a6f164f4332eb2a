/* SPDX-License-Identifier: Apache-2.0 */
/* Devices as coffer/load.h declares them: opening by name, and what programs do with memory of a device themselves. */
#include "device.h"

#include "alloc.h"
#include "error.h"
#include "libc_allocator.h"
#include "text.h"

#include <string.h>

/* The names are tried in this order and none is the beginning of another, so that the order does not matter. */
static const struct device_row {
    const char *name;
    coffer_device_kind kind;
    bool sharded; /* there may be more than one, with numbers */
    coffer_status (*open)(coffer_device *device, coffer_error *err);
} device_rows[] = {
    { "cpu", COFFER_DEVICE_HOST, false, coffer__host_open },
    { "cuda", COFFER_DEVICE_CUDA, true, coffer__cuda_open },
    { "hip", COFFER_DEVICE_HIP, true, coffer__hip_open },
};
#define DEVICE_ROWS (sizeof device_rows / sizeof device_rows[0])

/* ---- Names ------------------------------------------------------------------------------------------------------- */

/* ":N" with a plain decimal number of at most four digits, which is more devices than a machine has. A leading zero
   is refused, so that each device has one name and names can be compared as text. Four digits also keep the sum far
   from overflow. */
static bool device_number(const char *text, int32_t *number)
{
    const size_t length = coffer__text_len(text);
    if (length < 2 || length > 5 || text[0] != ':' || (length > 2 && text[1] == '0')) {
        return false;
    }
    *number = 0;
    for (size_t i = 1; i < length; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        *number = *number * 10 + (text[i] - '0');
    }
    return true;
}

/* The row of a name, and the number in it; NULL if it names no kind of device. A name with something after it that is
   no number is no device: "cuda:" or "cpu:0" must not silently mean the first one. */
static const struct device_row *device_named(const char *name, int32_t *number)
{
    for (size_t i = 0; i < DEVICE_ROWS; i++) {
        const size_t length = coffer__text_len(device_rows[i].name);
        if (coffer__text_len(name) < length || memcmp(name, device_rows[i].name, length) != 0) {
            continue;
        }
        *number = 0;
        if (name[length] == '\0' || (device_rows[i].sharded && device_number(name + length, number))) {
            return &device_rows[i];
        }
    }
    return NULL;
}

/* "cuda:0", also of a name without a number. The memory is zeroed, which ends the text; ten digits and the longest
   name fit in it with space to spare. */
static void device_spell(coffer_device *device, const struct device_row *row)
{
    const size_t length = coffer__text_len(row->name);
    memcpy(device->words, row->name, length);
    if (row->sharded) {
        device->words[length] = ':';
        (void)coffer__write_u64(device->words + length + 1, (uint64_t)device->number);
    }
}

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

/* The device is given out only when it is complete: until then it has one user, this function, and what a kind's
   `open` made it has undone itself before it fails. */
coffer_status coffer_device_open(coffer_device **device, const char *name, const coffer_allocator *allocator,
                                 coffer_error *err)
{
    if (device == NULL || name == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "coffer_device_open wants a device and its name");
    }
    *device = NULL;
    int32_t number = 0;
    const struct device_row *row = device_named(name, &number);
    if (row == NULL) {
        return coffer__fail(err, COFFER_ERR_NO_DEVICE, "%q names no device: write cpu, cuda, cuda:N, hip or hip:N",
                            name, coffer__text_len(name));
    }
    const coffer_allocator *from = coffer__allocator_or_libc(allocator);
    coffer_device *made = coffer__alloc_array(from, 1, sizeof *made, err);
    if (made == NULL) {
        return COFFER_ERR_MEMORY;
    }
    atomic_init(&made->users, 1);
    made->allocator = *from;
    made->kind = row->kind;
    made->number = number;
    device_spell(made, row);
    const coffer_status status = row->open(made, err);
    if (status != COFFER_OK) {
        coffer__free_array(from, made, 1, sizeof *made);
        return status;
    }
    *device = made;
    return COFFER_OK;
}

void coffer__device_hold(coffer_device *device)
{
    (void)atomic_fetch_add(&device->users, 1);
}

/* The last user closes it, whichever that is: the program, or memory and staging buffers that were made with it. The
   allocator lies within the block that is freed, so it is copied first. */
void coffer_device_close(coffer_device *device)
{
    if (device != NULL && atomic_fetch_sub(&device->users, 1) == 1) {
        device->ops->close(device);
        const coffer_allocator allocator = device->allocator;
        coffer__free_array(&allocator, device, 1, sizeof *device);
    }
}

/* What is not released stays taken, so a failure that may pass is tried once more. A device that is lost, and one in a child
   process, answers at once. */
bool coffer__device_enter_to_release(coffer_device *device, coffer__device_visit *visit)
{
    bool entered = false;
    for (int i = 0; i < 2 && !entered; i++) {
        entered = device->ops->enter(device, visit, NULL) == COFFER_OK;
    }
    return entered;
}

/* ---- Using one --------------------------------------------------------------------------------------------------- */

/* The caller's struct may be older or newer than this library's: only the bytes that both know are copied, and its
   size stays what the caller has set. */
coffer_status coffer_device_describe(coffer_device *device, coffer_device_info *info, coffer_error *err)
{
    if (device == NULL || info == NULL || info->struct_size < sizeof info->struct_size) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT,
                            "coffer_device_describe wants a device, and an info whose struct_size is set");
    }
    coffer_device_info found = { .kind = device->kind, .number = device->number };
    coffer__device_visit visit;
    coffer_status status = device->ops->enter(device, &visit, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = device->ops->capacity(device, &found.free, &found.total, err);
    device->ops->leave(device, &visit);
    memcpy(found.name, device->name, sizeof found.name);
    found.integrated = device->integrated;
    found.registers = device->registers;
    const size_t size = info->struct_size < sizeof found ? info->struct_size : sizeof found;
    found.struct_size = info->struct_size;
    memcpy(info, &found, size);
    return status;
}

/* The address is set to 0 before anything can fail, since that is what coffer_device_memory_free ignores. */
coffer_status coffer_device_allocate(coffer_device *device, uint64_t size, uint64_t *address, coffer_error *err)
{
    if (device == NULL || address == NULL || size == 0) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT,
                            "coffer_device_allocate wants a device, at least one byte, and where to put the address");
    }
    *address = 0;
    coffer__device_visit visit;
    coffer_status status = device->ops->enter(device, &visit, err);
    if (status == COFFER_OK) {
        status = device->ops->allocate(device, size, address, err);
        device->ops->leave(device, &visit);
    }
    return status;
}

void coffer_device_memory_free(coffer_device *device, uint64_t address, uint64_t size)
{
    coffer__device_visit visit;
    if (device != NULL && address != 0 && coffer__device_enter_to_release(device, &visit)) {
        device->ops->release(device, address, size);
        device->ops->leave(device, &visit);
    }
}

/* Nothing is asked of the device for no bytes, so that an empty tensor can be read from a device that is lost. */
coffer_status coffer_device_read(coffer_device *device, uint64_t address, void *buffer, uint64_t size,
                                 coffer_error *err)
{
    if (device == NULL || (buffer == NULL && size != 0) || size > SIZE_MAX) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "coffer_device_read wants a device, and a buffer for the bytes");
    }
    if (size == 0) {
        return COFFER_OK;
    }
    coffer__device_visit visit;
    coffer_status status = device->ops->enter(device, &visit, err);
    if (status == COFFER_OK) {
        status = device->ops->read(device, address, buffer, size, err);
        device->ops->leave(device, &visit);
    }
    return status;
}
