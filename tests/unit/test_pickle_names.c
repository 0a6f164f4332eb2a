/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of globals that pickles name: looking a name up relies on its order, and a row that stands twice would be judged by
 * either. The table is the file's own, so the file is compiled into the test.
 */
/* NOLINTNEXTLINE(bugprone-suspicious-include): what is tested is static */
#include "pickle_names.c"

#include "support_cmocka.h"

static void test_table_of_globals(void **state)
{
    (void)state;
    const size_t count = sizeof known_rows / sizeof *known_rows;
    assert_true(count > 200);
    for (size_t i = 0; i < count; i++) {
        const known_row *row = &known_rows[i];
        assert_int_not_equal(coffer__known_global(row->module, row->name).judgement, COFFER__GLOBAL_UNKNOWN);
        if (i > 0) {
            const int modules = strcmp(known_rows[i - 1].module, row->module);
            assert_true(modules < 0 || (modules == 0 && strcmp(known_rows[i - 1].name, row->name) < 0));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_table_of_globals) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
