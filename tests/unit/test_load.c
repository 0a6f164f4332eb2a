/* SPDX-License-Identifier: Apache-2.0 */
/* Why: loads carry out any plan in the background, hand out each item once, and give the bytes that a naive reader gives. */
#include "support_cmocka.h"

#include "support_file.h"
#include "support_load.h"
#include "support_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_WISHES 40

static coffer_load *start(const coffer_plan *plan, coffer_window *window, const coffer_load_options *options)
{
    coffer_load *load = NULL;
    coffer_error err;
    if (coffer_load_start(&load, plan, window, options, &err) != COFFER_OK) {
        fail_msg("%s", err.message);
    }
    return load;
}

static coffer_loaded next(coffer_load *load)
{
    coffer_loaded loaded;
    coffer_error err;
    if (coffer_load_next(load, UINT64_MAX, &loaded, &err) != COFFER_OK) {
        fail_msg("%s", err.message);
    }
    return loaded;
}

/* A plan of all tensors of a model. */
static coffer_plan *plan_of(const coffer *model)
{
    coffer_plan *plan = NULL;
    assert_int_equal(coffer_plan_new(&plan, model, NULL, NULL), COFFER_OK);
    for (size_t i = 0; i < coffer_count(model); i++) {
        assert_int_equal(coffer_plan_add(plan, coffer_at(model, i), NULL, 0, NULL, NULL, NULL), COFFER_OK);
    }
    return plan;
}

static void assert_is_tensor(const coffer *model, const coffer_loaded *loaded)
{
    uint8_t *bytes = malloc((size_t)loaded->size + 1);
    assert_non_null(bytes);
    assert_int_equal(coffer_read(model, loaded->tensor, bytes, loaded->size, NULL, NULL), COFFER_OK);
    assert_memory_equal((const void *)(uintptr_t)loaded->address, bytes, (size_t)loaded->size);
    free(bytes);
}

/* ---- handing out ------------------------------------------------------------------------------------------------- */

static void test_every_tensor_is_handed_out_once(void **state)
{
    (void)state;
    dice of = { 1 };
    coffer *model = random_model(&of, 60, 3 << 20, 20 << 20, COFFER_NO_ALGORITHM, NULL);
    coffer_plan *plan = plan_of(model);
    coffer_load *load = start(plan, NULL, NULL);
    bool *seen = calloc(coffer_count(model), sizeof *seen);
    assert_non_null(seen);
    for (coffer_loaded loaded = next(load); loaded.item != SIZE_MAX; loaded = next(load)) {
        assert_true(loaded.item < coffer_count(model) && !seen[loaded.item]);
        seen[loaded.item] = true;
        assert_ptr_equal(loaded.tensor, coffer_at(model, loaded.item));
        assert_is_tensor(model, &loaded);
        assert_non_null(loaded.memory);
        coffer_memory_free(loaded.memory);
    }
    for (size_t i = 0; i < coffer_count(model); i++) {
        assert_true(seen[i]);
    }
    assert_int_equal(next(load).item, SIZE_MAX);
    coffer_load_free(load);
    free(seen);
    coffer_plan_free(plan);
    coffer_close(model);
}

/* What was handed out outlives the load, the plan and the model. */
static void test_memory_owns_itself(void **state)
{
    (void)state;
    dice of = { 2 };
    coffer *model = random_model(&of, 20, 100000, 0, COFFER_NO_ALGORITHM, NULL);
    coffer_plan *plan = plan_of(model);
    coffer_load *load = start(plan, NULL, NULL);
    coffer_loaded kept[20];
    uint8_t *copies[20];
    for (size_t i = 0; i < 20; i++) {
        kept[i] = next(load);
        copies[i] = malloc((size_t)kept[i].size + 1);
        assert_non_null(copies[i]);
        memcpy(copies[i], (const void *)(uintptr_t)kept[i].address, (size_t)kept[i].size);
    }
    coffer_load_free(load);
    coffer_plan_free(plan);
    coffer_close(model);
    for (size_t i = 0; i < 20; i++) {
        assert_memory_equal((const void *)(uintptr_t)kept[i].address, copies[i], (size_t)kept[i].size);
        coffer_memory_free(kept[i].memory);
        free(copies[i]);
    }
}

