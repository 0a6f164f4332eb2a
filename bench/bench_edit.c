/* SPDX-License-Identifier: Apache-2.0 */
/* Changing the metadata of a file of 500 MB in place, beside writing it anew and beside copying it with cp. */
#include "bench.h"

#include <stdio.h>
#include <unistd.h>

typedef struct edit_file {
    const char *path;
    const char *copy;
    coffer_edit_mode mode;
} edit_file;

static double run_edit(void *ctx)
{
    static unsigned edits = 0;
    const edit_file *file = ctx;
    char value[16];
    const int length = snprintf(value, sizeof value, "%08u", edits++);
    const coffer_edit edit = { "revision", 8, value, (size_t)length };
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    options.mode = file->mode;
    coffer_error err;
    coffer_edit_way way = COFFER_EDITED_NOTHING;
    const double start = bench_now();
    bench_check(coffer_edit_metadata(file->path, &edit, 1, &options, &way, &err), &err);
    const double seconds = bench_now() - start;
    if (way == COFFER_EDITED_NOTHING) {
        bench_die("nothing was edited", NULL);
    }
    return seconds;
}

static double run_copy(void *ctx)
{
    const edit_file *file = ctx;
    const double seconds = bench_fresh_process("cp", "--reflink=never", file->path, file->copy, NULL);
    remove(file->copy);
    return seconds;
}

static void make_file(const char *path)
{
    coffer_error err;
    coffer_header *header = bench_is_quick() ? bench_matrix(250, 16000) : bench_model(BENCH_GPT2);
    coffer_header_options options = COFFER_HEADER_OPTIONS_INIT;
    options.slack = 4096;
    bench_check(coffer_header_build(header, &options, NULL, NULL, NULL, &err), &err);
    bench_write_full(path, header);
    coffer_header_free(header);
}

int main(void)
{
    bench_need_disk(bench_size((size_t)2 * BENCH_GB, 64 * BENCH_MB));
    edit_file in_place = { bench_path("edit.safetensors"), bench_path("copy.safetensors"), COFFER_EDIT_IN_PLACE };
    edit_file rewrite = in_place;
    rewrite.mode = COFFER_EDIT_REWRITE;
    make_file(in_place.path);
    const bench_rival rivals[2] = { { run_edit, &in_place }, { run_copy, &in_place } };
    const bench_rival ours[2] = { { run_edit, &in_place }, { run_edit, &rewrite } };
    const bench_result copying = bench_contest(rivals, 2, bench_size(9, 2));
    bench_row_of("edit the metadata of 500 MB", "ms", 1e3, &copying, "cp of the file", 1, "edit synced, copy not");
    const bench_result rewriting = bench_contest(ours, 2, bench_size(5, 2));
    bench_row_of("edit the metadata of 500 MB", "ms", 1e3, &rewriting, "the same by a rewrite", 1, "both synced");
    remove(in_place.path);
    return 0;
}
