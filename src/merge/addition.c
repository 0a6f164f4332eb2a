/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adding adapters: the plan of one that does what several do together. Their modules are brought together by name, in
 * their order, and each becomes a pair of matrices whose rank is the sum of theirs, or less.
 */
#include "addition.h"

#include "adapter_config.h"
#include "adapter_files.h"
#include "alloc.h"
#include "checked.h"
#include "error.h"
#include "floats.h"
#include "options.h"
#include "sort.h"

#include <math.h>
#include <string.h>

/* Of a convolution in three dimensions. */
#define ADDITION_MAX_DIMENSIONS 5

/* ---- modules ----------------------------------------------------------------------------------------------------- */

/* PEFT's names say which module it is with their beginning or without. Of others that is a part of the name. */
static int addition_compare(const coffer_addition *addition, const coffer__lora_said *one,
                            const coffer__lora_said *other)
{
    const int modules = coffer__compare_names(one->module.text, one->module.len, other->module.text, other->module.len);
    return modules != 0 || addition->peft ? modules
                                          : coffer__compare_names(one->beginning.text, one->beginning.len,
                                                                  other->beginning.text, other->beginning.len);
}

static bool addition_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer_addition *addition = ctx;
    const coffer__addition_term *one = &addition->terms[a];
    const coffer__addition_term *other = &addition->terms[b];
    const int modules = addition_compare(addition, &one->module->said, &other->module->said);
    return modules != 0 ? modules < 0 : one->adapter < other->adapter;
}

/* Brings the terms into their order. */
static coffer_status addition_sort(coffer_addition *addition, coffer_error *err)
{
    const size_t count = addition->term_count;
    uint32_t *order = coffer__alloc_array(&addition->allocator, count, sizeof *order, err);
    coffer__addition_term *sorted = coffer__alloc_array(&addition->allocator, addition->capacity, sizeof *sorted, err);
    const bool ready = order != NULL && sorted != NULL;
    for (size_t i = 0; ready && i < count; i++) {
        order[i] = (uint32_t)i;
    }
    if (ready) {
        coffer__sort(order, count, addition_before, addition);
    }
    for (size_t i = 0; ready && i < count; i++) {
        sorted[i] = addition->terms[order[i]];
    }
    coffer__free_array(&addition->allocator, order, count, sizeof *order);
    if (!ready) {
        coffer__free_array(&addition->allocator, sorted, addition->capacity, sizeof *sorted);
        return COFFER_ERR_MEMORY;
    }
    coffer__free_array(&addition->allocator, addition->terms, addition->capacity, sizeof *addition->terms);
    addition->terms = sorted;
    return COFFER_OK;
}

/* ---- what can be added ------------------------------------------------------------------------------------------- */

/* What a module is that is no sum of products, with the article before it; NULL if it is one. */
static const char *addition_other(const coffer__lora_module *module)
{
    static const char *const others[] = {
        [COFFER_ADAPTER_WHOLE] = "a whole tensor (a bias, modules_to_save)",
        [COFFER_ADAPTER_LORA] = NULL,
        [COFFER_ADAPTER_DORA] = "a part of DoRA, which changes lengths",
        [COFFER_ADAPTER_LOHA] = "a part of LoHa",
        [COFFER_ADAPTER_LOKR] = "a part of LoKr",
    };
    return module->parts[COFFER__LORA_CORE] != NULL ? "of a convolution with a core (lora_mid)" : others[module->kind];
}

static bool addition_is_matrix(const coffer__lora_module *module)
{
    const coffer_tensor *up = module->parts[COFFER__LORA_UP];
    uint64_t size = 0;
    return coffer__mul_u64(up->shape[0], up->shape[1], &size) && size == coffer_tensor_elements(up) && size > 0 &&
           coffer_tensor_elements(module->parts[COFFER__LORA_DOWN]) > 0 &&
           module->parts[COFFER__LORA_DOWN]->rank <= ADDITION_MAX_DIMENSIONS && up->rank <= ADDITION_MAX_DIMENSIONS;
}

