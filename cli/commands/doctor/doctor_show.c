/* SPDX-License-Identifier: Apache-2.0 */
/* What was found, as text and as JSON. */
#include "doctor_show.h"
#include "cli_json.h"
#include "cli_quote.h"
#include "cli_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A word of the command, or && between two steps, with a space before it where something is there already. */
static void add_word(char *command, size_t size, size_t *used, const char *word, bool quoted)
{
    if (*used > 0) {
        command[(*used)++] = ' ';
    }
    *used += quoted ? cli_quote(word, strlen(word), command + *used, size - *used)
                    : (size_t)snprintf(command + *used, size - *used, "%s", word);
}

char *doctor_command(const coffer_doctor_finding *finding)
{
    size_t used = 0;
    size_t size = 1;
    for (size_t i = 0; i < finding->step_count; i++) {
        size += sizeof " &&";
        for (size_t k = 0; k < finding->steps[i].count; k++) {
            size += cli_quote(finding->steps[i].words[k], strlen(finding->steps[i].words[k]), NULL, 0) + 1;
        }
    }
    char *command = finding->step_count > 0 ? malloc(size) : NULL;
    for (size_t i = 0; i < finding->step_count && command != NULL; i++) {
        if (i > 0) {
            add_word(command, size, &used, "&&", false);
        }
        for (size_t k = 0; k < finding->steps[i].count; k++) {
            add_word(command, size, &used, finding->steps[i].words[k], true);
        }
    }
    return command;
}

static void put_count(cli_output *out, uint64_t count, const char *what)
{
    cli_put_grouped(out, count);
    cli_put_char(out, ' ');
    cli_put_text(out, what);
    cli_put_text(out, count == 1 ? "" : "s");
}

static void put_verdict(const doctor_view *view)
{
    cli_output *out = &view->app->out;
    const uint64_t errors = view->summary->errors;
    const uint64_t warnings = view->summary->warnings;
    cli_put_escaped(out, view->path, strlen(view->path), 0);
    if (view->against != NULL) {
        cli_put_text(out, " against ");
        cli_put_escaped(out, view->against, strlen(view->against), 0);
    }
    cli_put_text(out, ": ");
    cli_put_style(out, errors > 0 ? CLI_RED : warnings > 0 ? CLI_YELLOW : CLI_GREEN);
    if (errors == 0 && warnings == 0) {
        cli_put_text(out, view->summary->data ? "sound" : "sound by its headers");
    } else {
        put_count(out, errors, "error");
        cli_put_text(out, ", ");
        put_count(out, warnings, "warning");
    }
    cli_put_style(out, CLI_PLAIN);
    if (view->summary->notes > 0) {
        cli_put_text(out, ", ");
        put_count(out, view->summary->notes, "note");
    }
    cli_put_char(out, '\n');
}

static void put_seen(const doctor_view *view, const coffer_doctor_model *seen)
{
    cli_output *out = &view->app->out;
    cli_put_text(out, "  ");
    cli_put_escaped(out, seen->name[0] != '\0' ? seen->name : "model",
                    strlen(seen->name[0] != '\0' ? seen->name : "model"), 0);
    cli_put_text(out, ": ");
    if (seen->type != NULL) {
        cli_put_escaped(out, seen->type, strlen(seen->type), 60);
        cli_put_text(out, ", ");
    }
    if (seen->file_count > 1) {
        put_count(out, seen->file_count, "file");
        cli_put_text(out, ", ");
    }
    put_count(out, seen->tensor_count, "tensor");
    cli_put_text(out, ", ");
    cli_put_bytes(out, seen->size);
    cli_put_char(out, '\n');
}

static void put_place(cli_output *out, const coffer_doctor_finding *finding)
{
    char offset[CLI_NUMBER_SIZE + 16];
    if (finding->file[0] != '\0') {
        cli_put_escaped(out, finding->file, strlen(finding->file), 0);
        cli_put_text(out, ": ");
    }
    if (finding->tensor != NULL) {
        cli_put_escaped(out, finding->tensor, finding->tensor_len, 160);
        cli_put_text(out, ": ");
    }
    cli_put_text(out, finding->message);
    if (finding->offset != COFFER_NO_OFFSET) {
        snprintf(offset, sizeof offset, " (byte %" PRIu64 ")", finding->offset);
        cli_put_text(out, offset);
    }
    cli_put_char(out, '\n');
}

