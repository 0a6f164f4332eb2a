/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command as people and scripts start it, in fresh processes with their start included: `coffer ls` of a file of 92,000
 * tensors into a pipe, beside ten lines of Python with the reference implementation that print the same, `coffer diff
 * --summary` of two models, beside as many with numpy, `coffer doctor --data` of a folder, beside `sha256sum` of its files,
 * and `coffer --version` beside `true`, which does nothing.
 */
#include "bench.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DOCTOR_FILES 10 /* of half a gigabyte each */

typedef struct cli_process {
    const char *arguments[DOCTOR_FILES + 2]; /* the first is the program; NULL closes them */
} cli_process;

static double run_cli_process(void *ctx)
{
    const cli_process *process = ctx;
    return bench_fresh_command(process->arguments, NULL);
}

static void measure_start(const char *command)
{
    const char *const places[] = { "/bin/true", "/usr/bin/true" };
    const char *nothing = access(places[0], X_OK) == 0 ? places[0] : places[1];
    cli_process version = { { command, "--version" } };
    cli_process empty = { { nothing, "x" } };
    const bench_rival rivals[2] = { { run_cli_process, &version }, { run_cli_process, &empty } };
    const bench_result result = bench_contest(rivals, 2, bench_size(301, 3));
    bench_row_of("start: coffer --version", "ms", 1e3, &result, "true", 1, "fresh process");
}

/* Ours beside a Python program that does the same with one or two files. It lies beside the one that COFFER_BENCH_REFERENCE
   names; without it, ours is measured alone. */
static void measure_beside(const char *name, const cli_process *ours, const char *script, const char *other,
                           const char *const *files, size_t rounds, const char *state)
{
    const char *python = getenv("COFFER_BENCH_PYTHON");
    const char *reference = getenv("COFFER_BENCH_REFERENCE");
    const char *slash = reference != NULL ? strrchr(reference, '/') : NULL;
    char path[4096];
    snprintf(path, sizeof path, "%.*s/%s", slash != NULL ? (int)(slash - reference) : 0, slash != NULL ? reference : "",
             script);
    cli_process own = *ours;
    cli_process theirs = { { python, path, files[0], files[1] } };
    const bench_rival rivals[2] = { { run_cli_process, &own }, { run_cli_process, &theirs } };
    const size_t count = python != NULL && access(path, R_OK) == 0 ? 2 : 1;
    const bench_result result = bench_contest(rivals, count, rounds);
    bench_row_of(name, "ms", 1e3, &result, count == 2 ? other : NULL, 1, state);
}

static void measure_list(const char *command)
{
    const char *const files[2] = { bench_path("list.safetensors"), NULL };
    const cli_process ours = { { command, "ls", files[0] } };
    coffer_header *header = bench_model(BENCH_EXPERTS);
    bench_write_sparse(files[0], header);
    coffer_header_free(header);
    measure_beside("coffer ls: experts, 92,000 tensors", &ours, "list_reference.py", "reference: a script of ten lines",
                   files, bench_size(11, 1), "fresh process, into a pipe");
    remove(files[0]);
}

/* GPT-2 with numbers like weights: all finite, and other ones for another salt. */
static void write_weights(const char *path, uint32_t salt)
{
    enum { PIECE = 1 << 18 };
    float *numbers = bench_alloc(PIECE * sizeof *numbers);
    coffer_header *header = bench_model(BENCH_GPT2);
    uint64_t start = 0;
    const coffer_table *table = NULL;
    bench_build(header, &start, &table);
    const uint64_t size = start + coffer_table_data_size(table);
    bench_write_sparse(path, header);
    const int fd = open(path, O_WRONLY);
    for (uint64_t at = start; at < size; at += PIECE * sizeof *numbers) {
        const uint64_t left = size - at;
        for (uint32_t i = 0; i < PIECE; i++) {
            numbers[i] = (float)((int)((i + salt) * UINT32_C(2654435769) >> 8) - (1 << 23)) * 1e-9F;
        }
        const size_t length = left < PIECE * sizeof *numbers ? (size_t)left : PIECE * sizeof *numbers;
        if (fd < 0 || pwrite(fd, numbers, length, (off_t)at) != (ssize_t)length) {
            bench_die(path, NULL);
        }
    }
    close(fd);
    coffer_header_free(header);
    free(numbers);
}

static void measure_diff(const char *command)
{
    char before[4096];
    char after[4096];
    snprintf(before, sizeof before, "%s", bench_path("diff-before.safetensors"));
    snprintf(after, sizeof after, "%s", bench_path("diff-after.safetensors"));
    const char *const files[2] = { before, after };
    /* A threshold that they keep, so that its exit code is not that of files that differ. */
    const cli_process ours = { { command, "diff", "--summary", "-q", "--threshold=100", before, after } };
    write_weights(before, 0);
    write_weights(after, 1);
    measure_beside("coffer diff --summary: GPT-2, 500 MB each", &ours, "diff_reference.py", "a script with numpy",
                   files, bench_size(5, 1), "fresh process, cached");
    remove(before);
    remove(after);
}

/* Every number of a folder is looked at, beside a digest of its files, which reads as much and looks at nothing. */
static void measure_doctor(const char *command)
{
    char paths[DOCTOR_FILES][4096];
    char folder[4096];
    const size_t count = bench_size(DOCTOR_FILES, 1);
    const char *const places[] = { "/usr/bin/sha256sum", "/bin/sha256sum" };
    cli_process sums = { { access(places[0], X_OK) == 0 ? places[0] : places[1] } };
    snprintf(folder, sizeof folder, "%s", bench_path("doctor"));
    cli_process ours = { { command, "doctor", "-q", "--data", folder } };
    cli_process headers = { { command, "doctor", "-q", folder } };
    bench_need_disk(count * 550 * BENCH_MB);
    (void)mkdir(folder, 0777);
    for (size_t i = 0; i < count; i++) {
        char name[64];
        snprintf(name, sizeof name, "doctor/weights-%zu.safetensors", i);
        snprintf(paths[i], sizeof paths[i], "%s", bench_path(name));
        write_weights(paths[i], (uint32_t)i);
        sums.arguments[i + 1] = paths[i];
    }
    const bench_rival rivals[2] = { { run_cli_process, &ours }, { run_cli_process, &sums } };
    const bench_result data = bench_contest(rivals, access(sums.arguments[0], X_OK) == 0 ? 2 : 1, bench_size(3, 1));
    bench_row_of("coffer doctor --data: a folder of 5 GB", "s", 1, &data, "sha256sum", 1, "fresh process");
    const bench_rival alone[1] = { { run_cli_process, &headers } };
    const bench_result header = bench_contest(alone, 1, bench_size(11, 1));
    bench_row_of("coffer doctor: the same, headers only", "ms", 1e3, &header, NULL, 1, "fresh process");
    for (size_t i = 0; i < count; i++) {
        remove(paths[i]);
    }
    rmdir(folder);
}

int main(int argc, char **argv)
{
    (void)argc;
    char command[4096];
    const char *slash = strrchr(argv[0], '/');
    /* The command lies one folder above the benchmarks. */
    snprintf(command, sizeof command, "%.*s../coffer", slash != NULL ? (int)(slash - argv[0]) + 1 : 0, argv[0]);
    if (access(command, X_OK) != 0) {
        bench_note("the command line is left out: it was not built");
        return 0;
    }
    measure_start(command);
    measure_list(command);
    measure_diff(command);
    measure_doctor(command);
    return 0;
}
