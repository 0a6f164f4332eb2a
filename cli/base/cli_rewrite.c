/* SPDX-License-Identifier: Apache-2.0 */
/* Rewriting a file: see cli_rewrite.h for the contract. */
#include "cli_rewrite.h"

#include "cli_consent.h"
#include "cli_edit.h"
#include "cli_files.h"
#include "cli_guard.h"
#include "cli_json.h"
#include "cli_model_folder.h"
#include "cli_options.h"
#include "cli_progress.h"
#include "cli_publish.h"
#include "cli_report.h"
#include "cli_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHANGES_SIZE 4096 /* of a text that says which change */
#define LINES_MAX 20      /* of changes before a question */
#define WAY_SIZE 256      /* of a text that says what is copied, and why */

typedef struct rewriting {
    cli *app;
    const char *path;
    const char *given;  /* -o, or NULL */
    const char *output; /* the same, or the model in that folder */
    bool into_folder;
    bool unplaced;           /* a dry run of what has to be written somewhere, which is not said */
    cli_model_folder folder; /* where `into_folder` is set and the model is open */
    coffer *model;
    coffer_rewrite *rewrite;
    cli_changes changes;
    bool every;                         /* change is shown by itself */
    const cli_rewrite_planner *planner; /* NULL: coffer_rewrite_plan */
    double started;
} rewriting;

/* ---- Whether it may be ---- */

static int check_output(const rewriting *run, bool force)
{
    int code = cli_publish_check_name(run->app, run->output);
    if (code == CLI_EXIT_OK) {
        code = cli_guard_input(run->app, run->output, run->path);
    }
    return code == CLI_EXIT_OK ? cli_publish_check(run->app, run->output, force) : code;
}

static int check_place(const rewriting *run, bool force)
{
    if (strcmp(run->path, "-") == 0) {
        return cli_usage_error(run->app, "standard input has no place to be rewritten in; say where the new file "
                                         "goes: -o FILE");
    }
    const int code = cli_guard_link(run->app, run->path, force);
    return code == CLI_EXIT_OK ? cli_guard_read_only(run->app, run->path, force) : code;
}

static int check(const rewriting *run, const cli_arguments *arguments)
{
    const bool force = cli_given(arguments, CLI_OPTION_FORCE);
    if (run->output != NULL && cli_given(arguments, CLI_OPTION_IN_PLACE)) {
        return cli_usage_error(run->app, "--in-place rewrites PATH, and -o writes another file: one of them");
    }
    if (run->unplaced) {
        return CLI_EXIT_OK;
    }
    if (run->into_folder) {
        return CLI_EXIT_OK; /* its files are looked at when the model is open, which has their names */
    }
    return run->output != NULL ? check_output(run, force) : check_place(run, force);
}

/* What is known once the model is open: of a folder or an index, its files. */
static int check_files(const rewriting *run, bool force)
{
    const size_t count = coffer_shard_count(run->model);
    int code = CLI_EXIT_OK;
    for (size_t i = 0; i < count && code == CLI_EXIT_OK; i++) {
        const char *file = coffer_shard_path(run->model, i);
        code = cli_guard_read_only(run->app, file, force);
        if (code == CLI_EXIT_OK && count == 1) {
            code = cli_guard_link(run->app, file, force);
        }
    }
    return code;
}

/* A model of several files, of which only the index has a name that is known before. */
static int check_index(const rewriting *run, bool force)
{
    const size_t size = strlen(run->output) + sizeof ".index.json";
    char *index = malloc(size);
    if (index == NULL) {
        return cli_fail_memory(run->app, run->output);
    }
    snprintf(index, size, "%s.index.json", run->output);
    int code = cli_guard_model(run->app, index, run->path, run->model);
    if (code == CLI_EXIT_OK) {
        code = cli_publish_check(run->app, index, force);
    }
    free(index);
    return code;
}

static int check_model(const rewriting *run, bool force, uint64_t max_shard_size)
{
    const bool sharded = max_shard_size != UINT64_MAX && (max_shard_size != 0 || coffer_shard_count(run->model) > 1);
    const bool single = cli_is_single_file(run->model, run->path);
    if (run->unplaced) {
        return CLI_EXIT_OK;
    }
    if (run->output == NULL) {
        return single ? CLI_EXIT_OK : check_files(run, force);
    }
    const int code = single ? CLI_EXIT_OK : cli_guard_model(run->app, run->output, run->path, run->model);
    return code == CLI_EXIT_OK && sharded ? check_index(run, force) : code;
}

