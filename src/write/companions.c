/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The companions of a model: which files beside it go with it wherever it goes, and what is in them. On this machine the
 * folder is listed, and names decide (coffer_is_companion); at a URL the files are those that a fetch asks for.
 *
 * All of them are read whole: the largest in use, vocabularies, have some tens of megabytes.
 */
#include "alloc.h"
#include "coffer.h"
#include "errno_status.h"
#include "error.h"
#include "fetch_beside.h"
#include "libc_allocator.h"
#include "model.h"
#include "model_dir.h"
#include "names.h"
#include "os.h"
#include "paths.h"
#include "sort.h"
#include "text.h"

#include <errno.h>
#include <string.h>

/* The most companions that a model has. */
#define COMPANIONS_MAX 1024

typedef struct companions_file {
    coffer_companion shown;
    char *name;
    uint8_t *bytes;
} companions_file;

struct coffer_companions {
    coffer_allocator allocator;
    size_t count;
    size_t capacity;
    companions_file *files;
    bool failed; /* no memory, or too many */
};

/* ---- the rule ---------------------------------------------------------------------------------------------------- */

/* Whether `name` has `part` at `at`, whose letters are small, in any case of letters. */
static bool companion_has(const char *name, size_t at, const char *part)
{
    size_t i = 0;
    while (part[i] != '\0' && coffer__text_lower(name[at + i]) == part[i]) {
        i++;
    }
    return part[i] == '\0';
}

static bool companion_begins(const char *name, const char *const *beginnings)
{
    bool found = false;
    for (size_t i = 0; beginnings[i] != NULL && !found; i++) {
        found = companion_has(name, 0, beginnings[i]);
    }
    return found;
}

static bool companion_ends(const char *name, const char *const *endings)
{
    const size_t len = strlen(name);
    bool found = false;
    for (size_t i = 0; endings[i] != NULL && !found; i++) {
        const size_t ending_len = strlen(endings[i]);
        found = len > ending_len && companion_has(name, len - ending_len, endings[i]);
    }
    return found;
}

/* An index is of weights, .coffer- of unfinished work, and what a training or a check leaves is not true of another
   model. */
static const char *const companion_other_endings[] = { ".index.json", "sums.txt", "sum.txt", NULL };
static const char *const companion_other_names[] = { "trainer_state.", "all_results.", "train_results.",
                                                     "eval_results.",  "checksum",     NULL };
static const char *const companion_endings[] = { ".json", ".jinja", ".txt", ".model", ".spm", ".tiktoken", ".vocab",
                                                 ".bpe",  ".py",    ".md",  ".yaml",  ".yml", ".rst",      NULL };
/* Names that often have no ending. */
static const char *const companion_names[] = { "license", "licence", "copying",   "notice",
                                               "readme",  "authors", "copyright", NULL };
static const char *const companion_weights[] = { ".safetensors", ".bt",    ".bintensors", ".bin",  ".pt",   ".pth",
                                                 ".ckpt",        ".h5",    ".keras",      ".onnx", ".gguf", ".npz",
                                                 ".msgpack",     ".arrow", ".pkl",        NULL };

bool coffer_is_companion(const char *name)
{
    if (name == NULL || name[0] == '.' || strpbrk(name, "/\\") != NULL || strstr(name, ".coffer-") != NULL) {
        return false;
    }
    if (companion_begins(name, companion_other_names) || companion_ends(name, companion_other_endings) ||
        companion_ends(name, companion_weights)) {
        return false;
    }
    return companion_ends(name, companion_endings) || companion_begins(name, companion_names);
}

/* ---- collecting -------------------------------------------------------------------------------------------------- */

static coffer_status companions_no_memory(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the files next to the model, or there are too many");
}

