/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a file that is in the page cache into fresh memory: one large tensor, and every tensor of a model, in one call and
 * in one call for each. The floors read the same bytes: pread into huge pages by one thread and by one for each processor,
 * into fresh memory of malloc, into memory that was touched before, and memcpy from a map.
 */
#include "bench.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PIECE_SIZE ((size_t)4 << 20)
#define HUGE_PAGE ((size_t)2 << 20)

typedef struct read_file {
    coffer *model;
    int fd;
    uint64_t start; /* of the data */
    size_t size;    /* of the data */
    const char *map;
    void *touched; /* memory that was used before */
} read_file;

/* ---- ours ---- */

static double read_ours(void *ctx)
{
    const read_file *file = ctx;
    coffer_error err;
    const double start = bench_now();
    char *buffer = coffer_buffer_new(file->size);
    for (size_t i = 0; buffer != NULL && i < coffer_count(file->model); i++) {
        const coffer_tensor *tensor = coffer_at(file->model, i);
        bench_check(coffer_read(file->model, tensor, buffer + (tensor->offset - file->start), tensor->size, NULL, &err),
                    &err);
    }
    const double seconds = bench_now() - start;
    if (buffer == NULL) {
        bench_die("coffer_buffer_new", NULL);
    }
    coffer_buffer_free(buffer, file->size);
    return seconds;
}

static double read_ours_at_once(void *ctx)
{
    const read_file *file = ctx;
    coffer_error err;
    const size_t count = coffer_count(file->model);
    const double start = bench_now();
    char *buffer = coffer_buffer_new(file->size);
    coffer_read_target *targets = bench_alloc(count * sizeof *targets);
    for (size_t i = 0; buffer != NULL && i < count; i++) {
        const coffer_tensor *tensor = coffer_at(file->model, i);
        targets[i] = (coffer_read_target){ tensor, buffer + (tensor->offset - file->start), tensor->size };
    }
    if (buffer == NULL) {
        bench_die("coffer_buffer_new", NULL);
    }
    bench_check(coffer_read_many(file->model, targets, count, NULL, &err), &err);
    const double seconds = bench_now() - start;
    free(targets);
    coffer_buffer_free(buffer, file->size);
    return seconds;
}

/* ---- floors ---- */

/* What the threads share: whoever is free takes the next piece. */
typedef struct read_work {
    const read_file *file;
    char *to;
    atomic_size_t next;
} read_work;

static void *read_pieces(void *ctx)
{
    read_work *work = ctx;
    const size_t size = work->file->size;
    for (size_t at = atomic_fetch_add(&work->next, PIECE_SIZE); at < size;
         at = atomic_fetch_add(&work->next, PIECE_SIZE)) {
        const size_t want = size - at < PIECE_SIZE ? size - at : PIECE_SIZE;
        if (pread(work->file->fd, work->to + at, want, (off_t)(work->file->start + at)) != (ssize_t)want) {
            bench_die("pread", NULL);
        }
    }
    return NULL;
}

/* Fresh memory in huge pages, as far as the system gives them: *whole is what to unmap. */
static char *map_huge(size_t size, void **whole)
{
    char *pages = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) {
        bench_die("mmap", NULL);
    }
    *whole = pages;
    pages += HUGE_PAGE - (uintptr_t)pages % HUGE_PAGE;
    madvise(pages, size, MADV_HUGEPAGE);
    return pages;
}

static double read_one_thread(void *ctx)
{
    const read_file *file = ctx;
    void *whole = NULL;
    const double start = bench_now();
    read_work work = { file, map_huge(file->size, &whole), 0 };
    read_pieces(&work);
    const double seconds = bench_now() - start;
    munmap(whole, file->size + HUGE_PAGE);
    return seconds;
}

#define MAX_THREADS 16u

static size_t all_threads(void)
{
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return processors < 1 ? 1 : processors > (long)MAX_THREADS ? MAX_THREADS : (size_t)processors;
}

