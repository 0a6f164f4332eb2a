/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol by which processes share what they read. Each rank is a process of its own, which is killed, stopped or
 * failed at any step. What it "reads" of a cell are stamps, a few words at the start of each block that say which cell
 * and block it is, so that thousands of cells take no time, and a buffer that was reused too early shows.
 */
#define _GNU_SOURCE

#include "support_cmocka.h"

#include "coffer.h"
#include "group.h"
#include "os.h"
#include "support_child.h"
#include "support_file.h"
#include "support_memory.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_RANKS 16
#define MAX_CELLS 256
#define STAMP_WORDS 16
#define WHOLE_TEST_S 300 /* after which a test that hangs is ended */
#define NEVER 600000     /* milliseconds that no test waits for */

/* How a rank ends. */
enum { ENDS_WELL = 0, ENDS_WITH_WRONG_BYTES = 1, ENDS_BY_A_PEER = 2, ENDS_BY_ITSELF = 3, ENDS_OTHERWISE = 4 };

typedef enum fate { FATE_NONE, FATE_KILLED, FATE_STOPPED, FATE_FAILS, FATE_LEAVES, FATE_DELAYED } fate;

/* What all processes of a test see. */
typedef struct together {
    atomic_uint read[MAX_CELLS];  /* how often each cell was read, for all … */
    atomic_uint alone[MAX_CELLS]; /* … and by a rank for itself */
    atomic_uint private_ranks;    /* that had no group */
    atomic_uint steps;            /* of the rank with a fate */
    atomic_uint met_fate;
    atomic_uint entered;
    atomic_uint strikes;
} together;

typedef struct group {
    uint32_t ranks;
    uint32_t cells;
    uint64_t memory;
    uint32_t enter_ms;
    uint32_t stall_ms;
    uint32_t (*wants)(uint32_t rank, uint32_t ranks, uint32_t cell); /* blocks */
    uint32_t doomed;                                                 /* the rank with a fate, … */
    fate fate;
    unsigned at;    /* … and the step at which it meets it, from 1 */
    unsigned seed;  /* of the order in which they start */
    bool gather;    /* nobody loads before all have entered */
    unsigned pace;  /* microseconds that each cell takes a rank */
    bool backwards; /* each rank asks for its cells in the wrong order */
    uint64_t identity;
    together *seen;
} group;

