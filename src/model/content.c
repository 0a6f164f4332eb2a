/* SPDX-License-Identifier: Apache-2.0 */
#include "content.h"

#include "alloc.h"
#include "bytes.h"
#include "error.h"
#include "model.h"
#include "record.h"
#include "table.h"

#include <string.h>

/* ---- digests ----------------------------------------------------------------------------------------------------- */

/* The text with its NUL separates this use of the hash from all others, so no digest of a tensor
   can pass for one of a content. The count comes first, as in every definition of record.h. */
coffer_status coffer__content_begin(coffer_hasher *hasher, uint64_t count, coffer_error *err)
{
    static const char domain[] = "coffer.content.1";
    uint8_t number[8];
    coffer__store_u64le(number, count);
    const coffer_status status = coffer_hasher_update(hasher, domain, sizeof domain, err);
    return status == COFFER_OK ? coffer_hasher_update(hasher, number, sizeof number, err) : status;
}

/* The allocator is copied, so that freeing needs nothing else. */
coffer_status coffer__content_new(coffer__content *content, coffer_algorithm algorithm, size_t count,
                                  const coffer_allocator *allocator, coffer_error *err)
{
    *content = (coffer__content){ .allocator = *allocator, .algorithm = algorithm, .count = count };
    content->shards = coffer__alloc_array(allocator, count, COFFER_LARGEST_DIGEST_SIZE, err);
    return content->shards != NULL ? COFFER_OK : COFFER_ERR_MEMORY;
}

void coffer__content_free(coffer__content *content)
{
    coffer__free_array(&content->allocator, content->shards, content->count, COFFER_LARGEST_DIGEST_SIZE);
    content->shards = NULL;
}

/* ---- what the files record --------------------------------------------------------------------------------------- */

/* The lists of all files, and how many digests of each were used. `lists` and `used` have an item
   for each shard, `order` one for each tensor. */
typedef struct content_lists {
    const coffer *model;
    coffer__recorded *lists;
    size_t *used;
    uint32_t *order; /* of all tensors, by name */
} content_lists;

/* On failure content_free_lists releases what was made: every pointer is NULL or valid. */
static coffer_status content_new_lists(content_lists *all, const coffer *model, coffer_error *err)
{
    const coffer_allocator *allocator = &model->allocator;
    *all = (content_lists){ .model = model };
    all->lists = coffer__alloc_array(allocator, model->shard_count, sizeof *all->lists, err);
    all->used = coffer__alloc_array(allocator, model->shard_count, sizeof *all->used, err);
    all->order = coffer__alloc_array(allocator, coffer_count(model), sizeof *all->order, err);
    return all->lists != NULL && all->used != NULL && all->order != NULL ? COFFER_OK : COFFER_ERR_MEMORY;
}

/* A list that was never read, or whose reading failed, has no digests to free:
   coffer__recorded_read_text frees its own. */
static void content_free_lists(content_lists *all)
{
    const coffer_allocator *allocator = &all->model->allocator;
    for (size_t i = 0; all->lists != NULL && i < all->model->shard_count; i++) {
        if (all->lists[i].digests != NULL) {
            coffer__recorded_free(&all->lists[i]);
        }
    }
    coffer__free_array(allocator, all->order, coffer_count(all->model), sizeof *all->order);
    coffer__free_array(allocator, all->used, all->model->shard_count, sizeof *all->used);
    coffer__free_array(allocator, all->lists, all->model->shard_count, sizeof *all->lists);
}

/* Reads the list of a file. It must have one digest for each of its tensors, by the algorithm of
   the first file. Tables were validated, but the list comes from the file's metadata, and may have
   any length. Without an equal number the tensors could not be matched with their digests by order.
   The failure has the path of the file. */
