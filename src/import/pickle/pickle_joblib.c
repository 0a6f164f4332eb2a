/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays in the pickles of joblib: see pickle_joblib.h. */
#include "pickle_joblib.h"

#include "alloc.h"
#include "checked.h"
#include "error.h"
#include "pickle_follow.h"
#include "sort.h"
#include "text.h"

#include <string.h>

#define JOBLIB_MAX_TYPE 16u        /* characters of a type */
#define JOBLIB_OBJECTS 1           /* of a type's flags: elements are objects */
#define JOBLIB_STATE 9u            /* items of a type's state, at most */
#define JOBLIB_STACK ((size_t)128) /* values that a loader may have when it goes on */

/* What an object says of its array. */
typedef struct joblib_array {
    uint64_t elements;
    uint64_t element_size;
    bool objects;
    bool padded;
} joblib_array;

static coffer_status joblib_refuse(uint64_t position, const char *what, coffer_error *err)
{
    return coffer__fail_at(err, COFFER_ERR_PICKLE, position, "at byte %u of the pickle, %s", position, what);
}

/* ---- values -------------------------------------------------------------------------------------------------------- */

static bool joblib_is_global(const coffer__pickle *pickle, coffer__value value, const char *module, const char *name)
{
    const coffer__node *node = coffer__pickle_node(pickle, value);
    return node != NULL && node->kind == COFFER__VALUE_GLOBAL &&
           coffer__same_text(coffer__pickle_module(pickle, value), module) &&
           coffer__same_text(coffer__pickle_name(pickle, value), name);
}

bool coffer__joblib_is_class(const coffer__pickle *pickle, coffer__value value)
{
    return joblib_is_global(pickle, value, "joblib.numpy_pickle", "NumpyArrayWrapper");
}

/* Item `i` of a tuple; 0: there is none. */
static coffer__value joblib_item(const coffer__pickle *pickle, coffer__value tuple, size_t i)
{
    const coffer__node *node = coffer__pickle_node(pickle, tuple);
    coffer__value value = 0;
    if (node == NULL || node->kind != COFFER__VALUE_TUPLE || i >= node->count) {
        return 0;
    }
    uint32_t link = node->first;
    for (size_t at = 0; at <= i; at++) {
        value = coffer__pickle_item(pickle, &link);
    }
    return value;
}

static bool joblib_number(const coffer__pickle *pickle, coffer__value value, uint64_t *number)
{
    const coffer__node *node = coffer__pickle_node(pickle, value);
    const bool whole = node != NULL && node->kind == COFFER__VALUE_INT && node->as.integer >= 0;
    *number = whole ? (uint64_t)node->as.integer : 0;
    return whole;
}

static bool joblib_is_none(const coffer__pickle *pickle, coffer__value value)
{
    const coffer__node *node = coffer__pickle_node(pickle, value);
    return node != NULL && node->kind == COFFER__VALUE_NONE;
}

/* ---- types --------------------------------------------------------------------------------------------------------- */

/* "f8": a letter and bytes; of "U3" characters of four bytes. False for what NumPy has more to say of. */
static bool joblib_read_type(const char *text, size_t len, char *letter, uint64_t *size)
{
    static const char letters[] = "biufcmMOSUV";
    *letter = len > 1 && len <= JOBLIB_MAX_TYPE ? text[0] : 0;
    *size = 0;
    if (*letter == 0 || memchr(letters, *letter, sizeof letters - 1) == NULL) {
        return false;
    }
    for (size_t i = 1; i < len; i++) {
        if (text[i] < '0' || text[i] > '9' || *size > UINT32_MAX) {
            return false;
        }
        *size = *size * 10 + (uint64_t)(text[i] - '0');
    }
    *size *= *letter == 'U' ? 4 : 1;
    return true;
}

/* The state of a type: (version, order, subarray, names, fields, size, alignment, flags, …). The size counts for types that
   have one of their own. */