/* ---- Telling ---- */

/* The new file, as it was named. */
static const char *new_name(const rewriting *run)
{
    return run->given != NULL ? run->given : run->path;
}

static int fail(const rewriting *run, const coffer_error *err)
{
    return cli_fail(run->app, err->path[0] != '\0' ? err->path : run->path, err);
}

/* A header that is edited leaves a file's size as it is, but where it gets more space. */
static uint64_t new_size(const coffer_rewrite_summary *summary)
{
    return summary->way == COFFER_REWRITE_HEADERS && summary->edited != COFFER_EDITED_REWRITE ? summary->size_before
                                                                                              : summary->size;
}

/* How it is done, in a word that never changes. */
static const char *way_of(const coffer_rewrite_summary *summary)
{
    static const char *const edits[] = { "header", "clone", "in_place", "rewrite", "insert" };
    if (summary->way == COFFER_REWRITE_NOTHING) {
        return "nothing";
    }
    return summary->way == COFFER_REWRITE_FILES ? "files" : edits[summary->edited];
}

static void show_json(const rewriting *run, const char *done)
{
    const coffer_rewrite_summary *summary = coffer_rewrite_summarize(run->rewrite);
    cli_output *out = &run->app->out;
    cli_json_open(out, '{', true);
    cli_json_key(out, "path");
    cli_json_string(out, run->path);
    cli_json_text_or_null(out, "output", new_name(run), run->unplaced ? 0 : strlen(new_name(run)));
    cli_json_key(out, "done");
    cli_json_string(out, done);
    cli_json_key(out, "way");
    cli_json_string(out, way_of(summary));
    cli_changes_json(out, &run->changes);
    cli_json_key(out, "tensors");
    cli_json_number(out, summary->tensor_count);
    cli_json_key(out, "size");
    cli_json_number(out, new_size(summary));
    cli_json_put_number(out, "lacking_files", summary->lacking_count);
    cli_json_put_number(out, "lacking_size", summary->lacking_size);
    cli_json_seconds(out, cli_seconds() - run->started);
    cli_json_close(out, '}');
}

/* "160 tensors, 548 MB"; of several files "3 files, 160 tensors, 548 MB" */
static void sum_up(const rewriting *run, char *text, size_t size)
{
    const coffer_rewrite_summary *summary = coffer_rewrite_summarize(run->rewrite);
    char bytes[CLI_NUMBER_SIZE];
    char count[CLI_NUMBER_SIZE];
    char files[CLI_NUMBER_SIZE] = "";
    if (summary->file_count > 1) {
        snprintf(files, sizeof files, "%zu files, ", summary->file_count);
    }
    cli_bytes_text(bytes, new_size(summary));
    cli_number_text(count, summary->tensor_count, true);
    snprintf(text, size, "%s%s tensor%s, %s", files, count, summary->tensor_count == 1 ? "" : "s", bytes);
}

static int show_nothing(const rewriting *run, const char *nothing)
{
    cli_remark_path(run->app, run->path, "nothing to do: %s", nothing);
    if (run->app->json) {
        show_json(run, "nothing");
    }
    return CLI_EXIT_OK;
}

/* Why tensors are copied though none of them changes: "; copied 5.0 GB: ...". Empty where that needs no reason: of a
   tensor that is dropped or cast everybody knows why. */
static void way_text(const rewriting *run, char *text, size_t size)
{
    const coffer_rewrite_summary *summary = coffer_rewrite_summarize(run->rewrite);
    char bytes[CLI_NUMBER_SIZE];
    text[0] = '\0';
    cli_bytes_text(bytes, summary->size);
    if (summary->way == COFFER_REWRITE_HEADERS) {
        cli_lacking_text(summary, run->changes.done, text, size);
    } else if (summary->reason == COFFER_REWRITE_FOR_SHARDED) {
        snprintf(text, size, "; copied %s: the files get other names, too", bytes);
    } else if (summary->reason == COFFER_REWRITE_FOR_DIGESTS) {
        snprintf(text, size, "; copied %s: digests are recorded, and those of tensors are of their names, too", bytes);
    }
}

