/* SPDX-License-Identifier: Apache-2.0 */
/* What of a model is quantised: the layouts of its layers, how many of each, and the bits that a weight takes. */
#ifndef COFFER_CLI_QUANTISED_H
#define COFFER_CLI_QUANTISED_H

#include "cli_output.h"
#include "coffer.h"

#define CLI_QUANTISED_MAX 8 /* layouts of a model that are told apart */

typedef struct cli_quantised_layout {
    const char *name;
    uint64_t layers;
    uint64_t weights;
    uint64_t stored; /* bytes of all tensors of these layers */
} cli_quantised_layout;

typedef struct cli_quantised {
    cli_quantised_layout layouts[CLI_QUANTISED_MAX];
    size_t count;
    char why[384]; /* why layers are not understood; "" */
} cli_quantised;

/* Finds the layers of a model on this machine, by the text of a config.json; NULL: that next to it. Of a model at a URL
   nothing is found, as each small tensor would be a request. */
void cli_quantised_find(cli_quantised *quantised, const coffer *model, const char *config, size_t config_len);
/* "GPTQ, 224 layers, 4.28 bits a weight", of layout number `i`. */
void cli_quantised_text(const cli_quantised *quantised, size_t i, char *text, size_t size);
/* The member "quantised" of an object; nothing where nothing is quantised. */
void cli_quantised_json(cli_output *out, const cli_quantised *quantised);

#endif
