/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a model by a path or URL, whatever is there. */
#include "error.h"
#include "foreign.h"
#include "opening.h"
#include "pending_save.h"
#include "shard_name.h"
#include "sharded.h"
#include "url.h"

#include <string.h>

/* Explains why a path leads nowhere: maybe a model is being saved there right now. *again becomes
   true if the path leads somewhere by now, so opening should be tried again. The error of the first
   failure is kept, unless there is something better to say. Between two looks the save may have
   ended, which is why the path is looked at once more before the failure is final. */
static coffer_status open_nowhere(const char *path, bool *again, coffer_error *err)
{
    coffer__path model;
    *again = false;
    if (!coffer__path_copy(&model, path)) {
        return COFFER_ERR_NOT_FOUND;
    }
    model.text[strlen(path) - (coffer_is_index(path) ? sizeof COFFER__INDEX_SUFFIX - 1 : 0)] = '\0';
    /* No save is in progress: the path is looked at once more. */
    if (!coffer__pending_save_is_under_way(model.text)) {
        *again = coffer__os_exists(path);
        return COFFER_ERR_NOT_FOUND;
    }
    coffer__fail(err, COFFER_ERR_UNFINISHED,
                 "there is no such file: a model is being saved there, or a save was interrupted; save it again, or "
                 "finish with: coffer meta --recover %p",
                 model.text);
    return coffer__fail_path(err, COFFER_ERR_UNFINISHED, path);
}

/* Opens an index, a file or a folder. That a path is a folder is found out by opening it as a file,
   so a file costs no extra call. Failures carry the path. The name decides whether it is an index,
   as in coffer_is_index; a file is told by its content and not by its name. */
static coffer_status open_path(coffer **model, const char *path, const coffer_open_options *options, coffer_error *err)
{
    if (coffer_is_index(path)) {
        return coffer__sharded_open(model, path, NULL, options, err);
    }
    const coffer_status status = coffer__open_file(model, path, options, err);
    /* The file system said so when it was opened as a file. */
    if (status == COFFER_ERR_DIRECTORY) {
        return coffer__open_folder(model, path, options, err);
    }
    return status == COFFER_OK ? status : coffer__fail_path(err, status, path);
}

/* A path may lead nowhere for a moment, while a model takes its place there: then it is tried again, but not for ever. */
static coffer_status open_local(coffer **model, const char *path, const coffer_open_options *options, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    bool again = true;
    for (unsigned round = 1; round <= COFFER__OPEN_MAX_ROUNDS && again; round++) {
        status = open_path(model, path, options, err);
        again = status == COFFER_ERR_NOT_FOUND;
        status = again ? open_nowhere(path, &again, err) : status;
    }
    return status;
}

/* *model is NULL after every failure. URLs have their own retries, and are not looked at again
   here. */
coffer_status coffer_open(coffer **model, const char *path, const coffer_open_options *options, coffer_error *err)
{
    if (model == NULL || path == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "a model cannot be opened from or into NULL");
    }
    *model = NULL;
    coffer_open_options known;
    coffer_status status = coffer__check_open_options(&known, options, err);
    if (status != COFFER_OK) {
        return coffer__fail_path(err, status, path);
    }
    status = coffer__url_is(path) ? coffer__open_url(model, path, &known, err) : open_local(model, path, &known, err);
    return status == COFFER_OK ? status : coffer__foreign_open(model, path, &known, status, err);
}
