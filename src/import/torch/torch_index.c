/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints of many files with an index, as pytorch_model.bin.index.json: the same as for safetensors (index.h), with
 * files of torch. Each file is read as one of its own, ties included: between files nothing is tied.
 */
#include "alloc.h"
#include "error.h"
#include "index.h"
#include "model_dir_name.h"
#include "pickle_classify.h"
#include "readers.h"
#include "sort.h"
#include "text.h"
#include "torch.h"

#include <string.h>

/* What reading an index needs at hand. The names in `index` are places in `text`. */
typedef struct torch_index {
    const coffer__input_files *input;
    const coffer__wants *wants;
    coffer__import_plan *plan;
    uint8_t *text;
    size_t text_size;
    coffer__model_index index;
} torch_index;

/* The index in memory, as a whole: it is JSON, whose size the limit for indexes and the budget bound. */
static coffer_status torch_index_read_text(torch_index *t, coffer_error *err)
{
    if (t->input->size > COFFER__INDEX_MAX_BYTES || t->input->size > t->plan->budget) {
        return coffer__fail(err, COFFER_ERR_INDEX_TOO_LARGE, "the index has %z, more than an index may have",
                            t->input->size);
    }
    t->text_size = (size_t)t->input->size;
    t->text = coffer__alloc_array(t->plan->allocator, t->text_size, 1, err);
    if (t->text == NULL) {
        return COFFER_ERR_MEMORY;
    }
    const coffer_status status = coffer__input_files_read(t->input, 0, t->input->size, 0, t->text, t->text_size, err);
    if (status != COFFER_OK) {
        return status;
    }
    return coffer__reader_index_status(
        coffer__index_read(&t->index, t->text, t->text_size, coffer__model_dir_check_name, t->plan->allocator, err),
        t->text, t->text_size, err);
}

/* Reads one file by whichever of torch's readers knows it. */
static coffer_status torch_index_read_file(torch_index *t, const coffer__reader_file *file, coffer_error *err)
{
    uint8_t head[64];
    /*
     * 64 bytes hold the magic of either kind. The ends of the names decide nothing: an index may call its files
     * as it likes.
     */
    const size_t size = file->size < sizeof head ? (size_t)file->size : sizeof head;
    const coffer_status status = coffer__input_files_read(t->input, file->file, file->size, 0, head, size, err);
    if (status != COFFER_OK) {
        return status;
    }
    /* These two are all that index files of torch ever refer to; safetensors and single pickles are refused. */
    if (coffer__reader_torch_stream.sniff(head, size, head, 0, "", 0)) {
        return coffer__torch_read_stream(file, err);
    }
    if (size < 4 || memcmp(head, "PK\3\4", 4) != 0) {
        return coffer__fail(err, COFFER_ERR_UNKNOWN_INPUT, "a file of the index is no checkpoint of PyTorch");
    }
    return coffer__torch_read_zip(file, err);
}

static coffer_status torch_index_open_file(torch_index *t, const coffer__name *name, coffer_error *err)
{
    /*
     * The input checks the name once more and opens the file beside the index; in the sandbox it is the parent
     * who does that. The size is the one that every range in the file is compared with.
     */
    coffer__reader_file file = { .input = t->input, .wants = t->wants, .plan = t->plan };
    uint32_t number = 0;
    coffer_status status = t->input->open(t->input->ctx, name->text, name->len, &file.file, &file.size, err);
    if (status == COFFER_OK) {
        status = coffer__import_plan_put_file(t->plan, name->text, name->len, &number, err);
    }
    /* The plan's pieces name files by number, so both sides have to count alike. They do; a difference would
       be a mistake of ours, and wrong bytes. */
    if (status == COFFER_OK && number != file.file) {
        status = coffer__fail(err, COFFER_ERR_PLAN, "the files of the index are not numbered as they were opened");
    }
    return status == COFFER_OK ? torch_index_read_file(t, &file, err) : status;
}

/* ---- what the index promises ----------------------------------------------------------------------------------------- */

/* The rows of a plan in the order of their names. */
typedef struct torch_index_rows {
    const coffer__import_plan *plan;
    uint32_t *order;
} torch_index_rows;

