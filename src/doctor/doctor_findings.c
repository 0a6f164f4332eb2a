/* SPDX-License-Identifier: Apache-2.0 */
/* The list of findings, and the advice in it. */
#include "checkup.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REASON_MAX 1024

const char *coffer_severity_name(coffer_severity severity)
{
    static const char *const names[] = { "note", "warning", "error" };
    return names[severity];
}

const char *coffer_evidence_name(coffer_evidence evidence)
{
    static const char *const names[] = { "names", "files", "headers", "data" };
    return names[evidence];
}

/* What the kinds rest on that do not rest on headers. Of those that rest on data something is known without reading them, too:
   what digests of metadata say. */
static const struct {
    const char *kind;
    coffer_evidence evidence;
} EVIDENCE[] = {
    { "against_config", COFFER_EVIDENCE_FILES },
    { "against_data", COFFER_EVIDENCE_DATA },
    { "against_file", COFFER_EVIDENCE_FILES },
    { "base_missing", COFFER_EVIDENCE_FILES },
    { "beside_index", COFFER_EVIDENCE_FILES },
    { "config_number", COFFER_EVIDENCE_FILES },
    { "digest", COFFER_EVIDENCE_DATA },
    { "file_case", COFFER_EVIDENCE_NAMES },
    { "generation_config", COFFER_EVIDENCE_NAMES },
    { "hub_digest", COFFER_EVIDENCE_DATA },
    { "hub_recorded", COFFER_EVIDENCE_FILES },
    { "infinite", COFFER_EVIDENCE_DATA },
    { "json", COFFER_EVIDENCE_FILES },
    { "leftover", COFFER_EVIDENCE_NAMES },
    { "lfs_pointer", COFFER_EVIDENCE_NAMES },
    { "link_outside", COFFER_EVIDENCE_NAMES },
    { "loose_json", COFFER_EVIDENCE_FILES },
    { "lost_link", COFFER_EVIDENCE_NAMES },
    { "nan", COFFER_EVIDENCE_DATA },
    { "no_adapter_config", COFFER_EVIDENCE_NAMES },
    { "no_model", COFFER_EVIDENCE_NAMES },
    { "no_weights", COFFER_EVIDENCE_NAMES },
    { "not_a_file", COFFER_EVIDENCE_NAMES },
    { "part_missing", COFFER_EVIDENCE_FILES },
    { "pickle", COFFER_EVIDENCE_NAMES },
    { "shadowed", COFFER_EVIDENCE_NAMES },
    { "shard_missing", COFFER_EVIDENCE_FILES },
    { "tokenizer", COFFER_EVIDENCE_NAMES },
    { "tokenizer_config", COFFER_EVIDENCE_NAMES },
    { "too_deep", COFFER_EVIDENCE_NAMES },
    { "too_large", COFFER_EVIDENCE_NAMES },
    { "web_page", COFFER_EVIDENCE_NAMES },
    { "weights_differ", COFFER_EVIDENCE_DATA },
    { "weights_twice", COFFER_EVIDENCE_NAMES },
    { "zeros", COFFER_EVIDENCE_DATA },
};

static coffer_evidence evidence_of(const coffer__checkup *d, const char *kind)
{
    coffer_evidence evidence = COFFER_EVIDENCE_HEADERS;
    for (size_t i = 0; i < sizeof EVIDENCE / sizeof EVIDENCE[0]; i++) {
        evidence = strcmp(EVIDENCE[i].kind, kind) == 0 ? EVIDENCE[i].evidence : evidence;
    }
    return evidence == COFFER_EVIDENCE_DATA && !d->data ? COFFER_EVIDENCE_HEADERS : evidence;
}

void coffer__doctor_by_data(coffer__finding *finding)
{
    if (finding != NULL) {
        finding->evidence = COFFER_EVIDENCE_DATA;
    }
}

