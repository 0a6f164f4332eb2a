/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code that is no pickle: see scan_code.h.
 */
#include "scan_code.h"

#include "bytes.h"
#include "scan_json.h"
#include "text.h"

#include <string.h>

static const char code_program[] = "%q is a program or a library, whose code runs when it is loaded";
static const char code_compiled[] = "%q is compiled code of Python, which runs when it is imported";
static const char code_source[] = "%q is code, which runs when it is imported or called: transformers does so if "
                                  "trust_remote_code is given";

/* ---- programs ------------------------------------------------------------------------------------------------------ */

static bool code_begins(const uint8_t *head, size_t size, const char *magic, size_t magic_size)
{
    return size >= magic_size && memcmp(head, magic, magic_size) == 0;
}

/* A program of Windows says where its second head is, which may be beyond what is known here. */
static bool code_is_windows(const uint8_t *head, size_t size)
{
    const uint32_t at = size >= 64 ? coffer__load_u32le(head + 60) : 0;
    return code_begins(head, size, "MZ", 2) && at >= 64 && (at > size - 4 || memcmp(head + at, "PE\0\0", 4) == 0) &&
           at < 4096;
}

/* By the bytes, whatever it is called. */
static bool code_is_program(const uint8_t *head, size_t size)
{
    static const struct {
        const char *magic;
        size_t size;
    } programs[] = {
        { "\x7f"
          "ELF",
          4 },
        { "\xfe\xed\xfa\xce", 4 },
        { "\xfe\xed\xfa\xcf", 4 },
        { "\xce\xfa\xed\xfe", 4 },
        { "\xcf\xfa\xed\xfe", 4 },
        { "\xca\xfe\xba\xbe", 4 },
        { "!<arch>\n", 8 },
    };
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        if (code_begins(head, size, programs[i].magic, programs[i].size)) {
            return true;
        }
    }
    return code_is_windows(head, size);
}

/* Whether a name ends so, in letters of any case. `ending` is in small ones. */
static bool code_ends(const char *name, size_t name_len, const char *ending)
{
    const size_t len = coffer__text_len(ending);
    bool same = name_len >= len;
    for (size_t i = 0; same && i < len; i++) {
        const char c = name[name_len - len + i];
        same = (c >= 'A' && c <= 'Z' ? (char)(c + 32) : c) == ending[i];
    }
    return same;
}

static bool code_ends_with_one(const char *name, size_t name_len, const char *const *endings)
{
    for (size_t i = 0; endings[i] != NULL; i++) {
        if (code_ends(name, name_len, endings[i])) {
            return true;
        }
    }
    return false;
}

const char *coffer__scan_code_of(const uint8_t *head, size_t size, const char *name, size_t name_len,
                                 coffer_weight *weight)
{
    static const char *const libraries[] = { ".so", ".dll", ".dylib", ".pyd", ".exe", ".o", NULL };
    static const char *const sources[] = { ".py", ".pyw", ".cpp", ".cu", ".sh", ".bat", NULL };
    *weight = COFFER_WEIGHT_DANGER;
    if (code_is_program(head, size) || code_ends_with_one(name, name_len, libraries)) {
        return code_program;
    }
    /* Two bytes of a number for each version of Python, and the end of a line. */
    if (code_ends(name, name_len, ".pyc") || (size >= 16 && head[1] >= 12 && head[1] <= 15 && head[2] == '\r' &&
                                              head[3] == '\n' && head[4] <= 3 && head[5] == 0)) {
        return code_compiled;
    }
    *weight = COFFER_WEIGHT_OPAQUE;
    return code_begins(head, size, "#!", 2) || code_ends_with_one(name, name_len, sources) ? code_source : NULL;
}

const char *coffer__scan_packing_of(const uint8_t *head, size_t size)
{
    static const struct {
        const char *magic;
        size_t size;
        const char *name;
    } packings[] = {
        { "\x1f\x8b", 2, "gzip" },
        { "BZh", 3, "bzip2" },
        { "\xfd"
          "7zXZ\0",
          6, "xz" },
        { "\x5d\0\0", 3, "lzma" },
        { "\x28\xb5\x2f\xfd", 4, "zstd" },
        { "\x04\x22\x4d\x18", 4, "lz4" },
        { "7z\xbc\xaf\x27\x1c", 6, "7z" },
        { "Rar!\x1a\x07", 6, "rar" },
        { "\x78\x01", 2, "zlib" },
        { "\x78\x5e", 2, "zlib" },
        { "\x78\x9c", 2, "zlib" },
        { "\x78\xda", 2, "zlib" },
    };
    for (size_t i = 0; i < sizeof packings / sizeof *packings; i++) {
        if (code_begins(head, size, packings[i].magic, packings[i].size)) {
            return packings[i].name;
        }
    }
    return NULL;
}

