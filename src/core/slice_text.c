/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slices as text, "0:10, :, -1, ..., ::2":
 *
 *   slice     blanks and commas as in Python: [ index, index, … ] with or without the brackets, or nothing at all
 *   index     ...   or   integer   or   start:stop   or   start:stop:step, each of the three present or not
 *   integer   decimal digits with a sign or without, from -2^63 to 2^63-1
 */
#include "bytes.h"
#include "coffer.h"
#include "error.h"

/* Where parsed indices go. The text is parsed twice: first with `indices` NULL to count and check,
   then into the caller's array. */
typedef struct slice_list {
    coffer_index *indices; /* NULL: they are only counted */
    size_t count;
    bool has_ellipsis;
} slice_list;

/* `character` counts from 1, as people do; the error's offset counts bytes from 0. */
static coffer_status slice_syntax(const coffer__cursor *in, coffer_error *err, const char *what)
{
    return coffer__fail_at(err, COFFER_ERR_SLICE_SYNTAX, in->position,
                           "cannot read the slice at character %u: %s; a slice is written like 0:10, :, -1, ..., ::2",
                           (uint64_t)in->position + 1, what);
}

static bool slice_next_in(const coffer__cursor *in, const char *set)
{
    if (coffer__left(in) == 0) {
        return false;
    }
    for (; *set != '\0'; set++) {
        if (in->base[in->position] == (uint8_t)*set) {
            return true;
        }
    }
    return false;
}

static void slice_skip_blanks(coffer__cursor *in)
{
    while (slice_next_in(in, " \t\r\n")) {
        in->position++;
    }
}

/* Consumes blanks and the character `wanted`, when it is the next one. */
static bool slice_accept(coffer__cursor *in, char wanted)
{
    slice_skip_blanks(in);
    const char set[2] = { wanted, '\0' };
    if (!slice_next_in(in, set)) {
        return false;
    }
    in->position++;
    return true;
}

/*
 * Consumes an integer, when there is one: then *present is true. No integer is not an error here,
 * since a range may lack each of its three. INT64_MIN is in range: its magnitude is one more than
 * that of INT64_MAX.
 */
static coffer_status slice_integer(coffer__cursor *in, bool *present, int64_t *value, coffer_error *err)
{
    slice_skip_blanks(in);
    const coffer__cursor begin = *in;
    const bool negative = slice_next_in(in, "-");
    if (negative || slice_next_in(in, "+")) {
        in->position++;
    }
    const size_t digits = in->position;
    const uint64_t limit = (uint64_t)INT64_MAX + (negative ? 1 : 0);
    uint64_t magnitude = 0;
    for (; slice_next_in(in, "0123456789"); in->position++) {
        const uint64_t digit = (uint64_t)(in->base[in->position] - '0');
        if (magnitude > (limit - digit) / 10) {
            return slice_syntax(&begin, err, "the number is beyond 64 bits");
        }
        magnitude = magnitude * 10 + digit;
    }
    *present = in->position > digits;
    if (!*present && digits > begin.position) {
        return slice_syntax(in, err, "a sign without digits");
    }
    *value = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return COFFER_OK;
}

/*
 * The rest of a range, whose first colon was consumed and whose start is set. A range that takes
 * everything in order becomes COFFER_INDEX_ALL, so that callers need to know one spelling of it
 * only.
 */
static coffer_status slice_range(coffer__cursor *in, coffer_index *index, coffer_error *err)
{
    index->kind = COFFER_INDEX_RANGE;
    coffer_status status = slice_integer(in, &index->has_stop, &index->stop, err);
    if (status != COFFER_OK) {
        return status;
    }
    index->step = 1;
    if (slice_accept(in, ':')) {
        bool present = false;
        int64_t step = 0;
        slice_skip_blanks(in);
        const size_t position = in->position;
        status = slice_integer(in, &present, &step, err);
        if (status != COFFER_OK) {
            return status;
        }
        if (present && step == 0) {
            return coffer__fail_at(err, COFFER_ERR_STEP, position, "a slice's step cannot be 0 (character %u)",
                                   (uint64_t)position + 1);
        }
        index->step = present ? step : 1;
    }
    if (!index->has_start && !index->has_stop && index->step == 1) {
        *index = (coffer_index){ .kind = COFFER_INDEX_ALL };
    }
    return COFFER_OK;
}

