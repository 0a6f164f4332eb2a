/* SPDX-License-Identifier: Apache-2.0 */
/* Opening files: see cli_files.h for the contract. */
#include "cli_files.h"

#include "cli_folder.h"
#include "cli_import.h"
#include "cli_interrupt.h"
#include "cli_parallel.h"
#include "cli_part.h"
#include "cli_pipeline.h"
#include "cli_progress.h"
#include "cli_report.h"
#include "cli_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIPE_FIRST (1u << 20) /* bytes of the first buffer for a pipe */

/* ---- Standard input ---- */

/* A pipe's bytes; coffer_close releases them. */
typedef struct pipe_bytes {
    unsigned char *bytes;
    size_t size;
    size_t capacity;
} pipe_bytes;

static coffer_status stdin_failed(coffer_error *err, coffer_status code, const char *message)
{
    *err = (coffer_error){ .code = code, .offset = COFFER_NO_OFFSET, .path = "-" };
    err->os_error = code == COFFER_ERR_IO ? errno : 0;
    if (err->os_error != 0) {
        snprintf(err->message, sizeof err->message, "%s (errno %d)", message, (int)err->os_error);
    } else {
        snprintf(err->message, sizeof err->message, "%s", message);
    }
    return code;
}

static void free_pipe(void *ctx)
{
    pipe_bytes *pipe = ctx;
    free(pipe->bytes);
    free(pipe);
}

static coffer_status read_pipe_at(void *ctx, uint64_t offset, void *buffer, size_t size, coffer_error *err)
{
    const pipe_bytes *pipe = ctx;
    (void)err;
    memcpy(buffer, pipe->bytes + offset, size);
    return COFFER_OK;
}

static bool grow_pipe(pipe_bytes *pipe)
{
    const size_t capacity = pipe->capacity == 0 ? PIPE_FIRST : pipe->capacity * 2;
    unsigned char *bytes = capacity < pipe->capacity ? NULL : realloc(pipe->bytes, capacity);
    if (bytes == NULL) {
        return false;
    }
    pipe->bytes = bytes;
    pipe->capacity = capacity;
    return true;
}

static coffer_status fill_pipe(pipe_bytes *pipe, coffer_error *err)
{
    for (;;) {
        if (pipe->size == pipe->capacity) {
            const uint64_t capacity = pipe->capacity; /* where sizes have 32 bits there is no such pipe */
            if (capacity >= CLI_PIPE_MAX) {
                return stdin_failed(err, COFFER_ERR_UNSUPPORTED,
                                    "standard input is a pipe, which is read into memory, and has more than 4 GiB; "
                                    "write it to a file first");
            }
            if (!grow_pipe(pipe)) {
                return stdin_failed(
                    err, COFFER_ERR_MEMORY,
                    "no memory for standard input, which is a pipe and is read into memory; write it to a "
                    "file first");
            }
        }
        if (!cli_wait_for_input()) {
            return stdin_failed(err, COFFER_ERR_CANCELLED, "cancelled");
        }
        const ssize_t got = read(STDIN_FILENO, pipe->bytes + pipe->size, pipe->capacity - pipe->size);
        if (got == 0) {
            return COFFER_OK;
        }
        if (got < 0 && errno != EINTR) {
            return stdin_failed(err, COFFER_ERR_IO, "cannot read standard input");
        }
        pipe->size += got > 0 ? (size_t)got : 0;
    }
}

static coffer_status open_pipe(coffer **model, const coffer_open_options *options, coffer_error *err)
{
    pipe_bytes *pipe = calloc(1, sizeof *pipe);
    if (pipe == NULL) {
        return stdin_failed(err, COFFER_ERR_MEMORY, "out of memory");
    }
    const coffer_status status = fill_pipe(pipe, err);
    if (status != COFFER_OK) {
        free_pipe(pipe);
        return status;
    }
    const coffer_source source = { .read_at = read_pipe_at, .close = free_pipe, .ctx = pipe, .size = pipe->size };
    return coffer_open_source(model, &source, options, err);
}

