/* SPDX-License-Identifier: Apache-2.0 */
#include "record.h"

#include "alloc.h"
#include "base64.h"
#include "bytes.h"
#include "error.h"
#include "hash.h"
#include "sort.h"

#include <string.h>

#define RECORD_VERSION "1:"
#define RECORD_VERSION_LEN 2
/* The bytes of a dimension, a length or a count. */
#define RECORD_NUMBER_SIZE 8

static const char record_digests_key[] = COFFER_DIGESTS_KEY;
static const char record_metadata_key[] = COFFER_METADATA_DIGEST_KEY;

/* ---- what is hashed ---------------------------------------------------------------------------------------------- */

static coffer_status record_number(coffer_hasher *hasher, uint64_t number, coffer_error *err)
{
    uint8_t bytes[RECORD_NUMBER_SIZE];
    coffer__store_u64le(bytes, number);
    return coffer_hasher_update(hasher, bytes, sizeof bytes, err);
}

/* The length makes the text unambiguous: ("ab", "c") and ("a", "bc") differ. */
static coffer_status record_string(coffer_hasher *hasher, const char *string, size_t length, coffer_error *err)
{
    const coffer_status status = record_number(hasher, length, err);
    return status == COFFER_OK ? coffer_hasher_update(hasher, string, length, err) : status;
}

/* The hasher is then ready for the next digest. */
static coffer_status record_finish(coffer_hasher *hasher, uint8_t *digest, coffer_error *err)
{
    return coffer_hasher_finish(hasher, digest, coffer_algorithm_digest_size(hasher->algorithm), err);
}

/* The bytes that are hashed are those of record.h. Numbers are little-endian on every machine, and
   strings have their lengths, so no two tensors give the same bytes. The domain is hashed with its
   NUL. The dtype goes in by its name, since numbers of dtypes are this library's own. */
coffer_status coffer__record_tensor(coffer_hasher *hasher, const coffer_tensor *tensor, const uint8_t *data_digest,
                                    uint8_t *record, coffer_error *err)
{
    static const char domain[] = "coffer.tensor.1";
    const char *dtype = coffer_tensor_dtype_name(tensor);
    coffer_status status = coffer_hasher_update(hasher, domain, sizeof domain, err);
    if (status == COFFER_OK) {
        status = record_string(hasher, tensor->name, tensor->name_len, err);
    }
    if (status == COFFER_OK) {
        status = record_string(hasher, dtype, strlen(dtype), err);
    }
    if (status == COFFER_OK) {
        status = record_number(hasher, tensor->rank, err);
    }
    for (uint32_t i = 0; i < tensor->rank && status == COFFER_OK; i++) {
        status = record_number(hasher, tensor->shape[i], err);
    }
    if (status == COFFER_OK) {
        const size_t size = coffer_algorithm_digest_size(hasher->algorithm);
        status = coffer_hasher_update(hasher, data_digest, size, err);
    }
    return status == COFFER_OK ? record_finish(hasher, record, err) : status;
}

/* Whether a pair is the digest of the metadata itself, which cannot be part of what it is a digest
   of. */
static bool record_is_own(const coffer_pair *pair)
{
    return pair->key_len == sizeof record_metadata_key - 1 &&
           memcmp(pair->key, record_metadata_key, pair->key_len) == 0;
}

/* The pairs are counted first, as their number comes before them. Strings are hashed with their
   lengths, so no two different lists of pairs give the same bytes. `at` is called twice for each
   pair and must answer the same both times. */
coffer_status coffer__record_metadata(coffer_hasher *hasher, coffer__pair_at *at, const void *pairs, uint8_t *digest,
                                      coffer_error *err)
{
    static const char domain[] = "coffer.metadata.1";
    coffer_pair pair;
    uint64_t count = 0;
    for (size_t i = 0; at(pairs, i, &pair); i++) {
        count += !record_is_own(&pair);
    }
    coffer_status status = coffer_hasher_update(hasher, domain, sizeof domain, err);
    if (status == COFFER_OK) {
        status = record_number(hasher, count, err);
    }
    /* Then each pair, in the order in which `at` gives them. */
    for (size_t i = 0; at(pairs, i, &pair) && status == COFFER_OK; i++) {
        if (record_is_own(&pair)) {
            continue;
        }
        status = record_string(hasher, pair.key, pair.key_len, err);
        if (status == COFFER_OK) {
            status = record_string(hasher, pair.value, pair.value_len, err);
        }
    }
    return status == COFFER_OK ? record_finish(hasher, digest, err) : status;
}

/* ---- the text ---------------------------------------------------------------------------------------------------- */

