/* SPDX-License-Identifier: Apache-2.0 */
#include "writing.h"

#include "alloc.h"
#include "bytes.h"
#include "hex.h"
#include "json.h"
#include "text.h"

#include <string.h>

/* Grows to the double and what is needed, so that copying stays in proportion to what is written.
   The bounds keep the sum below SIZE_MAX. After a failure the old text stays, to be freed. */
char *coffer__write_space(coffer__writing *out, size_t size)
{
    if (size > out->capacity - out->used && !out->failed) {
        const size_t capacity = size < SIZE_MAX / 4 && out->capacity < SIZE_MAX / 4 ? 2 * out->capacity + size : 0;
        char *text = capacity > 0 ? coffer__realloc(out->allocator, out->text, out->capacity, capacity) : NULL;
        out->failed = text == NULL;
        out->text = text != NULL ? text : out->text;
        out->capacity = text != NULL ? capacity : out->capacity;
    }
    if (out->failed) {
        return NULL;
    }
    out->used += size;
    return out->text + out->used - size;
}

/* Without text there is nothing to copy, and `text` may be NULL. */
void coffer__write(coffer__writing *out, const char *text, size_t text_len)
{
    char *to = text_len > 0 ? coffer__write_space(out, text_len) : NULL;
    if (to != NULL) {
        memcpy(to, text, text_len);
    }
}

void coffer__write_text(coffer__writing *out, const char *text)
{
    coffer__write(out, text, coffer__text_len(text));
}

void coffer__write_le(coffer__writing *out, uint64_t value, size_t size)
{
    uint8_t bytes[8];
    coffer__store_u64le(bytes, value);
    coffer__write(out, (const char *)bytes, size);
}

/* Two digits a byte, in lower case, as sha256sum writes digests. */
void coffer__write_hex(coffer__writing *out, const uint8_t *bytes, size_t size)
{
    char *to = coffer__write_space(out, 2 * size);
    if (to != NULL) {
        coffer__hex_write(to, bytes, size);
    }
}

/* Measured first, so that the space is exact. */
void coffer__write_json(coffer__writing *out, const char *text)
{
    coffer__write_json_n(out, text, coffer__text_len(text));
}

void coffer__write_json_n(coffer__writing *out, const char *text, size_t text_len)
{
    char *to = coffer__write_space(out, coffer__json_write_string(NULL, text, text_len));
    if (to != NULL) {
        (void)coffer__json_write_string(to, text, text_len);
    }
}

void coffer__writing_free(coffer__writing *out)
{
    coffer__free(out->allocator, out->text, out->capacity);
    *out = (coffer__writing){ .allocator = out->allocator };
}