/* The name of a row and another one, as bytes. */
static int torch_index_compare(const coffer__import_plan *plan, uint32_t row, const coffer__name *name)
{
    size_t len = 0;
    const char *text = coffer__import_plan_text(plan, coffer__import_plan_rows(plan)[row].name, &len);
    return coffer__compare_names(text, len, name->text, name->len);
}

static bool torch_index_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer__import_plan *plan = ctx;
    coffer__name name;
    name.text = coffer__import_plan_text(plan, coffer__import_plan_rows(plan)[b].name, &name.len);
    return torch_index_compare(plan, a, &name) < 0;
}

static int torch_index_compare_at(const void *ctx, size_t i, const void *wanted)
{
    const torch_index_rows *rows = ctx;
    return torch_index_compare(rows->plan, rows->order[i], wanted);
}

/* All that the weight_map names has to be there. Where a root or a prefix was asked for, the names are others, and the
   index cannot tell. */
static coffer_status torch_index_check(torch_index *t, coffer_error *err)
{
    const size_t count = t->plan->rows.count;
    const bool other_names = t->wants->strip_prefix[0] != '\0' || !coffer__same_text(t->wants->root, "auto");
    if (other_names || t->wants->scan) {
        return COFFER_OK;
    }
    /* Sorted once and searched for each name: a checkpoint has ten thousands of tensors and an index as many
       names. */
    torch_index_rows rows = { .plan = t->plan };
    rows.order = coffer__alloc_array(t->plan->allocator, count, sizeof *rows.order, err);
    if (rows.order == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        rows.order[i] = (uint32_t)i;
    }
    coffer__sort(rows.order, count, torch_index_before, t->plan);
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < t->index.count && status == COFFER_OK; i++) {
        /* In any of the files, aliases included. Which file has it does not matter for what is written. */
        const coffer__index_entry *entry = &t->index.entries[i];
        size_t at = 0;
        if (!coffer__find_sorted(count, torch_index_compare_at, &rows, &entry->name, &at)) {
            coffer__fail_at(err, COFFER_ERR_NOT_IN_SHARD, entry->position,
                            "tensor %q is not in %q, where the index has it", entry->name.text, entry->name.len,
                            entry->file.text, entry->file.len);
            status = coffer__fail_tensor(err, COFFER_ERR_NOT_IN_SHARD, entry->name.text, entry->name.len);
        }
    }
    coffer__free_array(t->plan->allocator, rows.order, count, sizeof *rows.order);
    return status;
}

/* ---- the reader ------------------------------------------------------------------------------------------------------ */

/* Files are read in the order of the index; their rows all go into one plan. */
static coffer_status torch_index_read(torch_index *t, coffer_error *err)
{
    coffer_status status = torch_index_read_text(t, err);
    if (status == COFFER_OK) {
        status = coffer__pickle_file_put_format(t->plan, err);
    }
    for (size_t i = 0; i < t->index.shard_count && status == COFFER_OK; i++) {
        status = torch_index_open_file(t, &t->index.shards[i].file, err);
    }
    return status == COFFER_OK ? torch_index_check(t, err) : status;
}

/* The names of shards are texts of the index, so it stays in memory until all files have been read. */
static coffer_status torch_index_reader(const coffer__input_files *input, const coffer__wants *wants,
                                        coffer__import_plan *plan, coffer_error *err)
{
    torch_index t = { .input = input, .wants = wants, .plan = plan };
    const coffer_status status = torch_index_read(&t, err);
    coffer__index_free(&t.index);
    coffer__free_array(plan->allocator, t.text, t.text_size, 1);
    return status;
}

/* By the name, since any JSON begins like this: model.bin.index.json, but not that of safetensors. */
static bool torch_index_sniff(const uint8_t *head, size_t head_size, const uint8_t *tail, size_t tail_size,
                              const char *path, size_t path_len)
{
    size_t at = 0;
    (void)tail;
    (void)tail_size;
    /* White space may come first, as people indent what they edit by hand. */
    while (at < head_size && (head[at] == ' ' || head[at] == '\t' || head[at] == '\r' || head[at] == '\n')) {
        at++;
    }
    return at < head_size && head[at] == '{' && coffer__text_ends(path, path_len, ".index.json") &&
           !coffer__text_ends(path, path_len, ".safetensors.index.json");
}

const coffer__reader coffer__reader_torch_index = { "torch-index", "a PyTorch checkpoint of several files",
                                                    torch_index_sniff, torch_index_reader };
