/* SPDX-License-Identifier: Apache-2.0 */
/* A whole model as output: see cli_model_folder.h for the contract. */
#include "cli_model_folder.h"

#include "cli_folder.h"
#include "cli_guard.h"
#include "cli_publish.h"
#include "cli_report.h"
#include "cli_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODEL_ENDING ".safetensors"
#define MODEL_INDEX ".index.json"

bool cli_names_folder(const char *output)
{
    const size_t len = output != NULL ? strlen(output) : 0;
    return len > 0 && (cli_is_slash(output[len - 1]) || cli_is_folder(output));
}

/* ---- Names ---- */

static const char *last_name(const char *path)
{
    const char *slash = cli_last_slash(path);
    return slash != NULL ? slash + 1 : path;
}

/* The length of the name without "-00001-of-00003". */
static size_t without_number(const char *name, size_t len)
{
    const size_t tail = sizeof "-00001-of-00003" - 1;
    const bool numbered = len > tail && name[len - tail] == '-' && strncmp(name + len - 9, "-of-", 4) == 0;
    return numbered ? len - tail : len;
}

static size_t without_ending(const char *name, size_t len, const char *ending)
{
    const size_t ending_len = strlen(ending);
    const bool ends = len > ending_len && memcmp(name + len - ending_len, ending, ending_len) == 0;
    return ends ? len - ending_len : len;
}

/* The name that the model has as one file, without its ending: that of its index or file. Of a file of another program
   only a name counts that programs look for. */
static void base_name(const coffer *model, const char *input, const char *wanted, char *name, size_t size)
{
    static const char *const usual[] = { "model", "adapter_model", "diffusion_pytorch_model" };
    const char *index = model != NULL ? coffer_index_path(model) : "";
    const char *old = last_name(index[0] != '\0' ? index : model != NULL ? coffer_shard_path(model, 0) : input);
    size_t len = without_ending(old, strcspn(old, "?"), MODEL_INDEX);
    len = without_number(old, without_ending(old, len, model != NULL ? MODEL_ENDING : ".bin"));
    snprintf(name, size, "%.*s", (int)(len < size ? len : size - 1), old);
    bool keeps = model != NULL && wanted == NULL && len > 0;
    for (size_t i = 0; i < sizeof usual / sizeof usual[0] && !keeps; i++) {
        keeps = strcmp(name, usual[i]) == 0;
    }
    if (!keeps) {
        snprintf(name, size, "%s", wanted != NULL ? wanted : usual[0]);
    }
}

static char *join(const char *folder, const char *name, const char *ending)
{
    const size_t size = strlen(folder) + strlen(name) + strlen(ending) + 1;
    char *path = malloc(size);
    if (path != NULL) {
        snprintf(path, size, "%s%s%s", folder, name, ending);
    }
    return path;
}

static bool name_files(cli_model_folder *folder, const char *output, const coffer *model, const char *input,
                       const char *wanted)
{
    char name[256];
    const size_t len = strlen(output);
    base_name(model, input, wanted, name, sizeof name);
    folder->folder = join(output, cli_is_slash(output[len - 1]) ? "" : "/", "");
    folder->path = folder->folder != NULL ? join(folder->folder, name, MODEL_ENDING) : NULL;
    return folder->path != NULL;
}

/* ---- Folders ---- */

/* Makes the folder and its parents, and remembers how much of the path was there. */
static int make_folders(cli_model_folder *folder)
{
    char *path = folder->folder;
    const size_t len = strlen(path);
    int code = CLI_EXIT_OK;
    folder->made_from = len;
    for (size_t at = 1; at < len && code == CLI_EXIT_OK; at++) {
        if (!cli_is_slash(path[at]) || cli_is_slash(path[at - 1]) || path[at - 1] == ':') {
            continue;
        }
        const char slash = path[at];
        bool made = false;
        path[at] = '\0';
        code = cli_is_folder(path) ? CLI_EXIT_OK : cli_publish_folder(folder->app, path, &made);
        path[at] = slash;
        folder->made_from = made && folder->made_from == len ? at : folder->made_from;
    }
    return code;
}

/* Removes folders that were made, from the innermost on. One that is not empty stays. */
static void remove_folders(cli_model_folder *folder)
{
    char *path = folder->folder;
    for (size_t at = strlen(path); at-- > folder->made_from;) {
        if (cli_is_slash(path[at])) {
            path[at] = '\0';
            (void)rmdir(path);
        }
    }
    if (folder->made_from < strlen(path)) {
        path[folder->made_from] = '\0';
        (void)rmdir(path);
    }
}

/* ---- Companions ---- */

/* The files that are published: those with bytes. What is left out is told. */
static int take_companions(cli_model_folder *folder)
{
    const coffer_companion *file = NULL;
    size_t count = 0;
    while (coffer_companions_at(folder->companions, count) != NULL) {
        count++;
    }
    folder->count = 0;
    folder->files = calloc(count + 1, sizeof *folder->files);
    if (folder->files == NULL) {
        return cli_fail_memory(folder->app, folder->path);
    }
    for (size_t i = 0; (file = coffer_companions_at(folder->companions, i)) != NULL; i++) {
        if (file->bytes != NULL) {
            folder->files[folder->count++] = *file;
            continue;
        }
        char name[256];
        coffer_escape(file->name, strlen(file->name), name, sizeof name);
        cli_remark_path(folder->app, folder->folder, "%s is left out: it cannot be read, or is too large", name);
    }
    return CLI_EXIT_OK;
}

