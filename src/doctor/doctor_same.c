/* SPDX-License-Identifier: Apache-2.0 */
/* What shows that nothing is lost when something is removed: the same tensors elsewhere, byte by byte; or that no tensor has
   the bytes. */
#include "checkup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE ((uint64_t)1 << 20) /* bytes that are compared at a time */

/* ---- Tensors ---- */

static coffer__doctor_same compare_pieces(coffer__checkup *d, const coffer *a, const coffer_tensor *x, const coffer *b,
                                          const coffer_tensor *y, char *pieces)
{
    coffer_error err;
    coffer__doctor_same same = COFFER__DOCTOR_SAME;
    for (uint64_t at = 0; at < x->size && same == COFFER__DOCTOR_SAME; at += PIECE) {
        const uint64_t size = x->size - at < PIECE ? x->size - at : PIECE;
        const bool read = !coffer__doctor_stopped(d) &&
                          coffer_read_part(a, x, at, pieces, size, NULL, &err) == COFFER_OK &&
                          coffer_read_part(b, y, at, pieces + PIECE, size, NULL, &err) == COFFER_OK;
        same = !read                                               ? COFFER__DOCTOR_NOT_COMPARED
               : memcmp(pieces, pieces + PIECE, (size_t)size) != 0 ? COFFER__DOCTOR_DIFFERENT
                                                                   : COFFER__DOCTOR_SAME;
    }
    return same;
}

