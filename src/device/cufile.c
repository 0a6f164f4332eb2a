/* SPDX-License-Identifier: Apache-2.0 */
/* What is used of cuFile's ABI, under names of our own:
 *
 *   CUfileError_t      two ints, returned by value: cuFile's code, then the driver's
 *   CUfileDescr_t      24 bytes: kind at 0 (1: a descriptor), the descriptor at 8, functions at 16
 *   CUfileDrvProps_t   56 bytes: bits of what storage can be read at 24
 */
#include "cufile.h"

#include "alloc.h"
#include "error.h"

#include <errno.h>
#include <stddef.h>

enum { CUFILE_BY_DESCRIPTOR = 1 };

/* Bits of storage: disks of this system (NVMe, over fabrics, SCSI, and NVMe without a kernel module of NVIDIA's), and file
   systems of the network. */
#define CUFILE_DISKS ((1u << 4) | (1u << 5) | (1u << 6) | (1u << 7) | (1u << 8) | (1u << 11))
#define CUFILE_NETWORKS ((1u << 0) | (1u << 1) | (1u << 2) | (1u << 3) | (1u << 9) | (1u << 10) | (1u << 12))

typedef struct cufile_result {
    int code;
    int driver;
} cufile_result;

/* The functions are for file systems in user space, and stay NULL. */
typedef struct cufile_description {
    int kind;
    union {
        int fd;
        void *handle;
    } of;
    const void *functions;
} cufile_description;

/* cuFile writes all 56 bytes; only the bits of storage are used, and the rest is there for its size. */
typedef struct cufile_properties {
    unsigned version[2];
    size_t sizes[2];
    unsigned storage;
    unsigned control;
    unsigned features;
    unsigned limits[5];
} cufile_properties;

/* The table below writes into the pointers by their offsets; the types are those of cuFile's documentation, since
   nothing else checks them. */
struct coffer__cufile {
    coffer_allocator allocator;
    coffer__os_library library;
    cufile_result (*driver_open)(void);
    cufile_result (*driver_close)(void);
    cufile_result (*properties)(cufile_properties *properties);
    cufile_result (*add)(void **handle, cufile_description *description);
    void (*deregister)(void *handle);
    ptrdiff_t (*read)(void *handle, void *base, size_t size, int64_t offset, int64_t base_offset);
    unsigned storage; /* bits of what can be read */
};

static const struct cufile_row {
    const char *name;
    size_t place;
} cufile_rows[] = {
    { "cuFileDriverOpen", offsetof(coffer__cufile, driver_open) },
    { "cuFileDriverClose_v2", offsetof(coffer__cufile, driver_close) },
    { "cuFileDriverGetProperties", offsetof(coffer__cufile, properties) },
    { "cuFileHandleRegister", offsetof(coffer__cufile, add) },
    { "cuFileHandleDeregister", offsetof(coffer__cufile, deregister) },
    { "cuFileRead", offsetof(coffer__cufile, read) },
};

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Every function is found before one is called, so that a library that is too old is refused as a whole and can be
   closed again. */
static coffer_status cufile_load(coffer__cufile *cufile, coffer_error *err)
{
    if (!coffer__os_library_open(&cufile->library, "libcufile.so.0")) {
        return coffer__fail(err, COFFER_ERR_ENGINE,
                            "the engine \"cufile\" was asked for, but %s, or use the engine \"auto\"",
                            coffer__os_choose("libcufile.so.0 cannot be loaded here: install GPUDirect Storage (the "
                                              "package libcufile of CUDA)",
                                              "Windows has no GPUDirect Storage: read on Linux"));
    }
    for (size_t i = 0; i < sizeof cufile_rows / sizeof cufile_rows[0]; i++) {
        if (!coffer__os_library_find(&cufile->library, cufile_rows[i].name, (char *)cufile + cufile_rows[i].place)) {
            coffer__os_library_close(&cufile->library);
            return coffer__fail(err, COFFER_ERR_ENGINE,
                                "the engine \"cufile\" was asked for, but the cuFile of this system has no %s: update "
                                "CUDA to version 12.0 or newer, or use the engine \"auto\"",
                                cufile_rows[i].name);
        }
    }
    return COFFER_OK;
}

/* cuFile also starts without its kernel module and then reads through host memory, slower than the library's own
   engines do. Since the engine was asked for by name, that is refused and explained. What storage it can read without
   the detour is known only after the start, so it is ended again. */
static coffer_status cufile_start(coffer__cufile *cufile, coffer_error *err)
{
    cufile_properties properties = { .storage = 0 };
    cufile_result result = cufile->driver_open();
    if (result.code != 0) {
        return coffer__fail(err, COFFER_ERR_ENGINE,
                            "the engine \"cufile\" was asked for, but cuFile does not start (error %d): see what "
                            "gdscheck -p says, or use the engine \"auto\"",
                            (int64_t)result.code);
    }
    result = cufile->properties(&properties);
    cufile->storage = result.code == 0 ? properties.storage : 0;
    if ((cufile->storage & (CUFILE_DISKS | CUFILE_NETWORKS)) == 0) {
        (void)cufile->driver_close();
        return coffer__fail(err, COFFER_ERR_ENGINE,
                            "the engine \"cufile\" was asked for, but cuFile would only work in its compatibility mode "
                            "here, which is slower than the other engines: load the kernel's module nvidia-fs, or use "
                            "the engine \"auto\"");
    }
    return COFFER_OK;
}

