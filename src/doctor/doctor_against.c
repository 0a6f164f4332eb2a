/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model against another one: a base that it was trained from, or the same model elsewhere. Tensors are matched by name, as
 * coffer diff does; of the numbers only whether they are the same is asked. Of config.json only the keys count that change
 * what weights are or mean.
 */
#include "checkup.h"
#include "doctor_sizes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_SIZE 80 /* of a value of config.json as it is shown */
#define NUMBER_MAX 64

/* One of the two, and what lies beside it. */
typedef struct against_side {
    const coffer *model;
    char *path;                   /* as it goes into commands */
    char *parent;                 /* the folder of the model's first file */
    coffer__doctor_folder folder; /* the same, to read its small files */
    coffer__doctor_text text;     /* of config.json */
    coffer__document config;
    const coffer__json_node *root; /* NULL: there is none */
} against_side;

typedef struct against {
    coffer__checkup *d;
    against_side here;
    against_side there;
    char other[COFFER__DOCTOR_SHOWN]; /* what the other is called */
    bool local;                       /* both are, so that commands can name files beside them */
    bool alike; /* both have the same tensors by name, dtype and shape: files beside them fit both */
} against;

/* ---- Sides ---- */

/* What is wrong with the files of PATH was told before. */
static void open_side(against_side *side, coffer__checkup *d, const coffer *model, const char *path)
{
    coffer_error err;
    const char *file = coffer_shard_path(model, 0);
    const char *slash = coffer__doctor_last_slash(file);
    const coffer_open_options opening = coffer__doctor_open_options(d, false);
    const coffer__doctor_folder named = { .doctor = d, .path = path };
    side->model = model;
    side->path = coffer__doctor_path(&named, "");
    side->parent = slash != NULL ? coffer__doctor_copy_part(d, file, slash > file ? (size_t)(slash - file) : 1)
                                 : coffer__doctor_copy(d, ".");
    side->folder = (coffer__doctor_folder){ .doctor = d, .path = side->parent, .reported = path == d->path };
    side->folder.name = side->folder.reported ? "" : side->parent;
    if (coffer_input_open(&side->folder.input, file, &opening, &err) != COFFER_OK) {
        (void)coffer__doctor_add_failure(d, "unreadable", "", &err);
    } else if (coffer__doctor_read_json(&side->folder, "config.json", &side->text, &side->config)) {
        side->root = coffer__document_root(&side->config);
    }
}

static void close_side(const against_side *side)
{
    coffer__document config = side->config;
    coffer__document_free(&config);
    coffer_input_free(side->folder.input);
    coffer__block_free(side->text.bytes);
    coffer__block_free(side->parent);
    coffer__block_free(side->path);
}

/* In the object that has the sizes of a model for images and text, if the outermost one has it not; null is none. */
static const coffer__json_node *value_of(const against_side *side, const char *key)
{
    const coffer__json_node *inner = coffer__document_member(&side->config, side->root, "text_config");
    const coffer__json_node *node = coffer__document_member(&side->config, side->root, key);
    node = node != NULL ? node : coffer__document_member(&side->config, inner, key);
    return node != NULL && node->kind != 'n' ? node : NULL;
}

/* ---- Tensors ---- */

/* What shows more: of the headers alone, or of the numbers. */
static void about_tensor(const against *both, coffer__finding *finding, const coffer_tensor *tensor, bool numbers)
{
    char *pattern = finding != NULL ? coffer__doctor_pattern(both->d, tensor->name, tensor->name_len) : NULL;
    coffer__doctor_about(both->d, finding, tensor->name, tensor->name_len);
    if (pattern != NULL && pattern[0] != '-' && both->here.path != NULL && both->there.path != NULL) {
        coffer__doctor_look(both->d, finding,
                            COFFER__DOCTOR_WORDS("coffer", "diff", both->there.path, both->here.path, "--filter",
                                                 pattern, numbers ? NULL : "--header"));
    }
    coffer__block_free(pattern);
}

/* Whether a tensor that only one of the two has is an output embedding that loaders take from the input embeddings. */
static bool is_tied(const against *both, const coffer_tensor *tensor)
{
    static const char head[] = "lm_head.weight";
    const coffer__json_node *tied = value_of(&both->here, "tie_word_embeddings");
    const size_t len = sizeof head - 1;
    return tied != NULL && tied->kind == 't' && tensor->name_len >= len &&
           memcmp(tensor->name + tensor->name_len - len, head, len) == 0;
}

