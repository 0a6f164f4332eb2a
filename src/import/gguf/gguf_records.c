/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads {"NAME": {"type": "Q4_K", "shape": [64, 256]}, ...}. The text is metadata, and may be anybody's: whatever is not
 * like that is refused, and no number of it is believed, as export_gguf.c compares it with the tensor.
 *
 * Names and types go through one growing text, where each is unescaped; what is not kept is taken back out at once.
 */
#include "gguf_records.h"

#include "alloc.h"
#include "error.h"
#include "json.h"
#include "sort.h"
#include "text.h"

/* One message for all that is wrong in shape: it shows how it should look, and the place says where it does not. */
static coffer_status key_record_fail(const coffer__json *json)
{
    return coffer__fail_at(
        json->err, COFFER_ERR_TYPE, json->in.position,
        "gguf.tensors is {\"NAME\": {\"type\": \"Q4_K\", \"shape\": [64, 256]}, ...} in the metadata, "
        "with types that GGUF has");
}

/* A string, added to the names; *at is where it begins there. An offset is given and not a pointer, since the text
   moves when it grows. Unescaped it is never longer than it is in JSON, so what is left of the input is space
   enough. */
static coffer_status key_record_read_string(coffer__gguf_records *records, coffer__json *json, size_t *at, size_t *len)
{
    bool has_control = false;
    *at = records->names.used;
    if (coffer__json_peek(json) != '"') {
        return key_record_fail(json);
    }
    char *text = coffer__write_space(&records->names, coffer__left(&json->in));
    if (text == NULL) {
        return coffer__fail(json->err, COFFER_ERR_MEMORY, "no memory for the types of tensors");
    }
    const coffer_status status = coffer__json_string(json, text, len, &has_control);
    records->names.used = *at + (status == COFFER_OK ? *len : 0);
    return status;
}

/* The name of the type is taken back out of the texts once it is known, so that only names of tensors stay there. */
static coffer_status key_record_read_type(coffer__gguf_records *records, coffer__json *json,
                                          coffer__gguf_record *record)
{
    size_t at = 0;
    size_t len = 0;
    const coffer_status status = key_record_read_string(records, json, &at, &len);
    if (status != COFFER_OK) {
        return status;
    }
    for (uint32_t i = 0; i < COFFER__GGUF_TYPES && record->type == NULL; i++) {
        const coffer__gguf_type *type = coffer__gguf_type_of(i);
        record->type = type != NULL && coffer__text_is(records->names.text + at, len, type->name) ? type : NULL;
    }
    records->names.used = at;
    return record->type != NULL ? COFFER_OK : key_record_fail(json);
}

