/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of a rewrite: what coffer/rewrite.h promises before a byte is written. The parts of a rewrite are in
 * rewriting.h.
 *
 * The order of things: where the new files go, and whether they may; what the rules make of each tensor, which is
 * declared at once; two tensors of one name; which file each goes to; the header of each file, built by the code that
 * builds every header. What follows from the headers alone is found here, so that running a plan can fail only of what
 * devices and other programs do.
 */
#include "alloc.h"
#include "checked.h"
#include "declared.h"
#include "edit.h"
#include "errno_status.h"
#include "error.h"
#include "formats.h"
#include "model.h"
#include "options.h"
#include "os.h"
#include "pending_save.h"
#include "rewriting.h"
#include "sort.h"
#include "text.h"

#include <string.h>

#define REWRITE_MIN_ALIGNMENT 8
#define REWRITE_MAX_ALIGNMENT 4096 /* that is worth keeping: a page */

/* ---- free -------------------------------------------------------------------------------------------------------- */

/* A plan that failed in its middle may have built only some of the headers; the others are NULL. */
static void rewrite_free_files(const coffer_rewrite *rewrite)
{
    for (size_t i = 0; rewrite->headers != NULL && i < rewrite->shards.count; i++) {
        coffer_header_free(rewrite->headers[i]);
    }
    coffer__free_array(&rewrite->allocator, rewrite->headers, rewrite->shards.count, sizeof(coffer_header *));
}

/* Right after any failure of planning, since the plan begins as zeros with no lock. Closing the
   descriptor ends the lock of a single file. The allocator is copied first, because it is part of
   the block that goes last. The model is borrowed and stays open. */
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
    if (rewrite->computing.free != NULL) {
        rewrite->computing.free(rewrite->computing.ctx);
    }
    if (rewrite->lock >= 0) {
        (void)coffer__os_close(rewrite->lock);
    }
    coffer__free(&allocator, rewrite, sizeof *rewrite);
}

/* Nothing was written when planning ends like this. */
static coffer_status rewrite_no_memory(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to plan the rewriting of a model");
}

/* ---- where the new files go -------------------------------------------------------------------------------------- */

/* For a model from memory, from the caller's own source or from a URL: there is no place that its
   new files could take. */
static coffer_status rewrite_no_place(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                        "the model was not opened by the path of a file, a folder or an index on this system, so it "
                        "cannot be rewritten in its place: name another place for the new model");
}

/* A single file: what a link leads to, and locked. The lock is the one that edits of the metadata
   take, so between the plan and its end no editor changes the header on which the plan rests. It is
   held by rewrite->lock until the plan is freed. Reading is enough for a lock, so a file that
   cannot be written to can still be replaced. Hard links are counted under the lock. That the file
   is the one that was read is checked when it is written (`replaces`) or edited
   (coffer__edit_only), not here. */
static coffer_status rewrite_hold_file(coffer_rewrite *rewrite, coffer_error *err)
{
    coffer__os_info info;
    const coffer__shard *shard = rewrite->model->shards;
    const bool follow = rewrite->options.follow_links;
    if (shard->path == NULL || coffer__source_seen(&shard->source) == NULL) {
        return rewrite_no_place(err);
    }
    /* The file that a link leads to is the one that is replaced, so the link stays. */
    coffer_status status = coffer__edit_resolve(shard->path, follow, &rewrite->target, err);
    if (status != COFFER_OK) {
        return status;
    }
    const int os_error = coffer__os_open(rewrite->target.text, COFFER__OS_READ, false, &rewrite->lock);
    if (os_error != 0) {
        return coffer__errno_status(err, "open the file to lock it", NULL, os_error);
    }
    status = coffer__edit_lock(rewrite->lock, &rewrite->target, &info, err);
    return status == COFFER_OK && info.links > 1 && !follow ? coffer__edit_linked(true, err) : status;
}

/* One of several files has to be a file itself: where a link leads to, others may have it under
   other names. A single file may be replaced through a link, because its target is resolved; the
   files of a set are published by renames in one folder, which would replace the links themselves. */
