/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cancelling while something far away is waited for. Nothing here is timed: the source of these tests gives no answer, ever,
 * to whoever may be told to stop, and asks its watch until that says so. A call that waits for an answer never returns, and the
 * test's time runs out.
 */
#define _POSIX_C_SOURCE 200809L

#include "support_cmocka.h"

#include "coffer.h"
#include "digest.h"
#include "move.h"
#include "source.h"
#include "transfer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIB ((uint64_t)1 << 20)

/* A source that answers the thread `served`, when another one is stuck in it, and nobody else. */
typedef struct stuck {
    pthread_t served;
    bool serves; /* else nobody at all is answered */
    atomic_uint waiting;
} stuck;

static void look_again(void)
{
    const struct timespec moment = { 0, 1000000 };
    (void)nanosleep(&moment, NULL);
}

static coffer_status stuck_read_watched(const coffer__source *source, uint64_t offset, void *buffer, size_t size,
                                        const coffer__watch *watch, coffer_error *err)
{
    (void)offset;
    stuck *state = source->as.custom.ctx;
    if (state->serves && pthread_equal(pthread_self(), state->served)) {
        while (atomic_load(&state->waiting) == 0) {
            look_again();
        }
        memset(buffer, 0, size);
        return COFFER_OK;
    }
    atomic_fetch_add(&state->waiting, 1);
    while (!watch->stop(watch->ctx)) {
        look_again();
    }
    memset(err, 0, sizeof *err);
    err->code = COFFER_ERR_CANCELLED;
    return COFFER_ERR_CANCELLED;
}

static coffer_status stuck_read(const coffer__source *source, uint64_t offset, void *buffer, size_t size,
                                coffer_error *err)
{
    (void)source;
    (void)offset;
    (void)buffer;
    (void)size;
    (void)err;
    fail_msg("read without a watch");
    return COFFER_ERR_IO;
}

static void stuck_close(coffer__source *source)
{
    (void)source;
}

static coffer__source make_stuck(stuck *state, uint64_t size, bool serves)
{
    static const coffer__source_ops ops = {
        .read_at = stuck_read, .close = stuck_close, .far = true, .read_watched = stuck_read_watched
    };
    state->served = pthread_self();
    state->serves = serves;
    atomic_init(&state->waiting, 0);
    coffer__source source = { .ops = &ops, .size = size };
    source.as.custom.ctx = state;
    return source;
}

/* Asks to stop when it is told of the same bytes a second time: then the caller's thread does nothing but wait. */
static int stop_when_nothing_comes(void *ctx, uint64_t done, uint64_t total)
{
    uint64_t *last = ctx;
    const bool again = done == *last;
    *last = done;
    assert_true(done < total);
    return again;
}

static coffer__transfer_options make_options(uint64_t *last)
{
    *last = COFFER_NO_OFFSET;
    return (coffer__transfer_options){
        .allocator = coffer_libc_allocator(), .progress = stop_when_nothing_comes, .progress_ctx = last, .threads = 2
    };
}

static void a_transfer_ends(void **state)
{
    (void)state;
    for (int serves = 0; serves <= 1; serves++) {
        stuck there;
        uint64_t last = 0;
        coffer_error err;
        uint8_t *got = malloc((size_t)(9 * MIB));
        assert_non_null(got);
        const coffer__source source = make_stuck(&there, 9 * MIB, serves != 0);
        const coffer__transfer_options options = make_options(&last);
        const coffer__row row = { .source = &source, .size = 9 * MIB, .to = got };
        assert_int_equal(coffer__transfer(&row, 1, &options, &err), COFFER_ERR_CANCELLED);
        assert_int_equal(err.code, COFFER_ERR_CANCELLED);
        assert_true(atomic_load(&there.waiting) >= 1);
        assert_int_equal(last > 0, serves != 0);
        free(got);
    }
}

static void hashing_ends(void **state)
{
    (void)state;
    for (int serves = 0; serves <= 1; serves++) {
        stuck there;
        uint64_t last = 0;
        coffer_error err;
        uint8_t digests[2][32];
        const coffer__source source = make_stuck(&there, 8 * MIB, serves != 0);
        const coffer__transfer_options options = make_options(&last);
        const coffer__digest_row rows[] = {
            { .source = &source, .size = 4 * MIB, .algorithm = COFFER_SHA256, .digest = digests[0] },
            { .source = &source, .offset = 4 * MIB, .size = 4 * MIB, .algorithm = COFFER_SHA256, .digest = digests[1] },
        };
        assert_int_equal(coffer__digest(rows, 2, &options, &err), COFFER_ERR_CANCELLED);
        assert_int_equal(err.code, COFFER_ERR_CANCELLED);
        assert_true(atomic_load(&there.waiting) >= 1);
        assert_int_equal(last > 0, serves != 0);
    }
}

/* A sink that nothing may come to. */
static coffer_status refuse(coffer__sink *sink, uint64_t offset, const void *bytes, size_t size, coffer_error *err)
{
    (void)sink;
    (void)offset;
    (void)bytes;
    (void)size;
    (void)err;
    fail_msg("written, though nothing came");
    return COFFER_ERR_IO;
}

static void moving_ends(void **state)
{
    (void)state;
    stuck there;
    uint64_t last = 0;
    coffer_error err;
    const coffer__source source = make_stuck(&there, 9 * MIB, false);
    const coffer__transfer_options options = make_options(&last);
    const coffer__sink_ops ops = { .write_at = refuse };
    coffer__sink sink = { .ops = &ops };
    const coffer__move move = { &source, 0, 0, 9 * MIB };
    assert_int_equal(coffer__move_all(&sink, &move, 1, &options, &err), COFFER_ERR_CANCELLED);
    assert_int_equal(err.code, COFFER_ERR_CANCELLED);
    assert_true(atomic_load(&there.waiting) >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_transfer_ends),
        cmocka_unit_test(hashing_ends),
        cmocka_unit_test(moving_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
