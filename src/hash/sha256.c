/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 by libcrypto, where there is one: it uses the processor's instructions for it, if there are any. The interface
 * is EVP: its context keeps the implementation that was looked up, so that beginning again is cheap, and
 * models can have tens of thousands of small tensors.
 */
#include "alloc.h"
#include "error.h"
#include "hash.h"
#include "libcrypto.h"
#include "sha256_bcrypt.h"
#include "sha256_portable.h"

/* The library stays open as long as the hasher: the functions below are in it. */
typedef struct sha256_state {
    coffer__os_library library;
    void *context; /* an EVP_MD_CTX */
    void *(*context_new)(void);
    void (*context_free)(void *context);
    const void *(*algorithm)(void);
    int (*init)(void *context, const void *algorithm, void *engine);
    int (*update)(void *context, const void *bytes, size_t size);
    int (*final)(void *context, unsigned char *digest, unsigned *size);
} sha256_state;

/* All or nothing: a libcrypto that lacks one of them is not used. */
static bool sha256_find_functions(sha256_state *state)
{
    const coffer__os_library *library = &state->library;
    return coffer__os_library_find(library, "EVP_MD_CTX_new", &state->context_new) &&
           coffer__os_library_find(library, "EVP_MD_CTX_free", &state->context_free) &&
           coffer__os_library_find(library, "EVP_sha256", &state->algorithm) &&
           coffer__os_library_find(library, "EVP_DigestInit_ex", &state->init) &&
           coffer__os_library_find(library, "EVP_DigestUpdate", &state->update) &&
           coffer__os_library_find(library, "EVP_DigestFinal_ex", &state->final);
}

/* Also called by sha256_open, for a state that is only half made. */
static void sha256_close(coffer_hasher *hasher)
{
    sha256_state *state = hasher->state;
    if (state->context != NULL) {
        state->context_free(state->context);
    }
    coffer__os_library_close(&state->library);
    coffer__free(&hasher->allocator, state, sizeof *state);
}

/* Where there is no libcrypto that works: the system's own library if it has one, else our own code, which is slower. */
static coffer_status sha256_open_other(coffer_hasher *hasher, coffer_error *err)
{
    hasher->ops = &coffer__hash_sha256_bcrypt;
    coffer_status status = hasher->ops->open(hasher, err);
    if (status == COFFER_ERR_NO_ALGORITHM) {
        hasher->ops = &coffer__hash_sha256_portable;
        status = hasher->ops->open(hasher, err);
    }
    if (status == COFFER_OK) {
        coffer__error_clear(err);
    }
    return status;
}

/* `state` becomes the hasher's only when there is something to close; before that a failure frees
   it here. */
static coffer_status sha256_open(coffer_hasher *hasher, coffer_error *err)
{
    sha256_state *state = coffer__alloc_zeroed(&hasher->allocator, sizeof *state);
    if (state == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for SHA-256");
    }
    const coffer_status status = coffer__libcrypto_open(&state->library, "SHA-256", err);
    if (status != COFFER_OK) {
        coffer__free(&hasher->allocator, state, sizeof *state);
        return status == COFFER_ERR_NO_ALGORITHM ? sha256_open_other(hasher, err) : status;
    }
    hasher->state = state;
    if (sha256_find_functions(state)) {
        state->context = state->context_new();
    }
    /* A libcrypto that is something else, or whose provider a policy has switched off, shows here. */
    if (state->context != NULL && state->init(state->context, state->algorithm(), NULL) == 1) {
        return COFFER_OK;
    }
    sha256_close(hasher);
    return sha256_open_other(hasher, err);
}

/* Without an algorithm EVP keeps the one that sha256_open has set. */
static bool sha256_begin(coffer_hasher *hasher)
{
    const sha256_state *state = hasher->state;
    return state->init(state->context, NULL, NULL) == 1;
}

static bool sha256_update(coffer_hasher *hasher, const void *bytes, size_t size)
{
    const sha256_state *state = hasher->state;
    return state->update(state->context, bytes, size) == 1;
}

/* The size is not asked for: it is known, and checked by the caller. */
static bool sha256_finish(coffer_hasher *hasher, uint8_t *digest)
{
    const sha256_state *state = hasher->state;
    return state->final(state->context, digest, NULL) == 1;
}

const coffer__hash_ops coffer__hash_sha256 = { sha256_open, sha256_close, sha256_begin, sha256_update, sha256_finish };
