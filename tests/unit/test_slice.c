/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slices: their text, their shape and their plan. A slice that takes the wrong bytes looks like any other, so plans are
 * compared, byte for byte and for thousands of random shapes and indices, with an oracle that applies Python's rules
 * one element at a time.
 */
#include "support_cmocka.h"

#include "coffer.h"
#include "slice.h"

#include <stdlib.h>
#include <string.h>

/* ---- text -------------------------------------------------------------------------------------------------------- */

#define MAX 8

static size_t parse_good(const char *text, coffer_index *indices)
{
    coffer_error err;
    size_t count = MAX;
    const coffer_status status = coffer_slice_parse(text, strlen(text), indices, &count, &err);
    if (status != COFFER_OK) {
        fail_msg("\"%s\": %s", text, err.message);
    }
    return count;
}

static void assert_index(const coffer_index *index, coffer_index_kind kind, bool has_start, int64_t start,
                         bool has_stop, int64_t stop, int64_t step)
{
    assert_int_equal(index->kind, kind);
    assert_int_equal(index->has_start, has_start);
    assert_int_equal(index->has_stop, has_stop);
    assert_true(index->start == start);
    assert_true(index->stop == stop);
    assert_true(index->step == step);
}

static void text_every_form(void **state)
{
    (void)state;
    coffer_index got[MAX];
    assert_int_equal(parse_good("0:10, :, -1, ..., ::2", got), 5);
    assert_index(&got[0], COFFER_INDEX_RANGE, true, 0, true, 10, 1);
    assert_index(&got[1], COFFER_INDEX_ALL, false, 0, false, 0, 0);
    assert_index(&got[2], COFFER_INDEX_AT, false, -1, false, 0, 0);
    assert_index(&got[3], COFFER_INDEX_ELLIPSIS, false, 0, false, 0, 0);
    assert_index(&got[4], COFFER_INDEX_RANGE, false, 0, false, 0, 2);
    assert_int_equal(parse_good(" [\t-3 : ,: +4:\n, 5 :6: -7 , :: ] \r", got), 4);
    assert_index(&got[0], COFFER_INDEX_RANGE, true, -3, false, 0, 1);
    assert_index(&got[1], COFFER_INDEX_RANGE, false, 0, true, 4, 1);
    assert_index(&got[2], COFFER_INDEX_RANGE, true, 5, true, 6, -7);
    assert_index(&got[3], COFFER_INDEX_ALL, false, 0, false, 0, 0);
    assert_int_equal(parse_good("0000000000000000000000000000012", got), 1);
    assert_index(&got[0], COFFER_INDEX_AT, false, 12, false, 0, 0);
    assert_int_equal(parse_good("[1 , ]", got), 1);
    assert_index(&got[0], COFFER_INDEX_AT, false, 1, false, 0, 0);
    assert_int_equal(parse_good("-0,", got), 1);
    assert_index(&got[0], COFFER_INDEX_AT, false, 0, false, 0, 0);
    assert_int_equal(parse_good("9223372036854775807:-9223372036854775808:-9223372036854775808", got), 1);
    assert_index(&got[0], COFFER_INDEX_RANGE, true, INT64_MAX, true, INT64_MIN, INT64_MIN);
}

static void text_of_no_index(void **state)
{
    (void)state;
    const char *const texts[] = { "", "[]", "  ", " [ ] " };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        size_t count = 0;
        assert_int_equal(coffer_slice_parse(texts[i], strlen(texts[i]), NULL, &count, NULL), COFFER_OK);
        assert_int_equal(count, 0);
    }
    size_t count = 0;
    assert_int_equal(coffer_slice_parse(NULL, 0, NULL, &count, NULL), COFFER_OK);
}

