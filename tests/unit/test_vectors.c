/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why: the vectors of tests/vectors are the format, corner by corner, and their names are the verdicts. Every way into the
 * library has to give that verdict: code, byte, notes; whether the bytes come whole or as a prefix, aligned or not, with the
 * file's size or without; it must not read one byte too many, need more memory than is promised, or leak when there is none.
 * What would be too large for a vector is in test_large.c.
 */
#define _DEFAULT_SOURCE /* opendir, mmap and MAP_ANONYMOUS beside -std=c11 */
#include "coffer.h"
#include "error.h"
#include "parse.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define SMALL_VECTOR 1024 /* those that are tried in every way that grows with their size */

typedef struct vector {
    char name[256];
    char path[1024];
    uint8_t *bytes;
    size_t size;
    coffer_status code;   /* COFFER_OK when it is accepted */
    int note;             /* coffer_note_kind, -1 when there is to be none */
    uint64_t at;          /* of the code or the note */
    coffer_format format; /* by the name's ending */
} vector;

static vector *vectors;
static size_t vector_count;

static const char *const note_names[COFFER_NOTE_UNINDEXED] = {
    [COFFER_NOTE_LEADING_SPACE] = "LEADING_SPACE",
    [COFFER_NOTE_UNKNOWN_KEY] = "UNKNOWN_KEY",
    [COFFER_NOTE_NULL_METADATA] = "NULL_METADATA",
    [COFFER_NOTE_CONTROL_NAME] = "CONTROL_NAME",
    [COFFER_NOTE_EMPTY_NAME] = "EMPTY_NAME",
    [COFFER_NOTE_UNALIGNED] = "UNALIGNED",
    [COFFER_NOTE_PADDING] = "PADDING",
    [COFFER_NOTE_CASE] = "CASE",
    [COFFER_NOTE_UNKNOWN_DTYPE] = "UNKNOWN_DTYPE",
    [COFFER_NOTE_LONG_NUMBER] = "LONG_NUMBER",
};

/* ---- the vectors ---- */

static coffer_status code_named(const char *name)
{
    for (int code = 10; code < 200; code++) {
        if (strcmp(coffer_status_name((coffer_status)code), name) == 0) {
            return (coffer_status)code;
        }
    }
    fail_msg("no code is named %s", name);
    return COFFER_OK;
}

static int note_named(const char *name)
{
    for (int kind = 0; kind < COFFER_NOTE_UNINDEXED; kind++) {
        if (strcmp(note_names[kind], name) == 0) {
            return kind;
        }
    }
    fail_msg("no note is named %s", name);
    return -1;
}

/* Reads the verdict that a name states. */
static void read_verdict(vector *v)
{
    v->code = COFFER_OK;
    v->note = -1;
    v->at = COFFER_NO_OFFSET;
    if (strncmp(v->name, "ok__", 4) == 0) {
        return;
    }
    char kind[8];
    char what[64];
    unsigned long long at = 0;
    /* The name up to "_at" is greedy in capitals, digits and underscores; "_at" is in small letters. */
    const int found = sscanf(v->name, "%7[a-z]_%63[A-Z0-9_]at%llu__", kind, what, &at);
    if (found != 3 || what[strlen(what) - 1] != '_') {
        fail_msg("%s: the name states no verdict", v->name);
    }
    what[strlen(what) - 1] = '\0';
    v->at = at;
    if (strcmp(kind, "note") == 0) {
        v->note = note_named(what);
    } else {
        assert_string_equal(kind, "err");
        v->code = code_named(what);
    }
}

