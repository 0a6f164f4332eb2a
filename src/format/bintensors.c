/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Header bytes → table, for bintensors (.bt). After the frame (frame.h) follows what the format's
 * grammar says, in bytes, from left to right:
 *
 *   header (layout B)   metadata | count, tensors | padding
 *   header (layout A)   metadata | count, tensors without names
 *                       | count, names each with the index of its tensor | padding
 *
 *   metadata            0, or 1 and a count of pairs: key string, value string
 *   tensor              name string | dtype's tag | rank, dimensions | begin | end, both within the data
 *   string              length, bytes of UTF-8
 *   any number          one byte up to 250; else 251, 252 or 253 and two, four or eight bytes,
 *                       little-endian
 *
 * For example, a header of layout B without metadata, with one F32 tensor "w" of shape [2, 3]:
 *
 *   00 | 01 | 01 77 | 0B | 02 02 03 | 00 | 18      and spaces
 *
 * that is no metadata, one tensor, its name, tag 11, two dimensions, and the bytes 0 to 24 of the data.
 *
 * Faults of the spelling are reported where the reader meets them; then what comes twice; then the first
 * tensor whose range is not right. That order is the format's own. docs/format.md has the verdict
 * for every corner.
 *
 * Unlike that of safetensors, the header is read only when all of it is here: layout A has its names at
 * the end, and such headers are short. Positions in the header fit 32 bits, since no limit on headers
 * can be set to 4 GiB or more.
 */
#include "alloc.h"
#include "bintensors_write.h"
#include "bytes.h"
#include "dtype.h"
#include "error.h"
#include "format.h"
#include "frame.h"
#include "scan.h"
#include "table.h"
#include "text.h"

/* The largest number that is a byte. 251 to 253 are markers; 254 and 255 begin nothing. */
#define BT_LARGEST_BYTE 250u
/* A safetensors header that says the same has about so many times the bytes. The table's first size
   is reckoned from such a text. */
#define BT_TEXT_FACTOR UINT64_C(3)
/* The least bytes that items take: a pair of empty strings; a tensor without a name and dimensions;
   a name and an index. With them a count is checked against the bytes that are left. */
#define BT_MIN_PAIR 2u
#define BT_MIN_TENSOR 4u
#define BT_MIN_NAME 2u
#define BT_NO_TENSOR SIZE_MAX

/* Of usual tensors: dimensions, at most; and bytes that have to be left after the name: one each
   for dtype and rank, and at most nine for each dimension and the two ends of the range. */
#define BT_USUAL_RANK 8u
#define BT_USUAL_AHEAD (2 + (size_t)9 * (BT_USUAL_RANK + 2))

typedef struct bt_reader {
    bool is_open;      /* the frame was judged, and the rest of the header asked for */
    coffer__cursor in; /* the header */
    coffer__builder builder;
    coffer_error *err;
    bool hidden_bytes;    /* bytes in the padding are allowed */
    uint64_t data_offset; /* in the file */
    uint64_t covered;     /* end of the data that the tensors before `wrong` cover */
    size_t wrong;         /* the first tensor whose range is not right, or BT_NO_TENSOR */
} bt_reader;

/* A string where it stands in the header. */
typedef struct bt_string {
    const uint8_t *bytes;
    size_t length;
    size_t position; /* of its length, in the header */
} bt_string;

/* From a position in the header to a byte of the file, as errors and notes have it. */
static uint64_t bt_offset(size_t position)
{
    return COFFER__FRAME_SIZE + (uint64_t)position;
}

/* ---- numbers and strings ---- */

/* What ends too early is named by where it begins: that is the byte which may be wrong, since a
   length there reaches too far. */
static coffer_status bt_fail_end(const bt_reader *reader, size_t position, const char *what)
{
    return coffer__fail_at(reader->err, COFFER_ERR_HEADER_ENDS, bt_offset(position),
                           "the header ends at byte %u, within %s that begins at byte %u; get the file again",
                           bt_offset(reader->in.length), what, bt_offset(position));
}

/*
 * Reads a number that begins with a marker, *value, and has at most `most` bytes after that. 254
 * and 255 would stand for 16 and 32 bytes by the same rule, more than any caller allows, so they
 * are refused as too wide.
 *
 * A number that would fit fewer bytes is accepted, as the format has it, and noted: writers do not
 * write it so.
 */
