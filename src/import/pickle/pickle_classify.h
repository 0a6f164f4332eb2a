/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph of a pickle as readers see it: which node plays which role, and what is within it. The machine's graph has
 * nodes of Python; here a dict and an OrderedDict are both mappings, and a module has as entries what its
 * state_dict() would have.
 *
 * The graph comes from nobody that can be trusted: it may have cycles, and a node may be an entry of a million others.
 */
#ifndef COFFER_PICKLE_PICKLE_CLASSIFY_H
#define COFFER_PICKLE_PICKLE_CLASSIFY_H

#include "pickle.h"
#include "pickle_joblib.h"
#include "pickle_names.h"
#include "plan.h"
#include "reader.h"

typedef enum coffer__pickle_class {
    COFFER__CLASS_UNASKED = 0,
    COFFER__CLASS_OTHER, /* None, texts, bytes, types, devices */
    COFFER__CLASS_NUMBER,
    COFFER__CLASS_TENSOR,  /* or an array of NumPy */
    COFFER__CLASS_LACKING, /* a tensor that safetensors cannot express */
    COFFER__CLASS_STORAGE, /* a storage by itself, not as part of a tensor */
    COFFER__CLASS_MAPPING,
    COFFER__CLASS_SEQUENCE,
    COFFER__CLASS_MODULE, /* an object of any class with the state of a module of torch */
    COFFER__CLASS_OPAQUE
} coffer__pickle_class;

/* Bytes that tensors may be views of, by the key that the pickle has for them. */
typedef struct coffer__stored {
    const char *key; /* NUL-terminated */
    size_t key_len;
    uint64_t size;
    uint32_t storage; /* its number in the plan */
} coffer__stored;

typedef struct coffer__stores {
    const coffer_allocator *allocator;
    coffer__stored *items;
    uint32_t *order; /* the numbers of the items by their keys, once they are sorted */
    size_t count;
    size_t capacity;
} coffer__stores;

/* Sizes, strides and an offset, in elements. */
typedef struct coffer__extents {
    size_t rank;
    uint64_t sizes[COFFER__PLAN_MAX_RANK];
    uint64_t strides[COFFER__PLAN_MAX_RANK];
    uint64_t offset;
} coffer__extents;

/* A storage that a pickle has as a checkpoint of its own within bytes (torch_within.c). */
typedef struct coffer__within {
    coffer__value call; /* of what would load the bytes */
    coffer__element element;
    uint64_t offset; /* in elements, of a view of a storage */
    coffer__stored stored;
} coffer__within;

/* A tensor, described by other means than a pickle. */
typedef struct coffer__placed {
    coffer__extents extents;
    coffer__element element;
    uint32_t storage;   /* its number in the plan */
    uint64_t available; /* bytes of it that the tensor may lie in */
} coffer__placed;

/* Tensors that a pickle has only numbers for, because something else describes them (torch_tar.c). */
typedef struct coffer__numbered {
    const void *ctx;
    /* Whether there is a tensor of that number. */
    bool (*has)(const void *ctx, uint64_t number);
    /* Its sizes, strides and offset, and what it is in. */
    coffer_status (*get)(const void *ctx, uint64_t number, coffer__placed *placed, coffer_error *err);
} coffer__numbered;

/* One pickle, and what is needed to make rows of it. Begins as zeros but for what the reader sets. */
typedef struct coffer__graph {
    const coffer__pickle *pickle;
    coffer__joblib *joblib; /* passes over the bytes of its arrays while the pickle is run; NULL: they are opcodes */
    const coffer_allocator *allocator;
    const coffer__wants *wants;
    coffer__import_plan *plan;
    uint32_t file;
    uint64_t at;        /* of the stream's byte 0 in the file */
    bool packed;        /* the stream is not in the file as it is, so that nothing within it can be moved */
    bool big_endian;    /* elements of storages */
    bool paddle;        /* written by Paddle, whose bfloat16 looks like u2 */
    bool noted_swap;    /* a finding about swapped bytes was put */
    const char *member; /* of the archive; "": none */
    const coffer__stores *stores;
    const coffer__numbered *numbered; /* NULL: persistent ids are those of storages */
    coffer__within *within;           /* by the numbers of their calls */
    size_t within_count;
    size_t within_capacity;
    char beside[192]; /* what is left out beside tensors, as far as there is space (pickle_beside.h) */
    size_t beside_len;
    uint64_t beside_count;
    uint64_t beside_more;
    size_t beside_put; /* pairs of the metadata */
    /* Filled by coffer__graph_prepare. */
    uint8_t *roles;     /* of each value: coffer__pickle_class */
    uint8_t *reached;   /* of each value: whether some row has it */
    uint32_t *held;     /* of bytes: the storage made of them, plus 1 */
    size_t marks;       /* length of the three */
    uint32_t *shadowed; /* links of pairs whose key comes again later in the same dict; sorted */
    size_t shadowed_count;
    size_t shadowed_capacity;
} coffer__graph;

