/* SPDX-License-Identifier: Apache-2.0 */
/* The two headers of a packed file, and what follows from them: which tensors are packed, and where their bytes are. */
#include "packed_file.h"

#include "alloc.h"
#include "bytes.h"
#include "error.h"
#include "hex.h"
#include "packed_source.h"
#include "parse.h"
#include "text.h"

#include <string.h>

/* A file may claim to be this many times as large as it is, and more if that is not much. */
#define PACKED_FILE_MAX_TIMES 64u
#define PACKED_FILE_MUCH (UINT64_C(1) << 30)

static const char *packed_file_value(const coffer_table *table, const char *key, size_t *len)
{
    return coffer_table_metadata_get(table, key, coffer__text_len(key), len);
}

bool coffer__packed_file_is(const coffer_table *table)
{
    return packed_file_value(table, COFFER__PACKED_KEY, NULL) != NULL;
}

coffer_status coffer__packed_file_refuse(const coffer_table *table, coffer_error *err)
{
    return coffer__packed_file_is(table)
               ? coffer__fail(err, COFFER_ERR_PACKED,
                              "the file is packed, and its metadata are within what is packed: "
                              "unpack it first (coffer unpack)")
               : COFFER_OK;
}

static coffer_status packed_file_fail(coffer_error *err, const char *what)
{
    return coffer__fail(err, COFFER_ERR_PACK_FILE, "the packed file contradicts itself: %s; get the file again", what);
}

/* Reads "1:LENGTH:SHA256". */
static coffer_status packed_file_read_key(const coffer_table *table, coffer__packed_view *view, coffer_error *err)
{
    size_t len = 0;
    const char *text = packed_file_value(table, COFFER__PACKED_KEY, &len);
    if (len < 2 || text[0] != '1' || text[1] != ':') {
        return coffer__fail(err, COFFER_ERR_PACK_FILE,
                            "the file is packed in a version that this library does not know");
    }
    size_t at = 2;
    for (; at < len && text[at] >= '0' && text[at] <= '9'; at++) {
        if (view->size > (UINT64_MAX - 9) / 10) {
            return packed_file_fail(err, "its original size is no number");
        }
        view->size = view->size * 10 + (uint64_t)(text[at] - '0');
    }
    if (at == 2 || at == len || text[at] != ':' || !coffer__hex_read(view->sha256, 32, text + at + 1, len - at - 1)) {
        return packed_file_fail(err, "its original size and SHA-256 cannot be read");
    }
    const uint64_t most =
        view->of.size > UINT64_MAX / PACKED_FILE_MAX_TIMES ? UINT64_MAX : view->of.size * PACKED_FILE_MAX_TIMES;
    if (view->size > most && view->size > PACKED_FILE_MUCH) {
        coffer__fail(err, COFFER_ERR_PACK_FILE, "the packed file of %z claims to be %z, more than %u times as much",
                     view->of.size, view->size, (uint64_t)PACKED_FILE_MAX_TIMES);
        return coffer__fail_sizes(err, COFFER_ERR_PACK_FILE, most, view->size);
    }
    return COFFER_OK;
}

/* The original's first bytes: the length of its header, and the header. */
static coffer_status packed_file_read_front(const coffer_table *table, coffer__packed_view *view, coffer_error *err)
{
    size_t len = 0;
    const char *header = packed_file_value(table, COFFER__PACKED_HEADER_KEY, &len);
    if (header == NULL || view->size < 8 || len > view->size - 8) {
        return packed_file_fail(err, "it has no header of the original, or one that is larger than that");
    }
    view->front = coffer__alloc(&view->allocator, len + 8);
    if (view->front == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the header of the original");
    }
    view->front_size = len + 8;
    coffer__store_u64le(view->front, len);
    memcpy(view->front + 8, header, len);
    return COFFER_OK;
}

/* The same parser, and the same rules, as for any other header. */
static coffer_status packed_file_parse(const coffer__packed_view *view, const coffer_parse_options *outer,
                                       coffer_table **inner, coffer_error *err)
{
    coffer_parse_options parse = *outer;
    parse.file_size = view->size;
    parse.hidden_bytes = false;
    parse.format = COFFER_FORMAT_SAFETENSORS;
    uint64_t need = 0;
    const coffer_status status =
        coffer__parse_header(inner, &need, view->front, view->front_size, &view->allocator, &parse, err);
    if (status == COFFER_NEED_MORE || (status == COFFER_OK && need != view->front_size)) {
        return packed_file_fail(err, "the header of the original ends too early");
    }
    if (status != COFFER_OK && err != NULL) {
        const coffer_error cause = *err;
        coffer__fail_at(err, status, cause.offset, "the original's header, in the metadata, is invalid: %s",
                        cause.message);
    }
    return status;
}

