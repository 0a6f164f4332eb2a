/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 by Windows' own library, for where there is no libcrypto. It has one calling convention on 64-bit
 * systems, which is C's; no other has it. Its strings are of uint_least16_t, which is C's own type of u"...": macOS
 * has no <uchar.h>, where char16_t would be.
 */
#include "sha256_bcrypt.h"
#include "alloc.h"
#include "error.h"
#include "os.h"

#define BCRYPT_DIGEST_SIZE 32u
#define BCRYPT_PIECE ((size_t)1 << 30) /* sizes have 32 bits */

/* The functions return 0, or what was wrong. */
typedef struct bcrypt_state {
    coffer__os_library library;
    void *provider;
    void *digest; /* NULL: none has been begun */
    int32_t (*open)(void **provider, const uint_least16_t *algorithm, const uint_least16_t *implementation,
                    uint32_t flags);
    int32_t (*close)(void *provider, uint32_t flags);
    int32_t (*begin)(void *provider, void **digest, uint8_t *capacity, uint32_t capacity_size, uint8_t *key,
                     uint32_t key_size, uint32_t flags);
    int32_t (*update)(void *digest, const uint8_t *bytes, uint32_t size, uint32_t flags);
    int32_t (*finish)(void *digest, uint8_t *out, uint32_t size, uint32_t flags);
    int32_t (*end)(void *digest);
} bcrypt_state;

static bool bcrypt_find_functions(bcrypt_state *state)
{
    const coffer__os_library *library = &state->library;
    return coffer__os_library_find(library, "BCryptOpenAlgorithmProvider", &state->open) &&
           coffer__os_library_find(library, "BCryptCloseAlgorithmProvider", &state->close) &&
           coffer__os_library_find(library, "BCryptCreateHash", &state->begin) &&
           coffer__os_library_find(library, "BCryptHashData", &state->update) &&
           coffer__os_library_find(library, "BCryptFinishHash", &state->finish) &&
           coffer__os_library_find(library, "BCryptDestroyHash", &state->end);
}

static void bcrypt_drop_digest(bcrypt_state *state)
{
    if (state->digest != NULL) {
        (void)state->end(state->digest);
        state->digest = NULL;
    }
}

/* Also called by bcrypt_open, for a state that is only half made. */
static void bcrypt_close(coffer_hasher *hasher)
{
    bcrypt_state *state = hasher->state;
    bcrypt_drop_digest(state);
    if (state->provider != NULL) {
        (void)state->close(state->provider, 0);
    }
    coffer__os_library_close(&state->library);
    coffer__free(&hasher->allocator, state, sizeof *state);
}

static coffer_status bcrypt_open(coffer_hasher *hasher, coffer_error *err)
{
    bcrypt_state *state = coffer__alloc_zeroed(&hasher->allocator, sizeof *state);
    if (state == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for SHA-256");
    }
    if (!coffer__os_library_open(&state->library, "bcrypt.dll")) {
        coffer__free(&hasher->allocator, state, sizeof *state);
        return coffer__fail(err, COFFER_ERR_NO_ALGORITHM, "bcrypt.dll, which has SHA-256, cannot be loaded here");
    }
    hasher->state = state;
    if (bcrypt_find_functions(state) && state->open(&state->provider, u"SHA256", NULL, 0) == 0) {
        return COFFER_OK;
    }
    bcrypt_close(hasher);
    return coffer__fail(err, COFFER_ERR_NO_ALGORITHM, "the bcrypt.dll of this system does not offer SHA-256");
}

/* The library allocates the space of a digest itself. */
static bool bcrypt_begin(coffer_hasher *hasher)
{
    bcrypt_state *state = hasher->state;
    bcrypt_drop_digest(state);
    return state->begin(state->provider, &state->digest, NULL, 0, NULL, 0, 0) == 0;
}

static bool bcrypt_update(coffer_hasher *hasher, const void *bytes, size_t size)
{
    const bcrypt_state *state = hasher->state;
    const uint8_t *at = bytes;
    bool works = true;
    while (size > 0 && works) {
        const size_t piece = size < BCRYPT_PIECE ? size : BCRYPT_PIECE;
        works = state->update(state->digest, at, (uint32_t)piece, 0) == 0;
        at += piece;
        size -= piece;
    }
    return works;
}

static bool bcrypt_finish(coffer_hasher *hasher, uint8_t *digest)
{
    const bcrypt_state *state = hasher->state;
    return state->finish(state->digest, digest, BCRYPT_DIGEST_SIZE, 0) == 0;
}

const coffer__hash_ops coffer__hash_sha256_bcrypt = { bcrypt_open, bcrypt_close, bcrypt_begin, bcrypt_update,
                                                      bcrypt_finish };
