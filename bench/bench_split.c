/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model of one file into ten and an index, and ten files into one, as `coffer split` and `coffer merge` do it, beside copying
 * the same bytes with cp: 1 GB in 720 tensors, as a model of several billions has them, and in 92,000. And the memory that both
 * take, for the most tensors.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPLIT_FILES 10u

typedef struct split_job {
    const char *from; /* one file, or an index */
    const char *to;   /* the model if it were one file */
    uint64_t size;
} split_job;

static coffer_header *declare_like(const coffer *model, coffer_copy *copies)
{
    coffer_header *header = NULL;
    coffer_error err;
    bench_check(coffer_header_new(&header, NULL, &err), &err);
    for (size_t i = 0; i < coffer_count(model); i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        bench_check(
            coffer_header_add(header, tensor->name, tensor->name_len, tensor->dtype, tensor->shape, tensor->rank, &err),
            &err);
        copies[i] = (coffer_copy){ i, model, tensor };
    }
    return header;
}

/* Removes a model of several files. */
static void remove_model(const char *path)
{
    char name[4096];
    for (unsigned i = 1; i <= SPLIT_FILES; i++) {
        snprintf(name, sizeof name, "%.*s-%05u-of-%05u.safetensors", (int)(strlen(path) - strlen(".safetensors")), path,
                 i, SPLIT_FILES);
        remove(name);
    }
    snprintf(name, sizeof name, "%s.index.json", path);
    remove(name);
}

static void split(const split_job *job)
{
    coffer *model = NULL;
    coffer_model_writer *writer = NULL;
    coffer_error err;
    coffer_model_writer_options options = COFFER_MODEL_WRITER_OPTIONS_INIT;
    options.max_shard_size = job->size / SPLIT_FILES;
    bench_check(coffer_open(&model, job->from, NULL, &err), &err);
    coffer_copy *copies = bench_alloc((coffer_count(model) + 1) * sizeof *copies);
    coffer_header *header = declare_like(model, copies);
    bench_check(coffer_model_writer_open(&writer, header, job->to, &options, &err), &err);
    bench_check(coffer_model_writer_copy(writer, copies, coffer_count(model), NULL, &err), &err);
    bench_check(coffer_model_writer_finish(writer, &err), &err);
    coffer_model_writer_free(writer);
    coffer_header_free(header);
    free(copies);
    coffer_close(model);
}

static void merge(const split_job *job)
{
    coffer *model = NULL;
    coffer_writer *writer = NULL;
    coffer_error err;
    bench_check(coffer_open(&model, job->from, NULL, &err), &err);
    coffer_copy *copies = bench_alloc((coffer_count(model) + 1) * sizeof *copies);
    coffer_header *header = declare_like(model, copies);
    bench_check(coffer_writer_open(&writer, header, job->to, NULL, &err), &err);
    bench_check(coffer_writer_copy(writer, copies, coffer_count(model), NULL, &err), &err);
    bench_check(coffer_writer_finish(writer, &err), &err);
    coffer_writer_free(writer);
    coffer_header_free(header);
    free(copies);
    coffer_close(model);
}

static double run_split(void *ctx)
{
    const split_job *job = ctx;
    const double start = bench_now();
    split(job);
    const double seconds = bench_now() - start;
    remove_model(job->to);
    return seconds;
}

static double run_merge(void *ctx)
{
    const split_job *job = ctx;
    const double start = bench_now();
    merge(job);
    const double seconds = bench_now() - start;
    remove(job->to);
    return seconds;
}

static double run_cp(void *ctx)
{
    const split_job *job = ctx;
    return bench_cp(job->from, job->to);
}

static void make_file(const char *path, size_t count, uint64_t size)
{
    coffer_header *header = NULL;
    coffer_error err;
    bench_check(coffer_header_new(&header, NULL, &err), &err);
    for (size_t i = 0; i < count; i++) {
        char name[32];
        const size_t name_len = (size_t)snprintf(name, sizeof name, "model.tensor.%06zu", i);
        bench_check(coffer_header_add(header, name, name_len, COFFER_U8, &size, 1, &err), &err);
    }
    bench_write_full(path, header);
    coffer_header_free(header);
}

/* What the files are called; bench_path keeps a few names only. */
static char whole[4096];
static char parts[4096];
static char parts_index[4096];
static char merged[4096];
static char copied[4096];

static void name_files(void)
{
    snprintf(whole, sizeof whole, "%s", bench_path("split-whole.safetensors"));
    snprintf(parts, sizeof parts, "%s", bench_path("split-parts.safetensors"));
    snprintf(parts_index, sizeof parts_index, "%s", bench_path("split-parts.safetensors.index.json"));
    snprintf(merged, sizeof merged, "%s", bench_path("split-merged.safetensors"));
    snprintf(copied, sizeof copied, "%s", bench_path("split-copied.safetensors"));
}

static void measure(const char *of, size_t count, uint64_t size)
{
    char name[64];
    make_file(whole, count, size / count);
    split_job apart = { whole, parts, size };
    split_job copy = { whole, copied, size };
    const bench_rival splitting[2] = { { run_split, &apart }, { run_cp, &copy } };
    bench_result result = bench_contest(splitting, 2, bench_size(7, 2));
    snprintf(name, sizeof name, "split %s into 10 files", of);
    bench_row_of(name, "GB/s", (double)size / 1e9, &result, "cp of the file", 1, "cached, not synced");
    split(&apart);
    split_job together = { parts_index, merged, size };
    const bench_rival merging[2] = { { run_merge, &together }, { run_cp, &copy } };
    result = bench_contest(merging, 2, bench_size(7, 2));
    snprintf(name, sizeof name, "merge %s of 10 files", of);
    bench_row_of(name, "GB/s", (double)size / 1e9, &result, "cp of the whole", 1, "cached, not synced");
    remove_model(parts);
}

static void measure_memory(const char *what, const char *order, const char *from, const char *to)
{
    double peak = 0;
    const double limit = 64 * (double)BENCH_MB;
    bench_fresh_process(NULL, order, from, to, &peak);
    bench_row(what, "MB", peak / BENCH_MB, "limit", limit / BENCH_MB, limit / peak, "fresh process, VmHWM");
}

/* In a fresh process: one of the two, and how much memory it took. */
static int run_order(const char *order, const char *from, const char *to)
{
    const split_job job = { from, to, bench_size(BENCH_GB, 8 * BENCH_MB) };
    if (strcmp(order, "split") == 0) {
        split(&job);
    } else {
        merge(&job);
    }
    printf("%.0f\n", bench_peak_memory());
    return 0;
}

int main(int argc, char **argv)
{
    bench_set_self(argv[0]);
    if (argc == 4) {
        return run_order(argv[1], argv[2], argv[3]);
    }
    const uint64_t size = bench_size(BENCH_GB, 8 * BENCH_MB);
    bench_need_disk(4 * size);
    name_files();
    measure("720 tensors", 720, size);
    measure("92,000 tensors", bench_size(92000, 920), size);
    measure_memory("memory to split 1 GB, 92,000 tensors", "split", whole, parts);
    measure_memory("memory to merge 1 GB, 92,000 tensors", "merge", parts_index, merged);
    remove_model(parts);
    remove(merged);
    remove(whole);
    return 0;
}
