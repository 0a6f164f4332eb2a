/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading a model into host memory: cold from the disk, from the page cache, half of each, with digests checked on the way,
 * and from a disk that is slow. The floors bring the same bytes into memory that is used again and again, and do nothing
 * else: direct reads of 2 MiB by 16 threads for the disk, pread by one thread for each processor for the page cache.
 *
 * Cold means evicted right before each measurement. The time to evict does not count.
 */
#define _GNU_SOURCE /* O_DIRECT */
#include "bench.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define PIECE_SIZE ((size_t)2 << 20)
#define ALIGNMENT 4096
#define DISK_THREADS 16
#define MOST_THREADS 64

/* What of the file is cached before a measurement. */
typedef enum load_state { LOAD_COLD, LOAD_WARM, LOAD_HALF } load_state;

typedef struct load_case {
    const char *path;
    coffer *model;
    coffer_window *window;
    uint64_t size; /* of the file */
    load_state state;
    bool unverified;
    double cpu; /* seconds of processors that the last run took */
} load_case;

/* ---- the page cache ---- */

static int open_for_reading(const char *path, bool direct)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | (direct ? O_DIRECT : 0));
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

static void prepare(const load_case *load)
{
    const int fd = open_for_reading(load->path, false);
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
}

static double processor_seconds(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* ---- ours ---- */

static void take_all(coffer_load *load)
{
    coffer_error err;
    coffer_loaded loaded;
    do {
        bench_check(coffer_load_next(load, UINT64_MAX, &loaded, &err), &err);
        coffer_memory_free(loaded.memory);
    } while (loaded.item != SIZE_MAX);
}

static double load_ours(void *ctx)
{
    load_case *load = ctx;
    coffer_plan *plan = NULL;
    coffer_load *run = NULL;
    coffer_error err;
    coffer_load_options options = COFFER_LOAD_OPTIONS_INIT;
    options.unverified = load->unverified;
    prepare(load);
    const double cpu = processor_seconds();
    const double start = bench_now();
    bench_check(coffer_plan_new(&plan, load->model, NULL, &err), &err);
    bench_check(coffer_plan_add_all(plan, NULL, 0, 0, 1, NULL, &err), &err);
    bench_check(coffer_load_start(&run, plan, load->window, &options, &err), &err);
    take_all(run);
    const double seconds = bench_now() - start;
    load->cpu = processor_seconds() - cpu;
    coffer_load_free(run);
    coffer_plan_free(plan);
    return seconds;
}

/* ---- floors ---- */

/* What the threads share: whoever is free takes the next piece. */
typedef struct floor_run {
    int fd;
    uint64_t end;
    atomic_uint_least64_t next;
} floor_run;

static void *floor_pieces(void *ctx)
{
    floor_run *run = ctx;
    void *buffer = NULL;
    if (posix_memalign(&buffer, PIECE_SIZE, PIECE_SIZE) != 0) {
        bench_die("posix_memalign", NULL);
    }
    for (uint64_t at = atomic_fetch_add(&run->next, PIECE_SIZE); at < run->end;
         at = atomic_fetch_add(&run->next, PIECE_SIZE)) {
        if (pread(run->fd, buffer, PIECE_SIZE, (off_t)at) <= 0) {
            bench_die("pread", NULL);
        }
    }
    free(buffer);
    return NULL;
}

static double read_range(const char *path, bool direct, uint64_t begin, uint64_t end)
{
    pthread_t threads[MOST_THREADS];
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    const size_t warm_threads = processors < 1 ? 1 : processors > MOST_THREADS ? MOST_THREADS : (size_t)processors;
    const size_t count = direct ? DISK_THREADS : warm_threads;
    floor_run run = { .fd = open_for_reading(path, direct), .end = end, .next = begin };
    const double start = bench_now();
    for (size_t i = 0; i < count; i++) {
        if (pthread_create(&threads[i], NULL, floor_pieces, &run) != 0) {
            bench_die("pthread_create", NULL);
        }
    }
    for (size_t i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
    const double seconds = bench_now() - start;
    close(run.fd);
    return seconds;
}

/* Of half a cached file, each half is read as it is best read, one after the other. */
static double load_floor(void *ctx)
{
    const load_case *load = ctx;
    const uint64_t half = load->size / 2 / PIECE_SIZE * PIECE_SIZE;
    prepare(load);
    switch (load->state) {
    case LOAD_COLD:
        return read_range(load->path, true, 0, load->size);
    case LOAD_WARM:
        return read_range(load->path, false, 0, load->size);
    default:
        return read_range(load->path, false, 0, half) + read_range(load->path, true, half, load->size);
    }
}

/* What a program without any of this does: read through the page cache. */
static double load_buffered(void *ctx)
{
    load_case *load = ctx;
    prepare(load);
    const double cpu = processor_seconds();
    const double seconds = read_range(load->path, false, 0, load->size);
    load->cpu = processor_seconds() - cpu;
    return seconds;
}

/* ---- rows ---- */

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
    bench_check(coffer_window_new(&load.window, NULL, &err), &err);
    if (stat(path, &status) != 0) {
        bench_die(path, NULL);
    }
    load.size = (uint64_t)status.st_size;
    return load;
}

static void close_case(load_case *load)
{
    coffer_window_free(load->window);
    coffer_close(load->model);
}

static size_t rounds(void)
{
    return bench_size(5, 1);
}

/* Seconds of processors are shown for each GB, of one more run each. */
static void measure_cpu(load_case *load, const char *name)
{
    const double gigabytes = (double)load->size / BENCH_GB;
    (void)load_ours(load);
    const double ours = load->cpu / gigabytes;
    (void)load_buffered(load);
    const double others = load->cpu / gigabytes;
    char row[96];
    snprintf(row, sizeof row, "%s: processor time for 1 GB", name);
    bench_row(row, "s", ours, "pread through the page cache", others, ours > 0 ? others / ours : 0, "cold");
}

static void measure_cold(load_case *load, const char *name)
{
    load->state = LOAD_COLD;
    load->unverified = true;
    const bench_rival rivals[3] = { { load_ours, load }, { load_floor, load }, { load_buffered, load } };
    const bench_result result = bench_contest(rivals, 3, rounds());
    bench_row_of(name, "GB/s", (double)load->size / BENCH_GB, &result, "direct reads alone", 1, "cold, not verified");
    bench_row_of(name, "GB/s", (double)load->size / BENCH_GB, &result, "pread through the page cache", 2,
                 "cold, not verified");
    measure_cpu(load, name);
}

static void measure_warm(load_case *load, const char *name)
{
    load->state = LOAD_WARM;
    const bench_rival rivals[2] = { { load_ours, load }, { load_floor, load } };
    const bench_result result = bench_contest(rivals, 2, rounds());
    bench_row_of(name, "GB/s", (double)load->size / BENCH_GB, &result, "pread by all processors, touched memory", 1,
                 "cached, not verified");
}

static void measure_half(load_case *load, const char *name)
{
    load->state = LOAD_HALF;
    const bench_rival rivals[2] = { { load_ours, load }, { load_floor, load } };
    const bench_result result = bench_contest(rivals, 2, rounds());
    bench_row_of(name, "GB/s", (double)load->size / BENCH_GB, &result, "each half by its floor", 1,
                 "half cached, not verified");
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
    bench_row_of(name, "GB/s", (double)load->size / BENCH_GB, &result, "the same, not verified", 1, "cold, verified");
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
    bench_row("planning a load, for each tensor", "us", 1e6 * each, NULL, 0, 0, "rank 1 of 8, with its cost");
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
              (double)cost.needed / BENCH_MB, (double)cost.needed / (double)cost.read, "by the plan");
    coffer_plan_free(plan);
}

/* ---- a slow disk ---- */

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
              (double)THROTTLE_RATE / BENCH_MB, rate / THROTTLE_RATE, "cold, 200 MB/s");
}

/* ---- the files ---- */

static void measure_file(const char *name, coffer_header *header)
{
    const char *path = bench_path("load.safetensors");
    bench_write_full(path, header);
    coffer_header_free(header);
    load_case load = open_case(path);
    measure_cold(&load, name);
    measure_warm(&load, name);
    measure_half(&load, name);
    measure_planning(&load);
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
    measure_cold(&load, "load GPT-2, 160 tensors");
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

int main(void)
{
    bench_need_disk(bench_size((size_t)4 * BENCH_GB, 64 * BENCH_MB));
    measure_file("load 2 GB, one tensor", bench_matrix(bench_size(31250, 250), 16000));
    measure_file("load 2 GB, 20,000 tensors", many_tensors(bench_size(20000, 100)));
    if (!bench_is_quick()) {
        measure_gpt2();
    }
    return 0;
}
