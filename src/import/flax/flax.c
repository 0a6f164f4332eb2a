/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of flax's MessagePack files, of which one object is all: a map of maps, whose values are arrays in the end.
 *
 *   map             keys are texts; flax writes lists as maps with the keys "0", "1", ...
 *   extension 1     an array: MessagePack again, [[sizes], "dtype", bytes], elements little-endian, the last index fastest
 *   extension 3     a number of NumPy, which is an array without dimensions
 *   extension 2     a complex number of Python
 *
 * An array of more than 2^30 bytes is a map: {"__msgpack_chunked_array__": true, "shape": {"0": size, ...}, "chunks":
 * {"0": extension 1, ...}}, whose chunks have one dimension and lie in order.
 *
 * Names are the keys from the outside, joined by dots. int4 and its kin have a byte for each element here. Numbers of
 * Python and texts are no tensors.
 *
 * There is no recursion: the containers that are open are a list, which is as deep as FLAX_DEPTH at most.
 */
#include "alloc.h"
#include "bytes.h"
#include "checked.h"
#include "dense.h"
#include "error.h"
#include "file_window.h"
#include "msgpack.h"
#include "readers.h"
#include "sort.h"
#include "text.h"

#include <string.h>

#define FLAX_DEPTH 1000u
#define FLAX_MAX_KEY 8192u /* bytes of a key; within a window */
#define FLAX_CHUNKED "__msgpack_chunked_array__"
enum { FLAX_ARRAY = 1, FLAX_COMPLEX = 2, FLAX_SCALAR = 3 };

/* A map or an array that is being read. */
typedef struct flax_open {
    uint64_t count;
    uint64_t next;   /* of its entries */
    size_t path_len; /* of its own name */
    uint32_t number; /* in the order of their beginnings, for its keys */
    bool is_map;
} flax_open;

/* A key, by the map that has it. */
typedef struct flax_key {
    uint32_t map;
    uint32_t text; /* of the plan */
} flax_key;

typedef struct flax_reading {
    coffer__dense_rows rows;
    coffer__file_window *window;
    uint64_t at; /* of what is read next */
    coffer__writing path;
    flax_open *open;
    size_t open_count;
    size_t open_capacity;
    flax_key *keys;
    size_t key_count;
    size_t key_capacity;
    uint32_t containers; /* begun so far */
} flax_reading;

/* An array as it lies in the file: its data have no other place. */
typedef struct flax_array {
    coffer__dense tensor;
    uint64_t data; /* where its bytes are */
    uint64_t size; /* how many bytes */
} flax_array;

/* The dtypes, as NumPy and ml_dtypes call them. */
static const struct flax_type {
    const char *name;
    coffer_dtype dtype;
    uint8_t bits;
} flax_types[] = {
    { "float32", COFFER_F32, 32 },
    { "bfloat16", COFFER_BF16, 16 },
    { "float16", COFFER_F16, 16 },
    { "float64", COFFER_F64, 64 },
    { "int8", COFFER_I8, 8 },
    { "int16", COFFER_I16, 16 },
    { "int32", COFFER_I32, 32 },
    { "int64", COFFER_I64, 64 },
    { "uint8", COFFER_U8, 8 },
    { "uint16", COFFER_U16, 16 },
    { "uint32", COFFER_U32, 32 },
    { "uint64", COFFER_U64, 64 },
    { "bool", COFFER_BOOL, 8 },
    { "complex64", COFFER_C64, 64 },
    { "complex128", COFFER_UNKNOWN_DTYPE, 128 },
    { "float8_e4m3fn", COFFER_F8_E4M3, 8 },
    { "float8_e4m3fnuz", COFFER_F8_E4M3FNUZ, 8 },
    { "float8_e5m2", COFFER_F8_E5M2, 8 },
    { "float8_e5m2fnuz", COFFER_F8_E5M2FNUZ, 8 },
    { "float8_e8m0fnu", COFFER_F8_E8M0, 8 },
    { "int4", COFFER_I8, 8 },
    { "uint4", COFFER_U8, 8 },
    { "int2", COFFER_I8, 8 },
    { "uint2", COFFER_U8, 8 },
    { "float8_e3m4", COFFER_UNKNOWN_DTYPE, 8 },
    { "float8_e4m3", COFFER_UNKNOWN_DTYPE, 8 },
    { "float8_e4m3b11fnuz", COFFER_UNKNOWN_DTYPE, 8 },
    { "float4_e2m1fn", COFFER_UNKNOWN_DTYPE, 8 },
    { "float6_e2m3fn", COFFER_UNKNOWN_DTYPE, 8 },
    { "float6_e3m2fn", COFFER_UNKNOWN_DTYPE, 8 },
};

