/* SPDX-License-Identifier: Apache-2.0 */
/* coffer verify PATH: whether files are what they were when somebody wrote down their digests. */
#include "cli_folder.h"
#include "cli_guard.h"
#include "cli_interrupt.h"
#include "cli_models.h"
#include "cli_options.h"
#include "cli_report.h"
#include "cli_text.h"
#include "verify.h"

#include <string.h>

/* ---- What is found ---- */

static void put_where(cli_output *out, const char *path, const coffer_tensor *tensor)
{
    const char *shown = cli_shown_path(path);
    cli_put_escaped(out, shown, strlen(shown), 0);
    cli_put_text(out, ": ");
    if (tensor != NULL) {
        cli_put_escaped(out, tensor->name, tensor->name_len, 0);
        cli_put_text(out, ": ");
    }
}

static void put_row(cli_output *out, const char *path, const coffer_tensor *tensor, const char *verdict,
                    const char *why)
{
    cli_tsv_text(out, cli_shown_path(path));
    if (tensor != NULL) {
        cli_tsv_text_n(out, tensor->name, tensor->name_len);
    } else {
        cli_tsv_raw(out, "");
    }
    cli_tsv_text(out, verdict);
    cli_tsv_raw(out, why);
    cli_tsv_finish(out);
}

static void put_object(cli_output *out, const char *path, const coffer_tensor *tensor, const char *verdict,
                       const char *why)
{
    cli_json_open(out, '{', false);
    cli_json_key(out, "path");
    cli_json_string(out, cli_shown_path(path));
    if (tensor != NULL) {
        cli_json_key(out, "tensor");
        cli_json_string_n(out, tensor->name, tensor->name_len);
    }
    cli_json_key(out, "verdict");
    cli_json_string(out, verdict);
    cli_json_key(out, "message");
    cli_json_string(out, why);
    cli_json_close(out, '}');
}

/* A user who watches shall see it at once. */
static void show_now(cli *app)
{
    if (app->out.width > 0) {
        cli_output_flush(&app->out);
    }
}

void verify_show_sound(verify_run *run, const char *path, const char *how)
{
    cli *app = run->app;
    run->sound++;
    if (app->json) {
        put_object(&app->out, path, NULL, "ok", how);
    } else if (app->tsv) {
        put_row(&app->out, path, NULL, "ok", how);
    } else if (!app->quiet) {
        put_where(&app->out, path, NULL);
        cli_put_styled(&app->out, CLI_GREEN, "ok");
        cli_put_text(&app->out, " (");
        cli_put_text(&app->out, how);
        cli_put_text(&app->out, ")\n");
        show_now(app);
    }
}

void verify_show_problem(verify_run *run, const char *path, const coffer_tensor *tensor, const char *verdict,
                         const char *why)
{
    cli *app = run->app;
    run->problems++;
    run->code = cli_worse(run->code, CLI_EXIT_NOT_CONFORMING);
    if (app->json) {
        put_object(&app->out, path, tensor, verdict, why);
    } else if (app->tsv) {
        put_row(&app->out, path, tensor, verdict, why);
    } else {
        put_where(&app->out, path, tensor);
        cli_put_styled(&app->out, CLI_RED, why);
        cli_put_char(&app->out, '\n');
        show_now(app);
    }
}

void verify_show_trouble(verify_run *run, const char *path, const coffer_error *err)
{
    run->problems++;
    if (run->app->tsv) {
        put_row(&run->app->out, path, NULL, "unreadable", err->message);
        run->code = cli_worse(run->code, cli_exit_code(err->code));
    } else {
        run->code = cli_worse(run->code, cli_fail(run->app, path, err));
    }
}

