/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading a model into host memory: cold from the disk, from the page cache, half of each, with digests checked on the
 * way, by several processes together, and from a disk that is slow. The floors are those of floor_read.c, a program
 * that only reads.
 *
 * Cold means evicted right before each measurement. The time to evict does not count, nor does releasing what was
 * loaded.
 *
 * A load makes its own memory, which the system clears page by page. So it is compared with reads into fresh memory as
 * well as with reads into memory that was touched before. A load to given places that were touched is compared with the
 * latter.
 */
#include "bench.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIECE_SIZE ((size_t)2 << 20)
#define RANKS 8

static const char *bench_floor; /* the program for floors, which lies beside this one */

/* What of the file is cached before a measurement. */
typedef enum load_state { LOAD_COLD, LOAD_WARM, LOAD_HALF } load_state;

typedef struct load_case {
    const char *path;
    coffer *model;
    coffer_staging *staging;
    uint64_t size; /* of the file */
    load_state state;
    bool unverified;
    bool fresh;   /* floors read into fresh memory */
    char *place;  /* touched memory for all of the file; NULL: the load's own */
    double cpu;   /* seconds of processors that the last run took */
    double first; /* seconds until the first tensor of the last load was there */
} load_case;

/* ---- the page cache ---------------------------------------------------------------------------------------------- */

static int open_for_reading(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        bench_die(path, NULL);
    }
    return fd;
}

/* Reads a part into the page cache. */
static void warm(int fd, uint64_t begin, uint64_t end)
{
    char *buffer = bench_alloc(PIECE_SIZE);
    for (uint64_t at = begin; at < end; at += PIECE_SIZE) {
        if (pread(fd, buffer, PIECE_SIZE, (off_t)at) <= 0) {
            bench_die("pread", NULL);
        }
    }
    free(buffer);
}

/*
 * A virtual machine whose kernel reports free pages gives back to its host what has been free for two seconds, and
 * getting it again can take seconds for each GB. That would be measured instead of what is loaded. So as much memory as
 * a load takes, with its staging buffers, is taken right before it, and freed.
 */
static void wake_memory(uint64_t size)
{
    enum { PAGE = 4096 };
    size += size / 4 + ((uint64_t)256 << 20);
    char *memory = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        bench_die("mmap", NULL);
    }
    (void)madvise(memory, (size_t)size, MADV_HUGEPAGE); /* as loads take it */
    for (uint64_t at = 0; at < size; at += PAGE) {
        ((volatile char *)memory)[at] = 1;
    }
    munmap(memory, (size_t)size);
}

static void prepare(const load_case *load)
{
    const int fd = open_for_reading(load->path);
    if (load->state == LOAD_WARM) {
        warm(fd, 0, load->size);
    } else {
        (void)fdatasync(fd);
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    }
    if (load->state == LOAD_HALF) { /* without read-ahead, which would bring the other half */
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
        warm(fd, 0, load->size / 2);
    }
    close(fd);
    wake_memory(load->size);
}

static double processor_seconds(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* ---- ours -------------------------------------------------------------------------------------------------------- */

/* Takes every item; what has memory of its own is kept in the list. Returns how many those are. */
static size_t take_all(coffer_load *load, coffer_memory **kept)
{
    coffer_error err;
    coffer_loaded loaded;
    size_t count = 0;
    for (;;) {
        bench_check(coffer_load_next(load, UINT64_MAX, &loaded, &err), &err);
        if (loaded.item == SIZE_MAX) {
            return count;
        }
        if (loaded.memory != NULL) {
            kept[count++] = loaded.memory;
        }
    }
}

static void release_all(coffer_memory **kept, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        coffer_memory_free(kept[i]);
    }
    free(kept);
}