/* Adds a companion without bytes; its name is copied. NULL when there is no space. */
static companions_file *companions_add(coffer_companions *all, const char *name)
{
    const size_t name_size = strlen(name) + 1;
    if (all->count == all->capacity && all->capacity < COMPANIONS_MAX) {
        const size_t capacity = all->capacity == 0 ? 16 : 2 * all->capacity;
        companions_file *files =
            coffer__realloc(&all->allocator, all->files, all->capacity * sizeof *files, capacity * sizeof *files);
        all->capacity = files != NULL ? capacity : all->capacity;
        all->files = files != NULL ? files : all->files;
    }
    char *copy = all->count < all->capacity ? coffer__alloc(&all->allocator, name_size) : NULL;
    if (copy == NULL) {
        all->failed = true;
        return NULL;
    }
    memcpy(copy, name, name_size);
    all->files[all->count] = (companions_file){ .shown.name = copy, .name = copy };
    return &all->files[all->count++];
}

/* Space for the bytes of a file, also of an empty one. */
static bool companions_make_space(const coffer_companions *all, companions_file *file, size_t size)
{
    file->bytes = coffer__alloc(&all->allocator, size + (size == 0));
    file->shown.bytes = file->bytes;
    file->shown.size = size;
    return file->bytes != NULL;
}

static bool companions_see(void *ctx, const char *name)
{
    coffer_companions *all = ctx;
    return !coffer_is_companion(name) || companions_add(all, name) != NULL;
}

static bool companions_before(const void *ctx, uint32_t a, uint32_t b)
{
    const companions_file *files = ctx;
    return strcmp(files[a].name, files[b].name) < 0;
}

/* In byte order, since that of a listing is the file system's. */
static coffer_status companions_sort(coffer_companions *all, coffer_error *err)
{
    uint32_t order[COMPANIONS_MAX];
    const size_t size = all->count * sizeof *all->files;
    companions_file *sorted = coffer__alloc(&all->allocator, size + 1);
    if (sorted == NULL) {
        return companions_no_memory(err);
    }
    for (size_t i = 0; i < all->count; i++) {
        order[i] = (uint32_t)i;
    }
    coffer__sort(order, all->count, companions_before, all->files);
    for (size_t i = 0; i < all->count; i++) {
        sorted[i] = all->files[order[i]];
    }
    memcpy(all->files, sorted, size);
    coffer__free(&all->allocator, sorted, size + 1);
    return COFFER_OK;
}

/* Reads a file of the folder, which may be a link, as in the Hub's cache. What cannot be read, or is no file, stays
   without bytes; only a lack of memory is a failure. */
static coffer_status companions_read_near(const coffer_companions *all, companions_file *file,
                                          const coffer__path *folder, coffer_error *err)
{
    coffer__path path = *folder;
    coffer__os_info info;
    coffer__whole whole;
    if (!coffer__path_append(&path, file->name, strlen(file->name)) ||
        coffer__os_inspect(path.text, true, &info) != 0 || info.kind != COFFER__OS_REGULAR) {
        return COFFER_OK;
    }
    const coffer_status status =
        coffer__model_dir_read(path.text, NULL, COFFER_COMPANION_MAX, &all->allocator, &whole, err);
    if (status != COFFER_OK) {
        return status == COFFER_ERR_MEMORY ? coffer__fail_path(err, status, path.text) : COFFER_OK;
    }
    if (whole.bytes == NULL) {
        return companions_make_space(all, file, 0) ? COFFER_OK : companions_no_memory(err);
    }
    file->bytes = whole.bytes;
    file->shown.bytes = whole.bytes;
    file->shown.size = whole.size;
    return COFFER_OK;
}

/* `folder` ends in a slash, or is "". */
static coffer_status companions_list(coffer_companions *all, const coffer__path *folder, coffer_error *err)
{
    const char *shown = folder->text[0] != '\0' ? folder->text : ".";
    const int os_error = coffer__os_list(shown, companions_see, all);
    if (all->failed || os_error == ENOMEM) {
        return companions_no_memory(err);
    }
    if (os_error != 0) {
        return coffer__errno_status(err, "list the folder", shown, os_error);
    }
    coffer_status status = companions_sort(all, err);
    for (size_t i = 0; i < all->count && status == COFFER_OK; i++) {
        status = companions_read_near(all, &all->files[i], folder, err);
    }
    return status;
}