static int show_plan(const rewriting *run)
{
    char sum[4 * CLI_NUMBER_SIZE];
    char changes[CHANGES_SIZE];
    char way[WAY_SIZE] = "";
    if (run->app->json) {
        show_json(run, "dry_run");
    } else {
        (run->every ? cli_changes_put : cli_changes_put_folded)(&run->app->out, &run->changes, SIZE_MAX);
    }
    sum_up(run, sum, sizeof sum);
    const bool edited = coffer_rewrite_summarize(run->rewrite)->way == COFFER_REWRITE_HEADERS;
    cli_changes_text(&run->changes, changes, sizeof changes);
    if (changes[0] != '\0') {
        way_text(run, way, sizeof way);
    }
    cli_remark_path(run->app, new_name(run),
                    edited ? "would be edited, without its tensors: %s%s" : "would be written: %s%s", sum, way);
    return CLI_EXIT_OK;
}

/* Says once for all tensors what casts lost. */
static void warn(const rewriting *run)
{
    uint64_t overflowed = 0;
    uint64_t vanished = 0;
    bool saturated = false;
    char text[2][CLI_NUMBER_SIZE];
    const coffer_rewrite_change *tensor = NULL;
    for (size_t i = 0; (tensor = coffer_rewrite_at(run->rewrite, i)) != NULL; i++) {
        overflowed += tensor->overflowed;
        vanished += tensor->vanished;
        saturated = saturated || (tensor->overflowed > 0 && tensor->to->dtype == COFFER_F8_E4M3);
    }
    if (overflowed + vanished > 0) {
        cli_number_text(text[0], overflowed, true);
        cli_number_text(text[1], vanished, true);
        cli_remark_path(run->app, run->path,
                        "warning: %s numbers became %s and %s became zero; --json says in which tensors", text[0],
                        saturated ? "infinite, or 448 in F8_E4M3," : "infinite", text[1]);
    }
}

static const char *verb_of(const rewriting *run)
{
    const coffer_rewrite_summary *summary = coffer_rewrite_summarize(run->rewrite);
    const bool edited = summary->way == COFFER_REWRITE_HEADERS && summary->edited != COFFER_EDITED_REWRITE;
    return edited ? "edited in place" : "written";
}

static int show_done(rewriting *run)
{
    char sum[4 * CLI_NUMBER_SIZE];
    char took[CLI_NUMBER_SIZE];
    char changes[CHANGES_SIZE];
    char way[WAY_SIZE];
    run->changes.done = true;
    warn(run);
    sum_up(run, sum, sizeof sum);
    cli_changes_text(&run->changes, changes, sizeof changes);
    cli_duration_text(took, cli_seconds() - run->started);
    way[0] = '\0';
    if (changes[0] != '\0') {
        way_text(run, way, sizeof way);
    }
    cli_remark_path(run->app, new_name(run), "%s: %s%s%s%s (%s)", verb_of(run), sum, changes[0] != '\0' ? "; " : "",
                    changes, way, took);
    if (run->app->json) {
        show_json(run, "written");
    }
    return CLI_EXIT_OK;
}

/* ---- Asking ---- */

/* The changes, one in a line, as many as are read at a glance. */
static void show_on_terminal(const rewriting *run)
{
    cli_output *out = malloc(sizeof *out);
    if (out == NULL) {
        return; /* the question says how many there are */
    }
    cli_output_init(out, STDERR_FILENO);
    out->before = run->app->out.before;
    out->before_ctx = run->app->out.before_ctx;
    cli_changes_put_folded(out, &run->changes, LINES_MAX);
    cli_output_flush(out);
    free(out);
}

/* A rewrite in the file's place destroys what it leaves out: a user who did not say so before is asked. */
static int ask(const rewriting *run)
{
    char changes[CHANGES_SIZE];
    char name[256];
    char question[sizeof name + 64];
    cli_changes_text(&run->changes, changes, sizeof changes);
    coffer_escape(run->path, strlen(run->path), name, sizeof name);
    if (!cli_can_ask()) {
        return cli_usage_error(
            run->app,
            "this would rewrite %s%s%s; allow that (--in-place), write another file (-o), or look at "
            "what would change (--dry-run)",
            name, changes[0] != '\0' ? ": " : "", changes);
    }
    show_on_terminal(run);
    if (changes[0] != '\0') {
        cli_say_path(run->app, run->path, "%s", changes);
    }
    snprintf(question, sizeof question, "Rewrite %s? That cannot be undone.", name);
    if (cli_ask(run->app, question)) {
        return CLI_EXIT_OK;
    }
    cli_say_path(run->app, run->path, "left as it is");
    return CLI_EXIT_NOT_CONFORMING;
}

