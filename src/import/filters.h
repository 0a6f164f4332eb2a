/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HDF5's filters, as a piece of a plan has them: two bits each, the first that was applied lowest. Deflate is zlib's form of it.
 * Shuffling puts the first bytes of all elements together, then the second ones, …; what is less than an element stays at the
 * end. Fletcher32 adds four bytes. Pure.
 */
#ifndef COFFER_IMPORT_FILTERS_H
#define COFFER_IMPORT_FILTERS_H

#include "plan.h"

enum { COFFER__FILTER_NONE = 0, COFFER__FILTER_DEFLATE = 1, COFFER__FILTER_SHUFFLE = 2, COFFER__FILTER_FLETCHER32 = 3 };

#define COFFER__FILTERS_MAX 3u
#define COFFER__FILTERS_CHUNK ((uint64_t)8 << 20) /* bytes of a chunk, stored and plain each */
#define COFFER__FILTERS_CAPACITY 16u              /* that filters may add to a chunk's bytes, and more */

unsigned coffer__filter_at(uint32_t filters, unsigned i);
/* Whether so many bytes can become so many by the filters of a piece. */
bool coffer__filters_fit(const coffer__import_plan_piece *piece);
/* Sorts bytes back into elements of `unit` bytes, at least 1. */
void coffer__unshuffle(uint8_t *to, const uint8_t *from, size_t size, size_t unit);
/* The checksums of HDF5 and of zlib. */
uint32_t coffer__fletcher32(const uint8_t *bytes, size_t size);
uint32_t coffer__adler32(const uint8_t *bytes, size_t size);

#endif
