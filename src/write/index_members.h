/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the metadata of a model's index say that stays true when the model is written again: every member but total_size
 * and the digests, which the new index states itself.
 */
#ifndef COFFER_WRITE_INDEX_MEMBERS_H
#define COFFER_WRITE_INDEX_MEMBERS_H

#include "coffer.h"
#include "names.h"

typedef struct coffer__index_member {
    coffer__name key;  /* with its escapes undone */
    coffer__name text; /* key, colon and value, byte for byte: the value may be any JSON */
} coffer__index_member;

/* Zero has no members. */
typedef struct coffer__index_members {
    coffer_allocator allocator;
    char *keys;
    size_t keys_size;
    size_t capacity;
    size_t count;
    coffer__index_member *items; /* in the order of the index */
    coffer__names names;         /* of the keys */
} coffer__index_members;

/* Whether a member is left out in addition to total_size and the digests. `key` has no NUL at
   its end. */
typedef bool coffer__index_leaves_out(const void *ctx, const char *key, size_t key_len);

/* Reads those of a model, which is borrowed as long as there are members; a model without an
   index has none. `leaves_out` is asked for every key, and must not be NULL. *members must not
   move while it is in use. Fails with COFFER_ERR_MEMORY; coffer__index_members_free also follows
   a failure. */
coffer_status coffer__index_members_read(coffer__index_members *members, const coffer *model,
                                         coffer__index_leaves_out *leaves_out, const void *ctx,
                                         const coffer_allocator *allocator, coffer_error *err);
/* Whether a member has that key; the key is compared with its escapes undone. */
bool coffer__index_members_have(const coffer__index_members *members, const char *key, size_t key_len);
void coffer__index_members_free(coffer__index_members *members);

#endif
