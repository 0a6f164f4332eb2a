/* SPDX-License-Identifier: Apache-2.0 */
/* One verdict over a model and everything that lies around it: which folders are looked at, and what is handed out. */
#include "checkup.h"

#include "alloc.h"
#include "error.h"
#include "libc_allocator.h"
#include "options.h"

#include <inttypes.h>
#include <string.h>

#define FOLDERS_MAX 10000
#define DEPTH_MAX 16

/* ---- Folders ---- */

/* Folders that are still to be looked at, by their names below the one that was named. */
typedef struct folder_stack {
    char **names;
    size_t count;
    size_t capacity;
    size_t seen; /* in all */
} folder_stack;

static void push_folder(coffer__checkup *d, folder_stack *stack, const char *parent, const char *name)
{
    char **names = coffer__doctor_grow(d, stack->names, stack->count, &stack->capacity, sizeof *names);
    if (names == NULL) {
        return;
    }
    stack->names = names;
    names[stack->count] = coffer__doctor_join(d, parent, name);
    stack->count += names[stack->count] != NULL;
    stack->seen++;
}

static size_t depth_of(const char *name)
{
    size_t depth = 0;
    for (; *name != '\0'; name++) {
        depth += *name == '/';
    }
    return depth;
}

/* From the last to the first, so that they come off the stack in order. */
static void push_folders(folder_stack *stack, const coffer__doctor_folder *folder)
{
    coffer__checkup *d = folder->doctor;
    for (size_t i = folder->count; i > 0 && !d->failed; i--) {
        const coffer__doctor_entry *entry = &folder->entries[i - 1];
        if (entry->type != COFFER__DOCTOR_DIR || entry->name[0] == '.') {
            continue;
        }
        if (stack->seen >= FOLDERS_MAX || depth_of(folder->name) >= DEPTH_MAX) {
            coffer__doctor_count(d, COFFER_DOCTOR_FOLDERS, false, 1);
            coffer__doctor_add_in(folder, COFFER_SEVERITY_WARNING, "too_deep", entry->name,
                                  "the folder was not looked at: there are too many");
        } else {
            push_folder(d, stack, folder->name, entry->name);
        }
    }
}

static void look_at_listed(coffer__doctor_folder *folder)
{
    uint64_t size = 0;
    coffer__doctor_check_files(folder);
    const bool has_model = coffer__doctor_check_models(folder, &size);
    coffer__doctor_check_companions(folder, has_model);
    coffer__doctor_check_copies(folder, has_model, size);
    coffer__doctor_check_hub(folder);
}

static void look_below(coffer__checkup *d, folder_stack *stack)
{
    while (stack->count > 0 && !d->failed && !coffer__doctor_stopped(d)) {
        char *name = stack->names[--stack->count];
        char *path = coffer__doctor_join(d, d->path, name);
        coffer__doctor_folder folder = { .doctor = d, .path = path, .name = name };
        if (path != NULL && coffer__doctor_list(&folder, d->path)) {
            look_at_listed(&folder);
            push_folders(stack, &folder);
        }
        coffer__doctor_unlist(&folder);
        coffer__block_free(path);
        coffer__block_free(name);
    }
    while (stack->count > 0) {
        coffer__block_free(stack->names[--stack->count]);
    }
    coffer__block_free(stack->names);
}

static void look_at_folder(coffer__checkup *d)
{
    folder_stack stack = { .names = NULL };
    push_folder(d, &stack, "", "");
    look_below(d, &stack);
    const bool reported = d->totals[COFFER_SEVERITY_ERROR] + d->totals[COFFER_SEVERITY_WARNING] > 0;
    if (d->seen_count == 0 && !reported && !d->failed && !coffer__doctor_stopped(d)) {
        d->unreadable = true;
        coffer__doctor_add(d, COFFER_SEVERITY_ERROR, "no_model", "", "there is no model in the folder");
    }
}

/* ---- One file, one URL ---- */

static coffer_status look_at_one(coffer__checkup *d, coffer_error *err)
{
    coffer *model = NULL;
    const char *slash = coffer__doctor_last_slash(d->path);
    char *parent = slash == NULL
                       ? coffer__doctor_copy(d, ".")
                       : coffer__doctor_copy_part(d, d->path, slash > d->path ? (size_t)(slash - d->path) : 1);
    if (parent == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "out of memory");
    }
    coffer__doctor_folder folder = {
        .doctor = d, .path = parent, .name = "", .only = slash != NULL ? slash + 1 : d->path
    };
    coffer_status status = COFFER_OK;
    const bool listed = coffer__doctor_list(&folder, parent);
    const coffer__doctor_entry *entry = listed ? coffer__doctor_entry_of(&folder, folder.only) : NULL;
    if (entry == NULL) {
        status = coffer__doctor_open(d, &model, d->path, false, err);
        coffer_close(model);
    } else {
        look_at_listed(&folder);
    }
    coffer__doctor_unlist(&folder);
    coffer__block_free(parent);
    return status;
}

