/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several inputs as one import: the files of the second input are lent to the first, and its plan is put at the end of
 * the first one's. Everything that is done with an import afterwards, showing, writing and verifying, knows nothing of
 * that.
 *
 * Both plans were checked against their files. What only both together can be wrong about is names, and metadata.
 */
#include "error.h"
#include "import.h"
#include "plan_join.h"

#include <string.h>

/* What a file is called in messages. */
static const char *import_file_of(const coffer_import *import, uint32_t row)
{
    const coffer__import_plan *plan = &import->plan;
    const coffer__import_plan_row *what = coffer__import_plan_rows(plan) + row;
    const coffer__import_plan_storage *storage =
        what->storage == COFFER__PLAN_NO_STORAGE ? NULL : coffer__import_plan_storages(plan) + what->storage;
    const uint32_t file = storage == NULL || coffer__import_plan_piece_count(storage) == 0
                              ? 0
                              : coffer__import_plan_pieces(plan)[storage->first].file;
    return coffer__input_file_path(import->input, file);
}

/* No tensor may be in both. The message names the file of the second one as its owner does, since a tensor without
   bytes lies in no file. */
static coffer_status import_check_same(const coffer_import *import, size_t split, const coffer_import *more,
                                       coffer_error *err)
{
    uint32_t first = 0;
    uint32_t second = 0;
    const coffer_status status = coffer__import_plan_find_same(&import->plan, split, &first, &second, err);
    if (status != COFFER_OK || first == UINT32_MAX) {
        return status;
    }
    size_t name_len = 0;
    const char *name =
        coffer__import_plan_text(&import->plan, coffer__import_plan_rows(&import->plan)[first].name, &name_len);
    coffer__fail(err, COFFER_ERR_DUPLICATE_NAME, "tensor %q is in %p and in %p", name, name_len,
                 import_file_of(import, first), import_file_of(more, second - (uint32_t)split));
    coffer__fail_path(err, COFFER_ERR_DUPLICATE_NAME, more->input->path);
    return coffer__fail_tensor(err, COFFER_ERR_DUPLICATE_NAME, name, name_len);
}

/* The plan names as many files as the input has. A reader may have opened some that its plan has no use for. */
static coffer_status import_name_files(coffer_import *import, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    while (import->plan.file_count < import->input->count && status == COFFER_OK) {
        const coffer__input_file *file = import->input->files[import->plan.file_count];
        const char *name = file->number == 0 ? file->input->path : file->name;
        uint32_t number = 0;
        status = coffer__import_plan_put_file(&import->plan, name, strlen(name), &number, err);
    }
    return status;
}

/* All that can fail, in an order in which `before` and the number of files are all that has to be restored. */
static coffer_status import_join(coffer_import *import, const coffer_import *more, coffer_error *err)
{
    const size_t split = import->plan.rows.count;
    const size_t dimensions = import->plan.dimensions.count;
    coffer_status status = import_name_files(import, err);
    const uint32_t file = import->input->count;
    if (status == COFFER_OK) {
        status = coffer__input_lend(more->input, import->input, err);
    }
    if (status == COFFER_OK) {
        status = import_name_files(import, err);
    }
    if (status == COFFER_OK) {
        status = coffer__import_plan_join(&import->plan, &more->plan, file, err);
        if (status != COFFER_OK && err != NULL) {
            (void)coffer__fail_path(err, status, more->input->path);
        }
    }
    if (status == COFFER_OK) {
        status = import_check_same(import, split, more, err);
    }
    return status == COFFER_OK ? coffer__import_summarize_again(import, dimensions, err) : status;
}

/* A failure gives back what was lent and cuts the plan, in any state. The reader is told last, since the summary that
   was made again has taken over the old one. */
coffer_status coffer_import_add(coffer_import *import, const coffer_import *more, coffer_error *err)
{
    if (import == NULL || more == NULL || import->input == more->input) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "an import is added to one of another input");
    }
    if (import->input->borrower != NULL && import->input->borrower != import) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "imports were added to another import of the same input");
    }
    coffer__import_plan_mark before;
    coffer__import_plan_mark_now(&import->plan, &before);
    const uint32_t files = import->input->count;
    const bool same = strcmp(import->summary.reader, more->summary.reader) == 0;
    const coffer_status status = import_join(import, more, err);
    if (status != COFFER_OK) {
        coffer__import_plan_unjoin(&import->plan, &before);
        coffer__input_take_back(import->input, files);
        return status;
    }
    import->own_files = import->joined ? import->own_files : files;
    import->joined = true;
    import->input->borrower = import;
    if (!same) {
        import->summary.reader = "several";
        import->plan.noun = "files of several formats";
        import->summary.noun = import->plan.noun;
    }
    return COFFER_OK;
}
