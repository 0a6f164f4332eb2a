/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine behind the fakes of CUDA and HIP: devices with memory, streams, events and registered memory of the host. The files with
 * the drivers' names are thin on top of it; each library has a machine of its own.
 *
 *   - Device memory has an address that nobody may touch: the bytes are elsewhere, so the host dies where it takes one for
 *     the other.
 *   - A stream is a thread with a queue. It waits a little before each copy and reads the source then, so that memory
 *     that is used again too early shows as wrong bytes, and as a race to ThreadSanitizer.
 *   - What the caller does wrong is remembered: handles that are none, ranges outside of a block, a wrong device or none
 *     that is current, memory that is released while copies need it.
 *
 * Every function returns the driver's code. Those with a `name` are one call of the driver's function of that name.
 */
#ifndef COFFER_TESTS_FAKE_DRIVER_H
#define COFFER_TESTS_FAKE_DRIVER_H

#include "fake_control.h"

#include <stdbool.h>

#define FAKE_API __attribute__((visibility("default")))

enum {
    FAKE_INVALID = 1,
    FAKE_MEMORY = 2,
    FAKE_NOT_STARTED = 3,
    FAKE_NO_DEVICE = 100,
    FAKE_WRONG_DEVICE = 101,
    FAKE_WRONG_CONTEXT = 201,
    FAKE_WRONG_HANDLE = 400,
    FAKE_NOT_READY = 600
};

typedef struct fake_box {
    uintptr_t device;
    size_t device_step;
    uint8_t *host;
    size_t host_step;
    size_t width;
    size_t rows;
    bool to_host;
} fake_box;

/* Counts a call, and answers with the code that it is to fail with; 0: it goes on. */
int fake_enter(const char *name);
/* The number of a setting. */
long long fake_setting(const char *name);
void fake_blame(const char *mistake);

int fake_init(const char *name);
int fake_version(const char *name, int *version);
int fake_count(const char *name, int *count);
int fake_device(const char *name, int number); /* whether there is that device */
const char *fake_error_name(int code);

/* Which device is current on this thread; -1: none. */
int fake_current(void);
void fake_set_current(int device);
unsigned fake_generation(void); /* how often everything was forgotten */
int fake_retain(const char *name, int device);
int fake_release_context(const char *name, int device);
bool fake_retained(int device);

int fake_capacity(const char *name, size_t *free, size_t *total);
int fake_allocate(const char *name, uintptr_t *address, size_t size);
int fake_release(const char *name, uintptr_t address);
int fake_range(const char *name, uintptr_t *base, size_t *size, uintptr_t address);
int fake_register(const char *name, void *memory, size_t size, unsigned flags);
int fake_unregister(const char *name, void *memory);
int fake_copy(const char *name, const fake_box *box, void *stream);
int fake_stream_new(const char *name, void **stream, unsigned flags);
int fake_stream_free(const char *name, void *stream);
int fake_stream_wait(const char *name, void *stream, void *event, unsigned flags);
int fake_stream_synchronize(const char *name, void *stream);
int fake_event_new(const char *name, void **event, unsigned flags);
int fake_event_free(const char *name, void *event);
int fake_event_record(const char *name, void *event, void *stream);
int fake_event_query(const char *name, void *event);
int fake_event_synchronize(const char *name, void *event);

const fake_control_table *fake_machine_control(void);

#endif
