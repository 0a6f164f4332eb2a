/* SPDX-License-Identifier: Apache-2.0 */
/* What config.json says of quantisation: see quant_config.h. */
#include "quant_config.h"

#include <string.h>

#define CONFIG_NOUN "the configuration"

/* A path without what is before the members of interest. */
typedef struct config_path {
    const coffer__quant_span *keys;
    size_t depth;
} config_path;

static bool config_is_inner(coffer__quant_span key)
{
    return coffer__span_is(key, "text_config") || coffer__span_is(key, "language_config") ||
           coffer__span_is(key, "llm_config");
}

/* A model for several kinds of input has the configuration of its language model within its own. */
static config_path config_path_of(const coffer__walk_value *value)
{
    config_path path = { value->path, value->depth };
    if (path.depth > 1 && config_is_inner(path.keys[0])) {
        path.keys++;
        path.depth--;
    }
    return path;
}

static bool config_is_quantisation(coffer__quant_span key)
{
    return coffer__span_is(key, "quantization_config") || coffer__span_is(key, "quantization");
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* A string that is kept, if `key` is its name. */
static bool config_text(coffer__quant_span key, const char *name, const coffer__walk_value *value, char *text,
                        size_t size)
{
    if (!coffer__span_is(key, name)) {
        return false;
    }
    if (value->kind == '"') {
        coffer__span_copy(value->text, text, size);
    }
    return true;
}

static bool config_number(coffer__quant_span key, const char *name, const coffer__walk_value *value, uint64_t *number)
{
    if (!coffer__span_is(key, name)) {
        return false;
    }
    if (value->kind == '0') {
        *number = coffer__span_number(value->text);
    }
    return true;
}

/* weight_block_size and block_structure: two numbers, one after the other. */
static void config_pair(uint64_t pair[2], const coffer__walk_value *value)
{
    const uint64_t number = coffer__span_number(value->text);
    if (value->kind == '0' && pair[0] == 0) {
        pair[0] = number;
    } else if (value->kind == '0' && pair[1] == 0) {
        pair[1] = number;
    }
}

/* config_groups.NAME.weights.…: a group begins where its `weights` do. */
static void config_group(coffer__quant_config *config, const config_path *path, const coffer__walk_value *value)
{
    if (path->depth < 4 || !coffer__span_is(path->keys[3], "weights")) {
        return;
    }
    if (path->depth == 4 && value->kind == '{' && config->group_count < COFFER__QUANT_GROUPS) {
        config->group_count++;
    }
    if (config->group_count == 0 || path->depth < 5) {
        return;
    }
    const size_t group = config->group_count - 1;
    const coffer__quant_span key = path->keys[4];
    (void)config_number(key, "num_bits", value, &config->group_bits[group]);
    (void)config_number(key, "group_size", value, &config->group_sizes[group]);
    if (coffer__span_is(key, "block_structure") && path->depth == 6) {
        config_pair(config->group_blocks[group], value);
    }
}

/* A member of quantization_config, whatever it is of. */
static void config_member(coffer__quant_config *config, const config_path *path, const coffer__walk_value *value)
{
    const coffer__quant_span key = path->keys[1];
    if (coffer__span_is(key, "config_groups")) {
        config_group(config, path, value);
    } else if (coffer__span_is(key, "weight_block_size") && path->depth == 3) {
        config_pair(config->block, value);
    } else if (coffer__span_is(key, "transform_config") && path->depth > 2) {
        config->transformed = true;
    }
    if (path->depth != 2) {
        return;
    }
    if (coffer__span_is(key, "sym")) {
        config->symmetric = coffer__span_is(value->text, "true");
        return;
    }
    (void)(config_text(key, "quant_method", value, config->method, sizeof config->method) ||
           config_text(key, "format", value, config->format, sizeof config->format) ||
           config_text(key, "checkpoint_format", value, config->checkpoint, sizeof config->checkpoint) ||
           config_text(key, "packing_format", value, config->packing, sizeof config->packing) ||
           config_text(key, "version", value, config->version, sizeof config->version) ||
           config_text(key, "quant_algo", value, config->algorithm, sizeof config->algorithm) ||
           config_text(key, "linear_class", value, config->linear, sizeof config->linear) ||
           config_text(key, "mode", value, config->mode, sizeof config->mode) ||
           config_number(key, "bits", value, &config->bits) ||
           config_number(key, "group_size", value, &config->group_size));
}

static void config_visit(void *ctx, const coffer__walk_value *value)
{
    coffer__quant_config *config = ctx;
    const config_path path = config_path_of(value);
    if (path.depth == 0) {
        return;
    }
    const coffer__quant_span key = path.keys[0];
    if (path.depth == 1 && value->kind == '"' &&
        (coffer__span_is(key, "torch_dtype") || coffer__span_is(key, "dtype"))) {
        config->dtype = config->dtype != COFFER_UNKNOWN_DTYPE ? config->dtype : coffer__span_dtype(value->text);
    }
    if (!config_is_quantisation(key)) {
        return;
    }
    config->quantised = config->quantised || value->kind == '{';
    if (path.depth > 1) {
        config_member(config, &path, value);
    }
}

coffer_status coffer__quant_config_read(coffer__quant_config *config, const char *text, size_t size, coffer_error *err)
{
    const coffer_status status = coffer__walk_json(text, size, CONFIG_NOUN, config_visit, config, err);
    config->text = text;
    config->size = size;
    if (status == COFFER_OK && config->method[0] == '\0' && config->quantised) {
        memcpy(config->method, config->algorithm[0] != '\0' ? "modelopt" : "mlx",
               config->algorithm[0] != '\0' ? sizeof "modelopt" : sizeof "mlx");
    }
    return status;
}

/* ---- one module of MLX ------------------------------------------------------------------------------------------- */

typedef struct config_module {
    coffer__quant_span name;
    uint64_t *bits;
    uint64_t *group_size;
    char *mode;
    bool found;
} config_module;

static void config_visit_module(void *ctx, const coffer__walk_value *value)
{
    config_module *module = ctx;
    const config_path path = config_path_of(value);
    if (path.depth < 2 || !config_is_quantisation(path.keys[0]) || path.keys[1].len != module->name.len ||
        memcmp(path.keys[1].text, module->name.text, module->name.len) != 0) {
        return;
    }
    module->found = true;
    if (path.depth == 3) {
        (void)config_number(path.keys[2], "bits", value, module->bits);
        (void)config_number(path.keys[2], "group_size", value, module->group_size);
        (void)config_text(path.keys[2], "mode", value, module->mode, 16);
    }
}

/* NOLINTBEGIN(readability-non-const-parameter): the visitor writes to them */
bool coffer__quant_config_module(const coffer__quant_config *config, const char *name, size_t len, uint64_t *bits,
                                 uint64_t *group_size, char mode[16])
{
    config_module module = { { name, len }, bits, group_size, mode, false };
    if (config->text == NULL) {
        return false;
    }
    (void)coffer__walk_json(config->text, config->size, CONFIG_NOUN, config_visit_module, &module, NULL);
    return module.found;
}
/* NOLINTEND(readability-non-const-parameter) */
