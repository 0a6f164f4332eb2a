/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Header bytes → table, for safetensors: after the frame (frame.h) follows an object of JSON, with a
 * member for each tensor.
 *
 *   header   { member, member, … } and white space, the padding
 *   member   "NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [BEGIN, END]}
 *            "__metadata__": {"KEY": "VALUE", …}     at most one, or null
 *
 * BEGIN and END count from the first byte after the header; END is one past the last byte.
 *
 * One pass over the text, straight into the table. A tensor that is spelt as writers spell it, without
 * an escape and with its fields in the usual order, is read by read_usual_tensor. Any other is read by
 * read_tensor, which takes all of JSON, token by token, and tries the usual spelling of each token first.
 * Both end in accept_tensor, which holds the format's rules: so the fast way cannot accept what the slow
 * one refuses. It makes no errors about the spelling either; it leaves the member to the slow one.
 * docs/format.md has the verdict for every corner.
 *
 * The text need not be in memory as a whole. As long as some of it is still to come, a member that cannot
 * be read may just not be here from end to end. Then it is undone, more of the text is asked for
 * (COFFER_NEED_MORE), first what fits into the window and then all of it, and the member is read again
 * when that is here. So errors never depend on how the text came in. All that has to be remembered in
 * between is in header_reader; what of it points into the text is set again before it is used.
 */
#include "alloc.h"
#include "bytes.h"
#include "checked.h"
#include "dtype.h"
#include "error.h"
#include "format.h"
#include "frame.h"
#include "json.h"
#include "safetensors_write.h"
#include "scan.h"
#include "table.h"
#include "text.h"

/*
 * Of the usual spelling: dimensions of a tensor, at most; and bytes that have to be left for a
 * number or a dtype, since that many are looked at. What stands nearer to the header's end is read
 * like any other spelling. 16 is more than the longest dtype with its quote, and than 15 digits.
 */
#define USUAL_RANK 8u
#define USUAL_AHEAD 16u

/* For a condition that hardly ever holds: tells compilers to lay out the usual way without jumps. */
#define UNLIKELY(condition) __builtin_expect((condition), 0)

/* A function that is inlined where it is called, once for each constant it is called with; and one
   that is never inlined, so that it takes no registers from the usual way. */
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))

static const char metadata_key[] = "__metadata__";
#define METADATA_KEY_LEN (sizeof metadata_key - 1)

/* What is read next, whenever reading continues. A stage that answers COFFER_NEED_MORE is called
   again, so each begins with something that may be done twice. */
typedef enum reader_stage {
    STAGE_FRAME,
    STAGE_BRACE,
    STAGE_FIRST,
    STAGE_MEMBERS,
    STAGE_PADDING,
    STAGE_END
} reader_stage;

/*
 * All that is kept between two calls. Positions count from the first byte that is here,
 * json.in.base; they change when the intake slides, so what outlives that is kept as offsets in the
 * file or in the header.
 */
typedef struct header_reader {
    reader_stage stage;
    bool is_empty;  /* no member follows the opening brace */
    bool is_behind; /* a member was read, and what follows it was not */
    coffer__intake *intake;
    coffer__json json; /* over what is here of the header */
    coffer__builder builder;
    coffer__scratch scratch;
    bool unknown_dtypes;  /* are accepted */
    bool loose_metadata;  /* is accepted */
    uint64_t data_offset; /* in the file */
    uint64_t covered;     /* end of the data that the tensors so far cover, while they come in order */
    bool in_order;
    bool seen_metadata;
    bool spaced;            /* the usual spelling here has a space after each colon and comma */
    coffer_dtype recent[2]; /* the dtypes of the last tensors, two different ones */
    size_t end_at;          /* where the digits of `covered` stand in the header */
    size_t end_len;         /* digits of `covered`; 0: not known */
} header_reader;

/* The fields that a tensor's object must have. */
typedef enum tensor_field { FIELD_DTYPE, FIELD_SHAPE, FIELD_OFFSETS, FIELD_COUNT } tensor_field;

static const char *const field_names[FIELD_COUNT] = { "dtype", "shape", "data_offsets" };

/* What is known of a tensor while its object is read. Its shape goes straight into the table. */
typedef struct tensor_fields {
    uint32_t rank;
    coffer_dtype dtype;
    uint64_t begin;
    uint64_t end;
    size_t dtype_position; /* of an unknown dtype's string, in the header */
    bool seen[FIELD_COUNT];
    size_t unknown_keys;
} tensor_fields;

/* From a position in what is here to a byte of the file. */
static uint64_t reader_offset(const header_reader *reader, size_t position)
{
    return reader->json.origin + position;
}

/* The same, counted from the header's first byte: what the table keeps. It fits: no header can be 4
   GiB long. */
static uint32_t reader_position(const header_reader *reader, size_t position)
{
    return (uint32_t)(reader_offset(reader, position) - COFFER__FRAME_SIZE);
}

/* Bytes of the header that are not read yet, here or still to come: they bound how much the table
   may grow. */
static size_t reader_left(const header_reader *reader)
{
    return coffer__left(&reader->json.in) + coffer__intake_missing(reader->intake);
}

/* The entry that is being filled. It is not part of the table until it is added, and moves with
   every reservation. */
static coffer__entry *reader_entry(const header_reader *reader)
{
    return coffer__builder_at(&reader->builder, reader->builder.used);
}

/* ---- the rules for one tensor ---- */

/* Faults of a tensor as a whole are reported at the quote of its name. */
static coffer_status fail_tensor_at_name(const header_reader *reader, coffer_status code)
{
    const coffer__entry *entry = reader_entry(reader);
    if (reader->json.err != NULL) {
        reader->json.err->offset = COFFER__FRAME_SIZE + (uint64_t)entry->position;
    }
    return code;
}

/*
 * Dtype, shape and range have to agree. The order of the checks is that of docs/format.md: tests
 * compare which fault is reported first. Of an unknown dtype only the range can be checked; its
 * bits count as 0.
 */
