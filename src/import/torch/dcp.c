/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Distributed checkpoints of PyTorch (torch.distributed.checkpoint), which trainings of many processes save: a folder of
 *
 *   .metadata          which tensors there are, and where each part of them lies (dcp_metadata.h)
 *   __RANK_N.distcp    parts, one after another, each of them an archive as torch.save writes it, of one tensor
 *
 * A part fills a box of its tensor. The input is .metadata, and the files beside it are opened by the names in it. An
 * archive is looked at for the place of its bytes, and then forgotten, so thousands of them cost no memory. A file may be
 * one of safetensors instead (dcp_safetensors.h), whose header is kept.
 *
 * What training keeps besides the model is named by the first of the keys that lead to a tensor.
 */
#include "alloc.h"
#include "assembly.h"
#include "dcp_metadata.h"
#include "dcp_safetensors.h"
#include "error.h"
#include "paths.h"
#include "pickle_archive.h"
#include "pickle_scan.h"
#include "readers.h"
#include "scan_contents.h"
#include "selection.h"
#include "text.h"

#include <string.h>

/* A file beside the metadata. */
typedef struct dcp_file {
    const char *name;
    size_t name_len;
    uint32_t number;
    uint64_t size;
    coffer_table *table; /* of a file of safetensors; NULL: it is of archives */
    size_t taken;        /* of such a file: the tensor of which a part was taken last, counted from 1 */
} dcp_file;

typedef struct dcp_reading {
    const coffer__reader_file *file;
    coffer__reader_file metadata; /* of a scan, where they are not the input */
    coffer__dcp dcp;
    coffer__selection wanted;
    dcp_file *files; /* that were opened */
    size_t file_count;
    size_t file_capacity;
    size_t last; /* the one that was used last */
} dcp_reading;

/* Whether a file is called as those of parts are. */
static bool dcp_is_parts(const char *path, size_t path_len)
{
    return coffer__text_ends(path, path_len, ".distcp");
}

/* ---- files --------------------------------------------------------------------------------------------------------- */

/* Parts of one tensor are mostly in the order of the files, so the next one is looked for after the last. */
static dcp_file *dcp_find_file(dcp_reading *in, const char *name, size_t name_len)
{
    for (size_t i = 0; i < in->file_count; i++) {
        dcp_file *file = &in->files[(in->last + i) % in->file_count];
        if (file->name_len == name_len && memcmp(file->name, name, name_len) == 0) {
            in->last = (size_t)(file - in->files);
            return file;
        }
    }
    return NULL;
}

static coffer__reader_file dcp_whole(const dcp_reading *in, const dcp_file *file)
{
    return (coffer__reader_file){ .input = in->file->input,
                                  .wants = in->file->wants,
                                  .plan = in->file->plan,
                                  .file = file->number,
                                  .size = file->size };
}

/* Opens a file, if it is not open. Its name is one of the folder's, or the input refuses it. */
static coffer_status dcp_open_file(dcp_reading *in, const char *name, size_t name_len, dcp_file **file,
                                   coffer_error *err)
{
    const coffer__input_files *input = in->file->input;
    coffer__import_plan *plan = in->file->plan;
    dcp_file *found = dcp_find_file(in, name, name_len);
    *file = found;
    if (found != NULL) {
        return COFFER_OK;
    }
    dcp_file *files =
        coffer__grow_array(plan->allocator, in->files, in->file_count, &in->file_capacity, sizeof *files, err);
    if (files == NULL) {
        return COFFER_ERR_MEMORY;
    }
    in->files = files;
    found = &files[in->file_count];
    *found = (dcp_file){ .name = name, .name_len = name_len };
    uint32_t number = 0;
    coffer_status status = input->open(input->ctx, name, name_len, &found->number, &found->size, err);
    if (status == COFFER_OK) {
        status = coffer__import_plan_put_file(plan, name, name_len, &number, err);
    }
    if (status == COFFER_OK && number != found->number) {
        status = coffer__fail(err, COFFER_ERR_PLAN, "the files of the checkpoint are not numbered as they were opened");
    }
    in->last = in->file_count;
    in->file_count += status == COFFER_OK;
    *file = found;
    if (status != COFFER_OK) {
        return status;
    }
    const coffer__reader_file whole = dcp_whole(in, found);
    return coffer__dcp_open_safetensors(&found->table, &whole, err);
}

/* ---- parts --------------------------------------------------------------------------------------------------------- */

static const char dcp_other[] =
    "the part of tensor %q that begins at %s is not of the dtype or the size that the metadata say";

