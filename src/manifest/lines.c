/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Manifests of lines, as sha256sum and xxhsum write and check them:
 *
 *     line   HEX SP KIND NAME LF      HEX: 64 digits, SHA-256, or 32, XXH3 of 128 bits. KIND: a space, or
 *                                     `*` for "binary", which makes no difference here. The last line
 *                                     need not end.
 *     line   TAG SP? ( NAME ) SP* = SP* HEX LF    the same with --tag: TAG is SHA256 (OpenSSL writes
 *                                     SHA2-256) or XXH128
 *     line   \ HEX SP KIND NAME LF    a name in which a backslash, a line feed and a carriage return are
 *                                     written \\, \n, \r; with a tag, too
 *
 * For example, all of them the digest of an empty file:
 *
 *     e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  model.safetensors
 *     99aa06d3014798d86001c324468d497f *model.safetensors
 *     SHA256 (model.safetensors) = e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
 *
 * A carriage return before the end of a line belongs to the end. Empty lines and those that begin with #
 * are passed over. Where the last byte is a NUL, every line ends with one instead (sha256sum -z), and
 * names stand for themselves.
 */
#include "error.h"
#include "manifest.h"
#include "text.h"

#include <string.h>

#define LINES_SHA256_DIGITS 64
#define LINES_XXH128_DIGITS 32

/* Of either case: some tools write upper case. ORing 0x20 makes lower case of letters. */
static bool is_hex_digit(char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

/* Undoes the escapes of a name in place, where it gets shorter; false when a backslash begins none
   of the three. */
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

/* A line, taken apart. The pointers lead into the text. */
typedef struct lines_parts {
    const char *hex;
    size_t digits;
    const char *name;
    size_t name_len;
    const char *tag; /* NULL: the digits tell the algorithm */
    size_t tag_len;
} lines_parts;

/* Tells a wrong line by what it might have been: the number of digits names the tools' other
   algorithms. */
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
    return coffer__fail_at(err, COFFER_ERR_MANIFEST, at,
                           "at byte %u, this is not a line of a manifest: 64 hexadecimal digits (SHA-256) or 32 "
                           "(XXH128), two spaces and a name; or SHA256 (NAME) = and the digits, as --tag writes it",
                           at);
}

/* HEX SP KIND NAME, a name of at least one byte. `digits` is set in any case, for lines_not_a_line. */
static bool lines_split_plain(const char *line, size_t line_len, lines_parts *parts)
{
    size_t end = 0;
    while (end < line_len && is_hex_digit(line[end])) {
        end++;
    }
    *parts = (lines_parts){ .hex = line, .digits = end };
    const bool known = end == LINES_SHA256_DIGITS || end == LINES_XXH128_DIGITS;
    if (!known || line_len - end < 3 || line[end] != ' ' || (line[end + 1] != ' ' && line[end + 1] != '*')) {
        return false;
    }
    parts->name = line + end + 2;
    parts->name_len = line_len - end - 2;
    return true;
}

/* Where the run of spaces before `end` begins; `end` itself without any. */
static size_t lines_skip_spaces_back(const char *line, size_t end)
{
    while (end > 0 && line[end - 1] == ' ') {
        end--;
    }
    return end;
}

/* TAG (NAME) = HEX, read from its end: a name may have parentheses and equals signs, so it ends
   with the last parenthesis before the digits. *parts is only changed on success. */
static bool lines_split_tagged(const char *line, size_t line_len, lines_parts *parts)
{
    const char *open = memchr(line, '(', line_len);
    size_t end = line_len;
    while (end > 0 && is_hex_digit(line[end - 1])) {
        end--;
    }
    const size_t hex_at = end;
    end = lines_skip_spaces_back(line, end);
    if (open == NULL || end == 0 || line[end - 1] != '=') {
        return false;
    }
    end = lines_skip_spaces_back(line, end - 1);
    const size_t name_at = (size_t)(open - line) + 1;
    if (end <= name_at || line[end - 1] != ')') {
        return false;
    }
    /* OpenSSL writes no space before the parenthesis, the others one. */
    const size_t tag_end = name_at - 1;
    parts->hex = line + hex_at;
    parts->digits = line_len - hex_at;
    parts->name = line + name_at;
    parts->name_len = end - 1 - name_at;
    parts->tag = line;
    parts->tag_len = tag_end > 0 && line[tag_end - 1] == ' ' ? tag_end - 1 : tag_end;
    return true;
}

/* By the tag or, without one, by the number of digits. Whether a tagged line has as many digits as
   its algorithm is checked when the digest is read. */
