/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's devices, by the driver's own interface: libcuda.so.1. Names that end in _v2 are those whose sizes and
 * addresses have 64 bits; the same names without it are an older interface that is still there.
 *
 * The context is the device's primary one, which frameworks use too, so that their memory and streams are valid here.
 * It is retained on the asked device alone: a context takes some hundred megabytes of the device's memory.
 */
#include "driver.h"

#include <stddef.h>
#include <string.h>

/* CUdevice_attribute. The numbers are part of the ABI: attributes are only ever added. */
enum { CUDA_INTEGRATED = 18, CUDA_HOST_REGISTER = 99, CUDA_HOST_NUMA = 134 };

/* CUmemorytype, for CUDA_MEMCPY2D. */
enum { CUDA_HOST_MEMORY = 1, CUDA_DEVICE_MEMORY = 2 };

/* CUDA_MEMCPY2D_v2: a box of bytes. Offsets within the two sides come first in each. The driver reads this struct by
   its layout, so the members stand in its order and none may be left out; those that are not used have to be zero. */
typedef struct cuda_box {
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
} cuda_box;

typedef struct cuda_driver {
    coffer__driver driver; /* first, see coffer__vendor.size */
    int (*device_get)(int *device, int number);
    int (*device_attribute)(int *value, int attribute, int device);
    int (*device_name)(char *name, int size, int device);
    int (*device_total)(size_t *bytes, int device);
    int (*context_retain)(void **context, int device);
    int (*context_release)(int device);
    int (*context_push)(void *context);
    int (*context_pop)(void **context);
    int (*copy_to)(uintptr_t to, const void *from, size_t size, void *stream);
    int (*copy_box)(const cuda_box *box, void *stream);
    int (*copy_from)(void *to, uintptr_t from, size_t size, void *stream);
    int (*error_name)(int code, const char **name);
    int device;
    void *context;
} cuda_driver;

/* Pointers to functions are found by their offsets, so that one loop fills the common ones and the vendor's own. */
#define CUDA_COMMON(member) (offsetof(cuda_driver, driver.calls) + offsetof(coffer__driver_calls, member))

static const coffer__driver_symbol cuda_symbols[] = {
    { "cuInit", CUDA_COMMON(init) },
    { "cuDriverGetVersion", CUDA_COMMON(version) },
    { "cuDeviceGetCount", CUDA_COMMON(count) },
    { "cuMemGetInfo_v2", CUDA_COMMON(capacity) },
    { "cuMemAlloc_v2", CUDA_COMMON(allocate) },
    { "cuMemFree_v2", CUDA_COMMON(release) },
    { "cuMemGetAddressRange_v2", CUDA_COMMON(range) },
    { "cuMemHostRegister_v2", CUDA_COMMON(host_register) },
    { "cuMemHostUnregister", CUDA_COMMON(host_unregister) },
    { "cuStreamCreate", CUDA_COMMON(stream_new) },
    { "cuStreamDestroy_v2", CUDA_COMMON(stream_free) },
    { "cuStreamWaitEvent", CUDA_COMMON(stream_wait) },
    { "cuStreamSynchronize", CUDA_COMMON(stream_synchronize) },
    { "cuEventCreate", CUDA_COMMON(event_new) },
    { "cuEventDestroy_v2", CUDA_COMMON(event_free) },
    { "cuEventRecord", CUDA_COMMON(event_record) },
    { "cuEventQuery", CUDA_COMMON(event_query) },
    { "cuEventSynchronize", CUDA_COMMON(event_synchronize) },
    { "cuDeviceGet", offsetof(cuda_driver, device_get) },
    { "cuDeviceGetAttribute", offsetof(cuda_driver, device_attribute) },
    { "cuDeviceGetName", offsetof(cuda_driver, device_name) },
    { "cuDeviceTotalMem_v2", offsetof(cuda_driver, device_total) },
    { "cuDevicePrimaryCtxRetain", offsetof(cuda_driver, context_retain) },
    { "cuDevicePrimaryCtxRelease_v2", offsetof(cuda_driver, context_release) },
    { "cuCtxPushCurrent_v2", offsetof(cuda_driver, context_push) },
    { "cuCtxPopCurrent_v2", offsetof(cuda_driver, context_pop) },
    { "cuMemcpyHtoDAsync_v2", offsetof(cuda_driver, copy_to) },
    { "cuMemcpy2DAsync_v2", offsetof(cuda_driver, copy_box) },
    { "cuMemcpyDtoHAsync_v2", offsetof(cuda_driver, copy_from) },
    { "cuGetErrorName", offsetof(cuda_driver, error_name) },
};