static void test_items_are_taken_by_number_once(void **state)
{
    (void)state;
    dice of = { 3 };
    coffer_loaded loaded;
    coffer_error err;
    coffer *model = random_model(&of, 30, 1 << 20, 0, COFFER_NO_ALGORITHM, NULL);
    coffer_plan *plan = plan_of(model);
    coffer_load *load = start(plan, NULL, NULL);
    assert_int_equal(coffer_load_take(load, 29, UINT64_MAX, &loaded, NULL), COFFER_OK);
    assert_int_equal(loaded.item, 29);
    assert_is_tensor(model, &loaded);
    coffer_memory_free(loaded.memory);
    assert_int_equal(coffer_load_take(load, 29, UINT64_MAX, &loaded, &err), COFFER_ERR_TAKEN);
    assert_string_not_equal(err.tensor, "");
    assert_int_equal(coffer_load_take(load, 30, UINT64_MAX, &loaded, &err), COFFER_ERR_ARGUMENT);
    size_t rest = 0;
    for (loaded = next(load); loaded.item != SIZE_MAX; loaded = next(load)) {
        assert_int_not_equal(loaded.item, 29);
        coffer_memory_free(loaded.memory);
        rest++;
    }
    assert_int_equal(rest, 29);
    assert_int_equal(coffer_load_take(load, 3, 0, &loaded, NULL), COFFER_ERR_TAKEN);
    coffer_load_free(load);
    coffer_plan_free(plan);
    coffer_close(model);
}

static void test_waiting_hands_nothing_out(void **state)
{
    (void)state;
    dice of = { 4 };
    coffer_load_stats stats = { .struct_size = sizeof stats };
    coffer *model = random_model(&of, 30, 1 << 20, 4 << 20, COFFER_NO_ALGORITHM, NULL);
    coffer_plan *plan = plan_of(model);
    coffer_load *load = start(plan, NULL, NULL);
    assert_int_equal(coffer_load_wait(load, UINT64_MAX, NULL), COFFER_OK);
    coffer_load_stats_of(load, &stats);
    assert_int_equal(stats.done, stats.wanted);
    assert_true(stats.read >= stats.wanted && stats.requests > 0 && stats.first > 0);
    assert_true(stats.first <= stats.nanoseconds && stats.threads >= 1);
    size_t count = 0;
    while (next(load).item != SIZE_MAX) {
        count++;
    }
    assert_int_equal(count, 30);
    coffer_load_free(load); /* what was handed out and not freed leaks; so free it elsewhere */
    coffer_plan_free(plan);
    coffer_close(model);
}

/* ---- budgets ----------------------------------------------------------------------------------------------------- */

static void test_a_budget_makes_the_load_wait_for_its_caller(void **state)
{
    (void)state;
    dice of = { 5 };
    coffer_error err;
    coffer_loaded loaded;
    coffer_load_options options = COFFER_LOAD_OPTIONS_INIT;
    coffer *model = random_model(&of, 40, 1 << 20, 4 << 20, COFFER_NO_ALGORITHM, NULL);
    coffer_plan *plan = plan_of(model);
    uint64_t largest = 0;
    for (size_t i = 0; i < coffer_count(model); i++) {
        largest = coffer_at(model, i)->size > largest ? coffer_at(model, i)->size : largest;
    }
    options.host_budget = largest - 1;
    coffer_load *load = NULL;
    assert_int_equal(coffer_load_start(&load, plan, NULL, &options, &err), COFFER_ERR_BUDGET);
    assert_int_equal(err.expected, largest);
    options.host_budget = largest;
    load = start(plan, NULL, &options);
    assert_int_equal(coffer_load_wait(load, UINT64_MAX, &err), COFFER_ERR_BUDGET);
    for (loaded = next(load); loaded.item != SIZE_MAX; loaded = next(load)) {
        assert_is_tensor(model, &loaded);
        coffer_memory_free(loaded.memory);
    }
    coffer_load_free(load);
    coffer_plan_free(plan);
    coffer_close(model);
}

/* The second item has to wait until the first was handed out: whoever asks for it before is told so. */
static void test_an_item_behind_a_full_budget_is_an_error(void **state)
{
    (void)state;
    static const tensor_spec specs[] = { { "a", COFFER_U8, 1, { 3000000 } }, { "b", COFFER_U8, 1, { 3000000 } } };
    image made = image_of(specs, 2);
    coffer_error err;
    coffer_loaded loaded;
    coffer *model = NULL;
    coffer_load_options options = COFFER_LOAD_OPTIONS_INIT;
    assert_int_equal(coffer_open_memory(&model, made.bytes, made.size, NULL, NULL), COFFER_OK);
    coffer_plan *plan = plan_of(model);
    options.host_budget = 4000000;
    coffer_load *load = start(plan, NULL, &options);
    assert_int_equal(coffer_load_wait(load, UINT64_MAX, &err), COFFER_ERR_BUDGET);
    assert_int_equal(coffer_load_take(load, 1, UINT64_MAX, &loaded, &err), COFFER_ERR_BUDGET);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(coffer_load_take(load, i, UINT64_MAX, &loaded, &err), COFFER_OK);
        assert_is_tensor(model, &loaded);
        coffer_memory_free(loaded.memory);
    }
    assert_int_equal(coffer_load_wait(load, UINT64_MAX, &err), COFFER_OK);
    coffer_load_free(load);
    coffer_plan_free(plan);
    coffer_close(model);
    image_free(&made);
}

