/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Imports that are written: declared, carried, published and verified.
 *
 * coffer_import_write does it all, in this order:
 *
 *   1. open a writer of one file, or of a model that is split, with a header of what the plan writes
 *   2. copy the bytes, and compare CRCs on the way (copy_tensors.h)
 *   3. ask whether the input is still the file that was opened
 *   4. open the complete files as a model, and compare every tensor with the input (import_verify.c)
 *   5. publish: from now on the output is there under its name
 *
 * A failure before 5 leaves what was at the output before. A file that is written in place has its
 * name all the time; it is compared after 5, as nothing can be kept back there.
 *
 * The steps are public, too, for callers that have a sink of their own.
 */
#include "copy_tensors.h"
#include "error.h"
#include "import.h"
#include "model_writer.h"
#include "options.h"
#include "parts.h"
#include "paths.h"
#include "writer_check.h"
#include "writer_own.h"

#include <string.h>

/* ---- in steps ---------------------------------------------------------------------------------------------------- */

/* In the order of the plan, by which carry.c finds its tensors again. The names were checked, and
   UTF-8 and uniqueness with them, so that what can still fail is memory, or a header that is too
   large for the format. */
coffer_status coffer_import_declare(const coffer_import *import, coffer_header *header, coffer_error *err)
{
    if (import == NULL || header == NULL || coffer_header_count(header) > 0) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "an import is declared in a header without tensors");
    }
    const coffer__import_plan *plan = &import->plan;
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < plan->rows.count && status == COFFER_OK; i++) {
        const coffer__import_plan_row *row = coffer__import_plan_rows(plan) + i;
        if (row->fate == COFFER_FATE_WRITTEN) {
            size_t name_len = 0;
            const char *name = coffer__import_plan_text(plan, row->name, &name_len);
            status =
                coffer_header_add(header, name, name_len, row->dtype, import->shapes + row->dimensions, row->rank, err);
        }
    }
    coffer_pair pair;
    for (size_t i = 0; status == COFFER_OK && coffer_import_metadata_at(import, i, &pair); i++) {
        status = coffer_header_set_metadata(header, pair.key, pair.key_len, pair.value, pair.value_len, err);
    }
    return status;
}

/* What both ways to carry have in common: the options, the header, and that the input is still what
   it was. The header is compared by its count only: whoever declares something else in a header of
   as many tensors is stopped by the writer, which knows the size of each. */
