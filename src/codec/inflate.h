/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inflates what readers look at: heads of arrays, pickles that another program has packed again. It needs no library
 * and no system, so it works in the sandbox; for tensors there are faster ones.
 */
#ifndef COFFER_CODEC_INFLATE_H
#define COFFER_CODEC_INFLATE_H

#include "coffer.h"

/* Where deflated bytes come from: the next ones, as many as there are at hand; 0 when there are no more. They stay valid
   until the next call. */
typedef struct coffer__inflate_input {
    void *ctx;
    coffer_status (*next)(void *ctx, const uint8_t **bytes, size_t *size, coffer_error *err);
} coffer__inflate_input;

/* Inflates raw deflate (RFC 1951) into `out`: all of it, which has to be `out_size` bytes and use up the input, or, unless
   `whole`, its first `out_size` ones. COFFER_ERR_DAMAGED for anything else. Pure. */
coffer_status coffer__inflate(const coffer__inflate_input *input, void *out, size_t out_size, bool whole,
                              coffer_error *err);
/* Inflates what begins at `bytes`, to its end, which may be before theirs: it takes *used of them, and makes *out_size, at
   most as many as that said before. COFFER_ERR_DAMAGED for anything else. Pure. */
coffer_status coffer__inflate_stream(const uint8_t *bytes, size_t size, size_t *used, void *out, size_t *out_size,
                                     coffer_error *err);

#endif
