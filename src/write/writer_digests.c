/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The digests of a writer: see writer_digests.h.
 *
 * A tensor goes through these states. Untouched: no hasher, nothing hashed. Hashing: it has a
 * hasher, and each piece that continues it is claimed, hashed without the mutex, and released.
 * Done: its digest is in `data`. Lost: a piece came out of order; the tensor never becomes done by
 * its pieces, and is hashed from the sink when the writer finishes. Copies go from untouched to
 * done directly (coffer__writer_digests_set).
 *
 * The header is built with zeros where the digests will be. Their text has a fixed length for an
 * algorithm and a count, so replacing the zeros changes no offset, and data can be written before
 * the digests are known.
 */
#include "writer_digests.h"

#include "alloc.h"
#include "declared.h"
#include "edit_text.h"
#include "error.h"
#include "record.h"
#include "sort.h"
#include "source.h"
#include "transfer.h"

#include <string.h>

/* One tensor. Its hasher lives from its first piece to its last. `busy` makes sure that one piece at a time is
   hashed; `lost` is set by the first piece that does not continue the ones before, and never cleared. */
struct coffer__writer_digest {
    coffer_hasher *hasher; /* it has seen the first `hashed` bytes; NULL before the first and after the last */
    uint64_t hashed;
    bool busy; /* a piece is being hashed */
    bool lost; /* a piece came out of order */
    bool done;
    uint8_t data[COFFER_LARGEST_DIGEST_SIZE];
};

/* ---- space in the header ------------------------------------------------------------------------------------------ */

static coffer_status writer_digests_no_capacity(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_ARGUMENT,
                        "the header has no room for the digests of its tensors: reserve it after all are declared and "
                        "before the header is built (coffer_header_reserve_digests)");
}

/* Sets a key to digests that are all zero: as long as the real ones, which replace them in
   place. One digest more than needed is allocated, as a block of no bytes is NULL. */
static coffer_status writer_digests_set_zero(coffer_header *header, const char *key, coffer_algorithm algorithm,
                                             size_t count, coffer_error *err)
{
    const coffer_allocator *allocator = &header->allocator;
    const size_t bytes_size = (count + 1) * COFFER_LARGEST_DIGEST_SIZE;
    const size_t text_len = (size_t)coffer__record_text_len(algorithm, count);
    uint8_t *bytes = coffer__alloc_zeroed(allocator, bytes_size);
    char *text = coffer__alloc(allocator, text_len);
    coffer_status status = COFFER_OK;
    if (bytes == NULL || text == NULL) {
        status = coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the digests of %u tensors", (uint64_t)count);
    } else {
        coffer__record_text_write(text, algorithm, bytes, count);
        status = coffer_header_set_metadata(header, key, strlen(key), text, text_len, err);
    }
    coffer__free(allocator, text, text_len);
    coffer__free(allocator, bytes, bytes_size);
    return status;
}

/* Space for both records: the list of the tensors' digests, and the digest of the metadata. The length
   of the list depends on the number of tensors, so with a tensor declared later it is wrong: a writer
   sets it again if the header is not built by then, and refuses the header otherwise. */
coffer_status coffer_header_reserve_digests(coffer_header *header, coffer_algorithm algorithm, coffer_error *err)
{
    if (header == NULL || coffer_algorithm_digest_size(algorithm) == 0) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "digests need a header and a known algorithm");
    }
    const size_t count = coffer_header_count(header);
    coffer_status status = coffer__header_pair_count(header) == 0 ? coffer__header_set_format(header, err) : COFFER_OK;
    if (status == COFFER_OK) {
        status = writer_digests_set_zero(header, COFFER_DIGESTS_KEY, algorithm, count, err);
    }
    return status == COFFER_OK ? writer_digests_set_zero(header, COFFER_METADATA_DIGEST_KEY, algorithm, 1, err)
                               : status;
}

/* Whether a built header has the space: the value is exactly as long as the real one will be.
   What it says now does not matter, as it will be overwritten. */
static bool writer_digests_has_capacity(const coffer_table *table, const char *key, coffer_algorithm algorithm,
                                        size_t count)
{
    size_t length = 0;
    const char *value = coffer_table_metadata_get(table, key, strlen(key), &length);
    return value != NULL && length == coffer__record_text_len(algorithm, count);
}