static inline coffer_status check_tensor(const header_reader *reader, const tensor_fields *fields,
                                         const uint64_t *shape)
{
    coffer_error *err = reader->json.err;
    const coffer_dtype dtype = fields->dtype;
    uint64_t bits;
    if (!coffer__tensor_bits(dtype, shape, fields->rank, &bits)) {
        return fail_tensor_at_name(
            reader, coffer__fail(err, COFFER_ERR_OVERFLOW, "the shape's product, in bits, is beyond 2^64-1"));
    }
    if (bits % 8 != 0) {
        return fail_tensor_at_name(reader, coffer__fail(err, COFFER_ERR_PARTIAL_BYTE,
                                                        "elements of %s that take %u bits do not fill whole bytes",
                                                        coffer_dtype_name(dtype), bits));
    }
    uint64_t file_end;
    if (fields->begin > fields->end || !coffer__add_u64(fields->end, reader->data_offset, &file_end)) {
        return fail_tensor_at_name(reader,
                                   coffer__fail(err, COFFER_ERR_RANGE,
                                                "data_offsets [%u, %u] are not the beginning and end of a range",
                                                fields->begin, fields->end));
    }
    /* Cannot wrap: begin <= end was checked. */
    const uint64_t size = fields->end - fields->begin;
    if (size != bits / 8 && dtype != COFFER_UNKNOWN_DTYPE) {
        const coffer_status code =
            coffer__fail(err, COFFER_ERR_SIZE, "dtype and shape give %u bytes, but data_offsets [%u, %u] span %u",
                         bits / 8, fields->begin, fields->end, size);
        return coffer__fail_sizes(err, fail_tensor_at_name(reader, code), bits / 8, size);
    }
    return COFFER_OK;
}

/*
 * The entry at `used`, whose name, position and shape are in place, joins the table, when its
 * fields pass the format's rules. Whether the ranges cover the data without holes and overlaps is
 * seen on the way as long as tensors come in order; otherwise check_coverage finds out when all are
 * known.
 */
static inline coffer_status accept_tensor(header_reader *reader, const tensor_fields *fields, size_t entry_size)
{
    coffer__entry *entry = reader_entry(reader);
    const uint64_t *shape =
        coffer__builder_at(&reader->builder, reader->builder.used + coffer__entry_shape_at(entry->tensor.name_len));
    const coffer_status status = check_tensor(reader, fields, shape);
    if (status != COFFER_OK) {
        return status;
    }
    entry->tensor.offset = reader->data_offset + fields->begin;
    entry->tensor.size = fields->end - fields->begin;
    entry->tensor.rank = fields->rank;
    entry->tensor.dtype = fields->dtype;
    entry->tensor.shard = 0;
    coffer_table *table = reader->builder.table;
    const uint32_t alignment = coffer__dtype_info_of(fields->dtype)->alignment;
    if (alignment > 1 && (entry->tensor.offset & (alignment - 1)) != 0) {
        coffer__table_add_note(table, COFFER_NOTE_UNALIGNED, entry->tensor.offset);
    }
    if (entry->tensor.name_len == 0) {
        coffer__table_add_note(table, COFFER_NOTE_EMPTY_NAME, COFFER__FRAME_SIZE + (uint64_t)entry->position);
    }
    /* Once false it stays false; `covered` is only what the last tensor says then, and
       check_coverage sets it again. */
    reader->in_order = reader->in_order && fields->begin == reader->covered;
    reader->covered = fields->end;
    coffer__builder_add(&reader->builder, entry_size);
    return COFFER_OK;
}

/* ---- tokens as they are nearly always written ---- */

/* Consumes `literal` when it is next. With a branch, so that the processor reads ahead and need not
   wait for the comparison. The sizes are constants, so memcmp becomes a few loads. */
static inline bool take_literal(coffer__cursor *in, const char *literal, size_t size)
{
    if (UNLIKELY(!coffer__next_is(in, literal, size))) {
        return false;
    }
    in->position += size;
    return true;
}

#define TAKE(in, literal) take_literal((in), (literal), sizeof(literal) - 1)

/*
 * Consumes a plain integer of at most 15 digits, and nothing else: no leading zero, no sign. Eight
 * digits at a time. 16 digits or more are left to coffer__json_u64, which knows about overflow;
 * here 10^15 is out of reach. What follows the digits is the caller's to check.
 */
static inline bool take_u64(coffer__cursor *in, uint64_t *value)
{
    static const uint64_t powers[8] = { 1, 10, 100, 1000, 10000, 100000, 1000000, 10000000 };
    if (coffer__left(in) < USUAL_AHEAD) {
        return false;
    }
    const uint8_t *digits = in->base + in->position;
    size_t count = coffer__leading_digits(digits, value);
    /* Eight digits fill a word, so there may be more. USUAL_AHEAD covers the second word. */
    if (count == 8) {
        uint64_t low;
        const size_t more = coffer__leading_digits(digits + 8, &low);
        if (more == 8) {
            return false;
        }
        *value = *value * powers[more] + low;
        count += more;
    }
    in->position += count;
    return count > 0 && (digits[0] != '0' || count == 1);
}

/*
 * Consumes `F32"`. The dtype of the last tensor, or of the one before, nearly always comes again,
 * so two of them are remembered. A model has one for its weights and often another for norms or
 * scales. false for a dtype that is not known, or that is spelt with escapes.
 */
static inline bool take_dtype(header_reader *reader, coffer__cursor *in, coffer_dtype *dtype)
{
    if (coffer__left(in) < USUAL_AHEAD) {
        return false;
    }
    const uint8_t *name = in->base + in->position;
    for (size_t i = 0; i < 2; i++) {
        const coffer__dtype_info *info = coffer__dtype_info_of(reader->recent[i]);
        if (info->name_len > 0 && name[info->name_len] == '"' &&
            coffer__short_equal(name, (const uint8_t *)info->name, info->name_len)) {
            *dtype = reader->recent[i];
            in->position += (size_t)info->name_len + 1;
            return true;
        }
    }
    size_t length = 0;
    while (length < USUAL_AHEAD - 1 && name[length] != '"') {
        length++;
    }
    *dtype = coffer_dtype_from_name((const char *)name, length);
    if (*dtype == COFFER_UNKNOWN_DTYPE) {
        return false;
    }
    /* The one before the last is kept, so that two dtypes in turn are both found. */
    reader->recent[1] = reader->recent[0];
    reader->recent[0] = *dtype;
    in->position += length + 1;
    return true;
}

