/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An adapter as PEFT has it: adapter_model.safetensors and adapter_config.json in a folder. Tensors are called
 *
 *   base_model.model.MODULE.lora_A.weight, lora_B.weight          the two matrices of a layer
 *   base_model.model.MODULE.lora_embedding_A, lora_embedding_B    those of an embedding
 *   base_model.model.MODULE.base_layer.bias                       a tensor itself, beside the matrices of its layer
 *   base_model.model.NAME                                         any other tensor itself
 *
 * The names of tensors themselves are those that they have in PEFT's model, which so takes them in place of the base's;
 * a list of modules_to_save would need all tensors of a module.
 */
#include "adapter_config.h"
#include "alloc.h"
#include "error.h"
#include "extract.h"
#include "sort.h"
#include "writing.h"

#include <string.h>

/* ---- names ------------------------------------------------------------------------------------------------------- */

static bool extract_layer_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer_extraction *extraction = ctx;
    const coffer__name one = extraction->items[a].module;
    const coffer__name other = extraction->items[b].module;
    return coffer__compare_names(one.text, one.len, other.text, other.len) < 0;
}

/* Lists the items that have two matrices, by the names of their layers. */
static coffer_status extract_list_pairs(coffer__extract_files *files, coffer_error *err)
{
    const coffer_extraction *extraction = files->extraction;
    files->pairs = coffer__alloc_array(&extraction->allocator, extraction->count, sizeof *files->pairs, err);
    if (files->pairs == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < extraction->count; i++) {
        if (extraction->items[i].reported.rank > 0) {
            files->pairs[files->pair_count++] = (uint32_t)i;
        }
    }
    coffer__sort(files->pairs, files->pair_count, extract_layer_before, extraction);
    return COFFER_OK;
}

static int extract_compare_layer(const void *ctx, size_t i, const void *wanted)
{
    const coffer__extract_files *files = ctx;
    const coffer__name *layer = wanted;
    const coffer__name own = files->extraction->items[files->pairs[i]].module;
    return coffer__compare_names(own.text, own.len, layer->text, layer->len);
}

static void extract_write_whole_name(coffer__writing *out, const coffer__extract_files *files,
                                     const coffer_tensor *tensor)
{
    size_t layer = tensor->name_len;
    size_t found = 0;
    while (layer > 0 && tensor->name[layer - 1] != '.') {
        layer--;
    }
    const coffer__name name = { tensor->name, layer > 0 ? layer - 1 : 0 };
    const bool beside = coffer__find_sorted(files->pair_count, extract_compare_layer, files, &name, &found);
    coffer__write(out, tensor->name, layer);
    coffer__write_text(out, beside ? "base_layer." : "");
    coffer__write(out, tensor->name + layer, tensor->name_len - layer);
}

/* ---- declarations ------------------------------------------------------------------------------------------------ */

/* `ending` is what follows the name of the module; NULL: the tensor itself. */
static coffer_status extract_declare(const coffer__extract_files *files, const coffer__extract_item *item,
                                     const char *ending, const uint64_t *shape, coffer_error *err)
{
    coffer__writing name = { .allocator = &files->extraction->allocator };
    const coffer_dtype dtype = ending != NULL ? files->extraction->dtype : item->tuned->dtype;
    coffer__write_text(&name, COFFER__ADAPTER_PREFIX);
    if (ending == NULL) {
        extract_write_whole_name(&name, files, item->base);
    } else {
        coffer__write(&name, item->module.text, item->module.len);
        coffer__write_text(&name, ending);
    }
    const coffer_status status =
        name.failed
            ? coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the names of an adapter")
            : coffer_header_add(files->adapter.header, name.text, name.used, dtype, shape, item->base->rank, err);
    coffer__writing_free(&name);
    return status;
}

