/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rewriting a file, as aligning, renaming and leaving tensors out do, beside copying it with cp: 1 GB in one tensor, and in
 * 92,000 small ones, first in the order of the file and then in the opposite one, where none has its neighbour beside it.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct copy_job {
    const char *from;
    const char *to;
    bool turned; /* names are given to the tensors from the last to the first */
} copy_job;

static size_t name_of(size_t i, char name[32])
{
    return (size_t)snprintf(name, 32, "model.tensor.%06zu", i);
}

/* Declares the tensors of the model, which become tensor 0, 1, 2… */
static coffer_header *declare_like(const coffer *model, bool turned, coffer_copy *copies)
{
    coffer_header *header = NULL;
    coffer_error err;
    const size_t count = coffer_count(model);
    bench_check(coffer_header_new(&header, NULL, &err), &err);
    for (size_t i = 0; i < count; i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        char name[32];
        const size_t name_len = name_of(turned ? count - 1 - i : i, name);
        bench_check(coffer_header_add(header, name, name_len, tensor->dtype, tensor->shape, tensor->rank, &err), &err);
        copies[i] = (coffer_copy){ i, model, tensor };
    }
    return header;
}

static double run_copy(void *ctx)
{
    const copy_job *job = ctx;
    coffer *model = NULL;
    coffer_writer *writer = NULL;
    coffer_error err;
    coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    options.slack = 8; /* so that the data begin elsewhere than in the source, and no blocks can be shared */
    const double start = bench_now();
    bench_check(coffer_open(&model, job->from, NULL, &err), &err);
    coffer_copy *copies = bench_alloc((coffer_count(model) + 1) * sizeof *copies);
    coffer_header *header = declare_like(model, job->turned, copies);
    bench_check(coffer_writer_open(&writer, header, job->to, &options, &err), &err);
    bench_check(coffer_writer_copy(writer, copies, coffer_count(model), NULL, &err), &err);
    bench_check(coffer_writer_finish(writer, &err), &err);
    coffer_writer_free(writer);
    coffer_header_free(header);
    free(copies);
    coffer_close(model);
    const double seconds = bench_now() - start;
    remove(job->to);
    return seconds;
}

static double run_cp(void *ctx)
{
    const copy_job *job = ctx;
    return bench_cp(job->from, job->to);
}

/* `count` tensors, every other one a small one. */
static void make_file(const char *path, size_t count, uint64_t large)
{
    coffer_header *header = NULL;
    coffer_error err;
    bench_check(coffer_header_new(&header, NULL, &err), &err);
    for (size_t i = 0; i < count; i++) {
        char name[32];
        const uint64_t size = i % 2 == 0 ? large : 512;
        bench_check(coffer_header_add(header, name, name_of(i, name), COFFER_U8, &size, 1, &err), &err);
    }
    bench_write_full(path, header);
    coffer_header_free(header);
}

static void measure(const char *what, copy_job *job)
{
    const bench_rival rivals[2] = { { run_copy, job }, { run_cp, job } };
    const double size = (double)bench_size(BENCH_GB, 8 * BENCH_MB);
    const bench_result result = bench_contest(rivals, 2, bench_size(7, 2));
    bench_row_of(what, "GB/s", size / 1e9, &result, "cp of the file", 1, "cached, not synced");
}

int main(void)
{
    const uint64_t size = bench_size(BENCH_GB, 8 * BENCH_MB);
    const size_t many = bench_size(92000, 920);
    bench_need_disk(3 * size);
    copy_job job = { bench_path("copy-source.safetensors"), bench_path("copy.safetensors"), false };
    make_file(job.from, 1, size);
    measure("copy 1 tensor into a new file", &job);
    make_file(job.from, many, 2 * size / many - 512);
    measure("copy 92,000 tensors, in their order", &job);
    job.turned = true;
    measure("copy 92,000 tensors, in the opposite order", &job);
    remove(job.from);
    return 0;
}
