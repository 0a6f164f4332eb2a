/* SPDX-License-Identifier: Apache-2.0 */
/* Imports that are opened as models: what coffer_open does with a file that is none of tensors, and what is known of its
   tensors then. The model's one shard has a source like any other (import_source.h). */
#include "decoded.h"
#include "error.h"
#include "foreign.h"
#include "gguf_blocks.h"
#include "import.h"
#include "import_source.h"
#include "kinds.h"
#include "model.h"
#include "opening.h"
#include "options.h"
#include "paths.h"
#include "readers.h"
#include "shard_name.h"
#include "text.h"

#include <string.h>

/* ---- opening ----------------------------------------------------------------------------------------------------- */

coffer_status coffer_open_import(coffer **model, coffer_import *imported, const coffer_open_options *options,
                                 coffer_error *err)
{
    coffer_open_options known;
    coffer__byte_source source;
    coffer *made = NULL;
    coffer_input *input = imported != NULL ? imported->input : NULL;
    coffer_status status = coffer__check_open_options(&known, options, err);
    if (model != NULL) {
        *model = NULL;
    }
    if (model == NULL || imported == NULL || imported->joined) {
        status = coffer__fail(err, COFFER_ERR_ARGUMENT,
                              "a model cannot be opened from or into NULL, or from several "
                              "imports");
    }
    if (status == COFFER_OK) {
        status = coffer__import_source(&source, imported, err);
    }
    if (status != COFFER_OK) {
        coffer_import_free(imported);
        coffer_input_free(input);
        return status;
    }
    /* From here on the source owns both. */
    status = coffer__open_shard_source(&made, &source, NULL, &known, err);
    return coffer__open_hand_out(model, made, coffer_input_path(input), status, err);
}

/* What is asked of a file to be a model: all that can be read of it, as numbers. */
static coffer_import_options model_wants(const coffer_open_options *options)
{
    coffer_import_options wants = COFFER_IMPORT_OPTIONS_INIT;
    wants.allocator = options->allocator;
    wants.scalars = COFFER_SCALARS_ALL;
    wants.skip_unsupported = true;
    wants.packed = true;
    wants.blocks_as = COFFER_F32;
    return wants;
}

/* Whether the file's content, or its folder's, may be that of another program. An index of safetensors is none. */
static bool model_may_be_foreign(const char *path, const coffer_open_options *options, coffer_status why_not)
{
    if (coffer__text_has_ending(path, ".safetensors" COFFER__INDEX_SUFFIX)) {
        return false;
    }
    const bool content = why_not > COFFER_ERR_EMPTY && why_not < COFFER_ERR_NO_TENSOR;
    const bool files = why_not >= COFFER_ERR_SHARD_NAME && why_not <= COFFER_ERR_AMBIGUOUS;
    return options->formats != COFFER_FORMATS_OWN && options->format == COFFER_FORMAT_ANY && !options->to_fetch &&
           !options->partial && (content || files || why_not == COFFER_ERR_DIRECTORY || why_not == COFFER_ERR_JSON);
}

/* Whether a reader that the options have is to look at the file. One that begins like a file of tensors is a damaged one of
   these. Where another process looks, it decides. */
static bool model_is_readable(const coffer_input *input, const coffer_open_options *options)
{
    const coffer__input_files files = coffer__input_for_reader((coffer_input *)input);
    const coffer__reader *reader = NULL;
    uint8_t head[16];
    const size_t size = files.size < sizeof head ? (size_t)files.size : sizeof head;
    if (coffer__input_files_read(&files, 0, files.size, 0, head, size, NULL) != COFFER_OK ||
        coffer__kind_is_tensors(head, size)) {
        return false;
    }
    return options->importer != NULL ||
           (coffer__reader_for(&files, &input->allocator, &reader, NULL) == COFFER_OK &&
            (options->formats == COFFER_FORMATS_ALL || !coffer__reader_follows_pickles(reader)));
}

/* Where it is not clear what the model is, all of it is. */
static coffer_status model_import(coffer_import **imported, coffer_input *input, const coffer_open_options *options,
                                  coffer_error *err)
{
    coffer_import_options wants = model_wants(options);
    coffer_status status = COFFER_ERR_ROOT;
    for (size_t round = 0; round < 2 && status == COFFER_ERR_ROOT; round++) {
        wants.root = round == 0 ? "auto" : "all";
        status = options->importer != NULL ? options->importer(options->importer_ctx, input, &wants, imported, err)
                                           : coffer_import_open(imported, input, &wants, err);
    }
    return status;
}

/* Whether it has no tensors, and so is no model; or followed pickles, and the options do not have these. */
static bool model_is_refused(const coffer_import *imported, const coffer_open_options *options)
{
    return imported->summary.written_count == 0 ||
           (imported->summary.pickles && options->formats != COFFER_FORMATS_ALL);
}

