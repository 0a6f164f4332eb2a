/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this system has for reading in bulk, in words: which of it can be used, why not, and what to change. For people who
 * want to know why loading is as fast as it is.
 */
#ifndef COFFER_IO_MEANS_H
#define COFFER_IO_MEANS_H

#include "coffer.h"

/* Visits "io_uring", "locked memory", "huge pages", "page cache" and, for a path, what the file there can do, or the first
   one in the folder there: "direct reading" and "reading without caching". Each is tried, not looked up. *ended says whether
   the visitor wants no more. `path` may be NULL; one that cannot be opened is a failure. */
coffer_status coffer__means_list(const char *path, coffer_facility_visitor visit, void *ctx, bool *ended,
                                 coffer_error *err);
/* What to do about io_uring, by the errno with which it is refused. Static. */
const char *coffer__means_ring_advice(int os_error);

#endif
