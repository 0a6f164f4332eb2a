/* SPDX-License-Identifier: Apache-2.0 */
#include "shards.h"

#include "alloc.h"
#include "checked.h"
#include "declared.h"
#include "error.h"
#include "index.h"
#include "names.h"
#include "record.h"
#include "scan.h"
#include "sort.h"
#include "text.h"

#include <string.h>

#define SHARDS_ENDING ".safetensors"
#define SHARDS_ENDING_LEN (sizeof SHARDS_ENDING - 1)
/* "-00001-of-00002" with as many digits as a size_t has. */
#define SHARDS_SUFFIX_SIZE 48
#define SHARDS_LEAST_DIGITS 5
#define SHARDS_OPEN UINT32_MAX /* in shard_of: in the file that is being filled, which has no number yet */

/* ---- which tensor goes where ------------------------------------------------------------------------------------- */

static const char *shards_tensor_name(const coffer_header *header, uint32_t i, size_t *name_len)
{
    const declared_tensor *tensor = &coffer__header_tensors(header)[i];
    *name_len = tensor->name_len;
    return header->arena.bytes + tensor->name_at;
}

/* Gives the tensors of the file that was being filled, which are among those from `from` to `to`, its number. */
static void shards_close(coffer__shards *shards, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        if (shards->shard_of[i] == SHARDS_OPEN) {
            shards->shard_of[i] = (uint32_t)shards->count;
        }
    }
    shards->count++;
}

/* Fills files up to `room` bytes; what is larger than `limit` gets one of its own. Returns how many were filled. */
static size_t shards_fill(coffer__shards *shards, const declared_tensor *tensors, uint64_t limit, uint64_t room)
{
    uint64_t used = 0;
    size_t filled = 0;
    size_t opened = SIZE_MAX; /* the first tensor of the file that is being filled; SIZE_MAX: there is none */
    shards->count = 0;
    for (size_t i = 0; i < shards->tensor_count; i++) {
        const uint64_t size = tensors[i].size;
        if (size > limit) {
            shards->shard_of[i] = (uint32_t)shards->count++;
            continue;
        }
        if (opened != SIZE_MAX && size > room - used) {
            shards_close(shards, opened, i);
            opened = SIZE_MAX;
        }
        if (opened == SIZE_MAX) {
            opened = i;
            used = 0;
            filled++;
        }
        shards->shard_of[i] = SHARDS_OPEN;
        used += size;
    }
    if (opened != SIZE_MAX || shards->count == 0) {
        shards_close(shards, opened == SIZE_MAX ? 0 : opened, shards->tensor_count);
    }
    return filled;
}

