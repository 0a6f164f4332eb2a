/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A range of a source is a source: members of archives lie in files, in memory, at URLs, and in other members. Whatever
 * the range is of, its bytes, its map, its descriptor and the places of its failures are those of a file that has only
 * them; and no range can be made that reaches beyond what it is of.
 */
#define _XOPEN_SOURCE 700
#include "support_cmocka.h"

#include "coffer.h"
#include "source.h"
#include "support_file.h"
#include "support_memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE ((size_t)20000)

static uint8_t content[SIZE];

static int set_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIZE; i++) {
        content[i] = pattern_byte(i);
    }
    work_dir_make();
    file_write("archive", content, SIZE);
    return 0;
}

/* ---- a source that can do all that a source can ------------------------------------------------------------------------ */

typedef struct able {
    unsigned closes;
    unsigned lent;
    coffer_error failure; /* of the next call, where it has a code */
} able;

static coffer_status able_fails(const able *of, uint64_t offset, coffer_error *err)
{
    if (of->failure.code != COFFER_OK && err != NULL) {
        *err = of->failure;
        err->offset = of->failure.offset == COFFER_NO_OFFSET ? COFFER_NO_OFFSET : offset;
    }
    return of->failure.code;
}

static coffer_status able_read_at(const coffer__byte_source *source, uint64_t offset, void *buffer, size_t size,
                                  const coffer__watch *watch, coffer_error *err)
{
    if (watch != NULL && watch->stop(watch->ctx)) {
        return COFFER_ERR_CANCELLED;
    }
    memcpy(buffer, content + (size_t)offset, size);
    return able_fails(source->state.kept, offset, err);
}

static void able_close(coffer__byte_source *source)
{
    able *of = source->state.kept;
    of->closes++;
}

static void *able_map(const coffer__byte_source *source, uint64_t offset, uint64_t size, coffer_access access,
                      bool populate, coffer__os_map *map, coffer_error *err)
{
    assert_true(size <= SIZE - offset);
    assert_true(access == COFFER_MAP && populate && map->base == NULL);
    return able_fails(source->state.kept, offset, err) == COFFER_OK ? content + (size_t)offset : NULL;
}

static coffer_status able_borrow(const coffer__byte_source *source, int *fd, uint64_t *offset, coffer_error *err)
{
    able *of = source->state.kept;
    of->lent++;
    *fd = 77;
    *offset = 1000000;
    return able_fails(of, 0, err);
}

static void able_give_back(const coffer__byte_source *source)
{
    able *of = source->state.kept;
    of->lent--;
}

static coffer_status able_stream(const coffer__byte_source *source, uint64_t offset, uint64_t size,
                                 const coffer__taker *taker, const coffer__watch *watch, coffer_error *err)
{
    assert_null(watch);
    return taker->take(taker->ctx, content + (size_t)offset, (size_t)size) ? able_fails(source->state.kept, offset, err)
                                                                           : COFFER_ERR_CANCELLED;
}

static coffer__byte_source able_source(able *of)
{
    static const coffer__source_ops ops = { .kind = "a test",
                                            .read_at = able_read_at,
                                            .close = able_close,
                                            .map = able_map,
                                            .borrow = able_borrow,
                                            .give_back = able_give_back,
                                            .stream = able_stream };
    const coffer__source_traits traits = {
        .far = true, .maps = true, .lends = true, .streams = true, .unstable = true
    };
    coffer__byte_source source;
    *of = (able){ .closes = 0 };
    coffer__source_init(&source, &ops, SIZE, traits);
    source.state.kept = of;
    return source;
}

static bool take_one_range(void *ctx, const uint8_t *bytes, size_t size)
{
    const uint8_t **wanted = ctx;
    assert_ptr_equal(bytes, *wanted);
    assert_int_equal(size, 50);
    *wanted = NULL;
    return true;
}

static bool stop_now(void *ctx)
{
    (void)ctx;
    return true;
}

/* ---- what a range does ------------------------------------------------------------------------------------------------- */

