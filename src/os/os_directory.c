/* SPDX-License-Identifier: Apache-2.0 */
/* The operating system: making the names in a directory durable, by its path; the same on every system. */
#include "os.h"

int coffer__os_sync_directory(const char *path)
{
    int directory = -1;
    int os_error = coffer__os_open_directory(path, &directory);
    if (os_error == 0) {
        os_error = coffer__os_sync_names(directory);
        (void)coffer__os_close(directory);
    }
    return os_error;
}