/* A header that is not built yet gets its space here. One that is built cannot change any more, so it must have been
   given the space before. */
coffer_status coffer__writer_digests_reserve(coffer_header *header, coffer_algorithm algorithm, coffer_error *err)
{
    const coffer_table *table = NULL;
    const size_t count = coffer_header_count(header);
    if (coffer_algorithm_digest_size(algorithm) == 0) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the option `digests` has no such value");
    }
    /* No tensor of a header has a place before it is built, which tells whether it was. */
    if (count == 0 || coffer_header_at(header, 0) == NULL) {
        return coffer_header_reserve_digests(header, algorithm, err);
    }
    const coffer_status status = coffer_header_build(header, NULL, NULL, NULL, &table, err);
    if (status != COFFER_OK) {
        return status;
    }
    return writer_digests_has_capacity(table, COFFER_DIGESTS_KEY, algorithm, count) &&
                   writer_digests_has_capacity(table, COFFER_METADATA_DIGEST_KEY, algorithm, 1)
               ? COFFER_OK
               : writer_digests_no_capacity(err);
}

/* ---- while pieces come ------------------------------------------------------------------------------------------- */

/* The header is written last, which a sink that takes its bytes in order cannot do. On failure
   the caller still calls coffer__writer_digests_free once `algorithm` is set, which is from
   the moment there is something to release. */
coffer_status coffer__writer_digests_init(coffer__writer_digests *digests, const coffer_header *header,
                                          coffer_algorithm algorithm, const coffer__byte_sink *sink,
                                          const coffer_allocator *allocator, coffer_error *err)
{
    const size_t count = coffer_header_count(header);
    if (sink->in_order) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                            "digests are in the header and known last, but this is a pipe, a terminal or appending, "
                            "and takes the header first: write to a file, or without digests");
    }
    digests->tensors = coffer__alloc_array(allocator, count, sizeof *digests->tensors, err);
    if (digests->tensors == NULL) {
        return COFFER_ERR_MEMORY;
    }
    digests->allocator = *allocator;
    digests->algorithm = algorithm;
    digests->header = header;
    digests->count = count;
    /* A hasher is made now, so that writing fails before the first piece if the algorithm is not available here. */
    return coffer_hasher_new(&digests->spare, algorithm, allocator, err);
}

/* Releases the hashers of tensors that were begun and not finished, too: those that are lost,
   and those of a writer that failed. */
void coffer__writer_digests_free(coffer__writer_digests *digests)
{
    for (size_t i = 0; i < digests->count; i++) {
        coffer_hasher_free(digests->tensors[i].hasher);
    }
    coffer_hasher_free(digests->spare);
    coffer__free_array(&digests->allocator, digests->tensors, digests->count, sizeof *digests->tensors);
}

/*
 * With the mutex held. `busy` covers two threads that write consecutive pieces at the same time:
 * the second counts as out of order, as it would have to wait for the first, and writing must not
 * wait for hashing. The first piece is hashed to its end, but in vain, as the whole tensor is read
 * back later.
 *
 * A new hasher is made only if no spare one is left, so a writer that gets its tensors one after
 * the other makes one in all.
 */
coffer_status coffer__writer_digests_claim(coffer__writer_digests *digests, const coffer__byte_sink *sink, size_t i,
                                           uint64_t offset, coffer_hasher **hasher, coffer_error *err)
{
    coffer__writer_digest *tensor = &digests->tensors[i];
    *hasher = NULL;
    /* The piece does not follow what was hashed, so the tensor has to be read back at the end. */
    if (tensor->lost || tensor->busy || offset != tensor->hashed) {
        tensor->lost = true;
        return sink->ops->read_at != NULL ? COFFER_OK
                                          : coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                                                         "what was written there cannot be read back, so with digests "
                                                         "the pieces of a tensor must come in order");
    }
    /* The first piece: take the spare hasher, or make one. */
    if (tensor->hasher == NULL) {
        tensor->hasher = digests->spare;
        digests->spare = NULL;
    }
    coffer_status status = COFFER_OK;
    if (tensor->hasher == NULL) {
        status = coffer_hasher_new(&tensor->hasher, digests->algorithm, &digests->allocator, err);
    }
    tensor->busy = status == COFFER_OK;
    *hasher = tensor->hasher;
    return status;
}

