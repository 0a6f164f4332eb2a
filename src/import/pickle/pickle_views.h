/* SPDX-License-Identifier: Apache-2.0 */
/* From a value of a pickle to a view of a storage: the arguments of torch's rebuilding functions, and those of NumPy's.
   Every number is checked here against the storage that it leads into. */
#ifndef COFFER_PICKLE_PICKLE_VIEWS_H
#define COFFER_PICKLE_PICKLE_VIEWS_H

#include "pickle_classify.h"

typedef struct coffer__view {
    const char *lack;        /* why safetensors cannot express it: "a sparse tensor"; NULL: it can */
    coffer__element element; /* with `lack`, it may be without a dtype */
    coffer__import_plan_row
        row; /* with `lack`, it may be without a storage. Not filled: name, fate, alias_of, reason */
    coffer__import_plan_dimension dimensions[COFFER__PLAN_MAX_RANK];
} coffer__view;

/*
 * The view that a value stands for, whose role is TENSOR or LACKING. Marks the nodes that it is made of as reached. A
 * storage within the pickle itself is put into the plan the first time. COFFER_ERR_VIEW when it leads out of its
 * storage, COFFER_ERR_DAMAGED when there is no such storage or it has another size, COFFER_ERR_ARRAY for an array that
 * contradicts itself, COFFER_ERR_PICKLE for arguments that no such function takes.
 */
coffer_status coffer__view_of(coffer__graph *graph, coffer__value value, coffer__view *view, coffer_error *err);
/* All of a storage, as bytes: for one that is a value by itself. */
coffer_status coffer__view_of_storage(coffer__graph *graph, coffer__value persistent, coffer__view *view,
                                      coffer_error *err);

/* A tensor of which each process has a part (DTensor): values of the graph. */
typedef struct coffer__distributed {
    coffer__value local; /* the part, a tensor */
    coffer__value sizes; /* of the whole */
    coffer__value spec;  /* how it was cut */
} coffer__distributed;
/* Whether a value is one, perhaps within a parameter. */
bool coffer__view_is_distributed(const coffer__graph *graph, coffer__value value, coffer__distributed *distributed);

/* What a persistent id says of a storage. */
typedef struct coffer__storage_id {
    const char *key; /* no NUL */
    size_t key_len;
    char digits[20];         /* the key, if it is a number */
    coffer__element element; /* of the class */
    uint64_t elements;
    uint64_t size;   /* of these, in bytes */
    uint64_t offset; /* in elements, of a view of a storage (torch before 0.4) */
} coffer__storage_id;
/* Reads the id of a PERSISTENT; COFFER_ERR_PICKLE for any that is not a storage's. */
coffer_status coffer__storage_id_of(const coffer__graph *graph, coffer__value value, coffer__storage_id *id,
                                    coffer_error *err);

/* The storage that is the whole object; *found is false for any other object, and where the pickle names anything else. The
   storage's key is not kept. */
coffer_status coffer__graph_storage(coffer__graph *graph, coffer__within *within, bool *found, coffer_error *err);

/* ---- between the files of views ------------------------------------------------------------------------------------ */

/* Reads whole numbers out of a tuple, a list or a torch.Size; false when there is anything else, or too many. */
bool coffer__view_numbers(const coffer__graph *graph, coffer__value container, uint64_t *numbers, size_t *count);
/* Fills the row's dimensions, offset, dtype and item size from extents and the view's element; of `available` bytes of
   the storage, all that is viewed has to be among them. */
coffer_status coffer__view_fill(const coffer__graph *graph, coffer__value value, coffer__view *view,
                                const coffer__extents *extents, uint64_t available, coffer_error *err);
/* An array of NumPy, by either of its functions. */
coffer_status coffer__view_of_array(coffer__graph *graph, coffer__value value, coffer__view *view, coffer_error *err);

#endif
