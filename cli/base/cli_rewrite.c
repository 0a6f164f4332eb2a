/* SPDX-License-Identifier: Apache-2.0 */
/* Rewriting a file: see cli_rewrite.h for the contract. */
#include "cli_rewrite.h"

#include "cli_consent.h"
#include "cli_files.h"
#include "cli_guard.h"
#include "cli_options.h"
#include "cli_publish.h"
#include "cli_report.h"
#include "cli_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LEAST_ALIGNMENT 8
#define MOST_ALIGNMENT 4096 /* that is worth keeping: a page */
#define NAMES_MOST 3        /* of tensors that change, in a message */
#define NAME_MOST 80        /* bytes of each */
#define CHANGES_SIZE 4096   /* of a text that says which change */
#define LINES_MOST 20       /* of changes before a question */

/* The new file, as it was named. */
static const char *new_name(const cli_rewrite *rewrite)
{
    return rewrite->output != NULL ? rewrite->output : rewrite->path;
}

/* ---- Failing ---- */

int cli_rewrite_fail(const cli_rewrite *rewrite, const coffer_error *err)
{
    return cli_fail(rewrite->app, err->path[0] != '\0' ? err->path : rewrite->path, err);
}

static void refuse(coffer_error *err, coffer_status status, const char *format, va_list values)
{
    *err = (coffer_error){ .code = status, .offset = COFFER_NO_OFFSET };
    vsnprintf(err->message, sizeof err->message, format, values);
}

int cli_rewrite_refuse(const cli_rewrite *rewrite, coffer_status status, const char *format, ...)
{
    coffer_error err;
    va_list values;
    va_start(values, format);
    refuse(&err, status, format, values);
    va_end(values);
    return cli_rewrite_fail(rewrite, &err);
}

int cli_rewrite_no_match(const cli_rewrite *rewrite, const char *glob)
{
    char shown[160];
    coffer_escape(glob, strlen(glob), shown, sizeof shown);
    return cli_rewrite_refuse(rewrite, COFFER_ERR_NO_TENSOR,
                              "no tensor has a name that matches \"%s\"; coffer ls shows the names", shown);
}

/* ---- Opening ---- */

static int check_output(const cli_rewrite *rewrite, bool force)
{
    if (rewrite->output[0] == '\0' || strcmp(rewrite->output, "-") == 0) {
        return cli_usage_error(rewrite->app, "-o wants the name of a file");
    }
    const int code = cli_guard_input(rewrite->app, rewrite->output, rewrite->path);
    return code == CLI_EXIT_OK ? cli_publish_check(rewrite->app, rewrite->output, force) : code;
}

/* Where the path leads: nothing that others see under another name, unless told so. */
static int check_links(cli_rewrite *rewrite, bool force)
{
    struct stat about;
    rewrite->target = rewrite->path;
    if (lstat(rewrite->path, &about) != 0) {
        return CLI_EXIT_OK; /* opening it will say why */
    }
    const bool link = S_ISLNK(about.st_mode);
    if (!force && (link || (S_ISREG(about.st_mode) && about.st_nlink > 1))) {
        return cli_rewrite_refuse(rewrite, COFFER_ERR_LINKED,
                                  "%s, so others see it under another name; write another file (-o), or allow it (-f)",
                                  link ? "this is a symbolic link" : "the file has several names (hard links)");
    }
    if (link) {
        rewrite->real_path = realpath(rewrite->path, NULL);
        rewrite->target = rewrite->real_path != NULL ? rewrite->real_path : rewrite->path;
    }
    return CLI_EXIT_OK;
}

