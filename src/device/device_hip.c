/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AMD's devices, by HIP: libamdhip64. Its interface has no contexts; which device is current is a number of the thread, and
 * whoever uses it first makes what it needs.
 */
#include "driver.h"

#include <stddef.h>

/* hipMemcpyKind. */
enum { HIP_HOST_TO_DEVICE = 1, HIP_DEVICE_TO_HOST = 2 };

/* HIP counts devices by plain numbers, so there is no handle to look up and nothing to retain. */
typedef struct hip_driver {
    coffer__driver driver; /* first, see coffer__vendor.size */
    int (*device_name)(char *name, int size, int device);
    int (*device_total)(size_t *bytes, int device);
    int (*current)(int *device);
    int (*make_current)(int device);
    int (*copy)(void *to, const void *from, size_t size, int kind, void *stream);
    int (*copy_box)(void *to, size_t to_step, const void *from, size_t from_step, size_t width, size_t rows, int kind,
                    void *stream);
    const char *(*error_name)(int code);
    int device;
} hip_driver;

/* Pointers to functions are found by their offsets, so that one loop fills the common ones and the vendor's own. */
#define HIP_COMMON(member) (offsetof(hip_driver, driver.calls) + offsetof(coffer__driver_calls, member))

static const coffer__driver_symbol hip_symbols[] = {
    { "hipInit", HIP_COMMON(init) },
    { "hipDriverGetVersion", HIP_COMMON(version) },
    { "hipGetDeviceCount", HIP_COMMON(count) },
    { "hipMemGetInfo", HIP_COMMON(capacity) },
    { "hipMalloc", HIP_COMMON(allocate) },
    { "hipFree", HIP_COMMON(release) },
    { "hipMemGetAddressRange", HIP_COMMON(range) },
    { "hipHostRegister", HIP_COMMON(host_register) },
    { "hipHostUnregister", HIP_COMMON(host_unregister) },
    { "hipStreamCreateWithFlags", HIP_COMMON(stream_new) },
    { "hipStreamDestroy", HIP_COMMON(stream_free) },
    { "hipStreamWaitEvent", HIP_COMMON(stream_wait) },
    { "hipStreamSynchronize", HIP_COMMON(stream_synchronize) },
    { "hipEventCreateWithFlags", HIP_COMMON(event_new) },
    { "hipEventDestroy", HIP_COMMON(event_free) },
    { "hipEventRecord", HIP_COMMON(event_record) },
    { "hipEventQuery", HIP_COMMON(event_query) },
    { "hipEventSynchronize", HIP_COMMON(event_synchronize) },
    { "hipDeviceGetName", offsetof(hip_driver, device_name) },
    { "hipDeviceTotalMem", offsetof(hip_driver, device_total) },
    { "hipGetDevice", offsetof(hip_driver, current) },
    { "hipSetDevice", offsetof(hip_driver, make_current) },
    { "hipMemcpyAsync", offsetof(hip_driver, copy) },
    { "hipMemcpy2DAsync", offsetof(hip_driver, copy_box) },
    { "hipGetErrorName", offsetof(hip_driver, error_name) },
};

static const coffer__driver_trouble hip_troubles[] = {
    { 3, "HIP does not start in a process that was forked after it had started",
      "start the process by exec, in Python by the method \"spawn\"" },
    { 100, "HIP sees no device", "see whether rocm-smi lists one, and what HIP_VISIBLE_DEVICES says" },
    { 101, "HIP_VISIBLE_DEVICES, or the container, leaves a device that cannot be used",
      "see which devices rocm-smi lists" },
    { 0, "HIP does not start", "see what rocminfo says, and whether the module amdgpu is loaded" },
};

/* The common part is the first member, so both have one address. */
static hip_driver *hip_of(coffer__driver *driver)
{
    return (hip_driver *)driver;
}

