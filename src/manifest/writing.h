/* SPDX-License-Identifier: Apache-2.0 */
/* Text that grows while it is written: what every way to write a manifest is made of. */
#ifndef COFFER_MANIFEST_WRITING_H
#define COFFER_MANIFEST_WRITING_H

#include "coffer.h"

/* That there was no memory for it is kept in `failed`, to be asked for once. */
typedef struct coffer__writing {
    const coffer_allocator *allocator;
    char *text;
    size_t used;
    size_t room;
    bool failed;
} coffer__writing;

/* Room for so many characters, which the caller fills in; NULL when there is no memory. */
char *coffer__write_space(coffer__writing *out, size_t size);
void coffer__write(coffer__writing *out, const char *text, size_t text_len);
void coffer__write_text(coffer__writing *out, const char *text);
void coffer__write_hex(coffer__writing *out, const uint8_t *bytes, size_t size);
void coffer__write_json(coffer__writing *out, const char *text); /* as a string */
void coffer__writing_free(coffer__writing *out);

#endif
