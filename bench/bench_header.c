/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Header bytes → table, in nanoseconds a tensor: coffer_parse, which validates everything, finds duplicates and builds the
 * index, beside simdjson On-Demand, which only takes the same fields out of the text. Warm, cold (the first call of a fresh
 * process), and the peak of memory.
 */
#include "bench.h"

#include "bench_simdjson.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct header_text {
    char *bytes; /* the file's first bytes, length included, with space behind for simdjson */
    size_t size;
    size_t count;
    size_t repeats; /* for one sample */
    bench_simdjson *parser;
} header_text;

/* ---- the rivals ---- */

static void parse_once(const header_text *text, const coffer_allocator *allocator)
{
    coffer_error err;
    coffer_table *table = NULL;
    bench_check(coffer_parse(&table, NULL, text->bytes, text->size, allocator, NULL, &err), &err);
    if (coffer_table_count(table) != text->count && text->count != 0) {
        bench_die("coffer_parse counts otherwise", NULL);
    }
    coffer_table_free(table);
}

static double run_ours(void *ctx)
{
    const header_text *text = ctx;
    const double start = bench_now();
    for (size_t i = 0; i < text->repeats; i++) {
        parse_once(text, coffer_libc_allocator());
    }
    return (bench_now() - start) / (double)text->repeats;
}

#ifdef BENCH_WITH_SIMDJSON

static void extract_once(const header_text *text)
{
    const size_t count = bench_simdjson_extract(text->parser, text->bytes + 8, text->size - 8);
    if (count == 0 || (count != text->count && text->count != 0)) {
        bench_die("simdjson counts otherwise", NULL);
    }
}

static double run_simdjson(void *ctx)
{
    const header_text *text = ctx;
    const double start = bench_now();
    for (size_t i = 0; i < text->repeats; i++) {
        extract_once(text);
    }
    return (bench_now() - start) / (double)text->repeats;
}

static size_t text_padding(void)
{
    return bench_simdjson_padding();
}

#else

static size_t text_padding(void)
{
    return 0;
}

#endif

/* ---- memory ---- */

typedef struct counted_memory {
    size_t now;
    size_t peak;
} counted_memory;

static void counted_add(counted_memory *memory, size_t size)
{
    memory->now += size;
    memory->peak = memory->now > memory->peak ? memory->now : memory->peak;
}

static void *counted_alloc(void *ctx, size_t size)
{
    counted_add(ctx, size);
    return malloc(size);
}

/* A block that moves is there twice for a moment, but only for an allocator that copies; libc moves large ones by mapping
   them elsewhere. The peak of the process, measured beside this, tells. */
static void *counted_realloc(void *ctx, void *block, size_t old_size, size_t new_size)
{
    counted_memory *memory = ctx;
    memory->now -= old_size;
    counted_add(memory, new_size);
    return realloc(block, new_size);
}

static void counted_free(void *ctx, void *block, size_t size)
{
    ((counted_memory *)ctx)->now -= size;
    free(block);
}

static double peak_of_allocations(const header_text *text)
{
    counted_memory memory = { 0, 0 };
    const coffer_allocator allocator = { counted_alloc, counted_realloc, counted_free, &memory };
    parse_once(text, &allocator);
    return (double)memory.peak;
}

/* ---- fresh processes ---- */

static header_text read_text(const char *path)
{
    header_text text = { NULL, 0, 0, 1, NULL };
    struct stat info;
    const int fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &info) != 0) {
        bench_die(path, NULL);
    }
    text.size = (size_t)info.st_size;
    text.bytes = bench_alloc(text.size + text_padding());
    if (read(fd, text.bytes, text.size) != (ssize_t)text.size) {
        bench_die(path, NULL);
    }
    memset(text.bytes + text.size, 0, text_padding());
    close(fd);
    return text;
}

#ifdef BENCH_WITH_SIMDJSON

/* Seconds of the first extraction, parser included. */
static double extract_first(header_text *text)
{
    const double start = bench_now();
    text->parser = bench_simdjson_new();
    extract_once(text);
    const double seconds = bench_now() - start;
    bench_simdjson_free(text->parser);
    return seconds;
}

#endif

