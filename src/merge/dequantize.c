/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantised models made plain: a plan of a rewrite (rewriting.h) in which the tensor that has the codes of a layer becomes
 * the plain tensor, and those next to it are left out. Pieces are tiles of rows, which are decoded in a worker's memory.
 */
#include "alloc.h"
#include "error.h"
#include "options.h"
#include "quantised.h"
#include "rewriting.h"
#include "text.h"

#include <string.h>

#define DEQUANTIZE_NAME 1024

/* What a plan keeps until it is freed. */
typedef struct dequantizing {
    coffer_allocator allocator;
    coffer__quant_layers found;
    coffer_dequantize_options options;
    coffer_edit *edits; /* those of the caller, and removals of what describes the layers */
    size_t edit_count;
    size_t edit_capacity;
    char name[DEQUANTIZE_NAME]; /* of the tensor that is being declared */
} dequantizing;

/* The handle that shows layers. */
struct coffer_quantised {
    coffer__quant_layers found;
    coffer_quantised_layer *layers;
};

/* ---- what a tensor becomes --------------------------------------------------------------------------------------- */

static const coffer__quant_layer *dequantize_layer(const dequantizing *plan, size_t tensor)
{
    const uint32_t role = plan->found.role_of[tensor];
    return role < plan->found.count ? &plan->found.layers[role] : NULL;
}

static coffer_dtype dequantize_dtype(const dequantizing *plan, const coffer__quant *quant)
{
    if (plan->options.dtype != COFFER_UNKNOWN_DTYPE) {
        return plan->options.dtype;
    }
    if (plan->found.config.dtype != COFFER_UNKNOWN_DTYPE) {
        return plan->found.config.dtype;
    }
    return quant->usual != COFFER_UNKNOWN_DTYPE ? quant->usual : COFFER_BF16;
}

/* Names that do not fit are refused before. */
static bool dequantize_makes(void *ctx, size_t tensor, coffer__rewrite_made *made)
{
    dequantizing *plan = ctx;
    const coffer__quant_layer *layer = dequantize_layer(plan, tensor);
    made->left_out = layer == NULL && plan->found.role_of[tensor] != COFFER__QUANT_PLAIN;
    if (layer == NULL) {
        return false;
    }
    const size_t len = coffer__text_len(layer->layout->plain);
    memcpy(plan->name, layer->anchor->name, layer->stem_len);
    memcpy(plan->name + layer->stem_len, layer->layout->plain, len);
    made->name = (coffer__name){ plan->name, layer->stem_len + len };
    made->shape = layer->quant.shape;
    made->rank = layer->quant.rank;
    made->dtype = dequantize_dtype(plan, &layer->quant);
    return true;
}

static uint64_t dequantize_pieces(const void *ctx, size_t tensor, uint64_t first)
{
    const coffer__quant *quant = &dequantize_layer(ctx, tensor)->quant;
    const coffer__quant_tile tile = coffer__quant_tile_at(quant, first / quant->columns);
    return coffer__quant_tile_count(quant, &tile);
}

static coffer_status dequantize_odd(const coffer__quant_layer *layer, const coffer__quant_odd *odd, bool allow,
                                    coffer_error *err)
{
    const coffer_tensor *anchor = layer->anchor;
    if (odd->index) {
        coffer__fail(err, COFFER_ERR_INDEX, "the layer of %q names a group for a column that it does not have",
                     anchor->name, (size_t)anchor->name_len);
        return coffer__fail_tensor(err, COFFER_ERR_INDEX, anchor->name, anchor->name_len);
    }
    if (odd->scales > 0 && !allow) {
        coffer__fail(err, COFFER_ERR_NUMBER,
                     "the layer of %q has scales that are infinite or NaN: it is damaged, or was quantised from zeros",
                     anchor->name, (size_t)anchor->name_len);
        return coffer__fail_tensor(err, COFFER_ERR_NUMBER, anchor->name, anchor->name_len);
    }
    return COFFER_OK;
}

