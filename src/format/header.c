/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declarations → header bytes: the canonical order, the offsets, the text and its padding. Building
 * sorts, measures, writes once, and lets the reader's validator look at the result. The table that this
 * gives is what tells where each tensor goes, so writers and readers can never disagree about a place.
 */
#include "declared.h"

#include "alloc.h"
#include "checked.h"
#include "dtype.h"
#include "error.h"
#include "formats.h"
#include "options.h"
#include "parse.h"
#include "sort.h"
#include "text.h"

/* Bytes. Data that begin at a multiple of 8 are aligned for every dtype. */
#define HEADER_MIN_ALIGNMENT 8u

/* ---- the order of the file ---- */

/* The order of the file: dtypes from the highest rank down, then names. It is what the reference
   writes, and it keeps each tensor aligned, since alignments only fall in it. */
static bool declared_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer_header *header = ctx;
    const declared_tensor *first = &coffer__header_tensors(header)[a];
    const declared_tensor *second = &coffer__header_tensors(header)[b];
    if (first->dtype != second->dtype) {
        return coffer__dtype_info_of(first->dtype)->rank > coffer__dtype_info_of(second->dtype)->rank;
    }
    return coffer__compare_names(header->arena.bytes + first->name_at, first->name_len,
                                 header->arena.bytes + second->name_at, second->name_len) < 0;
}

/* Byte order of two keys by their numbers; 0 when one was set twice. */
static int declared_key_compare(const coffer_header *header, uint32_t a, uint32_t b)
{
    const declared_pair *first = &coffer__header_pairs(header)[a];
    const declared_pair *second = &coffer__header_pairs(header)[b];
    return coffer__compare_names(header->arena.bytes + first->key_at, first->key_len,
                                 header->arena.bytes + second->key_at, second->key_len);
}

/* Equal keys are ordered by their numbers (coffer__sort), which is the order of the calls. */
static bool declared_key_before(const void *ctx, uint32_t a, uint32_t b)
{
    return declared_key_compare(ctx, a, b) < 0;
}

/* Whether the tensors' bytes can be counted: offsets are sums of these sizes, and are not checked
   again. */
static bool sizes_fit(const coffer_header *header)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < coffer_header_count(header); i++) {
        if (!coffer__add_u64(sum, coffer__header_tensors(header)[i].size, &sum)) {
            return false;
        }
    }
    return true;
}

/* The caller's limit, or the one that readers have by default: a larger header could be written,
   but hardly be read. */
static uint64_t header_limit(const coffer_header_options *options)
{
    return options->max_header_size == 0 ? COFFER_DEFAULT_MAX_HEADER_SIZE : options->max_header_size;
}

/*
 * The size of the head that ends at `used`, with the slack and the padding. The limit is that on
 * headers, so the frame is not counted; it is the reader's, which would refuse what exceeds it. An
 * overflow is reported as the largest number.
 */
static coffer_status head_size(const coffer__format_ops *format, const coffer_header_options *options, uint64_t used,
                               uint64_t *size, coffer_error *err)
{
    const uint64_t alignment = options->alignment == 0 ? HEADER_MIN_ALIGNMENT : options->alignment;
    if (alignment < HEADER_MIN_ALIGNMENT || (alignment & (alignment - 1)) != 0) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the alignment %u is not a power of two of at least 8",
                            alignment);
    }
    const uint64_t limit = header_limit(options);
    const bool fits = coffer__add_u64(used, options->slack, size) && coffer__round_up_u64(*size, alignment, size);
    if (fits && *size - format->header_at <= limit && *size <= SIZE_MAX / 2) {
        return COFFER_OK;
    }
    /* What could not be computed is reported as larger than any limit. */
    const uint64_t actual = fits ? *size - format->header_at : UINT64_MAX;
    const coffer_status code = coffer__fail(err, COFFER_ERR_HEADER_TOO_LARGE,
                                            "the header would have %u bytes, more than the limit of %u, and readers "
                                            "would refuse it: write several files, or raise the limit",
                                            actual, limit);
    return coffer__fail_sizes(err, code, limit, actual);
}

