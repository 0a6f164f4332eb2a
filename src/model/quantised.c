/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The quantised layers of a model: see quantised.h. Each tensor is compared with the anchors of all layouts; where the sign
 * of a layout is next to it, the layout describes the layer, and all its helpers are marked. What is left then must be no
 * part of a layer: a scale whose weight is missing, or a weight without scales, is refused and not copied.
 */
#include "quantised.h"

#include "alloc.h"
#include "error.h"
#include "lazy_verify.h"
#include "model.h"
#include "sort.h"
#include "text.h"

#include <string.h>

#define QUANTISED_CONFIG "config.json"
#define QUANTISED_OTHER_CONFIG "hf_quant_config.json"
#define QUANTISED_MAX_CONFIG ((uint64_t)16 << 20)
#define QUANTISED_NAME 1024

/* What finding layers needs besides. */
typedef struct quantised_search {
    coffer__quant_layers *found;
    uint32_t *by_address; /* the model's tensors */
    const coffer_tensor *anchor;
    size_t stem_len;
} quantised_search;

/* ---- the configuration ------------------------------------------------------------------------------------------- */

static bool quantised_read_beside(const coffer__quant_layers *found, const char *name, coffer__whole *whole)
{
    coffer__model_dir place;
    const coffer *model = found->model;
    return model->shards->path != NULL && coffer__model_dir_of(model, &place, NULL) == COFFER_OK &&
           coffer__model_dir_read_beside(&place, (coffer__name){ name, coffer__text_len(name) }, QUANTISED_MAX_CONFIG,
                                         &found->allocator, whole, NULL) == COFFER_OK;
}

/* A configuration that is not valid is an error: what it would have said decides how numbers are read. */
static coffer_status quantised_read_config(coffer__quant_layers *found, const coffer__quant_wants *wants,
                                           coffer_error *err)
{
    coffer_status status = COFFER_OK;
    if (wants->config != NULL) {
        return coffer__quant_config_read(&found->config, wants->config, wants->config_len, err);
    }
    if (quantised_read_beside(found, QUANTISED_CONFIG, &found->config_text)) {
        status = coffer__quant_config_read(&found->config, (const char *)found->config_text.bytes,
                                           found->config_text.size, err);
    }
    if (status != COFFER_OK || found->config.quantised ||
        !quantised_read_beside(found, QUANTISED_OTHER_CONFIG, &found->other_text)) {
        return status;
    }
    const coffer_dtype dtype = found->config.dtype;
    memset(&found->config, 0, sizeof found->config);
    status =
        coffer__quant_config_read(&found->config, (const char *)found->other_text.bytes, found->other_text.size, err);
    found->config.dtype = dtype;
    return status;
}

/* ---- tensors next to each other ---------------------------------------------------------------------------------- */

static const coffer_tensor *quantised_beside(const quantised_search *search, const char *ending)
{
    char name[QUANTISED_NAME];
    const size_t len = coffer__text_len(ending);
    if (search->stem_len + len > sizeof name) {
        return NULL;
    }
    memcpy(name, search->anchor->name, search->stem_len);
    memcpy(name + search->stem_len, ending, len);
    return coffer_find(search->found->model, name, search->stem_len + len);
}

static bool quantised_find_tensor(void *ctx, const char *ending, coffer__quant_tensor *tensor)
{
    const coffer_tensor *found = quantised_beside(ctx, ending);
    *tensor = (coffer__quant_tensor){ NULL, 0, 0, COFFER_UNKNOWN_DTYPE };
    if (found != NULL) {
        *tensor = (coffer__quant_tensor){ found->shape, found->size, found->rank, found->dtype };
    }
    return found != NULL;
}

static coffer_status quantised_read_tensor(void *ctx, const char *ending, void *bytes, size_t size, coffer_error *err)
{
    const quantised_search *search = ctx;
    coffer_read_options alone = COFFER_READ_OPTIONS_INIT;
    alone.threads = 1;
    return coffer_read_part(search->found->model, quantised_beside(search, ending), 0, bytes, size, &alone, err);
}

static const char *quantised_metadata(void *ctx, const char *key, size_t *len)
{
    const quantised_search *search = ctx;
    const coffer_table *table = coffer_shard_table(search->found->model, search->anchor->shard);
    return coffer_table_metadata_get(table, key, coffer__text_len(key), len);
}

/* Tensors are told apart by their addresses. */
static bool quantised_before(const void *ctx, uint32_t a, uint32_t b)
{
    return (uintptr_t)coffer_at(ctx, a) < (uintptr_t)coffer_at(ctx, b);
}

static uint32_t *quantised_role_of(const quantised_search *search, const coffer_tensor *tensor)
{
    const coffer__quant_layers *found = search->found;
    size_t low = 0;
    size_t high = found->tensor_count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        const bool after = (uintptr_t)coffer_at(found->model, search->by_address[middle]) > (uintptr_t)tensor;
        *(after ? &high : &low) = middle;
    }
    return &found->role_of[search->by_address[low]];
}

