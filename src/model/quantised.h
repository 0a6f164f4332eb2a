/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The quantised layers of a model: which tensors belong to which, found by the layouts' names in all files, and the plain
 * tensors that they stand for, decoded tile by tile. What the layouts are is the codec's (quant_layouts.h).
 */
#ifndef COFFER_MODEL_QUANTISED_H
#define COFFER_MODEL_QUANTISED_H

#include "coffer.h"
#include "model_dir.h"
#include "names.h"
#include "quant_layouts.h"

typedef struct coffer__quant_layer {
    coffer__quant quant;
    const coffer__quant_layout *layout;
    const coffer_tensor *anchor; /* has the codes, and the stem at the beginning of its name */
    const coffer_tensor *parts[COFFER__QUANT_ROLES];
    size_t stem_len;
    uint64_t stored; /* bytes of all that belongs to it */
} coffer__quant_layer;

/* What a tensor of the model is. */
#define COFFER__QUANT_PLAIN UINT32_MAX
#define COFFER__QUANT_HELPER (UINT32_MAX - 1)     /* of a layer */
#define COFFER__QUANT_ACTIVATION (UINT32_MAX - 2) /* a scale of activations */

typedef struct coffer__quant_layers {
    coffer_allocator allocator;
    const coffer *model;
    coffer__quant_config config;
    coffer__whole config_text; /* of the model's folder; or nothing */
    coffer__whole other_text;  /* of hf_quant_config.json, where config.json says nothing */
    coffer__quant_layer *layers;
    size_t count;
    size_t capacity;
    size_t tensor_count;
    uint32_t *role_of; /* by the model's numbers: what a tensor is; of an anchor the layer's number */
    size_t helper_count;
    size_t activation_count;
} coffer__quant_layers;

/* How layers are found. Borrowed until they are freed. */
typedef struct coffer__quant_wants {
    const char *config; /* the text of a config.json; NULL: that next to the model */
    size_t config_len;
    bool like_modelopt;
} coffer__quant_wants;

/* Finds the layers. *found is zero before; coffer__quant_layers_free follows in any case. Small tensors are read. Fails as
   coffer_dequantize_plan says. */
coffer_status coffer__quant_layers_find(coffer__quant_layers *found, const coffer *model,
                                        const coffer__quant_wants *wants, const coffer_allocator *allocator,
                                        coffer_error *err);
void coffer__quant_layers_free(coffer__quant_layers *found);

/* Bytes that the parts of a layer's largest tile take, and the elements of it. */
uint64_t coffer__quant_layer_memory(const coffer__quant_layer *layer);
uint64_t coffer__quant_layer_tile(const coffer__quant_layer *layer);
/* Decodes the tile that begins at a row, counted through all matrices, to `to`; `memory` has space for its parts. *count
   becomes its elements. Any thread. */
coffer_status coffer__quant_layer_decode(const coffer *model, const coffer__quant_layer *layer, uint64_t row,
                                         coffer_dtype dtype, uint8_t *memory, uint8_t *to, uint64_t *count,
                                         coffer__quant_odd *odd, coffer_error *err);

#endif