/* All tensors, to memory of the load's own or to where they lie in the file, from the place on. */
static void add_all(const load_case *load, coffer_plan *plan)
{
    coffer_error err;
    const size_t count = load->place == NULL ? 0 : coffer_count(load->model);
    for (size_t i = 0; i < count; i++) {
        const coffer_tensor *tensor = coffer_at(load->model, i);
        const coffer_destination place = { .address = (uintptr_t)load->place + tensor->offset, .size = tensor->size };
        bench_check(coffer_plan_add(plan, tensor, NULL, 0, &place, NULL, &err), &err);
    }
    if (load->place == NULL) {
        bench_check(coffer_plan_add_all(plan, NULL, 0, 0, 1, NULL, &err), &err);
    }
}

static double load_ours(void *ctx)
{
    load_case *load = ctx;
    coffer_plan *plan = NULL;
    coffer_load *run = NULL;
    coffer_error err;
    coffer_load_options options = COFFER_LOAD_OPTIONS_INIT;
    options.unverified = load->unverified;
    coffer_memory **kept = bench_alloc(coffer_count(load->model) * sizeof(coffer_memory *));
    prepare(load);
    const double cpu = processor_seconds();
    const double start = bench_now();
    bench_check(coffer_plan_new(&plan, load->model, NULL, &err), &err);
    add_all(load, plan);
    bench_check(coffer_load_start(&run, plan, load->staging, &options, &err), &err);
    const size_t count = take_all(run, kept);
    const double seconds = bench_now() - start;
    load->cpu = processor_seconds() - cpu;
    coffer_load_stats stats = { .struct_size = sizeof stats };
    coffer_load_stats_of(run, &stats);
    load->first = (double)stats.first / 1e9;
    release_all(kept, count);
    coffer_load_free(run);
    coffer_plan_free(plan);
    return seconds;
}

/* ---- floors ------------------------------------------------------------------------------------------------------ */

/* Seconds that the program for floors says it needs for `size` bytes like those of the file: its start does not count.
   */
static double floor_seconds(const char *kind, const char *path, uint64_t size)
{
    double rate = 0; /* MB/s */
    (void)bench_fresh_process(bench_floor, kind, path, NULL, &rate);
    return rate > 0 ? (double)size / BENCH_MB / rate : 0;
}

static double load_floor(void *ctx)
{
    static const char *const kinds[3][2] = { [LOAD_COLD] = { "cold", "cold-fresh" },
                                             [LOAD_WARM] = { "warm", "warm-fresh" },
                                             [LOAD_HALF] = { "half", "half-fresh" } };
    const load_case *load = ctx;
    prepare(load);
    return floor_seconds(kinds[load->state][load->fresh], load->path, load->size);
}

/* What a program does that knows of none of this: it reads through the page cache, into memory of its own … */
static double read_buffered(load_case *load, size_t memory_size)
{
    prepare(load);
    const int fd = open_for_reading(load->path);
    char *memory = bench_alloc(memory_size);
    const double cpu = processor_seconds();
    const double start = bench_now();
    for (uint64_t at = 0; at < load->size; at += PIECE_SIZE) {
        const size_t size = load->size - at < PIECE_SIZE ? (size_t)(load->size - at) : PIECE_SIZE;
        if (pread(fd, memory + (memory_size > PIECE_SIZE ? at : 0), size, (off_t)at) <= 0) {
            bench_die("pread", NULL);
        }
    }
    const double seconds = bench_now() - start;
    load->cpu = processor_seconds() - cpu;
    free(memory);
    close(fd);
    return seconds;
}

static double load_buffered(void *ctx)
{
    load_case *load = ctx;
    return read_buffered(load, (size_t)load->size);
}

