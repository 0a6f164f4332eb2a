/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model that a folder holds. A folder cannot be listed at one moment, and somebody may be
 * saving a model in it. So what was opened counts only if the folder is then seen to hold the same
 * model; otherwise it is opened again, up to COFFER__OPEN_MAX_ROUNDS times.
 */
#include "opening.h"

#include "discover.h"
#include "error.h"
#include "sharded.h"

#include <string.h>

/* Opens what was found in a folder. One file gets its path here; several files and an index add
   paths of their own. */
static coffer_status open_found(coffer **model, const coffer__found *found, const coffer_open_options *options,
                                coffer_error *err)
{
    if (found->is_index) {
        return coffer__sharded_open(model, found->path.text, NULL, options, err);
    }
    if (found->set_count > 0) {
        return coffer__sharded_open_set(model, found->path.text, found->set, found->set_count, options, err);
    }
    const coffer_status status = coffer__open_file(model, found->path.text, options, err);
    return status == COFFER_OK ? status : coffer__fail_path(err, status, found->path.text);
}

/* Names are compared and not times: a set whose files were replaced under the same names is caught
   by the headers, or by the index that such a save brings. */
static bool open_found_same(const coffer__found *one, const coffer__found *other)
{
    bool same = one->is_index == other->is_index && one->set_count == other->set_count &&
                strcmp(one->path.text, other->path.text) == 0;
    for (size_t i = 0; i < one->set_count && same; i++) {
        same =
            one->set[i].len == other->set[i].len && memcmp(one->set[i].text, other->set[i].text, one->set[i].len) == 0;
    }
    return same;
}

/* Whether the folder still holds the same model. An index checks that by itself (sharded.c), and
   one file is always one model. Files without an index must not have got one, nor be getting one:
   their names would be taken over by the files of another model. Without memory to look again the
   answer is yes: another round would fail in the same way. A single file that has vanished is
   looked for again. */
static bool open_is_still(const coffer__found *found, const char *path, coffer_status status,
                          const coffer_open_options *options)
{
    if (found->set_count == 0 && status != COFFER_ERR_NOT_FOUND) {
        return true;
    }
    coffer__found now;
    const coffer_status again = coffer__discover(&now, path, options->allocator, NULL);
    const bool same = again == COFFER_ERR_MEMORY || (again == COFFER_OK && open_found_same(found, &now));
    coffer__found_free(&now, options->allocator);
    return same;
}

/* Looks for what the folder holds, and opens it. *still tells whether the folder still holds it, as
   far as that can be known. The three failures may come from looking between two steps of a save,
   so none of them is final by itself. All others are. */
static coffer_status open_folder_now(coffer **model, const char *path, const coffer_open_options *options, bool *still,
                                     coffer_error *err)
{
    coffer__found found;
    coffer_status status = coffer__discover(&found, path, options->allocator, err);
    *still = status != COFFER_ERR_NO_MODEL && status != COFFER_ERR_AMBIGUOUS && status != COFFER_ERR_SHARD_MISSING;
    if (status == COFFER_OK) {
        status = open_found(model, &found, options, err);
        *still = open_is_still(&found, path, status, options);
    }
    coffer__found_free(&found, options->allocator);
    return status;
}

/* A failure that two rounds in a row agree on is final: it is not the result of looking at a bad
   moment. Failures carry the path. What an earlier round has opened is closed before the next one
   begins. The rounds are bounded, so a program that saves all the time cannot keep this one here
   for ever. */
coffer_status coffer__open_folder(coffer **model, const char *path, const coffer_open_options *options,
                                  coffer_error *err)
{
    bool still = false;
    coffer_status status = COFFER_OK;
    coffer_status before = COFFER_OK;
    for (unsigned round = 1; round <= COFFER__OPEN_MAX_ROUNDS && !still; round++) {
        coffer_close(*model);
        *model = NULL;
        status = open_folder_now(model, path, options, &still, err);
        still = still || (status != COFFER_OK && status == before);
        before = status;
    }
    /* The last round opened a model, but it was replaced in the meantime. */
    if (status == COFFER_OK && !still) {
        coffer_close(*model);
        *model = NULL;
        coffer__fail(err, COFFER_ERR_CHANGED,
                     "models are being saved in this folder all the time; open it again when the program that saves "
                     "has finished");
        return coffer__fail_path(err, COFFER_ERR_CHANGED, path);
    }
    if (status == COFFER_OK) {
        (*model)->named_whole = true;
    }
    return status;
}
