/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans of conversions: that they are filled within their budget, that the judge refuses every number that is out of
 * its range, whoever made the plan, and that the account of bytes is that of a map with a mark for each byte.
 */
#include "support_cmocka.h"

#include "coffer.h"
#include "plan.h"
#include "plan_join.h"

#include <stdlib.h>
#include <string.h>

static uint64_t seed = 7;

static uint32_t below(uint32_t limit)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % limit;
}

static void plan_new(coffer__import_plan *plan)
{
    assert_int_equal(coffer__import_plan_begin(plan, coffer_libc_allocator(), COFFER__PLAN_BUDGET, NULL), COFFER_OK);
}

static uint32_t plan_name(coffer__import_plan *plan, const char *text)
{
    uint32_t number = 0;
    assert_int_equal(coffer__import_plan_put_text(plan, text, strlen(text), &number, NULL), COFFER_OK);
    return number;
}

/* A storage of one stored piece. */
static uint32_t plan_storage(coffer__import_plan *plan, uint64_t offset, uint64_t size)
{
    const coffer__import_plan_piece piece = { .offset = offset, .stored_size = size, .size = size };
    uint32_t number = 0;
    assert_int_equal(coffer__import_plan_put_piece(plan, &piece, NULL), COFFER_OK);
    assert_int_equal(coffer__import_plan_put_storage(plan, 1, plan_name(plan, "data/0"), &number, NULL), COFFER_OK);
    return number;
}

/* A row of F32 of storage 0, of `rank` dimensions. */
static void plan_row(coffer__import_plan *plan, const char *name, uint64_t offset, uint32_t rank,
                     const coffer__import_plan_dimension *dimensions)
{
    const coffer__import_plan_row row = {
        .name = plan_name(plan, name), .dtype = COFFER_F32, .rank = rank, .offset = offset, .item_size = 4
    };
    assert_int_equal(coffer__import_plan_put_row(plan, &row, dimensions, NULL), COFFER_OK);
}

/* A plan that is accepted: 100 bytes of storage at byte 10 of a file of 200, and a tensor [2, 3] of it. */
static void plan_small(coffer__import_plan *plan)
{
    const coffer__import_plan_dimension dimensions[] = { { 2, 2, 12 }, { 3, 3, 4 } };
    plan_new(plan);
    (void)plan_storage(plan, 10, 100);
    plan_row(plan, "w", 8, 2, dimensions);
    assert_int_equal(coffer__import_plan_put_pair(plan, "format", 6, "pt", 2, NULL), COFFER_OK);
}

static coffer_status judged(const coffer__import_plan *plan, coffer_error *err)
{
    const uint64_t sizes[] = { 200 };
    return coffer__import_plan_check(plan, sizes, false, err);
}

static void test_texts(void **state)
{
    (void)state;
    coffer__import_plan plan;
    plan_new(&plan);
    const uint32_t a = plan_name(&plan, "a");
    uint32_t b = 0;
    size_t length = 0;
    assert_int_equal(coffer__import_plan_put_text(&plan, "x\0y", 3, &b, NULL), COFFER_OK);
    assert_string_equal(coffer__import_plan_text(&plan, a, &length), "a");
    assert_int_equal(length, 1);
    assert_memory_equal(coffer__import_plan_text(&plan, b, &length), "x\0y", 4);
    assert_int_equal(length, 3);
    assert_string_equal(coffer__import_plan_text(&plan, 0, NULL), "");
    assert_int_equal(plan_name(&plan, ""), 0);
    /* What is no text's number reads nothing. */
    for (uint32_t number = (uint32_t)plan.texts.count - 4; number < plan.texts.count + 4; number++) {
        assert_string_equal(coffer__import_plan_text(&plan, number, &length), "");
        assert_int_equal(length, 0);
    }
    assert_false(coffer__import_plan_has_text(&plan, UINT32_MAX));
    coffer__import_plan_free(&plan);
}

