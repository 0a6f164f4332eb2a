/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operating system: libraries that are loaded while the program runs. Optional parts (libcurl,
 * libcrypto) are found that way, so that a program that never uses them neither needs nor loads them.
 */
#include "os_posix.h"

#include <string.h>

#ifndef COFFER_NO_DLOPEN
#include <dlfcn.h>
#endif

#ifndef COFFER_NO_DLOPEN

bool coffer__os_can_load(void)
{
    return true;
}

/* RTLD_LOCAL: its symbols are no business of the program's. RTLD_NOW: a library that lacks
   something fails here, and not in the middle of a call. */
bool coffer__os_library_open(coffer__os_library *library, const char *name)
{
    library->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    return library->handle != NULL;
}

/* RTLD_NOLOAD finds the loaded object again without loading anything, and counts one more user of
   it. */
bool coffer__os_library_holding(coffer__os_library *library, void (*function)(void))
{
    Dl_info info;
    const void *address = NULL;
    memcpy(&address, &function, sizeof address);
    library->handle = NULL;
    if (dladdr(address, &info) != 0 && info.dli_fname != NULL) {
        library->handle = dlopen(info.dli_fname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    }
    return library->handle != NULL;
}

bool coffer__os_library_find(const coffer__os_library *library, const char *name, void *function)
{
    /* C has no conversion between the two kinds of pointers; POSIX says that they have one representation. */
    void *address = dlsym(library->handle, name);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

void coffer__os_library_close(coffer__os_library *library)
{
    (void)dlclose(library->handle);
    library->handle = NULL;
}

#else

bool coffer__os_can_load(void)
{
    return false;
}

bool coffer__os_library_open(coffer__os_library *library, const char *name)
{
    (void)name;
    library->handle = NULL;
    return false;
}

bool coffer__os_library_holding(coffer__os_library *library, void (*function)(void))
{
    (void)function;
    library->handle = NULL;
    return false;
}

bool coffer__os_library_find(const coffer__os_library *library, const char *name, void *function)
{
    (void)library;
    (void)name;
    (void)function;
    return false;
}

void coffer__os_library_close(coffer__os_library *library)
{
    (void)library;
}

#endif
