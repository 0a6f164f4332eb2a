/* SPDX-License-Identifier: Apache-2.0 */
/* What a test may ask of the cuFile that is none. The library exports one function, fake_cufile_control, which gives the
   table. */
#ifndef COFFER_TESTS_FAKE_CUFILE_H
#define COFFER_TESTS_FAKE_CUFILE_H

#include "fake_control.h"

typedef struct fake_cufile_settings {
    int open;         /* the code with which the driver does not start */
    unsigned storage; /* bits of what storage can be read */
    int add;          /* the code with which files are refused */
    size_t most;      /* bytes that a read gives; 0: all */
    int read;         /* what a read answers instead (-1: errno is EIO); 0: none fails … */
    size_t after;     /* … after so many that went well */
} fake_cufile_settings;

typedef struct fake_cufile_counts {
    size_t drivers; /* open */
    size_t files;   /* registered */
    size_t reads;   /* so far */
} fake_cufile_counts;

typedef struct fake_cufile_table {
    /* `device` is that of the fake CUDA, whose memory is read to. */
    void (*begin)(const fake_cufile_settings *settings, const fake_control_table *device);
    fake_cufile_counts (*seen)(void);
} fake_cufile_table;

typedef const fake_cufile_table *(*fake_cufile_function)(void);

#endif
