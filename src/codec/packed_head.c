/* SPDX-License-Identifier: Apache-2.0 */
/* The head of a packed tensor, its tables and its records. Nothing is believed: sizes have to follow from the tensor's. */
#include "packed.h"

#include "bytes.h"
#include "checked.h"
#include "dtype.h"
#include "error.h"
#include "xxh3_64.h"

coffer__packed_layout coffer__packed_layout_of(coffer_dtype dtype)
{
    const coffer__dtype_info *info = coffer__dtype_info_of(dtype);
    coffer__packed_layout layout = { 1, 0, false };
    if (info->bits % 8 != 0 || info->bits == 0) {
        return layout;
    }
    const bool complex = info->kind == COFFER_KIND_COMPLEX;
    layout.element_size = (uint8_t)(info->bits / (complex ? 16 : 8));
    layout.rotate = complex || (info->kind == COFFER_KIND_FLOAT && info->special != COFFER__SPECIAL_SCALE);
    return layout;
}

uint64_t coffer__packed_chunk_count(uint64_t elements)
{
    return elements / COFFER__PACKED_CHUNK + (elements % COFFER__PACKED_CHUNK != 0);
}

size_t coffer__packed_chunk_elements(const coffer__packed_head *head, uint64_t chunk)
{
    const uint64_t left = head->elements - chunk * COFFER__PACKED_CHUNK;
    return left < COFFER__PACKED_CHUNK ? (size_t)left : COFFER__PACKED_CHUNK;
}

uint64_t coffer__packed_index_size(const coffer__packed_head *head)
{
    return (uint64_t)head->tables * COFFER__PACKED_TABLE_SIZE + (uint64_t)head->chunks * COFFER__PACKED_RECORD_SIZE;
}

static coffer_status packed_bad_head(const coffer__packed_head *head, size_t at, const char *what, uint64_t expected,
                                     uint64_t actual, coffer_error *err)
{
    coffer__fail_at(err, COFFER_ERR_PACK_HEAD, head->offset + at,
                    "the head of a packed tensor is invalid: %s is %u, and should be %u; get the file again", what,
                    actual, expected);
    return coffer__fail_sizes(err, COFFER_ERR_PACK_HEAD, expected, actual);
}

/* The fields that follow from the tensor and from the version. */
typedef struct packed_field {
    uint8_t at;
    uint8_t size;
    const char *what;
    uint64_t expected;
} packed_field;

static uint64_t packed_number(const uint8_t *bytes, size_t size)
{
    uint64_t value = 0;
    for (size_t i = size; i-- > 0;) {
        value = value << 8 | bytes[i];
    }
    return value;
}

static coffer_status packed_check_fields(const coffer__packed_head *head, const uint8_t *bytes, uint64_t tensor_size,
                                         coffer_error *err)
{
    const uint64_t elements = tensor_size / head->layout.element_size;
    const packed_field fields[] = {
        { 8, 1, "its version", 1 },
        { 9, 1, "its kind", 0 },
        { 10, 1, "the size of an element", head->layout.element_size },
        { 14, 2, "what is reserved", 0 },
        { 20, 4, "what is reserved", 0 },
        { 24, 8, "the number of elements", elements },
        { 16, 4, "the number of chunks", coffer__packed_chunk_count(elements) },
        { 40, 8, "what is reserved", 0 },
        { 48, 8, "what is reserved", 0 },
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const uint64_t value = packed_number(bytes + fields[i].at, fields[i].size);
        if (value != fields[i].expected) {
            return packed_bad_head(head, fields[i].at, fields[i].what, fields[i].expected, value, err);
        }
    }
    return COFFER_OK;
}

coffer_status coffer__packed_read_head(const uint8_t bytes[COFFER__PACKED_HEAD_SIZE], coffer_dtype dtype,
                                       uint64_t tensor_size, uint64_t offset, uint64_t size, coffer__packed_head *head,
                                       coffer_error *err)
{
    *head = (coffer__packed_head){ .layout = coffer__packed_layout_of(dtype), .offset = offset };
    if (memcmp(bytes, COFFER__PACKED_MAGIC, 8) != 0) {
        return coffer__fail_at(err, COFFER_ERR_PACK_HEAD, offset,
                               "a tensor that should be packed does not begin with \"cofferPK\"; get the file again");
    }
    const coffer_status status = packed_check_fields(head, bytes, tensor_size, err);
    if (status != COFFER_OK) {
        return status;
    }
    const unsigned planes = bytes[11];
    head->layout.nibbles = planes == 2 && head->layout.element_size == 1;
    if (planes != head->layout.element_size && !head->layout.nibbles) {
        return packed_bad_head(head, 11, "the number of planes", head->layout.element_size, planes, err);
    }
    if (bytes[12] > 1) {
        return packed_bad_head(head, 12, "the rotation", head->layout.rotate, bytes[12], err);
    }
    head->layout.rotate = bytes[12];
    head->tables = bytes[13];
    head->chunks = coffer__load_u32le(bytes + 16);
    head->elements = coffer__load_u64le(bytes + 24);
    head->used = coffer__load_u64le(bytes + 32);
    uint64_t whole = 0;
    const uint64_t least = COFFER__PACKED_HEAD_SIZE + coffer__packed_index_size(head);
    if (!coffer__add_u64(head->used, COFFER__PACKED_END_ZEROS, &whole) ||
        !coffer__round_up_u64(whole, COFFER__PACKED_ALIGNMENT, &whole) || whole != size) {
        return packed_bad_head(head, 32, "what it uses, with zeros after it,", size, whole, err);
    }
    return head->used < least ? packed_bad_head(head, 32, "what it uses", least, head->used, err) : COFFER_OK;
}