static together *together_new(void)
{
    void *memory = mmap(NULL, sizeof(together), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static uint32_t stamp(uint32_t cell, uint32_t block, uint32_t word)
{
    return (cell * 32 + block) * 2654435761u + word;
}

static void fill(uint8_t *buffer, uint32_t cell, uint32_t blocks)
{
    for (uint32_t block = 0; block < 32; block++) {
        for (uint32_t i = 0; (blocks >> block & 1) != 0 && i < STAMP_WORDS; i++) {
            const uint32_t word = stamp(cell, block, i);
            memcpy(buffer + block * COFFER__GROUP_BLOCK + i * sizeof word, &word, sizeof word);
        }
    }
}

static bool is_right(const uint8_t *buffer, uint32_t cell, uint32_t blocks)
{
    for (uint32_t block = 0; block < 32; block++) {
        for (uint32_t i = 0; (blocks >> block & 1) != 0 && i < STAMP_WORDS; i++) {
            uint32_t word = 0;
            memcpy(&word, buffer + block * COFFER__GROUP_BLOCK + i * sizeof word, sizeof word);
            if (word != stamp(cell, block, i)) {
                return false;
            }
        }
    }
    return true;
}

static uint32_t wants_all(uint32_t rank, uint32_t ranks, uint32_t cell)
{
    (void)rank;
    (void)ranks;
    (void)cell;
    return COFFER__GROUP_ALL_BLOCKS;
}

/* An eighth of each cell for all, stretches for one rank each, cells for some, and cells for nobody. */
static uint32_t wants_mixed(uint32_t rank, uint32_t ranks, uint32_t cell)
{
    const uint32_t kind = cell / 8 % 4;
    if (kind == 0) {
        return UINT32_C(0xF) << (rank % 8 * 4);
    }
    if (kind == 1) {
        return cell % ranks == rank ? COFFER__GROUP_ALL_BLOCKS : 0;
    }
    return kind == 2 && (cell + rank) % 3 != 0 ? UINT32_C(0x00FFFF00) : 0;
}

/* ---- a rank ------------------------------------------------------------------------------------------------------ */

typedef struct rank_state {
    const group *group;
    uint32_t rank;
    bool fails; /* the fate of one that fails or leaves has come */
} rank_state;

static void meet_fate(rank_state *state)
{
    const group *g = state->group;
    atomic_store(&g->seen->met_fate, 1);
    switch (g->fate) {
    case FATE_KILLED:
        (void)kill(getpid(), SIGKILL);
        break;
    case FATE_STOPPED:
        (void)kill(getpid(), SIGSTOP);
        break;
    case FATE_DELAYED:
        (void)usleep(g->stall_ms * 1500);
        break;
    default:
        state->fails = true;
        break;
    }
}

static void on_step(void *ctx, const char *what)
{
    rank_state *state = ctx;
    const group *g = state->group;
    if (getenv("COFFER_TRACE") != NULL) {
        fprintf(stderr, "[%u] %s\n", state->rank, what);
    }
    if (state->rank == g->doomed && g->fate != FATE_NONE && atomic_fetch_add(&g->seen->steps, 1) + 1 == g->at) {
        meet_fate(state);
    }
}

/* Reads one cell for all, if there is one to read. */
static bool read_for_all(coffer__group *member, const group *g)
{
    coffer__group_claim claim;
    if (!coffer__group_claim_next(member, &claim)) {
        return false;
    }
    fill(coffer__group_buffer(&member->table, claim.buffer), claim.cell, claim.blocks);
    atomic_fetch_add(&g->seen->read[claim.cell], 1);
    coffer__group_bring(member, &claim);
    return true;
}

static void read_alone(const group *g, uint32_t cell)
{
    atomic_fetch_add(&g->seen->alone[cell], 1);
}

/* Waits for one cell that was asked for and checks it; reads what is to be read meanwhile. */
static int take(coffer__group *member, rank_state *state, uint32_t cell, uint32_t blocks)
{
    for (;;) {
        coffer_error err;
        uint32_t buffer = 0;
        uint32_t blamed = 0;
        if (state->fails) {
            return ENDS_BY_ITSELF;
        }
        const uint32_t seen = coffer__group_seen(member);
        if (coffer__group_check(member, &err) != COFFER_OK) {
            return err.code == COFFER_ERR_PEER && strstr(err.message, "the disk is on fire") != NULL ? ENDS_BY_A_PEER
                                                                                                     : ENDS_OTHERWISE;
        }
        const coffer__group_view_of view = coffer__group_find(member, cell, blocks, &buffer, &blamed);
        if (view == COFFER__GROUP_GONE) {
            coffer__group_pass(member, cell, COFFER__GROUP_NOBODY);
            read_alone(state->group, cell);
            return ENDS_WELL;
        }
        if (view == COFFER__GROUP_HERE) {
            (void)usleep(state->group->pace);
            const bool right = is_right(coffer__group_buffer(&member->table, buffer), cell, blocks);
            coffer__group_pass(member, cell, buffer);
            return right ? ENDS_WELL : ENDS_WITH_WRONG_BYTES;
        }
        coffer__group_tend(member);
        if (!read_for_all(member, state->group)) {
            coffer__group_wait(member, seen, blamed);
        }
    }
}

static int load_cells(coffer__group *member, rank_state *state, const uint32_t *wanted)
{
    const group *g = state->group;
    for (uint32_t i = 0; i < g->cells; i++) {
        const uint32_t cell = g->backwards ? g->cells - 1 - i : i;
        if (wanted[cell] == 0) {
            continue;
        }
        if (!coffer__group_ask(member, cell)) {
            read_alone(g, cell);
            continue;
        }
        const int end = take(member, state, cell, wanted[cell]);
        if (end != ENDS_WELL) {
            return end;
        }
    }
    return ENDS_WELL;
}

static void wait_for_all(coffer__group *member, const group *g)
{
    atomic_fetch_add(&g->seen->entered, 1);
    while (g->gather && atomic_load(&g->seen->entered) < g->ranks) {
        coffer__group_wait(member, coffer__group_seen(member), COFFER__GROUP_NOBODY);
    }
}

static coffer__group_options options_of(const group *g, const uint32_t *wanted, rank_state *state)
{
    return (coffer__group_options){
        .allocator = coffer_libc_allocator(),
        .identity = g->identity,
        .group = "test",
        .ranks = g->ranks,
        .rank = state->rank,
        .memory = g->memory,
        .wanted = wanted,
        .cells = g->cells,
        .enter_ms = g->enter_ms,
        .stall_ms = g->stall_ms,
        .step = on_step,
        .step_ctx = state,
    };
}

static int rank_main(const group *g, uint32_t rank)
{
    rank_state state = { g, rank, false };
    uint32_t wanted[MAX_CELLS];
    coffer_error err;
    coffer__group *member = NULL;
    for (uint32_t i = 0; i < g->cells; i++) {
        wanted[i] = g->wants(rank, g->ranks, i);
    }
    const coffer__group_options options = options_of(g, wanted, &state);
    if (coffer__group_enter(&member, &options, NULL, &err) != COFFER_OK) {
        return ENDS_OTHERWISE;
    }
    if (member == NULL) {
        atomic_fetch_add(&g->seen->private_ranks, 1);
        return ENDS_WELL; /* it would read by itself */
    }
    wait_for_all(member, g);
    int end = load_cells(member, &state, wanted);
    if (end == ENDS_BY_ITSELF && g->fate == FATE_FAILS) {
        const coffer_error failure = { .code = COFFER_ERR_IO, .message = "the disk is on fire" };
        coffer__group_fail(member, &failure);
    }
    atomic_store(&g->seen->strikes, atomic_load(&member->table.head->counts.strikes));
    coffer__group_leave(member);
    return end;
}

/* ---- a group ----------------------------------------------------------------------------------------------------- */

/* Starts all ranks, in an order of the seed's, and waits for all but one that is stopped; that one goes on then. */
static void run_group(const group *g, int ends[MAX_RANKS])
{
    pid_t children[MAX_RANKS];
    memset(g->seen, 0, sizeof *g->seen);
    for (uint32_t i = 0; i < g->ranks; i++) {
        const uint32_t rank = (i * 5 + g->seed) % g->ranks;
        const uint32_t which = g->ranks % 5 == 0 ? (i + g->seed) % g->ranks : rank;
        children[which] = fork();
        assert_true(children[which] >= 0);
        if (children[which] == 0) {
            _exit(rank_main(g, which));
        }
    }
    children_end(children, g->ranks, g->fate == FATE_STOPPED ? g->doomed : g->ranks, ends);
}

static group a_group(uint32_t ranks, uint32_t cells)
{
    static uint64_t number = 0;
    return (group){ .ranks = ranks,
                    .cells = cells,
                    .memory = 8 * COFFER__CELL,
                    .enter_ms = NEVER,
                    .stall_ms = NEVER,
                    .wants = wants_all,
                    .identity = (uint64_t)getpid() << 32 | ++number,
                    .seen = together_new() };
}

static void group_end(const group *g)
{
    (void)munmap(g->seen, sizeof *g->seen);
}

/* ---- what holds -------------------------------------------------------------------------------------------------- */

static void each_cell_is_read_once(void **state)
{
    (void)state;
    static const uint32_t counts[] = { 2, 3, 5, 8, 16 };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        for (unsigned seed = 0; seed < 3; seed++) {
            group g = a_group(counts[i], 100);
            int ends[MAX_RANKS];
            g.seed = seed;
            run_group(&g, ends);
            assert_children_ended_well(ends, g.ranks, g.at);
            assert_int_equal(g.seen->private_ranks, 0);
            for (uint32_t cell = 0; cell < g.cells; cell++) {
                assert_int_equal(g.seen->read[cell], 1);
                assert_int_equal(g.seen->alone[cell], 0);
            }
            group_end(&g);
        }
    }
}

/* What only one rank wants it reads by itself, and what none of them needs is not read. */
static void slices_share_what_several_want(void **state)
{
    (void)state;
    for (uint32_t ranks = 2; ranks <= 8; ranks += 3) {
        group g = a_group(ranks, 128);
        int ends[MAX_RANKS];
        g.wants = wants_mixed;
        g.gather = true;
        run_group(&g, ends);
        assert_children_ended_well(ends, g.ranks, g.at);
        for (uint32_t cell = 0; cell < g.cells; cell++) {
            uint32_t wanting = 0;
            for (uint32_t rank = 0; rank < ranks; rank++) {
                wanting += wants_mixed(rank, ranks, cell) != 0;
            }
            assert_int_equal(g.seen->read[cell], wanting > 1);
            assert_int_equal(g.seen->alone[cell], wanting == 1);
        }
        group_end(&g);
    }
}

/* Nobody is obliged to ask in order: then it may have to read by itself, but neither hangs nor is in the way. */
static void any_order_ends(void **state)
{
    (void)state;
    group g = a_group(3, 64);
    int ends[MAX_RANKS];
    g.backwards = true;
    g.stall_ms = 300;
    g.enter_ms = 300;
    run_group(&g, ends);
    assert_children_ended_well(ends, g.ranks, g.at);
    group_end(&g);
}

static bool is_slow_here(void)
{
    return getenv("COFFER_EMULATED") != NULL;
}

/* Which step comes next: all at first, then fewer. */
static unsigned step_after(unsigned step)
{
    const unsigned dense = is_slow_here() ? 6 : 40;
    return step < dense ? step + 1 : step + step / 4;
}

/* One rank meets its fate at each of its steps; `end` is how it ends then. */
static void at_each_step(uint32_t ranks, uint32_t doomed, fate met_fate, int end)
{
    bool met = true;
    for (unsigned at = 1; met; at = step_after(at)) {
        group g = a_group(ranks, 40);
        int ends[MAX_RANKS];
        g.doomed = doomed;
        g.fate = met_fate;
        g.at = at;
        g.seed = at;
        g.enter_ms = 250;
        g.stall_ms = 250;
        run_group(&g, ends);
        met = g.seen->met_fate != 0;
        if (met && ends[doomed] == end) {
            ends[doomed] = ENDS_WELL;
        }
        assert_children_ended_well(ends, g.ranks, g.at);
        group_end(&g);
    }
}

static void a_killed_rank_harms_nobody(void **state)
{
    (void)state;
    at_each_step(3, 0, FATE_KILLED, 256 + SIGKILL);
    at_each_step(2, 1, FATE_KILLED, 256 + SIGKILL);
}

static void a_stopped_rank_harms_nobody(void **state)
{
    (void)state;
    at_each_step(3, 1, FATE_STOPPED, ENDS_WELL);
}

static void a_rank_that_leaves_harms_nobody(void **state)
{
    (void)state;
    at_each_step(3, 0, FATE_LEAVES, ENDS_BY_ITSELF);
}

static void a_late_rank_harms_nobody(void **state)
{
    (void)state;
    for (unsigned at = 1; at < (is_slow_here() ? 3 : 30); at += 3) {
        group g = a_group(4, 40);
        int ends[MAX_RANKS];
        g.doomed = at % 4;
        g.fate = FATE_DELAYED;
        g.at = at;
        g.enter_ms = 100;
        g.stall_ms = 100;
        g.pace = 4000;
        run_group(&g, ends);
        assert_children_ended_well(ends, g.ranks, g.at);
        group_end(&g);
    }
}

/* Nobody waits for ranks that do not exist for longer than it was told. */
static void missing_ranks_are_not_waited_for_long(void **state)
{
    (void)state;
    group g = a_group(4, 40);
    g.enter_ms = 100;
    g.ranks = 4;
    memset(g.seen, 0, sizeof *g.seen);
    assert_int_equal(rank_main(&g, 2), ENDS_WELL);
    assert_int_equal(g.seen->private_ranks, 0);
    assert_int_equal(g.seen->strikes, 3);
    group_end(&g);
}

/* All who never come have been away for the same time, so they are given up together and not one after the other. */
static void missing_ranks_are_given_up_together(void **state)
{
    (void)state;
    group g = a_group(4, 8);
    g.enter_ms = 60;
    rank_state rank = { &g, 2, false };
    uint32_t wanted[MAX_CELLS];
    coffer_error err;
    coffer__group *member = NULL;
    for (uint32_t i = 0; i < g.cells; i++) {
        wanted[i] = COFFER__GROUP_ALL_BLOCKS;
    }
    const coffer__group_options options = options_of(&g, wanted, &rank);
    assert_int_equal(coffer__group_enter(&member, &options, NULL, &err), COFFER_OK);
    assert_non_null(member);
    const coffer__group_head *head = member->table.head;
    while (atomic_load(&head->counts.strikes) == 0) {
        coffer__group_wait(member, coffer__group_seen(member), 0);
    }
    assert_int_equal(atomic_load(&head->counts.strikes), 3);
    coffer__group_leave(member);
    group_end(&g);
}

/* The failure of a rank is that of all, with its words. */
static void a_failure_reaches_all(void **state)
{
    (void)state;
    unsigned reached = 0;
    for (unsigned at = 8; at < 40; at += 4) {
        group g = a_group(4, 60);
        int ends[MAX_RANKS];
        g.doomed = at % 4;
        g.fate = FATE_FAILS;
        g.at = at;
        g.gather = true;
        run_group(&g, ends);
        assert_true(ends[g.doomed] == ENDS_BY_ITSELF || ends[g.doomed] == ENDS_WELL);
        for (uint32_t i = 0; ends[g.doomed] == ENDS_BY_ITSELF && i < g.ranks; i++) {
            /* One that had finished when the other failed may have ended well. */
            assert_true(i == g.doomed || ends[i] == ENDS_BY_A_PEER || ends[i] == ENDS_WELL);
            reached += i != g.doomed && ends[i] == ENDS_BY_A_PEER;
        }
        group_end(&g);
    }
    assert_true(reached > 10);
}

/* The same ranks come again while the first session has not ended, and load together again. */
static void sessions_follow_each_other(void **state)
{
    (void)state;
    group g = a_group(3, 30);
    pid_t children[3];
    memset(g.seen, 0, sizeof *g.seen);
    for (uint32_t i = 0; i < 3; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            int end = ENDS_WELL;
            for (int round = 0; round < 4 && end == ENDS_WELL; round++) {
                end = rank_main(&g, i);
            }
            _exit(end);
        }
    }
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(child_end(children[i], false), ENDS_WELL);
    }
    assert_int_equal(g.seen->private_ranks, 0);
    for (uint32_t cell = 0; cell < g.cells; cell++) {
        assert_int_equal(g.seen->read[cell], 4);
        assert_int_equal(g.seen->alone[cell], 0);
    }
    group_end(&g);
}