static void tell_alone(const against *both, const coffer_tensor *tensor, bool missing)
{
    const bool tied = is_tied(both, tensor);
    const coffer_severity weight = tied      ? COFFER_SEVERITY_NOTE
                                   : missing ? COFFER_SEVERITY_ERROR
                                             : COFFER_SEVERITY_WARNING;
    coffer__finding *finding =
        coffer__doctor_add(both->d, weight, missing ? "against_missing" : "against_extra", "", "%s%s%s", both->other,
                           missing ? " has this tensor, and it is missing here" : " has no such tensor",
                           tied ? "; it is tied to the input embeddings, so loaders do not need it" : "");
    about_tensor(both, finding, tensor, false);
}

static void compare_pair(const against *both, const coffer_tensor *here, const coffer_tensor *there)
{
    char shapes[2][COFFER__DOCTOR_SHAPE];
    coffer__finding *finding = NULL;
    if (!coffer__doctor_same_shape(here, there)) {
        coffer__doctor_put_shape(shapes[0], here);
        coffer__doctor_put_shape(shapes[1], there);
        finding = coffer__doctor_add(both->d, COFFER_SEVERITY_ERROR, "against_shape", "",
                                     "the shape is %s, and %s in %s", shapes[0], shapes[1], both->other);
    } else if (here->dtype != there->dtype) {
        finding =
            coffer__doctor_add(both->d, COFFER_SEVERITY_WARNING, "against_dtype", "", "the dtype is %s, and %s in %s",
                               coffer_dtype_name(here->dtype), coffer_dtype_name(there->dtype), both->other);
    }
    about_tensor(both, finding, here, false);
}

static void compare_tensors(const against *both)
{
    for (size_t i = 0; i < coffer_count(both->there.model); i++) {
        const coffer_tensor *there = coffer_at(both->there.model, i);
        const coffer_tensor *here = coffer_find(both->here.model, there->name, there->name_len);
        if (here != NULL) {
            compare_pair(both, here, there);
        } else {
            tell_alone(both, there, true);
        }
    }
    for (size_t i = 0; i < coffer_count(both->here.model); i++) {
        const coffer_tensor *here = coffer_at(both->here.model, i);
        if (coffer_find(both->there.model, here->name, here->name_len) == NULL) {
            tell_alone(both, here, false);
        }
    }
}

/* ---- Their bytes ---- */

/* The tensors that both have in common, side by side. */
typedef struct common_tensors {
    const coffer_tensor **here;
    const coffer_tensor **there;
    coffer_digest *digests[2];
    size_t count;
    uint64_t size; /* of one side, in bytes */
} common_tensors;

static void free_common(const common_tensors *pairs)
{
    coffer__block_free(pairs->here);
    coffer__block_free(pairs->there);
    coffer__block_free(pairs->digests[0]);
    coffer__block_free(pairs->digests[1]);
}

static bool find_common(const against *both, common_tensors *pairs)
{
    const size_t most = coffer_count(both->here.model) + 1;
    pairs->here = coffer__doctor_array(both->d, most, sizeof(const coffer_tensor *));
    pairs->there = coffer__doctor_array(both->d, most, sizeof(const coffer_tensor *));
    pairs->digests[0] = coffer__doctor_array(both->d, most, sizeof *pairs->digests[0]);
    pairs->digests[1] = coffer__doctor_array(both->d, most, sizeof *pairs->digests[1]);
    if (pairs->here == NULL || pairs->there == NULL || pairs->digests[0] == NULL || pairs->digests[1] == NULL) {
        return false;
    }
    for (size_t i = 0; i + 1 < most; i++) {
        const coffer_tensor *here = coffer_at(both->here.model, i);
        const coffer_tensor *there = coffer_find(both->there.model, here->name, here->name_len);
        if (there != NULL && here->dtype == there->dtype && coffer__doctor_same_shape(here, there)) {
            pairs->here[pairs->count] = here;
            pairs->there[pairs->count++] = there;
            pairs->size += here->size;
        }
    }
    return true;
}

/* One side after the other, each with all threads: two disks are rarely the same. */
static coffer_status digest_common(const against *both, common_tensors *pairs, coffer_error *err)
{
    coffer_digest_options options = COFFER_DIGEST_OPTIONS_INIT;
    options.progress = both->d->options.progress;
    options.progress_ctx = both->d->options.progress_ctx;
    coffer__doctor_begin_step(both->d, "comparing", pairs->size);
    coffer_status status = coffer_digest_tensors(both->here.model, pairs->here, pairs->count, COFFER_SHA256,
                                                 pairs->digests[0], &options, err);
    if (status == COFFER_OK) {
        coffer__doctor_begin_step(both->d, "comparing", pairs->size);
        status = coffer_digest_tensors(both->there.model, pairs->there, pairs->count, COFFER_SHA256, pairs->digests[1],
                                       &options, err);
    }
    return status;
}

