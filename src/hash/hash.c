/* SPDX-License-Identifier: Apache-2.0 */
/* The list of algorithms, and the hashers that coffer.h declares. */
#include "hash.h"

#include "alloc.h"
#include "error.h"
#include "libc_allocator.h"

#include <string.h>

/* Indexed by coffer_algorithm. Row 0 stands for every number that is no algorithm: it has no name,
   no digest and no functions. */
static const struct hash_row {
    const char *name;
    size_t digest_size;
    const coffer__hash_ops *ops;
} hash_rows[] = {
    [COFFER_NO_ALGORITHM] = { "", 0, NULL },
    [COFFER_SHA256] = { "sha256", 32, &coffer__hash_sha256 },
    [COFFER_XXH3_128] = { "xxh3-128", 16, &coffer__hash_xxh3 },
};
#define HASH_ROWS (sizeof hash_rows / sizeof hash_rows[0])

/* Any number may come from outside; negative ones are large as unsigned. */
static const struct hash_row *hash_row_of(coffer_algorithm algorithm)
{
    return &hash_rows[(unsigned)algorithm < HASH_ROWS ? algorithm : COFFER_NO_ALGORITHM];
}

const char *coffer_algorithm_name(coffer_algorithm algorithm)
{
    return hash_row_of(algorithm)->name;
}

/* Exactly as coffer_algorithm_name spells it; row 0 has no name, so the search begins after it. */
coffer_algorithm coffer_algorithm_from_name(const char *name, size_t name_len)
{
    for (size_t i = 1; i < HASH_ROWS; i++) {
        if (strlen(hash_rows[i].name) == name_len && memcmp(hash_rows[i].name, name, name_len) == 0) {
            return (coffer_algorithm)i;
        }
    }
    return COFFER_NO_ALGORITHM;
}

size_t coffer_algorithm_digest_size(coffer_algorithm algorithm)
{
    return hash_row_of(algorithm)->digest_size;
}

/* The implementation failed at something that cannot fail in it: the library that it comes from is
   broken, or of another version than it says. */
static coffer_status hash_refused(const coffer_hasher *hasher, coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_NO_ALGORITHM, "the implementation of %s on this system does not work",
                        coffer_algorithm_name(hasher->algorithm));
}

/* Opened and begun: a hasher that exists can take bytes, so all that can be missing is reported here. */
coffer_status coffer_hasher_new(coffer_hasher **hasher, coffer_algorithm algorithm, const coffer_allocator *allocator,
                                coffer_error *err)
{
    if (hasher == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "a hasher needs a place for its handle");
    }
    *hasher = NULL;
    const struct hash_row *row = hash_row_of(algorithm);
    if (row->ops == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "a hasher needs an algorithm of the list");
    }
    const coffer_allocator *from = coffer__allocator_or_libc(allocator);
    coffer_hasher *made = coffer__alloc_zeroed(from, sizeof *made);
    if (made == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for a hasher");
    }
    /* By value: the caller's allocator struct need not outlive this call. */
    *made = (coffer_hasher){ .ops = row->ops, .algorithm = algorithm, .allocator = *from };
    coffer_status status = made->ops->open(made, err);
    if (status != COFFER_OK) {
        coffer__free(from, made, sizeof *made);
        return status;
    }
    if (!made->ops->begin(made)) {
        status = hash_refused(made, err);
        coffer_hasher_free(made);
        return status;
    }
    *hasher = made;
    return COFFER_OK;
}

/* Pieces of any size, and none: the digest is that of all of them together. */
coffer_status coffer_hasher_update(coffer_hasher *hasher, const void *bytes, size_t size, coffer_error *err)
{
    if (hasher == NULL || (bytes == NULL && size > 0)) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the hasher or the bytes to hash are NULL");
    }
    return size == 0 || hasher->ops->update(hasher, bytes, size) ? COFFER_OK : hash_refused(hasher, err);
}

/* Begins again at once, so that one hasher serves many digests. `digest_size` has to be exact: a
   buffer of another size is that of another algorithm. */
coffer_status coffer_hasher_finish(coffer_hasher *hasher, void *digest, size_t digest_size, coffer_error *err)
{
    if (hasher == NULL || digest == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the hasher or the place for its digest is NULL");
    }
    const size_t size = coffer_algorithm_digest_size(hasher->algorithm);
    if (digest_size != size) {
        coffer__fail(err, COFFER_ERR_BUFFER_SIZE, "a digest of %s has %u bytes, and its place %u",
                     coffer_algorithm_name(hasher->algorithm), (uint64_t)size, (uint64_t)digest_size);
        return coffer__fail_sizes(err, COFFER_ERR_BUFFER_SIZE, size, digest_size);
    }
    return hasher->ops->finish(hasher, digest) && hasher->ops->begin(hasher) ? COFFER_OK : hash_refused(hasher, err);
}

void coffer_hasher_free(coffer_hasher *hasher)
{
    if (hasher == NULL) {
        return;
    }
    hasher->ops->close(hasher);
    const coffer_allocator allocator = hasher->allocator;
    coffer__free(&allocator, hasher, sizeof *hasher);
}
