/* SPDX-License-Identifier: Apache-2.0 */
/* Adapters of PEFT: the weights against adapter_config.json, and against the base, where that lies on this machine. */
#include "checkup.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char WEIGHTS[] = "adapter_model.safetensors";
static const char CONFIG[] = "adapter_config.json";

/* ---- Pairs of matrices ---- */

/* The rank by the shape of the first lora_A, and how many of them have no lora_B. */
typedef struct adapter_seen {
    uint64_t pairs;
    uint64_t alone;
    const coffer_tensor *first_alone;
    uint64_t wrong_rank;
    const coffer_tensor *first_wrong;
} adapter_seen;

static bool has_partner(coffer__checkup *d, const coffer *model, const coffer_tensor *tensor, size_t at)
{
    char *name = coffer__doctor_new(d, tensor->name_len + 1);
    bool has = name == NULL;
    if (name != NULL) {
        memcpy(name, tensor->name, tensor->name_len);
        name[at + strlen("lora_")] = name[at + strlen("lora_")] == 'A' ? 'B' : 'A';
        has = coffer_find(model, name, tensor->name_len) != NULL;
    }
    coffer__block_free(name);
    return has;
}

static void look_at_adapter(coffer__checkup *d, const coffer *model, uint64_t rank, adapter_seen *seen)
{
    for (size_t i = 0; i < coffer_count(model); i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        const char *part = strstr(tensor->name, "lora_A.");
        const bool first = part != NULL;
        part = part != NULL ? part : strstr(tensor->name, "lora_B.");
        if (part == NULL) {
            continue;
        }
        seen->pairs += first;
        if (!has_partner(d, model, tensor, (size_t)(part - tensor->name))) {
            seen->first_alone = seen->alone++ == 0 ? tensor : seen->first_alone;
        }
        if (first && rank > 0 && tensor->rank == 2 && tensor->shape[0] != rank) {
            seen->first_wrong = seen->wrong_rank++ == 0 ? tensor : seen->first_wrong;
        }
    }
}

static void tell_adapter(const coffer__doctor_folder *folder, const char *name, uint64_t rank, const adapter_seen *seen)
{
    coffer__checkup *d = folder->doctor;
    if (seen->alone > 0) {
        coffer__finding *finding = coffer__doctor_add_in(
            folder, COFFER_SEVERITY_ERROR, "adapter_half", name,
            "%" PRIu64 " of the adapter's matrices lack their other half (lora_A, lora_B)", seen->alone);
        coffer__doctor_about(d, finding, seen->first_alone->name, seen->first_alone->name_len);
    }
    if (seen->wrong_rank > 0) {
        coffer__finding *finding =
            coffer__doctor_add_in(folder, COFFER_SEVERITY_ERROR, "adapter_rank", name,
                                  "the matrix has rank %" PRIu64 ", and adapter_config.json says %" PRIu64 " (%" PRIu64
                                  " of %" PRIu64 " matrices)",
                                  seen->first_wrong->shape[0], rank, seen->wrong_rank, seen->pairs);
        coffer__doctor_about(d, finding, seen->first_wrong->name, seen->first_wrong->name_len);
    }
}

static bool is_empty_object(const coffer__document *config, const coffer__json_node *node)
{
    return node == NULL || node->kind != '{' || coffer__document_first(config, node) == NULL;
}

static void check_pairs(const coffer__doctor_folder *folder, const coffer__document *config,
                        const coffer__json_node *root, const coffer *model)
{
    uint64_t rank = 0;
    adapter_seen seen = { .pairs = 0 };
    const bool same = is_empty_object(config, coffer__document_member(config, root, "rank_pattern"));
    (void)coffer__document_u64(config, coffer__document_member(config, root, "r"), &rank);
    look_at_adapter(folder->doctor, model, same ? rank : 0, &seen);
    tell_adapter(folder, WEIGHTS, rank, &seen);
}

/* ---- Modules ---- */

/* A name of target_modules, and whether the adapter has a tensor for it. */
typedef struct target_module {
    char *name;
    bool seen;
} target_module;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const target_module *)a)->name, ((const target_module *)b)->name);
}

static int compare_target(const void *name, const void *entry)
{
    return strcmp(name, ((const target_module *)entry)->name);
}

