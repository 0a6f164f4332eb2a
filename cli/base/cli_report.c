/* SPDX-License-Identifier: Apache-2.0 */
/* Telling what went wrong: see cli_report.h for the contracts. */
#include "cli_report.h"

#include "cli_interrupt.h"
#include "cli_progress.h"
#include "cli_text.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cli_exit_code(coffer_status status)
{
    if (status == COFFER_OK) {
        return CLI_EXIT_OK;
    }
    switch (status) {
    /* What the file does not have. */
    case COFFER_ERR_NO_TENSOR:
    case COFFER_ERR_INDEX:
    case COFFER_ERR_SLICE_BITS:
    /* Files that make no model. */
    case COFFER_ERR_SHARD_NAME:
    case COFFER_ERR_SHARD_LINK:
    case COFFER_ERR_SHARD_MISSING:
    case COFFER_ERR_NOT_IN_SHARD:
    case COFFER_ERR_TWO_SHARDS:
    case COFFER_ERR_INDEX_TOO_LARGE:
    /* What is not as it was recorded, or cannot be told to be. */
    case COFFER_ERR_NO_DIGESTS:
    case COFFER_ERR_DIGESTS:
    case COFFER_ERR_TENSOR_DIGEST:
    case COFFER_ERR_METADATA_DIGEST:
    case COFFER_ERR_CONTENT_DIGEST:
    case COFFER_ERR_MANIFEST:
    case COFFER_ERR_MANIFEST_NAME:
    case COFFER_ERR_MANIFEST_ALGORITHM:
    case COFFER_ERR_MANIFEST_ROOT:
    case COFFER_ERR_NOT_SIGNED:
    case COFFER_ERR_SIGNATURE:
        return CLI_EXIT_NOT_CONFORMING;
    /* What is wrong whatever the file has. */
    case COFFER_ERR_ARGUMENT:
    case COFFER_ERR_SLICE_SYNTAX:
    case COFFER_ERR_STEP:
    case COFFER_ERR_NAME:
    case COFFER_ERR_URL:
        return CLI_EXIT_USAGE;
    default:
        break;
    }
    /* Files of other programs; but a process that answers nonsense, and an output that is wrong, are no fault of theirs. */
    if (status == COFFER_ERR_PLAN || status == COFFER_ERR_NOT_EQUAL) {
        return CLI_EXIT_UNREADABLE;
    }
    if (status >= COFFER_ERR_DAMAGED && status <= COFFER_ERR_ARRAY) {
        return CLI_EXIT_NOT_CONFORMING;
    }
    if (status >= COFFER_ERR_PACKED && status <= COFFER_ERR_NOT_PACKED) {
        return CLI_EXIT_NOT_CONFORMING;
    }
    /* The frame, the header's text, what it says, and files that are something else: numbers 20 to 79. */
    return status >= COFFER_ERR_EMPTY && status < COFFER_ERR_NO_TENSOR ? CLI_EXIT_NOT_CONFORMING : CLI_EXIT_UNREADABLE;
}

int cli_worse(int a, int b)
{
    return a > b ? a : b;
}

static void put_escaped_stderr(const char *text)
{
    char small[1024];
    const size_t text_len = strlen(text);
    const size_t need = coffer_escape(text, text_len, small, sizeof small);
    char *large = need < sizeof small ? NULL : malloc(need + 1);
    if (large != NULL) {
        coffer_escape(text, text_len, large, need + 1);
    }
    fputs(large != NULL ? large : small, stderr);
    free(large);
}

/* The same line with our signs in ASCII. Without memory it is cut. */
static void put_values_in_ascii(const char *format, va_list values)
{
    char small[1024];
    va_list again;
    va_copy(again, values);
    const int need = vsnprintf(small, sizeof small, format, values);
    char *large = need < (int)sizeof small ? NULL : malloc((size_t)need + 1);
    if (large != NULL) {
        vsnprintf(large, (size_t)need + 1, format, again);
    }
    va_end(again);
    size_t len = 0;
    for (const char *text = large != NULL ? large : small; *text != '\0'; text += len) {
        const char *as = cli_sign_in_ascii(text, &len);
        if (as != NULL) {
            fputs(as, stderr);
        } else {
            fputc(*text, stderr);
        }
    }
    free(large);
}

