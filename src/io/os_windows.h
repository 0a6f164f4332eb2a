/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files os_windows_*.c share. A descriptor is one of the C library, as programs have them, and its handle is asked
 * for at each use. Names are UTF-8 in the library and UTF-16 for the system. Those that are too long for its usual functions
 * are given to it in the form that has no limit, \\?\ and the whole path.
 */
#ifndef COFFER_IO_OS_WINDOWS_H
#define COFFER_IO_OS_WINDOWS_H

#include "os.h"

#ifdef _WIN32

#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#undef _WIN32_WINNT
#define _WIN32_WINNT 0x0A00 /* Windows 10 */
#include <io.h>
#include <wchar.h>
#include <windows.h>

/* Everybody else may do with a file whatever they like while it is open here, as on other systems. */
#define COFFER__OS_SHARE_ALL (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)

/* The errno for an error of the system; never 0. */
int coffer__os_windows_errno(DWORD error);
/* The same for the last call of this thread. */
int coffer__os_last_error(void);
/* A name as the system wants it, to be freed by free(). EINVAL when it is not UTF-8. */
int coffer__os_wide(const char *path, wchar_t **wide);
/* As UTF-8; ENAMETOOLONG when `size` bytes do not hold it. */
int coffer__os_narrow(const wchar_t *wide, char *out, size_t size);
/* The handle of a descriptor; EBADF if there is none. */
int coffer__os_handle(int fd, HANDLE *handle);
/* CreateFileW with everything shared, not inherited. */
int coffer__os_create_handle(const char *path, DWORD access, DWORD disposition, DWORD flags, HANDLE *handle);
/* A descriptor for the handle, which it owns from then on; the handle is closed when there is none to be had. */
int coffer__os_adopt(HANDLE handle, int *fd);

#endif
#endif
