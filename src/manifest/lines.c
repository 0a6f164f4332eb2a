/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Manifests of lines, as sha256sum and xxhsum write and check them:
 *
 *     line   HEX SP KIND NAME LF      HEX: 64 digits, SHA-256, or 32, XXH3 of 128 bits. KIND: a space, or `*` for "binary",
 *                                     which says nothing here. The last line need not end.
 *     line   \ HEX SP KIND NAME LF    a name in which a backslash, a line feed and a carriage return are written \\, \n, \r
 *
 * A carriage return before the end of a line belongs to the end. Empty lines and those that begin with # are passed over.
 */
#include "error.h"
#include "manifest.h"
#include "text.h"

#include <string.h>

#define LINES_SHA256_DIGITS 64
#define LINES_XXH128_DIGITS 32

static bool is_hex_digit(char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

/* Undoes the escapes of a name in place; false when one of them is none. */
static bool lines_unescape(char *name, size_t *name_len)
{
    static const char names[] = "\\nr";
    static const char values[] = "\\\n\r";
    size_t used = 0;
    for (size_t i = 0; i < *name_len; i++) {
        if (name[i] != '\\') {
            name[used++] = name[i];
            continue;
        }
        const char *found = i + 1 < *name_len ? memchr(names, name[i + 1], sizeof names - 1) : NULL;
        if (found == NULL) {
            return false;
        }
        name[used++] = values[found - names];
        i++;
    }
    *name_len = used;
    return true;
}

/* Tells a wrong line by what it might have been. */
static coffer_status lines_not_a_line(uint64_t at, size_t digits, coffer_error *err)
{
    const char *other = digits == 40    ? "SHA-1, by their number"
                        : digits == 96  ? "SHA-384, by their number"
                        : digits == 128 ? "SHA-512 or BLAKE2b, by their number"
                                        : NULL;
    if (other != NULL) {
        return coffer__fail_at(err, COFFER_ERR_MANIFEST_ALGORITHM, at,
                               "at byte %u, a digest of %u digits: %s, and only SHA-256 (64) and XXH128 (32) are read",
                               at, (uint64_t)digits, other);
    }
    return coffer__fail_at(
        err, COFFER_ERR_MANIFEST, at,
        "at byte %u, no line of a manifest: 64 hexadecimal digits (SHA-256) or 32 (XXH128), two spaces "
        "and a name",
        at);
}

static coffer_status lines_read_one(coffer_manifest *manifest, const char *line, size_t line_len, uint64_t at,
                                    coffer_error *err)
{
    const bool escaped = line[0] == '\\';
    const size_t start = escaped ? 1 : 0;
    size_t end = start;
    while (end < line_len && is_hex_digit(line[end])) {
        end++;
    }
    const size_t digits = end - start;
    const bool known = digits == LINES_SHA256_DIGITS || digits == LINES_XXH128_DIGITS;
    if (!known || line_len - end < 3 || line[end] != ' ' || (line[end + 1] != ' ' && line[end + 1] != '*')) {
        return lines_not_a_line(at, digits, err);
    }
    char name[COFFER__MANIFEST_NAME_SIZE * 2];
    size_t name_len = line_len - end - 2;
    if (name_len > sizeof name) {
        name_len = sizeof name; /* too long in any case, and refused as that */
    }
    memcpy(name, line + end + 2, name_len);
    if (escaped && !lines_unescape(name, &name_len)) {
        return coffer__fail_at(err, COFFER_ERR_MANIFEST, at,
                               "at byte %u, a name with a backslash that is no \\\\, \\n or \\r", at);
    }
    const coffer_algorithm algorithm = digits == LINES_SHA256_DIGITS ? COFFER_SHA256 : COFFER_XXH3_128;
    const coffer__manifest_item item = { at, name, name_len, algorithm, line + start, digits };
    return coffer__manifest_add_item(manifest, &item, err);
}

coffer_status coffer__lines_read(coffer_manifest *manifest, const char *text, size_t text_len, coffer_error *err)
{
    for (size_t start = 0; start < text_len;) {
        const char *feed = memchr(text + start, '\n', text_len - start);
        const size_t end = feed != NULL ? (size_t)(feed - text) : text_len;
        const size_t len = end > start && text[end - 1] == '\r' ? end - 1 - start : end - start;
        if (len > 0 && text[start] != '#') {
            const coffer_status status = lines_read_one(manifest, text + start, len, start, err);
            if (status != COFFER_OK) {
                return status;
            }
        }
        start = end + 1;
    }
    return manifest->count > 0 ? COFFER_OK : coffer__fail_at(err, COFFER_ERR_MANIFEST, 0, "the manifest names no file");
}

static void lines_write_name(coffer__writing *out, const char *name, bool escaped)
{
    for (const char *c = name; *c != '\0'; c++) {
        if (escaped && (*c == '\\' || *c == '\n' || *c == '\r')) {
            coffer__write_text(out, *c == '\\' ? "\\\\" : *c == '\n' ? "\\n" : "\\r");
        } else {
            coffer__write(out, c, 1);
        }
    }
}

void coffer__lines_write(const coffer_manifest *manifest, coffer__writing *out)
{
    for (size_t i = 0; i < manifest->count; i++) {
        const coffer_manifest_entry *entry = &manifest->entries[i];
        /* xxhsum 0.8.1 knows no escapes: what it cannot read back is then at least what sha256sum would write. */
        const bool escaped = strpbrk(entry->name, "\\\n\r") != NULL;
        coffer__write_text(out, escaped ? "\\" : "");
        coffer__write_hex(out, entry->digest, coffer_algorithm_digest_size(entry->algorithm));
        coffer__write_text(out, "  ");
        lines_write_name(out, entry->name, escaped);
        coffer__write_text(out, "\n");
    }
}