static coffer_status bt_marked_number(bt_reader *reader, size_t most, uint64_t *value)
{
    coffer__cursor *in = &reader->in;
    const size_t position = in->position;
    const uint64_t marker = *value;
    const size_t width = (size_t)2 << (marker - 251);
    if (width > most) {
        return coffer__fail_at(reader->err, COFFER_ERR_NUMBER, bt_offset(position),
                               "at byte %u, %x does not begin a number of at most %u bytes", bt_offset(position),
                               marker, (uint64_t)most);
    }
    if (width > coffer__left(in) - 1) {
        return bt_fail_end(reader, position, "a number");
    }
    *value = 0;
    /* From the last byte, the highest, to the first after the marker. */
    for (size_t i = width; i > 0; i--) {
        *value = *value << 8 | in->base[position + i];
    }
    in->position += 1 + width;
    /* The least number that needs a width is the first that half the width cannot hold; below two
       bytes that is the largest single byte. */
    if (width == 2 ? *value <= BT_LARGEST_BYTE : *value >> (4 * width) == 0) {
        coffer__table_add_note(reader->builder.table, COFFER_NOTE_LONG_NUMBER, bt_offset(position));
    }
    return COFFER_OK;
}

/* A number of at most `most` bytes after its marker. Inline: nearly all numbers of a header are one
   byte. */
static inline coffer_status bt_narrow_number(bt_reader *reader, size_t most, uint64_t *value)
{
    coffer__cursor *in = &reader->in;
    if (in->position == in->length) {
        return bt_fail_end(reader, in->position, "a number");
    }
    *value = in->base[in->position];
    if (*value > BT_LARGEST_BYTE) {
        return bt_marked_number(reader, most, value);
    }
    in->position++;
    return COFFER_OK;
}

/* A number of any width that the format has: dimensions, ranges, lengths. */
static inline coffer_status bt_number(bt_reader *reader, uint64_t *value)
{
    return bt_narrow_number(reader, 8, value);
}

/*
 * Reads how many items of `what` follow, of at least `least` bytes each. More than the rest of the
 * header can hold are refused here, before anything is made of the number: no allocation is ever
 * larger than the header justifies, and no loop runs longer.
 */
static inline coffer_status bt_count(bt_reader *reader, size_t least, const char *what, size_t *count)
{
    const size_t position = reader->in.position;
    uint64_t value;
    *count = 0; /* The compiler does not see that nobody looks at it after a failure. */
    const coffer_status status = bt_number(reader, &value);
    if (status != COFFER_OK) {
        return status;
    }
    /* Divided, not multiplied: the product could wrap. */
    if (value > coffer__left(&reader->in) / least) {
        return bt_fail_end(reader, position, what);
    }
    *count = (size_t)value;
    return COFFER_OK;
}

/* A text that is not plain has to be UTF-8 all the same. Looks at it from byte `plain` on;
   *has_control tells of control characters. */
static coffer_status bt_check_text(const bt_reader *reader, const bt_string *string, size_t plain, bool *has_control)
{
    const char *text = (const char *)string->bytes;
    for (size_t at = plain; at < string->length;) {
        uint32_t code_point;
        const size_t size = coffer__utf8_decode(text + at, string->length - at, &code_point);
        if (size == 0) {
            const uint64_t offset = bt_offset((size_t)(string->bytes - reader->in.base) + at);
            return coffer__fail_at(reader->err, COFFER_ERR_UTF8, offset, "at byte %u, a text is not UTF-8", offset);
        }
        *has_control = *has_control || coffer__is_control(code_point);
        at += size;
    }
    return COFFER_OK;
}

/* Reads a string, which stays where it is in the header. bt_count has checked that its bytes are
   there. */
