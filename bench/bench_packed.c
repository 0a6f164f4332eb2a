/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packed files: what they take of the original, how fast they are packed and read by one thread, beside memcpy of the
 * original's bytes in memory, and beside reading the plain file from the page cache. The numbers are normal, with a
 * scale for each row, as those of weights are.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PACKED_ROW 4096u

typedef struct packed_job {
    coffer *plain;
    coffer *packed;
    const char *output; /* of packing */
    void *memory;
    void *copy;
    size_t size; /* of the tensor */
} packed_job;

static uint64_t state = UINT64_C(88172645463325252);

static double next_uniform(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) / 9007199254740992.0;
}

/* The sum of twelve, less six: near enough to normal. */
static double next_normal(void)
{
    double sum = -6.0;
    for (unsigned i = 0; i < 12; i++) {
        sum += next_uniform();
    }
    return sum;
}

/* A file of one tensor. FP8 is scaled to the range of its dtype. */
static void write_file(const char *path, coffer_dtype dtype, size_t count)
{
    const uint64_t shape[] = { count / PACKED_ROW, PACKED_ROW };
    const size_t element = coffer_dtype_bits(dtype) / 8;
    const double range = dtype == COFFER_F8_E5M2 ? 4000.0 : 1.0;
    double *values = bench_alloc(PACKED_ROW * sizeof *values);
    uint8_t *row = bench_alloc(PACKED_ROW * element);
    coffer_header *header = NULL;
    coffer_writer *writer = NULL;
    coffer_error err;
    bench_check(coffer_header_new(&header, NULL, &err), &err);
    bench_check(coffer_header_add(header, "weight", 6, dtype, shape, 2, &err), &err);
    bench_check(coffer_writer_open(&writer, header, path, NULL, &err), &err);
    for (size_t i = 0; i < count / PACKED_ROW; i++) {
        const double scale = 0.01 * range * (1.0 + next_uniform() + next_uniform());
        for (size_t k = 0; k < PACKED_ROW; k++) {
            values[k] = next_normal() * scale;
        }
        bench_check(coffer_encode(dtype, values, PACKED_ROW, row), NULL);
        bench_check(coffer_writer_write(writer, 0, i * PACKED_ROW * element, row, PACKED_ROW * element, &err), &err);
    }
    bench_check(coffer_writer_finish(writer, &err), &err);
    coffer_writer_free(writer);
    coffer_header_free(header);
    free(values);
    free(row);
}

static double run_read(const coffer *model, const packed_job *job)
{
    coffer_error err;
    coffer_read_options options = COFFER_READ_OPTIONS_INIT;
    options.threads = 1;
    const double start = bench_now();
    bench_check(coffer_read(model, coffer_at(model, 0), job->memory, job->size, &options, &err), &err);
    return bench_now() - start;
}

static double run_packed(void *ctx)
{
    const packed_job *job = ctx;
    return run_read(job->packed, job);
}

static double run_plain(void *ctx)
{
    const packed_job *job = ctx;
    return run_read(job->plain, job);
}

static double run_memcpy(void *ctx)
{
    const packed_job *job = ctx;
    const double start = bench_now();
    memcpy(job->copy, job->memory, job->size);
    return bench_now() - start;
}

static double run_pack(void *ctx)
{
    const packed_job *job = ctx;
    coffer_error err;
    coffer_pack_options options = COFFER_PACK_OPTIONS_INIT;
    options.threads = 1;
    options.sync = COFFER_SYNC_NEVER;
    const double start = bench_now();
    bench_check(coffer_pack_shard(job->plain, 0, job->output, &options, NULL, &err), &err);
    return bench_now() - start;
}

static coffer *open_file(const char *path)
{
    coffer *model = NULL;
    coffer_error err;
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.access = COFFER_READ;
    bench_check(coffer_open(&model, path, &options, &err), &err);
    return model;
}

static void measure(coffer_dtype dtype, size_t size)
{
    char name[64];
    coffer_error err;
    coffer_pack_result sizes;
    const char *plain = bench_path("plain.safetensors");
    const char *packed = bench_path("packed.safetensors");
    write_file(plain, dtype, size / (coffer_dtype_bits(dtype) / 8));
    packed_job job = { .plain = open_file(plain), .output = packed };
    bench_check(coffer_pack_shard(job.plain, 0, packed, NULL, &sizes, &err), &err);
    job.packed = open_file(packed);
    job.size = (size_t)coffer_at(job.plain, 0)->size;
    job.memory = coffer_buffer_new(job.size);
    job.copy = coffer_buffer_new(job.size);
    if (job.memory == NULL || job.copy == NULL) {
        bench_die("no memory", NULL);
    }
    const bench_rival rivals[] = { { run_packed, &job }, { run_memcpy, &job }, { run_plain, &job } };
    const bench_result read = bench_contest(rivals, 3, bench_size(9, 3));
    const double gigabytes = (double)job.size / BENCH_GB;
    snprintf(name, sizeof name, "packed %s: original to packed size", coffer_dtype_name(dtype));
    bench_row(name, "x", (double)sizes.original_size / (double)sizes.packed_size, NULL, 0, 0, "one tensor");
    snprintf(name, sizeof name, "read packed %s", coffer_dtype_name(dtype));
    bench_row_of(name, "GB/s", gigabytes, &read, "memcpy", 1, "one thread, verified");
    bench_row_of(name, "GB/s", gigabytes, &read, "the plain file", 2, "one thread, cached, verified");
    const bench_rival packers[] = { { run_pack, &job }, { run_plain, &job } };
    const bench_result pack = bench_contest(packers, 2, 3);
    snprintf(name, sizeof name, "pack %s", coffer_dtype_name(dtype));
    bench_row_of(name, "GB/s", gigabytes, &pack, "reading it", 1, "one thread, with SHA-256 and comparing");
    coffer_buffer_free(job.memory, job.size);
    coffer_buffer_free(job.copy, job.size);
    coffer_close(job.plain);
    coffer_close(job.packed);
    (void)remove(plain);
    (void)remove(packed);
}

int main(void)
{
    const size_t size = bench_size((size_t)256 << 20, (size_t)1 << 20);
    bench_need_disk(2 * size);
    measure(COFFER_BF16, size);
    measure(COFFER_F32, size);
    measure(COFFER_F16, size);
    measure(COFFER_F8_E5M2, size);
    return 0;
}
