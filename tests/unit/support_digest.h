/* SPDX-License-Identifier: Apache-2.0 */
/* Models with digests for tests, in the test's own directory (support_file.h): four small tensors whose digests are known, and
   some large ones. */
#ifndef COFFER_TESTS_SUPPORT_DIGEST_H
#define COFFER_TESTS_SUPPORT_DIGEST_H

#include "coffer.h"
#include "support_file.h"

#include <stddef.h>
#include <stdint.h>

#define VECTOR_COUNT 4
#define LARGE_COUNT 6

extern const coffer_algorithm ALGORITHMS[2];

/* In the order of their declaration. The model has them by dtype. */
typedef struct digest_vector {
    const char *name;
    size_t size;
    const char *bytes;
    const char *data[2]; /* by ALGORITHMS */
    const char *record[2];
} digest_vector;

extern const digest_vector VECTORS[VECTOR_COUNT];
extern const tensor_spec LARGE[LARGE_COUNT];

/* Declares the vectors, and a pair of metadata. */
coffer_header *vector_header(void);
void write_vectors(const char *name, const coffer_writer_options *options);
/* The same with digests, and with slack. */
void write_recorded(const char *name, coffer_algorithm algorithm);

coffer *open_with(const char *name, const coffer_open_options *options);
/* Opens and verifies. */
coffer_status verify_file(const char *name, coffer_error *err);
void assert_verifies(const char *name);
/* Sets a key of the metadata, or removes it: `value` NULL. */
coffer_status set_key(const char *name, const char *key, const char *value, coffer_error *err);

/* A progress callback, and what it was told. */
typedef struct telling {
    uint64_t last;
    uint64_t total;
    unsigned calls;
    unsigned stop_at; /* the call that is answered by cancelling; 0: none */
} telling;

int tell(void *ctx, uint64_t done, uint64_t total);

#endif
