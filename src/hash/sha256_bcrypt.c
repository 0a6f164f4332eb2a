/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 by bcrypt.dll, which every Windows has, where libcrypto is not there. Loaded by its name as other libraries are, so
 * that nothing here depends on the system: elsewhere it is not found. Its functions answer 0 or a status; handles are opaque.
 */
#include "alloc.h"
#include "hash.h"
#include "os.h"

#define BCRYPT_REUSABLE 0x20u /* the hash begins again after each digest */
#define BCRYPT_DIGEST_SIZE 32u

typedef struct bcrypt_state {
    coffer__os_library library;
    void *algorithm;
    void *hash;
    int32_t (*open)(void **algorithm, const uint16_t *name, const uint16_t *provider, uint32_t flags);
    int32_t (*close)(void *algorithm, uint32_t flags);
    int32_t (*create)(void *algorithm, void **hash, void *object, uint32_t object_size, void *secret,
                      uint32_t secret_size, uint32_t flags);
    int32_t (*destroy)(void *hash);
    int32_t (*update)(void *hash, const void *bytes, uint32_t size, uint32_t flags);
    int32_t (*finish)(void *hash, uint8_t *digest, uint32_t size, uint32_t flags);
} bcrypt_state;

static bool bcrypt_find_functions(bcrypt_state *state)
{
    const coffer__os_library *library = &state->library;
    return coffer__os_library_find(library, "BCryptOpenAlgorithmProvider", &state->open) &&
           coffer__os_library_find(library, "BCryptCloseAlgorithmProvider", &state->close) &&
           coffer__os_library_find(library, "BCryptCreateHash", &state->create) &&
           coffer__os_library_find(library, "BCryptDestroyHash", &state->destroy) &&
           coffer__os_library_find(library, "BCryptHashData", &state->update) &&
           coffer__os_library_find(library, "BCryptFinishHash", &state->finish);
}

/* Also for a state that is only half made. */
static void bcrypt_free(const coffer_allocator *allocator, bcrypt_state *state)
{
    if (state->hash != NULL) {
        (void)state->destroy(state->hash);
    }
    if (state->algorithm != NULL) {
        (void)state->close(state->algorithm, 0);
    }
    coffer__os_library_close(&state->library);
    coffer__free(allocator, state, sizeof *state);
}

static void bcrypt_close(coffer_hasher *hasher)
{
    bcrypt_free(&hasher->allocator, hasher->state);
}

/* What an unfinished digest has taken is forgotten by finishing it. */
static bool bcrypt_begin(coffer_hasher *hasher)
{
    const bcrypt_state *state = hasher->state;
    uint8_t unwanted[BCRYPT_DIGEST_SIZE];
    return state->finish(state->hash, unwanted, sizeof unwanted, 0) == 0;
}

static bool bcrypt_update(coffer_hasher *hasher, const void *bytes, size_t size)
{
    const bcrypt_state *state = hasher->state;
    const uint8_t *next = bytes;
    while (size > 0) {
        const uint32_t piece = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
        if (state->update(state->hash, next, piece, 0) != 0) {
            return false;
        }
        next += piece;
        size -= piece;
    }
    return true;
}

static bool bcrypt_finish(coffer_hasher *hasher, uint8_t *digest)
{
    const bcrypt_state *state = hasher->state;
    return state->finish(state->hash, digest, BCRYPT_DIGEST_SIZE, 0) == 0;
}

static const coffer__hash_ops bcrypt_ops = { NULL, bcrypt_close, bcrypt_begin, bcrypt_update, bcrypt_finish };

bool coffer__sha256_bcrypt_open(coffer_hasher *hasher)
{
    static const uint16_t name[] = { 'S', 'H', 'A', '2', '5', '6', 0 };
    bcrypt_state *state = coffer__alloc_zeroed(&hasher->allocator, sizeof *state);
    if (state == NULL) {
        return false;
    }
    if (!coffer__os_library_open(&state->library, "bcrypt.dll")) {
        coffer__free(&hasher->allocator, state, sizeof *state);
        return false;
    }
    const bool fine = bcrypt_find_functions(state) && state->open(&state->algorithm, name, NULL, 0) == 0 &&
                      state->create(state->algorithm, &state->hash, NULL, 0, NULL, 0, BCRYPT_REUSABLE) == 0;
    if (!fine) {
        bcrypt_free(&hasher->allocator, state);
        return false;
    }
    hasher->state = state;
    hasher->ops = &bcrypt_ops;
    return true;
}
