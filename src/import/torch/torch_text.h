/* SPDX-License-Identifier: Apache-2.0 */
/* The beginning of a checkpoint that lies within a pickle as bytes which are written as text: decoded, with the places in
   the file that its bytes come from. */
#ifndef COFFER_TORCH_TORCH_TEXT_H
#define COFFER_TORCH_TORCH_TEXT_H

#include "plan.h"
#include "torch.h"

typedef struct coffer__torch_text {
    const coffer_allocator *allocator;
    coffer__import_plan_piece piece; /* all of the text */
    uint8_t *text;                   /* its beginning */
    size_t text_size;
    uint8_t *bytes; /* the bytes that `text` stands for */
    size_t size;
    size_t capacity;
} coffer__torch_text;

/* Free it in any case. */
coffer_status coffer__torch_text_open(coffer__torch_text *text, const coffer__reader_file *file,
                                      const coffer__import_plan_piece *piece, coffer_error *err);
void coffer__torch_text_free(coffer__torch_text *text);
/* The piece that is the rest of the text, from byte `at` of what was decoded on; its size is not set. */
coffer__import_plan_piece coffer__torch_text_rest(const coffer__torch_text *text, size_t at);

#endif