static inline coffer_status bt_read_string(bt_reader *reader, bt_string *string, bool *has_control)
{
    *has_control = false;
    string->position = reader->in.position;
    const coffer_status status = bt_count(reader, 1, "a text", &string->length);
    if (status != COFFER_OK) {
        return status;
    }
    /* The text is not copied here: in layout A it is read twice, and copied once. */
    string->bytes = reader->in.base + reader->in.position;
    reader->in.position += string->length;
    /*
     * The scan takes sixteen bytes at a time, and its rest is slow. So whole blocks are looked at
     * where the bytes after the string are there; what these are does not matter, since only a stop
     * within the string counts.
     */
    const size_t blocks = (string->length + 15) & ~(size_t)15;
    const size_t behind = string->length + coffer__left(&reader->in);
    const size_t plain = coffer__scan_plain(string->bytes, blocks <= behind ? blocks : string->length);
    return plain >= string->length ? COFFER_OK : bt_check_text(reader, string, plain, has_control);
}

/* ---- metadata ---- */

/* Copies a pair into the table. Its space is known exactly here, since nothing is escaped. The
   memset makes the two NULs and the padding. */
static coffer_status bt_read_pair(bt_reader *reader)
{
    bt_string key;
    bt_string value;
    bool has_control;
    coffer_status status = bt_read_string(reader, &key, &has_control);
    if (status == COFFER_OK) {
        status = bt_read_string(reader, &value, &has_control);
    }
    if (status != COFFER_OK) {
        return status;
    }
    const coffer__text_pair pair = { (uint32_t)key.length, (uint32_t)value.length, (uint32_t)key.position };
    const size_t size = coffer__pair_size(&pair);
    status = coffer__builder_reserve(&reader->builder, size, coffer__left(&reader->in), reader->err);
    if (status != COFFER_OK) {
        return status;
    }
    char *out = coffer__builder_at(&reader->builder, reader->builder.used);
    memset(out, 0, size);
    memcpy(out, &pair, sizeof pair);
    memcpy(out + sizeof pair, key.bytes, key.length);
    memcpy(out + sizeof pair + key.length + 1, value.bytes, value.length);
    reader->builder.used += size;
    reader->builder.table->pair_count++;
    return COFFER_OK;
}

/* Pairs are copied as they come; keys that come twice are found when the table is sealed. */
static coffer_status bt_read_pairs(bt_reader *reader)
{
    size_t count;
    coffer_status status = bt_count(reader, BT_MIN_PAIR, "the metadata", &count);
    for (size_t i = 0; i < count && status == COFFER_OK; i++) {
        status = bt_read_pair(reader);
    }
    return status;
}

/* The first byte of the header, which exists: the frame refuses a length of 0. */
static coffer_status bt_read_metadata(bt_reader *reader)
{
    coffer__builder *builder = &reader->builder;
    const uint8_t present = reader->in.base[0];
    if (present > 1) {
        return coffer__fail_at(
            reader->err, COFFER_ERR_TYPE, bt_offset(0),
            "at byte %u, %x is neither 1 (metadata) nor 0 (no metadata): this is not a bintensors file", bt_offset(0),
            (uint64_t)present);
    }
    reader->in.position++;
    builder->table->pairs_at = builder->used;
    const coffer_status status = present == 1 ? bt_read_pairs(reader) : COFFER_OK;
    /* Tensors are 8-aligned. There is space for the gap: each pair leaves as much as a mark takes,
       and without pairs there is no gap. */
    builder->used = (builder->used + 7) & ~(size_t)7;
    builder->table->has_metadata = present == 1;
    builder->table->metadata_end = reader->in.position;
    return status;
}

/* ---- tensors ---- */

/* A tag is a number of at most four bytes in the format, however small it is. */
static coffer_status bt_read_dtype(bt_reader *reader, coffer_dtype *dtype)
{
    const size_t position = reader->in.position;
    uint64_t tag = 0;
    *dtype = COFFER_UNKNOWN_DTYPE; /* The compiler does not see that nobody looks at it after a failure. */
    const coffer_status status = bt_narrow_number(reader, 4, &tag);
    if (status != COFFER_OK) {
        return status;
    }
    if (tag >= COFFER__TAG_COUNT) {
        return coffer__fail_at(reader->err, COFFER_ERR_DTYPE, bt_offset(position),
                               "at byte %u, %u is not the number of one of the format's %u dtypes", bt_offset(position),
                               tag, (uint64_t)COFFER__TAG_COUNT);
    }
    *dtype = (coffer_dtype)coffer__dtype_tags[tag];
    return COFFER_OK;
}

