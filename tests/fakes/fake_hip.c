/* SPDX-License-Identifier: Apache-2.0 */
/* A libamdhip64 without a device behind it: the functions that the library uses, on the machine of fake_driver.c. */
#include "fake_driver.h"

#include <stdio.h>

FAKE_API const fake_control_table *fake_control(void);
FAKE_API int hipInit(unsigned flags);
FAKE_API int hipDriverGetVersion(int *version);
FAKE_API int hipGetDeviceCount(int *count);
FAKE_API int hipDeviceGetName(char *name, int size, int device);
FAKE_API int hipDeviceTotalMem(size_t *bytes, int device);
FAKE_API int hipGetDevice(int *device);
FAKE_API int hipSetDevice(int device);
FAKE_API int hipMemGetInfo(size_t *free, size_t *total);
FAKE_API int hipMalloc(uintptr_t *address, size_t size);
FAKE_API int hipFree(uintptr_t address);
FAKE_API int hipMemGetAddressRange(uintptr_t *base, size_t *size, uintptr_t address);
FAKE_API int hipHostRegister(void *memory, size_t size, unsigned flags);
FAKE_API int hipHostUnregister(void *memory);
FAKE_API int hipMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream);
FAKE_API int hipMemcpy2DAsync(void *to, size_t to_step, const void *from, size_t from_step, size_t width, size_t rows,
                              int kind, void *stream);
FAKE_API int hipStreamCreateWithFlags(void **stream, unsigned flags);
FAKE_API int hipStreamDestroy(void *stream);
FAKE_API int hipStreamWaitEvent(void *stream, void *event, unsigned flags);
FAKE_API int hipStreamSynchronize(void *stream);
FAKE_API int hipEventCreateWithFlags(void **event, unsigned flags);
FAKE_API int hipEventDestroy(void *event);
FAKE_API int hipEventRecord(void *event, void *stream);
FAKE_API int hipEventQuery(void *event);
FAKE_API int hipEventSynchronize(void *event);
FAKE_API const char *hipGetErrorName(int code);

const fake_control_table *fake_control(void)
{
    return fake_machine_control();
}

int hipInit(unsigned flags)
{
    return flags != 0 ? FAKE_INVALID : fake_init(__func__);
}

int hipDriverGetVersion(int *version)
{
    const int code = fake_version(__func__, version);
    *version = *version == 0 ? 60000000 : *version;
    return code;
}

int hipGetDeviceCount(int *count)
{
    return fake_count(__func__, count);
}

int hipDeviceGetName(char *name, int size, int device)
{
    snprintf(name, (size_t)size, "Fake AMD GPU %d", device);
    return fake_device(__func__, device);
}

int hipDeviceTotalMem(size_t *bytes, int device)
{
    *bytes = (size_t)fake_setting("memory");
    return fake_device(__func__, device);
}

/* A thread that has not said so uses the first device. */
int hipGetDevice(int *device)
{
    *device = fake_current() < 0 ? 0 : fake_current();
    return fake_enter(__func__);
}

int hipSetDevice(int device)
{
    const int code = fake_device(__func__, device);
    if (code == 0) {
        fake_set_current(device);
    }
    return code;
}

int hipMemGetInfo(size_t *free, size_t *total)
{
    return fake_capacity(__func__, free, total);
}

int hipMalloc(uintptr_t *address, size_t size)
{
    return fake_allocate(__func__, address, size);
}

int hipFree(uintptr_t address)
{
    return fake_release(__func__, address);
}

int hipMemGetAddressRange(uintptr_t *base, size_t *size, uintptr_t address)
{
    return fake_range(__func__, base, size, address);
}

int hipHostRegister(void *memory, size_t size, unsigned flags)
{
    return fake_register(__func__, memory, size, flags);
}

int hipHostUnregister(void *memory)
{
    return fake_unregister(__func__, memory);
}

int hipMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream)
{
    return hipMemcpy2DAsync(to, size, from, size, size, 1, kind, stream);
}

int hipMemcpy2DAsync(void *to, size_t to_step, const void *from, size_t from_step, size_t width, size_t rows, int kind,
                     void *stream)
{
    fake_box box = { (uintptr_t)to, to_step, (uint8_t *)(uintptr_t)from, from_step, width, rows, kind == 2 };
    if (kind == 2) {
        box = (fake_box){ (uintptr_t)from, from_step, to, to_step, width, rows, true };
    } else if (kind != 1) {
        fake_blame("a copy of another kind than from the host or to it");
    }
    return fake_copy(rows == 1 ? "hipMemcpyAsync" : __func__, &box, stream);
}

int hipStreamCreateWithFlags(void **stream, unsigned flags)
{
    return fake_stream_new(__func__, stream, flags);
}

int hipStreamDestroy(void *stream)
{
    return fake_stream_free(__func__, stream);
}

int hipStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    return fake_stream_wait(__func__, stream, event, flags);
}

int hipStreamSynchronize(void *stream)
{
    return fake_stream_synchronize(__func__, stream);
}

int hipEventCreateWithFlags(void **event, unsigned flags)
{
    return fake_event_new(__func__, event, flags);
}

int hipEventDestroy(void *event)
{
    return fake_event_free(__func__, event);
}

int hipEventRecord(void *event, void *stream)
{
    return fake_event_record(__func__, event, stream);
}

int hipEventQuery(void *event)
{
    return fake_event_query(__func__, event);
}

int hipEventSynchronize(void *event)
{
    return fake_event_synchronize(__func__, event);
}

const char *hipGetErrorName(int code)
{
    return fake_error_name(code);
}
