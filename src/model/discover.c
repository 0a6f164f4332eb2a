/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which model a folder holds: see discover.h. The folder is listed once, and everything is decided
 * from that list, so the decision does not mix two moments. Only the search for traces of an
 * interrupted save lists it again.
 */
#include "discover.h"

#include "alloc.h"
#include "errno_status.h"
#include "error.h"
#include "missing.h"
#include "os.h"
#include "saved.h"
#include "shard_name.h"
#include "sort.h"

#include <errno.h>
#include <string.h>

#define DISCOVER_INDEX COFFER__FILE_SUFFIX COFFER__INDEX_SUFFIX
/* How many names of interest one folder may have. */
#define DISCOVER_MAX_NAMES 200000u
#define DISCOVER_MAX_BYTES ((size_t)64 << 20)

static bool discover_is(coffer__name name, const char *wanted)
{
    return name.len == strlen(wanted) && memcmp(name.text, wanted, name.len) == 0;
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

/* The names of interest of a folder. `names` points into `text`, so it is made only when all names
   are there and the text moves no more. */
typedef struct discover_list {
    const coffer_allocator *allocator;
    char *text; /* the names of interest, each with its NUL */
    size_t used;
    size_t capacity;
    size_t count;
    coffer__name *names; /* in byte order */
    bool is_pipeline;    /* model_index.json is there */
    bool interrupted;    /* a name is one that a save leaves */
    bool failed;         /* no memory, or too many names */
} discover_list;

/* Adds a name to the text. False without memory, or when there are too many names. Names move when
   the text grows, so nothing points into it yet. Both bounds are against a folder that somebody has
   filled; they are far above any model. */
static bool discover_add(discover_list *list, coffer__name name)
{
    if (name.len + 1 > list->capacity - list->used) {
        const size_t capacity = 2 * list->capacity + 4096;
        char *text = capacity > DISCOVER_MAX_BYTES
                         ? NULL
                         : coffer__realloc(list->allocator, list->text, list->capacity, capacity);
        if (text == NULL) {
            return false;
        }
        list->text = text;
        list->capacity = capacity;
    }
    memcpy(list->text + list->used, name.text, name.len + 1);
    list->used += name.len + 1;
    return ++list->count <= DISCOVER_MAX_NAMES;
}

/* Whether a name is one that a save leaves between the old model and the new one. The
   index's own new name (COFFER__SAVED_NEW) does not count: at that stage no file of the
   old model has changed. */
static bool discover_is_left(coffer__name name)
{
    return coffer__name_ends(name, DISCOVER_INDEX COFFER__SAVED_READY) ||
           coffer__name_ends(name, DISCOVER_INDEX COFFER__SAVED_OLD);
}

/* Called for each name in the folder; false ends the listing. Most names in a folder are not of
   interest and are dropped at once. A trace of a save is only remembered as having been seen;
   whether it counts needs a look at the file, which listing does not allow for. */
static bool discover_see(void *ctx, const char *text)
{
    discover_list *list = ctx;
    const coffer__name name = { text, strlen(text) };
    if (name.len == 0 || text[0] == '.') {
        return true;
    }
    list->is_pipeline = list->is_pipeline || discover_is(name, "model_index.json");
    list->interrupted = list->interrupted || discover_is_left(name);
    /* Only files of models and their indices are kept. */
    list->failed = (coffer__name_ends(name, COFFER__FILE_SUFFIX) || coffer__name_ends(name, DISCOVER_INDEX)) &&
                   !discover_add(list, name);
    return !list->failed;
}

/* Byte order, so that the result does not depend on the locale or on the file system. */
static bool discover_name_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer__name *names = ctx;
    return coffer__compare_names(names[a].text, names[a].len, names[b].text, names[b].len) < 0;
}

/* Sorts the names into the list. `names` has them in the order of the text, and `order` has space
   for as many numbers. The order of a listing is the file system's and differs from one machine to
   another; messages and choices must not. */
static void discover_sort_by(discover_list *list, coffer__name *names, uint32_t *order)
{
    for (size_t i = 0, at = 0; i < list->count; i++) {
        names[i] = (coffer__name){ list->text + at, strlen(list->text + at) };
        at += names[i].len + 1;
        order[i] = (uint32_t)i;
    }
    coffer__sort(order, list->count, discover_name_before, names);
    for (size_t i = 0; i < list->count; i++) {
        list->names[i] = names[order[i]];
    }
}

/* Makes the sorted list of the names. What is temporary is released here in any case; list->names
   belongs to the list, also after a failure. */
