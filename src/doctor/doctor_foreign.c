/* SPDX-License-Identifier: Apache-2.0 */
/* A file of another program that is named by itself: what loading it would run, its checksums, its numbers. */
#include "checkup.h"

#include <inttypes.h>
#include <string.h>

/* ---- What runs ---- */

/* What a loader of its format would run or import, and what tells that of any pickle. */
static void check_what_runs(coffer__checkup *d, const char *name, coffer_import *imported)
{
    const coffer_import_summary *summary = coffer_import_summarize(imported);
    const coffer_import_finding *found = NULL;
    coffer__finding *finding = NULL;
    for (size_t i = 0; (found = coffer_import_finding_at(imported, i)) != NULL; i++) {
        if (found->weight == COFFER_WEIGHT_DANGER) {
            finding = coffer__doctor_add(d, COFFER_SEVERITY_ERROR, "runs_code", name, "loading this can run code: %s",
                                         found->text);
            coffer__doctor_look(d, finding, COFFER__DOCTOR_WORDS("coffer", "scan", d->path));
        }
    }
    if (summary->pickles && summary->danger_count == 0) {
        finding = coffer__doctor_add(d, COFFER_SEVERITY_WARNING, "pickle", name,
                                     "the file is a pickle, which can run anything when it is loaded; coffer "
                                     "convert makes safetensors of weights");
        coffer__doctor_look(d, finding, COFFER__DOCTOR_WORDS("coffer", "scan", d->path));
    }
    if (summary->skipped_count > 0) {
        coffer__doctor_add(d, COFFER_SEVERITY_NOTE, "left_out", name,
                           "%" PRIu64
                           " tensors were not looked at: they are no part of the model, or have no equivalent",
                           (uint64_t)summary->skipped_count);
    }
}

/* ---- Checksums ---- */

static coffer_status drop_bytes(void *ctx, uint64_t offset, const void *bytes, size_t size, coffer_error *err)
{
    (void)ctx, (void)offset, (void)bytes, (void)size, (void)err;
    return COFFER_OK;
}

static coffer_status drop_end(void *ctx, coffer_error *err)
{
    (void)ctx, (void)err;
    return COFFER_OK;
}

static void drop_all(void *ctx)
{
    (void)ctx;
}

/* As it is converted, to nowhere: that compares every checksum that the file has, and finds out whether it changed. Reading
   through the handle does not (docs/convert.md), so that without this a flipped bit of an archive would be sound. */
static coffer_status carry_to_nowhere(coffer__checkup *d, coffer_import *imported, coffer_error *err)
{
    const coffer_sink nowhere = { .write_at = drop_bytes, .finish = drop_end, .discard = drop_all };
    coffer_read_options reading = COFFER_READ_OPTIONS_INIT;
    reading.progress = d->options.progress;
    reading.progress_ctx = d->options.progress_ctx;
    coffer_header *header = NULL;
    coffer_writer *writer = NULL;
    coffer_status status = coffer_header_new(&header, &d->allocator, err);
    if (status == COFFER_OK) {
        status = coffer_import_declare(imported, header, err);
    }
    if (status == COFFER_OK) {
        status = coffer_writer_open_sink(&writer, header, &nowhere, NULL, err);
    }
    if (status == COFFER_OK) {
        status = coffer_import_carry(imported, writer, false, &reading, err);
    }
    coffer_writer_free(writer);
    coffer_header_free(header);
    return status;
}

static void check_checksums(coffer__checkup *d, const char *name, coffer_import *imported)
{
    coffer_error err;
    if (!d->data || coffer__doctor_stopped(d)) {
        return;
    }
    coffer__doctor_begin_step(d, "verifying", coffer_import_summarize(imported)->written);
    const coffer_status status = carry_to_nowhere(d, imported, &err);
    if (status != COFFER_OK && status != COFFER_ERR_CANCELLED) {
        (void)coffer__doctor_add_failure(d, "broken_file", name, &err);
    }
}

/* It was described whole to be opened, so that damage to its structure is a failure before this. */
void coffer__doctor_check_foreign(coffer__checkup *d, const coffer *model)
{
    const char *slash = coffer__doctor_last_slash(d->path);
    const char *name = slash != NULL ? slash + 1 : d->path;
    coffer__doctor_folder folder = { .doctor = d, .path = d->path, .name = "" };
    coffer__doctor_add_seen(d, "", NULL, model);
    coffer__doctor_count(d, COFFER_DOCTOR_FILES, true, 1);
    check_what_runs(d, name, coffer_model_import(model));
    check_checksums(d, name, coffer_model_import(model));
    coffer__doctor_check_data(&folder, name, d->path, model);
}