/* The lowest room that does with as many files as the limit does. */
static uint64_t shards_least_room(coffer__shards *shards, const declared_tensor *tensors, uint64_t limit)
{
    const size_t filled = shards_fill(shards, tensors, limit, limit);
    uint64_t low = 0; /* the largest tensor has to fit in any case */
    for (size_t i = 0; i < shards->tensor_count; i++) {
        low = tensors[i].size <= limit && tensors[i].size > low ? tensors[i].size : low;
    }
    for (uint64_t high = limit; low < high;) {
        const uint64_t middle = low + (high - low) / 2;
        if (shards_fill(shards, tensors, limit, middle) <= filled) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* Counts the tensors of each file, then puts them there. */
static void shards_order(coffer__shards *shards)
{
    for (size_t i = 0; i < shards->tensor_count; i++) {
        shards->first[shards->shard_of[i] + 1]++;
    }
    for (size_t i = 0; i < shards->count; i++) {
        shards->first[i + 1] += shards->first[i];
    }
    for (size_t i = 0; i < shards->tensor_count; i++) {
        shards->order[shards->first[shards->shard_of[i]]++] = (uint32_t)i;
    }
    memmove(shards->first + 1, shards->first, shards->count * sizeof *shards->first);
    shards->first[0] = 0;
}

static coffer__name shards_name_of(const void *ctx, uint32_t i)
{
    coffer__name name;
    name.text = shards_tensor_name(ctx, i, &name.len);
    return name;
}

/* Each file's own header would notice two tensors of one name in that file only. */
static coffer_status shards_check_names(const coffer__shards *shards, const coffer_header *header, coffer_error *err)
{
    coffer__names names = {
        .allocator = &shards->allocator, .name_of = shards_name_of, .ctx = header, .count = shards->tensor_count
    };
    uint32_t twice = COFFER__NO_NAME;
    const coffer_status status = coffer__names_build(&names, &twice, err);
    coffer__names_free(&names);
    if (status != COFFER_OK || twice == COFFER__NO_NAME) {
        return status;
    }
    const coffer__name name = shards_name_of(header, twice);
    coffer__fail(err, COFFER_ERR_DUPLICATE_NAME, "two tensors are named %q", name.text, name.len);
    return coffer__fail_tensor(err, COFFER_ERR_DUPLICATE_NAME, name.text, name.len);
}

static coffer_status shards_sum(coffer__shards *shards, const declared_tensor *tensors, coffer_error *err)
{
    for (size_t i = 0; i < shards->tensor_count; i++) {
        if (!coffer__add_u64(shards->size, tensors[i].size, &shards->size)) {
            return coffer__fail(err, COFFER_ERR_OVERFLOW, "the tensors have more than 2^64-1 bytes together");
        }
    }
    return COFFER_OK;
}

/* ---- which metadata the index has -------------------------------------------------------------------------------- */

static int shards_compare_keys(const coffer_header *header, uint32_t a, uint32_t b)
{
    const declared_pair *pairs = coffer__header_pairs(header);
    return coffer__compare_names(header->arena.bytes + pairs[a].key_at, pairs[a].key_len,
                                 header->arena.bytes + pairs[b].key_at, pairs[b].key_len);
}

static bool shards_pair_before(const void *ctx, uint32_t a, uint32_t b)
{
    return shards_compare_keys(ctx, a, b) < 0;
}

/* No order but that of the numbers themselves. */
static bool shards_never_before(const void *ctx, uint32_t a, uint32_t b)
{
    (void)ctx;
    (void)a;
    (void)b;
    return false;
}

static bool shards_is_key(const coffer_header *header, uint32_t i, const char *wanted)
{
    const declared_pair *pair = &coffer__header_pairs(header)[i];
    return coffer__compare_names(header->arena.bytes + pair->key_at, pair->key_len, wanted, coffer__text_len(wanted)) ==
           0;
}

/* What an index says for itself, and "format", which is each file's own. */
static bool shards_is_index_key(const coffer_header *header, uint32_t i)
{
    bool found = shards_is_key(header, i, "format") || shards_is_key(header, i, "total_size");
    for (size_t k = 0; k < COFFER__INDEX_RECORDS && !found; k++) {
        found = shards_is_key(header, i, coffer__index_record_key(k));
    }
    return found;
}

/* Takes the last pair of each key, by key, then puts them in order again. */
static void shards_choose_pairs(coffer__shards *shards, const coffer_header *header)
{
    const size_t count = coffer__header_pair_count(header);
    for (size_t i = 0; i < count; i++) {
        shards->pairs[i] = (uint32_t)i;
    }
    coffer__sort(shards->pairs, count, shards_pair_before, header);
    for (size_t i = 0; i < count; i++) {
        const uint32_t pair = shards->pairs[i];
        const bool replaced = i + 1 < count && shards_compare_keys(header, pair, shards->pairs[i + 1]) == 0;
        if (!replaced && !shards_is_index_key(header, pair)) {
            shards->pairs[shards->pair_count++] = pair;
        }
    }
    coffer__sort(shards->pairs, shards->pair_count, shards_never_before, NULL);
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

/* There are never more files than tensors, but one of none. */
static coffer_status shards_allocate(coffer__shards *shards, coffer_error *err)
{
    const size_t count = shards->tensor_count;
    const size_t most = SHARDS_OPEN / sizeof(uint32_t) - 2;
    if (count < most && shards->declared_pairs < most) {
        shards->pairs = coffer__alloc(&shards->allocator, (shards->declared_pairs + 1) * sizeof(uint32_t));
        shards->shard_of = coffer__alloc(&shards->allocator, (count + 1) * sizeof(uint32_t));
        shards->order = coffer__alloc(&shards->allocator, (count + 1) * sizeof(uint32_t));
        shards->first = coffer__alloc_zeroed(&shards->allocator, (count + 2) * sizeof(uint32_t));
    }
    return shards->shard_of != NULL && shards->order != NULL && shards->first != NULL && shards->pairs != NULL
               ? COFFER_OK
               : coffer__fail(err, COFFER_ERR_MEMORY, "no memory to plan the files of the model");
}

coffer_status coffer__shards_plan(coffer__shards *shards, const coffer_header *header, uint64_t limit, bool balanced,
                                  coffer_error *err)
{
    const declared_tensor *tensors = coffer__header_tensors(header);
    *shards = (coffer__shards){ .allocator = header->allocator,
                                .tensor_count = coffer_header_count(header),
                                .declared_pairs = coffer__header_pair_count(header) };
    coffer_status status = shards_allocate(shards, err);
    if (status == COFFER_OK) {
        status = shards_check_names(shards, header, err);
    }
    if (status == COFFER_OK) {
        status = shards_sum(shards, tensors, err);
    }
    if (status != COFFER_OK) {
        coffer__shards_free(shards);
        return status;
    }
    const uint64_t room = balanced ? shards_least_room(shards, tensors, limit) : limit;
    (void)shards_fill(shards, tensors, limit, room);
    shards_order(shards);
    shards_choose_pairs(shards, header);
    return COFFER_OK;
}

void coffer__shards_free(coffer__shards *shards)
{
    const size_t count = shards->tensor_count;
    coffer__free(&shards->allocator, shards->shard_of, (count + 1) * sizeof(uint32_t));
    coffer__free(&shards->allocator, shards->order, (count + 1) * sizeof(uint32_t));
    coffer__free(&shards->allocator, shards->first, (count + 2) * sizeof(uint32_t));
    coffer__free(&shards->allocator, shards->pairs, (shards->declared_pairs + 1) * sizeof(uint32_t));
    shards->shard_of = NULL;
    shards->order = NULL;
    shards->first = NULL;
    shards->pairs = NULL;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

bool coffer__shards_path_fits(const char *path)
{
    const char *name = path + coffer__path_name_at(path);
    const size_t name_len = coffer__text_len(name);
    return name_len > SHARDS_ENDING_LEN &&
           memcmp(name + name_len - SHARDS_ENDING_LEN, SHARDS_ENDING, SHARDS_ENDING_LEN) == 0;
}

/* As printf's %05d. */
static size_t shards_write_number(char *out, size_t value)
{
    const size_t digits = coffer__write_u64(NULL, value);
    const size_t zeros = digits < SHARDS_LEAST_DIGITS ? SHARDS_LEAST_DIGITS - digits : 0;
    memset(out, '0', zeros);
    return zeros + coffer__write_u64(out + zeros, value);
}

/* "-00001-of-00002.safetensors", with a NUL. */
static void shards_write_suffix(char *out, size_t shard, size_t count)
{
    size_t used = 1;
    out[0] = '-';
    used += shards_write_number(out + used, shard + 1);
    memcpy(out + used, "-of-", 4);
    used += 4;
    used += shards_write_number(out + used, count);
    memcpy(out + used, SHARDS_ENDING, SHARDS_ENDING_LEN + 1);
}

bool coffer__shards_name(coffer__path *out, const char *path, size_t shard, size_t count)
{
    coffer__path stem;
    char suffix[SHARDS_SUFFIX_SIZE + SHARDS_ENDING_LEN];
    if (count == 1) {
        return coffer__path_copy(out, path);
    }
    if (!coffer__path_copy(&stem, path)) {
        return false;
    }
    stem.text[coffer__text_len(stem.text) - SHARDS_ENDING_LEN] = '\0';
    shards_write_suffix(suffix, shard, count);
    return coffer__path_beside(out, stem.text, "", suffix);
}

/* ---- the index --------------------------------------------------------------------------------------------------- */

/* Text that is measured (`out` NULL) or written; `size` counts it either way. */
typedef struct shards_text {
    char *out;
    size_t size;
} shards_text;

static void shards_put(shards_text *text, const char *piece, size_t size)
{
    if (text->out != NULL) {
        memcpy(text->out + text->size, piece, size);
    }
    text->size += size;
}

/* Its length is known to the compiler. */
#define SHARDS_PUT_LITERAL(text, literal) shards_put(text, literal, sizeof(literal) - 1)

static void shards_put_number(shards_text *text, uint64_t value)
{
    char digits[20];
    shards_put(text, digits, coffer__write_u64(digits, value));
}

static void shards_put_unit(shards_text *text, uint32_t unit)
{
    char escape[6] = { '\\', 'u' };
    for (size_t i = 0; i < 4; i++) {
        escape[5 - i] = "0123456789abcdef"[unit >> (4 * i) & 0xF];
    }
    shards_put(text, escape, sizeof escape);
}

/* One that does not stand for itself. */
static void shards_put_character(shards_text *text, uint32_t character)
{
    static const char shorts[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* each with the letter that stands for it */
    for (size_t i = 0; i < sizeof shorts - 1; i += 2) {
        if (character == (uint8_t)shorts[i]) {
            shards_put(text, (const char[]){ '\\', shorts[i + 1] }, 2);
            return;
        }
    }
    if (character < 0x10000) {
        shards_put_unit(text, character);
    } else {
        shards_put_unit(text, 0xD800 + ((character - 0x10000) >> 10));
        shards_put_unit(text, 0xDC00 + ((character - 0x10000) & 0x3FF));
    }
}

/* In ASCII alone, as other writers of indices spell it. */
static void shards_put_string(shards_text *text, const char *string, size_t length)
{
    SHARDS_PUT_LITERAL(text, "\"");
    for (size_t at = 0; at < length;) {
        const size_t plain = coffer__scan_plain((const uint8_t *)string + at, length - at);
        uint32_t character = 0;
        shards_put(text, string + at, plain);
        at += plain;
        if (at < length) {
            at += coffer__utf8_decode(string + at, length - at, &character); /* declarations are UTF-8 */
            shards_put_character(text, character);
        }
    }
    SHARDS_PUT_LITERAL(text, "\"");
}

/* A digest of the whole, or those of the files, as a member. */
static void shards_put_record(shards_text *text, size_t record, const coffer__content *content)
{
    const char *key = coffer__index_record_key(record);
    const bool is_content = record == COFFER__INDEX_CONTENT;
    const size_t count = is_content ? 1 : content->count;
    const size_t len = (size_t)coffer__record_text_len(content->algorithm, count);
    SHARDS_PUT_LITERAL(text, ",\n    ");
    shards_put_string(text, key, coffer__text_len(key));
    SHARDS_PUT_LITERAL(text, ": \"");
    if (text->out != NULL) {
        coffer__record_text_write(text->out + text->size, content->algorithm,
                                  is_content ? content->digest : content->shards, count);
    }
    text->size += len;
    SHARDS_PUT_LITERAL(text, "\"");
}

static void shards_put_metadata(shards_text *text, const coffer__shards *shards, const coffer_header *header,
                                const coffer__content *content)
{
    SHARDS_PUT_LITERAL(text, "  \"metadata\": {\n    \"total_size\": ");
    shards_put_number(text, shards->size);
    for (size_t i = 0; i < shards->pair_count; i++) {
        const declared_pair *pair = &coffer__header_pairs(header)[shards->pairs[i]];
        SHARDS_PUT_LITERAL(text, ",\n    ");
        shards_put_string(text, header->arena.bytes + pair->key_at, pair->key_len);
        SHARDS_PUT_LITERAL(text, ": ");
        shards_put_string(text, header->arena.bytes + pair->value_at, pair->value_len);
    }
    for (size_t i = 0; i < COFFER__INDEX_RECORDS && content != NULL; i++) {
        shards_put_record(text, i, content);
    }
    SHARDS_PUT_LITERAL(text, "\n  },\n");
}

static void shards_put_weights(shards_text *text, const coffer__shards *shards, const coffer_header *header,
                               const char *path)
{
    coffer__path file;
    SHARDS_PUT_LITERAL(text, "  \"weight_map\": {");
    for (size_t s = 0; s < shards->count; s++) {
        (void)coffer__shards_name(&file, path, s, shards->count); /* the caller has seen that it is not too long */
        const char *file_name = file.text + coffer__path_name_at(file.text);
        const size_t file_name_len = coffer__text_len(file_name);
        for (uint32_t at = shards->first[s]; at < shards->first[s + 1]; at++) {
            size_t name_len = 0;
            const char *name = shards_tensor_name(header, shards->order[at], &name_len);
            shards_put(text, ",", at > 0 ? 1 : 0);
            SHARDS_PUT_LITERAL(text, "\n    ");
            shards_put_string(text, name, name_len);
            SHARDS_PUT_LITERAL(text, ": ");
            shards_put_string(text, file_name, file_name_len);
        }
    }
    shards_put(text, "\n  ", shards->tensor_count > 0 ? 3 : 0);
    SHARDS_PUT_LITERAL(text, "}\n");
}

size_t coffer__shards_write_index(char *out, const coffer__shards *shards, const coffer_header *header,
                                  const char *path, const coffer__content *content)
{
    shards_text text = { .size = 0 };
    text.out = out;
    SHARDS_PUT_LITERAL(&text, "{\n");
    shards_put_metadata(&text, shards, header, content);
    shards_put_weights(&text, shards, header, path);
    SHARDS_PUT_LITERAL(&text, "}");
    return text.size;
}
