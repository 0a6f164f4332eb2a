/* SPDX-License-Identifier: Apache-2.0 */
/* What a config.json says of a model's sizes. Its numbers are a stranger's: nothing is counted up to one of them, and what
   is computed from them stays at the largest number instead of overflowing. */
#ifndef COFFER_DOCTOR_SIZES_H
#define COFFER_DOCTOR_SIZES_H

#include "checkup.h"
#include "doctor_family.h"

/* By the letters of doctor_family.h, and these: L layers, X those of a decoder, P layers that predict further tokens, h heads,
   k key-value heads, d the size of a head. 0: not known. */
typedef struct coffer__doctor_sizes {
    uint64_t of[128];
} coffer__doctor_sizes;

/* Reads them from the object that has them; what is no whole number is a finding. An object within another (`nested`) lacks
   what is as its program has it by default: what is not there is then not known. */
void coffer__doctor_read_sizes(const coffer__doctor_folder *folder, const coffer__document *config,
                               const coffer__json_node *scope, const char *type, bool nested,
                               coffer__doctor_sizes *sizes);
/* A dimension of a rule: "2I". 0: not known. */
uint64_t coffer__doctor_dimension(const coffer__doctor_sizes *sizes, const char *text, size_t len);
/* The keys of a size in config.json, of which a family has one, with spaces between them; NULL after the last. */
const char *coffer__doctor_size_keys(size_t i);
/* What a dimension is called: "num_attention_heads x head_dim". */
const char *coffer__doctor_size_name(char letter);

#endif
