/* SPDX-License-Identifier: Apache-2.0 */
/* What sys/socket.h needs. */
#ifndef COFFER_TESTS_WINDOWS_UN_H
#define COFFER_TESTS_WINDOWS_UN_H

struct sockaddr_un {
    unsigned short sun_family;
    char sun_path[108];
};

#endif
