/* SPDX-License-Identifier: Apache-2.0 */
/* What of a model is quantised: see cli_quantised.h for the contract. */
#include "cli_quantised.h"

#include "cli_json.h"
#include "cli_text.h"

#include <stdio.h>
#include <string.h>

static void add(cli_quantised *quantised, const coffer_quantised_layer *layer)
{
    size_t i = 0;
    while (i < quantised->count && strcmp(quantised->layouts[i].name, layer->layout) != 0) {
        i++;
    }
    if (i == CLI_QUANTISED_MAX) {
        return;
    }
    quantised->count += i == quantised->count;
    cli_quantised_layout *layout = &quantised->layouts[i];
    layout->name = layer->layout;
    layout->layers++;
    layout->weights += layer->elements;
    layout->stored += layer->stored;
}

/* A configuration that is no JSON, or a file that cannot be read, is said elsewhere. */
static bool is_about_layers(coffer_status status)
{
    return status == COFFER_ERR_UNSUPPORTED || status == COFFER_ERR_NO_TENSOR || status == COFFER_ERR_SIZE ||
           status == COFFER_ERR_DTYPE || status == COFFER_ERR_DUPLICATE_NAME;
}

void cli_quantised_find(cli_quantised *quantised, const coffer *model, const char *config, size_t config_len)
{
    coffer_error err;
    coffer_quantised *layers = NULL;
    *quantised = (cli_quantised){ .count = 0 };
    if (strstr(coffer_shard_path(model, 0), "://") != NULL) {
        return;
    }
    const coffer_status status = coffer_quantised_open(&layers, model, config, config_len, &err);
    if (status != COFFER_OK) {
        memcpy(quantised->why, is_about_layers(status) ? err.message : "",
               is_about_layers(status) ? sizeof err.message : 1);
        return;
    }
    for (size_t i = 0; i < coffer_quantised_count(layers); i++) {
        add(quantised, coffer_quantised_at(layers, i));
    }
    coffer_quantised_close(layers);
}

static double bits_of(const cli_quantised_layout *layout)
{
    return layout->weights == 0 ? 0 : (double)layout->stored * 8 / (double)layout->weights;
}

void cli_quantised_text(const cli_quantised *quantised, size_t i, char *text, size_t size)
{
    const cli_quantised_layout *layout = &quantised->layouts[i];
    char layers[CLI_NUMBER_SIZE];
    cli_number_text(layers, layout->layers, true);
    snprintf(text, size, "%s, %s layer%s, %.2f bits a weight", layout->name, layers, layout->layers == 1 ? "" : "s",
             bits_of(layout));
}

void cli_quantised_json(cli_output *out, const cli_quantised *quantised)
{
    if (quantised->count == 0 && quantised->why[0] == '\0') {
        return;
    }
    cli_json_key(out, "quantised");
    cli_json_open(out, '[', true);
    for (size_t i = 0; i < quantised->count; i++) {
        const cli_quantised_layout *layout = &quantised->layouts[i];
        cli_json_open(out, '{', false);
        cli_json_key(out, "layout");
        cli_json_string(out, layout->name);
        cli_json_put_number(out, "layers", layout->layers);
        cli_json_put_number(out, "weights", layout->weights);
        cli_json_put_number(out, "stored", layout->stored);
        cli_json_close(out, '}');
    }
    cli_json_close(out, ']');
}
