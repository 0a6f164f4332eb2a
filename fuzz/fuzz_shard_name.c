/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes what is done with names that come from strangers: whether a file of that name may be opened, which number of how many
 * it states, and whether it matches a pattern (the input up to its first NUL, matched against the rest). The input lies at the
 * edge of what may be touched.
 */
#define _DEFAULT_SOURCE /* guarded.h */

#include "coffer.h"
#include "fuzz_input.h"
#include "guarded.h"
#include "model_dir.h"
#include "pattern.h"
#include "shard_name.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* What a server might make of the name: one round of undoing escapes, by other means than the library's. */
static size_t undo(const char *name, size_t len, char *out)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    size_t used = 0;
    for (size_t i = 0; i < len; i++) {
        const char *high = i + 2 < len && name[i] == '%' && name[i + 1] != '\0' ? strchr(digits, name[i + 1]) : NULL;
        const char *low = high != NULL && name[i + 2] != '\0' ? strchr(digits, name[i + 2]) : NULL;
        if (low != NULL) {
            out[used++] = (char)((high - digits) % 16 * 16 + (low - digits) % 16);
            i += 2;
        } else {
            out[used++] = name[i];
        }
    }
    return used;
}

static void expect_harmless(const char *name, size_t len)
{
    char text[256];
    char next[256];
    memcpy(text, name, len);
    for (size_t round = 0; round < 300; round++) {
        expect(len > 0 && memchr(text, '/', len) == NULL && memchr(text, '\\', len) == NULL, "no other folder");
        expect(memchr(text, '\0', len) == NULL && memchr(text, ':', len) == NULL, "no end, no scheme");
        expect(!(len == 1 && text[0] == '.') && !(len == 2 && text[0] == '.' && text[1] == '.'), "no dots");
        len = undo(text, len, next);
        memcpy(text, next, len);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size > GUARDED_LARGEST) {
        return 0;
    }
    const char *name = (const char *)guarded_copy(bytes, size);
    coffer_error err;
    const coffer_status status = coffer__model_dir_check_name(name, size, 7, &err);
    expect(status == COFFER_OK || (status == COFFER_ERR_SHARD_NAME && err.offset == 7), "a name is fine or it is not");
    if (status == COFFER_OK) {
        expect(size <= 255, "a name is no longer than names can be");
        expect_harmless(name, size);
    }
    coffer__shard_name parts;
    if (coffer__shard_name_read(&parts, name, size)) {
        expect(parts.number >= 1 && parts.number <= parts.total && parts.total <= 999999, "numbers are in range");
        expect(parts.prefix_len + 2 * parts.digits + 16 == size, "nothing is left over");
    }
    const char *end = size == 0 ? NULL : memchr(name, '\0', size);
    if (end != NULL) {
        const coffer__name rest = { end + 1, size - (size_t)(end - name) - 1 };
        const bool matches = coffer__pattern_matches(name, rest);
        expect(matches || name[0] != '*' || name[1] != '\0', "a star matches everything");
        expect(coffer__pattern_matches(name, rest) == matches, "and always the same");
    }
    return 0;
}