static void compare_with_bytes(const against *both)
{
    coffer_error err;
    common_tensors pairs = { .count = 0 };
    const bool found = find_common(both, &pairs);
    const coffer_status status = found ? digest_common(both, &pairs, &err) : COFFER_ERR_MEMORY;
    for (size_t i = 0; i < pairs.count && status == COFFER_OK; i++) {
        if (memcmp(pairs.digests[0][i].data, pairs.digests[1][i].data, coffer_algorithm_digest_size(COFFER_SHA256)) !=
            0) {
            coffer__finding *finding = coffer__doctor_add(both->d, COFFER_SEVERITY_WARNING, "against_data", "",
                                                          "the numbers are not those of %s", both->other);
            about_tensor(both, finding, pairs.here[i], true);
        }
    }
    if (found && status != COFFER_OK && status != COFFER_ERR_CANCELLED) {
        (void)coffer__doctor_add_failure(both->d, "unreadable", "", &err);
    }
    free_common(&pairs);
}

/* Whether both are single files that record digests by one algorithm, and not the same. */
static bool records_differ(const coffer *here, const coffer *there)
{
    size_t here_len = 0;
    size_t there_len = 0;
    const size_t key_len = strlen(COFFER_DIGESTS_KEY);
    const char *one = coffer_table_metadata_get(coffer_shard_table(here, 0), COFFER_DIGESTS_KEY, key_len, &here_len);
    const char *other =
        coffer_table_metadata_get(coffer_shard_table(there, 0), COFFER_DIGESTS_KEY, key_len, &there_len);
    return one != NULL && other != NULL && coffer_shard_count(here) == 1 && coffer_shard_count(there) == 1 &&
           coffer_recorded_algorithm(here, 0) == coffer_recorded_algorithm(there, 0) &&
           (here_len != there_len || memcmp(one, other, here_len) != 0);
}

/* Without `data` nothing is read, so that what the files record of their tensors has to do. */
static void compare_records(const against *both)
{
    if (records_differ(both->here.model, both->there.model)) {
        coffer__doctor_add(both->d, COFFER_SEVERITY_WARNING, "against_data", "",
                           "the recorded digests say that the tensors are not those of %s: --data says which",
                           both->other);
    }
}

/* ---- config.json ---- */

/* What changes the meaning of weights, beside their sizes. */
static const char MEANINGS[] = "architectures model_type tie_word_embeddings rope_theta rope_scaling rope_parameters "
                               "partial_rotary_factor sliding_window hidden_act quantization_config";

/* A number as its digits, without zeros at either end, and the power of ten of the last one: 0.50 and 5e-1 are 5 and -1. The
   C library's numbers would depend on the program's locale. */
typedef struct decimal {
    char digits[NUMBER_MAX];
    size_t count;
    int64_t power;
    bool negative;
} decimal;

/* The exponent at the end of a number; beyond any that a program has, it stays where it is. */
static int64_t exponent_of(const char *text, size_t len)
{
    int64_t value = 0;
    const bool sign = len > 0 && (text[0] == '-' || text[0] == '+');
    for (size_t i = sign; i < len; i++) {
        value = value < 1000000 ? 10 * value + (text[i] - '0') : value;
    }
    return sign && text[0] == '-' ? -value : value;
}

static decimal number_of(const coffer__document *config, const coffer__json_node *node)
{
    const char *text = config->text + node->at;
    decimal number = { .negative = text[0] == '-' };
    bool fraction = false;
    for (size_t i = number.negative; i < node->len; i++) {
        if (text[i] == 'e' || text[i] == 'E') {
            number.power += exponent_of(text + i + 1, node->len - i - 1);
            break;
        }
        if (text[i] == '.') {
            fraction = true;
            continue;
        }
        number.power -= fraction;
        if (text[i] != '0' || number.count > 0) {
            number.digits[number.count++] = text[i];
        }
    }
    while (number.count > 0 && number.digits[number.count - 1] == '0') {
        number.count--;
        number.power++;
    }
    return number.count > 0 ? number : (decimal){ .count = 0 };
}

