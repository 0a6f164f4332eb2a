/* SPDX-License-Identifier: Apache-2.0 */
/* What is compressed as a whole, in memory: gzip and zlib. */
#ifndef COFFER_ARCHIVE_GZIP_H
#define COFFER_ARCHIVE_GZIP_H

#include "coffer.h"

/* Whether bytes begin as such; what does may still be something else. */
bool coffer__gzip_is(const uint8_t *head, size_t size);
/* Unpacks the first stream, of at most `most` bytes, into memory of the allocator's. *out is NULL where it is damaged, longer,
   or none, and *out_size then what was made of it; *all is false when something follows it. Checksums are not compared: a program has read by then what they are of.
   COFFER_ERR_MEMORY. */
coffer_status coffer__gzip_unpack(const coffer_allocator *allocator, const uint8_t *bytes, size_t size, size_t most,
                                  uint8_t **out, size_t *out_size, bool *all, coffer_error *err);

#endif