static void read_bytes(vector *v)
{
    FILE *file = fopen(v->path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    v->size = (size_t)ftell(file);
    rewind(file);
    v->bytes = malloc(v->size + 1);
    assert_non_null(v->bytes);
    assert_int_equal(fread(v->bytes, 1, v->size, file), v->size);
    assert_int_equal(fclose(file), 0);
}

static bool ends_with(const char *name, const char *ending)
{
    const size_t length = strlen(name);
    return length > strlen(ending) && strcmp(name + length - strlen(ending), ending) == 0;
}

/* COFFER_FORMAT_ANY for what is of no format. */
static coffer_format format_named(const char *name)
{
    if (ends_with(name, ".safetensors")) {
        return COFFER_FORMAT_SAFETENSORS;
    }
    if (ends_with(name, ".alpha.bt")) {
        return COFFER_FORMAT_BINTENSORS_ALPHA;
    }
    return ends_with(name, ".bt") ? COFFER_FORMAT_BINTENSORS : COFFER_FORMAT_ANY;
}

static int load_vectors(void **state)
{
    (void)state;
    const char *directory = getenv("COFFER_VECTORS");
    directory = directory == NULL ? "tests/vectors" : directory;
    DIR *dir = opendir(directory);
    if (dir == NULL) {
        fail_msg("no vectors in %s: set COFFER_VECTORS", directory);
        return -1;
    }
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (format_named(entry->d_name) != COFFER_FORMAT_ANY || ends_with(entry->d_name, ".bin")) {
            vectors = realloc(vectors, (vector_count + 1) * sizeof *vectors);
            assert_non_null(vectors);
            vector *v = &vectors[vector_count++];
            snprintf(v->name, sizeof v->name, "%s", entry->d_name);
            snprintf(v->path, sizeof v->path, "%s/%s", directory, entry->d_name);
            v->format = format_named(v->name);
            read_verdict(v);
            read_bytes(v);
        }
    }
    closedir(dir);
    return 0;
}

static int free_vectors(void **state)
{
    (void)state;
    for (size_t i = 0; i < vector_count; i++) {
        free(vectors[i].bytes);
    }
    free(vectors);
    return 0;
}

/* The header's length as the frame states it; 0 when there is no frame. */
static uint64_t header_length(const vector *v)
{
    uint64_t length = 0;
    for (size_t i = 0; v->size >= 8 && i < 8; i++) {
        length |= (uint64_t)v->bytes[i] << (8 * i);
    }
    return length;
}

/* ---- an allocator that counts, and fails when told to ---- */

typedef struct counter {
    size_t live;
    size_t peak;
    size_t calls;
    size_t fail_from; /* the number of the first call that gets nothing; SIZE_MAX: none */
} counter;

static void *counted_realloc(void *ctx, void *block, size_t old_size, size_t new_size)
{
    counter *count = ctx;
    if (count->calls++ >= count->fail_from) {
        return NULL;
    }
    void *moved = realloc(block, new_size);
    assert_non_null(moved);
    count->live = count->live - old_size + new_size;
    count->peak = count->live > count->peak ? count->live : count->peak;
    return moved;
}

static void *counted_alloc(void *ctx, size_t size)
{
    return counted_realloc(ctx, NULL, 0, size);
}

static void counted_free(void *ctx, void *block, size_t size)
{
    counter *count = ctx;
    count->live -= size;
    free(block);
}

static coffer_allocator counting(counter *count)
{
    *count = (counter){ 0, 0, 0, SIZE_MAX };
    return (coffer_allocator){ counted_alloc, counted_realloc, counted_free, count };
}

/* ---- comparing with the verdict ---- */

static size_t differences;

/* Tells of a vector that goes wrong; the test goes on, to tell of all of them, and fails at its end. */
static void __attribute__((format(printf, 1, 2))) differ(const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    print_error("%s\n", line);
    differences++;
}

/* What every test that walks over the vectors ends with. */
static void expect_no_differences(void)
{
    const size_t seen = differences;
    differences = 0;
    assert_int_equal(seen, 0);
}

static bool wants_unknown_dtypes(const vector *v)
{
    return v->note == COFFER_NOTE_UNKNOWN_DTYPE;
}

static bool is_bintensors(const vector *v)
{
    return v->format == COFFER_FORMAT_BINTENSORS || v->format == COFFER_FORMAT_BINTENSORS_ALPHA;
}

static bool wants_hidden_bytes(const vector *v)
{
    return ends_with(v->name, ".bt") && v->note == COFFER_NOTE_PADDING;
}

static coffer_parse_options options_for(const vector *v)
{
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.file_size = v->size;
    options.all_notes = true;
    options.unknown_dtypes = wants_unknown_dtypes(v);
    options.hidden_bytes = wants_hidden_bytes(v);
    options.format = v->format;
    return options;
}

