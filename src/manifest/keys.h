/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Key pairs to sign with, through libcrypto: the elliptic curves that model signing takes, each with a
 * digest of its size: P-256 with SHA-256, P-384 with SHA-384, P-521 with SHA-512. Signatures are ECDSA
 * in DER. The digest follows from the key, never from the text that is checked: whoever made that could
 * choose a weak one.
 */
#ifndef COFFER_MANIFEST_KEYS_H
#define COFFER_MANIFEST_KEYS_H

#include "coffer.h"
#include "os.h"

/* Hexadecimal digits of a SHA-256. */
#define COFFER__KEY_HINT_LEN 64
/* Bytes of the largest signature: P-521 in DER takes at most 139. */
#define COFFER__SIGNATURE_MAX 160

/* What is used of libcrypto, by the types of its manual pages; its own types are opaque here.
   public_der is i2d_PUBKEY, the others are named alike. */
typedef struct coffer__key_functions {
    void *(*bio_new)(const void *bytes, int size);
    int (*bio_free)(void *bio);
    void *(*read_public)(void *bio, void **key, int (*password)(char *, int, int, void *), void *ctx);
    void *(*read_private)(void *bio, void **key, int (*password)(char *, int, int, void *), void *ctx);
    int (*public_der)(void *key, unsigned char **der);
    void (*key_free)(void *key);
    void *(*context_new)(void);
    void (*context_free)(void *context);
    const void *(*digest)(void); /* of the key's curve */
    int (*sign_init)(void *context, void **pkey_context, const void *digest, void *engine, void *key);
    int (*sign)(void *context, unsigned char *signature, size_t *size, const unsigned char *bytes, size_t bytes_size);
    int (*verify_init)(void *context, void **pkey_context, const void *digest, void *engine, void *key);
    int (*verify)(void *context, const unsigned char *signature, size_t size, const unsigned char *bytes,
                  size_t bytes_size);
    int (*set_text)(void *key, const char *name, const char *value); /* NULL before libcrypto 3 */
    void (*clear_errors)(void);
} coffer__key_functions;

/* A key that was read. The library stays open as long as it: the handle and the functions are in it. */
typedef struct coffer__key {
    coffer__os_library library;
    coffer__key_functions call;
    void *handle;                        /* an EVP_PKEY */
    char hint[COFFER__KEY_HINT_LEN + 1]; /* SHA-256 of the public key in PEM: how bundles say whose it is */
} coffer__key;

/*
 * Reads a key in PEM, a private or a public one. Close it when that succeeded; after a failure
 * there is nothing to close. COFFER_ERR_KEY says what is wrong with the key, and what would make it
 * right.
 */
coffer_status coffer__key_open(coffer__key *key, const char *pem, size_t pem_len, bool is_private,
                               const coffer_allocator *allocator, coffer_error *err);
void coffer__key_close(coffer__key *key);
/* Signs with a private key; `signature` has COFFER__SIGNATURE_MAX bytes, *size is how many it
   takes. ECDSA is not deterministic: each signature differs. */
coffer_status coffer__key_sign(const coffer__key *key, const void *bytes, size_t bytes_size, uint8_t *signature,
                               size_t *size, coffer_error *err);
/* Fails with COFFER_ERR_SIGNATURE unless the signature is by this key and for these bytes. */
coffer_status coffer__key_verify(const coffer__key *key, const void *bytes, size_t bytes_size, const uint8_t *signature,
                                 size_t size, coffer_error *err);

#endif
