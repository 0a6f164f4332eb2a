/* SPDX-License-Identifier: Apache-2.0 */
/* adapter_config.json of an adapter that is written: LoRA, whose factor is 1 in every module. */
#ifndef COFFER_MERGE_ADAPTER_CONFIG_H
#define COFFER_MERGE_ADAPTER_CONFIG_H

#include "names.h"
#include "writing.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A module of the adapter. */
typedef struct coffer__adapter_module {
    coffer__name name;
    uint64_t rank; /* 0: it has no matrices */
} coffer__adapter_module;

typedef struct coffer__adapter_config {
    coffer__name base; /* base_model_name_or_path and task_type, as JSON has them; empty: null */
    coffer__name task;
    bool fan_in_fan_out;
    size_t count;
    coffer__adapter_module (*module)(const void *ctx, size_t i);
    const void *ctx;
} coffer__adapter_config;

/* r and lora_alpha are the largest rank; modules of another one have patterns. */
void coffer__adapter_config_write(coffer__writing *out, const coffer__adapter_config *config);
/* The largest rank. */
uint64_t coffer__adapter_config_rank(const coffer__adapter_config *config);

#endif
