/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views with strides from anywhere: their plan, and their bytes by every way that the transfer has, against a loop over the elements
 * that knows nothing of boxes, tiles and windows. Tiles are small here, so that small views have many.
 */
#include "support_cmocka.h"

#include "coffer.h"
#include "output_target.h"
#include "source.h"
#include "support_file.h"
#include "tile.h"
#include "transfer.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define STORE ((uint64_t)256 << 10) /* bytes that views are of */
#define MAX ((uint64_t)64 << 10)    /* bytes of a result */
#define MAX_RANK 6u

static uint64_t seed = 99;

static uint32_t below(uint32_t limit)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % limit;
}

typedef struct view {
    uint64_t sizes[MAX_RANK];
    int64_t strides[MAX_RANK];
    coffer__strided strided;
    uint64_t size; /* of the result */
} view;

typedef struct store {
    uint8_t *bytes;
    coffer__byte_source sources[3]; /* memory, a file, functions */
    atomic_uint reads;              /* of the functions */
} store;

static store stored;

static coffer_status store_read(void *ctx, uint64_t offset, void *buffer, size_t size, coffer_error *err)
{
    (void)err;
    store *from = ctx;
    atomic_fetch_add(&from->reads, 1);
    memcpy(buffer, from->bytes + offset, size);
    return COFFER_OK;
}

static int store_begin(void **state)
{
    (void)state;
    stored.bytes = malloc((size_t)STORE);
    assert_non_null(stored.bytes);
    for (uint64_t i = 0; i < STORE; i++) {
        stored.bytes[i] = (uint8_t)(i * 167 + (i >> 8) * 13 + (i >> 16));
    }
    work_dir_make();
    file_write("bytes", stored.bytes, (size_t)STORE);
    const coffer_source custom = { .ctx = &stored, .size = STORE, .read_at = store_read };
    coffer__source_memory(&stored.sources[0], stored.bytes, (size_t)STORE);
    assert_int_equal(coffer__source_path(&stored.sources[1], work_path("bytes"), NULL), COFFER_OK);
    coffer__source_custom(&stored.sources[2], &custom);
    return 0;
}

static int store_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        stored.sources[i].ops->close(&stored.sources[i]);
    }
    work_dir_remove();
    free(stored.bytes);
    return 0;
}

/* The elements one after the other, in the view's order. */
static void gather_naively(const view *v, uint8_t *to)
{
    uint64_t index[MAX_RANK] = { 0 };
    const coffer__strided *s = &v->strided;
    for (uint64_t k = 0; k < v->size / s->item_size; k++) {
        int64_t at = (int64_t)s->offset;
        for (size_t d = 0; d < s->rank; d++) {
            at += (int64_t)index[d] * s->strides[d];
        }
        memcpy(to + k * s->item_size, stored.bytes + at, (size_t)s->item_size);
        for (size_t d = s->rank; d > 0 && ++index[d - 1] == s->sizes[d - 1]; d--) {
            index[d - 1] = 0;
        }
    }
}

static void view_finish(view *v, size_t rank, uint64_t item_size)
{
    uint64_t before = 0;
    v->size = item_size;
    for (size_t d = 0; d < rank; d++) {
        before += v->strides[d] < 0 ? (v->sizes[d] - 1) * (uint64_t)-v->strides[d] : 0;
        v->size *= v->sizes[d];
    }
    v->strided.offset += before;
    v->strided.item_size = item_size;
    v->strided.rank = rank;
    v->strided.sizes = v->sizes;
    v->strided.strides = v->strides;
}