/* Measures, allocates exactly, and writes the same again. The bytes are all set: the format writes
   up to `used`, the seal the rest. */
static coffer_status write_head(coffer_header *header, const coffer__format_ops *format,
                                const coffer_header_options *options, const coffer__header_order *order,
                                coffer_error *err)
{
    /* The first pass has nowhere to write, and begins after the frame, so that the size counts it. */
    coffer__header_text text = { NULL, format->header_at };
    format->put(&text, header, order);
    uint64_t size = 0;
    const uint64_t used = text.size;
    const coffer_status status = head_size(format, options, used, &size, err);
    if (status != COFFER_OK) {
        return status;
    }
    header->bytes = coffer__alloc(&header->allocator, (size_t)size);
    if (header->bytes == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for a header of %z", size);
    }
    header->size = size;
    text = (coffer__header_text){ (char *)header->bytes, format->header_at };
    format->put(&text, header, order);
    format->seal(header->bytes, (size_t)used, (size_t)size);
    return COFFER_OK;
}

/* The header can then be changed and built again, as `bytes` tells. */
static void drop_built(coffer_header *header)
{
    coffer__free(&header->allocator, header->bytes, (size_t)header->size);
    header->bytes = NULL;
}

/* What can be said of the declarations as a whole, before they are written: what takes no memory to
   find out comes first. */
static coffer_status check_declared(const coffer_header *header, const coffer__format_ops *format, uint64_t limit,
                                    const coffer__header_order *order, coffer_error *err)
{
    if (!sizes_fit(header)) {
        return coffer__fail(err, COFFER_ERR_OVERFLOW, "the tensors' sizes add up to more than 2^64-1 bytes");
    }
    return format->check != NULL ? format->check(header, order, limit, err) : COFFER_OK;
}

/* Has the reader look at what was written: a header that cannot be read back is never used. This
   also finds names that were declared twice. */
static coffer_status validate_head(coffer_header *header, const coffer_header_options *options, coffer_error *err)
{
    coffer_parse_options parse = COFFER_PARSE_OPTIONS_INIT;
    /* With the limit that it was built for: a header above the default is read back, too. */
    parse.max_header_size = options->max_header_size;
    const coffer_status status = coffer__parse_header(&header->table, NULL, header->bytes, (size_t)header->size,
                                                      &header->allocator, &parse, err);
    if (status != COFFER_OK) {
        drop_built(header);
    }
    return status;
}