/* ---- YAML ---------------------------------------------------------------------------------------------------------- */

static bool code_is_yaml(const char *name, size_t name_len)
{
    return code_ends(name, name_len, ".yaml") || code_ends(name, name_len, ".yml");
}

static bool code_starts(const uint8_t *text, size_t left, const char *word)
{
    return code_begins(text, left, word, coffer__text_len(word));
}

static bool code_is_dotted(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

/* Whether a name is that of a class, which begins with a large letter, of a package whose classes are made so. Functions are
   not: torch.hub.load is one. */
static bool code_is_usual(const uint8_t *name, size_t last, size_t len)
{
    static const char *const packages[] = { "nemo.", "torch.", "pytorch_lightning.", "lightning.", "transformers." };
    for (size_t i = 0; i < sizeof packages / sizeof *packages; i++) {
        if (code_starts(name, len, packages[i])) {
            return last < len && name[last] >= 'A' && name[last] <= 'Z';
        }
    }
    return false;
}

/* Bytes of the key at which a text is, which names what is called; 0: it is none. */
static size_t code_target_key(const uint8_t *text, size_t left)
{
    const size_t len = code_starts(text, left, "_target_") ? 8 : code_starts(text, left, "target") ? 6 : 0;
    return len < left && !code_is_dotted(text[len]) ? len : 0;
}

/* A text that is at the end of a key: what the key names, unless that is usual. */
static coffer_status code_put_target(const coffer__reader_file *file, const char *member, uint64_t at,
                                     const uint8_t *text, size_t left, coffer_error *err)
{
    size_t begin = 0;
    size_t len = 0;
    size_t last = 0; /* of the name's parts */
    while (begin < left && (text[begin] == ' ' || text[begin] == '"' || text[begin] == '\'' || text[begin] == ':')) {
        begin++;
    }
    for (; begin + len < left && code_is_dotted(text[begin + len]); len++) {
        last = text[begin + len] == '.' ? len + 1 : last;
    }
    const bool number = begin < left && text[begin] >= '0' && text[begin] <= '9';
    return last == 0 || number || code_is_usual(text + begin, last, len)
               ? COFFER_OK
               : coffer__import_plan_put_finding(
                     file->plan, COFFER_WEIGHT_OPAQUE, file->file, at, member,
                     "the configuration names %q, which a program that follows it would call",
                     (const char *)text + begin, len, err);
}

static coffer_status code_scan_yaml(const coffer__reader_file *file, const char *member, uint64_t at,
                                    const uint8_t *text, size_t size, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < size && status == COFFER_OK; i++) {
        const size_t left = size - i;
        const size_t key = i == 0 || !code_is_dotted(text[i - 1]) ? code_target_key(text + i, left) : 0;
        if (code_starts(text + i, left, "!!python/") || code_starts(text + i, left, "2002:python/")) {
            return coffer__import_plan_put_finding(file->plan, COFFER_WEIGHT_DANGER, file->file, at, member,
                                                   "a tag names an object of Python, which a loader of YAML may make",
                                                   "", 0, err);
        }
        if (key > 0) {
            status = code_put_target(file, member, at, text + i + key, left - key, err);
        }
    }
    return status;
}

/* ---- both ---------------------------------------------------------------------------------------------------------- */

bool coffer__scan_is_telling(const uint8_t *head, size_t size, const char *name, size_t name_len)
{
    return coffer__scan_is_json(head, size) || code_is_yaml(name, name_len);
}

coffer_status coffer__scan_text(const coffer__reader_file *file, const char *member, uint64_t at, const char *name,
                                size_t name_len, const uint8_t *text, size_t size, coffer_error *err)
{
    const coffer_status status =
        coffer__scan_is_json(text, size) ? coffer__scan_json(file, member, at, text, size, err) : COFFER_OK;
    return status == COFFER_OK && code_is_yaml(name, name_len) ? code_scan_yaml(file, member, at, text, size, err)
                                                               : status;
}