static void test_budget(void **state)
{
    (void)state;
    coffer__import_plan plan;
    coffer_error err;
    uint32_t number = 0;
    assert_int_equal(coffer__import_plan_begin(&plan, coffer_libc_allocator(), 1000, NULL), COFFER_OK);
    size_t count = 0;
    coffer_status status = COFFER_OK;
    while (status == COFFER_OK && count < 1000) {
        status = coffer__import_plan_put_text(&plan, "0123456789", 10, &number, &err);
        count++;
    }
    assert_int_equal(status, COFFER_ERR_MEMORY);
    assert_true(count > 20 && count < 100);
    assert_true(plan.texts.capacity + plan.file_names.capacity * 4 + plan.budget == 1000);
    coffer__import_plan_free(&plan);
    assert_int_equal(coffer__import_plan_begin(&plan, coffer_libc_allocator(), 3, NULL), COFFER_ERR_MEMORY);
    coffer__import_plan_free(&plan);
}

static void test_findings(void **state)
{
    (void)state;
    coffer__import_plan plan;
    plan_new(&plan);
    assert_int_equal(coffer__import_plan_put_finding(&plan, COFFER_WEIGHT_DANGER, 0, 17, "a/data.pkl",
                                                     "a loader would have called %q", "os.\033", 4, NULL),
                     COFFER_OK);
    const coffer__import_plan_finding *finding = coffer__import_plan_findings(&plan);
    assert_string_equal(coffer__import_plan_text(&plan, finding->text, NULL),
                        "a loader would have called \"os.\\x1b\"");
    assert_string_equal(coffer__import_plan_text(&plan, finding->member, NULL), "a/data.pkl");
    assert_int_equal(finding->offset, 17);
    assert_int_equal(judged(&plan, NULL), COFFER_OK);
    coffer__import_plan_free(&plan);
}

/* What one change of an accepted plan makes of it. */
typedef struct spoiled {
    void (*spoil)(coffer__import_plan *plan);
    coffer_status status;
} spoiled;

#define FIRST(plan, array, type) ((type *)(plan)->array.items)
#define SPOILER(name, change)                                                                                          \
    static void spoil_##name(coffer__import_plan *plan)                                                                \
    {                                                                                                                  \
        coffer__import_plan_row *row = FIRST(plan, rows, coffer__import_plan_row);                                     \
        coffer__import_plan_dimension *dimension = FIRST(plan, dimensions, coffer__import_plan_dimension);             \
        coffer__import_plan_piece *piece = FIRST(plan, pieces, coffer__import_plan_piece);                             \
        coffer__import_plan_storage *storage = FIRST(plan, storages, coffer__import_plan_storage);                     \
        (void)row, (void)dimension, (void)piece, (void)storage;                                                        \
        change;                                                                                                        \
    }

SPOILER(nothing, (void)0)
SPOILER(name, row->name = 5000)
SPOILER(dtype, row->dtype = (coffer_dtype)99)
SPOILER(no_dtype, row->dtype = COFFER_UNKNOWN_DTYPE)
SPOILER(rank, row->rank = 3)
SPOILER(dimensions, row->dimensions = UINT32_MAX)
SPOILER(storage_number, row->storage = 1)
SPOILER(no_storage, row->storage = COFFER__PLAN_NO_STORAGE)
SPOILER(item_size, row->item_size = 2)
SPOILER(swap, row->swap = 3)
SPOILER(large_swap, row->swap = 8)
SPOILER(sign, row->sign = (coffer__sign)3)
SPOILER(conjugated, row->sign = COFFER__SIGN_CONJUGATED)
SPOILER(fate, row->fate = (coffer_fate)3)
SPOILER(alias_of_itself, row->fate = COFFER_FATE_ALIAS)
SPOILER(alias_of_none, row->fate = COFFER_FATE_ALIAS; row->alias_of = 7)
SPOILER(written_size, dimension[1].size = 4)
SPOILER(offset, row->offset = 77)
SPOILER(huge_offset, row->offset = UINT64_MAX)
SPOILER(stride, dimension[0].stride = 90)
SPOILER(negative, dimension[0].stride = -4)
SPOILER(most_negative, dimension[0].stride = INT64_MIN)
SPOILER(expanded, dimension[0].stride = 0; dimension[0].count = dimension[0].size = 1 << 23)
SPOILER(overflow, dimension[0].stride = 0; dimension[0].count = dimension[0].size = UINT64_MAX)
SPOILER(piece_file, piece->file = 1)
SPOILER(piece_coding, piece->coding = (coffer__coding)3)
SPOILER(piece_size, piece->size = 99)
SPOILER(piece_offset, piece->offset = 101)
SPOILER(piece_wraps, piece->offset = UINT64_MAX - 50)
SPOILER(bomb, piece->coding = COFFER__CODING_DEFLATED; piece->size = storage->size = 1032 * 101)
SPOILER(latin1, piece->coding = COFFER__CODING_LATIN1; piece->size = storage->size = 49)
#define SCALED(len)                                                                                                    \
    piece->coding = COFFER__CODING_BLOCKS, piece->as.blocks.type = 40, piece->as.blocks.dtype = COFFER_BF16,           \
    piece->stored_size = 72, piece->size = storage->size = 256,                                                        \
    (void)coffer__import_plan_put_text(plan, "\0\0\0?\0\0\0?\0\0\0?", len, &piece->as.blocks.scales, NULL)