static bool packed_file_is_plain(const coffer_tensor *inner, const coffer_tensor *outer)
{
    return coffer__same_text(coffer_tensor_dtype_name(inner), coffer_tensor_dtype_name(outer)) &&
           inner->rank == outer->rank && inner->size == outer->size &&
           memcmp(inner->shape, outer->shape, inner->rank * sizeof *inner->shape) == 0;
}

/* Finds each tensor of the original in the file. */
static coffer_status packed_file_match(const coffer_table *outer, const coffer_table *inner, coffer__packed_view *view,
                                       coffer_error *err)
{
    const size_t count = coffer_table_count(inner);
    if (count != coffer_table_count(outer)) {
        return packed_file_fail(err, "it has another number of tensors than the original");
    }
    view->capacity = count;
    view->tensors = coffer__alloc_array(&view->allocator, count, sizeof *view->tensors, err);
    if (view->tensors == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        const coffer_tensor *tensor = coffer_table_at(inner, i);
        const coffer_tensor *stored = coffer_table_find(outer, tensor->name, tensor->name_len);
        const bool plain = stored != NULL && packed_file_is_plain(tensor, stored);
        if (stored == NULL ||
            (!plain && (stored->dtype != COFFER_U8 || stored->rank != 1 || stored->size >= tensor->size))) {
            packed_file_fail(err, stored == NULL ? "it lacks a tensor of the original"
                                                 : "a tensor is neither that of the original nor smaller");
            return coffer__fail_tensor(err, COFFER_ERR_PACK_FILE, tensor->name, tensor->name_len);
        }
        if (tensor->size > 0) {
            coffer__packed_tensor *entry = &view->tensors[view->count++];
            entry->offset = tensor->offset;
            entry->size = tensor->size;
            entry->stored_offset = stored->offset;
            entry->stored_size = stored->size;
            entry->dtype = tensor->dtype;
            entry->packed = !plain;
        }
    }
    return COFFER_OK;
}

coffer_status coffer__packed_file_open(coffer__byte_source *source, coffer_table **table,
                                       const coffer_parse_options *parse, uint64_t unpacked_limit,
                                       const coffer_allocator *allocator, coffer_error *err)
{
    coffer_table *inner = NULL;
    coffer__packed_view *view = coffer__packed_view_new(source, allocator, err);
    if (view == NULL) {
        return COFFER_ERR_MEMORY;
    }
    view->unpacked_left = unpacked_limit;
    coffer_status status = packed_file_read_key(*table, view, err);
    if (status == COFFER_OK) {
        status = packed_file_read_front(*table, view, err);
    }
    if (status == COFFER_OK) {
        status = packed_file_parse(view, parse, &inner, err);
    }
    if (status == COFFER_OK) {
        status = packed_file_match(*table, inner, view, err);
    }
    if (status != COFFER_OK) {
        coffer_table_free(inner);
        coffer__packed_view_free(view);
        return status;
    }
    coffer_table_free(*table);
    *table = inner;
    coffer__packed_source_init(source, view);
    return COFFER_OK;
}

void coffer__packed_file_close(coffer__byte_source *source)
{
    coffer__packed_view *view = coffer__packed_source_view(source);
    if (view != NULL) {
        *source = view->of;
        coffer__packed_view_free(view);
    }
}

uint64_t coffer__packed_file_size(const coffer__byte_source *source)
{
    const coffer__packed_view *view = coffer__packed_source_view(source);
    return view == NULL ? source->size : view->of.size;
}

uint64_t coffer__packed_file_tensor_size(const coffer__byte_source *source, uint64_t offset, uint64_t size)
{
    const coffer__packed_view *view = coffer__packed_source_view(source);
    if (view == NULL || size == 0) {
        return 0;
    }
    const coffer__packed_tensor *tensor = coffer__packed_source_find(view, offset);
    return tensor->packed ? tensor->stored_size : 0;
}

bool coffer__packed_file_sha256(const coffer__byte_source *source, uint8_t digest[32])
{
    const coffer__packed_view *view = coffer__packed_source_view(source);
    if (view != NULL && digest != NULL) {
        memcpy(digest, view->sha256, sizeof view->sha256);
    }
    return view != NULL;
}
