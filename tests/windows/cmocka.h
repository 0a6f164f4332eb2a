/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of cmocka's interface, what the unit tests use, for Windows: there is no package of cmocka for the compilers that build
 * for it. A failure says where it was, and the next test runs; on a thread that a test has started it ends the program.
 */
#ifndef COFFER_TESTS_WINDOWS_CMOCKA_H
#define COFFER_TESTS_WINDOWS_CMOCKA_H

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
    int (*set_up)(void **state);
    int (*tear_down)(void **state);
} CMUnitTest;

#define cmocka_unit_test_setup_teardown(test, set_up, tear_down)                                                       \
    {                                                                                                                  \
#test, test, set_up, tear_down                                                                                 \
    }
#define cmocka_unit_test_setup(test, set_up) cmocka_unit_test_setup_teardown(test, set_up, NULL)
#define cmocka_unit_test_teardown(test, tear_down) cmocka_unit_test_setup_teardown(test, NULL, tear_down)
#define cmocka_unit_test(test) cmocka_unit_test_setup_teardown(test, NULL, NULL)

/* Where the thread that runs the tests goes on after a failure. Without the system's own unwinding, which takes frames for granted
   that the compiler does not make. (In posix.c, as several files of a program may fail.) */
extern void *cmocka_next[5];
extern unsigned long cmocka_runner;

_Noreturn static inline void cmocka_failed(const char *file, int line)
{
    fprintf(stderr, "\n%s:%d: the test failed\n", file, line);
    fflush(NULL);
    if (cmocka_runner != _threadid) {
        _Exit(1);
    }
    __builtin_longjmp(cmocka_next, 1);
}

static inline void cmocka_expect(int holds, const char *what, const char *file, int line)
{
    if (!holds) {
        fprintf(stderr, "%s does not hold", what);
        cmocka_failed(file, line);
    }
}

static inline void cmocka_expect_numbers(uintmax_t one, uintmax_t other, int same, const char *file, int line)
{
    if ((one == other) != same) {
        fprintf(stderr, "%" PRIuMAX " (%#" PRIxMAX ") and %" PRIuMAX " (%#" PRIxMAX ")", one, one, other, other);
        cmocka_failed(file, line);
    }
}

static inline void cmocka_expect_strings(const char *one, const char *other, int same, const char *file, int line)
{
    if ((strcmp(one, other) == 0) != same) {
        fprintf(stderr, "\"%s\"\n\"%s\"", one, other);
        cmocka_failed(file, line);
    }
}

static inline void cmocka_expect_bytes(const void *one, const void *other, size_t size, const char *file, int line)
{
    const unsigned char *left = one;
    const unsigned char *right = other;
    for (size_t i = 0; i < size; i++) {
        if (left[i] != right[i]) {
            fprintf(stderr, "byte %zu of %zu: %#x and %#x", i, size, left[i], right[i]);
            cmocka_failed(file, line);
        }
    }
}

static inline void cmocka_expect_range(uintmax_t value, uintmax_t low, uintmax_t high, const char *file, int line)
{
    if (value < low || value > high) {
        fprintf(stderr, "%" PRIuMAX " is not within %" PRIuMAX " and %" PRIuMAX, value, low, high);
        cmocka_failed(file, line);
    }
}