coffer_status coffer__graph_prepare(coffer__graph *graph, coffer_error *err);
void coffer__graph_free(coffer__graph *graph);

coffer__pickle_class coffer__graph_classify(coffer__graph *graph, coffer__value value);
/* What is known of a global; nothing of any other value. */
coffer__known coffer__graph_known(const coffer__graph *graph, coffer__value value);
/* The callable of a CALL, and what is known of it. */
coffer__value coffer__graph_callable(const coffer__graph *graph, coffer__value call);
coffer__known coffer__graph_known_call(const coffer__graph *graph, coffer__value call);
/* Whether a callable is a class of TorchScript, whose code the archive has. */
bool coffer__graph_is_script(const coffer__graph *graph, coffer__value callable);
/* The storage that a call of torch.storage._load_from_bytes stands for; NULL for any other value. */
const coffer__within *coffer__graph_within(const coffer__graph *graph, coffer__value call);
/* The object that the pickle is of: NumPy saves one as an array of one object, without dimensions. */
coffer__value coffer__graph_top(const coffer__graph *graph);
/* Where BYTES lie in the file, and in which coding: a piece without its size. `latin1` is for a TEXT that stands for them. */
coffer__import_plan_piece coffer__graph_piece(const coffer__graph *graph, coffer__value bytes, bool latin1);
/* The array in eval("data", {"data": array}), which Paddle wrote for some tensors; 0 for any other call. */
coffer__value coffer__graph_evaluated(const coffer__graph *graph, coffer__value call);
/* The first `most` items of a container; those that are not there are 0. Returns how many it has. */
size_t coffer__graph_items(const coffer__graph *graph, coffer__value container, coffer__value *items, size_t most);
/* The arguments of a CALL, a tuple; 0 when there is none. */
coffer__value coffer__graph_arguments(const coffer__graph *graph, coffer__value call);
/* Whether a value is a text (or Python 2's str) of exactly these characters. */
bool coffer__graph_is_text(const coffer__graph *graph, coffer__value value, const char *text);
/* A whole number that is not negative; false for anything else. */
bool coffer__graph_u64(const coffer__graph *graph, coffer__value value, uint64_t *number);
/* The number that a PERSISTENT asks for; false for other ids. */
bool coffer__graph_number(const coffer__graph *graph, coffer__value persistent, uint64_t *number);
/* Where a node's opcode stands in the file. */
uint64_t coffer__graph_place(const coffer__graph *graph, coffer__value value);

/* ---- entries ------------------------------------------------------------------------------------------------------ */

#define COFFER__ENTRIES_PARTS 6

typedef struct coffer__graph_entry {
    coffer__value key; /* 0: of a sequence */
    uint64_t index;    /* of a sequence */
    coffer__value value;
} coffer__graph_entry;

/* What is within a mapping, a sequence or a module, in order; of pairs with the same key the last one. */
typedef struct coffer__entries {
    struct {
        coffer__value container;
        bool pairs;      /* items are key, value, key, value */
        bool couples;    /* items are containers of two */
        bool persistent; /* those in `without` are left out */
    } parts[COFFER__ENTRIES_PARTS];
    uint8_t count;
    uint8_t at;
    bool begun;
    uint32_t link;
    uint64_t index;
    coffer__value without;
} coffer__entries;

void coffer__entries_begin(coffer__entries *entries, coffer__graph *graph, coffer__value value);
bool coffer__entries_next(coffer__entries *entries, coffer__graph *graph, coffer__graph_entry *entry);

/* ---- storages ----------------------------------------------------------------------------------------------------- */

coffer_status coffer__stores_add(coffer__stores *stores, const coffer__stored *item, coffer_error *err);
/* Sorts them, after the last was added. COFFER_ERR_DAMAGED when two have the same key. */
coffer_status coffer__stores_seal(coffer__stores *stores, coffer_error *err);
const coffer__stored *coffer__stores_find(const coffer__stores *stores, const char *key, size_t key_len);
void coffer__stores_free(coffer__stores *stores);

#endif
