/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the adapters of a command line: see cli_adapters.h for the contract. */
#include "cli_adapters.h"

#include "cli_filter.h"
#include "cli_guard.h"
#include "cli_publish.h"
#include "cli_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What PEFT has in a folder. */
static const char *const ADAPTER_FILES[] = { "adapter_model.safetensors", "adapter_config.json" };

#define ADAPTER_FILE_COUNT (sizeof ADAPTER_FILES / sizeof ADAPTER_FILES[0])

/* No --scale is 1; one is for all adapters, else there is one for each. */
static int read_scales(const cli_adapters *all, const cli_arguments *arguments)
{
    size_t count = 0;
    const char **texts = cli_values_of(arguments, CLI_OPTION_SCALE, &count);
    int code = CLI_EXIT_OK;
    if (count > 1 && count != all->count) {
        code = cli_usage_error(all->app, "%zu --scale for %zu adapters: give one for all, or one for each, in order",
                               count, all->count);
    }
    for (size_t i = 0; i < all->count && code == CLI_EXIT_OK; i++) {
        const char *text = count == 0 ? "1" : texts[count == 1 ? 0 : i];
        char *end = NULL;
        all->adapters[i].scale = strtod(text, &end);
        if (end == text || *end != '\0' || !isfinite(all->adapters[i].scale)) {
            code = cli_usage_error(all->app, "--scale needs a number: 1, 0.7, -1");
        }
    }
    free(texts);
    return code;
}

static int open_adapter(const cli_adapters *all, size_t i, const coffer_lora_options *options)
{
    coffer_error err;
    coffer_open_options open = COFFER_OPEN_OPTIONS_INIT;
    open.formats = COFFER_FORMATS_OWN;
    open.access = COFFER_READ;
    open.verify = COFFER_VERIFY_RECORDED;
    if (coffer_lora_open(&all->loras[i], all->paths[i], &open, options, &err) != COFFER_OK) {
        return cli_fail(all->app, err.path[0] != '\0' ? err.path : all->paths[i], &err);
    }
    all->adapters[i].lora = all->loras[i];
    return CLI_EXIT_OK;
}

int cli_adapters_open(cli_adapters *all, cli *app, const cli_arguments *arguments, const char *const *paths,
                      size_t count)
{
    coffer_lora_options options = COFFER_LORA_OPTIONS_INIT;
    *all = (cli_adapters){ .app = app, .paths = paths, .count = count };
    all->adapters = calloc(count, sizeof *all->adapters);
    all->loras = calloc(count, sizeof(coffer_lora *));
    if (all->adapters == NULL || all->loras == NULL) {
        return cli_fail_memory(app, paths[0]);
    }
    int code = read_scales(all, arguments);
    cli_filter filter;
    code = cli_filter_init(&filter, app, arguments, SIZE_MAX) ? code : CLI_EXIT_UNREADABLE;
    options.select = filter.patterns;
    options.select_count = filter.count;
    for (size_t i = 0; i < count && code == CLI_EXIT_OK; i++) {
        code = open_adapter(all, i, &options);
    }
    cli_filter_free(&filter);
    return code;
}

int cli_adapters_guard(const cli_adapters *all, const char *output)
{
    int code = CLI_EXIT_OK;
    for (size_t i = 0; i < all->count && code == CLI_EXIT_OK; i++) {
        code = cli_guard_model(all->app, output, all->paths[i], coffer_lora_model(all->loras[i]));
    }
    return code;
}

void cli_adapters_close(cli_adapters *all)
{
    for (size_t i = 0; i < all->count && all->loras != NULL; i++) {
        coffer_lora_close(all->loras[i]);
    }
    free(all->loras);
    free(all->adapters);
}

int cli_adapter_folder_check(cli *app, const char *folder, bool force, int (*guard)(void *ctx, const char *path),
                             void *ctx)
{
    const size_t size = strlen(folder) + 64;
    char *path = malloc(size);
    int code = path != NULL ? CLI_EXIT_OK : cli_fail_memory(app, folder);
    for (size_t i = 0; i < ADAPTER_FILE_COUNT && code == CLI_EXIT_OK; i++) {
        snprintf(path, size, "%s/%s", folder, ADAPTER_FILES[i]);
        code = cli_publish_check(app, path, force);
        if (code == CLI_EXIT_OK) {
            code = guard(ctx, path);
        }
    }
    free(path);
    return code;
}

void cli_share_text(char text[CLI_SHARE_SIZE], double share)
{
    snprintf(text, CLI_SHARE_SIZE, "%.4g %%", 100 * share);
    if (share < CLI_SHARE_OF_ALL && strcmp(text, "100 %") == 0) {
        snprintf(text, CLI_SHARE_SIZE, "more than 99.99 %%");
    }
}
