/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A header's text with other metadata: pure, no I/O. The text is spliced: every byte outside the metadata is kept as it was
 * spelt, except for the padding and, in JSON, the comma that joins the "__metadata__" member to the others.
 */
#ifndef COFFER_WRITE_EDIT_TEXT_H
#define COFFER_WRITE_EDIT_TEXT_H

#include "coffer.h"

typedef struct coffer__edit_text {
    coffer_allocator allocator;
    coffer_format format;
    const uint8_t *header; /* the old text; borrowed, as the strings of `pairs` are, from table and edits */
    coffer_pair *pairs;    /* the new metadata, in byte order of keys */
    size_t pair_count;
    size_t pair_room;     /* as allocated */
    bool same;            /* the table has exactly these pairs already */
    bool comma;           /* one has to follow the new member */
    size_t head_end;      /* the old text up to here, … */
    size_t tail_at;       /* … the new member, the old text from here … */
    size_t tail_end;      /* … up to here: the padding is left out */
    uint64_t member_size; /* 0: no member */
    uint64_t size;        /* of the new text */
} coffer__edit_text;

/* Checks the edits and plans the new text of the header that `table` was parsed from. */
coffer_status coffer__edit_text_plan(coffer__edit_text *text, const coffer_table *table, const uint8_t *header,
                                     size_t header_size, const coffer_edit *edits, size_t count, coffer_error *err);
/* Plans once more what was planned, with the digest of the new metadata among them, by `algorithm`; or, with no algorithm, without
   any. Its text is in the 2 * COFFER_LARGEST_DIGEST_SIZE bytes at `digest`, which must live as long as the plan. */
coffer_status coffer__edit_text_add_digest(coffer__edit_text *text, const coffer_table *table, size_t header_size,
                                           const coffer_edit *edits, size_t count, coffer_algorithm algorithm,
                                           char *digest, coffer_error *err);
/* Writes the text->size bytes of the new text. */
void coffer__edit_text_write(const coffer__edit_text *text, uint8_t *out);
void coffer__edit_text_deinit(coffer__edit_text *text);

#endif