/* Whether a file of the folder may be written; NULL: there is no memory for its path, which is freed. A file that is read is
   never replaced. */
static int check_file(const cli_model_folder *folder, char *path, const coffer *model, const char *input, bool force)
{
    if (path == NULL) {
        return cli_fail_memory(folder->app, folder->path);
    }
    int code =
        model != NULL ? cli_guard_model(folder->app, path, input, model) : cli_guard_input(folder->app, path, input);
    if (code == CLI_EXIT_OK) {
        code = cli_publish_check(folder->app, path, force);
    }
    free(path);
    return code;
}

/* The names that are known before anything is planned: the model as one file, its index, and the companions. */
static int check_files(const cli_model_folder *folder, const coffer *model, const char *input, bool force)
{
    int code = check_file(folder, join(folder->path, "", ""), model, input, force);
    if (code == CLI_EXIT_OK) {
        code = check_file(folder, join(folder->path, MODEL_INDEX, ""), model, input, force);
    }
    for (size_t i = 0; i < folder->count && code == CLI_EXIT_OK; i++) {
        code = check_file(folder, join(folder->folder, folder->files[i].name, ""), model, input, force);
    }
    return code;
}

/* A folder whose model is in a folder below it, such as a pipeline, is more than that model. */
static int check_is_whole(cli *app, const coffer *model, const char *input)
{
    const char *index = model != NULL ? coffer_index_path(model) : "";
    const char *file = index[0] != '\0' || model == NULL ? index : coffer_shard_path(model, 0);
    if (file[0] == '\0' || !cli_is_folder(input) || cli_guard_is_in_folder(input, file)) {
        return CLI_EXIT_OK;
    }
    char shown[256];
    coffer_escape(file, strlen(file), shown, sizeof shown);
    return cli_usage_error(app,
                           "the model is in a folder below this one, which is a pipeline or has other parts, too (%s): "
                           "name the folder of each part, and one for it after -o",
                           shown);
}

int cli_model_folder_open(cli_model_folder *folder, cli *app, const char *output, const coffer *model,
                          const char *input, const char *name, bool force)
{
    coffer_error err;
    *folder = (cli_model_folder){ .app = app };
    /* A file of another program has its companions where it lies, if that is where the model goes. */
    const bool known = model != NULL || (strcmp(input, "-") != 0 && strstr(input, "://") == NULL &&
                                         !cli_guard_is_in_folder(output, input));
    if (!name_files(folder, output, model, input, name)) {
        return cli_fail_memory(app, output);
    }
    if (known && coffer_companions_read(&folder->companions, model, input, &err) != COFFER_OK) {
        return cli_fail(app, err.path[0] != '\0' ? err.path : input, &err);
    }
    int code = check_is_whole(app, model, input);
    if (code == CLI_EXIT_OK && model != NULL) {
        code = cli_guard_model(app, output, input, model);
    }
    if (code == CLI_EXIT_OK) {
        code = take_companions(folder);
    }
    if (code == CLI_EXIT_OK) {
        code = check_files(folder, model, input, force);
    }
    return code == CLI_EXIT_OK ? make_folders(folder) : code;
}

/* ---- What has become untrue ---- */

typedef struct correcting {
    const cli_model_folder *folder;
    const char *name;
} correcting;

static void tell_correction(void *ctx, const char *what)
{
    const correcting *run = ctx;
    char shown[256];
    coffer_escape(what, strlen(what), shown, sizeof shown);
    cli_remark_path(run->folder->app, run->folder->folder, "%s: %s", run->name, shown);
}

void cli_model_folder_leave_out_quantisation(cli_model_folder *folder)
{
    static const char *const names[] = { "hf_quant_config.json", "quantization_map.json", "quantize_config.json",
                                         "quant_config.json" };
    size_t kept = 0;
    for (size_t i = 0; i < folder->count; i++) {
        bool is_left_out = false;
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
            is_left_out = is_left_out || strcmp(folder->files[i].name, names[k]) == 0;
        }
        if (is_left_out) {
            cli_remark_path(folder->app, folder->folder, "%s: left out", folder->files[i].name);
        } else {
            folder->files[kept++] = folder->files[i];
        }
    }
    folder->count = kept;
}

void cli_model_folder_correct(cli_model_folder *folder, const cli_config_facts *facts)
{
    for (size_t i = 0; i < folder->count; i++) {
        coffer_companion *file = &folder->files[i];
        correcting run = { folder, file->name };
        if (strcmp(file->name, "config.json") == 0 && folder->config == NULL) {
            size_t len = 0;
            folder->config = cli_config_correct(file->bytes, file->size, facts, tell_correction, &run, &len);
            file->bytes = folder->config != NULL ? folder->config : file->bytes;
            file->size = folder->config != NULL ? len : file->size;
        }
    }
}

void cli_model_folder_close(cli_model_folder *folder, bool keep)
{
    if (folder->folder != NULL && !keep) {
        remove_folders(folder);
    }
    coffer_companions_free(folder->companions);
    free(folder->files);
    free(folder->config);
    free(folder->folder);
    free(folder->path);
}
