/* SPDX-License-Identifier: Apache-2.0 */
/* A libcuda.so.1 without a device behind it: the functions that the library uses, on the machine of fake_driver.c. With
   FAKE_INCOMPLETE it lacks one of them. */
#include "fake_driver.h"

#include <stdio.h>
#include <string.h>

/* CUDA_MEMCPY2D of the driver's documentation. */
struct cuda_box {
    size_t from_x;
    size_t from_y;
    unsigned from_type;
    const void *from_host;
    uintptr_t from_device;
    void *from_array;
    size_t from_pitch;
    size_t to_x;
    size_t to_y;
    unsigned to_type;
    void *to_host;
    uintptr_t to_device;
    void *to_array;
    size_t to_pitch;
    size_t width;
    size_t rows;
};

#if UINTPTR_MAX > UINT32_MAX
_Static_assert(sizeof(struct cuda_box) == 128 && offsetof(struct cuda_box, from_host) == 24 &&
                   offsetof(struct cuda_box, from_pitch) == 48 && offsetof(struct cuda_box, to_type) == 72 &&
                   offsetof(struct cuda_box, to_device) == 88 && offsetof(struct cuda_box, to_pitch) == 104,
               "as the driver has it");
#endif

FAKE_API const fake_control_table *fake_control(void);
FAKE_API int cuInit(unsigned flags);
FAKE_API int cuDriverGetVersion(int *version);
FAKE_API int cuDeviceGetCount(int *count);
FAKE_API int cuDeviceGet(int *device, int number);
FAKE_API int cuDeviceGetAttribute(int *value, int attribute, int device);
FAKE_API int cuDeviceGetName(char *name, int size, int device);
FAKE_API int cuDeviceTotalMem_v2(size_t *bytes, int device);
FAKE_API int cuDevicePrimaryCtxRetain(void **context, int device);
FAKE_API int cuDevicePrimaryCtxRelease_v2(int device);
FAKE_API int cuCtxPushCurrent_v2(void *context);
FAKE_API int cuCtxPopCurrent_v2(void **context);
FAKE_API int cuMemGetInfo_v2(size_t *free, size_t *total);
FAKE_API int cuMemAlloc_v2(uintptr_t *address, size_t size);
FAKE_API int cuMemFree_v2(uintptr_t address);
FAKE_API int cuMemGetAddressRange_v2(uintptr_t *base, size_t *size, uintptr_t address);
FAKE_API int cuMemHostRegister_v2(void *memory, size_t size, unsigned flags);
FAKE_API int cuMemHostUnregister(void *memory);
FAKE_API int cuMemcpyHtoDAsync_v2(uintptr_t to, const void *from, size_t size, void *stream);
FAKE_API int cuMemcpyDtoHAsync_v2(void *to, uintptr_t from, size_t size, void *stream);
FAKE_API int cuMemcpy2DAsync_v2(const struct cuda_box *box, void *stream);
FAKE_API int cuStreamCreate(void **stream, unsigned flags);
FAKE_API int cuStreamDestroy_v2(void *stream);
FAKE_API int cuStreamWaitEvent(void *stream, void *event, unsigned flags);
FAKE_API int cuStreamSynchronize(void *stream);
FAKE_API int cuEventCreate(void **event, unsigned flags);
FAKE_API int cuEventDestroy_v2(void *event);
FAKE_API int cuEventRecord(void *event, void *stream);
FAKE_API int cuEventQuery(void *event);
FAKE_API int cuEventSynchronize(void *event);
FAKE_API int cuGetErrorName(int code, const char **name);

/* Handles of devices and contexts are not their numbers, so that one cannot be taken for the other. */
#define DEVICE_BASE 100
#define CONTEXT_BASE 0x7000

/* The contexts of a thread, as a stack. A driver that is lost leaves some on it, up to the next reset. */
static __thread int stack[16];
static __thread unsigned depth;
static __thread unsigned generation;

const fake_control_table *fake_control(void)
{
    return fake_machine_control();
}

int cuInit(unsigned flags)
{
    return flags != 0 ? FAKE_INVALID : fake_init(__func__);
}

int cuDriverGetVersion(int *version)
{
    const int code = fake_version(__func__, version);
    *version = *version == 0 ? 12040 : *version;
    return code;
}

int cuDeviceGetCount(int *count)
{
    return fake_count(__func__, count);
}

int cuDeviceGet(int *device, int number)
{
    *device = DEVICE_BASE + number;
    return fake_device(__func__, number);
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    const int code = fake_device(__func__, device - DEVICE_BASE);
    const long long bits = fake_setting("attributes");
    switch (attribute) {
    case 18:
        *value = (bits & 1) != 0;
        break;
    case 99:
        *value = (bits & 2) != 0;
        break;
    case 134:
        *value = 0;
        break;
    default:
        return FAKE_INVALID;
    }
    return code;
}