static void check_error(const vector *v, const char *way, coffer_status status, const coffer_error *err)
{
    if (status != v->code) {
        differ("%s: %s gives %s: %s", v->name, way, coffer_status_name(status),
               status == COFFER_OK || status == COFFER_NEED_MORE ? "" : err->message);
    }
    if (status != v->code || status == COFFER_OK) {
        return;
    }
    if (err->code != status || err->offset != v->at) {
        differ("%s: %s is at %llu: %s", v->name, way, (unsigned long long)err->offset, err->message);
    }
    /* What is wrong with the text of a header is said with its place. */
    char place[48];
    snprintf(place, sizeof place, " byte %llu", (unsigned long long)v->at);
    if (v->code >= COFFER_ERR_JSON && v->code <= COFFER_ERR_DTYPE && strstr(err->message, place) == NULL) {
        differ("%s: %s does not say where: %s", v->name, way, err->message);
    }
    if (err->message[0] == '\0' || memchr(err->message, '\0', sizeof err->message) == NULL) {
        differ("%s: %s leaves no message", v->name, way);
    }
}

static void check_notes(const vector *v, const char *way, const coffer_table *table)
{
    for (int kind = 0; kind < COFFER_NOTE_UNINDEXED; kind++) {
        const coffer_note note = coffer_table_note(table, (coffer_note_kind)kind);
        if ((note.count > 0) != (kind == v->note) || note.offset != (kind == v->note ? v->at : COFFER_NO_OFFSET)) {
            differ("%s: %s notes %s %llu times, first at %llu", v->name, way, note_names[kind],
                   (unsigned long long)note.count, (unsigned long long)note.offset);
        }
    }
}

/* What every accepted table has to be: an exact cover of the data in offset order, and each tensor found by its name. */
static void check_table(const vector *v, const char *way, const coffer_table *table)
{
    uint64_t end = coffer_table_data_offset(table);
    assert_int_equal(end, 8 + header_length(v));
    for (size_t i = 0; i < coffer_table_count(table); i++) {
        const coffer_tensor *tensor = coffer_table_at(table, i);
        if (tensor->offset != end || tensor->name[tensor->name_len] != '\0' || tensor->shard != 0 ||
            coffer_table_find(table, tensor->name, tensor->name_len) != tensor) {
            differ("%s: %s gives a wrong tensor %zu", v->name, way, i);
        }
        end += tensor->size;
    }
    assert_int_equal(end, coffer_table_data_offset(table) + coffer_table_data_size(table));
    assert_null(coffer_table_at(table, coffer_table_count(table)));
    check_notes(v, way, table);
}

static void check_parse(const vector *v, const char *way, const void *bytes, size_t size)
{
    const coffer_parse_options options = options_for(v);
    coffer_table *table = NULL;
    coffer_error err;
    uint64_t need = 0;
    const coffer_status status = coffer_parse(&table, &need, bytes, size, coffer_libc_allocator(), &options, &err);
    check_error(v, way, status, &err);
    assert_int_equal(table != NULL, status == COFFER_OK);
    if (table != NULL) {
        assert_int_equal(need, 8 + header_length(v));
        check_table(v, way, table);
    }
    coffer_table_free(table);
}

/* ---- tests: the verdict, by every way in ---- */

/* Whether the frame alone tells that something is wrong, when the file's size is known. */
static bool frame_is_wrong(const vector *v)
{
    return v->code >= COFFER_ERR_IS_LFS_POINTER || v->code == COFFER_ERR_HEADER_LENGTH ||
           v->code == COFFER_ERR_HEADER_TOO_LARGE || v->code == COFFER_ERR_HEADER_TRUNCATED;
}

/* A file without bytes cannot be told from one of unknown size by coffer_parse, which asks for 8 bytes. */
static bool is_empty(const vector *v)
{
    return v->size == 0;
}

static void test_parse(void **state)
{
    (void)state;
    assert_true(vector_count > 400);
    for (size_t i = 0; i < vector_count; i++) {
        if (!is_empty(&vectors[i])) {
            check_parse(&vectors[i], "coffer_parse", vectors[i].bytes, vectors[i].size);
        }
    }
    expect_no_differences();
}

/* The input ends where the process's memory does, and begins at any address. */
static void test_parse_before_a_guard_page(void **state)
{
    (void)state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < vector_count; i++) {
        const vector *v = &vectors[i];
        const size_t capacity = (v->size + page - 1) / page * page;
        uint8_t *memory = mmap(NULL, capacity + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(memory, MAP_FAILED);
        assert_int_equal(mprotect(memory + capacity, page, PROT_NONE), 0);
        if (!is_empty(v)) {
            memcpy(memory + capacity - v->size, v->bytes, v->size);
            check_parse(v, "coffer_parse before a guard page", memory + capacity - v->size, v->size);
        }
        if (!frame_is_wrong(v) && v->size >= 8 && header_length(v) <= v->size - 8) {
            const size_t needed = 8 + (size_t)header_length(v);
            memcpy(memory + capacity - needed, v->bytes, needed);
            check_parse(v, "coffer_parse of the header before a guard page", memory + capacity - needed, needed);
        }
        assert_int_equal(munmap(memory, capacity + page), 0);
    }
    expect_no_differences();
}

