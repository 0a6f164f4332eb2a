/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of a rewrite: what coffer/rewrite.h promises before a byte is written. The parts of a rewrite are in
 * rewriting.h.
 *
 * The order of things: where the new files go, and whether they may; what the rules make of each tensor, which is
 * declared at once; two tensors of one name; which file each goes to; the header of each file, built by whoever builds
 * every header. What follows from the headers alone is found here, so that running a plan can fail only of what devices
 * and other programs do.
 */
#include "alloc.h"
#include "checked.h"
#include "declared.h"
#include "edit.h"
#include "error.h"
#include "model.h"
#include "options.h"
#include "os.h"
#include "rewriting.h"
#include "saved.h"
#include "sort.h"
#include "text.h"
#include "trouble.h"

#include <string.h>

#define REWRITE_LEAST_ALIGNMENT 8
#define REWRITE_MOST_ALIGNMENT 4096 /* that is worth keeping: a page */

/* ---- free -------------------------------------------------------------------------------------------------------- */

static void rewrite_free_files(const coffer_rewrite *rewrite)
{
    for (size_t i = 0; rewrite->headers != NULL && i < rewrite->shards.count; i++) {
        coffer_header_free(rewrite->headers[i]);
    }
    coffer__free_array(&rewrite->allocator, rewrite->headers, rewrite->shards.count, sizeof(coffer_header *));
}

void coffer_rewrite_free(coffer_rewrite *rewrite)
{
    if (rewrite == NULL) {
        return;
    }
    const coffer_allocator allocator = rewrite->allocator;
    const size_t count = rewrite->count;
    rewrite_free_files(rewrite);
    if (rewrite->shards.count > 0) {
        coffer__shards_free(&rewrite->shards);
    }
    coffer_header_free(rewrite->header);
    coffer__index_members_free(&rewrite->members);
    coffer__free_array(&allocator, rewrite->shard_of, count, sizeof *rewrite->shard_of);
    coffer__free_array(&allocator, rewrite->sources, count, sizeof *rewrite->sources);
    coffer__free_array(&allocator, rewrite->places, count, sizeof *rewrite->places);
    coffer__free_array(&allocator, rewrite->changes, count, sizeof *rewrite->changes);
    if (rewrite->lock >= 0) {
        (void)coffer__os_close(rewrite->lock);
    }
    coffer__free(&allocator, rewrite, sizeof *rewrite);
}

static coffer_status rewrite_no_memory(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to plan the rewriting of a model");
}

/* ---- where the new files go -------------------------------------------------------------------------------------- */

static coffer_status rewrite_no_place(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                        "the model was not opened by the path of a file, a folder or an index on this system, so it "
                        "cannot be rewritten "
                        "in its place: name another one (output; -o on the command line)");
}

/* A single file: what a link leads to, and locked. */
static coffer_status rewrite_hold_file(coffer_rewrite *rewrite, coffer_error *err)
{
    coffer__os_info info;
    const coffer__shard *shard = rewrite->model->shards;
    const bool follow = rewrite->options.follow_links;
    if (shard->path == NULL || coffer__source_seen(&shard->source) == NULL) {
        return rewrite_no_place(err);
    }
    coffer_status status = coffer__edit_resolve(shard->path, follow, &rewrite->target, err);
    if (status != COFFER_OK) {
        return status;
    }
    const int os_error = coffer__os_open(rewrite->target.text, COFFER__OS_READ, false, &rewrite->lock);
    if (os_error != 0) {
        return coffer__trouble(err, "open the file to lock it", NULL, os_error);
    }
    status = coffer__edit_lock(rewrite->lock, &rewrite->target, &info, err);
    return status == COFFER_OK && info.links > 1 && !follow ? coffer__edit_linked(true, err) : status;
}