/* … or into one buffer over and over. */
static double load_reusing(void *ctx)
{
    return read_buffered(ctx, PIECE_SIZE);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* The state of a row with what its ratio should be at least. The text is good until the next call. */
static const char *with_bound(const char *state, double bound)
{
    static char text[128];
    snprintf(text, sizeof text, "%s; should be %.2f", state, bound);
    return text;
}

static coffer_header *many_tensors(size_t count)
{
    coffer_header *header = NULL;
    bench_check(coffer_header_new(&header, NULL, NULL), NULL);
    for (size_t i = 0; i < count; i++) {
        char name[48];
        const uint64_t shape[2] = { 160, 320 }; /* 102,400 bytes */
        const int length = snprintf(name, sizeof name, "experts.%zu.weight", i);
        bench_check(coffer_header_add(header, name, (size_t)length, COFFER_BF16, shape, 2, NULL), NULL);
    }
    return header;
}

static load_case open_case(const char *path)
{
    load_case load = { .path = path };
    struct stat status;
    coffer_error err;
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.access = COFFER_READ;
    bench_check(coffer_open(&load.model, path, &options, &err), &err);
    bench_check(coffer_staging_new(&load.staging, NULL, &err), &err);
    if (stat(path, &status) != 0) {
        bench_die(path, NULL);
    }
    load.size = (uint64_t)status.st_size;
    return load;
}

static void close_case(load_case *load)
{
    coffer_staging_free(load->staging);
    coffer_close(load->model);
}

static size_t rounds(void)
{
    return bench_size(5, 1);
}

/* The same file, to be loaded to memory that was touched, … */
static load_case placed(const load_case *load)
{
    load_case to = *load;
    char *memory = mmap(NULL, load->size + PIECE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        bench_die("mmap", NULL);
    }
    to.place = memory + (PIECE_SIZE - (uintptr_t)memory % PIECE_SIZE) % PIECE_SIZE; /* a huge page begins there */
    (void)madvise(to.place, load->size, MADV_HUGEPAGE);
    memset(to.place, 1, load->size);
    return to;
}

static void end_placed(const load_case *to)
{
    (void)munmap(to->place, to->size); /* what was mapped before and after it was never touched */
}

/* … and to be read by the floor into memory that was not. */
static load_case fresh(const load_case *load)
{
    load_case floor = *load;
    floor.fresh = true;
    return floor;
}

/* A row for the load's own memory beside both floors, and one for places that were touched. */
static void measure_state(load_case *load, const char *name, const char *floor, const char *cached, double bound)
{
    const char *state = with_bound(cached, bound);
    char row[96];
    char other[96];
    load_case untouched = fresh(load);
    const bench_rival own[3] = { { load_ours, load }, { load_floor, load }, { load_floor, &untouched } };
    const bench_result result = bench_contest(own, 3, rounds());
    snprintf(other, sizeof other, "%s, touched memory", floor);
    bench_row_of(name, "GB/s", (double)load->size / BENCH_GB, &result, other, 1, state);
    snprintf(row, sizeof row, "%s, fresh memory", floor);
    bench_row_of(name, "GB/s", (double)load->size / BENCH_GB, &result, row, 2, state);
    load_case to = placed(load);
    const bench_rival given[2] = { { load_ours, &to }, { load_floor, load } };
    const bench_result touched = bench_contest(given, 2, rounds());
    snprintf(row, sizeof row, "%s, to touched places", name);
    bench_row_of(row, "GB/s", (double)load->size / BENCH_GB, &touched, other, 1, state);
    end_placed(&to);
}

/* Seconds of processors for each GB, of one more run each. */
static void measure_cpu(load_case *load, const char *name)
{
    const double gigabytes = (double)load->size / BENCH_GB;
    char row[96];
    (void)load_ours(load);
    const double ours = load->cpu / gigabytes;
    (void)load_buffered(load);
    const double others = load->cpu / gigabytes;
    snprintf(row, sizeof row, "%s: processor time for 1 GB", name);
    bench_row(row, "s", ours, "pread into fresh memory", others, ours > 0 ? others / ours : 0,
              with_bound("cold", 1 / 0.6));
    load_case to = placed(load);
    (void)load_ours(&to);
    const double ours_placed = to.cpu / gigabytes;
    (void)load_reusing(&to);
    const double reusing = to.cpu / gigabytes;
    snprintf(row, sizeof row, "%s, to touched places: processor time for 1 GB", name);
    bench_row(row, "s", ours_placed, "pread into one buffer", reusing, ours_placed > 0 ? reusing / ours_placed : 0,
              with_bound("cold", 1 / 0.6));
    end_placed(&to);
}

static void measure_cold(load_case *load, const char *name, double bound)
{
    load->state = LOAD_COLD;
    load->unverified = true;
    measure_state(load, name, "direct reads", "cold, not verified", bound);
    const bench_rival rivals[2] = { { load_ours, load }, { load_buffered, load } };
    const bench_result result = bench_contest(rivals, 2, rounds());
    bench_row_of(name, "GB/s", (double)load->size / BENCH_GB, &result, "pread through the page cache", 1,
                 "cold, not verified");
    measure_cpu(load, name);
}

static void measure_warm(load_case *load, const char *name)
{
    load->state = LOAD_WARM;
    measure_state(load, name, "pread by all processors", "cached, not verified", 0.95);
}

static void measure_half(load_case *load, const char *name)
{
    load->state = LOAD_HALF;
    measure_state(load, name, "each half by its floor", "half cached, not verified", 1 / 1.1);
}

/* The same file with digests, checked and not. */
static void measure_digests(load_case *load, const char *name)
{
    load_case checked = *load;
    load->state = checked.state = LOAD_COLD;
    load->unverified = true;
    checked.unverified = false;
    const bench_rival rivals[2] = { { load_ours, &checked }, { load_ours, load } };
    const bench_result result = bench_contest(rivals, 2, rounds());
    bench_row_of(name, "GB/s", (double)load->size / BENCH_GB, &result, "the same, not verified", 1,
                 with_bound("cold, verified", 0.95));
}

static void measure_planning(const load_case *load)
{
    const size_t count = bench_size(200, 2);
    coffer_error err;
    const double start = bench_now();
    for (size_t i = 0; i < count; i++) {
        coffer_plan *plan = NULL;
        coffer_plan_cost cost = { .struct_size = sizeof cost };
        bench_check(coffer_plan_new(&plan, load->model, NULL, &err), &err);
        bench_check(coffer_plan_add_all(plan, NULL, 0, 1, 8, NULL, &err), &err);
        bench_check(coffer_plan_cost_of(plan, SIZE_MAX, &cost, &err), &err);
        coffer_plan_free(plan);
    }
    const double each = (bench_now() - start) / (double)count / (double)coffer_count(load->model);
    bench_row("planning a load, for each tensor", "us", 1e6 * each, NULL, 0, 0,
              "rank 1 of 8, with its cost; should be at most 1");
}

/* Bytes that are read for those that are needed, of a rank that takes an eighth along dimension 0. */
static void measure_over_read(const load_case *load)
{
    coffer_plan *plan = NULL;
    coffer_error err;
    coffer_plan_cost cost = { .struct_size = sizeof cost };
    const coffer_split_rule rule = { "*", 0 };
    bench_check(coffer_plan_new(&plan, load->model, NULL, &err), &err);
    bench_check(coffer_plan_add_all(plan, &rule, 1, 3, 8, NULL, &err), &err);
    bench_check(coffer_plan_cost_of(plan, SIZE_MAX, &cost, &err), &err);
    bench_row("rank 3 of 8, dimension 0: bytes read", "MB", (double)cost.read / BENCH_MB, "bytes needed",
              (double)cost.needed / BENCH_MB, (double)cost.needed / (double)cost.read,
              with_bound("by the plan", 1 / 1.02));
    coffer_plan_free(plan);
}

/* ---- several processes ------------------------------------------------------------------------------------------- */

/* What a rank tells the process that started it. */
typedef struct rank_result {
    uint64_t read;
    uint64_t needed;
} rank_result;

static void load_rank(const load_case *load, uint32_t rank, uint32_t ranks, rank_result *result)
{
    coffer_plan *plan = NULL;
    coffer_load *run = NULL;
    coffer_staging *staging = NULL;
    coffer_error err;
    coffer_load_stats stats = { .struct_size = sizeof stats };
    coffer_staging_options options = COFFER_STAGING_OPTIONS_INIT;
    options.ranks = ranks;
    options.rank = rank;
    bench_check(coffer_staging_new(&staging, &options, &err), &err);
    bench_check(coffer_plan_new(&plan, load->model, NULL, &err), &err);
    bench_check(coffer_plan_add_all(plan, NULL, 0, rank, ranks, NULL, &err), &err);
    coffer_memory **kept = bench_alloc(coffer_plan_count(plan) * sizeof(coffer_memory *));
    bench_check(coffer_load_start(&run, plan, staging, NULL, &err), &err);
    const size_t count = take_all(run, kept);
    coffer_load_stats_of(run, &stats);
    *result = (rank_result){ .read = stats.read, .needed = stats.wanted };
    release_all(kept, count);
    coffer_load_free(run);
    coffer_plan_free(plan);
    coffer_staging_free(staging);
}

/* Seconds until the last of them has all that it needs; their results are shared memory. */
static double load_ranks(const load_case *load, uint32_t ranks, rank_result *results)
{
    pid_t children[RANKS];
    prepare(load);
    const double start = bench_now();
    for (uint32_t rank = 0; rank < ranks; rank++) {
        children[rank] = fork();
        if (children[rank] == 0) {
            load_rank(load, rank, ranks, &results[rank]);
            _exit(0);
        }
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        int status = 0;
        if (waitpid(children[rank], &status, 0) != children[rank] || status != 0) {
            bench_die("a rank failed", NULL);
        }
    }
    return bench_now() - start;
}

/* A model whose tensors ranks split along either dimension. */
static coffer_header *transformer(size_t layers)
{
    static const char *const parts[] = { "self_attn.q_proj", "self_attn.o_proj", "mlp.up_proj", "mlp.down_proj" };
    coffer_header *header = NULL;
    bench_check(coffer_header_new(&header, NULL, NULL), NULL);
    for (size_t i = 0; i < layers; i++) {
        for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++) {
            char name[80];
            const uint64_t shape[2] = { 4096, 2048 };
            const int length = snprintf(name, sizeof name, "model.layers.%zu.%s.weight", i, parts[k]);
            bench_check(coffer_header_add(header, name, (size_t)length, COFFER_BF16, shape, 2, NULL), NULL);
        }
    }
    return header;
}

