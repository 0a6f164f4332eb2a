/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converting a file of another program: read in a sandbox, checked here, written by the library.
 *
 * Everything that can be refused is refused before the file is read, which may take a download:
 * options, and whether the output may be written. After that comes the reading, which runs in its
 * own process, one for each file; then either the plan is shown, or the file is written and compared. The input is
 * opened once, by this process, which answers the reader from it and copies the tensors out of it.
 */
#include "cli_guard.h"
#include "cli_options.h"
#include "cli_progress.h"
#include "cli_publish.h"
#include "cli_recorded.h"
#include "cli_report.h"
#include "cli_text.h"
#include "cli_try.h"
#include "convert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- What is asked for ---- */

/* What is to become of blocks, by the place among the option's values. */
static coffer_dtype read_blocks(int which)
{
    static const coffer_dtype dtypes[] = { COFFER_F32, COFFER_F16, COFFER_BF16 };
    return which < 0 ? COFFER_UNKNOWN_DTYPE : dtypes[which];
}

/* What the reader is to do with the file. The choices of an option are in the order of its table in
   cmd_convert.c, and the first is the default. */
static int read_wants(conversion *run, const cli_arguments *arguments, coffer_import_options *wants)
{
    cli *app = run->app;
    const char *bytes_as = cli_value(arguments, CLI_OPTION_BYTES_AS);
    const int tied = cli_which(arguments, CLI_OPTION_TIED);
    const int scalars = cli_which(arguments, CLI_OPTION_SCALARS);
    if (bytes_as != NULL) {
        wants->bytes_as = coffer_dtype_from_name(bytes_as, strlen(bytes_as));
        if (wants->bytes_as == COFFER_UNKNOWN_DTYPE) {
            return cli_usage_error(app, "--bytes-as needs a dtype of one byte, F8_E4M3 for one");
        }
    }
    if (cli_given(arguments, CLI_OPTION_RAW) && cli_given(arguments, CLI_OPTION_DEQUANTIZE)) {
        return cli_usage_error(app, "--raw and --dequantize contradict each other");
    }
    wants->root = cli_value(arguments, CLI_OPTION_ROOT);
    wants->strip_prefix = cli_value(arguments, CLI_OPTION_STRIP_PREFIX);
    wants->ties = tied > 0 ? COFFER_TIES_KEEP : COFFER_TIES_HF;
    wants->scalars = scalars > 0 ? (coffer_scalars)scalars : COFFER_SCALARS_SKIP;
    wants->skip_unsupported = cli_given(arguments, CLI_OPTION_SKIP_UNSUPPORTED);
    wants->strict = cli_given(arguments, CLI_OPTION_STRICT);
    wants->complex128 = cli_given(arguments, CLI_OPTION_COMPLEX128);
    wants->allow_expand = cli_given(arguments, CLI_OPTION_ALLOW_EXPAND);
    wants->raw_blocks = cli_given(arguments, CLI_OPTION_RAW);
    wants->packed = cli_given(arguments, CLI_OPTION_PACKED);
    wants->constants = cli_given(arguments, CLI_OPTION_CONSTANTS);
    wants->blocks_as = read_blocks(cli_which(arguments, CLI_OPTION_DEQUANTIZE));
    run->patterns = cli_values_of(arguments, CLI_OPTION_SELECT, &wants->select_count);
    wants->select = run->patterns;
    if (run->patterns == NULL) {
        return cli_fail_memory(app, run->path);
    }
    return CLI_EXIT_OK;
}

/* What the writer is to do; none of it matters to the reader. */
static int read_write_options(cli *app, const cli_arguments *arguments, coffer_import_write_options *writing)
{
    const char *size = cli_value(arguments, CLI_OPTION_MAX_SHARD_SIZE);
    if (size != NULL && !cli_read_size(size, &writing->max_shard_size)) {
        return cli_usage_error(app, "--max-shard-size needs a number of bytes: 5GB, 500MB, 1GiB, 250000");
    }
    writing->balanced = cli_given(arguments, CLI_OPTION_BALANCED);
    writing->force = cli_given(arguments, CLI_OPTION_FORCE);
    writing->unverified = cli_given(arguments, CLI_OPTION_NO_VERIFY);
    writing->unchecked = cli_given(arguments, CLI_OPTION_NO_CRC);
    writing->sidecar = cli_value(arguments, CLI_OPTION_SIDECAR);
    return CLI_EXIT_OK;
}

