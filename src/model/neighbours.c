/* SPDX-License-Identifier: Apache-2.0 */
#include "neighbours.h"

#include "errno_status.h"
#include "error.h"
#include "opening.h"
#include "source_http.h"
#include "url.h"

#include <string.h>

/* Files beside the input that are open at once. */
#define NEIGHBOURS_DESCRIPTORS 16

/* Whether the user wants to cancel while the first answer is awaited; as when a model is opened. */
static bool neighbours_stop(void *ctx)
{
    const coffer_open_options *options = ctx;
    return options->progress(options->progress_ctx, 0, 1) != 0;
}

/* The watch lives on this stack, so the client forgets it before this returns. On the Hub all files are of the commit
   that the first one is of. */
static coffer_status neighbours_open_url(coffer__neighbours *around, const char *url, coffer_open_options *options,
                                         coffer__byte_source *source, coffer_error *err)
{
    const coffer__watch watch = { neighbours_stop, options };
    coffer_status status = coffer__web_new(&around->web, url, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (options->progress != NULL) {
        (void)coffer__web_watch(around->web, &watch);
    }
    const coffer__location *door = coffer__web_door(around->web);
    if (door->is_folder) {
        status =
            coffer__fail(err, COFFER_ERR_DIRECTORY, "the URL is that of a folder or a repository: add a file's name");
    } else {
        status = coffer__source_location(source, door, around->allocator, err);
    }
    (void)coffer__web_watch(around->web, NULL);
    if (status == COFFER_OK) {
        const char *commit = coffer__source_commit(source);
        const size_t commit_size = strlen(commit) + 1;
        const bool fits = commit_size <= sizeof around->place.commit;
        memcpy(around->place.commit, fits ? commit : "", fits ? commit_size : 1);
    }
    if (status != COFFER_OK) {
        coffer__web_free(around->web);
        around->web = NULL;
    }
    return status;
}

coffer_status coffer__neighbours_open(coffer__neighbours *around, const char *path, const coffer_open_options *options,
                                      const coffer_allocator *allocator, coffer__byte_source *source, coffer_error *err)
{
    coffer_open_options known = *options;
    known.allocator = allocator;
    memset(around, 0, sizeof *around);
    around->allocator = allocator;
    const coffer_status status = coffer__url_is(path) ? neighbours_open_url(around, path, &known, source, err)
                                                      : coffer__source_path(source, path, err);
    return status == COFFER_OK ? status : coffer__fail_path(err, status, path);
}

/* Finds the folder, once. */
static coffer_status neighbours_settle(coffer__neighbours *around, const char *path, coffer_error *err)
{
    if (!around->placed) {
        around->place.web = around->web;
        const coffer_status status = coffer__model_dir_beside(&around->place, path, err);
        if (status != COFFER_OK) {
            return status;
        }
        around->placed = true;
    }
    if (!around->pooled) {
        const int os_error = coffer__pool_init(&around->pool, NEIGHBOURS_DESCRIPTORS, around->allocator);
        if (os_error != 0) {
            return coffer__errno_status(err, "keep files open", NULL, os_error);
        }
        around->pooled = true;
    }
    return COFFER_OK;
}

coffer_status coffer__neighbours_find(coffer__neighbours *around, const char *path, coffer__name name,
                                      coffer__pooled *file, coffer__byte_source *source, coffer_error *err)
{
    coffer__path shown;
    coffer_status status = coffer__model_dir_check_path(name.text, name.len, COFFER_NO_OFFSET, err);
    if (status == COFFER_OK) {
        status = neighbours_settle(around, path, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__model_dir_open(&around->place, name, around->allocator, &around->pool, file, source, err);
    if (status != COFFER_OK && coffer__model_dir_join(&around->place, name, &shown)) {
        return coffer__fail_path(err, status, shown.text);
    }
    return status;
}

void coffer__neighbours_close(coffer__neighbours *around)
{
    if (around->pooled) {
        coffer__pool_close(&around->pool);
    }
    if (around->web != NULL) {
        coffer__web_free(around->web);
    }
}