/* Keeps one hasher for the next tensor. Writers mostly write one tensor at a time, so one is
   enough. coffer_hasher_finish leaves it as new. */
static void writer_digests_put_back(coffer__writer_digests *digests, coffer__writer_digest *tensor)
{
    if (digests->spare == NULL) {
        digests->spare = tensor->hasher;
    } else {
        coffer_hasher_free(tensor->hasher);
    }
    tensor->hasher = NULL;
}

/* With the mutex held. A tensor can become lost while one of its pieces is hashed. Its hasher
   then waits until all is freed, and the digest comes from the sink. The last piece is known by the
   count of bytes: pieces in order that do not overlap reach the size of the tensor exactly once. */
coffer_status coffer__writer_digests_release(coffer__writer_digests *digests, size_t i, uint64_t size,
                                             coffer_error *err)
{
    coffer__writer_digest *tensor = &digests->tensors[i];
    tensor->busy = false;
    tensor->hashed += size;
    /* More pieces are to come, or none of them counts. */
    if (tensor->lost || tensor->hashed < coffer_header_at(digests->header, i)->size) {
        return COFFER_OK;
    }
    const size_t digest_size = coffer_algorithm_digest_size(digests->algorithm);
    const coffer_status status = coffer_hasher_finish(tensor->hasher, tensor->data, digest_size, err);
    tensor->done = status == COFFER_OK;
    writer_digests_put_back(digests, tensor);
    return status;
}

/* With the mutex held. For a tensor that is copied whole: nobody else writes to it, as all its
   bytes are in the account, so it has no hasher. */
void coffer__writer_digests_set(coffer__writer_digests *digests, size_t i, const uint8_t *data)
{
    coffer__writer_digest *tensor = &digests->tensors[i];
    memcpy(tensor->data, data, coffer_algorithm_digest_size(digests->algorithm));
    tensor->done = true;
}

/* ---- when all is there ------------------------------------------------------------------------------------------- */

/* What the sink gives to the transfer in the place of a source. Called from any of its threads,
   which read_at allows. */
static coffer_status writer_digests_read(void *ctx, uint64_t offset, void *buffer, size_t size, coffer_error *err)
{
    coffer__byte_sink *sink = ctx;
    return sink->ops->read_at(sink, offset, buffer, size, err);
}

/* Hashes what did not come in order, from the sink. Tensors without bytes are among them, as no
   piece of them ever came; for those alone a sink without read_at is fine, since nothing is read
   for an empty row. Any other tensor that is not done was lost, which claim allows only where
   the sink can be read back. Runs when nobody writes any more, without the mutex. */
static coffer_status writer_digests_hash_rest(coffer__writer_digests *digests, coffer__byte_sink *sink,
                                              coffer_error *err)
{
    /* The sink poses as a source, so the one transfer hashes what was written, with as many threads as ever. Its
       size is not known and not needed: rows say which bytes they want. */
    const coffer_source given = { .read_at = writer_digests_read, .ctx = sink, .size = UINT64_MAX };
    coffer__byte_source source;
    size_t row_count = 0;
    coffer__source_custom(&source, &given);
    coffer__transfer_op *rows = coffer__alloc_array(&digests->allocator, digests->count, sizeof *rows, err);
    if (rows == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < digests->count; i++) {
        const coffer_tensor *tensor = coffer_header_at(digests->header, i);
        if (!digests->tensors[i].done) {
            /* The digest goes straight to its tensor. */
            rows[row_count++] = (coffer__transfer_op){ .source = &source,
                                                       .offset = tensor->offset,
                                                       .size = tensor->size,
                                                       .algorithm = digests->algorithm,
                                                       .digest = digests->tensors[i].data };
        }
    }
    const coffer__transfer_options options = { .allocator = &digests->allocator };
    const coffer_status status = coffer__transfer(rows, row_count, &options, err);
    coffer__free_array(&digests->allocator, rows, digests->count, sizeof *rows);
    return status;
}

