/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays that are assembled of parts: whatever way an array is cut into boxes, what is read of it, by both ways, is its
 * bytes; and whatever is wrong about the boxes is found, with the place.
 */
#include "support_cmocka.h"

#include "alloc.h"
#include "coffer.h"
#include "plan.h"
#include "plan_bytes.h"
#include "plan_join.h"
#include "source_parts.h"
#include "verify_parts.h"

#include <stdlib.h>
#include <string.h>

#define MAX_PARTS 64
#define MAX_BYTES ((size_t)1 << 20)

static uint64_t seed = 11;

static uint32_t below(uint32_t limit)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % limit;
}

/* A box of an array of at most 4 dimensions. */
typedef struct box {
    uint64_t starts[4];
    uint64_t sizes[4];
} box;

/* An array in a file of parts, which lie there in any order with other bytes between them. */
typedef struct fixture {
    uint32_t rank;
    uint64_t sizes[4];
    uint64_t item;
    size_t size; /* of the array */
    box boxes[MAX_PARTS];
    uint32_t count;
    uint8_t *array;
    uint8_t *file;
    size_t file_size;
    coffer__import_plan plan;
    uint32_t storage;
    coffer_input *input;
} fixture;

/* ---- the file as an input ---- */

static coffer_status read_file(void *ctx, uint32_t file, uint64_t offset, void *buffer, size_t size, coffer_error *err)
{
    const fixture *f = ctx;
    (void)file;
    (void)err;
    memcpy(buffer, f->file + offset, size);
    return COFFER_OK;
}

/* Cuts one of the boxes along one of its dimensions; boxes of one index stay as they are. */
static void cut(fixture *f)
{
    box *old = &f->boxes[below(f->count)];
    const uint32_t d = f->rank > 0 ? below(f->rank) : 0;
    if (f->rank == 0 || f->count == MAX_PARTS || old->sizes[d] < 2) {
        return;
    }
    box *new = &f->boxes[f->count++];
    const uint64_t first = 1 + below((uint32_t)old->sizes[d] - 1);
    *new = *old;
    new->starts[d] += first;
    new->sizes[d] -= first;
    old->sizes[d] = first;
}

/* Copies the bytes of a box out of the array, element by element. */
static size_t copy_box(const fixture *f, const box *of, uint8_t *to)
{
    uint64_t index[4] = { 0 };
    size_t done = 0;
    for (;;) {
        uint64_t place = 0;
        for (uint32_t i = 0; i < f->rank; i++) {
            place = place * f->sizes[i] + of->starts[i] + index[i];
        }
        memcpy(to + done, f->array + place * f->item, (size_t)f->item);
        done += (size_t)f->item;
        uint32_t d = f->rank;
        while (d > 0 && ++index[d - 1] == of->sizes[d - 1]) {
            index[--d] = 0;
        }
        if (d == 0) {
            return done;
        }
    }
}

/* Puts each part as a range of a plain storage, sometimes two in one. */
static void put_parts(fixture *f)
{
    coffer_error err;
    uint32_t storages[MAX_PARTS];
    uint64_t offsets[MAX_PARTS];
    for (uint32_t i = 0; i < f->count; i++) {
        const size_t before = below(9);
        coffer__import_plan_piece piece = { .offset = f->file_size };
        f->file_size += before;
        f->file_size += copy_box(f, &f->boxes[i], f->file + f->file_size);
        f->file_size += below(3);
        offsets[i] = before;
        piece.size = piece.stored_size = f->file_size - piece.offset;
        assert_int_equal(coffer__import_plan_put_piece(&f->plan, &piece, &err), COFFER_OK);
        assert_int_equal(coffer__import_plan_put_storage(&f->plan, 1, 0, &storages[i], &err), COFFER_OK);
    }
    for (uint32_t i = 0; i < f->count; i++) {
        assert_int_equal(coffer__import_plan_put_part(&f->plan, storages[i], offsets[i], f->rank, f->boxes[i].starts,
                                                      f->boxes[i].sizes, &err),
                         COFFER_OK);
    }
}

