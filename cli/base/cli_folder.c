/* SPDX-License-Identifier: Apache-2.0 */
/* The files below a folder: see cli_folder.h for the contract. */
#include "cli_folder.h"

#include "cli_report.h"
#include "cli_text.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Folders that are still to be read, and the list that is being filled. */
typedef struct folder_walk {
    cli *app;
    const cli_folder_rule *rule;
    cli_folder *folder;
    size_t root_len; /* of the root and its slash: where names begin in paths */
    char **pending;
    size_t pending_count;
    size_t pending_capacity;
    int code;
} folder_walk;

static void walk_trouble(folder_walk *walk, const char *path, const char *what)
{
    walk->folder->trouble++;
    walk->code = CLI_EXIT_UNREADABLE;
    if (!walk->rule->needs_all) {
        cli_say_path(walk->app, path, "%s", what);
        return;
    }
    coffer_error err = { .code = COFFER_ERR_NOT_REGULAR, .offset = COFFER_NO_OFFSET };
    snprintf(err.message, sizeof err.message, "%s", what);
    (void)cli_fail(walk->app, path, &err);
}

/* PATH/NAME, to be freed; NULL without memory. */
static char *path_in(const char *path, const char *name)
{
    const size_t path_len = strlen(path);
    const bool slash = path_len > 0 && !cli_is_slash(path[path_len - 1]);
    const size_t size = path_len + strlen(name) + 2;
    char *joined = malloc(size);
    if (joined != NULL) {
        snprintf(joined, size, "%s%s%s", path, slash ? "/" : "", name);
    }
    return joined;
}

static bool walk_reserve(folder_walk *walk, void **block, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity) {
        return true;
    }
    const size_t grown = *capacity == 0 ? 64 : 2 * *capacity;
    void *moved = grown < SIZE_MAX / size ? realloc(*block, grown * size) : NULL;
    if (moved == NULL) {
        walk_trouble(walk, "", "out of memory");
        return false;
    }
    *block = moved;
    *capacity = grown;
    return true;
}

/* Takes the path; false without memory. */
static bool walk_add_folder(folder_walk *walk, char *path)
{
    void *block = walk->pending;
    const bool capacity =
        walk_reserve(walk, &block, walk->pending_count, &walk->pending_capacity, sizeof *walk->pending);
    walk->pending = block;
    if (capacity) {
        walk->pending[walk->pending_count++] = path;
    }
    return capacity;
}

static bool walk_add_file(folder_walk *walk, char *path, uint64_t size)
{
    cli_folder *folder = walk->folder;
    void *block = folder->files;
    const bool capacity = walk_reserve(walk, &block, folder->count, &folder->capacity, sizeof *folder->files);
    folder->files = block;
    if (capacity) {
        cli_folder_file *file = &folder->files[folder->count++];
        file->path = path;
        file->name = path + walk->root_len;
        file->size = size;
    }
    return capacity;
}

/* What becomes of one thing in a folder. Takes the path. */
static void walk_take(folder_walk *walk, char *path)
{
    struct stat about;
    struct stat target;
    bool kept = false;
    if (walk->rule->leaves_out != NULL && walk->rule->leaves_out(walk->rule->ctx, path + walk->root_len)) {
        free(path);
        return;
    }
    if (lstat(path, &about) != 0) {
        walk_trouble(walk, path, strerror(errno));
    } else if (S_ISREG(about.st_mode)) {
        kept = walk_add_file(walk, path, (uint64_t)about.st_size);
    } else if (S_ISDIR(about.st_mode)) {
        kept = walk_add_folder(walk, path);
    } else if (!S_ISLNK(about.st_mode)) {
        walk_trouble(walk, path, "is neither a file nor a folder");
    } else if (!walk->rule->follows_links) {
        walk_trouble(walk, path, "is a symbolic link; --follow-links uses its target as the file");
    } else if (stat(path, &target) != 0 || !(S_ISREG(target.st_mode) || S_ISDIR(target.st_mode))) {
        walk_trouble(walk, path, "is a symbolic link whose target is not a file");
    } else if (S_ISREG(target.st_mode)) {
        kept = walk_add_file(walk, path, (uint64_t)target.st_size);
    } else if (walk->rule->needs_all) {
        walk_trouble(walk, path, "links to a folder, whose files are left out: name that folder, too");
    } else {
        cli_remark_path(walk->app, path, "links to a folder, whose files are left out");
    }
    if (!kept) {
        free(path);
    }
}

/* In order of their names, so that trouble is told in the same order every time. */
static void walk_read(folder_walk *walk, const char *path)
{
    struct dirent **entries = NULL;
    const int count = scandir(path, &entries, NULL, alphasort);
    if (count < 0) {
        walk_trouble(walk, path, strerror(errno));
        return;
    }
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
            char *child = path_in(path, name);
            if (child != NULL) {
                walk_take(walk, child);
            } else {
                walk_trouble(walk, path, "out of memory");
            }
        }
        free(entries[i]);
    }
    free(entries);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const cli_folder_file *)a)->name, ((const cli_folder_file *)b)->name);
}

int cli_folder_list(cli *app, const char *path, const cli_folder_rule *rule, cli_folder *folder)
{
    *folder = (cli_folder){ .count = 0 };
    folder_walk walk = { .app = app, .rule = rule, .folder = folder };
    const size_t path_len = strlen(path);
    walk.root_len = path_len + (path_len > 0 && cli_is_slash(path[path_len - 1]) ? 0 : 1);
    walk_read(&walk, path);
    while (walk.pending != NULL && walk.pending_count > 0) {
        char *next = walk.pending[--walk.pending_count];
        walk_read(&walk, next);
        free(next);
    }
    free(walk.pending);
    if (folder->count > 0) {
        qsort(folder->files, folder->count, sizeof *folder->files, by_name);
    }
    return walk.code;
}

void cli_folder_free(cli_folder *folder)
{
    for (size_t i = 0; i < folder->count; i++) {
        free(folder->files[i].path);
    }
    free(folder->files);
    *folder = (cli_folder){ .count = 0 };
}

const char *cli_shown_path(const char *path)
{
    return strncmp(path, "./", 2) == 0 && path[2] != '\0' ? path + 2 : path;
}

bool cli_is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

char *cli_name_below(const char *folder, const char *path)
{
    const char *slash = cli_last_slash(path);
    const char *last = slash != NULL ? slash + 1 : path;
    char *parent = slash != NULL ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    char *real_parent = parent != NULL ? realpath(parent, NULL) : NULL;
    char *real_folder = realpath(folder, NULL);
    char *name = NULL;
    if (real_parent != NULL && real_folder != NULL) {
        const size_t len = strlen(real_folder);
        const bool is_root = real_folder[len - 1] == '/';
        if (strncmp(real_parent, real_folder, len) == 0 &&
            (is_root || real_parent[len] == '\0' || real_parent[len] == '/')) {
            const char *rest = real_parent + len + (!is_root && real_parent[len] == '/' ? 1 : 0);
            name = *rest != '\0' ? path_in(rest, last) : strdup(last);
        }
    }
    free(real_folder);
    free(real_parent);
    free(parent);
    return name;
}
