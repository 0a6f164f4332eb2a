/* SPDX-License-Identifier: Apache-2.0 */
#include "fetch_download.h"

#include "cli_files.h"
#include "cli_filter.h"
#include "cli_guard.h"
#include "cli_options.h"
#include "cli_progress.h"
#include "cli_report.h"
#include "cli_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is fetched: the tensors that the filter takes, or all. */
typedef struct fetch_choice {
    const coffer_tensor **tensors; /* to be freed; NULL: no memory */
    size_t count;
    bool all;
} fetch_choice;

static fetch_choice choose(const coffer *model, const cli_filter *filter)
{
    fetch_choice chosen = { .all = filter->count == 0 };
    chosen.tensors = calloc(coffer_count(model) + 1, sizeof(const coffer_tensor *));
    for (size_t i = 0; chosen.tensors != NULL && i < coffer_count(model); i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        if (cli_filter_takes(filter, tensor)) {
            chosen.tensors[chosen.count++] = tensor;
        }
    }
    return chosen;
}

/* A copy of what lies here goes elsewhere: no file may replace the one that it is made from. */
static int guard_files(cli *app, const coffer *model, const char *url, const char *folder)
{
    int code = CLI_EXIT_OK;
    for (size_t i = 0; i < coffer_shard_count(model) && code == CLI_EXIT_OK; i++) {
        const char *source = coffer_shard_path(model, i);
        const char *slash = strrchr(source, '/');
        const char *name = slash != NULL ? slash + 1 : source;
        const size_t size = strlen(folder) + strlen(name) + 2;
        char *target = malloc(size);
        if (target == NULL) {
            return cli_fail_memory(app, url);
        }
        snprintf(target, size, "%s/%s", folder, name);
        code = cli_guard_input(app, target, source);
        free(target);
    }
    return code;
}

/* What came. */
static void report(cli *app, const char *url, const fetch_choice *chosen, const char *folder, bool unchanged)
{
    char tensors[CLI_NUMBER_SIZE];
    char bytes[CLI_NUMBER_SIZE];
    uint64_t size = 0;
    for (size_t i = 0; i < chosen->count; i++) {
        size += chosen->tensors[i]->size;
    }
    cli_number_text(tensors, chosen->count, true);
    cli_bytes_text(bytes, size);
    cli_remark_path(app, folder, "%s: %s tensor%s, %s", unchanged ? "all of it is there already" : "fetched", tensors,
                    chosen->count == 1 ? "" : "s", bytes);
    if (app->json) {
        cli_json_open(&app->out, '{', true);
        cli_json_put_string(&app->out, "path", url);
        cli_json_put_string(&app->out, "output", folder);
        cli_json_put_string(&app->out, "done", unchanged ? "nothing" : "written");
        cli_json_put_number(&app->out, "tensors", chosen->count);
        cli_json_put_number(&app->out, "size", size);
        cli_json_close(&app->out, '}');
    }
}

static int download(cli *app, const coffer *model, const char *url, const fetch_choice *chosen, const char *folder,
                    bool force)
{
    cli_progress progress;
    coffer_error err;
    cli_progress_begin(&progress, app, "fetching", 0);
    cli_progress_part part = { &progress, 0 };
    coffer_fetch_options options = COFFER_FETCH_OPTIONS_INIT;
    options.progress = cli_progress_call;
    options.progress_ctx = &part;
    bool unchanged = false;
    options.force = force;
    options.unchanged = &unchanged;
    const coffer_tensor *const *tensors = chosen->all ? NULL : chosen->tensors;
    const coffer_status status = coffer_fetch(model, tensors, chosen->count, folder, &options, &err);
    cli_progress_finish(&progress);
    if (status != COFFER_OK) {
        return cli_fail(app, err.path[0] != '\0' ? err.path : url, &err);
    }
    report(app, url, chosen, folder, unchanged);
    return CLI_EXIT_OK;
}

/* The same into a folder that may have to be made, and goes again when nothing came into it. */
static int download_into(cli *app, const coffer *model, const char *url, const fetch_choice *chosen, const char *folder,
                         bool force)
{
    const bool made = mkdir(folder, 0777) == 0;
    if (!made && errno != EEXIST) {
        cli_say_path(app, folder, "cannot make the folder: %s", strerror(errno));
        return CLI_EXIT_UNREADABLE;
    }
    int code = guard_files(app, model, url, folder);
    code = code == CLI_EXIT_OK ? download(app, model, url, chosen, folder, force) : code;
    if (made && code != CLI_EXIT_OK) {
        (void)rmdir(folder);
    }
    return code;
}

coffer_status fetch_open(coffer **model, const char *url, coffer_error *err)
{
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.access = COFFER_READ;
    options.to_fetch = true;
    return cli_open_with(model, url, &options, err);
}

static int download_chosen(cli *app, const coffer *model, const cli_arguments *arguments, const char *url,
                           const char *folder, const cli_filter *filter)
{
    const char *idle = cli_filter_idle(filter, model);
    if (idle != NULL) {
        return cli_filter_fail(app, url, model, idle);
    }
    const fetch_choice chosen = choose(model, filter);
    if (chosen.tensors == NULL) {
        return cli_fail_memory(app, url);
    }
    int code = CLI_EXIT_NOT_CONFORMING;
    if (chosen.count == 0 && coffer_count(model) > 0) {
        cli_say_path(app, url, "the filter leaves out every tensor");
    } else {
        code = download_into(app, model, url, &chosen, folder, cli_given(arguments, CLI_OPTION_FORCE));
    }
    free(chosen.tensors);
    return code;
}

int fetch_download(cli *app, const coffer *model, const cli_arguments *arguments, const char *url, const char *folder)
{
    cli_filter filter;
    const int code = cli_filter_init(&filter, app, arguments, SIZE_MAX)
                         ? download_chosen(app, model, arguments, url, folder, &filter)
                         : CLI_EXIT_UNREADABLE;
    cli_filter_free(&filter);
    return code;
}
