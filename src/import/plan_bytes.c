/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each kind of item is described once, field by field; what is done with a field depends on the
 * tape's mode. So what is written is what is read, and a field cannot be forgotten on one side.
 *
 * The bytes that are read may come from a process that was taken over. Here they are made into
 * numbers of the right widths and into arrays within the plan's budget, and nothing is concluded
 * from them: not that a count is true, not that an enumeration has a value of its own, not that a
 * number refers to anything. coffer__import_plan_check does all that.
 *
 * When the bytes end too early, `cut` is set, every field after that is 0, and the loops stop.
 */
#include "plan_bytes.h"

#include "alloc.h"
#include "bytes.h"
#include "error.h"
#include "text.h"

#include <string.h>

static const uint8_t tape_magic[8] = { 'C', 'o', 'f', 'P', 'l', 'a', 'n', '3' };

typedef enum tape_mode { TAPE_MEASURE, TAPE_WRITE, TAPE_READ } tape_mode;

/* `in` is what is read; `out` what is written, from byte `size` on. */
typedef struct tape {
    tape_mode mode;
    coffer__cursor in;
    uint8_t *out;
    size_t size;
    bool cut; /* the bytes ended before the plan did */
} tape;

/* ---- fields ------------------------------------------------------------------------------------------------------ */

/* A number of `width` bytes, little-endian. After the tape was cut the value is 0. */
static void tape_number(tape *t, uint64_t *value, unsigned width)
{
    if (t->mode == TAPE_READ) {
        *value = 0;
        t->cut = t->cut || width > coffer__left(&t->in);
        for (unsigned i = 0; i < width && !t->cut; i++) {
            *value |= (uint64_t)t->in.base[t->in.position++] << (8 * i);
        }
        return;
    }
    for (unsigned i = 0; i < width && t->mode == TAPE_WRITE; i++) {
        t->out[t->size + i] = (uint8_t)(*value >> (8 * i));
    }
    t->size += width;
}

/* One function for each type, since a field is handed over by its address. */
static void tape_u64(tape *t, uint64_t *value)
{
    tape_number(t, value, 8);
}

static void tape_u32(tape *t, uint32_t *value)
{
    uint64_t number = *value;
    tape_number(t, &number, 4);
    *value = (uint32_t)number;
}

static void tape_u8(tape *t, uint8_t *value)
{
    uint64_t number = *value;
    tape_number(t, &number, 1);
    *value = (uint8_t)number;
}

static void tape_dtype(tape *t, coffer_dtype *value)
{
    uint64_t number = (uint64_t)*value;
    tape_number(t, &number, 1);
    *value = (coffer_dtype)number;
}

/* ---- items ------------------------------------------------------------------------------------------------------- */

/* The items, in the order of plan_bytes.h. Enumerations are a byte each; the cast back may make
   values that the enumeration does not have, which the check compares as numbers. */
static void tape_file(tape *t, void *item)
{
    tape_u32(t, item);
}

static void tape_piece(tape *t, void *item)
{
    coffer__import_plan_piece *piece = item;
    uint8_t coding = (uint8_t)piece->coding;
    uint8_t crc_kind = (uint8_t)piece->crc_kind;
    tape_u32(t, &piece->file);
    tape_u8(t, &coding);
    tape_u64(t, &piece->offset);
    tape_u64(t, &piece->stored_size);
    tape_u64(t, &piece->size);
    tape_u8(t, &crc_kind);
    tape_u32(t, &piece->crc);
    piece->coding = (coffer__coding)coding;
    piece->crc_kind = (coffer__crc_kind)crc_kind;
    switch (piece->coding) {
    case COFFER__CODING_BLOCKS:
        tape_u32(t, &piece->as.blocks.type);
        tape_dtype(t, &piece->as.blocks.dtype);
        tape_u32(t, &piece->as.blocks.scales);
        break;
    case COFFER__CODING_NUMBERS:
        tape_u32(t, &piece->as.numbers.tag);
        tape_dtype(t, &piece->as.numbers.dtype);
        break;
    case COFFER__CODING_FILTERED:
        tape_u32(t, &piece->as.chunk.filters);
        tape_u32(t, &piece->as.chunk.unit);
        break;
    default:
        break;
    }
}

/* Without `viewed`, which follows from the rows and the parts. */
static void tape_storage(tape *t, void *item)
{
    coffer__import_plan_storage *storage = item;
    uint8_t kind = (uint8_t)storage->kind;
    tape_u8(t, &kind);
    tape_u32(t, &storage->first);
    tape_u32(t, &storage->count);
    tape_u64(t, &storage->size);
    tape_u32(t, &storage->name);
    storage->kind = (coffer__storage_kind)kind;
    switch (storage->kind) {
    case COFFER__STORAGE_CHUNKED:
        tape_u32(t, &storage->as.grid.rank);
        tape_u32(t, &storage->as.grid.dimensions);
        tape_u64(t, &storage->as.grid.item_size);
        break;
    case COFFER__STORAGE_ASSEMBLED:
        tape_u32(t, &storage->as.array.rank);
        tape_u32(t, &storage->as.array.extents);
        tape_u64(t, &storage->as.array.item_size);
        break;
    default:
        break;
    }
}

