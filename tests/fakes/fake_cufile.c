/* SPDX-License-Identifier: Apache-2.0 */
/* A libcufile.so.0 without storage behind it: it reads with pread into the memory of the fake CUDA device. What fails is chosen
   by the settings of fake_cufile.h. */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "fake_cufile.h"
#include "fake_control.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CUFILE_API __attribute__((visibility("default")))

struct cufile_result {
    int code;
    int driver;
};

struct cufile_description {
    int kind;
    union {
        int fd;
        void *handle;
    } of;
    const void *functions;
};

struct cufile_properties {
    unsigned version[2];
    size_t sizes[2];
    unsigned storage;
    unsigned control;
    unsigned features;
    unsigned limits[5];
};

#if UINTPTR_MAX > UINT32_MAX
_Static_assert(sizeof(struct cufile_description) == 24 && offsetof(struct cufile_description, of) == 8,
               "as cuFile has it");
_Static_assert(sizeof(struct cufile_properties) == 56 && offsetof(struct cufile_properties, storage) == 24,
               "as cuFile has it");
#endif

CUFILE_API const fake_cufile_table *fake_cufile_control(void);
CUFILE_API struct cufile_result cuFileDriverOpen(void);
CUFILE_API struct cufile_result cuFileDriverClose_v2(void);
CUFILE_API struct cufile_result cuFileDriverGetProperties(struct cufile_properties *properties);
CUFILE_API struct cufile_result cuFileHandleRegister(void **handle, struct cufile_description *description);
CUFILE_API void cuFileHandleDeregister(void *handle);
CUFILE_API ptrdiff_t cuFileRead(void *handle, void *base, size_t size, int64_t offset, int64_t base_offset);

static struct {
    pthread_mutex_t lock;
    fake_cufile_settings settings;
    const fake_control_table *device;
    fake_cufile_counts counts;
} cufile = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void control_begin(const fake_cufile_settings *settings, const fake_control_table *device)
{
    pthread_mutex_lock(&cufile.lock);
    cufile.settings = *settings;
    cufile.device = device;
    memset(&cufile.counts, 0, sizeof cufile.counts);
    pthread_mutex_unlock(&cufile.lock);
}

static fake_cufile_counts control_seen(void)
{
    pthread_mutex_lock(&cufile.lock);
    const fake_cufile_counts counts = cufile.counts;
    pthread_mutex_unlock(&cufile.lock);
    return counts;
}

const fake_cufile_table *fake_cufile_control(void)
{
    static const fake_cufile_table table = { control_begin, control_seen };
    return &table;
}

struct cufile_result cuFileDriverOpen(void)
{
    pthread_mutex_lock(&cufile.lock);
    cufile.counts.drivers += cufile.settings.open == 0 ? 1 : 0;
    const struct cufile_result result = { cufile.settings.open, 0 };
    pthread_mutex_unlock(&cufile.lock);
    return result;
}

struct cufile_result cuFileDriverClose_v2(void)
{
    pthread_mutex_lock(&cufile.lock);
    cufile.counts.drivers--;
    pthread_mutex_unlock(&cufile.lock);
    return (struct cufile_result){ 0, 0 };
}

struct cufile_result cuFileDriverGetProperties(struct cufile_properties *properties)
{
    memset(properties, 0, sizeof *properties);
    properties->storage = cufile.settings.storage;
    return (struct cufile_result){ 0, 0 };
}

/* A handle is a block with the descriptor in it. */
struct cufile_result cuFileHandleRegister(void **handle, struct cufile_description *description)
{
    pthread_mutex_lock(&cufile.lock);
    struct cufile_result result = { cufile.settings.add, 0 };
    if (description->kind != 1 || fcntl(description->of.fd, F_GETFD) < 0) {
        result.code = 5008;
    }
    if (result.code == 0) {
        int *made = malloc(sizeof *made);
        *made = description->of.fd;
        *handle = made;
        cufile.counts.files++;
    }
    pthread_mutex_unlock(&cufile.lock);
    return result;
}

void cuFileHandleDeregister(void *handle)
{
    pthread_mutex_lock(&cufile.lock);
    cufile.counts.files--;
    pthread_mutex_unlock(&cufile.lock);
    free(handle);
}

ptrdiff_t cuFileRead(void *handle, void *base, size_t size, int64_t offset, int64_t base_offset)
{
    pthread_mutex_lock(&cufile.lock);
    const fake_cufile_settings settings = cufile.settings;
    const size_t number = ++cufile.counts.reads;
    pthread_mutex_unlock(&cufile.lock);
    if (settings.read != 0 && number > settings.after) {
        errno = EIO;
        return settings.read;
    }
    const size_t most = settings.most != 0 && size > settings.most ? settings.most : size;
    uint8_t *to = cufile.device->bytes((uintptr_t)base + (uint64_t)base_offset, most);
    if (to == NULL) {
        return -5030;
    }
    /* pread to an address that suits no block: through memory of its own, for descriptors that read past the page cache. */
    uint8_t *aside = aligned_alloc(4096, (most + 3 * 4096) / 4096 * 4096);
    const int64_t begin = offset / 4096 * 4096;
    const size_t whole = ((size_t)(offset - begin) + most + 4095) / 4096 * 4096;
    const ssize_t got = pread(*(int *)handle, aside, whole, begin);
    const ssize_t wanted = got - (ssize_t)(offset - begin);
    const size_t copied = wanted < 0 ? 0 : (size_t)wanted < most ? (size_t)wanted : most;
    memcpy(to, aside + (offset - begin), copied);
    free(aside);
    return got < 0 ? -1 : (ptrdiff_t)copied;
}