/* The tile's numbers come first in the worker's memory, and what they are made of after them. */
static coffer_status dequantize_make(const void *ctx, uint8_t *memory, size_t tensor, uint64_t first,
                                     coffer__rewrite_part *part, coffer_error *err)
{
    const dequantizing *plan = ctx;
    const coffer__quant_layer *layer = dequantize_layer(plan, tensor);
    const coffer_dtype dtype = dequantize_dtype(plan, &layer->quant);
    const size_t numbers = (size_t)coffer__quant_layer_tile(layer) * (coffer_dtype_bits(dtype) / 8);
    coffer__quant_odd odd = { .index = false };
    uint64_t count = 0;
    const coffer_status status = coffer__quant_layer_decode(plan->found.model, layer, first / layer->quant.columns,
                                                            dtype, memory + numbers, memory, &count, &odd, err);
    part->bytes = memory;
    part->overflowed = odd.too_large;
    part->nans = odd.nans;
    part->wrapped = odd.wrapped;
    return status == COFFER_OK ? dequantize_odd(layer, &odd, plan->options.allow_not_finite, err) : status;
}

static void dequantize_free(void *ctx)
{
    dequantizing *plan = ctx;
    const coffer_allocator allocator = plan->allocator;
    coffer__quant_layers_free(&plan->found);
    coffer__free(&allocator, plan->edits, plan->edit_capacity * sizeof *plan->edits);
    coffer__free(&allocator, plan, sizeof *plan);
}

/* ---- metadata that describe layers ------------------------------------------------------------------------------- */

static coffer_status dequantize_add_edit(dequantizing *plan, const coffer_edit *edit, coffer_error *err)
{
    coffer_edit *grown =
        coffer__grow_array(&plan->allocator, plan->edits, plan->edit_count, &plan->edit_capacity, sizeof *grown, err);
    if (grown == NULL) {
        return COFFER_ERR_MEMORY;
    }
    plan->edits = grown;
    plan->edits[plan->edit_count++] = *edit;
    return COFFER_OK;
}

/* ComfyUI's formats of layers, and torchao's types of tensors. */
static bool dequantize_describes(const coffer_pair *pair)
{
    static const char type[] = "{\"_type\":";
    return coffer__text_is(pair->key, pair->key_len, "_quantization_metadata") ||
           coffer__text_is(pair->key, pair->key_len, "tensor_names") ||
           (pair->value_len >= sizeof type - 1 && memcmp(pair->value, type, sizeof type - 1) == 0);
}

