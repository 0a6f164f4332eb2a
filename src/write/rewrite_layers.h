/* SPDX-License-Identifier: Apache-2.0 */
/* Layers in names, and lists of them: which are kept, and how they are numbered then. Pure but for memory. */
#ifndef COFFER_WRITE_REWRITE_LAYERS_H
#define COFFER_WRITE_REWRITE_LAYERS_H

#include "names.h"

#define COFFER__NO_LAYER UINT32_MAX

/* Where a name has its layer. */
typedef struct coffer__layer_place {
    size_t stack_len; /* the name begins with its stack, "model.layers"; a dot and the number follow */
    size_t end;       /* one past the number, where a dot is */
    uint32_t number;  /* COFFER__NO_LAYER: more than any list can have */
} coffer__layer_place;

/* False: the name is in no layer. */
bool coffer__layer_find(coffer__name name, coffer__layer_place *place);

/* A list that was read. Begins as zeros but for the allocator. */
typedef struct coffer__layer_list {
    const coffer_allocator *allocator;
    uint32_t *number_of; /* the new number of each old one; COFFER__NO_LAYER: left out */
    uint32_t capacity;   /* old numbers from here on are left out */
    uint32_t count;      /* of layers that are kept */
} coffer__layer_list;

/* Reads "0-15,20". COFFER_ERR_ARGUMENT says what is wrong with it; COFFER_ERR_MEMORY. */
coffer_status coffer__layer_list_read(coffer__layer_list *list, const char *text, coffer_error *err);
/* The new number of a layer; COFFER__NO_LAYER: it is left out. */
uint32_t coffer__layer_new_number(const coffer__layer_list *list, uint32_t number);
/* Allowed on zeros. */
void coffer__layer_list_free(coffer__layer_list *list);

#endif