static void measure_ranks(void)
{
    const char *path = bench_path("load.safetensors");
    coffer_header *header = transformer(bench_size(30, 1));
    bench_write_full(path, header);
    coffer_header_free(header);
    load_case load = open_case(path);
    load.state = LOAD_COLD;
    load.unverified = true;
    rank_result *results =
        mmap(NULL, RANKS * sizeof *results, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (results == MAP_FAILED) {
        bench_die("mmap", NULL);
    }
    double ours[8];
    double alone[8];
    const size_t count = rounds();
    for (size_t i = 0; i < count; i++) {
        ours[i] = load_ranks(&load, RANKS, results);
        alone[i] = load_ours(&load);
    }
    uint64_t read = 0;
    for (size_t i = 0; i < RANKS; i++) {
        read += results[i].read;
    }
    const double together = bench_median(ours, count);
    const double one = bench_median(alone, count);
    bench_row("load by 8 processes, each its eighth", "s", together, "one process, all of it", one, one / together,
              with_bound("cold, not verified", 1 / 1.2));
    bench_row("load by 8 processes: bytes read by all", "MB", (double)read / BENCH_MB, "the model",
              (double)load.size / BENCH_MB, (double)load.size / (double)read, with_bound("cold", 1 / 1.02));
    munmap(results, RANKS * sizeof *results);
    close_case(&load);
    remove(path);
}

/* ---- a slow disk ------------------------------------------------------------------------------------------------- */

#define THROTTLE_RATE 200000000u
#define THROTTLE_GROUP "/sys/fs/cgroup/blkio/coffer-bench"

static bool write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    const bool written = file != NULL && fputs(text, file) >= 0;
    return file != NULL && fclose(file) == 0 && written;
}

