/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantised layers that are decoded to BF16 by one thread and written to a file, which is in the page cache as what is read is:
 * bytes of BF16 in a second, beside memcpy of as many bytes in memory. The layers are square, as those of models are.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIDE 4096u
#define PARTS 4

/* A tensor of a layer, of `rows` by `columns`; 0 columns: of `rows` elements. */
typedef struct layer_part {
    const char *ending;
    coffer_dtype dtype;
    uint64_t rows;
    uint64_t columns;
} layer_part;

typedef struct layer_kind {
    const char *name;
    const char *config;
    layer_part parts[PARTS];
} layer_kind;

static const layer_kind KINDS[] = {
    { "FP8 blocks", "{}", { { "weight", COFFER_F8_E4M3, SIDE, SIDE }, { "weight_scale_inv", COFFER_F32, 32, 32 } } },
    { "FP8 rows",
      "{\"quantization_config\": {\"quant_method\": \"compressed-tensors\"}}",
      { { "weight", COFFER_F8_E4M3, SIDE, SIDE }, { "weight_scale", COFFER_BF16, SIDE, 1 } } },
    { "MXFP4",
      "{}",
      { { "weight_packed", COFFER_U8, SIDE, SIDE / 2 }, { "weight_scale", COFFER_U8, SIDE, SIDE / 32 } } },
    { "MLX, 4 bits",
      "{\"quantization\": {\"bits\": 4, \"group_size\": 64}}",
      { { "weight", COFFER_U32, SIDE, SIDE / 8 },
        { "scales", COFFER_BF16, SIDE, SIDE / 64 },
        { "biases", COFFER_BF16, SIDE, SIDE / 64 } } },
    { "GPTQ, 4 bits",
      "{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 128}}",
      { { "qweight", COFFER_I32, SIDE / 8, SIDE },
        { "qzeros", COFFER_I32, SIDE / 128, SIDE / 8 },
        { "scales", COFFER_BF16, SIDE / 128, SIDE } } },
    { "AWQ",
      "{\"quantization_config\": {\"quant_method\": \"awq\", \"bits\": 4, \"group_size\": 128}}",
      { { "qweight", COFFER_I32, SIDE, SIDE / 8 },
        { "qzeros", COFFER_I32, SIDE / 128, SIDE / 8 },
        { "scales", COFFER_BF16, SIDE / 128, SIDE } } },
};

typedef struct layer_job {
    const layer_kind *kind;
    coffer *model;
    const char *output;
    char *memory[2];
    size_t size; /* of what is written */
} layer_job;

/* All bytes are 0x33: codes and scales of moderate size in every dtype. */
static void write_layers(const layer_kind *kind, const char *path, size_t layers)
{
    coffer_header *header = NULL;
    coffer_writer *writer = NULL;
    coffer_error err;
    bench_check(coffer_header_new(&header, NULL, &err), &err);
    for (size_t i = 0; i < layers * PARTS; i++) {
        char name[64];
        const layer_part *part = &kind->parts[i % PARTS];
        const uint64_t shape[] = { part->rows, part->columns };
        if (part->ending == NULL) {
            continue;
        }
        const int len = snprintf(name, sizeof name, "layers.%zu.up.%s", i / PARTS, part->ending);
        bench_check(coffer_header_add(header, name, (size_t)len, part->dtype, shape, 2, &err), &err);
    }
    bench_check(coffer_writer_open(&writer, header, path, NULL, &err), &err);
    for (size_t i = 0; i < coffer_header_count(header); i++) {
        const size_t size = (size_t)coffer_header_at(header, i)->size;
        uint8_t *bytes = bench_alloc(size);
        memset(bytes, 0x33, size);
        bench_check(coffer_writer_write(writer, i, 0, bytes, size, &err), &err);
        free(bytes);
    }
    bench_check(coffer_writer_finish(writer, &err), &err);
    coffer_writer_free(writer);
    coffer_header_free(header);
}

static double run_dequantize(void *ctx)
{
    const layer_job *job = ctx;
    coffer_error err;
    coffer_rewrite *rewrite = NULL;
    coffer_dequantize_options options = COFFER_DEQUANTIZE_OPTIONS_INIT;
    coffer_rewrite_options where = COFFER_REWRITE_OPTIONS_INIT;
    coffer_read_options how = COFFER_READ_OPTIONS_INIT;
    options.dtype = COFFER_BF16;
    options.config = job->kind->config;
    options.config_len = strlen(job->kind->config);
    where.output = job->output;
    where.sync = COFFER_SYNC_NEVER;
    how.threads = 1;
    remove(job->output);
    const double start = bench_now();
    bench_check(coffer_dequantize_plan(&rewrite, job->model, &options, &where, &err), &err);
    bench_check(coffer_rewrite_run(rewrite, &how, &err), &err);
    coffer_rewrite_free(rewrite);
    return bench_now() - start;
}

static double run_memcpy(void *ctx)
{
    const layer_job *job = ctx;
    const double start = bench_now();
    memcpy(job->memory[1], job->memory[0], job->size);
    return bench_now() - start;
}

static void measure(const layer_kind *kind, size_t layers)
{
    char name[96];
    coffer_error err;
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    const char *input = bench_path("quantised.safetensors");
    layer_job job = { .kind = kind,
                      .output = bench_path("plain.safetensors"),
                      .size = layers * SIDE * (size_t)SIDE * 2 };
    write_layers(kind, input, layers);
    options.access = COFFER_READ;
    bench_check(coffer_open(&job.model, input, &options, &err), &err);
    for (size_t i = 0; i < 2; i++) {
        job.memory[i] = coffer_buffer_new(job.size);
        if (job.memory[i] == NULL) {
            bench_die("no memory", NULL);
        }
        memset(job.memory[i], (int)i, job.size);
    }
    const bench_rival rivals[] = { { run_dequantize, &job }, { run_memcpy, &job } };
    const bench_result result = bench_contest(rivals, 2, bench_size(7, 1));
    snprintf(name, sizeof name, "dequantize %s to BF16", kind->name);
    bench_row_of(name, "GB/s", (double)job.size / BENCH_GB, &result, "memcpy", 1, "page cache");
    for (size_t i = 0; i < 2; i++) {
        coffer_buffer_free(job.memory[i], job.size);
    }
    coffer_close(job.model);
    remove(job.output);
    remove(input);
}

int main(void)
{
    const size_t layers = bench_size(8, 1);
    bench_need_disk(2 * layers * SIDE * SIDE * 2);
    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++) {
        measure(&KINDS[i], layers);
    }
    return 0;
}