static coffer_status discover_sort(discover_list *list, coffer_error *err)
{
    const coffer_allocator *allocator = list->allocator;
    const size_t count = list->count;
    list->names = coffer__alloc_array(allocator, count, sizeof *list->names, err);
    coffer__name *names = coffer__alloc_array(allocator, count, sizeof *names, err);
    uint32_t *order = coffer__alloc_array(allocator, count, sizeof *order, err);
    const bool made = list->names != NULL && names != NULL && order != NULL;
    if (made) {
        discover_sort_by(list, names, order);
    }
    coffer__free_array(allocator, order, count, sizeof *order);
    coffer__free_array(allocator, names, count, sizeof *names);
    return made ? COFFER_OK : COFFER_ERR_MEMORY;
}

static void discover_free(discover_list *list)
{
    coffer__free_array(list->allocator, list->names, list->count, sizeof *list->names);
    coffer__free(list->allocator, list->text, list->capacity);
}

static coffer_status discover_no_memory(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the names in the folder");
}

/* Lists the folder and sorts what was found. discover_free follows in any case. ENOMEM of the
   system and our own limits are one failure to the user. */
static coffer_status discover_look(discover_list *list, const char *folder, coffer_error *err)
{
    const int os_error = coffer__os_list(folder, discover_see, list);
    if (list->failed || os_error == ENOMEM) {
        return discover_no_memory(err);
    }
    if (os_error != 0) {
        return coffer__errno_status(err, "list the folder", folder, os_error);
    }
    return discover_sort(list, err);
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
    const discover_list *list;
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
    if (!discover_is_left((coffer__name){ text, strlen(text) }) ||
        discover_path(&search->model, search->folder, text, NULL) != COFFER_OK ||
        coffer__os_inspect(path, false, &left) != 0 || left.kind != COFFER__OS_REGULAR) {
        return true;
    }
    /* It counts if this user could recover it, or if its owner has files of the model here. */
    search->found = coffer__saved_counts(path) || discover_owns_one(search, left.owner);
    path[strlen(path) - strlen(strrchr(path, '.')) - strlen(COFFER__INDEX_SUFFIX)] = '\0';
    return !search->found;
}

/* After an interrupted save the files in the folder may be of two models, so they are not opened as
   one without an index. A folder that cannot be listed this time counts as one without traces: it
   could be listed a moment ago, and reading it will say what is wrong. */
static coffer_status discover_check_whole(const discover_list *list, const char *folder, coffer_error *err)
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

static bool discover_has(const discover_list *list, const char *wanted)
{
    for (size_t i = 0; i < list->count; i++) {
        if (discover_is(list->names[i], wanted)) {
            return true;
        }
    }
    return false;
}

/* The first of the names that every loader looks for; NULL when there is none of them. These names
   decide even if other files are there, as they do for the loaders. */
static const char *discover_usual(const discover_list *list)
{
    for (size_t i = 0; i < COFFER__USUAL_NAMES; i++) {
        if (discover_has(list, coffer__usual_names[i])) {
            return coffer__usual_names[i];
        }
    }
    return NULL;
}

/* It names two of them, the first ones in byte order, so the message is the same on every
   machine. */
static coffer_status discover_ambiguous(coffer__name first, coffer__name second, const char *what, coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_AMBIGUOUS,
                        "this folder has more than one model, and it is unclear which is meant: %s %q and %q, for "
                        "example; name the file or the index",
                        what, first.text, first.len, second.text, second.len);
}

/* Names the first few missing files, by the numbers that should come in order, and says how many
   are missing. It walks the numbers and the sorted set side by side, and stops when enough are
   named: the total comes from a name and may be 999,999. What is missing is total minus what is
   there, which counts without walking. */
static void discover_fail_missing(const coffer__found *found, const coffer__shard_name *set, coffer_error *err)
{
    coffer__missing missing = { .count = 0 };
    size_t have = 0;
    for (uint32_t number = 1; missing.count < COFFER__MISSING_NAMED && number <= set->total; number++) {
        coffer__shard_name parts = { .number = 0 };
        if (have < found->set_count) {
            (void)coffer__shard_name_read(&parts, found->set[have].text, found->set[have].len);
        }
        /* This one is there. */
        if (parts.number == number) {
            have++;
            continue;
        }
        coffer__path name;
        coffer__shard_name_make(&name, found->set[0].text, set, number);
        (void)coffer__text_append(missing.names[missing.count++], sizeof missing.names[0], name.text,
                                  strlen(name.text));
    }
    missing.count = set->total - found->set_count;
    coffer__missing_fail(&missing, set->total, "the download is incomplete", err);
}

/* Checks that a set is complete. The numbers are in order, so the first gap is the first missing
   file, whose path the error gets. Names of a set differ in their numbers only, which are from 1 to
   the total, and a folder has each name once. So as many names as the total are all of them. */