coffer__doctor_same coffer__doctor_compare(coffer__checkup *d, const coffer *a, const coffer_tensor *x, const coffer *b,
                                           const coffer_tensor *y)
{
    if (x->dtype != y->dtype || x->size != y->size || !coffer__doctor_same_shape(x, y)) {
        return COFFER__DOCTOR_DIFFERENT;
    }
    char *pieces = d->data ? coffer__doctor_new(d, 2 * (size_t)PIECE) : NULL;
    const coffer__doctor_same same =
        pieces != NULL ? compare_pieces(d, a, x, b, y, pieces) : COFFER__DOCTOR_NOT_COMPARED;
    coffer__block_free(pieces);
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

static coffer__doctor_same compare_models(coffer__checkup *d, const coffer *part, const coffer *model)
{
    coffer__doctor_same same = has_metadata(model, part) ? COFFER__DOCTOR_SAME : COFFER__DOCTOR_DIFFERENT;
    for (size_t i = 0; i < coffer_count(part) && same == COFFER__DOCTOR_SAME; i++) {
        const coffer_tensor *tensor = coffer_at(part, i);
        const coffer_tensor *other = coffer_find(model, tensor->name, tensor->name_len);
        same = other != NULL ? coffer__doctor_compare(d, part, tensor, model, other) : COFFER__DOCTOR_DIFFERENT;
    }
    return same;
}

coffer__doctor_same coffer__doctor_compare_file(coffer__checkup *d, const char *path, const char *model_path)
{
    coffer_error err;
    coffer *part = NULL;
    coffer *model = NULL;
    const bool opened = d->data && coffer__doctor_open(d, &part, path, false, &err) == COFFER_OK &&
                        coffer__doctor_open(d, &model, model_path, false, &err) == COFFER_OK;
    const coffer__doctor_same same = opened ? compare_models(d, part, model) : COFFER__DOCTOR_NOT_COMPARED;
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

static void tell_looks(coffer__checkup *d, coffer__finding *finding, const coffer_fixed_file *fixed)
{
    static const char between[] = "; they look like ";
    const char *looks = coffer_fixed_looks(fixed);
    const size_t used = strlen(finding->reason);
    const size_t size = used + sizeof between + strlen(looks);
    if (fixed->trailing == 0 || looks[0] == '\0') {
        return;
    }
    char *reason = coffer__block_resize(&d->allocator, finding->reason, size);
    if (reason != NULL) {
        snprintf(reason + used, size - used, "%s%s", between, looks);
        finding->reason = reason;
    }
}

void coffer__doctor_fix_broken(const coffer__doctor_folder *folder, coffer__finding *finding, const char *name,
                               coffer_status status)
{
    coffer_error err;
    coffer_fixed_file fixed = COFFER_FIXED_FILE_INIT;
    const coffer__doctor_entry *entry = coffer__doctor_entry_of(folder, name);
    const bool may = status == COFFER_ERR_TRAILING_BYTES || status == COFFER_ERR_TYPE || status == COFFER_ERR_JSON;
    char *path = finding != NULL && may && entry != NULL && !entry->link ? coffer__doctor_path(folder, name) : NULL;
    if (path != NULL && coffer__doctor_would_fix_file(folder->doctor, path, &fixed, &err) == COFFER_OK) {
        tell_looks(folder->doctor, finding, &fixed);
        if (may_have_tensors(&fixed)) {
            coffer__doctor_look(folder->doctor, finding,
                                COFFER__DOCTOR_WORDS("coffer", "meta", "--fix", "--dry-run", path));
        } else {
            coffer__doctor_fix(folder->doctor, finding, COFFER__DOCTOR_WORDS("coffer", "meta", "--fix", path));
        }
    }
    coffer__block_free(path);
}

/* ---- Files of other programs ---- */

/* Whether tensors are all that it has. */
static bool is_all_tensors(coffer_import *imported)
{
    const coffer_import_summary *summary = coffer_import_summarize(imported);
    return summary->file_count == 1 && summary->written_count > 0 && summary->skipped_count == 0 &&
           summary->opaque_count == 0 && summary->danger_count == 0 && summary->unreferenced == 0;
}

static coffer__doctor_same compare_import(coffer__checkup *d, coffer_import *imported, const coffer *model)
{
    coffer_error err;
    coffer_read_options reading = COFFER_READ_OPTIONS_INIT;
    reading.progress = d->options.progress;
    reading.progress_ctx = d->options.progress_ctx;
    coffer__doctor_begin_step(d, "comparing", coffer_import_summarize(imported)->output);
    const coffer_status status = coffer_import_verify(imported, model, &reading, &err);
    return status == COFFER_OK              ? COFFER__DOCTOR_SAME
           : status == COFFER_ERR_NOT_EQUAL ? COFFER__DOCTOR_DIFFERENT
                                            : COFFER__DOCTOR_NOT_COMPARED;
}

/* By the caller's function, or in this process; what was opened is to be freed in any case. */
static coffer_status import_file(coffer__checkup *d, const char *path, coffer_input **input, coffer_import **imported,
                                 coffer_error *err)
{
    const coffer_doctor_options *options = &d->options;
    const coffer_open_options opening = coffer__doctor_open_options(d, false);
    if (options->import != NULL) {
        return options->import(options->import_ctx, path, input, imported, err);
    }
    const coffer_status status = coffer_input_open(input, path, &opening, err);
    return status == COFFER_OK ? coffer_import_open(imported, *input, NULL, err) : status;
}

coffer__doctor_same coffer__doctor_compare_foreign(coffer__checkup *d, const char *path, const char *model_path)
{
    coffer_error err;
    coffer *model = NULL;
    coffer_input *input = NULL;
    coffer_import *imported = NULL;
    const bool read = d->data && coffer__doctor_open(d, &model, model_path, false, &err) == COFFER_OK &&
                      import_file(d, path, &input, &imported, &err) == COFFER_OK;
    coffer__doctor_same same = read ? compare_import(d, imported, model) : COFFER__DOCTOR_NOT_COMPARED;
    if (same == COFFER__DOCTOR_SAME && !is_all_tensors(imported)) {
        same = COFFER__DOCTOR_NOT_COMPARED;
    }
    coffer_import_free(imported);
    coffer_input_free(input);
    coffer_close(model);
    return same;
}