static coffer_status open_stdin(coffer **model, const coffer_open_options *options, coffer_error *err)
{
    struct stat about;
    if (isatty(STDIN_FILENO)) {
        return stdin_failed(err, COFFER_ERR_NOT_REGULAR,
                            "standard input is a terminal; give it a file (< FILE), or name the file instead of -");
    }
    const int ways = fcntl(STDIN_FILENO, F_GETFL);
    if (ways < 0 || (ways & O_ACCMODE) == O_WRONLY || fstat(STDIN_FILENO, &about) != 0) {
        errno = EBADF;
        return stdin_failed(err, COFFER_ERR_IO, "standard input is closed; give it a file (< FILE)");
    }
    const off_t position = S_ISREG(about.st_mode) ? lseek(STDIN_FILENO, 0, SEEK_CUR) : -1;
    return position < 0 ? open_pipe(model, options, err)
                        : coffer_open_fd(model, STDIN_FILENO, (uint64_t)position, UINT64_MAX, options, err);
}

/* ---- One file, and many ---- */

coffer_status cli_open_with(coffer **model, const char *path, const coffer_open_options *options, coffer_error *err)
{
    cli_part part;
    *model = NULL;
    if (strcmp(path, "-") == 0) {
        return open_stdin(model, options, err);
    }
    const coffer_status status = cli_part_find(&part, path, err);
    if (status != COFFER_OK || part.path == NULL) {
        return status != COFFER_OK ? status : coffer_open(model, path, options, err);
    }
    const coffer_status opened = coffer_open(model, part.path, options, err);
    cli_part_free(&part);
    return opened;
}

static coffer_open_options options_of(coffer_access access, coffer_formats formats, bool all_notes, bool partial)
{
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.access = access;
    options.all_notes = all_notes;
    options.partial = partial;
    options.progress = cli_progress_unseen; /* while a server is waited for */
    options.formats = formats;
    options.importer = cli_import_confined;
    return options;
}

coffer_status cli_open_quietly(coffer **model, const char *path, bool all_notes, coffer_error *err)
{
    const coffer_open_options options = options_of(COFFER_READ, COFFER_FORMATS_OWN, all_notes, false);
    return cli_open_with(model, path, &options, err);
}

coffer_status cli_open_any(coffer **model, const char *path, coffer_error *err)
{
    const coffer_open_options options = options_of(COFFER_READ, COFFER_FORMATS_ALL, true, false);
    return cli_open_with(model, path, &options, err);
}

/* What a model's file is called below the path that was named; NULL where it is elsewhere. */
static const char *below(const char *path, const coffer *model)
{
    const char *file = coffer_shard_path(model, 0);
    const size_t path_len = strlen(path);
    const bool is = path_len > 0 && strncmp(file, path, path_len) == 0 && file[path_len] != '\0';
    return is ? file + path_len + cli_is_slash(file[path_len]) : NULL;
}

bool cli_remark_part(cli *app, const char *url, const coffer *model)
{
    coffer_error err;
    cli_pipeline whole;
    char names[400] = "";
    const char *rest = strstr(url, "://") != NULL && !coffer_is_index(url) ? below(url, model) : NULL;
    if (rest == NULL || strchr(rest, '/') == NULL) {
        return false;
    }
    const int len = (int)strcspn(rest, "/");
    const bool read = cli_pipeline_open(&whole, url, &err) == COFFER_OK;
    for (size_t i = 0; read && i < whole.count; i++) {
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "", whole.parts[i]);
    }
    if (read) {
        cli_remark_path(app, url,
                        "this is a pipeline of %s; only its part %.*s is looked at: name another by its folder, as "
                        "%sPART/",
                        names, len, rest, whole.url);
    }
    cli_pipeline_free(&whole);
    return read;
}

/* Whether the index of the model is directly in the folder, whose files may be in folders below it. */
static bool has_own_index(const char *path, const coffer *model)
{
    const char *index = coffer_index_path(model);
    const size_t len = strlen(path);
    return strncmp(index, path, len) == 0 && index[len] != '\0' && strchr(index + len + 1, '/') == NULL;
}

void cli_remark_choice(cli *app, const char *path, const coffer *model)
{
    const char *file = coffer_shard_path(model, 0);
    const char *inside = below(path, model);
    const char *rest = inside != NULL ? inside : file;
    const bool far = strstr(path, "://") != NULL && !coffer_is_index(path) && strcmp(file, path) != 0;
    char shown[256];
    coffer_escape(rest, strlen(rest), shown, sizeof shown);
    if (cli_remark_part(app, path, model)) {
        return;
    }
    if (far) {
        char more[40] = "";
        const size_t others = coffer_shard_count(model) - 1;
        if (others > 0) {
            snprintf(more, sizeof more, " and %zu more file%s", others, others == 1 ? "" : "s");
        }
        cli_remark_path(app, path, "this is the model in %s%s; nothing else there was looked for", shown, more);
    } else if (inside != NULL && cli_is_folder(path) && strchr(rest, '/') != NULL && !has_own_index(path, model)) {
        cli_remark_path(app, path, "this is the model in %s; coffer info lists the others, and %s:PART names one",
                        shown, path);
    }
}