static coffer_status packed_bad_index(const coffer__packed_head *head, uint64_t at, const char *what, coffer_error *err)
{
    return coffer__fail_at(err, COFFER_ERR_PACK_TABLE, head->offset + COFFER__PACKED_HEAD_SIZE + at,
                           "the index of a packed tensor is damaged: %s; get the file again", what);
}

/* A table that no plane of the chunk needs has number 0, as what is not used is zero. */
static bool packed_tables_fit(const coffer__packed_head *head, const coffer__packed_record *record)
{
    const unsigned planes = coffer__packed_plane_count(&head->layout);
    bool used[2] = { false, false };
    for (unsigned plane = 0; plane < planes; plane++) {
        if ((record->modes >> (4 * plane) & 15) == COFFER__PLANE_HUFF) {
            used[plane + 1 == planes ? 0 : 1] = true;
        }
    }
    for (unsigned i = 0; i < 2; i++) {
        if (used[i] ? record->tables[i] >= head->tables : record->tables[i] != 0) {
            return false;
        }
    }
    return true;
}

static bool packed_modes_fit(const coffer__packed_head *head, uint32_t modes)
{
    const unsigned planes = coffer__packed_plane_count(&head->layout);
    for (unsigned plane = 0; plane < COFFER__PLANES_MAX; plane++) {
        const unsigned mode = modes >> (4 * plane) & 15;
        if (plane < planes ? mode >= COFFER__PLANE_MODES : mode != 0) {
            return false;
        }
    }
    return true;
}

static coffer_status packed_check_records(const coffer__packed_head *head, const uint8_t *index, coffer_error *err)
{
    uint64_t total = COFFER__PACKED_HEAD_SIZE + coffer__packed_index_size(head);
    for (uint64_t chunk = 0; chunk < head->chunks; chunk++) {
        const coffer__packed_record record = coffer__packed_read_record(head, index, chunk);
        const uint64_t at = (uint64_t)head->tables * COFFER__PACKED_TABLE_SIZE + chunk * COFFER__PACKED_RECORD_SIZE;
        if (!packed_modes_fit(head, record.modes)) {
            return packed_bad_index(head, at + 4, "a chunk has a mode that this version does not know", err);
        }
        if (!packed_tables_fit(head, &record)) {
            return packed_bad_index(head, at + 2, "a chunk has the number of a table that is not there", err);
        }
        total += record.size; /* below 2^32 * 2^20 */
    }
    return total == head->used ? COFFER_OK : packed_bad_index(head, 0, "the lengths of its chunks do not add up", err);
}

coffer_status coffer__packed_check_index(const coffer__packed_head *head, const uint8_t bytes[COFFER__PACKED_HEAD_SIZE],
                                         const uint8_t *index, coffer_error *err)
{
    uint8_t lengths[COFFER__CODE_SYMBOLS];
    for (size_t table = 0; table < head->tables; table++) {
        coffer__packed_read_table(index, table, lengths);
        if (!coffer__code_is_complete(lengths)) {
            const uint64_t at = COFFER__PACKED_HEAD_SIZE + table * COFFER__PACKED_TABLE_SIZE;
            return coffer__fail_at(
                err, COFFER_ERR_PACK_CODE, head->offset + at,
                "a code of a packed tensor is not complete, or has lengths above 11 bits; get the file again");
        }
    }
    const coffer_status status = packed_check_records(head, index, err);
    if (status != COFFER_OK) {
        return status;
    }
    return coffer__packed_head_checksum(bytes, index, (size_t)coffer__packed_index_size(head)) ==
                   coffer__load_u64le(bytes + COFFER__PACKED_CHECKSUM_AT)
               ? COFFER_OK
               : packed_bad_index(head, 0, "it does not match its checksum", err);
}

uint64_t coffer__packed_head_checksum(const uint8_t bytes[COFFER__PACKED_HEAD_SIZE], const uint8_t *index,
                                      size_t index_size)
{
    uint8_t summed[COFFER__PACKED_HEAD_SIZE];
    memcpy(summed, bytes, COFFER__PACKED_CHECKSUM_AT);
    coffer__store_u64le(summed + COFFER__PACKED_CHECKSUM_AT, coffer__xxh3_64(index, index_size));
    return coffer__xxh3_64(summed, sizeof summed);
}

coffer__packed_record coffer__packed_read_record(const coffer__packed_head *head, const uint8_t *index, uint64_t chunk)
{
    const uint8_t *bytes =
        index + (size_t)head->tables * COFFER__PACKED_TABLE_SIZE + (size_t)chunk * COFFER__PACKED_RECORD_SIZE;
    return (coffer__packed_record){ .size = (size_t)coffer__load_u16le(bytes) * COFFER__PACKED_CHUNK_ALIGNMENT,
                                    .tables = { bytes[2], bytes[3] },
                                    .modes = coffer__load_u32le(bytes + 4),
                                    .checksum = coffer__load_u64le(bytes + 8) };
}

void coffer__packed_read_table(const uint8_t *index, size_t number, uint8_t lengths[COFFER__CODE_SYMBOLS])
{
    const uint8_t *bytes = index + number * COFFER__PACKED_TABLE_SIZE;
    for (size_t i = 0; i < COFFER__PACKED_TABLE_SIZE; i++) {
        lengths[2 * i] = bytes[i] & 15;
        lengths[2 * i + 1] = bytes[i] >> 4;
    }
}

coffer_status coffer__packed_check_zeros(const coffer__packed_head *head, const uint8_t *bytes, size_t size,
                                         coffer_error *err)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != 0) {
            return coffer__fail_at(err, COFFER_ERR_PACK_STREAM, head->offset + head->used + i,
                                   "bytes after a packed tensor are not zero; get the file again");
        }
    }
    return COFFER_OK;
}
