/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a head with other metadata, or other names for tensors: pure, no I/O. This room finds which pairs the new
 * metadata has; the format spells them. The header is spliced: every byte outside the metadata and those names keeps
 * its spelling, except for the padding and what joins the metadata to the rest.
 */
#ifndef COFFER_WRITE_EDIT_TEXT_H
#define COFFER_WRITE_EDIT_TEXT_H

#include "format.h"
#include "names.h"

/* Other names for tensors. */
typedef struct coffer__edit_renames {
    /* The name that a tensor of the file is to have, number `i` of its table; it may be the one that it has.
       Borrowed as long as the edit lasts. */
    coffer__name (*name_of)(const void *ctx, const coffer_tensor *tensor, size_t i);
    const void *ctx;
} coffer__edit_renames;

/* A name that is replaced. */
typedef struct coffer__edit_name {
    size_t at;  /* of the old spelling in the header */
    size_t end; /* one past the old spelling */
    coffer__name name;
} coffer__edit_name;

typedef struct coffer__edit_text {
    coffer_allocator allocator;
    const coffer__format_ops *format;
    const uint8_t *head; /* the old one, borrowed; the strings of `pairs` are borrowed from the table and the edits */
    size_t head_size;
    coffer_pair *pairs; /* the new metadata, in byte order of keys */
    size_t pair_count;
    size_t pair_capacity;     /* as allocated */
    coffer__edit_name *names; /* that are replaced, in the order of the header */
    size_t name_count;
    size_t name_capacity; /* as allocated */
    bool same;            /* the table has exactly these pairs already, and no name is replaced */
    coffer__splice splice;
    size_t tail_end; /* of the header without the padding; like all places, counted from the header's first byte */
    uint64_t size;   /* of the new head, without padding */
} coffer__edit_text;

/* Whether names can be replaced in headers of a format. */
bool coffer__edit_can_rename(coffer_format format);
/* Checks the edits and plans the new text of the `head` that `table` was parsed from. `renames` NULL: none; of a
   format that has them, as coffer__edit_can_rename says. COFFER_ERR_ARGUMENT, COFFER_ERR_UTF8 or
   COFFER_ERR_HEADER_TOO_LARGE name the edit that is wrong, by its number. On failure `text` holds nothing. */
coffer_status coffer__edit_text_plan(coffer__edit_text *text, const coffer_table *table, const uint8_t *head,
                                     const coffer_edit *edits, size_t count, const coffer__edit_renames *renames,
                                     coffer_error *err);
/* Plans again what was planned, with the digest of the new metadata among them, by `algorithm`; or,
   with no algorithm, without any digest. Its text is in the 2 * COFFER_LARGEST_DIGEST_SIZE bytes at
   `digest`, which must live as long as the plan. The digest's own pair is not part of what is
   hashed. On failure the plan holds nothing that coffer__edit_text_free would miss. */
coffer_status coffer__edit_text_add_digest(coffer__edit_text *text, const coffer_table *table, const coffer_edit *edits,
                                           size_t count, const coffer__edit_renames *renames,
                                           coffer_algorithm algorithm, char *digest, coffer_error *err);
/* Writes a head of `size` bytes, at least text->size. What exceeds the text is padding, as the
   format has it. */
void coffer__edit_text_write(const coffer__edit_text *text, uint8_t *out, size_t size);
void coffer__edit_text_free(coffer__edit_text *text);

#endif