#define CAPACITY_BEHIND 64

/* Tensors are read in another way where the header goes on behind them. With spaces after the text nothing else changes, but
   that what comes after the header does so later. */
static void test_parse_with_capacity_behind(void **state)
{
    (void)state;
    size_t seen = 0;
    for (size_t i = 0; i < vector_count; i++) {
        vector v = vectors[i];
        const bool ends_early = v.at == 8 + header_length(&v) && v.code == COFFER_ERR_JSON;
        if (is_bintensors(&v) || v.size < 8 || frame_is_wrong(&v) || ends_early) {
            continue;
        }
        const size_t header_end = 8 + (size_t)header_length(&v);
        uint8_t *bytes = malloc(v.size + CAPACITY_BEHIND);
        assert_non_null(bytes);
        memcpy(bytes, v.bytes, header_end);
        memset(bytes + header_end, ' ', CAPACITY_BEHIND);
        memcpy(bytes + header_end + CAPACITY_BEHIND, v.bytes + header_end, v.size - header_end);
        const uint64_t length = header_length(&v) + CAPACITY_BEHIND;
        for (size_t k = 0; k < 8; k++) {
            bytes[k] = (uint8_t)(length >> (8 * k));
        }
        v.at += v.at != COFFER_NO_OFFSET && v.at >= header_end ? CAPACITY_BEHIND : 0;
        v.bytes = bytes;
        v.size += CAPACITY_BEHIND;
        check_parse(&v, "coffer_parse with room behind", bytes, v.size);
        free(bytes);
        seen++;
    }
    assert_true(seen > 300);
    expect_no_differences();
}

static void test_parse_unaligned(void **state)
{
    (void)state;
    for (size_t i = 0; i < vector_count; i++) {
        const vector *v = &vectors[i];
        uint8_t *memory = malloc(v->size + 16);
        assert_non_null(memory);
        for (size_t shift = 1; shift < 16 && !is_empty(v); shift++) {
            memcpy(memory + shift, v->bytes, v->size);
            check_parse(v, "coffer_parse of an odd address", memory + shift, v->size);
        }
        free(memory);
    }
    expect_no_differences();
}

typedef struct supplied_file {
    const vector *v;
    size_t *reads;
    size_t fail_from; /* the number of the first read that fails; SIZE_MAX: none */
} supplied_file;

static coffer_status supply_file(const supplied_file *file, const coffer__wish *wish, coffer_error *err)
{
    const uint64_t offset = wish->offset;
    assert_true(offset <= file->v->size && wish->size > 0 && wish->size <= file->v->size - offset);
    if ((*file->reads)++ >= file->fail_from) {
        return coffer__fail_at(err, COFFER_ERR_IO, offset, "the disk is broken");
    }
    memcpy(wish->to, file->v->bytes + offset, wish->size);
    return COFFER_OK;
}

/* Parses a header that comes through a window, which begins and ends where its memory does; when it does not slide, what is not
   in it comes at once. */
static coffer_status parse_window(const supplied_file *file, size_t window_size, bool slides, counter *count,
                                  coffer_table **table, coffer_error *err)
{
    const vector *v = file->v;
    const size_t size = v->size < window_size ? v->size : window_size;
    uint8_t *window = malloc(window_size);
    assert_non_null(window);
    memcpy(window, v->bytes, size);
    const coffer_parse_options options = options_for(v);
    const coffer_allocator allocator = { counted_alloc, counted_realloc, counted_free, count };
    coffer__reading reading;
    coffer__wish wish;
    assert_int_equal(coffer__reading_begin(&reading, window, size, &allocator, &options, err), COFFER_OK);
    if (slides) {
        coffer__reading_slide(&reading, window, window_size);
    }
    coffer_status status = COFFER_NEED_MORE;
    while (status == COFFER_NEED_MORE) {
        status = coffer__reading_go_on(&reading, &wish, table, err);
        if (status == COFFER_NEED_MORE && supply_file(file, &wish, err) != COFFER_OK) {
            status = COFFER_ERR_IO;
        }
    }
    coffer__reading_free(&reading);
    free(window);
    return status;
}