/* An address of the device, as HIP takes it. */
static void *hip_pointer(uint64_t address)
{
    return (void *)(uintptr_t)address; /* NOLINT(performance-no-int-to-ptr): of the device, not of the host */
}

/* Read-only maps are not registered: that flag is CUDA's. Whether memory can be registered is not asked: a failure to
   register is answered where it happens. */
static int hip_facts(coffer__driver *driver, int32_t number, coffer__driver_facts *facts)
{
    const hip_driver *hip = hip_of(driver);
    facts->registers = true;
    const int code = hip->device_name(facts->name, (int)sizeof facts->name, number);
    return code != 0 ? code : hip->device_total(&facts->total, number);
}

/* Nothing is made here: the first call that needs the device makes what HIP keeps of it, once for the process. */
static int hip_attach(coffer__driver *driver, int32_t number)
{
    hip_of(driver)->device = number;
    return 0;
}

/* There is nothing to give back. To reset the device would destroy what a framework in this process has on it. */
static void hip_detach(coffer__driver *driver)
{
    (void)driver;
}

/* Which device is current belongs to the thread, and the thread is the caller's: without the number from before, a
   framework that had chosen another device would find its next kernels on this one. */
static int hip_enter(coffer__driver *driver, coffer__device_visit *visit)
{
    const hip_driver *hip = hip_of(driver);
    int previous = 0;
    const int code = hip->current(&previous);
    visit->previous = previous;
    return code != 0 ? code : hip->make_current(hip->device);
}

static int hip_leave(coffer__driver *driver, const coffer__device_visit *visit)
{
    return hip_of(driver)->make_current(visit->previous);
}

/* The direction is named, not left to HIP to find out by the addresses: memory that is not registered is unknown to
   it. */
static int hip_copy(coffer__driver *driver, void *stream, const coffer__strided_copy *copy, const uint8_t *bytes)
{
    const hip_driver *hip = hip_of(driver);
    if (copy->runs == 1) {
        return hip->copy(hip_pointer(copy->to), bytes, (size_t)copy->width, HIP_HOST_TO_DEVICE, stream);
    }
    return hip->copy_box(hip_pointer(copy->to), (size_t)copy->to_step, bytes, (size_t)copy->from_step,
                         (size_t)copy->width, (size_t)copy->runs, HIP_HOST_TO_DEVICE, stream);
}

/* The addresses change sides, so the direction is named here as well. */
static int hip_read(coffer__driver *driver, void *stream, uint64_t address, void *buffer, size_t size)
{
    return hip_of(driver)->copy(buffer, hip_pointer(address), size, HIP_DEVICE_TO_HOST, stream);
}

static const char *hip_words(coffer__driver *driver, int code)
{
    const char *name = hip_of(driver)->error_name(code);
    return name != NULL ? name : "an error without a name";
}

/* Several names of the library are tried, the newest first: each version of its ABI has its own, and the name without
   a version is there only where programs are built. */
const coffer__vendor coffer__hip = {
    .kind = COFFER_DEVICE_HIP,
    .prefix = "hip",
    .noun = "HIP",
    .libraries = { "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so", NULL },
    .missing = "install ROCm; in a container, start it with --device /dev/kfd --device /dev/dri",
    .node = "/dev/kfd",
    .least = 50000000,
    .least_words = "update ROCm to version 5.0 or newer",
    .symbols = hip_symbols,
    .symbol_count = sizeof hip_symbols / sizeof hip_symbols[0],
    .troubles = hip_troubles,
    .size = sizeof(hip_driver),
    .facts = hip_facts,
    .attach = hip_attach,
    .detach = hip_detach,
    .enter = hip_enter,
    .leave = hip_leave,
    .copy = hip_copy,
    .read = hip_read,
    .words = hip_words,
};

coffer_status coffer__hip_open(coffer_device *device, coffer_error *err)
{
    return coffer__driver_open(device, &coffer__hip, err);
}