static bool joblib_judge_state(const coffer__pickle *pickle, coffer__value state, char letter, uint64_t size,
                               bool *objects)
{
    const coffer__node *node = coffer__pickle_node(pickle, state);
    const bool own = letter == 'S' || letter == 'U' || letter == 'V';
    uint64_t stated = 0;
    uint64_t flags = 0;
    if (node == NULL || node->kind != COFFER__VALUE_TUPLE || node->count < 8 || node->count > JOBLIB_STATE ||
        !joblib_is_none(pickle, joblib_item(pickle, state, 2)) ||
        !joblib_number(pickle, joblib_item(pickle, state, 7), &flags)) {
        return false;
    }
    *objects = (flags & JOBLIB_OBJECTS) != 0;
    return *objects == (letter == 'O') &&
           (!own || (joblib_number(pickle, joblib_item(pickle, state, 5), &stated) && stated == size));
}

/* numpy.dtype("f8", False, True) and its state. */
static bool joblib_dtype(const coffer__pickle *pickle, coffer__value value, joblib_array *array)
{
    const coffer__node *node = coffer__pickle_node(pickle, value);
    if (node == NULL || node->kind != COFFER__VALUE_CALL || coffer__node_attributes(node) != 0) {
        return false;
    }
    uint32_t link = node->first;
    const coffer__value callable = coffer__pickle_item(pickle, &link);
    const coffer__value arguments = link != 0 ? coffer__pickle_item(pickle, &link) : 0;
    size_t len = 0;
    char letter = 0;
    const coffer__value type = joblib_item(pickle, arguments, 0);
    const char *text = type != 0 ? coffer__pickle_bytes_of(pickle, type, &len) : NULL;
    return link == 0 && joblib_is_global(pickle, callable, "numpy", "dtype") && text != NULL &&
           joblib_read_type(text, len, &letter, &array->element_size) &&
           joblib_judge_state(pickle, coffer__node_state(node), letter, array->element_size, &array->objects);
}

/* ---- the object ---------------------------------------------------------------------------------------------------- */

static bool joblib_shape(const coffer__pickle *pickle, coffer__value shape, uint64_t *elements)
{
    const coffer__node *node = coffer__pickle_node(pickle, shape);
    uint64_t size = 0;
    *elements = 1;
    if (node == NULL || node->kind != COFFER__VALUE_TUPLE) {
        return false;
    }
    for (uint32_t link = node->first; link != 0;) {
        if (!joblib_number(pickle, coffer__pickle_item(pickle, &link), &size) ||
            !coffer__mul_u64(*elements, size, elements) || *elements > INT64_MAX) {
            return false;
        }
    }
    return true;
}

/* Exactly the members that joblib writes: any other could be a method that is called instead of its own. */
static bool joblib_read_state(const coffer__pickle *pickle, coffer__value state, joblib_array *array)
{
    static const char *const names[] = { "subclass", "shape",      "order",
                                         "dtype",    "allow_mmap", "numpy_array_alignment_bytes" };
    const coffer__node *node = coffer__pickle_node(pickle, state);
    coffer__value members[sizeof names / sizeof *names];
    size_t found = 0;
    if (node == NULL || node->kind != COFFER__VALUE_DICT) {
        return false;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        members[i] = coffer__pickle_get(pickle, state, names[i]);
        found += members[i] != 0;
    }
    array->padded = members[5] != 0 && !joblib_is_none(pickle, members[5]);
    return node->count == 2 * found && joblib_shape(pickle, members[1], &array->elements) &&
           joblib_dtype(pickle, members[3], array);
}