/* An error that names the tensor and the part of it. */
static coffer_status dcp_fail_part(const dcp_reading *in, const coffer__dcp_part *part, coffer_status status,
                                   const char *sentence, coffer_error *err)
{
    char place[160];
    const coffer__dcp_tensor *tensor = &in->dcp.tensors[part->tensor];
    coffer__import_plan_write_place(place, sizeof place, in->dcp.numbers + part->starts, tensor->rank);
    coffer__fail(err, status, sentence, tensor->name, tensor->name_len, place);
    return coffer__fail_tensor(err, status, tensor->name, tensor->name_len);
}

/* Whether a view is what the metadata say of the part. */
static bool dcp_is_part(const dcp_reading *in, const coffer__dcp_part *part, const coffer__view *view)
{
    const coffer__dcp_tensor *tensor = &in->dcp.tensors[part->tensor];
    const uint64_t *sizes = in->dcp.numbers + part->starts + tensor->rank;
    if (view->element != tensor->element || view->row.rank < tensor->rank) {
        return false;
    }
    for (size_t i = 0; i < tensor->rank; i++) {
        if (view->dimensions[i].count != sizes[i]) {
            return false;
        }
    }
    return true;
}

/* A part as an archive of its own, at its place in the file. */
static coffer__reader_file dcp_archive(const dcp_reading *in, const dcp_file *file, const coffer__dcp_part *part)
{
    coffer__reader_file archive = dcp_whole(in, file);
    archive.embedded = true;
    archive.at = part->at;
    archive.part = part->size;
    return archive;
}

/* A part that is a tensor of a file of safetensors. That has one of each name, so it has one part of a tensor. */
static coffer_status dcp_read_named(dcp_reading *in, dcp_file *file, const coffer__dcp_part *part, uint32_t name,
                                    coffer__view *view, coffer_error *err)
{
    const coffer__dcp_tensor *tensor = &in->dcp.tensors[part->tensor];
    const coffer_tensor *found = coffer_table_find(file->table, tensor->name, tensor->name_len);
    if (found == NULL) {
        return dcp_fail_part(in, part, COFFER_ERR_VIEW,
                             "the file that should have the part of tensor %q that begins at %s has none of that name",
                             err);
    }
    if (file->taken == part->tensor + 1) {
        return dcp_fail_part(in, part, COFFER_ERR_VIEW,
                             "the part of tensor %q that begins at %s is in a file that has another part already, and "
                             "only one of that name",
                             err);
    }
    if (found->rank != tensor->rank || found->dtype != coffer__element_facts_of(tensor->element)->dtype) {
        return dcp_fail_part(in, part, COFFER_ERR_DAMAGED, dcp_other, err);
    }
    file->taken = part->tensor + 1;
    const coffer__reader_file whole = dcp_whole(in, file);
    return coffer__dcp_view_safetensors(&whole, found, tensor->element, name, view, err);
}