static coffer_status rewrite_check_plain(const char *path, bool follow, coffer_error *err)
{
    coffer__os_info info;
    const int os_error = coffer__os_inspect(path, false, &info);
    if (os_error != 0) {
        return coffer__errno_status(err, "look at a file of the model", path, os_error);
    }
    if (info.kind == COFFER__OS_REGULAR && info.links > 1 && !follow) {
        coffer__edit_linked(true, err);
        return coffer__fail_path(err, COFFER_ERR_LINKED, path);
    }
    if (info.kind != COFFER__OS_LINK) {
        return COFFER_OK;
    }
    coffer__fail(err, COFFER_ERR_LINKED,
                 "this file of the model is a symbolic link, and several files are never replaced through links: name "
                 "another place for the new model");
    return coffer__fail_path(err, COFFER_ERR_LINKED, path);
}

/* The name that the files of a set without an index would have as one: PREFIX.safetensors. */
static bool rewrite_name_set(coffer__path *target, const char *first)
{
    coffer__shard_name parts;
    const size_t at = coffer__path_name_at(first);
    if (!coffer__shard_name_read(&parts, first + at, strlen(first + at)) || !coffer__path_copy(target, first)) {
        return false;
    }
    target->text[at + parts.prefix_len - 1] = '\0';
    return coffer__path_append(target, COFFER__FILE_SUFFIX, sizeof COFFER__FILE_SUFFIX - 1);
}

/* The name that the files of an index would have as one. The index must have the name that a
   commit would give to it: otherwise the old index would stay beside the new one and still
   name the old files. */
static bool rewrite_name_indexed(coffer__path *target, const char *index)
{
    static const char ending[] = ".index.json";
    coffer__path file;
    const size_t len = coffer__text_len(index);
    if (!coffer__path_copy(target, index)) {
        return false;
    }
    /* Cut the ending off. A name that is too short for it becomes empty, and the comparison below
       refuses it. */
    target->text[len < sizeof ending ? 0 : len - (sizeof ending - 1)] = '\0';
    return coffer__pending_save_index_name(&file, target->text, "") && strcmp(file.text, index) == 0;
}

/* Several files, which get an index if they have none. All that an index names must be open,
   because those that are not are unknown and would be removed with the old model. No lock is taken
   here: the commit locks the folder when it is opened, and what changes before that is found by
   rewrite_check_unchanged. */
static coffer_status rewrite_hold_model(coffer_rewrite *rewrite, coffer_error *err)
{
    const coffer *model = rewrite->model;
    const char *index = model->sharded->index_path;
    const bool follow = rewrite->options.follow_links;
    coffer__path *target = &rewrite->target;
    if (model->web != NULL) {
        return rewrite_no_place(err);
    }
    if (index != NULL && model->shard_count != model->sharded->file_count) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                            "only %u of the %u files of the model are open, and the others would be lost: open all of "
                            "them, or name another place for the new model (output)",
                            (uint64_t)model->shard_count, (uint64_t)model->sharded->file_count);
    }
    const bool named =
        index != NULL ? rewrite_name_indexed(target, index) : rewrite_name_set(target, model->shards->path);
    if (!named || !coffer__shards_path_fits(target->text)) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                            "the model's index is not named NAME.safetensors.index.json, so it cannot be rewritten in "
                            "its place: name another place for the new model");
    }
    coffer_status status = index != NULL ? rewrite_check_plain(index, follow, err) : COFFER_OK;
    for (size_t i = 0; i < model->shard_count && status == COFFER_OK; i++) {
        status = rewrite_check_plain(model->shards[i].path, follow, err);
    }
    return status;
}

/* An output is not examined here: coffer__rewrite_guard does it when it is known which files there
   will be. */
static coffer_status rewrite_choose_target(coffer_rewrite *rewrite, coffer_error *err)
{
    const char *output = rewrite->options.output;
    if (output == NULL) {
        return rewrite->model->sharded == NULL ? rewrite_hold_file(rewrite, err) : rewrite_hold_model(rewrite, err);
    }
    return coffer__path_copy(&rewrite->target, output)
               ? COFFER_OK
               : coffer__fail(err, COFFER_ERR_ARGUMENT, "the path of the new file is too long");
}

