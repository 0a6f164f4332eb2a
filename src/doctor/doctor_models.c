/* SPDX-License-Identifier: Apache-2.0 */
/* The models of a folder: each index with its files, files that are named as several of one model, and single files. */
#include "checkup.h"
#include "doctor_beside.h"
#include "doctor_names.h"
#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char INDEX_ENDING[] = ".index.json";

/* Indices in one folder of which all notes are made, for which the library lists the folder each time. */
#define INDICES_MAX 16

/* Names under which loaders look, in their order. */
static const char *const USUAL_NAMES[] = {
    "model.safetensors",
    "model.safetensors.index.json",
    "diffusion_pytorch_model.safetensors",
    "diffusion_pytorch_model.safetensors.index.json",
    "adapter_model.safetensors",
};

static bool is_tensors(const coffer__doctor_entry *entry)
{
    return entry->type == COFFER__DOCTOR_FILE && coffer_format_from_path(entry->name) != COFFER_FORMAT_ANY &&
           entry->name[0] != '.';
}

/* An index of files of tensors, and not of other programs' files. */
static bool is_index(const coffer__doctor_entry *entry)
{
    char stem[300];
    if (entry->type != COFFER__DOCTOR_FILE || !coffer__text_has_ending(entry->name, INDEX_ENDING)) {
        return false;
    }
    snprintf(stem, sizeof stem, "%.*s", (int)(strlen(entry->name) - strlen(INDEX_ENDING)), entry->name);
    return coffer_format_from_path(stem) != COFFER_FORMAT_ANY;
}

/* The length of PREFIX in PREFIX-00001-of-00003.safetensors; 0 for another name. */
static size_t set_prefix(const char *name)
{
    const char *of = NULL;
    for (const char *next = strstr(name, "-of-"); next != NULL; next = strstr(next + 1, "-of-")) {
        of = next;
    }
    if (of == NULL || strspn(of + 4, "0123456789") < 5) {
        return 0;
    }
    size_t digits = 0;
    while (digits < (size_t)(of - name) && of[-1 - (ptrdiff_t)digits] >= '0' && of[-1 - (ptrdiff_t)digits] <= '9') {
        digits++;
    }
    const size_t before = (size_t)(of - name) - digits;
    return digits >= 5 && before > 1 ? before - 1 : 0;
}

/* ---- Which of them loaders take ---- */

static bool same_set(const char *a, const char *b)
{
    const size_t len = set_prefix(a);
    return len > 0 && len == set_prefix(b) && memcmp(a, b, len) == 0;
}

static const coffer__doctor_entry *main_of(const coffer__doctor_folder *folder)
{
    for (size_t i = 0; i < sizeof USUAL_NAMES / sizeof USUAL_NAMES[0]; i++) {
        const coffer__doctor_entry *entry = coffer__doctor_entry_of(folder, USUAL_NAMES[i]);
        if (entry != NULL && entry->type == COFFER__DOCTOR_FILE) {
            return entry;
        }
    }
    const coffer__doctor_entry *index = NULL;
    const coffer__doctor_entry *file = NULL;
    size_t indices = 0;
    size_t models = 0;
    for (size_t i = 0; i < folder->count; i++) {
        const coffer__doctor_entry *entry = &folder->entries[i];
        index = is_index(entry) ? entry : index;
        indices += is_index(entry);
        if (is_tensors(entry) && (file == NULL || !same_set(file->name, entry->name))) {
            file = entry;
            models++;
        }
    }
    return indices == 1 ? index : indices == 0 && models == 1 ? file : NULL;
}

/* ---- One model ---- */

/* What goes on for all models of a folder. */
typedef struct models_run {
    coffer__doctor_folder *folder;
    const coffer__doctor_entry *main;
    bool found;    /* a model could be opened */
    size_t opened; /* indices */
    uint64_t size; /* of the one that loaders take */
} models_run;

/* The tensor of a file that has its byte `offset`, or the first one after it; NULL without one. */
static const coffer_tensor *tensor_at_byte(const coffer_table *table, uint64_t offset)
{
    const coffer_tensor *found = NULL;
    for (size_t i = 0; i < coffer_table_count(table) && found == NULL; i++) {
        const coffer_tensor *tensor = coffer_table_at(table, i);
        found = tensor->offset + tensor->size > offset ? tensor : NULL;
    }
    return found;
}

