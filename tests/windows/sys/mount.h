/* SPDX-License-Identifier: Apache-2.0 */
/* Windows mounts nothing by a call, and says so. */
#ifndef COFFER_TESTS_WINDOWS_MOUNT_H
#define COFFER_TESTS_WINDOWS_MOUNT_H

#define MS_PRIVATE 0
#define MS_REC 0
#define MS_BIND 0

int mount(const char *from, const char *to, const char *kind, unsigned long flags, const void *data);
int umount(const char *path);

#endif
