/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A system that has no more locks: opening a model of several files makes one for each file and some more, any of which
 * may fail. Then those that were made are destroyed, and no others: destroying a lock that was never made is undefined,
 * although most systems let it pass.
 */
#define _GNU_SOURCE

#include "support_cmocka.h"

#include "coffer.h"
#include "support_file.h"
#include "support_memory.h"
#include "support_model.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define MAX_LOCKS 256

/* The locks that were made and not destroyed. Threads make locks too, so a flag guards the list. */
static struct {
    atomic_flag busy;
    const void *all[MAX_LOCKS];
    size_t count;
    unsigned calls;
    unsigned fail_at;   /* the number of the call that fails, from 1; 0: none does */
    unsigned strangers; /* that were destroyed, and had not been made */
} locks = { .busy = ATOMIC_FLAG_INIT };

static void enter(void)
{
    while (atomic_flag_test_and_set(&locks.busy)) {}
}

static void leave(void)
{
    atomic_flag_clear(&locks.busy);
}

int pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
    int (*next)(pthread_mutex_t * mutex, const pthread_mutexattr_t *attributes) = NULL;
    void *found = dlsym(RTLD_NEXT, "pthread_mutex_init");
    memcpy(&next, &found, sizeof next);
    enter();
    const bool fails = ++locks.calls == locks.fail_at || locks.count == MAX_LOCKS;
    if (!fails) {
        locks.all[locks.count++] = mutex;
    }
    leave();
    return fails ? EAGAIN : next(mutex, attributes);
}

int pthread_mutex_destroy(pthread_mutex_t *mutex)
{
    int (*next)(pthread_mutex_t * mutex) = NULL;
    void *found = dlsym(RTLD_NEXT, "pthread_mutex_destroy");
    memcpy(&next, &found, sizeof next);
    enter();
    size_t i = 0;
    while (i < locks.count && locks.all[i] != mutex) {
        i++;
    }
    const bool known = i < locks.count;
    if (known) {
        locks.all[i] = locks.all[--locks.count];
    } else {
        locks.strangers++;
    }
    leave();
    return known ? next(mutex) : 0;
}

static void any_lock_may_be_missing(void **state)
{
    (void)state;
    assert_int_equal(model_save(12, 1, 100, NULL, NULL, NULL), COFFER_OK);
    const size_t before = locks.count;
    coffer_status status = COFFER_ERR_MEMORY;
    unsigned k = 0;
    while (status != COFFER_OK) {
        memory_meter meter;
        const coffer_allocator metered = metered_allocator(&meter);
        coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
        options.allocator = &metered;
        coffer *model = NULL;
        coffer_error err;
        locks.calls = 0;
        locks.fail_at = ++k;
        status = coffer_open(&model, work_path("model.safetensors.index.json"), &options, &err);
        assert_true(status == COFFER_OK ? model != NULL : model == NULL && err.code == status);
        coffer_close(model);
        locks.fail_at = 0;
        assert_int_equal(locks.strangers, 0);
        assert_int_equal(locks.count, before);
        assert_int_equal(meter.held, 0);
    }
    assert_true(k > 6); /* a lock for each of several files, and some more */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_lock_may_be_missing, work_dir_set_up, work_dir_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
