/* SPDX-License-Identifier: Apache-2.0 */
/* A model against its config.json, by what is known of its family. */
#include "checkup.h"
#include "doctor_family.h"
#include "doctor_loading.h"
#include "doctor_names.h"
#include "doctor_sizes.h"
#include "doctor_tokens.h"
#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What was seen of a rule's tensors. */
typedef struct rule_seen {
    uint64_t count;
    uint64_t wrong; /* of another shape than config.json says */
    const coffer_tensor *first_wrong;
    uint64_t most_inner; /* the largest number of an expert, and 1 */
} rule_seen;

/* The numbers of the layers of a stack, in order once they are all there. */
typedef struct layer_list {
    const char *name;
    uint64_t *numbers;
    size_t count;
} layer_list;

typedef struct config_check {
    coffer__doctor_folder *folder;
    const char *name;
    const char *path;
    const coffer *model;
    const coffer__doctor_family *family;
    const coffer__document *config;
    const coffer__json_node *root;
    const coffer__json_node *scope; /* the object that has the sizes: the root, or its text_config */
    coffer__doctor_sizes sizes;
    char prefix[COFFER__DOCTOR_PREFIX];
    bool quantised;
    rule_seen seen[COFFER__DOCTOR_RULES_MAX];
    layer_list stacks[2];
} config_check;

/* ---- Shapes ---- */

/* How a tensor's shape compares with a rule's: 0 alike, 1 only padded in the vocabulary, 2 different. */
static int compare_shape(const config_check *check, const coffer_tensor *tensor, const char *shape)
{
    int answer = 0;
    size_t dimension = 0;
    while (*shape != '\0') {
        const size_t len = strcspn(shape, ",");
        const uint64_t wanted = coffer__doctor_dimension(&check->sizes, shape, len);
        const uint64_t has = dimension < tensor->rank ? tensor->shape[dimension] : 0;
        if (dimension >= tensor->rank) {
            return 2;
        }
        if (wanted != 0 && has != wanted) {
            const bool padded = shape[0] == 'V' && has > wanted;
            answer = padded && answer < 2 ? 1 : 2;
        }
        dimension++;
        shape += len + (shape[len] == ',');
    }
    return dimension == tensor->rank ? answer : 2;
}

static void put_wanted(char *text, size_t size, const config_check *check, const char *shape)
{
    size_t used = (size_t)snprintf(text, size, "[");
    for (bool first = true; *shape != '\0' && used < size; first = false) {
        const size_t len = strcspn(shape, ",");
        const uint64_t wanted = coffer__doctor_dimension(&check->sizes, shape, len);
        const char *name = coffer__doctor_size_name(shape[len - 1]);
        const char times[] = { len > 1 ? shape[0] : '\0', '\0' };
        used += (size_t)snprintf(text + used, size - used, "%s%s%s%s", first ? "" : ", ", times, len > 1 ? " x " : "",
                                 name);
        if (wanted != 0 && used < size) {
            used += (size_t)snprintf(text + used, size - used, " = %" PRIu64, wanted);
        }
        shape += len + (shape[len] == ',');
    }
    if (used < size) {
        snprintf(text + used, size - used, "]");
    }
}

/* Packed weights have other shapes, so only floats are compared. */
static bool has_plain_shape(const coffer_tensor *tensor)
{
    return coffer_dtype_kind(tensor->dtype) == COFFER_KIND_FLOAT && coffer_dtype_bits(tensor->dtype) >= 8;
}

static void look_at_shape(config_check *check, const coffer_tensor *tensor, const coffer__doctor_rule *rule,
                          rule_seen *seen)
{
    const int answer = has_plain_shape(tensor) ? compare_shape(check, tensor, rule->shape) : 0;
    if (answer == 2) {
        seen->first_wrong = seen->wrong++ == 0 ? tensor : seen->first_wrong;
    } else if (answer == 1) {
        coffer__doctor_about(check->folder->doctor,
                             coffer__doctor_add_in(check->folder, COFFER_SEVERITY_NOTE, "vocab_padding", check->name,
                                                   "the embeddings have %" PRIu64 " rows for a vocab_size of %" PRIu64
                                                   ": padding, which is usual",
                                                   tensor->shape[0], check->sizes.of['V']),
                             tensor->name, tensor->name_len);
    }
}

