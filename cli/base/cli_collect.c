/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that files have: see cli_collect.h for the contract. */
#include "cli_collect.h"

#include "cli_guard.h"
#include "cli_json.h"
#include "cli_recorded.h"
#include "cli_report.h"
#include "cli_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Metadata ---- */

/* The value that a file before this one has for a key; NULL when none has it. */
static const char *earlier_value(const cli_collection *all, size_t model, size_t shard, const coffer_pair *pair,
                                 size_t *value_len)
{
    for (size_t m = 0; m <= model; m++) {
        const size_t shards = m < model ? coffer_shard_count(all->models[m]) : shard;
        for (size_t s = 0; s < shards; s++) {
            const char *value =
                coffer_table_metadata_get(coffer_shard_table(all->models[m], s), pair->key, pair->key_len, value_len);
            if (value != NULL) {
                return value;
            }
        }
    }
    return NULL;
}

static coffer_status contradiction(const coffer_pair *pair, coffer_error *err)
{
    char key[160];
    coffer_escape(pair->key, pair->key_len, key, sizeof key);
    *err = (coffer_error){ .code = COFFER_ERR_DUPLICATE_KEY, .offset = COFFER_NO_OFFSET };
    snprintf(err->message, sizeof err->message,
             "its metadata have another value for \"%s\" than an earlier file; make them agree with coffer meta --set "
             "or --unset",
             key);
    return err->code;
}

static coffer_status declare_metadata(cli_collection *all, size_t model, size_t shard, coffer_error *err)
{
    const coffer_table *table = coffer_shard_table(all->models[model], shard);
    coffer_status status = COFFER_OK;
    coffer_pair pair;
    for (size_t i = 0; status == COFFER_OK && coffer_table_metadata_at(table, i, &pair); i++) {
        if (cli_recorded_is_key(&pair)) {
            continue;
        }
        size_t value_len = 0;
        const char *value = earlier_value(all, model, shard, &pair, &value_len);
        if (value == NULL) {
            status = coffer_header_set_metadata(all->header, pair.key, pair.key_len, pair.value, pair.value_len, err);
        } else if (value_len != pair.value_len || memcmp(value, pair.value, value_len) != 0) {
            status = contradiction(&pair, err);
        }
    }
    return status;
}

/* ---- Tensors ---- */

static coffer_status declare_tensors(cli_collection *all, coffer *model, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    const size_t count = coffer_count(model);
    for (size_t i = 0; i < count && status == COFFER_OK; i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        status = coffer_header_add(all->header, tensor->name, tensor->name_len, tensor->dtype, tensor->shape,
                                   tensor->rank, err);
        all->copies[all->count] = (coffer_copy){ all->count, model, tensor };
        all->count++;
        all->bytes += tensor->size;
    }
    return status;
}

static coffer_status declare(cli_collection *all, size_t *model, coffer_error *err)
{
    coffer_status status = coffer_header_new(&all->header, coffer_libc_allocator(), err);
    for (*model = 0; status == COFFER_OK && *model < all->model_count; (*model)++) {
        const size_t shards = coffer_shard_count(all->models[*model]);
        for (size_t s = 0; s < shards && status == COFFER_OK; s++) {
            status = declare_metadata(all, *model, s, err);
        }
        if (status == COFFER_OK) {
            status = declare_tensors(all, all->models[*model], err);
        }
        if (status != COFFER_OK) {
            return status;
        }
    }
    return status;
}

/* ---- The whole ---- */

int cli_collect(cli_collection *all, cli *app, const cli_arguments *arguments)
{
    const char *const *paths = arguments->names;
    const size_t path_count = arguments->name_count;
    int code = CLI_EXIT_OK;
    size_t count = 0;
    *all = (cli_collection){ .models = calloc(path_count + 1, sizeof(coffer *)), .started = cli_seconds() };
    if (all->models == NULL) {
        return cli_fail_memory(app, paths[0]);
    }
    for (size_t i = 0; i < path_count; i++) {
        all->models[i] = cli_recorded_open(app, paths[i], &code);
        if (all->models[i] == NULL) {
            return code;
        }
        all->model_count++;
        if (all->digests == COFFER_NO_ALGORITHM) {
            all->digests = cli_recorded_wanted(arguments, all->models[i]);
        }
        count += coffer_count(all->models[i]);
    }
    all->copies = malloc((count + 1) * sizeof *all->copies);
    if (all->copies == NULL) {
        return cli_fail_memory(app, paths[0]);
    }
    coffer_error err;
    size_t failed = 0;
    return declare(all, &failed, &err) == COFFER_OK ? CLI_EXIT_OK : cli_fail(app, paths[failed], &err);
}

int cli_collect_guard(const cli_collection *all, cli *app, const cli_arguments *arguments, const char *output)
{
    int code = CLI_EXIT_OK;
    for (size_t i = 0; i < all->model_count && code == CLI_EXIT_OK; i++) {
        code = cli_guard_model(app, output, arguments->names[i], all->models[i]);
    }
    return code;
}

/* ---- One name twice ---- */

