/* SPDX-License-Identifier: Apache-2.0 */
/* All models below folders: see cli_models.h for the contract. */
#include "cli_models.h"

#include "cli_folder.h"
#include "cli_report.h"
#include "cli_text.h"
#include "coffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MODELS_MISSING_MAX 1000 /* files of one set that are named; a name alone can claim a million */
#define MODELS_FOREIGN_SHOWN 3

static const char MODELS_INDEX[] = ".safetensors.index.json";
static const char *const MODELS_UNFINISHED[] = { ".index.json.coffer-ready", ".index.json.coffer-old" };
static const char *const MODELS_FOREIGN[] = { ".bin", ".pt",  ".pth", ".ckpt",    ".gguf", ".ggml",       ".onnx",
                                              ".h5",  ".npz", ".npy", ".msgpack", ".pkl",  ".coffer-part" };

static bool ends_in_any(const char *name, const char *const *endings, size_t count)
{
    bool found = false;
    for (size_t i = 0; i < count && !found; i++) {
        found = cli_ends_in(name, endings[i]);
    }
    return found;
}

#define ENDS_IN(name, endings) ends_in_any(name, endings, sizeof(endings) / sizeof(endings)[0])

/* ---- The list ---- */

static bool reserve(cli_models *models)
{
    const size_t capacity = 2 * models->capacity + 16;
    char **paths = realloc(models->paths, capacity * sizeof *paths);
    if (paths == NULL) {
        return false;
    }
    models->paths = paths;
    bool *missing = realloc(models->missing, capacity * sizeof *missing);
    if (missing == NULL) {
        return false;
    }
    models->missing = missing;
    models->capacity = capacity;
    return true;
}

static bool add(cli_models *models, const char *path, bool missing)
{
    if (models->count == models->capacity && !reserve(models)) {
        return false;
    }
    char *copy = strdup(path);
    if (copy == NULL) {
        return false;
    }
    models->paths[models->count] = copy;
    models->missing[models->count++] = missing;
    return true;
}

void cli_models_free(cli_models *models)
{
    for (size_t i = 0; i < models->count; i++) {
        free(models->paths[i]);
    }
    free(models->paths);
    free(models->missing);
    *models = (cli_models){ .count = 0 };
}

/* ---- One folder ---- */

typedef struct models_folder {
    const char *path;
    cli_models *models;
    cli_folder files;
    bool *covered; /* of each file, whether an index or a set that was looked at names it */
    size_t absent; /* files of the set that is being listed which are not there */
    size_t units;  /* indices, sets and files that stand for themselves */
    bool nested;   /* one of them is not directly in the folder, or not one that opening the folder finds */
    size_t foreign;
    char foreign_names[256];
    bool failed; /* without memory */
} models_folder;

/* Keeps what may be tensors, and counts what another program would load. */
static bool leaves_out(const void *ctx, const char *name)
{
    models_folder *folder = *(models_folder *const *)ctx;
    struct stat about;
    char path[4096];
    const int len = snprintf(path, sizeof path, "%s/%s", folder->path, name);
    if (len < 0 || (size_t)len >= sizeof path || lstat(path, &about) != 0 || S_ISDIR(about.st_mode)) {
        return false;
    }
    if (ENDS_IN(name, MODELS_FOREIGN)) {
        const size_t used = strlen(folder->foreign_names);
        if (folder->foreign++ < MODELS_FOREIGN_SHOWN && used < sizeof folder->foreign_names - 8) {
            char shown[sizeof folder->foreign_names];
            coffer_escape(name, strlen(name), shown, sizeof shown);
            snprintf(folder->foreign_names + used, sizeof folder->foreign_names - used, "%s%.70s", used > 0 ? ", " : "",
                     shown);
        }
    }
    return coffer_format_from_path(name) == COFFER_FORMAT_ANY && !ENDS_IN(name, MODELS_UNFINISHED) &&
           !cli_ends_in(name, MODELS_INDEX);
}

static int compare_paths(const void *key, const void *file)
{
    return strcmp(key, ((const cli_folder_file *)file)->path);
}

/* The file's number, or the number of files. They are in order of their names below the folder, and
   so of their paths. */
static size_t number_of(const models_folder *folder, const char *path)
{
    const cli_folder_file *files = folder->files.files;
    const cli_folder_file *found =
        folder->files.count == 0 ? NULL : bsearch(path, files, folder->files.count, sizeof *files, compare_paths);
    return found != NULL ? (size_t)(found - files) : folder->files.count;
}

/* A visitor: what an index names is looked at with it. */
static int cover(void *ctx, const char *path, bool exists)
{
    models_folder *folder = ctx;
    const size_t i = exists ? number_of(folder, path) : folder->files.count;
    if (i < folder->files.count) {
        folder->covered[i] = true;
    }
    return 0;
}

