/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorting: the order, and how often it compares. Names and keys come from files that nobody has to trust, so the order in which
 * they come may have been made to be the worst.
 */
#include "sort.h"
#include "support_cmocka.h"

#include <stdlib.h>
#include <string.h>

#define MAX 20000

/* What is compared, and how often it was. */
typedef struct comparing {
    uint32_t values[MAX];
    uint64_t count;
} comparing;

static bool value_before(const void *ctx, uint32_t a, uint32_t b)
{
    comparing *seen = *(comparing *const *)ctx;
    seen->count++;
    return seen->values[a] < seen->values[b];
}

/* ---- arrangements ------------------------------------------------------------------------------------------------ */

static uint32_t any_number(uint32_t i)
{
    uint64_t mixed = ((uint64_t)i + 1) * UINT64_C(0x9E3779B97F4A7C15);
    mixed = (mixed ^ mixed >> 29) * UINT64_C(0xBF58476D1CE4E5B9);
    return (uint32_t)(mixed >> 32);
}

static uint32_t any_order(uint32_t i, uint32_t count)
{
    (void)count;
    return any_number(i);
}

static uint32_t backwards(uint32_t i, uint32_t count)
{
    return count - i;
}

static uint32_t all_equal(uint32_t i, uint32_t count)
{
    (void)i;
    (void)count;
    return 7;
}

static uint32_t few_values(uint32_t i, uint32_t count)
{
    (void)count;
    return any_number(i) % 3;
}

static uint32_t up_and_down(uint32_t i, uint32_t count)
{
    return i < count / 2 ? i : count - i;
}

static uint32_t saw(uint32_t i, uint32_t count)
{
    (void)count;
    return i % 17;
}

static uint32_t last_comes_first(uint32_t i, uint32_t count)
{
    return (i + 1) % count;
}

static uint32_t (*const arrangements[])(uint32_t i, uint32_t count) = { any_order,       backwards,   all_equal,
                                                                        few_values,      up_and_down, saw,
                                                                        last_comes_first };
#define ARRANGEMENT_COUNT (sizeof arrangements / sizeof arrangements[0])

/* ---- tests ------------------------------------------------------------------------------------------------------- */

/* Sorts 0 to count - 1 by the values, sees that they are in order, equal ones by number, and that all are there. */
static uint64_t sort_values(comparing *seen, uint32_t count)
{
    static bool there[MAX];
    uint32_t *items = malloc((size_t)count * sizeof *items + 1); /* no item more, so that reading one is noticed */
    assert_non_null(items);
    for (uint32_t i = 0; i < count; i++) {
        items[i] = i;
        there[i] = false;
    }
    seen->count = 0;
    coffer__sort(items, count, value_before, &seen);
    const uint64_t compared = seen->count;
    for (uint32_t i = 0; i < count; i++) {
        assert_true(items[i] < count && !there[items[i]]);
        there[items[i]] = true;
        if (i > 0) {
            const uint32_t before = seen->values[items[i - 1]];
            const uint32_t here = seen->values[items[i]];
            assert_true(before < here || (before == here && items[i - 1] < items[i]));
        }
    }
    free(items);
    return compared;
}

static uint64_t width_of(uint64_t count)
{
    uint64_t width = 0;
    for (; count > 0; count /= 2) {
        width++;
    }
    return width;
}

static void test_order(void **state)
{
    (void)state;
    static comparing seen;
    for (size_t k = 0; k < ARRANGEMENT_COUNT; k++) {
        for (uint32_t count = 0; count < 300; count += count < 70 ? 1 : 37) {
            for (uint32_t i = 0; i < count; i++) {
                seen.values[i] = arrangements[k](i, count);
            }
            sort_values(&seen, count);
        }
    }
}

/* Every order of up to seven items, and of as many among others. */
static void test_every_order(void **state)
{
    (void)state;
    static comparing seen;
    for (uint32_t places = 0; places < 7 * 6 * 5 * 4 * 3 * 2; places++) {
        uint32_t left = places;
        bool taken[7] = { false };
        for (uint32_t i = 0; i < 7; i++) {
            uint32_t skip = left % (7 - i);
            left /= 7 - i;
            uint32_t value = 0;
            for (; taken[value] || skip > 0; value++) {
                skip -= taken[value] ? 0 : 1;
            }
            taken[value] = true;
            seen.values[i] = value;
            seen.values[i + 7] = value;
            seen.values[14 + i * 2] = value;
            seen.values[15 + i * 2] = 3;
        }
        sort_values(&seen, 7);
        sort_values(&seen, 28);
    }
}

/* A list that is in order already costs one look at each. */
static void test_in_order(void **state)
{
    (void)state;
    static comparing seen;
    for (uint32_t i = 0; i < MAX; i++) {
        seen.values[i] = i / 2;
    }
    assert_int_equal(sort_values(&seen, MAX), MAX - 1);
}

/* An order that nobody has made costs little more than halving does. */
static void test_any_order_is_cheap(void **state)
{
    (void)state;
    static comparing seen;
    for (uint32_t i = 0; i < MAX; i++) {
        seen.values[i] = any_number(i);
    }
    assert_true(sort_values(&seen, MAX) < MAX * width_of(MAX) * 5 / 4);
}

static void test_no_order_is_dear(void **state)
{
    (void)state;
    static comparing seen;
    for (size_t k = 0; k < ARRANGEMENT_COUNT; k++) {
        for (uint32_t i = 0; i < MAX; i++) {
            seen.values[i] = arrangements[k](i, MAX);
        }
        assert_true(sort_values(&seen, MAX) < MAX * width_of(MAX) * 2);
    }
}