#define assert_true(condition) cmocka_expect((condition) ? 1 : 0, #condition, __FILE__, __LINE__)
#define assert_false(condition) cmocka_expect((condition) ? 0 : 1, "not: " #condition, __FILE__, __LINE__)
#define assert_null(pointer) cmocka_expect((uintptr_t)(pointer) == 0, #pointer " == NULL", __FILE__, __LINE__)
#define assert_non_null(pointer) cmocka_expect((uintptr_t)(pointer) != 0, #pointer " != NULL", __FILE__, __LINE__)
#define assert_ptr_equal(one, other)                                                                                   \
    cmocka_expect((const void *)(one) == (const void *)(other), #one " == " #other, __FILE__, __LINE__)
#define assert_ptr_not_equal(one, other) cmocka_expect((one) != (other), #one " != " #other, __FILE__, __LINE__)
#define assert_int_equal(one, other) cmocka_expect_numbers((uintmax_t)(one), (uintmax_t)(other), 1, __FILE__, __LINE__)
#define assert_int_not_equal(one, other)                                                                               \
    cmocka_expect_numbers((uintmax_t)(one), (uintmax_t)(other), 0, __FILE__, __LINE__)
#define assert_string_equal(one, other) cmocka_expect_strings(one, other, 1, __FILE__, __LINE__)
#define assert_string_not_equal(one, other) cmocka_expect_strings(one, other, 0, __FILE__, __LINE__)
#define assert_memory_equal(one, other, size) cmocka_expect_bytes(one, other, size, __FILE__, __LINE__)
#define assert_in_range(value, low, high)                                                                              \
    cmocka_expect_range((uintmax_t)(value), (uintmax_t)(low), (uintmax_t)(high), __FILE__, __LINE__)
#define print_error(...) ((void)fprintf(stderr, __VA_ARGS__))
#define print_message(...) ((void)printf(__VA_ARGS__))
#define fail_msg(...) (fprintf(stderr, __VA_ARGS__), cmocka_failed(__FILE__, __LINE__))
#define fail() cmocka_failed(__FILE__, __LINE__)

/* tests/left_out.txt may leave out single cases of a program; the words of COFFER_LEFT_OUT are theirs. */
static inline int cmocka_is_left_out(const char *name)
{
    const size_t length = strlen(name);
    const char *at = getenv("COFFER_LEFT_OUT");
    while (at != NULL && (at = strstr(at, name)) != NULL) {
        if (at[-1] == ' ' && (at[length] == ' ' || at[length] == '\0')) {
            return 1;
        }
        at += length;
    }
    return 0;
}

/* Every word has to be the name of a case, so that none stays in the list for longer than there is a reason. */
static inline void cmocka_expect_left_out(size_t left_out, const char *file)
{
    const char *words = getenv("COFFER_LEFT_OUT");
    size_t expected = 0;
    for (; words != NULL && *words != '\0'; words++) {
        expected += words[0] == ' ' && words[1] != ' ' && words[1] != '\0';
    }
    if (expected != left_out) {
        fprintf(stderr, "%s: tests/left_out.txt names %zu cases of it, and it has %zu of those\n", file, expected,
                left_out);
        _Exit(1);
    }
}

static inline int cmocka_run_case(const CMUnitTest *test, void *group)
{
    void *state = group;
    printf("%s\n", test->name);
    fflush(stdout);
    if (test->set_up != NULL && test->set_up(&state) != 0) {
        return 1;
    }
    test->run(&state);
    return test->tear_down != NULL && test->tear_down(&state) != 0;
}

static inline int cmocka_run(const CMUnitTest *tests, size_t count, int (*set_up)(void **), int (*tear_down)(void **),
                             const char *file)
{
    void *group = NULL;
    volatile size_t left_out = 0;
    volatile int failed = set_up != NULL && set_up(&group) != 0;
    const int begun = !failed;
    cmocka_runner = _threadid;
    for (volatile size_t i = 0; i < count && begun; i++) {
        if (cmocka_is_left_out(tests[i].name)) {
            left_out++;
        } else if (__builtin_setjmp(cmocka_next) == 0) {
            failed += cmocka_run_case(&tests[i], group);
        } else {
            failed++;
        }
    }
    cmocka_runner = 0; /* what fails from here on has no next test */
    failed += tear_down != NULL && tear_down(&group) != 0;
    cmocka_expect_left_out(left_out, file);
    printf("[  PASSED  ] %zu test(s).\n", count - left_out - (size_t)failed);
    return failed != 0;
}

#define cmocka_run_group_tests_name(name, tests, set_up, tear_down) cmocka_run_group_tests(tests, set_up, tear_down)
#define cmocka_run_group_tests(tests, set_up, tear_down)                                                               \
    cmocka_run(tests, sizeof(tests) / sizeof((tests)[0]), set_up, tear_down, __FILE__)

#endif
