/* SPDX-License-Identifier: Apache-2.0 */
/* What the command's Windows files share: paths and errors between POSIX and the system. */
#ifndef COFFER_CLI_WINDOWS_TEXT_H
#define COFFER_CLI_WINDOWS_TEXT_H

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

/* A path as the system takes it, absolute and with the prefix that lifts the limit on its length; to be freed. NULL
   with errno set for one that is not UTF-8 or is empty, and without memory. */
wchar_t *cli_windows_path(const char *path);
/* Text of the system as UTF-8, to be freed; NULL without memory. A half of a pair becomes U+FFFD. */
char *cli_windows_utf8(const wchar_t *text);
/* Sets errno to what GetLastError says, and returns -1. */
int cli_windows_failed(void);

#endif
