/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A manifest: digests of files, kept beside them. manifest.c has the object and the rule for names, and
 * uses none of the others. Above it there is one file for each way to write a manifest down, all of them
 * untrusted when they are read:
 *   lines.c       HEX, two spaces, name: what sha256sum and xxhsum write and check
 *   statement.c   model signing's JSON, an in-toto statement
 *   bundle.c      the same, signed: base64 in an envelope (DSSE) in a sigstore bundle
 * keys.c makes and checks signatures; manifest_text.c tells the ways apart, and is the way in.
 *
 * After a manifest was read, all of this holds, whichever way it was written down: it has at least one
 * entry; each name is relative, in its plain form, and leads to nothing above the folder; no two names
 * are equal; each digest has the size of its algorithm. What does not hold: that a file of that name
 * exists, or that anybody in particular wrote the manifest, unless its signature was checked.
 */
#ifndef COFFER_MANIFEST_MANIFEST_H
#define COFFER_MANIFEST_MANIFEST_H

#include "coffer.h"
#include "writing.h"

#define COFFER__MANIFEST_NAME_SIZE 4096 /* of the longest name, NUL included: the longest path that systems take */

/* The object of coffer.h. Names are blocks of their own, since they are handed out; the arrays grow
   by doubling. */
struct coffer_manifest {
    coffer_allocator allocator;
    coffer_manifest_format format; /* what it was read from */
    coffer_manifest_entry *entries;
    size_t count;
    size_t capacity;
    char **ignored; /* each NUL-terminated, as they were added */
    size_t ignored_count;
    size_t ignored_capacity;
    uint32_t *ignored_order; /* the same in sorted blocks, whose sizes are the bits of the count, the largest first */
    size_t ignored_order_capacity;
    bool follows_links;
    char *model;             /* what the model is called */
    coffer__writing written; /* last */
};

/* An entry as it stands in a file; nothing of it was checked. */
typedef struct coffer__manifest_item {
    uint64_t at; /* where, for errors */
    const char *name;
    size_t name_len;
    coffer_algorithm algorithm;
    const char *hex; /* the digest */
    size_t hex_len;
} coffer__manifest_item;

/* Adds an entry, after checking its name and its digest. Both are copied. */
coffer_status coffer__manifest_add_item(coffer_manifest *manifest, const coffer__manifest_item *item,
                                        coffer_error *err);
/* Adds a name that checks pass over: that of a file, or of a folder with all that is in it. */
coffer_status coffer__manifest_add_ignored(coffer_manifest *manifest, const char *name, size_t name_len,
                                           coffer_error *err);
/* False when there is no memory. */
bool coffer__manifest_set_model(coffer_manifest *manifest, const char *name, size_t name_len);
/* Fills `order` with the entries by name, component by component: a folder's files come together. */
void coffer__manifest_order(const coffer_manifest *manifest, uint32_t *order);
/* Refuses two entries of one name: which of them counts would be anybody's guess. */
coffer_status coffer__manifest_check_names(const coffer_manifest *manifest, coffer_error *err);
coffer_status coffer__manifest_no_memory(coffer_error *err);

/* Each reads all of the text into an empty manifest. After a failure the manifest may have some of
   the entries; its owner frees it. */
coffer_status coffer__lines_read(coffer_manifest *manifest, const char *text, size_t text_len, coffer_error *err);
coffer_status coffer__statement_read(coffer_manifest *manifest, const char *text, size_t text_len, coffer_error *err);

/* Each appends the whole manifest. Whether there was memory for it is in out->failed. */
void coffer__lines_write(const coffer_manifest *manifest, coffer__writing *out);
coffer_status coffer__statement_write(const coffer_manifest *manifest, coffer__writing *out, coffer_error *err);

#endif