static void text_errors_have_positions(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        coffer_status status;
        uint64_t offset;
    } cases[] = {
        { ",", COFFER_ERR_SLICE_SYNTAX, 0 },
        { "1,,2", COFFER_ERR_SLICE_SYNTAX, 2 },
        { "x", COFFER_ERR_SLICE_SYNTAX, 0 },
        { "1 2", COFFER_ERR_SLICE_SYNTAX, 2 },
        { "1:2:3:4", COFFER_ERR_SLICE_SYNTAX, 5 },
        { "..", COFFER_ERR_SLICE_SYNTAX, 0 },
        { "....", COFFER_ERR_SLICE_SYNTAX, 3 },
        { "..., ...", COFFER_ERR_SLICE_SYNTAX, 5 },
        { "[1", COFFER_ERR_SLICE_SYNTAX, 2 },
        { "[", COFFER_ERR_SLICE_SYNTAX, 1 },
        { "[,]", COFFER_ERR_SLICE_SYNTAX, 1 },
        { "1]", COFFER_ERR_SLICE_SYNTAX, 1 },
        { "[1]]", COFFER_ERR_SLICE_SYNTAX, 3 },
        { "[[1]]", COFFER_ERR_SLICE_SYNTAX, 1 },
        { "-", COFFER_ERR_SLICE_SYNTAX, 1 },
        { "- 1", COFFER_ERR_SLICE_SYNTAX, 1 },
        { "1:-", COFFER_ERR_SLICE_SYNTAX, 3 },
        { "--1", COFFER_ERR_SLICE_SYNTAX, 1 },
        { "1.5", COFFER_ERR_SLICE_SYNTAX, 1 },
        { "0x10", COFFER_ERR_SLICE_SYNTAX, 1 },
        { "None", COFFER_ERR_SLICE_SYNTAX, 0 },
        { "3, 9223372036854775808", COFFER_ERR_SLICE_SYNTAX, 3 },
        { "-9223372036854775809", COFFER_ERR_SLICE_SYNTAX, 0 },
        { "1:99999999999999999999999", COFFER_ERR_SLICE_SYNTAX, 2 },
        { "1:2:-", COFFER_ERR_SLICE_SYNTAX, 5 },
        { "1:2: 9223372036854775808", COFFER_ERR_SLICE_SYNTAX, 5 },
        { "[1 2]", COFFER_ERR_SLICE_SYNTAX, 3 },
        { "1::0", COFFER_ERR_STEP, 3 },
        { ":: -0", COFFER_ERR_STEP, 3 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        coffer_index indices[MAX];
        coffer_index before[MAX];
        memset(indices, 0x5A, sizeof indices);
        memcpy(before, indices, sizeof before);
        coffer_error err;
        size_t count = MAX;
        const coffer_status status = coffer_slice_parse(cases[i].text, strlen(cases[i].text), indices, &count, &err);
        if (status != cases[i].status || err.code != status || err.offset != cases[i].offset) {
            fail_msg("\"%s\": status %d at %llu: %s", cases[i].text, (int)status, (unsigned long long)err.offset,
                     err.message);
        }
        assert_int_equal(count, MAX);
        assert_memory_equal(indices, before, sizeof before);
    }
}

/* Characters are counted from 1 in messages. */
static void text_errors_say_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *where;
        const char *what;
    } cases[] = {
        { "1 2", "at character 3:", ": a comma or the end should be here;" },
        { "1]", "at character 2:", ": a bracket too many;" },
        { "[1,2", "at character 5:", ": the closing bracket is missing;" },
        { "[1 2]", "at character 4:", ": a comma or the end should be here;" },
        { "1,::0", "(character 5)", "step cannot be 0" },
        { "x", "at character 1:", ": an index should be here;" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        coffer_error err;
        coffer_index indices[4];
        size_t count = 4;
        assert_int_not_equal(coffer_slice_parse(cases[i].text, strlen(cases[i].text), indices, &count, &err),
                             COFFER_OK);
        assert_non_null(strstr(err.message, cases[i].where));
        assert_non_null(strstr(err.message, cases[i].what));
    }
    coffer_error err;
    size_t count = 0;
    assert_int_equal(coffer_slice_parse("1,2,3", 5, NULL, &count, &err), COFFER_ERR_BUFFER_SIZE);
    assert_int_equal(err.code, COFFER_ERR_BUFFER_SIZE);
    assert_string_equal(err.message, "the slice has 3 indices and there is room for 0");
}

