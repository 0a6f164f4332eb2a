/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several hosts load one model together: each byte is read by one of them, all get theirs, and all fail when one does.
 * The hosts are threads, each with a handle of its own; their transport copies from one to the other, slowly, or not at
 * all.
 */
#define _GNU_SOURCE

#include "support_cmocka.h"

#include "coffer.h"
#include "support_file.h"
#include "support_load.h"
#include "support_memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_HOSTS 8
#define MAX_WISHES 40

/* ---- the transport ----------------------------------------------------------------------------------------------- */

typedef struct meeting {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint32_t world;
    uint32_t here;  /* hosts that have come to the call */
    uint32_t gone;  /* hosts that have what they came for */
    unsigned calls; /* that are over */
    bool left;      /* a host has failed, and comes no more */
    const coffer_parcels *parcels[MAX_HOSTS];
} meeting;

typedef enum fate { FATE_NONE, FATE_DIES, FATE_FAILS, FATE_CANCELS, FATE_LIES } fate;

typedef struct host {
    meeting *at;
    uint32_t number;
    unsigned calls;
    unsigned fate_call; /* the call, or the progress, at which it meets its fate */
    fate fate;
    bool slow;
    bool refuses;
    coffer *model;
    coffer_plan *plans[MAX_HOSTS];
    coffer_exchange *exchange;
    wish wishes[MAX_WISHES];
    size_t wish_count;
    coffer_loaded loaded[MAX_WISHES];
    coffer_status status;
    coffer_error err;
} host;

/* Waits under the mutex until all hosts have come to the call; false when one of them never will. That a transport
   notices by its own means, such as the time; here the one that leaves says so. */
static bool meeting_wait(meeting *at, unsigned call)
{
    while (at->here < at->world && at->calls == call && !at->left) {
        (void)pthread_cond_wait(&at->changed, &at->mutex);
    }
    return at->here == at->world || at->calls != call;
}

static void copy_parcels(const host *to, const coffer_parcels *mine)
{
    for (uint32_t i = 0; i < to->at->world; i++) {
        const coffer_parcels *theirs = to->at->parcels[i];
        if (theirs->send_sizes[to->number] != mine->receive_sizes[i]) {
            abort(); /* two hosts are of different opinions about a size: no transport could carry it */
        }
        memcpy((uint8_t *)mine->receive + mine->receive_offsets[i],
               (const uint8_t *)theirs->send + theirs->send_offsets[to->number], (size_t)mine->receive_sizes[i]);
    }
}

static coffer_status meet(host *of, const coffer_parcels *parcels)
{
    meeting *at = of->at;
    const unsigned call = at->calls;
    at->parcels[of->number] = parcels;
    at->here++;
    (void)pthread_cond_broadcast(&at->changed);
    if (!meeting_wait(at, call)) {
        return COFFER_ERR_TIMEOUT;
    }
    copy_parcels(of, parcels);
    at->gone++;
    if (at->gone == at->world) {
        at->here = 0;
        at->gone = 0;
        at->calls++;
    }
    (void)pthread_cond_broadcast(&at->changed);
    while (at->calls == call) {
        (void)pthread_cond_wait(&at->changed, &at->mutex);
    }
    return COFFER_OK;
}

static coffer_status carry(void *ctx, const coffer_parcels *parcels, coffer_error *err)
{
    host *of = ctx;
    const bool due = ++of->calls == of->fate_call;
    (void)err;
    if (of->slow) {
        (void)usleep(3000);
    }
    if (due && of->fate == FATE_DIES) {
        return COFFER_ERR_CONNECT; /* without a word to the others, who wait */
    }
    if (due && of->fate == FATE_LIES) {
        memset((uint8_t *)parcels->send + parcels->send_offsets[of->number == 0 ? 1 : 0], 'x', 8);
    }
    (void)pthread_mutex_lock(&of->at->mutex);
    const coffer_status status = meet(of, parcels);
    (void)pthread_mutex_unlock(&of->at->mutex);
    return status;
}