static void look_at_holes(const coffer__doctor_folder *folder, const char *name, const coffer *model)
{
    uint64_t all = 0;
    uint64_t offset = COFFER_NO_OFFSET;
    const coffer_tensor *tensor = NULL;
    for (size_t i = 0; i < coffer_shard_count(model); i++) {
        uint64_t first = 0;
        const uint64_t count = coffer_shard_holes(model, i, &first);
        if (count > 0 && all == 0) {
            tensor = tensor_at_byte(coffer_shard_table(model, i), first);
            offset = first;
        }
        all += count;
    }
    if (all == 0) {
        return;
    }
    coffer__finding *finding = coffer__doctor_add_in(
        folder, COFFER_SEVERITY_NOTE, "holes", name,
        "the file has a hole, which reads as zeros: the download or copy may be incomplete (%" PRIu64 ")", all);
    if (finding != NULL) {
        finding->offset = offset;
    }
    if (tensor != NULL && tensor->name_len > 0) {
        coffer__doctor_about(folder->doctor, finding, tensor->name, tensor->name_len);
    }
}

static uint64_t bytes_of(const coffer *model)
{
    uint64_t size = 0;
    for (size_t i = 0; i < coffer_shard_count(model); i++) {
        size += coffer_table_data_size(coffer_shard_table(model, i));
    }
    return size;
}

static void look_at(models_run *run, const char *name, const char *path, const coffer *model)
{
    coffer__doctor_folder *folder = run->folder;
    const bool is_main = folder->input != NULL || (run->main != NULL && strcmp(run->main->name, name) == 0);
    run->found = true;
    coffer__doctor_count(folder->doctor, COFFER_DOCTOR_MODELS, true, 1);
    if (folder->input == NULL) {
        look_at_holes(folder, name, model);
    }
    coffer__doctor_check_notes(folder, name, path, model);
    if (is_main) {
        run->size = bytes_of(model);
        coffer__doctor_check_config(folder, name, path, model);
    } else {
        (void)coffer__doctor_check_wrapping(folder, name, path, model, false);
    }
    char *below = coffer__doctor_name(folder, name);
    if (below != NULL) {
        coffer__doctor_add_seen(folder->doctor, below, is_main ? folder->type : NULL, model);
    }
    coffer__block_free(below);
    coffer__doctor_check_data(folder, name, path, model);
}

/* A file that cannot be opened since something lies beside it was told of with that. */
static bool is_reported(const coffer__doctor_folder *folder, const coffer_error *err)
{
    return folder->input == NULL && (err->code == COFFER_ERR_UNDO || err->code == COFFER_ERR_UNFINISHED);
}

static void add_broken(const coffer__doctor_folder *folder, const char *name, const coffer_error *err)
{
    char *below = coffer__doctor_name(folder, name);
    const bool unread = coffer__doctor_is_unread(err->code);
    coffer__doctor_count(folder->doctor, COFFER_DOCTOR_MODELS, false, 1);
    coffer__finding *finding =
        below != NULL ? coffer__doctor_add_failure(folder->doctor, unread ? "unreadable" : "broken_file", below, err)
                      : NULL;
    if (err->tensor[0] != '\0') {
        coffer__doctor_about(folder->doctor, finding, err->tensor, strlen(err->tensor));
    }
    coffer__doctor_fix_broken(folder, finding, name, err->code);
    coffer__block_free(below);
}

static void look_at_file(models_run *run, const char *name)
{
    coffer_error err;
    coffer *model = NULL;
    char *path = coffer__doctor_path(run->folder, name);
    if (path == NULL) {
        return;
    }
    if (coffer__doctor_open(run->folder->doctor, &model, path, true, &err) == COFFER_OK) {
        look_at(run, name, path, model);
    } else if (err.code != COFFER_ERR_CANCELLED && !is_reported(run->folder, &err)) {
        add_broken(run->folder, name, &err);
    }
    coffer_close(model);
    coffer__block_free(path);
}

/* ---- Several files ---- */

/* What an index names is looked at with it, also what lies in a folder below. */
typedef struct index_cover {
    coffer__doctor_folder *folder;
    size_t skip; /* bytes of a path before the name below the index's folder */
} index_cover;

static void note_below(const coffer__doctor_folder *folder, const char *name)
{
    coffer__checkup *d = folder->doctor;
    char *path = coffer__doctor_name(folder, name);
    char **below =
        path == NULL ? NULL : coffer__doctor_grow(d, d->below, d->below_count, &d->below_capacity, sizeof *below);
    if (below == NULL) {
        coffer__block_free(path);
        return;
    }
    d->below = below;
    d->below[d->below_count++] = path;
}

