/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command as people and scripts start it, in fresh processes with their start included: `coffer ls` of a file of 92,000
 * tensors into a pipe, beside ten lines of Python with the reference implementation that print the same, and `coffer
 * --version` beside `true`, which does nothing.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct cli_process {
    const char *arguments[4]; /* the first is the program */
} cli_process;

static double run_cli_process(void *ctx)
{
    const cli_process *process = ctx;
    const char *const *arguments = process->arguments;
    return bench_fresh_process(arguments[0], arguments[1], arguments[2], arguments[3], NULL);
}

static void measure_start(const char *command)
{
    const char *const places[] = { "/bin/true", "/usr/bin/true" };
    const char *nothing = access(places[0], X_OK) == 0 ? places[0] : places[1];
    cli_process version = { { command, "--version", NULL, NULL } };
    cli_process empty = { { nothing, "x", NULL, NULL } };
    const bench_rival rivals[2] = { { run_cli_process, &version }, { run_cli_process, &empty } };
    const bench_result result = bench_contest(rivals, 2, bench_size(301, 3));
    bench_row_of("start: coffer --version", "ms", 1e3, &result, "true", 1, "fresh process");
}

/* The Python program lies beside the one that COFFER_BENCH_REFERENCE names. */
static void list_script(char *path, size_t size)
{
    const char *reference = getenv("COFFER_BENCH_REFERENCE");
    const char *slash = reference != NULL ? strrchr(reference, '/') : NULL;
    snprintf(path, size, "%.*s/list_reference.py", slash != NULL ? (int)(slash - reference) : 0,
             slash != NULL ? reference : "");
}

static void measure_list(const char *command)
{
    const char *python = getenv("COFFER_BENCH_PYTHON");
    const char *path = bench_path("list.safetensors");
    char script[4096];
    list_script(script, sizeof script);
    coffer_header *header = bench_model(BENCH_EXPERTS);
    bench_write_sparse(path, header);
    coffer_header_free(header);
    cli_process ours = { { command, "ls", path, NULL } };
    cli_process theirs = { { python, script, path, NULL } };
    const bench_rival rivals[2] = { { run_cli_process, &ours }, { run_cli_process, &theirs } };
    const size_t count = python != NULL && access(script, R_OK) == 0 ? 2 : 1;
    const bench_result result = bench_contest(rivals, count, bench_size(11, 1));
    bench_row_of("coffer ls: experts, 92,000 tensors", "ms", 1e3, &result,
                 count == 2 ? "reference: a script of ten lines" : NULL, 1, "fresh process, into a pipe");
    remove(path);
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
    return 0;
}