SPOILER(no_scales, SCALED(0))
SPOILER(one_scale, SCALED(4))
SPOILER(two_scales, SCALED(8))
SPOILER(three_scales, SCALED(12))
SPOILER(part_of_a_scale, SCALED(5))
SPOILER(scales_of_no_text, SCALED(0); piece->as.blocks.scales = 9999)
SPOILER(storage_size, storage->size = 101)
SPOILER(storage_kind, storage->kind = (coffer__storage_kind)3)
SPOILER(storage_grid, storage->kind = COFFER__STORAGE_CHUNKED)
SPOILER(storage_parts, storage->kind = COFFER__STORAGE_ASSEMBLED)
SPOILER(piece_crc, piece->crc_kind = (coffer__crc_kind)3)
SPOILER(storage_piece, storage->first = 1)
SPOILER(storage_pieces, storage->count = 2)
SPOILER(storage_name, storage->name = 4999)
SPOILER(files, plan->file_count = 2)
SPOILER(file_name, *FIRST(plan, file_names, uint32_t) = 9999)
SPOILER(reserved, row->name = plan_name(plan, "__metadata__"))
SPOILER(not_utf8, row->name = plan_name(plan, "\xff"))
SPOILER(surrogate, row->name = plan_name(plan, "\xed\xa0\x80"))
SPOILER(pair_text, FIRST(plan, pairs, coffer__import_plan_pair)->value = 8888)
SPOILER(pair_twice, (void)coffer__import_plan_put_pair(plan, "format", 6, "x", 1, NULL))
SPOILER(pair_not_utf8, (void)coffer__import_plan_put_pair(plan, "x", 1, "\xff", 1, NULL))
SPOILER(twice, (void)coffer__import_plan_put_row(plan, row, dimension, NULL))
SPOILER(skipped_unknown, row->fate = COFFER_FATE_SKIPPED; row->dtype = COFFER_UNKNOWN_DTYPE)
SPOILER(skipped_apart, row->fate = COFFER_FATE_SKIPPED; row->storage = COFFER__PLAN_NO_STORAGE)
SPOILER(skipped_beyond, row->fate = COFFER_FATE_SKIPPED; row->offset = 99)
SPOILER(empty_beyond, dimension[0].count = dimension[0].size = 0; row->offset = UINT64_MAX)
SPOILER(negated, row->sign = COFFER__SIGN_NEGATED)
SPOILER(swapped, row->swap = 4)