/* ---- how the new files are laid out ------------------------------------------------------------------------------ */

/* The alignment that the data have in every file, as far as it is worth keeping. In bytes, a power
   of two. One alignment holds for all new files, so it is the largest that every old one has. */
static uint64_t rewrite_alignment(const coffer *model)
{
    uint64_t alignment = REWRITE_MAX_ALIGNMENT;
    for (size_t i = 0; i < model->shard_count; i++) {
        while (alignment > REWRITE_MIN_ALIGNMENT && coffer_table_data_offset(model->shards[i].table) % alignment != 0) {
            alignment /= 2;
        }
    }
    return alignment;
}

/* The space for edits that every file has. Less than an alignment is only padding, which nobody has
   reserved. In bytes. The smallest counts, so that no file grows by more space than it had. */
static uint64_t rewrite_slack(const coffer *model, uint64_t alignment)
{
    uint64_t slack = UINT64_MAX;
    for (size_t i = 0; i < model->shard_count; i++) {
        const uint64_t found = coffer_table_slack(model->shards[i].table);
        slack = found < slack ? found : slack;
    }
    return slack >= alignment ? slack : 0;
}

/* *found becomes the edit that counts for the key, if there is one. */
static bool rewrite_is_edited(const coffer_rewrite_options *options, const char *key, const coffer_edit **found)
{
    return coffer__edit_names(options->edits, options->edit_count, key, strlen(key), found);
}

/* Whether an edit says what becomes of a member of the index's metadata. An index's metadata follow
   the same edits as those of the files; a member that is edited is declared with its new value and
   not copied from the old index. */
static bool rewrite_is_edited_member(const void *ctx, const char *key, size_t key_len)
{
    const coffer_rewrite_options *options = ctx;
    const coffer_edit *edit = NULL;
    return coffer__edit_names(options->edits, options->edit_count, key, key_len, &edit);
}

/* What the model records is recorded again, unless the edits take it away or the options say
   otherwise. The first file that records any digests decides, so that all new files record by the
   same algorithm. An edit of the digests themselves means that the caller does not want those of
   the model. */
static coffer_algorithm rewrite_algorithm(const coffer_rewrite *rewrite)
{
    const coffer_edit *edit = NULL;
    coffer_algorithm found = rewrite->options.digests;
    /* The caller's choice counts first, then an edit of the digests, then what the model
       records. */
    if (found != COFFER_NO_ALGORITHM || rewrite_is_edited(&rewrite->options, COFFER_DIGESTS_KEY, &edit)) {
        return found;
    }
    for (size_t i = 0; i < rewrite->model->shard_count && found == COFFER_NO_ALGORITHM; i++) {
        found = coffer_recorded_algorithm(rewrite->model, i);
    }
    return found;
}

/* A format that was asked for is laid out as its own writers do, because then the old layout does
   not matter; only without one are the model's alignment and slack worth keeping. An empty place
   for metadata is kept if any file has one, as removing it would change a file that otherwise stays
   the same. Pure, and cannot fail. */
