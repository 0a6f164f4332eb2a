/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Included in front of every file that is analysed. The analyser's own contracts for memcpy and its kin want a readable byte
 * behind the pointer even where no byte is copied, which C11 (7.24.1) does not: there a pointer one past the end is valid.
 */
#ifndef COFFER_PROOFS_LIBC_H
#define COFFER_PROOFS_LIBC_H

#include <stddef.h>
#include <string.h>

static inline void *prove_memcpy(void *to, const void *from, size_t size)
{
    unsigned char *target = to;
    const unsigned char *source = from;
    //@ assert \object_pointer(target) && \object_pointer(source) && target != \null && source != \null;
    return size > 0 ? memcpy(target, source, size) : to;
}

static inline void *prove_memmove(void *to, const void *from, size_t size)
{
    unsigned char *target = to;
    const unsigned char *source = from;
    //@ assert \object_pointer(target) && \object_pointer(source) && target != \null && source != \null;
    return size > 0 ? memmove(target, source, size) : to;
}

static inline void *prove_memset(void *to, int byte, size_t size)
{
    unsigned char *target = to;
    //@ assert \object_pointer(target) && target != \null;
    return size > 0 ? memset(target, byte, size) : to;
}

static inline int prove_memcmp(const void *a, const void *b, size_t size)
{
    const unsigned char *x = a;
    const unsigned char *y = b;
    //@ assert \object_pointer(x) && \object_pointer(y) && x != \null && y != \null;
    for (size_t i = 0; i < size; i++) {
        if (x[i] != y[i]) {
            return x[i] < y[i] ? -1 : 1;
        }
    }
    return 0;
}

static inline int prove_ctzll(unsigned long long value)
{
    int zeros = 0;
    //@ assert value != 0;
    //@ loop unroll 64;
    while (zeros < 63 && (value >> zeros & 1) == 0) {
        zeros++;
    }
    return zeros;
}

static inline int prove_clzll(unsigned long long value)
{
    int zeros = 0;
    //@ assert value != 0;
    //@ loop unroll 64;
    while (zeros < 63 && (value << zeros >> 63) == 0) {
        zeros++;
    }
    return zeros;
}

#define __builtin_ctzll prove_ctzll
#define __builtin_clzll prove_clzll
#define memcpy prove_memcpy
#define memmove prove_memmove
#define memset prove_memset
#define memcmp prove_memcmp

#endif
