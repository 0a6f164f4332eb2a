/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a file for another program consists of: text, a tensor, text, a tensor, …, text. Text is whatever is no tensor:
 * heads, a pickle, the directory of an archive. A leaf is a stretch of text, which may be empty, and the tensor after
 * it. So the bytes of all tensors are where they are, and what is planned is in proportion to the names.
 *
 *   leaf 0: text [leaves[0].text, leaves[1].text), its tensor    leaf 1: text [leaves[1].text, …), its tensor    …
 *
 * Formats lay a file out, export_run.c writes it.
 */
#ifndef COFFER_EXPORT_LAYOUT_H
#define COFFER_EXPORT_LAYOUT_H

#include "coffer.h"
#include "writing.h"

/* No place for a CRC. */
#define COFFER__NO_CRC SIZE_MAX

typedef struct coffer__leaf {
    size_t text;                 /* where its text begins in that of the layout */
    const coffer_tensor *tensor; /* NULL: it has text only */
    uint32_t crc;                /* of the text that the tensor's CRC continues */
    size_t crc_at[2];            /* where the CRC goes in the text of the layout, before and after the tensor */
} coffer__leaf;

typedef struct coffer__layout {
    coffer__writing text;
    coffer__leaf *leaves;
    size_t count;
    size_t capacity;
    size_t begun;  /* where the text begins of the leaf that comes next */
    uint64_t data; /* bytes of the tensors so far */
} coffer__layout;

void coffer__layout_init(coffer__layout *layout, const coffer_allocator *allocator);
void coffer__layout_free(coffer__layout *layout);
/* Bytes of the file so far: where the next byte goes. */
uint64_t coffer__layout_size(const coffer__layout *layout);
/* Ends a leaf with what was written to `text` since the one before, and a tensor or NULL. Without memory, for this or
   for the text: COFFER_ERR_MEMORY. */
coffer_status coffer__layout_end_leaf(coffer__layout *layout, const coffer_tensor *tensor, coffer_error *err);

#endif