/* ---- who else may answer ----------------------------------------------------------------------------------------- */

typedef enum nonsense { SAYS_NOTHING, HANGS_UP, PASSES_A_PIPE, PASSES_ODD_MEMORY, PASSES_ZEROS, WRONG_USER } nonsense;

static int odd_memory(const coffer__group_shape *shape, nonsense kind)
{
    int fd = -1;
    const uint64_t size = kind == PASSES_ZEROS ? coffer__group_size(shape) : 4097;
    if (coffer__os_shared_new("odd", size, &fd) != 0 || coffer__os_shared_seal(fd, false) != 0) {
        return -1;
    }
    return fd;
}

/* Answers by a group's name until it is killed. */
static int answer_nonsense(const group *g, nonsense kind, int ready)
{
    uint32_t wanted[MAX_CELLS] = { 0 };
    rank_state state = { g, 0, false };
    const coffer__group_options options = options_of(g, wanted, &state);
    coffer__group_shape shape;
    char name[COFFER__GROUP_NAME];
    int listener = -1;
    int pipes[2];
    if (!coffer__group_shape_of(&options, &shape)) {
        return 1;
    }
    coffer__group_name(name, &shape, 0);
    if (kind == WRONG_USER && setuid(4711) != 0) {
        return 1;
    }
    if (coffer__os_answer(name, &listener) != 0 || pipe(pipes) != 0) {
        return 1;
    }
    const int passed = kind == PASSES_A_PIPE ? pipes[0] : odd_memory(&shape, kind);
    (void)!write(ready, "", 1);
    for (;;) {
        if (kind == HANGS_UP) {
            (void)coffer__os_close(listener);
            return 0;
        }
        if (kind != SAYS_NOTHING) {
            uint32_t given = 0;
            (void)coffer__os_answer_all(listener, passed, &given);
        }
        (void)usleep(1000);
    }
}