/*
 * The worst order there is, made while it is sorted (M. D. McIlroy, A Killer Adversary for Quicksort): values that nobody has looked
 * at are larger than all others; of two that are compared, one becomes known, and it is the one that is compared again and again.
 */
typedef struct adversary {
    comparing *seen;
    uint32_t next;
    uint32_t candidate;
    bool down; /* the other way round: they are less than all others */
} adversary;

static bool adversary_before(const void *ctx, uint32_t a, uint32_t b)
{
    adversary *made = *(adversary *const *)ctx;
    uint32_t *values = made->seen->values;
    if (values[a] == UINT32_MAX && values[b] == UINT32_MAX) {
        values[a == made->candidate ? a : b] = made->next++;
    }
    if (values[a] == UINT32_MAX) {
        made->candidate = a;
    } else if (values[b] == UINT32_MAX) {
        made->candidate = b;
    }
    made->seen->count++;
    return made->down ? values[a] > values[b] : values[a] < values[b];
}

/* A quarter of the items are the worst there are, so that they are split off and then split badly many times. However many parts
   wait meanwhile, there is space for them: the longer part waits. */
static void test_a_bad_quarter(void **state)
{
    (void)state;
    static comparing seen;
    for (int down = 0; down < 2; down++) {
        uint32_t *items = malloc(MAX * sizeof *items);
        adversary made = { .seen = &seen, .next = MAX, .down = down != 0 };
        adversary *of_made = &made;
        assert_non_null(items);
        for (uint32_t i = 0; i < MAX; i++) {
            items[i] = i;
            seen.values[i] = i % 4 == 3 ? UINT32_MAX : any_number(i) % MAX;
        }
        coffer__sort(items, MAX, adversary_before, &of_made);
        for (uint32_t i = 1; i < MAX; i++) {
            const uint32_t before = seen.values[items[i - 1]];
            const uint32_t here = seen.values[items[i]];
            assert_true(down ? before >= here : before <= here);
        }
        free(items);
    }
}

static void test_worst_order(void **state)
{
    (void)state;
    static comparing seen;
    static uint32_t items[MAX];
    adversary made = { .seen = &seen };
    adversary *of_made = &made;
    for (uint32_t i = 0; i < MAX; i++) {
        items[i] = i;
        seen.values[i] = UINT32_MAX;
    }
    /* So that they are not taken to be in order. */
    seen.values[0] = made.next++;
    items[0] = 1;
    items[1] = 0;
    seen.count = 0;
    coffer__sort(items, MAX, adversary_before, &of_made);
    const uint64_t compared = seen.count;
    for (uint32_t i = 1; i < MAX; i++) {
        assert_true(seen.values[items[i - 1]] < seen.values[items[i]]);
    }
    assert_true(compared < MAX * width_of(MAX) * 5);
    assert_true(compared > MAX * width_of(MAX) * 2); /* else it was no bad order */
    /* The same order again, now that it is known; then with the items backwards, and in any order, that nobody has split by when it
       is given up. */
    assert_true(sort_values(&seen, MAX) < MAX * width_of(MAX) * 5);
    const uint32_t split = 500;
    for (int turn = 0; turn < 2; turn++) {
        for (uint32_t i = 0; i < MAX; i++) {
            const uint32_t value = seen.values[i];
            seen.values[i] = value < split ? value : turn == 0 ? MAX + split - value : split + any_number(i) % MAX;
        }
        const uint64_t again = sort_values(&seen, MAX);
        assert_true(again < MAX * width_of(MAX) * 5 && again > MAX * width_of(MAX) * 2);
    }
}

static void test_comparing_names(void **state)
{
    (void)state;
    assert_int_equal(coffer__compare_names("a", 1, "a", 1), 0);
    assert_true(coffer__compare_names("a", 1, "ab", 2) < 0);
    assert_true(coffer__compare_names("ab", 2, "a", 1) > 0);
    assert_true(coffer__compare_names("b", 1, "ab", 2) > 0);
    assert_true(coffer__compare_names("\xff", 1, "a", 1) > 0);
    assert_true(coffer__compare_names("a\0b", 3, "a\0a", 3) > 0);
    assert_int_equal(coffer__compare_names("", 0, "", 0), 0);
    assert_int_equal(coffer__compare_names(NULL, 0, "", 0), 0);
    assert_true(coffer__compare_names(NULL, 0, "a", 1) < 0 && coffer__compare_names("a", 1, NULL, 0) > 0);
}

static int compare_values(const void *ctx, size_t i, const void *wanted)
{
    const uint32_t *values = ctx;
    const uint32_t *value = wanted;
    return values[i] < *value ? -1 : values[i] > *value;
}

/* Of lists of every short length, each with neighbours that are equal and numbers that are missing. */
static void test_finding(void **state)
{
    (void)state;
    static const uint32_t values[] = { 1, 3, 3, 5, 7, 7, 7, 9 };
    for (size_t count = 0; count <= sizeof values / sizeof *values; count++) {
        for (uint32_t wanted = 0; wanted <= 10; wanted++) {
            size_t last = SIZE_MAX;
            for (size_t i = 0; i < count; i++) {
                last = values[i] == wanted ? i : last;
            }
            size_t found = 0;
            assert_int_equal(coffer__find_sorted(count, compare_values, values, &wanted, &found), last != SIZE_MAX);
            assert_true(last == SIZE_MAX || found == last);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_every_order),
        cmocka_unit_test(test_in_order),
        cmocka_unit_test(test_any_order_is_cheap),
        cmocka_unit_test(test_no_order_is_dear),
        cmocka_unit_test(test_a_bad_quarter),
        cmocka_unit_test(test_worst_order),
        cmocka_unit_test(test_comparing_names),
        cmocka_unit_test(test_finding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