static coffer_status addition_check_module(const coffer_addition *addition, const coffer__lora_module *module,
                                           coffer_error *err)
{
    const coffer_tensor *named = coffer__lora_named(module);
    const char *other = addition_other(module);
    if (other != NULL) {
        coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                     "tensor %q of the adapter is %s, and only products of two matrices (LoRA) can be added to one "
                     "adapter: merge the adapters into their base, each with its scale (coffer merge-lora)",
                     named->name, (size_t)named->name_len, other);
        return coffer__fail_tensor(err, COFFER_ERR_UNSUPPORTED, named->name, named->name_len);
    }
    if (addition->flat != module->said.flat) {
        return coffer__lora_fail(err, COFFER_ERR_UNSUPPORTED, named,
                                 "has a name of another kind than the first one (kohya's have underscores for dots), "
                                 "and the two cannot be compared without the base: bring all adapters to one kind of "
                                 "names, or merge them into their base (coffer merge-lora)");
    }
    return addition_is_matrix(module)
               ? COFFER_OK
               : coffer__lora_fail(err, COFFER_ERR_SIZE, named,
                                   "is of no pair of matrices whose shapes a layer has: the file is damaged");
}

/* Adapters of PEFT have a configuration that says which base they are for. */
static coffer_status addition_check_config(coffer_addition *addition, size_t i, coffer_error *err)
{
    const coffer__lora_config *config = &addition->adapters[i].lora->config;
    if (addition->flat) {
        return COFFER_OK;
    }
    if (i > 0 && config->present != addition->config->present) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                            "only some of the adapters have PEFT's " COFFER__LORA_CONFIG_NAME
                            ", and names of PEFT and of others cannot be compared without the base: bring all adapters "
                            "to one kind of names, or merge them into their base (coffer merge-lora)");
    }
    if (i > 0 && config->present && config->fan_in_fan_out != addition->config->fan_in_fan_out) {
        return coffer__fail(err, COFFER_ERR_SIZE,
                            "the adapters differ in fan_in_fan_out (" COFFER__LORA_CONFIG_NAME
                            "): they are for bases of different layouts");
    }
    if (config->base.len == 0) {
        return COFFER_OK;
    }
    if (addition->base.len == 0) {
        addition->base = config->base;
    }
    return coffer__compare_names(addition->base.text, addition->base.len, config->base.text, config->base.len) == 0
               ? COFFER_OK
               : coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                              "the adapters are for different bases, %q and %q: take adapters of one base; if both are "
                              "the same model, state one name in the " COFFER__LORA_CONFIG_NAME " of both",
                              addition->base.text + 1, addition->base.len - 2, config->base.text + 1,
                              config->base.len - 2);
}

static coffer_status addition_take(coffer_addition *addition, size_t i, coffer_error *err)
{
    const coffer_adapter *adapter = &addition->adapters[i];
    coffer_status status = addition_check_config(addition, i, err);
    for (size_t k = 0; k < adapter->lora->count && status == COFFER_OK; k++) {
        const coffer__lora_module *module = &adapter->lora->modules[k];
        const double scale = module->factor * adapter->scale;
        status = addition_check_module(addition, module, err);
        if (status == COFFER_OK && !isfinite((float)scale)) {
            status = coffer__lora_fail(err, COFFER_ERR_NUMBER, coffer__lora_named(module),
                                       "has a scale beyond the range of F32");
        }
        addition->terms[addition->term_count++] = (coffer__addition_term){ i, module, scale };
    }
    return status == COFFER_OK ? status : coffer__fail_path(err, status, coffer_shard_path(adapter->lora->model, 0));
}

/* ---- items ------------------------------------------------------------------------------------------------------- */