/* ---- Where it goes ---- */

/* Whether the index that is written beside the files, or the file itself, may be written: not over
   what is read, and over something else only with --force. The library asks again for each file;
   this is for an early and better message. */
static int check_output_name(const conversion *run, const char *output, const char *ending, bool force)
{
    const size_t size = strlen(output) + strlen(ending) + 1;
    char *name = malloc(size);
    if (name == NULL) {
        return cli_fail_memory(run->app, output);
    }
    snprintf(name, size, "%s%s", output, ending);
    int code = CLI_EXIT_OK;
    for (size_t i = 0; i < run->path_count && code == CLI_EXIT_OK; i++) {
        code = cli_guard_input(run->app, name, run->paths[i]);
    }
    if (code == CLI_EXIT_OK) {
        code = cli_publish_check(run->app, name, force);
    }
    free(name);
    return code;
}

/* A model that may become several files has an index, too. Whether it does is known only after
   reading, so both names are looked at. */
static int check_import_output(const conversion *run, const coffer_import_write_options *writing)
{
    int code = cli_publish_check_name(run->app, run->output);
    if (code == CLI_EXIT_OK) {
        code = check_output_name(run, run->output, "", writing->force);
    }
    if (code == CLI_EXIT_OK && run->sharded) {
        code = check_output_name(run, run->output, ".index.json", writing->force);
    }
    if (code == CLI_EXIT_OK && writing->sidecar != NULL) {
        code = check_output_name(run, writing->sidecar, "", writing->force);
    }
    return code;
}

/* The whole model to a folder; companions are those beside the first file. */
static int open_import_folder(conversion *run, coffer_format format, coffer_import_write_options *writing)
{
    if (format != COFFER_FORMAT_SAFETENSORS) {
        return cli_usage_error(run->app, "a folder gets a model of safetensors: name a file (-o FILE)");
    }
    const int code = cli_model_folder_open(&run->folder, run->app, run->output, NULL, run->path, NULL, writing->force);
    run->output = run->folder.path;
    writing->companions = run->folder.files;
    writing->companion_count = run->folder.count;
    return code;
}

/* ---- Writing ---- */

/* Counts a file of the model; its index is what says how many there are. */
static int count_file(void *ctx, const char *path, bool exists)
{
    (void)path;
    (void)exists;
    ++*(size_t *)ctx;
    return 0;
}

/* For the summary only, so a failure to read the index is no failure of the conversion. */
static void count_files(conversion *run)
{
    coffer_error err;
    const size_t size = strlen(run->output) + sizeof ".index.json";
    char *index = run->sharded ? malloc(size) : NULL;
    if (index != NULL) {
        snprintf(index, size, "%s.index.json", run->output);
        (void)coffer_list_files(index, NULL, count_file, &run->file_count, &err);
    }
    free(index);
}

/* What is told as progress has two halves if the output is compared, each as large as what is
   written. */
static int write_import(conversion *run, const coffer_import_write_options *writing)
{
    coffer_error err;
    cli_progress progress;
    cli_progress_part part = { &progress, 0 };
    const uint64_t bytes = coffer_import_summarize(run->opened.import)->output;
    coffer_read_options reading = COFFER_READ_OPTIONS_INIT;
    reading.progress = cli_progress_call;
    reading.progress_ctx = &part;
    cli_progress_begin(&progress, run->app, writing->unverified ? "writing" : "writing and comparing",
                       writing->unverified ? bytes : 2 * bytes);
    const coffer_status status = coffer_import_write(run->opened.import, run->output, writing, &reading, &err);
    cli_progress_finish(&progress);
    if (status != COFFER_OK) {
        return cli_import_fail(run->app, err.path[0] != '\0' ? err.path : run->path, &err);
    }
    run->verified = !writing->unverified;
    count_files(run);
    convert_show_done(run);
    if (run->app->json) {
        convert_show_json(run, "written");
    }
    return CLI_EXIT_OK;
}

