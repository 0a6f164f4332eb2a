/* SPDX-License-Identifier: Apache-2.0 */
/* What the benchmarks share, the headers of models apart; bench.h says what. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- the run ---- */

bool bench_is_quick(void)
{
    const char *quick = getenv("COFFER_BENCH_QUICK");
    return quick != NULL && strcmp(quick, "1") == 0;
}

size_t bench_size(size_t full, size_t quick)
{
    return bench_is_quick() ? quick : full;
}

void bench_die(const char *what, const coffer_error *err)
{
    fprintf(stderr, "%s: %s\n", what, err != NULL && err->message[0] != '\0' ? err->message : strerror(errno));
    exit(1);
}

void bench_check(coffer_status status, const coffer_error *err)
{
    if (status != COFFER_OK) {
        bench_die(coffer_status_name(status), err);
    }
}

void *bench_alloc(size_t size)
{
    void *block = malloc(size);
    if (block == NULL) {
        bench_die("malloc", NULL);
    }
    return block;
}

static const char *bench_folder(void)
{
    const char *folder = getenv("COFFER_BENCH_DIR");
    return folder != NULL && folder[0] != '\0' ? folder : "build/bench/data";
}

/* Makes a folder and those above it. */
static void bench_make_folder(const char *folder)
{
    char part[4096];
    snprintf(part, sizeof part, "%s", folder);
    for (char *slash = part + 1;; slash++) {
        if (*slash == '/' || *slash == '\0') {
            const char kept = *slash;
            *slash = '\0';
            if (mkdir(part, 0777) != 0 && errno != EEXIST) {
                bench_die(part, NULL);
            }
            *slash = kept;
            if (kept == '\0') {
                return;
            }
        }
    }
}

const char *bench_path(const char *name)
{
    static char paths[4][4096];
    static unsigned used = 0;
    char *path = paths[used++ % 4];
    bench_make_folder(bench_folder());
    snprintf(path, sizeof paths[0], "%s/%s", bench_folder(), name);
    return path;
}

void bench_need_disk(uint64_t size)
{
    struct statvfs disk;
    bench_path("");
    if (statvfs(bench_folder(), &disk) != 0) {
        bench_die(bench_folder(), NULL);
    }
    const uint64_t capacity = (uint64_t)disk.f_bavail * disk.f_frsize;
    if (capacity / 4 * 3 < size) {
        bench_note("left out: not enough room on the disk");
        exit(0);
    }
}

/* ---- measuring ---- */

double bench_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int bench_compare(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, bench_compare);
    return count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

double bench_peak_memory(void)
{
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    double kilobytes = 0;
    while (status != NULL && fgets(line, sizeof line, status) != NULL) {
        if (strncmp(line, "VmHWM:", 6) == 0) {
            kilobytes = strtod(line + 6, NULL);
        }
    }
    if (status != NULL) {
        fclose(status);
    }
    return kilobytes * 1024;
}

bench_result bench_contest(const bench_rival *rivals, size_t count, size_t rounds)
{
    static double times[BENCH_MAX_RIVALS][BENCH_MAX_ROUNDS];
    static double ratios[BENCH_MAX_ROUNDS];
    for (size_t i = 0; i < count; i++) {
        rivals[i].run(rivals[i].ctx);
    }
    for (size_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < count; i++) {
            /* Whoever goes first one time goes last the next. */
            const size_t turn = round % 2 == 0 ? i : count - 1 - i;
            times[turn][round] = rivals[turn].run(rivals[turn].ctx);
        }
    }
    bench_result result = { { 0 }, { 0 } };
    for (size_t i = 0; i < count; i++) {
        for (size_t round = 0; round < rounds; round++) {
            ratios[round] = times[i][round] / times[0][round];
        }
        result.ratio[i] = bench_median(ratios, rounds);
    }
    for (size_t i = 0; i < count; i++) {
        result.median[i] = bench_median(times[i], rounds);
    }
    return result;
}

/* ---- other processes ---- */

static const char *bench_self = NULL;

void bench_set_self(const char *program)
{
    bench_self = program;
}

