/* SPDX-License-Identifier: Apache-2.0 */
/* Text, or any bytes, that grow while they are written: what manifests and files for other programs are made of. */
#ifndef COFFER_CORE_WRITING_H
#define COFFER_CORE_WRITING_H

#include "coffer.h"

/*
 * Begins as zeros but for the allocator. That there was no memory is kept in `failed`, and
 * everything written after that is ignored: so a writer writes without checks and asks once, at the
 * end. The text has no NUL at its end.
 */
typedef struct coffer__writing {
    const coffer_allocator *allocator;
    char *text;
    size_t used;
    size_t capacity;
    bool failed;
} coffer__writing;

/* Space for so many characters, which the caller fills in at once; NULL when there is no memory. The
   next call may move it. */
char *coffer__write_space(coffer__writing *out, size_t size);
void coffer__write(coffer__writing *out, const char *text, size_t text_len);
void coffer__write_text(coffer__writing *out, const char *text);
/* The lowest `size` bytes of a number, at most 8, little-endian. */
void coffer__write_le(coffer__writing *out, uint64_t value, size_t size);
void coffer__write_hex(coffer__writing *out, const uint8_t *bytes, size_t size);
void coffer__write_json(coffer__writing *out, const char *text); /* as a string */
void coffer__write_json_n(coffer__writing *out, const char *text, size_t text_len);
/* Frees the text. The writing may be used again, and begins empty. */
void coffer__writing_free(coffer__writing *out);

#endif
