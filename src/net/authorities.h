/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The certificates of authorities that servers are verified with, read once for all connections.
 * libcurl reads them again for each connection, and for the hundred and more that systems have,
 * OpenSSL needs tens of milliseconds: for a model of many files that adds up to seconds. Where
 * libcurl's TLS is not OpenSSL 3, libcurl keeps doing so.
 *
 * A certificate store belongs to one copy of OpenSSL, and a process may contain several: libcurl's
 * may be renamed, or linked into libcurl. So OpenSSL is looked up where libcurl's own symbols come
 * from, and the store is given only to connections that were made by that very copy, which can be
 * seen from each connection. After the first one that was not, the store is not used any more, and
 * libcurl reads the certificates itself.
 *
 * This never weakens the verification: a connection that does not get the store has no authorities
 * at all, and fails.
 */
#ifndef COFFER_NET_AUTHORITIES_H
#define COFFER_NET_AUTHORITIES_H

#include "libcurl.h"

#include <stdatomic.h>

typedef struct coffer__authorities {
    void *store;        /* NULL: there is none, and libcurl reads the certificates */
    const void *method; /* an address that every connection of the same OpenSSL contains */
    int (*use)(void *context, void *store);
    void (*release)(void *store);
    atomic_bool foreign; /* a connection was not of the same OpenSSL: libcurl reads them from now on */
} coffer__authorities;

/* Reads the certificates of a file; with NULL, those that this libcurl uses by default.
   *authorities must be all zero. If anything is missing there is simply no store. */
void coffer__authorities_open(coffer__authorities *authorities, const coffer__libcurl *curl, const char *file);
void coffer__authorities_close(coffer__authorities *authorities);
/* Whether requests can use the store; `authorities` may be NULL. */
bool coffer__authorities_usable(const coffer__authorities *authorities);
/* Makes a request use the store; false if an option cannot be set. The store must live until the
   connection is closed. A connection of another OpenSSL fails with CURLE_ABORTED_BY_CALLBACK before
   anything is sent, and the store is not usable from then on. */
bool coffer__authorities_set(coffer__authorities *authorities, const coffer__libcurl *curl, void *easy);

#endif
