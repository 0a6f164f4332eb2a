/* SPDX-License-Identifier: Apache-2.0 */
#include "sibling_files.h"

#include "errno_status.h"
#include "error.h"
#include "opening.h"
#include "source_http.h"
#include "url.h"

#include <string.h>

/* Files beside the input that are open at once. */
#define SIBLING_FILES_DESCRIPTORS 16

/* Whether the user wants to cancel while the first answer is awaited; as when a model is opened. */
static bool sibling_files_stop(void *ctx)
{
    const coffer_open_options *options = ctx;
    return options->progress(options->progress_ctx, 0, 1) != 0;
}

/* The watch lives on this stack, so the client forgets it before this returns. On the Hub all files are of the commit
   that the first one is of. */
static coffer_status sibling_files_open_url(coffer__sibling_files *around, const char *url,
                                            coffer_open_options *options, coffer__byte_source *source,
                                            coffer_error *err)
{
    const coffer__watch watch = { sibling_files_stop, options };
    coffer_status status = coffer__web_new(&around->web, url, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (options->progress != NULL) {
        (void)coffer__web_watch(around->web, &watch);
    }
    const coffer__location *origin = coffer__web_origin(around->web);
    if (origin->is_folder) {
        status =
            coffer__fail(err, COFFER_ERR_DIRECTORY, "the URL is that of a folder or a repository: add a file's name");
    } else {
        status = coffer__source_location(source, origin, around->allocator, err);
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

coffer_status coffer__sibling_files_open(coffer__sibling_files *around, const char *path,
                                         const coffer_open_options *options, const coffer_allocator *allocator,
                                         coffer__byte_source *source, coffer_error *err)
{
    coffer_open_options known = *options;
    known.allocator = allocator;
    memset(around, 0, sizeof *around);
    around->allocator = allocator;
    const coffer_status status = coffer__url_is(path) ? sibling_files_open_url(around, path, &known, source, err)
                                                      : coffer__source_path(source, path, err);
    return status == COFFER_OK ? status : coffer__fail_path(err, status, path);
}

/* Finds the folder, once. */
static coffer_status sibling_files_settle(coffer__sibling_files *around, const char *path, coffer_error *err)
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
        const int os_error = coffer__pool_init(&around->pool, SIBLING_FILES_DESCRIPTORS, around->allocator);
        if (os_error != 0) {
            return coffer__errno_status(err, "keep files open", NULL, os_error);
        }
        around->pooled = true;
    }
    return COFFER_OK;
}

coffer_status coffer__sibling_files_find(coffer__sibling_files *around, const char *path, coffer__name name,
                                         coffer__pooled *file, coffer__byte_source *source, coffer_error *err)
{
    coffer__path shown;
    coffer_status status = coffer__model_dir_check_path(name.text, name.len, COFFER_NO_OFFSET, err);
    if (status == COFFER_OK) {
        status = sibling_files_settle(around, path, err);
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

void coffer__sibling_files_close(coffer__sibling_files *around)
{
    if (around->pooled) {
        coffer__pool_close(&around->pool);
    }
    if (around->web != NULL) {
        coffer__web_free(around->web);
    }
}
