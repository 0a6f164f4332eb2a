/* SPDX-License-Identifier: Apache-2.0 */
/* coffer/manifest.h - digests of files, kept next to them, signed or not. All of it is there since 0.2. */
#ifndef COFFER_MANIFEST_H
#define COFFER_MANIFEST_H

#include "hash.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Digests of files, kept next to them. docs/integrity.md describes what is read and written. */
typedef enum coffer_manifest_format {
    COFFER_MANIFEST_LINES = 1,     /* "HEX  NAME", as sha256sum and xxhsum write and check them */
    COFFER_MANIFEST_STATEMENT = 2, /* the JSON of OpenSSF model signing, unsigned: an in-toto statement */
    COFFER_MANIFEST_BUNDLE = 3     /* the same, signed: a sigstore bundle, as its tool writes and checks them */
} coffer_manifest_format;

/* Digests of files by their names, read or made. One thread at a time while it is added to or written, any number to
   look at it. */
typedef struct coffer_manifest coffer_manifest;

/* A file of a manifest and its digest. */
typedef struct coffer_manifest_entry {
    const char *name; /* below the manifest's folder, with slashes, without ".."; "." alone: the model, one file */
    coffer_algorithm algorithm;
    uint8_t digest[COFFER_LARGEST_DIGEST_SIZE]; /* the algorithm's size counts */
} coffer_manifest_entry;

/* Reads a manifest of any format, which is known by its content; hostile ones are refused. With a `key` (a public one,
   in PEM) it must be a bundle whose signature is by that key: COFFER_ERR_NOT_SIGNED, COFFER_ERR_SIGNATURE. Without one
   a bundle's signature is ignored. err->offset is the byte of the manifest, in a bundle of the statement in it.
   COFFER_ERR_MANIFEST and its like, 170 to 173, for what is not one, COFFER_ERR_KEY for what is not a key. */
COFFER_API coffer_status coffer_manifest_parse(coffer_manifest **manifest, const void *bytes, size_t size,
                                               const char *key, size_t key_len, const coffer_allocator *allocator,
                                               coffer_error *err);
/* Makes an empty manifest to be filled. `model` is what statements call the model. */
COFFER_API coffer_status coffer_manifest_new(coffer_manifest **manifest, const char *model,
                                             const coffer_allocator *allocator, coffer_error *err);
/* Releases the manifest, and with it its entries and its text; NULL is ignored. */
COFFER_API void coffer_manifest_free(coffer_manifest *manifest);
/* Adds a file by its name, which is copied, and its digest, of exactly its algorithm's size. COFFER_ERR_MANIFEST_NAME
   for a name that leads out of the manifest's folder or is no name; one that comes twice fails when the manifest is
   written. */
COFFER_API coffer_status coffer_manifest_add(coffer_manifest *manifest, const char *name, coffer_algorithm algorithm,
                                             const void *digest, size_t digest_size, coffer_error *err);
/* Names a file or folder that statements are silent about, as they say themselves. */
COFFER_API coffer_status coffer_manifest_ignore(coffer_manifest *manifest, const char *name, coffer_error *err);
/* Sets whether symbolic links to files count as files, as statements say too. */
COFFER_API void coffer_manifest_set_follows_links(coffer_manifest *manifest, bool follows);
/* Writes it; *text is borrowed until the next call or free. A bundle wants a private `key` in PEM (P-256, P-384 or
   P-521), other formats NULL. COFFER_ERR_MANIFEST_ALGORITHM for a statement with digests other than SHA-256.
   COFFER_ERR_MANIFEST_NAME for names that come twice or that the format cannot spell, COFFER_ERR_KEY for what is no
   key. */
COFFER_API coffer_status coffer_manifest_write(coffer_manifest *manifest, coffer_manifest_format format,
                                               const char *key, size_t key_len, const char **text, size_t *text_len,
                                               coffer_error *err);
/* Entry `i`, in the order they were read or added, borrowed until the next is added; NULL when i is not below the
   count. */
COFFER_API const coffer_manifest_entry *coffer_manifest_at(const coffer_manifest *manifest, size_t i);
/* Files of the manifest. */
COFFER_API size_t coffer_manifest_count(const coffer_manifest *manifest);
/* What it was read from; 0 for one that was made. */
COFFER_API coffer_manifest_format coffer_manifest_format_of(const coffer_manifest *manifest);
/* Whether a file of that name is ignored: it was named to coffer_manifest_ignore, or lies below such a folder. */
COFFER_API bool coffer_manifest_ignores(const coffer_manifest *manifest, const char *name);
/* Whether symbolic links to files count as files. */
COFFER_API bool coffer_manifest_follows_links(const coffer_manifest *manifest);

#ifdef __cplusplus
}
#endif

#endif