static void tape_part(tape *t, void *item)
{
    coffer__import_plan_part *part = item;
    tape_u32(t, &part->storage);
    tape_u64(t, &part->offset);
    tape_u32(t, &part->box);
}

static void tape_extent(tape *t, void *item)
{
    tape_u64(t, item);
}

static void tape_row(tape *t, void *item)
{
    coffer__import_plan_row *row = item;
    uint8_t dtype = (uint8_t)row->dtype;
    uint8_t sign = (uint8_t)row->sign;
    uint8_t fate = (uint8_t)row->fate;
    tape_u32(t, &row->name);
    tape_u8(t, &dtype);
    tape_u32(t, &row->rank);
    tape_u32(t, &row->dimensions);
    tape_u32(t, &row->storage);
    tape_u64(t, &row->offset);
    tape_u64(t, &row->item_size);
    tape_u8(t, &row->swap);
    tape_u8(t, &sign);
    tape_u8(t, &fate);
    tape_u32(t, &row->alias_of);
    tape_u32(t, &row->reason);
    row->dtype = (coffer_dtype)dtype;
    row->sign = (coffer__sign)sign;
    row->fate = (coffer_fate)fate;
}

static void tape_dimension(tape *t, void *item)
{
    coffer__import_plan_dimension *dimension = item;
    /* Two's complement, there and back. */
    uint64_t stride = (uint64_t)dimension->stride;
    tape_u64(t, &dimension->size);
    tape_u64(t, &dimension->count);
    tape_u64(t, &stride);
    dimension->stride = (int64_t)stride;
}

static void tape_pair(tape *t, void *item)
{
    coffer__import_plan_pair *pair = item;
    tape_u32(t, &pair->key);
    tape_u32(t, &pair->value);
}

static void tape_finding(tape *t, void *item)
{
    coffer__import_plan_finding *finding = item;
    uint8_t weight = (uint8_t)finding->weight;
    tape_u8(t, &weight);
    tape_u32(t, &finding->file);
    tape_u64(t, &finding->offset);
    tape_u32(t, &finding->member);
    tape_u32(t, &finding->subject);
    tape_u32(t, &finding->text);
    finding->weight = (coffer_weight)weight;
}

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

/* Any of the items. */
typedef union tape_item {
    uint32_t file;
    coffer__import_plan_piece piece;
    coffer__import_plan_storage storage;
    coffer__import_plan_part part;
    uint64_t extent;
    coffer__import_plan_row row;
    coffer__import_plan_dimension dimension;
    coffer__import_plan_pair pair;
    coffer__import_plan_finding finding;
} tape_item;

/* Every item takes bytes of the tape, so a count that is too large ends at its end and has
   allocated no more than a few times its size. The item goes through a union, since fields are
   written into it one by one and it must not reach the plan before it is complete. */
static coffer_status tape_array(tape *t, coffer__import_plan *plan, coffer__import_plan_array *array, size_t item_size,
                                void (*field)(tape *t, void *item), coffer_error *err)
{
    uint64_t count = array->count;
    tape_item item;
    tape_u64(t, &count);
    for (uint64_t i = 0; i < count && !t->cut; i++) {
        memset(&item, 0, sizeof item);
        if (t->mode != TAPE_READ) {
            memcpy(&item, (const uint8_t *)array->items + (size_t)i * item_size, item_size);
        }
        field(t, &item);
        if (t->mode == TAPE_READ && !t->cut) {
            const coffer_status status = coffer__import_plan_extend(plan, array, &item, 1, item_size, err);
            if (status != COFFER_OK) {
                return status;
            }
        }
    }
    return COFFER_OK;
}

/* The texts as they lie in the plan, lengths and NULs included. Whether a number leads to one of
   them is asked whenever it is used. */
static coffer_status tape_texts(tape *t, coffer__import_plan *plan, coffer_error *err)
{
    coffer__import_plan_array *texts = &plan->texts;
    uint64_t size = texts->count;
    tape_u64(t, &size);
    if (t->mode != TAPE_READ) {
        if (t->mode == TAPE_WRITE) {
            memcpy(t->out + t->size, texts->items, texts->count);
        }
        t->size += texts->count;
        return COFFER_OK;
    }
    /* Compared before it is narrowed to a size_t. */
    t->cut = t->cut || size > coffer__left(&t->in);
    if (t->cut) {
        return COFFER_OK;
    }
    const uint8_t *bytes = t->in.base + t->in.position;
    t->in.position += (size_t)size;
    return coffer__import_plan_extend(plan, texts, bytes, (size_t)size, 1, err);
}

/* The whole plan, in the order of plan_bytes.h. `reader` is read and written like the other fields,
   byte by byte. */
