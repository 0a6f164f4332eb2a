/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations → header bytes, for bintensors: its grammar is in bintensors.c. Only layout B is written. */
#include "bytes.h"
#include "dtype.h"
#include "error.h"
#include "header.h"

/* What the readers of the Rust package reckon for an item in memory, before they read it. */
#define BT_CLAIM_NUMBER 8u
#define BT_CLAIM_TAG 4u
#define BT_CLAIM_PAIR 48u
#define BT_CLAIM_TENSOR 72u

/* How many pairs go into the file. */
static size_t bt_pair_count(const coffer_header *header, const uint32_t *order)
{
    size_t pairs = 0;
    for (size_t i = 0; i < coffer__header_pair_count(header); i++) {
        pairs += coffer__header_pair_counts(header, order, i) ? 1 : 0;
    }
    return pairs;
}

/* ---- what can be written ---- */

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
 * The most bytes that a reader of the Rust package claims at a time while it reads the header. It gives up at 100,000,000, and
 * that can be far more than the header has: a list is claimed whole when its count is read, and each item once more, exactly.
 */
static uint64_t bt_claimed(const coffer_header *header, const coffer__header_order *order)
{
    bt_claim claim = { 0, 0 };
    const uint64_t count = coffer_header_count(header);
    bt_claim_add(&claim, 1);
    if (order->has_metadata) {
        bt_claim_add(&claim, BT_CLAIM_NUMBER + (uint64_t)bt_pair_count(header, order->pairs) * BT_CLAIM_PAIR);
    }
    for (size_t i = 0; i < coffer__header_pair_count(header); i++) {
        if (coffer__header_pair_counts(header, order->pairs, i)) {
            const declared_pair *pair = &coffer__header_pairs(header)[order->pairs[i]];
            claim.now -= BT_CLAIM_PAIR;
            bt_claim_add(&claim, UINT64_C(2) * BT_CLAIM_NUMBER + pair->key_len + pair->value_len);
        }
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

static void bt_put_bytes(coffer__header_text *text, const void *bytes, size_t size)
{
    if (text->bytes != NULL && size > 0) {
        memcpy(text->bytes + text->size, bytes, size);
    }
    text->size += size;
}

void coffer__bintensors_put_number(coffer__header_text *text, uint64_t value)
{
    uint8_t bytes[9] = { (uint8_t)value };
    size_t width = 0;
    if (value > 250) {
        width = value <= UINT16_MAX ? 2 : value <= UINT32_MAX ? 4 : 8;
        bytes[0] = width == 2 ? 251 : width == 4 ? 252 : 253;
        coffer__store_u64le(bytes + 1, value);
    }
    bt_put_bytes(text, bytes, 1 + width);
}

void coffer__bintensors_put_string(coffer__header_text *text, const char *string, size_t length)
{
    coffer__bintensors_put_number(text, length);
    bt_put_bytes(text, string, length);
}

static void bt_put_metadata(coffer__header_text *text, const coffer_header *header, const uint32_t *order)
{
    coffer__bintensors_put_number(text, bt_pair_count(header, order));
    for (size_t i = 0; i < coffer__header_pair_count(header); i++) {
        if (coffer__header_pair_counts(header, order, i)) {
            const declared_pair *pair = &coffer__header_pairs(header)[order[i]];
            coffer__bintensors_put_string(text, header->arena.bytes + pair->key_at, pair->key_len);
            coffer__bintensors_put_string(text, header->arena.bytes + pair->value_at, pair->value_len);
        }
    }
}

static void bt_put_tensor(coffer__header_text *text, const coffer_header *header, const declared_tensor *tensor,
                          uint64_t begin)
{
    const uint64_t *shape = (const uint64_t *)(const void *)(header->arena.bytes + tensor->shape_at);
    coffer__bintensors_put_string(text, header->arena.bytes + tensor->name_at, tensor->name_len);
    coffer__bintensors_put_number(text, coffer__dtype_tag(tensor->dtype));
    coffer__bintensors_put_number(text, tensor->rank);
    for (uint32_t i = 0; i < tensor->rank; i++) {
        coffer__bintensors_put_number(text, shape[i]);
    }
    coffer__bintensors_put_number(text, begin);
    coffer__bintensors_put_number(text, begin + tensor->size);
}

void coffer__bintensors_put(coffer__header_text *text, const coffer_header *header, const coffer__header_order *order)
{
    const size_t count = coffer_header_count(header);
    coffer__bintensors_put_number(text, order->has_metadata ? 1 : 0);
    if (order->has_metadata) {
        bt_put_metadata(text, header, order->pairs);
    }
    coffer__bintensors_put_number(text, count);
    uint64_t begin = 0;
    for (size_t i = 0; i < count; i++) {
        const declared_tensor *tensor = &coffer__header_tensors(header)[order->tensors[i]];
        bt_put_tensor(text, header, tensor, begin);
        begin += tensor->size;
    }
}