static void text_with_nul_is_no_slice(void **state)
{
    (void)state;
    coffer_error err;
    size_t count = 0;
    assert_int_equal(coffer_slice_parse("\0", 1, NULL, &count, &err), COFFER_ERR_SLICE_SYNTAX);
    assert_int_equal(err.offset, 0);
}

static void text_that_does_not_fit(void **state)
{
    (void)state;
    coffer_error err;
    coffer_index two[2];
    size_t count = 2;
    assert_int_equal(coffer_slice_parse("1,2,3,4", 7, two, &count, &err), COFFER_ERR_BUFFER_SIZE);
    assert_int_equal(err.expected, 4);
    assert_int_equal(err.actual, 2);
    assert_int_equal(count, 2);
    count = 0;
    assert_int_equal(coffer_slice_parse("1", 1, NULL, &count, &err), COFFER_ERR_BUFFER_SIZE);
    assert_int_equal(err.expected, 1);
    assert_int_equal(coffer_slice_parse("1", 1, two, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_slice_parse(NULL, 1, two, &count, &err), COFFER_ERR_ARGUMENT);
    count = 1;
    assert_int_equal(coffer_slice_parse("1", 1, NULL, &count, &err), COFFER_ERR_ARGUMENT);
}

/* ---- the oracle -------------------------------------------------------------------------------------------------- */

#define ORACLE_RANK 5
#define ORACLE_ELEMENTS 160000

static uint64_t random_state = 1;

static uint32_t random_below(uint32_t limit)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(random_state >> 33) % limit;
}

/* Python's rules for one dimension, as its documentation of slices states them; returns how many indices. */
static size_t oracle_indices(const coffer_index *index, int64_t size, int64_t *picked)
{
    int64_t step = 1;
    int64_t start = 0;
    int64_t stop = size;
    if (index->kind == COFFER_INDEX_AT) {
        picked[0] = index->start < 0 ? index->start + size : index->start;
        return 1;
    }
    if (index->kind == COFFER_INDEX_RANGE) {
        step = index->step;
        const int64_t lower = step < 0 ? -1 : 0;
        const int64_t upper = step < 0 ? size - 1 : size;
        start = step < 0 ? upper : lower;
        stop = step < 0 ? lower : upper;
        if (index->has_start) {
            start = index->start < 0 ? index->start + size : index->start;
            start = start < lower ? lower : start > upper ? upper : start;
        }
        if (index->has_stop) {
            stop = index->stop < 0 ? index->stop + size : index->stop;
            stop = stop < lower ? lower : stop > upper ? upper : stop;
        }
    }
    size_t count = 0;
    for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step) {
        picked[count++] = i;
    }
    return count;
}

typedef struct oracle {
    size_t rank;
    uint64_t shape[ORACLE_RANK];
    size_t count;                       /* elements of the result */
    uint64_t elements[ORACLE_ELEMENTS]; /* which elements of the tensor they are */
} oracle;

/* Applies indices without an ellipsis, one for each dimension. */
static void oracle_apply(oracle *result, const uint64_t *shape, size_t rank, const coffer_index *indices)
{
    result->rank = 0;
    result->count = 1;
    result->elements[0] = 0;
    static uint64_t grown[ORACLE_ELEMENTS];
    for (size_t d = 0; d < rank; d++) {
        int64_t picked[32];
        const size_t picks = oracle_indices(&indices[d], (int64_t)shape[d], picked);
        size_t count = 0;
        for (size_t i = 0; i < result->count; i++) {
            for (size_t p = 0; p < picks; p++) {
                grown[count++] = result->elements[i] * shape[d] + (uint64_t)picked[p];
            }
        }
        memcpy(result->elements, grown, count * sizeof grown[0]);
        result->count = count;
        if (indices[d].kind != COFFER_INDEX_AT) {
            result->shape[result->rank++] = picks;
        }
    }
}

/* Which bit of the tensor is bit `bit` of the result. */
static uint64_t oracle_bit(const oracle *result, uint64_t bit, uint32_t bits)
{
    return result->elements[bit / bits] * bits + bit % bits;
}

