/* SPDX-License-Identifier: Apache-2.0 */
/* Why: every block passes through four functions; what they do with nothing (no size, no block, no memory) is relied on
   everywhere and seen nowhere. */
#include "support_cmocka.h"

#include "alloc.h"
#include "support_memory.h"

#include <string.h>

static void test_nothing_is_never_asked_for(void **state)
{
    (void)state;
    memory_meter meter;
    const coffer_allocator allocator = metered_allocator(&meter);
    assert_null(coffer__alloc(&allocator, 0));
    assert_null(coffer__alloc_zeroed(&allocator, 0));
    assert_null(coffer__realloc(&allocator, NULL, 0, 0));
    coffer__free(&allocator, NULL, 0);
    assert_int_equal(meter.requests, 0);
}

static void test_a_block_goes_out_grows_and_comes_back(void **state)
{
    (void)state;
    memory_meter meter;
    const coffer_allocator allocator = metered_allocator(&meter);
    char *block = coffer__realloc(&allocator, NULL, 0, 3);
    assert_non_null(block);
    memcpy(block, "abc", 3);
    block = coffer__realloc(&allocator, block, 3, 100);
    assert_memory_equal(block, "abc", 3);
    assert_int_equal(meter.held, 100);
    coffer__free(&allocator, block, 100);
    const char *zeros = coffer__alloc_zeroed(&allocator, 7);
    assert_memory_equal(zeros, "\0\0\0\0\0\0\0", 7);
    coffer__free(&allocator, (void *)(uintptr_t)zeros, 7);
    assert_int_equal(meter.blocks, 0);
    assert_int_equal(meter.requests, 3);
}

static void test_there_may_be_none(void **state)
{
    (void)state;
    memory_meter meter;
    const coffer_allocator allocator = metered_allocator(&meter);
    meter.fail_at = 1;
    assert_null(coffer__alloc_zeroed(&allocator, 7));
    char *block = coffer__alloc(&allocator, 2);
    assert_non_null(block);
    memcpy(block, "ab", 2);
    meter.fail_at = 3;
    assert_null(coffer__realloc(&allocator, block, 2, 5));
    /* The old block is still there. */
    assert_memory_equal(block, "ab", 2);
    coffer__free(&allocator, block, 2);
    assert_int_equal(meter.blocks, 0);
}

static void test_a_list_grows_by_doubling(void **state)
{
    (void)state;
    memory_meter meter;
    const coffer_allocator allocator = metered_allocator(&meter);
    size_t capacity = 0;
    uint32_t *items = NULL;
    for (uint32_t i = 0; i < 1000; i++) {
        items = coffer__grow_array(&allocator, items, i, &capacity, sizeof *items, NULL);
        assert_non_null(items);
        assert_true(capacity > i);
        items[i] = i;
    }
    assert_int_equal(meter.held, capacity * sizeof *items);
    assert_true(meter.requests <= 8);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(items[i], i);
    }
    /* Without memory, or beyond what can be counted, the list stays as it is. */
    const size_t before = capacity;
    coffer_error err;
    meter.fail_at = meter.requests + 1;
    assert_null(coffer__grow_array(&allocator, items, capacity, &capacity, sizeof *items, &err));
    assert_int_equal(err.code, COFFER_ERR_MEMORY);
    assert_int_equal(capacity, before);
    assert_int_equal(items[999], 999);
    coffer__free(&allocator, items, capacity * sizeof *items);
    assert_int_equal(meter.blocks, 0);
    const size_t requests = meter.requests;
    size_t full = (size_t)1 << 30;
    assert_null(coffer__grow_array(&allocator, NULL, full, &full, 1, &err));
    full = 16;
    assert_null(coffer__grow_array(&allocator, NULL, full, &full, SIZE_MAX / 16, &err));
    assert_int_equal(err.code, COFFER_ERR_MEMORY);
    assert_int_equal(meter.requests, requests);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_never_asked_for),
        cmocka_unit_test(test_a_block_goes_out_grows_and_comes_back),
        cmocka_unit_test(test_there_may_be_none),
        cmocka_unit_test(test_a_list_grows_by_doubling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