static void check_window(const vector *v, size_t window_size, bool slides)
{
    char way[64];
    snprintf(way, sizeof way, "a window of %zu bytes that %s", window_size, slides ? "slides" : "stays");
    counter count = { 0, 0, 0, SIZE_MAX };
    size_t reads = 0;
    const supplied_file file = { v, &reads, SIZE_MAX };
    coffer_table *table = NULL;
    coffer_error err;
    check_error(v, way, parse_window(&file, window_size, slides, &count, &table, &err), &err);
    if (table != NULL) {
        check_table(v, way, table);
    }
    coffer_table_free(table);
    assert_int_equal(count.live, 0);
}

/* Fails the k-th read or the k-th request for memory, for every k, until there is none. */
static void check_window_that_fails(const vector *v, size_t window_size, bool slides, bool reads_fail)
{
    coffer_status status = COFFER_ERR_IO;
    for (size_t k = 0; status != v->code; k++) {
        counter count = { 0, 0, 0, reads_fail ? SIZE_MAX : k };
        size_t reads = 0;
        const supplied_file file = { v, &reads, reads_fail ? k : SIZE_MAX };
        coffer_table *table = NULL;
        coffer_error err;
        status = parse_window(&file, window_size, slides, &count, &table, &err);
        if (status != v->code && status != (reads_fail ? COFFER_ERR_IO : COFFER_ERR_MEMORY)) {
            differ("%s: failure %zu gives %s", v->name, k, coffer_status_name(status));
            return;
        }
        coffer_table_free(table);
        assert_int_equal(count.live, 0);
    }
}

/* Small windows end at every byte of a header; of the larger ones, which cost as much each, some and the last ones are tried. */
static size_t next_window(const vector *v, size_t window_size)
{
    if (v->size > SMALL_VECTOR) {
        return window_size + 997;
    }
    return window_size + (window_size < 96 || window_size + 8 > v->size ? 1 : 7);
}

static void test_parse_through_a_window(void **state)
{
    (void)state;
    for (size_t i = 0; i < vector_count; i++) {
        const vector *v = &vectors[i];
        for (size_t window_size = 9; v->size > 8 && !frame_is_wrong(v) && window_size <= v->size + 1;
             window_size = next_window(v, window_size)) {
            check_window(v, window_size, true);
            check_window(v, window_size, false);
        }
    }
    expect_no_differences();
}

static void test_windows_that_fail(void **state)
{
    (void)state;
    for (size_t i = 0; i < vector_count; i++) {
        const vector *v = &vectors[i];
        for (size_t window_size = 9; v->size > 8 && !frame_is_wrong(v) && window_size < 256; window_size += 61) {
            check_window_that_fails(v, window_size, true, true);
            check_window_that_fails(v, window_size, false, true);
            check_window_that_fails(v, window_size, true, false);
        }
    }
    expect_no_differences();
}

static void check_model(const vector *v, const char *way, coffer_status status, coffer *model, const coffer_error *err)
{
    check_error(v, way, status, err);
    assert_int_equal(model != NULL, status == COFFER_OK);
    if (model != NULL) {
        assert_int_equal(coffer_shard_size(model, 0), v->size);
        check_table(v, way, coffer_shard_table(model, 0));
    }
    coffer_close(model);
}

static coffer_open_options open_options_for(const vector *v, coffer_access access)
{
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.access = access;
    options.all_notes = true;
    options.unknown_dtypes = wants_unknown_dtypes(v);
    options.hidden_bytes = wants_hidden_bytes(v);
    options.format = v->format;
    options.formats = COFFER_FORMATS_OWN;
    return options;
}

static void test_open_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < vector_count; i++) {
        const vector *v = &vectors[i];
        const coffer_open_options options = open_options_for(v, COFFER_MAP);
        coffer *model = NULL;
        coffer_error err;
        const coffer_status status = coffer_open_memory(&model, v->bytes, v->size, &options, &err);
        check_model(v, "coffer_open_memory", status, model, &err);
    }
    expect_no_differences();
}

