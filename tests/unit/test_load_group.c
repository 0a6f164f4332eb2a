/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several processes load one model together: each gets its bytes, whatever becomes of the others, and the disk gives
 * each byte once. The ranks are processes; test_group.c has the protocol, step by step.
 */
#define _GNU_SOURCE

#include "support_cmocka.h"

#include "coffer.h"
#include "staging.h"
#include "support_child.h"
#include "support_file.h"
#include "support_load.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_RANKS 16
#define WHOLE_TEST_S 300

enum {
    ENDS_WELL = 0,
    ENDS_WITH_WRONG_BYTES = 1,
    ENDS_BY_A_PEER = 2,
    ENDS_CANCELLED = 3,
    ENDS_WITHOUT_MEMORY = 4,
    ENDS_BADLY = 5
};

typedef enum fate { FATE_NONE, FATE_KILLED, FATE_STOPPED, FATE_CANCELS, FATE_RUNS_OUT, FATE_LATE } fate;

typedef struct together {
    atomic_uint read;   /* bytes, of all ranks; few, so that every machine can add them in one step */
    atomic_uint needed; /* bytes of results */
    atomic_uint met_fate;
    atomic_uint begun; /* ranks that have some bytes */
} together;

typedef struct job {
    const char *path;
    const char *group;
    uint32_t world;
    uint64_t memory;
    uint32_t threads;
    uint32_t patience_ms;
    uint32_t doomed;
    fate fate;
    unsigned at; /* the progress call, or the allocation, at which the doomed rank meets it */
    bool expert; /* each rank takes whole tensors of its own, and few are for all */
    together *seen;
} job;

typedef struct rank_state {
    const job *job;
    uint32_t rank;
    unsigned calls;
    bool began;
} rank_state;

/* ---- a rank ------------------------------------------------------------------------------------------------------ */

static int on_progress(void *ctx, uint64_t done, uint64_t total)
{
    rank_state *state = ctx;
    (void)total;
    if (done > 0 && !state->began) {
        state->began = true;
        atomic_fetch_add(&state->job->seen->begun, 1);
    }
    if (state->job->fate == FATE_RUNS_OUT && done == 0) {
        return 0;
    }
    if (state->rank != state->job->doomed || ++state->calls != state->job->at) {
        return 0;
    }
    atomic_store(&state->job->seen->met_fate, 1);
    if (state->job->fate == FATE_KILLED) {
        (void)kill(getpid(), SIGKILL);
    } else if (state->job->fate == FATE_STOPPED) {
        (void)kill(getpid(), SIGSTOP);
    } else if (state->job->fate == FATE_LATE) {
        (void)usleep(2000 * state->job->patience_ms);
    }
    return state->job->fate == FATE_CANCELS;
}

static void *failing_alloc(void *ctx, size_t size)
{
    rank_state *state = ctx;
    return atomic_load(&state->job->seen->met_fate) != 0 ? NULL : malloc(size);
}

static void *failing_realloc(void *ctx, void *block, size_t old_size, size_t new_size)
{
    (void)ctx;
    (void)old_size;
    return realloc(block, new_size);
}

static void failing_free(void *ctx, void *block, size_t size)
{
    (void)ctx;
    (void)size;
    free(block);
}

/* The dimension along which a tensor is split: first, last, or not at all, by the tensor's number. */
static size_t dimension_of(const coffer_tensor *tensor, size_t number)
{
    const size_t dim = number % 3 == 0 || tensor->rank == 0 ? SIZE_MAX : number % 3 == 1 ? 0 : tensor->rank - 1;
    return dim;
}

