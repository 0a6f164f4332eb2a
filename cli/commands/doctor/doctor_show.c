/* SPDX-License-Identifier: Apache-2.0 */
/* What was found, as text and as JSON. */
#include "cli_json.h"
#include "cli_text.h"
#include "doctor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void put_count(cli_output *out, uint64_t count, const char *what)
{
    cli_put_grouped(out, count);
    cli_put_char(out, ' ');
    cli_put_text(out, what);
    cli_put_text(out, count == 1 ? "" : "s");
}

static void put_verdict(const doctor *d)
{
    cli_output *out = &d->app->out;
    const uint64_t errors = d->totals[DOCTOR_ERROR];
    const uint64_t warnings = d->totals[DOCTOR_WARNING];
    cli_put_escaped(out, d->path, strlen(d->path), 0);
    if (d->against != NULL) {
        cli_put_text(out, " against ");
        cli_put_escaped(out, d->against, strlen(d->against), 0);
    }
    cli_put_text(out, ": ");
    cli_put_style(out, errors > 0 ? CLI_RED : warnings > 0 ? CLI_YELLOW : CLI_GREEN);
    if (errors == 0 && warnings == 0) {
        cli_put_text(out, d->data ? "sound" : "sound by its headers");
    } else {
        put_count(out, errors, "error");
        cli_put_text(out, ", ");
        put_count(out, warnings, "warning");
    }
    cli_put_style(out, CLI_PLAIN);
    if (d->totals[DOCTOR_NOTE] > 0) {
        cli_put_text(out, ", ");
        put_count(out, d->totals[DOCTOR_NOTE], "note");
    }
    cli_put_char(out, '\n');
}

static void put_seen(const doctor *d, const doctor_seen *seen)
{
    cli_output *out = &d->app->out;
    cli_put_text(out, "  ");
    cli_put_escaped(out, seen->name[0] != '\0' ? seen->name : "model",
                    strlen(seen->name[0] != '\0' ? seen->name : "model"), 0);
    cli_put_text(out, ": ");
    if (seen->type != NULL) {
        cli_put_escaped(out, seen->type, strlen(seen->type), 60);
        cli_put_text(out, ", ");
    }
    if (seen->files > 1) {
        put_count(out, seen->files, "file");
        cli_put_text(out, ", ");
    }
    put_count(out, seen->tensors, "tensor");
    cli_put_text(out, ", ");
    cli_put_bytes(out, seen->size);
    cli_put_char(out, '\n');
}

static void put_place(cli_output *out, const doctor_finding *finding)
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
    cli_put_text(out, finding->reason);
    if (finding->offset != COFFER_NO_OFFSET) {
        snprintf(offset, sizeof offset, " (byte %" PRIu64 ")", finding->offset);
        cli_put_text(out, offset);
    }
    cli_put_char(out, '\n');
}

static void put_finding(const doctor *d, const doctor_finding *finding)
{
    static const cli_style styles[] = { CLI_CYAN, CLI_YELLOW, CLI_RED };
    cli_output *out = &d->app->out;
    const char *name = doctor_weight_name(finding->weight);
    cli_put_styled(out, styles[finding->weight], name);
    cli_put_repeat(out, ' ', 9 - strlen(name));
    put_place(out, finding);
    if (finding->command != NULL) {
        cli_put_repeat(out, ' ', 9);
        cli_put_styled(out, CLI_DIM, finding->fixes ? "fix: " : "look: ");
        cli_put_styled(out, CLI_BOLD, finding->command);
        cli_put_char(out, '\n');
    }
    if (finding->more > 0) {
        cli_put_repeat(out, ' ', 9);
        cli_put_text(out, "and ");
        cli_put_grouped(out, finding->more);
        cli_put_text(out, " more like this\n");
    }
}

void doctor_show_text(const doctor *d)
{
    put_verdict(d);
    for (size_t i = 0; i < d->seen_count && !d->app->quiet; i++) {
        put_seen(d, &d->seen[i]);
    }
    for (int weight = DOCTOR_ERROR; weight >= (d->app->quiet ? DOCTOR_WARNING : DOCTOR_NOTE); weight--) {
        for (size_t i = 0; i < d->count; i++) {
            if ((int)d->findings[i].weight == weight) {
                put_finding(d, &d->findings[i]);
            }
        }
    }
}

/* ---- JSON ---- */

static void json_seen(const doctor *d)
{
    cli_output *out = &d->app->out;
    cli_json_key(out, "models");
    cli_json_open(out, '[', true);
    for (size_t i = 0; i < d->seen_count; i++) {
        const doctor_seen *seen = &d->seen[i];
        cli_json_open(out, '{', false);
        cli_json_put_string(out, "file", seen->name);
        cli_json_text_or_null(out, "type", seen->type != NULL ? seen->type : "",
                              seen->type != NULL ? strlen(seen->type) : 0);
        cli_json_put_number(out, "files", seen->files);
        cli_json_put_number(out, "tensors", seen->tensors);
        cli_json_put_number(out, "size", seen->size);
        cli_json_close(out, '}');
    }
    cli_json_close(out, ']');
}

static void json_finding(cli_output *out, const doctor_finding *finding)
{
    cli_json_open(out, '{', false);
    cli_json_put_string(out, "weight", doctor_weight_name(finding->weight));
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
    cli_json_put_string(out, "reason", finding->reason);
    cli_json_text_or_null(out, "command", finding->command != NULL ? finding->command : "",
                          finding->command != NULL ? strlen(finding->command) : 0);
    cli_json_put_bool(out, "fixes", finding->fixes);
    cli_json_put_number(out, "more", finding->more);
    cli_json_close(out, '}');
}

void doctor_show_json(const doctor *d)
{
    cli_output *out = &d->app->out;
    cli_json_open(out, '{', true);
    cli_json_put_string(out, "path", d->path);
    cli_json_text_or_null(out, "against", d->against != NULL ? d->against : "",
                          d->against != NULL ? strlen(d->against) : 0);
    cli_json_put_bool(out, "ok", d->totals[DOCTOR_ERROR] == 0 && !(d->strict && d->totals[DOCTOR_WARNING] > 0));
    cli_json_put_number(out, "errors", d->totals[DOCTOR_ERROR]);
    cli_json_put_number(out, "warnings", d->totals[DOCTOR_WARNING]);
    cli_json_put_number(out, "notes", d->totals[DOCTOR_NOTE]);
    cli_json_put_bool(out, "data", d->data);
    json_seen(d);
    cli_json_key(out, "findings");
    cli_json_open(out, '[', true);
    for (int weight = DOCTOR_ERROR; weight >= DOCTOR_NOTE; weight--) {
        for (size_t i = 0; i < d->count; i++) {
            if ((int)d->findings[i].weight == weight) {
                json_finding(out, &d->findings[i]);
            }
        }
    }
    cli_json_close(out, ']');
    cli_json_close(out, '}');
}