static void test_judge(void **state)
{
    (void)state;
    static const spoiled all[] = {
        { spoil_nothing, COFFER_OK },
        { spoil_name, COFFER_ERR_PLAN },
        { spoil_no_scales, COFFER_OK },
        { spoil_one_scale, COFFER_OK },
        { spoil_two_scales, COFFER_OK },
        { spoil_three_scales, COFFER_ERR_PLAN },
        { spoil_part_of_a_scale, COFFER_ERR_PLAN },
        { spoil_scales_of_no_text, COFFER_ERR_PLAN },
        { spoil_dtype, COFFER_ERR_PLAN },
        { spoil_no_dtype, COFFER_ERR_PLAN },
        { spoil_rank, COFFER_ERR_PLAN },
        { spoil_dimensions, COFFER_ERR_PLAN },
        { spoil_storage_number, COFFER_ERR_PLAN },
        { spoil_no_storage, COFFER_ERR_PLAN },
        { spoil_item_size, COFFER_ERR_PLAN },
        { spoil_swap, COFFER_ERR_PLAN },
        { spoil_large_swap, COFFER_ERR_PLAN },
        { spoil_sign, COFFER_ERR_PLAN },
        { spoil_conjugated, COFFER_ERR_PLAN },
        { spoil_fate, COFFER_ERR_PLAN },
        { spoil_alias_of_itself, COFFER_ERR_PLAN },
        { spoil_alias_of_none, COFFER_ERR_PLAN },
        { spoil_written_size, COFFER_ERR_PLAN },
        { spoil_offset, COFFER_ERR_VIEW },
        { spoil_huge_offset, COFFER_ERR_VIEW },
        { spoil_stride, COFFER_ERR_VIEW },
        { spoil_negative, COFFER_ERR_VIEW },
        { spoil_most_negative, COFFER_ERR_VIEW },
        { spoil_expanded, COFFER_ERR_VIEW },
        { spoil_overflow, COFFER_ERR_VIEW },
        { spoil_piece_file, COFFER_ERR_PLAN },
        { spoil_piece_coding, COFFER_ERR_PLAN },
        { spoil_piece_size, COFFER_ERR_PLAN },
        { spoil_piece_offset, COFFER_ERR_DAMAGED },
        { spoil_piece_wraps, COFFER_ERR_DAMAGED },
        { spoil_bomb, COFFER_ERR_PLAN },
        { spoil_latin1, COFFER_ERR_PLAN },
        { spoil_storage_size, COFFER_ERR_PLAN },
        { spoil_storage_kind, COFFER_ERR_PLAN },
        { spoil_storage_grid, COFFER_ERR_PLAN },
        { spoil_storage_parts, COFFER_ERR_PLAN },
        { spoil_piece_crc, COFFER_ERR_PLAN },
        { spoil_storage_piece, COFFER_ERR_PLAN },
        { spoil_storage_pieces, COFFER_ERR_PLAN },
        { spoil_storage_name, COFFER_ERR_PLAN },
        { spoil_files, COFFER_ERR_PLAN },
        { spoil_file_name, COFFER_ERR_PLAN },
        { spoil_reserved, COFFER_ERR_NAME },
        { spoil_not_utf8, COFFER_ERR_NAME },
        { spoil_surrogate, COFFER_ERR_NAME },
        { spoil_pair_text, COFFER_ERR_PLAN },
        { spoil_pair_twice, COFFER_ERR_DUPLICATE_KEY },
        { spoil_pair_not_utf8, COFFER_ERR_NAME },
        { spoil_twice, COFFER_ERR_DUPLICATE_NAME },
        { spoil_skipped_unknown, COFFER_OK },
        { spoil_skipped_apart, COFFER_OK },
        { spoil_skipped_beyond, COFFER_ERR_VIEW },
        { spoil_empty_beyond, COFFER_OK },
        { spoil_negated, COFFER_OK },
        { spoil_swapped, COFFER_OK },
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        coffer__import_plan plan;
        coffer_error err;
        plan_small(&plan);
        all[i].spoil(&plan);
        const coffer_status status = judged(&plan, &err);
        if (status != all[i].status) {
            fail_msg("change %zu: %s: %s", i, coffer_status_name(status), status == COFFER_OK ? "" : err.message);
        }
        coffer__import_plan_free(&plan);
    }
}