static coffer_status flax_fail(const flax_reading *flax, const char *what, coffer_error *err)
{
    return coffer__fail_at(err, COFFER_ERR_DAMAGED, flax->at, "the MessagePack file is damaged: %s", what);
}

/* ---- objects ----------------------------------------------------------------------------------------------------- */

/*
 * Reads a head and goes to its content, which has to lie before `end`: of texts and bytes all of it, of arrays and maps at
 * least a byte for each entry. So no count can promise more than the file has.
 */
static coffer_status flax_take(flax_reading *flax, uint64_t end, coffer__msgpack *object, coffer_error *err)
{
    const uint8_t *bytes = NULL;
    size_t size = 0;
    const coffer_status status =
        coffer__file_window_peek(flax->window, flax->at, end, COFFER__MSGPACK_MAX_HEAD, &bytes, &size, err);
    if (status != COFFER_OK) {
        return status;
    }
    *object = coffer__msgpack_read(bytes, size);
    const uint64_t left = end - flax->at;
    uint64_t least = 0;
    switch (object->kind) {
    case COFFER__MSGPACK_NONE:
        return flax_fail(flax,
                         left < COFFER__MSGPACK_MAX_HEAD && end == flax->window->file_size
                             ? "there is no object where one begins, or the file ends within it; get the file again"
                             : "there is no object where one begins",
                         err);
    case COFFER__MSGPACK_MAP:
        least = object->length > UINT64_MAX / 2 ? UINT64_MAX : 2 * object->length;
        break;
    case COFFER__MSGPACK_TEXT:
    case COFFER__MSGPACK_BYTES:
    case COFFER__MSGPACK_ARRAY:
    case COFFER__MSGPACK_EXTENSION:
        least = object->length;
        break;
    default:
        break;
    }
    if (least > left - object->size) {
        return flax_fail(flax,
                         end == flax->window->file_size
                             ? "an object reaches past the end of the file; get the file again"
                             : "an object reaches past the end of the one that it is in",
                         err);
    }
    flax->at += object->size;
    return COFFER_OK;
}

/* An object of a certain kind, and nothing else. */
static coffer_status flax_expect(flax_reading *flax, uint64_t end, coffer__msgpack_kind kind, const char *what,
                                 coffer__msgpack *object, coffer_error *err)
{
    const uint64_t at = flax->at;
    const coffer_status status = flax_take(flax, end, object, err);
    if (status == COFFER_OK && object->kind != kind) {
        flax->at = at;
        return flax_fail(flax, what, err);
    }
    return status;
}

/* A text of at most `most` bytes, in the window; older versions of flax write bytes. */
static coffer_status flax_text(flax_reading *flax, uint64_t end, size_t most, const char **text, size_t *len,
                               coffer_error *err)
{
    coffer__msgpack object;
    const uint8_t *bytes = NULL;
    coffer_status status = flax_take(flax, end, &object, err);
    if (status != COFFER_OK) {
        return status;
    }
    if ((object.kind != COFFER__MSGPACK_TEXT && object.kind != COFFER__MSGPACK_BYTES) || object.length > most) {
        return flax_fail(flax, "a key or the name of a dtype is no text, or too long", err);
    }
    status = coffer__file_window_get(flax->window, flax->at, (size_t)object.length, &bytes, err);
    *text = (const char *)bytes;
    *len = (size_t)object.length;
    flax->at += object.length;
    return status;
}

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

/* A name that is in no table is of text, of dates, or of a structure: its bytes are told as a whole. */
static void flax_set_type(flax_array *array, const char *name, size_t len)
{
    coffer__dense *tensor = &array->tensor;
    const bool text = len >= 3 && (memcmp(name, "str", 3) == 0 || (len >= 5 && memcmp(name, "bytes", 5) == 0));
    for (size_t i = 0; i < sizeof flax_types / sizeof flax_types[0]; i++) {
        if (coffer__text_is(name, len, flax_types[i].name)) {
            tensor->type = flax_types[i].name;
            tensor->dtype = flax_types[i].dtype;
            tensor->bits = flax_types[i].bits;
            tensor->complex128 = tensor->bits == 128;
            return;
        }
    }
    tensor->type = text ? "text" : "a dtype that is not one of numbers";
    tensor->texts = text;
    tensor->dtype = COFFER_UNKNOWN_DTYPE;
    tensor->bits = 0;
}

