/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans the files of a model and writes their index: see shards.h for the rules. A plan numbers the
 * file of each tensor first (shards_fill), and then sorts the tensors by file (shards_order). Both
 * take time linear in the number of tensors; a balanced plan fills at most 66 times, as it searches
 * a limit of 64 bits.
 *
 * Names, shapes and metadata are read from the arena of the header, where the declarations keep
 * them. The plan copies none of them, so the header must not be changed while the plan is in use.
 */
#include "shards.h"

#include "alloc.h"
#include "checked.h"
#include "declared.h"
#include "error.h"
#include "index.h"
#include "index_text.h"
#include "names.h"
#include "record.h"
#include "sort.h"
#include "text.h"

#include <string.h>

#define SHARDS_OPEN UINT32_MAX /* in shard_of: the file that is being filled, which has no number yet */

/* ---- which tensor goes where ------------------------------------------------------------------------------------- */

/* The name has no NUL at its end; it points into the arena of the header. */
static const char *shards_tensor_name(const coffer_header *header, uint32_t i, size_t *name_len)
{
    const declared_tensor *tensor = &coffer__header_tensors(header)[i];
    *name_len = tensor->name_len;
    return header->arena.bytes + tensor->name_at;
}

/* Gives the tensors of the file that was being filled its number. They are among those from
   `from` to `to`; the others there are too large and have a file of their own already. The
   ranges of two files do not overlap, so closing all of them is linear. */
static void shards_close(coffer__shards *shards, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        if (shards->shard_of[i] == SHARDS_OPEN) {
            shards->shard_of[i] = (uint32_t)shards->count;
        }
    }
    shards->count++;
}

/* Fills files up to `capacity` bytes. A tensor larger than `limit` gets a file of its own at once,
   so its number is lower than that of the file being filled around it, which gets its number
   when it is closed. `used` never exceeds `capacity`, so `capacity - used` cannot wrap around; for that,
   `capacity` must not be below the largest tensor that is not above the limit. What an earlier call
   assigned is overwritten. Returns how many files were filled, without those of one large
   tensor. */