/* The names of a list, in order; NULL where there is none, as where a text says it all ("all-linear", an expression). */
static target_module *read_targets(coffer__checkup *d, const coffer__document *config, const coffer__json_node *list,
                                   size_t *count)
{
    *count = 0;
    if (list == NULL || list->kind != '[') {
        return NULL;
    }
    target_module *targets = coffer__doctor_array(d, config->count + 1, sizeof *targets);
    for (const coffer__json_node *node = coffer__document_first(config, list); node != NULL && targets != NULL;
         node = coffer__document_after(config, list, node)) {
        size_t len = 0;
        targets[*count].name = coffer__document_string(config, node, &len);
        *count += targets[*count].name != NULL;
    }
    if (*count > 0) {
        qsort(targets, *count, sizeof *targets, by_name);
    }
    return targets;
}

/* Marks the names that a module ends in, component by component. */
static void see_module(target_module *targets, size_t count, char *module)
{
    for (char *rest = module; rest != NULL; rest = strchr(rest, '.')) {
        rest += *rest == '.';
        target_module *found = bsearch(rest, targets, count, sizeof *targets, compare_target);
        if (found != NULL) {
            found->seen = true;
        }
    }
}

static void see_modules(coffer__checkup *d, target_module *targets, size_t count, const coffer *model)
{
    for (size_t i = 0; i < coffer_count(model) && count > 0; i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        const char *part = strstr(tensor->name, ".lora_");
        char *module = part != NULL ? coffer__doctor_copy_part(d, tensor->name, (size_t)(part - tensor->name)) : NULL;
        if (module != NULL) {
            see_module(targets, count, module);
        }
        coffer__block_free(module);
    }
}

static void check_targets(const coffer__doctor_folder *folder, const coffer__document *config,
                          const coffer__json_node *root, const coffer *model)
{
    size_t count = 0;
    target_module *targets =
        read_targets(folder->doctor, config, coffer__document_member(config, root, "target_modules"), &count);
    see_modules(folder->doctor, targets, count, model);
    for (size_t i = 0; i < count; i++) {
        char shown[COFFER__DOCTOR_SHOWN];
        if (!targets[i].seen) {
            coffer__doctor_add_in(folder, COFFER_SEVERITY_WARNING, "target_modules", CONFIG,
                                  "target_modules has \"%s\", and no tensor of the adapter is for such a module",
                                  coffer__doctor_shown(shown, targets[i].name, strlen(targets[i].name)));
        }
        coffer__block_free(targets[i].name);
    }
    coffer__block_free(targets);
}

/* ---- The base ---- */

/* Whether a name can only be that of a folder: on the Hub there are NAME and OWNER/NAME. */
static bool is_local_name(const char *name)
{
    const char *slash = strchr(name, '/');
    return name[0] == '/' || name[0] == '.' || name[0] == '~' || (slash != NULL && strchr(slash + 1, '/') != NULL);
}

/* The folder of the base, as PEFT finds it, or beside the adapter; to be freed. NULL: there is none here. A name that could
   be a computer's is not asked for. */
static char *find_base(const coffer__doctor_folder *folder, const char *name)
{
    if (name[0] == '\0' || strstr(name, "//") != NULL || strchr(name, '\\') != NULL) {
        return NULL;
    }
    if (coffer__doctor_is_folder(name)) {
        return coffer__doctor_copy(folder->doctor, name);
    }
    char *beside = name[0] != '/' ? coffer__doctor_path(folder, name) : NULL;
    if (beside != NULL && coffer__doctor_is_folder(beside)) {
        return beside;
    }
    coffer__block_free(beside);
    return NULL;
}

/* Tensors of an adapter that have no place in the base. */
typedef struct mismatches {
    const coffer__doctor_folder *folder;
    const char *base;
} mismatches;

static void add_misfit(void *ctx, size_t adapter, const coffer_tensor *tensor, const char *why)
{
    const mismatches *all = ctx;
    char shown[COFFER__DOCTOR_SHOWN];
    (void)adapter;
    coffer__finding *finding = coffer__doctor_add_in(all->folder, COFFER_SEVERITY_ERROR, "adapter_base", WEIGHTS,
                                                     "the adapter does not fit its base %s: %s",
                                                     coffer__doctor_shown(shown, all->base, strlen(all->base)), why);
    coffer__doctor_about(all->folder->doctor, finding, tensor->name, tensor->name_len);
}

