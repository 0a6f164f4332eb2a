/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers whose weights are packed, as AWQ and GPTQ store them: several numbers in each integer, and a scale and a zero
 * for each group of inputs. `pack` numbers are in an integer; of 3 bits it is 32 in three.
 *
 *              AWQ                          GPTQ
 *   qweight    [inputs, outputs / pack]     [inputs / pack, outputs]
 *   qzeros     [groups, outputs / pack]     [groups, outputs / pack]
 *   scales     [groups, outputs]            [groups, outputs]
 *   g_idx      none                         [inputs], the group of each; some files have none
 *   bias       [outputs], or none           [outputs], or none
 *
 * The tensors of a layer belong together: where one of them cannot be split, none is.
 */
#ifndef COFFER_LOAD_SPLIT_PACKED_H
#define COFFER_LOAD_SPLIT_PACKED_H

#include "coffer.h"

typedef enum coffer__packed_role {
    COFFER__PACKED_WEIGHT,
    COFFER__PACKED_ZEROS,
    COFFER__PACKED_SCALES,
    COFFER__PACKED_GROUPS, /* g_idx */
    COFFER__PACKED_BIAS,
    COFFER__PACKED_ROLES
} coffer__packed_role;

typedef struct coffer__packed {
    const coffer_tensor *tensors[COFFER__PACKED_ROLES]; /* NULL: the layer has none */
    coffer__packed_role role;                           /* of the tensor that was asked about */
    bool known;                                         /* the shapes are those above, and what follows is set */
    bool even; /* the groups of inputs are all of one size, so that their bounds are known */
    uint64_t inputs;
    uint64_t outputs;
} coffer__packed;

/* Whether a tensor belongs to such a layer, by the names. What could be the layer's "weight" is its name without the
   last part. */
bool coffer__packed_find(const coffer *model, const coffer_tensor *tensor, coffer__packed *packed);
/* The dimension along which a tensor of a layer is split when its outputs are, or its inputs; -1: every rank has all. */
int32_t coffer__packed_dim(const coffer__packed *packed, coffer__packed_role role, bool outputs);

#endif