static void add_number(layer_list *stack, const char *rest, size_t rest_len)
{
    uint64_t number = 0;
    const size_t len = stack->name != NULL ? strlen(stack->name) : 0;
    if (len == 0 || rest_len <= len || memcmp(rest, stack->name, len) != 0) {
        return;
    }
    const size_t end = coffer__doctor_name_number(rest, rest_len, len, &number);
    if (end > len && end < rest_len && rest[end] == '.') {
        stack->numbers[stack->count++] = number;
    }
}

static void look_at_tensor(config_check *check, const coffer_tensor *tensor)
{
    const char *rest = NULL;
    size_t rest_len = 0;
    uint64_t inner = 0;
    if (!coffer__doctor_has_prefix(tensor, check->prefix, &rest, &rest_len)) {
        return;
    }
    add_number(&check->stacks[0], rest, rest_len);
    add_number(&check->stacks[1], rest, rest_len);
    for (size_t i = 0; check->family->rules[i].name != NULL; i++) {
        rule_seen *seen = &check->seen[i];
        if (coffer__doctor_rule_fits(check->family->rules[i].name, rest, rest_len, &inner)) {
            seen->count++;
            seen->most_inner =
                inner != COFFER__DOCTOR_NO_NUMBER && inner >= seen->most_inner ? inner + 1 : seen->most_inner;
            look_at_shape(check, tensor, &check->family->rules[i], seen);
        }
    }
}

static void tell_shape(const config_check *check, const coffer__doctor_rule *rule, const rule_seen *seen)
{
    char has[COFFER__DOCTOR_SHAPE];
    char wanted[300];
    char more[60] = "";
    const coffer_tensor *tensor = seen->first_wrong;
    coffer__doctor_put_shape(has, tensor);
    put_wanted(wanted, sizeof wanted, check, rule->shape);
    if (seen->wrong > 1) {
        snprintf(more, sizeof more, " (and %" PRIu64 " more tensors like it)", seen->wrong - 1);
    }
    const bool vocab = rule->shape[0] == 'V' && tensor->rank == 2 && tensor->shape[0] < check->sizes.of['V'];
    coffer__finding *finding =
        coffer__doctor_add_in(check->folder, COFFER_SEVERITY_ERROR, vocab ? "vocab_size" : "shape", check->name,
                              "the shape is %s, and config.json says %s%s", has, wanted, more);
    coffer__doctor_about(check->folder->doctor, finding, tensor->name, tensor->name_len);
}

/* ---- Architectures ---- */

/* Whether the name of the model's class ends so. */
static bool is_architecture(const config_check *check, const char *ending)
{
    size_t len = 0;
    const coffer__json_node *list = coffer__document_member(check->config, check->root, "architectures");
    char *name = coffer__document_string(check->config, coffer__document_first(check->config, list), &len);
    const bool is = name != NULL && coffer__text_has_ending(name, ending);
    coffer__block_free(name);
    return is;
}

/* The decoder of a model that has an encoder too, as a language model by itself: BartForCausalLM. */
static bool is_decoder_alone(const config_check *check)
{
    return check->family->decoder != NULL && check->stacks[1].count > 0 &&
           (is_architecture(check, "ForCausalLM") || is_architecture(check, "DecoderWrapper"));
}

/* The input embeddings: those of the decoder, where it is alone; NULL: the part that was saved has none. */
static const coffer__doctor_rule *embeddings_of(const config_check *check)
{
    static const char decoder[] = "decoder.embed_tokens.weight";
    const coffer__doctor_rule *rules = check->family->rules;
    const bool alone = is_decoder_alone(check);
    for (size_t i = 0; alone && rules[i].name != NULL; i++) {
        if (strcmp(rules[i].name, decoder) == 0) {
            return &rules[i];
        }
    }
    if (rules[0].name == NULL) {
        return NULL;
    }
    const bool of_decoder = strcmp(rules[0].name, decoder) == 0;
    const bool has = strchr(rules[0].name, '#') == NULL && (!of_decoder || check->stacks[1].count > 0);
    return has ? &rules[0] : NULL;
}

/* ---- Layers ---- */