static coffer_status content_read_list(content_lists *all, size_t i, coffer_error *err)
{
    const coffer__shard *shard = &all->model->shards[i];
    coffer__recorded *list = &all->lists[i];
    coffer_status status = coffer__recorded_read(list, shard->table, &all->model->allocator, err);
    if (status == COFFER_OK && shard->table->left_out > 0) {
        status = coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                              "the file has %u tensors that the index says are in other files, so the digest of the "
                              "whole model cannot be made from the digests that its files record: write the model "
                              "anew, without them (coffer split)",
                              (uint64_t)shard->table->left_out);
    }
    if (status == COFFER_OK && list->count != coffer_table_count(shard->table)) {
        status = coffer__fail(err, COFFER_ERR_DIGESTS, "the file has digests of %u tensors and holds %u",
                              (uint64_t)list->count, (uint64_t)coffer_table_count(shard->table));
    }
    if (status == COFFER_OK && list->algorithm != all->lists[0].algorithm) {
        status = coffer__fail(err, COFFER_ERR_DIGESTS,
                              "the file records digests by %s, and the model's first file by %s: record them by one "
                              "algorithm in all files",
                              coffer_algorithm_name(list->algorithm), coffer_algorithm_name(all->lists[0].algorithm));
    }
    return status == COFFER_OK ? status : coffer__fail_path(err, status, shard->path);
}

/* The bytes are those that hashing the shard alone as a model would give, since its list is in
   order of the names already. */
static coffer_status content_hash_shard(const coffer__recorded *list, coffer_hasher *hasher, uint8_t *digest,
                                        coffer_error *err)
{
    coffer_status status = coffer__content_begin(hasher, list->count, err);
    if (status == COFFER_OK) {
        status = coffer_hasher_update(hasher, list->digests, list->count * list->digest_size, err);
    }
    return status == COFFER_OK ? coffer_hasher_finish(hasher, digest, list->digest_size, err) : status;
}

/* Hashes the tensors of all files in order of their names. Each file's list is in the same order,
   so the next tensor of a file has the next digest of its list: nothing has to be searched for.
   `used` counts what each file has given. It cannot run over a list's end, because
   content_read_list has compared the lengths. That the digests belong to the tensors is not checked
   here: that is what verifying does. */
static coffer_status content_hash_whole(content_lists *all, coffer_hasher *hasher, uint8_t *digest, coffer_error *err)
{
    const size_t count = coffer_count(all->model);
    const size_t size = all->lists[0].digest_size;
    coffer_sort_by_name(all->model, all->order);
    coffer_status status = coffer__content_begin(hasher, count, err);
    for (size_t i = 0; i < count && status == COFFER_OK; i++) {
        const uint32_t shard = coffer_at(all->model, all->order[i])->shard;
        status = coffer_hasher_update(hasher, all->lists[shard].digests + all->used[shard]++ * size, size, err);
    }
    return status == COFFER_OK ? coffer_hasher_finish(hasher, digest, size, err) : status;
}

/* One hasher serves all files and then the whole: finishing a digest makes it ready for the next
   one. Each file's digest goes to its place among content->shards, at the algorithm's own size. */
static coffer_status content_hash(content_lists *all, coffer__content *content, coffer_error *err)
{
    coffer_hasher *hasher = NULL;
    coffer_status status = coffer_hasher_new(&hasher, content->algorithm, &content->allocator, err);
    for (size_t i = 0; i < content->count && status == COFFER_OK; i++) {
        status = content_hash_shard(&all->lists[i], hasher, content->shards + i * all->lists[i].digest_size, err);
    }
    if (status == COFFER_OK) {
        status = content_hash_whole(all, hasher, content->digest, err);
    }
    coffer_hasher_free(hasher);
    return status;
}

/* Reads the list of every file first, so nothing is hashed if one of them has none or one by
   another algorithm. On failure *content owns nothing. */
coffer_status coffer__content_compute(coffer__content *content, const coffer *model, coffer_error *err)
{
    content_lists all;
    *content = (coffer__content){ .allocator = model->allocator };
    coffer_status status = content_new_lists(&all, model, err);
    for (size_t i = 0; i < model->shard_count && status == COFFER_OK; i++) {
        status = content_read_list(&all, i, err);
    }
    if (status == COFFER_OK) {
        status = coffer__content_new(content, all.lists[0].algorithm, model->shard_count, &model->allocator, err);
    }
    if (status == COFFER_OK) {
        status = content_hash(&all, content, err);
    }
    content_free_lists(&all);
    if (status != COFFER_OK) {
        coffer__content_free(content);
    }
    return status;
}