/* Reads until the other end is closed; what fits is kept in `text`. */
static void bench_drain(int fd, char *text, size_t size)
{
    static char rest[65536];
    size_t length = 0;
    for (;;) {
        const bool fits = length < size - 1;
        const ssize_t got = fits ? read(fd, text + length, size - 1 - length) : read(fd, rest, sizeof rest);
        if (got <= 0) {
            text[length] = '\0';
            return;
        }
        length += fits ? (size_t)got : 0;
    }
}

/* Starts a program with its standard output, and its standard input unless that is -1, put in the place of ours. */
static pid_t bench_spawn(const char *const *arguments, int input, int output)
{
    extern char **environ;
    posix_spawn_file_actions_t actions;
    pid_t child = -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    if (input >= 0) {
        posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    }
    /* Its type lacks a const that the function keeps. */
    errno = posix_spawnp(&child, arguments[0], &actions, NULL, (char *const *)(uintptr_t)arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (errno != 0) {
        bench_die(arguments[0], NULL);
    }
    return child;
}

/* A pipe whose ends are not handed down to other programs, except where they are put in another place. */
static void bench_pipe(int ends[2])
{
    if (pipe(ends) != 0 || fcntl(ends[0], F_SETFD, FD_CLOEXEC) != 0 || fcntl(ends[1], F_SETFD, FD_CLOEXEC) != 0) {
        bench_die("pipe", NULL);
    }
}

double bench_fresh_process(const char *program, const char *argument, const char *second, const char *third,
                           double *printed)
{
    const char *const arguments[] = { program != NULL ? program : bench_self, argument, second, third, NULL };
    return bench_fresh_command(arguments, printed);
}

double bench_fresh_command(const char *const *arguments, double *printed)
{
    int ends[2] = { -1, -1 };
    bench_pipe(ends);
    const double start = bench_now();
    const pid_t child = bench_spawn(arguments, -1, ends[1]);
    close(ends[1]);
    char text[64] = "";
    bench_drain(ends[0], text, sizeof text);
    int status = 0;
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "%s %s: failed in a fresh process\n", arguments[0], arguments[1]);
        exit(1);
    }
    const double seconds = bench_now() - start;
    close(ends[0]);
    if (printed != NULL) {
        *printed = strtod(text, NULL);
    }
    return seconds;
}

bool bench_has_program(const char *name)
{
    const char *folder = getenv("PATH");
    bool found = false;
    while (folder != NULL && !found) {
        char path[4096];
        const size_t len = strcspn(folder, ":");
        const int size = snprintf(path, sizeof path, "%.*s/%s", (int)len, folder, name);
        found = size > 0 && (size_t)size < sizeof path && access(path, X_OK) == 0;
        folder = folder[len] == ':' ? folder + len + 1 : NULL;
    }
    return found;
}

double bench_cp(const char *from, const char *to)
{
    const double seconds = bench_fresh_process("cp", "--reflink=never", from, to, NULL);
    remove(to);
    return seconds;
}

struct bench_reference {
    FILE *orders;
    FILE *answers;
    pid_t process;
};

bench_reference *bench_reference_new(void)
{
    const char *python = getenv("COFFER_BENCH_PYTHON");
    const char *script = getenv("COFFER_BENCH_REFERENCE");
    if (python == NULL || script == NULL) {
        bench_note("the reference implementation is left out: COFFER_BENCH_PYTHON does not name a Python that has it");
        return NULL;
    }
    int orders[2] = { -1, -1 };
    int answers[2] = { -1, -1 };
    bench_pipe(orders);
    bench_pipe(answers);
    const char *const arguments[] = { python, script, NULL };
    bench_reference *reference = bench_alloc(sizeof *reference);
    reference->process = bench_spawn(arguments, orders[0], answers[1]);
    close(orders[0]);
    close(answers[1]);
    reference->orders = fdopen(orders[1], "w");
    reference->answers = fdopen(answers[0], "r");
    if (reference->orders == NULL || reference->answers == NULL) {
        bench_die(python, NULL);
    }
    return reference;
}