coffer_status coffer__foreign_open(coffer **model, const char *path, const coffer_open_options *options,
                                   coffer_status why_not, coffer_error *err)
{
    coffer_error own = { .code = why_not };
    coffer_open_options reading = *options; /* as the library's own caller: options that were not given have no size */
    reading.struct_size = sizeof reading;
    coffer_input *input = NULL;
    coffer_import *imported = NULL;
    if (!model_may_be_foreign(path, options, why_not) || coffer_input_open(&input, path, &reading, &own) != COFFER_OK) {
        return why_not;
    }
    if (!model_is_readable(input, options)) {
        coffer_input_free(input);
        return why_not;
    }
    const coffer_status status = model_import(&imported, input, options, &own);
    if (status == COFFER_ERR_UNKNOWN_INPUT || (status == COFFER_OK && model_is_refused(imported, options))) {
        coffer_import_free(imported);
        coffer_input_free(input);
        return why_not;
    }
    if (status != COFFER_OK) {
        if (err != NULL) {
            *err = own;
        }
        coffer_input_free(input);
        return own.path[0] != '\0' ? status : coffer__fail_path(err, status, path);
    }
    return coffer_open_import(model, imported, &reading, err);
}

/* ---- what is known ----------------------------------------------------------------------------------------------- */

coffer_import *coffer_model_import(const coffer *model)
{
    return model == NULL ? NULL : coffer__import_source_of(&model->shards->source);
}

/* What PyTorch calls a dtype: "torch." and the kind of number in full, then the rest in small letters ("torch.float8_e5m2"). */
static void model_put_torch(coffer_stored_tensor *stored, coffer_dtype dtype)
{
    static const struct {
        const char *ours, *theirs;
    } kinds[] = { { "BOOL", "bool" }, { "BF", "bfloat" }, { "F", "float" },
                  { "U", "uint" },    { "I", "int" },     { "C", "complex" } };
    const char *name = coffer_dtype_name(dtype);
    const char *end = dtype == COFFER_F8_E4M3   ? "fn"
                      : dtype == COFFER_F8_E8M0 ? "fnu"
                      : dtype == COFFER_F4      ? "_e2m1fn_x2"
                                                : "";
    size_t kind = 0;
    while (kind + 1 < sizeof kinds / sizeof kinds[0] &&
           strncmp(name, kinds[kind].ours, strlen(kinds[kind].ours)) != 0) {
        kind++;
    }
    (void)coffer__text_append(stored->type, sizeof stored->type, "torch.", 6);
    (void)coffer__text_append(stored->type, sizeof stored->type, kinds[kind].theirs, strlen(kinds[kind].theirs));
    for (const char *rest = name + strlen(kinds[kind].ours); *rest != '\0'; rest++) {
        const char small = coffer__text_lower(*rest);
        (void)coffer__text_append(stored->type, sizeof stored->type, &small, 1);
    }
    (void)coffer__text_append(stored->type, sizeof stored->type, end, strlen(end));
}

/* The type of a row's elements in its file, as that calls them. */
static void model_put_type(const coffer_import *imported, const coffer__import_plan_row *row,
                           coffer_stored_tensor *stored)
{
    const coffer__import_plan *plan = &imported->plan;
    const coffer__import_plan_storage *storage = coffer__import_plan_storages(plan) + row->storage;
    const coffer__import_plan_piece *piece =
        storage->count == 0 ? NULL : coffer__import_plan_first_piece(plan, storage);
    const bool is_torch = imported->summary.pickles && strcmp(imported->summary.reader, coffer__reader_pickle.id) != 0;
    if (piece != NULL && piece->coding == COFFER__CODING_BLOCKS) {
        const char *name = coffer__gguf_type_of(piece->as.blocks.type)->name;
        (void)coffer__text_append(stored->type, sizeof stored->type, name, coffer__text_len(name));
    } else if (is_torch) {
        model_put_torch(stored, row->dtype);
    } else {
        const char *name = coffer_dtype_name(row->dtype);
        (void)coffer__text_append(stored->type, sizeof stored->type, name, coffer__text_len(name));
    }
}

bool coffer_stored_tensor_of(const coffer *model, const coffer_tensor *tensor, coffer_stored_tensor *stored)
{
    const coffer__shard *shard = model == NULL || stored == NULL ? NULL : coffer__model_shard(model, tensor);
    if (shard == NULL) {
        return false;
    }
    const coffer_import *imported = coffer__import_source_of(&shard->source);
    const coffer__import_plan_row *row = imported == NULL ? NULL
                                         : tensor->size == 0
                                             ? NULL
                                             : coffer__import_source_row(&shard->source, tensor->offset);
    const char *name = coffer_tensor_dtype_name(tensor);
    uint64_t at = 0;
    *stored = (coffer_stored_tensor){ .size = coffer_tensor_stored_size(model, tensor), .tied = "" };
    if (row == NULL) {
        (void)coffer__text_append(stored->type, sizeof stored->type, name, coffer__text_len(name));
        stored->mapped = imported != NULL || (shard->access != COFFER_READ && shard->source.is.maps);
        return true;
    }
    const size_t number = (size_t)(row - coffer__import_plan_rows(&imported->plan));
    const coffer_import_tensor described = coffer__import_describe(imported, number);
    model_put_type(imported, row, stored);
    stored->mapped = shard->source.ops->lies(&shard->source, tensor->offset, tensor->size, &at);
    stored->gathered = described.gathered;
    stored->changed = described.changed;
    stored->decoded = described.decoded;
    stored->in_order = coffer__decoded_in_order(&imported->plan, row->storage);
    if (row->fate == COFFER_FATE_ALIAS) {
        const coffer__import_plan_row *kept = coffer__import_plan_rows(&imported->plan) + row->alias_of;
        stored->tied = coffer__import_plan_text(&imported->plan, kept->name, &stored->tied_len);
    }
    return true;
}
