/* SPDX-License-Identifier: Apache-2.0 */
/* The operating system, Windows: libraries that are loaded while the program runs. */
#include "os_windows.h"

#ifdef _WIN32

#include <stdlib.h>
#include <string.h>

#ifndef COFFER_NO_DLOPEN

bool coffer__os_can_load(void)
{
    return true;
}

/* Callers name a library as every system spells it. Looking for another system's spelling would read whole folders, each time. */
static bool win_is_foreign(const char *name)
{
    return strstr(name, ".so") != NULL || strstr(name, ".dylib") != NULL;
}

/* A name is looked for beside the program, in the folders that the program has added, and in the system's own: not in
   the current folder, nor in those of PATH, where anybody may have put a library of that name. A path is opened as it
   is, with what lies beside it. */
bool coffer__os_library_open(coffer__os_library *library, const char *name)
{
    wchar_t *wide = NULL;
    library->handle = NULL;
    if (name == NULL) {
        library->handle = GetModuleHandleW(NULL);
    } else if (strpbrk(name, "/\\") != NULL) {
        if (coffer__os_wide_path(name, &wide) == 0) {
            library->handle =
                LoadLibraryExW(wide, NULL, LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
        }
    } else if (!win_is_foreign(name) && coffer__os_wide_text(name, &wide) == 0) {
        library->handle = LoadLibraryExW(wide, NULL, LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
    }
    free(wide);
    return library->handle != NULL;
}

/* Counts one more user of the module, so that closing it here does not unload it. */
bool coffer__os_library_holding(coffer__os_library *library, void (*function)(void))
{
    HMODULE module = NULL;
    LPCWSTR address = NULL;
    memcpy(&address, &function, sizeof address);
    library->handle = GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, address, &module) != 0 ? module : NULL;
    return library->handle != NULL;
}

bool coffer__os_library_find(const coffer__os_library *library, const char *name, void *function)
{
    FARPROC address = GetProcAddress(library->handle, name);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

/* The program itself was not loaded by anybody. */
void coffer__os_library_close(coffer__os_library *library)
{
    if (library->handle != (void *)GetModuleHandleW(NULL)) {
        (void)FreeLibrary(library->handle);
    }
    library->handle = NULL;
}

#endif

#endif