/* What a user allows is not refused; nor what repeats little. */
static void test_expansion(void **state)
{
    (void)state;
    const uint64_t sizes[] = { 200 };
    const coffer__import_plan_dimension dimensions[] = { { 1 << 24, 1 << 24, 0 } };
    coffer__import_plan plan;
    plan_new(&plan);
    (void)plan_storage(&plan, 10, 100);
    plan_row(&plan, "a", 0, 1, dimensions);
    assert_int_equal(judged(&plan, NULL), COFFER_OK);
    plan_row(&plan, "b", 0, 1, dimensions); /* both together are too much */
    assert_int_equal(judged(&plan, NULL), COFFER_ERR_VIEW);
    assert_int_equal(coffer__import_plan_check(&plan, sizes, true, NULL), COFFER_OK);
    coffer__import_plan_free(&plan);
}

/* F4 has two elements in a byte: the last dimension doubles. */
static void test_f4(void **state)
{
    (void)state;
    coffer__import_plan plan;
    plan_new(&plan);
    const uint32_t storage = plan_storage(&plan, 0, 12);
    coffer__import_plan_dimension dimensions[] = { { 3, 3, 4 }, { 8, 4, 1 } };
    const coffer__import_plan_row row = {
        .name = plan_name(&plan, "q"), .dtype = COFFER_F4, .rank = 2, .storage = storage, .item_size = 1
    };
    assert_int_equal(coffer__import_plan_put_row(&plan, &row, dimensions, NULL), COFFER_OK);
    assert_int_equal(judged(&plan, NULL), COFFER_OK);
    assert_int_equal(coffer__import_plan_row_size(&plan, coffer__import_plan_rows(&plan)), 12);
    ((coffer__import_plan_dimension *)plan.dimensions.items)[1].size = 4;
    assert_int_equal(judged(&plan, NULL), COFFER_ERR_PLAN);
    coffer__import_plan_free(&plan);
}

static void test_alias(void **state)
{
    (void)state;
    const coffer__import_plan_dimension dimensions[] = { { 2, 2, 12 }, { 3, 3, 4 } };
    coffer__import_plan plan;
    plan_small(&plan);
    plan_row(&plan, "v", 8, 2, dimensions);
    coffer__import_plan_row *rows = plan.rows.items;
    rows[1].fate = COFFER_FATE_ALIAS;
    assert_int_equal(judged(&plan, NULL), COFFER_OK);
    coffer__import_plan_account account;
    assert_int_equal(coffer__import_plan_add_up(&plan, &account, NULL), COFFER_OK);
    assert_int_equal(account.written, 24);
    assert_int_equal(account.aliased, 0); /* the same bytes, which are written */
    assert_int_equal(account.output, 24);
    assert_int_equal(account.unreferenced, 76);
    rows[1].offset = 12;
    assert_int_equal(judged(&plan, NULL), COFFER_ERR_PLAN);
    coffer__import_plan_free(&plan);
}

/* Marks the bytes of a view, element by element, with its class if it comes before the one that is there. */
static void mark(uint8_t *map, const coffer__import_plan_row *row, const coffer__import_plan_dimension *dimensions)
{
    uint64_t index[3] = { 0 };
    for (bool more = true; more;) {
        uint64_t at = row->offset;
        for (uint32_t i = 0; i < row->rank; i++) {
            at += index[i] * (uint64_t)dimensions[i].stride;
        }
        for (uint64_t i = 0; i < row->item_size; i++) {
            map[at + i] = (uint8_t)row->fate < map[at + i] ? (uint8_t)row->fate : map[at + i];
        }
        uint32_t i = 0;
        while (i < row->rank && ++index[i] == dimensions[i].count) {
            index[i++] = 0;
        }
        more = i < row->rank;
    }
}

