/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer scan PATH…: what a loader would have called.
 *
 * Of a folder every file is looked at, all the way down, and gets the verdict that it would get if it were named. What
 * nothing runs is counted. A link out of the folder is followed, and told.
 *
 * Reading is confined like a conversion's, as the files are those that one does not trust.
 */
#include "cli_folder.h"
#include "cli_import.h"
#include "cli_interrupt.h"
#include "cli_json.h"
#include "cli_options.h"
#include "cli_report.h"
#include "scan_file.h"

#include <stdlib.h>
#include <string.h>

/* ---- Folders ---- */

/* A file of the folder. A link that leads somewhere else is told. */
static int scan_in_folder(scan_run *run, const char *folder, const char *path)
{
    char *real = realpath(path, NULL);
    char *below = real != NULL ? cli_name_below(folder, real) : NULL;
    run->target = below == NULL ? real : NULL;
    if (run->target != NULL) {
        char shown[1024];
        coffer_escape(real, strlen(real), shown, sizeof shown);
        cli_remark_path(run->app, path, "leads out of the folder, to %s", shown);
    }
    const int code = scan_path(run, path);
    run->target = NULL;
    free(below);
    free(real);
    return code;
}

/* How many files there were of each kind. */
static void show_sum(const scan_run *run, const char *path)
{
    const struct {
        size_t count;
        const char *what;
    } sums[] = {
        { run->clean, " clean" },
        { run->found, " with findings" },
        { run->failed, " not looked at, or not to the end" },
        { run->passed, " passed over (text, media: nothing runs them)" },
    };
    cli_output *out = &run->app->out;
    const char *separator = ": ";
    cli_put_escaped(out, path, strlen(path), 0);
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
        if (sums[i].count > 0) {
            cli_put_text(out, separator);
            cli_put_number(out, sums[i].count);
            cli_put_text(out, sums[i].what);
            separator = ", ";
        }
    }
    cli_put_char(out, '\n');
}

/* A folder without files is nothing that was looked at. */
static int scan_folder(scan_run *run, const char *path)
{
    cli_folder folder;
    const cli_folder_rule rule = { .follows_links = true, .needs_all = true };
    int code = cli_folder_list(run->app, path, &rule, &folder);
    run->clean = run->found = run->passed = 0;
    run->failed = folder.trouble;
    for (size_t i = 0; i < folder.count && !cli_interrupted(); i++) {
        code = cli_worse(code, scan_in_folder(run, path, folder.files[i].path));
    }
    if (folder.count == 0 && code == CLI_EXIT_OK) {
        cli_say_path(run->app, path, "the folder has no files");
        code = CLI_EXIT_UNREADABLE;
    }
    if (folder.count > 0 && !run->app->json && (!run->app->quiet || code != CLI_EXIT_OK)) {
        show_sum(run, path);
    }
    cli_folder_free(&folder);
    return code;
}

/* ---- The command ---- */

/* All files are looked at, whatever the first ones are; the exit code is that of the worst. */
static int run_scan(cli *app, const cli_arguments *arguments)
{
    int code = CLI_EXIT_OK;
    scan_run run = { .app = app, .confined = !cli_given(arguments, CLI_OPTION_NO_SANDBOX) };
    if (app->json) {
        cli_json_open(&app->out, '[', true);
    }
    for (size_t i = 0; i < arguments->name_count && !cli_interrupted(); i++) {
        const char *path = arguments->names[i];
        run.in_folder = cli_is_folder(path);
        code = cli_worse(code, run.in_folder ? scan_folder(&run, path) : scan_path(&run, path));
    }
    if (app->json) {
        cli_json_close(&app->out, ']');
    }
    return code;
}

static const cli_option SCAN_OPTIONS[] = {
    CLI_OPTION_ROW_NO_SANDBOX,
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_END,
};

static const cli_example SCAN_EXAMPLES[] = {
    { "coffer scan pytorch_model.bin", "before a program loads it" },
    { "coffer scan model/", "a folder, with everything below it" },
    { "coffer scan hf://owner/name/pytorch_model.bin", "without downloading it" },
    { NULL, NULL },
};

const cli_command cli_scan = {
    .name = "scan",
    .run = run_scan,
    .summary = "say what a program that loads a checkpoint would run",
    .usage = "PATH...",
    .about = "A pickle is a program: loading one can call anything. This reads checkpoints and arrays (PyTorch,\n"
             "NumPy, Paddle) and models of Keras without running anything, and lists what a loader would have\n"
             "called, with which arguments, what it would have imported, and what makes a file misleading. Any file\n"
             "is looked at as a pickle first, under any name. Of a checkpoint it reads the directory and the pickles, "
             "so a file\n"
             "at a URL need not be downloaded. Of other archives it reads every member, and what is in archives\n"
             "within them.\n"
             "\n"
             "Of a folder it scans each file below it. Text, images and other media, which nothing runs, are\n"
             "passed over and counted. Links to files are followed; one to a folder is not, and counts as not\n"
             "looked at.\n"
             "\n"
             "danger: made to run something, or to mislead; opaque: an object of another program, or code,\n"
             "harmless or not; note: worth knowing. A clean file has notes at most. That is no promise about other\n"
             "programs.\n"
             "\n"
             "Exit codes: 0 clean, 1 findings, 2 wrong usage, 3 a file that could not be read, or that is nothing\n"
             "that scan knows.\n"
             "\n"
             "JSON: an array of {path, from, clean, bytes_read, findings [{weight, text, subject, file, member,\n"
             "offset}]}. A file that fails has path and error (see coffer help info), one that is passed over path\n"
             "and passed_over. A link out of a folder has links_to, too.\n",
    .options = SCAN_OPTIONS,
    .examples = SCAN_EXAMPLES,
    .least_names = 1,
    .most_names = SIZE_MAX,
};