static int by_number(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void settle_stack(layer_list *stack)
{
    size_t kept = 0;
    if (stack->count > 0) {
        qsort(stack->numbers, stack->count, sizeof *stack->numbers, by_number);
    }
    for (size_t i = 0; i < stack->count; i++) {
        if (kept == 0 || stack->numbers[kept - 1] != stack->numbers[i]) {
            stack->numbers[kept++] = stack->numbers[i];
        }
    }
    stack->count = kept;
}

/* The first few numbers below `wanted` that are not in the list: as many steps as there are layers, whatever is wanted. */
static void put_missing(char *text, size_t size, const layer_list *stack, uint64_t wanted)
{
    uint64_t next = 0;
    size_t used = 0;
    size_t reported = 0;
    text[0] = '\0';
    for (size_t i = 0; next < wanted && reported < 5 && used < size;) {
        if (i < stack->count && stack->numbers[i] == next) {
            i++;
        } else {
            used += (size_t)snprintf(text + used, size - used, "%s%" PRIu64, reported++ > 0 ? ", " : "", next);
        }
        next++;
    }
}

/* The first of the layers that config.json does not count. */
static void look_at_extra(const config_check *check, coffer__finding *finding, const layer_list *stack, uint64_t number)
{
    char pattern[160];
    snprintf(pattern, sizeof pattern, "%s%s%" PRIu64 ".*", check->prefix, stack->name, number);
    if (check->folder->input == NULL) {
        coffer__doctor_look(check->folder->doctor, finding,
                            COFFER__DOCTOR_WORDS("coffer", "ls", check->path, "--filter", pattern));
    }
}

static void tell_layers(const config_check *check, const layer_list *stack, uint64_t wanted)
{
    char missing[160];
    size_t below = 0;
    while (below < stack->count && stack->numbers[below] < wanted) {
        below++;
    }
    if (wanted == 0 || stack->name == NULL) {
        return;
    }
    if (below < wanted) {
        put_missing(missing, sizeof missing, stack, wanted);
        coffer__doctor_add_in(check->folder, COFFER_SEVERITY_ERROR, "layers", check->name,
                              "config.json says %" PRIu64 " layers, and the weights have %" PRIu64
                              " of them; missing: %s%s%s",
                              wanted, (uint64_t)below, stack->name, missing, wanted - below > 5 ? ", ..." : "");
    }
    if (stack->count > below && stack->count - below > check->sizes.of['P']) {
        coffer__finding *finding = coffer__doctor_add_in(
            check->folder, COFFER_SEVERITY_WARNING, "layers_extra", check->name,
            "config.json says %" PRIu64 " layers, and there are %" PRIu64 " more, which loaders pass over: config.json "
            "belongs to another model, or they are too many",
            wanted, (uint64_t)(stack->count - below));
        look_at_extra(check, finding, stack, stack->numbers[below]);
    }
}

/* The stack that a rule is about; NULL: it is about none. */
static const layer_list *stack_of(const config_check *check, const coffer__doctor_rule *rule)
{
    for (size_t i = 0; i < 2; i++) {
        const layer_list *stack = &check->stacks[i];
        if (stack->name != NULL && strncmp(rule->name, stack->name, strlen(stack->name)) == 0) {
            return stack;
        }
    }
    return NULL;
}

static void tell_rule(const config_check *check, const coffer__doctor_rule *rule, const rule_seen *seen)
{
    const layer_list *stack = stack_of(check, rule);
    const uint64_t experts = check->sizes.of['E'];
    if (seen->wrong > 0) {
        tell_shape(check, rule, seen);
    }
    if (rule->in_each && stack != NULL && seen->count > 0 && seen->count < stack->count && !check->quantised) {
        coffer__doctor_add_in(check->folder, COFFER_SEVERITY_ERROR, "layer_incomplete", check->name,
                              "%" PRIu64 " of %" PRIu64 " layers lack %s%s", stack->count - seen->count,
                              (uint64_t)stack->count, check->prefix, rule->name);
    }
    if (seen->most_inner > 0 && experts > 0 && seen->most_inner != experts) {
        coffer__doctor_add_in(check->folder, COFFER_SEVERITY_ERROR, "experts", check->name,
                              "config.json says %" PRIu64 " experts, and the weights have %" PRIu64 " (%s%s)", experts,
                              seen->most_inner, check->prefix, rule->name);
    }
}

/* ---- Embeddings ---- */

/* 't' or 'f', or 0 where the configuration does not say. */
static char states_tied(const config_check *check)
{
    const coffer__json_node *node = coffer__document_member(check->config, check->root, "tie_word_embeddings");
    node = node != NULL ? node : coffer__document_member(check->config, check->scope, "tie_word_embeddings");
    return node != NULL && (node->kind == 't' || node->kind == 'f') ? node->kind : '\0';
}

/* Whether the model is one that has output embeddings, as its architecture says. */
static bool wants_head(const config_check *check)
{
    return is_architecture(check, "ForCausalLM") || is_architecture(check, "LMHeadModel") ||
           is_architecture(check, "ForConditionalGeneration");
}

/* The output embeddings, wherever the family's prefix puts them: "lm_head.weight", "language_model.lm_head.weight". */
static const coffer_tensor *find_head(const config_check *check)
{
    const size_t len = strlen(check->family->head);
    for (size_t i = 0; i < coffer_count(check->model); i++) {
        const coffer_tensor *tensor = coffer_at(check->model, i);
        const size_t before = tensor->name_len < len ? 0 : tensor->name_len - len;
        if (tensor->name_len >= len && memcmp(tensor->name + before, check->family->head, len) == 0 &&
            (before == 0 || tensor->name[before - 1] == '.')) {
            return tensor;
        }
    }
    return NULL;
}

/* Offered where config.json itself says that they are tied, and not only what is usual for the family: then whoever loads
   the model knows it. */
static void drop_head(const config_check *check, coffer__finding *finding, const coffer_tensor *head)
{
    char *pattern = coffer__doctor_pattern(check->folder->doctor, head->name, head->name_len);
    const coffer__json_node *stated = coffer__document_member(check->config, check->root, "tie_word_embeddings");
    if (pattern != NULL && pattern[0] != '-' && stated != NULL && stated->kind == 't' && check->scope == check->root &&
        coffer__doctor_owns(check->folder, check->model)) {
        coffer__doctor_fix(check->folder->doctor, finding,
                           COFFER__DOCTOR_WORDS("coffer", "drop", check->path, pattern, "--in-place"));
    }
    coffer__block_free(pattern);
}

/* Both have numbers, and the configuration says that they are one. Which of them loaders then take differs: some take the
   input embeddings for both, transformers ties them only where they are the same. */
static void tell_tied(const config_check *check, const coffer_tensor *head, const coffer_tensor *embeddings)
{
    char bytes[COFFER__DOCTOR_NUMBER];
    coffer__checkup *d = check->folder->doctor;
    const coffer__doctor_same same = coffer__doctor_compare(d, check->model, head, check->model, embeddings);
    coffer__doctor_put_bytes(bytes, head->size);
    if (same == COFFER__DOCTOR_DIFFERENT) {
        coffer__doctor_about(
            d,
            coffer__doctor_add_in(check->folder, COFFER_SEVERITY_WARNING, "tied_differ", check->name,
                                  "config.json ties the output embeddings to the input embeddings, and they are not "
                                  "the same: tie_word_embeddings is wrong, or one of the two is"),
            head->name, head->name_len);
        return;
    }
    coffer__finding *finding = coffer__doctor_add_in(
        check->folder, COFFER_SEVERITY_NOTE, "tied_twice", check->name,
        same == COFFER__DOCTOR_SAME
            ? "the output embeddings are tied to the input embeddings, and are in the file a second time, "
              "bit for bit: %s"
            : "the output embeddings are tied to the input embeddings, and are in the file as well (%s); "
              "whether the two are the same was not compared",
        bytes);
    coffer__doctor_about(d, finding, head->name, head->name_len);
    if (same == COFFER__DOCTOR_SAME) {
        coffer__doctor_by_data(finding);
        drop_head(check, finding, head);
    } else {
        coffer__doctor_look_at_data(check->folder, finding);
    }
}

/* The input embeddings of the family, under their name; NULL without them. */
static const coffer_tensor *find_embeddings(const config_check *check)
{
    char name[160];
    const int len = snprintf(name, sizeof name, "%s%s", check->prefix, check->family->rules[0].name);
    return coffer_find(check->model, name, (size_t)len);
}

static void check_tied(const config_check *check, const coffer_tensor *head)
{
    const coffer_tensor *embeddings = find_embeddings(check);
    if (embeddings != NULL) {
        tell_tied(check, head, embeddings);
        return;
    }
    coffer__doctor_about(
        check->folder->doctor,
        coffer__doctor_add_in(check->folder, COFFER_SEVERITY_NOTE, "tied_alone", check->name,
                              "the embeddings are under this name alone, and %s%s is tied to it: some loaders look for "
                              "that name only",
                              check->prefix, check->family->rules[0].name),
        head->name, head->name_len);
}

static void check_head(const config_check *check)
{
    if (check->family->head == NULL || check->quantised) {
        return;
    }
    const coffer_tensor *head = find_head(check);
    const char stated = states_tied(check);
    const bool tied = stated != '\0' ? stated == 't' : check->family->tied;
    const bool known = stated != '\0' || check->scope == check->root;
    if (head != NULL && tied) {
        check_tied(check, head);
    } else if (head == NULL && !tied && known && wants_head(check)) {
        coffer__doctor_add_in(check->folder, COFFER_SEVERITY_ERROR, "head_missing", check->name,
                              "%s is missing, and tie_word_embeddings is false: a loader makes it up at random",
                              check->family->head);
    }
    const coffer__doctor_rule *embeddings = embeddings_of(check);
    if (embeddings != NULL && check->seen[embeddings - check->family->rules].count == 0 && !(head != NULL && tied)) {
        coffer__doctor_add_in(check->folder, COFFER_SEVERITY_ERROR, "embeddings_missing", check->name,
                              "%s%s is missing", check->prefix, embeddings->name);
    }
}

/* The rows of the input embeddings; of those that are not there, or are packed, what config.json says. */
static uint64_t rows_of_embeddings(const config_check *check)
{
    char name[2 * COFFER__DOCTOR_PREFIX];
    const coffer__doctor_rule *rule = embeddings_of(check);
    if (rule == NULL || rule->shape[0] != 'V') {
        return 0;
    }
    const int len = snprintf(name, sizeof name, "%s%s", check->prefix, rule->name);
    const coffer_tensor *tensor = coffer_find(check->model, name, (size_t)len);
    return tensor != NULL && tensor->rank == 2 && has_plain_shape(tensor) ? tensor->shape[0] : check->sizes.of['V'];
}

static void check_names(const config_check *check)
{
    const coffer_tensor *head = check->family->head != NULL ? find_head(check) : NULL;
    coffer__doctor_check_spelling(check->folder, check->name, check->path, check->model, check->family, check->prefix,
                                  head);
    coffer__doctor_check_tokens(check->folder, check->config, check->root, check->scope, rows_of_embeddings(check));
}

/* ---- All of it ---- */

static void check_family(config_check *check, const char *type)
{
    if (!coffer__doctor_choose_prefix(check->family, check->model, check->prefix)) {
        coffer__doctor_add_in(
            check->folder, COFFER_SEVERITY_WARNING, "family", check->name,
            "config.json says that the model is of type %s, and no tensor is named as in such a model", type);
        return;
    }
    check->stacks[0].name = check->family->layers;
    check->stacks[1].name = check->family->decoder;
    for (size_t i = 0; i < 2; i++) {
        check->stacks[i].numbers =
            coffer__doctor_array(check->folder->doctor, coffer_count(check->model) + 1, sizeof(uint64_t));
    }
    if (!check->folder->doctor->failed) {
        for (size_t i = 0; i < coffer_count(check->model); i++) {
            look_at_tensor(check, coffer_at(check->model, i));
        }
        settle_stack(&check->stacks[0]);
        settle_stack(&check->stacks[1]);
        /* Of an encoder and a decoder each may have been saved alone. */
        if (check->stacks[0].count > 0 || !is_decoder_alone(check)) {
            tell_layers(check, &check->stacks[0], check->sizes.of['L']);
        }
        if (check->stacks[1].count > 0) {
            tell_layers(check, &check->stacks[1], check->sizes.of['X']);
        }
        for (size_t i = 0; check->family->rules[i].name != NULL; i++) {
            tell_rule(check, &check->family->rules[i], &check->seen[i]);
        }
        check_head(check);
        check_names(check);
    }
    coffer__block_free(check->stacks[0].numbers);
    coffer__block_free(check->stacks[1].numbers);
}

/* The dtype that most bytes have, of two the one that more tensors have. */
static coffer_dtype most_bytes(const coffer *model)
{
    uint64_t bytes[COFFER_DTYPE_COUNT + 1] = { 0 };
    uint64_t tensors[COFFER_DTYPE_COUNT + 1] = { 0 };
    size_t most = 0;
    for (size_t i = 0; i < coffer_count(model); i++) {
        bytes[coffer_at(model, i)->dtype] += coffer_at(model, i)->size;
        tensors[coffer_at(model, i)->dtype]++;
    }
    for (size_t i = 1; i <= COFFER_DTYPE_COUNT; i++) {
        most = bytes[i] > bytes[most] || (bytes[i] == bytes[most] && tensors[i] > tensors[most]) ? i : most;
    }
    return (coffer_dtype)most;
}

static void check_dtype(const config_check *check)
{
    static const struct {
        const char *name;
        coffer_dtype dtype;
    } dtypes[] = { { "float32", COFFER_F32 },
                   { "float16", COFFER_F16 },
                   { "bfloat16", COFFER_BF16 },
                   { "float64", COFFER_F64 },
                   { "float8_e4m3fn", COFFER_F8_E4M3 } };
    const coffer__json_node *node = coffer__document_member(check->config, check->root, "dtype");
    node = node != NULL ? node : coffer__document_member(check->config, check->root, "torch_dtype");
    node = node != NULL ? node : coffer__document_member(check->config, check->scope, "dtype");
    node = node != NULL ? node : coffer__document_member(check->config, check->scope, "torch_dtype");
    const coffer_dtype most = most_bytes(check->model);
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0] && coffer_count(check->model) > 0; i++) {
        if (coffer__document_is(check->config, node, dtypes[i].name) && most != dtypes[i].dtype) {
            coffer__finding *finding =
                coffer__doctor_add_in(check->folder, COFFER_SEVERITY_NOTE, "dtype", check->name,
                                      "config.json says %s, and most of the weights are %s: loaders convert them",
                                      dtypes[i].name, coffer_dtype_name(most));
            if (check->folder->input == NULL) {
                coffer__doctor_look(check->folder->doctor, finding,
                                    COFFER__DOCTOR_WORDS("coffer", "ls", "--dtypes", check->path));
            }
        }
    }
}

