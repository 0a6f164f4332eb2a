/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuFile (GPUDirect Storage): a disk writes into the memory of a CUDA device by itself. It is opened at run time, as drivers
 * are, and only where it was asked for by name. Its compatibility mode, which reads through host memory like everyone
 * else, counts as not there.
 */
#ifndef COFFER_DEVICE_CUFILE_H
#define COFFER_DEVICE_CUFILE_H

#include "device.h"

typedef struct coffer__cufile coffer__cufile;

/* A file that cuFile reads. */
typedef struct coffer__cufile_file {
    void *handle; /* NULL: none */
} coffer__cufile_file;

/* COFFER_ERR_ENGINE says what is missing and what to do. */
coffer_status coffer__cufile_open(coffer__cufile **cufile, const coffer_allocator *allocator, coffer_error *err);
/* When no file of it is left. NULL is ignored. */
void coffer__cufile_close(coffer__cufile *cufile);
/* `fd` reads past the page cache, and stays open until coffer__cufile_file_close. COFFER_ERR_ENGINE when cuFile cannot read the
   file, or storage of that kind. */
coffer_status coffer__cufile_add(coffer__cufile *cufile, int fd, coffer__os_storage storage, coffer__cufile_file *file,
                                 coffer_error *err);
void coffer__cufile_file_close(coffer__cufile *cufile, coffer__cufile_file *file);
/* Reads a range of the file to memory of a device, and waits for it. Any thread may, at any time. COFFER_ERR_CHANGED when the file
   ends before. */
coffer_status coffer__cufile_read(coffer__cufile *cufile, coffer_device *device, const coffer__cufile_file *file,
                                  uint64_t offset, uint64_t address, uint64_t size, coffer_error *err);

#endif
