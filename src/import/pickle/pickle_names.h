/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the globals of pickles are: the one table of names. Only what it lists as interpreted is understood;
 * everything else is opaque, whatever it is called. The names of dangerous functions are there to explain, not to
 * defend: nothing is ever imported or called.
 */
#ifndef COFFER_PICKLE_PICKLE_NAMES_H
#define COFFER_PICKLE_PICKLE_NAMES_H

#include "pickle.h"

/* What a loader that imports the name would get. */
typedef enum coffer__judgement {
    COFFER__GLOBAL_UNKNOWN = 0,
    COFFER__GLOBAL_INTERPRETED, /* understood by readers, and harmless */
    COFFER__GLOBAL_LACKING,     /* harmless: a tensor that safetensors cannot express */
    COFFER__GLOBAL_HARMLESS,    /* a class that keeps data, which readers do not look at */
    COFFER__GLOBAL_DANGEROUS    /* runs code, opens files, or reaches what does */
} coffer__judgement;

/* What an interpreted name stands for. */
typedef enum coffer__meaning {
    COFFER__MEANS_NOTHING = 0,
    COFFER__MEANS_MAPPING, /* OrderedDict and its kin */
    COFFER__MEANS_SEQUENCE,
    COFFER__MEANS_SET,
    COFFER__MEANS_NUMBER, /* complex, int, float, bool */
    COFFER__MEANS_BYTES,
    COFFER__MEANS_ENCODE, /* _codecs.encode: bytes as the text of latin-1 */
    COFFER__MEANS_SIZE,
    COFFER__MEANS_DETAIL,  /* devices, layouts, schemes of quantisation */
    COFFER__MEANS_STORAGE, /* with the element that it is of */
    COFFER__MEANS_DTYPE,   /* of torch or ml_dtypes, with the element */
    COFFER__MEANS_REBUILD_1,
    COFFER__MEANS_REBUILD_2,
    COFFER__MEANS_REBUILD_3,
    COFFER__MEANS_WRAP,        /* a call whose first argument is the tensor */
    COFFER__MEANS_FROM_TYPE,   /* a call of a function, a class, arguments, a state */
    COFFER__MEANS_TENSOR_TYPE, /* a class of tensors that has no bytes of its own beside the tensor */
    COFFER__MEANS_RECONSTRUCT, /* an array of NumPy, whose state follows */
    COFFER__MEANS_FROM_BUFFER, /* an array of NumPy by protocol 5 */
    COFFER__MEANS_ARRAY_TYPE,
    COFFER__MEANS_SCALAR,
    COFFER__MEANS_NUMPY_DTYPE,
    COFFER__MEANS_TAG,  /* TorchScript: a container, and the name of its type */
    COFFER__MEANS_LOAD, /* torch.storage._load_from_bytes: a storage as a checkpoint within bytes */
    COFFER__MEANS_EVAL  /* builtins.eval, of which one exact form stands for an array */
} coffer__meaning;

/* Elements of storages, tensors and arrays. */
typedef enum coffer__element {
    COFFER__ELEMENT_NONE = 0,
    COFFER__ELEMENT_BOOL,
    COFFER__ELEMENT_U8,
    COFFER__ELEMENT_I8,
    COFFER__ELEMENT_I16,
    COFFER__ELEMENT_U16,
    COFFER__ELEMENT_F16,
    COFFER__ELEMENT_BF16,
    COFFER__ELEMENT_I32,
    COFFER__ELEMENT_U32,
    COFFER__ELEMENT_F32,
    COFFER__ELEMENT_I64,
    COFFER__ELEMENT_U64,
    COFFER__ELEMENT_F64,
    COFFER__ELEMENT_C32,
    COFFER__ELEMENT_C64,
    COFFER__ELEMENT_C128,
    COFFER__ELEMENT_F8_E4M3FN,
    COFFER__ELEMENT_F8_E4M3FNUZ,
    COFFER__ELEMENT_F8_E5M2,
    COFFER__ELEMENT_F8_E5M2FNUZ,
    COFFER__ELEMENT_F8_E8M0FNU,
    COFFER__ELEMENT_F4_X2, /* two of F4 in a byte */
    COFFER__ELEMENT_BYTE,  /* without a meaning: bits8, int4 and their kin */
    COFFER__ELEMENT_BITS16,
    COFFER__ELEMENT_Q8,
    COFFER__ELEMENT_Q32
} coffer__element;

typedef struct coffer__element_facts {
    coffer_dtype dtype; /* 0: safetensors has none */
    uint8_t size;       /* in bytes */
    uint8_t unit;       /* bytes that have an order: half of a complex element */
    const char *name;   /* as torch calls it */
} coffer__element_facts;

typedef struct coffer__known {
    coffer__judgement judgement;
    coffer__meaning meaning;
    coffer__element element;
} coffer__known;

const coffer__element_facts *coffer__element_facts_of(coffer__element element);
/* What is known of a global, by its module and name after Python 2's renamings. */
coffer__known coffer__known_global(const char *module, const char *name);
/* The class in torch's module of storages of that element; NULL when it has none. */
const char *coffer__known_storage(coffer__element element);

#endif