/* Whether the result can be copied in whole bytes. */
static bool oracle_whole_bytes(const oracle *result, uint32_t bits)
{
    const uint64_t total = result->count * bits;
    for (uint64_t bit = 0; bit < total; bit++) {
        const uint64_t from = oracle_bit(result, bit, bits);
        const uint64_t byte_from = oracle_bit(result, bit - bit % 8, bits);
        if (from % 8 != bit % 8 || from / 8 != byte_from / 8) {
            return false;
        }
    }
    return total % 8 == 0;
}

static void assert_box_is_sound(const coffer__box *box)
{
    uint64_t product = 1;
    assert_true(box->rank <= COFFER__BOX_MAX_RANK);
    for (size_t i = 0; i < box->rank; i++) {
        assert_true(box->counts[i] >= 2);
        product *= box->counts[i];
    }
    if (box->run_size == 0) {
        assert_int_equal(box->run_count, 0);
        assert_int_equal(box->rank, 0);
        return;
    }
    assert_true(box->run_count == product);
}

static void assert_box_is(const coffer__box *box, const oracle *result, uint32_t bits)
{
    assert_box_is_sound(box);
    const uint64_t size = result->count * bits / 8;
    assert_true(box->run_size * box->run_count == size);
    for (uint64_t i = 0; i < size; i++) {
        const uint64_t from = coffer__box_run(box, i / box->run_size) + i % box->run_size;
        assert_true(from == oracle_bit(result, i * 8, bits) / 8);
    }
}

static coffer_index random_index(uint64_t size)
{
    coffer_index index = { .kind = COFFER_INDEX_RANGE };
    const uint32_t span = (uint32_t)size * 2 + 5;
    const uint32_t choice = random_below(10);
    if (choice < 2) {
        return (coffer_index){ .kind = COFFER_INDEX_ALL };
    }
    if (choice < 4 && size > 0) {
        index.kind = COFFER_INDEX_AT;
        index.start = (int64_t)random_below((uint32_t)size * 2) - (int64_t)size;
        return index;
    }
    index.has_start = random_below(3) > 0;
    index.has_stop = random_below(3) > 0;
    index.start = (int64_t)random_below(span) - (int64_t)(span / 2);
    index.stop = (int64_t)random_below(span) - (int64_t)(span / 2);
    index.step = (int64_t)random_below(4) - 2;
    index.step += index.step >= 0;
    return index;
}

static coffer_tensor make_tensor(coffer_dtype dtype, const uint64_t *shape, size_t rank)
{
    uint64_t elements = 1;
    for (size_t i = 0; i < rank; i++) {
        elements *= shape[i];
    }
    return (coffer_tensor){
        .name = "a.weight",
        .shape = shape,
        .size = elements * coffer_dtype_bits(dtype) / 8,
        .name_len = 8,
        .rank = (uint32_t)rank,
        .dtype = dtype,
    };
}

/* Leaves out of `full` what an ellipsis or the missing end may stand for; returns how many indices are left. */
static size_t shorten(const coffer_index *full, size_t rank, coffer_index *indices)
{
    size_t whole = 0;
    while (whole < rank && full[rank - 1 - whole].kind == COFFER_INDEX_ALL) {
        whole++;
    }
    if (whole > 0 && random_below(2) == 0) {
        memcpy(indices, full, (rank - whole) * sizeof *full);
        return rank - whole;
    }
    size_t first = 0;
    while (first < rank && full[first].kind != COFFER_INDEX_ALL) {
        first++;
    }
    size_t last = first;
    while (last < rank && full[last].kind == COFFER_INDEX_ALL) {
        last++;
    }
    memcpy(indices, full, first * sizeof *full);
    indices[first] = (coffer_index){ .kind = COFFER_INDEX_ELLIPSIS };
    memcpy(indices + first + 1, full + last, (rank - last) * sizeof *full);
    return first + 1 + rank - last;
}