/* Makes the new files, as far as their space, and removes them again. */
static coffer_status try_output(const conversion *run, const coffer_import_write_options *writing, coffer_error *err)
{
    coffer_header *header = NULL;
    coffer_writer *writer = NULL;
    coffer_model_writer *files = NULL;
    coffer_model_writer_options options = COFFER_MODEL_WRITER_OPTIONS_INIT;
    options.max_shard_size = run->sharded ? writing->max_shard_size : UINT64_MAX;
    options.balanced = writing->balanced;
    options.force = writing->force;
    options.files = writing->files;
    options.companions = writing->companions;
    options.companion_count = writing->companion_count;
    coffer_status status = coffer_header_new(&header, coffer_libc_allocator(), err);
    if (status == COFFER_OK) {
        status = coffer_import_declare(run->opened.import, header, err);
    }
    if (status == COFFER_OK && (run->sharded || writing->companion_count > 0)) {
        status = coffer_model_writer_open(&files, header, run->output, &options, err);
        status = status == COFFER_OK ? cli_try_files(files, header, err) : status;
    } else if (status == COFFER_OK) {
        status = coffer_writer_open(&writer, header, run->output, writing->files, err);
        status = status == COFFER_OK ? cli_try_file(writer, header, err) : status;
    }
    coffer_writer_free(writer);
    coffer_model_writer_free(files);
    coffer_header_free(header);
    return status;
}

/* Standard output has the plan in either form; nothing was written. */
static int show_dry_run(const conversion *run, const coffer_import_write_options *writing)
{
    coffer_error err;
    if (run->output != NULL && try_output(run, writing, &err) != COFFER_OK) {
        return cli_import_fail(run->app, err.path[0] != '\0' ? err.path : run->path, &err);
    }
    if (run->app->json) {
        convert_show_json(run, "dry_run");
    } else {
        convert_show_plan(run);
    }
    return CLI_EXIT_OK;
}

/* Which failure to report of a file that no reader knows: the first one says more, unless its message advises what was
   just done, or the second one names what the file is. */
static const coffer_error *choose_failure(const coffer_error *why_not, const coffer_error *err)
{
    const bool advises = strstr(why_not->message, "coffer convert") != NULL;
    const bool names = strncmp(err->message, "this is ", 8) == 0 || strncmp(err->message, "these are ", 10) == 0;
    const bool unknown = err->code == COFFER_ERR_DIRECTORY || (err->code == COFFER_ERR_UNKNOWN_INPUT && !names);
    return unknown && !advises ? why_not : err;
}

/* A pipe is gone when it was read once, and a file of another program is read at many places. */
static int refuse_standard_input(const conversion *run)
{
    for (size_t i = 0; i < run->path_count; i++) {
        if (strcmp(run->paths[i], "-") == 0) {
            return cli_usage_error(run->app, "files of other programs are not read from standard input: name the file");
        }
    }
    return CLI_EXIT_OK;
}

/* Reads one of the files. */
static int read_file(const conversion *run, const char *path, const cli_arguments *arguments,
                     const coffer_import_options *wants, const coffer_error *why_not, cli_import *opened)
{
    coffer_error err;
    const bool confined = !cli_given(arguments, CLI_OPTION_NO_SANDBOX);
    return cli_import_open(opened, path, wants, confined, &err) == COFFER_OK
               ? CLI_EXIT_OK
               : cli_import_fail(run->app, path, choose_failure(why_not, &err));
}

