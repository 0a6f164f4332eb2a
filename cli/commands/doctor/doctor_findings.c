/* SPDX-License-Identifier: Apache-2.0 */
/* The list of findings, and the commands in it. */
#include "cli_quote.h"
#include "cli_report.h"
#include "cli_text.h"
#include "doctor.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REASON_MAX 1024

const char *doctor_weight_name(doctor_weight weight)
{
    static const char *const names[] = { "note", "warning", "error" };
    return names[weight];
}

const char *doctor_shown(char shown[DOCTOR_SHOWN], const char *name, size_t name_len)
{
    const size_t most = 160;
    const size_t cut = name_len > most ? cli_cut_at_character(name, name_len, most / 4) : name_len;
    const size_t len = coffer_escape(name, cut, shown, DOCTOR_SHOWN - 4);
    if (cut < name_len && len < DOCTOR_SHOWN - 4) {
        memcpy(shown + len, "...", 4);
    }
    return shown;
}

void doctor_put_shape(char text[DOCTOR_SHAPE], const coffer_tensor *tensor)
{
    const size_t size = DOCTOR_SHAPE;
    size_t used = (size_t)snprintf(text, size, "[");
    for (uint32_t i = 0; i < tensor->rank && i < 4 && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%" PRIu64, i > 0 ? ", " : "", tensor->shape[i]);
    }
    if (used < size) {
        snprintf(text + used, size - used, tensor->rank > 4 ? ", ...]" : "]");
    }
}

/* ---- Adding ---- */

static doctor_kind *kind_of(doctor *d, const char *kind)
{
    for (size_t i = 0; i < d->kind_count; i++) {
        if (strcmp(d->kinds[i].kind, kind) == 0) {
            return &d->kinds[i];
        }
    }
    if (d->kind_count == DOCTOR_KINDS_MAX) {
        return NULL;
    }
    d->kinds[d->kind_count] = (doctor_kind){ .kind = kind };
    return &d->kinds[d->kind_count++];
}

bool doctor_is_listed(doctor *d, const char *kind)
{
    const doctor_kind *same = kind_of(d, kind);
    return same == NULL || same->count < DOCTOR_SAME_MAX;
}

static doctor_finding *reserve(doctor *d)
{
    if (d->count == d->capacity) {
        const size_t capacity = d->capacity == 0 ? 64 : 2 * d->capacity;
        doctor_finding *findings = realloc(d->findings, capacity * sizeof *findings);
        if (findings == NULL) {
            d->failed = true;
            return NULL;
        }
        d->findings = findings;
        d->capacity = capacity;
    }
    return &d->findings[d->count];
}

/* Of a kind that came often only the number counts: whoever fixes the first twenty looks again. */
static doctor_finding *add(doctor *d, doctor_weight weight, const char *kind, const char *file, const char *reason)
{
    doctor_kind *same = kind_of(d, kind);
    d->totals[weight]++;
    if (same != NULL && same->count >= DOCTOR_SAME_MAX) {
        d->findings[same->last].more++;
        return NULL;
    }
    doctor_finding *finding = reserve(d);
    if (finding == NULL) {
        return NULL;
    }
    *finding = (doctor_finding){ .weight = weight, .kind = kind, .offset = COFFER_NO_OFFSET };
    finding->file = strdup(file);
    finding->reason = strdup(reason);
    if (finding->file == NULL || finding->reason == NULL) {
        free(finding->file);
        free(finding->reason);
        d->failed = true;
        return NULL;
    }
    if (same != NULL) {
        same->count++;
        same->last = d->count;
    }
    d->count++;
    return finding;
}

doctor_finding *doctor_add(doctor *d, doctor_weight weight, const char *kind, const char *file, const char *format, ...)
{
    char reason[REASON_MAX];
    va_list values;
    va_start(values, format);
    vsnprintf(reason, sizeof reason, format, values);
    va_end(values);
    return add(d, weight, kind, file, reason);
}

doctor_finding *doctor_add_in(const doctor_folder *folder, doctor_weight weight, const char *kind, const char *name,
                              const char *format, ...)
{
    char reason[REASON_MAX];
    va_list values;
    va_start(values, format);
    vsnprintf(reason, sizeof reason, format, values);
    va_end(values);
    char *file = doctor_name(folder, name);
    doctor_finding *finding = file != NULL ? add(folder->doctor, weight, kind, file, reason) : NULL;
    folder->doctor->failed = folder->doctor->failed || file == NULL;
    free(file);
    return finding;
}

