/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a file of one tensor from memory: a new file, beside loops of pwrite with and without setting the space aside
 * first; replacing a file, durably and not, beside the reference's save_file and beside the same by bare system calls; and
 * the memory that writing takes.
 *
 * When a file is replaced, the kernel frees the old one before the rename returns; ours, not synced, has that done by a thread
 * after it returned. It takes longer when the old file is on the disk already than when it is still in memory only, so both are
 * measured, each rival has a file of its own, and what ours left to its thread is waited for: nobody pays for another.
 */
#define _GNU_SOURCE /* fallocate */

#include "bench.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE_SIZE ((size_t)8 << 20)
#define COLUMNS 16000u
#define ROW_SIZE (COLUMNS * sizeof(float))

typedef struct write_file {
    const char *path;
    const char *data;
    size_t size;
    coffer_sync sync;
    bool settled; /* the file that is replaced is on the disk */
    bool set_aside;
    size_t start; /* where a loop of pwrite puts the data; what is before it counts as well */
    bench_reference *reference;
} write_file;

/* Sees to the state in which the file has to be that is replaced. */
static void settle(const write_file *file)
{
    const int fd = file->settled ? open(file->path, O_RDONLY) : -1;
    if (fd >= 0 && (fsync(fd) != 0 || close(fd) != 0)) {
        bench_die(file->path, NULL);
    }
}

/* ---- ours ---- */

/* Whether this process still holds a file that was replaced. */
static bool holds_replaced(void)
{
    char line[8192];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        found = found || strstr(line, ".safetensors (deleted)") != NULL;
    }
    if (maps != NULL) {
        fclose(maps);
    }
    return found;
}

static double write_ours(void *ctx)
{
    const write_file *file = ctx;
    coffer_error err;
    coffer_writer *writer = NULL;
    coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    options.sync = file->sync;
    settle(file);
    const double start = bench_now();
    coffer_header *header = bench_matrix(file->size / ROW_SIZE, COLUMNS);
    bench_check(coffer_writer_open(&writer, header, file->path, &options, &err), &err);
    bench_check(coffer_writer_write(writer, 0, 0, file->data, file->size, &err), &err);
    bench_check(coffer_writer_finish(writer, &err), &err);
    coffer_writer_free(writer);
    coffer_header_free(header);
    const double seconds = bench_now() - start;
    while (holds_replaced()) {
        usleep(1000);
    }
    return seconds;
}

static double write_ours_new(void *ctx)
{
    const double seconds = write_ours(ctx);
    remove(((const write_file *)ctx)->path);
    return seconds;
}

/* ---- the others ---- */

/* Sets space aside without changing the file's length, which is faster to write into than posix_fallocate's. */
static bool set_space_aside(int fd, size_t size)
{
#ifdef FALLOC_FL_KEEP_SIZE
    return fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)size) == 0;
#else
    return posix_fallocate(fd, 0, (off_t)size) == 0;
#endif
}

/* Makes the file and puts the data there by pwrite. */
static int write_bare(const write_file *file, const char *path)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0666);
    if (fd < 0 || (file->set_aside && !set_space_aside(fd, file->start + file->size))) {
        bench_die(path, NULL);
    }
    if (pwrite(fd, file->data, file->start, 0) != (ssize_t)file->start) {
        bench_die(path, NULL);
    }
    for (size_t at = 0; at < file->size;) {
        const size_t left = file->size - at;
        const ssize_t done =
            pwrite(fd, file->data + at, left < PIECE_SIZE ? left : PIECE_SIZE, (off_t)(file->start + at));
        if (done <= 0) {
            bench_die(path, NULL);
        }
        at += (size_t)done;
    }
    return fd;
}

static double write_floor(void *ctx)
{
    const write_file *file = ctx;
    const double start = bench_now();
    close(write_bare(file, file->path));
    const double seconds = bench_now() - start;
    remove(file->path);
    return seconds;
}

static double replace_bare(void *ctx)
{
    const write_file *file = ctx;
    char part[4096];
    snprintf(part, sizeof part, "%s.part", file->path);
    settle(file);
    const double start = bench_now();
    const int fd = write_bare(file, part);
    if ((file->sync != COFFER_SYNC_NEVER && fdatasync(fd) != 0) || close(fd) != 0 || rename(part, file->path) != 0) {
        bench_die(file->path, NULL);
    }
    return bench_now() - start;
}

static double write_reference(void *ctx)
{
    const write_file *file = ctx;
    settle(file);
    return bench_reference_run(file->reference, "save", file->path, file->size);
}

/* ---- memory ---- */

/* Writes a file from 16 MB pieces, and prints the most memory that this process had. */
static int write_pieces(const char *path, const char *rows)
{
    enum { ROWS = 250 };
    const size_t pieces = (size_t)strtoull(rows, NULL, 10) / ROWS;
    const size_t piece_size = ROWS * ROW_SIZE;
    char *piece = bench_alloc(piece_size);
    memset(piece, 1, piece_size);
    coffer_error err;
    coffer_header *header = bench_matrix(pieces * ROWS, COLUMNS);
    coffer_writer *writer = NULL;
    bench_check(coffer_writer_open(&writer, header, path, NULL, &err), &err);
    for (size_t i = 0; i < pieces; i++) {
        bench_check(coffer_writer_write(writer, 0, i * piece_size, piece, piece_size, &err), &err);
    }
    bench_check(coffer_writer_finish(writer, &err), &err);
    coffer_writer_free(writer);
    coffer_header_free(header);
    free(piece);
    printf("%.9g\n", bench_peak_memory());
    return 0;
}