const char *coffer__doctor_shown(char shown[COFFER__DOCTOR_SHOWN], const char *name, size_t name_len)
{
    const size_t most = 160;
    size_t cut = name_len > most ? most / 4 : name_len;
    while (cut > 0 && cut < name_len && ((unsigned char)name[cut] & 0xC0) == 0x80) {
        cut--; /* not within a character */
    }
    const size_t len = coffer_escape(name, cut, shown, COFFER__DOCTOR_SHOWN - 4);
    if (cut < name_len && len < COFFER__DOCTOR_SHOWN - 4) {
        memcpy(shown + len, "...", 4);
    }
    return shown;
}

void coffer__doctor_put_shape(char text[COFFER__DOCTOR_SHAPE], const coffer_tensor *tensor)
{
    const size_t size = COFFER__DOCTOR_SHAPE;
    size_t used = (size_t)snprintf(text, size, "[");
    for (uint32_t i = 0; i < tensor->rank && i < 4 && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%" PRIu64, i > 0 ? ", " : "", tensor->shape[i]);
    }
    if (used < size) {
        snprintf(text + used, size - used, tensor->rank > 4 ? ", ...]" : "]");
    }
}

/* ---- Adding ---- */

char *coffer__doctor_name(const coffer__doctor_folder *folder, const char *name)
{
    return coffer__doctor_join(folder->doctor, folder->name, name);
}

static coffer__doctor_kind *kind_of(coffer__checkup *d, const char *kind)
{
    for (size_t i = 0; i < d->kind_count; i++) {
        if (strcmp(d->kinds[i].kind, kind) == 0) {
            return &d->kinds[i];
        }
    }
    if (d->kind_count == COFFER__DOCTOR_KINDS_MAX) {
        return NULL;
    }
    d->kinds[d->kind_count] = (coffer__doctor_kind){ .kind = kind };
    return &d->kinds[d->kind_count++];
}

bool coffer__doctor_is_listed(coffer__checkup *d, const char *kind)
{
    const coffer__doctor_kind *same = kind_of(d, kind);
    return same == NULL || same->count < COFFER__DOCTOR_SAME_MAX;
}

static coffer__finding *reserve(coffer__checkup *d)
{
    coffer__finding *findings = coffer__doctor_grow(d, d->findings, d->count, &d->capacity, sizeof *findings);
    d->findings = findings != NULL ? findings : d->findings;
    return findings != NULL ? &findings[d->count] : NULL;
}

/* Of a kind that came often only the number counts: whoever fixes the first twenty looks again. */
static coffer__finding *add(coffer__checkup *d, coffer_severity severity, const char *kind, const char *file,
                            const char *reason)
{
    coffer__doctor_kind *same = kind_of(d, kind);
    d->totals[severity]++;
    if (same != NULL && same->count >= COFFER__DOCTOR_SAME_MAX) {
        d->findings[same->last].more++;
        return NULL;
    }
    coffer__finding *finding = reserve(d);
    if (finding == NULL) {
        return NULL;
    }
    *finding = (coffer__finding){
        .severity = severity, .evidence = evidence_of(d, kind), .kind = kind, .offset = COFFER_NO_OFFSET
    };
    finding->file = coffer__doctor_copy(d, file);
    finding->reason = coffer__doctor_copy(d, reason);
    if (finding->file == NULL || finding->reason == NULL) {
        coffer__block_free(finding->file);
        coffer__block_free(finding->reason);
        return NULL;
    }
    if (same != NULL) {
        same->count++;
        same->last = d->count;
    }
    d->count++;
    return finding;
}

coffer__finding *coffer__doctor_add(coffer__checkup *d, coffer_severity severity, const char *kind, const char *file,
                                    const char *format, ...)
{
    char reason[REASON_MAX];
    va_list values;
    va_start(values, format);
    vsnprintf(reason, sizeof reason, format, values);
    va_end(values);
    return add(d, severity, kind, file, reason);
}