static void put_finding(const doctor_view *view, const coffer_doctor_finding *finding)
{
    static const cli_style styles[] = { CLI_CYAN, CLI_YELLOW, CLI_RED };
    cli_output *out = &view->app->out;
    const char *name = coffer_severity_name(finding->severity);
    cli_put_styled(out, styles[finding->severity], name);
    cli_put_repeat(out, ' ', 9 - strlen(name));
    put_place(out, finding);
    char *command = doctor_command(finding);
    if (command != NULL) {
        cli_put_repeat(out, ' ', 9);
        cli_put_styled(out, CLI_DIM, finding->fixes ? "fix: " : "look: ");
        cli_put_styled(out, CLI_BOLD, command);
        cli_put_char(out, '\n');
    }
    free(command);
    if (finding->more > 0) {
        cli_put_repeat(out, ' ', 9);
        cli_put_text(out, "and ");
        cli_put_grouped(out, finding->more);
        cli_put_text(out, " more like this\n");
    }
}

void doctor_show_text(const doctor_view *view)
{
    put_verdict(view);
    const coffer_doctor_model *seen = NULL;
    for (size_t i = 0; !view->app->quiet && (seen = coffer_diagnosis_model_at(view->diagnosis, i)) != NULL; i++) {
        put_seen(view, seen);
    }
    const coffer_doctor_finding *finding = NULL;
    for (size_t i = 0; (finding = coffer_diagnosis_finding_at(view->diagnosis, i)) != NULL; i++) {
        if (!view->app->quiet || finding->severity != COFFER_SEVERITY_NOTE) {
            put_finding(view, finding);
        }
    }
}

/* ---- JSON ---- */

static void json_seen(const doctor_view *view)
{
    cli_output *out = &view->app->out;
    cli_json_key(out, "models");
    cli_json_open(out, '[', true);
    const coffer_doctor_model *seen = NULL;
    for (size_t i = 0; (seen = coffer_diagnosis_model_at(view->diagnosis, i)) != NULL; i++) {
        cli_json_open(out, '{', false);
        cli_json_put_string(out, "file", seen->name);
        cli_json_text_or_null(out, "type", seen->type != NULL ? seen->type : "",
                              seen->type != NULL ? strlen(seen->type) : 0);
        cli_json_put_number(out, "files", seen->file_count);
        cli_json_put_number(out, "tensors", seen->tensor_count);
        cli_json_put_number(out, "size", seen->size);
        cli_json_close(out, '}');
    }
    cli_json_close(out, ']');
}

static void json_finding(cli_output *out, const coffer_doctor_finding *finding)
{
    cli_json_open(out, '{', false);
    cli_json_put_string(out, "weight", coffer_severity_name(finding->severity));
    cli_json_put_string(out, "kind", finding->kind);
    cli_json_put_string(out, "file", finding->file);
    cli_json_key(out, "tensor");
    if (finding->tensor != NULL) {
        cli_json_string_n(out, finding->tensor, finding->tensor_len);
    } else {
        cli_json_null(out);
    }
    cli_json_key(out, "offset");
    if (finding->offset != COFFER_NO_OFFSET) {
        cli_json_number(out, finding->offset);
    } else {
        cli_json_null(out);
    }
    cli_json_put_string(out, "reason", finding->message);
    char *command = doctor_command(finding);
    cli_json_text_or_null(out, "command", command != NULL ? command : "", command != NULL ? strlen(command) : 0);
    free(command);
    cli_json_put_bool(out, "fixes", finding->fixes);
    cli_json_put_number(out, "more", finding->more);
    cli_json_close(out, '}');
}

void doctor_show_json(const doctor_view *view)
{
    cli_output *out = &view->app->out;
    cli_json_open(out, '{', true);
    cli_json_put_string(out, "path", view->path);
    cli_json_text_or_null(out, "against", view->against != NULL ? view->against : "",
                          view->against != NULL ? strlen(view->against) : 0);
    cli_json_put_bool(out, "ok", view->summary->errors == 0 && !(view->strict && view->summary->warnings > 0));
    cli_json_put_number(out, "errors", view->summary->errors);
    cli_json_put_number(out, "warnings", view->summary->warnings);
    cli_json_put_number(out, "notes", view->summary->notes);
    cli_json_put_bool(out, "data", view->summary->data);
    json_seen(view);
    cli_json_key(out, "findings");
    cli_json_open(out, '[', true);
    const coffer_doctor_finding *finding = NULL;
    for (size_t i = 0; (finding = coffer_diagnosis_finding_at(view->diagnosis, i)) != NULL; i++) {
        json_finding(out, finding);
    }
    cli_json_close(out, ']');
    cli_json_close(out, '}');
}
