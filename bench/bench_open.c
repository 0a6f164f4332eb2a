/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a file. In a fresh process, its start included: open, find, first byte, beside a bare open, mmap and touch of the
 * same byte by the same program. In a running process: open, count and close, beside the reference's safe_open and keys.
 */
#include "bench.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char tensor_name[] = "wte.weight";

/* ---- what the fresh processes do ---- */

static int touch_ours(const char *path)
{
    coffer_error err;
    coffer *model = NULL;
    bench_check(coffer_open(&model, path, NULL, &err), &err);
    const coffer_tensor *tensor = coffer_find(model, tensor_name, strlen(tensor_name));
    const unsigned char *data = tensor != NULL ? coffer_data(model, tensor, &err) : NULL;
    if (data == NULL) {
        bench_die(path, &err);
    }
    printf("%d\n", data[0]);
    coffer_close(model);
    return 0;
}

static int touch_bare(const char *path, const char *offset)
{
    struct stat info;
    const int fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &info) != 0) {
        bench_die(path, NULL);
    }
    unsigned char *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
        bench_die(path, NULL);
    }
    printf("%d\n", data[strtoull(offset, NULL, 10)]);
    munmap(data, (size_t)info.st_size);
    close(fd);
    return 0;
}

/* ---- the rivals ---- */

typedef struct fresh_process {
    const char *arguments[4]; /* the first is the program; NULL: this one */
} fresh_process;

static double run_process(void *ctx)
{
    const fresh_process *process = ctx;
    const char *const *arguments = process->arguments;
    return bench_fresh_process(arguments[0], arguments[1], arguments[2], arguments[3], NULL);
}

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

static double run_reference(void *ctx)
{
    const open_file *file = ctx;
    return bench_reference_run(file->reference, "open", file->path, file->repeats);
}

/* ---- rows ---- */

static void measure_processes(const char *command)
{
    const char *path = bench_path("open.safetensors");
    coffer_header *header = bench_model(BENCH_GPT2);
    bench_write_sparse(path, header);
    uint64_t size = 0;
    const coffer_table *table = NULL;
    bench_build(header, &size, &table);
    const coffer_tensor *tensor = coffer_table_find(table, tensor_name, sizeof tensor_name - 1);
    char offset[24];
    char element[] = "wte.weight[0, 0]";
    snprintf(offset, sizeof offset, "%llu", (unsigned long long)tensor->offset);
    fresh_process ours = { { NULL, "ours", path, NULL } };
    fresh_process bare = { { NULL, "bare", path, offset } };
    fresh_process get = { { command, "get", path, element } };
    const bench_rival library[2] = { { run_process, &ours }, { run_process, &bare } };
    const bench_rival commands[2] = { { run_process, &get }, { run_process, &bare } };
    const size_t rounds = bench_size(301, 3);
    const bench_result by_library = bench_contest(library, 2, rounds);
    bench_row_of("open + find + first byte, 500 MB: library", "ms", 1e3, &by_library, "open + mmap + touch", 1,
                 "fresh process, file in cache, header verified");
    if (access(command, X_OK) == 0) {
        const bench_result by_command = bench_contest(commands, 2, rounds);
        bench_row_of("one element of 500 MB: coffer get", "ms", 1e3, &by_command, "open + mmap + touch", 1,
                     "fresh process, file in cache, header verified");
    }
    coffer_header_free(header);
    remove(path);
}

static void measure_opens(bench_shape shape, bench_reference *reference)
{
    static const size_t repeats[BENCH_SHAPES] = { 100, 20, 1 };
    const char *path = bench_path("open.safetensors");
    coffer_header *header = bench_model(shape);
    bench_write_sparse(path, header);
    coffer_header_free(header);
    open_file file = { path, bench_size(repeats[shape], 1), reference };
    const bench_rival rivals[2] = { { run_open, &file }, { run_reference, &file } };
    const bench_result result = bench_contest(rivals, reference != NULL ? 2 : 1, bench_size(21, 2));
    char name[96];
    snprintf(name, sizeof name, "open file: %s", bench_shape_name(shape));
    bench_row_of(name, "us", 1e6, &result, reference != NULL ? "reference: safe_open, keys" : NULL, 1,
                 "warm, header verified");
    remove(path);
}

int main(int argc, char **argv)
{
    bench_set_self(argv[0]);
    if (argc == 3 && strcmp(argv[1], "ours") == 0) {
        return touch_ours(argv[2]);
    }
    if (argc == 4 && strcmp(argv[1], "bare") == 0) {
        return touch_bare(argv[2], argv[3]);
    }
    /* The command lies one folder above the benchmarks. */
    char command[4096];
    const char *slash = strrchr(argv[0], '/');
    snprintf(command, sizeof command, "%.*s../coffer", slash != NULL ? (int)(slash - argv[0]) + 1 : 0, argv[0]);
    measure_processes(command);
    bench_reference *reference = bench_reference_new();
    for (int shape = 0; shape < BENCH_SHAPES; shape++) {
        measure_opens((bench_shape)shape, reference);
    }
    bench_reference_free(reference);
    return 0;
}
