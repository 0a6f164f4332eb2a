/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cancelling while something is waited for: far away, a slow device, a disk that is to be sure, the reader of a pipe. Nothing
 * here is timed: the source of most of these tests gives no answer, ever, to whoever may be told to stop, and asks its watch until
 * that says so. A call that waits for an answer never returns, and the test's time runs out.
 */
#define _XOPEN_SOURCE 700 /* setitimer */

#include "support_cmocka.h"

#include "coffer.h"
#include "output_target.h"
#include "source.h"
#include "support_file.h"
#include "support_model.h"
#include "thread_pool.h"
#include "transfer.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

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

static coffer_status stuck_read(const coffer__byte_source *source, uint64_t offset, void *buffer, size_t size,
                                const coffer__watch *watch, coffer_error *err)
{
    (void)offset;
    stuck *state = source->state.kept;
    if (state->serves && pthread_equal(pthread_self(), state->served)) {
        while (atomic_load(&state->waiting) == 0) {
            look_again();
        }
        memset(buffer, 0, size);
        return COFFER_OK;
    }
    atomic_fetch_add(&state->waiting, 1);
    assert_non_null(watch);
    while (!watch->stop(watch->ctx)) {
        look_again();
    }
    memset(err, 0, sizeof *err);
    err->code = COFFER_ERR_CANCELLED;
    return COFFER_ERR_CANCELLED;
}

static void stuck_close(coffer__byte_source *source)
{
    (void)source;
}

static coffer__byte_source make_stuck(stuck *state, uint64_t size, bool serves)
{
    static const coffer__source_ops ops = { .kind = "a test", .read_at = stuck_read, .close = stuck_close };
    state->served = pthread_self();
    state->serves = serves;
    atomic_init(&state->waiting, 0);
    coffer__byte_source source;
    coffer__source_init(&source, &ops, size, (coffer__source_traits){ .far = true });
    source.state.kept = state;
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
        const coffer__byte_source source = make_stuck(&there, 9 * MIB, serves != 0);
        const coffer__transfer_options options = make_options(&last);
        const coffer__transfer_op row = { .source = &source, .size = 9 * MIB, .to = got };
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
        const coffer__byte_source source = make_stuck(&there, 8 * MIB, serves != 0);
        const coffer__transfer_options options = make_options(&last);
        const coffer__transfer_op rows[] = {
            { .source = &source, .size = 4 * MIB, .algorithm = COFFER_SHA256, .digest = digests[0] },
            { .source = &source, .offset = 4 * MIB, .size = 4 * MIB, .algorithm = COFFER_SHA256, .digest = digests[1] },
        };
        assert_int_equal(coffer__transfer(rows, 2, &options, &err), COFFER_ERR_CANCELLED);
        assert_int_equal(err.code, COFFER_ERR_CANCELLED);
        assert_true(atomic_load(&there.waiting) >= 1);
        assert_int_equal(last > 0, serves != 0);
    }
}

/* A sink that nothing may come to. */
static coffer_status refuse(coffer__byte_sink *sink, uint64_t offset, const void *bytes, size_t size, coffer_error *err)
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
    const coffer__byte_source source = make_stuck(&there, 9 * MIB, false);
    const coffer__transfer_options options = make_options(&last);
    const coffer__sink_ops ops = { .write_at = refuse };
    coffer__byte_sink sink = { .ops = &ops };
    const coffer__transfer_op move = { .source = &source, .size = 9 * MIB };
    assert_int_equal(coffer__land_in_sink(&sink, &move, 1, &options, &err), COFFER_ERR_CANCELLED);
    assert_int_equal(err.code, COFFER_ERR_CANCELLED);
    assert_true(atomic_load(&there.waiting) >= 1);
}

/* ---- progress that says no when it is asked so often -------------------------------------------------------------- */

typedef struct patience {
    unsigned most; /* times that it says yes */
    unsigned asked;
    uint64_t done;
    uint64_t total;
} patience;

