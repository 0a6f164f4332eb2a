/* SPDX-License-Identifier: Apache-2.0 */
/* A file that takes its place when it is complete: see cli_publish.h for the contract. */
#include "cli_publish.h"

#include "cli_interrupt.h"
#include "cli_report.h"
#include "cli_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUFFIX ".coffer-XXXXXX"
#define FILE_NAME_MAX 255 /* bytes in a file's name, on almost every file system */

static int fail(cli *app, const char *path, int error)
{
    if (error == EINTR && cli_interrupted()) {
        return CLI_EXIT_UNREADABLE; /* of which nobody hears: the process ends by the signal */
    }
    const char *next_step = error == ENOENT   ? "; make its directory first"
                            : error == ENOSPC ? "; free some space, or write it elsewhere"
                            : error == EACCES ? "; write it elsewhere, or ask for permission"
                            : error == EROFS  ? "; write it elsewhere"
                            : error == EFBIG  ? "; write it where files may be larger (see ulimit -f)"
                            : error == EISDIR ? "; name a file in it"
                                              : "";
    cli_say_path(app, path, "cannot write the file: %s%s", strerror(error), next_step);
    return CLI_EXIT_UNREADABLE;
}

/* What a new file's mode is: the umask can be asked only by setting it. */
static mode_t usual_mode(void)
{
    const mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

/* Opens a file of a free name beside `path`, .NAME.coffer-XXXXXX, or without NAME where that would
   be too long. Returns its descriptor, or -1 with errno set. */
static int open_temporary(cli_publish *file, mode_t mode)
{
    const char *slash = cli_last_slash(file->path);
    const char *name = slash != NULL ? slash + 1 : file->path;
    const bool named = strlen(name) + sizeof SUFFIX <= FILE_NAME_MAX;
    const size_t size = strlen(file->path) + sizeof "." SUFFIX;
    file->temporary = malloc(size);
    if (file->temporary == NULL) {
        errno = ENOMEM;
        return -1;
    }
    snprintf(file->temporary, size, "%.*s%s%s" SUFFIX, (int)(name - file->path), file->path, named ? "." : "",
             named ? name : "");
    const int fd = mkstemp(file->temporary);
    if (fd >= 0 && fchmod(fd, mode) != 0) {
        close(fd);
        unlink(file->temporary);
        return -1;
    }
    return fd;
}

/* /dev/stdout and its like: links that a new file would replace, for everybody on the machine. */
static bool is_descriptor(const char *path)
{
    static const char *const beginnings[] = { "/dev/std", "/dev/fd/", "/proc/" };
    bool found = false;
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
        found = found || strncmp(path, beginnings[i], strlen(beginnings[i])) == 0;
    }
    return found;
}

/* Why there must not be a new file of that name; NULL when there may. */
static const char *why_no_file(const char *path, bool force)
{
    struct stat about;
    struct stat behind;
    if (lstat(path, &about) != 0) {
        return NULL;
    }
    if (stat(path, &behind) != 0) {
        return force ? NULL : "a dangling symbolic link of that name exists already; -f replaces it";
    }
    if (!S_ISREG(behind.st_mode)) {
        return NULL;
    }
    if (is_descriptor(path)) {
        return "this is a descriptor of this process, which a new file cannot replace; name the file itself";
    }
    return force ? NULL : "a file of that name exists already; -f overwrites it";
}

int cli_publish_check_name(cli *app, const char *path)
{
    return path[0] == '\0' || strcmp(path, "-") == 0 ? cli_usage_error(app, "-o wants the name of a file")
                                                     : CLI_EXIT_OK;
}

int cli_publish_check(cli *app, const char *path, bool force)
{
    if (path[0] == '\0') {
        return cli_usage_error(app, "the output file has an empty name");
    }
    const char *reason = why_no_file(path, force);
    if (reason == NULL) {
        return CLI_EXIT_OK;
    }
    coffer_error err = { .code = COFFER_ERR_IO, .os_error = EEXIST, .offset = COFFER_NO_OFFSET };
    snprintf(err.message, sizeof err.message, "%s", reason);
    return cli_fail(app, path, &err);
}

int cli_publish_folder(cli *app, const char *path, bool *made)
{
    *made = mkdir(path, 0777) == 0;
    if (*made || errno == EEXIST) {
        return CLI_EXIT_OK;
    }
    coffer_error err = { .code = COFFER_ERR_IO, .os_error = errno, .offset = COFFER_NO_OFFSET };
    snprintf(err.message, sizeof err.message, "cannot make the folder: %s", strerror(errno));
    return cli_fail(app, path, &err);
}

int cli_publish_open(cli *app, cli_publish *file, const char *path)
{
    struct stat about;
    *file = (cli_publish){ .path = path, .out = malloc(sizeof *file->out) };
    const bool exists = stat(path, &about) == 0;
    file->replaces = exists && S_ISREG(about.st_mode);
    int fd = -1;
    if (file->out == NULL) {
        errno = ENOMEM;
    } else if (exists && !file->replaces) {
        fd = open(path, O_WRONLY | O_CLOEXEC);
    } else {
        /* What replaces a file may have to be as secret as that is. */
        fd = open_temporary(file, file->replaces ? 0600 : usual_mode());
    }
    if (fd < 0) {
        const int error = errno;
        free(file->out);
        free(file->temporary);
        return fail(app, path, error);
    }
    cli_output_init(file->out, fd);
    file->out->before = app->out.before;
    file->out->before_ctx = app->out.before_ctx;
    return CLI_EXIT_OK;
}

/* Puts the complete file into its place: 0, or the errno of what failed. */
static int publish(const cli_publish *file)
{
    /* As with files of tensors: what replaces a file is as open to others as that was, and durable before it does. */
    coffer_error err;
    if (file->replaces && coffer_take_rights(file->out->fd, file->path, &err) != COFFER_OK &&
        err.code != COFFER_ERR_NOT_FOUND) {
        return err.os_error;
    }
    if (file->replaces && fsync(file->out->fd) != 0) {
        return errno;
    }
    return rename(file->temporary, file->path) == 0 ? 0 : errno;
}

int cli_publish_close(cli *app, cli_publish *file, int code)
{
    cli_output_flush(file->out);
    int error = file->out->error;
    const bool publishes = code == CLI_EXIT_OK && error == 0 && file->temporary != NULL && !cli_interrupted();
    if (publishes) {
        error = publish(file);
    }
    if (file->temporary != NULL && (!publishes || error != 0)) {
        unlink(file->temporary);
    }
    if (close(file->out->fd) != 0 && error == 0) {
        error = errno;
    }
    free(file->out);
    free(file->temporary);
    return code == CLI_EXIT_OK && error != 0 && !cli_interrupted() ? fail(app, file->path, error) : code;
}
