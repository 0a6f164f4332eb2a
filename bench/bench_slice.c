/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slices of a row-major matrix of 1 GB that is in the page cache: a block of its columns, by reads and from the map, beside
 * reading the whole tensor; and a block of its rows, beside a pread of the same bytes.
 */
#include "bench.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COLUMNS 16000u

typedef struct slice_job {
    const coffer *model;
    const char *slice; /* NULL: the whole tensor by coffer_read */
    int fd;
    uint64_t offset; /* in the file, for pread */
    char *buffer;    /* touched before, so that only moving the bytes counts */
    size_t size;
} slice_job;

static double run_slice(void *ctx)
{
    const slice_job *job = ctx;
    coffer_error err;
    coffer_index indices[2];
    size_t count = 2;
    const coffer_tensor *tensor = coffer_at(job->model, 0);
    const double start = bench_now();
    bench_check(coffer_slice_parse(job->slice, strlen(job->slice), indices, &count, &err), &err);
    bench_check(coffer_read_slice(job->model, tensor, indices, count, job->buffer, job->size, NULL, &err), &err);
    return bench_now() - start;
}

static double run_whole(void *ctx)
{
    const slice_job *job = ctx;
    coffer_error err;
    const double start = bench_now();
    bench_check(coffer_read(job->model, coffer_at(job->model, 0), job->buffer, job->size, NULL, &err), &err);
    return bench_now() - start;
}

static double run_pread(void *ctx)
{
    const slice_job *job = ctx;
    const double start = bench_now();
    if (pread(job->fd, job->buffer, job->size, (off_t)job->offset) != (ssize_t)job->size) {
        bench_die("pread", NULL);
    }
    return bench_now() - start;
}

static coffer *open_model(const char *path, coffer_access access)
{
    coffer_error err;
    coffer *model = NULL;
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.access = access;
    bench_check(coffer_open(&model, path, &options, &err), &err);
    return model;
}

int main(void)
{
    const size_t rows = bench_size(15625, 250);
    bench_need_disk(rows * COLUMNS * sizeof(float));
    const char *path = bench_path("slice.safetensors");
    coffer_header *header = bench_matrix(rows, COLUMNS);
    bench_write_full(path, header);
    coffer_header_free(header);
    coffer *reading = open_model(path, COFFER_READ);
    coffer *mapping = open_model(path, COFFER_MAP);
    const coffer_tensor *tensor = coffer_at(reading, 0);
    const size_t row_size = COLUMNS * sizeof(float);
    char *buffer = coffer_buffer_new(tensor->size);
    if (buffer == NULL) {
        bench_die("coffer_buffer_new", NULL);
    }
    memset(buffer, 1, tensor->size);
    char block[48];
    snprintf(block, sizeof block, "%zu:%zu", rows / 5, rows / 5 * 2);
    const size_t block_size = rows / 5 * row_size;

    slice_job whole = { reading, NULL, -1, 0, buffer, (size_t)tensor->size };
    slice_job columns = { reading, ":, 4000:4500", -1, 0, buffer, rows * 500 * sizeof(float) };
    slice_job columns_map = columns;
    slice_job some_rows = { reading, block, open(path, O_RDONLY), tensor->offset + block_size, buffer, block_size };
    columns_map.model = mapping;
    const bench_rival by_reads[2] = { { run_slice, &columns }, { run_whole, &whole } };
    const bench_rival by_map[2] = { { run_slice, &columns_map }, { run_whole, &whole } };
    const bench_rival of_rows[2] = { { run_slice, &some_rows }, { run_pread, &some_rows } };
    const size_t rounds = bench_size(15, 2);
    const bench_result reads = bench_contest(by_reads, 2, rounds);
    bench_row_of("1/32 of the columns of 1 GB, by reads", "ms", 1e3, &reads, "reading the whole tensor", 1,
                 "warm, into touched memory, not verified");
    const bench_result map = bench_contest(by_map, 2, rounds);
    bench_row_of("1/32 of the columns of 1 GB, from the map", "ms", 1e3, &map, "reading the whole tensor", 1,
                 "warm, into touched memory, not verified");
    const bench_result block_of_rows = bench_contest(of_rows, 2, rounds);
    bench_row_of("1/5 of the rows of 1 GB, by reads", "ms", 1e3, &block_of_rows, "1 thread, pread of the same", 1,
                 "warm, into touched memory, not verified");
    coffer_buffer_free(buffer, (size_t)tensor->size);
    coffer_close(reading);
    coffer_close(mapping);
    close(some_rows.fd);
    remove(path);
    return 0;
}