void doctor_about(doctor *d, doctor_finding *finding, const char *tensor, size_t tensor_len)
{
    if (finding == NULL) {
        return;
    }
    finding->tensor = malloc(tensor_len + 1);
    if (finding->tensor == NULL) {
        d->failed = true;
        return;
    }
    memcpy(finding->tensor, tensor, tensor_len);
    finding->tensor[tensor_len] = '\0';
    finding->tensor_len = tensor_len;
}

doctor_finding *doctor_add_failure(doctor *d, const char *kind, const char *file, const coffer_error *err)
{
    doctor_finding *finding = doctor_add(d, DOCTOR_ERROR, kind, file, "%s", err->message);
    d->unreadable = d->unreadable || cli_exit_code(err->code) == CLI_EXIT_UNREADABLE;
    if (finding != NULL) {
        finding->offset = err->offset;
    }
    return finding;
}

void doctor_add_seen(doctor *d, const char *name, const char *type, const coffer *model)
{
    if (d->seen_count == d->seen_capacity) {
        const size_t capacity = d->seen_capacity == 0 ? 16 : 2 * d->seen_capacity;
        doctor_seen *seen = realloc(d->seen, capacity * sizeof *seen);
        if (seen == NULL) {
            d->failed = true;
            return;
        }
        d->seen = seen;
        d->seen_capacity = capacity;
    }
    doctor_seen *seen = &d->seen[d->seen_count];
    *seen = (doctor_seen){ .name = strdup(name), .files = coffer_shard_count(model), .tensors = coffer_count(model) };
    seen->type = type != NULL ? strdup(type) : NULL;
    for (size_t i = 0; i < coffer_shard_count(model); i++) {
        seen->size += coffer_table_data_size(coffer_shard_table(model, i));
    }
    d->failed = d->failed || seen->name == NULL || (type != NULL && seen->type == NULL);
    if (seen->name != NULL) {
        d->seen_count++;
    }
}

void doctor_free_findings(doctor *d)
{
    for (size_t i = 0; i < d->count; i++) {
        free(d->findings[i].file);
        free(d->findings[i].tensor);
        free(d->findings[i].reason);
        free(d->findings[i].command);
    }
    for (size_t i = 0; i < d->seen_count; i++) {
        free(d->seen[i].name);
        free(d->seen[i].type);
    }
    free(d->findings);
    free(d->seen);
}

/* ---- Commands ---- */

/* A word of the command, or && between two of them, with a space before it where something is there already. */
static void add_word(char *command, size_t size, size_t *used, const char *word, bool quoted)
{
    if (*used > 0) {
        command[(*used)++] = ' ';
    }
    *used += quoted ? cli_quote(word, strlen(word), command + *used, size - *used)
                    : (size_t)snprintf(command + *used, size - *used, "%s", word);
}

static void add_command(doctor *d, doctor_finding *finding, const char *const *words)
{
    size_t used = finding->command != NULL ? strlen(finding->command) : 0;
    size_t size = used + sizeof " &&";
    for (size_t i = 0; words[i] != NULL; i++) {
        size += cli_quote(words[i], strlen(words[i]), NULL, 0) + 1;
    }
    char *command = realloc(finding->command, size);
    if (command == NULL) {
        d->failed = true;
        return;
    }
    finding->command = command;
    if (used > 0) {
        add_word(command, size, &used, "&&", false);
    }
    for (size_t i = 0; words[i] != NULL; i++) {
        add_word(command, size, &used, words[i], true);
    }
}

void doctor_fix(doctor *d, doctor_finding *finding, const char *const *words)
{
    if (finding != NULL) {
        add_command(d, finding, words);
        finding->fixes = true;
    }
}

void doctor_look(doctor *d, doctor_finding *finding, const char *const *words)
{
    if (finding != NULL) {
        add_command(d, finding, words);
    }
}

char *doctor_pattern(const char *name, size_t name_len)
{
    size_t used = 0;
    char *pattern = memchr(name, '\0', name_len) == NULL ? malloc(2 * name_len + 1) : NULL;
    for (size_t i = 0; i < name_len && pattern != NULL; i++) {
        if (strchr("*?[]\\", name[i]) != NULL) {
            pattern[used++] = '\\';
        }
        pattern[used++] = name[i];
    }
    if (pattern != NULL) {
        pattern[used] = '\0';
    }
    return pattern;
}