coffer__finding *coffer__doctor_add_in(const coffer__doctor_folder *folder, coffer_severity severity, const char *kind,
                                       const char *name, const char *format, ...)
{
    char reason[REASON_MAX];
    va_list values;
    va_start(values, format);
    vsnprintf(reason, sizeof reason, format, values);
    va_end(values);
    char *file = coffer__doctor_name(folder, name);
    coffer__finding *finding = file != NULL ? add(folder->doctor, severity, kind, file, reason) : NULL;
    coffer__block_free(file);
    return finding;
}

void coffer__doctor_about(coffer__checkup *d, coffer__finding *finding, const char *tensor, size_t tensor_len)
{
    char *copy = finding != NULL ? coffer__doctor_copy_part(d, tensor, tensor_len) : NULL;
    if (copy != NULL) {
        coffer__block_free(finding->tensor);
        finding->tensor = copy;
        finding->tensor_len = tensor_len;
    }
}

coffer__finding *coffer__doctor_add_failure(coffer__checkup *d, const char *kind, const char *file,
                                            const coffer_error *err)
{
    coffer__finding *finding = coffer__doctor_add(d, COFFER_SEVERITY_ERROR, kind, file, "%s", err->message);
    d->unreadable = d->unreadable || coffer__doctor_is_unread(err->code);
    if (finding != NULL) {
        finding->offset = err->offset;
    }
    return finding;
}

void coffer__doctor_add_seen(coffer__checkup *d, const char *name, const char *type, const coffer *model)
{
    coffer__doctor_seen *all = coffer__doctor_grow(d, d->seen, d->seen_count, &d->seen_capacity, sizeof *all);
    if (all == NULL) {
        return;
    }
    d->seen = all;
    coffer__doctor_seen *seen = &d->seen[d->seen_count];
    *seen = (coffer__doctor_seen){ .name = coffer__doctor_copy(d, name),
                                   .files = coffer_shard_count(model),
                                   .tensors = coffer_count(model) };
    seen->type = type != NULL ? coffer__doctor_copy(d, type) : NULL;
    for (size_t i = 0; i < coffer_shard_count(model); i++) {
        seen->size += coffer_table_data_size(coffer_shard_table(model, i));
    }
    if (seen->name == NULL) {
        coffer__block_free(seen->type);
        return;
    }
    d->seen_count++;
}

void coffer__doctor_free_findings(coffer__checkup *d)
{
    for (size_t i = 0; i < d->count; i++) {
        coffer__block_free(d->findings[i].file);
        coffer__block_free(d->findings[i].tensor);
        coffer__block_free(d->findings[i].reason);
        for (size_t k = 0; k < d->findings[i].step_count; k++) {
            coffer__block_free(d->findings[i].step_blocks[k]);
        }
        coffer__block_free(d->findings[i].step_blocks);
        coffer__block_free(d->findings[i].steps);
    }
    for (size_t i = 0; i < d->seen_count; i++) {
        coffer__block_free(d->seen[i].name);
        coffer__block_free(d->seen[i].type);
    }
    for (size_t i = 0; i < d->below_count; i++) {
        coffer__block_free(d->below[i]);
    }
    coffer__block_free(d->below);
    coffer__block_free(d->findings);
    coffer__block_free(d->seen);
    coffer__block_free(d->reported_findings);
    coffer__block_free(d->reported_models);
}

/* ---- Advice ---- */

static coffer_advice advice_of(const char *program)
{
    static const char *const programs[] = { "coffer", "rm", "mv", "cp" };
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        if (strcmp(program, programs[i]) == 0) {
            return (coffer_advice)i;
        }
    }
    return COFFER_ADVICE_PROGRAM;
}

/* One block: the addresses of the words, a NULL, and the words. */
static const char **copy_words(coffer__checkup *d, const char *const *words, size_t *count)
{
    size_t size = 0;
    *count = 0;
    for (; words[*count] != NULL; ++*count) {
        size += strlen(words[*count]) + 1;
    }
    const char **copy = coffer__doctor_new(d, (*count + 1) * sizeof *copy + size);
    char *text = copy != NULL ? (char *)(copy + *count + 1) : NULL;
    for (size_t i = 0; text != NULL && i < *count; i++) {
        const size_t len = strlen(words[i]) + 1;
        copy[i] = memcpy(text, words[i], len);
        text += len;
    }
    return copy;
}