/* Only what NEWOBJ made of the class and of nothing else, and what has got its first state. */
static bool joblib_read_object(const coffer__joblib *joblib, const coffer__pickle *pickle, coffer__value value,
                               joblib_array *array)
{
    const coffer__node *node = coffer__pickle_node(pickle, value);
    uint32_t link = node->first;
    (void)coffer__pickle_item(pickle, &link);
    const coffer__node *arguments = coffer__pickle_node(pickle, link != 0 ? coffer__pickle_item(pickle, &link) : 0);
    return node->call == COFFER__CALL_NEW && link == 0 && arguments != NULL && arguments->kind == COFFER__VALUE_TUPLE &&
           arguments->count == 0 && coffer__node_attributes(node) == 0 &&
           (joblib->count == 0 || joblib->arrays[joblib->count - 1] < value) &&
           joblib_read_state(pickle, node->as.object.state, array);
}

/* ---- other loaders ------------------------------------------------------------------------------------------------- */

/* A stream of which a loader goes on at byte `from`, with values of any kind on its stack. */
typedef struct joblib_rest {
    const coffer__pickle_bytes *of;
    uint64_t from;
    uint8_t before[4 * JOBLIB_STACK + 8];
    size_t before_size;
} joblib_rest;

static coffer_status joblib_rest_read(void *ctx, uint64_t offset, void *bytes, size_t size, coffer_error *err)
{
    const joblib_rest *rest = ctx;
    size_t done = 0;
    while (done < size && offset + done < rest->before_size) {
        ((uint8_t *)bytes)[done] = rest->before[(size_t)offset + done];
        done++;
    }
    return done == size ? COFFER_OK
                        : rest->of->read(rest->of->ctx, rest->from + (offset + done - rest->before_size),
                                         (uint8_t *)bytes + done, size - done, err);
}

/* Whether every loader that goes on there stops before it imports or calls anything. */
static coffer_status joblib_stops(const coffer__joblib *joblib, uint64_t from, bool *stops, coffer_error *err)
{
    static const char memo[] = "V\np0\nQ";
    coffer__followed followed = { .complete = false };
    joblib_rest rest = { .of = &joblib->bytes, .from = from };
    memcpy(rest.before, memo, sizeof memo - 1);
    rest.before_size = sizeof memo - 1;
    /* Marks among texts, which may be names. */
    for (size_t i = 0; i < JOBLIB_STACK; i++) {
        static const char text[] = "(V\n";
        const size_t skipped = i % 16 != 0;
        memcpy(rest.before + rest.before_size, text + skipped, sizeof text - 1 - skipped);
        rest.before_size += sizeof text - 1 - skipped;
    }
    const coffer__pickle_bytes stream = { .ctx = &rest,
                                          .read = joblib_rest_read,
                                          .size = rest.before_size + (joblib->bytes.size - from) };
    const coffer_status status = coffer__pickle_follow(&followed, &stream, rest.before_size, joblib->allocator, err);
    *stops = followed.outcome == COFFER__FOLLOWED_TO_END;
    return status;
}

/* ---- bytes --------------------------------------------------------------------------------------------------------- */

/* An array of objects is a pickle. A loader that knows no such arrays would go on in it, with what it has in its memo, unless
   the bytes of numbers have stopped it before. */
static coffer_status joblib_put_objects(coffer__joblib *joblib, uint64_t position, uint64_t *size, coffer_error *err)
{
    coffer__pickle *inner = NULL;
    uint64_t end = 0;
    if (!joblib->stopped) {
        return joblib_refuse(position, "an array of objects is what other loaders than joblib go on in", err);
    }
    const coffer_status status =
        coffer__pickle_run(&inner, &joblib->bytes, position, joblib->allocator, joblib->budget, NULL, &end, err);
    coffer__pickle_free(inner);
    if (status != COFFER_OK) {
        return status;
    }
    coffer__joblib_objects *objects = coffer__grow_array(joblib->allocator, joblib->objects, joblib->object_count,
                                                         &joblib->object_capacity, sizeof *objects, err);
    if (objects == NULL) {
        return COFFER_ERR_MEMORY;
    }
    *size = end - position;
    joblib->objects = objects;
    objects[joblib->object_count++] = (coffer__joblib_objects){ position, *size };
    return COFFER_OK;
}

/* Whether the loaders stop that take bytes of the first arrays for opcodes: those that know no such arrays, at the first byte;
   those that know no padding and begin earlier, in the last ones. */