/* ---- The whole ---- */

/* Carries the plan out, or does what comes before its first byte. */
static int use_plan(rewriting *run, bool dry_run)
{
    coffer_error err;
    cli_progress progress;
    cli_progress_part part = { &progress, 0 };
    const coffer_rewrite_summary *summary = coffer_rewrite_summarize(run->rewrite);
    coffer_read_options options = COFFER_READ_OPTIONS_INIT;
    options.progress = cli_progress_call;
    options.progress_ctx = &part;
    cli_progress_begin(&progress, run->app, dry_run ? "checking" : "writing", summary->copied + summary->cast);
    const coffer_status status = (dry_run ? coffer_rewrite_check : coffer_rewrite_run)(run->rewrite, &options, &err);
    cli_progress_finish(&progress);
    if (status != COFFER_OK) {
        return fail(run, &err);
    }
    return dry_run ? show_plan(run) : show_done(run);
}

static int carry_out(rewriting *run, const cli_arguments *arguments, const char *nothing)
{
    const bool agreed = cli_given(arguments, CLI_OPTION_IN_PLACE) || cli_given(arguments, CLI_OPTION_FORCE);
    if (coffer_rewrite_summarize(run->rewrite)->way == COFFER_REWRITE_NOTHING) {
        return show_nothing(run, nothing);
    }
    if (cli_given(arguments, CLI_OPTION_DRY_RUN)) {
        return use_plan(run, true);
    }
    const int code = run->output == NULL && !agreed ? ask(run) : CLI_EXIT_OK;
    return code == CLI_EXIT_OK ? use_plan(run, false) : code;
}

/* ---- Whole models ---- */

/* The dtype that most numbers have in the new model, where tensors were cast. Of those of 8 bits programs cannot compute
   in, so that their configuration keeps what it states. */
static coffer_dtype cast_dtype(const rewriting *run)
{
    static const coffer_dtype dtypes[] = { COFFER_F16, COFFER_BF16, COFFER_F32, COFFER_F64 };
    uint64_t bytes[sizeof dtypes / sizeof dtypes[0]] = { 0 };
    const coffer_rewrite_change *change = NULL;
    size_t most = 0;
    bool cast = false;
    for (size_t i = 0; (change = coffer_rewrite_at(run->rewrite, i)) != NULL; i++) {
        cast = cast || (change->to != NULL && change->to->dtype != change->from->dtype);
        for (size_t k = 0; change->to != NULL && k < sizeof dtypes / sizeof dtypes[0]; k++) {
            bytes[k] += change->to->dtype == dtypes[k] ? coffer_tensor_elements(change->to) : 0;
        }
    }
    for (size_t k = 1; k < sizeof dtypes / sizeof dtypes[0]; k++) {
        most = bytes[k] > bytes[most] ? k : most;
    }
    return cast && bytes[most] > 0 ? dtypes[most] : COFFER_UNKNOWN_DTYPE;
}

/* What the plan makes of the model, said in its companions. */
static int correct_companions(rewriting *run)
{
    cli_config_facts facts = { .dtype = cast_dtype(run) };
    uint32_t *layers = NULL;
    if (coffer_rewrite_layers(run->rewrite, NULL, 0, &facts.layers_before, &facts.layers_after)) {
        layers = calloc(facts.layers_after + 1, sizeof *layers);
        if (layers == NULL) {
            return cli_fail_memory(run->app, run->path);
        }
        (void)coffer_rewrite_layers(run->rewrite, layers, facts.layers_after, &facts.layers_before,
                                    &facts.layers_after);
        facts.layers = layers;
    }
    cli_model_folder_correct(&run->folder, &facts);
    free(layers);
    return CLI_EXIT_OK;
}

