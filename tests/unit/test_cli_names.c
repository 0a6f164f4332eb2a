/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of names, which people see and by which folding finds neighbours. What sorts many names sorts keys; that these
 * never contradict the names is tried with names that are short, alike and full of numbers.
 */
#include "cli_fold.h"
#include "cli_names.h"
#include "support_cmocka.h"

#include <stdlib.h>
#include <string.h>

#define NAMES 700
#define SHORT_NAME_MAX 16

static int compare(const char *a, const char *b)
{
    return cli_compare_names(a, strlen(a), b, strlen(b));
}

static void test_numbers_count_as_numbers(void **state)
{
    static const char *const in_order[] = {
        "", "0", "00", "1", "2", "02", "10", "123456789", "1234567890", "12345678901", "a", "a.2.x", "a.10", "a:", "b",
    };
    (void)state;
    for (size_t i = 0; i < sizeof in_order / sizeof in_order[0]; i++) {
        for (size_t k = 0; k < sizeof in_order / sizeof in_order[0]; k++) {
            const int order = compare(in_order[i], in_order[k]);
            assert_int_equal((order > 0) - (order < 0), (i > k) - (i < k));
        }
    }
}

/* ---- Names at random ---- */

typedef struct some_names {
    char text[NAMES][SHORT_NAME_MAX];
    coffer_tensor tensors[NAMES];
} some_names;

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* All begin with the same `beginning`, which counts in the length. */
static void make_names(some_names *names, const char *beginning, uint32_t seed)
{
    static const char letters[] = "ab0019._/\0\xFF";
    const size_t start = strlen(beginning);
    for (size_t i = 0; i < NAMES; i++) {
        const size_t len = start + next_random(&seed) % (SHORT_NAME_MAX - start);
        memcpy(names->text[i], beginning, start);
        for (size_t k = start; k < len; k++) {
            names->text[i][k] = letters[next_random(&seed) % (sizeof letters - 1)];
        }
        names->tensors[i] = (coffer_tensor){
            .name = names->text[i],
            .name_len = (uint32_t)len,
            .dtype = next_random(&seed) % 2 == 0 ? COFFER_U8 : COFFER_I8,
        };
    }
}

static void test_keys_do_not_contradict_names(void **state)
{
    static some_names names;
    (void)state;
    make_names(&names, "", 1);
    for (size_t i = 0; i < NAMES; i++) {
        const coffer_tensor *a = &names.tensors[i];
        for (size_t k = 0; k < NAMES; k++) {
            const coffer_tensor *b = &names.tensors[k];
            if (cli_name_key(a->name, a->name_len) < cli_name_key(b->name, b->name_len)) {
                assert_true(cli_compare_names(a->name, a->name_len, b->name, b->name_len) < 0);
            }
        }
    }
}

/* Each tensor is in one fold, and leaves and folds are in order. */
static void check_folds(const cli_folds *folds)
{
    bool seen[NAMES] = { false };
    size_t next = 0;
    for (size_t i = 0; i < folds->fold_count; i++) {
        const cli_fold *fold = &folds->folds[i];
        const cli_fold *before = i > 0 ? fold - 1 : fold;
        assert_true(cli_compare_names(before->name, before->name_len, fold->name, fold->name_len) <= 0);
        for (size_t k = fold->first; k < fold->first + fold->count; k++) {
            const coffer_tensor *tensor = folds->leaves[k].tensor;
            const coffer_tensor *last = k > fold->first ? folds->leaves[k - 1].tensor : tensor;
            assert_true(cli_compare_names(last->name, last->name_len, tensor->name, tensor->name_len) <= 0);
            assert_false(seen[folds->leaves[k].item]);
            seen[folds->leaves[k].item] = true;
            next++;
        }
    }
    assert_int_equal(next, NAMES);
}

static void test_folds_are_in_order(void **state)
{
    static const char *const beginnings[] = { "", "model.", "a.1", "a.10.b9", "layers.7." };
    static some_names names;
    const coffer_tensor *tensors[NAMES];
    (void)state;
    for (size_t i = 0; i < NAMES; i++) {
        tensors[i] = &names.tensors[i];
    }
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
        cli_folds folds;
        make_names(&names, beginnings[i], (uint32_t)i);
        assert_true(cli_folds_make(&folds, tensors, NAMES));
        check_folds(&folds);
        cli_folds_free(&folds);
    }
}

static void test_no_names(void **state)
{
    cli_folds folds;
    (void)state;
    assert_true(cli_folds_make(&folds, NULL, 0));
    assert_int_equal(folds.fold_count, 0);
    cli_folds_free(&folds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_count_as_numbers),
        cmocka_unit_test(test_keys_do_not_contradict_names),
        cmocka_unit_test(test_folds_are_in_order),
        cmocka_unit_test(test_no_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
