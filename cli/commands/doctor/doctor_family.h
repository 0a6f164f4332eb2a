/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of a family of models: a row of the table in doctor_families.c. Names of tensors are as transformers writes
 * them, after one of the family's prefixes; # stands for the number of a layer, @ for another number.
 *
 * A shape is written as its dimensions, separated by commas:
 *
 *   V  vocab_size, padded or not    H  hidden_size                     N  max_position_embeddings
 *   Q  heads x head_dim             K  key-value heads x head_dim      A  Q + 2K
 *   I  intermediate_size            M  that of an expert               E  experts
 *   D  size of the embeddings       ?  anything                        2, 3, 4  in front: so many times
 */
#ifndef COFFER_DOCTOR_FAMILY_H
#define COFFER_DOCTOR_FAMILY_H

#include <stdbool.h>
#include <stddef.h>

#define DOCTOR_RULES_MOST 16

typedef struct doctor_rule {
    const char *name; /* NULL closes the list */
    const char *shape;
    bool in_each; /* layer; a layer without it is not whole, unless the weights are quantised */
} doctor_rule;

typedef struct doctor_family {
    const char *types;    /* model_type, separated by spaces */
    const char *prefixes; /* separated by spaces; "-" is none */
    const char *layers;   /* the beginning of a layer's tensors, up to the number */
    const char *decoder;  /* the same of a second stack of layers; NULL: there is none */
    const char *head;     /* the output embeddings, without a prefix; NULL: the family has none to check */
    bool tied;            /* they are the input embeddings where config.json does not say */
    bool generates;
    const doctor_rule *rules;
} doctor_family;

/* The family of a model_type; NULL when it is not in the table. */
const doctor_family *doctor_family_of(const char *type, size_t type_len);

#endif
