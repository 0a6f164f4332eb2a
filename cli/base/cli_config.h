/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a change of a model's tensors makes untrue in its config.json, set right in a copy of the text. All bytes that say
 * something else stay as they are: spaces, order and numbers are those of the program that wrote the file.
 */
#ifndef COFFER_CLI_CONFIG_H
#define COFFER_CLI_CONFIG_H

#include "coffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is true of the new model. Begins as zeros: nothing has changed. */
typedef struct cli_config_facts {
    coffer_dtype dtype; /* that most of its numbers have, where tensors were cast; COFFER_UNKNOWN_DTYPE: none were */
    const uint32_t *layers; /* the old number of each layer; NULL: the layers are those of the old model */
    size_t layers_before;
    size_t layers_after;
    bool dequantised; /* it was quantised, and is no more */
} cli_config_facts;

/* Told of each change: "torch_dtype: from float32 to bfloat16". */
typedef void cli_config_reported(void *ctx, const char *what);

/* The text with what the facts say, to be freed; NULL when nothing in it changes, when it is no JSON of an object, or
   without memory. */
char *cli_config_correct(const char *text, size_t text_len, const cli_config_facts *facts,
                         cli_config_reported *reported, void *ctx, size_t *len);

#endif
