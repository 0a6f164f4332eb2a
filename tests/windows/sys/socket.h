/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets that have names in the file system: there are none that the C runtime knows. */
#ifndef COFFER_TESTS_WINDOWS_SOCKET_H
#define COFFER_TESTS_WINDOWS_SOCKET_H

#include <stddef.h>

#define AF_UNIX 1
#define SOCK_STREAM 1

struct sockaddr {
    unsigned short sa_family;
};

int socket(int family, int kind, int protocol);
int bind(int fd, const struct sockaddr *name, size_t size);

#endif