static void check_against_oracle(const coffer_tensor *tensor, const coffer_index *full, const coffer_index *indices,
                                 size_t count)
{
    static oracle result;
    oracle_apply(&result, tensor->shape, tensor->rank, full);
    const uint32_t bits = coffer_dtype_bits(tensor->dtype);
    coffer__box box;
    coffer_error err;
    uint64_t shape[ORACLE_RANK];
    size_t rank = 99;
    uint64_t size = 99;
    const coffer_status status = coffer__slice_plan(tensor, indices, count, &box, &err);
    const coffer_status shape_status = coffer_slice_shape(tensor, indices, count, shape, &rank, &size, NULL);
    assert_int_equal(status, shape_status);
    if (!oracle_whole_bytes(&result, bits)) {
        assert_int_equal(status, COFFER_ERR_SLICE_BITS);
        assert_int_equal(err.expected, bits == 4 ? 2 : 4);
        assert_int_equal(rank, 99);
        return;
    }
    assert_int_equal(status, COFFER_OK);
    assert_box_is(&box, &result, bits);
    assert_int_equal(rank, result.rank);
    assert_memory_equal(shape, result.shape, rank * sizeof shape[0]);
    assert_int_equal(size, result.count * bits / 8);
}

static void plans_agree_with_the_oracle(void **state)
{
    (void)state;
    static const coffer_dtype dtypes[] = { COFFER_U8, COFFER_BF16, COFFER_F32, COFFER_C64, COFFER_F4, COFFER_F6_E2M3 };
    for (size_t i = 0; i < 60000; i++) {
        uint64_t shape[ORACLE_RANK];
        coffer_index full[ORACLE_RANK];
        coffer_index indices[ORACLE_RANK + 1];
        const size_t rank = random_below(ORACLE_RANK + 1);
        const coffer_dtype dtype = dtypes[random_below(6)];
        uint64_t elements = 1;
        for (size_t d = 0; d < rank; d++) {
            /* Mostly small, sometimes 0 or 1, and often a multiple of 4 where elements are less than a byte. */
            shape[d] = random_below(12) == 0 ? 0 : 1 + random_below(5);
            shape[d] *= coffer_dtype_bits(dtype) < 8 && random_below(3) == 0 ? 4 : 1;
            elements *= shape[d];
            full[d] = random_index(shape[d]);
        }
        if (elements * coffer_dtype_bits(dtype) % 8 != 0) {
            continue; /* no file can hold it */
        }
        const coffer_tensor tensor = make_tensor(dtype, shape, rank);
        const size_t count = shorten(full, rank, indices);
        check_against_oracle(&tensor, full, indices, count);
    }
}

/* ---- single cases ------------------------------------------------------------------------------------------------ */

static coffer_status plan_text(const coffer_tensor *tensor, const char *text, coffer__box *box, coffer_error *err)
{
    coffer_index indices[MAX];
    const size_t count = parse_good(text, indices);
    return coffer__slice_plan(tensor, indices, count, box, err);
}

static void whole_dimensions_are_one_run(void **state)
{
    (void)state;
    const uint64_t shape[] = { 4, 5, 6 };
    const coffer_tensor tensor = make_tensor(COFFER_F32, shape, 3);
    const char *const one_run[] = { "", "...", ":,:,:", "0:4", "...,:", "1:3", "2", "2,1:3", "2,3,4:5", "3,4,5" };
    for (size_t i = 0; i < sizeof one_run / sizeof one_run[0]; i++) {
        coffer__box box;
        assert_int_equal(plan_text(&tensor, one_run[i], &box, NULL), COFFER_OK);
        assert_int_equal(box.run_count, 1);
        assert_int_equal(box.rank, 0);
    }
}

static void dimensions_that_continue_each_other_merge(void **state)
{
    (void)state;
    const uint64_t shape[] = { 4, 5, 6 };
    const coffer_tensor tensor = make_tensor(COFFER_F32, shape, 3);
    coffer__box box;
    assert_int_equal(plan_text(&tensor, "...,0", &box, NULL), COFFER_OK);
    assert_int_equal(box.rank, 1);
    assert_int_equal(box.counts[0], 20);
    assert_int_equal(box.strides[0], 24);
    assert_int_equal(plan_text(&tensor, "::-1,::-1,::-1", &box, NULL), COFFER_OK);
    assert_int_equal(box.rank, 1);
    assert_int_equal(box.counts[0], 120);
    assert_int_equal(box.strides[0], -4);
    assert_int_equal(box.start, 119 * 4);
    assert_int_equal(plan_text(&tensor, ":,::2,1:3", &box, NULL), COFFER_OK);
    assert_int_equal(box.rank, 2);
    assert_int_equal(box.run_size, 8);
}