static coffer_status look_at_url(coffer__checkup *d, coffer_error *err)
{
    coffer *opened = NULL;
    if (d->options.model == NULL) {
        const coffer_status status = coffer__doctor_open(d, &opened, d->path, true, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    const coffer *model = opened != NULL ? opened : d->options.model;
    coffer__doctor_folder folder = { .doctor = d, .path = d->path, .name = "" };
    coffer_error reading;
    const coffer_open_options opening = coffer__doctor_open_options(d, false);
    if (coffer_input_open(&folder.input, coffer_shard_path(model, 0), &opening, &reading) == COFFER_OK) {
        coffer__doctor_check_remote(&folder, model);
    } else {
        (void)coffer__doctor_add_failure(d, "unreadable", "", &reading);
    }
    coffer_input_free(folder.input);
    coffer__doctor_unlist(&folder);
    coffer_close(opened);
    return COFFER_OK;
}

/* ---- A file of another program ---- */

/* The model of a file of another program, the caller's or one that is opened here; NULL: it is none. */
static const coffer *foreign_model(coffer__checkup *d, coffer **opened)
{
    coffer_error err;
    if (d->options.model == NULL && !coffer__doctor_is_folder(d->path) && strstr(d->path, "://") == NULL) {
        coffer_open_options options = coffer__doctor_open_options(d, true);
        options.formats = COFFER_FORMATS_PLAIN;
        (void)coffer_open(opened, d->path, &options, &err);
    }
    const coffer *model = *opened != NULL ? *opened : d->options.model;
    return coffer_model_import(model) != NULL ? model : NULL;
}

/* Everything is looked at before it is compared, so that what cannot be is known by then. */
static coffer_status look(coffer__checkup *d, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    coffer *opened = NULL;
    d->foreign = foreign_model(d, &opened);
    if (d->foreign != NULL) {
        coffer__doctor_check_foreign(d, d->foreign);
    } else if (strstr(d->path, "://") != NULL) {
        status = look_at_url(d, err);
    } else if (coffer__doctor_is_folder(d->path)) {
        look_at_folder(d);
    } else {
        status = look_at_one(d, err);
    }
    if (status == COFFER_OK && d->options.against != NULL && !d->failed && !coffer__doctor_stopped(d)) {
        coffer__doctor_check_against(d, d->options.against);
    }
    d->foreign = NULL;
    coffer_close(opened);
    if (status == COFFER_OK && d->cancelled && !d->failed) {
        return coffer__fail(err, COFFER_ERR_CANCELLED, "cancelled by the progress callback");
    }
    return status;
}

/* ---- Asking ---- */

/* The caller's allocator, of which it is noted where it gives nothing. */
static void *noted_alloc(void *ctx, size_t size)
{
    coffer__checkup *d = ctx;
    void *block = d->given.alloc(d->given.ctx, size);
    d->failed = d->failed || block == NULL;
    return block;
}

static void *noted_realloc(void *ctx, void *block, size_t old_size, size_t new_size)
{
    coffer__checkup *d = ctx;
    void *moved = d->given.realloc(d->given.ctx, block, old_size, new_size);
    d->failed = d->failed || moved == NULL;
    return moved;
}

static void noted_free(void *ctx, void *block, size_t size)
{
    const coffer__checkup *d = ctx;
    d->given.free(d->given.ctx, block, size);
}

/* NULL without memory. */
static coffer__checkup *new_checkup(const char *path, const coffer_doctor_options *options)
{
    const coffer_allocator *allocator = coffer__allocator_or_libc(options->allocator);
    coffer__checkup *d = coffer__alloc_zeroed(allocator, sizeof *d);
    if (d == NULL) {
        return NULL;
    }
    const coffer_allocator noted = { noted_alloc, noted_realloc, noted_free, d };
    d->given = *allocator;
    if (!coffer__locked_allocator_open(&d->lock, &noted, &d->allocator)) {
        coffer__free(allocator, d, sizeof *d);
        return NULL;
    }
    const bool named = options->against == NULL || options->against_path != NULL;
    d->options = *options;
    d->data = options->data;
    d->path = path;
    d->against = named ? options->against_path : coffer_shard_path(options->against, 0);
    return d;
}

coffer_status coffer_doctor(coffer_diagnosis **diagnosis, const char *path, const coffer_doctor_options *options,
                            coffer_error *err)
{
    coffer_doctor_options own;
    *diagnosis = NULL;
    coffer_status status = coffer__options_copy(&own, sizeof own, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (path == NULL || path[0] == '\0') {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "a doctor looks at files: name a folder, a file or a URL");
    }
    coffer__checkup *d = new_checkup(path, &own);
    if (d == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "out of memory");
    }
    status = look(d, err);
    coffer__doctor_close_findings(d);
    if (status == COFFER_OK && d->failed) {
        status = coffer__fail(err, COFFER_ERR_MEMORY, "out of memory");
    }
    if (status != COFFER_OK) {
        coffer_diagnosis_free(d);
        return status;
    }
    d->path = NULL; /* the caller's */
    d->against = NULL;
    *diagnosis = d;
    return COFFER_OK;
}

/* ---- Handing out ---- */

void coffer_diagnosis_free(coffer_diagnosis *diagnosis)
{
    if (diagnosis == NULL) {
        return;
    }
    const coffer_allocator given = diagnosis->given;
    coffer__doctor_free_findings(diagnosis);
    coffer__locked_allocator_close(&diagnosis->lock);
    coffer__free(&given, diagnosis, sizeof *diagnosis);
}

const coffer_doctor_finding *coffer_diagnosis_finding_at(const coffer_diagnosis *diagnosis, size_t i)
{
    return i < diagnosis->count ? &diagnosis->reported_findings[i] : NULL;
}

const coffer_doctor_model *coffer_diagnosis_model_at(const coffer_diagnosis *diagnosis, size_t i)
{
    return i < diagnosis->seen_count ? &diagnosis->reported_models[i] : NULL;
}

const coffer_doctor_summary *coffer_diagnosis_summarize(const coffer_diagnosis *diagnosis)
{
    return &diagnosis->summary;
}

const char *coffer_doctor_subject_name(coffer_doctor_subject subject)
{
    static const char *const names[COFFER_DOCTOR_SUBJECT_COUNT] = { "folders", "files",   "models",      "configs",
                                                                    "numbers", "digests", "hub_digests", "copies" };
    return names[subject];
}
