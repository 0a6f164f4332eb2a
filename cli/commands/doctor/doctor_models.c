/* SPDX-License-Identifier: Apache-2.0 */
/* The models of a folder: each index with its files, files that are named as several of one model, and single files. */
#include "check_bytes.h"
#include "cli_files.h"
#include "cli_interrupt.h"
#include "cli_report.h"
#include "cli_text.h"
#include "doctor.h"
#include "doctor_beside.h"
#include "doctor_names.h"

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

static bool is_tensors(const doctor_entry *entry)
{
    return entry->type == DOCTOR_FILE && coffer_format_from_path(entry->name) != COFFER_FORMAT_ANY &&
           entry->name[0] != '.';
}

/* An index of files of tensors, and not of other programs' files. */
static bool is_index(const doctor_entry *entry)
{
    char stem[300];
    if (entry->type != DOCTOR_FILE || !cli_ends_in(entry->name, INDEX_ENDING)) {
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

static const doctor_entry *main_of(const doctor_folder *folder)
{
    for (size_t i = 0; i < sizeof USUAL_NAMES / sizeof USUAL_NAMES[0]; i++) {
        const doctor_entry *entry = doctor_entry_of(folder, USUAL_NAMES[i]);
        if (entry != NULL && entry->type == DOCTOR_FILE) {
            return entry;
        }
    }
    const doctor_entry *index = NULL;
    const doctor_entry *file = NULL;
    size_t indices = 0;
    size_t models = 0;
    for (size_t i = 0; i < folder->count; i++) {
        const doctor_entry *entry = &folder->entries[i];
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
    doctor_folder *folder;
    const doctor_entry *main;
    bool found;    /* a model could be opened */
    size_t opened; /* indices */
    uint64_t size; /* of the one that loaders take */
} models_run;

static void look_at_holes(const doctor_folder *folder, const char *name, const coffer *model)
{
    check_bytes found = { .count = 0 };
    check_holes(model, &found);
    for (size_t i = 0; i < found.count; i++) {
        const cli_note *note = &found.notes[i];
        doctor_finding *finding =
            doctor_add_in(folder, DOCTOR_NOTE, "holes", name, "%s (%" PRIu64 ")", note->text, note->count);
        if (finding != NULL) {
            finding->offset = note->offset;
        }
        if (note->subject[0] != '\0') {
            doctor_about(folder->doctor, finding, note->subject, strlen(note->subject));
        }
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
    doctor_folder *folder = run->folder;
    const bool is_main = folder->input != NULL || (run->main != NULL && strcmp(run->main->name, name) == 0);
    run->found = true;
    if (folder->input == NULL) {
        look_at_holes(folder, name, model);
    }
    doctor_check_notes(folder, name, path, model);
    if (is_main) {
        run->size = bytes_of(model);
        doctor_check_config(folder, name, path, model);
    } else {
        (void)doctor_check_wrapping(folder, name, path, model, false);
    }
    char *below = doctor_name(folder, name);
    if (below != NULL) {
        doctor_add_seen(folder->doctor, below, is_main ? folder->type : NULL, model);
    }
    free(below);
    doctor_check_data(folder, name, path, model);
}

/* A file that cannot be opened since something lies beside it was told of with that. */
static bool is_reported(const doctor_folder *folder, const coffer_error *err)
{
    return folder->input == NULL && (err->code == COFFER_ERR_UNDO || err->code == COFFER_ERR_UNFINISHED);
}

static void add_broken(const doctor_folder *folder, const char *name, const coffer_error *err)
{
    char *below = doctor_name(folder, name);
    const bool unread = cli_exit_code(err->code) == CLI_EXIT_UNREADABLE;
    doctor_finding *finding =
        below != NULL ? doctor_add_failure(folder->doctor, unread ? "unreadable" : "broken_file", below, err) : NULL;
    if (err->tensor[0] != '\0') {
        doctor_about(folder->doctor, finding, err->tensor, strlen(err->tensor));
    }
    doctor_fix_broken(folder, finding, name, err->code);
    free(below);
}

static void look_at_file(models_run *run, const char *name)
{
    coffer_error err;
    coffer *model = NULL;
    char *path = doctor_path(run->folder, name);
    if (path == NULL) {
        return;
    }
    if (cli_open_quietly(&model, path, true, &err) == COFFER_OK) {
        look_at(run, name, path, model);
    } else if (err.code != COFFER_ERR_CANCELLED && !is_reported(run->folder, &err)) {
        add_broken(run->folder, name, &err);
    }
    coffer_close(model);
    free(path);
}

/* ---- Several files ---- */

static const char *last_name(const char *path)
{
    const char *slash = cli_last_slash(path);
    return slash != NULL ? slash + 1 : path;
}

/* A visitor: what an index names is looked at with it. */
static int cover(void *ctx, const char *path, bool exists)
{
    doctor_folder *folder = ctx;
    doctor_entry *entry = exists ? doctor_entry_of(folder, last_name(path)) : NULL;
    if (entry != NULL) {
        entry->covered = true;
    }
    return 0;
}

static void look_at_index(models_run *run, doctor_entry *entry)
{
    coffer_error err;
    coffer_error listing;
    coffer *model = NULL;
    char *path = doctor_path(run->folder, entry->name);
    if (path == NULL) {
        return;
    }
    entry->covered = true;
    (void)coffer_list_files(path, NULL, cover, run->folder, &listing);
    const bool all_notes = run->main == entry || run->opened < INDICES_MAX;
    if (!all_notes && run->opened == INDICES_MAX) {
        doctor_add_in(
            run->folder, DOCTOR_NOTE, "many_indices", entry->name,
            "the folder has more than %d indices: in the files of this one and those after it, names that differ "
            "only by the case of letters were not looked for",
            INDICES_MAX);
    }
    run->opened++;
    if (cli_open_quietly(&model, path, all_notes, &err) == COFFER_OK) {
        look_at(run, entry->name, path, model);
    } else if (err.code != COFFER_ERR_CANCELLED && !is_reported(run->folder, &err)) {
        doctor_check_index(run->folder, entry->name, &err);
    }
    coffer_close(model);
    free(path);
}

/* A visitor: files of a set without an index. */
static int look_at_part(void *ctx, const char *path, bool exists)
{
    models_run *run = ctx;
    const char *name = last_name(path);
    doctor_entry *entry = exists ? doctor_entry_of(run->folder, name) : NULL;
    if (!exists) {
        doctor_add_in(run->folder, DOCTOR_ERROR, "shard_missing", name,
                      "the file is missing: the names of the others say that it is one of them; get it again");
    } else if (entry != NULL && !entry->covered) {
        entry->covered = true;
        look_at_file(run, name);
    }
    return cli_interrupted();
}

/* The model that the files are together, where the folder stands for it. */
static bool look_at_whole_set(models_run *run, const doctor_entry *entry)
{
    coffer_error err;
    coffer *model = NULL;
    doctor_folder *folder = run->folder;
    char *path = doctor_path(folder, "");
    const bool whole = path != NULL && run->main == entry && folder->only == NULL &&
                       cli_open_quietly(&model, path[0] != '\0' ? path : ".", true, &err) == COFFER_OK &&
                       same_set(last_name(coffer_shard_path(model, 0)), entry->name);
    for (size_t i = 0; whole && i < coffer_shard_count(model); i++) {
        (void)cover(folder, coffer_shard_path(model, i), true);
    }
    if (whole) {
        look_at(run, entry->name, path, model);
    }
    coffer_close(model);
    free(path);
    return whole;
}

static void tell_extra(const doctor_folder *folder, const char *name, const char *path, doctor_same same)
{
    doctor_finding *finding = doctor_add_in(
        folder, DOCTOR_WARNING, "unindexed_file", name,
        "the file is named like a part of the model, and the index does not name it, so that loaders pass "
        "over it: %s",
        same == DOCTOR_SAME ? "all of its tensors are in the model too, with the same bytes"
                            : "it is left from another save, or the index is out of date");
    if (same == DOCTOR_SAME) {
        doctor_fix(folder->doctor, finding, DOCTOR_WORDS("rm", path));
    } else if (same == DOCTOR_DIFFERENT) {
        doctor_look(folder->doctor, finding, DOCTOR_WORDS("coffer", "ls", path));
    } else {
        doctor_look_at_data(folder, finding);
    }
}

/* A file that is named like those of an index, which does not name it. */
static bool check_extra(const doctor_folder *folder, const doctor_entry *entry)
{
    char index[600];
    const size_t prefix = set_prefix(entry->name);
    const char *ending = strrchr(entry->name, '.');
    snprintf(index, sizeof index, "%.*s%s%s", (int)prefix, entry->name, ending != NULL ? ending : "", INDEX_ENDING);
    if (prefix == 0 || entry->named || !doctor_has(folder, index)) {
        return false;
    }
    char *path = doctor_path(folder, entry->name);
    char *model = doctor_path(folder, index);
    if (path != NULL && model != NULL) {
        tell_extra(folder, entry->name, path, doctor_compare_file(folder->doctor, path, model));
    }
    free(model);
    free(path);
    return true;
}

static void look_at_tensors(models_run *run, doctor_entry *entry)
{
    coffer_error err;
    if (check_extra(run->folder, entry)) {
        look_at_file(run, entry->name);
        return;
    }
    if (run->main != NULL && is_index(run->main)) {
        doctor_check_beside(run->folder, run->main->name, entry);
    }
    if (set_prefix(entry->name) == 0) {
        look_at_file(run, entry->name);
    } else if (!look_at_whole_set(run, entry)) {
        char *path = doctor_path(run->folder, entry->name);
        if (path != NULL) {
            (void)coffer_list_files(path, NULL, look_at_part, run, &err);
        }
        free(path);
    }
}

static void check_shadow(const doctor_folder *folder)
{
    for (size_t i = 0; i + 1 < sizeof USUAL_NAMES / sizeof USUAL_NAMES[0]; i += 2) {
        if (doctor_has(folder, USUAL_NAMES[i]) && doctor_has(folder, USUAL_NAMES[i + 1])) {
            doctor_add_in(folder, DOCTOR_WARNING, "shadowed", USUAL_NAMES[i + 1],
                          "loaders take %s, so nobody loads the files of this index; remove the one that is not wanted",
                          USUAL_NAMES[i]);
        }
    }
}

/* Of what was named alone the name does not matter: it is opened, unless it is something else for sure. */
static bool is_named(const doctor_folder *folder, const doctor_entry *entry)
{
    return folder->only != NULL && entry->type == DOCTOR_FILE && !entry->pickle && !cli_ends_in(entry->name, ".json");
}

static bool is_wanted(const doctor_folder *folder, const doctor_entry *entry)
{
    return !entry->covered && !folder->doctor->failed && !cli_interrupted() &&
           (folder->only == NULL || strcmp(folder->only, entry->name) == 0);
}

bool doctor_check_models(doctor_folder *folder, uint64_t *size)
{
    models_run run = { .folder = folder, .main = main_of(folder) };
    if (folder->only == NULL) {
        check_shadow(folder);
        doctor_check_variants(folder);
        doctor_check_file_names(folder);
    }
    for (size_t i = 0; i < folder->count; i++) {
        if (is_index(&folder->entries[i]) && is_wanted(folder, &folder->entries[i])) {
            look_at_index(&run, &folder->entries[i]);
        }
    }
    for (size_t i = 0; i < folder->count; i++) {
        doctor_entry *entry = &folder->entries[i];
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

void doctor_check_remote(doctor_folder *folder, const coffer *model)
{
    models_run run = { .folder = folder };
    look_at(&run, "", folder->path, model);
    doctor_check_companions(folder, true);
}
