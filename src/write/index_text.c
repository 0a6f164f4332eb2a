/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the text of index files: see index_text.h for the spelling. Everything goes through
   coffer__index_put, which is the only place that knows whether the text is measured or written.
   So the two cannot differ, and nothing here can fail. */
#include "index_text.h"

#include "scan.h"
#include "text.h"

#include <string.h>

/* No bound is checked: `out` has the size that the same calls have measured. */
void coffer__index_put(coffer__index_writer *text, const char *piece, size_t size)
{
    if (text->out != NULL) {
        memcpy(text->out + text->size, piece, size);
    }
    text->size += size;
}

/* In decimal, without a sign or leading zeros. */
void coffer__index_put_number(coffer__index_writer *text, uint64_t value)
{
    /* As many as 2^64-1 has. */
    char digits[20];
    coffer__index_put(text, digits, coffer__write_u64(digits, value));
}

/* Puts one UTF-16 code unit as \uXXXX, in lower case like other writers. JSON has no escape for
   a whole code point above 0xFFFF: it takes a pair of them. */
static void index_put_unit(coffer__index_writer *text, uint32_t unit)
{
    char escape[6] = { '\\', 'u' };
    for (size_t i = 0; i < 4; i++) {
        escape[5 - i] = "0123456789abcdef"[unit >> (4 * i) & 0xF];
    }
    coffer__index_put(text, escape, sizeof escape);
}

/* Puts a character that does not stand for itself: a quote, a backslash, a control character, or
   anything outside ASCII. Where JSON has a short escape it is used. DEL is escaped by number,
   which JSON allows but does not ask for. */
static void index_put_character(coffer__index_writer *text, uint32_t character)
{
    static const char shorts[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* each with the letter that stands for it */
    for (size_t i = 0; i < sizeof shorts - 1; i += 2) {
        if (character == (uint8_t)shorts[i]) {
            coffer__index_put(text, (const char[]){ '\\', shorts[i + 1] }, 2);
            return;
        }
    }
    /* Above the basic plane a code point is a high and a low surrogate, of ten bits each. */
    if (character < 0x10000) {
        index_put_unit(text, character);
    } else {
        index_put_unit(text, 0xD800 + ((character - 0x10000) >> 10));
        index_put_unit(text, 0xDC00 + ((character - 0x10000) & 0x3FF));
    }
}

/* Characters that need no escape are copied in runs. The string must be UTF-8: of a byte that is not,
   coffer__utf8_decode would take nothing and the loop would not end. */
void coffer__index_put_string(coffer__index_writer *text, const char *string, size_t length)
{
    COFFER__INDEX_PUT(text, "\"");
    for (size_t at = 0; at < length;) {
        /* A run of characters that stand for themselves, then one that does not. */
        const size_t plain = coffer__scan_plain((const uint8_t *)string + at, length - at);
        uint32_t character = 0;
        coffer__index_put(text, string + at, plain);
        at += plain;
        if (at < length) {
            at += coffer__utf8_decode(string + at, length - at, &character); /* names are UTF-8 */
            index_put_character(text, character);
        }
    }
    COFFER__INDEX_PUT(text, "\"");
}

void coffer__index_begin(coffer__index_writer *text)
{
    COFFER__INDEX_PUT(text, "{\n  \"metadata\": ");
}

/* Puts metadata that have no total_size, with one before the other members. The metadata are a JSON
   object that was read before, so its first byte is the brace; an object without members must not
   get a comma. */
static void index_put_untotalled(coffer__index_writer *text, coffer__name metadata, uint64_t total)
{
    size_t rest = 1; /* after the brace and the space that follows it */
    while (rest < metadata.len && strchr(" \n\t\r", metadata.text[rest]) != NULL) {
        rest++;
    }
    COFFER__INDEX_PUT(text, "{\"total_size\": ");
    coffer__index_put_number(text, total);
    if (rest >= metadata.len || metadata.text[rest] == '}') {
        COFFER__INDEX_PUT(text, "}");
        return;
    }
    COFFER__INDEX_PUT(text, ", ");
    coffer__index_put(text, metadata.text + rest, metadata.len - rest);
}

void coffer__index_put_metadata(coffer__index_writer *text, coffer__name metadata, size_t total_from, size_t total_len,
                                uint64_t total)
{
    if (total_len == 0) {
        index_put_untotalled(text, metadata, total);
        return;
    }
    coffer__index_put(text, metadata.text, total_from);
    coffer__index_put_number(text, total);
    coffer__index_put(text, metadata.text + total_from + total_len, metadata.len - total_from - total_len);
}

/* The comma ends the member of the metadata. */
void coffer__index_begin_weights(coffer__index_writer *text)
{
    COFFER__INDEX_PUT(text, ",\n  \"weight_map\": {");
}

/* The comma comes before each weight but the first, as the last one is not known when it is put. */
void coffer__index_put_weight(coffer__index_writer *text, coffer__name tensor, const char *file)
{
    coffer__index_put(text, ",", text->has_weights ? 1 : 0);
    COFFER__INDEX_PUT(text, "\n    ");
    coffer__index_put_string(text, tensor.text, tensor.len);
    COFFER__INDEX_PUT(text, ": ");
    coffer__index_put_string(text, file, coffer__text_len(file));
    text->has_weights = true;
}

/* Without weights the object stays on one line, as {}. The text ends without a line feed. */
size_t coffer__index_end(coffer__index_writer *text)
{
    coffer__index_put(text, "\n  ", text->has_weights ? 3 : 0);
    COFFER__INDEX_PUT(text, "}\n}");
    return text->size;
}