/* A module of two adapters, or of one, twice. */
static coffer_status addition_match(const coffer_addition *addition, const coffer__addition_item *item,
                                    const coffer__addition_term *term, coffer_error *err)
{
    const coffer__addition_term *before = term - 1;
    const coffer_tensor *named = coffer__lora_named(term->module);
    coffer_status status = COFFER_OK;
    if (before->adapter == term->adapter) {
        status = coffer__lora_fail(err, COFFER_ERR_DUPLICATE_NAME, named,
                                   "is for the same module as another one: select one of them");
    } else if (!coffer__lora_compatible(item->terms[0].module, term->module)) {
        status = coffer__lora_fail(err, COFFER_ERR_SIZE, named,
                                   "is for another shape than the matrices of the adapters before it: they are of "
                                   "different bases");
    }
    return status == COFFER_OK
               ? status
               : coffer__fail_path(err, status, coffer_shard_path(addition->adapters[term->adapter].lora->model, 0));
}

static void addition_begin_item(coffer_addition *addition, const coffer__addition_term *term)
{
    const coffer__lora_module *module = term->module;
    addition->items[addition->count++] =
        (coffer__addition_item){ .added = { .module = module->said.module.text, .module_len = module->said.module.len },
                                 .terms = term,
                                 .rows = module->shapes[0].rows,
                                 .columns = module->shapes[0].columns };
}

/* Neighbouring terms of one module become an item. */
static coffer_status addition_group(coffer_addition *addition, coffer_error *err)
{
    for (size_t i = 0; i < addition->term_count; i++) {
        const coffer__addition_term *term = &addition->terms[i];
        const bool same = i > 0 && addition_compare(addition, &(term - 1)->module->said, &term->module->said) == 0;
        if (!same) {
            addition_begin_item(addition, term);
        }
        coffer__addition_item *item = &addition->items[addition->count - 1];
        const coffer_status status = same ? addition_match(addition, item, term, err) : COFFER_OK;
        if (status != COFFER_OK) {
            return status;
        }
        item->added.adapter_count++;
        item->added.rank_sum += term->module->rank; /* dimensions of tensors that are there: no sum of few overflows */
    }
    return COFFER_OK;
}

static int addition_compare_item(const void *ctx, size_t i, const void *wanted)
{
    const coffer_addition *addition = ctx;
    const coffer_added *added = &addition->items[i].added;
    const coffer__name *name = wanted;
    return coffer__compare_names(added->module, added->module_len, name->text, name->len);
}

/* Whether some adapter has both modules. */
static bool addition_share_adapter(const coffer__addition_item *one, const coffer__addition_item *other)
{
    for (size_t i = 0; i < one->added.adapter_count; i++) {
        for (size_t k = 0; k < other->added.adapter_count; k++) {
            if (one->terms[i].adapter == other->terms[k].adapter) {
                return true;
            }
        }
    }
    return false;
}

/* The names of some programs lack leading components, so that a name that is the end of another one may be the same
   module. It is another one where an adapter has both. */
static coffer_status addition_check_name(const coffer_addition *addition, const coffer__addition_item *item,
                                         coffer_error *err)
{
    const coffer_added *added = &item->added;
    for (size_t from = 1; from < added->module_len; from++) {
        const coffer__name end = { added->module + from, added->module_len - from };
        size_t place = 0;
        if (added->module[from - 1] == '.' &&
            coffer__find_sorted(addition->count, addition_compare_item, addition, &end, &place) &&
            !addition_share_adapter(item, &addition->items[place])) {
            return coffer__fail(
                err, COFFER_ERR_UNSUPPORTED,
                "%q of one adapter and %q of another may be the same module, which only the base tells: "
                "bring all adapters to one kind of names, or merge them into their base (coffer "
                "merge-lora)",
                added->module, added->module_len, end.text, end.len);
        }
    }
    return COFFER_OK;
}

static coffer_status addition_check_names(const coffer_addition *addition, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < addition->count && status == COFFER_OK; i++) {
        status = addition_check_name(addition, &addition->items[i], err);
    }
    return status;
}

/* What becomes of the ranks, of which at least one has to become smaller. */
static coffer_status addition_choose_ranks(coffer_addition *addition, coffer_error *err)
{
    uint64_t largest = 0;
    for (size_t i = 0; i < addition->count; i++) {
        coffer_added *added = &addition->items[i].added;
        const bool less = addition->rank > 0 && addition->rank < added->rank_sum;
        added->rank = less ? addition->rank : added->rank_sum;
        largest = added->rank_sum > largest ? added->rank_sum : largest;
    }
    if (addition->rank >= largest) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT,
                            "the rank %u is not below %u, the largest that the adapters have together: without a rank "
                            "nothing is lost",
                            addition->rank, largest);
    }
    return addition->rank > 0 ? coffer__lapack_open(&addition->lapack, err) : COFFER_OK;
}

