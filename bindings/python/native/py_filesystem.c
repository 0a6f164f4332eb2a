/* SPDX-License-Identifier: Apache-2.0 */
/* Which file systems are better read than mapped: those behind a network, and those that a program plays. */
#include "py_native.h"

#include <string.h>

#ifdef __linux__
#include <sys/vfs.h>

static bool filesystem_is_remote(const struct statfs *info)
{
    static const uint32_t remote[] = {
        0x00006969, /* NFS */
        0x0000517B, /* SMB */
        0xFF534D42, /* CIFS */
        0xFE534D42, /* SMB2 */
        0x0BD00BD0, /* Lustre */
        0x00C36400, /* Ceph */
        0x47504653, /* GPFS */
        0x19830326, /* BeeGFS */
        0x5346414F, /* AFS */
        0x6B414653, /* kAFS */
        0x73757245, /* Coda */
        0x01021997, /* 9P, which WSL shows Windows' drives by */
        0x65735546, /* FUSE */
    };
    for (size_t i = 0; i < sizeof remote / sizeof remote[0]; i++) {
        if ((uint32_t)info->f_type == remote[i]) {
            return true;
        }
    }
    return false;
}

bool py_is_remote(const char *path)
{
    struct statfs info;
    return strstr(path, "://") != NULL || (statfs(path, &info) == 0 && filesystem_is_remote(&info));
}

bool py_is_remote_fd(int fd)
{
    struct statfs info;
    return fstatfs(fd, &info) == 0 && filesystem_is_remote(&info);
}

#else

bool py_is_remote(const char *path)
{
    return strstr(path, "://") != NULL;
}

bool py_is_remote_fd(int fd)
{
    (void)fd;
    return false;
}

#endif
