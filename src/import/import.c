/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Imports: a reader fills the plan, or bytes do; then it is checked and added up, whoever made it.
 *
 *   coffer_import_open   reader → plan → check → summary        in one process
 *   coffer_import_save   plan → bytes                           in a process that may be taken over by the file
 *   coffer_import_load   bytes → plan → check → summary         in the one that writes
 *
 * Nothing else depends on how a plan came to be: an import that is handed out has passed
 * coffer__import_plan_check against the sizes of the files that are open now. What the summary says is
 * counted here, from the plan, and never taken from the bytes.
 *
 * An import borrows its input, which must outlive it, and is used by one thread at a time.
 */
#include "import.h"

#include "alloc.h"
#include "error.h"
#include "options.h"
#include "plan_bytes.h"
#include "readers.h"
#include "selection.h"
#include "sort.h"

#include <string.h>

/* ---- what is shown ----------------------------------------------------------------------------------------------- */

/* How many tensors are written, aliases and skipped: together all rows. */
static void import_count_rows(coffer_import *import)
{
    coffer_import_summary *summary = &import->summary;
    const coffer__import_plan_row *rows = coffer__import_plan_rows(&import->plan);
    summary->tensor_count = import->plan.rows.count;
    for (size_t i = 0; i < summary->tensor_count; i++) {
        summary->written_count += rows[i].fate == COFFER_FATE_WRITTEN;
        summary->alias_count += rows[i].fate == COFFER_FATE_ALIAS;
        summary->skipped_count += rows[i].fate == COFFER_FATE_SKIPPED;
    }
}

/* Notes are the rest of the findings. */
static void import_count_findings(coffer_import *import)
{
    coffer_import_summary *summary = &import->summary;
    const coffer__import_plan_finding *findings = coffer__import_plan_findings(&import->plan);
    summary->finding_count = import->plan.findings.count;
    for (size_t i = 0; i < summary->finding_count; i++) {
        summary->opaque_count += findings[i].weight == COFFER_WEIGHT_OPAQUE;
        summary->danger_count += findings[i].weight == COFFER_WEIGHT_DANGER;
    }
}

/* Whether one of the pairs, which `order` has by their keys, has the name of a row for its key. */
static bool import_has_key(const coffer__import_plan *plan, const uint32_t *order, const coffer__import_plan_row *row)
{
    size_t low = 0;
    size_t high = plan->pairs.count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int compared =
            coffer__import_plan_compare_texts(plan, coffer__import_plan_pairs(plan)[order[middle]].key, row->name);
        if (compared == 0) {
            return true;
        }
        low = compared < 0 ? middle + 1 : low;
        high = compared > 0 ? middle : high;
    }
    return false;
}

/* Finds the aliases that the metadata tell of. One whose name is a key already, as "format" is,
   cannot be told of there: the ecosystem does the same. It is counted as an alias all the same, and
   a plan that is shown lists it. */
static coffer_status import_find_aliases(coffer_import *import, coffer_error *err)
{
    const coffer__import_plan *plan = &import->plan;
    const coffer_allocator *allocator = &import->allocator;
    uint32_t *order = coffer__alloc_array(allocator, plan->pairs.count, sizeof *order, err);
    import->aliases = coffer__alloc_array(allocator, import->summary.alias_count, sizeof *import->aliases, err);
    if (order == NULL || import->aliases == NULL) {
        coffer__free_array(allocator, order, plan->pairs.count, sizeof *order);
        return COFFER_ERR_MEMORY;
    }
    /* Sorted once, so that each alias is one search: a file may have a hundred thousand of both. */
    for (uint32_t i = 0; i < plan->pairs.count; i++) {
        order[i] = i;
    }
    coffer__sort(order, plan->pairs.count, coffer__import_plan_pair_before, plan);
    for (uint32_t i = 0; i < plan->rows.count; i++) {
        const coffer__import_plan_row *row = coffer__import_plan_rows(plan) + i;
        if (row->fate == COFFER_FATE_ALIAS && !import_has_key(plan, order, row)) {
            import->aliases[import->alias_count++] = i;
        }
    }
    coffer__free_array(allocator, order, plan->pairs.count, sizeof *order);
    return COFFER_OK;
}