static void nonsense_means_no_group(void **state)
{
    (void)state;
    for (int kind = SAYS_NOTHING; kind <= WRONG_USER; kind++) {
        if (kind == WRONG_USER && geteuid() != 0) {
            print_message("not root: no process of another user answers here\n");
            continue;
        }
        group g = a_group(2, 20);
        int ready[2];
        char byte = 0;
        g.enter_ms = 200;
        assert_int_equal(pipe(ready), 0);
        const pid_t child = fork();
        if (child == 0) {
            _exit(answer_nonsense(&g, (nonsense)kind, ready[1]));
        }
        (void)close(ready[1]);
        assert_int_equal(read(ready[0], &byte, 1), 1);
        (void)close(ready[0]);
        const size_t before = open_descriptors();
        assert_int_equal(rank_main(&g, 1), ENDS_WELL);
        assert_int_equal(open_descriptors(), before);
        assert_int_equal(g.seen->private_ranks, kind != HANGS_UP);
        (void)kill(child, SIGKILL);
        (void)child_end(child, false);
        group_end(&g);
    }
}

/* A process that calls and says something is answered or not, and disturbs nobody. */
static void a_caller_that_talks_disturbs_nobody(void **state)
{
    (void)state;
    group g = a_group(3, 40);
    int ends[MAX_RANKS];
    const pid_t child = fork();
    if (child == 0) {
        uint32_t wanted[MAX_CELLS] = { 0 };
        rank_state nobody = { &g, 0, false };
        const coffer__group_options options = options_of(&g, wanted, &nobody);
        coffer__group_shape shape;
        char name[COFFER__GROUP_NAME];
        (void)coffer__group_shape_of(&options, &shape);
        coffer__group_name(name, &shape, 0);
        for (;;) {
            int caller = -1;
            if (coffer__os_call(name, &caller) == 0) {
                (void)!write(caller, "GET / HTTP/1.1\r\n\r\n", 18);
                (void)usleep(500);
                (void)close(caller);
            }
            (void)usleep(200);
        }
    }
    run_group(&g, ends);
    assert_children_ended_well(ends, g.ranks, g.at);
    (void)kill(child, SIGKILL);
    (void)child_end(child, false);
    group_end(&g);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

#define HUGE_PAGE ((size_t)COFFER__OS_HUGE_PAGE)

/* Bytes of the map at an address that are huge pages of shared memory. */
static uint64_t huge_bytes(const void *base)
{
    char line[256];
    char begin[32];
    unsigned long kilobytes = 0;
    FILE *maps = fopen("/proc/self/smaps", "r");
    assert_non_null(maps);
    snprintf(begin, sizeof begin, "%lx-", (unsigned long)(uintptr_t)base);
    for (int found = 0; found < 2 && fgets(line, sizeof line, maps) != NULL;) {
        const bool here = found == 0 && strncmp(line, begin, strlen(begin)) == 0;
        found += here || (found == 1 && sscanf(line, "ShmemPmdMapped: %lu kB", &kilobytes) == 1);
    }
    (void)fclose(maps);
    return (uint64_t)kilobytes * 1024;
}

/* Whether the system makes huge pages of small ones when it is asked to, and has one now, and says so: qemu does not.
   */
static bool has_huge_pages(void)
{
    const int collapse = 25;
    coffer__os_map map;
    int fd = -1;
    assert_int_equal(coffer__os_shared_new("huge", HUGE_PAGE, &fd), 0);
    assert_int_equal(coffer__os_shared_map(fd, HUGE_PAGE, &map), 0);
    memset(map.base, 1, 1);
    const bool has = madvise(map.base, HUGE_PAGE, collapse) == 0 && huge_bytes(map.base) == HUGE_PAGE;
    coffer__os_unmap(&map);
    (void)close(fd);
    return has;
}

static void memory_is_in_huge_pages(void **state)
{
    (void)state;
    const size_t size = 3 * HUGE_PAGE + 4096;
    coffer__os_map map;
    coffer__os_map other;
    int fd = -1;
    assert_int_equal(coffer__os_shared_new("huge", size, &fd), 0);
    assert_int_equal(coffer__os_shared_map(fd, size, &map), 0);
    assert_int_equal(coffer__os_shared_map(fd, size, &other), 0);
    assert_int_equal((uintptr_t)map.base % HUGE_PAGE, 0);
    assert_int_equal((uintptr_t)other.base % HUGE_PAGE, 0);
    memset(map.base, 7, HUGE_PAGE);
    coffer__os_shared_huge(&map, HUGE_PAGE, 2 * HUGE_PAGE);
    const uint8_t *bytes = other.base;
    for (size_t i = 0; i < size; i++) {
        assert_int_equal(bytes[i], i < HUGE_PAGE ? 7 : 0);
    }
    if (has_huge_pages()) {
        assert_true(huge_bytes(other.base) > 0);
    } else {
        print_message("not run: this system makes no huge pages on demand\n");
    }
    coffer__os_unmap(&other);
    coffer__os_unmap(&map);
    (void)close(fd);
}

/* ---- who lives --------------------------------------------------------------------------------------------------- */

static int byte_shows(void *ctx)
{
    const int *fd = ctx;
    return coffer__os_byte_is_held(*fd, 7) ? 1 : 0;
}

/* Another load of the same process may have had the memory for a moment: the byte of a rank that lives stays held when
   that closes its descriptor. Two ranks of one process cannot have the same byte. */
static void a_byte_is_held_until_it_is_let_go(void **state)
{
    (void)state;
    int fd = -1;
    int holder = -1;
    int second = -1;
    assert_int_equal(coffer__os_shared_new("byte", 4096, &fd), 0);
    assert_int_equal(child_run(byte_shows, &fd), 0);
    assert_int_equal(coffer__os_hold_byte(fd, 7, &holder), 0);
    assert_true(holder >= 0);
    assert_int_equal(close(dup(fd)), 0);
    assert_int_equal(child_run(byte_shows, &fd), 1);
    assert_true(coffer__os_byte_is_held(fd, 7));
    assert_false(coffer__os_byte_is_held(fd, 6));
    assert_int_not_equal(coffer__os_hold_byte(fd, 7, &second), 0);
    assert_int_equal(second, -1);
    (void)close(holder);
    assert_false(coffer__os_byte_is_held(fd, 7));
    (void)close(fd);
}

static int set_up(void **state)
{
    (void)state;
    (void)alarm(WHOLE_TEST_S);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_cell_is_read_once, set_up),
        cmocka_unit_test_setup(slices_share_what_several_want, set_up),
        cmocka_unit_test_setup(any_order_ends, set_up),
        cmocka_unit_test_setup(missing_ranks_are_not_waited_for_long, set_up),
        cmocka_unit_test_setup(missing_ranks_are_given_up_together, set_up),
        cmocka_unit_test_setup(a_failure_reaches_all, set_up),
        cmocka_unit_test_setup(sessions_follow_each_other, set_up),
        cmocka_unit_test_setup(nonsense_means_no_group, set_up),
        cmocka_unit_test_setup(a_caller_that_talks_disturbs_nobody, set_up),
        cmocka_unit_test_setup(memory_is_in_huge_pages, set_up),
        cmocka_unit_test_setup(a_byte_is_held_until_it_is_let_go, set_up),
        cmocka_unit_test_setup(a_late_rank_harms_nobody, set_up),
        cmocka_unit_test_setup(a_killed_rank_harms_nobody, set_up),
        cmocka_unit_test_setup(a_stopped_rank_harms_nobody, set_up),
        cmocka_unit_test_setup(a_rank_that_leaves_harms_nobody, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
