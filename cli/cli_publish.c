/* SPDX-License-Identifier: Apache-2.0 */
/* A file that takes its place when it is complete: see cli_publish.h for the contract. */
#include "cli_publish.h"

#include "cli_interrupt.h"
#include "cli_report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUFFIX ".coffer-XXXXXX"

static int fail(cli *app, const char *path, int error)
{
    const char *next_step = error == ENOENT   ? "; make its directory first"
                            : error == ENOSPC ? "; make room, or write it elsewhere"
                            : error == EACCES ? "; write it elsewhere, or ask for permission"
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

/* Opens a file of a free name beside `path`. Returns its descriptor, or -1 with errno set. */
static int open_temporary(cli_publish *file, mode_t mode)
{
    const size_t size = strlen(file->path) + sizeof SUFFIX;
    file->temporary = malloc(size);
    if (file->temporary == NULL) {
        errno = ENOMEM;
        return -1;
    }
    snprintf(file->temporary, size, "%s" SUFFIX, file->path);
    const int fd = mkstemp(file->temporary);
    if (fd >= 0 && fchmod(fd, mode) != 0) {
        close(fd);
        unlink(file->temporary);
        return -1;
    }
    return fd;
}

int cli_publish_check(cli *app, const char *path, bool force)
{
    struct stat about;
    if (force || stat(path, &about) != 0 || !S_ISREG(about.st_mode)) {
        return CLI_EXIT_OK;
    }
    coffer_error err = { .code = COFFER_ERR_IO, .os_error = EEXIST, .offset = COFFER_NO_OFFSET };
    snprintf(err.message, sizeof err.message, "there is a file of that name already; -f overwrites it");
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
        fd = open_temporary(file, file->replaces ? about.st_mode & 07777 : usual_mode());
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
    /* As with files of tensors: what replaces a file is durable before it does. */
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