/* Seconds of the first parse; *rise is what it added to the process's peak of memory. */
static double parse_first(const header_text *text, double *rise)
{
    coffer_error err;
    coffer_table *table = NULL;
    const double before = bench_peak_memory();
    const double start = bench_now();
    bench_check(coffer_parse(&table, NULL, text->bytes, text->size, coffer_libc_allocator(), NULL, &err), &err);
    const double seconds = bench_now() - start;
    *rise = bench_peak_memory() - before;
    coffer_table_free(table);
    return seconds;
}

/* Does one thing for the first time in this process, and prints its figure. */
static int run_fresh(const char *mode, const char *path)
{
    header_text text = read_text(path);
    double rise = 0;
    double seconds = 0;
#ifdef BENCH_WITH_SIMDJSON
    if (strcmp(mode, "cold-simdjson") == 0) {
        seconds = extract_first(&text);
    }
#endif
    if (strcmp(mode, "cold-simdjson") != 0) {
        seconds = parse_first(&text, &rise);
    }
    printf("%.9g\n", strcmp(mode, "peak") == 0 ? rise : seconds);
    free(text.bytes);
    return 0;
}

typedef struct fresh_start {
    const char *mode;
    const char *path;
} fresh_start;

static double run_cold(void *ctx)
{
    const fresh_start *fresh = ctx;
    double seconds = 0;
    bench_fresh_process(NULL, fresh->mode, fresh->path, NULL, &seconds);
    return seconds;
}

/* ---- rows ---- */

#ifdef BENCH_WITH_SIMDJSON
static const char *const other_name = "simdjson On-Demand, fields only";
enum { RIVALS = 2 };
#else
static const char *const other_name = NULL;
enum { RIVALS = 1 };
#endif

static void print_speed(const char *what, const char *state, const header_text *text, const bench_result *result)
{
    char name[128];
    snprintf(name, sizeof name, "header: %s", what);
    const double to_ns = 1e9 / (double)text->count;
    bench_row(name, "ns/tensor", result->median[0] * to_ns, other_name, result->median[1] * to_ns, result->ratio[1],
              state);
}

static void print_memory(const char *what, const header_text *text, double peak, const char *state)
{
    char name[128];
    snprintf(name, sizeof name, "header memory: %s", what);
    const double limit = 2 * (double)text->size + 64 * (double)text->count;
    bench_row(name, "MB", peak / BENCH_MB, "2 x header + 64 a tensor", limit / BENCH_MB, limit / peak, state);
}

/* Parsed again and again, beside the rival. */
static void measure_warm(const char *what, const char *state, header_text *text, size_t rounds)
{
    bench_rival rivals[2] = { { run_ours, text }, { NULL, NULL } };
#ifdef BENCH_WITH_SIMDJSON
    text->parser = bench_simdjson_new();
    rivals[1] = (bench_rival){ run_simdjson, text };
#endif
    const bench_result warm = bench_contest(rivals, RIVALS, rounds);
    print_speed(what, state, text, &warm);
#ifdef BENCH_WITH_SIMDJSON
    bench_simdjson_free(text->parser);
#endif
}

static void measure_speed(const char *what, header_text *text, const char *path)
{
    fresh_start cold[2] = { { "cold", path }, { "cold-simdjson", path } };
    const bench_rival cold_rivals[2] = { { run_cold, &cold[0] }, { run_cold, &cold[1] } };
    measure_warm(what, "warm, validated and indexed", text, bench_size(41, 2));
    const bench_result first = bench_contest(cold_rivals, RIVALS, bench_size(31, 2));
    print_speed(what, "cold: first call of a process, validated and indexed", text, &first);
}

static void measure_memory(const char *what, const header_text *text, const char *path)
{
    print_memory(what, text, peak_of_allocations(text), "peak of what is allocated");
    /* The process's peak counts in pages, the program's own too, which hides what a small header takes. */
    if (text->size >= BENCH_MB) {
        double rise = 0;
        bench_fresh_process(NULL, "peak", path, NULL, &rise);
        print_memory(what, text, rise, "rise of the process's peak (VmHWM)");
    }
}

/* ---- other spellings ---- */

typedef enum spelling { SPELLING_SPACED, SPELLING_INDENTED, SPELLING_SHUFFLED, SPELLINGS } spelling;

static const char *const spelling_names[SPELLINGS] = { "a space behind each colon and comma",
                                                       "indented, a line a value", "not in order of offset" };