/* A visitor. */
static int cover(void *ctx, const char *path, bool exists)
{
    const index_cover *by = ctx;
    const char *name = strlen(path) > by->skip ? path + by->skip : path;
    coffer__doctor_entry *entry = coffer__doctor_entry_of(by->folder, name);
    if (entry != NULL) {
        entry->covered = entry->covered || exists;
    } else if (exists && strchr(name, '/') != NULL) {
        note_below(by->folder, name);
    }
    return 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Files of models that were looked at in a folder above. */
static void cover_from_above(coffer__doctor_folder *folder)
{
    coffer__checkup *d = folder->doctor;
    if (d->below_count == 0) {
        return;
    }
    qsort(d->below, d->below_count, sizeof *d->below, by_text);
    for (size_t i = 0; i < folder->count; i++) {
        char *name = coffer__doctor_name(folder, folder->entries[i].name);
        const bool named = name != NULL && bsearch(&name, d->below, d->below_count, sizeof name, by_text) != NULL;
        folder->entries[i].covered = folder->entries[i].covered || named;
        coffer__block_free(name);
    }
}

static void look_at_index(models_run *run, coffer__doctor_entry *entry)
{
    coffer_error err;
    coffer_error listing;
    coffer *model = NULL;
    char *path = coffer__doctor_path(run->folder, entry->name);
    if (path == NULL) {
        return;
    }
    entry->covered = true;
    index_cover by = { run->folder, strlen(path) - strlen(coffer__doctor_last_name(path)) };
    (void)coffer_list_files(path, &run->folder->doctor->allocator, cover, &by, &listing);
    const bool all_notes = run->main == entry || run->opened < INDICES_MAX;
    if (!all_notes && run->opened == INDICES_MAX) {
        coffer__doctor_add_in(
            run->folder, COFFER_SEVERITY_NOTE, "many_indices", entry->name,
            "the folder has more than %d indices: in the files of this one and those after it, names that differ "
            "only by the case of letters were not looked for",
            INDICES_MAX);
    }
    run->opened++;
    if (coffer__doctor_open(run->folder->doctor, &model, path, all_notes, &err) == COFFER_OK) {
        look_at(run, entry->name, path, model);
    } else if (err.code != COFFER_ERR_CANCELLED && !is_reported(run->folder, &err)) {
        coffer__doctor_check_index(run->folder, entry->name, &err);
    }
    coffer_close(model);
    coffer__block_free(path);
}

/* A visitor: files of a set without an index. */
static int look_at_part(void *ctx, const char *path, bool exists)
{
    models_run *run = ctx;
    const char *name = coffer__doctor_last_name(path);
    coffer__doctor_entry *entry = exists ? coffer__doctor_entry_of(run->folder, name) : NULL;
    if (!exists) {
        coffer__doctor_add_in(run->folder, COFFER_SEVERITY_ERROR, "shard_missing", name,
                              "the file is missing: the names of the others say that it is one of them; get it again");
    } else if (entry != NULL && !entry->covered) {
        entry->covered = true;
        look_at_file(run, name);
    }
    return coffer__doctor_stopped(run->folder->doctor);
}

/* The model that the files are together, where the folder stands for it. */
static bool look_at_whole_set(models_run *run, const coffer__doctor_entry *entry)
{
    coffer_error err;
    coffer *model = NULL;
    coffer__doctor_folder *folder = run->folder;
    char *path = coffer__doctor_path(folder, "");
    const bool whole =
        path != NULL && run->main == entry && folder->only == NULL &&
        coffer__doctor_open(run->folder->doctor, &model, path[0] != '\0' ? path : ".", true, &err) == COFFER_OK &&
        same_set(coffer__doctor_last_name(coffer_shard_path(model, 0)), entry->name);
    for (size_t i = 0; whole && i < coffer_shard_count(model); i++) {
        coffer__doctor_entry *file =
            coffer__doctor_entry_of(folder, coffer__doctor_last_name(coffer_shard_path(model, i)));
        if (file != NULL) {
            file->covered = true;
        }
    }
    if (whole) {
        look_at(run, entry->name, path, model);
    }
    coffer_close(model);
    coffer__block_free(path);
    return whole;
}

static void tell_extra(const coffer__doctor_folder *folder, const char *name, const char *path,
                       coffer__doctor_same same)
{
    coffer__finding *finding = coffer__doctor_add_in(
        folder, COFFER_SEVERITY_WARNING, "unindexed_file", name,
        "the file is named like a part of the model, and the index does not name it, so that loaders pass "
        "over it: %s",
        same == COFFER__DOCTOR_SAME ? "all of its tensors are in the model too, with the same bytes"
                                    : "it is left from another save, or the index is out of date");
    if (same != COFFER__DOCTOR_NOT_COMPARED) {
        coffer__doctor_by_data(finding);
    }
    if (same == COFFER__DOCTOR_SAME) {
        coffer__doctor_fix(folder->doctor, finding, COFFER__DOCTOR_WORDS("rm", path));
    } else if (same == COFFER__DOCTOR_DIFFERENT) {
        coffer__doctor_look(folder->doctor, finding, COFFER__DOCTOR_WORDS("coffer", "ls", path));
    } else {
        coffer__doctor_look_at_data(folder, finding);
    }
}

/* A file that is named like those of an index, which does not name it. */
static bool check_extra(const coffer__doctor_folder *folder, const coffer__doctor_entry *entry)
{
    char index[600];
    const size_t prefix = set_prefix(entry->name);
    const char *ending = strrchr(entry->name, '.');
    snprintf(index, sizeof index, "%.*s%s%s", (int)prefix, entry->name, ending != NULL ? ending : "", INDEX_ENDING);
    if (prefix == 0 || entry->named || !coffer__doctor_has(folder, index)) {
        return false;
    }
    char *path = coffer__doctor_path(folder, entry->name);
    char *model = coffer__doctor_path(folder, index);
    if (path != NULL && model != NULL) {
        tell_extra(folder, entry->name, path, coffer__doctor_compare_file(folder->doctor, path, model));
    }
    coffer__block_free(model);
    coffer__block_free(path);
    return true;
}

static void look_at_tensors(models_run *run, coffer__doctor_entry *entry)
{
    coffer_error err;
    if (check_extra(run->folder, entry)) {
        look_at_file(run, entry->name);
        return;
    }
    if (run->main != NULL && is_index(run->main)) {
        coffer__doctor_check_beside(run->folder, run->main->name, entry);
    }
    if (set_prefix(entry->name) == 0) {
        look_at_file(run, entry->name);
    } else if (!look_at_whole_set(run, entry)) {
        char *path = coffer__doctor_path(run->folder, entry->name);
        if (path != NULL) {
            (void)coffer_list_files(path, &run->folder->doctor->allocator, look_at_part, run, &err);
        }
        coffer__block_free(path);
    }
}

static void check_shadow(const coffer__doctor_folder *folder)
{
    for (size_t i = 0; i + 1 < sizeof USUAL_NAMES / sizeof USUAL_NAMES[0]; i += 2) {
        if (coffer__doctor_has(folder, USUAL_NAMES[i]) && coffer__doctor_has(folder, USUAL_NAMES[i + 1])) {
            coffer__doctor_add_in(
                folder, COFFER_SEVERITY_WARNING, "shadowed", USUAL_NAMES[i + 1],
                "loaders take %s, so nobody loads the files of this index; remove the one that is not wanted",
                USUAL_NAMES[i]);
        }
    }
}

/* Of what was named alone the name does not matter: it is opened, unless it is something else for sure. */
static bool is_named(const coffer__doctor_folder *folder, const coffer__doctor_entry *entry)
{
    return folder->only != NULL && entry->type == COFFER__DOCTOR_FILE && !entry->pickle &&
           !coffer__text_has_ending(entry->name, ".json");
}

static bool is_wanted(const coffer__doctor_folder *folder, const coffer__doctor_entry *entry)
{
    return !entry->covered && !folder->doctor->failed && !coffer__doctor_stopped(folder->doctor) &&
           (folder->only == NULL || strcmp(folder->only, entry->name) == 0);
}

bool coffer__doctor_check_models(coffer__doctor_folder *folder, uint64_t *size)
{
    models_run run = { .folder = folder, .main = main_of(folder) };
    cover_from_above(folder);
    if (folder->only == NULL) {
        check_shadow(folder);
        coffer__doctor_check_variants(folder);
        coffer__doctor_check_file_names(folder);
    }
    for (size_t i = 0; i < folder->count; i++) {
        if (is_index(&folder->entries[i]) && is_wanted(folder, &folder->entries[i])) {
            look_at_index(&run, &folder->entries[i]);
        }
    }
    for (size_t i = 0; i < folder->count; i++) {
        coffer__doctor_entry *entry = &folder->entries[i];
        if (!is_wanted(folder, entry) || !(is_tensors(entry) || is_named(folder, entry))) {
            continue;
        }
        if (folder->only != NULL) {
            look_at_file(&run, entry->name);
        } else {
            look_at_tensors(&run, entry);
        }
    }
    *size = run.size;
    return run.found;
}

void coffer__doctor_check_remote(coffer__doctor_folder *folder, const coffer *model)
{
    models_run run = { .folder = folder };
    look_at(&run, "", folder->path, model);
    coffer__doctor_check_companions(folder, true);
}
