/* SPDX-License-Identifier: Apache-2.0 */
/* coffer meta PATH [KEY]: show or change the metadata of a file, or of all files of a model. */
#include "cli_edit.h"
#include "cli_files.h"
#include "cli_guard.h"
#include "cli_options.h"
#include "cli_progress.h"
#include "cli_report.h"
#include "cli_text.h"
#include "meta.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REWRITE_WORTH_SAYING UINT64_C(100000000) /* bytes */
#define REPORTED_MAX 60                          /* bytes of a key or a value, in what is said of an edit */
#define EDITS_REPORTED 4                         /* edits of which something is said */
#define WAY_SIZE 256                             /* of a text that says what is copied, and why */
#define CHANGES_SIZE (EDITS_REPORTED * (8 * REPORTED_MAX + 32) + 128)

/* ---- Changing ---- */

/* The progress of a rewrite, which is announced when it takes long enough to be wondered at. */
typedef struct rewriting {
    cli *app;
    const char *path;
    bool wanted; /* the user asked for it */
    bool said;
    cli_progress_part part;
} rewriting;

static int tell_rewriting(void *ctx, uint64_t done, uint64_t total)
{
    rewriting *reported = ctx;
    if (!reported->said && total >= REWRITE_WORTH_SAYING) {
        char size[CLI_NUMBER_SIZE];
        cli_bytes_text(size, total);
        cli_remark_path(reported->app, reported->path, "%srewriting %s, with room for later edits%s",
                        reported->wanted ? "" : "the header has no room for this: ", size,
                        reported->wanted
                            ? ""
                            : "; --insert takes milliseconds, if the file system supports it (ext4, XFS) and "
                              "nobody has the file open");
    }
    reported->said = true;
    return cli_progress_call(&reported->part, done, total);
}

/* "license set, was \"mit\"": what an edit did to what the file had before. Returns the length that it needs. */
static size_t tell_edit(const coffer_edit *edit, const coffer_table *before, char *text, size_t size)
{
    char key[4 * REPORTED_MAX + 1];
    char value[4 * REPORTED_MAX + 1];
    size_t value_len = 0;
    const char *old = coffer_table_metadata_get(before, edit->key, edit->key_len, &value_len);
    const char *done = edit->value != NULL ? "set" : old != NULL ? "removed" : "not there";
    coffer_escape(edit->key, cli_cut_at_character(edit->key, edit->key_len, REPORTED_MAX), key, sizeof key);
    if (old == NULL) {
        return (size_t)snprintf(text, size, "%s %s", key, done);
    }
    const size_t cut = cli_cut_at_character(old, value_len, REPORTED_MAX);
    coffer_escape(old, cut, value, sizeof value);
    return (size_t)snprintf(text, size, "%s %s, was \"%s%s\"", key, done, value, cut < value_len ? "..." : "");
}

/* Whether the library sets the format, too: the first metadata of a file need it. */
static bool adds_format(const coffer *model, const coffer_edit *edits, size_t count)
{
    bool named = false;
    bool sets = false;
    for (size_t i = 0; i < count; i++) {
        named =
            named || (edits[i].key_len == strlen("format") && memcmp(edits[i].key, "format", edits[i].key_len) == 0);
        sets = sets || edits[i].value != NULL;
    }
    return sets && !named && !coffer_table_has_metadata(coffer_shard_table(model, 0));
}

/* What the edits are going to change, so that a slip can be made good: in the first file, as a rule the others have the
   same. */
static void tell_edits(const coffer *model, const coffer_edit *edits, size_t count, char text[CHANGES_SIZE])
{
    size_t used = 0;
    for (size_t i = 0; i < count && i < EDITS_REPORTED; i++) {
        used += (size_t)snprintf(text + used, CHANGES_SIZE - used, "%s", i > 0 ? "; " : "");
        used += tell_edit(&edits[i], coffer_shard_table(model, 0), text + used, CHANGES_SIZE - used);
    }
    if (count > EDITS_REPORTED) {
        used += (size_t)snprintf(text + used, CHANGES_SIZE - used, " and %zu more", count - EDITS_REPORTED);
    }
    if (adds_format(model, edits, count)) {
        snprintf(text + used, CHANGES_SIZE - used, "; format set to \"pt\", as loaders want it of files with metadata");
    }
}

