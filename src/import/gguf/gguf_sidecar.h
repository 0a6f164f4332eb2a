/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sidecar: the keys of a GGUF file in a file of their own, with all arrays that are too long for metadata. It is a
 * GGUF file itself, of no tensors, as programs on ggml have for vocabularies:
 *
 *   "GGUF" | version u32 | tensors u64, 0 | keys u64 | the keys, byte for byte as they were
 *
 * What is read may be any GGUF file; its tensors are not looked at.
 */
#ifndef COFFER_GGUF_GGUF_SIDECAR_H
#define COFFER_GGUF_GGUF_SIDECAR_H

#include "gguf_values.h"
#include "writing.h"

typedef struct coffer__gguf_sidecar {
    const coffer_allocator *allocator;
    coffer_input *input;
    coffer__input_files reading; /* what `in` reads */
    coffer__gguf_in in;
    uint64_t left; /* keys that were not read yet */
} coffer__gguf_sidecar;

/* Opens a path or URL. The sidecar stays where it is until coffer__gguf_sidecar_close, which may follow a failure.
   COFFER_ERR_UNKNOWN_INPUT for what is no GGUF file, COFFER_ERR_UNSUPPORTED for a big-endian one. */
coffer_status coffer__gguf_sidecar_open(coffer__gguf_sidecar *sidecar, const char *path,
                                        const coffer_allocator *allocator, coffer_error *err);
/* The next key and its value, which are `size` bytes from `at` on; call it `left` times. */
coffer_status coffer__gguf_sidecar_next(coffer__gguf_sidecar *sidecar, coffer__gguf_value *value, uint64_t *at,
                                        uint64_t *size, coffer_error *err);
/* Writes bytes of the file. */
coffer_status coffer__gguf_sidecar_copy(coffer__gguf_sidecar *sidecar, uint64_t at, uint64_t size, coffer__writing *out,
                                        coffer_error *err);
void coffer__gguf_sidecar_close(coffer__gguf_sidecar *sidecar);

#endif