/* Ten ranges, each in the one before, the innermost being bytes 10 × 7 to the end less 10 × 3. */
#define DEPTH 10
#define FIRST ((uint64_t)DEPTH * 7)

static void nest(coffer__byte_source ranges[DEPTH], coffer__byte_source *of)
{
    for (size_t i = 0; i < DEPTH; i++) {
        coffer__byte_source *outer = i == 0 ? of : &ranges[i - 1];
        assert_int_equal(coffer__source_range(&ranges[i], outer, 7, outer->size - 10, NULL), COFFER_OK);
    }
}

static void every_call_goes_to_what_it_is_of(void **state)
{
    (void)state;
    able of;
    coffer__byte_source source = able_source(&of);
    coffer__byte_source ranges[DEPTH];
    nest(ranges, &source);
    coffer__byte_source *inner = &ranges[DEPTH - 1];
    uint8_t bytes[100];
    coffer__os_map map = { NULL, 0 };
    int fd = -1;
    uint64_t offset = 0;
    assert_int_equal(inner->size, SIZE - (uint64_t)DEPTH * 10);
    assert_memory_equal(&inner->is, &source.is, sizeof source.is);
    assert_int_equal(coffer__source_read(inner, 5, bytes, sizeof bytes, NULL), COFFER_OK);
    assert_memory_equal(bytes, content + FIRST + 5, sizeof bytes);
    assert_int_equal(coffer__source_read(inner, inner->size, bytes, 0, NULL), COFFER_OK);
    assert_int_equal(coffer__source_read(inner, inner->size - 99, bytes, 100, NULL), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer__source_read(inner, UINT64_MAX, bytes, 2, NULL), COFFER_ERR_ARGUMENT);
    const coffer__watch watch = { stop_now, NULL };
    assert_int_equal(coffer__source_read_watched(inner, 5, bytes, 1, &watch, NULL), COFFER_ERR_CANCELLED);
    assert_ptr_equal(coffer__source_map(inner, 3, 50, COFFER_MAP, true, &map, NULL), content + FIRST + 3);
    assert_null(coffer__source_map(inner, 3, inner->size - 2, COFFER_MAP, true, &map, NULL));
    assert_int_equal(inner->ops->borrow(inner, &fd, &offset, NULL), COFFER_OK);
    assert_true(fd == 77 && offset == 1000000 + FIRST && of.lent == 1);
    inner->ops->give_back(inner);
    assert_int_equal(of.lent, 0);
    const uint8_t *wanted = content + FIRST + 9;
    const coffer__taker taker = { take_one_range, &wanted };
    assert_int_equal(inner->ops->stream(inner, 9, 50, &taker, NULL, NULL), COFFER_OK);
    assert_null(wanted);
    for (size_t i = DEPTH; i > 0; i--) {
        ranges[i - 1].ops->close(&ranges[i - 1]);
    }
    assert_int_equal(of.closes, 0);
}

/* Failures tell a place, and it is that of the range. */
static void failures_tell_the_places_of_the_range(void **state)
{
    (void)state;
    able of;
    coffer__byte_source source = able_source(&of);
    coffer__byte_source ranges[DEPTH];
    nest(ranges, &source);
    const coffer__byte_source *inner = &ranges[DEPTH - 1];
    coffer_error err;
    coffer__os_map map = { NULL, 0 };
    uint8_t bytes[2];
    const uint8_t *wanted = content + FIRST + 11;
    const coffer__taker taker = { take_one_range, &wanted };
    of.failure.code = COFFER_ERR_LOCKED;
    assert_int_equal(coffer__source_read(inner, 5, bytes, 2, &err), COFFER_ERR_LOCKED);
    assert_int_equal(err.offset, 5);
    assert_null(coffer__source_map(inner, 8, 2, COFFER_MAP, true, &map, &err));
    assert_int_equal(err.offset, 8);
    assert_int_equal(inner->ops->stream(inner, 11, 50, &taker, NULL, &err), COFFER_ERR_LOCKED);
    assert_int_equal(err.offset, 11);
    of.failure.offset = COFFER_NO_OFFSET;
    assert_int_equal(coffer__source_read(inner, 5, bytes, 2, &err), COFFER_ERR_LOCKED);
    assert_true(err.offset == COFFER_NO_OFFSET);
    assert_int_equal(coffer__source_read(inner, 5, bytes, 2, NULL), COFFER_ERR_LOCKED);
}