/* Against what is known of the family, and of all models. */
static void check_described(config_check *check, const char *type, bool nested)
{
    coffer__doctor_folder *folder = check->folder;
    if (type != NULL) {
        coffer__doctor_count(folder->doctor, COFFER_DOCTOR_CONFIGS, check->family != NULL, 1);
    }
    if (check->family != NULL) {
        coffer__doctor_read_sizes(folder, check->config, check->scope, type, nested, &check->sizes);
        check_family(check, type);
    } else if (type != NULL) {
        char shown[COFFER__DOCTOR_SHOWN];
        coffer__doctor_add_in(folder, COFFER_SEVERITY_NOTE, "unknown_family", "config.json",
                              "the weights were not compared with it, since models of type \"%s\" are not known here",
                              coffer__doctor_shown(shown, type, strlen(type)));
    }
    if (!check->quantised) {
        check_dtype(check);
        coffer__doctor_check_odd_dtypes(folder, check->name, check->path, check->model);
    }
    if (type != NULL) {
        coffer__doctor_check_alike(folder, check->name, check->model, !check->quantised);
        coffer__doctor_check_format(folder, check->name, check->path, check->model);
    }
}

void coffer__doctor_check_config(coffer__doctor_folder *folder, const char *name, const char *path, const coffer *model)
{
    coffer__doctor_text text;
    coffer__document config;
    const bool there = coffer__doctor_has(folder, "config.json");
    const bool wrapped = coffer__doctor_check_wrapping(folder, name, path, model, there);
    if (!there && !wrapped) {
        coffer__doctor_check_described(folder, name, model);
    }
    if (!coffer__doctor_read_json(folder, "config.json", &text, &config)) {
        return;
    }
    size_t len = 0;
    config_check check = { .folder = folder, .name = name, .path = path, .model = model, .config = &config };
    check.root = coffer__document_root(&config);
    const coffer__json_node *inner = coffer__document_member(&config, check.root, "text_config");
    const bool nested = inner != NULL && coffer__document_member(&config, check.root, "hidden_size") == NULL;
    check.scope = nested ? inner : check.root;
    folder->type = coffer__document_string(&config, coffer__document_member(&config, check.root, "model_type"), &len);
    char *type = coffer__document_string(&config, coffer__document_member(&config, check.scope, "model_type"), &len);
    check.quantised = coffer__doctor_check_quantisation(folder, name, &config, check.root, check.scope, model);
    check.family = type != NULL ? coffer__doctor_family_of(type, len) : NULL;
    if (!wrapped) {
        check_described(&check, type, nested);
    }
    coffer__block_free(type);
    coffer__document_free(&config);
    coffer__block_free(text.bytes);
}
