/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the benchmarks share: timing, contests, rows of the table, headers of real models, files to work on. To be included
 * first, because it chooses the features of the system.
 *
 * A row compares ours with one other thing, a floor or a reference, measured in turn with it in the same run. Its ratio is
 * how many times as good ours is, whatever the unit: 2 is twice the speed, or half the time, or half the memory.
 *
 * The environment: COFFER_BENCH_DIR is where files are made (build/bench/data), COFFER_BENCH_QUICK=1 shrinks everything to
 * seconds, to see that the programs work; the figures mean nothing then.
 */
#ifndef COFFER_BENCH_H
#define COFFER_BENCH_H

#define _DEFAULT_SOURCE /* madvise and MAP_ANONYMOUS beside POSIX and -std=c11 */

#include "coffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENCH_MB 1000000u
#define BENCH_GB 1000000000u

/* ---- the run ---- */

bool bench_is_quick(void);
/* `full`, or `quick` in a quick run. */
size_t bench_size(size_t full, size_t quick);
/* The path of a file in the benchmark's folder, which is made when it is not there. It stays for the next few calls. */
const char *bench_path(const char *name);
/* Says why and ends the program with status 1. */
void bench_die(const char *what, const coffer_error *err);
/* Ends the program, with a row that says so, unless `size` bytes and some more are free in the folder. */
void bench_need_disk(uint64_t size);
void *bench_alloc(size_t size);
void bench_check(coffer_status status, const coffer_error *err);

/* ---- measuring ---- */

/* Seconds of a clock that only goes forward. */
double bench_now(void);
double bench_median(double *values, size_t count);
/* The most memory that this process ever had resident, in bytes. */
double bench_peak_memory(void);

/* One of those compared: runs once and returns the seconds that count, without its preparation and cleaning up. */
typedef struct bench_rival {
    double (*run)(void *ctx);
    void *ctx;
} bench_rival;

#define BENCH_MAX_RIVALS 6
#define BENCH_MAX_ROUNDS 1001

typedef struct bench_result {
    double median[BENCH_MAX_RIVALS]; /* seconds */
    double ratio[BENCH_MAX_RIVALS];  /* the median, over the rounds, of rival i's seconds to those of rival 0 */
} bench_result;

/* Lets the rivals run in turn, `rounds` times, after one round that does not count. What else the machine does then hits
   all of them, and a ratio within one round means something even where the times do not. */
bench_result bench_contest(const bench_rival *rivals, size_t count, size_t rounds);

/* ---- other processes ---- */

/* Tells how this program was started, for bench_fresh_process. */
void bench_set_self(const char *program);
/* Runs a program (NULL: this one) in a fresh process with one to three arguments (NULL: none further), and returns the
   seconds until it ended, its start included. The number that it printed goes to *printed, when not NULL. */
double bench_fresh_process(const char *program, const char *argument, const char *second, const char *third,
                           double *printed);
/* The same with a program and any arguments; NULL closes the list. */
double bench_fresh_command(const char *const *arguments, double *printed);
/* Whether PATH leads to a program of that name: a yardstick that is not there is left out. */
bool bench_has_program(const char *name);
/* The seconds that cp takes to copy a file, not by reflink; the copy is removed. */
double bench_cp(const char *from, const char *to);

/* The reference implementation in a Python process, which stays for further orders; NULL when COFFER_BENCH_PYTHON names no
   Python that has it. It times itself, so that neither Python's start nor the pipe counts. */
typedef struct bench_reference bench_reference;
bench_reference *bench_reference_new(void);
void bench_reference_free(bench_reference *reference);
/* Seconds for an order: "open" or "open-bintensors" (safe_open, keys) or "save" (save_file of one tensor of `number` bytes), each with a path;
   of `number` opens it gives the mean. */
double bench_reference_run(bench_reference *reference, const char *order, const char *path, size_t number);

/* ---- rows ---- */

/* Prints a row. `other` is NULL when there is nothing to compare with. */
void bench_row(const char *name, const char *unit, double ours, const char *other, double others, double ratio,
               const char *state);
/* A row of seconds, rival 0 against rival `i`, shown as `scale` / seconds (of the unit "GB/s") or as scale * seconds. */
void bench_row_of(const char *name, const char *unit, double scale, const bench_result *result, const char *other,
                  size_t i, const char *state);
/* Prints why something could not be measured. */
void bench_note(const char *text);

/* ---- headers and files ---- */

typedef enum bench_shape {
    BENCH_GPT2 = 0,    /* GPT-2 small: 160 tensors of F32 */
    BENCH_LLAMA = 1,   /* Llama 70B: 723 tensors of BF16 */
    BENCH_EXPERTS = 2, /* a mixture of experts in FP8 with weight_scale_inv siblings: 92,000 tensors, 12 MB of header */
    BENCH_SHAPES = 3
} bench_shape;

const char *bench_shape_name(bench_shape shape);
/* Declares the tensors, with the names and shapes of the real model. */
coffer_header *bench_model(bench_shape shape);
/* One tensor "data" of `rows` by `columns` float32. */
coffer_header *bench_matrix(uint64_t rows, uint64_t columns);
/* Builds the header: the file's first bytes. */
const void *bench_build(coffer_header *header, uint64_t *size, const coffer_table **table);
/* Writes the header's file with a body that is a hole: its bytes are zeros and take no space on the disk. */
void bench_write_sparse(const char *path, coffer_header *header);
/* Writes the header's file with a body of real bytes, and waits until the disk has it, so that it is not still being
   written while something is measured. */
void bench_write_full(const char *path, coffer_header *header);
/* Seconds that it takes to open and close a file, as the mean of so many times. */
double bench_open_time(const char *path, size_t repeats);

#endif
