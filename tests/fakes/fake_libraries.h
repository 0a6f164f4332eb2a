/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which drivers a test program finds: it defines dlopen itself, so that the static library linked to it opens the fakes, or
 * nothing, under the drivers' names. Include it in one file of a program, after _GNU_SOURCE.
 */
#ifndef COFFER_TESTS_FAKE_LIBRARIES_H
#define COFFER_TESTS_FAKE_LIBRARIES_H

#include "fake_control.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The folder below COFFER_FAKES where drivers are found; NULL: none is. */
static const char *fake_folder = "good";

void *dlopen(const char *name, int flags)
{
    static const char *const drivers[] = { "libcuda.so", "libamdhip64.so", "libcufile.so" };
    static void *(*real)(const char *, int);
    char path[4096];
    if (real == NULL) {
        void *found = dlsym(RTLD_NEXT, "dlopen");
        memcpy(&real, &found, sizeof real);
    }
    for (size_t i = 0; name != NULL && i < sizeof drivers / sizeof drivers[0]; i++) {
        if (strncmp(name, drivers[i], strlen(drivers[i])) == 0) {
            snprintf(path, sizeof path, "%s/%s/%s", getenv("COFFER_FAKES"), fake_folder == NULL ? "-" : fake_folder,
                     name);
            return real(path, flags);
        }
    }
    return real(name, flags);
}

/* What a fake library lets a test do; NULL where there is none of that name. */
static const fake_control_table *fake_library(const char *name)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    fake_control_function control = NULL;
    if (library == NULL) {
        return NULL;
    }
    void *found = dlsym(library, "fake_control");
    memcpy(&control, &found, sizeof control);
    return control();
}

#endif