/* By name: the list of digests is in byte order of the tensors' names (record.h). */
static bool writer_digests_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer_tensor *first = coffer_header_at(ctx, a);
    const coffer_tensor *second = coffer_header_at(ctx, b);
    return coffer__compare_names(first->name, first->name_len, second->name, second->name_len) < 0;
}

/* Makes the record of each tensor from the digest of its data, and writes the list's text.
   `order` and `records` are the caller's, with space for every tensor; `text` has the length that
   coffer__record_text_len gives. */
static coffer_status writer_digests_write_list(coffer__writer_digests *digests, uint32_t *order, uint8_t *records,
                                               char *text, coffer_error *err)
{
    const size_t size = coffer_algorithm_digest_size(digests->algorithm);
    coffer_hasher *hasher = NULL;
    for (size_t i = 0; i < digests->count; i++) {
        order[i] = (uint32_t)i;
    }
    /* The list is in byte order of the names, whatever the order of the file. */
    coffer__sort(order, digests->count, writer_digests_before, digests->header);
    coffer_status status = coffer_hasher_new(&hasher, digests->algorithm, &digests->allocator, err);
    for (size_t i = 0; i < digests->count && status == COFFER_OK; i++) {
        const coffer_tensor *tensor = coffer_header_at(digests->header, order[i]);
        status = coffer__record_tensor(hasher, tensor, digests->tensors[order[i]].data, records + i * size, err);
    }
    coffer_hasher_free(hasher);
    if (status == COFFER_OK) {
        coffer__record_text_write(text, digests->algorithm, records, digests->count);
    }
    return status;
}

/* Replaces the zeros of the built header by the list of digests, and then by the digest of the
   metadata, which covers the list and so comes second. Both are exactly as long as what was
   there, so the new header has `size` bytes, too. `digest` must live until the text is written,
   as the plan points into it. */
static coffer_status writer_digests_splice(const coffer__writer_digests *digests, const coffer_table *table,
                                           const char *list, size_t list_len, const uint8_t *built, uint8_t *bytes,
                                           size_t size, coffer_error *err)
{
    const coffer_edit edit = { COFFER_DIGESTS_KEY, strlen(COFFER_DIGESTS_KEY), list, list_len };
    char digest[2 * COFFER_LARGEST_DIGEST_SIZE];
    coffer__edit_text text;
    coffer_status status = coffer__edit_text_plan(&text, table, built, &edit, 1, NULL, err);
    if (status == COFFER_OK) {
        status = coffer__edit_text_add_digest(&text, table, &edit, 1, NULL, digests->algorithm, digest, err);
    }
    if (status == COFFER_OK) {
        coffer__edit_text_write(&text, bytes, size);
    }
    coffer__edit_text_free(&text);
    return status;
}

/* Hashes what is missing, makes the list, and puts it into a copy of the built header. The
   caller writes that copy. Called once, after the last write has ended, so it needs no lock. */
coffer_status coffer__writer_digests_finish(coffer__writer_digests *digests, coffer__byte_sink *sink,
                                            const coffer_table *table, const uint8_t *built, uint8_t *bytes,
                                            size_t size, coffer_error *err)
{
    const coffer_allocator *allocator = &digests->allocator;
    /* At most as large as the header, which holds the digests in base64. The records themselves
       are shorter than their text, so the same length serves for both. */
    const size_t list_len = (size_t)coffer__record_text_len(digests->algorithm, digests->count);
    const size_t order_size = (digests->count + 1) * sizeof(uint32_t);
    uint32_t *order = coffer__alloc(allocator, order_size);
    uint8_t *records = coffer__alloc(allocator, list_len);
    char *list = coffer__alloc(allocator, list_len);
    coffer_status status = order != NULL && records != NULL && list != NULL
                               ? writer_digests_hash_rest(digests, sink, err)
                               : coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the list of digests");
    if (status == COFFER_OK) {
        status = writer_digests_write_list(digests, order, records, list, err);
    }
    if (status == COFFER_OK) {
        status = writer_digests_splice(digests, table, list, list_len, built, bytes, size, err);
    }
    coffer__free(allocator, list, list_len);
    coffer__free(allocator, records, list_len);
    coffer__free(allocator, order, order_size);
    return status;
}