/* ---- one layer --------------------------------------------------------------------------------------------------- */

static coffer_status quantised_name_tensor(const coffer_tensor *tensor, coffer_status status, coffer_error *err)
{
    return coffer__fail_tensor(err, status, tensor->name, tensor->name_len);
}

/* What would make decoding need more memory than a tile may take, and what no layer has. */
static coffer_status quantised_check_layer(const coffer__quant_layers *found, const coffer__quant_layer *layer,
                                           coffer_error *err)
{
    const coffer__quant *quant = &layer->quant;
    const coffer_tensor *anchor = layer->anchor;
    if (quant->count == 0 || quant->columns == 0 || quant->block_column == 0 ||
        coffer__quant_layer_tile(layer) > COFFER__QUANT_MAX_TILE) {
        coffer__fail(err, COFFER_ERR_SIZE, "the layer of %q has no elements, or rows that are too long to decode",
                     anchor->name, (size_t)anchor->name_len);
        return quantised_name_tensor(anchor, COFFER_ERR_SIZE, err);
    }
    if (!coffer__quant_agrees(&found->config, quant->layout)) {
        coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                     "the tensors of %q are a layer of %s, and config.json says that the model is quantised by %q: one "
                     "of the two is wrong",
                     anchor->name, (size_t)anchor->name_len, quant->layout, found->config.method,
                     strlen(found->config.method));
        return quantised_name_tensor(anchor, COFFER_ERR_UNSUPPORTED, err);
    }
    return COFFER_OK;
}

/* Marks what belongs to a layer, and adds its bytes up. */
static void quantised_mark(const quantised_search *search, coffer__quant_layer *layer, uint32_t number)
{
    coffer__quant_layers *found = search->found;
    layer->stored = layer->anchor->size;
    *quantised_role_of(search, layer->anchor) = number;
    for (size_t i = 0; layer->layout->helpers[i] != NULL; i++) {
        const coffer_tensor *helper = quantised_beside(search, layer->layout->helpers[i]);
        uint32_t *role = helper != NULL ? quantised_role_of(search, helper) : NULL;
        if (role != NULL && *role == COFFER__QUANT_PLAIN) {
            *role = COFFER__QUANT_HELPER;
            layer->stored += helper->size;
            found->helper_count++;
        }
    }
    for (unsigned i = 0; i < COFFER__QUANT_ROLES; i++) {
        const char *ending = layer->quant.parts[i].ending;
        layer->parts[i] = ending != NULL ? quantised_beside(search, ending) : NULL;
    }
}

static coffer_status quantised_add(const quantised_search *search, const coffer__quant_layout *layout,
                                   const coffer__quant *quant, coffer_error *err)
{
    coffer__quant_layers *found = search->found;
    coffer__quant_layer *grown =
        coffer__grow_array(&found->allocator, found->layers, found->count, &found->capacity, sizeof *grown, err);
    if (grown == NULL) {
        return COFFER_ERR_MEMORY;
    }
    found->layers = grown;
    coffer__quant_layer *layer = &found->layers[found->count];
    *layer = (coffer__quant_layer){ *quant, layout, search->anchor, { NULL }, search->stem_len, 0 };
    if (layer->quant.layout == NULL) {
        layer->quant.layout = layout->name;
    }
    quantised_mark(search, layer, (uint32_t)found->count);
    found->count++;
    return quantised_check_layer(found, layer, err);
}

/* Tries a layout on a tensor that may be its anchor. */
static coffer_status quantised_try(quantised_search *search, const coffer__quant_layout *layout, bool like_modelopt,
                                   bool *mine, coffer_error *err)
{
    const coffer_tensor *tensor = search->anchor;
    coffer__quant quant = { .layout = NULL };
    if (!coffer__text_ends(tensor->name, tensor->name_len, layout->anchor)) {
        return COFFER_OK;
    }
    search->stem_len = tensor->name_len - coffer__text_len(layout->anchor);
    if (layout->sign != NULL && quantised_beside(search, layout->sign) == NULL) {
        return COFFER_OK;
    }
    const coffer__quant_module module = { .ctx = search,
                                          .stem = tensor->name,
                                          .stem_len = search->stem_len,
                                          .find = quantised_find_tensor,
                                          .read = quantised_read_tensor,
                                          .metadata = quantised_metadata,
                                          .config = &search->found->config,
                                          .like_modelopt = like_modelopt };
    const coffer_status status = layout->plan(&module, &quant, mine, err);
    if (status != COFFER_OK) {
        return quantised_name_tensor(tensor, status, err);
    }
    return *mine ? quantised_add(search, layout, &quant, err) : COFFER_OK;
}