/* Of a convolution, down has its dimensions but the first, and up is one of a single point. */
static coffer_status extract_declare_pair(const coffer__extract_files *files, const coffer__extract_item *item,
                                          coffer_error *err)
{
    uint64_t down[COFFER__EXTRACT_MAX_DIMENSIONS] = { 0 };
    uint64_t up[COFFER__EXTRACT_MAX_DIMENSIONS] = { 0 };
    for (size_t i = 0; i < item->base->rank; i++) {
        down[i] = item->base->shape[i];
        up[i] = 1;
    }
    down[0] = item->reported.rank;
    down[1] = item->reported.transposed ? item->rows : down[1];
    up[0] = item->reported.transposed ? item->columns : item->rows;
    up[1] = item->reported.rank;
    const coffer_status status =
        extract_declare(files, item, item->embedding ? ".lora_embedding_A" : ".lora_A.weight", down, err);
    return status == COFFER_OK
               ? extract_declare(files, item, item->embedding ? ".lora_embedding_B" : ".lora_B.weight", up, err)
               : status;
}

static coffer_status extract_declare_all(const coffer__extract_files *files, coffer_error *err)
{
    const coffer_extraction *extraction = files->extraction;
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < extraction->count && status == COFFER_OK; i++) {
        const coffer__extract_item *item = &extraction->items[i];
        status = item->reported.rank > 0 ? extract_declare_pair(files, item, err)
                                         : extract_declare(files, item, NULL, item->base->shape, err);
    }
    return status;
}

/* ---- configuration ----------------------------------------------------------------------------------------------- */

static coffer__adapter_module extract_module_at(const void *ctx, size_t i)
{
    const coffer_extraction *extraction = ctx;
    const coffer__extract_item *item = &extraction->items[i];
    return (coffer__adapter_module){ item->module, item->reported.rank };
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static coffer_status extract_open_files(coffer__extract_files *files, const char *folder,
                                        const coffer_writer_options *writing, coffer_error *err)
{
    const coffer_extraction *extraction = files->extraction;
    const coffer__adapter_config config = { .fan_in_fan_out = extraction->fan_in_fan_out,
                                            .count = extraction->count,
                                            .module = extract_module_at,
                                            .ctx = extraction };
    coffer__writing text = { .allocator = &extraction->allocator };
    coffer__adapter_config_write(&text, &config);
    const coffer_status status = coffer__adapter_open(&files->adapter, folder, &text, writing, err);
    coffer__writing_free(&text);
    return status;
}

coffer_status coffer__extract_open(coffer__extract_files *files, const coffer_extraction *extraction,
                                   const char *folder, const coffer_writer_options *writing, coffer_error *err)
{
    files->extraction = extraction;
    files->pairs = NULL;
    files->pair_count = 0;
    coffer_status status = coffer__adapter_begin(&files->adapter, &extraction->allocator, extraction->dtype, err);
    if (status == COFFER_OK) {
        status = extract_list_pairs(files, err);
    }
    if (status == COFFER_OK) {
        status = extract_declare_all(files, err);
    }
    return status == COFFER_OK ? extract_open_files(files, folder, writing, err) : status;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

coffer_status coffer__extract_write(coffer__extract_files *files, const coffer__extract_item *item,
                                    const coffer__extract_pair *pair, coffer_error *err)
{
    coffer__adapter_files *adapter = &files->adapter;
    const coffer_tensor *tensor = item->base;
    if (item->reported.rank == 0) {
        const coffer_copy copy = { adapter->number++, files->extraction->tuned, item->tuned };
        return coffer_writer_copy(adapter->writer, &copy, 1, NULL, err);
    }
    const coffer_status status =
        coffer__adapter_write(adapter, pair->down, pair->down_count, tensor->name, tensor->name_len, err);
    return status == COFFER_OK
               ? coffer__adapter_write(adapter, pair->up, pair->up_count, tensor->name, tensor->name_len, err)
               : status;
}

void coffer__extract_close(coffer__extract_files *files)
{
    coffer__adapter_close(&files->adapter);
    if (files->pairs != NULL) {
        coffer__free_array(&files->extraction->allocator, files->pairs, files->extraction->count, sizeof *files->pairs);
    }
}
