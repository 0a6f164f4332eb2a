/* SPDX-License-Identifier: Apache-2.0 */
/* coffer/hash.h - digests of bytes: the algorithms, and hashers for bytes that come in pieces. All of it is there since
   0.2. */
#ifndef COFFER_HASH_H
#define COFFER_HASH_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a digest is computed. SHA-256 comes from OpenSSL's libcrypto, which is loaded when it is first needed; where it
   is missing, from Windows' bcrypt.dll, or else from code of this library, which takes several times as long. XXH3 was
   compiled in where its header was there; where it is missing, COFFER_ERR_NO_ALGORITHM says so. */
typedef enum coffer_algorithm {
    COFFER_NO_ALGORITHM = 0,
    COFFER_SHA256 = 1,  /* 32 bytes; nobody can make other bytes for a digest */
    COFFER_XXH3_128 = 2 /* 16 bytes, in the canonical order; many times as fast, and against accidents only */
} coffer_algorithm;

#define COFFER_LARGEST_DIGEST_SIZE 32

/* "sha256", "xxh3-128"; "" for any other. Static. */
COFFER_API const char *coffer_algorithm_name(coffer_algorithm algorithm);
/* The algorithm of a name (exact, lower case); COFFER_NO_ALGORITHM for any other. */
COFFER_API coffer_algorithm coffer_algorithm_from_name(const char *name, size_t name_len);
/* Bytes of a digest; 0 for no algorithm. */
COFFER_API size_t coffer_algorithm_digest_size(coffer_algorithm algorithm);

/* Computes digests of bytes that come in pieces. */
typedef struct coffer_hasher coffer_hasher;

/* Makes a hasher. Making one may load a library, so one for many digests is faster than many. COFFER_ERR_NO_ALGORITHM
   says what is missing. */
COFFER_API coffer_status coffer_hasher_new(coffer_hasher **hasher, coffer_algorithm algorithm,
                                           const coffer_allocator *allocator, coffer_error *err);
/* Adds `size` bytes, after those that came before. COFFER_ERR_NO_ALGORITHM when the library that computes refuses
   to. */
COFFER_API coffer_status coffer_hasher_update(coffer_hasher *hasher, const void *bytes, size_t size, coffer_error *err);
/* Writes the digest of all bytes since the last one to memory of exactly its size, else COFFER_ERR_BUFFER_SIZE; the
   next digest then begins. */
COFFER_API coffer_status coffer_hasher_finish(coffer_hasher *hasher, void *digest, size_t digest_size,
                                              coffer_error *err);
/* Releases the hasher, wherever it is; NULL is ignored. */
COFFER_API void coffer_hasher_free(coffer_hasher *hasher);

/* Writes `size` bytes as base64 (RFC 4648, section 4: with padding, without line breaks), as recorded digests are
   written, to `text` (of `text_size` bytes) and a NUL after it. Returns the length that it needs, without the NUL: 4
   characters for every 3 bytes begun. Where that and the NUL do not fit nothing is written; `text` may then be NULL. */
COFFER_API size_t coffer_base64(const void *bytes, size_t size, char *text, size_t text_size);

#ifdef __cplusplus
}
#endif

#endif