static void test_open(void **state)
{
    (void)state;
    static const coffer_access ways[] = { COFFER_MAP, COFFER_READ, COFFER_MAP_PRIVATE };
    static const char *const names[] = { "coffer_open, map", "coffer_open, read", "coffer_open, private map" };
    for (size_t i = 0; i < 3 * vector_count; i++) {
        const vector *v = &vectors[i / 3];
        const coffer_open_options options = open_options_for(v, ways[i % 3]);
        coffer *model = NULL;
        coffer_error err;
        const coffer_status status = coffer_open(&model, v->path, &options, &err);
        if (status != COFFER_OK && err.path[0] == '\0') {
            differ("%s: %s does not name the file", v->name, names[i % 3]);
        }
        check_model(v, names[i % 3], status, model, &err);
    }
    expect_no_differences();
}

/* What is only listed on request is an error without it, at the same byte. */
static void test_unknown_dtypes_are_refused_by_default(void **state)
{
    (void)state;
    size_t seen = 0;
    for (size_t i = 0; i < vector_count; i++) {
        vector strict = vectors[i];
        if (wants_unknown_dtypes(&strict)) {
            strict.note = -1;
            strict.code = COFFER_ERR_DTYPE;
            check_parse(&strict, "coffer_parse without unknown_dtypes", strict.bytes, strict.size);
            seen++;
        }
    }
    assert_true(seen > 0);
    expect_no_differences();
}

/* Nobody needs to say what a file is, but for layout A. */
static void test_formats_are_told_by_content(void **state)
{
    (void)state;
    size_t seen = 0;
    for (size_t i = 0; i < vector_count; i++) {
        vector unsaid = vectors[i];
        const bool says_so = unsaid.size <= 8 || unsaid.bytes[8] <= 1;
        if (unsaid.format != COFFER_FORMAT_BINTENSORS_ALPHA && says_so == is_bintensors(&unsaid) &&
            !is_empty(&unsaid)) {
            unsaid.format = COFFER_FORMAT_ANY;
            check_parse(&unsaid, "coffer_parse by content", unsaid.bytes, unsaid.size);
            seen++;
        }
    }
    assert_true(seen > 500);
    expect_no_differences();
}

/* What may hide in the padding of bintensors is an error unless it is allowed, at the same byte. */
static void test_hidden_bytes_are_refused_by_default(void **state)
{
    (void)state;
    size_t seen = 0;
    for (size_t i = 0; i < vector_count; i++) {
        vector strict = vectors[i];
        if (wants_hidden_bytes(&strict)) {
            strict.note = -1;
            strict.code = COFFER_ERR_PADDING;
            check_parse(&strict, "coffer_parse without hidden_bytes", strict.bytes, strict.size);
            seen++;
        }
    }
    assert_true(seen > 0);
    expect_no_differences();
}

/* Costly notes are not looked for unasked. */
static void test_costly_notes_are_opt_in(void **state)
{
    (void)state;
    size_t seen = 0;
    for (size_t i = 0; i < vector_count; i++) {
        if (vectors[i].note != COFFER_NOTE_CASE) {
            continue;
        }
        coffer_table *table = NULL;
        const coffer_status status =
            coffer_parse(&table, NULL, vectors[i].bytes, vectors[i].size, coffer_libc_allocator(), NULL, NULL);
        assert_int_equal(status, COFFER_OK);
        assert_int_equal(coffer_table_note(table, COFFER_NOTE_CASE).count, 0);
        coffer_table_free(table);
        seen++;
    }
    assert_true(seen > 0);
}

/* ---- tests: prefixes, and files of unknown size ---- */

static void check_prefix(const vector *v, size_t size)
{
    const coffer_parse_options options = options_for(v);
    coffer_table *table = NULL;
    coffer_error err;
    uint64_t need = 0;
    const coffer_status status = coffer_parse(&table, &need, v->bytes, size, coffer_libc_allocator(), &options, &err);
    assert_null(table);
    if (v->size < 8) {
        assert_int_equal(status, v->code);
    } else if (size < 8) {
        assert_int_equal(status, COFFER_NEED_MORE);
        assert_int_equal(need, 8);
    } else if (frame_is_wrong(v)) {
        if (status == COFFER_OK || status == COFFER_NEED_MORE || err.offset != 0) {
            differ("%s: %zu bytes give %s", v->name, size, coffer_status_name(status));
        }
    } else {
        assert_int_equal(status, COFFER_NEED_MORE);
        assert_int_equal(need, 8 + header_length(v));
    }
}