/* One line on standard error, after what standard output has to show so far. */
static void say(cli *app, bool error, const char *path, const char *format, va_list values)
{
    cli_output_flush(&app->out);
    if (app->progress != NULL) {
        cli_progress_hide(app->progress);
    }
    const bool colour = error && app->error_colour;
    fprintf(stderr, "%scoffer:%s ", colour ? cli_style_text(CLI_RED) : "", colour ? cli_style_text(CLI_PLAIN) : "");
    if (path != NULL) {
        put_escaped_stderr(path);
        fputs(": ", stderr);
    }
    if (app->error_ascii) {
        put_values_in_ascii(format, values);
    } else {
        vfprintf(stderr, format, values);
    }
    fputc('\n', stderr);
}

void cli_say(cli *app, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    say(app, true, NULL, format, values);
    va_end(values);
}

void cli_say_path(cli *app, const char *path, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    say(app, true, path, format, values);
    va_end(values);
}

void cli_remark(cli *app, const char *format, ...)
{
    va_list values;
    if (!app->quiet && !cli_interrupted()) { /* they tell what came of the whole */
        va_start(values, format);
        say(app, false, NULL, format, values);
        va_end(values);
    }
}

void cli_remark_path(cli *app, const char *path, const char *format, ...)
{
    va_list values;
    if (!app->quiet && !cli_interrupted()) {
        va_start(values, format);
        say(app, false, path, format, values);
        va_end(values);
    }
}

int cli_usage_error(cli *app, const char *format, ...)
{
    va_list values;
    const char *name = app->command != NULL ? app->command->name : NULL;
    cli_output_flush(&app->out);
    fprintf(stderr, "%scoffer%s%s:%s ", app->error_colour ? cli_style_text(CLI_RED) : "", name != NULL ? " " : "",
            name != NULL ? name : "", app->error_colour ? cli_style_text(CLI_PLAIN) : "");
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fprintf(stderr, "\nTry: coffer %s%s--help\n", name != NULL ? name : "", name != NULL ? " " : "");
    return CLI_EXIT_USAGE;
}

/* Whether the message says "byte N" of this number, and not of a longer one that it begins. */
static bool mentions_byte(const char *message, const char *place)
{
    const char *at = strstr(message, place);
    return at != NULL && !(at[strlen(place)] >= '0' && at[strlen(place)] <= '9');
}

/* Whether the offset is a byte to look at: in a slice's text it counts characters, and where a file
   stops there is none. */
static bool is_file_offset(const coffer_error *err)
{
    return err->offset != COFFER_NO_OFFSET && err->code != COFFER_ERR_SLICE_SYNTAX && err->code != COFFER_ERR_STEP &&
           err->code != COFFER_ERR_DATA_TRUNCATED;
}

/* The file of a model that the error is about, when it is not `path` itself; NULL when it is. */
static const char *file_of_model(const coffer_error *err, const char *path)
{
    return err->path[0] == '\0' || strcmp(err->path, path) == 0 ? NULL : err->path;
}

/* "file model-00002-of-00003.safetensors": without its folder, which is the model's, as a rule. */
static void file_part(const char *file, char *text, size_t size)
{
    const char *slash = cli_last_slash(file);
    const size_t used = (size_t)snprintf(text, size, "file ");
    slash = slash != NULL && slash[1] != '\0' ? slash + 1 : file;
    coffer_escape(slash, strlen(slash), text + used, size - used);
}

