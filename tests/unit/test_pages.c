/* SPDX-License-Identifier: Apache-2.0 */
/* Why: what is lost here is the caller's memory, and what is not at a page costs a conversion its speed without a word. */
#include "support_cmocka.h"

#include "pages.h"
#include "support_memory.h"

#include <string.h>

/* Pages begin at a page wherever the block does, are all there, and give the whole block back. */
static void test_pages_begin_at_a_page_and_give_the_block_back(void **state)
{
    (void)state;
    memory_meter meter;
    const coffer_allocator allocator = metered_allocator(&meter);
    assert_null(coffer__alloc_pages(&allocator, 0));
    assert_null(coffer__alloc_pages(&allocator, SIZE_MAX));
    coffer__free_pages(&allocator, NULL, 5);
    assert_int_equal(meter.requests, 0);
    uint8_t *pages[20];
    for (size_t i = 0; i < 20; i++) {
        pages[i] = coffer__alloc_pages(&allocator, 1 + 100 * i);
        assert_non_null(pages[i]);
        assert_int_equal((uintptr_t)pages[i] % 4096, 0);
        memset(pages[i], (int)i, 1 + 100 * i);
    }
    for (size_t i = 0; i < 20; i++) {
        assert_int_equal(pages[i][100 * i], i);
        coffer__free_pages(&allocator, pages[i], 1 + 100 * i);
    }
    assert_int_equal(meter.held, 0);
    assert_int_equal(meter.blocks, 0);
    meter.fail_at = meter.requests + 1;
    assert_null(coffer__alloc_pages(&allocator, 7));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_pages_begin_at_a_page_and_give_the_block_back) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