/* The folder of -o, once the model is known. */
static int open_folder(rewriting *run, coffer_rewrite_options *options, bool force)
{
    const coffer_format format =
        options->format != COFFER_FORMAT_ANY ? options->format : coffer_table_format(coffer_shard_table(run->model, 0));
    if (format != COFFER_FORMAT_SAFETENSORS) {
        return cli_usage_error(run->app, "a folder gets a model of safetensors: name a file (-o FILE), or convert it");
    }
    const int code = cli_model_folder_open(&run->folder, run->app, run->given, run->model, run->path, NULL, force);
    run->output = run->folder.path;
    options->companions = run->folder.files;
    options->companion_count = run->folder.count;
    return code;
}

/* What is packed stays so, unless it gets a format that has no packed files. */
static bool stays_packed(const rewriting *run, coffer_format format)
{
    const bool packed = cli_is_packed(run->model);
    const bool stays = packed && (format == COFFER_FORMAT_ANY || format == COFFER_FORMAT_SAFETENSORS);
    if (packed) {
        cli_remark_path(run->app, run->path, "is packed; %s",
                        stays ? "so is what is written" : "what is written is not");
    }
    return stays;
}

static int plan(rewriting *run, const cli_arguments *arguments, coffer_rewrite_options *options)
{
    coffer_error err;
    const char *size = cli_value(arguments, CLI_OPTION_MAX_SHARD_SIZE);
    if (size != NULL && !cli_read_size(size, &options->max_shard_size)) {
        return cli_usage_error(run->app, "--max-shard-size needs a number of bytes: 5GB, 500MB, 1GiB, 250000");
    }
    int code = check(run, arguments);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    if (run->model == NULL) {
        run->model = cli_recorded_open(run->app, run->path, &code);
    }
    if (run->model == NULL) {
        return code;
    }
    const bool force = cli_given(arguments, CLI_OPTION_FORCE);
    code = run->into_folder ? open_folder(run, options, force) : CLI_EXIT_OK;
    code = code == CLI_EXIT_OK ? check_model(run, force, options->max_shard_size) : code;
    if (code != CLI_EXIT_OK) {
        return code;
    }
    options->packed = stays_packed(run, options->format);
    options->output = run->output;
    options->follow_links = force;
    options->force = force;
    options->digests = cli_recorded_wanted(arguments, run->model);
    const cli_rewrite_planner *own = run->planner;
    const coffer_status status = own == NULL ? coffer_rewrite_plan(&run->rewrite, run->model, options, &err)
                                             : own->plan(own->ctx, &run->rewrite, run->model, options, &err);
    if (status != COFFER_OK) {
        return fail(run, &err);
    }
    return run->into_folder ? correct_companions(run) : CLI_EXIT_OK;
}

/* What cli_rewrite_model and cli_rewrite_choose share. */
static int rewrite_or_choose(rewriting *run, const cli_arguments *arguments, const coffer_rewrite_options *wanted,
                             const char *nothing)
{
    coffer_rewrite_options options = *wanted;
    run->path = arguments->names[0];
    run->given = cli_value(arguments, CLI_OPTION_OUTPUT);
    run->output = run->given;
    run->into_folder = cli_names_folder(run->given);
    const bool far = strcmp(run->path, "-") == 0 || strstr(run->path, "://") != NULL;
    options.unplaced = run->given == NULL && cli_given(arguments, CLI_OPTION_DRY_RUN) && (wanted->unplaced || far);
    run->unplaced = options.unplaced;
    run->every = cli_given(arguments, CLI_OPTION_ALL);
    run->started = cli_seconds();
    int code = plan(run, arguments, &options);
    if (code == CLI_EXIT_OK) {
        run->changes.rewrite = run->rewrite;
        run->changes.aligning = options.alignment != 0;
        code = carry_out(run, arguments, nothing);
    }
    coffer_rewrite_free(run->rewrite);
    coffer_close(run->model);
    cli_model_folder_close(&run->folder, code == CLI_EXIT_OK && !cli_given(arguments, CLI_OPTION_DRY_RUN));
    return code;
}

int cli_rewrite_check_given(cli *app, const cli_arguments *arguments)
{
    return cli_given(arguments, CLI_OPTION_OUTPUT) || cli_given(arguments, CLI_OPTION_DRY_RUN)
               ? CLI_EXIT_OK
               : cli_usage_error(app, "name the new file, or a folder for a whole model: -o FILE, -o FOLDER/");
}