static void index_errors_name_the_dimension(void **state)
{
    (void)state;
    const uint64_t shape[] = { 4, 5, 0 };
    const coffer_tensor tensor = make_tensor(COFFER_F32, shape, 3);
    static const struct {
        const char *text;
        uint64_t expected;
        uint64_t actual;
        const char *says;
    } cases[] = {
        { "4", 4, 4, "dimension 0" },
        { "0,5", 5, 5, "dimension 1" },
        { ":,-6,9", 5, (uint64_t)-6, "dimension 1" },
        { "...,0", 0, 0, "dimension 2" },
        { "-9223372036854775808", 4, (uint64_t)1 << 63, "dimension 0" },
        { "9223372036854775807", 4, INT64_MAX, "dimension 0" },
        { "0,0,:,0", 3, 4, "3 dimensions" },
        { ":,:,:,...,:", 3, 4, "3 dimensions" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        coffer_error err;
        coffer__box box;
        assert_int_equal(plan_text(&tensor, cases[i].text, &box, &err), COFFER_ERR_INDEX);
        assert_int_equal(err.code, COFFER_ERR_INDEX);
        assert_true(err.expected == cases[i].expected);
        assert_true(err.actual == cases[i].actual);
        assert_non_null(strstr(err.message, cases[i].says));
        assert_string_equal(err.tensor, "a.weight");
    }
}

static void an_ellipsis_may_stand_for_nothing(void **state)
{
    (void)state;
    const uint64_t shape[] = { 4, 6 };
    const coffer_tensor tensor = make_tensor(COFFER_U8, shape, 2);
    coffer__box box;
    assert_int_equal(plan_text(&tensor, "3,...,2", &box, NULL), COFFER_OK);
    assert_int_equal(box.start, 20);
    assert_int_equal(box.run_size, 1);
    const coffer_tensor scalar = make_tensor(COFFER_F64, NULL, 0);
    assert_int_equal(plan_text(&scalar, "...", &box, NULL), COFFER_OK);
    assert_int_equal(box.run_size, 8);
}

static void indices_that_only_a_program_can_make(void **state)
{
    (void)state;
    const uint64_t shape[] = { 4, 6 };
    const coffer_tensor tensor = make_tensor(COFFER_U8, shape, 2);
    const coffer_index dots[] = { { .kind = COFFER_INDEX_ELLIPSIS }, { .kind = COFFER_INDEX_ELLIPSIS } };
    const coffer_index odd = { .kind = (coffer_index_kind)4 };
    const coffer_index still = { .kind = COFFER_INDEX_RANGE };
    coffer_error err;
    coffer__box box;
    assert_int_equal(coffer__slice_plan(&tensor, dots, 2, &box, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer__slice_plan(&tensor, &odd, 1, &box, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer__slice_plan(&tensor, &still, 1, &box, &err), COFFER_ERR_STEP);
    assert_non_null(strstr(err.message, "dimension 0"));
    assert_int_equal(coffer_slice_shape(&tensor, NULL, 1, NULL, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_slice_shape(NULL, NULL, 0, NULL, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_slice_shape(&tensor, NULL, 0, NULL, NULL, NULL, &err), COFFER_OK);
}

static void extremes_do_not_overflow(void **state)
{
    (void)state;
    /* With a dimension of 0 the others may be as large as they like. */
    const uint64_t shape[] = { 0, UINT64_MAX };
    const coffer_tensor tensor = make_tensor(COFFER_U8, shape, 2);
    static const struct {
        const char *text;
        uint64_t count;
    } cases[] = {
        { ":,:", UINT64_MAX },
        { ":,9223372036854775807:", UINT64_MAX - INT64_MAX },
        { ":,-9223372036854775808:", (uint64_t)1 << 63 },
        { ":,-1:", 1 },
        { ":,::-1", UINT64_MAX },
        { ":,::2", ((uint64_t)1 << 63) },
        { ":,::-2", ((uint64_t)1 << 63) },
        { ":,::9223372036854775807", 3 },
        { ":,::-9223372036854775808", 2 },
        { ":,-9223372036854775808:9223372036854775807", 0 },
        { ":,9223372036854775807:-9223372036854775808", 0 },
        { ":,-9223372036854775808:9223372036854775807:-1", 0 },
        { ":,9223372036854775807:-9223372036854775808:-1", 0 },
        { ":,-1:9223372036854775807:-1", INT64_MAX },
        { "9223372036854775807:-9223372036854775808:-9223372036854775808,:1", 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        coffer_index indices[MAX];
        const size_t count = parse_good(cases[i].text, indices);
        uint64_t got[2];
        size_t rank = 0;
        uint64_t size = 1;
        assert_int_equal(coffer_slice_shape(&tensor, indices, count, got, &rank, &size, NULL), COFFER_OK);
        assert_int_equal(rank, 2);
        assert_int_equal(got[0], 0);
        assert_true(got[1] == cases[i].count);
        assert_int_equal(size, 0);
    }
}

static void the_largest_tensor_can_be_sliced(void **state)
{
    (void)state;
    /* 2^61-1 bytes, nearly 2^64 bits: strides in bits go beyond a signed 64-bit number. */
    const uint64_t shape[] = { 3, 768614336404564650 };
    const coffer_tensor tensor = make_tensor(COFFER_U8, shape, 2);
    coffer__box box;
    assert_int_equal(plan_text(&tensor, "::-2,::-768614336404564649", &box, NULL), COFFER_OK);
    assert_int_equal(box.rank, 2);
    assert_int_equal(box.run_size, 1);
    assert_true(box.start == tensor.size - 1);
    assert_true(coffer__box_run(&box, 1) == tensor.size - shape[1]);
    assert_true(coffer__box_run(&box, 2) == shape[1] - 1);
    assert_true(coffer__box_run(&box, 3) == 0);
}

static void a_rank_of_millions_needs_no_stack(void **state)
{
    (void)state;
    const size_t rank = 3000000;
    uint64_t *shape = malloc(rank * sizeof *shape);
    coffer_index *indices = malloc(rank * sizeof *indices);
    assert_non_null(shape);
    assert_non_null(indices);
    for (size_t i = 0; i < rank; i++) {
        shape[i] = i % 50000 == 0 ? 2 : 1;
        indices[i] = (coffer_index){ .kind = i % 2 == 0 ? COFFER_INDEX_RANGE : COFFER_INDEX_AT, .step = -1 };
    }
    const coffer_tensor tensor = make_tensor(COFFER_U8, shape, rank);
    coffer__box box;
    assert_int_equal(coffer__slice_plan(&tensor, indices, rank, &box, NULL), COFFER_OK);
    assert_int_equal(box.rank, 1);
    assert_true(box.counts[0] == (uint64_t)1 << 60);
    assert_int_equal(box.strides[0], -1);
    assert_int_equal(box.run_size, 1);
    free(shape);
    free(indices);
}

static void many_dimensions_that_do_not_merge(void **state)
{
    (void)state;
    uint64_t shape[38];
    coffer_index indices[38];
    for (size_t i = 0; i < 38; i++) {
        shape[i] = 3;
        indices[i] = (coffer_index){ .kind = COFFER_INDEX_RANGE, .step = 2 };
    }
    const coffer_tensor tensor = make_tensor(COFFER_U8, shape, 38);
    coffer__box box;
    assert_int_equal(coffer__slice_plan(&tensor, indices, 38, &box, NULL), COFFER_OK);
    assert_int_equal(box.rank, 38);
    assert_true(box.run_count == (uint64_t)1 << 38);
    assert_true(coffer__box_run(&box, box.run_count - 1) == tensor.size - 1);
}

static void elements_that_share_bytes(void **state)
{
    (void)state;
    const uint64_t shape[] = { 3, 8 };
    const coffer_tensor four = make_tensor(COFFER_F4, shape, 2);
    const coffer_tensor six = make_tensor(COFFER_F6_E3M2, shape, 2);
    coffer__box box;
    coffer_error err;
    assert_int_equal(plan_text(&four, ":,2:4", &box, &err), COFFER_OK);
    assert_int_equal(box.run_size, 1);
    /* What succeeds says nothing of a failure. */
    memset(&err, 0x5A, sizeof err);
    assert_int_equal(plan_text(&six, ":,4:", &box, &err), COFFER_OK);
    assert_int_equal(box.run_size, 3);
    assert_int_equal(err.tensor[0], 0x5A);
    assert_int_equal(plan_text(&six, "::-1", &box, &err), COFFER_OK);
    assert_int_equal(box.run_size, 6);
    assert_int_equal(plan_text(&four, ":,1:4", &box, &err), COFFER_ERR_SLICE_BITS);
    assert_int_equal(err.expected, 2);
    assert_int_equal(err.actual, 3);
    assert_non_null(strstr(err.message, "multiple of 2"));
    assert_non_null(strstr(err.message, "this slice takes runs of 3 that"));
    assert_int_equal(plan_text(&four, "0,0", &box, &err), COFFER_ERR_SLICE_BITS);
    assert_int_equal(plan_text(&four, ":,1:3", &box, &err), COFFER_ERR_SLICE_BITS);
    assert_int_equal(plan_text(&four, ":,::2", &box, &err), COFFER_ERR_SLICE_BITS);
    assert_int_equal(plan_text(&six, ":,2:6", &box, &err), COFFER_ERR_SLICE_BITS);
    assert_int_equal(err.code, COFFER_ERR_SLICE_BITS);
    assert_int_equal(err.expected, 4);
    assert_non_null(strstr(err.message, "F6_E3M2"));
}

static void an_unknown_dtype_is_taken_whole_or_not(void **state)
{
    (void)state;
    const uint64_t shape[] = { 3, 1 };
    coffer_tensor tensor = make_tensor(COFFER_U8, shape, 2);
    tensor.dtype = COFFER_UNKNOWN_DTYPE;
    tensor.size = 77;
    coffer__box box;
    coffer_error err;
    assert_int_equal(plan_text(&tensor, ":,0", &box, &err), COFFER_OK);
    assert_int_equal(box.run_size, 77);
    assert_int_equal(box.run_count, 1);
    /* The one entry of the last dimension, whichever way it is taken. */
    assert_int_equal(plan_text(&tensor, ":,::-1", &box, &err), COFFER_OK);
    assert_int_equal(box.run_size, 77);
    assert_int_equal(plan_text(&tensor, "1:", &box, &err), COFFER_ERR_DTYPE);
    assert_int_equal(plan_text(&tensor, "::-1", &box, &err), COFFER_ERR_DTYPE);
    assert_int_equal(plan_text(&tensor, "0:0", &box, &err), COFFER_ERR_DTYPE);
    assert_string_equal(err.tensor, "a.weight");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_every_form),
        cmocka_unit_test(text_of_no_index),
        cmocka_unit_test(text_errors_have_positions),
        cmocka_unit_test(text_errors_say_what_is_wrong),
        cmocka_unit_test(text_with_nul_is_no_slice),
        cmocka_unit_test(text_that_does_not_fit),
        cmocka_unit_test(plans_agree_with_the_oracle),
        cmocka_unit_test(whole_dimensions_are_one_run),
        cmocka_unit_test(dimensions_that_continue_each_other_merge),
        cmocka_unit_test(index_errors_name_the_dimension),
        cmocka_unit_test(an_ellipsis_may_stand_for_nothing),
        cmocka_unit_test(indices_that_only_a_program_can_make),
        cmocka_unit_test(extremes_do_not_overflow),
        cmocka_unit_test(the_largest_tensor_can_be_sliced),
        cmocka_unit_test(a_rank_of_millions_needs_no_stack),
        cmocka_unit_test(many_dimensions_that_do_not_merge),
        cmocka_unit_test(elements_that_share_bytes),
        cmocka_unit_test(an_unknown_dtype_is_taken_whole_or_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
