/* SPDX-License-Identifier: Apache-2.0 */
/* Names of tensors that loaders do not find: see doctor_names.h. A map is offered only where its plan shows that every tensor
   keeps a name of its own, and that the names are then as wanted. */
#include "doctor_names.h"

#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Wrappers ---- */

static const char MODULE[] = "module.";

/* Components that wrappers put anywhere into names. */
static const char *const WRAPPERS[] = { "_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module." };

static const char *wrapper_in(const coffer_tensor *tensor)
{
    for (size_t i = 0; i < sizeof WRAPPERS / sizeof WRAPPERS[0]; i++) {
        const char *at = strstr(tensor->name, WRAPPERS[i]);
        if (at != NULL && (at == tensor->name || at[-1] == '.')) {
            return WRAPPERS[i];
        }
    }
    return NULL;
}

/* The names of a model, and how many are wrapped. A model may have a part that is called module; all of it is none. */
typedef struct wrapping {
    const char *what; /* the first wrapper that was seen */
    const coffer_tensor *first;
    uint64_t count;
    uint64_t modules;
    uint64_t tensors;
} wrapping;

static void look_for_wrapper(wrapping *seen, const coffer_tensor *tensor)
{
    const char *what = wrapper_in(tensor);
    seen->tensors++;
    seen->modules += strncmp(tensor->name, MODULE, strlen(MODULE)) == 0;
    if (what != NULL && seen->count++ == 0) {
        seen->what = what;
        seen->first = tensor;
    }
}

static bool is_wrapped(wrapping *seen, const coffer_tensor *first)
{
    if (seen->count == 0 && seen->tensors > 0 && seen->modules == seen->tensors) {
        seen->what = MODULE;
        seen->first = first;
        seen->count = seen->modules;
    }
    return seen->count > 0;
}

/* ---- Maps ---- */

/* A plan that renames the model where it is; NULL when it cannot be, as where two tensors would have one name. */
static coffer_rewrite *plan_map(const coffer__doctor_folder *folder, const coffer *model, const char *map)
{
    coffer_error err;
    coffer_rewrite *plan = NULL;
    const coffer_rewrite_rule rule = { .kind = COFFER_REWRITE_RENAME_MAP, .pattern = map };
    coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
    options.allocator = &folder->doctor->allocator;
    options.rules = &rule;
    options.rule_count = 1;
    if (coffer__doctor_owns(folder, model)) {
        (void)coffer_rewrite_plan(&plan, model, &options, &err);
    }
    return plan;
}

static bool unwraps(const coffer__doctor_folder *folder, const coffer *model)
{
    wrapping after = { .count = 0 };
    coffer_rewrite *plan = plan_map(folder, model, "unwrap");
    bool all = plan != NULL;
    for (size_t i = 0; all && i < coffer_count(model); i++) {
        const coffer_tensor *to = coffer_rewrite_at(plan, i)->to;
        all = to != NULL;
        if (all) {
            look_for_wrapper(&after, to);
        }
    }
    coffer_rewrite_free(plan);
    return all && !is_wrapped(&after, NULL);
}

bool coffer__doctor_check_wrapping(const coffer__doctor_folder *folder, const char *name, const char *path,
                                   const coffer *model, bool described)
{
    wrapping seen = { .count = 0 };
    for (size_t i = 0; i < coffer_count(model); i++) {
        look_for_wrapper(&seen, coffer_at(model, i));
    }
    if (!is_wrapped(&seen, coffer_at(model, 0))) {
        return false;
    }
    coffer__finding *finding = coffer__doctor_add_in(
        folder, described ? COFFER_SEVERITY_ERROR : COFFER_SEVERITY_WARNING, "wrapped_names", name,
        "%" PRIu64 " of %" PRIu64 " names have %s in them, from training: loaders do not find these "
        "tensors, and transformers makes them up at random",
        seen.count, seen.tensors, seen.what);
    coffer__doctor_about(folder->doctor, finding, seen.first->name, seen.first->name_len);
    if (unwraps(folder, model)) {
        coffer__doctor_fix(folder->doctor, finding,
                           COFFER__DOCTOR_WORDS("coffer", "rename", path, "--map", "unwrap", "--in-place"));
    }
    return true;
}

/* ---- Prefixes ---- */

/* Whether all names begin with the family's first prefix once a map has changed them, but for the output embeddings. */
static bool adds_prefix(const coffer__doctor_folder *folder, const coffer *model, const coffer__doctor_family *family,
                        const char *map)
{
    char prefix[COFFER__DOCTOR_PREFIX];
    snprintf(prefix, sizeof prefix, "%.*s", (int)strcspn(family->prefixes, " "), family->prefixes);
    const size_t head_len = strcspn(family->head, ".") + 1;
    coffer_rewrite *plan = plan_map(folder, model, map);
    bool all = plan != NULL;
    for (size_t i = 0; all && i < coffer_count(model); i++) {
        const coffer_tensor *to = coffer_rewrite_at(plan, i)->to;
        all = to != NULL &&
              (strncmp(to->name, prefix, strlen(prefix)) == 0 || strncmp(to->name, family->head, head_len) == 0);
    }
    coffer_rewrite_free(plan);
    return all;
}