/* Whether the adapter fits is for the plan of merging it to say; the plan is not carried out. */
static void compare_with_base(const coffer__doctor_folder *folder, const char *path, const char *name,
                              const coffer *base)
{
    coffer_error err;
    coffer__checkup *d = folder->doctor;
    const coffer_open_options opening = coffer__doctor_open_options(d, false);
    coffer_lora *lora = NULL;
    coffer_rewrite *plan = NULL;
    mismatches all = { folder, name };
    coffer_merge_lora_options merge = COFFER_MERGE_LORA_OPTIONS_INIT;
    coffer_rewrite_options rewriting = COFFER_REWRITE_OPTIONS_INIT;
    char *output = coffer__doctor_path(folder, "merged.safetensors");
    merge.misfit = add_misfit;
    merge.misfit_ctx = &all;
    rewriting.output = output;
    rewriting.allocator = &d->allocator;
    if (output != NULL && coffer_lora_open(&lora, path, &opening, NULL, &err) == COFFER_OK) {
        const coffer_adapter adapter = { lora, 1.0 };
        (void)coffer_merge_lora_plan(&plan, base, &adapter, 1, &merge, &rewriting, &err);
    }
    coffer_rewrite_free(plan);
    coffer_lora_close(lora);
    coffer__block_free(output);
}

static void check_base(const coffer__doctor_folder *folder, const char *path, const coffer__document *config,
                       const coffer__json_node *root)
{
    size_t len = 0;
    coffer_error err;
    coffer *base = NULL;
    char shown[COFFER__DOCTOR_SHOWN];
    char *name =
        coffer__document_string(config, coffer__document_member(config, root, "base_model_name_or_path"), &len);
    char *found = name != NULL ? find_base(folder, name) : NULL;
    if (found != NULL && coffer__doctor_open(folder->doctor, &base, found, false, &err) == COFFER_OK) {
        compare_with_base(folder, path, name, base);
    } else if (found != NULL && err.code != COFFER_ERR_CANCELLED) {
        coffer__doctor_add_in(folder, COFFER_SEVERITY_WARNING, "base_missing", CONFIG,
                              "there is no model in the adapter's base %s: %s", coffer__doctor_shown(shown, name, len),
                              err.message);
    } else if (found == NULL && name != NULL && is_local_name(name)) {
        coffer__doctor_add_in(folder, COFFER_SEVERITY_WARNING, "base_missing", CONFIG,
                              "the adapter's base %s is not there: set base_model_name_or_path to where it is",
                              coffer__doctor_shown(shown, name, len));
    }
    coffer_close(base);
    coffer__block_free(found);
    coffer__block_free(name);
}

/* ---- All of it ---- */

static void check_described_adapter(const coffer__doctor_folder *folder, const coffer__document *config)
{
    coffer_error err;
    coffer *model = NULL;
    const coffer__json_node *root = coffer__document_root(config);
    const bool lora = coffer__document_is(config, coffer__document_member(config, root, "peft_type"), "LORA");
    char *path = coffer__doctor_path(folder, WEIGHTS);
    if (lora && path != NULL && coffer__doctor_has(folder, WEIGHTS) &&
        coffer__doctor_open(folder->doctor, &model, path, false, &err) == COFFER_OK) {
        check_pairs(folder, config, root, model);
        check_targets(folder, config, root, model);
        check_base(folder, path, config, root);
    }
    coffer_close(model);
    coffer__block_free(path);
}

void coffer__doctor_check_adapter(const coffer__doctor_folder *folder)
{
    coffer__doctor_text text;
    coffer__document config;
    if (folder->input != NULL) {
        return;
    }
    const bool has_weights = coffer__doctor_has(folder, WEIGHTS) || coffer__doctor_has(folder, "adapter_model.bin");
    const bool described = coffer__doctor_has(folder, CONFIG);
    if (has_weights && !described) {
        coffer__doctor_add_in(
            folder, COFFER_SEVERITY_ERROR, "no_adapter_config", WEIGHTS,
            "there is no adapter_config.json, without which PEFT does not load the adapter: its rank and "
            "its factor are not known; get it from where the weights are from");
    } else if (described && !has_weights) {
        coffer__doctor_add_in(folder, COFFER_SEVERITY_ERROR, "no_weights", CONFIG,
                              "it describes an adapter, and there is no adapter_model.safetensors");
    }
    if (coffer__doctor_read_json(folder, CONFIG, &text, &config)) {
        check_described_adapter(folder, &config);
        coffer__document_free(&config);
        coffer__block_free(text.bytes);
    }
}
