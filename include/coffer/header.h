/* SPDX-License-Identifier: Apache-2.0 */
/* coffer/header.h - a header under construction: bytes only, no I/O and no threads. What writers are given, see
   write.h. */
#ifndef COFFER_HEADER_H
#define COFFER_HEADER_H

#include "hash.h"
#include "table.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A header under construction: declare tensors and metadata in any order, then build. */
typedef struct coffer_header coffer_header;

/* How a header is laid out. */
typedef struct coffer_header_options {
    size_t struct_size;
    uint64_t alignment;       /* of the data's start in the file: a power of two, at least 8; 0: 8 */
    uint64_t slack;           /* spaces to reserve after the header for later edits of the metadata */
    uint64_t max_header_size; /* as in coffer_parse_options */
    coffer_format format;     /* COFFER_FORMAT_ANY: safetensors */
    bool empty_metadata;      /* write a place for metadata even when no key was set */
} coffer_header_options;
#define COFFER_HEADER_OPTIONS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(coffer_header_options), 0, 0, 0, COFFER_FORMAT_ANY, false                                               \
    }

/* Makes a header that declares nothing. */
COFFER_API coffer_status coffer_header_new(coffer_header **header, const coffer_allocator *allocator,
                                           coffer_error *err);
/* Releases the header, and with it what coffer_header_build handed out; NULL is ignored. */
COFFER_API void coffer_header_free(coffer_header *header);
/* Declares a tensor of `rank` dimensions (0 for a scalar); name and shape are copied. Tensors are numbered 0, 1, 2… in
   the order of their declaration. Refused at once: the name "__metadata__" (COFFER_ERR_NAME), a name that is not UTF-8
   (COFFER_ERR_UTF8), an unknown dtype (COFFER_ERR_DTYPE), a size beyond 2^64-1 bits (COFFER_ERR_OVERFLOW) or not in
   whole bytes (COFFER_ERR_PARTIAL_BYTE). Two tensors of one name are refused when the header is built. */
COFFER_API coffer_status coffer_header_add(coffer_header *header, const char *name, size_t name_len, coffer_dtype dtype,
                                           const uint64_t *shape, size_t rank, coffer_error *err);
/* Sets a key of the metadata, replacing what it had; both texts are copied. COFFER_ERR_UTF8. */
COFFER_API coffer_status coffer_header_set_metadata(coffer_header *header, const char *key, size_t key_len,
                                                    const char *value, size_t value_len, coffer_error *err);
/*
 * Lays the file out and writes its first bytes: the length, the header and its padding, in the canonical order and
 * spelling (tensors by dtype, highest first, then by name; metadata by key; compact; spaces up to the alignment), which
 * for the same tensors are the bytes that the format's reference implementation writes. A dtype that the format lacks
 * is refused before anything is written (COFFER_ERR_DTYPE names the tensor). What was built is validated by
 * coffer_parse before it is handed out. *bytes and *table are borrowed until the header is freed; nothing can be
 * declared afterwards. Either output may be NULL. A second call returns the same bytes and ignores its options.
 * COFFER_ERR_DUPLICATE_NAME, COFFER_ERR_HEADER_TOO_LARGE above the limit, COFFER_ERR_OVERFLOW when the tensors' sizes
 * add up to more than 2^64-1.
 */
COFFER_API coffer_status coffer_header_build(coffer_header *header, const coffer_header_options *options,
                                             const void **bytes, uint64_t *size, const coffer_table **table,
                                             coffer_error *err);
/* Where tensor number `i` of the declaration will be; NULL before the header is built or when i is not below the
   count. */
COFFER_API const coffer_tensor *coffer_header_at(const coffer_header *header, size_t i);
/* Tensors that are declared. For programs that declare tensors in several places: the next one gets this number. */
COFFER_API size_t coffer_header_count(const coffer_header *header);
/* Makes space for digests in the metadata, when everything is declared and before the header is built. A writer that is
   to record digests does so itself, unless it gets a header that is built. COFFER_ERR_ARGUMENT when it is built
   already. Since 0.2. */
COFFER_API coffer_status coffer_header_reserve_digests(coffer_header *header, coffer_algorithm algorithm,
                                                       coffer_error *err);

#ifdef __cplusplus
}
#endif

#endif