/* One of several files has to be a file itself: where a link leads to, others may have it under other names. */
static coffer_status rewrite_check_plain(const char *path, bool follow, coffer__os_info *info, coffer_error *err)
{
    const int os_error = coffer__os_inspect(path, false, info);
    if (os_error != 0) {
        return coffer__trouble(err, "look at a file of the model", path, os_error);
    }
    if (info->kind == COFFER__OS_REGULAR && info->links > 1 && !follow) {
        coffer__edit_linked(true, err);
        return coffer__fail_path(err, COFFER_ERR_LINKED, path);
    }
    if (info->kind != COFFER__OS_LINK) {
        return COFFER_OK;
    }
    coffer__fail(err, COFFER_ERR_LINKED,
                 "this file of the model is a symbolic link, and several files are never replaced through links: name "
                 "another place for the new model (output; -o on the command line)");
    return coffer__fail_path(err, COFFER_ERR_LINKED, path);
}

/* Several files: the name that they would have as one, from the name of their index. */
static coffer_status rewrite_hold_model(coffer_rewrite *rewrite, coffer_error *err)
{
    static const char ending[] = ".index.json";
    const coffer *model = rewrite->model;
    const char *index = model->several->index_path;
    const bool follow = rewrite->options.follow_links;
    coffer__os_info info;
    coffer__path file;
    if (model->web != NULL || index == NULL || !coffer__path_copy(&rewrite->target, index)) {
        return rewrite_no_place(err);
    }
    if (model->shard_count != model->several->file_count) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                            "only %u of the %u files of the model are open, and the others would be lost: open all of "
                            "them, or name another place for the new model (output)",
                            (uint64_t)model->shard_count, (uint64_t)model->several->file_count);
    }
    const size_t len = coffer__text_len(index);
    rewrite->target.text[len < sizeof ending ? 0 : len - (sizeof ending - 1)] = '\0';
    if (!coffer__saved_index_name(&file, rewrite->target.text, "") || strcmp(file.text, index) != 0 ||
        !coffer__shards_path_fits(rewrite->target.text)) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                            "the model's index is not named NAME.safetensors.index.json, so it cannot be rewritten in "
                            "its place: name another one (output; -o on the command line)");
    }
    coffer_status status = rewrite_check_plain(index, follow, &rewrite->index_seen, err);
    for (size_t i = 0; i < model->shard_count && status == COFFER_OK; i++) {
        status = rewrite_check_plain(model->shards[i].path, follow, &info, err);
    }
    return status;
}

static coffer_status rewrite_choose_target(coffer_rewrite *rewrite, coffer_error *err)
{
    const char *output = rewrite->options.output;
    if (output == NULL) {
        return rewrite->model->several == NULL ? rewrite_hold_file(rewrite, err) : rewrite_hold_model(rewrite, err);
    }
    return coffer__path_copy(&rewrite->target, output)
               ? COFFER_OK
               : coffer__fail(err, COFFER_ERR_ARGUMENT, "the path of the new file is too long");
}

/* ---- how the new files are laid out ------------------------------------------------------------------------------ */

/* The alignment that the data have in every file, as far as it is worth keeping. */
static uint64_t rewrite_alignment(const coffer *model)
{
    uint64_t alignment = REWRITE_MOST_ALIGNMENT;
    for (size_t i = 0; i < model->shard_count; i++) {
        while (alignment > REWRITE_LEAST_ALIGNMENT &&
               coffer_table_data_offset(model->shards[i].table) % alignment != 0) {
            alignment /= 2;
        }
    }
    return alignment;
}

/* The room for edits that every file has. Less than an alignment is only padding, which nobody has reserved. */
static uint64_t rewrite_slack(const coffer *model, uint64_t alignment)
{
    uint64_t slack = UINT64_MAX;
    for (size_t i = 0; i < model->shard_count; i++) {
        const uint64_t found = coffer_table_slack(model->shards[i].table);
        slack = found < slack ? found : slack;
    }
    return slack >= alignment ? slack : 0;
}

static bool rewrite_is_edited(const coffer_rewrite_options *options, const char *key, const coffer_edit **found)
{
    return coffer__edit_names(options->edits, options->edit_count, key, strlen(key), found);
}