/*
 * Whether a tensor's range follows the one before it and is as long as dtype and shape make it.
 * Every dtype of the format fills whole bytes, so the division is exact. `end` has to be a byte of
 * a file that 64 bits can count.
 */
static inline bool bt_is_right(const bt_reader *reader, const coffer_tensor *tensor, const uint64_t *shape,
                               uint64_t end)
{
    uint64_t bits;
    return tensor->offset == reader->data_offset + reader->covered &&
           coffer__tensor_bits(tensor->dtype, shape, tensor->rank, &bits) && bits / 8 == tensor->size &&
           end >= reader->covered && end <= UINT64_MAX - reader->data_offset;
}

/*
 * Adds the entry at `used`, complete but for its range, to the table. A range that is not right
 * does not end the reading: faults of the spelling that come later are reported before it. The
 * first wrong tensor is remembered, `covered` stays where the data before it end, and bt_seal
 * reports it.
 */
static inline void bt_accept(bt_reader *reader, coffer__entry *entry, const uint64_t *shape, uint64_t begin,
                             uint64_t end)
{
    coffer_table *table = reader->builder.table;
    coffer_tensor *tensor = &entry->tensor;
    tensor->offset = reader->data_offset + begin;
    tensor->size = end - begin;
    tensor->shard = 0;
    /* After the first wrong tensor there is nothing to compare the next one with. */
    if (reader->wrong == BT_NO_TENSOR) {
        if (bt_is_right(reader, tensor, shape, end)) {
            reader->covered = end;
        } else {
            reader->wrong = table->count;
        }
    }
    if ((tensor->offset & (coffer__dtype_info_of(tensor->dtype)->alignment - 1u)) != 0) {
        coffer__table_add_note(table, COFFER_NOTE_UNALIGNED, tensor->offset);
    }
    if (tensor->name_len == 0) {
        coffer__table_add_note(table, COFFER_NOTE_EMPTY_NAME, bt_offset(entry->position));
    }
    coffer__builder_add(&reader->builder,
                        coffer__entry_shape_at(tensor->name_len) + (size_t)tensor->rank * sizeof(uint64_t));
}

/*
 * Consumes a number of the fewest bytes that are enough; false for any other, which the slow reader
 * judges. Nine bytes must be readable: eight are loaded and those beyond the width shifted out.
 */
static inline bool bt_take(const coffer__cursor *in, size_t *at, uint64_t *value)
{
    const uint8_t *first = in->base + *at;
    *value = *first;
    if (*value <= BT_LARGEST_BYTE) {
        ++*at;
        return true;
    }
    if (*value > 253) {
        return false;
    }
    /* 16, 32 or 64 bits follow 251, 252 or 253. */
    const unsigned bits = 16u << (*value - 251);
    *value = coffer__load_u64le(first + 1) << (64 - bits) >> (64 - bits);
    *at += 1 + bits / 8;
    /* False when fewer bytes would have been enough. */
    return bits == 16 ? *value > BT_LARGEST_BYTE : *value >> (bits / 2) != 0;
}

/*
 * Reads a tensor after its name as nearly all are: far from the header's end, with few dimensions
 * and no number longer than it has to be. One check of what is left and one reservation serve all
 * of it. Otherwise *taken is false, and nothing has changed but for bytes after `used`, which mean
 * nothing; bt_read_tensor then reads it again, and it alone makes errors and notes about the
 * spelling.
 */
