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

/* ---- Repositories of the Hub ---- */

/* Whether a URL names all of a repository, or a folder of one: hf://[datasets/|spaces/]owner/name[@revision], or a slash at
   its end. */
static bool is_repository(const char *url)
{
    static const char scheme[] = "hf://";
    static const char *const kinds[] = { "datasets/", "spaces/" };
    if (strncmp(url, scheme, sizeof scheme - 1) != 0) {
        return false;
    }
    url += sizeof scheme - 1;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        url += strncmp(url, kinds[i], strlen(kinds[i])) == 0 ? strlen(kinds[i]) : 0;
    }
    const char *name = strchr(url, '/');
    const char *file = name != NULL && memchr(url, '@', (size_t)(name - url)) == NULL ? strchr(name + 1, '/') : name;
    return file == NULL || file[strlen(file) - 1] == '/';
}

/* A repository that is being scanned. */
typedef struct repository {
    scan_run *run;
    size_t count;
    int code;
} repository;

/* One file. A name that is no part of a URL was not looked at. */
static int visit_file(void *ctx, const char *path, bool exists)
{
    repository *scanned = ctx;
    scanned->count++;
    if (exists) {
        scanned->code = cli_worse(scanned->code, scan_path(scanned->run, path));
        return cli_interrupted();
    }
    scanned->run->failed++;
    cli_say_path(scanned->run->app, path, "the Hub lists a file of this name, which cannot be asked for");
    scanned->code = cli_worse(scanned->code, CLI_EXIT_UNREADABLE);
    return cli_interrupted();
}

/* What was listed before a failure was looked at, but the sum says that not all was. */
static int scan_repository(scan_run *run, const char *url)
{
    coffer_error err;
    repository scanned = { .run = run, .code = CLI_EXIT_OK };
    run->clean = run->found = run->passed = run->failed = 0;
    const coffer_status status = coffer_list_repository(url, NULL, visit_file, &scanned, &err);
    if (status != COFFER_OK && !cli_interrupted()) {
        scanned.code = cli_worse(scanned.code, scan_fail(run, url, &err));
    } else if (scanned.count == 0 && !cli_interrupted()) {
        cli_say_path(run->app, url, "the repository has no files");
        scanned.code = CLI_EXIT_UNREADABLE;
    }
    if (scanned.count > 0 && !run->app->json && (!run->app->quiet || scanned.code != CLI_EXIT_OK)) {
        show_sum(run, url);
    }
    return scanned.code;
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
        const bool on_hub = is_repository(path);
        run.in_folder = on_hub || cli_is_folder(path);
        code = cli_worse(code, on_hub          ? scan_repository(&run, path)
                               : run.in_folder ? scan_folder(&run, path)
                                               : scan_path(&run, path));
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
    { "coffer scan hf://owner/name", "all files of a repository" },
    { NULL, NULL },
};

const cli_command cli_scan = {
    .name = "scan",
    .run = run_scan,
    .summary = "say what a program that loads a checkpoint would run",
    .usage = "PATH...",
    .about = "A pickle is a program: loading one can call anything. This reads checkpoints and arrays (PyTorch,\n"
             "NumPy, Paddle) and models of Keras without running anything, and lists what a loader would have\n"
             "called, with which arguments, what it would have imported, and what makes a file misleading. Any\n"
             "file is looked at as a pickle first, under any name. Of a checkpoint it reads the directory and the\n"
             "pickles, so a file at a URL need not be downloaded. Of other archives it reads every member, and\n"
             "what is in archives within them.\n"
             "\n"
             "Of a folder it scans each file below it; of a repository of the Hugging Face Hub, or a folder of one\n"
             "(hf://owner/name/folder/), each file that the Hub lists. Text, images and other media, which nothing\n"
             "runs, are passed over and counted. Links to files are followed; one to a folder is not, and counts\n"
             "as not looked at.\n"
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