static bool same_number(const decimal *a, const decimal *b)
{
    return a->negative == b->negative && a->power == b->power && a->count == b->count &&
           memcmp(a->digits, b->digits, a->count) == 0;
}

static bool is_number(const coffer__document *config, const coffer__json_node *node)
{
    const char last = node->len > 0 ? config->text[node->at + node->len - 1] : '\0';
    return node->kind == '\0' && node->len < NUMBER_MAX && last >= '0' && last <= '9';
}

/* Without what is within them. */
static bool same_node(const against *both, const coffer__json_node *a, const coffer__json_node *b)
{
    const coffer__document *here = &both->here.config;
    const coffer__document *there = &both->there.config;
    if (is_number(here, a) && is_number(there, b)) {
        const decimal one = number_of(here, a);
        const decimal other = number_of(there, b);
        return same_number(&one, &other);
    }
    return a->kind == b->kind && a->len == b->len && memcmp(here->text + a->at, there->text + b->at, a->len) == 0;
}

/* Members in another order are another value: programs write them sorted. */
static bool same_value(const against *both, const coffer__json_node *a, const coffer__json_node *b)
{
    const coffer__document *here = &both->here.config;
    const coffer__document *there = &both->there.config;
    const size_t count = a->next - (size_t)(a - here->nodes);
    bool same = count == b->next - (size_t)(b - there->nodes) && same_node(both, a, b);
    for (size_t i = 1; i < count && same; i++) {
        same = same_node(both, a + i, b + i) && a[i].key_len == b[i].key_len &&
               memcmp(here->text + a[i].key, there->text + b[i].key, a[i].key_len) == 0;
    }
    return same;
}

/* As it is in the file; of a list the first value that is none. */
static const char *show_value(char shown[VALUE_SIZE], const against_side *side, const coffer__json_node *node)
{
    while (node != NULL && node->kind == '[') {
        node = coffer__document_first(&side->config, node);
    }
    if (node == NULL || node->kind == '{') {
        return node == NULL ? "an empty list" : "an object";
    }
    coffer_escape(side->config.text + node->at, node->len, shown, VALUE_SIZE);
    return shown;
}

static void look_at_files(const against *both, coffer__finding *finding, const char *name)
{
    char *here = coffer__doctor_path(&both->here.folder, name);
    char *there = coffer__doctor_path(&both->there.folder, name);
    if (both->local && here != NULL && there != NULL) {
        coffer__doctor_look(both->d, finding, COFFER__DOCTOR_WORDS("diff", there, here));
    }
    coffer__block_free(here);
    coffer__block_free(there);
}

static coffer__finding *add_key(const against *both, const char *key, const coffer__json_node *here,
                                const coffer__json_node *there)
{
    char values[2][VALUE_SIZE];
    const char *now = here != NULL ? show_value(values[0], &both->here, here) : "";
    const char *other = there != NULL ? show_value(values[1], &both->there, there) : "";
    if (here == NULL) {
        return coffer__doctor_add(both->d, COFFER_SEVERITY_WARNING, "against_config", "config.json",
                                  "%s is not stated, and is %s in %s", key, other, both->other);
    }
    if (there == NULL) {
        return coffer__doctor_add(both->d, COFFER_SEVERITY_WARNING, "against_config", "config.json",
                                  "%s is %s, and not stated in %s", key, now, both->other);
    }
    if (strcmp(now, other) == 0) {
        return coffer__doctor_add(both->d, COFFER_SEVERITY_ERROR, "against_config", "config.json",
                                  "%s is not that of %s", key, both->other);
    }
    return coffer__doctor_add(both->d, COFFER_SEVERITY_ERROR, "against_config", "config.json", "%s is %s, and %s in %s",
                              key, now, other, both->other);
}

static void compare_key(const against *both, const char *key)
{
    const coffer__json_node *here = value_of(&both->here, key);
    const coffer__json_node *there = value_of(&both->there, key);
    const bool same = here == NULL || there == NULL ? here == NULL && there == NULL : same_value(both, here, there);
    if (!same) {
        look_at_files(both, add_key(both, key, here, there), "config.json");
    }
}

static void compare_keys(const against *both, const char *keys)
{
    char key[64];
    for (size_t len = 0; *keys != '\0'; keys += len + strspn(keys + len, " ")) {
        len = strcspn(keys, " ");
        snprintf(key, sizeof key, "%.*s", (int)len, keys);
        compare_key(both, key);
    }
}