static inline coffer_status bt_read_usual_tensor(bt_reader *reader, const bt_string *name, bool *taken)
{
    const coffer__cursor in = reader->in;
    coffer__builder *builder = &reader->builder;
    /* In layout A the tensor lies elsewhere than its name, and the name may be at the header's end.
       coffer__short_copy reads up to 15 bytes after it. */
    const size_t behind_name = in.length - (size_t)(name->bytes - in.base) - name->length;
    *taken = false;
    if (coffer__left(&in) < BT_USUAL_AHEAD || behind_name < BT_USUAL_AHEAD) {
        return COFFER_OK;
    }
    /* The space of a shape with all dimensions is enough for what coffer__short_copy writes after
       the name. */
    const size_t shape_at = coffer__entry_shape_at((uint32_t)name->length);
    const coffer_status status =
        coffer__builder_reserve(builder, shape_at + BT_USUAL_RANK * sizeof(uint64_t), coffer__left(&in), reader->err);
    if (status != COFFER_OK) {
        return status;
    }
    size_t at = in.position;
    uint64_t tag;
    uint64_t rank;
    if (!bt_take(&in, &at, &tag) || tag >= COFFER__TAG_COUNT || !bt_take(&in, &at, &rank) || rank > BT_USUAL_RANK) {
        return COFFER_OK;
    }
    coffer__entry *entry = coffer__builder_at(builder, builder->used);
    coffer__short_copy((uint8_t *)(entry + 1), name->bytes, name->length);
    ((char *)(entry + 1))[name->length] = '\0';
    uint64_t *shape = coffer__builder_at(builder, builder->used + shape_at);
    for (size_t i = 0; i < rank; i++) {
        if (!bt_take(&in, &at, &shape[i])) {
            return COFFER_OK;
        }
    }
    uint64_t begin;
    uint64_t end;
    if (!bt_take(&in, &at, &begin) || !bt_take(&in, &at, &end)) {
        return COFFER_OK;
    }
    *taken = true;
    reader->in.position = at;
    entry->position = (uint32_t)name->position;
    entry->tensor.name_len = (uint32_t)name->length;
    entry->tensor.rank = (uint32_t)rank;
    entry->tensor.dtype = (coffer_dtype)coffer__dtype_tags[tag];
    bt_accept(reader, entry, shape, begin, end);
    return COFFER_OK;
}

/* Reads a tensor after its name. The rank was checked against what is left, so the space for its
   shape is at most eight times the header. */
static coffer_status bt_read_tensor(bt_reader *reader, const bt_string *name)
{
    coffer__builder *builder = &reader->builder;
    bool taken;
    coffer_status status = bt_read_usual_tensor(reader, name, &taken);
    if (status != COFFER_OK || taken) {
        return status;
    }
    coffer_dtype dtype;
    size_t rank;
    status = bt_read_dtype(reader, &dtype);
    if (status == COFFER_OK) {
        status = bt_count(reader, 1, "a shape", &rank);
    }
    if (status != COFFER_OK) {
        return status;
    }
    const size_t shape_at = coffer__entry_shape_at((uint32_t)name->length);
    const uint64_t size = shape_at + (uint64_t)rank * sizeof(uint64_t);
    status = coffer__builder_reserve(builder, size, coffer__left(&reader->in), reader->err);
    if (status != COFFER_OK) {
        return status;
    }
    /* Pointers are taken after the reservation, which may move the block; nothing below reserves. */
    coffer__entry *entry = coffer__builder_at(builder, builder->used);
    memcpy(entry + 1, name->bytes, name->length);
    ((char *)(entry + 1))[name->length] = '\0';
    uint64_t *shape = coffer__builder_at(builder, builder->used + shape_at);
    for (size_t i = 0; i < rank && status == COFFER_OK; i++) {
        status = bt_number(reader, &shape[i]);
    }
    uint64_t begin = 0;
    uint64_t end = 0;
    if (status == COFFER_OK) {
        status = bt_number(reader, &begin);
    }
    if (status == COFFER_OK) {
        status = bt_number(reader, &end);
    }
    if (status != COFFER_OK) {
        return status;
    }
    entry->position = (uint32_t)name->position;
    entry->tensor.name_len = (uint32_t)name->length;
    entry->tensor.rank = (uint32_t)rank;
    entry->tensor.dtype = dtype;
    bt_accept(reader, entry, shape, begin, end);
    return COFFER_OK;
}

/* Layout B. Errors within a tensor carry its name, which was read before the fault. */
static coffer_status bt_read_named_tensor(bt_reader *reader)
{
    bt_string name;
    bool has_control;
    coffer_status status = bt_read_string(reader, &name, &has_control);
    if (status != COFFER_OK) {
        return status;
    }
    if (has_control) {
        coffer__table_add_note(reader->builder.table, COFFER_NOTE_CONTROL_NAME, bt_offset(name.position));
    }
    status = bt_read_tensor(reader, &name);
    return status == COFFER_OK ? status
                               : coffer__fail_tensor(reader->err, status, (const char *)name.bytes, name.length);
}