int cuDeviceGetName(char *name, int size, int device)
{
    snprintf(name, (size_t)size, "Fake GPU %d", device - DEVICE_BASE);
    return fake_device(__func__, device - DEVICE_BASE);
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    *bytes = (size_t)fake_setting("memory");
    return fake_device(__func__, device - DEVICE_BASE);
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    *context = (void *)(uintptr_t)(CONTEXT_BASE + device - DEVICE_BASE);
    return fake_retain(__func__, device - DEVICE_BASE);
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    return fake_release_context(__func__, device - DEVICE_BASE);
}

int cuCtxPushCurrent_v2(void *context)
{
    const int device = (int)((uintptr_t)context - CONTEXT_BASE);
    const int code = fake_enter(__func__);
    if (code != 0) {
        return code;
    }
    if (generation != fake_generation()) {
        generation = fake_generation();
        depth = 0;
        fake_set_current(-1);
    }
    if (!fake_retained(device) || depth == sizeof stack / sizeof stack[0]) {
        fake_blame("a context is made current that is not retained, or too many are");
        return FAKE_WRONG_CONTEXT;
    }
    stack[depth++] = fake_current();
    fake_set_current(device);
    return 0;
}

int cuCtxPopCurrent_v2(void **context)
{
    const int code = fake_enter(__func__);
    if (depth == 0) {
        fake_blame("a context is popped that was not pushed");
        return FAKE_WRONG_CONTEXT;
    }
    *context = (void *)(uintptr_t)(CONTEXT_BASE + fake_current());
    fake_set_current(stack[--depth]);
    return code;
}

int cuMemGetInfo_v2(size_t *free, size_t *total)
{
    return fake_capacity(__func__, free, total);
}

int cuMemAlloc_v2(uintptr_t *address, size_t size)
{
    return fake_allocate(__func__, address, size);
}

int cuMemFree_v2(uintptr_t address)
{
    return fake_release(__func__, address);
}

int cuMemGetAddressRange_v2(uintptr_t *base, size_t *size, uintptr_t address)
{
    return fake_range(__func__, base, size, address);
}

int cuMemHostRegister_v2(void *memory, size_t size, unsigned flags)
{
    return fake_register(__func__, memory, size, flags);
}

int cuMemHostUnregister(void *memory)
{
    return fake_unregister(__func__, memory);
}

int cuMemcpyHtoDAsync_v2(uintptr_t to, const void *from, size_t size, void *stream)
{
    const fake_box box = { to, size, (uint8_t *)(uintptr_t)from, size, size, 1, false };
    return fake_copy(__func__, &box, stream);
}

int cuMemcpyDtoHAsync_v2(void *to, uintptr_t from, size_t size, void *stream)
{
    const fake_box box = { from, size, to, size, size, 1, true };
    return fake_copy(__func__, &box, stream);
}

int cuMemcpy2DAsync_v2(const struct cuda_box *box, void *stream)
{
    const fake_box made = {
        box->to_device, box->to_pitch, (uint8_t *)(uintptr_t)box->from_host, box->from_pitch, box->width,
        box->rows,      false
    };
    if (box->from_type != 1 || box->to_type != 2 || box->from_x != 0 || box->from_y != 0 || box->to_x != 0 ||
        box->to_y != 0 || box->from_device != 0 || box->to_host != NULL) {
        fake_blame("a box that does not go from the host to the device");
        return FAKE_INVALID;
    }
    return fake_copy(__func__, &made, stream);
}

int cuStreamCreate(void **stream, unsigned flags)
{
    return fake_stream_new(__func__, stream, flags);
}

int cuStreamDestroy_v2(void *stream)
{
    return fake_stream_free(__func__, stream);
}

int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    return fake_stream_wait(__func__, stream, event, flags);
}

int cuStreamSynchronize(void *stream)
{
    return fake_stream_synchronize(__func__, stream);
}

int cuEventCreate(void **event, unsigned flags)
{
    return fake_event_new(__func__, event, flags);
}

int cuEventDestroy_v2(void *event)
{
    return fake_event_free(__func__, event);
}

int cuEventRecord(void *event, void *stream)
{
    return fake_event_record(__func__, event, stream);
}

#ifndef FAKE_INCOMPLETE
int cuEventQuery(void *event)
{
    return fake_event_query(__func__, event);
}
#endif

int cuEventSynchronize(void *event)
{
    return fake_event_synchronize(__func__, event);
}

int cuGetErrorName(int code, const char **name)
{
    *name = fake_error_name(code);
    return 0;
}