/* ---- any plan ---------------------------------------------------------------------------------------------------- */

static void fulfil(wish *wishes, size_t count, coffer_plan *plan, coffer_window *window,
                   const coffer_load_options *options, dice *of)
{
    size_t fulfilled = 0;
    coffer_loaded loaded;
    coffer_load *load = start(plan, window, options);
    if (options->host_budget == 0 && dice_below(of, 2) == 0) {
        assert_int_equal(coffer_load_take(load, (size_t)dice_below(of, count), UINT64_MAX, &loaded, NULL), COFFER_OK);
        wish_assert_fulfilled(&wishes[loaded.item], loaded.address);
        coffer_memory_free(loaded.memory);
        fulfilled++;
    }
    for (loaded = next(load); loaded.item != SIZE_MAX; loaded = next(load)) {
        wish_assert_fulfilled(&wishes[loaded.item], loaded.address);
        coffer_memory_free(loaded.memory);
        fulfilled++;
    }
    assert_int_equal(fulfilled, count);
    coffer_load_free(load);
}

static void random_round(uint64_t seed)
{
    dice of = { seed };
    coffer_window *window = NULL;
    wish wishes[MOST_WISHES];
    uint64_t largest = 0;
    coffer_plan *plan = NULL;
    coffer_load_options options = COFFER_LOAD_OPTIONS_INIT;
    coffer_window_options how = COFFER_WINDOW_OPTIONS_INIT;
    const size_t count = 1 + (size_t)dice_below(&of, MOST_WISHES);
    coffer *model = random_model(&of, 1 + (size_t)dice_below(&of, 12), (uint64_t)1 << (4 + dice_below(&of, 20)),
                                 dice_below(&of, 2) == 0 ? 0 : 1 << 20, COFFER_NO_ALGORITHM, NULL);
    assert_int_equal(coffer_plan_new(&plan, model, NULL, NULL), COFFER_OK);
    for (size_t i = 0; i < count; i++) {
        wishes[i] = random_wish(&of, plan, model);
        largest = wishes[i].size > largest ? wishes[i].size : largest;
    }
    how.memory = dice_below(&of, 2) == 0 ? 1 : 0;
    how.threads = (uint32_t)dice_below(&of, 5);
    options.host_budget = dice_below(&of, 3) == 0 ? largest + dice_below(&of, 2 * largest + 1) : 0;
    options.order = dice_below(&of, 2) == 0 ? COFFER_ORDER_FILE : COFFER_ORDER_PLAN;
    assert_int_equal(coffer_window_new(&window, &how, NULL), COFFER_OK);
    fulfil(wishes, count, plan, window, &options, &of);
    coffer_window_free(window);
    coffer_plan_free(plan);
    coffer_close(model);
    for (size_t i = 0; i < count; i++) {
        wish_free(&wishes[i]);
    }
    work_dir_remove();
    work_dir_make();
}

static void test_any_plan_gives_the_bytes_of_a_naive_reader(void **state)
{
    (void)state;
    for (uint64_t seed = 100; seed < 200; seed++) {
        random_round(seed);
    }
}

int main(void)
{
#define LOAD_TEST(name) cmocka_unit_test_setup_teardown(name, work_dir_set_up, work_dir_tear_down)
    const struct CMUnitTest tests[] = {
        LOAD_TEST(test_every_tensor_is_handed_out_once),
        LOAD_TEST(test_memory_owns_itself),
        LOAD_TEST(test_items_are_taken_by_number_once),
        LOAD_TEST(test_waiting_hands_nothing_out),
        LOAD_TEST(test_a_budget_makes_the_load_wait_for_its_caller),
        LOAD_TEST(test_an_item_behind_a_full_budget_is_an_error),
        LOAD_TEST(test_any_plan_gives_the_bytes_of_a_naive_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