/* This process reads no more than that from the file's disk. False without the right to say so. */
static bool throttle(const char *path, unsigned rate)
{
    struct stat status;
    char text[64];
    char process[32];
    if (stat(path, &status) != 0 || (mkdir(THROTTLE_GROUP, 0700) != 0 && access(THROTTLE_GROUP, W_OK) != 0)) {
        return false;
    }
    snprintf(text, sizeof text, "%u:%u %u", major(status.st_dev), minor(status.st_dev), rate);
    snprintf(process, sizeof process, "%ld", (long)getpid());
    return write_text(THROTTLE_GROUP "/blkio.throttle.read_bps_device", text) &&
           write_text(THROTTLE_GROUP "/cgroup.procs", process);
}

static void end_throttle(const char *path)
{
    char process[32];
    (void)throttle(path, 0);
    snprintf(process, sizeof process, "%ld", (long)getpid());
    (void)write_text("/sys/fs/cgroup/blkio/cgroup.procs", process);
    (void)rmdir(THROTTLE_GROUP);
}

static void measure_throttled(load_case *load)
{
    load->state = LOAD_COLD;
    if (!throttle(load->path, THROTTLE_RATE)) {
        bench_note("loading from a disk that is slowed down to 200 MB/s: that needs root and a blkio controller");
        return;
    }
    const double seconds = load_ours(load);
    end_throttle(load->path);
    const double rate = (double)load->size / seconds;
    bench_row("load GPT-2 from a slow disk", "MB/s", rate / BENCH_MB, "the limit of the disk",
              (double)THROTTLE_RATE / BENCH_MB, rate / THROTTLE_RATE, with_bound("cold, 200 MB/s", 0.98));
    const coffer_tensor *first = coffer_at(load->model, 0);
    const double least = (double)(first->offset + first->size + 3 * (uint64_t)PIECE_SIZE) / THROTTLE_RATE;
    bench_row("load GPT-2 from a slow disk: until the first tensor", "ms", 1e3 * load->first, "it and three chunks",
              1e3 * least, least / load->first, with_bound("cold, 200 MB/s", 1));
}

