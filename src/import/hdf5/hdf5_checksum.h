/* SPDX-License-Identifier: Apache-2.0 */
/* The checksum of HDF5's metadata, of bytes that come in stretches. Pure. */
#ifndef COFFER_HDF5_HDF5_CHECKSUM_H
#define COFFER_HDF5_HDF5_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

#define COFFER__LOOKUP3_STEP ((size_t)12)

typedef struct coffer__lookup3 {
    uint32_t a;
    uint32_t b;
    uint32_t c;
    uint64_t left; /* bytes that were not mixed in */
} coffer__lookup3;

/* Begins; `size` is that of all bytes. */
void coffer__lookup3_begin(coffer__lookup3 *state, uint64_t size);
/* Adds bytes; of all stretches but the last the size is a multiple of the step. */
void coffer__lookup3_add(coffer__lookup3 *state, const uint8_t *bytes, size_t size);
uint32_t coffer__lookup3_end(coffer__lookup3 *state);

#endif