static void sum_up(const verify_run *run)
{
    char bytes[CLI_NUMBER_SIZE];
    cli_bytes_text(bytes, run->bytes);
    const char *by = run->key != NULL ? ", by a manifest that this key signed" : "";
    if (run->problems > 0) {
        cli_remark(run->app, "%zu problem%s; %zu file%s as %s should be%s", run->problems,
                   run->problems == 1 ? "" : "s", run->sound, run->sound == 1 ? " is" : "s are",
                   run->sound == 1 ? "it" : "they", by);
    } else if (run->sound > 0) {
        cli_remark(run->app, "%zu file%s verified%s, %s read", run->sound, run->sound == 1 ? "" : "s", by, bytes);
    }
}

/* ---- The command ---- */

static int check_usage(cli *app, const cli_arguments *arguments)
{
    const bool by_manifest = cli_given(arguments, CLI_OPTION_MANIFEST);
    const bool wants_manifest = cli_given(arguments, CLI_OPTION_KEY) || cli_given(arguments, CLI_OPTION_FOLLOW_LINKS) ||
                                cli_given(arguments, CLI_OPTION_IGNORE_EXTRA);
    if (wants_manifest && !by_manifest) {
        return cli_usage_error(app, "--key, --follow-links and --ignore-extra go with a manifest: --manifest FILE");
    }
    if (by_manifest && arguments->name_count != 1) {
        return cli_usage_error(app, "a manifest is about one path");
    }
    if (by_manifest && cli_given(arguments, CLI_OPTION_FILTER)) {
        return cli_usage_error(app, "a manifest has digests of whole files, not of tensors");
    }
    if (cli_given(arguments, CLI_OPTION_STATE) && cli_given(arguments, CLI_OPTION_FILTER)) {
        return cli_usage_error(app, "a state records whole files, not some of their tensors");
    }
    return CLI_EXIT_OK;
}

/* By the digests inside: every model below the folders that are named. Of some tensors it is the one that has them. */
static void verify_found(verify_run *run, const cli_arguments *arguments)
{
    cli_models models;
    if (run->filter.count > 0) {
        for (size_t i = 0; i < arguments->name_count; i++) {
            verify_inside(run, arguments->names[i]);
        }
        return;
    }
    const bool fine = cli_models_find(run->app, arguments->names, arguments->name_count, &models);
    run->code = cli_worse(run->code, models.code);
    for (size_t i = 0; fine && i < models.count && !cli_interrupted(); i++) {
        if (models.missing[i]) {
            verify_show_problem(run, models.paths[i], NULL, "missing", "this file of the model does not exist");
        } else {
            verify_inside(run, models.paths[i]);
        }
    }
    cli_models_free(&models);
}

/* The state is a file of its own. */
static int guard_state(cli *app, const cli_arguments *arguments, const char *state)
{
    static const cli_option_id inputs[] = { CLI_OPTION_MANIFEST, CLI_OPTION_KEY };
    int code = CLI_EXIT_OK;
    for (size_t i = 0; i < arguments->name_count && code == CLI_EXIT_OK; i++) {
        code = cli_guard_input(app, state, arguments->names[i]);
    }
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0] && code == CLI_EXIT_OK; i++) {
        const char *input = cli_value(arguments, inputs[i]);
        code = input != NULL ? cli_guard_input(app, state, input) : CLI_EXIT_OK;
    }
    return code;
}

static void verify_all(verify_run *run, const cli_arguments *arguments)
{
    cli *app = run->app;
    if (app->tsv) {
        cli_put_text(&app->out, "path\ttensor\tverdict\tmessage\n");
    }
    if (app->json) {
        cli_json_open(&app->out, '[', true);
    }
    if (run->manifest != NULL) {
        verify_by_manifest(run, arguments->names[0]);
    } else {
        verify_found(run, arguments);
    }
    if (app->json) {
        cli_json_close(&app->out, ']');
    }
}

