/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a folder that nothing runs: see scan_passed.h. */
#include "scan_passed.h"

#include "cli_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PASSED_PART ((size_t)64 * 1024)
#define PASSED_CHARACTER 4 /* bytes of one, at most */

/* Media, by their first bytes. */
static const char *passed_media(const unsigned char *head, size_t size)
{
    static const struct {
        const char *magic;
        size_t size;
        size_t at;
        const char *kind;
    } media[] = {
        { "\x89PNG\r\n\x1a\n", 8, 0, "an image" },
        { "\xff\xd8\xff", 3, 0, "an image" },
        { "GIF8", 4, 0, "an image" },
        { "WEBP", 4, 8, "an image" },
        { "WAVE", 4, 8, "a sound" },
        { "fLaC", 4, 0, "a sound" },
        { "OggS", 4, 0, "a sound" },
        { "ID3", 3, 0, "a sound" },
        { "ftyp", 4, 4, "a film" },
        { "%PDF-", 5, 0, "a document" },
    };
    for (size_t i = 0; i < sizeof media / sizeof media[0]; i++) {
        if (size >= media[i].at + media[i].size && memcmp(head + media[i].at, media[i].magic, media[i].size) == 0) {
            return media[i].kind;
        }
    }
    return NULL;
}

/* Whether bytes begin as a vocabulary of SentencePiece: messages, each of a text and four bytes of a number, and perhaps a
   type. */
static bool passed_is_vocabulary(const unsigned char *head, size_t size)
{
    size_t at = 0;
    for (int i = 0; i < 3; i++) {
        if (size - at < 4 || head[at] != 0x0a || head[at + 2] != 0x0a || head[at + 1] < head[at + 3] + 2u) {
            return false;
        }
        const size_t len = head[at + 1];
        const size_t text = head[at + 3];
        const bool known = len == text + 7u || len == text + 9u;
        if (len > 127 || !known || size - at < len + 2 || head[at + 4 + text] != 0x15) {
            return false;
        }
        at += len + 2;
    }
    return true;
}

/* Whether all bytes are characters as text has them. What is cut off by the end of a part is left for the next one; *kept
   says how many bytes that is. */
static bool passed_is_text(const char *bytes, size_t size, bool last, size_t *kept)
{
    size_t at = 0;
    while (at < size) {
        uint32_t character = 0;
        const size_t step = cli_read_character(bytes + at, size - at, &character);
        if (step == 0 && !last && size - at < PASSED_CHARACTER) {
            break;
        }
        const bool control = character < 32 && character != '\t' && character != '\n' && character != '\r' &&
                             character != '\f' && character != 27;
        if (step == 0 || control) {
            return false;
        }
        at += step;
    }
    *kept = size - at;
    return true;
}

/* What Git LFS leaves in the place of a file is none. */
static bool passed_is_pointer(const char *text, size_t size)
{
    static const char lfs[] = "version https://git-lfs";
    return size >= sizeof lfs - 1 && memcmp(text, lfs, sizeof lfs - 1) == 0;
}

/* The first part tells but for text, of which all is read. */
static const char *passed_read(coffer_input *input, char *part)
{
    const uint64_t size = coffer_input_size(input, 0);
    const size_t first = size < PASSED_PART ? (size_t)size : PASSED_PART;
    if (coffer_input_read(input, 0, 0, part, first, NULL) != COFFER_OK) {
        return NULL;
    }
    const char *kind = size == 0 ? "empty" : passed_media((const unsigned char *)part, first);
    if (kind != NULL || passed_is_pointer(part, first)) {
        return kind;
    }
    if (passed_is_vocabulary((const unsigned char *)part, first)) {
        return "a vocabulary";
    }
    size_t kept = 0;
    uint64_t at = 0;
    while (at < size) {
        const size_t more = size - at < PASSED_PART ? (size_t)(size - at) : PASSED_PART;
        const size_t had = kept;
        if (coffer_input_read(input, 0, at, part + had, more, NULL) != COFFER_OK) {
            return NULL;
        }
        at += more;
        if (!passed_is_text(part, had + more, at == size, &kept)) {
            return NULL;
        }
        memmove(part, part + had + more - kept, kept);
    }
    return "text";
}

/* PREFIX.data-00000-of-00001: bytes of a checkpoint of TensorFlow, which its index describes. */
static bool passed_is_tensorflow(const char *path)
{
    static const char form[] = ".data-00000-of-00000";
    const size_t len = strlen(path);
    const size_t form_len = sizeof form - 1;
    bool same = len > form_len;
    for (size_t i = 0; same && i < form_len; i++) {
        const char c = path[len - form_len + i];
        same = form[i] == '0' ? c >= '0' && c <= '9' : c == form[i];
    }
    return same;
}

const char *scan_passed_kind(coffer_input *input)
{
    if (passed_is_tensorflow(coffer_input_path(input))) {
        return "tensors of TensorFlow";
    }
    char *part = malloc(PASSED_PART + PASSED_CHARACTER);
    const char *kind = part != NULL ? passed_read(input, part) : NULL;
    free(part);
    return kind;
}
