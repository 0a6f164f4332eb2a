/* SPDX-License-Identifier: Apache-2.0 */
/* What shows that nothing is lost when something is removed: the same tensors elsewhere, byte by byte; or that no tensor has
   the bytes. */
#include "cli_files.h"
#include "cli_import.h"
#include "cli_interrupt.h"
#include "cli_progress.h"
#include "diff.h"
#include "doctor.h"
#include "meta.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE ((uint64_t)1 << 20) /* bytes that are compared at a time */

/* ---- Tensors ---- */

static doctor_same compare_pieces(const coffer *a, const coffer_tensor *x, const coffer *b, const coffer_tensor *y,
                                  char *pieces)
{
    coffer_error err;
    doctor_same same = DOCTOR_SAME;
    for (uint64_t at = 0; at < x->size && same == DOCTOR_SAME; at += PIECE) {
        const uint64_t size = x->size - at < PIECE ? x->size - at : PIECE;
        const bool read = !cli_interrupted() && coffer_read_part(a, x, at, pieces, size, NULL, &err) == COFFER_OK &&
                          coffer_read_part(b, y, at, pieces + PIECE, size, NULL, &err) == COFFER_OK;
        same = !read                                               ? DOCTOR_NOT_COMPARED
               : memcmp(pieces, pieces + PIECE, (size_t)size) != 0 ? DOCTOR_DIFFERENT
                                                                   : DOCTOR_SAME;
    }
    return same;
}

doctor_same doctor_compare(doctor *d, const coffer *a, const coffer_tensor *x, const coffer *b, const coffer_tensor *y)
{
    if (x->dtype != y->dtype || x->size != y->size || !diff_same_shape(x, y)) {
        return DOCTOR_DIFFERENT;
    }
    char *pieces = d->data ? malloc(2 * (size_t)PIECE) : NULL;
    const doctor_same same = pieces != NULL ? compare_pieces(a, x, b, y, pieces) : DOCTOR_NOT_COMPARED;
    d->failed = d->failed || (d->data && pieces == NULL);
    free(pieces);
    return same;
}

/* ---- Files ---- */

static bool has_pair(const coffer *model, const coffer_pair *pair)
{
    for (size_t i = 0; i < coffer_shard_count(model); i++) {
        size_t len = 0;
        const char *value = coffer_table_metadata_get(coffer_shard_table(model, i), pair->key, pair->key_len, &len);
        if (value != NULL && len == pair->value_len && memcmp(value, pair->value, len) == 0) {
            return true;
        }
    }
    return false;
}

static bool has_metadata(const coffer *model, const coffer *part)
{
    coffer_pair pair;
    for (size_t i = 0; coffer_table_metadata_at(coffer_shard_table(part, 0), i, &pair); i++) {
        if (!has_pair(model, &pair)) {
            return false;
        }
    }
    return true;
}

static doctor_same compare_models(doctor *d, const coffer *part, const coffer *model)
{
    doctor_same same = has_metadata(model, part) ? DOCTOR_SAME : DOCTOR_DIFFERENT;
    for (size_t i = 0; i < coffer_count(part) && same == DOCTOR_SAME; i++) {
        const coffer_tensor *tensor = coffer_at(part, i);
        const coffer_tensor *other = coffer_find(model, tensor->name, tensor->name_len);
        same = other != NULL ? doctor_compare(d, part, tensor, model, other) : DOCTOR_DIFFERENT;
    }
    return same;
}

doctor_same doctor_compare_file(doctor *d, const char *path, const char *model_path)
{
    coffer_error err;
    coffer *part = NULL;
    coffer *model = NULL;
    const bool opened = d->data && cli_open_quietly(&part, path, false, &err) == COFFER_OK &&
                        cli_open_quietly(&model, model_path, false, &err) == COFFER_OK;
    const doctor_same same = opened ? compare_models(d, part, model) : DOCTOR_NOT_COMPARED;
    coffer_close(model);
    coffer_close(part);
    return same;
}

/* ---- Files that cannot be opened ---- */

/* Bytes that look like a file that may have tensors may be all that there is of it: whoever knows what they are decides. What a
   server said, or zeros, are none. */