/* All matrices' own, where they agree in one that is written. */
static coffer_dtype addition_dtype(const coffer_addition *addition)
{
    const coffer_dtype dtype = addition->terms[0].module->parts[COFFER__LORA_DOWN]->dtype;
    for (size_t i = 0; i < addition->term_count; i++) {
        const coffer__lora_module *module = addition->terms[i].module;
        if (module->parts[COFFER__LORA_DOWN]->dtype != dtype || module->parts[COFFER__LORA_UP]->dtype != dtype) {
            return COFFER_F32;
        }
    }
    return dtype == COFFER_F64 ? COFFER_F32 : dtype;
}

static coffer__adapter_module addition_module_at(const void *ctx, size_t i)
{
    const coffer_addition *addition = ctx;
    const coffer_added *added = &addition->items[i].added;
    return (coffer__adapter_module){ { added->module, added->module_len }, added->rank };
}

static coffer__adapter_config addition_config(const coffer_addition *addition)
{
    return (coffer__adapter_config){ .base = addition->base,
                                     .task = addition->config->task,
                                     .fan_in_fan_out = addition->config->fan_in_fan_out,
                                     .count = addition->count,
                                     .module = addition_module_at,
                                     .ctx = addition };
}

/* PEFT takes the names of modules with a rank of their own for regular expressions. */
static coffer_status addition_check_patterns(const coffer_addition *addition, coffer_error *err)
{
    const coffer__adapter_config config = addition_config(addition);
    const uint64_t rank = coffer__adapter_config_rank(&config);
    for (size_t i = 0; i < addition->count && addition->peft; i++) {
        const coffer__adapter_module module = addition_module_at(addition, i);
        if (module.rank != rank && !coffer__lora_config_is_plain(module.name)) {
            return coffer__fail(
                err, COFFER_ERR_UNSUPPORTED,
                "module %q has a rank of its own, and PEFT takes its name for a regular expression: add "
                "adapters that have the same modules, or reduce all to one rank",
                module.name.text, module.name.len);
        }
    }
    return COFFER_OK;
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

static coffer_status addition_check_arguments(const coffer_adapter *adapters, size_t count,
                                              const coffer_add_lora_options *options, coffer_error *err)
{
    if (adapters == NULL || count == 0) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "adding needs adapters, and a place for its handle");
    }
    for (size_t i = 0; i < count; i++) {
        if (adapters[i].lora == NULL || !isfinite(adapters[i].scale)) {
            return coffer__fail(err, COFFER_ERR_ARGUMENT, "an adapter is NULL, or its scale is not finite");
        }
    }
    return options->dtype == COFFER_UNKNOWN_DTYPE || coffer__floats_have(options->dtype)
               ? COFFER_OK
               : coffer__fail(err, COFFER_ERR_ARGUMENT, "the matrices of an adapter are F32, BF16 or F16");
}

static coffer_status addition_reserve_all(coffer_addition *addition, const coffer_adapter *adapters, size_t count,
                                          coffer_error *err)
{
    addition->adapters = coffer__alloc_array(&addition->allocator, count, sizeof *adapters, err);
    if (addition->adapters == NULL) {
        return COFFER_ERR_MEMORY;
    }
    addition->adapter_count = count;
    for (size_t i = 0; i < count; i++) {
        addition->adapters[i] = adapters[i];
        addition->capacity += adapters[i].lora->count;
    }
    addition->config = &adapters[0].lora->config;
    addition->flat = adapters[0].lora->modules[0].said.flat;
    addition->peft = addition->config->present && !addition->flat;
    if (addition->capacity > UINT32_MAX) {
        addition->capacity = 0;
        return coffer__fail(err, COFFER_ERR_MEMORY, "the adapters have more modules than fit into memory");
    }
    addition->terms = coffer__alloc_array(&addition->allocator, addition->capacity, sizeof *addition->terms, err);
    addition->items = coffer__alloc_array(&addition->allocator, addition->capacity, sizeof *addition->items, err);
    return addition->terms != NULL && addition->items != NULL ? COFFER_OK : COFFER_ERR_MEMORY;
}