/* The rank is checked before each number, as the array has space for four. */
static coffer_status key_record_read_shape(coffer__json *json, coffer__gguf_record *record)
{
    bool more = true;
    if (coffer__json_peek(json) != '[') {
        return key_record_fail(json);
    }
    json->in.position++;
    record->rank = 0;
    record->has_shape = true;
    if (coffer__json_peek(json) == ']') {
        json->in.position++;
        return COFFER_OK;
    }
    while (more) {
        if (record->rank == 4) {
            return key_record_fail(json);
        }
        coffer_status status = coffer__json_u64(json, &record->shape[record->rank++]);
        if (status == COFFER_OK) {
            status = coffer__json_next(json, ']', &more);
        }
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* {"type": …, "shape": …}, in either order, and nothing else. The text of a key is taken back at once; it is compared
   before that, while it is still there. */
static coffer_status key_record_read_value(coffer__gguf_records *records, coffer__json *json,
                                           coffer__gguf_record *record)
{
    bool more = true;
    coffer_status status = coffer__json_expect(json, '{', "an object should be here");
    while (status == COFFER_OK && more) {
        size_t at = 0;
        size_t len = 0;
        status = key_record_read_string(records, json, &at, &len);
        const char *key = records->names.text + at;
        const bool is_type = status == COFFER_OK && coffer__text_is(key, len, "type");
        if (status != COFFER_OK || (!is_type && !coffer__text_is(key, len, "shape"))) {
            return status != COFFER_OK ? status : key_record_fail(json);
        }
        records->names.used = at;
        status = coffer__json_expect(json, ':', "a colon should be here");
        if (status == COFFER_OK) {
            status = is_type ? key_record_read_type(records, json, record) : key_record_read_shape(json, record);
        }
        if (status == COFFER_OK) {
            status = coffer__json_next(json, '}', &more);
        }
    }
    return status == COFFER_OK && (record->type == NULL || !record->has_shape) ? key_record_fail(json) : status;
}

/* An item counts only when it is complete, so that a failure leaves none that is half filled. */
static coffer_status key_record_read(coffer__gguf_records *records, coffer__json *json)
{
    coffer__gguf_record *items = coffer__grow_array(records->allocator, records->items, records->count,
                                                    &records->capacity, sizeof *items, json->err);
    if (items == NULL) {
        return COFFER_ERR_MEMORY;
    }
    records->items = items;
    coffer__gguf_record *record = &items[records->count];
    *record = (coffer__gguf_record){ 0 };
    coffer_status status = key_record_read_string(records, json, &record->name, &record->name_len);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__json_expect(json, ':', "a colon should be here");
    if (status != COFFER_OK) {
        return status;
    }
    status = key_record_read_value(records, json, record);
    records->count += status == COFFER_OK;
    return status;
}

static bool key_record_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer__gguf_records *records = ctx;
    const coffer__gguf_record *x = &records->items[a];
    const coffer__gguf_record *y = &records->items[b];
    return coffer__compare_names(records->names.text + x->name, x->name_len, records->names.text + y->name,
                                 y->name_len) < 0;
}

/* The order is made once, so that finding the record of each tensor does not take a walk over all of them. */
static coffer_status key_record_sort(coffer__gguf_records *records, coffer_error *err)
{
    records->order = coffer__alloc_array(records->allocator, records->count, sizeof *records->order, err);
    if (records->order == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < records->count; i++) {
        records->order[i] = (uint32_t)i;
    }
    coffer__sort(records->order, records->count, key_record_before, records);
    return COFFER_OK;
}

/* The metadata may be anybody's text, so what follows the object is an error too. */
coffer_status coffer__gguf_read_records(coffer__gguf_records *records, const char *json, size_t json_len,
                                        coffer_error *err)
{
    bool more = true;
    coffer__json in = { .in = { .base = (const uint8_t *)json, .length = json_len },
                        .err = err,
                        .noun = "the metadata's gguf.tensors" };
    coffer_status status = coffer__json_expect(&in, '{', "an object should be here");
    while (status == COFFER_OK && more) {
        status = key_record_read(records, &in);
        if (status == COFFER_OK) {
            status = coffer__json_next(&in, '}', &more);
        }
    }
    if (status == COFFER_OK && (coffer__json_peek(&in) != 0 || coffer__left(&in.in) > 0)) {
        status = coffer__json_error(&in, "nothing should follow");
    }
    return status == COFFER_OK ? key_record_sort(records, err) : status;
}

/* A name that is asked for, with the records that it may be in. */
typedef struct key_record_wanted {
    const char *name;
    size_t name_len;
} key_record_wanted;

static int key_record_compare(const void *ctx, size_t i, const void *wanted)
{
    const coffer__gguf_records *records = ctx;
    const key_record_wanted *name = wanted;
    const coffer__gguf_record *record = &records->items[records->order[i]];
    return coffer__compare_names(records->names.text + record->name, record->name_len, name->name, name->name_len);
}

const coffer__gguf_record *coffer__gguf_find_record(const coffer__gguf_records *records, const char *name,
                                                    size_t name_len)
{
    size_t found = 0;
    const key_record_wanted wanted = { name, name_len };
    return coffer__find_sorted(records->count, key_record_compare, records, &wanted, &found)
               ? &records->items[records->order[found]]
               : NULL;
}

/* Also of what a failure left half made: pointers that were not set are NULL, and freeing these does nothing. */
void coffer__gguf_free_records(coffer__gguf_records *records)
{
    coffer__free_array(records->allocator, records->order, records->count, sizeof *records->order);
    coffer__free_array(records->allocator, records->items, records->capacity, sizeof *records->items);
    coffer__writing_free(&records->names);
}