/* Keeps those away who edit the metadata in place: what they change while the file is copied would be lost. */
static int lock_file(cli_rewrite *rewrite)
{
    struct stat locked;
    struct stat now;
    rewrite->lock = open(rewrite->target, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (rewrite->lock < 0) {
        return CLI_EXIT_OK; /* opening it will say why */
    }
    if (flock(rewrite->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        return cli_rewrite_refuse(rewrite, COFFER_ERR_LOCKED,
                                  "another program is editing the file: try again when it has finished");
    }
    const bool same = fstat(rewrite->lock, &locked) == 0 && stat(rewrite->target, &now) == 0 &&
                      locked.st_dev == now.st_dev && locked.st_ino == now.st_ino;
    return same ? CLI_EXIT_OK
                : cli_rewrite_refuse(rewrite, COFFER_ERR_CHANGED,
                                     "another file took this one's place just now: try again");
}

static int choose_target(cli_rewrite *rewrite, bool force)
{
    int code = CLI_EXIT_OK;
    if (rewrite->output != NULL) {
        rewrite->target = rewrite->output;
        return check_output(rewrite, force);
    }
    if (strcmp(rewrite->path, "-") == 0) {
        return cli_usage_error(rewrite->app, "standard input has no place to be rewritten in; say where the new file "
                                             "goes: -o FILE");
    }
    code = check_links(rewrite, force);
    code = code == CLI_EXIT_OK && !rewrite->dry_run ? cli_guard_read_only(rewrite->app, rewrite->path, force) : code;
    return code == CLI_EXIT_OK ? lock_file(rewrite) : code;
}

/* The alignment that the data has, as far as it is worth keeping. */
static uint64_t alignment_of(uint64_t data_offset)
{
    uint64_t alignment = MOST_ALIGNMENT;
    while (alignment > LEAST_ALIGNMENT && data_offset % alignment != 0) {
        alignment /= 2;
    }
    return alignment;
}

static int plan_as_it_is(cli_rewrite *rewrite)
{
    rewrite->count = coffer_count(rewrite->model);
    rewrite->tensors = calloc(rewrite->count + 1, sizeof *rewrite->tensors);
    if (rewrite->tensors == NULL) {
        return cli_fail_memory(rewrite->app, rewrite->path);
    }
    for (size_t i = 0; i < rewrite->count; i++) {
        const coffer_tensor *from = coffer_at(rewrite->model, i);
        rewrite->tensors[i] =
            (cli_rewrite_tensor){ .from = from, .name = from->name, .name_len = from->name_len, .dtype = from->dtype };
    }
    const coffer_table *table = coffer_shard_table(rewrite->model, 0);
    rewrite->alignment = alignment_of(coffer_table_data_offset(table));
    rewrite->format = coffer_table_format(table);
    /* Slack that is more than the padding that any alignment leaves was reserved by somebody. */
    const uint64_t slack = coffer_table_slack(table);
    rewrite->slack = slack >= rewrite->alignment ? slack : 0;
    return CLI_EXIT_OK;
}

int cli_rewrite_open(cli_rewrite *rewrite, cli *app, const cli_arguments *arguments)
{
    int code = CLI_EXIT_OK;
    *rewrite = (cli_rewrite){ .app = app, .path = arguments->names[0], .lock = -1, .started = cli_seconds() };
    rewrite->output = cli_value(arguments, CLI_OPTION_OUTPUT);
    rewrite->dry_run = cli_given(arguments, CLI_OPTION_DRY_RUN);
    rewrite->agreed = cli_given(arguments, CLI_OPTION_IN_PLACE) || cli_given(arguments, CLI_OPTION_FORCE);
    if (rewrite->output != NULL && cli_given(arguments, CLI_OPTION_IN_PLACE)) {
        return cli_usage_error(app, "--in-place rewrites PATH, and -o writes another file: one of them");
    }
    code = choose_target(rewrite, cli_given(arguments, CLI_OPTION_FORCE));
    if (code != CLI_EXIT_OK) {
        return code;
    }
    rewrite->model = cli_recorded_open(app, rewrite->path, &code);
    if (rewrite->model == NULL) {
        return code;
    }
    if (!cli_is_single_file(rewrite->model, rewrite->path)) {
        return cli_rewrite_refuse(
            rewrite, COFFER_ERR_UNSUPPORTED,
            "this is not one file but the model in a folder or behind an index, and only files are "
            "rewritten: name one of its files");
    }
    rewrite->digests = cli_recorded_wanted(arguments, rewrite->model);
    return plan_as_it_is(rewrite);
}

void cli_rewrite_close(cli_rewrite *rewrite)
{
    coffer_header_free(rewrite->header);
    coffer_close(rewrite->model);
    free(rewrite->tensors);
    free(rewrite->real_path);
    if (rewrite->lock >= 0) {
        close(rewrite->lock);
    }
}

/* ---- The new header ---- */

static coffer_status declare(cli_rewrite *rewrite, coffer_error *err)
{
    const coffer_table *table = coffer_shard_table(rewrite->model, 0);
    coffer_status status = coffer_header_new(&rewrite->header, coffer_libc_allocator(), err);
    coffer_pair pair;
    for (size_t i = 0; status == COFFER_OK && coffer_table_metadata_at(table, i, &pair); i++) {
        if (!cli_recorded_is_key(&pair)) {
            status =
                coffer_header_set_metadata(rewrite->header, pair.key, pair.key_len, pair.value, pair.value_len, err);
        }
    }
    for (size_t i = 0; status == COFFER_OK && i < rewrite->count; i++) {
        cli_rewrite_tensor *tensor = &rewrite->tensors[i];
        if (!tensor->dropped) {
            tensor->to = coffer_header_count(rewrite->header);
            status = coffer_header_add(rewrite->header, tensor->name, tensor->name_len, tensor->dtype,
                                       tensor->from->shape, tensor->from->rank, err);
        }
    }
    return status;
}

static coffer_status build(cli_rewrite *rewrite, coffer_error *err)
{
    coffer_header_options options = COFFER_HEADER_OPTIONS_INIT;
    options.alignment = rewrite->alignment;
    options.slack = rewrite->slack;
    options.format = rewrite->format;
    options.empty_metadata = coffer_table_has_metadata(coffer_shard_table(rewrite->model, 0));
    const coffer_table *table = NULL;
    coffer_status status = declare(rewrite, err);
    if (status == COFFER_OK && rewrite->digests != COFFER_NO_ALGORITHM) {
        status = coffer_header_reserve_digests(rewrite->header, rewrite->digests, err);
    }
    if (status == COFFER_OK) {
        status = coffer_header_build(rewrite->header, &options, NULL, &rewrite->size, &table, err);
    }
    if (status == COFFER_OK) {
        rewrite->size += coffer_table_data_size(table);
    }
    return status;
}

/* ---- The new file ---- */

static bool is_copied(const cli_rewrite_tensor *tensor)
{
    return !tensor->dropped && tensor->dtype == tensor->from->dtype;
}

static coffer_status copy_tensors(const cli_rewrite *rewrite, coffer_writer *writer, cli_progress *progress,
                                  coffer_error *err)
{
    cli_progress_part part = { progress, 0 };
    coffer_read_options options = COFFER_READ_OPTIONS_INIT;
    options.progress = cli_progress_call;
    options.progress_ctx = &part;
    coffer_copy *copies = malloc((rewrite->count + 1) * sizeof *copies);
    if (copies == NULL) {
        return cli_no_memory(err);
    }
    size_t count = 0;
    for (size_t i = 0; i < rewrite->count; i++) {
        const cli_rewrite_tensor *tensor = &rewrite->tensors[i];
        if (is_copied(tensor)) {
            copies[count++] = (coffer_copy){ tensor->to, rewrite->model, tensor->from };
        }
    }
    const coffer_status status = coffer_writer_copy(writer, copies, count, &options, err);
    free(copies);
    return status;
}

static coffer_status write_file(cli_rewrite *rewrite, coffer_error *err)
{
    coffer_writer *writer = NULL;
    cli_progress progress;
    coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    options.digests = rewrite->digests;
    /* What somebody saves there meanwhile is not to be lost. */
    options.replaces = rewrite->output == NULL ? rewrite->model : NULL;
    coffer_status status = coffer_writer_open(&writer, rewrite->header, rewrite->target, &options, err);
    if (status != COFFER_OK) {
        return status;
    }
    cli_progress_begin(&progress, rewrite->app, "writing", rewrite->size);
    status = copy_tensors(rewrite, writer, &progress, err);
    if (status == COFFER_OK && rewrite->convert != NULL) {
        status = rewrite->convert(rewrite, writer, &progress, err);
    }
    cli_progress_end(&progress);
    if (status == COFFER_OK) {
        status = coffer_writer_finish(writer, err);
    }
    coffer_writer_free(writer);
    return status;
}

/* ---- Telling ---- */

typedef enum change { STAYS, DROPPED, CAST, RENAMED, MOVED } change;

static change change_of(const cli_rewrite_tensor *tensor)
{
    const coffer_tensor *from = tensor->from;
    if (tensor->dropped) {
        return DROPPED;
    }
    if (tensor->dtype != from->dtype) {
        return CAST;
    }
    if (tensor->name_len != from->name_len || memcmp(tensor->name, from->name, from->name_len) != 0) {
        return RENAMED;
    }
    return tensor->unaligned ? MOVED : STAYS;
}

static void put_change(cli_output *out, const cli_rewrite *rewrite, const cli_rewrite_tensor *tensor)
{
    const change made = change_of(tensor);
    if (made == STAYS) {
        return;
    }
    cli_put_escaped(out, tensor->from->name, tensor->from->name_len, 0);
    switch (made) {
    case DROPPED:
        cli_put_text(out, ": dropped");
        break;
    case CAST:
        cli_put_text(out, ": from ");
        cli_put_text(out, coffer_dtype_name(tensor->from->dtype));
        cli_put_text(out, " to ");
        cli_put_text(out, coffer_dtype_name(tensor->dtype));
        break;
    case RENAMED:
        cli_put_text(out, ": renamed to ");
        cli_put_escaped(out, tensor->name, tensor->name_len, 0);
        break;
    default:
        cli_put_text(out, ": from byte ");
        cli_put_number(out, tensor->from->offset);
        cli_put_text(out, " to byte ");
        cli_put_number(out, coffer_header_at(rewrite->header, tensor->to)->offset);
        break;
    }
    cli_put_char(out, '\n');
}

static void json_change(const cli_rewrite *rewrite, const cli_rewrite_tensor *tensor)
{
    static const char *const kinds[] = { "", "drop", "cast", "rename", "align" };
    cli_output *out = &rewrite->app->out;
    const change made = change_of(tensor);
    if (made == STAYS) {
        return;
    }
    cli_json_open(out, '{', false);
    cli_json_key(out, "name");
    cli_json_string_n(out, tensor->from->name, tensor->from->name_len);
    cli_json_key(out, "change");
    cli_json_string(out, kinds[made]);
    if (made == RENAMED) {
        cli_json_key(out, "to");
        cli_json_string_n(out, tensor->name, tensor->name_len);
    } else if (made == MOVED) {
        cli_json_key(out, "from");
        cli_json_number(out, tensor->from->offset);
        cli_json_key(out, "to");
        cli_json_number(out, coffer_header_at(rewrite->header, tensor->to)->offset);
    } else if (made == CAST) {
        cli_json_key(out, "from");
        cli_json_string(out, coffer_dtype_name(tensor->from->dtype));
        cli_json_key(out, "to");
        cli_json_string(out, coffer_dtype_name(tensor->dtype));
        if (!rewrite->dry_run) {
            cli_json_key(out, "overflowed");
            cli_json_number(out, tensor->overflowed);
            cli_json_key(out, "vanished");
            cli_json_number(out, tensor->vanished);
        }
    }
    cli_json_close(out, '}');
}

static void show_json(const cli_rewrite *rewrite, const char *done)
{
    cli_output *out = &rewrite->app->out;
    char seconds[CLI_NUMBER_SIZE];
    cli_json_open(out, '{', true);
    cli_json_key(out, "path");
    cli_json_string(out, rewrite->path);
    cli_json_key(out, "output");
    cli_json_string(out, new_name(rewrite));
    cli_json_key(out, "done");
    cli_json_string(out, done);
    cli_json_key(out, "changes");
    cli_json_open(out, '[', true);
    for (size_t i = 0; i < rewrite->count; i++) {
        json_change(rewrite, &rewrite->tensors[i]);
    }
    cli_json_close(out, ']');
    cli_json_key(out, "tensors");
    cli_json_number(out, coffer_header_count(rewrite->header));
    cli_json_key(out, "size");
    cli_json_number(out, rewrite->size);
    cli_json_key(out, "seconds");
    snprintf(seconds, sizeof seconds, "%.6f", cli_seconds() - rewrite->started);
    cli_json_raw(out, seconds);
    cli_json_close(out, '}');
}

/* "160 tensors, 548 MB" */
static void sum_up(const cli_rewrite *rewrite, char *text, size_t size)
{
    char bytes[CLI_NUMBER_SIZE];
    char count[CLI_NUMBER_SIZE];
    const size_t tensors = coffer_header_count(rewrite->header);
    cli_bytes_text(bytes, rewrite->size);
    cli_number_text(count, tensors, true);
    snprintf(text, size, "%s tensor%s, %s", count, tensors == 1 ? "" : "s", bytes);
}

/* "a.weight", or of what is renamed "a.weight to b.weight". Returns the length that it needs. */
static size_t name_change(const cli_rewrite_tensor *tensor, char *text, size_t size)
{
    char from[NAME_MOST * 4 + 1];
    char to[NAME_MOST * 4 + 1] = "";
    const change made = change_of(tensor);
    const size_t len = cli_cut_at_character(tensor->from->name, tensor->from->name_len, NAME_MOST);
    coffer_escape(tensor->from->name, len, from, sizeof from);
    if (made == RENAMED) {
        coffer_escape(tensor->name, cli_cut_at_character(tensor->name, tensor->name_len, NAME_MOST), to, sizeof to);
    }
    return (size_t)snprintf(text, size, "%s%s%s%s%s", from, len < tensor->from->name_len ? "..." : "",
                            made == STAYS || made == DROPPED || made == MOVED ? "" : " to ", to,
                            made == CAST ? coffer_dtype_name(tensor->dtype) : "");
}

/* "12 of 160 tensors dropped: a.weight, b.weight, c.weight and 9 more"; nothing where no tensor changes. */
static void tell_changes(const cli_rewrite *rewrite, char *text, size_t size)
{
    static const char *const kinds[] = { "", "dropped", "cast", "renamed", "moved" };
    char names[NAMES_MOST * (8 * NAME_MOST + 16)] = "";
    char numbers[2][CLI_NUMBER_SIZE];
    size_t used = 0;
    size_t count = 0;
    change made = STAYS;
    for (size_t i = 0; i < rewrite->count; i++) {
        const cli_rewrite_tensor *tensor = &rewrite->tensors[i];
        if (change_of(tensor) == STAYS) {
            continue;
        }
        made = change_of(tensor);
        if (count++ < NAMES_MOST) {
            used += (size_t)snprintf(names + used, sizeof names - used, "%s", count > 1 ? ", " : "");
            used += name_change(tensor, names + used, sizeof names - used);
        }
    }
    text[0] = '\0';
    if (count == 0) {
        return;
    }
    cli_number_text(numbers[0], count, true);
    cli_number_text(numbers[1], rewrite->count, true);
    used = (size_t)snprintf(text, size, "%s of %s tensor%s %s: %s", numbers[0], numbers[1],
                            rewrite->count == 1 ? "" : "s", kinds[made], names);
    if (count > NAMES_MOST) {
        cli_number_text(numbers[0], count - NAMES_MOST, true);
        snprintf(text + used, size - used, " and %s more", numbers[0]);
    }
}

static int show_plan(const cli_rewrite *rewrite)
{
    char sum[4 * CLI_NUMBER_SIZE];
    if (rewrite->app->json) {
        show_json(rewrite, "dry_run");
    } else {
        for (size_t i = 0; i < rewrite->count; i++) {
            put_change(&rewrite->app->out, rewrite, &rewrite->tensors[i]);
        }
    }
    sum_up(rewrite, sum, sizeof sum);
    cli_remark_path(rewrite->app, new_name(rewrite), "would be written: %s", sum);
    return CLI_EXIT_OK;
}

static int show_done(const cli_rewrite *rewrite)
{
    char sum[4 * CLI_NUMBER_SIZE];
    char took[CLI_NUMBER_SIZE];
    char changes[CHANGES_SIZE];
    sum_up(rewrite, sum, sizeof sum);
    tell_changes(rewrite, changes, sizeof changes);
    cli_duration_text(took, cli_seconds() - rewrite->started);
    cli_remark_path(rewrite->app, new_name(rewrite), "written: %s%s%s (%s)", sum, changes[0] != '\0' ? "; " : "",
                    changes, took);
    if (rewrite->app->json) {
        show_json(rewrite, "written");
    }
    return CLI_EXIT_OK;
}

/* ---- Asking ---- */

/* The changes, one in a line, as many as are read at a glance. */
static void show_on_terminal(const cli_rewrite *rewrite)
{
    cli_output *out = malloc(sizeof *out);
    size_t shown = 0;
    if (out == NULL) {
        return; /* the question says how many there are */
    }
    cli_output_init(out, STDERR_FILENO);
    out->before = rewrite->app->out.before;
    out->before_ctx = rewrite->app->out.before_ctx;
    for (size_t i = 0; i < rewrite->count && shown < LINES_MOST; i++) {
        shown += change_of(&rewrite->tensors[i]) != STAYS;
        put_change(out, rewrite, &rewrite->tensors[i]);
    }
    cli_output_flush(out);
    free(out);
}

/* A rewrite in the file's place destroys what it leaves out: whoever did not say so before is asked. */
static int ask(const cli_rewrite *rewrite)
{
    char changes[CHANGES_SIZE];
    char name[256];
    char question[sizeof name + 64];
    tell_changes(rewrite, changes, sizeof changes);
    coffer_escape(rewrite->path, strlen(rewrite->path), name, sizeof name);
    if (!cli_can_ask()) {
        return cli_usage_error(
            rewrite->app,
            "this would rewrite %s%s%s; allow that (--in-place), write another file (-o), or look at "
            "what would change (--dry-run)",
            name, changes[0] != '\0' ? ": " : "", changes);
    }
    show_on_terminal(rewrite);
    if (changes[0] != '\0') {
        cli_say_path(rewrite->app, rewrite->path, "%s", changes);
    }
    snprintf(question, sizeof question, "Rewrite %s? That cannot be undone.", name);
    if (cli_ask(rewrite->app, question)) {
        return CLI_EXIT_OK;
    }
    cli_say_path(rewrite->app, rewrite->path, "left as it is");
    return CLI_EXIT_NOT_CONFORMING;
}

/* ---- The whole ---- */

int cli_rewrite_run(cli_rewrite *rewrite)
{
    coffer_error err;
    if (build(rewrite, &err) != COFFER_OK) {
        return cli_rewrite_fail(rewrite, &err);
    }
    const bool other_digests = rewrite->digests != coffer_recorded_algorithm(rewrite->model, 0);
    if (!rewrite->needed && !other_digests && rewrite->output == NULL) {
        cli_remark_path(rewrite->app, rewrite->path, "nothing to do: %s", rewrite->nothing);
        if (rewrite->app->json) {
            show_json(rewrite, "nothing");
        }
        return CLI_EXIT_OK;
    }
    if (rewrite->dry_run) {
        return show_plan(rewrite);
    }
    const int code = rewrite->output == NULL && !rewrite->agreed ? ask(rewrite) : CLI_EXIT_OK;
    if (code != CLI_EXIT_OK) {
        return code;
    }
    return write_file(rewrite, &err) == COFFER_OK ? show_done(rewrite) : cli_rewrite_fail(rewrite, &err);
}
