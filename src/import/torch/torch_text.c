/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See torch_text.h. What comes before the bytes of a storage takes a few hundred bytes. What is not decoded here is not
 * looked at: whoever moves the storage decodes the rest.
 */
#include "torch_text.h"

#include "alloc.h"
#include "pickle_text.h"
#include "text.h"

#include <string.h>

/* Of the text: more than any storage's pickles take. */
#define TORCH_TEXT_HEAD ((size_t)16 * 1024)

/* What the text begins with; how many bytes it takes, 0 for what is wrong or cut off. */
static size_t torch_text_step(coffer__coding coding, const uint8_t *text, size_t size, char out[2], size_t *made)
{
    uint32_t code_point = 0;
    if (coding != COFFER__CODING_LATIN1) {
        return coffer__pickle_byte(coding == COFFER__CODING_QUOTED, (const char *)text, size, out, made);
    }
    const size_t taken = coffer__utf8_decode((const char *)text, size, &code_point);
    out[0] = (char)(uint8_t)code_point;
    *made = 1;
    return code_point <= 0xFF ? taken : 0;
}

/* Decodes until so many bytes were made; how much of the text that took. With `bytes` (else NULL) they go there. */
static size_t torch_text_walk(const coffer__torch_text *text, size_t most, uint8_t *bytes, size_t *made)
{
    size_t at = 0;
    *made = 0;
    while (*made < most && at < text->text_size) {
        char out[2];
        size_t count = 0;
        const size_t taken = torch_text_step(text->piece.coding, text->text + at, text->text_size - at, out, &count);
        if (taken == 0 || count > most - *made) {
            break;
        }
        if (bytes != NULL) {
            memcpy(bytes + *made, out, count);
        }
        *made += count;
        at += taken;
    }
    return at;
}

coffer_status coffer__torch_text_open(coffer__torch_text *text, const coffer__reader_file *file,
                                      const coffer__import_plan_piece *piece, coffer_error *err)
{
    *text = (coffer__torch_text){ .allocator = file->plan->allocator, .piece = *piece };
    text->text_size = piece->stored_size < TORCH_TEXT_HEAD ? (size_t)piece->stored_size : TORCH_TEXT_HEAD;
    text->capacity = text->text_size;
    text->text = coffer__alloc_array(text->allocator, text->capacity, 1, err);
    text->bytes = coffer__alloc_array(text->allocator, text->capacity, 1, err);
    if (text->text == NULL || text->bytes == NULL) {
        return COFFER_ERR_MEMORY;
    }
    const coffer_status status =
        coffer__input_files_read(file->input, file->file, file->size, piece->offset, text->text, text->text_size, err);
    if (status == COFFER_OK) {
        (void)torch_text_walk(text, text->capacity, text->bytes, &text->size);
    }
    return status;
}

void coffer__torch_text_free(coffer__torch_text *text)
{
    coffer__free_array(text->allocator, text->text, text->capacity, 1);
    coffer__free_array(text->allocator, text->bytes, text->capacity, 1);
}

coffer__import_plan_piece coffer__torch_text_rest(const coffer__torch_text *text, size_t at)
{
    coffer__import_plan_piece rest = text->piece;
    size_t made = 0;
    const size_t taken = torch_text_walk(text, at, NULL, &made);
    rest.offset += taken;
    rest.stored_size -= taken;
    return rest;
}
