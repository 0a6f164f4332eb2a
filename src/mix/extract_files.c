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
 *
 * An adapter that is replaced loses its configuration first, so that nobody finds new matrices with old factors:
 * without a configuration none loads. If the matrices cannot be replaced, the old one comes back.
 */
#include "alloc.h"
#include "declared.h"
#include "errno_status.h"
#include "error.h"
#include "extract.h"
#include "floats.h"
#include "lora.h"
#include "options.h"
#include "saved.h"
#include "sort.h"
#include "text.h"
#include "writing.h"

#include <errno.h>
#include <string.h>

#define EXTRACT_PREFIX "base_model.model."
#define EXTRACT_ENCODE_ELEMENTS ((size_t)1 << 18) /* that are written at a time */

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
        if (extraction->items[i].told.rank > 0) {
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
    coffer__write_text(&name, EXTRACT_PREFIX);
    if (ending == NULL) {
        extract_write_whole_name(&name, files, item->base);
    } else {
        coffer__write(&name, item->module.text, item->module.len);
        coffer__write_text(&name, ending);
    }
    const coffer_status status =
        name.failed ? coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the names of an adapter")
                    : coffer_header_add(files->header, name.text, name.used, dtype, shape, item->base->rank, err);
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
    down[0] = item->told.rank;
    down[1] = item->told.transposed ? item->rows : down[1];
    up[0] = item->told.transposed ? item->columns : item->rows;
    up[1] = item->told.rank;
    const coffer_status status =
        extract_declare(files, item, item->embedding ? ".lora_embedding_A" : ".lora_A.weight", down, err);
    return status == COFFER_OK
               ? extract_declare(files, item, item->embedding ? ".lora_embedding_B" : ".lora_B.weight", up, err)
               : status;
}

static coffer_status extract_declare_all(const coffer__extract_files *files, coffer_error *err)
{
    const coffer_extraction *extraction = files->extraction;
    coffer_status status = coffer__header_set_format(files->header, err);
    for (size_t i = 0; i < extraction->count && status == COFFER_OK; i++) {
        const coffer__extract_item *item = &extraction->items[i];
        status = item->told.rank > 0 ? extract_declare_pair(files, item, err)
                                     : extract_declare(files, item, NULL, item->base->shape, err);
    }
    return status;
}

/* ---- configuration ----------------------------------------------------------------------------------------------- */