static coffer_status dequantize_take_edits(dequantizing *plan, const coffer_rewrite_options *rewriting,
                                           coffer_error *err)
{
    coffer_status status = COFFER_OK;
    coffer_pair pair;
    for (size_t shard = 0; shard < coffer_shard_count(plan->found.model); shard++) {
        const coffer_table *table = coffer_shard_table(plan->found.model, shard);
        for (size_t i = 0; status == COFFER_OK && coffer_table_metadata_at(table, i, &pair); i++) {
            const coffer_edit removal = { pair.key, pair.key_len, NULL, 0 };
            status = dequantize_describes(&pair) ? dequantize_add_edit(plan, &removal, err) : COFFER_OK;
        }
    }
    for (size_t i = 0; i < rewriting->edit_count && status == COFFER_OK; i++) {
        status = dequantize_add_edit(plan, &rewriting->edits[i], err);
    }
    return status;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

static void dequantize_warn(const dequantizing *plan, uint64_t count, const char *format)
{
    coffer_error text;
    if (count > 0 && plan->options.warning != NULL) {
        (void)coffer__fail(&text, COFFER_ERR_UNSUPPORTED, format, count);
        plan->options.warning(plan->options.warning_ctx, NULL, text.message);
    }
}

/* What is decoded and may still be another thing than the user thinks. */
static void dequantize_warn_all(const dequantizing *plan)
{
    uint64_t unclear = 0;
    uint64_t padded = 0;
    uint64_t mlx = 0;
    for (size_t i = 0; i < plan->found.count; i++) {
        const coffer__quant *quant = &plan->found.layers[i].quant;
        unclear += quant->zeros_unclear;
        padded += quant->padded;
        mlx += memcmp(quant->layout, "MLX", 3) == 0;
    }
    dequantize_warn(
        plan, unclear,
        "%u layers are symmetric, and their zero points are those of neither version of GPTQ: they are read "
        "as version 1");
    dequantize_warn(plan, padded,
                    "%u layers keep the rows and columns that ComfyUI has padded them with, as their true shape is not "
                    "stored");
    dequantize_warn(plan, mlx, "the names of %u layers stay those of MLX, which may differ from those of transformers");
    dequantize_warn(plan, plan->found.activation_count, "%u scales of activations are left out");
    if (plan->found.count == 0) {
        dequantize_warn(plan, plan->found.config.quantised,
                        "config.json says that the model is quantised, and no tensor is: they are copied");
    }
}

static coffer_status dequantize_check(const dequantizing *plan, coffer_error *err)
{
    const coffer_dequantize_options *options = &plan->options;
    const coffer_dtype dtype = options->dtype;
    if (dtype != COFFER_UNKNOWN_DTYPE && dtype != COFFER_BF16 && dtype != COFFER_F16 && dtype != COFFER_F32) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "layers become BF16, F16 or F32, and not %s",
                            coffer_dtype_name(dtype));
    }
    return options->like == NULL || coffer__text_is(options->like, coffer__text_len(options->like), "modelopt")
               ? COFFER_OK
               : coffer__fail(err, COFFER_ERR_ARGUMENT,
                              "layers are decoded as their own programs do, or like "
                              "\"modelopt\", and not like %q",
                              options->like, coffer__text_len(options->like));
}

/* Space of each worker, and whether every name fits. */
static coffer_status dequantize_measure(const dequantizing *plan, size_t *memory_size, coffer_error *err)
{
    uint64_t most = 0;
    for (size_t i = 0; i < plan->found.count; i++) {
        const coffer__quant_layer *layer = &plan->found.layers[i];
        const uint64_t size =
            coffer__quant_layer_memory(layer) +
            coffer__quant_layer_tile(layer) * (coffer_dtype_bits(dequantize_dtype(plan, &layer->quant)) / 8);
        most = size > most ? size : most;
        if (layer->stem_len + sizeof ".weight" > DEQUANTIZE_NAME) {
            coffer__fail(err, COFFER_ERR_NAME, "the name of a quantised layer is longer than %u bytes",
                         (uint64_t)DEQUANTIZE_NAME - sizeof ".weight");
            return coffer__fail_tensor(err, COFFER_ERR_NAME, layer->anchor->name, layer->anchor->name_len);
        }
    }
    *memory_size = (size_t)most;
    return most <= SIZE_MAX / 64 ? COFFER_OK : coffer__fail(err, COFFER_ERR_MEMORY, "no memory to decode layers");
}

static coffer_status dequantize_find(dequantizing *plan, const coffer *model, coffer_error *err)
{
    const coffer__quant_wants wants = { plan->options.config, plan->options.config_len, plan->options.like != NULL };
    const coffer_status status = coffer__quant_layers_find(&plan->found, model, &wants, &plan->allocator, err);
    if (status != COFFER_OK || plan->found.count > 0 || plan->found.config.quantised) {
        return status;
    }
    return coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                        "the model has no quantised layers of a layout that is known; coffer cast changes dtypes");
}