/* Whether an edit says what becomes of a member of the index's metadata. */
static bool rewrite_is_edited_member(const void *ctx, const char *key, size_t key_len)
{
    const coffer_rewrite_options *options = ctx;
    const coffer_edit *edit = NULL;
    return coffer__edit_names(options->edits, options->edit_count, key, key_len, &edit);
}

/* What the model records is recorded again, unless the edits take it away or the options say otherwise. */
static coffer_algorithm rewrite_algorithm(const coffer_rewrite *rewrite)
{
    const coffer_edit *edit = NULL;
    coffer_algorithm found = rewrite->options.digests;
    if (found != COFFER_NO_ALGORITHM || rewrite_is_edited(&rewrite->options, COFFER_DIGESTS_KEY, &edit)) {
        return found;
    }
    for (size_t i = 0; i < rewrite->model->shard_count && found == COFFER_NO_ALGORITHM; i++) {
        found = coffer_recorded_algorithm(rewrite->model, i);
    }
    return found;
}

static void rewrite_lay_out(coffer_rewrite *rewrite)
{
    const coffer *model = rewrite->model;
    const coffer_rewrite_options *options = &rewrite->options;
    coffer_header_options *layout = &rewrite->layout;
    *layout = (coffer_header_options)COFFER_HEADER_OPTIONS_INIT;
    layout->max_header_size = options->max_header_size;
    layout->format = options->format;
    layout->alignment = REWRITE_LEAST_ALIGNMENT;
    if (options->format == COFFER_FORMAT_ANY) {
        layout->format = coffer_format_to_write(coffer_table_format(model->shards->table));
        layout->alignment = rewrite_alignment(model);
        layout->slack = rewrite_slack(model, layout->alignment);
    }
    if (options->alignment > layout->alignment) {
        layout->alignment = options->alignment;
    }
    for (size_t i = 0; i < model->shard_count; i++) {
        layout->empty_metadata = layout->empty_metadata || coffer_table_has_metadata(model->shards[i].table);
    }
    rewrite->digests = rewrite_algorithm(rewrite);
}

/* ---- what is declared: metadata ---------------------------------------------------------------------------------- */

/* Digests are the writer's to record. */
static bool rewrite_is_record(const char *key, size_t key_len)
{
    return coffer__compare_names(key, key_len, COFFER_DIGESTS_KEY, strlen(COFFER_DIGESTS_KEY)) == 0 ||
           coffer__compare_names(key, key_len, COFFER_METADATA_DIGEST_KEY, strlen(COFFER_METADATA_DIGEST_KEY)) == 0;
}

/* The value that the first file before this one has for the key; NULL: none has it. Those in between have the same, or
   they would have been refused. */
static const char *rewrite_first_value(const coffer *model, size_t shard, const coffer_pair *pair, size_t *len)
{
    const char *value = NULL;
    for (size_t i = 0; i < shard && value == NULL; i++) {
        value = coffer_table_metadata_get(model->shards[i].table, pair->key, pair->key_len, len);
    }
    return value;
}

