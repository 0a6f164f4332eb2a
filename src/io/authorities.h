/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The certificates of authorities that servers are proved by, read once for all connections. libcurl reads them for each
 * connection anew, and for the hundred and more that systems have OpenSSL takes tens of milliseconds of work: for a model of many
 * files that is seconds. Where libcurl's TLS is not OpenSSL 3, it goes on doing so.
 *
 * Nothing is trusted besides: a connection that did not get them would have none, and fail.
 */
#ifndef COFFER_IO_AUTHORITIES_H
#define COFFER_IO_AUTHORITIES_H

#include "libcurl.h"

typedef struct coffer__authorities {
    void *store; /* NULL: there is none, and libcurl reads them */
    void (*use)(void *context, void *store);
    void (*release)(void *store);
} coffer__authorities;

/* Reads those of a file; of NULL, those that this libcurl takes by itself. */
void coffer__authorities_open(coffer__authorities *authorities, const coffer__libcurl *curl, const char *file);
void coffer__authorities_close(coffer__authorities *authorities);
/* Has a request use them; false when it cannot be set. They stay where they are until its connection is closed. */
bool coffer__authorities_set(const coffer__authorities *authorities, const coffer__libcurl *curl, void *easy);

#endif