static size_t put_line(char *out, size_t depth)
{
    *out = '\n';
    memset(out + 1, ' ', 2 * depth);
    return 1 + 2 * depth;
}

/* As Python's json module spells it, with `indent=2` or without; the names have nothing in them that JSON has a meaning for. */
static size_t respell(char *out, const char *json, size_t size, bool indented)
{
    size_t used = 0;
    size_t depth = 0;
    for (size_t i = 0; i < size && json[i] != ' '; i++) {
        const bool opens = json[i] == '{' || json[i] == '[';
        const bool closes = json[i] == '}' || json[i] == ']';
        depth -= closes ? 1 : 0;
        used += indented && closes ? put_line(out + used, depth) : 0;
        out[used++] = json[i];
        depth += opens ? 1 : 0;
        if (indented && (opens || json[i] == ',')) {
            used += put_line(out + used, depth);
        } else if (json[i] == ':' || json[i] == ',') {
            out[used++] = ' ';
        }
    }
    return used;
}

/* The same members, from both ends in turn. */
static size_t shuffle_members(char *out, const char *json, size_t size)
{
    const char **members = bench_alloc(size / 8 * sizeof *members);
    size_t count = 0;
    members[0] = json + 1;
    for (size_t i = 1; i + 1 < size; i++) {
        if (json[i] == '}' && json[i + 1] != ' ') {
            members[++count] = json + i + 2;
        }
    }
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t from = i % 2 == 0 ? i / 2 : count - 1 - i / 2;
        const size_t length = (size_t)(members[from + 1] - members[from]) - 1;
        out[used++] = i == 0 ? '{' : ',';
        memcpy(out + used, members[from], length);
        used += length;
    }
    out[used++] = '}';
    free(members);
    return used;
}

/* What another spelling of the same header costs: only validated headers count, so a wrong one ends the run. */
static void measure_spelling(const char *what, const header_text *compact, spelling how)
{
    const size_t capacity = 4 * compact->size;
    header_text text = { bench_alloc(capacity + text_padding()), 0, compact->count, compact->repeats, NULL };
    memset(text.bytes, 0, capacity + text_padding());
    const char *json = compact->bytes + 8;
    const size_t length = how == SPELLING_SHUFFLED
                              ? shuffle_members(text.bytes + 8, json, compact->size - 8)
                              : respell(text.bytes + 8, json, compact->size - 8, how == SPELLING_INDENTED);
    for (size_t i = 0; i < 8; i++) {
        text.bytes[i] = (char)(length >> (8 * i) & 0xFF);
    }
    text.size = 8 + length;
    char state[96];
    snprintf(state, sizeof state, "warm, validated and indexed; %s", spelling_names[how]);
    measure_warm(what, state, &text, bench_size(21, 2));
    free(text.bytes);
}

static void measure_shape(bench_shape shape)
{
    coffer_header *header = bench_model(shape);
    uint64_t size = 0;
    const coffer_table *table = NULL;
    const void *bytes = bench_build(header, &size, &table);
    header_text text = { bench_alloc((size_t)size + text_padding()), (size_t)size, coffer_table_count(table), 1, NULL };
    memset(text.bytes, 0, (size_t)size + text_padding());
    memcpy(text.bytes, bytes, (size_t)size);
    text.repeats = bench_size(1 + 200000 / text.count, 1);
    const char *path = bench_path("header.bin");
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(bytes, 1, (size_t)size, file) != size || fclose(file) != 0) {
        bench_die(path, NULL);
    }
    coffer_header_free(header);
    measure_speed(bench_shape_name(shape), &text, path);
    measure_memory(bench_shape_name(shape), &text, path);
    for (int how = 0; how < SPELLINGS; how++) {
        measure_spelling(bench_shape_name(shape), &text, (spelling)how);
    }
    free(text.bytes);
    remove(path);
}

int main(int argc, char **argv)
{
    bench_set_self(argv[0]);
    if (argc == 3) {
        return run_fresh(argv[1], argv[2]);
    }
#ifndef BENCH_WITH_SIMDJSON
    bench_note("simdjson is not installed: header rows have nothing beside them");
#endif
    for (int shape = 0; shape < BENCH_SHAPES; shape++) {
        measure_shape((bench_shape)shape);
    }
    return 0;
}