static void check_prefix(const coffer__doctor_folder *folder, const char *name, const char *path, const coffer *model,
                         const coffer__doctor_family *family)
{
    static const char *const maps[] = { "model-add", "gpt2-add" };
    coffer__finding *finding = coffer__doctor_add_in(
        folder, COFFER_SEVERITY_WARNING, "prefix_missing", name,
        "the names lack the prefix %.*s, as in a model without output embeddings, and %s is there: transformers before "
        "version 5 refuses that, and other loaders do not find the tensors",
        (int)strcspn(family->prefixes, " "), family->prefixes, family->head);
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) {
        if (adds_prefix(folder, model, family, maps[i])) {
            coffer__doctor_fix(folder->doctor, finding,
                               COFFER__DOCTOR_WORDS("coffer", "rename", path, "--map", maps[i], "--in-place"));
            return;
        }
    }
}

/* ---- Case ---- */

/* The name as a model of the family has it, if it is one of those but for the case of letters, to be freed. NULL: it is
   none of them, is right, or there is no memory. */
static char *right_name(coffer__checkup *d, const coffer__doctor_family *family, const char *prefix,
                        const coffer_tensor *tensor)
{
    const coffer__doctor_rule head = { family->head, NULL, false };
    char *right = coffer__doctor_new(d, tensor->name_len + 1);
    bool fits = false;
    for (size_t i = 0; right != NULL && i <= COFFER__DOCTOR_RULES_MAX && !fits; i++) {
        const bool last = i == COFFER__DOCTOR_RULES_MAX || family->rules[i].name == NULL;
        const coffer__doctor_rule *rule = last ? &head : &family->rules[i];
        fits = rule->name != NULL &&
               coffer__doctor_rule_spells(last ? "" : prefix, rule->name, tensor->name, tensor->name_len, right);
        if (last) {
            break;
        }
    }
    if (!fits || strcmp(right, tensor->name) == 0) {
        coffer__block_free(right);
        return NULL;
    }
    return right;
}

static void check_case(const coffer__doctor_folder *folder, const char *name, const char *path, const coffer *model,
                       const coffer_tensor *tensor, const char *right)
{
    char shown[COFFER__DOCTOR_SHOWN];
    coffer__finding *finding = coffer__doctor_add_in(
        folder, COFFER_SEVERITY_ERROR, "name_case", name,
        "loaders look for \"%s\" and do not find this tensor: its name differs by the case of letters",
        coffer__doctor_shown(shown, right, strlen(right)));
    coffer__doctor_about(folder->doctor, finding, tensor->name, tensor->name_len);
    const size_t size = 2 * tensor->name_len + 2;
    char *words = coffer__doctor_new(folder->doctor, size);
    if (words != NULL && coffer__doctor_owns(folder, model) && coffer_find(model, right, strlen(right)) == NULL) {
        snprintf(words, size, "%s=%s", tensor->name, right);
        coffer__doctor_fix(folder->doctor, finding,
                           COFFER__DOCTOR_WORDS("coffer", "rename", path, words, "--in-place"));
    }
    coffer__block_free(words);
}

void coffer__doctor_check_spelling(const coffer__doctor_folder *folder, const char *name, const char *path,
                                   const coffer *model, const coffer__doctor_family *family, const char *prefix,
                                   const coffer_tensor *head)
{
    if (prefix[0] == '\0' && family->prefixes[0] != '-' && head != NULL && strcmp(head->name, family->head) == 0) {
        check_prefix(folder, name, path, model, family);
    }
    for (size_t i = 0; i < coffer_count(model); i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        char *right = right_name(folder->doctor, family, prefix, tensor);
        if (right != NULL) {
            check_case(folder, name, path, model, tensor, right);
        }
        coffer__block_free(right);
    }
}

/* ---- The same in other layers ---- */

/* How two names compare; with `folded`, numbers count as alike and so does the case of letters. */
static int compare_names(const coffer_tensor *a, const coffer_tensor *b, bool any_number, bool any_case)
{
    size_t i = 0;
    size_t k = 0;
    while (i < a->name_len && k < b->name_len) {
        unsigned char x = (unsigned char)a->name[i++];
        unsigned char y = (unsigned char)b->name[k++];
        if (any_number && x >= '0' && x <= '9' && y >= '0' && y <= '9') {
            i += strspn(a->name + i, "0123456789");
            k += strspn(b->name + k, "0123456789");
            continue;
        }
        x = any_case ? (unsigned char)coffer__text_lower((char)x) : x;
        y = any_case ? (unsigned char)coffer__text_lower((char)y) : y;
        if (x != y) {
            return x < y ? -1 : 1;
        }
    }
    return (i < a->name_len) - (k < b->name_len);
}

/* Those that are alike follow each other, spelling by spelling, in order of the numbers. */
static int by_likeness(const void *a, const void *b)
{
    const coffer_tensor *x = *(const coffer_tensor *const *)a;
    const coffer_tensor *y = *(const coffer_tensor *const *)b;
    int order = compare_names(x, y, true, true);
    order = order != 0 ? order : compare_names(x, y, true, false);
    return order != 0 ? order : compare_names(x, y, false, false);
}