/* A permutation of a dense array's dimensions, with steps, some of them backwards and some of them 0. */
static void view_random(view *v)
{
    static const uint64_t items[] = { 1, 2, 4, 8, 16, 3, 12 };
    const size_t rank = 1 + below(MAX_RANK);
    const uint64_t item = items[below(7)];
    uint64_t left = MAX / item;
    uint64_t span = item;
    size_t order[MAX_RANK] = { 0 };
    *v = (view){ .size = 0 };
    for (size_t i = 0; i < rank; i++) {
        const size_t j = below((uint32_t)i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    for (size_t i = 0; i < rank; i++) {
        const size_t d = order[i];
        const uint64_t most = left < 300 ? left : 300;
        const uint64_t step = below(4) == 0 ? 1 + below(40) : 1;
        const uint32_t kind = below(8);
        uint64_t count = 1 + below((uint32_t)(below(3) == 0 ? most : most < 9 ? most : 9));
        count = count * step * span < STORE / 2 ? count : 1;
        v->sizes[d] = count;
        v->strides[d] = kind == 0 ? 0 : kind == 1 ? -(int64_t)(step * span) : (int64_t)(step * span);
        left /= count;
        span += kind == 0 ? 0 : (count - 1) * step * span + below(3) * item;
    }
    v->strided.offset = below(1000);
    view_finish(v, rank, item);
}

/* Into a sink, from a file. */
static void check_sink(const view *v, const coffer__box *box, const coffer__tile_limits *tiles, const uint8_t *wanted,
                       uint8_t *got)
{
    coffer__byte_sink sink;
    const coffer__transfer_options options = { .allocator = coffer_libc_allocator(), .threads = 1, .tiles = tiles };
    const coffer__transfer_op row = { .source = &stored.sources[1], .box = box, .size = v->size };
    memset(got, 0x5a, (size_t)v->size + 1);
    assert_int_equal(coffer__sink_memory(&sink, coffer_libc_allocator(), got, (size_t)v->size, NULL), COFFER_OK);
    assert_int_equal(sink.ops->reserve(&sink, v->size, NULL), COFFER_OK);
    assert_int_equal(coffer__land_in_sink(&sink, &row, 1, &options, NULL), COFFER_OK);
    assert_int_equal(sink.ops->publish(&sink, NULL), COFFER_OK);
    assert_memory_equal(got, wanted, (size_t)v->size);
    assert_int_equal(got[v->size], 0x5a);
}

/* By every source and by a map, with one thread and with several. */
static void check_view(const view *v, const coffer__tile_limits *tiles)
{
    coffer__box box;
    uint8_t *wanted = malloc((size_t)v->size + 1);
    uint8_t *got = malloc((size_t)v->size + 1);
    assert_true(wanted != NULL && got != NULL);
    gather_naively(v, wanted);
    assert_int_equal(coffer__box_from_strides(&box, &v->strided, STORE, NULL), COFFER_OK);
    assert_int_equal(box.run_size * box.run_count, v->size);
    for (size_t i = 0; i < 4; i++) {
        const coffer__transfer_options options = { .allocator = coffer_libc_allocator(),
                                                   .threads = 1 + below(3),
                                                   .tiles = tiles };
        const coffer__transfer_op row = { .source = i == 3 ? NULL : &stored.sources[i],
                                          .map = i == 3 ? stored.bytes : NULL,
                                          .box = &box,
                                          .size = v->size,
                                          .to = got };
        memset(got, 0x5a, (size_t)v->size + 1);
        assert_int_equal(coffer__transfer(&row, 1, &options, NULL), COFFER_OK);
        assert_memory_equal(got, wanted, (size_t)v->size);
        assert_int_equal(got[v->size], 0x5a);
    }
    check_sink(v, &box, tiles, wanted, got);
    free(wanted);
    free(got);
}

static void random_views(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 400; i++) {
        const coffer__tile_limits tiles = { 64 + below(8192), 1 + below(256), 1 + below(256), below(300) };
        view v;
        view_random(&v);
        check_view(&v, i % 4 == 0 ? NULL : &tiles);
    }
}

/* ---- transposes -------------------------------------------------------------------------------------------------- */

static void view_transpose(view *v, uint64_t rows, uint64_t columns, uint64_t item, uint64_t pitch)
{
    *v = (view){ .sizes = { columns, rows }, .strides = { (int64_t)item, (int64_t)pitch } };
    view_finish(v, 2, item);
}

static void transposes(void **state)
{
    (void)state;
    static const uint64_t items[] = { 1, 2, 4, 8, 16, 3 };
    for (size_t i = 0; i < 6; i++) {
        const coffer__tile_limits tiles = { 4096, 32 * items[i], 32 * items[i], 0 };
        for (uint64_t more = 0; more < 3; more++) {
            const uint64_t rows = 63 + more;
            const uint64_t columns = 31 + more;
            view v;
            view_transpose(&v, rows, columns, items[i], columns * items[i]);
            check_view(&v, &tiles);
            check_view(&v, NULL);
            view_transpose(&v, columns, rows, items[i], 3000);
            check_view(&v, &tiles);
        }
    }
}

static uint64_t reads_of(const view *v, const coffer__tile_limits *tiles)
{
    stored.reads = 0;
    check_view(v, tiles);
    return stored.reads;
}

/* Around what a tile holds: a transpose that just fits is one read, and a larger one is read in lines, not in elements. */
static void reads_of_transposes(void **state)
{
    (void)state;
    const uint64_t rows = 100;
    const uint64_t columns = 128;
    const uint64_t bytes = rows * columns * 4;
    coffer__tile_limits tiles = { bytes, 64 * 4, 50 * 4, 0 };
    view v;
    view_transpose(&v, rows, columns, 4, columns * 4);
    assert_int_equal(reads_of(&v, &tiles), 1);
    tiles.memory = bytes - 1;
    assert_int_equal(reads_of(&v, &tiles), rows * 2);
    tiles.memory = 50 * 64 * 4;
    assert_int_equal(reads_of(&v, &tiles), rows * 2);
    /* Half the memory: lines or columns of half the length. */
    tiles.memory = 50 * 64 * 4 - 1;
    assert_int_equal(reads_of(&v, &tiles), rows * 4);
}

/* ---- what plans and what does not ---------------------------------------------------------------------------------- */

static void melted(void **state)
{
    (void)state;
    coffer__box box;
    const uint64_t sizes[] = { 3, 1, 4, 5 };
    const int64_t strides[] = { 40, 12345678, 10, 2 };
    const coffer__strided dense = { .offset = 6, .item_size = 2, .rank = 4, .sizes = sizes, .strides = strides };
    assert_int_equal(coffer__box_from_strides(&box, &dense, 126, NULL), COFFER_OK);
    assert_true(box.rank == 0 && box.run_size == 120 && box.run_count == 1 && box.start == 6);
    const int64_t twice[] = { 80, 0, 20, 4 };
    const coffer__strided every_second = { .item_size = 2, .rank = 4, .sizes = sizes, .strides = twice };
    assert_int_equal(coffer__box_from_strides(&box, &every_second, 238, NULL), COFFER_OK);
    assert_true(box.rank == 1 && box.run_size == 2 && box.counts[0] == 60 && box.strides[0] == 4);
    const int64_t none[] = { 0, 0, 0, 0 };
    const coffer__strided again = { .item_size = 2, .rank = 4, .sizes = sizes, .strides = none };
    assert_int_equal(coffer__box_from_strides(&box, &again, 2, NULL), COFFER_OK);
    assert_true(box.rank == 1 && box.run_size == 2 && box.counts[0] == 60 && box.strides[0] == 0);
    const uint64_t empty[] = { 3, 0, 4, 5 };
    const coffer__strided nothing = { .offset = 999, .item_size = 2, .rank = 4, .sizes = empty, .strides = strides };
    assert_int_equal(coffer__box_from_strides(&box, &nothing, 2, NULL), COFFER_OK);
    assert_true(box.run_size == 0 && box.run_count == 0);
}

static void refuse(uint64_t offset, uint64_t item, uint64_t n, uint64_t m, int64_t along_n, int64_t along_m,
                   uint64_t available)
{
    coffer__box box;
    coffer_error err;
    const uint64_t sizes[] = { n, m };
    const int64_t strides[] = { along_n, along_m };
    const coffer__strided v = { offset, item, 2, sizes, strides };
    assert_int_equal(coffer__box_from_strides(&box, &v, available, &err), COFFER_ERR_INDEX);
    assert_int_equal(err.code, COFFER_ERR_INDEX);
    assert_int_equal(box.run_count, 0);
}

static void beyond_its_bytes(void **state)
{
    (void)state;
    refuse(0, 4, 3, 5, 20, 4, 59);
    refuse(1, 4, 3, 5, 20, 4, 60);
    refuse(61, 4, 1, 1, 0, 0, 60);
    refuse(UINT64_MAX, 4, 1, 1, 0, 0, 60);
    refuse(39, 4, 3, 5, -20, 4, 100);
    refuse(0, 4, 3, 5, INT64_MIN, 4, 100);
    refuse(0, 4, UINT64_MAX, UINT64_MAX, 0, 0, 100);
    refuse(0, 4, UINT64_MAX, 2, INT64_MAX, INT64_MAX, INT64_MAX);
    refuse(0, UINT64_MAX, 2, 2, 0, 0, INT64_MAX);
    refuse(0, 4, 2, 2, 8, 4, UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_views), cmocka_unit_test(transposes),       cmocka_unit_test(reads_of_transposes),
        cmocka_unit_test(melted),       cmocka_unit_test(beyond_its_bytes),
    };
    return cmocka_run_group_tests(tests, store_begin, store_end);
}