/* ---- hosts ------------------------------------------------------------------------------------------------------- */

static int on_progress(void *ctx, uint64_t done, uint64_t total)
{
    host *of = ctx;
    if (done > total) {
        abort();
    }
    return of->fate == FATE_CANCELS && of->calls >= of->fate_call;
}

static void *host_main(void *ctx)
{
    host *of = ctx;
    coffer_exchange_run_options options = COFFER_EXCHANGE_RUN_OPTIONS_INIT;
    const coffer_transport transport = { .carry = carry, .ctx = of, .host = of->number, .world = of->at->world };
    options.progress = on_progress;
    options.progress_ctx = of;
    if (of->refuses) {
        const coffer_error why = { .code = COFFER_ERR_NOT_FOUND, .message = "no such \"thing\" here" };
        of->status = coffer_exchange_refuse(&transport, &why, &of->err);
    } else {
        of->status = coffer_exchange_run(of->exchange, &transport, &options, of->loaded, &of->err);
    }
    (void)pthread_mutex_lock(&of->at->mutex);
    of->at->left = of->at->left || of->status != COFFER_OK;
    (void)pthread_cond_broadcast(&of->at->changed);
    (void)pthread_mutex_unlock(&of->at->mutex);
    return NULL;
}

static void run_all(host *hosts, uint32_t world)
{
    pthread_t threads[MAX_HOSTS];
    meeting at = { .world = world };
    assert_int_equal(pthread_mutex_init(&at.mutex, NULL), 0);
    assert_int_equal(pthread_cond_init(&at.changed, NULL), 0);
    for (uint32_t i = 0; i < world; i++) {
        hosts[i].at = &at;
        assert_int_equal(pthread_create(&threads[i], NULL, host_main, &hosts[i]), 0);
    }
    for (uint32_t i = 0; i < world; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    (void)pthread_cond_destroy(&at.changed);
    (void)pthread_mutex_destroy(&at.mutex);
}

/* Each host makes the plans of all by the same dice. What others wish for is of no interest to it. */
static void host_plans(host *of, uint32_t world, uint64_t seed, size_t wishes)
{
    for (uint32_t i = 0; i < world; i++) {
        dice same = { seed + 100 * i };
        assert_int_equal(coffer_plan_new(&of->plans[i], of->model, NULL, NULL), COFFER_OK);
        for (size_t k = 0; k < wishes; k++) {
            wish made = random_wish(&same, of->plans[i], of->model);
            if (i == of->number) {
                of->wishes[of->wish_count++] = made;
            } else {
                wish_free(&made);
            }
        }
    }
}

static void host_exchange(host *of, uint32_t world, uint64_t memory)
{
    coffer_exchange_options options = COFFER_EXCHANGE_OPTIONS_INIT;
    options.memory = memory;
    assert_int_equal(coffer_exchange_new(&of->exchange, (const coffer_plan *const *)of->plans, world, &options, NULL),
                     COFFER_OK);
}

static host *hosts_new(uint32_t world, uint64_t seed, size_t wishes, uint64_t memory)
{
    host *hosts = calloc(world, sizeof *hosts);
    assert_non_null(hosts);
    for (uint32_t i = 0; i < world; i++) {
        hosts[i].number = i;
        assert_int_equal(coffer_open(&hosts[i].model, work_path("."), NULL, NULL), COFFER_OK);
        host_plans(&hosts[i], world, seed, wishes);
        host_exchange(&hosts[i], world, memory);
    }
    return hosts;
}

static void hosts_free(host *hosts, uint32_t world)
{
    for (uint32_t i = 0; i < world; i++) {
        for (size_t k = 0; k < hosts[i].wish_count; k++) {
            coffer_memory_free(hosts[i].loaded[k].memory);
            wish_free(&hosts[i].wishes[k]);
        }
        coffer_exchange_free(hosts[i].exchange);
        for (uint32_t k = 0; k < world; k++) {
            coffer_plan_free(hosts[i].plans[k]);
        }
        coffer_close(hosts[i].model);
    }
    free(hosts);
}

static void assert_all_have_theirs(const host *hosts, uint32_t world)
{
    for (uint32_t i = 0; i < world; i++) {
        if (hosts[i].status != COFFER_OK) {
            fail_msg("host %u: %s", i, hosts[i].err.message);
        }
        for (size_t k = 0; k < hosts[i].wish_count; k++) {
            assert_int_equal(hosts[i].loaded[k].item, k);
            wish_assert_fulfilled(&hosts[i].wishes[k], hosts[i].loaded[k].address);
        }
    }
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

/* No byte is in two pieces, and a host has in a round what the others are told to expect. */
static void assert_read_once(const coffer_exchange *exchange, uint32_t world, uint64_t memory)
{
    uint64_t *lanes = calloc((size_t)coffer_exchange_rounds(exchange) * world + 1, sizeof *lanes);
    coffer_exchange_chunk piece;
    assert_non_null(lanes);
    for (size_t i = 0; coffer_exchange_at(exchange, i, &piece); i++) {
        coffer_exchange_chunk other;
        assert_true(piece.begin < piece.end && piece.read > 0 && piece.read <= piece.end - piece.begin);
        for (size_t k = 0; k < i && coffer_exchange_at(exchange, k, &other); k++) {
            assert_true(other.shard != piece.shard || other.end <= piece.begin || piece.end <= other.begin);
        }
        assert_true(piece.round < coffer_exchange_rounds(exchange) && piece.host < world);
        uint64_t *lane = &lanes[piece.round * world + piece.host];
        assert_true(*lane == 0 || *lane + piece.read <= memory / world);
        *lane += piece.read;
    }
    free(lanes);
}

static void test_any_plans_get_their_bytes(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 24; seed++) {
        dice of = { seed };
        const uint32_t world = 1 + (uint32_t)dice_below(&of, MAX_HOSTS);
        const uint64_t memory = dice_below(&of, 3) == 0 ? 1 : (uint64_t)1 << (22 + dice_below(&of, 4));
        work_dir_make();
        coffer_close(random_model(&of, 30, (uint64_t)3 << 20, (uint64_t)16 << 20, COFFER_NO_ALGORITHM, NULL));
        host *hosts = hosts_new(world, seed, (size_t)dice_below(&of, MAX_WISHES), memory);
        hosts[0].slow = dice_below(&of, 2) == 0;
        assert_read_once(hosts[0].exchange, world, memory);
        run_all(hosts, world);
        assert_all_have_theirs(hosts, world);
        hosts_free(hosts, world);
        work_dir_remove();
    }
}

/* A model whose bytes are counted as they are read. */
typedef struct counted {
    image bytes;
    atomic_uint read;
} counted;

static coffer_status counted_read_at(void *ctx, uint64_t offset, void *buffer, size_t size, coffer_error *err)
{
    counted *of = ctx;
    (void)err;
    atomic_fetch_add(&of->read, (unsigned)size);
    memcpy(buffer, of->bytes.bytes + offset, size);
    return COFFER_OK;
}

static void assert_same_as_naive(const host *of, const coffer_loaded *loaded, size_t dim, uint32_t world)
{
    uint8_t *expected = malloc((size_t)loaded->size);
    coffer_index indices[2] = { { .kind = COFFER_INDEX_ALL }, { .kind = COFFER_INDEX_ALL } };
    const bool divided = dim < loaded->tensor->rank;
    assert_non_null(expected);
    if (divided) {
        const int64_t share = (int64_t)(loaded->tensor->shape[dim] / world);
        indices[dim] = (coffer_index){ .kind = COFFER_INDEX_RANGE,
                                       .has_start = true,
                                       .has_stop = true,
                                       .start = of->number * share,
                                       .stop = (of->number + 1) * share,
                                       .step = 1 };
    }
    assert_int_equal(coffer_read_slice(of->model, loaded->tensor, indices, divided ? dim + 1 : 0, expected,
                                       loaded->size, NULL, NULL),
                     COFFER_OK);
    assert_memory_equal((const void *)(uintptr_t)loaded->address, expected, (size_t)loaded->size);
    free(expected);
}

static uint64_t bytes_read_by(const coffer_exchange *exchange, uint32_t number)
{
    uint64_t read = 0;
    coffer_exchange_chunk piece;
    for (size_t i = 0; coffer_exchange_at(exchange, i, &piece); i++) {
        read += piece.host == number ? piece.read : 0;
    }
    return read;
}

static host *counted_hosts(counted *source, uint32_t world)
{
    static const coffer_split_rule rules[] = { { "columns", 1 }, { "rows", 0 } };
    const coffer_source way = { .read_at = counted_read_at, .ctx = source, .size = source->bytes.size };
    host *hosts = calloc(world, sizeof *hosts);
    assert_non_null(hosts);
    for (uint32_t i = 0; i < world; i++) {
        hosts[i].number = i;
        assert_int_equal(coffer_open_source(&hosts[i].model, &way, NULL, NULL), COFFER_OK);
        for (uint32_t k = 0; k < world; k++) {
            assert_int_equal(coffer_plan_new(&hosts[i].plans[k], hosts[i].model, NULL, NULL), COFFER_OK);
            assert_int_equal(coffer_plan_add_all(hosts[i].plans[k], rules, 2, k, world, NULL, NULL), COFFER_OK);
        }
        host_exchange(&hosts[i], world, (uint64_t)8 << 20);
    }
    return hosts;
}

/* One matrix by columns, which touches all of it on each host, one by rows, and one for all. The hosts read about the
   same. */
static void test_each_byte_is_read_once(void **state)
{
    (void)state;
    enum { WORLD = 4 };
    static const tensor_spec specs[] = { { "columns", COFFER_F32, 2, { 2048, 1024 } },
                                         { "rows", COFFER_F16, 2, { 1024, 3072 } },
                                         { "whole", COFFER_U8, 1, { 5000000 } } };
    static const size_t dims[] = { 1, 0, 1 };
    const uint64_t size = (uint64_t)2048 * 1024 * 4 + (uint64_t)1024 * 3072 * 2 + 5000000;
    counted source = { .bytes = image_of(specs, 3) };
    host *hosts = counted_hosts(&source, WORLD);
    const unsigned before = atomic_load(&source.read);
    run_all(hosts, WORLD);
    assert_int_equal(atomic_load(&source.read) - before, size);
    for (uint32_t i = 0; i < WORLD; i++) {
        assert_int_equal(hosts[i].status, COFFER_OK);
        assert_true(bytes_read_by(hosts[i].exchange, i) <= size / WORLD + ((uint64_t)2 << 20));
        for (size_t k = 0; k < 3; k++) {
            assert_same_as_naive(&hosts[i], &hosts[i].loaded[k], dims[k], WORLD);
            coffer_memory_free(hosts[i].loaded[k].memory);
        }
    }
    hosts_free(hosts, WORLD);
    image_free(&source.bytes);
}

/* A model of less than one piece of a large one, and a memory that is smaller still. */
static void test_hosts_share_small_models_too(void **state)
{
    (void)state;
    enum { WORLD = 4, SIZE = 900000, MEMORY = 100000 };
    static const tensor_spec specs[] = { { "whole", COFFER_U8, 1, { SIZE } } };
    counted source = { .bytes = image_of(specs, 1) };
    host *hosts = counted_hosts(&source, WORLD);
    coffer_exchange_chunk piece;
    assert_int_equal(coffer_exchange_rounds(hosts[0].exchange), 1);
    for (uint32_t i = 0; i < WORLD; i++) {
        assert_in_range(bytes_read_by(hosts[0].exchange, i), SIZE / WORLD / 2, SIZE / WORLD * 3 / 2);
    }
    coffer_exchange_free(hosts[0].exchange);
    host_exchange(&hosts[0], WORLD, MEMORY);
    assert_in_range(coffer_exchange_rounds(hosts[0].exchange), SIZE / MEMORY, 2 * SIZE / MEMORY + 1);
    for (size_t i = 0; coffer_exchange_at(hosts[0].exchange, i, &piece); i++) {
        assert_true(piece.read <= MEMORY / WORLD);
    }
    hosts_free(hosts, WORLD);
    image_free(&source.bytes);
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

static void assert_a_peer_failed(const host *of, const char *said)
{
    assert_int_equal(of->status, COFFER_ERR_PEER);
    assert_int_equal(of->err.code, COFFER_ERR_PEER);
    if (strstr(of->err.message, said) == NULL) {
        fail_msg("host %u says: %s", of->number, of->err.message);
    }
    for (size_t i = 0; i < of->wish_count; i++) {
        assert_null(of->loaded[i].memory);
    }
}

static host *four_hosts(unsigned seed)
{
    dice of = { seed };
    work_dir_make();
    coffer_close(random_model(&of, 60, (uint64_t)8 << 20, (uint64_t)1 << 40, COFFER_NO_ALGORITHM, NULL));
    host *hosts = hosts_new(4, seed, 30, 1);
    assert_true(coffer_exchange_rounds(hosts[0].exchange) >= 2);
    return hosts;
}

static void end_four(host *hosts)
{
    hosts_free(hosts, 4);
    work_dir_remove();
}

static void test_one_that_cancels_ends_all(void **state)
{
    (void)state;
    for (unsigned call = 1; call <= 3; call++) {
        host *hosts = four_hosts(7);
        hosts[2].fate = FATE_CANCELS;
        hosts[2].fate_call = call;
        run_all(hosts, 4);
        for (uint32_t i = 0; i < 4; i++) {
            if (i == 2) {
                assert_int_equal(hosts[i].status, COFFER_ERR_CANCELLED);
            } else {
                assert_a_peer_failed(&hosts[i], "host 2 of 4 failed: \"cancelled by the progress function\"");
            }
            assert_int_equal(hosts[i].calls, call + 1);
        }
        end_four(hosts);
    }
}

/* The others get the error of their transport, which has to give up by itself. */
static void test_one_that_dies_ends_all(void **state)
{
    (void)state;
    for (unsigned call = 1; call <= 3; call++) {
        host *hosts = four_hosts(8);
        hosts[1].fate = FATE_DIES;
        hosts[1].fate_call = call;
        run_all(hosts, 4);
        for (uint32_t i = 0; i < 4; i++) {
            assert_int_equal(hosts[i].status, i == 1 ? COFFER_ERR_CONNECT : COFFER_ERR_TIMEOUT);
            assert_int_equal(hosts[i].err.code, hosts[i].status);
            assert_non_null(strstr(hosts[i].err.message, "carry messages between hosts"));
            assert_int_equal(hosts[i].calls, call);
        }
        end_four(hosts);
    }
}

static void test_one_that_cannot_take_part_ends_all(void **state)
{
    (void)state;
    host *hosts = four_hosts(9);
    hosts[3].refuses = true;
    run_all(hosts, 4);
    assert_int_equal(hosts[3].status, COFFER_OK);
    for (uint32_t i = 0; i < 3; i++) {
        assert_a_peer_failed(&hosts[i], "host 3 of 4 failed: \"no such ");
    }
    end_four(hosts);
}

static void test_messages_of_others_are_refused(void **state)
{
    (void)state;
    host *hosts = four_hosts(10);
    hosts[1].fate = FATE_LIES;
    hosts[1].fate_call = 2;
    run_all(hosts, 4);
    assert_a_peer_failed(&hosts[0], "what came from host 1 is no message of it");
    end_four(hosts);
}

/* Before anything is read. */
static void test_hosts_that_want_other_things_are_refused(void **state)
{
    (void)state;
    host *hosts = four_hosts(11);
    coffer_exchange_free(hosts[1].exchange);
    assert_int_equal(coffer_plan_add(hosts[1].plans[3], coffer_at(hosts[1].model, 0), NULL, 0, NULL, NULL, NULL),
                     COFFER_OK);
    host_exchange(&hosts[1], 4, 1);
    run_all(hosts, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_a_peer_failed(&hosts[i], "do not load the same tensors of the same model in the same way");
        assert_int_equal(hosts[i].calls, 1);
    }
    end_four(hosts);
}

/* A file that is cut after it was opened. */
static void test_one_that_cannot_read_ends_all(void **state)
{
    (void)state;
    host *hosts = four_hosts(12);
    size_t size = 0;
    free(file_read("model.safetensors", &size));
    assert_int_equal(truncate(work_path("model.safetensors"), (off_t)(size / 2)), 0);
    run_all(hosts, 4);
    unsigned peers = 0;
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_not_equal(hosts[i].status, COFFER_OK);
        assert_int_equal(hosts[i].calls, hosts[0].calls);
        peers += hosts[i].status == COFFER_ERR_PEER;
    }
    assert_true(peers < 4);
    end_four(hosts);
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

static void test_what_cannot_be_is_refused(void **state)
{
    (void)state;
    host *hosts = four_hosts(13);
    coffer_error err;
    coffer_exchange *made = NULL;
    coffer_exchange_chunk piece;
    const coffer_plan *mixed[] = { hosts[0].plans[0], hosts[1].plans[1] };
    const coffer_transport none = { .carry = carry, .ctx = &hosts[0], .host = 4, .world = 4 };
    const coffer_transport fewer = { .carry = carry, .ctx = &hosts[0], .host = 0, .world = 3 };
    assert_int_equal(coffer_exchange_new(&made, mixed, 2, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_exchange_new(&made, mixed, 0, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_exchange_new(NULL, mixed, 1, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_null(made);
    assert_int_equal(coffer_exchange_run(hosts[0].exchange, &none, NULL, hosts[0].loaded, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_exchange_run(hosts[0].exchange, &fewer, NULL, hosts[0].loaded, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_exchange_refuse(&fewer, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(hosts[0].calls, 0);
    assert_false(coffer_exchange_at(hosts[0].exchange, coffer_exchange_count(hosts[0].exchange), &piece));
    assert_int_equal(coffer_exchange_size(hosts[0].exchange, 0, 0, 4), 0);
    assert_int_equal(coffer_exchange_size(hosts[0].exchange, coffer_exchange_rounds(hosts[0].exchange), 0, 0), 0);
    coffer_exchange_free(NULL);
    end_four(hosts);
}

static void test_memory_runs_out(void **state)
{
    (void)state;
    host *hosts = four_hosts(14);
    memory_meter meter = { .fail_at = 0 };
    const coffer_allocator allocator = metered_allocator(&meter);
    coffer_exchange_options options = COFFER_EXCHANGE_OPTIONS_INIT;
    options.allocator = &allocator;
    coffer_status status = COFFER_ERR_MEMORY;
    size_t failed = 0;
    while (status == COFFER_ERR_MEMORY) {
        coffer_exchange *made = NULL;
        meter.requests = 0;
        meter.fail_at = ++failed;
        status = coffer_exchange_new(&made, (const coffer_plan *const *)hosts[0].plans, 4, &options, NULL);
        coffer_exchange_free(made);
        assert_int_equal(meter.held, 0);
    }
    assert_int_equal(status, COFFER_OK);
    assert_true(failed > 10);
    end_four(hosts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_plans_get_their_bytes),
        cmocka_unit_test(test_each_byte_is_read_once),
        cmocka_unit_test(test_hosts_share_small_models_too),
        cmocka_unit_test(test_one_that_cancels_ends_all),
        cmocka_unit_test(test_one_that_dies_ends_all),
        cmocka_unit_test(test_one_that_cannot_take_part_ends_all),
        cmocka_unit_test(test_messages_of_others_are_refused),
        cmocka_unit_test(test_hosts_that_want_other_things_are_refused),
        cmocka_unit_test(test_one_that_cannot_read_ends_all),
        cmocka_unit_test(test_what_cannot_be_is_refused),
        cmocka_unit_test(test_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