static coffer_status import_copy(const coffer_import *import, const coffer__copy_target *target, bool unchecked,
                                 const coffer_read_options *reading, coffer_error *err)
{
    coffer_read_options known;
    coffer_status status = coffer__options_copy(&known, sizeof known, reading, err);
    if (status == COFFER_OK && coffer_header_count(target->header) != import->summary.written_count) {
        status = coffer__fail(err, COFFER_ERR_ARGUMENT, "the writer's header does not declare this import");
    }
    if (status == COFFER_OK) {
        known.struct_size = sizeof known;
        status = coffer__copy_tensors(&import->plan, import->input, target, unchecked, &known, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    return coffer__input_is_still(import->input, err);
}

/* Files without a name are made beside the new file, if there is one: there is space for that much. */
coffer_status coffer_import_carry(coffer_import *import, coffer_writer *writer, bool unchecked,
                                  const coffer_read_options *reading, coffer_error *err)
{
    if (import == NULL || writer == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the import or the writer is NULL");
    }
    const coffer__copy_target target = {
        .writer = writer, .header = writer->header, .in_order = writer->sink.in_order, .spool = writer->path
    };
    return import_copy(import, &target, unchecked, reading, err);
}

/* A model has several files, and writes at any place in them. */
coffer_status coffer_import_carry_model(coffer_import *import, coffer_model_writer *writer, bool unchecked,
                                        const coffer_read_options *reading, coffer_error *err)
{
    if (import == NULL || writer == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the import or the writer is NULL");
    }
    const coffer__copy_target target = { .model = writer,
                                         .header = coffer__model_writer_header(writer),
                                         .spool = coffer__model_writer_path(writer) };
    return import_copy(import, &target, unchecked, reading, err);
}

/* ---- at once ----------------------------------------------------------------------------------------------------- */

/* One call of coffer_import_write. What is compared counts like what is written. */
typedef struct import_saving {
    coffer_import *import;
    const char *output;
    coffer_import_write_options options;
    coffer_read_options reading;
    coffer__parts halves;
} import_saving;

/* The options of one half of the work. */
static coffer_read_options import_half(import_saving *saving)
{
    coffer_read_options half = saving->reading;
    half.struct_size = sizeof half;
    coffer__parts_begin(&saving->halves, &half.progress, &half.progress_ctx);
    return half;
}

/* The failure of an output that is one of the files that are read. Such a file would be gone, or be
   read while it changes. */
static coffer_status import_is_input(const char *path, coffer_error *err)
{
    coffer__fail(err, COFFER_ERR_ARGUMENT, "the output would replace a file that is converted");
    return coffer__fail_path(err, COFFER_ERR_ARGUMENT, path);
}

/* Compares what was written. The second half of the progress begins here. It is read, and not mapped: if a file is cut
   meanwhile, a read fails, and a mapping would end the process. */
static coffer_status import_look(void *ctx, const coffer *written, coffer_error *err)
{
    import_saving *saving = ctx;
    saving->halves.before = saving->import->summary.output;
    const coffer_read_options half = import_half(saving);
    const coffer_status status = coffer__import_compare(saving->import, written, saving->output, &half, err);
    /* The file may have another name for now. */
    return status == COFFER_ERR_NOT_EQUAL ? coffer__fail_path(err, status, saving->output) : status;
}

/* Opens a file that was written in place, and compares it. */
static coffer_status import_look_at_output(import_saving *saving, coffer_error *err)
{
    coffer *written = NULL;
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.allocator = &saving->import->allocator;
    options.access = COFFER_READ;
    options.max_header_size = saving->options.files->max_header_size;
    coffer_status status = coffer_open(&written, saving->output, &options, err);
    if (status == COFFER_OK) {
        status = import_look(saving, written, err);
        coffer_close(written);
    }
    return status;
}

/* One file. It is published when it is finished; freed before that, it leaves nothing. */
static coffer_status import_write_file(import_saving *saving, coffer_header *header, coffer_error *err)
{
    coffer_writer *writer = NULL;
    const coffer__writer_check check = { import_look, saving };
    coffer_status status = coffer_writer_open(&writer, header, saving->output, saving->options.files, err);
    if (status != COFFER_OK) {
        return status;
    }
    const bool verified = !saving->options.unverified;
    const bool before = coffer__writer_can_be_checked(writer);
    const coffer_read_options half = import_half(saving);
    status = coffer_import_carry(saving->import, writer, saving->options.unchecked, &half, err);
    if (status == COFFER_OK) {
        status = coffer__writer_finish_checked(writer, verified && before ? &check : NULL, err);
    }
    coffer_writer_free(writer);
    return status == COFFER_OK && verified && !before ? import_look_at_output(saving, err) : status;
}

/* None of the new files may have the name of one that is read. */
static coffer_status import_check_names(const import_saving *saving, const coffer_model_writer *writer,
                                        coffer_error *err)
{
    const size_t count = coffer_model_writer_shard_count(writer);
    coffer__path path;
    for (size_t i = 0; i < count; i++) {
        if (coffer__path_sibling(&path, saving->output, coffer_model_writer_shard_name(writer, i)) &&
            coffer__input_has_path(saving->import->input, path.text)) {
            return import_is_input(path.text, err);
        }
    }
    return COFFER_OK;
}

/* Several files, or one with companions. Their names are known only when the writer has planned them, so that is when they
   are compared with the input's; the writer has not replaced anything by then. */
static coffer_status import_write_model(import_saving *saving, const coffer_header *header, coffer_error *err)
{
    coffer_model_writer *writer = NULL;
    const coffer__writer_check check = { import_look, saving };
    coffer_model_writer_options options = COFFER_MODEL_WRITER_OPTIONS_INIT;
    options.max_shard_size = saving->options.max_shard_size == 0 ? UINT64_MAX : saving->options.max_shard_size;
    options.companions = saving->options.companions;
    options.companion_count = saving->options.companion_count;
    options.balanced = saving->options.balanced;
    options.force = saving->options.force;
    options.files = saving->options.files;
    coffer_status status = coffer_model_writer_open(&writer, header, saving->output, &options, err);
    if (status != COFFER_OK) {
        return status;
    }
    const coffer__copy_target target = { .model = writer, .header = header, .spool = saving->output };
    const coffer_read_options half = import_half(saving);
    status = import_check_names(saving, writer, err);
    if (status == COFFER_OK) {
        status = import_copy(saving->import, &target, saving->options.unchecked, &half, err);
    }
    if (status == COFFER_OK) {
        status = coffer__model_writer_finish_checked(writer, saving->options.unverified ? NULL : &check, err);
    }
    coffer_model_writer_free(writer);
    return status;
}

/* The header is needed until the files are complete. */
static coffer_status import_write(import_saving *saving, coffer_error *err)
{
    coffer_header *header = NULL;
    coffer_status status = coffer_header_new(&header, &saving->import->allocator, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer_import_declare(saving->import, header, err);
    if (status == COFFER_OK) {
        const bool one = saving->options.max_shard_size == 0 && saving->options.companion_count == 0;
        status = one ? import_write_file(saving, header, err) : import_write_model(saving, header, err);
    }
    coffer_header_free(header);
    return status;
}

/* A sidecar is written before the tensors and published after them, so that what fails leaves neither. */
static coffer_status import_write_both(import_saving *saving, coffer_error *err)
{
    coffer__byte_sink sink;
    const coffer_writer_options *files = saving->options.files;
    const char *path = saving->options.sidecar;
    if (path == NULL) {
        return import_write(saving, err);
    }
    if (strcmp(path, saving->output) == 0) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the sidecar and the output are the same file");
    }
    const coffer_sync sync = files != NULL ? files->sync : COFFER_SYNC_REPLACE;
    coffer_status status =
        coffer__import_write_sidecar(saving->import, path, sync, !saving->options.unverified, &sink, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = import_write(saving, err);
    if (status != COFFER_OK) {
        sink.ops->discard(&sink);
        return status;
    }
    status = sink.ops->publish(&sink, err);
    return status == COFFER_OK ? status : coffer__fail_path(err, status, path);
}

coffer_status coffer_import_write(coffer_import *import, const char *output, const coffer_import_write_options *options,
                                  const coffer_read_options *reading, coffer_error *err)
{
    if (import == NULL || output == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the import or the path of the output is NULL");
    }
    import_saving saving = { .import = import, .output = output };
    coffer_status status = coffer__options_copy(&saving.options, sizeof saving.options, options, err);
    if (status == COFFER_OK) {
        status = coffer__options_copy(&saving.reading, sizeof saving.reading, reading, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    /* Written and compared are the same bytes; each half counts them once. */
    saving.halves.total = saving.options.unverified ? import->summary.output : 2 * import->summary.output;
    if (coffer__input_has_path(import->input, output)) {
        return import_is_input(output, err);
    }
    return import_write_both(&saving, err);
}