/* The name's length is one byte more than a tensor of layout A takes. */
static coffer_status bt_read_tensors(bt_reader *reader)
{
    size_t count;
    coffer_status status = bt_count(reader, BT_MIN_TENSOR + 1, "the list of tensors", &count);
    for (size_t i = 0; i < count && status == COFFER_OK; i++) {
        status = bt_read_named_tensor(reader);
    }
    return status;
}

/* ---- layout A ---- */

/* Passes over a tensor of layout A, and checks its spelling: it is read for good when its name is
   known. */
static coffer_status bt_skip_tensor(bt_reader *reader)
{
    coffer_dtype dtype;
    size_t rank;
    coffer_status status = bt_read_dtype(reader, &dtype);
    if (status == COFFER_OK) {
        status = bt_count(reader, 1, "a shape", &rank);
    }
    /* The two numbers after the dimensions are the range. */
    for (size_t i = 0; status == COFFER_OK && i < rank + 2; i++) {
        uint64_t ignored;
        status = bt_number(reader, &ignored);
    }
    return status;
}

/*
 * Reads a name and the index of its tensor: places[index] becomes where the name stands. The index
 * is checked before it is used. 0 means that the tensor has no name yet: at 0 the header tells
 * whether there are metadata, so no name stands there.
 */
static coffer_status bt_read_place(bt_reader *reader, uint32_t *places, size_t count)
{
    bt_string name;
    bool has_control;
    coffer_status status = bt_read_string(reader, &name, &has_control);
    /* The index, which errors point to; after a failure it is not used. */
    const size_t position = reader->in.position;
    uint64_t index;
    if (status == COFFER_OK) {
        status = bt_number(reader, &index);
    }
    if (status != COFFER_OK) {
        return status;
    }
    if (index >= count || places[index] != 0) {
        return coffer__fail_at(reader->err, COFFER_ERR_MISSING_FIELD, bt_offset(position),
                               index < count ? "at byte %u, a second name is given to tensor %u of %u"
                                             : "at byte %u, a name is given to tensor %u, but there are only %u",
                               bt_offset(position), index, (uint64_t)count);
    }
    places[index] = (uint32_t)name.position;
    return COFFER_OK;
}

/* Reads the tensors, which begin at `tensors_at`, once more, each with its name. The position jumps
   between the two lists; at the end it is where the padding begins. */
static coffer_status bt_join(bt_reader *reader, size_t tensors_at, const uint32_t *places, size_t count)
{
    const size_t end = reader->in.position;
    coffer_status status = COFFER_OK;
    reader->in.position = tensors_at;
    for (size_t i = 0; i < count && status == COFFER_OK; i++) {
        const size_t tensor_at = reader->in.position;
        bt_string name;
        bool has_control;
        /* To the name, and back to the tensor. */
        reader->in.position = places[i];
        /* The string was read before, so it cannot fail. */
        (void)bt_read_string(reader, &name, &has_control);
        if (has_control) {
            coffer__table_add_note(reader->builder.table, COFFER_NOTE_CONTROL_NAME, bt_offset(name.position));
        }
        reader->in.position = tensor_at;
        status = bt_read_tensor(reader, &name);
    }
    reader->in.position = end;
    return status;
}

/* Four bytes for each tensor, which the header has at least BT_MIN_TENSOR bytes for: memory is
   bounded by the header. */
static coffer_status bt_read_names(bt_reader *reader, size_t tensors_at, size_t count)
{
    const size_t position = reader->in.position;
    size_t names;
    coffer_status status = bt_count(reader, BT_MIN_NAME, "the list of names", &names);
    if (status != COFFER_OK) {
        return status;
    }
    if (names != count) {
        return coffer__fail_at(reader->err, COFFER_ERR_MISSING_FIELD, bt_offset(position),
                               "at byte %u, %u names are given to %u tensors", bt_offset(position), (uint64_t)names,
                               (uint64_t)count);
    }
    const coffer_allocator allocator = reader->builder.table->allocator;
    /* One to spare, so that a list of no names does not ask for 0 bytes, for which NULL is no failure. */
    const size_t size = (count + 1) * sizeof(uint32_t);
    uint32_t *places = coffer__alloc_zeroed(&allocator, size);
    if (places == NULL) {
        return coffer__fail(reader->err, COFFER_ERR_MEMORY, "no memory for the places of names (%z)", (uint64_t)size);
    }
    for (size_t i = 0; i < count && status == COFFER_OK; i++) {
        status = bt_read_place(reader, places, count);
    }
    if (status == COFFER_OK) {
        status = bt_join(reader, tensors_at, places, count);
    }
    coffer__free(&allocator, places, size);
    return status;
}

