/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests of bytes that come in pieces. A hasher is what coffer.h hands out as coffer_hasher; what
 * differs between the algorithms is five functions, and each algorithm is one file: sha256.c, xxh3.c.
 * There is no state but the hasher's, so different hashers may be used by different threads.
 */
#ifndef COFFER_HASH_HASH_H
#define COFFER_HASH_HASH_H

#include "coffer.h"

/*
 * What an algorithm is. Each function that returns a bool returns false when the implementation
 * refuses, which no caller can do anything about. hash.c checks arguments: these get a hasher that
 * is open, and sizes that are not 0.
 */
typedef struct coffer__hash_ops {
    /* Makes `state`, or fails and says why: there is no implementation here, or no memory. After a
       failure nothing is left to close. */
    coffer_status (*open)(coffer_hasher *hasher, coffer_error *err);
    void (*close)(coffer_hasher *hasher);
    bool (*begin)(coffer_hasher *hasher); /* a new digest, whatever there was */
    bool (*update)(coffer_hasher *hasher, const void *bytes, size_t size);
    bool (*finish)(coffer_hasher *hasher, uint8_t *digest);
} coffer__hash_ops;

struct coffer_hasher {
    const coffer__hash_ops *ops;
    coffer_algorithm algorithm;
    coffer_allocator allocator;
    void *state; /* the algorithm's own, allocated by it */
};

extern const coffer__hash_ops coffer__hash_sha256;
/* SHA-256 by bcrypt, a library of Windows; it replaces hasher->ops. False, and nothing changed, where there is none. */
bool coffer__sha256_bcrypt_open(coffer_hasher *hasher);
extern const coffer__hash_ops coffer__hash_xxh3;

#endif
