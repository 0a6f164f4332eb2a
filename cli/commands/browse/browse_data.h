/* SPDX-License-Identifier: Apache-2.0 */
/* What is browsed: the tensors of a model, or of two, matched by name. It never changes, so that any thread may look. */
#ifndef COFFER_BROWSE_DATA_H
#define COFFER_BROWSE_DATA_H

#include "coffer.h"

#define BROWSE_NONE UINT32_MAX

/* Tensors of one name; one of them may be NULL. */
typedef struct browse_item {
    const coffer_tensor *a;
    const coffer_tensor *b;
} browse_item;

/* How the headers of two models differ about a tensor. */
typedef enum browse_difference {
    BROWSE_ALIKE = 0,
    BROWSE_ONLY_A,
    BROWSE_ONLY_B,
    BROWSE_OTHER_KIND /* another dtype or shape */
} browse_difference;

typedef struct browse_data {
    const char *paths[2];
    const coffer *models[2]; /* the second is NULL where there is one */
    browse_item *pairs;      /* only of two models: those of A in its order, then those that only B has */
    size_t count;            /* of tensors, each name counted once */
    uint64_t bytes;          /* of them */
    uint64_t elements;
} browse_data;

/* Matches the tensors of one or two models, which are borrowed; false without memory. Release by browse_data_free. */
bool browse_data_make(browse_data *data, const coffer *a, const char *path_a, const coffer *b, const char *path_b);
void browse_data_free(browse_data *data);

browse_item browse_item_at(const browse_data *data, size_t item);
/* The tensor of A, or of B where A has none. */
const coffer_tensor *browse_tensor_at(const browse_data *data, size_t item);
browse_difference browse_difference_at(const browse_data *data, size_t item);

#endif