static coffer_status dequantize_plan_with(dequantizing *plan, coffer_rewrite **rewrite, const coffer *model,
                                          coffer_rewrite_options *rewriting, coffer_error *err)
{
    coffer__computing computing = { .makes = dequantize_makes,
                                    .pieces = dequantize_pieces,
                                    .make = dequantize_make,
                                    .free = dequantize_free,
                                    .ctx = plan };
    coffer_status status = dequantize_check(plan, err);
    if (status == COFFER_OK) {
        status = dequantize_find(plan, model, err);
    }
    if (status == COFFER_OK) {
        status = dequantize_measure(plan, &computing.memory_size, err);
    }
    if (status == COFFER_OK) {
        status = dequantize_take_edits(plan, rewriting, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    rewriting->struct_size = sizeof *rewriting;
    rewriting->edits = plan->edits;
    rewriting->edit_count = plan->edit_count;
    status = coffer__rewrite_plan_computed(rewrite, model, rewriting, &computing, err);
    if (status == COFFER_OK) {
        dequantize_warn_all(plan);
    }
    return status;
}

coffer_status coffer_dequantize_plan(coffer_rewrite **rewrite, const coffer *model,
                                     const coffer_dequantize_options *options, const coffer_rewrite_options *rewriting,
                                     coffer_error *err)
{
    coffer_dequantize_options known;
    coffer_rewrite_options where;
    if (rewrite == NULL || model == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "dequantising needs a model and a place for its handle");
    }
    *rewrite = NULL;
    coffer_status status = coffer__options_copy(&known, sizeof known, options, err);
    if (status == COFFER_OK) {
        status = coffer__options_copy(&where, sizeof where, rewriting, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    const coffer_allocator *allocator = where.allocator != NULL ? where.allocator : coffer_libc_allocator();
    dequantizing *plan = coffer__alloc_zeroed(allocator, sizeof *plan);
    if (plan == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to plan what a quantised model becomes");
    }
    plan->allocator = *allocator;
    plan->options = known;
    status = dequantize_plan_with(plan, rewrite, model, &where, err);
    if (status != COFFER_OK) {
        dequantize_free(plan);
    }
    return status;
}

/* ---- layers that are shown --------------------------------------------------------------------------------------- */

static coffer_status quantised_show(coffer_quantised *quantised, coffer_error *err)
{
    const coffer__quant_layers *found = &quantised->found;
    quantised->layers = coffer__alloc_array(&found->allocator, found->count, sizeof *quantised->layers, err);
    if (quantised->layers == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < found->count; i++) {
        const coffer__quant_layer *layer = &found->layers[i];
        quantised->layers[i] = (coffer_quantised_layer){ layer->anchor,     layer->quant.layout, layer->quant.shape,
                                                         layer->quant.rank, layer->quant.count,  layer->stored };
    }
    return COFFER_OK;
}

coffer_status coffer_quantised_open(coffer_quantised **quantised, const coffer *model, const char *config,
                                    size_t config_len, coffer_error *err)
{
    const coffer__quant_wants wants = { config, config_len, false };
    const coffer_allocator *allocator = coffer_libc_allocator();
    if (quantised == NULL || model == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the model, or the place for the handle, is NULL");
    }
    coffer_quantised *made = coffer__alloc_zeroed(allocator, sizeof *made);
    *quantised = NULL;
    if (made == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to look for quantised layers");
    }
    coffer_status status = coffer__quant_layers_find(&made->found, model, &wants, allocator, err);
    if (status == COFFER_OK) {
        status = quantised_show(made, err);
    }
    if (status != COFFER_OK) {
        coffer_quantised_close(made);
        return status;
    }
    *quantised = made;
    return COFFER_OK;
}

size_t coffer_quantised_count(const coffer_quantised *quantised)
{
    return quantised->found.count;
}

const coffer_quantised_layer *coffer_quantised_at(const coffer_quantised *quantised, size_t i)
{
    return i < quantised->found.count ? &quantised->layers[i] : NULL;
}

void coffer_quantised_close(coffer_quantised *quantised)
{
    if (quantised == NULL) {
        return;
    }
    const coffer_allocator allocator = quantised->found.allocator;
    coffer__free_array(&allocator, quantised->layers, quantised->found.count, sizeof *quantised->layers);
    coffer__quant_layers_free(&quantised->found);
    coffer__free(&allocator, quantised, sizeof *quantised);
}