static coffer *open_or_fail(cli *app, const char *path, coffer_open_options options, int *code)
{
    coffer *model = NULL;
    coffer_error err;
    const coffer_status status = cli_open_with(&model, path, &options, &err);
    *code = status == COFFER_OK ? CLI_EXIT_OK : cli_import_fail(app, path, &err);
    if (status == COFFER_OK && cli_is_folder(path)) {
        cli_remark_choice(app, path, model);
    }
    return model;
}

coffer *cli_open(cli *app, const char *path, bool all_notes, int *code)
{
    return open_or_fail(app, path, options_of(COFFER_READ, COFFER_FORMATS_ALL, all_notes, false), code);
}

coffer *cli_open_partial(cli *app, const char *path, bool partial, int *code)
{
    return open_or_fail(app, path, options_of(COFFER_READ, COFFER_FORMATS_ALL, false, partial), code);
}

coffer *cli_open_to_load(cli *app, const char *path, int *code)
{
    return open_or_fail(app, path, options_of(COFFER_MAP, COFFER_FORMATS_ALL, false, false), code);
}

bool cli_is_single_file(const coffer *model, const char *path)
{
    const char *file = coffer_shard_path(model, 0);
    return coffer_shard_count(model) == 1 && (file[0] == '\0' || strcmp(file, path) == 0);
}

/* A run of cli_each_file. */
typedef struct file_run {
    cli *app;
    const cli_file_work *work;
    cli_file *files;
    cli_progress progress;
    int code;
} file_run;

bool cli_is_packed(const coffer *model)
{
    for (size_t i = 0; i < coffer_shard_count(model); i++) {
        if (coffer_shard_is_packed(model, i)) {
            return true;
        }
    }
    return false;
}

coffer_status cli_missing_file(coffer_error *err)
{
    *err = (coffer_error){ .code = COFFER_ERR_SHARD_MISSING, .offset = COFFER_NO_OFFSET };
    snprintf(err->message, sizeof err->message, "this file of the model does not exist: the download is incomplete");
    return err->code;
}

static void look_into(void *ctx, size_t i)
{
    file_run *run = ctx;
    cli_file *file = &run->files[i];
    if (run->work->missing != NULL && run->work->missing[i]) {
        file->status = cli_missing_file(&file->err);
        return;
    }
    const coffer_formats formats = run->work->any_format ? COFFER_FORMATS_ALL : COFFER_FORMATS_OWN;
    const coffer_open_options options = options_of(COFFER_READ, formats, run->work->all_notes, run->work->partial);
    file->status = cli_open_with(&file->model, file->path, &options, &file->err);
    if (file->status == COFFER_OK && run->work->look != NULL) {
        file->status = run->work->look(run->work->ctx, file);
    }
}

static void show_file(void *ctx, size_t i)
{
    file_run *run = ctx;
    cli_file *file = &run->files[i];
    if (!cli_interrupted()) {
        if (file->status == COFFER_OK) {
            cli_remark_choice(run->app, file->path, file->model);
        }
        run->code = cli_worse(run->code, run->work->show(run->app, run->work->ctx, file));
    }
    if (run->app->out.width > 0) {
        cli_output_flush(&run->app->out); /* so that a user who watches sees it at once */
    }
    coffer_close(file->model);
    free(file->result);
    if (run->work->label != NULL) {
        cli_progress_add(&run->progress, 1);
    }
}

int cli_each_file(cli *app, const cli_file_work *work, const char *const *paths, size_t count)
{
    file_run run = { .app = app, .work = work };
    const cli_jobs jobs = { look_into, show_file, &run };
    run.files = calloc(count + 1, sizeof *run.files);
    if (run.files == NULL) {
        return cli_fail_memory(app, paths[0]);
    }
    for (size_t i = 0; i < count; i++) {
        run.files[i].path = paths[i];
    }
    if (work->label != NULL) {
        cli_progress_begin_count(&run.progress, app, work->label, count);
    }
    if (app->json) {
        cli_json_open(&app->out, '[', true);
    }
    cli_parallel(&jobs, count, cli_processors());
    if (app->json) {
        cli_json_close(&app->out, ']');
    }
    if (work->label != NULL) {
        cli_progress_finish(&run.progress);
    }
    free(run.files);
    return run.code;
}