static bool may_have_tensors(const coffer_fixed_file *fixed)
{
    static const coffer_status kinds[] = { COFFER_ERR_IS_ZIP,  COFFER_ERR_IS_PICKLE,     COFFER_ERR_IS_GGUF,
                                           COFFER_ERR_IS_HDF5, COFFER_ERR_IS_NUMPY,      COFFER_ERR_IS_TAR,
                                           COFFER_ERR_IS_ELF,  COFFER_ERR_IS_COMPRESSED, COFFER_ERR_IS_CONVERTIBLE };
    bool may = fixed->tensors;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        may = may || fixed->looks == kinds[i];
    }
    return may;
}

static void tell_looks(doctor *d, doctor_finding *finding, const coffer_fixed_file *fixed)
{
    static const char between[] = "; they look like ";
    const char *looks = meta_looks_like(fixed);
    const size_t used = strlen(finding->reason);
    const size_t size = used + sizeof between + strlen(looks);
    if (fixed->trailing == 0 || looks[0] == '\0') {
        return;
    }
    char *reason = realloc(finding->reason, size);
    d->failed = d->failed || reason == NULL;
    if (reason != NULL) {
        snprintf(reason + used, size - used, "%s%s", between, looks);
        finding->reason = reason;
    }
}

void doctor_fix_broken(const doctor_folder *folder, doctor_finding *finding, const char *name, coffer_status status)
{
    coffer_error err;
    coffer_fixed_file fixed = COFFER_FIXED_FILE_INIT;
    const doctor_entry *entry = doctor_entry_of(folder, name);
    const bool may = status == COFFER_ERR_TRAILING_BYTES || status == COFFER_ERR_TYPE || status == COFFER_ERR_JSON;
    char *path = finding != NULL && may && entry != NULL && !entry->link ? doctor_path(folder, name) : NULL;
    if (path != NULL && coffer_fix_file(path, NULL, true, &fixed, &err) == COFFER_OK) {
        tell_looks(folder->doctor, finding, &fixed);
        if (may_have_tensors(&fixed)) {
            doctor_look(folder->doctor, finding, DOCTOR_WORDS("coffer", "meta", "--fix", "--dry-run", path));
        } else {
            doctor_fix(folder->doctor, finding, DOCTOR_WORDS("coffer", "meta", "--fix", path));
        }
    }
    free(path);
}

/* ---- Files of other programs ---- */

/* Whether tensors are all that it has. */
static bool is_all_tensors(coffer_import *imported)
{
    const coffer_import_summary *summary = coffer_import_summarize(imported);
    return summary->file_count == 1 && summary->written_count > 0 && summary->skipped_count == 0 &&
           summary->opaque_count == 0 && summary->danger_count == 0 && summary->unreferenced == 0;
}

static doctor_same compare_import(doctor *d, coffer_import *imported, const coffer *model)
{
    coffer_error err;
    cli_progress progress;
    coffer_read_options reading = COFFER_READ_OPTIONS_INIT;
    cli_progress_begin(&progress, d->app, "comparing", coffer_import_summarize(imported)->output);
    cli_progress_part part = { &progress, 0 };
    reading.progress = cli_progress_call;
    reading.progress_ctx = &part;
    const coffer_status status = coffer_import_verify(imported, model, &reading, &err);
    cli_progress_finish(&progress);
    return status == COFFER_OK ? DOCTOR_SAME : status == COFFER_ERR_NOT_EQUAL ? DOCTOR_DIFFERENT : DOCTOR_NOT_COMPARED;
}

doctor_same doctor_compare_foreign(doctor *d, const char *path, const char *model_path)
{
    coffer_error err;
    coffer *model = NULL;
    cli_import opened = { NULL, NULL };
    const coffer_import_options options = COFFER_IMPORT_OPTIONS_INIT;
    const bool read = d->data && cli_open_quietly(&model, model_path, false, &err) == COFFER_OK &&
                      cli_import_open(&opened, path, &options, true, &err) == COFFER_OK;
    doctor_same same = read ? compare_import(d, opened.import, model) : DOCTOR_NOT_COMPARED;
    if (same == DOCTOR_SAME && !is_all_tensors(opened.import)) {
        same = DOCTOR_NOT_COMPARED;
    }
    cli_import_close(&opened);
    coffer_close(model);
    return same;
}
