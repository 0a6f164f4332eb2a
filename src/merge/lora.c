/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An adapter, opened: its file, its configuration, and its modules, which are made of the tensors in order of their
 * names. Everything that can be wrong with an adapter by itself is found here; what can be wrong with it beside a base,
 * in lora_merge.c.
 */
#include "lora.h"

#include "alloc.h"
#include "compatible.h"
#include "error.h"
#include "model.h"
#include "model_dir.h"
#include "options.h"
#include "os.h"
#include "paths.h"
#include "sort.h"
#include "url.h"

#include <math.h>
#include <string.h>

#define LORA_MAX_CONFIG ((uint64_t)16 << 20)

/* The tensors that count, on their way to modules. */
typedef struct lora_tensors {
    const coffer_lora_options *options;
    const coffer_tensor **tensors;
    coffer__lora_said *said;
    uint32_t *order;
    size_t count;
    size_t capacity;
} lora_tensors;

/* ---- the file ---------------------------------------------------------------------------------------------------- */

/* Of a folder, the file that PEFT writes, if it is there; else the model that the folder holds. */
static coffer_status lora_open_file(coffer_lora *lora, const char *path, const coffer_open_options *open,
                                    coffer_error *err)
{
    coffer__path file;
    coffer__os_info info;
    const bool is_folder =
        !coffer__url_is(path) && coffer__os_inspect(path, true, &info) == 0 && info.kind == COFFER__OS_DIRECTORY &&
        coffer__path_copy(&file, path) &&
        coffer__path_append(&file, "/" COFFER__LORA_FILE_NAME, sizeof "/" COFFER__LORA_FILE_NAME - 1);
    const bool is_there = is_folder && coffer__os_inspect(file.text, true, &info) == 0;
    return coffer_open(&lora->model, is_there ? file.text : path, open, err);
}

/* ---- the configuration ------------------------------------------------------------------------------------------- */

/* `path` is what failures name. */
static coffer_status lora_read_config(coffer_lora *lora, const char *text, size_t len, const char *path,
                                      coffer_error *err)
{
    const coffer_status status = coffer__lora_config_read(&lora->config, text, len, &lora->allocator, err);
    return status == COFFER_OK ? status : coffer__fail_path(err, status, path);
}