/* Consumes the key of a field, its quotes and the colon, when they stand together without white space. */
static inline bool take_key(coffer__cursor *in, tensor_field *which)
{
    if (TAKE(in, "\"dtype\":")) {
        *which = FIELD_DTYPE;
        return true;
    }
    if (TAKE(in, "\"shape\":")) {
        *which = FIELD_SHAPE;
        return true;
    }
    *which = FIELD_OFFSETS;
    return TAKE(in, "\"data_offsets\":");
}

/* ---- the usual spelling ---- */

/*
 * There are two usual spellings: that of the reference, without white space, and that of Python's
 * json module, which puts a space after each colon and comma. `spaced` is a constant in each copy
 * of the code.
 */
#define TAKE_USUAL(in, spaced, literal, literal_spaced) ((spaced) ? TAKE(in, literal_spaced) : TAKE(in, literal))

/* Consumes `"name":{"dtype":"`. Not for the metadata, and not for a name with anything but
   printable ASCII. */
static inline bool take_name(coffer__cursor *in, bool spaced, const uint8_t **name, size_t *name_len)
{
    if (!TAKE(in, "\"")) {
        return false;
    }
    *name = in->base + in->position;
    *name_len = coffer__scan_plain(*name, coffer__left(in));
    in->position += *name_len;
    const bool is_metadata = *name_len == METADATA_KEY_LEN && memcmp(*name, metadata_key, METADATA_KEY_LEN) == 0;
    return !is_metadata && TAKE_USUAL(in, spaced, "\":{\"dtype\":\"", "\": {\"dtype\": \"");
}

/* Consumes `1,2],"data_offsets":[`, with at most USUAL_RANK dimensions, for which the caller has
   made space. */
static inline bool take_shape(coffer__cursor *in, bool spaced, uint64_t *shape, uint32_t *rank)
{
    *rank = 0;
    /* A scalar has no dimensions: "[]". */
    bool more = !TAKE(in, "]");
    while (more) {
        if (*rank == USUAL_RANK || !take_u64(in, &shape[*rank])) {
            return false;
        }
        ++*rank;
        more = !TAKE(in, "]");
        if (more && !TAKE_USUAL(in, spaced, ",", ", ")) {
            return false;
        }
    }
    return TAKE_USUAL(in, spaced, ",\"data_offsets\":[", ", \"data_offsets\": [");
}

/*
 * Consumes `3,4]}`. A tensor nearly always begins where the one before it ended, and then the same
 * digits say so: comparing them costs less than reading them. Their place is remembered only while
 * the text stays where it is (end_len is 0 otherwise). They are at most 15, so coffer__short_equal
 * can compare them.
 */
static inline bool take_offsets(header_reader *reader, coffer__cursor *in, bool spaced, tensor_fields *fields)
{
    const size_t len = reader->end_len;
    const uint8_t *here = in->base + in->position;
    if (len > 0 && coffer__left(in) >= USUAL_AHEAD && here[len] == ',' &&
        coffer__short_equal(here, in->base + reader->end_at, len)) {
        fields->begin = reader->covered;
        in->position += len;
    } else if (!take_u64(in, &fields->begin)) {
        return false;
    }
    if (!TAKE_USUAL(in, spaced, ",", ", ")) {
        return false;
    }
    const size_t end_at = in->position;
    if (!take_u64(in, &fields->end)) {
        return false;
    }
    reader->end_at = end_at;
    reader->end_len = in->position - end_at;
    return TAKE(in, "]}");
}

/*
 * Reads the member at the cursor when it is a tensor in the usual spelling. Otherwise *taken is
 * false and nothing has changed, but for bytes after `used`, which mean nothing, and for what is
 * remembered to guess with. The cursor is a copy until all of the member is read. A failure here is
 * one of memory, or a tensor that breaks a rule.
 */
