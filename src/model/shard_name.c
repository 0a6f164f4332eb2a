/* SPDX-License-Identifier: Apache-2.0 */
#include "shard_name.h"

#include "text.h"

#include <string.h>

#define SHARD_NAME_OF "-of-"
#define SHARD_NAME_MIN_DIGITS 5
#define SHARD_NAME_SIZE 64 /* "-00001-of-00002.safetensors" with as many digits as a size_t has */

const char *const coffer__usual_names[COFFER__USUAL_NAMES] = {
    "model" COFFER__FILE_SUFFIX,
    "model" COFFER__FILE_SUFFIX COFFER__INDEX_SUFFIX,
    "diffusion_pytorch_model" COFFER__FILE_SUFFIX,
    "diffusion_pytorch_model" COFFER__FILE_SUFFIX COFFER__INDEX_SUFFIX,
};

bool coffer__name_ends(coffer__name name, const char *suffix)
{
    const size_t len = strlen(suffix);
    return name.len > len && memcmp(name.text + name.len - len, suffix, len) == 0;
}

/* Reads the 5 or 6 digits that end at `end` and returns how many, or 0. A seventh digit is looked
   for, so that a longer number is refused and not cut. Seven digits fit 32 bits. *value means
   nothing when the result is 0. */
static size_t shard_name_digits(const char *name, size_t end, uint32_t *value)
{
    size_t digits = 0;
    while (digits < end && digits < 7 && name[end - digits - 1] >= '0' && name[end - digits - 1] <= '9') {
        digits++;
    }
    *value = 0;
    for (size_t i = end - digits; i < end; i++) {
        *value = *value * 10 + (uint32_t)(name[i] - '0');
    }
    return digits == 5 || digits == 6 ? digits : 0;
}

/* Reads the name from its end, where its spelling is fixed; what is left is the prefix. The name
   comes from a folder, an index or a user, and may be of any length. *parts is unspecified after
   false. */
bool coffer__shard_name_read_ending(coffer__shard_name *parts, const char *name, size_t name_len, const char *ending)
{
    const size_t of_len = sizeof SHARD_NAME_OF - 1;
    if (!coffer__name_ends((coffer__name){ name, name_len }, ending)) {
        return false;
    }
    /* From the end: the ending, the total, "-of-", the number, the prefix. */
    const size_t end = name_len - strlen(ending);
    const size_t total_digits = shard_name_digits(name, end, &parts->total);
    if (total_digits == 0 || end - total_digits < of_len ||
        memcmp(name + end - total_digits - of_len, SHARD_NAME_OF, of_len) != 0) {
        return false;
    }
    const size_t number_end = end - total_digits - of_len;
    parts->digits = shard_name_digits(name, number_end, &parts->number);
    parts->prefix_len = number_end - parts->digits;
    const bool separated = parts->prefix_len > 0 && strchr("-_", name[parts->prefix_len - 1]) != NULL;
    return parts->digits == total_digits && separated && parts->number >= 1 && parts->number <= parts->total;
}

bool coffer__shard_name_read(coffer__shard_name *parts, const char *name, size_t name_len)
{
    return coffer__shard_name_read_ending(parts, name, name_len, COFFER__FILE_SUFFIX);
}

/* Only the digits differ between the names of a set, so they are overwritten in a copy. */
void coffer__shard_name_make(coffer__path *name, const char *first, const coffer__shard_name *parts, uint32_t number)
{
    (void)coffer__path_copy(name, first);
    for (size_t i = parts->prefix_len + parts->digits; i > parts->prefix_len; i--, number /= 10) {
        name->text[i - 1] = (char)('0' + number % 10);
    }
}

/* "model-00001-of-00002" and "model-000001-of-000002" are of two sets, since a writer uses one
   width. */
bool coffer__shard_name_same_set(coffer__name a, coffer__name b)
{
    coffer__shard_name x;
    coffer__shard_name y;
    return coffer__shard_name_read(&x, a.text, a.len) && coffer__shard_name_read(&y, b.text, b.len) &&
           x.prefix_len == y.prefix_len && memcmp(a.text, b.text, x.prefix_len) == 0 && x.total == y.total &&
           x.digits == y.digits;
}

/* ---- names of what is written ------------------------------------------------------------------------------------ */

bool coffer__shards_path_fits(const char *path)
{
    const char *name = path + coffer__path_name_at(path);
    return coffer__name_ends((coffer__name){ name, strlen(name) }, COFFER__FILE_SUFFIX);
}

/* Like %05d of printf. */
static size_t shard_name_put_number(char *out, size_t value)
{
    const size_t digits = coffer__write_u64(NULL, value);
    const size_t zeros = digits < SHARD_NAME_MIN_DIGITS ? SHARD_NAME_MIN_DIGITS - digits : 0;
    memset(out, '0', zeros);
    return zeros + coffer__write_u64(out + zeros, value);
}

/* "-00001-of-00002.safetensors", with a NUL. */
static void shard_name_put(char *out, size_t shard, size_t count)
{
    size_t used = 1;
    out[0] = '-';
    used += shard_name_put_number(out + used, shard + 1);
    memcpy(out + used, SHARD_NAME_OF, sizeof SHARD_NAME_OF - 1);
    used += sizeof SHARD_NAME_OF - 1;
    used += shard_name_put_number(out + used, count);
    memcpy(out + used, COFFER__FILE_SUFFIX, sizeof COFFER__FILE_SUFFIX);
}

/* Numbers that need more than five digits get them, as all writers do. A model that is one file
   keeps the name without numbers. */
bool coffer__shards_name(coffer__path *out, const char *path, size_t shard, size_t count)
{
    coffer__path stem;
    char suffix[SHARD_NAME_SIZE];
    if (count == 1) {
        return coffer__path_copy(out, path);
    }
    if (!coffer__path_copy(&stem, path)) {
        return false;
    }
    stem.text[coffer__text_len(stem.text) - (sizeof COFFER__FILE_SUFFIX - 1)] = '\0';
    shard_name_put(suffix, shard, count);
    return coffer__path_beside(out, stem.text, "", suffix);
}
