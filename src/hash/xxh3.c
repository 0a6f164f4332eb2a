/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XXH3 of 128 bits by the header of xxHash, compiled in: many times as fast as SHA-256, and no protection
 * against anybody. It finds what a disk or a cable has changed. The digest's bytes are the canonical
 * ones, those that `xxhsum -H2` prints. If the header was missing when the library was built, the
 * algorithm is missing, and opening it says so.
 */
#include "alloc.h"
#include "error.h"
#include "hash.h"

#include <stddef.h>

#if __has_include(<xxhash.h>)
#define XXH_INLINE_ALL
#include <xxhash.h>
#endif

/* Before 0.8 the result of XXH3 was not final. */
#if defined(XXH_VERSION_NUMBER) && XXH_VERSION_NUMBER >= 800
#define XXH3_IS_HERE 1
#else
#define XXH3_IS_HERE 0
#endif

#if XXH3_IS_HERE

/* The state wants more alignment than an allocator promises. */
#define XXH3_ALIGNMENT 64u
#define XXH3_BLOCK_SIZE (sizeof(XXH3_state_t) + XXH3_ALIGNMENT)

/* The state within its block, moved up to the alignment: by 1 to XXH3_ALIGNMENT bytes, for which
   the block has space. An address, once given, does not change, so this is the same each time. */
static XXH3_state_t *xxh3_state(const coffer_hasher *hasher)
{
    uint8_t *block = hasher->state;
    const size_t over = (size_t)((uintptr_t)block % XXH3_ALIGNMENT);
    return (XXH3_state_t *)(void *)(block + (XXH3_ALIGNMENT - over));
}

static coffer_status xxh3_open(coffer_hasher *hasher, coffer_error *err)
{
    hasher->state = coffer__alloc_zeroed(&hasher->allocator, XXH3_BLOCK_SIZE);
    return hasher->state != NULL ? COFFER_OK : coffer__fail(err, COFFER_ERR_MEMORY, "no memory for XXH3");
}

static void xxh3_close(coffer_hasher *hasher)
{
    coffer__free(&hasher->allocator, hasher->state, XXH3_BLOCK_SIZE);
}

static bool xxh3_begin(coffer_hasher *hasher)
{
    return XXH3_128bits_reset(xxh3_state(hasher)) == XXH_OK;
}

static bool xxh3_update(coffer_hasher *hasher, const void *bytes, size_t size)
{
    return XXH3_128bits_update(xxh3_state(hasher), bytes, size) == XXH_OK;
}

/* The number of 128 bits becomes bytes, the highest first, whatever the machine's order is. */
static bool xxh3_finish(coffer_hasher *hasher, uint8_t *digest)
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(xxh3_state(hasher)));
    for (size_t i = 0; i < sizeof canonical.digest; i++) {
        digest[i] = canonical.digest[i];
    }
    return true;
}

const coffer__hash_ops coffer__hash_xxh3 = { xxh3_open, xxh3_close, xxh3_begin, xxh3_update, xxh3_finish };

#else

/* The one function that is called of an algorithm that cannot be opened; the others are NULL. */
static coffer_status xxh3_is_not_here(coffer_hasher *hasher, coffer_error *err)
{
    (void)hasher;
    return coffer__fail(err, COFFER_ERR_NO_ALGORITHM,
                        "this library was built without XXH3, because xxhash.h (0.8 or newer; on Debian the package "
                        "libxxhash-dev) was missing: use SHA-256, or build it again");
}

const coffer__hash_ops coffer__hash_xxh3 = { xxh3_is_not_here, NULL, NULL, NULL, NULL };

#endif