void cli_error_place(const coffer_error *err, const char *path, bool name, char *text, size_t size)
{
    char parts[4][sizeof err->tensor + 160];
    const char *file = file_of_model(err, path);
    char quoted[sizeof err->tensor + 2];
    size_t count = 0;
    if (name) {
        snprintf(parts[count++], sizeof parts[0], "%s", coffer_status_name(err->code));
    }
    if (file != NULL) {
        file_part(file, parts[count++], sizeof parts[0]);
    }
    snprintf(quoted, sizeof quoted, "\"%s\"", err->tensor);
    if (err->tensor[0] != '\0' && strstr(err->message, quoted) == NULL) {
        snprintf(parts[count++], sizeof parts[0], "tensor %s", quoted);
    }
    /* Byte 0 is the file as a whole: it would tell nobody anything. */
    if (is_file_offset(err) && err->offset != 0) {
        snprintf(parts[count], sizeof parts[0], "byte %" PRIu64, err->offset);
        count += !mentions_byte(err->message, parts[count]);
    }
    text[0] = '\0';
    size_t used = 0;
    for (size_t i = 0; i < count && used < size; i++) {
        const int len =
            snprintf(text + used, size - used, "%s%s%s", i == 0 ? " (" : ", ", parts[i], i + 1 == count ? ")" : "");
        used += len > 0 ? (size_t)len : 0;
    }
}

static void json_optional_number(cli_output *out, const char *key, bool given, uint64_t number)
{
    cli_json_key(out, key);
    if (given) {
        cli_json_number(out, number);
    } else {
        cli_json_null(out);
    }
}

void cli_json_error(cli *app, const char *path, const coffer_error *err)
{
    cli_output *out = &app->out;
    const bool sizes = err->expected != 0 || err->actual != 0;
    cli_json_key(out, "path");
    cli_json_string(out, path);
    cli_json_key(out, "error");
    cli_json_open(out, '{', true);
    json_optional_number(out, "code", true, (uint64_t)err->code);
    cli_json_key(out, "name");
    cli_json_string(out, coffer_status_name(err->code));
    cli_json_key(out, "message");
    cli_json_string(out, err->message);
    cli_json_key(out, "tensor");
    if (err->tensor[0] != '\0') {
        cli_json_string(out, err->tensor);
    } else {
        cli_json_null(out);
    }
    if (file_of_model(err, path) != NULL) {
        cli_json_key(out, "file");
        cli_json_string(out, err->path);
    }
    json_optional_number(out, "offset", err->offset != COFFER_NO_OFFSET, err->offset);
    json_optional_number(out, "expected", sizes, err->expected);
    json_optional_number(out, "actual", sizes, err->actual);
    cli_json_close(out, '}');
}

/* "; did you mean "model.safetensors"?" when there is a file of nearly that name. */
static void suggest_file(const char *path, char *text, size_t size)
{
    const char *slash = cli_last_slash(path);
    const char *name = slash != NULL ? slash + 1 : path;
    const size_t name_len = strlen(name);
    char folder[4096] = ".";
    size_t best = cli_distance_limit(name_len) + 1;
    text[0] = '\0';
    if (slash != NULL) {
        snprintf(folder, sizeof folder, "%.*s/", (int)(slash - path), path);
    }
    DIR *entries = name_len > 0 ? opendir(folder) : NULL;
    const struct dirent *entry = NULL;
    /* Only the main thread reports. */
    /* cppcheck-suppress readdirCalled */
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        const size_t distance = cli_distance(entry->d_name, strlen(entry->d_name), name, name_len, best);
        /* The name itself is there when it is a link to nothing. */
        if (distance > 0 && distance < best && strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            char shown[256];
            coffer_escape(entry->d_name, strlen(entry->d_name), shown, sizeof shown);
            snprintf(text, size, "; did you mean \"%s\"?", shown);
            best = distance;
        }
    }
    if (entries != NULL) {
        closedir(entries);
    }
}