/* What a change works with. */
typedef struct changing {
    cli *app;
    const char *path;
    const coffer_edit_options *asked;
    coffer_edit *edits;
    size_t count;
    char changes[CHANGES_SIZE]; /* in words */
    double started;
} changing;

static int change_file(changing *run)
{
    coffer_edit_way way = COFFER_EDITED_NOTHING;
    coffer_error err;
    cli_progress progress;
    cli_progress_begin(&progress, run->app, "rewriting", 0);
    rewriting reported = { run->app, run->path, run->asked->mode == COFFER_EDIT_REWRITE, false, { &progress, 0 } };
    coffer_edit_options options = *run->asked;
    options.progress = tell_rewriting;
    options.progress_ctx = &reported;
    const coffer_status status = coffer_edit_metadata(run->path, run->edits, run->count, &options, &way, &err);
    cli_progress_finish(&progress);
    if (status != COFFER_OK) {
        return cli_fail(run->app, run->path, &err);
    }
    return cli_report_edit(run->app, run->path, way, way == COFFER_EDITED_NOTHING ? "" : run->changes,
                           cli_seconds() - run->started);
}

/* What is copied though no tensor changes, and why; empty where nothing is. */
static void way_text(const coffer_rewrite_summary *summary, bool dry_run, char *text, size_t size)
{
    char bytes[CLI_NUMBER_SIZE];
    text[0] = '\0';
    if (summary->way == COFFER_REWRITE_HEADERS) {
        cli_lacking_text(summary, !dry_run, text, size);
        return;
    }
    cli_bytes_text(bytes, summary->size);
    snprintf(text, size, "; copied %s: %s", bytes,
             summary->reason == COFFER_REWRITE_FOR_SHARDED  ? "the files get other names, too"
             : summary->reason == COFFER_REWRITE_FOR_FORMAT ? "files are packed, and stay so"
                                                            : "digests are recorded in all files, as in some of them");
}

/* "edited 3 files", which one word serves for a dry run and for what was done. */
static int report_files(const changing *run, const coffer_rewrite_summary *summary, bool dry_run)
{
    char way[WAY_SIZE];
    char text[WAY_SIZE + 2 * CLI_NUMBER_SIZE + 32];
    const bool nothing = summary->way == COFFER_REWRITE_NOTHING;
    if (nothing) {
        return cli_report_edit(run->app, run->path, COFFER_EDITED_NOTHING, "", cli_seconds() - run->started);
    }
    way_text(summary, dry_run, way, sizeof way);
    snprintf(text, sizeof text, "%sedited %zu file%s%s", dry_run ? "would have " : "", summary->file_count,
             summary->file_count == 1 ? "" : "s", way);
    return cli_report_change(run->app, run->path, dry_run ? "dry_run" : "edited", text, run->changes,
                             cli_seconds() - run->started);
}

/* All files of a model, by a plan; and what would be done to one. */
static int change_files(changing *run, const coffer *model, bool dry_run)
{
    coffer_error err;
    cli_progress progress;
    coffer_rewrite *rewrite = NULL;
    coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
    coffer_read_options read = COFFER_READ_OPTIONS_INIT;
    options.edits = run->edits;
    options.edit_count = run->count;
    options.follow_links = run->asked->follow_links;
    options.packed = cli_is_packed(model);
    cli_progress_begin(&progress, run->app, "rewriting", 0);
    cli_progress_part part = { &progress, 0 };
    read.progress = cli_progress_call;
    read.progress_ctx = &part;
    coffer_status status = coffer_rewrite_plan(&rewrite, model, &options, &err);
    if (status == COFFER_OK && !dry_run) {
        status = coffer_rewrite_run(rewrite, &read, &err);
    }
    cli_progress_finish(&progress);
    const int code = status == COFFER_OK ? report_files(run, coffer_rewrite_summarize(rewrite), dry_run)
                                         : cli_fail(run->app, err.path[0] != '\0' ? err.path : run->path, &err);
    coffer_rewrite_free(rewrite);
    return code;
}