static double read_all_threads(void *ctx)
{
    const read_file *file = ctx;
    void *whole = NULL;
    pthread_t threads[MAX_THREADS];
    const size_t count = all_threads();
    const double start = bench_now();
    read_work work = { file, map_huge(file->size, &whole), 0 };
    for (size_t i = 1; i < count; i++) {
        if (pthread_create(&threads[i], NULL, read_pieces, &work) != 0) {
            bench_die("pthread_create", NULL);
        }
    }
    read_pieces(&work);
    for (size_t i = 1; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
    const double seconds = bench_now() - start;
    munmap(whole, file->size + HUGE_PAGE);
    return seconds;
}

static double read_malloc(void *ctx)
{
    const read_file *file = ctx;
    const double start = bench_now();
    read_work work = { file, bench_alloc(file->size), 0 };
    read_pieces(&work);
    const double seconds = bench_now() - start;
    free(work.to);
    return seconds;
}

static double read_touched(void *ctx)
{
    const read_file *file = ctx;
    read_work work = { file, file->touched, 0 };
    const double start = bench_now();
    read_pieces(&work);
    return bench_now() - start;
}

static double copy_map(void *ctx)
{
    const read_file *file = ctx;
    void *whole = NULL;
    const double start = bench_now();
    memcpy(map_huge(file->size, &whole), file->map, file->size);
    const double seconds = bench_now() - start;
    munmap(whole, file->size + HUGE_PAGE);
    return seconds;
}

/* ---- rows ---- */

static read_file open_file(const char *path, coffer_header *header)
{
    read_file file = { NULL, -1, 0, 0, NULL, NULL };
    coffer_error err;
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.access = COFFER_READ;
    bench_write_full(path, header);
    coffer_header_free(header);
    bench_check(coffer_open(&file.model, path, &options, &err), &err);
    const coffer_table *table = coffer_shard_table(file.model, 0);
    file.start = coffer_table_data_offset(table);
    file.size = (size_t)coffer_table_data_size(table);
    file.fd = open(path, O_RDONLY);
    file.touched = bench_alloc(file.size);
    memset(file.touched, 1, file.size);
    char *map = mmap(NULL, (size_t)file.start + file.size, PROT_READ, MAP_PRIVATE, file.fd, 0);
    if (map == MAP_FAILED) {
        bench_die(path, NULL);
    }
    file.map = map + file.start;
    return file;
}

static void close_file(read_file *file)
{
    coffer_close(file->model);
    munmap((void *)(uintptr_t)(file->map - file->start), (size_t)file->start + file->size);
    close(file->fd);
    free(file->touched);
}

static void print_rows(const char *name, const read_file *file, const bench_rival *rivals, const char *const *others,
                       size_t count)
{
    const bench_result result = bench_contest(rivals, count, bench_size(15, 2));
    for (size_t i = 1; i < count; i++) {
        bench_row_of(name, "GB/s", (double)file->size / BENCH_GB, &result, others[i], i,
                     "warm, into fresh memory, not verified");
    }
}

static void measure_matrix(const char *path, const char *all)
{
    read_file file = open_file(path, bench_matrix(bench_size(15625, 250), 16000));
    const bench_rival rivals[6] = { { read_ours, &file },   { read_one_thread, &file }, { read_all_threads, &file },
                                    { read_malloc, &file }, { read_touched, &file },    { copy_map, &file } };
    const char *const others[6] = { NULL,
                                    "1 thread, pread, huge pages",
                                    all,
                                    "1 thread, pread, fresh malloc",
                                    "1 thread, pread, touched before",
                                    "memcpy from a map, huge pages" };
    print_rows("read 1 GB, one tensor", &file, rivals, others, 6);
    close_file(&file);
    remove(path);
}

static void measure_model(const char *path, const char *all)
{
    read_file file = open_file(path, bench_model(BENCH_GPT2));
    const bench_rival at_once[2] = { { read_ours_at_once, &file }, { read_all_threads, &file } };
    const bench_rival each[2] = { { read_ours, &file }, { read_all_threads, &file } };
    const char *const others[2] = { NULL, all };
    print_rows("read GPT-2, all tensors in one call", &file, at_once, others, 2);
    print_rows("read GPT-2, a call for each tensor", &file, each, others, 2);
    close_file(&file);
    remove(path);
}

int main(void)
{
    char all[48];
    bench_need_disk(bench_size(BENCH_GB, 16 * BENCH_MB));
    snprintf(all, sizeof all, "%zu threads, pread, huge pages", all_threads());
    measure_matrix(bench_path("read.safetensors"), all);
    if (!bench_is_quick()) {
        measure_model(bench_path("read.safetensors"), all);
    }
    return 0;
}
