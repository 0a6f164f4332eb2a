/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of windows share. They are the port to Windows, 10 and later; on other systems they are empty.
 *
 *   - A descriptor is one of the C runtime, with a handle of the system below it. Two runtimes in one process do not
 *     know each other's descriptors.
 *   - Paths are UTF-8 and become UTF-16 here, absolute and with the prefix \\?\ where they are long. No function that
 *     depends on a code page is called.
 *   - Handles are opened for overlapped transfers. The system keeps no position for such a handle, and lets several
 *     threads read through it at the same time. Handles of the program may be of the other kind; what is done here
 *     works for both.
 *   - Everything is opened so that others may read, write, rename and delete it meanwhile, as on POSIX systems.
 */
#ifndef COFFER_OS_OS_WINDOWS_H
#define COFFER_OS_OS_WINDOWS_H

#ifdef _WIN32

#undef _WIN32_WINNT
#define _WIN32_WINNT 0x0A00
#undef NTDDI_VERSION
#define NTDDI_VERSION 0x0A000006 /* Windows 10, 1809 */
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include "os.h"

#include <errno.h>
#include <windows.h>

/* Words of 16-bit systems that the headers still define. */
#undef far
#undef near
#undef small

/* What the users of a file may do with it at most, as in os_windows_rights.c: the whole of `mode` and `owner`. */
#define COFFER__OS_NOT_KNOWN 0u /* an owner */
#define COFFER__OS_ME 1u

/* os_windows_system.c: the errno for an error of the system, and for the last one of this thread; never 0. */
int coffer__os_errno(DWORD error);
int coffer__os_last_errno(void);
/* os_windows_system.c: a path, or any other text, in UTF-16, to be freed by free(). ENOMEM, EILSEQ when it is not UTF-8. A path is
   made absolute; ENOENT when it is empty. */
int coffer__os_wide_path(const char *path, wchar_t **wide);
int coffer__os_wide_text(const char *text, wchar_t **wide);
/* os_windows_system.c: the text in UTF-8. ENAMETOOLONG when `size` bytes do not hold it. */
int coffer__os_narrow(const wchar_t *wide, char *out, size_t size);

/* os_windows_files.c: the handle of a descriptor; INVALID_HANDLE_VALUE if it is not open. */
HANDLE coffer__os_handle(int fd);
/* os_windows_files.c: makes a descriptor of a handle, which belongs to it from then on, also after a failure. */
int coffer__os_adopt(HANDLE handle, int *fd);
/* os_windows_files.c: opens what a path leads to, shared with everybody, folders too. Without `follow`, a link itself. */
int coffer__os_open_handle(const char *path, DWORD access, DWORD creation, DWORD flags, SECURITY_ATTRIBUTES *security,
                           HANDLE *handle);
/* os_windows_files.c: DeviceIoControl, whatever kind the handle is of. */
int coffer__os_control(HANDLE handle, DWORD code, const void *in, DWORD in_size, void *out, DWORD out_size,
                       DWORD *done);
/* os_windows_files.c: as coffer__os_read_enough, by a handle. */
int coffer__os_read_handle(HANDLE handle, uint64_t offset, void *buffer, size_t size, size_t enough, size_t *done);

/* os_windows_names.c: what a handle leads to. */
int coffer__os_inspect_handle(HANDLE handle, coffer__os_info *info);

/* os_windows_durable.c: gives up the lock of a folder, if this descriptor has one. */
void coffer__os_unlock(int fd);

/* os_windows_rights.c: owner and mode of a file, as its security descriptor says. The handle needs READ_CONTROL; without
   it the owner is not known, and everybody counts as allowed to write. */
void coffer__os_rights_of(HANDLE handle, coffer__os_info *info);
/* os_windows_rights.c: what makes a new file this user's alone. */
typedef struct coffer__os_privacy {
    SECURITY_ATTRIBUTES attributes;
    SECURITY_DESCRIPTOR descriptor;
    union {
        ACL list;
        unsigned char capacity[256];
    } access;
} coffer__os_privacy;
int coffer__os_make_private(coffer__os_privacy *privacy);

#endif

#endif