static ALWAYS_INLINE coffer_status read_usual_tensor(header_reader *reader, bool spaced, bool *taken)
{
    *taken = false;
    coffer__cursor in = reader->json.in;
    const size_t position = in.position;
    const uint8_t *name;
    size_t name_len;
    tensor_fields fields;
    if (UNLIKELY(!take_name(&in, spaced, &name, &name_len) || !take_dtype(reader, &in, &fields.dtype) ||
                 !TAKE_USUAL(&in, spaced, ",\"shape\":[", ", \"shape\": ["))) {
        return COFFER_OK;
    }
    /* Everything up to the shape was read without writing anything. Space for the most dimensions is
       reserved at once, so that the shape can be read straight into its place. */
    const size_t shape_at = coffer__entry_shape_at((uint32_t)name_len);
    coffer_status status = coffer__builder_reserve(&reader->builder, shape_at + USUAL_RANK * sizeof(uint64_t),
                                                   reader_left(reader), reader->json.err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer__entry *entry = reader_entry(reader);
    char *copy = (char *)(entry + 1);
    /*
     * coffer__short_copy reads up to 15 bytes after the name: those were just read as the dtype and
     * its key. It writes as many after the copy, where the shape will be: there is space for eight
     * dimensions.
     */
    coffer__short_copy((uint8_t *)copy, name, name_len);
    copy[name_len] = '\0';
    uint64_t *shape = coffer__builder_at(&reader->builder, reader->builder.used + shape_at);
    if (UNLIKELY(!take_shape(&in, spaced, shape, &fields.rank) || !take_offsets(reader, &in, spaced, &fields))) {
        return COFFER_OK;
    }
    *taken = true;
    reader->json.in.position = in.position;
    entry->tensor.name_len = (uint32_t)name_len;
    entry->position = reader_position(reader, position);
    status = accept_tensor(reader, &fields, shape_at + (size_t)fields.rank * sizeof(uint64_t));
    return status == COFFER_OK ? status : coffer__fail_tensor(reader->json.err, status, copy, name_len);
}

/* ---- any spelling ---- */

/* Consumes a string. One of at most `capacity` bytes is stored; of a longer one only the length is
   told. So a key of any length can be compared with short ones without space for it. */
static coffer_status read_short_string(coffer__json *json, char *text, size_t capacity, size_t *text_len)
{
    bool has_control;
    /* A copy of the reader: measuring moves only the copy. */
    coffer__json measure = *json;
    const coffer_status status = coffer__json_string(&measure, NULL, text_len, &has_control);
    if (status != COFFER_OK || *text_len > capacity) {
        *json = measure;
        return status;
    }
    return coffer__json_string(json, text, text_len, &has_control);
}

/* The dtype as it is spelt in the header, without its quotes; the cursor is just after it. */
static coffer_status fail_unknown_dtype(const coffer__json *json, size_t position)
{
    const size_t size = json->in.position - position;
    return coffer__fail_at(json->err, COFFER_ERR_DTYPE, json->origin + position,
                           "at byte %u, the dtype %q is not one of the %u that coffer " COFFER_VERSION_STRING " knows",
                           json->origin + position, (const char *)json->in.base + position + 1, size - 2,
                           (uint64_t)COFFER_DTYPE_COUNT);
}

/* A dtype in any spelling. An unknown one is refused at once, unless the caller accepts them; then
   its position is kept, for keep_dtype_name to read it again when the shape's length is known. */
static coffer_status read_dtype(header_reader *reader, tensor_fields *fields)
{
    coffer__json *json = &reader->json;
    if (coffer__json_peek(json) != '"') {
        return coffer__json_type_error(json, "a dtype", "a string");
    }
    /* The fast way needs the cursor after the opening quote, and must not move it when it fails. */
    coffer__cursor in = json->in;
    in.position++;
    if (take_dtype(reader, &in, &fields->dtype)) {
        json->in = in;
        return COFFER_OK;
    }
    char name[16];
    size_t name_len;
    fields->dtype_position = json->in.position;
    const coffer_status status = read_short_string(json, name, sizeof name, &name_len);
    if (status != COFFER_OK) {
        return status;
    }
    fields->dtype = name_len <= sizeof name ? coffer_dtype_from_name(name, name_len) : COFFER_UNKNOWN_DTYPE;
    if (fields->dtype != COFFER_UNKNOWN_DTYPE) {
        return COFFER_OK;
    }
    if (!reader->unknown_dtypes) {
        return fail_unknown_dtype(json, fields->dtype_position);
    }
    coffer__table_add_note(reader->builder.table, COFFER_NOTE_UNKNOWN_DTYPE,
                           reader_offset(reader, fields->dtype_position));
    return COFFER_OK;
}

/*
 * Consumes an integer; white space before it was consumed. The fast way counts only when no point
 * and no exponent follows the digits: bytes up to the comma, white space among them, and the
 * bracket. Everything else, faults included, is the slow reader's.
 */
static inline coffer_status read_u64(coffer__json *json, uint64_t *value)
{
    const uint8_t *base = json->in.base;
    coffer__cursor in = json->in;
    if (take_u64(&in, value) && (base[in.position] <= ',' || base[in.position] == ']')) { /* no point, no exponent */
        json->in.position = in.position;
        return COFFER_OK;
    }
    return coffer__json_u64(json, value);
}

/*
 * Reads a shape into the entry, whose space grows with each dimension: how many there are is not
 * known before. The dimension is copied, not pointed to, since the block may move. Not checked
 * here; the rules need all fields.
 */
static coffer_status read_shape(header_reader *reader, size_t shape_at, tensor_fields *fields)
{
    coffer__json *json = &reader->json;
    if (coffer__json_peek(json) != '[') {
        return coffer__json_type_error(json, "a shape", "an array");
    }
    json->in.position++;
    if (coffer__json_peek(json) == ']') {
        json->in.position++;
        return COFFER_OK;
    }
    bool more = true;
    while (more) {
        uint64_t dimension;
        const size_t at = shape_at + (size_t)fields->rank * sizeof(uint64_t);
        coffer_status status = read_u64(json, &dimension);
        if (status == COFFER_OK) {
            status = coffer__builder_reserve(&reader->builder, at + sizeof dimension, reader_left(reader), json->err);
        }
        if (status == COFFER_OK) {
            memcpy(coffer__builder_at(&reader->builder, reader->builder.used + at), &dimension, sizeof dimension);
            fields->rank++;
            status = coffer__json_next(json, ']', &more);
        }
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* Any number of integers is read first, so that a wrong one is reported where it stands, and only
   then counted. The last two are kept. */
static coffer_status read_offsets(coffer__json *json, tensor_fields *fields)
{
    if (coffer__json_peek(json) != '[') {
        return coffer__json_type_error(json, "data_offsets", "an array");
    }
    const uint64_t start = json->origin + json->in.position;
    json->in.position++;
    size_t count = 0;
    bool more = coffer__json_peek(json) != ']';
    while (more) {
        /* The integer before the last one is BEGIN, when there are two. */
        fields->begin = fields->end;
        coffer_status status = read_u64(json, &fields->end);
        if (status == COFFER_OK) {
            status = coffer__json_next(json, ']', &more);
        }
        if (status != COFFER_OK) {
            return status;
        }
        count++;
    }
    if (count != 2) {
        return coffer__fail_at(json->err, COFFER_ERR_TYPE, start,
                               "at byte %u, data_offsets must be two integers, not %u", start, (uint64_t)count);
    }
    return COFFER_OK;
}

/* A field that the format does not define is allowed, noted and passed over. Two containers are
   open: the header and the tensor. */
static coffer_status read_unknown_field(header_reader *reader, size_t key_position, tensor_fields *fields)
{
    fields->unknown_keys++;
    coffer__table_add_note(reader->builder.table, COFFER_NOTE_UNKNOWN_KEY, reader_offset(reader, key_position));
    return coffer__json_skip(&reader->json, 2, &reader->scratch);
}

/* Consumes a key in any spelling, and the colon; FIELD_COUNT when it is none of a tensor's. 12
   bytes are as long as the longest field's name. */
static coffer_status read_key(coffer__json *json, tensor_field *which)
{
    if (coffer__json_peek(json) != '"') {
        return coffer__json_error(json, "a key in quotes should be here");
    }
    char key[12];
    size_t key_len;
    const coffer_status status = read_short_string(json, key, sizeof key, &key_len);
    if (status != COFFER_OK) {
        return status;
    }
    *which = FIELD_DTYPE;
    while (*which < FIELD_COUNT &&
           (key_len != coffer__text_len(field_names[*which]) || memcmp(key, field_names[*which], key_len) != 0)) {
        ++*which;
    }
    return coffer__json_expect(json, ':', "a colon should be here");
}

/* Reads one field of a tensor, its key first; white space before that was consumed. A field that
   comes a second time is refused, since readers would differ in which they take. */
static coffer_status read_field(header_reader *reader, size_t shape_at, tensor_fields *fields)
{
    coffer__json *json = &reader->json;
    const size_t key_position = json->in.position;
    tensor_field which;
    /* take_key moves the cursor only when it finds all of a key, so read_key begins at the same quote. */
    if (!take_key(&json->in, &which)) {
        const coffer_status status = read_key(json, &which);
        if (status != COFFER_OK) {
            return status;
        }
    }
    if (which == FIELD_COUNT) {
        return read_unknown_field(reader, key_position, fields);
    }
    if (fields->seen[which]) {
        return coffer__fail_at(json->err, COFFER_ERR_DUPLICATE_KEY, reader_offset(reader, key_position),
                               "at byte %u, the field \"%s\" occurs a second time", reader_offset(reader, key_position),
                               field_names[which]);
    }
    fields->seen[which] = true;
    if (which == FIELD_DTYPE) {
        return read_dtype(reader, fields);
    }
    return which == FIELD_SHAPE ? read_shape(reader, shape_at, fields) : read_offsets(json, fields);
}

/* Reads the fields of a tensor's object, in any order, and its closing brace. A missing field is
   reported at that brace, in the order dtype, shape, data_offsets. */
static coffer_status read_fields(header_reader *reader, size_t shape_at, tensor_fields *fields)
{
    coffer__json *json = &reader->json;
    if (coffer__json_peek(json) != '{') {
        return coffer__json_type_error(json, "a tensor", "an object");
    }
    /* Kept for the rare second pass at the end. */
    const coffer__json at_brace = *json;
    json->in.position++;
    bool more = coffer__json_peek(json) != '}';
    json->in.position += more ? 0 : 1;
    while (more) {
        coffer_status status = read_field(reader, shape_at, fields);
        if (status == COFFER_OK) {
            status = coffer__json_next(json, '}', &more);
        }
        if (status != COFFER_OK) {
            return status;
        }
    }
    for (tensor_field which = FIELD_DTYPE; which < FIELD_COUNT; which++) {
        if (!fields->seen[which]) {
            const uint64_t brace = reader_offset(reader, json->in.position - 1);
            return coffer__fail_at(json->err, COFFER_ERR_MISSING_FIELD, brace,
                                   "the tensor that ends at byte %u has no %s", brace, field_names[which]);
        }
    }
    if (fields->unknown_keys < 2) {
        return COFFER_OK;
    }
    /* Rare: keys that are not known may still not come twice. Passing over the whole object once
       more finds out, without keeping keys in the usual case. */
    coffer__json again = at_brace;
    return coffer__json_skip(&again, 1, &reader->scratch);
}

/* Copies an unknown dtype's name after the shape, where coffer_tensor_dtype_name looks for it;
   *size, that of the entry, grows by what it takes, a multiple of 8. */
static coffer_status keep_dtype_name(header_reader *reader, const tensor_fields *fields, size_t *size)
{
    coffer__json json = reader->json;
    json.in.position = fields->dtype_position;
    size_t name_len;
    bool has_control;
    coffer__json measure = json;
    /* The string was read before, so it cannot fail. */
    (void)coffer__json_string(&measure, NULL, &name_len, &has_control);
    const size_t capacity = (name_len + 1 + 7) / 8 * 8;
    const coffer_status status =
        coffer__builder_reserve(&reader->builder, *size + capacity, reader_left(reader), json.err);
    if (status != COFFER_OK) {
        return status;
    }
    char *name = coffer__builder_at(&reader->builder, reader->builder.used + *size);
    (void)coffer__json_string(&json, name, &name_len, &has_control);
    name[name_len] = '\0';
    *size += capacity;
    return COFFER_OK;
}

/*
 * Reads a tensor after its key, whose name lies in the entry at `used`. The spelling after the
 * colon tells which of the two usual ones to try for the next tensors. The place of the last end's
 * digits is forgotten: this way does not keep it.
 */
static coffer_status read_tensor(header_reader *reader)
{
    reader->end_len = 0;
    reader->spaced = coffer__next_is(&reader->json.in, " ", 1);
    const uint32_t name_len = reader_entry(reader)->tensor.name_len;
    const size_t shape_at = coffer__entry_shape_at(name_len);
    tensor_fields fields = { 0 };
    coffer_status status = read_fields(reader, shape_at, &fields);
    size_t size = shape_at + (size_t)fields.rank * sizeof(uint64_t);
    if (status == COFFER_OK && fields.dtype == COFFER_UNKNOWN_DTYPE) {
        status = keep_dtype_name(reader, &fields, &size);
    }
    if (status == COFFER_OK) {
        status = accept_tensor(reader, &fields, size);
    }
    if (status != COFFER_OK) {
        const char *name = (const char *)(reader_entry(reader) + 1);
        return coffer__fail_tensor(reader->json.err, status, name, name_len);
    }
    return COFFER_OK;
}

/* ---- metadata ---- */

/* Reads a string into `text`, where there is space for it and for a NUL. */
static coffer_status read_text(coffer__json *json, char *text, uint32_t *text_len)
{
    size_t length;
    bool has_control;
    const coffer_status status = coffer__json_string(json, text, &length, &has_control);
    if (status != COFFER_OK) {
        return status;
    }
    text[length] = '\0';
    *text_len = (uint32_t)length;
    return COFFER_OK;
}

/* The length of a number that is none in JSON, as Python and others write it; else 0. */
static size_t not_finite_length(const coffer__json *json)
{
    static const char *const words[] = { "NaN", "Infinity", "-Infinity" };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const size_t length = coffer__text_len(words[i]);
        if (length <= coffer__left(&json->in) && memcmp(json->in.base + json->in.position, words[i], length) == 0) {
            return length;
        }
    }
    return 0;
}

/* Reads a value. One that is no string is its JSON text, where that is accepted: it is no longer than the header, and has no
   NUL in it. Two containers are open. */
static coffer_status read_value(header_reader *reader, char *text, uint32_t *text_len)
{
    coffer__json *json = &reader->json;
    if (coffer__json_peek(json) == '"') {
        return read_text(json, text, text_len);
    }
    if (!reader->loose_metadata) {
        return coffer__json_type_error(json, "a value of the metadata", "a string");
    }
    const size_t from = json->in.position;
    const size_t length = not_finite_length(json);
    json->in.position += length;
    const coffer_status status = length > 0 ? COFFER_OK : coffer__json_skip(json, 2, &reader->scratch);
    if (status != COFFER_OK) {
        return status;
    }
    *text_len = (uint32_t)(json->in.position - from);
    memcpy(text, json->in.base + from, *text_len);
    text[*text_len] = '\0';
    return COFFER_OK;
}

/* Reads one key and its value into the table. Nothing is counted until both are complete. */
static coffer_status read_pair(header_reader *reader)
{
    coffer__json *json = &reader->json;
    if (coffer__json_peek(json) != '"') {
        return coffer__json_error(json, "a key in quotes should be here");
    }
    coffer__text_pair pair;
    pair.position = reader_position(reader, json->in.position);
    const size_t left = coffer__left(&json->in);
    /* Both texts are within the bytes that are left. Key and value have four quotes and a colon to
       themselves, which makes up for two NULs and up to three bytes of padding; a value without quotes does not. */
    const size_t unquoted = reader->loose_metadata ? 2 : 0;
    coffer_status status =
        coffer__builder_reserve(&reader->builder, sizeof pair + left + unquoted, reader_left(reader), json->err);
    if (status != COFFER_OK) {
        return status;
    }
    char *key = coffer__builder_at(&reader->builder, reader->builder.used + sizeof pair);
    status = read_text(json, key, &pair.key_len);
    if (status == COFFER_OK) {
        status = coffer__json_expect(json, ':', "a colon should be here");
    }
    if (status == COFFER_OK) {
        status = read_value(reader, key + pair.key_len + 1, &pair.value_len);
    }
    if (status != COFFER_OK) {
        return status;
    }
    memcpy(coffer__builder_at(&reader->builder, reader->builder.used), &pair, sizeof pair);
    reader->builder.used += coffer__pair_size(&pair);
    reader->builder.table->pair_count++;
    return COFFER_OK;
}

/* The pairs lie together in the block, since nothing else is added while the metadata are read. */
static coffer_status read_pairs(header_reader *reader)
{
    coffer__json *json = &reader->json;
    json->in.position++;
    /* An object without pairs closes at once; that is metadata, too. */
    bool more = coffer__json_peek(json) != '}';
    json->in.position += more ? 0 : 1;
    while (more) {
        coffer_status status = read_pair(reader);
        if (status == COFFER_OK) {
            status = coffer__json_next(json, '}', &more);
        }
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/*
 * Reads the metadata after their key, which is at `position`. null is accepted and noted, since the
 * reference reads it as no metadata. metadata_position and metadata_end are what other metadata
 * replace later (coffer__safetensors_splice).
 */
static coffer_status read_metadata(header_reader *reader, size_t position)
{
    coffer__json *json = &reader->json;
    coffer__builder *builder = &reader->builder;
    if (reader->seen_metadata) {
        return coffer__fail_at(json->err, COFFER_ERR_DUPLICATE_KEY, reader_offset(reader, position),
                               "at byte %u, \"__metadata__\" occurs a second time", reader_offset(reader, position));
    }
    reader->seen_metadata = true;
    coffer_status status = COFFER_OK;
    /* Before the first pair: the table finds all of them from here on. */
    builder->table->pairs_at = builder->used;
    const uint8_t next = coffer__json_peek(json);
    if (next == '{') {
        builder->table->has_metadata = true;
        status = read_pairs(reader);
    } else if (coffer__next_is(&json->in, "null", 4)) {
        coffer__table_add_note(builder->table, COFFER_NOTE_NULL_METADATA, reader_offset(reader, json->in.position));
        json->in.position += 4;
    } else {
        status = coffer__json_type_error(json, "\"__metadata__\"", "an object of strings");
    }
    if (status != COFFER_OK) {
        return status;
    }
    /* Pairs are padded to 4, tensors to 8. There is space for the gap: each pair has reserved that
       of a mark, and has none. */
    builder->used = (builder->used + 7) & ~(size_t)7;
    builder->table->metadata_position = reader_position(reader, position);
    builder->table->metadata_end = reader_position(reader, json->in.position);
    return COFFER_OK;
}

/* ---- the header ---- */

/*
 * Reads a member of the header in any spelling. Its key goes where a tensor's name would be, before
 * it is known whether it is one: a name may be spelt with escapes, so it is compared only when it
 * is unescaped.
 */
static coffer_status read_any_member(header_reader *reader)
{
    coffer__json *json = &reader->json;
    if (coffer__json_peek(json) != '"') {
        return coffer__json_error(json, "a key in quotes should be here");
    }
    const size_t position = json->in.position;
    const size_t left = coffer__left(&json->in);
    /* A name, its NUL and its padding are shorter than a tensor's text. */
    coffer_status status =
        coffer__builder_reserve(&reader->builder, sizeof(coffer__entry) + left, reader_left(reader), json->err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer__entry *entry = reader_entry(reader);
    char *name = (char *)(entry + 1);
    size_t name_len;
    bool has_control;
    status = coffer__json_string(json, name, &name_len, &has_control);
    if (status == COFFER_OK) {
        status = coffer__json_expect(json, ':', "a colon should be here");
    }
    if (status != COFFER_OK) {
        return status;
    }
    if (name_len == METADATA_KEY_LEN && memcmp(name, metadata_key, METADATA_KEY_LEN) == 0) {
        return read_metadata(reader, position);
    }
    name[name_len] = '\0';
    entry->tensor.name_len = (uint32_t)name_len;
    entry->position = reader_position(reader, position);
    if (has_control) {
        coffer__table_add_note(reader->builder.table, COFFER_NOTE_CONTROL_NAME, reader_offset(reader, position));
    }
    return read_tensor(reader);
}

/* ---- a header that comes in ---- */

/* Looks at what the intake has now. Positions in the old bytes mean nothing any more, so the digits
   of the last end are forgotten. */
static void reader_turn_to(header_reader *reader)
{
    reader->json.in = (coffer__cursor){ reader->intake->bytes, reader->intake->size, 0 };
    reader->json.origin = reader->intake->origin;
    reader->end_len = 0;
}

/* Asks for all that is left; COFFER_OK when it is here already. Drops what was read in both cases. */
static coffer_status reader_get_rest(header_reader *reader)
{
    const coffer_status status = coffer__intake_rest(reader->intake, reader->json.in.position, reader->json.err);
    reader_turn_to(reader);
    return status;
}

/*
 * Asks for more of the header: what fits into the window or, when the cursor stands at the window's
 * start, all that is left: then a single member is longer than the window. After COFFER_NEED_MORE,
 * safetensors_read begins with reader_turn_to.
 */
static coffer_status reader_get_more(header_reader *reader)
{
    const size_t done = reader->json.in.position;
    return done > 0 && reader->intake->window != NULL ? coffer__intake_slide(reader->intake, done)
                                                      : reader_get_rest(reader);
}

/* ---- the members ---- */

/*
 * Reads the member at the cursor, which read_usual_tensor has not taken. When that fails while some
 * of the header is still to come, the member may be cut: what it has added to the table is undone,
 * and more is asked for. A lack of memory is no sign of that. The table's count needs no undoing: a
 * tensor is counted last of all. Pairs do, when this member is the metadata.
 */
static NOINLINE coffer_status read_other_member(header_reader *reader)
{
    const size_t position = reader->json.in.position;
    const size_t used = reader->builder.used;
    const bool seen_metadata = reader->seen_metadata;
    /* A note counts: reading the member again would count it twice. */
    coffer_note notes[COFFER_NOTE_COUNT];
    memcpy(notes, reader->builder.table->notes, sizeof notes);
    const coffer_status status = read_any_member(reader);
    if (status == COFFER_OK || status == COFFER_ERR_MEMORY || coffer__intake_missing(reader->intake) == 0) {
        return status;
    }
    coffer_table *table = reader->builder.table;
    coffer__error_clear(reader->json.err);
    memcpy(table->notes, notes, sizeof notes);
    reader->json.in.position = position;
    reader->builder.used = used;
    reader->scratch.used = 0;
    if (!seen_metadata) {
        reader->seen_metadata = false;
        table->pair_count = 0;
    }
    return reader_get_more(reader);
}

/*
 * Consumes the comma after a member, or the header's closing brace: then *more is false. The usual
 * case is a comma with a quote right after it. Any other case is only certain when a byte follows
 * what was read; at the end of what is here it is undone, and `is_behind` keeps the member before
 * it from being read again.
 */
static inline coffer_status next_member(header_reader *reader, bool *more)
{
    coffer__json *json = &reader->json;
    if (coffer__next_is(&json->in, ",\"", 2)) {
        /* Only the comma: the quote begins the next member. */
        json->in.position++;
        return COFFER_OK;
    }
    const size_t position = json->in.position;
    const coffer_status status = coffer__json_next(json, '}', more);
    if (coffer__left(&json->in) > 0 || coffer__intake_missing(reader->intake) == 0) {
        return status;
    }
    coffer__error_clear(json->err);
    json->in.position = position;
    reader->is_behind = true;
    return reader_get_more(reader);
}

/* One loop, with a copy of read_usual_tensor for each spelling: the branch on `spaced` is predicted
   well, since a header keeps its spelling. */
static coffer_status read_members(header_reader *reader)
{
    bool more = !reader->is_empty;
    if (reader->is_behind) {
        reader->is_behind = false;
        const coffer_status status = next_member(reader, &more);
        if (status != COFFER_OK) {
            return status;
        }
    }
    while (more) {
        bool taken = false;
        coffer_status status =
            reader->spaced ? read_usual_tensor(reader, true, &taken) : read_usual_tensor(reader, false, &taken);
        if (status == COFFER_OK && !taken) {
            status = read_other_member(reader);
        }
        if (status == COFFER_OK) {
            status = next_member(reader, &more);
        }
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* After the closing brace there may be white space, and nothing else. It is the slack that later
   metadata may use. Other white space than spaces is noted: writers pad with spaces. */
static coffer_status read_padding(header_reader *reader)
{
    coffer__json *json = &reader->json;
    const coffer_status status = reader_get_rest(reader);
    if (status != COFFER_OK) {
        return status;
    }
    const size_t start = json->in.position;
    coffer__json_space(json);
    if (coffer__left(&json->in) != 0) {
        return coffer__json_error(json, "only white space may follow the closing brace (pad with spaces)");
    }
    reader->builder.table->slack = json->in.length - start;
    /* Seldom more than seven bytes, unless a writer has left space for metadata. */
    for (size_t at = start; at < json->in.length; at++) {
        if (json->in.base[at] != ' ') {
            coffer__table_add_note(reader->builder.table, COFFER_NOTE_PADDING, reader_offset(reader, at));
        }
    }
    return COFFER_OK;
}

/* A brace is nearly always the first byte; otherwise all of the header is asked for first, so that
   white space of any length before it needs no state of its own. */
static coffer_status read_brace(header_reader *reader)
{
    coffer__json *json = &reader->json;
    if (!coffer__next_is(&json->in, "{", 1)) {
        const coffer_status status = reader_get_rest(reader);
        if (status != COFFER_OK) {
            return status;
        }
    }
    if (coffer__json_peek(json) != '{') {
        return coffer__json_type_error(json, "the header", "an object");
    }
    if (json->in.position > 0) {
        coffer__table_add_note(reader->builder.table, COFFER_NOTE_LEADING_SPACE, json->origin);
    }
    json->in.position++;
    return COFFER_OK;
}

/* Whether there is any member. White space after the brace may be cut, so this asks for more until
   something follows it. */
static coffer_status read_first(header_reader *reader)
{
    coffer__json *json = &reader->json;
    const uint8_t next = coffer__json_peek(json);
    if (next == 0 && coffer__intake_missing(reader->intake) > 0) {
        return reader_get_more(reader);
    }
    reader->is_empty = next == '}';
    json->in.position += reader->is_empty ? 1 : 0;
    return COFFER_OK;
}

/* Judges the frame, and begins with what follows it. The table's first size is reckoned from the
   header's length, which the frame has checked against the limit. */
static coffer_status read_frame(header_reader *reader, const coffer_parse_options *options)
{
    coffer__intake *in = reader->intake;
    const coffer_status status = coffer__frame_open(in, options, reader->json.err);
    if (status != COFFER_OK) {
        return status;
    }
    reader->scratch.allocator = in->allocator;
    reader->unknown_dtypes = options->unknown_dtypes;
    reader->loose_metadata = options->loose_metadata;
    reader->data_offset = in->end;
    reader->in_order = true;
    reader_turn_to(reader);
    return coffer__builder_init(&reader->builder, in->allocator, (size_t)in->end, reader->json.err);
}

/* Each stage ends where the next one begins, with the cursor just after what it has read. */
static coffer_status read_stage(header_reader *reader, const coffer_parse_options *options)
{
    switch (reader->stage) {
    case STAGE_FRAME:
        return read_frame(reader, options);
    case STAGE_BRACE:
        return read_brace(reader);
    case STAGE_FIRST:
        return read_first(reader);
    case STAGE_MEMBERS:
        return read_members(reader);
    default:
        return read_padding(reader);
    }
}

/*
 * The ranges, in order of offset, must follow each other from 0 on without a hole or an overlap.
 * Runs only when the header lists tensors in another order than the data. Ends are at most 2^64-1,
 * so the sum of sizes, each the end of its range here, cannot wrap.
 */
static coffer_status check_coverage(const coffer_table *table, uint64_t data_offset, uint64_t origin, uint64_t *covered,
                                    coffer_error *err)
{
    *covered = 0;
    for (size_t i = 0; i < table->count; i++) {
        const coffer_tensor *tensor = coffer_table_at(table, i);
        const uint64_t begin = tensor->offset - data_offset;
        if (begin != *covered) {
            /* Offsets are sorted, so a range that begins too early overlaps one before it. */
            const bool hole = begin > *covered;
            const uint32_t position = ((const coffer__entry *)(const void *)tensor)->position;
            const coffer_status code =
                coffer__fail_at(err, hole ? COFFER_ERR_HOLE : COFFER_ERR_OVERLAP, origin + position,
                                hole ? "bytes %u to %u of the data belong to no tensor; tensor %q begins after them"
                                     : "other tensors reach to byte %u of the data, but at byte %u begins tensor %q",
                                *covered, begin, tensor->name, (size_t)tensor->name_len);
            coffer__fail_sizes(err, code, *covered, begin);
            return coffer__fail_tensor(err, code, tensor->name, tensor->name_len);
        }
        *covered += tensor->size;
    }
    return COFFER_OK;
}

/* Makes the table of what was read. Duplicates are found before holes and overlaps, as
   docs/format.md has it. Where tensors come in order, coverage was checked on the way. */
static coffer_status reader_seal(header_reader *reader, coffer_table **table, coffer_error *err)
{
    coffer_table *made = NULL;
    /* The builder's block is the table's from here on, or was freed. */
    coffer_status status = coffer__builder_seal(&reader->builder, reader->in_order, COFFER__FRAME_SIZE, &made, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (!reader->in_order) {
        status = check_coverage(made, reader->data_offset, COFFER__FRAME_SIZE, &reader->covered, err);
    }
    if (status != COFFER_OK) {
        coffer_table_free(made);
        return status;
    }
    made->data_offset = reader->data_offset;
    made->data_size = reader->covered;
    *table = made;
    return COFFER_OK;
}

/* Begins or continues a reading. `err` and the bytes may be others than in the last call, so what
   points to them is set again. A stage that succeeds is never returned to. */
static coffer_status safetensors_read(void *state, coffer__intake *header, const coffer_parse_options *options,
                                      coffer_table **table, coffer_error *err)
{
    header_reader *reader = state;
    reader->intake = header;
    reader->json.err = err;
    reader_turn_to(reader);
    for (; reader->stage < STAGE_END; reader->stage++) {
        const coffer_status status = read_stage(reader, options);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return reader_seal(reader, table, err);
}

/* Frees what an unfinished reading has. After reader_seal the builder has no table any more, and
   nothing of it is freed here. */
static void safetensors_free(void *state)
{
    header_reader *reader = state;
    coffer__builder_discard(&reader->builder);
    coffer__scratch_free(&reader->scratch);
}

/* ---- the format ---- */

_Static_assert(sizeof(header_reader) <= COFFER__READER_SIZE, "the reader has room");

/* Without a `sniff`: whatever no other format recognises is read as this one. */
const coffer__format_ops coffer__safetensors = {
    .id = "safetensors",
    .name = "safetensors",
    .endings = { ".safetensors" },
    .header_at = COFFER__FRAME_SIZE,
    .has_indices = true,
    .wants_framework = true,
    .read = safetensors_read,
    .free = safetensors_free,
    .put = coffer__safetensors_put,
    .put_metadata = coffer__safetensors_put_metadata,
    .splice = coffer__safetensors_splice,
    .name_size = coffer__safetensors_name_size,
    .put_name = coffer__safetensors_put_name,
    .seal = coffer__frame_seal,
};