/* The row of all of the array, as bytes in one dimension less than it has items. */
static void put_row(fixture *f)
{
    coffer_error err;
    coffer__import_plan_dimension dimension = { f->size, f->size, 1 };
    coffer__import_plan_row row = { .dtype = COFFER_U8, .rank = 1, .storage = f->storage, .item_size = 1 };
    assert_int_equal(coffer__import_plan_put_text(&f->plan, "w", 1, &row.name, &err), COFFER_OK);
    assert_int_equal(coffer__import_plan_put_row(&f->plan, &row, &dimension, &err), COFFER_OK);
}

static void make(fixture *f, uint32_t rank, const uint64_t *sizes, uint64_t item, uint32_t cuts)
{
    coffer_error err;
    uint32_t name = 0;
    memset(f, 0, sizeof *f);
    f->rank = rank;
    f->item = item;
    f->size = (size_t)item;
    f->count = 1;
    for (uint32_t i = 0; i < rank; i++) {
        f->sizes[i] = sizes[i];
        f->boxes[0].sizes[i] = sizes[i];
        f->size *= (size_t)sizes[i];
    }
    assert_true(f->size <= MAX_BYTES);
    for (uint32_t i = 0; i < cuts; i++) {
        cut(f);
    }
    f->array = malloc(f->size);
    f->file = calloc(f->size + 12 * MAX_PARTS, 1);
    assert_true(f->array != NULL && f->file != NULL);
    for (size_t i = 0; i < f->size; i++) {
        f->array[i] = (uint8_t)below(256);
    }
    assert_int_equal(coffer__import_plan_begin(&f->plan, coffer_libc_allocator(), COFFER__PLAN_BUDGET, &err),
                     COFFER_OK);
    assert_int_equal(coffer__import_plan_put_text(&f->plan, "w", 1, &name, &err), COFFER_OK);
    put_parts(f);
    assert_int_equal(coffer__import_plan_put_assembled(&f->plan, f->count, rank, sizes, item, name, &f->storage, &err),
                     COFFER_OK);
    put_row(f);
    const coffer_input_functions functions = { .read = read_file, .ctx = f, .size = f->file_size };
    assert_int_equal(coffer_input_open_functions(&f->input, &functions, NULL, &err), COFFER_OK);
}

static void drop(fixture *f)
{
    coffer_input_free(f->input);
    coffer__import_plan_free(&f->plan);
    free(f->file);
    free(f->array);
}

static coffer_status judged(const fixture *f, coffer_error *err)
{
    const uint64_t size = f->file_size;
    return coffer__import_plan_check(&f->plan, &size, false, err);
}

/* ---- reading ---- */

/* Ranges of the array, by the source and by the code that compares. */
static void read_ranges(const fixture *f)
{
    uint8_t *bytes = malloc(2 * f->size + 64);
    coffer__byte_source source;
    coffer_error err;
    assert_non_null(bytes);
    coffer__source_parts(&source, &f->plan, f->input, f->storage);
    assert_true(source.size == f->size);
    for (int round = 0; round < 20; round++) {
        const size_t from = below((uint32_t)f->size);
        const size_t size = 1 + below((uint32_t)(f->size - from));
        memset(bytes, 0x5a, 2 * f->size + 64);
        assert_int_equal(coffer__source_read(&source, from, bytes, size, &err), COFFER_OK);
        assert_memory_equal(bytes, f->array + from, size);
        assert_int_equal(bytes[size], 0x5a);
    }
    const coffer__verify_array array = { &f->plan, f->input, f->storage };
    const uint64_t items = f->size / f->item;
    for (int round = 0; round < 20; round++) {
        const uint64_t from = below((uint32_t)items);
        const uint64_t count = 1 + below((uint32_t)(items - from));
        memset(bytes, 0x5a, 2 * f->size + 64);
        assert_int_equal(coffer__verify_assemble(&array, from * f->item, (size_t)(count * f->item),
                                                 bytes + f->size + 32, bytes, NULL, &err),
                         COFFER_OK);
        assert_memory_equal(bytes, f->array + from * f->item, (size_t)(count * f->item));
        assert_int_equal(bytes[count * f->item], 0x5a);
    }
    source.ops->close(&source);
    free(bytes);
}

