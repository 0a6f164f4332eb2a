/* SPDX-License-Identifier: Apache-2.0 */
/* Verifying while loading: see load_digest.c. */
#ifndef COFFER_LOAD_LOAD_DIGEST_H
#define COFFER_LOAD_LOAD_DIGEST_H

#include "loading.h"

/* Reads what the files record, and chooses how each item is verified. coffer__load_digests_free follows in any case. */
coffer_status coffer__load_digests_begin(coffer_load *load, coffer_error *err);
void coffer__load_digests_free(coffer_load *load);

/* Bytes of an item that is hashed in its place are there, all those of the cell that byte `offset` of the file lies
   in. *next is true when this thread has to hash them: coffer__load_digest_run follows. Under the lock. */
coffer_status coffer__load_digest_arrived(coffer_load *load, uint32_t item, uint64_t offset, bool *next,
                                          coffer_error *err);
/* Hashes what is there, and makes the item ready when that is all. COFFER_ERR_TENSOR_DIGEST. Without the lock. */
coffer_status coffer__load_digest_run(coffer_load *load, uint32_t item, coffer_error *err);
/* Hashes the bytes of a cell, which are at `bytes`, of an item that is hashed in slots. COFFER_NEED_MORE when bytes
   before them come first: those of chunks that were begun before this one. Without the lock. */
coffer_status coffer__load_digest_slot(coffer_load *load, uint32_t item, coffer__file_span within, const uint8_t *bytes,
                                       coffer_error *err);
/* Verifies the tensor of an item that is complete, by reading all of it again, and makes the item ready. Without the
   lock. */
coffer_status coffer__load_verify_apart(coffer_load *load, uint32_t item, coffer_error *err);

#endif