/* ---- what the index records -------------------------------------------------------------------------------------- */

/* Both values are JSON that was validated, so the first bytes decide. */
static bool content_is_null(const coffer__sharded *sharded, const coffer__index_span *span)
{
    return span->len == 4 && memcmp(sharded->metadata + span->from, "null", 4) == 0;
}

/* What the index has under one of the two keys; NULL for nothing, or null. A value that is not a
   string counts as an empty one here, and one with escapes fails later, since it is not base64. The
   span was validated as a JSON value by index.c, so a string has both of its quotes. The result
   points into the kept metadata, and is not terminated. */
static const char *content_text(const coffer__sharded *sharded, size_t record, size_t *len)
{
    const coffer__index_span *span = &sharded->records[record];
    *len = 0;
    if (sharded->metadata == NULL || span->len == 0 || content_is_null(sharded, span)) {
        return NULL;
    }
    const char *text = sharded->metadata + span->from;
    if (text[0] != '"') {
        return "";
    }
    *len = span->len - 2;
    return text + 1;
}

/* What the index records, decoded. */
typedef struct content_record {
    coffer__recorded parts[COFFER__INDEX_RECORDS];
} content_record;

static void content_free_record(content_record *record)
{
    for (size_t i = 0; i < COFFER__INDEX_RECORDS; i++) {
        if (record->parts[i].digests != NULL) {
            coffer__recorded_free(&record->parts[i]);
        }
    }
}

/* Reads what the index records. The two values must fit each other: one digest of the whole, by the
   algorithm of those of the files. content_free_record follows in any case. One that is missing
   while the other is there reads as an empty text, which is malformed: removing one of the two must
   not turn the comparison off. Their lengths are compared later, with the number of files. */
static coffer_status content_read_record(const coffer *model, content_record *record, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    *record = (content_record){ .parts = { { .count = 0 } } };
    for (size_t i = 0; i < COFFER__INDEX_RECORDS && status == COFFER_OK; i++) {
        size_t len = 0;
        const char *text = content_text(model->sharded, i, &len);
        status = coffer__recorded_read_text(&record->parts[i], coffer__index_record_key(i), text == NULL ? "" : text,
                                            len, &model->allocator, err);
    }
    const coffer__recorded *content = &record->parts[COFFER__INDEX_CONTENT];
    if (status == COFFER_OK &&
        (content->count != 1 || content->algorithm != record->parts[COFFER__INDEX_SHARDS].algorithm)) {
        status = coffer__fail(err, COFFER_ERR_DIGESTS,
                              "the digests that the index records cannot be used: there must be one of the whole, and "
                              "one of each file by the same algorithm; nothing was verified");
    }
    return status;
}

coffer_algorithm coffer_recorded_algorithm(const coffer *model, size_t shard)
{
    coffer_algorithm algorithm = COFFER_NO_ALGORITHM;
    const coffer_table *table = coffer_shard_table(model, shard);
    if (table != NULL) {
        (void)coffer__table_algorithm(table, &algorithm, NULL);
    }
    return algorithm;
}

/* Only the head of the text is looked at. Whether the rest can be used is found out by
   comparing. */