static void test_any_cuts(void **state)
{
    (void)state;
    for (int round = 0; round < 150; round++) {
        fixture f;
        coffer_error err;
        coffer__import_plan_account account;
        uint64_t sizes[4];
        const uint32_t rank = below(5);
        for (uint32_t i = 0; i < rank; i++) {
            sizes[i] = 1 + below(i == 0 ? 12 : 7);
        }
        make(&f, rank, sizes, (uint64_t)1 << below(5), below(40));
        assert_int_equal(judged(&f, &err), COFFER_OK);
        read_ranges(&f);
        /* Every byte counts once: those of parts as written, those between them as nobody's. */
        assert_int_equal(coffer__import_plan_add_up(&f.plan, &account, &err), COFFER_OK);
        assert_true(account.total == f.file_size && account.written == f.size && account.output == f.size);
        assert_true(account.unreferenced == f.file_size - f.size);
        drop(&f);
    }
}

/* Runs that are long enough to be read where they belong, and many that are not. */
static void test_long_runs(void **state)
{
    (void)state;
    static const uint64_t shapes[][2] = { { 16, 16384 }, { 4096, 64 }, { 1, 262144 }, { 3, 50000 } };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        fixture f;
        coffer_error err;
        make(&f, 2, shapes[i], 4, 30);
        assert_int_equal(judged(&f, &err), COFFER_OK);
        read_ranges(&f);
        drop(&f);
    }
}

/* ---- judging ---- */

/* An accepted array [4, 6] of four parts, in a grid; part 0 is [0:2, 0:3] and part 3 [2:4, 3:6]. */
static void make_grid(fixture *f)
{
    static const uint64_t sizes[] = { 4, 6 };
    make(f, 2, sizes, 4, 0);
    coffer__import_plan_free(&f->plan);
    coffer_error err;
    uint32_t name = 0;
    f->count = 4;
    f->file_size = 0;
    for (uint64_t i = 0; i < 4; i++) {
        f->boxes[i] = (box){ { i / 2 * 2, i % 2 * 3 }, { 2, 3 } };
    }
    assert_int_equal(coffer__import_plan_begin(&f->plan, coffer_libc_allocator(), COFFER__PLAN_BUDGET, &err),
                     COFFER_OK);
    put_parts(f);
    assert_int_equal(coffer__import_plan_put_text(&f->plan, "w", 1, &name, &err), COFFER_OK);
    assert_int_equal(coffer__import_plan_put_assembled(&f->plan, 4, 2, sizes, 4, name, &f->storage, &err), COFFER_OK);
    put_row(f);
}

typedef struct spoiled {
    void (*spoil)(fixture *f, coffer__import_plan_part *parts, coffer__import_plan_storage *array, uint64_t *extents);
    coffer_status status;
    const char *says; /* in the message; or NULL */
} spoiled;

#define SPOILER(name, change)                                                                                          \
    static void spoil_##name(fixture *f, coffer__import_plan_part *parts, coffer__import_plan_storage *array,          \
                             uint64_t *extents)                                                                        \
    {                                                                                                                  \
        (void)f, (void)parts, (void)array, (void)extents;                                                              \
        change;                                                                                                        \
    }

/* Part i has its starts at extents[4 * i], and its sizes after them. */
SPOILER(nothing, (void)0)
SPOILER(gap, extents[4 * 3 + 2] = 1)
SPOILER(gap_in_column, extents[4 * 3 + 3] = 2)
SPOILER(overlap, extents[4 * 1 + 1] = 2)
SPOILER(same_twice, memcpy(extents + 4, extents, 4 * sizeof *extents))
SPOILER(other_shape, (extents[2] = 3, extents[3] = 2))
SPOILER(outside, extents[4 * 3] = 3)
SPOILER(far_outside, extents[4 * 3] = UINT64_MAX)
SPOILER(size_wraps, extents[4 * 3 + 2] = UINT64_MAX)
SPOILER(no_elements, extents[4 * 3 + 2] = 0)
SPOILER(box_beyond, parts[3].box = UINT32_MAX)
SPOILER(box_at_end, parts[3].box = (uint32_t)f->plan.extents.count - 3)
SPOILER(no_storage, parts[3].storage = 77)
SPOILER(own_storage, parts[3].storage = f->storage)
SPOILER(offset, parts[3].offset = 100)
SPOILER(offset_wraps, parts[3].offset = UINT64_MAX - 3)
SPOILER(first_part, array->first = 1)
SPOILER(part_count, array->count = 5)
SPOILER(huge_count, array->count = UINT32_MAX)
SPOILER(part_left_over, array->count = 3)
SPOILER(no_parts, array->count = 0)
SPOILER(pieces_instead, array->kind = COFFER__STORAGE_JOINED)
SPOILER(rank, array->as.array.rank = 65)
SPOILER(other_rank, array->as.array.rank = 1)
SPOILER(extents, array->as.array.extents = UINT32_MAX)
SPOILER(size, array->size++)
SPOILER(item_size, array->as.array.item_size = 2)
SPOILER(no_item, array->as.array.item_size = 0)
SPOILER(odd_item, array->as.array.item_size = 3)
SPOILER(name, array->name = 9999)

