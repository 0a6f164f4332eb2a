/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which model a folder holds: see discover.h. The folder is listed once, and everything is decided
 * from that list (folder_names.c), so the decision does not mix two moments. Only the search for
 * traces of an interrupted save lists it again.
 */
#include "discover.h"

#include "alloc.h"
#include "errno_status.h"
#include "error.h"
#include "folder_names.h"
#include "os.h"
#include "pending_save.h"
#include "shard_name.h"
#include "url.h"

#include <errno.h>
#include <string.h>

/* ---- the list ---------------------------------------------------------------------------------------------------- */

static coffer_status discover_no_memory(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the names in the folder");
}

/* Lists the folder and sorts what was found. coffer__folder_names_free follows in any case. ENOMEM of the
   system and our own limits are one failure to the user. */
static coffer_status discover_look(coffer__folder_names *list, const char *folder, coffer_error *err)
{
    const int os_error = coffer__os_list(folder, coffer__folder_names_see, list);
    if (list->failed || os_error == ENOMEM) {
        return discover_no_memory(err);
    }
    if (os_error != 0) {
        return coffer__errno_status(err, "list the folder", folder, os_error);
    }
    return coffer__folder_names_sort(list, err);
}

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

/* The folder ends in a slash. */
static coffer_status discover_path(coffer__found *found, const char *folder, const char *name, coffer_error *err)
{
    const bool fits = coffer__path_copy(&found->path, folder) && coffer__path_append(&found->path, name, strlen(name));
    return fits ? COFFER_OK : coffer__errno_status(err, "open the file", folder, ENAMETOOLONG);
}

/* A search for what an interrupted save has left. Where anybody may make files, anybody can fake
   such a name. `model` is used again for each name that is looked at. */
typedef struct discover_search {
    const coffer__folder_names *list;
    const char *folder;
    bool found;
    coffer__found model; /* its path as one file */
} discover_search;

/* Whether that owner has one of the files in the folder, and so may be the one who is saving a
   model of them. Links are followed, since the owner of the file that a link leads to is the one
   who made it. */
static bool discover_owns_one(const discover_search *search, uint32_t owner)
{
    bool owned = false;
    coffer__found path;
    coffer__os_info file;
    for (size_t i = 0; i < search->list->count && !owned; i++) {
        owned = discover_path(&path, search->folder, search->list->names[i].text, NULL) == COFFER_OK &&
                coffer__os_inspect(path.path.text, true, &file) == 0 && file.owner == owner;
    }
    return owned;
}

/* Called for each name in the folder; ends the listing at the first trace that counts: one that is
   this user's to recover, or one of somebody who has files of the model there. The trace must be a
   regular file itself: a link could lead anywhere. The model's path, for the message, is the
   trace's name without its two endings. */
static bool discover_find_left(void *ctx, const char *text)
{
    discover_search *search = ctx;
    coffer__os_info left;
    char *path = search->model.path.text;
    if (!coffer__folder_names_is_left((coffer__name){ text, strlen(text) }) ||
        discover_path(&search->model, search->folder, text, NULL) != COFFER_OK ||
        coffer__os_inspect(path, false, &left) != 0 || left.kind != COFFER__OS_REGULAR) {
        return true;
    }
    /* It counts if this user could recover it, or if its owner has files of the model here. */
    search->found = coffer__pending_save_counts(path) || discover_owns_one(search, left.owner);
    path[strlen(path) - strlen(strrchr(path, '.')) - strlen(COFFER__INDEX_SUFFIX)] = '\0';
    return !search->found;
}

/* After an interrupted save the files in the folder may be of two models, so they are not opened as
   one without an index. A folder that cannot be listed this time counts as one without traces: it
   could be listed a moment ago, and reading it will say what is wrong. */
static coffer_status discover_check_whole(const coffer__folder_names *list, const char *folder, coffer_error *err)
{
    discover_search search = { .list = list, .folder = folder };
    if (!list->interrupted || coffer__os_list(folder, discover_find_left, &search) != 0 || !search.found) {
        return COFFER_OK;
    }
    return coffer__fail(err, COFFER_ERR_UNFINISHED,
                        "a model is being saved in this folder, or a save was interrupted, and the index is not in "
                        "place: save it again, or finish with: coffer meta --recover %p",
                        search.model.path.text);
}

