/* SPDX-License-Identifier: Apache-2.0 */
/* The source that decodes: what packed_file.c found out about a packed file, and its bytes as those of the original. */
#ifndef COFFER_MODEL_PACKED_SOURCE_H
#define COFFER_MODEL_PACKED_SOURCE_H

#include "packed.h"
#include "source.h"

#include <stdatomic.h>

typedef struct coffer__packed_index coffer__packed_index;
typedef struct coffer__packed_area coffer__packed_area;

/* A tensor with bytes: where they are in the original, and where in the packed file. */
typedef struct coffer__packed_tensor {
    uint64_t offset;
    uint64_t size;
    uint64_t stored_offset;
    uint64_t stored_size;
    coffer_dtype dtype;
    bool packed;
    _Atomic(coffer__packed_index *) index; /* of a packed one, when it was wanted */
    _Atomic(uint8_t *) data;               /* all its bytes, when they were wanted in place */
} coffer__packed_tensor;

/* A packed file. Constant but for indices and areas. */
typedef struct coffer__packed_view {
    coffer_allocator allocator;
    coffer__byte_source of; /* the packed file */
    uint64_t size;          /* of the original */
    uint8_t sha256[32];
    uint8_t *front; /* the original's bytes before its data */
    size_t front_size;
    coffer__packed_tensor *tensors; /* in order of their offsets */
    size_t count;
    size_t capacity;
    coffer__mutex lock;         /* of what follows */
    coffer__packed_area *areas; /* that nobody uses */
    uint64_t unpacked_left;     /* bytes that may yet be held in place */
} coffer__packed_view;

/* A view of a source, which it does not own before coffer__packed_source_init; NULL, with *err filled, without memory. */
coffer__packed_view *coffer__packed_view_new(const coffer__byte_source *of, const coffer_allocator *allocator,
                                             coffer_error *err);
/* Does not close the source. */
void coffer__packed_view_free(coffer__packed_view *view);
/* Makes *source the view's, which it then owns, with the source that it is of. */
void coffer__packed_source_init(coffer__byte_source *source, coffer__packed_view *view);
/* The view of a source; NULL if it is of another kind. */
coffer__packed_view *coffer__packed_source_view(const coffer__byte_source *source);
/* A tensor's bytes in memory of the view, decoded by the first call; NULL, with *err filled, after a failure or beyond the
   limit. */
uint8_t *coffer__packed_source_data(const coffer__byte_source *source, uint64_t offset, coffer_error *err);
/* The tensor in which a byte of the original lies; there is one. */
coffer__packed_tensor *coffer__packed_source_find(const coffer__packed_view *view, uint64_t offset);

#endif