static size_t record_head_len(coffer_algorithm algorithm)
{
    return RECORD_VERSION_LEN + strlen(coffer_algorithm_name(algorithm)) + 1;
}

/* Base64 with padding: 4 characters for each 3 bytes that were begun. */
uint64_t coffer__record_text_len(coffer_algorithm algorithm, uint64_t count)
{
    const uint64_t bytes = coffer_algorithm_digest_size(algorithm) * count;
    return record_head_len(algorithm) + (bytes + 2) / 3 * 4;
}

void coffer__record_text_write(char *text, coffer_algorithm algorithm, const uint8_t *digests, size_t count)
{
    const char *name = coffer_algorithm_name(algorithm);
    const size_t head_len = record_head_len(algorithm);
    memcpy(text, RECORD_VERSION, RECORD_VERSION_LEN);
    memcpy(text + RECORD_VERSION_LEN, name, strlen(name));
    text[head_len - 1] = ':';
    coffer__base64_write(text + head_len, digests, count * coffer_algorithm_digest_size(algorithm));
}

/* The text is not trusted: it has a length and no NUL. A newer version of the text is not
   understood rather than read as if it were this one. *base64_at is set only if the
   version fits. */
coffer_algorithm coffer__record_text_algorithm(const char *text, size_t text_len, size_t *base64_at)
{
    if (text_len < RECORD_VERSION_LEN || memcmp(text, RECORD_VERSION, RECORD_VERSION_LEN) != 0) {
        return COFFER_NO_ALGORITHM;
    }
    const char *name = text + RECORD_VERSION_LEN;
    const char *end = memchr(name, ':', text_len - RECORD_VERSION_LEN);
    *base64_at = end == NULL ? 0 : (size_t)(end - text) + 1;
    return end == NULL ? COFFER_NO_ALGORITHM : coffer_algorithm_from_name(name, (size_t)(end - name));
}

/* ---- what a file records ----------------------------------------------------------------------------------------- */

/* "Nothing was verified" is a part of every such message: a record that cannot be used must not
   look like one that was compared. */
static coffer_status record_malformed(const char *key, const char *what, coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_DIGESTS,
                        "the recorded digests (\"%s\" in the metadata) cannot be used: %s; nothing was verified", key,
                        what);
}

/* The algorithm of the value of a key, and its base64. */
static coffer_status record_head(const char *key, const char *text, size_t text_len, coffer_algorithm *algorithm,
                                 size_t *base64_at, coffer_error *err)
{
    *algorithm = coffer__record_text_algorithm(text, text_len, base64_at);
    return *algorithm != COFFER_NO_ALGORITHM
               ? COFFER_OK
               : record_malformed(key, "they do not begin with a version and an algorithm that this library knows",
                                  err);
}

static const char *record_list(const coffer_table *table, size_t *length)
{
    return coffer_table_metadata_get(table, record_digests_key, sizeof record_digests_key - 1, length);
}

static const char *record_metadata_value(const coffer_table *table, size_t *length)
{
    return coffer_table_metadata_get(table, record_metadata_key, sizeof record_metadata_key - 1, length);
}

/* A digest of the metadata without a list is malformed, and not the same as no record: removing the
   list alone does not make a file pass for one without records. */
coffer_status coffer__table_algorithm(const coffer_table *table, coffer_algorithm *algorithm, coffer_error *err)
{
    size_t length = 0;
    size_t base64_at = 0;
    const char *text = record_list(table, &length);
    *algorithm = COFFER_NO_ALGORITHM;
    if (text != NULL) {
        return record_head(record_digests_key, text, length, algorithm, &base64_at, err);
    }
    if (record_metadata_value(table, NULL) != NULL) {
        return record_malformed(record_digests_key, "they are missing, while a digest of the metadata is there", err);
    }
    return coffer__fail(err, COFFER_ERR_NO_DIGESTS,
                        "the file records no digests of its tensors, so nothing can be verified: `coffer hash --write` "
                        "adds them to a file that is known to be good");
}

static int record_compare(const coffer__recorded *recorded, uint32_t i, const uint8_t *record)
{
    return memcmp(recorded->digests + i * recorded->digest_size, record, recorded->digest_size);
}

static bool record_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer__recorded *recorded = ctx;
    return record_compare(recorded, a, recorded->digests + b * recorded->digest_size) < 0;
}

/* Decodes the base64 of a list, and sorts the digests by their bytes for coffer__recorded_has. Only
   the canonical form is accepted, so a list has one spelling. The space is that of the bytes,
   rounded up, and one more, so that it is never empty. What was allocated is released by the
   caller. An empty list is valid: a file without tensors has one. */