/* For a set, the names move from the list to *found, since they outlive it. */
static coffer_status discover_choose(coffer__found *found, coffer__folder_names *list, const char *folder,
                                     coffer_error *err)
{
    coffer__choice choice;
    coffer_status status = coffer__folder_names_choose(list, &choice, err);
    const coffer_status whole = choice.is_doubtful ? discover_check_whole(list, folder, err) : COFFER_OK;
    if (whole != COFFER_OK || (status != COFFER_OK && status != COFFER_ERR_SHARD_MISSING)) {
        return whole != COFFER_OK ? whole : status;
    }
    found->is_index = choice.is_index;
    found->set_count = choice.set_count;
    if (status == COFFER_ERR_SHARD_MISSING) {
        (void)discover_path(found, folder, choice.missing.text, NULL);
        (void)coffer__fail_path(err, status, found->path.text);
    } else {
        status = discover_path(found, folder, list->names[choice.first].text, err);
    }
    if (choice.set_count > 0) {
        found->set = list->names;
        found->names = list->text;
        found->names_size = list->capacity;
        list->names = NULL;
        list->text = NULL;
    }
    return status;
}

/* Chooses a model in one folder. *is_pipeline tells that the folder has no model itself but the
   description of a pipeline. The list is forgotten in any case; what *found took over is no longer
   in it. */
static coffer_status discover_in(coffer__found *found, const char *folder, const coffer_allocator *allocator,
                                 bool *is_pipeline, coffer_error *err)
{
    coffer__folder_names list = { .allocator = allocator };
    coffer_status status = discover_look(&list, folder, err);
    *is_pipeline = list.is_pipeline && list.count == 0;
    if (status == COFFER_OK) {
        status = discover_choose(found, &list, folder, err);
    }
    coffer__folder_names_free(&list);
    return status;
}

/* The main model of a pipeline, which has a folder of its own. It goes one level down and never
   further, so a part that is a pipeline itself has no model. */
static coffer_status discover_in_pipeline(coffer__found *found, const coffer__path *folder,
                                          const coffer_allocator *allocator, coffer_error *err)
{
    static const char *const parts[] = { "transformer/", "unet/" };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        coffer__path part = *folder;
        bool is_pipeline = false;
        if (coffer__path_append(&part, parts[i], strlen(parts[i])) && coffer__os_exists(part.text)) {
            return discover_in(found, part.text, allocator, &is_pipeline, err);
        }
    }
    return coffer__fail(
        err, COFFER_ERR_NO_MODEL,
        "this is a pipeline of several models, and none is in transformer/ or unet/: name the folder of "
        "one");
}

bool coffer_is_index(const char *path)
{
    /* A URL may have a query after the name. */
    const char *query = coffer__url_is(path) ? strchr(path, '?') : NULL;
    const coffer__name name = { path, query != NULL ? (size_t)(query - path) : strlen(path) };
    return coffer__name_ends(name, COFFER__INDEX_SUFFIX) || strcmp(path, COFFER__INDEX_SUFFIX) == 0;
}

/* Paths of files are made by appending, so the folder gets a slash at its end first. Failures about
   one file keep that file's path; all others get the folder's. */
coffer_status coffer__discover(coffer__found *found, const char *folder, const coffer_allocator *allocator,
                               coffer_error *err)
{
    memset(found, 0, sizeof *found);
    coffer__path whole;
    const size_t len = strlen(folder);
    const bool has_slash = len > 0 && folder[len - 1] == '/';
    if (!coffer__path_copy(&whole, folder) || !coffer__path_append(&whole, "/", has_slash ? 0 : 1)) {
        return coffer__errno_status(err, "list the folder", folder, ENAMETOOLONG);
    }
    bool is_pipeline = false;
    coffer_status status = discover_in(found, whole.text, allocator, &is_pipeline, err);
    if (status == COFFER_ERR_NO_MODEL && is_pipeline) {
        status = discover_in_pipeline(found, &whole, allocator, err);
    }
    /* A missing file is the path of the error already. */
    return status == COFFER_OK || status == COFFER_ERR_SHARD_MISSING ? status : coffer__fail_path(err, status, folder);
}

/* A *found that is all zero is allowed, and so is freeing twice. */
void coffer__found_free(coffer__found *found, const coffer_allocator *allocator)
{
    coffer__free_array(allocator, found->set, found->set_count, sizeof *found->set);
    coffer__free(allocator, found->names, found->names_size);
    found->set = NULL;
    found->names = NULL;
}