static void a_range_lies_within(void **state)
{
    (void)state;
    coffer__byte_source memory;
    coffer__byte_source range;
    coffer__byte_source inner;
    coffer_error err;
    coffer__source_memory(&memory, content, SIZE);
    const uint64_t refused[][2] = { { SIZE + 1, 0 },     { SIZE + 1, UINT64_MAX },   { SIZE, 1 },
                                    { 0, SIZE + 1 },     { 100, SIZE - 99 },         { UINT64_MAX, 1 },
                                    { UINT64_MAX, 100 }, { UINT64_MAX, UINT64_MAX }, { 100, UINT64_MAX - 1 } };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_int_equal(coffer__source_range(&range, &memory, refused[i][0], refused[i][1], &err),
                         COFFER_ERR_ARGUMENT);
        assert_int_equal(err.code, COFFER_ERR_ARGUMENT);
    }
    assert_int_equal(coffer__source_range(&range, &memory, SIZE - 40, UINT64_MAX, &err), COFFER_OK);
    assert_int_equal(range.size, 40);
    /* Of a range, as of anything: what lies after it in the memory is out of reach. */
    assert_int_equal(coffer__source_range(&range, &memory, 100, 40, &err), COFFER_OK);
    assert_int_equal(coffer__source_range(&inner, &range, 10, 31, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer__source_range(&inner, &range, 40, UINT64_MAX, &err), COFFER_OK);
    assert_int_equal(inner.size, 0);
    coffer__os_map map = { NULL, 0 };
    assert_non_null(coffer__source_map(&inner, 0, 0, COFFER_MAP, false, &map, &err));
    assert_ptr_equal(coffer__source_map(&range, 0, 40, COFFER_MAP, false, &map, &err), content + 100);
    assert_null(coffer__source_map(&range, 0, 40, COFFER_MAP_PRIVATE, false, &map, &err));
    assert_int_equal(err.code, COFFER_ERR_NOT_MAPPED);
}

/* ---- of a file --------------------------------------------------------------------------------------------------------- */

static void ranges_of_a_file_have_maps_of_their_own(void **state)
{
    (void)state;
    coffer__byte_source file;
    coffer__byte_source one;
    coffer__byte_source other;
    coffer__os_map map_of_one = { NULL, 0 };
    coffer__os_map map_of_other = { NULL, 0 };
    uint8_t bytes[64];
    assert_int_equal(coffer__source_path(&file, work_path("archive"), NULL), COFFER_OK);
    assert_int_equal(coffer__source_range(&one, &file, 5001, 5000, NULL), COFFER_OK);
    assert_int_equal(coffer__source_range(&other, &file, 8000, UINT64_MAX, NULL), COFFER_OK);
    uint8_t *changed = coffer__source_map(&one, 1, 4999, COFFER_MAP_PRIVATE, false, &map_of_one, NULL);
    const uint8_t *shown = coffer__source_map(&other, 0, other.size, COFFER_MAP, false, &map_of_other, NULL);
    assert_memory_equal(changed, content + 5002, 4999);
    memset(changed, 0, 4999);
    assert_memory_equal(shown, content + 8000, SIZE - 8000);
    assert_int_equal(coffer__source_read(&one, 2, bytes, sizeof bytes, NULL), COFFER_OK);
    assert_memory_equal(bytes, content + 5003, sizeof bytes);
    coffer__os_unmap(&map_of_one);
    assert_memory_equal(shown, content + 8000, SIZE - 8000);
    coffer__os_unmap(&map_of_other);
    int fd = -1;
    uint64_t at = 0;
    assert_int_equal(one.ops->borrow(&one, &fd, &at, NULL), COFFER_OK);
    assert_int_equal(pread(fd, bytes, sizeof bytes, (off_t)at), sizeof bytes);
    assert_memory_equal(bytes, content + 5001, sizeof bytes);
    one.ops->give_back(&one);
    assert_ptr_equal(coffer__source_seen(&one), coffer__source_seen(&file));
    file.ops->close(&file);
}