static int by_name(const void *a, const void *b)
{
    const coffer_copy *x = *(const coffer_copy *const *)a;
    const coffer_copy *y = *(const coffer_copy *const *)b;
    const size_t x_len = x->tensor->name_len;
    const size_t y_len = y->tensor->name_len;
    const int order = memcmp(x->tensor->name, y->tensor->name, x_len < y_len ? x_len : y_len);
    return order != 0 ? order : x_len != y_len ? (x_len > y_len) - (x_len < y_len) : x->to < y->to ? -1 : x->to > y->to;
}

/* The name under which the model of a tensor was given. */
static const char *input_of(const cli_collection *all, const cli_arguments *arguments, const coffer_copy *copy)
{
    size_t i = 0;
    while (all->models[i] != copy->model) {
        i++;
    }
    return arguments->names[i];
}

/* The first two tensors of one name, as they were given. */
static bool find_twins(const cli_collection *all, const coffer_copy *twins[2])
{
    const coffer_copy **order = malloc((all->count + 1) * sizeof(const coffer_copy *));
    bool found = false;
    for (size_t i = 0; order != NULL && i < all->count; i++) {
        order[i] = &all->copies[i];
    }
    if (order != NULL && all->count > 0) {
        qsort(order, all->count, sizeof(const coffer_copy *), by_name);
    }
    for (size_t i = 1; order != NULL && i < all->count; i++) {
        const coffer_tensor *a = order[i - 1]->tensor;
        const coffer_tensor *b = order[i]->tensor;
        const bool same = a->name_len == b->name_len && memcmp(a->name, b->name, a->name_len) == 0;
        if (same && (!found || order[i]->to < twins[1]->to)) {
            twins[0] = order[i - 1];
            twins[1] = order[i];
            found = true;
        }
    }
    free(order);
    return found;
}

int cli_collect_fail(const cli_collection *all, cli *app, const cli_arguments *arguments, coffer_error *err)
{
    const coffer_copy *twins[2] = { NULL, NULL };
    if (err->code != COFFER_ERR_DUPLICATE_NAME || !find_twins(all, twins)) {
        return cli_fail(app, err->path[0] != '\0' ? err->path : arguments->names[0], err);
    }
    char name[sizeof err->tensor];
    char first[129];
    const coffer_tensor *tensor = twins[1]->tensor;
    const char *other = input_of(all, arguments, twins[0]);
    coffer_escape(tensor->name, cli_cut_at_character(tensor->name, tensor->name_len, 40), name, sizeof name);
    coffer_escape(other, cli_cut_at_character(other, strlen(other), 128), first, sizeof first);
    snprintf(err->message, sizeof err->message, "the tensor \"%s\" is in %s too; rename one of them, or drop one", name,
             first);
    memcpy(err->tensor, name, sizeof name);
    err->offset = COFFER_NO_OFFSET;
    err->path[0] = '\0';
    return cli_fail(app, input_of(all, arguments, twins[1]), err);
}

/* ---- The end ---- */

void cli_collection_free(cli_collection *all)
{
    coffer_header_free(all->header);
    for (size_t i = 0; i < all->model_count; i++) {
        coffer_close(all->models[i]);
    }
    free(all->models);
    free(all->copies);
}

coffer_read_options cli_collect_progress(const cli_collection *all, cli *app, cli_progress *progress,
                                         cli_progress_part *part)
{
    coffer_read_options options = COFFER_READ_OPTIONS_INIT;
    cli_progress_begin(progress, app, "writing", all->bytes);
    *part = (cli_progress_part){ progress, 0 };
    options.progress = cli_progress_call;
    options.progress_ctx = part;
    return options;
}

/* ---- Telling ---- */

void cli_collect_done(const cli_collection *all, cli *app, const char *output, size_t file_count, bool dry_run)
{
    char files[2 * CLI_NUMBER_SIZE] = "";
    char tensors[CLI_NUMBER_SIZE];
    char bytes[CLI_NUMBER_SIZE];
    char took[CLI_NUMBER_SIZE];
    if (file_count > 1) {
        snprintf(files, sizeof files, "%zu files, ", file_count);
    }
    cli_number_text(tensors, all->count, true);
    cli_bytes_text(bytes, all->bytes);
    cli_duration_text(took, cli_seconds() - all->started);
    cli_remark_path(app, output != NULL ? output : "the new file", "%s: %s%s tensor%s, %s (%s)",
                    dry_run ? "would be written" : "written", files, tensors, all->count == 1 ? "" : "s", bytes, took);
}

void cli_json_collect_done(const cli_collection *all, cli *app, const char *output, bool dry_run)
{
    cli_output *out = &app->out;
    cli_json_text_or_null(out, "output", output, output != NULL ? strlen(output) : 0);
    cli_json_put_string(out, "done", dry_run ? "dry_run" : "written");
    cli_json_key(out, "tensors");
    cli_json_number(out, all->count);
    cli_json_key(out, "size");
    cli_json_number(out, all->bytes);
    cli_json_seconds(out, cli_seconds() - all->started);
}