static coffer_algorithm lines_algorithm_of(const lines_parts *parts)
{
    static const struct {
        const char *tag;
        coffer_algorithm algorithm;
    } known[] = { { "SHA256", COFFER_SHA256 }, { "SHA2-256", COFFER_SHA256 }, { "XXH128", COFFER_XXH3_128 } };
    if (parts->tag == NULL) {
        return parts->digits == LINES_SHA256_DIGITS ? COFFER_SHA256 : COFFER_XXH3_128;
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strlen(known[i].tag) == parts->tag_len && memcmp(known[i].tag, parts->tag, parts->tag_len) == 0) {
            return known[i].algorithm;
        }
    }
    return COFFER_NO_ALGORITHM;
}

/* Undoes the escapes of a name in memory of `capacity` bytes. What does not fit even with its escapes is longer than any
   path, and is refused: a name that is cut would be another one. */
static coffer_status lines_unescape_name(const lines_parts *parts, char *plain, size_t capacity, size_t *plain_len,
                                         uint64_t at, coffer_error *err)
{
    if (parts->name_len > capacity) {
        return coffer__fail_at(err, COFFER_ERR_MANIFEST_NAME, at,
                               "at byte %u, a name of %u bytes, longer than any path: %q", at,
                               (uint64_t)parts->name_len, parts->name, parts->name_len);
    }
    memcpy(plain, parts->name, parts->name_len);
    *plain_len = parts->name_len;
    if (!lines_unescape(plain, plain_len)) {
        return coffer__fail_at(err, COFFER_ERR_MANIFEST, at,
                               "at byte %u, a name with a backslash that is not \\\\, \\n or \\r", at);
    }
    return COFFER_OK;
}

/*
 * Reads one line, which is not empty; `at` is where it begins in the text. Lines that end with a
 * NUL have no escapes. The name is copied to be unescaped; twice the longest name has space for one
 * whose bytes are all escaped.
 */
static coffer_status lines_read_one(coffer_manifest *manifest, const char *line, size_t line_len, uint64_t at, char end,
                                    coffer_error *err)
{
    lines_parts parts;
    /* The backslash stands before the digits, so it is seen before the line is taken apart. */
    const bool escaped = end == '\n' && line[0] == '\\';
    const char *start = escaped ? line + 1 : line;
    const size_t len = escaped ? line_len - 1 : line_len;
    if (!lines_split_plain(start, len, &parts) && !lines_split_tagged(start, len, &parts)) {
        return lines_not_a_line(at, parts.digits, err);
    }
    const coffer_algorithm algorithm = lines_algorithm_of(&parts);
    if (algorithm == COFFER_NO_ALGORITHM) {
        return coffer__fail_at(err, COFFER_ERR_MANIFEST_ALGORITHM, at,
                               "at byte %u, a digest by %q, and only SHA256 and XXH128 are read", at, parts.tag,
                               parts.tag_len);
    }
    const char *name = parts.name;
    size_t name_len = parts.name_len;
    char plain[COFFER__MANIFEST_NAME_SIZE * 2];
    if (escaped) {
        const coffer_status status = lines_unescape_name(&parts, plain, sizeof plain, &name_len, at, err);
        if (status != COFFER_OK) {
            return status;
        }
        name = plain;
    }
    const coffer__manifest_item item = { at, name, name_len, algorithm, parts.hex, parts.digits };
    return coffer__manifest_add_item(manifest, &item, err);
}

/* The names are checked where entries are added (manifest.c). A text without any entry is no
   manifest: an empty file must not pass as one that verifies. */
coffer_status coffer__lines_read(coffer_manifest *manifest, const char *text, size_t text_len, coffer_error *err)
{
    /* Only the last byte tells: text has no NUL, and a file of sha256sum -z ends with one. */
    const char ending = text_len > 0 && text[text_len - 1] == '\0' ? '\0' : '\n';
    for (size_t start = 0; start < text_len;) {
        const char *found = memchr(text + start, ending, text_len - start);
        const size_t end = found != NULL ? (size_t)(found - text) : text_len;
        /* A line that was written on Windows, or passed through it. With NUL as the end, it is part
           of the name. */
        const bool returns = ending == '\n' && end > start && text[end - 1] == '\r';
        const size_t len = returns ? end - 1 - start : end - start;
        if (len > 0 && text[start] != '#') {
            const coffer_status status = lines_read_one(manifest, text + start, len, start, ending, err);
            if (status != COFFER_OK) {
                return status;
            }
        }
        start = end + 1;
    }
    return manifest->count > 0 ? COFFER_OK : coffer__fail_at(err, COFFER_ERR_MANIFEST, 0, "the manifest names no file");
}

/* Escaped as sha256sum does it; the line then begins with a backslash. */
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

/* In the order in which the entries were added. */
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