static coffer_status add_items(const job *of, uint32_t rank, const coffer *model, coffer_plan *plan, coffer_error *err)
{
    for (size_t i = 0; i < coffer_count(model); i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        const size_t dim = dimension_of(tensor, i);
        size_t item = 0;
        coffer_status status = COFFER_OK;
        if (of->expert && i % of->world != rank && i % 7 != 0) {
            continue;
        }
        if (!of->expert && dim != SIZE_MAX && tensor->shape[dim] % of->world == 0) {
            status = coffer_plan_add_rank(plan, tensor, dim, NULL, 0, rank, of->world, NULL, NULL, &item, err);
        } else {
            status = coffer_plan_add(plan, tensor, NULL, 0, NULL, &item, err);
        }
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* What a naive reader makes of an item: the range of the split dimension. */
static bool is_right(const job *of, uint32_t rank, const coffer *model, const coffer_loaded *loaded)
{
    coffer_index indices[8];
    const coffer_tensor *tensor = loaded->tensor;
    size_t number = 0;
    while (coffer_at(model, number) != tensor) {
        number++;
    }
    const size_t dim = dimension_of(tensor, number);
    const bool split = !of->expert && dim != SIZE_MAX && tensor->shape[dim] % of->world == 0;
    for (size_t i = 0; i < tensor->rank; i++) {
        const int64_t member = split && i == dim ? (int64_t)(tensor->shape[i] / of->world) : (int64_t)tensor->shape[i];
        const int64_t from = split && i == dim ? member * (int64_t)rank : 0;
        indices[i] = (coffer_index){ .kind = COFFER_INDEX_RANGE,
                                     .has_start = true,
                                     .has_stop = true,
                                     .start = from,
                                     .stop = from + member,
                                     .step = 1 };
    }
    uint8_t *bytes = malloc((size_t)loaded->size + 1);
    const coffer_status status =
        bytes == NULL ? COFFER_ERR_MEMORY
                      : coffer_read_slice(model, tensor, indices, tensor->rank, bytes, loaded->size, NULL, NULL);
    const bool right =
        status == COFFER_OK && memcmp(bytes, (const void *)(uintptr_t)loaded->address, (size_t)loaded->size) == 0;
    free(bytes);
    return right;
}

static int end_of_failure(coffer_status status, const coffer_error *err)
{
    if (getenv("COFFER_TRACE") != NULL) {
        fprintf(stderr, "%d: %s\n", (int)getpid(), err->message);
    }
    return status == COFFER_ERR_PEER        ? ENDS_BY_A_PEER
           : status == COFFER_ERR_CANCELLED ? ENDS_CANCELLED
           : status == COFFER_ERR_MEMORY    ? ENDS_WITHOUT_MEMORY
                                            : ENDS_BADLY;
}

/* Takes everything, and checks it when all is there: the naive reader's reads would warm the cache for the others. */
static int take_all(const job *of, uint32_t rank, const coffer *model, coffer_load *load, coffer_error *err)
{
    coffer_loaded all[256];
    size_t count = 0;
    coffer_load_stats stats = { .struct_size = sizeof stats };
    for (;;) {
        const coffer_status status = coffer_load_next(load, UINT64_MAX, &all[count], err);
        if (status != COFFER_OK) {
            return end_of_failure(status, err);
        }
        if (all[count].item == SIZE_MAX) {
            break;
        }
        count++;
    }
    coffer_load_stats_of(load, &stats);
    atomic_fetch_add(&of->seen->read, (unsigned)stats.read);
    atomic_fetch_add(&of->seen->needed, (unsigned)stats.wanted);
    int end = ENDS_WELL;
    for (size_t i = 0; i < count; i++) {
        end = is_right(of, rank, model, &all[i]) ? end : ENDS_WITH_WRONG_BYTES;
        coffer_memory_free(all[i].memory);
    }
    return end;
}

static int load_all(const job *of, rank_state *state, const coffer *model, coffer_plan *plan)
{
    coffer_error err;
    coffer_staging *staging = NULL;
    coffer_load *load = NULL;
    coffer_staging_options how = COFFER_STAGING_OPTIONS_INIT;
    coffer_load_options options = COFFER_LOAD_OPTIONS_INIT;
    how.memory = of->memory;
    how.threads = of->threads;
    how.group = of->group;
    how.ranks = of->world;
    how.rank = state->rank;
    options.progress = on_progress;
    options.progress_ctx = state;
    if (coffer_staging_new(&staging, &how, &err) != COFFER_OK) {
        return ENDS_BADLY;
    }
    staging->patience_ms = of->patience_ms;
    int end = ENDS_BADLY;
    const coffer_status status = coffer_load_start(&load, plan, staging, &options, &err);
    end = status == COFFER_OK ? take_all(of, state->rank, model, load, &err) : end_of_failure(status, &err);
    coffer_load_free(load);
    coffer_staging_free(staging);
    return end;
}

/* Ranks that enter after another has failed and gone do not learn of it. So that one comes last, when the others are in
   the group; and they cannot finish without it, as it wants cells that come before their last ones. */
static bool wait_for_the_others(const job *of)
{
    for (unsigned i = 0; i < WHOLE_TEST_S * 1000 && atomic_load(&of->seen->begun) < of->world - 1; i++) {
        (void)usleep(1000);
    }
    return atomic_load(&of->seen->begun) >= of->world - 1;
}

static int rank_main(const job *of, uint32_t rank)
{
    rank_state state = { of, rank, 0, false };
    const bool runs_out = of->fate == FATE_RUNS_OUT && rank == of->doomed;
    const coffer_allocator allocator = {
        .alloc = failing_alloc, .realloc = failing_realloc, .free = failing_free, .ctx = &state
    };
    coffer_error err;
    coffer *model = NULL;
    coffer_plan *plan = NULL;
    int end = ENDS_BADLY;
    if ((runs_out && !wait_for_the_others(of)) || coffer_open(&model, of->path, NULL, &err) != COFFER_OK) {
        return ENDS_BADLY;
    }
    if (coffer_plan_new(&plan, model, runs_out ? &allocator : NULL, &err) == COFFER_OK &&
        add_items(of, rank, model, plan, &err) == COFFER_OK) {
        end = load_all(of, &state, model, plan);
    }
    coffer_plan_free(plan);
    coffer_close(model);
    return end;
}

/* ---- a group ----------------------------------------------------------------------------------------------------- */

static void run_job(const job *of, unsigned seed, int ends[MAX_RANKS])
{
    pid_t children[MAX_RANKS];
    memset(of->seen, 0, sizeof *of->seen);
    for (uint32_t i = 0; i < of->world; i++) {
        const uint32_t rank = (i + seed) % of->world;
        children[rank] = fork();
        assert_true(children[rank] >= 0);
        if (children[rank] == 0) {
            (void)alarm(WHOLE_TEST_S);
            _exit(rank_main(of, rank));
        }
    }
    children_end(children, of->world, of->fate == FATE_STOPPED ? of->doomed : of->world, ends);
}

/* A model of tensors that divide well, in several files. */
static uint64_t save_model(uint64_t seed)
{
    dice of = { seed };
    uint64_t size = 0;
    tensor_spec specs[24];
    char names[24][16];
    const size_t files = 3;
    for (size_t file = 0; file < files; file++) {
        for (size_t i = 0; i < 8; i++) {
            char *name = names[file * 8 + i];
            (void)snprintf(name, sizeof names[0], "%c%02u", 'a' + (int)file, (unsigned)i);
            specs[file * 8 + i] = (tensor_spec){ name, COFFER_F16, 2, { 480, 240 * (1 + dice_below(&of, 8)) } };
            if (i == 7) {
                specs[file * 8 + i] = (tensor_spec){ name, COFFER_F16, 1, { 1 + dice_below(&of, 3000) } };
            }
        }
        image made = image_of(specs + file * 8, 8);
        for (size_t i = made.data_offset; i < made.size; i++) {
            made.bytes[i] = (uint8_t)dice_roll(&of);
        }
        char path[64];
        (void)snprintf(path, sizeof path, "model-%05u-of-%05u.safetensors", (unsigned)file + 1, (unsigned)files);
        file_write(path, made.bytes, made.size);
        size += made.size;
        image_free(&made);
    }
    return size;
}

static void write_index(void)
{
    char text[4096];
    size_t at = (size_t)snprintf(text, sizeof text, "{\"metadata\":{},\"weight_map\":{");
    for (unsigned i = 0; i < 24; i++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "%s\"%c%02u\":\"model-%05u-of-00003.safetensors\"",
                               i == 0 ? "" : ",", 'a' + (int)(i / 8), i % 8, i / 8 + 1);
    }
    at += (size_t)snprintf(text + at, sizeof text - at, "}}");
    file_write("model.safetensors.index.json", text, at);
}

static job a_job(uint32_t world)
{
    static unsigned number = 0;
    static char group[32];
    void *seen = mmap(NULL, sizeof(together), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(seen != MAP_FAILED);
    (void)snprintf(group, sizeof group, "%d-%u", (int)getpid(), ++number);
    return (job){ .path = work_path("model.safetensors.index.json"),
                  .group = group,
                  .world = world,
                  .memory = 2 << 20,
                  .patience_ms = 100000,
                  .seen = seen };
}

static void job_end(const job *of)
{
    (void)munmap(of->seen, sizeof *of->seen);
}

/* ---- what holds -------------------------------------------------------------------------------------------------- */

static void test_ranks_read_each_byte_once(void **state)
{
    (void)state;
    static const uint32_t worlds[] = { 2, 3, 8, 16 };
    const uint64_t size = save_model(1);
    write_index();
    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++) {
        for (uint32_t threads = 1; threads <= 3; threads += 2) {
            job of = a_job(worlds[i]);
            int ends[MAX_RANKS];
            of.threads = threads;
            run_job(&of, (unsigned)i, ends);
            assert_children_ended_well(ends, of.world, of.at);
            const uint64_t read = atomic_load(&of.seen->read);
            print_message("%u ranks, %u threads: read %.3f of the model\n", of.world, threads,
                          (double)read / (double)size);
            assert_true(read * 100 <= size * 102);
            job_end(&of);
        }
    }
}

static void test_ranks_that_want_different_tensors(void **state)
{
    (void)state;
    (void)save_model(2);
    write_index();
    for (uint32_t world = 2; world <= 8; world += 3) {
        job of = a_job(world);
        int ends[MAX_RANKS];
        of.expert = true;
        run_job(&of, world, ends);
        assert_children_ended_well(ends, of.world, of.at);
        job_end(&of);
    }
}

/* Whatever the doomed rank was at: its own chunks come to no end, and it reads for others. */
static void at_each_chunk(fate met, uint32_t patience_ms, int end)
{
    bool happened = true;
    (void)save_model(3);
    write_index();
    for (unsigned at = 1; happened; at += 1 + at / 3) {
        job of = a_job(3);
        int ends[MAX_RANKS];
        of.doomed = at % 3;
        of.fate = met;
        of.at = at;
        of.patience_ms = patience_ms;
        run_job(&of, at, ends);
        happened = atomic_load(&of.seen->met_fate) != 0;
        ends[of.doomed] = happened && ends[of.doomed] == end ? ENDS_WELL : ends[of.doomed];
        assert_children_ended_well(ends, of.world, of.at);
        job_end(&of);
    }
}

static void test_a_killed_rank_harms_nobody(void **state)
{
    (void)state;
    at_each_chunk(FATE_KILLED, 1500, 256 + SIGKILL);
}

static void test_a_stopped_rank_harms_nobody(void **state)
{
    (void)state;
    at_each_chunk(FATE_STOPPED, 200, ENDS_WELL);
}

static void test_a_late_rank_harms_nobody(void **state)
{
    (void)state;
    at_each_chunk(FATE_LATE, 100, ENDS_WELL);
}

static void test_a_rank_that_is_cancelled_harms_nobody(void **state)
{
    (void)state;
    at_each_chunk(FATE_CANCELS, 1500, ENDS_CANCELLED);
}

/* A rank that runs out of memory fails, and so do the others: a model of which a part is missing is of no use. It may
   need no more memory, though, and the others may have finished; so it is tried until they learn of it. */
static void test_a_failure_reaches_all(void **state)
{
    (void)state;
    unsigned reached = 0;
    (void)save_model(4);
    write_index();
    for (unsigned at = 1; at < 6 || (reached == 0 && at < 60); at++) {
        job of = a_job(4);
        int ends[MAX_RANKS];
        of.doomed = at % 4;
        of.fate = FATE_RUNS_OUT;
        of.at = 1 + at % 3;
        run_job(&of, at, ends);
        for (uint32_t i = 0; i < of.world; i++) {
            const int own = i == of.doomed ? ENDS_WITHOUT_MEMORY : ENDS_BY_A_PEER;
            assert_true(ends[i] == own || ends[i] == ENDS_WELL);
            reached += ends[i] == ENDS_BY_A_PEER;
        }
        job_end(&of);
    }
    assert_true(reached > 0);
}

int main(void)
{
#define SHARE_TEST(name) cmocka_unit_test_setup_teardown(name, work_dir_set_up, work_dir_tear_down)
    const struct CMUnitTest tests[] = {
        SHARE_TEST(test_ranks_read_each_byte_once),  SHARE_TEST(test_ranks_that_want_different_tensors),
        SHARE_TEST(test_a_killed_rank_harms_nobody), SHARE_TEST(test_a_stopped_rank_harms_nobody),
        SHARE_TEST(test_a_late_rank_harms_nobody),   SHARE_TEST(test_a_rank_that_is_cancelled_harms_nobody),
        SHARE_TEST(test_a_failure_reaches_all),
    };
    (void)alarm(WHOLE_TEST_S);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
