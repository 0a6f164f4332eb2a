/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC-32 as archives have it (reflected, polynomial 0xEDB88320), and CRC-32C (0x82F63B78): a running value, which begins
 * with 0. Bytes that are zero need not be there to be counted.
 *
 * The fastest code for the first is libdeflate's, then zlib's, opened when a meter is; for the second it is an instruction
 * that many processors have. Without them it is the code here.
 */
#ifndef COFFER_HASH_CRC32_H
#define COFFER_HASH_CRC32_H

#include "coffer.h"
#include "os.h"

#define COFFER__CRC32_TABLES 16

typedef struct coffer__crc32 coffer__crc32;
/* As coffer__crc32_update. */
typedef uint32_t coffer__crc32_function(const coffer__crc32 *crc32, uint32_t crc, const void *bytes, size_t size);

/* What computes CRCs. Constant once it is open, so any number of threads may use it. */
struct coffer__crc32 {
    coffer__os_library library; /* open if one of the functions is set */
    uint32_t (*by_libdeflate)(uint32_t crc, const void *bytes, size_t size);
    unsigned long (*by_zlib)(unsigned long crc, const unsigned char *bytes, size_t size);
    coffer__crc32_function *by_instruction;
    uint32_t polynomial;
    uint32_t stretch; /* what the remainder of a stretch is multiplied by when another one follows */
    uint32_t tables[COFFER__CRC32_TABLES][256]; /* filled when none of these is there */
};

/* Opens a library, or fills the tables; it cannot fail. `alone`: without libraries. */
void coffer__crc32_open(coffer__crc32 *crc32, bool alone);
/* The same for CRC-32C. `alone`: without the instruction. */
void coffer__crc32c_open(coffer__crc32 *crc32, bool alone);
void coffer__crc32_close(coffer__crc32 *crc32);
/* The CRC of what `crc` is of, and `size` more bytes. */
uint32_t coffer__crc32_update(const coffer__crc32 *crc32, uint32_t crc, const void *bytes, size_t size);
/* The same for `size` bytes that are all zero. Takes as many steps as the size has bits. */
uint32_t coffer__crc32_zeros(const coffer__crc32 *crc32, uint32_t crc, uint64_t size);
/* What the CRC of a piece, computed from 0 on, adds to the CRC of a whole in which `after` more bytes follow it: the CRC
   of the whole is the exclusive or of the shares of its pieces, in any order. So threads can compute it in parts. */
uint32_t coffer__crc32_share(const coffer__crc32 *crc32, uint32_t crc, uint64_t after);

#endif
