/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The certificates of authorities that servers are proved by, read once for all connections. libcurl reads them for
 * each connection anew, and for the hundred and more that systems have OpenSSL takes tens of milliseconds of work: for
 * a model of many files that is seconds. Where libcurl's TLS is not OpenSSL 3, it goes on doing so.
 *
 * What is read belongs to one copy of OpenSSL, and a process may have several: libcurl's may be renamed, or a part of
 * libcurl itself. So it is looked for where libcurl's own symbols come from, and given only to a connection that was
 * made by that very copy, which each connection shows. The first one that was not ends this, and libcurl reads for
 * itself.
 *
 * Nothing is trusted besides: a connection that did not get them would have none, and fail.
 */
#ifndef COFFER_NET_AUTHORITIES_H
#define COFFER_NET_AUTHORITIES_H

#include "libcurl.h"

#include <stdatomic.h>

typedef struct coffer__authorities {
    void *store;        /* NULL: there is none, and libcurl reads them */
    const void *method; /* of every connection of the same OpenSSL */
    int (*use)(void *context, void *store);
    void (*release)(void *store);
    atomic_bool foreign; /* a connection was not of the same OpenSSL: libcurl reads them from now on */
} coffer__authorities;

/* Reads those of a file; of NULL, those that this libcurl takes by itself. *authorities is all zero before. */
void coffer__authorities_open(coffer__authorities *authorities, const coffer__libcurl *curl, const char *file);
void coffer__authorities_close(coffer__authorities *authorities);
/* Whether requests can use them; `authorities` may be NULL. */
bool coffer__authorities_usable(const coffer__authorities *authorities);
/* Has a request use them; false when it cannot be set. They stay where they are until its connection is closed. A
   connection of another OpenSSL fails with CURLE_ABORTED_BY_CALLBACK before anything is sent, and they are not usable
   any more. */
bool coffer__authorities_set(coffer__authorities *authorities, const coffer__libcurl *curl, void *easy);

#endif
