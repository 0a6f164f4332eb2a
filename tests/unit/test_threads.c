/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the library's own: which signals they take. */
#define _GNU_SOURCE
#include "os.h"
#include "support_cmocka.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

/* What an instruction of the thread itself causes, as SIGBUS is where a map's file has become shorter. */
static const int own[] = { SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP };
static const int others[] = { SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGCHLD, SIGUSR1, SIGPROF, SIGPIPE };
#define OWN_COUNT (sizeof own / sizeof own[0])
#define OTHER_COUNT (sizeof others / sizeof others[0])

static atomic_int handled;

static void handle(int number)
{
    handled = number;
}

typedef struct thread_mask {
    sigset_t blocked;
    int sent; /* to itself; 0: none */
} thread_mask;

static void look_at_mask(void *arg)
{
    thread_mask *mask = arg;
    (void)pthread_sigmask(SIG_BLOCK, NULL, &mask->blocked);
    if (mask->sent != 0) {
        (void)pthread_kill(pthread_self(), mask->sent);
    }
}

static void run_thread(thread_mask *mask)
{
    coffer__thread thread;
    assert_int_equal(coffer__os_thread_start(&thread, look_at_mask, mask, false), 0);
    coffer__os_thread_join(&thread);
}

static void measure_stack(void *arg)
{
    size_t *size = arg;
    pthread_attr_t attributes;
    assert_int_equal(pthread_getattr_np(pthread_self(), &attributes), 0);
    assert_int_equal(pthread_attr_getstacksize(&attributes, size), 0);
    pthread_attr_destroy(&attributes);
}

static size_t stack_of_thread(bool small)
{
    size_t size = 0;
    coffer__thread thread;
    assert_int_equal(coffer__os_thread_start(&thread, measure_stack, &size, small), 0);
    coffer__os_thread_join(&thread);
    return size;
}

static void test_small_stacks(void **state)
{
    (void)state;
    /* Sanitizers add to every stack, and some C libraries give all threads small ones. */
    const size_t small = stack_of_thread(true);
    const size_t usual = stack_of_thread(false);
    assert_true(small >= (size_t)200 << 10);
    assert_true(small < usual || usual < (size_t)1 << 20);
}

static void test_signals_belong_to_the_program(void **state)
{
    (void)state;
    thread_mask mask = { .sent = 0 };
    sigset_t before;
    sigset_t after;
    assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &before), 0);
    run_thread(&mask);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &after), 0);
    for (size_t i = 0; i < OTHER_COUNT; i++) {
        assert_true(sigismember(&mask.blocked, others[i]));
        assert_int_equal(sigismember(&before, others[i]), sigismember(&after, others[i]));
    }
    for (size_t i = 0; i < OWN_COUNT; i++) {
        assert_false(sigismember(&mask.blocked, own[i]));
        assert_int_equal(sigismember(&before, own[i]), sigismember(&after, own[i]));
    }
}

/* A handler of the program's runs on the thread that caused the signal. */
static void test_own_signals_are_handled(void **state)
{
    (void)state;
    struct sigaction action;
    struct sigaction before;
    memset(&action, 0, sizeof action);
    action.sa_handler = handle;
    assert_int_equal(sigaction(SIGBUS, &action, &before), 0);
    thread_mask mask = { .sent = SIGBUS };
    handled = 0;
    run_thread(&mask);
    assert_int_equal(handled, SIGBUS);
    assert_int_equal(sigaction(SIGBUS, &before, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signals_belong_to_the_program),
        cmocka_unit_test(test_own_signals_are_handled),
        cmocka_unit_test(test_small_stacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
