/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The digest of metadata that are being changed. It is one of the pairs itself, made of all the others: so it is
 * planned in two passes, first the metadata without it, then again with one more edit that sets it.
 */
#include "alloc.h"
#include "edit_text.h"
#include "error.h"
#include "record.h"
#include "table.h"

#include <string.h>

/* Hands out the planned pairs, in the form in which those of a table are handed out. */
static bool edit_digest_pair(const void *text, size_t i, coffer_pair *pair)
{
    const coffer__edit_text *planned = text;
    if (i >= planned->pair_count) {
        return false;
    }
    *pair = planned->pairs[i];
    return true;
}

/* Writes the text of the digest of the planned metadata. coffer__record_metadata leaves the
   digest's own key out. The pairs are hashed as planned and not as they were, so the digest is
   right for the file that will be written. `to` gets exactly coffer__record_text_len bytes and no
   NUL. */
static coffer_status edit_digest_write(const coffer__edit_text *text, coffer_algorithm algorithm, char *to,
                                       coffer_error *err)
{
    uint8_t digest[COFFER_LARGEST_DIGEST_SIZE];
    coffer_hasher *hasher = NULL;
    coffer_status status = coffer_hasher_new(&hasher, algorithm, &text->allocator, err);
    if (status == COFFER_OK) {
        status = coffer__record_metadata(hasher, edit_digest_pair, text, digest, err);
    }
    coffer_hasher_free(hasher);
    if (status == COFFER_OK) {
        coffer__record_text_write(to, algorithm, digest, 1);
    }
    return status;
}

/* The list of edits is copied because the caller's is constant and has no space for one more. `all`
   may be freed afterwards: the plan borrows the strings, which are the caller's, a literal and
   `digest`, but not the list. With no algorithm the same pass removes a digest that would be about
   digests that are no longer there. */
coffer_status coffer__edit_text_add_digest(coffer__edit_text *text, const coffer_table *table, const coffer_edit *edits,
                                           size_t count, const coffer__edit_renames *renames,
                                           coffer_algorithm algorithm, char *digest, coffer_error *err)
{
    const size_t size = (count + 1) * sizeof(coffer_edit);
    coffer_edit *all = coffer__alloc(&table->allocator, size);
    if (all == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the metadata's digest");
    }
    if (count > 0) {
        memcpy(all, edits, count * sizeof *all);
    }
    /* The extra edit comes last, so it counts over any earlier edit of that key. Without a value it removes the
       key. */
    all[count] = (coffer_edit){ .key = COFFER_METADATA_DIGEST_KEY, .key_len = strlen(COFFER_METADATA_DIGEST_KEY) };
    coffer_status status = COFFER_OK;
    if (algorithm != COFFER_NO_ALGORITHM) {
        status = edit_digest_write(text, algorithm, digest, err);
        all[count].value = digest;
        all[count].value_len = (size_t)coffer__record_text_len(algorithm, 1);
    }
    if (status == COFFER_OK) {
        coffer__edit_text_free(text);
        status = coffer__edit_text_plan(text, table, text->head, all, count + 1, renames, err);
    }
    coffer__free(&table->allocator, all, size);
    return status;
}