static void compare_configs(const against *both)
{
    if (both->here.root == NULL || both->there.root == NULL) {
        return;
    }
    compare_keys(both, MEANINGS);
    for (size_t i = 0; coffer__doctor_size_keys(i) != NULL; i++) {
        compare_keys(both, coffer__doctor_size_keys(i));
    }
}

/* ---- Files ---- */

static void tell_file(const against *both, coffer_severity weight, const char *name)
{
    char *here = coffer__doctor_path(&both->here.folder, name);
    char *there = coffer__doctor_path(&both->there.folder, name);
    coffer__finding *finding = coffer__doctor_add(both->d, weight, "against_file", name,
                                                  "%s has this file, and it is missing here", both->other);
    if (both->local && both->alike && here != NULL && there != NULL) {
        coffer__doctor_fix(both->d, finding, COFFER__DOCTOR_WORDS("cp", "-n", there, here));
    }
    coffer__block_free(here);
    coffer__block_free(there);
}

static void compare_file_beside(const against *both, coffer_severity weight, const char *name)
{
    coffer__doctor_text here = { .size = 0 };
    coffer__doctor_text there = { .size = 0 };
    const bool is_here = coffer__doctor_has(&both->here.folder, name);
    if (!coffer__doctor_has(&both->there.folder, name)) {
        return; /* more than the other has is no disagreement */
    }
    if (!is_here) {
        tell_file(both, weight, name);
    } else if (coffer__doctor_read(&both->here.folder, name, COFFER__DOCTOR_JSON_MAX, &here) &&
               coffer__doctor_read(&both->there.folder, name, COFFER__DOCTOR_JSON_MAX, &there) &&
               (here.size != there.size || memcmp(here.bytes, there.bytes, here.size) != 0)) {
        look_at_files(
            both, coffer__doctor_add(both->d, weight, "against_file", name, "the file is not that of %s", both->other),
            name);
    }
    coffer__block_free(here.bytes);
    coffer__block_free(there.bytes);
}

/* With another vocabulary, words stand for other rows of the embeddings; settings only change how a model is used. */
static void compare_files(const against *both)
{
    static const char *const vocabularies[] = {
        "tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "tekken.json",
        "vocab.json",     "vocab.txt",       "merges.txt",   "added_tokens.json"
    };
    static const char *const settings[] = { "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja" };
    if (both->here.folder.input == NULL || both->there.folder.input == NULL) {
        return;
    }
    if (both->there.root != NULL && both->here.root == NULL && !coffer__doctor_has(&both->here.folder, "config.json")) {
        tell_file(both, COFFER_SEVERITY_WARNING, "config.json");
    }
    for (size_t i = 0; i < sizeof vocabularies / sizeof vocabularies[0]; i++) {
        compare_file_beside(both, COFFER_SEVERITY_WARNING, vocabularies[i]);
    }
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        compare_file_beside(both, COFFER_SEVERITY_NOTE, settings[i]);
    }
}

/* ---- All of it ---- */

static void compare(coffer__checkup *d, const coffer *model, const coffer *other)
{
    against both = { .d = d };
    both.local = strstr(d->path, "://") == NULL && strstr(d->against, "://") == NULL;
    coffer__doctor_shown(both.other, d->against, strlen(d->against));
    open_side(&both.here, d, model, d->path);
    open_side(&both.there, d, other, d->against);
    if (!d->failed) {
        const uint64_t before = d->totals[COFFER_SEVERITY_ERROR] + d->totals[COFFER_SEVERITY_WARNING];
        compare_tensors(&both);
        both.alike = before == d->totals[COFFER_SEVERITY_ERROR] + d->totals[COFFER_SEVERITY_WARNING];
        compare_configs(&both);
        compare_files(&both);
    }
    if (!d->failed && !coffer__doctor_stopped(d)) {
        (d->data ? compare_with_bytes : compare_records)(&both);
    }
    close_side(&both.here);
    close_side(&both.there);
}

void coffer__doctor_check_against(coffer__checkup *d, const coffer *other)
{
    coffer_error err;
    coffer *model = NULL;
    if (d->foreign != NULL) {
        compare(d, d->foreign, other);
    } else if (coffer__doctor_open(d, &model, d->path, false, &err) == COFFER_OK) {
        compare(d, model, other);
    } else if (err.code != COFFER_ERR_CANCELLED) {
        coffer__doctor_add(d, COFFER_SEVERITY_ERROR, "against_nothing", "", "there is no model to compare: %s",
                           err.message);
    }
    coffer_close(model);
}