/* ---- the files --------------------------------------------------------------------------------------------------- */

static void measure_file(const char *name, coffer_header *header, double bound)
{
    const char *path = bench_path("load.safetensors");
    bench_write_full(path, header);
    coffer_header_free(header);
    load_case load = open_case(path);
    measure_cold(&load, name, bound);
    measure_warm(&load, name);
    measure_half(&load, name);
    if (coffer_count(load.model) > 1) { /* the fixed costs of a plan are no tensor's */
        measure_planning(&load);
    }
    close_case(&load);
    remove(path);
}

static void measure_gpt2(void)
{
    const char *path = bench_path("load.safetensors");
    coffer_header *header = bench_model(BENCH_GPT2);
    coffer_error err;
    bench_write_full(path, header);
    coffer_header_free(header);
    load_case load = open_case(path);
    measure_cold(&load, "load GPT-2, 160 tensors", 0.92);
    measure_warm(&load, "load GPT-2, 160 tensors");
    measure_over_read(&load);
    measure_throttled(&load);
    close_case(&load);
    bench_check(coffer_record_digests(path, COFFER_XXH3_128, NULL, NULL, &err), &err);
    load = open_case(path);
    measure_digests(&load, "load GPT-2, digests checked");
    close_case(&load);
    remove(path);
}

int main(int argc, char **argv)
{
    char floor[4096];
    (void)argc;
    const char *slash = strrchr(argv[0], '/');
    snprintf(floor, sizeof floor, "%.*sfloor_read", slash != NULL ? (int)(slash - argv[0] + 1) : 0, argv[0]);
    bench_floor = floor;
    bench_need_disk(bench_size((size_t)4 * BENCH_GB, 64 * BENCH_MB));
    measure_file("load 2 GB, one tensor", bench_matrix(bench_size(31250, 250), 16000), 0.95);
    measure_file("load 2 GB, 20,000 tensors", many_tensors(bench_size(20000, 100)), 0.85);
    if (!bench_is_quick()) {
        measure_gpt2();
    }
    measure_ranks();
    return 0;
}