static int lose_patience(void *ctx, uint64_t done, uint64_t total)
{
    patience *of = ctx;
    of->asked++;
    of->done = done;
    of->total = total;
    return of->asked > of->most;
}

/* ---- opening several files ----------------------------------------------------------------------------------------- */

static coffer_status open_parts(patience *of, coffer_error *err)
{
    coffer *model = NULL;
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.progress = lose_patience;
    options.progress_ctx = of;
    const coffer_status status = coffer_open(&model, work_path("model.safetensors.index.json"), &options, err);
    assert_int_equal(model != NULL, status == COFFER_OK);
    coffer_close(model);
    return status;
}

static void opening_ends(void **state)
{
    (void)state;
    coffer_error err;
    const size_t before = open_descriptors();
    work_dir_make();
    assert_int_equal(model_save(40, 1, 1, NULL, coffer_libc_allocator(), &err), COFFER_OK);
    patience none = { .most = 0 };
    assert_int_equal(open_parts(&none, &err), COFFER_ERR_CANCELLED);
    assert_int_equal(err.code, COFFER_ERR_CANCELLED);
    assert_int_equal(none.asked, 1);
    patience all = { .most = 1000000 };
    assert_int_equal(open_parts(&all, &err), COFFER_OK);
    assert_true(all.asked > 0 && all.done <= 40 && all.total == 40);
    work_dir_remove();
    assert_int_equal(open_descriptors(), before);
}

/* ---- threads that wait --------------------------------------------------------------------------------------------- */

typedef struct waiter {
    coffer__thread_pool_worker base;
    const coffer__watch *watch;
} waiter;

static void wait_until_stopped(void *arg)
{
    const waiter *worker = arg;
    while (!worker->watch->stop(worker->watch->ctx)) {
        look_again();
    }
}

/* A thread pool whose workers wait until the user has lost patience. */
static void wait_by(size_t count, bool caller_asks, patience *of, uint64_t total)
{
    coffer_error err;
    waiter workers[4];
    coffer__thread_pool thread_pool = {
        .work = wait_until_stopped,
        .progress = lose_patience,
        .progress_ctx = of,
        .total = total,
        .err = &err,
        .caller_asks = caller_asks,
    };
    const coffer__watch watch = coffer__thread_pool_watch(&thread_pool);
    for (size_t i = 0; i < 4; i++) {
        workers[i].watch = &watch;
    }
    assert_int_equal(coffer__thread_pool_run(&thread_pool, workers, count, sizeof workers[0]), COFFER_ERR_CANCELLED);
    assert_int_equal(err.code, COFFER_ERR_CANCELLED);
}

static void waiting_ends(void **state)
{
    (void)state;
    patience some = { .most = 2 };
    wait_by(4, true, &some, 7);
    assert_int_equal(some.asked, 3);
    assert_int_equal(some.total, 7);
}

static void waiting_alone_ends(void **state)
{
    (void)state;
    patience some = { .most = 2 };
    wait_by(1, true, &some, 1);
    assert_int_equal(some.asked, 3);
}

/* ---- which failure counts ------------------------------------------------------------------------------------------ */

/* Workers that fail in a fixed order: each waits until as many failures as its turn have been recorded. */
typedef struct failing {
    coffer__thread_pool_worker base;
    unsigned *recorded; /* under the thread pool's mutex */
    unsigned turn;
    uint64_t at;
    coffer_status status;
} failing;

static void fail_in_turn(void *arg)
{
    const failing *worker = arg;
    coffer__thread_pool *thread_pool = worker->base.thread_pool;
    coffer_error error = { .code = worker->status };
    bool mine = false;
    for (unsigned looks = 0; !mine && looks < 10000; looks++) {
        coffer__os_mutex_lock(&thread_pool->mutex);
        mine = *worker->recorded == worker->turn;
        coffer__os_mutex_unlock(&thread_pool->mutex);
        if (!mine) {
            look_again();
        }
    }
    coffer__thread_pool_fail_at(thread_pool, worker->at, worker->status, &error, (size_t)worker->at);
    coffer__os_mutex_lock(&thread_pool->mutex);
    (*worker->recorded)++;
    coffer__os_mutex_unlock(&thread_pool->mutex);
}