/* By codes, which are part of the driver's ABI; its own words for them name the constant and not the cause. */
static const coffer__driver_trouble cuda_troubles[] = {
    { 3, "the driver does not start in a process that was forked after it had started",
      "start the process by exec, in Python by the method \"spawn\"" },
    { 34, "libcuda.so.1 is the stub that programs are linked with, not the driver",
      "take the folder of stubs out of LD_LIBRARY_PATH" },
    { 46, "all devices are in use by other processes, or set to refuse them",
      "see the compute mode and the processes in nvidia-smi" },
    { 100, "the driver sees no device", "see whether nvidia-smi lists one, and what CUDA_VISIBLE_DEVICES says" },
    { 101, "CUDA_VISIBLE_DEVICES, or the container, leaves a device that cannot be used",
      "see which devices nvidia-smi -L lists" },
    { 304, "the system refused what the driver wants of it",
      "see whether the files /dev/nvidia* exist here and may be opened" },
    { 802, "the machine's devices are not ready yet", "see whether the service nvidia-fabricmanager runs" },
    { 803, "libcuda.so.1 and the kernel's module are of different versions",
      "restart after the driver's update; in a container, use the host's libcuda.so.1" },
    { 804, "the compatibility library of a newer CUDA does not work with this device",
      "take it out of LD_LIBRARY_PATH, or update the driver" },
    { 0, "the driver does not start", "see what nvidia-smi says, and whether the module nvidia_uvm is loaded" },
};

/* The common part is the first member, so both have one address. */
static cuda_driver *cuda_of(coffer__driver *driver)
{
    return (cuda_driver *)driver;
}

/* An attribute that an older driver does not know stays what it is. Later drivers have learned more attributes, and
   all of those asked for have a safe default: refusing a device for one of them would help nobody. */
static int cuda_attribute(const cuda_driver *cuda, int attribute, int device, int *value)
{
    int found = 0;
    const int code = cuda->device_attribute(&found, attribute, device);
    if (code == 0) {
        *value = found;
    }
    return code == COFFER__DRIVER_INVALID ? 0 : code;
}

/* The defaults in `values` are what a driver was before it knew the attribute: it registered memory, and said nothing
   of nodes. */
static int cuda_attributes(const cuda_driver *cuda, int device, coffer__driver_facts *facts)
{
    enum { INTEGRATED, REGISTERS, NODE, COUNT };
    static const int attributes[COUNT] = { CUDA_INTEGRATED, CUDA_HOST_REGISTER, CUDA_HOST_NUMA };
    /* In the order of the attributes. */
    int values[COUNT] = { 0, 1, -1 };
    for (size_t i = 0; i < COUNT; i++) {
        const int code = cuda_attribute(cuda, attributes[i], device, &values[i]);
        if (code != 0) {
            return code;
        }
    }
    facts->integrated = values[INTEGRATED] != 0;
    facts->registers = values[REGISTERS] != 0;
    facts->node = values[NODE];
    return 0;
}

/* All of these work without a context, so that listing devices makes nothing on any of them. */
static int cuda_facts(coffer__driver *driver, int32_t number, coffer__driver_facts *facts)
{
    const cuda_driver *cuda = cuda_of(driver);
    int device = 0;
    int code = cuda->device_get(&device, number);
    if (code == 0) {
        code = cuda->device_name(facts->name, (int)sizeof facts->name, device);
    }
    if (code == 0) {
        code = cuda->device_total(&facts->total, device);
    }
    return code != 0 ? code : cuda_attributes(cuda, device, facts);
}