static void rewrite_lay_out(coffer_rewrite *rewrite)
{
    const coffer *model = rewrite->model;
    const coffer_rewrite_options *options = &rewrite->options;
    coffer_header_options *layout = &rewrite->layout;
    *layout = (coffer_header_options)COFFER_HEADER_OPTIONS_INIT;
    layout->max_header_size = options->max_header_size;
    layout->format = options->format;
    layout->alignment = REWRITE_MIN_ALIGNMENT;
    /* The model's own format: its layout is kept as far as all files share it. */
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

/* Digests are the writer's to record. What the old files recorded is about their bytes, and would
   be wrong in the new ones. */
static bool rewrite_is_record(const char *key, size_t key_len)
{
    return coffer__compare_names(key, key_len, COFFER_DIGESTS_KEY, strlen(COFFER_DIGESTS_KEY)) == 0 ||
           coffer__compare_names(key, key_len, COFFER_METADATA_DIGEST_KEY, strlen(COFFER_METADATA_DIGEST_KEY)) == 0;
}

/* The value that the first file before this one has for the key; NULL: none has it. Those in
   between have the same, or they would have been refused. *len is set only with a value. Tables
   find a key by themselves, so this costs one look-up for each file before. */
static const char *rewrite_first_value(const coffer *model, size_t shard, const coffer_pair *pair, size_t *len)
{
    const char *value = NULL;
    for (size_t i = 0; i < shard && value == NULL; i++) {
        value = coffer_table_metadata_get(model->shards[i].table, pair->key, pair->key_len, len);
    }
    return value;
}

/* All new files get the same metadata, so two old files that contradict each other cannot both be
   right. The user must settle it by an edit: choosing one silently would lose the other. Keys that
   an edit sets or removes are left to rewrite_declare_metadata. */
static coffer_status rewrite_declare_pairs(const coffer_rewrite *rewrite, size_t shard, coffer_error *err)
{
    const coffer_edit *edit = NULL;
    const coffer_rewrite_options *options = &rewrite->options;
    coffer_pair pair;
    for (size_t i = 0; coffer_table_metadata_at(rewrite->model->shards[shard].table, i, &pair); i++) {
        /* The digests are the writer's, and what an edit names is declared below, if at all. */
        if (rewrite_is_record(pair.key, pair.key_len) ||
            coffer__edit_names(options->edits, options->edit_count, pair.key, pair.key_len, &edit)) {
            continue;
        }
        size_t len = 0;
        const char *value = rewrite_first_value(rewrite->model, shard, &pair, &len);
        /* An earlier file has declared it, with the same value. */
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

/* Whether the edit at `i` is the last one of its key. Earlier edits of the key have no effect at
   all. */
static bool rewrite_edit_counts(const coffer_rewrite_options *options, size_t i)
{
    const coffer_edit *last = NULL;
    const coffer_edit *edit = &options->edits[i];
    return coffer__edit_names(options->edits, options->edit_count, edit->key, edit->key_len, &last) && last == edit;
}

/* Whether an edit gives metadata to a model that has none, without saying of which format it is. */
static bool rewrite_makes_metadata(const coffer_rewrite *rewrite)
{
    const coffer_edit *edit = NULL;
    const coffer_rewrite_options *options = &rewrite->options;
    bool sets = false;
    for (size_t i = 0; i < options->edit_count; i++) {
        sets = sets || (options->edits[i].value != NULL && rewrite_edit_counts(options, i));
    }
    const coffer__format_ops *format = coffer__format_at(rewrite->layout.format);
    return sets && format != NULL && format->wants_framework && !rewrite->layout.empty_metadata &&
           !rewrite_is_edited(options, COFFER__FORMAT_KEY, &edit);
}

/* Digests cannot be set by an edit here, as the writer computes them; removing them is allowed and
   was seen to by rewrite_algorithm. The header copies keys and values. */
static coffer_status rewrite_declare_metadata(const coffer_rewrite *rewrite, coffer_error *err)
{
    const coffer_rewrite_options *options = &rewrite->options;
    for (size_t i = 0; i < rewrite->model->shard_count; i++) {
        const coffer_status status = rewrite_declare_pairs(rewrite, i, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    if (rewrite_makes_metadata(rewrite)) {
        const coffer_status status = coffer__header_set_format(rewrite->header, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    for (size_t i = 0; i < options->edit_count; i++) {
        const coffer_edit *edit = &options->edits[i];
        /* A removal needs no declaration: rewrite_declare_pairs has left the key out. */
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

/* Numbers of declarations are without gaps, while those of the model's tensors are not once some
   are left out: `sources` leads from the former to the latter, and changes[i].to stays NULL for
   what is left out. The numbers fit 32 bits because those of the model's tensors do. */
static coffer_status rewrite_declare_tensor(coffer_rewrite *rewrite, coffer__rewrite_rules *rules, size_t i,
                                            coffer_error *err)
{
    coffer__rewrite_decision decision;
    const coffer__computing *computing = &rewrite->computing;
    const coffer_tensor *tensor = coffer_at(rewrite->model, i);
    const size_t number = coffer_header_count(rewrite->header);
    rewrite->changes[i].from = tensor;
    const coffer_status status = coffer__rewrite_decide(&decision, rules, tensor, err);
    if (status != COFFER_OK || decision.left_out) {
        return status;
    }
    coffer__rewrite_made made = { decision.name, tensor->shape, tensor->rank, decision.dtype, false };
    const bool is_made = computing->makes != NULL && computing->makes(computing->ctx, i, &made);
    if (made.left_out) {
        return COFFER_OK;
    }
    const coffer__name name = decision.renamed ? decision.name : made.name;
    rewrite->changes[i].computed = is_made || (computing->wants != NULL && computing->wants(computing->ctx, i));
    /* Noted before the declaration is added, under the number that it will get. */
    rewrite->sources[number] = (uint32_t)i;
    rewrite->shard_of[number] = tensor->shard;
    return coffer_header_add(rewrite->header, name.text, name.len, made.dtype, made.shape, made.rank, err);
}

/* The tables are as long as the model has tensors, which is the most that can be declared. What was
   allocated before a failure is released by coffer_rewrite_free. */
static coffer_status rewrite_declare(coffer_rewrite *rewrite, coffer__rewrite_rules *rules, coffer_error *err)
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
        status = rewrite_declare_tensor(rewrite, rules, i, err);
    }
    return status;
}

/* The rules are needed no longer than until everything is declared, which copies the names. From here on everything follows
   from the headers, which are in memory. */
static coffer_status rewrite_declare_by_rules(coffer_rewrite *rewrite, coffer_error *err)
{
    coffer__rewrite_rules rules;
    coffer_status status =
        coffer__rewrite_rules_init(&rules, rewrite->model, &rewrite->options, &rewrite->allocator, err);
    if (status == COFFER_OK) {
        rewrite_lay_out(rewrite);
        status = rewrite_declare(rewrite, &rules, err);
    }
    coffer__rewrite_rules_free(&rules);
    return status;
}

/* ---- two tensors of one name ------------------------------------------------------------------------------------- */

/* Borrowed from the header's arena, so it holds until something else is declared. */
static coffer__name rewrite_declared_name(const void *ctx, uint32_t i)
{
    const coffer_header *header = ctx;
    const declared_tensor *tensor = &coffer__header_tensors(header)[i];
    return (coffer__name){ header->arena.bytes + tensor->name_at, tensor->name_len };
}

/* The index finds the first tensor of a name, and any later one is told of with it. */
static void rewrite_tell_collisions(const coffer_rewrite *rewrite, const coffer__names *names)
{
    const coffer_rewrite_options *options = &rewrite->options;
    for (uint32_t i = 0; options->collision != NULL && i < names->count; i++) {
        const coffer__name name = rewrite_declared_name(rewrite->header, i);
        const uint32_t once = coffer__names_find(names, name.text, name.len);
        if (once != i) {
            options->collision(options->collision_ctx, coffer__rewrite_change_of(rewrite, once)->from,
                               coffer__rewrite_change_of(rewrite, i)->from, name.text, name.len);
        }
    }
}

/* Any header would refuse two tensors of one name; this says which they were. It comes before the
   files are built, because two tensors of one name may go to different files, where no single
   header would notice them. The error names both old tensors and the new name: which rule is wrong
   depends on all three. Expected time is linear in the number of tensors. */
static coffer_status rewrite_check_names(const coffer_rewrite *rewrite, coffer_error *err)
{
    coffer__names names = { .allocator = &rewrite->allocator,
                            .name_of = rewrite_declared_name,
                            .ctx = rewrite->header,
                            .count = coffer_header_count(rewrite->header) };
    uint32_t twice = COFFER__NO_NAME;
    coffer_status status = coffer__names_build(&names, &twice, err);
    if (status == COFFER_OK && twice != COFFER__NO_NAME) {
        rewrite_tell_collisions(rewrite, &names);
        const coffer__name name = rewrite_declared_name(rewrite->header, twice);
        /* The index finds the first tensor of the name, and `twice` is a later one. */
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

/* Building is what checks that the dtypes suit the format and that the header is within its limit,
   so a plan that was made can be written. Space for digests is reserved before, because it is part
   of the header's size. The size is added up here, in bytes: head and data. */
static coffer_status rewrite_build_file(coffer_rewrite *rewrite, size_t file, coffer_error *err)
{
    const coffer_table *table = NULL;
    uint64_t size = 0;
    coffer_status status = coffer_header_new(&rewrite->headers[file], &rewrite->allocator, err);
    if (status == COFFER_OK) {
        status = coffer__shards_declare(&rewrite->shards, rewrite->header, file, rewrite->headers[file], err);
    }
    /* The digests' values are not known yet, but how many bytes they take is. */
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

/* Without a limit every tensor stays in the file it came from, and files that lost all of their
   tensors vanish. After a failure of splitting, `shards` holds nothing, and a count of 0 tells
   coffer_rewrite_free so. */
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

/* Tensors are in each header in the order in which coffer__shards_declare declared them, which is
   that of `order`; so the position within the file is the number in its header. The tensors are
   copied, since their `shard` is the plan's and not the header's. Their strings stay borrowed from
   the headers. */
static void rewrite_place_tensors(coffer_rewrite *rewrite)
{
    const coffer__shards *shards = &rewrite->shards;
    for (uint32_t file = 0; file < shards->count; file++) {
        for (uint32_t at = shards->first[file]; at < shards->first[file + 1]; at++) {
            /* From the place in the new files to the declaration, and from there to the model's
               tensor. */
            const uint32_t source = rewrite->sources[shards->order[at]];
            rewrite->places[source] = *coffer_header_at(rewrite->headers[file], at - shards->first[file]);
            rewrite->places[source].shard = file;
            rewrite->changes[source].to = &rewrite->places[source];
        }
    }
}

/* A rule may give a tensor the name that it has. */
static bool rewrite_is_renamed(const coffer_rewrite_change *change)
{
    return coffer__compare_names(change->from->name, change->from->name_len, change->to->name, change->to->name_len) !=
           0;
}

/* `changed` decides later whether files have to be written at all. With an alignment, a tensor that
   does not begin at a multiple of its dtype's own alignment counts as moved, as it would be in a
   new file. Bytes that are cast are counted in their new size. */
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
    /* The offset counts from the beginning of the file, as programs that map it see it. */
    const bool moved = aligning && from->offset % coffer_dtype_alignment(from->dtype) != 0;
    rewrite->changed = rewrite->changed || cast || moved;
    rewrite->renamed = rewrite->renamed || rewrite_is_renamed(change);
    summary->cast += cast ? change->to->size : 0;
    summary->copied += cast ? 0 : change->to->size;
}

/* The headers are built, so every size is exact. A file whose data begin off the alignment that was
   asked for has to be written, even if each of its tensors stays the same. */
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

/* Whether tensors are to be in other files than now. Comparing the numbers of files alone is not
   enough: the same number of files may be divided elsewhere. */
static bool rewrite_is_resharded(const coffer_rewrite *rewrite)
{
    const coffer__shards *shards = &rewrite->shards;
    /* Without a limit every tensor stays in its file; with another number of files some must
       move. */
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

/* A file without digests counts, too, if the others have some: all new files record the same. */
static bool rewrite_has_other_digests(const coffer_rewrite *rewrite)
{
    for (size_t i = 0; i < rewrite->model->shard_count; i++) {
        if (coffer_recorded_algorithm(rewrite->model, i) != rewrite->digests) {
            return true;
        }
    }
    return false;
}

/* Whether an edit changes anything in a file. Setting what is set already and removing what is not
   there change nothing. */
static bool rewrite_is_another_value(const coffer_table *table, const coffer_edit *edit)
{
    size_t len = 0;
    const char *value = coffer_table_metadata_get(table, edit->key, edit->key_len, &len);
    /* Both are NULL if a key is removed that is not there: then nothing changes. */
    if (value == NULL || edit->value == NULL) {
        return value != edit->value;
    }
    return len != edit->value_len || memcmp(value, edit->value, len) != 0;
}

/* One file that would change is enough. */
static bool rewrite_has_edits(const coffer_rewrite *rewrite)
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

/* Whether a file records digests of its tensors, of whatever kind: their names are in them, and so they are not true for
   other names. */
static bool rewrite_records_names(const coffer_rewrite *rewrite)
{
    size_t len = 0;
    for (size_t i = 0; i < rewrite->model->shard_count; i++) {
        if (coffer_table_metadata_get(rewrite->model->shards[i].table, COFFER_DIGESTS_KEY, strlen(COFFER_DIGESTS_KEY),
                                      &len) != NULL) {
            return true;
        }
    }
    return false;
}

/* Whether headers change, be it in names or in metadata. */
static bool rewrite_has_new_headers(const coffer_rewrite *rewrite)
{
    return rewrite->renamed || rewrite_has_edits(rewrite);
}

/* Whether files have tensors that count elsewhere. A header that names the others anew would have to say something of
   these, too; in new files they are left out. */
static bool rewrite_has_superseded(const coffer_rewrite *rewrite)
{
    const coffer__sharded *sharded = rewrite->model->sharded;
    return sharded != NULL && sharded->superseded > 0;
}

/* Why new files have to be written, in the order of the reasons. Headers alone can change where the tensors stay; in several
   files only if these keep their own names, by which the index and a commit find them. */
static coffer_rewrite_reason rewrite_reason(const coffer_rewrite *rewrite)
{
    const coffer *model = rewrite->model;
    const coffer_format format = coffer_table_format(model->shards->table);
    if (rewrite->options.output != NULL) {
        return COFFER_REWRITE_FOR_OUTPUT;
    }
    if (rewrite->changed || rewrite_is_resharded(rewrite) ||
        ((rewrite->renamed || rewrite->options.drop_superseded) && rewrite_has_superseded(rewrite))) {
        return COFFER_REWRITE_FOR_DATA;
    }
    if (rewrite->layout.format != format || (rewrite->renamed && !coffer__edit_can_rename(format))) {
        return COFFER_REWRITE_FOR_FORMAT;
    }
    if (rewrite_has_other_digests(rewrite) || (rewrite->renamed && rewrite_records_names(rewrite))) {
        return COFFER_REWRITE_FOR_DIGESTS;
    }
    return model->sharded != NULL && !rewrite->keeps_names && rewrite_has_new_headers(rewrite)
               ? COFFER_REWRITE_FOR_SHARDED
               : COFFER_REWRITE_NO_REASON;
}

/* In this order because each way costs less than the one before: new files, only headers, nothing.
   When only headers change, no tensor is copied, so the summary must not promise it. */
static void rewrite_choose_way(coffer_rewrite *rewrite)
{
    coffer_rewrite_summary *summary = &rewrite->summary;
    summary->reason = rewrite_reason(rewrite);
    if (summary->reason != COFFER_REWRITE_NO_REASON) {
        summary->way = COFFER_REWRITE_FILES;
        return;
    }
    summary->way = rewrite_has_new_headers(rewrite) ? COFFER_REWRITE_HEADERS : COFFER_REWRITE_NOTHING;
    summary->copied = 0;
    rewrite->publishes_headers = summary->way == COFFER_REWRITE_HEADERS && rewrite->model->sharded != NULL;
}

/* Of a set without an index, whose files get other names: a commit removes what an old index
   names, so the old files would stay beside the new ones. */
static bool rewrite_leaves_files(const coffer_rewrite *rewrite)
{
    const coffer__sharded *sharded = rewrite->model->sharded;
    return rewrite->options.output == NULL && sharded != NULL && sharded->index_path == NULL && !rewrite->keeps_names;
}

/* What the way needs: the names of new files must be free, and a header must have space. */
static coffer_status rewrite_check_way(coffer_rewrite *rewrite, coffer_error *err)
{
    const bool headers = rewrite->summary.way == COFFER_REWRITE_HEADERS;
    if (rewrite->summary.way == COFFER_REWRITE_FILES && rewrite_leaves_files(rewrite)) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                            "the new files would have other names, and the model has no index by which the old ones "
                            "are removed: name another place for the new model");
    }
    const bool placed = !rewrite->options.unplaced;
    const coffer_status status = placed && (rewrite->summary.way == COFFER_REWRITE_FILES || rewrite->publishes_headers)
                                     ? coffer__rewrite_guard(rewrite, err)
                                     : COFFER_OK;
    return status == COFFER_OK && headers ? coffer__rewrite_measure_headers(rewrite, err) : status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* Only what needs no model is checked here. The format and the limits of sizes are checked by those
   who use them. */
static coffer_status rewrite_check_options(const coffer_rewrite_options *options, coffer_error *err)
{
    /* A count without a list is a mistake of the caller, and not an empty list. */
    const bool missing =
        (options->rules == NULL && options->rule_count > 0) || (options->edits == NULL && options->edit_count > 0);
    if (missing || (options->output != NULL && options->output[0] == '\0')) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the rules or edits are NULL, or the output has no name");
    }
    const uint64_t alignment = options->alignment;
    if (alignment != 0 && (alignment < REWRITE_MIN_ALIGNMENT || (alignment & (alignment - 1)) != 0)) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the alignment %u is not a power of two of at least 8",
                            alignment);
    }
    return (unsigned)options->sync <= COFFER_SYNC_NEVER
               ? COFFER_OK
               : coffer__fail(err, COFFER_ERR_ARGUMENT, "the option `sync` has no such value");
}

/* The order is that of cost and of need: the lock comes first, so that nothing changes under the
   plan; the rules are checked before anything is declared; names need the declarations and files
   the names. Whether files may be replaced is asked last, since only then is it known which there
   will be, and only if files are written at all. On failure the caller frees what was made. */
static coffer_status rewrite_make_plan(coffer_rewrite *rewrite, coffer_error *err)
{
    const coffer_rewrite_options *options = &rewrite->options;
    coffer_status status = rewrite_choose_target(rewrite, err);
    if (status == COFFER_OK) {
        status = rewrite_declare_by_rules(rewrite, err);
    }
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
    /* The files are known: their names, the tensors' places, the sums, and what has to be
       written. */
    rewrite->keeps_names = coffer__rewrite_can_keep_names(rewrite);
    rewrite_place_tensors(rewrite);
    rewrite_sum_up(rewrite);
    rewrite_choose_way(rewrite);
    return rewrite_check_way(rewrite, err);
}

/* *rewrite is NULL after any failure. The options are copied, but what they point to is borrowed
   until the plan is freed. A single file that is replaced stays locked as long as the plan exists,
   so a plan that is not carried out keeps editors away until it is freed. */
coffer_status coffer_rewrite_plan(coffer_rewrite **rewrite, const coffer *model, const coffer_rewrite_options *options,
                                  coffer_error *err)
{
    return coffer__rewrite_plan_computed(rewrite, model, options, NULL, err);
}

/* What is computed is the plan's only when it is handed out, so that a caller whose plan fails frees it once. */
coffer_status coffer__rewrite_plan_computed(coffer_rewrite **rewrite, const coffer *model,
                                            const coffer_rewrite_options *options, const coffer__computing *computing,
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
    made->options.output = known.unplaced ? "model.safetensors" : known.output;
    /* coffer_rewrite_free closes any lock that is not -1, so this comes before the first step that
       can fail. */
    made->lock = -1;
    made->count = coffer_count(model);
    if (computing != NULL) {
        made->computing = *computing;
    }
    status = rewrite_make_plan(made, err);
    if (status != COFFER_OK) {
        made->computing.free = NULL;
        coffer_rewrite_free(made);
        return status;
    }
    *rewrite = made;
    return COFFER_OK;
}

/* Constant once planned. */
const coffer_rewrite_summary *coffer_rewrite_summarize(const coffer_rewrite *rewrite)
{
    return &rewrite->summary;
}

/* In the order of the model's tensors, those that are left out included. The counts of lost numbers
   change while the plan is carried out. */
const coffer_rewrite_change *coffer_rewrite_at(const coffer_rewrite *rewrite, size_t i)
{
    return i < rewrite->count ? &rewrite->changes[i] : NULL;
}