/* Three failures, one after another; the answer is that of `row`. */
static void check_failures(const uint64_t at[3], const coffer_status statuses[3], size_t row)
{
    coffer_error err = { .code = COFFER_OK };
    failing workers[3];
    size_t failed = COFFER__THREAD_POOL_NO_ROW;
    unsigned recorded = 0;
    coffer__thread_pool thread_pool = { .work = fail_in_turn, .err = &err, .failed = &failed };
    const coffer__thread_pool_worker none = { .thread_pool = NULL };
    for (unsigned i = 0; i < 3; i++) {
        workers[i] = (failing){ none, &recorded, i, at[i], statuses[i] };
    }
    const coffer_status status = coffer__thread_pool_run(&thread_pool, workers, 3, sizeof workers[0]);
    assert_int_equal(recorded, 3);
    assert_int_equal(failed, row);
    assert_int_equal(status, err.code);
    for (size_t i = 0; i < 3; i++) {
        assert_true(at[i] != row || status == statuses[i]);
    }
}

static void the_lowest_failure_counts(void **state)
{
    (void)state;
    const coffer_status failures[] = { COFFER_ERR_CHANGED, COFFER_ERR_IO, COFFER_ERR_MEMORY };
    const coffer_status later[] = { COFFER_ERR_CHANGED, COFFER_ERR_CANCELLED, COFFER_ERR_IO };
    const coffer_status first[] = { COFFER_ERR_CANCELLED, COFFER_ERR_CHANGED, COFFER_ERR_IO };
    check_failures((const uint64_t[]){ 3, 1, 2 }, failures, 1);
    check_failures((const uint64_t[]){ 1, 2, 3 }, failures, 1);
    check_failures((const uint64_t[]){ 3, 1, 2 }, later, 2);
    check_failures((const uint64_t[]){ 3, 1, 2 }, first, 3);
}

/* ---- runs that lie far apart --------------------------------------------------------------------------------------- */

#define ROWS 400u
#define COLUMNS 2048u

typedef struct slow_file {
    image content;
    unsigned reads; /* of single runs */
} slow_file;

/* A disk that takes its time for each place. */
static coffer_status read_slowly(void *ctx, uint64_t offset, void *buffer, size_t size, coffer_error *err)
{
    (void)err;
    slow_file *file = ctx;
    if (size == sizeof(float)) {
        const struct timespec moment = { 0, 10000000 };
        file->reads++;
        (void)nanosleep(&moment, NULL);
    }
    memcpy(buffer, file->content.bytes + (size_t)offset, size);
    return COFFER_OK;
}

static void slicing_ends(void **state)
{
    (void)state;
    const tensor_spec spec = { "t", COFFER_F32, 2, { ROWS, COLUMNS } };
    slow_file file = { .content = image_of(&spec, 1) };
    const coffer_source source = { .read_at = read_slowly, .ctx = &file, .size = file.content.size };
    coffer *model = NULL;
    coffer_error err;
    assert_int_equal(coffer_open_source(&model, &source, NULL, &err), COFFER_OK);
    const coffer_index column[] = { { .kind = COFFER_INDEX_ALL }, { .kind = COFFER_INDEX_AT, .start = 5 } };
    float got[ROWS];
    patience none = { .most = 0 };
    coffer_read_options options = COFFER_READ_OPTIONS_INIT;
    options.progress = lose_patience;
    options.progress_ctx = &none;
    options.threads = 1;
    assert_int_equal(coffer_read_slice(model, tensor_named(model, "t"), column, 2, got, sizeof got, &options, &err),
                     COFFER_ERR_CANCELLED);
    /* All of it is one piece. Whoever asks only after it has read everything. */
    assert_true(file.reads > 0 && file.reads < ROWS);
    coffer_close(model);
    image_free(&file.content);
}

/* ---- saving -------------------------------------------------------------------------------------------------------- */