static int run_verify(cli *app, const cli_arguments *arguments)
{
    const char *state = cli_value(arguments, CLI_OPTION_STATE);
    verify_run run = { .app = app,
                       .manifest = cli_value(arguments, CLI_OPTION_MANIFEST),
                       .key = cli_value(arguments, CLI_OPTION_KEY),
                       .follows_links = cli_given(arguments, CLI_OPTION_FOLLOW_LINKS),
                       .ignores_extra = cli_given(arguments, CLI_OPTION_IGNORE_EXTRA) };
    run.code = check_usage(app, arguments);
    if (run.code == CLI_EXIT_OK && state != NULL) {
        run.code = guard_state(app, arguments, state);
    }
    if (run.code == CLI_EXIT_OK && state != NULL) {
        run.state = cli_state_open(app, state, &run.code);
    }
    if (run.code != CLI_EXIT_OK) {
        return run.code;
    }
    if (cli_filter_init(&run.filter, app, arguments, SIZE_MAX)) {
        verify_all(&run, arguments);
        sum_up(&run);
    } else {
        run.code = CLI_EXIT_UNREADABLE;
    }
    cli_filter_free(&run.filter);
    return cli_state_close(app, run.state, run.code);
}

static const cli_option VERIFY_OPTIONS[] = {
    { CLI_OPTION_MANIFEST, 'm', "manifest", "FILE", "verify against this manifest instead of the digests inside",
      NULL },
    { CLI_OPTION_KEY, 0, "key", "FILE", "the manifest must be signed; FILE has the public key, in PEM", NULL },
    { CLI_OPTION_IGNORE_EXTRA, 0, "ignore-extra", NULL, "ignore files that the manifest does not name", NULL },
    { CLI_OPTION_FOLLOW_LINKS, 0, "follow-links", NULL, "treat links to files as files, also against the manifest",
      NULL },
    CLI_OPTION_ROW_FILTER("only tensors whose names match, by the digests inside; repeatable"),
    { CLI_OPTION_STATE, 0, "state", "FILE", "record there what was verified, and do not read it again", NULL },
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_TSV,
    CLI_OPTION_ROW_END,
};

static const cli_example VERIFY_EXAMPLES[] = {
    { "coffer verify model.safetensors", "against the digests inside it" },
    { "coffer verify . --manifest SHA256SUMS", "what sha256sum wrote" },
    { "coffer verify my-model --manifest my-model.sig --key maker.pub", "what its maker signed" },
    { "coffer verify big/model.safetensors.index.json --state big.verified", "resume where it was stopped" },
    { NULL, NULL },
};

const cli_command cli_verify = {
    .name = "verify",
    .run = run_verify,
    .summary = "verify files against their digests, or against a manifest",
    .usage = "PATH...",
    .about =
        "Reads files and says which of them, and which tensors, do not match the recorded digests: those\n"
        "inside each file, or those of a manifest: lines of sha256sum or xxhsum, or the JSON of model\n"
        "signing, whose signature --key checks. Names in a manifest are relative to PATH. Missing and changed\n"
        "files are problems; with a manifest of model signing, files that it does not name are, too. Several\n"
        "files or tensors at a time.\n"
        "\n"
        "The index of several files records which belong together, so that a mixture of two versions is\n"
        "noticed. A file without digests is not verifiable: exit code 1, never 0. Digests catch accidents;\n"
        "against attackers only a signature helps, by a key from a trusted source.\n"
        "\n"
        "With --state, files that have not changed since they were verified (device, inode, size, times) are\n"
        "not read again. It is for resuming a run: it does not detect bytes that a disk has lost since.\n"
        "\n"
        "Exit code: 0 everything matches, 1 something does not, or cannot be verified, 3 something could not\n"
        "be read. JSON: an array of {path, tensor (of problems with one), verdict (\"ok\", \"changed\",\n"
        "\"missing\", \"extra\", \"not verifiable\"), message}; what cannot be read has path and error (see coffer\n"
        "help info).\n",
    .options = VERIFY_OPTIONS,
    .examples = VERIFY_EXAMPLES,
    .least_names = 1,
    .most_names = SIZE_MAX,
};