static coffer_status discover_check_set(coffer__found *found, const char *folder, coffer_error *err)
{
    const coffer__name first = found->set[0];
    coffer__shard_name parts = { .total = 0 };
    size_t have = 0;
    (void)coffer__shard_name_read(&parts, first.text, first.len);
    if (found->set_count == parts.total) {
        return COFFER_OK;
    }
    const uint32_t total = parts.total;
    /* The first number that is not where it should be is the first that is missing. */
    while (have < found->set_count && coffer__shard_name_read(&parts, found->set[have].text, found->set[have].len) &&
           parts.number == have + 1) {
        have++;
    }
    coffer__path name;
    coffer__shard_name_make(&name, first.text, &parts, (uint32_t)have + 1);
    if (total - found->set_count == 1) {
        coffer__fail(err, COFFER_ERR_SHARD_MISSING,
                     "this file of the model does not exist: %u of %u files that are named like it exist; the download "
                     "is incomplete",
                     (uint64_t)found->set_count, (uint64_t)total);
    } else {
        discover_fail_missing(found, &parts, err);
    }
    coffer__fail_sizes(err, COFFER_ERR_SHARD_MISSING, total, found->set_count);
    (void)discover_path(found, folder, name.text, NULL);
    return coffer__fail_path(err, COFFER_ERR_SHARD_MISSING, found->path.text);
}

/* Chooses the only index, the only file or the only set. Without an index, traces of a save are
   looked for before several files count as a set. An index wins over any files, whatever they are
   called: it says itself which are the model's. Two indices, or files of two sets, are not chosen
   from. A single file that is not named as one of a set is a model by itself. */
static coffer_status discover_only(coffer__found *found, const discover_list *list, const char *folder,
                                   coffer_error *err)
{
    const coffer__name *index = NULL;
    for (size_t i = 0; i < list->count; i++) {
        if (coffer__name_ends(list->names[i], DISCOVER_INDEX)) {
            if (index != NULL) {
                return discover_ambiguous(*index, list->names[i], "the indices", err);
            }
            index = &list->names[i];
        }
    }
    if (index != NULL) {
        found->is_index = true;
        return discover_path(found, folder, index->text, err);
    }
    coffer__shard_name parts;
    /* There is no index. The names are sorted, so if all are of the set of the first one, they are
       that set in order. */
    const bool is_set = coffer__shard_name_read(&parts, list->names[0].text, list->names[0].len);
    const coffer_status status = is_set || list->count > 1 ? discover_check_whole(list, folder, err) : COFFER_OK;
    if (status != COFFER_OK) {
        return status;
    }
    /* No index, no save in progress: all files must be of one set. */
    for (size_t i = 1; i < list->count; i++) {
        if (!coffer__shard_name_same_set(list->names[0], list->names[i])) {
            return discover_ambiguous(list->names[0], list->names[i], "there are", err);
        }
    }
    found->set_count = is_set ? list->count : 0;
    return discover_path(found, folder, list->names[0].text, err);
}

static coffer_status discover_nothing(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_NO_MODEL,
                        "this folder has no model: there is no .safetensors file in it, and no index of several");
}

/* Chooses by the rules of discover.h, in their order. For a set, the names move from the list to
   *found. A folder without any file of interest may be one in the middle of a save, which is a
   better answer than that it has no model. */
static coffer_status discover_choose(coffer__found *found, discover_list *list, const char *folder, coffer_error *err)
{
    const char *usual = discover_usual(list);
    if (usual != NULL) {
        found->is_index = coffer__name_ends((coffer__name){ usual, strlen(usual) }, DISCOVER_INDEX);
        return discover_path(found, folder, usual, err);
    }
    coffer_status status = COFFER_OK;
    if (list->count == 0) {
        status = discover_check_whole(list, folder, err);
        return status == COFFER_OK ? discover_nothing(err) : status;
    }
    status = discover_only(found, list, folder, err);
    if (status != COFFER_OK || found->set_count == 0) {
        return status;
    }
    /* The names outlive the list, so they move. */
    found->set = list->names;
    found->names = list->text;
    found->names_size = list->capacity;
    list->names = NULL;
    list->text = NULL;
    return discover_check_set(found, folder, err);
}

/* Chooses a model in one folder. *is_pipeline tells that the folder has no model itself but the
   description of a pipeline. The list is forgotten in any case; what *found took over is no longer
   in it. */
static coffer_status discover_in(coffer__found *found, const char *folder, const coffer_allocator *allocator,
                                 bool *is_pipeline, coffer_error *err)
{
    discover_list list = { .allocator = allocator };
    coffer_status status = discover_look(&list, folder, err);
    *is_pipeline = list.is_pipeline && list.count == 0;
    if (status == COFFER_OK) {
        status = discover_choose(found, &list, folder, err);
    }
    discover_free(&list);
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