/* One part. Its storages get the name of the tensor, which the plan has already. */
static coffer_status dcp_read_part(dcp_reading *in, const coffer__dcp_part *part, uint32_t name, coffer__view *view,
                                   coffer_error *err)
{
    dcp_file *file = NULL;
    if (part->file == NULL) {
        return dcp_fail_part(in, part, COFFER_ERR_VIEW, "no file has the part of tensor %q that begins at %s", err);
    }
    coffer_status status = dcp_open_file(in, part->file, part->file_len, &file, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (part->at > file->size || part->size > file->size - part->at) {
        status = dcp_fail_part(in, part, COFFER_ERR_DAMAGED,
                               "the part of tensor %q that begins at %s lies beyond the end of its file, which was "
                               "cut; get that file again",
                               err);
        return coffer__fail_sizes(err, status, part->at + part->size, file->size);
    }
    const coffer__reader_file archive = dcp_archive(in, file, part);
    status = file->table != NULL ? dcp_read_named(in, file, part, name, view, err)
                                 : coffer__torch_read_tensor(&archive, name, view, err);
    if (status == COFFER_OK && view->lack == NULL && !dcp_is_part(in, part, view)) {
        status = dcp_fail_part(in, part, COFFER_ERR_DAMAGED, dcp_other, err);
    }
    return status;
}

/* ---- tensors ------------------------------------------------------------------------------------------------------- */

/* A tensor of the model. */
static coffer_status dcp_put_tensor(dcp_reading *in, const coffer__dcp_tensor *tensor, const char *name,
                                    size_t name_len, coffer_error *err)
{
    coffer__assembly assembly;
    coffer__view view;
    const uint64_t *sizes = in->dcp.numbers + tensor->sizes;
    coffer_status status =
        coffer__assembly_begin(&assembly, in->file->plan, in->file->wants, name, name_len, tensor->rank, sizes, err);
    for (size_t i = 0; i < tensor->count && status == COFFER_OK; i++) {
        const coffer__dcp_part *part = &in->dcp.parts[tensor->first + i];
        status = dcp_read_part(in, part, assembly.text, &view, err);
        if (status == COFFER_OK) {
            status = coffer__assembly_add(&assembly, in->dcp.numbers + part->starts, &view, err);
        }
    }
    if (status != COFFER_OK) {
        return err == NULL || err->tensor[0] != '\0' ? status : coffer__fail_tensor(err, status, name, name_len);
    }
    return coffer__assembly_end(&assembly, tensor->element, err);
}

/* What safetensors lacks is known from the metadata alone, but for complex128, which may be wanted as pairs. */
static bool dcp_lacks(const dcp_reading *in, const coffer__dcp_tensor *tensor)
{
    const bool pairs = tensor->element == COFFER__ELEMENT_C128 && in->file->wants->complex128_as_f64;
    return coffer__element_facts_of(tensor->element)->dtype == COFFER_UNKNOWN_DTYPE && !pairs;
}

/* A tensor: written, left out, or an error. */
static coffer_status dcp_put_row(dcp_reading *in, const coffer__dcp_tensor *tensor, coffer_error *err)
{
    coffer__import_plan *plan = in->file->plan;
    size_t name_len = tensor->name_len;
    uint32_t reason = 0;
    const char *name = coffer__selection_name(&in->wanted, tensor->name, &name_len, &reason);
    if (name == NULL) {
        return coffer__assembly_skip(plan, tensor->name, tensor->name_len, tensor->element, reason, err);
    }
    if (dcp_lacks(in, tensor)) {
        const char *lack = coffer__element_facts_of(tensor->element)->name;
        if (!in->file->wants->skip_unsupported) {
            coffer__fail(err, COFFER_ERR_NO_EQUIVALENT, "tensor %q is %s, which safetensors cannot express", name,
                         name_len, lack);
            return coffer__fail_tensor(err, COFFER_ERR_NO_EQUIVALENT, name, name_len);
        }
        const coffer_status status = coffer__import_plan_put_text(plan, lack, coffer__text_len(lack), &reason, err);
        return status == COFFER_OK ? coffer__assembly_skip(plan, name, name_len, tensor->element, reason, err) : status;
    }
    return dcp_put_tensor(in, tensor, name, name_len, err);
}

/* ---- the model ----------------------------------------------------------------------------------------------------- */

/* The parts of a checkpoint that are the model, the best one first. */
static const char *const dcp_roots[] = { "model", "module", "app.model" };

/* Whether the first keys that lead to a tensor are those of a path of one or two, and others follow. */
static bool dcp_is_below(const coffer__dcp *dcp, const coffer__dcp_tensor *tensor, const char *path)
{
    const coffer__node *keys = coffer__pickle_node(dcp->graph.pickle, tensor->path);
    size_t at = 0;
    for (size_t i = 0; keys != NULL && i + 1 < keys->count; i++) {
        size_t len = 0;
        const char *key = coffer__dcp_key(dcp, tensor, i, &len);
        if (key == NULL || len > coffer__text_len(path + at) || memcmp(path + at, key, len) != 0) {
            return false;
        }
        at += len;
        if (path[at] == '\0') {
            return true;
        }
        if (path[at++] != '.') {
            return false;
        }
    }
    return false;
}

/* Only keys tell a dict of tensors from names that begin alike, as many of transformers begin with "model.". */
static const char *dcp_find_root(const coffer__dcp *dcp)
{
    for (size_t r = 0; r < sizeof dcp_roots / sizeof *dcp_roots; r++) {
        for (size_t i = 0; i < dcp->tensor_count; i++) {
            if (dcp_is_below(dcp, &dcp->tensors[i], dcp_roots[r])) {
                return dcp_roots[r];
            }
        }
    }
    return "";
}

/* What is written of it. */
static coffer_status dcp_choose(dcp_reading *in, coffer_error *err)
{
    const coffer__wants *wants = in->file->wants;
    const bool automatic = coffer__same_text(wants->root, "auto");
    const char *found = automatic ? dcp_find_root(&in->dcp) : "";
    coffer_status status = coffer__selection_begin(&in->wanted, in->file->plan, wants, found, err);
    if (status != COFFER_OK || found[0] == '\0') {
        return status;
    }
    return coffer__import_plan_put_finding(in->file->plan, COFFER_WEIGHT_NOTE, in->file->file, UINT64_MAX, "",
                                           "the model is what the checkpoint has as %q", found, coffer__text_len(found),
                                           err);
}

static coffer_status dcp_note_others(const dcp_reading *in, coffer_error *err)
{
    char digits[21];
    const size_t len = coffer__write_u64(digits, in->dcp.others);
    return in->dcp.others == 0
               ? COFFER_OK
               : coffer__import_plan_put_finding(in->file->plan, COFFER_WEIGHT_NOTE, in->file->file, UINT64_MAX, "",
                                                 "objects that are no tensors are left out: %q", digits, len, err);
}

static coffer_status dcp_read_all(dcp_reading *in, coffer_error *err)
{
    coffer_status status = coffer__pickle_file_put_format(in->file->plan, err);
    if (status == COFFER_OK) {
        status = coffer__dcp_read(&in->dcp, in->file, err);
    }
    if (status == COFFER_OK) {
        status = dcp_choose(in, err);
    }
    for (size_t i = 0; i < in->dcp.tensor_count && status == COFFER_OK; i++) {
        status = dcp_put_row(in, &in->dcp.tensors[i], err);
    }
    if (status == COFFER_OK) {
        status = coffer__selection_end(&in->wanted, err);
    }
    return status == COFFER_OK ? dcp_note_others(in, err) : status;
}

/* ---- scanning ------------------------------------------------------------------------------------------------------ */

/* What is stored, be it a part of a tensor or an object that is none: a loader reads all of it, and takes what is no archive
   for a pickle. Of a file of safetensors nothing is taken out by its place. */
static coffer_status dcp_scan_place(dcp_reading *in, const coffer__dcp_place *place, coffer_error *err)
{
    dcp_file *file = NULL;
    const coffer_status status = dcp_open_file(in, place->file, place->file_len, &file, err);
    if (status != COFFER_OK || file->table != NULL) {
        return status;
    }
    if (place->at > file->size || place->size > file->size - place->at) {
        return coffer__import_plan_put_finding(
            in->file->plan, COFFER_WEIGHT_DANGER, file->number, file->size, "",
            "%q was not looked at: it lies beyond the end of the file, which was cut; get the file again", place->name,
            place->name != NULL ? coffer__text_len(place->name) : 0, err);
    }
    coffer__reader_file part = dcp_whole(in, file);
    part.embedded = true;
    part.at = place->at;
    part.part = place->size;
    return coffer__scan_part(&part, place->name != NULL ? place->name : "", err);
}

static const char dcp_description[] = ".metadata";

/* A scan of a file of parts looks at what the metadata beside it has there; one of the metadata at everything. */
static coffer_status dcp_scan(dcp_reading *in, coffer_error *err)
{
    const coffer__input_files *input = in->file->input;
    const size_t first = coffer__path_name_at(input->path);
    const char *own = input->path + first;
    const size_t own_len = input->path_len - first;
    const bool described = dcp_is_parts(input->path, input->path_len);
    in->metadata = *in->file;
    coffer_status status = COFFER_OK;
    if (described) {
        dcp_file *file = NULL;
        status = dcp_open_file(in, dcp_description, sizeof dcp_description - 1, &file, err);
        in->metadata = status == COFFER_OK ? dcp_whole(in, file) : in->metadata;
    }
    if (status == COFFER_OK) {
        status = coffer__dcp_read(&in->dcp, &in->metadata, err);
    }
    for (size_t i = 0; i < in->dcp.place_count && status == COFFER_OK; i++) {
        const coffer__dcp_place *place = &in->dcp.places[i];
        if (!described || (place->file_len == own_len && memcmp(place->file, own, own_len) == 0)) {
            status = dcp_scan_place(in, place, err);
        }
    }
    return status;
}

/* ---- the reader ---------------------------------------------------------------------------------------------------- */

/* A pickle that begins with the class of such metadata, or what is called as its parts are. */
static bool dcp_sniff(const uint8_t *head, size_t head_size, const uint8_t *tail, size_t tail_size, const char *path,
                      size_t path_len)
{
    (void)tail;
    (void)tail_size;
    return dcp_is_parts(path, path_len) ||
           (coffer__scan_is_pickle(head, head_size) &&
            coffer__reader_has(head, head_size < 128 ? head_size : 128, "torch.distributed.checkpoint.metadata"));
}

static coffer_status dcp_reader(const coffer__input_files *input, const coffer__wants *wants, coffer__import_plan *plan,
                                coffer_error *err)
{
    const coffer__reader_file file = { .input = input, .wants = wants, .plan = plan, .size = input->size };
    dcp_reading in = { .file = &file, .dcp = { .file = &file } };
    if (!wants->scan && dcp_is_parts(input->path, input->path_len)) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                            "this is a file of parts of a distributed checkpoint: convert the folder, or .metadata in "
                            "it, which says what they are");
    }
    const coffer_status status = wants->scan ? dcp_scan(&in, err) : dcp_read_all(&in, err);
    for (size_t i = 0; i < in.file_count; i++) {
        coffer_table_free(in.files[i].table);
    }
    coffer__free(plan->allocator, in.files, in.file_capacity * sizeof *in.files);
    coffer__dcp_free(&in.dcp);
    return status;
}

const coffer__reader coffer__reader_dcp = { "dcp", "a distributed checkpoint of PyTorch", dcp_sniff, dcp_reader };