coffer_algorithm coffer_recorded_content(const coffer *model)
{
    size_t len = 0;
    size_t base64_at = 0;
    const char *text = model->sharded == NULL ? NULL : content_text(model->sharded, COFFER__INDEX_CONTENT, &len);
    return text == NULL ? COFFER_NO_ALGORITHM : coffer__record_text_algorithm(text, len, &base64_at);
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

/* It blames the file and offers the other explanation, as nothing here can tell them apart. */
static coffer_status content_other_version(const coffer *model, size_t shard, const char *what, coffer_error *err)
{
    coffer__fail(err, COFFER_ERR_CONTENT_DIGEST,
                 "the file is not one of those whose digests the index records: %s. It is of another version of the "
                 "model, or the index is; if all files are right, run `coffer hash --write` on the index",
                 what);
    return coffer__fail_path(err, COFFER_ERR_CONTENT_DIGEST, model->shards[shard].path);
}

/* A file that records nothing, or by another algorithm, is also of another version. */
static coffer_status content_check_algorithms(const coffer *model, coffer_algorithm wanted, coffer_error *err)
{
    for (size_t i = 0; i < model->shard_count; i++) {
        const coffer_algorithm found = coffer_recorded_algorithm(model, i);
        if (found != wanted) {
            return content_other_version(
                model, i, found == COFFER_NO_ALGORITHM ? "it records none" : "it records them by another algorithm",
                err);
        }
    }
    return COFFER_OK;
}

/* Compares the digests in three steps, from the one that blames a file to the one that can only
   blame the index: each file must be recorded, as many must be recorded as are named, and all
   tensors together must have the recorded digest. The last one needs all files to be open. A digest
   among those of the files is enough, wherever it stands: files may have been renamed. With a
   selection only the first step is certain, and the second compares what is recorded with what is
   named. */
static coffer_status content_compare(const coffer *model, const content_record *record, const coffer__content *content,
                                     coffer_error *err)
{
    const coffer__recorded *shards = &record->parts[COFFER__INDEX_SHARDS];
    /* Is each open file one of those that are recorded? */
    for (size_t i = 0; i < content->count; i++) {
        if (!coffer__recorded_has(shards, content->shards + i * shards->digest_size)) {
            return content_other_version(model, i, "its tensors are different", err);
        }
    }
    const coffer__sharded *sharded = model->sharded;
    /* Are as many recorded as the index names? */
    if (shards->count != sharded->file_count) {
        coffer__fail(err, COFFER_ERR_CONTENT_DIGEST,
                     "the index records digests of %u files and names %u: those that exist match, but files of the "
                     "model are missing",
                     (uint64_t)shards->count, (uint64_t)sharded->file_count);
        return coffer__fail_sizes(err, COFFER_ERR_CONTENT_DIGEST, shards->count, sharded->file_count);
    }
    /* With only some files open, the whole cannot be judged. */
    const bool whole = model->shard_count == sharded->file_count;
    return !whole || coffer__recorded_has(&record->parts[COFFER__INDEX_CONTENT], content->digest)
               ? COFFER_OK
               : coffer__fail(err, COFFER_ERR_CONTENT_DIGEST,
                              "the tensors of all files together are not those whose digest the index records, though "
                              "each file is one that it records: the index was changed or damaged");
}

/* Algorithms are compared before anything is computed, as digests by different ones cannot be. The
   two steps own what they allocate; `record` belongs to the caller. */
static coffer_status content_check_by(const coffer *model, const content_record *record, coffer_error *err)
{
    coffer__content content;
    const coffer_algorithm algorithm = record->parts[COFFER__INDEX_CONTENT].algorithm;
    coffer_status status = content_check_algorithms(model, algorithm, err);
    if (status != COFFER_OK) {
        return status;
    }
    /* All files record one algorithm now, so the digests can be compared. */
    status = coffer__content_compute(&content, model, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = content_compare(model, record, &content, err);
    coffer__content_free(&content);
    return status;
}

/* The error is built in a local first, because its path decides whether that of the index is added;
   `err` may be NULL. */
coffer_status coffer__content_check(const coffer *model, coffer_error *err)
{
    size_t len = 0;
    const coffer__sharded *sharded = model->sharded;
    if (sharded == NULL || (content_text(sharded, COFFER__INDEX_CONTENT, &len) == NULL &&
                            content_text(sharded, COFFER__INDEX_SHARDS, &len) == NULL)) {
        return COFFER_OK;
    }
    content_record record;
    coffer_error cause = { .path = "" };
    coffer_status status = content_read_record(model, &record, &cause);
    if (status == COFFER_OK) {
        status = content_check_by(model, &record, &cause);
    }
    content_free_record(&record);
    if (status != COFFER_OK && err != NULL) {
        *err = cause;
    }
    /* What is not about one of the files is about the index. */
    return status == COFFER_OK || cause.path[0] != '\0' ? status : coffer__fail_path(err, status, sharded->index_path);
}