static void a_file_that_shrinks_tells_of_its_ranges(void **state)
{
    (void)state;
    coffer__byte_source file;
    coffer__byte_source range;
    coffer_error err;
    coffer__os_map map = { NULL, 0 };
    uint8_t bytes[3000];
    assert_int_equal(coffer__source_path(&file, work_path("archive"), NULL), COFFER_OK);
    assert_int_equal(coffer__source_range(&range, &file, 4000, 3000, NULL), COFFER_OK);
    assert_int_equal(truncate(work_path("archive"), 5000), 0);
    assert_int_equal(coffer__source_read(&range, 0, bytes, sizeof bytes, &err), COFFER_ERR_CHANGED);
    assert_int_equal(err.offset, 1000);
    assert_int_equal(err.expected, SIZE);
    assert_int_equal(err.actual, 5000);
    assert_null(coffer__source_map(&range, 0, range.size, COFFER_MAP, false, &map, &err));
    assert_int_equal(err.code, COFFER_ERR_CHANGED);
    assert_int_equal(err.offset, 1000);
    /* The file is asked whether it is still, and knows its size then: its ranges fail as before. */
    assert_false(coffer__source_is_still(&range));
    assert_int_equal(coffer__source_read(&range, 0, bytes, sizeof bytes, &err), COFFER_ERR_CHANGED);
    assert_int_equal(truncate(work_path("archive"), 100), 0);
    assert_null(coffer__source_map(&range, 0, range.size, COFFER_MAP, false, &map, &err));
    assert_int_equal(err.offset, 0);
    file.ops->close(&file);
}

/* ---- a source that becomes a range of itself --------------------------------------------------------------------------- */

static void what_is_narrowed_is_owned(void **state)
{
    (void)state;
    memory_meter meter;
    const coffer_allocator allocator = metered_allocator(&meter);
    able of;
    uint8_t byte = 0;
    coffer__byte_source source = able_source(&of);
    assert_int_equal(coffer__source_narrow(&source, 0, UINT64_MAX, &allocator, NULL), COFFER_OK);
    assert_int_equal(coffer__source_narrow(&source, 0, SIZE, &allocator, NULL), COFFER_OK);
    assert_int_equal(meter.requests, 0); /* all of it needs no range */
    assert_int_equal(coffer__source_narrow(&source, 100, 50, &allocator, NULL), COFFER_OK);
    assert_int_equal(coffer__source_narrow(&source, 20, 10, &allocator, NULL), COFFER_OK);
    assert_int_equal(coffer__source_read(&source, 9, &byte, 1, NULL), COFFER_OK);
    assert_int_equal(byte, content[129]);
    assert_int_equal(of.closes, 0);
    source.ops->close(&source);
    assert_int_equal(of.closes, 1);
    assert_int_equal(meter.blocks, 0);
}

static void what_cannot_be_narrowed_is_closed(void **state)
{
    (void)state;
    memory_meter meter;
    const coffer_allocator allocator = metered_allocator(&meter);
    able of;
    coffer_error err;
    coffer__byte_source source = able_source(&of);
    assert_int_equal(coffer__source_narrow(&source, 1, SIZE, &allocator, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(of.closes, 1);
    source = able_source(&of);
    meter.fail_at = 1;
    assert_int_equal(coffer__source_narrow(&source, 1, 2, &allocator, &err), COFFER_ERR_MEMORY);
    assert_int_equal(of.closes, 1);
    assert_int_equal(meter.blocks, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_call_goes_to_what_it_is_of, set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(failures_tell_the_places_of_the_range, set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(a_range_lies_within, set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(ranges_of_a_file_have_maps_of_their_own, set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(a_file_that_shrinks_tells_of_its_ranges, set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(what_is_narrowed_is_owned, set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_narrowed_is_closed, set_up, work_dir_tear_down),
    };
    return cmocka_run_group_tests_name("source_range", tests, NULL, NULL);
}