/* One of an array's sizes. */
static coffer_status flax_read_size(flax_reading *flax, uint64_t end, uint64_t *size, coffer_error *err)
{
    coffer__msgpack object;
    const coffer_status status =
        flax_expect(flax, end, COFFER__MSGPACK_INT, "the size of an array is no number", &object, err);
    if (status == COFFER_OK && object.negative) {
        return flax_fail(flax, "the size of an array is below 0", err);
    }
    *size = status == COFFER_OK ? object.number : 0;
    return status;
}

static coffer_status flax_read_shape(flax_reading *flax, uint64_t end, coffer__dense *tensor, coffer_error *err)
{
    coffer__msgpack object;
    coffer_status status =
        flax_expect(flax, end, COFFER__MSGPACK_ARRAY, "an array has no list of its sizes", &object, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (object.length > COFFER__PLAN_MAX_RANK) {
        return flax_fail(flax, "an array has more than 64 dimensions", err);
    }
    tensor->rank = (uint32_t)object.length;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        status = flax_read_size(flax, end, &tensor->shape[i], err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* Sizes and dtype make exactly as many bytes as there are, and nothing follows them in the extension. */
static coffer_status flax_measure(const flax_reading *flax, flax_array *array, coffer_error *err)
{
    uint64_t size = 0;
    if (array->tensor.bits == 0) {
        array->tensor.bits = 8;
        array->tensor.rank = 1;
        array->tensor.shape[0] = array->size;
        return COFFER_OK;
    }
    if (!coffer__dense_size(&array->tensor, &size) || size != array->size) {
        const coffer_status status = flax_fail(flax, "an array has other bytes than its sizes and dtype make", err);
        return coffer__fail_sizes(err, status, size, array->size);
    }
    return COFFER_OK;
}

/* Reads what is in an extension of `length` bytes, and goes to what follows it. */
static coffer_status flax_read_array(flax_reading *flax, uint64_t length, flax_array *array, coffer_error *err)
{
    const uint64_t end = flax->at + length;
    const char *type = NULL;
    size_t type_len = 0;
    coffer__msgpack object;
    *array = (flax_array){ .tensor = { .at = flax->at } };
    coffer_status status = flax_expect(flax, end, COFFER__MSGPACK_ARRAY, "an array is no list of three", &object, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (object.length != 3) {
        return flax_fail(flax, "an array is no list of three", err);
    }
    status = flax_read_shape(flax, end, &array->tensor, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = flax_text(flax, end, 255, &type, &type_len, err);
    if (status != COFFER_OK) {
        return status;
    }
    flax_set_type(array, type, type_len);
    status = flax_expect(flax, end, COFFER__MSGPACK_BYTES, "an array has no bytes", &object, err);
    if (status != COFFER_OK) {
        return status;
    }
    array->data = flax->at;
    array->size = object.length;
    flax->at += object.length;
    if (flax->at != end) {
        return flax_fail(flax, "bytes follow an array within its extension", err);
    }
    return flax_measure(flax, array, err);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static void flax_name(const flax_reading *flax, coffer__dense *tensor)
{
    tensor->name = flax->path.used > 0 ? flax->path.text : "array";
    tensor->name_len = flax->path.used > 0 ? flax->path.used : 5;
}

static coffer_status flax_put_array(flax_reading *flax, uint64_t length, coffer_error *err)
{
    flax_array array;
    const coffer_status status = flax_read_array(flax, length, &array, err);
    flax_name(flax, &array.tensor);
    if (status != COFFER_OK) {
        return coffer__fail_tensor(err, status, array.tensor.name, array.tensor.name_len);
    }
    return flax->rows.wants->scan ? COFFER_OK
                                  : coffer__dense_put_at(&flax->rows, &array.tensor, 0, array.data, array.size, err);
}

/* Only whole numbers and truths have one spelling; texts are told nowhere. */
static coffer_status flax_put_scalar(flax_reading *flax, const coffer__msgpack *object, coffer_error *err)
{
    char digits[21] = "-";
    const coffer__wants *wants = flax->rows.wants;
    const bool number = object->kind == COFFER__MSGPACK_INT || object->kind == COFFER__MSGPACK_BOOL;
    if (wants->scalars == COFFER_SCALARS_SKIP || wants->scan || !number || flax->path.used == 0) {
        return COFFER_OK;
    }
    if (object->kind == COFFER__MSGPACK_BOOL) {
        const char *word = object->number != 0 ? "true" : "false";
        return coffer__import_plan_put_pair(flax->rows.plan, flax->path.text, flax->path.used, word,
                                            coffer__text_len(word), err);
    }
    const size_t sign = object->negative ? 1 : 0;
    const uint64_t magnitude = object->negative ? 0 - object->number : object->number;
    const size_t len = sign + coffer__write_u64(digits + sign, magnitude);
    return coffer__import_plan_put_pair(flax->rows.plan, flax->path.text, flax->path.used, digits, len, err);
}

/* An extension of another program is left out, and told. */
static coffer_status flax_put_other(flax_reading *flax, const coffer__msgpack *object, coffer_error *err)
{
    if (flax->rows.wants->strict) {
        return coffer__fail_at(err, COFFER_ERR_OPAQUE, flax->at, "%q is an extension of type %u, which is not flax's",
                               flax->path.text, flax->path.used, (uint64_t)object->type);
    }
    return coffer__import_plan_put_finding(flax->rows.plan, COFFER_WEIGHT_OPAQUE, 0, flax->at, "",
                                           "%q is an extension of a type that is not flax's: it is left out",
                                           flax->path.text, flax->path.used, err);
}

/* ---- arrays in chunks -------------------------------------------------------------------------------------------- */

/* The key of a map has to be a certain one. */
static coffer_status flax_expect_key(flax_reading *flax, const char *key, const char *what, coffer_error *err)
{
    const char *text = NULL;
    size_t len = 0;
    const coffer_status status = flax_text(flax, flax->window->file_size, FLAX_MAX_KEY, &text, &len, err);
    if (status != COFFER_OK) {
        return status;
    }
    return coffer__text_is(text, len, key) ? COFFER_OK : flax_fail(flax, what, err);
}

/* A list is a map whose keys count from 0 on; entry `i` follows. */
static coffer_status flax_expect_entry(flax_reading *flax, uint64_t i, coffer_error *err)
{
    char key[21];
    key[coffer__write_u64(key, i)] = '\0';
    return flax_expect_key(flax, key, "a chunk or a size is missing, or not in order", err);
}

static coffer_status flax_read_chunked_shape(flax_reading *flax, coffer__dense *tensor, coffer_error *err)
{
    const uint64_t end = flax->window->file_size;
    coffer__msgpack object;
    coffer_status status = flax_expect_key(flax, "shape", "an array in chunks has no shape", err);
    if (status != COFFER_OK) {
        return status;
    }
    status = flax_expect(flax, end, COFFER__MSGPACK_MAP, "an array in chunks has no shape", &object, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (object.length > COFFER__PLAN_MAX_RANK) {
        return flax_fail(flax, "an array has more than 64 dimensions", err);
    }
    tensor->rank = (uint32_t)object.length;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        status = flax_expect_entry(flax, i, err);
        if (status != COFFER_OK) {
            return status;
        }
        status = flax_read_size(flax, end, &tensor->shape[i], err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* All chunks have the first one's dtype. Each becomes a piece, and *size is the sum. */
static coffer_status flax_read_chunk(flax_reading *flax, uint64_t i, coffer__dense *tensor, uint64_t *size,
                                     coffer_error *err)
{
    coffer__msgpack object;
    flax_array chunk;
    coffer_status status = flax_expect_entry(flax, i, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = flax_expect(flax, flax->window->file_size, COFFER__MSGPACK_EXTENSION, "a chunk is no array", &object, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (object.type != FLAX_ARRAY) {
        return flax_fail(flax, "a chunk is no array", err);
    }
    status = flax_read_array(flax, object.length, &chunk, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (chunk.tensor.rank != 1 || (i > 0 && chunk.tensor.type != tensor->type)) {
        return flax_fail(flax, "the chunks of an array do not fit together", err);
    }
    tensor->type = chunk.tensor.type;
    tensor->dtype = chunk.tensor.dtype;
    tensor->bits = chunk.tensor.bits;
    tensor->complex128 = chunk.tensor.complex128;
    const coffer__import_plan_piece piece = { .offset = chunk.data, .stored_size = chunk.size, .size = chunk.size };
    /* Each lies in the file for itself, so that the sum does not wrap. */
    *size += chunk.size;
    return flax->rows.wants->scan ? COFFER_OK : coffer__import_plan_put_piece(flax->rows.plan, &piece, err);
}

static coffer_status flax_put_chunked(flax_reading *flax, coffer__dense *tensor, uint64_t size, uint64_t chunks,
                                      coffer_error *err)
{
    uint64_t whole = 0;
    uint32_t name = 0;
    uint32_t storage = 0;
    if (!coffer__dense_size(tensor, &whole) || whole != size) {
        const coffer_status status =
            flax_fail(flax, "the chunks of an array have other bytes than its sizes make", err);
        return coffer__fail_sizes(err, status, whole, size);
    }
    if (flax->rows.wants->scan) {
        return COFFER_OK;
    }
    coffer_status status = coffer__import_plan_put_text(flax->rows.plan, tensor->name, tensor->name_len, &name, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__import_plan_put_storage(flax->rows.plan, (uint32_t)chunks, name, &storage, err);
    return status == COFFER_OK ? coffer__dense_put(&flax->rows, tensor, storage, err) : status;
}

/* The whole of it, from its first key on: such a map has these three entries in this order. */
static coffer_status flax_read_chunked(flax_reading *flax, uint64_t pairs, coffer_error *err)
{
    const uint64_t end = flax->window->file_size;
    uint64_t size = 0;
    coffer__msgpack object;
    coffer__dense tensor = { .at = flax->at };
    coffer_status status = flax_expect_key(flax, FLAX_CHUNKED, "an array in chunks does not say so", err);
    if (status != COFFER_OK) {
        return status;
    }
    status = flax_expect(flax, end, COFFER__MSGPACK_BOOL, "an array in chunks does not say so", &object, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (pairs != 3 || object.number == 0) {
        return flax_fail(flax, "an array in chunks has other entries than three", err);
    }
    status = flax_read_chunked_shape(flax, &tensor, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = flax_expect_key(flax, "chunks", "an array in chunks has no chunks", err);
    if (status != COFFER_OK) {
        return status;
    }
    status = flax_expect(flax, end, COFFER__MSGPACK_MAP, "an array in chunks has no chunks", &object, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (object.length == 0) {
        return flax_fail(flax, "an array in chunks has no chunks", err);
    }
    const uint64_t chunks = object.length;
    for (uint64_t i = 0; i < chunks && status == COFFER_OK; i++) {
        status = flax_read_chunk(flax, i, &tensor, &size, err);
    }
    flax_name(flax, &tensor);
    return status == COFFER_OK ? flax_put_chunked(flax, &tensor, size, chunks, err)
                               : coffer__fail_tensor(err, status, tensor.name, tensor.name_len);
}

/* ---- containers -------------------------------------------------------------------------------------------------- */

/* Whether the map that begins here is an array in chunks: its first key says so. */
static coffer_status flax_is_chunked(flax_reading *flax, bool *chunked, coffer_error *err)
{
    static const char key[] = FLAX_CHUNKED;
    const uint8_t *bytes = NULL;
    size_t size = 0;
    const coffer_status status =
        coffer__file_window_peek(flax->window, flax->at, flax->window->file_size, sizeof key, &bytes, &size, err);
    /* A text of 25 bytes is b9 and these bytes. */
    *chunked = status == COFFER_OK && size == sizeof key && bytes[0] == (0xa0 | (sizeof key - 1)) &&
               memcmp(bytes + 1, key, sizeof key - 1) == 0;
    return status;
}

static coffer_status flax_begin_container(flax_reading *flax, const coffer__msgpack *object, coffer_error *err)
{
    const bool is_map = object->kind == COFFER__MSGPACK_MAP;
    bool chunked = false;
    if (is_map) {
        const coffer_status status = flax_is_chunked(flax, &chunked, err);
        if (status != COFFER_OK || chunked) {
            return status == COFFER_OK ? flax_read_chunked(flax, object->length, err) : status;
        }
    }
    if (flax->open_count == FLAX_DEPTH) {
        return flax_fail(flax, "maps lie within each other more than 1,000 deep", err);
    }
    flax_open *open = coffer__grow_array(flax->rows.plan->allocator, flax->open, flax->open_count, &flax->open_capacity,
                                         sizeof *open, err);
    if (open == NULL) {
        return COFFER_ERR_MEMORY;
    }
    flax->open = open;
    open[flax->open_count++] = (flax_open){
        .count = object->length, .path_len = flax->path.used, .number = flax->containers++, .is_map = is_map
    };
    return COFFER_OK;
}

/* Keeps a key, so that a second one of the same map is found at the end. */
static coffer_status flax_keep_key(flax_reading *flax, uint32_t map, const char *key, size_t key_len, coffer_error *err)
{
    flax_key *keys = coffer__grow_array(flax->rows.plan->allocator, flax->keys, flax->key_count, &flax->key_capacity,
                                        sizeof *keys, err);
    if (keys == NULL) {
        return COFFER_ERR_MEMORY;
    }
    flax->keys = keys;
    flax_key *kept = &keys[flax->key_count++];
    kept->map = map;
    return coffer__import_plan_put_text(flax->rows.plan, key, key_len, &kept->text, err);
}

/* The name of the next entry: that of the container, and its own key or number after a dot. */
static coffer_status flax_name_entry(flax_reading *flax, const flax_open *open, coffer_error *err)
{
    char digits[20];
    const char *key = digits;
    size_t key_len = 0;
    flax->path.used = open->path_len;
    if (!open->is_map) {
        key_len = coffer__write_u64(digits, open->next);
    } else {
        coffer_status status = flax_text(flax, flax->window->file_size, FLAX_MAX_KEY, &key, &key_len, err);
        if (status != COFFER_OK) {
            return status;
        }
        if (coffer__utf8_valid_len(key, key_len) != key_len) {
            return flax_fail(flax, "a key is not UTF-8", err);
        }
        status = flax_keep_key(flax, open->number, key, key_len, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    coffer__write(&flax->path, ".", flax->path.used > 0);
    coffer__write(&flax->path, key, key_len);
    return flax->path.failed ? coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the name of a tensor") : COFFER_OK;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static coffer_status flax_read_object(flax_reading *flax, coffer_error *err)
{
    coffer__msgpack object;
    coffer_status status = flax_take(flax, flax->window->file_size, &object, err);
    if (status != COFFER_OK) {
        return status;
    }
    switch (object.kind) {
    case COFFER__MSGPACK_MAP:
    case COFFER__MSGPACK_ARRAY:
        return flax_begin_container(flax, &object, err);
    case COFFER__MSGPACK_EXTENSION:
        if (object.type == FLAX_ARRAY || object.type == FLAX_SCALAR) {
            return flax_put_array(flax, object.length, err);
        }
        status = object.type == FLAX_COMPLEX ? COFFER_OK : flax_put_other(flax, &object, err);
        flax->at += object.length;
        return status;
    case COFFER__MSGPACK_TEXT:
    case COFFER__MSGPACK_BYTES:
        flax->at += object.length;
        return COFFER_OK;
    default:
        return flax_put_scalar(flax, &object, err);
    }
}

/* One object, whatever is in it. A container is closed when its last entry has been read. */
static coffer_status flax_read_all(flax_reading *flax, coffer_error *err)
{
    coffer_status status = flax_read_object(flax, err);
    while (status == COFFER_OK && flax->open_count > 0) {
        flax_open *open = &flax->open[flax->open_count - 1];
        if (open->next == open->count) {
            flax->open_count--;
            continue;
        }
        status = flax_name_entry(flax, open, err);
        if (status != COFFER_OK) {
            return status;
        }
        open->next++;
        status = flax_read_object(flax, err);
    }
    if (status == COFFER_OK && flax->at != flax->window->file_size) {
        return flax_fail(flax, "bytes follow its only object", err);
    }
    return status;
}

/* The keys of a plan in an order in which the same keys of a map are neighbours. */
static bool flax_key_before(const void *ctx, uint32_t a, uint32_t b)
{
    const flax_reading *flax = ctx;
    const flax_key *x = &flax->keys[a];
    const flax_key *y = &flax->keys[b];
    return x->map != y->map ? x->map < y->map
                            : coffer__import_plan_compare_texts(flax->rows.plan, x->text, y->text) < 0;
}

/* flax would take the last of two entries with the same key, another program perhaps the first. */
static coffer_status flax_check_keys(const flax_reading *flax, coffer_error *err)
{
    const coffer_allocator *allocator = flax->rows.plan->allocator;
    uint32_t *order = coffer__alloc_array(allocator, flax->key_count, sizeof *order, err);
    if (order == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < flax->key_count; i++) {
        order[i] = (uint32_t)i;
    }
    coffer__sort(order, flax->key_count, flax_key_before, flax);
    coffer_status status = COFFER_OK;
    for (size_t i = 1; i < flax->key_count && status == COFFER_OK; i++) {
        const flax_key *key = &flax->keys[order[i]];
        if (!flax_key_before(flax, order[i - 1], order[i])) {
            size_t len = 0;
            const char *text = coffer__import_plan_text(flax->rows.plan, key->text, &len);
            status = coffer__fail(err, COFFER_ERR_DUPLICATE_KEY, "a map has the key %q twice", text, len);
        }
    }
    coffer__free_array(allocator, order, flax->key_count, sizeof *order);
    return status;
}

static coffer_status flax_read_model(flax_reading *flax, coffer_error *err)
{
    coffer_status status = coffer__import_plan_put_pair(flax->rows.plan, "format", 6, "flax", 4, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = flax_read_all(flax, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = flax_check_keys(flax, err);
    return status == COFFER_OK && !flax->rows.wants->scan ? coffer__dense_finish(&flax->rows, err) : status;
}

static coffer_status flax_read(const coffer__input_files *input, const coffer__wants *wants, coffer__import_plan *plan,
                               coffer_error *err)
{
    const coffer_allocator *allocator = plan->allocator;
    flax_reading flax = { .path = { .allocator = allocator } };
    coffer__dense_begin(&flax.rows, wants, plan);
    flax.window = coffer__file_window_new(input, allocator, err);
    const coffer_status status = flax.window != NULL ? flax_read_model(&flax, err) : COFFER_ERR_MEMORY;
    coffer__free(allocator, flax.keys, flax.key_capacity * sizeof *flax.keys);
    coffer__free(allocator, flax.open, flax.open_capacity * sizeof *flax.open);
    coffer__writing_free(&flax.path);
    coffer__file_window_free(flax.window, allocator);
    coffer__dense_free(&flax.rows);
    return status;
}

/* ---- recognising ------------------------------------------------------------------------------------------------- */

/* The head of the next object of the file's beginning; its content may reach beyond that. */
static bool flax_sniff_next(coffer__cursor *in, coffer__msgpack *object)
{
    *object = coffer__msgpack_read(in->base + in->position, coffer__left(in));
    if (object->kind == COFFER__MSGPACK_NONE) {
        return false;
    }
    in->position += object->size;
    return true;
}

/* Goes over a text of the file's beginning that is a key; false for anything else. Only an array in chunks has a key of its
   own kind. */
static bool flax_sniff_key(coffer__cursor *in, bool *chunked)
{
    coffer__msgpack object;
    if (!flax_sniff_next(in, &object) || object.kind != COFFER__MSGPACK_TEXT || object.length > coffer__left(in)) {
        return false;
    }
    const char *text = (const char *)in->base + in->position;
    in->position += (size_t)object.length;
    *chunked = coffer__text_is(text, (size_t)object.length, FLAX_CHUNKED);
    return coffer__utf8_valid_len(text, (size_t)object.length) == object.length;
}

/* Any bytes are an object of some kind, so a file is flax's by its content only if texts and maps alternate until the
   first array begins, as flax begins each. Else the ending of the path has to say so. */
static bool flax_sniff(const uint8_t *head, size_t head_size, const uint8_t *tail, size_t tail_size, const char *path,
                       size_t path_len)
{
    coffer__cursor in = { .base = head, .length = head_size };
    coffer__msgpack object;
    (void)tail;
    (void)tail_size;
    if (!flax_sniff_next(&in, &object) || object.kind != COFFER__MSGPACK_MAP) {
        return false;
    }
    const bool named = coffer__text_ends(path, path_len, ".msgpack");
    bool chunked = false;
    while (object.length > 0 && flax_sniff_key(&in, &chunked) && flax_sniff_next(&in, &object)) {
        const bool array =
            object.kind == COFFER__MSGPACK_EXTENSION && (object.type == FLAX_ARRAY || object.type == FLAX_SCALAR);
        if (chunked || (array && coffer__left(&in) > 0 && in.base[in.position] == 0x93)) {
            return true;
        }
        if (object.kind != COFFER__MSGPACK_MAP) {
            break;
        }
    }
    return named;
}

const coffer__reader coffer__reader_flax = { "flax", "a flax checkpoint (MessagePack)", flax_sniff, flax_read };
