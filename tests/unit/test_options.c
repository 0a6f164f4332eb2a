/* SPDX-License-Identifier: Apache-2.0 */
/* Why: options grow. Programs that know less of them, or more, than the library does must be read rightly, whoever is older. */
#include "support_cmocka.h"

#include "options.h"

#include <stdlib.h>

typedef struct some_options {
    size_t struct_size;
    uint64_t first;
    uint64_t second;
} some_options;

static void test_no_options_are_the_defaults(void **state)
{
    (void)state;
    some_options to = { 1, 2, 3 };
    assert_int_equal(coffer__options_copy(&to, sizeof to, NULL, NULL), COFFER_OK);
    assert_true(to.struct_size == 0 && to.first == 0 && to.second == 0);
}

/* Of every size that a caller may know: what it has is copied, what it lacks is 0, what we lack is not looked at. */
static void test_options_of_every_size(void **state)
{
    (void)state;
    for (size_t size = 0; size <= 3 * sizeof(some_options); size++) {
        unsigned char *from = malloc(size < sizeof size ? sizeof size : size);
        assert_non_null(from);
        memset(from, 0x11, size);
        memcpy(from, &size, sizeof size);
        struct {
            some_options options;
            uint64_t behind;
        } to = { { 1, 2, 3 }, 4 };
        coffer_error err;
        const coffer_status status = coffer__options_copy(&to.options, sizeof to.options, from, &err);
        assert_true(to.behind == 4);
        if (size < sizeof size) {
            assert_int_equal(status, COFFER_ERR_ARGUMENT);
            assert_int_equal(err.code, COFFER_ERR_ARGUMENT);
        } else {
            assert_int_equal(status, COFFER_OK);
            const size_t known = size < sizeof to.options ? size : sizeof to.options;
            const unsigned char *bytes = (const unsigned char *)&to.options;
            assert_memory_equal(bytes, from, known);
            for (size_t i = known; i < sizeof to.options; i++) {
                assert_int_equal(bytes[i], 0);
            }
        }
        free(from);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_options_are_the_defaults),
        cmocka_unit_test(test_options_of_every_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