static void add_step(coffer__checkup *d, coffer__finding *finding, const char *const *words)
{
    size_t word_count = 0;
    const size_t count = finding->step_count + 1;
    coffer_doctor_step *steps = coffer__block_resize(&d->allocator, finding->steps, count * sizeof *steps);
    finding->steps = steps != NULL ? steps : finding->steps;
    void **blocks = coffer__block_resize(&d->allocator, finding->step_blocks, count * sizeof *blocks);
    finding->step_blocks = blocks != NULL ? blocks : finding->step_blocks;
    const char **copy = steps != NULL && blocks != NULL ? copy_words(d, words, &word_count) : NULL;
    if (copy != NULL) {
        steps[count - 1] = (coffer_doctor_step){ (const char *const *)copy, word_count, advice_of(words[0]) };
        blocks[count - 1] = copy;
        finding->step_count = count;
    }
}

void coffer__doctor_fix(coffer__checkup *d, coffer__finding *finding, const char *const *words)
{
    if (finding != NULL) {
        add_step(d, finding, words);
        finding->fixes = true;
    }
}

void coffer__doctor_look(coffer__checkup *d, coffer__finding *finding, const char *const *words)
{
    if (finding != NULL) {
        add_step(d, finding, words);
    }
}

char *coffer__doctor_pattern(coffer__checkup *d, const char *name, size_t name_len)
{
    size_t used = 0;
    char *pattern = memchr(name, '\0', name_len) == NULL ? coffer__doctor_new(d, 2 * name_len + 1) : NULL;
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

/* ---- All of them ---- */

static coffer_doctor_finding reported_finding(const coffer__finding *found)
{
    return (coffer_doctor_finding){ .severity = found->severity,
                                    .evidence = found->evidence,
                                    .kind = found->kind,
                                    .file = found->file,
                                    .tensor = found->tensor,
                                    .tensor_len = found->tensor_len,
                                    .offset = found->offset,
                                    .message = found->reason,
                                    .more = found->more,
                                    .steps = found->steps,
                                    .step_count = found->step_count,
                                    .fixes = found->fixes };
}

/* From the worst on, each severity in the order in which its findings came. */
static void tell_findings(coffer__checkup *d)
{
    size_t count = 0;
    d->reported_findings = coffer__doctor_array(d, d->count, sizeof *d->reported_findings);
    for (int severity = COFFER_SEVERITY_ERROR; severity >= COFFER_SEVERITY_NOTE && d->reported_findings != NULL;
         severity--) {
        for (size_t i = 0; i < d->count; i++) {
            if ((int)d->findings[i].severity == severity) {
                d->reported_findings[count++] = reported_finding(&d->findings[i]);
            }
        }
    }
}

static void tell_models(coffer__checkup *d)
{
    d->reported_models = coffer__doctor_array(d, d->seen_count, sizeof *d->reported_models);
    for (size_t i = 0; i < d->seen_count && d->reported_models != NULL; i++) {
        const coffer__doctor_seen *seen = &d->seen[i];
        d->reported_models[i] = (coffer_doctor_model){ seen->name, seen->type, seen->files, seen->tensors, seen->size };
    }
}

void coffer__doctor_close_findings(coffer__checkup *d)
{
    tell_findings(d);
    tell_models(d);
    d->summary.errors = d->totals[COFFER_SEVERITY_ERROR];
    d->summary.warnings = d->totals[COFFER_SEVERITY_WARNING];
    d->summary.notes = d->totals[COFFER_SEVERITY_NOTE];
    d->summary.finding_count = d->count;
    d->summary.model_count = d->seen_count;
    d->summary.data = d->data;
    d->summary.unreadable = d->unreadable;
}