/* The first layout that recognises the tensor. A tensor that belongs to a layer already is none's anchor. */
static coffer_status quantised_look(quantised_search *search, const coffer_tensor *tensor, bool like_modelopt,
                                    coffer_error *err)
{
    const coffer__quant_layout *layout = NULL;
    coffer_status status = COFFER_OK;
    bool mine = false;
    search->anchor = tensor;
    for (size_t i = 0; status == COFFER_OK && !mine && (layout = coffer__quant_layout_at(i)) != NULL; i++) {
        status = quantised_try(search, layout, like_modelopt, &mine, err);
    }
    return status;
}

/* ---- what is left ------------------------------------------------------------------------------------------------ */

static coffer_status quantised_refuse(const quantised_search *search, const coffer_tensor *tensor, coffer_error *err)
{
    const coffer__quant_refused *refused = NULL;
    for (size_t i = 0; (refused = coffer__quant_refused_at(i)) != NULL; i++) {
        if (!coffer__text_ends(tensor->name, tensor->name_len, refused->ending)) {
            continue;
        }
        quantised_search there = *search;
        there.anchor = tensor;
        there.stem_len = tensor->name_len - coffer__text_len(refused->ending);
        if (refused->with == NULL || quantised_beside(&there, refused->with) != NULL) {
            coffer__fail(err, COFFER_ERR_UNSUPPORTED, "%q belongs to %s, which is not decoded here: %s does it",
                         tensor->name, (size_t)tensor->name_len, refused->name, refused->advice);
            return quantised_name_tensor(tensor, COFFER_ERR_UNSUPPORTED, err);
        }
    }
    return COFFER_OK;
}

static bool quantised_ends(const coffer_tensor *tensor, const char *(*ending_at)(size_t i))
{
    const char *ending = NULL;
    for (size_t i = 0; (ending = ending_at(i)) != NULL; i++) {
        if (coffer__text_ends(tensor->name, tensor->name_len, ending)) {
            return true;
        }
    }
    return false;
}

/* A tensor of a layer that is not whole. */
static coffer_status quantised_check_plain(const coffer_tensor *tensor, coffer_error *err)
{
    const bool is_code = (tensor->dtype == COFFER_F8_E4M3 || tensor->dtype == COFFER_F8_E5M2) &&
                         coffer__text_ends(tensor->name, tensor->name_len, ".weight");
    if (quantised_ends(tensor, coffer__quant_helper_at)) {
        coffer__fail(err, COFFER_ERR_NO_TENSOR,
                     "%q belongs to a quantised layer, and other tensors of that layer are missing or of another kind",
                     tensor->name, (size_t)tensor->name_len);
        return quantised_name_tensor(tensor, COFFER_ERR_NO_TENSOR, err);
    }
    if (is_code) {
        coffer__fail(err, COFFER_ERR_NO_TENSOR,
                     "%q is FP8 without scales in a quantised model: if it is meant to have none, cast it first "
                     "(coffer cast)",
                     tensor->name, (size_t)tensor->name_len);
        return quantised_name_tensor(tensor, COFFER_ERR_NO_TENSOR, err);
    }
    return COFFER_OK;
}

static coffer_status quantised_check_rest(const quantised_search *search, coffer_error *err)
{
    coffer__quant_layers *found = search->found;
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < found->tensor_count && status == COFFER_OK; i++) {
        const coffer_tensor *tensor = coffer_at(found->model, i);
        if (found->role_of[i] != COFFER__QUANT_PLAIN) {
            continue;
        }
        status = quantised_refuse(search, tensor, err);
        if (status == COFFER_OK && quantised_ends(tensor, coffer__quant_activation_at)) {
            found->role_of[i] = COFFER__QUANT_ACTIVATION;
            found->activation_count++;
        } else if (status == COFFER_OK && (found->count > 0 || found->config.quantised)) {
            status = quantised_check_plain(tensor, err);
        }
    }
    const char *advice = coffer__quant_method_advice(&found->config);
    return status == COFFER_OK && advice != NULL
               ? coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                              "the model is quantised in a way that is not decoded here; %s", advice)
               : status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static coffer_status quantised_search_all(quantised_search *search, bool like_modelopt, coffer_error *err)
{
    coffer__quant_layers *found = search->found;
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < found->tensor_count; i++) {
        found->role_of[i] = COFFER__QUANT_PLAIN;
        search->by_address[i] = (uint32_t)i;
    }
    coffer__sort(search->by_address, found->tensor_count, quantised_before, found->model);
    for (size_t i = 0; i < found->tensor_count && status == COFFER_OK; i++) {
        if (found->role_of[i] == COFFER__QUANT_PLAIN) {
            status = quantised_look(search, coffer_at(found->model, i), like_modelopt, err);
        }
    }
    return status == COFFER_OK ? quantised_check_rest(search, err) : status;
}