static coffer_status tape_plan(tape *t, coffer__import_plan *plan, char *reader, coffer_error *err)
{
    for (size_t i = 0; i < COFFER__PLAN_READER_SIZE; i++) {
        uint8_t byte = (uint8_t)reader[i];
        tape_u8(t, &byte);
        reader[i] = (char)byte;
    }
    const struct {
        coffer__import_plan_array *array;
        size_t item_size;
        void (*field)(tape *t, void *item);
    } arrays[] = {
        { &plan->file_names, sizeof(uint32_t), tape_file },
        { &plan->pieces, sizeof(coffer__import_plan_piece), tape_piece },
        { &plan->storages, sizeof(coffer__import_plan_storage), tape_storage },
        { &plan->parts, sizeof(coffer__import_plan_part), tape_part },
        { &plan->extents, sizeof(uint64_t), tape_extent },
        { &plan->rows, sizeof(coffer__import_plan_row), tape_row },
        { &plan->dimensions, sizeof(coffer__import_plan_dimension), tape_dimension },
        { &plan->pairs, sizeof(coffer__import_plan_pair), tape_pair },
        { &plan->findings, sizeof(coffer__import_plan_finding), tape_finding },
    };
    tape_u32(t, &plan->keys_file);
    tape_u64(t, &plan->keys_size);
    coffer_status status = tape_texts(t, plan, err);
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0] && status == COFFER_OK; i++) {
        status = tape_array(t, plan, arrays[i].array, arrays[i].item_size, arrays[i].field, err);
    }
    return status;
}

/* ---- both ways --------------------------------------------------------------------------------------------------- */

/* The plan goes over the tape twice: once to be measured. It is only read, through a copy of the struct. */
coffer_status coffer__import_plan_save(const coffer__import_plan *plan, const char *reader, uint8_t **bytes,
                                       size_t *size, coffer_error *err)
{
    coffer__import_plan copy = *plan;
    char name[COFFER__PLAN_READER_SIZE] = { 0 };
    const size_t reader_len = coffer__text_len(reader);
    tape t = { .mode = TAPE_MEASURE, .size = sizeof tape_magic };
    /* Names of readers are constants and fit; a longer one would be cut, and not found when it is
       loaded. */
    memcpy(name, reader, reader_len < sizeof name ? reader_len : sizeof name - 1);
    /* Measuring allocates nothing, so it cannot fail. */
    (void)tape_plan(&t, &copy, name, err);
    *bytes = coffer__alloc(plan->allocator, t.size);
    if (*bytes == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the %z of a plan", (uint64_t)t.size);
    }
    *size = t.size;
    memcpy(*bytes, tape_magic, sizeof tape_magic);
    t = (tape){ .mode = TAPE_WRITE, .out = *bytes, .size = sizeof tape_magic };
    return tape_plan(&t, &copy, name, err);
}

/* Whether a storage is viewed is not told, but seen. */
static void tape_mark_viewed(coffer__import_plan *plan)
{
    coffer__import_plan_storage *storages = plan->storages.items;
    for (size_t i = 0; i < plan->rows.count; i++) {
        const coffer__import_plan_row *row = coffer__import_plan_rows(plan) + i;
        if (row->storage < plan->storages.count) {
            storages[row->storage].viewed = true;
        }
    }
    for (size_t i = 0; i < plan->parts.count; i++) {
        const coffer__import_plan_part *part = coffer__import_plan_parts(plan) + i;
        if (part->storage < plan->storages.count) {
            storages[part->storage].viewed = true;
        }
    }
}

/* The plan that was begun has a text and a file already, which those of the bytes replace. */
coffer_status coffer__import_plan_load(coffer__import_plan *plan, const uint8_t *bytes, size_t size,
                                       char reader[COFFER__PLAN_READER_SIZE], coffer_error *err)
{
    tape t = { .mode = TAPE_READ, .in = { .base = bytes, .length = size } };
    if (!coffer__next_is(&t.in, (const char *)tape_magic, sizeof tape_magic)) {
        return coffer__fail(err, COFFER_ERR_PLAN, "these bytes are no plan of a conversion by this version");
    }
    /* The magic has the version: there is no reading of older plans, since both ends are the same
       program. */
    t.in.position = sizeof tape_magic;
    plan->texts.count = 0;
    plan->file_names.count = 0;
    coffer_status status = tape_plan(&t, plan, reader, err);
    plan->file_count = (uint32_t)plan->file_names.count;
    if (status != COFFER_OK) {
        return status;
    }
    /* All bytes must have been used. Text 0 has to be there, since "no text" is number 0. */
    if (t.cut || coffer__left(&t.in) > 0 || reader[COFFER__PLAN_READER_SIZE - 1] != '\0' ||
        !coffer__import_plan_has_text(plan, 0)) {
        return coffer__fail_at(err, COFFER_ERR_PLAN, t.in.position, "the bytes of a plan %s at byte %u",
                               t.cut ? "end" : "do not end", (uint64_t)t.in.position);
    }
    tape_mark_viewed(plan);
    return COFFER_OK;
}
