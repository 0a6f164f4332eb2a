/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is recorded to detect damage to a model: the definitions of docs/integrity.md, and their
 * text in the metadata. With s(x) = u64le length ‖ bytes, and H the algorithm:
 *
 *   d = H(data of the tensor)
 *   r = H("coffer.tensor.1\0" ‖ s(name) ‖ s(dtype) ‖ u64le rank ‖ u64le dimensions ‖ d)
 *   content digest  = H("coffer.content.1\0" ‖ u64le count ‖ r of every tensor, in byte order of the names)
 *   metadata digest = H("coffer.metadata.1\0" ‖ u64le count ‖ s(key) ‖ s(value) of every pair but its own, by key)
 *
 * The text is "1:", the algorithm's name, ":" and digests in base64: its length is known before the
 * digests are. r names its tensor, so the order of a list means nothing; lists are written in byte
 * order of the names.
 */
#ifndef COFFER_MODEL_RECORD_H
#define COFFER_MODEL_RECORD_H

#include "coffer.h"

/* Writes r, of the algorithm's size, from d. The hasher is of the record's algorithm, and new or
   finished; it is finished afterwards, too. */
coffer_status coffer__record_tensor(coffer_hasher *hasher, const coffer_tensor *tensor, const uint8_t *data_digest,
                                    uint8_t *record, coffer_error *err);

/* Pairs in byte order of their keys: what coffer_table_metadata_at does with a table. False after
   the last. */
typedef bool coffer__pair_at(const void *pairs, size_t i, coffer_pair *pair);
/* Writes the digest of `count` pairs. The one with COFFER_METADATA_DIGEST_KEY is left out. */
coffer_status coffer__record_metadata(coffer_hasher *hasher, coffer__pair_at *at, const void *pairs, uint8_t *digest,
                                      coffer_error *err);

/* Characters of the text of `count` digests. */
uint64_t coffer__record_text_len(coffer_algorithm algorithm, uint64_t count);
/* Writes that many characters, from digests that lie one after the other. No NUL. */
void coffer__record_text_write(char *text, coffer_algorithm algorithm, const uint8_t *digests, size_t count);
/* The algorithm that a text names, and where its base64 begins; COFFER_NO_ALGORITHM if it is not of
   this version. */
coffer_algorithm coffer__record_text_algorithm(const char *text, size_t text_len, size_t *base64_at);

/* The digests that a file records of its tensors. Constant once it was read. A block of digests and
   an order over it: coffer__recorded_has takes logarithmic time, and the list keeps the order that
   content.c needs. */
typedef struct coffer__recorded {
    coffer_allocator allocator;
    coffer_algorithm algorithm;
    size_t count;
    size_t digest_size;
    uint8_t *digests; /* as they are listed */
    size_t digests_capacity;
    uint32_t *order; /* of the digests, by their bytes */
} coffer__recorded;

/* The algorithm of a table's list; COFFER_ERR_NO_DIGESTS if it has none. */
coffer_status coffer__table_algorithm(const coffer_table *table, coffer_algorithm *algorithm, coffer_error *err);
/* Reads the list. It does not compare the digest of the metadata, which is what
   coffer__recorded_metadata does. COFFER_ERR_NO_DIGESTS without a list, COFFER_ERR_DIGESTS for a
   malformed one. On failure *recorded owns nothing. */
coffer_status coffer__recorded_read(coffer__recorded *recorded, const coffer_table *table,
                                    const coffer_allocator *allocator, coffer_error *err);
/* Reads digests in the same spelling from another text; `key` names them in failures. */
coffer_status coffer__recorded_read_text(coffer__recorded *recorded, const char *key, const char *text, size_t text_len,
                                         const coffer_allocator *allocator, coffer_error *err);
/* Compares the digest of a table's metadata with the one that is recorded in them:
   COFFER_ERR_METADATA_DIGEST, COFFER_ERR_DIGESTS if there is none. */
coffer_status coffer__recorded_metadata(coffer_hasher *hasher, const coffer_table *table, coffer_error *err);
/* Whether a record of the list's algorithm is in it. */
bool coffer__recorded_has(const coffer__recorded *recorded, const uint8_t *record);
/* Allowed more than once, after *recorded was read. */
void coffer__recorded_free(coffer__recorded *recorded);

#endif
