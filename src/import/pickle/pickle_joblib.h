/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays in the pickles of joblib. It writes the bytes of an array between the opcodes, right after the state of an object
 * that describes it:
 *
 *   joblib.numpy_pickle.NumpyArrayWrapper | NEWOBJ | {"subclass", "shape", "order", "dtype", "allow_mmap",
 *   "numpy_array_alignment_bytes"} | BUILD | n 1 | padding n | bytes of the array | the next opcode
 *
 * without the padding before joblib 1.2. An array of objects is a pickle of its own there. Other loaders take those bytes for
 * opcodes; so only what all of them stop at may be passed over.
 */
#ifndef COFFER_PICKLE_PICKLE_JOBLIB_H
#define COFFER_PICKLE_PICKLE_JOBLIB_H

#include "pickle.h"

/* A pickle of an array of objects. */
typedef struct coffer__joblib_objects {
    uint64_t at; /* in the stream */
    uint64_t size;
} coffer__joblib_objects;

/* A pickle that is run as joblib would. */
typedef struct coffer__joblib {
    const coffer_allocator *allocator;
    coffer__pickle_bytes bytes; /* the stream */
    uint64_t budget;            /* of a pickle within it */
    coffer__value *arrays;      /* the objects whose bytes were passed over, in their order */
    size_t count;
    size_t capacity;
    coffer__joblib_objects *objects;
    size_t object_count;
    size_t object_capacity;
    bool stopped; /* there were bytes of numbers, which stop every loader that takes them for opcodes */
    bool padded;  /* there was an array with padding */
} coffer__joblib;

/* For a watch (pickle.h), whose ctx is a coffer__joblib that begins as zeros but for what it is of. COFFER_ERR_PICKLE for an
   array that is not as joblib writes it, or that another loader would go on in. */
coffer_status coffer__joblib_own_bytes(void *ctx, const coffer__pickle *pickle, coffer__value value, uint64_t position,
                                       uint64_t *size, coffer_error *err);
/* Whether the bytes of an object were passed over. */
bool coffer__joblib_has(const coffer__joblib *joblib, coffer__value value);
/* Whether a value is the class of such objects. */
bool coffer__joblib_is_class(const coffer__pickle *pickle, coffer__value value);
void coffer__joblib_free(coffer__joblib *joblib);

#endif
