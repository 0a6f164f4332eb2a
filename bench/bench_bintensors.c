/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The binary header against the text: bintensors exists because its header is read faster than JSON. Our two readers beside
 * each other, with the same tensors; and opening a file by ours, of either format, beside the Rust package's opening of bintensors.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the two readers ---- */

typedef struct header_bytes {
    const void *bytes;
    uint64_t size;
    size_t count;
    size_t repeats;
} header_bytes;

static double run_parse(void *ctx)
{
    const header_bytes *header = ctx;
    coffer_error err;
    const double start = bench_now();
    for (size_t i = 0; i < header->repeats; i++) {
        coffer_table *table = NULL;
        bench_check(
            coffer_parse(&table, NULL, header->bytes, (size_t)header->size, coffer_libc_allocator(), NULL, &err), &err);
        if (coffer_table_count(table) != header->count) {
            bench_die("coffer_parse counts otherwise", NULL);
        }
        coffer_table_free(table);
    }
    return (bench_now() - start) / (double)header->repeats;
}

/* A model's header, built in a format. */
static coffer_header *build_as(bench_shape shape, coffer_format format)
{
    coffer_error err;
    coffer_header *header = bench_model(shape);
    coffer_header_options options = COFFER_HEADER_OPTIONS_INIT;
    options.format = format;
    bench_check(coffer_header_build(header, &options, NULL, NULL, NULL, &err), &err);
    return header;
}

static header_bytes bytes_of(coffer_header *header)
{
    const coffer_table *table = NULL;
    header_bytes bytes = { NULL, 0, coffer_header_count(header),
                           bench_size(1 + 200000 / coffer_header_count(header), 1) };
    bytes.bytes = bench_build(header, &bytes.size, &table);
    return bytes;
}

static void measure_readers(bench_shape shape, coffer_header *binary, coffer_header *text)
{
    header_bytes headers[2] = { bytes_of(binary), bytes_of(text) };
    const bench_rival rivals[2] = { { run_parse, &headers[0] }, { run_parse, &headers[1] } };
    const bench_result result = bench_contest(rivals, 2, bench_size(41, 2));
    const double to_ns = 1e9 / (double)headers[0].count;
    char name[128];
    snprintf(name, sizeof name, "header of bintensors: %s", bench_shape_name(shape));
    bench_row(name, "ns/tensor", result.median[0] * to_ns, "ours, of safetensors", result.median[1] * to_ns,
              result.ratio[1], "warm, validated and indexed");
}

/* ---- opening ---- */

typedef struct open_file {
    const char *path;
    size_t repeats;
    bench_reference *reference;
} open_file;

static double run_open(void *ctx)
{
    const open_file *file = ctx;
    return bench_open_time(file->path, file->repeats);
}

static double run_package(void *ctx)
{
    const open_file *file = ctx;
    return bench_reference_run(file->reference, "open-bintensors", file->path, file->repeats);
}

static void measure_opens(bench_shape shape, bench_reference *reference, coffer_header *binary, coffer_header *text)
{
    static const size_t repeats[BENCH_SHAPES] = { 100, 20, 1 };
    char binary_path[1024];
    char text_path[1024];
    snprintf(binary_path, sizeof binary_path, "%s", bench_path("open.bt"));
    snprintf(text_path, sizeof text_path, "%s", bench_path("open.safetensors"));
    bench_write_sparse(binary_path, binary);
    bench_write_sparse(text_path, text);
    const size_t each = bench_size(repeats[shape], 1);
    open_file files[2] = { { text_path, each, reference }, { binary_path, each, reference } };
    const bench_rival rivals[3] = { { run_open, &files[0] }, { run_package, &files[1] }, { run_open, &files[1] } };
    const char *package = reference != NULL ? "the package: safe_open of bintensors, keys" : NULL;
    char name[128];
    for (size_t i = 0; i < 2; i++) {
        const bench_rival pair[2] = { rivals[2 * i], rivals[1] };
        const bench_result result = bench_contest(pair, reference != NULL ? 2 : 1, bench_size(21, 2));
        snprintf(name, sizeof name, "open %s: %s", i == 0 ? "safetensors" : "bintensors", bench_shape_name(shape));
        bench_row_of(name, "us", 1e6, &result, package, 1, "warm, header verified; ours in C, the package in Python");
    }
    remove(binary_path);
    remove(text_path);
}

int main(int argc, char **argv)
{
    (void)argc;
    bench_set_self(argv[0]);
    bench_reference *reference = bench_reference_new();
    for (int shape = 0; shape < BENCH_SHAPES; shape++) {
        coffer_header *binary = build_as((bench_shape)shape, COFFER_FORMAT_BINTENSORS);
        coffer_header *text = build_as((bench_shape)shape, COFFER_FORMAT_SAFETENSORS);
        measure_readers((bench_shape)shape, binary, text);
        measure_opens((bench_shape)shape, reference, binary, text);
        coffer_header_free(binary);
        coffer_header_free(text);
    }
    bench_reference_free(reference);
    return 0;
}