/* The storages that no tensor views, as a file may hide bytes there, or just have been saved
   carelessly. Those without bytes are nothing to tell of. Counted first, so that the array has its
   size at once. */
static coffer_status import_find_unreferenced(coffer_import *import, coffer_error *err)
{
    const coffer__import_plan *plan = &import->plan;
    const coffer__import_plan_storage *storages = coffer__import_plan_storages(plan);
    size_t count = 0;
    for (size_t i = 0; i < plan->storages.count; i++) {
        count += !storages[i].viewed && storages[i].size > 0;
    }
    import->summary.unreferenced_count = count;
    import->unreferenced = coffer__alloc_array(&import->allocator, count, sizeof *import->unreferenced, err);
    if (import->unreferenced == NULL) {
        return COFFER_ERR_MEMORY;
    }
    count = 0;
    for (uint32_t i = 0; i < plan->storages.count; i++) {
        if (!storages[i].viewed && storages[i].size > 0) {
            import->unreferenced[count++] = i;
        }
    }
    return COFFER_OK;
}

/* The written sizes as arrays of numbers, as the public struct has a shape: in the plan each lies
   between a count and a stride. Rows use the same indices for both. */
static coffer_status import_find_shapes(coffer_import *import, coffer_error *err)
{
    const size_t count = import->plan.dimensions.count;
    const coffer__import_plan_dimension *dimensions = import->plan.dimensions.items;
    import->shapes = coffer__alloc_array(&import->allocator, count, sizeof *import->shapes, err);
    if (import->shapes == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        import->shapes[i] = dimensions[i].size;
    }
    return COFFER_OK;
}

/* All that is shown of a plan that was checked. */
static coffer_status import_summarize(coffer_import *import, coffer_error *err)
{
    coffer__import_plan_account account;
    coffer_import_summary *summary = &import->summary;
    coffer_status status = coffer__import_plan_add_up(&import->plan, &account, err);
    if (status != COFFER_OK) {
        return status;
    }
    /* The account comes first, since it can fail; what follows up to the arrays only counts. */
    summary->pickles = coffer__reader_follows_pickles(coffer__reader_named(summary->reader));
    summary->noun = import->plan.noun;
    summary->file_count = import->plan.file_count;
    summary->total = account.total;
    summary->written = account.written;
    summary->aliased = account.aliased;
    summary->skipped = account.skipped;
    summary->unreferenced = account.unreferenced;
    summary->output = account.output;
    import_count_rows(import);
    import_count_findings(import);
    status = import_find_shapes(import, err);
    if (status == COFFER_OK) {
        status = import_find_aliases(import, err);
    }
    if (status == COFFER_OK) {
        status = import_find_unreferenced(import, err);
    }
    return status;
}

/* The arrays that were made for what is shown. Their sizes are taken from the numbers that they were made by. */
static void import_free_shown(coffer_import *import, size_t dimensions)
{
    const coffer_allocator *allocator = &import->allocator;
    coffer__free_array(allocator, import->unreferenced, import->summary.unreferenced_count,
                       sizeof *import->unreferenced);
    coffer__free_array(allocator, import->aliases, import->summary.alias_count, sizeof *import->aliases);
    coffer__free_array(allocator, import->shapes, dimensions, sizeof *import->shapes);
    import->unreferenced = NULL;
    import->aliases = NULL;
    import->shapes = NULL;
}