/* Layout A. There are as many names as tensors, and each index comes at most once: then every
   tensor has exactly one name. */
static coffer_status bt_read_alpha(bt_reader *reader)
{
    size_t count;
    coffer_status status = bt_count(reader, BT_MIN_TENSOR, "the list of tensors", &count);
    const size_t tensors_at = reader->in.position;
    for (size_t i = 0; i < count && status == COFFER_OK; i++) {
        status = bt_skip_tensor(reader);
    }
    return status == COFFER_OK ? bt_read_names(reader, tensors_at, count) : status;
}

/* ---- the header ---- */

/* After the last item there are spaces, or bytes that no reader shows: a place to hide something,
   so they are refused unless the caller allows them (B1 in docs/format.md). */
static coffer_status bt_read_padding(bt_reader *reader)
{
    coffer_table *table = reader->builder.table;
    table->slack = coffer__left(&reader->in);
    for (size_t at = reader->in.position; at < reader->in.length; at++) {
        if (reader->in.base[at] == ' ') {
            continue;
        }
        if (!reader->hidden_bytes) {
            return coffer__fail_at(reader->err, COFFER_ERR_PADDING, bt_offset(at),
                                   "at byte %u, after the last tensor of the header, there is a byte that is not a "
                                   "space: something may be hidden there; to read the file anyway, allow hidden bytes",
                                   bt_offset(at));
        }
        coffer__table_add_note(table, COFFER_NOTE_PADDING, bt_offset(at));
    }
    return COFFER_OK;
}

/* The order of the grammar. Whatever stops it, the rest of the header is not looked at. */
static coffer_status bt_read_header(bt_reader *reader, bool alpha)
{
    coffer_status status = bt_read_metadata(reader);
    if (status == COFFER_OK) {
        status = alpha ? bt_read_alpha(reader) : bt_read_tensors(reader);
    }
    return status == COFFER_OK ? bt_read_padding(reader) : status;
}

/*
 * Says what is not right with the range of a tensor, of which the data before it end at `covered`.
 * The checks are those of bt_is_right, in the order that docs/format.md gives. A range that
 * ends before it begins has wrapped around in `size`; adding it to `begin` gives its end back.
 */
static coffer_status bt_fail_range(const coffer_tensor *tensor, uint64_t data_offset, uint64_t covered,
                                   coffer_error *err)
{
    const uint64_t at = bt_offset(((const coffer__entry *)(const void *)tensor)->position);
    const uint64_t begin = tensor->offset - data_offset;
    const uint64_t end = begin + tensor->size;
    uint64_t bits;
    coffer_status code;
    if (begin != covered) {
        code = coffer__fail_at(err, begin > covered ? COFFER_ERR_HOLE : COFFER_ERR_OVERLAP, at,
                               "tensor %q begins at byte %u of the data, but the one before it ends at byte %u",
                               tensor->name, (size_t)tensor->name_len, begin, covered);
        coffer__fail_sizes(err, code, covered, begin);
    } else if (end >= begin && !coffer__tensor_bits(tensor->dtype, tensor->shape, tensor->rank, &bits)) {
        code = coffer__fail_at(err, COFFER_ERR_OVERFLOW, at, "the shape's product, in bits, is beyond 2^64-1");
    } else if (end >= begin && bits / 8 != tensor->size) {
        code = coffer__fail_at(err, COFFER_ERR_SIZE, at,
                               "dtype and shape give %u bytes, but the range from %u to %u has %u", bits / 8, begin,
                               end, tensor->size);
        coffer__fail_sizes(err, code, bits / 8, tensor->size);
    } else {
        code = coffer__fail_at(err, COFFER_ERR_RANGE, at, "%u to %u is not a range within a file", begin, end);
    }
    return coffer__fail_tensor(err, code, tensor->name, tensor->name_len);
}

/*
 * Has all of the header before any of it is read: such headers are short, and layout A needs its
 * end before its beginning. Called again after each COFFER_NEED_MORE; `is_open` keeps the frame
 * from being judged twice.
 */
