/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pickle in a file: see pickle_file.h.
 *
 * A pickle is a range of the file, or bytes that were inflated from one. The machine counts from its first byte; here
 * that is turned into bytes of the file, for errors and for what lies within the pickle.
 */
#include "pickle_file.h"

#include "error.h"
#include "text.h"

#include <string.h>

/* Names of storages in messages are cut; the keys themselves are not. */
#define STORAGE_NAME_CAPACITY 128

coffer_status coffer__pickle_file_put_storage(const coffer__reader_file *file, const coffer__import_plan_piece *piece,
                                              const char *prefix, const char *key, size_t key_len, uint32_t *number,
                                              coffer_error *err)
{
    char name[STORAGE_NAME_CAPACITY];
    uint32_t text = 0;
    const size_t prefix_len = coffer__text_len(prefix);
    /* Keys come from the file, and may be as long as a pickle allows. */
    const size_t taken = key_len < sizeof name - prefix_len ? key_len : sizeof name - prefix_len;
    memcpy(name, prefix, prefix_len);
    memcpy(name + prefix_len, key, taken);
    coffer_status status = coffer__import_plan_put_text(file->plan, name, prefix_len + taken, &text, err);
    /* The piece comes right before its storage, which takes the pieces that were put last. */
    if (status == COFFER_OK && piece->size > 0) {
        status = coffer__import_plan_put_piece(file->plan, piece, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    return coffer__import_plan_put_storage(file->plan, piece->size > 0 ? 1 : 0, text, number, err);
}

/* ---- the pickle ---------------------------------------------------------------------------------------------------- */

typedef struct pickle_range {
    const coffer__reader_file *file;
    const uint8_t *bytes; /* NULL: they are in the file */
    uint64_t at;
    uint64_t size;
} pickle_range;

/* The machine asks for nothing past the stream's end; compared all the same, since it is the last place where
   it can be. */
static coffer_status pickle_range_read(void *ctx, uint64_t offset, void *bytes, size_t size, coffer_error *err)
{
    const pickle_range *range = ctx;
    if (offset > range->size || size > range->size - offset) {
        return coffer__fail_at(err, COFFER_ERR_PICKLE, range->at + range->size,
                               "the pickle is cut off; get the file again");
    }
    if (range->bytes != NULL) {
        memcpy(bytes, range->bytes + offset, size);
        return COFFER_OK;
    }
    return coffer__input_files_read(range->file->input, range->file->file, range->file->size, range->at + offset, bytes,
                                    size, err);
}

coffer_status coffer__pickle_file_run(coffer__graph *graph, const coffer__reader_file *file, const uint8_t *bytes,
                                      uint64_t at, uint64_t size, uint64_t *end, coffer_error *err)
{
    pickle_range range = { .file = file, .bytes = bytes, .at = at, .size = size };
    const coffer__pickle_bytes stream = { .ctx = &range, .read = pickle_range_read, .size = size };
    const coffer__pickle_watch watch = { .ctx = graph->joblib, .own_bytes = coffer__joblib_own_bytes };
    coffer__pickle *pickle = NULL;
    *end = 0;
    if (graph->joblib != NULL) {
        graph->joblib->bytes = stream;
        graph->joblib->allocator = file->plan->allocator;
        graph->joblib->budget = file->plan->budget;
    }
    graph->allocator = file->plan->allocator;
    graph->wants = file->wants;
    graph->plan = file->plan;
    graph->file = file->file;
    graph->at = at;
    graph->packed = bytes != NULL;
    const coffer_status status = coffer__pickle_run(&pickle, &stream, 0, graph->allocator, file->plan->budget,
                                                    graph->joblib != NULL ? &watch : NULL, end, err);
    /* Also after a failure: a scan looks at what was built, and unloading frees it. */
    graph->pickle = pickle;
    /* The machine counts from the beginning of the stream. */
    if ((status == COFFER_ERR_PICKLE || status == COFFER_ERR_MEMORY) && err != NULL && err->offset != UINT64_MAX) {
        err->offset += at;
    }
    return status;
}

coffer_status coffer__pickle_file_follow(coffer__followed *followed, const coffer__reader_file *file,
                                         const uint8_t *bytes, uint64_t at, uint64_t size, uint64_t from,
                                         coffer_error *err)
{
    pickle_range range = { .file = file, .bytes = bytes, .at = at, .size = size };
    const coffer__pickle_bytes stream = { .ctx = &range, .read = pickle_range_read, .size = size };
    return coffer__pickle_follow(followed, &stream, from, file->plan->allocator, err);
}

coffer_status coffer__pickle_file_load(coffer__graph *graph, const coffer__reader_file *file, const uint8_t *bytes,
                                       uint64_t at, uint64_t size, uint64_t *end, coffer_error *err)
{
    const coffer_status status = coffer__pickle_file_run(graph, file, bytes, at, size, end, err);
    return status == COFFER_OK ? coffer__graph_prepare(graph, err) : status;
}

void coffer__pickle_file_unload(coffer__graph *graph)
{
    if (graph->allocator != NULL) {
        coffer__graph_free(graph);
    }
    coffer__pickle_free((coffer__pickle *)graph->pickle);
    graph->pickle = NULL;
}

coffer_status coffer__pickle_file_put_format(coffer__import_plan *plan, coffer_error *err)
{
    return coffer__import_plan_put_pair(plan, "format", 6, "pt", 2, err);
}