/* That none is there is no failure: names tell later whether one is needed. */
static coffer_status lora_find_config(coffer_lora *lora, coffer_error *err)
{
    coffer__model_dir place;
    coffer__whole whole = { .bytes = NULL };
    const coffer__name name = { COFFER__LORA_CONFIG_NAME, sizeof COFFER__LORA_CONFIG_NAME - 1 };
    if (lora->model->shards->path == NULL || coffer__model_dir_of(lora->model, &place, NULL) != COFFER_OK) {
        return COFFER_OK;
    }
    coffer_status status = coffer__model_dir_read_beside(&place, name, LORA_MAX_CONFIG, &lora->allocator, &whole, err);
    if (status == COFFER_ERR_NOT_FOUND || status == COFFER_ERR_SHARD_MISSING) {
        return COFFER_OK;
    }
    if (status == COFFER_OK) {
        coffer__path path;
        const bool joined = coffer__model_dir_join(&place, name, &path);
        status = lora_read_config(lora, (const char *)whole.bytes, whole.size,
                                  joined ? path.text : COFFER__LORA_CONFIG_NAME, err);
    }
    coffer__whole_free(&whole, &lora->allocator);
    return status;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static coffer_status lora_take_tensors(lora_tensors *all, const coffer_lora *lora, coffer_error *err)
{
    for (size_t i = 0; i < all->capacity; i++) {
        const coffer_tensor *tensor = coffer_at(lora->model, i);
        if (!coffer_match_list(all->options->select, all->options->select_count, tensor->name, tensor->name_len)) {
            continue;
        }
        const coffer_status status =
            coffer__lora_understand((coffer__name){ tensor->name, tensor->name_len }, &all->said[all->count], err);
        if (status != COFFER_OK) {
            return status;
        }
        if (!coffer__compatible_numbers(tensor)) {
            return coffer__lora_fail(err, COFFER_ERR_UNSUPPORTED, tensor,
                                     "is not F16, BF16, F32 or F64: save the adapter in one of these");
        }
        all->tensors[all->count] = tensor;
        all->order[all->count] = (uint32_t)all->count;
        all->count++;
    }
    return all->count > 0
               ? COFFER_OK
               : coffer__fail(err, COFFER_ERR_NO_TENSOR, "no tensor of the adapter matches what is selected");
}

/* ---- modules ----------------------------------------------------------------------------------------------------- */

/* Whole tensors stand for themselves, since a module may have the name of one, and come first, since a product may be added
   to one. */
static int lora_compare(const lora_tensors *all, uint32_t a, uint32_t b)
{
    const coffer__lora_said *one = &all->said[a];
    const coffer__lora_said *other = &all->said[b];
    const bool whole = one->part == COFFER__LORA_WHOLE;
    if (whole != (other->part == COFFER__LORA_WHOLE)) {
        return whole ? -1 : 1;
    }
    const int modules = coffer__compare_names(one->module.text, one->module.len, other->module.text, other->module.len);
    return modules != 0 ? modules
                        : coffer__compare_names(one->beginning.text, one->beginning.len, other->beginning.text,
                                                other->beginning.len);
}

static bool lora_before(const void *ctx, uint32_t a, uint32_t b)
{
    return lora_compare(ctx, a, b) < 0;
}

static coffer_status lora_add_part(coffer__lora_module *module, const coffer__lora_said *said,
                                   const coffer_tensor *tensor, coffer_error *err)
{
    if (module->kind != said->kind && module->kind != COFFER_ADAPTER_WHOLE && said->kind != COFFER_ADAPTER_WHOLE) {
        return coffer__lora_fail(err, COFFER_ERR_DUPLICATE_NAME, tensor,
                                 "is for the same place as a tensor of another kind of adapter: select one of them");
    }
    if (module->parts[said->part] != NULL) {
        return coffer__lora_fail(
            err, COFFER_ERR_DUPLICATE_NAME, tensor,
            "is for the same place as another one: the file holds two adapters; select one of them");
    }
    module->kind = said->kind != COFFER_ADAPTER_WHOLE ? said->kind : module->kind;
    module->parts[said->part] = tensor;
    module->said.embedding = module->said.embedding || said->embedding;
    return COFFER_OK;
}

/* Neighbours in the order are of one module when their names are equal. */
static coffer_status lora_make_modules(coffer_lora *lora, const lora_tensors *all, coffer_error *err)
{
    for (size_t i = 0; i < all->count; i++) {
        const uint32_t at = all->order[i];
        if (i == 0 || lora_compare(all, all->order[i - 1], at) != 0) {
            lora->modules[lora->count++] = (coffer__lora_module){ .said = all->said[at], .factor = 1 };
        }
        const coffer_status status =
            lora_add_part(&lora->modules[lora->count - 1], &all->said[at], all->tensors[at], err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* The factor, by the adapter's own alpha. LyCORIS does not scale what has no rank. */
static coffer_status lora_alpha(const coffer_lora *lora, coffer__lora_module *module, coffer_error *err)
{
    const coffer_tensor *tensor = module->parts[COFFER__LORA_ALPHA];
    uint8_t bytes[8];
    double alpha = 0;
    if (coffer_tensor_elements(tensor) != 1) {
        return coffer__lora_fail(err, COFFER_ERR_SIZE, tensor, "is not one number");
    }
    const coffer_status status = coffer_read(lora->model, tensor, bytes, tensor->size, NULL, err);
    if (status != COFFER_OK) {
        return status;
    }
    (void)coffer_decode(tensor->dtype, bytes, 0, 1, &alpha);
    if (!isfinite(alpha)) {
        return coffer__lora_fail(err, COFFER_ERR_NUMBER, tensor, "is infinite or not a number");
    }
    module->factor = module->rank > 0 ? alpha / (double)module->rank : 1;
    return COFFER_OK;
}

/* What the configuration says of the adapter as a whole has to be so of each module. */
static coffer_status lora_check_kind(const coffer_lora *lora, const coffer__lora_module *module, coffer_error *err)
{
    const coffer__lora_config *config = &lora->config;
    const coffer_tensor *full = module->parts[COFFER__LORA_SECOND + COFFER__LORA_FULL];
    const bool has_magnitude = module->parts[COFFER__LORA_MAGNITUDE] != NULL;
    if (!config->present || module->said.flat) {
        return COFFER_OK;
    }
    if (config->kind != module->kind || config->by_magnitude != has_magnitude) {
        return coffer__lora_fail(err, COFFER_ERR_UNSUPPORTED, coffer__lora_named(module),
                                 "is of another kind than " COFFER__LORA_CONFIG_NAME
                                 " states (LoRA, DoRA, LoHa or LoKr): the two do not belong together");
    }
    /* There PEFT multiplies as if the kernel were the columns. */
    return full == NULL || full->rank != 3
               ? COFFER_OK
               : coffer__lora_fail(err, COFFER_ERR_UNSUPPORTED, full,
                                   "is for a convolution in one dimension, which PEFT computes in an order of its own: "
                                   "merge the adapter with PEFT (merge_and_unload)");
}

/* The factor: stated by the adapter's own alpha, by the configuration, or 1. PEFT's names come with a configuration. */
static coffer_status lora_check_module(const coffer_lora *lora, coffer__lora_module *module, coffer_error *err)
{
    const coffer_tensor *whole = module->parts[COFFER__LORA_WHOLE];
    if (whole != NULL) {
        return lora->config.present ? COFFER_OK
                                    : coffer__lora_fail(err, COFFER_ERR_UNSUPPORTED, whole,
                                                        "belongs to no LoRA: name another file, select other "
                                                        "tensors, or put " COFFER__LORA_CONFIG_NAME " next to it");
    }
    coffer_status status = coffer__lora_measure(module, err);
    if (status == COFFER_OK) {
        status = lora_check_kind(lora, module, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    module->kind = module->parts[COFFER__LORA_MAGNITUDE] != NULL ? COFFER_ADAPTER_DORA : module->kind;
    if (module->parts[COFFER__LORA_ALPHA] != NULL) {
        return lora_alpha(lora, module, err);
    }
    if (lora->config.present && !module->said.flat) {
        return coffer__lora_config_factor(&lora->config, module->said.module, module->rank, &module->factor, err);
    }
    return !module->said.prefixed ? COFFER_OK
                                  : coffer__fail(err, COFFER_ERR_NOT_FOUND,
                                                 "the adapter has PEFT's names, and no " COFFER__LORA_CONFIG_NAME
                                                 " is next to it to say by which factor it is added: put it there");
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static coffer_status lora_read_with(coffer_lora *lora, lora_tensors *all, coffer_error *err)
{
    all->capacity = coffer_count(lora->model);
    all->tensors = coffer__alloc_array(&lora->allocator, all->capacity, COFFER__LISTED_SIZE, err);
    all->said = coffer__alloc_array(&lora->allocator, all->capacity, sizeof *all->said, err);
    all->order = coffer__alloc_array(&lora->allocator, all->capacity, sizeof *all->order, err);
    lora->modules = coffer__alloc_array(&lora->allocator, all->capacity, sizeof *lora->modules, err);
    lora->capacity = all->capacity;
    if (all->tensors == NULL || all->said == NULL || all->order == NULL || lora->modules == NULL) {
        return COFFER_ERR_MEMORY;
    }
    coffer_status status = lora_take_tensors(all, lora, err);
    if (status == COFFER_OK) {
        coffer__sort(all->order, all->count, lora_before, all);
        status = lora_make_modules(lora, all, err);
    }
    for (size_t i = 0; i < lora->count && status == COFFER_OK; i++) {
        status = lora_check_module(lora, &lora->modules[i], err);
    }
    return status;
}

/* Reads what the file says of itself. */
static coffer_status lora_read(coffer_lora *lora, const coffer_lora_options *options, coffer_error *err)
{
    lora_tensors all = { .options = options };
    coffer_status status = options->config != NULL ? lora_read_config(lora, options->config, options->config_len,
                                                                      COFFER__LORA_CONFIG_NAME, err)
                                                   : lora_find_config(lora, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = lora_read_with(lora, &all, err);
    coffer__free_array(&lora->allocator, all.tensors, all.capacity, COFFER__LISTED_SIZE);
    coffer__free_array(&lora->allocator, all.said, all.capacity, sizeof *all.said);
    coffer__free_array(&lora->allocator, all.order, all.capacity, sizeof *all.order);
    return status == COFFER_OK ? status : coffer__fail_path(err, status, coffer_shard_path(lora->model, 0));
}

coffer_status coffer_lora_open(coffer_lora **lora, const char *path, const coffer_open_options *open,
                               const coffer_lora_options *options, coffer_error *err)
{
    coffer_lora_options known;
    if (lora == NULL || path == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "an adapter needs a path and a place for its handle");
    }
    *lora = NULL;
    coffer_status status = coffer__options_copy(&known, sizeof known, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (known.select == NULL && known.select_count > 0) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the patterns that select are NULL");
    }
    const coffer_allocator *allocator = known.allocator != NULL ? known.allocator : coffer_libc_allocator();
    coffer_lora *made = coffer__alloc_zeroed(allocator, sizeof *made);
    if (made == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to open an adapter");
    }
    made->allocator = *allocator;
    status = lora_open_file(made, path, open, err);
    if (status == COFFER_OK) {
        status = lora_read(made, &known, err);
    }
    if (status != COFFER_OK) {
        coffer_lora_close(made);
        return status;
    }
    *lora = made;
    return COFFER_OK;
}

const coffer *coffer_lora_model(const coffer_lora *lora)
{
    return lora != NULL ? lora->model : NULL;
}

void coffer_lora_close(coffer_lora *lora)
{
    if (lora == NULL) {
        return;
    }
    const coffer_allocator allocator = lora->allocator;
    coffer__free_array(&allocator, lora->modules, lora->capacity, sizeof *lora->modules);
    coffer__lora_config_free(&lora->config, &allocator);
    coffer_close(lora->model);
    coffer__free(&allocator, lora, sizeof *lora);
}