#define SAVED ((uint64_t)20 << 20)

/* Saves that many bytes to a path, and asks `of` while they are made durable. */
static coffer_status save_durably(patience *of, bool in_place, coffer_error *err)
{
    const tensor_spec spec = { "t", COFFER_U8, 1, { SAVED } };
    coffer_writer *writer = NULL;
    coffer_header *header = header_of(&spec, 1, coffer_libc_allocator());
    uint8_t *bytes = calloc(1, (size_t)SAVED);
    coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    assert_non_null(bytes);
    options.sync = COFFER_SYNC_ALWAYS;
    options.in_place = in_place;
    options.progress = lose_patience;
    options.progress_ctx = of;
    assert_int_equal(coffer_writer_open(&writer, header, work_path("x"), &options, err), COFFER_OK);
    assert_int_equal(coffer_writer_write(writer, 0, 0, bytes, SAVED, err), COFFER_OK);
    assert_int_equal(of->asked, 0);
    const coffer_status status = coffer_writer_finish(writer, err);
    coffer_writer_free(writer);
    coffer_header_free(header);
    free(bytes);
    return status;
}

static void making_durable_ends(void **state)
{
    (void)state;
    coffer_error err;
    work_dir_make();
    file_write("x", "old", 3);
    patience one = { .most = 1 };
    assert_int_equal(save_durably(&one, false, &err), COFFER_ERR_CANCELLED);
    assert_true(one.done > 0 && one.done < one.total && one.total > SAVED);
    size_t size = 0;
    free(file_read("x", &size));
    assert_int_equal(size, 3);
    assert_int_equal(work_dir_count(), 1);
    patience all = { .most = 1000 };
    assert_int_equal(save_durably(&all, false, &err), COFFER_OK);
    assert_true(all.asked > 1);
    patience none = { .most = 0 };
    assert_int_equal(save_durably(&none, true, &err), COFFER_ERR_CANCELLED);
    work_dir_remove();
}

static void ring(int number)
{
    (void)number;
}

/* Somebody keeps interrupting, as Ctrl-C does once. */
static void set_alarm(long microseconds)
{
    const struct itimerval every = { { 0, microseconds }, { 0, microseconds } };
    assert_int_equal(setitimer(ITIMER_REAL, &every, NULL), 0);
}

static void writing_to_a_pipe_ends(void **state)
{
    (void)state;
    const tensor_spec spec = { "t", COFFER_U8, 1, { SAVED } };
    const struct sigaction interrupting = { .sa_handler = ring };
    struct sigaction before;
    int ends[2];
    coffer_error err;
    coffer_writer *writer = NULL;
    patience some = { .most = 3 };
    coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    options.progress = lose_patience;
    options.progress_ctx = &some;
    coffer_header *header = header_of(&spec, 1, coffer_libc_allocator());
    uint8_t *bytes = calloc(1, (size_t)SAVED);
    assert_non_null(bytes);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(sigaction(SIGALRM, &interrupting, &before), 0);
    assert_int_equal(coffer_writer_open_fd(&writer, header, ends[1], &options, &err), COFFER_OK);
    set_alarm(10000);
    assert_int_equal(coffer_writer_write(writer, 0, 0, bytes, SAVED, &err), COFFER_ERR_CANCELLED);
    set_alarm(0);
    assert_int_equal(some.asked, 4);
    assert_true(some.done < some.total && some.total > SAVED);
    coffer_writer_free(writer);
    coffer_header_free(header);
    free(bytes);
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
    assert_int_equal(close(ends[0]) | close(ends[1]), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_transfer_ends),
        cmocka_unit_test(hashing_ends),
        cmocka_unit_test(moving_ends),
        cmocka_unit_test(opening_ends),
        cmocka_unit_test(waiting_ends),
        cmocka_unit_test(waiting_alone_ends),
        cmocka_unit_test(the_lowest_failure_counts),
        cmocka_unit_test(slicing_ends),
        cmocka_unit_test(making_durable_ends),
        cmocka_unit_test(writing_to_a_pipe_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