int cli_rewrite_check(cli *app, const cli_arguments *arguments)
{
    const char *output = cli_value(arguments, CLI_OPTION_OUTPUT);
    const rewriting run = { .app = app,
                            .path = arguments->names[0],
                            .given = output,
                            .output = output,
                            .into_folder = cli_names_folder(output) };
    return check(&run, arguments);
}

int cli_rewrite_model(cli *app, const cli_arguments *arguments, const coffer_rewrite_options *wanted,
                      const char *nothing, coffer *model)
{
    rewriting run = { .app = app, .model = model };
    return rewrite_or_choose(&run, arguments, wanted, nothing);
}

int cli_rewrite(cli *app, const cli_arguments *arguments, const coffer_rewrite_options *wanted, const char *nothing)
{
    return cli_rewrite_model(app, arguments, wanted, nothing, NULL);
}

int cli_rewrite_planned(cli *app, const cli_arguments *arguments, const cli_rewrite_planner *planner)
{
    coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
    rewriting run = { .app = app, .changes = { .computed = &planner->computed }, .planner = planner };
    options.unplaced = true;
    const int code = cli_rewrite_check_given(app, arguments);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    return rewrite_or_choose(&run, arguments, &options, "");
}

cli_rewrite_texts cli_rewrite_names(const cli_arguments *arguments, cli_rewrite_read *take)
{
    return (cli_rewrite_texts){ arguments->names + 1, arguments->name_count - 1, take };
}

/* Reads the rules, then rewrites by them. */
static int read_and_rewrite(rewriting *run, const cli_arguments *arguments, const cli_rewrite_texts *given,
                            const coffer_rewrite_options *wanted, const char *nothing)
{
    coffer_rewrite_options options = *wanted;
    size_t capacity = 0;
    for (size_t i = 0; i < given->count; i++) {
        capacity += strlen(given->texts[i]) + 1;
    }
    coffer_rewrite_rule *rules = calloc(given->count + 1, sizeof *rules);
    char *patterns = malloc(capacity + 1);
    int code = rules != NULL && patterns != NULL ? CLI_EXIT_OK : cli_fail_memory(run->app, arguments->names[0]);
    char *pattern = patterns;
    for (size_t i = 0; i < given->count && code == CLI_EXIT_OK; i++) {
        code = given->read(run->app, given->texts[i], pattern, &rules[options.rule_count++]);
        pattern += strlen(given->texts[i]) + 1;
    }
    if (code == CLI_EXIT_OK) {
        options.rules = rules;
        code = rewrite_or_choose(run, arguments, &options, nothing);
    }
    free(patterns);
    free(rules);
    return code;
}

int cli_rewrite_by_rules(cli *app, const cli_arguments *arguments, const cli_rewrite_texts *rules,
                         const coffer_rewrite_options *wanted, const char *nothing)
{
    rewriting run = { .app = app };
    return read_and_rewrite(&run, arguments, rules, wanted, nothing);
}

int cli_rewrite_choose(cli *app, const cli_arguments *arguments, const cli_rewrite_texts *rules,
                       const coffer_rewrite_options *wanted)
{
    rewriting run = { .app = app, .changes = { .choosing = true } };
    return read_and_rewrite(&run, arguments, rules, wanted, "");
}

coffer_dtype cli_rewrite_dtype(const char *text)
{
    char name[16] = "";
    for (size_t i = 0; i + 1 < sizeof name && text[i] != '\0'; i++) {
        name[i] = (char)(text[i] >= 'a' && text[i] <= 'z' ? text[i] - 'a' + 'A' : text[i]);
    }
    const coffer_dtype dtype = coffer_dtype_from_name(name, strlen(name));
    return coffer_encode(dtype, NULL, 0, NULL) == COFFER_OK ? dtype : COFFER_UNKNOWN_DTYPE;
}

int cli_rewrite_read_keep(cli *app, const char *text, char *pattern, coffer_rewrite_rule *rule)
{
    (void)app;
    memcpy(pattern, text, strlen(text) + 1);
    *rule = (coffer_rewrite_rule){ .kind = COFFER_REWRITE_KEEP, .pattern = pattern };
    return CLI_EXIT_OK;
}
