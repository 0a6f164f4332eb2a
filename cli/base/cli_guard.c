/* SPDX-License-Identifier: Apache-2.0 */
/* What no command may destroy by a slip: see cli_guard.h for the contract. */
#include "cli_guard.h"

#include "cli_folder.h"
#include "cli_report.h"
#include "cli_text.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GUARD_PATH_MAX 4096 /* bytes of a path, on almost every system */

/* What holds data: a device such as /dev/null may well be read and written. */
static bool holds_data(const struct stat *about)
{
    return S_ISREG(about->st_mode) || S_ISBLK(about->st_mode);
}

static bool is_same_file(const char *output, const char *input)
{
    struct stat written;
    struct stat read;
    const int found = strcmp(input, "-") == 0 ? fstat(STDIN_FILENO, &read) : stat(input, &read);
    return found == 0 && stat(output, &written) == 0 && holds_data(&written) && written.st_dev == read.st_dev &&
           written.st_ino == read.st_ino;
}

int cli_guard_input(cli *app, const char *output, const char *input)
{
    return is_same_file(output, input) ? cli_guard_refuse(app, output, input) : CLI_EXIT_OK;
}

int cli_guard_refuse(cli *app, const char *output, const char *input)
{
    char name[160];
    char also[sizeof name + 4] = "";
    coffer_error err = { .code = COFFER_ERR_IO, .os_error = EEXIST, .offset = COFFER_NO_OFFSET };
    if (strcmp(input, output) != 0) {
        coffer_escape(input, strlen(input), name, sizeof name);
        snprintf(also, sizeof also, ", %s", strcmp(input, "-") == 0 ? "standard input" : name);
    }
    snprintf(err.message, sizeof err.message,
             "the command reads this file%s, and writing it would destroy the input: name another file", also);
    return cli_fail(app, output, &err);
}

/* The index of a model that was opened by its folder is beside its files, under a name that nobody gave. */
static int guard_indices(cli *app, const char *output, const char *file)
{
    const char *slash = cli_last_slash(file);
    const int folder_len = slash != NULL ? (int)(slash - file) + 1 : 0;
    char folder[GUARD_PATH_MAX];
    char index[GUARD_PATH_MAX + 256];
    int code = CLI_EXIT_OK;
    snprintf(folder, sizeof folder, "%.*s", folder_len, folder_len > 0 ? file : "");
    DIR *entries = opendir(folder_len > 0 ? folder : ".");
    const struct dirent *entry = NULL;
    /* Only the main thread looks. */
    /* cppcheck-suppress readdirCalled */
    while (entries != NULL && code == CLI_EXIT_OK && (entry = readdir(entries)) != NULL) {
        if (coffer_is_index(entry->d_name)) {
            snprintf(index, sizeof index, "%s%s", folder, entry->d_name);
            code = cli_guard_input(app, output, index);
        }
    }
    if (entries != NULL) {
        closedir(entries);
    }
    return code;
}

bool cli_guard_is_in_folder(const char *output, const char *file)
{
    const char *slash = cli_is_folder(file) ? file + strlen(file) : cli_last_slash(file);
    struct stat written;
    struct stat read;
    char folder[GUARD_PATH_MAX];
    snprintf(folder, sizeof folder, "%.*s", slash != NULL ? (int)(slash - file) + (*slash != '\0') : 1,
             slash != NULL ? file : ".");
    return stat(output, &written) == 0 && S_ISDIR(written.st_mode) && stat(folder, &read) == 0 &&
           written.st_dev == read.st_dev && written.st_ino == read.st_ino;
}

/* A whole model is never written to the folder of one that is read. */
static int guard_folder(cli *app, const char *output, const coffer *model)
{
    coffer_error err = { .code = COFFER_ERR_IO, .os_error = EEXIST, .offset = COFFER_NO_OFFSET };
    bool inside = false;
    for (size_t i = 0; i < coffer_shard_count(model) && !inside; i++) {
        const char *file = coffer_shard_path(model, i);
        inside = file[0] != '\0' && strstr(file, "://") == NULL && cli_guard_is_in_folder(output, file);
    }
    snprintf(err.message, sizeof err.message,
             "the command reads a model in this folder, and would replace files of it: name another folder");
    return inside ? cli_fail(app, output, &err) : CLI_EXIT_OK;
}

int cli_guard_model(cli *app, const char *output, const char *path, const coffer *model)
{
    int code = output != NULL ? guard_folder(app, output, model) : CLI_EXIT_OK;
    if (output == NULL || code != CLI_EXIT_OK) {
        return code;
    }
    code = cli_guard_input(app, output, path);
    if (code == CLI_EXIT_OK && cli_is_folder(path)) {
        code = guard_indices(app, output, coffer_shard_path(model, 0));
    }
    for (size_t i = 0; code == CLI_EXIT_OK && i < coffer_shard_count(model); i++) {
        code = cli_guard_input(app, output, coffer_shard_path(model, i));
    }
    return code;
}

/* The bits of the mode count for root, too, who may write everything. */
static bool is_read_only(const char *path)
{
    struct stat about;
    const bool found = stat(path, &about) == 0 && S_ISREG(about.st_mode);
    return found && ((about.st_mode & 0222) == 0 || (access(path, W_OK) != 0 && (errno == EACCES || errno == EPERM)));
}

int cli_guard_read_only(cli *app, const char *path, bool force)
{
    if (force || !is_read_only(path)) {
        return CLI_EXIT_OK;
    }
    coffer_error err = { .code = COFFER_ERR_IO, .os_error = EACCES, .offset = COFFER_NO_OFFSET };
    snprintf(err.message, sizeof err.message, "the file is read-only; change a copy, or allow it (-f)");
    return cli_fail(app, path, &err);
}

int cli_guard_link(cli *app, const char *path, bool force)
{
    struct stat about;
    if (force || lstat(path, &about) != 0) {
        return CLI_EXIT_OK; /* opening it will say why */
    }
    const bool link = S_ISLNK(about.st_mode);
    if (!link && !(S_ISREG(about.st_mode) && about.st_nlink > 1)) {
        return CLI_EXIT_OK;
    }
    coffer_error err = { .code = COFFER_ERR_LINKED, .offset = COFFER_NO_OFFSET };
    snprintf(err.message, sizeof err.message,
             "%s, so others see it under another name; write another file (-o), or allow it (-f)",
             link ? "this is a symbolic link" : "the file has several names (hard links)");
    return cli_fail(app, path, &err);
}