/* A model of several files is edited as one; what is asked for beyond keys and values is for single files. */
static int change_model(changing *run, const coffer *model, bool dry_run)
{
    const size_t count = coffer_shard_count(model);
    int code = CLI_EXIT_OK;
    if (run->asked->mode == COFFER_EDIT_REWRITE || run->asked->insert) {
        return cli_usage_error(run->app, "%s is for one file: name it", run->asked->insert ? "--insert" : "--rewrite");
    }
    for (size_t i = 0; i < count && code == CLI_EXIT_OK; i++) {
        code = cli_guard_read_only(run->app, coffer_shard_path(model, i), run->asked->read_only || dry_run);
    }
    return code == CLI_EXIT_OK ? change_files(run, model, dry_run) : code;
}

/* Closes the model: nobody may have a file open into which space is inserted. A file that cannot be opened (NULL) may have
   an edit to recover: editing it says so. */
static int change_opened(changing *run, coffer *model, bool dry_run)
{
    if (model != NULL) {
        tell_edits(model, run->edits, run->count, run->changes);
    }
    /* What is packed has its metadata within; how they are to be edited in a plain file (--rewrite, --insert) does not apply. */
    const bool packed =
        model != NULL && cli_is_packed(model) && run->asked->mode != COFFER_EDIT_REWRITE && !run->asked->insert;
    if (model != NULL && (dry_run || packed || !cli_is_single_file(model, run->path))) {
        const int changed = change_model(run, model, dry_run);
        coffer_close(model);
        return changed;
    }
    coffer_close(model);
    const int code = cli_guard_read_only(run->app, run->path, run->asked->read_only);
    return code == CLI_EXIT_OK ? change_file(run) : code;
}

static int change(cli *app, const cli_arguments *arguments, const coffer_edit_options *asked)
{
    coffer *model = NULL;
    coffer_error err;
    const char *path = arguments->names[0];
    changing run = { .app = app, .path = path, .asked = asked, .started = cli_seconds() };
    if (cli_open_quietly(&model, path, false, &err) != COFFER_OK) {
        model = NULL;
    }
    meta_edits edits = { .app = app, .path = path, .model = model };
    int code = meta_edits_read(&edits, arguments);
    run.edits = edits.edits;
    run.count = edits.count;
    if (code == CLI_EXIT_OK) {
        code = change_opened(&run, model, cli_given(arguments, CLI_OPTION_DRY_RUN));
    } else {
        coffer_close(model);
    }
    meta_edits_free(&edits);
    return code;
}

static int recover(cli *app, const char *path, const coffer_edit_options *options)
{
    coffer_error err;
    const double start = cli_seconds();
    const int code = cli_guard_read_only(app, path, options->read_only);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    if (coffer_recover(path, options, &err) != COFFER_OK) {
        return cli_fail(app, path, &err);
    }
    return cli_report_change(app, path, "recovered", "recovered: nothing is unfinished", "", cli_seconds() - start);
}

static int run_meta(cli *app, const cli_arguments *arguments)
{
    const bool fixes = cli_given(arguments, CLI_OPTION_FIX);
    const bool recovers = cli_given(arguments, CLI_OPTION_RECOVER) || fixes;
    const bool rewrites = cli_given(arguments, CLI_OPTION_REWRITE);
    const bool edits = cli_given(arguments, CLI_OPTION_SET) || cli_given(arguments, CLI_OPTION_UNSET) ||
                       cli_given(arguments, CLI_OPTION_SET_JSON);
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    options.follow_links = cli_given(arguments, CLI_OPTION_FOLLOW_LINKS);
    options.read_only = options.follow_links;
    options.mode = rewrites ? COFFER_EDIT_REWRITE : COFFER_EDIT_AUTO;
    options.insert = cli_given(arguments, CLI_OPTION_INSERT);
    if (recovers && (edits || rewrites || (fixes && cli_given(arguments, CLI_OPTION_RECOVER)))) {
        return cli_usage_error(app, "--%s cannot be combined with other options; edit afterwards",
                               fixes ? "fix" : "recover");
    }
    if ((recovers || edits || rewrites) && arguments->name_count == 2) {
        return cli_usage_error(app,
                               "a KEY is for showing, and excludes --set, --unset, --rewrite, --recover and --fix");
    }
    if (options.insert && (rewrites || !edits)) {
        return cli_usage_error(app, "--insert needs --set or --unset, and excludes --rewrite");
    }
    if (options.follow_links && !recovers && !edits && !rewrites) {
        return cli_usage_error(app, "--force needs --set, --unset, --rewrite, --recover or --fix");
    }
    if ((recovers || edits || rewrites) && strcmp(arguments->names[0], "-") == 0) {
        return cli_usage_error(app, "standard input can only be shown, not edited; name the file");
    }
    if ((recovers || edits || rewrites) && strstr(arguments->names[0], "://") != NULL) {
        return cli_usage_error(app, "what is at a URL can only be shown, not edited; coffer fetch brings it");
    }
    if (cli_given(arguments, CLI_OPTION_DRY_RUN) && !edits && !fixes) {
        return cli_usage_error(app, "--dry-run needs --set, --unset or --fix");
    }
    if (app->tsv && (recovers || edits || rewrites || arguments->name_count == 2)) {
        return cli_usage_error(app, "--tsv is for all keys");
    }
    if (fixes) {
        return meta_fix(app, arguments, &options);
    }
    if (recovers) {
        return recover(app, arguments->names[0], &options);
    }
    return edits || rewrites ? change(app, arguments, &options) : meta_show(app, arguments);
}