/* One of the files that a fetch would download. */
static coffer_status companions_read_far(coffer_companions *all, const coffer__beside_file *file, coffer_error *err)
{
    companions_file *added = companions_add(all, file->name);
    if (added != NULL && file->source.size > COFFER_COMPANION_MAX) {
        return COFFER_OK;
    }
    const size_t size = (size_t)file->source.size;
    if (added == NULL || !companions_make_space(all, added, size)) {
        return companions_no_memory(err);
    }
    return size == 0 ? COFFER_OK : coffer__source_read(&file->source, 0, added->bytes, size, err);
}

static coffer_status companions_fetch(coffer_companions *all, const coffer *model, coffer_error *err)
{
    const coffer_fetch_options options = COFFER_FETCH_OPTIONS_INIT;
    coffer__beside *beside = NULL;
    coffer_status status = coffer__beside_open(&beside, model, &options, err);
    const coffer__beside_file *file = NULL;
    for (size_t i = 0; status == COFFER_OK && (file = coffer__beside_at(beside, i)) != NULL; i++) {
        status = file->there ? companions_read_far(all, file, err) : COFFER_OK;
    }
    coffer__beside_close(beside);
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static coffer_status companions_of_model(coffer_companions *all, const coffer *model, coffer_error *err)
{
    coffer__model_dir place;
    if (model->shards->path == NULL || model->shards->path[0] == '\0') {
        return COFFER_OK;
    }
    const coffer_status status = coffer__model_dir_of(model, &place, err);
    if (status != COFFER_OK) {
        return status;
    }
    return place.web != NULL ? companions_fetch(all, model, err) : companions_list(all, &place.given, err);
}

static coffer_status companions_of_path(coffer_companions *all, const char *path, coffer_error *err)
{
    coffer__path folder;
    coffer__os_info info;
    const bool is_folder = coffer__os_inspect(path, true, &info) == 0 && info.kind == COFFER__OS_DIRECTORY;
    const bool fits = is_folder ? coffer__path_copy(&folder, path) && coffer__path_append(&folder, "/", 1)
                                : coffer__path_directory(&folder, path);
    const size_t len = fits ? strlen(folder.text) : 0;
    /* "." is how a path without a folder is answered. */
    if (!fits || (len > 0 && folder.text[len - 1] != '/' && !coffer__path_append(&folder, "/", 1))) {
        return coffer__errno_status(err, "list the folder", path, ENAMETOOLONG);
    }
    return companions_list(all, &folder, err);
}

coffer_status coffer_companions_read(coffer_companions **companions, const coffer *model, const char *path,
                                     coffer_error *err)
{
    if (companions == NULL || (model == NULL && path == NULL)) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "there is no model, or no place for its companions");
    }
    *companions = NULL;
    const coffer_allocator allocator = model != NULL ? model->allocator : *coffer_libc_allocator();
    coffer_companions *all = coffer__alloc_zeroed(&allocator, sizeof *all);
    if (all == NULL) {
        return companions_no_memory(err);
    }
    all->allocator = allocator;
    const coffer_status status =
        model != NULL ? companions_of_model(all, model, err) : companions_of_path(all, path, err);
    if (status != COFFER_OK) {
        coffer_companions_free(all);
        return status;
    }
    *companions = all;
    return COFFER_OK;
}

const coffer_companion *coffer_companions_at(const coffer_companions *companions, size_t i)
{
    return companions != NULL && i < companions->count ? &companions->files[i].shown : NULL;
}

void coffer_companions_free(coffer_companions *companions)
{
    if (companions == NULL) {
        return;
    }
    const coffer_allocator allocator = companions->allocator;
    for (size_t i = 0; i < companions->count; i++) {
        const companions_file *file = &companions->files[i];
        coffer__free(&allocator, file->bytes, file->shown.size + (file->shown.size == 0));
        coffer__free(&allocator, file->name, strlen(file->name) + 1);
    }
    coffer__free(&allocator, companions->files, companions->capacity * sizeof *companions->files);
    coffer__free(&allocator, companions, sizeof *companions);
}
