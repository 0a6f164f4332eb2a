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

#include "coffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COFFER__DOCTOR_RULES_MAX 16
#define COFFER__DOCTOR_PREFIX 64
#define COFFER__DOCTOR_NO_NUMBER UINT64_MAX

typedef struct coffer__doctor_rule {
    const char *name; /* NULL closes the list */
    const char *shape;
    bool in_each; /* layer; a layer without it is not whole, unless the weights are quantised */
} coffer__doctor_rule;

typedef struct coffer__doctor_family {
    const char *types;    /* model_type, separated by spaces */
    const char *prefixes; /* separated by spaces; "-" is none */
    const char *layers;   /* the beginning of a layer's tensors, up to the number */
    const char *decoder;  /* the same of a second stack of layers; NULL: there is none */
    const char *head;     /* the output embeddings, without a prefix; NULL: the family has none to check */
    bool tied;            /* they are the input embeddings where config.json does not say */
    bool generates;
    const coffer__doctor_rule *rules;
} coffer__doctor_family;

/* The family of a model_type; NULL when it is not in the table. */
const coffer__doctor_family *coffer__doctor_family_of(const char *type, size_t type_len);
/* Family `i` of the table; NULL after the last. */
const coffer__doctor_family *coffer__doctor_family_at(size_t i);

/* Digits at `at` of a name as a number; its end, or `at` when there are none or too many. */
size_t coffer__doctor_name_number(const char *name, size_t name_len, size_t at, uint64_t *number);
/* Whether a name is that of a rule; *inner becomes the number that stands for @, or COFFER__DOCTOR_NO_NUMBER. */
bool coffer__doctor_rule_fits(const char *rule, const char *name, size_t name_len, uint64_t *inner);
/* Whether a name is that of a prefix and a rule but for the case of letters. Then `right`, of name_len + 1 bytes, becomes the
   name as it should be. */
bool coffer__doctor_rule_spells(const char *prefix, const char *rule, const char *name, size_t name_len, char *right);
/* Whether a tensor's name begins so, and what follows. */
bool coffer__doctor_has_prefix(const coffer_tensor *tensor, const char *prefix, const char **rest, size_t *rest_len);
/* The family's first prefix that a tensor of it has; false when no tensor has a name of the family. */
bool coffer__doctor_choose_prefix(const coffer__doctor_family *family, const coffer *model,
                                  char prefix[COFFER__DOCTOR_PREFIX]);

#endif
