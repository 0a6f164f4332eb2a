/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations → header bytes, for bintensors: its grammar is in bintensors.c. Only layout B is written. */
#include "bintensors_write.h"

#include "bytes.h"
#include "dtype.h"
#include "error.h"
#include "table.h"

/* What the readers of the Rust package reckon for an item in memory, in bytes, before they read it. */
#define BT_CLAIM_NUMBER 8u
#define BT_CLAIM_TAG 4u
#define BT_CLAIM_PAIR 48u
#define BT_CLAIM_TENSOR 72u

/* ---- what can be written ---- */

/* What such a reader claims at a time, and the most that it has claimed so far. */
typedef struct bt_claim {
    uint64_t now;
    uint64_t most;
} bt_claim;

/* Cannot overflow: what was declared lies in memory, and not much more is claimed for it. */
static void bt_claim_add(bt_claim *claim, uint64_t size)
{
    claim->now += size;
    claim->most = claim->now > claim->most ? claim->now : claim->most;
}

/*
 * The most bytes that a reader of the Rust package claims at a time while it reads the header. It
 * gives up at 100,000,000, and that can be far more than the header has: a list is claimed whole
 * when its count is read; then, item by item, the share of the list is given back and the item's
 * exact size claimed. A file that nobody else can read is better refused when it is written.
 */
static uint64_t bt_claimed(const coffer_header *header, const coffer__header_order *order)
{
    bt_claim claim = { 0, 0 };
    const uint64_t count = coffer_header_count(header);
    bt_claim_add(&claim, 1);
    if (order->has_metadata) {
        bt_claim_add(&claim, BT_CLAIM_NUMBER + (uint64_t)order->pair_count * BT_CLAIM_PAIR);
    }
    for (size_t i = 0; i < order->pair_count; i++) {
        claim.now -= BT_CLAIM_PAIR;
        bt_claim_add(&claim, UINT64_C(2) * BT_CLAIM_NUMBER + order->pairs[i].key_len + order->pairs[i].value_len);
    }
    bt_claim_add(&claim, BT_CLAIM_NUMBER + count * BT_CLAIM_TENSOR);
    for (size_t i = 0; i < count; i++) {
        const declared_tensor *tensor = &coffer__header_tensors(header)[order->tensors[i]];
        claim.now -= BT_CLAIM_TENSOR;
        bt_claim_add(&claim, BT_CLAIM_TAG + (4 + (uint64_t)tensor->rank) * BT_CLAIM_NUMBER + tensor->name_len);
    }
    return claim.most;
}

coffer_status coffer__bintensors_check(const coffer_header *header, const coffer__header_order *order, uint64_t limit,
                                       coffer_error *err)
{
    for (size_t i = 0; i < coffer_header_count(header); i++) {
        const declared_tensor *tensor = &coffer__header_tensors(header)[order->tensors[i]];
        if (coffer__dtype_tag(tensor->dtype) == COFFER__TAG_COUNT) {
            const char *name = header->arena.bytes + tensor->name_at;
            const coffer_status code =
                coffer__fail(err, COFFER_ERR_DTYPE,
                             "tensor %q has the dtype %s, which bintensors lacks: convert it to another one first",
                             name, (size_t)tensor->name_len, coffer_dtype_name(tensor->dtype));
            return coffer__fail_tensor(err, code, name, tensor->name_len);
        }
    }
    const uint64_t claimed = bt_claimed(header, order);
    if (claimed <= limit) {
        return COFFER_OK;
    }
    const coffer_status code = coffer__fail(err, COFFER_ERR_HEADER_TOO_LARGE,
                                            "to read the header, programs would allocate %u bytes, more than the limit "
                                            "of %u, and refuse it: write several files, or raise the limit",
                                            claimed, limit);
    return coffer__fail_sizes(err, code, limit, claimed);
}

/* ---- writing ---- */

/* In the fewest bytes, as every writer does; readers note any other spelling. */
static void bt_put_number(coffer__header_text *text, uint64_t value)
{
    uint8_t bytes[9] = { (uint8_t)value };
    if (value <= 250) {
        coffer__header_put(text, bytes, 1);
        return;
    }
    const size_t width = value <= UINT16_MAX ? 2 : value <= UINT32_MAX ? 4 : 8;
    bytes[0] = width == 2 ? 251 : width == 4 ? 252 : 253;
    coffer__store_u64le(bytes + 1, value);
    coffer__header_put(text, bytes, 1 + width);
}

void coffer__bintensors_put_string(coffer__header_text *text, const char *string, size_t length)
{
    bt_put_number(text, length);
    if (length > 0) {
        coffer__header_put(text, string, length);
    }
}

/* Whether there are any, and which. An empty list is not the same as none: files keep the difference. */
void coffer__bintensors_put_metadata(coffer__header_text *text, const coffer_pair *pairs, size_t count, bool present)
{
    bt_put_number(text, present ? 1 : 0);
    if (!present) {
        return;
    }
    bt_put_number(text, count);
    for (size_t i = 0; i < count; i++) {
        coffer__bintensors_put_string(text, pairs[i].key, pairs[i].key_len);
        coffer__bintensors_put_string(text, pairs[i].value, pairs[i].value_len);
    }
}

/* The shape lies in the arena 8-aligned, so it can be read as numbers. */
static void bt_put_tensor(coffer__header_text *text, const coffer_header *header, const declared_tensor *tensor,
                          uint64_t begin)
{
    const uint64_t *shape = (const uint64_t *)(const void *)(header->arena.bytes + tensor->shape_at);
    coffer__bintensors_put_string(text, header->arena.bytes + tensor->name_at, tensor->name_len);
    bt_put_number(text, coffer__dtype_tag(tensor->dtype));
    bt_put_number(text, tensor->rank);
    for (uint32_t i = 0; i < tensor->rank; i++) {
        bt_put_number(text, shape[i]);
    }
    bt_put_number(text, begin);
    bt_put_number(text, begin + tensor->size);
}

/* Runs twice, to measure and to write (coffer__header_text), so it must give the same bytes both
   times. The data follow each other in the order of the tensors, without gaps. */
void coffer__bintensors_put(coffer__header_text *text, const coffer_header *header, const coffer__header_order *order)
{
    const size_t count = coffer_header_count(header);
    coffer__bintensors_put_metadata(text, order->pairs, order->pair_count, order->has_metadata);
    bt_put_number(text, count);
    uint64_t begin = 0;
    for (size_t i = 0; i < count; i++) {
        const declared_tensor *tensor = &coffer__header_tensors(header)[order->tensors[i]];
        bt_put_tensor(text, header, tensor, begin);
        begin += tensor->size;
    }
}

/* The metadata are what the header begins with, and nothing joins them to the rest: the grammar has
   no separators. */
void coffer__bintensors_splice(coffer__splice *splice, const coffer_table *table, const uint8_t *header, size_t count)
{
    (void)header;
    (void)count;
    *splice = (coffer__splice){ 0, table->metadata_end, "" };
}