/* Reads one of the files after the first, which is no file of tensors either, and adds it. */
static int add_file(conversion *run, const char *path, const cli_arguments *arguments,
                    const coffer_import_options *wants)
{
    coffer_error err;
    coffer *model = NULL;
    if (cli_recorded_try(&model, path, &err) == COFFER_OK) {
        coffer_close(model);
        return cli_usage_error(run->app,
                               "%s is a file of tensors already, and the first file is not: convert the "
                               "others, then use coffer merge",
                               path);
    }
    if (!convert_may_be_foreign(path, &err)) {
        return cli_fail(run->app, path, &err);
    }
    cli_import *opened = &run->more[run->more_count++];
    const int code = read_file(run, path, arguments, wants, &err, opened);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    return coffer_import_add(run->opened.import, opened->import, &err) == COFFER_OK
               ? CLI_EXIT_OK
               : cli_import_fail(run->app, path, &err);
}

/* Reads all files, in the order in which they were named, and adds each to the first. Every one of them stays open until
   the end: its tensors are copied out of it. */
static int read_import(conversion *run, const cli_arguments *arguments, const coffer_import_options *wants,
                       const coffer_error *why_not)
{
    int code = read_file(run, run->path, arguments, wants, why_not, &run->opened);
    run->more = code == CLI_EXIT_OK ? calloc(run->path_count, sizeof *run->more) : NULL;
    if (code == CLI_EXIT_OK && run->more == NULL) {
        return cli_fail_memory(run->app, run->path);
    }
    for (size_t i = 1; i < run->path_count && code == CLI_EXIT_OK; i++) {
        code = add_file(run, run->paths[i], arguments, wants);
    }
    return code;
}

/* The steps in order; each one only if those before went well. */
static int carry_import_out(conversion *run, const cli_arguments *arguments, coffer_format format,
                            const coffer_error *why_not)
{
    coffer_import_options wants = COFFER_IMPORT_OPTIONS_INIT;
    coffer_import_write_options writing = COFFER_IMPORT_WRITE_OPTIONS_INIT;
    coffer_writer_options files = COFFER_WRITER_OPTIONS_INIT;
    const bool dry_run = cli_given(arguments, CLI_OPTION_DRY_RUN);
    int code = refuse_standard_input(run);
    if (code == CLI_EXIT_OK) {
        code = read_wants(run, arguments, &wants);
    }
    if (code == CLI_EXIT_OK) {
        code = read_write_options(run->app, arguments, &writing);
    }
    run->sharded = writing.max_shard_size > 0;
    if (code == CLI_EXIT_OK && cli_names_folder(run->output)) {
        code = open_import_folder(run, format, &writing);
    } else if (code == CLI_EXIT_OK && run->output != NULL) {
        code = check_import_output(run, &writing);
    }
    if (code == CLI_EXIT_OK) {
        code = read_import(run, arguments, &wants, why_not);
    }
    files.format = format;
    files.digests = cli_recorded_wanted(arguments, NULL);
    writing.files = &files;
    if (code != CLI_EXIT_OK) {
        return code;
    }
    return dry_run ? show_dry_run(run, &writing) : write_import(run, &writing);
}

/* Remarks are about all files together; a line with each of their names would be too long. */
static void label_files(conversion *run)
{
    if (run->path_count > 1) {
        snprintf(run->label, sizeof run->label, "%s and %zu more", run->path, run->path_count - 1);
    } else {
        snprintf(run->label, sizeof run->label, "%s", run->path);
    }
}

/* The import borrows all inputs, and so is closed first. */
int convert_import(cli *app, const cli_arguments *arguments, coffer_format format, const coffer_error *why_not)
{
    conversion run = { .app = app,
                       .path = arguments->names[0],
                       .paths = arguments->names,
                       .path_count = arguments->name_count,
                       .started = cli_seconds() };
    run.output = cli_value(arguments, CLI_OPTION_OUTPUT);
    run.given = run.output;
    label_files(&run);
    const int code = carry_import_out(&run, arguments, format, why_not);
    cli_import_close(&run.opened);
    for (size_t i = 0; i < run.more_count; i++) {
        cli_import_close(&run.more[i]);
    }
    cli_model_folder_close(&run.folder, code == CLI_EXIT_OK && !cli_given(arguments, CLI_OPTION_DRY_RUN));
    free(run.more);
    free((void *)run.patterns);
    return code;
}
