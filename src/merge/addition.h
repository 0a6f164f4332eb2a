/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of adding adapters (coffer/merge.h):
 *
 *   addition          the plan: which modules the adapters have, and what becomes of each
 *   addition_factors  the two matrices of a module
 *   adapter_config    the configuration
 *   adapter_files     writing and publishing
 */
#ifndef COFFER_MERGE_ADDITION_H
#define COFFER_MERGE_ADDITION_H

#include "coffer.h"
#include "lapack.h"
#include "lora.h"

/* A module of one adapter, and all that its product is multiplied by. */
typedef struct coffer__addition_term {
    size_t adapter;
    const coffer__lora_module *module;
    double scale;
} coffer__addition_term;

/* A module of the result: some neighbouring terms. */
typedef struct coffer__addition_item {
    coffer_added added;
    const coffer__addition_term *terms;
    uint64_t rows;
    uint64_t columns;
} coffer__addition_item;

struct coffer_addition {
    coffer_allocator allocator;
    coffer_adapter *adapters;
    size_t adapter_count;
    coffer__addition_term *terms; /* by module, and then by adapter */
    size_t term_count;
    size_t capacity; /* of terms, and of items */
    coffer__addition_item *items;
    size_t count;
    uint64_t rank; /* the most of the result; 0: as much as there is */
    coffer_dtype dtype;
    bool flat;                         /* the names are kohya's */
    bool peft;                         /* the names are PEFT's, and there is a configuration */
    const coffer__lora_config *config; /* of the first adapter */
    coffer__name base;                 /* base_model_name_or_path, of the first adapter that states one */
    coffer__lapack lapack;
    bool run;
};

/* The two matrices of an item, row-major: `down` of rank rows, `up` of rank columns. One block of memory. */
typedef struct coffer__addition_pair {
    float *down;
    float *up;
    size_t down_count;
    size_t up_count;
} coffer__addition_pair;

/* Computes them, and what they keep of the sum. Released by coffer__addition_release, also after a failure. */
coffer_status coffer__addition_compute(const coffer_addition *addition, coffer__addition_item *item,
                                       coffer__addition_pair *pair, coffer_error *err);
void coffer__addition_release(const coffer_addition *addition, coffer__addition_pair *pair);

#endif