/* Options that help with an error, where a command has them. */
static const struct {
    coffer_status code;
    cli_option_id option;
    const char *name; /* of several names of the option, this one; NULL: any */
    const char *text;
} SUGGESTIONS[] = {
    { COFFER_ERR_DATA_TRUNCATED, CLI_OPTION_PARTIAL, NULL, ", or use the whole tensors in it: --partial" },
    { COFFER_ERR_LINKED, CLI_OPTION_FOLLOW_LINKS, "follow-links", ": --follow-links" },
    { COFFER_ERR_LINKED, CLI_OPTION_FOLLOW_LINKS, "force", ": --force" },
    { COFFER_ERR_SHADOWED, CLI_OPTION_FORCE, NULL, ": --force" },
    { COFFER_ERR_ROOT, CLI_OPTION_ROOT, NULL, "; --root PART takes a part of the file, --root all takes all of it" },
    { COFFER_ERR_NO_EQUIVALENT, CLI_OPTION_SKIP_UNSUPPORTED, NULL, "; leave out what it lacks: --skip-unsupported" },
};

/* What a command can do about an error; "" when it can do nothing, or does it already, as with a tensor that is known
   to be cut. */
static const char *suggest_option(const cli *app, const coffer_error *err)
{
    const cli_option *option = NULL;
    const bool wanted = app->command != NULL && !(err->code == COFFER_ERR_DATA_TRUNCATED && err->tensor[0] != '\0');
    for (size_t i = 0; wanted && (option = cli_option_at(app->command, i)) != NULL; i++) {
        for (size_t k = 0; k < sizeof SUGGESTIONS / sizeof SUGGESTIONS[0]; k++) {
            if (SUGGESTIONS[k].code == err->code && SUGGESTIONS[k].option == option->id &&
                (SUGGESTIONS[k].name == NULL || strcmp(SUGGESTIONS[k].name, option->name) == 0)) {
                return SUGGESTIONS[k].text;
            }
        }
    }
    return "";
}

/* What is wrong only because of a tensor that the file has, or of what is in a file that is taken apart, is no fault of the
   command line, nor of the system. */
static int exit_code_of(const cli *app, const coffer_error *err)
{
    const bool takes_apart = app->command != NULL && app->command->takes_apart;
    const bool by_file =
        err->code == COFFER_ERR_ARGUMENT ? err->tensor[0] != '\0' : err->code == COFFER_ERR_UNSUPPORTED && takes_apart;
    return by_file ? CLI_EXIT_NOT_CONFORMING : cli_exit_code(err->code);
}

int cli_fail(cli *app, const char *path, const coffer_error *err)
{
    char place[512];
    if (err->code == COFFER_ERR_CANCELLED) {
        return CLI_EXIT_UNREADABLE; /* by Ctrl-C, of which the process is about to die: cli_finish says so */
    }
    cli_error_place(err, path, false, place, sizeof place);
    if (err->code == COFFER_ERR_NOT_FOUND && file_of_model(err, path) == NULL) {
        suggest_file(path, place, sizeof place);
    }
    cli_say_path(app, path, "%s%s%s", err->message, suggest_option(app, err), place);
    if (app->json) {
        cli_json_open(&app->out, '{', true);
        cli_json_error(app, path, err);
        cli_json_close(&app->out, '}');
    }
    return exit_code_of(app, err);
}

coffer_status cli_no_memory(coffer_error *err)
{
    *err = (coffer_error){ .code = COFFER_ERR_MEMORY, .offset = COFFER_NO_OFFSET, .message = "out of memory" };
    return COFFER_ERR_MEMORY;
}

int cli_fail_memory(cli *app, const char *path)
{
    coffer_error err;
    cli_no_memory(&err);
    return cli_fail(app, path, &err);
}

int cli_finish(cli *app, int code)
{
    cli_output_flush(&app->out);
    if (cli_interrupted()) {
        cli_say(app, "interrupted");
        cli_die_of_interrupt();
    }
    if (app->out.error == 0 || app->out.error == EPIPE) {
        return code;
    }
    cli_say(app, "standard output: %s", strerror(app->out.error));
    return CLI_EXIT_UNREADABLE;
}