static coffer_status rewrite_declare_pairs(const coffer_rewrite *rewrite, size_t shard, coffer_error *err)
{
    const coffer_edit *edit = NULL;
    const coffer_rewrite_options *options = &rewrite->options;
    coffer_pair pair;
    for (size_t i = 0; coffer_table_metadata_at(rewrite->model->shards[shard].table, i, &pair); i++) {
        if (rewrite_is_record(pair.key, pair.key_len) ||
            coffer__edit_names(options->edits, options->edit_count, pair.key, pair.key_len, &edit)) {
            continue;
        }
        size_t len = 0;
        const char *value = rewrite_first_value(rewrite->model, shard, &pair, &len);
        if (value != NULL && len == pair.value_len && memcmp(value, pair.value, len) == 0) {
            continue;
        }
        if (value != NULL) {
            coffer__fail(err, COFFER_ERR_DUPLICATE_KEY,
                         "the metadata of this file have another value for %q than those of a file before it: set or "
                         "remove the key",
                         pair.key, pair.key_len);
            return coffer__fail_path(err, COFFER_ERR_DUPLICATE_KEY, coffer_shard_path(rewrite->model, shard));
        }
        const coffer_status status =
            coffer_header_set_metadata(rewrite->header, pair.key, pair.key_len, pair.value, pair.value_len, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* Whether the edit at `i` is the last one of its key. */
static bool rewrite_edit_counts(const coffer_rewrite_options *options, size_t i)
{
    const coffer_edit *last = NULL;
    const coffer_edit *edit = &options->edits[i];
    return coffer__edit_names(options->edits, options->edit_count, edit->key, edit->key_len, &last) && last == edit;
}

static coffer_status rewrite_declare_metadata(const coffer_rewrite *rewrite, coffer_error *err)
{
    const coffer_rewrite_options *options = &rewrite->options;
    for (size_t i = 0; i < rewrite->model->shard_count; i++) {
        const coffer_status status = rewrite_declare_pairs(rewrite, i, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    for (size_t i = 0; i < options->edit_count; i++) {
        const coffer_edit *edit = &options->edits[i];
        if (edit->value == NULL || !rewrite_edit_counts(options, i)) {
            continue;
        }
        if (rewrite_is_record(edit->key, edit->key_len)) {
            return coffer__fail(err, COFFER_ERR_ARGUMENT, "the metadata cannot set %q, which records digests",
                                edit->key, edit->key_len);
        }
        const coffer_status status =
            coffer_header_set_metadata(rewrite->header, edit->key, edit->key_len, edit->value, edit->value_len, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* ---- what is declared: tensors ----------------------------------------------------------------------------------- */

static coffer_status rewrite_declare_renamed(const coffer_rewrite *rewrite, const coffer__rewrite_decision *decision,
                                             const coffer_tensor *tensor, coffer_error *err)
{
    size_t room = strlen(decision->rename->name);
    room += tensor->name_len + (size_t)1;
    char *name = coffer__alloc(&rewrite->allocator, room);
    if (name == NULL) {
        return rewrite_no_memory(err);
    }
    const size_t len = coffer__rewrite_put_name(decision, name);
    const coffer_status status =
        coffer_header_add(rewrite->header, name, len, decision->dtype, tensor->shape, tensor->rank, err);
    coffer__free(&rewrite->allocator, name, room);
    return status;
}

static coffer_status rewrite_declare_tensor(coffer_rewrite *rewrite, size_t i, coffer_error *err)
{
    coffer__rewrite_decision decision;
    const coffer_rewrite_options *options = &rewrite->options;
    const coffer_tensor *tensor = coffer_at(rewrite->model, i);
    const size_t number = coffer_header_count(rewrite->header);
    rewrite->changes[i].from = tensor;
    const coffer_status status = coffer__rewrite_decide(&decision, options->rules, options->rule_count, tensor, err);
    if (status != COFFER_OK || decision.left_out) {
        return status;
    }
    rewrite->sources[number] = (uint32_t)i;
    rewrite->shard_of[number] = tensor->shard;
    return decision.rename != NULL ? rewrite_declare_renamed(rewrite, &decision, tensor, err)
                                   : coffer_header_add(rewrite->header, tensor->name, tensor->name_len, decision.dtype,
                                                       tensor->shape, tensor->rank, err);
}

static coffer_status rewrite_declare(coffer_rewrite *rewrite, coffer_error *err)
{
    rewrite->changes = coffer__alloc_array(&rewrite->allocator, rewrite->count, sizeof *rewrite->changes, err);
    rewrite->places = coffer__alloc_array(&rewrite->allocator, rewrite->count, sizeof *rewrite->places, err);
    rewrite->sources = coffer__alloc_array(&rewrite->allocator, rewrite->count, sizeof *rewrite->sources, err);
    rewrite->shard_of = coffer__alloc_array(&rewrite->allocator, rewrite->count, sizeof *rewrite->shard_of, err);
    if (rewrite->changes == NULL || rewrite->places == NULL || rewrite->sources == NULL || rewrite->shard_of == NULL) {
        return COFFER_ERR_MEMORY;
    }
    coffer_status status = coffer_header_new(&rewrite->header, &rewrite->allocator, err);
    if (status == COFFER_OK) {
        status = rewrite_declare_metadata(rewrite, err);
    }
    for (size_t i = 0; i < rewrite->count && status == COFFER_OK; i++) {
        status = rewrite_declare_tensor(rewrite, i, err);
    }
    return status;
}

/* ---- two tensors of one name ------------------------------------------------------------------------------------- */

static coffer__name rewrite_declared_name(const void *ctx, uint32_t i)
{
    const coffer_header *header = ctx;
    const declared_tensor *tensor = &coffer__header_tensors(header)[i];
    return (coffer__name){ header->arena.bytes + tensor->name_at, tensor->name_len };
}

/* Any header would refuse two tensors of one name; this says which they were. */
static coffer_status rewrite_check_names(const coffer_rewrite *rewrite, coffer_error *err)
{
    coffer__names names = { .allocator = &rewrite->allocator,
                            .name_of = rewrite_declared_name,
                            .ctx = rewrite->header,
                            .count = coffer_header_count(rewrite->header) };
    uint32_t twice = COFFER__NO_NAME;
    coffer_status status = coffer__names_build(&names, &twice, err);
    if (status == COFFER_OK && twice != COFFER__NO_NAME) {
        const coffer__name name = rewrite_declared_name(rewrite->header, twice);
        const uint32_t once = coffer__names_find(&names, name.text, name.len);
        const coffer_tensor *a = coffer__rewrite_change_of(rewrite, once)->from;
        const coffer_tensor *b = coffer__rewrite_change_of(rewrite, twice)->from;
        coffer__fail(err, COFFER_ERR_DUPLICATE_NAME, "%q and %q would both be named %q", a->name, (size_t)a->name_len,
                     b->name, (size_t)b->name_len, name.text, name.len);
        status = coffer__fail_tensor(err, COFFER_ERR_DUPLICATE_NAME, b->name, b->name_len);
    }
    coffer__names_free(&names);
    return status;
}

/* ---- the new files ----------------------------------------------------------------------------------------------- */

static coffer_status rewrite_build_file(coffer_rewrite *rewrite, size_t file, coffer_error *err)
{
    const coffer_table *table = NULL;
    uint64_t size = 0;
    coffer_status status = coffer_header_new(&rewrite->headers[file], &rewrite->allocator, err);
    if (status == COFFER_OK) {
        status = coffer__shards_declare(&rewrite->shards, rewrite->header, file, rewrite->headers[file], err);
    }
    if (status == COFFER_OK && rewrite->digests != COFFER_NO_ALGORITHM) {
        status = coffer_header_reserve_digests(rewrite->headers[file], rewrite->digests, err);
    }
    if (status == COFFER_OK) {
        status = coffer_header_build(rewrite->headers[file], &rewrite->layout, NULL, &size, &table, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    rewrite->summary.size += size + coffer_table_data_size(table);
    return COFFER_OK;
}

static coffer_status rewrite_build_files(coffer_rewrite *rewrite, coffer_error *err)
{
    coffer__shards *shards = &rewrite->shards;
    const uint64_t limit = rewrite->options.max_shard_size;
    coffer_status status = limit == 0 ? coffer__shards_keep(shards, rewrite->header, rewrite->shard_of, err)
                                      : coffer__shards_plan(shards, rewrite->header, limit, false, err);
    if (status != COFFER_OK) {
        shards->count = 0;
        return status;
    }
    rewrite->headers = coffer__alloc_array(&rewrite->allocator, shards->count, sizeof(coffer_header *), err);
    if (rewrite->headers == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < shards->count && status == COFFER_OK; i++) {
        status = rewrite_build_file(rewrite, i, err);
    }
    return status;
}

/* ---- the plan as it is shown ------------------------------------------------------------------------------------- */

static void rewrite_place_tensors(coffer_rewrite *rewrite)
{
    const coffer__shards *shards = &rewrite->shards;
    for (uint32_t file = 0; file < shards->count; file++) {
        for (uint32_t at = shards->first[file]; at < shards->first[file + 1]; at++) {
            const uint32_t source = rewrite->sources[shards->order[at]];
            rewrite->places[source] = *coffer_header_at(rewrite->headers[file], at - shards->first[file]);
            rewrite->places[source].shard = file;
            rewrite->changes[source].to = &rewrite->places[source];
        }
    }
}

static bool rewrite_is_renamed(const coffer_rewrite_change *change)
{
    return coffer__compare_names(change->from->name, change->from->name_len, change->to->name, change->to->name_len) !=
           0;
}

static void rewrite_sum_up_tensor(coffer_rewrite *rewrite, const coffer_rewrite_change *change)
{
    coffer_rewrite_summary *summary = &rewrite->summary;
    const coffer_tensor *from = change->from;
    const bool aligning = rewrite->options.alignment != 0;
    if (change->to == NULL) {
        rewrite->changed = true;
        return;
    }
    const bool cast = coffer__rewrite_is_cast(change);
    const bool moved = aligning && from->offset % coffer_dtype_alignment(from->dtype) != 0;
    rewrite->changed = rewrite->changed || cast || moved || rewrite_is_renamed(change);
    summary->cast += cast ? change->to->size : 0;
    summary->copied += cast ? 0 : change->to->size;
}

static void rewrite_sum_up(coffer_rewrite *rewrite)
{
    coffer_rewrite_summary *summary = &rewrite->summary;
    const uint64_t alignment = rewrite->options.alignment;
    summary->file_count = rewrite->shards.count;
    summary->tensor_count = coffer_header_count(rewrite->header);
    for (size_t i = 0; i < rewrite->model->shard_count; i++) {
        const uint64_t start = coffer_table_data_offset(rewrite->model->shards[i].table);
        rewrite->changed = rewrite->changed || (alignment != 0 && start % alignment != 0);
        summary->size_before += coffer_shard_size(rewrite->model, i);
    }
    for (size_t i = 0; i < rewrite->count; i++) {
        rewrite_sum_up_tensor(rewrite, &rewrite->changes[i]);
    }
}

/* Whether tensors are to be in other files than now. */
static bool rewrite_is_resharded(const coffer_rewrite *rewrite)
{
    const coffer__shards *shards = &rewrite->shards;
    if (rewrite->options.max_shard_size == 0 || shards->count != rewrite->model->shard_count) {
        return rewrite->options.max_shard_size != 0;
    }
    for (size_t i = 0; i < shards->tensor_count; i++) {
        if (shards->shard_of[i] != rewrite->shard_of[i]) {
            return true;
        }
    }
    return false;
}

static bool rewrite_has_other_digests(const coffer_rewrite *rewrite)
{
    for (size_t i = 0; i < rewrite->model->shard_count; i++) {
        if (coffer_recorded_algorithm(rewrite->model, i) != rewrite->digests) {
            return true;
        }
    }
    return false;
}

/* Whether an edit changes anything in a file. */
static bool rewrite_is_another_value(const coffer_table *table, const coffer_edit *edit)
{
    size_t len = 0;
    const char *value = coffer_table_metadata_get(table, edit->key, edit->key_len, &len);
    if (value == NULL || edit->value == NULL) {
        return value != edit->value;
    }
    return len != edit->value_len || memcmp(value, edit->value, len) != 0;
}

static bool rewrite_edits(const coffer_rewrite *rewrite)
{
    const coffer_rewrite_options *options = &rewrite->options;
    for (size_t i = 0; i < options->edit_count; i++) {
        for (size_t s = 0; s < rewrite->model->shard_count && rewrite_edit_counts(options, i); s++) {
            if (rewrite_is_another_value(rewrite->model->shards[s].table, &options->edits[i])) {
                return true;
            }
        }
    }
    return false;
}

static void rewrite_choose_way(coffer_rewrite *rewrite)
{
    const coffer_format format = coffer_table_format(rewrite->model->shards->table);
    const bool files = rewrite->options.output != NULL || rewrite->changed || rewrite->layout.format != format ||
                       rewrite_is_resharded(rewrite) || rewrite_has_other_digests(rewrite);
    if (files) {
        rewrite->summary.way = COFFER_REWRITE_FILES;
        return;
    }
    rewrite->summary.way = rewrite_edits(rewrite) ? COFFER_REWRITE_HEADERS : COFFER_REWRITE_NOTHING;
    rewrite->summary.copied = 0;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static coffer_status rewrite_check_options(const coffer_rewrite_options *options, coffer_error *err)
{
    const bool missing =
        (options->rules == NULL && options->rule_count > 0) || (options->edits == NULL && options->edit_count > 0);
    if (missing || (options->output != NULL && options->output[0] == '\0')) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the rules or edits are NULL, or the output has no name");
    }
    const uint64_t alignment = options->alignment;
    if (alignment != 0 && (alignment < REWRITE_LEAST_ALIGNMENT || (alignment & (alignment - 1)) != 0)) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the alignment %u is not a power of two of at least 8",
                            alignment);
    }
    return (unsigned)options->sync <= COFFER_SYNC_NEVER
               ? COFFER_OK
               : coffer__fail(err, COFFER_ERR_ARGUMENT, "the option `sync` has no such value");
}

static coffer_status rewrite_make_plan(coffer_rewrite *rewrite, coffer_error *err)
{
    const coffer_rewrite_options *options = &rewrite->options;
    coffer_status status = rewrite_choose_target(rewrite, err);
    if (status == COFFER_OK) {
        status = coffer__rewrite_check_rules(rewrite->model, options->rules, options->rule_count, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    rewrite_lay_out(rewrite);
    status = rewrite_declare(rewrite, err);
    if (status == COFFER_OK) {
        status = rewrite_check_names(rewrite, err);
    }
    if (status == COFFER_OK) {
        status = rewrite_build_files(rewrite, err);
    }
    if (status == COFFER_OK) {
        status = coffer__index_members_read(&rewrite->members, rewrite->model, rewrite_is_edited_member, options,
                                            &rewrite->allocator, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    rewrite->keeps_names = coffer__rewrite_can_keep_names(rewrite);
    rewrite_place_tensors(rewrite);
    rewrite_sum_up(rewrite);
    rewrite_choose_way(rewrite);
    return rewrite->summary.way == COFFER_REWRITE_FILES ? coffer__rewrite_guard(rewrite, err) : COFFER_OK;
}

coffer_status coffer_rewrite_plan(coffer_rewrite **rewrite, const coffer *model, const coffer_rewrite_options *options,
                                  coffer_error *err)
{
    coffer_rewrite_options known;
    if (rewrite == NULL || model == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "a rewrite needs a model and a place for its handle");
    }
    *rewrite = NULL;
    coffer_status status = coffer__options_copy(&known, sizeof known, options, err);
    if (status == COFFER_OK) {
        status = rewrite_check_options(&known, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    const coffer_allocator *allocator = known.allocator != NULL ? known.allocator : coffer_libc_allocator();
    coffer_rewrite *made = coffer__alloc_zeroed(allocator, sizeof *made);
    if (made == NULL) {
        return rewrite_no_memory(err);
    }
    made->allocator = *allocator;
    made->model = model;
    made->options = known;
    made->lock = -1;
    made->count = coffer_count(model);
    status = rewrite_make_plan(made, err);
    if (status != COFFER_OK) {
        coffer_rewrite_free(made);
        return status;
    }
    *rewrite = made;
    return COFFER_OK;
}

const coffer_rewrite_summary *coffer_rewrite_summarize(const coffer_rewrite *rewrite)
{
    return &rewrite->summary;
}

const coffer_rewrite_change *coffer_rewrite_at(const coffer_rewrite *rewrite, size_t i)
{
    return i < rewrite->count ? &rewrite->changes[i] : NULL;
}
