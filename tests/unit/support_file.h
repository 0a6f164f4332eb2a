/* SPDX-License-Identifier: Apache-2.0 */
/* Files for tests: a directory of the test's own, whole files in and out, and images of safetensors files in memory
   whose data is a pattern that tells every byte's place. */
#ifndef COFFER_TESTS_SUPPORT_FILE_H
#define COFFER_TESTS_SUPPORT_FILE_H

#include "coffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* Makes a fresh directory; its name stays valid until the next call of work_dir_remove. */
void work_dir_make(void);
/* Removes the directory with all the files in it (there are no directories in it). */
void work_dir_remove(void);
/* The same for cmocka: what runs before a test and after it. */
int work_dir_set_up(void **state);
int work_dir_tear_down(void **state);
/* The path of a file in it; valid until 8 more calls. */
const char *work_path(const char *name);
/* How many names the directory has. */
size_t work_dir_count(void);
/* How many descriptors below 256 are open. */
size_t open_descriptors(void);

void file_write(const char *name, const void *bytes, size_t size);
/* The whole file, to be freed; its size in *size. */
uint8_t *file_read(const char *name, size_t *size);
/* What lstat says of it. */
struct stat look(const char *name);

/* What the C library's ioctl takes, for tests that put one of their own in its place. */
#ifdef __GLIBC__
typedef unsigned long ioctl_request;
#else
typedef int ioctl_request;
#endif

/* Bytes that a file has, or is to have. */
typedef struct file_bytes {
    uint8_t *at;
    size_t size;
} file_bytes;

bool file_has(const char *name, file_bytes expected);
void assert_file_has(const char *name, file_bytes expected);

typedef struct tensor_spec {
    const char *name;
    coffer_dtype dtype;
    size_t rank;
    uint64_t shape[4];
} tensor_spec;

/* A header that declares the tensors and one metadata pair, "made by": "test". */
coffer_header *header_of(const tensor_spec *specs, size_t count, const coffer_allocator *allocator);

/* A complete file in memory; byte i of the file, from the data's start on, is pattern_byte(i). */
typedef struct image {
    uint8_t *bytes;
    size_t size;
    size_t data_offset;
} image;

image image_of(const tensor_spec *specs, size_t count);
void image_free(image *made);
uint8_t pattern_byte(uint64_t i);

#endif