coffer_status coffer__quant_layers_find(coffer__quant_layers *found, const coffer *model,
                                        const coffer__quant_wants *wants, const coffer_allocator *allocator,
                                        coffer_error *err)
{
    quantised_search search = { .found = found };
    found->allocator = *allocator;
    found->model = model;
    found->tensor_count = coffer_count(model);
    coffer_status status = quantised_read_config(found, wants, err);
    if (status != COFFER_OK) {
        return status;
    }
    found->role_of = coffer__alloc_array(allocator, found->tensor_count, sizeof *found->role_of, err);
    search.by_address = coffer__alloc_array(allocator, found->tensor_count, sizeof *search.by_address, err);
    status = found->role_of != NULL && search.by_address != NULL
                 ? quantised_search_all(&search, wants->like_modelopt, err)
                 : COFFER_ERR_MEMORY;
    coffer__free_array(allocator, search.by_address, found->tensor_count, sizeof *search.by_address);
    return status;
}

void coffer__quant_layers_free(coffer__quant_layers *found)
{
    coffer__whole_free(&found->config_text, &found->allocator);
    coffer__whole_free(&found->other_text, &found->allocator);
    coffer__free(&found->allocator, found->layers, found->capacity * sizeof *found->layers);
    coffer__free_array(&found->allocator, found->role_of, found->tensor_count, sizeof *found->role_of);
}

/* ---- decoding ---------------------------------------------------------------------------------------------------- */

uint64_t coffer__quant_layer_tile(const coffer__quant_layer *layer)
{
    const coffer__quant *quant = &layer->quant;
    const uint64_t most = coffer__quant_most_rows(quant);
    const uint64_t rows = most < quant->rows ? most : quant->rows;
    return rows <= COFFER__QUANT_MAX_TILE / quant->columns ? rows * quant->columns : UINT64_MAX;
}

/* The first tile is as large as any, but for rows that share a line of scales with those before them. */
uint64_t coffer__quant_layer_memory(const coffer__quant_layer *layer)
{
    coffer__quant_read reads[COFFER__QUANT_ROLES];
    const coffer__quant_tile tile = coffer__quant_tile_at(&layer->quant, 0);
    uint64_t size = 0;
    coffer__quant_reads(&layer->quant, &tile, reads);
    for (unsigned i = 0; i < COFFER__QUANT_ROLES; i++) {
        const coffer__quant_part *part = &layer->quant.parts[i];
        size += (uint64_t)reads[i].size * reads[i].count + (part->ending != NULL ? part->line * part->units : 0);
    }
    return size;
}

/* Short runs of a file come right from its source, which costs a system call each; what is verified comes by those who see
   to that. */
static coffer_status quantised_read_part(const coffer *model, const coffer_tensor *tensor,
                                         const coffer__quant_read *read, uint8_t *to, coffer_error *err)
{
    coffer__shard *shard = coffer__model_shard(model, tensor);
    coffer_read_options alone = COFFER_READ_OPTIONS_INIT;
    coffer_status status = COFFER_OK;
    alone.threads = 1;
    const bool plain = !coffer__lazy_verify_is_due(shard, tensor);
    for (size_t i = 0; i < read->count && status == COFFER_OK; i++) {
        const uint64_t offset = read->offset + i * read->stride;
        status =
            plain ? coffer__source_read(&shard->source, tensor->offset + offset, to + i * read->size, read->size, err)
                  : coffer_read_part(model, tensor, offset, to + i * read->size, read->size, &alone, err);
    }
    return status;
}

coffer_status coffer__quant_layer_decode(const coffer *model, const coffer__quant_layer *layer, uint64_t row,
                                         coffer_dtype dtype, uint8_t *memory, uint8_t *to, uint64_t *count,
                                         coffer__quant_odd *odd, coffer_error *err)
{
    coffer__quant_read reads[COFFER__QUANT_ROLES];
    const uint8_t *bytes[COFFER__QUANT_ROLES] = { NULL };
    const coffer__quant_tile tile = coffer__quant_tile_at(&layer->quant, row);
    coffer_status status = COFFER_OK;
    coffer__quant_reads(&layer->quant, &tile, reads);
    for (unsigned i = 0; i < COFFER__QUANT_ROLES && status == COFFER_OK; i++) {
        if (layer->parts[i] != NULL) {
            bytes[i] = memory;
            status = quantised_read_part(model, layer->parts[i], &reads[i], memory, err);
            memory += reads[i].size * reads[i].count;
        }
    }
    if (status != COFFER_OK) {
        return quantised_name_tensor(layer->anchor, status, err);
    }
    coffer__quant_decode(&layer->quant, &tile, bytes, dtype, to, odd);
    *count = coffer__quant_tile_count(&layer->quant, &tile);
    return COFFER_OK;
}
