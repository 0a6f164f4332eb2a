/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory a language model takes that generates text, by its config.json:
 *
 *     weights + layers · 2 · kv_heads · head_dim · context · bytes
 *
 * The second part is the cache of keys and values. Layers with sliding attention keep a window at most, layers of other
 * kinds (linear attention, state spaces) nothing that grows. Where keys and values are compressed together (kv_lora_rank:
 * DeepSeek's), kv_lora_rank + qk_rope_head_dim numbers stand for 2 · kv_heads · head_dim. What a program needs beside, such
 * as activations, comes on top.
 */
#ifndef COFFER_CLI_MEMORY_H
#define COFFER_CLI_MEMORY_H

#include "json_document.h"

#define CLI_MEMORY_WHY_SIZE 160

typedef struct cli_memory {
    uint64_t context;      /* tokens that it is for */
    uint64_t most_context; /* that the configuration allows; 0: it says nothing */
    uint64_t layers;       /* whose cache grows with the context */
    uint64_t window;       /* tokens that the others keep */
    uint64_t sliding;      /* how many layers keep no more than the window */
    uint64_t numbers;      /* of a token in a layer */
    uint64_t number_size;  /* in bytes */
    uint64_t cache;        /* in bytes, of all of that */
} cli_memory;

/* Estimates the cache for `context` tokens; 0: for as many as the configuration allows. False when the configuration does
   not say enough, or is not of a model that generates text by itself; `why` says so in words. */
bool cli_memory_estimate(cli_memory *memory, const coffer__document *config, uint64_t context,
                         char why[CLI_MEMORY_WHY_SIZE]);
/* The bytes of the cache for `context` tokens; false when they are more than 64 bits count. */
bool cli_memory_cache(const cli_memory *memory, uint64_t context, uint64_t *cache);

#endif
