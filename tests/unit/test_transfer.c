/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transfer: rows of a plan carried out from a map and by reads, with one thread and with several. Every byte of
 * every result is compared; the source counts what is asked of it, so that a slice that reads what it does not need is
 * seen, as is one that reads it element by element.
 */
#define _DEFAULT_SOURCE /* RLIMIT_NPROC */

#include "support_cmocka.h"

#include "coffer.h"
#include "os.h"
#include "slice.h"
#include "source.h"
#include "support_child.h"
#include "support_memory.h"
#include "transfer.h"
#include "walk.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)
#define LONGEST_GAP 4096u

/* ---- a source that watches --------------------------------------------------------------------------------------- */

typedef struct watched {
    const uint8_t *bytes;
    uint64_t size;
    pthread_mutex_t mutex; /* guards what follows */
    uint8_t *touched;      /* a byte for each byte of the source: 1 when read; NULL: not of interest */
    uint64_t reads;
    uint64_t read_bytes;
    uint64_t fail_at; /* the read that fails, counted from 1; 0: none */
    uint64_t under_way;
    uint64_t most_at_once;
    pthread_barrier_t *barrier; /* the first `gathering` reads wait for each other */
    uint64_t gathering;
} watched;

static coffer_status watched_fail(coffer_error *err)
{
    memset(err, 0, sizeof *err);
    err->code = COFFER_ERR_IO;
    memcpy(err->message, "the disk is on fire", 20);
    return COFFER_ERR_IO;
}

static coffer_status watched_read(const coffer__byte_source *source, uint64_t offset, void *buffer, size_t size,
                                  const coffer__watch *watch, coffer_error *err)
{
    (void)watch;
    watched *w = source->state.kept;
    pthread_mutex_lock(&w->mutex);
    const uint64_t number = ++w->reads;
    w->read_bytes += size;
    w->under_way++;
    w->most_at_once = w->under_way > w->most_at_once ? w->under_way : w->most_at_once;
    if (w->touched != NULL) {
        memset(w->touched + offset, 1, size);
    }
    pthread_mutex_unlock(&w->mutex);
    if (number <= w->gathering) {
        pthread_barrier_wait(w->barrier);
    }
    memcpy(buffer, w->bytes + offset, size);
    pthread_mutex_lock(&w->mutex);
    w->under_way--;
    pthread_mutex_unlock(&w->mutex);
    return number == w->fail_at ? watched_fail(err) : COFFER_OK;
}

static void watched_close(coffer__byte_source *source)
{
    (void)source;
}

static const coffer__source_ops watched_ops = { .kind = "a test", .read_at = watched_read, .close = watched_close };

static void watched_init(watched *w, coffer__byte_source *source, const uint8_t *bytes, uint64_t size)
{
    *w = (watched){ .bytes = bytes, .size = size };
    pthread_mutex_init(&w->mutex, NULL);
    *source = (coffer__byte_source){ .ops = &watched_ops, .size = size };
    source->state.kept = w;
}

static void watched_free(watched *w)
{
    pthread_mutex_destroy(&w->mutex);
}

static uint64_t random_state = 7;

static uint32_t random_below(uint32_t limit)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(random_state >> 33) % limit;
}

