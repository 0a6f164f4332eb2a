/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What config.json says of quantisation, as far as it decides how layers are decoded. ModelOpt's hf_quant_config.json is
 * read in the same way. Everything is untrusted: numbers are compared with shapes where they are used.
 */
#ifndef COFFER_CODEC_QUANT_CONFIG_H
#define COFFER_CODEC_QUANT_CONFIG_H

#include "quant_json.h"

#define COFFER__QUANT_GROUPS 8 /* of compressed-tensors that are kept */

/* 0 and "": not said. */
typedef struct coffer__quant_config {
    const char *text; /* borrowed */
    size_t size;
    bool quantised;
    bool transformed;    /* weights are in a rotated basis */
    bool symmetric;      /* `sym` is true */
    coffer_dtype dtype;  /* of the model */
    char method[32];     /* "fp8", "compressed-tensors" */
    char format[40];     /* of compressed-tensors */
    char checkpoint[24]; /* checkpoint_format of GPTQ */
    char packing[40];    /* packing_format of auto-round */
    char version[24];    /* of compressed-tensors; of AWQ "gemm" */
    char algorithm[24];  /* quant_algo of ModelOpt */
    char linear[24];     /* linear_class of BitNet */
    char mode[16];       /* of MLX */
    uint64_t bits;
    uint64_t group_size;
    uint64_t block[2];
    size_t group_count;
    uint64_t group_bits[COFFER__QUANT_GROUPS];
    uint64_t group_sizes[COFFER__QUANT_GROUPS];
    uint64_t group_blocks[COFFER__QUANT_GROUPS][2];
} coffer__quant_config;

/* Fills *config, all zero before. COFFER_ERR_JSON and the like. */
coffer_status coffer__quant_config_read(coffer__quant_config *config, const char *text, size_t size, coffer_error *err);
/* What MLX says of one module; false when it says nothing. */
bool coffer__quant_config_module(const coffer__quant_config *config, const char *name, size_t len, uint64_t *bits,
                                 uint64_t *group_size, char mode[16]);

#endif