static size_t shards_fill(coffer__shards *shards, const declared_tensor *tensors, uint64_t limit, uint64_t capacity)
{
    uint64_t used = 0;
    size_t filled = 0;
    size_t opened = SIZE_MAX; /* the first tensor of the file that is being filled; SIZE_MAX: there is none */
    shards->count = 0;
    for (size_t i = 0; i < shards->tensor_count; i++) {
        const uint64_t size = tensors[i].size;
        /* Too large to share a file. It is counted here, before the file being filled, which is what other writers
           of the ecosystem do. */
        if (size > limit) {
            shards->shard_of[i] = (uint32_t)shards->count++;
            continue;
        }
        /* The tensor does not fit any more, so the file is closed before it. */
        if (opened != SIZE_MAX && size > capacity - used) {
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
    /* Closes the last file. A model without tensors has one file that is empty. */
    if (opened != SIZE_MAX || shards->count == 0) {
        shards_close(shards, opened == SIZE_MAX ? 0 : opened, shards->tensor_count);
    }
    return filled;
}

/* The lowest space for which no more files are filled than for the limit itself: a binary search,
   since more space never means more files. No space below the largest tensor that shares a file is
   possible. Tensors above the limit have files of their own whatever the space is, so they are
   not counted. Leaves the assignment of its last try in the plan. */
static uint64_t shards_least_capacity(coffer__shards *shards, const declared_tensor *tensors, uint64_t limit)
{
    const size_t filled = shards_fill(shards, tensors, limit, limit);
    uint64_t low = 0; /* the largest tensor has to fit in any case */
    for (size_t i = 0; i < shards->tensor_count; i++) {
        low = tensors[i].size <= limit && tensors[i].size > low ? tensors[i].size : low;
    }
    for (uint64_t high = limit; low < high;) {
        /* `high` is always enough, and nothing below `low` is. */
        const uint64_t middle = low + (high - low) / 2;
        if (shards_fill(shards, tensors, limit, middle) <= filled) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* A counting sort by file, which keeps the order of declaration within each file. While tensors
   are placed, first[s] moves to the end of file s, which is where file s + 1 begins; the memmove
   puts the beginnings back. `first` must be zero before, as it was allocated, so this runs once
   for a plan. */
static void shards_order(coffer__shards *shards)
{
    for (size_t i = 0; i < shards->tensor_count; i++) {
        /* Counted one entry further on, so that the sums are where the files begin. */
        shards->first[shards->shard_of[i] + 1]++;
    }
    for (size_t i = 0; i < shards->count; i++) {
        shards->first[i + 1] += shards->first[i];
    }
    for (size_t i = 0; i < shards->tensor_count; i++) {
        /* In order of declaration, so that is the order within each file, too. */
        shards->order[shards->first[shards->shard_of[i]]++] = (uint32_t)i;
    }
    memmove(shards->first + 1, shards->first, shards->count * sizeof *shards->first);
    shards->first[0] = 0;
}

/* For coffer__names, which asks for names by number. */
static coffer__name shards_name_of(const void *ctx, uint32_t i)
{
    coffer__name name;
    name.text = shards_tensor_name(ctx, i, &name.len);
    return name;
}

/* Checks the names of all tensors. The header of each file would only notice two tensors of one
   name in the same file, and the index would have the name twice. */
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

/* The sum is what the index states as total_size. It is checked here once, so no sum of some of
   the tensors can overflow later: neither that of a file nor that of what is left to write. */
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

/* Compares in byte order. Keys have a length and no NUL at their end. */
static int shards_compare_keys(const coffer_header *header, uint32_t a, uint32_t b)
{
    const declared_pair *pairs = coffer__header_pairs(header);
    return coffer__compare_names(header->arena.bytes + pairs[a].key_at, pairs[a].key_len,
                                 header->arena.bytes + pairs[b].key_at, pairs[b].key_len);
}

/* Pairs of equal keys are not ordered by this; coffer__sort orders them by their number. */
static bool shards_pair_before(const void *ctx, uint32_t a, uint32_t b)
{
    return shards_compare_keys(ctx, a, b) < 0;
}

/* Every item is equal to every other, and coffer__sort orders equal items by their numbers. So
   sorting by this gives ascending numbers. */
static bool shards_never_before(const void *ctx, uint32_t a, uint32_t b)
{
    (void)ctx;
    (void)a;
    (void)b;
    return false;
}

/* Whether pair `i` has that key. `wanted` has a NUL at its end, the key has not. */
static bool shards_is_key(const coffer_header *header, uint32_t i, const char *wanted)
{
    const declared_pair *pair = &coffer__header_pairs(header)[i];
    return coffer__compare_names(header->arena.bytes + pair->key_at, pair->key_len, wanted, coffer__text_len(wanted)) ==
           0;
}

/* Keys that the index sets itself, and "format", which is each file's own. A declared value for
   one of them would contradict what the index says of its own files, or make a key twice, which
   readers refuse. */
static bool shards_is_index_key(const coffer_header *header, uint32_t i)
{
    bool found = shards_is_key(header, i, "format") || shards_is_key(header, i, "total_size");
    for (size_t k = 0; k < COFFER__INDEX_RECORDS && !found; k++) {
        found = shards_is_key(header, i, coffer__index_record_key(k));
    }
    return found;
}

/* Takes the last pair of each key, as declaring a key again replaces its value: sorted by key,
   equal keys are ordered by number, so the last of a run counts. The chosen pairs are put back
   in the order of their declaration. Writing to the front of the array is safe, because no more
   pairs were chosen than read. */
static void shards_choose_pairs(coffer__shards *shards, const coffer_header *header)
{
    const size_t count = coffer__header_pair_count(header);
    for (size_t i = 0; i < count; i++) {
        shards->pairs[i] = (uint32_t)i;
    }
    coffer__sort(shards->pairs, count, shards_pair_before, header);
    for (size_t i = 0; i < count; i++) {
        const uint32_t pair = shards->pairs[i];
        /* A later value for the same key follows in the sorted order. */
        const bool replaced = i + 1 < count && shards_compare_keys(header, pair, shards->pairs[i + 1]) == 0;
        if (!replaced && !shards_is_index_key(header, pair)) {
            shards->pairs[shards->pair_count++] = pair;
        }
    }
    /* Back into the order of declaration, which is that of their numbers. */
    coffer__sort(shards->pairs, shards->pair_count, shards_never_before, NULL);
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

/* There are never more files than tensors, except for the one file of a model without tensors;
   `first` has one entry more than files, hence the 2. All arrays are sized by what is known
   before planning, so coffer__shards_free can compute the sizes again. On failure it releases
   what there is. */
static coffer_status shards_allocate(coffer__shards *shards, coffer_error *err)
{
    const size_t count = shards->tensor_count;
    const coffer_allocator *allocator = &shards->allocator;
    shards->pairs = coffer__alloc_array(allocator, shards->declared_pairs, sizeof *shards->pairs, err);
    shards->shard_of = coffer__alloc_array(allocator, count, sizeof *shards->shard_of, err);
    shards->order = coffer__alloc_array(allocator, count, sizeof *shards->order, err);
    shards->first = coffer__alloc_array(allocator, count + 2, sizeof *shards->first, err);
    const bool made =
        shards->pairs != NULL && shards->shard_of != NULL && shards->order != NULL && shards->first != NULL;
    return made ? COFFER_OK : COFFER_ERR_MEMORY;
}

/* Does what every plan begins with: space, names that differ, and the size of all tensors. On
   failure nothing is left to free, but freeing is allowed. */
static coffer_status shards_begin(coffer__shards *shards, const coffer_header *header, coffer_error *err)
{
    *shards = (coffer__shards){ .allocator = header->allocator,
                                .tensor_count = coffer_header_count(header),
                                .declared_pairs = coffer__header_pair_count(header) };
    coffer_status status = shards_allocate(shards, err);
    if (status == COFFER_OK) {
        status = shards_check_names(shards, header, err);
    }
    if (status == COFFER_OK) {
        status = shards_sum(shards, coffer__header_tensors(header), err);
    }
    if (status != COFFER_OK) {
        coffer__shards_free(shards);
    }
    return status;
}

/* shards_least_capacity leaves the assignment of its last try in the plan, which need not be that of
   the space it returns. So the files are filled again with that space. */
coffer_status coffer__shards_plan(coffer__shards *shards, const coffer_header *header, uint64_t limit, bool balanced,
                                  coffer_error *err)
{
    const declared_tensor *tensors = coffer__header_tensors(header);
    const coffer_status status = shards_begin(shards, header, err);
    if (status != COFFER_OK) {
        return status;
    }
    const uint64_t capacity = balanced ? shards_least_capacity(shards, tensors, limit) : limit;
    (void)shards_fill(shards, tensors, limit, capacity);
    shards_order(shards);
    shards_choose_pairs(shards, header);
    return COFFER_OK;
}

/* `shard_of` ascends, so a file begins wherever its value changes. Files are counted and not
   taken over by number: one that has lost all its tensors leaves no gap. */
coffer_status coffer__shards_keep(coffer__shards *shards, const coffer_header *header, const uint32_t *shard_of,
                                  coffer_error *err)
{
    const coffer_status status = shards_begin(shards, header, err);
    if (status != COFFER_OK) {
        return status;
    }
    shards->count = 1;
    for (size_t i = 0; i < shards->tensor_count; i++) {
        /* The first file was counted already; a model without tensors has it, too. */
        shards->count += i > 0 && shard_of[i] != shard_of[i - 1];
        shards->shard_of[i] = (uint32_t)(shards->count - 1);
    }
    shards_order(shards);
    shards_choose_pairs(shards, header);
    return COFFER_OK;
}

/* Declares in the order of the plan, so tensor `at` of the file has the number at - first[shard]
   in `to`. Every file has all metadata, as a file may be read without its index. Shapes are in
   the arena of the header, aligned for their type. */
coffer_status coffer__shards_declare(const coffer__shards *shards, const coffer_header *header, size_t shard,
                                     coffer_header *to, coffer_error *err)
{
    const char *arena = header->arena.bytes;
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < coffer__header_pair_count(header) && status == COFFER_OK; i++) {
        const declared_pair *pair = &coffer__header_pairs(header)[i];
        status = coffer_header_set_metadata(to, arena + pair->key_at, pair->key_len, arena + pair->value_at,
                                            pair->value_len, err);
    }
    for (uint32_t at = shards->first[shard]; at < shards->first[shard + 1] && status == COFFER_OK; at++) {
        const declared_tensor *tensor = &coffer__header_tensors(header)[shards->order[at]];
        const uint64_t *shape = (const uint64_t *)(const void *)(arena + tensor->shape_at);
        status =
            coffer_header_add(to, arena + tensor->name_at, tensor->name_len, tensor->dtype, shape, tensor->rank, err);
    }
    return status;
}

/* Sizes are computed as in shards_allocate. May be called again, and for a plan of zeros. */
void coffer__shards_free(coffer__shards *shards)
{
    const size_t count = shards->tensor_count;
    coffer__free_array(&shards->allocator, shards->shard_of, count, sizeof *shards->shard_of);
    coffer__free_array(&shards->allocator, shards->order, count, sizeof *shards->order);
    coffer__free_array(&shards->allocator, shards->first, count + 2, sizeof *shards->first);
    coffer__free_array(&shards->allocator, shards->pairs, shards->declared_pairs, sizeof *shards->pairs);
    shards->shard_of = NULL;
    shards->order = NULL;
    shards->first = NULL;
    shards->pairs = NULL;
}

/* ---- the index --------------------------------------------------------------------------------------------------- */

/* Puts the digest of the whole, or those of the files, as a member. When the text is only
   measured, its length is all that is needed, so the digests need not be known yet. That is how
   space for them is made before the data are written. The text is base64 with a prefix and needs
   no escapes. */
static void shards_put_record(coffer__index_writer *text, size_t record, const coffer__content *content)
{
    const char *key = coffer__index_record_key(record);
    const bool is_content = record == COFFER__INDEX_CONTENT;
    const size_t count = is_content ? 1 : content->count;
    const size_t len = (size_t)coffer__record_text_len(content->algorithm, count);
    COFFER__INDEX_PUT(text, ",\n    ");
    coffer__index_put_string(text, key, coffer__text_len(key));
    COFFER__INDEX_PUT(text, ": \"");
    /* Measuring needs only the length. */
    if (text->out != NULL) {
        coffer__record_text_write(text->out + text->size, content->algorithm,
                                  is_content ? content->digest : content->shards, count);
    }
    text->size += len;
    COFFER__INDEX_PUT(text, "\"");
}

/* Puts one declared pair. Key and value are UTF-8, as the header refuses any other. */
static void shards_put_pair(coffer__index_writer *text, const coffer_header *header, const declared_pair *pair)
{
    COFFER__INDEX_PUT(text, ",\n    ");
    coffer__index_put_string(text, header->arena.bytes + pair->key_at, pair->key_len);
    COFFER__INDEX_PUT(text, ": ");
    coffer__index_put_string(text, header->arena.bytes + pair->value_at, pair->value_len);
}

/* total_size comes first, then the members of an older index, byte for byte, then what was
   declared, unless an older member has the same key, and last the digests. No key can come
   twice: members never have keys that the index sets, and shards_choose_pairs left those out,
   too. */
static void shards_put_metadata(coffer__index_writer *text, const coffer__shards *shards, const coffer_header *header,
                                const coffer__shards_index *index)
{
    const coffer__index_members *members = index->members;
    COFFER__INDEX_PUT(text, "{\n    \"total_size\": ");
    coffer__index_put_number(text, shards->size);
    for (size_t i = 0; members != NULL && i < members->count; i++) {
        COFFER__INDEX_PUT(text, ",\n    ");
        coffer__index_put(text, members->items[i].text.text, members->items[i].text.len);
    }
    for (size_t i = 0; i < shards->pair_count; i++) {
        const declared_pair *pair = &coffer__header_pairs(header)[shards->pairs[i]];
        if (members == NULL ||
            !coffer__index_members_have(members, header->arena.bytes + pair->key_at, pair->key_len)) {
            shards_put_pair(text, header, pair);
        }
    }
    for (size_t i = 0; i < COFFER__INDEX_RECORDS && index->content != NULL; i++) {
        shards_put_record(text, i, index->content);
    }
    COFFER__INDEX_PUT(text, "\n  }");
}

/* Puts the tensors by file, and in each file as declared. */
static void shards_put_weights(coffer__index_writer *text, const coffer__shards *shards, const coffer_header *header,
                               const coffer__shards_index *index)
{
    for (size_t s = 0; s < shards->count; s++) {
        for (uint32_t at = shards->first[s]; at < shards->first[s + 1]; at++) {
            coffer__name name = { .len = 0 };
            name.text = shards_tensor_name(header, shards->order[at], &name.len);
            coffer__index_put_weight(text, name, index->names + s * index->name_size);
        }
    }
}

/* The same code measures and writes, so both agree. It allocates nothing and cannot fail; the
   caller has given as many bytes as the call with `out` NULL has returned. */
size_t coffer__shards_write_index(char *out, const coffer__shards *shards, const coffer_header *header,
                                  const coffer__shards_index *index)
{
    coffer__index_writer text = { .size = 0 };
    text.out = out;
    coffer__index_begin(&text);
    shards_put_metadata(&text, shards, header, index);
    coffer__index_begin_weights(&text);
    shards_put_weights(&text, shards, header, index);
    return coffer__index_end(&text);
}