/* Bytes in which any stretch of eight is unlike any other near it. */
static uint8_t *make_bytes(uint64_t size)
{
    uint8_t *bytes = malloc((size_t)size + 8);
    assert_non_null(bytes);
    for (uint64_t i = 0; i < size; i += 8) {
        const uint64_t mixed = (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
        memcpy(bytes + i, &mixed, 8);
    }
    return bytes;
}

static coffer__transfer_options with_threads(uint32_t threads)
{
    return (coffer__transfer_options){ .allocator = coffer_libc_allocator(), .threads = threads };
}

/* ---- slices against a byte-wise oracle --------------------------------------------------------------------------- */

/* No read may begin or end with a byte that is not needed, nor hold a long stretch of such bytes: `touched` and the
   needs are compared as stretches, which is what all reads together come to. */
static void assert_only_needed(const uint8_t *touched, const uint8_t *needed, uint64_t size)
{
    uint64_t gap = 0;
    bool inside = false;
    for (uint64_t i = 0; i < size; i++) {
        if (needed[i] != 0) {
            assert_int_equal(touched[i], 1);
            gap = 0;
            inside = true;
        } else if (touched[i] != 0) {
            gap++;
            assert_true(inside && gap <= LONGEST_GAP);
        } else {
            /* A read that ended before this byte must have ended with a needed one. */
            assert_int_equal(gap, 0);
            inside = false;
        }
    }
    assert_int_equal(gap, 0);
}

static void check_box(const coffer_tensor *tensor, const coffer__box *box, const uint8_t *bytes, uint32_t threads)
{
    const uint64_t origin = 24;
    const uint64_t size = box->run_size * box->run_count;
    uint8_t *wanted = malloc((size_t)size + 1);
    uint8_t *got = malloc((size_t)size + 1);
    uint8_t *touched = calloc(1, (size_t)tensor->size + 1);
    uint8_t *needed = calloc(1, (size_t)tensor->size + 1);
    assert_true(wanted != NULL && got != NULL && touched != NULL && needed != NULL);
    for (uint64_t k = 0; k < box->run_count; k++) {
        const uint64_t at = coffer__box_run(box, k);
        memcpy(wanted + k * box->run_size, bytes + origin + at, (size_t)box->run_size);
        memset(needed + at, 1, (size_t)box->run_size);
    }
    watched w;
    coffer__byte_source source;
    watched_init(&w, &source, bytes, origin + tensor->size);
    uint8_t *touched_all = calloc(1, (size_t)(origin + tensor->size) + 1);
    assert_non_null(touched_all);
    w.touched = touched_all;
    const coffer__transfer_options options = with_threads(threads);
    coffer__transfer_op row = { .source = &source, .offset = origin, .box = box, .size = size, .to = got };
    memset(got, 0x11, (size_t)size + 1);
    assert_int_equal(coffer__transfer(&row, 1, &options, NULL), COFFER_OK);
    assert_memory_equal(got, wanted, (size_t)size);
    assert_int_equal(got[size], 0x11);
    memcpy(touched, touched_all + origin, (size_t)tensor->size);
    assert_only_needed(touched, needed, tensor->size);
    for (uint64_t i = 0; i < origin; i++) {
        assert_int_equal(touched_all[i], 0);
    }
    row.map = bytes;
    row.source = NULL;
    memset(got, 0x11, (size_t)size + 1);
    assert_int_equal(coffer__transfer(&row, 1, &options, NULL), COFFER_OK);
    assert_memory_equal(got, wanted, (size_t)size);
    assert_int_equal(got[size], 0x11);
    watched_free(&w);
    free(touched_all);
    free(touched);
    free(needed);
    free(wanted);
    free(got);
}

static coffer_index random_index(uint64_t size)
{
    coffer_index index = { .kind = COFFER_INDEX_RANGE, .has_start = true, .has_stop = true };
    const uint32_t choice = random_below(6);
    if (choice == 0) {
        return (coffer_index){ .kind = COFFER_INDEX_ALL };
    }
    if (choice == 1) {
        return (coffer_index){ .kind = COFFER_INDEX_AT, .start = (int64_t)random_below((uint32_t)size) };
    }
    index.start = (int64_t)random_below((uint32_t)size + 1);
    index.stop = (int64_t)random_below((uint32_t)size + 1);
    index.step = 1 + (int64_t)random_below(random_below(4) == 0 ? (uint32_t)size : 3);
    index.has_start = random_below(2) == 0;
    index.has_stop = random_below(2) == 0;
    index.step = random_below(3) == 0 ? -index.step : index.step;
    return index;
}

static void random_slices_by_map_and_by_reads(void **state)
{
    (void)state;
    static const coffer_dtype dtypes[] = { COFFER_U8, COFFER_F16, COFFER_F32, COFFER_F64 };
    uint8_t *bytes = make_bytes(24 + 8 * 60 * 60 * 60);
    for (size_t i = 0; i < 150; i++) {
        uint64_t shape[4];
        coffer_index indices[4];
        const size_t rank = 1 + random_below(4);
        const uint32_t most = rank == 1 ? 50000 : rank == 2 ? 400 : rank == 3 ? 60 : 20;
        uint64_t elements = 1;
        for (size_t d = 0; d < rank; d++) {
            shape[d] = 1 + random_below(most);
            elements *= shape[d];
            indices[d] = random_index(shape[d]);
        }
        const coffer_dtype dtype = dtypes[random_below(4)];
        const coffer_tensor tensor = {
            .name = "t",
            .shape = shape,
            .size = elements * coffer_dtype_bits(dtype) / 8,
            .name_len = 1,
            .rank = (uint32_t)rank,
            .dtype = dtype,
        };
        coffer__box box;
        assert_int_equal(coffer__slice_plan(&tensor, indices, rank, &box, NULL), COFFER_OK);
        check_box(&tensor, &box, bytes, 1 + random_below(4));
    }
    free(bytes);
}

static void walks_agree_with_single_runs(void **state)
{
    (void)state;
    const coffer__box box = {
        .start = 5000,
        .run_size = 3,
        .run_count = 2 * 3 * 4,
        .rank = 3,
        .counts = { 2, 3, 4 },
        .strides = { 900, -300, 40 },
    };
    for (uint64_t first = 0; first < box.run_count; first++) {
        coffer__walk walk;
        coffer__walk_begin(&walk, &box, first);
        assert_int_equal(coffer__walk_stride(&walk), 40);
        for (uint64_t k = first; k < box.run_count;) {
            assert_true(walk.at == coffer__box_run(&box, k));
            assert_true(walk.line_left == 4 - k % 4);
            const uint64_t on = 1 + random_below((uint32_t)walk.line_left);
            coffer__walk_on(&walk, on);
            k += on;
        }
    }
}

static void strided_copies_have_runs_of_every_width(void **state)
{
    (void)state;
    uint8_t *bytes = make_bytes(4096);
    for (size_t run_size = 1; run_size <= 17; run_size++) {
        for (int64_t stride = -40; stride <= 40; stride += 3) {
            uint8_t got[17 * 20];
            const uint8_t *from = bytes + 2048;
            const coffer__strided_copy copy = {
                .from_step = stride, .to = (uintptr_t)got, .to_step = (int64_t)run_size, .width = run_size, .runs = 20
            };
            coffer__copy_strided(&copy, from);
            for (int64_t i = 0; i < 20; i++) {
                assert_memory_equal(got + (size_t)i * run_size, from + i * stride, run_size);
            }
        }
    }
    free(bytes);
}

/* ---- how much is read -------------------------------------------------------------------------------------------- */

/* Takes `[:, 0]` of a matrix of F32 and returns what was asked of the source. */
static watched read_column(uint64_t rows, uint64_t columns)
{
    const uint64_t shape[] = { rows, columns };
    const uint64_t size = rows * columns * 4;
    const coffer_tensor tensor = { .shape = shape, .size = size, .rank = 2, .dtype = COFFER_F32 };
    const coffer_index indices[] = { { .kind = COFFER_INDEX_ALL }, { .kind = COFFER_INDEX_AT, .start = 0 } };
    coffer__box box;
    assert_int_equal(coffer__slice_plan(&tensor, indices, 2, &box, NULL), COFFER_OK);
    uint8_t *bytes = make_bytes(size);
    uint8_t *column = malloc((size_t)rows * 4);
    assert_non_null(column);
    watched w;
    coffer__byte_source source;
    watched_init(&w, &source, bytes, size);
    const coffer__transfer_options options = with_threads(1);
    const coffer__transfer_op row = { .source = &source, .box = &box, .size = rows * 4, .to = column };
    assert_int_equal(coffer__transfer(&row, 1, &options, NULL), COFFER_OK);
    for (uint64_t i = 0; i < rows; i++) {
        assert_memory_equal(column + i * 4, bytes + i * columns * 4, 4);
    }
    watched_free(&w);
    free(column);
    free(bytes);
    return w;
}

static void a_column_is_not_one_read_per_element(void **state)
{
    (void)state;
    /* 256 bytes from one element to the next: windows of 256 KiB hold about a thousand. */
    const watched narrow = read_column(64 * 1024, 64);
    assert_true(narrow.reads <= 66);
    /* 16 KiB from one to the next: reading what lies between would cost more than the reads. */
    const watched wide = read_column(512, 4096);
    assert_int_equal(wide.reads, 512);
    assert_int_equal(wide.read_bytes, 512 * 4);
}

static void short_lines_share_a_window(void **state)
{
    (void)state;
    /* [:, 0:3:2] of 1000 x 5 bytes: lines of two runs, all in one read. */
    const uint64_t shape[] = { 1000, 5 };
    const coffer_tensor tensor = { .shape = shape, .size = 5000, .rank = 2, .dtype = COFFER_U8 };
    const coffer_index indices[] = {
        { .kind = COFFER_INDEX_ALL },
        { .kind = COFFER_INDEX_RANGE, .has_stop = true, .stop = 3, .step = 2 },
    };
    coffer__box box;
    assert_int_equal(coffer__slice_plan(&tensor, indices, 2, &box, NULL), COFFER_OK);
    uint8_t *bytes = make_bytes(5000);
    uint8_t got[2000];
    watched w;
    coffer__byte_source source;
    watched_init(&w, &source, bytes, 5000);
    const coffer__transfer_options options = with_threads(0);
    const coffer__transfer_op row = { .source = &source, .box = &box, .size = 2000, .to = got };
    assert_int_equal(coffer__transfer(&row, 1, &options, NULL), COFFER_OK);
    assert_int_equal(w.reads, 1);
    assert_int_equal(w.read_bytes, 4998);
    watched_free(&w);
    free(bytes);
}

/* ---- long rows --------------------------------------------------------------------------------------------------- */

static void long_runs_and_many_rows(void **state)
{
    (void)state;
    const uint64_t size = 29 * MIB + 12345;
    uint8_t *bytes = make_bytes(size);
    uint8_t *got = malloc((size_t)size);
    assert_non_null(got);
    const coffer__box halves = {
        .start = 14 * MIB,
        .run_size = 9 * MIB + 1,
        .run_count = 2,
        .rank = 1,
        .counts = { 2 },
        .strides = { -(int64_t)(10 * MIB) },
    };
    for (uint32_t threads = 1; threads <= 5; threads += 2) {
        watched w;
        coffer__byte_source source;
        watched_init(&w, &source, bytes, size);
        memset(got, 0, (size_t)size);
        const coffer__transfer_op rows[] = {
            { .source = &source, .size = 0, .to = got },
            { .source = &source, .offset = 5, .size = 1, .to = got },
            { .source = &source, .offset = 77, .size = 10 * MIB, .to = got + 1 },
            { .source = &source, .size = 0, .to = NULL },
            { .source = &source, .offset = 3, .box = &halves, .size = 18 * MIB + 2, .to = got + 1 + 10 * MIB },
            { .map = bytes, .offset = 9, .size = 12, .to = got + 3 + 28 * MIB },
        };
        const coffer__transfer_options options = with_threads(threads);
        assert_int_equal(coffer__transfer(rows, 6, &options, NULL), COFFER_OK);
        assert_int_equal(got[0], bytes[5]);
        assert_memory_equal(got + 1, bytes + 77, 10 * MIB);
        assert_memory_equal(got + 1 + 10 * MIB, bytes + 3 + 14 * MIB, 9 * MIB + 1);
        assert_memory_equal(got + 2 + 19 * MIB, bytes + 3 + 4 * MIB, 9 * MIB + 1);
        assert_memory_equal(got + 3 + 28 * MIB, bytes + 9, 12);
        assert_int_equal(w.read_bytes, 28 * MIB + 3);
        assert_true(w.most_at_once <= threads);
        watched_free(&w);
    }
    free(got);
    free(bytes);
}

static void more_than_fits_in_64_bits(void **state)
{
    (void)state;
    const coffer__transfer_op rows[] = { { .size = UINT64_MAX }, { .size = 1 } };
    coffer_error err;
    const coffer__transfer_options options = with_threads(1);
    assert_int_equal(coffer__transfer(rows, 2, &options, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(err.code, COFFER_ERR_ARGUMENT);
}

static void all_threads_work_at_once(void **state)
{
    (void)state;
    const uint64_t size = 40 * MIB;
    uint8_t *bytes = make_bytes(size);
    uint8_t *got = malloc((size_t)size);
    assert_non_null(got);
    watched w;
    coffer__byte_source source;
    pthread_barrier_t barrier;
    assert_int_equal(pthread_barrier_init(&barrier, NULL, 4), 0);
    watched_init(&w, &source, bytes, size);
    w.barrier = &barrier;
    w.gathering = 4; /* the read returns only when four threads are in it */
    const coffer__transfer_options options = with_threads(4);
    const coffer__transfer_op row = { .source = &source, .size = size, .to = got };
    assert_int_equal(coffer__transfer(&row, 1, &options, NULL), COFFER_OK);
    assert_memory_equal(got, bytes, size);
    assert_int_equal(w.most_at_once, 4);
    pthread_barrier_destroy(&barrier);
    watched_free(&w);
    free(got);
    free(bytes);
}

/* ---- progress and failing ---------------------------------------------------------------------------------------- */

typedef struct watcher {
    pthread_t thread;
    uint64_t calls;
    uint64_t last;
    uint64_t total;
    uint64_t complete;  /* calls with done == total */
    uint64_t cancel_at; /* the call that answers with a cancel, from 1; 0: none */
    bool wrong;
} watcher;

static int watch_progress(void *ctx, uint64_t done, uint64_t total)
{
    watcher *p = ctx;
    p->calls++;
    p->wrong = p->wrong || !pthread_equal(p->thread, pthread_self()) || done < p->last || done > total;
    p->wrong = p->wrong || (p->calls > 1 && total != p->total) || p->complete > 0;
    p->last = done;
    p->total = total;
    p->complete += done == total;
    return p->calls == p->cancel_at;
}

static coffer_status watch_transfer(watcher *p, uint64_t size, uint32_t threads, coffer_error *err)
{
    uint8_t *bytes = make_bytes(size);
    uint8_t *got = malloc((size_t)size + 1);
    assert_non_null(got);
    coffer__transfer_options options = with_threads(threads);
    options.progress = watch_progress;
    options.progress_ctx = p;
    p->thread = pthread_self();
    const coffer__transfer_op row = { .map = bytes, .size = size, .to = got };
    const coffer_status status = coffer__transfer(&row, 1, &options, err);
    p->wrong = p->wrong || (status == COFFER_OK && memcmp(got, bytes, (size_t)size) != 0);
    free(got);
    free(bytes);
    return status;
}

static void progress_comes_from_the_calling_thread(void **state)
{
    (void)state;
    for (uint32_t threads = 0; threads <= 4; threads++) {
        watcher p = { .calls = 0 };
        assert_int_equal(watch_transfer(&p, 33 * MIB, threads, NULL), COFFER_OK);
        assert_false(p.wrong);
        assert_int_equal(p.complete, 1);
        assert_true(p.last == 33 * MIB && p.total == 33 * MIB);
    }
    watcher alone = { .calls = 0 };
    assert_int_equal(watch_transfer(&alone, 33 * MIB, 1, NULL), COFFER_OK);
    assert_in_range(alone.calls, 17, 18); /* as the memory lies among huge pages */
    watcher nothing = { .calls = 0 };
    assert_int_equal(watch_transfer(&nothing, 0, 1, NULL), COFFER_OK);
    assert_int_equal(nothing.calls, 1);
    assert_int_equal(nothing.complete, 1);
}

static void progress_cancels(void **state)
{
    (void)state;
    for (uint64_t at = 1; at <= 17; at++) {
        watcher p = { .cancel_at = at };
        coffer_error err;
        assert_int_equal(watch_transfer(&p, 33 * MIB, 1, &err), COFFER_ERR_CANCELLED);
        assert_int_equal(err.code, COFFER_ERR_CANCELLED);
        assert_int_equal(p.calls, at);
        assert_false(p.wrong);
    }
    watcher sharded = { .cancel_at = 1 };
    assert_int_equal(watch_transfer(&sharded, 64 * MIB, 4, NULL), COFFER_ERR_CANCELLED);
    assert_int_equal(sharded.calls, 1);
}

static void *do_nothing(void *arg)
{
    return arg;
}

/* In a child, whose user may have no more threads. */
static int run_without_threads(void *ctx)
{
    watcher *p = ctx;
    const struct rlimit none = { 0, 0 };
    pthread_t thread;
    if (setrlimit(RLIMIT_NPROC, &none) != 0 || (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) ||
        pthread_create(&thread, NULL, do_nothing, NULL) != EAGAIN) {
        return 2;
    }
    return watch_transfer(p, 33 * MIB, 4, NULL) == COFFER_OK && !p->wrong && p->complete == 1 ? 0 : 3;
}

/* A thread that cannot be started is one worker less. */
static void threads_that_cannot_be_started(void **state)
{
    (void)state;
    watcher p = { .calls = 0 };
    assert_int_equal(child_run(run_without_threads, &p), 0);
}

static void the_first_failure_is_the_answer(void **state)
{
    (void)state;
    const uint64_t size = 64 * MIB;
    uint8_t *bytes = make_bytes(size);
    uint8_t *got = malloc((size_t)size);
    assert_non_null(got);
    for (uint32_t threads = 1; threads <= 4; threads++) {
        watched w;
        coffer__byte_source source;
        watched_init(&w, &source, bytes, size);
        w.fail_at = 2;
        watcher p = { .thread = pthread_self() };
        coffer__transfer_options options = with_threads(threads);
        options.progress = watch_progress;
        options.progress_ctx = &p;
        const coffer__transfer_op row = { .source = &source, .size = size, .to = got };
        coffer_error err;
        assert_int_equal(coffer__transfer(&row, 1, &options, &err), COFFER_ERR_IO);
        assert_int_equal(err.code, COFFER_ERR_IO);
        assert_string_equal(err.message, "the disk is on fire");
        assert_int_equal(p.complete, 0);
        assert_false(p.wrong);
        assert_int_equal(w.under_way, 0);
        if (threads == 1) {
            assert_int_equal(w.reads, 2);
        }
        w.reads = 0;
        assert_int_equal(coffer__transfer(&row, 1, &options, NULL), COFFER_ERR_IO);
        watched_free(&w);
    }
    free(got);
    free(bytes);
}

static void short_and_middling_runs_fail_too(void **state)
{
    (void)state;
    const uint64_t size = 4 * MIB;
    uint8_t *bytes = make_bytes(size);
    uint8_t *got = malloc((size_t)size);
    assert_non_null(got);
    const uint64_t run_sizes[] = { 4, 8192 };
    for (size_t i = 0; i < 2; i++) {
        const coffer__box box = {
            .run_size = run_sizes[i],
            .run_count = 40,
            .rank = 1,
            .counts = { 40 },
            .strides = { 100000 },
        };
        watched w;
        coffer__byte_source source;
        watched_init(&w, &source, bytes, size);
        w.fail_at = 3;
        const coffer__transfer_options options = with_threads(1);
        const coffer__transfer_op row = { .source = &source, .box = &box, .size = 40 * run_sizes[i], .to = got };
        coffer_error err;
        assert_int_equal(coffer__transfer(&row, 1, &options, &err), COFFER_ERR_IO);
        assert_int_equal(err.code, COFFER_ERR_IO);
        assert_int_equal(w.reads, 3);
        watched_free(&w);
    }
    free(got);
    free(bytes);
}

static void memory_may_run_out(void **state)
{
    (void)state;
    memory_meter meter;
    const coffer_allocator allocator = metered_allocator(&meter);
    const coffer__transfer_options options = { .allocator = &allocator, .threads = 3 };
    uint8_t *bytes = make_bytes(20 * MIB);
    uint8_t *got = malloc(20 * MIB);
    assert_non_null(got);
    const coffer__transfer_op row = { .map = bytes, .size = 20 * MIB, .to = got };
    meter.fail_at = 1;
    coffer_error err;
    assert_int_equal(coffer__transfer(&row, 1, &options, &err), COFFER_ERR_MEMORY);
    assert_int_equal(err.code, COFFER_ERR_MEMORY);
    assert_int_equal(meter.requests, 1);
    assert_int_equal(coffer__transfer(&row, 1, &options, &err), COFFER_OK);
    assert_memory_equal(got, bytes, 20 * MIB);
    assert_int_equal(meter.requests, 2);
    assert_int_equal(meter.blocks, 0);
    /* Nothing is read in windows here, so no memory was asked for them. */
    assert_true(meter.peak < 4096);
    free(got);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_slices_by_map_and_by_reads),
        cmocka_unit_test(walks_agree_with_single_runs),
        cmocka_unit_test(strided_copies_have_runs_of_every_width),
        cmocka_unit_test(a_column_is_not_one_read_per_element),
        cmocka_unit_test(short_lines_share_a_window),
        cmocka_unit_test(long_runs_and_many_rows),
        cmocka_unit_test(more_than_fits_in_64_bits),
        cmocka_unit_test(all_threads_work_at_once),
        cmocka_unit_test(progress_comes_from_the_calling_thread),
        cmocka_unit_test(progress_cancels),
        cmocka_unit_test(threads_that_cannot_be_started),
        cmocka_unit_test(the_first_failure_is_the_answer),
        cmocka_unit_test(short_and_middling_runs_fail_too),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
