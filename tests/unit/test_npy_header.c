/* SPDX-License-Identifier: Apache-2.0 */
/* Why: the header of a NumPy array is a piece of Python, of which one dict is read and nothing else. Every refusal is seen at its
   byte; what is accepted is compared with NumPy in Python (test_convert_numpy.py). */
#include "support_cmocka.h"

#include "npy_header.h"

#include <stdio.h>
#include <string.h>

/* A header of version 1.0 around a text. */
static size_t make(uint8_t *bytes, const char *text)
{
    const size_t len = strlen(text);
    memcpy(bytes, "\x93NUMPY\1\0", 8);
    bytes[8] = (uint8_t)len;
    bytes[9] = (uint8_t)(len >> 8);
    memcpy(bytes + 10, text, len);
    return 10 + len;
}

static void test_faults(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t at; /* in the text */
        const char *what;
    } rows[] = {
        { "  ", 2, "a dict should be here" },
        { "[1]", 0, "a dict should be here" },
        { "{ ", 2, "a text in quotes" },
        { "{}", 2, "is missing" },
        { "{1: 2}", 1, "a text in quotes" },
        { "{'descr", 7, "does not end" },
        { "{'de\\x73cr': 1}", 4, "an escape" },
        { "{'descr' '<f4'}", 9, "a colon is missing" },
        { "{'x': 1}", 4, "not descr" },
        { "{'descr': '<f4', 'descr': '<f4'}", 24, "comes twice" },
        { "{'descr': '<f4' 'shape': ()}", 16, "a comma is missing" },
        { "{'descr': '<f4', , }", 17, "a text in quotes" },
        { "{'descr': 4}", 10, "a text in quotes" },
        { "{'descr': ''}", 12, "not one that NumPy has" },
        { "{'descr': '<'}", 13, "not one that NumPy has" },
        { "{'descr': '<q8'}", 15, "not one that NumPy has" },
        { "{'fortran_order': 1}", 18, "True or False" },
        { "{'fortran_order': true}", 18, "True or False" },
        { "{'fortran_order': Falsey}", 23, "a comma is missing" },
        { "{'shape': 6}", 10, "is no tuple" },
        { "{'shape': [6]}", 10, "is no tuple" },
        { "{'shape': (6)}", 13, "is no tuple" },
        { "{'shape': (6, 7}", 15, "a comma is missing" },
        { "{'shape': (,)}", 11, "a number" },
        { "{'shape': (6,,)}", 13, "a number" },
        { "{'shape': (-6,)}", 11, "a number" },
        { "{'shape': (06,)}", 13, "begins with a zero" },
        { "{'shape': (6.0,)}", 12, "a comma is missing" },
        { "{'shape': ((6,),)}", 11, "a number" },
        { "{'shape': (18446744073709551616,)}", 30, "beyond 2^64" },
        { "{'shape': (99999999999999999999999,)}", 30, "beyond 2^64" },
        { "{'descr': '<f4', 'fortran_order': False}", 40, "is missing" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': ()} ()", 54, "something follows" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t bytes[128];
        coffer__npy npy;
        const size_t size = make(bytes, rows[i].text);
        const coffer_status status = coffer__npy_read(&npy, bytes, size);
        if (status != COFFER_ERR_ARRAY || npy.fault_at != 10 + rows[i].at || strstr(npy.fault, rows[i].what) == NULL) {
            fail_msg("%s: %s at %u: %s", rows[i].text, coffer_status_name(status), (unsigned)npy.fault_at,
                     npy.fault != NULL ? npy.fault : "");
        }
    }
}

static void test_frames(void **state)
{
    (void)state;
    coffer__npy npy;
    assert_int_equal(coffer__npy_read(&npy, (const uint8_t *)"\x93NUMPX\1\0\2\0{}", 12), COFFER_ERR_ARRAY);
    assert_int_equal(npy.fault_at, 0);
    assert_int_equal(coffer__npy_read(&npy, (const uint8_t *)"\x93NUMPY\4\0\2\0{}", 12), COFFER_ERR_ARRAY);
    assert_int_equal(npy.fault_at, 6);
    assert_int_equal(coffer__npy_read(&npy, (const uint8_t *)"\x93NUMPY\1\1\2\0{}", 12), COFFER_ERR_ARRAY);
    assert_int_equal(coffer__npy_read(&npy, (const uint8_t *)"\x93NUMPY\2\0\xff\xff\xff\xff", 12), COFFER_ERR_ARRAY);
    assert_string_equal(npy.fault, "it is longer than NumPy allows");
    assert_int_equal(coffer__npy_read(&npy, (const uint8_t *)"\x93NUMPY\1\0\x76\0{}", 12), COFFER_NEED_MORE);
    assert_int_equal(npy.size, 128);
    assert_int_equal(coffer__npy_read(&npy, (const uint8_t *)"\x93NUM", 4), COFFER_NEED_MORE);
    assert_int_equal(npy.size, 12);
    assert_int_equal(coffer__npy_read(&npy, NULL, 0), COFFER_NEED_MORE);
}

static void test_what_is_read(void **state)
{
    (void)state;
    uint8_t bytes[128];
    coffer__npy npy;
    const size_t size = make(bytes, "{'shape': (2, 3L, ), 'descr': \">c8\", 'fortran_order': True}\n");
    assert_int_equal(coffer__npy_read(&npy, bytes, size), COFFER_OK);
    assert_int_equal(npy.element, COFFER__ELEMENT_C64);
    assert_true(npy.swapped && npy.fortran);
    assert_int_equal(npy.rank, 2);
    assert_int_equal(npy.shape[0], 2);
    assert_int_equal(npy.shape[1], 3);
    assert_int_equal(npy.size, size);
}

static void test_what_has_no_equivalent(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        const char *lack;
    } rows[] = {
        { "'|O'", "objects" },
        { "'<U3'", "text" },
        { "'|S3'", "text" },
        { "'<M8[ns]'", "dates" },
        { "'<m8'", "dates" },
        { "'|V7'", "bytes" },
        { "'<f16'", "longer" },
        { "'<c32'", "longer" },
        { "[('a', '<f4')]", "structures" },
        { "('<f4', (2,))", "structures" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t bytes[160];
        char text[128];
        coffer__npy npy;
        snprintf(text, sizeof text, "{'descr': %s, 'fortran_order': False, 'shape': (2,), }", rows[i].type);
        assert_int_equal(coffer__npy_read(&npy, bytes, make(bytes, text)), COFFER_OK);
        assert_non_null(npy.lack);
        assert_non_null(strstr(npy.lack, rows[i].lack));
        assert_int_equal(npy.objects, i == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_frames),
        cmocka_unit_test(test_what_is_read),
        cmocka_unit_test(test_what_has_no_equivalent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
