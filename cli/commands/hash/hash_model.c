/* SPDX-License-Identifier: Apache-2.0 */
/* Digests of what is in files of tensors: of a model's content, and those that are recorded inside. */
#include "hash_model.h"

#include "cli_edit.h"
#include "cli_files.h"
#include "cli_guard.h"
#include "cli_interrupt.h"
#include "cli_models.h"
#include "cli_options.h"
#include "cli_progress.h"
#include "cli_report.h"
#include "cli_text.h"

#include <stdlib.h>

/* ---- Content ---- */

static uint64_t size_of_tensors(const coffer *model)
{
    uint64_t size = 0;
    for (size_t i = 0; i < coffer_count(model); i++) {
        size += coffer_at(model, i)->size;
    }
    return size;
}

static coffer_status digest_content(cli *app, const coffer *model, coffer_algorithm algorithm, uint8_t *digest,
                                    coffer_error *err)
{
    cli_progress progress;
    coffer_digest_options options = COFFER_DIGEST_OPTIONS_INIT;
    cli_progress_part part = { &progress, 0 };
    coffer_digest *digests = calloc(coffer_count(model) + 1, sizeof *digests);
    if (digests == NULL) {
        return cli_no_memory(err);
    }
    options.progress = cli_progress_call;
    options.progress_ctx = &part;
    cli_progress_begin(&progress, app, "hashing", 0);
    coffer_status status = coffer_digest_tensors(model, NULL, coffer_count(model), algorithm, digests, &options, err);
    cli_progress_finish(&progress);
    if (status == COFFER_OK) {
        status = coffer_digest_content(model, digests, algorithm, digest, coffer_algorithm_digest_size(algorithm), err);
    }
    free(digests);
    return status;
}

static int show_content(cli *app, const char *path, coffer_algorithm algorithm)
{
    coffer_error err;
    uint8_t digest[COFFER_LARGEST_DIGEST_SIZE];
    int code = CLI_EXIT_OK;
    coffer *model = cli_open(app, path, false, &code);
    if (model == NULL) {
        return code;
    }
    if (digest_content(app, model, algorithm, digest, &err) == COFFER_OK) {
        hash_show(app, &app->out, algorithm, digest, path, size_of_tensors(model));
    } else {
        code = cli_fail(app, path, &err);
    }
    coffer_close(model);
    return code;
}

int hash_content(cli *app, const cli_arguments *arguments, coffer_algorithm algorithm)
{
    int code = CLI_EXIT_OK;
    if (app->json) {
        cli_json_open(&app->out, '[', true);
    }
    cli_models models;
    const bool found = cli_models_find(app, arguments->names, arguments->name_count, &models);
    for (size_t i = 0; found && i < models.count && !cli_interrupted(); i++) {
        code = cli_worse(code, show_content(app, models.paths[i], algorithm));
    }
    if (app->json) {
        cli_json_close(&app->out, ']');
    }
    code = cli_worse(code, models.code);
    cli_models_free(&models);
    return code;
}

/* ---- Recording ---- */

static int record_file(cli *app, const char *path, coffer_algorithm algorithm, const cli_arguments *arguments)
{
    coffer_error err;
    cli_progress progress;
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    coffer_edit_way way = COFFER_EDITED_NOTHING;
    cli_progress_part part = { &progress, 0 };
    const double started = cli_seconds();
    options.follow_links = cli_given(arguments, CLI_OPTION_FOLLOW_LINKS);
    options.read_only = cli_given(arguments, CLI_OPTION_FORCE);
    options.progress = cli_progress_call;
    options.progress_ctx = &part;
    const int code = cli_guard_read_only(app, path, options.read_only);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    cli_progress_begin(&progress, app, "hashing", 0);
    const coffer_status status = coffer_record_digests(path, algorithm, &options, &way, &err);
    cli_progress_finish(&progress);
    if (status != COFFER_OK) {
        return cli_fail(app, path, &err);
    }
    return cli_report_edit(app, path, way, "", cli_seconds() - started);
}

/* Which files belong together, when each of them says what it has. */
static int record_index(cli *app, const char *path, const cli_arguments *arguments)
{
    coffer_error err;
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    coffer_edit_way way = COFFER_EDITED_NOTHING;
    const double started = cli_seconds();
    options.follow_links = cli_given(arguments, CLI_OPTION_FOLLOW_LINKS);
    if (coffer_record_content(path, &options, &way, &err) != COFFER_OK) {
        return cli_fail(app, err.path[0] != '\0' ? err.path : path, &err);
    }
    const bool changed = way != COFFER_EDITED_NOTHING;
    return cli_report_change(app, path, changed ? "rewrite" : "nothing",
                             changed ? "digests of all files are recorded in the index"
                                     : "nothing to do, the index records them already",
                             "", cli_seconds() - started);
}

/* Each file of a model by itself, then its index. */
static int record_path(cli *app, const char *path, coffer_algorithm algorithm, const cli_arguments *arguments)
{
    int code = CLI_EXIT_OK;
    coffer *model = cli_open(app, path, false, &code);
    if (model == NULL) {
        return code;
    }
    const size_t count = coffer_shard_count(model);
    for (size_t i = 0; i < count && !cli_interrupted(); i++) {
        const char *file = count == 1 ? path : coffer_shard_path(model, i);
        code = cli_worse(code, record_file(app, file, algorithm, arguments));
    }
    if (code == CLI_EXIT_OK && !cli_interrupted() && count > 1 && coffer_index_metadata(model, NULL) != NULL) {
        code = record_index(app, path, arguments);
    }
    coffer_close(model);
    return code;
}

int hash_record(cli *app, const cli_arguments *arguments, coffer_algorithm algorithm)
{
    int code = CLI_EXIT_OK;
    if (app->json) {
        cli_json_open(&app->out, '[', true);
    }
    cli_models models;
    const bool found = cli_models_find(app, arguments->names, arguments->name_count, &models);
    for (size_t i = 0; found && i < models.count && !cli_interrupted(); i++) {
        code = cli_worse(code, record_path(app, models.paths[i], algorithm, arguments));
    }
    if (app->json) {
        cli_json_close(&app->out, ']');
    }
    code = cli_worse(code, models.code);
    cli_models_free(&models);
    return code;
}