/* lora_alpha / r is 1. Modules are listed by their whole names. */
static void extract_write_config(coffer__writing *out, const coffer_extraction *extraction)
{
    bool first = true;
    char rank[20];
    const size_t rank_len = coffer__write_u64(rank, extraction->rank);
    coffer__write_text(out, "{\n  \"base_model_name_or_path\": null,\n  \"bias\": \"none\",\n  \"fan_in_fan_out\": ");
    coffer__write_text(out, extraction->fan_in_fan_out ? "true" : "false");
    coffer__write_text(out, ",\n  \"inference_mode\": true,\n  \"lora_alpha\": ");
    coffer__write(out, rank, rank_len);
    coffer__write_text(out, ",\n  \"lora_dropout\": 0.0,\n  \"peft_type\": \"LORA\",\n  \"r\": ");
    coffer__write(out, rank, rank_len);
    coffer__write_text(out, ",\n  \"target_modules\": [");
    for (size_t i = 0; i < extraction->count; i++) {
        const coffer__extract_item *item = &extraction->items[i];
        if (item->told.rank > 0) {
            coffer__write_text(out, first ? "\n    " : ",\n    ");
            coffer__write_json_n(out, item->module.text, item->module.len);
            first = false;
        }
    }
    coffer__write_text(out, "\n  ],\n  \"task_type\": null\n}\n");
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static coffer_status extract_open_config(coffer__extract_files *files, coffer_sync sync, coffer_error *err)
{
    coffer__writing text = { .allocator = &files->extraction->allocator };
    extract_write_config(&text, files->extraction);
    coffer_status status = text.failed
                               ? coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the configuration of an adapter")
                               : coffer__sink_path(&files->config, &files->extraction->allocator,
                                                   files->config_path.text, sync, false, err);
    files->config_open = status == COFFER_OK;
    if (status == COFFER_OK) {
        status = files->config.ops->reserve(&files->config, text.used, err);
    }
    if (status == COFFER_OK) {
        status = files->config.ops->write_at(&files->config, 0, text.text, text.used, err);
    }
    coffer__writing_free(&text);
    return status;
}

static bool extract_make_paths(coffer__extract_files *files, const char *folder, coffer__path *model)
{
    return coffer__path_copy(model, folder) && coffer__path_append(model, "/", 1) &&
           coffer__path_sibling(&files->config_path, model->text, COFFER__LORA_CONFIG_NAME) &&
           coffer__path_beside(&files->old_path, files->config_path.text, "", COFFER__SAVED_OLD) &&
           coffer__path_append(model, COFFER__LORA_FILE_NAME, sizeof COFFER__LORA_FILE_NAME - 1);
}

coffer_status coffer__extract_open(coffer__extract_files *files, const coffer_extraction *extraction,
                                   const char *folder, const coffer_writer_options *writing, coffer_error *err)
{
    coffer__path model;
    coffer_writer_options known;
    memset(files, 0, sizeof *files);
    files->extraction = extraction;
    coffer_status status = coffer__options_copy(&known, sizeof known, writing, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (known.in_place || known.replaces != NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT,
                            "the files of an adapter cannot have the options in_place and replaces");
    }
    if (!extract_make_paths(files, folder, &model)) {
        return coffer__errno_status(err, "write an adapter", folder, ENAMETOOLONG);
    }
    status = coffer_header_new(&files->header, &extraction->allocator, err);
    if (status == COFFER_OK) {
        status = extract_list_pairs(files, err);
    }
    if (status == COFFER_OK) {
        status = extract_declare_all(files, err);
    }
    if (status == COFFER_OK) {
        status = coffer_writer_open(&files->writer, files->header, model.text, writing, err);
    }
    return status == COFFER_OK ? extract_open_config(files, known.sync, err) : status;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static coffer_status extract_overflowed(const coffer__extract_files *files, const coffer_tensor *tensor,
                                        coffer_error *err)
{
    const char *name = coffer_dtype_name(files->extraction->dtype);
    coffer__fail(err, COFFER_ERR_NUMBER, "the matrices of tensor %q have numbers beyond the range of %s: write F32",
                 tensor->name, (size_t)tensor->name_len, name);
    return coffer__fail_tensor(err, COFFER_ERR_NUMBER, tensor->name, tensor->name_len);
}

/* The next tensor of the declaration: a matrix. `buffer` is for EXTRACT_ENCODE_ELEMENTS. */
static coffer_status extract_write_matrix(coffer__extract_files *files, const coffer__extract_item *item,
                                          const float *values, size_t count, uint8_t *buffer, coffer_error *err)
{
    const coffer_dtype dtype = files->extraction->dtype;
    const size_t size = coffer_dtype_bits(dtype) / 8;
    coffer__floats_losses losses = { 0, 0 };
    coffer_status status = COFFER_OK;
    for (size_t first = 0; first < count && status == COFFER_OK; first += EXTRACT_ENCODE_ELEMENTS) {
        const size_t left = count - first;
        const size_t now = left < EXTRACT_ENCODE_ELEMENTS ? left : EXTRACT_ENCODE_ELEMENTS;
        for (size_t done = 0; done < now; done += COFFER__FLOATS_MAX) {
            const size_t few = now - done < COFFER__FLOATS_MAX ? now - done : COFFER__FLOATS_MAX;
            coffer__floats_encode(dtype, values + first + done, few, buffer + done * size, &losses);
        }
        status = losses.overflowed > 0
                     ? extract_overflowed(files, item->base, err)
                     : coffer_writer_write(files->writer, files->number, first * size, buffer, now * size, err);
    }
    files->number++;
    return status;
}

coffer_status coffer__extract_write(coffer__extract_files *files, const coffer__extract_item *item,
                                    const coffer__extract_pair *pair, coffer_error *err)
{
    const coffer_allocator *allocator = &files->extraction->allocator;
    if (item->told.rank == 0) {
        const coffer_copy copy = { files->number++, files->extraction->tuned, item->tuned };
        return coffer_writer_copy(files->writer, &copy, 1, NULL, err);
    }
    uint8_t *buffer = coffer__alloc_array(allocator, EXTRACT_ENCODE_ELEMENTS, sizeof(float), err);
    coffer_status status = buffer != NULL ? COFFER_OK : COFFER_ERR_MEMORY;
    if (status == COFFER_OK) {
        status = extract_write_matrix(files, item, pair->down, pair->down_count, buffer, err);
    }
    if (status == COFFER_OK) {
        status = extract_write_matrix(files, item, pair->up, pair->up_count, buffer, err);
    }
    coffer__free_array(allocator, buffer, EXTRACT_ENCODE_ELEMENTS, sizeof(float));
    return status;
}

/* ---- publishing -------------------------------------------------------------------------------------------------- */

coffer_status coffer__extract_publish(coffer__extract_files *files, coffer_error *err)
{
    const char *config = files->config_path.text;
    const char *old = files->old_path.text;
    const int moved = coffer__os_rename(config, old);
    if (moved != 0 && moved != ENOENT) {
        return coffer__errno_status(err, "move the old configuration aside", config, moved);
    }
    coffer_status status = coffer_writer_finish(files->writer, err);
    if (status != COFFER_OK) {
        if (moved == 0) {
            (void)coffer__os_rename(old, config);
        }
        return status;
    }
    files->config_open = false;
    status = files->config.ops->publish(&files->config, err);
    if (status == COFFER_OK && moved == 0) {
        (void)coffer__os_unlink(old);
    }
    return status;
}

void coffer__extract_close(coffer__extract_files *files)
{
    if (files->config_open) {
        files->config.ops->discard(&files->config);
    }
    coffer_writer_free(files->writer);
    coffer_header_free(files->header);
    if (files->pairs != NULL) {
        coffer__free_array(&files->extraction->allocator, files->pairs, files->extraction->count, sizeof *files->pairs);
    }
}