void bench_reference_free(bench_reference *reference)
{
    if (reference != NULL) {
        fclose(reference->orders);
        fclose(reference->answers);
        waitpid(reference->process, NULL, 0);
        free(reference);
    }
}

double bench_reference_run(bench_reference *reference, const char *order, const char *path, size_t number)
{
    char line[64] = "";
    fprintf(reference->orders, "%s\t%zu\t%s\n", order, number, path);
    if (fflush(reference->orders) != 0 || fgets(line, sizeof line, reference->answers) == NULL) {
        bench_die("the reference implementation did not answer", NULL);
    }
    return strtod(line, NULL);
}

/* ---- rows ---- */

void bench_row(const char *name, const char *unit, double ours, const char *other, double others, double ratio,
               const char *state)
{
    if (other == NULL) {
        printf("ROW\t%s\t%s\t%.9g\t\t\t\t%s\n", name, unit, ours, state);
    } else {
        printf("ROW\t%s\t%s\t%.9g\t%s\t%.9g\t%.9g\t%s\n", name, unit, ours, other, others, ratio, state);
    }
    fflush(stdout);
}

void bench_row_of(const char *name, const char *unit, double scale, const bench_result *result, const char *other,
                  size_t i, const char *state)
{
    const bool is_speed = strcmp(unit, "GB/s") == 0;
    const double ours = is_speed ? scale / result->median[0] : scale * result->median[0];
    const double others = is_speed ? scale / result->median[i] : scale * result->median[i];
    /* A rival that did not run, as its program is not there, has no median. */
    bench_row(name, unit, ours, result->median[i] > 0 ? other : NULL, others, result->ratio[i], state);
}

void bench_note(const char *text)
{
    printf("NOTE\t%s\n", text);
    fflush(stdout);
}

/* ---- files ---- */

const void *bench_build(coffer_header *header, uint64_t *size, const coffer_table **table)
{
    coffer_error err = { 0 };
    const void *bytes = NULL;
    bench_check(coffer_header_build(header, NULL, &bytes, size, table, &err), &err);
    return bytes;
}

/* Creates the file and writes its header; returns its descriptor, the whole size in *size. */
static int bench_begin_file(const char *path, coffer_header *header, uint64_t *size)
{
    uint64_t start = 0;
    const coffer_table *table = NULL;
    const char *bytes = bench_build(header, &start, &table);
    *size = start + coffer_table_data_size(table);
    const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || write(fd, bytes, (size_t)start) != (ssize_t)start) {
        bench_die(path, NULL);
    }
    return fd;
}

void bench_write_sparse(const char *path, coffer_header *header)
{
    uint64_t size = 0;
    const int fd = bench_begin_file(path, header, &size);
    if (ftruncate(fd, (off_t)size) != 0 || close(fd) != 0) {
        bench_die(path, NULL);
    }
}

void bench_write_full(const char *path, coffer_header *header)
{
    enum { PIECE = 1 << 20 };
    uint64_t size = 0;
    const int fd = bench_begin_file(path, header, &size);
    uint64_t *piece = bench_alloc(PIECE);
    for (size_t i = 0; i < PIECE / sizeof *piece; i++) {
        piece[i] = i * UINT64_C(0x9E3779B97F4A7C15);
    }
    off_t at = lseek(fd, 0, SEEK_CUR);
    while ((uint64_t)at < size) {
        const uint64_t left = size - (uint64_t)at;
        const ssize_t done = write(fd, piece, left < PIECE ? (size_t)left : PIECE);
        if (done <= 0) {
            bench_die(path, NULL);
        }
        at += done;
    }
    free(piece);
    if (fsync(fd) != 0 || close(fd) != 0) {
        bench_die(path, NULL);
    }
}

double bench_open_time(const char *path, size_t repeats)
{
    coffer_error err;
    const double start = bench_now();
    for (size_t i = 0; i < repeats; i++) {
        coffer *model = NULL;
        bench_check(coffer_open(&model, path, NULL, &err), &err);
        if (coffer_count(model) == 0) {
            bench_die("no tensors", NULL);
        }
        coffer_close(model);
    }
    return (bench_now() - start) / (double)repeats;
}