/* The library stays in the process after it has started, since it has threads of its own. Its code is therefore not
   unloaded after a failure to start, either. */
coffer_status coffer__cufile_open(coffer__cufile **cufile, const coffer_allocator *allocator, coffer_error *err)
{
    coffer__cufile *made = coffer__alloc_array(allocator, 1, sizeof *made, err);
    if (made == NULL) {
        return COFFER_ERR_MEMORY;
    }
    made->allocator = *allocator;
    coffer_status status = cufile_load(made, err);
    if (status == COFFER_OK) {
        status = cufile_start(made, err);
    }
    if (status != COFFER_OK) {
        coffer__free_array(allocator, made, 1, sizeof *made);
        return status;
    }
    *cufile = made;
    return COFFER_OK;
}

void coffer__cufile_close(coffer__cufile *cufile)
{
    if (cufile != NULL) {
        (void)cufile->driver_close();
        const coffer_allocator allocator = cufile->allocator;
        coffer__free_array(&allocator, cufile, 1, sizeof *cufile);
    }
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* A kind of storage that cuFile does not list is refused before it sees the file: it might accept it, and read in
   compatibility mode. */
coffer_status coffer__cufile_add(coffer__cufile *cufile, int fd, coffer__os_storage storage, coffer__cufile_file *file,
                                 coffer_error *err)
{
    /* Memory and file systems in user space are nothing that a disk could send from, and want no bit, so that they
       are refused below. */
    const unsigned wanted = storage == COFFER__OS_LOCAL     ? CUFILE_DISKS
                            : storage == COFFER__OS_NETWORK ? CUFILE_NETWORKS
                                                            : 0;
    file->handle = NULL;
    if ((cufile->storage & wanted) == 0) {
        return coffer__fail(
            err, COFFER_ERR_ENGINE,
            "the engine \"cufile\" was asked for, but cuFile cannot read from this kind of storage here: "
            "see what gdscheck -p says, or use the engine \"auto\"");
    }
    cufile_description description = { .kind = CUFILE_BY_DESCRIPTOR, .of = { .fd = fd } };
    const cufile_result result = cufile->add(&file->handle, &description);
    if (result.code != 0) {
        file->handle = NULL;
        return coffer__fail(
            err, COFFER_ERR_ENGINE,
            "the engine \"cufile\" was asked for, but cuFile refuses the file (error %d): use the engine "
            "\"auto\"",
            (int64_t)result.code);
    }
    return COFFER_OK;
}

void coffer__cufile_file_close(coffer__cufile *cufile, coffer__cufile_file *file)
{
    if (file->handle != NULL) {
        cufile->deregister(file->handle);
        file->handle = NULL;
    }
}

/* -1 is an errno, what is below it a code of cuFile's, negated. A result of 0 is the end of the file, and comes only
   where bytes were expected: the file was longer when it was opened. */
static coffer_status cufile_failed(const coffer_device *device, ptrdiff_t result, int os_error, coffer_error *err)
{
    if (result == 0) {
        return coffer__fail(err, COFFER_ERR_CHANGED, "the file has become shorter since it was opened");
    }
    if (result == -1) {
        coffer__fail(err, COFFER_ERR_IO, "cannot read the file to %s: %s (errno %d)", device->words,
                     coffer__os_words(os_error), (int64_t)os_error);
        return coffer__fail_errno(err, COFFER_ERR_IO, os_error);
    }
    return coffer__fail(err, COFFER_ERR_DEVICE, "cannot read the file to %s: error %d of cuFile", device->words,
                        -(int64_t)result);
}

/* cuFile is told the whole range's address, and where in it the next bytes go. Reads may come short. The base stays
   the same for every piece because cuFile looks up by it whether the memory is registered. A result of 0 would make
   no progress, and ends the loop as an error. errno is taken at once, before another call can change it. */
static coffer_status cufile_read_all(const coffer__cufile *cufile, const coffer_device *device,
                                     const coffer__cufile_file *file, uint64_t offset, uint64_t address, uint64_t size,
                                     coffer_error *err)
{
    void *base = (void *)(uintptr_t)address; /* NOLINT(performance-no-int-to-ptr): of the device */
    uint64_t done = 0;
    while (done < size) {
        const ptrdiff_t result =
            cufile->read(file->handle, base, (size_t)(size - done), (int64_t)(offset + done), (int64_t)done);
        const int os_error = errno;
        if (result <= 0) {
            return cufile_failed(device, result, os_error, err);
        }
        done += (uint64_t)result;
    }
    return COFFER_OK;
}

/* cuFile takes the context from the thread that calls, so the device is entered for the whole of the reading. */
coffer_status coffer__cufile_read(coffer__cufile *cufile, coffer_device *device, const coffer__cufile_file *file,
                                  uint64_t offset, uint64_t address, uint64_t size, coffer_error *err)
{
    coffer__device_visit visit;
    coffer_status status = device->ops->enter(device, &visit, err);
    if (status == COFFER_OK) {
        status = cufile_read_all(cufile, device, file, offset, address, size, err);
        device->ops->leave(device, &visit);
    }
    return status;
}