static void test_judge(void **state)
{
    (void)state;
    static const spoiled cases[] = {
        { spoil_nothing, COFFER_OK, NULL },
        { spoil_gap, COFFER_ERR_VIEW, "leave a gap: none has the element at [3, 3]" },
        { spoil_gap_in_column, COFFER_ERR_VIEW, "leave a gap: none has the element at [2, 5]" },
        { spoil_overlap, COFFER_ERR_VIEW, "\"w\" that begin at [0, 0] and [0, 2] overlap" },
        { spoil_same_twice, COFFER_ERR_VIEW, "that begin at [0, 0] and [0, 0] overlap" },
        { spoil_other_shape, COFFER_ERR_VIEW, "that begin at [0, 0] and [2, 0] overlap" },
        { spoil_outside, COFFER_ERR_PLAN, NULL },
        { spoil_far_outside, COFFER_ERR_PLAN, NULL },
        { spoil_size_wraps, COFFER_ERR_PLAN, NULL },
        { spoil_no_elements, COFFER_ERR_PLAN, NULL },
        { spoil_box_beyond, COFFER_ERR_PLAN, NULL },
        { spoil_box_at_end, COFFER_ERR_PLAN, NULL },
        { spoil_no_storage, COFFER_ERR_PLAN, NULL },
        { spoil_own_storage, COFFER_ERR_PLAN, NULL },
        { spoil_offset, COFFER_ERR_PLAN, NULL },
        { spoil_offset_wraps, COFFER_ERR_PLAN, NULL },
        { spoil_first_part, COFFER_ERR_PLAN, NULL },
        { spoil_part_count, COFFER_ERR_PLAN, NULL },
        { spoil_huge_count, COFFER_ERR_PLAN, NULL },
        { spoil_part_left_over, COFFER_ERR_PLAN, NULL },
        { spoil_no_parts, COFFER_ERR_PLAN, NULL },
        { spoil_pieces_instead, COFFER_ERR_PLAN, NULL },
        { spoil_rank, COFFER_ERR_PLAN, NULL },
        { spoil_other_rank, COFFER_ERR_PLAN, NULL },
        { spoil_extents, COFFER_ERR_PLAN, NULL },
        { spoil_size, COFFER_ERR_PLAN, NULL },
        { spoil_item_size, COFFER_ERR_PLAN, NULL },
        { spoil_no_item, COFFER_ERR_PLAN, NULL },
        { spoil_odd_item, COFFER_ERR_PLAN, NULL },
        { spoil_name, COFFER_ERR_PLAN, NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture f;
        coffer_error err;
        make_grid(&f);
        coffer__import_plan_storage *array = (coffer__import_plan_storage *)f.plan.storages.items + f.storage;
        cases[i].spoil(&f, f.plan.parts.items, array, f.plan.extents.items);
        const coffer_status status = judged(&f, &err);
        assert_int_equal(status, cases[i].status);
        if (cases[i].says != NULL) {
            assert_non_null(strstr(err.message, cases[i].says));
            assert_string_equal(err.tensor, "w");
        }
        drop(&f);
    }
}

/* Two parts of a number alone. */
static void test_scalar_twice(void **state)
{
    (void)state;
    fixture f;
    coffer_error err;
    make(&f, 0, NULL, 8, 0);
    coffer__import_plan_storage *array = (coffer__import_plan_storage *)f.plan.storages.items + f.storage;
    assert_int_equal(judged(&f, &err), COFFER_OK);
    assert_int_equal(coffer__import_plan_put_part(&f.plan, 0, 0, 0, NULL, NULL, &err), COFFER_OK);
    array->count = 2;
    assert_int_equal(judged(&f, &err), COFFER_ERR_VIEW);
    assert_non_null(strstr(err.message, "begin at [] and [] overlap"));
    drop(&f);
}

/* Each of many columns beside all others would take hours to compare; shards along any one dimension do not. */
static void test_many_parts(void **state)
{
    (void)state;
    for (size_t d = 0; d < 3; d++) {
        coffer__import_plan plan;
        coffer_error err;
        const uint64_t file = 30000;
        uint64_t sizes[3] = { 1, 1, 1 };
        uint64_t ones[3] = { 1, 1, 1 };
        uint32_t number = 0;
        const coffer__import_plan_piece piece = { .stored_size = file, .size = file };
        assert_int_equal(coffer__import_plan_begin(&plan, coffer_libc_allocator(), COFFER__PLAN_BUDGET, &err),
                         COFFER_OK);
        assert_int_equal(coffer__import_plan_put_piece(&plan, &piece, &err), COFFER_OK);
        assert_int_equal(coffer__import_plan_put_storage(&plan, 1, 0, &number, &err), COFFER_OK);
        sizes[d] = file;
        for (uint64_t i = 0; i < file; i++) {
            uint64_t starts[3] = { 0 };
            starts[d] = (i * 7919) % file;
            assert_int_equal(coffer__import_plan_put_part(&plan, 0, i, 3, starts, ones, &err), COFFER_OK);
        }
        assert_int_equal(coffer__import_plan_put_assembled(&plan, (uint32_t)file, 3, sizes, 1, 0, &number, &err),
                         COFFER_OK);
        uint64_t comparisons = 3 * file;
        assert_int_equal(coffer__import_plan_check_parts(&plan, number, &comparisons, &err), COFFER_OK);
        comparisons = 100;
        assert_int_equal(coffer__import_plan_check_parts(&plan, number, &comparisons, &err), COFFER_ERR_VIEW);
        assert_non_null(strstr(err.message, "too many parts"));
        coffer__import_plan_free(&plan);
    }
}

/* ---- as bytes, and joined ---- */

static void test_bytes_and_joined(void **state)
{
    (void)state;
    fixture f;
    coffer__import_plan loaded;
    coffer_error err;
    uint8_t *bytes = NULL;
    size_t size = 0;
    char format[COFFER__PLAN_READER_SIZE];
    make_grid(&f);
    const uint64_t file_sizes[] = { f.file_size, f.file_size };
    assert_int_equal(coffer__import_plan_save(&f.plan, "dcp", &bytes, &size, &err), COFFER_OK);
    assert_int_equal(coffer__import_plan_begin(&loaded, coffer_libc_allocator(), COFFER__PLAN_BUDGET, &err), COFFER_OK);
    assert_int_equal(coffer__import_plan_load(&loaded, bytes, size, format, &err), COFFER_OK);
    assert_int_equal(coffer__import_plan_check(&loaded, file_sizes, false, &err), COFFER_OK);
    assert_true(coffer__import_plan_storages(&loaded)[0].viewed);
    /* Under another name, the second plan goes after the first, with its file as number 1. */
    ((coffer__import_plan_row *)loaded.rows.items)->name = coffer__import_plan_storages(&loaded)[0].name;
    uint32_t number = 0;
    assert_int_equal(coffer__import_plan_put_file(&f.plan, "b", 1, &number, &err), COFFER_OK);
    assert_int_equal(coffer__import_plan_join(&f.plan, &loaded, number, &err), COFFER_OK);
    assert_int_equal(coffer__import_plan_check(&f.plan, file_sizes, false, &err), COFFER_OK);
    const coffer__import_plan_storage *last = coffer__import_plan_storages(&f.plan) + f.plan.storages.count - 1;
    assert_int_equal(last->first, 4);
    assert_int_equal(coffer__import_plan_first_piece(&f.plan, last)->file, 1);
    coffer__free(coffer_libc_allocator(), bytes, size);
    coffer__import_plan_free(&loaded);
    drop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_cuts),     cmocka_unit_test(test_long_runs),  cmocka_unit_test(test_judge),
        cmocka_unit_test(test_scalar_twice), cmocka_unit_test(test_many_parts), cmocka_unit_test(test_bytes_and_joined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