static void test_every_prefix(void **state)
{
    (void)state;
    for (size_t i = 0; i < vector_count; i++) {
        const vector *v = &vectors[i];
        if (v->size > SMALL_VECTOR || is_empty(v)) {
            continue;
        }
        const uint64_t whole = v->size < 8 || frame_is_wrong(v) ? UINT64_MAX : 8 + header_length(v);
        for (size_t size = 0; size < v->size; size++) {
            if (size < whole) {
                check_prefix(v, size);
            } else {
                check_parse(v, "coffer_parse of a sufficient prefix", v->bytes, size);
            }
        }
    }
    expect_no_differences();
}

/* The verdict on a vector when nothing is known but its bytes. */
static coffer_status verdict_without_size(const vector *v)
{
    const bool frame_is_possible = header_length(v) > 0 && header_length(v) <= COFFER_DEFAULT_MAX_HEADER_SIZE;
    if (v->size < 8 || (frame_is_wrong(v) && frame_is_possible)) {
        return COFFER_NEED_MORE;
    }
    return v->code == COFFER_ERR_DATA_TRUNCATED || v->code == COFFER_ERR_TRAILING_BYTES ? COFFER_OK : v->code;
}

/* Without the file's size its end is not checked; everything else is. */
static void test_unknown_size(void **state)
{
    (void)state;
    for (size_t i = 0; i < vector_count; i++) {
        const vector *v = &vectors[i];
        coffer_parse_options options = options_for(v);
        options.file_size = 0;
        coffer_table *table = NULL;
        uint64_t need = 0;
        const coffer_status status =
            coffer_parse(&table, &need, v->bytes, v->size, coffer_libc_allocator(), &options, NULL);
        if (status != verdict_without_size(v)) {
            differ("%s: without a size %s", v->name, coffer_status_name(status));
        }
        if (status == COFFER_NEED_MORE) {
            assert_int_equal(need, v->size < 8 ? 8 : 8 + header_length(v));
        }
        coffer_table_free(table);
    }
    expect_no_differences();
}

/* ---- tests: sizes and names in the error ---- */

static void test_sizes_of_the_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < vector_count; i++) {
        const vector *v = &vectors[i];
        coffer_parse_options options = options_for(v);
        options.file_size = 0;
        coffer_table *table = NULL;
        if ((v->code != COFFER_ERR_DATA_TRUNCATED && v->code != COFFER_ERR_TRAILING_BYTES) ||
            coffer_parse(&table, NULL, v->bytes, v->size, coffer_libc_allocator(), &options, NULL) != COFFER_OK) {
            continue;
        }
        const uint64_t data_offset = coffer_table_data_offset(table);
        const uint64_t data_size = coffer_table_data_size(table);
        coffer_table_free(table);
        options.file_size = v->size;
        coffer_error err;
        assert_int_equal(coffer_parse(&table, NULL, v->bytes, v->size, coffer_libc_allocator(), &options, &err),
                         v->code);
        assert_int_equal(err.actual, v->size);
        if (data_size <= UINT64_MAX - data_offset) {
            assert_int_equal(err.expected, data_offset + data_size);
        }
    }
}

/* Where a tensor is to blame, it is named; where ranges do not meet, both ends are told. */
static void test_tensor_to_blame(void **state)
{
    (void)state;
    size_t holes = 0;
    for (size_t i = 0; i < vector_count; i++) {
        const vector *v = &vectors[i];
        const coffer_parse_options options = options_for(v);
        /* In layout A a tensor has its name only when all of the header was understood. */
        const bool named = (v->code >= COFFER_ERR_OVERFLOW && v->code <= COFFER_ERR_OVERLAP) ||
                           (v->format != COFFER_FORMAT_BINTENSORS_ALPHA &&
                            (v->code == COFFER_ERR_DTYPE || v->code == COFFER_ERR_MISSING_FIELD));
        if (!named) {
            continue;
        }
        coffer_table *table = NULL;
        coffer_error err;
        coffer_parse(&table, NULL, v->bytes, v->size, coffer_libc_allocator(), &options, &err);
        if (err.tensor[0] == '\0') {
            differ("%s: the error does not name the tensor", v->name);
        }
        if (v->code == COFFER_ERR_HOLE || v->code == COFFER_ERR_OVERLAP) {
            assert_true(v->code == COFFER_ERR_HOLE ? err.actual > err.expected : err.actual < err.expected);
            holes++;
        }
    }
    assert_true(holes > 10);
    expect_no_differences();
}

/* ---- tests: memory ---- */

