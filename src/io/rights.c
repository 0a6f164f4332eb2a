/* SPDX-License-Identifier: Apache-2.0 */
/* The public function that gives a file the rights of another one. */
#include "errno_status.h"
#include "os.h"

coffer_status coffer_take_rights(int fd, const char *path, coffer_error *err)
{
    coffer__os_info info;
    int os_error = coffer__os_inspect(path, true, &info);
    if (os_error == 0) {
        os_error = coffer__os_take_owner_and_mode(fd, &info, path);
    }
    return os_error == 0 ? COFFER_OK
                         : coffer__errno_status(err, "give the new file the rights of the old one", path, os_error);
}