/* Everything is counted anew, from zero. What was shown is kept aside until that has worked. */
coffer_status coffer__import_summarize_again(coffer_import *import, size_t dimensions, coffer_error *err)
{
    coffer_import before = *import;
    import->summary = (coffer_import_summary){ .reader = before.summary.reader };
    import->shapes = NULL;
    import->aliases = NULL;
    import->unreferenced = NULL;
    import->alias_count = 0;
    const coffer_status status = import_summarize(import, err);
    if (status == COFFER_OK) {
        import_free_shown(&before, dimensions);
        return status;
    }
    import_free_shown(import, import->plan.dimensions.count);
    import->summary = before.summary;
    import->shapes = before.shapes;
    import->aliases = before.aliases;
    import->unreferenced = before.unreferenced;
    import->alias_count = before.alias_count;
    return status;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Frees an import in any state, as far as it was made. The arrays' sizes are taken from the plan
   and the summary, which are complete before the arrays are allocated. */
void coffer_import_free(coffer_import *import)
{
    if (import == NULL) {
        return;
    }
    const coffer_allocator allocator = import->allocator;
    /* What other inputs have lent goes back, as those may be closed before this one's. */
    if (import->joined) {
        coffer__input_take_back(import->input, import->own_files);
        import->input->borrower = NULL;
    }
    coffer__free(&allocator, import->saved, import->saved_size);
    import_free_shown(import, import->plan.dimensions.count);
    coffer__import_plan_free(&import->plan);
    coffer__free(&allocator, import, sizeof *import);
}

/* Checks the plan against the sizes of the input's files. A plan of more files than are open cannot
   be of this input. One of fewer can: a reader may have opened a file that it then had no use for. */
static coffer_status import_check(const coffer_import *import, bool may_expand, coffer_error *err)
{
    const coffer_input *input = import->input;
    if (import->plan.file_count > input->count) {
        return coffer__fail(err, COFFER_ERR_PLAN, "the plan of this conversion is of files that were not opened");
    }
    uint64_t *sizes = coffer__alloc_array(&import->allocator, input->count, sizeof *sizes, err);
    if (sizes == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (uint32_t i = 0; i < input->count; i++) {
        sizes[i] = coffer_input_size(input, i);
    }
    const coffer_status status = coffer__import_plan_check(&import->plan, sizes, may_expand, err);
    coffer__free_array(&import->allocator, sizes, input->count, sizeof *sizes);
    return status;
}

/* Blocks are kept or become numbers, not both. */
static bool import_blocks_are_known(const coffer_import_options *options)
{
    const bool is_number =
        options->blocks_as == COFFER_F32 || options->blocks_as == COFFER_F16 || options->blocks_as == COFFER_BF16;
    return options->blocks_as == COFFER_UNKNOWN_DTYPE || (is_number && !options->raw_blocks);
}

/* Whether the enumerations have values of theirs. They come from other languages as plain numbers,
   and the casts in import_wants would make anything of them. */
static bool import_wants_are_known(const coffer_import_options *options)
{
    return (unsigned)options->ties <= COFFER_TIES_KEEP && (unsigned)options->scalars <= COFFER_SCALARS_ALL &&
           (unsigned)options->bytes_as <= COFFER_DTYPE_COUNT && import_blocks_are_known(options) &&
           (options->select != NULL || options->select_count == 0);
}

/* The options as readers get them: with defaults where the caller gave NULL, so that no reader has
   to look. */
static coffer__wants import_wants(const coffer_import_options *options)
{
    return (coffer__wants){ .root = options->root != NULL ? options->root : "auto",
                            .strip_prefix = options->strip_prefix != NULL ? options->strip_prefix : "",
                            .ties = options->ties,
                            .scalars = options->scalars,
                            .bytes_as = options->bytes_as,
                            .skip_unsupported = options->skip_unsupported,
                            .strict = options->strict,
                            .complex128_as_f64 = options->complex128,
                            .raw_blocks = options->raw_blocks,
                            .blocks_as = options->blocks_as,
                            .packed = options->packed,
                            .constants = options->constants,
                            .select = options->select,
                            .select_count = options->select_count,
                            .scan = options->scan };
}

/* The reader that knows the input fills the plan. The noun is set before it reads, since its
   messages and findings speak of it. */
static coffer_status import_read(coffer_import *import, const coffer_import_options *options, coffer_error *err)
{
    const coffer__input_files input = coffer__input_for_reader(import->input);
    const coffer__wants wants = import_wants(options);
    const coffer__reader *reader = NULL;
    coffer_status status = wants.scan ? coffer__scan_input(&input, &wants, &import->plan, &reader, err)
                                      : coffer__reader_for(&input, &import->allocator, &reader, err);
    if (status != COFFER_OK) {
        return status;
    }
    import->plan.noun = reader->noun;
    import->summary.reader = reader->id;
    if (wants.scan) {
        return COFFER_OK;
    }
    status = reader->read(&input, &wants, &import->plan, err);
    return status == COFFER_OK ? coffer__import_plan_select(&import->plan, &wants, err) : status;
}

/* An import with an empty plan. `*known` is a copy of the options, complete even where the caller's
   struct is an older and shorter one. On failure *import is NULL. */
static coffer_status import_new(coffer_import **import, coffer_input *input, const coffer_import_options *options,
                                coffer_import_options *known, coffer_error *err)
{
    if (import != NULL) {
        *import = NULL;
    }
    if (import == NULL || input == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "an import needs an input and a place for its handle");
    }
    coffer_status status = coffer__options_copy(known, sizeof *known, options, err);
    if (status == COFFER_OK && !import_wants_are_known(known)) {
        status = coffer__fail(err, COFFER_ERR_ARGUMENT, "an option of the import has no such value");
    }
    if (status != COFFER_OK) {
        return status;
    }
    /* The input's allocator unless the caller has another one for the import. The struct is copied,
       as the caller's need not last. */
    const coffer_allocator *allocator = known->allocator != NULL ? known->allocator : &input->allocator;
    coffer_import *made = coffer__alloc_zeroed(allocator, sizeof *made);
    if (made == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for an import");
    }
    made->allocator = *allocator;
    made->input = input;
    /* Both ways to fill the plan share this bound: reading a file, and loading bytes. */
    const uint64_t budget = known->max_metadata != 0 ? known->max_metadata : COFFER__PLAN_BUDGET;
    status = coffer__import_plan_begin(&made->plan, &made->allocator, budget, err);
    if (status != COFFER_OK) {
        coffer_import_free(made);
        return status;
    }
    *import = made;
    return COFFER_OK;
}

/* Checks what was filled, and hands it out or frees it. `status` is that of the filling. A failure
   that names no file yet is one of the input. */
static coffer_status import_finish(coffer_import **import, coffer_status status, bool may_expand, coffer_error *err)
{
    if (status == COFFER_OK) {
        status = import_check(*import, may_expand, err);
    }
    if (status == COFFER_OK) {
        status = import_summarize(*import, err);
    }
    if (status != COFFER_OK) {
        if (err != NULL && err->path[0] == '\0') {
            (void)coffer__fail_path(err, status, (*import)->input->path);
        }
        coffer_import_free(*import);
        *import = NULL;
    }
    return status;
}

coffer_status coffer_import_open(coffer_import **import, coffer_input *input, const coffer_import_options *options,
                                 coffer_error *err)
{
    coffer_import_options known;
    coffer_status status = import_new(import, input, options, &known, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = import_read(*import, &known, err);
    return import_finish(import, status, known.allow_expand, err);
}

/* ---- as bytes ---------------------------------------------------------------------------------------------------- */

/* The bytes are made once and kept: a plan does not change after it was handed out. They stay the
   import's. */
coffer_status coffer_import_save(coffer_import *import, const void **bytes, size_t *size, coffer_error *err)
{
    if (import == NULL || bytes == NULL || size == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "an import is saved to bytes and their size, and got NULL");
    }
    /* The bytes name files beside one input. */
    if (import->joined) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "an import of several inputs cannot be saved: save each of them");
    }
    if (import->saved == NULL) {
        const coffer_status status =
            coffer__import_plan_save(&import->plan, import->summary.reader, &import->saved, &import->saved_size, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    *bytes = import->saved;
    *size = import->saved_size;
    return COFFER_OK;
}

/* Opens the files that the bytes name. They get the numbers that they have there, or the bytes are
   not of this input. The names are as little trusted as everything else: coffer_input_beside
   refuses any that leads out of the folder of the input. */
static coffer_status import_open_files(coffer_import *import, coffer_error *err)
{
    const uint32_t *names = import->plan.file_names.items;
    for (uint32_t i = 1; i < import->plan.file_count; i++) {
        size_t name_len = 0;
        const char *name = coffer__import_plan_text(&import->plan, names[i], &name_len);
        uint32_t number = 0;
        const coffer_status status = coffer_input_beside(import->input, name, name_len, &number, NULL, err);
        if (status != COFFER_OK) {
            return status;
        }
        if (number != i) {
            return coffer__fail(err, COFFER_ERR_PLAN, "the plan of this conversion is of other files than were opened");
        }
    }
    return COFFER_OK;
}

/* The format in the bytes is a name, which has to be one of the table's: messages are made with the
   noun that belongs to it, and never with text of the bytes. */
static coffer_status import_load(coffer_import *import, const void *bytes, size_t size, coffer_error *err)
{
    char name[COFFER__PLAN_READER_SIZE];
    coffer_status status = coffer__import_plan_load(&import->plan, bytes, size, name, err);
    if (status != COFFER_OK) {
        return status;
    }
    const coffer__reader *reader = coffer__reader_named(name);
    if (reader == NULL) {
        return coffer__fail(err, COFFER_ERR_PLAN, "the plan of this conversion is by no reader of this version");
    }
    import->plan.noun = reader->noun;
    import->summary.reader = reader->id;
    return import_open_files(import, err);
}

coffer_status coffer_import_load(coffer_import **import, coffer_input *input, const void *bytes, size_t size,
                                 const coffer_import_options *options, coffer_error *err)
{
    coffer_import_options known;
    coffer_status status = import_new(import, input, options, &known, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (bytes == NULL) {
        status = coffer__fail(err, COFFER_ERR_ARGUMENT, "the bytes of the import are NULL");
    } else {
        status = import_load(*import, bytes, size, err);
    }
    return import_finish(import, status, known.allow_expand, err);
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

/* The functions below read what was made when the import was opened, so that they cannot fail: an
   index beyond the end gives NULL or false, by which callers end their loops. */
const coffer_import_summary *coffer_import_summarize(const coffer_import *import)
{
    return import == NULL ? NULL : &import->summary;
}

/* Whether the elements of a row do not lie one after another, as they are written. */
static bool import_is_gathered(const coffer__import_plan *plan, const coffer__import_plan_row *row)
{
    coffer__box box;
    if (row->storage != COFFER__PLAN_NO_STORAGE &&
        coffer__import_plan_storages(plan)[row->storage].kind == COFFER__STORAGE_ASSEMBLED) {
        return true;
    }
    return row->storage != COFFER__PLAN_NO_STORAGE && coffer__import_plan_box(plan, row, &box, NULL) == COFFER_OK &&
           box.rank > 0;
}

/* Whether any piece of a storage is more than bytes that are simply there. A storage without pieces
   has nothing to decode. */
static bool import_is_decoded(const coffer__import_plan *plan, const coffer__import_plan_storage *storage)
{
    for (size_t i = 0; i < coffer__import_plan_piece_count(storage); i++) {
        if (coffer__import_plan_pieces(plan)[storage->first + i].coding != COFFER__CODING_STORED) {
            return true;
        }
    }
    return false;
}

/* A skipped row may have no storage, and then no bytes to be decoded or gathered. */
coffer_import_tensor coffer__import_describe(const coffer_import *import, size_t i)
{
    const coffer__import_plan *plan = &import->plan;
    const coffer__import_plan_row *row = coffer__import_plan_rows(plan) + i;
    /* Only a skipped row can be apart: what it was a view of is not in the file. */
    const bool apart = row->storage == COFFER__PLAN_NO_STORAGE;
    const coffer__import_plan_storage *storage = apart ? NULL : coffer__import_plan_storages(plan) + row->storage;
    coffer_import_tensor tensor = {
        .dtype = row->dtype,
        .rank = row->rank,
        .shape = import->shapes + row->dimensions,
        .size = coffer__import_plan_row_size(plan, row),
        .fate = row->fate,
        .alias_of = row->fate == COFFER_FATE_ALIAS ? row->alias_of : SIZE_MAX,
        .reason = row->fate == COFFER_FATE_SKIPPED ? coffer__import_plan_text(plan, row->reason, NULL) : "",
        .storage = "",
        .gathered = import_is_gathered(plan, row),
        .changed = row->swap > 0 || row->sign != COFFER__SIGN_KEPT,
        .decoded = !apart && import_is_decoded(plan, storage),
    };
    tensor.name = coffer__import_plan_text(plan, row->name, &tensor.name_len);
    if (!apart) {
        tensor.storage = coffer__import_plan_text(plan, storage->name, &tensor.storage_len);
    }
    return tensor;
}

/* The struct is the import's own and is filled again by the next call, as the header says. */
const coffer_import_tensor *coffer_import_at(coffer_import *import, size_t i)
{
    if (import == NULL || i >= import->plan.rows.count) {
        return NULL;
    }
    import->tensor = coffer__import_describe(import, i);
    return &import->tensor;
}

/* As coffer_import_at. The numbers of file and texts were checked. */
const coffer_import_finding *coffer_import_finding_at(coffer_import *import, size_t i)
{
    if (import == NULL || i >= import->plan.findings.count) {
        return NULL;
    }
    const coffer__import_plan *plan = &import->plan;
    const coffer__import_plan_finding *finding = coffer__import_plan_findings(plan) + i;
    const uint32_t *names = plan->file_names.items;
    import->finding = (coffer_import_finding){ .weight = finding->weight,
                                               .file = finding->file,
                                               .file_name = coffer__import_plan_text(plan, names[finding->file], NULL),
                                               .offset = finding->offset,
                                               .member = coffer__import_plan_text(plan, finding->member, NULL),
                                               .subject = coffer__import_plan_text(plan, finding->subject, NULL),
                                               .text = coffer__import_plan_text(plan, finding->text, NULL) };
    return &import->finding;
}

/* First the pairs that the reader found, then one for each alias: its name, and the name of the
   tensor that is written. */
bool coffer_import_metadata_at(const coffer_import *import, size_t i, coffer_pair *pair)
{
    if (import == NULL || pair == NULL) {
        return false;
    }
    const coffer__import_plan *plan = &import->plan;
    const size_t count = plan->pairs.count;
    if (i < count) {
        pair->key = coffer__import_plan_text(plan, coffer__import_plan_pairs(plan)[i].key, &pair->key_len);
        pair->value = coffer__import_plan_text(plan, coffer__import_plan_pairs(plan)[i].value, &pair->value_len);
        return true;
    }
    /* `i` is at least `count` here. */
    if (i - count >= import->alias_count) {
        return false;
    }
    const coffer__import_plan_row *rows = coffer__import_plan_rows(plan);
    const coffer__import_plan_row *row = &rows[import->aliases[i - count]];
    pair->key = coffer__import_plan_text(plan, row->name, &pair->key_len);
    pair->value = coffer__import_plan_text(plan, rows[row->alias_of].name, &pair->value_len);
    return true;
}

/* In the order of the storages, which is that in which the reader found them. */
const char *coffer_import_unreferenced_at(const coffer_import *import, size_t i, uint64_t *size)
{
    if (import == NULL || i >= import->summary.unreferenced_count) {
        return NULL;
    }
    const coffer__import_plan_storage *storage = coffer__import_plan_storages(&import->plan) + import->unreferenced[i];
    if (size != NULL) {
        *size = storage->size;
    }
    return coffer__import_plan_text(&import->plan, storage->name, NULL);
}
