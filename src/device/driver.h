/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the drivers of accelerators have in common. CUDA's and HIP's have the same functions with the same arguments and
 * numbers, under other names; what differs is a vendor's table. Vendors' headers are not needed: functions are found by
 * name and called through pointers of the documented types.
 *
 *   coffer__driver   one opened device's state: the library, its functions, and whether the driver still works
 *   coffer__vendor   names, functions and words of one vendor
 *
 * A vendor's own functions answer with a code of the driver, 0 for success; this file turns them into statuses.
 * Addresses of the device are as wide as pointers in both.
 */
#ifndef COFFER_DEVICE_DRIVER_H
#define COFFER_DEVICE_DRIVER_H

#include "device.h"

#include <stdatomic.h>

/* Codes that both drivers have. From LOST_FIRST to LOST_LAST the device is lost, with two exceptions. */
enum {
    COFFER__DRIVER_INVALID = 1,
    COFFER__DRIVER_MEMORY = 2,
    COFFER__DRIVER_ENDED = 4,
    COFFER__DRIVER_BIT_ERROR = 214,
    COFFER__DRIVER_LINK_ERROR = 220,
    COFFER__DRIVER_NOT_READY = 600,
    COFFER__DRIVER_LOST_FIRST = 700,
    COFFER__DRIVER_REGISTERED = 712,
    COFFER__DRIVER_NOT_REGISTERED = 713,
    COFFER__DRIVER_LOST_LAST = 719
};

typedef struct coffer__driver_calls {
    int (*init)(unsigned flags);
    int (*version)(int *version);
    int (*count)(int *count);
    int (*capacity)(size_t *free, size_t *total);
    int (*allocate)(uintptr_t *address, size_t size);
    int (*release)(uintptr_t address);
    int (*range)(uintptr_t *base, size_t *size, uintptr_t address);
    int (*host_register)(void *memory, size_t size, unsigned flags);
    int (*host_unregister)(void *memory);
    int (*stream_new)(void **stream, unsigned flags);
    int (*stream_free)(void *stream);
    int (*stream_wait)(void *stream, void *event, unsigned flags);
    int (*stream_synchronize)(void *stream);
    int (*event_new)(void **event, unsigned flags);
    int (*event_free)(void *event);
    int (*event_record)(void *event, void *stream);
    int (*event_query)(void *event);
    int (*event_synchronize)(void *event);
} coffer__driver_calls;

/* Where the address of a function goes: its place in the vendor's struct. */
typedef struct coffer__driver_symbol {
    const char *name;
    size_t place;
} coffer__driver_symbol;

/* What a device says of itself before anything is made on it. */
typedef struct coffer__driver_facts {
    char name[128];
    size_t total;
    bool integrated;
    bool registers;
    int32_t node; /* as coffer_device.node */
} coffer__driver_facts;

/* A code with which a driver refuses to start: what it means and what to do. */
typedef struct coffer__driver_trouble {
    int code;
    const char *why;
    const char *advice;
} coffer__driver_trouble;

typedef struct coffer__driver coffer__driver;

typedef struct coffer__vendor {
    coffer_device_kind kind;
    const char *prefix;       /* "cuda" */
    const char *noun;         /* "the NVIDIA driver" */
    const char *libraries[4]; /* tried in this order, up to a NULL */
    const char *missing;      /* what to do when there is none */
    const char *node;         /* a device file that this process has to be allowed to open */
    int least;                /* the version that has all functions, as the driver numbers it */
    const char *least_words;  /* the same version in words */
    const coffer__driver_symbol *symbols;
    size_t symbol_count;
    const coffer__driver_trouble *troubles; /* the last has code 0: what is not listed */
    size_t size;                            /* of the vendor's struct, which begins with a coffer__driver */
    int (*facts)(coffer__driver *driver, int32_t number, coffer__driver_facts *facts);
    int (*attach)(coffer__driver *driver, int32_t number); /* what was made is undone by itself when it fails */
    void (*detach)(coffer__driver *driver);
    int (*enter)(coffer__driver *driver, coffer__device_visit *visit);
    int (*leave)(coffer__driver *driver, const coffer__device_visit *visit);
    int (*copy)(coffer__driver *driver, void *stream, const coffer__strided_copy *copy, const uint8_t *bytes);
    int (*read)(coffer__driver *driver, void *stream, uint64_t address, void *buffer, size_t size);
    const char *(*words)(coffer__driver *driver, int code); /* static; never NULL */
} coffer__vendor;

struct coffer__driver {
    const coffer__vendor *vendor;
    coffer__os_library library;
    coffer__driver_calls calls;
    uint64_t process; /* that opened it */
    coffer__mutex mutex;
    atomic_bool lost;
    coffer_error failure; /* that made it lost; set once, under the mutex, before `lost` is */
};

/* coffer__cuda_open and its like. */
coffer_status coffer__driver_open(coffer_device *device, const coffer__vendor *vendor, coffer_error *err);
/* Visits the vendor's devices, or one facility that says why there are none. *ended: the visitor wants no more. */
coffer_status coffer__driver_list(const coffer__vendor *vendor, const coffer_allocator *allocator,
                                  coffer_facility_visitor visit, void *ctx, bool *ended, coffer_error *err);

extern const coffer__vendor coffer__cuda;
extern const coffer__vendor coffer__hip;

#endif