static coffer_status bt_gather(bt_reader *reader, coffer__intake *header, const coffer_parse_options *options,
                               coffer_error *err)
{
    if (reader->is_open) {
        return COFFER_OK;
    }
    const coffer_status status = coffer__frame_open(header, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    reader->is_open = true;
    return coffer__intake_rest(header, 0, err);
}

/*
 * Makes the table of what was read. Names and keys that come twice are found first. Tensors that
 * are right come in order of offset; where one is wrong, the order of the table is the header's,
 * and `wrong` is its place in it.
 */
static coffer_status bt_seal(bt_reader *reader, coffer_table **table)
{
    coffer_table *made = NULL;
    coffer_status status = coffer__builder_seal(&reader->builder, true, COFFER__FRAME_SIZE, &made, reader->err);
    if (status != COFFER_OK) {
        return status;
    }
    if (reader->wrong != BT_NO_TENSOR) {
        status = bt_fail_range(coffer_table_at(made, reader->wrong), reader->data_offset, reader->covered, reader->err);
        coffer_table_free(made);
        return status;
    }
    made->data_offset = reader->data_offset;
    made->data_size = reader->covered;
    *table = made;
    return COFFER_OK;
}

/* Comes past bt_gather once, with all of the header: what follows is not resumable and need not be. */
static coffer_status bt_read(bt_reader *reader, coffer__intake *header, const coffer_parse_options *options, bool alpha,
                             coffer_table **table, coffer_error *err)
{
    coffer_status status = bt_gather(reader, header, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    reader->in = (coffer__cursor){ header->bytes, header->size, 0 };
    reader->err = err;
    reader->hidden_bytes = options->hidden_bytes;
    reader->data_offset = header->end;
    reader->wrong = BT_NO_TENSOR;
    status = coffer__builder_init(&reader->builder, header->allocator, BT_TEXT_FACTOR * header->size, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = bt_read_header(reader, alpha);
    return status == COFFER_OK ? bt_seal(reader, table) : status;
}

static coffer_status bintensors_read(void *state, coffer__intake *header, const coffer_parse_options *options,
                                     coffer_table **table, coffer_error *err)
{
    return bt_read(state, header, options, false, table, err);
}

static coffer_status bintensors_read_alpha(void *state, coffer__intake *header, const coffer_parse_options *options,
                                           coffer_table **table, coffer_error *err)
{
    return bt_read(state, header, options, true, table, err);
}

/* After bt_seal the builder has no table any more, so only an unfinished one is freed. */
static void bintensors_free(void *state)
{
    bt_reader *reader = state;
    coffer__builder_discard(&reader->builder);
}

/* ---- the formats ---- */

_Static_assert(sizeof(bt_reader) <= COFFER__READER_SIZE, "the reader has room");

/* The header begins with whether it has metadata, 0 or 1, and JSON never does. */
static bool bintensors_sniff(const uint8_t *bytes, size_t size)
{
    return size > COFFER__FRAME_SIZE && bytes[COFFER__FRAME_SIZE] <= 1;
}

const coffer__format_ops coffer__bintensors = {
    .id = "bintensors",
    .name = "bintensors",
    .endings = { ".bt", ".bintensors" },
    .header_at = COFFER__FRAME_SIZE,
    .sniff = bintensors_sniff,
    .read = bintensors_read,
    .free = bintensors_free,
    .check = coffer__bintensors_check,
    .put = coffer__bintensors_put,
    .put_metadata = coffer__bintensors_put_metadata,
    .splice = coffer__bintensors_splice,
    .seal = coffer__frame_seal,
};

/* Files do not say that they are of layout A, and some are valid in both with different tensors. So
   it has no `sniff` and is read on request only; and it is not written any more. */
const coffer__format_ops coffer__bintensors_alpha = {
    .id = "bintensors-a",
    .name = "bintensors, layout A",
    .header_at = COFFER__FRAME_SIZE,
    .successor = COFFER_FORMAT_BINTENSORS,
    .read = bintensors_read_alpha,
    .free = bintensors_free,
    .put_metadata = coffer__bintensors_put_metadata,
    .splice = coffer__bintensors_splice,
    .seal = coffer__frame_seal,
};