/* Of tensors that are alike, the first of the spelling that fewer have. NULL where all are spelled alike, and where one model
   may have both spellings: as many of the one as of the other. */
static const coffer_tensor *odd_spelling(const coffer_tensor *const *alike, size_t count)
{
    size_t first = 1;
    while (first < count && compare_names(alike[0], alike[first], true, false) == 0) {
        first++;
    }
    const size_t rest = count - first;
    return rest == 0 || rest == first ? NULL : rest < first ? alike[first] : alike[0];
}

/* The first whose dtype is not that of the one before. Only floats are compared. */
static const coffer_tensor *odd_dtype(const coffer_tensor *const *alike, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (alike[i]->dtype != alike[0]->dtype && coffer_dtype_kind(alike[i]->dtype) == COFFER_KIND_FLOAT &&
            coffer_dtype_kind(alike[0]->dtype) == COFFER_KIND_FLOAT) {
            return alike[i];
        }
    }
    return NULL;
}

static void check_group(const coffer__doctor_folder *folder, const char *name, const coffer_tensor *const *alike,
                        size_t count, bool dtypes)
{
    const coffer_tensor *spelled = odd_spelling(alike, count);
    const coffer_tensor *typed = dtypes ? odd_dtype(alike, count) : NULL;
    if (spelled != NULL) {
        coffer__finding *finding = coffer__doctor_add_in(
            folder, COFFER_SEVERITY_WARNING, "name_case_differs", name,
            "the name differs from those of the same tensor in other layers by the case of letters: loaders find only "
            "one of the two");
        coffer__doctor_about(folder->doctor, finding, spelled->name, spelled->name_len);
    }
    if (typed != NULL) {
        coffer__finding *finding = coffer__doctor_add_in(
            folder, COFFER_SEVERITY_NOTE, "dtype_differs", name,
            "the tensor is %s, and the same one in another layer is %s: loaders convert one of them",
            coffer_dtype_name(typed->dtype), coffer_dtype_name(alike[0]->dtype));
        coffer__doctor_about(folder->doctor, finding, typed->name, typed->name_len);
    }
}

void coffer__doctor_check_alike(const coffer__doctor_folder *folder, const char *name, const coffer *model, bool dtypes)
{
    const size_t count = coffer_count(model);
    const coffer_tensor **all = coffer__doctor_array(folder->doctor, count + 1, sizeof(const coffer_tensor *));
    if (all == NULL) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        all[i] = coffer_at(model, i);
    }
    if (count > 0) {
        qsort(all, count, sizeof(const coffer_tensor *), by_likeness);
    }
    for (size_t i = 1, first = 0; i <= count; i++) {
        if (i == count || compare_names(all[first], all[i], true, true) != 0) {
            check_group(folder, name, all + first, i - first, dtypes);
            first = i;
        }
    }
    coffer__block_free(all);
}

/* ---- Without a configuration ---- */

/* Whether the weights have everything that each layer of the family has, and its embeddings. */
static bool looks_like(const coffer__doctor_family *family, const coffer *model)
{
    char prefix[COFFER__DOCTOR_PREFIX];
    bool seen[COFFER__DOCTOR_RULES_MAX] = { false };
    bool all = coffer__doctor_choose_prefix(family, model, prefix);
    for (size_t i = 0; all && i < coffer_count(model); i++) {
        const char *rest = NULL;
        size_t rest_len = 0;
        uint64_t inner = 0;
        const bool in = coffer__doctor_has_prefix(coffer_at(model, i), prefix, &rest, &rest_len);
        for (size_t k = 0; in && family->rules[k].name != NULL; k++) {
            seen[k] = seen[k] || coffer__doctor_rule_fits(family->rules[k].name, rest, rest_len, &inner);
        }
    }
    for (size_t k = 0; all && family->rules[k].name != NULL; k++) {
        all = seen[k] || !(family->rules[k].in_each || k == 0);
    }
    return all;
}

/* Whether the files have the name under which transformers looks for weights. */
static bool is_named_model(const coffer *model)
{
    const char *path = coffer_shard_path(model, 0);
    const char *slash = coffer__doctor_last_slash(path);
    return strncmp(slash != NULL ? slash + 1 : path, "model", strlen("model")) == 0;
}

void coffer__doctor_check_described(const coffer__doctor_folder *folder, const char *name, const coffer *model)
{
    const coffer__doctor_family *family = NULL;
    const bool wanted = folder->only == NULL && is_named_model(model);
    for (size_t i = 0; wanted && (family = coffer__doctor_family_at(i)) != NULL; i++) {
        if (looks_like(family, model)) {
            coffer__doctor_add_in(
                folder, COFFER_SEVERITY_WARNING, "no_config", name,
                "the tensors are named as those of a model of type %.*s, and there is no config.json: "
                "transformers does not load the folder; get it from where the weights are from",
                (int)strcspn(family->types, " "), family->types);
            return;
        }
    }
}