/* ---- rows ---- */

/* Where the data of the file begins. */
static size_t data_start(size_t size)
{
    coffer_header *header = bench_matrix(size / ROW_SIZE, COLUMNS);
    uint64_t start = 0;
    const coffer_table *table = NULL;
    bench_build(header, &start, &table);
    coffer_header_free(header);
    return (size_t)start;
}

static void measure_new(write_file file)
{
    file.sync = COFFER_SYNC_REPLACE;
    file.start = data_start(file.size);
    write_file plain = file;
    write_file set_aside = file;
    set_aside.set_aside = true;
    write_file aligned = set_aside;
    aligned.start = 0;
    const bench_rival rivals[4] = {
        { write_ours_new, &file }, { write_floor, &set_aside }, { write_floor, &aligned }, { write_floor, &plain }
    };
    const bench_result result = bench_contest(rivals, 4, bench_size(15, 2));
    const double gb = (double)file.size / BENCH_GB;
    bench_row_of("write 1 GB, new file", "GB/s", gb, &result, "pwrite of the same, space set aside", 1, "not synced");
    bench_row_of("write 1 GB, new file", "GB/s", gb, &result, "the same without a header", 2, "not synced");
    bench_row_of("write 1 GB, new file", "GB/s", gb, &result, "pwrite of the same, nothing set aside", 3, "not synced");
}

/* Lets all replace files by one policy, each its own; bare system calls only where they leave nothing for the disk to do
   while the others are measured. */
static void measure_replacing(const char *name, const write_file *common, const char *state)
{
    write_file ours = *common;
    write_file bare = *common;
    write_file reference = *common;
    ours.path = bench_path("write.safetensors");
    bare.path = bench_path("write-bare.safetensors");
    bare.set_aside = true;
    bare.start = data_start(common->size);
    reference.path = bench_path("write-reference.safetensors");
    const bool has_reference = common->reference != NULL;
    const bench_rival rivals[3] = { { write_ours, &ours }, { write_reference, &reference }, { replace_bare, &bare } };
    const bench_rival without[2] = { rivals[0], rivals[2] };
    const double gb = (double)common->size / BENCH_GB;
    const char *bare_name = common->sync == COFFER_SYNC_NEVER ? "pwrite, rename" : "pwrite, fdatasync, rename";
    const size_t count = (has_reference ? 2u : 1u) + (common->settled ? 1u : 0u);
    const bench_result result = bench_contest(has_reference ? rivals : without, count, bench_size(9, 2));
    if (has_reference) {
        bench_row_of(name, "GB/s", gb, &result, "reference: save_file", 1, state);
    }
    if (common->settled) {
        bench_row_of(name, "GB/s", gb, &result, bare_name, count - 1, state);
    }
    remove(ours.path);
    remove(bare.path);
    remove(reference.path);
}

static void measure_policies(write_file file)
{
    file.reference = bench_reference_new();
    file.sync = COFFER_SYNC_REPLACE;
    file.settled = true;
    measure_replacing("replace 1 GB, default", &file, "over a file on the disk, synced before the rename");
    file.sync = COFFER_SYNC_NEVER;
    measure_replacing("replace 1 GB, sync never", &file, "over a file on the disk, not synced");
    if (file.reference != NULL) {
        file.settled = false;
        measure_replacing("replace 1 GB, sync never", &file, "each over its own last save, not synced");
    }
    bench_reference_free(file.reference);
}

static void measure_memory(const char *path)
{
    const double limit = 64 * (double)BENCH_MB;
    const char *rows = bench_is_quick() ? "1000" : "62500";
    double peak = 0;
    bench_fresh_process(NULL, path, rows, NULL, &peak);
    bench_row("memory to write 4 GB in pieces of 16 MB", "MB", peak / BENCH_MB, "limit", limit / BENCH_MB, limit / peak,
              "fresh process, VmHWM, new file, not synced");
    remove(path);
}

int main(int argc, char **argv)
{
    bench_set_self(argv[0]);
    if (argc == 3) {
        return write_pieces(argv[1], argv[2]);
    }
    bench_need_disk(bench_size((size_t)4 * BENCH_GB, 64 * BENCH_MB));
    write_file file = { .path = bench_path("write.safetensors"), .size = bench_size(15625, 250) * ROW_SIZE };
    char *data = coffer_buffer_new(file.size);
    if (data == NULL) {
        bench_die("coffer_buffer_new", NULL);
    }
    memset(data, 1, file.size);
    file.data = data;
    remove(file.path);
    measure_new(file);
    measure_policies(file);
    coffer_buffer_free(data, file.size);
    measure_memory(bench_path("write.safetensors"));
    return 0;
}
