/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input at the edge of what may be touched: a copy that ends with the last byte of a page, the next page being out of
 * reach, so that reading one byte too many is a crash, whatever built the target and however it reads. One copy at a time.
 * A file that includes this defines _DEFAULT_SOURCE first.
 */
#ifndef COFFER_FUZZ_GUARDED_H
#define COFFER_FUZZ_GUARDED_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GUARDED_LARGEST ((size_t)4 << 20)

/* The first byte that cannot be touched. */
static inline uint8_t *guarded_end(void)
{
    static uint8_t *end;
    if (end == NULL) {
        const size_t page = (size_t)sysconf(_SC_PAGESIZE);
        uint8_t *pages = mmap(NULL, GUARDED_LARGEST + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pages == MAP_FAILED || mprotect(pages + GUARDED_LARGEST, page, PROT_NONE) != 0) {
            abort();
        }
        end = pages + GUARDED_LARGEST;
    }
    return end;
}

/* The copy, valid until the next; NULL when the input is larger than any that is worth a look. */
static inline const uint8_t *guarded_copy(const uint8_t *bytes, size_t size)
{
    if (size > GUARDED_LARGEST) {
        return NULL;
    }
    uint8_t *copy = guarded_end() - size;
    if (size > 0) {
        memcpy(copy, bytes, size);
    }
    return copy;
}

#endif
