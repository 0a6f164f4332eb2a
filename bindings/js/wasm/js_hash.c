/* SPDX-License-Identifier: Apache-2.0 */
/* Digests of bytes that come in pieces: the library's hashers, one for each job. */
#include "hash.h"
#include "js.h"
#include "sha256_portable.h"

static coffer_hasher *hasher;
static uint8_t hash_digest[COFFER_LARGEST_DIGEST_SIZE];

/* Without libc, the allocator that stands for it is the arena. */
const coffer_allocator *coffer_libc_allocator(void)
{
    return &js_arena;
}

/* There is no library to look for first: what is opened takes over. */
static coffer_status js_sha256_open(coffer_hasher *made, coffer_error *err)
{
    made->ops = &coffer__hash_sha256_portable;
    return made->ops->open(made, err);
}

const coffer__hash_ops coffer__hash_sha256 = { .open = js_sha256_open };

/* Begins digests by an algorithm, whose number is COFFER_SHA256 or COFFER_XXH3_128. */
JS_EXPORT(coffer_js_hash_new) coffer_status coffer_js_hash_new(unsigned algorithm)
{
    return coffer_hasher_new(&hasher, (coffer_algorithm)algorithm, &js_arena, &js_state.error);
}

JS_EXPORT(coffer_js_hash_update) coffer_status coffer_js_hash_update(const void *bytes, size_t size)
{
    return coffer_hasher_update(hasher, bytes, size, &js_state.error);
}

/* The digest is the answer's bytes. The hasher is ready for the next one. */
JS_EXPORT(coffer_js_hash_finish) coffer_status coffer_js_hash_finish(void)
{
    const size_t size = coffer_algorithm_digest_size(hasher->algorithm);
    js_state.bytes = (uint32_t)(size_t)hash_digest;
    js_state.bytes_size = (uint32_t)size;
    return coffer_hasher_finish(hasher, hash_digest, size, &js_state.error);
}