static const cli_option META_OPTIONS[] = {
    { CLI_OPTION_SET, 0, "set", "KEY=VALUE", "set a key, of KEY=@FILE to the file's text; repeatable", NULL },
    { CLI_OPTION_SET_JSON, 0, "set-json", "FILE", "set the keys of a JSON object of strings; null removes one", NULL },
    { CLI_OPTION_UNSET, 0, "unset", "KEY", "remove a key, or all that match a pattern; repeatable", NULL },
    { CLI_OPTION_DRY_RUN, 'n', "dry-run", NULL, "say what would change, and change nothing", NULL },
    { CLI_OPTION_REWRITE, 0, "rewrite", NULL, "write a new file even if the edit fits in place; leaves slack", NULL },
    { CLI_OPTION_INSERT, 0, "insert", NULL, "if there is no room, insert blocks before the data, in milliseconds",
      NULL },
    { CLI_OPTION_FOLLOW_LINKS, 'f', "force", NULL,
      "edit what a link points to, files with several names, and read-only ones", NULL },
    { CLI_OPTION_RECOVER, 0, "recover", NULL, "undo an interrupted edit, or finish or undo an interrupted save", NULL },
    { CLI_OPTION_FIX, 0, "fix", NULL, "cut off bytes after the tensors; make strings of other values", NULL },
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_TSV,
    CLI_OPTION_ROW_END,
};

static const cli_example META_EXAMPLES[] = {
    { "coffer meta model.safetensors", "all keys and values" },
    { "coffer meta model.safetensors format", "one value, unescaped" },
    { "coffer meta model.safetensors --set license=mit --unset draft", "change the file, in place if it fits" },
    { "coffer meta lora.safetensors --unset 'ss_*'", "without what a trainer left in it" },
    { "coffer meta model/ --set license=mit", "every file of a model, or none" },
    { NULL, NULL },
};

const cli_command cli_meta = {
    .name = "meta",
    .run = run_meta,
    .summary = "show or edit the metadata of a file or model",
    .usage = "PATH [KEY]",
    .about = "Shows the metadata, or the unescaped value of one key, or changes keys. A change that fits into the\n"
             "header's slack is made in place, in milliseconds regardless of the file's size; otherwise the file\n"
             "is rewritten, with slack for later edits (on Btrfs and XFS the new file shares the old one's blocks,\n"
             "which also takes milliseconds). With --insert ext4 and XFS insert room before the data instead;\n"
             "nobody else may have the file open, and a power cut in these milliseconds may destroy it. Standard\n"
             "error says how it was done. - is standard input, which can only be shown.\n"
             "\n"
             "Of an index or a folder all files of the model change together: after a crash it is the old model,\n"
             "the new one, or what --recover makes one of the two.\n"
             "\n"
             "Patterns are those of coffer drop, and each has to match a key, or nothing is done. KEY=@@TEXT\n"
             "sets @TEXT. A file's first metadata get format=pt, too, without which loaders refuse them; to set\n"
             "the format sets another.\n"
             "\n"
             "--fix is for a file that cannot be opened though all of its tensors are there: bytes that follow\n"
             "the last tensor and belong to none are cut off, and values of the metadata that are no strings\n"
             "(numbers, true, null, objects) become strings, their JSON text.\n",
    .options = META_OPTIONS,
    .examples = META_EXAMPLES,
    .least_names = 1,
    .most_names = 2,
};