/* A visitor: each file of a set that nobody has looked at yet is a model to look at, and one that
   is missing is, too. */
static int add_of_set(void *ctx, const char *path, bool exists)
{
    models_folder *folder = ctx;
    const size_t i = exists ? number_of(folder, path) : folder->files.count;
    const bool known = i < folder->files.count;
    folder->absent += !exists;
    if (known && folder->covered[i]) {
        return 0;
    }
    if (known) {
        folder->covered[i] = true;
    }
    folder->failed = folder->failed || ((exists || folder->absent <= MODELS_MISSING_MAX) &&
                                        !add(folder->models, cli_shown_path(path), !exists));
    return folder->failed;
}

static void count_unit(models_folder *folder, const char *name)
{
    folder->units++;
    folder->nested = folder->nested || strchr(name, '/') != NULL || name[0] == '.' ||
                     !(cli_ends_in(name, ".safetensors") || cli_ends_in(name, MODELS_INDEX));
}

/* What an index names that cannot be read shows when it is looked at. */
static void cover_by_indices(models_folder *folder)
{
    coffer_error err;
    for (size_t i = 0; i < folder->files.count; i++) {
        if (cli_ends_in(folder->files.files[i].name, MODELS_INDEX)) {
            (void)coffer_list_files(folder->files.files[i].path, NULL, cover, folder, &err);
        }
    }
}

/* A folder with traces of an interrupted save: opening it says so. */
static void add_unfinished(models_folder *folder, const cli_folder_file *file)
{
    char *parent = strndup(file->path, (size_t)(strrchr(file->path, '/') - file->path));
    folder->failed = folder->failed || parent == NULL || !add(folder->models, parent, false);
    free(parent);
}

static void add_file(models_folder *folder, const cli_folder_file *file)
{
    coffer_error err;
    count_unit(folder, file->name);
    if (ENDS_IN(file->name, MODELS_UNFINISHED)) {
        add_unfinished(folder, file);
    } else if (cli_ends_in(file->name, MODELS_INDEX)) {
        folder->failed = folder->failed || !add(folder->models, cli_shown_path(file->path), false);
    } else {
        folder->absent = 0;
        (void)coffer_list_files(file->path, NULL, add_of_set, folder, &err);
    }
}

static void add_files(models_folder *folder)
{
    for (size_t i = 0; i < folder->files.count && !folder->failed; i++) {
        if (!folder->covered[i]) {
            add_file(folder, &folder->files.files[i]);
        }
    }
}

static void tell_foreign(cli *app, const models_folder *folder)
{
    char more[40] = "";
    if (folder->foreign > MODELS_FOREIGN_SHOWN) {
        snprintf(more, sizeof more, " and %zu more", folder->foreign - MODELS_FOREIGN_SHOWN);
    }
    if (folder->foreign > 0) {
        cli_remark_path(app, folder->path, "skipped, since they have other formats or are incomplete: %s%s",
                        folder->foreign_names, more);
    }
}

/* What is directly in the folder and alone there is the folder's model. */
static void stand_for_all(cli_models *models, size_t first, const char *path)
{
    for (size_t i = first; i < models->count; i++) {
        free(models->paths[i]);
    }
    models->count = first;
    (void)add(models, path, false);
}

static bool add_folder(cli *app, const char *path, cli_models *models)
{
    models_folder folder = { .path = path, .models = models };
    models_folder *self = &folder;
    const cli_folder_rule rule = { .follows_links = true, .leaves_out = leaves_out, .ctx = &self };
    const size_t first = models->count;
    models->code = cli_worse(models->code, cli_folder_list(app, path, &rule, &folder.files));
    folder.covered = calloc(folder.files.count + 1, sizeof *folder.covered);
    folder.failed = folder.covered == NULL;
    if (!folder.failed) {
        cover_by_indices(&folder);
        add_files(&folder);
        tell_foreign(app, &folder);
    }
    if (!folder.failed && (folder.units == 0 || (folder.units == 1 && !folder.nested))) {
        stand_for_all(models, first, path);
    }
    cli_folder_free(&folder.files);
    free(folder.covered);
    return !folder.failed;
}

bool cli_models_find(cli *app, const char *const *names, size_t count, cli_models *models)
{
    *models = (cli_models){ .count = 0 };
    bool fine = true;
    for (size_t i = 0; i < count && fine; i++) {
        fine = strcmp(names[i], "-") != 0 && cli_is_folder(names[i]) ? add_folder(app, names[i], models)
                                                                     : add(models, names[i], false);
    }
    if (!fine) {
        models->code = cli_fail_memory(app, names[0]);
    }
    return fine;
}