/* One index: `...`, an integer, or a range. The integer is read before it is known which of the two
   it begins; a colon after it decides. */
static coffer_status slice_item(coffer__cursor *in, slice_list *list, coffer_error *err)
{
    coffer_index index = { .kind = COFFER_INDEX_AT };
    slice_skip_blanks(in);
    if (coffer__next_is(in, "...", 3)) {
        if (list->has_ellipsis) {
            return slice_syntax(in, err, "a second ellipsis");
        }
        list->has_ellipsis = true;
        in->position += 3;
        index.kind = COFFER_INDEX_ELLIPSIS;
    } else {
        bool has_start = false;
        coffer_status status = slice_integer(in, &has_start, &index.start, err);
        if (status != COFFER_OK) {
            return status;
        }
        if (slice_accept(in, ':')) {
            index.has_start = has_start;
            status = slice_range(in, &index, err);
            if (status != COFFER_OK) {
                return status;
            }
        } else if (!has_start) {
            return slice_syntax(in, err, "an index should be here");
        }
    }
    if (list->indices != NULL) {
        list->indices[list->count] = index;
    }
    list->count++;
    return COFFER_OK;
}

/* The grammar at the head of this file. Brackets are optional, but an opening one has to be closed. */
static coffer_status slice_text(const char *text, size_t text_len, slice_list *list, coffer_error *err)
{
    coffer__cursor in = { .base = (const uint8_t *)text, .length = text_len, .position = 0 };
    const bool bracket = slice_accept(&in, '[');
    slice_skip_blanks(&in);
    bool more = coffer__left(&in) > 0 && !slice_next_in(&in, "]");
    while (more) {
        coffer_status status = slice_item(&in, list, err);
        if (status != COFFER_OK) {
            return status;
        }
        more = slice_accept(&in, ',');
        slice_skip_blanks(&in);
        /* As in Python, a comma may follow the last index. */
        more = more && coffer__left(&in) > 0 && !slice_next_in(&in, "]");
    }
    if (bracket && !slice_accept(&in, ']')) {
        return slice_syntax(
            &in, err, coffer__left(&in) == 0 ? "the closing bracket is missing" : "a comma or the end should be here");
    }
    slice_skip_blanks(&in);
    if (coffer__left(&in) > 0) {
        return slice_syntax(&in, err,
                            slice_next_in(&in, "]") ? "a bracket too many" : "a comma or the end should be here");
    }
    return COFFER_OK;
}

/* `*count` is the space on entry and the number of indices afterwards. Where the space is too small,
   the call fails with COFFER_ERR_BUFFER_SIZE and tells in err->expected how many there are. */
coffer_status coffer_slice_parse(const char *text, size_t text_len, coffer_index *indices, size_t *count,
                                 coffer_error *err)
{
    if (count == NULL || (text == NULL && text_len > 0) || (indices == NULL && *count > 0)) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "coffer_slice_parse was called with a NULL it does not allow");
    }
    /* The first pass only looks, so that a failure leaves the caller's entries as they were. */
    slice_list list = { .indices = NULL };
    const coffer_status status = slice_text(text, text_len, &list, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (list.count > *count) {
        coffer__fail(err, COFFER_ERR_BUFFER_SIZE, "the slice has %u indices and there is room for %u",
                     (uint64_t)list.count, (uint64_t)*count);
        return coffer__fail_sizes(err, COFFER_ERR_BUFFER_SIZE, list.count, *count);
    }
    list = (slice_list){ .indices = indices };
    (void)slice_text(text, text_len, &list, NULL);
    *count = list.count;
    return COFFER_OK;
}