static void test_memory_is_bounded(void **state)
{
    (void)state;
    for (size_t i = 0; i < vector_count; i++) {
        const vector *v = &vectors[i];
        const coffer_parse_options options = options_for(v);
        counter count;
        const coffer_allocator allocator = counting(&count);
        coffer_table *table = NULL;
        coffer_parse(&table, NULL, v->bytes, v->size, &allocator, &options, NULL);
        if (count.peak > (is_bintensors(v) ? 24u : 8u) * v->size + 4096) {
            differ("%s: %zu bytes take %zu of memory", v->name, v->size, count.peak);
        }
        coffer_table_free(table);
        assert_int_equal(count.live, 0);
    }
    expect_no_differences();
}

static void test_no_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < vector_count; i++) {
        const vector *v = &vectors[i];
        const coffer_parse_options options = options_for(v);
        for (size_t fail_from = 0; v->size <= SMALL_VECTOR && !is_empty(v); fail_from++) {
            counter count;
            const coffer_allocator allocator = counting(&count);
            count.fail_from = fail_from;
            coffer_table *table = NULL;
            coffer_error err;
            const coffer_status status = coffer_parse(&table, NULL, v->bytes, v->size, &allocator, &options, &err);
            coffer_table_free(table);
            assert_int_equal(count.live, 0);
            if (count.calls <= fail_from) {
                break;
            }
            if (status != COFFER_ERR_MEMORY || err.code != COFFER_ERR_MEMORY) {
                differ("%s: without memory %s: %s", v->name, coffer_status_name(status), err.message);
            }
        }
    }
    expect_no_differences();
}

/* ---- tests: the directory ---- */

static void test_every_code_and_note_has_a_vector(void **state)
{
    (void)state;
    for (int code = 20; code < 70; code++) {
        size_t seen = strcmp(coffer_status_name((coffer_status)code), "UNKNOWN") == 0 ? 1 : 0;
        for (size_t i = 0; i < vector_count; i++) {
            seen += (int)vectors[i].code == code ? 1 : 0;
        }
        if (seen == 0) {
            differ("no vector is refused with %s", coffer_status_name((coffer_status)code));
        }
    }
    for (int kind = 0; kind < COFFER_NOTE_UNINDEXED; kind++) { /* the others are notes of models */
        size_t seen = 0;
        for (size_t i = 0; i < vector_count; i++) {
            seen += vectors[i].note == kind ? 1 : 0;
        }
        if (seen == 0) {
            differ("no vector has the note %s", note_names[kind]);
        }
    }
    expect_no_differences();
}

static void test_every_dtype_has_a_vector(void **state)
{
    (void)state;
    for (int dtype = 1; dtype <= COFFER_DTYPE_COUNT; dtype++) {
        char name[64];
        size_t seen = 0;
        snprintf(name, sizeof name, "ok__dtype_%s.safetensors", coffer_dtype_name((coffer_dtype)dtype));
        for (size_t i = 0; i < vector_count; i++) {
            coffer_table *table = NULL;
            if (strcmp(vectors[i].name, name) == 0) {
                assert_int_equal(
                    coffer_parse(&table, NULL, vectors[i].bytes, vectors[i].size, coffer_libc_allocator(), NULL, NULL),
                    COFFER_OK);
                assert_int_equal(coffer_table_at(table, 0)->dtype, dtype);
                assert_int_equal(coffer_table_at(table, 0)->size, coffer_dtype_bits((coffer_dtype)dtype));
                coffer_table_free(table);
                seen++;
            }
        }
        assert_int_equal(seen, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_code_and_note_has_a_vector),
        cmocka_unit_test(test_every_dtype_has_a_vector),
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_parse_before_a_guard_page),
        cmocka_unit_test(test_parse_with_capacity_behind),
        cmocka_unit_test(test_parse_unaligned),
        cmocka_unit_test(test_open_memory),
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_unknown_dtypes_are_refused_by_default),
        cmocka_unit_test(test_formats_are_told_by_content),
        cmocka_unit_test(test_hidden_bytes_are_refused_by_default),
        cmocka_unit_test(test_costly_notes_are_opt_in),
        cmocka_unit_test(test_every_prefix),
        cmocka_unit_test(test_unknown_size),
        cmocka_unit_test(test_sizes_of_the_file),
        cmocka_unit_test(test_tensor_to_blame),
        cmocka_unit_test(test_memory_is_bounded),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_windows_that_fail),
        cmocka_unit_test(test_parse_through_a_window),
    };
    return cmocka_run_group_tests(tests, load_vectors, free_vectors);
}