/* The context is counted by the driver: frameworks that use it too keep it alive after detaching, and have it before
   attaching. */
static int cuda_attach(coffer__driver *driver, int32_t number)
{
    cuda_driver *cuda = cuda_of(driver);
    const int code = cuda->device_get(&cuda->device, number);
    return code != 0 ? code : cuda->context_retain(&cuda->context, cuda->device);
}

/* Everything that was made in the context has been released by now: where this was its last user the context goes
   with all its memory. */
static void cuda_detach(coffer__driver *driver)
{
    const cuda_driver *cuda = cuda_of(driver);
    (void)cuda->context_release(cuda->device);
}

/* Contexts are a stack on each thread, so what was current comes back by itself. */
static int cuda_enter(coffer__driver *driver, coffer__device_visit *visit)
{
    const cuda_driver *cuda = cuda_of(driver);
    visit->previous = 0;
    return cuda->context_push(cuda->context);
}

static int cuda_leave(coffer__driver *driver, const coffer__device_visit *visit)
{
    void *popped = NULL;
    (void)visit;
    return cuda_of(driver)->context_pop(&popped);
}

/* A single run goes by the plain copy: the driver refuses boxes whose pitch exceeds a limit of the device, which the
   steps of one run, being of no meaning, could do. */
static int cuda_copy(coffer__driver *driver, void *stream, const coffer__strided_copy *copy, const uint8_t *bytes)
{
    const cuda_driver *cuda = cuda_of(driver);
    if (copy->runs == 1) {
        return cuda->copy_to((uintptr_t)copy->to, bytes, (size_t)copy->width, stream);
    }
    const cuda_box box = {
        .from_type = CUDA_HOST_MEMORY,
        .from_host = bytes,
        .from_pitch = (size_t)copy->from_step,
        .to_type = CUDA_DEVICE_MEMORY,
        .to_device = (uintptr_t)copy->to,
        .to_pitch = (size_t)copy->to_step,
        .width = (size_t)copy->width,
        .rows = (size_t)copy->runs,
    };
    return cuda->copy_box(&box, stream);
}

/* On the stream's own stream the copy is ordered with nothing else: who reads has waited for what wrote there. */
static int cuda_read(coffer__driver *driver, void *stream, uint64_t address, void *buffer, size_t size)
{
    return cuda_of(driver)->copy_from(buffer, (uintptr_t)address, size, stream);
}

/* This function works before the driver was started and after it was lost, so that it may be called for any code. */
static const char *cuda_words(coffer__driver *driver, int code)
{
    const char *name = NULL;
    return cuda_of(driver)->error_name(code, &name) == 0 && name != NULL ? name : "an error without a name";
}

const coffer__vendor coffer__cuda = {
    .kind = COFFER_DEVICE_CUDA,
    .prefix = "cuda",
    .noun = "the NVIDIA driver",
    .libraries = { "libcuda.so.1", NULL },
    .missing = "install the driver; in a container, start it with its devices (docker run --gpus all)",
    .node = "/dev/nvidiactl",
    .least = 11000,
    .least_words = "update it to version 450 (CUDA 11.0) or newer",
    .symbols = cuda_symbols,
    .symbol_count = sizeof cuda_symbols / sizeof cuda_symbols[0],
    .troubles = cuda_troubles,
    .size = sizeof(cuda_driver),
    .facts = cuda_facts,
    .attach = cuda_attach,
    .detach = cuda_detach,
    .enter = cuda_enter,
    .leave = cuda_leave,
    .copy = cuda_copy,
    .read = cuda_read,
    .words = cuda_words,
};

coffer_status coffer__cuda_open(coffer_device *device, coffer_error *err)
{
    return coffer__driver_open(device, &coffer__cuda, err);
}