static coffer_status joblib_stops_all(const coffer__joblib *joblib, uint64_t position, uint64_t before, uint64_t bytes,
                                      bool *stops, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    *stops = true;
    if (!joblib->stopped) {
        status = joblib_stops(joblib, position, stops, err);
    }
    return status == COFFER_OK && *stops && before > 0 && !joblib->padded
               ? joblib_stops(joblib, position + bytes, stops, err)
               : status;
}

/* The bytes of numbers. */
static coffer_status joblib_put_numbers(coffer__joblib *joblib, const joblib_array *array, uint64_t position,
                                        uint64_t *size, coffer_error *err)
{
    uint8_t padding = 0;
    uint64_t bytes = 0;
    bool stops = true;
    const uint64_t left = joblib->bytes.size - position;
    coffer_status status =
        array->padded && left > 0 ? joblib->bytes.read(joblib->bytes.ctx, position, &padding, 1, err) : COFFER_OK;
    const uint64_t before = array->padded ? 1 + (uint64_t)padding : 0;
    if (status != COFFER_OK) {
        return status;
    }
    if (!coffer__mul_u64(array->elements, array->element_size, &bytes) || before > left || bytes > left - before) {
        return joblib_refuse(position, "an array reaches past the end; get the file again", err);
    }
    *size = before + bytes;
    status = *size > 0 ? joblib_stops_all(joblib, position, before, bytes, &stops, err) : status;
    joblib->padded = joblib->padded || before > 0;
    joblib->stopped = joblib->stopped || *size > 0;
    return status != COFFER_OK || stops
               ? status
               : joblib_refuse(position, "the bytes of an array are a pickle to other loaders than joblib", err);
}

coffer_status coffer__joblib_own_bytes(void *ctx, const coffer__pickle *pickle, coffer__value value, uint64_t position,
                                       uint64_t *size, coffer_error *err)
{
    coffer__joblib *joblib = ctx;
    joblib_array array = { .elements = 0 };
    const coffer__node *node = coffer__pickle_node(pickle, value);
    *size = 0;
    if (node->kind != COFFER__VALUE_CALL) {
        return COFFER_OK;
    }
    uint32_t link = node->first;
    if (!coffer__joblib_is_class(pickle, coffer__pickle_item(pickle, &link))) {
        return COFFER_OK;
    }
    if (!joblib_read_object(joblib, pickle, value, &array)) {
        return joblib_refuse(position, "an array is not described as joblib does it", err);
    }
    const coffer_status status = array.objects ? joblib_put_objects(joblib, position, size, err)
                                               : joblib_put_numbers(joblib, &array, position, size, err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer__value *arrays =
        coffer__grow_array(joblib->allocator, joblib->arrays, joblib->count, &joblib->capacity, sizeof *arrays, err);
    if (arrays == NULL) {
        return COFFER_ERR_MEMORY;
    }
    joblib->arrays = arrays;
    arrays[joblib->count++] = value;
    return COFFER_OK;
}

/* ---- afterwards ---------------------------------------------------------------------------------------------------- */

static int joblib_compare(const void *ctx, size_t i, const void *wanted)
{
    const coffer__value *arrays = ctx;
    const coffer__value value = *(const coffer__value *)wanted;
    return arrays[i] < value ? -1 : arrays[i] > value;
}

bool coffer__joblib_has(const coffer__joblib *joblib, coffer__value value)
{
    size_t found = 0;
    return coffer__find_sorted(joblib->count, joblib_compare, joblib->arrays, &value, &found);
}

void coffer__joblib_free(coffer__joblib *joblib)
{
    coffer__free(joblib->allocator, joblib->arrays, joblib->capacity * sizeof *joblib->arrays);
    coffer__free(joblib->allocator, joblib->objects, joblib->object_capacity * sizeof *joblib->objects);
    joblib->arrays = NULL;
    joblib->objects = NULL;
}