static coffer_status addition_plan_with(coffer_addition *addition, const coffer_adapter *adapters, size_t count,
                                        const coffer_add_lora_options *options, coffer_error *err)
{
    coffer_status status = addition_reserve_all(addition, adapters, count, err);
    for (size_t i = 0; i < count && status == COFFER_OK; i++) {
        status = addition_take(addition, i, err);
    }
    if (status == COFFER_OK) {
        status = addition_sort(addition, err);
    }
    if (status == COFFER_OK) {
        status = addition_group(addition, err);
    }
    if (status == COFFER_OK) {
        status = addition_check_names(addition, err);
    }
    if (status == COFFER_OK) {
        status = addition_choose_ranks(addition, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    addition->dtype = options->dtype != COFFER_UNKNOWN_DTYPE ? options->dtype : addition_dtype(addition);
    return addition_check_patterns(addition, err);
}

coffer_status coffer_add_lora_plan(coffer_addition **addition, const coffer_adapter *adapters, size_t count,
                                   const coffer_add_lora_options *options, coffer_error *err)
{
    coffer_add_lora_options known;
    if (addition == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "adding needs adapters, and a place for its handle");
    }
    *addition = NULL;
    coffer_status status = coffer__options_copy(&known, sizeof known, options, err);
    if (status == COFFER_OK) {
        status = addition_check_arguments(adapters, count, &known, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    const coffer_allocator *allocator = known.allocator != NULL ? known.allocator : coffer_libc_allocator();
    coffer_addition *made = coffer__alloc_zeroed(allocator, sizeof *made);
    if (made == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to plan an adapter");
    }
    made->allocator = *allocator;
    made->rank = known.rank;
    status = addition_plan_with(made, adapters, count, &known, err);
    if (status != COFFER_OK) {
        coffer_addition_free(made);
        return status;
    }
    *addition = made;
    return COFFER_OK;
}

size_t coffer_addition_count(const coffer_addition *addition)
{
    return addition != NULL ? addition->count : 0;
}

const coffer_added *coffer_addition_at(const coffer_addition *addition, size_t i)
{
    return i < coffer_addition_count(addition) ? &addition->items[i].added : NULL;
}

bool coffer_addition_is_folder(const coffer_addition *addition)
{
    return addition != NULL && addition->peft;
}

void coffer_addition_free(coffer_addition *addition)
{
    if (addition == NULL) {
        return;
    }
    const coffer_allocator allocator = addition->allocator;
    coffer__lapack_close(&addition->lapack);
    coffer__free_array(&allocator, addition->items, addition->capacity, sizeof *addition->items);
    coffer__free_array(&allocator, addition->terms, addition->capacity, sizeof *addition->terms);
    coffer__free_array(&allocator, addition->adapters, addition->adapter_count, sizeof *addition->adapters);
    coffer__free(&allocator, addition, sizeof *addition);
}

/* ---- carrying it out --------------------------------------------------------------------------------------------- */

/* The tensor's own name; of PEFT's files the one that it saves, which has no adapter's name in it. */
static coffer_status addition_declare(const coffer_addition *addition, coffer__adapter_files *files,
                                      const coffer_tensor *tensor, const coffer__lora_said *said, const char *ending,
                                      const uint64_t *shape, coffer_error *err)
{
    coffer__writing name = { .allocator = &addition->allocator };
    if (addition->peft) {
        coffer__write_text(&name, COFFER__ADAPTER_PREFIX);
        coffer__write(&name, said->module.text, said->module.len);
        coffer__write_text(&name, ending);
    } else {
        coffer__write(&name, tensor->name, tensor->name_len);
    }
    const coffer_status status =
        name.failed ? coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the names of an adapter")
                    : coffer_header_add(files->header, name.text, name.used, addition->dtype, shape, tensor->rank, err);
    coffer__writing_free(&name);
    return status;
}

static coffer_status addition_declare_item(const coffer_addition *addition, coffer__adapter_files *files,
                                           const coffer__addition_item *item, coffer_error *err)
{
    const coffer__lora_module *module = item->terms[0].module;
    const coffer_tensor *down = module->parts[COFFER__LORA_DOWN];
    const coffer_tensor *up = module->parts[COFFER__LORA_UP];
    const bool embedding = module->said.embedding;
    uint64_t shape[ADDITION_MAX_DIMENSIONS];
    memcpy(shape, down->shape, down->rank * sizeof *shape);
    shape[0] = item->added.rank;
    const coffer_status status = addition_declare(addition, files, down, &module->said,
                                                  embedding ? ".lora_embedding_A" : ".lora_A.weight", shape, err);
    memcpy(shape, up->shape, up->rank * sizeof *shape);
    shape[1] = item->added.rank;
    return status == COFFER_OK ? addition_declare(addition, files, up, &module->said,
                                                  embedding ? ".lora_embedding_B" : ".lora_B.weight", shape, err)
                               : status;
}

static coffer_status addition_open(const coffer_addition *addition, coffer__adapter_files *files, const char *path,
                                   const coffer_writer_options *writing, coffer_error *err)
{
    coffer__writing text = { .allocator = &addition->allocator };
    const coffer__adapter_config config = addition_config(addition);
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < addition->count && status == COFFER_OK; i++) {
        status = addition_declare_item(addition, files, &addition->items[i], err);
    }
    if (status == COFFER_OK && addition->peft) {
        coffer__adapter_config_write(&text, &config);
    }
    if (status == COFFER_OK) {
        status = coffer__adapter_open(files, path, addition->peft ? &text : NULL, writing, err);
    }
    coffer__writing_free(&text);
    return status;
}

static coffer_status addition_write(const coffer_addition *addition, coffer__adapter_files *files,
                                    coffer__addition_item *item, coffer_error *err)
{
    const coffer_added *added = &item->added;
    coffer__addition_pair pair = { .down = NULL };
    coffer_status status = coffer__addition_compute(addition, item, &pair, err);
    if (status == COFFER_OK) {
        status = coffer__adapter_write(files, pair.down, pair.down_count, added->module, added->module_len, err);
    }
    if (status == COFFER_OK) {
        status = coffer__adapter_write(files, pair.up, pair.up_count, added->module, added->module_len, err);
    }
    coffer__addition_release(addition, &pair);
    return status;
}

static coffer_status addition_write_all(const coffer_addition *addition, coffer__adapter_files *files,
                                        const coffer_read_options *reading, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < addition->count && status == COFFER_OK; i++) {
        if (reading->progress != NULL && reading->progress(reading->progress_ctx, i, addition->count) != 0) {
            return coffer__fail(err, COFFER_ERR_CANCELLED, "cancelled by the progress callback");
        }
        status = addition_write(addition, files, &addition->items[i], err);
    }
    return status;
}

coffer_status coffer_add_lora_run(coffer_addition *addition, const char *path, const coffer_writer_options *writing,
                                  const coffer_read_options *reading, coffer_error *err)
{
    coffer__adapter_files files;
    coffer_read_options how;
    coffer_status status = coffer__options_copy(&how, sizeof how, reading, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (addition == NULL || path == NULL || addition->run) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "a plan is carried out once, and needs a path");
    }
    addition->run = true;
    status = coffer__adapter_begin(&files, &addition->allocator, addition->dtype, err);
    if (status == COFFER_OK) {
        status = addition_open(addition, &files, path, writing, err);
    }
    if (status == COFFER_OK) {
        status = addition_write_all(addition, &files, &how, err);
    }
    if (status == COFFER_OK) {
        status = coffer__adapter_publish(&files, err);
    }
    coffer__adapter_close(&files);
    if (status == COFFER_OK && how.progress != NULL) {
        (void)how.progress(how.progress_ctx, addition->count, addition->count);
    }
    return status;
}