/* A random view of 4,096 bytes whose dimensions are nested, in any order. */
static void random_row(coffer__import_plan *plan, uint8_t *map)
{
    coffer__import_plan_dimension dimensions[3];
    const uint32_t rank = below(4);
    uint64_t stride = 4;
    for (uint32_t i = 0; i < rank; i++) {
        const uint64_t count = 1 + below(6);
        stride = 4 * (stride / 4 + (below(2) == 0 ? below(5) : 0));
        dimensions[i] = (coffer__import_plan_dimension){ count, count, (int64_t)(below(9) == 0 ? 0 : stride) };
        stride *= count;
    }
    if (rank > 1 && below(2) == 0) {
        const coffer__import_plan_dimension other = dimensions[0];
        dimensions[0] = dimensions[rank - 1];
        dimensions[rank - 1] = other;
    }
    const coffer__import_plan_row row = { .name = plan_name(plan, "w"),
                                          .dtype = COFFER_F32,
                                          .rank = rank,
                                          .offset = below(1024),
                                          .item_size = 4,
                                          .fate = (coffer_fate)below(3) };
    assert_int_equal(coffer__import_plan_put_row(plan, &row, dimensions, NULL), COFFER_OK);
    mark(map, &row, dimensions);
}

static void test_account(void **state)
{
    (void)state;
    for (int round = 0; round < 2000; round++) {
        uint8_t map[8192];
        uint64_t counts[4] = { 0 };
        coffer__import_plan plan;
        coffer__import_plan_account account;
        memset(map, 3, sizeof map);
        plan_new(&plan);
        (void)plan_storage(&plan, 0, sizeof map);
        for (uint32_t rows = below(6); rows > 0; rows--) {
            random_row(&plan, map);
        }
        for (size_t i = 0; i < sizeof map; i++) {
            counts[map[i]]++;
        }
        assert_int_equal(coffer__import_plan_add_up(&plan, &account, NULL), COFFER_OK);
        assert_int_equal(account.total, sizeof map);
        assert_int_equal(account.written, counts[0]);
        assert_int_equal(account.aliased, counts[1]);
        assert_int_equal(account.skipped, counts[2]);
        assert_int_equal(account.unreferenced, counts[3]);
        coffer__import_plan_free(&plan);
    }
}

static void record_put(coffer__import_plan *plan, const char *json)
{
    const char *key = COFFER__PLAN_RECORD;
    assert_int_equal(coffer__import_plan_put_pair(plan, key, strlen(key), json, strlen(json), NULL), COFFER_OK);
}

static const char *record_of(const coffer__import_plan *plan)
{
    assert_int_equal(plan->pairs.count, 1);
    return coffer__import_plan_text(plan, coffer__import_plan_pairs(plan)[0].value, NULL);
}

/* The record is the one thing that joining replaces, and parting brings back. Only objects are joined. */
static void test_records_join(void **state)
{
    (void)state;
    coffer_error err;
    coffer__import_plan plans[3];
    static const char *const records[] = { "{\"a\": 1}", "{\"b\": 2}", "[]" };
    coffer__import_plan_mark mark;
    for (size_t i = 0; i < 3; i++) {
        plan_new(&plans[i]);
        record_put(&plans[i], records[i]);
    }
    coffer__import_plan_mark_now(&plans[0], &mark);
    assert_int_equal(coffer__import_plan_join(&plans[0], &plans[1], 1, &err), COFFER_OK);
    assert_string_equal(record_of(&plans[0]), "{\"a\": 1, \"b\": 2}");
    assert_int_equal(coffer__import_plan_join(&plans[0], &plans[2], 1, &err), COFFER_ERR_DUPLICATE_KEY);
    assert_string_equal(record_of(&plans[0]), "{\"a\": 1, \"b\": 2}");
    coffer__import_plan_unjoin(&plans[0], &mark);
    assert_string_equal(record_of(&plans[0]), records[0]);
    for (size_t i = 0; i < 3; i++) {
        coffer__import_plan_free(&plans[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts), cmocka_unit_test(test_budget),    cmocka_unit_test(test_findings),
        cmocka_unit_test(test_judge), cmocka_unit_test(test_expansion), cmocka_unit_test(test_f4),
        cmocka_unit_test(test_alias), cmocka_unit_test(test_account),   cmocka_unit_test(test_records_join),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