/* Writes what was ordered, validates it, and remembers each declaration's place, for coffer_header_at. */
static coffer_status build_ordered(coffer_header *header, const coffer_header_options *options,
                                   const coffer__header_order *order, coffer_error *err)
{
    const coffer__format_ops *format = coffer__format_at(options->format);
    coffer_status status = check_declared(header, format, header_limit(options), order, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = write_head(header, format, options, order, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = validate_head(header, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    for (size_t i = 0; i < coffer_header_count(header); i++) {
        coffer__header_tensors(header)[order->tensors[i]].place = (uint32_t)i;
    }
    return COFFER_OK;
}

/* Sorts the pairs by `numbers`, of which there is one for each, and fills in those that go into the
   file. Returns how many these are. */
static size_t order_pairs(const coffer_header *header, uint32_t *numbers, coffer_pair *pairs)
{
    const size_t declared = coffer__header_pair_count(header);
    size_t count = 0;
    for (size_t i = 0; i < declared; i++) {
        numbers[i] = (uint32_t)i;
    }
    coffer__sort(numbers, declared, declared_key_before, header);
    for (size_t i = 0; i < declared; i++) {
        /* Of several with one key, which keep the order of their setting, the last counts. */
        if (i + 1 < declared && declared_key_compare(header, numbers[i], numbers[i + 1]) == 0) {
            continue;
        }
        const declared_pair *pair = &coffer__header_pairs(header)[numbers[i]];
        const char *arena = header->arena.bytes;
        pairs[count++] = (coffer_pair){ arena + pair->key_at, arena + pair->value_at, pair->key_len, pair->value_len };
    }
    return count;
}

/* Orders. `pairs` has space for all pairs, `numbers` for all tensors and then all pairs. */
static coffer_status build_header(coffer_header *header, const coffer_header_options *options, coffer_pair *pairs,
                                  uint32_t *numbers, coffer_error *err)
{
    const size_t count = coffer_header_count(header);
    for (size_t i = 0; i < count; i++) {
        numbers[i] = (uint32_t)i;
    }
    coffer__sort(numbers, count, declared_before, header);
    const size_t pair_count = order_pairs(header, numbers + count, pairs);
    /* Metadata that are empty can have a place in the file, when the caller wants one. */
    const coffer__header_order order = { numbers, pairs, pair_count, pair_count > 0 || options->empty_metadata };
    return build_ordered(header, options, &order, err);
}

/* Refused before anything is built: a format that is only read has no `put`. */
static coffer_status build_options(coffer_header_options *options, const coffer_header_options *given,
                                   coffer_error *err)
{
    const coffer_status status = coffer__options_copy(options, sizeof *options, given, err);
    if (status != COFFER_OK) {
        return status;
    }
    const coffer__format_ops *format = coffer__format_at(options->format);
    return format != NULL && format->put != NULL
               ? COFFER_OK
               : coffer__fail(err, COFFER_ERR_ARGUMENT,
                              "the option `format` cannot be written: use safetensors or bintensors, not layout A");
}

/* One block for everything that is only needed while ordering: the pairs, which need alignment,
   then the numbers. */
static coffer_status build_once(coffer_header *header, const coffer_header_options *given, coffer_error *err)
{
    coffer_header_options options;
    coffer_status status = build_options(&options, given, err);
    if (status != COFFER_OK) {
        return status;
    }
    /* The sums cannot overflow: what was declared takes as much memory, or more. One number to
       spare, so that the size is never 0. */
    const size_t items = coffer_header_count(header) + coffer__header_pair_count(header);
    const size_t pairs_size = coffer__header_pair_count(header) * sizeof(coffer_pair);
    const size_t size = pairs_size + (items + 1) * sizeof(uint32_t);
    char *capacity = items <= UINT32_MAX ? coffer__alloc(&header->allocator, size) : NULL;
    if (capacity == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to order %u tensors", (uint64_t)items);
    }
    coffer_pair *pairs = (coffer_pair *)(void *)capacity;
    status = build_header(header, &options, pairs, (uint32_t *)(void *)(capacity + pairs_size), err);
    coffer__free(&header->allocator, capacity, size);
    return status;
}

/* A second call gives the same header again, whatever its options are: they belong to the first. */
coffer_status coffer_header_build(coffer_header *header, const coffer_header_options *options, const void **bytes,
                                  uint64_t *size, const coffer_table **table, coffer_error *err)
{
    if (header == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "coffer_header_build needs a header");
    }
    if (header->bytes == NULL) {
        const coffer_status status = build_once(header, options, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    if (bytes != NULL) {
        *bytes = header->bytes;
    }
    if (size != NULL) {
        *size = header->size;
    }
    if (table != NULL) {
        *table = header->table;
    }
    return COFFER_OK;
}

/* By the number of the declaration, not of the table: `place` leads from the one to the other. NULL
   before the header is built. */
const coffer_tensor *coffer_header_at(const coffer_header *header, size_t i)
{
    if (header->bytes == NULL || i >= coffer_header_count(header)) {
        return NULL;
    }
    return coffer_table_at(header->table, coffer__header_tensors(header)[i].place);
}