static coffer_status record_decode(coffer__recorded *recorded, const char *key, const char *text, size_t text_len,
                                   coffer_error *err)
{
    size_t size = 0;
    recorded->digest_size = coffer_algorithm_digest_size(recorded->algorithm);
    recorded->digests_capacity = text_len / 4 * 3 + 1;
    recorded->digests = coffer__alloc(&recorded->allocator, recorded->digests_capacity);
    if (recorded->digests == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the recorded digests");
    }
    if (!coffer__base64_read(recorded->digests, &size, text, text_len)) {
        return record_malformed(key, "they are not base64 in its canonical form", err);
    }
    if (size % recorded->digest_size != 0) {
        return record_malformed(key, "their length is not a multiple of a digest's", err);
    }
    /* An order over the digests, for coffer__recorded_has. */
    recorded->count = size / recorded->digest_size;
    recorded->order = coffer__alloc_array(&recorded->allocator, recorded->count, sizeof *recorded->order, err);
    if (recorded->order == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < recorded->count; i++) {
        recorded->order[i] = (uint32_t)i;
    }
    coffer__sort(recorded->order, recorded->count, record_before, recorded);
    return COFFER_OK;
}

/* `key` is only used in messages. The text is borrowed during the call. */
coffer_status coffer__recorded_read_text(coffer__recorded *recorded, const char *key, const char *text, size_t text_len,
                                         const coffer_allocator *allocator, coffer_error *err)
{
    size_t base64_at = 0;
    memset(recorded, 0, sizeof *recorded);
    recorded->allocator = *allocator;
    coffer_status status = record_head(key, text, text_len, &recorded->algorithm, &base64_at, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = record_decode(recorded, key, text + base64_at, text_len - base64_at, err);
    if (status != COFFER_OK) {
        coffer__recorded_free(recorded);
    }
    return status;
}

coffer_status coffer__recorded_read(coffer__recorded *recorded, const coffer_table *table,
                                    const coffer_allocator *allocator, coffer_error *err)
{
    size_t length = 0;
    memset(recorded, 0, sizeof *recorded);
    const coffer_status status = coffer__table_algorithm(table, &recorded->algorithm, err);
    if (status != COFFER_OK) {
        return status;
    }
    const char *text = record_list(table, &length);
    return coffer__recorded_read_text(recorded, record_digests_key, text, length, allocator, err);
}

static bool record_table_pair(const void *table, size_t i, coffer_pair *pair)
{
    return coffer_table_metadata_at(table, i, pair);
}

/* Compares spellings and not digests: the text has one canonical form. The hasher is of the
   algorithm of the file's list, so a digest by another algorithm does not match. A single digest
   always fits `text`. */
coffer_status coffer__recorded_metadata(coffer_hasher *hasher, const coffer_table *table, coffer_error *err)
{
    uint8_t digest[COFFER_LARGEST_DIGEST_SIZE];
    char text[2 * COFFER_LARGEST_DIGEST_SIZE];
    const coffer_algorithm algorithm = hasher->algorithm;
    size_t length = 0;
    const char *recorded = record_metadata_value(table, &length);
    if (recorded == NULL) {
        return record_malformed(record_metadata_key, "the digest of the metadata is missing", err);
    }
    const coffer_status status = coffer__record_metadata(hasher, record_table_pair, table, digest, err);
    if (status != COFFER_OK) {
        return status;
    }
    /* What the record would say of these metadata. */
    coffer__record_text_write(text, algorithm, digest, 1);
    if (length == coffer__record_text_len(algorithm, 1) && memcmp(recorded, text, length) == 0) {
        return COFFER_OK;
    }
    return coffer__fail(
        err, COFFER_ERR_METADATA_DIGEST,
        "the metadata do not match their recorded digest: they were damaged, or changed by a program that ignores it");
}

/* Binary search in the digests sorted by their bytes. Digests are no secrets, so memcmp will do. */
bool coffer__recorded_has(const coffer__recorded *recorded, const uint8_t *record)
{
    size_t low = 0;
    size_t high = recorded->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = record_compare(recorded, recorded->order[middle], record);
        if (order == 0) {
            return true;
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return false;
}

void coffer__recorded_free(coffer__recorded *recorded)
{
    coffer__free_array(&recorded->allocator, recorded->order, recorded->count, sizeof *recorded->order);
    coffer__free(&recorded->allocator, recorded->digests, recorded->digests_capacity);
    recorded->order = NULL;
    recorded->digests = NULL;
}
